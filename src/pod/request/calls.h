/* SPDX-License-Identifier: Apache-2.0 */
/* src/pod/request/calls.h - the number and the duration of the CNI calls on this node since its
 * boot. CNI processes count without a lock in map cni_calls, and the agent reads it. Not counted
 * are calls that fail before their verb runs, and calls before the agent's first start. */
#ifndef MK_POD_REQUEST_CALLS_H
#define MK_POD_REQUEST_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "monokube/abi.h"
#include "base/error.h"
#include "base/histogram.h"

const char *mk_cni_command_name(unsigned int command); /* "ADD" */

/* Count a call. Errors are ignored: the call itself has already been made. */
void mk_cni_calls_add(const char *bpf_dir, enum mk_cni_command command, bool failed,
		      uint64_t took_ns);

/* Read the counts; @calls is indexed by enum mk_cni_command. -ENOENT: the datapath
 * is not loaded. */
mk_must_check int mk_cni_calls_read(const char *bpf_dir, struct mk_cni_calls calls[MK_CNI_COMMANDS],
				    struct mk_error *err);

/* Convert to a histogram in seconds. */
void mk_cni_calls_histogram(const struct mk_cni_calls *calls, struct mk_histogram *histogram);

#endif

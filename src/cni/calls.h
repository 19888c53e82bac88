/* SPDX-License-Identifier: Apache-2.0 */
/* src/cni/calls.h - how many CNI calls there were on this node, and how long they took: counted by
 * the processes of the CNI mode, without a lock, and read by the agent (map cni_calls). From the
 * node's boot on; a call whose configuration makes no sense, or that comes before the agent ran for
 * the first time, has no place to be counted. */
#ifndef MK_CNI_CALLS_H
#define MK_CNI_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "monokube/abi.h"
#include "base/error.h"
#include "base/histogram.h"

const char *mk_cni_command_name(unsigned int command); /* "ADD" */

/* Count a call. What goes wrong is nobody's business: the call itself has been made. */
void mk_cni_calls_add(const char *bpf_dir, enum mk_cni_command command, bool failed,
		      uint64_t took_ns);

/* By enum mk_cni_command. -ENOENT: the datapath is not loaded. */
mk_must_check int mk_cni_calls_read(const char *bpf_dir, struct mk_cni_calls calls[MK_CNI_COMMANDS],
				    struct mk_error *err);

/* In seconds. */
void mk_cni_calls_histogram(const struct mk_cni_calls *calls, struct mk_histogram *histogram);

#endif

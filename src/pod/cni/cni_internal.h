/* SPDX-License-Identifier: Apache-2.0 */
/* src/pod/cni/cni_internal.h - configurations that make no pod's interface; private to this
 * folder. */
#ifndef MK_POD_CNI_CNI_INTERNAL_H
#define MK_POD_CNI_CNI_INTERNAL_H

#include <stdbool.h>

#include "pod/request/calls.h"
#include "pod/request/conf.h"

/* The plugin `loopback`, which sets a container's lo up. containerd and CRI-O call it before the
 * network's plugin. If the distribution has none, the agent links /opt/cni/bin/loopback to this
 * binary. The configuration's type selects the plugin. */
bool cni_is_loopback(const struct mk_cni_conf *conf);
/* Run @command. Returns 0, or -1 with *@failure. */
mk_must_check int cni_loopback(enum mk_cni_command command, const struct mk_cni_args *args,
			       const struct mk_cni_conf *conf, struct mk_cni_failure *failure);

/* Does the configuration make one port of a function pod? Multus runs such a one for each port,
 * because it does not pass annotations on. */
bool cni_is_port(const struct mk_cni_conf *conf);
mk_must_check int cni_port(enum mk_cni_command command, const struct mk_cni_args *args,
			   struct mk_cni_conf *conf, struct mk_cni_failure *failure);

#endif

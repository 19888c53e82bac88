/* SPDX-License-Identifier: Apache-2.0 */
/* src/pod/cni/loopback.h - the plugin `loopback`, which sets a container's lo up. containerd and
 * CRI-O call it before the network's plugin. If the distribution has none, the agent links
 * /opt/cni/bin/loopback to this binary. The configuration's type selects the plugin. */
#ifndef MK_POD_CNI_LOOPBACK_H
#define MK_POD_CNI_LOOPBACK_H

#include "pod/request/calls.h"
#include "pod/request/conf.h"

bool cni_is_loopback(const struct mk_cni_conf *conf);
/* Run @command. Returns 0, or -1 with *@failure. */
mk_must_check int cni_loopback(enum mk_cni_command command, const struct mk_cni_args *args,
			       const struct mk_cni_conf *conf, struct mk_cni_failure *failure);

#endif

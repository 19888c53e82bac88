/* SPDX-License-Identifier: Apache-2.0 */
/* src/cni/loopback.h - the plugin `loopback`, which containerd and CRI-O call before that of the network:
 * it sets a container's lo up. Distributions have it; where one does not, the agent makes
 * /opt/cni/bin/loopback a link to this binary, which knows by the configuration's type what it is. */
#ifndef MK_CNI_LOOPBACK_H
#define MK_CNI_LOOPBACK_H

#include "cni/calls.h"
#include "cni/conf.h"

bool mk_cni_is_loopback(const struct mk_cni_conf *conf);
/* Do what @command says; 0, or -1 and *@failure. */
mk_must_check int mk_cni_loopback(enum mk_cni_command command, const struct mk_cni_args *args,
				  const struct mk_cni_conf *conf, struct mk_cni_failure *failure);

#endif

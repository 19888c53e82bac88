/* SPDX-License-Identifier: Apache-2.0 */
/* src/pod/endpoint/bandwidth.h - the capability bandwidth: limits for what a pod receives and
 * sends. */
#ifndef MK_POD_ENDPOINT_BANDWIDTH_H
#define MK_POD_ENDPOINT_BANDWIDTH_H

#include "base/netlink/netlink.h"
#include "pod/request/conf.h"

/* Rate 0: no limit. */
struct mk_cni_bandwidth {
	struct mk_nl_tbf ingress; /* to the pod: a qdisc of the host's end */
	struct mk_nl_tbf egress; /* from the pod: a qdisc of the pod's end */
};

/* Read ingressRate, ingressBurst, egressRate and egressBurst (bits) from the configuration itself.
 * If it has none of them, read runtimeConfig.bandwidth, as the reference plugin does. Pure. */
mk_must_check int mk_cni_bandwidth_read(struct mk_cni_bandwidth *bandwidth,
					const struct mk_cni_conf *conf,
					struct mk_cni_failure *failure);

#endif

/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 OR BSD-2-Clause */
/* include/monokube/idle.h - how long a session may be idle. These limits are defined once for both
 * users. The agent's sweep removes sessions that are idle for longer (the limits are listed in
 * src/datapath/sessions/sweep.h). The programs do so if they need the space (bpf/eviction.h). */
#ifndef MONOKUBE_IDLE_H
#define MONOKUBE_IDLE_H

#include <linux/in.h>
#include "abi.h"

#define MK_SECOND_NS	   1000000000ULL
#define MK_IDLE_OVER_S	   10
#define MK_IDLE_ALWAYS_INL static inline __attribute__((always_inline))

MK_IDLE_ALWAYS_INL __u32 mk_tcp_idle_limit_s(__u8 either, __u8 both)
{
	if (either & MK_SESSION_RST || both & MK_SESSION_FIN)
		return MK_IDLE_OVER_S;
	if (!(either & MK_SESSION_OPEN))
		return 120;
	return either & MK_SESSION_FIN ? 3600 : 24 * 3600;
}

MK_IDLE_ALWAYS_INL __u32 mk_sctp_idle_limit_s(__u8 either, __u8 both)
{
	if (either & MK_SESSION_RST || both & MK_SESSION_FIN)
		return MK_IDLE_OVER_S;
	return either & MK_SESSION_OPEN ? 600 : 120;
}

/* The limit of a session of @proto, from the flags of its two entries. */
MK_IDLE_ALWAYS_INL __u32 mk_idle_limit_s(__u8 proto, __u8 flags, __u8 pair_flags)
{
	switch (proto) {
	case IPPROTO_TCP:
		return mk_tcp_idle_limit_s(flags | pair_flags, flags & pair_flags);
	case IPPROTO_SCTP:
		return mk_sctp_idle_limit_s(flags | pair_flags, flags & pair_flags);
	case IPPROTO_UDP:
		return 120;
	case IPPROTO_ICMP:
		return 30;
	default:
		return 600;
	}
}

#undef MK_IDLE_ALWAYS_INL

#endif

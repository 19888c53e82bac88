/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/answer.h - which answers of a flow that another node has delegated (direct_return.h) go by
 * that node. */
#ifndef MK_BPF_ANSWER_H
#define MK_BPF_ANSWER_H

#include "deliver.h"
#include "session.h"

/* Does a packet whose session has VIA_OVERLAY go to the pod, or straight to the client? @sender is
 * its source, before it is translated. The session is @established or not. All answers of a flow
 * that came translated keep their source and go back. A fragment goes straight, because the others
 * may not fit the overlay. */
static __always_inline int needs_no_node(struct __sk_buff *skb, const struct packet *pkt,
					 const struct mk_addr *sender,
					 const struct session_hit *hit, int established)
{
	const struct mk_link_set *links = links_now();

	if (hit->flags & MK_SESSION_FORWARD)
		return 1;
	if (mk_addr_eq(&hit->to.saddr, sender))
		return 0;
	if (pkt->fragment != MK_WHOLE)
		return 1;
	if (established && !(pkt->tcp_flags & (MK_TCP_SYN | MK_TCP_FIN | MK_TCP_RST)))
		return 1;
	return links && wire_bytes(skb, pkt) > links->overlay_mtu_bytes;
}

#endif

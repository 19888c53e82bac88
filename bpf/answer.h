/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/answer.h - which answers of a flow that another node has delegated (direct_return.h) go by
 * that node. */
#ifndef MK_BPF_ANSWER_H
#define MK_BPF_ANSWER_H

#include "deliver.h"
#include "session.h"

/* A connection has moved to another node (note_node()). That node sees its session as established
 * after one answer without SYN. So it gets one answer a second, beginning with the next, but none
 * before the handshake is complete: a pod answers forged segments, too. @sent: the answer's tuple,
 * before it is translated. */
static __always_inline int is_turn_of_node(const struct mk_tuple *sent)
{
	struct mk_session *session = bpf_map_lookup_elem(&sessions, sent);
	__u8 now_s = session_clock_ns() / MK_SECOND_NS & MK_SPOKE_SECONDS;

	if (!session || session_is_half_open(session) || session->spoke == now_s)
		return 0;
	session->spoke = now_s;
	return 1;
}

/* Does a packet whose session has VIA_OVERLAY go to the pod, or straight to the client? @sent is
 * its tuple before it is translated. The session is @established or not; of TCP this does not
 * matter. All answers of a flow that came translated keep their source and go back. A fragment goes
 * straight, because the others may not fit the overlay. */
static __always_inline int needs_no_node(struct __sk_buff *skb, const struct packet *pkt,
					 const struct mk_tuple *sent, const struct session_hit *hit,
					 int established)
{
	const struct mk_link_set *links = links_now();
	int is_data;

	if (hit->flags & MK_SESSION_FORWARD)
		return 1;
	if (mk_addr_eq(&hit->to.saddr, &sent->saddr))
		return 0;
	if (pkt->fragment != MK_WHOLE)
		return 1;
	is_data = (established || pkt->l4 == MK_L4_TCP) &&
		  !(pkt->tcp_flags & (MK_TCP_SYN | MK_TCP_FIN | MK_TCP_RST));
	if (is_data && hit->node)
		return 1;
	if (links && wire_bytes(skb, pkt) > links->overlay_mtu_bytes)
		return 1;
	return is_data && !is_turn_of_node(sent);
}

#endif

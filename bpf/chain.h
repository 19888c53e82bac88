/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/chain.h - the data that one program passes to the next: skb->cb, kept across tail calls. A
 * redirect clears it. The first program of every hook writes all of it. */
#ifndef MK_BPF_CHAIN_H
#define MK_BPF_CHAIN_H

#include "drop.h"
#include "packet.h"

enum chain_flags {
	CHAIN_TRANSLATED = 1 << 0, /* a session has rewritten the packet */
	CHAIN_REUSES = 1 << 3, /* for MK_PROG_OPEN: an earlier session of the flow is over */
	CHAIN_NEW_SOURCE = 1 << 2, /* ... including its source */
	CHAIN_PLAIN = 1 << 5, /* for nat and elb: the flow has no session but nat's */
	CHAIN_MASQUERADES = 1 << 7, /* for MK_PROG_OPEN: the client does not keep its address */
	/* the same bits as in the session's flags */
	CHAIN_VIA_OVERLAY = MK_SESSION_VIA_OVERLAY, /* to another node by the overlay */
	CHAIN_VIA_HOST = MK_SESSION_VIA_HOST, /* to the host's stack, which forwards this flow */
	CHAIN_LOOPBACK = MK_SESSION_LOOPBACK, /* to the host, by its loopback device */
};
#define CHAIN_TO_HOST	 (CHAIN_VIA_HOST | CHAIN_LOOPBACK)
#define CHAIN_OF_SESSION (CHAIN_TO_HOST | CHAIN_VIA_OVERLAY)

/* The way of a session's packets, from its entry's flags: VIA_OVERLAY is a way in reverse entries
 * only. */
static __always_inline __u8 chain_way(__u8 session_flags)
{
	return session_flags &
	       (session_flags & MK_SESSION_FORWARD ? CHAIN_TO_HOST : CHAIN_OF_SESSION);
}

/* The destination of a flow's first packet. The session is still to be opened if it is less than
 * CHAIN_FOLLOWS. */
enum chain_opens {
	CHAIN_OPENS_NONE, /* the flow needs no session */
	CHAIN_OPENS_SERVICE, /* a Service's frontend */
	CHAIN_OPENS_HOST_PORT, /* a host port: a port of this host that leads to a pod */
	CHAIN_OPENS_EXTERNAL, /* an external address of this cluster (clusters.h) */
	CHAIN_OPENS_DELEGATED, /* a frontend whose node has delegated the flow (direct_return.h) */
	CHAIN_OPENS_OWN, /* none of them: the packet's own destination */
	CHAIN_FOLLOWS, /* the flow has a session, and program `policy` has to see it again */
	CHAIN_RESUMES, /* .. and a path, whose replica at room->flow.resume is to be replaced */
};

/* The data in skb->cb. Each comment ends with the program that writes the member. */
struct chain_ctx {
	__u8 hook; /* enum mk_hook; first program */
	__u8 l4 : 4; /* enum mk_l4; first program */
	__u8 fragment : 4; /* enum mk_fragment_state; first program */
	__u8 proto; /* of layer 4, behind extension headers; first program */
	__u8 tcp_flags; /* first program */
	__u16 l4_off; /* first program */
	__u8 l4_len; /* first program */
	__u8 flags; /* enum chain_flags; any program */
	__be16 sport, dport; /* of the packet now; programs that rewrite it */
	union {
		struct { /* for MK_PROG_ERROR: the ICMP error to send; the program that refuses */
			__u8 icmp_type, icmp_code;
		};
		/* for MK_PROG_OPEN, MK_PROG_POLICY: the session; ilb and elb */
		struct {
			__u8 opens; /* enum chain_opens */
			/* enum mk_session_flags of the reverse entry; CHAIN_FOLLOWS and
			 * CHAIN_RESUMES: of the packet's */
			__u8 reverse_flags;
		};
	};
	union {
		__u16 mtu_bytes; /* for MK_PROG_ERROR: the MTU to report */
		__u16 fragmented_bytes; /* for the others: packet.fragmented_bytes; first program */
	};
};
_Static_assert(sizeof(struct chain_ctx) <= 5 * 4, "skb->cb");

/* Is the packet the first one of a flow to a Service? */
static __always_inline int opens_service(const struct chain_ctx *ctx)
{
	return ctx->opens == CHAIN_OPENS_SERVICE || ctx->opens == CHAIN_OPENS_DELEGATED;
}

union chain_words {
	struct chain_ctx ctx;
	__u32 word[4];
};
_Static_assert(sizeof(union chain_words) == 16, "chain_load and chain_store copy four words");

static __always_inline void chain_store(struct __sk_buff *skb, const struct chain_ctx *ctx)
{
	union chain_words w = { .ctx = *ctx };

	skb->cb[0] = w.word[0];
	skb->cb[1] = w.word[1];
	skb->cb[2] = w.word[2];
	skb->cb[3] = w.word[3];
}

static __always_inline void chain_load(struct __sk_buff *skb, struct chain_ctx *ctx)
{
	union chain_words w;

	w.word[0] = skb->cb[0];
	w.word[1] = skb->cb[1];
	w.word[2] = skb->cb[2];
	w.word[3] = skb->cb[3];
	*ctx = w.ctx;
}

/* Continue in program @prog and pass @pkt to it. */
static __always_inline int chain_next(struct __sk_buff *skb, struct chain_ctx *ctx,
				      const struct packet *pkt, enum mk_prog prog)
{
	ctx->l4 = pkt->l4;
	ctx->fragment = pkt->fragment;
	ctx->proto = pkt->tuple.proto;
	ctx->tcp_flags = pkt->tcp_flags;
	ctx->l4_off = pkt->l4_off;
	ctx->l4_len = pkt->l4_len;
	ctx->sport = pkt->tuple.sport;
	ctx->dport = pkt->tuple.dport;
	if (prog != MK_PROG_ERROR)
		ctx->fragmented_bytes = pkt->fragmented_bytes;
	chain_store(skb, ctx);
	bpf_tail_call(skb, &chain, prog);
	return drop(skb, ctx->hook, MK_DROP_CHAIN_BROKEN, &pkt->tuple);
}

/* Read what chain_next() has passed: addresses from the packet, the rest from skb->cb. Returns
 * MK_GO_ON or a drop reason. */
static __always_inline int chain_packet(struct __sk_buff *skb, struct chain_ctx *ctx,
					struct packet *pkt)
{
	ip_header *ip = packet_at(skb, MK_L3_OFF, sizeof(*ip));

	chain_load(skb, ctx);
	__builtin_memset(pkt, 0, sizeof(*pkt));
	if (!ip)
		return MK_DROP_TRUNCATED;
	tuple_from_ip(&pkt->tuple, ip);
	pkt->tuple.proto = ctx->proto;
	pkt->tuple.sport = ctx->sport;
	pkt->tuple.dport = ctx->dport;
	pkt->l4_off = ctx->l4_off & MK_L4_OFF_MASK; /* for the verifier */
	pkt->l4_len = ctx->l4_len;
	pkt->l4 = ctx->l4;
	pkt->fragment = ctx->fragment;
	pkt->tcp_flags = ctx->tcp_flags;
	pkt->fragmented_bytes = ctx->fragmented_bytes;
	return MK_GO_ON;
}

/* Answer the packet with an ICMP error instead of forwarding it. Program `error` reads @reason from
 * skb->cb[4] and counts the drop. */
static __always_inline int chain_error(struct __sk_buff *skb, struct chain_ctx *ctx,
				       const struct packet *pkt, enum mk_drop_reason reason,
				       __u8 icmp_type, __u8 icmp_code, __u16 mtu_bytes)
{
	/* never an error about an error or a later fragment (RFC 1122 3.2.2) */
	if (pkt->l4 == MK_L4_ICMP_ERROR || pkt->fragment == MK_LATER_FRAGMENT)
		return drop(skb, ctx->hook, reason, &pkt->tuple);
	ctx->icmp_type = icmp_type;
	ctx->icmp_code = icmp_code;
	ctx->mtu_bytes = mtu_bytes;
	skb->cb[4] = reason;
	return chain_next(skb, ctx, pkt, MK_PROG_ERROR);
}

#endif

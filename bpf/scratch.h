/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/scratch.h - room for what does not fit on the stack with IPv6's addresses. It belongs to one
 * run of a program: no program calls a helper that runs another one while it uses this. */
#ifndef MK_BPF_SCRATCH_H
#define MK_BPF_SCRATCH_H

#include "packet.h"

/* The longest part of a packet that an ICMP error quotes: 60 or 256 bytes of headers, and how much
 * of layer 4. TCP: at least up to its checksum field, because the kernel cuts no packet before
 * that. SCTP: the sender also checks an INIT's type and tag (RFC 9260, 10). */
#define MK_QUOTE_L4_BYTES  20
#define MK_QUOTE_BYTES_MAX (MK_BY_FAMILY(60, 256) + MK_QUOTE_L4_BYTES)

struct scratch {
	struct mk_session session, copy; /* on their way into a table */
	struct mk_session_place place;
	struct inner_packet inner; /* an ICMP error's translation */
	struct mk_tuple inner_to, outer;
	__u8 quote[MK_QUOTE_BYTES_MAX];
};
MK_MAP(scratch, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct scratch, 1, 0);

/* Never returns NULL, but the verifier does not know that. */
static __always_inline struct scratch *scratch_of_this_cpu(void)
{
	const __u32 zero = 0;

	return bpf_map_lookup_elem(&scratch, &zero);
}

#endif

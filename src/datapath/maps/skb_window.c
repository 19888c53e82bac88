// SPDX-License-Identifier: Apache-2.0
/* Where the running kernel's struct sk_buff has the members that bpf/partial.h reads. */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <string.h>

#include "monokube/abi.h"
#include "datapath/maps/maps_internal.h"

/* Find member @name of the structure @type, also inside its anonymous members. Returns its first
 * bit, or -1. */
static int member_bit(const struct btf *btf, const struct btf_type *type, const char *name)
{
	for (int i = 0; type && btf_is_composite(type) && i < btf_vlen(type); i++) {
		const struct btf_member *member = &btf_members(type)[i];
		const char *own_name = btf__name_by_offset(btf, member->name_off);
		int bit = (int)btf_member_bit_offset(type, (__u32)i), inner;

		if (own_name && strcmp(own_name, name) == 0)
			return bit;
		inner = own_name && *own_name
				? -1
				: member_bit(btf, btf__type_by_id(btf, member->type), name);
		if (inner >= 0)
			return bit + inner;
	}
	return -1;
}

struct skb_window_bits {
	int csum, network, summed;
};

static bool find_bits(struct skb_window_bits *bits)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int id = btf ? btf__find_by_name_kind(btf, "sk_buff", BTF_KIND_STRUCT) : -1;
	const struct btf_type *type = id > 0 ? btf__type_by_id(btf, (__u32)id) : NULL;

	bits->csum = member_bit(btf, type, "csum_start");
	bits->network = member_bit(btf, type, "network_header");
	bits->summed = member_bit(btf, type, "ip_summed");
	btf__free(btf);
	return bits->csum >= 0 && bits->network >= 0 && bits->summed >= 0;
}

static bool may_read(void)
{
	return libbpf_probe_bpf_helper(BPF_PROG_TYPE_SCHED_CLS, BPF_FUNC_probe_read_kernel, NULL) ==
	       1;
}

/* How far to shift the byte, so that the two bits from @bit on are its lowest ones. BTF counts from
 * the lowest bit on a little-endian machine, from the highest on others. */
static __u8 shift_of(int bit)
{
	return (__u8)(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? bit % 8 : 6 - bit % 8);
}

static int first_byte(const struct skb_window_bits *bits)
{
	int bit = bits->csum < bits->network ? bits->csum : bits->network;

	return (bit < bits->summed ? bit : bits->summed) / 8;
}

/* Are the @bytes from @bit on inside a window that begins at byte @first? */
static bool is_inside(int first, int bit, int bytes)
{
	return bit / 8 - first + bytes <= MK_SKB_WINDOW_BYTES;
}

static struct mk_skb_window find_window(void)
{
	const struct mk_skb_window unknown = { 0 };
	struct skb_window_bits bits;
	int first;

	if (!may_read() || !find_bits(&bits))
		return unknown;
	first = first_byte(&bits);
	if (!is_inside(first, bits.csum, 2 * sizeof(__u16)) ||
	    !is_inside(first, bits.network, sizeof(__u16)) || !is_inside(first, bits.summed, 1))
		return unknown;
	return (struct mk_skb_window){
		.off = (__u16)first,
		.csum_off = (__u8)(bits.csum / 8 - first),
		.network_off = (__u8)(bits.network / 8 - first),
		.summed_off = (__u8)(bits.summed / 8 - first),
		.summed_shift = shift_of(bits.summed),
	};
}

const struct mk_skb_window *object_skb_window(void)
{
	static struct mk_skb_window window;
	static bool is_known;
	bool quiet;

	if (!is_known) {
		quiet = bpflog_quiet(true);
		window = find_window();
		bpflog_quiet(quiet);
		is_known = true;
	}
	return &window;
}

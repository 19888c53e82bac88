// SPDX-License-Identifier: Apache-2.0
/* test/bpf/fixture_load.c - load the datapath of fixture.h's node, if a case needs another than the
 * last. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <string.h>

#include "bpf/fixture.h"
#include "datapath/maps/maps_internal.h"
#include "datapath/maps/object.h"
#include "service/service.h"

#define FIXTURE_MAGLEV_ROOM mk_maglev_room(MK_MAGLEV_SLOTS)

#define USUAL                                                \
	{                                                    \
		.nat_port_min = 49152, .nat_port_max = 65535 \
	}

/* The settings that a test makes before fixture_load(). */
static struct settings {
	uint16_t nat_port_min, nat_port_max;
	uint32_t syn_ns;
	bool exact_clock, before_linux_6_16;
	bool keeps_source, keeps_client, returns_direct;
	bool wide; /* FIXTURE_WIDE_NET */
	bool both; /* IPv4's programs at the hooks, IPv6's behind them */
	bool alone; /* not even if the run is about both */
	bool clusters; /* there are others */
	bool encrypts_all; /* encryption: WireGuardOnly */
	struct mk_skb_window window; /* usual: this kernel's */
	bool other_underlay; /* the overlay's packets between nodes have the other family */
} settings = USUAL;

/* The datapath stays for the next case that needs the same. */
static struct bpf_object *datapath;
static struct bpf_object *front; /* IPv4's, if IPv6's is behind it, otherwise NULL */
static struct mk_node loaded_node;
static bool loaded_small, loaded_both;

static void fill_node(struct mk_node *node)
{
	node->vtep_addr = fixture_addr("10.18.0.1");
	node->gateway_addr = fixture_addr("10.244.1.254");
	node->vpod_addr = fixture_addr("10.244.1.1");
	node->pod_net = fixture_addr("10.244.1.0");
	node->pod_mask = family_mask(24);
	node->pod_slots = FIXTURE_POD_SLOTS;
	node->pod_host_bits = family_is6() ? 64 : 8;
	node->cluster_net = fixture_addr(settings.wide ? FIXTURE_WIDE_NET : "10.244.0.0");
	node->cluster_mask = family_mask(settings.wide ? FIXTURE_WIDE_BITS : 16);
	node->vtep_net = fixture_addr("10.18.0.0");
	node->vtep_mask = family_mask(16);
	node->nat_port_min = settings.nat_port_min;
	node->nat_port_max = settings.nat_port_max;
	node->maglev_slots = MK_MAGLEV_SLOTS;
	node->maglev_mask = FIXTURE_MAGLEV_ROOM - 1;
	node->has_coarse_clock = !settings.exact_clock && object_has_coarse_clock();
	node->has_ipv6_csum = family_is6() && !settings.before_linux_6_16 && object_has_ipv6_csum();
	node->skb = settings.window.off ? settings.window : *object_skb_window();
	node->keeps_source = settings.keeps_source;
	node->keeps_client = settings.keeps_client;
	node->returns_direct = settings.returns_direct;
	node->syn_ns = settings.syn_ns;
	node->has_other_family = settings.both && !family_is6();
	node->is_carried_by_other = settings.other_underlay && settings.both;
	node->checks_far_carriers = settings.other_underlay && !settings.both;
	node->cluster_number = settings.clusters ? FIXTURE_CLUSTER : 0;
	node->encrypts = settings.clusters;
	node->encrypts_all = settings.encrypts_all;
	node->vxlan_port = htons(4789);
	fixture_mac("10.244.1.254", node->gateway_mac);
	fixture_mac("10.18.0.1", node->vtep_mac);
}

void fixture_fill_chain(void)
{
	static const struct {
		enum mk_prog slot;
		const char *program;
	} slots[] = {
		{ MK_PROG_ROUTER, "router" },
		{ MK_PROG_ELB, "elb" },
		{ MK_PROG_NAT, "nat" },
		{ MK_PROG_ERROR, "error" },
		{ MK_PROG_MONITORED, "router" },
		{ MK_PROG_HOLD, "hold" },
		{ MK_PROG_RELEASE, "release" },
		{ MK_PROG_UPLINK, "nat_uplink" },
		{ MK_PROG_OPEN, "open" },
		{ MK_PROG_NDP, "ndp" },
		{ MK_PROG_POLICY, "policy" },
		{ MK_PROG_SFC, "sfc" },
		{ MK_PROG_SFC_OPEN, "sfc_open" },
		{ MK_PROG_SFC_SESSION, "sfc_session" },
		{ MK_PROG_SFC_TAP, "sfc_tap" },
		{ MK_PROG_SFC_ANSWER, "sfc_answer" },
		{ MK_PROG_SFC_END, "sfc_end" },
		{ MK_PROG_CLUSTER, "cluster_out" },
		{ MK_PROG_ILB_CLUSTER, "ilb_cluster" },
		{ MK_PROG_OVERLAY, "ilb_overlay" },
		{ MK_PROG_CLIENT, "client" },
	};

	for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
		if (slots[i].slot == MK_PROG_NDP && !family_is6())
			continue;
		__u32 slot = slots[i].slot, fd = (__u32)fixture_program(slots[i].program);

		ck_assert_int_eq(bpf_map_update_elem(fixture_map("chain"), &slot, &fd, 0), 0);
	}
}

static void make_small(struct bpf_object *object)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, object)
	{
		enum bpf_map_type type = bpf_map__type(map);

		if (type == BPF_MAP_TYPE_HASH || type == BPF_MAP_TYPE_LRU_HASH)
			ck_assert_int_eq(bpf_map__set_max_entries(map, FIXTURE_SMALL), 0);
		if (type == BPF_MAP_TYPE_QUEUE)
			ck_assert_int_eq(
				bpf_map__set_max_entries(map, mk_session_places(FIXTURE_SMALL)), 0);
	}
}

static struct bpf_map *found_map(const struct bpf_object *object, const char *name)
{
	return bpf_object__find_map_by_name(object, name);
}

static struct bpf_object *load_object(const struct mk_node *node, bool small)
{
	struct mk_error err = { 0 };
	struct bpf_object *object = object_open(node, &err);

	ck_assert_msg(object && object_put_node(object, node, &err) == 0, "%s",
		      mk_error_text(&err));
	ck_assert_int_eq(bpf_map__set_max_entries(found_map(object, "pods"), node->pod_slots), 0);
	ck_assert_int_eq(
		bpf_map__set_max_entries(found_map(object, "pod_policies"), node->pod_slots), 0);
	ck_assert_int_eq(
		bpf_map__set_value_size(found_map(object, "maglev"), FIXTURE_MAGLEV_ROOM * 2), 0);
	if (small)
		make_small(object);
	ck_assert_msg(bpf_object__load(object) == 0, "cannot load the BPF object (root?)");
	return object;
}

void fixture_fill_other_family(void)
{
	for (__u32 slot = 0; front && slot < MK_ENTRY_COUNT; slot++) {
		__u32 fd = (__u32)fixture_program(mk_entry_programs[slot]);

		ck_assert_int_eq(bpf_map_update_elem(fixture_other_family(), &slot, &fd, BPF_ANY),
				 0);
	}
}

int fixture_other_family(void)
{
	return bpf_map__fd(found_map(front ? front : datapath, "other_family"));
}

/* Load IPv4's programs, with empty tables. */
static void load_front(void)
{
	struct mk_node node = { 0 };

	family_use(AF_INET);
	fill_node(&node);
	front = load_object(&node, true);
	family_use_ipv6();
}

static void load(bool small)
{
	struct mk_node node = { 0 };

	settings.both |= family_is_behind() && !settings.alone;
	fill_node(&node);
	if (datapath && small == loaded_small && settings.both == loaded_both &&
	    memcmp(&node, &loaded_node, sizeof(node)) == 0)
		return;
	bpf_object__close(datapath);
	bpf_object__close(front);
	front = NULL;
	datapath = load_object(&node, small);
	if (settings.both && family_is6())
		load_front();
	fixture_fill_chain();
	loaded_node = node;
	loaded_small = small;
	loaded_both = settings.both;
}

void fixture_nat_ports(uint16_t min, uint16_t max)
{
	settings.nat_port_min = min;
	settings.nat_port_max = max;
}

void fixture_wide_cluster(void)
{
	settings.wide = true;
}

void fixture_exact_clock(void)
{
	settings.exact_clock = true;
}

void fixture_keep_source(void)
{
	settings.keeps_source = true;
}

void fixture_syn_ns(uint32_t ns)
{
	settings.syn_ns = ns;
}

void fixture_keep_client(void)
{
	settings.keeps_client = true;
}

void fixture_return_directly(void)
{
	settings.keeps_client = true;
	settings.returns_direct = true;
}

void fixture_both_families(void)
{
	settings.both = true;
}

void fixture_one_family(void)
{
	settings.alone = true;
}

/* The byte of struct sk_buff at which skb->cb of a program begins: `data` of struct qdisc_skb_cb. */
static size_t cb_off(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int id = btf__find_by_name_kind(btf, "sk_buff", BTF_KIND_STRUCT);
	const struct btf_type *type = btf__type_by_id(btf, (__u32)id);
	size_t off = 0;

	for (int i = 0; type && i < btf_vlen(type); i++)
		if (strcmp(btf__name_by_offset(btf, btf_members(type)[i].name_off), "cb") == 0)
			off = btf_members(type)[i].offset / 8 + 8;
	btf__free(btf);
	ck_assert_uint_gt(off, 0);
	return off;
}

void fixture_judge_checksums(void)
{
	settings.window = (struct mk_skb_window){
		.off = (__u16)cb_off(),
		.network_off = 4,
		.summed_off = 8,
		.summed_shift = FIXTURE_SUMMED_SHIFT,
		.of_all_sockets = 1,
	};
}

void fixture_clusters(void)
{
	settings.clusters = true;
}

void fixture_encrypts_all(void)
{
	settings.encrypts_all = true;
}

void fixture_other_underlay(void)
{
	settings.other_underlay = true;
}

void fixture_before_linux_6_16(void)
{
	settings.before_linux_6_16 = true;
}

void fixture_load(void)
{
	load(false);
}

void fixture_load_small(void)
{
	load(true);
}

void fixture_unload(void)
{
	settings = (struct settings)USUAL;
}

int fixture_front_map(const char *map)
{
	return front ? bpf_map__fd(found_map(front, map)) : -1;
}

int fixture_map(const char *map)
{
	int fd = bpf_object__find_map_fd_by_name(datapath, map);

	ck_assert_msg(fd >= 0, "no map '%s'", map);
	return fd;
}

static int find_program(const struct bpf_object *object, const char *program)
{
	const struct bpf_program *found = bpf_object__find_program_by_name(object, program);

	ck_assert_msg(found, "no program '%s'", program);
	return bpf_program__fd(found);
}

int fixture_program(const char *program)
{
	return find_program(datapath, program);
}

int fixture_hook_program(enum mk_entry entry)
{
	return find_program(front ? front : datapath, mk_entry_programs[entry]);
}

const struct mk_node *fixture_node(void)
{
	return &loaded_node;
}

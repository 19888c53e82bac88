// SPDX-License-Identifier: Apache-2.0
/* Load, reuse, replace and remove the real programs in their own network and mount namespace. */
#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "datapath/datapath.h"
#include "datapath/maps/pin.h"
#include "datapath/maps/object.h"
#include "datapath/maps/table.h"
#include "datapath/pods/pods.h"
#include "rows.h"
#include "unit/datapath_fixture.h"

#define IPV4_SLOTS (MK_PROG_COUNT - 1) /* only IPv6 has MK_PROG_NDP */

START_TEST(test_not_loaded)
{
	ck_assert_ptr_null(mk_pods_open(fx.bpf_dir, fx.state_dir, &fx.err));
	ck_assert_int_eq(fx.err.code, ENOENT);
	ck_assert_msg(strstr(fx.err.text, fx.bpf_dir) && strstr(fx.err.text, "monokube agent"),
		      "%s", fx.err.text);
}
END_TEST

START_TEST(test_states)
{
	struct mk_datapath *datapath =
		mk_datapath_open(fx.bpf_dir, fx.state_dir, &fx.constants, &fx.err);
	struct mk_service_counts counts = { 0 };

	ck_assert_int_eq(mk_datapath_attach(datapath, &fx.links, &fx.err), -EINVAL);
	ck_assert_msg(strstr(fx.err.text, "opened") && strstr(fx.err.text, "loaded"), "%s",
		      fx.err.text);
	fx_ok(mk_datapath_load(datapath, &fx.err));
	ck_assert_int_eq(mk_datapath_load(datapath, &fx.err), -EINVAL);
	ck_assert_int_eq(mk_datapath_prune(datapath, 0, UINT64_MAX, &counts, &fx.err), -EINVAL);
	fx_ok(mk_datapath_attach(datapath, &fx.links, &fx.err));
	fx_ok(mk_datapath_prune(datapath, 0, UINT64_MAX, &counts, &fx.err));
	ck_assert_int_eq(mk_datapath_state(datapath), MK_DATAPATH_SYNCED);
	mk_datapath_free(datapath);
}
END_TEST

START_TEST(test_everything_outlives_the_agent)
{
	mk_datapath_free(fx_attached());
	ck_assert_uint_ne(fx_program_at((int)fx.links.set.host_peer_ifindex, MK_INGRESS), 0);
	ck_assert_uint_ne(fx_program_at((int)fx.links.set.overlay_ifindex, MK_INGRESS), 0);
	ck_assert_uint_ne(fx_program_at((int)fx.links.sfc_ifindex, MK_INGRESS), 0);
	ck_assert_uint_ne(fx_program_at((int)fx.links.cluster_ifindex, MK_INGRESS), 0);
	ck_assert_uint_ne(fx_program_at(fx.uplink_ifindex, MK_INGRESS), 0);
	ck_assert_uint_ne(fx_program_at(fx.uplink_ifindex, MK_EGRESS), 0);
	ck_assert_uint_ne(fx_program_at(MK_LOOPBACK_IFINDEX, MK_EGRESS), 0);
	ck_assert_int_eq(fx_chain_length("chain"), IPV4_SLOTS);
	ck_assert_uint_eq(fx_pins("maps", "_new_"), 0);
	ck_assert_uint_eq(fx_pins("progs", "_new_"), 0);
	ck_assert_uint_eq(fx_pins("progs", ""), mk_program_count);
	ck_assert_uint_eq(fx_pins("maps", ""), fx_object_maps());
}
END_TEST

static uint32_t router_id(void)
{
	return fx_pinned_id("progs", "router");
}

static void attach_again(struct mk_datapath *datapath)
{
	fx_ok(mk_datapath_attach(datapath, &fx.links, &fx.err));
	mk_datapath_free(datapath);
}

static struct mk_syn_secret syn_secret(void)
{
	cleanup_close int fd = mk_pin_open(fx.bpf_dir, MK_PIN_MAPS, "syn_secret", &fx.err);
	struct mk_syn_secret secret;
	__u32 zero = 0;

	ck_assert_int_eq(bpf_map_lookup_elem(fd, &zero, &secret), 0);
	return secret;
}

/* Clients have been asked with the secret, so it stays. */
START_TEST(test_syn_secret)
{
	struct mk_syn_secret made, now;

	mk_datapath_free(fx_attached());
	made = syn_secret();
	ck_assert_uint_ne(made.half[0], 0);
	ck_assert_uint_ne(made.half[1], 0);
	fx.constants.syn_ns = 100000; /* other programs on the same tables */
	attach_again(fx_loaded_again());
	now = syn_secret();
	ck_assert_mem_eq(&now, &made, sizeof(now));
}
END_TEST

static void open_syn_clients(struct mk_table *table)
{
	fx_ok(mk_table_open(table, fx.bpf_dir, "syn_verified", sizeof(struct mk_addr),
			    sizeof(struct mk_syn_client), &fx.err));
}

/* How many of @count clients with proved addresses the table has, after it got them if @puts. */
static unsigned int syn_clients(unsigned int count, bool puts)
{
	const struct mk_syn_client client = { .since_ns = 7 };
	struct mk_syn_client found;
	struct mk_table table;
	unsigned int there = 0;

	open_syn_clients(&table);
	for (unsigned int i = 0; i < count; i++) {
		const struct mk_addr addr = row_ipv4(0xcb007100 + i);

		if (puts)
			fx_ok(mk_table_put(&table, &addr, &client, &fx.err));
		there += mk_table_get(&table, &addr, &found, NULL) == 0 && found.since_ns == 7;
	}
	mk_table_close(&table);
	return there;
}

static const struct {
	__u32 syn_ns, entries;
	unsigned int clients; /* of 200 that have proved their addresses at another rate */
} syn_rates[] = {
	{ 100000, MK_SYN_CLIENTS_MAX, 200 },
	{ 0, 1, 1 }, /* off: memory for one entry */
	{ 200000, MK_SYN_CLIENTS_MAX, 200 },
};

/* An agent starts with another synRate, and again with the former one. */
START_TEST(test_syn_clients)
{
	struct mk_table table;

	fx.constants.syn_ns = 50000;
	mk_datapath_free(fx_attached());
	ck_assert_uint_eq(syn_clients(200, true), 200);
	fx.constants.syn_ns = syn_rates[_i].syn_ns;
	mk_datapath_free(fx_attached());
	open_syn_clients(&table);
	ck_assert_uint_eq(table.max_entries, syn_rates[_i].entries);
	mk_table_close(&table);
	ck_assert_uint_eq(syn_clients(200, false), syn_rates[_i].clients);
	ck_assert_uint_eq(fx_pins("maps", "_new_") + fx_pins("maps", "_before_"), 0);
	fx.constants.syn_ns = 50000;
	mk_datapath_free(fx_attached());
	open_syn_clients(&table);
	ck_assert_uint_eq(table.max_entries, MK_SYN_CLIENTS_MAX);
	mk_table_close(&table);
	ck_assert_uint_eq(syn_clients(200, true), 200);
}
END_TEST

/* Programs, chain and tables stay, and an emptied hook gets its program again. */
START_TEST(test_reused)
{
	uint32_t router, chain, uplink;

	mk_datapath_free(fx_attached());
	router = router_id();
	chain = fx_pinned_id("maps", "chain");
	uplink = fx_program_at(fx.uplink_ifindex, MK_INGRESS);
	fx_ok(mk_hook_detach_fixed(fx.nl, fx.uplink_ifindex, MK_INGRESS, &fx.err));
	attach_again(fx_loaded_again());
	ck_assert_uint_eq(router_id(), router);
	ck_assert_uint_eq(fx_pinned_id("maps", "chain"), chain);
	ck_assert_uint_eq(fx_program_at(fx.uplink_ifindex, MK_INGRESS), uplink);
	ck_assert_int_eq(fx_chain_length("chain"), IPV4_SLOTS);
	ck_assert_uint_eq(fx_pins("maps", "_new_") + fx_pins("maps", "_before_"), 0);
	ck_assert_uint_eq(fx_pins("maps", ""), fx_object_maps());
}
END_TEST

static int adopt(struct mk_datapath **datapath)
{
	*datapath = mk_datapath_open(fx.bpf_dir, fx.state_dir, &fx.constants, &fx.err);
	ck_assert_ptr_nonnull(*datapath);
	return mk_datapath_adopt(*datapath, &fx.err);
}

/* Before the first list: fitting pinned objects are taken over, and hooks are repaired. */
START_TEST(test_adopted)
{
	struct mk_datapath *datapath;
	uint32_t router;

	mk_datapath_free(fx_attached());
	router = router_id();
	fx_ok(mk_hook_detach_fixed(fx.nl, fx.uplink_ifindex, MK_INGRESS, &fx.err));
	ck_assert_int_eq(adopt(&datapath), 0);
	attach_again(datapath);
	ck_assert_uint_eq(router_id(), router);
	ck_assert_uint_ne(fx_program_at(fx.uplink_ifindex, MK_INGRESS), 0);
}
END_TEST

static void other_constants(void)
{
	fx.constants.nat_port_min++;
}

static void without_abi(void)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/maps/abi", fx.bpf_dir);
	ck_assert_int_eq(unlink(path), 0);
}

/* A table of that name that no program uses. */
static void another_table(void)
{
	char path[160];
	int fd;

	snprintf(path, sizeof(path), "%s/maps/udp_ports", fx.bpf_dir);
	ck_assert_int_eq(unlink(path), 0);
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "udp_ports", 4, sizeof(struct mk_port_set), 1,
			    NULL);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(bpf_obj_pin(fd, path), 0);
	close(fd);
}

static void without_table(void)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/maps/udp_ports", fx.bpf_dir);
	ck_assert_int_eq(unlink(path), 0);
}

/* As after a kill between the renaming of two pins. */
static void rename_program(const char *before, const char *after)
{
	char from[160], to[160];

	snprintf(from, sizeof(from), "%s/progs/%s", fx.bpf_dir, before);
	snprintf(to, sizeof(to), "%s/progs/%s", fx.bpf_dir, after);
	ck_assert_int_eq(rename(from, to), 0);
}

static void another_program(void)
{
	rename_program("elb", "other");
	rename_program("nat", "elb");
	rename_program("other", "nat");
}

static void another_object(void)
{
	struct mk_abi abi;
	int fd = mk_pin_open(fx.bpf_dir, "maps", "abi", &fx.err);

	fx_ok(mk_abi_read(fx.bpf_dir, &abi, &fx.err));
	abi.object_hash ^= 1;
	fx_ok(mk_abi_write(fd, &abi, &fx.err));
	close(fd);
}

static void (*const differences[])(void) = { other_constants, without_abi,     another_table,
					     without_table,   another_program, another_object };

/* Before the first list, objects that do not fit stay unchanged and nothing is loaded; then they
 * are replaced. */
START_TEST(test_not_reused)
{
	struct mk_datapath *datapath;
	uint32_t router, chain, uplink;

	mk_datapath_free(fx_attached());
	router = router_id();
	chain = fx_pinned_id("maps", "chain");
	uplink = fx_program_at(fx.uplink_ifindex, MK_INGRESS);
	differences[_i]();
	ck_assert_int_eq(adopt(&datapath), -ENOENT);
	mk_datapath_free(datapath);
	ck_assert_uint_eq(fx_program_at(fx.uplink_ifindex, MK_INGRESS), uplink);
	ck_assert_uint_eq(fx_pinned_id("maps", "chain"), chain);
	attach_again(fx_loaded_again());
	ck_assert_uint_ne(router_id(), router);
	ck_assert_uint_ne(fx_pinned_id("maps", "chain"), chain);
	ck_assert_int_eq(fx_chain_length("chain"), IPV4_SLOTS);
	ck_assert_uint_eq(fx_pins("progs", ""), mk_program_count);
	ck_assert_uint_eq(fx_pins("maps", ""), fx_object_maps());
}
END_TEST

/* Maps stay; every hook, also a pod's, gets new programs. */
START_TEST(test_replaced)
{
	uint32_t map, chain, pod;

	mk_datapath_free(fx_attached());
	fx_put_pod("10.244.1.2", fx.pod_ifindex);
	mk_datapath_free(fx_attached());
	map = fx_pinned_id("maps", "sessions");
	chain = fx_pinned_id("maps", "chain");
	pod = fx_program_at(fx.pod_ifindex, MK_INGRESS);
	ck_assert_uint_ne(pod, 0);
	ck_assert_uint_eq(pod, fx_pinned_id("progs", "ilb_pod"));
	mk_datapath_free(fx_attached());
	ck_assert_uint_eq(fx_pinned_id("maps", "sessions"), map);
	ck_assert_uint_ne(fx_pinned_id("maps", "chain"), chain);
	ck_assert_uint_ne(fx_program_at(fx.pod_ifindex, MK_INGRESS), pod);
	ck_assert_uint_eq(fx_program_at(fx.pod_ifindex, MK_INGRESS),
			  fx_pinned_id("progs", "ilb_pod"));
}
END_TEST

/* Killed after the change of the hooks and before the renaming of the pins: the running programs
 * have their chain, and the next agent cleans up. */
START_TEST(test_killed_between)
{
	struct mk_datapath *datapath;
	char from[256], to[256];

	mk_datapath_free(fx_attached());
	datapath = fx_attached();
	snprintf(from, sizeof(from), "%s/maps/chain", fx.bpf_dir);
	snprintf(to, sizeof(to), "%s/maps/chain_new_1", fx.bpf_dir);
	ck_assert_int_eq(rename(from, to), 0);
	mk_datapath_free(datapath);
	ck_assert_int_eq(fx_chain_length("chain_new_1"), IPV4_SLOTS);
	mk_datapath_free(fx_attached());
	ck_assert_uint_eq(fx_pins("maps", "_new_"), 0);
	ck_assert_int_eq(fx_chain_length("chain"), IPV4_SLOTS);
}
END_TEST

START_TEST(test_removed)
{
	unsigned int maps = fx_object_maps();
	struct mk_removed removed = { 0 };

	mk_datapath_free(fx_attached());
	fx_put_pod("10.244.1.2", fx.pod_ifindex);
	mk_datapath_free(fx_attached());
	fx_ok(mk_datapath_remove(fx.nl, fx.bpf_dir, &removed, &fx.err));
	ck_assert_uint_eq(removed.filters, 8);
	ck_assert_uint_eq(removed.pins, maps + mk_program_count);
	ck_assert_uint_eq(fx_program_at(fx.pod_ifindex, MK_INGRESS), 0);
	ck_assert_int_lt(access(fx.bpf_dir, F_OK), 0);
	removed = (struct mk_removed){ 0 };
	fx_ok(mk_datapath_remove(fx.nl, fx.bpf_dir, &removed, &fx.err));
	ck_assert_uint_eq(removed.filters + removed.pins, 0);
}
END_TEST

UNIT_SUITE("datapath_load")
{
	TCase *tc = unit_case(suite, "load", fx_setup, fx_teardown);

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, test_not_loaded);
	tcase_add_test(tc, test_states);
	tcase_add_test(tc, test_everything_outlives_the_agent);
	tcase_add_test(tc, test_syn_secret);
	tcase_add_loop_test(tc, test_syn_clients, 0, MK_ARRAY_SIZE(syn_rates));
	tcase_add_test(tc, test_reused);
	tcase_add_test(tc, test_adopted);
	tcase_add_loop_test(tc, test_not_reused, 0, MK_ARRAY_SIZE(differences));
	tcase_add_test(tc, test_replaced);
	tcase_add_test(tc, test_killed_between);
	tcase_add_test(tc, test_removed);
}

// SPDX-License-Identifier: Apache-2.0
/* The overlay of a node with two families. */
#include <stdio.h>
#include <string.h>

#include "unit/overlay_fixture.h"

static struct mk_error err;

static void add_family(const char *vtep, const char *cluster, const char *pods)
{
	struct mk_cidr vteps_of = cidr_of(vtep), cluster_of = cidr_of(cluster),
		       pods_of = cidr_of(pods);
	struct mk_addresses *added = &wanted.addresses[mk_family_index(cluster_of.ip.family)];

	ck_ok(mk_addresses_compute(&cluster_of, &vteps_of, &pods_of, added, &err));
	added->gateway_mac = own->gateway_mac;
	added->vtep_mac = own->vtep_mac;
	/* that a family comes is no repair */
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &node_devices, &err), 0);
	mk_overlay_set_node(overlay, &node_devices, added);
}

/* The other family of a node with @family. */
static void add_other(void)
{
	if (family == AF_INET)
		add_family("fd4d:4b00:12::/64", "fd00:10:244::/48", "fd00:10:244:1::/64");
	else
		add_family("10.18.0.0/16", "10.244.0.0/16", "10.244.1.0/24");
}

static void plan_family(sa_family_t of)
{
	struct mk_overlay_view view = view_of("10.244.1.0/24", "fd00:10:244:1::/64", of);
	struct mk_overlay_plan plan;

	view.primary = family;
	view.underlay_family = wanted.underlay.family;
	ck_ok(mk_overlay_plan_make(node_model, &view, &plan, &err));
	ck_ok(mk_overlay_set_peers(overlay, of, &plan, &err));
	mk_overlay_plan_release(&plan);
}

static void check_seen(sa_family_t of, unsigned int routes, unsigned int neighbours,
		       unsigned int fdb)
{
	struct seen seen = look_at(of);

	ck_assert_msg(seen.routes == routes && seen.neighbours == neighbours && seen.fdb == fdb,
		      "%s: %u routes, %u neighbours, %u FDB entries", mk_family_name(of),
		      seen.routes, seen.neighbours, seen.fdb);
}

static void sync_both(bool complete)
{
	plan_family(AF_INET);
	plan_family(AF_INET6);
	sync_alone(complete);
}

static void two_setup_of(const struct setting *setting)
{
	netns_setup_of(setting);
	add_other();
	model_dual_node("b", "10.244.2.0/24", "fd00:10:244:2::/64", "192.0.2.2", "2001:db8::2");
	model_dual_node("c", "10.244.3.0/24", "fd00:10:244:3::/64", "192.0.2.3", "2001:db8::3");
}

static void two_setup_v4_first(void)
{
	two_setup_of(&v4_by_v4);
}

static void two_setup_v6_first(void)
{
	two_setup_of(&v6_by_v4);
}

static void two_setup_by_v6(void)
{
	two_setup_of(&v6_by_v6);
}

static int address_count(sa_family_t of, int ifindex)
{
	struct own_address seen = { .ifindex = ifindex };

	ck_ok(mk_nl_each_addr(nl, of, see_own, &seen, &err));
	return seen.count;
}

static void check_devices_of_both(void)
{
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &node_devices, &err), 0);
	check_device(MK_HOST_VETH, node_devices.host_ifindex, &wanted.addresses[1].gateway);
	check_device("mkvxlan", node_devices.overlay_ifindex, &wanted.addresses[1].vtep);
	ck_assert_int_eq(address_count(AF_INET, node_devices.host_ifindex), 1);
	ck_assert_int_eq(address_count(AF_INET, node_devices.overlay_ifindex), 1);
}

START_TEST(test_devices_of_both)
{
	check_devices_of_both();
}
END_TEST

/* A family goes, with its settings, and comes again: no fault is logged or counted. */
START_TEST(test_devices_lose_a_family)
{
	struct mk_addresses addresses = wanted.addresses[1];

	wanted.addresses[1] = (struct mk_addresses){ 0 };
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &node_devices, &err), 0);
	ck_assert_uint_eq(node_devices.families, 1);
	disable_ipv6();
	ck_assert_int_eq(address_count(AF_INET6, node_devices.overlay_ifindex), 0);
	wanted.addresses[1] = addresses;
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &node_devices, &err), 0);
	ck_assert_uint_eq(node_devices.families, 3);
	check_devices_of_both();
}
END_TEST

/* A peer has a route and a neighbour entry in each family, and one FDB entry per VXLAN device. */
START_TEST(test_peers_of_both)
{
	sync_both(true);
	ck_assert_uint_eq(changes, 2 * 3 + 2 * 2 + 2 * 2);
	check_seen(AF_INET, 3, 2, 2);
	check_seen(AF_INET6, 3, 2, 2);
	mk_overlay_refresh(overlay);
	sync_both(true);
	ck_assert_uint_eq(changes, 0);
	/* another address */
	model_dual_node("c", "10.244.3.0/24", "fd00:10:244:3::/64", "192.0.2.33", "2001:db8::33");
	sync_both(true);
	check_seen(AF_INET, 3, 2, 2);
	mk_model_delete(node_model, MK_KIND_NODE, "", "c");
	sync_both(true);
	check_seen(AF_INET, 2, 1, 1);
	check_seen(AF_INET6, 2, 1, 1);
}
END_TEST

/* A node that loses a family keeps its FDB entry for the other one. */
START_TEST(test_peer_of_one)
{
	sync_both(true);
	model_dual_node("c", family == AF_INET ? "10.244.3.0/24" : NULL,
			family == AF_INET ? NULL : "fd00:10:244:3::/64", "192.0.2.3",
			"2001:db8::3");
	sync_both(true);
	check_seen(family, 3, 2, 2);
	check_seen(family == AF_INET ? AF_INET6 : AF_INET, 2, 1, 2);
}
END_TEST

/* Calls for one family leave the other as it is. */
START_TEST(test_family_alone)
{
	const struct mk_overlay_plan none = { 0 };
	const struct mk_cidr range4 = cidr_of("10.96.0.0/16"), range6 = cidr_of("fd00:10:96::/112");

	ck_ok(mk_overlay_set_ranges(overlay, AF_INET, &range4, 1, &err));
	ck_ok(mk_overlay_set_ranges(overlay, AF_INET6, &range6, 1, &err));
	sync_both(true);
	check_seen(AF_INET, 4, 2, 2);
	check_seen(AF_INET6, 4, 2, 2);
	ck_ok(mk_overlay_set_ranges(overlay, AF_INET6, NULL, 0, &err));
	ck_ok(mk_overlay_set_peers(overlay, AF_INET6, &none, &err));
	sync_alone(true);
	check_seen(AF_INET, 4, 2, 2);
	check_seen(AF_INET6, 1, 0, 2);
	mk_overlay_refresh(overlay);
	sync_alone(true);
	ck_assert_uint_eq(changes, 0);
}
END_TEST

static void new_overlay(void)
{
	mk_overlay_free(overlay);
	overlay = mk_overlay_new(nl, &err);
}

/* An absent family is neither read nor written. */
START_TEST(test_absent_family)
{
	const struct mk_ip vip = ip_of(family == AF_INET ? "fd00:10:96::1" : "10.96.0.1");
	sa_family_t other = family == AF_INET ? AF_INET6 : AF_INET;
	unsigned int told = 0;

	ck_ok(mk_overlay_vip_get(overlay, &vip, &err));
	sync_both(true);
	check_seen(other, 4, 2, 2);
	new_overlay();
	mk_overlay_on_left_vip(overlay, keep_first, &told);
	mk_overlay_set_node(overlay, &node_devices, own);
	plan_family(family);
	sync_alone(true);
	ck_assert_uint_eq(changes, 0);
	ck_assert_uint_eq(told, 0);
	check_seen(other, 4, 2, 2);
	/* it comes later: its Service addresses are offered then, the others not again */
	mk_overlay_set_node(overlay, &node_devices, &wanted.addresses[mk_family_index(other)]);
	plan_family(other);
	sync_alone(true);
	ck_assert_uint_eq(changes, 0);
	ck_assert_uint_eq(told, 1);
	check_seen(other, 4, 2, 2);
}
END_TEST

/* @_i: an earlier agent made the entries. */
START_TEST(test_forgotten_family)
{
	const struct mk_ip vip = ip_of(family == AF_INET ? "fd00:10:96::1" : "10.96.0.1");
	const struct mk_cidr range =
		cidr_of(family == AF_INET ? "2001:db8:7::/112" : "10.7.0.0/16");
	sa_family_t other = family == AF_INET ? AF_INET6 : AF_INET;
	const struct mk_nl_route stray = { .dst = range,
					   .ifindex = node_devices.host_ifindex,
					   .protocol = MK_RTPROT };

	ck_ok(mk_overlay_set_ranges(overlay, other, &range, 1, &err));
	ck_ok(mk_overlay_vip_get(overlay, &vip, &err));
	sync_both(true);
	check_seen(other, 5, 2, 2);
	if (_i) {
		new_overlay();
		mk_overlay_set_node(overlay, &node_devices, own);
		plan_family(family);
	}
	mk_overlay_forget_family(overlay, other);
	sync_alone(false);
	check_seen(other, 5, 2, 2);
	sync_alone(true);
	ck_assert_uint_eq(changes, 5 + 2);
	check_seen(other, 0, 0, 2);
	check_seen(family, 3, 2, 2);
	/* called again, it does not ask the kernel: an entry of another agent stays */
	ck_ok(mk_nl_route_put(nl, &stray, &err));
	mk_overlay_forget_family(overlay, other);
	mk_overlay_refresh(overlay);
	sync_alone(true);
	ck_assert_uint_eq(changes, 0);
	check_seen(other, 1, 0, 2);
	/* and comes back */
	mk_overlay_set_node(overlay, &node_devices, &wanted.addresses[mk_family_index(other)]);
	plan_family(other);
	sync_alone(true);
	check_seen(other, _i ? 3 : 4, 2, 2);
}
END_TEST

/* Each missing entry is put back once, and counted once. */
START_TEST(test_repair_of_both)
{
	const struct mk_nl_fdb fdb = {
		mac_of(family == AF_INET ? "02:4d:0a:12:00:02" : "02:4d:00:00:00:02"),
		ip_of(wanted.underlay.family == AF_INET6 ? "2001:db8::2" : "192.0.2.2"), 0, 0
	};
	const struct mk_ip vtep4 = ip_of("10.18.0.2"), vtep6 = ip_of("fd4d:4b00:12::2");

	sync_both(true);
	ck_ok(mk_nl_fdb_delete(nl, node_devices.overlay_ifindex, &fdb, &err));
	ck_ok(mk_nl_neigh_delete(nl, node_devices.overlay_ifindex, &vtep4, &err));
	ck_ok(mk_nl_neigh_delete(nl, node_devices.overlay_ifindex, &vtep6, &err));
	check_seen(AF_INET, 3, 1, 1);
	mk_overlay_refresh(overlay);
	sync_alone(true);
	ck_assert_uint_eq(changes, 3);
	ck_assert_uint_eq(mk_overlay_repairs(overlay)->neighbours, 3);
	check_seen(AF_INET, 3, 2, 2);
	check_seen(AF_INET6, 3, 2, 2);
}
END_TEST

START_TEST(test_both_are_repaired)
{
	sync_both(true);
	overlay_faults[_i]();
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &node_devices, &err), 1);
	check_devices_of_both();
	mk_overlay_refresh(overlay);
	sync_both(true);
	check_seen(AF_INET, 3, 2, 2);
	check_seen(AF_INET6, 3, 2, 2);
	mk_overlay_refresh(overlay);
	sync_both(true);
	ck_assert_uint_eq(changes, 0);
}
END_TEST

START_TEST(test_remove_of_both)
{
	unsigned int removed = 0;

	sync_both(true);
	ck_ok(remove_overlay(&removed));
	ck_assert_uint_eq(removed, 2 * 3 + 3);
	ck_assert_uint_eq(look_at(AF_INET).routes + look_at(AF_INET6).routes, 0);
}
END_TEST

/* Only one family is removed; the devices stay. */
START_TEST(test_remove_of_one)
{
	sa_family_t other = family == AF_INET ? AF_INET6 : AF_INET;
	unsigned int removed = 0;

	sync_both(true);
	ck_ok(mk_overlay_remove_family(nl, "mkvxlan", other, &removed, &err));
	ck_assert_uint_eq(removed, 3 + 2 + 2); /* routes, addresses, neighbours */
	check_seen(other, 0, 0, 2);
	check_seen(family, 3, 2, 2);
	ck_assert_int_eq(address_count(other, node_devices.host_ifindex), 0);
	ck_assert_int_eq(address_count(other, node_devices.overlay_ifindex), 0);
	ck_assert_int_eq(address_count(family, node_devices.host_ifindex), 1);
	ck_assert_int_eq(address_count(family, node_devices.overlay_ifindex), 1);
	removed = 0;
	ck_ok(mk_overlay_remove_family(nl, "mkvxlan", other, &removed, &err));
	ck_assert_uint_eq(removed, 0);
}
END_TEST

UNIT_SUITE("overlay_dual")
{
	TCase *const cases[] = {
		unit_case(suite, "IPv4 and IPv6", two_setup_v4_first, netns_teardown),
		unit_case(suite, "IPv6 and IPv4", two_setup_v6_first, netns_teardown),
		unit_case(suite, "IPv6 and IPv4 by IPv6", two_setup_by_v6, netns_teardown),
	};

	for (size_t i = 0; i < MK_ARRAY_SIZE(cases); i++) {
		tcase_add_test(cases[i], test_devices_of_both);
		tcase_add_test(cases[i], test_devices_lose_a_family);
		tcase_add_test(cases[i], test_peers_of_both);
		tcase_add_test(cases[i], test_peer_of_one);
		tcase_add_test(cases[i], test_family_alone);
		tcase_add_test(cases[i], test_absent_family);
		tcase_add_loop_test(cases[i], test_forgotten_family, 0, 2);
		tcase_add_test(cases[i], test_repair_of_both);
		tcase_add_loop_test(cases[i], test_both_are_repaired, 0, OVERLAY_FAULTS);
		tcase_add_test(cases[i], test_remove_of_both);
		tcase_add_test(cases[i], test_remove_of_one);
	}
}

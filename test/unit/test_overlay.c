// SPDX-License-Identifier: Apache-2.0
/* The overlay's devices, peers and Services' addresses in a network namespace, over IPv4. */
#include <net/if.h>
#include <string.h>

#include "monokube/sfc.h"
#include "unit/overlay_fixture.h"

static struct mk_error err;

START_TEST(test_devices_are_kept)
{
	struct mk_devices again = { 0 };

	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &again, &err), 0);
	ck_assert_mem_eq(&again, &node_devices, sizeof(again));
	wanted.mtu_bytes = 1400; /* changeable */
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &again, &err), 3);
	ck_assert_mem_eq(&again, &node_devices, sizeof(again));
	wanted.vxlan_port = 8472; /* not changeable */
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &again, &err), 2);
	ck_assert_int_ne(again.overlay_ifindex, node_devices.overlay_ifindex);
	ck_assert_int_ne(again.sfc_ifindex, node_devices.sfc_ifindex);
	ck_assert_int_eq(again.host_ifindex, node_devices.host_ifindex);
}
END_TEST

START_TEST(test_foreign_device_is_refused)
{
	struct mk_device_wanted other = wanted;

	other.vxlan_name = "far0";
	ck_assert_int_eq(mk_devices_ensure(nl, &other, &node_devices, &err), -EEXIST);
	ck_assert_msg(strstr(err.text, "far0") && strstr(err.text, "vxlanIfaceName"), "%s",
		      err.text);
	other = wanted;
	other.sfc_name = "far0";
	ck_assert_int_eq(mk_devices_ensure(nl, &other, &node_devices, &err), -EEXIST);
	ck_assert_msg(strstr(err.text, "far0") && strstr(err.text, "sfcIfaceName"), "%s", err.text);
}
END_TEST

/* Another vxlanIfaceName: the same device, with its programs and routes. */
START_TEST(test_device_is_renamed)
{
	struct mk_devices again = { 0 };
	struct mk_link link;

	ck_ok(mk_overlay_rename(nl, "mkvxlan", "vx9", MK_SFC_VNI, &err)); /* not this one */
	ck_ok(mk_overlay_rename(nl, "mkvxlan", "mksfc", MK_VXLAN_VNI, &err)); /* taken */
	ck_ok(mk_overlay_rename(nl, "gone", "vx9", MK_VXLAN_VNI, &err));
	ck_assert_int_eq(mk_nl_link_get(nl, "vx9", &link, &err), -ENODEV);
	ck_ok(mk_overlay_rename(nl, "mkvxlan", "vx9", MK_VXLAN_VNI, &err));
	wanted.vxlan_name = "vx9";
	ck_ok(mk_devices_ensure(nl, &wanted, &again, &err));
	ck_assert_mem_eq(&again, &node_devices, sizeof(again));
}
END_TEST

START_TEST(test_taken_vni_is_named)
{
	struct mk_devices again = { 0 };

	wanted.vxlan_name = "vx9";
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &again, &err), -EEXIST);
	ck_assert_msg(strstr(err.text, "'vx9'") && strstr(err.text, "ip link del mkvxlan"), "%s",
		      err.text);
}
END_TEST

/* The device of chains shares the overlay's UDP port, underlay, MTU and MAC address. It has no
 * address, so the host sends nothing by it. */
static void check_device_of_chains(void)
{
	struct own_address seen = { .ifindex = node_devices.sfc_ifindex };
	struct mk_link sfc, vxlan;

	ck_ok(mk_nl_link_get(nl, "mksfc", &sfc, &err));
	ck_ok(mk_nl_link_get(nl, "mkvxlan", &vxlan, &err));
	ck_assert_int_eq(sfc.ifindex, node_devices.sfc_ifindex);
	ck_assert_str_eq(sfc.kind, "vxlan");
	ck_assert_uint_eq(sfc.vxlan_id, MK_SFC_VNI);
	ck_assert_uint_eq(sfc.vxlan_port, vxlan.vxlan_port);
	ck_assert(mk_ip_equal(&sfc.vxlan_local, &vxlan.vxlan_local));
	ck_assert_int_eq(sfc.peer_ifindex, vxlan.peer_ifindex);
	ck_assert_uint_eq(sfc.mtu_bytes, vxlan.mtu_bytes);
	ck_assert_mem_eq(&sfc.mac, &vxlan.mac, sizeof(sfc.mac));
	ck_assert_uint_eq(sfc.flags & (IFF_UP | IFF_NOARP), IFF_UP | IFF_NOARP);
	ck_assert(!sfc.vxlan_learning);
	ck_ok(mk_nl_each_addr(nl, AF_INET, see_own, &seen, &err));
	ck_ok(mk_nl_each_addr(nl, AF_INET6, see_own, &seen, &err));
	ck_assert_int_eq(seen.count, 0);
}

START_TEST(test_device_of_chains)
{
	check_device_of_chains();
}
END_TEST

static void delete_device(void)
{
	ck_ok(mk_nl_link_delete(nl, "mksfc", &err));
}

static void set_device_down(void)
{
	change_link(node_devices.sfc_ifindex, (struct mk_link_change){ .clear_flags = IFF_UP });
}

static void lower_mtu(void)
{
	change_link(node_devices.sfc_ifindex, (struct mk_link_change){ .mtu_bytes = 1300 });
}

static void (*const faults_of_chains[])(void) = { delete_device, set_device_down, lower_mtu };

/* Each fault is found once, and corrected with the device's FDB. */
START_TEST(test_repair_of_chains)
{
	model_node("b", "10.244.2.0/24", "192.0.2.2", true);
	sync_plan(true);
	faults_of_chains[_i]();
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &node_devices, &err), 1);
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &node_devices, &err), 0);
	mk_overlay_set_node(overlay, &node_devices, own);
	sync_plan(true);
	ck_assert_uint_eq(look(NULL, "192.0.2.2").fdb, 1);
	check_device_of_chains();
}
END_TEST

/* A device that another process has removed is a fault. Its uplink's replacement is none: the
 * device differs then, or the kernel has removed it with its former uplink. */
static const struct {
	bool is_removed, has_other_uplink;
	const char *word;
} losses[] = {
	{ true, false, "warn device was missing and is made again name=mksfc" },
	{ false, true,
	  "info VXLAN device is replaced: it differs name=mksfc difference=\"uplink\"" },
	{ true, true, "info VXLAN device created name=mksfc" },
};

START_TEST(test_lost_device)
{
	const struct mk_veth other = { .name = "up1",
				       .mac = { { 2, 0, 0, 0, 0, 3 } },
				       .peer_name = "far1",
				       .peer_mac = { { 2, 0, 0, 0, 0, 4 } },
				       .peer_netns_fd = -1,
				       .mtu_bytes = 1500 };
	struct mk_link link;
	const char *log;

	ck_ok(mk_nl_veth_add(nl, &other, &err));
	ck_ok(mk_nl_link_get(nl, "up1", &link, &err));
	if (losses[_i].is_removed)
		delete_device();
	if (losses[_i].has_other_uplink)
		wanted.uplink_ifindex = link.ifindex;
	capture_log();
	ck_assert_int_gt(mk_devices_ensure(nl, &wanted, &node_devices, &err), 0);
	log = captured_log();
	ck_assert_msg(strstr(log, losses[_i].word), "%s", log);
	ck_assert_msg(!strstr(log, "warn") || !losses[_i].has_other_uplink, "%s", log);
}
END_TEST

/* An entry that another process removed or added is repaired, and counted. */
START_TEST(test_repair_of_chains_fdb)
{
	struct mk_nl_fdb fdb = { .remote = ip_of("192.0.2.2") };
	struct mk_overlay_view view = view_of("10.244.1.0/24", NULL, AF_INET);
	struct mk_overlay_plan plan;

	model_node("b", "10.244.2.0/24", "192.0.2.2", true);
	sync_plan(true);
	ck_ok(mk_overlay_plan_make(node_model, &view, &plan, &err));
	fdb.mac = plan.peers[0].vtep_mac;
	ck_ok(mk_nl_fdb_delete(nl, node_devices.sfc_ifindex, &fdb, &err));
	mk_overlay_plan_release(&plan);
	fdb.mac = (struct mk_mac){ { 2, 0, 0, 0, 0, 9 } };
	ck_ok(mk_nl_fdb_put(nl, node_devices.sfc_ifindex, &fdb, &err));
	mk_overlay_refresh(overlay);
	sync_alone(true);
	ck_assert_uint_eq(changes, 2);
	ck_assert_uint_eq(mk_overlay_repairs(overlay)->neighbours, 1);
	ck_assert_uint_eq(look(NULL, "192.0.2.2").fdb, 1);
}
END_TEST

START_TEST(test_peers)
{
	struct seen seen;

	model_node("b", "10.244.2.0/24", "192.0.2.2", true);
	model_node("c", "10.244.3.0/24", "192.0.2.3", true);
	sync_plan(true);
	seen = look("10.244.3.0/24", "192.0.2.3");
	ck_assert_uint_eq(seen.routes, 3);
	ck_assert_uint_eq(seen.neighbours, 2);
	ck_assert_uint_eq(seen.fdb, 2);
	ck_assert(seen.has_dst && seen.has_remote);
	sync_plan(true);
	ck_assert_uint_eq(changes, 0);
	mk_overlay_refresh(overlay);
	sync_plan(true);
	ck_assert_uint_eq(changes, 0);
	/* another address, another pod CIDR */
	model_node("c", "10.244.4.0/24", "192.0.2.33", true);
	sync_plan(true);
	seen = look("10.244.4.0/24", "192.0.2.33");
	ck_assert_uint_eq(seen.routes, 3);
	ck_assert_uint_eq(seen.neighbours, 2);
	ck_assert_uint_eq(seen.fdb, 2);
	ck_assert(seen.has_dst && seen.has_remote);
}
END_TEST

/* Set the peers of the model, which are direct, or get probes, or neither, and apply them. */
static void sync_links(bool are_direct, bool are_tried)
{
	struct mk_overlay_view view = view_of("10.244.1.0/24", NULL, AF_INET);
	struct mk_overlay_plan plan;

	ck_ok(mk_overlay_plan_make(node_model, &view, &plan, &err));
	for (size_t i = 0; i < plan.peer_count; i++) {
		plan.peers[i].link_ifindex = wanted.uplink_ifindex;
		plan.peers[i].link_ip = plan.peers[i].underlay;
		plan.peers[i].is_direct = are_direct;
		plan.peers[i].is_tried = are_tried;
	}
	ck_ok(mk_overlay_set_peers(overlay, AF_INET, &plan, &err));
	mk_overlay_plan_release(&plan);
	sync_alone(true);
}

static void sync_direct(bool are_direct)
{
	sync_links(are_direct, false);
}

static struct mk_nl_route way_to(const char *dest)
{
	const struct mk_ip ip = ip_of(dest);
	struct mk_nl_route route;

	ck_ok(mk_nl_route_to(nl, &ip, &route, &err));
	return route;
}

/* .. also if packets to the node become direct at the same time. */
START_TEST(test_repair_as_links_change)
{
	struct mk_overlay_view view = view_of("10.244.1.0/24", NULL, AF_INET);
	struct mk_nl_fdb fdb = { .remote = ip_of("192.0.2.2") };
	struct mk_overlay_plan plan;

	model_node("b", "10.244.2.0/24", "192.0.2.2", true);
	sync_plan(true);
	ck_ok(mk_overlay_plan_make(node_model, &view, &plan, &err));
	fdb.mac = plan.peers[0].vtep_mac;
	mk_overlay_plan_release(&plan);
	ck_ok(mk_nl_fdb_delete(nl, node_devices.overlay_ifindex, &fdb, &err));
	mk_overlay_refresh(overlay);
	mk_overlay_set_node(overlay, &node_devices, own);
	sync_direct(true);
	ck_assert_uint_eq(mk_overlay_repairs(overlay)->neighbours, 1);
	model_node("b", "10.244.2.0/24", "192.0.2.22", true);
	mk_overlay_refresh(overlay);
	sync_direct(true);
	ck_assert_uint_eq(mk_overlay_repairs(overlay)->neighbours, 1);
}
END_TEST

/* The routes to a node on the link lead to its own address; all that the overlay needs stays, for
 * packets that the node sends in VXLAN. */
START_TEST(test_direct)
{
	struct mk_nl_route route;
	struct mk_ip node = ip_of("192.0.2.2");
	struct seen seen;

	model_node("b", "10.244.2.0/24", "192.0.2.2", true);
	sync_direct(true);
	route = way_to("10.244.2.7");
	ck_assert_int_eq(route.ifindex, wanted.uplink_ifindex);
	ck_assert(mk_ip_equal(&route.gateway, &node));
	ck_assert(mk_ip_equal(&route.source, &own->vtep));
	route = way_to("10.18.0.2");
	ck_assert_int_eq(route.ifindex, wanted.uplink_ifindex);
	seen = look(NULL, "192.0.2.2");
	ck_assert_uint_eq(seen.fdb, 1);
	ck_assert_uint_eq(seen.neighbours, 1);
	mk_overlay_refresh(overlay);
	sync_alone(true);
	ck_assert_uint_eq(changes, 0);
	sync_direct(false);
	ck_assert_uint_eq(look(NULL, NULL).routes, 2);
	ck_assert_int_eq(way_to("10.244.2.7").ifindex, node_devices.overlay_ifindex);
}
END_TEST

static int take_probe_route(void *ctx, const struct mk_nl_route *route)
{
	if (route->metric == MK_PROBE_METRIC)
		*(struct mk_nl_route *)ctx = *route;
	return 0;
}

/* ifindex 0: there is none. */
static struct mk_nl_route probe_route(void)
{
	struct mk_nl_route route = { 0 };

	ck_ok(mk_nl_each_route(nl, AF_INET, take_probe_route, &route, &err));
	return route;
}

/* Until probes have shown that the link carries packets, only they go there, by a second route to
 * the pods. */
START_TEST(test_tried)
{
	struct mk_cidr pods = cidr_of("10.244.2.0/24");
	struct mk_ip node = ip_of("192.0.2.2");
	struct mk_nl_route route;

	model_node("b", "10.244.2.0/24", "192.0.2.2", true);
	sync_links(false, true);
	route = probe_route();
	ck_assert_int_eq(route.ifindex, wanted.uplink_ifindex);
	ck_assert(mk_cidr_equal(&route.dst, &pods));
	ck_assert(mk_ip_equal(&route.gateway, &node));
	ck_assert(mk_ip_equal(&route.source, &own->vtep));
	ck_assert_int_eq(way_to("10.244.2.1").ifindex, node_devices.overlay_ifindex);
	mk_overlay_refresh(overlay);
	sync_links(false, true);
	ck_assert_uint_eq(changes, 0);
	sync_links(true, true);
	ck_assert_int_eq(probe_route().ifindex, 0);
	ck_assert_int_eq(way_to("10.244.2.1").ifindex, wanted.uplink_ifindex);
	sync_links(false, false);
	ck_assert_int_eq(probe_route().ifindex, 0);
	ck_assert_int_eq(way_to("10.244.2.1").ifindex, node_devices.overlay_ifindex);
}
END_TEST

START_TEST(test_address_alone_changes)
{
	struct seen seen;

	model_node("b", "10.244.2.0/24", "192.0.2.2", true);
	sync_plan(true);
	model_node("b", "10.244.2.0/24", "192.0.2.22", true);
	sync_plan(true);
	seen = look(NULL, "192.0.2.22");
	ck_assert_uint_eq(seen.fdb, 1);
	ck_assert(seen.has_remote);
}
END_TEST

START_TEST(test_nothing_goes_before_all_is_listed)
{
	const struct mk_ip vip = ip_of("10.96.0.1");

	model_node("b", "10.244.2.0/24", "192.0.2.2", true);
	ck_ok(mk_overlay_vip_get(overlay, &vip, &err));
	sync_plan(true);
	ck_assert_uint_eq(look(NULL, NULL).routes, 3);
	/* a new agent without any information yet */
	mk_overlay_free(overlay);
	overlay = mk_overlay_new(nl, &err);
	mk_overlay_set_node(overlay, &node_devices, own);
	mk_model_delete(node_model, MK_KIND_NODE, "", "b");
	sync_plan(false);
	ck_assert_uint_eq(changes, 0);
	ck_assert_uint_eq(look(NULL, NULL).routes, 3);
	ck_assert_uint_eq(look(NULL, NULL).fdb, 1);
	sync_plan(true);
	ck_assert_uint_eq(look(NULL, NULL).routes, 1);
	ck_assert_uint_eq(look(NULL, NULL).fdb, 0);
	ck_assert_uint_eq(look(NULL, NULL).neighbours, 0);
}
END_TEST

/* Two Services with one address: the route is removed with the last one. */
START_TEST(test_vip)
{
	const struct mk_ip vip = ip_of("10.96.0.1");

	ck_ok(mk_overlay_vip_get(overlay, &vip, &err));
	ck_ok(mk_overlay_vip_get(overlay, &vip, &err));
	sync_plan(true);
	ck_assert(look("10.96.0.1/32", NULL).has_dst);
	mk_overlay_vip_put(overlay, &vip);
	sync_plan(true);
	ck_assert(look("10.96.0.1/32", NULL).has_dst);
	mk_overlay_vip_put(overlay, &vip);
	sync_plan(true);
	ck_assert(!look("10.96.0.1/32", NULL).has_dst);
}
END_TEST

/* A new agent reports once the Service addresses whose routes it finds. */
START_TEST(test_left_vip)
{
	const struct mk_ip one = ip_of("10.96.0.1"), other = ip_of("10.96.0.2");
	const struct mk_ip *kept = &one;
	unsigned int told = 0;

	ck_ok(mk_overlay_vip_get(overlay, &one, &err));
	ck_ok(mk_overlay_vip_get(overlay, &other, &err));
	sync_plan(true);
	mk_overlay_free(overlay);
	overlay = mk_overlay_new(nl, &err);
	mk_overlay_on_left_vip(overlay, keep_first, &told);
	mk_overlay_set_node(overlay, &node_devices, own);
	sync_plan(false);
	ck_assert_uint_eq(told, 0);
	sync_plan(true);
	ck_assert_uint_eq(told, 2);
	ck_assert_uint_eq(changes, 1);
	if (!look("10.96.0.1/32", NULL).has_dst)
		kept = &other;
	ck_assert(look("10.96.0.1/32", NULL).has_dst != look("10.96.0.2/32", NULL).has_dst);
	mk_overlay_vip_put(overlay, kept);
	sync_plan(true);
	ck_assert_uint_eq(told, 2);
	ck_assert(!look("10.96.0.1/32", NULL).has_dst && !look("10.96.0.2/32", NULL).has_dst);
}
END_TEST

/* A range has one route. Addresses outside keep their routes; those inside get theirs back when the
 * range is removed. */
START_TEST(test_service_range)
{
	const struct mk_ip inside = ip_of("10.96.0.1"), outside = ip_of("203.0.113.7");
	const char *const one[] = { "10.96.0.0/16", NULL }, *const none[] = { NULL };
	const char *const other[] = { "10.96.0.0/12", NULL };

	ck_ok(mk_overlay_vip_get(overlay, &inside, &err));
	ck_ok(mk_overlay_vip_get(overlay, &outside, &err));
	sync_plan(true);
	ck_assert(look("10.96.0.1/32", NULL).has_dst);
	set_ranges(one);
	sync_alone(true);
	ck_assert_uint_eq(changes, 2);
	ck_assert(look("10.96.0.0/16", NULL).has_dst);
	ck_assert(!look("10.96.0.1/32", NULL).has_dst);
	ck_assert(look("203.0.113.7/32", NULL).has_dst);
	mk_overlay_refresh(overlay);
	sync_alone(true);
	ck_assert_uint_eq(changes, 0);
	set_ranges(other);
	sync_alone(true);
	ck_assert_uint_eq(changes, 2);
	ck_assert(look("10.96.0.0/12", NULL).has_dst);
	set_ranges(none);
	sync_alone(true);
	ck_assert_uint_eq(changes, 2);
	ck_assert(look("10.96.0.1/32", NULL).has_dst);
	ck_assert_uint_eq(look(NULL, NULL).routes, 3);
}
END_TEST

/* A changed Service costs only the requests for its own routes; the kernel's routes are
 * not read again. */
START_TEST(test_address_in_a_range)
{
	const struct mk_ip inside = ip_of("10.96.0.1"), outside = ip_of("203.0.113.7");
	const char *const one[] = { "10.96.0.0/16", NULL };

	set_ranges(one);
	sync_plan(true);
	ck_ok(mk_overlay_vip_get(overlay, &inside, &err));
	sync_alone(true);
	ck_assert_uint_eq(changes, 0);
	ck_ok(mk_overlay_vip_get(overlay, &outside, &err));
	sync_alone(true);
	ck_assert_uint_eq(changes, 1);
	mk_overlay_vip_put(overlay, &inside);
	mk_overlay_vip_put(overlay, &outside);
	sync_alone(true);
	ck_assert_uint_eq(changes, 1);
	ck_assert_uint_eq(look(NULL, NULL).routes, 2);
}
END_TEST

/* A range still unknown to a new agent stays until everything is listed. */
START_TEST(test_range_is_kept_until_all_is_listed)
{
	const char *const one[] = { "10.96.0.0/16", NULL };

	set_ranges(one);
	sync_plan(true);
	mk_overlay_free(overlay);
	overlay = mk_overlay_new(nl, &err);
	mk_overlay_set_node(overlay, &node_devices, own);
	sync_plan(false);
	ck_assert_uint_eq(changes, 0);
	sync_plan(true);
	ck_assert_uint_eq(changes, 1);
	ck_assert(!look("10.96.0.0/16", NULL).has_dst);
}
END_TEST

START_TEST(test_remove)
{
	struct mk_link link;
	unsigned int removed = 0;

	model_node("b", "10.244.2.0/24", "192.0.2.2", true);
	sync_plan(true);
	ck_ok(remove_overlay(&removed));
	ck_assert_uint_ge(removed, 4);
	ck_assert_int_eq(mk_nl_link_get(nl, "mkvxlan", &link, &err), -ENODEV);
	ck_assert_int_eq(mk_nl_link_get(nl, "mksfc", &link, &err), -ENODEV);
	ck_assert_int_eq(mk_nl_link_get(nl, MK_HOST_VETH, &link, &err), -ENODEV);
	removed = 0;
	ck_ok(remove_overlay(&removed));
	ck_assert_uint_eq(removed, 0);
}
END_TEST

UNIT_SUITE("overlay")
{
	TCase *kernel = unit_case(suite, "kernel", netns_setup, netns_teardown);

	tcase_add_test(kernel, test_devices_are_kept);
	tcase_add_test(kernel, test_foreign_device_is_refused);
	tcase_add_test(kernel, test_device_is_renamed);
	tcase_add_test(kernel, test_taken_vni_is_named);
	tcase_add_test(kernel, test_device_of_chains);
	tcase_add_loop_test(kernel, test_repair_of_chains, 0, MK_ARRAY_SIZE(faults_of_chains));
	tcase_add_loop_test(kernel, test_lost_device, 0, MK_ARRAY_SIZE(losses));
	tcase_add_test(kernel, test_repair_of_chains_fdb);
	tcase_add_test(kernel, test_repair_as_links_change);
	tcase_add_test(kernel, test_peers);
	tcase_add_test(kernel, test_direct);
	tcase_add_test(kernel, test_tried);
	tcase_add_test(kernel, test_address_alone_changes);
	tcase_add_test(kernel, test_nothing_goes_before_all_is_listed);
	tcase_add_test(kernel, test_vip);
	tcase_add_test(kernel, test_left_vip);
	tcase_add_test(kernel, test_service_range);
	tcase_add_test(kernel, test_address_in_a_range);
	tcase_add_test(kernel, test_range_is_kept_until_all_is_listed);
	tcase_add_test(kernel, test_remove);
}

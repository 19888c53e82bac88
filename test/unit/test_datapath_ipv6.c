// SPDX-License-Identifier: Apache-2.0
/* The datapath of an IPv6 node: its own object, and pins in folders of its own. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/maps/constants.h"
#include "datapath/maps/maps_internal.h"
#include "datapath/maps/object.h"
#include "datapath/pods/pod_table.h"
#include "unit/datapath_fixture.h"

static void setup(void)
{
	fx_setup();
	fx.constants.vtep_addr = addr_of("fd4d:4b00:12::1");
	fx.constants.gateway_addr = addr_of("fd00:10:244:1::3fe");
	fx.constants.vpod_addr = addr_of("fd00:10:244:1::1");
	fx.constants.pod_net = addr_of("fd00:10:244:1::");
	fx.constants.pod_mask = addr_of("ffff:ffff:ffff:ffff::");
	fx.constants.cluster_net = addr_of("fd00:10:244::");
	fx.constants.cluster_mask = addr_of("ffff:ffff:ffff::");
	fx.constants.vtep_net = addr_of("fd4d:4b00:12::");
	fx.constants.vtep_mask = addr_of("ffff:ffff:ffff:ffff::");
}

static struct mk_route_entry route(const char *cidr)
{
	struct mk_route_entry entry = { .route = { .type = MK_ROUTE_OVERLAY,
						   .vtep_mac = { 2, 1 } } };

	ck_assert_int_eq(mk_cidr_parse(cidr, &entry.dst), 0);
	return entry;
}

static void check_pins(void)
{
	const struct mk_pod pod = { .addr = addr_of("fd00:10:244:1::5"), .ifindex = 7 };
	struct mk_table pods;
	struct mk_node node;
	struct mk_pod found;

	ck_assert_uint_eq(fx_pins("progs", ""), mk_program_count + 1);
	ck_assert_uint_eq(fx_pins("maps", ""), fx_object_maps());
	ck_assert_uint_eq(fx_pins("maps", "_new_") + fx_pins("progs", "_new_"), 0);
	fx_ok(mk_constants_read(fx.bpf_dir, &node, &fx.err));
	ck_assert_mem_eq(&node.gateway_addr, &fx.constants.gateway_addr, sizeof(node.gateway_addr));
	ck_assert_uint_eq(node.pod_host_bits, 64);
	ck_assert_uint_eq(node.pod_slots, 1024);
	ck_assert_uint_eq(node.has_ipv6_csum, object_has_ipv6_csum());
	fx_ok(mk_pod_table_open(&pods, fx.bpf_dir, &fx.err));
	ck_assert_uint_eq(pods.max_entries, 1024);
	fx_ok(mk_pod_table_put(&pods, &pod, &fx.err));
	fx_ok(mk_pod_table_get(&pods, &pod.addr, &found, &fx.err));
	ck_assert_mem_eq(&found, &pod, sizeof(pod));
	mk_table_close(&pods);
}

static void check_routes(struct mk_datapath *datapath)
{
	struct mk_route_entry wanted[] = { route("::/0"), route("fd00:10:244:2::/64"),
					   route("fd4d:4b00:12::2/128") };
	struct mk_table node_routes;
	unsigned int changes = 0;
	struct mk_route found;
	const __u32 node = 2;

	fx_ok(mk_datapath_sync_routes(datapath, wanted, MK_ARRAY_SIZE(wanted), true, &changes,
				      &fx.err));
	ck_assert_uint_eq(changes, MK_ARRAY_SIZE(wanted) + 1); /* and its entry by node number */
	changes = 0;
	fx_ok(mk_datapath_sync_routes(datapath, wanted, MK_ARRAY_SIZE(wanted), true, &changes,
				      &fx.err));
	ck_assert_uint_eq(changes, 0);
	fx_ok(mk_table_open(&node_routes, fx.bpf_dir, "node_routes", sizeof(node), sizeof(found),
			    &fx.err));
	fx_ok(mk_table_get(&node_routes, &node, &found, &fx.err));
	ck_assert_int_eq(found.type, MK_ROUTE_OVERLAY);
	mk_table_close(&node_routes);
}

/* Everything is pinned, the next agent uses it, and cleanup removes it. */
START_TEST(test_pins)
{
	struct mk_datapath *datapath = fx_attached();
	struct mk_removed removed = { 0 };
	unsigned int maps;
	uint32_t router;

	check_pins();
	check_routes(datapath);
	mk_datapath_free(datapath);
	ck_assert_uint_ne(fx_program_at(fx.uplink_ifindex, MK_INGRESS), 0);
	router = fx_pinned_id("progs", "router");
	maps = fx_object_maps();
	datapath = fx_loaded_again();
	fx_ok(mk_datapath_attach(datapath, &fx.links, &fx.err));
	ck_assert_uint_eq(fx_pinned_id("progs", "router"), router);
	mk_datapath_free(datapath);
	fx_ok(mk_datapath_remove(fx.nl, fx.bpf_dir, &removed, &fx.err));
	ck_assert_uint_eq(removed.pins, maps + mk_program_count + 1);
}
END_TEST

UNIT_SUITE("datapath_ipv6")
{
	TCase *tcase = unit_case(suite, "IPv6", setup, fx_teardown);

	tcase_add_test(tcase, test_pins);
}

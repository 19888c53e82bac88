// SPDX-License-Identifier: Apache-2.0
/* Tables of another layout or size, and those that follow Nodes, uplinks and Services. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "datapath/maps/runtime.h"
#include "datapath/monitor/drops.h"
#include "datapath/monitor/monitor.h"
#include "datapath/pods/pods.h"
#include "unit/datapath_fixture.h"
#include "rows.h"

START_TEST(test_other_layout_is_refused)
{
	struct mk_datapath *datapath;
	uint32_t before;
	char path[160];
	int fd;

	fx_ok(mk_pin_prepare(fx.bpf_dir, &fx.err));
	fd = bpf_map_create(BPF_MAP_TYPE_HASH, "pods", 4, 20, 4096, NULL);
	snprintf(path, sizeof(path), "%s/maps/pods", fx.bpf_dir);
	ck_assert_int_eq(bpf_obj_pin(fd, path), 0);
	before = fx_pinned_id("maps", "pods");
	datapath = mk_datapath_open(fx.bpf_dir, fx.state_dir, &fx.constants, &fx.err);
	ck_assert_ptr_nonnull(datapath);
	ck_assert_int_eq(mk_datapath_load(datapath, &fx.err), -EPROTO);
	ck_assert_msg(strstr(fx.err.text, path) && strstr(fx.err.text, "20 bytes") &&
			      strstr(fx.err.text, "cleanup"),
		      "%s", fx.err.text);
	ck_assert_uint_eq(fx_pinned_id("maps", "pods"), before);
	ck_assert_ptr_null(mk_pods_open(fx.bpf_dir, fx.state_dir, &fx.err));
	ck_assert_msg(strstr(fx.err.text, "20"), "%s", fx.err.text);
	mk_datapath_free(datapath);
	close(fd);
}
END_TEST

/* Another version's size: entries are moved, programs find them, and the pin is replaced. */
START_TEST(test_other_size_moves)
{
	static const char *const names[] = { "sessions", "drops" };
	const struct mk_tuple key = { .sport = htons(7), .proto = IPPROTO_UDP };
	const struct mk_session session = { .set_id = 5 };
	struct mk_drop_counter per_cpu[256] = { { .packets = 3 } };
	struct mk_drop_totals totals;
	struct mk_session found;
	struct mk_table table;
	const __u32 slot = 2;
	int fds[2];

	fx_ok(mk_pin_prepare(fx.bpf_dir, &fx.err));
	fds[0] = row_create_ipv4(BPF_MAP_TYPE_HASH, "sessions", sizeof(key), sizeof(session), 100,
				 NULL);
	fds[1] = row_create_ipv4(BPF_MAP_TYPE_PERCPU_ARRAY, "drops", 4, sizeof(per_cpu[0]), 10,
				 NULL);
	ck_assert_int_eq(row_update(fds[0], &key, &session, BPF_ANY), 0);
	ck_assert_int_eq(row_update(fds[1], &slot, per_cpu, BPF_ANY), 0);
	for (int i = 0; i < 2; i++) {
		char path[160];

		snprintf(path, sizeof(path), "%s/maps/%s", fx.bpf_dir, names[i]);
		ck_assert_int_eq(bpf_obj_pin(fds[i], path), 0);
		close(fds[i]);
	}
	mk_datapath_free(fx_attached());
	fx_ok(mk_table_open(&table, fx.bpf_dir, "sessions", sizeof(key), sizeof(session), &fx.err));
	ck_assert_uint_gt(table.max_entries, 100);
	fx_ok(mk_table_get(&table, &key, &found, &fx.err));
	ck_assert_uint_eq(found.set_id, 5);
	mk_table_close(&table);
	fx_ok(mk_drops_read(fx.bpf_dir, &totals, &fx.err));
	ck_assert_uint_eq(totals.counter[0][2].packets, 3);
	ck_assert_uint_eq(fx_pins("maps", "_new_"), 0);
	ck_assert_uint_eq(fx_pins("maps", ""), fx_object_maps());
}
END_TEST

/* Put a frontend with a Maglev table of @count backends into the tables of @datapath. */
static void apply_maglev_service(struct mk_datapath *datapath, uint32_t slots, size_t count)
{
	struct mk_wanted_frontend frontend = { .ip = { .family = AF_INET,
						       .v4.s_addr = htonl(0xc0000201) },
					       .port = 80,
					       .proto = IPPROTO_TCP,
					       .scope = MK_SCOPE_EXTERNAL,
					       .flags = MK_FRONTEND_MAGLEV };
	struct mk_service_backend backends[100] = { 0 };
	cleanup_free uint16_t *table = NULL;
	struct mk_backend_set set = { .frontends = &frontend,
				      .frontend_count = 1,
				      .backends = backends,
				      .backend_count = count,
				      .maglev_bytes = mk_maglev_room(slots) * sizeof(*table) };
	char namespace_[] = "x", name[] = "s";
	struct mk_compiled_service compiled = {
		.namespace_ = namespace_, .name = name, .sets = &set, .set_count = 1
	};
	struct mk_service_counts counts = { 0 };

	for (size_t i = 0; i < count; i++)
		backends[i] = (struct mk_service_backend){
			.ip = { .family = AF_INET, .v4.s_addr = htonl(0x0af40100u + (uint32_t)i) },
			.port = 8080,
		};
	table = mk_maglev_new(slots, backends, count);
	ck_assert_ptr_nonnull(table);
	set.maglev = table;
	fx_ok(mk_service_sync_apply(mk_datapath_services(datapath), &compiled, 0, &counts,
				    &fx.err));
}

static void check_maglev_tables(uint32_t slots, unsigned int tables)
{
	cleanup_free uint16_t *value = calloc(mk_maglev_room(slots), sizeof(*value));
	cleanup_free struct mk_maglev_key *keys = NULL;
	struct mk_table table;
	size_t count;

	fx_ok(mk_table_open(&table, fx.bpf_dir, "maglev", sizeof(*keys),
			    mk_maglev_room(slots) * sizeof(*value), &fx.err));
	fx_ok(mk_table_keys(&table, (void **)&keys, &count, &fx.err));
	ck_assert_uint_eq(count, tables);
	for (size_t i = 0; i < count; i++) {
		unsigned int seen[100] = { 0 }, backends = keys[i].generation == 1 ? 20 : 50;

		fx_ok(mk_table_get(&table, &keys[i], value, &fx.err));
		for (size_t slot = 0; slot < slots; slot++)
			seen[value[slot]]++;
		for (unsigned int b = 0; b < backends; b++)
			ck_assert_msg(seen[b] == slots / backends ||
					      seen[b] == slots / backends + 1,
				      "generation %u: backend %u has %u of %u slots",
				      keys[i].generation, b, seen[b], slots);
	}
	mk_table_close(&table);
}

static void put_session(struct mk_datapath *datapath, uint16_t port, struct mk_session session)
{
	const struct mk_tuple key = { .sport = htons(port), .proto = IPPROTO_TCP };

	fx_ok(mk_table_put(mk_datapath_session_table(datapath, 0), &key, &session, &fx.err));
}

/* A new Service gets ids beyond those of all sessions. A node's number is no id. */
START_TEST(test_ids_of_sessions)
{
	const struct mk_frontend_key key = { .addr = addr_of("192.0.2.1"),
					     .port = htons(80),
					     .proto = IPPROTO_TCP,
					     .scope = MK_SCOPE_EXTERNAL };
	struct mk_datapath *datapath = fx_attached();
	struct mk_frontend service;
	struct mk_table table;

	put_session(datapath, 1, (struct mk_session){ .set_id = 51, .service_id = 50 });
	put_session(datapath, 2, (struct mk_session){ .set_id = 1u << 30 });
	put_session(datapath, 3,
		    (struct mk_session){ .set_id = 1u << 31,
					 .service_id = 60,
					 .flags = MK_SESSION_FORWARD | MK_SESSION_VIA_OVERLAY });
	mk_datapath_free(datapath);
	datapath = fx_loaded();
	apply_maglev_service(datapath, 1021, 2);
	fx_ok(mk_table_open(&table, fx.bpf_dir, "frontends", sizeof(key), sizeof(service),
			    &fx.err));
	fx_ok(mk_table_get(&table, &key, &service, &fx.err));
	ck_assert_uint_gt(service.set_id, 60);
	ck_assert_uint_lt(service.set_id, 1000);
	ck_assert_uint_gt(service.service_id, 60);
	ck_assert_uint_lt(service.service_id, 1000);
	mk_table_close(&table);
	mk_datapath_free(datapath);
}
END_TEST

/* After a change of maglevTableSize every table exists in the new size before a program reads it,
 * also one of a generation just replaced. Sessions stay. */
START_TEST(test_other_maglev_size)
{
	static const uint32_t sizes[] = { 1021, 65521, 251, 1021 };
	const struct mk_tuple key = { .sport = htons(7), .proto = IPPROTO_UDP };
	const struct mk_session session = { .set_id = 5 };
	struct mk_datapath *datapath = fx_attached();
	struct mk_session found;

	apply_maglev_service(datapath, sizes[0], 20);
	apply_maglev_service(datapath, sizes[0], 50);
	ck_assert(!mk_datapath_moved(datapath));
	fx_ok(mk_table_put(mk_datapath_session_table(datapath, 0), &key, &session, &fx.err));
	mk_datapath_free(datapath);
	check_maglev_tables(sizes[0], 2);
	for (size_t i = 1; i < MK_ARRAY_SIZE(sizes); i++) {
		uint32_t sessions = fx_pinned_id("maps", "sessions");

		fx.constants.maglev_slots = sizes[i];
		datapath = fx_loaded();
		ck_assert(mk_datapath_moved(datapath));
		check_maglev_tables(sizes[i - 1], 2);
		fx_ok(mk_datapath_attach(datapath, &fx.links, &fx.err));
		ck_assert(!mk_datapath_moved(datapath));
		check_maglev_tables(sizes[i], 2);
		ck_assert_uint_eq(fx_pinned_id("maps", "sessions"), sessions);
		fx_ok(mk_table_get(mk_datapath_session_table(datapath, 0), &key, &found, &fx.err));
		mk_datapath_free(datapath);
	}
	ck_assert_uint_eq(fx_pins("maps", "_new_"), 0);
}
END_TEST

/* 10.244.0.0/16, of which this node has 10.244.1.0/24 */
static struct mk_datapath *attached_in_cluster(void)
{
	fx.constants.cluster_net = addr_of("10.244.0.0");
	fx.constants.cluster_mask = addr_of("255.255.0.0");
	fx.constants.pod_net = addr_of("10.244.1.0");
	fx.constants.pod_mask = addr_of("255.255.255.0");
	return fx_attached();
}

START_TEST(test_routes)
{
	struct mk_datapath *datapath = attached_in_cluster();
	struct mk_route_entry wanted[2] = { { .route.type = MK_ROUTE_PODS },
					    { .route.type = MK_ROUTE_DROP } };
	unsigned int changes = 0;

	ck_assert_int_eq(mk_cidr_parse("10.244.1.0/24", &wanted[0].dst), 0);
	ck_assert_int_eq(mk_cidr_parse("10.244.0.0/16", &wanted[1].dst), 0);
	fx_ok(mk_datapath_sync_routes(datapath, wanted, 2, true, &changes, &fx.err));
	ck_assert_uint_eq(changes, 2);
	mk_datapath_free(datapath);
	datapath = attached_in_cluster();
	changes = 0;
	fx_ok(mk_datapath_sync_routes(datapath, wanted, 2, true, &changes, &fx.err));
	ck_assert_uint_eq(changes, 0);
	fx_ok(mk_datapath_sync_routes(datapath, wanted, 1, false, &changes, &fx.err));
	ck_assert_uint_eq(changes, 0);
	fx_ok(mk_datapath_sync_routes(datapath, wanted, 1, true, &changes, &fx.err));
	ck_assert_uint_eq(changes, 1);
	mk_datapath_free(datapath);
}
END_TEST

static struct mk_route node_route(uint32_t number)
{
	struct mk_table table = { .fd = -1 };
	struct mk_route route = { 0 };

	fx_ok(mk_table_open(&table, fx.bpf_dir, "node_routes", sizeof(number), sizeof(route),
			    &fx.err));
	fx_ok(mk_table_get(&table, &number, &route, &fx.err));
	mk_table_close(&table);
	return route;
}

/* Entries written by an earlier agent count too. */
START_TEST(test_node_routes)
{
	struct mk_datapath *datapath = attached_in_cluster();
	struct mk_route_entry wanted[2] = { { .route.type = MK_ROUTE_OVERLAY },
					    { .route.type = MK_ROUTE_OVERLAY } };
	unsigned int changes = 0;

	ck_assert_int_eq(mk_cidr_parse("10.244.2.0/24", &wanted[0].dst), 0);
	ck_assert_int_eq(mk_cidr_parse("10.244.3.0/24", &wanted[1].dst), 0);
	fx_ok(mk_datapath_sync_routes(datapath, wanted, 2, true, &changes, &fx.err));
	ck_assert_int_eq(node_route(2).type, MK_ROUTE_OVERLAY);
	ck_assert_int_eq(node_route(3).type, MK_ROUTE_OVERLAY);
	mk_datapath_free(datapath);
	datapath = attached_in_cluster();
	fx_ok(mk_datapath_sync_routes(datapath, wanted, 1, false, &changes, &fx.err));
	ck_assert_int_eq(node_route(3).type, MK_ROUTE_OVERLAY);
	fx_ok(mk_datapath_sync_routes(datapath, wanted, 1, true, &changes, &fx.err));
	ck_assert_int_eq(node_route(2).type, MK_ROUTE_OVERLAY);
	ck_assert_int_eq(node_route(3).type, 0);
	mk_datapath_free(datapath);
}
END_TEST

static bool is_peer(const char *text)
{
	struct mk_table table = { .fd = -1 };
	struct mk_addr key = addr_of(text);
	struct mk_peer peer;
	int ret;

	fx_ok(mk_table_open(&table, fx.bpf_dir, "peers", sizeof(key), sizeof(peer), &fx.err));
	ret = mk_table_get(&table, &key, &peer, NULL);
	mk_table_close(&table);
	return ret == 0;
}

static void delete_peer(const char *text)
{
	struct mk_addr key = addr_of(text);
	struct mk_table table = { .fd = -1 };

	fx_ok(mk_table_open(&table, fx.bpf_dir, "peers", sizeof(key), sizeof(struct mk_peer),
			    &fx.err));
	ck_assert_int_eq(mk_table_delete(&table, &key, &fx.err), 1);
	mk_table_close(&table);
}

static bool are_peers_known(void)
{
	struct mk_table table = { .fd = -1 };
	struct mk_runtime runtime;
	uint32_t zero = 0;

	fx_ok(mk_table_open(&table, fx.bpf_dir, "runtime", sizeof(zero), sizeof(runtime), &fx.err));
	fx_ok(mk_table_get(&table, &zero, &runtime, &fx.err));
	mk_table_close(&table);
	return runtime.peers_known;
}

/* Until all Nodes are read, no sender counts as a stranger, and no peer is removed. */
START_TEST(test_peers)
{
	struct mk_datapath *datapath = fx_attached();
	struct mk_peer_entry wanted[2] = {
		{ .addr = addr_of("192.0.2.12"), .peer.vtep_mac = { 2, 1 } },
		{ .addr = addr_of("192.0.2.13"), .peer.vtep_mac = { 2, 2 } }
	};
	unsigned int changes = 0;

	fx_ok(mk_datapath_sync_peers(datapath, wanted, 2, false, &changes, &fx.err));
	ck_assert(is_peer("192.0.2.12") && is_peer("192.0.2.13") && !are_peers_known());
	fx_ok(mk_datapath_sync_peers(datapath, wanted, 2, true, &changes, &fx.err));
	ck_assert(are_peers_known());
	ck_assert_uint_eq(changes, 2);
	ck_assert_int_eq(mk_datapath_repair_routes(datapath, 256, &fx.err), 0);
	delete_peer("192.0.2.13");
	ck_assert_int_eq(mk_datapath_repair_routes(datapath, 256, &fx.err), 1);
	ck_assert(is_peer("192.0.2.13"));
	mk_datapath_free(datapath);
	datapath = fx_attached();
	ck_assert(are_peers_known() && is_peer("192.0.2.13"));
	fx_ok(mk_datapath_sync_peers(datapath, wanted, 1, false, &changes, &fx.err));
	ck_assert(is_peer("192.0.2.13"));
	fx_ok(mk_datapath_sync_peers(datapath, wanted, 1, true, &changes, &fx.err));
	ck_assert(is_peer("192.0.2.12") && !is_peer("192.0.2.13"));
	mk_datapath_free(datapath);
}
END_TEST

static void expect_peer(const char *text, unsigned char mac)
{
	struct mk_addr key = addr_of(text);
	struct mk_table table = { .fd = -1 };
	struct mk_peer peer;

	fx_ok(mk_table_open(&table, fx.bpf_dir, "peers", sizeof(key), sizeof(peer), &fx.err));
	fx_ok(mk_table_get(&table, &key, &peer, &fx.err));
	ck_assert_uint_eq(peer.vtep_mac[1], mac);
	mk_table_close(&table);
}

/* Nodes behind one gateway have its address as their ExternalIP; the gateway may be a node. */
START_TEST(test_peers_share)
{
	struct mk_datapath *datapath = fx_attached();
	struct mk_peer_entry wanted[] = {
		{ .addr = addr_of("192.0.2.1"), .peer.vtep_mac = { 2, 4 } },
		{ .addr = addr_of("192.0.2.1"), .peer.vtep_mac = { 2, 3 } },
		{ .addr = addr_of("192.0.2.2"), .peer.vtep_mac = { 2, 3 } },
		{ .addr = addr_of("192.0.2.2"), .peer.vtep_mac = { 2, 5 }, .is_internal = true },
		{ .addr = addr_of("192.0.2.2"), .peer.vtep_mac = { 2, 6 } },
	};
	unsigned int changes = 0;

	fx_ok(mk_datapath_sync_peers(datapath, wanted, MK_ARRAY_SIZE(wanted), true, &changes,
				     &fx.err));
	ck_assert_uint_eq(changes, 2);
	expect_peer("192.0.2.1", 3);
	expect_peer("192.0.2.2", 5);
	ck_assert_int_eq(mk_datapath_repair_routes(datapath, 256, &fx.err), 0);
	mk_datapath_free(datapath);
}
END_TEST

/* A node on the link, as programs have completed its entry: it has shown itself @ago_s ago. */
static void complete_link(const struct mk_table *table, const struct mk_link_node_entry *entry,
			  unsigned int ago_s)
{
	struct mk_link_node node;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	fx_ok(mk_table_get(table, &entry->key, &node, &fx.err));
	node.mac[0] = 6;
	node.shown_s = (now.tv_sec - ago_s) & MK_SHOWN_SECONDS;
	node.sees_this = true;
	fx_ok(mk_table_put(table, &entry->key, &node, &fx.err));
}

static struct mk_link_node link_node(const struct mk_table *table,
				     const struct mk_link_node_entry *entry)
{
	struct mk_link_node node = { 0 };

	return mk_table_get(table, &entry->key, &node, NULL) < 0 ? (struct mk_link_node){ 0 }
								 : node;
}

/* The agent keeps what programs write, unless the node has another address, or has not shown itself
 * for long. */
START_TEST(test_link_nodes)
{
	struct mk_datapath *datapath = fx_attached();
	struct mk_link_node_entry wanted[2] = {
		{ .key.vtep_mac = { 2, 1 },
		  .node = { .addr = addr_of("192.0.2.12"), .ifindex = 3, .mtu_bytes = 1500 } },
		{ .key.vtep_mac = { 2, 2 },
		  .node = { .addr = addr_of("192.0.2.13"), .ifindex = 3, .mtu_bytes = 1500 } }
	};
	unsigned int changes = 0;
	struct mk_table table;

	fx_ok(mk_table_open(&table, fx.bpf_dir, "link_nodes", sizeof(wanted[0].key),
			    sizeof(wanted[0].node), &fx.err));
	fx_ok(mk_datapath_sync_link_nodes(datapath, wanted, 2, false, &changes, &fx.err));
	complete_link(&table, &wanted[0], 0);
	complete_link(&table, &wanted[1], 100);
	fx_ok(mk_datapath_sync_link_nodes(datapath, wanted, 2, true, &changes, &fx.err));
	ck_assert_uint_eq(changes, 2);
	ck_assert(link_node(&table, &wanted[0]).shown_s && link_node(&table, &wanted[0]).sees_this);
	ck_assert_uint_eq(link_node(&table, &wanted[0]).mac[0], 6);
	ck_assert(!link_node(&table, &wanted[1]).shown_s &&
		  !link_node(&table, &wanted[1]).sees_this);
	wanted[0].node.addr = addr_of("192.0.2.14");
	fx_ok(mk_datapath_sync_link_nodes(datapath, wanted, 1, false, &changes, &fx.err));
	ck_assert(!link_node(&table, &wanted[0]).shown_s);
	ck_assert_uint_eq(link_node(&table, &wanted[0]).mac[0], 0);
	ck_assert_uint_eq(link_node(&table, &wanted[1]).ifindex, 3);
	fx_ok(mk_datapath_sync_link_nodes(datapath, wanted, 1, true, &changes, &fx.err));
	ck_assert_uint_eq(link_node(&table, &wanted[1]).ifindex, 0);
	ck_assert_uint_eq(changes, 4);
	mk_table_close(&table);
	mk_datapath_free(datapath);
}
END_TEST

/* Two writers of one entry: each leaves the other's member unchanged. */
START_TEST(test_runtime)
{
	const struct mk_runtime_change backends = { .set_host_backends = true,
						    .host_backends = true };
	const struct mk_runtime_change report = { .set_report_drops = true, .report_drops = true };
	const struct mk_runtime_change watch = { .set_monitored = true, .monitored = true };
	struct mk_table table;
	struct mk_runtime now;
	__u32 key = 0;

	mk_datapath_free(fx_attached());
	ck_assert_int_eq(mk_runtime_change(fx.bpf_dir, fx.state_dir, &backends, &fx.err), 1);
	ck_assert_int_eq(mk_runtime_change(fx.bpf_dir, fx.state_dir, &watch, &fx.err), 1);
	ck_assert_int_eq(mk_runtime_change(fx.bpf_dir, fx.state_dir, &report, &fx.err), 1);
	ck_assert_int_eq(mk_runtime_change(fx.bpf_dir, fx.state_dir, &report, &fx.err), 0);
	fx_ok(mk_table_open(&table, fx.bpf_dir, "runtime", sizeof(key), sizeof(now), &fx.err));
	fx_ok(mk_table_get(&table, &key, &now, &fx.err));
	ck_assert_uint_eq(now.host_backends, 1);
	ck_assert_uint_eq(now.report_drops, 1);
	ck_assert_uint_eq(now.monitored, 1);
	ck_assert_int_eq(mk_monitor_reset_stale(fx.bpf_dir, fx.state_dir, false, &fx.err), 1);
	fx_ok(mk_table_get(&table, &key, &now, &fx.err));
	ck_assert_uint_eq(now.host_backends, 1);
	ck_assert_uint_eq(now.report_drops, 0);
	ck_assert_uint_eq(now.monitored, 0);
	mk_table_close(&table);
}
END_TEST

/* Every writer adds its UDP backend ports to the existing ones. */
START_TEST(test_udp_ports)
{
	struct mk_port_set ports = { 0 }, more = { 0 }, now;
	struct mk_table table;
	__u32 key = 0;

	mk_port_set_add(&ports, 53);
	mk_port_set_add(&ports, 65535);
	mk_port_set_add(&more, 54);
	mk_datapath_free(fx_attached());
	ck_assert_int_eq(mk_udp_ports_add(fx.bpf_dir, fx.state_dir, &ports, &fx.err), 1);
	ck_assert_int_eq(mk_udp_ports_add(fx.bpf_dir, fx.state_dir, &ports, &fx.err), 0);
	ck_assert_int_eq(mk_udp_ports_add(fx.bpf_dir, fx.state_dir, &more, &fx.err), 1);
	fx_ok(mk_table_open(&table, fx.bpf_dir, "udp_ports", sizeof(key), sizeof(now), &fx.err));
	fx_ok(mk_table_get(&table, &key, &now, &fx.err));
	ck_assert_uint_eq(now.words[1], 1u << 21 | 1u << 22);
	ck_assert_uint_eq(now.words[2047], 1u << 31);
	mk_table_close(&table);
}
END_TEST

static void expect_ports(const struct mk_table *table, uint16_t min, uint16_t max)
{
	struct mk_runtime now;
	__u32 key = 0;

	fx_ok(mk_table_get(table, &key, &now, &fx.err));
	ck_assert_uint_eq(now.localhost_port_min, min);
	ck_assert_uint_eq(now.localhost_port_max, max);
}

/* The range of an earlier agent may still be needed: it is widened until it is set to none. */
START_TEST(test_localhost_ports)
{
	static const struct {
		uint16_t min, max, expected_min, expected_max;
	} steps[] = {
		{ 30100, 30200, 30100, 30200 },
		{ 30150, 30160, 30100, 30200 },
		{ 30000, 30110, 30000, 30200 },
		{ 30190, 32767, 30000, 32767 },
		{ 0, 0, 0, 0 },
		{ 30100, 30100, 30100, 30100 },
	};
	struct mk_table table;

	mk_datapath_free(fx_attached());
	fx_ok(mk_table_open(&table, fx.bpf_dir, "runtime", sizeof(__u32), sizeof(struct mk_runtime),
			    &fx.err));
	for (size_t i = 0; i < MK_ARRAY_SIZE(steps); i++) {
		const struct mk_runtime_change change = { .set_localhost_ports = true,
							  .localhost_port_min = steps[i].min,
							  .localhost_port_max = steps[i].max };

		ck_assert_int_ge(mk_runtime_change(fx.bpf_dir, fx.state_dir, &change, &fx.err), 0);
		expect_ports(&table, steps[i].expected_min, steps[i].expected_max);
	}
	mk_table_close(&table);
}
END_TEST

UNIT_SUITE("datapath_tables")
{
	TCase *tc = unit_case(suite, "tables", fx_setup, fx_teardown);

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, test_other_layout_is_refused);
	tcase_add_test(tc, test_other_size_moves);
	tcase_add_test(tc, test_ids_of_sessions);
	tcase_add_test(tc, test_other_maglev_size);
	tcase_add_test(tc, test_routes);
	tcase_add_test(tc, test_node_routes);
	tcase_add_test(tc, test_peers);
	tcase_add_test(tc, test_peers_share);
	tcase_add_test(tc, test_peers_share);
	tcase_add_test(tc, test_link_nodes);
	tcase_add_test(tc, test_runtime);
	tcase_add_test(tc, test_udp_ports);
	tcase_add_test(tc, test_localhost_ports);
}

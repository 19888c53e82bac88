// SPDX-License-Identifier: Apache-2.0
#include "bpf/fixture.h"
#include "monokube/clusters.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ip.h"
#include "bpf/cpus.h"
#include "bpf/family.h"
#include "bpf/pieces.h"
#include "service/service.h"
#include "rows.h"

#define TC_UNSPEC   0xffffffffu
#define TC_SHOT	    2
#define TC_STOLEN   4
#define TC_REDIRECT 7

struct mk_addr fixture_addr(const char *text)
{
	const struct mk_ip ip = family_ip(text);

	return mk_ip_to_addr(&ip);
}

/* "10.0.0.1:80" */
void fixture_addr_port(const char *text, struct mk_addr *address, __be16 *port)
{
	char copy[64], *colon;

	snprintf(copy, sizeof(copy), "%s", text);
	colon = strchr(copy, ':');
	ck_assert_ptr_nonnull(colon);
	*colon = '\0';
	*address = fixture_addr(copy);
	*port = htons((uint16_t)atoi(colon + 1));
}

void fixture_mac(const char *address, __u8 *mac)
{
	struct mk_mac computed;
	struct mk_ip ip;

	ck_assert_msg(mk_ip_parse(address, &ip) == 0, "not an address: %s", address);
	computed = mk_mac_of_ip(&ip);
	memcpy(mac, computed.byte, sizeof(computed.byte));
}

void fixture_empty(const char *map)
{
	__u8 key[64];
	int fd = fixture_map(map);

	while (row_next_key(fd, NULL, key) == 0)
		ck_assert_int_eq(row_delete(fd, key), 0);
}

static void drain(const char *queue)
{
	struct mk_session_place place;

	while (row_take(fixture_map(queue), NULL, &place) == 0)
		;
}

static void clear_drops_in(int fd)
{
	int cpus = libbpf_num_possible_cpus();
	struct mk_drop_counter zero[cpus];

	memset(zero, 0, sizeof(zero));
	for (__u32 i = 0; i < MK_DROP_COUNT * MK_HOOK_COUNT; i++)
		ck_assert_int_eq(row_update(fd, &i, zero, BPF_ANY), 0);
}

static void clear_drops(void)
{
	int front = fixture_front_map("drops");

	clear_drops_in(fixture_map("drops"));
	if (front >= 0)
		clear_drops_in(front);
}

/* A per-CPU array of __u64. */
static void put_numbers(const char *map, __u32 count, __u64 number)
{
	int cpus = libbpf_num_possible_cpus();
	__u64 each[cpus];

	for (int i = 0; i < cpus; i++)
		each[i] = number;
	for (__u32 i = 0; i < count; i++)
		ck_assert_int_eq(row_update(fixture_map(map), &i, each, 0), 0);
}

static void clear_numbers(const char *map, __u32 count)
{
	put_numbers(map, count, 0);
}

void fixture_syn_flood(void)
{
	put_numbers("syn_budget", 1, 1ULL << 60);
}

static void put_syn_secret(void)
{
	const struct mk_syn_secret secret = { { 0x0123456789abcdefULL, 0xfedcba9876543210ULL }, 0 };
	__u32 zero = 0;

	ck_assert_int_eq(row_update(fixture_map("syn_secret"), &zero, &secret, 0), 0);
}

static int64_t quota_of_each;

static void put_quota(int64_t sessions)
{
	int cpus = libbpf_num_possible_cpus();
	int64_t quota[cpus];
	__u32 zero = 0;

	quota_of_each = sessions;
	for (int i = 0; i < cpus; i++)
		quota[i] = sessions;
	ck_assert_int_eq(row_update(fixture_map("half_open_quota"), &zero, quota, BPF_ANY), 0);
}

void fixture_quota(int64_t sessions)
{
	put_quota(sessions);
	cpus_one(true);
}

int64_t fixture_quota_used(void)
{
	int cpus = libbpf_num_possible_cpus();
	int64_t quota[cpus], taken = 0;
	__u32 zero = 0;

	ck_assert_int_eq(row_lookup(fixture_map("half_open_quota"), &zero, quota), 0);
	for (int i = 0; i < cpus; i++)
		taken += quota_of_each - quota[i];
	return taken;
}

void fixture_put_pod(const struct mk_pod *pod)
{
	__u32 slot = mk_pod_slot(&pod->addr, FIXTURE_POD_SLOTS);

	ck_assert_int_eq(row_update(fixture_map("pods"), &slot, pod, BPF_ANY), 0);
}

void fixture_pod(const char *address)
{
	struct mk_pod pod = { .ifindex = 1, .addr = fixture_addr(address) };

	fixture_mac(address, pod.mac);
	fixture_put_pod(&pod);
}

static void clear_pods(void)
{
	const struct mk_pod nobody = { 0 };

	for (__u32 slot = 0; slot < FIXTURE_POD_SLOTS; slot++)
		ck_assert_int_eq(row_update(fixture_map("pods"), &slot, &nobody, BPF_ANY), 0);
}

static void clear_policies(void)
{
	const struct mk_pod_policy nothing = { 0 };
	struct mk_policy_state state;
	__u32 zero = 0;

	ck_assert_int_eq(row_lookup(fixture_map("policy_state"), &zero, &state), 0);
	if (!state.on && state.listed)
		return;
	state = (struct mk_policy_state){ .listed = MK_POLICY_LISTED_SOME };
	ck_assert_int_eq(row_update(fixture_map("policy_state"), &zero, &state, BPF_ANY), 0);
	for (__u32 slot = 0; slot < FIXTURE_POD_SLOTS; slot++)
		ck_assert_int_eq(row_update(fixture_map("pod_policies"), &slot, &nothing, BPF_ANY),
				 0);
}

#define NODES 256 /* of the cluster, 10.244.0.0/16 */

static void clear_node_routes(void)
{
	const struct mk_route none = { 0 };

	for (__u32 number = 0; number < NODES; number++)
		ck_assert_int_eq(row_update(fixture_map("node_routes"), &number, &none, 0), 0);
}

/* Write the route as the agent does for pod CIDRs of other nodes. */
static void put_node_route(const struct mk_route_key *key, const struct mk_route *route)
{
	const struct mk_node *node = fixture_node();
	__u32 number = mk_node_number(&key->addr, &node->cluster_mask, node->pod_host_bits);

	if (route->type == MK_ROUTE_OVERLAY && key->prefix_bits == family_bits(24) &&
	    number < MK_NODE_ROUTES)
		ck_assert_int_eq(row_update(fixture_map("node_routes"), &number, route, 0), 0);
}

static void put_cidr_route(const struct mk_cidr *cidr, enum mk_route_type type, const char *vtep)
{
	struct mk_route_key key = { .prefix_bits = cidr->prefix_bits,
				    .addr = mk_ip_to_addr(&cidr->ip) };
	struct mk_route route = { .type = (__u8)type };

	if (vtep)
		fixture_mac(vtep, route.vtep_mac);
	ck_assert_int_eq(row_update(fixture_map("routes"), &key, &route, BPF_ANY), 0);
	put_node_route(&key, &route);
}

static void put_route(const char *net, unsigned bits, enum mk_route_type type, const char *vtep)
{
	const struct mk_cidr cidr = family_cidr(net, bits);

	put_cidr_route(&cidr, type, vtep);
}

void fixture_drop_range(const char *net, unsigned bits)
{
	put_route(net, bits, MK_ROUTE_DROP, NULL);
}

void fixture_drop_cidr(const struct mk_cidr *cidr)
{
	put_cidr_route(cidr, MK_ROUTE_DROP, NULL);
}

void fixture_view(const char *net, unsigned bits, uint32_t cluster)
{
	const struct mk_cidr cidr = family_cidr(net, bits);
	struct mk_route_key key = { .prefix_bits = cidr.prefix_bits,
				    .addr = mk_ip_to_addr(&cidr.ip) };
	const struct mk_route route = mk_route_to_cluster(cluster);

	ck_assert_int_eq(row_update(fixture_map("routes"), &key, &route, BPF_ANY), 0);
}

void fixture_node_address(const char *address)
{
	put_route(address, 32, MK_ROUTE_NODE, NULL);
}

void fixture_peer(const char *pod_net, const char *vtep)
{
	put_route(pod_net, 24, MK_ROUTE_OVERLAY, vtep);
}

void fixture_clear_peer(const char *pod_net, const char *vtep)
{
	struct mk_ip ip = family_ip(pod_net);
	struct mk_route_key key = { .prefix_bits = family_bits(24), .addr = mk_ip_to_addr(&ip) };
	struct mk_route route = { .type = MK_ROUTE_OVERLAY, .is_clear = 1 };

	fixture_mac(vtep, route.vtep_mac);
	ck_assert_int_eq(row_update(fixture_map("routes"), &key, &route, BPF_ANY), 0);
	put_node_route(&key, &route);
}

void fixture_host_address(const char *address)
{
	put_route(address, 32, MK_ROUTE_HOST, NULL);
}

static __u32 run_flags; /* of BPF_PROG_TEST_RUN */
static struct __sk_buff context; /* given to each packet */

void fixture_mark(uint32_t mark)
{
	context.mark = mark;
}

void fixture_checksum_at(unsigned summed, uint16_t start, uint16_t offset)
{
	const uint16_t network = 78, word[] = { network + start, offset, network };

	memcpy(context.cb, word, sizeof(word));
	context.cb[2] = summed << FIXTURE_SUMMED_SHIFT | 0x81;
}

void fixture_device(unsigned ifindex)
{
	context.ifindex = ifindex;
}

static void take_table(struct mk_table *table, const char *name)
{
	struct mk_error err = { 0 };

	ck_assert_msg(mk_table_init(table, name, fixture_map(name), &err) == 0, "%s",
		      mk_error_text(&err));
}

void fixture_links(const struct mk_datapath_links *links)
{
	struct mk_datapath_links wanted = *links;
	struct mk_table table, uplinks;
	struct mk_error err = { 0 };

	wanted.set.node_addr = fixture_addr("192.168.99.11");
	wanted.set.overlay_ifindex = wanted.set.host_ifindex = wanted.set.host_peer_ifindex = 1;
	wanted.set.overlay_mtu_bytes = 1450;
	wanted.set.first = wanted.uplinks[0];
	take_table(&table, "links");
	take_table(&uplinks, "uplinks");
	ck_assert_msg(mk_links_put(&table, &uplinks, &wanted, &err) >= 0 &&
			      mk_links_prune(&uplinks, &wanted, &err) >= 0,
		      "%s", mk_error_text(&err));
}

static void one_uplink(void)
{
	struct mk_datapath_links links = { .uplink_count = 1 };

	links.uplinks[0] = (struct mk_uplink){ .ifindex = 1, .mtu_bytes = 1500 };
	links.uplinks[0].addr = fixture_addr("192.168.99.11");
	links.set.networks[0].ifindex = 1;
	links.set.networks[0].net = fixture_addr("192.168.99.0");
	links.set.networks[0].mask = family_mask(24);
	fixture_links(&links);
}

void fixture_reset(void)
{
	static const char *const tables[] = { "frontends",
					      "service_backends",
					      "maglev",
					      "sessions",
					      "sessions_young",
					      "nat_sessions",
					      "nat_sessions_young",
					      "routes",
					      "host_ports",
					      "service_counters",
					      "service_drops",
					      "affinity",
					      "affinity_new",
					      "affinity_backends",
					      "syn_verified",
					      "source_ranges",
					      "peers",
					      "far_peers",
					      "link_nodes",
					      "clusters",
					      "cluster_nodes",
					      "cluster_carriers",
					      "cluster_counters",
					      "policy_identities",
					      "policy_peers",
					      "policy_blocks",
					      "policy_ports",
					      "policy_counts" };
	const struct mk_runtime quiet = { 0 };
	const struct mk_port_set none = { 0 };
	__u32 zero = 0;

	pieces_forget();
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		fixture_empty(tables[i]);
	drain("sessions_order");
	drain("nat_sessions_order");
	drain("sessions_kept");
	drain("nat_sessions_kept");
	clear_pods();
	clear_policies();
	clear_node_routes();
	clear_drops();
	clear_numbers("error_budget", 1);
	clear_numbers("policy_events", MK_POLICY_EVENTS);
	clear_numbers("syn_budget", 1);
	put_syn_secret();
	context = (struct __sk_buff){ 0 };
	run_flags = 0;
	one_uplink();
	put_quota(FIXTURE_QUOTA);
	cpus_one(false);
	fixture_runtime(&quiet);
	ck_assert_int_eq(row_update(fixture_map("udp_ports"), &zero, &none, 0), 0);
	fixture_fill_chain();
	fixture_fill_other_family();
	fixture_pod("10.244.1.2");
	fixture_pod("10.244.1.3");
	put_route("10.244.1.0", 24, MK_ROUTE_PODS, NULL);
	put_route("10.244.2.0", 24, MK_ROUTE_OVERLAY, "10.18.0.2");
	put_route("10.18.0.2", 32, MK_ROUTE_OVERLAY, "10.18.0.2");
	put_route("10.244.0.0", 16, MK_ROUTE_DROP, NULL);
	put_route("10.18.0.0", 16, MK_ROUTE_DROP, NULL);
	put_route("192.168.99.11", 32, MK_ROUTE_HOST, NULL);
	put_route("10.18.0.1", 32, MK_ROUTE_HOST, NULL);
	put_route("10.244.1.254", 32, MK_ROUTE_HOST, NULL);
}

void fixture_runtime(const struct mk_runtime *runtime)
{
	__u32 zero = 0;

	ck_assert_int_eq(row_update(fixture_map("runtime"), &zero, runtime, BPF_ANY), 0);
}

static void put_peer(const char *map, const void *key, const char *vtep)
{
	struct mk_peer peer = { 0 };
	struct mk_runtime runtime;
	__u32 zero = 0;

	fixture_mac(vtep, peer.vtep_mac);
	ck_assert_int_eq(row_update(fixture_map(map), key, &peer, BPF_ANY), 0);
	ck_assert_int_eq(row_lookup(fixture_map("runtime"), &zero, &runtime), 0);
	runtime.peers_known = 1;
	fixture_runtime(&runtime);
}

void fixture_peer_address(const char *address, const char *vtep)
{
	struct mk_addr key = fixture_addr(address);

	put_peer("peers", &key, vtep);
}

void fixture_far_peer(const struct mk_ip *ip, const char *vtep)
{
	struct mk_addr key = mk_ip_to_addr(ip);

	put_peer("far_peers", &key, vtep);
}

void fixture_localhost_ports(uint16_t min, uint16_t max)
{
	struct mk_runtime runtime;
	__u32 zero = 0;

	ck_assert_int_eq(row_lookup(fixture_map("runtime"), &zero, &runtime), 0);
	runtime.localhost_port_min = min;
	runtime.localhost_port_max = max;
	fixture_runtime(&runtime);
}

void fixture_udp_backend_port(uint16_t port)
{
	struct mk_port_set ports;
	__u32 zero = 0;

	ck_assert_int_eq(row_lookup(fixture_map("udp_ports"), &zero, &ports), 0);
	mk_port_set_add(&ports, port);
	ck_assert_int_eq(row_update(fixture_map("udp_ports"), &zero, &ports, 0), 0);
}

void fixture_watch(const struct mk_monitor_settings *settings)
{
	__u32 zero = 0, slot = MK_PROG_ROUTER, fd = (__u32)fixture_program("monitor");
	struct mk_runtime runtime;

	ck_assert_int_eq(row_update(fixture_map("monitor_settings"), &zero, settings, 0), 0);
	ck_assert_int_eq(row_update(fixture_map("chain"), &slot, &fd, 0), 0);
	ck_assert_int_eq(row_lookup(fixture_map("runtime"), &zero, &runtime), 0);
	runtime.monitored = 1;
	fixture_runtime(&runtime);
}

void fixture_break_chain(enum mk_prog slot)
{
	__u32 key = slot;

	ck_assert_int_eq(row_delete(fixture_map("chain"), &key), 0);
}

static __u32 put_backends(const char *const *backends, __u32 set_id,
			  struct mk_service_backend *list)
{
	struct mk_backend_key key = { .set_id = set_id, .generation = 1 };

	for (; backends && backends[key.index]; key.index++) {
		struct mk_backend backend = { 0 };

		fixture_addr_port(backends[key.index], &backend.addr, &backend.port);
		list[key.index].ip = mk_ip_from_addr(&backend.addr);
		list[key.index].port = ntohs(backend.port);
		ck_assert_int_eq(
			row_update(fixture_map("service_backends"), &key, &backend, BPF_ANY), 0);
	}
	return key.index;
}

static struct mk_frontend_key frontend_key(const char *frontend, enum mk_scope scope)
{
	struct mk_frontend_key key = { .scope = (__u8)scope };

	key.proto = strncmp(frontend, "udp ", 4) == 0	 ? IPPROTO_UDP
		    : strncmp(frontend, "sctp ", 5) == 0 ? IPPROTO_SCTP
							 : IPPROTO_TCP;
	fixture_addr_port(strchr(frontend, ' ') + 1, &key.addr, &key.port);
	return key;
}

struct mk_frontend fixture_get_service(const char *frontend, enum mk_scope scope)
{
	struct mk_frontend_key key = frontend_key(frontend, scope);
	struct mk_frontend service;

	ck_assert_msg(row_lookup(fixture_map("frontends"), &key, &service) == 0, "no frontend '%s'",
		      frontend);
	return service;
}

void fixture_put_service(const char *frontend, enum mk_scope scope,
			 const struct mk_frontend *service)
{
	struct mk_frontend_key key = frontend_key(frontend, scope);

	ck_assert_int_eq(row_update(fixture_map("frontends"), &key, service, BPF_ANY), 0);
}

void fixture_service(const char *frontend, enum mk_scope scope, uint16_t flags,
		     const char *const *backends, uint16_t local_count, uint16_t local_weight)
{
	struct mk_frontend service = { .generation = 1,
				       .flags = flags,
				       .local_weight = local_weight };
	struct mk_service_backend list[64] = { 0 };

	service.set_id = fixture_count("frontends") + 1;
	service.service_id = FIXTURE_ACCOUNT + service.set_id;
	service.local_count = local_count;
	service.backend_count = (__u16)put_backends(backends, service.set_id, list);
	if (flags & MK_FRONTEND_MAGLEV && service.backend_count) {
		struct mk_maglev_key mkey = { .set_id = service.set_id, .generation = 1 };
		uint16_t *table = mk_maglev_new(MK_MAGLEV_SLOTS, list, service.backend_count);

		ck_assert_ptr_nonnull(table);
		ck_assert_int_eq(row_update(fixture_map("maglev"), &mkey, table, 0), 0);
		free(table);
	}
	fixture_put_service(frontend, scope, &service);
}

static struct mk_host_port_key host_port_key(const char *text)
{
	struct mk_host_port_key key = { 0 };
	char proto[8] = "";

	sscanf(text, "%7s", proto);
	key.proto = strcmp(proto, "udp") == 0	 ? IPPROTO_UDP
		    : strcmp(proto, "sctp") == 0 ? IPPROTO_SCTP
						 : IPPROTO_TCP;
	fixture_addr_port(strchr(text, ' ') + 1, &key.addr, &key.port);
	return key;
}

void fixture_host_port(const char *port, const char *pod)
{
	struct mk_host_port_key key = host_port_key(port);
	struct mk_host_port value = { .ifindex = 1 };
	struct mk_runtime runtime;
	__u32 zero = 0;

	fixture_addr_port(pod, &value.addr, &value.port);
	ck_assert_int_eq(row_update(fixture_map("host_ports"), &key, &value, BPF_ANY), 0);
	ck_assert_int_eq(row_lookup(fixture_map("runtime"), &zero, &runtime), 0);
	runtime.host_ports = 1;
	fixture_runtime(&runtime);
}

void fixture_host_port_gone(const char *port)
{
	struct mk_host_port_key key = host_port_key(port);

	ck_assert_int_eq(row_delete(fixture_map("host_ports"), &key), 0);
}

void fixture_vip(const char *address)
{
	struct mk_frontend_key key = { .addr = fixture_addr(address) };
	struct mk_frontend service = { .set_id = 9999 };

	ck_assert_int_eq(row_update(fixture_map("frontends"), &key, &service, BPF_ANY), 0);
}

static uint64_t packets_in(int fd, __u32 index)
{
	int cpus = libbpf_num_possible_cpus();
	struct mk_drop_counter counter[cpus];
	uint64_t packets = 0;

	ck_assert_int_eq(row_lookup(fd, &index, counter), 0);
	for (int i = 0; i < cpus; i++)
		packets += counter[i].packets;
	return packets;
}

uint64_t fixture_drops(enum mk_hook hook, enum mk_drop_reason reason)
{
	__u32 index = reason * MK_HOOK_COUNT + hook;
	int front = fixture_front_map("drops");

	return packets_in(fixture_map("drops"), index) + (front < 0 ? 0 : packets_in(front, index));
}

uint64_t fixture_drops_total(void)
{
	uint64_t packets = 0;

	for (int hook = 0; hook < MK_HOOK_COUNT; hook++)
		for (int reason = 0; reason < MK_DROP_COUNT; reason++)
			packets += fixture_drops(hook, reason);
	return packets;
}

unsigned fixture_count(const char *map)
{
	int fd = fixture_map(map);
	unsigned count = 0;
	__u8 key[64];

	for (void *last = NULL; row_next_key(fd, last, key) == 0; last = key)
		count++;
	return count;
}

static enum mk_entry function_entry = MK_ENTRY_FUNCTION;

void fixture_function_entry(enum mk_entry entry)
{
	function_entry = entry;
}

static int program_of(enum mk_hook hook)
{
	switch (hook) {
	case MK_HOOK_POD:
		return fixture_hook_program(MK_ENTRY_POD);
	case MK_HOOK_HOST:
		return fixture_hook_program(MK_ENTRY_HOST);
	case MK_HOOK_OVERLAY:
		return fixture_hook_program(MK_ENTRY_OVERLAY);
	case MK_HOOK_UPLINK:
		return fixture_hook_program(MK_ENTRY_UPLINK);
	case MK_HOOK_FUNCTION:
		return fixture_hook_program(function_entry);
	case MK_HOOK_CLUSTER:
		return fixture_hook_program(MK_ENTRY_CLUSTER);
	case HOOK_LOOPBACK:
		return fixture_hook_program(MK_ENTRY_LOOPBACK);
	default:
		return fixture_hook_program(MK_ENTRY_UPLINK_EGRESS);
	}
}

void fixture_gso(unsigned segments, unsigned segment_bytes)
{
	context.gso_segs = segments;
	context.gso_size = segment_bytes;
}

#ifndef BPF_F_TEST_SKB_CHECKSUM_COMPLETE
#define BPF_F_TEST_SKB_CHECKSUM_COMPLETE (1U << 2) /* since Linux 6.16 */
#endif
bool fixture_checksum_complete(void)
{
	const struct frame any = frame_make("udp 10.244.1.2:1 > 10.244.1.3:1", NULL);
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = any.byte, .data_size_in = (__u32)any.length,
		    .repeat = 1, .flags = BPF_F_TEST_SKB_CHECKSUM_COMPLETE);

	if (bpf_prog_test_run_opts(fixture_program("ilb_lo_egress"), &opts) == 0)
		run_flags = opts.flags;
	return run_flags;
}

static const __u8 no_mac[6];

/* Set the frame's destination MAC address for the device of test runs, the loopback device: the
 * kernel compares the two. */
static void address_to_device(enum mk_hook hook, struct frame *frame)
{
	if (hook == MK_HOOK_UPLINK && strcmp(frame_mac_dest(frame), FRAME_GATEWAY_MAC) == 0)
		memcpy(frame->byte, no_mac, sizeof(no_mac));
}

/* If no program has written MAC addresses, give @out those of @in again. */
static void address_as_before(const struct frame *in, const struct frame *sent, struct frame *out)
{
	if (memcmp(out->byte, sent->byte, 2 * sizeof(no_mac)) == 0)
		memcpy(out->byte, in->byte, sizeof(no_mac));
}

static __u32 run(enum mk_hook hook, const struct frame *in, struct frame *out, unsigned repeat,
		 __u32 *duration_ns)
{
	struct frame sent = *in;
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = sent.byte,
		    .data_size_in = (__u32)in->length, .data_out = out->byte,
		    .data_size_out = sizeof(out->byte), .repeat = (int)repeat, .flags = run_flags);
	int ret;

	if (context.gso_segs || context.mark || context.ifindex || context.cb[0]) {
		opts.ctx_in = &context;
		opts.ctx_size_in = sizeof(context);
	}
	address_to_device(hook, &sent);
	ret = bpf_prog_test_run_opts(program_of(hook), &opts);
	ck_assert_msg(ret == 0, "test run of a %zu byte frame: %s", in->length, strerror(-ret));
	out->length = opts.data_size_out;
	address_as_before(in, &sent, out);
	if (duration_ns)
		*duration_ns = opts.duration;
	return opts.retval;
}

/* Find the target of a redirect from the MAC addresses, because the verdict does not show it. */
static enum where redirected(const struct frame *out)
{
	const char *mac = frame_mac_dest(out);

	if (strcmp(mac, "00:00:00:00:00:00") == 0)
		return TO_LOOPBACK;
	if (memcmp(out->byte, out->byte + 6, 6) == 0) /* between the ends of the host veth pair */
		return TO_HOST;

	if (strncmp(mac, "06:", 3) == 0) /* to this cluster: as it came, the kernel writes them */
		return mk_cluster_number_at(out->byte + 1) == FIXTURE_CLUSTER ? TO_UPLINK
									      : TO_CLUSTER;
	if (strncmp(mac, "02:4d:0a:12:", 12) == 0) /* a VTEP: 10.18.x.x */
		return TO_OVERLAY;
	if (strncmp(mac, "02:4d:0a:f4:01:", 15) == 0 && strcmp(mac, "02:4d:0a:f4:01:fe") != 0)
		return TO_POD;
	return TO_UPLINK;
}

enum where fixture_send(enum mk_hook hook, const struct frame *in, struct frame *out)
{
	__u32 verdict;

	cpus_move_on();
	verdict = run(hook, in, out, 1, NULL);
	if (verdict == TC_UNSPEC)
		return TO_HOST;
	if (verdict == TC_REDIRECT && hook == HOOK_LOOPBACK &&
	    strcmp(frame_mac_dest(out), "02:4d:0a:f4:01:fe") == 0 && fixture_drops_total() == 0)
		return TO_HOST_HOOK;
	if (verdict == TC_REDIRECT)
		return redirected(out);
	if (verdict == TC_STOLEN)
		return WAITS;
	ck_assert_msg(verdict == TC_SHOT, "unknown verdict %u", verdict);
	return DROPPED;
}

uint32_t fixture_ns_per_packet(enum mk_hook hook, const struct frame *in, unsigned repeat)
{
	struct frame out;
	__u32 duration_ns;

	run(hook, in, &out, repeat, &duration_ns);
	return duration_ns;
}

const char *where_name(enum where where)
{
	static const char *const names[] = { "to a pod",	 "to the overlay",
					     "to the uplink",	 "to another cluster",
					     "to the host",	 "to the host by loopback",
					     "to the host hook", "nowhere yet",
					     "dropped" };

	return names[where];
}

struct frame fixture_expect(const char *name, enum mk_hook hook, const struct frame *in,
			    enum where where, const char *seen)
{
	const char *what = NULL;
	struct frame out;
	enum where got = fixture_send(hook, in, &out);

	ck_assert_msg(got == where, "%s: expected %s, went %s as '%s'", name, where_name(where),
		      where_name(got), frame_flow(&out));
	if (seen)
		ck_assert_msg(strcmp(frame_flow(&out), seen) == 0, "%s: expected '%s', saw '%s'",
			      name, seen, frame_flow(&out));
	if (where != DROPPED && where != WAITS)
		ck_assert_msg(frame_checksums_right(&out, &what), "%s: wrong %s", name, what);
	return out;
}

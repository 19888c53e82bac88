// SPDX-License-Identifier: Apache-2.0
/* test/policy/walk.c - the way of a packet: the hook by which it comes in, the programs, and the
 * other node if it is for that one. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/pkt_cls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/node_internal.h"

#define TC_UNSPEC 0xffffffffu
#define CPUS_MAX  256

/* ---- Services and host ports ----------------------------------------------------------------- */

static struct datapath *first_of(const struct flow *flow)
{
	return datapath_of(node_index(flow->at), flow->family == 4 ? AF_INET : AF_INET6);
}

static struct mk_frontend_key frontend_key(const struct flow *flow)
{
	return (struct mk_frontend_key){
		.addr = mk_ip_to_addr(&flow->asked),
		.port = htons(flow->asked_port),
		.proto = flow->proto,
		.scope = flow->how == FROM_OUTSIDE ? MK_SCOPE_EXTERNAL : MK_SCOPE_INTERNAL,
	};
}

static void put_frontend(const struct flow *flow)
{
	const struct mk_backend_key key = { .set_id = 7, .generation = 1 };
	const struct mk_backend backend = { .addr = mk_ip_to_addr(&flow->server),
					    .port = htons(flow->port) };
	const struct mk_frontend_key frontend = frontend_key(flow);
	struct mk_frontend service = {
		.set_id = 7, .generation = 1, .backend_count = 1, .local_weight = 1, .service_id = 7
	};

	service.local_count = flow->server_box && flow->server_box->node == node_index(flow->at);
	service.flags = flow->masquerades ? MK_FRONTEND_MASQUERADE : 0;
	node_put(first_of(flow), "service_backends", &key, &backend);
	node_put(first_of(flow), "frontends", &frontend, &service);
}

static struct mk_host_port_key host_port_key(const struct flow *flow)
{
	return (struct mk_host_port_key){ .port = htons(flow->asked_port), .proto = flow->proto };
}

static void put_host_port(const struct flow *flow)
{
	const struct mk_host_port_key key = host_port_key(flow);
	const struct mk_host_port value = { .addr = mk_ip_to_addr(&flow->server),
					    .port = htons(flow->port),
					    .ifindex = MK_LOOPBACK_IFINDEX };

	node_put(first_of(flow), "host_ports", &key, &value);
}

void nodes_put_service(const struct flow *flow)
{
	if (text_at(flow->target, "service"))
		put_frontend(flow);
	else if (flow->by_service)
		put_host_port(flow);
}

void nodes_remove_service(const struct flow *flow)
{
	const struct mk_frontend_key frontend = frontend_key(flow);
	const struct mk_host_port_key port = host_port_key(flow);
	const bool is_service = text_at(flow->target, "service");
	const struct mk_table table =
		node_table(first_of(flow), is_service ? "frontends" : "host_ports");
	struct mk_error err;

	if (flow->by_service)
		node_must(mk_table_delete(&table, is_service ? (const void *)&frontend : &port,
					  &err),
			  &err);
}

/* ---- one node -------------------------------------------------------------------------------- */

static uint64_t drops_of(const struct datapath *datapath, enum mk_hook hook, int reason)
{
	const __u32 index = (__u32)(reason * MK_HOOK_COUNT) + hook;
	struct mk_drop_counter counters[CPUS_MAX];
	uint64_t packets = 0;

	if (libbpf_num_possible_cpus() > CPUS_MAX ||
	    bpf_map_lookup_elem(node_map(datapath, "drops"), &index, counters) < 0)
		abort();
	for (int i = 0; i < libbpf_num_possible_cpus(); i++)
		packets += counters[i].packets;
	return packets;
}

/* Which policy has dropped the last packet? */
static int reason_of(struct datapath *datapath, enum mk_hook hook)
{
	int found = -1;

	for (int reason = MK_DROP_POLICY_INGRESS; reason <= MK_DROP_POLICY_NO_FLOW; reason++) {
		uint64_t packets = drops_of(datapath, hook, reason);

		if (packets != datapath->drops[hook][reason])
			found = reason;
		datapath->drops[hook][reason] = packets;
	}
	return found;
}

static enum mk_entry entry_of(enum mk_hook hook)
{
	static const enum mk_entry entries[] = { [MK_HOOK_POD] = MK_ENTRY_POD,
						 [MK_HOOK_HOST] = MK_ENTRY_HOST,
						 [MK_HOOK_OVERLAY] = MK_ENTRY_OVERLAY,
						 [MK_HOOK_UPLINK] = MK_ENTRY_UPLINK };

	return entries[hook];
}

static __u32 run(const struct datapath *datapath, enum mk_hook hook, const struct packet *in,
		 struct packet *out)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = in->bytes,
		    .data_size_in = (__u32)in->length, .data_out = out->bytes,
		    .data_size_out = sizeof(out->bytes), .repeat = 1);
	struct mk_error err;
	int program = mk_object_program(datapath->object, mk_entry_programs[entry_of(hook)], &err);
	int ret = bpf_prog_test_run_opts(program, &opts);

	if (ret < 0) {
		fprintf(stderr, "test run of a frame with %zu bytes: %s\n", in->length,
			strerror(-ret));
		exit(2);
	}
	out->length = opts.data_size_out;
	out->family = in->family;
	return opts.retval;
}

static bool has_mac(const uint8_t *at, struct mk_mac mac)
{
	return memcmp(at, mac.byte, sizeof(mac.byte)) == 0;
}

/* The target of a redirect shows only in the frame. */
static enum place place_of(const struct packet *out)
{
	const struct mk_ip destination = packet_destination(out);

	if (has_mac(out->bytes, (struct mk_mac){ 0 }) || memcmp(out->bytes, out->bytes + 6, 6) == 0)
		return AT_HOST;
	return has_mac(out->bytes, mac_of(&destination)) ? AT_POD : AT_OUTSIDE;
}

static bool is_for_node(const struct packet *out, const struct datapath *datapath)
{
	const struct mk_ip vtep = node_vtep(datapath);

	return has_mac(out->bytes, mac_of(&vtep));
}

struct arrival nodes_send(int node, enum mk_hook hook, const struct packet *packet)
{
	struct datapath *datapath = datapath_of(node, packet->family);
	struct datapath *other = datapath_of(1 - node, packet->family);
	struct arrival arrival = { .node = node, .reason = -1 };
	__u32 verdict = run(datapath, hook, packet, &arrival.packet);

	if (verdict == TC_ACT_SHOT) {
		arrival.place = DROPPED;
		arrival.reason = reason_of(datapath, hook);
	} else if (verdict == TC_UNSPEC) {
		arrival.place = AT_HOST;
	} else if (verdict == TC_ACT_STOLEN) {
		arrival.place = WAITS;
	} else if (hook != MK_HOOK_OVERLAY && is_for_node(&arrival.packet, other)) {
		return nodes_send(1 - node, MK_HOOK_OVERLAY, &arrival.packet);
	} else {
		arrival.place = place_of(&arrival.packet);
	}
	return arrival;
}

/* ---- a flow ---------------------------------------------------------------------------------- */

/* The host of one node sends to a pod of the other one by its overlay device, without our hooks. */
static bool begins_on_overlay(const struct flow *flow)
{
	return flow->how == FROM_NODE && !flow->by_service && flow->server_box &&
	       flow->server_box->node != node_index(flow->at);
}

static enum mk_hook hook_of(const struct flow *flow)
{
	if (flow->how == FROM_POD)
		return MK_HOOK_POD;
	if (begins_on_overlay(flow))
		return MK_HOOK_OVERLAY;
	return flow->how == FROM_OUTSIDE && flow->by_service ? MK_HOOK_UPLINK : MK_HOOK_HOST;
}

static void set_macs(struct packet *packet, enum mk_hook hook, const struct datapath *datapath)
{
	const struct mk_ip gateway = node_gateway(datapath), source = packet_source(packet);
	const struct mk_mac none = { 0 }, to = mac_of(&gateway), from = mac_of(&source);

	/* test runs are on the loopback device */
	packet_set_macs(packet, from.byte, hook == MK_HOOK_UPLINK ? none.byte : to.byte);
}

void nodes_address(struct packet *packet, int node)
{
	set_macs(packet, MK_HOOK_POD, datapath_of(node, packet->family));
}

/* The packet of @flow before its MAC addresses are filled in. */
static struct packet first_packet(const struct flow *flow, enum packet_kind kind,
				  uint16_t client_port)
{
	const bool as_host =
		flow->how == FROM_NODE && (flow->by_service || begins_on_overlay(flow));
	const struct packet_flow what = {
		.from = as_host ? node_vtep(first_of(flow)) : flow->client,
		.to = flow->asked,
		.from_port = client_port,
		.to_port = flow->asked_port,
		.proto = flow->proto,
	};

	return packet_make(&what, kind);
}

static struct arrival send_first(const struct flow *flow, struct packet *packet)
{
	const enum mk_hook hook = hook_of(flow);

	set_macs(packet, hook, first_of(flow));
	return nodes_send(begins_on_overlay(flow) ? flow->server_box->node : node_index(flow->at),
			  hook, packet);
}

struct arrival nodes_send_flow(const struct flow *flow, enum packet_kind kind, uint16_t client_port)
{
	struct packet packet = first_packet(flow, kind, client_port);

	return send_first(flow, &packet);
}

struct arrival nodes_send_fragment(const struct flow *flow, uint16_t client_port, bool first,
				   uint16_t id)
{
	const struct packet whole = first_packet(flow, PACKET_OPENS, client_port);
	struct packet part = packet_fragment(&whole, first, id);

	return send_first(flow, &part);
}

/* Leave out what does not leave its pod, and what comes from outside with an address of the cluster.
 * Uplinks drop that. If the host forwards it with an address of a pod of this node, that pod's
 * egress policies are asked, too. */
bool nodes_run_programs_for(const struct flow *flow)
{
	const struct box *owner = box_at(flow->cluster, &flow->client);

	if (flow->how != FROM_OUTSIDE)
		return flow->by_service || !flow->client_box ||
		       flow->client_box != flow->server_box;
	if (!flow->by_service)
		return !owner || owner->node != node_index(flow->at);
	return !owner && !is_overlay_address(flow->cluster, &flow->client);
}

// SPDX-License-Identifier: Apache-2.0
#include "bpf/delegated.h"

#include <net/if.h>

#include <netinet/ether.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bpf/run.h"
#include "bpf/network.h"
#include "datapath/maps/row.h"
#include "rows.h"

struct between between;
static const struct between overlay = { MK_HOOK_OVERLAY, TO_OVERLAY, NODE2, NODE3, NODE2, 0 };
static struct between on_link = { MK_HOOK_UPLINK, TO_UPLINK, NODE2, NODE3, LINK2, 0 };

const struct taken taken[TAKEN_ROWS] = {
	{ "tcp 203.0.113.9:5000 > 192.168.99.11:30080",
	  "tcp 192.168.99.11:30080 > 203.0.113.9:5000",
	  { .tcp_flags = ACK },
	  { .tcp_flags = SYN | ACK } },
	{ "udp 203.0.113.9:5000 > 192.168.99.11:30080",
	  "udp 192.168.99.11:30080 > 203.0.113.9:5000",
	  { 0 },
	  { 0 } },
	{ "sctp 203.0.113.9:5000 > 192.168.99.11:30080",
	  "sctp 192.168.99.11:30080 > 203.0.113.9:5000",
	  { .sctp_chunk = SCTP_COOKIE_ECHO },
	  { .sctp_chunk = SCTP_INIT_ACK } },
	{ "tcp 203.0.113.9:5000 > 198.51.100.9:80",
	  "tcp 198.51.100.9:80 > 203.0.113.9:5000",
	  { .tcp_flags = ACK },
	  { .tcp_flags = SYN | ACK } },
};

const struct served served[SERVED_ROWS] = {
	{ "tcp 203.0.113.9:5000 > 192.168.99.12:30081",
	  "tcp 203.0.113.9:5000 > 10.244.1.3:8080",
	  "tcp 10.244.1.3:8080 > 203.0.113.9:5000",
	  "tcp 192.168.99.12:30081 > 203.0.113.9:5000",
	  { .tcp_flags = ACK },
	  { .tcp_flags = SYN | ACK } },
	{ "udp 203.0.113.9:5000 > 192.168.99.12:30081",
	  "udp 203.0.113.9:5000 > 10.244.1.3:8080",
	  "udp 10.244.1.3:8080 > 203.0.113.9:5000",
	  "udp 192.168.99.12:30081 > 203.0.113.9:5000",
	  { 0 },
	  { 0 } },
	{ "sctp 203.0.113.9:5000 > 192.168.99.12:30081",
	  "sctp 203.0.113.9:5000 > 10.244.1.3:8080",
	  "sctp 10.244.1.3:8080 > 203.0.113.9:5000",
	  "sctp 192.168.99.12:30081 > 203.0.113.9:5000",
	  { .sctp_chunk = SCTP_COOKIE_ECHO },
	  { .sctp_chunk = SCTP_INIT_ACK } },
	{ "tcp 203.0.113.9:5000 > 198.51.100.9:81",
	  "tcp 203.0.113.9:5000 > 10.244.1.3:8080",
	  "tcp 10.244.1.3:8080 > 203.0.113.9:5000",
	  "tcp 198.51.100.9:81 > 203.0.113.9:5000",
	  { .tcp_flags = ACK },
	  { .tcp_flags = SYN | ACK } },
};

void set_direct(bool is_direct)
{
	const struct mk_cidr cidr = family_cidr("10.244.2.0", 24);
	struct mk_route_key key = { cidr.prefix_bits, mk_ip_to_addr(&cidr.ip) };
	struct mk_route route = { .type = MK_ROUTE_OVERLAY, .is_direct = is_direct };
	const struct mk_node *node = fixture_node();
	__u32 number = mk_node_number(&key.addr, &node->cluster_mask, node->pod_host_bits);

	fixture_mac("10.18.0.2", route.vtep_mac);
	ck_assert_int_eq(row_update(fixture_map("routes"), &key, &route, BPF_ANY), 0);
	ck_assert_int_eq(row_update(fixture_map("node_routes"), &number, &route, 0), 0);
	if (between.ifindex)
		put_link("10.18.0.2", "192.168.99.12", LINK2, is_direct ? second(0) : 0, is_direct);
}

struct frame from_node(const char *mac, const char *name, const char *flow,
		       const struct frame_options *with, enum where where, const char *seen)
{
	struct frame_options options = with ? *with : (struct frame_options){ 0 };
	struct frame out;

	options.source_mac = mac;
	options.dest_mac = between.ifindex ? OWN : NULL;
	fixture_device(between.ifindex);
	out = hop(name, between.hook, flow, &options, where, seen, NULL);
	fixture_device(0);
	return out;
}

void from_node2(const char *name, const char *flow, const struct frame_options *with,
		enum where where, const char *seen)
{
	from_node(between.mac2, name, flow, with, where, seen);
}

void to_node2(const char *name, enum mk_hook hook, const char *flow,
	      const struct frame_options *with, const char *seen)
{
	hop(name, hook, flow, with, between.where, seen, between.to_node2);
}

void delegated_service(const char *frontend, uint16_t flags, const char *backend, bool is_local)
{
	const char *const backends[] = { backend, NULL };

	fixture_service(frontend, MK_SCOPE_EXTERNAL, flags | MK_FRONTEND_MAGLEV, backends, is_local,
			1);
}

void delegated_setup(void)
{
	static const char *const protos[] = { "tcp", "udp", "sctp" };
	char frontend[64];

	fixture_reset();
	clients_put_nodes();
	between = overlay;
	set_direct(true);
	for (size_t i = 0; i < ROWS(protos); i++) {
		snprintf(frontend, sizeof(frontend), "%s 192.168.99.11:30080", protos[i]);
		delegated_service(frontend, MK_FRONTEND_MASQUERADE, "10.244.2.7:8080", false);
		snprintf(frontend, sizeof(frontend), "%s 192.168.99.11:30081", protos[i]);
		delegated_service(frontend, MK_FRONTEND_MASQUERADE, "10.244.1.3:8080", true);
		snprintf(frontend, sizeof(frontend), "%s 198.51.100.9:80", protos[i]);
		delegated_service(frontend, MK_FRONTEND_MASQUERADE, "10.244.2.7:8080", false);
		snprintf(frontend, sizeof(frontend), "%s 198.51.100.9:81", protos[i]);
		delegated_service(frontend, MK_FRONTEND_MASQUERADE, "10.244.1.3:8080", true);
	}
	fixture_vip("198.51.100.9");
}

void put_link(const char *vtep, const char *address, const char *mac, __u16 shown_s, bool sees_this)
{
	struct mk_link_node node = { .addr = fixture_addr(address),
				     .ifindex = on_link.ifindex,
				     .mtu_bytes = 1500,
				     .shown_s = shown_s & MK_SHOWN_SECONDS,
				     .sees_this = sees_this };
	struct mk_link_node_key key = { 0 };

	fixture_mac(vtep, key.vtep_mac);
	ether_aton_r(mac, (struct ether_addr *)node.mac);
	ck_assert_int_eq(row_update(fixture_map("link_nodes"), &key, &node, BPF_ANY), 0);
}

__u16 second(unsigned ago_s)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return ((now.tv_sec - ago_s) & MK_SHOWN_SECONDS) ?: 1;
}

void delegated_setup_on_link(void)
{
	delegated_setup();
	put_link("10.18.0.2", "192.168.99.12", LINK2, second(0), true);
	put_link("10.18.0.3", "192.168.99.13", LINK3, second(0), true);
	between = on_link;
}

void delegated_load(void)
{
	fixture_return_directly();
	fixture_load_small();
}

void delegated_make_link(void)
{
	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	network_shell("ip link set lo up; echo 1 >/proc/sys/net/ipv4/ip_forward\n"
		      "echo 1 >/proc/sys/net/ipv6/conf/all/forwarding\n"
		      "ip link add up9 address " OWN " type veth peer name far9\n"
		      "ip link set up9 up; ip link set far9 up\n"
		      "ip addr add 192.168.99.11/24 dev up9\n"
		      "ip neigh replace 192.168.99.12 lladdr " LINK2 " dev up9\n"
		      "ip neigh replace 192.168.99.13 lladdr " LINK3 " dev up9");
	on_link.ifindex = if_nametoindex("up9");
}

void delegated_load_on_link(void)
{
	delegated_make_link();
	delegated_load();
}

void take(const struct taken *row)
{
	to_node2("the first", MK_HOOK_UPLINK, row->request, NULL, row->request);
	from_node2("its answer", row->answer, &row->answers, TO_UPLINK, row->answer);
	to_node2("the second", MK_HOOK_UPLINK, row->request, &row->next, row->request);
}

void serve(const struct served *row)
{
	struct frame_options data = { .tcp_flags = ACK, .sctp_chunk = SCTP_DATA };

	from_node2("the first", row->request, NULL, TO_POD, row->seen);
	to_node2("its answer", MK_HOOK_POD, row->answer, &row->first, row->answered);
	from_node2("the second", row->request, &row->next, TO_POD, row->seen);
	hop("data", MK_HOOK_POD, row->answer, &data, TO_UPLINK, row->answered, NULL);
}

struct frame send_error(const char *name, enum mk_hook hook, struct frame error, enum where where,
			const char *quoted)
{
	struct frame out;

	if (hook == MK_HOOK_UPLINK && between.ifindex) {
		ether_aton_r(OWN, (struct ether_addr *)error.byte);
		fixture_device(between.ifindex);
	}
	out = fixture_expect(name, hook, &error, where, NULL);
	fixture_device(0);
	ck_assert_msg(strstr(frame_flow(&out), quoted), "%s: %s", name, frame_flow(&out));
	return out;
}

// SPDX-License-Identifier: Apache-2.0
#include "bpf/peers.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "rows.h"

static void put(const char *map, const void *key, const void *value)
{
	ck_assert_msg(row_update(fixture_map(map), key, value, BPF_ANY) == 0, "cannot write %s",
		      map);
}

struct mk_cluster peers_get(uint32_t number)
{
	struct mk_cluster row;

	ck_assert_int_eq(row_lookup(fixture_map("clusters"), &number, &row), 0);
	return row;
}

void peers_put(uint32_t number, const struct mk_cluster *row)
{
	put("clusters", &number, row);
}

void peers_set_flags(uint32_t number, uint8_t flags)
{
	struct mk_cluster row = peers_get(number);

	row.flags = flags;
	peers_put(number, &row);
}

void peers_put_node(uint32_t via, uint32_t index, uint32_t hop)
{
	const struct mk_cluster_node_key key = { via, index };

	put("cluster_nodes", &key, &hop);
}

void peers_forget(uint32_t number)
{
	ck_assert_int_eq(bpf_map_delete_elem(fixture_map("clusters"), &number), 0);
}

static void set_device(uint32_t ifindex)
{
	const __u32 zero = 0;
	struct mk_links links;

	ck_assert_int_eq(row_lookup(fixture_map("links"), &zero, &links), 0);
	links.cluster_ifindex = ifindex;
	put("links", &zero, &links);
}

void peers_no_device(void)
{
	set_device(0);
}

void peers_by_border(void)
{
	const uint32_t numbers[] = { PEER_EAST, PEER_NORTH };
	uint8_t mac[6];
	uint32_t value;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		peers_set_flags(numbers[i], peers_get(numbers[i]).flags | MK_CLUSTER_BY_BORDER);
	fixture_mac("10.18.0.2", mac);
	memcpy(&value, mac + 2, sizeof(value));
	peers_put_node(FIXTURE_CLUSTER, MK_CLUSTER_BY_INDEX, value);
}

void peers_put_carrier(const char *address, uint32_t number)
{
	const struct mk_addr addr = fixture_addr(address);
	struct mk_far_addr key;

	memcpy(&key, &addr, sizeof(key));
	put("cluster_carriers", &key, &number);
}

void peers_put_far_carrier(const char *address, uint32_t number)
{
	struct mk_far_addr key = { { 0, 0, htonl(0xffff), 0 } };

	ck_assert_int_eq(inet_pton(AF_INET, address, &key.word[3]), 1);
	put("cluster_carriers", &key, &number);
}

void peers_export(const char *endpoint)
{
	struct mk_export key = { .proto = strncmp(endpoint, "tcp ", 4) == 0   ? IPPROTO_TCP
					  : strncmp(endpoint, "udp ", 4) == 0 ? IPPROTO_UDP
									      : MK_PROTO_ANY };
	const char *target = strstr(endpoint, " > ");
	struct mk_addr to = { 0 };

	fixture_addr_port(strchr(endpoint, ' ') + 1, &key.addr, &key.port);
	if (target)
		to = fixture_addr(target + strlen(" > "));
	put("exports", &key, &to);
}

void peers_external(uint32_t number, const char *view)
{
	const uint32_t key = number | MK_CLUSTER_EXTERNAL;
	struct mk_cluster row = { 0 };

	if (number != FIXTURE_CLUSTER)
		row = peers_get(number);
	row.home = fixture_addr("247.255.0.0");
	row.mask = family_mask(16);
	row.view = fixture_addr(view);
	row.host_bits = 0;
	peers_put(key, &row);
	if (number != FIXTURE_CLUSTER)
		fixture_view(view, 16, key);
}

static void put_cluster(uint32_t number, const char *view, const struct mk_cluster *like)
{
	struct mk_cluster_counters none[libbpf_num_possible_cpus()];
	struct mk_cluster row = *like;

	row.home = fixture_addr("10.244.0.0");
	row.mask = family_mask(16);
	row.view = fixture_addr(view);
	row.mtu_bytes = 1450;
	peers_put(number, &row);
	fixture_view(view, 16, number);
	memset(none, 0, sizeof(none));
	put("cluster_counters", &number, none);
}

void peers_start(void)
{
	const uint8_t host_bits = family_is6() ? 64 : 8;
	const struct mk_cluster east = { .via = PEER_EAST,
					 .hop_count = 2,
					 .host_bits = host_bits,
					 .flags = MK_CLUSTER_ACCESS_PODS };
	const struct mk_cluster north = { .via = PEER_NORTH, .hop_count = 1 };
	const struct mk_cluster far = { .via = PEER_EAST,
					.hop_count = 2,
					.flags = MK_CLUSTER_ACCESS_PODS };

	put_cluster(PEER_EAST, "240.1.0.0", &east);
	put_cluster(PEER_NORTH, "240.2.0.0", &north);
	put_cluster(PEER_FAR, "240.3.0.0", &far);
	for (uint32_t i = 0; i < 2; i++) {
		peers_put_node(PEER_EAST, i + 1, i + 1);
		peers_put_node(PEER_EAST, MK_CLUSTER_BY_INDEX | i, i + 1);
	}
	peers_put_node(PEER_NORTH, MK_CLUSTER_BY_INDEX, 7);
	set_device(1);
}

void peers_reset(void)
{
	fixture_reset();
	peers_start();
}

void peers_expect_drop(const char *name, enum mk_hook hook, const struct frame *in,
		       enum mk_drop_reason reason)
{
	uint64_t before = fixture_drops(hook, reason), all = fixture_drops_total();

	fixture_expect(name, hook, in, DROPPED, NULL);
	ck_assert_msg(fixture_drops(hook, reason) == before + 1 && fixture_drops_total() == all + 1,
		      "%s: dropped for another reason than %d", name, reason);
}

/* ---- frames ---------------------------------------------------------------------------------- */

#define DEST_AT	  0
#define SOURCE_AT 6

static void put_number(uint8_t *mac, uint32_t number)
{
	mac[0] = MK_CLUSTER_MAC_LOCAL;
	mac[1] = (uint8_t)(number >> 16);
	mac[2] = (uint8_t)(number >> 8);
	mac[3] = (uint8_t)number;
}

void peers_mark(struct frame *frame, uint32_t from, uint32_t to)
{
	put_number(frame->byte + DEST_AT, to);
	frame->byte[DEST_AT + 4] = 0;
	frame->byte[DEST_AT + 5] = 1;
	put_number(frame->byte + SOURCE_AT, from);
	frame->byte[SOURCE_AT + 4] = MK_CLUSTER_WIRE;
	frame->byte[SOURCE_AT + 5] = 0;
}

struct frame peers_frame(uint32_t from, uint32_t to, const char *flow,
			 const struct frame_options *options)
{
	struct frame frame = frame_make(flow, options);

	peers_mark(&frame, from, to);
	return frame;
}

static uint32_t swapped(uint32_t number, uint32_t other)
{
	return number == FIXTURE_CLUSTER ? other : number == other ? FIXTURE_CLUSTER : number;
}

struct frame peers_received(const struct frame *sent, uint32_t number)
{
	struct frame frame = *sent;
	uint8_t *dest = frame.byte + DEST_AT, *source = frame.byte + SOURCE_AT;

	put_number(dest, swapped(mk_cluster_number_at(dest + 1), number));
	put_number(source, swapped(mk_cluster_number_at(source + 1), number));
	return frame;
}

const char *peers_shown(const struct frame *frame)
{
	const uint8_t *dest = frame->byte + DEST_AT, *source = frame->byte + SOURCE_AT;
	static char shown[128];

	snprintf(shown, sizeof(shown), "%s%u > %u hop %u%s",
		 source[0] == MK_CLUSTER_MAC_LOCAL && dest[0] == MK_CLUSTER_MAC_LOCAL ? "" : "? ",
		 mk_cluster_number_at(source + 1), mk_cluster_number_at(dest + 1),
		 dest[4] << 8 | dest[5],
		 source[4] == MK_CLUSTER_WIRE && source[5] == 0 ? "" : " of another version");
	return shown;
}

/* ---- counters -------------------------------------------------------------------------------- */

static struct mk_cluster_counters counted(uint32_t number)
{
	int cpus = libbpf_num_possible_cpus();
	struct mk_cluster_counters of[cpus], sum = { 0 };

	ck_assert_int_eq(row_lookup(fixture_map("cluster_counters"), &number, of), 0);
	for (int cpu = 0; cpu < cpus; cpu++)
		for (int i = 0; i < 2; i++) {
			sum.packets[i] += of[cpu].packets[i];
			sum.bytes[i] += of[cpu].bytes[i];
		}
	return sum;
}

uint64_t peers_packets(uint32_t number, int direction)
{
	return counted(number).packets[direction];
}

uint64_t peers_bytes(uint32_t number, int direction)
{
	return counted(number).bytes[direction];
}

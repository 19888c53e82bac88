// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/trace/trace.h"
#include "datapath/maps/constants.h"
#include "datapath/maps/object.h"
#include "datapath/maps/pin.h"

/* ---- frames ---------------------------------------------------------------------------------- */

#define L4_BYTES      40 /* enough for each protocol's header, and an SCTP INIT */
#define MESSAGE_BYTES 32 /* a neighbour solicitation with its sender's MAC address */

/* The sum of @bytes, an even number, added to @sum (RFC 1071). */
static uint32_t sum_words(const void *data, size_t bytes, uint32_t sum)
{
	const uint8_t *at = data;

	for (size_t i = 0; i < bytes; i += sizeof(uint16_t)) {
		uint16_t word;

		memcpy(&word, at + i, sizeof(word));
		sum += word;
	}
	return sum;
}

static __be16 fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (__be16)~sum;
}

union l4 {
	struct tcphdr tcp;
	struct udphdr udp;
	struct icmphdr icmp;
	uint8_t byte[L4_BYTES];
};

/* The message @type from @tuple's source, about its destination, with @mac. The programs read only
 * the type of all others than a solicitation. */
static union l4 message_of(const struct mk_tuple *tuple, uint8_t type, const uint8_t *mac)
{
	const __be16 pseudo[] = { htons(MESSAGE_BYTES), htons(IPPROTO_ICMPV6) };
	union l4 l4 = { .icmp.type = type };
	uint32_t sum;

	memcpy(l4.byte + sizeof(l4.icmp), &tuple->daddr, sizeof(tuple->daddr));
	l4.byte[24] = l4.byte[25] = 1; /* option: the sender's MAC address, of 8 bytes */
	memcpy(l4.byte + 26, mac, ETH_ALEN);
	sum = sum_words(pseudo, sizeof(pseudo), 0);
	sum = sum_words(&tuple->saddr, sizeof(tuple->saddr), sum);
	sum = sum_words(&tuple->daddr, sizeof(tuple->daddr), sum);
	l4.icmp.checksum = fold(sum_words(l4.byte, MESSAGE_BYTES, sum));
	return l4;
}

/* The echo request of IPv6 has another type, and its identifier at the same place. Returned by
 * value, to be copied: behind the Ethernet header nothing is aligned. */
static union l4 l4_of(const struct mk_tuple *tuple)
{
	union l4 l4 = { .byte = { 0 } };

	switch (tuple->proto) {
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		l4.icmp.type = tuple->proto == IPPROTO_ICMP ? ICMP_ECHO : ICMPV6_ECHO_REQUEST;
		l4.icmp.un.echo.id = tuple->sport;
		return l4;
	case IPPROTO_UDP:
		l4.udp.len = htons(L4_BYTES);
		break;
	case IPPROTO_TCP:
		l4.tcp.doff = sizeof(l4.tcp) / 4;
		l4.tcp.syn = 1;
		break;
	case IPPROTO_SCTP:
		l4.byte[12] = 1; /* one INIT chunk up to the end of the packet */
		l4.byte[15] = L4_BYTES - 12;
		break;
	}
	l4.udp.source = tuple->sport; /* at the same offsets in all three */
	l4.udp.dest = tuple->dport;
	return l4;
}

/* Write the header of IPv4 to @at. Returns its length. */
static uint32_t put_ipv4(uint8_t *at, const struct mk_tuple *tuple)
{
	struct iphdr ip = { .version = 4,
			    .ihl = 5,
			    .tot_len = htons(sizeof(ip) + L4_BYTES),
			    .frag_off = htons(0x4000), /* DF */
			    .ttl = 64,
			    .protocol = tuple->proto,
			    .saddr = mk_ip_from_addr(&tuple->saddr).v4.s_addr,
			    .daddr = mk_ip_from_addr(&tuple->daddr).v4.s_addr };

	ip.check = fold(sum_words(&ip, sizeof(ip), 0));
	memcpy(at, &ip, sizeof(ip));
	return sizeof(ip);
}

static const struct {
	const char *name;
	uint8_t proto, segments_left;
} extensions[] = {
	{ "hop-by-hop", IPPROTO_HOPOPTS, 0 }, { "destination", IPPROTO_DSTOPTS, 0 },
	{ "routing", IPPROTO_ROUTING, 0 },    { "source-route", IPPROTO_ROUTING, 1 },
	{ "fragment", IPPROTO_FRAGMENT, 0 },  { "ah", IPPROTO_AH, 0 },
};

const char *trace_header_name(size_t index)
{
	return index < MK_ARRAY_SIZE(extensions) ? extensions[index].name : NULL;
}

/* Length of an extension header that begins with @byte. */
static uint32_t extension_bytes(uint8_t proto, const uint8_t *byte)
{
	if (proto == IPPROTO_AH)
		return (byte[1] + 2u) * 4;
	return proto == IPPROTO_FRAGMENT ? 8 : (byte[1] + 1u) * 8;
}

static bool is_extension(uint8_t proto)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(extensions); i++)
		if (extensions[i].proto == proto)
			return true;
	return false;
}

/* Write the extension header @index, in front of @next. Returns its length. A fragment header of
 * zeros is that of a packet in one piece. */
static uint32_t put_extension(uint8_t *at, size_t index, uint8_t next)
{
	const uint8_t proto = extensions[index].proto;

	at[0] = next;
	if (proto == IPPROTO_AH)
		at[1] = 2;
	else if (proto == IPPROTO_ROUTING)
		at[3] = extensions[index].segments_left;
	else if (proto != IPPROTO_FRAGMENT)
		memcpy(at + 2, (const uint8_t[]){ 1, 4 }, 2); /* PadN to the end */
	return extension_bytes(proto, at);
}

/* Write headers from the IPv6 header to layer 4, of @l4_bytes. Returns their length. */
static uint32_t put_ipv6(uint8_t *at, const struct mk_tuple *tuple,
			 const struct mk_trace_form *form, uint32_t l4_bytes)
{
	struct ipv6hdr ip = { .version = 6,
			      .nexthdr = tuple->proto,
			      .hop_limit = form->message ? 255 : 64 };
	uint32_t used = sizeof(ip);

	if (form->header_count)
		ip.nexthdr = extensions[form->headers[0]].proto;
	for (size_t i = 0; i < form->header_count; i++)
		used += put_extension(at + used, form->headers[i],
				      i + 1 < form->header_count
					      ? extensions[form->headers[i + 1]].proto
					      : tuple->proto);
	ip.payload_len = htons((uint16_t)(used - sizeof(ip) + l4_bytes));
	memcpy(&ip.saddr, &tuple->saddr, sizeof(ip.saddr));
	memcpy(&ip.daddr, &tuple->daddr, sizeof(ip.daddr));
	memcpy(at, &ip, sizeof(ip));
	return used;
}

uint32_t trace_l4_off(const struct mk_trace_form *form)
{
	static const struct mk_tuple none;
	uint8_t headers[sizeof(struct ipv6hdr) + 16 * MK_TRACE_HEADERS_MAX] = { 0 };

	return put_ipv6(headers, &none, form, 0);
}

void trace_frame_make(struct mk_trace_frame *frame, const struct mk_tuple *tuple,
		      const struct mk_trace_form *form, const uint8_t *source_mac,
		      const uint8_t *dest_mac)
{
	const bool is_ipv6 = !mk_addr_is_ipv4(&tuple->daddr);
	const uint32_t l4_bytes = form->message ? MESSAGE_BYTES : L4_BYTES;
	struct ethhdr *eth = (struct ethhdr *)frame->byte;
	union l4 l4 = form->message ? message_of(tuple, form->message, source_mac) : l4_of(tuple);
	uint8_t *ip = frame->byte + ETH_HLEN;

	memset(frame, 0, sizeof(*frame));
	memcpy(eth->h_source, source_mac, ETH_ALEN);
	memcpy(eth->h_dest, dest_mac, ETH_ALEN);
	eth->h_proto = htons(is_ipv6 ? ETH_P_IPV6 : ETH_P_IP);
	frame->length = ETH_HLEN;
	frame->length += is_ipv6 ? put_ipv6(ip, tuple, form, l4_bytes) : put_ipv4(ip, tuple);
	memcpy(frame->byte + frame->length, l4.byte, l4_bytes);
	frame->length += l4_bytes;
}

static struct mk_addr addr_of(__be32 ipv4)
{
	const struct mk_ip ip = { .family = AF_INET, .v4.s_addr = ipv4 };

	return mk_ip_to_addr(&ip);
}

/* Step over the extension headers at @off. Returns where layer 4 begins; 0: it is not there. */
static uint32_t skip_extensions(const struct mk_trace_frame *frame, uint32_t off, uint8_t *proto)
{
	while (is_extension(*proto)) {
		const uint8_t *at = frame->byte + off;

		if (off + 8 > frame->length)
			return 0;
		off += extension_bytes(*proto, at);
		*proto = at[0];
	}
	return off;
}

/* Read addresses and protocol. Returns where layer 4 begins; 0: not a whole header. */
static uint32_t read_ip(const struct mk_trace_frame *frame, struct mk_tuple *tuple)
{
	const uint8_t *at = frame->byte + ETH_HLEN;
	struct ipv6hdr ipv6;
	struct iphdr ip;

	if (frame->length >= ETH_HLEN + sizeof(ip) && *at >> 4 == 4) {
		memcpy(&ip, at, sizeof(ip));
		tuple->saddr = addr_of(ip.saddr);
		tuple->daddr = addr_of(ip.daddr);
		tuple->proto = ip.protocol;
		return ETH_HLEN + ip.ihl * 4u;
	}
	if (frame->length < ETH_HLEN + sizeof(ipv6) || *at >> 4 != 6)
		return 0;
	memcpy(&ipv6, at, sizeof(ipv6));
	memcpy(&tuple->saddr, &ipv6.saddr, sizeof(tuple->saddr));
	memcpy(&tuple->daddr, &ipv6.daddr, sizeof(tuple->daddr));
	tuple->proto = ipv6.nexthdr;
	return skip_extensions(frame, ETH_HLEN + sizeof(ipv6), &tuple->proto);
}

static bool is_echo(uint8_t proto, uint8_t type)
{
	if (proto == IPPROTO_ICMP)
		return type == ICMP_ECHO || type == ICMP_ECHOREPLY;
	return type == ICMPV6_ECHO_REQUEST || type == ICMPV6_ECHO_REPLY;
}

bool trace_frame_read(const struct mk_trace_frame *frame, struct mk_tuple *tuple)
{
	struct icmphdr icmp;
	uint32_t l4;

	*tuple = (struct mk_tuple){ 0 };
	l4 = read_ip(frame, tuple);
	if (l4 == 0 || frame->length < l4 + sizeof(icmp))
		return false;
	if (tuple->proto == IPPROTO_ICMP || tuple->proto == IPPROTO_ICMPV6) {
		memcpy(&icmp, frame->byte + l4, sizeof(icmp));
		if (is_echo(tuple->proto, icmp.type))
			tuple->sport = tuple->dport = icmp.un.echo.id;
		return true;
	}
	memcpy(&tuple->sport, frame->byte + l4, sizeof(tuple->sport));
	memcpy(&tuple->dport, frame->byte + l4 + 2, sizeof(tuple->dport));
	return true;
}

/* ---- copies ---------------------------------------------------------------------------------- */

enum { SERVICE_OLD, SERVICE_NEW, NAT_OLD, NAT_NEW, SESSION_TABLES };
static const char *const session_names[SESSION_TABLES] = { "sessions", "sessions_young",
							   "nat_sessions", "nat_sessions_young" };
#define COPY_ENTRIES 1024

struct mk_trace_copy {
	struct mk_object *object;
	struct mk_table sessions[SESSION_TABLES]; /* the object owns the file descriptors */
};

/* Tables that the programs only read are shared. So is link_nodes: the host's neighbour table
 * proves the MAC addresses that a program writes there. */
static const char *const shared[] = { "frontends",     "service_backends",
				      "maglev",	       "pods",
				      "host_ports",    "routes",
				      "runtime",       "udp_ports",
				      "source_ranges", "affinity_backends",
				      "node_routes",   "peers",
				      "links",	       "uplinks",
				      "policy_state",  "pod_policies",
				      "policy_peers",  "policy_identities",
				      "policy_blocks", "policy_ports",
				      "sfc_chains",    "sfc_functions",
				      "sfc_replicas",  "sfc_ports",
				      "sfc_tags",      "clusters",
				      "cluster_nodes", "cluster_carriers",
				      "link_nodes" };

static int share(struct bpf_map *map, const struct mk_view *view, struct mk_error *err)
{
	const char *name = bpf_map__name(map);
	cleanup_close int fd = mk_pin_open(view->dir, MK_PIN_MAPS, name, err);
	struct mk_table pinned;
	int ret = fd < 0 ? fd : mk_table_init(&pinned, name, fd, err);

	if (ret < 0)
		return ret;
	if (pinned.stored_key_size != bpf_map__key_size(map) ||
	    pinned.stored_value_size != bpf_map__value_size(map))
		return mk_error_set(
			err, EPROTO,
			"pinned map '%s' is of another version than this program: use the monokube that the agent has installed (/opt/cni/bin/monokube)",
			name);
	ret = bpf_map__reuse_fd(map, fd);
	return ret < 0 ? mk_error_errno(err, -ret, "cannot use the pinned map '%s'", name) : 0;
}

static int prepare_maps(struct bpf_object *object, const struct mk_view *view, struct mk_error *err)
{
	struct bpf_map *map;
	int ret = 0;

	bpf_object__for_each_map(map, object)
	{
		enum bpf_map_type type = bpf_map__type(map);
		bool is_shared = false;

		for (size_t i = 0; i < MK_ARRAY_SIZE(shared); i++)
			is_shared |= strcmp(bpf_map__name(map), shared[i]) == 0;
		if (is_shared)
			ret = share(map, view, err);
		else if (type == BPF_MAP_TYPE_HASH || type == BPF_MAP_TYPE_LRU_HASH ||
			 type == BPF_MAP_TYPE_QUEUE)
			ret = bpf_map__set_max_entries(map, COPY_ENTRIES);
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* Programs that only packets of one hook meet: from the loopback device they go on to the host's
 * hook, from the port of an end to those of its chain. */
static const struct {
	const char *entry, *next;
} only_behind[] = { { "ilb_lo_egress", "ilb_host" }, { "sfc_port", "sfc_end" } };

/* Choose the chain behind the hook, without what fragments and `monokube monitor` need. */
static void choose_programs(struct mk_object *object, const char *entry)
{
	static const char *const chain[] = {
		"router",      "elb",	   "open",	  "policy",	 "sfc",		"sfc_open",
		"sfc_session", "sfc_port", "sfc_overlay", "sfc_tap",	 "sfc_answer",	"nat",
		"error",       "ndp",	   "cluster_in",  "cluster_out", "ilb_cluster", "client"
	};

	for (size_t i = 0; i < mk_object_program_count(object); i++) {
		const char *name = mk_programs[i].name;
		bool needed = strcmp(name, entry) == 0;

		for (size_t j = 0; j < MK_ARRAY_SIZE(only_behind); j++)
			needed |= strcmp(entry, only_behind[j].entry) == 0 &&
				  strcmp(name, only_behind[j].next) == 0;
		for (size_t j = 0; j < MK_ARRAY_SIZE(chain); j++)
			needed |= strcmp(name, chain[j]) == 0;
		mk_object_leave_out(object, name, !needed);
	}
}

static int load(struct mk_trace_copy *copy, const struct mk_view *view, const char *program,
		struct mk_error *err)
{
	struct mk_node node = view->node;
	int ret;

	node.makes_no_copies = 1;
	node.syn_ns = 0; /* as below the rate: no flood decides about the packet */
	copy->object = mk_object_open(&node, err);
	if (!copy->object)
		return -EINVAL;
	choose_programs(copy->object, program);
	ret = prepare_maps(mk_object_get(copy->object), view, err);
	ret = ret ?: mk_object_load(copy->object, err);
	ret = ret ?: mk_object_fill_chain(copy->object, err);
	for (size_t i = 0; ret == 0 && i < SESSION_TABLES; i++) {
		int fd = mk_object_map(copy->object, session_names[i], err);

		ret = fd < 0 ? fd : mk_table_init(&copy->sessions[i], session_names[i], fd, err);
	}
	return ret;
}

struct mk_trace_copy *trace_copy_new(const struct mk_view *view, const char *program,
				     struct mk_error *err)
{
	struct mk_trace_copy *copy = calloc(1, sizeof(*copy));

	if (!copy) {
		(void)mk_error_errno(err, ENOMEM, "cannot copy the programs");
		return NULL;
	}
	if (load(copy, view, program, err) < 0) {
		trace_copy_free(copy);
		return NULL;
	}
	return copy;
}

void trace_copy_free(struct mk_trace_copy *copy)
{
	if (!copy)
		return;
	mk_object_free(copy->object);
	free(copy);
}

/* ---- a flow's sessions ----------------------------------------------------------------------- */

static int copy_entry(struct mk_trace_copy *copy, const struct mk_view *view, int index,
		      const struct mk_tuple *key, struct mk_session *session, struct mk_error *err)
{
	cleanup_table struct mk_table pinned = { 0 };
	int ret = mk_table_open(&pinned, view->dir, session_names[index], sizeof(*key),
				sizeof(*session), err);

	ret = ret ?: mk_table_get(&pinned, key, session, err);
	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	ret = mk_table_put(&copy->sessions[index], key, session, err);
	return ret < 0 ? ret : 1;
}

int trace_copy_table(const struct mk_trace_copy *copy, const char *name, struct mk_table *table,
		     struct mk_error *err)
{
	int fd = mk_object_map(copy->object, name, err);

	return fd < 0 ? fd : mk_table_init(table, name, fd, err);
}

/* A path that is gone meanwhile is chosen again, as by the programs. */
static int copy_path(struct mk_trace_copy *copy, const struct mk_view *view, uint16_t id,
		     struct mk_error *err)
{
	cleanup_table struct mk_table pinned = { 0 };
	struct mk_sfc_path path;
	struct mk_table table;
	const __u32 key = id;
	int ret = mk_table_open(&pinned, view->dir, "sfc_paths", sizeof(key), sizeof(path), err);

	ret = ret ?: trace_copy_table(copy, "sfc_paths", &table, err);
	if (ret < 0 || mk_table_get(&pinned, &key, &path, NULL) < 0)
		return ret;
	return mk_table_put(&table, &key, &path, err);
}

/* Copy both entries of the pair, from the established or the new sessions; *@to is the other
 * side. */
static int copy_pair(struct mk_trace_copy *copy, const struct mk_view *view, int index,
		     const struct mk_tuple *key, struct mk_tuple *to, struct mk_error *err)
{
	struct mk_session session, other;
	struct mk_tuple pair;
	int ret = copy_entry(copy, view, index, key, &session, err);

	if (ret > 0 && session.to.path && copy_path(copy, view, session.to.path, err) < 0)
		return -EINVAL;
	if (ret <= 0)
		return ret;
	*to = session.to;
	to->path = 0;
	pair = (struct mk_tuple){ .saddr = to->daddr,
				  .daddr = to->saddr,
				  .sport = to->dport,
				  .dport = to->sport,
				  .proto = to->proto };
	ret = copy_entry(copy, view, index, &pair, &other, err);
	return ret < 0 ? ret : 1;
}

int trace_copy_flow(struct mk_trace_copy *copy, const struct mk_view *view,
		    const struct mk_tuple *tuple, struct mk_error *err)
{
	struct mk_tuple at = *tuple, to = *tuple;
	int found = 0;

	/* towards the uplink, Services' sessions come first; from the uplink, those of NAT */
	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < SESSION_TABLES; i++) {
			int ret = copy_pair(copy, view, i, &at, &to, err);

			if (ret < 0)
				return ret;
			found |= ret;
			if (i % 2 == 1)
				at = to;
		}
	return found;
}

bool trace_copy_session(const struct mk_trace_copy *copy, bool nat, const struct mk_tuple *tuple,
			struct mk_session *session)
{
	int first = nat ? NAT_OLD : SERVICE_OLD;

	return mk_table_get(&copy->sessions[first], tuple, session, NULL) == 0 ||
	       mk_table_get(&copy->sessions[first + 1], tuple, session, NULL) == 0;
}

/* ---- runs ------------------------------------------------------------------------------------ */

bool trace_copy_is_pinned(const struct mk_trace_copy *copy, const struct mk_view *view,
			  const char *program)
{
	cleanup_close int pinned = mk_pin_open(view->dir, MK_PIN_PROGS, program, NULL);
	int fd = mk_object_program(copy->object, program, NULL);
	struct mk_program_identity a, b;

	return pinned >= 0 && fd >= 0 && mk_program_identify(pinned, &a, NULL) == 0 &&
	       mk_program_identify(fd, &b, NULL) == 0 && memcmp(a.tag, b.tag, sizeof(a.tag)) == 0;
}

int trace_copy_run(struct mk_trace_copy *copy, const char *program, int ifindex,
		   struct mk_trace_frame *frame, enum mk_trace_verdict *verdict,
		   struct mk_error *err)
{
	struct mk_trace_frame out = { 0 };
	struct __sk_buff ctx = { .ifindex = (__u32)ifindex };
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame->byte, .data_size_in = frame->length,
		    .data_out = out.byte, .data_size_out = sizeof(out.byte), .repeat = 1);
	int fd = mk_object_program(copy->object, program, err), ret;

	if (fd < 0)
		return fd;
	if (ifindex > 1) {
		opts.ctx_in = &ctx;
		opts.ctx_size_in = sizeof(ctx);
	}
	ret = bpf_prog_test_run_opts(fd, &opts);
	if (ret < 0)
		return mk_error_errno(err, -ret, "cannot run a copy of program '%s'", program);
	out.length = opts.data_size_out;
	*frame = out;
	*verdict = opts.retval == TC_ACT_REDIRECT ? MK_TRACE_REDIRECT
		   : opts.retval == TC_ACT_SHOT	  ? MK_TRACE_DROP
						  : MK_TRACE_PASS;
	return 0;
}

bool trace_copy_path(const struct mk_trace_copy *copy, uint16_t id, struct mk_sfc_path *path)
{
	const __u32 key = id;
	struct mk_table table;

	return trace_copy_table(copy, "sfc_paths", &table, NULL) == 0 &&
	       mk_table_get(&table, &key, path, NULL) == 0;
}

bool trace_copy_way(const struct mk_trace_copy *copy, struct mk_way *way)
{
	int cpus = libbpf_num_possible_cpus(), fd = mk_object_map(copy->object, "way", NULL);
	cleanup_free struct mk_way *ways = calloc(cpus > 0 ? (size_t)cpus : 1, sizeof(*ways));
	const __u32 zero = 0;
	struct mk_table table;

	if (!ways || fd < 0 || mk_table_init(&table, "way", fd, NULL) < 0 ||
	    mk_table_get(&table, &zero, ways, NULL) < 0)
		return false;
	for (int cpu = 0; cpu < cpus; cpu++)
		if (ways[cpu].ifindex) {
			*way = ways[cpu];
			return true;
		}
	return false;
}

unsigned int trace_copy_drop(const struct mk_trace_copy *copy)
{
	int cpus = libbpf_num_possible_cpus(), fd = mk_object_map(copy->object, "drops", NULL);
	cleanup_free struct mk_drop_counter *counter =
		calloc(cpus > 0 ? (size_t)cpus : 1, sizeof(*counter));

	for (__u32 i = 0; counter && i < MK_DROP_COUNT * MK_HOOK_COUNT; i++) {
		if (bpf_map_lookup_elem(fd, &i, counter) < 0)
			continue;
		for (int cpu = 0; cpu < cpus; cpu++)
			if (counter[cpu].packets)
				return i / MK_HOOK_COUNT;
	}
	return MK_DROP_COUNT;
}

size_t trace_copy_decisions(const struct mk_trace_copy *copy, struct mk_policy_count_key *decisions,
			    size_t room)
{
	int fd = mk_object_map(copy->object, "policy_counts", NULL);
	struct mk_policy_count_key *at = NULL;
	size_t count = 0;

	while (fd >= 0 && count < room && bpf_map_get_next_key(fd, at, &decisions[count]) == 0)
		at = &decisions[count++];
	return count;
}

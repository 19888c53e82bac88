// SPDX-License-Identifier: Apache-2.0
#include "policy/node.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/maps/links.h"
#include "datapath/maps/object.h"
#include "datapath/policy/tables.h"
#include "policy/node_internal.h"

#define ESTABLISHED 16384
#define HALF_OPEN   8192
#define SECOND_NS   1000000000ULL

static struct datapath datapaths[NODES][MK_FAMILIES];
static uint64_t now_ns = 1000 * SECOND_NS;

static const sa_family_t families[] = { AF_INET, AF_INET6 };

void node_must(int ret, const struct mk_error *err)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "%s\n", mk_error_text(err));
	exit(2);
}

struct datapath *datapath_of(int node, sa_family_t family)
{
	return &datapaths[node][mk_family_index(family)];
}

/* ---- addresses: those of worlds.py ----------------------------------------------------------- */

static struct mk_ip parse(const char *text)
{
	struct mk_ip ip;

	if (mk_ip_parse(text, &ip) < 0)
		abort();
	return ip;
}

static struct mk_ip address(const struct datapath *datapath, const char *const texts[][NODES])
{
	return parse(texts[mk_family_index(datapath->family)][datapath->node]);
}

struct mk_ip node_vtep(const struct datapath *datapath)
{
	static const char *const texts[][NODES] = { { "10.18.0.1", "10.18.0.2" },
						    { "fd18::1", "fd18::2" } };

	return address(datapath, texts);
}

static struct mk_ip own_address(const struct datapath *datapath)
{
	static const char *const texts[][NODES] = { { "192.168.0.11", "192.168.0.12" },
						    { "fd19::11", "fd19::12" } };

	return address(datapath, texts);
}

struct mk_ip node_own_address(int node, sa_family_t family)
{
	return own_address(datapath_of(node, family));
}

struct mk_ip node_gateway(const struct datapath *datapath)
{
	static const char *const texts[][NODES] = { { "10.244.1.254", "10.244.2.254" },
						    { "fd44::1:3fe", "fd44::2:3fe" } };

	return address(datapath, texts);
}

static struct mk_cidr pod_range(const struct datapath *datapath)
{
	static const char *const texts[][NODES] = { { "10.244.1.0", "10.244.2.0" },
						    { "fd44::1:0", "fd44::2:0" } };

	return (struct mk_cidr){ address(datapath, texts), datapath->family == AF_INET ? 24 : 112 };
}

static struct mk_cidr range(const struct datapath *datapath, const char *range4, const char *range6)
{
	struct mk_cidr cidr;

	if (mk_cidr_parse(datapath->family == AF_INET ? range4 : range6, &cidr) < 0)
		abort();
	return cidr;
}

static void put_range(const struct mk_cidr *cidr, struct mk_addr *net, struct mk_addr *mask)
{
	const struct mk_ip ip = mk_cidr_mask(cidr);

	*net = mk_ip_to_addr(&cidr->ip);
	*mask = mk_ip_to_addr(&ip);
}

static void fill_node(const struct datapath *datapath, struct mk_node *node)
{
	const struct mk_cidr pods = pod_range(datapath),
			     cluster = range(datapath, "10.244.0.0/16", "fd44::/48"),
			     vteps = range(datapath, "10.18.0.0/16", "fd18::/64");
	const struct mk_ip vtep = node_vtep(datapath), gateway = node_gateway(datapath),
			   vpod = virtual_pod_address(datapath->node, datapath->family);
	const struct mk_mac gateway_mac = mac_of(&gateway), vtep_mac = mac_of(&vtep);

	put_range(&pods, &node->pod_net, &node->pod_mask);
	put_range(&cluster, &node->cluster_net, &node->cluster_mask);
	put_range(&vteps, &node->vtep_net, &node->vtep_mask);
	node->vtep_addr = mk_ip_to_addr(&vtep);
	node->gateway_addr = mk_ip_to_addr(&gateway);
	node->vpod_addr = mk_ip_to_addr(&vpod);
	memcpy(node->gateway_mac, gateway_mac.byte, sizeof(node->gateway_mac));
	memcpy(node->vtep_mac, vtep_mac.byte, sizeof(node->vtep_mac));
	node->nat_port_min = 49152;
	node->nat_port_max = 65535;
	node->vxlan_port = htons(4789);
}

/* ---- tables ---------------------------------------------------------------------------------- */

int node_map(const struct datapath *datapath, const char *name)
{
	struct mk_error err;
	int fd = mk_object_map(datapath->object, name, &err);

	node_must(fd, &err);
	return fd;
}

struct mk_table node_table(const struct datapath *datapath, const char *name)
{
	struct mk_table table;
	struct mk_error err;

	node_must(mk_table_init(&table, name, node_map(datapath, name), &err), &err);
	return table;
}

void node_put(const struct datapath *datapath, const char *name, const void *key, const void *value)
{
	const struct mk_table table = node_table(datapath, name);
	struct mk_error err;

	node_must(mk_table_put(&table, key, value, &err), &err);
}

static void put_route(const struct datapath *datapath, const struct mk_cidr *cidr,
		      enum mk_route_type type, const struct mk_mac *mac)
{
	const struct mk_route_key key = { .prefix_bits = cidr->prefix_bits,
					  .addr = mk_ip_to_addr(&cidr->ip) };
	struct mk_route route = { .type = (__u8)type };

	if (mac)
		memcpy(route.vtep_mac, mac->byte, sizeof(route.vtep_mac));
	node_put(datapath, "routes", &key, &route);
}

static void put_host_route(const struct datapath *datapath, struct mk_ip ip,
			   enum mk_route_type type, const struct mk_mac *mac)
{
	const struct mk_cidr cidr = { ip, (uint8_t)mk_ip_bits(ip.family) };

	put_route(datapath, &cidr, type, mac);
}

static void put_routes(const struct datapath *datapath)
{
	const struct datapath *other = datapath_of(1 - datapath->node, datapath->family);
	const struct mk_cidr own_pods = pod_range(datapath), other_pods = pod_range(other),
			     cluster = range(datapath, "10.244.0.0/16", "fd44::/48"),
			     vteps = range(datapath, "10.18.0.0/16", "fd18::/64");
	const struct mk_ip vtep = node_vtep(other), own = own_address(other);
	const struct mk_addr peer = mk_ip_to_addr(&own);
	const struct mk_mac mac = mac_of(&vtep);
	struct mk_peer value = { 0 };

	put_route(datapath, &own_pods, MK_ROUTE_PODS, NULL);
	put_route(datapath, &other_pods, MK_ROUTE_OVERLAY, &mac);
	put_route(datapath, &cluster, MK_ROUTE_DROP, NULL);
	put_route(datapath, &vteps, MK_ROUTE_DROP, NULL);
	put_host_route(datapath, vtep, MK_ROUTE_OVERLAY, &mac);
	put_host_route(datapath, own_address(datapath), MK_ROUTE_HOST, NULL);
	put_host_route(datapath, node_vtep(datapath), MK_ROUTE_HOST, NULL);
	put_host_route(datapath, node_gateway(datapath), MK_ROUTE_HOST, NULL);
	memcpy(value.vtep_mac, mac.byte, sizeof(value.vtep_mac));
	node_put(datapath, "peers", &peer, &value);
}

static void put_links(const struct datapath *datapath)
{
	const struct mk_table links = node_table(datapath, "links"),
			      uplinks = node_table(datapath, "uplinks");
	const struct mk_ip own = own_address(datapath);
	struct mk_datapath_links wanted = { .uplink_count = 1 };
	struct mk_error err;

	wanted.uplinks[0] = (struct mk_uplink){ .ifindex = MK_LOOPBACK_IFINDEX,
						.mtu_bytes = 1500,
						.addr = mk_ip_to_addr(&own) };
	wanted.set.node_addr = mk_ip_to_addr(&own);
	wanted.set.overlay_ifindex = wanted.set.host_ifindex = wanted.set.host_peer_ifindex =
		MK_LOOPBACK_IFINDEX;
	wanted.set.overlay_mtu_bytes = 1450;
	wanted.set.first = wanted.uplinks[0];
	node_must(mk_links_put(&links, &uplinks, &wanted, &err), &err);
}

/* All sessions are among the new ones, which evict each other. */
static void put_runtime(const struct datapath *datapath)
{
	const struct mk_runtime runtime = { .peers_known = 1, .ranges_shared = 1, .host_ports = 1 };
	const __u32 zero = 0;

	node_put(datapath, "runtime", &zero, &runtime);
}

static void load(struct datapath *datapath)
{
	const struct mk_session_sizes sizes = { ESTABLISHED, HALF_OPEN };
	struct mk_node node = { 0 };
	struct mk_error err;

	fill_node(datapath, &node);
	datapath->object = mk_object_open(&node, &err);
	node_must(datapath->object ? 0 : -1, &err);
	node_must(mk_object_size_sessions(datapath->object, &sizes, &err), &err);
	node_must(mk_object_load(datapath->object, &err), &err);
	node_must(mk_object_fill_chain(datapath->object, &err), &err);
	datapath->tables = (struct mk_policy_tables){
		.state = node_table(datapath, "policy_state"),
		.pods = node_table(datapath, "pod_policies"),
		.identities = node_table(datapath, "policy_identities"),
		.peers = node_table(datapath, "policy_peers"),
		.blocks = node_table(datapath, "policy_blocks"),
		.ports = node_table(datapath, "policy_ports"),
		.counts = node_table(datapath, "policy_counts"),
		.expected = node_table(datapath, "policy_expected"),
		.namespaces = node_table(datapath, "policy_namespaces"),
	};
	datapath->pods = node_table(datapath, "pods");
	put_runtime(datapath);
	put_links(datapath);
}

void nodes_open(void)
{
	for (int node = 0; node < NODES; node++)
		for (size_t i = 0; i < MK_FAMILIES; i++) {
			struct datapath *datapath = datapath_of(node, families[i]);

			datapath->node = node;
			datapath->family = families[i];
			load(datapath);
		}
	for (int node = 0; node < NODES; node++)
		for (size_t i = 0; i < MK_FAMILIES; i++)
			put_routes(datapath_of(node, families[i]));
}

void nodes_close(void)
{
	for (int node = 0; node < NODES; node++)
		for (size_t i = 0; i < MK_FAMILIES; i++)
			mk_object_free(datapaths[node][i].object);
}

/* ---- what the agent writes ------------------------------------------------------------------- */

/* CNI's DEL: the slot keeps only its generation. */
static void clear_slot(struct datapath *datapath, __u32 slot)
{
	struct mk_pod_policy policy;
	const struct mk_pod none = { 0 };
	struct mk_error err;

	node_must(mk_table_get(&datapath->tables.pods, &slot, &policy, &err), &err);
	policy = (struct mk_pod_policy){ .generation = policy.generation };
	node_must(mk_table_put(&datapath->tables.pods, &slot, &policy, &err), &err);
	node_must(mk_table_put(&datapath->pods, &slot, &none, &err), &err);
}

static bool has_slot(const struct datapath *datapath, const struct sandbox_list *list, __u32 slot)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct mk_ip *ip = &list->all[i].ips[mk_family_index(datapath->family)];
		const struct mk_addr addr = mk_ip_to_addr(ip);

		if (ip->family && mk_pod_slot(&addr, datapath->pods.max_entries) == slot)
			return true;
	}
	return false;
}

static void put_pod(struct datapath *datapath, const struct mk_ip *ip)
{
	struct mk_pod pod = { .ifindex = MK_LOOPBACK_IFINDEX, .addr = mk_ip_to_addr(ip) };
	const struct mk_mac mac = mac_of(ip);
	__u32 *slot = &datapath->slots[datapath->slot_count++];
	struct mk_error err;

	memcpy(pod.mac, mac.byte, sizeof(pod.mac));
	*slot = mk_pod_slot(&pod.addr, datapath->pods.max_entries);
	node_must(mk_table_put(&datapath->pods, slot, &pod, &err), &err);
}

/* Map pods, as the CNI plugin writes it. */
static void write_pods(struct datapath *datapath, const struct sandbox_list *list)
{
	for (size_t i = 0; i < datapath->slot_count; i++)
		if (!has_slot(datapath, list, datapath->slots[i]))
			clear_slot(datapath, datapath->slots[i]);
	datapath->slot_count = 0;
	for (size_t i = 0; i < list->count; i++) {
		const struct mk_ip *ip = &list->all[i].ips[mk_family_index(datapath->family)];

		if (ip->family)
			put_pod(datapath, ip);
	}
}

/* The agent knows no row of a pending pod. */
static void hide_pending(struct sandbox_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		list->all[i].ifindex = MK_LOOPBACK_IFINDEX;
		if (list->pending[i])
			list->all[i].uid = (char *)"uid-unknown";
		if (list->pending[i])
			list->all[i].name = (char *)"unknown";
	}
}

static void write_policies(struct datapath *datapath, const struct sandbox_list *list,
			   const struct mk_policy_changes *changes, bool enforcing)
{
	struct mk_policy_counts counts = { 0 };
	struct mk_error err;
	int ret;

	if (!datapath->sync)
		datapath->sync = mk_policy_sync_new(&datapath->tables, &err);
	node_must(datapath->sync ? 0 : -1, &err);
	mk_policy_sync_release(datapath->sync, now_ns);
	mk_policy_sync_set_listed(datapath->sync, MK_POLICY_LISTED_SOME);
	node_must(mk_policy_sync_set_sandboxes(datapath->sync, list->all, list->count, &err), &err);
	if (enforcing)
		ret = mk_policy_sync_apply(datapath->sync, changes, now_ns, &counts, &err);
	else
		ret = mk_policy_sync_open_all(datapath->sync, now_ns, &counts, &err);
	node_must(ret, &err);
	node_must(mk_policy_sync_collect(datapath->sync, now_ns + 2 * SECOND_NS, &counts, &err),
		  &err);
}

void nodes_write(const struct cluster *cluster, int node, const struct mk_policy_changes *changes)
{
	json_object *enforcing = at_path(cluster->facts, "enforcing");
	struct sandbox_list list;

	cluster_sandboxes(cluster, node, &list);
	hide_pending(&list);
	now_ns += 4 * SECOND_NS;
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		struct datapath *datapath = datapath_of(node, families[i]);

		write_pods(datapath, &list);
		write_policies(datapath, &list, changes,
			       !enforcing || json_object_get_boolean(enforcing));
	}
}

static void empty(const struct datapath *datapath, const char *name)
{
	uint8_t key[64];
	int fd = node_map(datapath, name);

	while (bpf_map_get_next_key(fd, NULL, key) == 0)
		if (bpf_map_delete_elem(fd, key) < 0)
			abort();
}

static void must_be_empty(const struct datapath *datapath, const char *name)
{
	uint8_t key[512];

	if (bpf_map_get_next_key(node_map(datapath, name), NULL, key) == 0) {
		fprintf(stderr, "%s still has an entry without policies\n", name);
		exit(2);
	}
}

static void forget(struct datapath *datapath)
{
	static const char *const sessions[] = { "sessions",	 "sessions_young",
						"nat_sessions",	 "nat_sessions_young",
						"policy_counts", "service_counters",
						"service_drops" };
	static const char *const policies[] = { "policy_identities", "policy_peers",
						"policy_blocks",     "policy_ports",
						"policy_expected",   "policy_namespaces" };
	struct mk_policy_counts counts = { 0 };
	struct mk_error err;

	now_ns += 4 * SECOND_NS;
	node_must(mk_policy_sync_open_all(datapath->sync, now_ns, &counts, &err), &err);
	node_must(mk_policy_sync_collect(datapath->sync, now_ns + 2 * SECOND_NS, &counts, &err),
		  &err);
	mk_policy_sync_free(datapath->sync);
	datapath->sync = NULL;
	for (size_t i = 0; i < datapath->slot_count; i++)
		clear_slot(datapath, datapath->slots[i]);
	datapath->slot_count = 0;
	for (size_t i = 0; i < MK_ARRAY_SIZE(sessions); i++)
		empty(datapath, sessions[i]);
	for (size_t i = 0; i < MK_ARRAY_SIZE(policies); i++)
		must_be_empty(datapath, policies[i]);
}

void nodes_forget(void)
{
	for (int node = 0; node < NODES; node++)
		for (size_t i = 0; i < MK_FAMILIES; i++)
			if (datapaths[node][i].sync)
				forget(&datapaths[node][i]);
}

size_t nodes_take_counts(int node, int family, struct mk_policy_count_key *counts, size_t room)
{
	const struct datapath *datapath = datapath_of(node, family == 4 ? AF_INET : AF_INET6);
	int fd = datapath->tables.counts.fd;
	size_t count = 0;

	while (count < room && bpf_map_get_next_key(fd, NULL, &counts[count]) == 0) {
		if (bpf_map_delete_elem(fd, &counts[count++]) < 0)
			abort();
	}
	return count;
}

// SPDX-License-Identifier: Apache-2.0
/* Nodes in a model, and an overlay in a network namespace: see overlay_fixture.h. */
#include <json-c/json.h>
#include <linux/if_addr.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "unit/overlay_fixture.h"

static struct mk_error err;
struct mk_model *node_model;

void model_node(const char *name, const char *pod_cidr, const char *internal_ip, bool ready)
{
	char text[1024];
	json_object *tree;

	snprintf(text, sizeof(text),
		 "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"%s\"},\"spec\":"
		 "{%s%s%s},"
		 "\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"%s\"}],"
		 "\"addresses\":[%s%s%s]}}",
		 name, pod_cidr ? "\"podCIDR\":\"" : "", pod_cidr ? pod_cidr : "",
		 pod_cidr ? "\"" : "", ready ? "True" : "False",
		 internal_ip ? "{\"type\":\"InternalIP\",\"address\":\"" : "",
		 internal_ip ? internal_ip : "", internal_ip ? "\"}" : "");
	tree = json_tokener_parse(text);
	ck_assert_msg(tree != NULL, "%s", text);
	ck_ok(mk_model_apply(node_model, tree, &err));
	json_object_put(tree);
}

/* By mk_family_index(). */
static const struct mk_cidr no_cidr;
static struct mk_cidr clusters[MK_FAMILIES], vteps[MK_FAMILIES], own_pods[MK_FAMILIES];

struct mk_overlay_view view_of(const char *own_v4, const char *own_v6, sa_family_t of)
{
	clusters[0] = own_v4 ? cidr_of("10.244.0.0/16") : no_cidr;
	clusters[1] = own_v6 ? cidr_of("fd00:10:244::/48") : no_cidr;
	vteps[0] = cidr_of("10.18.0.0/16");
	vteps[1] = cidr_of("fd4d:4b00:12::/64");
	own_pods[0] = own_v4 ? cidr_of(own_v4) : no_cidr;
	own_pods[1] = own_v6 ? cidr_of(own_v6) : no_cidr;
	return (struct mk_overlay_view){
		.own_node = "a",
		.family = of,
		.primary = own_v4 ? AF_INET : AF_INET6,
		.underlay_family = AF_INET,
		.own_underlay = ip_of("192.0.2.1"),
		.cluster_cidrs = clusters,
		.vtep_cidrs = vteps,
		.own_pod_cidrs = own_pods,
	};
}

void plan_setup(void)
{
	node_model = mk_model_new();
	ck_assert_ptr_nonnull(node_model);
}

void plan_teardown(void)
{
	mk_model_free(node_model);
}

void model_dual_node(const char *name, const char *v4, const char *v6, const char *ip4,
		     const char *ip6)
{
	char text[1024];
	json_object *tree;

	snprintf(text, sizeof(text),
		 "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': '%s'}, 'spec': "
		 "{'podCIDRs': [%s%s%s%s%s%s%s]}, 'status': {'addresses': [{'type': 'InternalIP', "
		 "'address': '%s'}, {'type': 'InternalIP', 'address': '%s'}]}}",
		 name, v4 ? "'" : "", v4 ? v4 : "", v4 ? "'" : "", v4 && v6 ? "," : "",
		 v6 ? "'" : "", v6 ? v6 : "", v6 ? "'" : "", ip4, ip6);
	tree = json_tokener_parse(text);
	ck_assert_msg(tree != NULL, "%s", text);
	ck_ok(mk_model_apply(node_model, tree, &err));
	json_object_put(tree);
}

struct mk_nl *nl;
struct mk_overlay *overlay;
struct mk_device_wanted wanted;
struct mk_devices node_devices;
unsigned int changes;
sa_family_t family;
struct mk_addresses *own;

const struct setting v4_by_v4 = { "192.0.2.1/24", "10.244.0.0/16", "10.18.0.0/16", "10.244.1.0/24",
				  1450 };
const struct setting v6_by_v4 = { "192.0.2.1/24", "fd00:10:244::/48", "fd4d:4b00:12::/64",
				  "fd00:10:244:1::/64", 1450 };
const struct setting v6_by_v6 = { "2001:db8::1/64", "fd00:10:244::/48", "fd4d:4b00:12::/64",
				  "fd00:10:244:1::/64", 1430 };

/* An uplink "up0" that is a veth, as in a lab. */
void netns_setup_of(const struct setting *setting)
{
	const struct mk_veth uplink = { .name = "up0",
					.mac = { { 2, 0, 0, 0, 0, 1 } },
					.peer_name = "far0",
					.peer_mac = { { 2, 0, 0, 0, 0, 2 } },
					.peer_netns_fd = -1,
					.mtu_bytes = 1500 };
	const struct mk_link_change up = { .set_flags = 1 /* IFF_UP */ };
	struct mk_nl_addr address = { .cidr = cidr_of(setting->underlay), .flags = IFA_F_NODAD };
	struct mk_link link;

	ck_assert_msg(unshare(CLONE_NEWNET) == 0, "needs root: %s", strerror(errno));
	nl = mk_nl_open(&err);
	ck_assert_msg(nl != NULL, "%s", mk_error_text(&err));
	ck_ok(mk_nl_veth_add(nl, &uplink, &err));
	ck_ok(mk_nl_link_get(nl, "up0", &link, &err));
	ck_ok(mk_nl_link_change(nl, link.ifindex, &up, &err));
	address.ifindex = link.ifindex;
	ck_ok(mk_nl_addr_add(nl, &address, &err));
	wanted = (struct mk_device_wanted){
		.vxlan_name = "mkvxlan",
		.sfc_name = "mksfc",
		.vxlan_port = 4789,
		.underlay = address.cidr.ip,
		.uplink_ifindex = link.ifindex,
		.mtu_bytes = setting->mtu_bytes,
	};
	struct mk_cidr cluster = cidr_of(setting->cluster), vtep = cidr_of(setting->vtep),
		       pods = cidr_of(setting->pods);

	family = cluster.ip.family;
	own = &wanted.addresses[mk_family_index(family)];
	ck_ok(mk_addresses_compute(&cluster, &vtep, &pods, own, &err));
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &node_devices, &err), 3);
	overlay = mk_overlay_new(nl, &err);
	mk_overlay_set_node(overlay, &node_devices, own);
	plan_setup();
}

void netns_setup(void)
{
	netns_setup_of(&v4_by_v4);
}

void netns_setup_v6_by_v4(void)
{
	netns_setup_of(&v6_by_v4);
}

void netns_setup_v6_by_v6(void)
{
	netns_setup_of(&v6_by_v6);
}

void netns_teardown(void)
{
	plan_teardown();
	mk_overlay_free(overlay);
	mk_nl_free(nl);
}

void sync_plan(bool complete)
{
	struct mk_overlay_view view = view_of("10.244.1.0/24", NULL, AF_INET);
	struct mk_overlay_plan plan;

	ck_ok(mk_overlay_plan_make(node_model, &view, &plan, &err));
	ck_ok(mk_overlay_set_peers(overlay, family, &plan, &err));
	mk_overlay_plan_release(&plan);
	changes = 0;
	ck_ok(mk_overlay_sync(overlay, complete, &changes, &err));
}

static int see_route(void *ctx, const struct mk_nl_route *route)
{
	struct seen *seen = ctx;
	char text[MK_CIDR_STRLEN];

	if (route->protocol != MK_RTPROT)
		return 0;
	seen->routes++;
	if (seen->dst && strcmp(mk_cidr_format(&route->dst, text), seen->dst) == 0)
		seen->has_dst = true;
	return 0;
}

static int see_neigh(void *ctx, const struct mk_ip *ip, const struct mk_mac *mac, bool permanent)
{
	(void)ip;
	(void)mac;
	((struct seen *)ctx)->neighbours += permanent;
	return 0;
}

static int see_fdb(void *ctx, const struct mk_nl_fdb *fdb)
{
	struct seen *seen = ctx;
	char text[MK_IP_STRLEN];

	seen->fdb++;
	if (seen->remote && strcmp(mk_ip_format(&fdb->remote, text), seen->remote) == 0)
		seen->has_remote = true;
	return 0;
}

/* The chains' device has the same FDB entries. */
static void check_fdb_of_chains(const struct seen *seen)
{
	struct seen sfc = { .remote = seen->remote };

	ck_ok(mk_nl_each_fdb(nl, node_devices.sfc_ifindex, see_fdb, &sfc, &err));
	ck_assert_uint_eq(sfc.fdb, seen->fdb);
	ck_assert_int_eq(sfc.has_remote, seen->has_remote);
}

struct seen look(const char *dst, const char *remote)
{
	struct seen seen = { .dst = dst, .remote = remote };

	ck_ok(mk_nl_each_route(nl, family, see_route, &seen, &err));
	ck_ok(mk_nl_each_neigh(nl, family, node_devices.overlay_ifindex, see_neigh, &seen, &err));
	ck_ok(mk_nl_each_fdb(nl, node_devices.overlay_ifindex, see_fdb, &seen, &err));
	check_fdb_of_chains(&seen);
	return seen;
}

struct seen look_at(sa_family_t of)
{
	struct seen seen = { 0 };

	ck_ok(mk_nl_each_route(nl, of, see_route, &seen, &err));
	ck_ok(mk_nl_each_neigh(nl, of, node_devices.overlay_ifindex, see_neigh, &seen, &err));
	ck_ok(mk_nl_each_fdb(nl, node_devices.overlay_ifindex, see_fdb, &seen, &err));
	return seen;
}

void set_ranges(const char *const *texts)
{
	struct mk_cidr ranges[4];
	size_t count = 0;

	for (; *texts; texts++)
		ranges[count++] = cidr_of(*texts);
	ck_ok(mk_overlay_set_ranges(overlay, family, ranges, count, &err));
}

int remove_overlay(unsigned int *removed)
{
	static const char *const names[] = { "mkvxlan", "mksfc", "mkpeer" };

	return mk_overlay_remove(nl, names, MK_ARRAY_SIZE(names), removed, &err);
}

void sync_alone(bool complete)
{
	changes = 0;
	ck_ok(mk_overlay_sync(overlay, complete, &changes, &err));
}

void keep_first(void *ctx, const struct mk_ip *vip)
{
	unsigned int *told = ctx;

	if (++*told == 1)
		ck_ok(mk_overlay_vip_get(overlay, vip, &err));
}

int setting_of(const char *device, const char *name)
{
	char path[128], text[16] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/%s", device, name);
	file = fopen(path, "r");
	ck_assert_msg(file && fgets(text, sizeof(text), file), "%s", path);
	fclose(file);
	return atoi(text);
}

int see_own(void *ctx, const struct mk_nl_addr *addr)
{
	struct own_address *seen = ctx;

	if (addr->ifindex != seen->ifindex)
		return 0;
	seen->addr = *addr;
	seen->count++;
	return 0;
}

void check_device(const char *name, int ifindex, const struct mk_ip *ip)
{
	struct own_address seen = { .ifindex = ifindex };
	struct mk_link link;

	ck_ok(mk_nl_each_addr(nl, AF_INET6, see_own, &seen, &err));
	ck_assert_msg(seen.count == 1, "%s: %d", name, seen.count);
	ck_assert(mk_ip_equal(&seen.addr.cidr.ip, ip));
	ck_assert_uint_eq(seen.addr.cidr.prefix_bits, 128);
	ck_assert_uint_eq(seen.addr.flags, IFA_F_NODAD | IFA_F_DEPRECATED | IFA_F_PERMANENT);
	ck_ok(mk_nl_link_get_index(nl, ifindex, &link, &err));
	ck_assert(link.ipv6.no_link_local && !link.ipv6.disabled);
	ck_assert_int_eq(setting_of(name, "accept_ra"), 0);
	ck_assert_int_eq(setting_of(name, "accept_redirects"), 0);
}

void check_devices(void)
{
	check_device(MK_HOST_VETH, node_devices.host_ifindex, &own->gateway);
	check_device("mkvxlan", node_devices.overlay_ifindex, &own->vtep);
}

void change_link(int ifindex, struct mk_link_change change)
{
	ck_ok(mk_nl_link_change(nl, ifindex, &change, &err));
}

void disable_ipv6(void)
{
	ck_ok(mk_sysctl_set("/proc/sys/net/ipv6/conf/mkvxlan/disable_ipv6", "1", &err));
}

static void lower_mtu(void)
{
	change_link(node_devices.overlay_ifindex, (struct mk_link_change){ .mtu_bytes = 1000 });
}

static void set_down_and_up(void)
{
	change_link(node_devices.overlay_ifindex, (struct mk_link_change){ .clear_flags = 1 });
	change_link(node_devices.overlay_ifindex, (struct mk_link_change){ .set_flags = 1 });
}

static void delete_address(void)
{
	const struct mk_cidr vtep = { wanted.addresses[1].vtep, 128 };

	ck_ok(mk_nl_addr_delete(nl, node_devices.overlay_ifindex, &vtep, &err));
}

static void add_another(void)
{
	const struct mk_nl_addr other = { node_devices.overlay_ifindex, cidr_of("fe80::1/64"), 0, 0,
					  0 };

	delete_address();
	ck_ok(mk_nl_addr_add(nl, &other, &err));
}

static void accept_advertisements(void)
{
	ck_ok(mk_sysctl_set("/proc/sys/net/ipv6/conf/mkvxlan/accept_ra", "1", &err));
}

void (*const overlay_faults[OVERLAY_FAULTS])(void) = {
	disable_ipv6,	lower_mtu,   set_down_and_up,
	delete_address, add_another, accept_advertisements,
};

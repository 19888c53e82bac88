// SPDX-License-Identifier: Apache-2.0
/* The agent's pure parts: the desired contents of map `routes`, ranges, the source, the CNI
 * configuration, and the start of work. */
#include <json-c/json.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "agent/agent_internal.h"
#include "agent/node/node_internal.h"
#include "base/cleanup.h"
#include "host/record.h"
#include "pod/request/conf.h"
#include "pod/request/reply.h"
#include "pod/request/request_internal.h"
#include "unit/unit.h"

static struct mk_error err;

/* ---- NodePorts ------------------------------------------------------------------------------- */

static const struct {
	const char *name, *ranges[3], *expected;
} node_ports[] = {
	{ "the Node object's", { NULL }, "192.0.2.1 198.51.100.1 " },
	{ "all, but the datapath's own", { "0.0.0.0/0" }, "192.0.2.1 198.51.100.1 203.0.113.1 " },
	{ "some of the Node object's", { "192.0.2.0/24" }, "192.0.2.1 " },
	{ "one of the host's alone", { "203.0.113.0/24" }, "203.0.113.1 " },
	{ "of two ranges", { "203.0.113.0/24", "198.51.100.0/24" }, "198.51.100.1 203.0.113.1 " },
	{ "none", { "10.0.0.0/8" }, "" },
	{ "ranges of IPv6 do not restrict IPv4", { "2001:db8:9::/64" }, "192.0.2.1 198.51.100.1 " },
	{ "IPv6: no ranges", { NULL }, "2001:db8::1 2001:db8::2 " },
	{ "IPv6: a range", { "2001:db8::2/128" }, "2001:db8::2 " },
	{ "IPv6: the host's", { "10.0.0.0/8", "::/0" }, "2001:db8::1 2001:db8::2 2001:db8::3 " },
	{ "IPv6: ranges of IPv4 do not restrict it", { "10.0.0.0/8" }, "2001:db8::1 2001:db8::2 " },
};

START_TEST(test_node_ports)
{
	bool v6 = strchr(node_ports[_i].expected, ':');
	struct mk_config config = { .cluster = ranges_of(v6 ? "fd00::/16" : "10.244.0.0/16"),
				    .vteps = ranges_of(v6 ? "fd4d::/64" : "10.18.0.0/16") };
	struct mk_ip addresses[] = { ip_of("192.0.2.1"), ip_of("198.51.100.1"),
				     ip_of("2001:db8::1"), ip_of("2001:db8::2") };
	const struct mk_ip local[] = { ip_of("10.18.0.1"),  ip_of("10.244.1.254"),
				       ip_of("192.0.2.1"),  ip_of("203.0.113.1"),
				       ip_of("fd4d::1"),    ip_of("fd00:10:244:1::3fe"),
				       ip_of("2001:db8::3") };
	const struct mk_node_object object = { .addresses = addresses,
					       .address_count = MK_ARRAY_SIZE(addresses) };
	char seen[128] = "", text[MK_IP_STRLEN];
	cleanup_free struct mk_ip *ips = NULL;
	size_t count;

	for (size_t i = 0; node_ports[_i].ranges[i]; i++)
		config.node_port_addresses.cidr[config.node_port_addresses.count++] =
			cidr_of(node_ports[_i].ranges[i]);
	ck_ok(node_port_ips(&config, config.cluster.primary, &object, local, MK_ARRAY_SIZE(local),
			    &ips, &count, &err));
	for (size_t i = 0; i < count; i++) {
		strcat(seen, mk_ip_format(&ips[i], text));
		strcat(seen, " ");
	}
	ck_assert_msg(strcmp(seen, node_ports[_i].expected) == 0, "%s: expected '%s', seen '%s'",
		      node_ports[_i].name, node_ports[_i].expected, seen);
}
END_TEST

static const struct {
	const char *cluster, *range;
	bool expected;
} localhosts[] = {
	{ "10.244.0.0/16", NULL, true },
	{ "10.244.0.0/16", "127.0.0.0/8", true },
	{ "10.244.0.0/16", "192.0.2.0/24", false },
	{ "10.244.0.0/16", "2001:db8::/64", true },
	{ "fd00::/48", NULL, true },
	{ "fd00::/48", "::1/128", true },
	{ "fd00::/48", "2001:db8::/64", false },
	{ "fd00::/48", "192.0.2.0/24", true },
};

START_TEST(test_localhost_node_ports)
{
	struct mk_config config = { .cluster = ranges_of(localhosts[_i].cluster),
				    .localhost_node_ports = true };

	if (localhosts[_i].range)
		config.node_port_addresses =
			(struct mk_cidr_list){ .cidr = { cidr_of(localhosts[_i].range) },
					       .count = 1 };
	ck_assert_int_eq(localhost_node_ports(&config, config.cluster.primary),
			 localhosts[_i].expected);
	config.localhost_node_ports = false;
	ck_assert(!localhost_node_ports(&config, config.cluster.primary));
}
END_TEST

/* ---- the Node object of the last run --------------------------------------------------------- */

START_TEST(test_remembered_node)
{
	static const char object[] =
		"{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n', 'labels': {"
		"'node-role.kubernetes.io/control-plane': ''}}, 'spec': {'podCIDRs': "
		"['fd00:10:244:1::/64', '10.244.1.0/24']}, 'status': {'addresses': [{'type': "
		"'ExternalIP', 'address': '198.51.100.1'}, {'type': 'InternalIP', 'address': "
		"'fd00:50::11'}, {'type': 'InternalIP', 'address': '192.0.2.1'}]}}";
	char dir[] = "/tmp/mk-test-node-XXXXXX", path[64];
	struct mk_core core = { .model = mk_model_new() };
	struct mk_own_node node = { .core = &core };
	json_object *tree = json_tokener_parse(object);
	const struct mk_node_object *before, *after;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(core.config.state_dir, sizeof(core.config.state_dir), "%s", dir);
	snprintf(core.config.node_name, sizeof(core.config.node_name), "n");
	ck_ok(mk_model_apply(core.model, tree, &err));
	json_object_put(tree);
	ck_ok(remember_node(&node, &err));
	mk_own_node_recall(&node);
	ck_assert_ptr_nonnull(node.remembered);
	before = mk_model_node(core.model, "n");
	after = mk_model_node(node.remembered, "n");
	ck_assert(mk_cidrs_equal(before->pod_cidrs, 2, after->pod_cidrs, 2));
	ck_assert(mk_ips_equal(before->internal_ips, 2, after->internal_ips, 2));
	ck_assert(mk_ips_equal(before->addresses, 3, after->addresses, after->address_count));
	ck_assert(after->control_plane);
	mk_model_free(node.remembered);
	mk_model_free(core.model);
	snprintf(path, sizeof(path), "%s/" MK_NODE_OBJECT_NAME, dir);
	ck_assert(unlink(path) == 0 && rmdir(dir) == 0);
}
END_TEST

/* ---- families -------------------------------------------------------------------------------- */

static void write_state(const char *dir, const char *name, const char *text)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "we");
	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
}

static const struct {
	const char *before, *now;
	bool has_pod;
	const char *refusal; /* NULL: none */
} primaries[] = {
	{ NULL, "10.244.0.0/16", true, NULL },
	{ "10.244.0.0/16", "10.244.0.0/16", true, NULL },
	{ "10.244.0.0/16", "fd00:10:244::/48", false, NULL },
	{ "10.244.0.0/16", "fd00:10:244::/48", true,
	  "clusterCidr begins with IPv6 now, and began with IPv4 ('10.244.0.0/16') before: 1 pods" },
	{ "fd00:10:244::/48", "10.244.0.0/16", true, "put the IPv6 range first again" },
};

/* The first range keeps its family while there are pods. */
START_TEST(test_primary)
{
	char dir[] = "/tmp/mk-test-state-XXXXXX", text[64], command[64];
	struct mk_config config = { .cluster = ranges_of(primaries[_i].now) };
	int ret;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(config.state_dir, sizeof(config.state_dir), "%s", dir);
	snprintf(text, sizeof(text), "cluster_cidr=%s\n", primaries[_i].before);
	if (primaries[_i].before)
		write_state(dir, MK_RECORD_NAME, text);
	snprintf(command, sizeof(command), "mkdir %s/ipam", dir);
	ck_assert_int_eq(system(command), 0);
	if (primaries[_i].has_pod)
		write_state(dir, "ipam/10.244.1.2", "a\neth0\n/run/netns/a\n");
	ret = agent_check_primary(&config, &err);
	ck_assert_int_eq(ret, primaries[_i].refusal ? -EINVAL : 0);
	if (primaries[_i].refusal)
		ck_assert_msg(strstr(mk_error_text(&err), primaries[_i].refusal) != NULL, "%s",
			      mk_error_text(&err));
	snprintf(command, sizeof(command), "rm -r %s", dir);
	ck_assert_int_eq(system(command), 0);
}
END_TEST

static const struct {
	const char *name, *text;
	bool moves;
} confs[] = {
	{ "of monokube", "{\"plugins\": [{\"type\": \"monokube\"}]}", true },
	{ "of another network", "{\"plugins\": [{\"type\": \"bridge\"}]}", false },
};

/* The runtime takes the file that sorts first, also if the last run has left it. */
START_TEST(test_conf_moves)
{
	char dir[] = "/tmp/mk-test-state-XXXXXX", text[128], command[64], former[64];
	struct mk_config config = { 0 };

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(config.state_dir, sizeof(config.state_dir), "%s", dir);
	snprintf(config.cni_conf_path, sizeof(config.cni_conf_path), "%s/20-new", dir);
	snprintf(former, sizeof(former), "%s/10-old", dir);
	snprintf(text, sizeof(text), "cni_conf=%s\n", former);
	write_state(dir, MK_RECORD_NAME, text);
	write_state(dir, "10-old", confs[_i].text);
	ck_assert_int_eq(agent_move_conf(&config, &err), 0);
	ck_assert_int_eq(access(former, F_OK), confs[_i].moves ? -1 : 0);
	ck_assert_int_eq(access(config.cni_conf_path, F_OK), confs[_i].moves ? 0 : -1);
	ck_assert_int_eq(agent_move_conf(&config, &err), 0);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	ck_assert_int_eq(system(command), 0);
}
END_TEST

/* ---- families -------------------------------------------------------------------------------- */

/* A node of both families, whose Node object has these ranges. */
static struct {
	struct mk_core core;
	struct mk_own_node node;
} dual;

static void make_dual(const char *ipv4, const char *ipv6)
{
	struct mk_core *core = &dual.core;
	char object[256];
	json_object *tree;

	snprintf(object, sizeof(object),
		 "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n'}, 'spec': "
		 "{'podCIDRs': ['%s', '%s']}}",
		 ipv4, ipv6);
	*core = (struct mk_core){ .model = mk_model_new() };
	dual.node = (struct mk_own_node){ .core = core };
	core->config.cluster = ranges_of("10.244.0.0/16");
	core->config.cluster.of[1] = cidr_of("fd00:10:244::/48");
	core->config.vteps = ranges_of("10.18.0.0/16");
	core->config.vteps.of[1] = cidr_of("fd4d:4b00:12::/64");
	core->families[0].family = AF_INET;
	core->families[1].family = AF_INET6;
	snprintf(core->config.node_name, sizeof(core->config.node_name), "n");
	tree = json_tokener_parse(object);
	ck_ok(mk_model_apply(core->model, tree, &err));
	json_object_put(tree);
}

/* IPv6 has programs on this node, from an earlier run. */
static void put_at_work(char *dir)
{
	char command[128];

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(command, sizeof(command), "mkdir %s/progs && : > %s/progs/ilb_pod", dir, dir);
	ck_assert_int_eq(system(command), 0);
	snprintf(dual.core.families[1].dir, sizeof(dual.core.families[1].dir), "%s", dir);
}

static void remove_dual(const char *dir)
{
	char command[128];

	mk_model_free(dual.core.model);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

#define OUTSIDE_IPV6 "fd99::/64"

/* Ranges outside of the cluster's leave a family out, but not both, and none that is at work. */
static const struct {
	const char *ipv4, *ipv6;
	bool is_at_work, is_refused;
} unfit_rows[] = {
	{ "10.244.1.0/24", OUTSIDE_IPV6, false, false },
	{ "10.99.1.0/24", "fd00:10:244:1::/64", false, false },
	{ "10.99.1.0/24", OUTSIDE_IPV6, false, true },
	{ "10.244.1.0/24", OUTSIDE_IPV6, true, true },
	{ "10.99.1.0/24", "fd00:10:244:1::/64", true, false },
	{ "10.244.1.0/24", "fd00:10:244:1::/64", true, false },
};

START_TEST(test_ranges_do_not_fit)
{
	char dir[] = "/tmp/mk-test-pins-XXXXXX";

	make_dual(unfit_rows[_i].ipv4, unfit_rows[_i].ipv6);
	if (unfit_rows[_i].is_at_work)
		put_at_work(dir);
	if (unfit_rows[_i].is_refused) {
		ck_assert_int_lt(mk_own_node_check(&dual.node, &err), 0);
		ck_assert_msg(strstr(err.text, "is not inside the cluster CIDR"), "%s", err.text);
	} else {
		ck_ok(mk_own_node_check(&dual.node, &err));
	}
	remove_dual(dir);
}
END_TEST

/* A node of both families whose kernel has no IPv6 runs IPv4: its IPv6 range, here outside of the
 * cluster's, does not count. An empty directory hides the settings, as after ipv6.disable=1. */
START_TEST(test_kernel_without_ipv6)
{
	char dir[] = "/tmp/mk-test-pins-XXXXXX";

	make_dual("10.244.1.0/24", OUTSIDE_IPV6);
	put_at_work(dir);
	ck_assert_int_lt(mk_own_node_check(&dual.node, &err), 0);
	ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
	ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	ck_assert_int_eq(mount("none", "/proc/sys/net/ipv6", "tmpfs", 0, NULL), 0);
	ck_ok(mk_own_node_check(&dual.node, &err));
	remove_dual(dir);
}
END_TEST

/* ---- routes ---------------------------------------------------------------------------------- */

static const struct {
	const char *dst;
	uint8_t type;
	const char *mac;
} expected[] = {
	{ "10.244.1.0/24", MK_ROUTE_PODS, "00:00:00:00:00:00" },
	{ "10.244.0.0/16", MK_ROUTE_DROP, "00:00:00:00:00:00" },
	{ "10.18.0.0/16", MK_ROUTE_DROP, "00:00:00:00:00:00" },
	{ "240.0.0.0/6", MK_ROUTE_DROP, "00:00:00:00:00:00" },
	{ "240.7.0.0/16", MK_ROUTE_CLUSTER, "09:00:00:00:00:00" },
	{ "10.96.0.0/12", MK_ROUTE_DROP, "00:00:00:00:00:00" },
	{ "10.244.2.0/24", MK_ROUTE_OVERLAY, "02:4d:0a:12:00:02" },
	{ "10.18.0.2/32", MK_ROUTE_OVERLAY, "02:4d:0a:12:00:02" },
	{ "192.0.2.2/32", MK_ROUTE_NODE, "00:00:00:00:00:00" },
	{ "10.18.0.1/32", MK_ROUTE_HOST, "00:00:00:00:00:00" },
	{ "192.0.2.1/32", MK_ROUTE_HOST, "00:00:00:00:00:00" },
};

START_TEST(test_routes)
{
	const struct mk_cidr cluster = cidr_of("10.244.0.0/16"), vteps = cidr_of("10.18.0.0/16");
	const struct mk_ip local[] = { ip_of("10.18.0.1"), ip_of("192.0.2.1") };
	struct mk_overlay_peer peer = { .pod_cidr = cidr_of("10.244.2.0/24"),
					.vtep = ip_of("10.18.0.2") };
	struct mk_overlay_plan plan = { .peers = &peer, .peer_count = 1 };
	struct mk_addresses own = { .pod_cidr = cidr_of("10.244.1.0/24") };
	const struct mk_cidr range = cidr_of("10.96.0.0/12");
	const struct mk_ip other = ip_of("192.0.2.2");
	const struct mk_route_entry view = { cidr_of("240.7.0.0/16"), mk_route_to_cluster(9) };
	const struct routes_input input = { cluster,
					    vteps,
					    &own,
					    &plan,
					    local,
					    2,
					    &range,
					    1,
					    &other,
					    1,
					    cidr_of("240.0.0.0/6"),
					    &view,
					    1,
					    false,
					    false };
	cleanup_free struct mk_route_entry *entries = NULL;
	size_t count;

	peer.vtep_mac = mk_mac_of_ip(&peer.vtep);
	ck_ok(wanted_routes(&input, &entries, &count, &err));
	ck_assert_uint_eq(count, MK_ARRAY_SIZE(expected));
	for (size_t i = 0; i < count; i++) {
		char dst[MK_CIDR_STRLEN], mac[MK_MAC_STRLEN];
		struct mk_mac vtep_mac;

		memcpy(vtep_mac.byte, entries[i].route.vtep_mac, sizeof(vtep_mac.byte));
		ck_assert_str_eq(mk_cidr_format(&entries[i].dst, dst), expected[i].dst);
		ck_assert_uint_eq(entries[i].route.type, expected[i].type);
		ck_assert_str_eq(mk_mac_format(&vtep_mac, mac), expected[i].mac);
		ck_assert_uint_eq(entries[i].route.is_clear, 0);
	}
}
END_TEST

static const struct {
	const char *name;
	bool encrypts_all, has_wireguard, has_key, is_clear;
} clear_rows[] = {
	{ "without WireGuardOnly", false, false, false, false },
	{ "a node with a key", true, true, true, false },
	{ "a node without a key", true, true, false, true },
	{ "this node has no WireGuard", true, false, true, true },
};

/* With encryption: WireGuardOnly, both addresses of a node that cannot get packets are marked. */
START_TEST(test_clear_routes)
{
	struct mk_overlay_peer peer = { .pod_cidr = cidr_of("10.244.2.0/24"),
					.vtep = ip_of("10.18.0.2"),
					.wireguard.port = clear_rows[_i].has_key ? 51871 : 0 };
	struct mk_overlay_plan plan = { .peers = &peer, .peer_count = 1 };
	struct mk_addresses own = { .pod_cidr = cidr_of("10.244.1.0/24") };
	const struct routes_input input = { .cluster_cidr = cidr_of("10.244.0.0/16"),
					    .vtep_cidr = cidr_of("10.18.0.0/16"),
					    .own = &own,
					    .plan = &plan,
					    .encrypts_all = clear_rows[_i].encrypts_all,
					    .has_wireguard = clear_rows[_i].has_wireguard };
	cleanup_free struct mk_route_entry *entries = NULL;
	size_t count, clear = 0;

	ck_ok(wanted_routes(&input, &entries, &count, &err));
	for (size_t i = 0; i < count; i++)
		clear += entries[i].route.is_clear;
	ck_assert_msg(clear == (clear_rows[_i].is_clear ? 2 : 0), "%s: %zu", clear_rows[_i].name,
		      clear);
}
END_TEST

/* Both addresses of a node to which packets go without VXLAN are marked. */
START_TEST(test_direct_routes)
{
	struct mk_overlay_peer peer = { .pod_cidr = cidr_of("10.244.2.0/24"),
					.vtep = ip_of("10.18.0.2"),
					.is_direct = _i };
	struct mk_overlay_plan plan = { .peers = &peer, .peer_count = 1 };
	struct mk_addresses own = { .pod_cidr = cidr_of("10.244.1.0/24") };
	const struct routes_input input = { .cluster_cidr = cidr_of("10.244.0.0/16"),
					    .vtep_cidr = cidr_of("10.18.0.0/16"),
					    .own = &own,
					    .plan = &plan };
	cleanup_free struct mk_route_entry *entries = NULL;
	size_t count, direct = 0;

	ck_ok(wanted_routes(&input, &entries, &count, &err));
	for (size_t i = 0; i < count; i++)
		direct += entries[i].route.is_direct;
	ck_assert_uint_eq(direct, _i ? 2 : 0);
}
END_TEST

static const struct {
	const char *name;
	enum mk_routing routing;
	enum mk_encryption encryption;
	bool sends;
} direct_rows[] = {
	{ "Overlay", MK_ROUTING_OVERLAY, MK_ENCRYPTION_NONE, false },
	{ "Direct", MK_ROUTING_DIRECT, MK_ENCRYPTION_NONE, true },
	{ "Auto", MK_ROUTING_AUTO, MK_ENCRYPTION_NONE, true },
	{ "Auto, with encryption", MK_ROUTING_AUTO, MK_ENCRYPTION_WIREGUARD, false },
	{ "Auto, with encryption only", MK_ROUTING_AUTO, MK_ENCRYPTION_ONLY, false },
};

START_TEST(test_sends_direct)
{
	const struct mk_config config = { .routing = direct_rows[_i].routing,
					  .encryption = direct_rows[_i].encryption };

	ck_assert_msg(sends_direct(&config) == direct_rows[_i].sends, "%s", direct_rows[_i].name);
}
END_TEST

static const struct {
	const char *range, *cuts_off; /* NULL: none, the range is usable */
} ranges[] = {
	{ "10.96.0.0/12", NULL },
	{ "192.0.2.128/25", NULL },
	{ "10.244.0.0/20", "clusterCidr" },
	{ "10.0.0.0/8", "clusterCidr" },
	{ "10.18.0.0/24", "vtepCidr" },
	{ "192.0.2.0/29", "this node's InternalIP" },
	{ "198.51.100.0/24", "a node's InternalIP" },
	{ "0.0.0.0/0", "clusterCidr" },
	{ "203.0.113.0/24", "a network of this node" },
	{ "172.16.8.0/24", "a network of this node" },
	{ "10.97.0.0/16", NULL }, /* NodeLocal DNSCache has a Service's address on a device */
};

START_TEST(test_usable_ranges)
{
	const struct mk_cidr cluster = cidr_of("10.244.0.0/16"), vteps = cidr_of("10.18.0.0/16");
	struct mk_overlay_peer peer = { .underlay = ip_of("198.51.100.2") };
	struct mk_overlay_plan plan = { .peers = &peer, .peer_count = 1 };
	struct mk_ip internal_ip = ip_of("192.0.2.1");
	struct mk_service_cidr list[] = { { "one", cidr_of(ranges[_i].range) },
					  { "two", cidr_of("172.30.0.1/16") } };
	struct mk_network host[] = {
		{ .cidr = cidr_of("203.0.113.64/26"), .kind = MK_NET_ON_LINK },
		{ .cidr = cidr_of("172.16.8.1/32"), .kind = MK_NET_GATEWAY },
		{ .cidr = cidr_of("10.97.0.10/32"), .kind = MK_NET_ADDRESS },
	};
	const struct mk_networks networks = { .list = host, .count = MK_ARRAY_SIZE(host) };
	const struct ranges_input input = {
		cluster, vteps, &plan, &internal_ip, &networks, list, 2
	};
	bool used = !ranges[_i].cuts_off;
	struct mk_cidr usable[2];
	char text[MK_CIDR_STRLEN];

	ck_assert_int_eq(usable_ranges(&input, usable, &err), used ? 0 : 1);
	ck_assert_str_eq(mk_cidr_format(&usable[used ? 1 : 0], text), "172.30.0.0/16");
	if (!used)
		ck_assert_msg(strstr(err.text, "'one'") && strstr(err.text, ranges[_i].range) &&
				      strstr(err.text, ranges[_i].cuts_off),
			      "%s: %s", ranges[_i].range, err.text);
}
END_TEST

/* ---- source ---------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	struct mk_config config;
	const char *host; /* KUBERNETES_SERVICE_HOST */
	bool token;
	const char *text; /* of the error, with a '!' */
} sources[] = {
	{ "directory", { .cluster_dir = "/c" }, NULL, false, "cluster directory /c" },
	{ "kubeconfig", { .kubeconfig = "/k" }, NULL, false, "API server by kubeconfig /k" },
	{ "kubeconfig and API server",
	  { .kubeconfig = "/k", .api_server = "https://a:1" },
	  NULL,
	  false,
	  "API server at https://a:1 by kubeconfig /k" },
	{ "pod", { .cluster_dir = "" }, "10.96.0.1", true, "API server by service account" },
	{ "pod that is told the API server",
	  { .api_server = "https://a:1" },
	  NULL,
	  true,
	  "API server at https://a:1 by service account" },
	{ "no pod: the first way", { .cluster_dir = "" }, NULL, false, "!--kubeconfig FILE" },
	{ "no pod: the second way", { .cluster_dir = "" }, NULL, false, "!--cluster-dir DIR" },
	{ "no pod: the third way", { .cluster_dir = "" }, NULL, false, "!service account" },
	{ "no token", { .api_server = "https://a:1" }, "10.96.0.1", false, "!/token" },
	{ "no API server", { .cluster_dir = "" }, NULL, true, "!apiServer" },
};

START_TEST(test_source)
{
	char dir[] = "/tmp/mk-test-account-XXXXXX", path[64];
	struct mk_source_text text;
	int ret;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/token", dir);
	if (sources[_i].token)
		fclose(fopen(path, "w"));
	clearenv();
	if (sources[_i].host)
		setenv("KUBERNETES_SERVICE_HOST", sources[_i].host, 1);
	ret = mk_source_choose(&sources[_i].config, dir, &text, &err);
	unlink(path);
	rmdir(dir);
	if (sources[_i].text[0] != '!') {
		ck_assert_msg(ret == 0, "%s: %s", sources[_i].name, err.text);
		ck_assert_str_eq(text.text, sources[_i].text);
	} else {
		ck_assert_msg(ret < 0 && strstr(err.text, sources[_i].text + 1), "%s: %s",
			      sources[_i].name, err.text);
	}
}
END_TEST

/* ---- work ------------------------------------------------------------------------------------ */

static void nothing_listed(void *ctx, bool complete)
{
	(void)ctx;
	(void)complete;
}

/* Count the turns of work; this agent has no datapath, so they end early. */
START_TEST(test_work_waits_for_the_list)
{
	struct mk_agent agent = { .core.model = mk_model_new() };
	char dir[] = "/tmp/mk-test-cluster-XXXXXX";

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(agent.core.config.cluster_dir, sizeof(agent.core.config.cluster_dir), "%s", dir);
	ck_assert_int_eq(uv_loop_init(&agent.core.loop), 0);
	agent.core.source = mk_source_start(&agent.core.loop, &agent.core.config, agent.core.model,
					    nothing_listed, NULL, &err);
	ck_assert_msg(agent.core.source != NULL, "%s", err.text);
	agent.node.core = &agent.core;
	agent_work(&agent);
	ck_assert_msg(agent.steps.seconds.count == 0, "before the first list nothing is done");
	agent.core.listed = true;
	agent_work(&agent);
	ck_assert_uint_eq(agent.steps.seconds.count, 1);
	mk_source_stop(agent.core.source);
	ck_assert_int_eq(uv_run(&agent.core.loop, UV_RUN_DEFAULT), 0);
	ck_assert_int_eq(uv_loop_close(&agent.core.loop), 0);
	mk_model_free(agent.core.model);
	rmdir(dir);
}
END_TEST

/* A table without space, or without memory for an entry, is an Event of the Node. */
START_TEST(test_full_table)
{
	static const struct {
		int code;
		bool event;
	} rows[] = { { ENOSPC, true }, { E2BIG, true }, { ENOMEM, true }, { EIO, false } };
	struct mk_core core = { .model = mk_model_new() };
	struct mk_error full = { .code = rows[_i].code, .text = "map 'policy_peers' is full" };
	char dir[] = "/tmp/mk-test-cluster-XXXXXX";

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(core.config.cluster_dir, sizeof(core.config.cluster_dir), "%s", dir);
	ck_assert_int_eq(uv_loop_init(&core.loop), 0);
	core.source =
		mk_source_start(&core.loop, &core.config, core.model, nothing_listed, NULL, &err);
	ck_assert_msg(core.source != NULL, "%s", err.text);
	mk_core_failed(&core, &full);
	if (rows[_i].event)
		ck_assert_str_eq(core.notices.warned[MK_WARN_TABLE_FULL], full.text);
	else
		ck_assert_ptr_null(core.notices.warned[MK_WARN_TABLE_FULL]);
	mk_core_fine(&core);
	ck_assert_ptr_null(core.notices.warned[MK_WARN_TABLE_FULL]);
	mk_source_stop(core.source);
	ck_assert_int_eq(uv_run(&core.loop, UV_RUN_DEFAULT), 0);
	ck_assert_int_eq(uv_loop_close(&core.loop), 0);
	mk_model_free(core.model);
	rmdir(dir);
}
END_TEST

/* ---- CNI configuration ----------------------------------------------------------------------- */

static const char *const template =
#include "cni_conf_template.h"
	;

static struct mk_config cni_config(void)
{
	return (struct mk_config){
		.cluster = ranges_of("10.244.0.0/16"),
		.vteps = ranges_of("10.18.0.0/16"),
		.veth_prefix = "mk",
		.state_dir = "/var/lib/monokube",
		.bpf_dir = "/sys/fs/bpf/monokube",
	};
}

static json_object *rendered(void)
{
	struct mk_config config = cni_config();
	const struct mk_cni_conf_values values = {
		&config, { cidr_of("10.244.1.0/24") }, AF_INET, 1450, false
	};
	cleanup_free char *text = cni_conf_render(template, &values, &err);
	json_object *tree;

	ck_assert_msg(text != NULL, "%s", mk_error_text(&err));
	tree = json_tokener_parse(text);
	ck_assert_msg(tree != NULL, "no JSON: %s", text);
	return tree;
}

static json_object *plugin_of(json_object *tree, size_t index)
{
	json_object *plugins = NULL;

	ck_assert(json_object_object_get_ex(tree, "plugins", &plugins));
	return index < json_object_array_length(plugins) ? json_object_array_get_idx(plugins, index)
							 : NULL;
}

static const char *member(json_object *object, const char *key)
{
	json_object *value = NULL;

	return json_object_object_get_ex(object, key, &value) ? json_object_get_string(value)
							      : NULL;
}

START_TEST(test_conf)
{
	json_object *tree = rendered(), *plugin = plugin_of(tree, 0);

	ck_assert_str_eq(member(plugin, "type"), "monokube");
	ck_assert_str_eq(member(plugin, "capabilities"),
			 "{ \"bandwidth\": true, \"portMappings\": true, "
			 "\"io.kubernetes.cri.pod-annotations\": true }");
	ck_assert_str_eq(member(plugin, "podCIDR"), "10.244.1.0/24");
	ck_assert_str_eq(member(plugin, "clusterCIDR"), "10.244.0.0/16");
	ck_assert_str_eq(member(plugin, "vtepCIDR"), "10.18.0.0/16");
	ck_assert_str_eq(member(plugin, "underlayFamily"), "IPv4");
	ck_assert_str_eq(member(plugin, "mtu"), "1450");
	ck_assert_str_eq(member(plugin, "vethPrefix"), "mk");
	ck_assert_str_eq(member(plugin, "stateDir"), "/var/lib/monokube");
	ck_assert_str_eq(member(plugin, "bpfDir"), "/sys/fs/bpf/monokube");
	ck_assert_ptr_null(plugin_of(tree, 1));
	json_object_put(tree);
}
END_TEST

/* libcni before 1.2 knows only cniVersion. A later one takes the latest version that it knows from
 * both members, and calls GC and STATUS only from 1.1.0 on. */
START_TEST(test_conf_versions)
{
	enum mk_cni_version version, latest = MK_CNI_0_3_1;
	json_object *tree = rendered(), *list = NULL;

	ck_assert_str_eq(member(tree, "cniVersion"), "1.0.0");
	ck_assert(json_object_object_get_ex(tree, "cniVersions", &list));
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		const char *name = json_object_get_string(json_object_array_get_idx(list, i));

		ck_assert_msg(cni_version_parse(name, &version) == 0, "'%s'", name);
		latest = version > latest ? version : latest;
	}
	ck_assert_int_eq(latest, MK_CNI_1_1_0);
	json_object_put(tree);
}
END_TEST

/* The plugin's own reader gets both families, the primary one first. A Node may have only one. */
static const struct {
	const char *clusters[2], *pods[2];
	sa_family_t primary;
	const char *text; /* of podCIDR and podCIDRs */
} conf_families[] = {
	{ { "10.244.0.0/16", "fd00:10:244::/48" },
	  { "10.244.1.0/24", "fd00:10:244:1::/64" },
	  AF_INET,
	  "10.244.1.0/24 [\"10.244.1.0/24\",\"fd00:10:244:1::/64\"]" },
	{ { "10.244.0.0/16", "fd00:10:244::/48" },
	  { "10.244.1.0/24", "fd00:10:244:1::/64" },
	  AF_INET6,
	  "fd00:10:244:1::/64 [\"fd00:10:244:1::/64\",\"10.244.1.0/24\"]" },
	{ { "10.244.0.0/16", "fd00:10:244::/48" },
	  { "10.244.1.0/24" },
	  AF_INET6,
	  "10.244.1.0/24 null" },
	{ { "10.244.0.0/16" }, { "10.244.1.0/24" }, AF_INET, "10.244.1.0/24 null" },
};

static const char *const conf_vteps[] = { "10.18.0.0/16", "fd4d:4b00:12::/64" };

static struct mk_config config_of_families(size_t row)
{
	struct mk_config config = cni_config();

	config.cluster = config.vteps = (struct mk_ranges){ .primary = conf_families[row].primary };
	for (size_t i = 0; i < 2 && conf_families[row].clusters[i]; i++) {
		config.cluster.of[i] = cidr_of(conf_families[row].clusters[i]);
		config.vteps.of[i] = cidr_of(conf_vteps[i]);
	}
	return config;
}

START_TEST(test_conf_families)
{
	const struct mk_config config = config_of_families((size_t)_i);
	struct mk_cni_conf_values values = { .config = &config, .mtu_bytes = 1450 };
	cleanup_free char *text = NULL;
	struct mk_cni_conf conf = { 0 };
	struct mk_cni_failure failure = { 0 };
	json_object *tree, *list = NULL;
	char seen[200];

	for (size_t i = 0; i < 2 && conf_families[_i].pods[i]; i++)
		values.pod_cidrs[i] = cidr_of(conf_families[_i].pods[i]);
	text = cni_conf_render(template, &values, &err);
	tree = json_tokener_parse(text);
	conf.root = plugin_of(tree, 0);
	json_object_object_get_ex(conf.root, "podCIDRs", &list);
	snprintf(seen, sizeof(seen), "%s %s", member(conf.root, "podCIDR"),
		 json_object_to_json_string_ext(list, JSON_C_TO_STRING_PLAIN |
							      JSON_C_TO_STRING_NOSLASHESCAPE));
	ck_assert_str_eq(seen, conf_families[_i].text);
	ck_assert_msg(mk_cni_conf_read_network(&conf, &failure) == 0, "%s", failure.cause.text);
	ck_assert_uint_eq(conf.network_count, list ? 2 : 1);
	json_object_put(tree);
}
END_TEST

static const struct {
	const char *name, *template, *error;
} bad_templates[] = {
	{ "unknown placeholder", "{\"a\": \"${podCidr}\"}", "${podCidr}" },
	{ "placeholder without end", "{\"a\": \"${mtu\"", "without" },
};

START_TEST(test_bad_template)
{
	struct mk_config config = cni_config();
	const struct mk_cni_conf_values values = {
		&config, { cidr_of("10.244.1.0/24") }, AF_INET, 1450, false
	};

	ck_assert_ptr_null(cni_conf_render(bad_templates[_i].template, &values, &err));
	ck_assert_msg(strstr(err.text, bad_templates[_i].error), "%s: %s", bad_templates[_i].name,
		      err.text);
}
END_TEST

/* nodePortRange is the API server's range: a port outside is logged. */
START_TEST(test_odd_node_port)
{
	const struct mk_config config = { .node_port_min = 30000, .node_port_max = 32767 };
	struct mk_service_port ports[] = { { .node_port = 0 },
					   { .node_port = 30000 },
					   { .node_port = 32767 },
					   { .node_port = 32768 } };
	const struct mk_service_object inside = { .ports = ports, .port_count = 3 };
	const struct mk_service_object outside = { .ports = ports, .port_count = 4 };

	ck_assert_uint_eq(agent_odd_node_port(&config, &inside), 0);
	ck_assert_uint_eq(agent_odd_node_port(&config, &outside), 32768);
	ck_assert_uint_eq(agent_odd_node_port(&config, NULL), 0);
}
END_TEST

UNIT_SUITE("agent")
{
	TCase *tc = unit_case(suite, "pure", NULL, NULL);

	tcase_add_test(tc, test_odd_node_port);
	tcase_add_test(tc, test_routes);
	tcase_add_loop_test(tc, test_clear_routes, 0, MK_ARRAY_SIZE(clear_rows));
	tcase_add_loop_test(tc, test_direct_routes, 0, 2);
	tcase_add_loop_test(tc, test_sends_direct, 0, MK_ARRAY_SIZE(direct_rows));
	tcase_add_loop_test(tc, test_node_ports, 0, MK_ARRAY_SIZE(node_ports));
	tcase_add_loop_test(tc, test_localhost_node_ports, 0, MK_ARRAY_SIZE(localhosts));
	tcase_add_test(tc, test_remembered_node);
	tcase_add_loop_test(tc, test_primary, 0, MK_ARRAY_SIZE(primaries));
	tcase_add_loop_test(tc, test_conf_moves, 0, MK_ARRAY_SIZE(confs));
	tcase_add_loop_test(tc, test_ranges_do_not_fit, 0, MK_ARRAY_SIZE(unfit_rows));
	tcase_add_test(tc, test_kernel_without_ipv6);
	tcase_add_loop_test(tc, test_usable_ranges, 0, MK_ARRAY_SIZE(ranges));
	tcase_add_loop_test(tc, test_source, 0, MK_ARRAY_SIZE(sources));
	tcase_add_test(tc, test_work_waits_for_the_list);
	tcase_add_loop_test(tc, test_full_table, 0, 4);
	tcase_add_test(tc, test_conf);
	tcase_add_test(tc, test_conf_versions);
	tcase_add_loop_test(tc, test_conf_families, 0, MK_ARRAY_SIZE(conf_families));
	tcase_add_loop_test(tc, test_bad_template, 0, MK_ARRAY_SIZE(bad_templates));
}

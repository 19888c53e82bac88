// SPDX-License-Identifier: Apache-2.0
/* Commands on a node that has the tables of both families. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/inspect/view.h"
#include "datapath/monitor/monitor.h"
#include "datapath/pods/pod_table.h"
#include "datapath/services/counters.h"
#include "datapath/services/names.h"
#include "unit/cli_fixture.h"
#include "unit/datapath_fixture.h"

/* ---- the node -------------------------------------------------------------------------------- */

static struct mk_datapath *halves[MK_FAMILIES];
static char dirs[MK_FAMILIES][PATH_MAX];

static struct mk_node constants_of(sa_family_t family)
{
	const bool is_ipv6 = family == AF_INET6;
	struct mk_node node = fx.constants;

	node.vtep_addr = addr_of(is_ipv6 ? "fd4d:4b00:12::7" : "10.18.0.1");
	node.gateway_addr = addr_of(is_ipv6 ? "fd00:10:244:7::3fe" : "10.244.1.254");
	node.vpod_addr = addr_of(is_ipv6 ? "fd00:10:244:7::1" : "10.244.1.1");
	node.pod_net = addr_of(is_ipv6 ? "fd00:10:244:7::" : "10.244.1.0");
	node.pod_mask = addr_of(is_ipv6 ? "ffff:ffff:ffff:ffff::" : "255.255.255.0");
	node.cluster_net = addr_of(is_ipv6 ? "fd00:10:244::" : "10.244.0.0");
	node.cluster_mask = addr_of(is_ipv6 ? "ffff:ffff:ffff::" : "255.255.0.0");
	node.vtep_net = addr_of(is_ipv6 ? "fd4d:4b00:12::" : "10.18.0.0");
	node.vtep_mask = addr_of(is_ipv6 ? "ffff:ffff:ffff:ffff::" : "255.255.0.0");
	return node;
}

static void write_file(const char *name, const char *text)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", fx.state_dir, name);
	file = fopen(path, "we");
	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
}

static void remove_file(const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", fx.state_dir, name);
	ck_assert_int_eq(unlink(path), 0);
}

#define IPV4_FIRST "10.244.0.0/16\nsecond_cluster_cidr=fd00:10:244::/48"

static void write_record(const char *ranges)
{
	char text[PATH_MAX + 256];

	snprintf(text, sizeof(text), "vxlan=vx0\nbpf_dir=%s\ncluster_cidr=%s\n", fx.bpf_dir,
		 ranges);
	write_file("made", text);
}

static void setup(void)
{
	static const sa_family_t families[] = { AF_INET, AF_INET6 };

	fx_setup();
	fx.links.set.host_ifindex = if_nametoindex("mkh0");
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		struct mk_node node = constants_of(families[i]);

		fx.links.set.node_addr = addr_of(i ? "fd00:99::11" : "192.168.99.11");
		fx.links.uplinks[0].addr = fx.links.set.first.addr = fx.links.set.node_addr;
		fx_ok(mk_pin_dir(dirs[i], fx.bpf_dir, families[i], &fx.err));
		halves[i] = mk_datapath_open(dirs[i], fx.state_dir, &node, &fx.err);
		ck_assert_msg(halves[i] != NULL, "%s", mk_error_text(&fx.err));
		fx_ok(mk_datapath_load(halves[i], &fx.err));
		fx_ok(mk_datapath_attach(halves[i], &fx.links, &fx.err));
	}
	write_record(IPV4_FIRST);
}

static void teardown(void)
{
	for (size_t i = 0; i < MK_FAMILIES; i++)
		mk_datapath_free(halves[i]);
	fx_teardown();
}

/* Write a row of a family's table. */
static void put(size_t half, const char *name, const void *key, size_t key_size, const void *value,
		size_t value_size)
{
	cleanup_table struct mk_table table = { 0 };

	fx_ok(mk_table_open(&table, dirs[half], name, key_size, value_size, &fx.err));
	fx_ok(mk_table_put(&table, key, value, &fx.err));
}

/* ---- pods ------------------------------------------------------------------------------------ */

static void put_pod(size_t half, const char *address, int ifindex)
{
	const struct mk_pod pod = { .addr = addr_of(address), .ifindex = (__u32)ifindex };
	cleanup_table struct mk_table table = { 0 };

	fx_ok(mk_pod_table_open(&table, dirs[half], &fx.err));
	fx_ok(mk_pod_table_put(&table, &pod, &fx.err));
}

static void put_pods(void)
{
	char path[PATH_MAX];

	put_pod(0, "10.244.1.2", fx.pod_ifindex);
	put_pod(1, "fd00:10:244:7::2", fx.pod_ifindex);
	put_pod(0, "10.244.1.3", fx.uplink_ifindex); /* from before the second family */
	snprintf(path, sizeof(path), "%s/ipam", fx.state_dir);
	ck_assert(mkdir(path, 0700) == 0 || errno == EEXIST);
	write_file("ipam/10.244.1.2", "web-container\neth0\n/run/netns/web\n");
	snprintf(path, sizeof(path), "%s/ipam/.both", fx.state_dir);
	ck_assert(mkdir(path, 0700) == 0 || errno == EEXIST);
	/* what another container has left does not count */
	snprintf(path, sizeof(path), "%s/ipam/.both/10.244.1.3", fx.state_dir);
	ck_assert(symlink("other/fd000010024400070000000000000003", path) == 0 || errno == EEXIST);
	snprintf(path, sizeof(path), "%s/ipam/.both/10.244.1.2", fx.state_dir);
	ck_assert(symlink("web-container/fd000010024400070000000000000002", path) == 0 ||
		  errno == EEXIST);
}

/* A pod with both addresses is one row, with the owner of the primary family's address. */
START_TEST(test_pods)
{
	put_pods();
	check_output(0, "10.244.1.2,fd00:10:244:7::2  mkpod", "pods");
	check_output(0, "10.244.1.3                   up0", "pods");
	check_output(0, "web-container", "pods", "fd00:10:244:7::2");
	check_output_lacks(0, "10.244.1.3", "pods", "fd00:10:244:7::2");
	check_output(0, "ADDRESSES   INTERFACE", "pods", "-4");
	check_output_lacks(0, "fd00:", "pods", "-4");
	check_output(0, "fd00:10:244:7::2  mkpod", "pods", "-6");
	check_output(0, "web-container", "pods", "-6");
	check_output_lacks(0, "10.244.1.", "pods", "-6");
	check_output(0, "\"address\":\"10.244.1.2\",\n    \"addresses\":[\n      \"10.244.1.2\",",
		     "pods", "-o", "json");
}
END_TEST

/* The first range of clusterCidr says which address comes first. */
START_TEST(test_order)
{
	put_pod(0, "10.244.1.2", fx.pod_ifindex);
	put_pod(1, "fd00:10:244:7::2", fx.pod_ifindex);
	write_record("fd00:10:244::/48\nsecond_cluster_cidr=10.244.0.0/16");
	check_output(0, "fd00:10:244:7::2,10.244.1.2  mkpod", "pods");
	check_output(0, "\"address\":\"fd00:10:244:7::2\"", "pods", "-o", "json");
	write_record(IPV4_FIRST);
}
END_TEST

/* ---- nodes ----------------------------------------------------------------------------------- */

static void put_host_route(size_t half, const char *range)
{
	const struct mk_cidr cidr = cidr_of(range);
	const struct mk_route_key key = { cidr.prefix_bits, mk_ip_to_addr(&cidr.ip) };
	const struct mk_route route = { .type = MK_ROUTE_HOST };

	put(half, "routes", &key, sizeof(key), &route, sizeof(route));
}

static void put_route(size_t half, const char *range)
{
	const struct mk_cidr cidr = cidr_of(range);
	const struct mk_route_key key = { cidr.prefix_bits, mk_ip_to_addr(&cidr.ip) };
	const struct mk_route route = { .type = MK_ROUTE_OVERLAY,
					.vtep_mac = { 2, 0x4d, 10, 18, 0, 2 } };

	put(half, "routes", &key, sizeof(key), &route, sizeof(route));
}

/* Both families of a node have the MAC address of the primary one. */
START_TEST(test_nodes)
{
	put_route(0, "10.244.2.0/24");
	put_route(1, "fd00:10:244:9::/64");
	check_output(
		0,
		"10.244.2.0/24,fd00:10:244:9::/64  -        10.18.0.2,fd4d:4b00:12::9  02:4d:0a:12:00:02",
		"nodes");
	check_output(0, "fd00:10:244:9::/64  -        fd4d:4b00:12::9  02:4d:0a:12:00:02", "nodes",
		     "-6");
	check_output(0, "\"overlayAddress\":\"10.18.0.2\"", "nodes", "-o", "json");
	check_output(0, "\"podCidrs\":[", "nodes", "-o", "json");
}
END_TEST

/* ---- Services -------------------------------------------------------------------------------- */

static void put_frontend(size_t half, const char *address, uint32_t service_id,
			 uint64_t connections)
{
	const struct mk_frontend_key key = { .addr = addr_of(address),
					     .port = htons(80),
					     .proto = IPPROTO_TCP };
	const struct mk_frontend frontend = { .set_id = 1, .service_id = service_id };
	const struct mk_service_counter counter = { .connections = connections };

	put(half, "frontends", &key, sizeof(key), &frontend, sizeof(frontend));
	put(half, "service_counters", &service_id, sizeof(service_id), &counter, sizeof(counter));
}

/* Ids belong to one family's tables, so the counters are added by name. */
START_TEST(test_services)
{
	put_frontend(0, "10.96.0.80", 5, 3);
	put_frontend(1, "fd00:10:96::80", 9, 4);
	put_frontend(1, "fd00:10:96::81", 10, 1);
	write_file(MK_NAMES_FILE, "5 shop/web\n");
	write_file(MK_NAMES_FILE_IPV6, "9 shop/web\n10 shop/cart\n");
	check_output(0,
		     "shop/web (id 5)\n  10.96.0.80:80/TCP           internal -> no endpoint\n"
		     "  [fd00:10:96::80]:80/TCP     internal -> no endpoint\n  connections 7,",
		     "services");
	check_output(0, "shop/cart (id 10)", "services");
	check_output(0, "connections 3,", "services", "web", "-4");
	check_output_lacks(0, "shop/cart", "services", "-4");
	check_output(0, "connections 4,", "services", "web", "-6");
}
END_TEST

/* ---- flows and drops ------------------------------------------------------------------------- */

static void put_session(size_t half, const char *from, const char *to)
{
	const struct mk_tuple key = { .saddr = addr_of(from),
				      .daddr = addr_of(to),
				      .sport = htons(40000),
				      .dport = htons(80),
				      .proto = IPPROTO_TCP };
	const struct mk_session session = { .to = key, .flags = MK_SESSION_FORWARD };

	put(half, "sessions", &key, sizeof(key), &session, sizeof(session));
}

START_TEST(test_sessions)
{
	put_session(0, "10.244.1.2", "10.96.0.80");
	put_session(1, "fd00:10:244:7::2", "fd00:10:96::80");
	check_output(0, "10.244.1.2:40000", "sessions");
	check_output(0, "[fd00:10:244:7::2]:40000", "sessions");
	check_output_lacks(0, "fd00:", "sessions", "-4");
	check_output_lacks(0, "10.244.1.2", "sessions", "-6");
	check_output(0, "[fd00:10:244:7::2]:40000", "sessions", "fd00:10:96::80");
	check_output_lacks(0, "[fd00:10:244:7::2]:40000", "sessions", "--limit", "1");
}
END_TEST

static void put_drops(size_t half, uint64_t packets)
{
	const __u32 key = MK_DROP_NO_POD * MK_HOOK_COUNT + MK_HOOK_POD;
	struct mk_drop_counter counters[256] = { { packets, 100 * packets } };

	put(half, "drops", &key, sizeof(key), counters, sizeof(counters[0]));
}

START_TEST(test_drops)
{
	put_drops(0, 3);
	put_drops(1, 4);
	check_output(0, "NO_POD  pod   7        700", "drops");
	check_output(0, "NO_POD  pod   3        300", "drops", "-4");
	check_output(0, "NO_POD  pod   4        400", "drops", "-6");
}
END_TEST

static volatile int stop;

static void see_flow(void *ctx, const struct mk_flow_event *event)
{
	(void)ctx;
	(void)event;
}

static void *follow(void *failed)
{
	struct mk_monitor_source sources[] = { { .dir = dirs[0] }, { .dir = dirs[1] } };
	struct mk_monitor_reader reader = { .flow = see_flow };
	int ret = mk_monitor_follow(sources, MK_FAMILIES, fx.state_dir, &reader, &stop, NULL);

	return ret < 0 ? failed : NULL;
}

static bool is_monitored(size_t half)
{
	cleanup_table struct mk_table table = { 0 };
	struct mk_runtime now;
	__u32 key = 0;

	fx_ok(mk_table_open(&table, dirs[half], "runtime", sizeof(key), sizeof(now), &fx.err));
	fx_ok(mk_table_get(&table, &key, &now, &fx.err));
	return now.monitored;
}

START_TEST(test_monitor)
{
	pthread_t watcher;
	void *failed;

	ck_assert_int_eq(pthread_create(&watcher, NULL, follow, &fx), 0);
	for (int i = 0; i < 500 && !(is_monitored(0) && is_monitored(1)); i++)
		usleep(20 * 1000);
	ck_assert(is_monitored(0) && is_monitored(1));
	stop = 1;
	ck_assert_int_eq(pthread_join(watcher, &failed), 0);
	ck_assert_ptr_null(failed);
	ck_assert(!is_monitored(0) && !is_monitored(1));
	check_output(1, "", "monitor", "--pod", "10.244.1.9", "--ip", "fd00::1");
}
END_TEST

/* ---- trace ----------------------------------------------------------------------------------- */

START_TEST(test_trace)
{
	put_pods();
	put_route(0, "10.244.2.0/24");
	put_route(1, "fd00:10:244:9::/64");
	check_output(3, "TCP [fd00:10:244:7::2]:40000 > [fd00:10:244:9::5]:80\n", "trace",
		     "fd00:10:244:7::2", "fd00:10:244:9::5", "80");
	check_output(3, "TCP 10.244.1.2:40000 > 10.244.2.5:80\n", "trace", "10.244.1.2",
		     "10.244.2.5", "80");
	check_output(1, "", "trace", "10.244.1.2", "fd00:10:244:9::5", "80");
}
END_TEST

static void attach_to_pod(void)
{
	cleanup_close int fd = mk_pin_open(dirs[1], MK_PIN_PROGS, "ilb_pod", &fx.err);

	ck_assert_int_ge(fd, 0);
	fx_ok(mk_hook_attach(fx.nl, fx.pod_ifindex, MK_INGRESS, fd, &fx.err));
}

static const struct {
	const char *headers;
	int status;
	const char *says;
} walks[] = {
	{ "hop-by-hop,destination,routing,fragment", 0,
	  "headers extension headers hop-by-hop, destination, routing, fragment: walked, layer 4 begins at byte 72\n" },
	{ "destination,hop-by-hop", 3, "destination, hop-by-hop: refused" },
	{ "source-route", 3, "[SOURCE_ROUTE]" },
	{ "destination,destination,destination,destination,destination", 3, "[EXTENSION_HEADER]" },
	{ "ah", 0, "layer 4 begins at byte 56" },
	{ "esp", 1, "" },
};

START_TEST(test_trace_headers)
{
	put_pods();
	put_host_route(1, "fd00:99::11/128");
	attach_to_pod();
	check_output(walks[_i].status, walks[_i].says, "trace", "fd00:10:244:7::2", "host", "22",
		     "--headers", walks[_i].headers);
}
END_TEST

static const struct {
	const char *from, *to, *message;
	int status;
	const char *says;
} messages[] = {
	{ "fd00:10:244:7::2", "fd00:10:244:7::3fe", "ns", 0,
	  "program ndp answers for the gateway, with " },
	{ "fd00:10:244:7::2", "fd00:10:244:7::3", "ns", 3, "[NEIGHBOUR_DISCOVERY]" },
	{ "fd00:10:244:7::2", "ff02::1", "ra", 3, "[NEIGHBOUR_DISCOVERY]" },
	{ "fe80::1", "ff02::1", "ra", 0, "monokube answers nothing on an uplink" },
	{ "host", "ff02::2", "rs", 1, "" },
	{ "10.244.1.2", "10.244.1.3", "ns", 1, "" },
	{ "fd00:10:244:7::2", "ff02::1", "mld", 1, "" },
};

START_TEST(test_trace_neighbours)
{
	put_pods();
	attach_to_pod();
	check_output(messages[_i].status, messages[_i].says, "trace", messages[_i].from,
		     messages[_i].to, "--neighbour", messages[_i].message);
}
END_TEST

/* ---- status and check ------------------------------------------------------------------------ */

START_TEST(test_status)
{
	put_pods();
	put_drops(0, 3);
	put_drops(1, 4);
	check_output(
		1,
		"IPv4: pods 10.244.1.0/24, node 192.168.99.11\n"
		"IPv6: pods fd00:10:244:7::/64, node fd00:99::11, masquerade on (masqueradeIPv6 is auto, and the pod CIDR is not public)\n"
		"underlay: IPv4\ndrops: 7 packets",
		"status");
	check_output(1, "IPv4    pods                2        256\n", "status");
	check_output(1, "IPv6    pods                1        1024\n", "status");
	check_output(1, "\"addresses\":[\n        \"192.168.99.11\",\n        \"fd00:99::11\"\n",
		     "status", "-o", "json");
	check_output(1, "nodes         IPv4: the one with pods 10.244.2.0/24: no route", "check");
	check_output(1, "nodes         IPv6: the one with pods fd00:10:244:9::/64: no route",
		     "check");
	check_output(1, "routing       IPv6: pods leave by up0\n", "check");
	check_output(1, "networks      ", "check");
	check_output_lacks(1, "which this node does not run", "check");
	check_output(1, "map other_family has only 0 of 10 programs of IPv6", "check");
}
END_TEST

/* Pods of IPv6 leave masqueraded, and no uplink has an address for that. */
START_TEST(test_without_address)
{
	struct mk_datapath_links none = fx.links;

	none.set.node_addr = none.set.first.addr = none.uplinks[0].addr = addr_of("::");
	fx_ok(mk_datapath_change_links(halves[1], &none, &fx.err));
	check_output(1, "IPv6: pods fd00:10:244:7::/64, node without address, masquerade",
		     "status");
	check_output(1,
		     "routing       IPv6: none of the uplinks (up0) has an address: pods do not "
		     "leave the cluster",
		     "check");
	fx_ok(mk_datapath_change_links(halves[1], &fx.links, &fx.err));
	check_output(1, "routing       IPv6: pods leave by up0\n", "check");
}
END_TEST

/* ---- cleanup --------------------------------------------------------------------------------- */

static unsigned int seen;

static int see_route(void *ctx, const struct mk_nl_route *route)
{
	(void)ctx;
	seen += route->protocol == MK_RTPROT;
	return 0;
}

static int see_addr(void *ctx, const struct mk_nl_addr *addr)
{
	(void)ctx;
	seen += addr->ifindex == (int)fx.links.set.overlay_ifindex;
	return 0;
}

static unsigned int count_of(sa_family_t family)
{
	seen = 0;
	fx_ok(mk_nl_each_route(fx.nl, family, see_route, NULL, &fx.err));
	fx_ok(mk_nl_each_addr(fx.nl, family, see_addr, NULL, &fx.err));
	return seen;
}

static void put_address(const char *address, const char *route_to)
{
	const struct mk_nl_addr addr = { .ifindex = (int)fx.links.set.overlay_ifindex,
					 .cidr = cidr_of(address) };
	const struct mk_nl_route route = { .dst = cidr_of(route_to),
					   .ifindex = addr.ifindex,
					   .protocol = MK_RTPROT };

	fx_ok(mk_nl_addr_add(fx.nl, &addr, &fx.err));
	fx_ok(mk_nl_route_put(fx.nl, &route, &fx.err));
}

/* A Node that was made again may have another pod CIDR: pods there keep their addresses. */
START_TEST(test_check_outside)
{
	check_output_lacks(1, "outside the node's pod CIDR", "check");
	write_file("ipam/10.244.9.2", "old-container\neth0\n/proc/self\n\nuid\nshop\nold\n");
	write_file("ipam/10.244.9.3", "gone-container\neth0\n/run/netns/gone\n");
	check_output(
		1,
		"shop/old has the address 10.244.9.2 outside the node's pod CIDR 10.244.1.0/24: it has no IPv4 network\n",
		"check");
	check_output_lacks(1, "10.244.9.3", "check");
	remove_file("ipam/10.244.9.2");
	remove_file("ipam/10.244.9.3");
}
END_TEST

/* The last test: it takes IPv6 away. */
START_TEST(test_cleanup_ipv6)
{
	ck_assert_int_eq(system("ip link set vx0 up; ip link set vx1 up"), 0);
	put_address("10.18.0.1/32", "10.244.2.0/24");
	put_address("fd4d:4b00:12::7/128", "fd00:10:244:9::/64");
	ck_assert_uint_ge(count_of(AF_INET6), 2);
	check_output(0, "of IPv6", "cleanup", "--ipv6");
	ck_assert_uint_eq(count_of(AF_INET6), 0);
	ck_assert_uint_eq(count_of(AF_INET), 2);
	ck_assert(mk_pin_has(fx.bpf_dir, AF_INET) && !mk_pin_has(fx.bpf_dir, AF_INET6));
	check_output(1, "", "pods", "-6");
	check_output(0, "ADDRESSES", "pods");
	check_output(1, "a range of IPv6, which this node does not run", "check");
	check_output(1, "IPv6: configured, but this node does not run it", "status");
	check_output_lacks(1, "nothing reaches it there", "check");
	write_record("10.244.0.0/16");
	check_output(
		1,
		"mkpod has the address fd00:10:244:7::2, but clusterCidr has no IPv6 range any more: nothing reaches it there\n",
		"check");
	check_output_lacks(1, "up0 has the address", "check");
}
END_TEST

static const struct {
	const char *word;
	uint32_t id;
} words[] = {
	{ "shop/web", 1 },
	{ "shop/web.clusterset", 2 },
	{ "web.shop.svc", 1 },
	{ "web.shop.svc.cluster.local", 1 },
	{ "web.shop.svc.clusterset.local", 2 },
	{ "web.shop.svc.clusterset", 1 }, /* a domain of that name */
	{ "web.shop", 0 },
	{ "web.shop.svcs", 0 },
	{ "web.other.svc.cluster.local", 0 },
	{ "db.shop.svc.clusterset.local", 0 },
	{ "a/web.shop.svc", 0 },
};

START_TEST(test_service_words)
{
	struct mk_service_name names[] = { { 1, "shop/web" },
					   { 2, "shop/web.clusterset" },
					   { 3, "shop/db" } };
	const struct mk_view view = { .names = { .list = names, .count = MK_ARRAY_SIZE(names) } };
	struct mk_error err;
	uint32_t id;

	ck_ok(mk_view_service_named(&view, words[_i].word, &id, &err));
	ck_assert_msg(id == words[_i].id, "%s: %u", words[_i].word, id);
}
END_TEST

UNIT_SUITE("commands of two families")
{
	TCase *tcase = unit_case(suite, "both", NULL, NULL);

	tcase_add_unchecked_fixture(tcase, setup,
				    teardown); /* once: programs take seconds to load */
	tcase_add_test(tcase, test_pods);
	tcase_add_test(tcase, test_order);
	tcase_add_loop_test(tcase, test_service_words, 0, (int)MK_ARRAY_SIZE(words));
	tcase_add_test(tcase, test_nodes);
	tcase_add_test(tcase, test_services);
	tcase_add_test(tcase, test_sessions);
	tcase_add_test(tcase, test_drops);
	tcase_add_test(tcase, test_monitor);
	tcase_add_test(tcase, test_trace);
	tcase_add_loop_test(tcase, test_trace_headers, 0, MK_ARRAY_SIZE(walks));
	tcase_add_loop_test(tcase, test_trace_neighbours, 0, MK_ARRAY_SIZE(messages));
	tcase_add_test(tcase, test_status);
	tcase_add_test(tcase, test_without_address);
	tcase_add_test(tcase, test_check_outside);
	tcase_add_test(tcase, test_cleanup_ipv6);
}

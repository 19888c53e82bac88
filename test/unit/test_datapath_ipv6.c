// SPDX-License-Identifier: Apache-2.0
/* The datapath of an IPv6 node: its own object, and pins in folders of its own. On a node of both
 * families it is behind IPv4's. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "datapath/maps/constants.h"
#include "datapath/maps/maps_internal.h"
#include "datapath/maps/object.h"
#include "datapath/pods/pod_table.h"
#include "datapath/pods/pods.h"
#include "unit/datapath_fixture.h"

static void setup(void)
{
	fx_setup();
	fx.constants.vtep_addr = addr_of("fd4d:4b00:12::1");
	fx.constants.gateway_addr = addr_of("fd00:10:244:1::3fe");
	fx.constants.vpod_addr = addr_of("fd00:10:244:1::1");
	fx.constants.pod_net = addr_of("fd00:10:244:1::");
	fx.constants.pod_mask = addr_of("ffff:ffff:ffff:ffff::");
	fx.constants.cluster_net = addr_of("fd00:10:244::");
	fx.constants.cluster_mask = addr_of("ffff:ffff:ffff::");
	fx.constants.vtep_net = addr_of("fd4d:4b00:12::");
	fx.constants.vtep_mask = addr_of("ffff:ffff:ffff:ffff::");
}

static struct mk_route_entry route(const char *cidr)
{
	struct mk_route_entry entry = { .route = { .type = MK_ROUTE_OVERLAY,
						   .vtep_mac = { 2, 1 } } };

	ck_assert_int_eq(mk_cidr_parse(cidr, &entry.dst), 0);
	return entry;
}

static void check_pins(void)
{
	const struct mk_pod pod = { .addr = addr_of("fd00:10:244:1::5"), .ifindex = 7 };
	struct mk_table pods;
	struct mk_node node;
	struct mk_pod found;

	ck_assert_uint_eq(fx_pins("progs", ""), mk_program_count + 1);
	ck_assert_uint_eq(fx_pins("maps", ""), fx_object_maps());
	ck_assert_uint_eq(fx_pins("maps", "_new_") + fx_pins("progs", "_new_"), 0);
	fx_ok(mk_constants_read(fx.bpf_dir, &node, &fx.err));
	ck_assert_mem_eq(&node.gateway_addr, &fx.constants.gateway_addr, sizeof(node.gateway_addr));
	ck_assert_uint_eq(node.pod_host_bits, 64);
	ck_assert_uint_eq(node.pod_slots, 1024);
	ck_assert_uint_eq(node.has_ipv6_csum, object_has_ipv6_csum());
	fx_ok(mk_pod_table_open(&pods, fx.bpf_dir, &fx.err));
	ck_assert_uint_eq(pods.max_entries, 1024);
	fx_ok(mk_pod_table_put(&pods, &pod, &fx.err));
	fx_ok(mk_pod_table_get(&pods, &pod.addr, &found, &fx.err));
	ck_assert_mem_eq(&found, &pod, sizeof(pod));
	mk_table_close(&pods);
}

static void check_routes(struct mk_datapath *datapath)
{
	struct mk_route_entry wanted[] = { route("::/0"), route("fd00:10:244:2::/64"),
					   route("fd4d:4b00:12::2/128") };
	struct mk_table node_routes;
	unsigned int changes = 0;
	struct mk_route found;
	const __u32 node = 2;

	fx_ok(mk_datapath_sync_routes(datapath, wanted, MK_ARRAY_SIZE(wanted), true, &changes,
				      &fx.err));
	ck_assert_uint_eq(changes, MK_ARRAY_SIZE(wanted) + 1); /* and its entry by node number */
	changes = 0;
	fx_ok(mk_datapath_sync_routes(datapath, wanted, MK_ARRAY_SIZE(wanted), true, &changes,
				      &fx.err));
	ck_assert_uint_eq(changes, 0);
	fx_ok(mk_table_open(&node_routes, fx.bpf_dir, "node_routes", sizeof(node), sizeof(found),
			    &fx.err));
	fx_ok(mk_table_get(&node_routes, &node, &found, &fx.err));
	ck_assert_int_eq(found.type, MK_ROUTE_OVERLAY);
	mk_table_close(&node_routes);
}

/* Everything is pinned, the next agent uses it, and cleanup removes it. */
START_TEST(test_pins)
{
	struct mk_datapath *datapath = fx_attached();
	struct mk_removed removed = { 0 };
	unsigned int maps;
	uint32_t router;

	check_pins();
	check_routes(datapath);
	mk_datapath_free(datapath);
	ck_assert_uint_ne(fx_program_at(fx.uplink_ifindex, MK_INGRESS), 0);
	router = fx_pinned_id("progs", "router");
	maps = fx_object_maps();
	datapath = fx_loaded_again();
	fx_ok(mk_datapath_attach(datapath, &fx.links, &fx.err));
	ck_assert_uint_eq(fx_pinned_id("progs", "router"), router);
	mk_datapath_free(datapath);
	fx_ok(mk_datapath_remove(fx.nl, fx.bpf_dir, &removed, &fx.err));
	ck_assert_uint_eq(removed.pins, maps + mk_program_count + 1);
}
END_TEST

/* ---- both families --------------------------------------------------------------------------- */

static struct mk_node nodes[2]; /* IPv4, IPv6 */
static char dirs[2][PATH_MAX];
static struct datapath_fixture both; /* the other family's pod */

static int index_of(sa_family_t family)
{
	return family == AF_INET6;
}

/* Packets that a child sends from a pod without pause, and how many of each family. */
static struct {
	volatile uint64_t sent[2];
} * traffic;
static pid_t sender;

static void make_frame(sa_family_t family, uint8_t *frame, size_t bytes)
{
	memset(frame, 0, bytes);
	memset(frame, 0x02, 2 * ETH_ALEN);
	frame[12] = family == AF_INET6 ? 0x86 : 0x08;
	frame[13] = family == AF_INET6 ? 0xdd : 0x00;
	frame[14] = family == AF_INET6 ? 0x60 : 0x45;
	if (family == AF_INET6) {
		frame[ETH_HLEN + 5] = 8; /* UDP's header */
		frame[ETH_HLEN + 6] = IPPROTO_UDP;
		frame[ETH_HLEN + 8] = frame[ETH_HLEN + 24] = 0xfd; /* no pod's address */
		frame[ETH_HLEN + 40 + 5] = 8;
		return;
	}
	frame[ETH_HLEN + 3] = 28;
	frame[ETH_HLEN + 9] = IPPROTO_UDP;
	frame[ETH_HLEN + 12] = frame[ETH_HLEN + 16] = 192;
	frame[ETH_HLEN + 20 + 5] = 8;
}

static void send_frames(void)
{
	const struct sockaddr_ll to = { .sll_family = AF_PACKET,
					.sll_ifindex = (int)if_nametoindex("eth0") };
	int fd = socket(AF_PACKET, SOCK_RAW, 0);
	uint8_t frame[64];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0;; i = !i) {
		make_frame(i ? AF_INET6 : AF_INET, frame, sizeof(frame));
		if (sendto(fd, frame, sizeof(frame), 0, (const struct sockaddr *)&to, sizeof(to)) ==
		    sizeof(frame))
			traffic->sent[i]++;
	}
}

static void start_traffic(void)
{
	ck_assert_int_eq(system("PATH=$PATH:/usr/sbin:/sbin; sysctl -qw "
				"net.ipv6.conf.all.disable_ipv6=1; ip link set mkpod up; "
				"ip link set eth0 up"),
			 0);
	traffic = mmap(NULL, sizeof(*traffic), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	ck_assert_ptr_ne(traffic, MAP_FAILED);
	sender = fork();
	if (sender == 0)
		send_frames();
	while (traffic->sent[1] < 100)
		;
}

static void stop_traffic(void)
{
	ck_assert_int_eq(kill(sender, SIGKILL), 0);
	ck_assert_int_eq(waitpid(sender, NULL, 0), sender);
}

/* Return the number of drops for @reason, which the family has counted at the pods' hook. */
static uint64_t drops(sa_family_t family, enum mk_drop_reason reason)
{
	cleanup_close int fd = mk_pin_open(dirs[index_of(family)], MK_PIN_MAPS, "drops", &fx.err);
	struct mk_drop_counter counters[libbpf_num_possible_cpus()];
	__u32 index = reason * MK_HOOK_COUNT + MK_HOOK_POD;
	uint64_t packets = 0;

	fx_ok(fd);
	ck_assert_int_eq(bpf_map_lookup_elem(fd, &index, counters), 0);
	for (int i = 0; i < libbpf_num_possible_cpus(); i++)
		packets += counters[i].packets;
	return packets;
}

/* Every packet has met the sender check of its family. The child may have died after a packet that
 * it did not count. */
static void check_all_met(sa_family_t family)
{
	uint64_t sent = traffic->sent[index_of(family)];
	uint64_t met = drops(family, MK_DROP_SPOOFED_ADDRESS);

	ck_assert_msg(met == sent || met == sent + 1, "%lu packets, %lu met their program",
		      (unsigned long)sent, (unsigned long)met);
	ck_assert_uint_eq(drops(family, MK_DROP_CHAIN_BROKEN), 0);
}

static void setup_both(void)
{
	static const struct mk_mac gateway = { { 2, 0x4d, 10, 244, 1, 254 } };

	setup();
	nodes[1] = fx.constants;
	nodes[0] = (struct mk_node){ .nat_port_min = 49152, .nat_port_max = 65535 };
	memcpy(nodes[0].gateway_mac, fx.constants.gateway_mac, sizeof(nodes[0].gateway_mac));
	fx_ok(mk_pin_dir(dirs[0], fx.bpf_dir, AF_INET, &fx.err));
	fx_ok(mk_pin_dir(dirs[1], fx.bpf_dir, AF_INET6, &fx.err));
	both.pod_ifindex = fx_veth("mkpod6", "eth6", &gateway);
}

/* Load the family's programs if @again is set, otherwise use the pinned ones. */
static struct mk_datapath *load(sa_family_t family, bool has_both, bool again)
{
	struct mk_node *node = &nodes[index_of(family)];
	struct mk_datapath *datapath;

	node->vtep_addr.word[MK_ADDR_WORDS - 1] += again;
	node->has_other_family = has_both;
	datapath = mk_datapath_open(dirs[index_of(family)], fx.state_dir, node, &fx.err);
	ck_assert_msg(datapath != NULL, "%s", mk_error_text(&fx.err));
	fx_ok(mk_datapath_size_sessions(datapath, 1024, 1024, &fx.err));
	fx_ok(mk_datapath_load(datapath, &fx.err));
	return datapath;
}

static void attach(struct mk_datapath *datapath)
{
	fx_ok(mk_datapath_attach(datapath, &fx.links, &fx.err));
	mk_datapath_free(datapath);
}

static void put_pod(sa_family_t family, const char *address, int ifindex)
{
	struct mk_pod pod = { .ifindex = (__u32)ifindex, .addr = addr_of(address) };
	struct mk_table table;

	fx_ok(mk_pod_table_open(&table, dirs[index_of(family)], &fx.err));
	fx_ok(mk_pod_table_put(&table, &pod, &fx.err));
	mk_table_close(&table);
}

static uint32_t program_of(sa_family_t family, const char *name)
{
	cleanup_close int fd = mk_pin_open(dirs[index_of(family)], MK_PIN_PROGS, name, &fx.err);
	struct mk_program_identity identity = { 0 };

	if (fd >= 0)
		fx_ok(mk_program_identify(fd, &identity, &fx.err));
	return identity.id;
}

/* @family has the filters, of pods of either family, too. */
static void check_filters(sa_family_t family)
{
	uint32_t pod = program_of(family, "ilb_pod");

	ck_assert_uint_ne(pod, 0);
	ck_assert_uint_eq(fx_program_at(fx.pod_ifindex, MK_INGRESS), pod);
	ck_assert_uint_eq(fx_program_at(both.pod_ifindex, MK_INGRESS), pod);
	ck_assert_uint_eq(fx_program_at(fx.uplink_ifindex, MK_INGRESS),
			  program_of(family, "nat_uplink"));
	ck_assert_uint_eq(fx_program_at(fx.uplink_ifindex, MK_EGRESS),
			  program_of(family, "elb_uplink_egress"));
}

static int other_family(void)
{
	int fd = mk_pin_open(dirs[0], MK_PIN_MAPS, "other_family", &fx.err);

	fx_ok(fd);
	return fd;
}

/* IPv6's programs are behind IPv4's; @filled: or none is. */
static void check_entries(bool filled)
{
	cleanup_close int fd = other_family();

	for (__u32 slot = 0; slot < MK_ENTRY_COUNT; slot++) {
		__u32 id = 0;

		(void)!bpf_map_lookup_elem(fd, &slot, &id);
		ck_assert_uint_eq(id, filled ? program_of(AF_INET6, mk_entry_programs[slot]) : 0);
	}
}

/* From IPv4 to both families. */
static void make_both(void)
{
	attach(load(AF_INET, false, true));
	put_pod(AF_INET, "10.244.1.2", fx.pod_ifindex);
	attach(load(AF_INET, true, true));
	check_entries(false);
	attach(load(AF_INET6, true, true));
	put_pod(AF_INET6, "fd00:10:244:1::3", both.pod_ifindex);
	attach(load(AF_INET6, true, false)); /* for the pod */
	check_entries(true);
	check_filters(AF_INET);
}

/* A call of the plugin holds the lock while IPv4 tries to attach. Then IPv6 is the first to try. */
START_TEST(test_one_gate)
{
	struct mk_datapath *families[2] = { load(AF_INET, true, true), load(AF_INET6, true, true) };
	int call = mk_state_lock(fx.state_dir, MK_LOCK_DATAPATH, LOCK_SH, &fx.err);

	fx_ok(call);
	mk_locks_never_wait();
	ck_assert_int_eq(mk_datapath_attach(families[0], &fx.links, &fx.err), -EWOULDBLOCK);
	ck_assert_int_eq(mk_datapath_attach(families[1], &fx.links, &fx.err), -EWOULDBLOCK);
	close(call);
	attach(families[1]);
	attach(families[0]);
	call = mk_state_lock(fx.state_dir, MK_LOCK_GATE, LOCK_EX, &fx.err);
	fx_ok(call);
	close(call);
}
END_TEST

/* Each family is loaded without the other, and no packet of either misses its program. */
START_TEST(test_reload)
{
	uint32_t before[2];

	make_both();
	start_traffic();
	for (int i = 0; i < 2; i++)
		before[i] = program_of(i ? AF_INET6 : AF_INET, "router");
	attach(load(AF_INET6, true, true));
	check_entries(true);
	check_filters(AF_INET);
	ck_assert_uint_eq(program_of(AF_INET, "router"), before[0]);
	ck_assert_uint_ne(program_of(AF_INET6, "router"), before[1]);
	before[1] = program_of(AF_INET6, "router");
	attach(load(AF_INET, true, true));
	check_entries(true);
	check_filters(AF_INET);
	ck_assert_uint_ne(program_of(AF_INET, "router"), before[0]);
	ck_assert_uint_eq(program_of(AF_INET6, "router"), before[1]);
	stop_traffic();
	check_all_met(AF_INET);
	check_all_met(AF_INET6);
}
END_TEST

/* The CNI plugin finds the program that pods have now. */
static void check_plugin_attaches(void)
{
	struct mk_pods *pods = mk_pods_open(fx.bpf_dir, fx.state_dir, &fx.err);

	ck_assert_msg(pods != NULL, "%s", mk_error_text(&fx.err));
	ck_assert_int_eq(mk_pods_attached(pods, fx.nl, fx.pod_ifindex, &fx.err), 1);
	mk_pods_free(pods);
}

/* IPv6 comes before the node has IPv4, and stays when it goes. */
START_TEST(test_ipv6_stays)
{
	struct mk_removed removed = { 0 };
	struct mk_datapath *ipv4;
	uint32_t router;

	attach(load(AF_INET6, false, true));
	put_pod(AF_INET6, "fd00:10:244:1::2", fx.pod_ifindex);
	put_pod(AF_INET6, "fd00:10:244:1::3", both.pod_ifindex);
	attach(load(AF_INET6, false, false)); /* for the pods */
	check_filters(AF_INET6);
	router = program_of(AF_INET6, "router");
	start_traffic();
	ipv4 = load(AF_INET, true, true);
	check_plugin_attaches();
	attach(load(AF_INET6, true, false));
	check_entries(true);
	check_filters(AF_INET6);
	attach(ipv4);
	check_filters(AF_INET);
	check_plugin_attaches();
	attach(load(AF_INET6, false, false));
	check_filters(AF_INET6);
	fx_ok(mk_datapath_remove_family(fx.nl, fx.bpf_dir, AF_INET, &removed, &fx.err));
	ck_assert_uint_gt(removed.pins, mk_program_count);
	ck_assert_uint_eq(removed.filters, 0);
	ck_assert(!mk_pin_has(fx.bpf_dir, AF_INET));
	check_filters(AF_INET6);
	ck_assert_uint_eq(program_of(AF_INET6, "router"), router);
	stop_traffic();
	check_all_met(AF_INET6);
}
END_TEST

START_TEST(test_ipv6_goes)
{
	struct mk_removed removed = { 0 };

	make_both();
	start_traffic();
	attach(load(AF_INET, false, true));
	fx_ok(mk_datapath_remove_family(fx.nl, fx.bpf_dir, AF_INET6, &removed, &fx.err));
	ck_assert_uint_eq(removed.filters, 0);
	ck_assert(!mk_pin_has(fx.bpf_dir, AF_INET6));
	check_entries(false);
	stop_traffic();
	check_all_met(AF_INET);
	fx_ok(mk_datapath_remove(fx.nl, fx.bpf_dir, &removed, &fx.err));
	ck_assert_int_eq(access(fx.bpf_dir, F_OK), -1);
}
END_TEST

START_TEST(test_entries_are_repaired)
{
	struct mk_datapath *datapath;
	cleanup_close int fd = -1;
	__u32 slot = MK_ENTRY_OVERLAY;

	make_both();
	datapath = load(AF_INET6, true, false);
	fx_ok(mk_datapath_attach(datapath, &fx.links, &fx.err));
	fd = other_family();
	ck_assert_int_eq(bpf_map_delete_elem(fd, &slot), 0);
	ck_assert_int_eq(mk_datapath_repair_hooks(datapath, 16, &fx.err), 1);
	ck_assert_int_eq(mk_datapath_repair_hooks(datapath, 16, &fx.err), 0);
	check_entries(true);
	ck_assert_int_eq(mk_hook_detach(fx.nl, fx.uplink_ifindex, MK_EGRESS, &fx.err), 1);
	ck_assert_int_eq(mk_datapath_repair_hooks(datapath, 16, &fx.err), 1);
	check_filters(AF_INET);
	mk_datapath_free(datapath);
}
END_TEST

/* An uplink of both families is gone. Each family learns of that while the other still has it. */
START_TEST(test_uplink_is_gone)
{
	static const struct mk_mac other = { { 2, 0, 0, 0, 0, 7 } };
	struct mk_datapath_links after = fx.links;
	struct mk_datapath *families[2];

	make_both();
	fx.links.uplinks[fx.links.uplink_count++].ifindex = (__u32)fx_veth("up1", "far1", &other);
	for (int i = 0; i < 2; i++) {
		families[i] = load(i ? AF_INET6 : AF_INET, true, false);
		fx_ok(mk_datapath_attach(families[i], &fx.links, &fx.err));
	}
	fx_ok(mk_nl_link_delete(fx.nl, "up1", &fx.err));
	for (int i = 0; i < 2; i++) {
		fx_ok(mk_datapath_change_links(families[i], &after, &fx.err));
		mk_datapath_free(families[i]);
	}
	check_filters(AF_INET);
}
END_TEST

/* A device with IPv6 addresses only: IPv4's programs are there as well. */
START_TEST(test_uplink_of_ipv6)
{
	static const struct mk_mac other = { { 2, 0, 0, 0, 0, 7 } };
	struct mk_datapath_links ipv4 = fx.links;
	int up1 = fx_veth("up1", "far1", &other);

	make_both();
	fx.links.uplinks[fx.links.uplink_count++].ifindex = (__u32)up1;
	attach(load(AF_INET6, true, false));
	ck_assert_uint_eq(fx_program_at(up1, MK_INGRESS), program_of(AF_INET, "nat_uplink"));
	fx.links = ipv4;
	attach(load(AF_INET, true, true));
	ck_assert_uint_eq(fx_program_at(up1, MK_INGRESS), program_of(AF_INET, "nat_uplink"));
	attach(load(AF_INET6, true, false));
	ck_assert_uint_eq(fx_program_at(up1, MK_INGRESS), 0);
}
END_TEST

UNIT_SUITE("datapath_ipv6")
{
	TCase *tcase = unit_case(suite, "IPv6", setup, fx_teardown);

	tcase_add_test(tcase, test_pins);
	tcase = unit_case(suite, "both families", setup_both, fx_teardown);
	tcase_set_timeout(tcase, 300);
	tcase_add_test(tcase, test_one_gate);
	tcase_add_test(tcase, test_reload);
	tcase_add_test(tcase, test_ipv6_stays);
	tcase_add_test(tcase, test_ipv6_goes);
	tcase_add_test(tcase, test_entries_are_repaired);
	tcase_add_test(tcase, test_uplink_is_gone);
	tcase_add_test(tcase, test_uplink_of_ipv6);
}

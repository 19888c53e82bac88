// SPDX-License-Identifier: Apache-2.0
/* The CNI verbs for pods of IPv6, and of two families: what ADD makes in the kernel, the first
 * packet, faults. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/icmp6.h>
#include <netinet/ip6.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "datapath/maps/hook.h"
#include "datapath/pods/host_ports.h"
#include "datapath/pods/pods.h"
#include "pod/endpoint/restore.h"
#include "unit/cni_node.h"

static struct mk_error err;

#define V6                                                                          \
	",\"podCIDR\":\"fd00:10:244:1::/64\",\"clusterCIDR\":\"fd00:10:244::/48\"," \
	"\"vtepCIDR\":\"fd4d:4b00:12::/64\""
#define GATEWAY "fd00:10:244:1::3fe"

static void add_v6(const char *name)
{
	ck_assert_msg(call("ADD", name, netns_path(name), "1.0.0", V6) == 0, "%s", answer);
}

static const char *const versions[] = { "0.3.1", "0.4.0", "1.0.0", "1.1.0" };

START_TEST(test_add_del)
{
	const char *version = versions[_i];
	char prev[4300];

	new_netns("a");
	ck_assert_msg(call("ADD", "a", netns_path("a"), version, V6) == 0, "%s", answer);
	ck_assert_msg(strstr(answer, "\"fd00:10:244:1::2/128\"") && strstr(answer, "\"::/0\""),
		      "%s", answer);
	ck_assert_msg(strstr(answer, "\"gateway\":\"" GATEWAY "\""), "%s", answer);
	ck_assert_msg((strstr(answer, "\"version\":\"6\"") != NULL) == (_i < 2), "%s", answer);
	ck_exist(1);
	inside("a",
	       "sh -c 'ip -o -6 addr show dev eth0 | grep -q \"fd00:10:244:1::2/128.*nodad\"'");
	inside("a", "sh -c 'test $(ip -o addr show dev eth0 | wc -l) = 1'");
	inside("a", "sh -c 'ip -o -d link show dev eth0 | grep -q \"addrgenmode none\"'");
	inside("a", "sh -c 'ip -o link show dev eth0 | grep -q 02:4d:00:00:00:02'");
	inside("a", "sh -c 'ip -6 neigh show dev eth0 | grep -q \"" GATEWAY
		    " lladdr 02:4d:00:00:03:fe.*PERM\"'");
	inside("a",
	       "sh -c 'ip -6 route show default | grep -q \"via " GATEWAY " dev eth0\"'");
	inside("a", "sh -c 'ip -6 route show default | grep -q \"mtu 1500\"'");
	inside("a", "sh -c 'ip -6 route show fd00:10:244::/48 | grep -q \"mtu 1450\"'");
	inside("a", "sh -c 'ip -6 route show fd00:10:244:1::/64 | grep -qv mtu'");
	inside("a", "sh -c 'ip -6 route get fd00:10:244:1::1 | grep -q \"mtu 1500\"'");
	inside("a", "sh -c 'ip -6 route get fd00:10:244:1::7 | grep -q \"via " GATEWAY "\"'");
	snprintf(prev, sizeof(prev), V6 ",\"prevResult\":%s", answer);
	if (_i > 0)
		ck_assert_msg(call("CHECK", "a", netns_path("a"), version, prev) == 0, "%s",
			      answer);
	ck_assert_msg(call("DEL", "a", netns_path("a"), version, prev) == 0, "%s", answer);
	ck_exist(0);
}
END_TEST

/* A namespace whose runtime switched IPv6 off. */
START_TEST(test_disabled)
{
	new_netns("a");
	inside("a", "sysctl -qw net.ipv6.conf.default.disable_ipv6=1");
	add_v6("a");
	inside("a", "sh -c 'test $(cat /proc/sys/net/ipv6/conf/eth0/disable_ipv6) = 0'");
	inside("a", "sh -c 'ip -6 addr show dev eth0 | grep -q fd00:10:244:1::2/128'");
	inside("a", "sh -c 'ip -6 route show default | grep -q " GATEWAY "'");
}
END_TEST

START_TEST(test_underlay)
{
	new_netns("a");
	ck_fails(call("ADD", "a", netns_path("a"), "1.0.0", V6 ",\"mtu\":1279"),
		 MK_CNI_INVALID_CONFIG, "1280");
	ck_exist(0);
	ck_assert_msg(call("ADD", "a", netns_path("a"), "1.0.0",
			   V6 ",\"mtu\":1430,\"underlayFamily\":\"IPv6\"") == 0,
		      "%s", answer);
	inside("a", "sh -c 'ip -6 route show default | grep -q \"mtu 1500\"'");
	inside("a", "sh -c 'ip -6 route show fd00:10:244::/48 | grep -q \"mtu 1430\"'");
}
END_TEST

/* ---- the first packet ------------------------------------------------------------------------ */

/* Send a datagram from the namespace @name at once. */
static void send_from(const char *name)
{
	const struct sockaddr_in6 to = { .sin6_family = AF_INET6,
					 .sin6_port = htons(9),
					 .sin6_addr = ip_of("2001:db8::9").v6 };
	cleanup_close int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	cleanup_close int netns = open(netns_path(name), O_RDONLY | O_CLOEXEC);
	cleanup_close int fd = -1;
	ssize_t sent;

	ck_assert_int_eq(setns(netns, CLONE_NEWNET), 0);
	fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	sent = sendto(fd, "first", 5, 0, (const struct sockaddr *)&to, sizeof(to));
	ck_assert_int_eq(setns(home, CLONE_NEWNET), 0);
	ck_assert_msg(sent == 5, "%s", strerror(errno));
}

struct frame {
	struct ethhdr eth;
	struct ip6_hdr ip;
	struct icmp6_hdr icmp;
	char rest[2000];
} __attribute__((packed));

/* Is it a solicitation of a router, or of a neighbour? */
static bool is_solicitation(const struct frame *frame)
{
	return frame->ip.ip6_nxt == IPPROTO_ICMPV6 &&
	       (frame->icmp.icmp6_type == 133 || frame->icmp.icmp6_type == 135);
}

/* The pod sends as soon as ADD has returned: its packet leaves for the gateway's MAC address, from
 * the pod's address, and nothing asks or probes before it. */
START_TEST(test_first_packet)
{
	const struct mk_mac gateway = mac_of("02:4d:00:00:03:fe");
	const struct mk_ip own = ip_of("fd00:10:244:1::2");
	cleanup_close int tap = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_IPV6));
	struct frame frame = { 0 };
	struct pollfd ready = { .fd = tap, .events = POLLIN };

	new_netns("a");
	add_v6("a");
	send_from("a");
	do {
		ck_assert_msg(poll(&ready, 1, 5000) == 1, "no packet");
		ck_assert_int_gt(recv(tap, &frame, sizeof(frame), 0), 0);
		ck_assert(!is_solicitation(&frame));
	} while (frame.ip.ip6_nxt != IPPROTO_UDP);
	ck_assert_mem_eq(frame.eth.h_dest, &gateway, sizeof(gateway));
	ck_assert_mem_eq(&frame.ip.ip6_src, &own.v6, sizeof(own.v6));
}
END_TEST

/* ---- faults ---------------------------------------------------------------------------------- */

/* A command inside the pod, and what CHECK names. */
static const struct {
	const char *command, *finding;
} faults[] = {
	{ "ip link set eth0 down; ip link set eth0 up",
	  "address fd00:10:244:1::2 is missing on interface 'eth0'" },
	{ "ip link set eth0 down; ip link set eth0 up", "permanent neighbour " GATEWAY },
	{ "ip link set eth0 down; ip link set eth0 up", "route to ::/0 via " GATEWAY },
	{ "ip -6 addr flush dev eth0", "address fd00:10:244:1::2 is missing" },
	{ "ip -6 neigh del " GATEWAY " dev eth0", "permanent neighbour " GATEWAY },
	{ "ip -6 route del fd00:10:244::/48", "route to fd00:10:244::/48 via " GATEWAY },
	{ "ip -6 route del fd00:10:244:1::1", "route to fd00:10:244:1::1/128 via " GATEWAY },
	{ "sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1", "interface 'eth0' has no IPv6" },
};

START_TEST(test_check)
{
	char prev[4300], command[256];

	new_netns("a");
	add_v6("a");
	snprintf(prev, sizeof(prev), V6 ",\"prevResult\":%s", answer);
	snprintf(command, sizeof(command), "sh -c '%s'", faults[_i].command);
	inside("a", command);
	ck_fails(call("CHECK", "a", netns_path("a"), "1.0.0", prev), MK_CNI_CHECK_FAILED,
		 faults[_i].finding);
}
END_TEST

/* ADD was killed before the default route: the next one begins again. */
START_TEST(test_add_again)
{
	new_netns("a");
	add_v6("a");
	ck_fails(call("ADD", "a", netns_path("a"), "1.0.0", V6), MK_CNI_INTERFACE_EXISTS, "'eth0'");
	ck_exist(1);
	inside("a", "ip -6 route del default");
	add_v6("a");
	ck_exist(1);
}
END_TEST

/* Each pod has its own slot in map pods. */
START_TEST(test_two_pods)
{
	new_netns("a");
	new_netns("b");
	add_v6("a");
	add_v6("b");
	ck_assert_msg(strstr(answer, "fd00:10:244:1::3/128") != NULL, "%s", answer);
	ck_exist(2);
	ck_assert_int_eq(call("DEL", "a", netns_path("a"), "1.0.0", V6), 0);
	ck_exist(1);
}
END_TEST

/* The routes of a further interface apply only to its own address. */
START_TEST(test_further)
{
	new_netns("a");
	inside("a", "sh -c 'ip link add first0 type veth peer first1;"
		    " ip link set first1 up; ip link set first0 up;"
		    " ip -6 addr add 2001:db8:5::5/64 dev first0 nodad;"
		    " ip -6 route add default via 2001:db8:5::1 dev first0'");
	add_v6("a");
	ck_assert_msg(strstr(answer, "\"routes\":[]"), "%s", answer);
	inside("a", "sh -c 'ip -6 route show default | grep -q first0'");
	inside("a", "sh -c '! ip -6 route show default | grep eth0'");
	inside("a", "sh -c 'ip -6 rule | grep -q \"from fd00:10:244:1::2 \"'");
	inside("a", "sh -c 'ip -6 route get 2001:db8:9::9 from fd00:10:244:1::2 | grep -q eth0'");
	ck_assert_int_eq(call("DEL", "a", netns_path("a"), "1.0.0", V6), 0);
	inside("a", "sh -c '! ip -6 rule | grep fd00'");
}
END_TEST

/* The agent restores a pod's entry from the name of its address file. */
START_TEST(test_restore)
{
	cleanup_pods struct mk_pods *pods = NULL;
	const struct mk_ip own = ip_of("fd00:10:244:1::2");
	bool in_vain;

	new_netns("a");
	add_v6("a");
	pods = mk_pods_open(BPF_DIR, STATE, &err);
	ck_ok(mk_pods_delete(pods, &own, &err));
	mk_pods_free(mk_steal_ptr(pods));
	ck_assert_int_eq(pod_entries(), 0);
	ck_assert_int_eq(mk_cni_restore(STATE, BPF_DIR, "mk", &in_vain, &err), 1);
	ck_assert_int_eq(mk_cni_restore(STATE, BPF_DIR, "mk", &in_vain, &err), 0);
	ck_exist(1);
}
END_TEST

/* ---- the tables of two families -------------------------------------------------------------- */

static uint32_t id_of(const char *path)
{
	cleanup_close int fd = bpf_obj_get(path);
	struct bpf_prog_info info = { 0 };
	__u32 size = sizeof(info);

	ck_assert_msg(bpf_obj_get_info_by_fd(fd, &info, &size) == 0, "%s", path);
	return info.id;
}

/* Each family's table has the entries of its addresses. A device has IPv4's program. */
START_TEST(test_pod_tables)
{
	const struct mk_ip ip4 = ip_of("10.244.1.2"), ip6 = ip_of("fd00:10:244:1::2");
	const struct mk_pod pod = { .ifindex = 7 };
	cleanup_pods struct mk_pods *pods = mk_pods_open(BPF_DIR, STATE, &err);
	cleanup_nl struct mk_nl *nl = mk_nl_open(&err);
	struct mk_pod found;
	uint32_t id;

	ck_assert(mk_pods_has(pods, AF_INET) && mk_pods_has(pods, AF_INET6));
	ck_ok(mk_pods_put(pods, &ip4, &pod, &err));
	ck_assert_int_eq(mk_pods_get(pods, &ip6, &found, &err), -ENOENT);
	ck_ok(mk_pods_put(pods, &ip6, &pod, &err));
	ck_ok(mk_pods_get(pods, &ip6, &found, &err));
	ck_ok(mk_pods_holder(pods, &ip6, &found, &err));
	ck_assert_uint_eq(found.ifindex, 7);
	ck_assert_int_eq(pod_entries(), 2);
	ck_ok(mk_pods_delete(pods, &ip6, &err));
	ck_ok(mk_pods_get(pods, &ip4, &found, &err));
	ck_assert_int_eq(pod_entries(), 1);
	ck_ok(mk_pods_attach(pods, nl, 1, &err));
	ck_assert_int_eq(mk_pods_attached(pods, nl, 1, &err), 1);
	ck_ok(mk_hook_query(nl, 1, MK_INGRESS, &id, &err));
	ck_assert_uint_eq(id, id_of(BPF_DIR "/progs/ilb_pod"));
}
END_TEST

/* A node that went back to IPv4: entries of IPv6 cannot be added, and none need be removed. */
START_TEST(test_pod_tables_of_one)
{
	const struct mk_ip ip6 = ip_of("fd00:10:244:1::2");
	const struct mk_pod pod = { .ifindex = 7 };
	cleanup_pods struct mk_pods *pods = mk_pods_open(BPF_DIR, STATE, &err);

	ck_assert(mk_pods_has(pods, AF_INET) && !mk_pods_has(pods, AF_INET6));
	ck_assert_int_eq(mk_pods_put(pods, &ip6, &pod, &err), -ENOENT);
	ck_assert_msg(strstr(err.text, "IPv6 is not loaded") != NULL, "%s", err.text);
	ck_ok(mk_pods_delete(pods, &ip6, &err));
}
END_TEST

static struct mk_host_port_entry any_8080(const char *pod, uint32_t ifindex)
{
	const struct mk_ip ip = ip_of(pod);

	return (struct mk_host_port_entry){
		.family = ip.family,
		.key = { .port = htons(8080), .proto = IPPROTO_TCP },
		.to = { .addr = mk_ip_to_addr(&ip), .port = htons(80), .ifindex = ifindex },
	};
}

static int always_alive(void *ctx, const struct mk_host_port *to, struct mk_error *error)
{
	(void)ctx;
	(void)to;
	(void)error;
	return 1;
}

static void ck_ports(struct mk_host_ports *ports, size_t count, unsigned int filled)
{
	struct mk_host_ports_state state;

	ck_ok(mk_host_ports_state(ports, &state, &err));
	ck_assert_uint_eq(state.count, count);
	ck_assert_uint_eq(state.filled, filled);
	ck_assert_uint_eq(state.told, filled);
}

/* A port of any address is one entry per family. A pod gets all its ports or none. */
START_TEST(test_host_port_tables)
{
	const struct mk_host_port_judge judge = { .is_alive = always_alive };
	struct mk_host_port_entry own[] = { any_8080("10.244.1.2", 7),
					    any_8080("fd00:10:244:1::2", 7) };
	struct mk_host_port_entry others[] = { any_8080("10.244.1.3", 8),
					       any_8080("fd00:10:244:1::3", 8) },
				  holder;
	cleanup_host_ports struct mk_host_ports *ports = mk_host_ports_open(BPF_DIR, STATE, &err);
	char text[MK_HOST_PORT_STRLEN];

	ck_ok(mk_host_ports_claim(ports, &own[1], 1, &judge, &holder, &err));
	ck_ports(ports, 1, 1 << 1);
	ck_assert_int_eq(mk_host_ports_claim(ports, others, 2, &judge, &holder, &err), -EEXIST);
	ck_assert_str_eq(mk_host_port_format(&holder, text), "[::]:8080/tcp");
	ck_ports(ports, 1, 1 << 1);
	ck_ok(mk_host_ports_claim(ports, own, 2, &judge, &holder, &err));
	ck_ports(ports, 2, 3);
	ck_ok(mk_host_ports_remove(ports, NULL, 8, &err));
	ck_ports(ports, 2, 3);
	ck_ok(mk_host_ports_remove(ports, NULL, 7, &err));
	ck_ports(ports, 0, 0);
}
END_TEST

UNIT_SUITE("cni_ipv6")
{
	TCase *tc = cni_case_of(suite, "IPv6", NODE_IPV6);

	tcase_add_loop_test(tc, test_add_del, 0, MK_ARRAY_SIZE(versions));
	tcase_add_test(tc, test_disabled);
	tcase_add_test(tc, test_underlay);
	tcase_add_test(tc, test_first_packet);
	tcase_add_loop_test(tc, test_check, 0, MK_ARRAY_SIZE(faults));
	tcase_add_test(tc, test_add_again);
	tcase_add_test(tc, test_two_pods);
	tcase_add_test(tc, test_further);
	tcase_add_test(tc, test_restore);

	tc = cni_case_of(suite, "two families", NODE_IPV4 | NODE_IPV6);
	tcase_add_test(tc, test_pod_tables);
	tcase_add_test(tc, test_host_port_tables);

	tc = cni_case(suite, "IPv4 again");
	tcase_add_test(tc, test_pod_tables_of_one);
}

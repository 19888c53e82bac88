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
#include <stdarg.h>
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
	inside("a", "sh -c 'ip -6 route show default | grep -q \"via " GATEWAY " dev eth0\"'");
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

/* ---- pods of two families -------------------------------------------------------------------- */

#define LISTS(pods, clusters, vteps) \
	",\"podCIDRs\":[" pods "],\"clusterCIDRs\":[" clusters "],\"vtepCIDRs\":[" vteps "]"
#define CLUSTER4 "\"10.244.0.0/16\""
#define CLUSTER6 "\"fd00:10:244::/48\""
#define SMALL6	 "\"fd00:10:244:1::/112\""
#define VTEP4	 "\"10.18.0.0/16\""
#define VTEP6	 "\"fd4d:4b00:12::/64\""
/* In this order; the old keys are those of the first family. */
#define FIELDS46(pods4, pods6, cluster6) \
	LISTS("\"" pods4 "\",\"" pods6 "\"", CLUSTER4 "," cluster6, VTEP4 "," VTEP6)
#define FIELDS64(pods4, pods6, cluster6) \
	V6 LISTS("\"" pods6 "\",\"" pods4 "\"", cluster6 "," CLUSTER4, VTEP6 "," VTEP4)

static const char *const orders[] = {
	FIELDS46("10.244.1.0/24", "fd00:10:244:1::/64", CLUSTER6),
	FIELDS64("10.244.1.0/24", "fd00:10:244:1::/64", CLUSTER6),
};
#define BOTH orders[0]

static void add_both(const char *name, const char *fields)
{
	ck_assert_msg(call("ADD", name, netns_path(name), "1.0.0", fields) == 0, "%s", answer);
}

/* Return @fields with the last answer as prevResult. */
static const char *with_prev(const char *fields)
{
	static char text[8000];

	snprintf(text, sizeof(text), "%s,\"prevResult\":%s", fields, answer);
	return text;
}

static void ck_both_exist(int count)
{
	ck_assert_int_eq(addresses(), count);
	ck_assert_int_eq(devices(), count);
	ck_assert_int_eq(pod_entries(), 2 * count);
}

static const char *const both_results[] = {
	"\"ips\":[{\"address\":\"10.244.1.2/32\",\"gateway\":\"10.244.1.254\",\"interface\":1},"
	"{\"address\":\"fd00:10:244:1::2/128\",\"gateway\":\"" GATEWAY "\",\"interface\":1}],"
	"\"routes\":[{\"dst\":\"0.0.0.0/0\",\"gw\":\"10.244.1.254\"},"
	"{\"dst\":\"::/0\",\"gw\":\"" GATEWAY "\"}]",
	"\"ips\":[{\"address\":\"fd00:10:244:1::2/128\",\"gateway\":\"" GATEWAY
	"\",\"interface\":1},"
	"{\"address\":\"10.244.1.2/32\",\"gateway\":\"10.244.1.254\",\"interface\":1}],"
	"\"routes\":[{\"dst\":\"::/0\",\"gw\":\"" GATEWAY "\"},"
	"{\"dst\":\"0.0.0.0/0\",\"gw\":\"10.244.1.254\"}]",
};

/* The primary family decides the MAC addresses. */
static const char *const both_macs[][2] = {
	{ "02:4d:0a:f4:01:02", "02:4d:0a:f4:01:fe" },
	{ "02:4d:00:00:00:02", "02:4d:00:00:03:fe" },
};

static void ck_inside(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Run a shell command in the namespace a. */
static void ck_inside(const char *fmt, ...)
{
	char command[400], quoted[420];
	va_list args;

	va_start(args, fmt);
	vsnprintf(command, sizeof(command), fmt, args);
	va_end(args);
	snprintf(quoted, sizeof(quoted), "sh -c '%s'", command);
	inside("a", quoted);
}

START_TEST(test_both)
{
	const char *fields = orders[_i], *mac = both_macs[_i][0], *gateway_mac = both_macs[_i][1];
	char check[8000];

	new_netns("a");
	add_both("a", fields);
	ck_assert_msg(strstr(answer, both_results[_i]) != NULL, "%s", answer);
	ck_both_exist(1);
	ck_inside("ip -o -4 addr show dev eth0 | grep -q %s", "10.244.1.2/32");
	ck_inside("ip -o -6 addr show dev eth0 | grep -q \"%s.*nodad\"", "fd00:10:244:1::2/128");
	ck_inside("ip -o -d link show dev eth0 | grep -q \"addrgenmode none\"");
	ck_inside("ip -o link show dev eth0 | grep -q %s", mac);
	ck_inside("ip -4 neigh show 10.244.1.254 dev eth0 | grep -q \"%s.*PERM\"", gateway_mac);
	ck_inside("ip -6 neigh show " GATEWAY " dev eth0 | grep -q \"%s.*PERM\"", gateway_mac);
	ck_inside("ip -4 route show default | grep -q \"via 10.244.1.254 .*%s\"", "mtu 1500");
	ck_inside("ip -6 route show default | grep -q \"via " GATEWAY " .*%s\"", "mtu 1500");
	ck_inside("ip -6 route show fd00:10:244::/48 | grep -q \"%s\"", "mtu 1450");
	snprintf(check, sizeof(check), "%s", with_prev(fields));
	ck_assert_msg(call("CHECK", "a", netns_path("a"), "1.0.0", check) == 0, "%s", answer);
	ck_fails(call("ADD", "a", netns_path("a"), "1.0.0", fields), MK_CNI_INTERFACE_EXISTS,
		 "'eth0'");
	ck_assert_int_eq(call("DEL", "a", netns_path("a"), "1.0.0", check), 0);
	ck_both_exist(0);
	ck_assert_int_eq(access(STATE "/ipam/.both/10.244.1.2", F_OK), -1);
}
END_TEST

/* A command inside the pod, and what CHECK names. */
static const struct {
	const char *command, *finding;
} both_faults[] = {
	{ "ip -4 addr flush dev eth0", "address 10.244.1.2 is missing" },
	{ "ip -6 addr flush dev eth0", "address fd00:10:244:1::2 is missing" },
	{ "ip neigh del 10.244.1.254 dev eth0", "permanent neighbour 10.244.1.254" },
	{ "ip -6 neigh del " GATEWAY " dev eth0", "permanent neighbour " GATEWAY },
	{ "ip route del default", "route to 0.0.0.0/0 via 10.244.1.254" },
	{ "ip -6 route del default", "route to ::/0 via " GATEWAY },
	{ "ip link set eth0 down; ip link set eth0 up", "address fd00:10:244:1::2 is missing" },
	{ "sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1", "interface 'eth0' has no IPv6" },
};

START_TEST(test_both_check)
{
	char prev[8000], command[256];

	new_netns("a");
	add_both("a", BOTH);
	snprintf(prev, sizeof(prev), "%s", with_prev(BOTH));
	snprintf(command, sizeof(command), "sh -c '%s'", both_faults[_i].command);
	inside("a", command);
	ck_fails(call("CHECK", "a", netns_path("a"), "1.0.0", prev), MK_CNI_CHECK_FAILED,
		 both_faults[_i].finding);
}
END_TEST

static void delete_entry(const char *ip)
{
	cleanup_pods struct mk_pods *pods = mk_pods_open(BPF_DIR, STATE, &err);
	const struct mk_ip own = ip_of(ip);

	ck_ok(mk_pods_delete(pods, &own, &err));
}

static const char *const both_ips[] = { "10.244.1.2", "fd00:10:244:1::2" };

START_TEST(test_both_check_entries)
{
	char prev[8000], text[100];

	new_netns("a");
	add_both("a", BOTH);
	snprintf(prev, sizeof(prev), "%s", with_prev(BOTH));
	delete_entry(both_ips[_i]);
	snprintf(text, sizeof(text), "map 'pods' has no entry for %s", both_ips[_i]);
	ck_fails(call("CHECK", "a", netns_path("a"), "1.0.0", prev), MK_CNI_CHECK_FAILED, text);
}
END_TEST

static int restored(bool *in_vain)
{
	return mk_cni_restore(STATE, BPF_DIR, "mk", in_vain, &err);
}

/* The agent restores each entry, with the MAC address of the pod's device. */
START_TEST(test_both_restore)
{
	cleanup_pods struct mk_pods *pods = NULL;
	const struct mk_ip ip4 = ip_of(both_ips[0]), ip6 = ip_of(both_ips[1]);
	struct mk_pod first, second;
	bool in_vain;

	new_netns("a");
	add_both("a", orders[_i]);
	delete_entry(both_ips[1]);
	ck_assert_int_eq(restored(&in_vain), 1);
	delete_entry(both_ips[0]);
	delete_entry(both_ips[1]);
	ck_assert_int_eq(restored(&in_vain), 2);
	ck_assert_int_eq(restored(&in_vain), 0);
	ck_assert(!in_vain);
	ck_both_exist(1);
	pods = mk_pods_open(BPF_DIR, STATE, &err);
	ck_ok(mk_pods_get(pods, &ip4, &first, &err));
	ck_ok(mk_pods_get(pods, &ip6, &second, &err));
	ck_assert_mem_eq(first.mac, second.mac, sizeof(first.mac));
}
END_TEST

/* A kill between the two families' routes: the next ADD begins again. */
START_TEST(test_both_add_again)
{
	static const char *const last[] = { "ip -6 route del default", "ip route del default" };

	new_netns("a");
	add_both("a", orders[_i]);
	inside("a", last[_i]);
	add_both("a", orders[_i]);
	ck_both_exist(1);
}
END_TEST

/* The tables of IPv6 are not loaded yet: nothing is made. */
START_TEST(test_both_not_loaded)
{
	new_netns("a");
	ck_fails(call("ADD", "a", netns_path("a"), "1.0.0", BOTH), MK_CNI_TRY_AGAIN,
		 "the tables of IPv6 are not pinned");
	ck_exist(0);
	ck_fails(call("STATUS", "a", "", "1.1.0", BOTH), MK_CNI_NOT_AVAILABLE,
		 "the tables of IPv6 are not pinned");
}
END_TEST

/* A pod from before the second family keeps its one address; the next pod has two. */
START_TEST(test_pod_from_before)
{
	char prev[8000];
	bool in_vain;

	new_netns("a");
	new_netns("b");
	add("a");
	snprintf(prev, sizeof(prev), "%s", with_prev(BOTH));
	pin_family_of_node(AF_INET6);
	ck_assert_msg(call("CHECK", "a", netns_path("a"), "1.0.0", prev) == 0, "%s", answer);
	ck_assert_int_eq(restored(&in_vain), 0);
	ck_fails(call("ADD", "a", netns_path("a"), "1.0.0", BOTH), MK_CNI_INTERFACE_EXISTS,
		 "'eth0'");
	add_both("b", BOTH);
	ck_assert_msg(strstr(answer, "10.244.1.3/32") && strstr(answer, "fd00:10:244:1::3/128"),
		      "%s", answer);
	ck_assert_int_eq(pod_entries(), 3);
	ck_assert_int_eq(call("DEL", "a", netns_path("a"), "1.0.0", BOTH), 0);
	ck_both_exist(1);
}
END_TEST

/* The node has one family again: a pod of two keeps working. */
START_TEST(test_one_family_again)
{
	char prev[8000];
	bool in_vain;

	new_netns("a");
	add_both("a", BOTH);
	snprintf(prev, sizeof(prev), "%s", with_prev(""));
	ck_assert_int_eq(system("rm -r " BPF_DIR "/ipv6"), 0);
	ck_assert_msg(call("CHECK", "a", netns_path("a"), "1.0.0", prev) == 0, "%s", answer);
	ck_assert_int_eq(restored(&in_vain), 0);
	ck_assert(!in_vain);
	delete_entry(both_ips[0]);
	ck_assert_int_eq(restored(&in_vain), 1);
	ck_exist(1);
	ck_assert_int_eq(call("DEL", "a", netns_path("a"), "1.0.0", prev), 0);
	ck_exist(0);
	ck_assert_int_eq(access(STATE "/ipam/.both/10.244.1.2", F_OK), -1);
}
END_TEST

/* A pod gets a number that is inside both ranges. */
static const struct {
	const char *fields, *last4, *last6;
	int pods;
} sizes[] = {
	{ FIELDS46("10.244.1.0/29", "fd00:10:244:1::/64", CLUSTER6), "10.244.1.5/32",
	  "fd00:10:244:1::5/128", 4 },
	{ FIELDS46("10.244.1.0/24", "fd00:10:244:1::/125", SMALL6), "10.244.1.5/32",
	  "fd00:10:244:1::5/128", 4 },
	{ FIELDS64("10.244.1.0/29", "fd00:10:244:1::/120", SMALL6), "10.244.1.5/32",
	  "fd00:10:244:1::5/128", 4 },
	{ FIELDS46("10.244.1.64/26", "fd00:10:244:1::500/120", SMALL6), "10.244.1.66/32",
	  "fd00:10:244:1::502/128", 1 },
};

START_TEST(test_both_sizes)
{
	char name[2] = "a";

	for (int i = 0; i < sizes[_i].pods; i++, name[0]++) {
		new_netns(name);
		add_both(name, sizes[_i].fields);
	}
	ck_assert_msg(strstr(answer, sizes[_i].last4) && strstr(answer, sizes[_i].last6), "%s",
		      answer);
	if (sizes[_i].pods == 1)
		return;
	new_netns(name);
	ck_fails(call("ADD", name, netns_path(name), "1.0.0", sizes[_i].fields), MK_CNI_TRY_AGAIN,
		 "all 4 are in use");
}
END_TEST

/* The address files were removed: a number is free only if no live pod has either address. */
START_TEST(test_both_lost_files)
{
	new_netns("a");
	new_netns("b");
	add_both("a", BOTH);
	delete_entry(both_ips[_i]);
	ck_assert_int_eq(system("rm -r " STATE "/ipam"), 0);
	add_both("b", BOTH);
	ck_assert_msg(strstr(answer, "10.244.1.3/32") && strstr(answer, "fd00:10:244:1::3/128"),
		      "%s", answer);
	ck_assert_int_ge(mk_cni_reap(STATE, BPF_DIR, "mk", &err), 0);
	ck_assert_int_eq(call("DEL", "a", "", "1.0.0", ""), 0);
	ck_assert_int_eq(call("DEL", "b", "", "1.0.0", ""), 0);
	ck_assert_int_ge(mk_cni_reap(STATE, BPF_DIR, "mk", &err), 1);
	ck_both_exist(0);
}
END_TEST

/* A further interface: both families' routes apply only to its own addresses. */
START_TEST(test_both_further)
{
	new_netns("a");
	inside("a", "sh -c 'ip link add first0 type veth peer first1;"
		    " ip link set first1 up; ip link set first0 up;"
		    " ip addr add 192.0.2.5/24 dev first0;"
		    " ip route add default via 192.0.2.1 dev first0'");
	add_both("a", BOTH);
	ck_assert_msg(strstr(answer, "\"routes\":[]"), "%s", answer);
	ck_assert_msg(call("CHECK", "a", netns_path("a"), "1.0.0", with_prev(BOTH)) == 0, "%s",
		      answer);
	ck_inside("ip rule | grep -q \"from %s \"", both_ips[0]);
	ck_inside("ip -6 rule | grep -q \"from %s \"", both_ips[1]);
	ck_inside("! ip -6 route show default | grep %s", "eth0");
	ck_assert_int_eq(call("DEL", "a", netns_path("a"), "1.0.0", BOTH), 0);
	ck_inside("! ip rule | grep %s", both_ips[0]);
	ck_inside("! ip -6 rule | grep %s", both_ips[1]);
}
END_TEST

static struct mk_host_port leads_to(sa_family_t family, struct mk_host_ports *ports)
{
	const struct mk_host_port_key key = { .port = htons(8080), .proto = IPPROTO_TCP };
	struct mk_host_port to = { 0 };
	int ret = mk_host_ports_get(ports, family, &key, &to, &err);

	ck_assert_msg(ret == 0 || ret == -ENOENT, "%s", mk_error_text(&err));
	return to;
}

static const struct {
	const char *mapping;
	bool ipv4, ipv6;
} both_mappings[] = {
	{ "{\"hostPort\":8080,\"containerPort\":80}", true, true },
	{ "{\"hostPort\":8080,\"containerPort\":80,\"hostIP\":\"0.0.0.0\"}", true, false },
	{ "{\"hostPort\":8080,\"containerPort\":80,\"hostIP\":\"::\"}", false, true },
};

START_TEST(test_both_host_ports)
{
	const struct mk_ip ip4 = ip_of(both_ips[0]), ip6 = ip_of(both_ips[1]);
	const struct mk_addr to4 = mk_ip_to_addr(&ip4), to6 = mk_ip_to_addr(&ip6);
	cleanup_host_ports struct mk_host_ports *ports = mk_host_ports_open(BPF_DIR, STATE, &err);
	size_t known = SIZE_MAX, count = both_mappings[_i].ipv4 + both_mappings[_i].ipv6;
	struct mk_host_port to;
	char fields[2000];

	new_netns("a");
	new_netns("b");
	snprintf(fields, sizeof(fields), "%s,\"runtimeConfig\":{\"portMappings\":[%s]}", BOTH,
		 both_mappings[_i].mapping);
	add_both("a", fields);
	ck_assert_msg(call("CHECK", "a", netns_path("a"), "1.0.0", with_prev(fields)) == 0, "%s",
		      answer);
	for (int round = 0; round < 2; round++) {
		to = leads_to(AF_INET, ports);
		ck_assert(mk_addr_eq(&to.addr, &to4) == both_mappings[_i].ipv4);
		to = leads_to(AF_INET6, ports);
		ck_assert(mk_addr_eq(&to.addr, &to6) == both_mappings[_i].ipv6);
		ck_ok(mk_host_ports_remove(ports, &ip4, 0, &err));
		ck_ok(mk_host_ports_remove(ports, &ip6, 0, &err));
		ck_assert_int_eq(mk_cni_restore_host_ports(STATE, BPF_DIR, &known, &err),
				 (int)count + 1); /* and map runtime */
	}
	ck_fails(call("ADD", "b", netns_path("b"), "1.0.0", fields), MK_CNI_TRY_AGAIN,
		 "container 'a' interface 'eth0'");
	ck_both_exist(1);
	ck_assert_int_eq(call("DEL", "a", "", "1.0.0", ""), 0);
	ck_ports(ports, 0, 0);
}
END_TEST

/* The container is gone: the agent releases both addresses, and GC removes both entries. */
START_TEST(test_both_gone)
{
	new_netns("a");
	add_both("a", BOTH);
	remove_device("a");
	gone_netns("a");
	if (_i)
		ck_assert_int_eq(mk_cni_reap(STATE, BPF_DIR, "mk", &err), 1);
	else
		ck_assert_int_eq(call("GC", "a", "", "1.1.0", ",\"cni.dev/valid-attachments\":[]"),
				 0);
	ck_both_exist(0);
	ck_assert_int_eq(access(STATE "/ipam/.both/10.244.1.2", F_OK), -1);
}
END_TEST

/* Nothing of a valid attachment is removed. */
START_TEST(test_both_valid)
{
	new_netns("a");
	add_both("a", BOTH);
	ck_assert_msg(call("GC", "a", "", "1.1.0",
			   ",\"cni.dev/valid-attachments\":"
			   "[{\"containerID\":\"a\",\"ifname\":\"eth0\"}]") == 0,
		      "%s", answer);
	ck_assert_int_eq(mk_cni_reap(STATE, BPF_DIR, "mk", &err), 0);
	ck_both_exist(1);
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
	tcase_add_loop_test(tc, test_both, 0, MK_ARRAY_SIZE(orders));
	tcase_add_loop_test(tc, test_both_check, 0, MK_ARRAY_SIZE(both_faults));
	tcase_add_loop_test(tc, test_both_check_entries, 0, MK_ARRAY_SIZE(both_ips));
	tcase_add_loop_test(tc, test_both_restore, 0, MK_ARRAY_SIZE(orders));
	tcase_add_loop_test(tc, test_both_add_again, 0, MK_ARRAY_SIZE(orders));
	tcase_add_test(tc, test_one_family_again);
	tcase_add_loop_test(tc, test_both_sizes, 0, MK_ARRAY_SIZE(sizes));
	tcase_add_loop_test(tc, test_both_lost_files, 0, MK_ARRAY_SIZE(both_ips));
	tcase_add_test(tc, test_both_further);
	tcase_add_loop_test(tc, test_both_host_ports, 0, MK_ARRAY_SIZE(both_mappings));
	tcase_add_loop_test(tc, test_both_gone, 0, 2);
	tcase_add_test(tc, test_both_valid);

	tc = cni_case(suite, "IPv4 again");
	tcase_add_test(tc, test_pod_tables_of_one);
	tcase_add_test(tc, test_both_not_loaded);
	tcase_add_test(tc, test_pod_from_before);
}

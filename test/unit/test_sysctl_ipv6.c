// SPDX-License-Identifier: Apache-2.0
/* IPv6 settings of the kernel, with a router that advertises itself on the uplink. The router is in
 * the same namespace, behind the other end of a veth pair. */
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/netlink/netlink.h"
#include "host/sysctl.h"
#include "unit/unit.h"

static struct mk_error err;
static struct mk_nl *nl;
static char state_dir[] = "/tmp/mk-test-sysctl6-XXXXXX";
static const char *const uplinks[] = { "up0", "gone0" };

static int add_pair(const char *name, const char *peer)
{
	const struct mk_veth veth = { .name = name,
				      .mac = mac_of("02:00:00:00:00:01"),
				      .peer_name = peer,
				      .peer_mac = mac_of("02:00:00:00:00:02"),
				      .peer_netns_fd = -1,
				      .mtu_bytes = 1500 };
	const struct mk_link_change up = { .set_flags = IFF_UP };
	struct mk_link link, other;

	ck_ok(mk_nl_veth_add(nl, &veth, &err));
	ck_ok(mk_nl_link_get(nl, name, &link, &err));
	ck_ok(mk_nl_link_get(nl, peer, &other, &err));
	ck_ok(mk_nl_link_change(nl, link.ifindex, &up, &err));
	ck_ok(mk_nl_link_change(nl, other.ifindex, &up, &err));
	return other.ifindex;
}

static void setup(void)
{
	struct mk_nl_addr router = { .cidr = cidr_of("fe80::1/64"), .flags = IFA_F_NODAD };

	strcpy(state_dir + sizeof(state_dir) - 7, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(state_dir));
	ck_assert_msg(unshare(CLONE_NEWNET) == 0, "needs root: %s", strerror(errno));
	nl = mk_nl_open(&err);
	ck_assert_msg(nl != NULL, "%s", mk_error_text(&err));
	add_pair(MK_HOST_VETH, MK_HOST_PEER);
	add_pair("mkvxlan", "other0");
	add_pair("mksfc", "other1");
	router.ifindex = add_pair("up0", "far0");
	ck_ok(mk_nl_addr_add(nl, &router, &err));
}

static void teardown(void)
{
	char command[128];

	mk_nl_free(nl);
	snprintf(command, sizeof(command), "rm -rf %s", state_dir);
	ck_assert_int_eq(system(command), 0);
}

/* ---- the router ------------------------------------------------------------------------------ */

static void advertise(void)
{
	const struct nd_router_advert advert = { .nd_ra_type = ND_ROUTER_ADVERT,
						 .nd_ra_router_lifetime = htons(1800) };
	struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_addr = ip_of("ff02::1").v6 };
	struct sockaddr_in6 from = { .sin6_family = AF_INET6, .sin6_addr = ip_of("fe80::1").v6 };
	cleanup_close int fd = socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMPV6);
	int hops = 255, far = (int)if_nametoindex("far0");

	to.sin6_scope_id = from.sin6_scope_id = (uint32_t)far;
	ck_assert_int_eq(setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &far, sizeof(far)), 0);
	ck_assert_int_eq(setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, &hops, sizeof(hops)), 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	ck_assert_int_eq(sendto(fd, &advert, sizeof(advert), 0, (struct sockaddr *)&to, sizeof(to)),
			 sizeof(advert));
}

static int see_default(void *ctx, const struct mk_nl_route *route)
{
	if (route->dst.prefix_bits == 0 && route->protocol == RTPROT_RA)
		*(bool *)ctx = true;
	return 0;
}

static bool has_route(void)
{
	bool has = false;

	ck_ok(mk_nl_each_route(nl, AF_INET6, see_default, &has, &err));
	return has;
}

/* Until the kernel has taken the route. */
static void learn_route(void)
{
	for (int i = 0; i < 500 && !has_route(); i++) {
		advertise();
		usleep(10000);
	}
	ck_assert(has_route());
}

/* ---- settings -------------------------------------------------------------------------------- */

static int read_setting(const char *device, const char *name)
{
	cleanup_free char *text = NULL;
	char path[128];

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/%s", device, name);
	ck_ok(mk_file_read(path, 64, &text, NULL, &err));
	return atoi(text);
}

static void write_setting(const char *device, const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/%s", device, name);
	ck_ok(mk_sysctl_set(path, value, &err));
}

enum { V4 = 1, V6 = 2, DIRECT = 4 };

static int apply(int families, bool forward)
{
	const struct mk_sysctl_wanted wanted = { .ipv4 = families & V4,
						 .ipv6 = families & V6,
						 .vxlan_name = "mkvxlan",
						 .sfc_name = "mksfc",
						 .reserved_ports = "30000-32767",
						 .state_dir = state_dir,
						 .forward_ipv6 = forward,
						 .is_direct = families & DIRECT,
						 .uplinks = uplinks,
						 .uplink_count = MK_ARRAY_SIZE(uplinks) };
	int ret = mk_sysctls_apply(&wanted, &err);

	ck_ok(ret);
	return ret;
}

/* Without the change of accept_ra, the first write of `forwarding` removes the route. */
START_TEST(test_kernel_removes_the_route)
{
	learn_route();
	write_setting(MK_HOST_VETH, "forwarding", "1");
	ck_assert(!has_route());
}
END_TEST

/* @_i: beside IPv4. */
START_TEST(test_route_stays)
{
	int pods = _i ? V4 | V6 : V6;

	learn_route();
	ck_assert_int_eq(read_setting("up0", "accept_ra"), 1);
	apply(pods, true);
	ck_assert(has_route());
	ck_assert_int_eq(read_setting("up0", "accept_ra"), 2);
	ck_assert_int_eq(read_setting(MK_HOST_VETH, "forwarding"), 1);
	ck_assert_int_eq(read_setting("up0", "forwarding"), 0);
	ck_assert_int_eq(read_setting("all", "forwarding"), 0);
	ck_assert_int_eq(apply(pods, true), 0);
	ck_ok(mk_sysctls_restore(state_dir, &err));
	ck_assert_int_eq(read_setting("up0", "accept_ra"), 1);
	ck_assert(has_route());
}
END_TEST

/* A new uplink, and a device that is made again, after the first write. */
START_TEST(test_later_uplink)
{
	apply(V6, true);
	write_setting("up0", "accept_ra", "1");
	write_setting(MK_HOST_VETH, "forwarding", "0");
	learn_route();
	ck_assert_int_eq(apply(V6, true), 2);
	ck_assert(has_route());
	ck_assert_int_eq(read_setting("up0", "accept_ra"), 2);
}
END_TEST

/* A value that is not 1 stays: the administrator chose it. */
START_TEST(test_other_value)
{
	write_setting("up0", "accept_ra", "0");
	apply(V6, true);
	ck_assert_int_eq(read_setting("up0", "accept_ra"), 0);
	ck_ok(mk_sysctls_restore(state_dir, &err));
	ck_assert_int_eq(read_setting("up0", "accept_ra"), 0);
}
END_TEST

/* Others changed it since, or the device is gone: the record does not matter. */
START_TEST(test_restore_of_a_changed_one)
{
	apply(V6, true);
	if (_i)
		ck_ok(mk_nl_link_delete(nl, "up0", &err));
	else
		write_setting("up0", "accept_ra", "0");
	ck_ok(mk_sysctls_restore(state_dir, &err));
	if (!_i)
		ck_assert_int_eq(read_setting("up0", "accept_ra"), 0);
}
END_TEST

/* With one way out, and for pods of IPv4, nothing of the uplink changes. */
START_TEST(test_nothing_is_written)
{
	learn_route();
	apply(_i ? V6 : V4, !_i);
	ck_assert_int_eq(read_setting("up0", "accept_ra"), 1);
	ck_assert_int_eq(read_setting(MK_HOST_VETH, "forwarding"), 0);
	ck_assert(has_route());
}
END_TEST

/* An empty directory hides the settings, as if the kernel ran without IPv6. */
START_TEST(test_kernel_without_ipv6)
{
	ck_assert(mk_kernel_has_ipv6());
	ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
	ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	ck_assert_int_eq(mount("none", "/proc/sys/net/ipv6", "tmpfs", 0, NULL), 0);
	ck_assert(!mk_kernel_has_ipv6());
}
END_TEST

static const struct {
	int pods;
	int host, peer, vxlan, ip_forward; /* disable_ipv6 of the devices */
} devices[] = {
	{ V4, 1, 1, 1, 1 },
	{ V6, 0, 1, 0, 0 },
	{ V4 | V6, 0, 1, 0, 1 },
};

static void check_devices(int row)
{
	cleanup_free char *ip_forward = NULL;

	ck_assert_int_eq(read_setting(MK_HOST_VETH, "disable_ipv6"), devices[row].host);
	ck_assert_int_eq(read_setting(MK_HOST_PEER, "disable_ipv6"), devices[row].peer);
	ck_assert_int_eq(read_setting("mkvxlan", "disable_ipv6"), devices[row].vxlan);
	ck_assert_int_eq(read_setting("mkvxlan", "accept_ra"), devices[row].vxlan);
	ck_assert_int_eq(read_setting("mksfc", "disable_ipv6"), 1); /* it has no addresses */
	ck_assert_int_eq(read_setting(MK_HOST_VETH, "accept_redirects"), devices[row].host);
	ck_ok(mk_file_read("/proc/sys/net/ipv4/ip_forward", 64, &ip_forward, NULL, &err));
	ck_assert_int_eq(atoi(ip_forward), devices[row].ip_forward);
}

START_TEST(test_devices)
{
	ck_ok(mk_sysctl_set("/proc/sys/net/ipv4/ip_forward", "0", &err));
	write_setting("mkvxlan", "disable_ipv6", "1");
	apply(devices[_i].pods, false);
	check_devices(_i);
	ck_assert_int_eq(apply(devices[_i].pods, false), 0);
}
END_TEST

/* A node of IPv4 gets IPv6, with several ways out, and loses it again. IPv4's settings stay; what
 * was changed on uplinks is in the record, for `monokube cleanup`. */
START_TEST(test_family_comes_and_goes)
{
	learn_route();
	apply(V4, true);
	check_devices(0);
	ck_assert_int_eq(read_setting("up0", "accept_ra"), 1);
	/* of two devices accept_ra, accept_redirects and disable_ipv6; of the uplink accept_ra;
	 * forwarding */
	ck_assert_int_eq(apply(V4 | V6, true), 2 * 3 + 1 + 1);
	check_devices(2);
	ck_assert(has_route());
	ck_assert_int_eq(read_setting("up0", "accept_ra"), 2);
	ck_assert_int_eq(apply(V4, true), 2);
	ck_assert_int_eq(read_setting(MK_HOST_VETH, "disable_ipv6"), 1);
	ck_assert_int_eq(read_setting("mkvxlan", "disable_ipv6"), 1);
	ck_assert(has_route());
	ck_ok(mk_sysctls_restore(state_dir, &err));
	ck_assert_int_eq(read_setting("up0", "accept_ra"), 1);
	ck_assert(has_route());
}
END_TEST

static int arp_announce(void)
{
	cleanup_free char *text = NULL;

	ck_ok(mk_file_read("/proc/sys/net/ipv4/conf/up0/arp_announce", 64, &text, NULL, &err));
	return atoi(text);
}

/* Uplinks tell their neighbours about this node's address if direct packets leave by them. */
START_TEST(test_announce)
{
	int families = _i & (V4 | V6), direct = _i & DIRECT;

	ck_ok(mk_sysctl_set("/proc/sys/net/ipv4/conf/up0/arp_announce", "0", &err));
	apply(_i, false);
	ck_assert_int_eq(arp_announce(), direct && families & V4 ? 2 : 0);
	ck_assert_int_eq(read_setting("up0", "ndisc_notify"), direct && families & V6 ? 1 : 0);
	ck_assert_int_eq(apply(_i, false), 0);
	ck_ok(mk_sysctls_restore(state_dir, &err));
	ck_assert_int_eq(arp_announce(), 0);
	ck_assert_int_eq(read_setting("up0", "ndisc_notify"), 0);
}
END_TEST

UNIT_SUITE("sysctl_ipv6")
{
	TCase *tc = unit_case(suite, "router", setup, teardown);

	tcase_add_test(tc, test_kernel_removes_the_route);
	tcase_add_loop_test(tc, test_route_stays, 0, 2);
	tcase_add_test(tc, test_later_uplink);
	tcase_add_test(tc, test_other_value);
	tcase_add_loop_test(tc, test_restore_of_a_changed_one, 0, 2);
	tcase_add_loop_test(tc, test_nothing_is_written, 0, 2);
	tcase_add_loop_test(tc, test_devices, 0, MK_ARRAY_SIZE(devices));
	tcase_add_test(tc, test_family_comes_and_goes);
	tcase_add_loop_test(tc, test_announce, V4, (V4 | V6 | DIRECT) + 1);
	tcase_add_test(tc, test_kernel_without_ipv6);
}

// SPDX-License-Identifier: Apache-2.0
/* Conflicts of the host's networks with the settings' ranges; the rights that the agent keeps; the
 * suggestion for a misspelled word; the lock that keeps other agents out. */
#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/suggest.h"
#include "host/agent_state.h"
#include "host/host_internal.h"
#include "host/networks.h"
#include "host/privileges.h"
#include "unit/unit.h"

static struct mk_error err;

/* ---- networks -------------------------------------------------------------------------------- */

static const struct {
	const char *name, *range, *network;
	enum mk_network_kind kind;
	enum mk_overlap overlap;
} pairs[] = {
	{ "an address inside", "10.18.0.0/16", "10.18.0.5/32", MK_NET_ADDRESS, MK_OVERLAP_REFUSED },
	{ "the gateway inside", "10.18.0.0/16", "10.18.0.1/32", MK_NET_GATEWAY,
	  MK_OVERLAP_REFUSED },
	{ "the API server inside", "10.18.0.0/16", "10.18.9.9/32", MK_NET_API_SERVER,
	  MK_OVERLAP_REFUSED },
	{ "a network inside", "10.18.0.0/16", "10.18.3.0/24", MK_NET_ON_LINK, MK_OVERLAP_REFUSED },
	{ "the same network", "10.18.0.0/16", "10.18.0.0/16", MK_NET_ON_LINK, MK_OVERLAP_REFUSED },
	{ "a network around it", "10.18.0.0/16", "10.0.0.0/8", MK_NET_ON_LINK,
	  MK_OVERLAP_REPORTED },
	{ "a route inside, by a gateway", "10.18.0.0/16", "10.18.3.0/24", MK_NET_ROUTED,
	  MK_OVERLAP_REPORTED },
	{ "a route around it, by a gateway", "10.18.0.0/16", "10.0.0.0/8", MK_NET_ROUTED,
	  MK_OVERLAP_NONE },
	{ "another Node's InternalIP: it may be wrong", "10.18.0.0/16", "10.18.0.7/32", MK_NET_NODE,
	  MK_OVERLAP_REPORTED },
	{ "an address beside it", "10.18.0.0/16", "10.19.0.5/32", MK_NET_ADDRESS, MK_OVERLAP_NONE },
	{ "a network beside it", "100.64.0.0/16", "100.65.0.0/24", MK_NET_ON_LINK,
	  MK_OVERLAP_NONE },
	{ "IPv6: an address inside", "fd4d:4b00:12::/64", "fd4d:4b00:12::5/128", MK_NET_ADDRESS,
	  MK_OVERLAP_REFUSED },
	{ "IPv6: a network around it", "fd4d:4b00:12::/64", "fd4d:4b00::/32", MK_NET_ON_LINK,
	  MK_OVERLAP_REPORTED },
	{ "IPv6: an address beside it", "fd4d:4b00:12::/64", "fd4d:4b00:13::5/128", MK_NET_ADDRESS,
	  MK_OVERLAP_NONE },
	{ "another family", "10.18.0.0/16", "a12:5::/128", MK_NET_ADDRESS, MK_OVERLAP_NONE },
};

/* What the host has, by family: own devices and link-local networks do not count. */
START_TEST(test_read)
{
	static const char *const expected[] = {
		"10.9.0.1/32 10.9.0.7/32 10.9.0.0/24 ",
		"2001:db8:9::1/128 2001:db8:9::/64 2001:db8:9::7/128 ",
	};
	struct mk_ip vtep = ip_of("fd4d:4b00:12::1");
	struct mk_networks networks;
	char seen[256] = "", cidr[MK_CIDR_STRLEN];
	cleanup_nl struct mk_nl *nl = NULL;

	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	ck_assert_int_eq(
		system("PATH=$PATH:/sbin:/usr/sbin; set -e; ip link set lo up\n"
		       "ip link add eth0 type veth peer mkvxlan; ip link set eth0 up\n"
		       "ip link set mkvxlan up; ip addr add fe80::7/64 dev eth0 nodad\n"
		       "ip addr add 10.9.0.1/24 dev eth0; ip route add default via 10.9.0.7\n"
		       "ip addr add fd4d:4b00:12::1/128 dev mkvxlan nodad\n"
		       "ip addr add 2001:db8:9::1/64 dev eth0 nodad\n"
		       "ip -6 route add default via 2001:db8:9::7\n"
		       "ip -6 route add default via fe80::9 dev eth0 metric 5"),
		0);
	nl = mk_nl_open(&err);
	ck_ok(mk_networks_read(nl, _i ? AF_INET6 : AF_INET, "mkvxlan", _i ? &vtep : NULL, &networks,
			       &err));
	for (size_t i = 0; i < networks.count; i++) {
		strcat(seen, mk_cidr_format(&networks.list[i].cidr, cidr));
		strcat(seen, " ");
	}
	ck_assert_str_eq(seen, expected[_i]);
	ck_assert(networks.has_vtep == (_i == 1));
	mk_networks_release(&networks);
}
END_TEST

/* A routing daemon's routes: each kind of next hop is a gateway, and what it has learned of the
 * cluster's own routes is not listed. */
static const struct {
	const char *name, *dst, *by;
	int kind; /* -1: not listed */
} learned[] = {
	{ "a gateway", "10.9.2.0/24", "via 10.9.0.7", MK_NET_ROUTED },
	{ "several gateways", "10.9.2.0/24", "nexthop via 10.9.0.7 nexthop via 10.9.0.8",
	  MK_NET_ROUTED },
	{ "a gateway of IPv6", "10.9.2.0/24", "via inet6 fe80::7 dev eth0", MK_NET_ROUTED },
	{ "no gateway", "10.9.2.0/24", "dev eth0", MK_NET_ON_LINK },
	{ "another node's pods", "10.244.2.0/24", "via 10.9.0.2 metric 32", -1 },
	{ "an address among them", "10.244.2.254/32", "via 10.9.0.2", -1 },
	{ "another node's overlay address", "10.18.0.2/32", "via 10.9.0.2", -1 },
	{ "other addresses of the range", "10.244.3.0/24", "via 10.9.0.2", MK_NET_ROUTED },
	{ "the other node itself", "10.9.0.2/32", "via 10.9.0.7", MK_NET_ROUTED },
	{ "another node's pods, on a link", "10.244.2.0/25", "dev eth0", MK_NET_ON_LINK },
};

static int kind_of(const struct mk_networks *networks, const struct mk_cidr *cidr)
{
	for (size_t i = 0; i < networks->count; i++)
		if (mk_cidr_equal(&networks->list[i].cidr, cidr))
			return (int)networks->list[i].kind;
	return -1;
}

START_TEST(test_learned)
{
	struct mk_cidr dst = cidr_of(learned[_i].dst);
	struct mk_networks networks;
	char command[512];
	cleanup_nl struct mk_nl *nl = NULL;

	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	snprintf(command, sizeof(command),
		 "PATH=$PATH:/sbin:/usr/sbin; set -e\n"
		 "ip link add eth0 type veth peer mkvxlan; ip link set eth0 up\n"
		 "ip link set mkvxlan up; ip addr add 10.9.0.1/24 dev eth0\n"
		 "ip route add 10.244.2.0/24 via 10.18.0.2 dev mkvxlan onlink proto 77\n"
		 "ip route add 10.244.4.0/24 via 10.9.0.2 dev eth0 onlink proto 77\n"
		 "ip -4 route add %s %s",
		 learned[_i].dst, learned[_i].by);
	ck_assert_int_eq(system(command), 0);
	nl = mk_nl_open(&err);
	ck_ok(mk_networks_read(nl, AF_INET, "mkvxlan", NULL, &networks, &err));
	ck_assert_msg(kind_of(&networks, &dst) == learned[_i].kind, "%s: seen %d", learned[_i].name,
		      kind_of(&networks, &dst));
	mk_networks_release(&networks);
}
END_TEST

START_TEST(test_overlap)
{
	const struct mk_own_range range = { "vtepCidr", cidr_of(pairs[_i].range) };
	const struct mk_network network = { .cidr = cidr_of(pairs[_i].network),
					    .kind = pairs[_i].kind };

	ck_assert_msg(networks_overlap(&range, &network) == pairs[_i].overlap, "%s",
		      pairs[_i].name);
}
END_TEST

/* The worst pair is reported, with both ranges and the remedy. */
START_TEST(test_judge)
{
	const struct mk_own_range ranges[] = { { "vtepCidr", cidr_of("10.18.0.0/16") },
					       { "clusterCidr", cidr_of("10.244.0.0/16") } };
	const struct mk_cidr wide = cidr_of("10.0.0.0/8"), gateway = cidr_of("10.18.0.1/32");
	struct mk_networks networks = { 0 };

	ck_assert_int_eq(mk_networks_judge(&networks, ranges, 2, &err), MK_OVERLAP_NONE);
	ck_ok(mk_networks_add(&networks, MK_NET_ON_LINK, &wide, "eth0", &err));
	ck_assert_int_eq(mk_networks_judge(&networks, ranges, 2, &err), MK_OVERLAP_REPORTED);
	ck_assert_str_eq(mk_error_text(&err),
			 "vtepCidr '10.18.0.0/16' overlaps the host's network 10.0.0.0/8 on eth0: "
			 "pods cannot reach it; set vtepCidr to a range that no network "
			 "of the nodes has, such as 100.64.0.0/16, the same on every node");
	ck_ok(mk_networks_add(&networks, MK_NET_GATEWAY, &gateway, "eth0", &err));
	ck_assert_int_eq(mk_networks_judge(&networks, ranges, 2, &err), MK_OVERLAP_REFUSED);
	ck_assert_ptr_nonnull(strstr(mk_error_text(&err), "the default gateway 10.18.0.1 on eth0: "
							  "the node would lose access to it"));
	mk_networks_release(&networks);
}
END_TEST

/* The bridge of the CNI plugin that monokube replaces: the range is right, the device must go. */
START_TEST(test_left_over)
{
	const struct mk_own_range range = { "clusterCidr", cidr_of("10.244.0.0/16") };
	const struct mk_cidr bridge = cidr_of("10.244.1.1/32");
	struct mk_networks networks = { 0 };

	ck_ok(mk_networks_add(&networks, MK_NET_ADDRESS, &bridge, "cni0", &err));
	ck_assert_int_eq(mk_networks_judge(&networks, &range, 1, &err), MK_OVERLAP_REFUSED);
	ck_assert_str_eq(
		mk_error_text(&err),
		"clusterCidr '10.244.0.0/16' overlaps the host's address 10.244.1.1 on "
		"cni0: the node would lose access to it; delete cni0 if another CNI "
		"plugin left it, otherwise set clusterCidr to a range that no network of the "
		"nodes has, as the cluster's pod range");
	mk_networks_release(&networks);
}
END_TEST

/* A route without an address of its device: deleting the device would go too far. */
START_TEST(test_left_over_route)
{
	const struct mk_own_range range = { "clusterCidr", cidr_of("10.244.0.0/16") };
	const struct mk_cidr route = cidr_of("10.244.2.0/24");
	struct mk_networks networks = { 0 };

	ck_ok(mk_networks_add(&networks, MK_NET_ON_LINK, &route, "eth0", &err));
	ck_assert_int_eq(mk_networks_judge(&networks, &range, 1, &err), MK_OVERLAP_REFUSED);
	ck_assert_str_eq(mk_error_text(&err),
			 "clusterCidr '10.244.0.0/16' overlaps the host's network 10.244.2.0/24 on "
			 "eth0: the node would lose access to it; run `ip route del 10.244.2.0/24 "
			 "dev eth0` if another program left it, otherwise set clusterCidr to a "
			 "range that no network of the nodes has, as the cluster's pod range");
	mk_networks_release(&networks);
}
END_TEST

/* ---- rights ---------------------------------------------------------------------------------- */

#define BIT(capability) (1ULL << (capability))

static const struct {
	const char *name;
	struct mk_config config;
	bool binds;
} rights[] = {
	{ "no port below 1024",
	  { .healthz = { .at = { { .port = 10256 } }, .count = 1 }, .node_port_min = 30000 },
	  false },
	{ "healthzBindAddress",
	  { .healthz = { .at = { { .port = 256 } }, .count = 1 }, .node_port_min = 30000 },
	  true },
	{ "metricsBindAddress",
	  { .metrics = { .at = { { .port = 257 } }, .count = 1 }, .node_port_min = 30000 },
	  true },
	{ "nodePortRange, for healthCheckNodePorts", { .node_port_min = 1000 }, true },
};

START_TEST(test_rights)
{
	uint64_t all = BIT(CAP_NET_ADMIN) | BIT(CAP_BPF) | BIT(CAP_PERFMON) |
		       BIT(CAP_DAC_OVERRIDE) | BIT(CAP_NET_BIND_SERVICE) | BIT(CAP_SYS_RESOURCE);
	uint64_t kept = privileges_kept(&rights[_i].config, all);

	ck_assert_msg(!(kept & BIT(CAP_SYS_RESOURCE)), "%s", rights[_i].name);
	ck_assert_msg(!!(kept & BIT(CAP_NET_BIND_SERVICE)) == rights[_i].binds, "%s",
		      rights[_i].name);
}
END_TEST

static const struct {
	const char *release;
	unsigned long limit_bytes;
	bool limited;
} kernels[] = {
	{ "5.10.0-46-cloud-amd64", 65536, true },
	{ "5.10.0-46-cloud-amd64", RLIM_INFINITY, false },
	{ "5.11.0", 65536, false },
	{ "6.1.0-56-amd64", 65536, false },
	{ "odd", 65536, false },
};

START_TEST(test_memlock)
{
	ck_assert_msg(privileges_memlock_limited(kernels[_i].release, kernels[_i].limit_bytes) ==
			      kernels[_i].limited,
		      "%s", kernels[_i].release);
}
END_TEST

/* ---- system calls ---------------------------------------------------------------------------- */

/* getpgid() stands for a call that the agent does not need. */
static const struct {
	const char *name, *wanted; /* MONOKUBE_SECCOMP, NULL: not set */
	long call;
	int failure; /* of the call, or of the filter; 0: none */
} filters[] = {
	{ "the filter refuses other calls", NULL, SYS_getpgid, ENOSYS },
	{ "MONOKUBE_SECCOMP=on", "on", SYS_getpgid, ENOSYS },
	{ "MONOKUBE_SECCOMP=log", "log", SYS_getpgid, 0 },
	{ "MONOKUBE_SECCOMP=off", "off", SYS_getpgid, 0 },
	{ "MONOKUBE_SECCOMP=maybe", "maybe", SYS_getpgid, EINVAL },
	{ "tkill, by which musl's abort() ends a process", NULL, SYS_tkill, 0 },
};

/* A filter stays until its process ends. Returns the errno of the call, or of the filter. */
static int call_filtered(const char *wanted, long call)
{
	const struct mk_config config = { .healthz = { .at = { { .port = 10256 } }, .count = 1 },
					  .node_port_min = 30000 };
	int ret = wanted ? setenv("MONOKUBE_SECCOMP", wanted, 1) : unsetenv("MONOKUBE_SECCOMP");

	ret = ret < 0 ? -errno : mk_privileges_drop(&config, &err);
	if (ret < 0)
		return -ret;
	return syscall(call, getpid(), 0) < 0 ? errno : 0;
}

START_TEST(test_filter)
{
	pid_t child = fork();
	int status;

	ck_assert_int_ge(child, 0);
	if (child == 0)
		_exit(call_filtered(filters[_i].wanted, filters[_i].call));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == filters[_i].failure,
		      "%s: expected errno %d, wait status 0x%x", filters[_i].name,
		      filters[_i].failure, (unsigned int)status);
}
END_TEST

/* ---- what was meant -------------------------------------------------------------------------- */

static const struct {
	const char *word, *meant; /* NULL: nothing is close enough */
} words[] = {
	{ "drop", "drops" },
	{ "statsu", "status" },
	{ "--clusterCidr", "cluster-cidr" },
	{ "--cluster_cider", "cluster-cidr" },
	{ "bugrepot", "bugreport" },
	{ "frobnicate", NULL },
	{ "x", NULL },
	{ "", NULL },
};

START_TEST(test_nearest)
{
	static const char *const names[] = { "drops", "status", "cluster-cidr", "bugreport" };
	struct mk_nearest nearest = { .word = words[_i].word };

	for (size_t i = 0; i < MK_ARRAY_SIZE(names); i++)
		(void)mk_nearest_see(&nearest, names[i]);
	if (words[_i].meant)
		ck_assert_pstr_eq(nearest.found, words[_i].meant);
	else
		ck_assert_ptr_null(nearest.found);
}
END_TEST

/* ---- one agent or one cleanup ---------------------------------------------------------------- */

/* The holder keeps the lock until it ends. */
START_TEST(test_keep_out)
{
	char dir[] = "/tmp/monokube-state.XXXXXX", path[64];
	struct mk_agent_state state;
	int fd;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	mk_agent_state_read(dir, &state);
	ck_assert(!state.ever_ran && !state.running);
	fd = mk_agent_keep_out(dir, &err);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(mk_agent_keep_out(dir, &err), -EBUSY);
	ck_ok(mk_agent_state_write(dir, "waits for a Node object", &err));
	mk_agent_state_read(dir, &state);
	ck_assert(state.ever_ran && state.running);
	ck_assert_str_eq(state.text, "waits for a Node object");
	close(fd);
	mk_agent_state_read(dir, &state);
	ck_assert(state.ever_ran && !state.running && !*state.text);
	fd = mk_agent_keep_out(dir, &err);
	ck_assert_int_ge(fd, 0);
	close(fd);
	snprintf(path, sizeof(path), "%s/" MK_AGENT_LOCK, dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/" MK_AGENT_STATE, dir);
	unlink(path);
	ck_assert_int_eq(rmdir(dir), 0);
	ck_assert_int_eq(mk_agent_keep_out(dir, &err), -ENOENT);
}
END_TEST

UNIT_SUITE("networks")
{
	TCase *tc = unit_case(suite, "pure", NULL, NULL);

	tcase_add_loop_test(tc, test_overlap, 0, MK_ARRAY_SIZE(pairs));
	tcase_add_loop_test(tc, test_read, 0, 2);
	tcase_add_loop_test(tc, test_learned, 0, MK_ARRAY_SIZE(learned));
	tcase_add_test(tc, test_judge);
	tcase_add_test(tc, test_left_over);
	tcase_add_test(tc, test_left_over_route);
	tcase_add_loop_test(tc, test_rights, 0, MK_ARRAY_SIZE(rights));
	tcase_add_loop_test(tc, test_memlock, 0, MK_ARRAY_SIZE(kernels));
	tcase_add_loop_test(tc, test_filter, 0, MK_ARRAY_SIZE(filters));
	tcase_add_loop_test(tc, test_nearest, 0, MK_ARRAY_SIZE(words));
	tcase_add_test(tc, test_keep_out);
}

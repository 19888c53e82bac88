// SPDX-License-Identifier: Apache-2.0
/* Settings: defaults, environment, flags, messages about wrong values, and the table in
 * src/config/README.md. With the argument --table: print that table. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "config/config.h"
#include "unit/unit.h"

#define MAX_WORDS 8

static void set_environment(const char *const *words)
{
	clearenv();
	for (; *words; words += 2)
		ck_assert_int_eq(setenv(words[0], words[1], 1), 0);
}

static int load(struct mk_config *config, const char *const *flags, struct mk_error *err)
{
	const char *argv[MAX_WORDS + 9] = { "agent" };
	int argc = 1;

	for (; *flags; flags++)
		argv[argc++] = *flags;
	return mk_config_load(config, argc, (char **)argv, err);
}

#define REQUIRED  "--node-name", "node1", "--cluster-dir", "/c", "--cluster-cidr=10.244.0.0/16"
#define REQUIRED6 "--node-name", "node1", "--cluster-dir", "/c", "--cluster-cidr=fd00:10:244::/48"

START_TEST(test_defaults)
{
	const char *const none[] = { NULL }, *const flags[] = { REQUIRED, NULL };
	struct mk_config config;
	struct mk_error err = { 0 };
	char buf[MK_CIDR_STRLEN], at[MK_IP_PORT_STRLEN];

	set_environment(none);
	ck_assert_msg(load(&config, flags, &err) == 0, "%s", err.text);
	ck_assert_str_eq(config.node_name, "node1");
	ck_assert_str_eq(config.cluster_dir, "/c");
	ck_assert_str_eq(mk_cidr_format(mk_config_cluster(&config, config.cluster.primary), buf),
			 "10.244.0.0/16");
	ck_assert_str_eq(mk_cidr_format(mk_config_vteps(&config, config.cluster.primary), buf),
			 "10.18.0.0/16");
	ck_assert_str_eq(config.vxlan_iface_name, "mkvxlan");
	ck_assert_str_eq(config.sfc_iface_name, "mksfc");
	ck_assert_str_eq(config.cluster_name, "");
	ck_assert_uint_eq(config.cluster_id, 0);
	ck_assert_str_eq(config.peer_iface_name, "mkpeer");
	ck_assert_str_eq(mk_cidr_format(&config.peer_pools.of[0], buf), "240.0.0.0/6");
	ck_assert_int_eq(config.peer_pools.of[1].ip.family, AF_UNSPEC);
	ck_assert_str_eq(mk_cidr_format(&config.clusterset.of[0], buf), "247.254.0.0/16");
	ck_assert_str_eq(mk_cidr_format(&config.clusterset.of[1], buf), "fd6d:6b63:7300::/112");
	ck_assert_uint_eq(config.vxlan_port, 4789);
	ck_assert_str_eq(config.veth_prefix, "mk");
	ck_assert_str_eq(config.uplinks, "");
	ck_assert_uint_eq(config.node_port_min, 30000);
	ck_assert_uint_eq(config.node_port_max, 32767);
	ck_assert_uint_eq(config.nat_port_min, 49152);
	ck_assert_uint_eq(config.nat_port_max, 65535);
	ck_assert_str_eq(config.cni_conf_path, "/etc/cni/net.d/10-monokube.conflist");
	ck_assert_str_eq(config.cni_bin_dir, "/opt/cni/bin");
	ck_assert_uint_eq(config.mtu_bytes, 0);
	ck_assert_int_eq(config.log_level, MK_LOG_INFO);
	ck_assert_str_eq(mk_ip_port_format(&config.healthz.at[0], at), "0.0.0.0:10256");
	ck_assert_str_eq(mk_ip_port_format(&config.metrics.at[0], at), "127.0.0.1:10249");
	ck_assert(config.cp_nodes_deploy_allowed);
	ck_assert(!config.masquerade_all);
	ck_assert(!config.keeps_client);
	ck_assert(!config.returns_direct);
	ck_assert_int_eq(config.masquerade_ipv6, MK_AUTO);
	ck_assert_int_eq(config.policy_mode, MK_POLICIES_ENFORCED);
	ck_assert(!config.log_denied);
	ck_assert_int_eq(config.underlay_family, AF_INET);
	ck_assert(config.localhost_node_ports);
	ck_assert_uint_eq(config.local_endpoint_weight, 1);
	ck_assert_uint_eq(config.maglev_slots, 1021);
	ck_assert_uint_eq(config.session_entries, 524288);
	ck_assert_uint_eq(config.new_session_entries, 65536);
	ck_assert_uint_eq(config.affinity_entries, 65536);
	ck_assert_uint_eq(config.syn_rate, 0);
	ck_assert_uint_eq(config.api_retry_max_s, 30);
	ck_assert_str_eq(config.state_dir, "/var/lib/monokube");
	ck_assert_str_eq(config.bpf_dir, "/sys/fs/bpf/monokube");
}
END_TEST

START_TEST(test_ipv6_defaults)
{
	const char *const none[] = { NULL }, *const flags[] = { REQUIRED6, NULL };
	struct mk_config config;
	struct mk_error err = { 0 };
	char buf[MK_CIDR_STRLEN], at[MK_IP_PORT_STRLEN];

	set_environment(none);
	ck_assert_msg(load(&config, flags, &err) == 0, "%s", err.text);
	ck_assert_str_eq(mk_cidr_format(mk_config_cluster(&config, config.cluster.primary), buf),
			 "fd00:10:244::/48");
	ck_assert_str_eq(mk_cidr_format(mk_config_vteps(&config, config.cluster.primary), buf),
			 "fd4d:4b00:12::/64");
	ck_assert_str_eq(mk_ip_port_format(&config.healthz.at[0], at), "[::]:10256");
	ck_assert_str_eq(mk_ip_port_format(&config.metrics.at[0], at), "[::1]:10249");
	ck_assert_int_eq(config.underlay_family, AF_INET6);
}
END_TEST

static const struct {
	const char *name, *flags[MAX_WORDS], *vtep, *healthz;
	sa_family_t underlay;
	enum mk_choice masquerade;
} families[] = {
	{ "a VTEP CIDR of the family",
	  { REQUIRED6, "--vtep-cidr=fd01::7/64" },
	  "fd01::/64",
	  "[::]:10256",
	  AF_INET6,
	  MK_AUTO },
	{ "a VTEP CIDR of the other family does not apply",
	  { REQUIRED6, "--vtep-cidr=10.18.0.0/16" },
	  "fd4d:4b00:12::/64",
	  "[::]:10256",
	  AF_INET6,
	  MK_AUTO },
	{ "nor does one of IPv6 to IPv4",
	  { REQUIRED, "--vtep-cidr=fd01::/64" },
	  "10.18.0.0/16",
	  "0.0.0.0:10256",
	  AF_INET,
	  MK_AUTO },
	{ "overlay over IPv4",
	  { REQUIRED6, "--underlay-family=IPv4" },
	  "fd4d:4b00:12::/64",
	  "[::]:10256",
	  AF_INET,
	  MK_AUTO },
	{ "overlay over IPv6",
	  { REQUIRED, "--underlay-family=IPv6" },
	  "10.18.0.0/16",
	  "0.0.0.0:10256",
	  AF_INET6,
	  MK_AUTO },
	{ "masquerade on",
	  { REQUIRED6, "--masquerade-ipv6=true" },
	  "fd4d:4b00:12::/64",
	  "[::]:10256",
	  AF_INET6,
	  MK_TRUE },
	{ "masquerade off, and listen at an address of IPv4",
	  { REQUIRED6, "--masquerade-ipv6=false", "--healthz-bind-address=0.0.0.0:10256" },
	  "fd4d:4b00:12::/64",
	  "0.0.0.0:10256",
	  AF_INET6,
	  MK_FALSE },
	{ "listen at an address of IPv6",
	  { REQUIRED, "--healthz-bind-address=[2001:db8::1]:10256" },
	  "10.18.0.0/16",
	  "[2001:db8::1]:10256",
	  AF_INET,
	  MK_AUTO },
	{ "the smallest MTU of IPv6",
	  { REQUIRED6, "--mtu=1280" },
	  "fd4d:4b00:12::/64",
	  "[::]:10256",
	  AF_INET6,
	  MK_AUTO },
};

START_TEST(test_families)
{
	const char *const none[] = { NULL };
	struct mk_config config;
	struct mk_error err = { 0 };
	char buf[MK_CIDR_STRLEN], at[MK_IP_PORT_STRLEN];

	set_environment(none);
	ck_assert_msg(load(&config, families[_i].flags, &err) == 0, "%s: %s", families[_i].name,
		      err.text);
	ck_assert_str_eq(mk_cidr_format(mk_config_vteps(&config, config.cluster.primary), buf),
			 families[_i].vtep);
	ck_assert_str_eq(mk_ip_port_format(&config.healthz.at[0], at), families[_i].healthz);
	ck_assert_int_eq(config.underlay_family, families[_i].underlay);
	ck_assert_int_eq(config.masquerade_ipv6, families[_i].masquerade);
}
END_TEST

static const struct {
	const char *cluster, *vteps; /* NULL: the default */
	sa_family_t primary;
	const char *vtep4, *vtep6;
} two_families[] = {
	{ "10.244.0.0/16,fd00:10:244::/48", NULL, AF_INET, "10.18.0.0/16", "fd4d:4b00:12::/64" },
	{ "fd00:10:244::/48,10.244.0.0/16", NULL, AF_INET6, "10.18.0.0/16", "fd4d:4b00:12::/64" },
	{ "10.244.0.0/16,fd00:10:244::/48", "fd01::/64", AF_INET, "10.18.0.0/16", "fd01::/64" },
	{ "10.244.0.0/16,fd00:10:244::/48", "fd01::/64,10.19.0.0/16", AF_INET, "10.19.0.0/16",
	  "fd01::/64" },
};

START_TEST(test_two_families)
{
	const char *const none[] = { NULL };
	const char *const flags[] = { REQUIRED,
				      "--cluster-cidr",
				      two_families[_i].cluster,
				      two_families[_i].vteps ? "--vtep-cidr" : NULL,
				      two_families[_i].vteps,
				      NULL };
	struct mk_config config;
	struct mk_error err = { 0 };
	char buf[MK_CIDR_STRLEN], at[MK_IP_PORT_STRLEN];

	set_environment(none);
	ck_assert_msg(load(&config, flags, &err) == 0, "%s", err.text);
	ck_assert_int_eq(config.cluster.primary, two_families[_i].primary);
	ck_assert_str_eq(mk_cidr_format(mk_config_cluster(&config, AF_INET), buf), "10.244.0.0/16");
	ck_assert_str_eq(mk_cidr_format(mk_config_cluster(&config, AF_INET6), buf),
			 "fd00:10:244::/48");
	ck_assert_str_eq(mk_cidr_format(mk_config_vteps(&config, AF_INET), buf),
			 two_families[_i].vtep4);
	ck_assert_str_eq(mk_cidr_format(mk_config_vteps(&config, AF_INET6), buf),
			 two_families[_i].vtep6);
	ck_assert_int_eq(config.underlay_family, AF_INET);
	ck_assert_uint_eq(config.healthz.count, 2);
	ck_assert_str_eq(mk_ip_port_format(&config.healthz.at[1], at), "[::]:10256");
	ck_assert_str_eq(mk_ip_port_format(&config.metrics.at[1], at), "[::1]:10249");
}
END_TEST

START_TEST(test_no_listeners)
{
	const char *const none[] = { NULL };
	const char *const flags[] = { REQUIRED, "--healthz-bind-address",
				      "off",	"--metrics-bind-address",
				      "off",	NULL };
	struct mk_config config;
	struct mk_error err = { 0 };

	set_environment(none);
	ck_assert_msg(load(&config, flags, &err) == 0, "%s", err.text);
	ck_assert_uint_eq(config.healthz.count, 0);
	ck_assert_uint_eq(config.metrics.count, 0);
}
END_TEST

START_TEST(test_lists)
{
	const char *const none[] = { NULL };
	const char *const flags[] = { REQUIRED, "--uplink-iface-name=eth0,bond0.12",
				      "--node-port-addresses=10.0.0.0/8,2001:db8::1/64", NULL };
	struct mk_config config;
	struct mk_error err = { 0 };
	char name[IFNAMSIZ], text[MK_CIDR_STRLEN];
	const char *at = config.uplinks;

	set_environment(none);
	ck_assert_msg(load(&config, flags, &err) == 0, "%s", err.text);
	ck_assert_int_eq(mk_config_next_name(&at, name), 1);
	ck_assert_str_eq(name, "eth0");
	ck_assert_int_eq(mk_config_next_name(&at, name), 1);
	ck_assert_str_eq(name, "bond0.12");
	ck_assert_int_eq(mk_config_next_name(&at, name), 0);
	ck_assert_uint_eq(config.node_port_addresses.count, 2);
	ck_assert_str_eq(mk_cidr_format(&config.node_port_addresses.cidr[1], text),
			 "2001:db8::/64");
}
END_TEST

START_TEST(test_environment)
{
	const char *const environment[] = { "NODE_NAME",
					    "n.example",
					    "clusterCidr",
					    "10.1.2.3/8",
					    "vtepCidr",
					    "172.16.0.0/12",
					    "vxlanIfaceName",
					    "vx",
					    "sfcIfaceName",
					    "sf",
					    "clusterName",
					    "west-1",
					    "clusterId",
					    "16777215",
					    "peerIfaceName",
					    "pe",
					    "peerPools",
					    "off",
					    "clustersetCidr",
					    "off",
					    "vxlanPort",
					    "8472",
					    "vethPairNamePrefix",
					    "veth",
					    "uplinkIfaceName",
					    "eth0",
					    "nodePortRange",
					    "1-1000",
					    "natPortRange",
					    "1001-2000",
					    "cniConfFilePath",
					    "/a",
					    "cniBinDir",
					    "/b",
					    "mtu",
					    "1400",
					    "logLevel",
					    "debug",
					    "logFormat",
					    "json",
					    "healthzBindAddress",
					    "127.0.0.1:10000",
					    "metricsBindAddress",
					    "10.0.0.1:10001",
					    "isCPNodesDeployAllowed",
					    "false",
					    "masqueradeAll",
					    "true",
					    "clientAddress",
					    "Keep",
					    "directServerReturn",
					    "true",
					    "localhostNodePorts",
					    "false",
					    "localEndpointWeight",
					    "65535",
					    "networkPolicy",
					    "off",
					    "logDenied",
					    "true",
					    "maglevTableSize",
					    "65521",
					    "sessionTableSize",
					    "16777216",
					    "newSessionTableSize",
					    "1024",
					    "affinityTableSize",
					    "2048",
					    "apiRetryMaxSeconds",
					    "600",
					    NULL };
	const char *const flags[] = { "--cluster-dir", "c", NULL };
	struct mk_config config;
	struct mk_error err = { 0 };
	char buf[MK_CIDR_STRLEN], at[MK_IP_PORT_STRLEN];

	set_environment(environment);
	ck_assert_msg(load(&config, flags, &err) == 0, "%s", err.text);
	ck_assert_str_eq(config.node_name, "n.example");
	ck_assert_str_eq(mk_cidr_format(mk_config_cluster(&config, config.cluster.primary), buf),
			 "10.0.0.0/8");
	ck_assert_str_eq(mk_cidr_format(mk_config_vteps(&config, config.cluster.primary), buf),
			 "172.16.0.0/12");
	ck_assert_str_eq(config.vxlan_iface_name, "vx");
	ck_assert_str_eq(config.sfc_iface_name, "sf");
	ck_assert_str_eq(config.cluster_name, "west-1");
	ck_assert_uint_eq(config.cluster_id, 16777215);
	ck_assert_str_eq(config.peer_iface_name, "pe");
	ck_assert_int_eq(config.peer_pools.of[0].ip.family, AF_UNSPEC);
	ck_assert_int_eq(config.clusterset.of[0].ip.family, AF_UNSPEC);
	ck_assert_uint_eq(config.vxlan_port, 8472);
	ck_assert_str_eq(config.veth_prefix, "veth");
	ck_assert_str_eq(config.uplinks, "eth0");
	ck_assert_uint_eq(config.node_port_min, 1);
	ck_assert_uint_eq(config.node_port_max, 1000);
	ck_assert_uint_eq(config.nat_port_min, 1001);
	ck_assert_uint_eq(config.nat_port_max, 2000);
	ck_assert_str_eq(config.cni_conf_path, "/a");
	ck_assert_str_eq(config.cni_bin_dir, "/b");
	ck_assert_uint_eq(config.mtu_bytes, 1400);
	ck_assert_int_eq(config.log_level, MK_LOG_DEBUG);
	ck_assert_int_eq(config.log_format, MK_LOG_JSON);
	ck_assert_str_eq(mk_ip_port_format(&config.healthz.at[0], at), "127.0.0.1:10000");
	ck_assert_str_eq(mk_ip_port_format(&config.metrics.at[0], at), "10.0.0.1:10001");
	ck_assert(!config.cp_nodes_deploy_allowed);
	ck_assert(config.masquerade_all);
	ck_assert(config.keeps_client);
	ck_assert(config.returns_direct);
	ck_assert(!config.localhost_node_ports);
	ck_assert_uint_eq(config.local_endpoint_weight, 65535);
	ck_assert_int_eq(config.policy_mode, MK_POLICIES_OFF);
	ck_assert_uint_eq(config.maglev_slots, 65521);
	ck_assert_uint_eq(config.session_entries, 16777216);
	ck_assert_uint_eq(config.new_session_entries, 1024);
	ck_assert_uint_eq(config.affinity_entries, 2048);
	ck_assert_uint_eq(config.api_retry_max_s, 600);
	ck_assert(config.log_denied);
}
END_TEST

START_TEST(test_flags_override_environment)
{
	const char *const environment[] = { "mtu", "1400", "logLevel", "", "NODE_NAME", "a", NULL };
	const char *const flags[] = { REQUIRED, "--mtu", "9000", "--uplink-iface-name=", NULL };
	struct mk_config config;
	struct mk_error err = { 0 };

	set_environment(environment);
	ck_assert_msg(load(&config, flags, &err) == 0, "%s", err.text);
	ck_assert_uint_eq(config.mtu_bytes, 9000);
	ck_assert_str_eq(config.node_name, "node1");
	ck_assert_msg(config.log_level == MK_LOG_INFO, "an empty variable counts as not set");
}
END_TEST

#define NO_DIR "--node-name=n", "--cluster-cidr=10.244.0.0/16"

static const struct {
	const char *name, *environment[5], *flags[MAX_WORDS];
	const char *cluster_dir, *kubeconfig, *api_server;
} sources[] = {
	{ "none: the service account", { NULL }, { NO_DIR }, "", "", "" },
	{ "kubeconfig", { NULL }, { NO_DIR, "--kubeconfig=a" }, "", "a", "" },
	{ "KUBECONFIG", { "KUBECONFIG", "/a:/b" }, { NO_DIR }, "", "/a:/b", "" },
	{ "a flag overrides KUBECONFIG",
	  { "KUBECONFIG", "/a" },
	  { NO_DIR, "--kubeconfig", "/b" },
	  "",
	  "/b",
	  "" },
	{ "an empty flag overrides KUBECONFIG",
	  { "KUBECONFIG", "/a" },
	  { NO_DIR, "--kubeconfig=" },
	  "",
	  "",
	  "" },
	{ "API server",
	  { "KUBECONFIG", "/a", "apiServer", "https://10.0.0.1:6443" },
	  { NO_DIR },
	  "",
	  "/a",
	  "https://10.0.0.1:6443" },
	{ "API server at an IPv6 address",
	  { "apiServer", "https://[fd00::1]:6443" },
	  { NO_DIR },
	  "",
	  "",
	  "https://[fd00::1]:6443" },
	{ "--cluster-dir overrides what the environment says of an API server",
	  { "KUBECONFIG", "/a", "apiServer", "https://10.0.0.1:6443" },
	  { REQUIRED },
	  "/c",
	  "",
	  "" },
};

START_TEST(test_source)
{
	struct mk_config config;
	struct mk_error err = { 0 };

	set_environment(sources[_i].environment);
	ck_assert_msg(load(&config, sources[_i].flags, &err) == 0, "%s: %s", sources[_i].name,
		      err.text);
	ck_assert_str_eq(config.cluster_dir, sources[_i].cluster_dir);
	ck_assert_str_eq(config.kubeconfig, sources[_i].kubeconfig);
	ck_assert_str_eq(config.api_server, sources[_i].api_server);
}
END_TEST

static const struct {
	const char *name, *environment[2], *flags[MAX_WORDS];
	const char *error[3]; /* parts of the message: key, value, expectation */
} wrong[] = {
	{ "CIDR in the environment",
	  { "clusterCidr", "10.244.0.0" },
	  { REQUIRED },
	  { "clusterCidr", "'10.244.0.0'", "such as 10.244.0.0/16" } },
	{ "two cluster CIDRs of one family",
	  { NULL },
	  { REQUIRED, "--cluster-cidr", "10.244.0.0/16,10.245.0.0/16" },
	  { "--cluster-cidr", "'10.244.0.0/16,10.245.0.0/16'", "or one of each" } },
	{ "three cluster CIDRs",
	  { NULL },
	  { REQUIRED, "--cluster-cidr", "10.244.0.0/16,fd00:10:244::/48,10.245.0.0/16" },
	  { "--cluster-cidr", "10.245.0.0/16'", "or one of each" } },
	{ "a second VTEP CIDR inside its cluster CIDR",
	  { "vtepCidr", "fd00:10:244:5::/64" },
	  { REQUIRED, "--cluster-cidr", "10.244.0.0/16,fd00:10:244::/48" },
	  { "vtepCidr", "'fd00:10:244:5::/64'", "clusterCidr 'fd00:10:244::/48'" } },
	{ "MTU of two families",
	  { "mtu", "1279" },
	  { REQUIRED, "--cluster-cidr", "10.244.0.0/16,fd00:10:244::/48" },
	  { "mtu", "'1279'", "clusterCidr 'fd00:10:244::/48'" } },
	{ "metrics at a second address of healthz's port",
	  { "metricsBindAddress", "127.0.0.1:1,[::1]:10256" },
	  { REQUIRED },
	  { "metricsBindAddress", "10256" } },
	{ "overlapping IPv6 ranges",
	  { "vtepCidr", "fd00:10:244:5::/64" },
	  { REQUIRED6 },
	  { "vtepCidr", "'fd00:10:244:5::/64'", "clusterCidr 'fd00:10:244::/48'" } },
	{ "IPv6 cluster inside the default VTEPs",
	  { NULL },
	  { REQUIRED6, "--cluster-cidr=fd4d:4b00:12::/64" },
	  { "vtepCidr", "'fd4d:4b00:12::/64'", "not overlap" } },
	{ "MTU too small for IPv6",
	  { "mtu", "1279" },
	  { REQUIRED6 },
	  { "mtu", "'1279'", "1280 to 65535, because clusterCidr 'fd00:10:244::/48' is IPv6" } },
	{ "underlay of no family",
	  { "underlayFamily", "ipv6" },
	  { REQUIRED },
	  { "underlayFamily", "'ipv6'", "auto, IPv4 or IPv6" } },
	{ "encryption",
	  { "encryption", "wireguard" },
	  { REQUIRED },
	  { "encryption", "'wireguard'", "None, WireGuard or WireGuardOnly" } },
	{ "encryption without a port",
	  { "encryption", "WireGuardOnly" },
	  { REQUIRED },
	  { "encryption", "'WireGuardOnly'", "expected wireguardPort" } },
	{ "encryption over IPv6",
	  { "encryption", "WireGuard" },
	  { REQUIRED, "--underlay-family", "IPv6" },
	  { "encryption", "'WireGuard'", "underlayFamily is IPv6" } },
	{ "routing",
	  { "routing", "direct" },
	  { REQUIRED },
	  { "routing", "'direct'", "Auto, Direct or Overlay" } },
	{ "clientAddress",
	  { "clientAddress", "keep" },
	  { REQUIRED },
	  { "clientAddress", "'keep'", "Masquerade or Keep" } },
	{ "direct return without the client's address",
	  { "directServerReturn", "true" },
	  { REQUIRED },
	  { "directServerReturn", "'true'", "expected clientAddress to be Keep" } },
	{ "direct return in VXLAN",
	  { "directServerReturn", "true" },
	  { REQUIRED, "--client-address=Keep", "--routing=Overlay" },
	  { "directServerReturn", "'true'", "expected routing to be Auto or Direct" } },
	{ "direct return with encryption",
	  { "directServerReturn", "true" },
	  { REQUIRED, "--client-address=Keep", "--encryption=WireGuard" },
	  { "directServerReturn", "'true'", "expected encryption to be None" } },
	{ "routing with encryption",
	  { "routing", "Direct" },
	  { REQUIRED, "--encryption=WireGuard", "--wireguard-port=51871" },
	  { "routing", "'Direct'",
	    "expected Overlay or Auto, because encryption is 'WireGuard'" } },
	{ "masquerade of IPv6",
	  { "masqueradeIPv6", "yes" },
	  { REQUIRED },
	  { "masqueradeIPv6", "'yes'", "auto, true or false" } },
	{ "health address without brackets",
	  { "healthzBindAddress", ":::10256" },
	  { REQUIRED },
	  { "healthzBindAddress", "':::10256'", "[::]:10256, two of them" } },
	{ "CIDR longer than an address",
	  { NULL },
	  { REQUIRED, "--vtep-cidr", "fd00::/129" },
	  { "--vtep-cidr", "'fd00::/129'", "an IPv4 range, an IPv6 range" } },
	{ "overlapping ranges",
	  { "vtepCidr", "10.244.128.0/24" },
	  { REQUIRED },
	  { "vtepCidr", "'10.244.128.0/24'", "not overlap" } },
	{ "overlapping ranges, the other way",
	  { "vtepCidr", "10.0.0.0/8" },
	  { REQUIRED },
	  { "vtepCidr", "'10.0.0.0/8'", "clusterCidr '10.244.0.0/16'" } },
	{ "NAT ports inside node ports",
	  { "natPortRange", "32767-40000" },
	  { REQUIRED },
	  { "natPortRange", "'32767-40000'", "nodePortRange '30000-32767'" } },
	{ "VXLAN port inside NAT ports",
	  { "vxlanPort", "50000" },
	  { REQUIRED },
	  { "vxlanPort", "'50000'", "outside" } },
	{ "range backwards",
	  { "nodePortRange", "32767-30000" },
	  { REQUIRED },
	  { "nodePortRange", "'32767-30000'", "the smaller first" } },
	{ "range of one word",
	  { "nodePortRange", "30000" },
	  { REQUIRED },
	  { "nodePortRange", "'30000'", "two ports" } },
	{ "port 0",
	  { NULL },
	  { REQUIRED, "--vxlan-port=0" },
	  { "--vxlan-port", "'0'", "1 to 65535" } },
	{ "port too large",
	  { NULL },
	  { REQUIRED, "--vxlan-port=65536" },
	  { "--vxlan-port", "'65536'", "1 to 65535" } },
	{ "number far too large",
	  { NULL },
	  { REQUIRED, "--vxlan-port=99999999999999999999999" },
	  { "--vxlan-port", "'99999999999999999999999'", "1 to 65535" } },
	{ "number with a sign",
	  { NULL },
	  { REQUIRED, "--mtu=+1400" },
	  { "--mtu", "'+1400'", "576" } },
	{ "number with a blank", { "mtu", "1400 " }, { REQUIRED }, { "mtu", "'1400 '", "576" } },
	{ "number with a leading zero", { "mtu", "01400" }, { REQUIRED }, { "mtu", "'01400'" } },
	{ "Maglev table of a size that is no prime",
	  { "maglevTableSize", "1024" },
	  { REQUIRED },
	  { "maglevTableSize", "'1024'", "one of 251, 509, 1021" } },
	{ "Maglev table of another prime",
	  { NULL },
	  { REQUIRED, "--maglev-table-size=1019" },
	  { "--maglev-table-size", "'1019'", "32749 or 65521" } },
	{ "Maglev table of no size",
	  { NULL },
	  { REQUIRED, "--maglev-table-size=0" },
	  { "--maglev-table-size", "'0'", "one of 251" } },
	{ "session table too small",
	  { "sessionTableSize", "1023" },
	  { REQUIRED },
	  { "sessionTableSize", "'1023'", "from 1024 to 16777216" } },
	{ "session table too large",
	  { NULL },
	  { REQUIRED, "--new-session-table-size=16777217" },
	  { "newSessionTableSize", "'16777217'", "from 1024 to 16777216" } },
	{ "affinity table too small",
	  { "affinityTableSize", "1" },
	  { REQUIRED },
	  { "affinityTableSize", "'1'", "from 1024 to 16777216" } },
	{ "MTU too small",
	  { "mtu", "100" },
	  { REQUIRED },
	  { "mtu", "'100'", "576 (with IPv6: 1280) to 65535" } },
	{ "veth prefix too long",
	  { "vethPairNamePrefix", "veths" },
	  { REQUIRED },
	  { "vethPairNamePrefix", "'veths'", "1 to 4" } },
	{ "device name too long",
	  { "vxlanIfaceName", "a234567890123456" },
	  { REQUIRED },
	  { "vxlanIfaceName", "'a234567890123456'", "1 to 15 characters" } },
	{ "device name of the host pair",
	  { "vxlanIfaceName", "mkhost0" },
	  { REQUIRED },
	  { "vxlanIfaceName", "'mkhost0'", "host veth pair" } },
	{ "uplink is the overlay",
	  { "uplinkIfaceName", "mkvxlan" },
	  { REQUIRED },
	  { "uplinkIfaceName", "'mkvxlan'", "other than" } },
	{ "one of the uplinks is the overlay",
	  { "uplinkIfaceName", "eth0,mkvxlan" },
	  { REQUIRED },
	  { "uplinkIfaceName", "'eth0,mkvxlan'", "other than" } },
	{ "device of chains with the overlay's name",
	  { "sfcIfaceName", "mkvxlan" },
	  { REQUIRED },
	  { "sfcIfaceName", "'mkvxlan'", "other than vxlanIfaceName" } },
	{ "device of chains with a name of the host pair",
	  { "sfcIfaceName", "mkhost1" },
	  { REQUIRED },
	  { "sfcIfaceName", "'mkhost1'", "host veth pair" } },
	{ "uplink is the device of chains",
	  { "uplinkIfaceName", "eth0,mksfc" },
	  { REQUIRED },
	  { "uplinkIfaceName", "'eth0,mksfc'", "other than sfcIfaceName" } },
	{ "device of peers with the overlay's name",
	  { "peerIfaceName", "mkvxlan" },
	  { REQUIRED },
	  { "peerIfaceName", "'mkvxlan'", "other than vxlanIfaceName" } },
	{ "device of peers with the name of that of chains",
	  { "peerIfaceName", "mksfc" },
	  { REQUIRED },
	  { "peerIfaceName", "'mksfc'", "other than sfcIfaceName" } },
	{ "uplink is the device of peers",
	  { "uplinkIfaceName", "eth0,mkpeer" },
	  { REQUIRED },
	  { "uplinkIfaceName", "'eth0,mkpeer'", "other than peerIfaceName" } },
	{ "a cluster's name of two labels",
	  { "clusterName", "a.b" },
	  { REQUIRED },
	  { "clusterName", "'a.b'", "1 to 63 lower case letters" } },
	{ "a cluster's name of 64 characters",
	  { "clusterName", "a123456789012345678901234567890123456789012345678901234567890123" },
	  { REQUIRED },
	  { "clusterName", "'a1234567", "1 to 63 lower case letters" } },
	{ "a cluster's number of 25 bits",
	  { "clusterId", "16777216" },
	  { REQUIRED },
	  { "clusterId", "'16777216'", "0 to 16777215" } },
	{ "synRate",
	  { "synRate", "1000001" },
	  { REQUIRED },
	  { "synRate", "'1000001'", "0 to 1000000" } },
	{ "pools for views with the cluster's range",
	  { "clusterName", "west" },
	  { REQUIRED, "--peer-pools=10.0.0.0/6" },
	  { "peerPools", "'8.0.0.0/6'", "does not overlap clusterCidr" } },
	{ "the clusterset's range with the cluster's range",
	  { "clusterName", "west" },
	  { REQUIRED, "--clusterset-cidr=10.0.0.0/8" },
	  { "clustersetCidr", "'10.0.0.0/8'", "does not overlap clusterCidr" } },
	{ "the clusterset's range with the overlay's",
	  { "clusterName", "west" },
	  { REQUIRED, "--clusterset-cidr=10.18.0.0/24" },
	  { "clustersetCidr", "'10.18.0.0/24'", "does not overlap vtepCidr" } },
	{ "the clusterset's range with the views'",
	  { "clusterName", "west" },
	  { REQUIRED, "--clusterset-cidr=241.0.0.0/16" },
	  { "clustersetCidr", "'241.0.0.0/16'", "does not overlap peerPools" } },
	{ "two ranges of the clusterset of one family",
	  { "clustersetCidr", "247.254.0.0/16,247.253.0.0/16" },
	  { REQUIRED },
	  { "clustersetCidr", "247.253.0.0/16'", "one of each, or off" } },
	{ "two pools of one family",
	  { "peerPools", "240.0.0.0/6,10.0.0.0/8" },
	  { REQUIRED },
	  { "peerPools", "'240.0.0.0/6,10.0.0.0/8'", "one of each, or off" } },
	{ "an uplink without a name",
	  { "uplinkIfaceName", "eth0,,eth1" },
	  { REQUIRED },
	  { "uplinkIfaceName", "'eth0,,eth1'", "commas between" } },
	{ "an uplink less than its comma says",
	  { "uplinkIfaceName", "eth0," },
	  { REQUIRED },
	  { "uplinkIfaceName", "'eth0,'" } },
	{ "NodePorts at no range",
	  { NULL },
	  { REQUIRED, "--node-port-addresses=10.0.0.0/8,192.0.2.1/33" },
	  { "--node-port-addresses", "'10.0.0.0/8,192.0.2.1/33'", "IPv4 or IPv6 ranges" } },
	{ "bool",
	  { "isCPNodesDeployAllowed", "True" },
	  { REQUIRED },
	  { "isCPNodesDeployAllowed", "'True'", "true or false" } },
	{ "weight 0",
	  { "localEndpointWeight", "0" },
	  { REQUIRED },
	  { "localEndpointWeight", "'0'", "1 to 65535" } },
	{ "pause 0",
	  { "apiRetryMaxSeconds", "0" },
	  { REQUIRED },
	  { "apiRetryMaxSeconds", "'0'", "1 to 65535" } },
	{ "network policies",
	  { "networkPolicy", "true" },
	  { REQUIRED },
	  { "networkPolicy", "'true'", "enforce, audit or off" } },
	{ "log format",
	  { "logFormat", "xml" },
	  { REQUIRED },
	  { "logFormat", "'xml'", "text or json" } },
	{ "log level",
	  { "logLevel", "verbose" },
	  { REQUIRED },
	  { "logLevel", "'verbose'", "error, warn, info or debug" } },
	{ "health address without a port",
	  { "healthzBindAddress", "0.0.0.0" },
	  { REQUIRED },
	  { "healthzBindAddress", "'0.0.0.0'",
	    "such as 0.0.0.0:10256 or [::]:10256, two of them" } },
	{ "health address empty",
	  { NULL },
	  { REQUIRED, "--healthz-bind-address", "" },
	  { "--healthz-bind-address", "''", "or off" } },
	{ "health port inside NodePorts",
	  { "healthzBindAddress", "0.0.0.0:30000" },
	  { REQUIRED },
	  { "healthzBindAddress", "30000", "outside nodePortRange" } },
	{ "health port inside NAT ports",
	  { "healthzBindAddress", "0.0.0.0:50000" },
	  { REQUIRED },
	  { "healthzBindAddress", "50000", "natPortRange" } },
	{ "metrics address without a port",
	  { "metricsBindAddress", "127.0.0.1" },
	  { REQUIRED },
	  { "metricsBindAddress", "'127.0.0.1'",
	    "such as 127.0.0.1:10249 or [::1]:10249, two of them" } },
	{ "metrics port inside NAT ports",
	  { "metricsBindAddress", "127.0.0.1:50000" },
	  { REQUIRED },
	  { "metricsBindAddress", "50000", "natPortRange" } },
	{ "metrics port of healthz",
	  { "metricsBindAddress", "127.0.0.1:10256" },
	  { REQUIRED },
	  { "metricsBindAddress", "10256", "healthzBindAddress" } },
	{ "relative path",
	  { NULL },
	  { REQUIRED, "--state-dir", "state" },
	  { "--state-dir", "'state'", "absolute path" } },
	{ "node name with capitals",
	  { NULL },
	  { REQUIRED, "--node-name", "Node1" },
	  { "--node-name", "'Node1'", "Node object" } },
	{ "empty flag",
	  { NULL },
	  { REQUIRED, "--cluster-cidr", "" },
	  { "--cluster-cidr", "''", "an IPv4 range, an IPv6 range" } },
	{ "unknown flag",
	  { NULL },
	  { REQUIRED, "--cluster-cider", "10.0.0.0/8" },
	  { "unknown flag", "'--cluster-cider'", "did you mean --cluster-cidr? --help" } },
	{ "the key of the ConfigMap as a flag",
	  { NULL },
	  { REQUIRED, "--clusterCidr", "10.0.0.0/8" },
	  { "unknown flag", "'--clusterCidr'", "did you mean --cluster-cidr?" } },
	{ "unknown short flag", { NULL }, { REQUIRED, "-n" }, { "unknown flag", "'-n'" } },
	{ "unknown short flags, joined",
	  { NULL },
	  { REQUIRED, "-no" },
	  { "unknown flag", "'-no'" } },
	{ "ambiguous flag", { NULL }, { REQUIRED, "--node", "a" }, { "unknown flag", "'--node'" } },
	{ "flag cut short",
	  { NULL },
	  { REQUIRED, "--node-na", "node1" },
	  { "'--node-na'", "is abbreviated", "--node-name" } },
	{ "flag cut short, with =",
	  { NULL },
	  { REQUIRED, "--vxlan-p=1" },
	  { "'--vxlan-p=1'", "is abbreviated", "--vxlan-port" } },
	{ "flag without value", { NULL }, { REQUIRED, "--mtu" }, { "'--mtu'", "needs a value" } },
	{ "argument that is no flag",
	  { NULL },
	  { REQUIRED, "node1" },
	  { "unexpected argument", "'node1'" } },
	{ "no node name",
	  { NULL },
	  { "--cluster-dir=/c", "--cluster-cidr=10.244.0.0/16" },
	  { "NODE_NAME is not set", "--node-name" } },
	{ "no cluster CIDR",
	  { NULL },
	  { "--cluster-dir=/c", "--node-name=n" },
	  { "clusterCidr is not set", "such as", "--cluster-cidr" } },
	{ "two sources",
	  { NULL },
	  { REQUIRED, "--kubeconfig", "/k" },
	  { "--kubeconfig", "'/k'", "--cluster-dir '/c' is given too" } },
	{ "an API server for a cluster directory",
	  { NULL },
	  { REQUIRED, "--api-server", "https://a:1" },
	  { "--api-server", "'https://a:1'", "--cluster-dir '/c' is given too" } },
	{ "API server without TLS",
	  { "apiServer", "http://10.0.0.1:8080" },
	  { REQUIRED },
	  { "apiServer", "'http://10.0.0.1:8080'", "such as https://" } },
};

START_TEST(test_wrong_value)
{
	const char *environment[3] = { wrong[_i].environment[0], wrong[_i].environment[1], NULL };
	struct mk_config config;
	struct mk_error err = { 0 };

	set_environment(environment);
	ck_assert_msg(load(&config, wrong[_i].flags, &err) < 0, "%s", wrong[_i].name);
	for (size_t i = 0; i < MK_ARRAY_SIZE(wrong[_i].error) && wrong[_i].error[i]; i++)
		ck_assert_msg(strstr(err.text, wrong[_i].error[i]), "%s: no \"%s\" in \"%s\"",
			      wrong[_i].name, wrong[_i].error[i], err.text);
}
END_TEST

/* Return what load() prints to standard output. */
static int load_quietly(const char *const *flags, char *printed, size_t size)
{
	cleanup_fclose FILE *file = tmpfile();
	int ret, saved = dup(STDOUT_FILENO);
	struct mk_config config;
	struct mk_error err = { 0 };

	ck_assert(file && saved >= 0);
	fflush(stdout);
	ck_assert_int_ge(dup2(fileno(file), STDOUT_FILENO), 0);
	ret = load(&config, flags, &err);
	fflush(stdout);
	ck_assert_int_ge(dup2(saved, STDOUT_FILENO), 0);
	close(saved);
	rewind(file);
	printed[fread(printed, 1, size - 1, file)] = '\0';
	return ret;
}

/* The settings in force, or the error, and nothing else. */
START_TEST(test_check_config)
{
	const char *const environment[] = { "vtepCidr", "100.64.0.0/16", "KUBECONFIG", "/k", NULL };
	const char *const flags[] = { "--check-config", REQUIRED, "--mtu=1400", NULL };
	const char *const wrong_flags[] = { REQUIRED, "--check-config", "--mtu=1", NULL };
	const char *const parts[] = { "NODE_NAME=node1\n", "vtepCidr=100.64.0.0/16\n", "mtu=1400\n",
				      "KUBECONFIG=\n", "healthzBindAddress=0.0.0.0:10256\n" };
	char printed[8192];

	set_environment(environment);
	ck_assert_int_eq(load_quietly(flags, printed, sizeof(printed)), 1);
	for (size_t i = 0; i < MK_ARRAY_SIZE(parts); i++)
		ck_assert_msg(strstr(printed, parts[i]), "no \"%s\" in %s", parts[i], printed);
	ck_assert_int_lt(load_quietly(wrong_flags, printed, sizeof(printed)), 0);
	ck_assert_str_eq(printed, "");
}
END_TEST

START_TEST(test_help)
{
	const char *const none[] = { NULL }, *const flags[] = { "--help", NULL };
	const char *const parts[] = { "usage: monokube agent",
				      "--cluster-cidr CIDRS  (clusterCidr)", "--bpf-dir",
				      "default 30000-32767", "required" };
	char printed[16384];

	set_environment(none);
	ck_assert_int_eq(load_quietly(flags, printed, sizeof(printed)), 1);
	for (size_t i = 0; i < MK_ARRAY_SIZE(parts); i++)
		ck_assert_msg(strstr(printed, parts[i]), "no \"%s\" in the help", parts[i]);
}
END_TEST

/* ---- the table ------------------------------------------------------------------------------- */

/* A setting's text in help, manual page and settings table is one line that fits into a table. */
START_TEST(test_setting)
{
	struct mk_setting setting;

	ck_assert(mk_config_setting((size_t)_i, &setting));
	for (const char *c = setting.flag; *c; c++)
		ck_assert_msg((*c >= 'a' && *c <= 'z') || *c == '-' || *c == '6', "--%s",
			      setting.flag);
	ck_assert_msg(*setting.value && *setting.expected && *setting.help, "--%s", setting.flag);
	ck_assert_msg(!strpbrk(setting.help, "|\n`") && !strpbrk(setting.expected, "|\n`"),
		      "--%s: '%s' (%s) does not fit into a table", setting.flag, setting.help,
		      setting.expected);
	ck_assert_msg(setting.help[strlen(setting.help) - 1] != '.', "--%s: '%s'", setting.flag,
		      setting.help);
}
END_TEST

static size_t setting_count(void)
{
	struct mk_setting setting;
	size_t count = 0;

	while (mk_config_setting(count, &setting))
		count++;
	return count;
}

/* Three columns, so that the page does not scroll sideways. */
static const char *readme_row(const struct mk_setting *setting)
{
	static char line[1024];
	const char *fallback = setting->fallback ? setting->fallback : "required";
	const char *quote = setting->fallback && *fallback ? "`" : "";

	snprintf(line, sizeof(line), "| %s%s%s`--%s` | %s%s%s | %s<br>Value: %s |\n",
		 setting->key ? "`" : "", setting->key ? setting->key : "",
		 setting->key ? "`<br>" : "", setting->flag, quote, fallback, quote, setting->help,
		 setting->expected);
	return line;
}

START_TEST(test_readme)
{
	cleanup_free char *readme = NULL;
	struct mk_setting setting;
	struct mk_error err = { 0 };
	const char *at;

	ck_ok(mk_file_read("src/config/README.md", 1 << 20, &readme, NULL, &err));
	at = readme;
	for (size_t i = 0; mk_config_setting(i, &setting); i++) {
		const char *line = readme_row(&setting), *found = strstr(at, line);

		ck_assert_msg(found && (i == 0 || found == at),
			      "src/config/README.md lacks, or has at another place (`make docs` "
			      "puts it right): %s",
			      line);
		at = found + strlen(line);
	}
	ck_assert_msg(strncmp(at, "| ", 2) != 0, "src/config/README.md has one more: %.60s", at);
}
END_TEST

int unit_print_table(void)
{
	struct mk_setting setting;

	printf("| key, flag | default | meaning |\n| --- | --- | --- |\n");
	for (size_t i = 0; mk_config_setting(i, &setting); i++)
		printf("%s", readme_row(&setting));
	return EXIT_SUCCESS;
}

UNIT_SUITE("config")
{
	TCase *tc = unit_case(suite, "load", NULL, NULL);

	tcase_add_loop_test(tc, test_setting, 0, (int)setting_count());
	tcase_add_test(tc, test_readme);
	tcase_add_test(tc, test_defaults);
	tcase_add_test(tc, test_ipv6_defaults);
	tcase_add_loop_test(tc, test_families, 0, MK_ARRAY_SIZE(families));
	tcase_add_loop_test(tc, test_two_families, 0, MK_ARRAY_SIZE(two_families));
	tcase_add_test(tc, test_no_listeners);
	tcase_add_test(tc, test_environment);
	tcase_add_test(tc, test_lists);
	tcase_add_test(tc, test_flags_override_environment);
	tcase_add_loop_test(tc, test_source, 0, MK_ARRAY_SIZE(sources));
	tcase_add_loop_test(tc, test_wrong_value, 0, MK_ARRAY_SIZE(wrong));
	tcase_add_test(tc, test_check_config);
	tcase_add_test(tc, test_help);
}

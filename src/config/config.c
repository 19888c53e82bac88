// SPDX-License-Identifier: Apache-2.0
/* One table has everything about a setting: ConfigMap key, flag, default, parser and field. The
 * environment, flags, --help, the manual page and src/config/README.md all use it. */
#include "config/config.h"

#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/suggest.h"
#include "config/parse.h"
#include "config/together.h"

struct setting {
	const char *env; /* the ConfigMap key; NULL: flag only */
	const char *flag;
	const char *value; /* name of the value in --help */
	const char *fallback; /* parsed like any text; NULL: required, "": empty */
	const char *expected; /* completes "expected ..." */
	const char *help;
	parse_fn *parse;
	size_t offset, size;
};

#define IPV6_VTEPS "fd4d:4b00:12::/64"

/* The defaults of an IPv6 clusterCidr, and of two ranges. */
static const struct {
	const char *env, *ipv6, *both;
} family_fallbacks[] = {
	{ "vtepCidr", IPV6_VTEPS, "10.18.0.0/16," IPV6_VTEPS },
	{ "healthzBindAddress", "[::]:10256", "0.0.0.0:10256,[::]:10256" },
	{ "metricsBindAddress", "[::1]:10249", "127.0.0.1:10249,[::1]:10249" },
};

/* clang-format off */
#define FIELD(member) offsetof(struct mk_config, member), sizeof(((struct mk_config *)0)->member)
/* a range fills two adjacent fields */
#define RANGE(member) offsetof(struct mk_config, member##_min), 2 * sizeof(uint16_t)

static const struct setting settings[] = {
	{ "NODE_NAME", "node-name", "NAME", NULL, "a Node object's name: lower case letters, digits, '-' and '.'",
	  "this machine's Node object", parse_dns_name, FIELD(node_name) },
	{ NULL, "cluster-dir", "DIR", "", "a directory of YAML or JSON files",
	  "Kubernetes objects as YAML or JSON files, followed instead of an API server",
	  parse_text, FIELD(cluster_dir) },
	{ "KUBECONFIG", "kubeconfig", "FILE", "", "a path",
	  "credentials for the API server; empty: the pod's service account", parse_text, FIELD(kubeconfig) },
	{ "apiServer", "api-server", "URL", "", "a URL such as https://10.0.0.1:6443",
	  "URL that replaces the one from the kubeconfig or service account",
	  parse_url_or_empty, FIELD(api_server) },
	{ "apiRetryMaxSeconds", "api-retry-max-seconds", "SECONDS", "30", "a number from 1 to 65535",
	  "longest pause between attempts to reach an unavailable API server", parse_port,
	  FIELD(api_retry_max_s) },
	{ "clusterCidr", "cluster-cidr", "CIDRS", NULL, "an IPv4 range, an IPv6 range, or one of each, such as 10.244.0.0/16,fd00:10:244::/48",
	  "ranges of all pod addresses; the first has the primary family", parse_ranges, FIELD(cluster) },
	{ "vtepCidr", "vtep-cidr", "CIDRS", "10.18.0.0/16", "an IPv4 range, an IPv6 range, or one of each, such as 10.18.0.0/16",
	  "ranges of the nodes' overlay addresses; the default for IPv6 is " IPV6_VTEPS,
	  parse_ranges, FIELD(vteps) },
	{ "underlayFamily", "underlay-family", "FAMILY", "auto", "auto, IPv4 or IPv6",
	  "family of the nodes' addresses between which the overlay sends; auto: IPv4 if clusterCidr has an IPv4 range",
	  parse_family, FIELD(underlay_family) },
	{ "vxlanIfaceName", "vxlan-iface-name", "NAME", "mkvxlan", MK_EXPECTED_IFNAME,
	  "VXLAN device to create", parse_ifname, FIELD(vxlan_iface_name) },
	{ "sfcIfaceName", "sfc-iface-name", "NAME", "mksfc", MK_EXPECTED_IFNAME,
	  "VXLAN device to create for service function chains between nodes", parse_ifname,
	  FIELD(sfc_iface_name) },
	{ "clusterName", "cluster-name", "NAME", "", MK_EXPECTED_CLUSTER_NAME,
	  "name of this cluster for other clusters (ClusterPeers); empty: it has no peers",
	  parse_cluster_name_or_empty, FIELD(cluster_name) },
	{ "clusterId", "cluster-id", "N", "0", "a number from 0 to 16777215",
	  "number of this cluster for other clusters, different from theirs; 0: computed from clusterName",
	  parse_cluster_id, FIELD(cluster_id) },
	{ "peerIfaceName", "peer-iface-name", "NAME", "mkpeer", MK_EXPECTED_IFNAME,
	  "VXLAN device to create for packets between clusters, with clusterName only", parse_ifname,
	  FIELD(peer_iface_name) },
	{ "wireguardPort", "wireguard-port", "PORT", "0", "0 (off) or a port from 1 to 65535",
	  "UDP port of WireGuard, for encryption in this ConfigMap and in ClusterPeers; 0: this node cannot encrypt",
	  parse_port_or_zero, FIELD(wireguard_port) },
	{ "encryption", "encryption", "MODE", "None", "None, WireGuard or WireGuardOnly",
	  "the overlay between the nodes of this cluster; WireGuard: encrypted to nodes that have a key; WireGuardOnly: packets of the overlay neither leave nor enter unencrypted",
	  parse_encryption, FIELD(encryption) },
	{ "routing", "routing", "MODE", "Auto", "Auto, Direct or Overlay",
	  "packets to other nodes of this cluster; Overlay: in VXLAN; Direct: to nodes on the same link without VXLAN, and others are reported; Auto: to those that answer probes on the link, with the MTU of Overlay",
	  parse_routing, FIELD(routing) },
	{ "peerPools", "peer-pools", "CIDRS", "240.0.0.0/6", "an IPv4 range, an IPv6 range, one of each, or off",
	  "ranges for the views of peers' pods; packets to an address in them that is no peer's are dropped; off: none",
	  parse_ranges_or_off, FIELD(peer_pools) },
	{ "clustersetCidr", "clusterset-cidr", "CIDRS", "247.254.0.0/16,fd6d:6b63:7300::/112", "an IPv4 range, an IPv6 range, one of each, or off",
	  "ranges of the addresses of Services that other clusters export (ServiceImports), with clusterName only; off: they get none",
	  parse_ranges_or_off, FIELD(clusterset) },
	{ "externalCidr", "external-cidr", "CIDRS", "247.255.0.0/20,fd6d:6b65:7800::/112", "an IPv4 range, an IPv6 range, one of each, or off",
	  "ranges of the addresses by which other clusters reach exported endpoints that are no pods, with clusterName only; off: these are left out",
	  parse_ranges_or_off, FIELD(externals) },
	{ "vxlanPort", "vxlan-port", "PORT", "4789", "a port from 1 to 65535",
	  "UDP port of the overlay", parse_port, FIELD(vxlan_port) },
	{ "vethPairNamePrefix", "veth-pair-name-prefix", "TEXT", "mk",
	  "1 to 4 letters, digits, '-' or '_'",
	  "prefix of the names of pods' host devices", parse_veth_prefix, FIELD(veth_prefix) },
	{ "uplinkIfaceName", "uplink-iface-name", "NAMES", "", MK_EXPECTED_IFNAMES,
	  "devices that lead out of the node; empty: all with an address or a route",
	  parse_ifnames_or_empty, FIELD(uplinks) },
	{ "nodePortRange", "node-port-range", "MIN-MAX", "30000-32767", MK_EXPECTED_PORT_RANGE,
	  "NodePorts of Services, reserved on the host; NodePorts outside this range work too, and are logged", parse_port_range, RANGE(node_port) },
	{ "nodePortAddresses", "node-port-addresses", "CIDRS", "", "at most 16 IPv4 or IPv6 ranges, with commas between",
	  "ranges of the addresses of this host and its Node object that serve NodePorts; empty: the Node object's",
	  parse_cidrs_or_empty, FIELD(node_port_addresses) },
	{ "natPortRange", "nat-port-range", "MIN-MAX", "49152-65535", MK_EXPECTED_PORT_RANGE,
	  "source ports of masqueraded traffic, reserved on the host", parse_port_range, RANGE(nat_port) },
	{ "cniConfFilePath", "cni-conf-file-path", "FILE", "/etc/cni/net.d/10-monokube.conflist",
	  MK_EXPECTED_PATH, "CNI configuration to write", parse_path, FIELD(cni_conf_path) },
	{ "cniBinDir", "cni-bin-dir", "DIR", "/opt/cni/bin", MK_EXPECTED_PATH,
	  "where to install the CNI plugin", parse_path, FIELD(cni_bin_dir) },
	{ "mtu", "mtu", "BYTES", "0", "0 (detect) or a number from 576 (with IPv6: 1280) to 65535",
	  "MTU of the overlay; 0: the uplink's less 50 bytes for VXLAN (over IPv6: 70), and with encryption less 60 more", parse_mtu, FIELD(mtu_bytes) },
	{ "logLevel", "log-level", "LEVEL", "info", "error, warn, info or debug",
	  "the most verbose level that is written", parse_log_level, FIELD(log_level) },
	{ "logFormat", "log-format", "FORMAT", "text", "text or json",
	  "one line per event: words with key=value, or an object with time, level, msg and the same keys",
	  parse_log_format, FIELD(log_format) },
	{ "healthzBindAddress", "healthz-bind-address", "ADDRESSES", "0.0.0.0:10256",
	  "an address and port such as 0.0.0.0:10256 or [::]:10256, two of them with a comma between, or off",
	  "addresses of /healthz and /livez; off: none; with an IPv6 clusterCidr the default is [::]:10256, with two ranges both", parse_listens_or_off, FIELD(healthz) },
	{ "metricsBindAddress", "metrics-bind-address", "ADDRESSES", "127.0.0.1:10249",
	  "an address and port such as 127.0.0.1:10249 or [::1]:10249, two of them with a comma between, or off",
	  "addresses of /metrics, /metrics/services, /metrics/policies, /metrics/chains and /proxyMode; off: none; with an IPv6 clusterCidr the default is [::1]:10249, with two ranges both", parse_listens_or_off, FIELD(metrics) },
	{ "isCPNodesDeployAllowed", "is-cp-nodes-deploy-allowed", "BOOL", "true", "true or false",
	  "false: the agent sets up nothing on nodes with the control-plane label", parse_bool, FIELD(cp_nodes_deploy_allowed) },
	{ "masqueradeAll", "masquerade-all", "BOOL", "false", "true or false",
	  "masquerade all traffic to ClusterIPs, like kube-proxy's --masquerade-all",
	  parse_bool, FIELD(masquerade_all) },
	{ "clientAddress", "client-address", "MODE", "Masquerade", "Masquerade or Keep",
	  "clients outside that reach a pod by a NodePort, external or load-balancer address with policy Cluster; Masquerade: the pod sees a node; Keep: it sees the client, also on another node",
	  parse_client_address, FIELD(keeps_client) },
	{ "directServerReturn", "direct-server-return", "BOOL", "false", "true or false",
	  "with clientAddress Keep: a pod's node on the link answers the client itself, with the address that the client asked; the network must accept that",
	  parse_bool, FIELD(returns_direct) },
	{ "masqueradeIPv6", "masquerade-ipv6", "CHOICE", "auto", "auto, true or false",
	  "masquerade IPv6 traffic that leaves the cluster; auto: unless the node's pod CIDR is public",
	  parse_choice, FIELD(masquerade_ipv6) },
	{ "networkPolicy", "network-policy", "MODE", "enforce", "enforce, audit or off",
	  "network policies; audit: what they forbid passes and is reported; off: none applies, and no service function chain; the agent does not read them",
	  parse_policy_mode, FIELD(policy_mode) },
	{ "logDenied", "log-denied", "BOOL", "false", "true or false",
	  "log a line for each flow that network policies deny: thirty at once, then one a second", parse_bool, FIELD(log_denied) },
	{ "localhostNodePorts", "localhost-node-ports", "BOOL", "true", "true or false",
	  "the host's processes also reach NodePorts at 127.0.0.1, like kube-proxy's --iptables-localhost-nodeports",
	  parse_bool, FIELD(localhost_node_ports) },
	{ "localEndpointWeight", "local-endpoint-weight", "N", "1", "a number from 1 to 65535",
	  "weight of this node's endpoints for clients on this node (pods and the host); others weigh 1; clients outside are spread evenly", parse_port, FIELD(local_endpoint_weight) },
	{ "maglevTableSize", "maglev-table-size", "N", "1021", MK_EXPECTED_MAGLEV_SLOTS,
	  "slots of the Maglev table of each Service reached from outside; must be equal on every node",
	  parse_maglev_slots, FIELD(maglev_slots) },
	{ "sessionTableSize", "session-table-size", "N", "524288", MK_EXPECTED_TABLE_SIZE,
	  "entries for established connections through Services, and as many for masqueraded ones",
	  parse_table_size, FIELD(session_entries) },
	{ "newSessionTableSize", "new-session-table-size", "N", "65536", MK_EXPECTED_TABLE_SIZE,
	  "entries for connections through Services not yet established, and as many for masqueraded ones; the oldest are evicted",
	  parse_table_size, FIELD(new_session_entries) },
	{ "affinityTableSize", "affinity-table-size", "N", "65536", MK_EXPECTED_CLIENTS,
	  "clients of Services with session affinity that have had a connection, and as many that have sent first packets only; those unused for longest are evicted",
	  parse_table_size, FIELD(affinity_entries) },
	{ "synRate", "syn-rate", "N", "0", "a number from 0 to 1000000",
	  "new TCP connections from outside, per second and processor, that open without a proof of the client's address; above it a client proves that it receives what is sent to its address; 0: all open without",
	  parse_syn_rate, FIELD(syn_rate) },
	{ NULL, "proc-sys-dir", "DIR", "/proc/sys", MK_EXPECTED_PATH,
	  "directory where the host's /proc/sys is writable", parse_path, FIELD(proc_sys_dir) },
	{ NULL, "state-dir", "DIR", MK_STATE_DIR, MK_EXPECTED_PATH,
	  "pods' addresses, locks and files of the agent", parse_path, FIELD(state_dir) },
	{ NULL, "bpf-dir", "DIR", MK_BPF_DIR, MK_EXPECTED_PATH,
	  "pinned tables and programs, below a bpf file system", parse_path, FIELD(bpf_dir) },
};
/* clang-format on */

_Static_assert(MK_ARRAY_SIZE(settings) <= MK_SETTINGS_MAX, "raise MK_SETTINGS_MAX");

static int set(struct mk_config *config, const struct setting *setting, const char *text)
{
	int ret = setting->parse(text, (char *)config + setting->offset, setting->size);

	if (ret == 0)
		config->texts[setting - settings] = text;
	return ret;
}

static const char *name_of(const struct setting *setting)
{
	return setting->env ? setting->env : setting->flag;
}

static const char *fallback_of(const struct mk_config *config, const struct setting *setting)
{
	if (!setting->env || !mk_config_has(config, AF_INET6))
		return setting->fallback;
	for (size_t i = 0; i < MK_ARRAY_SIZE(family_fallbacks); i++)
		if (strcmp(setting->env, family_fallbacks[i].env) == 0)
			return mk_config_has(config, AF_INET) ? family_fallbacks[i].both
							      : family_fallbacks[i].ipv6;
	return setting->fallback;
}

static int set_fallback(struct mk_config *config, const struct setting *setting,
			struct mk_error *err)
{
	const char *fallback = fallback_of(config, setting);

	if (!fallback || set(config, setting, fallback) == 0)
		return 0;
	return mk_error_set(err, EINVAL, "--%s: default '%s' is not %s", setting->flag, fallback,
			    setting->expected);
}

/* A family of clusterCidr without a range in vtepCidr has the default. */
static int load_vteps(struct mk_config *config, const struct setting *setting, struct mk_error *err)
{
	const char *text = config->texts[setting - settings];
	const struct mk_ranges given = config->vteps;
	int ret = set_fallback(config, setting, err);

	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++) {
		if (config->cluster.of[i].ip.family == AF_UNSPEC) {
			config->vteps.of[i] = config->cluster.of[i];
		} else if (given.of[i].ip.family != AF_UNSPEC) {
			config->vteps.of[i] = given.of[i];
			config->texts[setting - settings] = text;
		}
	}
	config->vteps.primary = config->cluster.primary;
	return ret;
}

/* The families of clusterCidr choose some defaults, so this comes after environment and flags. */
static int load_defaults(struct mk_config *config, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_ARRAY_SIZE(settings); i++)
		if (settings[i].offset == offsetof(struct mk_config, vteps))
			ret = load_vteps(config, &settings[i], err);
		else if (!config->texts[i])
			ret = set_fallback(config, &settings[i], err);
	if (ret < 0)
		return ret;
	if (config->underlay_family == AF_UNSPEC)
		config->underlay_family = mk_config_has(config, AF_INET) ? AF_INET : AF_INET6;
	return 0;
}

/* A ConfigMap key with an empty value counts as unset: manifests list every key. */
static int load_environment(struct mk_config *config, struct mk_error *err)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(settings); i++) {
		const char *text = settings[i].env ? getenv(settings[i].env) : NULL;

		if (text && *text && set(config, &settings[i], text) < 0)
			return mk_error_set(err, EINVAL,
					    "environment variable %s: value '%s', expected %s",
					    settings[i].env, text, settings[i].expected);
	}
	return 0;
}

static void print_help(const char *subcommand)
{
	printf("usage: monokube %s [flags]\n\nEach flag can be set by the environment variable named beside it (a key of the ConfigMap).\n\n",
	       subcommand);
	for (size_t i = 0; i < MK_ARRAY_SIZE(settings); i++) {
		const struct setting *s = &settings[i];

		printf("  --%s %s", s->flag, s->value);
		if (s->env)
			printf("  (%s)", s->env);
		printf("\n\t%s\n\t%s", s->help, s->expected);
		if (!s->fallback)
			printf("; required");
		else if (*s->fallback)
			printf("; default %s", s->fallback);
		printf("\n");
	}
	printf("  --check-config\n\tprint the settings in force, if all are valid, and start nothing\n"
	       "  --help\n\tprint this list\n");
}

void mk_config_print(const struct mk_config *config, FILE *out)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(settings); i++)
		fprintf(out, "%s=%s\n", name_of(&settings[i]),
			config->texts[i] ? config->texts[i] : "");
}

/* getopt_long() accepts "--node-na" for --node-name while no other flag begins so. A script that
 * relied on it would break when a flag is added. */
static bool spelled_out(const char *word, const char *flag)
{
	return strcspn(word + 2, "=") == strlen(flag);
}

static int load_flag(struct mk_config *config, const struct setting *setting, const char *word,
		     struct mk_error *err)
{
	if (!spelled_out(word, setting->flag))
		return mk_error_set(err, EINVAL, "flag '%s' is abbreviated: expected --%s", word,
				    setting->flag);
	if (set(config, setting, optarg) < 0)
		return mk_error_set(err, EINVAL, "flag --%s%s%s%s: value '%s', expected %s",
				    setting->flag, setting->env ? " (" : "",
				    setting->env ? setting->env : "", setting->env ? ")" : "",
				    optarg, setting->expected);
	return 0;
}

enum { FLAG_HELP = MK_ARRAY_SIZE(settings), FLAG_CHECK, FLAGS };

static void fill_options(struct option *options, int *found)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(settings); i++)
		options[i] = (struct option){ settings[i].flag, required_argument, found, (int)i };
	options[FLAG_HELP] = (struct option){ "help", no_argument, found, FLAG_HELP };
	options[FLAG_CHECK] = (struct option){ "check-config", no_argument, found, FLAG_CHECK };
	options[FLAGS] = (struct option){ 0 };
}

/* Suggest --cluster-cidr for "--clusterCidr" and "--cluster-cider". */
static int unknown_flag(const char *word, struct mk_error *err)
{
	char name[64];
	struct mk_nearest nearest = { .word = name };

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	for (size_t i = 0; strncmp(word, "--", 2) == 0 && i < MK_ARRAY_SIZE(settings); i++)
		(void)mk_nearest_see(&nearest, settings[i].flag);
	if (!nearest.found)
		return mk_error_set(err, EINVAL, "unknown flag '%s': --help lists all", word);
	return mk_error_set(err, EINVAL, "unknown flag '%s': did you mean --%s? --help lists all",
			    word, nearest.found);
}

/* @given: per option, whether a flag set it. */
static int load_flags(struct mk_config *config, bool *given, int argc, char **argv,
		      struct mk_error *err)
{
	struct option options[FLAGS + 1];
	int found = 0, ret = 0;

	fill_options(options, &found);
	opterr = 0;
	optind = 0; /* glibc: reset, because a process may call this twice */
	while (ret == 0) {
		const char *word = argv[optind ? optind : 1];
		int c = getopt_long(argc, argv, "+:", options, NULL);

		if (c == -1)
			break;
		if (c == ':')
			return mk_error_set(err, EINVAL, "flag '%s' needs a value", word);
		if (c != 0)
			return unknown_flag(word, err);
		given[found] = true;
		if (found == FLAG_HELP)
			return 1;
		if (found != FLAG_CHECK)
			ret = load_flag(config, &settings[found], word, err);
	}
	if (ret == 0 && optind < argc)
		return mk_error_set(err, EINVAL, "unexpected argument '%s': expected flags only",
				    argv[optind]);
	return ret;
}

/* There is exactly one source. --cluster-dir overrides a KUBECONFIG in the
 * environment, as flags do. */
static int choose_source(struct mk_config *config, const bool *given, struct mk_error *err)
{
	if (!config->cluster_dir[0])
		return 0;
	for (size_t i = 0; i < MK_ARRAY_SIZE(settings); i++) {
		char *text = (char *)config + settings[i].offset;

		if (text != config->kubeconfig && text != config->api_server)
			continue;
		if (given[i] && text[0])
			return mk_error_set(
				err, EINVAL,
				"flag --%s: value '%s', but --cluster-dir '%s' is given too: expected one of the two",
				settings[i].flag, text, config->cluster_dir);
		memset(text, 0, settings[i].size);
		config->texts[i] = "";
	}
	return 0;
}

static int check_required(const struct mk_config *config, struct mk_error *err)
{
	static const struct mk_config empty;

	for (size_t i = 0; i < MK_ARRAY_SIZE(settings); i++) {
		const struct setting *s = &settings[i];

		if (s->fallback || memcmp((const char *)config + s->offset,
					  (const char *)&empty + s->offset, s->size) != 0)
			continue;
		if (!s->env)
			return mk_error_set(err, EINVAL, "flag --%s is not set: expected %s",
					    s->flag, s->expected);
		return mk_error_set(
			err, EINVAL,
			"%s is not set: expected %s, by the environment variable %s or the flag --%s",
			s->env, s->expected, s->env, s->flag);
	}
	return 0;
}

bool mk_config_setting(size_t index, struct mk_setting *setting)
{
	const struct setting *s = &settings[index];

	if (index >= MK_ARRAY_SIZE(settings))
		return false;
	*setting = (struct mk_setting){ .key = s->env,
					.flag = s->flag,
					.value = s->value,
					.fallback = s->fallback,
					.expected = s->expected,
					.help = s->help };
	return true;
}

int mk_config_next_name(const char **at, char name[IFNAMSIZ])
{
	size_t length = strcspn(*at, ",");

	if (length == 0 || length >= IFNAMSIZ)
		return 0;
	memcpy(name, *at, length);
	name[length] = '\0';
	*at += length;
	*at += **at == ',';
	return 1;
}

int mk_config_load(struct mk_config *config, int argc, char **argv, struct mk_error *err)
{
	bool given[FLAGS] = { false };
	int ret;

	memset(config, 0, sizeof(*config));
	ret = load_environment(config, err) ?: load_flags(config, given, argc, argv, err);
	if (ret == 1)
		print_help(argv[0]);
	ret = ret ?: load_defaults(config, err);
	ret = ret ?: choose_source(config, given, err);
	ret = ret ?: check_required(config, err);
	ret = ret ?: config_check_together(config, err);
	if (ret == 0 && given[FLAG_CHECK]) {
		mk_config_print(config, stdout);
		return 1;
	}
	return ret;
}

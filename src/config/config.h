/* SPDX-License-Identifier: Apache-2.0 */
/* src/config/config.h - the agent's settings: ConfigMap keys as environment variables, which flags
 * override. An error names the key, its value and what was expected. */
#ifndef MK_CONFIG_CONFIG_H
#define MK_CONFIG_CONFIG_H

#include <limits.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/ip.h"
#include "base/log.h"
#include "config/addresses.h"

#define MK_STATE_DIR "/var/lib/monokube" /* has ipam/ and the locks */
#define MK_BPF_DIR   "/sys/fs/bpf/monokube" /* pinned maps and programs */
#define MK_HOST_VETH "mkhost0" /* the host's end of the host veth pair */
#define MK_HOST_PEER "mkhost1" /* the datapath's end: hook `host` */

/* One range, or one of each family, by mk_family_index(); AF_UNSPEC: none. */
struct mk_ranges {
	struct mk_cidr of[MK_FAMILIES];
	sa_family_t primary; /* family of the range that was written first */
};

/* Addresses on which the agent listens; none: off. */
struct mk_listens {
	struct mk_ip_port at[MK_FAMILIES];
	size_t count;
};

/* What becomes of network policies. */
enum mk_policy_mode { MK_POLICIES_ENFORCED, MK_POLICIES_AUDITED, MK_POLICIES_OFF };

/* The overlay between the nodes of this cluster. */
enum mk_encryption {
	MK_ENCRYPTION_NONE,
	MK_ENCRYPTION_WIREGUARD, /* to nodes with a key; to others in the clear */
	MK_ENCRYPTION_ONLY, /* nothing in the clear, sent or received */
};

/* How packets go to the nodes of this cluster. */
enum mk_routing {
	MK_ROUTING_OVERLAY, /* by VXLAN */
	MK_ROUTING_DIRECT, /* to nodes on the same link without VXLAN; others are named */
	MK_ROUTING_AUTO, /* .. others are expected */
};

struct mk_cidr_list {
	struct mk_cidr cidr[16];
	size_t count;
};

#define MK_SETTINGS_MAX 52 /* capacity for each setting's text */

struct mk_config {
	const char *texts[MK_SETTINGS_MAX]; /* each setting as given; never NULL */
	char node_name[254]; /* --node-name, NODE_NAME; required */
	/* The source: a directory or an API server. The kubeconfig (one path, or several
	 * with colons between) leads to the API server; if it is empty, the pod's
	 * service account does. */
	char cluster_dir[PATH_MAX]; /* --cluster-dir; empty: an API server */
	char kubeconfig[PATH_MAX]; /* --kubeconfig, KUBECONFIG */
	char api_server[PATH_MAX]; /* apiServer, URL; empty: from the credentials */
	uint16_t api_retry_max_s; /* apiRetryMaxSeconds, 30 */
	struct mk_ranges cluster; /* clusterCidr, required */
	/* vtepCidr, of clusterCidr's families: 10.18.0.0/16, fd4d:4b00:12::/64 */
	struct mk_ranges vteps;
	sa_family_t underlay_family; /* underlayFamily, AF_INET or AF_INET6 */
	char vxlan_iface_name[IFNAMSIZ]; /* vxlanIfaceName, mkvxlan */
	char sfc_iface_name[IFNAMSIZ]; /* sfcIfaceName, mksfc */
	char cluster_name[64]; /* clusterName; empty: no other clusters */
	uint32_t cluster_id; /* clusterId; 0: mk_cluster_number() */
	char peer_iface_name[IFNAMSIZ]; /* peerIfaceName, mkpeer */
	uint16_t wireguard_port; /* wireguardPort; 0: no WireGuard */
	enum mk_encryption encryption; /* encryption, None */
	enum mk_routing routing; /* routing, Auto */
	struct mk_ranges peer_pools; /* peerPools, 240.0.0.0/6 */
	/* clustersetCidr: 247.254.0.0/16, fd6d:6b63:7300::/112 */
	struct mk_ranges clusterset;
	/* externalCidr: 247.255.0.0/20, fd6d:6b65:7800::/112 */
	struct mk_ranges externals;
	uint16_t vxlan_port; /* vxlanPort, 4789 (RFC 7348) */
	char veth_prefix[IFNAMSIZ]; /* vethPairNamePrefix, mk; at most 4 characters */
	/* uplinkIfaceName: names with commas between; empty: all with an address or a route */
	char uplinks[8 * IFNAMSIZ];
	uint16_t node_port_min, node_port_max; /* nodePortRange, 30000-32767 */
	struct mk_cidr_list node_port_addresses; /* nodePortAddresses; empty: the Node object's */
	uint16_t nat_port_min,
		nat_port_max; /* natPortRange, 49152-65535 (RFC 6335 dynamic ports) */
	char cni_conf_path[PATH_MAX]; /* cniConfFilePath, /etc/cni/net.d/10-monokube.conflist */
	char cni_bin_dir[PATH_MAX]; /* cniBinDir, /opt/cni/bin */
	uint32_t mtu_bytes; /* mtu, of pods; 0: uplink's less VXLAN's */
	enum mk_log_level log_level; /* logLevel, info */
	enum mk_log_format log_format; /* logFormat, text */
	/* healthzBindAddress, port 10256 of 0.0.0.0, [::] or both */
	struct mk_listens healthz;
	/* metricsBindAddress, port 10249 of 127.0.0.1, [::1] or both */
	struct mk_listens metrics;
	bool cp_nodes_deploy_allowed; /* isCPNodesDeployAllowed, true */
	bool masquerade_all; /* masqueradeAll, false */
	bool keeps_client; /* clientAddress is Keep; Masquerade */
	bool returns_direct; /* directServerReturn, false */
	enum mk_choice masquerade_ipv6; /* masqueradeIPv6, auto: mk_masquerade_ipv6() */
	enum mk_policy_mode policy_mode; /* networkPolicy, enforce */
	bool log_denied; /* logDenied, false */
	bool localhost_node_ports; /* localhostNodePorts, true */
	uint16_t local_endpoint_weight; /* localEndpointWeight, 1 */
	uint32_t maglev_slots; /* maglevTableSize, 1021; a prime, the same on every node */
	uint32_t session_entries; /* sessionTableSize, 524288; a connection takes two */
	uint32_t new_session_entries; /* newSessionTableSize, 65536 */
	uint32_t affinity_entries; /* affinityTableSize, 65536 */
	uint32_t syn_rate; /* synRate, 0: no bound; per second and processor */
	char proc_sys_dir[PATH_MAX]; /* --proc-sys-dir, /proc/sys */
	char state_dir[PATH_MAX]; /* --state-dir, MK_STATE_DIR */
	char bpf_dir[PATH_MAX]; /* --bpf-dir, MK_BPF_DIR */
};

/* The ranges of @family; AF_UNSPEC: the node does not run this family. */
static inline const struct mk_cidr *mk_config_cluster(const struct mk_config *config,
						      sa_family_t family)
{
	return &config->cluster.of[mk_family_index(family)];
}
static inline const struct mk_cidr *mk_config_vteps(const struct mk_config *config,
						    sa_family_t family)
{
	return &config->vteps.of[mk_family_index(family)];
}
static inline bool mk_config_has(const struct mk_config *config, sa_family_t family)
{
	return mk_config_cluster(config, family)->ip.family == family;
}

/* Fill @config from the environment, then the flags in @argv (argv[0] is the subcommand), then
 * defaults for the rest; all must live as long. Returns 0, or 1 if --help or --check-config was
 * given and printed. An error names key, value and expectation. */
mk_must_check int mk_config_load(struct mk_config *config, int argc, char **argv,
				 struct mk_error *err);

/* A setting as users see it; --help, the manual page and src/config/README.md are
 * printed from it. */
struct mk_setting {
	const char *key; /* ConfigMap key or environment variable; NULL: flag only */
	const char *flag; /* without dashes */
	const char *value; /* name of the flag's value, such as PORT */
	const char *fallback; /* NULL: required; "": empty */
	const char *expected; /* type and bounds: completes "expected ..." */
	const char *help;
};
/* Get the setting at @index; false after the last. */
bool mk_config_setting(size_t index, struct mk_setting *setting);

/* Print the settings in force, one line `key=value` each, or `flag=value` if there is no key. */
void mk_config_print(const struct mk_config *config, FILE *out);

/* Take the next name of a list such as `uplinks` from *@at. Returns 1 with the name,
 * or 0 at the end. */
int mk_config_next_name(const char **at, char name[IFNAMSIZ]);

#endif

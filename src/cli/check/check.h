/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/check/check.h - `monokube check`: what a healthy node needs, one finding each. */
#ifndef MK_CLI_CHECK_CHECK_H
#define MK_CLI_CHECK_CHECK_H

#include <json-c/json.h>

#include "cli/inspect/view.h"
#include "cluster/watch/resource.h"
#include "host/record.h"

struct mk_checking {
	const struct mk_views *views;
	const struct mk_view *view; /* of the family that is checked */
	const char *label; /* its name, for the findings; NULL: the node runs no other */
	const struct mk_cli_options *options;
	bool reads_cluster; /* objects of the cluster are read */
	struct mk_record record;
	struct json_object *findings; /* array of { check, ok, says, remedy } */
	unsigned int wrong;
};

/* Add a finding in words; @remedy NULL: all is well. */
void check_found(struct mk_checking *checking, const char *check, const char *remedy,
		 const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The remedy of what an agent repairs. */
#define CHECK_REPAIRED \
	"the agent repairs that while it runs: start it, or restart it, and see its log"

/* Add a possible fault, which depends on things not seen from here. It does not count as wrong. */
void check_note(struct mk_checking *checking, const char *check, const char *remedy,
		const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Run all checks, into @checking->findings. The caller releases these, unless there was an
 * error. */
mk_must_check int check_all(struct mk_checking *checking, const struct mk_views *views,
			    const struct mk_cli_options *options, bool reads_cluster,
			    struct mk_error *err);

/* Returns the view of @family; NULL: not loaded. */
const struct mk_view *check_view(const struct mk_checking *checking, sa_family_t family);

/* own.c: what monokube made. Returns the family of the overlay's outer packets. */
sa_family_t check_underlay(const struct mk_view *view);
/* Neither pods nor the underlay have IPv4. */
bool check_carries_no_ipv4(const struct mk_view *view);
/* Returns the family that is configured and not loaded; NULL: none. */
const char *check_missing_family(const struct mk_checking *checking);
struct mk_cidr check_pod_cidr(const struct mk_view *view); /* status.c: of this node */
void check_agent(struct mk_checking *checking);
void check_families(struct mk_checking *checking);
void check_former_family(struct mk_checking *checking);
void check_hooks(struct mk_checking *checking);
void check_nodes(struct mk_checking *checking);
void check_encryption(struct mk_checking *checking);
bool check_encrypts(const struct mk_checking *checking); /* setting encryption is on */
void check_pods(struct mk_checking *checking);
void check_peers(struct mk_checking *checking); /* peers.c */
void check_dns(struct mk_checking *checking); /* dns.c: names of imported Services */
void check_left(struct mk_checking *checking); /* left.c: without clusterName */
void check_ports(struct mk_checking *checking); /* ports.c */
void check_policies(struct mk_checking *checking); /* policies.c */
void check_policy_notes(struct mk_checking *checking);
void check_policy_mode(struct mk_checking *checking);
bool check_policies_are_off(const struct mk_checking *checking); /* setting networkPolicy */
void check_policy_objects(struct mk_checking *checking); /* policy_objects.c */
void check_policy_engines(struct mk_checking *checking); /* others.c */
void check_mtu(struct mk_checking *checking);
void check_settings(struct mk_checking *checking);
/* ... also without a datapath. */
void check_kernel(struct mk_checking *checking);
void check_networks(struct mk_checking *checking);
/* others.c: what others made. */
void check_cni(struct mk_checking *checking);
void check_kube_proxy(struct mk_checking *checking);
void check_foreign_programs(struct mk_checking *checking);
void check_firewall(struct mk_checking *checking);
/* path.c: the network between the nodes. */
void check_path(struct mk_checking *checking);
/* host.c: the host itself. */
void check_path_filter(struct mk_checking *checking);
void check_routing(struct mk_checking *checking); /* routing.c */
void check_direct(struct mk_checking *checking);
void check_macvlan(struct mk_checking *checking);
void check_networkd(struct mk_checking *checking);
void check_offload(struct mk_checking *checking);
void check_clock(struct mk_checking *checking);
/* ... rules of iptables-legacy and ip6tables-legacy: which are of kube-proxy, and which chain drops
 * by policy? NULL: none. */
const char *check_legacy_kube_proxy(void);
const char *check_legacy_firewall(void);
/* ... and which chain is of another engine of network policies? false: none. */
#define CHECK_CHAIN_BYTES 160
bool check_legacy_engine(char chain[CHECK_CHAIN_BYTES]);
/* others.c: how names of its chains begin; NULL is the last. */
extern const char *const check_engine_chains[];

/* cluster.c: call @see for each object of @resources, of which there are at most CHECK_LISTS_MAX.
 * -ENOENT: no agent has run here, or there are no credentials. */
#define CHECK_LISTS_MAX 4
mk_must_check int check_read_objects(const struct mk_cli_options *options,
				     const struct mk_resource *resources, size_t count,
				     void (*see)(void *ctx, json_object *tree), void *ctx,
				     struct mk_error *err);

#endif

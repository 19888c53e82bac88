/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/report/values.h - the values of metrics, and a row of their table. They are read
 * elsewhere (metrics_read.c). */
#ifndef MK_AGENT_REPORT_VALUES_H
#define MK_AGENT_REPORT_VALUES_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monokube/abi.h"
#include "monokube/clusters.h"
#include "agent/report/repairs.h"
#include "base/histogram.h"
#include "base/log.h"
#include "cluster/model/model.h"
#include "cluster/watch/reflector.h"
#include "clusters/externals.h"
#include "datapath/datapath.h"
#include "datapath/monitor/drops.h"
#include "datapath/services/counters.h"
#include "datapath/sessions/counts.h"
#include "http/exposition.h"
#include "probes/probes.h"
#include "sfc/sfc.h"

/* A chain with ends. */
struct mk_metrics_chain {
	const char *namespace_, *name;
	uint64_t flows, max_flows; /* @flows: at the last sweep */
};

/* A replica of a chain's function. */
struct mk_metrics_replica {
	const char *namespace_, *function, *pod;
	bool is_here; /* on this node; another node counts the packets of its own */
	uint64_t flows; /* at the last sweep */
	struct mk_sfc_counters counters;
};

/* Another cluster. */
struct mk_metrics_peer {
	const char *name;
	bool is_usable;
	uint64_t nodes; /* that get its packets */
	uint64_t mtu_bytes; /* of packets to it; 0: it has no rows */
	struct mk_probes_state probes;
	uint64_t handshake_age_s; /* of WireGuard; 0: there was none */
	struct mk_cluster_counters counters; /* of all families */
};

#define MK_METRICS_TABLES   32
#define MK_METRICS_PROGRAMS MK_PROGRAMS_MAX

#define MK_METRICS_DEVICES \
	(4 + 2 * MK_UPLINKS_MAX) /* hooks: pod, host, overlay, function, and two per uplink */

struct mk_metrics_traffic {
	enum mk_hook hook;
	char device[IFNAMSIZ];
	uint64_t packets, bytes;
};

/* Only Services with traffic or drops. */
struct mk_metrics_service {
	const char *namespace_, *name;
	const struct mk_service_totals *totals;
};

#define MK_POLICY_TIERS (MK_TIER_BASELINE + 1)
/* Audited: the packet passed, but would have been denied. */
enum mk_policy_outcome { MK_POLICY_ALLOWED, MK_POLICY_DENIED, MK_POLICY_AUDITED };
#define MK_POLICY_OUTCOMES (MK_POLICY_AUDITED + 1)

/* Decisions of one rule. With @policy "" and @rule 0 no rule allowed the flow, and NetworkPolicies
 * of @namespace_ isolate the pod. */
struct mk_metrics_rule {
	struct mk_metrics_rule *next;
	const char *namespace_, *policy; /* @namespace_ "": a ClusterNetworkPolicy */
	size_t rule; /* in its policy, from 1 */
	enum mk_policy_direction direction;
	enum mk_policy_outcome outcome;
	uint64_t packets;
};

/* The values of a family of addresses. */
struct mk_metrics_family {
	bool configured;
	uint64_t ready; /* 1: its programs are on the hooks */
	bool has_datapath;
	uint64_t endpoints; /* in the model */
	uint64_t frontends, backends; /* in the tables */
	struct mk_table_fill tables[MK_METRICS_TABLES];
	size_t table_count;
	uint64_t pod_addresses, nat_ports;
	struct mk_program_stats programs[MK_METRICS_PROGRAMS];
	size_t program_count;

	bool has_sweep; /* a pass has ended */
	struct mk_session_counts counts;
	uint64_t sweep_passes, sessions_expired, sessions_cut;
	double sweep_busy_s, sweep_last_s;

	bool has_drops;
	struct mk_drop_totals drops;

	bool has_policies;
	uint64_t policy_flows[MK_POLICY_DIRECTIONS][MK_POLICY_OUTCOMES][MK_POLICY_TIERS];
	uint64_t policy_events[MK_POLICY_EVENTS];

	bool has_chains;
	uint64_t paths; /* at the last sweep */
	struct mk_metrics_chain *chains;
	size_t chain_count;
	struct mk_metrics_replica *replicas;
	size_t replica_count;
};

/* The values to export; a metric whose has_... is false has no samples. */
/* The API server of a peer. */
struct mk_metrics_peer_api {
	char name[64];
	uint64_t is_up, contact_unix_s; /* `contact_unix_s`: 0: none yet */
};

struct mk_metrics {
	bool always; /* true */

	struct {
		double cpu_s, start_unix_s;
		uint64_t resident_bytes, virtual_bytes, open_fds, max_fds;
	} process;

	uint64_t ready, healthy, complete; /* 1: yes */
	bool is_ready;
	double ready_after_lists_s;
	double waiting_s; /* waiting time of the oldest unwritten change; 0: none */
	struct mk_histogram work, latency; /* in seconds */
	uint64_t work_failures, writes;
	struct mk_repairs repairs;
	uint64_t log_lines[MK_LOG_LEVELS];
	uint64_t log_lines_lost, loop_turns, loop_long_turns;
	double loop_longest_s, loop_most_cpu_s;

	uint64_t objects[MK_KIND_COUNT]; /* in the model */
	uint64_t skipped; /* endpoints' addresses */
	uint64_t peers, peers_left_out, peers_unencrypted, services_waiting;
	bool has_encryption; /* setting encryption is not None */
	uint64_t peers_direct;
	bool has_routing; /* setting routing is not Overlay */
	bool has_datapath;
	uint64_t services; /* in the tables */
	uint64_t underlay_mtu_bytes, pods, addresses_reaped, lost_pods;

	bool has_policies; /* network policies are enforced */
	struct {
		uint64_t policies, sets, classes;
		uint64_t isolated_pods, audited_pods, open_pods, pending_pods;
		uint64_t ignored[MK_KIND_COUNT];
		struct mk_histogram programming, pod_wait; /* in seconds */
	} policy;

	bool has_api; /* an API server is followed */
	struct mk_reflector_stats api[MK_RESOURCE_COUNT];
	bool has_clock; /* ... and has sent its time */
	double clock_ahead_s;

	struct mk_metrics_family families[MK_FAMILIES];

	struct mk_metrics_traffic traffic[MK_METRICS_DEVICES];
	size_t traffic_count;

	bool has_cni;
	struct mk_cni_calls cni[MK_CNI_COMMANDS];

	struct mk_metrics_service *per_service;
	size_t per_service_count;
	const struct mk_metrics_rule *per_rule; /* a list */
	bool has_clusters; /* this cluster has a name */
	struct mk_metrics_peer *cluster_peers;
	size_t cluster_peer_count;
	uint64_t imported_services, imported_endpoints, exported_services;
	uint64_t leads; /* 1: this agent writes for all */
	uint64_t leader_waiting, leader_failures; /* objects to write, failed writes */
	struct mk_externals_use externals; /* of the leader */
	struct mk_metrics_peer_api *peer_apis; /* that the leader reads */
	size_t peer_api_count;

	bool has_chains;
	uint64_t chain_replicas[MK_SFC_POD_STATES]; /* function pods of all nodes */
};

/* The page of a metric. Metrics per Service, per rule of a policy, per chain and per replica grow
 * with the cluster, so they have pages of their own. */
enum mk_metrics_page {
	MK_METRICS_NODE,
	MK_METRICS_SERVICES,
	MK_METRICS_POLICIES,
	MK_METRICS_CHAINS
};

/* A row of the table. */
struct mk_metric {
	const char *name, *type;
	const char *labels; /* "reason, hook"; "": none */
	bool by_family; /* also a label `family`; the values are in struct mk_metrics_family */
	const char *help;
	enum mk_metrics_page page;
	void (*write)(const void *values, const struct mk_metric *metric,
		      struct mk_exposition *out);
	size_t present; /* in the values: the bool that says whether samples exist */
	size_t offset; /* in the values or a part of them, depending on `write` */
};

#endif

// SPDX-License-Identifier: Apache-2.0
/* The table of metrics, and how each kind of row is written. Names follow
 * prometheus.io/docs/practices/naming. */
#include "agent/report/metrics.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "monokube/version.h"
#include "agent/report/metrics_chains.h"
#include "agent/report/metrics_peers.h"
#include "base/cleanup.h"
#include "pod/request/calls.h"
#include "cluster/watch/resource.h"

/* ---- how rows are written -------------------------------------------------------------------- */

typedef struct mk_exposition text;

static const char *repair_name(enum mk_repair repair)
{
	static const char *const names[MK_REPAIRS] = {
		[MK_REPAIR_HOOK] = "hook",
		[MK_REPAIR_CHAIN] = "chain",
		[MK_REPAIR_PIN] = "pin",
		[MK_REPAIR_DEVICE] = "device",
		[MK_REPAIR_ROUTE] = "route",
		[MK_REPAIR_NEIGHBOUR] = "neighbour",
		[MK_REPAIR_SYSCTL] = "sysctl",
		[MK_REPAIR_FILE] = "file",
		[MK_REPAIR_TABLE] = "table",
		[MK_REPAIR_POD] = "pod",
		[MK_REPAIR_DROP_REPORTS] = "drop_reports",
	};

	return names[repair];
}

static double number_at(const void *part, size_t offset)
{
	double value;

	memcpy(&value, (const char *)part + offset, sizeof(value));
	return value;
}

static void count(const void *values, const struct mk_metric *metric, text *out)
{
	mk_exposition_count(out, metric->name, NULL, 0, count_at(values, metric->offset));
}

static void number(const void *values, const struct mk_metric *metric, text *out)
{
	mk_exposition_number(out, metric->name, NULL, 0, number_at(values, metric->offset));
}

static void histogram(const void *values, const struct mk_metric *metric, text *out)
{
	const void *at = (const char *)values + metric->offset;

	mk_exposition_histogram(out, metric->name, NULL, 0, at);
}

static void build(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_label label = { "version", MONOKUBE_VERSION };

	(void)values;
	mk_exposition_count(out, metric->name, &label, 1, 1);
}

static void repairs(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_metrics *m = values;

	for (int i = 0; i < MK_REPAIRS; i++)
		mk_exposition_labelled(out, metric->name, "what", repair_name((enum mk_repair)i),
				       m->repairs.count[i]);
}

static void log_lines(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_metrics *m = values;

	for (unsigned int i = 0; i < MK_LOG_LEVELS; i++)
		mk_exposition_labelled(out, metric->name, "level", mk_log_level_name(i),
				       m->log_lines[i]);
}

static void external_addresses(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_metrics *m = values;

	mk_exposition_labelled(out, metric->name, "state", "mapped", m->externals.mapped);
	mk_exposition_labelled(out, metric->name, "state", "released", m->externals.released);
}

static void policy_pods(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_metrics *m = values;
	const struct {
		const char *state;
		uint64_t pods;
	} states[] = { { "isolated", m->policy.isolated_pods },
		       { "audited", m->policy.audited_pods },
		       { "open", m->policy.open_pods },
		       { "pending", m->policy.pending_pods } };

	for (size_t i = 0; i < MK_ARRAY_SIZE(states); i++)
		mk_exposition_labelled(out, metric->name, "state", states[i].state, states[i].pods);
}

static const char *const direction_names[MK_POLICY_DIRECTIONS] = {
	[MK_POLICY_INGRESS] = "ingress",
	[MK_POLICY_EGRESS] = "egress",
};
static const char *const outcome_names[MK_POLICY_OUTCOMES] = {
	[MK_POLICY_ALLOWED] = "allowed",
	[MK_POLICY_DENIED] = "denied",
	[MK_POLICY_AUDITED] = "audit",
};

static void policy_flows(const void *values, const struct mk_metric *metric, text *out)
{
	static const char *const tiers[MK_POLICY_TIERS] = {
		[MK_TIER_NONE] = "none",
		[MK_TIER_ADMIN] = "admin",
		[MK_TIER_NETWORK_POLICY] = "network-policy",
		[MK_TIER_BASELINE] = "baseline",
	};
	const struct mk_metrics_family *m = values;

	for (int direction = 0; direction < MK_POLICY_DIRECTIONS; direction++)
		for (int outcome = 0; outcome < MK_POLICY_OUTCOMES; outcome++)
			for (int tier = 0; tier < MK_POLICY_TIERS; tier++) {
				const struct mk_label labels[] = {
					{ "direction", direction_names[direction] },
					{ "verdict", outcome_names[outcome] },
					{ "tier", tiers[tier] },
				};

				mk_exposition_count(out, metric->name, labels, 3,
						    m->policy_flows[direction][outcome][tier]);
			}
}

static void policies_ignored(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_metrics *m = values;

	mk_exposition_labelled(out, metric->name, "kind", "NetworkPolicy",
			       m->policy.ignored[MK_KIND_NETWORK_POLICY]);
	mk_exposition_labelled(out, metric->name, "kind", "ClusterNetworkPolicy",
			       m->policy.ignored[MK_KIND_CLUSTER_POLICY]);
}

static void objects(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_metrics *m = values;
	static const char *const names[MK_KIND_COUNT] = {
		[MK_KIND_NODE] = "Node",
		[MK_KIND_SERVICE] = "Service",
		[MK_KIND_ENDPOINT_SLICE] = "EndpointSlice",
		[MK_KIND_ENDPOINTS] = "Endpoints",
		[MK_KIND_SERVICE_CIDR] = "ServiceCIDR",
		[MK_KIND_POD] = "Pod",
		[MK_KIND_NAMESPACE] = "Namespace",
		[MK_KIND_NETWORK_POLICY] = "NetworkPolicy",
		[MK_KIND_CLUSTER_POLICY] = "ClusterNetworkPolicy",
		[MK_KIND_CHAIN] = "ServiceFunctionChain",
		[MK_KIND_CLUSTER_PEER] = "ClusterPeer",
		[MK_KIND_PUBLISHED_CLUSTER] = "PublishedCluster",
		[MK_KIND_PUBLISHED_NODE] = "PublishedNode",
		[MK_KIND_PUBLISHED_SERVICE] = "PublishedService",
		[MK_KIND_SERVICE_IMPORT] = "ServiceImport",
		[MK_KIND_SERVICE_EXPORT] = "ServiceExport",
	};

	for (size_t i = 0; i < MK_KIND_COUNT; i++)
		mk_exposition_labelled(out, metric->name, "kind", names[i], m->objects[i]);
}

static void api_count(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_metrics *m = values;

	for (int i = 0; i < MK_RESOURCE_COUNT; i++)
		if (m->api[i].followed)
			mk_exposition_labelled(out, metric->name, "resource",
					       mk_resource((enum mk_resource_id)i)->name,
					       count_at(&m->api[i], metric->offset));
}

static void api_contact(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_metrics *m = values;

	for (int i = 0; i < MK_RESOURCE_COUNT; i++) {
		const struct mk_label label = { "resource",
						mk_resource((enum mk_resource_id)i)->name };

		if (m->api[i].followed)
			mk_exposition_number(out, metric->name, &label, 1,
					     (double)m->api[i].contact_unix_ms / 1000);
	}
}

static void tables(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_metrics_family *m = values;

	for (size_t i = 0; i < m->table_count; i++)
		mk_exposition_labelled(out, metric->name, "table", m->tables[i].name,
				       count_at(&m->tables[i], metric->offset));
}

static void sessions(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_metrics_family *m = values;

	for (int kind = 0; kind < MK_SESSION_KINDS; kind++)
		for (int proto = 0; proto < MK_SESSION_PROTOCOLS; proto++)
			for (int state = 0; state < MK_SESSION_STATES; state++) {
				const struct mk_label labels[] = {
					{ "kind", mk_session_kind_names[kind] },
					{ "protocol", mk_session_protocol_names[proto] },
					{ "state", mk_session_state_names[state] },
				};

				mk_exposition_count(out, metric->name, labels, 3,
						    m->counts.sessions[kind][proto][state]);
			}
}

/* "NO_POD": "no_pod" */
static const char *reason_label(unsigned int reason, char *buf, size_t size)
{
	const char *name = mk_drop_reason_name(reason);
	size_t i = 0;

	for (; name[i] && i < size - 1; i++)
		buf[i] = (char)tolower((unsigned char)name[i]);
	buf[i] = '\0';
	return buf;
}

static void drops(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_metrics_family *m = values;
	char buf[64];

	for (unsigned int reason = 0; reason < MK_DROP_COUNT; reason++)
		for (unsigned int hook = 0; hook < MK_HOOK_COUNT; hook++) {
			const struct mk_label labels[] = {
				{ "reason", reason_label(reason, buf, sizeof(buf)) },
				{ "hook", mk_hook_name(hook) },
			};

			mk_exposition_count(out, metric->name, labels, 2,
					    count_at(&m->drops.counter[reason][hook],
						     metric->offset));
		}
}

static void traffic(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_metrics *m = values;

	for (size_t i = 0; i < m->traffic_count; i++) {
		const struct mk_label labels[] = {
			{ "hook", mk_hook_name(m->traffic[i].hook) },
			{ "device", m->traffic[i].device },
		};

		mk_exposition_count(out, metric->name, labels, 2,
				    count_at(&m->traffic[i], metric->offset));
	}
}

static void program_runs(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_metrics_family *m = values;

	for (size_t i = 0; i < m->program_count; i++)
		mk_exposition_labelled(out, metric->name, "program", m->programs[i].name,
				       m->programs[i].runs);
}

static void program_seconds(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_metrics_family *m = values;

	for (size_t i = 0; i < m->program_count; i++)
		mk_exposition_number(out, metric->name,
				     &(struct mk_label){ "program", m->programs[i].name }, 1,
				     (double)m->programs[i].run_ns / 1e9);
}

static void cni_durations(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_metrics *m = values;
	struct mk_histogram duration;

	for (unsigned int i = 0; i < MK_CNI_COMMANDS; i++) {
		mk_cni_calls_histogram(&m->cni[i], &duration);
		mk_exposition_histogram(out, metric->name,
					&(struct mk_label){ "command", mk_cni_command_name(i) }, 1,
					&duration);
	}
}

static void cni_failures(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_metrics *m = values;

	for (unsigned int i = 0; i < MK_CNI_COMMANDS; i++)
		mk_exposition_labelled(out, metric->name, "command", mk_cni_command_name(i),
				       m->cni[i].failed);
}

/* ---- per Service ----------------------------------------------------------------------------- */

static void connections(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_metrics *m = values;

	for (size_t i = 0; i < m->per_service_count; i++) {
		const struct mk_metrics_service *service = &m->per_service[i];
		const struct mk_label labels[] = { { "namespace", service->namespace_ },
						   { "service", service->name } };

		mk_exposition_count(out, metric->name, labels, 2,
				    service->totals->counter.connections);
	}
}

/* The counter at the offset is an array by direction. */
static void directions(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_metrics *m = values;
	static const char *const names[MK_FLOW_DIRECTIONS] = {
		[MK_FLOW_REQUEST] = "request",
		[MK_FLOW_REPLY] = "reply",
	};

	for (size_t i = 0; i < m->per_service_count; i++)
		for (size_t way = 0; way < MK_FLOW_DIRECTIONS; way++) {
			const struct mk_metrics_service *service = &m->per_service[i];
			const struct mk_label labels[] = { { "namespace", service->namespace_ },
							   { "service", service->name },
							   { "direction", names[way] } };

			mk_exposition_count(out, metric->name, labels, 3,
					    count_at(&service->totals->counter,
						     metric->offset + way * sizeof(uint64_t)));
		}
}

static void service_drops(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_metrics *m = values;
	char buf[64];

	for (size_t i = 0; i < m->per_service_count; i++)
		for (unsigned int reason = 0; reason < MK_DROP_COUNT; reason++) {
			const struct mk_metrics_service *service = &m->per_service[i];
			const struct mk_label labels[] = {
				{ "namespace", service->namespace_ },
				{ "service", service->name },
				{ "reason", reason_label(reason, buf, sizeof(buf)) },
			};

			if (service->totals->drops[reason])
				mk_exposition_count(out, metric->name, labels, 3,
						    service->totals->drops[reason]);
		}
}

/* ---- per rule of a policy -------------------------------------------------------------------- */

static void rule_flows(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_metrics *m = values;

	for (const struct mk_metrics_rule *rule = m->per_rule; rule; rule = rule->next) {
		char number[24] = "";
		const struct mk_label labels[] = {
			{ "namespace", rule->namespace_ },
			{ "policy", rule->policy },
			{ "rule", number },
			{ "direction", direction_names[rule->direction] },
			{ "verdict", outcome_names[rule->outcome] },
		};

		if (rule->rule)
			snprintf(number, sizeof(number), "%zu", rule->rule);
		mk_exposition_count(out, metric->name, labels, 5, rule->packets);
	}
}

static void peer_apis(const void *values, const struct mk_metric *metric, text *out)
{
	const struct mk_metrics *m = values;

	for (size_t i = 0; i < m->peer_api_count; i++)
		mk_exposition_labelled(out, metric->name, "cluster", m->peer_apis[i].name,
				       count_at(&m->peer_apis[i], metric->offset));
}

/* ---- the table ------------------------------------------------------------------------------- */

/* clang-format off */
#define IN(member)	    offsetof(struct mk_metrics, member)
#define ROW(name, type, labels, help, has, write, offset) \
	{ name, type, labels, false, help, MK_METRICS_NODE, write, IN(has), offset }
#define OF(member)	    offsetof(struct mk_metrics_family, member)
#define FAMILY_ROW(name, type, labels, help, has, write, offset) \
	{ name, type, labels, true, help, MK_METRICS_NODE, write, OF(has), offset }
#define SERVICE_ROW(name, labels, help, write, offset) \
	{ name, "counter", "namespace, service" labels, false, help, MK_METRICS_SERVICES, write, IN(always), offset }
#define CHAIN "namespace, chain"
#define REPLICA "namespace, function, pod"
#define CHAIN_ROW(name, type, labels, help, write, offset) \
	{ name, type, labels, true, help, MK_METRICS_CHAINS, write, OF(has_chains), offset }

const struct mk_metric mk_metrics_rows[] = {
	ROW("monokube_build_info", "gauge", "version", "The agent's version; the value is 1.", always, build, 0),
	ROW("process_cpu_seconds_total", "counter", "", "CPU time that the agent used.", always, number, IN(process.cpu_s)),
	ROW("process_start_time_seconds", "gauge", "", "When the agent started, in seconds since 1970.", always, number, IN(process.start_unix_s)),
	ROW("process_resident_memory_bytes", "gauge", "", "The agent's memory, without the tables, which are the kernel's.", always, count, IN(process.resident_bytes)),
	ROW("process_virtual_memory_bytes", "gauge", "", "The agent's address space.", always, count, IN(process.virtual_bytes)),
	ROW("process_open_fds", "gauge", "", "Open file descriptors.", always, count, IN(process.open_fds)),
	ROW("process_max_fds", "gauge", "", "File descriptors that the agent may open.", always, count, IN(process.max_fds)),

	ROW("monokube_ready", "gauge", "", "1 since the node's network was complete for the first time.", always, count, IN(ready)),
	FAMILY_ROW("monokube_family_ready", "gauge", "", "1 while the programs of this family are on the hooks; 0: the Node lacks a pod CIDR of it, or they are not loaded.", configured, count, OF(ready)),
	ROW("monokube_ready_after_lists_seconds", "gauge", "", "From the first complete lists of the cluster's objects until the node's network was complete.", is_ready, number, IN(ready_after_lists_s)),
	ROW("monokube_healthy", "gauge", "", "1 unless a change of the cluster has waited for too long (/livez).", always, count, IN(healthy)),
	ROW("monokube_cluster_complete", "gauge", "", "1 if all objects of the cluster were read and understood; otherwise nothing is removed.", always, count, IN(complete)),
	ROW("monokube_change_waiting_seconds", "gauge", "", "How long the oldest change of the cluster has waited to be written.", always, number, IN(waiting_s)),
	ROW("monokube_network_programming_duration_seconds", "histogram", "", "From the change of endpoints that a controller saw until the tables hold it.", always, histogram, IN(latency)),
	ROW("monokube_work_duration_seconds", "histogram", "", "Turns of work: changes that came together, compiled and written.", always, histogram, IN(work)),
	ROW("monokube_work_failures_total", "counter", "", "Turns of work that failed, to be tried again.", always, count, IN(work_failures)),
	ROW("monokube_writes_total", "counter", "", "Table entries, routes and neighbours changed.", always, count, IN(writes)),
	ROW("monokube_repairs_total", "counter", "what", "Repairs of what others removed or changed; the log has a line for each.", always, repairs, 0),
	ROW("monokube_log_lines_total", "counter", "level", "Lines of the agent's log, without those below logLevel.", always, log_lines, 0),

	ROW("monokube_log_lines_lost_total", "counter", "", "Lines of the agent's log that standard error did not accept.", always, count, IN(log_lines_lost)),
	ROW("monokube_loop_turns_total", "counter", "", "Turns of the agent's event loop.", always, count, IN(loop_turns)),
	ROW("monokube_loop_long_turns_total", "counter", "", "Turns that took longer than 50 ms; the log names what took long.", always, count, IN(loop_long_turns)),
	ROW("monokube_loop_most_cpu_of_turn_seconds", "gauge", "", "The most CPU time of one turn of the event loop since the start; less than the longest turn if the node's CPUs are busy.", always, number, IN(loop_most_cpu_s)),
	ROW("monokube_loop_longest_turn_seconds", "gauge", "", "The longest turn of the event loop since the start.", always, number, IN(loop_longest_s)),

	ROW("monokube_objects", "gauge", "kind", "Objects of the cluster that are known.", always, objects, 0),
	FAMILY_ROW("monokube_endpoints", "gauge", "", "Endpoints in EndpointSlices: an address with a port.", configured, count, OF(endpoints)),
	ROW("monokube_endpoint_addresses_skipped", "gauge", "", "Addresses of endpoints that are not usable, or not of their EndpointSlice's addressType; the log names them.", always, count, IN(skipped)),
	ROW("monokube_peers", "gauge", "", "Other nodes that the overlay reaches.", always, count, IN(peers)),
	ROW("monokube_peers_left_out", "gauge", "", "Other nodes that the overlay does not reach; the log says why.", always, count, IN(peers_left_out)),
	ROW("monokube_peers_unencrypted", "gauge", "", "With encryption: other nodes to which packets of the overlay are not encrypted, or with WireGuardOnly not sent; the log names them.", has_encryption, count, IN(peers_unencrypted)),
	ROW("monokube_peers_direct", "gauge", "", "With setting routing: other nodes to which packets go without VXLAN.", has_routing, count, IN(peers_direct)),
	ROW("monokube_underlay_mtu_bytes", "gauge", "", "MTU of the uplink that carries the overlay; 0: not known yet.", always, count, IN(underlay_mtu_bytes)),
	ROW("monokube_services_waiting", "gauge", "", "Services whose last change is not written.", always, count, IN(services_waiting)),
	ROW("monokube_services_programmed", "gauge", "", "Services in the tables.", has_datapath, count, IN(services)),
	FAMILY_ROW("monokube_frontends_programmed", "gauge", "", "Addresses with a port in the tables, and those of Services without one.", has_datapath, count, OF(frontends)),
	FAMILY_ROW("monokube_backends_programmed", "gauge", "", "Endpoints in the tables, once per set of frontends that share them.", has_datapath, count, OF(backends)),

	ROW("monokube_policies", "gauge", "", "Network policies in force, NetworkPolicies and ClusterNetworkPolicies.", has_policies, count, IN(policy.policies)),
	ROW("monokube_policy_pods", "gauge", "state", "Pods of this node: isolated, only audited, or open; pending pods, whose policies are not in the tables yet, count besides, once in each family.", has_policies, policy_pods, 0),
	ROW("monokube_policy_sets", "gauge", "", "Different sets of policies in force on this node.", has_policies, count, IN(policy.sets)),
	ROW("monokube_policy_classes", "gauge", "", "Groups of pods of the cluster that the policies in force here can tell apart.", has_policies, count, IN(policy.classes)),
	FAMILY_ROW("monokube_policy_flows_total", "counter", "direction, verdict, tier", "First packets of flows that policies allowed, and all packets that they denied, by the tier that decided (none: no rule did, or the pod is pending); audit: allowed, but audited policies would deny it.", has_policies, policy_flows, 0),
	FAMILY_ROW("monokube_policy_rechecks_total", "counter", "", "Packets of known flows for which policies were evaluated again: each first packet, and the next one after a change.", has_policies, count, OF(policy_events[MK_POLICY_RECHECK])),
	FAMILY_ROW("monokube_policy_picked_up_total", "counter", "", "TCP connections that were open before a pod was isolated, and went on because the policies allow them.", has_policies, count, OF(policy_events[MK_POLICY_TAKEN_UP])),
	FAMILY_ROW("monokube_policy_unknown_peer_drops_total", "counter", "", "Packets that policies denied, from or to an address of the pod ranges that no known pod has.", has_policies, count, OF(policy_events[MK_POLICY_UNKNOWN_PEER])),
	ROW("monokube_policy_programming_duration_seconds", "histogram", "", "Time from the first change of an object to the tables that have it, without the first list.", has_policies, histogram, IN(policy.programming)),
	ROW("monokube_policy_pod_wait_seconds", "histogram", "", "Time from a new pod's address to its policies in the tables; 0 if CNI ADD set them.", has_policies, histogram, IN(policy.pod_wait)),
	ROW("monokube_policy_objects_ignored", "gauge", "kind", "Policies with an entry that is not understood, or with domainNames; the log and monokube check name them.", has_policies, policies_ignored, 0),

	ROW("monokube_api_up", "gauge", "resource", "1 while the API server is followed without an error.", has_api, api_count, offsetof(struct mk_reflector_stats, up)),
	ROW("monokube_api_listed", "gauge", "resource", "1 once there was a complete list.", has_api, api_count, offsetof(struct mk_reflector_stats, listed)),
	ROW("monokube_api_objects", "gauge", "resource", "Objects that the API server has.", has_api, api_count, offsetof(struct mk_reflector_stats, objects)),
	ROW("monokube_api_undecodable", "gauge", "resource", "Objects whose newest version makes no sense to this agent; the log names them. Their previous version stays in force.", has_api, api_count, offsetof(struct mk_reflector_stats, undecodable)),
	ROW("monokube_api_lists_total", "counter", "resource", "Complete lists; all after the first are relists.", has_api, api_count, offsetof(struct mk_reflector_stats, lists)),
	ROW("monokube_api_watches_total", "counter", "resource", "Watches begun, including streaming lists.", has_api, api_count, offsetof(struct mk_reflector_stats, watches)),
	ROW("monokube_api_events_total", "counter", "resource", "Events of watches, including bookmarks.", has_api, api_count, offsetof(struct mk_reflector_stats, events)),
	ROW("monokube_api_failures_total", "counter", "resource", "Requests that failed, to be tried again after a pause.", has_api, api_count, offsetof(struct mk_reflector_stats, failures)),
	ROW("monokube_api_last_contact_timestamp_seconds", "gauge", "resource", "When the API server last sent something, in seconds since 1970.", has_api, api_contact, 0),
	ROW("monokube_api_clock_ahead_seconds", "gauge", "", "By how much the API server's clock is ahead of this node's, from the Date of its answers; negative: behind; 0: below their precision.", has_clock, number, IN(clock_ahead_s)),

	FAMILY_ROW("monokube_table_entries", "gauge", "table", "Entries of a table; of sessions, at the last sweep.", has_datapath, tables, offsetof(struct mk_table_fill, entries)),
	FAMILY_ROW("monokube_table_max_entries", "gauge", "table", "Entries that a table has capacity for.", has_datapath, tables, offsetof(struct mk_table_fill, max_entries)),
	FAMILY_ROW("monokube_sessions", "gauge", "kind, protocol, state", "Sessions at the last sweep: of Services or of masqueraded traffic; new: not established, may be evicted; closing: the client has ended it.", has_sweep, sessions, 0),
	FAMILY_ROW("monokube_sessions_expired_total", "counter", "", "Sessions removed because they were idle or over.", has_sweep, count, OF(sessions_expired)),
	FAMILY_ROW("monokube_sessions_cut_total", "counter", "", "Sessions removed because their endpoint is gone.", has_sweep, count, OF(sessions_cut)),
	FAMILY_ROW("monokube_nat_ports", "gauge", "", "Source ports for masqueraded traffic towards one destination (natPortRange).", configured, count, OF(nat_ports)),
	FAMILY_ROW("monokube_nat_ports_used", "gauge", "", "Source ports in use towards the destination that uses the most, at the last sweep; may be a few too high.", has_sweep, count, OF(counts.busiest_nat_ports)),
	FAMILY_ROW("monokube_sweep_passes_total", "counter", "", "Complete passes of the sweep over all sessions.", has_sweep, count, OF(sweep_passes)),
	FAMILY_ROW("monokube_sweep_seconds_total", "counter", "", "Time spent in the sweep.", has_sweep, number, OF(sweep_busy_s)),
	FAMILY_ROW("monokube_sweep_pass_seconds", "gauge", "", "Length of the last pass of the sweep, with its pauses.", has_sweep, number, OF(sweep_last_s)),

	FAMILY_ROW("monokube_dropped_packets_total", "counter", "reason, hook", "Packets that were not forwarded (monokube drops says what the reasons mean).", has_drops, drops, offsetof(struct mk_drop_counter, packets)),
	FAMILY_ROW("monokube_dropped_bytes_total", "counter", "reason, hook", "Bytes of the packets that were not forwarded.", has_drops, drops, offsetof(struct mk_drop_counter, bytes)),
	ROW("monokube_hook_packets_total", "counter", "hook, device", "Packets that came to a hook, as the kernel counts them per device; all pods together, including deleted ones; of hook function only what other nodes send.", has_datapath, traffic, offsetof(struct mk_metrics_traffic, packets)),
	ROW("monokube_hook_bytes_total", "counter", "hook, device", "Bytes of the packets that came to a hook.", has_datapath, traffic, offsetof(struct mk_metrics_traffic, bytes)),
	FAMILY_ROW("monokube_program_runs_total", "counter", "program", "Packets that a program on a hook saw, since it was loaded; counted only while the kernel setting kernel.bpf_stats_enabled is 1.", has_datapath, program_runs, 0),
	FAMILY_ROW("monokube_program_run_seconds_total", "counter", "program", "Time that these programs took, including the rest of the chain.", has_datapath, program_seconds, 0),

	ROW("monokube_pods", "gauge", "", "Pods in the tables.", has_datapath, count, IN(pods)),
	ROW("monokube_pods_without_device", "gauge", "", "Pods whose device was deleted: they have no network until they are created again.", has_datapath, count, IN(lost_pods)),
	FAMILY_ROW("monokube_pod_addresses", "gauge", "", "Addresses for pods on this node.", has_datapath, count, OF(pod_addresses)),
	ROW("monokube_pod_addresses_reaped_total", "counter", "", "Addresses released because their container was gone without a DEL.", always, count, IN(addresses_reaped)),
	ROW("monokube_cni_duration_seconds", "histogram", "command", "Duration of CNI calls since the node's boot, without the start of the process.", has_cni, cni_durations, 0),
	ROW("monokube_cni_failures_total", "counter", "command", "CNI calls that failed.", has_cni, cni_failures, 0),

	ROW("monokube_cluster_peers", "gauge", "state", "Other clusters (ClusterPeers), by whether this node reaches them; the log says why not.", has_clusters, peer_states, 0),
	ROW("monokube_cluster_peer_nodes", "gauge", "peer", "Nodes of the peer that get packets from this node; 0: it is reached via another peer.", has_clusters, peer_nodes, 0),
	ROW("monokube_cluster_peer_packets_total", "counter", "peer, direction", "Packets of this node to and from pods of the peer, without those that it carries between peers.", has_clusters, peer_traffic, offsetof(struct mk_metrics_peer, counters.packets)),
	ROW("monokube_cluster_peer_bytes_total", "counter", "peer, direction", "Bytes of these packets, without the tunnel.", has_clusters, peer_traffic, offsetof(struct mk_metrics_peer, counters.bytes)),
	ROW("monokube_imported_services", "gauge", "", "Services of other clusters that pods here use by an address of clustersetCidr (ServiceImports).", has_clusters, count, IN(imported_services)),
	ROW("monokube_imported_endpoints", "gauge", "", "Endpoints of these, this cluster's own included: an address with a port.", has_clusters, count, IN(imported_endpoints)),
	ROW("monokube_exported_services", "gauge", "", "Services that other clusters may use (ServiceExports).", has_clusters, count, IN(exported_services)),
	ROW("monokube_leader", "gauge", "", "1: this agent leads, so it publishes exported Services and writes ServiceImports.", has_clusters, count, IN(leads)),
	ROW("monokube_leader_waiting_writes", "gauge", "", "Objects that this agent, as the leader, still has to write.", has_clusters, count, IN(leader_waiting)),
	ROW("monokube_external_addresses", "gauge", "state", "Addresses of externalCidr as this agent, the leader, has assigned them; released: not used again for an hour.", has_clusters, external_addresses, 0),
	ROW("monokube_peer_up", "gauge", "cluster", "1: the nodes of the peer answer this node's probes, or nothing is known yet; 0: the peer is down, and new connections go elsewhere.", has_clusters, peer_up, 0),
	ROW("monokube_peer_rtt_seconds", "gauge", "cluster", "Round trip of probes to the peer, the mean of its nodes that answer.", has_clusters, peer_rtt, 0),
	ROW("monokube_peer_mtu_bytes", "gauge", "cluster", "The largest packet to the peer; less than configured, if larger ones are lost on the way.", has_clusters, peer_known, offsetof(struct mk_metrics_peer, mtu_bytes)),
	ROW("monokube_peer_handshake_age_seconds", "gauge", "cluster", "Seconds since the last WireGuard handshake with any node of the peer, below 180 while probes pass; none: no handshake yet, or encryption is off.", has_clusters, peer_known, offsetof(struct mk_metrics_peer, handshake_age_s)),
	ROW("monokube_peer_api_up", "gauge", "cluster", "1: this agent, as the leader, reads the peer's API server; condition Connected of the ClusterPeer says why not.", has_clusters, peer_apis, offsetof(struct mk_metrics_peer_api, is_up)),
	ROW("monokube_peer_api_last_contact_timestamp_seconds", "gauge", "cluster", "When data last came from the peer's API server; 0: never since this agent leads.", has_clusters, peer_apis, offsetof(struct mk_metrics_peer_api, contact_unix_s)),
	ROW("monokube_leader_write_failures_total", "counter", "", "Writes of this agent as the leader that failed; each is tried again.", has_clusters, count, IN(leader_failures)),

	SERVICE_ROW("monokube_service_connections_total", "", "New flows to a Service.", connections, 0),
	SERVICE_ROW("monokube_service_packets_total", ", direction", "Packets of its flows, as on the wire.", directions, offsetof(struct mk_service_counter, packets)),
	SERVICE_ROW("monokube_service_bytes_total", ", direction", "Bytes of the packets of its flows.", directions, offsetof(struct mk_service_counter, bytes)),
	SERVICE_ROW("monokube_service_drops_total", ", reason", "First packets of flows that were dropped or refused.", service_drops, 0),

	{ "monokube_policy_rule_flows_total", "counter", "namespace, policy, rule, direction, verdict", false, "What a rule decided, as monokube_policy_flows_total; without policy and rule, the pod is isolated and no rule allowed.", MK_METRICS_POLICIES, rule_flows, IN(always), 0 },

	{ "monokube_chain_replicas", "gauge", "state", false, "Function pods of all nodes that chains name, by what they are to this node; not-ready-alone: none serves, so open flows stay.", MK_METRICS_CHAINS, chain_states, IN(has_chains), 0 },
	CHAIN_ROW("monokube_chain_paths", "gauge", "", "Different ways of flows through replicas, at the last sweep.", count, OF(paths)),
	CHAIN_ROW("monokube_chain_flows", "gauge", CHAIN, "Flows of a chain with ends, on this node, at the last sweep.", chain_flows, offsetof(struct mk_metrics_chain, flows)),
	CHAIN_ROW("monokube_chain_max_flows", "gauge", CHAIN, "Flows of a chain with ends that this node remembers; of more, it forgets those that were idle longest.", chain_flows, offsetof(struct mk_metrics_chain, max_flows)),
	CHAIN_ROW("monokube_chain_replica_flows", "gauge", REPLICA, "Flows of this node's pods that pass a replica of any node, at the last sweep.", chain_replica_flows, 0),
	CHAIN_ROW("monokube_chain_replica_packets_total", "counter", REPLICA ", side, direction", "Packets to and from a port of a replica of this node.", chain_replica_counts, offsetof(struct mk_sfc_counters, sent_packets)),
	CHAIN_ROW("monokube_chain_replica_bytes_total", "counter", REPLICA ", side, direction", "Bytes of the packets to and from a port of a replica of this node.", chain_replica_counts, offsetof(struct mk_sfc_counters, sent_bytes)),
};
/* clang-format on */

const size_t mk_metrics_row_count = MK_ARRAY_SIZE(mk_metrics_rows);

static void put(const void *values, const struct mk_metric *metric, text *out)
{
	if (*((const char *)values + metric->present))
		metric->write(values, metric, out);
}

static void put_families(const struct mk_metrics *metrics, const struct mk_metric *metric,
			 text *out)
{
	for (unsigned i = 0; i < MK_FAMILIES; i++) {
		out->common = (struct mk_label){ "family", mk_family_name(i ? AF_INET6 : AF_INET) };
		put(&metrics->families[i], metric, out);
	}
	out->common = (struct mk_label){ 0 };
}

char *mk_metrics_text(const struct mk_metrics *metrics, enum mk_metrics_page page)
{
	struct mk_exposition out = { 0 };

	for (size_t i = 0; i < mk_metrics_row_count; i++) {
		const struct mk_metric *metric = &mk_metrics_rows[i];

		if (metric->page != page)
			continue;
		mk_exposition_family(&out, metric->name, metric->type, metric->help);
		if (metric->by_family)
			put_families(metrics, metric, &out);
		else
			put(metrics, metric, &out);
	}
	return mk_exposition_take(&out);
}

// SPDX-License-Identifier: Apache-2.0
/* Metrics: the table, the resulting text, and src/agent/README.md, which shows the table. With the
 * argument --table, print it as in that page. */
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monokube/version.h"
#include "agent/report/metrics.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "unit/unit.h"

static struct mk_metrics metrics; /* 100 KiB */
static struct mk_error err;

static bool matches(const char *pattern, const char *text)
{
	regex_t regex;
	bool yes;

	ck_assert_int_eq(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
	yes = regexec(&regex, text, 0, NULL, 0) == 0;
	regfree(&regex);
	return yes;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* The rules of `promtool check metrics` for names and words. */
START_TEST(test_row)
{
	const struct mk_metric *row = &mk_metrics_rows[_i];
	bool counter = strcmp(row->type, "counter") == 0;

	ck_assert_msg(matches("^(monokube|process)_[a-z]+(_[a-z]+)*$", row->name), "%s", row->name);
	ck_assert_msg(matches("^(counter|gauge|histogram)$", row->type), "%s: %s", row->name,
		      row->type);
	ck_assert_msg(counter == matches("_total$", row->name), "%s is a %s", row->name, row->type);
	ck_assert_msg(!matches("_(count|sum|bucket|info|milliseconds|ms|kilobytes|percent)$",
			       row->name) ||
			      strcmp(row->name, "monokube_build_info") == 0,
		      "%s ends as others do", row->name);
	ck_assert_msg(strcmp(row->type, "histogram") != 0 || matches("_seconds$", row->name),
		      "%s has no unit", row->name);
	ck_assert_msg(matches("^[A-Z0-9].*\\.$", row->help) && !strpbrk(row->help, "|\n\\"),
		      "%s: '%s' is no sentence for a table", row->name, row->help);
	ck_assert_msg(matches("^([a-z]+(, [a-z]+)*)?$", row->labels), "%s: labels '%s'", row->name,
		      row->labels);
	for (size_t i = 0; i < (size_t)_i; i++)
		ck_assert_str_ne(mk_metrics_rows[i].name, row->name);
}
END_TEST

static const char *readme_row(const struct mk_metric *row)
{
	static char line[512];
	char labels[64];

	snprintf(labels, sizeof(labels), "%s%s%s", row->by_family ? "family" : "",
		 row->by_family && *row->labels ? ", " : "", row->labels);

	snprintf(line, sizeof(line), "| `%s` | %s | %s | %s |\n", row->name, row->type, labels,
		 row->help);
	return line;
}

START_TEST(test_readme)
{
	cleanup_free char *readme = NULL;
	const char *at;

	ck_ok(mk_file_read("src/agent/README.md", 1 << 20, &readme, NULL, &err));
	at = readme;
	for (size_t i = 0; i < mk_metrics_row_count; i++) {
		const char *line = readme_row(&mk_metrics_rows[i]);

		at = strstr(at, line);
		ck_assert_msg(at != NULL,
			      "src/agent/README.md lacks, or has at another place: %s"
			      "(`make docs` puts it right)",
			      line);
	}
	at += strcspn(at, "\n") + 1;
	ck_assert_msg(strncmp(at, "| `", 3) != 0, "src/agent/README.md has one more: %.60s", at);
}
END_TEST

/* ---- the text -------------------------------------------------------------------------------- */

static struct mk_service_totals totals[2];
static struct mk_metrics_service services[] = {
	{ "default", "web", &totals[0] },
	{ "kube-system", "dns", &totals[1] },
};

static void fill_api(void)
{
	metrics.has_api = metrics.has_policies = metrics.has_clock = metrics.is_ready = true;
	metrics.ready_after_lists_s = 0.25;
	metrics.clock_ahead_s = -12.5;
	metrics.api[MK_RESOURCE_SERVICES] = (struct mk_reflector_stats){
		.followed = true,
		.up = 1,
		.listed = 1,
		.objects = 12,
		.undecodable = 2,
		.lists = 2,
		.watches = 3,
		.events = 400,
		.failures = 5,
		.contact_unix_ms = 1732206317250,
	};
}

static struct mk_metrics_rule rules[] = {
	{ &rules[1], "shop", "web-in", 2, MK_POLICY_INGRESS, MK_POLICY_ALLOWED, 12 },
	{ &rules[2], "", "no-strangers", 1, MK_POLICY_EGRESS, MK_POLICY_DENIED, 13 },
	{ NULL, "shop", "", 0, MK_POLICY_INGRESS, MK_POLICY_AUDITED, 14 },
};

static void fill_policies(void)
{
	struct mk_metrics_family *family = &metrics.families[0];

	family->has_policies = true;
	family->policy_flows[MK_POLICY_EGRESS][1][MK_TIER_ADMIN] = 21;
	family->policy_events[MK_POLICY_RECHECK] = 22;
	family->policy_events[MK_POLICY_TAKEN_UP] = 23;
	family->policy_events[MK_POLICY_UNKNOWN_PEER] = 24;
	metrics.policy.ignored[MK_KIND_CLUSTER_POLICY] = 3;
	metrics.policy.isolated_pods = 4;
	metrics.policy.audited_pods = 5;
	metrics.policy.open_pods = 6;
	metrics.policy.pending_pods = 7;
	metrics.per_rule = rules;
}

static struct mk_metrics_replica replicas[] = {
	{ "inspection",
	  "firewall",
	  "fw-1",
	  true,
	  41,
	  { .sent_packets = { 42, 43 },
	    .sent_bytes = { 44, 45 },
	    .received_packets = { 46, 47 },
	    .received_bytes = { 48, 49 } } },
	{ "inspection", "firewall", "fw-2", false, 50, { .sent_packets = { 51, 52 } } },
};

static struct mk_metrics_chain chains[] = { { "inspection", "link", 61, 62 } };

static struct mk_metrics_peer peers[] = {
	{ "east",
	  true,
	  3,
	  1344,
	  { .probed = 3, .answering = 2, .rtt_us = 400, .shown_rtt_us = 300 },
	  0,
	  { { 71, 72 }, { 73, 74 } } },
	{ "hub", true, 1, 0, { .is_down = true, .probed = 1 }, 81, { { 0 }, { 0 } } },
	{ "north", false, 0, 0, { 0 }, 0, { { 0 }, { 0 } } },
};

static void fill_chains(void)
{
	struct mk_metrics_family *family = &metrics.families[0];

	metrics.has_chains = family->has_chains = true;
	metrics.chain_replicas[MK_SFC_POD_DRAINING] = 3;
	family->paths = 5;
	family->chains = chains;
	family->chain_count = 1;
	family->replicas = replicas;
	family->replica_count = 2;
}

/* Set every metric. */
static struct mk_metrics_peer_api peer_api = { "east", 1, 80 };

static void fill(void)
{
	struct mk_metrics_family *family = &metrics.families[0];

	metrics.always = metrics.has_datapath = metrics.has_cni = true;
	family->configured = family->has_datapath = family->has_sweep = family->has_drops = true;
	family->ready = 1;
	metrics.process.cpu_s = 1.5;
	metrics.ready = 1;
	metrics.repairs.count[MK_REPAIR_ROUTE] = 3;
	metrics.log_lines[MK_LOG_WARN] = 4;
	metrics.log_lines_lost = 7;
	metrics.loop_turns = 100;
	metrics.loop_long_turns = 2;
	metrics.loop_longest_s = 0.25;
	metrics.loop_most_cpu_s = 0.125;
	metrics.objects[MK_KIND_ENDPOINT_SLICE] = 9;
	mk_histogram_add_bounds(&metrics.latency, 0.25, 0.25, 2);
	mk_histogram_observe(&metrics.latency, 0.3);
	fill_api();
	fill_policies();
	fill_chains();
	metrics.has_encryption = true;
	metrics.peers_unencrypted = 89;
	metrics.has_routing = true;
	metrics.peers_direct = 91;
	metrics.has_clusters = true;
	metrics.cluster_peers = peers;
	metrics.cluster_peer_count = 3;
	metrics.imported_services = 75;
	metrics.imported_endpoints = 76;
	metrics.exported_services = 77;
	metrics.leads = 1;
	metrics.leader_waiting = 78;
	metrics.leader_failures = 79;
	metrics.externals = (struct mk_externals_use){ .mapped = 87, .released = 88 };
	metrics.peer_apis = &peer_api;
	metrics.peer_api_count = 1;
	family->tables[0] = (struct mk_table_fill){ "routes", 7, 32768 };
	family->table_count = 1;
	family->counts.sessions[MK_SESSIONS_NAT][MK_SESSIONS_UDP][MK_SESSIONS_NEW] = 11;
	family->counts.busiest_nat_ports = 17;
	family->nat_ports = 16384;
	family->drops.counter[MK_DROP_NO_POD][MK_HOOK_UPLINK_EGRESS] =
		(struct mk_drop_counter){ 5, 300 };
	metrics.traffic[0] = (struct mk_metrics_traffic){ MK_HOOK_OVERLAY, "mkvxlan", 8, 800 };
	metrics.traffic_count = 1;
	family->programs[0] = (struct mk_program_stats){ "ilb_pod", 10, 2500000000 };
	family->program_count = 1;
	metrics.cni[MK_CNI_COMMAND_ADD] =
		(struct mk_cni_calls){ .failed = 1, .total_ns = 30000000, .buckets = { [5] = 2 } };
	totals[0].counter = (struct mk_service_counter){ 3, { 20, 21 }, { 2000, 2100 } };
	totals[1].drops[MK_DROP_REFUSED] = 6;
	metrics.per_service = services;
	metrics.per_service_count = 2;
}

static const struct {
	enum mk_metrics_page page;
	const char *line;
} lines[] = {
	{ MK_METRICS_NODE, "monokube_build_info{version=\"" MONOKUBE_VERSION "\"} 1\n" },
	{ MK_METRICS_NODE, "process_cpu_seconds_total 1.5\n" },
	{ MK_METRICS_NODE, "monokube_ready 1\n" },
	{ MK_METRICS_NODE, "monokube_ready_after_lists_seconds 0.25\n" },
	{ MK_METRICS_NODE, "monokube_family_ready{family=\"IPv4\"} 1\n# HELP" },
	{ MK_METRICS_NODE, "monokube_healthy 0\n" },
	{ MK_METRICS_NODE, "monokube_repairs_total{what=\"hook\"} 0\n" },
	{ MK_METRICS_NODE, "monokube_repairs_total{what=\"route\"} 3\n" },
	{ MK_METRICS_NODE, "monokube_log_lines_total{level=\"warn\"} 4\n" },
	{ MK_METRICS_NODE, "monokube_log_lines_lost_total 7\n" },
	{ MK_METRICS_NODE, "monokube_loop_turns_total 100\n" },
	{ MK_METRICS_NODE, "monokube_loop_long_turns_total 2\n" },
	{ MK_METRICS_NODE, "monokube_loop_most_cpu_of_turn_seconds 0.125\n" },
	{ MK_METRICS_NODE, "monokube_loop_longest_turn_seconds 0.25\n" },
	{ MK_METRICS_NODE, "monokube_objects{kind=\"EndpointSlice\"} 9\n" },
	{ MK_METRICS_NODE, "monokube_network_programming_duration_seconds_bucket{le=\"0.25\"} 0\n"
			   "monokube_network_programming_duration_seconds_bucket{le=\"0.5\"} 1\n"
			   "monokube_network_programming_duration_seconds_bucket{le=\"+Inf\"} 1\n"
			   "monokube_network_programming_duration_seconds_sum 0.3\n"
			   "monokube_network_programming_duration_seconds_count 1\n" },
	{ MK_METRICS_NODE, "monokube_api_up{resource=\"Services\"} 1\n" },
	{ MK_METRICS_NODE, "monokube_api_undecodable{resource=\"Services\"} 2\n" },
	{ MK_METRICS_NODE, "monokube_api_events_total{resource=\"Services\"} 400\n" },
	{ MK_METRICS_NODE, "monokube_api_last_contact_timestamp_seconds{resource=\"Services\"} "
			   "1732206317.25\n" },
	{ MK_METRICS_NODE, "monokube_api_clock_ahead_seconds -12.5\n" },
	{ MK_METRICS_NODE, "monokube_table_entries{family=\"IPv4\",table=\"routes\"} 7\n" },
	{ MK_METRICS_NODE, "monokube_table_max_entries{family=\"IPv4\",table=\"routes\"} 32768\n" },
	{ MK_METRICS_NODE,
	  "monokube_sessions{family=\"IPv4\",kind=\"nat\",protocol=\"udp\",state=\"new\"} 11\n" },
	{ MK_METRICS_NODE,
	  "monokube_sessions{family=\"IPv4\",kind=\"service\",protocol=\"tcp\",state=\"closing\"} 0\n" },
	{ MK_METRICS_NODE, "monokube_nat_ports_used{family=\"IPv4\"} 17\n" },
	{ MK_METRICS_NODE,
	  "monokube_dropped_packets_total{family=\"IPv4\",reason=\"no_pod\",hook=\"uplink-egress\"} 5\n" },
	{ MK_METRICS_NODE,
	  "monokube_dropped_bytes_total{family=\"IPv4\",reason=\"no_pod\",hook=\"uplink-egress\"} 300\n" },
	{ MK_METRICS_NODE, "monokube_hook_packets_total{hook=\"overlay\",device=\"mkvxlan\"} 8\n" },
	{ MK_METRICS_NODE,
	  "monokube_program_runs_total{family=\"IPv4\",program=\"ilb_pod\"} 10\n" },
	{ MK_METRICS_NODE,
	  "monokube_program_run_seconds_total{family=\"IPv4\",program=\"ilb_pod\"} 2.5\n" },
	{ MK_METRICS_NODE,
	  "monokube_cni_duration_seconds_bucket{command=\"ADD\",le=\"0.01\"} 0\n" },
	{ MK_METRICS_NODE,
	  "monokube_cni_duration_seconds_bucket{command=\"ADD\",le=\"0.025\"} 2\n" },
	{ MK_METRICS_NODE, "monokube_cni_duration_seconds_sum{command=\"ADD\"} 0.03\n" },
	{ MK_METRICS_NODE, "monokube_cni_failures_total{command=\"ADD\"} 1\n" },
	{ MK_METRICS_NODE,
	  "monokube_policy_flows_total{family=\"IPv4\",direction=\"egress\",verdict=\"denied\",tier=\"admin\"} 21\n" },
	{ MK_METRICS_NODE,
	  "monokube_policy_flows_total{family=\"IPv4\",direction=\"ingress\",verdict=\"allowed\",tier=\"network-policy\"} 0\n" },
	{ MK_METRICS_NODE, "monokube_policy_pods{state=\"isolated\"} 4\n"
			   "monokube_policy_pods{state=\"audited\"} 5\n"
			   "monokube_policy_pods{state=\"open\"} 6\n"
			   "monokube_policy_pods{state=\"pending\"} 7\n" },
	{ MK_METRICS_NODE, "monokube_policy_rechecks_total{family=\"IPv4\"} 22\n" },
	{ MK_METRICS_NODE, "monokube_policy_picked_up_total{family=\"IPv4\"} 23\n" },
	{ MK_METRICS_NODE, "monokube_policy_unknown_peer_drops_total{family=\"IPv4\"} 24\n" },
	{ MK_METRICS_NODE, "monokube_policy_objects_ignored{kind=\"ClusterNetworkPolicy\"} 3\n" },
	{ MK_METRICS_NODE, "monokube_policy_pod_wait_seconds_count 0\n" },
	{ MK_METRICS_POLICIES,
	  "monokube_policy_rule_flows_total{namespace=\"shop\",policy=\"web-in\",rule=\"2\",direction=\"ingress\",verdict=\"allowed\"} 12\n"
	  "monokube_policy_rule_flows_total{namespace=\"\",policy=\"no-strangers\",rule=\"1\",direction=\"egress\",verdict=\"denied\"} 13\n"
	  "monokube_policy_rule_flows_total{namespace=\"shop\",policy=\"\",rule=\"\",direction=\"ingress\",verdict=\"audit\"} 14\n" },
	{ MK_METRICS_NODE, "monokube_cluster_peers{state=\"unusable\"} 1\n"
			   "monokube_cluster_peers{state=\"usable\"} 2\n" },
	{ MK_METRICS_NODE, "monokube_cluster_peer_nodes{peer=\"east\"} 3\n" },
	{ MK_METRICS_NODE, "monokube_peer_up{cluster=\"east\"} 1\n"
			   "monokube_peer_up{cluster=\"hub\"} 0\n"
			   "monokube_peer_up{cluster=\"north\"} 1\n" },
	{ MK_METRICS_NODE, "monokube_peer_rtt_seconds{cluster=\"east\"} 0.0004\n" },
	{ MK_METRICS_NODE, "monokube_peer_mtu_bytes{cluster=\"east\"} 1344\n" },
	{ MK_METRICS_NODE, "monokube_peers_unencrypted 89\n" },
	{ MK_METRICS_NODE, "monokube_peers_direct 91\n" },
	{ MK_METRICS_NODE, "# TYPE monokube_peer_handshake_age_seconds gauge\n"
			   "monokube_peer_handshake_age_seconds{cluster=\"hub\"} 81\n" },
	{ MK_METRICS_NODE,
	  "monokube_cluster_peer_packets_total{peer=\"east\",direction=\"to\"} 71\n"
	  "monokube_cluster_peer_packets_total{peer=\"east\",direction=\"from\"} 72\n" },
	{ MK_METRICS_NODE,
	  "monokube_cluster_peer_bytes_total{peer=\"east\",direction=\"to\"} 73\n"
	  "monokube_cluster_peer_bytes_total{peer=\"east\",direction=\"from\"} 74\n" },
	{ MK_METRICS_NODE, "monokube_imported_services 75\n" },
	{ MK_METRICS_NODE, "monokube_imported_endpoints 76\n" },
	{ MK_METRICS_NODE, "monokube_exported_services 77\n" },
	{ MK_METRICS_NODE, "monokube_leader 1\n" },
	{ MK_METRICS_NODE, "monokube_leader_waiting_writes 78\n" },
	{ MK_METRICS_NODE, "monokube_external_addresses{state=\"mapped\"} 87\n"
			   "monokube_external_addresses{state=\"released\"} 88\n" },
	{ MK_METRICS_NODE, "monokube_leader_write_failures_total 79\n" },
	{ MK_METRICS_NODE, "monokube_peer_api_up{cluster=\"east\"} 1\n" },
	{ MK_METRICS_NODE,
	  "monokube_peer_api_last_contact_timestamp_seconds{cluster=\"east\"} 80\n" },
	{ MK_METRICS_CHAINS, "monokube_chain_replicas{state=\"draining\"} 3\n" },
	{ MK_METRICS_CHAINS,
	  "monokube_chain_replica_flows{family=\"IPv4\",namespace=\"inspection\",function=\"firewall\",pod=\"fw-2\"} 50\n" },
	{ MK_METRICS_CHAINS,
	  "monokube_chain_flows{family=\"IPv4\",namespace=\"inspection\",chain=\"link\"} 61\n" },
	{ MK_METRICS_CHAINS,
	  "monokube_chain_max_flows{family=\"IPv4\",namespace=\"inspection\",chain=\"link\"} 62\n" },
	{ MK_METRICS_CHAINS, "monokube_chain_paths{family=\"IPv4\"} 5\n" },
	{ MK_METRICS_CHAINS,
	  "monokube_chain_replica_flows{family=\"IPv4\",namespace=\"inspection\",function=\"firewall\",pod=\"fw-1\"} 41\n" },
	{ MK_METRICS_CHAINS,
	  "monokube_chain_replica_packets_total{family=\"IPv4\",namespace=\"inspection\",function=\"firewall\",pod=\"fw-1\",side=\"outside\",direction=\"to\"} 43\n"
	  "monokube_chain_replica_packets_total{family=\"IPv4\",namespace=\"inspection\",function=\"firewall\",pod=\"fw-1\",side=\"outside\",direction=\"from\"} 47\n" },
	{ MK_METRICS_CHAINS,
	  "monokube_chain_replica_bytes_total{family=\"IPv4\",namespace=\"inspection\",function=\"firewall\",pod=\"fw-1\",side=\"inside\",direction=\"to\"} 44\n"
	  "monokube_chain_replica_bytes_total{family=\"IPv4\",namespace=\"inspection\",function=\"firewall\",pod=\"fw-1\",side=\"inside\",direction=\"from\"} 48\n" },
	{ MK_METRICS_SERVICES,
	  "monokube_service_connections_total{namespace=\"default\",service=\"web\"} 3\n"
	  "monokube_service_connections_total{namespace=\"kube-system\",service=\"dns\"} 0\n" },
	{ MK_METRICS_SERVICES,
	  "monokube_service_packets_total{namespace=\"default\",service=\"web\","
	  "direction=\"request\"} 20\n" },
	{ MK_METRICS_SERVICES, "monokube_service_bytes_total{namespace=\"default\",service=\"web\","
			       "direction=\"reply\"} 2100\n" },
	{ MK_METRICS_SERVICES, "monokube_service_drops_total{namespace=\"kube-system\","
			       "service=\"dns\",reason=\"refused\"} 6\n" },
};

START_TEST(test_line)
{
	cleanup_free char *text = NULL;
	const char *at;

	fill();
	text = mk_metrics_text(&metrics, lines[_i].page);
	ck_assert_ptr_nonnull(text);
	at = strstr(text, lines[_i].line);
	ck_assert_msg(at && at[-1] == '\n', "lacks %s", lines[_i].line);
}
END_TEST

/* A node of both families has a sample of each. */
START_TEST(test_both_families)
{
	cleanup_free char *text = NULL;

	fill();
	metrics.families[1] = metrics.families[0];
	text = mk_metrics_text(&metrics, MK_METRICS_NODE);
	ck_assert_ptr_nonnull(text);
	ck_assert_ptr_nonnull(strstr(text, "\nmonokube_family_ready{family=\"IPv4\"} 1\n"
					   "monokube_family_ready{family=\"IPv6\"} 1\n"));
	memset(&metrics.families[1], 0, sizeof(metrics.families[1]));
}
END_TEST

/* Check that each family of the page occurs once, in the order of the table; @samples: must
 * there be samples? */
static void ck_families(enum mk_metrics_page page, bool samples)
{
	cleanup_free char *text = mk_metrics_text(&metrics, page);
	const char *at = text;

	ck_assert_ptr_nonnull(text);
	for (size_t i = 0; i < mk_metrics_row_count; i++) {
		const struct mk_metric *row = &mk_metrics_rows[i];
		size_t length = strlen(row->name);
		char head[512];

		if (row->page != page)
			continue;
		snprintf(head, sizeof(head), "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help,
			 row->name, row->type);
		ck_assert_msg(strncmp(at, head, strlen(head)) == 0, "not '%s' but '%.80s'", head,
			      at);
		at += strlen(head);
		ck_assert_msg(!samples || *at != '#', "%s has no samples", row->name);
		while (*at && *at != '#') {
			ck_assert_msg(strncmp(at, row->name, length) == 0, "%s: %.80s", row->name,
				      at);
			at = strchr(at, '\n') + 1;
		}
	}
	ck_assert_str_eq(at, "");
}

START_TEST(test_families)
{
	fill();
	ck_families(MK_METRICS_NODE, true);
	ck_families(MK_METRICS_SERVICES, true);
	ck_families(MK_METRICS_POLICIES, true);
	ck_families(MK_METRICS_CHAINS, true);
}
END_TEST

/* The metrics before the datapath is loaded. */
START_TEST(test_nothing)
{
	cleanup_free char *text = NULL;

	metrics.always = true;
	ck_families(MK_METRICS_NODE, false);
	ck_families(MK_METRICS_SERVICES, false);
	ck_families(MK_METRICS_POLICIES, false);
	ck_families(MK_METRICS_CHAINS, false);
	text = mk_metrics_text(&metrics, MK_METRICS_NODE);
	ck_assert_ptr_nonnull(strstr(text, "\nmonokube_ready 0\n"));
	ck_assert_ptr_null(strstr(text, "\nmonokube_nat_ports_used{"));
	ck_assert_ptr_null(strstr(text, "\nmonokube_dropped_packets_total{"));
	ck_assert_ptr_null(strstr(text, "\nmonokube_api_up{"));
}
END_TEST

int unit_print_table(void)
{
	printf("| metric | type | labels | |\n| --- | --- | --- | --- |\n");
	for (size_t i = 0; i < mk_metrics_row_count; i++)
		fputs(readme_row(&mk_metrics_rows[i]), stdout);
	return 0;
}

UNIT_SUITE("metrics")
{
	TCase *tc = unit_case(suite, "metrics", NULL, NULL);

	tcase_add_loop_test(tc, test_row, 0, (int)mk_metrics_row_count);
	tcase_add_test(tc, test_readme);
	tcase_add_loop_test(tc, test_line, 0, MK_ARRAY_SIZE(lines));
	tcase_add_test(tc, test_both_families);
	tcase_add_test(tc, test_families);
	tcase_add_test(tc, test_nothing);
}

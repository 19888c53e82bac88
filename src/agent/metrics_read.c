// SPDX-License-Identifier: Apache-2.0
/* The values of a scrape, read in one pass on request: nothing is gathered without a reader. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "agent/agent_internal.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/time.h"
#include "pod/endpoint/endpoint.h"
#include "pod/request/calls.h"

#define SERVICES_AGE_NS 1000000000ULL

/* ---- the process ----------------------------------------------------------------------------- */

static double seconds(const struct timeval *time)
{
	return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

static void read_memory(struct mk_metrics *metrics)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	unsigned long virtual, resident;
	cleanup_fclose FILE *file = fopen("/proc/self/statm", "re");

	if (!file || fscanf(file, "%lu %lu", &virtual, &resident) != 2)
		return;
	metrics->process.virtual_bytes = virtual * page;
	metrics->process.resident_bytes = resident * page;
}

/* Do not count the descriptor that reads the directory. */
static uint64_t open_descriptors(void)
{
	cleanup_closedir DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;
	uint64_t count = 0;

	while (dir && (entry = readdir(dir)))
		count += entry->d_name[0] != '.';
	return count ? count - 1 : 0;
}

static void read_process(const struct mk_agent *agent, struct mk_metrics *metrics)
{
	struct rlimit files = { 0 };
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	getrlimit(RLIMIT_NOFILE, &files);
	read_memory(metrics);
	metrics->process.cpu_s = seconds(&usage.ru_utime) + seconds(&usage.ru_stime);
	metrics->process.start_unix_s = (double)(agent->latency.started_unix_ns / 1000000) / 1000;
	metrics->process.open_fds = open_descriptors();
	metrics->process.max_fds = files.rlim_cur;
}

/* ---- the agent ------------------------------------------------------------------------------- */

static void read_agent(const struct mk_agent *agent, struct mk_metrics *metrics)
{
	const struct mk_health *health = &agent->health.state;
	const struct mk_loop_stats *loop = mk_loop_stats();
	uint64_t now_ns = mk_time_monotonic_ns();

	metrics->ready = metrics->is_ready = agent->steps.ready;
	metrics->ready_after_lists_s = (double)agent->steps.after_lists_ns / MK_NS_PER_S;
	metrics->healthy = mk_health_is_healthy(health, now_ns);
	metrics->complete = agent->core.complete;
	if (health->waiting_since_ns)
		metrics->waiting_s = (double)(now_ns - health->waiting_since_ns) / 1e9;
	metrics->latency = agent->latency.histogram;
	metrics->work = agent->steps.seconds;
	metrics->work_failures = agent->steps.failures;
	metrics->writes = agent->core.writes;
	metrics->addresses_reaped = agent->pods.reaped;
	metrics->repairs = agent->core.repairs;
	metrics->log_lines_lost = mk_log_lost();
	metrics->loop_turns = loop->turns;
	metrics->loop_long_turns = loop->long_turns;
	metrics->loop_most_cpu_s = (double)loop->most_cpu_ns / MK_NS_PER_S;
	metrics->loop_longest_s = (double)loop->longest_ns / MK_NS_PER_S;
	for (int level = 0; level < MK_LOG_LEVELS; level++)
		metrics->log_lines[level] = mk_log_count((enum mk_log_level)level);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void read_cluster(const struct mk_agent *agent, struct mk_metrics *metrics)
{
	const struct mk_api_clock *clock = mk_source_clock(agent->core.source);
	struct mk_own_clock now = mk_own_clock_now();

	for (int kind = 0; kind < MK_KIND_COUNT; kind++)
		metrics->objects[kind] = mk_model_count(agent->core.model, (enum mk_kind)kind);
	metrics->skipped = mk_model_skipped_count(agent->core.model);
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		metrics->peers = larger(metrics->peers, agent->node.families[i].plan.peer_count);
		metrics->peers_left_out += agent->node.families[i].plan.left_out_count;
	}
	metrics->has_encryption = agent->core.config.encryption != MK_ENCRYPTION_NONE;
	metrics->peers_unencrypted = agent->node.clear_count;
	metrics->has_routing = agent->core.config.routing != MK_ROUTING_OVERLAY;
	metrics->peers_direct = agent->node.direct_count;
	metrics->has_api = mk_source_stats(agent->core.source, metrics->api);
	metrics->has_clock = clock && clock->known;
	if (metrics->has_clock)
		metrics->clock_ahead_s = (double)mk_api_clock_ahead_ms(clock, &now) / 1000;
}

/* ---- the datapath ---------------------------------------------------------------------------- */

static void read_tables(const struct mk_datapath *datapath, struct mk_metrics_family *metrics)
{
	metrics->has_datapath = datapath && mk_datapath_state(datapath) >= MK_DATAPATH_LOADED;
	if (!metrics->has_datapath)
		return;
	metrics->table_count =
		mk_datapath_fill(datapath, metrics->has_sweep ? &metrics->counts : NULL,
				 metrics->tables, MK_METRICS_TABLES);
	metrics->program_count =
		mk_datapath_program_stats(datapath, metrics->programs, MK_METRICS_PROGRAMS);
}

static void read_family(const struct mk_agent *agent, unsigned index, struct mk_metrics *metrics)
{
	const struct mk_family *family = &agent->core.families[index];
	struct mk_metrics_family *of = &metrics->families[index];

	of->configured = mk_config_has(&agent->core.config, family->family);
	if (!of->configured)
		return;
	of->ready = mk_family_is_attached(family);
	of->endpoints = mk_model_endpoint_count(agent->core.model, family->family);
	of->pod_addresses = agent->node.families[index].addresses.pod_count;
	agent_sessions_read(&agent->sides[index].sessions, of);
	agent_services_read(&agent->sides[index].services, metrics, of);
	read_tables(family->datapath, of);
	of->has_drops = family->datapath && mk_drops_read(family->dir, &of->drops, NULL) == 0;
	metrics->has_datapath |= of->has_datapath;
	for (size_t i = 0; i < of->table_count; i++)
		if (strcmp(of->tables[i].name, "pods") == 0)
			metrics->pods = larger(metrics->pods, of->tables[i].entries);
}

static void take_traffic(struct mk_metrics *metrics, enum mk_hook hook, const char *device,
			 uint64_t packets, uint64_t bytes)
{
	struct mk_metrics_traffic *traffic = &metrics->traffic[metrics->traffic_count++];

	*traffic = (struct mk_metrics_traffic){ .hook = hook, .packets = packets, .bytes = bytes };
	snprintf(traffic->device, sizeof(traffic->device), "%s", device);
}

/* A device deleted between the two reads is in neither; the exported counter must not decrease. */
static void read_pods_traffic(struct mk_agent *agent, struct mk_metrics *metrics)
{
	struct mk_pod_traffic *told = &agent->process.scrape.pods, seen = { 0 };

	if (mk_pod_traffic_read(agent->core.nl, agent->core.config.bpf_dir,
				agent->core.config.veth_prefix, &seen, NULL) == 0) {
		told->packets = seen.packets > told->packets ? seen.packets : told->packets;
		told->bytes = seen.bytes > told->bytes ? seen.bytes : told->bytes;
	}
	take_traffic(metrics, MK_HOOK_POD, "pods", told->packets, told->bytes);
}

/* The kernel counts per device, so the programs need not. */
static void read_traffic(struct mk_agent *agent, struct mk_metrics *metrics)
{
	const struct mk_devices *devices = &agent->node.devices;
	const struct mk_own_uplinks *uplinks = &agent->node.uplinks;
	struct mk_link_traffic seen;

	read_pods_traffic(agent, metrics);
	if (mk_nl_link_traffic(agent->core.nl, devices->host_peer_ifindex, &seen, NULL) == 0)
		take_traffic(metrics, MK_HOOK_HOST, MK_HOST_PEER, seen.rx_packets, seen.rx_bytes);
	if (mk_nl_link_traffic(agent->core.nl, devices->overlay_ifindex, &seen, NULL) == 0)
		take_traffic(metrics, MK_HOOK_OVERLAY, agent->core.config.vxlan_iface_name,
			     seen.rx_packets, seen.rx_bytes);
	if (mk_nl_link_traffic(agent->core.nl, devices->sfc_ifindex, &seen, NULL) == 0)
		take_traffic(metrics, MK_HOOK_FUNCTION, agent->core.config.sfc_iface_name,
			     seen.rx_packets, seen.rx_bytes);
	if (devices->cluster_ifindex &&
	    mk_nl_link_traffic(agent->core.nl, devices->cluster_ifindex, &seen, NULL) == 0)
		take_traffic(metrics, MK_HOOK_CLUSTER, agent->core.config.peer_iface_name,
			     seen.rx_packets, seen.rx_bytes);
	for (size_t i = 0; i < uplinks->count; i++) {
		const struct mk_link *link = &uplinks->uplink[i].link;

		if (mk_nl_link_traffic(agent->core.nl, link->ifindex, &seen, NULL) < 0)
			continue;
		take_traffic(metrics, MK_HOOK_UPLINK, link->name, seen.rx_packets, seen.rx_bytes);
		take_traffic(metrics, MK_HOOK_UPLINK_EGRESS, link->name, seen.tx_packets,
			     seen.tx_bytes);
	}
}

/* Without memory, this scrape has none of them. */
static void read_clusters(struct mk_agent *agent, struct mk_metrics *metrics)
{
	struct mk_error err = { 0 };

	if (mk_node_clusters_measure(&agent->clusters, metrics, &err) < 0)
		mk_log_error("no metrics of other clusters: %s", mk_error_text(&err));
	mk_leader_measure(agent->process.leader, metrics);
}

static void read_node(struct mk_agent *agent, struct mk_metrics *metrics)
{
	read_process(agent, metrics);
	read_agent(agent, metrics);
	read_cluster(agent, metrics);
	mk_node_policies_measure(&agent->policies, metrics);
	read_clusters(agent, metrics);
	for (unsigned i = 0; i < MK_FAMILIES; i++)
		read_family(agent, i, metrics);
	if (metrics->has_datapath)
		read_traffic(agent, metrics);
	metrics->lost_pods = agent->pods.lost_count;
	metrics->underlay_mtu_bytes = agent->node.uplinks.uplink[0].link.mtu_bytes;
	metrics->has_cni = mk_cni_calls_read(agent->core.config.bpf_dir, metrics->cni, NULL) == 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

static int list_services(const struct mk_agent *agent, struct agent_service_traffic *traffic,
			 struct mk_metrics *metrics, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++)
		ret = agent_services_read_traffic(&agent->sides[i].services, &traffic[i], err);
	return ret < 0 ? ret : agent_services_list(traffic, metrics, err);
}

/* The caller frees the text; NULL: out of memory, or the tables could not be read. */
static char *services_text(const struct mk_agent *agent, struct mk_metrics *metrics)
{
	struct agent_service_traffic traffic[MK_FAMILIES] = { 0 };
	struct mk_error err = { 0 };
	char *text = NULL;

	if (list_services(agent, traffic, metrics, &err) == 0)
		text = mk_metrics_text(metrics, MK_METRICS_SERVICES);
	else
		mk_log_error("no metrics of Services: %s", mk_error_text(&err));
	for (size_t i = 0; i < MK_FAMILIES; i++)
		free(traffic[i].totals);
	free(metrics->per_service);
	return text;
}

/* Ten thousand Services take some 20 ms, so frequent requests get the previous answer. */
static char *recent_services_text(struct mk_agent *agent, struct mk_metrics *metrics)
{
	struct agent_scrape *scrape = &agent->process.scrape;
	uint64_t now_ns = mk_time_monotonic_ns();

	if (!scrape->services_text || now_ns - scrape->services_text_ns > SERVICES_AGE_NS) {
		free(scrape->services_text);
		scrape->services_text = services_text(agent, metrics);
		scrape->services_text_ns = now_ns;
	}
	return scrape->services_text ? strdup(scrape->services_text) : NULL;
}

/* kube-proxy reports its mode here. Kubernetes' own tests ask, and skip tests of other modes. */
static void answer_proxy_mode(struct mk_httpd_reply *reply)
{
	reply->body = strdup("monokube");
	if (!reply->body)
		reply->status = 500;
	mk_httpd_reply_header(reply, "Content-Type", "text/plain; charset=utf-8");
	mk_httpd_reply_header(reply, "X-Content-Type-Options", "nosniff");
}

/* NULL: out of memory, or the tables could not be read. */
static char *chains_text(struct mk_agent *agent, struct mk_metrics *metrics)
{
	struct mk_error err = { 0 };
	char *text = NULL;

	if (mk_node_sfc_measure(&agent->sfc, metrics, &err) == 0)
		text = mk_metrics_text(metrics, MK_METRICS_CHAINS);
	else
		mk_log_error("no metrics of chains: %s", mk_error_text(&err));
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		free(metrics->families[i].chains);
		free(metrics->families[i].replicas);
	}
	return text;
}

static char *node_text(struct mk_agent *agent, struct mk_metrics *metrics)
{
	char *text;

	read_node(agent, metrics);
	text = mk_metrics_text(metrics, MK_METRICS_NODE);
	free(metrics->cluster_peers);
	free(metrics->peer_apis);
	return text;
}

static char *text_of(struct mk_agent *agent, enum mk_metrics_page page, struct mk_metrics *metrics)
{
	if (page == MK_METRICS_SERVICES)
		return recent_services_text(agent, metrics);
	if (page == MK_METRICS_CHAINS)
		return chains_text(agent, metrics);
	if (page == MK_METRICS_NODE)
		return node_text(agent, metrics);
	mk_node_policies_measure(&agent->policies, metrics);
	return mk_metrics_text(metrics, page);
}

static void answer_metrics(struct mk_agent *agent, enum mk_metrics_page page,
			   struct mk_httpd_reply *reply)
{
	cleanup_free struct mk_metrics *metrics = NULL;

	metrics = calloc(1, sizeof(*metrics));
	if (metrics) {
		metrics->always = true;
		reply->body = text_of(agent, page, metrics);
	}
	if (!reply->body)
		reply->status = 500;
	mk_httpd_reply_header(reply, "Content-Type", "%s", MK_EXPOSITION_CONTENT_TYPE);
}

void agent_metrics_answer(void *ctx, const char *path, struct mk_httpd_reply *reply)
{
	static const char *const pages[] = {
		[MK_METRICS_NODE] = "/metrics",
		[MK_METRICS_SERVICES] = "/metrics/services",
		[MK_METRICS_POLICIES] = "/metrics/policies",
		[MK_METRICS_CHAINS] = "/metrics/chains",
	};

	if (strcmp(path, "/proxyMode") == 0) {
		answer_proxy_mode(reply);
		return;
	}
	for (size_t i = 0; i < MK_ARRAY_SIZE(pages); i++)
		if (strcmp(path, pages[i]) == 0) {
			answer_metrics(ctx, (enum mk_metrics_page)i, reply);
			return;
		}
	reply->status = 404;
}

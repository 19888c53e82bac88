// SPDX-License-Identifier: Apache-2.0
/* test/wire/follow - the API client without an agent, for the tests against the stand-in.
 *
 * follow --dump FILE [--node NAME] [--kubeconfig FILE] [--api-server URL] [--account DIR]
 *        [--watch-s N] [--quiet-ms N] [--quiet-watch-s N] [--settled-ms N] [--grace-ms N]
 *        [--list-ms N] [--backoff-ms MIN MAX] [--forget-ms N] [--absent-ms N] [--page N]
 *        [--connect-ms N] [--keepalive-s N] [--unacknowledged-ms N] [--event-again-ms N] [--bare]
 *        [--wants] [--cluster NAME] [--lease-s N] [--renew-ms N] [--write-ms N]
 *
 * FILE always has the model, one sorted line per Node, Service and object of network policies and
 * chains, in the words of the stand-in's dump.py for the desired state. Standard output reports events: `listed`, `changed
 * NAMESPACE/NAME`, `gone NAMESPACE/NAME`, `node NAME`, `cidrs RANGES`. SIGUSR1: the datapath is
 * ready. SIGUSR2: an Event. SIGHUP: an Event, each time another. --bare: write no FILE after the
 * first list, for measurements. --wants: each byte of standard input chooses what is followed:
 * `p` policies and chains, `q` none, `o` the Pods of this node, `a` all Pods, `n` none, `f` function
 * pods, `g` none. `s` and `b` say what the status of all chains is: their functions serve, or
 * block; `e` that the time of vanished objects is over. --cluster: follow other clusters' objects,
 * and be a candidate to lead, with pods in 10.244.0.0/16. `leads` and `follows` on standard output
 * say which. */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "agent/leader/leader.h"
#include "cluster/kube.h"

struct text {
	char **lines;
	size_t count;
};

static struct {
	uv_loop_t loop;
	struct mk_model *model;
	struct mk_kube *kube;
	struct mk_config config; /* of the leader */
	struct mk_leader *leader; /* NULL: no --cluster */
	struct mk_own_node node; /* without networks */
	struct mk_node_clusters clusters; /* only what has vanished */
	uv_timer_t leads; /* look whether it leads */
	bool led;
	const char *dump;
	const char *wireguard; /* KEY:PORT of the node; NULL: none */
	uv_idle_t dirty;
	uv_signal_t signals[5];
	uv_poll_t wants;
	unsigned int hangups;
	uint64_t changes;
	bool bare, started, listed, has_wants;
	uint64_t started_ns;
} fx;

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "follow: %s: %s\n", what, why);
	exit(1);
}

/* ---- the dump ---------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *fmt, ...)
{
	va_list args;

	text->lines = realloc(text->lines, (text->count + 1) * sizeof(*text->lines));
	va_start(args, fmt);
	if (!text->lines || vasprintf(&text->lines[text->count++], fmt, args) < 0)
		fail("dump", "out of memory");
	va_end(args);
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *join(struct text *text, const char *separator, bool unique)
{
	char *joined = NULL;
	size_t size;
	FILE *out = open_memstream(&joined, &size);

	if (text->count)
		qsort(text->lines, text->count, sizeof(*text->lines), compare);
	for (size_t i = 0; i < text->count; i++)
		if (!unique || i == 0 || strcmp(text->lines[i], text->lines[i - 1]) != 0)
			fprintf(out, "%s%s", i ? separator : "", text->lines[i]);
	fclose(out);
	for (size_t i = 0; i < text->count; i++)
		free(text->lines[i]);
	free(text->lines);
	*text = (struct text){ 0 };
	return joined;
}

static const char *address(const struct mk_ip *ip, char *buf)
{
	return ip->family == AF_UNSPEC ? "-" : mk_ip_format(ip, buf);
}

static const char *range(const struct mk_cidr *cidr, char *buf)
{
	return cidr->ip.family == AF_UNSPEC ? "-" : mk_cidr_format(cidr, buf);
}

static const char *protocol(uint8_t proto)
{
	return proto == IPPROTO_UDP ? "udp" : proto == IPPROTO_SCTP ? "sctp" : "tcp";
}

static void add_node(void *ctx, const struct mk_node_object *node)
{
	char cidr[MK_CIDR_STRLEN], cidr6[MK_CIDR_STRLEN], ip[MK_IP_STRLEN], ip6[MK_IP_STRLEN];

	add(ctx, "node %s %s %s %s %s", node->name, range(&node->pod_cidrs[0], cidr),
	    range(&node->pod_cidrs[1], cidr6), address(&node->internal_ips[0], ip),
	    address(&node->internal_ips[1], ip6));
}

static char *endpoints_of(const struct mk_service_object *service)
{
	const struct mk_endpoint **endpoints;
	struct text text = { 0 };
	char ip[MK_IP_STRLEN];
	size_t count;

	if (mk_model_endpoints(fx.model, service->namespace_, service->name, AF_UNSPEC, &endpoints,
			       &count) < 0)
		fail("dump", "out of memory");
	for (size_t i = 0; i < count; i++)
		add(&text, "%s:%u/%s", mk_ip_format(&endpoints[i]->ip, ip), endpoints[i]->port,
		    protocol(endpoints[i]->proto));
	free(endpoints);
	return join(&text, " ", true);
}

static void add_service(void *ctx, const struct mk_service_object *service)
{
	cleanup_free char *endpoints = endpoints_of(service), *joined = NULL;
	struct text ports = { 0 };
	char ip[MK_IP_STRLEN], ip6[MK_IP_STRLEN];

	for (size_t i = 0; i < service->port_count; i++)
		add(&ports, "%u/%s/%u", service->ports[i].port, protocol(service->ports[i].proto),
		    service->ports[i].node_port);
	joined = join(&ports, ",", false);
	add(ctx, "service %s/%s %s %s [%s] %s%s%s", service->namespace_, service->name,
	    address(&service->cluster_ips[0], ip), address(&service->cluster_ips[1], ip6), joined,
	    endpoints, service->preferred_count ? " prefers " : "",
	    service->preferred_count ? service->preferred[0] : "");
}

/* Report the list only now: the dump has it. */
static void tell_listed(void)
{
	if (fx.listed)
		printf("listed\n");
	if (fx.listed && fx.has_wants)
		printf("known: policies %s, pods %s, functions %s, peers %s\n",
		       kube_listed(fx.kube, MK_SOURCE_POLICIES) ? "yes" : "no",
		       kube_listed(fx.kube, MK_SOURCE_PODS) ? "yes" : "no",
		       kube_listed(fx.kube, MK_SOURCE_FUNCTIONS) ? "yes" : "no",
		       kube_listed(fx.kube, MK_SOURCE_PEERS) ? "yes" : "no");
	fx.listed = false;
}

static void add_labels(struct text *text, char *line, const struct mk_labels *labels)
{
	for (size_t i = 0; i < labels->count; i++) {
		char *longer = NULL;

		if (asprintf(&longer, "%s %s=%s", line, labels->of[i].key, labels->of[i].value) < 0)
			fail("dump", "out of memory");
		free(line);
		line = longer;
	}
	add(text, "%s", line);
	free(line);
}

static void add_pod(void *ctx, const struct mk_pod_object *pod)
{
	const struct mk_ip ip = mk_pod_ip(pod, 0);
	char *line = NULL, text[MK_IP_STRLEN];

	if (asprintf(&line, "pod %s/%s %s %s%s", pod->of->namespace_, pod->name, address(&ip, text),
		     mk_pod_node(pod) ?: "-", pod->finished ? " finished" : "") < 0)
		fail("dump", "out of memory");
	add_labels(ctx, line, &pod->of->labels);
}

static void add_namespace(void *ctx, const struct mk_namespace_object *namespace_)
{
	char *line = NULL;

	if (asprintf(&line, "namespace %s", namespace_->name) < 0)
		fail("dump", "out of memory");
	add_labels(ctx, line, &namespace_->labels);
}

static void add_network_policy(void *ctx, const struct mk_network_policy *policy)
{
	add(ctx, "policy %s/%s", policy->namespace_, policy->name);
}

static void add_cluster_policy(void *ctx, const struct mk_cluster_policy *policy)
{
	add(ctx, "policy %s %d", policy->name, policy->priority);
}

static void add_chain(void *ctx, const struct mk_chain *chain)
{
	add(ctx, "chain %s/%s %d %s", chain->namespace_, chain->name, chain->priority,
	    chain->functions[0].name);
}

static void add_function_pod(void *ctx, const struct mk_function_pod *pod)
{
	char weight[32] = "";

	if (pod->weight != MK_FUNCTION_WEIGHT)
		snprintf(weight, sizeof(weight), " weight %u", pod->weight);
	add(ctx, "function %s/%s %s %s%s%s%s%s%s", pod->namespace_, pod->name, pod->function,
	    pod->node_name ? pod->node_name : "-", pod->ready ? " ready" : "",
	    pod->deleting ? " deleting" : "", pod->uid ? "" : " without UID",
	    pod->asks_for_ports ? " ports" : "", weight);
}

static void add_peer(void *ctx, const struct mk_cluster_peer *peer)
{
	const struct mk_published_cluster *published =
		mk_model_published_cluster(fx.model, peer->name);
	char view[MK_CIDR_STRLEN], home[MK_CIDR_STRLEN];

	add(ctx, "peer %s %s%s", peer->name, range(&peer->views[0], view),
	    peer->access == MK_PEER_ACCESS_PODS ? " pods" : "");
	if (published)
		add(ctx, "cluster %s %u %s", published->name, published->number,
		    range(&published->pod_cidrs[0], home));
}

static void add_peer_node(void *ctx, const struct mk_published_node *node)
{
	char ip[MK_IP_STRLEN];

	add(ctx, "far node %s.%s %s", node->cluster, node->node,
	    address(&node->carrier->addresses[0], ip));
}

static void add_export(void *ctx, const struct mk_service_export *of)
{
	add(ctx, "export %s/%s", of->namespace_, of->name);
}

static void add_policy_objects(struct text *text)
{
	mk_model_each(struct mk_pod_object, of, fx.model, MK_KIND_POD)
		add_pod(text, of);
	mk_model_each(struct mk_namespace_object, of, fx.model, MK_KIND_NAMESPACE)
		add_namespace(text, of);
	mk_model_each(struct mk_network_policy, of, fx.model, MK_KIND_NETWORK_POLICY)
		add_network_policy(text, of);
	mk_model_each(struct mk_cluster_policy, of, fx.model, MK_KIND_CLUSTER_POLICY)
		add_cluster_policy(text, of);
	mk_model_each(struct mk_chain, of, fx.model, MK_KIND_CHAIN)
		add_chain(text, of);
	mk_model_each_function_pod(fx.model, add_function_pod, text);
	mk_model_each(struct mk_cluster_peer, of, fx.model, MK_KIND_CLUSTER_PEER)
		add_peer(text, of);
	mk_model_each(struct mk_published_node, of, fx.model, MK_KIND_PUBLISHED_NODE)
		add_peer_node(text, of);
	mk_model_each(struct mk_service_export, of, fx.model, MK_KIND_SERVICE_EXPORT)
		add_export(text, of);
}

static void write_dump(uv_idle_t *idle)
{
	cleanup_free char *joined = NULL;
	struct text text = { 0 };
	struct mk_error err;

	uv_idle_stop(idle);
	if (fx.bare) {
		tell_listed();
		return;
	}
	mk_model_each(struct mk_node_object, of, fx.model, MK_KIND_NODE)
		add_node(&text, of);
	mk_model_each(struct mk_service_object, of, fx.model, MK_KIND_SERVICE)
		add_service(&text, of);
	add_policy_objects(&text);
	joined = join(&text, "\n", false);
	if (mk_file_replace(fx.dump, joined, strlen(joined), 0644, &err) < 0)
		fail(fx.dump, err.text);
	tell_listed();
}

/* ---- what happens ------------------------------------------------------------------------ */

static void node_changed(void *ctx, const char *name)
{
	(void)ctx;
	if (fx.leader)
		mk_leader_nodes_changed(fx.leader);
	printf("node %s\n", name);
	uv_idle_start(&fx.dirty, write_dump);
}

static void pod_changed(void *ctx, const struct mk_pod_object *pod,
			const struct mk_pod_object *former)
{
	(void)ctx;
	(void)former;
	fx.changes++;
	if (!fx.bare)
		printf("pod %s/%s\n", pod->of->namespace_, pod->name);
	uv_idle_start(&fx.dirty, write_dump);
}

static void policy_changed(void *ctx, const char *namespace_, const char *name)
{
	(void)ctx;
	printf("policy %s/%s\n", namespace_, name);
	uv_idle_start(&fx.dirty, write_dump);
}

static void peers_changed(void *ctx)
{
	policy_changed(ctx, "", "peers");
	if (fx.leader)
		mk_leader_peers_changed(fx.leader);
}

static void published_gone(void *ctx, const struct mk_published_cluster *cluster,
			   const struct mk_published_node *node)
{
	(void)ctx;
	mk_node_clusters_gone(&fx.clusters, cluster, node);
}

static void end_of_gone(void)
{
	mk_node_clusters_release(&fx.clusters);
	mk_leader_rows_changed(fx.leader);
}

static void export_changed(void *ctx, const char *namespace_, const char *name)
{
	policy_changed(ctx, namespace_, name);
	if (fx.leader)
		mk_leader_peers_changed(fx.leader);
}

static void look_at_lead(uv_timer_t *timer)
{
	bool leads = mk_lead_leads(kube_lead(fx.kube));

	(void)timer;
	if (leads != fx.led)
		printf("%s\n", leads ? "leads" : "follows");
	fx.led = leads;
}

static void named_changed(void *ctx, const char *name)
{
	policy_changed(ctx, "", name);
}

static void service_changed(void *ctx, const char *namespace_, const char *name)
{
	(void)ctx;
	fx.changes++;
	if (!fx.bare)
		printf("%s %s/%s\n",
		       mk_model_service(fx.model, namespace_, name) ? "changed" : "gone",
		       namespace_, name);
	uv_idle_start(&fx.dirty, write_dump);
}

static void on_listed(void *ctx, bool complete)
{
	struct rusage usage;

	(void)ctx;
	getrusage(RUSAGE_SELF, &usage);
	fx.listed = complete;
	fprintf(stderr,
		"follow: listed after %" PRIu64 " ms, %" PRIu64 " changes, peak RSS %ld KiB, "
		"user %ld ms\n",
		(uv_hrtime() - fx.started_ns) / 1000000, fx.changes, usage.ru_maxrss,
		usage.ru_utime.tv_sec * 1000 + usage.ru_utime.tv_usec / 1000);
	uv_idle_start(&fx.dirty, write_dump);
}

static void service_cidrs_changed(void *ctx)
{
	cleanup_free struct mk_service_cidr *cidrs = NULL;
	char text[MK_CIDR_STRLEN];
	size_t count;

	(void)ctx;
	if (mk_model_service_cidrs(fx.model, AF_UNSPEC, &cidrs, &count) < 0)
		fail("ServiceCIDRs", "out of memory");
	printf("cidrs");
	for (size_t i = 0; i < count; i++)
		printf(" %s", mk_cidr_format(&cidrs[i].cidr, text));
	printf("\n");
}

static void close_all(uv_handle_t *handle, void *ctx)
{
	(void)ctx;
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

static void another_event(void)
{
	char message[64];

	snprintf(message, sizeof(message), "hangup %u", ++fx.hangups);
	kube_event(fx.kube, false, "Hangup", message);
	printf("%s\n", message);
}

static void on_signal(uv_signal_t *handle, int number)
{
	if (number == SIGUSR1) {
		if (fx.wireguard)
			kube_wireguard(fx.kube, fx.wireguard);
		kube_ready(fx.kube);
	} else if (number == SIGUSR2) {
		kube_event(fx.kube, true, "TableFull", "the table \"services\" is full");
	} else if (number == SIGHUP) {
		another_event();
	} else {
		mk_leader_stop(fx.leader);
		if (fx.leader)
			uv_close((uv_handle_t *)&fx.leads, NULL);
		kube_stop(fx.kube);
		fx.kube = NULL;
		for (size_t i = 0; i < MK_ARRAY_SIZE(fx.signals); i++)
			uv_close((uv_handle_t *)&fx.signals[i], NULL);
		uv_close((uv_handle_t *)&fx.dirty, NULL);
		if (fx.has_wants)
			uv_close((uv_handle_t *)&fx.wants, NULL);
	}
	(void)handle;
}

static void say_status(void *ctx, const struct mk_chain *chain)
{
	const bool *serves = ctx;
	struct mk_chain_status status = {
		.namespace_ = chain->namespace_,
		.name = chain->name,
		.function_count = chain->function_count,
		.accepted = { true, "Valid", "the chain is valid" },
		.ready = { *serves, *serves ? "AllServing" : "Blocked", "as follow says" },
	};

	for (size_t i = 0; i < chain->function_count; i++)
		status.functions[i] =
			(struct mk_chain_function_status){ chain->functions[i].name, *serves, 1 };
	kube_chain_status(fx.kube, &status);
}

static void on_wants(uv_poll_t *handle, int status, int events)
{
	char byte = 0;

	(void)events;
	if (status < 0 || read(STDIN_FILENO, &byte, 1) != 1) {
		uv_poll_stop(handle);
		return;
	}
	if (byte == 'e')
		end_of_gone();
	else if (byte == 's' || byte == 'b')
		mk_model_each(struct mk_chain, of, fx.model, MK_KIND_CHAIN)
			say_status(&(bool){ byte == 's' }, of);
	else if (byte == 'p' || byte == 'q')
		kube_want(fx.kube, MK_SOURCE_POLICIES, byte == 'p');
	else if (byte == 'f' || byte == 'g')
		kube_want(fx.kube, MK_SOURCE_FUNCTIONS, byte == 'f');
	else if (byte == 'c' || byte == 'd')
		kube_want(fx.kube, MK_SOURCE_PEERS, byte == 'c');
	else if (byte == 'n' || byte == 'o' || byte == 'a')
		kube_want(fx.kube, MK_SOURCE_PODS,
			  byte == 'n'	? MK_SOURCE_NO_PODS
			  : byte == 'o' ? MK_SOURCE_OWN_PODS
					: MK_SOURCE_ALL_PODS);
}

/* ---- start ------------------------------------------------------------------------------- */

struct settings {
	struct mk_kube_options options;
	struct mk_reflector_timing timing;
	struct mk_http_limits limits;
	struct mk_lease_timing lease;
};

static bool text_option(struct settings *settings, const char *key, const char *value)
{
	struct mk_kube_options *options = &settings->options;

	if (strcmp(key, "--dump") == 0)
		fx.dump = value;
	else if (strcmp(key, "--cluster") == 0)
		snprintf(fx.config.cluster_name, sizeof(fx.config.cluster_name), "%s", value);
	else if (strcmp(key, "--wireguard") == 0)
		fx.wireguard = value;
	else if (strcmp(key, "--node") == 0)
		options->node_name = value;
	else if (strcmp(key, "--kubeconfig") == 0)
		options->source.kubeconfig = value;
	else if (strcmp(key, "--api-server") == 0)
		options->source.api_server = value;
	else if (strcmp(key, "--account") == 0)
		options->source.service_account_dir = value;
	else
		return false;
	return true;
}

static bool number_option(struct settings *settings, const char *key, const char *value)
{
	struct mk_reflector_timing *timing = &settings->timing;
	struct mk_http_limits *limits = &settings->limits;
	uint64_t number = strtoull(value, NULL, 10);

	if (strcmp(key, "--watch-s") == 0)
		timing->watch_s = (unsigned int)number;
	else if (strcmp(key, "--quiet-ms") == 0)
		timing->quiet_ms = number;
	else if (strcmp(key, "--quiet-watch-s") == 0)
		timing->quiet_watch_s = (unsigned int)number;
	else if (strcmp(key, "--settled-ms") == 0)
		timing->settled_ms = number;
	else if (strcmp(key, "--grace-ms") == 0)
		timing->grace_ms = number;
	else if (strcmp(key, "--list-ms") == 0)
		timing->list_silence_ms = number;
	else if (strcmp(key, "--backoff-min-ms") == 0)
		timing->backoff_min_ms = number;
	else if (strcmp(key, "--backoff-max-ms") == 0)
		timing->backoff_max_ms = number;
	else if (strcmp(key, "--forget-ms") == 0)
		timing->forget_ms = number;
	else if (strcmp(key, "--absent-ms") == 0)
		timing->absent_ms = number;
	else if (strcmp(key, "--page") == 0)
		timing->page = (unsigned int)number;
	else if (strcmp(key, "--lease-s") == 0)
		settings->lease.duration_s = (unsigned int)number;
	else if (strcmp(key, "--renew-ms") == 0)
		settings->lease.renew_ms = number;
	else if (strcmp(key, "--write-ms") == 0)
		settings->lease.write_ms = number;
	else if (strcmp(key, "--connect-ms") == 0)
		limits->connect_ms = (unsigned int)number;
	else if (strcmp(key, "--keepalive-s") == 0)
		limits->keepalive_idle_s = limits->keepalive_interval_s = (unsigned int)number;
	else if (strcmp(key, "--event-again-ms") == 0)
		settings->options.event_again_ms = number;
	else if (strcmp(key, "--unacknowledged-ms") == 0)
		limits->unacknowledged_ms = (unsigned int)number;
	else
		return false;
	return true;
}

static void read_arguments(int argc, char **argv, struct settings *settings)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--bare") == 0 || strcmp(argv[i], "--wants") == 0) {
			*(argv[i][2] == 'b' ? &fx.bare : &fx.has_wants) = true;
			continue;
		}
		if (i + 1 == argc || (!text_option(settings, argv[i], argv[i + 1]) &&
				      !number_option(settings, argv[i], argv[i + 1])))
			fail(argv[i], "no such option, or no value");
		i++;
	}
	if (!fx.dump)
		fail("--dump", "is missing");
}

static struct mk_cidr range_of(const char *text)
{
	struct mk_cidr cidr;

	if (mk_cidr_parse(text, &cidr) < 0)
		fail(text, "no range");
	return cidr;
}

static void join_clusterset(void)
{
	struct mk_clusterset clusterset = { .cluster_name = "west" };

	fx.config.cluster.of[0] = range_of("10.244.0.0/16");
	fx.config.cluster.primary = fx.config.underlay_family = AF_INET;
	fx.config.externals.of[0] = range_of("247.255.0.0/20");
	fx.config.clusterset.of[0] = clusterset.ranges[0] = range_of("247.254.0.0/16");
	fx.config.peer_pools.of[0] = range_of("240.0.0.0/6");
	fx.config.vxlan_port = 4789;
	mk_model_set_clusterset(fx.model, &clusterset);
}

static void be_candidate(void)
{
	struct mk_error err;

	fx.clusters = (struct mk_node_clusters){ .node = &fx.node, .known = true, .settled = true };
	fx.leader = mk_leader_start(&fx.loop, &fx.config, fx.model, kube_lead(fx.kube),
				    &fx.clusters, &err);
	if (!fx.leader)
		fail("--cluster", err.text);
	kube_want(fx.kube, MK_SOURCE_PEERS, true);
	uv_timer_init(&fx.loop, &fx.leads);
	uv_timer_start(&fx.leads, look_at_lead, 0, 20);
}

int main(int argc, char **argv)
{
	static const int numbers[] = { SIGUSR1, SIGUSR2, SIGHUP, SIGTERM, SIGINT };
	struct settings settings = { .timing = mk_reflector_timing_default,
				     .limits = mk_http_limits_default,
				     .lease = mk_lease_timing_default };
	struct mk_model_listener listener = { .node_changed = node_changed,
					      .service_changed = service_changed,
					      .service_cidrs_changed = service_cidrs_changed,
					      .pod_changed = pod_changed,
					      .namespace_changed = named_changed,
					      .network_policy_changed = policy_changed,
					      .cluster_policy_changed = named_changed,
					      .chain_changed = policy_changed,
					      .peers_changed = peers_changed,
					      .published_gone = published_gone,
					      .export_changed = export_changed };
	struct mk_error err;

	setvbuf(stdout, NULL, _IOLBF, 0);
	mk_log_set_level(MK_LOG_DEBUG);
	settings.options.timing = &settings.timing;
	settings.options.limits = &settings.limits;
	settings.options.lease = &settings.lease;
	read_arguments(argc, argv, &settings);
	fx.started_ns = uv_hrtime();
	uv_loop_init(&fx.loop);
	uv_idle_init(&fx.loop, &fx.dirty);
	for (size_t i = 0; i < MK_ARRAY_SIZE(numbers); i++) {
		uv_signal_init(&fx.loop, &fx.signals[i]);
		uv_signal_start(&fx.signals[i], on_signal, numbers[i]);
	}
	fx.model = mk_model_new();
	mk_model_set_listener(fx.model, &listener);
	if (*fx.config.cluster_name || fx.has_wants)
		join_clusterset();
	fx.kube = kube_start(&fx.loop, &settings.options, fx.model, on_listed, NULL, &err);
	fx.started = fx.kube != NULL;
	if (fx.started && *fx.config.cluster_name)
		be_candidate();
	if (!fx.started) {
		fprintf(stderr, "follow: %s\n", err.text);
		uv_walk(&fx.loop, close_all, NULL);
	} else if (fx.has_wants) {
		uv_poll_init(&fx.loop, &fx.wants, STDIN_FILENO);
		uv_poll_start(&fx.wants, UV_READABLE, on_wants);
	}
	uv_run(&fx.loop, UV_RUN_DEFAULT);
	mk_node_clusters_release(&fx.clusters);
	mk_model_free(fx.model);
	if (uv_loop_close(&fx.loop) != 0)
		fail("loop", "something is still open");
	return fx.started ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
#include "agent/agent.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "monokube/version.h"
#include "agent/agent_internal.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/time.h"
#include "datapath/maps/pin.h"
#include "host/agent_state.h"
#include "host/privileges.h"
#include "host/record.h"

/* A timer of 0 ms batches changes, because it runs once per turn of the loop: a file with ten
 * objects, or one read of the API server's connection, is one turn. */
#define DEBOUNCE_MS 0

/* CNI ADD holds the agent's lock for an instant, to see whether an agent lives. */
#define LOCK_TRIES    5
#define LOCK_RETRY_US 2000

#define LARGE_BLOCK (128 * 1024)

static bool is_configured(const struct mk_family *family)
{
	return mk_config_has(&family->core->config, family->family);
}

/* ---- callbacks of the source ----------------------------------------------------------------- */

static void on_node_changed(void *ctx, const char *name)
{
	struct mk_agent *agent = ctx;

	for (size_t i = 0; i < MK_FAMILIES; i++)
		agent->sides[i].services.vips_dirty = true;
	mk_node_policies_mark(&agent->policies, MK_KIND_NODE, "", name);
	mk_node_sfc_describe_again(&agent->sfc);
	mk_leader_nodes_changed(agent->process.leader);
	mk_health_queued(&agent->health.state, mk_time_monotonic_ns());
	mk_core_mark(&agent->core, MK_UNSURE_NODE, DEBOUNCE_MS);
}

static void on_policy_object(struct mk_agent *agent, enum mk_kind kind, const char *namespace_,
			     const char *name)
{
	mk_node_policies_mark(&agent->policies, kind, namespace_, name);
	mk_core_schedule(&agent->core, DEBOUNCE_MS);
}

static void on_pod_changed(void *ctx, const struct mk_pod_object *pod,
			   const struct mk_pod_object *former)
{
	struct mk_agent *agent = ctx;

	mk_node_policies_pod_changed(&agent->policies, pod, former);
	mk_core_schedule(&agent->core, DEBOUNCE_MS);
}

static void on_namespace_changed(void *ctx, const char *name)
{
	struct mk_agent *agent = ctx;

	mk_node_sfc_describe_again(&agent->sfc);
	on_policy_object(ctx, MK_KIND_NAMESPACE, "", name);
}

static void on_network_policy_changed(void *ctx, const char *namespace_, const char *name)
{
	on_policy_object(ctx, MK_KIND_NETWORK_POLICY, namespace_, name);
}

static void on_cluster_policy_changed(void *ctx, const char *name)
{
	on_policy_object(ctx, MK_KIND_CLUSTER_POLICY, "", name);
}

static void on_function_pod_changed(void *ctx, const char *namespace_, const char *name)
{
	struct mk_agent *agent = ctx;

	(void)namespace_;
	(void)name;
	mk_node_sfc_changed(&agent->sfc);
}

static void on_chain_changed(void *ctx, const char *namespace_, const char *name)
{
	on_function_pod_changed(ctx, namespace_, name);
	on_policy_object(ctx, MK_KIND_CHAIN, namespace_, name);
}

static void on_peers_changed(void *ctx)
{
	struct mk_agent *agent = ctx;

	mk_node_clusters_changed(&agent->clusters);
	mk_leader_peers_changed(agent->process.leader);
}

static void on_published_gone(void *ctx, const struct mk_published_cluster *cluster,
			      const struct mk_published_node *node)
{
	struct mk_agent *agent = ctx;

	mk_node_clusters_gone(&agent->clusters, cluster, node);
}

static void on_export_changed(void *ctx, const char *namespace_, const char *name)
{
	struct mk_agent *agent = ctx;

	(void)namespace_;
	(void)name;
	mk_node_clusters_export_changed(&agent->clusters);
	mk_leader_peers_changed(agent->process.leader);
}

static void on_externals_changed(void *ctx)
{
	struct mk_agent *agent = ctx;

	mk_node_clusters_export_changed(&agent->clusters);
}

static void on_service_changed(void *ctx, const char *namespace_, const char *name)
{
	struct mk_agent *agent = ctx;

	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (is_configured(&agent->core.families[i]))
			agent_service_dirty(&agent->sides[i].services, namespace_, name);
	mk_node_clusters_service_changed(&agent->clusters, namespace_, name);
	if (mk_model_has_chain_of(agent->core.model, namespace_, name)) {
		mk_node_policies_mark(&agent->policies, MK_KIND_CHAIN, namespace_, name);
		mk_node_sfc_describe_again(&agent->sfc);
	}
	mk_health_queued(&agent->health.state, mk_time_monotonic_ns());
	mk_core_schedule(&agent->core, DEBOUNCE_MS);
}

static void on_endpoints_triggered(void *ctx, const char *namespace_, const char *name,
				   int64_t unix_ns)
{
	struct mk_agent *agent = ctx;

	agent_latency_triggered(&agent->latency, namespace_, name, unix_ns);
}

static void on_service_cidrs_changed(void *ctx)
{
	struct mk_agent *agent = ctx;

	mk_core_mark(&agent->core, MK_UNSURE_NODE | MK_UNSURE_OVERLAY, DEBOUNCE_MS);
}

static void on_listed(void *ctx, bool complete)
{
	struct mk_agent *agent = ctx;

	if (!agent->core.listed) {
		agent->steps.listed_ns = mk_time_monotonic_ns();
		agent->steps.listed_cpu_ns = mk_time_ns(CLOCK_PROCESS_CPUTIME_ID);
	}
	agent->core.listed = true;
	agent->core.complete = complete;
	if (!complete)
		mk_log_warn(
			"some objects of the cluster could not be read, see above: nothing is removed until all are");
	mk_core_mark(&agent->core, MK_UNSURE_NODE | MK_UNSURE_OVERLAY, 0);
}

/* ---- one agent per node ---------------------------------------------------------------------- */

static int already_running(const char *state_dir, struct mk_error *err)
{
	struct mk_agent_state state;

	mk_agent_state_read(state_dir, &state);
	return mk_error_set(err, EBUSY,
			    "an agent runs here already, pid %lu (lock '%s/" MK_AGENT_LOCK "')",
			    state.pid, state_dir);
}

static int take_lock(struct mk_agent *agent, struct mk_error *err)
{
	const char *state_dir = agent->core.config.state_dir;

	for (int tries = 0; tries < LOCK_TRIES; tries++) {
		agent->process.lock_fd =
			mk_state_lock(state_dir, MK_AGENT_LOCK, LOCK_EX | LOCK_NB, err);
		if (agent->process.lock_fd != -EWOULDBLOCK)
			break;
		usleep(LOCK_RETRY_US);
	}
	if (agent->process.lock_fd == -EWOULDBLOCK)
		return already_running(state_dir, err);
	if (agent->process.lock_fd < 0)
		return agent->process.lock_fd;
	if (ftruncate(agent->process.lock_fd, 0) < 0 ||
	    dprintf(agent->process.lock_fd, "%d\n", getpid()) < 0)
		return mk_error_errno(err, errno, "cannot write '%s/" MK_AGENT_LOCK "'", state_dir);
	return 0;
}

/* ---- start and stop -------------------------------------------------------------------------- */

static void on_signal(uv_signal_t *signal, int number)
{
	mk_log_info("stopping on SIG%s; the datapath goes on", number == SIGINT ? "INT" : "TERM");
	uv_stop(signal->loop);
}

static int start_signals(struct mk_agent *agent, struct mk_error *err)
{
	static const int numbers[] = { SIGTERM, SIGINT };
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_ARRAY_SIZE(numbers); i++) {
		ret = uv_signal_init(&agent->core.loop, &agent->process.signals[i]);
		if (ret == 0)
			ret = uv_signal_start(&agent->process.signals[i], on_signal, numbers[i]);
	}
	return ret < 0 ? mk_error_errno(err, -ret, "cannot wait for signals") : 0;
}

/* Without clusterName this cluster is in no clusterset. Ranges count for the families of pods. */
static void join_clusterset(struct mk_agent *agent)
{
	const struct mk_config *config = &agent->core.config;
	struct mk_clusterset clusterset = { .cluster_name = config->cluster_name };

	if (!config->cluster_name[0])
		return;
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (is_configured(&agent->core.families[i]))
			clusterset.ranges[i] = mk_cidr_network(&config->clusterset.of[i]);
	mk_model_set_clusterset(agent->core.model, &clusterset);
}

static int start_model(struct mk_agent *agent, struct mk_error *err)
{
	struct mk_model_listener listener = {
		.node_changed = on_node_changed,
		.service_changed = on_service_changed,
		.endpoints_triggered = on_endpoints_triggered,
		.service_cidrs_changed = on_service_cidrs_changed,
		.pod_changed = on_pod_changed,
		.namespace_changed = on_namespace_changed,
		.network_policy_changed = on_network_policy_changed,
		.cluster_policy_changed = on_cluster_policy_changed,
		.chain_changed = on_chain_changed,
		.function_pod_changed = on_function_pod_changed,
		.peers_changed = on_peers_changed,
		.published_gone = on_published_gone,
		.export_changed = on_export_changed,
		.externals_changed = on_externals_changed,
		.ctx = agent,
	};

	agent->core.model = mk_model_new();
	if (!agent->core.model)
		return mk_error_errno(err, ENOMEM, "cannot keep the cluster's objects");
	mk_model_set_listener(agent->core.model, &listener);
	mk_model_set_node(agent->core.model, agent->core.config.node_name);
	join_clusterset(agent);
	agent->core.source = mk_source_start(&agent->core.loop, &agent->core.config,
					     agent->core.model, on_listed, agent, err);
	return agent->core.source ? 0 : -EINVAL;
}

/* A cluster directory has no leader. */
static int start_leader(struct mk_agent *agent, struct mk_error *err)
{
	struct mk_core *core = &agent->core;
	struct mk_lead *lead = mk_source_lead(core->source);

	if (!lead || !core->config.cluster_name[0])
		return 0;
	agent->process.leader = mk_leader_start(&core->loop, &core->config, core->model, lead,
						&agent->clusters, err);
	return agent->process.leader ? 0 : -ENOMEM;
}

static void write_first_state(struct mk_agent *agent)
{
	char text[sizeof(agent->process.source_text.text) + 64];

	snprintf(text, sizeof(text), "waits for the first complete lists of %s",
		 agent->process.source_text.text);
	mk_core_write_state(&agent->core, text);
}

/* Mount the BPF file system before dropping the rights to do so. A failure is not fatal here;
 * loading the datapath reports it again. */
static int give_up_rights(struct mk_agent *agent, struct mk_error *err)
{
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (mk_config_has(&agent->core.config, agent->core.families[i].family) &&
		    mk_pin_prepare(agent->core.families[i].dir, err) < 0)
			mk_log_warn("%s", mk_error_text(err));
	return mk_privileges_drop(&agent->core.config, err);
}

/* For mk_overlay_on_left_vip(). */
static void vip_was_left(void *ctx, const struct mk_ip *ip)
{
	struct mk_agent *agent = ctx;

	agent_linger_vip_was_left(&agent->sides[mk_family_index(ip->family)].linger, ip);
}

static int start_core(struct mk_agent *agent, struct mk_error *err)
{
	int ret = mk_core_start(&agent->core, err);

	if (ret == 0)
		mk_overlay_on_left_vip(agent->core.overlay, vip_was_left, agent);
	return ret;
}

int agent_each_family(struct mk_agent *agent, agent_family_row *row, struct mk_error *err)
{
	int sum = 0;

	for (unsigned i = 0; i < MK_FAMILIES; i++) {
		int ret = row(agent, i, err);

		if (ret < 0)
			return ret;
		sum += ret;
	}
	return sum;
}

ROW(check_addresses, mk_own_node_check(&agent->node, err))
ROW(check_primary, agent_check_primary(&agent->core.config, err))
ROW(move_conf, agent_move_conf(&agent->core.config, err))
ROW(move_pins, agent_move_pins(&agent->core.config, err))
ROW(rename_devices, agent_rename_devices(&agent->core.config, agent->core.nl, err))
FAMILY_ROW(check_abi, is_configured, mk_abi_check(family->dir, err))
ROW(write_record, mk_record_write(&agent->core.config, agent->process.source_text.text, err))
ROW(choose_source,
    mk_source_choose(&agent->core.config, MK_SERVICE_ACCOUNT_DIR, &agent->process.source_text, err))
ROW(start_health, agent_health_start(&agent->health, agent_metrics_answer, agent, err))
ROW(start_rtnl, agent_rtnl_start(&agent->rtnl, err))
ROW(start_policies, mk_node_policies_start(&agent->policies, &agent->node, err))
FAMILY_ROW(start_sessions, is_configured, agent_sessions_start(&side->sessions, err))

/* Change nothing on the host before the settings are known to suit the cluster, and the lock shows
 * that no other agent runs here. */
static int (*const start_steps[])(struct mk_agent *agent, struct mk_error *err) = {
	choose_source,	 start_core,	 start_signals, start_health,	start_model,
	check_addresses, take_lock,	 check_primary, move_pins,	check_abi,
	rename_devices,	 move_conf,	 write_record,	give_up_rights, start_rtnl,
	start_sessions,	 start_policies, start_leader,
};

static int start(struct mk_agent *agent, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_ARRAY_SIZE(start_steps); i++)
		ret = start_steps[i](agent, err);
	if (ret < 0)
		return ret;
	write_first_state(agent);
	agent_checks_start(agent);
	agent_health_serve(&agent->health);
	if (!agent->core.listed) {
		mk_own_node_recall(&agent->node);
		mk_core_schedule(&agent->core, 0);
	}
	return 0;
}

static void close_handle(uv_handle_t *handle, void *ctx)
{
	(void)ctx;
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

/* Do not wait for a running load: it takes seconds and cannot be cancelled. Exiting is safe at any
 * instant. */
static void end_without_load(const struct mk_agent *agent)
{
	bool runs = false;

	for (size_t i = 0; i < MK_FAMILIES; i++)
		runs |= agent->node.families[i].load.state == MK_LOAD_RUNS;
	if (!runs)
		return;
	mk_log_flush();
	_exit(0);
}

static void stop(struct mk_agent *agent)
{
	end_without_load(agent);
	mk_leader_stop(agent->process.leader);
	agent->process.leader = NULL;
	mk_source_stop(agent->core.source);
	agent_rtnl_stop(&agent->rtnl);
	agent_health_stop(&agent->health);
	uv_walk(&agent->core.loop, close_handle, NULL);
	uv_run(&agent->core.loop, UV_RUN_DEFAULT);
	uv_loop_close(&agent->core.loop);
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		agent_sessions_free(&agent->sides[i].sessions);
		agent_linger_free(&agent->sides[i].linger);
		agent_services_free(&agent->sides[i].services);
	}
	agent_latency_forget(&agent->latency);
	agent_checks_free(&agent->checks);
	mk_node_clusters_release(&agent->clusters);
	mk_node_sfc_release(&agent->sfc);
	mk_node_policies_release(&agent->policies);
	mk_own_node_release(&agent->node);
	mk_core_release(&agent->core);
	mk_cleanup_close(&agent->process.lock_fd);
	free(agent->pods.lost);
	free(agent->process.scrape.services_text);
}

static void say_hello(const struct mk_agent *agent)
{
	struct utsname kernel = { 0 };
	const struct mk_config *config = &agent->core.config;
	bool both = mk_config_has(config, AF_INET) && mk_config_has(config, AF_INET6);
	sa_family_t second = config->cluster.primary == AF_INET ? AF_INET6 : AF_INET;
	char cluster[MK_CIDR_STRLEN], other[MK_CIDR_STRLEN] = "";

	uname(&kernel);
	if (both)
		mk_cidr_format(mk_config_cluster(config, second), other);
	mk_log_info("monokube %s starts node=%s clusterCidr=%s%s%s source='%s' kernel=%s",
		    MONOKUBE_VERSION, config->node_name,
		    mk_cidr_format(mk_config_cluster(config, config->cluster.primary), cluster),
		    both ? "," : "", other, agent->process.source_text.text, kernel.release);
}

static int run(struct mk_agent *agent, struct mk_error *err)
{
	int ret = uv_loop_init(&agent->core.loop);

	if (ret < 0)
		return mk_error_errno(err, -ret, "cannot start the event loop");
	ret = mk_loop_measure(&agent->core.loop, err);
	if (ret == 0)
		ret = start(agent, err);
	if (ret == 0) {
		say_hello(agent);
		uv_run(&agent->core.loop, UV_RUN_DEFAULT);
	}
	stop(agent);
	return ret;
}

static void on_steps(uv_timer_t *timer)
{
	agent_work(timer->data);
}

static void join_side(struct mk_agent *agent, size_t index)
{
	struct mk_family *family = &agent->core.families[index];
	const struct mk_own_family *own = &agent->node.families[index];
	struct agent_side *side = &agent->sides[index];

	side->linger = (struct agent_linger){ .family = family, .own = own };
	side->sessions = (struct agent_sessions){ .family = family, .linger = &side->linger };
	side->services = (struct agent_services){ .family = family,
						  .core = &agent->core,
						  .own = own,
						  .linger = &side->linger,
						  .sessions = &side->sessions,
						  .health = &agent->health };
}

/* Let the parts know what they share, and those below them. */
static void join_parts(struct mk_agent *agent)
{
	struct mk_core *core = &agent->core;

	core->on_steps = on_steps;
	core->steps.data = agent;
	mk_own_node_init(&agent->node, core);
	mk_node_sfc_init(&agent->sfc, &agent->node, &agent->policies);
	mk_node_clusters_init(&agent->clusters, &agent->node);
	agent->health.core = core;
	for (size_t i = 0; i < MK_FAMILIES; i++)
		join_side(agent, i);
	agent->rtnl = (struct agent_rtnl){
		.core = core, .node = &agent->node, .hooks = &agent->hooks, .pods = &agent->pods
	};
	agent->process.lock_fd = -1;
	agent->pods.devices_unsure = agent->pods.some_down = true;
	agent->pods.host_ports = SIZE_MAX;

	agent_latency_init(&agent->latency);
	agent_steps_init(&agent->steps);
}

int mk_agent_main(int argc, char **argv)
{
	struct mk_agent *agent = calloc(1, sizeof(*agent));
	struct mk_error err = { 0 };
	bool failed;
	int ret;

	if (!agent) {
		mk_log_error("the agent does not start: out of memory");
		return 1;
	}
	/* Large blocks are freed to the kernel at once. By default glibc raises this limit with
	 * each of them, and then their memory becomes holes between small blocks. */
	mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK);
	join_parts(agent);
	mk_log_never_block();
	mk_locks_never_wait();
	ret = mk_config_load(&agent->core.config, argc, argv, &err);
	if (ret == 0) {
		mk_log_set_level(agent->core.config.log_level);
		mk_log_set_format(agent->core.config.log_format);
		mk_sysctl_root(agent->core.config.proc_sys_dir);
		ret = run(agent, &err);
	}
	failed = ret < 0 || agent->process.must_restart;
	if (ret < 0)
		mk_log_error("the agent does not start: %s", mk_error_text(&err));
	free(agent);
	return failed ? 1 : 0;
}

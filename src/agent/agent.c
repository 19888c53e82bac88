// SPDX-License-Identifier: Apache-2.0
#include "agent/agent.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "monokube/version.h"
#include "agent/agent_internal.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/time.h"
#include "base/loop.h"
#include "datapath/maps/abi.h"
#include "datapath/maps/pin.h"
#include "host/agent_state.h"
#include "host/privileges.h"
#include "host/record.h"

#define AGENT_LOCK MK_AGENT_LOCK

/* A timer of 0 ms batches changes, because it runs once per turn of the loop: a file with ten
 * objects, or one read of the API server's connection, is one turn. */
#define DEBOUNCE_MS 0

static void on_work(uv_timer_t *timer)
{
	agent_work(timer->data);
}

/* Keep the earlier deadline, so that a stream of changes cannot postpone the work. */
void agent_schedule(struct mk_agent *agent, uint64_t delay_ms)
{
	if (uv_is_active((uv_handle_t *)&agent->work_timer) &&
	    uv_timer_get_due_in(&agent->work_timer) <= delay_ms)
		return;
	uv_timer_start(&agent->work_timer, on_work, delay_ms, 0);
}

/* ---- callbacks of the source ----------------------------------------------------------------- */

static void on_node_changed(void *ctx, const char *name)
{
	struct mk_agent *agent = ctx;

	(void)name;
	agent->node_dirty = true;
	agent->vips_dirty = true;
	agent_health_queued(agent);
	agent_schedule(agent, DEBOUNCE_MS);
}

static void on_service_changed(void *ctx, const char *namespace_, const char *name)
{
	struct mk_agent *agent = ctx;

	agent_service_dirty(agent, namespace_, name);
	agent_health_queued(agent);
	agent_schedule(agent, DEBOUNCE_MS);
}

static void on_endpoints_triggered(void *ctx, const char *namespace_, const char *name,
				   int64_t unix_ns)
{
	agent_latency_triggered(ctx, namespace_, name, unix_ns);
}

static int compare_cidrs(const void *a, const void *b)
{
	const struct mk_service_cidr *x = a, *y = b;
	int order = mk_ip_compare(&x->cidr.ip, &y->cidr.ip);

	if (order == 0)
		order = (int)x->cidr.prefix_bits - (int)y->cidr.prefix_bits;
	return order ? order : strcmp(x->name, y->name);
}

static void on_service_cidrs_changed(void *ctx)
{
	struct mk_agent *agent = ctx;
	struct mk_service_cidr *cidrs;
	struct mk_cidr *ranges;
	size_t count;

	if (mk_model_service_cidrs(agent->model, &cidrs, &count) < 0)
		cidrs = NULL;
	ranges = cidrs ? calloc(count + 1, sizeof(*ranges)) : NULL;
	if (!ranges) {
		free(cidrs);
		mk_log_error("out of memory, the ServiceCIDRs stay as they were");
		return;
	}
	qsort(cidrs, count, sizeof(*cidrs), compare_cidrs);
	free(agent->service_cidrs);
	free(agent->service_ranges);
	agent->service_cidrs = cidrs;
	agent->service_ranges = ranges;
	agent->service_cidr_count = count;
	agent->service_range_count = 0;
	agent->node_dirty = true;
	agent->overlay_dirty = true;
	agent_schedule(agent, DEBOUNCE_MS);
}

static void note_listed(struct mk_agent *agent)
{
	agent->listed_ns = mk_time_monotonic_ns();
	agent->listed_cpu_ns = mk_time_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static void on_listed(void *ctx, bool complete)
{
	struct mk_agent *agent = ctx;

	if (!agent->listed)
		note_listed(agent);
	agent->listed = true;
	agent->complete = complete;
	agent->node_dirty = true;
	agent->overlay_dirty = true;
	if (!complete)
		mk_log_warn("not everything could be read: nothing is removed until it can");
	agent_schedule(agent, 0);
}

/* ---- one agent per node ---------------------------------------------------------------------- */

static int already_running(const char *state_dir, struct mk_error *err)
{
	char path[PATH_MAX], pid[32] = "unknown";
	cleanup_fclose FILE *file = NULL;

	if (snprintf(path, sizeof(path), "%s/" AGENT_LOCK, state_dir) < (int)sizeof(path))
		file = fopen(path, "re");
	if (file && fgets(pid, sizeof(pid), file))
		pid[strcspn(pid, "\n")] = '\0';
	return mk_error_set(err, EBUSY,
			    "an agent runs here already, pid %s (lock '%s/" AGENT_LOCK "')", pid,
			    state_dir);
}

static int take_lock(struct mk_agent *agent, struct mk_error *err)
{
	const char *state_dir = agent->config.state_dir;

	agent->lock_fd = mk_state_lock(state_dir, AGENT_LOCK, LOCK_EX | LOCK_NB, err);
	if (agent->lock_fd == -EWOULDBLOCK)
		return already_running(state_dir, err);
	if (agent->lock_fd < 0)
		return agent->lock_fd;
	if (ftruncate(agent->lock_fd, 0) < 0 || dprintf(agent->lock_fd, "%d\n", getpid()) < 0)
		return mk_error_errno(err, errno, "cannot write '%s/" AGENT_LOCK "'", state_dir);
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
	int ret = uv_signal_init(&agent->loop, &agent->on_term);

	if (ret == 0)
		ret = uv_signal_init(&agent->loop, &agent->on_int);
	if (ret == 0)
		ret = uv_signal_start(&agent->on_term, on_signal, SIGTERM);
	if (ret == 0)
		ret = uv_signal_start(&agent->on_int, on_signal, SIGINT);
	return ret < 0 ? mk_error_errno(err, -ret, "cannot wait for signals") : 0;
}

static int start_model(struct mk_agent *agent, struct mk_error *err)
{
	struct mk_model_listener listener = {
		.node_changed = on_node_changed,
		.service_changed = on_service_changed,
		.endpoints_triggered = on_endpoints_triggered,
		.service_cidrs_changed = on_service_cidrs_changed,
		.ctx = agent,
	};

	agent->model = mk_model_new();
	if (!agent->model)
		return mk_error_errno(err, ENOMEM, "cannot keep the cluster's objects");
	mk_model_set_listener(agent->model, &listener);
	agent->source =
		mk_source_start(&agent->loop, &agent->config, agent->model, on_listed, agent, err);
	return agent->source ? 0 : -EINVAL;
}

static void write_first_state(struct mk_agent *agent)
{
	char text[sizeof(agent->source_text.text) + 64];

	snprintf(text, sizeof(text), "waits for the first complete lists of %s",
		 agent->source_text.text);
	agent_write_state(agent, text);
}

/* Mount the BPF file system before dropping the rights to do so. A failure is not fatal here;
 * loading the datapath reports it again. */
static int give_up_rights(struct mk_agent *agent, struct mk_error *err)
{
	if (mk_pin_prepare(agent->config.bpf_dir, err) < 0)
		mk_log_warn("%s", mk_error_text(err));
	return mk_privileges_drop(&agent->config, err);
}

/* Change nothing on the host before the settings are known to suit the cluster, and the lock shows
 * that no other agent runs here. */
static int start(struct mk_agent *agent, struct mk_error *err)
{
	int ret =
		mk_source_choose(&agent->config, MK_SERVICE_ACCOUNT_DIR, &agent->source_text, err);

	if (ret < 0)
		return ret;
	ret = uv_timer_init(&agent->loop, &agent->work_timer);
	if (ret < 0)
		return mk_error_errno(err, -ret, "cannot start a timer");
	agent->work_timer.data = agent;
	agent->nl = mk_nl_open(err);
	agent->overlay = agent->nl ? mk_overlay_new(agent->nl, err) : NULL;
	if (!agent->overlay)
		return -EINVAL;
	mk_overlay_on_left_vip(agent->overlay, agent_vip_was_left, agent);
	ret = start_signals(agent, err);
	if (ret == 0)
		ret = agent_health_start(agent, err);
	if (ret == 0)
		ret = start_model(agent, err);
	if (ret == 0)
		ret = agent_check_addresses(agent, err);
	if (ret == 0)
		ret = take_lock(agent, err);
	if (ret == 0)
		ret = mk_abi_check(agent->config.bpf_dir, err);
	if (ret == 0)
		ret = mk_record_write(&agent->config, agent->source_text.text, err);
	if (ret == 0)
		write_first_state(agent);
	if (ret == 0)
		ret = give_up_rights(agent, err);
	if (ret == 0)
		ret = agent_monitor_start(agent, err);
	if (ret == 0)
		ret = agent_upkeep_start(agent, err);
	if (ret == 0)
		ret = agent_repair_start(agent, err);
	if (ret == 0)
		agent_health_serve(agent);
	if (ret == 0 && !agent->listed) {
		agent_recall_node(agent);
		agent_schedule(agent, 0);
	}
	return ret;
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
	if (agent->load.state != MK_LOAD_RUNS)
		return;
	mk_log_flush();
	_exit(0);
}

static void stop(struct mk_agent *agent)
{
	end_without_load(agent);
	mk_source_stop(agent->source);
	agent_monitor_stop(agent);
	agent_health_stop(agent);
	uv_walk(&agent->loop, close_handle, NULL);
	uv_run(&agent->loop, UV_RUN_DEFAULT);
	uv_loop_close(&agent->loop);
	agent_load_release(agent);
	agent_drop_datapath(agent);
	agent_lingering_free(agent);
	mk_overlay_free(agent->overlay);
	mk_overlay_plan_release(&agent->plan);
	agent_services_free(agent);
	agent_health_free(agent);
	agent_metrics_free(agent);
	agent_node_release(&agent->node);
	mk_model_free(agent->model);
	mk_model_free(agent->remembered);
	free(agent->remembered_text);
	mk_nl_free(agent->nl);
	mk_cleanup_close(&agent->lock_fd);
	free(agent->state);
	free(agent->said);
	free(agent->left_out);
	free(agent->lost);
	free(agent->service_cidrs);
	free(agent->service_ranges);
	mk_networks_release(&agent->networks);
	for (size_t i = 0; i < MK_WARNINGS; i++)
		free(agent->warned[i]);
}

static void say_hello(const struct mk_agent *agent)
{
	struct utsname kernel = { 0 };
	char cluster[MK_CIDR_STRLEN];

	uname(&kernel);
	mk_log_info("monokube %s starts node=%s clusterCidr=%s source='%s' kernel=%s",
		    MONOKUBE_VERSION, agent->config.node_name,
		    mk_cidr_format(&agent->config.cluster_cidr, cluster), agent->source_text.text,
		    kernel.release);
}

static int run(struct mk_agent *agent, struct mk_error *err)
{
	int ret = uv_loop_init(&agent->loop);

	if (ret < 0)
		return mk_error_errno(err, -ret, "cannot start the event loop");
	ret = mk_loop_measure(&agent->loop, err);
	if (ret == 0)
		ret = start(agent, err);
	if (ret == 0) {
		say_hello(agent);
		uv_run(&agent->loop, UV_RUN_DEFAULT);
	}
	stop(agent);
	return ret;
}

int mk_agent_main(int argc, char **argv)
{
	struct mk_agent *agent = calloc(1, sizeof(*agent));
	struct mk_error err = { 0 };
	int ret;

	if (!agent) {
		mk_log_error("out of memory");
		return 1;
	}
	agent->lock_fd = -1;
	mk_log_never_block();
	mk_locks_never_wait();
	agent_settings_forget(agent);
	agent_metrics_init(agent);
	ret = mk_config_load(&agent->config, argc, argv, &err);
	if (ret == 0) {
		mk_log_set_level(agent->config.log_level);
		mk_log_set_format(agent->config.log_format);
		mk_sysctl_root(agent->config.proc_sys_dir);
		ret = run(agent, &err);
	}
	if (ret < 0)
		mk_log_error("the agent does not start: %s", mk_error_text(&err));
	free(agent);
	return ret < 0 ? 1 : 0;
}

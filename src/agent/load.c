// SPDX-License-Identifier: Apache-2.0
/* A thread of libuv's pool loads the programs: the verifier takes seconds, and the loop answers
 * meanwhile. While the thread runs, the datapath object is its own. */
#include <string.h>

#include "agent/agent_internal.h"
#include "base/log.h"

void agent_drop_datapath(struct mk_agent *agent)
{
	mk_sweep_free(agent->sweep);
	agent->sweep = NULL;
	mk_datapath_free(agent->datapath);
	agent->datapath = NULL;
	agent->pruned = false;
	agent->names_serial = 0;
	agent_settings_forget(agent);
}

/* Runs in the thread. */
static int open_and_load(struct agent_load *load, const struct mk_config *config)
{
	int ret;

	load->datapath =
		mk_datapath_open(config->bpf_dir, config->state_dir, &load->node, &load->err);
	if (!load->datapath)
		return load->err.code ? -load->err.code : -EINVAL;
	ret = mk_datapath_size_sessions(load->datapath, config->session_entries,
					config->new_session_entries, &load->err);
	if (ret == 0)
		ret = mk_datapath_size_affinity(load->datapath, config->affinity_entries,
						&load->err);
	if (ret < 0)
		return ret;
	return load->adopts ? mk_datapath_adopt(load->datapath, &load->err)
			    : mk_datapath_load(load->datapath, &load->err);
}

static void on_thread(uv_work_t *work)
{
	struct mk_agent *agent = work->data;

	agent->load.ret = open_and_load(&agent->load, &agent->config);
}

static void on_thread_ended(uv_work_t *work, int status)
{
	struct mk_agent *agent = work->data;

	(void)status;
	agent->load.state = MK_LOAD_ENDED;
	agent_schedule(agent, 0);
}

static int start(struct mk_agent *agent, const struct mk_node *node, bool adopts,
		 struct mk_error *err)
{
	struct agent_load *load = &agent->load;
	int ret;

	agent_drop_datapath(agent);
	load->node = *node;
	load->adopts = adopts;
	load->err = (struct mk_error){ 0 };
	load->work.data = agent;
	ret = uv_queue_work(&agent->loop, &load->work, on_thread, on_thread_ended);
	if (ret < 0)
		return mk_error_errno(err, -ret, "cannot start a thread");
	load->state = MK_LOAD_RUNS;
	if (!adopts)
		mk_log_debug("programs are being loaded");
	return MK_WAIT;
}

static void forget(struct agent_load *load)
{
	mk_datapath_free(load->datapath);
	load->datapath = NULL;
	load->state = MK_LOAD_NONE;
}

static int take(struct mk_agent *agent, struct mk_error *err)
{
	struct agent_load *load = &agent->load;
	struct mk_service_sync *sync;
	int ret;

	if (load->ret < 0) {
		*err = load->err;
		ret = load->ret;
		forget(load);
		return ret;
	}
	agent->datapath = load->datapath;
	load->datapath = NULL;
	load->state = MK_LOAD_NONE;
	sync = mk_datapath_services(agent->datapath);
	mk_service_sync_on_loss(sync, agent_losing, agent);
	ret = mk_service_sync_set_local(sync, agent->node.local, agent->node.local_count, err);
	if (ret == 0)
		agent_all_services_dirty(agent);
	return ret;
}

/* After an adoption, load programs again only if the constants changed. */
int agent_adopt(struct mk_agent *agent, const struct mk_node *node, struct mk_error *err)
{
	struct agent_load *load = &agent->load;
	int ret;

	if (agent->adopted)
		return agent_load(agent, node, err);
	if (load->state == MK_LOAD_RUNS || agent->adoption_over)
		return MK_WAIT;
	if (load->state == MK_LOAD_NONE)
		return start(agent, node, true, err);
	agent->adoption_over = true;
	ret = take(agent, err);
	agent->adopted = ret == 0;
	return ret;
}

/* Constants are part of the programs: other constants need another load, on top of the same
 * tables. */
int agent_load(struct mk_agent *agent, const struct mk_node *node, struct mk_error *err)
{
	struct agent_load *load = &agent->load;
	int ret;

	if (load->state == MK_LOAD_RUNS)
		return MK_WAIT;
	if (agent->datapath && memcmp(node, mk_datapath_node(agent->datapath), sizeof(*node)) == 0)
		return 0;
	if (load->state == MK_LOAD_ENDED &&
	    (memcmp(node, &load->node, sizeof(*node)) != 0 || (load->adopts && load->ret < 0)))
		forget(load);
	ret = load->state == MK_LOAD_ENDED ? take(agent, err) : start(agent, node, false, err);
	if (ret >= 0)
		return ret;
	agent_drop_datapath(agent);
	return mk_error_wrap(err, "cannot load the datapath");
}

void agent_load_release(struct mk_agent *agent)
{
	forget(&agent->load);
}

// SPDX-License-Identifier: Apache-2.0
/* A thread of libuv's pool loads the programs: the verifier takes seconds, and the loop answers
 * meanwhile. While the thread runs, the datapath object is its own. */
#include <string.h>

#include "agent/node/node_internal.h"
#include "base/log.h"

void drop_datapath(struct mk_own_node *node)
{
	mk_datapath_free(node->core->datapath);
	node->core->datapath = NULL;
	node->core->loads++;
}

/* Runs in the thread. */
static int open_and_load(struct mk_load *load, const struct mk_config *config, const char *pins)
{
	int ret;

	load->datapath = mk_datapath_open(pins, config->state_dir, &load->node, &load->err);
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
	struct mk_own_node *node = work->data;

	node->load.ret = open_and_load(&node->load, &node->core->config, node->core->pins);
}

static void on_thread_ended(uv_work_t *work, int status)
{
	struct mk_own_node *node = work->data;

	(void)status;
	node->load.state = MK_LOAD_ENDED;
	mk_core_schedule(node->core, 0);
}

static int start(struct mk_own_node *node, const struct mk_node *constants, bool adopts,
		 struct mk_error *err)
{
	struct mk_load *load = &node->load;
	int ret;

	drop_datapath(node);
	load->node = *constants;
	load->adopts = adopts;
	load->err = (struct mk_error){ 0 };
	load->work.data = node;
	ret = uv_queue_work(&node->core->loop, &load->work, on_thread, on_thread_ended);
	if (ret < 0)
		return mk_error_errno(err, -ret, "cannot start a thread");
	load->state = MK_LOAD_RUNS;
	if (!adopts)
		mk_log_debug("programs are being loaded");
	return MK_WAIT;
}

static void forget(struct mk_load *load)
{
	mk_datapath_free(load->datapath);
	load->datapath = NULL;
	load->state = MK_LOAD_NONE;
}

static int take(struct mk_own_node *node, struct mk_error *err)
{
	struct mk_load *load = &node->load;
	int ret = load->ret;

	if (ret < 0) {
		*err = load->err;
		forget(load);
		return ret;
	}
	node->core->datapath = load->datapath;
	load->datapath = NULL;
	load->state = MK_LOAD_NONE;
	return mk_service_sync_set_local(mk_datapath_services(node->core->datapath), node->local,
					 node->local_count, err);
}

/* Try once to take over what the last run pinned. */
static int adopt(struct mk_own_node *node, const struct mk_node *constants, struct mk_error *err)
{
	struct mk_load *load = &node->load;
	int ret;

	if (load->adoption_over)
		return MK_WAIT;
	if (load->state == MK_LOAD_NONE)
		return start(node, constants, true, err);
	load->adoption_over = true;
	ret = take(node, err);
	load->adopted = ret == 0;
	return ret;
}

/* Constants are part of the programs: other constants need another load, on top of the same
 * tables. Before the first list, only adopt, and load only if the constants changed since. */
int load_programs(struct mk_own_node *node, const struct mk_node *constants, struct mk_error *err)
{
	const struct mk_datapath *datapath = node->core->datapath;
	struct mk_load *load = &node->load;
	int ret;

	if (load->state == MK_LOAD_RUNS)
		return MK_WAIT;
	if (!node->core->listed && !load->adopted)
		return adopt(node, constants, err);
	if (datapath && memcmp(constants, mk_datapath_node(datapath), sizeof(*constants)) == 0)
		return 0;
	if (load->state == MK_LOAD_ENDED &&
	    (memcmp(constants, &load->node, sizeof(*constants)) != 0 ||
	     (load->adopts && load->ret < 0)))
		forget(load);
	ret = load->state == MK_LOAD_ENDED ? take(node, err) : start(node, constants, false, err);
	if (ret >= 0)
		return ret;
	drop_datapath(node);
	return mk_error_wrap(err, "cannot load the datapath");
}

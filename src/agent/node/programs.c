// SPDX-License-Identifier: Apache-2.0
/* A thread of libuv's pool loads the programs: the verifier takes seconds, and the loop answers
 * meanwhile. While the thread runs, the datapath object is its own. */
#include <string.h>

#include "agent/node/node_internal.h"
#include "base/log.h"

void drop_datapath(struct mk_family *family)
{
	mk_datapath_free(family->datapath);
	family->datapath = NULL;
	family->loads++;
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
	struct mk_own_family *own = work->data;
	const struct mk_family *family = own->family;

	own->load.ret = open_and_load(&own->load, &family->core->config, family->dir);
}

static void on_thread_ended(uv_work_t *work, int status)
{
	struct mk_own_family *own = work->data;

	(void)status;
	own->load.state = MK_LOAD_ENDED;
	mk_core_mark(own->family->core, MK_UNSURE_NODE, 0);
}

static int start(struct mk_own_family *own, const struct mk_node *constants, bool adopts,
		 struct mk_error *err)
{
	struct mk_load *load = &own->load;
	int ret;

	drop_datapath(own->family);
	load->node = *constants;
	load->adopts = adopts;
	load->err = (struct mk_error){ 0 };
	load->work.data = own;
	ret = uv_queue_work(&own->family->core->loop, &load->work, on_thread, on_thread_ended);
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

static int take(struct mk_own_family *own, struct mk_error *err)
{
	struct mk_load *load = &own->load;
	int ret = load->ret;

	if (ret < 0) {
		*err = load->err;
		forget(load);
		return ret;
	}
	own->family->datapath = load->datapath;
	load->datapath = NULL;
	load->state = MK_LOAD_NONE;
	return mk_service_sync_set_local(mk_datapath_services(own->family->datapath), own->local,
					 own->local_count, err);
}

/* Try once to take over what the last run pinned. */
static int adopt(struct mk_own_family *own, const struct mk_node *constants, struct mk_error *err)
{
	struct mk_load *load = &own->load;
	int ret;

	if (load->adoption_over)
		return MK_WAIT;
	if (load->state == MK_LOAD_NONE)
		return start(own, constants, true, err);
	load->adoption_over = true;
	ret = take(own, err);
	load->adopted = ret == 0;
	return ret;
}

/* Constants are part of the programs: other constants need another load, on top of the same
 * tables. Before the first list, only adopt, and load only if the constants changed since. */
int load_programs(struct mk_own_family *own, const struct mk_node *constants, struct mk_error *err)
{
	const struct mk_datapath *datapath = own->family->datapath;
	struct mk_load *load = &own->load;
	int ret;

	if (load->state == MK_LOAD_RUNS)
		return MK_WAIT;
	if (!own->family->core->listed && !load->adopted)
		return adopt(own, constants, err);
	if (datapath && memcmp(constants, mk_datapath_node(datapath), sizeof(*constants)) == 0)
		return 0;
	if (load->state == MK_LOAD_ENDED &&
	    (memcmp(constants, &load->node, sizeof(*constants)) != 0 ||
	     (load->adopts && load->ret < 0)))
		forget(load);
	ret = load->state == MK_LOAD_ENDED ? take(own, err) : start(own, constants, false, err);
	if (ret >= 0)
		return ret;
	drop_datapath(own->family);
	return mk_error_wrap(err, "cannot load the datapath");
}

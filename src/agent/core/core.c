// SPDX-License-Identifier: Apache-2.0
#include "agent/core/core.h"

#include <stdlib.h>

#include "datapath/maps/pin.h"
#include "datapath/sfc/tables.h"

#define SOON_MS 10 /* after a notification: several come together */

static int start_families(struct mk_core *core, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++) {
		struct mk_family *family = &core->families[i];

		family->core = core;
		family->family = i == 0 ? AF_INET : AF_INET6;
		ret = mk_pin_dir(family->dir, core->config.bpf_dir, family->family, err);
	}
	return ret;
}

int mk_core_start(struct mk_core *core, struct mk_error *err)
{
	int ret = start_families(core, err);

	if (ret < 0)
		return ret;
	ret = uv_timer_init(&core->loop, &core->steps);
	if (ret == 0)
		ret = uv_timer_init(&core->loop, &core->checks);
	if (ret < 0)
		return mk_error_errno(err, -ret, "cannot start a timer");
	core->nl = mk_nl_open(err);
	core->overlay = core->nl ? mk_overlay_new(core->nl, err) : NULL;
	return core->overlay ? 0 : -EINVAL;
}

void mk_core_release(struct mk_core *core)
{
	struct mk_notices *notices = &core->notices;

	mk_overlay_free(core->overlay);
	mk_model_free(core->model);
	mk_nl_free(core->nl);
	free(notices->said);
	free(notices->state);
	for (size_t i = 0; i < MK_WARNINGS; i++)
		free(notices->warned[i]);
}

bool mk_family_is_attached(const struct mk_family *family)
{
	return family->datapath && mk_datapath_state(family->datapath) >= MK_DATAPATH_ATTACHED;
}

bool mk_family_is_pruned(const struct mk_family *family)
{
	return family->datapath && mk_datapath_state(family->datapath) >= MK_DATAPATH_SYNCED;
}

bool mk_family_has_chains(const struct mk_family *family)
{
	const struct mk_sfc_sync *sync =
		mk_family_is_loaded(family) ? mk_datapath_sfc(family->datapath) : NULL;

	return sync && !mk_sfc_sync_is_empty(sync);
}

bool mk_core_any(const struct mk_core *core, mk_family_test *test)
{
	return test(&core->families[0]) || test(&core->families[1]);
}

bool mk_core_all(const struct mk_core *core, mk_family_test *test)
{
	bool some = false;

	for (size_t i = 0; i < MK_FAMILIES; i++) {
		if (core->families[i].runs && !test(&core->families[i]))
			return false;
		some |= core->families[i].runs;
	}
	return some;
}

bool mk_core_is_fresh(const struct mk_core *core, const unsigned int loads[MK_FAMILIES])
{
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (mk_family_is_loaded(&core->families[i]) && loads[i] != core->families[i].loads)
			return true;
	return false;
}

/* Keep the earlier deadline, so that a stream of changes cannot postpone the steps. */
void mk_core_schedule(struct mk_core *core, uint64_t delay_ms)
{
	if (uv_is_active((uv_handle_t *)&core->steps) &&
	    uv_timer_get_due_in(&core->steps) <= delay_ms)
		return;
	uv_timer_start(&core->steps, core->on_steps, delay_ms, 0);
}

void mk_core_mark(struct mk_core *core, unsigned int unsure, uint64_t delay_ms)
{
	core->unsure |= unsure;
	mk_core_schedule(core, delay_ms);
}

void mk_core_check_soon(struct mk_core *core, enum mk_unsure unsure)
{
	core->unsure |= unsure;
	if (uv_timer_get_due_in(&core->checks) > SOON_MS)
		uv_timer_start(&core->checks, core->on_checks, SOON_MS,
			       uv_timer_get_repeat(&core->checks));
}

// SPDX-License-Identifier: Apache-2.0
#include "datapath/monitor/drops.h"

#include "datapath/maps/bpflog.h"
#include "datapath/maps/table.h"

static const struct {
	const char *name, *text;
} reasons[] = {
#define DROP_ROW(name, text) { #name, text },
	MK_DROP_REASONS(DROP_ROW)
#undef DROP_ROW
};

static const char *const hooks[MK_HOOK_COUNT] = {
	[MK_HOOK_POD] = "pod",
	[MK_HOOK_HOST] = "host",
	[MK_HOOK_OVERLAY] = "overlay",
	[MK_HOOK_UPLINK] = "uplink",
	[MK_HOOK_UPLINK_EGRESS] = "uplink-egress",
	[MK_HOOK_FUNCTION] = "function",
	[MK_HOOK_CLUSTER] = "cluster",
};

const char *mk_drop_reason_name(unsigned int reason)
{
	return reason < MK_DROP_COUNT ? reasons[reason].name : "UNKNOWN";
}

const char *mk_drop_reason_text(unsigned int reason)
{
	return reason < MK_DROP_COUNT ? reasons[reason].text : "a newer version's reason";
}

const char *mk_hook_name(unsigned int hook)
{
	return hook < MK_HOOK_COUNT ? hooks[hook] : "unknown";
}

/* ---- counters ------------------------------------------------------------------------------- */

int mk_drops_read(const char *bpf_dir, struct mk_drop_totals *totals, struct mk_error *err)
{
	cleanup_table struct mk_table table = { 0 };
	int ret = mk_table_open(&table, bpf_dir, "drops", sizeof(__u32),
				sizeof(struct mk_drop_counter), err);

	if (ret < 0)
		return ret;
	mk_bpflog_init();
	*totals = (struct mk_drop_totals){ 0 };
	for (__u32 reason = 0; reason < MK_DROP_COUNT; reason++)
		for (__u32 hook = 0; ret == 0 && hook < MK_HOOK_COUNT; hook++)
			ret = mk_table_sum(&table, &(__u32){ reason * MK_HOOK_COUNT + hook },
					   &totals->counter[reason][hook], err);
	return ret;
}

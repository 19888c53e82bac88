// SPDX-License-Identifier: Apache-2.0
#include "datapath/monitor/drops.h"

#include <bpf/libbpf.h>
#include <stdlib.h>

#include "base/cleanup.h"
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

static int read_counter(const struct mk_table *table, __u32 key, struct mk_drop_counter *per_cpu,
			int cpus, struct mk_drop_counter *sum, struct mk_error *err)
{
	int ret = mk_table_get(table, &key, per_cpu, err);

	*sum = (struct mk_drop_counter){ 0 };
	for (int cpu = 0; ret == 0 && cpu < cpus; cpu++) {
		sum->packets += per_cpu[cpu].packets;
		sum->bytes += per_cpu[cpu].bytes;
	}
	return ret;
}

static int read_all(const struct mk_table *table, struct mk_drop_totals *totals,
		    struct mk_error *err)
{
	int cpus = libbpf_num_possible_cpus();
	cleanup_free struct mk_drop_counter *per_cpu = NULL;
	int ret = 0;

	if (cpus < 0)
		return mk_error_errno(err, -cpus, "cannot count the CPUs");
	per_cpu = calloc((size_t)cpus, sizeof(*per_cpu));
	if (!per_cpu)
		return mk_error_errno(err, ENOMEM, "cannot read map 'drops'");
	for (__u32 reason = 0; reason < MK_DROP_COUNT; reason++)
		for (__u32 hook = 0; ret == 0 && hook < MK_HOOK_COUNT; hook++)
			ret = read_counter(table, reason * MK_HOOK_COUNT + hook, per_cpu, cpus,
					   &totals->counter[reason][hook], err);
	return ret;
}

int mk_drops_read(const char *bpf_dir, struct mk_drop_totals *totals, struct mk_error *err)
{
	cleanup_table struct mk_table table = { 0 };
	int ret = mk_table_open(&table, bpf_dir, "drops", sizeof(__u32),
				sizeof(struct mk_drop_counter), err);

	if (ret < 0)
		return ret;
	mk_bpflog_init();
	return read_all(&table, totals, err);
}

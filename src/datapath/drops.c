// SPDX-License-Identifier: Apache-2.0
#include "datapath/drops.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdlib.h>
#include <sys/file.h>

#include "base/cleanup.h"
#include "datapath/bpflog.h"
#include "datapath/pin.h"
#include "datapath/runtime.h"
#include "datapath/table.h"

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
	struct mk_table table = { .fd = -1 };
	int ret = mk_table_open(&table, bpf_dir, "drops", sizeof(__u32),
				sizeof(struct mk_drop_counter), err);

	if (ret < 0)
		return ret;
	mk_bpflog_init();
	ret = read_all(&table, totals, err);
	mk_table_close(&table);
	return ret;
}

/* ---- one by one ------------------------------------------------------------------------------ */

struct listener {
	void (*report)(void *ctx, const struct mk_drop_event *event);
	void *ctx;
};

static int on_event(void *ctx, void *data, size_t size)
{
	const struct listener *listener = ctx;

	if (size >= sizeof(struct mk_drop_event))
		listener->report(listener->ctx, data);
	return 0;
}

static int poll_ring(int fd, struct listener *listener, const volatile int *stop,
		     struct mk_error *err)
{
	struct ring_buffer *ring = ring_buffer__new(fd, on_event, listener, NULL);
	int ret = 0;

	if (!ring)
		return mk_error_errno(err, errno, "cannot map the ring buffer 'drop_events'");
	while (!*stop && (ret >= 0 || ret == -EINTR))
		ret = ring_buffer__poll(ring, 500);
	ring_buffer__free(ring);
	if (ret < 0 && ret != -EINTR)
		return mk_error_errno(err, -ret, "cannot read the ring buffer 'drop_events'");
	return 0;
}

static int report_drops(const char *bpf_dir, const char *state_dir, bool on, struct mk_error *err)
{
	struct mk_runtime_change change = { .set_report_drops = true, .report_drops = on };

	return mk_runtime_change(bpf_dir, state_dir, &change, err);
}

int mk_drops_follow(const char *bpf_dir, const char *state_dir,
		    void (*report)(void *ctx, const struct mk_drop_event *event), void *ctx,
		    const volatile int *stop, struct mk_error *err)
{
	cleanup_close int lock = mk_state_lock(state_dir, MK_LOCK_DROPS, LOCK_EX | LOCK_NB, err);
	struct listener listener = { .report = report, .ctx = ctx };
	cleanup_close int ring = -1;
	int ret, off;

	if (lock == -EWOULDBLOCK)
		return mk_error_set(
			err, EBUSY,
			"another `monokube drops --follow` is running: a drop is told once");
	if (lock < 0)
		return lock;
	mk_bpflog_init();
	ring = mk_pin_open(bpf_dir, MK_PIN_MAPS, "drop_events", err);
	if (ring < 0)
		return ring;
	ret = report_drops(bpf_dir, state_dir, true, err);
	if (ret < 0)
		return ret;
	ret = poll_ring(ring, &listener, stop, err);
	off = report_drops(bpf_dir, state_dir, false, ret < 0 ? NULL : err);
	return ret < 0 ? ret : (off < 0 ? off : 0);
}

int mk_drops_reset_stale(const char *bpf_dir, const char *state_dir, struct mk_error *err)
{
	cleanup_close int lock = mk_state_lock(state_dir, MK_LOCK_DROPS, LOCK_EX | LOCK_NB, err);

	if (lock == -EWOULDBLOCK)
		return 0; /* alive */
	return lock < 0 ? lock : report_drops(bpf_dir, state_dir, false, err);
}

// SPDX-License-Identifier: Apache-2.0
#include "datapath/monitor/monitor.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/ip.h"
#include "base/time.h"
#include "datapath/maps/bpflog.h"
#include "datapath/maps/constants.h"
#include "datapath/maps/pin.h"
#include "datapath/maps/runtime.h"
#include "datapath/maps/table.h"

#define BEAT_NS	 MK_NS_PER_S
#define ALIVE_NS (5 * MK_NS_PER_S) /* programs report for this long after the last beat */
#define PAUSE_MS 50 /* flow events do not wake the poll */
/* The agent's log takes the drops for some milliseconds, twice a second. */
#define LOCK_TRIES 20
#define LOCK_US	   20000

/* ---- program monitor in and out of the chain ------------------------------------------------ */

/* Return the id of the program in the router's slot; 0 if the slot is empty. */
static uint32_t program_in_slot(int chain)
{
	__u32 slot = MK_PROG_ROUTER, id = 0;

	return bpf_map_lookup_elem(chain, &slot, &id) < 0 ? 0 : id;
}

/* Put the pinned @program into the router's slot, only in place of program @instead_of unless that
 * is NULL. Returns 1 if the slot changed. */
static int put_into_slot(const char *bpf_dir, const char *program, const char *instead_of,
			 struct mk_error *err)
{
	cleanup_close int chain = mk_pin_open(bpf_dir, MK_PIN_MAPS, "chain", err);
	cleanup_close int fd = chain < 0 ? -1 : mk_pin_open(bpf_dir, MK_PIN_PROGS, program, err);
	cleanup_close int other = -1;
	struct mk_program_identity wanted, replaced = { 0 };
	__u32 slot = MK_PROG_ROUTER;

	if (chain < 0 || fd < 0)
		return chain < 0 ? chain : fd;
	if (instead_of) {
		other = mk_pin_open(bpf_dir, MK_PIN_PROGS, instead_of, err);
		if (other < 0 || mk_program_identify(other, &replaced, err) < 0)
			return other < 0 ? other : -EINVAL;
		if (program_in_slot(chain) != replaced.id)
			return 0;
	}
	if (mk_program_identify(fd, &wanted, err) < 0)
		return -EINVAL;
	if (program_in_slot(chain) == wanted.id)
		return 0;
	if (bpf_map_update_elem(chain, &slot, &fd, BPF_ANY) < 0)
		return mk_error_errno(err, errno, "cannot put program '%s' into the chain",
				      program);
	return 1;
}

/* Change the slot under the datapath's lock, which an agent holds while it replaces programs and
 * chain. -ENOENT: the loaded programs have no `monitor`. */
static int watch_slot(const char *bpf_dir, const char *state_dir, bool on, struct mk_error *err)
{
	cleanup_close int lock = mk_datapath_lock_shared(state_dir, err);

	if (lock < 0)
		return lock;
	return on ? put_into_slot(bpf_dir, "monitor", NULL, err)
		  : put_into_slot(bpf_dir, "router", "monitor", err);
}

/* Set whether packets for local pods also go through the slot. */
static int set_monitored(const char *bpf_dir, const char *state_dir, bool on, struct mk_error *err)
{
	const struct mk_runtime_change change = { .set_monitored = true, .monitored = on };

	return mk_runtime_change(bpf_dir, state_dir, &change, err);
}

/* Change the slot first: a datapath without program `monitor` must not get the flag. */
static int begin_watching(const char *bpf_dir, const char *state_dir, struct mk_error *err)
{
	int ret = watch_slot(bpf_dir, state_dir, true, err);

	return ret < 0 ? ret : set_monitored(bpf_dir, state_dir, true, err);
}

/* Clear the flag first, so that a kill in between does not leave it set. Reset the slot even if
 * clearing the flag failed. Returns 1 if a monitor had been running. */
static int end_watching(const char *bpf_dir, const char *state_dir, struct mk_error *err)
{
	int flag = set_monitored(bpf_dir, state_dir, false, err);
	int slot = watch_slot(bpf_dir, state_dir, false, flag < 0 ? NULL : err);

	if (flag < 0 || slot < 0)
		return flag < 0 ? flag : slot;
	return flag || slot;
}

/* ---- settings of the programs ---------------------------------------------------------------- */

/* One source. */
struct followed {
	struct mk_monitor_source *source;
	struct mk_table settings, counts;
	struct following *following;
};

struct following {
	struct followed sources[MK_FAMILIES];
	size_t count;
	const char *state_dir;
	struct mk_monitor_reader *reader;
	uint64_t started_ns, next_beat_ns;
};

static uint64_t left_out_of(const struct followed *followed)
{
	int cpus = libbpf_num_possible_cpus();
	cleanup_free struct mk_monitor_count *counts =
		calloc(cpus > 0 ? (size_t)cpus : 1, sizeof(*counts));
	uint64_t sum = 0;
	__u32 zero = 0;

	if (!counts || mk_table_get(&followed->counts, &zero, counts, NULL) < 0)
		return 0;
	for (int cpu = 0; cpu < cpus; cpu++)
		sum += counts[cpu].left_out;
	return sum;
}

static uint64_t left_out(const struct following *following)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < following->count; i++)
		sum += left_out_of(&following->sources[i]);
	return sum;
}

/* Once a second, extend the deadline and set slot and flag again: an agent that starts resets the
 * slot, and a process that empties map `runtime` clears the flag. */
static int beat(struct following *following, struct mk_error *err)
{
	uint64_t now_ns = mk_time_monotonic_ns();
	__u32 zero = 0;
	int ret = 0;

	if (!following->reader->flow || now_ns < following->next_beat_ns)
		return 0;
	following->next_beat_ns = now_ns + BEAT_NS;
	for (size_t i = 0; ret >= 0 && i < following->count; i++) {
		struct mk_monitor_source *source = following->sources[i].source;

		source->settings.until_ns = now_ns + ALIVE_NS;
		ret = mk_table_put(&following->sources[i].settings, &zero, &source->settings, err);
		if (ret >= 0)
			ret = begin_watching(source->dir, following->state_dir, err);
	}
	return ret;
}

/* Try every source, even if another one failed. */
static int report_drops(const struct following *following, bool on, struct mk_error *err)
{
	struct mk_runtime_change change = { .set_report_drops = true, .report_drops = on };
	int ret = 0;

	for (size_t i = 0; following->reader->drop && i < following->count; i++) {
		int changed =
			mk_runtime_change(following->sources[i].source->dir, following->state_dir,
					  &change, ret < 0 ? NULL : err);

		ret = ret ?: changed < 0 ? changed : 0;
	}
	return ret;
}

/* ---- ring buffers ---------------------------------------------------------------------------- */

/* Ignore events from before the start: the previous reader left them in the ring. */
static int on_flow(void *ctx, void *data, size_t size)
{
	const struct followed *followed = ctx;
	const struct following *following = followed->following;
	struct mk_flow_event row;
	const struct mk_flow_event *event = mk_event_row("flow_events", data, size, &row);

	if (event && event->time_ns >= following->started_ns)
		following->reader->flow(followed->source->ctx, event);
	return 0;
}

static int on_drop(void *ctx, void *data, size_t size)
{
	const struct followed *followed = ctx;
	const struct following *following = followed->following;
	struct mk_drop_event row;
	const struct mk_drop_event *event = mk_event_row("drop_events", data, size, &row);

	if (event && event->time_ns >= following->started_ns)
		following->reader->drop(followed->source->ctx, event);
	return 0;
}

static int add_ring(struct ring_buffer **ring, struct followed *followed, const char *name,
		    ring_buffer_sample_fn on_event, struct mk_error *err)
{
	cleanup_close int fd = mk_pin_open(followed->source->dir, MK_PIN_MAPS, name, err);
	int ret = fd < 0 ? fd : 0;

	if (ret == 0 && *ring)
		ret = ring_buffer__add(*ring, fd, on_event, followed);
	else if (ret == 0)
		*ring = ring_buffer__new(fd, on_event, followed, NULL);
	if (fd >= 0 && (ret < 0 || !*ring))
		ret = mk_error_errno(err, ret < 0 ? -ret : errno, "cannot map the ring buffer '%s'",
				     name);
	return ret;
}

static int open_rings(struct ring_buffer **ring, struct following *following, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < following->count; i++) {
		if (following->reader->flow)
			ret = add_ring(ring, &following->sources[i], "flow_events", on_flow, err);
		if (ret == 0 && following->reader->drop)
			ret = add_ring(ring, &following->sources[i], "drop_events", on_drop, err);
	}
	return ret;
}

static int poll_rings(struct following *following, struct ring_buffer *ring,
		      const volatile int *stop, struct mk_error *err)
{
	int pause_ms = following->reader->flow ? PAUSE_MS : 500, ret = 0;

	while (!*stop && ret >= 0) {
		ret = beat(following, err);
		if (ret < 0)
			return ret;
		ret = ring_buffer__poll(ring, pause_ms);
		if (ret == -EINTR)
			ret = 0;
		if (ret >= 0 && !*stop)
			ret = ring_buffer__consume(ring);
	}
	return ret < 0 ? mk_error_errno(err, -ret, "cannot read the ring buffers") : 0;
}

/* ---- all steps ------------------------------------------------------------------------------- */

static int open_tables(struct followed *followed, struct mk_error *err)
{
	const struct following *following = followed->following;
	struct mk_monitor_source *source = followed->source;
	int ret;

	if (!following->reader->flow)
		return 0;
	ret = mk_table_open(&followed->settings, source->dir, "monitor_settings", sizeof(__u32),
			    sizeof(struct mk_monitor_settings), err);
	if (ret == 0)
		ret = mk_table_open(&followed->counts, source->dir, "monitor_counts", sizeof(__u32),
				    sizeof(struct mk_monitor_count), err);
	if (ret == -ENOENT)
		return mk_error_wrap(
			err,
			"the loaded datapath is of an older version: start the agent of this one");
	source->settings.since_s = (__u32)(following->started_ns / MK_NS_PER_S);
	return ret;
}

/* Try every source, even if another one failed. */
static int end_all(const struct following *following, struct mk_error *err)
{
	int ret = report_drops(following, false, err);

	for (size_t i = 0; following->reader->flow && i < following->count; i++)
		if (end_watching(following->sources[i].source->dir, following->state_dir,
				 ret < 0 ? NULL : err) < 0)
			ret = -EINVAL;
	return ret;
}

static int follow(struct following *following, const volatile int *stop, struct mk_error *err)
{
	struct ring_buffer *ring = NULL;
	uint64_t before = left_out(following);
	int ret = open_rings(&ring, following, err), off;

	ret = ret ?: report_drops(following, true, err);
	if (ret >= 0)
		ret = poll_rings(following, ring, stop, err);
	ring_buffer__free(ring);
	off = end_all(following, ret < 0 ? NULL : err);
	following->reader->left_out = left_out(following) - before;
	return ret < 0 ? ret : off;
}

static void add_source(struct following *following, struct mk_monitor_source *source)
{
	following->sources[following->count++] = (struct followed){ .source = source,
								    .settings = { .fd = -1 },
								    .counts = { .fd = -1 },
								    .following = following };
}

static int lock_events(const char *state_dir, struct mk_error *err)
{
	return mk_state_lock(state_dir, MK_LOCK_DROPS, LOCK_EX | LOCK_NB, err);
}

static int lock_patiently(const char *state_dir, struct mk_error *err)
{
	int lock = lock_events(state_dir, err);

	for (int i = 0; lock == -EWOULDBLOCK && i < LOCK_TRIES; i++) {
		usleep(LOCK_US);
		lock = lock_events(state_dir, err);
	}
	return lock;
}

int mk_monitor_follow(struct mk_monitor_source *sources, size_t count, const char *state_dir,
		      struct mk_monitor_reader *reader, const volatile int *stop,
		      struct mk_error *err)
{
	cleanup_close int lock = lock_patiently(state_dir, err);
	struct following following = { .state_dir = state_dir,
				       .reader = reader,
				       .started_ns = mk_time_monotonic_ns() };
	int ret = 0;

	if (lock == -EWOULDBLOCK)
		return mk_error_set(
			err, EBUSY,
			"another `monokube monitor` or `monokube drops --follow` is running, and events have only one reader. End that one first");
	if (lock < 0)
		return lock;
	mk_bpflog_init();
	for (size_t i = 0; i < count; i++)
		add_source(&following, &sources[i]);
	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = open_tables(&following.sources[i], err);
	ret = ret ?: follow(&following, stop, err);
	for (size_t i = 0; i < count; i++) {
		mk_table_close(&following.sources[i].settings);
		mk_table_close(&following.sources[i].counts);
	}
	return ret;
}

int mk_monitor_take_drops(struct mk_monitor_source *sources, size_t count, const char *state_dir,
			  struct mk_monitor_reader *reader, uint64_t since_ns, struct mk_error *err)
{
	cleanup_close int lock = lock_events(state_dir, err);
	struct following following = { .state_dir = state_dir,
				       .reader = reader,
				       .started_ns = since_ns };
	struct ring_buffer *ring = NULL;
	int ret;

	if (lock < 0)
		return lock == -EWOULDBLOCK ? 1 : lock;
	for (size_t i = 0; i < count; i++)
		add_source(&following, &sources[i]);
	ret = open_rings(&ring, &following, err);
	ret = ret ?: report_drops(&following, true, err);
	if (ret == 0 && ring && ring_buffer__consume(ring) < 0)
		ret = mk_error_set(err, EIO, "cannot read the ring buffers");
	ring_buffer__free(ring);
	return ret;
}

int mk_monitor_reset_stale(const char *bpf_dir, const char *state_dir, bool takes_drops,
			   struct mk_error *err)
{
	cleanup_close int lock = lock_events(state_dir, err);
	struct mk_runtime_change change = { .set_report_drops = !takes_drops };
	int drops, flows;

	if (lock == -EWOULDBLOCK)
		return 0; /* alive */
	if (lock < 0)
		return lock;
	drops = mk_runtime_change(bpf_dir, state_dir, &change, err);
	if (drops < 0)
		return drops;
	flows = end_watching(bpf_dir, state_dir, err);
	return flows < 0 ? flows : drops || flows;
}

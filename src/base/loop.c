// SPDX-License-Identifier: Apache-2.0
#include "base/loop.h"

#include <stdlib.h>

#include "base/base_internal.h"
#include "base/log.h"
#include "base/time.h"

#define MK_NS_PER_MS 1000000
#define LOG_RETRY_MS 100 /* between tries, while standard error takes no line */

static struct mk_loop_stats stats;
static struct {
	uint64_t began_ns, idle_ns, cpu_ns; /* at the start of the turn; cpu_ns is the thread's */
	const char *part; /* the running part; NULL: none with a name */
	uint64_t part_since_ns, parts_ns; /* sum of the parts that have ended */
	const char *longest;
	uint64_t longest_ns;
} turn;
static uv_prepare_t before_wait;
static uv_timer_t log_timer;

void mk_loop_part(const char *part)
{
	uint64_t at_ns = mk_time_monotonic_ns(), took_ns = at_ns - turn.part_since_ns;

	if (turn.part) {
		turn.parts_ns += took_ns;
		if (took_ns > turn.longest_ns) {
			turn.longest = turn.part;
			turn.longest_ns = took_ns;
		}
	}
	turn.part = part;
	turn.part_since_ns = at_ns;
}

const struct mk_loop_stats *mk_loop_stats(void)
{
	return &stats;
}

bool loop_account(struct mk_loop_stats *of, uint64_t busy_ns)
{
	of->turns++;
	if (busy_ns > of->longest_ns)
		of->longest_ns = busy_ns;
	if (busy_ns < MK_LOOP_LONG_NS)
		return false;
	of->long_turns++;
	return true;
}

static void on_log_timer(uv_timer_t *timer)
{
	(void)timer;
	mk_log_flush();
}

static void see_log(void)
{
	if (log_waits() && !uv_is_active((uv_handle_t *)&log_timer))
		uv_timer_start(&log_timer, on_log_timer, LOG_RETRY_MS, 0);
}

static void begin_turn(uv_loop_t *loop)
{
	turn.began_ns = mk_time_monotonic_ns();
	turn.idle_ns = uv_metrics_idle_time(loop);
	turn.cpu_ns = mk_time_ns(CLOCK_THREAD_CPUTIME_ID);
	turn.parts_ns = turn.longest_ns = 0;
	turn.longest = NULL;
}

static void log_turn(uint64_t busy_ns, uint64_t cpu_ns)
{
	uint64_t rest_ns = busy_ns - turn.parts_ns;
	bool is_rest = rest_ns > turn.longest_ns;

	mk_log_info("a turn of the event loop took long ms=%llu cpuMs=%llu part=\"%s\" partMs=%llu",
		    (unsigned long long)busy_ns / MK_NS_PER_MS,
		    (unsigned long long)cpu_ns / MK_NS_PER_MS, is_rest ? "input" : turn.longest,
		    (unsigned long long)(is_rest ? rest_ns : turn.longest_ns) / MK_NS_PER_MS);
}

/* Between two of these calls are one wait, which does not count, and the callbacks of one turn. */
static void on_turn_end(uv_prepare_t *prepare)
{
	uint64_t waited_ns = uv_metrics_idle_time(prepare->loop) - turn.idle_ns;
	uint64_t busy_ns = mk_time_monotonic_ns() - turn.began_ns - waited_ns;
	uint64_t cpu_ns = mk_time_ns(CLOCK_THREAD_CPUTIME_ID) - turn.cpu_ns;

	mk_loop_part(NULL);
	if (cpu_ns > stats.most_cpu_ns)
		stats.most_cpu_ns = cpu_ns;
	if (loop_account(&stats, busy_ns))
		log_turn(busy_ns, cpu_ns);
	see_log();
	begin_turn(prepare->loop);
}

int mk_loop_measure(uv_loop_t *loop, struct mk_error *err)
{
	int ret = uv_loop_configure(loop, UV_METRICS_IDLE_TIME);

	ret = ret ?: uv_prepare_init(loop, &before_wait);
	ret = ret ?: uv_timer_init(loop, &log_timer);
	ret = ret ?: uv_prepare_start(&before_wait, on_turn_end);
	if (ret < 0)
		return mk_error_errno(err, -ret, "cannot measure the event loop");
	uv_unref((uv_handle_t *)&before_wait);
	begin_turn(loop);
	return 0;
}

static void timer_closed(uv_handle_t *timer)
{
	free(timer->data);
}

void mk_timer_free(uv_timer_t *timer)
{
	uv_close((uv_handle_t *)timer, timer_closed);
}

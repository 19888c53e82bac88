// SPDX-License-Identifier: Apache-2.0
#include "agent/programming_latency.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/report/health.h"
#include "base/log.h"
#include "base/time.h"

/* A Service that cannot be written may change without end: with this many triggers waiting, further
 * ones are not measured. */
#define TRIGGERS_MAX 65536

void agent_latency_init(struct agent_latency *latency)
{
	mk_latency_init(&latency->histogram);
	latency->started_unix_ns = mk_time_now_unix_ns();
}

static void remove_trigger(struct agent_latency *latency, struct agent_trigger **place)
{
	struct agent_trigger *trigger = *place;

	*place = trigger->next;
	free(trigger);
	latency->trigger_count--;
}

static void forget_triggers_of(struct agent_latency *latency, const char *key)
{
	struct agent_trigger **place = &latency->triggers;

	while (*place)
		if (strcmp((*place)->key, key) == 0)
			remove_trigger(latency, place);
		else
			place = &(*place)->next;
}

/* Ignore changes from before the start: an earlier run wrote them, or could not. */
void agent_latency_triggered(struct agent_latency *latency, const char *namespace_,
			     const char *name, int64_t unix_ns)
{
	size_t key_bytes = strlen(namespace_) + strlen(name) + 2;
	struct agent_trigger *trigger = malloc(sizeof(*trigger) + key_bytes);

	if (!trigger)
		return; /* one measurement less */
	snprintf(trigger->key, key_bytes, "%s/%s", namespace_, name);
	if (unix_ns == 0)
		forget_triggers_of(latency, trigger->key);
	if (unix_ns <= latency->started_unix_ns || latency->trigger_count >= TRIGGERS_MAX) {
		free(trigger);
		return;
	}
	trigger->unix_ns = unix_ns;
	trigger->next = latency->triggers;
	latency->triggers = trigger;
	latency->trigger_count++;
}

/* Another machine's clock may be ahead of ours. */
static void observe(struct agent_latency *latency, const struct agent_trigger *trigger, int64_t now)
{
	int64_t took_ns = now > trigger->unix_ns ? now - trigger->unix_ns : 0;

	mk_histogram_observe(&latency->histogram, (double)took_ns / (double)MK_NS_PER_S);
	mk_log_debug("network programming latency service=%s ms=%lld", trigger->key,
		     (long long)(took_ns / 1000000));
}

void agent_latency_written(struct agent_latency *latency,
			   bool (*is_dirty)(const void *ctx, const char *key), const void *ctx)
{
	struct agent_trigger **place = &latency->triggers;
	int64_t now = mk_time_now_unix_ns();

	while (*place) {
		if (is_dirty(ctx, (*place)->key)) {
			place = &(*place)->next;
			continue;
		}
		observe(latency, *place, now);
		remove_trigger(latency, place);
	}
}

void agent_latency_forget(struct agent_latency *latency)
{
	while (latency->triggers)
		remove_trigger(latency, &latency->triggers);
}

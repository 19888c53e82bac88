// SPDX-License-Identifier: Apache-2.0
/* Network programming latency: the time from the change that a controller saw until the tables hold
 * it. A trigger is kept until its Service is written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/health_internal.h"
#include "base/log.h"
#include "base/time.h"

/* A Service that cannot be written may change without end: with this many triggers waiting, further
 * ones are not measured. */
#define TRIGGERS_MAX 65536

static void remove_trigger(struct agent_health *health, struct agent_trigger **place)
{
	struct agent_trigger *trigger = *place;

	*place = trigger->next;
	free(trigger);
	health->trigger_count--;
}

static void forget_triggers_of(struct agent_health *health, const char *namespace_,
			       const char *name)
{
	struct agent_trigger **place = &health->triggers;
	size_t namespace_bytes = strlen(namespace_);

	while (*place) {
		const char *key = (*place)->key;

		if (strncmp(key, namespace_, namespace_bytes) == 0 && key[namespace_bytes] == '/' &&
		    strcmp(key + namespace_bytes + 1, name) == 0)
			remove_trigger(health, place);
		else
			place = &(*place)->next;
	}
}

/* Ignore changes from before the start: an earlier run wrote them, or could not. */
void agent_latency_triggered(struct mk_agent *agent, const char *namespace_, const char *name,
			     int64_t unix_ns)
{
	size_t key_bytes = strlen(namespace_) + strlen(name) + 2;
	struct agent_health *health = agent->health;
	struct agent_trigger *trigger;

	if (unix_ns == 0)
		forget_triggers_of(health, namespace_, name);
	if (unix_ns == 0 || unix_ns <= health->started_unix_ns ||
	    health->trigger_count >= TRIGGERS_MAX)
		return;
	trigger = malloc(sizeof(*trigger) + key_bytes);
	if (!trigger)
		return; /* one measurement less */
	trigger->unix_ns = unix_ns;
	snprintf(trigger->key, key_bytes, "%s/%s", namespace_, name);
	trigger->next = health->triggers;
	health->triggers = trigger;
	health->trigger_count++;
}

/* Another machine's clock may be ahead of ours. */
static void observe(struct agent_health *health, const struct agent_trigger *trigger, int64_t now)
{
	int64_t took_ns = now > trigger->unix_ns ? now - trigger->unix_ns : 0;

	mk_histogram_observe(&health->latency, (double)took_ns / (double)MK_NS_PER_S);
	mk_log_debug("network programming latency service=%s ms=%lld", trigger->key,
		     (long long)(took_ns / 1000000));
}

void agent_latency_written(struct mk_agent *agent)
{
	struct agent_health *health = agent->health;
	struct agent_trigger **place = &health->triggers;
	int64_t now = mk_time_now_unix_ns();

	while (*place) {
		if (agent_service_is_dirty(agent, (*place)->key)) {
			place = &(*place)->next;
			continue;
		}
		observe(health, *place, now);
		remove_trigger(health, place);
	}
}

void agent_latency_forget(struct mk_agent *agent)
{
	while (agent->health->triggers)
		remove_trigger(agent->health, &agent->health->triggers);
}

const struct mk_histogram *agent_latency(const struct mk_agent *agent)
{
	return &agent->health->latency;
}

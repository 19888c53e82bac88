// SPDX-License-Identifier: Apache-2.0
#include "agent/policy/waits.h"

#include <stdlib.h>
#include <uthash.h>

#include "agent/policy/durations.h"
#include "base/time.h"

struct pod_key {
	struct mk_addr addr;
	uint32_t ifindex;
};

struct waiting_pod {
	UT_hash_handle hh;
	struct pod_key key;
	uint64_t since_ns; /* 0: it does not wait (any more) */
	unsigned int turn;
};

void waits_init(struct policy_waits *waits)
{
	*waits = (struct policy_waits){ 0 };
	durations_init(&waits->seconds);
}

void waits_begin(struct policy_waits *waits)
{
	waits->turn++;
}

static struct waiting_pod *add(struct policy_waits *waits, const struct pod_key *key,
			       bool is_pending, uint64_t now_ns)
{
	struct waiting_pod *pod = calloc(1, sizeof(*pod));

	if (!pod)
		return NULL;
	pod->key = *key;
	HASH_ADD(hh, waits->pods, key, sizeof(pod->key), pod);
	if (is_pending)
		pod->since_ns = now_ns;
	else if (waits->turn > 1)
		mk_histogram_observe(&waits->seconds, 0);
	return pod;
}

void waits_see(struct policy_waits *waits, const struct mk_addr *addr, uint32_t ifindex,
	       bool is_pending, uint64_t now_ns)
{
	const struct pod_key key = { .addr = *addr, .ifindex = ifindex };
	struct waiting_pod *pod;

	HASH_FIND(hh, waits->pods, &key, sizeof(key), pod);
	if (!pod)
		pod = add(waits, &key, is_pending, now_ns);
	if (!pod)
		return; /* one measurement less */
	pod->turn = waits->turn;
	if (is_pending || !pod->since_ns)
		return;
	mk_histogram_observe(&waits->seconds,
			     (double)(now_ns - pod->since_ns) / (double)MK_NS_PER_S);
	pod->since_ns = 0;
}

void waits_end(struct policy_waits *waits)
{
	struct waiting_pod *pod, *next;

	HASH_ITER(hh, waits->pods, pod, next)
		if (pod->turn != waits->turn) {
			HASH_DEL(waits->pods, pod);
			free(pod);
		}
}

size_t waits_pending(const struct policy_waits *waits)
{
	const struct waiting_pod *pod, *next;
	size_t count = 0;

	HASH_ITER(hh, waits->pods, pod, next)
		count += pod->since_ns != 0;
	return count;
}

void waits_release(struct policy_waits *waits)
{
	waits->turn++;
	waits_end(waits);
}

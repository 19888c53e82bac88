// SPDX-License-Identifier: Apache-2.0
#include "agent/report/metrics_chains.h"

#include <string.h>

#include "base/cleanup.h"

/* Labels of a replica; a counter has two more. */
#define REPLICA_LABELS 3
#define REPLICA_OF(replica)                                                          \
	{ "namespace", (replica)->namespace_ }, { "function", (replica)->function }, \
	{                                                                            \
		"pod", (replica)->pod                                                \
	}

void chain_states(const void *values, const struct mk_metric *metric, struct mk_exposition *out)
{
	const struct mk_metrics *m = values;
	static const char *const states[MK_SFC_POD_STATES] = {
		[MK_SFC_POD_UNBOUND] = "unbound",	[MK_SFC_POD_NO_NODE] = "unreachable",
		[MK_SFC_POD_NO_PORTS] = "no-ports",	[MK_SFC_POD_OTHER_MODE] = "wrong-mode",
		[MK_SFC_POD_NO_NUMBER] = "too-many",	[MK_SFC_POD_SAME_TAG] = "same-tag",
		[MK_SFC_POD_SERVING] = "serving",	[MK_SFC_POD_DRAINING] = "draining",
		[MK_SFC_POD_KEEPS] = "not-ready-alone", [MK_SFC_POD_LOST] = "not-ready",
	};

	for (size_t i = 0; i < MK_SFC_POD_STATES; i++)
		if (states[i])
			mk_exposition_labelled(out, metric->name, "state", states[i],
					       m->chain_replicas[i]);
}

uint64_t count_at(const void *part, size_t offset)
{
	uint64_t count;

	memcpy(&count, (const char *)part + offset, sizeof(count));
	return count;
}

/* Write the counters of a replica by side and direction. */
static void write_counters(const struct mk_metrics_replica *replica, const struct mk_metric *metric,
			   struct mk_exposition *out)
{
	static const size_t received = offsetof(struct mk_sfc_counters, received_packets);
	static const char *const sides[MK_SFC_SIDES] = { "inside", "outside" };
	struct mk_label labels[REPLICA_LABELS + 2] = { REPLICA_OF(replica) };

	for (size_t side = 0; side < MK_SFC_SIDES; side++)
		for (size_t way = 0; way < 2; way++) {
			size_t at = metric->offset + way * received + side * sizeof(uint64_t);

			labels[REPLICA_LABELS] = (struct mk_label){ "side", sides[side] };
			labels[REPLICA_LABELS + 1] =
				(struct mk_label){ "direction", way ? "from" : "to" };
			mk_exposition_count(out, metric->name, labels, REPLICA_LABELS + 2,
					    count_at(&replica->counters, at));
		}
}

void chain_replica_counts(const void *values, const struct mk_metric *metric,
			  struct mk_exposition *out)
{
	const struct mk_metrics_family *m = values;

	for (size_t i = 0; i < m->replica_count; i++)
		if (m->replicas[i].is_here)
			write_counters(&m->replicas[i], metric, out);
}

void chain_replica_flows(const void *values, const struct mk_metric *metric,
			 struct mk_exposition *out)
{
	const struct mk_metrics_family *m = values;

	for (size_t i = 0; i < m->replica_count; i++) {
		const struct mk_label labels[] = { REPLICA_OF(&m->replicas[i]) };

		mk_exposition_count(out, metric->name, labels, REPLICA_LABELS,
				    m->replicas[i].flows);
	}
}

void chain_flows(const void *values, const struct mk_metric *metric, struct mk_exposition *out)
{
	const struct mk_metrics_family *m = values;

	for (size_t i = 0; i < m->chain_count; i++) {
		const struct mk_label labels[] = { { "namespace", m->chains[i].namespace_ },
						   { "chain", m->chains[i].name } };

		mk_exposition_count(out, metric->name, labels, 2,
				    count_at(&m->chains[i], metric->offset));
	}
}

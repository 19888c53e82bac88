// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "agent/report/metrics.h"
#include "agent/report/metrics_internal.h"
#include "base/cleanup.h"

static const char *const state_names[MK_SFC_POD_STATES] = {
	[MK_SFC_POD_ELSEWHERE] = "elsewhere", [MK_SFC_POD_NO_PORTS] = "no-ports",
	[MK_SFC_POD_NO_NUMBER] = "too-many",  [MK_SFC_POD_SERVING] = "serving",
	[MK_SFC_POD_DRAINING] = "draining",   [MK_SFC_POD_KEEPS] = "not-ready-alone",
	[MK_SFC_POD_LOST] = "not-ready",
};

void chain_replicas(const void *values, const struct mk_metric *metric, struct mk_exposition *out)
{
	const struct mk_metrics *m = values;

	for (size_t i = 0; i < MK_SFC_POD_STATES; i++)
		if (state_names[i])
			mk_exposition_count(out, metric->name,
					    &(struct mk_label){ "state", state_names[i] }, 1,
					    m->chain_replicas[i]);
}

void replica_flows(const void *values, const struct mk_metric *metric, struct mk_exposition *out)
{
	const struct mk_metrics_family *m = values;

	for (size_t i = 0; i < m->replica_count; i++) {
		const struct mk_metrics_replica *replica = &m->replicas[i];
		const struct mk_label labels[] = { { "namespace", replica->namespace_ },
						   { "function", replica->function },
						   { "pod", replica->pod } };

		mk_exposition_count(out, metric->name, labels, 3, replica->flows);
	}
}

static uint64_t count_of(const struct mk_sfc_counters *counters, size_t offset)
{
	uint64_t count;

	memcpy(&count, (const char *)counters + offset, sizeof(count));
	return count;
}

void replica_counts(const void *values, const struct mk_metric *metric, struct mk_exposition *out)
{
	static const char *const sides[MK_SFC_SIDES] = { "inside", "outside" };
	static const struct {
		const char *name;
		size_t offset;
	} ways[] = {
		{ "to", 0 },
		{ "from", offsetof(struct mk_sfc_counters, received_packets) },
	};
	const struct mk_metrics_family *m = values;

	for (size_t i = 0; i < m->replica_count * MK_SFC_SIDES * MK_ARRAY_SIZE(ways); i++) {
		size_t way = i % MK_ARRAY_SIZE(ways);
		size_t side = i / MK_ARRAY_SIZE(ways) % MK_SFC_SIDES;
		const struct mk_metrics_replica *replica =
			&m->replicas[i / MK_ARRAY_SIZE(ways) / MK_SFC_SIDES];
		const struct mk_label labels[] = { { "namespace", replica->namespace_ },
						   { "function", replica->function },
						   { "pod", replica->pod },
						   { "side", sides[side] },
						   { "direction", ways[way].name } };

		mk_exposition_count(out, metric->name, labels, 5,
				    count_of(&replica->counters, metric->offset + ways[way].offset +
									 side * sizeof(uint64_t)));
	}
}

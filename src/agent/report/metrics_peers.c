// SPDX-License-Identifier: Apache-2.0
#include "agent/report/metrics_peers.h"

#include <string.h>

void peer_states(const void *values, const struct mk_metric *metric, struct mk_exposition *out)
{
	static const char *const names[] = { "unusable", "usable" };
	const struct mk_metrics *m = values;
	uint64_t counts[2] = { 0 };

	for (size_t i = 0; i < m->cluster_peer_count; i++)
		counts[m->cluster_peers[i].is_usable]++;
	for (size_t i = 0; i < 2; i++)
		mk_exposition_count(out, metric->name, &(struct mk_label){ "state", names[i] }, 1,
				    counts[i]);
}

void peer_nodes(const void *values, const struct mk_metric *metric, struct mk_exposition *out)
{
	const struct mk_metrics *m = values;

	for (size_t i = 0; i < m->cluster_peer_count; i++)
		mk_exposition_count(out, metric->name,
				    &(struct mk_label){ "peer", m->cluster_peers[i].name }, 1,
				    m->cluster_peers[i].nodes);
}

void peer_counts(const void *values, const struct mk_metric *metric, struct mk_exposition *out)
{
	static const char *const directions[] = { "to", "from" };
	const struct mk_metrics *m = values;

	for (size_t i = 0; i < m->cluster_peer_count; i++)
		for (size_t way = 0; way < 2; way++) {
			const struct mk_metrics_peer *peer = &m->cluster_peers[i];
			const struct mk_label labels[] = { { "peer", peer->name },
							   { "direction", directions[way] } };
			uint64_t count;

			memcpy(&count,
			       (const char *)&peer->counters + metric->offset + way * sizeof(count),
			       sizeof(count));
			mk_exposition_count(out, metric->name, labels, 2, count);
		}
}

// SPDX-License-Identifier: Apache-2.0
#include "agent/report/metrics_peers.h"

#include "agent/report/metrics_chains.h"

#define FOR_EACH_PEER(peer, m)                                        \
	for (const struct mk_metrics_peer *peer = (m)->cluster_peers; \
	     peer < (m)->cluster_peers + (m)->cluster_peer_count; peer++)

void peer_states(const void *values, const struct mk_metric *metric, struct mk_exposition *out)
{
	const struct mk_metrics *m = values;
	uint64_t usable = 0;

	FOR_EACH_PEER(peer, m)
		usable += peer->is_usable;
	mk_exposition_labelled(out, metric->name, "state", "unusable",
			       m->cluster_peer_count - usable);
	mk_exposition_labelled(out, metric->name, "state", "usable", usable);
}

void peer_nodes(const void *values, const struct mk_metric *metric, struct mk_exposition *out)
{
	FOR_EACH_PEER(peer, (const struct mk_metrics *)values)
		mk_exposition_labelled(out, metric->name, "peer", peer->name, peer->nodes);
}

void peer_traffic(const void *values, const struct mk_metric *metric, struct mk_exposition *out)
{
	FOR_EACH_PEER(peer, (const struct mk_metrics *)values)
		for (size_t way = 0; way < 2; way++) {
			const struct mk_label labels[] = { { "peer", peer->name },
							   { "direction", way ? "from" : "to" } };

			mk_exposition_count(out, metric->name, labels, 2,
					    count_at(peer,
						     metric->offset + way * sizeof(uint64_t)));
		}
}

/* Nothing is known of a peer before its nodes have answered, or were silent for long enough. */
void peer_up(const void *values, const struct mk_metric *metric, struct mk_exposition *out)
{
	FOR_EACH_PEER(peer, (const struct mk_metrics *)values)
		mk_exposition_labelled(out, metric->name, "cluster", peer->name,
				       !peer->probes.is_down);
}

void peer_rtt(const void *values, const struct mk_metric *metric, struct mk_exposition *out)
{
	FOR_EACH_PEER(peer, (const struct mk_metrics *)values)
		if (peer->probes.rtt_us)
			mk_exposition_number(out, metric->name,
					     &(struct mk_label){ "cluster", peer->name }, 1,
					     peer->probes.rtt_us / 1e6);
}

void peer_known(const void *values, const struct mk_metric *metric, struct mk_exposition *out)
{
	FOR_EACH_PEER(peer, (const struct mk_metrics *)values)
		if (count_at(peer, metric->offset))
			mk_exposition_labelled(out, metric->name, "cluster", peer->name,
					       count_at(peer, metric->offset));
}

// SPDX-License-Identifier: Apache-2.0
#include "agent/report/metrics_peers.h"

#include <string.h>

static void write_states(struct mk_exposition *out, const char *name,
			 const struct mk_metrics_peer *peers, size_t count)
{
	static const char *const names[] = { "unusable", "usable" };
	uint64_t counts[2] = { 0 };

	for (size_t i = 0; i < count; i++)
		counts[peers[i].is_usable]++;
	for (size_t i = 0; i < 2; i++)
		mk_exposition_count(out, name, &(struct mk_label){ "state", names[i] }, 1,
				    counts[i]);
}

static uint64_t number_at(const struct mk_metrics_peer *peer, size_t offset)
{
	uint64_t number;

	memcpy(&number, (const char *)peer + offset, sizeof(number));
	return number;
}

static void write_directions(struct mk_exposition *out, const char *name, size_t offset,
			     const struct mk_metrics_peer *peer)
{
	static const char *const directions[] = { "to", "from" };

	for (size_t way = 0; way < 2; way++) {
		const struct mk_label labels[] = { { "peer", peer->name },
						   { "direction", directions[way] } };

		mk_exposition_count(out, name, labels, 2,
				    number_at(peer, offset + way * sizeof(uint64_t)));
	}
}

void peer_samples(struct mk_exposition *out, const char *name, size_t offset,
		  const struct mk_metrics_peer *peers, size_t count)
{
	if (offset == offsetof(struct mk_metrics_peer, is_usable)) {
		write_states(out, name, peers, count);
		return;
	}
	for (size_t i = 0; i < count; i++)
		if (offset == offsetof(struct mk_metrics_peer, nodes))
			mk_exposition_count(out, name, &(struct mk_label){ "peer", peers[i].name },
					    1, peers[i].nodes);
		else
			write_directions(out, name, offset, &peers[i]);
}

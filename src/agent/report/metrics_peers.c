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

/* Nothing is known of a peer before its nodes have answered, or were silent for long enough. */
static void write_probes(struct mk_exposition *out, const char *name, size_t member,
			 const struct mk_metrics_peer *peer)
{
	const struct mk_label label = { "cluster", peer->name };

	if (member == offsetof(struct mk_probes_state, is_down))
		mk_exposition_count(out, name, &label, 1, !peer->probes.is_down);
	else if (peer->probes.rtt_us)
		mk_exposition_number(out, name, &label, 1, peer->probes.rtt_us / 1e6);
}

static void write_mtu(struct mk_exposition *out, const char *name,
		      const struct mk_metrics_peer *peer)
{
	if (peer->mtu_bytes)
		mk_exposition_count(out, name, &(struct mk_label){ "cluster", peer->name }, 1,
				    peer->mtu_bytes);
}

static void write_handshake(struct mk_exposition *out, const char *name,
			    const struct mk_metrics_peer *peer)
{
	const struct mk_label label = { "cluster", peer->name };

	if (peer->handshake_age_s)
		mk_exposition_count(out, name, &label, 1, peer->handshake_age_s);
}

void peer_samples(struct mk_exposition *out, const char *name, size_t offset,
		  const struct mk_metrics_peer *peers, size_t count)
{
	const size_t probes = offsetof(struct mk_metrics_peer, probes);

	if (offset == offsetof(struct mk_metrics_peer, is_usable)) {
		write_states(out, name, peers, count);
		return;
	}
	for (size_t i = 0; i < count; i++)
		if (offset >= probes && offset < probes + sizeof(struct mk_probes_state))
			write_probes(out, name, offset - probes, &peers[i]);
		else if (offset == offsetof(struct mk_metrics_peer, handshake_age_s))
			write_handshake(out, name, &peers[i]);
		else if (offset == offsetof(struct mk_metrics_peer, nodes))
			mk_exposition_count(out, name, &(struct mk_label){ "peer", peers[i].name },
					    1, peers[i].nodes);
		else if (offset == offsetof(struct mk_metrics_peer, mtu_bytes))
			write_mtu(out, name, &peers[i]);
		else
			write_directions(out, name, offset, &peers[i]);
}

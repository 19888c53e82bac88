// SPDX-License-Identifier: Apache-2.0
#include "agent/report/metrics_peers.h"

#include "agent/report/metrics_chains.h"

static void write_states(struct mk_exposition *out, const char *name,
			 const struct mk_metrics_peer *peers, size_t count)
{
	static const char *const names[] = { "unusable", "usable" };
	uint64_t counts[2] = { 0 };

	for (size_t i = 0; i < count; i++)
		counts[peers[i].is_usable]++;
	for (size_t i = 0; i < 2; i++)
		mk_exposition_labelled(out, name, "state", names[i], counts[i]);
}

static void write_directions(struct mk_exposition *out, const char *name, size_t offset,
			     const struct mk_metrics_peer *peer)
{
	static const char *const directions[] = { "to", "from" };

	for (size_t way = 0; way < 2; way++) {
		const struct mk_label labels[] = { { "peer", peer->name },
						   { "direction", directions[way] } };

		mk_exposition_count(out, name, labels, 2,
				    count_at(peer, offset + way * sizeof(uint64_t)));
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

static void write_if_known(struct mk_exposition *out, const char *name,
			   const struct mk_metrics_peer *peer, uint64_t value)
{
	if (value)
		mk_exposition_labelled(out, name, "cluster", peer->name, value);
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
			write_if_known(out, name, &peers[i], peers[i].handshake_age_s);
		else if (offset == offsetof(struct mk_metrics_peer, nodes))
			mk_exposition_labelled(out, name, "peer", peers[i].name, peers[i].nodes);
		else if (offset == offsetof(struct mk_metrics_peer, mtu_bytes))
			write_if_known(out, name, &peers[i], peers[i].mtu_bytes);
		else
			write_directions(out, name, offset, &peers[i]);
}

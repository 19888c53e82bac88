// SPDX-License-Identifier: Apache-2.0
/* Setting routing, Auto: probes find out which nodes on the link packets reach without VXLAN. Many
 * clouds drop packets with the addresses of pods. Each node tries its own packets; the answers come
 * by whatever way the other node uses.
 *
 * With directServerReturn, Direct sends them as well: a node shows its VTEP MAC address with the
 * answers (bpf/direct_return.h). */
#include <stdlib.h>
#include <sys/random.h>

#include "agent/node/node_internal.h"
#include "base/cleanup.h"
#include "base/time.h"

#define LINK_TURNS 4 /* calls between two rounds */

bool sends_direct(const struct mk_config *config)
{
	return config->routing != MK_ROUTING_OVERLAY && config->encryption == MK_ENCRYPTION_NONE;
}

bool tries_links(const struct mk_config *config)
{
	return sends_direct(config) &&
	       (config->routing == MK_ROUTING_AUTO || config->returns_direct);
}

/* The node of @plan whose pod CIDR has @ip; NULL: none. */
static const struct mk_overlay_peer *peer_with(const struct mk_overlay_plan *plan,
					       const struct mk_ip *ip)
{
	size_t low = 0, high = plan->peer_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (mk_ip_compare(&plan->peers[middle].pod_cidr.ip, ip) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || !mk_cidr_contains(&plan->peers[low - 1].pod_cidr, ip))
		return NULL;
	return &plan->peers[low - 1];
}

/* Probes know a node by its virtual pod address, from which it answers. */
static struct mk_ip name_of(const struct mk_overlay_peer *peer)
{
	return mk_cidr_nth(&peer->pod_cidr, 1);
}

/* ---- which nodes get probes ------------------------------------------------------------------ */

struct tried {
	const struct mk_overlay_plan *plan;
	struct mk_ip *ips; /* nodes that get probes */
	bool *live; /* .. were they direct in the last run? */
	size_t count;
};

/* An earlier run has left a direct route: the node is direct until probes are lost. */
static int see_direct_route(void *ctx, const struct mk_nl_route *route)
{
	const struct tried *tried = ctx;
	const struct mk_overlay_peer *peer = peer_with(tried->plan, &route->dst.ip);

	if (!peer || route->protocol != MK_RTPROT || route->metric == MK_PROBE_METRIC ||
	    !mk_cidr_equal(&peer->pod_cidr, &route->dst) || route->ifindex != peer->link_ifindex ||
	    !mk_ip_equal(&route->gateway, &peer->link_ip))
		return 0;
	for (size_t i = 0; i < tried->count; i++) {
		struct mk_ip name = name_of(peer);

		tried->live[i] |= mk_ip_equal(&tried->ips[i], &name);
	}
	return 0;
}

/* Begin with the routes of the last run. */
static int begin(struct mk_own_family *own, struct tried *tried, struct mk_error *err)
{
	struct mk_core *core = own->family->core;
	uint64_t seed;

	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return mk_error_errno(err, errno, "cannot get random bytes for probes of the link");
	own->link_probes = mk_probes_new(seed, core->config.node_name);
	if (!own->link_probes)
		return mk_error_errno(err, ENOMEM, "probes of the link");
	return mk_nl_each_route(core->nl, own->family->family, see_direct_route, tried, err);
}

static void list_tried(struct mk_own_family *own, struct tried *tried)
{
	for (size_t i = 0; i < own->plan.peer_count; i++) {
		struct mk_overlay_peer *peer = &own->plan.peers[i];

		peer->is_tried = peer->link_ifindex != 0;
		if (peer->is_tried)
			tried->ips[tried->count++] = name_of(peer);
	}
}

static int set_tried(struct mk_own_family *own, struct tried *tried, struct mk_error *err)
{
	struct mk_probes_peer nodes = { .name = "link", .tries = true };
	int ret;

	list_tried(own, tried);
	ret = own->link_probes ? 0 : begin(own, tried, err);
	nodes.nodes = tried->ips;
	nodes.live = tried->live;
	nodes.node_count = tried->count;
	return ret < 0 ? ret : mk_probes_set(own->link_probes, &nodes, 1, err);
}

int try_links(struct mk_own_family *own, struct mk_error *err)
{
	cleanup_free struct mk_ip *ips = calloc(own->plan.peer_count + 1, sizeof(*ips));
	cleanup_free bool *were_live = calloc(own->plan.peer_count + 1, sizeof(*were_live));
	const struct mk_config *config = &own->family->core->config;
	struct tried tried = { .plan = &own->plan, .ips = ips, .live = were_live };
	int ret;

	if (!ips || !were_live)
		return mk_error_errno(err, ENOMEM, "probes of the link");
	ret = set_tried(own, &tried, err);
	for (size_t i = 0; ret == 0 && i < own->plan.peer_count; i++) {
		struct mk_overlay_peer *peer = &own->plan.peers[i];
		struct mk_ip name = name_of(peer);
		bool live = peer->is_tried && mk_probes_is_live(own->link_probes, &name);

		if (config->routing == MK_ROUTING_AUTO)
			peer->is_direct = live;
	}
	return ret;
}

bool is_silent(const struct mk_own_family *own, const struct mk_overlay_peer *peer)
{
	struct mk_ip name = name_of(peer);

	return own->link_probes && mk_probes_is_silent(own->link_probes, &name);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* By the link's device. So the kernel takes the route by the link to the pods there, although it
 * prefers the one into the overlay (want_probe_route() in overlay/overlay.c). */
static void send_probe(struct mk_own_family *own, const struct mk_probe *probe)
{
	const struct mk_overlay_peer *peer = peer_with(&own->plan, &probe->to);

	if (peer)
		mk_probe_send(&own->node->link_sockets, probe, peer->link_ifindex);
}

static unsigned int next_round(struct mk_own_family *own)
{
	const struct mk_probe *list;
	size_t count;
	unsigned int news = mk_probes_next(own->link_probes, &list, &count);

	for (size_t i = 0; i < count; i++) {
		mk_probes_sent(own->link_probes, i, mk_time_ns(CLOCK_REALTIME));
		send_probe(own, &list[i]);
	}
	return news;
}

static void take_answer(void *ctx, const struct mk_probe_answer *answer)
{
	struct mk_own_node *node = ctx;
	struct mk_own_family *own = &node->families[mk_family_index(answer->from.family)];

	if (own->link_probes)
		(void)mk_probes_answer(own->link_probes, &answer->from, answer->nonce,
				       answer->at_ns);
}

/* A node that has just lost a probe gets the next one at once. */
static bool is_due(struct mk_own_node *node)
{
	bool due = node->link_turns++ % LINK_TURNS == 0;

	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (node->families[i].link_probes)
			due |= mk_probes_hurry(node->families[i].link_probes);
	return due;
}

int mk_own_node_probe_links(struct mk_own_node *node)
{
	unsigned int news = 0;

	if (!tries_links(&node->core->config) || !is_due(node))
		return 0;
	mk_probe_read(&node->link_sockets, take_answer, node);
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (node->core->families[i].runs && node->families[i].link_probes)
			news |= next_round(&node->families[i]);
	if (news & MK_PROBES_PATHS || (news && node->links_undecided))
		mk_core_mark(node->core, MK_UNSURE_NODE, 0);
	return 0;
}

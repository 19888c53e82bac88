// SPDX-License-Identifier: Apache-2.0
/* Checks of other clusters. */
#include "base/cleanup.h"
#include "cli/check/check.h"
#include "cli/inspect/peers.h"

/* A peer that is not usable, or of which something is left out, may be so on purpose. Returns how
 * many are usable. */
static unsigned int note_reasons(struct mk_checking *checking)
{
	const struct mk_view *view = checking->view;
	json_object *peer, *reasons;
	unsigned int usable = 0;

	for (size_t i = 0; (peer = mk_peer_at(view, i)); i++) {
		usable += json_object_get_boolean(json_object_object_get(peer, "usable"));
		reasons = json_object_object_get(peer, "reasons");
		for (size_t j = 0; reasons && j < json_object_array_length(reasons); j++)
			check_note(checking, "peers", "`monokube peers` lists them all",
				   "peer %s: %s",
				   json_object_get_string(json_object_object_get(peer, "name")),
				   json_object_get_string(json_object_array_get_idx(reasons, j)));
	}
	return usable;
}

/* Returns how many nodes get packets of other clusters; -1: something is wrong. */
static int check_hops(struct mk_checking *checking)
{
	cleanup_cli_peers struct mk_cli_peers peers;
	cleanup_free struct mk_peer_hop *hops = NULL;
	struct mk_error err = { 0 };
	size_t count = 0, missing = 0;
	int ret = mk_cli_peers_open(&peers, checking->view, &err);

	ret = ret ?: mk_peer_hops(&peers, &hops, &count, &err);
	if (ret < 0) {
		check_found(checking, "peers", "restart the agent, which makes them again", "%s",
			    mk_error_text(&err));
		return -1;
	}
	for (size_t i = 0; i < count; i++)
		missing += hops[i].remote.family == AF_UNSPEC;
	if (missing)
		check_found(checking, "peers", CHECK_REPAIRED,
			    "the device to other clusters has no FDB entry of %zu of %zu nodes",
			    missing, count);
	return missing ? -1 : (int)count;
}

void check_peers(struct mk_checking *checking)
{
	unsigned int usable;
	int nodes;

	if (!checking->view->node.cluster_number)
		return;
	usable = note_reasons(checking);
	nodes = check_hops(checking);
	if (nodes >= 0)
		check_found(checking, "peers", NULL, "%u other clusters are usable, by %d nodes",
			    usable, nodes);
}

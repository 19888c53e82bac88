/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/inspect/peers.h - other clusters (ClusterPeers) in the tables of one family, with names
 * from the agent's state directory: for `monokube peers`, `trace`, `drops` and `check`. */
#ifndef MK_CLI_INSPECT_PEERS_H
#define MK_CLI_INSPECT_PEERS_H

#include <json-c/json.h>

#include "monokube/clusters.h"
#include "cli/inspect/view.h"

struct mk_cli_peers {
	const struct mk_view *view;
	struct mk_table clusters, nodes, counters;
};
/* Call mk_cli_peers_close() in any case. */
mk_must_check int mk_cli_peers_open(struct mk_cli_peers *peers, const struct mk_view *view,
				    struct mk_error *err);
void mk_cli_peers_close(struct mk_cli_peers *peers);
#define cleanup_cli_peers __attribute__((cleanup(mk_cli_peers_close)))

/* Return the file's entry of the ClusterPeer at @index, by name; NULL: the end. */
json_object *mk_peer_at(const struct mk_view *view, size_t index);
/* Bytes of a cluster's name. */
#define MK_PEER_NAME_BYTES 64
/* Name cluster @number in @buf, "cluster 7" if its name is not known. Returns @buf. */
const char *mk_peer_name(const struct mk_view *view, unsigned int number,
			 char buf[MK_PEER_NAME_BYTES]);
/* Read the row of cluster @number; false: there is none. */
bool mk_peer_row(const struct mk_cli_peers *peers, unsigned int number, struct mk_cluster *row);

/* Which node of another cluster gets frames with a destination MAC address. */
struct mk_peer_hop {
	struct mk_mac mac; /* struct mk_cluster_dest */
	struct mk_ip remote; /* AF_UNSPEC: the device to other clusters has no FDB entry */
};
/* List the nodes that get packets to direct peers. The caller frees *@hops. */
mk_must_check int mk_peer_hops(const struct mk_cli_peers *peers, struct mk_peer_hop **hops,
			       size_t *count, struct mk_error *err);
/* Return the address of the node behind @mac; AF_UNSPEC: there is no FDB entry. */
struct mk_ip mk_peer_remote(const struct mk_view *view, const struct mk_mac *mac);

#endif

// SPDX-License-Identifier: Apache-2.0
/* Packets to and from pods of other clusters. */
#include <net/if.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/inspect/peers.h"
#include "cli/print.h"
#include "cli/trace/trace.h"

/* Read the row of the cluster to which @addr's route leads. */
static bool find_cluster(const struct mk_view *view, const struct mk_addr *addr, __u32 *number,
			 struct mk_cluster *row)
{
	cleanup_cli_peers struct mk_cli_peers peers;
	struct mk_route route;

	if (mk_cli_peers_open(&peers, view, NULL) < 0 || !mk_view_route(view, addr, &route))
		return false;
	*number = mk_route_cluster(&route);
	return mk_peer_row(&peers, *number, row);
}

static struct mk_addr home_of(const struct mk_cluster *row, const struct mk_addr *view)
{
	struct mk_addr home = row->home;

	for (int i = 0; i < MK_ADDR_WORDS; i++)
		home.word[i] |= view->word[i] & ~row->mask.word[i];
	return home;
}

/* ---- to another cluster ---------------------------------------------------------------------- */

/* The packet goes as it is to a border node, by the overlay. */
static void tell_border(struct mk_trace_story *story, const struct mk_mac *mac)
{
	cleanup_free struct mk_cli_node *nodes = NULL;
	const struct mk_cli_node *node = NULL;
	size_t count = 0;

	if (mk_cli_nodes_read(story->view, &nodes, &count, NULL) < 0)
		count = 0;
	for (size_t i = 0; i < count; i++)
		if (memcmp(nodes[i].vtep_mac, mac, sizeof(*mac)) == 0)
			node = &nodes[i];
	trace_leave_overlay(story, node, "border node");
}

void trace_tell_peer(struct mk_trace_story *story, const struct mk_tuple *tuple,
		     const struct mk_trace_frame *frame)
{
	const struct mk_view *view = story->view;
	char entry[64], prefix[MK_CIDR_STRLEN], at[MK_ENDPOINT_STRLEN], home[MK_ENDPOINT_STRLEN];
	char name[MK_PEER_NAME_BYTES], via[MK_PEER_NAME_BYTES], remote[MK_IP_STRLEN];
	struct mk_cluster row = { 0 };
	struct mk_addr address;
	struct mk_ip node;
	struct mk_mac mac;
	__u32 number = 0;

	memcpy(&mac, frame->byte, sizeof(mac));
	node = mk_peer_remote(view, &mac);
	if (!find_cluster(view, &tuple->daddr, &number, &row))
		row.via = number;
	address = home_of(&row, &tuple->daddr);
	snprintf(entry, sizeof(entry), "routes: %s",
		 mk_view_route_prefix(view, &tuple->daddr, prefix));
	trace_step(story, "router", entry, "%s is %s of peer %s%s%s",
		   mk_cli_endpoint(&tuple->daddr, 0, at), mk_cli_endpoint(&address, 0, home),
		   mk_peer_name(view, number, name), row.via == number ? "" : ", reached through ",
		   row.via == number ? "" : mk_peer_name(view, row.via, via));
	if (frame->byte[0] != MK_CLUSTER_MAC_LOCAL) {
		tell_border(story, &mac);
		return;
	}
	story->outcome = node.family == AF_UNSPEC ? "dropped" : "forwarded";
	if (node.family == AF_UNSPEC)
		trace_step(
			story, "peer", NULL,
			"the device to other clusters has no FDB entry of that node: the packet is lost. The agent repairs that while it runs");
	else
		trace_step(
			story, "peer", "fdb",
			"leaves in VXLAN to node %s of peer %s; there, `monokube trace` shows the rest",
			mk_ip_format(&node, remote), mk_peer_name(view, row.via, via));
}

/* ---- from another cluster -------------------------------------------------------------------- */

static void put_number(__u8 bytes[3], __u32 number)
{
	bytes[0] = (__u8)(number >> 16);
	bytes[1] = (__u8)(number >> 8);
	bytes[2] = (__u8)number;
}

int trace_peer_frame(const struct mk_view *view, const struct mk_trace_request *request,
		     struct mk_trace_frame *frame, char *who, struct mk_error *err)
{
	struct mk_cluster_source source = { .local = MK_CLUSTER_MAC_LOCAL,
					    .version = MK_CLUSTER_WIRE };
	struct mk_cluster_dest dest = { .local = MK_CLUSTER_MAC_LOCAL };
	struct mk_tuple tuple = request->tuple;
	char name[MK_PEER_NAME_BYTES];
	struct mk_cluster row;
	__u32 number = 0;

	if (!find_cluster(view, &tuple.saddr, &number, &row))
		return mk_error_set(
			err, ENOENT,
			"FROM is the view of cluster %u, which is not known: see `monokube peers`",
			number);
	tuple.saddr = home_of(&row, &tuple.saddr);
	put_number(source.cluster, number);
	put_number(dest.cluster, view->node.cluster_number);
	trace_frame_make(frame, &tuple, &request->form, (const uint8_t *)&source,
			 (const uint8_t *)&dest);
	snprintf(who, MK_VIEW_WHO_BYTES, "arrives from peer %s", mk_peer_name(view, number, name));
	return 0;
}

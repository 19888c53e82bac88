// SPDX-License-Identifier: Apache-2.0
/* `monokube peer publish`: this cluster as objects for another one. They come from pinned state, so
 * no credentials are needed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monokube/clusters.h"
#include "base/cleanup.h"
#include "cli/inspect/peers.h"
#include "cli/inspect/view_internal.h"
#include "host/record.h"

#define NAMESPACE "monokube-peers"
#define GROUP	  "networking.monokube.io"

struct published_node {
	const char *name;
	struct mk_cidr pod_cidrs[MK_FAMILIES]; /* in the order of the views */
	size_t cidr_count;
	struct mk_ip address; /* on the underlay */
	char wireguard[MK_VIEW_WIREGUARD]; /* KEY:PORT; empty: none */
};

struct publishing {
	const struct mk_views *views;
	const char *cluster;
	json_object *names; /* what the agent says of this cluster; NULL: nothing */
	uint16_t port; /* of the overlay */
	struct published_node *nodes;
	size_t count;
	unsigned int left_out;
	struct mk_error *err;
};

/* ---- nodes ----------------------------------------------------------------------------------- */

/* @wireguard: KEY:PORT; NULL: it has none. */
static struct published_node *node_named(struct publishing *publishing, const char *name,
					 const char *wireguard)
{
	struct published_node *added;

	for (size_t i = 0; i < publishing->count; i++)
		if (strcmp(publishing->nodes[i].name, name) == 0)
			return &publishing->nodes[i];
	added = mk_append(publishing->nodes, publishing->count);
	if (!added) {
		(void)mk_error_errno(publishing->err, ENOMEM, "cannot list the nodes");
		return NULL;
	}
	added->name = name;
	if (wireguard)
		snprintf(added->wireguard, sizeof(added->wireguard), "%s", wireguard);
	return added;
}

/* If there are border nodes, other clusters know no others. */
static bool is_border(const struct publishing *publishing, const char *name)
{
	json_object *borders = mk_json_member(publishing->names, "borders");

	for (size_t i = 0; i < mk_json_length(borders); i++)
		if (strcmp(json_object_get_string(mk_json_at(borders, i)), name) == 0)
			return true;
	return !borders;
}

static int add_node(struct publishing *publishing, const char *name, const char *wireguard,
		    const struct mk_cidr *pod_cidr, const struct mk_ip *address)
{
	struct published_node *node;

	if (!is_border(publishing, name))
		return 0;
	node = node_named(publishing, name, wireguard);
	if (!node)
		return -ENOMEM;
	node->pod_cidrs[node->cidr_count++] = *pod_cidr;
	node->address = *address;
	return 0;
}

static void leave_out(struct publishing *publishing, const struct mk_cidr *pod_cidr,
		      const char *name, const char *why)
{
	char text[MK_CIDR_STRLEN];

	fprintf(stderr,
		"monokube peer publish: node %s with pods %s is left out: %s; `monokube nodes` shows it, try again when its state is ok\n",
		name ? name : "?", mk_cidr_format(pod_cidr, text), why);
	publishing->left_out++;
}

static struct mk_cidr own_range(const struct mk_view *view, const struct mk_addr *net,
				const struct mk_addr *mask)
{
	return (struct mk_cidr){ mk_ip_of_family(net, view->family),
				 (uint8_t)(mk_ip_bits(view->family) - mk_pod_host_bits(mask)) };
}

/* The overlay's device has this node's address on the underlay, and the overlay's port. */
static int add_own(struct publishing *publishing, const struct mk_view *view)
{
	const struct mk_cidr pods = own_range(view, &view->node.pod_net, &view->node.pod_mask);
	const char *name = mk_node_names_find(&view->node_names, &pods.ip);
	char key[MK_VIEW_WIREGUARD];
	struct mk_link vxlan;
	int ret = mk_nl_link_get_index(view->nl, (int)view->links.set.overlay_ifindex, &vxlan,
				       publishing->err);

	if (ret < 0)
		return mk_error_wrap(publishing->err, "the overlay's device");
	if (!name)
		return mk_error_set(
			publishing->err, ENOENT,
			"this node's name is not known yet: try again when `monokube status` says that the agent is ready");
	publishing->port = vxlan.vxlan_port;
	return add_node(publishing, name, mk_view_wireguard(view, key), &pods, &vxlan.vxlan_local);
}

static int add_others(struct publishing *publishing, const struct mk_view *view)
{
	cleanup_free struct mk_cli_node *nodes = NULL;
	size_t count = 0;
	int ret = mk_cli_nodes_read(view, &nodes, &count, publishing->err);

	for (size_t i = 0; ret == 0 && i < count; i++)
		if (nodes[i].name && !is_border(publishing, nodes[i].name))
			continue;
		else if (!nodes[i].name)
			leave_out(publishing, &nodes[i].pod_cidr, NULL, "its name is not known");
		else if (nodes[i].underlay.family == AF_UNSPEC)
			leave_out(publishing, &nodes[i].pod_cidr, nodes[i].name,
				  mk_cli_node_fault(&nodes[i]));
		else
			ret = add_node(publishing, nodes[i].name,
				       mk_node_names_wireguard(&view->node_names, nodes[i].name),
				       &nodes[i].pod_cidr, &nodes[i].underlay);
	return ret;
}

/* ---- objects --------------------------------------------------------------------------------- */

static void print_head(const struct publishing *publishing, const char *kind, const char *node)
{
	printf("apiVersion: " GROUP "/v1alpha1\n"
	       "kind: %s\n"
	       "metadata:\n"
	       "  name: %s%s%s\n"
	       "  namespace: " NAMESPACE "\n"
	       "  labels:\n"
	       "    " GROUP "/cluster: %s\n"
	       "spec:\n",
	       kind, publishing->cluster, node ? "." : "", node ? node : "", publishing->cluster);
}

/* The range of external addresses of each family, which the tables have beside the peers. */
static void print_externals(const struct publishing *publishing)
{
	const char *separator = "  externalCidr: \"", *end = "";
	char text[MK_CIDR_STRLEN];

	for (size_t i = 0; i < publishing->views->count; i++) {
		const struct mk_view *view = &publishing->views->list[i];
		cleanup_cli_peers struct mk_cli_peers peers;
		struct mk_cluster row;
		struct mk_cidr range;

		if (mk_cli_peers_open(&peers, view, NULL) < 0 ||
		    !mk_peer_row(&peers, view->node.cluster_number | MK_CLUSTER_EXTERNAL, &row))
			continue;
		range = own_range(view, &row.home, &row.mask);
		printf("%s%s", separator, mk_cidr_format(&range, text));
		separator = ",";
		end = "\"\n";
	}
	printf("%s", end);
}

/* The range of each family, the primary one first. */
static void print_cluster(const struct publishing *publishing)
{
	char text[MK_CIDR_STRLEN];

	print_head(publishing, "PublishedCluster", NULL);
	printf("  name: %s\n  number: %u\n  podCidr: \"", publishing->cluster,
	       publishing->views->list[0].node.cluster_number);
	for (size_t i = 0; i < publishing->views->count; i++) {
		const struct mk_view *view = &publishing->views->list[i];
		const struct mk_cidr range =
			own_range(view, &view->node.cluster_net, &view->node.cluster_mask);

		printf("%s%s", i ? "," : "", mk_cidr_format(&range, text));
	}
	printf("\"\n");
	print_externals(publishing);
	printf("  wireVersions: [%u]\n", MK_CLUSTER_WIRE);
}

static void print_node(const struct publishing *publishing, const struct published_node *node)
{
	char text[MK_CIDR_STRLEN];

	printf("---\n");
	print_head(publishing, "PublishedNode", node->name);
	printf("  node: %s\n  podCidrs: [", node->name);
	for (size_t i = 0; i < node->cidr_count; i++)
		printf("%s\"%s\"", i ? ", " : "", mk_cidr_format(&node->pod_cidrs[i], text));
	printf("]\n  addresses: [\"%s\"]\n  port: %u\n", mk_ip_format(&node->address, text),
	       publishing->port);
	if (strlen(node->wireguard) > MK_WG_KEY_STRLEN)
		printf("  wireguard: {publicKey: \"%.*s\", port: %s}\n", MK_WG_KEY_STRLEN - 1,
		       node->wireguard, node->wireguard + MK_WG_KEY_STRLEN);
}

static int publish_all(struct publishing *publishing)
{
	const struct mk_views *views = publishing->views;
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < views->count; i++)
		ret = add_own(publishing, &views->list[i]);
	for (size_t i = 0; ret == 0 && i < views->count; i++)
		ret = add_others(publishing, &views->list[i]);
	if (ret < 0)
		return ret;
	print_cluster(publishing);
	for (size_t i = 0; i < publishing->count; i++)
		print_node(publishing, &publishing->nodes[i]);
	return publishing->left_out ? 1 : 0;
}

static int publish(const struct mk_views *views, const struct mk_cli_options *options,
		   struct mk_error *err)
{
	struct publishing publishing = { .views = views, .err = err };
	cleanup_json json_object *names = NULL;
	struct mk_record record;
	int ret = mk_record_read(options->state_dir, &record, err);

	if (ret < 0)
		return ret;
	if (!*record.cluster_name || !views->list[0].node.cluster_number)
		return mk_error_set(
			err, ENOENT,
			"this cluster has no name: set clusterName in the ConfigMap, and restart the agents");
	publishing.cluster = record.cluster_name;
	ret = peer_names_read(options->state_dir, &names, err);
	publishing.names = names;
	ret = ret ?: publish_all(&publishing);
	free(publishing.nodes);
	return ret;
}

int mk_cli_peer_publish(int argc, char **argv)
{
	return mk_view_main(argc, argv, publish);
}

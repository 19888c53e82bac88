/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/node/own_node.h - this node: from its object and its interfaces to devices, constants
 * and loaded programs, and its way to the other nodes. */
#ifndef MK_AGENT_NODE_OWN_NODE_H
#define MK_AGENT_NODE_OWN_NODE_H

#include "agent/core/core.h"
#include "config/addresses.h"
#include "host/networks.h"
#include "probes/sockets.h"
#include "service/service.h"

/* The addresses of an uplink from which masqueraded packets leave. */
struct mk_own_source {
	struct mk_cidr addr; /* source of packets masqueraded by this uplink, and its network */
	/* its unique local address (fc00::/7), for packets to such addresses; AF_UNSPEC: none */
	struct mk_cidr addr_local;
};

/* An uplink: a device to the network outside. */
struct mk_own_uplink {
	struct mk_link link;
	struct mk_own_source source[MK_FAMILIES];
	uint32_t flags; /* enum mk_uplink_flags */
};

struct mk_own_uplinks {
	struct mk_own_uplink uplink[MK_UPLINKS_MAX]; /* the first carries the overlay */
	size_t count;
	bool too_many, some_missing; /* more than fit; a named one does not exist */
	bool ask_host[MK_FAMILIES]; /* ask the host's routing for each packet */
};

static inline bool mk_own_uplinks_contain(const struct mk_own_uplinks *uplinks, int ifindex)
{
	for (size_t i = 0; i < uplinks->count; i++)
		if (uplinks->uplink[i].link.ifindex == ifindex)
			return true;
	return false;
}

/* Programs loaded by a thread (programs.c). While it runs, only `state` belongs to the loop. */
struct mk_load {
	enum { MK_LOAD_NONE, MK_LOAD_RUNS, MK_LOAD_ENDED } state;
	uv_work_t work;
	struct mk_node node;
	bool adopts; /* only adopt what the last run pinned */
	bool adoption_over, adopted; /* adoption was tried; it succeeded */
	struct mk_datapath *datapath;
	struct mk_error err;
	int ret;
};

/* What this node is in one family of addresses. */
struct mk_own_family {
	struct mk_own_node *node;
	struct mk_family *family;
	struct mk_addresses addresses;
	struct mk_ip node_ip; /* the Node's InternalIP, or the uplink's address */
	bool has_no_ip; /* .. neither: logged */
	struct mk_ip *local; /* every address of the host, sorted */
	size_t local_count;
	struct mk_ip *service_ips; /* addresses at which NodePorts answer */
	size_t service_ip_count;
	char *ports_said; /* as last logged */
	struct mk_overlay_plan plan;
	struct mk_route_entry *cluster_routes; /* to the views of other clusters */
	size_t cluster_route_count;
	struct mk_cidr *down_views; /* of other clusters that answer no probes */
	size_t down_view_count;
	struct mk_probes *link_probes; /* of nodes on the link, with routing Auto; NULL: none */
	int greeted[MK_UPLINKS_MAX]; /* devices by which other nodes know this one; 0: none */
	struct mk_load load; /* of the next datapath */
};

struct mk_own_node {
	struct mk_core *core;
	bool waits; /* reconcile() waits for something */

	struct mk_own_family families[MK_FAMILIES]; /* only those that run are filled in */
	struct mk_ip internal_ip; /* between which the overlay sends */
	struct mk_own_uplinks uplinks;
	uint32_t mtu_bytes; /* of the overlay */
	uint32_t pod_mtu_bytes; /* of pods: with routing: Direct the uplink's */
	struct mk_devices devices;
	bool sysctls_done;
	char *uplinks_said; /* as last logged */
	char *zone; /* "": none */
	unsigned int
		view_changes; /* zone, service_ips, down_views: every Service has to be compiled again */

	struct mk_networks networks; /* the host's, as last read */
	bool ranges_shared; /* one overlaps vtepCidr or clusterCidr, but the node is at work */
	char *left_out; /* nodes, as last logged */
	char *key_said; /* the key of WireGuard, as last logged */
	char *clear_said; /* nodes that get no encrypted packets, as last logged */
	size_t clear_count; /* .. their number; with encryption only */
	char *direct_said; /* nodes that get no direct packets, as last logged; with routing */
	size_t direct_count; /* .. the number of those that get them */
	bool links_undecided; /* .. probes go on to find out which nodes do */
	struct mk_probe_sockets link_sockets;
	unsigned int link_turns; /* calls of mk_own_node_probe_links() */
	bool cluster_routes_known; /* false: those of the last run stay */
	bool ranges_known; /* the overlay has all ranges that the host reaches by the datapath */
	unsigned int plans; /* how often the families' plans were made; 0: they are empty yet */

	struct mk_model *remembered; /* the object as the last run stored it; NULL: none */
};

/* The family that decides MAC addresses, the order of a pod's addresses, and messages. */
const struct mk_own_family *mk_own_node_primary(const struct mk_own_node *node);

/* Bring devices, programs, peers and routes to what the cluster and the host say; before the first
 * list, devices and programs to what the last run left. Returns MK_WAIT only if there is no
 * datapath. */
mk_must_check int mk_own_node_reconcile(struct mk_own_node *node, struct mk_error *err);
/* Check only whether the settings suit the Node object, if it exists. */
mk_must_check int mk_own_node_check(const struct mk_own_node *node, struct mk_error *err);
/* Returns how many kernel settings another process had changed. */
mk_must_check int mk_own_node_check_sysctls(const struct mk_own_node *node, struct mk_error *err);
/* Have room in the kernel's table of neighbours for the nodes on a link. */
mk_must_check int mk_own_node_check_neighbours(const struct mk_own_node *node,
					       struct mk_error *err);
/* Read what the last run stored. */
void mk_own_node_recall(struct mk_own_node *node);

/* The number of this cluster: clusterId, or computed from clusterName; 0: it has no name. */
uint32_t mk_own_cluster_number(const struct mk_config *config);
/* Set the routes to the views of other clusters, and take over @routes. The next reconcile writes
 * them. */
void mk_own_family_set_cluster_routes(struct mk_own_family *own, struct mk_route_entry *routes,
				      size_t count);
/* Set the views of clusters that answer no probes, and take over @views. If they are others, all
 * Services are compiled again. */
void mk_own_family_set_down_views(struct mk_own_family *own, struct mk_cidr *views, size_t count);
/* The routes are complete now: the next reconcile removes those of the last run. */
void mk_own_node_know_cluster_routes(struct mk_own_node *node);

/* Send probes to the nodes on the link, with routing Auto, and read the answers. Called twice per
 * second. Returns 0. */
int mk_own_node_probe_links(struct mk_own_node *node);
/* Log the nodes to which the overlay does not encrypt, with encryption; after its sync. */
void mk_own_node_say_clear(struct mk_own_node *node);

/* Fill in the devices and addresses for the programs. */
void mk_own_family_links(const struct mk_own_family *own, struct mk_datapath_links *links);
/* How this node sees Services of the family. */
struct mk_service_view mk_own_family_view(const struct mk_own_family *own);

/* Let the node and its families know what they share. */
void mk_own_node_init(struct mk_own_node *node, struct mk_core *core);
void mk_own_node_release(struct mk_own_node *node);

#endif

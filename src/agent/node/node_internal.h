/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/node/node_internal.h - what node.c puts together. Functions that take no
 * struct mk_own_node read the host or are pure. */
#ifndef MK_AGENT_NODE_NODE_INTERNAL_H
#define MK_AGENT_NODE_NODE_INTERNAL_H

#include <stdio.h>

#include "agent/node/own_node.h"

/* node_list.c: nodes in words. */
struct node_list {
	FILE *out;
	char *text;
	size_t size, count;
};
void node_list_begin(struct node_list *list);
/* Count one more node. Returns where its words go; NULL: there is no room for them. */
FILE *node_list_add(struct node_list *list);
#define NODES_SHOW_ALL " (`monokube nodes` shows all)"
/* Returns the text, which the caller frees, empty without nodes; NULL: out of memory. @all follows
 * the number of the nodes that have no words: it says where they are. */
char *node_list_end(struct node_list *list, const char *all);

/* family.c: read the host's addresses of both families. The caller frees *@addresses, also after an
 * error. */
struct host_address {
	int ifindex;
	struct mk_cidr addr;
	uint32_t flags; /* IFA_F_* */
};
mk_must_check int read_addresses(struct mk_nl *nl, struct host_address **addresses, size_t *count,
				 struct mk_error *err);

/* ways.c: a device of the host with an address or a route. */
struct way {
	int ifindex;
	bool main; /* has an address of the Node, or a default route */
	bool has_default;
	struct mk_ip source; /* source in its routes; AF_UNSPEC: none */
	bool several_sources;
};

struct ways {
	struct way way[256];
	size_t count;
	bool has_rules; /* policy rules choose among routing tables */
	bool odd; /* a route is not plain unicast by one device, or too many devices */
};

/* Where the host's devices and their addresses are read. */
struct host_input {
	struct mk_nl *nl;
	const struct mk_config *config;
	sa_family_t family; /* of ways and sources */
	const struct mk_node_object *object;
	const struct host_address *addresses;
	size_t address_count;
};
mk_must_check int read_ways(const struct host_input *input, struct ways *ways,
			    struct mk_error *err);

/* Can a packet leave by another device than @ifindex, or with another source than @addr? Pure. */
bool must_ask_host(const struct ways *ways, int ifindex, const struct mk_ip *addr);

/* uplinks.c: find the uplinks of the families in @families, at least one; MK_WAIT: none yet, @err
 * says what is missing. */
mk_must_check int find_uplinks(const struct host_input *input, const bool families[MK_FAMILIES],
			       struct mk_own_uplinks *found, struct mk_error *err);
/* Can the device be an uplink without being named? Pure. */
bool can_be_uplink(const struct mk_config *config, const struct mk_link *link);
/* Refuse a VRF and a device in one. @why: what names the device. */
mk_must_check int refuse_vrf(const struct mk_link *link, const char *why, struct mk_error *err);
/* sources.c: choose the sources of the device @ifindex among the host's addresses. Pure. */
struct mk_own_source choose_sources(const struct host_input *host, int ifindex);
/* Fill in the uplinks' part of @links. Pure. */
void uplink_links(const struct mk_own_uplinks *uplinks, sa_family_t family,
		  struct mk_datapath_links *links);

/* node_ports.c: do NodePorts answer at 127.0.0.1? As localhostNodePorts says, unless
 * nodePortAddresses excludes it. Pure. */
bool localhost_node_ports(const struct mk_config *config, sa_family_t family);

/* The pod CIDR of @object in @family, and the address between which the overlay sends; family
 * AF_UNSPEC: none. */
static inline const struct mk_cidr *pods_of(const struct mk_node_object *object, sa_family_t family)
{
	return &object->pod_cidrs[mk_family_index(family)];
}
static inline const struct mk_ip *underlay_of(const struct mk_config *config,
					      const struct mk_node_object *object)
{
	return &object->internal_ips[mk_family_index(config->underlay_family)];
}
/* List the addresses at which NodePorts answer (nodePortAddresses). @local: the host's addresses of
 * @family. Pure; the caller frees *@ips. */
mk_must_check int node_port_ips(const struct mk_config *config, sa_family_t family,
				const struct mk_node_object *object, const struct mk_ip *local,
				size_t local_count, struct mk_ip **ips, size_t *count,
				struct mk_error *err);
/* Log the uplinks and the addresses of NodePorts when they change. Returns 0. */
int say_node(struct mk_own_node *node, struct mk_error *err);

/* networks.c: compare the configured ranges with the host's networks. Refuse a node that overlaps
 * and is not yet at work; only report an overlap on a node that is. @vteps: by family, AF_UNSPEC
 * for one that does not run. */
mk_must_check int compare_networks(struct mk_own_node *node, const struct mk_ip vteps[MK_FAMILIES],
				   struct mk_error *err);

/* programs.c: have the datapath loaded with these constants; before the first list, only adopt what
 * is pinned. Returns 0 if it is loaded, MK_WAIT while a thread loads it, or nothing can be
 * adopted. */
mk_must_check int load_programs(struct mk_own_family *own, const struct mk_node *constants,
				struct mk_error *err);
void drop_datapath(struct mk_family *family);

/* peers.c: the other nodes, and the ranges of Services, as overlay, routes and peers. */
mk_must_check int reconcile_peers(struct mk_own_node *node, struct mk_error *err);

/* family.c: the steps of one family. Read the host's addresses; */
mk_must_check int take_local(struct mk_own_family *own, struct mk_error *err);
/* take what Services need to know of @object; *@changed: something of it changed; */
mk_must_check int take_service_ips(struct mk_own_family *own, const struct mk_node_object *object,
				   bool *changed, struct mk_error *err);
/* have its programs loaded. Returns as load_programs(). */
mk_must_check int load_family(struct mk_own_family *own, struct mk_error *err);
void release_family(struct mk_own_family *own);

/* on_link.c: find the nodes on the links of the uplinks, and which of them get direct packets, as
 * members of own->plan; after plan_peers(). */
mk_must_check int find_links(struct mk_own_family *own, struct mk_error *err);
/* Log which nodes are not direct, with setting routing; changes only. */
void say_direct(struct mk_own_node *node);
struct links_input {
	const struct mk_own_uplinks *uplinks;
	const struct mk_networks *networks; /* the host's; may be NULL */
	sa_family_t family;
};
/* The uplink on whose link @ip is; NULL: none. Pure. */
const struct mk_own_uplink *link_of(const struct links_input *input, const struct mk_ip *ip);

/* greet.c: send each node on the link of a new uplink a packet from this node's own address, before
 * any direct packet. IPv6 only. A packet that cannot be sent is logged. */
void greet_links(struct mk_own_family *own);

/* link_probes.c: do packets to nodes on the link go there without VXLAN? Pure. */
bool sends_direct(const struct mk_config *config);
/* .. and do these nodes get probes? Pure. */
bool tries_links(const struct mk_config *config);
/* Let the nodes on the link get probes. With routing Auto their answers decide which nodes get
 * direct packets. */
mk_must_check int try_links(struct mk_own_family *own, struct mk_error *err);
/* Has the node lost so many probes that it gets no direct packets? */
bool is_silent(const struct mk_own_family *own, const struct mk_overlay_peer *peer);

/* remember.c: store this node's object for the next run. Returns 0, also if that fails. */
int remember_node(struct mk_own_node *node, struct mk_error *err);

/* routes.c: what map `routes` should hold. Pure; the caller frees *@entries. */
struct routes_input {
	struct mk_cidr cluster_cidr, vtep_cidr;
	const struct mk_addresses *own;
	const struct mk_overlay_plan *plan;
	const struct mk_ip *local;
	size_t local_count;
	const struct mk_cidr *service_ranges;
	size_t service_range_count;
	/* Other nodes' own addresses, if pods' packets leave with their own source. */
	const struct mk_ip *others;
	size_t other_count;
	/* Of other clusters. The whole pool is dropped, but for their views. */
	struct mk_cidr peer_pool; /* AF_UNSPEC: none */
	const struct mk_route_entry *cluster_routes;
	size_t cluster_route_count;
	bool encrypts_all; /* encryption: WireGuardOnly */
	bool has_wireguard; /* this node has the device */
};
mk_must_check int wanted_routes(const struct routes_input *input, struct mk_route_entry **entries,
				size_t *count, struct mk_error *err);

/* Do pods' packets leave the cluster with their own source (masqueradeIPv6)? */
bool keeps_source(const struct mk_own_family *own);

/* Put the Service ranges that can be dropped and routed as a whole into @usable, which has capacity
 * for all. A range would cut off what it contains or overlaps: pods' or VTEPs' addresses, a node's
 * address, a network of the host. Such a range is left out, and its Services keep a route each.
 * Returns how many are left out; @why names one of them. Pure. */
struct ranges_input {
	struct mk_cidr cluster_cidr, vtep_cidr;
	const struct mk_overlay_plan *plan;
	const struct mk_ip *internal_ip;
	const struct mk_networks *networks; /* the host's */
	const struct mk_service_cidr *ranges;
	size_t count;
};
int usable_ranges(const struct ranges_input *input, struct mk_cidr *usable, struct mk_error *why);

/* family.c: carriers are of the other family, and only this family's programs can check them */
bool checks_far_carriers(const struct mk_own_family *own);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/inspect/view.h - what several subcommands look up: the node's constants, its pods, the
 * names of Services. Read once, from pins, netlink and state files. */
#ifndef MK_CLI_INSPECT_VIEW_H
#define MK_CLI_INSPECT_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include <json-c/json.h>

#include "monokube/abi.h"
#include "base/netlink/netlink.h"
#include "cli/cli.h"
#include "datapath/maps/links.h"
#include "datapath/maps/table.h"
#include "datapath/monitor/drops.h"
#include "datapath/services/names.h"
#include "overlay/node_names.h"

struct mk_view_pod {
	struct mk_addr addr;
	struct mk_pod entry; /* ifindex 0: not in map pods */
	struct mk_link link; /* ifindex 0: no such interface; alias: "namespace/name" */
	char *owner; /* container id, NUL, its interface, NUL, namespace path; NULL: not known */
};

/* One family of the node. */
struct mk_view {
	const char *dir, *state_dir; /* dir: of the family's tables */
	sa_family_t family;
	bool loaded; /* false: no datapath is loaded; only the directories and @nl are set */
	struct mk_node node;
	struct mk_datapath_links links; /* devices and addresses, as the programs know them */
	struct mk_nl *nl;
	struct mk_table routes;
	struct mk_service_names names;
	struct mk_node_names node_names;
	json_object *peer_names; /* file MK_CLUSTER_NAMES_FILE; NULL: not there, or not readable */
	struct mk_view_pod *pods; /* by address */
	size_t pod_count;
};

/* The families of mk_cli_options.families, in that order: at least one. */
struct mk_views {
	struct mk_view list[MK_FAMILIES];
	size_t count;
};

/* A subcommand that looks things up: read its words, open the views, then call @run, which returns
 * the exit status or an error. Returns the exit status. */
typedef int mk_view_run_fn(const struct mk_views *views, const struct mk_cli_options *options,
			   struct mk_error *err);
int mk_view_main(int argc, char **argv, mk_view_run_fn *run);
/* ... also if no datapath is loaded: @run checks mk_view.loaded of the only view. */
int mk_view_main_unloaded(int argc, char **argv, mk_view_run_fn *run);

/* NULL: no pod of this node. */
const struct mk_view_pod *mk_view_pod(const struct mk_view *view, const struct mk_addr *addr);
/* Find a pod by "namespace/name", or by "name" if only one pod has it. */
const struct mk_view_pod *mk_view_pod_named(const struct mk_view *view, const char *name);
/* Find a Service by "namespace/name", by its DNS name, or by "name" if one namespace has it. 0:
 * none; -EEXIST: several have it, and @err names two. */
mk_must_check int mk_view_service_named(const struct mk_view *view, const char *word,
					uint32_t *service_id, struct mk_error *err);
/* The name that the runtime gave it, otherwise its interface's. */
const char *mk_view_pod_name(const struct mk_view_pod *pod);
/* Return @protocol as the node's packets have it: ICMP is ICMPv6 on a node of IPv6. */
uint8_t mk_view_protocol(const struct mk_view *view, unsigned int protocol);
/* Look up @addr in map routes; false: it is outside. */
bool mk_view_route(const struct mk_view *view, const struct mk_addr *addr, struct mk_route *route);
/* Returns the entry that matches, "10.244.2.0/24" or "none"; @buf has MK_CIDR_STRLEN bytes. */
const char *mk_view_route_prefix(const struct mk_view *view, const struct mk_addr *addr, char *buf);

/* Bytes that the description of an address needs. */
#define MK_VIEW_WHO_BYTES 300

/* Return what an operator can do about dropped packets. @reason is an enum mk_drop_reason, else
 * the answer is "". */
const char *mk_drop_remedy(unsigned int reason);

/* Read the sum over the families of @options. */
mk_must_check int mk_cli_drops_read(const struct mk_cli_options *options,
				    struct mk_drop_totals *totals, struct mk_error *err);

/* Returns KEY:PORT of this node's device of WireGuard; NULL: there is none, or only root may read
 * it. */
#define MK_VIEW_WIREGUARD (MK_WG_KEY_STRLEN + 8)
const char *mk_view_wireguard(const struct mk_view *view, char text[MK_VIEW_WIREGUARD]);

/* The other nodes, from map routes and the kernel's tables. */
struct mk_cli_node {
	const char *name; /* from the view; NULL: not known */
	struct mk_cidr pod_cidr;
	struct mk_addr vtep;
	__u8 vtep_mac[6];
	struct mk_ip underlay; /* from the FDB entry; AF_UNSPEC: none */
	bool is_encrypted; /* the FDB entry leads to WireGuard's device */
	bool is_direct; /* packets go there without VXLAN */
	bool is_tried; /* probes go there without VXLAN, and are not answered (any more) */
	bool has_route; /* the kernel has the route to the pod CIDR, through the overlay or direct */
	int link_ifindex; /* with both: the route's device, and the node's address there */
	struct mk_ip link_ip;
	bool has_neighbour;
	bool has_sfc_fdb; /* the chains' VXLAN device has the same FDB entry */
	bool has_vtep_route; /* in map routes */
};

/* List every other node with a pod range in map routes, sorted by that range. The caller frees
 * *@nodes. */
mk_must_check int mk_cli_nodes_read(const struct mk_view *view, struct mk_cli_node **nodes,
				    size_t *count, struct mk_error *err);
/* Returns in words what the tables lack of it; NULL: nothing. */
const char *mk_cli_node_fault(const struct mk_cli_node *node);

#endif

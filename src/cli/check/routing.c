// SPDX-License-Identifier: Apache-2.0
/* `monokube check`: do pods reach the networks that this host has routes to? Do packets reach other
 * nodes without VXLAN, if they shall? */
#include <arpa/inet.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "cli/check/check.h"
#include "cli/inspect/view.h"
#include "datapath/pods/port.h"
#include "pod/endpoint/endpoint.h"

#define NAMES_BYTES    160
#define LINK_LOCAL_NET 0xa9fe

struct looking {
	const struct mk_checking *checking;
	struct mk_nl *nl;
	const struct mk_datapath_links *links;
	char others[NAMES_BYTES]; /* devices that carry no programs */
	char own[NAMES_BYTES]; /* devices of pods and of monokube with a DHCP client's address */
	int seen[16]; /* their ifindexes */
	size_t count;
	unsigned int encapsulated;
};

static bool carries_programs(const struct mk_datapath_links *links, int ifindex)
{
	for (size_t i = 0; i < links->uplink_count; i++)
		if ((int)links->uplinks[i].ifindex == ifindex)
			return true;
	return ifindex == MK_LOOPBACK_IFINDEX || ifindex == (int)links->set.overlay_ifindex ||
	       ifindex == (int)links->set.host_ifindex ||
	       ifindex == (int)links->set.host_peer_ifindex;
}

static bool is_news(struct looking *looking, int ifindex)
{
	for (size_t i = 0; i < looking->count; i++)
		if (looking->seen[i] == ifindex)
			return false;
	if (looking->count == MK_ARRAY_SIZE(looking->seen))
		return false;
	looking->seen[looking->count++] = ifindex;
	return true;
}

/* Is the device a pod's, or did the agent make it? */
static bool is_own(const struct looking *looking, const struct mk_link *link)
{
	const struct mk_record *record = &looking->checking->record;
	const char *const names[] = { MK_HOST_VETH, MK_HOST_PEER, record->vxlan_name,
				      record->sfc_name, record->peer_name };

	for (size_t i = 0; i < MK_ARRAY_SIZE(names); i++)
		if (strcmp(link->name, names[i]) == 0)
			return true;
	return mk_cni_is_pod_device(record->veth_prefix, link) || mk_port_of(link, NULL, NULL);
}

static void add_name(char names[NAMES_BYTES], const char *name)
{
	size_t used = strlen(names);

	snprintf(names + used, NAMES_BYTES - used, "%s%s", used ? ", " : "", name);
}

static int see_way(void *ctx, const struct mk_nl_route *way)
{
	struct looking *looking = ctx;
	struct mk_link link;

	if (way->type != RTN_UNICAST || way->protocol == MK_RTPROT)
		return 0;
	looking->encapsulated += way->encapsulated;
	if (carries_programs(looking->links, way->ifindex) || !is_news(looking, way->ifindex) ||
	    mk_nl_link_get_index(looking->nl, way->ifindex, &link, NULL) < 0)
		return 0;
	if (!is_own(looking, &link) && !mk_nl_is_of_vrf(&link))
		add_name(looking->others, link.name);
	return 0;
}

/* Without a server, a DHCP client gives each device that it manages such an address. */
static int see_address(void *ctx, const struct mk_nl_addr *addr)
{
	struct looking *looking = ctx;
	struct mk_link link;

	if (ntohl(addr->cidr.ip.v4.s_addr) >> 16 == LINK_LOCAL_NET &&
	    mk_nl_link_get_index(looking->nl, addr->ifindex, &link, NULL) == 0 &&
	    is_own(looking, &link))
		add_name(looking->own, link.name);
	return 0;
}

/* Once, on a node with both families. */
static void check_configured(struct mk_checking *checking, struct looking *looking)
{
	if (checking->view->family != AF_INET && check_view(checking, AF_INET))
		return;
	if (mk_nl_each_addr(looking->nl, AF_INET, see_address, looking, NULL) < 0 || !*looking->own)
		return;
	check_note(
		checking, "routing",
		"exclude devices mk* there, such as by `denyinterfaces mk*` in /etc/dhcpcd.conf, and restart it",
		"a DHCP client of this host configures devices of pods or of monokube: addresses of 169.254.0.0/16 on %s; the host may send packets to such addresses, or by default, to them",
		looking->own);
}

static void name_uplinks(const struct mk_datapath_links *links, char *names, size_t size)
{
	size_t used = 0;

	*names = '\0';
	for (size_t i = 0; i < links->uplink_count && used < size; i++) {
		char name[IF_NAMESIZE] = "?";

		if_indextoname(links->uplinks[i].ifindex, name);
		used += (size_t)snprintf(names + used, size - used, "%s%s%s", i ? ", " : "", name,
					 links->uplinks[i].flags & MK_UPLINK_TUNNEL ? " (tunnel)"
										    : "");
	}
}

/* Masqueraded packets need an address of an uplink. */
static bool lacks_address(const struct mk_checking *checking)
{
	const struct mk_datapath_links *links = &checking->view->links;

	for (size_t i = 0; i < links->uplink_count; i++)
		if (mk_ip_of_family(&links->uplinks[i].addr, AF_UNSPEC).family != AF_UNSPEC)
			return false;
	return !checking->view->node.keeps_source;
}

void check_routing(struct mk_checking *checking)
{
	struct looking looking = { .checking = checking,
				   .nl = checking->view->nl,
				   .links = &checking->view->links };
	char names[NAMES_BYTES];
	struct mk_error err = { 0 };

	check_configured(checking, &looking);
	name_uplinks(looking.links, names, sizeof(names));
	if (mk_nl_each_way(checking->view->nl, checking->view->family, see_way, &looking, &err) < 0)
		check_found(checking, "routing", "run as root", "%s", mk_error_text(&err));
	else if (*looking.others)
		check_note(
			checking, "routing",
			"if uplinkIfaceName is set, add them or leave it empty; remove routes of another network plugin into clusterCidr",
			"this host has routes by %s, which carry no programs: pods do not reach what is behind them (drop reason NO_UPLINK)",
			looking.others);
	else if (looking.encapsulated)
		check_note(
			checking, "routing", "use a tunnel device instead",
			"%u routes of this host have an encapsulation of their own: pods do not reach what is behind them (drop reason NO_UPLINK)",
			looking.encapsulated);
	else if (lacks_address(checking))
		check_note(
			checking, "routing", "give one of them an address of this family",
			"none of the uplinks (%s) has an address: pods do not leave the cluster (drop reason NO_UPLINK)",
			names);
	else
		check_found(checking, "routing", NULL, "pods leave by %s%s", names,
			    looking.links->set.ask_host ? ", as this host's routing says" : "");
}

/* ---- setting routing ------------------------------------------------------------------------- */

struct neighbour_search {
	const struct mk_ip *ip;
	bool found;
};

static int see_neighbour(void *ctx, const struct mk_ip *ip, const struct mk_mac *mac,
			 bool permanent)
{
	static const struct mk_mac none;
	struct neighbour_search *search = ctx;

	(void)permanent;
	if (mk_ip_equal(ip, search->ip) && memcmp(mac, &none, sizeof(none)) != 0)
		search->found = true;
	return 0;
}

/* A direct node has to have a MAC address on the link. */
static void check_link(struct mk_checking *checking, const struct mk_cli_node *node)
{
	struct neighbour_search search = { .ip = &node->link_ip };
	char name[IF_NAMESIZE] = "?", ip[MK_IP_STRLEN];

	if (!node->has_route || /* check "nodes" reports it */
	    mk_nl_each_neigh(checking->view->nl, node->link_ip.family, node->link_ifindex,
			     see_neighbour, &search, NULL) < 0 ||
	    search.found)
		return;
	if_indextoname((unsigned int)node->link_ifindex, name);
	check_found(checking, "direct", "is that node up, and on the same link?",
		    "node '%s' (%s) does not answer on %s: packets to it are lost",
		    node->name ?: "?", mk_ip_format(&node->link_ip, ip), name);
}

/* Returns why relayed packets go to @node in VXLAN, though directServerReturn is on here
 * (bpf/direct_return.h); NULL: they do not. */
static const char *not_relayed(const struct mk_table *link_nodes, const struct mk_cli_node *node)
{
	struct mk_link_node_key key = { 0 };
	struct mk_link_node on_link;
	struct timespec now;

	memcpy(key.vtep_mac, node->vtep_mac, sizeof(key.vtep_mac));
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (mk_table_get(link_nodes, &key, &on_link, NULL) < 0 ||
	    !mk_link_is_shown(&on_link, now.tv_sec))
		return "no frame with that node's VTEP MAC address comes by the link";
	return on_link.sees_this ? NULL
				 : "that node gets no frame with this node's VTEP MAC address";
}

static void check_relayed(struct mk_checking *checking, const struct mk_cli_node *nodes,
			  size_t count)
{
	cleanup_table struct mk_table link_nodes = { .fd = -1 };
	struct mk_error err = { 0 };
	const char *why;

	if (!checking->view->node.returns_direct)
		return;
	if (mk_table_open(&link_nodes, checking->view->dir, "link_nodes",
			  sizeof(struct mk_link_node_key), sizeof(struct mk_link_node), &err) < 0) {
		check_found(checking, "direct", CHECK_REPAIRED, "%s", mk_error_text(&err));
		return;
	}
	for (size_t i = 0; i < count; i++) {
		why = nodes[i].is_direct ? not_relayed(&link_nodes, &nodes[i]) : NULL;
		if (why)
			check_note(
				checking, "direct",
				"let the link carry frames with these addresses (02:4d:..), set directServerReturn on all nodes, or wait if an agent has just started",
				"requests of clients outside go to node '%s' in VXLAN: %s",
				nodes[i].name ?: "?", why);
	}
}

/* Which nodes get packets without VXLAN? With Auto, the others are expected. */
void check_direct(struct mk_checking *checking)
{
	const char *routing = checking->record.routing;
	cleanup_free struct mk_cli_node *nodes = NULL;
	unsigned int before = checking->wrong;
	size_t count = 0, direct = 0, tried = 0;
	struct mk_error err = { 0 };

	if (!*routing || strcmp(routing, "Overlay") == 0 || check_encrypts(checking) ||
	    mk_cli_nodes_read(checking->view, &nodes, &count, &err) < 0)
		return;
	for (size_t i = 0; i < count; i++) {
		direct += nodes[i].is_direct;
		tried += nodes[i].is_tried;
		if (nodes[i].is_direct)
			check_link(checking, &nodes[i]);
		else if (strcmp(routing, "Direct") == 0)
			check_note(
				checking, "direct",
				"give the node an InternalIP in a network of an uplink of this node, or set routing to Auto",
				"packets to node '%s' go in VXLAN: it is on no network of an uplink",
				nodes[i].name ?: "?");
	}
	if (tried)
		check_note(
			checking, "direct",
			"let the link carry packets with pods' addresses (clouds: IP forwarding on, source and destination check off), or set routing to Overlay",
			"packets to %zu of %zu other nodes go in VXLAN, although they are on the link: probes without VXLAN are not answered",
			tried, count);
	check_relayed(checking, nodes, count);
	if (checking->wrong == before)
		check_found(checking, "direct", NULL,
			    "packets to %zu of %zu other nodes go without VXLAN", direct, count);
}

// SPDX-License-Identifier: Apache-2.0
/* Checks of the node's own state: agent, kernel, hooks, nodes, pods, MTU, settings. */
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cli/check/check.h"
#include "cli/inspect/view.h"
#include "datapath/maps/hook.h"
#include "host/agent_state.h"
#include "host/networks.h"
#include "host/sysctl.h"
#include "overlay/device.h"
#include "pod/ipam/ipam.h"

static bool is_ipv6(const struct mk_view *view)
{
	return view->family == AF_INET6;
}

void check_agent(struct mk_checking *checking)
{
	struct mk_agent_state state;
	bool ready;

	mk_agent_state_read(checking->options->state_dir, &state);
	ready = !*state.text || strcmp(state.text, MK_AGENT_READY) == 0;
	if (!state.running)
		check_found(
			checking, "agent",
			"start it: connections and pods go on without it, changes of the cluster do not arrive",
			"does not run");
	else if (!ready)
		check_found(checking, "agent", "provide what it waits for; see its log",
			    "runs, pid %lu, but is not ready: %s", state.pid, state.text);
	else
		check_found(checking, "agent", NULL, "runs");
	if (!checking->view->loaded)
		check_found(checking, "datapath",
			    "an agent loads it after each boot, when it is ready",
			    "no programs and tables are loaded in %s", checking->view->dir);
}

/* ---- kernel and networks --------------------------------------------------------------------- */

#define KERNEL_MAJOR 5
#define KERNEL_MINOR 10

void check_kernel(struct mk_checking *checking)
{
	unsigned int major = 0, minor = 0;
	struct utsname kernel = { 0 };

	if (uname(&kernel) < 0 || sscanf(kernel.release, "%u.%u", &major, &minor) != 2)
		return;
	if (major < KERNEL_MAJOR || (major == KERNEL_MAJOR && minor < KERNEL_MINOR))
		check_found(checking, "kernel", "boot Linux 5.10 or newer", "Linux %s",
			    kernel.release);
	else
		check_found(checking, "kernel", NULL, "Linux %s", kernel.release);
}

static size_t own_ranges(const char *vtep, const char *cluster, struct mk_own_range ranges[2])
{
	size_t count = 0;

	if (mk_cidr_parse(vtep, &ranges[count].cidr) == 0)
		ranges[count++].setting = "vtepCidr";
	if (mk_cidr_parse(cluster, &ranges[count].cidr) == 0)
		ranges[count++].setting = "clusterCidr";
	return count;
}

/* The agent reports the same: src/agent/node/networks.c. */
static void check_ranges(struct mk_checking *checking, const char *vtep, const char *cluster)
{
	struct mk_networks networks;
	struct mk_own_range ranges[2];
	struct mk_error err = { 0 };
	size_t count = own_ranges(vtep, cluster, ranges);
	enum mk_overlap overlap;

	if (count == 0)
		return; /* no agent has stored its settings yet */
	if (mk_networks_read(checking->view->nl, ranges[0].cidr.ip.family,
			     checking->record.vxlan_name, NULL, &networks, &err) < 0) {
		check_found(checking, "networks", "run as root", "%s", mk_error_text(&err));
		mk_networks_release(&networks);
		return;
	}
	overlap = mk_networks_judge(&networks, ranges, count, &err);
	if (overlap == MK_OVERLAP_REFUSED)
		check_found(checking, "networks",
			    "change that setting, to the same value on every node", "%s",
			    mk_error_text(&err));
	else if (overlap == MK_OVERLAP_REPORTED)
		check_note(checking, "networks",
			   "change that setting, to the same value on every node", "%s",
			   mk_error_text(&err));
	else
		check_found(checking, "networks", NULL,
			    "%s and %s overlap none of the host's %zu addresses and routes", vtep,
			    cluster, networks.count);
	mk_networks_release(&networks);
}

void check_networks(struct mk_checking *checking)
{
	const struct mk_record *record = &checking->record;

	check_ranges(checking, record->vtep_cidr, record->cluster_cidr);
	check_ranges(checking, record->second_vtep_cidr, record->second_cluster_cidr);
}

const char *check_missing_family(const struct mk_checking *checking)
{
	const char *ranges[] = { checking->record.cluster_cidr,
				 checking->record.second_cluster_cidr };

	for (size_t i = 0; i < MK_ARRAY_SIZE(ranges); i++) {
		struct mk_cidr cidr;

		if (mk_cidr_parse(ranges[i], &cidr) == 0 && !check_view(checking, cidr.ip.family))
			return mk_family_name(cidr.ip.family);
	}
	return NULL;
}

/* The node works with the other family. */
void check_families(struct mk_checking *checking)
{
	const char *missing = check_missing_family(checking);

	if (missing)
		check_note(
			checking, "families",
			"register the Node again if it has no pod CIDR of this family; set clusterCidr to the range of its pod CIDR if it has one; the agent's log names the cause",
			"clusterCidr has a range of %s, which this node does not run", missing);
}

/* ---- hooks ----------------------------------------------------------------------------------- */

/* Returns 1 if there is a program. */
static unsigned int check_hook(struct mk_checking *checking, uint32_t ifindex,
			       enum mk_direction direction)
{
	char name[IF_NAMESIZE] = "?";
	uint32_t id = 0;

	if (mk_hook_query(checking->view->nl, (int)ifindex, direction, &id, NULL) == 0 && id)
		return 1;
	if_indextoname(ifindex, name);
	check_found(checking, "hooks", CHECK_REPAIRED, "no program on the %s of interface %s (%u)",
		    direction == MK_INGRESS ? "ingress" : "egress", name, ifindex);
	return 0;
}

/* On a node with both families, IPv4's programs pass IPv6's packets on to these. Returns their
 * number. */
static unsigned int check_entries(struct mk_checking *checking)
{
	cleanup_table struct mk_table entries = { 0 };
	unsigned int count = 0;
	struct mk_error err = { 0 };
	int ret = mk_table_open(&entries, checking->view->dir, "other_family", sizeof(__u32),
				sizeof(__u32), &err);

	for (__u32 slot = 0, id; ret == 0 && slot < MK_ENTRY_COUNT; slot++)
		count += mk_table_get(&entries, &slot, &id, NULL) == 0;
	if (ret < 0)
		check_found(checking, "hooks", CHECK_REPAIRED, "%s", mk_error_text(&err));
	else if (count < MK_ENTRY_COUNT)
		check_found(checking, "hooks", CHECK_REPAIRED,
			    "map other_family has only %u of %u programs of IPv6", count,
			    MK_ENTRY_COUNT);
	return count;
}

void check_hooks(struct mk_checking *checking)
{
	const struct mk_datapath_links *links = &checking->view->links;
	unsigned int before = checking->wrong, count = 0;

	count += check_hook(checking, links->set.host_peer_ifindex, MK_INGRESS);
	count += check_hook(checking, links->set.overlay_ifindex, MK_INGRESS);
	count += check_hook(checking, links->sfc_ifindex, MK_INGRESS);
	if (links->cluster_ifindex)
		count += check_hook(checking, links->cluster_ifindex, MK_INGRESS);
	if (links->wg_ifindex)
		count += check_hook(checking, links->wg_ifindex, MK_INGRESS);
	if (links->wg_peer_ifindex)
		count += check_hook(checking, links->wg_peer_ifindex, MK_INGRESS);
	count += check_hook(checking, MK_LOOPBACK_IFINDEX, MK_EGRESS);
	for (size_t i = 0; i < links->uplink_count; i++) {
		count += check_hook(checking, links->uplinks[i].ifindex, MK_INGRESS);
		if (!(links->uplinks[i].flags & MK_UPLINK_TUNNEL))
			count += check_hook(checking, links->uplinks[i].ifindex, MK_EGRESS);
	}
	for (size_t i = 0; i < checking->view->pod_count; i++)
		if (checking->view->pods[i].link.ifindex) /* otherwise check "pods" reports it */
			count += check_hook(checking, checking->view->pods[i].entry.ifindex,
					    MK_INGRESS);
	if (checking->views->count > 1)
		count += check_entries(checking);
	if (checking->wrong == before)
		check_found(checking, "hooks", NULL, "programs on all %u", count);
}

/* ---- nodes and pods -------------------------------------------------------------------------- */

/* The agent reports the same: src/agent/node/peers.c. */
static void check_left_out(struct mk_checking *checking)
{
	const struct mk_node_names *names = &checking->view->node_names;

	for (size_t i = 0; i < names->left_out_count; i++)
		if (names->left_out[i].family == checking->view->family)
			check_found(
				checking, "nodes",
				"correct that Node, or delete it if its machine is gone: its pods are not reached",
				"Node '%s' is left out: %s", names->left_out[i].name,
				names->left_out[i].reason);
}

void check_nodes(struct mk_checking *checking)
{
	cleanup_free struct mk_cli_node *nodes = NULL;
	unsigned int before = checking->wrong;
	struct mk_error err = { 0 };
	char text[MK_CIDR_STRLEN];
	size_t count = 0;

	if (mk_cli_nodes_read(checking->view, &nodes, &count, &err) < 0)
		check_found(checking, "nodes", "run as root", "%s", mk_error_text(&err));
	for (size_t i = 0; i < count; i++)
		if (mk_cli_node_fault(&nodes[i]))
			check_found(checking, "nodes", CHECK_REPAIRED,
				    "%s%sthe one with pods %s: %s",
				    nodes[i].name ? nodes[i].name : "", nodes[i].name ? ", " : "",
				    mk_cidr_format(&nodes[i].pod_cidr, text),
				    mk_cli_node_fault(&nodes[i]));
	check_left_out(checking);
	if (checking->wrong == before)
		check_found(checking, "nodes", NULL,
			    "%zu others, each with route, neighbour and FDB entry", count);
}

/* What is wrong with the way to @node, and the remedy; NULL: nothing. */
static const char *clear_remedy(const struct mk_checking *checking, const struct mk_cli_node *node,
				bool is_only)
{
	const char *key = mk_node_names_wireguard(&checking->view->node_names, node->name ?: "");

	if (!checking->view->links.wg_ifindex)
		return "load or install the kernel's module 'wireguard' on this node";
	if (!key)
		return "set wireguardPort and encryption on that node, and load its module 'wireguard'";
	if (node->is_encrypted || is_only)
		return NULL;
	return "let UDP of wireguardPort pass between the nodes, both ways";
}

bool check_encrypts(const struct mk_checking *checking)
{
	return strncmp(checking->record.encryption, "WireGuard", strlen("WireGuard")) == 0;
}

static void see_twins(void *ctx, const char *first, const char *second)
{
	check_found(
		ctx, "encryption",
		"on one of the two, remove the file wireguard.key in the agent's state directory, and restart its agent; if objects are carried to other clusters by hand, publish them again",
		"nodes '%s' and '%s' have the same WireGuard key, as after a copy of a disk: packets to one of them are lost or not encrypted",
		first, second);
}

/* WireGuard knows a node by its key only. */
static void check_twins(struct mk_checking *checking)
{
	char text[MK_VIEW_WIREGUARD];
	const char *own = mk_view_wireguard(checking->view, text);
	struct mk_error err = { 0 };

	if (mk_node_names_each_twins(&checking->view->node_names, own, see_twins, checking, &err) <
	    0)
		check_found(checking, "encryption", "free some memory", "%s", mk_error_text(&err));
}

/* Setting encryption: which nodes get packets in the clear, or with WireGuardOnly none? */
void check_encryption(struct mk_checking *checking)
{
	bool is_only = strcmp(checking->record.encryption, "WireGuardOnly") == 0;
	cleanup_free struct mk_cli_node *nodes = NULL;
	size_t count = 0, clear = 0;
	struct mk_error err = { 0 };

	check_twins(checking);
	if (!check_encrypts(checking))
		return;
	if (mk_cli_nodes_read(checking->view, &nodes, &count, &err) < 0)
		return; /* check "nodes" reports it */
	for (size_t i = 0; i < count; i++) {
		const char *remedy = clear_remedy(checking, &nodes[i], is_only);

		clear += remedy != NULL;
		if (remedy && is_only)
			check_found(checking, "encryption", remedy, "node '%s' gets no packets",
				    nodes[i].name ?: "?");
		else if (remedy)
			check_note(checking, "encryption", remedy,
				   "packets to node '%s' are not encrypted", nodes[i].name ?: "?");
	}
	if (!clear)
		check_found(checking, "encryption", NULL,
			    "packets to all %zu other nodes are encrypted", count);
}

/* The agent reports the same: src/agent/pods.c. */
static int see_outside(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	struct mk_checking *checking = ctx;
	const struct mk_cidr own = check_pod_cidr(checking->view);
	const char *namespace_ = owner->namespace_ ?: "";
	char text[MK_IP_STRLEN], range[MK_CIDR_STRLEN];

	if (ip->family != checking->view->family)
		ip = &owner->second;
	if (ip->family != checking->view->family || mk_cidr_contains(&own, ip) ||
	    access(owner->netns, F_OK) < 0)
		return 0;
	check_found(
		checking, "pods",
		"delete the pod, so that it is created again with an address of the node's range",
		"%s%s%s has the address %s outside the node's pod CIDR %s: it has no %s network",
		namespace_, *namespace_ ? "/" : "", *namespace_ ? owner->name : owner->container_id,
		mk_ip_format(ip, text), mk_cidr_format(&own, range), mk_family_name(ip->family));
	return 0;
}

void check_pods(struct mk_checking *checking)
{
	unsigned int before = checking->wrong;
	struct mk_error err = { 0 };

	for (size_t i = 0; i < checking->view->pod_count; i++) {
		const struct mk_view_pod *pod = &checking->view->pods[i];
		const struct mk_ip ip = mk_ip_from_addr(&pod->addr);
		char text[MK_IP_STRLEN];

		mk_ip_format(&ip, text);
		if (!pod->link.ifindex || !(pod->link.flags & IFF_UP))
			check_found(checking, "pods", "delete the pod, so that it is created again",
				    "%s (%s) has no interface that is up", mk_view_pod_name(pod),
				    text);
		else if (!pod->owner)
			check_found(
				checking, "pods",
				"delete the pod, so that it is created again: what it loses cannot be restored",
				"%s (%s) has no owner in the address directory",
				mk_view_pod_name(pod), text);
	}
	if (mk_ipam_peek_each(checking->view->state_dir, see_outside, checking, &err) < 0)
		check_found(checking, "pods", "run as root", "%s", mk_error_text(&err));
	if (checking->wrong == before)
		check_found(checking, "pods", NULL, "%zu, each with interface and address",
			    checking->view->pod_count);
}

/* Name the pods that keep an address of a family that clusterCidr had before. */
void check_former_family(struct mk_checking *checking)
{
	const struct mk_view *view = checking->view;
	char text[MK_IP_STRLEN];

	if (check_missing_family(checking))
		return; /* it comes back, with the addresses */
	for (size_t i = 0; i < view->pod_count; i++) {
		const struct mk_view_pod *pod = &view->pods[i];
		const struct mk_ip ip = mk_ip_from_addr(&pod->addr);
		const struct mk_ip second =
			mk_ipam_peek_second(view->state_dir, &ip, pod->owner ?: "");

		if (second.family != AF_UNSPEC && !check_view(checking, second.family))
			check_note(
				checking, "pods",
				"delete the pod, so that it is created again, or put the range back into clusterCidr",
				"%s has the address %s, but clusterCidr has no %s range any more: nothing reaches it there",
				mk_view_pod_name(pod), mk_ip_format(&second, text),
				mk_family_name(second.family));
	}
}

/* ---- devices and kernel settings ------------------------------------------------------------- */

sa_family_t check_underlay(const struct mk_view *view)
{
	struct mk_link overlay;
	int ret = mk_nl_link_get_index(view->nl, (int)view->links.set.overlay_ifindex, &overlay,
				       NULL);

	if (ret < 0 || overlay.vxlan_local.family == AF_UNSPEC)
		return view->family;
	return overlay.vxlan_local.family;
}

bool check_carries_no_ipv4(const struct mk_view *view)
{
	return is_ipv6(view) && check_underlay(view) == AF_INET6;
}

/* A VXLAN device without addresses is as the overlay's. Returns true if it is. @what names it if
 * it is gone. */
static bool check_quiet_device(struct mk_checking *checking, uint32_t ifindex, const char *what)
{
	const struct mk_datapath_links *links = &checking->view->links;
	struct mk_link link;

	if (mk_nl_link_get_index(checking->view->nl, (int)ifindex, &link, NULL) < 0)
		check_found(checking, "mtu", CHECK_REPAIRED, "%s is gone", what);
	else if (!(link.flags & IFF_UP))
		check_found(checking, "mtu", CHECK_REPAIRED, "%s is down", link.name);
	else if (link.mtu_bytes != links->set.overlay_mtu_bytes)
		check_found(checking, "mtu", CHECK_REPAIRED, "%s has %u, the programs know %u",
			    link.name, link.mtu_bytes, links->set.overlay_mtu_bytes);
	else
		return true;
	return false;
}

static bool check_quiet_devices(struct mk_checking *checking)
{
	const struct mk_datapath_links *links = &checking->view->links;
	bool right = check_quiet_device(checking, links->sfc_ifindex,
					"the overlay device for chains (sfcIfaceName)");

	if (links->cluster_ifindex)
		right &= check_quiet_device(checking, links->cluster_ifindex,
					    "the device to other clusters (peerIfaceName)");
	return right;
}

void check_mtu(struct mk_checking *checking)
{
	const struct mk_link_set *set = &checking->view->links.set;
	const sa_family_t family = check_underlay(checking->view);
	const bool encrypts = check_encrypts(checking);
	const uint32_t more_bytes = mk_overlay_overhead_bytes(family, encrypts);
	struct mk_link overlay, uplink;

	if (mk_nl_link_get_index(checking->view->nl, (int)set->overlay_ifindex, &overlay, NULL) <
		    0 ||
	    mk_nl_link_get_index(checking->view->nl, (int)set->first.ifindex, &uplink, NULL) < 0)
		check_found(checking, "mtu", CHECK_REPAIRED,
			    "the overlay device or its uplink is gone");
	else if (!(overlay.flags & IFF_UP) || !(uplink.flags & IFF_UP))
		check_found(checking, "mtu", "ip link set DEVICE up", "%s or %s is down",
			    overlay.name, uplink.name);
	else if (check_view(checking, AF_INET6) &&
		 uplink.mtu_bytes < MK_IPV6_MTU_MIN_BYTES + more_bytes)
		check_found(checking, "mtu", "raise the uplink's MTU, on all nodes",
			    "%s has %u, but pods of IPv6 need an uplink of at least %u",
			    uplink.name, uplink.mtu_bytes, MK_IPV6_MTU_MIN_BYTES + more_bytes);
	else if (overlay.mtu_bytes != set->overlay_mtu_bytes)
		check_found(checking, "mtu", CHECK_REPAIRED, "%s has %u, the programs know %u",
			    overlay.name, overlay.mtu_bytes, set->overlay_mtu_bytes);
	else if (overlay.mtu_bytes + more_bytes > uplink.mtu_bytes)
		check_found(
			checking, "mtu",
			"set `mtu` to the uplink's less 50 (70 over IPv6; with encryption 60 more), or raise the uplink's",
			"%s has %u, but %s has only %u: too little with VXLAN's %u%s", overlay.name,
			overlay.mtu_bytes, uplink.name, uplink.mtu_bytes,
			more_bytes - (encrypts ? MK_WG_OVERHEAD_BYTES : 0),
			encrypts ? " and WireGuard's 60" : "");
	else if (check_quiet_devices(checking))
		check_found(checking, "mtu", NULL, "%s %u, %s %u", overlay.name, overlay.mtu_bytes,
			    uplink.name, uplink.mtu_bytes);
}

static void check_setting(struct mk_checking *checking, const char *path, const char *wanted)
{
	cleanup_free char *text = NULL;

	if (mk_file_read(path, 4096, &text, NULL, NULL) == 0)
		text[strcspn(text, "\n")] = '\0';
	if (!text || strcmp(text, wanted) != 0)
		check_found(
			checking, "settings",
			"restart the agent, which sets it; look in /etc/sysctl.d for what else sets it",
			"%s is %s, expected %s", path, text ? text : "not there", wanted);
}

static void check_reserved_ports(struct mk_checking *checking)
{
	const char *wanted = checking->record.reserved_ports;
	cleanup_free char *list = NULL, *more = malloc(65536);

	if (!more || mk_file_read("/proc/sys/net/ipv4/ip_local_reserved_ports", 65536, &list, NULL,
				  NULL) < 0)
		return;
	if (mk_reserved_ports_add(list, wanted, more, 65536, NULL) != 1)
		check_found(
			checking, "settings",
			"restart the agent, which sets it: otherwise the host's own connections may get a NodePort's number, or collide with masqueraded ones",
			"net.ipv4.ip_local_reserved_ports lacks some of %s", wanted);
}

/* ---- settings of IPv6 ------------------------------------------------------------------------ */

static bool setting_is(const char *device, const char *name, const char *value)
{
	cleanup_free char *text = NULL;
	char path[128];

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/%s", device, name);
	if (mk_file_read(path, 64, &text, NULL, NULL) < 0)
		return false;
	text[strcspn(text, "\n")] = '\0';
	return strcmp(text, value) == 0;
}

static void check_enabled(struct mk_checking *checking, const char *device)
{
	if (setting_is(device, "disable_ipv6", "1"))
		check_found(checking, "settings",
			    "sysctl -w net.ipv6.conf.DEVICE.disable_ipv6=0; look in /etc/sysctl.d",
			    "IPv6 is off: net.ipv6.conf.%s.disable_ipv6 is 1", device);
}

struct advertised {
	int ifindex;
	bool found;
};

static int see_default(void *ctx, const struct mk_nl_route *route)
{
	struct advertised *advertised = ctx;

	advertised->found |= route->ifindex == advertised->ifindex && !route->dst.prefix_bits &&
			     route->protocol == RTPROT_RA;
	return 0;
}

/* With forwarding on, the kernel takes no more router advertisements if accept_ra is 1. */
static void check_advertised(struct mk_checking *checking, uint32_t ifindex, const char *device)
{
	struct advertised advertised = { .ifindex = (int)ifindex };

	if (!setting_is(device, "forwarding", "1") || !setting_is(device, "accept_ra", "1") ||
	    mk_nl_each_route(checking->view->nl, AF_INET6, see_default, &advertised, NULL) < 0 ||
	    !advertised.found)
		return;
	check_found(
		checking, "settings",
		"sysctl -w net.ipv6.conf.DEVICE.accept_ra=2, and the same in /etc/sysctl.d",
		"%s has its default route from router advertisements, and forwards with accept_ra 1: the route will expire",
		device);
}

static void check_settings_ipv6(struct mk_checking *checking)
{
	const struct mk_datapath_links *links = &checking->view->links;

	if (access("/proc/sys/net/ipv6", F_OK) < 0)
		check_found(checking, "settings", "boot without ipv6.disable=1",
			    "this kernel has no IPv6");
	check_enabled(checking, "all");
	for (size_t i = 0; i < links->uplink_count; i++) {
		char name[IF_NAMESIZE];

		if (!if_indextoname(links->uplinks[i].ifindex, name))
			continue;
		check_enabled(checking, name);
		check_advertised(checking, links->uplinks[i].ifindex, name);
	}
}

/* IPv6 has no counterpart of these settings. */
static void check_settings_ipv4(struct mk_checking *checking)
{
	check_setting(checking, "/proc/sys/net/ipv4/ip_forward", "1");
	check_setting(checking, "/proc/sys/net/ipv4/conf/lo/accept_local", "1");
}

void check_settings(struct mk_checking *checking)
{
	unsigned int before = checking->wrong;

	(is_ipv6(checking->view) ? check_settings_ipv6 : check_settings_ipv4)(checking);
	if (checking->view == checking->views->list) /* once: both families have them */
		check_reserved_ports(checking);
	if (checking->wrong == before)
		check_found(checking, "settings", NULL,
			    "all kernel settings have the required values");
}

// SPDX-License-Identifier: Apache-2.0
/* `monokube check`: do pods reach the networks that this host has routes to? */
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/check/check.h"

#define NAMES_BYTES 160

struct looking {
	const struct mk_datapath_links *links;
	char others[NAMES_BYTES]; /* devices that carry no programs */
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

static int see_way(void *ctx, const struct mk_nl_route *way)
{
	struct looking *looking = ctx;
	size_t used = strlen(looking->others);
	char name[IF_NAMESIZE];

	if (way->type != RTN_UNICAST || way->protocol == MK_RTPROT)
		return 0;
	looking->encapsulated += way->encapsulated;
	if (carries_programs(looking->links, way->ifindex) ||
	    !if_indextoname((unsigned int)way->ifindex, name) || !is_news(looking, way->ifindex))
		return 0;
	snprintf(looking->others + used, sizeof(looking->others) - used, "%s%s", used ? ", " : "",
		 name);
	return 0;
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

void check_routing(struct mk_checking *checking)
{
	struct looking looking = { .links = &checking->view->links };
	char names[NAMES_BYTES];
	struct mk_error err = { 0 };

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
	else
		check_found(checking, "routing", NULL, "pods leave by %s%s", names,
			    looking.links->set.ask_host ? ", as this host's routing says" : "");
}

// SPDX-License-Identifier: Apache-2.0
/* `monokube check`: what on the host may be in the way. Some of it is a fault only together with
 * what this program cannot see. That is a note, and leaves the node healthy. */
/* clang-format off: libc's headers before the kernel's, which then leave out what these have */
#include <net/if.h>
#include <netinet/in.h>
#include <dirent.h>
#include <linux/ethtool.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <linux/sockios.h>
/* clang-format on */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cli/check/check.h"
#include "cluster/api/clock.h"
#include "host/sysctl.h"

/* ---- iptables-legacy, ip6tables-legacy ------------------------------------------------------- */

/* Both families have the same requests and the same form, but for the entry's header. */
static const struct legacy {
	int family, level;
	const char *names; /* file with the tables in use */
	size_t target_at; /* of an entry's target_offset */
	const char *kube_proxy, *input, *forward;
} legacies[] = {
	{ AF_INET, IPPROTO_IP, "/proc/net/ip_tables_names",
	  offsetof(struct ipt_entry, target_offset), "iptables-legacy chain KUBE-SERVICES",
	  "iptables-legacy, chain INPUT", "iptables-legacy, chain FORWARD" },
	{ AF_INET6, IPPROTO_IPV6, "/proc/net/ip6_tables_names",
	  offsetof(struct ip6t_entry, target_offset), "ip6tables-legacy chain KUBE-SERVICES",
	  "ip6tables-legacy, chain INPUT", "ip6tables-legacy, chain FORWARD" },
};
_Static_assert(IPT_SO_GET_INFO == IP6T_SO_GET_INFO, "one request");
_Static_assert(IPT_SO_GET_ENTRIES == IP6T_SO_GET_ENTRIES, "one request");
_Static_assert(sizeof(struct ipt_getinfo) == sizeof(struct ip6t_getinfo), "one form");

static bool is_in_use(const struct legacy *legacy, const char *table)
{
	cleanup_free char *names = NULL;
	const char *at;

	if (mk_file_read(legacy->names, 4096, &names, NULL, NULL) < 0)
		return false;
	at = strstr(names, table);
	return at && (at == names || at[-1] == '\n') && at[strlen(table)] == '\n';
}

/* Read all rules of a table; the caller frees them. NULL: it is not in use. Reading an unused table
 * would load its module, so ask /proc first. */
static struct ipt_get_entries *legacy_table(const struct legacy *legacy, const char *name,
					    struct ipt_getinfo *info)
{
	cleanup_close int fd = -1;
	struct ipt_get_entries *entries = NULL;
	socklen_t size = sizeof(*info);

	if (!is_in_use(legacy, name))
		return NULL;
	fd = socket(legacy->family, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
	memset(info, 0, sizeof(*info));
	snprintf(info->name, sizeof(info->name), "%s", name);
	if (fd < 0 || getsockopt(fd, legacy->level, IPT_SO_GET_INFO, info, &size) < 0)
		return NULL;
	size = (socklen_t)sizeof(*entries) + info->size;
	entries = calloc(1, size);
	if (!entries)
		return NULL;
	snprintf(entries->name, sizeof(entries->name), "%s", name);
	entries->size = info->size;
	if (getsockopt(fd, legacy->level, IPT_SO_GET_ENTRIES, entries, &size) < 0)
		free(mk_steal_ptr(entries));
	return entries;
}

/* Does the built-in chain at @hook drop by policy what no rule accepts? */
static bool drops_the_rest(const struct legacy *legacy, const struct ipt_getinfo *info,
			   const struct ipt_get_entries *entries, int hook)
{
	const char *blob = (const char *)entries->entrytable;
	struct xt_standard_target target;
	size_t at = info->underflow[hook];
	uint16_t offset;

	if (!(info->valid_hooks & 1U << hook) ||
	    at + legacy->target_at + sizeof(offset) > info->size)
		return false;
	memcpy(&offset, blob + at + legacy->target_at, sizeof(offset));
	at += offset;
	if (at + sizeof(target) > info->size)
		return false;
	memcpy(&target, blob + at, sizeof(target));
	return target.verdict == -NF_DROP - 1;
}

const char *check_legacy_kube_proxy(void)
{
	static const char *const tables[] = { "nat", "filter" };
	static const char chain[] = "KUBE-SERVICES"; /* a chain's first entry holds its name */
	struct ipt_getinfo info;

	for (size_t i = 0; i < MK_ARRAY_SIZE(legacies) * MK_ARRAY_SIZE(tables); i++) {
		const struct legacy *legacy = &legacies[i / MK_ARRAY_SIZE(tables)];
		cleanup_free struct ipt_get_entries *entries =
			legacy_table(legacy, tables[i % MK_ARRAY_SIZE(tables)], &info);

		if (entries && memmem(entries->entrytable, info.size, chain, sizeof(chain)))
			return legacy->kube_proxy;
	}
	return NULL;
}

/* The name of a chain of @blob that begins with @begin; NULL: there is none. It ends within the
 * entry's name of a chain, or a comment's. */
static const char *find_chain(const char *blob, size_t size, const char *begin)
{
	const char *at = memmem(blob, size, begin, strlen(begin));

	return at && memchr(at, '\0', size - (size_t)(at - blob)) ? at : NULL;
}

bool check_legacy_engine(char chain[CHECK_CHAIN_BYTES])
{
	struct ipt_getinfo info;

	for (size_t i = 0; i < MK_ARRAY_SIZE(legacies); i++) {
		cleanup_free struct ipt_get_entries *entries =
			legacy_table(&legacies[i], "filter", &info);

		for (const char *const *begin = check_engine_chains; entries && *begin; begin++) {
			const void *blob = entries->entrytable;
			const char *name = find_chain(blob, info.size, *begin);

			if (!name)
				continue;
			snprintf(chain, CHECK_CHAIN_BYTES, "%s-legacy, chain %.40s",
				 legacies[i].family == AF_INET ? "iptables" : "ip6tables", name);
			return true;
		}
	}
	return false;
}

const char *check_legacy_firewall(void)
{
	struct ipt_getinfo info;

	for (size_t i = 0; i < MK_ARRAY_SIZE(legacies); i++) {
		const struct legacy *legacy = &legacies[i];
		cleanup_free struct ipt_get_entries *entries =
			legacy_table(legacy, "filter", &info);

		if (entries && drops_the_rest(legacy, &info, entries, NF_INET_LOCAL_IN))
			return legacy->input;
		if (entries && drops_the_rest(legacy, &info, entries, NF_INET_FORWARD))
			return legacy->forward;
	}
	return NULL;
}

/* ---- rp_filter ------------------------------------------------------------------------------- */

/* Returns how many packets rp_filter dropped since boot. Two lines of the file begin with the same
 * word: the first has names ("TcpExt: SyncookiesSent ..."), the second values. */
static unsigned long count_filtered(void)
{
	cleanup_free char *text = NULL;
	char *line, *names, *values, *rest, *name_rest, *value_rest;

	if (mk_file_read("/proc/net/netstat", 65536, &text, NULL, NULL) < 0)
		return 0;
	line = strtok_r(text, "\n", &rest);
	names = line ? strtok_r(line, " ", &name_rest) : NULL;
	line = names ? strtok_r(NULL, "\n", &rest) : NULL;
	values = line ? strtok_r(line, " ", &value_rest) : NULL;
	while (names && values && strcmp(names, "IPReversePathFilter") != 0) {
		names = strtok_r(NULL, " ", &name_rest);
		values = strtok_r(NULL, " ", &value_rest);
	}
	return names && values ? strtoul(values, NULL, 10) : 0;
}

/* List each uplink's setting in @seen. Returns whether one of several uplinks is strict. Side
 * networks do not count: no other way leads to the hosts behind them. */
static bool look_at_filters(const struct mk_datapath_links *links, char *seen, size_t size)
{
	bool strict = false;
	size_t used = 0, outside = 0;

	*seen = '\0';
	for (size_t i = 0; i < links->uplink_count; i++) {
		char name[IF_NAMESIZE];
		int mode;

		if (links->uplinks[i].flags & MK_UPLINK_SIDE ||
		    !if_indextoname(links->uplinks[i].ifindex, name))
			continue;
		outside++;
		mode = mk_reverse_path_filter(name, NULL);
		strict |= mode == 1;
		used += (size_t)snprintf(seen + used, size - used, "%s%s %d", used ? ", " : "",
					 name, mode);
	}
	return strict && outside > 1;
}

/* rp_filter does not see packets of pods and Services: the programs on the hooks run before it. It
 * drops a packet for the host itself that comes by one uplink if the way back leads by another. */
void check_path_filter(struct mk_checking *checking)
{
	const struct mk_datapath_links *links = &checking->view->links;
	char seen[MK_UPLINKS_MAX * (IF_NAMESIZE + 16)];
	bool strict = look_at_filters(links, seen, sizeof(seen));
	unsigned long dropped = count_filtered();

	if (checking->view->loaded && check_carries_no_ipv4(checking->view))
		return;
	if (links->uplink_count == 0) /* no datapath yet */
		snprintf(seen, sizeof(seen), "all %d", mk_reverse_path_filter("all", NULL));
	if (strict)
		check_note(
			checking, "rp_filter",
			"`sysctl -w net.ipv4.conf.all.rp_filter=2`, and the same in /etc/sysctl.d, unless each request comes by the uplink that leads back",
			"strict (%s): a packet for this host that comes by one uplink is dropped if the way back leads by another: VXLAN, and requests for host-network endpoints that keep the client's address; %lu packets so far",
			seen, dropped);
	else
		check_found(checking, "rp_filter", NULL,
			    "not in the way (%s); packets of others that it dropped: %lu", seen,
			    dropped);
}

/* ---- macvlan --------------------------------------------------------------------------------- */

static bool is_uplink(const struct mk_datapath_links *links, int ifindex)
{
	for (size_t i = 0; i < links->uplink_count; i++)
		if ((int)links->uplinks[i].ifindex == ifindex)
			return true;
	return false;
}

/* Is the uplink a macvlan device whose parent answers ARP requests for it, and is no uplink? */
static bool parent_answers(const struct mk_checking *checking, int ifindex, struct mk_link *uplink,
			   struct mk_link *parent)
{
	struct mk_nl *nl = checking->view->nl;

	return mk_nl_link_get_index(nl, ifindex, uplink, NULL) == 0 &&
	       strcmp(uplink->kind, "macvlan") == 0 && uplink->peer_netns < 0 &&
	       !is_uplink(&checking->view->links, uplink->peer_ifindex) &&
	       mk_nl_link_get_index(nl, uplink->peer_ifindex, parent, NULL) == 0 &&
	       parent->flags & IFF_UP && mk_arp_ignore(parent->name, NULL) == 0;
}

/* Both devices get an ARP request, and the host answers by each with the device's MAC address. */
void check_macvlan(struct mk_checking *checking)
{
	const struct mk_datapath_links *links = &checking->view->links;
	struct mk_link uplink, parent;
	char remedy[128];

	if (check_carries_no_ipv4(checking->view))
		return;
	for (size_t i = 0; i < links->uplink_count; i++) {
		if (!parent_answers(checking, (int)links->uplinks[i].ifindex, &uplink, &parent))
			continue;
		snprintf(remedy, sizeof(remedy),
			 "`sysctl -w net.ipv4.conf.%s.arp_ignore=1`, and the same in /etc/sysctl.d",
			 parent.name);
		check_note(
			checking, "macvlan", remedy,
			"'%s' answers ARP requests for the addresses of '%s': packets to NodePorts and from other nodes may come by '%s', which carries no programs",
			parent.name, uplink.name, parent.name);
	}
}

/* ---- systemd-networkd ------------------------------------------------------------------------ */

static bool says_no(const char *path)
{
	cleanup_free char *text = NULL;
	char *at;

	if (mk_file_read(path, 65536, &text, NULL, NULL) < 0)
		return false;
	for (at = text; (at = strstr(at, "ManageForeignRoutes=")); at++) {
		const char *value = at + strlen("ManageForeignRoutes=");

		if ((at == text || at[-1] == '\n') &&
		    (*value == 'n' || *value == '0' || strncmp(value, "false", 5) == 0))
			return true;
	}
	return false;
}

static bool any_says_no(const char *folder)
{
	cleanup_closedir DIR *dir = opendir(folder);
	char path[PATH_MAX];

	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (strstr(entry->d_name, ".conf") &&
		    snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) < PATH_MAX &&
		    says_no(path))
			return true;
	return false;
}

void check_networkd(struct mk_checking *checking)
{
	if (access("/run/systemd/netif/state", F_OK) < 0)
		return;
	if (says_no("/etc/systemd/networkd.conf") || any_says_no("/etc/systemd/networkd.conf.d") ||
	    any_says_no("/run/systemd/networkd.conf.d") ||
	    any_says_no("/usr/lib/systemd/networkd.conf.d"))
		check_found(checking, "networkd", NULL, "leaves routes of others alone");
	else
		check_note(
			checking, "networkd",
			"ManageForeignRoutes=no and ManageForeignRoutingPolicyRules=no in [Network] of /etc/systemd/networkd.conf, and restart it",
			"systemd-networkd deletes routes of others when it starts: the agent puts them back within seconds");
}

/* ---- checksums ------------------------------------------------------------------------------- */

#define CSUM_FEATURE "tx-udp_tnl-csum-segmentation"

static int ethtool(const char *device, void *data)
{
	cleanup_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { .ifr_data = data };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", device);
	return fd < 0 ? -1 : ioctl(fd, SIOCETHTOOL, &request);
}

/* Returns the number of the feature, found by its name; -1: the kernel has none. */
static int feature_number(const char *device, uint32_t *count)
{
	cleanup_free struct ethtool_sset_info *set = calloc(1, sizeof(*set) + sizeof(set->data[0]));
	cleanup_free struct ethtool_gstrings *strings = NULL;

	if (!set)
		return -1;
	set->cmd = ETHTOOL_GSSET_INFO;
	set->sset_mask = 1ULL << ETH_SS_FEATURES;
	if (ethtool(device, set) < 0 || !set->sset_mask)
		return -1;
	*count = set->data[0];
	strings = calloc(1, sizeof(*strings) + (size_t)*count * ETH_GSTRING_LEN);
	if (!strings)
		return -1;
	*strings = (struct ethtool_gstrings){ .cmd = ETHTOOL_GSTRINGS,
					      .string_set = ETH_SS_FEATURES,
					      .len = *count };
	if (ethtool(device, strings) < 0)
		return -1;
	for (uint32_t i = 0; i < *count; i++)
		if (strncmp((char *)strings->data + (size_t)i * ETH_GSTRING_LEN, CSUM_FEATURE,
			    ETH_GSTRING_LEN) == 0)
			return (int)i;
	return -1;
}

static bool offloads_inner_checksum(const char *device)
{
	cleanup_free struct ethtool_gfeatures *features = NULL;
	uint32_t count = 0;
	int number = feature_number(device, &count);
	size_t blocks = (count + 31) / 32;

	if (number < 0)
		return false;
	features = calloc(1, sizeof(*features) + blocks * sizeof(features->features[0]));
	if (!features)
		return false;
	features->cmd = ETHTOOL_GFEATURES;
	features->size = (uint32_t)blocks;
	return ethtool(device, features) == 0 &&
	       features->features[number / 32].active & 1U << number % 32;
}

/* Virtual devices pass checksums on and compute none. Only a card's driver may compute wrong
 * ones. */
void check_offload(struct mk_checking *checking)
{
	char name[IF_NAMESIZE] = "?", path[64 + IF_NAMESIZE];

	if (!if_indextoname(checking->view->links.set.first.ifindex, name))
		return;
	snprintf(path, sizeof(path), "/sys/class/net/%s/device", name);
	if (access(path, F_OK) == 0 && offloads_inner_checksum(name))
		check_note(
			checking, "offload",
			"if large transfers between nodes stall while pings pass: `ethtool -K UPLINK tx-udp_tnl-segmentation off " CSUM_FEATURE
			" off`",
			"%s computes the checksums inside of VXLAN (" CSUM_FEATURE
			"), which some cards get wrong",
			name);
	else
		check_found(checking, "offload", NULL,
			    "%s leaves the checksums inside of VXLAN to the kernel", name);
}

/* ---- clock ----------------------------------------------------------------------------------- */

/* Read what the agent has stored: nothing is asked of the network here. */
static void check_api_clock(struct mk_checking *checking)
{
	struct mk_own_clock now = mk_own_clock_now();
	struct mk_api_clock clock;
	struct mk_error err = { 0 };
	long long ahead_s;

	if (mk_api_clock_read(checking->options->state_dir, &clock, &err) < 0) {
		check_found(checking, "clock", "run as root", "%s", mk_error_text(&err));
		return;
	}
	ahead_s = mk_api_clock_ahead_ms(&clock, &now) / 1000;
	if (!clock.known)
		check_found(checking, "clock", NULL,
			    "no API server has told the agent its time: not compared");
	else if (mk_api_clock_is_off(&clock, &now))
		check_found(
			checking, "clock",
			"run chrony or systemd-timesyncd on both: certificates and tokens may be refused, and times in logs mislead",
			"this node's is %lld s %s the API server's",
			ahead_s < 0 ? -ahead_s : ahead_s, ahead_s < 0 ? "ahead of" : "behind");
	else
		check_found(checking, "clock", NULL, "within %d s of the API server's",
			    MK_API_CLOCK_LIMIT_MS / 1000);
}

void check_clock(struct mk_checking *checking)
{
	struct timex state = { 0 };
	int ret = adjtimex(&state);

	check_api_clock(checking);
	if (ret < 0)
		return;
	if (ret == TIME_ERROR || state.status & STA_UNSYNC)
		check_note(
			checking, "clock",
			"run chrony or systemd-timesyncd: a clock that is off makes certificates and tokens invalid, and times in logs misleading",
			"the system clock is not synchronised");
	else
		check_found(checking, "clock", NULL, "synchronised, off by at most %ld ms",
			    state.maxerror / 1000);
}

// SPDX-License-Identifier: Apache-2.0
/* Checks of what other software does on the node: CNI, kube-proxy, policy engines, firewalls, tc
 * programs. */
#include <dirent.h>
#include <libgen.h>
#include <bpf/bpf.h>
#include <netinet/in.h>
#include <linux/netfilter.h>
#include <net/if.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/netlink/nftables.h"
#include "cli/check/check.h"
#include "datapath/maps/hook.h"

/* ---- CNI ------------------------------------------------------------------------------------- */

static bool is_conf(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && (strcmp(dot, ".conf") == 0 || strcmp(dot, ".conflist") == 0 ||
		       strcmp(dot, ".json") == 0);
}

/* Runtimes use the alphabetically first one. */
static void check_first_conf(struct mk_checking *checking, const char *path)
{
	char folder[PATH_MAX], file[PATH_MAX];
	cleanup_closedir DIR *dir = NULL;
	const char *own;

	snprintf(folder, sizeof(folder), "%s", path);
	snprintf(file, sizeof(file), "%s", path);
	own = basename(file);
	dir = opendir(dirname(folder));
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (is_conf(entry->d_name) && strcmp(entry->d_name, own) < 0)
			check_found(
				checking, "cni",
				"remove it with the network that it belongs to, or rename it; delete the pods that it gave addresses, so that they are created again",
				"%s/%s sorts before %s: the runtime takes it", folder,
				entry->d_name, own);
}

void check_cni(struct mk_checking *checking)
{
	const struct mk_record *record = &checking->record;
	unsigned int before = checking->wrong;
	char plugin[PATH_MAX + 32];

	snprintf(plugin, sizeof(plugin), "%s/" MK_PLUGIN_NAME, record->cni_bin_dir);
	if (access(plugin, X_OK) < 0)
		check_found(checking, "cni", "restart the agent, which installs it",
			    "no plugin '%s'", plugin);
	if (access(record->cni_conf_path, R_OK) < 0)
		check_found(checking, "cni", "restart the agent, which writes it",
			    "no configuration '%s'", record->cni_conf_path);
	check_first_conf(checking, record->cni_conf_path);
	if (checking->wrong == before)
		check_found(checking, "cni", NULL, "%s and %s", record->cni_conf_path, plugin);
}

/* ---- kube-proxy ------------------------------------------------------------------------------ */

struct chains {
	const char *kube_proxy; /* NULL: none */
	char engine
		[CHECK_CHAIN_BYTES]; /* a chain of another engine of network policies; "": none */
	char drops[160]; /* a base chain that drops by policy or is firewalld's; "": none */
};

/* Chains that pods' packets would meet with kube-router, Calico, Cilium, Antrea, and
 * kube-network-policies. */
const char *const check_engine_chains[] = { "KUBE-NWPLCY-", "KUBE-ROUTER-", "cali-",
					    "CILIUM_",	    "ANTREA-",	    NULL };

static bool is_of_engine(const struct mk_nft_chain *chain)
{
	for (const char *const *begin = check_engine_chains; *begin; begin++)
		if (strncmp(chain->name, *begin, strlen(*begin)) == 0)
			return true;
	return strcmp(chain->table, "kube-network-policies") == 0 ||
	       strcmp(chain->table, "calico") == 0;
}

/* An output chain that drops by policy drops only the host's own packets. Chains of firewalld
 * accept by policy, and their last rule rejects. */
static bool may_drop(const struct mk_nft_chain *chain)
{
	if (chain->hook == NF_INET_LOCAL_IN && strcmp(chain->table, "firewalld") == 0)
		return strcmp(chain->name, "filter_INPUT") == 0;
	return chain->policy == NF_DROP &&
	       (chain->hook == NF_INET_LOCAL_IN || chain->hook == NF_INET_FORWARD);
}

/* The chain of input is the one to name: more of the cluster's packets pass it. */
static int see_chain(void *ctx, const struct mk_nft_chain *chain)
{
	const bool is_ipv6 = chain->family == NFPROTO_IPV6;
	struct chains *chains = ctx;

	if (strcmp(chain->table, "kube-proxy") == 0)
		chains->kube_proxy =
			is_ipv6 ? "nftables table ip6 kube-proxy" : "nftables table ip kube-proxy";
	else if (strcmp(chain->name, "KUBE-SERVICES") == 0)
		chains->kube_proxy =
			is_ipv6 ? "ip6tables chain KUBE-SERVICES" : "iptables chain KUBE-SERVICES";
	if (is_of_engine(chain))
		snprintf(chains->engine, sizeof(chains->engine), "nftables, table %s, chain %s",
			 chain->table, chain->name);
	if (may_drop(chain) && (chain->hook == NF_INET_LOCAL_IN || !*chains->drops))
		snprintf(chains->drops, sizeof(chains->drops), "nftables, table %s, chain %s",
			 chain->table, chain->name);
	return 0;
}

/* A kernel without nftables has no chains. */
static void read_chains(struct chains *chains)
{
	*chains = (struct chains){ 0 };
	if (mk_nft_each_chain(see_chain, chains, NULL) < 0)
		*chains = (struct chains){ 0 };
}

void check_kube_proxy(struct mk_checking *checking)
{
	struct chains chains;
	const char *found;

	read_chains(&chains);
	found = chains.kube_proxy ?: check_legacy_kube_proxy();
	if (!found && if_nametoindex("kube-ipvs0"))
		found = "interface kube-ipvs0";
	if (found)
		check_found(
			checking, "kube-proxy",
			"kubectl -n kube-system delete daemonset,configmap kube-proxy, and here `kube-proxy --cleanup` or a reboot",
			"rules of kube-proxy exist: %s", found);
	else
		check_found(checking, "kube-proxy", NULL,
			    "none of its rules in nftables, iptables or ipvs");
}

void check_policy_engines(struct mk_checking *checking)
{
	struct chains chains;

	read_chains(&chains);
	if (*chains.engine || check_legacy_engine(chains.engine))
		check_note(checking, "policies",
			   "remove it with its rules, or set networkPolicy: off here",
			   "another program for network policies has rules: %s", chains.engine);
}

/* ---- firewalls ------------------------------------------------------------------------------- */

/* Pods' packets do not pass netfilter. But VXLAN packets, and pods' packets to the host, pass chain
 * input; what the host forwards for others passes chain forward. Whether a rule accepts them is not
 * judged here: check `path` and `monokube monitor` show whether they arrive. */
void check_firewall(struct mk_checking *checking)
{
	const char *legacy = check_legacy_firewall();
	struct chains chains;

	read_chains(&chains);
	if (legacy)
		snprintf(chains.drops, sizeof(chains.drops), "%s", legacy);
	if (*chains.drops)
		check_note(
			checking, "firewall",
			"add rules that accept UDP to the overlay's port (4789) from the nodes, TCP 10250 and 10256, and everything from mkhost0",
			"%s refuses what no rule accepts", chains.drops);
	else
		check_found(checking, "firewall", NULL,
			    "no chain of input or forward drops by policy");
}

/* ---- programs of others ---------------------------------------------------------------------- */

static int see_filter(void *ctx, const struct mk_nl_filter *filter)
{
	uint16_t *first = ctx;

	if (filter->priority && filter->priority < *first)
		*first = filter->priority;
	return 0;
}

/* Returns the priority of the first filter on the ingress, or MK_TC_PRIORITY. */
static unsigned int first_filter(struct mk_nl *nl, uint32_t ifindex)
{
	uint16_t first = MK_TC_PRIORITY;

	if (mk_nl_each_filter(nl, (int)ifindex, false, see_filter, &first, NULL) < 0)
		return MK_TC_PRIORITY;
	return first;
}

/* Attach types since Linux 6.6: such programs run before every filter. Headers of older systems
 * lack them, and an older kernel refuses the query. */
#define TCX_INGRESS 46
#define TCX_EGRESS  47

/* Returns the id of the first program, or 0. */
static uint32_t first_tcx(uint32_t ifindex, int type)
{
	uint32_t ids[64] = { 0 };
	LIBBPF_OPTS(bpf_prog_query_opts, query, .prog_ids = ids, .prog_cnt = MK_ARRAY_SIZE(ids));

	return bpf_prog_query_opts((int)ifindex, (enum bpf_attach_type)type, &query) == 0 ? ids[0]
											  : 0;
}

static void check_tcx(struct mk_checking *checking, uint32_t ifindex, const char *name)
{
	static const struct {
		int type;
		const char *name;
	} hooks[] = { { TCX_INGRESS, "ingress" }, { TCX_EGRESS, "egress" } };

	for (size_t i = 0; i < MK_ARRAY_SIZE(hooks); i++) {
		uint32_t id = first_tcx(ifindex, hooks[i].type);

		if (id)
			check_found(
				checking, "programs",
				"`bpftool net show dev DEVICE` and `bpftool prog show id ID` show its owner; remove it together with its owner",
				"a tcx program of another owner (id %u) runs before ours on the %s of %s",
				id, hooks[i].name, name);
	}
}

void check_foreign_programs(struct mk_checking *checking)
{
	const struct mk_datapath_links *links = &checking->view->links;
	unsigned int before = checking->wrong;

	for (size_t i = 0; i < links->uplink_count; i++) {
		char name[IF_NAMESIZE] = "?";
		unsigned int first = first_filter(checking->view->nl, links->uplinks[i].ifindex);

		if_indextoname(links->uplinks[i].ifindex, name);
		check_tcx(checking, links->uplinks[i].ifindex, name);
		if (first < MK_TC_PRIORITY)
			check_found(
				checking, "programs",
				"`tc filter show dev DEVICE ingress` shows its owner; remove it together with its owner, or give it a priority after 77",
				"a tc filter of another owner (priority %u) runs before ours on the ingress of %s",
				first, name);
	}
	if (checking->wrong == before)
		check_found(checking, "programs", NULL,
			    "no tc filter or tcx program of others before ours on the uplinks");
}

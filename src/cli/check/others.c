// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <libgen.h>
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nf_tables.h>
#include <net/if.h>
#include <netlink/netlink.h>
#include <netlink/msg.h>
#include <linux/rtnetlink.h>
#include <linux/pkt_sched.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
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
				"remove it with the network that it belongs to, or rename it; "
				"delete the pods that it gave addresses, so that they are created "
				"again",
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

static const char *attr_text(struct nlattr **attrs, int type)
{
	return attrs[type] ? nla_get_string(attrs[type]) : "";
}

struct chains {
	const char *kube_proxy; /* NULL: none */
	char drops[160]; /* a base chain that drops by policy; "": none */
};

/* Look only at chains of the hooks input and forward: an output chain drops the host's own
 * packets. */
static void see_policy(struct nlattr **attrs, struct chains *chains)
{
	struct nlattr *hook[NFTA_HOOK_MAX + 1];
	uint32_t number;

	if (!attrs[NFTA_CHAIN_HOOK] || !attrs[NFTA_CHAIN_POLICY] ||
	    ntohl(nla_get_u32(attrs[NFTA_CHAIN_POLICY])) != NF_DROP ||
	    nla_parse_nested(hook, NFTA_HOOK_MAX, attrs[NFTA_CHAIN_HOOK], NULL) < 0 ||
	    !hook[NFTA_HOOK_HOOKNUM])
		return;
	number = ntohl(nla_get_u32(hook[NFTA_HOOK_HOOKNUM]));
	if (number == NF_INET_LOCAL_IN || number == NF_INET_FORWARD)
		snprintf(chains->drops, sizeof(chains->drops), "nftables, table %s, chain %s",
			 attr_text(attrs, NFTA_CHAIN_TABLE), attr_text(attrs, NFTA_CHAIN_NAME));
}

static int see_chain(struct nl_msg *msg, void *ctx)
{
	struct nlattr *attrs[NFTA_CHAIN_MAX + 1];
	struct chains *chains = ctx;

	if (nlmsg_parse(nlmsg_hdr(msg), sizeof(struct nfgenmsg), attrs, NFTA_CHAIN_MAX, NULL) < 0)
		return NL_OK;
	if (strcmp(attr_text(attrs, NFTA_CHAIN_TABLE), "kube-proxy") == 0)
		chains->kube_proxy = "nftables table ip kube-proxy";
	else if (strcmp(attr_text(attrs, NFTA_CHAIN_NAME), "KUBE-SERVICES") == 0)
		chains->kube_proxy = "iptables chain KUBE-SERVICES";
	see_policy(attrs, chains);
	return NL_OK;
}

/* Read every chain of nftables, where iptables-nft has its chains as well. */
static void read_chains(struct chains *chains)
{
	struct nfgenmsg header = { .nfgen_family = AF_UNSPEC };
	struct nl_sock *sock = nl_socket_alloc();

	*chains = (struct chains){ 0 };

	if (sock && nl_connect(sock, NETLINK_NETFILTER) == 0) {
		nl_socket_modify_cb(sock, NL_CB_VALID, NL_CB_CUSTOM, see_chain, chains);
		if (nl_send_simple(sock, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETCHAIN, NLM_F_DUMP,
				   &header, sizeof(header)) >= 0)
			(void)nl_recvmsgs_default(sock);
	}
	nl_socket_free(sock);
}

void check_kube_proxy(struct mk_checking *checking)
{
	struct chains chains;
	const char *found;

	read_chains(&chains);
	found = chains.kube_proxy;
	if (!found && check_legacy_kube_proxy())
		found = "iptables-legacy chain KUBE-SERVICES";
	if (!found && if_nametoindex("kube-ipvs0"))
		found = "interface kube-ipvs0";
	if (found)
		check_found(checking, "kube-proxy",
			    "kubectl -n kube-system delete daemonset,configmap kube-proxy, and "
			    "here `kube-proxy --cleanup` or a reboot",
			    "rules of kube-proxy exist: %s", found);
	else
		check_found(checking, "kube-proxy", NULL,
			    "none of its rules in nftables, iptables or ipvs");
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
		check_note(checking, "firewall",
			   "add rules that accept UDP to the overlay's port (4789) from the "
			   "nodes, TCP 10250 and 10256, and everything from mkhost0",
			   "%s drops what no rule accepts", chains.drops);
	else
		check_found(checking, "firewall", NULL,
			    "no chain of input or forward drops by policy");
}

/* ---- programs of others ---------------------------------------------------------------------- */

static int see_filter(struct nl_msg *msg, void *ctx)
{
	const struct tcmsg *filter = nlmsg_data(nlmsg_hdr(msg));
	unsigned int priority = TC_H_MAJ(filter->tcm_info) >> 16, *first = ctx;

	if (nlmsg_hdr(msg)->nlmsg_type == RTM_NEWTFILTER && priority && priority < *first)
		*first = priority;
	return NL_OK;
}

/* Returns the priority of the first filter, or MK_TC_PRIORITY. Reads without libnl's caches, which
 * fail on filters of unknown kinds. */
static unsigned int first_filter(uint32_t ifindex, uint32_t parent)
{
	struct tcmsg header = { .tcm_family = AF_UNSPEC,
				.tcm_ifindex = (int)ifindex,
				.tcm_parent = parent };
	struct nl_sock *sock = nl_socket_alloc();
	unsigned int first = MK_TC_PRIORITY;

	if (sock && nl_connect(sock, NETLINK_ROUTE) == 0) {
		nl_socket_modify_cb(sock, NL_CB_VALID, NL_CB_CUSTOM, see_filter, &first);
		if (nl_send_simple(sock, RTM_GETTFILTER, NLM_F_DUMP, &header, sizeof(header)) >= 0)
			(void)nl_recvmsgs_default(sock);
	}
	nl_socket_free(sock);
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
			check_found(checking, "programs",
				    "`bpftool net show dev DEVICE` and `bpftool prog show id "
				    "ID` show its owner; remove it together with its owner",
				    "a tcx program of another owner (id %u) runs before ours on "
				    "the %s of %s",
				    id, hooks[i].name, name);
	}
}

void check_foreign_programs(struct mk_checking *checking)
{
	const struct mk_datapath_links *links = &checking->view->links;
	unsigned int before = checking->wrong;

	for (size_t i = 0; i < links->uplink_count; i++) {
		char name[IF_NAMESIZE] = "?";
		unsigned int first = first_filter(links->uplinks[i].ifindex,
						  TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS));

		if_indextoname(links->uplinks[i].ifindex, name);
		check_tcx(checking, links->uplinks[i].ifindex, name);
		if (first < MK_TC_PRIORITY)
			check_found(
				checking, "programs",
				"`tc filter show dev DEVICE ingress` shows its owner; remove it "
				"together with its owner, or give it a priority after 77",
				"a tc filter of another owner (priority %u) runs before ours "
				"on the ingress of %s",
				first, name);
	}
	if (checking->wrong == before)
		check_found(checking, "programs", NULL,
			    "no tc filter or tcx program of others before ours on the uplinks");
}

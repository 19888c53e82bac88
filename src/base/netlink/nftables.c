// SPDX-License-Identifier: Apache-2.0
#include "base/netlink/nftables.h"

#include <arpa/inet.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include "base/netlink/request.h"

struct chain_walk {
	int (*visit)(void *ctx, const struct mk_nft_chain *chain);
	void *ctx;
};

static const char *text_of(const struct nlattr *attr)
{
	return attr ? nla_get_string(attr) : "";
}

static int walk_chain(void *ctx, const void *header, struct nlattr **attrs)
{
	const struct chain_walk *walk = ctx;
	struct nlattr *hook[NL_ATTRS];
	struct mk_nft_chain chain = {
		.family = ((const struct nfgenmsg *)header)->nfgen_family,
		.table = text_of(attrs[NFTA_CHAIN_TABLE]),
		.name = text_of(attrs[NFTA_CHAIN_NAME]),
		.policy = -1,
		.hook = -1,
	};

	nl_nested(attrs[NFTA_CHAIN_HOOK], hook);
	if (attrs[NFTA_CHAIN_POLICY])
		chain.policy = (int)ntohl(nl_u32(attrs[NFTA_CHAIN_POLICY]));
	if (hook[NFTA_HOOK_HOOKNUM])
		chain.hook = (int)ntohl(nl_u32(hook[NFTA_HOOK_HOOKNUM]));
	return walk->visit(walk->ctx, &chain);
}

int mk_nft_each_chain(int (*visit)(void *ctx, const struct mk_nft_chain *chain), void *ctx,
		      struct mk_error *err)
{
	const struct nfgenmsg header = { .nfgen_family = AF_UNSPEC };
	cleanup_nl struct mk_nl *nl = nl_open(NETLINK_NETFILTER, err);
	struct chain_walk walk = { visit, ctx };

	if (!nl)
		return -EIO;
	return nl_query(nl,
			nlmsg_new(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETCHAIN, NLM_F_DUMP, &header,
				  sizeof(header)),
			sizeof(header), walk_chain, &walk, err);
}

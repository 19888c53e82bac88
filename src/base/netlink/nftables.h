/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/netlink/nftables.h - the chains of nftables, which include those of iptables-nft. */
#ifndef MK_BASE_NETLINK_NFTABLES_H
#define MK_BASE_NETLINK_NFTABLES_H

#include "base/error.h"

struct mk_nft_chain {
	int family; /* of its table: NFPROTO_* */
	const char *table, *name;
	int hook; /* NF_INET_*; -1: not a base chain */
	int policy; /* NF_ACCEPT, NF_DROP; -1: not a base chain */
};
/* Visit every chain of the calling thread's network namespace. */
mk_must_check int mk_nft_each_chain(int (*visit)(void *ctx, const struct mk_nft_chain *chain),
				    void *ctx, struct mk_error *err);

#endif

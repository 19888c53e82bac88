// SPDX-License-Identifier: Apache-2.0
/* src/pod/endpoint/sandboxes.c - the pods of this node for the agent's policies. */
#include "base/cleanup.h"
#include "datapath/pods/pod_table.h"
#include "pod/endpoint/restore.h"

struct listing {
	struct mk_pod_tables pods;
	mk_cni_sandbox_fn *visit;
	void *ctx;
	struct mk_error *err;
};

/* Returns 0 if the address has no entry in map pods, or a negative error. */
static int ifindex_of(const struct listing *listing, const struct mk_ip *ip)
{
	const struct mk_addr addr = mk_ip_to_addr(ip);
	struct mk_error why = { 0 };
	struct mk_pod pod;
	int ret = mk_pod_tables_get(&listing->pods, &addr, &pod, &why);

	if (ret < 0 && ret != -ENOENT)
		*listing->err = why;
	return ret == -ENOENT ? 0 : ret ?: (int)pod.ifindex;
}

static int see(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	const struct listing *listing = ctx;
	int ifindex = ifindex_of(listing, ip);

	return ifindex < 0 ? ifindex : listing->visit(listing->ctx, ip, owner, ifindex);
}

int mk_cni_each_sandbox(const char *state_dir, const char *bpf_dir, mk_cni_sandbox_fn *visit,
			void *ctx, struct mk_error *err)
{
	struct listing listing = { .visit = visit, .ctx = ctx, .err = err };
	int ret = mk_pod_tables_open(&listing.pods, bpf_dir, err);

	if (ret < 0)
		return ret;
	ret = mk_ipam_peek_each(state_dir, see, &listing, err);
	mk_pod_tables_close(&listing.pods);
	return ret;
}

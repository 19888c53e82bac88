// SPDX-License-Identifier: Apache-2.0
/* Finds pods whose device was deleted. */
#include "pod/endpoint/restore.h"

#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/netlink/netlink.h"
#include "datapath/maps/pin.h"
#include "datapath/pods/pod_table.h"

struct losing {
	struct mk_pod_tables pods;
	struct mk_nl *nl;
	void (*visit)(void *ctx, const struct mk_ip *ip, const struct mk_pod *entry,
		      const struct mk_ipam_owner *owner);
	void *ctx;
	struct mk_error *err;
	int count;
};

/* Returns 1, 0 or an error. */
static int has_no_device(const struct losing *losing, const struct mk_pod *entry)
{
	struct mk_link link;
	int ret = mk_nl_link_get_index(losing->nl, (int)entry->ifindex, &link, losing->err);

	return ret == -ENODEV ? 1 : ret;
}

static int some_lost(const struct losing *losing)
{
	cleanup_free struct mk_pod *entries = NULL;
	size_t count;
	int ret = mk_pod_tables_read(&losing->pods, &entries, &count, losing->err);

	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = has_no_device(losing, &entries[i]);
	return ret;
}

/* A pod without its namespace is left to the reaper. */
static int see(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	struct losing *losing = ctx;
	const struct mk_addr addr = mk_ip_to_addr(ip);
	struct mk_pod entry;
	int ret;

	if (!owner->container_id[0] || access(owner->netns, F_OK) < 0 ||
	    mk_pod_tables_get(&losing->pods, &addr, &entry, NULL) < 0)
		return 0;
	ret = has_no_device(losing, &entry);
	if (ret <= 0)
		return ret;
	losing->visit(losing->ctx, ip, &entry, owner);
	losing->count++;
	return 0;
}

/* The exclusive datapath lock guarantees that no ADD or DEL is running. */
static int see_all(struct losing *losing, const char *state_dir)
{
	cleanup_close int lock_fd =
		mk_state_lock(state_dir, MK_LOCK_DATAPATH, LOCK_EX | LOCK_NB, losing->err);
	cleanup_ipam struct mk_ipam *ipam =
		lock_fd < 0 ? NULL : mk_ipam_open(state_dir, losing->err);
	int ret;

	if (lock_fd < 0)
		return lock_fd;
	ret = ipam ? mk_ipam_each(ipam, see, losing, losing->err) : -losing->err->code;
	return ret < 0 ? ret : losing->count;
}

int mk_cni_each_lost_pod(const char *state_dir, const char *bpf_dir,
			 void (*visit)(void *ctx, const struct mk_ip *ip,
				       const struct mk_pod *entry,
				       const struct mk_ipam_owner *owner),
			 void *ctx, struct mk_error *err)
{
	cleanup_nl struct mk_nl *nl = mk_nl_open(err);
	struct losing losing = { .nl = nl, .visit = visit, .ctx = ctx, .err = err };
	int ret = nl ? mk_pod_tables_open(&losing.pods, bpf_dir, err) : -err->code;

	if (ret < 0)
		return ret;
	ret = some_lost(&losing);
	if (ret > 0)
		ret = see_all(&losing, state_dir);
	mk_pod_tables_close(&losing.pods);
	return ret;
}

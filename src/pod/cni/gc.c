// SPDX-License-Identifier: Apache-2.0
/* CNI GC. */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/log.h"
#include "pod/endpoint/endpoint.h"
#include "pod/endpoint/function.h"
#include "pod/endpoint/restore.h"
#include "pod/ipam/ipam.h"

/* An endpoint to remove. */
struct stale {
	char *container_id, *ifname;
	struct stale *next;
};

struct collecting {
	json_object *valid;
	const char *veth_prefix;
	struct stale *stale;
	struct mk_cni_node *node;
	struct mk_error *err, first;
};

static void stale_free(struct stale *stale)
{
	struct stale *item, *next;

	LL_FOREACH_SAFE(stale, item, next) {
		free(item->container_id);
		free(item->ifname);
		free(item);
	}
}

static void collecting_release(struct collecting *collecting)
{
	stale_free(collecting->stale);
}
#define cleanup_collecting __attribute__((cleanup(collecting_release)))

/* ---- valid attachments ----------------------------------------------------------------------- */

static size_t valid_count(const struct collecting *collecting)
{
	return collecting->valid ? json_object_array_length(collecting->valid) : 0;
}

static const char *valid_string(const struct collecting *collecting, size_t i, const char *key)
{
	return mk_cni_string(json_object_array_get_idx(collecting->valid, i), key);
}

static bool is_valid_owner(const struct collecting *collecting, const char *container_id,
			   const char *ifname)
{
	for (size_t i = 0; i < valid_count(collecting); i++) {
		if (strcmp(valid_string(collecting, i, "containerID"), container_id) == 0 &&
		    strcmp(valid_string(collecting, i, "ifname"), ifname) == 0)
			return true;
	}
	return false;
}

/* Does the port belong to a pod of the list? */
static bool is_valid_port(const struct collecting *collecting, const struct mk_link *link)
{
	for (size_t i = 0; i < valid_count(collecting); i++) {
		if (mk_cni_is_port_of(link, valid_string(collecting, i, "containerID"),
				      valid_string(collecting, i, "ifname")))
			return true;
	}
	return false;
}

static bool is_valid_device(const struct collecting *collecting, const struct mk_link *link)
{
	for (size_t i = 0; i < valid_count(collecting); i++) {
		if (mk_cni_is_device_of(link, valid_string(collecting, i, "containerID"),
					valid_string(collecting, i, "ifname")))
			return true;
	}
	return false;
}

/* ---- stale attachments ----------------------------------------------------------------------- */

static int collect_owner(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	struct collecting *collecting = ctx;
	struct stale *stale;

	(void)ip;
	if (!owner->container_id[0] ||
	    is_valid_owner(collecting, owner->container_id, owner->ifname))
		return 0;
	stale = calloc(1, sizeof(*stale));
	if (!stale)
		return mk_error_errno(collecting->err, ENOMEM, "list of attachments");
	LL_PREPEND(collecting->stale, stale);
	stale->container_id = strdup(owner->container_id);
	stale->ifname = strdup(owner->ifname);
	if (!stale->container_id || !stale->ifname)
		return mk_error_errno(collecting->err, ENOMEM, "list of attachments");
	return 0;
}

static int collect_owners(struct collecting *collecting, const char *state_dir)
{
	cleanup_ipam struct mk_ipam *ipam = mk_ipam_open(state_dir, collecting->err);
	int ret;

	if (!ipam)
		return -collecting->err->code;
	ret = mk_ipam_repair(ipam, collecting->err);
	return ret < 0 ? ret : mk_ipam_each(ipam, collect_owner, collecting, collecting->err);
}

/* Try to remove every owner, even if one fails. Returns the first error. */
static int remove_owners(struct collecting *collecting)
{
	struct mk_error later;
	struct stale *stale;
	int first = 0, ret;

	LL_FOREACH(collecting->stale, stale) {
		ret = mk_cni_endpoint_remove(collecting->node, stale->container_id, stale->ifname,
					     first ? &later : collecting->err);
		if (ret == 0)
			mk_log_info(
				"removed an attachment that is no longer valid container=%s ifname=%s",
				stale->container_id, stale->ifname);
		else if (!first)
			first = ret;
	}
	return first;
}

static void remember(struct collecting *collecting, int ret, const struct mk_error *err)
{
	if (ret >= 0 || collecting->first.code)
		return;
	collecting->first = *err;
}

static int remove_device(void *ctx, const struct mk_link *link)
{
	struct collecting *collecting = ctx;
	struct mk_error err;

	if (mk_port_of(link, NULL, NULL)) {
		if (!is_valid_port(collecting, link))
			remember(collecting, mk_cni_port_delete(collecting->node, link, &err),
				 &err);
		return 0;
	}
	if (!mk_cni_is_pod_device(collecting->veth_prefix, link) ||
	    is_valid_device(collecting, link))
		return 0;
	mk_log_info("removing a pod's device that belongs to no valid attachment device=%s",
		    link->name);
	remember(collecting,
		 mk_pod_device_remove(collecting->node->nl, collecting->node->bpf_dir, link, &err),
		 &err);
	return 0;
}

/* Run each part, even if another fails. Returns the first error. */
static int collect(struct collecting *collecting, struct mk_error *err)
{
	struct mk_cni_node *node = collecting->node;

	remember(collecting, remove_owners(collecting), err);
	remember(collecting, mk_nl_each_link(node->nl, remove_device, collecting, err), err);
	remember(collecting, mk_cni_sweep(node, err), err);
	if (collecting->first.code)
		*err = collecting->first;
	return -collecting->first.code;
}

int mk_cni_gc(const struct mk_cni_args *args, struct mk_cni_conf *conf,
	      struct mk_cni_failure *failure)
{
	static const char msg[] = "cannot remove stale attachments";
	cleanup_cni_node struct mk_cni_node node = { 0 };
	cleanup_collecting struct collecting collecting = {
		.veth_prefix = conf->veth_prefix,
		.node = &node,
		.err = &failure->cause,
	};

	(void)args;
	if (mk_cni_conf_attachments(conf, &collecting.valid, failure) < 0)
		return -1;
	if (mk_cni_node_open(&node, conf, &failure->cause) < 0 ||
	    collect_owners(&collecting, conf->state_dir) < 0 ||
	    collect(&collecting, &failure->cause) < 0)
		return mk_cni_fail(failure, MK_CNI_IO_FAILURE, msg);
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "pod/endpoint/restore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "datapath/maps/pin.h"
#include "datapath/pods/pod_policies.h"
#include "datapath/pods/pod_table.h"
#include "datapath/pods/pods.h"
#include "pod/endpoint/endpoint.h"
#include "pod/ipam/ipam.h"

struct restoring {
	const char *veth_prefix, *bpf_dir;
	struct mk_pod_tables pods;
	struct mk_pod_policies policies;
	struct mk_ipam *ipam;
	struct mk_nl *nl;
	struct mk_error *err;
	int restored;
	int opened; /* pods that got open sets, because nothing is enforced yet */
};

/* Does a pod that has its entry lack its sets of policies? */
static bool lacks_policies(const struct restoring *restoring, const struct mk_pod *pod)
{
	uint64_t sets[MK_POLICY_DIRECTIONS];

	return mk_pod_policies_get(&restoring->policies, &pod->addr, pod->ifindex, sets, NULL) ==
	       -ENOENT;
}

/* Does @ip need an entry that is missing? AF_UNSPEC and a family that is not pinned need none. */
static bool lacks_entry(const struct restoring *restoring, const struct mk_ip *ip)
{
	const struct mk_addr key = mk_ip_to_addr(ip);
	struct mk_pod pod;

	return ip->family != AF_UNSPEC && restoring->pods.of[mk_family_index(ip->family)].name &&
	       (mk_pod_tables_get(&restoring->pods, &key, &pod, NULL) < 0 ||
		lacks_policies(restoring, &pod));
}

static int compare_address(const void *addr, const void *pod)
{
	return memcmp(addr, &((const struct mk_pod *)pod)->addr, sizeof(struct mk_addr));
}

struct missing_search {
	const struct restoring *restoring;
	struct mk_pod *pods; /* sorted by address */
	size_t count;
};

static const struct mk_pod *find_pod(const struct missing_search *search, const struct mk_ip *ip)
{
	const struct mk_addr key = mk_ip_to_addr(ip);

	return mk_find(&key, search->pods, search->count, compare_address);
}

/* A family that the node no longer has needs no entries. */
static bool is_missing(void *ctx, const struct mk_ip *ip)
{
	const struct missing_search *search = ctx;
	const struct mk_pod *pod = find_pod(search, ip);

	return search->restoring->pods.of[mk_family_index(ip->family)].name &&
	       (!pod || lacks_policies(search->restoring, pod));
}

static bool some_missing(const struct restoring *restoring, const char *state_dir)
{
	cleanup_free struct mk_pod *pods = NULL;
	struct missing_search search = { .restoring = restoring };

	if (mk_pod_tables_read(&restoring->pods, &pods, &search.count, NULL) < 0)
		return true; /* the closer look reports the error */
	search.pods = pods;
	return mk_ipam_any(state_dir, is_missing, &search);
}

/* Returns 1, 0 if another pod has the slot, or an error. 0 lets the other pods be restored. */
static int put_back(struct restoring *restoring, const struct mk_pod *pod)
{
	struct mk_error why = { 0 };
	int ret = mk_pod_tables_put(&restoring->pods, pod, &why);

	if (ret == 0)
		return 1;
	if (ret != -EEXIST)
		return mk_error_set(restoring->err, -ret, "%s", mk_error_text(&why));
	mk_log_error("entry of a pod is missing: %s", mk_error_text(&why));
	return 0;
}

/* Find the sets of a pod. While nothing is enforced, all are open, because enforcement starts for
 * all pods at once (rule 41). Returns 1 if policies are enforced, 0, or an error. */
static int find_sets(const struct restoring *restoring, const struct mk_ip *ip,
		     const struct mk_ipam_owner *owner, uint64_t sets[MK_POLICY_DIRECTIONS])
{
	const struct mk_pod_identity pod = {
		.namespace_ = owner->namespace_,
		.name = owner->name,
		.uid = owner->uid,
	};
	int on = mk_pod_policies_on(&restoring->policies, ip->family, restoring->err), ret = 0;

	for (int i = 0; i < MK_POLICY_DIRECTIONS; i++)
		sets[i] = MK_SET_OPEN;
	if (on == 1)
		ret = mk_pod_policies_expect(restoring->bpf_dir, ip->family, &pod, sets,
					     restoring->err);
	return ret < 0 ? ret : on;
}

/* Before an agent that knows the policies looks at the pod, it may be pending. */
static int restore_policies(struct restoring *restoring, const struct mk_ip *ip,
			    const struct mk_pod *pod, const struct mk_ipam_owner *owner)
{
	uint64_t sets[MK_POLICY_DIRECTIONS];
	char text[MK_IP_STRLEN];
	int on, ret;

	if (!lacks_policies(restoring, pod))
		return 0;
	on = find_sets(restoring, ip, owner, sets);
	ret = on < 0 ? on
		     : mk_pod_policies_put(&restoring->policies, &pod->addr, pod->ifindex, sets,
					   restoring->err);
	if (ret < 0)
		return ret;
	restoring->restored += on;
	restoring->opened += !on;
	if (on)
		mk_log_warn(
			"policies of a pod were missing and are back map=pod_policies ip=%s container=%s pending=%s",
			mk_ip_format(ip, text), owner->container_id,
			sets[MK_POLICY_INGRESS] == MK_SET_PENDING ? "yes" : "no");
	return 0;
}

/* Restore the entry in map pods. *@pod becomes the entry that is there. Returns 1, 0 if another pod
 * has the slot, or an error. */
static int restore_pod(struct restoring *restoring, const struct mk_ip *ip, struct mk_pod *pod,
		       const struct mk_link *link, const struct mk_ipam_owner *owner)
{
	struct mk_pod now;
	char text[MK_IP_STRLEN];
	int ret;

	pod->addr = mk_ip_to_addr(ip);
	ret = mk_pod_tables_get(&restoring->pods, &pod->addr, &now, restoring->err);
	if (ret == 0)
		*pod = now;
	if (ret != -ENOENT)
		return ret ?: 1;
	ret = put_back(restoring, pod);
	if (ret <= 0)
		return ret;
	mk_log_warn("entry of a pod was missing and is back map=pods ip=%s device=%s container=%s",
		    mk_ip_format(ip, text), link->name, owner->container_id);
	restoring->restored++;
	return 1;
}

/* Restore the entries of @ip. Both addresses of a pod have the same MAC address. */
static int restore_address(struct restoring *restoring, const struct mk_ip *ip,
			   const struct mk_link *link, const struct mk_mac *mac,
			   const struct mk_ipam_owner *owner)
{
	struct mk_pod pod = mk_pod_of(link, mac);
	int ret = restore_pod(restoring, ip, &pod, link, owner);

	return ret <= 0 ? ret : restore_policies(restoring, ip, &pod, owner);
}

static int restore(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	struct restoring *restoring = ctx;
	const struct mk_mac mac = mk_mac_of_ip(ip);
	bool first = lacks_entry(restoring, ip), second = lacks_entry(restoring, &owner->second);
	struct mk_link link;
	int ret;

	if (!owner->container_id[0] || (!first && !second))
		return 0;
	ret = mk_cni_device_find(restoring->nl, restoring->veth_prefix, owner->container_id,
				 owner->ifname, &link, restoring->err);
	if (ret < 0)
		return ret == -ENODEV ? 0 : ret;
	if (first)
		ret = restore_address(restoring, ip, &link, &mac, owner);
	if (ret == 0 && second)
		ret = restore_address(restoring, &owner->second, &link, &mac, owner);
	return ret;
}

/* The exclusive datapath lock guarantees that no ADD or DEL is running. */
static int restore_all(struct restoring *restoring, const char *state_dir, bool *in_vain)
{
	cleanup_close int lock_fd =
		mk_state_lock(state_dir, MK_LOCK_DATAPATH, LOCK_EX | LOCK_NB, restoring->err);
	cleanup_ipam struct mk_ipam *ipam = NULL;
	cleanup_nl struct mk_nl *nl = NULL;
	int ret;

	if (lock_fd < 0)
		return lock_fd == -EWOULDBLOCK ? 0 : lock_fd;
	ipam = mk_ipam_open(state_dir, restoring->err);
	nl = ipam ? mk_nl_open(restoring->err) : NULL;
	if (!nl)
		return -restoring->err->code;
	restoring->ipam = ipam;
	restoring->nl = nl;
	ret = mk_ipam_repair(ipam, restoring->err); /* stale entries in .both would look missing */
	ret = ret ?: mk_ipam_each(ipam, restore, restoring, restoring->err);
	*in_vain = ret == 0 && restoring->restored + restoring->opened == 0;
	return ret < 0 ? ret : restoring->restored;
}

int mk_cni_restore(const char *state_dir, const char *bpf_dir, const char *veth_prefix,
		   bool *in_vain, struct mk_error *err)
{
	struct restoring restoring = { .veth_prefix = veth_prefix, .bpf_dir = bpf_dir, .err = err };
	int ret = mk_pod_tables_open(&restoring.pods, bpf_dir, err);

	*in_vain = false;
	if (ret < 0)
		return ret;
	ret = mk_pod_policies_open(&restoring.policies, bpf_dir, err);
	if (ret == 0 && some_missing(&restoring, state_dir))
		ret = restore_all(&restoring, state_dir, in_vain);
	mk_pod_policies_close(&restoring.policies);
	mk_pod_tables_close(&restoring.pods);
	return ret;
}

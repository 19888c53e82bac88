// SPDX-License-Identifier: Apache-2.0
#include "agent/policy/sandboxes.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "pod/endpoint/restore.h"

/* ---- sandboxes ------------------------------------------------------------------------------- */

struct reading {
	struct sandboxes now;
	int incomplete; /* without a device */
};

static void sandboxes_release(struct sandboxes *sandboxes)
{
	for (size_t i = 0; i < sandboxes->count; i++) {
		free(sandboxes->list[i].uid);
		free(sandboxes->list[i].namespace_);
		free(sandboxes->list[i].name);
	}
	free(sandboxes->list);
	*sandboxes = (struct sandboxes){ 0 };
}

void sandboxes_drop(struct sandboxes *sandboxes)
{
	if (sandboxes)
		sandboxes_release(sandboxes);
	free(sandboxes);
}

static void release(struct reading *reading)
{
	sandboxes_release(&reading->now);
}
#define cleanup_reading __attribute__((cleanup(release)))

/* Copy @text. Returns false if memory does not suffice. */
static bool copy(char **to, const char *text)
{
	if (!text || !*text)
		return true;
	*to = strdup(text);
	return *to != NULL;
}

static int read_one(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner,
		    int ifindex)
{
	struct reading *reading = ctx;
	struct mk_policy_sandbox *sandbox = mk_append(reading->now.list, reading->now.count);

	if (!sandbox || !copy(&sandbox->uid, owner->uid) ||
	    !copy(&sandbox->namespace_, owner->namespace_) || !copy(&sandbox->name, owner->name))
		return -ENOMEM;
	sandbox->ips[mk_family_index(ip->family)] = *ip;
	if (owner->second.family != AF_UNSPEC)
		sandbox->ips[mk_family_index(owner->second.family)] = owner->second;
	sandbox->ifindex = ifindex;
	reading->incomplete += ifindex == 0;
	return 0;
}

static int set_in_tables(const struct mk_own_node *node, const struct reading *reading,
			 struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++) {
		const struct mk_family *family = &node->core->families[i];

		if (mk_family_is_loaded(family))
			ret = mk_policy_sync_set_sandboxes(mk_datapath_policies(family->datapath),
							   reading->now.list, reading->now.count,
							   err);
	}
	return ret;
}

/* ---- sandboxes of a version before policies: their files do not name the Pod ---------------- */

static bool is_named(const struct mk_policy_sandbox *sandbox)
{
	return sandbox->namespace_ && sandbox->name;
}

static int give_name(struct mk_policy_sandbox *sandbox, const char *uid, const char *namespace_,
		     const char *name)
{
	bool ok = copy(&sandbox->uid, uid) && copy(&sandbox->namespace_, namespace_) &&
		  copy(&sandbox->name, name);

	return ok ? 0 : -ENOMEM;
}

static bool has_address(const struct mk_ip *of_pod, const struct mk_ip *of_sandbox)
{
	return of_sandbox->family != AF_UNSPEC && mk_ip_equal(of_pod, of_sandbox);
}

/* Is @pod, of this node, in @sandbox? */
static bool is_in(const struct mk_pod_object *pod, const struct mk_policy_sandbox *sandbox,
		  const char *node)
{
	const char *of = mk_pod_node(pod);
	bool fits = false;

	for (size_t i = 0; i < MK_FAMILIES; i++) {
		const struct mk_ip ip = mk_pod_ip(pod, i);

		fits |= has_address(&ip, &sandbox->ips[i]);
	}
	return fits && !pod->host_network && !pod->finished && of && strcmp(of, node) == 0;
}

/* Rule 43: a sandbox whose Pod object is gone stays what it was. */
static const struct mk_policy_sandbox *find_former(const struct sandboxes *former,
						   const struct mk_policy_sandbox *sandbox)
{
	for (size_t i = 0; i < former->count; i++)
		for (size_t f = 0; f < MK_FAMILIES; f++)
			if (former->list[i].ifindex == sandbox->ifindex &&
			    has_address(&former->list[i].ips[f], &sandbox->ips[f]))
				return &former->list[i];
	return NULL;
}

static int adopt(const struct mk_own_node *node, const struct sandboxes *former,
		 struct mk_policy_sandbox *sandbox)
{
	const struct mk_pod_object *found = NULL;
	const struct mk_policy_sandbox *was;

	mk_model_each(struct mk_pod_object, pod, node->core->model, MK_KIND_POD)
		if (is_in(pod, sandbox, node->core->config.node_name) &&
		    (!found || found->started_unix_s < pod->started_unix_s))
			found = pod;
	if (found)
		return give_name(sandbox, mk_pod_uid(found), found->of->namespace_, found->name);
	was = find_former(former, sandbox);
	return was && is_named(was) ? give_name(sandbox, was->uid, was->namespace_, was->name) : 0;
}

/* Let the Pod objects with the addresses of nameless sandboxes be theirs. */
static int adopt_all(const struct mk_own_node *node, const struct sandboxes *former,
		     struct sandboxes *now)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < now->count; i++)
		if (!is_named(&now->list[i])) {
			now->nameless = true;
			ret = adopt(node, former, &now->list[i]);
		}
	return ret;
}

int sandboxes_read(const struct mk_own_node *node, struct mk_policies *compiler,
		   struct sandboxes *known, struct mk_error *err)
{
	const struct mk_config *config = &node->core->config;
	cleanup_reading struct reading reading = { 0 };
	struct sandboxes former = *known;
	int ret = mk_cni_each_sandbox(config->state_dir, config->bpf_dir, read_one, &reading, err);

	if (ret == 0 && adopt_all(node, known, &reading.now) < 0)
		ret = mk_error_errno(err, ENOMEM, "%zu sandboxes", reading.now.count);
	ret = ret ?: mk_policies_set_sandboxes(compiler, reading.now.list, reading.now.count, err);
	ret = ret ?: set_in_tables(node, &reading, err);
	if (ret < 0)
		return mk_error_wrap(err, "cannot read the pods of this node");
	*known = reading.now;
	reading.now = former; /* is released */
	return reading.incomplete;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

struct addresses {
	struct mk_policy_node_address *list;
	size_t count;
};

static int add_address(struct addresses *addresses, const struct mk_ip *ip,
		       const struct mk_ip *counts_as)
{
	struct mk_policy_node_address *added = mk_append(addresses->list, addresses->count);

	if (!added)
		return -ENOMEM;
	*added = (struct mk_policy_node_address){ .ip = *ip, .counts_as = *counts_as };
	return 0;
}

/* A node's VTEP and its virtual pod address, the first of its pod CIDR. */
static int add_node(struct addresses *addresses, const struct mk_ip *vtep,
		    const struct mk_cidr *pods, const struct mk_ip *counts_as)
{
	struct mk_ip virtual_pod = mk_cidr_nth(pods, 1);

	return add_address(addresses, vtep, counts_as)
		       ?: add_address(addresses, &virtual_pod, counts_as);
}

static int add_family(struct addresses *addresses, const struct mk_own_family *own)
{
	unsigned index = mk_family_index(own->family->family);
	int ret =
		add_node(addresses, &own->addresses.vtep, &own->addresses.pod_cidr, &own->node_ip);

	ret = ret ?: add_address(addresses, &own->addresses.gateway, &own->node_ip);
	for (size_t i = 0; ret == 0 && i < own->plan.peer_count; i++) {
		const struct mk_overlay_peer *peer = &own->plan.peers[i];
		const struct mk_node_object *object =
			mk_model_node(own->family->core->model, peer->node);

		if (object && object->internal_ips[index].family != AF_UNSPEC)
			ret = add_node(addresses, &peer->vtep, &peer->pod_cidr,
				       &object->internal_ips[index]);
	}
	return ret;
}

int nodes_read(const struct mk_own_node *node, struct mk_policies *compiler, struct mk_error *err)
{
	struct addresses addresses = { 0 };
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++)
		if (node->core->families[i].runs)
			ret = add_family(&addresses, &node->families[i]);
	if (ret < 0)
		mk_error_errno(err, ENOMEM, "cannot list the nodes' addresses");
	else
		ret = mk_policies_set_nodes(compiler, addresses.list, addresses.count, err);
	free(addresses.list);
	return ret;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test/fuzz/policies.h - the end of the way of what a cluster says about policies: the rows of a
 * node with some of the Pods. */
#ifndef MK_TEST_FUZZ_POLICIES_H
#define MK_TEST_FUZZ_POLICIES_H

#include "cluster/model/model.h"
#include "fuzz/fuzz.h"
#include "policy/policy.h"

#define SANDBOXES_MAX 8

struct fuzz_sandboxes {
	struct mk_policy_sandbox of[SANDBOXES_MAX];
	size_t count;
};

static inline void add_sandbox(void *ctx, const struct mk_pod_object *pod)
{
	struct fuzz_sandboxes *sandboxes = ctx;

	if (sandboxes->count == SANDBOXES_MAX || pod->host_network)
		return;
	sandboxes->of[sandboxes->count] = (struct mk_policy_sandbox){
		.uid = (char *)mk_pod_uid(pod),
		.namespace_ = (char *)pod->of->namespace_,
		.name = (char *)pod->name,
		.ips = { mk_pod_ip(pod, 0), mk_pod_ip(pod, 1) },
		.ifindex = (int)++sandboxes->count,
	};
}

static inline void compile_policies(const struct mk_model *model)
{
	const struct mk_policy_view view = { .node_name = "node1", .hash_key = { 1 } };
	const struct mk_policy_changes *changes;
	struct fuzz_sandboxes sandboxes = { 0 };
	struct mk_policies *policies;
	struct mk_error err;
	json_object *text;

	policies = mk_policies_new(model, &view, &err);
	fuzz_check(policies != NULL);
	mk_model_each(struct mk_pod_object, of, model, MK_KIND_POD)
		add_sandbox(&sandboxes, of);
	fuzz_check(mk_policies_set_sandboxes(policies, sandboxes.of, sandboxes.count, &err) == 0);
	(void)!mk_policies_compile(policies, &changes, &err);
	text = mk_policies_describe(policies);
	json_object_put(text);
	mk_policies_free(policies);
}

#endif

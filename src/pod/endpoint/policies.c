// SPDX-License-Identifier: Apache-2.0
/* src/pod/endpoint/policies.c - which sets of policies a new pod has. The agent leaves them in the
 * tables when the Pod is bound to this node, so ADD needs no running agent. */
#include <time.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/time.h"
#include "datapath/pods/pod_policies.h"
#include "host/agent_state.h"
#include "pod/endpoint/endpoint.h"

#define AGENT_WAIT_MS 500
#define LOOK_MS	      5

/* Returns 1; 0: not known in one of the families; or an error. */
static int expect(const struct mk_cni_conf *conf, const struct mk_cni_pod *pod,
		  struct mk_cni_policies *policies, struct mk_error *err)
{
	const struct mk_pod_identity identity = {
		.namespace_ = pod->namespace_,
		.name = pod->name,
		.uid = pod->uid,
	};
	int known = 1;

	for (size_t i = 0; known >= 0 && i < conf->network_count; i++) {
		sa_family_t family = conf->networks[i].addresses.gateway.family;
		int ret = mk_pod_policies_expect(conf->bpf_dir, family, &identity,
						 policies->sets[i], err);

		known = ret < 0 ? ret : known && ret;
	}
	return known;
}

/* Wait without the datapath's lock, because the agent may need it. */
static int wait_for_agent(struct mk_cni_node *node, const struct mk_cni_conf *conf,
			  const struct mk_cni_pod *pod, struct mk_cni_policies *policies,
			  struct mk_error *err)
{
	const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000 };
	const uint64_t end_ns = mk_time_monotonic_ns() + AGENT_WAIT_MS * 1000000ULL;
	int known;

	mk_pods_free(mk_steal_ptr(node->pods));
	do {
		nanosleep(&pause, NULL);
		known = expect(conf, pod, policies, err);
	} while (known == 0 && mk_time_monotonic_ns() < end_ns);
	if (known < 0)
		return known;
	node->pods = mk_pods_open(conf->bpf_dir, conf->state_dir, err);
	return node->pods ? known : -err->code;
}

static void say_pending(const struct mk_agent_state *agent, const struct mk_cni_pod *pod)
{
	if (!agent->running)
		mk_log_warn(
			"the pod's policies are not known, because no agent runs on this node: until it runs, only this node reaches the pod pod=%s/%s",
			pod->namespace_, pod->name);
	else
		mk_log_warn(
			"the pod's policies are not known: the agent did not find them within %d ms, and until it does, only this node reaches the pod pod=%s/%s agent=\"%s\"",
			AGENT_WAIT_MS, pod->namespace_, pod->name, agent->text);
}

int mk_cni_policies_find(struct mk_cni_node *node, const struct mk_cni_conf *conf,
			 const struct mk_cni_pod *pod, struct mk_cni_policies *policies,
			 struct mk_error *err)
{
	struct mk_agent_state agent;
	int known = expect(conf, pod, policies, err);

	if (known != 0)
		return known < 0 ? known : 0;
	mk_agent_state_read(conf->state_dir, &agent);
	if (agent.running)
		known = wait_for_agent(node, conf, pod, policies, err);
	if (known == 0)
		say_pending(&agent, pod);
	return known < 0 ? known : 0;
}

// SPDX-License-Identifier: Apache-2.0
/* A Node that was created again may get another pod CIDR. Its pods keep their old addresses, which
 * no node routes to any more: the operator has to know. */
#include <unistd.h>

#include "agent/agent_internal.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "pod/ipam/ipam.h"

struct outside {
	struct mk_cidr pod_cidr;
	unsigned int count;
	struct mk_ip first;
	char container[13]; /* as runtimes abbreviate it */
};

/* A container without its namespace is no pod any more. */
static int see(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	struct outside *outside = ctx;

	if (mk_cidr_contains(&outside->pod_cidr, ip) || !owner->container_id[0] ||
	    access(owner->netns, F_OK) < 0)
		return 0;
	if (outside->count++ > 0)
		return 0;
	outside->first = *ip;
	snprintf(outside->container, sizeof(outside->container), "%s", owner->container_id);
	return 0;
}

static void tell(struct mk_agent *agent, const struct outside *outside)
{
	char cidr[MK_CIDR_STRLEN], ip[MK_IP_STRLEN], text[256];

	snprintf(
		text, sizeof(text),
		"%u pods have addresses outside the pod CIDR %s of their node, such as %s (container %s): they have no network until they are deleted",
		outside->count, mk_cidr_format(&outside->pod_cidr, cidr),
		mk_ip_format(&outside->first, ip), outside->container);
	if (agent_warn(agent, MK_WARN_POD_CIDR, text))
		mk_log_warn("%s", text);
}

int agent_look_outside_pod_cidr(struct mk_agent *agent, struct mk_error *err)
{
	const struct mk_addresses *own = &agent->node.addresses;
	struct outside outside = { .pod_cidr = mk_cidr_network(&own->pod_cidr) };
	cleanup_ipam struct mk_ipam *ipam = NULL;
	int ret;

	if (own->gateway.family == AF_UNSPEC)
		return 0; /* the Node object is not known yet */
	ipam = mk_ipam_open(agent->config.state_dir, err);
	ret = ipam ? mk_ipam_each(ipam, see, &outside, err) : -err->code;
	if (ret < 0)
		return mk_error_wrap(err, "cannot look for pods outside the pod CIDR");
	if (outside.count)
		tell(agent, &outside);
	else
		agent_warn_over(agent, MK_WARN_POD_CIDR);
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "agent/sfc/ports.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "pod/endpoint/function.h"
#include "pod/ipam/ipam.h"

struct reading {
	struct mk_link *links; /* host's ends of ports */
	size_t link_count;
	struct node_ports *ports;
};

static int see_link(void *ctx, const struct mk_link *link)
{
	struct reading *reading = ctx;
	struct mk_link *added;

	if (!mk_port_of(link, NULL, NULL))
		return 0;
	added = mk_append(reading->links, reading->link_count);
	if (!added)
		return -ENOMEM;
	*added = *link;
	return 0;
}

static int add_sandbox(struct reading *reading, const struct mk_ip *ip,
		       const struct mk_ipam_owner *owner, const struct sandbox_ports *found)
{
	struct node_ports *ports = reading->ports;
	struct sandbox_ports *sandbox = mk_append(ports->list, ports->count);

	if (!sandbox)
		return -ENOMEM;
	*sandbox = *found;
	sandbox->namespace_ = strdup(owner->namespace_ ?: "");
	sandbox->name = strdup(owner->name ?: "");
	sandbox->ips[mk_family_index(ip->family)] = *ip;
	if (owner->second.family != AF_UNSPEC)
		sandbox->ips[mk_family_index(owner->second.family)] = owner->second;
	return sandbox->namespace_ && sandbox->name ? 0 : -ENOMEM;
}

/* Two ports of different modes are no function's: the second one does not count. */
static int see_sandbox(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	struct reading *reading = ctx;
	struct sandbox_ports found = { .mode = MK_PORT_NONE };

	for (size_t i = 0; i < reading->link_count; i++) {
		const struct mk_link *link = &reading->links[i];
		enum mk_port_mode mode;
		enum mk_port_side side;

		if (!mk_cni_is_port_of(link, owner->container_id, owner->ifname) ||
		    !mk_port_of(link, &mode, &side) ||
		    (found.mode != MK_PORT_NONE && found.mode != mode))
			continue;
		found.mode = (uint8_t)mode;
		found.ifindex[side] = (uint32_t)link->ifindex;
	}
	return found.mode == MK_PORT_NONE ? 0 : add_sandbox(reading, ip, owner, &found);
}

int node_ports_read(const struct mk_core *core, struct node_ports *ports, struct mk_error *err)
{
	struct reading reading = { .ports = ports };
	int ret;

	*ports = (struct node_ports){ 0 };
	ret = mk_nl_each_link(core->nl, see_link, &reading, err);
	if (ret == 0 && reading.link_count)
		ret = mk_ipam_peek_each(core->config.state_dir, see_sandbox, &reading, err);
	free(reading.links);
	if (ret == -ENOMEM)
		(void)mk_error_errno(err, ENOMEM, "cannot list the ports of function pods");
	if (ret < 0)
		node_ports_release(ports);
	return ret;
}

void node_ports_release(struct node_ports *ports)
{
	for (size_t i = 0; i < ports->count; i++) {
		free(ports->list[i].namespace_);
		free(ports->list[i].name);
	}
	free(ports->list);
	*ports = (struct node_ports){ 0 };
}

static bool has_address_of(const struct sandbox_ports *sandbox, const struct mk_function_pod *pod)
{
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (pod->ips[i].family != AF_UNSPEC && mk_ip_equal(&pod->ips[i], &sandbox->ips[i]))
			return true;
	return false;
}

/* A Pod that has ended still says its address, which another Pod may have now. */
const struct sandbox_ports *node_ports_of(const struct node_ports *ports,
					  const struct mk_function_pod *pod)
{
	for (size_t i = 0; i < ports->count; i++) {
		const struct sandbox_ports *sandbox = &ports->list[i];

		if (has_address_of(sandbox, pod) &&
		    (!sandbox->name[0] || (strcmp(sandbox->name, pod->name) == 0 &&
					   strcmp(sandbox->namespace_, pod->namespace_) == 0)))
			return sandbox;
	}
	return NULL;
}

// SPDX-License-Identifier: Apache-2.0
/* Which frontends a Service has at which addresses. An address that is planned twice is settled. */
#include "service/plan.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum external_kind { EXTERNAL_IP, LOAD_BALANCER, NODE_PORT };

/* ---- plan ------------------------------------------------------------------------------------ */

const struct mk_ip *plan_service_ip(const struct mk_service_object *service,
				    const struct mk_service_view *view)
{
	return &service->cluster_ips[mk_family_index(view->family)];
}

static int plan_frontend(struct plan *plan, const struct mk_wanted_frontend *frontend, size_t port,
			 enum which which)
{
	size_t rank = plan->count;
	struct planned *added = mk_append(plan->planned, plan->count);

	if (!added)
		return mk_error_errno(plan->err, ENOMEM, "%zu frontends", rank + 1);
	*added = (struct planned){
		.frontend = *frontend, .port = port, .which = which, .rank = rank
	};
	return 0;
}

/* With policy Local and no endpoint here, while other nodes have some, drop
 * silently: they will answer. */
static uint16_t empty_flag(const struct plan *plan, size_t port, bool local)
{
	const struct mk_selection *selection = &plan->selections[port];

	return local && selection->local_count == 0 && selection->cluster_count > 0
		       ? MK_FRONTEND_DROP_EMPTY
		       : 0;
}

/* Keep the client's address for clients in the cluster, unless masqueradeAll. Masquerade clients
 * from outside: the reply has to come back through this node. */
static int plan_cluster_ip(struct plan *plan, size_t port)
{
	const struct mk_service_object *service = plan->service;
	bool local = service->internal_local;
	struct mk_wanted_frontend frontend = {
		.ip = *plan_service_ip(service, plan->view),
		.port = service->ports[port].port,
		.proto = service->ports[port].proto,
		.scope = MK_SCOPE_INTERNAL,
		.flags = empty_flag(plan, port, local),
	};
	int ret;

	if (plan->view->masquerade_all)
		frontend.flags |= MK_FRONTEND_MASQUERADE;
	ret = plan_frontend(plan, &frontend, port, local ? LOCAL : CLUSTER);

	if (ret < 0)
		return ret;
	frontend.scope = MK_SCOPE_EXTERNAL;
	frontend.flags |= MK_FRONTEND_MASQUERADE;
	return plan_frontend(plan, &frontend, port, local ? LOCAL : CLUSTER);
}

/* An externalIP may also be a load-balancer address. Then kube-proxy's nftables mode filters it
 * (its iptables mode does not). */
static bool is_load_balancers(const struct mk_service_object *service, const struct mk_ip *ip,
			      enum external_kind kind)
{
	return kind == LOAD_BALANCER ||
	       (kind == EXTERNAL_IP &&
		mk_ips_contain(service->load_balancer_ips, service->load_balancer_ip_count, ip));
}

/* NodePort, externalIP, load-balancer address. From outside the external policy applies. From
 * the cluster itself any endpoint serves, also with policy Local: that policy only keeps the
 * address of clients outside. */
static int plan_external(struct plan *plan, size_t port, const struct mk_ip *ip, uint16_t number,
			 enum external_kind kind)
{
	bool local = plan->service->external_local;
	struct mk_wanted_frontend frontend = {
		.ip = *ip,
		.port = number,
		.proto = plan->service->ports[port].proto,
		.scope = MK_SCOPE_EXTERNAL,
		.flags = (uint16_t)(MK_FRONTEND_MAGLEV | (local ? empty_flag(plan, port, local)
								: MK_FRONTEND_MASQUERADE)),
		.node_port = kind == NODE_PORT,
		.filtered = plan->filtered && is_load_balancers(plan->service, ip, kind),
	};
	int ret = plan_frontend(plan, &frontend, port, local ? LOCAL : CLUSTER);

	if (ret < 0)
		return ret;
	frontend.scope = MK_SCOPE_INTERNAL;
	frontend.flags = local ? 0 : MK_FRONTEND_MASQUERADE;
	return plan_frontend(plan, &frontend, port, CLUSTER);
}

static struct mk_ip loopback(sa_family_t family)
{
	if (family == AF_INET6)
		return (struct mk_ip){ .family = AF_INET6, .v6 = IN6ADDR_LOOPBACK_INIT };
	return (struct mk_ip){ .family = AF_INET, .v4.s_addr = htonl(INADDR_LOOPBACK) };
}

/* Only the host itself reaches a NodePort at 127.0.0.1 or ::1. */
static int plan_localhost(struct plan *plan, size_t port)
{
	struct mk_wanted_frontend frontend = {
		.ip = loopback(plan->view->family),
		.port = plan->service->ports[port].node_port,
		.proto = plan->service->ports[port].proto,
		.scope = MK_SCOPE_INTERNAL,
		.flags = MK_FRONTEND_MASQUERADE,
		.node_port = true,
	};

	return plan_frontend(plan, &frontend, port, CLUSTER);
}

/* Is @ip an address of any node? A Service gets only its ports there; all other ports
 * still lead to that node. */
static bool is_node_address(const struct plan *plan, const struct mk_ip *ip)
{
	return mk_ips_contain(plan->view->node_addresses, plan->view->node_address_count, ip) ||
	       mk_model_has_node_address(plan->model, ip);
}

/* Plan the address itself, with the first port's set: unknown ports are refused, pings answered. */
static int plan_vip(struct plan *plan, const struct mk_ip *ip)
{
	struct mk_wanted_frontend frontend = { .ip = *ip,
					       .proto = MK_PROTO_ANY,
					       .scope = MK_SCOPE_INTERNAL };

	return plan_frontend(plan, &frontend, 0, plan->service->internal_local ? LOCAL : CLUSTER);
}

static int plan_external_vips(struct plan *plan, const struct mk_ip *ips, size_t count)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < count; i++)
		if (!is_node_address(plan, &ips[i]))
			ret = plan_vip(plan, &ips[i]);
	return ret;
}

static int plan_vips(struct plan *plan)
{
	const struct mk_service_object *service = plan->service;
	int ret = plan_vip(plan, plan_service_ip(service, plan->view));

	ret = ret ?: plan_external_vips(plan, service->external_ips, service->external_ip_count);
	if (ret == 0)
		ret = plan_external_vips(plan, service->load_balancer_ips,
					 service->load_balancer_ip_count);
	return ret;
}

static int plan_virtual_ips(struct plan *plan, size_t port)
{
	const struct mk_service_object *service = plan->service;
	uint16_t number = service->ports[port].port;
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < service->external_ip_count; i++)
		ret = plan_external(plan, port, &service->external_ips[i], number, EXTERNAL_IP);
	for (size_t i = 0; ret == 0 && i < service->load_balancer_ip_count; i++)
		ret = plan_external(plan, port, &service->load_balancer_ips[i], number,
				    LOAD_BALANCER);
	return ret;
}

static int plan_node_port(struct plan *plan, size_t port)
{
	const struct mk_service_view *view = plan->view;
	uint16_t number = plan->service->ports[port].node_port;
	int ret = 0;

	for (size_t i = 0; ret == 0 && number && i < view->node_address_count; i++)
		if (view->node_addresses[i].family == view->family)
			ret = plan_external(plan, port, &view->node_addresses[i], number,
					    NODE_PORT);
	if (ret == 0 && number && view->localhost_node_ports)
		ret = plan_localhost(plan, port);
	return ret;
}

/* An address may be named twice: an externalIP may be the load balancer's too, or even the node's.
 * ClusterIP goes before externalIP and load balancer; NodePort comes last. */
int plan_frontends(struct plan *plan)
{
	static int (*const passes[])(struct plan *, size_t) = { plan_cluster_ip, plan_virtual_ips,
								plan_node_port };
	int ret = plan_vips(plan);

	for (size_t pass = 0; ret == 0 && pass < MK_ARRAY_SIZE(passes); pass++)
		for (size_t port = 0; ret == 0 && port < plan->service->port_count; port++)
			ret = passes[pass](plan, port);
	return ret;
}

/* ---- settle ---------------------------------------------------------------------------------- */

static int compare_keys(const struct mk_wanted_frontend *a, const struct mk_wanted_frontend *b)
{
	int order = mk_ip_compare(&a->ip, &b->ip);

	if (order == 0)
		order = (int)a->port - b->port;
	if (order == 0)
		order = (int)a->proto - b->proto;
	return order ? order : (int)a->scope - b->scope;
}

static int compare_planned(const void *left, const void *right)
{
	const struct planned *a = left, *b = right;
	int order = compare_keys(&a->frontend, &b->frontend);

	return order ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

static int compare_set(const void *left, const void *right)
{
	const struct planned *a = left, *b = right;

	if (a->port != b->port)
		return a->port < b->port ? -1 : 1;
	if (a->which != b->which)
		return (int)a->which - (int)b->which;
	return compare_keys(&a->frontend, &b->frontend);
}

static bool same_endpoints(const struct mk_selection *selection)
{
	return selection->cluster_count == selection->local_count &&
	       memcmp(selection->cluster, selection->local,
		      selection->local_count * sizeof(*selection->local)) == 0;
}

void plan_settle(struct plan *plan)
{
	size_t kept = 0;

	qsort(plan->planned, plan->count, sizeof(*plan->planned), compare_planned);
	for (size_t i = 0; i < plan->count; i++) {
		struct planned *planned = &plan->planned[i];

		if (kept > 0 &&
		    compare_keys(&plan->planned[kept - 1].frontend, &planned->frontend) == 0)
			continue;
		if (same_endpoints(&plan->selections[planned->port]))
			planned->which = CLUSTER;
		plan->planned[kept++] = *planned;
	}
	plan->count = kept;
	qsort(plan->planned, plan->count, sizeof(*plan->planned), compare_set);
}

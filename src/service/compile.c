// SPDX-License-Identifier: Apache-2.0
/* A Service and its endpoints -> frontends and backend sets.
 *
 * Each port has at most two sets: the endpoints that serve cluster-wide and those that serve on
 * this node. First all frontends are planned, each with the set it chooses from. Then each address
 * that was planned twice is settled. Finally the sets with a frontend are built. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "service/plan.h"

/* struct mk_frontend counts in 16 bits: further endpoints, the last by address, get no traffic. */
#define BACKENDS_MAX UINT16_MAX

/* ---- build ----------------------------------------------------------------------------------- */

static void add_backends(struct mk_backend_set *set, const struct mk_endpoint *const *endpoints,
			 size_t count, const struct mk_service_view *view, bool local)
{
	for (size_t i = 0; i < count && set->backend_count < BACKENDS_MAX; i++) {
		if (endpoint_is_local(endpoints[i], view) != local)
			continue;
		set->backends[set->backend_count++] = (struct mk_service_backend){
			.ip = endpoints[i]->ip, .port = endpoints[i]->port, .local = local
		};
	}
}

static int build_backends(const struct plan *plan, const struct planned *planned,
			  struct mk_backend_set *set)
{
	const struct mk_selection *selection = &plan->selections[planned->port];
	bool local = planned->which == LOCAL;
	const struct mk_endpoint **endpoints = local ? selection->local : selection->cluster;
	size_t count = local ? selection->local_count : selection->cluster_count;

	set->backends = calloc(count + 1, sizeof(*set->backends));
	if (!set->backends)
		return mk_error_errno(plan->err, ENOMEM, "%zu backends", count);
	add_backends(set, endpoints, count, plan->view, true);
	set->local_count = set->backend_count;
	add_backends(set, endpoints, count, plan->view, false);
	return 0;
}

static int build_maglev(const struct plan *plan, struct mk_backend_set *set)
{
	uint32_t slots = plan->view->maglev_slots ? plan->view->maglev_slots : MK_MAGLEV_SLOTS;
	bool wanted = false;

	for (size_t i = 0; i < set->frontend_count; i++)
		wanted |= set->frontends[i].flags & MK_FRONTEND_MAGLEV;
	if (!wanted || set->backend_count == 0)
		return 0;
	set->maglev = mk_maglev_new(slots, set->backends, set->backend_count);
	set->maglev_bytes = mk_maglev_room(slots) * sizeof(*set->maglev);
	return set->maglev ? 0 : mk_error_errno(plan->err, ENOMEM, "Maglev table");
}

/* Build the set of @count frontends that begin at @planned. */
static int build_set(const struct plan *plan, const struct planned *planned, size_t count,
		     struct mk_backend_set *set)
{
	uint16_t flags = planned->which == CLUSTER ? plan->selections[planned->port].flags : 0;
	int ret;

	set->local_weight = plan->view->local_weight;
	set->port_name = strdup(plan->service->ports[planned->port].name);
	set->frontends = calloc(count, sizeof(*set->frontends));
	if (!set->port_name || !set->frontends)
		return mk_error_errno(plan->err, ENOMEM, "%zu frontends", count);
	for (; set->frontend_count < count; set->frontend_count++) {
		set->frontends[set->frontend_count] = planned[set->frontend_count].frontend;
		set->frontends[set->frontend_count].flags |= flags;
	}
	ret = build_backends(plan, planned, set);
	return ret < 0 ? ret : build_maglev(plan, set);
}

static int build_sets(const struct plan *plan, struct mk_compiled_service *out)
{
	int ret = 0;

	out->sets = calloc(2 * plan->service->port_count, sizeof(*out->sets));
	if (!out->sets)
		return mk_error_errno(plan->err, ENOMEM, "%zu ports", plan->service->port_count);
	for (size_t i = 0, next; ret == 0 && i < plan->count; i = next) {
		const struct planned *planned = &plan->planned[i];

		for (next = i; next < plan->count; next++)
			if (plan->planned[next].port != planned->port ||
			    plan->planned[next].which != planned->which)
				break;
		ret = build_set(plan, planned, next - i, &out->sets[out->set_count++]);
	}
	return ret;
}

/* ---- source ranges --------------------------------------------------------------------------- */

/* Ranges of the other family do not restrict this one. */
static bool is_filtered(const struct mk_service_object *service)
{
	for (size_t i = 0; i < service->source_range_count; i++)
		if (service->source_ranges[i].prefix_bits == 0)
			return false;
	return service->source_range_count > 0 && service->load_balancer_ip_count > 0;
}

static bool lets_node_in(const struct mk_service_object *service,
			 const struct mk_service_view *view)
{
	for (size_t i = 0; i < service->source_range_count; i++)
		for (size_t j = 0; j < view->node_address_count; j++)
			if (mk_cidr_contains(&service->source_ranges[i], &view->node_addresses[j]))
				return true;
	return false;
}

/* Also allow the load balancer's address if a node's address is allowed: a node with that address
 * on an interface sends from it. */
static int build_ranges(const struct plan *plan, struct mk_compiled_service *out)
{
	const struct mk_service_object *service = plan->service;
	size_t room = service->source_range_count + service->load_balancer_ip_count;

	if (!plan->filtered)
		return 0;
	out->ranges = calloc(room, sizeof(*out->ranges));
	if (!out->ranges)
		return mk_error_errno(plan->err, ENOMEM, "%zu source ranges", room);
	for (size_t i = 0; i < service->source_range_count; i++)
		out->ranges[out->range_count++] = service->source_ranges[i];
	for (size_t i = 0; lets_node_in(service, plan->view) && i < service->load_balancer_ip_count;
	     i++)
		out->ranges[out->range_count++] =
			(struct mk_cidr){ .ip = service->load_balancer_ips[i],
					  .prefix_bits = (uint8_t)mk_ip_bits(plan->view->family) };
	mk_cidrs_sort(out->ranges, &out->range_count);
	return 0;
}

/* ---- live endpoints -------------------------------------------------------------------------- */

/* Keep flows of ready endpoints, whatever else they report: they may be chosen. Connections (not
 * UDP) stay whatever becomes of the endpoint, until one side ends them. */
static bool keeps_flows(const struct mk_endpoint *e)
{
	return e->proto == IPPROTO_UDP && (e->ready || e->serving);
}

static int compare_live(const void *left, const void *right)
{
	const struct mk_live_backend *a = left, *b = right;
	int order = mk_ip_compare(&a->ip, &b->ip);

	if (order == 0)
		order = (int)a->port - b->port;
	return order ? order : (int)a->proto - b->proto;
}

/* Two ports of a Service may lead to one port of a pod. */
static size_t drop_repeated(struct mk_live_backend *live, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (kept == 0 || compare_live(&live[kept - 1], &live[i]) != 0)
			live[kept++] = live[i];
	return kept;
}

/* Flows to a cluster that is down end, unless its endpoints are the last ones. */
static bool of_any_port(const struct plan *plan, const struct mk_endpoint *e)
{
	bool is_down = endpoint_is_down(e, plan->view);

	for (size_t i = 0; i < plan->service->port_count; i++)
		if (endpoint_of_port(e, &plan->service->ports[i]) &&
		    !(is_down && plan->selections[i].leaves_down))
			return true;
	return false;
}

static int build_live(const struct plan *plan, const struct mk_endpoint *const *endpoints,
		      size_t count, struct mk_compiled_service *out)
{
	out->live = calloc(count + 1, sizeof(*out->live));
	if (!out->live)
		return mk_error_errno(plan->err, ENOMEM, "%zu endpoints", count);
	for (size_t i = 0; i < count; i++)
		if (keeps_flows(endpoints[i]) && of_any_port(plan, endpoints[i]))
			out->live[out->live_count++] =
				(struct mk_live_backend){ endpoints[i]->ip, endpoints[i]->port,
							  endpoints[i]->proto };
	qsort(out->live, out->live_count, sizeof(*out->live), compare_live);
	out->live_count = drop_repeated(out->live, out->live_count);
	return 0;
}

/* ---- health ---------------------------------------------------------------------------------- */

/* Endpoints are sorted by address; one address may have several ports. Terminating
 * endpoints are not ready. */
static size_t count_local_ready(const struct mk_endpoint *const *endpoints, size_t count,
				const struct mk_service_view *view)
{
	const struct mk_endpoint *last = NULL;
	size_t addresses = 0;

	for (size_t i = 0; i < count; i++) {
		if (!endpoints[i]->ready || !endpoint_is_local(endpoints[i], view))
			continue;
		if (!last || !mk_ip_equal(&last->ip, &endpoints[i]->ip))
			addresses++;
		last = endpoints[i];
	}
	return addresses;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int compile(struct plan *plan, const struct mk_endpoint *const *endpoints, size_t count,
		   struct mk_compiled_service *out)
{
	const struct mk_service_object *service = plan->service;
	int ret = 0;

	plan->selections = calloc(service->port_count, sizeof(*plan->selections));
	if (!plan->selections)
		return mk_error_errno(plan->err, ENOMEM, "%zu ports", service->port_count);
	for (size_t i = 0; ret == 0 && i < service->port_count; i++)
		ret = selection_init(&plan->selections[i], endpoints, count, service,
				     &service->ports[i], plan->view, plan->err);
	plan->filtered = is_filtered(service);
	out->affinity_timeout_s = service->client_ip_affinity ? service->affinity_timeout_s : 0;
	ret = ret ?: plan_frontends(plan);
	if (ret == 0) {
		plan_settle(plan);
		ret = build_sets(plan, out);
	}
	ret = ret ?: build_ranges(plan, out);
	ret = ret ?: build_live(plan, endpoints, count, out);
	out->health_check_port = service->health_check_port;
	if (out->health_check_port)
		out->local_ready_count = count_local_ready(endpoints, count, plan->view);
	for (size_t i = 0; i < service->port_count; i++)
		selection_release(&plan->selections[i]);
	free(plan->selections);
	free(plan->planned);
	return ret;
}

static bool is_ours(const struct mk_service_object *service, const struct mk_service_view *view)
{
	return service && !service->excluded &&
	       plan_service_ip(service, view)->family != AF_UNSPEC && service->port_count > 0;
}

/* Return @service with only its addresses and ranges of @family; its lists stay the model's. */
static struct mk_service_object part_of(const struct mk_service_object *service, sa_family_t family)
{
	struct mk_service_object part = *service;

	part.external_ips = mk_ips_of_family(part.external_ips, &part.external_ip_count, family);
	part.load_balancer_ips =
		mk_ips_of_family(part.load_balancer_ips, &part.load_balancer_ip_count, family);
	part.source_ranges =
		mk_cidrs_of_family(part.source_ranges, &part.source_range_count, family);
	return part;
}

static int compile_service(const struct mk_model *model, const struct mk_service_view *view,
			   struct mk_compiled_service *out, struct mk_error *err)
{
	const struct mk_service_object *service =
		mk_model_service(model, out->namespace_, out->name);
	struct plan plan = { .model = model, .view = view, .err = err };
	cleanup_free const struct mk_endpoint **endpoints = NULL;
	struct mk_service_object part;
	size_t count;

	if (!is_ours(service, view))
		return 0;
	if (mk_model_endpoints(model, out->namespace_, out->name, view->family, &endpoints,
			       &count) < 0)
		return mk_error_errno(err, ENOMEM, "endpoints");
	part = part_of(service, view->family);
	plan.service = &part;
	return compile(&plan, endpoints, count, out);
}

int mk_service_compile(const struct mk_model *model, const struct mk_service_view *view,
		       const char *namespace_, const char *name, struct mk_compiled_service *out,
		       struct mk_error *err)
{
	int ret;

	*out = (struct mk_compiled_service){ .namespace_ = strdup(namespace_),
					     .name = strdup(name) };
	if (out->namespace_ && out->name)
		ret = compile_service(model, view, out, err);
	else
		ret = mk_error_errno(err, ENOMEM, "name");
	if (ret < 0) {
		mk_error_wrap(err, "Service %s/%s", namespace_, name);
		mk_compiled_service_release(out);
	}
	return ret;
}

void mk_compiled_service_release(struct mk_compiled_service *compiled)
{
	for (size_t i = 0; i < compiled->set_count; i++) {
		free(compiled->sets[i].port_name);
		free(compiled->sets[i].frontends);
		free(compiled->sets[i].backends);
		free(compiled->sets[i].maglev);
	}
	free(compiled->sets);
	free(compiled->live);
	free(compiled->ranges);
	free(compiled->namespace_);
	free(compiled->name);
	*compiled = (struct mk_compiled_service){ 0 };
}

// SPDX-License-Identifier: Apache-2.0
#include "service/select.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

bool endpoint_of_port(const struct mk_endpoint *endpoint, const struct mk_service_port *port)
{
	return endpoint->proto == port->proto && strcmp(endpoint->port_name, port->name) == 0;
}

/* Compare only the node's name: a pod in the host's network has an address of any range. */
bool endpoint_is_local(const struct mk_endpoint *endpoint, const struct mk_service_view *view)
{
	return endpoint->node_name && strcmp(endpoint->node_name, view->node_name) == 0;
}

bool endpoint_is_down(const struct mk_endpoint *endpoint, const struct mk_service_view *view)
{
	for (size_t i = 0; i < view->down_count; i++)
		if (mk_cidr_contains(&view->down[i], &endpoint->ip))
			return true;
	return false;
}

/* ---- topology hints -------------------------------------------------------------------------- */

enum topology { TOPOLOGY_ANY, TOPOLOGY_NODE, TOPOLOGY_ZONE };

static bool names(char *const *list, size_t count, const char *name)
{
	for (size_t i = 0; name && i < count; i++)
		if (strcmp(list[i], name) == 0)
			return true;
	return false;
}

static bool for_our_node(const struct mk_hints *hints, const struct mk_service_view *view)
{
	return names(hints->names + hints->zone_count, hints->node_count, view->node_name);
}

static bool for_our_zone(const struct mk_hints *hints, const struct mk_service_view *view)
{
	return names(hints->names, hints->zone_count, view->zone);
}

/* Follow hints only if every ready endpoint has them and one is for us. Their writer may be half
 * done, and half of the hints could leave us without any endpoint. */
static enum topology topology_of(const struct mk_endpoint *const *endpoints, size_t count,
				 const struct mk_service_view *view)
{
	bool all_nodes = true, all_zones = true, our_node = false, our_zone = false;

	for (size_t i = 0; i < count; i++) {
		const struct mk_endpoint *e = endpoints[i];

		if (!e->ready)
			continue;
		all_nodes &= e->hints->node_count > 0;
		all_zones &= e->hints->zone_count > 0;
		our_node |= for_our_node(e->hints, view);
		our_zone |= for_our_zone(e->hints, view);
	}
	if (all_nodes && our_node)
		return TOPOLOGY_NODE;
	return all_zones && our_zone ? TOPOLOGY_ZONE : TOPOLOGY_ANY;
}

static bool allowed(const struct mk_endpoint *e, enum topology topology,
		    const struct mk_service_view *view)
{
	if (topology == TOPOLOGY_NODE)
		return for_our_node(e->hints, view);
	if (topology == TOPOLOGY_ZONE)
		return for_our_zone(e->hints, view);
	return true;
}

/* ---- selection ------------------------------------------------------------------------------- */

static bool lasts(const struct mk_endpoint *e)
{
	return e->serving && e->terminating;
}

/* Select the ready endpoints that topology allows. If there is none, select those that
 * serve while terminating. */
static void select_cluster(struct mk_selection *selection,
			   const struct mk_endpoint *const *endpoints, size_t count,
			   const struct mk_service_view *view)
{
	enum topology topology = topology_of(endpoints, count, view);

	for (size_t i = 0; i < count; i++)
		if (endpoints[i]->ready && allowed(endpoints[i], topology, view))
			selection->cluster[selection->cluster_count++] = endpoints[i];
	for (size_t i = 0, none = selection->cluster_count == 0; none && i < count; i++)
		if (lasts(endpoints[i]))
			selection->cluster[selection->cluster_count++] = endpoints[i];
}

static void select_local(struct mk_selection *selection, const struct mk_endpoint *const *endpoints,
			 size_t count, const struct mk_service_view *view)
{
	for (size_t i = 0; i < count; i++)
		if (endpoints[i]->ready && endpoint_is_local(endpoints[i], view))
			selection->local[selection->local_count++] = endpoints[i];
	for (size_t i = 0, none = selection->local_count == 0; none && i < count; i++)
		if (lasts(endpoints[i]) && endpoint_is_local(endpoints[i], view))
			selection->local[selection->local_count++] = endpoints[i];
}

/* Does an endpoint serve that is in no cluster that is down? */
static bool has_others(const struct mk_endpoint *const *endpoints, size_t count,
		       const struct mk_service_view *view)
{
	for (size_t i = 0; i < count; i++)
		if ((endpoints[i]->ready || lasts(endpoints[i])) &&
		    !endpoint_is_down(endpoints[i], view))
			return true;
	return false;
}

/* Leave out endpoints in clusters that are down. Returns how many are left. */
static size_t leave_down(struct mk_selection *selection, const struct mk_endpoint **endpoints,
			 size_t count, const struct mk_service_view *view)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (!endpoint_is_down(endpoints[i], view))
			endpoints[kept++] = endpoints[i];
		else
			selection->flags |= MK_FRONTEND_WITHOUT_DOWN;
	return kept;
}

/* ---- preference ------------------------------------------------------------------------------ */

/* The place of the endpoint's cluster in the list of those that are preferred, or after it. */
static size_t rank_of(const struct mk_endpoint *e, const struct mk_service_object *service)
{
	size_t rank = 0;

	while (rank < service->preferred_count &&
	       !(e->hints->cluster && strcmp(e->hints->cluster, service->preferred[rank]) == 0))
		rank++;
	return rank;
}

/* The lowest rank of those that are ready, or else of those that serve to their end. */
static size_t best_rank(const struct mk_endpoint *const *endpoints, size_t count,
			const struct mk_service_object *service)
{
	size_t ready = SIZE_MAX, lasting = SIZE_MAX;

	for (size_t i = 0; i < count; i++) {
		size_t rank = rank_of(endpoints[i], service);

		if (endpoints[i]->ready && rank < ready)
			ready = rank;
		if (lasts(endpoints[i]) && rank < lasting)
			lasting = rank;
	}
	return ready == SIZE_MAX ? lasting : ready;
}

/* Keep the endpoints of one rank. Returns how many are left. */
static size_t keep_preferred(struct mk_selection *selection, const struct mk_endpoint **endpoints,
			     size_t count, const struct mk_service_object *service)
{
	size_t best, kept = 0;

	if (service->preferred_count == 0)
		return count;
	best = best_rank(endpoints, count, service);
	for (size_t i = 0; i < count; i++)
		if (rank_of(endpoints[i], service) == best)
			endpoints[kept++] = endpoints[i];
		else if (endpoints[i]->ready)
			selection->flags |= MK_FRONTEND_PREFERS;
	return kept;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* The caller frees the result; NULL: out of memory. */
static const struct mk_endpoint **of_port(const struct mk_endpoint *const *all, size_t count,
					  const struct mk_service_port *port, size_t *used)
{
	const struct mk_endpoint **endpoints = calloc(count + 1, sizeof(*endpoints));

	*used = 0;
	for (size_t i = 0; endpoints && i < count; i++)
		if (endpoint_of_port(all[i], port))
			endpoints[(*used)++] = all[i];
	return endpoints;
}

int selection_init(struct mk_selection *selection, const struct mk_endpoint *const *all,
		   size_t count, const struct mk_service_object *service,
		   const struct mk_service_port *port, const struct mk_service_view *view,
		   struct mk_error *err)
{
	cleanup_free const struct mk_endpoint **endpoints = NULL;
	size_t used;

	*selection = (struct mk_selection){ 0 };
	endpoints = of_port(all, count, port, &used);
	selection->cluster = calloc(used + 1, sizeof(*selection->cluster));
	selection->local = calloc(used + 1, sizeof(*selection->local));
	if (!endpoints || !selection->cluster || !selection->local) {
		selection_release(selection);
		return mk_error_errno(err, ENOMEM, "%zu endpoints", count);
	}
	selection->leaves_down = view->down_count && has_others(endpoints, used, view);
	if (selection->leaves_down)
		used = leave_down(selection, endpoints, used, view);
	select_local(selection, endpoints, used, view);
	used = keep_preferred(selection, endpoints, used, service);
	select_cluster(selection, endpoints, used, view);
	return 0;
}

void selection_release(struct mk_selection *selection)
{
	free(selection->cluster);
	free(selection->local);
	*selection = (struct mk_selection){ 0 };
}

/* SPDX-License-Identifier: Apache-2.0 */
/* src/service/select.h - which endpoints of a Service port serve, cluster-wide and on this node;
 * private to src/service. Rules: Kubernetes pkg/proxy/topology.go. */
#ifndef MK_SERVICE_SELECT_H
#define MK_SERVICE_SELECT_H

#include "service/service.h"

/* Arrays of pointers into the model; empty if no endpoint serves. */
struct mk_selection {
	const struct mk_endpoint **cluster, **local;
	size_t cluster_count, local_count;
	bool leaves_down; /* without endpoints in clusters that are down */
	uint16_t flags; /* of enum mk_frontend_flags: why usable endpoints are not in @cluster */
};

/* Select from @all, the endpoints of @service, those that serve @port of it. */
mk_must_check int selection_init(struct mk_selection *selection,
				 const struct mk_endpoint *const *all, size_t count,
				 const struct mk_service_object *service,
				 const struct mk_service_port *port,
				 const struct mk_service_view *view, struct mk_error *err);
void selection_release(struct mk_selection *selection);

/* Is the endpoint in a cluster that is down? */
bool endpoint_is_down(const struct mk_endpoint *endpoint, const struct mk_service_view *view);
bool endpoint_of_port(const struct mk_endpoint *endpoint, const struct mk_service_port *port);
bool endpoint_is_local(const struct mk_endpoint *endpoint, const struct mk_service_view *view);

#endif

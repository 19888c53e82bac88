/* SPDX-License-Identifier: Apache-2.0 */
/* src/service/plan.h - the frontends of a Service, each with the set of endpoints it chooses from;
 * private to src/service. */
#ifndef MK_SERVICE_PLAN_H
#define MK_SERVICE_PLAN_H

#include "service/select.h"

enum which { CLUSTER, LOCAL };

struct planned {
	struct mk_wanted_frontend frontend;
	size_t port; /* index into service->ports */
	enum which which;
	size_t rank; /* frontends planned earlier have a lower rank, and stay */
};

struct plan {
	const struct mk_model *model;
	const struct mk_service_object *service; /* only its addresses of the view's family */
	const struct mk_service_view *view;
	struct mk_selection *selections; /* per port */
	struct planned *planned;
	size_t count;
	bool filtered; /* load-balancer addresses accept only the source ranges */
	struct mk_error *err;
};

/* The Service's ClusterIP of the view's family. */
const struct mk_ip *plan_service_ip(const struct mk_service_object *service,
				    const struct mk_service_view *view);
/* Plan all frontends. One key may be planned twice. */
mk_must_check int plan_frontends(struct plan *plan);
/* Keep one frontend per key, grouped by set. If both sets of a port are equal, they become one. */
void plan_settle(struct plan *plan);

#endif

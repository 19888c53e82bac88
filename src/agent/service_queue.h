/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/service_queue.h - Services of one family: which are dirty, and for each the steps from
 * the model to tables and routes. */
#ifndef MK_AGENT_SERVICE_QUEUE_H
#define MK_AGENT_SERVICE_QUEUE_H

#include <uthash.h>

#include "agent/health_server.h"
#include "agent/linger.h"
#include "agent/sessions.h"

/* A Service, keyed by "namespace/name": whether it is dirty, and its addresses that have routes. */
struct agent_service {
	char *namespace_, *name; /* behind `key` */
	bool dirty; /* in list `dirty` */
	unsigned int tried; /* round in which it last failed; 0: changed since */
	uint16_t odd_node_port; /* outside nodePortRange, as last logged; 0: none */
	bool was_there; /* the model had it when it was last applied */
	struct agent_service *prev, *next; /* in list `dirty` */
	struct mk_ip *vips; /* sorted, without duplicates */
	size_t vip_count;
	UT_hash_handle hh;
	char key[];
};

/* Dirty Services are applied in rounds. A round takes as many turns as it needs. */
struct agent_round {
	unsigned int number;
	bool gone_done; /* Services that left the model are applied */
	bool untold; /* settings of the programs that follow from Services are not written */
	int status; /* of the first Service that failed */
	struct mk_error err;
};

struct agent_services {
	struct mk_family *family;
	struct mk_core *core; /* of the family */
	const struct mk_own_family *own;
	struct agent_linger *linger;
	struct agent_sessions *sessions;
	struct agent_health *health;
	bool says; /* logs what is true of a Service in both families */
	struct agent_service *all, *dirty;
	struct agent_round round; /* through the dirty ones */
	bool vips_dirty; /* a Node object changed: a node may have gained or lost an address */
	unsigned int loads, view_changes; /* of family and node, when all were marked dirty */
	uint32_t names_serial,
		names_wanted; /* of the names in file services.names; of the last round */
};

/* Returns a NodePort of @service outside nodePortRange; 0: none. Pure. */
uint16_t agent_odd_node_port(const struct mk_config *config,
			     const struct mk_service_object *service);
void agent_service_dirty(struct agent_services *services, const char *namespace_, const char *name);
bool agent_service_is_dirty(const struct agent_services *services, const char *key);
/* Apply the dirty Services. */
mk_must_check int agent_services_reconcile(struct agent_services *services, struct mk_error *err);
/* Compile again the Services whose entries are missing in the tables. Returns how many entries. */
mk_must_check int agent_services_reconcile_tables(struct agent_services *services, size_t budget,
						  struct mk_error *err);
/* Store the Services' names for the command line. */
mk_must_check int agent_services_reconcile_names(struct agent_services *services,
						 struct mk_error *err);
void agent_services_read(const struct agent_services *services, struct mk_metrics *metrics,
			 struct mk_metrics_family *family);
/* The counters of a family's Services; the caller frees `totals`. */
struct agent_service_traffic {
	const struct agent_services *services;
	struct mk_service_totals *totals;
	size_t count;
};
mk_must_check int agent_services_read_traffic(const struct agent_services *services,
					      struct agent_service_traffic *traffic,
					      struct mk_error *err);
/* List the Services with traffic in @metrics: each once, with the sum of both families, which
 * changes the totals of the first. */
mk_must_check int agent_services_list(const struct agent_service_traffic traffic[MK_FAMILIES],
				      struct mk_metrics *metrics, struct mk_error *err);
void agent_services_free(struct agent_services *services);

#endif

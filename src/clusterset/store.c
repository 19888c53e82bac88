// SPDX-License-Identifier: Apache-2.0
/* Entries of the store: Services and clusters, by name. */
#include "clusterset/store.h"

#include <stdlib.h>
#include <string.h>

static uint32_t hash_names(const char *namespace_, const char *name)
{
	return (uint32_t)hash_text(hash_text(hash_text(HASH_SEED, namespace_), "/"), name);
}

/* ---- Services -------------------------------------------------------------------------------- */

struct service *service_find(const struct mk_imports *imports, const char *namespace_,
			     const char *name)
{
	struct mk_index_link *link =
		mk_index_find(&imports->services, hash_names(namespace_, name));

	for (; link; link = mk_index_find_next(link)) {
		struct service *service = mk_index_entry(link, struct service, link);

		if (strcmp(service->namespace_, namespace_) == 0 &&
		    strcmp(service->name, name) == 0)
			return service;
	}
	return NULL;
}

static void service_free(struct service *service)
{
	free(service->namespace_);
	free(service->name);
	free(service);
}

/* Return the Service, which may be new; NULL: no memory. */
struct service *service_get(struct mk_imports *imports, const char *namespace_, const char *name)
{
	struct service *service = service_find(imports, namespace_, name);

	if (service)
		return service;
	service = calloc(1, sizeof(*service));
	if (!service)
		return NULL;
	service->namespace_ = strdup(namespace_);
	service->name = strdup(name);
	if (service->namespace_ && service->name &&
	    mk_index_add(&imports->services, &service->link, hash_names(namespace_, name)) == 0)
		return service;
	service_free(service);
	return NULL;
}

void service_wait(struct mk_imports *imports, struct service *service)
{
	if (service->is_waiting)
		return;
	service->is_waiting = true;
	*imports->last_waiting = service;
	imports->last_waiting = &service->next_waiting;
}

void service_drop(struct mk_imports *imports, struct service *service)
{
	if (service->sources || service->is_held || service->is_waiting)
		return;
	for (size_t family = 0; family < MK_FAMILIES; family++)
		address_free(imports, service, family);
	mk_index_remove(&imports->services, &service->link);
	service_free(service);
}

/* ---- clusters -------------------------------------------------------------------------------- */

struct cluster *cluster_find(const struct mk_imports *imports, const char *name)
{
	struct mk_index_link *link =
		mk_index_find(&imports->clusters, (uint32_t)hash_text(HASH_SEED, name));

	for (; link; link = mk_index_find_next(link)) {
		struct cluster *cluster = mk_index_entry(link, struct cluster, link);

		if (strcmp(cluster->name, name) == 0)
			return cluster;
	}
	return NULL;
}

static void cluster_free(struct cluster *cluster)
{
	free(cluster->name);
	free(cluster->via);
	free(cluster->namespaces);
	free(cluster);
}

struct cluster *cluster_get(struct mk_imports *imports, const char *name)
{
	struct cluster *cluster = cluster_find(imports, name);

	if (cluster)
		return cluster;
	cluster = calloc(1, sizeof(*cluster));
	if (!cluster)
		return NULL;
	cluster->name = strdup(name);
	if (cluster->name && mk_index_add(&imports->clusters, &cluster->link,
					  (uint32_t)hash_text(HASH_SEED, name)) == 0)
		return cluster;
	cluster_free(cluster);
	return NULL;
}

void cluster_drop(struct mk_imports *imports, struct cluster *cluster)
{
	if (cluster->is_set || cluster->service_count > 0)
		return;
	mk_index_remove(&imports->clusters, &cluster->link);
	cluster_free(cluster);
}

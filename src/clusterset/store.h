/* SPDX-License-Identifier: Apache-2.0 */
/* src/clusterset/store.h - what is kept of all Services; private to this folder. */
#ifndef MK_CLUSTERSET_STORE_H
#define MK_CLUSTERSET_STORE_H

#include "base/index.h"
#include "clusterset/content.h"
#include "clusterset/imports.h"

struct cluster {
	struct mk_index_link link; /* by name */
	char *name;
	char *via; /* NULL: none */
	char *namespaces; /* as in struct mk_imports_cluster */
	bool is_set; /* mk_imports_set_cluster(): its Services count */
	struct mk_cidr home[MK_FAMILIES], view[MK_FAMILIES];
	struct mk_cidr external_home[MK_FAMILIES], external_view[MK_FAMILIES];
	bool opens_pods; /* it may name pods of this cluster */
	size_t service_count, endpoint_count; /* published, whether they count or not */
};

/* A PublishedService. */
struct part {
	struct mk_index_link link; /* by name of the object */
	char *object;
	struct source *source;
	struct content *content;
	struct part *next; /* of the source */
};

/* What one cluster publishes of one Service. */
struct source {
	struct cluster *cluster;
	struct service *service;
	struct part *parts;
	/* The last complete set of parts, in their order. New parts count when all are there. */
	struct content **used;
	size_t used_count;
	struct source *next; /* of the Service */
};

/* A clusterset address in use. */
struct address {
	struct mk_index_link link; /* by address */
	struct mk_ip ip; /* AF_UNSPEC: none */
	struct service *service;
};

struct service {
	struct mk_index_link link; /* by namespace and name */
	char *namespace_, *name;
	struct source *sources;
	struct address addresses[MK_FAMILIES];
	bool is_held; /* its ServiceImport exists */
	int64_t created_unix_s; /* of the ServiceImport */
	bool is_waiting;
	struct service *next_waiting;
};

struct mk_imports {
	char *own_cluster;
	struct mk_cidr clusterset[MK_FAMILIES]; /* networks */
	bool is_alpha;
	struct mk_index clusters, parts, services, addresses;
	size_t address_counts[MK_FAMILIES]; /* in use */
	struct service *first_waiting, **last_waiting;
};

/* ---- store.c --------------------------------------------------------------------------------- */

/* Let the Service be merged, after those that wait. */
void service_wait(struct mk_imports *imports, struct service *service);
/* NULL: there is none. */
struct service *service_find(const struct mk_imports *imports, const char *namespace_,
			     const char *name);
/* Return the Service, which may be new; NULL: no memory. */
struct service *service_get(struct mk_imports *imports, const char *namespace_, const char *name);
/* Free the Service if nothing refers to it. */
void service_drop(struct mk_imports *imports, struct service *service);

/* As for Services. */
struct cluster *cluster_find(const struct mk_imports *imports, const char *name);
struct cluster *cluster_get(struct mk_imports *imports, const char *name);
void cluster_drop(struct mk_imports *imports, struct cluster *cluster);

/* ---- address.c ------------------------------------------------------------------------------- */

/* Make sure that the Service has an address of the family. -ENOSPC, -ENOMEM. */
mk_must_check int address_take(struct mk_imports *imports, struct service *service, size_t family,
			       struct mk_error *err);
/* The ServiceImport of the Service names @ip. An address outside of clustersetCidr does not count.
 * If two ServiceImports name it, the older one has it. */
mk_must_check int address_hold(struct mk_imports *imports, struct service *service,
			       const struct mk_ip *ip, struct mk_error *err);
void address_free(struct mk_imports *imports, struct service *service, size_t family);

/* ---- conflicts.c ----------------------------------------------------------------------------- */

/* A port of the import, and the cluster whose it is. */
struct merged_port {
	const struct port *port;
	const char *cluster;
};

/* Join the ports of @sources, which are sorted from the oldest export to the newest, and find out
 * in what they differ. *@ports has at most CONTENT_PORTS; the caller frees it. */
mk_must_check int sources_compare(const struct source *const *sources, size_t count,
				  struct merged_port **ports, size_t *port_count,
				  struct mk_merged *merged);

#endif

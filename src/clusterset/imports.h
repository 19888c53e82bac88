/* SPDX-License-Identifier: Apache-2.0 */
/* src/clusterset/imports.h - all published Services of all clusters, by namespace and name, and the
 * ServiceImports and EndpointSlices that they become here. No I/O: JSON trees in and out. A change
 * of one Service costs the work of one Service. Equal input gives equal text, in whichever order it
 * came. */
#ifndef MK_CLUSTERSET_IMPORTS_H
#define MK_CLUSTERSET_IMPORTS_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/ip.h"

/* Limits of one cluster. Objects beyond them are refused. */
#define MK_IMPORTS_SERVICES  5000
#define MK_IMPORTS_ENDPOINTS 50000

#define MK_IMPORTS_NAME_SIZE 64 /* names of Services and namespaces are DNS labels */

struct mk_imports;

struct mk_imports_config {
	const char *own_cluster; /* clusterName */
	struct mk_cidr clusterset[MK_FAMILIES]; /* clustersetCidr; AF_UNSPEC: not this family */
	bool is_alpha; /* write v1alpha1 of multicluster.x-k8s.io, without the fields of v1beta1 */
};

/* A cluster whose published Services count: this one, and each valid ClusterPeer. */
struct mk_imports_cluster {
	const char *name;
	const char *via; /* the hub by which it is reached; NULL: none */
	struct mk_cidr home[MK_FAMILIES]; /* AF_UNSPEC: none of this family */
	/* Of this cluster: equal to @home. AF_UNSPEC: endpoints of this family are left out. */
	struct mk_cidr view[MK_FAMILIES];
	/* The same for its external addresses, of this cluster too. */
	struct mk_cidr external_home[MK_FAMILIES], external_view[MK_FAMILIES];
	/* ",a,b,": namespaces whose Services count. "*" stands for all but kube-*. NULL: ",*,". */
	const char *namespaces;
	/* access: Pods. Pods of this cluster may be endpoints of its Services. */
	bool opens_pods;
};

/* Copies the texts of @config. NULL: no memory. */
struct mk_imports *mk_imports_new(const struct mk_imports_config *config);
void mk_imports_free(struct mk_imports *imports);

/* Add a cluster, or change its ranges. Its Services are merged again, if something changed. */
mk_must_check int mk_imports_set_cluster(struct mk_imports *imports,
					 const struct mk_imports_cluster *cluster,
					 struct mk_error *err);
/* Its published objects no longer count. They are kept until they are deleted. */
void mk_imports_remove_cluster(struct mk_imports *imports, const char *name);

/* A PublishedService has come or changed; of this cluster too: apply the parts of mk_publish().
 * Label networking.monokube.io/cluster says whose it is. What a hub has shown, by label
 * networking.monokube.io/relayed-by, counts while the cluster is reached by this hub. If a part of
 * it makes no sense, it is refused as a whole with -EINVAL or -E2BIG, and its last valid version
 * stays. */
mk_must_check int mk_imports_apply(struct mk_imports *imports, json_object *published,
				   struct mk_error *err);
/* It is gone. @namespace_ and @object: those of its metadata. */
void mk_imports_delete(struct mk_imports *imports, const char *namespace_, const char *object);

/* A ServiceImport exists here, also one that the leader has just written: its spec.ips are kept and
 * in use. Apply all of them before the first merge. A wrong one is -EINVAL, and holds nothing. */
mk_must_check int mk_imports_hold(struct mk_imports *imports, json_object *service_import,
				  struct mk_error *err);
/* The ServiceImport is gone. Its addresses are free, unless a cluster still exports it. */
void mk_imports_release(struct mk_imports *imports, const char *namespace_, const char *name);

/* Let a Service be merged again: something else has changed what the leader wrote. @name is NULL:
 * all Services of the namespace, which has come. Both are NULL: all Services. */
void mk_imports_touch(struct mk_imports *imports, const char *namespace_, const char *name);
/* Take the next Service that has to be merged: the one that waits longest. False: none. */
bool mk_imports_next(struct mk_imports *imports, char namespace_[MK_IMPORTS_NAME_SIZE],
		     char name[MK_IMPORTS_NAME_SIZE]);

struct mk_merged {
	/* The ServiceImport without its status, to be applied; NULL: no cluster exports it, so
	 * import and slices have to go. */
	json_object *import;
	/* For mk_import_status(): the list status.clusters, sorted by name. NULL as @import. */
	json_object *clusters;
	bool lacks_family; /* no family of the exports is one of this cluster, so it has no address */
	/* Sorted by name. Slices of this Service that are not among them have to go. The name is
	 * SERVICE-CLUSTER-HASH. It stays while the published slice has its name. */
	json_object **slices;
	size_t slice_count;
	size_t endpoint_count;
	bool is_own; /* this cluster exports it: the next ones are for its ServiceExport */
	/* Of condition Conflict: reasons of mcs-api with commas between; NULL: no conflict. */
	char *conflict_reasons;
	char *conflict_message;
	size_t left_out; /* endpoints */
	char *note; /* names the first endpoint or cluster that is left out, and why; NULL: none */
};

/* Compute import and slices of one Service. The caller releases @merged, also after an error:
 * -ENOMEM, or -ENOSPC if clustersetCidr has no free address. After an error the Service waits for
 * the next call of mk_imports_touch(), or its next change. */
mk_must_check int mk_imports_merge(struct mk_imports *imports, const char *namespace_,
				   const char *name, struct mk_merged *merged,
				   struct mk_error *err);
void mk_merged_release(struct mk_merged *merged);

#endif

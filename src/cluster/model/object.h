/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/model/object.h - decode, compare and release single objects; private to this folder.
 *
 * A decode function fills a zeroed object. If it fails, release what it leaves. Lists without a
 * meaningful order are sorted, so that equal content compares equal. */
#ifndef MK_CLUSTER_MODEL_OBJECT_H
#define MK_CLUSTER_MODEL_OBJECT_H

#include "cluster/model/json.h"
#include "cluster/model/model.h"
#include "cluster/model/texts.h"

/* The identity of an object. The strings belong to the tree. */
struct mk_object_id {
	enum mk_kind kind;
	const char *namespace_, *name;
};

const char *kind_name(enum mk_kind kind);
bool is_object_name(const char *text);

/* Does a label exclude this Service, EndpointSlice or Endpoints object? It is another proxy's, or
 * is not to be balanced. kube-proxy asks the API server only for those without either label; a
 * cluster directory has them all. */
mk_must_check int left_out_by_label(const struct mk_json *tree, bool *left_out,
				    struct mk_error *err);

/* Read member wireguard of @spec: publicKey and port. Absent: none. */
mk_must_check int wireguard_decode(const struct mk_json *spec, struct mk_wg_public *wireguard,
				   struct mk_error *err);
bool wireguard_equal(const struct mk_wg_public *a, const struct mk_wg_public *b);
mk_must_check int node_decode(struct mk_texts *texts, const struct mk_json *tree,
			      const struct mk_object_id *id, struct mk_node_object *node,
			      struct mk_error *err);
/* Compare without the condition Ready, see mk_model_listener. */
bool node_equal(const struct mk_node_object *a, const struct mk_node_object *b);
void node_release(struct mk_texts *texts, struct mk_node_object *node);

mk_must_check int service_decode(struct mk_texts *texts, const struct mk_json *tree,
				 const struct mk_object_id *id, struct mk_service_object *service,
				 struct mk_error *err);
/* Decode a ServiceImport as the Service @id->name MK_CLUSTERSET_SUFFIX. */
mk_must_check int service_import_decode(struct mk_texts *texts, const struct mk_json *tree,
					const struct mk_object_id *id,
					const struct mk_clusterset *clusterset,
					struct mk_service_object *service, struct mk_error *err);
bool service_equal(const struct mk_service_object *a, const struct mk_service_object *b);
void service_release(struct mk_texts *texts, struct mk_service_object *service);

/* Get the range of each family of a ServiceCIDR; family AF_UNSPEC: none. */
mk_must_check int service_cidr_decode(const struct mk_json *tree, struct mk_cidr cidrs[MK_FAMILIES],
				      struct mk_error *err);

/* An EndpointSlice or an Endpoints object. */
struct mk_endpoint_set {
	/* of the model; set by the caller of a decode function */
	struct mk_texts *texts;
	const struct mk_clusterset
		*clusterset; /* without name: slices of imports have no Service */
	char *namespace_;
	char *service; /* NULL: no Service, or not for service proxies */
	bool imported; /* @service is a ServiceImport */
	bool remote; /* its endpoints are in another cluster, so on no node of this one */
	struct mk_hints *of_cluster; /* names its cluster, without any hint; NULL: unknown */
	sa_family_t family; /* a slice's addressType; AF_UNSPEC: of an Endpoints object */
	struct mk_endpoint *endpoints; /* sorted by endpoint_compare() */
	size_t count;
	size_t skipped; /* addresses that are not usable, or not of the family */
	char *passed_over; /* see pass_over() */
};

mk_must_check int endpoint_slice_decode(const struct mk_json *tree, const struct mk_object_id *id,
					struct mk_endpoint_set *set, struct mk_error *err);
mk_must_check int endpoints_decode(const struct mk_json *tree, const struct mk_object_id *id,
				   struct mk_endpoint_set *set, struct mk_error *err);
/* Get a slice's annotation endpoints.kubernetes.io/last-change-trigger-time; 0: none or invalid. */
int64_t endpoint_slice_trigger(const struct mk_json *tree);
bool endpoint_set_equal(const struct mk_endpoint_set *a, const struct mk_endpoint_set *b);
void endpoint_set_release(struct mk_endpoint_set *set);

/* A total order over all members of an endpoint. Address, port, protocol and port name,
 * which identify it, come first. Then the better state: not terminating, ready, serving,
 * on a known node. */
int endpoint_compare(const struct mk_endpoint *a, const struct mk_endpoint *b);
/* Do @a and @b name the same address, port, protocol and port name? */
bool endpoint_same(const struct mk_endpoint *a, const struct mk_endpoint *b);

/* Like strcmp(3), with NULL larger than any text. */
int text_compare(const char *a, const char *b);

/* Append @ip to *@ips. */
mk_must_check int ips_add(struct mk_ip **ips, size_t *count, const struct mk_ip *ip,
			  struct mk_error *err);
#endif

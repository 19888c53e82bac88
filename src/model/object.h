/* SPDX-License-Identifier: Apache-2.0 */
/* src/model/object.h - the objects one by one: decode, compare, release; private to src/model.
 *
 * decode fills a zeroed object; on failure it leaves what the matching release takes. Lists whose
 * order means nothing are sorted, so that equal content compares equal. */
#ifndef MK_MODEL_OBJECT_H
#define MK_MODEL_OBJECT_H

#include "model/json.h"
#include "model/model.h"

/* Which object a tree is. The strings belong to the tree. */
struct mk_object_id {
	enum mk_kind kind;
	const char *namespace_, *name;
};

const char *mk_kind_name(enum mk_kind kind);
bool mk_is_object_name(const char *text);

/* Does a label of a Service, EndpointSlice or Endpoints object keep it from us? It is another proxy's, or
 * nobody is to balance it. kube-proxy asks the API server for all three without either label; a
 * cluster directory has them all. */
mk_must_check int mk_left_out_by_label(const struct mk_json *tree, bool *left_out,
				       struct mk_error *err);

mk_must_check int mk_node_decode(const struct mk_json *tree, const struct mk_object_id *id,
				 struct mk_node_object *node, struct mk_error *err);
/* The condition Ready is not compared, see mk_model_listener. */
bool mk_node_equal(const struct mk_node_object *a, const struct mk_node_object *b);
void mk_node_release(struct mk_node_object *node);

mk_must_check int mk_service_decode(const struct mk_json *tree, const struct mk_object_id *id,
				    struct mk_service_object *service, struct mk_error *err);
bool mk_service_equal(const struct mk_service_object *a, const struct mk_service_object *b);
void mk_service_release(struct mk_service_object *service);

/* The IPv4 range of a ServiceCIDR; family AF_UNSPEC: none. */
mk_must_check int mk_service_cidr_decode(const struct mk_json *tree, struct mk_cidr *cidr,
					 struct mk_error *err);

/* An EndpointSlice or an Endpoints object. Names and hints are shared by the endpoints that one
 * address makes with each port, and owned by the set. */
struct mk_endpoint_set {
	char *namespace_;
	char *service; /* NULL: of no Service, or not for service proxies */
	struct mk_endpoint *endpoints; /* sorted by mk_endpoint_compare() */
	size_t count;
	void **owned;
	size_t owned_count;
	char *passed_over; /* see mk_pass_over() */
};

mk_must_check int mk_endpoint_slice_decode(const struct mk_json *tree,
					   const struct mk_object_id *id,
					   struct mk_endpoint_set *set, struct mk_error *err);
mk_must_check int mk_endpoints_decode(const struct mk_json *tree, const struct mk_object_id *id,
				      struct mk_endpoint_set *set, struct mk_error *err);
/* What the annotation endpoints.kubernetes.io/last-change-trigger-time of a slice says; 0: none,
 * or no time. */
int64_t mk_endpoint_slice_trigger(const struct mk_json *tree);
bool mk_endpoint_set_equal(const struct mk_endpoint_set *a, const struct mk_endpoint_set *b);
void mk_endpoint_set_release(struct mk_endpoint_set *set);

/* A total order over everything an endpoint says: address, port, protocol and port name, which
 * identify it, and then the better state first: not terminating, ready, serving, on a known node. */
int mk_endpoint_compare(const struct mk_endpoint *a, const struct mk_endpoint *b);
/* Do @a and @b name the same address, port, protocol and port name? */
bool mk_endpoint_same(const struct mk_endpoint *a, const struct mk_endpoint *b);

/* strcmp(3) where NULL is larger than any text. */
int mk_text_compare(const char *a, const char *b);

/* Append @ip to *@ips if it is IPv4; others are passed over. */
mk_must_check int mk_ips_add(struct mk_ip **ips, size_t *count, const struct mk_ip *ip,
			     struct mk_error *err);
/* Sort, and drop what is there twice. */
void mk_ips_sort(struct mk_ip *ips, size_t *count);
bool mk_ips_equal(const struct mk_ip *a, size_t a_count, const struct mk_ip *b, size_t b_count);

#endif

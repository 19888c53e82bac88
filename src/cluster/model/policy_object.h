/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/model/policy_object.h - decode, compare and release the objects of policy.h,
 * chain.h and peer.h; private to this folder. As in object.h, a decode function fills a zeroed
 * object, and the caller releases what it leaves after an error. Names of objects belong to
 * their entry of the model. */
#ifndef MK_CLUSTER_MODEL_POLICY_OBJECT_H
#define MK_CLUSTER_MODEL_POLICY_OBJECT_H

#include "cluster/model/chain.h"
#include "cluster/model/object.h"
#include "cluster/model/peer.h"
#include "cluster/model/texts.h"

union policy_object {
	struct mk_pod_object pod;
	struct mk_namespace_object namespace_;
	struct mk_network_policy network_policy;
	struct mk_cluster_policy cluster_policy;
	struct mk_chain chain;
	struct mk_cluster_peer cluster_peer;
	struct mk_published_cluster published_cluster;
	struct mk_published_node published_node;
	struct mk_published_service published_service;
	struct mk_service_export service_export;
};

typedef int policy_decode_fn(struct mk_texts *texts, const struct mk_json *tree,
			     const struct mk_object_id *id, union policy_object *object,
			     struct mk_error *err);
typedef bool policy_equal_fn(const union policy_object *a, const union policy_object *b);
typedef void policy_release_fn(struct mk_texts *texts, union policy_object *object);

policy_decode_fn pod_decode, namespace_decode, network_policy_decode, cluster_policy_decode;
policy_decode_fn chain_decode, cluster_peer_decode, published_cluster_decode;
policy_decode_fn published_node_decode, published_service_decode, service_export_decode;

policy_equal_fn pod_equal, namespace_equal, network_policy_equal, cluster_policy_equal;
policy_equal_fn chain_equal, cluster_peer_equal, published_cluster_equal;
policy_equal_fn published_node_equal, published_service_equal, service_export_equal;

policy_release_fn pod_release, namespace_release, network_policy_release, cluster_policy_release;
policy_release_fn chain_release, cluster_peer_release, published_cluster_release;
policy_release_fn published_node_release, published_service_release, service_export_release;

/* @object follows @former, which may have views that its lost status no longer says. */
void cluster_peer_keep(const union policy_object *former, union policy_object *object);

/* The peer has no status: it has had these views, if there are such. False: it has a status. */
bool cluster_peer_restore(struct mk_cluster_peer *peer, const struct mk_cidr pods[MK_FAMILIES],
			  const struct mk_cidr externals[MK_FAMILIES]);

/* peer.c: parse one range of @cidrs, or "a" or "a,b" of two families. A second range of a family is
 * -EINVAL. */
mk_must_check int peer_range_add(const char *text, struct mk_cidr cidrs[MK_FAMILIES]);
mk_must_check int peer_ranges_parse(const char *text, struct mk_cidr cidrs[MK_FAMILIES]);
#define PEER_RANGES                                                                        \
	"an IPv4 range of 8 to 30 bits, an IPv6 range of 16 to 126 bits, or one of each, " \
	"such as 10.244.0.0/16,fd00:10:244::/48"

/* Return the function that @pod is a replica of, a text of the model; NULL: none. */
const char *pod_function(const struct mk_pod_object *pod);
/* Forget the pod's UID and node. */
void pod_unbind(struct mk_texts *texts, struct mk_pod_object *pod);

/* ---- parts of policies ----------------------------------------------------------------------- */

/* @at absent: an empty selector. */
mk_must_check int selector_decode(struct mk_texts *texts, const struct mk_json *at,
				  struct mk_selector *selector, struct mk_error *err);
bool selector_equal(const struct mk_selector *a, const struct mk_selector *b);
void selector_release(struct mk_texts *texts, struct mk_selector *selector);

/* What the rules of one policy have in common. */
struct policy_reading {
	struct mk_texts *texts;
	char **passed_over; /* the policy's */
	enum mk_policy_direction direction;
};

/* Decode the rules of @in->direction in @spec, each with @decode. An item of null is absent. */
typedef int policy_rule_fn(const struct policy_reading *in, const struct mk_json *item,
			   struct mk_policy_rule_object *rule, struct mk_error *err);
mk_must_check int policy_rules_decode(const struct policy_reading *in, const struct mk_json *spec,
				      policy_rule_fn *decode, struct mk_policy_rules *rules,
				      struct mk_error *err);
bool policy_rules_equal(const struct mk_policy_rules *a, const struct mk_policy_rules *b);
void policy_rules_release(struct mk_texts *texts, struct mk_policy_rules *rules);

/* Read MK_POLICY_MODE_ANNOTATION of @tree. A value that is not understood is passed over. */
mk_must_check int policy_mode_decode(const struct mk_json *tree, bool *audited, char **passed_over,
				     struct mk_error *err);

/* Append a zeroed peer or port to @rule. NULL: out of memory. */
mk_must_check struct mk_policy_peer_object *policy_peer_add(struct mk_policy_rule_object *rule,
							    struct mk_error *err);
mk_must_check struct mk_policy_port_object *policy_port_add(struct mk_policy_rule_object *rule,
							    struct mk_error *err);
/* The entry makes no sense, as @why says: keep it as one that is not valid. @ret is returned if it
 * is another failure. */
mk_must_check int policy_peer_invalid(const struct policy_reading *in, int ret,
				      const struct mk_error *why,
				      struct mk_policy_peer_object *peer, struct mk_error *err);
mk_must_check int policy_port_invalid(const struct policy_reading *in, int ret,
				      const struct mk_error *why,
				      struct mk_policy_port_object *port, struct mk_error *err);
/* The rule makes no sense, as @why says: add a peer that is not valid. */
mk_must_check int policy_rule_invalid(const struct policy_reading *in, int ret,
				      const struct mk_error *why,
				      struct mk_policy_rule_object *rule, struct mk_error *err);
/* Read a peer: either ipBlock, or podSelector and namespaceSelector. */
mk_must_check int policy_peer_decode(struct mk_texts *texts, const struct mk_json *item,
				     struct mk_policy_peer_object *peer, struct mk_error *err);
/* Read `port` as a number and `endPort`. Neither: all ports. */
mk_must_check int policy_port_decode(const struct mk_json *item, struct mk_policy_port_object *port,
				     struct mk_error *err);
/* Read a range of addresses; its host bits have no meaning. */
mk_must_check int policy_cidr_decode(const struct mk_json *at, struct mk_cidr *cidr,
				     struct mk_error *err);

#endif

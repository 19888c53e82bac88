// SPDX-License-Identifier: Apache-2.0
/* What this cluster publishes in monokube-published: itself, its nodes, its exported Services. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monokube/clusters.h"
#include "agent/leader/leader_internal.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "clusters/clusters.h"
#include "clusterset/status.h"

/* ---- this cluster and its nodes -------------------------------------------------------------- */

json_object *leader_published(const char *kind, const char *name, const char *cluster)
{
	json_object *tree = json_object_new_object(), *metadata = json_object_new_object(),
		    *labels = json_object_new_object();

	mk_put_text(tree, "apiVersion", LEADER_API);
	mk_put_text(tree, "kind", kind);
	mk_put_text(labels, MK_CLUSTER_LABEL, cluster);
	mk_put_text(labels, MK_MANAGED_BY_LABEL, MK_MANAGED_BY);
	mk_put_text(metadata, "name", name);
	mk_put_text(metadata, "namespace", MK_PUBLISHED_NAMESPACE);
	json_object_object_add(metadata, "labels", labels);
	json_object_object_add(tree, "metadata", metadata);
	return tree;
}

static void apply(struct mk_leader *leader, json_object *tree)
{
	leader_apply(leader, tree);
	leader_inbox_put(leader, tree);
	json_object_put(tree);
}

/* The first family of clusterCidr comes first. */
static sa_family_t family_at(const struct mk_config *config, size_t index)
{
	sa_family_t first = config->cluster.primary;

	return index == 0 ? first : first == AF_INET ? AF_INET6 : AF_INET;
}

#define RANGES_CHARS (2 * MK_CIDR_STRLEN + 2)

/* Format those of the families that this cluster has. */
static void format_ranges(const struct mk_config *config, const struct mk_ranges *of,
			  char text[RANGES_CHARS])
{
	char range[MK_CIDR_STRLEN];
	size_t used = 0;

	*text = '\0';
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		sa_family_t family = family_at(config, i);
		const struct mk_cidr *at = &of->of[mk_family_index(family)];

		if (mk_config_has(config, family) && at->ip.family != AF_UNSPEC)
			used += (size_t)snprintf(text + used, RANGES_CHARS - used, "%s%s",
						 used ? "," : "", mk_cidr_format(at, range));
	}
}

static void publish_self(struct mk_leader *leader)
{
	const struct mk_config *config = leader->config;
	json_object *tree = leader_published("PublishedCluster", config->cluster_name,
					     config->cluster_name),
		    *spec = json_object_new_object(), *versions = json_object_new_array();
	char ranges[RANGES_CHARS], externals[RANGES_CHARS];

	format_ranges(config, &config->cluster, ranges);
	format_ranges(config, &config->externals, externals);
	mk_put_text(spec, "name", config->cluster_name);
	mk_put_number(spec, "number",
		      config->cluster_id ?: mk_cluster_number(config->cluster_name));
	mk_put_text(spec, "podCidr", ranges);
	if (*externals)
		mk_put_text(spec, "externalCidr", externals);
	json_object_array_add(versions, json_object_new_int(MK_CLUSTER_WIRE));
	json_object_object_add(spec, "wireVersions", versions);
	json_object_object_add(tree, "spec", spec);
	apply(leader, tree);
}

/* Return the address of the carriers, of the underlay's family if the node has one. */
static const struct mk_ip *address_of(const struct mk_config *config,
				      const struct mk_node_object *node)
{
	sa_family_t family = config->underlay_family ?: config->cluster.primary;
	const struct mk_ip *ip = &node->internal_ips[mk_family_index(family)];

	return ip->family ? ip : &node->internal_ips[!mk_family_index(family)];
}

static json_object *ranges_of(const struct mk_config *config, const struct mk_node_object *node)
{
	json_object *ranges = json_object_new_array();
	char text[MK_CIDR_STRLEN];

	for (size_t i = 0; i < MK_FAMILIES; i++) {
		const struct mk_cidr *range =
			&node->pod_cidrs[mk_family_index(family_at(config, i))];

		if (range->ip.family != AF_UNSPEC)
			json_object_array_add(ranges,
					      json_object_new_string(mk_cidr_format(range, text)));
	}
	return ranges;
}

static json_object *wireguard_of(const struct mk_wg_public *wireguard)
{
	json_object *object = json_object_new_object();
	char text[MK_WG_KEY_STRLEN];

	mk_put_text(object, "publicKey", mk_wg_key_format(wireguard->key, text));
	mk_put_number(object, "port", wireguard->port);
	return object;
}

static bool has_borders(const struct mk_model *model)
{
	mk_model_each(struct mk_node_object, node, model, MK_KIND_NODE)
		if (node->border)
			return true;
	return false;
}

/* If there are border nodes, peers know no others. */
static bool is_published(const struct mk_leader *leader, const struct mk_node_object *node)
{
	const struct mk_config *config = leader->config;

	if (node && leader->term->has_borders && !node->border)
		return false;
	return node && address_of(config, node)->family != AF_UNSPEC &&
	       (node->pod_cidrs[0].ip.family != AF_UNSPEC ||
		node->pod_cidrs[1].ip.family != AF_UNSPEC);
}

static void publish_node(struct mk_leader *leader, const struct mk_node_object *node)
{
	const struct mk_config *config = leader->config;
	json_object *spec, *addresses, *tree;
	char name[2 * MK_OBJECT_NAME_SIZE], text[MK_IP_STRLEN];

	if (!is_published(leader, node))
		return;
	snprintf(name, sizeof(name), "%s.%s", config->cluster_name, node->name);
	tree = leader_published("PublishedNode", name, config->cluster_name);
	spec = json_object_new_object();
	addresses = json_object_new_array();
	mk_put_text(spec, "node", node->name);
	json_object_object_add(spec, "podCidrs", ranges_of(config, node));
	json_object_array_add(addresses,
			      json_object_new_string(mk_ip_format(address_of(config, node), text)));
	json_object_object_add(spec, "addresses", addresses);
	mk_put_number(spec, "port", config->vxlan_port);
	if (node->wireguard.port)
		json_object_object_add(spec, "wireguard", wireguard_of(&node->wireguard));
	json_object_object_add(tree, "spec", spec);
	apply(leader, tree);
}

void leader_publish_cluster(struct mk_leader *leader)
{
	if (!leader_has_work(leader))
		return;
	leader->term->has_borders = has_borders(leader->model);
	if (leader->term->cluster_due)
		publish_self(leader);
	mk_model_each(struct mk_node_object, node, leader->model, MK_KIND_NODE)
		publish_node(leader, node);
}

/* ---- exported Services ----------------------------------------------------------------------- */

struct leader_export *leader_find_export(const struct leader_term *term, const char *namespace_,
					 const char *name)
{
	char key[2 * MK_OBJECT_NAME_SIZE];
	struct leader_export *found;

	snprintf(key, sizeof(key), "%s/%s", namespace_, name);
	HASH_FIND_STR(term->exports, key, found);
	return found;
}

static bool has_part(const struct mk_publication *publication, const char *name)
{
	for (size_t i = 0; i < publication->part_count; i++)
		if (strcmp(mk_json_metadata(publication->parts[i], "name"), name) == 0)
			return true;
	return false;
}

/* Let the merge know which parts there are. */
static void hand_over(struct mk_leader *leader, const struct mk_publication *former,
		      const struct mk_publication *publication)
{
	struct mk_imports *imports = leader->term->imports;
	struct mk_error err;

	if (!imports)
		return;
	for (size_t i = 0; i < former->part_count; i++)
		if (!has_part(publication, mk_json_metadata(former->parts[i], "name")))
			mk_imports_delete(imports, MK_PUBLISHED_NAMESPACE,
					  mk_json_metadata(former->parts[i], "name"));
	for (size_t i = 0; i < publication->part_count; i++)
		if (mk_imports_apply(imports, publication->parts[i], &err) < 0)
			leader_failed(leader, &err);
}

static void free_export(struct leader_term *term, struct leader_export *of)
{
	HASH_DEL(term->exports, of);
	mk_publication_release(&of->publication);
	mk_merged_release(&of->merged);
	free(of->key);
	free(of);
}

static void free_peers(struct mk_imports_cluster *peers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free((char *)peers[i].name);
	free(peers);
}

void leader_exports_free(struct leader_term *term)
{
	struct leader_export *of, *next;

	HASH_ITER(hh, term->exports, of, next)
		free_export(term, of);
	free_peers(term->publish_peers, term->publish_peer_count);
}

static struct leader_export *add(struct leader_term *term, const char *namespace_, const char *name)
{
	struct leader_export *of = calloc(1, sizeof(*of));

	if (!of || asprintf(&of->key, "%s/%s", namespace_, name) < 0) {
		free(of);
		mk_log_error("ServiceExport %s/%s: not published: out of memory", namespace_, name);
		return NULL;
	}
	HASH_ADD_KEYPTR(hh, term->exports, of->key, strlen(of->key), of);
	return of;
}

/* ---- external addresses ---------------------------------------------------------------------- */

static int64_t now_s(void)
{
	return (int64_t)(mk_time_monotonic_ns() / MK_NS_PER_S);
}

/* The Service @key has none any more. */
static void forget_externals(struct mk_leader *leader, const char *key)
{
	struct mk_error err;

	if (mk_externals_set(leader->term->externals, key, NULL, 0, now_s(), NULL, &err) < 0)
		leader_failed(leader, &err);
}

static void claim(struct mk_leader *leader, json_object *endpoint)
{
	json_object *address = mk_json_at(mk_json_member(endpoint, "addresses"), 0);
	const char *target = json_object_get_string(mk_json_member(endpoint, "target"));
	struct mk_ip ip, of;

	if (!target || !address || mk_ip_parse(target, &of) < 0 ||
	    mk_ip_parse(json_object_get_string(address), &ip) < 0)
		return;
	if (mk_externals_claim(leader->term->externals, &of, &ip, now_s()) < 0)
		mk_log_error("leader: external address %s: out of memory", target);
}

/* Later ones are what this leader has written itself. */
void leader_externals_seen(struct mk_leader *leader, json_object *tree)
{
	json_object *slices = mk_json_member(mk_json_member(tree, "spec"), "slices");

	if (mk_lead_has_listed(leader->lead, MK_LEAD_OWN_SERVICES))
		return;
	for (size_t i = 0; i < mk_json_length(slices); i++) {
		json_object *endpoints =
			mk_json_member(json_object_array_get_idx(slices, i), "endpoints");

		for (size_t j = 0; j < mk_json_length(endpoints); j++)
			claim(leader, json_object_array_get_idx(endpoints, j));
	}
}

static void read_again(struct mk_leader *leader, bool (*is_due)(const struct leader_export *of))
{
	struct leader_export *of, *next;

	HASH_ITER(hh, leader->term->exports, of, next) {
		const char *slash = strchr(of->key, '/');
		cleanup_free char *namespace_ = strndup(of->key, (size_t)(slash - of->key));

		if (namespace_ && is_due(of))
			mk_lead_read(leader->lead, namespace_, slash + 1);
	}
}

void leader_externals_measure(const struct mk_leader *leader, struct mk_metrics *metrics)
{
	if (leader->term)
		metrics->externals = mk_externals_use(leader->term->externals, now_s());
}

static bool is_unread(const struct leader_export *of)
{
	return !of->is_read;
}

/* Services that were read before that are read again. */
void leader_externals_listed(struct mk_leader *leader)
{
	read_again(leader, is_unread);
}

/* ---- peers whose pods are endpoints ---------------------------------------------------------- */

struct listing {
	struct mk_imports_cluster *peers;
	size_t count;
	bool failed;
};

static void list_peers(const struct mk_leader *leader, struct listing *to)
{
	to->peers =
		calloc(mk_model_count(leader->model, MK_KIND_CLUSTER_PEER) + 1, sizeof(*to->peers));
	to->failed = !to->peers;
	if (to->failed)
		return;
	mk_model_each(struct mk_cluster_peer, peer, leader->model, MK_KIND_CLUSTER_PEER) {
		struct mk_imports_cluster cluster;

		if (!leader_cluster_of(leader, peer, &cluster))
			continue;
		cluster.via = NULL;
		cluster.name = strdup(peer->name);
		to->failed |= !cluster.name;
		to->peers[to->count++] = cluster;
	}
}

static bool is_same_peer(const struct mk_imports_cluster *a, const struct mk_imports_cluster *b)
{
	return strcmp(a->name, b->name) == 0 &&
	       mk_cidrs_equal(a->home, MK_FAMILIES, b->home, MK_FAMILIES) &&
	       mk_cidrs_equal(a->view, MK_FAMILIES, b->view, MK_FAMILIES) &&
	       mk_cidrs_equal(a->external_home, MK_FAMILIES, b->external_home, MK_FAMILIES) &&
	       mk_cidrs_equal(a->external_view, MK_FAMILIES, b->external_view, MK_FAMILIES);
}

static bool has_same_peers(const struct leader_term *term, const struct listing *now)
{
	if (!term->publish_peers || term->publish_peer_count != now->count)
		return false;
	for (size_t i = 0; i < now->count; i++)
		if (!is_same_peer(&term->publish_peers[i], &now->peers[i]))
			return false;
	return true;
}

static bool depends_on_peers(const struct leader_export *of)
{
	return !of->is_read || of->publication.depends_on_peers;
}

/* Before the first list is complete, a view could get an external address. */
void leader_exports_peers(struct mk_leader *leader)
{
	struct leader_term *term = leader->term;
	struct listing now = { 0 };

	if (!mk_lead_has_listed(leader->lead, MK_LEAD_PEERS) ||
	    (leader->clusters && !leader->clusters->known))
		return;
	list_peers(leader, &now);
	if (now.failed)
		mk_log_error("leader: endpoints in peers: out of memory");
	if (now.failed || has_same_peers(term, &now)) {
		free_peers(now.peers, now.count);
		return;
	}
	free_peers(term->publish_peers, term->publish_peer_count);
	term->publish_peers = now.peers;
	term->publish_peer_count = now.count;
	read_again(leader, depends_on_peers);
}

/* ---- changes of ServiceExports --------------------------------------------------------------- */

void leader_export_seen(struct mk_leader *leader, const char *namespace_, const char *name,
			json_object *tree)
{
	struct leader_term *term = leader->term;
	struct leader_export *of = leader_find_export(term, namespace_, name);
	const struct mk_publication none = { 0 };

	if (!tree && of) {
		forget_externals(leader, of->key);
		hand_over(leader, &of->publication, &none);
		free_export(term, of);
	} else if (tree && (of || add(term, namespace_, name))) {
		mk_lead_read(leader->lead, namespace_, name);
	}
}

static struct mk_publish_own own_of(const struct mk_leader *leader)
{
	const struct mk_config *config = leader->config;
	struct mk_publish_own own = {
		.cluster = config->cluster_name,
		.externals = leader->term->externals,
		.peers = leader->term->publish_peers,
		.peer_count = leader->term->publish_peer_count,
		.now_s = now_s(),
	};

	for (size_t i = 0; i < MK_FAMILIES; i++) {
		own.home[i] = mk_cidr_network(&config->cluster.of[i]);
		own.virtual[3 * i] = config->peer_pools.of[i];
		own.virtual[3 * i + 1] = config->clusterset.of[i];
		own.virtual[3 * i + 2] = config->externals.of[i];
	}
	return own;
}

void leader_export_read(struct mk_leader *leader, const char *namespace_, const char *name,
			json_object *service, json_object *const *slices, size_t count)
{
	const struct mk_lead_object *object =
		mk_lead_find(leader->lead, MK_LEAD_EXPORTS, namespace_, name);
	struct leader_export *of = leader_find_export(leader->term, namespace_, name);
	const struct mk_publish_own own = own_of(leader);
	struct mk_publication publication;
	struct mk_error err;

	/* Before that, a target may already have an address, or be a pod of a peer. */
	if (!object || !of || !mk_lead_has_listed(leader->lead, MK_LEAD_OWN_SERVICES) ||
	    !leader->term->publish_peers)
		return;
	if (mk_publish(&own, object->tree, service, slices, count, &publication, &err) < 0) {
		mk_publication_release(&publication);
		leader_failed(leader, &err);
		return;
	}
	if (publication.part_count == 0)
		forget_externals(leader, of->key);
	hand_over(leader, &of->publication, &publication);
	for (size_t i = 0; i < publication.part_count; i++)
		apply(leader, json_object_get(publication.parts[i]));
	leader->term->sweep_due |=
		!of->is_read || of->publication.part_count != publication.part_count;
	mk_publication_release(&of->publication);
	of->publication = publication;
	of->is_read = of->status_due = leader->term->statuses_due = true;
}

bool leader_exports_are_read(const struct mk_leader *leader)
{
	struct leader_export *of, *next;

	if (!mk_lead_has_listed(leader->lead, MK_LEAD_EXPORTS))
		return false;
	HASH_ITER(hh, leader->term->exports, of, next)
		if (!of->is_read)
			return false;
	return true;
}

/* ---- what is published no longer ------------------------------------------------------------- */

/* Is this object of monokube-published one that this cluster publishes? */
static bool publishes(const struct mk_leader *leader, enum mk_lead_kind kind, const char *name)
{
	const struct mk_config *config = leader->config;
	size_t length = strlen(config->cluster_name);
	struct leader_export *of, *next;

	if (!leader_has_work(leader))
		return false;
	if (kind == MK_LEAD_OWN_CLUSTERS)
		return strcmp(name, config->cluster_name) == 0;
	if (kind == MK_LEAD_OWN_NODES)
		return strncmp(name, config->cluster_name, length) == 0 && name[length] == '.' &&
		       is_published(leader, mk_model_node(leader->model, name + length + 1));
	HASH_ITER(hh, leader->term->exports, of, next)
		if (has_part(&of->publication, name))
			return true;
	return false;
}

static void sweep(struct mk_leader *leader, enum mk_lead_kind kind)
{
	mk_lead_each(object, leader->lead, kind)
		if (object->is_ours && !*object->relayed_by &&
		    !publishes(leader, object->kind, object->name))
			leader_delete(leader, object);
}

/* Exports that are not read yet may have any of the objects. A server that is not up may seem to
 * lack ServiceExports: nothing is removed then while a Service is published. */
static bool knows_exports(const struct mk_leader *leader)
{
	size_t services = 0;

	if (!mk_lead_lacks(leader->lead, MK_LEAD_EXPORTS))
		return leader_exports_are_read(leader);
	mk_lead_each(object, leader->lead, MK_LEAD_OWN_SERVICES)
		services += object->is_ours && !*object->relayed_by;
	return mk_lead_has_listed(leader->lead, MK_LEAD_OWN_SERVICES) && services == 0;
}

void leader_sweep(struct mk_leader *leader)
{
	bool knows_peers =
		leader_has_work(leader) || mk_lead_has_listed(leader->lead, MK_LEAD_PEERS);

	if (!knows_exports(leader) || !knows_peers)
		return;
	leader->term->has_borders = has_borders(leader->model);
	sweep(leader, MK_LEAD_OWN_CLUSTERS);
	sweep(leader, MK_LEAD_OWN_NODES);
	sweep(leader, MK_LEAD_OWN_SERVICES);
	leader_inbox_sweep(leader, publishes);
}

/* ---- status of ServiceExports ---------------------------------------------------------------- */

static bool is_written(const struct mk_leader *leader, const struct mk_publication *publication)
{
	for (size_t i = 0; i < publication->part_count; i++)
		if (!mk_lead_is_written(leader->lead, publication->parts[i]))
			return false;
	return true;
}

/* The status is written once, when the Service is published. */
static void write_status(struct mk_leader *leader, struct leader_export *of)
{
	const char *slash = strchr(of->key, '/');
	cleanup_free char *namespace_ = strndup(of->key, (size_t)(slash - of->key));
	const struct mk_lead_object *object =
		namespace_ ? mk_lead_find(leader->lead, MK_LEAD_EXPORTS, namespace_, slash + 1)
			   : NULL;
	cleanup_json json_object *status = NULL;
	char now[MK_TIME_STRLEN];
	struct mk_error err;

	if (!object || !is_written(leader, &of->publication))
		return;
	status = mk_export_status(object->tree, &of->publication,
				  of->is_merged ? &of->merged : NULL, true, leader_now(now));
	of->status_due = false;
	if (status && mk_lead_apply_status(leader->lead, status, &err) < 0)
		leader_failed(leader, &err);
}

void leader_write_statuses(struct mk_leader *leader)
{
	struct leader_export *of, *next;

	HASH_ITER(hh, leader->term->exports, of, next)
		if (of->is_read && of->status_due)
			write_status(leader, of);
}

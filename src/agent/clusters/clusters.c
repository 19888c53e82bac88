// SPDX-License-Identifier: Apache-2.0
#include "agent/clusters/clusters.h"

#include <stdlib.h>
#include <string.h>

#include "agent/clusters/exports.h"
#include "agent/clusters/gone.h"
#include "agent/clusters/objects.h"
#include "agent/clusters/probe.h"
#include "agent/clusters/wireguard.h"
#include "base/cleanup.h"
#include "base/log.h"

#define START_AGAIN_MS 1000

void mk_node_clusters_init(struct mk_node_clusters *clusters, struct mk_own_node *node)
{
	*clusters = (struct mk_node_clusters){ .node = node,
					       .gone.keep_ns = GONE_KEEP_NS,
					       .started_ns = mk_time_monotonic_ns() };
}

static void release_rows(struct mk_node_clusters *clusters)
{
	for (size_t i = 0; i < MK_FAMILIES; i++)
		mk_clusters_rows_release(&clusters->rows[i]);
}

void mk_node_clusters_release(struct mk_node_clusters *clusters)
{
	release_rows(clusters);
	exports_release(&clusters->exports);
	gone_release(&clusters->gone);
	if (clusters->said) {
		free(clusters->said->state);
		free(clusters->said->lacks);
	}
	free(clusters->said);
	probes_free(clusters->probes);
	free(clusters->fdb);
}

void mk_node_clusters_changed(struct mk_node_clusters *clusters)
{
	clusters->settled = false;
	mk_core_schedule(clusters->node->core, 0);
}

static bool is_on(const struct mk_node_clusters *clusters)
{
	return clusters->node->core->config.cluster_name[0];
}

void mk_node_clusters_export_changed(struct mk_node_clusters *clusters)
{
	clusters->exports.settled = false;
	mk_core_schedule(clusters->node->core, 0);
}

void mk_node_clusters_service_changed(struct mk_node_clusters *clusters, const char *namespace_,
				      const char *name)
{
	if (mk_model_service_export(clusters->node->core->model, namespace_, name))
		mk_node_clusters_export_changed(clusters);
}

static int get_objects(const struct mk_node_clusters *clusters, struct mk_clusters_objects *objects,
		       struct mk_error *err)
{
	return mk_clusters_objects_get(clusters->node->core->model, &clusters->gone,
				       clusters->node->internal_ip.family, objects, err);
}

/* ---- FDB and routes -------------------------------------------------------------------------- */

static int compare_macs(const void *left, const void *right)
{
	return memcmp(&((const struct mk_clusters_fdb *)left)->mac,
		      &((const struct mk_clusters_fdb *)right)->mac, sizeof(struct mk_mac));
}

/* The entries of all rows. The families share the device, but no MAC address. */
static size_t list_fdb(const struct mk_node_clusters *clusters, struct mk_clusters_fdb *all)
{
	size_t count = 0;

	for (size_t i = 0; i < MK_FAMILIES; i++) {
		const struct mk_clusters_rows *rows = &clusters->rows[i];

		if (rows->fdb_count)
			memcpy(all + count, rows->fdb, rows->fdb_count * sizeof(*all));
		count += rows->fdb_count;
	}
	if (count)
		qsort(all, count, sizeof(*all), compare_macs);
	return count;
}

/* @keeps: let entries stay that the tables may still use. */
static int set_fdb(struct mk_node_clusters *clusters, bool keeps, struct mk_error *err)
{
	const struct mk_clusters_rows *rows = clusters->rows;
	size_t most = rows[0].fdb_count + rows[1].fdb_count + (keeps ? clusters->fdb_count : 0);
	struct mk_clusters_fdb *all = calloc(most + 1, sizeof(*all));
	size_t wanted, count;

	if (!all)
		return mk_error_errno(err, ENOMEM, "%zu nodes of other clusters", most);
	wanted = count = list_fdb(clusters, all);
	for (size_t i = 0; keeps && i < clusters->fdb_count; i++)
		if (!bsearch(&clusters->fdb[i], all, wanted, sizeof(*all), compare_macs))
			all[count++] = clusters->fdb[i];
	if (count)
		qsort(all, count, sizeof(*all), compare_macs);
	free(clusters->fdb);
	clusters->fdb = all;
	clusters->fdb_count = count;
	clusters->node->core->unsure |= MK_UNSURE_OVERLAY;
	clusters->fdb_trimmed |= !keeps;
	return mk_overlay_set_clusters(clusters->node->core->overlay, all, count, !keeps, err);
}

/* The tables use no other entries now. Those of an earlier agent go, too. */
static int trim_fdb(struct mk_node_clusters *clusters, struct mk_error *err)
{
	const struct mk_clusters_rows *rows = clusters->rows;

	if (!is_on(clusters) ||
	    (clusters->fdb_trimmed && clusters->fdb_count == rows[0].fdb_count + rows[1].fdb_count))
		return 0;
	mk_core_schedule(clusters->node->core, 0);
	return set_fdb(clusters, false, err);
}

/* Let the node know the routes to the views. */
static int set_routes(struct mk_node_clusters *clusters, const struct mk_clusters_objects *objects,
		      size_t family, struct mk_error *err)
{
	const struct mk_clusters_state *states = clusters->rows[family].states;
	struct mk_route_entry *routes = calloc(2 * objects->count + 1, sizeof(*routes));
	size_t count = 0;

	if (!routes)
		return mk_error_errno(err, ENOMEM, "%zu routes to other clusters", objects->count);
	for (size_t i = 0; i < objects->count; i++) {
		const struct mk_clusters_peer *peer = &objects->peers[family][i];
		uint32_t number = states[i].number;

		if (states[i].has_view)
			routes[count++] = (struct mk_route_entry){ mk_cidr_network(&peer->view),
								   mk_route_to_cluster(number) };
		if (states[i].has_external_view)
			routes[count++] = (struct mk_route_entry){
				mk_cidr_network(&peer->external_view),
				mk_route_to_cluster(number | MK_CLUSTER_EXTERNAL)
			};
	}
	mk_own_family_set_cluster_routes(&clusters->node->families[family], routes, count);
	return 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* NULL: they are not loaded yet. */
static const struct mk_clusters_sync *tables_of(const struct mk_family *family)
{
	return mk_family_is_loaded(family) ? mk_datapath_clusters(family->datapath) : NULL;
}

static int compile(struct mk_node_clusters *clusters, const struct mk_clusters_objects *objects,
		   struct mk_error *err)
{
	struct mk_own_node *node = clusters->node;
	struct probes_known known;
	int ret = 0;

	release_rows(clusters);
	clusters->written = false;
	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++) {
		if (!node->core->families[i].runs)
			continue;
		known = (struct probes_known){ clusters->probes,
					       tables_of(&node->core->families[i]),
					       i ? &clusters->rows[0] : NULL };
		ret = clusters_objects_compile(objects, &node->families[i], &known,
					       &clusters->rows[i], err);
		ret = ret ?: set_routes(clusters, objects, i, err);
	}
	ret = ret ?: wireguard_set(clusters, err);
	return ret ?: set_fdb(clusters, true, err);
}

static struct clusters_result result_of(const struct mk_node_clusters *clusters,
					const struct mk_clusters_objects *objects)
{
	struct clusters_result result = { .objects = objects,
					  .probes = clusters->probes,
					  .overlay = clusters->node->core->overlay };

	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (clusters->rows[i].states)
			result.rows[i] = &clusters->rows[i];
	return result;
}

/* The command line and the log are no reason to hold up the tables. */
static void say(struct mk_node_clusters *clusters, const struct mk_clusters_objects *objects)
{
	struct mk_core *core = clusters->node->core;
	struct clusters_result result = result_of(clusters, objects);
	cleanup_free char *overlaps = clusters_overlaps(&result);
	struct mk_error err = { 0 };

	if (clusters_write(&result, &core->config, &err) < 0)
		mk_log_error("cannot store the names of other clusters: %s", mk_error_text(&err));
	clusters->said = clusters->said ?: calloc(1, sizeof(*clusters->said));
	if (clusters->said)
		clusters_log(&result, clusters->said);
	if (overlaps && *overlaps)
		(void)mk_core_warn(core, MK_WARN_PEER_VIEW, overlaps);
	else
		mk_core_warn_over(core, MK_WARN_PEER_VIEW);
}

/* ---- probes ---------------------------------------------------------------------------------- */

/* Let Services know the views of peers that are down: of their pods, and of external addresses. */
static int set_down(struct mk_node_clusters *clusters, const struct mk_clusters_objects *objects,
		    size_t family, struct mk_error *err)
{
	const struct mk_clusters_state *states = clusters->rows[family].states;
	struct mk_cidr *views = calloc(2 * objects->count + 1, sizeof(*views));
	size_t count = 0;

	if (!views)
		return mk_error_errno(err, ENOMEM, "views of %zu peers", objects->count);
	for (size_t i = 0; states && i < objects->count; i++) {
		const struct mk_clusters_peer *peer = &objects->peers[family][i];

		if (!probes_state(clusters->probes, objects->of[i]->name).is_down)
			continue;
		if (states[i].has_view)
			views[count++] = mk_cidr_network(&peer->view);
		if (states[i].has_external_view)
			views[count++] = mk_cidr_network(&peer->external_view);
	}
	mk_own_family_set_down_views(&clusters->node->families[family], views, count);
	return 0;
}

static int set_probes(struct mk_node_clusters *clusters, const struct mk_clusters_objects *objects,
		      struct mk_error *err)
{
	struct clusters_result result = result_of(clusters, objects);
	const char *node = clusters->node->core->config.node_name;
	int ret = probes_set(&clusters->probes, &result, node, err);

	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++)
		if (clusters->node->core->families[i].runs)
			ret = set_down(clusters, objects, i, err);
	return ret;
}

static int take_news(struct mk_node_clusters *clusters, unsigned int news, struct mk_error *err)
{
	const struct mk_own_node *node = clusters->node;
	struct mk_clusters_objects objects;
	int ret = get_objects(clusters, &objects, err);

	for (size_t i = 0; ret == 0 && news & MK_PROBES_USABLE && i < MK_FAMILIES; i++)
		if (node->core->families[i].runs)
			ret = set_down(clusters, &objects, i, err);
	if (ret == 0)
		say(clusters, &objects);
	clusters->shown++;
	mk_clusters_objects_release(&objects);
	if (news & MK_PROBES_PATHS)
		mk_node_clusters_changed(clusters);
	return ret;
}

/* While something waits to be computed, the model may have other peers than the rows. */
int mk_node_clusters_probe(struct mk_node_clusters *clusters, struct mk_error *err)
{
	unsigned int news;
	int ret = 0;

	if (!is_on(clusters) || !clusters->settled || !clusters->written)
		return 0;
	news = probes_turn(clusters->probes);
	if (gone_is_over(&clusters->gone))
		mk_node_clusters_changed(clusters);
	if (wireguard_has_news(clusters))
		news |= MK_PROBES_SHOWN;
	if (news)
		ret = take_news(clusters, news, err);
	return ret < 0 ? mk_error_wrap(err, "probes of other clusters") : 0;
}

bool mk_node_clusters_hurry(const struct mk_node_clusters *clusters)
{
	return clusters->probes && mk_probes_hurry(clusters->probes->state);
}

struct mk_probes_state mk_node_clusters_probed(const struct mk_node_clusters *clusters,
					       const char *peer)
{
	return probes_state(clusters->probes, peer);
}

/* ---- to compute ------------------------------------------------------------------------------ */

static int compute(struct mk_node_clusters *clusters, struct mk_error *err)
{
	struct mk_own_node *node = clusters->node;
	unsigned int plans = node->plans;
	struct mk_clusters_objects objects;
	int ret;

	if (!clusters->known)
		gone_restore_views(node->core->model, node->core->config.state_dir);
	gone_trim(&clusters->gone, node->core->model, clusters->probes);
	ret = get_objects(clusters, &objects, err);

	ret = ret ?: compile(clusters, &objects, err);
	ret = ret ?: set_probes(clusters, &objects, err);
	if (ret == 0) {
		mk_own_node_know_cluster_routes(node);
		clusters->known = clusters->settled = true;
		clusters->computed++;
		clusters->plans = plans;
		clusters->no_wireguard = clusters_no_wireguard(node);
	}
	mk_clusters_objects_release(&objects);
	return ret;
}

static int compute_exports(struct mk_node_clusters *clusters, struct mk_error *err)
{
	struct clusters_exports *exports = &clusters->exports;
	int ret = exports_compute(exports, clusters->node, err);

	if (ret < 0)
		return ret;
	exports->settled = true;
	exports->written = false;
	exports->plans = clusters->node->plans;
	return 0;
}

/* Without clusterName there are no rows, and no file of names of an earlier run. */
static int turn_off(struct mk_node_clusters *clusters, struct mk_error *err)
{
	if (clusters->known)
		return 0;
	clusters->known = true;
	return clusters_unwrite(clusters->node->core->config.state_dir, err);
}

/* ---- the start ------------------------------------------------------------------------------- */

/* Tables that are not loaded yet may have some. */
static bool has_former_rows(const struct mk_core *core)
{
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (core->families[i].runs &&
		    (!mk_family_is_loaded(&core->families[i]) ||
		     !mk_clusters_sync_is_empty(mk_datapath_clusters(core->families[i].datapath))))
			return true;
	return false;
}

/* An agent that starts does not know which objects have just vanished, but knows the peers of the
 * last run. If the PublishedCluster of one is missing, all tables stay as they are, as long as a
 * vanished object counts. */
static bool waits_for_peer(struct mk_node_clusters *clusters)
{
	struct mk_core *core = clusters->node->core;
	uint64_t since_ns = mk_time_since_ns(mk_time_monotonic_ns(), clusters->started_ns);
	const char *peer = NULL;

	if (!clusters->known && since_ns < clusters->gone.keep_ns && has_former_rows(core))
		peer = gone_before_start(core->model, core->config.state_dir);
	if (!peer)
		return false;
	if (!clusters->waits)
		mk_log_info(
			"peer %s: its PublishedCluster is gone since the last run: other clusters stay as they are until it comes back, at most %llu s",
			peer, (unsigned long long)(clusters->gone.keep_ns / MK_NS_PER_S));
	clusters->waits = true;
	mk_core_schedule(core, START_AGAIN_MS);
	return true;
}

/* ---- steps ----------------------------------------------------------------------------------- */

int mk_node_clusters_reconcile(struct mk_node_clusters *clusters, struct mk_error *err)
{
	const struct mk_own_node *node = clusters->node;
	struct mk_core *core = node->core;
	int ret = 0;

	if (!is_on(clusters))
		return turn_off(clusters, err);
	mk_source_want(core->source, MK_SOURCE_PEERS, true);
	if (!mk_source_listed(core->source, MK_SOURCE_PEERS) || !node->plans)
		return 0;
	if (!clusters->known && !core->complete) /* a Node that is not read may be a border node */
		return 0;
	if (waits_for_peer(clusters))
		return 0;
	if (!clusters->settled || clusters->plans != node->plans ||
	    clusters->no_wireguard != clusters_no_wireguard(node))
		ret = compute(clusters, err);
	if (ret == 0 && (!clusters->exports.settled || clusters->exports.plans != node->plans))
		ret = compute_exports(clusters, err);
	return ret < 0 ? mk_error_wrap(err, "other clusters") : 0;
}

static bool is_written(const struct mk_node_clusters *clusters)
{
	return clusters->written && clusters->exports.written &&
	       !mk_core_is_fresh(clusters->node->core, clusters->loads);
}

/* Without clusterName, only an earlier run's entries are of interest. */
static int write_family(struct mk_node_clusters *clusters, size_t family, struct mk_error *err)
{
	struct mk_core *core = clusters->node->core;
	struct mk_clusters_sync *sync = mk_datapath_clusters(core->families[family].datapath);
	struct mk_clusters_counts counts = { 0 };
	int ret;

	if (!is_on(clusters) && mk_clusters_sync_is_empty(sync))
		return 0;
	ret = exports_write(&clusters->exports, &core->families[family], err);
	ret = ret ?: mk_clusters_sync_apply(sync, &clusters->rows[family], &counts, err);
	core->writes += counts.put + counts.deleted;
	return ret;
}

/* Say what is in the tables. If the peers have changed again, the next writing says it. */
static int say_written(struct mk_node_clusters *clusters, struct mk_error *err)
{
	struct mk_clusters_objects objects;
	int ret;

	if (!is_on(clusters) || !clusters->settled)
		return 0;
	ret = get_objects(clusters, &objects, err);
	if (ret == 0)
		say(clusters, &objects);
	mk_clusters_objects_release(&objects);
	return ret;
}

int mk_node_clusters_write(struct mk_node_clusters *clusters, struct mk_error *err)
{
	const struct mk_core *core = clusters->node->core;
	int ret = 0;

	if (!clusters->known || is_written(clusters))
		return 0;
	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++) {
		if (!mk_family_is_loaded(&core->families[i]))
			continue;
		ret = write_family(clusters, i, err);
		if (ret == 0)
			clusters->loads[i] = core->families[i].loads;
	}
	clusters->written = clusters->exports.written = ret == 0;
	if (ret == 0 && clusters->settled)
		ret = trim_fdb(clusters, err);
	ret = ret ?: say_written(clusters, err);
	return ret < 0 ? mk_error_wrap(err, "other clusters") : 0;
}

int mk_node_clusters_reconcile_tables(struct mk_node_clusters *clusters, struct mk_error *err)
{
	struct mk_core *core = clusters->node->core;
	int sum = 0;

	for (size_t i = 0; is_on(clusters) && clusters->written && i < MK_FAMILIES; i++) {
		int ret = 0;

		if (mk_family_is_loaded(&core->families[i]))
			ret = mk_clusters_sync_reconcile(
				mk_datapath_clusters(core->families[i].datapath), err);
		if (ret < 0)
			return ret;
		sum += ret;
	}
	if (sum > 0) {
		clusters->written = false;
		mk_core_schedule(core, 0);
	}
	return sum;
}

/* ---- metrics --------------------------------------------------------------------------------- */

static int add_counters(const struct mk_core *core, uint32_t number,
			struct mk_cluster_counters *sum, struct mk_error *err)
{
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		struct mk_cluster_counters counters = { 0 };
		int ret = 0;

		if (mk_family_is_loaded(&core->families[i]))
			ret = mk_clusters_sync_counters(
				mk_datapath_clusters(core->families[i].datapath), number, &counters,
				err);
		if (ret < 0)
			return ret;
		for (size_t way = 0; way < 2; way++) {
			sum->packets[way] += counters.packets[way];
			sum->bytes[way] += counters.bytes[way];
		}
	}
	return 0;
}

static int measure(const struct mk_node_clusters *clusters,
		   const struct mk_clusters_objects *objects, struct mk_metrics *metrics,
		   struct mk_error *err)
{
	const struct mk_core *core = clusters->node->core;
	struct clusters_result result = result_of(clusters, objects);
	int ret = 0;

	metrics->cluster_peers = calloc(objects->count + 1, sizeof(*metrics->cluster_peers));
	if (!metrics->cluster_peers)
		return mk_error_errno(err, ENOMEM, "metrics of %zu peers", objects->count);
	for (size_t i = 0; ret == 0 && i < objects->count; i++) {
		struct mk_metrics_peer *peer = &metrics->cluster_peers[i];
		uint32_t number = clusters_number(&result, i);

		peer->name = objects->of[i]->name;
		peer->is_usable = clusters_is_usable(&result, i);
		peer->nodes = clusters_nodes_used(&result, i);
		peer->mtu_bytes = clusters_mtu(&result, i);
		peer->probes = probes_state(clusters->probes, peer->name);
		peer->handshake_age_s = wireguard_age_s(core->overlay, number);
		if (number)
			ret = add_counters(core, number, &peer->counters, err);
	}
	metrics->cluster_peer_count = objects->count;
	metrics->imported_services = mk_model_count(core->model, MK_KIND_SERVICE_IMPORT);
	metrics->imported_endpoints = mk_model_imported_endpoint_count(core->model);
	metrics->exported_services = mk_model_count(core->model, MK_KIND_SERVICE_EXPORT);
	metrics->has_clusters = ret == 0;
	return ret;
}

int mk_node_clusters_measure(const struct mk_node_clusters *clusters, struct mk_metrics *metrics,
			     struct mk_error *err)
{
	struct mk_clusters_objects objects;
	int ret;

	if (!is_on(clusters) || !clusters->settled)
		return 0;
	ret = get_objects(clusters, &objects, err);
	ret = ret ?: measure(clusters, &objects, metrics, err);
	mk_clusters_objects_release(&objects);
	return ret;
}

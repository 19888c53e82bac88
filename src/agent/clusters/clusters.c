// SPDX-License-Identifier: Apache-2.0
#include "agent/clusters/clusters.h"

#include <stdlib.h>
#include <string.h>

#include "agent/clusters/objects.h"
#include "base/cleanup.h"
#include "base/log.h"

void mk_node_clusters_init(struct mk_node_clusters *clusters, struct mk_own_node *node)
{
	*clusters = (struct mk_node_clusters){ .node = node };
}

static void release_rows(struct mk_node_clusters *clusters)
{
	for (size_t i = 0; i < MK_FAMILIES; i++)
		mk_clusters_rows_release(&clusters->rows[i]);
}

void mk_node_clusters_release(struct mk_node_clusters *clusters)
{
	release_rows(clusters);
	if (clusters->said) {
		free(clusters->said->state);
		free(clusters->said->lacks);
	}
	free(clusters->said);
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

/* ---- FDB and routes -------------------------------------------------------------------------- */

static int compare_macs(const void *left, const void *right)
{
	return memcmp(&((const struct mk_clusters_fdb *)left)->mac,
		      &((const struct mk_clusters_fdb *)right)->mac, sizeof(struct mk_mac));
}

/* The families share the device, but no MAC address. */
static int set_fdb(struct mk_node_clusters *clusters, struct mk_error *err)
{
	const struct mk_clusters_rows *rows = clusters->rows;
	size_t first = rows[0].fdb_count, count = first + rows[1].fdb_count;
	cleanup_free struct mk_clusters_fdb *all = calloc(count + 1, sizeof(*all));

	if (!all)
		return mk_error_errno(err, ENOMEM, "%zu nodes of other clusters", count);
	if (first)
		memcpy(all, rows[0].fdb, first * sizeof(*all));
	if (count > first)
		memcpy(all + first, rows[1].fdb, rows[1].fdb_count * sizeof(*all));
	qsort(all, count, sizeof(*all), compare_macs);
	clusters->node->core->unsure |= MK_UNSURE_OVERLAY;
	return mk_overlay_set_clusters(clusters->node->core->overlay, all, count, err);
}

/* Let the node know the routes to the views. */
static int set_routes(struct mk_node_clusters *clusters, const struct clusters_objects *objects,
		      size_t family, struct mk_error *err)
{
	const struct mk_clusters_state *states = clusters->rows[family].states;
	struct mk_route_entry *routes = calloc(objects->count + 1, sizeof(*routes));
	size_t count = 0;

	if (!routes)
		return mk_error_errno(err, ENOMEM, "%zu routes to other clusters", objects->count);
	for (size_t i = 0; i < objects->count; i++)
		if (states[i].has_view)
			routes[count++] = (struct mk_route_entry){
				.dst = mk_cidr_network(&objects->peers[family][i].view),
				.route = mk_route_to_cluster(states[i].number),
			};
	mk_own_family_set_cluster_routes(&clusters->node->families[family], routes, count);
	return 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int compile(struct mk_node_clusters *clusters, const struct clusters_objects *objects,
		   struct mk_error *err)
{
	struct mk_own_node *node = clusters->node;
	int ret = 0;

	release_rows(clusters);
	clusters->written = false;
	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++) {
		if (!node->core->families[i].runs)
			continue;
		ret = clusters_objects_compile(objects, &node->families[i], &clusters->rows[i],
					       err);
		ret = ret ?: set_routes(clusters, objects, i, err);
	}
	return ret ?: set_fdb(clusters, err);
}

static struct clusters_result result_of(const struct mk_node_clusters *clusters,
					const struct clusters_objects *objects)
{
	struct clusters_result result = { .objects = objects };

	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (clusters->rows[i].states)
			result.rows[i] = &clusters->rows[i];
	return result;
}

/* The command line and the log are no reason to hold up the tables. */
static void say(struct mk_node_clusters *clusters, const struct clusters_objects *objects)
{
	const struct mk_core *core = clusters->node->core;
	struct clusters_result result = result_of(clusters, objects);
	struct mk_error err = { 0 };

	if (clusters_write(&result, &core->config, &err) < 0)
		mk_log_error("cannot store the names of other clusters: %s", mk_error_text(&err));
	clusters->said = clusters->said ?: calloc(1, sizeof(*clusters->said));
	if (clusters->said)
		clusters_log(&result, clusters->said);
}

static int compute(struct mk_node_clusters *clusters, struct mk_error *err)
{
	struct mk_own_node *node = clusters->node;
	unsigned int plans = node->plans;
	struct clusters_objects objects;
	int ret = clusters_objects_get(node->core->model, node->internal_ip.family, &objects, err);

	ret = ret ?: compile(clusters, &objects, err);
	if (ret == 0) {
		say(clusters, &objects);
		mk_own_node_know_cluster_routes(node);
		clusters->known = clusters->settled = true;
		clusters->plans = plans;
	}
	clusters_objects_release(&objects);
	return ret;
}

/* Without clusterName there are no rows, and no file of names of an earlier run. */
static int turn_off(struct mk_node_clusters *clusters, struct mk_error *err)
{
	if (clusters->known)
		return 0;
	clusters->known = true;
	return clusters_unwrite(clusters->node->core->config.state_dir, err);
}

/* ---- steps ----------------------------------------------------------------------------------- */

int mk_node_clusters_reconcile(struct mk_node_clusters *clusters, struct mk_error *err)
{
	const struct mk_own_node *node = clusters->node;
	struct mk_core *core = node->core;
	int ret;

	if (!is_on(clusters))
		return turn_off(clusters, err);
	mk_source_want_peers(core->source, true);
	if (!mk_source_peers_listed(core->source) || !node->plans ||
	    (clusters->settled && clusters->plans == node->plans))
		return 0;
	ret = compute(clusters, err);
	return ret < 0 ? mk_error_wrap(err, "other clusters") : 0;
}

static bool is_written(const struct mk_node_clusters *clusters)
{
	const struct mk_core *core = clusters->node->core;

	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (mk_family_is_loaded(&core->families[i]) &&
		    clusters->loads[i] != core->families[i].loads)
			return false;
	return clusters->written;
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
	ret = mk_clusters_sync_apply(sync, &clusters->rows[family], &counts, err);
	core->writes += counts.put + counts.deleted;
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
	clusters->written = ret == 0;
	return ret < 0 ? mk_error_wrap(err, "other clusters") : 0;
}

int mk_node_clusters_audit(struct mk_node_clusters *clusters, struct mk_error *err)
{
	struct mk_core *core = clusters->node->core;
	int sum = 0;

	for (size_t i = 0; is_on(clusters) && clusters->written && i < MK_FAMILIES; i++) {
		int ret = 0;

		if (mk_family_is_loaded(&core->families[i]))
			ret = mk_clusters_sync_audit(
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

static int measure(const struct mk_node_clusters *clusters, const struct clusters_objects *objects,
		   struct mk_metrics *metrics, struct mk_error *err)
{
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
		if (number)
			ret = add_counters(clusters->node->core, number, &peer->counters, err);
	}
	metrics->cluster_peer_count = objects->count;
	metrics->has_clusters = ret == 0;
	return ret;
}

int mk_node_clusters_measure(const struct mk_node_clusters *clusters, struct mk_metrics *metrics,
			     struct mk_error *err)
{
	const struct mk_own_node *node = clusters->node;
	struct clusters_objects objects;
	int ret;

	if (!is_on(clusters) || !clusters->settled)
		return 0;
	ret = clusters_objects_get(node->core->model, node->internal_ip.family, &objects, err);
	ret = ret ?: measure(clusters, &objects, metrics, err);
	clusters_objects_release(&objects);
	return ret;
}

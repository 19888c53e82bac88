// SPDX-License-Identifier: Apache-2.0
/* Loads programs and tables, or adopts the pinned ones. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "datapath/datapath_internal.h"
#include "datapath/maps/pin.h"

static const char *const state_names[] = {
	[MK_DATAPATH_OPENED] = "opened",
	[MK_DATAPATH_LOADED] = "loaded",
	[MK_DATAPATH_ATTACHED] = "attached",
	[MK_DATAPATH_SYNCED] = "synced",
};

int datapath_expect(const struct mk_datapath *datapath, enum mk_datapath_state state,
		    const char *step, struct mk_error *err)
{
	if (datapath->state == state)
		return 0;
	return mk_error_set(err, EINVAL, "the datapath is %s, %s needs it %s",
			    state_names[datapath->state], step, state_names[state]);
}

enum mk_datapath_state mk_datapath_state(const struct mk_datapath *datapath)
{
	return datapath->state;
}

const struct mk_node *mk_datapath_node(const struct mk_datapath *datapath)
{
	return &datapath->node;
}

bool mk_datapath_moved(const struct mk_datapath *datapath)
{
	return datapath->migration_count > 0;
}

struct mk_service_sync *mk_datapath_services(const struct mk_datapath *datapath)
{
	return datapath->services;
}

struct mk_policy_sync *mk_datapath_policies(const struct mk_datapath *datapath)
{
	return datapath->policies;
}

struct mk_sfc_sync *mk_datapath_sfc(const struct mk_datapath *datapath)
{
	return datapath->sfc;
}

struct mk_clusters_sync *mk_datapath_clusters(const struct mk_datapath *datapath)
{
	return datapath->clusters;
}

const struct mk_counter_tables *mk_datapath_counters(const struct mk_datapath *datapath)
{
	return &datapath->counters;
}

int mk_datapath_prune_counters(const struct mk_datapath *datapath, struct mk_error *err)
{
	return mk_counters_prune(&datapath->counters, &datapath->service_tables.frontends, err);
}

const struct mk_table *mk_datapath_session_table(const struct mk_datapath *datapath, int index)
{
	return &datapath->sessions[index];
}

static int size_tables(struct mk_datapath *datapath, struct mk_error *err)
{
	int ret = mk_object_size_sessions(datapath->object, &datapath->session_sizes, err);

	return ret < 0 ? ret
		       : mk_object_size_affinity(datapath->object, datapath->affinity_entries, err);
}

static int open_object(struct mk_datapath *datapath, struct mk_error *err)
{
	mk_object_free(datapath->object);
	datapath->object = mk_object_open(&datapath->node, err);
	if (!datapath->object)
		return err->code ? -err->code : -EINVAL;
	return size_tables(datapath, err);
}

static int open_parts(struct mk_datapath *datapath, const char *bpf_dir, const char *state_dir,
		      struct mk_error *err)
{
	int ret;

	if (snprintf(datapath->bpf_dir, PATH_MAX, "%s", bpf_dir) >= PATH_MAX ||
	    snprintf(datapath->state_dir, PATH_MAX, "%s", state_dir) >= PATH_MAX)
		return mk_error_errno(err, ENAMETOOLONG, "path '%s' or '%s'", bpf_dir, state_dir);
	if (!mk_pin_other_dir(datapath->other_dir, bpf_dir, datapath_family(datapath)))
		datapath->other_dir[0] = '\0';
	ret = mk_pin_prepare(bpf_dir, err);
	if (ret < 0)
		return ret;
	datapath->nl = mk_nl_open(err);
	if (!datapath->nl)
		return -EINVAL;
	return open_object(datapath, err);
}

struct mk_datapath *mk_datapath_open(const char *bpf_dir, const char *state_dir,
				     const struct mk_node *node, struct mk_error *err)
{
	struct mk_datapath *datapath = calloc(1, sizeof(*datapath));

	if (!datapath) {
		(void)mk_error_errno(err, ENOMEM, "cannot open the datapath");
		return NULL;
	}
	datapath->node = *node;
	if (open_parts(datapath, bpf_dir, state_dir, err) < 0) {
		mk_datapath_free(datapath);
		return NULL;
	}
	return datapath;
}

void mk_datapath_free(struct mk_datapath *datapath)
{
	if (!datapath)
		return;
	mk_service_sync_free(datapath->services);
	mk_policy_sync_free(datapath->policies);
	mk_sfc_sync_free(datapath->sfc);
	mk_clusters_sync_free(datapath->clusters);
	datapath_forget_routes(datapath);
	free(datapath->peer_entries);
	migrations_release(datapath);
	mk_object_free(datapath->object);
	mk_nl_free(datapath->nl);
	if (datapath->waits_at_gate)
		attach_open_gate();
	free(datapath);
}

int mk_datapath_size_sessions(struct mk_datapath *datapath, uint32_t established,
			      uint32_t half_open, struct mk_error *err)
{
	int ret = datapath_expect(datapath, MK_DATAPATH_OPENED, "sizes", err);

	if (ret < 0)
		return ret;
	datapath->session_sizes = (struct mk_session_sizes){ established, half_open };
	return size_tables(datapath, err);
}

int mk_datapath_size_affinity(struct mk_datapath *datapath, uint32_t entries, struct mk_error *err)
{
	int ret = datapath_expect(datapath, MK_DATAPATH_OPENED, "sizes", err);

	if (ret < 0)
		return ret;
	datapath->affinity_entries = entries;
	return size_tables(datapath, err);
}

/* ---- tables --------------------------------------------------------------------------------- */

/* Is the map kept from load to load? The chain, the constants and map `abi` belong to the programs
 * of one load. */
static bool outlives_load(const struct bpf_map *map)
{
	const char *name = bpf_map__name(map);

	return !bpf_map__is_internal(map) && strcmp(name, "chain") != 0 && strcmp(name, "abi") != 0;
}

/* Returns 0 if @pinned can be used as it is, 1 if its entries can move to a new table. They can if
 * the number of entries differs, if an older version's values are shorter, or for Maglev tables of
 * another length. */
int layout_check(const struct bpf_map *map, const struct mk_table *pinned, const char *path,
		 struct mk_error *err)
{
	uint32_t value_size = bpf_map__value_size(map);

	if (pinned->type == bpf_map__type(map) &&
	    pinned->stored_key_size == bpf_map__key_size(map) &&
	    (pinned->stored_value_size <= value_size || strcmp(pinned->name, "maglev") == 0))
		return pinned->stored_value_size != value_size ||
		       pinned->max_entries != bpf_map__max_entries(map);
	return mk_error_set(
		err, EPROTO,
		"pinned map '%s' has another layout than this version's: type %u, key %u bytes, value %u bytes, %u entries there; type %u, key %u, value %u, %u entries here. It was not touched. Run the version that made it, or drain this node and run `monokube cleanup`",
		path, pinned->type, pinned->stored_key_size, pinned->stored_value_size,
		pinned->max_entries, bpf_map__type(map), bpf_map__key_size(map),
		bpf_map__value_size(map), bpf_map__max_entries(map));
}

/* Keep a larger number of slots: pods of an earlier, larger pod CIDR may still exist, and with
 * fewer slots two could share one. */
static int keep_pod_slots(struct bpf_map *map, const struct mk_table *pinned, struct mk_error *err)
{
	int ret = 0;

	if ((strcmp(pinned->name, "pods") == 0 || strcmp(pinned->name, "pod_policies") == 0) &&
	    pinned->type == BPF_MAP_TYPE_ARRAY && pinned->max_entries > bpf_map__max_entries(map))
		ret = bpf_map__set_max_entries(map, pinned->max_entries);
	return ret < 0 ? mk_error_errno(err, -ret, "cannot give map '%s' %u entries", pinned->name,
					pinned->max_entries)
		       : 0;
}

/* Use the pinned map if there is one, or register its entries for a copy. */
static int take_over(struct mk_datapath *datapath, struct bpf_map *map, struct mk_error *err)
{
	const char *name = bpf_map__name(map);
	cleanup_close int fd = mk_pin_open(datapath->bpf_dir, MK_PIN_MAPS, name, err);
	struct mk_table pinned;
	char path[PATH_MAX];
	int ret;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd;
	ret = mk_pin_path(path, datapath->bpf_dir, MK_PIN_MAPS, name, err);
	ret = ret ?: mk_table_init(&pinned, name, fd, err);
	ret = ret ?: keep_pod_slots(map, &pinned, err);
	ret = ret ?: layout_check(map, &pinned, path, err);
	if (ret > 0 && datapath->keep_sizes && pinned.stored_value_size == bpf_map__value_size(map))
		ret = 0;
	if (ret > 0) {
		ret = migration_add(datapath, name, fd, false, err);
		if (ret == 0)
			mk_steal_fd(&fd);
		return ret;
	}
	if (ret < 0)
		return ret;
	ret = bpf_map__reuse_fd(map, fd);
	if (ret < 0)
		return mk_error_errno(err, -ret, "cannot use the pinned map '%s'", path);
	return 0;
}

static int take_over_all(struct mk_datapath *datapath, struct mk_error *err)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, mk_object_get(datapath->object))
	{
		int ret = outlives_load(map) ? take_over(datapath, map, err) : 0;

		if (ret < 0)
			return ret;
	}
	return 0;
}

/* Pin new maps. EEXIST cannot be another process's pin: the agent's lock excludes that. */
static int pin_new(struct mk_datapath *datapath, struct mk_error *err)
{
	struct bpf_map *map;
	char path[PATH_MAX];

	bpf_object__for_each_map(map, mk_object_get(datapath->object))
	{
		int ret;

		if (!outlives_load(map) || migration_of(datapath, bpf_map__name(map)))
			continue;
		ret = mk_pin_path(path, datapath->bpf_dir, MK_PIN_MAPS, bpf_map__name(map), err);
		if (ret < 0)
			return ret;
		if (bpf_obj_pin(bpf_map__fd(map), path) < 0 && errno != EEXIST)
			return mk_error_errno(err, errno, "cannot pin map '%s'", path);
	}
	return 0;
}

/* Reserve the ids in sessions, even if their Service is gone. If another Service got such an id,
 * the session would be attributed to that Service, and cut. */
static int reserve_session_ids(void *ctx, const void *key, const void *value, struct mk_error *err)
{
	const struct mk_session *session = value;

	(void)key;
	(void)err;
	if (!mk_session_node(session))
		mk_service_sync_reserve_ids(ctx, session->set_id);
	mk_service_sync_reserve_ids(ctx, session->service_id);
	return 0;
}

/* Reserve the ids in affinity entries, so that a new port does not inherit the clients of one that
 * is gone. */
static int reserve_affinity_id(void *ctx, const void *key, const void *value, struct mk_error *err)
{
	(void)value;
	(void)err;
	mk_service_sync_reserve_ids(ctx, ((const struct mk_affinity_key *)key)->affinity_id);
	return 0;
}

static int open_services(struct mk_datapath *datapath, struct mk_error *err)
{
	const struct {
		const struct mk_table *table;
		mk_table_visit_fn *reserve;
	} rows[] = {
		{ &datapath->sessions[0], reserve_session_ids },
		{ &datapath->sessions[1], reserve_session_ids },
		{ &datapath->affinity, reserve_affinity_id },
		{ &datapath->affinity_new, reserve_affinity_id },
	};
	int ret = 0;

	datapath->services = mk_service_sync_new(&datapath->service_tables, err);
	if (!datapath->services)
		return -EINVAL;
	for (size_t i = 0; ret == 0 && i < MK_ARRAY_SIZE(rows); i++)
		ret = mk_table_each(rows[i].table, rows[i].reserve, datapath->services, err);
	return ret;
}

static bool has_device(uint32_t ifindex)
{
	char name[IF_NAMESIZE];

	return if_indextoname(ifindex, name) != NULL;
}

static int open_policies(struct mk_datapath *datapath, struct mk_error *err)
{
	datapath->policy_tables.has_device = has_device;
	datapath->policies = mk_policy_sync_new(&datapath->policy_tables, err);
	return datapath->policies ? 0 : -EINVAL;
}

static int open_sfc(struct mk_datapath *datapath, struct mk_error *err)
{
	datapath->sfc_tables.pins = datapath->bpf_dir;
	datapath->sfc = mk_sfc_sync_new(&datapath->sfc_tables, err);
	return datapath->sfc ? 0 : -EINVAL;
}

static int open_clusters(struct mk_datapath *datapath, struct mk_error *err)
{
	datapath->clusters = mk_clusters_sync_new(&datapath->cluster_tables, err);
	return datapath->clusters ? 0 : -EINVAL;
}

/* The secret stays from load to load: clients have been asked with it. Without one, programs ask no
 * client (bpf/syn_gate.h). */
static int make_syn_secret(const struct mk_datapath *datapath, struct mk_error *err)
{
	struct mk_syn_secret secret = { 0 };
	struct mk_table table;
	__u32 zero = 0;
	int fd = mk_object_map(datapath->object, "syn_secret", err);
	int ret = fd < 0 ? fd : mk_table_init(&table, "syn_secret", fd, err);

	if (ret < 0)
		return ret;
	if (mk_table_get(&table, &zero, &secret, err) == 0 && secret.half[0])
		return 0;
	if (getrandom(&secret, sizeof(secret), 0) != sizeof(secret))
		return mk_error_errno(err, errno, "no random numbers for map 'syn_secret'");
	secret.half[0] |= 1; /* 0 is none */
	return mk_table_put(&table, &zero, &secret, err);
}

static int init_tables(struct mk_datapath *datapath, struct mk_error *err)
{
	const struct {
		const char *name;
		struct mk_table *table;
	} tables[] = {
		{ "pods", &datapath->pods },
		{ "routes", &datapath->routes },
		{ "node_routes", &datapath->node_routes },
		{ "peers", &datapath->peers },
		{ "far_peers", &datapath->far_peers },
		{ "link_nodes", &datapath->link_nodes },
		{ "links", &datapath->link_table },
		{ "uplinks", &datapath->uplink_table },
		{ "sessions", &datapath->sessions[0] },
		{ "sessions_young", &datapath->sessions[1] },
		{ "nat_sessions", &datapath->sessions[2] },
		{ "nat_sessions_young", &datapath->sessions[3] },
		{ "half_open_quota", &datapath->half_open_quota },
		{ "frontends", &datapath->service_tables.frontends },
		{ "service_backends", &datapath->service_tables.backends },
		{ "maglev", &datapath->service_tables.maglev },
		{ "service_counters", &datapath->counters.live },
		{ "service_counters_ended", &datapath->counters.ended },
		{ "service_drops", &datapath->counters.drops },
		{ "affinity_backends", &datapath->service_tables.affinity_backends },
		{ "source_ranges", &datapath->service_tables.source_ranges },
		{ "affinity", &datapath->affinity },
		{ "affinity_new", &datapath->affinity_new },
		{ "policy_state", &datapath->policy_tables.state },
		{ "pod_policies", &datapath->policy_tables.pods },
		{ "policy_identities", &datapath->policy_tables.identities },
		{ "policy_peers", &datapath->policy_tables.peers },
		{ "policy_blocks", &datapath->policy_tables.blocks },
		{ "policy_ports", &datapath->policy_tables.ports },
		{ "policy_counts", &datapath->policy_tables.counts },
		{ "policy_expected", &datapath->policy_tables.expected },
		{ "policy_namespaces", &datapath->policy_tables.namespaces },
		{ "sfc_chains", &datapath->sfc_tables.chains },
		{ "sfc_functions", &datapath->sfc_tables.functions },
		{ "sfc_replicas", &datapath->sfc_tables.replicas },
		{ "sfc_tags", &datapath->sfc_tables.tags },
		{ "sfc_ports", &datapath->sfc_tables.ports },
		{ "sfc_paths", &datapath->sfc_tables.paths },
		{ "sfc_counters", &datapath->sfc_tables.counters },
		{ "sfc_end_flows", &datapath->sfc_tables.end_flows },
		{ "clusters", &datapath->cluster_tables.clusters },
		{ "cluster_nodes", &datapath->cluster_tables.nodes },
		{ "cluster_carriers", &datapath->cluster_tables.carriers },
		{ "cluster_counters", &datapath->cluster_tables.counters },
		{ "exports", &datapath->cluster_tables.exports },
	};
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_ARRAY_SIZE(tables); i++) {
		int fd = mk_object_map(datapath->object, tables[i].name, err);

		ret = fd < 0 ? fd : mk_table_init(tables[i].table, tables[i].name, fd, err);
	}
	return ret;
}

static int open_tables(struct mk_datapath *datapath, struct mk_error *err)
{
	int ret = init_tables(datapath, err) ?: make_syn_secret(datapath, err);

	ret = ret ?: open_services(datapath, err) ?: open_policies(datapath, err);
	ret = ret ?: open_sfc(datapath, err) ?: open_clusters(datapath, err);
	return ret < 0 ? ret : datapath_recover_routes(datapath, err);
}

static int use_reused(struct mk_datapath *datapath, struct mk_error *err)
{
	int missing = mk_object_chain_missing(datapath->object, err);

	datapath->reused = true;
	mk_log_info("the pinned programs are this version's: none is loaded");
	return missing > 0 ? mk_object_fill_chain(datapath->object, err) : missing;
}

static void warn_of_checksums(const struct mk_datapath *datapath)
{
	if (!mk_object_sees_checksums(datapath->object))
		mk_log_warn(
			"a pod with NET_RAW can forge addresses and ports where a device has no checksum offload: this kernel does not show struct sk_buff to programs. Drop NET_RAW from pods, or use a kernel with CONFIG_DEBUG_INFO_BTF=y and without lockdown=confidentiality");
}

static int make_tables(struct mk_datapath *datapath, struct mk_error *err)
{
	int ret = take_over_all(datapath, err) ?: pins_resume(datapath, err);

	ret = ret ?: datapath_reuse(datapath, err);
	if (ret != 0)
		return ret < 0 ? ret : use_reused(datapath, err);
	if (datapath->adopts)
		return mk_error_set(
			err, ENOENT,
			"no pinned programs of this version with these constants and tables");
	warn_of_checksums(datapath);
	ret = mk_object_load(datapath->object, err);
	ret = ret ?: mk_object_fill_chain(datapath->object, err);
	ret = ret ?: pin_new(datapath, err);
	return ret ?: migrations_copy(datapath, false, err);
}

/* The configured sizes are not possible: go on with the sizes of the pinned tables. */
static int make_tables_again(struct mk_datapath *datapath, struct mk_error *err)
{
	int ret;

	mk_log_error("%s; tables stay as large as they are", mk_error_text(err));
	*err = (struct mk_error){ 0 };
	migrations_release(datapath);
	datapath->keep_sizes = true;
	ret = open_object(datapath, err);
	return ret < 0 ? ret : make_tables(datapath, err);
}

int mk_datapath_adopt(struct mk_datapath *datapath, struct mk_error *err)
{
	datapath->adopts = true;
	return mk_datapath_load(datapath, err);
}

int mk_datapath_load(struct mk_datapath *datapath, struct mk_error *err)
{
	int ret = datapath_expect(datapath, MK_DATAPATH_OPENED, "load", err);

	ret = ret ?: mk_abi_check(datapath->bpf_dir, err);
	if (ret < 0)
		return ret;
	ret = make_tables(datapath, err);
	if (mk_object_lacks_memory(ret) && mk_datapath_moved(datapath))
		ret = make_tables_again(datapath, err);
	ret = ret ?: open_tables(datapath, err);
	if (ret == 0)
		datapath->state = MK_DATAPATH_LOADED;
	return ret;
}

// SPDX-License-Identifier: Apache-2.0
/* Flows of chains with ends: a map per chain, so that a flood harms its chain alone. Programs make
 * the entries. The maps are pinned, because the agent may not open a map by its id: with its pin, a
 * later agent finds it again. */
#include <bpf/bpf.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/time.h"
#include "datapath/maps/pin.h"
#include "datapath/sfc/tables_internal.h"

#define IDLE_TCP_S     (24 * 3600)
#define IDLE_CLOSING_S 120
#define IDLE_OTHERS_S  300

/* ---- pins ------------------------------------------------------------------------------------ */

static int path_of(const struct mk_sfc_sync *sync, uint32_t chain, char path[PATH_MAX],
		   struct mk_error *err)
{
	char name[32];

	snprintf(name, sizeof(name), "sfc_flows_%u", chain);
	return mk_pin_path(path, sync->tables->pins, MK_PIN_MAPS, name, err);
}

/* Pin the map, in place of an earlier one. */
static int pin(const struct mk_sfc_sync *sync, uint32_t chain, int fd, struct mk_error *err)
{
	char path[PATH_MAX];
	int ret = path_of(sync, chain, path, err);

	if (ret < 0)
		return ret;
	if (unlink(path) < 0 && errno != ENOENT)
		return mk_error_errno(err, errno, "cannot replace pin '%s': remove it by hand",
				      path);
	if (bpf_obj_pin(fd, path) < 0)
		return mk_error_errno(
			err, errno,
			"cannot pin '%s': its directory must be in a writable BPF file system",
			path);
	return 0;
}

static uint32_t id_of(int fd)
{
	struct bpf_map_info info = { 0 };
	__u32 size = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &size) < 0 ? 0 : info.id;
}

/* ---- maps of this sync ----------------------------------------------------------------------- */

static void forget(struct sfc_flows *flows)
{
	if (flows->is_open)
		mk_table_close(&flows->table);
	*flows = (struct sfc_flows){ 0 };
}

void ends_close(struct mk_sfc_sync *sync)
{
	for (size_t i = 0; i < MK_SFC_CHAINS; i++)
		forget(&sync->flows[i]);
}

/* Without a pin that leads to it, the map is replaced. */
static int open_one(struct mk_sfc_sync *sync, uint32_t chain, struct mk_error *err)
{
	struct sfc_flows *flows = &sync->flows[chain];
	cleanup_close int fd = -1;
	char path[PATH_MAX];
	int ret = path_of(sync, chain, path, err);

	if (ret < 0)
		return ret;
	fd = bpf_obj_get(path);
	if (fd < 0 || id_of(fd) != flows->id)
		return 0;
	ret = mk_table_init(&flows->table, SFC_END_FLOW, fd, err);
	if (ret < 0)
		return ret;
	mk_steal_fd(&fd);
	flows->is_open = true;
	return 0;
}

int ends_open(struct mk_sfc_sync *sync, struct mk_error *err)
{
	int ret = 0;

	for (uint32_t i = 0; ret == 0 && i < MK_SFC_CHAINS; i++)
		if (mk_table_get(&sync->tables->end_flows, &i, &sync->flows[i].id, NULL) == 0)
			ret = open_one(sync, i, err);
	return ret;
}

/* ---- what the rows have ---------------------------------------------------------------------- */

static bool has_ends(const struct mk_sfc_rows *rows, uint32_t chain)
{
	return chain < rows->chain_count && rows->chains[chain].end[MK_SFC_INSIDE];
}

/* The number may have another owner now. */
static bool has_flows(const struct applying *apply, uint32_t chain)
{
	const struct mk_sfc_chain *was = image_row(&apply->sync->images[SFC_CHAINS], chain);

	return apply->sync->flows[chain].is_open &&
	       was->uid_hash == apply->rows->chains[chain].uid_hash;
}

static int make(struct mk_sfc_sync *sync, uint32_t chain, struct mk_error *err)
{
	struct sfc_flows *flows = &sync->flows[chain];
	int ret;

	forget(flows);
	ret = mk_table_create(&flows->table, SFC_END_FLOW, BPF_MAP_TYPE_LRU_HASH,
			      sizeof(struct mk_tuple), sizeof(struct mk_sfc_end_flow),
			      MK_SFC_END_FLOWS, sync->family, err);
	if (ret < 0)
		return ret;
	flows->is_open = true;
	ret = pin(sync, chain, flows->table.fd, err);
	ret = ret ?: mk_table_put(&sync->tables->end_flows, &chain, &flows->table.fd, err);
	flows->id = id_of(flows->table.fd);
	if (ret < 0)
		forget(flows);
	return ret;
}

int ends_put(const struct applying *apply)
{
	int ret = 0;

	for (uint32_t i = 0; ret == 0 && i < apply->rows->chain_count; i++) {
		if (!has_ends(apply->rows, i) || has_flows(apply, i))
			continue;
		ret = make(apply->sync, i, apply->err);
		apply->counts->put += ret == 0;
	}
	return ret;
}

int ends_remove(const struct applying *apply)
{
	struct mk_sfc_sync *sync = apply->sync;
	char path[PATH_MAX];
	int ret = 0;

	for (uint32_t i = 0; ret >= 0 && i < MK_SFC_CHAINS; i++) {
		if (!sync->flows[i].id || has_ends(apply->rows, i))
			continue;
		ret = path_of(sync, i, path, apply->err);
		if (ret == 0 && unlink(path) < 0 && errno != ENOENT)
			ret = mk_error_errno(apply->err, errno, "cannot remove pin '%s'", path);
		ret = ret ?: mk_table_delete(&sync->tables->end_flows, &i, apply->err);
		if (ret >= 0)
			forget(&sync->flows[i]);
		apply->counts->deleted += ret > 0;
	}
	return ret < 0 ? ret : 0;
}

/* ---- repair ---------------------------------------------------------------------------------- */

static bool is_map_in_use(const struct mk_sfc_sync *sync, uint32_t chain)
{
	uint32_t id = 0;

	return mk_table_get(&sync->tables->end_flows, &chain, &id, NULL) == 0 &&
	       id == sync->flows[chain].id;
}

/* Pin the map of the chain again if no pin leads to it. Returns 1 if it did. */
static int repair_pin(const struct mk_sfc_sync *sync, uint32_t chain, struct mk_error *err)
{
	const struct sfc_flows *flows = &sync->flows[chain];
	cleanup_close int fd = -1;
	char path[PATH_MAX];
	int ret = path_of(sync, chain, path, err);

	if (ret < 0)
		return ret;
	fd = bpf_obj_get(path);
	if (fd >= 0 && id_of(fd) == flows->id)
		return 0;
	ret = mk_pin_prepare(sync->tables->pins, err);
	ret = ret ?: pin(sync, chain, flows->table.fd, err);
	if (ret < 0)
		return ret;
	mk_log_warn(
		"the pin of a chain's map of flows was removed or replaced by another process and is back pin=%s",
		path);
	return 1;
}

int ends_reconcile(struct mk_sfc_sync *sync, struct mk_error *err)
{
	int differ = 0, failed = 0;

	for (uint32_t i = 0; i < MK_SFC_CHAINS; i++) {
		int ret = 0;

		if (!sync->flows[i].id)
			continue;
		if (!is_map_in_use(sync, i)) {
			say_changed(&sync->tables->end_flows, i);
			forget(&sync->flows[i]);
			differ++;
		} else if (sync->flows[i].is_open) {
			ret = repair_pin(sync, i, err);
		}
		differ += ret > 0;
		failed = ret < 0 ? ret : failed;
	}
	return differ ?: failed;
}

/* ---- flows ----------------------------------------------------------------------------------- */

/* One turn of the loop reads so many flows: less than 0.5 ms, about 1 ms if all are idle. */
#define BATCH 1024
struct batch {
	struct mk_tuple keys[BATCH];
	struct mk_sfc_end_flow flows[BATCH];
};

static bool is_idle(const struct mk_tuple *key, const struct mk_sfc_end_flow *flow, uint32_t now_s)
{
	const int32_t limit_s = flow->closing		    ? IDLE_CLOSING_S
				: key->proto == IPPROTO_TCP ? IDLE_TCP_S
							    : IDLE_OTHERS_S;

	return (int32_t)(now_s - flow->seen_s) > limit_s;
}

/* mk_sfc_sync_flows() counts two entries per session. */
static void note(struct sfc_seen *seen, uint16_t replica)
{
	if (!replica || replica >= MK_SFC_REPLICAS)
		return;
	seen->named.replicas[replica] = true;
	seen->entries[replica] += 2;
}

static void note_flow(struct mk_sfc_sync *sync, const struct mk_sfc_end_flow *flow)
{
	sync->ends.count++;
	for (size_t i = 0; i < MK_SFC_SIDES; i++)
		note(&sync->seeing, flow->end[i]);
	for (size_t i = 0; i < MK_SFC_FUNCTIONS; i++)
		note(&sync->seeing, flow->replica[i]);
}

static int read_batch(struct mk_sfc_sync *sync, const struct mk_table *table, uint32_t now_s,
		      struct mk_error *err)
{
	cleanup_free struct batch *batch = malloc(sizeof(*batch));
	int count, ret = 0;

	if (!batch)
		return mk_error_errno(err, ENOMEM, "cannot read the flows of chains");
	count = mk_table_next(table, &sync->ends.cursor, batch->keys, batch->flows, BATCH, err);
	for (int i = 0; ret >= 0 && i < count; i++)
		if (is_idle(&batch->keys[i], &batch->flows[i], now_s))
			ret = mk_table_delete(table, &batch->keys[i], err);
		else
			note_flow(sync, &batch->flows[i]);
	return count < 0 ? count : ret;
}

int ends_sweep(struct mk_sfc_sync *sync, uint64_t now_ns, struct mk_error *err)
{
	struct ends_sweep *at = &sync->ends;
	int ret;

	while (at->chain < MK_SFC_CHAINS && !sync->flows[at->chain].is_open)
		*at = (struct ends_sweep){ .chain = at->chain + 1 };
	if (at->chain == MK_SFC_CHAINS)
		return 1;
	ret = read_batch(sync, &sync->flows[at->chain].table, (uint32_t)(now_ns / MK_NS_PER_S),
			 err);
	if (ret < 0)
		return ret;
	if (at->cursor.done) {
		sync->flows[at->chain].count = at->count;
		*at = (struct ends_sweep){ .chain = at->chain + 1 };
	}
	return 0;
}

uint32_t mk_sfc_sync_end_flows(const struct mk_sfc_sync *sync, uint16_t chain)
{
	return chain < MK_SFC_CHAINS ? sync->flows[chain].count : 0;
}

// SPDX-License-Identifier: Apache-2.0
/* Paths: programs make them, and nothing but the sessions knows who uses them. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "datapath/sfc/tables_internal.h"

#define UNNAMED_S 60
/* A session may move from one table to another and be missed by a pass, but not by so many. */
#define PATH_PASSES 3

static struct path_use *uses_of(struct mk_sfc_sync *sync)
{
	if (!sync->paths)
		sync->paths = calloc(MK_SFC_PATHS + 1, sizeof(*sync->paths));
	return sync->paths;
}

/* Without memory for the notes, no path is ever removed. */
void mk_sfc_sync_see_path(struct mk_sfc_sync *sync, uint16_t path)
{
	struct path_use *uses = path ? uses_of(sync) : NULL;

	if (!uses)
		return;
	uses[path].entries++;
	uses[path].passes = 0;
	uses[path].named_s = 0; /* in this pass: the pass's end says when */
	sync->saw_path = true;
}

struct pass {
	struct mk_sfc_sync *sync;
	struct path_use *uses;
	uint32_t now_s;
	uint16_t *unnamed; /* paths to be removed */
	size_t unnamed_count, count;
};

static void note_named(struct mk_sfc_sync *sync, const struct mk_sfc_path *path, uint32_t entries)
{
	struct mk_sfc_named *named = &sync->seeing.named;

	for (size_t i = 0; i < MK_POLICY_DIRECTIONS; i++)
		if (path->chain[i] < MK_SFC_CHAINS)
			named->chains[path->chain[i]] = true;
	for (size_t i = 0; i < MK_SFC_PATH_FUNCTIONS; i++)
		if (path->replica[i] < MK_SFC_REPLICAS) {
			named->replicas[path->replica[i]] = true;
			sync->seeing.entries[path->replica[i]] += entries;
		}
}

/* Is the path to be removed? One that the agent meets for the first time counts as just named. */
static bool is_unnamed(struct path_use *use, uint32_t now_s)
{
	if (!use->is_known || !use->named_s)
		use->named_s = now_s;
	use->is_known = true;
	if (use->passes < PATH_PASSES)
		use->passes++;
	return use->passes == PATH_PASSES && now_s - use->named_s >= UNNAMED_S;
}

static int see(void *ctx, const void *key, const void *value, struct mk_error *err)
{
	struct pass *pass = ctx;
	uint32_t id = *(const uint32_t *)key;

	(void)err;
	if (id == 0 || id > MK_SFC_PATHS)
		return 0;
	if (is_unnamed(&pass->uses[id], pass->now_s) && pass->unnamed_count < MK_SFC_PATHS) {
		pass->unnamed[pass->unnamed_count++] = (uint16_t)id;
		return 0;
	}
	pass->count++;
	note_named(pass->sync, value, pass->uses[id].entries);
	pass->uses[id].entries = 0;
	return 0;
}

static int remove_unnamed(struct pass *pass, struct mk_error *err)
{
	int removed = 0;

	for (size_t i = 0; i < pass->unnamed_count; i++) {
		uint32_t id = pass->unnamed[i];
		int ret = mk_table_delete(&pass->sync->tables->paths, &id, err);

		if (ret < 0)
			return ret;
		pass->uses[id] = (struct path_use){ 0 };
		removed += ret;
	}
	return removed;
}

static int read_paths(struct pass *pass, struct mk_error *err)
{
	struct mk_sfc_sync *sync = pass->sync;
	int ret = mk_table_each(&sync->tables->paths, see, pass, err);

	sync->path_count = pass->count;
	return ret < 0 ? ret : remove_unnamed(pass, err);
}

/* Nothing can have made a path while there is no chain. */
static int sweep_paths(struct mk_sfc_sync *sync, uint64_t now_ns, struct mk_error *err)
{
	cleanup_free uint16_t *unnamed = NULL;
	struct pass pass = { .sync = sync, .now_s = (uint32_t)(now_ns / MK_NS_PER_S) };

	if (mk_sfc_sync_is_empty(sync) && !sync->path_count && !sync->saw_path)
		return 0;
	sync->saw_path = false;
	unnamed = calloc(MK_SFC_PATHS, sizeof(*unnamed));
	pass.unnamed = unnamed;
	pass.uses = uses_of(sync);
	if (!unnamed || !pass.uses)
		return mk_error_errno(err, ENOMEM, "cannot read the paths of chains");
	return read_paths(&pass, err);
}

/* Numbers are released by what the whole pass has met, so it counts when all is read. */
int mk_sfc_sync_pass_ended(struct mk_sfc_sync *sync, uint64_t now_ns, struct mk_error *err)
{
	int ret = 0;

	if (!sync->is_ending) {
		memset(&sync->seeing, 0, sizeof(sync->seeing));
		sync->seeing.named.since_ns = now_ns;
		sync->ends = (struct ends_sweep){ 0 };
		ret = sweep_paths(sync, now_ns, err);
	}
	if (ret >= 0)
		ret = ends_sweep(sync, now_ns, err);
	sync->is_ending = ret == 0;
	if (ret > 0)
		sync->seen = sync->seeing;
	return ret;
}

const struct mk_sfc_named *mk_sfc_sync_named(const struct mk_sfc_sync *sync)
{
	return &sync->seen.named;
}

/* A session has an entry for each direction. */
uint32_t mk_sfc_sync_flows(const struct mk_sfc_sync *sync, uint16_t replica)
{
	return replica < MK_SFC_REPLICAS ? (sync->seen.entries[replica] + 1) / 2 : 0;
}

size_t mk_sfc_sync_path_count(const struct mk_sfc_sync *sync)
{
	return sync->path_count;
}

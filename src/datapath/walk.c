// SPDX-License-Identifier: Apache-2.0
#include "datapath/walk.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/bpflog.h"
#include "walk.skel.h"

#define RUNS_PER_CALL	128 /* of the program, without coming back: 4,096 buckets */
#define CALLS_PER_PIECE 16
#define FAILURES_MAX	64 /* of one bucket in a row: its chain is too long, or never holds still */

struct mk_walker {
	struct walk_bpf *skel;
};

static struct bpf_map *slot_map(const struct mk_walker *walker, int slot)
{
	struct bpf_map *maps[MK_WALK_SLOTS] = {
		walker->skel->maps.table_0,
		walker->skel->maps.table_1,
		walker->skel->maps.table_2,
		walker->skel->maps.table_3,
		[MK_WALK_TRIAL_HASH] = walker->skel->maps.trial_hash,
		[MK_WALK_TRIAL_LRU] = walker->skel->maps.trial_lru,
	};

	return maps[slot];
}

/* ---- a piece -------------------------------------------------------------------------------- */

/* What an interrupted call has read is there; the next one goes on. */
static int run(const struct mk_walker *walker, struct mk_error *err)
{
	unsigned char packet[64] = { 0 }; /* nobody looks at it */
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = packet, .data_size_in = sizeof(packet),
		    .repeat = RUNS_PER_CALL);

	if (bpf_prog_test_run_opts(bpf_program__fd(walker->skel->progs.walk), &options) < 0 &&
	    errno != EINTR)
		return mk_error_errno(err, errno, "cannot run program 'walk'");
	if (walker->skel->bss->shared.failures < FAILURES_MAX)
		return 0;
	return mk_error_set(err, EAGAIN, "cannot read bucket %u of %u: %u attempts",
			    walker->skel->bss->shared.bucket,
			    walker->skel->bss->shared.bucket_count, FAILURES_MAX);
}

static int read_slot(struct mk_walker *walker, uint32_t slot, struct mk_walk_cursor *cursor,
		     uint32_t wanted, struct mk_error *err)
{
	struct mk_walk *shared = &walker->skel->bss->shared;
	int ret = 0;

	if (wanted > MK_WALK_ENTRIES - MK_WALK_CHAINED)
		wanted = MK_WALK_ENTRIES - MK_WALK_CHAINED;
	shared->slot = slot;
	shared->wanted = wanted;
	shared->bucket = cursor->bucket;
	shared->bucket_count = 0;
	shared->count = 0;
	for (int calls = 0; ret == 0 && calls < CALLS_PER_PIECE && !cursor->done; calls++) {
		ret = run(walker, err);
		cursor->bucket = shared->bucket;
		cursor->done = shared->bucket_count && shared->bucket >= shared->bucket_count;
		if (shared->count >= wanted)
			break;
	}
	return ret < 0 ? ret : (int)shared->count;
}

int mk_walker_next(struct mk_walker *walker, int index, struct mk_walk_cursor *cursor,
		   uint32_t wanted, struct mk_walk_entry **entries, struct mk_error *err)
{
	*entries = walker->skel->bss->shared.entries;
	return read_slot(walker, (uint32_t)index, cursor, wanted, err);
}

/* ---- trial ---------------------------------------------------------------------------------- */

#define TRIAL_ENTRIES 128

/* The kernel's chains need not be long to be of every kind: of 128 entries in 256 buckets some thirty
 * share theirs. */
static void trial_entry(uint32_t number, struct mk_tuple *key, struct mk_session *session)
{
	uint32_t word = number * 0x9e3779b1U;

	*key = (struct mk_tuple){
		.saddr.word = { word },
		.daddr.word = { ~word },
		.sport = (__be16)(word >> 8),
		.dport = (__be16)number,
		.proto = (uint8_t)(number + 1),
	};
	*session = (struct mk_session){
		.to = *key,
		.created_ns = number,
		.last_seen_ns = (uint64_t)word << 32 | number,
		.bytes = ~(uint64_t)number,
		.packets = word,
		.service_id = word ^ 0x55555555,
		.account_id = number,
		.flags = (uint8_t)word,
	};
	session->to.sport = key->dport;
}

static int put_trial(const struct mk_table *table, struct mk_error *err)
{
	int ret = 0;

	for (uint32_t number = 0; ret == 0 && number < TRIAL_ENTRIES; number++) {
		struct mk_session session;
		struct mk_tuple key;

		trial_entry(number, &key, &session);
		ret = mk_table_put(table, &key, &session, err);
	}
	return ret;
}

static int count_entries(const struct mk_table *table, struct mk_error *err)
{
	cleanup_free void *keys = NULL;
	size_t count = 0;
	int ret = mk_table_keys(table, &keys, &count, err);

	return ret < 0 ? ret : (int)count;
}

static bool is_put(const struct mk_walk_entry *entry, bool *seen)
{
	uint64_t number = entry->session.created_ns;
	struct mk_walk_entry put;

	if (number >= TRIAL_ENTRIES || seen[number])
		return false;
	trial_entry((uint32_t)number, &put.key, &put.session);
	seen[number] = true;
	return memcmp(&entry->key, &put.key, sizeof(put.key)) == 0 &&
	       memcmp(&entry->session, &put.session, sizeof(put.session)) == 0;
}

/* Of an LRU table the kernel may have taken some out again. */
static int compare_trial(struct mk_walker *walker, const struct mk_table *table, uint32_t slot,
			 struct mk_error *err)
{
	struct mk_walk_entry *entries = walker->skel->bss->shared.entries;
	struct mk_walk_cursor cursor = { 0 };
	bool seen[TRIAL_ENTRIES] = { 0 };
	int there = count_entries(table, err), got;

	if (there < 0)
		return there;
	got = read_slot(walker, slot, &cursor, MK_WALK_ENTRIES, err);
	if (got < 0)
		return got;
	if (got != there || got < TRIAL_ENTRIES / 4 || !cursor.done)
		return mk_error_set(err, EPROTO, "it read %d entries of %d in map '%s'", got, there,
				    table->name);
	for (int i = 0; i < got; i++)
		if (!is_put(&entries[i], seen))
			return mk_error_set(err, EPROTO,
					    "what it read of map '%s' is not what is there",
					    table->name);
	return 0;
}

static int try_slot(struct mk_walker *walker, int slot, const char *name, struct mk_error *err)
{
	struct mk_table table;
	int ret = mk_table_init(&table, name, bpf_map__fd(slot_map(walker, slot)), err);

	if (ret == 0)
		ret = put_trial(&table, err);
	return ret < 0 ? ret : compare_trial(walker, &table, (uint32_t)slot, err);
}

/* ---- load ----------------------------------------------------------------------------------- */

static int open_skel(struct mk_walker *walker, const char *btf_path, struct mk_error *err)
{
	LIBBPF_OPTS(bpf_object_open_opts, options, .btf_custom_path = btf_path);

	walker->skel = walk_bpf__open_opts(&options);
	return walker->skel ? 0 : mk_error_errno(err, errno, "cannot open program 'walk'");
}

static int use_tables(const struct mk_walker *walker, const struct mk_table *tables, int count,
		      struct mk_error *err)
{
	for (int i = 0; i < count; i++) {
		const struct mk_table *table = &tables[i];
		bool is_hash =
			table->type == BPF_MAP_TYPE_HASH || table->type == BPF_MAP_TYPE_LRU_HASH;
		int ret;

		if (!is_hash || table->key_size != sizeof(struct mk_tuple) ||
		    table->value_size != sizeof(struct mk_session))
			return mk_error_set(err, EPROTO, "map '%s' is no table of sessions",
					    table->name);
		ret = bpf_map__reuse_fd(slot_map(walker, i), table->fd);
		if (ret < 0)
			return mk_error_errno(err, -ret, "cannot use map '%s'", table->name);
	}
	return 0;
}

/* Libbpf's and the verifier's words are many, and nothing is missing without the program. */
static int load(struct mk_walker *walker, struct mk_error *err)
{
	bool quiet = mk_bpflog_quiet(true);
	int ret = walk_bpf__load(walker->skel);

	mk_bpflog_quiet(quiet);
	if (ret == -ESRCH)
		return mk_error_set(err, ESRCH,
				    "the kernel does not say what its structs look like "
				    "(/sys/kernel/btf/vmlinux)");
	return ret < 0 ? mk_error_errno(err, -ret, "the kernel refuses program 'walk'") : 0;
}

static int prepare(struct mk_walker *walker, const struct mk_table *tables, int count,
		   const char *btf_path, struct mk_error *err)
{
	int ret = open_skel(walker, btf_path, err);

	if (ret == 0)
		ret = use_tables(walker, tables, count, err);
	if (ret == 0)
		ret = load(walker, err);
	if (ret == 0)
		ret = try_slot(walker, MK_WALK_TRIAL_HASH, "trial_hash", err);
	if (ret == 0)
		ret = try_slot(walker, MK_WALK_TRIAL_LRU, "trial_lru", err);
	return ret;
}

struct mk_walker *mk_walker_open(const struct mk_table *tables, int count, const char *btf_path,
				 struct mk_error *err)
{
	struct mk_walker *walker;

	if (count > MK_WALK_TABLES) {
		(void)mk_error_set(err, EINVAL, "program 'walk' has no room for %d tables", count);
		return NULL;
	}
	walker = calloc(1, sizeof(*walker));
	if (!walker) {
		(void)mk_error_errno(err, ENOMEM, "cannot load program 'walk'");
		return NULL;
	}
	mk_bpflog_init();
	if (prepare(walker, tables, count, btf_path, err) < 0) {
		mk_walker_free(walker);
		return NULL;
	}
	return walker;
}

void mk_walker_free(struct mk_walker *walker)
{
	if (!walker)
		return;
	walk_bpf__destroy(walker->skel);
	free(walker);
}

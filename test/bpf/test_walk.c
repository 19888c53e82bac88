// SPDX-License-Identifier: Apache-2.0
/* Program `walk`: it reads what bpf_map_lookup_batch() does, whoever changes the table meanwhile; and
 * where the kernel's tables look otherwise, the sweep goes on without it. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bpf/run.h"

#include "base/cleanup.h"
#include "datapath/sweep.h"
#include "datapath/walk.h"

static struct mk_error err;

/* ---- tables ---------------------------------------------------------------------------------- */

static const struct kind {
	const char *name;
	enum bpf_map_type type;
	__u32 flags;
} kinds[] = {
	{ "hash", BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC },
	{ "hash, allocated at once", BPF_MAP_TYPE_HASH, 0 },
	{ "LRU hash", BPF_MAP_TYPE_LRU_HASH, 0 },
};

static struct mk_table make_table(const struct kind *kind, __u32 entries)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = kind->flags);
	struct mk_table table;
	int fd = bpf_map_create(kind->type, NULL, sizeof(struct mk_tuple),
				sizeof(struct mk_session), entries, &options);

	ck_assert_msg(fd >= 0, "cannot create a map: %s", strerror(errno));
	ck_assert_int_eq(mk_table_init(&table, "sessions", fd, &err), 0);
	return table;
}

/* Each processor keeps some of an LRU table's room for itself: of many, all of it, and what is to stay
 * would make room for what comes. */
static void use_few_processors(void)
{
	cpu_set_t allowed, few;
	int count = 0;

	CPU_ZERO(&few);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
	for (int cpu = 0; cpu < CPU_SETSIZE && count < 3; cpu++)
		if (CPU_ISSET(cpu, &allowed)) {
			CPU_SET(cpu, &few);
			count++;
		}
	ck_assert_int_eq(sched_setaffinity(0, sizeof(few), &few), 0);
}

static void setup(void)
{
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };

	setrlimit(RLIMIT_MEMLOCK, &unlimited);
	use_few_processors();
}

static struct mk_tuple key_of(__u32 number)
{
	return (struct mk_tuple){ .saddr.word = { htonl(0x0a000000 + number) },
				  .sport = htons((uint16_t)number),
				  .proto = IPPROTO_UDP };
}

/* Each part of the session tells whose it is. */
static struct mk_session session_of(__u32 number)
{
	return (struct mk_session){
		.to = key_of(number),
		.created_ns = number,
		.last_seen_ns = ~(__u64)number,
		.bytes = (__u64)number << 32,
		.packets = number,
		.service_id = ~number,
		.account_id = number,
		.flags = number & (MK_SESSION_MOVED - 1),
	};
}

static int put(const struct mk_table *table, __u32 number)
{
	struct mk_tuple key = key_of(number);
	struct mk_session session = session_of(number);

	return bpf_map_update_elem(table->fd, &key, &session, BPF_ANY);
}

static void fill(const struct mk_table *table, __u32 first, __u32 count)
{
	for (__u32 i = 0; i < count; i++) /* the kernel's allocator may be behind: ENOMEM */
		while (put(table, first + i) < 0)
			ck_assert_int_eq(errno, ENOMEM);
}

static struct mk_walker *open_walker(const struct mk_table *table)
{
	struct mk_walker *walker = mk_walker_open(table, 1, NULL, &err);

	ck_assert_msg(walker, "this kernel refuses: %s", mk_error_text(&err));
	return walker;
}

/* ---- what is there ---------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct mk_walk_entry));
}

/* All of @table, sorted, as the walk reads it in pieces of @wanted. The caller frees it. */
static struct mk_walk_entry *walk_all(const struct mk_table *table, __u32 wanted, size_t *count)
{
	struct mk_walk_entry *all = calloc(table->max_entries + 1, sizeof(*all)), *piece;
	struct mk_walker *walker = open_walker(table);
	struct mk_walk_cursor cursor = { 0 };

	*count = 0;
	while (!cursor.done) {
		int got = mk_walker_next(walker, 0, &cursor, wanted, &piece, &err);

		ck_assert_msg(got >= 0, "%s", mk_error_text(&err));
		ck_assert_int_lt(got, (int)wanted + MK_WALK_CHAINED);
		ck_assert_uint_le(*count + (size_t)got, table->max_entries);
		memcpy(all + *count, piece, (size_t)got * sizeof(*piece));
		*count += (size_t)got;
	}
	mk_walker_free(walker);
	for (size_t i = 0; i < *count; i++)
		all[i].hash = 0; /* nobody else knows it */
	qsort(all, *count, sizeof(*all), compare);
	return all;
}

static struct mk_walk_entry *read_all(const struct mk_table *table, size_t *count)
{
	struct mk_walk_entry *all = calloc(table->max_entries + 1, sizeof(*all));
	cleanup_free void *keys = NULL;

	ck_assert_int_eq(mk_table_keys(table, &keys, count, &err), 0);
	for (size_t i = 0; i < *count; i++) {
		all[i].key = ((struct mk_tuple *)keys)[i];
		ck_assert_int_eq(mk_table_get(table, &all[i].key, &all[i].session, &err), 0);
	}
	qsort(all, *count, sizeof(*all), compare);
	return all;
}

static const struct {
	__u32 max_entries, entries, wanted;
} fills[] = {
	{ 1, 0, 4096 },	  { 1, 1, 4096 },     { 2, 2, 1 },	 { 20, 13, 4096 },
	{ 64, 64, 10 },	  { 1000, 1000, 50 }, { 1000, 3, 4096 }, { 5000, 5000, 4096 },
	{ 16384, 1, 10 }, { 200000, 5, 10 },  { 3000, 3000, 1 }, { 20000, 20000, 4096 },
};

START_TEST(test_reads_what_is_there)
{
	const struct kind *kind = &kinds[_i % ROWS(kinds)];
	const int row = _i / ROWS(kinds);
	struct mk_table table = make_table(kind, fills[row].max_entries);
	cleanup_free struct mk_walk_entry *walked = NULL, *there = NULL;
	size_t walked_count, count;

	fill(&table, 1, fills[row].entries);
	walked = walk_all(&table, fills[row].wanted, &walked_count);
	there = read_all(&table, &count);
	ck_assert_msg(walked_count == count, "%s of %u: %zu of %zu", kind->name,
		      fills[row].max_entries, walked_count, count);
	ck_assert_int_eq(memcmp(walked, there, count * sizeof(*there)), 0);
	mk_table_close(&table);
}
END_TEST

/* The slots that follow the first, and the agent's order of tables. */
START_TEST(test_four_tables)
{
	struct mk_table tables[MK_WALK_TABLES];
	struct mk_walk_entry *piece;
	struct mk_walker *walker;

	for (__u32 i = 0; i < MK_WALK_TABLES; i++) {
		tables[i] = make_table(&kinds[i % 2 * 2], 1000);
		fill(&tables[i], 1 + i * 1000, 10 + i);
	}
	walker = mk_walker_open(tables, MK_WALK_TABLES, NULL, &err);
	ck_assert_msg(walker, "%s", mk_error_text(&err));
	for (int i = 0; i < MK_WALK_TABLES; i++) {
		struct mk_walk_cursor cursor = { 0 };

		ck_assert_int_eq(mk_walker_next(walker, i, &cursor, 4096, &piece, &err), 10 + i);
		ck_assert(cursor.done);
		ck_assert_uint_eq(piece->session.created_ns / 1000, (__u64)i);
	}
	mk_walker_free(walker);
	for (int i = 0; i < MK_WALK_TABLES; i++)
		mk_table_close(&tables[i]);
}
END_TEST

/* ---- while others change it ------------------------------------------------------------------- */

#define STAY	 3000 /* entries that stay: 1 to so many */
#define COME	 1000 /* numbers that come and go: above */
#define WALKS	 100
#define CHANGERS 2

static struct mk_table changing;
static atomic_bool is_over;
static atomic_uint changes;

/* The same entries, and so their memory, now here and now in another chain. */
static void *change(void *arg)
{
	__u32 number = (__u32)(uintptr_t)arg * 0x10000, at = 0;

	while (!is_over) {
		__u32 here = number + at++ % COME, gone = number + (at + COME / 2) % COME;
		struct mk_tuple key = key_of(gone);

		(void)put(&changing, here);
		(void)bpf_map_delete_elem(changing.fd, &key);
		changes++;
	}
	return NULL;
}

static void see_all(struct mk_walker *walker, bool *seen)
{
	struct mk_walk_cursor cursor = { 0 };
	struct mk_walk_entry *piece;

	while (!cursor.done) {
		int got = mk_walker_next(walker, 0, &cursor, 256, &piece, &err);

		ck_assert_msg(got >= 0, "%s", mk_error_text(&err));
		for (int i = 0; i < got; i++) {
			__u32 number = ntohl(piece[i].key.saddr.word[0]) - 0x0a000000;
			struct mk_session put = session_of(number);

			if (number > STAY)
				continue;
			ck_assert_int_eq(memcmp(&piece[i].session, &put, sizeof(put)), 0);
			seen[number] = true;
		}
	}
}

START_TEST(test_while_it_changes)
{
	pthread_t threads[CHANGERS];
	struct mk_walker *walker;

	changing = make_table(&kinds[_i], 8192); /* room enough for LRU to keep all */
	fill(&changing, 1, STAY);
	walker = open_walker(&changing);
	for (uintptr_t i = 0; i < CHANGERS; i++)
		pthread_create(&threads[i], NULL, change, (void *)(i + 1));
	for (int walk = 0; walk < WALKS; walk++) {
		unsigned int before = changes;
		bool seen[STAY + 1] = { 0 };

		while (changes == before)
			sched_yield();
		see_all(walker, seen);
		for (int number = 1; number <= STAY; number++)
			ck_assert_msg(seen[number], "%s: %d was not seen", kinds[_i].name, number);
	}
	is_over = true;
	for (int i = 0; i < CHANGERS; i++)
		pthread_join(threads[i], NULL);
	mk_walker_free(walker);
	mk_table_close(&changing);
}
END_TEST

/* ---- kernels of another kind ------------------------------------------------------------------ */

/* Where the structs' members are, in bytes. As they are: of Linux 6.18, x86_64. */
struct layout {
	const char *name;
	__u32 buckets, n_buckets, next, hash, bucket_size;
};

static int int_type(struct btf *btf)
{
	return btf__add_int(btf, "unsigned int", 4, 0);
}

static int struct_of(struct btf *btf, const char *name, __u32 size)
{
	return btf__add_struct(btf, name, size);
}

static void write_btf(const struct layout *layout, const char *path)
{
	struct btf *btf = btf__new_empty();
	int word = int_type(btf), node, node_pointer, bucket, pointer;
	const void *raw;
	__u32 size;
	FILE *file = fopen(path, "w");

	node = struct_of(btf, "hlist_nulls_node", 16);
	node_pointer = node + 1;
	btf__add_field(btf, "next", node_pointer, layout->next * 8, 0);
	ck_assert_int_eq(btf__add_ptr(btf, node), node_pointer);
	struct_of(btf, "hlist_nulls_head", 8);
	btf__add_field(btf, "first", node_pointer, 0, 0);
	bucket = struct_of(btf, "bucket", layout->bucket_size);
	btf__add_field(btf, "head", node_pointer + 1, 0, 0);
	pointer = btf__add_ptr(btf, bucket);
	struct_of(btf, "bpf_htab", 896);
	btf__add_field(btf, "buckets", pointer, layout->buckets * 8, 0);
	btf__add_field(btf, "n_buckets", word, layout->n_buckets * 8, 0);
	struct_of(btf, "htab_elem", 48);
	btf__add_field(btf, "hash_node", node, 0, 0);
	btf__add_field(btf, "hash", word, layout->hash * 8, 0);
	raw = btf__raw_data(btf, &size);
	ck_assert(file && raw && fwrite(raw, size, 1, file) == 1 && fclose(file) == 0);
	btf__free(btf);
}

/* Of this kernel, with one thing wrong. */
static struct layout own_layout(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	struct layout layout = { 0 };
	const struct {
		const char *type, *member;
		__u32 *at;
	} wanted[] = {
		{ "bpf_htab", "buckets", &layout.buckets },
		{ "bpf_htab", "n_buckets", &layout.n_buckets },
		{ "htab_elem", "hash", &layout.hash },
	};

	ck_assert_ptr_nonnull(btf);
	for (int i = 0; i < ROWS(wanted); i++) {
		const struct btf_type *type = btf__type_by_id(
			btf, (__u32)btf__find_by_name_kind(btf, wanted[i].type, BTF_KIND_STRUCT));

		for (int m = 0; m < btf_vlen(type); m++)
			if (strcmp(btf__name_by_offset(btf, btf_members(type)[m].name_off),
				   wanted[i].member) == 0)
				*wanted[i].at = btf_member_bit_offset(type, (__u32)m) / 8;
	}
	layout.bucket_size =
		btf__type_by_id(btf, (__u32)btf__find_by_name_kind(btf, "bucket", BTF_KIND_STRUCT))
			->size;
	btf__free(btf);
	return layout;
}

static const char *const wrong[] = {
	"nothing",	  "buckets elsewhere", "their number elsewhere", "links elsewhere",
	"hash elsewhere", "larger buckets",    "huge buckets",
};

static void spoil(struct layout *layout, int what)
{
	__u32 *const places[] = {
		NULL,	       &layout->buckets,     &layout->n_buckets,  &layout->next,
		&layout->hash, &layout->bucket_size, &layout->bucket_size
	};

	if (what > 0)
		*places[what] += what == 6 ? 4096 : 8;
}

static void write_spoiled(int what, char *path)
{
	struct layout layout = own_layout();
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	close(fd);
	spoil(&layout, what);
	write_btf(&layout, path);
}

/* A walker is refused, with a reason; a sweep that is to have one reads without. */
START_TEST(test_other_layout)
{
	struct mk_table table = make_table(&kinds[0], 1000);
	char path[] = "/tmp/test_walk.XXXXXX";
	const struct mk_sweep_options options = {
		.tables = &table,
		.table_count = 1,
		.reading = MK_SWEEP_BY_PROGRAM,
		.btf_path = path,
	};
	struct mk_sweep *sweep = mk_sweep_new(&options, &err);
	struct mk_walker *walker;

	fill(&table, 1, 900);
	write_spoiled(_i, path);
	walker = mk_walker_open(&table, 1, path, &err);
	ck_assert_msg(!walker == (_i > 0), "%s: %s", wrong[_i], mk_error_text(&err));
	ck_assert_msg(walker || mk_error_text(&err)[0], "%s", wrong[_i]);
	mk_walker_free(walker);
	while (mk_sweep_step(sweep, 0, 4096, &err) == 0)
		;
	ck_assert_int_eq(mk_sweep_by_program(sweep), _i == 0);
	ck_assert_uint_eq(mk_sweep_last_pass(sweep)->seen, 900);
	mk_sweep_free(sweep);
	unlink(path);
	mk_table_close(&table);
}
END_TEST

START_TEST(test_no_layout)
{
	struct mk_table table = make_table(&kinds[0], 1000);

	ck_assert_ptr_null(mk_walker_open(&table, 1, "/nowhere", &err));
	ck_assert_ptr_nonnull(strstr(mk_error_text(&err), "walk"));
	mk_table_close(&table);
}
END_TEST

BPF_SUITE("walk")
{
	TCase *tcase = tcase_create("walk");

	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_set_timeout(tcase, 240);
	tcase_add_loop_test(tcase, test_reads_what_is_there, 0, ROWS(kinds) * ROWS(fills));
	tcase_add_test(tcase, test_four_tables);
	tcase_add_loop_test(tcase, test_while_it_changes, 0, ROWS(kinds));
	tcase_add_loop_test(tcase, test_other_layout, 0, ROWS(wrong));
	tcase_add_test(tcase, test_no_layout);
	suite_add_tcase(suite, tcase);
}

// SPDX-License-Identifier: Apache-2.0
/* Session affinity and source ranges in the tables: ids, their entries, and when
 * they are removed. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "unit/sync_fixture.h"
#include "unit/unit.h"
#include "rows.h"

#define VIP "10.96.0.1"
#define LB  "203.0.113.1"

/* ---- affinity -------------------------------------------------------------------------------- */

static struct mk_frontend at(const char *vip, uint16_t port)
{
	struct mk_frontend service;

	ck_assert_msg(lookup(vip, port, &service), "no frontend %s:%u", vip, port);
	return service;
}

static void apply_sticky(const char *backends, uint32_t timeout_s)
{
	struct built built;

	build(&built, "web", VIP, backends);
	built.compiled.affinity_timeout_s = timeout_s;
	apply(&built);
}

/* Does map affinity_backends contain exactly the current backends of @vip:80? */
static bool has_members(const char *vip, const char *backends)
{
	struct mk_frontend service = at(vip, 80);
	size_t count = strlen(backends);
	__u32 nothing;

	for (size_t i = 0; i < count; i++) {
		char text[] = "10.0.0.N";
		struct mk_affinity_backend_key key = { .set_id = service.set_id,
						       .generation = service.generation,
						       .backend.port = htons(8080) };
		struct mk_ip ip;

		text[7] = backends[i];
		ip = ip_of(text);
		key.backend.addr = mk_ip_to_addr(&ip);
		if (row_lookup(tables.affinity_backends.fd, &key, &nothing) < 0)
			return false;
	}
	return entries(&tables.affinity_backends) == count;
}

START_TEST(test_without)
{
	apply_sticky("23", 0);
	ck_assert_uint_eq(at(VIP, 80).affinity_id, 0);
	ck_assert_uint_eq(at(VIP, 80).affinity_timeout_s, 0);
	ck_assert_uint_eq(entries(&tables.affinity_backends), 0);
}
END_TEST

START_TEST(test_members_follow_backends)
{
	uint32_t id;

	apply_sticky("23", 10800);
	id = at(VIP, 80).affinity_id;
	ck_assert_uint_ne(id, 0);
	ck_assert_uint_eq(at(VIP, 80).affinity_timeout_s, 10800);
	ck_assert(has_members(VIP, "23"));
	apply_sticky("34", 10800);
	ck_assert_uint_eq(at(VIP, 80).affinity_id, id);
	ck_assert_uint_eq(entries(&tables.affinity_backends), 4);
	ck_assert_int_eq(collect(now_ns + MK_RETIRE_NS), 0);
	ck_assert(has_members(VIP, "34"));
	apply_sticky("34", 60);
	ck_assert_uint_eq(at(VIP, 80).affinity_timeout_s, 60);
	ck_assert_uint_eq(at(VIP, 80).affinity_id, id);
	apply_sticky("", 60);
	ck_assert_uint_eq(at(VIP, 80).affinity_id, id);
	apply_sticky("4", 60);
	ck_assert_uint_eq(at(VIP, 80).affinity_id, id);
	remove_named("web");
	ck_assert_int_eq(collect(now_ns + MK_RETIRE_NS), 0);
	ck_assert_uint_eq(entries(&tables.affinity_backends), 0);
}
END_TEST

START_TEST(test_off_and_on)
{
	uint32_t id;

	apply_sticky("23", 10800);
	id = at(VIP, 80).affinity_id;
	apply_sticky("23", 0);
	ck_assert_uint_eq(at(VIP, 80).affinity_id, 0);
	ck_assert_int_eq(collect(now_ns + MK_RETIRE_NS), 0);
	ck_assert_uint_eq(entries(&tables.affinity_backends), 0);
	ck_assert_str_eq(backends_of(VIP), "23");
	apply_sticky("23", 10800);
	ck_assert_uint_gt(at(VIP, 80).affinity_id, id);
	ck_assert(has_members(VIP, "23"));
}
END_TEST

START_TEST(test_affinity_restart)
{
	struct mk_frontend before;

	apply_sticky("23", 10800);
	before = at(VIP, 80);
	sync_restart();
	apply_sticky("23", 10800);
	ck_assert_uint_eq(counts.put + counts.deleted, 0);
	prune();
	ck_assert_uint_eq(counts.put + counts.deleted, 0);
	ck_assert(has_members(VIP, "23"));
	sync_restart();
	apply_sticky("34", 10800);
	ck_assert_uint_eq(at(VIP, 80).affinity_id, before.affinity_id);
	prune();
	ck_assert_int_eq(collect(now_ns + MK_RETIRE_NS), 0);
	ck_assert(has_members(VIP, "34"));
	sync_restart();
	apply_sticky("34", 0);
	prune();
	ck_assert_int_eq(collect(now_ns + MK_RETIRE_NS), 0);
	ck_assert_uint_eq(entries(&tables.affinity_backends), 0);
}
END_TEST

/* A kill after writing a generation's members and before publishing it. */
START_TEST(test_half_written_members)
{
	struct mk_affinity_backend_key key = { .backend.port = htons(9) };
	__u32 nothing = 0;

	apply_sticky("23", 10800);
	key.set_id = at(VIP, 80).set_id;
	key.generation = at(VIP, 80).generation + 1;
	ck_assert_int_eq(mk_table_put(&tables.affinity_backends, &key, &nothing, &sync_err), 0);
	sync_restart();
	apply_sticky("34", 10800);
	prune();
	ck_assert_uint_eq(counts.deleted, 1);
	ck_assert_int_eq(collect(now_ns + MK_RETIRE_NS), 0);
	ck_assert(has_members(VIP, "34"));
}
END_TEST

/* Policy Local: the port has two sets, and one affinity. */
struct two_sets {
	struct built built;
	struct mk_backend_set sets[2];
	struct mk_wanted_frontend outside;
	struct mk_service_backend local;
};

static void apply_two_sets(struct two_sets *two, const char *cluster_port, const char *local_port)
{
	build(&two->built, "web", VIP, "23");
	two->outside = (struct mk_wanted_frontend){
		.ip = ip_of(LB), .port = 80, .proto = IPPROTO_TCP, .scope = MK_SCOPE_EXTERNAL
	};
	two->local = two->built.backends[0];
	two->sets[0] = two->sets[1] = two->built.set;
	two->sets[0].port_name = (char *)(uintptr_t)cluster_port;
	two->sets[1].port_name = (char *)(uintptr_t)local_port;
	two->sets[1].frontends = &two->outside;
	two->sets[1].frontend_count = 1;
	two->sets[1].backends = &two->local;
	two->sets[1].backend_count = 1;
	two->built.compiled.sets = two->sets;
	two->built.compiled.set_count = 2;
	two->built.compiled.affinity_timeout_s = 10800;
	apply(&two->built);
}

static uint32_t outside_affinity(void)
{
	struct mk_frontend service;

	ck_assert(lookup_scope(LB, 80, MK_SCOPE_EXTERNAL, &service));
	return service.affinity_id;
}

START_TEST(test_one_per_port)
{
	struct two_sets two;
	uint32_t id;

	apply_two_sets(&two, "http", "http");
	id = at(VIP, 80).affinity_id;
	ck_assert_uint_ne(id, 0);
	ck_assert_uint_eq(outside_affinity(), id);
	ck_assert_uint_eq(entries(&tables.affinity_backends), 3);
	sync_restart();
	apply_two_sets(&two, "http", "http");
	ck_assert_uint_eq(counts.put + counts.deleted, 0);
	/* another port takes the outer address over */
	apply_two_sets(&two, "http", "https");
	ck_assert_uint_eq(at(VIP, 80).affinity_id, id);
	ck_assert_uint_ne(outside_affinity(), id);
	ck_assert_uint_ne(outside_affinity(), 0);
}
END_TEST

/* ---- source ranges --------------------------------------------------------------------------- */

/* Make a Service whose load-balancer address accepts @ranges, at most 4, NULL-terminated. */
static void apply_ranges(const char *const *ranges)
{
	struct mk_cidr list[4];
	struct built built;
	size_t count = 0;

	build(&built, "web", VIP, "23");
	built.frontends[2] = (struct mk_wanted_frontend){
		.ip = ip_of(LB), .port = 80, .proto = IPPROTO_TCP, .filtered = true
	};
	built.set.frontend_count = 3;
	for (; ranges && ranges[count]; count++)
		list[count] = cidr_of(ranges[count]);
	built.compiled.ranges = list;
	built.compiled.range_count = count;
	apply(&built);
}

static bool lets_in(uint32_t ranges_id, const char *client)
{
	struct mk_ip ip = ip_of(client);
	struct mk_source_range_key key = { .prefix_bits = 64,
					   .ranges_id = ranges_id,
					   .addr = mk_ip_to_addr(&ip) };
	__u32 nothing;

	return row_lookup(tables.source_ranges.fd, &key, &nothing) == 0;
}

static const char *const one[] = { "192.0.2.0/24", NULL };
static const char *const two[] = { "192.0.2.0/24", "198.51.100.7/32", NULL };

START_TEST(test_ranges_of_none)
{
	apply_ranges(NULL);
	ck_assert_uint_eq(at(LB, 80).ranges_id, 0);
	ck_assert_uint_eq(entries(&tables.source_ranges), 0);
}
END_TEST

START_TEST(test_ranges_change)
{
	uint32_t first, second;

	apply_ranges(one);
	first = at(LB, 80).ranges_id;
	ck_assert_uint_ne(first, 0);
	ck_assert_uint_eq(at(VIP, 80).ranges_id, 0);
	ck_assert(lets_in(first, "192.0.2.77"));
	ck_assert(!lets_in(first, "198.51.100.7"));
	apply_ranges(two);
	second = at(LB, 80).ranges_id;
	ck_assert_uint_ne(second, first);
	ck_assert(lets_in(second, "192.0.2.77"));
	ck_assert(lets_in(second, "198.51.100.7"));
	ck_assert(!lets_in(second, "198.51.100.8"));
	/* a packet may still be looking up the old ones */
	ck_assert_int_eq(collect(now_ns + MK_RETIRE_NS - 1), 1);
	ck_assert(lets_in(first, "192.0.2.77"));
	ck_assert_int_eq(collect(now_ns + MK_RETIRE_NS), 0);
	ck_assert(!lets_in(first, "192.0.2.77"));
	ck_assert_uint_eq(entries(&tables.source_ranges), 2);
	apply_ranges(two);
	ck_assert_uint_eq(counts.put + counts.deleted, 0);
	apply_ranges(NULL);
	ck_assert_uint_eq(at(LB, 80).ranges_id, 0);
	ck_assert_int_eq(collect(now_ns + MK_RETIRE_NS), 0);
	ck_assert_uint_eq(entries(&tables.source_ranges), 0);
}
END_TEST

START_TEST(test_ranges_of_removed)
{
	apply_ranges(two);
	remove_named("web");
	ck_assert_int_eq(collect(now_ns + MK_RETIRE_NS), 0);
	ck_assert_uint_eq(entries(&tables.source_ranges), 0);
}
END_TEST

START_TEST(test_ranges_restart)
{
	uint32_t id;

	apply_ranges(two);
	id = at(LB, 80).ranges_id;
	sync_restart();
	apply_ranges(two);
	ck_assert_uint_eq(counts.put + counts.deleted, 0);
	prune();
	ck_assert_uint_eq(counts.put + counts.deleted, 0);
	ck_assert_int_eq(collect(now_ns + MK_RETIRE_NS), 0);
	ck_assert_uint_eq(at(LB, 80).ranges_id, id);
	sync_restart();
	apply_ranges(one);
	ck_assert_uint_gt(at(LB, 80).ranges_id, id);
	prune();
	ck_assert_int_eq(collect(now_ns + MK_RETIRE_NS), 0);
	ck_assert_uint_eq(entries(&tables.source_ranges), 1);
	ck_assert(lets_in(at(LB, 80).ranges_id, "192.0.2.77"));
}
END_TEST

/* A kill before the frontend was written, and a Service deleted while no agent ran. */
START_TEST(test_ranges_left_over)
{
	struct mk_source_range_key stray = { .prefix_bits = 40, .ranges_id = 4000 };
	__u32 nothing = 0;

	ck_assert_int_eq(mk_table_put(&tables.source_ranges, &stray, &nothing, &sync_err), 0);
	sync_restart();
	apply_ranges(one);
	ck_assert_uint_gt(at(LB, 80).ranges_id, 4000);
	prune();
	ck_assert_int_eq(collect(now_ns + MK_RETIRE_NS), 0);
	ck_assert_uint_eq(entries(&tables.source_ranges), 1);
	sync_restart();
	prune();
	ck_assert_int_eq(collect(now_ns + MK_RETIRE_NS), 0);
	ck_assert_uint_eq(entries(&tables.source_ranges), 0);
}
END_TEST

/* The written part of a list that did not fit is removed; the former list stays. */
START_TEST(test_ranges_full)
{
	static const char *const three[] = { "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", NULL };
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_NO_PREALLOC);
	struct mk_cidr list[3];
	struct built built;
	uint32_t id;

	mk_table_close(&tables.source_ranges);
	ck_assert_int_eq(mk_table_init(&tables.source_ranges, "source_ranges",
				       row_create_ipv4(BPF_MAP_TYPE_LPM_TRIE, "source_ranges",
						       sizeof(struct mk_source_range_key),
						       sizeof(__u32), 3, &options),
				       &sync_err),
			 0);
	sync_restart();
	apply_ranges(one);
	id = at(LB, 80).ranges_id;
	build(&built, "web", VIP, "23");
	built.frontends[2] = (struct mk_wanted_frontend){
		.ip = ip_of(LB), .port = 80, .proto = IPPROTO_TCP, .filtered = true
	};
	built.set.frontend_count = 3;
	for (size_t i = 0; i < 3; i++)
		list[i] = cidr_of(three[i]);
	built.compiled.ranges = list;
	built.compiled.range_count = 3;
	ck_assert_int_eq(mk_service_sync_apply(sync_, &built.compiled, now_ns, &counts, &sync_err),
			 -ENOSPC);
	ck_assert_msg(strstr(sync_err.text, "source_ranges") && strstr(sync_err.text, "web"), "%s",
		      sync_err.text);
	ck_assert_uint_eq(at(LB, 80).ranges_id, id);
	ck_assert(lets_in(id, "192.0.2.77"));
	apply_ranges(one);
	ck_assert_int_eq(collect(now_ns + MK_RETIRE_NS), 0);
	ck_assert_uint_eq(entries(&tables.source_ranges), 1);
}
END_TEST

UNIT_SUITE("sync_affinity")
{
	TCase *affinity = unit_case(suite, "affinity", sync_setup, sync_teardown),
	      *ranges = unit_case(suite, "ranges", sync_setup, sync_teardown);

	tcase_add_test(affinity, test_without);
	tcase_add_test(affinity, test_members_follow_backends);
	tcase_add_test(affinity, test_off_and_on);
	tcase_add_test(affinity, test_affinity_restart);
	tcase_add_test(affinity, test_half_written_members);
	tcase_add_test(affinity, test_one_per_port);
	tcase_add_test(ranges, test_ranges_of_none);
	tcase_add_test(ranges, test_ranges_change);
	tcase_add_test(ranges, test_ranges_of_removed);
	tcase_add_test(ranges, test_ranges_restart);
	tcase_add_test(ranges, test_ranges_left_over);
	tcase_add_test(ranges, test_ranges_full);
}

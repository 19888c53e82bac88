// SPDX-License-Identifier: Apache-2.0
/* How much memory one more pod of another node takes while policies are in force: as the watch saw
 * it, in the model, in the compiler, and as a record of what the tables hold. */
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "unit/list_feed.h"
#include "unit/policy_tables_fixture.h"
#include "unit/unit.h"

#define ENTRIES 32768 /* of each table */
#define PODS	10000

static uv_loop_t loop;
static struct mk_model *model;
static struct mk_policies *policies;
static struct mk_reflector *pods;

static void pod_changed(void *ctx, const struct mk_pod_object *pod,
			const struct mk_pod_object *former)
{
	(void)ctx;
	if (policies)
		mk_policies_pod_changed(policies, pod, former);
}

static const struct mk_model_listener listener = { .pod_changed = pod_changed };

static void feed(struct mk_reflector *reflector, const char *object)
{
	cleanup_free char *line = NULL;
	int size = asprintf(&line, "{\"type\":\"ADDED\",\"object\":%s}\n", object);

	ck_assert_int_gt(size, 0);
	feed_bytes(reflector, line, (size_t)size);
}

static void add_pod(unsigned int number)
{
	char object[512];

	snprintf(
		object, sizeof(object),
		"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"namespace\":\"scale-000\","
		"\"name\":\"pod-%05u\",\"uid\":\"00000000-0000-0000-0000-0000000%05u\","
		"\"resourceVersion\":\"%u\",\"labels\":{\"app\":\"a%u\"}},"
		"\"spec\":{\"nodeName\":\"worker-%u\"},"
		"\"status\":{\"phase\":\"Running\",\"podIPs\":[{\"ip\":\"10.128.%u.%u\"}]}}",
		number, number, number + 1, number % 10, number % 100, number / 250,
		number % 250 + 1);
	feed(pods, object);
}

static void write_tables(void)
{
	const struct mk_policy_changes *changes;
	struct mk_policy_counts counts = { 0 };

	(void)mk_policies_want(policies);
	ck_assert_int_eq(mk_policies_compile(policies, &changes, &policy_err), 0);
	ck_assert_int_eq(
		mk_policy_sync_apply(policy_sync, changes, policy_now_ns, &counts, &policy_err), 0);
	mk_policies_written(policies);
	mk_policies_release(policies);
}

static void add_pods(unsigned int from, unsigned int end)
{
	for (unsigned int number = from; number < end; number++)
		add_pod(number);
	write_tables();
}

static const char namespace_text[] =
	"{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"scale-000\"}}";
static const char policy_text[] =
	"{\"apiVersion\":\"networking.k8s.io/v1\",\"kind\":\"NetworkPolicy\","
	"\"metadata\":{\"namespace\":\"scale-000\",\"name\":\"one\"},"
	"\"spec\":{\"podSelector\":{\"matchLabels\":{\"app\":\"a0\"}},\"ingress\":["
	"{\"from\":[{\"podSelector\":{\"matchLabels\":{\"app\":\"a1\"}}}]}]}}";

static void setup(void)
{
	const struct mk_policy_view view = { .node_name = "node1", .hash_key = { 1, 2, 3 } };

	mk_log_set_level(MK_LOG_WARN);
	policy_room = ENTRIES;
	policy_setup();
	uv_loop_init(&loop);
	model = mk_model_new();
	ck_assert_ptr_nonnull(model);
	mk_model_set_listener(model, &listener);
	mk_model_set_node(model, "node1");
	feed(feed_start(&loop, MK_RESOURCE_NAMESPACES, &model), namespace_text);
	feed(feed_start(&loop, MK_RESOURCE_NETWORK_POLICIES, &model), policy_text);
	pods = feed_start(&loop, MK_RESOURCE_PODS, &model);
	policies = mk_policies_new(model, &view, &policy_err);
	ck_assert_ptr_nonnull(policies);
	add_pods(0, 100);
}

static size_t heap_bytes(void)
{
	struct mallinfo2 now = mallinfo2();

	return now.uordblks + now.hblkhd;
}

/* 214 on 2026-11-30, with IPv4. An identity's record in IPv6's form would take 32 bytes more, and
 * an address 16 with its row's link to the next changed one, or with struct mk_ip. */
#define POD_BYTES_MAX 222

START_TEST(test_one_more_pod)
{
	size_t before = heap_bytes(), bytes;

	add_pods(100, 100 + PODS);
	ck_assert_uint_eq(policy_entries_of(&policy_tables.identities), 100 + PODS);
#ifdef __SANITIZE_ADDRESS__
	return; /* its malloc(3) counts nothing */
#endif
	bytes = (heap_bytes() - before) / PODS;
	ck_assert_uint_ge(bytes, POD_BYTES_MAX / 2); /* the pods were not kept */
	ck_assert_msg(bytes <= POD_BYTES_MAX, "one more pod takes %zu bytes; at most %d", bytes,
		      POD_BYTES_MAX);
}
END_TEST

/* ---- records without memory for a list ------------------------------------------------------- */

#ifndef __SANITIZE_ADDRESS__ /* it needs address space */
static struct rlimit space;

static void setup_tables(void)
{
	mallopt(M_MMAP_THRESHOLD, 64 * 1024); /* the list does not fit a hole of the heap */
	policy_room = ENTRIES;
	policy_setup();
}

/* Nothing more can be mapped. */
static void limit_space(void)
{
	struct rlimit none;

	malloc_trim(0);
	ck_assert_int_eq(getrlimit(RLIMIT_AS, &space), 0);
	none = (struct rlimit){ 4096, space.rlim_max };
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &none), 0);
}

/* Rows of a set are gone, all at once. Their list cannot grow, and the next calls remove them. */
START_TEST(test_gone_without_memory)
{
	struct mk_policy_counts counts = { 0 };

	for (unsigned int i = 0; i < PODS; i++)
		put_peer(70, 100 + i, 50);
	apply_rows();
	limit_space();
	ck_assert_int_eq(mk_policy_sync_open_all(policy_sync, policy_now_ns, &counts, &policy_err),
			 -ENOMEM);
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &space), 0);
	ck_assert_uint_ge(policy_entries_of(&policy_tables.peers), PODS);
	ck_assert_int_eq(
		mk_policy_sync_apply(policy_sync, NULL, policy_now_ns, &counts, &policy_err), 0);
	ck_assert_int_eq(policy_collect(policy_now_ns + 2 * S), 0);
	ck_assert_uint_eq(policy_entries_of(&policy_tables.peers), 0);
}
END_TEST
#endif

UNIT_SUITE("policy memory")
{
	TCase *tc = unit_case(suite, "one more pod", setup, NULL);

	tcase_add_test(tc, test_one_more_pod);
#ifndef __SANITIZE_ADDRESS__
	tc = unit_case(suite, "without memory", setup_tables, policy_teardown);
	tcase_add_test(tc, test_gone_without_memory);
#endif
}

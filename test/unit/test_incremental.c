// SPDX-License-Identifier: Apache-2.0
/* One change in a big cluster: the Services that are processed, and the entries that are written.
 * Both entries and instructions are counted, not timed; perf/scale has the times. Each Service has
 * a ClusterIP, a NodePort and ten endpoints. */
#include <arpa/inet.h>
#include <json-c/json.h>
#include <stdio.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utlist.h>

#include "agent/service_queue.h"
#include "base/cleanup.h"
#include "unit/sync_fixture.h"
#include "unit/unit.h"

#define ENDPOINTS 10

static struct mk_core core;
static struct agent_services queue = { .core = &core };

static void service_changed(void *ctx, const char *namespace_, const char *name)
{
	agent_service_dirty(ctx, namespace_, name);
}

static void node_changed(void *ctx, const char *name)
{
	(void)ctx;
	(void)name;
}

static void ranges_changed(void *ctx)
{
	(void)ctx;
}

static void setup(void)
{
	static const struct mk_model_listener listener = {
		.node_changed = node_changed,
		.service_changed = service_changed,
		.service_cidrs_changed = ranges_changed,
		.ctx = &queue,
	};

	sync_room = 262144;
	sync_setup();
	core.model = mk_model_new();
	ck_assert_ptr_nonnull(core.model);
	mk_model_set_listener(core.model, &listener);
}

static void teardown(void)
{
	agent_services_free(&queue);
	mk_model_free(core.model);
	sync_teardown();
}

/* ---- a cluster ------------------------------------------------------------------------------- */

static void apply_object(const char *text)
{
	json_object *tree = json_tokener_parse(text);

	ck_assert_msg(tree != NULL, "no JSON: %s", text);
	ck_assert_msg(mk_model_apply(core.model, tree, &sync_err) == 0, "%s",
		      mk_error_text(&sync_err));
	json_object_put(tree);
}

static void apply_service(unsigned number)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "{'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'namespace': 'x', 'name': "
		 "'s%u'}, 'spec': {'type': 'NodePort', 'clusterIP': '10.96.%u.%u', 'ports': "
		 "[{'port': 80, 'nodePort': %u}]}}",
		 number, number / 250, number % 250 + 1, 20000 + number);
	apply_object(text);
}

/* The slice of Service @number with its first @count endpoints. */
static void apply_slice(unsigned number, unsigned count)
{
	char text[2048];
	size_t used = (size_t)snprintf(
		text, sizeof(text),
		"{'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'addressType': "
		"'IPv4', 'metadata': {'namespace': 'x', 'name': 's%u-1', 'labels': "
		"{'kubernetes.io/service-name': 's%u'}}, 'ports': [{'port': 8080}], 'endpoints': [",
		number, number);

	for (unsigned i = 0; i < count; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "%s{'addresses': ['11.%u.%u.%u']}", i ? "," : "",
					 number / 250, number % 250, i + 1);
	snprintf(text + used, sizeof(text) - used, "]}");
	apply_object(text);
}

/* ---- work, as agent_services_reconcile() does it --------------------------------------------- */

static void work_on(struct agent_service *service)
{
	const struct mk_ip node_address = ip_of("192.168.99.11");
	const struct mk_service_view view = { .family = AF_INET,
					      .node_name = "node1",
					      .node_addresses = &node_address,
					      .node_address_count = 1,
					      .local_weight = 1,
					      .maglev_slots = 13 };
	struct mk_compiled_service compiled;

	ck_assert_msg(mk_service_compile(core.model, &view, service->namespace_, service->name,
					 &compiled, &sync_err) == 0,
		      "%s", mk_error_text(&sync_err));
	ck_assert_msg(mk_service_sync_apply(sync_, &compiled, now_ns, &counts, &sync_err) == 0,
		      "%s", mk_error_text(&sync_err));
	mk_compiled_service_release(&compiled);
	service->dirty = false;
	DL_DELETE(queue.dirty, service);
}

/* Returns the number of Services processed, and counts the entries. */
static unsigned work(void)
{
	unsigned services = 0;

	counts = (struct mk_service_counts){ 0 };
	for (; queue.dirty; services++)
		work_on(queue.dirty);
	return services;
}

static void build_cluster(unsigned services)
{
	for (unsigned i = 0; i < services; i++) {
		apply_service(i);
		apply_slice(i, ENDPOINTS);
	}
	ck_assert_uint_eq(work(), services);
}

/* ---- entries --------------------------------------------------------------------------------- */

/* All keys and values of a table, in the order of the keys. */
struct contents {
	unsigned char *bytes;
	size_t count, size; /* of a key with its value */
};

static size_t size_of_entry;

static int compare_entries(const void *a, const void *b)
{
	return memcmp(a, b, size_of_entry);
}

static struct contents read_table(const struct mk_table *table)
{
	struct contents contents = { .size = table->key_size + table->value_size };
	cleanup_free void *keys = NULL;
	const unsigned char *key;

	ck_assert_int_eq(mk_table_keys(table, &keys, &contents.count, &sync_err), 0);
	contents.bytes = calloc(contents.count + 1, contents.size);
	ck_assert_ptr_nonnull(contents.bytes);
	key = keys;
	for (size_t i = 0; i < contents.count; i++, key += table->key_size) {
		unsigned char *entry = contents.bytes + i * contents.size;

		memcpy(entry, key, table->key_size);
		ck_assert_int_eq(mk_table_get(table, key, entry + table->key_size, &sync_err), 0);
	}
	size_of_entry = contents.size;
	qsort(contents.bytes, contents.count, contents.size, compare_entries);
	return contents;
}

/* Count entries of @now that are missing from @before or differ. */
static unsigned written(const struct contents *before, const struct contents *now)
{
	unsigned count = 0;

	size_of_entry = now->size;
	for (size_t i = 0; i < now->count; i++)
		count += !bsearch(now->bytes + i * now->size, before->bytes, before->count,
				  before->size, compare_entries);
	return count;
}

/* Check the price of one changed slice among @services: entries written, by the sync's
 * count and in fact. */
static unsigned cost_of_one_change(unsigned services)
{
	const struct mk_table *all[] = { &tables.frontends, &tables.backends, &tables.maglev };
	struct contents before[MK_ARRAY_SIZE(all)];
	unsigned truth = 0;

	for (size_t i = 0; i < MK_ARRAY_SIZE(all); i++)
		before[i] = read_table(all[i]);
	apply_slice(services / 2, ENDPOINTS - 1);
	ck_assert_msg(queue.dirty && !queue.dirty->next, "more than one Service is to be compiled");
	ck_assert_uint_eq(work(), 1);
	for (size_t i = 0; i < MK_ARRAY_SIZE(all); i++) {
		struct contents now = read_table(all[i]);

		truth += written(&before[i], &now);
		free(now.bytes);
		free(before[i].bytes);
	}
	ck_assert_uint_eq(counts.put, truth);
	ck_assert_uint_eq(counts.deleted, 0);
	return truth;
}

/* ---- instructions ---------------------------------------------------------------------------- */

/* Stop twice around the change of a Service that both clusters have, with objects of one length.
 * The first change would also count one-time work. */
static void change_between_stops(void)
{
	for (unsigned i = 0; i < 9; i++) {
		apply_slice(i, ENDPOINTS - 1);
		work();
	}
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	apply_slice(9, ENDPOINTS - 1);
	work();
	raise(SIGSTOP);
	_exit(0);
}

/* Single-stepping is faster if no other CPU must be woken. */
static void stay_on_this_processor(void)
{
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET((size_t)sched_getcpu(), &here);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(here), &here), 0);
}

/* Count the user-space instructions of one change by single-stepping a copy of this process. A
 * system call counts as one. */
static unsigned long instructions_of_one_change(void)
{
	unsigned long count = 0;
	pid_t child;
	int status;

	stay_on_this_processor();
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0)
		change_between_stops();
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	do {
		ck_assert_msg(WIFSTOPPED(status), "the copy ended: %#x", (unsigned int)status);
		ck_assert_int_eq(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		count++;
	} while (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return count;
}

/* ---- tests ----------------------------------------------------------------------------------- */

START_TEST(test_one_slice)
{
	unsigned few, many;

	build_cluster(10);
	few = cost_of_one_change(10);
	teardown();
	setup();
	build_cluster(10000);
	many = cost_of_one_change(10000);
	printf("entries written for one changed slice: %u among 10 Services, %u among 10,000\n",
	       few, many);
	ck_assert_uint_eq(few, many);
	/* nine backends, a Maglev table, and a few frontends that name the new generation */
	ck_assert_uint_ge(many, ENDPOINTS - 1 + 1 + 4);
	ck_assert_uint_le(many, ENDPOINTS - 1 + 1 + 8);
}
END_TEST

/* Even without a write, no other Service is visited. Hash tables have chains of some entries,
 * so the numbers differ by some percent (5.1 seen). A visit of each of ten thousand Services would
 * cost more than a tenth. */
START_TEST(test_instructions)
{
	unsigned long few, many;

	build_cluster(10);
	few = instructions_of_one_change();
	teardown();
	setup();
	build_cluster(10000);
	many = instructions_of_one_change();
	printf("instructions for one changed slice: %lu among 10 Services, %lu among 10,000\n", few,
	       many);
	ck_assert_uint_gt(few, 1000);
	ck_assert_msg(many < few + few / 10 && few < many + many / 10, "%lu and %lu", few, many);
}
END_TEST

/* A changed Service affects no other. An equal object is no change at all. */
START_TEST(test_one_service)
{
	build_cluster(1000);
	apply_service(500);
	apply_slice(501, ENDPOINTS);
	ck_assert_msg(!queue.dirty, "an equal object is a change");
	apply_object(
		"{'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'namespace': 'x', "
		"'name': 's500'}, 'spec': {'clusterIP': '10.96.2.1', 'ports': [{'port': 80}]}}");
	ck_assert_uint_eq(work(), 1);
	ck_assert_uint_eq(counts.put, 0);
	ck_assert_uint_eq(counts.deleted, 2); /* the node port, inside and outside */
	mk_model_delete(core.model, MK_KIND_SERVICE, "x", "s7");
	ck_assert_uint_eq(work(), 1);
}
END_TEST

UNIT_SUITE("incremental")
{
	TCase *tc = unit_case(suite, "changes", setup, teardown);

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, test_one_slice);
	tcase_add_test(tc, test_instructions);
	tcase_add_test(tc, test_one_service);
}

// SPDX-License-Identifier: Apache-2.0
/* perf/tables - memory of the maps as the kernel accounts for it (/proc/self/fdinfo, memlock),
 * empty and with Services, pods and sessions in them; and the size of each program. One
 * tab-separated line per figure: what, of how many, unit, value. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <stdlib.h>

#include "bpf/run.h"
#include "datapath/maps/object.h"
#include "rows.h"

#define BACKENDS 10

static const char *const service_maps[] = { "frontends", "service_backends", "maglev", NULL };
static const char *const pod_maps[] = { "pods", "routes", NULL };
static const char *const session_maps[] = { "sessions", NULL };
static const char *const half_open_maps[] = { "sessions_young", "nat_sessions_young", NULL };

static unsigned long map_bytes(const char *map)
{
	unsigned long bytes = 0;
	char line[128];
	FILE *info;

	snprintf(line, sizeof(line), "/proc/self/fdinfo/%d", fixture_map(map));
	info = fopen(line, "re");
	ck_assert_ptr_nonnull(info);
	while (fgets(line, sizeof(line), info))
		if (sscanf(line, "memlock: %lu", &bytes) == 1)
			break;
	fclose(info);
	return bytes;
}

static void tell(const char *what, unsigned of, const char *const *maps)
{
	unsigned long bytes = 0;

	for (; *maps; maps++)
		bytes += map_bytes(*maps);
	printf("%s\t%u\tKiB\t%lu\n", what, of, bytes / 1024);
}

static void put(const char *map, const void *key, const void *value)
{
	ck_assert_int_eq(row_update(fixture_map(map), key, value, BPF_ANY), 0);
}

/* Add a ClusterIP Service with ten backends: a frontend and its set. */
static void put_service(unsigned number)
{
	const struct mk_frontend service = { .set_id = number + 1,
					     .generation = 1,
					     .backend_count = BACKENDS };
	struct mk_frontend_key key = { .port = htons(80), .proto = IPPROTO_TCP };

	key.addr = row_ipv4(0x0a600000 + number);
	put("services", &key, &service);
	for (unsigned i = 0; i < BACKENDS; i++) {
		const struct mk_backend_key at = { .set_id = number + 1,
						   .generation = 1,
						   .index = i };
		struct mk_backend backend = { .port = htons(8080) };

		backend.addr = row_ipv4(0x0af40000 + number * BACKENDS + i);
		put("service_backends", &at, &backend);
	}
}

static void put_pod(unsigned number)
{
	const struct mk_pod pod = { .ifindex = number + 2, .addr = row_ipv4(0x0af40102 + number) };

	fixture_put_pod(&pod);
}

/* Add both entries of a session. */
static void put_session(unsigned number)
{
	const struct mk_session session = { 0 };
	struct mk_tuple key = { .sport = htons(80), .proto = IPPROTO_TCP };

	for (unsigned direction = 0; direction < 2; direction++) {
		key.saddr = row_ipv4(number);
		key.daddr = row_ipv4(direction);
		put("sessions", &key, &session);
	}
}

static void grow(const char *what, const char *const *maps, void (*add)(unsigned),
		 const unsigned *counts)
{
	unsigned at = 0;

	for (; *counts; counts++) {
		while (at < *counts)
			add(at++);
		tell(what, *counts, maps);
	}
}

static void tell_programs(void)
{
	for (size_t i = 0; i < mk_program_count; i++) {
		struct bpf_prog_info info = { 0 };
		__u32 bytes = sizeof(info);

		ck_assert_int_eq(bpf_obj_get_info_by_fd(fixture_program(mk_programs[i].name), &info,
							&bytes),
				 0);
		printf("program %s\t1\tinstructions\t%zu\n", mk_programs[i].name,
		       info.xlated_prog_len / sizeof(struct bpf_insn));
		printf("program %s\t1\tbytes of machine code\t%u\n", mk_programs[i].name,
		       info.jited_prog_len);
	}
}

START_TEST(tell_all)
{
	tell("Services with 10 backends", 0, service_maps);
	grow("Services with 10 backends", service_maps, put_service,
	     (const unsigned[]){ 10, 1000, 10000, 0 });
	tell("pods", 0, pod_maps);
	grow("pods", pod_maps, put_pod, (const unsigned[]){ 10, 250, 0 });
	tell("sessions, established", 0, session_maps);
	grow("sessions, established", session_maps, put_session,
	     (const unsigned[]){ 1000, 10000, 250000, 0 });
	tell("sessions, half-open, both tables", 0, half_open_maps);
	tell_programs();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("perf");
	TCase *tcase = tcase_create("tables");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_unchecked_fixture(tcase, fixture_load, fixture_unload);
	tcase_set_timeout(tcase, 300);
	tcase_add_test(tcase, tell_all);
	suite_add_tcase(suite, tcase);
	srunner_run_all(runner, CK_SILENT);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

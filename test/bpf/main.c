// SPDX-License-Identifier: Apache-2.0
/* test/bpf/main.c - run the linked suites one after the other. If there are several, it reports
 * each one's result as `result STATUS SUITE`. With the environment's MK_SUITES_PART=K/N, only each
 * N-th suite runs, from the K-th on, counted from 0. */
#include <stdio.h>
#include <stdlib.h>

#include "bpf/cpus.h"
#include "bpf/run.h"

#define SUITES_MAX 64

static struct {
	const char *name;
	void (*fill)(Suite *suite);
} suites[SUITES_MAX];
static int count;

void bpf_enlist_suite(const char *name, void (*fill)(Suite *suite))
{
	if (count == SUITES_MAX)
		abort();
	suites[count].name = name;
	suites[count++].fill = fill;
}

static int run_suite(int i)
{
	Suite *suite = suite_create(suites[i].name);
	SRunner *runner = srunner_create(suite);
	int failed;

	suites[i].fill(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void part_from_environment(int *first, int *step)
{
	const char *part = getenv("MK_SUITES_PART");

	if (part && (sscanf(part, "%d/%d", first, step) != 2 || *first < 0 || *step <= *first)) {
		fprintf(stderr, "MK_SUITES_PART=%s: expected K/N, K from 0 and less than N\n",
			part);
		exit(2);
	}
}

int main(void)
{
	int status = count > 0 ? EXIT_SUCCESS : EXIT_FAILURE, first = 0, step = 1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	part_from_environment(&first, &step);
	cpus_take_turns();
	for (int i = first; i < count; i += step) {
		int ended = run_suite(i);

		status |= ended;
		if (count > 1)
			printf("result %d BPF tests: %s\n", ended, suites[i].name);
	}
	return status;
}

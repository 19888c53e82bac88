// SPDX-License-Identifier: Apache-2.0
#include "bpf/cpus.h"

#include <check.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

static cpu_set_t ours; /* where we may run at all */
static int last = -1; /* -1: packets come by whichever CPU the scheduler chooses */
static bool one;

void cpus_take_turns(void)
{
	if (sched_getaffinity(0, sizeof(ours), &ours))
		abort(); /* no test runs yet */
	last = 0;
}

void cpus_one(bool only_one)
{
	one = only_one;
}

/* Of those where we may run, the next one after @last. */
static int next_cpu(void)
{
	int cpu = last;

	do
		cpu = (cpu + 1) % CPU_SETSIZE;
	while (!CPU_ISSET(cpu, &ours));
	return cpu;
}

void cpus_move_on(void)
{
	cpu_set_t set;

	if (last < 0)
		return;
	if (!one)
		last = next_cpu();
	CPU_ZERO(&set);
	CPU_SET(last, &set);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(set), &set), 0);
}

// SPDX-License-Identifier: Apache-2.0
#include "bpf/cpus.h"

#include <check.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

static cpu_set_t ours; /* all CPUs that we may run on */
static int last = -1; /* -1: packets come by whichever CPU the scheduler chooses */
static unsigned sent, next_move;
static bool one;

void cpus_take_turns(void)
{
	if (sched_getaffinity(0, sizeof(ours), &ours))
		abort(); /* outside of a test: no message is possible */
	last = 0;
}

static void run_on(const cpu_set_t *set)
{
	ck_assert_int_eq(sched_setaffinity(0, sizeof(*set), set), 0);
}

/* Return the CPU after @last, of those that we may run on. */
static int next_cpu(void)
{
	int cpu = last;

	do
		cpu = (cpu + 1) % CPU_SETSIZE;
	while (!CPU_ISSET(cpu, &ours));
	return cpu;
}

static void move(void)
{
	cpu_set_t set;

	last = next_cpu();
	CPU_ZERO(&set);
	CPU_SET(last, &set);
	run_on(&set);
}

void cpus_one(bool only_one)
{
	if (last < 0)
		return;
	one = only_one;
	sent = 0;
	next_move = 2;
	if (one)
		move();
	else
		run_on(&ours);
}

/* A move to a busy CPU takes milliseconds, so not every packet of a flood moves. */
void cpus_move_on(void)
{
	if (last < 0 || one || ++sent < next_move)
		return;
	next_move *= 4;
	move();
	run_on(&ours); /* here, until the scheduler moves us */
}

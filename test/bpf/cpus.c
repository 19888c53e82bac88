// SPDX-License-Identifier: Apache-2.0
#include "bpf/cpus.h"

#include <check.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

static cpu_set_t ours; /* where we may run at all */
static int last = -1; /* -1: packets come by whichever CPU the scheduler chooses */
static unsigned sent, next_move;
static bool one;

void cpus_take_turns(void)
{
	if (sched_getaffinity(0, sizeof(ours), &ours))
		abort(); /* no test runs yet */
	last = 0;
}

static void run_on(const cpu_set_t *set)
{
	ck_assert_int_eq(sched_setaffinity(0, sizeof(*set), set), 0);
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

/* Where the other CPU is busy a move takes milliseconds, so a flood's packets do not move each. */
void cpus_move_on(void)
{
	if (last < 0 || one || ++sent < next_move)
		return;
	next_move *= 4;
	move();
	run_on(&ours); /* here, until the scheduler thinks better of it */
}

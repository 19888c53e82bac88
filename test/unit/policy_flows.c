// SPDX-License-Identifier: Apache-2.0
#include "unit/policy_flows.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "datapath/policy/tables_internal.h"
#include "unit/unit.h"

const char *const peers[PEERS] = {
	"10.1.0.2", "10.1.0.3", "10.1.0.4", "10.2.0.1",	 "10.2.0.2",  "10.2.0.3",
	"10.2.0.4", "10.2.0.5", "10.2.0.6", "10.2.0.99", "192.0.2.1", "198.51.100.1",
};
const uint16_t ports[FLOW_PORTS] = { 80, 81 };
struct flows_change change;

static uint32_t first_seed, seed;
static unsigned long checks, writes;

void flows_seed(uint32_t first)
{
	const char *chosen = getenv("SEED");
	int count = unit_steps(CHANGES, &first);

	first_seed = chosen ? (uint32_t)strtoul(chosen, NULL, 10) : first;
	seed = first_seed ?: 1;
	change = (struct flows_change){ .what = "", .count = count };
}

uint32_t any_of(uint32_t count)
{
	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return seed % count;
}

static bool is_allowed(int pod, int d, int peer, size_t port)
{
	return !policy_state_now().on ||
	       policy_allows(peers[pod], (enum mk_policy_direction)d, peers[peer], ports[port]);
}

void flows_begin(int number)
{
	change.number = number;
	for (int i = 0; i < LOCAL; i++)
		change.generations[i] = policy_slot(peers[i]).generation;
	flows_read();
}

void flows_read(void)
{
	EACH_FLOW(pod, d, peer, port)
	change.were.allowed[pod][d][peer][port] = is_allowed(pod, d, peer, port);
}

void flows_check(void)
{
	writes++;
	EACH_FLOW(pod, d, peer, port)
	{
		bool old = change.were.allowed[pod][d][peer][port], is;

		if (old != change.shall_be.allowed[pod][d][peer][port] ||
		    (change.skips_itself && peer == pod))
			continue;
		is = is_allowed(pod, d, peer, port);
		checks++;
		ck_assert_msg(
			is == old,
			"change %d, %s of %s with %s, port %u: %s, but old and new verdict are %s; the change is %s",
			change.number, d ? "egress" : "ingress", peers[pod], peers[peer],
			ports[port], is ? "allowed" : "denied", old ? "allowed" : "denied",
			change.what);
	}
}

static void after_write(void *ctx)
{
	(void)ctx;
	flows_check();
}

void flows_watch(void)
{
	policy_sync->after_write = after_write;
}

void flows_check_result(void)
{
	EACH_FLOW(pod, d, peer, port)
	{
		bool old = change.were.allowed[pod][d][peer][port];
		bool new = change.shall_be.allowed[pod][d][peer][port];

		ck_assert_msg(is_allowed(pod, d, peer, port) == new,
			      "change %d, %s of %s with %s, port %u: should be %s", change.number,
			      d ? "egress" : "ingress", peers[pod], peers[peer], ports[port],
			      new ? "allowed" : "denied");
		ck_assert_msg(!old || new ||
				      policy_slot(peers[pod]).generation > change.generations[pod],
			      "change %d: %s keeps connections that are forbidden now",
			      change.number, peers[pod]);
	}
}

struct end {
	int write, count;
};

static void end_at(void *ctx)
{
	struct end *end = ctx;

	if (++end->count == end->write)
		_exit(0);
}

void flows_die_at(int write, int (*apply)(void))
{
	struct end end = { .write = write };
	pid_t child = fork();
	int status;

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		policy_sync->after_write = end_at;
		policy_sync->after_write_ctx = &end;
		_exit(apply() < 0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}

void flows_end(void)
{
	policy_sync->after_write = NULL;
	printf("SEED=%u: %d changes, %lu writes, %lu verdicts that may not differ\n", first_seed,
	       change.count, writes, checks);
}

// SPDX-License-Identifier: Apache-2.0
/* ADD with network policies: which sets a pod gets, in each family (rules 37 to 42, 45 and 46 of
 * test/policy), and how long ADD waits for the agent. */
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/time.h"
#include "datapath/maps/pin.h"
#include "host/agent_state.h"
#include "unit/cni_policies.h"

static struct mk_error err;

/* ---- ADD ------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	enum mk_policy_listed listed;
	const char *expected; /* key of an entry in policy_expected; NULL: none */
	uint64_t has[MK_POLICY_DIRECTIONS];
	int directions; /* of shop in policy_namespaces; -1: no entry */
	const char *args;
	uint64_t sets[MK_POLICY_DIRECTIONS];
} adds[] = {
	{ "a container of no Pod", MK_POLICY_LISTED_SOME, NULL, { OPEN }, -1, "", { OPEN } },
	{ "a container with only a name",
	  MK_POLICY_LISTED_SOME,
	  NULL,
	  { OPEN },
	  -1,
	  "K8S_POD_NAME=web",
	  { OPEN } },
	{ "nothing listed yet", MK_POLICY_NOT_LISTED, NULL, { OPEN }, -1, WEB, { PENDING } },
	{ "nothing listed, namespace", MK_POLICY_NOT_LISTED, NULL, { OPEN }, 0, WEB, { PENDING } },
	{ "no policies", MK_POLICY_LISTED_NONE, NULL, { OPEN }, -1, WEB, { OPEN } },
	{ "unknown namespace", MK_POLICY_LISTED_SOME, NULL, { OPEN }, -1, WEB, { PENDING } },
	{ "no policy there", MK_POLICY_LISTED_SOME, NULL, { OPEN }, 0, WEB, { OPEN } },
	{ "ingress policies there", MK_POLICY_LISTED_SOME, NULL, { OPEN }, 1, WEB, { PENDING } },
	{ "egress policies there", MK_POLICY_LISTED_SOME, NULL, { OPEN }, 2, WEB, { PENDING } },
	{ "its sets", MK_POLICY_LISTED_SOME, "shop/web/7a1c", { KNOWN }, 3, WEB, { KNOWN } },
	{ "its sets, policies came just now",
	  MK_POLICY_LISTED_NONE,
	  "shop/web/7a1c",
	  { KNOWN },
	  -1,
	  WEB,
	  { KNOWN } },
	{ "only ingress",
	  MK_POLICY_LISTED_SOME,
	  "shop/web/7a1c",
	  { SET_IN, 0 },
	  3,
	  WEB,
	  { SET_IN, 0 } },
	{ "only egress",
	  MK_POLICY_LISTED_SOME,
	  "shop/web/7a1c",
	  { 0, SET_OUT },
	  3,
	  WEB,
	  { 0, SET_OUT } },
	{ "no policy selects it",
	  MK_POLICY_LISTED_SOME,
	  "shop/web/7a1c",
	  { OPEN },
	  3,
	  WEB,
	  { OPEN } },
	{ "another UID with its name",
	  MK_POLICY_LISTED_SOME,
	  "shop/web/0b0b",
	  { KNOWN },
	  3,
	  WEB,
	  { PENDING } },
	{ "a Pod of another name claims its UID",
	  MK_POLICY_LISTED_SOME,
	  "evil/web/7a1c",
	  { KNOWN },
	  3,
	  WEB,
	  { PENDING } },
	{ "name of a former pod",
	  MK_POLICY_LISTED_SOME,
	  "shop/web",
	  { KNOWN },
	  3,
	  WEB,
	  { PENDING } },
	{ "no UID", MK_POLICY_LISTED_SOME, "shop/web", { KNOWN }, 3, NO_UID, { KNOWN } },
	{ "no UID, unknown",
	  MK_POLICY_LISTED_SOME,
	  "shop/web/7a1c",
	  { KNOWN },
	  3,
	  NO_UID,
	  { PENDING } },
};

START_TEST(test_add)
{
	const char *name = adds[_i].name;
	bool on = adds[_i].sets[0] || adds[_i].sets[1];

	for (int i = 0; i < IPS; i++) {
		set_state(family_at(i), 0, adds[_i].listed);
		if (adds[_i].expected)
			expect(family_at(i), adds[_i].expected, adds[_i].has[0], adds[_i].has[1]);
		if (adds[_i].directions >= 0)
			set_namespace(family_at(i), "shop", (uint32_t)adds[_i].directions);
	}
	new_netns("a");
	add_pod("a", adds[_i].args);
	ck_sets(name, adds[_i].sets[0], adds[_i].sets[1]);
	for (int i = 0; i < IPS; i++)
		ck_assert_msg(on_of(family_at(i)) == on, "%s", name);
	del_pod("a");
	for (int i = 0; i < IPS; i++) {
		struct mk_pod_policy entry = entry_of(kind->ips[i]);

		ck_assert_uint_eq(entry.generation, 1);
		entry.generation = 0;
		ck_assert_msg(memcmp(&entry, &(struct mk_pod_policy){ 0 }, sizeof(entry)) == 0,
			      "%s: not cleared", name);
	}
}
END_TEST

/* No session of the slot's former pod counts for the next one. */
START_TEST(test_generation)
{
	const struct mk_pod_policy former = {
		.set = { KNOWN },
		.addr = addr_of("203.0.113.7"),
		.ifindex = 4711,
		.generation = 41,
	};

	for (int i = 0; i < IPS; i++) {
		set_state(family_at(i), 1, MK_POLICY_LISTED_NONE);
		put_entry(kind->ips[i], &former);
	}
	new_netns("a");
	add_pod("a", WEB);
	ck_sets("new", OPEN);
	for (int i = 0; i < IPS; i++)
		ck_assert_uint_eq(entry_of(kind->ips[i]).generation, 42);
	del_pod("a");
	for (int i = 0; i < IPS; i++)
		ck_assert_uint_eq(entry_of(kind->ips[i]).generation, 42);
}
END_TEST

/* Each family has its tables. */
START_TEST(test_families)
{
	set_state(AF_INET, 0, MK_POLICY_LISTED_NONE);
	set_state(AF_INET6, 0, MK_POLICY_LISTED_SOME);
	new_netns("a");
	add_pod("a", WEB);
	ck_sets_of("IPv4", kind->ips[0], OPEN);
	ck_sets_of("IPv6", kind->ips[1], PENDING);
	ck_assert_uint_eq(on_of(AF_INET), 0);
	ck_assert_uint_eq(on_of(AF_INET6), 1);
}
END_TEST

/* The agent of the tables' version knows no policies. */
START_TEST(test_earlier_version)
{
	static const char *const maps[] = { "policy_state", "pod_policies", "policy_expected",
					    "policy_namespaces" };
	char path[PATH_MAX], dir[PATH_MAX], prev[4600];

	for (int i = 0; i < IPS; i++)
		for (size_t at = 0; at < MK_ARRAY_SIZE(maps); at++) {
			ck_ok(mk_pin_dir(dir, BPF_DIR, family_at(i), &err));
			ck_ok(mk_pin_path(path, dir, MK_PIN_MAPS, maps[at], &err));
			ck_assert_int_eq(unlink(path), 0);
		}
	new_netns("a");
	add_pod("a", WEB);
	snprintf(prev, sizeof(prev), "%s,\"prevResult\":%s", kind->fields, answer);
	ck_assert_msg(call("CHECK", "a", netns_path("a"), "1.0.0", prev) == 0, "%s", answer);
	del_pod("a");
	ck_exist(0);
}
END_TEST

/* Pods that an earlier version made have no entries. They stay open until the agent has written
 * all: the first enforcement starts for all at once. */
START_TEST(test_first_enforcement)
{
	const char *former = kind->ips[0], *next = kind->next;

	new_netns("a");
	add_pod("a", WEB); /* pending */
	for (int i = 0; i < IPS; i++) {
		clear_entry(kind->ips[i]);
		set_state(family_at(i), 0, MK_POLICY_NOT_LISTED);
	}
	new_netns("b");
	add_pod("b", WEB);
	ck_sets_of("former pod", former, OPEN);
	ck_sets_of("next pod", next, PENDING);
	ck_assert_uint_eq(on_of(family_at(0)), 1);
	clear_entry(former); /* by hand: only the agent may restore it */
	new_netns("c");
	add_pod("c", WEB);
	ck_assert(!has_entry(former));
}
END_TEST

/* ---- waiting for the agent ------------------------------------------------------------------- */

static int run_agent(void)
{
	int fd;

	ck_ok(mk_mkdirs(STATE, 0700, &err));
	fd = mk_state_lock(STATE, MK_AGENT_LOCK, LOCK_EX | LOCK_NB, &err);
	ck_ok(fd);
	ck_ok(mk_agent_state_write(STATE, "waits for the API server", &err));
	return fd;
}

static unsigned int end_of(pid_t pid, uint64_t started_ns)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	return (unsigned int)((mk_time_monotonic_ns() - started_ns) / 1000000);
}

/* The datapath's lock is free meanwhile: an agent that starts needs it. */
START_TEST(test_waits)
{
	const struct timespec pause = { .tv_nsec = 100000000 };
	cleanup_close int lock = -1;
	int agent = run_agent();
	unsigned int took_ms;
	uint64_t started_ns;
	pid_t pid;

	new_netns("a");
	started_ns = mk_time_monotonic_ns();
	pid = start_add();
	nanosleep(&pause, NULL);
	lock = mk_state_lock(STATE, MK_LOCK_DATAPATH, LOCK_EX | LOCK_NB, &err);
	ck_ok(lock);
	mk_cleanup_close(&lock);
	for (int i = 0; i < IPS; i++)
		expect(family_at(i), "shop/web/7a1c", KNOWN);
	took_ms = end_of(pid, started_ns);
	ck_assert_msg(took_ms < 400, "%u ms", took_ms);
	ck_sets("known", KNOWN);
	close(agent);
}
END_TEST

START_TEST(test_waits_in_vain)
{
	int agent = run_agent();
	unsigned int took_ms;
	uint64_t started_ns;
	const char *log;

	new_netns("a");
	capture_log();
	started_ns = mk_time_monotonic_ns();
	took_ms = end_of(start_add(), started_ns);
	close(agent);
	log = captured_log();
	ck_assert_msg(took_ms >= 500 && took_ms < 900, "%u ms", took_ms);
	ck_assert_msg(strstr(log, "waits for the API server") && strstr(log, "pod=shop/web"), "%s",
		      log);
	ck_sets("unknown", PENDING);
}
END_TEST

START_TEST(test_never_waits_for_the_dead)
{
	unsigned int took_ms;
	uint64_t started_ns;
	const char *log;

	new_netns("a");
	close(run_agent());
	capture_log();
	started_ns = mk_time_monotonic_ns();
	took_ms = end_of(start_add(), started_ns);
	log = captured_log();
	ck_assert_msg(took_ms < 300, "%u ms", took_ms);
	ck_assert_msg(strstr(log, "no agent runs on this node") && strstr(log, "pod=shop/web"),
		      "%s", log);
	ck_sets("unknown", PENDING);
}
END_TEST

UNIT_SUITE("cni_policies")
{
	for (size_t i = 0; i < KINDS; i++) {
		TCase *tc = policy_case(suite, i);

		tcase_add_loop_test(tc, test_add, 0, MK_ARRAY_SIZE(adds));
		tcase_add_test(tc, test_generation);
		tcase_add_test(tc, test_earlier_version);
		tcase_add_test(tc, test_first_enforcement);
		tcase_add_test(tc, test_waits);
		if (kinds[i].families == (NODE_IPV4 | NODE_IPV6))
			tcase_add_test(tc, test_families);
		if (kinds[i].families != NODE_IPV4)
			continue;
		tcase_add_test(tc, test_waits_in_vain);
		tcase_add_test(tc, test_never_waits_for_the_dead);
	}
}

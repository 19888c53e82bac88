// SPDX-License-Identifier: Apache-2.0
/* External addresses: which target has which, when one is free again, and what another leader makes
 * of the published ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clusters/externals.h"
#include "unit/unit.h"

#define MANY 1000

static struct mk_externals *externals;
static struct mk_error err;
static int64_t now_s;

static void start_with(const char *range, const char *range6)
{
	const struct mk_cidr ranges[MK_FAMILIES] = { cidr_of(range), cidr_of(range6) };

	externals = mk_externals_new(ranges);
	ck_assert_ptr_nonnull(externals);
	now_s = 100000;
}

static void setup(void)
{
	start_with("247.255.0.0/20", "fd6d:6b65:7800::/112");
}

static void teardown(void)
{
	mk_externals_free(externals);
}

/* Let @owner have one target. Returns its address; "": none. */
static const char *set(const char *owner, const char *target)
{
	static char text[MK_IP_STRLEN];
	struct mk_ip of = ip_of(target), ip;

	ck_ok(mk_externals_set(externals, owner, &of, 1, now_s, &ip, &err));
	return ip.family == AF_UNSPEC ? "" : mk_ip_format(&ip, text);
}

static void forget(const char *owner)
{
	ck_ok(mk_externals_set(externals, owner, NULL, 0, now_s, NULL, &err));
}

static void set_as(const char *owner, const char *target, const char *expected)
{
	ck_assert_str_eq(set(owner, target), expected);
}

START_TEST(test_idempotent)
{
	char first[MK_IP_STRLEN], second[MK_IP_STRLEN];

	strcpy(first, set("shop/web", "192.0.2.7"));
	strcpy(second, set("shop/db", "192.0.2.8"));
	ck_assert_str_ne(first, second);
	set_as("shop/web", "192.0.2.7", first);
	set_as("shop/other", "192.0.2.7", first);
	set_as("shop/db", "192.0.2.8", second);
}
END_TEST

START_TEST(test_families)
{
	struct mk_cidr six = cidr_of("fd6d:6b65:7800::/112"), four = cidr_of("247.255.0.0/20");
	struct mk_ip ip = ip_of(set("shop/web", "2001:db8::7"));

	ck_assert(mk_cidr_contains(&six, &ip));
	ip = ip_of(set("shop/web", "192.0.2.7"));
	ck_assert(mk_cidr_contains(&four, &ip));
}
END_TEST

/* Of two Services with one target, the last one releases its address. */
START_TEST(test_shared)
{
	teardown();
	start_with("247.255.0.0/31", "fd6d:6b65:7800::/127");
	set_as("a", "192.0.2.1", "247.255.0.1");
	set_as("b", "192.0.2.1", "247.255.0.1");
	forget("a");
	now_s += 2 * MK_EXTERNALS_UNUSED_S;
	set_as("c", "192.0.2.2", "");
	forget("b");
	now_s += MK_EXTERNALS_UNUSED_S;
	set_as("c", "192.0.2.2", "247.255.0.1");
}
END_TEST

static void check_use(uint64_t mapped, uint64_t released)
{
	struct mk_externals_use use = mk_externals_use(externals, now_s);

	ck_assert_uint_eq(use.mapped, mapped);
	ck_assert_uint_eq(use.released, released);
}

/* Three addresses: a released one stays unused for an hour, but its target gets it back. */
START_TEST(test_released)
{
	char first[MK_IP_STRLEN];

	teardown();
	start_with("247.255.0.0/30", "fd6d:6b65:7800::/126");
	strcpy(first, set("a", "192.0.2.1"));
	ck_assert_str_ne(set("b", "192.0.2.2"), "");
	ck_assert_str_ne(set("c", "192.0.2.3"), "");
	set_as("d", "192.0.2.4", "");
	forget("a");
	set_as("d", "192.0.2.4", "");
	now_s += MK_EXTERNALS_UNUSED_S - 1;
	set_as("d", "192.0.2.4", "");
	check_use(2, 1);
	set_as("a", "192.0.2.1", first);
	check_use(3, 0);
	forget("a");
	now_s += MK_EXTERNALS_UNUSED_S;
	check_use(2, 0);
	set_as("d", "192.0.2.4", first);
	set_as("a", "192.0.2.1", "");
}
END_TEST

/* Another leader knows what is published. If two targets have one address, the first one
 * read keeps it. */
START_TEST(test_claims)
{
	const struct mk_ip web = ip_of("192.0.2.7"), db = ip_of("192.0.2.8"),
			   at = ip_of("247.255.3.4"), beyond = ip_of("247.255.16.1");

	ck_ok(mk_externals_claim(externals, &web, &at, now_s));
	ck_ok(mk_externals_claim(externals, &db, &at, now_s));
	ck_ok(mk_externals_claim(externals, &db, &beyond, now_s));
	set_as("shop/web", "192.0.2.7", "247.255.3.4");
	ck_assert_str_ne(set("shop/db", "192.0.2.8"), "247.255.3.4");
	ck_assert_str_ne(set("shop/db", "192.0.2.8"), "247.255.16.1");
}
END_TEST

/* A published address without a target any more counts as released. */
START_TEST(test_claims_without_owner)
{
	const struct mk_ip web = ip_of("192.0.2.7"), at = ip_of("247.255.0.1");

	teardown();
	start_with("247.255.0.0/31", "fd6d:6b65:7800::/127");
	ck_ok(mk_externals_claim(externals, &web, &at, now_s));
	set_as("shop/db", "192.0.2.8", "");
	now_s += MK_EXTERNALS_UNUSED_S;
	set_as("shop/db", "192.0.2.8", "247.255.0.1");
}
END_TEST

/* Two leaders compute the same of one list, in whichever order it comes. */
START_TEST(test_two_leaders)
{
	struct mk_ip targets[MANY], first[MANY], second[MANY];
	struct mk_externals *other;

	for (uint32_t i = 0; i < MANY; i++) {
		targets[i] = ip_of("192.0.0.0");
		targets[i].v4.s_addr = htonl(0xc0000000 + i * 7);
	}
	ck_ok(mk_externals_set(externals, "shop/web", targets, MANY, now_s, first, &err));
	other = externals;
	setup();
	for (size_t i = MANY; i-- > 0;)
		ck_ok(mk_externals_claim(externals, &targets[i], &first[i], now_s));
	ck_ok(mk_externals_set(externals, "shop/web", targets, MANY, now_s, second, &err));
	for (size_t i = 0; i < MANY; i++)
		ck_assert(mk_ip_equal(&first[i], &second[i]));
	mk_externals_free(other);
}
END_TEST

/* Random changes: no address stands for two targets, and no target in use moves. */
START_TEST(test_sequences)
{
	struct mk_ip held[8] = { 0 };
	uint32_t random = (uint32_t)_i * 2654435761U + 1;

	teardown();
	start_with("247.255.0.0/29", "fd6d:6b65:7800::/125");
	for (int step = 0; step < 1000; step++) {
		uint32_t at = (random = random * 1664525 + 1013904223) >> 29;
		struct mk_ip target = ip_of("192.0.2.0"), ip;
		char owner[16];

		snprintf(owner, sizeof(owner), "s%u", at);
		target.v4.s_addr = htonl(0xc0000200 + at);
		now_s += random >> 20 & 1023;
		if (random >> 16 & 1) {
			forget(owner);
			held[at].family = AF_UNSPEC;
			continue;
		}
		ck_ok(mk_externals_set(externals, owner, &target, 1, now_s, &ip, &err));
		ck_assert(held[at].family == AF_UNSPEC || mk_ip_equal(&held[at], &ip));
		held[at] = ip;
		for (uint32_t i = 0; i < 8; i++)
			ck_assert(i == at || ip.family == AF_UNSPEC || !mk_ip_equal(&held[i], &ip));
	}
}
END_TEST

UNIT_SUITE("external addresses")
{
	TCase *tcase = unit_case(suite, "externals", setup, teardown);

	tcase_add_test(tcase, test_idempotent);
	tcase_add_test(tcase, test_families);
	tcase_add_test(tcase, test_shared);
	tcase_add_test(tcase, test_released);
	tcase_add_test(tcase, test_claims);
	tcase_add_test(tcase, test_claims_without_owner);
	tcase_add_test(tcase, test_two_leaders);
	tcase_add_loop_test(tcase, test_sequences, 0, 20);
}

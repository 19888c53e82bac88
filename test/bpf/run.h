/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/run.h - a file of BPF tests is a suite, usually with one case. A single file is linked
 * as a program; several are linked as one program that loads the datapath once for all (main.c). */
#ifndef MK_TEST_BPF_RUN_H
#define MK_TEST_BPF_RUN_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/fixture.h"

#define ROWS(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* BPF_SUITE("name") { ... }: once per file; adds the cases to `suite`, directly before they run. */
#define BPF_SUITE(name)                                             \
	static void fill_suite(Suite *suite);                       \
	__attribute__((constructor)) static void enlist_suite(void) \
	{                                                           \
		bpf_enlist_suite(name, fill_suite);                 \
	}                                                           \
	static void fill_suite(Suite *suite)
void bpf_enlist_suite(const char *name, void (*fill)(Suite *suite));

static inline TCase *bpf_case_after(Suite *suite, const char *name, SFun setup, SFun teardown)
{
	TCase *tcase = tcase_create(name);

	tcase_add_unchecked_fixture(tcase, setup, teardown);
	tcase_add_unchecked_fixture(tcase, fixture_load_small, fixture_unload);
	tcase_add_checked_fixture(tcase, fixture_reset, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	return tcase;
}

static inline TCase *bpf_case(Suite *suite, const char *name)
{
	return bpf_case_after(suite, name, NULL, NULL);
}

/* A case about IPv6 alone, which has this family in every run. */
static inline TCase *bpf_case_ipv6(Suite *suite, const char *name)
{
	return bpf_case_after(suite, name, family_use_ipv6, family_use_again);
}

/* Check the port that a backend sees of a client with port 40000. Behind the virtual pod address it
 * is the client's own, behind any other address a port of natPortRange. */
static inline void check_source_port(const char *address, unsigned port)
{
	if (strcmp(address, "10.244.1.1") == 0)
		ck_assert_uint_eq(port, 40000);
	else
		ck_assert_uint_ge(port, 49152);
}

#endif

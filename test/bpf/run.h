/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/run.h - main() of a BPF test program: one suite, the datapath loaded once. */
#ifndef MK_TEST_BPF_RUN_H
#define MK_TEST_BPF_RUN_H

#include <check.h>
#include <stdlib.h>

#include "bpf/fixture.h"

#define ROWS(array) ((int)(sizeof(array) / sizeof((array)[0])))

static inline TCase *bpf_case(Suite *suite, const char *name)
{
	TCase *tcase = tcase_create(name);

	tcase_add_unchecked_fixture(tcase, fixture_load, fixture_unload);
	tcase_add_checked_fixture(tcase, fixture_reset, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	return tcase;
}

static inline int bpf_run(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif

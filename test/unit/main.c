// SPDX-License-Identifier: Apache-2.0
/* test/unit/main.c - run the suite of the linked file, or print its table. */
#include <stdlib.h>
#include <string.h>

#include "unit/unit.h"

int main(int argc, char **argv)
{
	Suite *suite = suite_create(unit_suite_name);
	SRunner *runner = srunner_create(suite);
	int failed;

	if (unit_print_table && argc > 1 && strcmp(argv[1], "--table") == 0)
		return unit_print_table();
	unit_fill_suite(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

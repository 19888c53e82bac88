// SPDX-License-Identifier: Apache-2.0
/* A thousand nodes with one fault are still one line, which ends with the remedy. */
#include <string.h>

#include "agent/node/node_internal.h"
#include "base/cleanup.h"
#include "unit/unit.h"

static const struct {
	unsigned int nodes;
	const char *text;
} lists[] = {
	{ 0, "" },
	{ 1, "node 0" },
	{ 5, "node 0; node 1; node 2; node 3; node 4" },
	{ 6, "node 0; node 1; node 2; node 3; node 4; and 1 more (`monokube nodes` shows all)" },
	{ 999,
	  "node 0; node 1; node 2; node 3; node 4; and 994 more (`monokube nodes` shows all)" },
};

START_TEST(test_list)
{
	cleanup_free char *text = NULL;
	struct node_list list;

	node_list_begin(&list);
	for (unsigned int i = 0; i < lists[_i].nodes; i++) {
		FILE *out = node_list_add(&list);

		if (out)
			fprintf(out, "node %u", i);
	}
	text = node_list_end(&list, NODES_SHOW_ALL);
	ck_assert_ptr_nonnull(text);
	ck_assert_str_eq(text, lists[_i].text);
	ck_assert_uint_eq(list.count, lists[_i].nodes);
}
END_TEST

UNIT_SUITE("list of nodes")
{
	TCase *tc = unit_case(suite, "list", NULL, NULL);

	tcase_add_loop_test(tc, test_list, 0, MK_ARRAY_SIZE(lists));
}

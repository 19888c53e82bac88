// SPDX-License-Identifier: Apache-2.0
/* The number of instructions that this kernel's verifier walks in each program of both families,
 * with constants that keep every branch (`monokube probe`). The limit is a million. */
#include "bpf/run.h"
#include "datapath/maps/object.h"

static void see(void *ctx, const struct mk_probed *probed)
{
	int *seen = ctx;

	ck_assert_msg(probed->instructions > 0, "%s: the verifier tells no number",
		      probed->program);
	ck_assert_msg(probed->instructions <= MK_VERIFIED_INSTRUCTIONS_MAX,
		      "%s: %u instructions verified, at most %u expected", probed->program,
		      probed->instructions, MK_VERIFIED_INSTRUCTIONS_MAX);
	ck_assert_msg(probed->status == 0, "%s: %d", probed->program, probed->status);
	(*seen)++;
}

START_TEST(test_instructions)
{
	struct mk_error err = { 0 };
	int seen = 0;

	ck_assert_msg(mk_object_probe(see, &seen, &err) == 0, "%s", mk_error_text(&err));
	ck_assert_int_eq(seen, 2 * (int)mk_program_count + 1);
}
END_TEST

BPF_SUITE("the verifier")
{
	TCase *tcase = tcase_create("verifier");

	tcase_set_timeout(tcase, 120);
	suite_add_tcase(suite, tcase);
	tcase_add_test(tcase, test_instructions);
}

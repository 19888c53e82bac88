/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/inspect/policy.h - the policy tables of one family with the names of policies, and what
 * they say in words: for `monokube policy`, `trace`, `drops --follow`, `monitor` and `check`. */
#ifndef MK_CLI_INSPECT_POLICY_H
#define MK_CLI_INSPECT_POLICY_H

#include "cli/inspect/view.h"
#include "datapath/policy/ask.h"
#include "datapath/policy/names.h"
#include "datapath/policy/words.h"

struct mk_cli_policies {
	const struct mk_view *view;
	bool on; /* a pod of this node has a set */
	struct mk_policy_maps maps;
	struct mk_table pods, counts;
	struct mk_policy_names names;
};
/* Call mk_cli_policies_close() in any case. */
mk_must_check int mk_cli_policies_open(struct mk_cli_policies *policies, const struct mk_view *view,
				       struct mk_error *err);
void mk_cli_policies_close(struct mk_cli_policies *policies);
#define cleanup_cli_policies __attribute__((cleanup(mk_cli_policies_close)))

/* Return the set of @pod, as the programs see it. */
uint64_t mk_policy_set_of(const struct mk_cli_policies *policies, const struct mk_view_pod *pod,
			  enum mk_policy_direction direction);

/* Does a policy apply to pods of @set? Otherwise only chains do, or nothing. */
bool mk_policy_set_has_policies(const struct mk_cli_policies *policies, uint64_t set);

struct mk_policy_words {
	bool asked; /* false: no policy of this node is asked in this direction */
	bool allowed;
	char text[MK_POLICY_TEXT_BYTES]; /* why */
};
/* Ask the tables about the request @flow, which goes to the pod itself, not to a Service. With
 * @nearest a denial names the rule that comes nearest, which takes a walk over whole tables. */
mk_must_check int mk_policy_explain(const struct mk_cli_policies *policies,
				    const struct mk_tuple *flow, enum mk_policy_direction direction,
				    bool nearest, struct mk_policy_words *words,
				    struct mk_error *err);

#endif

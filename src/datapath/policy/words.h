/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/policy/words.h - what policies have decided, in words: for the command line and for
 * the agent's log. */
#ifndef MK_DATAPATH_POLICY_WORDS_H
#define MK_DATAPATH_POLICY_WORDS_H

#include "monokube/abi.h"
#include "datapath/policy/ask.h"
#include "datapath/policy/names.h"

#define MK_POLICY_TEXT_BYTES 1024 /* of each text here */

/* Append to @text. */
void mk_policy_text_add(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Return "ingress" or "egress". */
const char *mk_policy_direction_name(enum mk_policy_direction direction);
/* Name what decided, as the programs count it: "shop/web-in rule 2 (podSelector app=a; TCP 80)".
 * Returns @text. */
const char *mk_policy_decision_text(const struct mk_policy_names *names,
				    const struct mk_policy_count_key *decision, char *text);
/* Append the chain that takes the flow; nothing if there is none:
 * "; chain inspection/shop (outside; TCP 443)". */
void mk_policy_chain_add(const struct mk_policy_names *names, uint64_t set,
			 const struct mk_policy_answer *answer, char *text);
/* Append the rule of @set that comes nearest; nothing if there is none. */
void mk_policy_nearest_add(const struct mk_policy_names *names, uint64_t set,
			   enum mk_policy_direction direction,
			   const struct mk_policy_nearest *nearest, char *text);

/* Does a drop with @reason (enum mk_drop_reason) come from policies? */
bool mk_policy_is_reason(unsigned int reason);

#endif

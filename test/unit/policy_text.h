/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/policy_text.h - objects of network policies as text, for rows of tests: selectors in
 * braces, a peer as NAMESPACES/PODS, "?" for an entry that makes no sense. */
#ifndef MK_TEST_POLICY_TEXT_H
#define MK_TEST_POLICY_TEXT_H

#include "unit/model_text.h"

void add_labels(struct line *line, const struct mk_labels *labels);
void summarize_pod(struct line *line, const struct mk_pod_object *pod);
void summarize_network_policy(struct line *line, const struct mk_network_policy *policy);
void summarize_cluster_policy(struct line *line, const struct mk_cluster_policy *policy);
void summarize_chain(struct line *line, const struct mk_chain *chain);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/policy/notes.h - what in the cluster's policies has no effect, although its author
 * probably expects one. For `monokube check` and `monokube status`. */
#ifndef MK_AGENT_POLICY_NOTES_H
#define MK_AGENT_POLICY_NOTES_H

#include "base/json.h"
#include "cluster/model/model.h"

#define NOTES_MAX 100

/* Return an array of { policy, says, remedy }, which the caller releases. @masquerade_all: the
 * setting. */
json_object *notes_of(const struct mk_model *model, bool masquerade_all);
/* Return the names of the policies that are audited by their annotation, as an array, which the
 * caller releases. */
json_object *audited_of(const struct mk_model *model);

#endif

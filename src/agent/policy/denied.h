/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/policy/denied.h - setting logDenied: a line of the log for each flow that policies of
 * this node deny. The limits of base/log.h hold: thirty lines at once, then one a second. */
#ifndef MK_AGENT_POLICY_DENIED_H
#define MK_AGENT_POLICY_DENIED_H

#include <stdbool.h>

#include "agent/core/core.h"
#include "agent/policy/sandboxes.h"
#include "base/json.h"

struct denied;

/* NULL: out of memory. */
struct denied *denied_new(void);
void denied_free(struct denied *denied); /* may be NULL */
/* Keep @names, as mk_policies_describe() returns them, for the next lines. */
void denied_know(struct denied *denied, json_object *names);
/* Log what the programs of @core's families have dropped since the last call. Does nothing while
 * another process reads the drops. */
mk_must_check int denied_log(struct denied *denied, const struct mk_core *core,
			     const struct sandboxes *sandboxes, struct mk_error *err);
/* Log one drop, if it is about policies and the first one of its flow for a minute. */
void denied_see(struct denied *denied, const struct mk_model *model,
		const struct sandboxes *sandboxes, const struct mk_drop_event *event);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/host/agent_state.h - does an agent run on this host, and what does it wait for? The agent
 * holds a lock while it lives. Beside it, it writes its state in one line, for the command line. */
#ifndef MK_HOST_AGENT_STATE_H
#define MK_HOST_AGENT_STATE_H

#include <stdbool.h>

#include "base/error.h"

/* Names of files in the state directory. */
#define MK_AGENT_LOCK  "agent.lock" /* holds the agent's process id */
#define MK_AGENT_STATE "agent.state"

#define MK_AGENT_READY "ready" /* the state when all is well */

struct mk_agent_state {
	bool ever_ran, running;
	unsigned long pid; /* 0: not running */
	char text[512]; /* MK_AGENT_READY, or what it waits for or failed at; "": not known */
};

/* Missing files are not an error: no agent ever ran. */
void mk_agent_state_read(const char *state_dir, struct mk_agent_state *state);

/* Not synced to disk: the state is useless after a crash. */
mk_must_check int mk_agent_state_write(const char *state_dir, const char *text,
				       struct mk_error *err);

/* Keep agents from starting while the returned descriptor is open. -EBUSY: one runs;
 * -ENOENT: no state directory. */
mk_must_check int mk_agent_keep_out(const char *state_dir, struct mk_error *err);

#endif

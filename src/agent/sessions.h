/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/sessions.h - the sweep over the sessions, at its own pace, and the removal of retired
 * backends. */
#ifndef MK_AGENT_SESSIONS_H
#define MK_AGENT_SESSIONS_H

#include "agent/linger.h"
#include "agent/report/metrics.h"
#include "datapath/sessions/emptied.h"
#include "datapath/sessions/fullness.h"
#include "datapath/sessions/sweep.h"

struct agent_sessions {
	struct mk_family *family;
	struct agent_linger *linger;
	uv_timer_t timer;
	struct mk_sweep *sweep; /* NULL: not begun */
	unsigned int loads; /* mk_family.loads of `sweep` */
	bool again; /* start the next pass at once: backends left during this one */
	struct mk_emptied emptied;
	struct mk_fullness fullness[MK_SESSION_TABLES];
	uint64_t passes, busy_ns, last_ns; /* for metrics */
	bool reads_chains; /* the pass has read all sessions, but not yet all flows of chains */
	uint64_t pass_since_ns; /* start of the current pass; 0: none runs */
};

mk_must_check int agent_sessions_start(struct agent_sessions *sessions, struct mk_error *err);
/* Sweep all sessions at once: backends are gone. */
void agent_sessions_sweep_now(struct agent_sessions *sessions);
/* Log if another process emptied map `sessions`; nothing can bring the sessions back.
 * Returns 0. */
int agent_sessions_look(struct agent_sessions *sessions);
void agent_sessions_read(const struct agent_sessions *sessions, struct mk_metrics_family *metrics);
void agent_sessions_free(struct agent_sessions *sessions);

#endif

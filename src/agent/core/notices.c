// SPDX-License-Identifier: Apache-2.0
/* What the agent tells the operator: lines of the log, Events of the Node, and its state for the
 * command line. Each text once. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/core.h"
#include "base/log.h"
#include "host/agent_state.h"

bool mk_is_news(char **last, const char *text)
{
	if (*last && strcmp(*last, text) == 0)
		return false;
	free(*last);
	*last = strdup(text);
	return true;
}

static const char *const warning_reasons[MK_WARNINGS] = {
	[MK_WARN_NODE] = "NetworkMisconfigured",
	[MK_WARN_SERVICE_CIDR] = "ServiceCIDRLeftOut",
	[MK_WARN_NODES_LEFT_OUT] = "NodesLeftOut",
	[MK_WARN_TABLE_FULL] = "NetworkTableFull",
	[MK_WARN_NETWORKS] = "NetworkRangesOverlap",
	[MK_WARN_POD_CIDR] = "PodCIDRChanged",
	[MK_WARN_HEALTH_PORT] = "FailedToStartServiceHealthcheck",
	[MK_WARN_FAMILY] = "AddressFamilyMissing",
	[MK_WARN_PEER_VIEW] = "PeerViewOverlaps",
};

bool mk_core_warn(struct mk_core *core, enum mk_warning warning, const char *text)
{
	bool news = mk_is_news(&core->notices.warned[warning], text);

	if (news)
		mk_source_warn(core->source, warning_reasons[warning], text);
	return news;
}

static void forget(char **last)
{
	free(*last);
	*last = NULL;
}

void mk_core_warn_over(struct mk_core *core, enum mk_warning warning)
{
	forget(&core->notices.warned[warning]);
}

int mk_core_wait_for(struct mk_core *core, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (mk_is_news(&core->notices.said, text))
		mk_log_warn("waiting for %s", text);
	return MK_WAIT;
}

bool mk_is_full(const struct mk_error *err)
{
	return err->code == ENOSPC || err->code == E2BIG || err->code == ENOMEM;
}

void mk_core_failed(struct mk_core *core, const struct mk_error *err)
{
	core->notices.failed = true;
	if (mk_is_news(&core->notices.said, mk_error_text(err)))
		mk_log_error("%s; trying again", mk_error_text(err));
	if (mk_is_full(err))
		(void)mk_core_warn(core, MK_WARN_TABLE_FULL, mk_error_text(err));
}

void mk_core_fine(struct mk_core *core)
{
	if (core->notices.said && core->notices.failed)
		mk_log_info("the previous error is over");
	core->notices.failed = false;
	mk_core_warn_over(core, MK_WARN_TABLE_FULL);
	forget(&core->notices.said);
}

void mk_core_write_state(struct mk_core *core, const char *text)
{
	const struct mk_notices *notices = &core->notices;
	struct mk_error err = { 0 };
	char said[600];

	if (notices->said) {
		snprintf(said, sizeof(said), "%s%s", notices->failed ? "" : "waits for ",
			 notices->said);
		text = said;
	}
	if (!text || !mk_is_news(&core->notices.state, text))
		return;
	if (mk_agent_state_write(core->config.state_dir, text, &err) < 0)
		mk_log_error("cannot store the agent's state: %s", mk_error_text(&err));
}

// SPDX-License-Identifier: Apache-2.0
/* `monokube health`: the probes of the DaemonSet. They ask the agent at the address in its stored
 * settings, so healthzBindAddress may change without the manifest. */
#include <string.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/cli_internal.h"
#include "host/agent_state.h"
#include "host/record.h"

/* If healthzBindAddress is off, read the state that the agent wrote. */
static int ask_state(const char *state_dir, bool ready, struct mk_error *err)
{
	struct mk_agent_state state;

	mk_agent_state_read(state_dir, &state);
	if (!state.running)
		return mk_error_set(
			err, ESRCH,
			"no agent runs here: start it, or give its state directory instead of '%s'",
			state_dir);
	if (ready && strcmp(state.text, MK_AGENT_READY) != 0)
		return mk_error_set(err, EAGAIN, "the agent is not ready: %s", state.text);
	return 0;
}

static int ask_agent(const struct mk_cli_options *options, struct mk_error *err)
{
	bool ready = strcmp(options->words[0], "ready") == 0;
	struct mk_record record;
	cleanup_free char *body = NULL;
	struct mk_ip_port at;
	size_t size;
	int ret;

	if (!ready && strcmp(options->words[0], "live") != 0)
		return mk_error_set(err, EINVAL, "'%s': expected live or ready", options->words[0]);
	ret = mk_record_read(options->state_dir, &record, err);
	if (ret < 0)
		return ret;
	if (strcmp(record.healthz, "off") == 0)
		return ask_state(options->state_dir, ready, err);
	if (mk_ip_port_parse(record.healthz, &at) < 0)
		return mk_error_set(err, ENOENT,
				    "no agent has written its settings down yet in '%s'",
				    options->state_dir);
	ret = cli_ask(&at, ready ? "/healthz" : "/livez", &body, &size, err);
	if (ret < 0 || ret == 200)
		return ret;
	return mk_error_set(err, EAGAIN, "the agent answers %d: %s", ret, body);
}

int cli_health(int argc, char **argv)
{
	struct mk_cli_options options;
	struct mk_error err = { 0 };
	int ret = mk_cli_options_read(&options, argc, argv, &err);

	if (ret > 0)
		return 0;
	ret = ret ?: ask_agent(&options, &err);
	if (ret < 0)
		return mk_cli_fail(argv[0], &err);
	printf("ok\n");
	return 0;
}

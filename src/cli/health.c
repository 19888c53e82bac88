// SPDX-License-Identifier: Apache-2.0
/* `monokube health`: the probes of the DaemonSet. They ask the agent at the address that its settings
 * give, so that healthzBindAddress may be changed without the manifest. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/cleanup.h"
#include "base/ip.h"
#include "cli/cli.h"
#include "overlay/agent_state.h"
#include "overlay/record.h"

#define TIMEOUT_S 4

static int ask(const struct mk_ip_port *at, const char *path, char *answer, size_t size,
	       struct mk_error *err)
{
	const struct timeval timeout = { .tv_sec = TIMEOUT_S };
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(at->port) };
	cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char text[MK_IP_PORT_STRLEN], request[128];
	ssize_t got;

	to.sin_addr.s_addr = at->ip.v4.s_addr ? at->ip.v4.s_addr : htonl(INADDR_LOOPBACK);
	snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: node\r\n\r\n", path);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0 ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ||
	    send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
		return mk_error_errno(err, errno, "cannot ask %s at %s", path,
				      mk_ip_port_format(at, text));
	got = recv(fd, answer, size - 1, MSG_WAITALL);
	if (got < 0)
		return mk_error_errno(err, errno, "no answer to %s at %s", path,
				      mk_ip_port_format(at, text));
	answer[got] = '\0';
	return 0;
}

/* "HTTP/1.1 200 OK" */
static int judge(const char *answer, struct mk_error *err)
{
	const char *status = strchr(answer, ' '), *body = strstr(answer, "\r\n\r\n");

	if (status && strtol(status, NULL, 10) == 200)
		return 0;
	return mk_error_set(err, EAGAIN, "the agent answers %.3s: %s", status ? status + 1 : "?",
			    body ? body + 4 : "");
}

/* healthzBindAddress is off: what the agent wrote down is all there is. */
static int ask_state(const char *state_dir, bool ready, struct mk_error *err)
{
	struct mk_agent_state state;

	mk_agent_state_read(state_dir, &state);
	if (!state.running)
		return mk_error_set(err, ESRCH, "no agent runs here (state directory '%s')",
				    state_dir);
	if (ready && strcmp(state.text, MK_AGENT_READY) != 0)
		return mk_error_set(err, EAGAIN, "the agent is not ready: %s", state.text);
	return 0;
}

static int ask_agent(const struct mk_cli_options *options, struct mk_error *err)
{
	bool ready = strcmp(options->words[0], "ready") == 0;
	struct mk_record record;
	struct mk_ip_port at;
	char answer[2048];
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
	ret = ask(&at, ready ? "/healthz" : "/livez", answer, sizeof(answer), err);
	return ret < 0 ? ret : judge(answer, err);
}

int mk_cli_health(int argc, char **argv)
{
	struct mk_cli_options options;
	struct mk_error err = { 0 };
	int ret = mk_cli_options_read(&options, argc, argv, &err);

	if (ret > 0)
		return 0;
	if (ret == 0)
		ret = ask_agent(&options, &err);
	if (ret < 0)
		return mk_cli_fail(argv[0], &err);
	printf("ok\n");
	return 0;
}

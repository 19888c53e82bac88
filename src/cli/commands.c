// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "monokube/version.h"
#include "agent/agent.h"
#include "base/cleanup.h"
#include "cli/cli.h"

static int version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	printf("monokube %s\n", MONOKUBE_VERSION);
	return 0;
}

static int help(int argc, char **argv)
{
	const struct mk_cli_command *command = argc > 1 ? mk_cli_command_find(argv[1]) : NULL;

	if (command)
		mk_cli_print_command_help(stdout, command);
	else
		mk_cli_print_help(stdout);
	return 0;
}

#define LIST (MK_CLI_STATE_DIR | MK_CLI_JSON)

const struct mk_cli_command mk_cli_commands[] = {
	{ "agent", mk_agent_main, "[flags]", 0, 0, 0,
	  "follow the cluster and keep this node's network (agent --help)" },
	{ "status", mk_cli_status, "", 0, 0, LIST,
	  "one screen: healthy, or what is not; exit status 1 if something is not" },
	{ "check", mk_cli_check, "", 0, 0, LIST,
	  "everything a node needs, each finding with its remedy; exit status 1 if one is wrong" },
	{ "trace", mk_cli_trace, "FROM TO [PORT]", 2, 3,
	  LIST | MK_CLI_PROTOCOL | MK_CLI_SOURCE_PORT,
	  "the way of such a packet through the programs, without sending it; exit status 3 if it "
	  "does not arrive" },
	{ "pods", mk_cli_pods, "[NAME|ADDRESS]", 0, 1, LIST,
	  "pods of this node: address, interface, container" },
	{ "nodes", mk_cli_nodes, "", 0, 0, LIST,
	  "the other nodes: pod range, overlay address, address, what of it is in the kernel" },
	{ "services", mk_cli_services, "[NAME]", 0, 1, LIST,
	  "Services in the tables: addresses, backends, counters, drops" },
	{ "sessions", mk_cli_sessions, "[FILTER ...]", 0, MK_CLI_WORDS,
	  LIST | MK_CLI_PROTOCOL | MK_CLI_LIMIT,
	  "flows of Services and host ports; FILTER: an address, :PORT, a Service's name, a "
	  "state" },
	{ "nat", mk_cli_nat, "[FILTER ...]", 0, MK_CLI_WORDS, LIST | MK_CLI_PROTOCOL | MK_CLI_LIMIT,
	  "masqueraded flows, and their ports" },
	{ "drops", mk_cli_drops, "", 0, 0, LIST | MK_CLI_FOLLOW,
	  "packets not forwarded, by reason; --follow: one by one, with pods' names" },
	{ "monitor", mk_cli_monitor, "", 0, 0,
	  LIST | MK_CLI_PROTOCOL | MK_CLI_POD | MK_CLI_SERVICE | MK_CLI_IP | MK_CLI_PORT |
		  MK_CLI_DROPS | MK_CLI_SAMPLE | MK_CLI_COUNT,
	  "flows as they begin, and drops, one line each, until interrupted; costs nothing while "
	  "it "
	  "does not run" },
	{ "bugreport", mk_cli_bugreport, "", 0, 0, MK_CLI_STATE_DIR | MK_CLI_FILE,
	  "one tar of what all of these say, without secrets" },
	{ "cleanup", mk_cli_cleanup, "", 0, 0, MK_CLI_STATE_DIR | MK_CLI_HOST,
	  "remove everything monokube has made on this host" },
	{ "probe", mk_cli_probe, "", 0, 0, 0,
	  "does this kernel take the BPF programs? changes nothing" },
	{ "prepare", mk_cli_prepare, "", 0, 0, MK_CLI_STATE_DIR,
	  "mount a BPF file system on this host, if there is none" },
	{ "completion", mk_cli_completion, "", 0, 0, 0,
	  "bash completion: source <(monokube completion)" },
	{ "manual", mk_cli_manual, "", 0, 0, 0, "the manual page: monokube manual | man -l -" },
	{ "version", version, "", 0, 0, 0, "print the version" },
	{ "help", help, "[SUBCOMMAND]", 0, 1, 0, "this list, or about one of it" },
};
const size_t mk_cli_command_count = MK_ARRAY_SIZE(mk_cli_commands);

const struct mk_cli_flag_text mk_cli_flags[] = {
	{ MK_CLI_JSON, "-o", "json", "JSON instead of text" },
	{ MK_CLI_PROTOCOL, "--protocol", "PROTO", "tcp, udp, sctp or icmp" },
	{ MK_CLI_SOURCE_PORT, "--source-port", "PORT",
	  "the client's port, to follow a flow that is there; else an unused one" },
	{ MK_CLI_LIMIT, "--limit", "N", "at most so many lines, 1000 unless given" },
	{ MK_CLI_POD, "--pod", "NAME", "this pod's alone: its name, namespace/name, or address" },
	{ MK_CLI_SERVICE, "--service", "NAME",
	  "this Service's alone: its name, or namespace/name" },
	{ MK_CLI_IP, "--ip", "ADDR", "from or to this address, before or after load balancing" },
	{ MK_CLI_PORT, "--port", "PORT", "from or to this port, before or after load balancing" },
	{ MK_CLI_DROPS, "--drops", "", "drops alone" },
	{ MK_CLI_SAMPLE, "--sample", "N", "beside the first of each flow, one packet of N" },
	{ MK_CLI_COUNT, "--count", "N", "end after so many" },
	{ MK_CLI_FOLLOW, "--follow", "", "show them as they come" },
	{ MK_CLI_FILE, "--file", "FILE", "where to write it, instead of a new file in /tmp" },
	{ MK_CLI_HOST, "--host", "", "from a container that has the host's process ids" },
	{ MK_CLI_STATE_DIR, "--state-dir", "DIR", "the agent's, /var/lib/monokube unless given" },
};
const size_t mk_cli_flag_count = MK_ARRAY_SIZE(mk_cli_flags);

const struct mk_cli_command *mk_cli_command_find(const char *name)
{
	for (size_t i = 0; i < mk_cli_command_count; i++)
		if (strcmp(name, mk_cli_commands[i].name) == 0)
			return &mk_cli_commands[i];
	return NULL;
}

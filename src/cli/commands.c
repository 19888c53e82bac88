// SPDX-License-Identifier: Apache-2.0
/* The table of subcommands and of their flags. */
#include <string.h>

#include "monokube/version.h"
#include "agent/agent.h"
#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/cli_internal.h"

static int version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	printf("monokube %s\n", MONOKUBE_VERSION);
	return 0;
}

static int help(int argc, char **argv)
{
	const struct mk_cli_command *command = argc > 1 ? cli_command_of(argc - 1, argv + 1) : NULL;

	if (command)
		cli_print_command_help(stdout, command);
	else if (argc == 1)
		cli_print_help(stdout);
	else if (cli_is_group(argv[1]))
		cli_print_group_help(stdout, argv[1]);
	else
		return cli_unknown_command(argc - 1, argv + 1);
	return 0;
}

#define LIST	 (MK_CLI_STATE_DIR | MK_CLI_JSON)
#define FAMILIES (MK_CLI_IPV4 | MK_CLI_IPV6)

const struct mk_cli_command mk_cli_commands[] = {
	{ "agent", mk_agent_main, "[flags]", 0, 0, 0,
	  "follow the cluster and keep this node's network (see agent --help)" },
	{ "status", mk_cli_status, "", 0, 0, LIST,
	  "show on one screen whether this node is healthy; exit status 1 if it is not" },
	{ "check", mk_cli_check, "", 0, 0, LIST,
	  "check everything that a node needs, and print a remedy for each fault; exit status 1 if there is one" },
	{ "trace", mk_cli_trace, "FROM TO [PORT]", 2, 3,
	  LIST | FAMILIES | MK_CLI_PROTOCOL | MK_CLI_SOURCE_PORT | MK_CLI_HEADERS |
		  MK_CLI_NEIGHBOUR,
	  "trace a packet through the BPF programs without sending it; exit status 3 if it does not arrive" },
	{ "pods", mk_cli_pods, "[NAME|ADDRESS]", 0, 1, LIST | FAMILIES,
	  "list the pods of this node: addresses, interface, container" },
	{ "policy", mk_cli_policy, "[POD | FROM TO [PORT]]", 0, 3,
	  LIST | FAMILIES | MK_CLI_PROTOCOL,
	  "list the network policies of this node's pods, or say which decide about a flow; exit status 3 if it is denied" },
	{ "chains", mk_cli_chains, "[NAME]", 0, 1, LIST | FAMILIES,
	  "list functions and pods of service function chains: replicas, states, packets; exit status 1 if a function blocks its chain" },
	{ "nodes", mk_cli_nodes, "", 0, 0, LIST | FAMILIES,
	  "list the other nodes: pod ranges, overlay addresses, address, what is missing in the kernel" },
	{ "peers", mk_cli_peers, "[NAME]", 0, 1, LIST | FAMILIES,
	  "list the other clusters that this one knows: pod ranges, views, path, packets; exit status 1 if one is not usable" },
	{ "peer publish", mk_cli_peer_publish, "", 0, 0, MK_CLI_STATE_DIR,
	  "print this cluster and its nodes as objects for another cluster: monokube peer publish | kubectl --context OTHER apply -f -" },
	{ "peer invite", mk_cli_peer_invite, "NAME", 1, 1,
	  MK_CLI_CLUSTER | MK_CLI_INBOX | MK_CLI_STATE_DIR,
	  "print what lets cluster NAME read what this cluster publishes: monokube peer invite NAME | kubectl apply -f -" },
	{ "peer ticket", mk_cli_peer_ticket, "", 0, 0,
	  MK_CLI_SERVER | MK_CLI_CLUSTER | MK_CLI_ACCESS | MK_CLI_RELAY | MK_CLI_ACCEPT |
		  MK_CLI_STATE_DIR,
	  "read the Secret of an invitation from standard input, and print the objects for the invited cluster, with the token: kubectl -n monokube-peers get secret invite-NAME -o json | monokube peer ticket --server URL" },
	{ "peer join", mk_cli_peer_join, "CONTEXT CONTEXT", 2, 2,
	  MK_CLI_KUBECONFIG | MK_CLI_SERVER_OF | MK_CLI_ACCESS | MK_CLI_HUB | MK_CLI_INBOX |
		  MK_CLI_TIMEOUT | MK_CLI_DRY_RUN,
	  "let two clusters, named by contexts of the kubeconfig, read what the other one publishes; a second time it changes only what differs" },
	{ "peer remap", mk_cli_peer_remap, "CONTEXT NAME", 2, 2,
	  MK_CLI_KUBECONFIG | MK_CLI_TIMEOUT | MK_CLI_DRY_RUN,
	  "let the cluster of CONTEXT see peer NAME by other ranges of peerPools, because the present ones overlap; connections to these end" },
	{ "peer rotate", mk_cli_peer_rotate, "CONTEXT CONTEXT", 2, 2,
	  MK_CLI_KUBECONFIG | MK_CLI_TIMEOUT,
	  "replace the tokens of two clusters that have joined; the old ones end at once" },
	{ "peer leave", mk_cli_peer_leave, "CONTEXT [CONTEXT]", 1, 2,
	  MK_CLI_KUBECONFIG | MK_CLI_CLUSTER | MK_CLI_DRY_RUN,
	  "delete in both clusters what join has made, and the ClusterPeers; in one, if the cluster of --cluster is lost" },
	{ "services", mk_cli_services, "[NAME]", 0, 1, LIST | FAMILIES,
	  "list the Services in the tables: addresses, backends, counters, drops" },
	{ "sessions", mk_cli_sessions, "[FILTER ...]", 0, MK_CLI_WORDS,
	  LIST | FAMILIES | MK_CLI_PROTOCOL | MK_CLI_LIMIT,
	  "list flows of Services and host ports; FILTER is an address, :PORT, the name of a Service, or a state" },
	{ "nat", mk_cli_nat, "[FILTER ...]", 0, MK_CLI_WORDS,
	  LIST | FAMILIES | MK_CLI_PROTOCOL | MK_CLI_LIMIT,
	  "list masqueraded flows and their ports" },
	{ "drops", mk_cli_drops, "", 0, 0, LIST | FAMILIES | MK_CLI_FOLLOW,
	  "count packets that were not forwarded, by reason; --follow shows each with pod names" },
	{ "monitor", mk_cli_monitor, "", 0, 0,
	  LIST | FAMILIES | MK_CLI_PROTOCOL | MK_CLI_POD | MK_CLI_SERVICE | MK_CLI_IP |
		  MK_CLI_PORT | MK_CLI_DROPS | MK_CLI_SAMPLE | MK_CLI_COUNT,
	  "print new flows and drops, one line each, until interrupted" },
	{ "health", cli_health, "live|ready", 1, 1, MK_CLI_STATE_DIR,
	  "ask the agent whether it is alive or ready, as the DaemonSet's probes do; exit status 1 if not" },
	{ "bugreport", cli_bugreport, "", 0, 0, MK_CLI_STATE_DIR | MK_CLI_FILE,
	  "write the output of all these subcommands into one tar file, without secrets" },
	{ "cleanup", cli_cleanup, "", 0, 0, MK_CLI_STATE_DIR | MK_CLI_HOST | MK_CLI_ONLY_IPV6,
	  "remove everything that monokube has made on this host" },
	{ "probe", cli_probe, "", 0, 0, 0,
	  "test whether this kernel takes the BPF programs; changes nothing" },
	{ "prepare", cli_prepare, "", 0, 0, MK_CLI_STATE_DIR,
	  "mount a BPF file system on this host if there is none" },
	{ "completion", cli_completion, "", 0, 0, 0,
	  "print bash completion: source <(monokube completion)" },
	{ "manual", cli_manual, "", 0, 0, 0, "print the manual page: monokube manual | man -l -" },
	{ "version", version, "", 0, 0, 0, "print the version" },
	{ "help", help, "[SUBCOMMAND]", 0, 2, 0, "print this list, or the help of one subcommand" },
};
const size_t mk_cli_command_count = MK_ARRAY_SIZE(mk_cli_commands);

const struct mk_cli_flag_text mk_cli_flags[] = {
	{ MK_CLI_JSON, "-o", "json", "print JSON instead of text" },
	{ MK_CLI_IPV4, "-4", "", "only IPv4; default: both families" },
	{ MK_CLI_IPV6, "-6", "", "only IPv6; default: both families" },
	{ MK_CLI_PROTOCOL, "--protocol", "PROTO", "tcp, udp, sctp or icmp" },
	{ MK_CLI_SOURCE_PORT, "--source-port", "PORT",
	  "the client's port, to follow an existing flow; default: an unused one" },
	{ MK_CLI_HEADERS, "--headers", "NAME[,NAME ...]",
	  "extension headers of IPv6, in this order: hop-by-hop, destination, routing, source-route, fragment (one that is whole), ah" },
	{ MK_CLI_NEIGHBOUR, "--neighbour", "MESSAGE",
	  "a message of IPv6's neighbour discovery: ns, na, rs or ra" },
	{ MK_CLI_LIMIT, "--limit", "N", "print at most N lines; default 1000" },
	{ MK_CLI_POD, "--pod", "NAME", "only this pod: its name, namespace/name, or address" },
	{ MK_CLI_SERVICE, "--service", "NAME", "only this Service: its name, or namespace/name" },
	{ MK_CLI_IP, "--ip", "ADDR",
	  "only flows with this address, before or after load balancing" },
	{ MK_CLI_PORT, "--port", "PORT",
	  "only flows with this port, before or after load balancing" },
	{ MK_CLI_DROPS, "--drops", "", "only drops" },
	{ MK_CLI_SAMPLE, "--sample", "N",
	  "besides the first packet of each flow, one packet in N" },
	{ MK_CLI_COUNT, "--count", "N", "stop after N lines" },
	{ MK_CLI_FOLLOW, "--follow", "", "keep running and print each as it happens" },
	{ MK_CLI_FILE, "--file", "FILE", "the file to write; default: a new file in /tmp" },
	{ MK_CLI_HOST, "--host", "", "run from a container that has the host's process ids" },
	{ MK_CLI_ONLY_IPV6, "--ipv6", "",
	  "of a node with both families remove only what it has for IPv6" },
	{ MK_CLI_CLUSTER, "--cluster", "NAME",
	  "the clusterName of the cluster that invites; default: that of this node's agent; of leave: of the cluster that is lost" },
	{ MK_CLI_SERVER, "--server", "URL",
	  "where the invited cluster reaches this cluster's API server; several are tried in turn" },
	{ MK_CLI_ACCESS, "--access", "WHAT",
	  "what the other cluster may open: Exports, Pods or None; default Exports" },
	{ MK_CLI_RELAY, "--relay", "",
	  "the invited cluster is a hub, and carries packets between the inviting one and others" },
	{ MK_CLI_ACCEPT, "--accept", "WHAT",
	  "the inviting cluster is a hub, and introduces its other clusters: Transit, Direct (their nodes try direct paths) or None; default None" },
	{ MK_CLI_KUBECONFIG, "--kubeconfig", "FILE",
	  "the kubeconfig; default: $KUBECONFIG, or else ~/.kube/config" },
	{ MK_CLI_SERVER_OF, "--server", "CONTEXT=URL",
	  "where the other cluster reaches the API server of CONTEXT; default: as the kubeconfig, or as before; several are tried in turn" },
	{ MK_CLI_HUB, "--relay", "",
	  "the first cluster is a hub: it carries packets between the second one and its other ones, and introduces these" },
	{ MK_CLI_INBOX, "--inbox", "",
	  "the API server of the invited cluster (of join: the second one) cannot be reached: that cluster writes what it publishes into a namespace of the other one" },
	{ MK_CLI_TIMEOUT, "--timeout", "S", "wait at most S seconds for a token; default 30" },
	{ MK_CLI_DRY_RUN, "--dry-run", "", "print what would be done; change nothing" },
	{ MK_CLI_STATE_DIR, "--state-dir", "DIR",
	  "the agent's state directory; default /var/lib/monokube" },
};
const size_t mk_cli_flag_count = MK_ARRAY_SIZE(mk_cli_flags);

const struct mk_cli_command *cli_command_find(const char *name)
{
	for (size_t i = 0; i < mk_cli_command_count; i++)
		if (strcmp(name, mk_cli_commands[i].name) == 0)
			return &mk_cli_commands[i];
	return NULL;
}

const struct mk_cli_command *cli_command_of(int count, char **words)
{
	const struct mk_cli_command *command = cli_command_find(words[0]);
	char name[64];

	if (command || count < 2)
		return command;
	snprintf(name, sizeof(name), "%s %s", words[0], words[1]);
	return cli_command_find(name);
}

bool cli_is_in_group(const struct mk_cli_command *command, const char *word)
{
	size_t length = strlen(word);

	return strncmp(command->name, word, length) == 0 && command->name[length] == ' ';
}

bool cli_is_group(const char *word)
{
	for (size_t i = 0; i < mk_cli_command_count; i++)
		if (cli_is_in_group(&mk_cli_commands[i], word))
			return true;
	return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/cli.h - what the binary can do besides being a CNI plugin. One table (commands.c) says
 * each subcommand's name, words, flags and meaning; help, completion and the manual page are
 * printed from it (help.c). Each function gets its own argv and returns the exit status. argv[0] is
 * the subcommand, which may be two words. Exit status: 0; 1: it failed, or found something wrong;
 * 2: no such subcommand; 3 (trace, policy): the packet does not arrive. */
#ifndef MK_CLI_CLI_H
#define MK_CLI_CLI_H

#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/ip.h"

/* Run the subcommand argv[1]. */
int mk_cli_main(int argc, char **argv);

int mk_cli_check(int argc, char **argv);
int mk_cli_drops(int argc, char **argv);
int mk_cli_monitor(int argc, char **argv);
int mk_cli_nat(int argc, char **argv);
int mk_cli_nodes(int argc, char **argv);
int mk_cli_peer_invite(int argc, char **argv);
int mk_cli_peer_join(int argc, char **argv);
int mk_cli_peer_leave(int argc, char **argv);
int mk_cli_peer_publish(int argc, char **argv);
int mk_cli_peer_remap(int argc, char **argv);
int mk_cli_peer_rotate(int argc, char **argv);
int mk_cli_peer_ticket(int argc, char **argv);
int mk_cli_peers(int argc, char **argv);
int mk_cli_pods(int argc, char **argv);
int mk_cli_policy(int argc, char **argv);
int mk_cli_chains(int argc, char **argv);
int mk_cli_services(int argc, char **argv);
int mk_cli_sessions(int argc, char **argv);
int mk_cli_status(int argc, char **argv);
int mk_cli_trace(int argc, char **argv);

#define MK_CLI_LINES 1000 /* default of --limit */

/* Flags that subcommands take, and the one word that follows, if any. */
enum mk_cli_flag {
	MK_CLI_STATE_DIR = 1 << 0,
	MK_CLI_JSON = 1 << 1,
	MK_CLI_FOLLOW = 1 << 2,
	MK_CLI_HOST = 1 << 3,
	MK_CLI_PROTOCOL = 1 << 4,
	MK_CLI_SOURCE_PORT = 1 << 5,
	MK_CLI_LIMIT = 1 << 6,
	MK_CLI_FILE = 1 << 7,
	MK_CLI_POD = 1 << 8,
	MK_CLI_SERVICE = 1 << 9,
	MK_CLI_IP = 1 << 10,
	MK_CLI_PORT = 1 << 11,
	MK_CLI_DROPS = 1 << 12,
	MK_CLI_SAMPLE = 1 << 13,
	MK_CLI_COUNT = 1 << 14,
	MK_CLI_IPV4 = 1 << 15,
	MK_CLI_IPV6 = 1 << 16,
	MK_CLI_ONLY_IPV6 = 1 << 17,
	MK_CLI_HEADERS = 1 << 18,
	MK_CLI_NEIGHBOUR = 1 << 19,
	MK_CLI_CLUSTER = 1 << 20,
	MK_CLI_SERVER = 1 << 21,
	MK_CLI_ACCESS = 1 << 22,
	MK_CLI_RELAY = 1 << 23,
	MK_CLI_ACCEPT = 1 << 24,
	MK_CLI_KUBECONFIG = 1 << 25,
	MK_CLI_SERVER_OF = 1 << 26,
	MK_CLI_HUB = 1 << 27,
	MK_CLI_TIMEOUT = 1 << 28,
	MK_CLI_DRY_RUN = 1 << 29,
	MK_CLI_INBOX = 1 << 30,
};

#define MK_CLI_WORDS	 8
#define MK_CLI_SERVERS	 8
#define MK_CLI_TIMEOUT_S 30 /* default of --timeout */

struct mk_cli_command {
	const char *name; /* one word, or two: "peer join" */
	int (*run)(int argc, char **argv);
	const char *words; /* as usage shows them, "" for none */
	int words_min, words_max;
	unsigned int flags; /* enum mk_cli_flag */
	const char *help;
};
extern const struct mk_cli_command mk_cli_commands[];
extern const size_t mk_cli_command_count;

struct mk_cli_flag_text {
	unsigned int flag; /* enum mk_cli_flag */
	const char *name, *value; /* "--limit" "N"; value "": none */
	const char *help;
};
extern const struct mk_cli_flag_text mk_cli_flags[];
extern const size_t mk_cli_flag_count;

/* A family that the command shows, with the directory of its tables. */
struct mk_cli_family {
	sa_family_t family;
	char dir[PATH_MAX];
};

/* A parsed command line. */
struct mk_cli_options {
	char state_dir[PATH_MAX];
	char bpf_dir[PATH_MAX]; /* what the agent recorded, or the default */
	sa_family_t primary; /* of the first range of clusterCidr */
	/* At least one: those that are loaded, the primary one first, less what -4 or -6 excludes.
	 * If none is loaded, IPv4. */
	struct mk_cli_family families[MK_FAMILIES];
	size_t family_count;
	char source[PATH_MAX]; /* what the agent follows, in words */
	unsigned int given; /* enum mk_cli_flag */
	int json; /* -o json */
	int follow; /* --follow */
	int host; /* --host: in the namespaces of process 1 */
	unsigned int protocol; /* IPPROTO_*; 0: not given */
	unsigned int source_port; /* 0: not given */
	unsigned int limit;
	const char *file; /* NULL: not given */
	const char *pod, *service, *ip; /* NULL: not given */
	const char *headers, *neighbour; /* NULL: not given */
	unsigned int port, sample, count; /* 0: not given */
	int drops; /* --drops */
	const char *cluster, *access, *accept; /* NULL: not given */
	const char *servers[MK_CLI_SERVERS];
	size_t server_count;
	int relay, inbox; /* --relay, --inbox */
	const char *kubeconfig; /* NULL: not given */
	unsigned int timeout; /* s */
	int dry_run; /* --dry-run */
	const char *words[MK_CLI_WORDS + 1]; /* of argv; NULL at the end */
	int word_count;
};
/* Returns 0; 1 after --help; or an error that names the word. */
mk_must_check int mk_cli_options_read(struct mk_cli_options *options, int argc, char **argv,
				      struct mk_error *err);
/* "tcp", "udp", "sctp", "icmp" to IPPROTO_*, of any case; 0: none of these. */
unsigned int mk_cli_protocol_parse(const char *text);
/* 1 to 65535; 0: not a port. */
unsigned int mk_cli_port_parse(const char *text);
/* Print @err and return the exit status for it. */
int mk_cli_fail(const char *subcommand, const struct mk_error *err);

#endif

// SPDX-License-Identifier: Apache-2.0
#include "cli/cli.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/suggest.h"
#include "base/time.h"
#include "cli/cli_internal.h"
#include "config/config.h"
#include "datapath/maps/pin.h"
#include "host/record.h"

#define LOCK_WAIT_S 10 /* an agent that starts has one for about a second */

int mk_cli_fail(const char *subcommand, const struct mk_error *err)
{
	fprintf(stderr, "monokube %s: %s\n", subcommand, mk_error_text(err));
	return 1;
}

unsigned int mk_cli_protocol_parse(const char *text)
{
	static const struct {
		const char *name;
		unsigned int protocol;
	} names[] = { { "tcp", IPPROTO_TCP },
		      { "udp", IPPROTO_UDP },
		      { "sctp", IPPROTO_SCTP },
		      { "icmp", IPPROTO_ICMP } };

	for (size_t i = 0; i < MK_ARRAY_SIZE(names); i++)
		if (strcasecmp(text, names[i].name) == 0)
			return names[i].protocol;
	return 0;
}

static unsigned int parse_number(const char *text, unsigned int max)
{
	char *end;
	unsigned long value;

	if (*text < '0' || *text > '9')
		return 0;
	errno = 0;
	value = strtoul(text, &end, 10);
	return errno || *end || value > max ? 0 : (unsigned int)value;
}

unsigned int mk_cli_port_parse(const char *text)
{
	return parse_number(text, 65535);
}

/* Returns the value in "--name value", "--name=value", "-o value" or "-ovalue" at argv[*i]; NULL:
 * another word. */
static const char *option_value(const char *name, int argc, char **argv, int *i)
{
	size_t length = strlen(name);

	if (strncmp(argv[*i], name, length) != 0)
		return NULL;
	if (argv[*i][length] == '=')
		return argv[*i] + length + 1;
	if (argv[*i][length] != '\0')
		return length == 2 ? argv[*i] + length : NULL;
	return *i + 1 < argc ? argv[++*i] : "";
}

static int refuse(const struct mk_cli_flag_text *flag, const char *value, const char *expected,
		  struct mk_error *err)
{
	return mk_error_set(err, EINVAL, "flag %s: value '%s', expected %s", flag->name, value,
			    expected);
}

static int take_number(unsigned int *number, const struct mk_cli_flag_text *flag, const char *value,
		       struct mk_error *err)
{
	*number = parse_number(value, INT_MAX);
	return *number ? 0 : refuse(flag, value, "a number from 1", err);
}

static int take_word(const char **word, const struct mk_cli_flag_text *flag, const char *value,
		     struct mk_error *err)
{
	*word = value;
	return *value ? 0 : refuse(flag, value, "a name or an address", err);
}

static int take_server(struct mk_cli_options *options, const struct mk_cli_flag_text *flag,
		       const char *value, struct mk_error *err)
{
	if (!*value)
		return refuse(flag, value, "a URL", err);
	if (options->server_count == MK_CLI_SERVERS)
		return mk_error_set(err, E2BIG, "flag %s: expected it at most %d times", flag->name,
				    MK_CLI_SERVERS);
	options->servers[options->server_count++] = value;
	return 0;
}

/* Take one of the words of @expected, which are divided by ", " or " or ". */
static int take_choice(const char **choice, const char *expected,
		       const struct mk_cli_flag_text *flag, const char *value, struct mk_error *err)
{
	size_t length = strlen(value);
	const char *at = length && !strpbrk(value, ", ") ? strstr(expected, value) : NULL;

	*choice = value;
	if (at && (at == expected || at[-1] == ' ') && strchr(", ", at[length]) &&
	    strcmp(value, "or") != 0)
		return 0;
	return refuse(flag, value, expected, err);
}

/* Flags of `peer`. */
static int take_of_peer(struct mk_cli_options *options, const struct mk_cli_flag_text *flag,
			const char *value, struct mk_error *err)
{
	switch (flag->flag) {
	case MK_CLI_CLUSTER:
		return take_word(&options->cluster, flag, value, err);
	case MK_CLI_KUBECONFIG:
		return take_word(&options->kubeconfig, flag, value, err);
	case MK_CLI_TIMEOUT:
		return take_number(&options->timeout, flag, value, err);
	case MK_CLI_SERVER:
	case MK_CLI_SERVER_OF:
		return take_server(options, flag, value, err);
	case MK_CLI_ACCESS:
		return take_choice(&options->access, "Exports, Pods or None", flag, value, err);
	case MK_CLI_ACCEPT:
		return take_choice(&options->accept, "Transit, Direct or None", flag, value, err);
	case MK_CLI_RELAY:
	case MK_CLI_HUB:
		options->relay = 1;
		return 0;
	case MK_CLI_INBOX:
		options->inbox = 1;
		return 0;
	case MK_CLI_DRY_RUN:
		options->dry_run = 1;
	}
	return 0;
}

/* Filters of `monitor`, and packets of `trace`. */
static int take_filter(struct mk_cli_options *options, const struct mk_cli_flag_text *flag,
		       const char *value, struct mk_error *err)
{
	switch (flag->flag) {
	case MK_CLI_POD:
		return take_word(&options->pod, flag, value, err);
	case MK_CLI_SERVICE:
		return take_word(&options->service, flag, value, err);
	case MK_CLI_IP:
		return take_word(&options->ip, flag, value, err);
	case MK_CLI_HEADERS:
		return take_word(&options->headers, flag, value, err);
	case MK_CLI_NEIGHBOUR:
		return take_word(&options->neighbour, flag, value, err);
	case MK_CLI_PORT:
		options->port = mk_cli_port_parse(value);
		return options->port ? 0 : refuse(flag, value, "1 to 65535", err);
	case MK_CLI_DROPS:
		options->drops = 1;
		return 0;
	case MK_CLI_SAMPLE:
		return take_number(&options->sample, flag, value, err);
	case MK_CLI_COUNT:
		return take_number(&options->count, flag, value, err);
	}
	return take_of_peer(options, flag, value, err);
}

static int take_value(struct mk_cli_options *options, const struct mk_cli_flag_text *flag,
		      const char *value, struct mk_error *err)
{
	switch (flag->flag) {
	case MK_CLI_FOLLOW:
		options->follow = 1;
		return 0;
	case MK_CLI_HOST:
		options->host = 1;
		return 0;
	case MK_CLI_JSON:
		options->json = 1;
		return strcmp(value, "json") == 0 ? 0 : refuse(flag, value, "json", err);
	case MK_CLI_PROTOCOL:
		options->protocol = mk_cli_protocol_parse(value);
		return options->protocol ? 0 : refuse(flag, value, flag->help, err);
	case MK_CLI_SOURCE_PORT:
		options->source_port = mk_cli_port_parse(value);
		return options->source_port ? 0 : refuse(flag, value, "1 to 65535", err);
	case MK_CLI_LIMIT:
		return take_number(&options->limit, flag, value, err);
	case MK_CLI_FILE:
		options->file = value;
		return *value ? 0 : refuse(flag, value, "a file's name", err);
	case MK_CLI_STATE_DIR:
		if (*value == '\0' || snprintf(options->state_dir, PATH_MAX, "%s", value) >=
					      (int)sizeof(options->state_dir))
			return refuse(flag, value, "a directory", err);
		return 0;
	}
	return take_filter(options, flag, value, err);
}

static int unknown_flag(const struct mk_cli_command *command, const char *word,
			struct mk_error *err)
{
	struct mk_nearest nearest = { .word = word };

	for (size_t i = 0; i < mk_cli_flag_count; i++)
		if (mk_cli_flags[i].flag & command->flags)
			(void)mk_nearest_see(&nearest, mk_cli_flags[i].name);
	return mk_error_set(
		err, EINVAL,
		"unknown flag '%s':%s%s%s expected one of those that `monokube %s --help` lists",
		word, nearest.found ? " did you mean " : "", nearest.found ? nearest.found : "",
		nearest.found ? "?" : "", command->name);
}

static int read_flag(struct mk_cli_options *options, const struct mk_cli_command *command, int argc,
		     char **argv, int *i, struct mk_error *err)
{
	for (size_t j = 0; j < mk_cli_flag_count; j++) {
		const struct mk_cli_flag_text *flag = &mk_cli_flags[j];
		const char *value = "";

		if (!(flag->flag & command->flags))
			continue;
		if (*flag->value)
			value = option_value(flag->name, argc, argv, i);
		else if (strcmp(argv[*i], flag->name) != 0)
			value = NULL;
		if (!value)
			continue;
		options->given |= flag->flag;
		return take_value(options, flag, value, err);
	}
	return unknown_flag(command, argv[*i], err);
}

static int read_word(struct mk_cli_options *options, const struct mk_cli_command *command, int argc,
		     char **argv, int *i, struct mk_error *err)
{
	if (strcmp(argv[*i], "--help") == 0 || strcmp(argv[*i], "-h") == 0)
		return 1;
	if (argv[*i][0] == '-')
		return read_flag(options, command, argc, argv, i, err);
	if (options->word_count == command->words_max)
		return mk_error_set(err, EINVAL, "unexpected argument '%s': usage: monokube %s %s",
				    argv[*i], command->name, command->words);
	options->words[options->word_count++] = argv[*i];
	return 0;
}

static int add_family(struct mk_cli_options *options, sa_family_t family, struct mk_error *err)
{
	struct mk_cli_family *added = &options->families[options->family_count++];

	added->family = family;
	return mk_pin_dir(added->dir, options->bpf_dir, family, err);
}

/* -4 and -6 together are the default. */
static bool is_wanted(const struct mk_cli_options *options, sa_family_t family)
{
	unsigned int given = options->given & (MK_CLI_IPV4 | MK_CLI_IPV6);

	return !given || given & (family == AF_INET6 ? MK_CLI_IPV6 : MK_CLI_IPV4);
}

static int find_families(struct mk_cli_options *options, const struct mk_record *record,
			 struct mk_error *err)
{
	const bool ipv6_first = strchr(record->cluster_cidr, ':') != NULL;
	const sa_family_t families[] = { ipv6_first ? AF_INET6 : AF_INET,
					 ipv6_first ? AF_INET : AF_INET6 };
	bool loaded = false;
	int ret = 0;

	options->primary = families[0];
	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++) {
		if (!mk_pin_has(options->bpf_dir, families[i]))
			continue;
		loaded = true;
		if (is_wanted(options, families[i]))
			ret = add_family(options, families[i], err);
	}
	if (ret < 0 || options->family_count)
		return ret;
	if (loaded)
		return mk_error_set(err, ENOENT, "flag %s: this node runs only the other family",
				    options->given & MK_CLI_IPV6 ? "-6" : "-4");
	return add_family(options, AF_INET, err);
}

static int read_record(struct mk_cli_options *options, struct mk_error *err)
{
	struct mk_record record;
	int ret = mk_record_read(options->state_dir, &record, err);

	if (ret < 0)
		return ret;
	snprintf(options->source, sizeof(options->source), "%s", record.source);
	snprintf(options->bpf_dir, sizeof(options->bpf_dir), "%s", record.bpf_dir);
	return find_families(options, &record, err);
}

int mk_cli_options_read(struct mk_cli_options *options, int argc, char **argv, struct mk_error *err)
{
	const struct mk_cli_command *command = cli_command_find(argv[0]);
	int ret = 0;

	*options = (struct mk_cli_options){ .state_dir = MK_STATE_DIR,
					    .limit = MK_CLI_LINES,
					    .timeout = MK_CLI_TIMEOUT_S };
	if (!command)
		return mk_error_set(err, EINVAL, "no subcommand '%s'", argv[0]);
	for (int i = 1; ret == 0 && i < argc; i++)
		ret = read_word(options, command, argc, argv, &i, err);
	if (ret > 0)
		cli_print_command_help(stdout, command);
	if (ret == 0 && options->word_count < command->words_min)
		ret = mk_error_set(err, EINVAL, "usage: monokube %s %s", command->name,
				   command->words);
	return ret ? ret : read_record(options, err);
}

/* The word after the first word of a group. */
static int unknown_of_group(const char *group, const char *word)
{
	if (word)
		fprintf(stderr, "monokube %s: unknown subcommand '%s'", group, word);
	else
		fprintf(stderr, "monokube %s: the subcommand is missing", group);
	fprintf(stderr, "; `monokube help %s` lists all\n", group);
	return 2;
}

int cli_unknown_command(int count, char **words)
{
	struct mk_nearest nearest = { .word = words[0] };

	if (cli_is_group(words[0]))
		return unknown_of_group(words[0], count > 1 ? words[1] : NULL);
	for (size_t i = 0; i < mk_cli_command_count; i++)
		(void)mk_nearest_see(&nearest, mk_cli_commands[i].name);
	fprintf(stderr, "monokube: unknown subcommand '%s'", words[0]);
	if (nearest.found)
		fprintf(stderr, ", did you mean '%s'?\n", nearest.found);
	else
		fprintf(stderr, "; `monokube help` lists all\n");
	return 2;
}

/* Flush standard output. Returns @status, or 1 if it was 0 and something could not be written: a
 * full disk, a reader that went away. */
static int cli_end(const char *subcommand, int status)
{
	bool failed = ferror(stdout) != 0;

	errno = 0;
	failed |= fflush(stdout) != 0;
	if (!failed)
		return status;
	fprintf(stderr, "monokube %s: cannot write to standard output%s%s\n", subcommand,
		errno ? ": " : "", errno ? strerror(errno) : "");
	return status ? status : 1;
}

/* A subcommand of two words gets both as its argv[0]. */
static int run(const struct mk_cli_command *command, int argc, char **argv)
{
	if (strchr(command->name, ' ')) {
		argc--;
		argv++;
	}
	argv[0] = (char *)(uintptr_t)command->name;
	mk_locks_wait_at_most(LOCK_WAIT_S * MK_NS_PER_S);
	return cli_end(command->name, command->run(argc, argv));
}

static bool asks_for_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

int mk_cli_main(int argc, char **argv)
{
	char *help[] = { (char *)(uintptr_t) "help", NULL };
	const struct mk_cli_command *command;

	if (argc < 2)
		return run(cli_command_find("help"), 1, help);
	if (asks_for_help(argv[1]))
		return run(cli_command_find("help"), argc - 1, argv + 1);
	if (strcmp(argv[1], "--version") == 0)
		return run(cli_command_find("version"), argc - 1, argv + 1);
	command = cli_command_of(argc - 1, argv + 1);
	if (command)
		return run(command, argc - 1, argv + 1);
	if (argc > 2 && asks_for_help(argv[2]) && cli_is_group(argv[1])) {
		cli_print_group_help(stdout, argv[1]);
		return cli_end(argv[1], 0);
	}
	return cli_unknown_command(argc - 1, argv + 1);
}

// SPDX-License-Identifier: Apache-2.0
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "monokube/version.h"
#include "agent/agent.h"
#include "base/cleanup.h"
#include "config/config.h"
#include "overlay/record.h"

static int version(int argc, char **argv);
static int help(int argc, char **argv);

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} subcommands[] = {
	{ "agent", mk_agent_main,
	  "follow the cluster and keep this node's network (agent --help)" },
	{ "status", mk_cli_status, "what is loaded and attached, how full the tables are" },
	{ "drops", mk_cli_drops, "packets not forwarded, by reason; --follow: one by one" },
	{ "services", mk_cli_services,
	  "Services in the tables: addresses, backends, counters, drops; [NAME] [-o json]" },
	{ "cleanup", mk_cli_cleanup,
	  "remove everything monokube has made on this host (--host: from a container)" },
	{ "probe", mk_cli_probe, "does this kernel take the BPF programs? changes nothing" },
	{ "prepare", mk_cli_prepare, "mount a BPF file system on this host, if there is none" },
	{ "version", version, "print the version" },
	{ "help", help, "this list" },
};

static int version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	printf("monokube %s\n", MONOKUBE_VERSION);
	return 0;
}

static void print_help(FILE *out)
{
	fprintf(out, "usage: monokube SUBCOMMAND [flags]\n\n");
	for (size_t i = 0; i < MK_ARRAY_SIZE(subcommands); i++)
		fprintf(out, "  %-8s  %s\n", subcommands[i].name, subcommands[i].help);
	fprintf(out, "\nWith CNI_COMMAND in the environment it is a CNI plugin. status, drops, "
		     "services\n"
		     "and cleanup take --state-dir DIR (default " MK_STATE_DIR ").\n");
}

static int help(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	print_help(stdout);
	return 0;
}

int mk_cli_fail(const char *subcommand, const struct mk_error *err)
{
	fprintf(stderr, "monokube %s: %s\n", subcommand, mk_error_text(err));
	return 1;
}

/* "--name value" or "--name=value" at argv[*i]; NULL if it is another word. */
static const char *option_value(const char *name, int argc, char **argv, int *i)
{
	size_t length = strlen(name);

	if (strncmp(argv[*i], name, length) != 0)
		return NULL;
	if (argv[*i][length] == '=')
		return argv[*i] + length + 1;
	if (argv[*i][length] != '\0')
		return NULL;
	return *i + 1 < argc ? argv[++*i] : "";
}

/* NAME or -o json */
static int read_services_word(struct mk_cli_options *options, int argc, char **argv, int *i,
			      struct mk_error *err)
{
	const char *word = argv[*i], *format;

	if (*word == '-') {
		format = word[2] ? word + 2 : *i + 1 < argc ? argv[++*i] : "";
		if (strcmp(format, "json") != 0)
			return mk_error_set(err, EINVAL, "flag -o: value '%s', expected json",
					    format);
		options->json = 1;
		return 0;
	}
	if (options->name[0])
		return mk_error_set(err, EINVAL, "unexpected argument '%s': '%s' is named already",
				    word, options->name);
	if (snprintf(options->name, sizeof(options->name), "%s", word) >=
	    (int)sizeof(options->name))
		return mk_error_set(err, EINVAL, "name '%s' is too long for a Service's", word);
	return 0;
}

static int read_option(struct mk_cli_options *options, int argc, char **argv, int *i,
		       struct mk_error *err)
{
	const char *word = argv[*i], *value;

	if (strcmp(word, "--help") == 0)
		return 1;
	if (strcmp(word, "--follow") == 0 && strcmp(argv[0], "drops") == 0) {
		options->follow = 1;
		return 0;
	}
	if (strcmp(word, "--host") == 0 && strcmp(argv[0], "cleanup") == 0) {
		options->host = 1;
		return 0;
	}
	if (strcmp(argv[0], "services") == 0 && *word != '\0' &&
	    (*word != '-' || strncmp(word, "-o", 2) == 0))
		return read_services_word(options, argc, argv, i, err);
	value = option_value("--state-dir", argc, argv, i);
	if (!value)
		return mk_error_set(err, EINVAL, "unknown flag '%s': expected --state-dir DIR%s%s",
				    word, strcmp(argv[0], "drops") == 0 ? " or --follow" : "",
				    strcmp(argv[0], "cleanup") == 0 ? " or --host" : "");
	if (*value == '\0' ||
	    snprintf(options->state_dir, PATH_MAX, "%s", value) >= (int)sizeof(options->state_dir))
		return mk_error_set(err, EINVAL,
				    "flag --state-dir: value '%s', expected a directory", value);
	return 0;
}

int mk_cli_options_read(struct mk_cli_options *options, int argc, char **argv, struct mk_error *err)
{
	struct mk_record record;
	int ret = 0;

	*options = (struct mk_cli_options){ .state_dir = MK_STATE_DIR };
	for (int i = 1; ret == 0 && i < argc; i++)
		ret = read_option(options, argc, argv, &i, err);
	if (ret > 0)
		print_help(stdout);
	if (ret == 0)
		ret = mk_record_read(options->state_dir, &record, err);
	if (ret == 0) {
		snprintf(options->bpf_dir, sizeof(options->bpf_dir), "%s", record.bpf_dir);
		snprintf(options->source, sizeof(options->source), "%s", record.source);
	}
	return ret;
}

int mk_cli_main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "help";

	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
		word = "help";
	if (strcmp(word, "--version") == 0)
		word = "version";
	for (size_t i = 0; i < MK_ARRAY_SIZE(subcommands); i++)
		if (strcmp(word, subcommands[i].name) == 0)
			return subcommands[i].run(argc > 1 ? argc - 1 : argc,
						  argc > 1 ? argv + 1 : argv);
	fprintf(stderr, "monokube: unknown subcommand '%s'\n\n", word);
	print_help(stderr);
	return 2;
}

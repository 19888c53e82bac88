// SPDX-License-Identifier: Apache-2.0
/* Help, bash completion and the manual page, all from the table of subcommands. */
#include <string.h>

#include "monokube/version.h"
#include "cli/cli.h"
#include "cli/cli_internal.h"
#include "config/config.h"

static void print_usage(FILE *out, const struct mk_cli_command *command)
{
	fprintf(out, "monokube %s%s%s", command->name, *command->words ? " " : "", command->words);
	for (size_t i = 0; i < mk_cli_flag_count; i++)
		if (mk_cli_flags[i].flag & command->flags)
			fprintf(out, " [%s%s%s]", mk_cli_flags[i].name,
				*mk_cli_flags[i].value ? " " : "", mk_cli_flags[i].value);
}

void cli_print_command_help(FILE *out, const struct mk_cli_command *command)
{
	fprintf(out, "usage: ");
	print_usage(out, command);
	fprintf(out, "\n\n%s\n", command->help);
	for (size_t i = 0; i < mk_cli_flag_count; i++)
		if (mk_cli_flags[i].flag & command->flags)
			fprintf(out, "  %-13s %-5s  %s\n", mk_cli_flags[i].name,
				mk_cli_flags[i].value, mk_cli_flags[i].help);
}

static void print_command_line(FILE *out, const struct mk_cli_command *command)
{
	fprintf(out, "  %-12s  %s\n", command->name, command->help);
}

void cli_print_group_help(FILE *out, const char *word)
{
	fprintf(out, "usage: monokube %s SUBCOMMAND [flags]\n\n", word);
	for (size_t i = 0; i < mk_cli_command_count; i++)
		if (cli_is_in_group(&mk_cli_commands[i], word))
			print_command_line(out, &mk_cli_commands[i]);
}

void cli_print_help(FILE *out)
{
	fprintf(out, "usage: monokube SUBCOMMAND [flags]\n\n");
	for (size_t i = 0; i < mk_cli_command_count; i++)
		print_command_line(out, &mk_cli_commands[i]);
	fprintf(out, "\nSUBCOMMAND --help lists its arguments and flags. With CNI_COMMAND in the\n"
		     "environment it is a CNI plugin. State directory: " MK_STATE_DIR ".\n");
}

/* ---- completion ------------------------------------------------------------------------------ */

/* The shell's pattern for @command: the first two words with a blank between. */
static void print_command_words(FILE *out, const struct mk_cli_command *command)
{
	fprintf(out, "\t'%s%s'*) words='--help", command->name,
		strchr(command->name, ' ') ? "" : " ");
	for (size_t i = 0; i < mk_cli_flag_count; i++)
		if (mk_cli_flags[i].flag & command->flags)
			fprintf(out, " %s", mk_cli_flags[i].name);
	fprintf(out, "' ;;\n");
}

static bool is_first_of_group(size_t index)
{
	const char *name = mk_cli_commands[index].name;
	size_t length = strcspn(name, " ");

	return index == 0 || strncmp(mk_cli_commands[index - 1].name, name, length + 1) != 0;
}

/* The first words of all commands, and for each group its second words. */
static void print_completed_commands(FILE *out)
{
	fprintf(out, "\t((COMP_CWORD > 1)) || words='");
	for (size_t i = 0; i < mk_cli_command_count; i++)
		if (is_first_of_group(i))
			fprintf(out, "%s%.*s", i ? " " : "",
				(int)strcspn(mk_cli_commands[i].name, " "),
				mk_cli_commands[i].name);
	fprintf(out, "'\n");
	for (size_t i = 0; i < mk_cli_command_count; i++) {
		const char *name = mk_cli_commands[i].name, *second = strchr(name, ' ');

		if (second)
			fprintf(out,
				"\t((COMP_CWORD == 2)) && [[ ${COMP_WORDS[1]} == %.*s ]] && words+=' %s'\n",
				(int)(second - name), name, second + 1);
	}
}

void cli_print_bash_completion(FILE *out)
{
	fprintf(out,
		"# bash completion for monokube\n_monokube()\n{\n"
		"\tlocal words='' current=${COMP_WORDS[COMP_CWORD]}\n"
		"\tcase ${COMP_WORDS[COMP_CWORD - 1]} in\n"
		"\t-o) COMPREPLY=($(compgen -W json -- \"$current\")); return ;;\n"
		"\t--protocol) COMPREPLY=($(compgen -W 'tcp udp sctp icmp' -- \"$current\")); return ;;\n"
		"\t--access) COMPREPLY=($(compgen -W 'Exports Pods None' -- \"$current\")); return ;;\n"
		"\t--accept) COMPREPLY=($(compgen -W 'Transit Direct None' -- \"$current\")); return ;;\n"
		"\t--state-dir) COMPREPLY=($(compgen -d -- \"$current\")); return ;;\n"
		"\t--file | --kubeconfig) COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n"
		"\tesac\n\tcase \"${COMP_WORDS[1]} ${COMP_WORDS[2]} \" in\n");
	for (size_t i = 0; i < mk_cli_command_count; i++)
		print_command_words(out, &mk_cli_commands[i]);
	fprintf(out, "\tesac\n");
	print_completed_commands(out);
	fprintf(out, "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n}\n"
		     "complete -F _monokube monokube\n");
}

int cli_completion(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	cli_print_bash_completion(stdout);
	return 0;
}

/* ---- manual page ----------------------------------------------------------------------------- */

/* Escape hyphens, at which roff breaks lines. @text must not begin with a dot, which starts a
 * request. */
static void print_roff(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '-')
			fputc('\\', out);
		fputc(*text, out);
	}
}

static void print_manual_command(FILE *out, const struct mk_cli_command *command)
{
	fprintf(out, ".TP\n.B %s\n.RI ", command->name);
	print_roff(out, command->words);
	fprintf(out, "\n.br\n");
	print_roff(out, command->help);
	fputc('\n', out);
	for (size_t i = 0; i < mk_cli_flag_count; i++) {
		const struct mk_cli_flag_text *flag = &mk_cli_flags[i];

		if (!(flag->flag & command->flags))
			continue;
		fprintf(out, ".br\n.B ");
		print_roff(out, flag->name);
		fprintf(out, "\n%s%s", flag->value, *flag->value ? ": " : "");
		print_roff(out, flag->help);
		fputc('\n', out);
	}
}

static void print_manual_settings(FILE *out)
{
	struct mk_setting setting;

	fprintf(out,
		".SH CONFIGURATION\nFlags of\n.BR \"monokube agent\" ,\nwith the environment variable of each, a key of the ConfigMap.\n");
	for (size_t i = 0; mk_config_setting(i, &setting); i++) {
		fprintf(out, ".TP\n\\fB\\-\\-");
		print_roff(out, setting.flag);
		fprintf(out, "\\fR \\fI%s\\fR%s%s%s\n", setting.value, setting.key ? " (" : "",
			setting.key ? setting.key : "", setting.key ? ")" : "");
		print_roff(out, setting.help);
		fprintf(out, ".\n.br\nValue: ");
		print_roff(out, setting.expected);
		fprintf(out, setting.fallback ? "; default: " : "; required");
		print_roff(out, !setting.fallback   ? ""
				: *setting.fallback ? setting.fallback
						    : "none");
		fprintf(out, ".\n");
	}
}

void cli_print_manual(FILE *out)
{
	fprintf(out,
		".TH MONOKUBE 8 \"\" \"monokube %s\"\n.SH NAME\n"
		"monokube \\- network of a Kubernetes node\n.SH SYNOPSIS\n.B monokube\n"
		".I SUBCOMMAND\n[flags]\n.SH DESCRIPTION\n"
		"CNI plugin, overlay, Service load balancing and source NAT of a node, by eBPF programs. Subcommands that show something read pinned tables, netlink and state files, and work with the agent running or not.\n.SH SUBCOMMANDS\n",
		MONOKUBE_VERSION);
	for (size_t i = 0; i < mk_cli_command_count; i++)
		print_manual_command(out, &mk_cli_commands[i]);
	print_manual_settings(out);
	fprintf(out,
		".SH EXIT STATUS\n0; 1 if it failed, or found something wrong; 2 if there is no such subcommand; 3 if the packet of\n.B trace\ndoes not arrive.\n"
		".SH FILES\n.TP\n" MK_STATE_DIR
		"\nstate\n.TP\n/sys/fs/bpf/monokube\npinned tables and programs\n");
}

int cli_manual(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	cli_print_manual(stdout);
	return 0;
}

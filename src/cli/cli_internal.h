/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/cli_internal.h - functions that only this folder uses. */
#ifndef MK_CLI_CLI_INTERNAL_H
#define MK_CLI_CLI_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/cli.h"
#include "cli/print.h"
#include "base/error.h"
#include "base/ip.h"

int cli_bugreport(int argc, char **argv);

int cli_cleanup(int argc, char **argv);

int cli_completion(int argc, char **argv);

int cli_health(int argc, char **argv);

int cli_manual(int argc, char **argv);

int cli_prepare(int argc, char **argv);

int cli_probe(int argc, char **argv);

/* NULL: no such subcommand. */
const struct mk_cli_command *cli_command_find(const char *name);

/* Find the subcommand that @words begin with, of one word or of two. NULL: none. */
const struct mk_cli_command *cli_command_of(int count, char **words);

/* Is @word the first word of subcommands of two words, such as "peer"? Of @command? */
bool cli_is_group(const char *word);
bool cli_is_in_group(const struct mk_cli_command *command, const char *word);

/* Print the unknown subcommand and the most similar one. Returns the exit status. */
int cli_unknown_command(int count, char **words);

void cli_print_help(FILE *out);

/* The part of the list whose first word is @word. */
void cli_print_group_help(FILE *out, const char *word);

void cli_print_command_help(FILE *out, const struct mk_cli_command *command);

void cli_print_bash_completion(FILE *out);

void cli_print_manual(FILE *out);

/* HTTP requests to the agent, like those of the kubelet and Prometheus. */

/* GET @path at @at, or at 127.0.0.1 if @at is 0.0.0.0. Returns the HTTP status. The caller frees
 * *@body, which ends in a NUL that *@size does not count. */
mk_must_check int cli_ask(const struct mk_ip_port *at, const char *path, char **body, size_t *size,
			  struct mk_error *err);

#endif

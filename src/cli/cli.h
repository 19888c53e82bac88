/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/cli.h - what the binary can do besides being an agent or a CNI plugin. Each function
 * gets its own argv (argv[0] is the subcommand) and returns the exit status. */
#ifndef MK_CLI_CLI_H
#define MK_CLI_CLI_H

#include <limits.h>

#include "base/error.h"

/* Look at argv[1] and go there. */
int mk_cli_main(int argc, char **argv);

int mk_cli_cleanup(int argc, char **argv);
int mk_cli_drops(int argc, char **argv);
int mk_cli_services(int argc, char **argv);
int mk_cli_status(int argc, char **argv);
int mk_cli_probe(int argc, char **argv);
int mk_cli_prepare(int argc, char **argv);

/* Options that the subcommands share. */
struct mk_cli_options {
	char state_dir[PATH_MAX];
	char bpf_dir[PATH_MAX]; /* as the agent wrote down, if it did */
	char source[PATH_MAX]; /* what the agent follows, in words */
	int follow; /* drops --follow */
	int json; /* services -o json */
	char name[512]; /* services NAME; empty: all */
	int host; /* cleanup --host: in the namespaces of process 1 */
};
/* Returns 0; 1 after --help; or an error that names the word. */
mk_must_check int mk_cli_options_read(struct mk_cli_options *options, int argc, char **argv,
				      struct mk_error *err);
/* Print @err and return the exit status for it. */
int mk_cli_fail(const char *subcommand, const struct mk_error *err);

#endif

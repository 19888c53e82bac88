/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/cli_fixture.h - run subcommands on the node of datapath_fixture.h. */
#ifndef MK_TEST_CLI_FIXTURE_H
#define MK_TEST_CLI_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>

/* A line of `check` that begins with "ok" must not look like a result of this test. */
const char *cli_one_line(char *text);
/* Run a subcommand with its words, and return what it prints, to be freed. */
char *cli_output_any(int *status, const char *const *words);
/* ... if it ends with @status. */
char *cli_output(int status, const char *const *words);
/* Does the output have @part? */
void cli_check(bool has, int status, const char *part, const char *const *words);
#define check_output(status, part, ...) \
	cli_check(true, status, part, (const char *const[]){ __VA_ARGS__, NULL })
#define check_output_lacks(status, part, ...) \
	cli_check(false, status, part, (const char *const[]){ __VA_ARGS__, NULL })

/* For tests of policies: datapath_fixture.h's node with pods of 10.244.1.0/24, attached, with
 * routes and what the agent remembers. */
struct mk_datapath *cli_node(void);
/* Write a row of a pinned table. */
void cli_put(const char *table, const void *key, size_t key_size, const void *value,
	     size_t value_size);
/* A pod named "namespace/name" behind @ifindex; and its program. */
void cli_put_pod(const char *address, int ifindex, const char *name);
void cli_attach_pod(int ifindex);

#endif

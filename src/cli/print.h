/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/print.h - lists for people and for programs, from one source: a subcommand collects an
 * array of JSON objects; the text form is a table of some of their members.
 *
 * A failed allocation gives NULL, which json-c takes for null. A member is added completely or not
 * at all, and mk_cli_print_json() reports the error. */
#ifndef MK_CLI_PRINT_H
#define MK_CLI_PRINT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "monokube/abi.h"
#include "base/error.h"
#include "base/json.h"

void mk_put_addr(struct json_object *to, const char *key, const struct mk_addr *addr);
void mk_add_text(struct json_object *list, const char *value);
void mk_add_addr(struct json_object *list, const struct mk_addr *addr);
void mk_put_mac(struct json_object *to, const char *key, const __u8 *mac);
/* "TCP" and the like; a number if the protocol has no name here. */
const char *mk_cli_protocol_name(unsigned int protocol, char buf[16]);
/* "10.0.0.1:80" into @buf; returns it. Port 0: only the address. */
#define MK_ENDPOINT_STRLEN 56
const char *mk_cli_endpoint(const struct mk_addr *addr, __be16 port, char *buf);

struct mk_cli_column {
	const char *title;
	const char *key; /* member of each object: text, number, boolean, array of these */
};
/* One line per object of @list, columns as wide as they need to be. null is "-". */
void mk_cli_print_table(FILE *out, struct json_object *list, const struct mk_cli_column *columns,
			size_t count);
mk_must_check int mk_cli_print_json(FILE *out, struct json_object *value, struct mk_error *err);
/* Print as JSON or as a table. */
mk_must_check int mk_cli_print_list(FILE *out, struct json_object *list, bool json,
				    const struct mk_cli_column *columns, size_t count,
				    struct mk_error *err);

#endif

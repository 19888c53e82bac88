// SPDX-License-Identifier: Apache-2.0
#include "cli/print.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <string.h>

#include "base/ip.h"
#include "cli/cli_internal.h"

void mk_put_addr(struct json_object *to, const char *key, const struct mk_addr *addr)
{
	struct mk_ip ip = mk_ip_from_addr(addr);
	char text[MK_IP_STRLEN];

	mk_put_text(to, key, mk_ip_format(&ip, text));
}

void mk_add_text(struct json_object *list, const char *value)
{
	json_object_array_add(list, json_object_new_string(value));
}

void mk_add_addr(struct json_object *list, const struct mk_addr *addr)
{
	struct mk_ip ip = mk_ip_from_addr(addr);
	char text[MK_IP_STRLEN];

	mk_add_text(list, mk_ip_format(&ip, text));
}

void mk_put_mac(struct json_object *to, const char *key, const __u8 *mac)
{
	struct mk_mac copy;
	char text[MK_MAC_STRLEN];

	memcpy(copy.byte, mac, sizeof(copy.byte));
	mk_put_text(to, key, mk_mac_format(&copy, text));
}

const char *mk_cli_protocol_name(unsigned int protocol, char buf[16])
{
	switch (protocol) {
	case IPPROTO_TCP:
		return "TCP";
	case IPPROTO_UDP:
		return "UDP";
	case IPPROTO_SCTP:
		return "SCTP";
	case IPPROTO_ICMP:
		return "ICMP";
	case IPPROTO_ICMPV6:
		return "ICMPv6";
	}
	snprintf(buf, 16, "%u", protocol);
	return buf;
}

const char *mk_cli_endpoint(const struct mk_addr *addr, __be16 port, char *buf)
{
	const struct mk_ip_port at = { .ip = mk_ip_from_addr(addr), .port = ntohs(port) };

	return port ? mk_ip_port_format(&at, buf) : mk_ip_format(&at.ip, buf);
}

/* ---- text ------------------------------------------------------------------------------------ */

#define CELL_BYTES 512

static size_t append(char *cell, size_t used, const char *text)
{
	int more = snprintf(cell + used, CELL_BYTES - used, "%s%s", used ? "," : "", text);

	return more < 0 || used + (size_t)more >= CELL_BYTES ? CELL_BYTES - 1 : used + (size_t)more;
}

static const char *cell_of(struct json_object *row, const char *key, char cell[CELL_BYTES])
{
	struct json_object *value = json_object_object_get(row, key);
	size_t used = 0;

	cell[0] = '\0';
	if (json_object_is_type(value, json_type_array)) {
		for (size_t i = 0; i < json_object_array_length(value); i++)
			used = append(cell, used,
				      json_object_get_string(json_object_array_get_idx(value, i)));
	} else if (json_object_is_type(value, json_type_boolean)) {
		append(cell, 0, json_object_get_boolean(value) ? "yes" : "no");
	} else if (value) {
		append(cell, 0, json_object_get_string(value));
	}
	return *cell ? cell : "-";
}

static int width_of(struct json_object *list, const struct mk_cli_column *column)
{
	size_t width = strlen(column->title);
	char cell[CELL_BYTES];

	for (size_t i = 0; i < json_object_array_length(list); i++) {
		size_t length =
			strlen(cell_of(json_object_array_get_idx(list, i), column->key, cell));

		if (length > width)
			width = length;
	}
	return (int)width;
}

void mk_cli_print_table(FILE *out, struct json_object *list, const struct mk_cli_column *columns,
			size_t count)
{
	int width[16] = { 0 };
	char cell[CELL_BYTES];

	for (size_t i = 0; i + 1 < count; i++) /* nothing follows the last */
		width[i] = width_of(list, &columns[i]);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%-*s%s", width[i], columns[i].title, i + 1 < count ? "  " : "\n");
	for (size_t row = 0; row < json_object_array_length(list); row++)
		for (size_t i = 0; i < count; i++)
			fprintf(out, "%-*s%s", width[i],
				cell_of(json_object_array_get_idx(list, row), columns[i].key, cell),
				i + 1 < count ? "  " : "\n");
}

int mk_cli_print_json(FILE *out, struct json_object *value, struct mk_error *err)
{
	const char *text =
		value ? json_object_to_json_string_ext(
				value, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE)
		      : NULL;

	if (!text)
		return mk_error_errno(err, ENOMEM, "cannot write JSON");
	fprintf(out, "%s\n", text);
	return 0;
}

int mk_cli_print_list(FILE *out, struct json_object *list, bool json,
		      const struct mk_cli_column *columns, size_t count, struct mk_error *err)
{
	if (json)
		return mk_cli_print_json(out, list, err);
	mk_cli_print_table(out, list, columns, count);
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
/* Trees as YAML. A text that YAML 1.1 or 1.2 may take for something else is quoted as in JSON. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "cli/peer/peer.h"

#define INDENT 2

static void print_members(FILE *out, json_object *object, int indent, bool is_started);

static bool is_plain(const char *text)
{
	static const char *const words[] = { "true", "false", "null", "yes", "no",
					     "on",   "off",   "y",    "n" };

	if (!isalpha((unsigned char)*text))
		return false;
	for (size_t i = 0; i < MK_ARRAY_SIZE(words); i++)
		if (strcasecmp(text, words[i]) == 0)
			return false;
	for (; *text; text++)
		if (!isalnum((unsigned char)*text) && !strchr("._/-=", *text))
			return false;
	return true;
}

static void print_text(FILE *out, const char *text)
{
	json_object *quoted;

	if (is_plain(text)) {
		fputs(text, out);
		return;
	}
	quoted = json_object_new_string(text);
	fputs(json_object_to_json_string_ext(quoted, JSON_C_TO_STRING_NOSLASHESCAPE), out);
	json_object_put(quoted);
}

/* A list is a line for each entry, below its key. */
static void print_value(FILE *out, json_object *value, int indent)
{
	size_t count = mk_json_length(value);

	if (json_object_is_type(value, json_type_object) && json_object_object_length(value)) {
		fputc('\n', out);
		print_members(out, value, indent + INDENT, false);
		return;
	}
	if (count == 0) {
		fputc(' ', out);
		if (json_object_is_type(value, json_type_string))
			print_text(out, json_object_get_string(value));
		else
			fputs(json_object_to_json_string(value), out);
	}
	fputc('\n', out);
	for (size_t i = 0; i < count; i++) {
		fprintf(out, "%*s- ", indent, "");
		print_members(out, json_object_array_get_idx(value, i), indent + INDENT, true);
	}
}

/* @is_started: the first line already has its indentation. */
static void print_members(FILE *out, json_object *object, int indent, bool is_started)
{
	json_object_object_foreach(object, key, value)
	{
		fprintf(out, "%*s", is_started ? 0 : indent, "");
		print_text(out, key);
		fputc(':', out);
		print_value(out, value, indent);
		is_started = false;
	}
}

void yaml_print(FILE *out, json_object *object)
{
	fputs("---\n", out);
	print_members(out, object, 0, false);
}

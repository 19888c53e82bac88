// SPDX-License-Identifier: Apache-2.0
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

static int saved_stderr = -1;
static FILE *log_file;

#define UNIT_TURNS 4

/* Returns -1 if there are no turns. */
static int turn(void)
{
	const char *text = getenv("MK_UNIT_TURN");

	return text ? (int)(strtoul(text, NULL, 10) % UNIT_TURNS) : -1;
}

bool unit_is_due(unsigned int i)
{
	return turn() < 0 || i % UNIT_TURNS == (unsigned int)turn();
}

int unit_steps(int count, uint32_t *seed)
{
	if (turn() < 0)
		return count;
	*seed += (uint32_t)turn();
	return count / UNIT_TURNS;
}

void capture_log(void)
{
	log_file = tmpfile();
	saved_stderr = dup(STDERR_FILENO);
	ck_assert(log_file && saved_stderr >= 0);
	ck_assert_int_ge(dup2(fileno(log_file), STDERR_FILENO), 0);
}

const char *captured_log(void)
{
	static char text[8192];

	ck_assert_int_ge(dup2(saved_stderr, STDERR_FILENO), 0);
	close(saved_stderr);
	rewind(log_file);
	text[fread(text, 1, sizeof(text) - 1, log_file)] = '\0';
	fclose(log_file);
	return text;
}

/* ---- recorded exchanges ---- */

static char *after_head(char *text)
{
	char *end = strstr(text, "\r\n\r\n");

	ck_assert_ptr_nonnull(end);
	end[2] = '\0'; /* the head becomes a separate string */
	return end + 4;
}

static size_t header_number(const char *head, const char *name)
{
	const char *at = strcasestr(head, name);

	return at ? strtoul(at + strlen(name), NULL, 10) : 0;
}

/* Join the chunks in place. A recording may end before the last chunk. */
static size_t join_chunks(char *body, const char *end)
{
	char *in = body, *out = body;
	size_t size;

	while (in < end && (size = strtoul(in, &in, 16)) > 0) {
		in += 2;
		if (size > (size_t)(end - in))
			size = (size_t)(end - in);
		memmove(out, in, size);
		out += size;
		in += size + 2;
	}
	*out = '\0';
	return (size_t)(out - body);
}

char *recording_body(const char *name, size_t *size)
{
	cleanup_free char *file = NULL;
	char path[256], *response, *body, *copy;
	struct mk_error err;
	size_t file_size;

	snprintf(path, sizeof(path), "build/recordings/%s.http", name);
	ck_assert_msg(mk_file_read(path, 1 << 24, &file, &file_size, &err) == 0, "%s", err.text);
	response = after_head(file);
	response += header_number(file, "Content-Length: ");
	body = after_head(response);
	*size = (size_t)(file + file_size - body);
	if (strcasestr(response, "Transfer-Encoding: chunked"))
		*size = join_chunks(body, file + file_size);
	copy = malloc(*size + 1);
	ck_assert_ptr_nonnull(copy);
	memcpy(copy, body, *size);
	copy[*size] = '\0';
	return copy;
}

// SPDX-License-Identifier: Apache-2.0
/* A state machine over bytes: depth of brackets, and whether a string is open. The decoder checks
 * that brackets match. UTF-8 needs no care: a multi-byte character contains no ASCII byte. */
#include "cluster/watch/splitter.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define ITEMS "items"

struct buffer {
	char *data;
	size_t used, room;
};

struct mk_splitter {
	enum mk_splitter_mode mode;
	struct mk_splitter_handler handler;
	struct buffer object, document;
	unsigned int depth;
	bool in_string, escaped;
	bool in_items; /* within the brackets of `items`: depth 2 separates its elements */
	bool items_next; /* the next value is that of `items` */
	size_t key_start; /* in document: start of the last string at depth 1 */
	bool complete; /* the list is closed */
	bool failed;
};

struct mk_splitter *splitter_new(enum mk_splitter_mode mode,
				 const struct mk_splitter_handler *handler)
{
	struct mk_splitter *splitter = calloc(1, sizeof(*splitter));

	if (splitter) {
		splitter->mode = mode;
		splitter->handler = *handler;
	}
	return splitter;
}

void splitter_free(struct mk_splitter *splitter)
{
	if (!splitter)
		return;
	free(splitter->object.data);
	free(splitter->document.data);
	free(splitter);
}

static int append(struct buffer *buffer, const char *data, size_t size, struct mk_error *err)
{
	size_t room = buffer->room ? buffer->room : 4096;
	char *grown;

	if (size > MK_SPLITTER_MAX_OBJECT - buffer->used)
		return mk_error_set(err, EFBIG, "an object of more than %d MiB",
				    MK_SPLITTER_MAX_OBJECT >> 20);
	while (room < buffer->used + size)
		room *= 2;
	if (room != buffer->room) {
		grown = realloc(buffer->data, room);
		if (!grown)
			return mk_error_errno(err, ENOMEM, "buffer of %zu bytes for an object",
					      room);
		buffer->data = grown;
		buffer->room = room;
	}
	memcpy(buffer->data + buffer->used, data, size);
	buffer->used += size;
	return 0;
}

/* The depth at which objects begin: a list's items are inside two brackets. */
static unsigned int object_depth(const struct mk_splitter *splitter)
{
	return splitter->in_items ? 2 : 0;
}

/* Is the next byte part of an object that is handed over separately? */
static bool in_object(const struct mk_splitter *splitter)
{
	return (splitter->mode == MK_SPLIT_EVENTS || splitter->in_items) &&
	       splitter->depth > object_depth(splitter);
}

/* @start..@end is the last part of an object; the parts before it, if any, are in the buffer. */
static int hand_over(struct mk_splitter *splitter, const char *start, const char *end,
		     struct mk_error *err)
{
	struct buffer *buffer = &splitter->object;
	const char *text = start;
	size_t size = (size_t)(end - start);
	int ret;

	if (buffer->used > 0) {
		ret = append(buffer, start, size, err);
		if (ret < 0)
			return ret;
		text = buffer->data;
		size = buffer->used;
		buffer->used = 0; /* the memory is kept for the next object */
	}
	return splitter->handler.object(splitter->handler.ctx, text, size, err);
}

/* Skip a string. The loop keeps its state in local variables, which a byte cannot alias. */
static const char *skip_string(struct mk_splitter *splitter, const char *at, const char *end)
{
	if (splitter->escaped && at < end) {
		splitter->escaped = false;
		at++;
	}
	while (at < end && *at != '"') {
		if (*at++ != '\\')
			continue;
		if (at == end) {
			splitter->escaped = true;
			return end;
		}
		at++;
	}
	if (at == end)
		return end;
	splitter->in_string = false;
	return at + 1;
}

/* Skip the bytes of an object, to its end or the end of the piece. Returns where it stopped. */
static const char *skip_object(struct mk_splitter *splitter, const char *at, const char *end)
{
	unsigned int bottom = object_depth(splitter), depth = splitter->depth;

	if (splitter->in_string)
		at = skip_string(splitter, at, end);
	while (at < end && depth > bottom) {
		char byte = *at++;

		if (byte == '"') {
			splitter->in_string = true;
			at = skip_string(splitter, at, end);
		} else if (byte == '{' || byte == '[') {
			depth++;
		} else if (byte == '}' || byte == ']') {
			depth--;
		}
	}
	splitter->depth = depth;
	return at;
}

/* @start..@at has already been read. */
static int feed_object(struct mk_splitter *splitter, const char *start, const char **at,
		       const char *end, struct mk_error *err)
{
	*at = skip_object(splitter, *at, end);
	if (in_object(splitter)) /* the object continues in the next piece */
		return append(&splitter->object, start, (size_t)(*at - start), err);
	return hand_over(splitter, start, *at, err);
}

static int unexpected(char byte, const char *where, struct mk_error *err)
{
	return mk_error_set(err, EPROTO, "byte 0x%02x %s: expected an object, so this is not JSON",
			    (unsigned char)byte, where);
}

/* Read a byte between two events. A brace opens the next object and belongs to it. */
static int feed_gap(struct mk_splitter *splitter, const char **at, const char *end,
		    struct mk_error *err)
{
	const char *start = (*at)++;

	if (*start == '\n' || *start == '\r' || *start == ' ' || *start == '\t')
		return 0;
	if (*start != '{')
		return unexpected(*start, "between objects", err);
	splitter->depth++;
	return feed_object(splitter, start, at, end, err);
}

/* Read a byte between two items. */
static int feed_items_gap(struct mk_splitter *splitter, const char **at, const char *end,
			  struct mk_error *err)
{
	char byte = **at;

	if (byte == ']') {
		splitter->in_items = false;
		splitter->depth--;
		(*at)++;
		return append(&splitter->document, "]", 1, err);
	}
	if (byte == ',') {
		(*at)++;
		return 0;
	}
	return feed_gap(splitter, at, end, err);
}

static bool key_is_items(const struct mk_splitter *splitter)
{
	const struct buffer *document = &splitter->document;

	return document->used - splitter->key_start == strlen("\"" ITEMS) &&
	       memcmp(document->data + splitter->key_start, "\"" ITEMS, strlen("\"" ITEMS)) == 0;
}

/* Process a byte of the list outside its items and outside strings. */
static int step_document(struct mk_splitter *splitter, char byte, struct mk_error *err)
{
	switch (byte) {
	case '"':
		splitter->in_string = true;
		splitter->key_start = splitter->document.used;
		splitter->items_next = false;
		break;
	case '{':
	case '[':
		splitter->in_items = byte == '[' && splitter->items_next;
		splitter->items_next = false;
		splitter->depth++;
		break;
	case '}':
	case ']':
		if (splitter->depth == 0)
			return unexpected(byte, "at the start of a list", err);
		splitter->depth--;
		splitter->complete = splitter->depth == 0;
		break;
	default:
		if (splitter->depth == 0 && !strchr(" \r\n\t", byte))
			return unexpected(byte, "at the start of a list", err);
	}
	return 0;
}

static int feed_document(struct mk_splitter *splitter, const char **at, struct mk_error *err)
{
	char byte = *(*at)++;
	int ret = 0;

	if (splitter->complete)
		return strchr(" \r\n\t", byte) && byte ? 0 : unexpected(byte, "after a list", err);
	if (!splitter->in_string)
		ret = step_document(splitter, byte, err);
	else if (splitter->escaped)
		splitter->escaped = false;
	else if (byte == '\\')
		splitter->escaped = true;
	else if (byte == '"') {
		splitter->in_string = false;
		splitter->items_next = splitter->depth == 1 && key_is_items(splitter);
	}
	if (ret == 0)
		ret = append(&splitter->document, &byte, 1, err);
	if (ret == 0 && splitter->complete)
		ret = splitter->handler.document(splitter->handler.ctx, splitter->document.data,
						 splitter->document.used, err);
	return ret;
}

int splitter_feed(struct mk_splitter *splitter, const char *data, size_t size, struct mk_error *err)
{
	const char *at = data, *end = data + size;
	int ret = 0;

	if (splitter->failed)
		return mk_error_set(err, EPROTO, "more data after an error");
	while (ret >= 0 && at < end) {
		if (in_object(splitter))
			ret = feed_object(splitter, at, &at, end, err);
		else if (splitter->in_items)
			ret = feed_items_gap(splitter, &at, end, err);
		else if (splitter->mode == MK_SPLIT_EVENTS)
			ret = feed_gap(splitter, &at, end, err);
		else
			ret = feed_document(splitter, &at, err);
	}
	splitter->failed = ret < 0;
	return ret < 0 ? ret : 0;
}

int splitter_end(const struct mk_splitter *splitter, struct mk_error *err)
{
	if (splitter->mode == MK_SPLIT_LIST && !splitter->complete)
		return mk_error_set(err, EPROTO, "the answer ended in the middle of the list");
	if (splitter->depth > 0)
		return mk_error_set(err, EPROTO, "the answer ended in the middle of an object");
	return 0;
}

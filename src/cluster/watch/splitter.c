// SPDX-License-Identifier: Apache-2.0
#include "cluster/watch/splitter.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/watch/scan.h"

#define ITEMS "\"items\""

struct buffer {
	char *data;
	size_t used, room;
};

struct mk_splitter {
	enum mk_splitter_mode mode;
	struct mk_splitter_handler handler;
	struct buffer object, document;
	struct scan scan;
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
	       splitter->scan.depth > object_depth(splitter);
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

/* @start..@at has already been read. */
static int feed_object(struct mk_splitter *splitter, const char *start, const char **at,
		       const char *end, struct mk_error *err)
{
	*at = scan_brackets(&splitter->scan, *at, end, object_depth(splitter));
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

	if (is_space(*start))
		return 0;
	if (*start != '{')
		return unexpected(*start, "between objects", err);
	splitter->scan.depth++;
	return feed_object(splitter, start, at, end, err);
}

/* Read a byte between two items. */
static int feed_items_gap(struct mk_splitter *splitter, const char **at, const char *end,
			  struct mk_error *err)
{
	char byte = **at;

	if (byte == ']') {
		splitter->in_items = false;
		splitter->scan.depth--;
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

	return document->used - splitter->key_start == strlen(ITEMS) &&
	       memcmp(document->data + splitter->key_start, ITEMS, strlen(ITEMS)) == 0;
}

/* Process a byte of the list outside its items and outside strings. */
static int step_document(struct mk_splitter *splitter, char byte, struct mk_error *err)
{
	switch (byte) {
	case '"':
		splitter->scan.in_string = true;
		splitter->key_start = splitter->document.used;
		splitter->items_next = false;
		break;
	case '{':
	case '[':
		splitter->in_items = byte == '[' && splitter->items_next;
		splitter->items_next = false;
		splitter->scan.depth++;
		break;
	case '}':
	case ']':
		if (splitter->scan.depth == 0)
			return unexpected(byte, "at the start of a list", err);
		splitter->scan.depth--;
		splitter->complete = splitter->scan.depth == 0;
		break;
	default:
		if (splitter->scan.depth == 0 && !is_space(byte))
			return unexpected(byte, "at the start of a list", err);
	}
	return 0;
}

/* Read a byte of the list outside its items, or the rest of a string there. */
static int feed_document(struct mk_splitter *splitter, const char **at, const char *end,
			 struct mk_error *err)
{
	bool in_string = splitter->scan.in_string;
	const char *start = *at;
	int ret = 0;

	*at = in_string ? scan_string(&splitter->scan, start, end) : start + 1;
	if (splitter->complete)
		return is_space(*start) ? 0 : unexpected(*start, "after a list", err);
	if (!in_string)
		ret = step_document(splitter, *start, err);
	ret = ret ?: append(&splitter->document, start, (size_t)(*at - start), err);
	if (ret < 0)
		return ret;
	if (in_string && !splitter->scan.in_string)
		splitter->items_next = splitter->scan.depth == 1 && key_is_items(splitter);
	return !splitter->complete
		       ? 0
		       : splitter->handler.document(splitter->handler.ctx, splitter->document.data,
						    splitter->document.used, err);
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
			ret = feed_document(splitter, &at, end, err);
	}
	splitter->failed = ret < 0;
	return ret < 0 ? ret : 0;
}

int splitter_end(const struct mk_splitter *splitter, struct mk_error *err)
{
	if (splitter->mode == MK_SPLIT_LIST && !splitter->complete)
		return mk_error_set(err, EPROTO, "the answer ended in the middle of the list");
	if (splitter->scan.depth > 0)
		return mk_error_set(err, EPROTO, "the answer ended in the middle of an object");
	return 0;
}

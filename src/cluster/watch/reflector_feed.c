// SPDX-License-Identifier: Apache-2.0
/* The answers to one list or watch: objects, pages, bookmarks and errors. */
#include "cluster/watch/reflector_internal.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"

/* ---- texts ----------------------------------------------------------------------------------- */

void reflector_printable(char *text)
{
	char *end = text; /* behind the last character that is no space */

	for (; *text; text++) {
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = ' ';
		if (*text != ' ')
			end = text + 1;
	}
	*end = 0;
}

void reflector_status_message(const struct mk_reflector *reflector, char *text, size_t size)
{
	json_object *status = json_tokener_parse(reflector->status_text);
	json_object *message = mk_json_member(status, "message");

	snprintf(text, size, "%.*s", (int)size - 1,
		 message ? json_object_get_string(message) : reflector->status_text);
	json_object_put(status);
	reflector_printable(text);
}

/* ---- objects --------------------------------------------------------------------------------- */

/* Put the object's name in front of an error. The model's errors already have it. */
static int name_object(const struct mk_reflector *reflector, const struct mk_object_head *head,
		       struct mk_error *err)
{
	return mk_error_wrap(err, "%s %.*s%s%.*s", reflector->resource->kind,
			     (int)head->namespace_.size,
			     head->namespace_.text ? head->namespace_.text : "",
			     head->namespace_.size ? "/" : "", (int)head->name.size,
			     head->name.text ? head->name.text : "without name");
}

/* The version of the objects that the reflector reads now. */
static const char *version_read(const struct mk_reflector *reflector)
{
	const struct mk_resource *resource = reflector->resource;

	return reflector->older_version ? resource->older_api_version : resource->api_version;
}

static int apply(struct mk_reflector *reflector, struct mk_span object,
		 const struct mk_object_head *head, struct mk_error *err)
{
	const struct mk_resource *resource = reflector->resource;
	cleanup_json json_object *tree = NULL;
	int ret = decode_object(reflector->decoder, object, &tree, err);

	if (ret < 0)
		return name_object(reflector, head, err);
	ret = decode_complete(tree, version_read(reflector), resource->kind, err);
	return ret ?: reflector->sink.apply(reflector->sink.ctx, resource, tree, err);
}

/* A server that is not trusted has a limit: for the memory of its objects, and for objects without
 * a name, which nothing remembers. */
static int check_count(const struct mk_reflector *reflector, size_t count, struct mk_error *err)
{
	size_t max = reflector->resource->objects_max;

	if (!max || count <= max)
		return 0;
	return mk_error_set(err, E2BIG, "the server has more than %zu objects of kind %s", max,
			    reflector->resource->kind);
}

/* An invalid object costs a line in the log and affects nothing else. If the server is not trusted,
 * only the first one of a list costs a line, of another kind. So the limit of lines hides no line
 * about other servers. */
static void skip(struct mk_reflector *reflector, char *why)
{
	reflector->skipped++;
	reflector_printable(why);
	if (!reflector->resource->objects_max)
		mk_log_warn("skipped: %s", why);
	else if (reflector->skipped == 1)
		mk_log_warn("skipped: %s: %s", reflector->resource->name, why);
}

static int put_nameless(struct mk_reflector *reflector, struct mk_error *err)
{
	char why[MK_STATUS_CHARS];

	snprintf(why, sizeof(why), "%s without a name", reflector->resource->kind);
	skip(reflector, why);
	return check_count(reflector, ++reflector->nameless, err);
}

/* An invalid object counts as seen, so that its line comes once per version. */
static int put(struct mk_reflector *reflector, struct mk_span object, struct mk_object_head *head,
	       struct mk_error *err)
{
	struct mk_error why;
	int ret;

	if (!head->name.text || head->name.size == 0)
		return put_nameless(reflector, err);
	ret = seen_add(reflector->seen, head);
	if (ret < 0)
		return mk_error_errno(err, ENOMEM, "one more object");
	if (ret > 0)
		return 0;
	if (check_count(reflector, seen_count(reflector->seen), err) < 0) {
		seen_remove(reflector->seen, head);
		return -err->code;
	}
	ret = apply(reflector, object, head, &why);
	seen_set_usable(reflector->seen, head, ret == 0);
	if (ret < 0)
		skip(reflector, why.text);
	return 0;
}

static void take_away(struct mk_reflector *reflector, const struct mk_object_head *head)
{
	cleanup_free char *namespace_ = NULL, *name = NULL;

	if (!head->name.text)
		return;
	seen_remove(reflector->seen, head);
	namespace_ =
		strndup(head->namespace_.text ? head->namespace_.text : "", head->namespace_.size);
	name = strndup(head->name.text, head->name.size);
	if (namespace_ && name)
		reflector->sink.remove(reflector->sink.ctx, reflector->resource, namespace_, name);
}

/* ---- lists in pages -------------------------------------------------------------------------- */

static int list_item(void *ctx, const char *text, size_t size, struct mk_error *err)
{
	struct mk_reflector *reflector = ctx;
	struct mk_span object = { text, size };
	struct mk_object_head head;
	struct mk_error why;

	if (object_head_read(object, &head, &why) < 0) {
		(void)mk_error_wrap(&why, "%s", reflector->resource->kind);
		skip(reflector, why.text);
		return check_count(reflector, ++reflector->nameless, err);
	}
	return put(reflector, object, &head, err);
}

/* Check that the answer is the list. A proxy may answer 200 with its own object; used as a list, it
 * would remove everything. Servers before 1.27 write an empty list as null. */
static int check_list(const struct mk_reflector *reflector, json_object *tree, struct mk_error *err)
{
	const struct mk_resource *resource = reflector->resource;
	const char *kind = mk_json_text(tree, "kind"), *version = mk_json_text(tree, "apiVersion");
	size_t length = strlen(resource->kind);
	json_object *items;

	if (strncmp(kind, resource->kind, length) != 0 || strcmp(kind + length, "List") != 0 ||
	    strcmp(version, version_read(reflector)) != 0)
		return mk_error_set(err, EPROTO,
				    "the answer is a '%.64s %.64s', expected a '%s %sList': %.256s",
				    version, kind, version_read(reflector), resource->kind,
				    mk_json_text(tree, "message"));
	if (!json_object_object_get_ex(tree, "items", &items) ||
	    (items && !json_object_is_type(items, json_type_array)))
		return mk_error_set(
			err, EPROTO,
			"the list has no items: check which server answers at this address");
	return 0;
}

/* Read what surrounds the items: the token of the next page, and the list's version. */
static int read_document(struct mk_reflector *reflector, json_object *tree, struct mk_error *err)
{
	const char *version = mk_json_metadata(tree, "resourceVersion");
	const char *next = mk_json_metadata(tree, "continue");
	int ret = check_list(reflector, tree, err);

	if (ret < 0)
		return ret;
	free(reflector->continue_);
	reflector->continue_ = *next ? strdup(next) : NULL;
	if (*next && !reflector->continue_)
		ret = mk_error_errno(err, ENOMEM, "list");
	else if (!*version || strlen(version) >= MK_VERSION_CHARS)
		ret = mk_error_set(err, EPROTO, "the list has no resourceVersion");
	else
		strcpy(reflector->list_version, version);
	return ret;
}

static int list_document(void *ctx, const char *text, size_t size, struct mk_error *err)
{
	struct mk_reflector *reflector = ctx;
	cleanup_json json_object *tree = NULL;
	int ret = decode_object(reflector->decoder, (struct mk_span){ text, size }, &tree, err);

	return ret < 0 ? ret : read_document(reflector, tree, err);
}

/* ---- watches --------------------------------------------------------------------------------- */

/* Return the number in a version, 0 if it is not a number. */
static uint64_t number_of(const char *version)
{
	char *end;
	uint64_t number = strtoull(version, &end, 10);

	return *end ? 0 : number;
}

/* Let the next watch begin at this object's version. */
static void advance(struct mk_reflector *reflector, const struct mk_object_head *head)
{
	struct mk_span version = head->resource_version;

	if (!*reflector->version || version.size == 0 || version.size >= MK_VERSION_CHARS)
		return;
	memcpy(reflector->version, version.text, version.size);
	reflector->version[version.size] = '\0';
}

static int take_bookmark(struct mk_reflector *reflector, const struct mk_object_head *head,
			 struct mk_error *err)
{
	char version[MK_VERSION_CHARS];
	uint64_t now, before;

	if (head->resource_version.size == 0 || head->resource_version.size >= MK_VERSION_CHARS)
		return 0;
	snprintf(version, sizeof(version), "%.*s", (int)head->resource_version.size,
		 head->resource_version.text);
	now = number_of(version);
	before = number_of(reflector->version);
	if (now && now < before) { /* restored from a backup: it has another history */
		reflector->event_status = 410;
		return mk_error_set(err, ESTALE, "the server is at version %s, but was at %s",
				    version, reflector->version);
	}
	if (reflector->mode == MK_QUERY_STREAM && !*reflector->version &&
	    head->initial_events_end && head->kind.text)
		reflector_complete(reflector, version);
	advance(reflector, head);
	return 0;
}

static int take_error(struct mk_reflector *reflector, struct mk_span object, struct mk_error *err)
{
	cleanup_json json_object *tree = NULL;
	int64_t code, seconds;
	int ret = decode_object(reflector->decoder, object, &tree, err);

	if (ret < 0)
		return ret;
	code = mk_json_number(tree, "code");
	seconds = mk_json_number(mk_json_member(tree, "details"), "retryAfterSeconds");
	reflector->event_status = code > 0 && code <= INT_MAX ? (int)code : 500;
	if (seconds > 0)
		reflector->event_retry_after_s = (uint64_t)seconds;
	return mk_error_set(err, EPROTO, "the server ends the watch with error %d: %s",
			    reflector->event_status, mk_json_text(tree, "message"));
}

static int event(void *ctx, const char *text, size_t size, struct mk_error *err)
{
	struct mk_reflector *reflector = ctx;
	struct mk_watch_event event;
	struct mk_object_head head;
	int ret = watch_event_read(text, size, &event, err);

	if (ret < 0)
		return ret;
	if (span_is(event.type, "ERROR"))
		return take_error(reflector, event.object, err);
	ret = object_head_read(event.object, &head, err);
	if (ret < 0)
		return ret;
	if (head.kind.text && !span_is(head.kind, reflector->resource->kind))
		return mk_error_set(err, EPROTO, "an event about a '%.*s', expected a '%s'",
				    (int)(head.kind.size < 64 ? head.kind.size : 64),
				    head.kind.text, reflector->resource->kind);
	if (*reflector->version)
		reflector_heard(reflector);
	reflector->events++;
	if (span_is(event.type, "BOOKMARK"))
		return take_bookmark(reflector, &head, err);
	reflector->quiet = false;
	if (span_is(event.type, "ADDED") || span_is(event.type, "MODIFIED"))
		ret = put(reflector, event.object, &head, err);
	else if (span_is(event.type, "DELETED"))
		take_away(reflector, &head);
	else
		mk_log_debug("%s: event of unknown type '%.*s'", reflector->resource->name,
			     (int)event.type.size, event.type.text);
	if (ret == 0)
		advance(reflector, &head);
	return ret;
}

/* ---- answers --------------------------------------------------------------------------------- */

struct mk_splitter *reflector_splitter(struct mk_reflector *reflector)
{
	const struct mk_splitter_handler list = { list_item, list_document, reflector };
	const struct mk_splitter_handler watch = { event, NULL, reflector };

	if (reflector->mode == MK_QUERY_LIST)
		return splitter_new(MK_SPLIT_LIST, &list);
	return splitter_new(MK_SPLIT_EVENTS, &watch);
}

int reflector_data(void *ctx, int status, const char *data, size_t size, struct mk_error *err)
{
	struct mk_reflector *reflector = ctx;
	size_t room = sizeof(reflector->status_text) - 1 - reflector->status_size;

	if (status == 200) {
		reflector->contact_ms = uv_now(reflector->loop);
		return splitter_feed(reflector->splitter, data, size, err);
	}
	if (size > room)
		size = room;
	memcpy(reflector->status_text + reflector->status_size, data, size);
	reflector->status_size += size;
	reflector->status_text[reflector->status_size] = '\0';
	return 0;
}

static void gone(void *ctx, const char *namespace_, const char *name)
{
	struct mk_reflector *reflector = ctx;

	reflector->sink.remove(reflector->sink.ctx, reflector->resource, namespace_, name);
}

static void look_whether_gone(void *of, const char *namespace_, const char *name)
{
	const struct mk_object_head head = { .namespace_ = { namespace_, strlen(namespace_) },
					     .name = { name, strlen(name) } };
	const struct mk_reflector *reflector = of;

	if (seen_is_gone(reflector->seen, &head))
		gone(of, namespace_, name);
}

void reflector_remove_unseen(struct mk_reflector *reflector)
{
	const struct mk_reflector_sink *sink = &reflector->sink;

	if (sink->each)
		sink->each(sink->ctx, reflector->resource, look_whether_gone, reflector);
	seen_sweep(reflector->seen, gone, reflector);
}

void reflector_complete(struct mk_reflector *reflector, const char *version)
{
	strcpy(reflector->version, version);
	reflector_remove_unseen(reflector);
	if (!reflector->listed_once)
		mk_log_info("%s: %zu read from the API server, watching from version %s",
			    reflector->resource->name, seen_count(reflector->seen), version);
	if (reflector->resource->objects_max && reflector->skipped > 1)
		mk_log_warn("%s: %zu objects of the list were skipped: remove them there",
			    reflector->resource->name, reflector->skipped);
	reflector->listed_once = true;
	reflector->skipped = 0;
	reflector->nameless = 0;
	reflector->lists++;
	reflector->whole_list = false;
	reflector->rejected = 0;
	reflector->missing = 0;
	reflector->other_missing = false;
	reflector->absent = false;
	reflector->unproved = true;
	if (reflector->mode == MK_QUERY_STREAM) {
		mk_http_set_silence(reflector->transfer, reflector->watch_silence_ms);
		reflector_watching(reflector);
	}
	reflector->sink.listed(reflector->sink.ctx, reflector->resource);
}

// SPDX-License-Identifier: Apache-2.0
/* Turn libyaml's events, one by one, into json-c trees. */
#include "base/cleanup.h"
#include "cluster/files/files_internal.h"
#include "cluster/files/yaml_json.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <yaml.h>

/* The node that an anchor names. Aliases share the tree without a copy; @nodes counts for each. */
struct anchor {
	UT_hash_handle hh;
	json_object *tree;
	size_t nodes;
	char name[];
};

struct builder {
	yaml_parser_t parser;
	struct anchor *anchors; /* of the current document */
	size_t nodes;
	struct mk_error *err;
};

static int wrong(const struct builder *builder, const yaml_mark_t *mark, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int wrong(const struct builder *builder, const yaml_mark_t *mark, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return mk_error_set(builder->err, EINVAL, "line %zu, column %zu: %s", mark->line + 1,
			    mark->column + 1, text);
}

static int out_of_memory(const struct builder *builder)
{
	return mk_error_errno(builder->err, ENOMEM, "cannot parse");
}

static void cleanup_event_delete(yaml_event_t *event)
{
	yaml_event_delete(event);
}
#define cleanup_event __attribute__((cleanup(cleanup_event_delete)))

/* The problem is at problem_mark, except for bytes that are not text. */
static int parser_error(const struct builder *builder)
{
	const yaml_parser_t *parser = &builder->parser;
	const char *problem = parser->problem ? parser->problem : "not YAML";
	yaml_mark_t mark = parser->error == YAML_READER_ERROR ? parser->mark : parser->problem_mark;

	if (parser->error == YAML_MEMORY_ERROR)
		return out_of_memory(builder);
	if (parser->error == YAML_READER_ERROR)
		return wrong(builder, &mark, "%s near byte %zu of the file", problem,
			     parser->problem_offset);
	if (parser->context)
		return wrong(builder, &mark, "%s, %s (line %zu)", problem, parser->context,
			     parser->context_mark.line + 1);
	return wrong(builder, &mark, "%s", problem);
}

static int next_event(struct builder *builder, yaml_event_t *event)
{
	memset(event, 0, sizeof(*event));
	return yaml_parser_parse(&builder->parser, event) ? 0 : parser_error(builder);
}

/* ---- anchors --------------------------------------------------------------------------------- */

static void forget_anchors(struct builder *builder)
{
	struct anchor *anchor, *next;

	HASH_ITER(hh, builder->anchors, anchor, next) {
		HASH_DEL(builder->anchors, anchor);
		json_object_put(anchor->tree);
		free(anchor);
	}
}

/* An anchor's name may be reused; the later anchor counts. */
static int remember_anchor(struct builder *builder, const char *name, json_object *tree,
			   size_t nodes)
{
	struct anchor *anchor;

	HASH_FIND_STR(builder->anchors, name, anchor);
	if (!anchor) {
		anchor = calloc(1, sizeof(*anchor) + strlen(name) + 1);
		if (!anchor)
			return out_of_memory(builder);
		strcpy(anchor->name, name);
		HASH_ADD_STR(builder->anchors, name, anchor);
	}
	json_object_put(anchor->tree);
	anchor->tree = json_object_get(tree);
	anchor->nodes = nodes;
	return 0;
}

static int count_nodes(struct builder *builder, const yaml_mark_t *mark, size_t nodes)
{
	if (builder->nodes + nodes > MK_TREE_NODES_MAX)
		return wrong(builder, mark, "more than %d values, aliases counted each time",
			     MK_TREE_NODES_MAX);
	builder->nodes += nodes;
	return 0;
}

/* Anchors are stored only when their node is complete, so no tree contains itself. */
static int build_alias(struct builder *builder, const yaml_event_t *event, json_object **tree)
{
	const char *name = (const char *)event->data.alias.anchor;
	struct anchor *anchor;
	int ret;

	HASH_FIND_STR(builder->anchors, name, anchor);
	if (!anchor)
		return wrong(builder, &event->start_mark, "alias '*%s' has no anchor before it",
			     name);
	ret = count_nodes(builder, &event->start_mark, anchor->nodes);
	if (ret == 0)
		*tree = json_object_get(anchor->tree);
	return ret;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static int build_node(struct builder *builder, const yaml_event_t *event, unsigned depth,
		      json_object **tree);

static bool tag_is(const yaml_char_t *tag, const char *expected)
{
	return !tag || strcmp((const char *)tag, expected) == 0 ||
	       strcmp((const char *)tag, "!") == 0;
}

static int build_scalar(struct builder *builder, const yaml_event_t *event, json_object **tree)
{
	const char *text = (const char *)event->data.scalar.value;
	size_t length = event->data.scalar.length;
	const yaml_char_t *tag = event->data.scalar.tag;
	bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	int ret;

	if (!tag_is(tag, YAML_STR_TAG))
		return wrong(builder, &event->start_mark, "tag '%.64s' is not supported", tag);
	ret = plain && !tag ? scalar_resolve(text, length, tree) : scalar_text(text, length, tree);
	return ret < 0 ? out_of_memory(builder) : 0;
}

static int build_sequence(struct builder *builder, const yaml_event_t *start, unsigned depth,
			  json_object **tree)
{
	json_object *item = NULL;

	if (!tag_is(start->data.sequence_start.tag, YAML_SEQ_TAG))
		return wrong(builder, &start->start_mark, "tag '%.64s' is not supported",
			     start->data.sequence_start.tag);
	*tree = json_object_new_array();
	if (!*tree)
		return out_of_memory(builder);
	for (;;) {
		cleanup_event yaml_event_t event;
		int ret = next_event(builder, &event);

		if (ret < 0 || event.type == YAML_SEQUENCE_END_EVENT)
			return ret;
		ret = build_node(builder, &event, depth + 1, &item);
		if (ret < 0)
			return ret;
		if (json_object_array_add(*tree, item) < 0) {
			json_object_put(item);
			return out_of_memory(builder);
		}
	}
}

/* JSON's keys are texts, whatever type YAML gives them. */
static int check_key(struct builder *builder, const yaml_event_t *event, json_object *object)
{
	const char *key = (const char *)event->data.scalar.value;

	if (event->type != YAML_SCALAR_EVENT)
		return wrong(builder, &event->start_mark, "a key has to be a text");
	if (strlen(key) != event->data.scalar.length)
		return wrong(builder, &event->start_mark, "a key with a NUL in it");
	if (strcmp(key, "<<") == 0 && event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
		return wrong(builder, &event->start_mark,
			     "merge keys ('<<') are not supported: write the members out");
	if (json_object_object_get_ex(object, key, NULL))
		return wrong(builder, &event->start_mark, "key '%.64s' occurs twice", key);
	return 0;
}

static int build_member(struct builder *builder, const yaml_event_t *key, unsigned depth,
			json_object *object)
{
	cleanup_event yaml_event_t event = { 0 };
	json_object *value = NULL;
	int ret = check_key(builder, key, object) ?: next_event(builder, &event);

	ret = ret ?: build_node(builder, &event, depth + 1, &value);
	if (ret < 0)
		return ret;
	if (json_object_object_add(object, (const char *)key->data.scalar.value, value) < 0) {
		json_object_put(value);
		return out_of_memory(builder);
	}
	return 0;
}

static int build_mapping(struct builder *builder, const yaml_event_t *start, unsigned depth,
			 json_object **tree)
{
	if (!tag_is(start->data.mapping_start.tag, YAML_MAP_TAG))
		return wrong(builder, &start->start_mark, "tag '%.64s' is not supported",
			     start->data.mapping_start.tag);
	*tree = json_object_new_object();
	if (!*tree)
		return out_of_memory(builder);
	for (;;) {
		cleanup_event yaml_event_t event;
		int ret = next_event(builder, &event);

		if (ret < 0 || event.type == YAML_MAPPING_END_EVENT)
			return ret;
		ret = build_member(builder, &event, depth, *tree);
		if (ret < 0)
			return ret;
	}
}

static const char *anchor_of(const yaml_event_t *event)
{
	if (event->type == YAML_SCALAR_EVENT)
		return (const char *)event->data.scalar.anchor;
	if (event->type == YAML_SEQUENCE_START_EVENT)
		return (const char *)event->data.sequence_start.anchor;
	return (const char *)event->data.mapping_start.anchor;
}

/* Build the node that begins with @event. *@tree NULL is JSON's null; after an error
 * it is NULL too. */
static int build_node(struct builder *builder, const yaml_event_t *event, unsigned depth,
		      json_object **tree)
{
	size_t before = builder->nodes;
	int ret;

	*tree = NULL;
	if (event->type == YAML_ALIAS_EVENT)
		return build_alias(builder, event, tree);
	if (depth > MK_TREE_DEPTH_MAX)
		return wrong(builder, &event->start_mark, "nested deeper than %d",
			     MK_TREE_DEPTH_MAX);
	ret = count_nodes(builder, &event->start_mark, 1);
	if (ret == 0 && event->type == YAML_SCALAR_EVENT)
		ret = build_scalar(builder, event, tree);
	else if (ret == 0 && event->type == YAML_SEQUENCE_START_EVENT)
		ret = build_sequence(builder, event, depth, tree);
	else if (ret == 0)
		ret = build_mapping(builder, event, depth, tree);
	if (ret == 0 && anchor_of(event))
		ret = remember_anchor(builder, anchor_of(event), *tree, builder->nodes - before);
	if (ret < 0) {
		json_object_put(*tree);
		*tree = NULL;
	}
	return ret;
}

/* ---- documents ------------------------------------------------------------------------------- */

/* Add @tree to @out, which owns it even if this fails. */
static int add_document(struct mk_documents *out, json_object *tree, size_t line,
			struct mk_error *err)
{
	struct mk_document *added;

	if (!tree)
		return 0;
	added = mk_append(out->items, out->count);
	if (!added) {
		json_object_put(tree);
		return mk_error_errno(err, ENOMEM, "cannot parse");
	}
	*added = (struct mk_document){ .tree = tree, .line = line };
	return 0;
}

/* Build the document between its start and end events. */
static int build_document(struct builder *builder, struct mk_documents *out)
{
	cleanup_event yaml_event_t event;
	json_object *tree;
	int ret = next_event(builder, &event) ?: build_node(builder, &event, 1, &tree);

	forget_anchors(builder);
	return ret < 0 ? ret : add_document(out, tree, event.start_mark.line + 1, builder->err);
}

static int build_stream(struct builder *builder, struct mk_documents *out)
{
	for (;;) {
		cleanup_event yaml_event_t event;
		int ret = next_event(builder, &event);

		if (ret < 0 || event.type == YAML_STREAM_END_EVENT)
			return ret;
		if (event.type == YAML_DOCUMENT_START_EVENT)
			ret = build_document(builder, out);
		if (ret < 0)
			return ret;
	}
}

int mk_yaml_parse(const char *text, size_t size, struct mk_documents *out, struct mk_error *err)
{
	struct builder builder = { .err = err };
	int ret;

	*out = (struct mk_documents){ 0 };
	if (!yaml_parser_initialize(&builder.parser))
		return mk_error_errno(err, ENOMEM, "cannot parse");
	yaml_parser_set_input_string(&builder.parser, (const unsigned char *)text, size);
	ret = build_stream(&builder, out);
	forget_anchors(&builder);
	yaml_parser_delete(&builder.parser);
	if (ret < 0)
		mk_documents_release(out);
	return ret;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Advance to byte @offset, counting lines. */
static void advance(yaml_mark_t *mark, const char *text, size_t offset)
{
	for (; mark->index < offset; mark->index++) {
		mark->column++;
		if (text[mark->index] == '\n') {
			mark->line++;
			mark->column = 0;
		}
	}
}

static void skip_blanks(yaml_mark_t *mark, const char *text, size_t size)
{
	size_t offset = mark->index;

	while (offset < size && text[offset] && strchr(" \t\r\n", text[offset]))
		offset++;
	advance(mark, text, offset);
}

static int json_value(json_tokener *tokener, const char *text, size_t size, yaml_mark_t *mark,
		      struct mk_documents *out, struct mk_error *err)
{
	size_t line = mark->line + 1;
	enum json_tokener_error error;
	const char *problem;
	json_object *tree;

	json_tokener_reset(tokener);
	tree = json_tokener_parse_ex(tokener, text + mark->index, (int)(size - mark->index));
	error = json_tokener_get_error(tokener);
	advance(mark, text, mark->index + json_tokener_get_parse_end(tokener));
	if (error == json_tokener_success)
		return add_document(out, tree, line, err);
	problem = error == json_tokener_continue ? "ends in the middle of a value"
						 : json_tokener_error_desc(error);
	return mk_error_set(err, EINVAL, "line %zu, column %zu: %s", mark->line + 1,
			    mark->column + 1, problem);
}

int json_parse(const char *text, size_t size, struct mk_documents *out, struct mk_error *err)
{
	json_tokener *tokener;
	yaml_mark_t mark = { 0 };
	int ret = 0;

	*out = (struct mk_documents){ 0 };
	if (size > INT32_MAX)
		return mk_error_set(err, EFBIG, "line 1, column 1: %zu bytes are too many", size);
	tokener = json_tokener_new_ex(MK_TREE_DEPTH_MAX);
	if (!tokener)
		return mk_error_errno(err, ENOMEM, "cannot parse");
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_ALLOW_TRAILING_CHARS |
						JSON_TOKENER_VALIDATE_UTF8);
	skip_blanks(&mark, text, size);
	while (ret == 0 && mark.index < size) {
		ret = json_value(tokener, text, size, &mark, out, err);
		skip_blanks(&mark, text, size);
	}
	json_tokener_free(tokener);
	if (ret < 0)
		mk_documents_release(out);
	return ret;
}

void mk_documents_release(struct mk_documents *documents)
{
	for (size_t i = 0; i < documents->count; i++)
		json_object_put(documents->items[i].tree);
	free(documents->items);
	*documents = (struct mk_documents){ 0 };
}

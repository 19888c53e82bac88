// SPDX-License-Identifier: Apache-2.0
/* Conditions with the time of their last transition. */
#include "clusterset/condition.h"

#include <string.h>

#define MESSAGE_BYTES 4096

/* ---- the frame ------------------------------------------------------------------------------- */

const char *member_text(json_object *object, const char *key)
{
	json_object *value = mk_json_member(object, key);

	return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
}

/* A condition keeps its time while its status stays. */
static const char *transition_time(json_object *existing, const struct verdict *condition,
				   const char *now)
{
	json_object *known = mk_json_condition(mk_json_member(existing, "status"), condition->type);
	const char *status = member_text(known, "status");
	const char *time = member_text(known, "lastTransitionTime");

	return status && time && strcmp(status, condition->status) == 0 ? time : now;
}

/* Cut a text between two characters, so that it stays UTF-8. */
static json_object *short_text(const char *text)
{
	size_t length = strlen(text);

	if (length > MESSAGE_BYTES)
		for (length = MESSAGE_BYTES; length > 0 && (text[length] & 0xc0) == 0x80;)
			length--;
	return json_object_new_string_len(text, (int)length);
}

static void append_condition(struct maker *maker, json_object *list, json_object *existing,
			     const struct verdict *condition, const char *now)
{
	json_object *object = make_object(maker), *metadata = object_at(existing, "metadata");
	json_object *generation = mk_json_member(metadata, "generation");

	put_text(maker, object, "type", condition->type);
	put_text(maker, object, "status", condition->status);
	put_text(maker, object, "reason", condition->reason);
	if (!maker->failed)
		put(maker, object, "message", short_text(condition->message));
	if (json_object_is_type(generation, json_type_int))
		put_number(maker, object, "observedGeneration", json_object_get_int64(generation));
	put_text(maker, object, "lastTransitionTime", transition_time(existing, condition, now));
	append(maker, list, object);
}

json_object *make_conditions(struct maker *maker, json_object *existing,
			     const struct verdict *conditions, size_t count, const char *now)
{
	json_object *list = make_list(maker);

	for (size_t i = 0; i < count; i++)
		append_condition(maker, list, existing, &conditions[i], now);
	return list;
}

json_object *make_status(struct maker *maker, json_object *named, json_object *status)
{
	json_object *tree = make_object(maker), *metadata = make_object(maker);

	put_text(maker, tree, "apiVersion", member_text(named, "apiVersion"));
	put_text(maker, tree, "kind", member_text(named, "kind"));
	put_text(maker, metadata, "name", text_at(named, "metadata", "name"));
	put_text(maker, metadata, "namespace", text_at(named, "metadata", "namespace"));
	put(maker, tree, "metadata", metadata);
	put(maker, tree, "status", status);
	return made(maker, tree);
}

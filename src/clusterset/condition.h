/* SPDX-License-Identifier: Apache-2.0 */
/* src/clusterset/condition.h - conditions of an object, and its status; private to this folder. */
#ifndef MK_CLUSTERSET_CONDITION_H
#define MK_CLUSTERSET_CONDITION_H

#include "clusterset/fields.h"

struct verdict {
	const char *type, *status, *reason, *message;
};

/* Make the list of @count conditions. One that @existing has with the same status keeps its
 * time. */
json_object *make_conditions(struct maker *maker, json_object *existing,
			     const struct verdict *conditions, size_t count, const char *now);
/* Make an object with nothing but the names of @named, and @status, which belongs to it. NULL: no
 * memory, or a step of @maker failed before. */
json_object *make_status(struct maker *maker, json_object *named, json_object *status);
/* Return the text of a member; NULL: there is none. */
const char *member_text(json_object *object, const char *key);

#endif

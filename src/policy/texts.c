// SPDX-License-Identifier: Apache-2.0
/* Texts stored once, and memory that is released at once. The compiler keeps copies, because rules
 * and labels stay in force after their objects have gone. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "policy/compiler.h"

struct text {
	UT_hash_handle hh;
	size_t references;
	char text[];
};

const char *text_get(struct texts *texts, const char *text)
{
	size_t chars = strlen(text);
	struct text *found;

	HASH_FIND(hh, texts->all, text, chars, found);
	if (!found) {
		found = memory_new(sizeof(*found) + chars + 1);
		memcpy(found->text, text, chars);
		HASH_ADD_KEYPTR(hh, texts->all, found->text, chars, found);
	}
	found->references++;
	return found->text;
}

void text_put(struct texts *texts, const char *text)
{
	struct text *found = (void *)(text - offsetof(struct text, text));

	if (--found->references > 0)
		return;
	HASH_DEL(texts->all, found);
	free(found);
}

const char *store_text(struct store *store, const char *text)
{
	if (!text)
		return NULL;
	store->held = memory_grow(store->held, store->held_count, &store->held_room,
				  sizeof(*store->held));
	return store->held[store->held_count++] = text_get(store->texts, text);
}

void *store_new(struct store *store, size_t size)
{
	struct piece *piece;

	if (size == 0)
		return NULL;
	piece = memory_new(sizeof(*piece) + size);
	piece->next = store->pieces;
	store->pieces = piece;
	return piece + 1;
}

void store_release(struct store *store)
{
	struct piece *next;

	for (size_t i = 0; i < store->held_count; i++)
		text_put(store->texts, store->held[i]);
	free(store->held);
	for (struct piece *piece = store->pieces; piece; piece = next) {
		next = piece->next;
		free(piece);
	}
	*store = (struct store){ .texts = store->texts };
}

/* ---- copies of what objects have ------------------------------------------------------------- */

struct mk_labels copy_labels(struct store *store, const struct mk_labels *from)
{
	struct mk_object_label *of = store_new(store, from->count * sizeof(*of));

	for (size_t i = 0; i < from->count; i++) {
		of[i].key = store_text(store, from->of[i].key);
		of[i].value = store_text(store, from->of[i].value);
	}
	return (struct mk_labels){ .of = of, .count = from->count };
}

struct mk_named_port *copy_ports(struct store *store, const struct mk_named_port *from,
				 size_t count)
{
	struct mk_named_port *to = store_new(store, count * sizeof(*to));

	for (size_t i = 0; i < count; i++) {
		to[i] = from[i];
		to[i].name = store_text(store, from[i].name);
	}
	return to;
}

/* The values are behind the requirements. */
struct mk_selector copy_selector(struct store *store, const struct mk_selector *from)
{
	struct mk_selector to = { .count = from->count };
	size_t value_count = 0;
	const char **values;

	if (from->count == 0)
		return to;
	for (size_t i = 0; i < from->count; i++)
		value_count += from->requirements[i].value_count;
	to.requirements = store_new(store, from->count * sizeof(*to.requirements) +
						   value_count * sizeof(*values));
	values = (const char **)&to.requirements[from->count];
	for (size_t i = 0; i < from->count; i++) {
		const struct mk_requirement *requirement = &from->requirements[i];
		struct mk_requirement *copy = &to.requirements[i];

		*copy = *requirement;
		copy->key = store_text(store, requirement->key);
		copy->values = values;
		for (size_t j = 0; j < copy->value_count; j++)
			*values++ = store_text(store, requirement->values[j]);
	}
	return to;
}

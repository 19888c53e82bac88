// SPDX-License-Identifier: Apache-2.0
/* Texts, sets of labels and lists of ports that objects share: a cluster has many objects, but few
 * texts. */
#include "cluster/model/texts.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct shared_text {
	UT_hash_handle hh;
	size_t references;
	char text[];
};

/* Labels or ports. Their texts are shared, so equal bytes are equal lists. */
struct shared_list {
	UT_hash_handle hh;
	size_t references;
	_Alignas(8) uint8_t of[]; /* the key */
};

char *text_share(struct mk_texts *texts, const char *text)
{
	struct shared_text *shared;

	HASH_FIND_STR(texts->texts, text, shared);
	if (!shared) {
		shared = calloc(1, sizeof(*shared) + strlen(text) + 1);
		if (!shared)
			return NULL;
		strcpy(shared->text, text);
		HASH_ADD_STR(texts->texts, text, shared);
	}
	shared->references++;
	return shared->text;
}

void text_release(struct mk_texts *texts, const char *text)
{
	struct shared_text *shared;

	if (!text)
		return;
	shared = (void *)(text - offsetof(struct shared_text, text));
	if (--shared->references > 0)
		return;
	HASH_DEL(texts->texts, shared);
	free(shared);
}

size_t texts_count(const struct mk_texts *texts)
{
	return HASH_COUNT(texts->texts) + HASH_COUNT(texts->label_sets) +
	       HASH_COUNT(texts->port_lists);
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* Return a reference to the list of @bytes at @of. *@is_new: it has the texts of @of now. NULL: out
 * of memory. */
static const void *list_share(struct shared_list **lists, const void *of, size_t bytes,
			      bool *is_new)
{
	struct shared_list *list;

	HASH_FIND(hh, *lists, of, bytes, list);
	*is_new = !list;
	if (!list) {
		list = calloc(1, sizeof(*list) + bytes);
		if (!list)
			return NULL;
		memcpy(list->of, of, bytes);
		HASH_ADD_KEYPTR(hh, *lists, list->of, bytes, list);
	}
	list->references++;
	return list->of;
}

/* Returns the list if this was its last reference. The caller releases its texts, then frees it. */
static struct shared_list *list_release(struct shared_list **lists, const void *of)
{
	struct shared_list *list = (void *)((const char *)of - offsetof(struct shared_list, of));

	if (--list->references > 0)
		return NULL;
	HASH_DEL(*lists, list);
	return list;
}

/* ---- labels ---------------------------------------------------------------------------------- */

static void release_texts(struct mk_texts *texts, const struct mk_object_label *of, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		text_release(texts, of[i].key);
		text_release(texts, of[i].value);
	}
}

/* Make @labels of @of, whose texts it takes over in any case. */
static int share_set(struct mk_texts *texts, const struct mk_object_label *of, size_t count,
		     struct mk_labels *labels)
{
	bool is_new;

	labels->of = list_share(&texts->label_sets, of, count * sizeof(*of), &is_new);
	labels->count = labels->of ? count : 0;
	if (!labels->of || !is_new)
		release_texts(texts, of, count);
	return labels->of ? 0 : -ENOMEM;
}

static int share_label(struct mk_texts *texts, const char *key, const char *value,
		       struct mk_object_label *of, size_t *count)
{
	struct mk_object_label *label = &of[*count];

	label->key = text_share(texts, key);
	label->value = text_share(texts, value);
	(*count)++;
	return label->key && label->value ? 0 : -ENOMEM;
}

static int compare_labels(const void *a, const void *b)
{
	const struct mk_object_label *left = a, *right = b;

	return strcmp(left->key, right->key);
}

static int read_labels(struct mk_texts *texts, const struct mk_json *tree,
		       struct mk_object_label *of, size_t *count, struct mk_error *err)
{
	int ret = 0;

	if (!tree->value)
		return 0;
	json_object_object_foreach(tree->value, key, unused)
	{
		const char *value;

		(void)unused;
		ret = ret ?: tree_text(tree, key, &value, err);
		if (ret == 0 && value && share_label(texts, key, value, of, count) < 0)
			ret = mk_error_errno(err, ENOMEM, "label %s", key);
	}
	return ret;
}

int labels_of(struct mk_texts *texts, const struct mk_json *at,
	      const struct mk_object_label *further, struct mk_labels *labels, struct mk_error *err)
{
	struct mk_object_label *of;
	size_t count = 0;
	int ret;

	of = calloc(1 + (at->value ? (size_t)json_object_object_length(at->value) : 0),
		    sizeof(*of));
	if (!of)
		return mk_error_errno(err, ENOMEM, "labels");
	ret = read_labels(texts, at, of, &count, err);
	if (ret == 0 && further && !(at->value && json_object_object_get(at->value, further->key)))
		ret = share_label(texts, further->key, further->value, of, &count);
	if (ret < 0) {
		release_texts(texts, of, count);
	} else if (count > 0) {
		qsort(of, count, sizeof(*of), compare_labels);
		ret = share_set(texts, of, count, labels);
	}
	free(of);
	return ret == -ENOMEM ? mk_error_errno(err, ENOMEM, "labels") : ret;
}

int labels_decode(struct mk_texts *texts, const struct mk_json *tree,
		  const struct mk_object_label *further, struct mk_labels *labels,
		  struct mk_error *err)
{
	struct mk_json metadata, at;
	int ret = tree_member(tree, "metadata", json_type_object, &metadata, err);

	ret = ret ?: tree_member(&metadata, "labels", json_type_object, &at, err);
	return ret ?: labels_of(texts, &at, further, labels, err);
}

void labels_release(struct mk_texts *texts, struct mk_labels *labels)
{
	struct shared_list *last =
		labels->count > 0 ? list_release(&texts->label_sets, labels->of) : NULL;

	if (last)
		release_texts(texts, labels->of, labels->count);
	free(last);
	*labels = (struct mk_labels){ 0 };
}

bool labels_equal(const struct mk_labels *a, const struct mk_labels *b)
{
	return a->of == b->of;
}

const char *labels_value(const struct mk_labels *labels, const char *key)
{
	for (size_t i = 0; i < labels->count; i++)
		if (labels->of[i].key == key)
			return labels->of[i].value;
	return NULL;
}

/* ---- ports ----------------------------------------------------------------------------------- */

static void release_names(struct mk_texts *texts, const struct mk_named_port *ports, size_t count)
{
	for (size_t i = 0; i < count; i++)
		text_release(texts, ports[i].name);
}

const struct mk_named_port *ports_share(struct mk_texts *texts, const struct mk_named_port *ports,
					size_t count)
{
	const struct mk_named_port *shared;
	bool is_new;

	if (count == 0)
		return NULL;
	shared = list_share(&texts->port_lists, ports, count * sizeof(*ports), &is_new);
	if (!shared || !is_new)
		release_names(texts, ports, count);
	return shared;
}

void ports_release(struct mk_texts *texts, const struct mk_named_port *ports, size_t count)
{
	struct shared_list *last = ports ? list_release(&texts->port_lists, ports) : NULL;

	if (last)
		release_names(texts, ports, count);
	free(last);
}

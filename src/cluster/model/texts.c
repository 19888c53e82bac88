// SPDX-License-Identifier: Apache-2.0
/* Texts, sets of labels, lists of ports and workloads that objects share: a cluster has many
 * objects, but few texts. */
#include "cluster/model/texts.h"

#include <stdlib.h>
#include <string.h>

/* A text, or else labels, ports or a workload, whose texts are shared. So equal bytes are equal
 * content. */
struct shared {
	struct mk_index_link link;
	uint32_t references, bytes;
	_Alignas(8) uint8_t of[]; /* the key */
};

static struct shared *shared_of(const void *of)
{
	return (void *)((const char *)of - offsetof(struct shared, of));
}

static struct shared *find(const struct mk_index *all, const void *of, size_t bytes)
{
	struct mk_index_link *link = mk_index_find(all, mk_index_hash(of, bytes));

	for (; link; link = mk_index_find_next(link)) {
		struct shared *shared = mk_index_entry(link, struct shared, link);

		if (shared->bytes == bytes && memcmp(shared->of, of, bytes) == 0)
			return shared;
	}
	return NULL;
}

static struct shared *add(struct mk_index *all, const void *of, size_t bytes)
{
	struct shared *shared = calloc(1, sizeof(*shared) + bytes);

	if (!shared)
		return NULL;
	shared->bytes = (uint32_t)bytes;
	memcpy(shared->of, of, bytes);
	if (mk_index_add(all, &shared->link, mk_index_hash(of, bytes)) == 0)
		return shared;
	free(shared);
	return NULL;
}

/* Return a reference to the @bytes at @of. *@is_new: it has the texts of @of now. NULL: out of
 * memory. */
static void *share(struct mk_index *all, const void *of, size_t bytes, bool *is_new)
{
	struct shared *shared = find(all, of, bytes);

	*is_new = !shared;
	if (!shared)
		shared = add(all, of, bytes);
	if (!shared)
		return NULL;
	shared->references++;
	return shared->of;
}

/* Returns what was shared if this was its last reference. The caller releases its texts, then frees
 * it. */
static struct shared *release(struct mk_index *all, const void *of)
{
	struct shared *shared = of ? shared_of(of) : NULL;

	if (!shared || --shared->references > 0)
		return NULL;
	mk_index_remove(all, &shared->link);
	if (all->count == 0)
		mk_index_release(all);
	return shared;
}

char *text_share(struct mk_texts *texts, const char *text)
{
	bool is_new;

	return share(&texts->texts, text, strlen(text) + 1, &is_new);
}

void text_release(struct mk_texts *texts, const char *text)
{
	free(release(&texts->texts, text));
}

size_t texts_count(const struct mk_texts *texts)
{
	return texts->texts.count + texts->label_sets.count + texts->port_lists.count +
	       texts->workloads.count;
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

	labels->of = share(&texts->label_sets, of, count * sizeof(*of), &is_new);
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
	struct shared *last = release(&texts->label_sets, labels->of);

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
	shared = share(&texts->port_lists, ports, count * sizeof(*ports), &is_new);
	if (!shared || !is_new)
		release_names(texts, ports, count);
	return shared;
}

void ports_release(struct mk_texts *texts, const struct mk_named_port *ports, size_t count)
{
	struct shared *last = release(&texts->port_lists, ports);

	if (last)
		release_names(texts, ports, count);
	free(last);
}

/* ---- workloads ------------------------------------------------------------------------------- */

void workload_drop(struct mk_texts *texts, struct mk_workload *content)
{
	text_release(texts, content->namespace_);
	labels_release(texts, &content->labels);
	ports_release(texts, content->ports, content->port_count);
	*content = (struct mk_workload){ 0 };
}

const struct mk_workload *workload_share(struct mk_texts *texts, struct mk_workload *content)
{
	const struct mk_workload *shared;
	bool is_new;

	shared = share(&texts->workloads, content, sizeof(*content), &is_new);
	if (!shared || !is_new)
		workload_drop(texts, content);
	return shared;
}

void workload_release(struct mk_texts *texts, const struct mk_workload *workload)
{
	struct shared *last = release(&texts->workloads, workload);

	if (last)
		workload_drop(texts, (struct mk_workload *)last->of);
	free(last);
}

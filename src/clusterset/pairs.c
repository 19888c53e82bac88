// SPDX-License-Identifier: Apache-2.0
/* Labels and annotations that an export gives to the import. They come from another cluster and end
 * in an object of this one: a key or value that the API server refuses would stop the whole
 * import, and some keys would change who manages it. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cluster/model/peer.h"
#include "clusterset/content.h"

/* Keys and prefixes that no export may set: who manages an object, and whose it is. */
static const char *const reserved[] = {
	"app.kubernetes.io/managed-by", "endpointslice.kubernetes.io/", "kubectl.kubernetes.io/",
	"multicluster.kubernetes.io/",	"networking.monokube.io/",
};

/* A user may export the preference. */
static bool is_reserved(const char *key, bool is_label)
{
	if (!is_label && strcmp(key, MK_PREFER_ANNOTATION) == 0)
		return false;
	for (size_t i = 0; i < sizeof(reserved) / sizeof(*reserved); i++) {
		size_t length = strlen(reserved[i]);

		if (strncmp(key, reserved[i], length) == 0 &&
		    (reserved[i][length - 1] == '/' || !key[length]))
			return true;
	}
	return false;
}

/* Returns why a pair may not be exported; NULL: it may. */
static const char *lack_of(const char *key, json_object *value, bool is_label, size_t bytes)
{
	if (!is_label_key(key))
		return "its key makes no sense to Kubernetes";
	if (is_reserved(key, is_label))
		return "its key is reserved";
	if (!json_object_is_type(value, json_type_string) ||
	    !is_plain_text(value, CONTENT_VALUE_BYTES))
		return "its value is no text of at most 4096 bytes";
	if (is_label && !is_label_value(json_object_get_string(value)))
		return "a label's value has at most 63 letters, digits, '-', '_' and '.'";
	if (bytes > CONTENT_PAIRS_BYTES)
		return "all together have more than 16384 bytes";
	return NULL;
}

static int add_pair(struct pair *pair, const char *key, json_object *value)
{
	pair->key = strdup(key);
	pair->value = strdup(json_object_get_string(value));
	return pair->key && pair->value ? 0 : -ENOMEM;
}

static int decode_each(json_object *object, bool are_labels, struct pair *pairs, size_t *count,
		       char **note, struct mk_error *err)
{
	size_t bytes = 0;

	json_object_object_foreach(object, key, value)
	{
		size_t more = strlen(key) + (value ? strlen(json_object_get_string(value)) : 0);
		const char *lack = lack_of(key, value, are_labels, bytes + more);

		if (lack && !note)
			return mk_error_set(err, EINVAL, "key '%.100s' is not allowed: %s", key,
					    lack);
		if (lack && note_first(note, "%s '%.100s' is not exported: %s",
				       are_labels ? "label" : "annotation", key, lack) < 0)
			return mk_error_errno(err, ENOMEM, "exported labels");
		if (lack)
			continue;
		bytes += more;
		if (add_pair(&pairs[(*count)++], key, value) < 0)
			return mk_error_errno(err, ENOMEM, "exported labels");
	}
	return 0;
}

int pairs_decode(json_object *parent, const char *key, bool are_labels, struct pair **pairs,
		 size_t *count, char **note, struct mk_error *err)
{
	json_object *object;
	int ret = field_member(parent, key, json_type_object, &object, err);

	if (ret < 0 || !object)
		return ret;
	if (json_object_object_length(object) > CONTENT_PAIRS)
		return field_wrong(key, object, "at most 64 entries", err);
	*pairs = calloc(CONTENT_PAIRS, sizeof(**pairs));
	if (!*pairs)
		return mk_error_errno(err, ENOMEM, "%s", key);
	ret = decode_each(object, are_labels, *pairs, count, note, err);
	if (ret < 0)
		return mk_error_wrap(err, "%s", key);
	qsort(*pairs, *count, sizeof(**pairs), mk_compare_texts);
	return 0;
}

void pairs_release(struct pair *pairs, size_t count)
{
	for (size_t i = 0; pairs && i < count; i++) {
		free(pairs[i].key);
		free(pairs[i].value);
	}
	free(pairs);
}

bool pairs_equal(const struct pair *a, size_t a_count, const struct pair *b, size_t b_count)
{
	if (a_count != b_count)
		return false;
	for (size_t i = 0; i < a_count; i++)
		if (strcmp(a[i].key, b[i].key) != 0 || strcmp(a[i].value, b[i].value) != 0)
			return false;
	return true;
}

void put_pairs(struct maker *maker, json_object *parent, const struct pair *pairs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		put_text(maker, parent, pairs[i].key, pairs[i].value);
}

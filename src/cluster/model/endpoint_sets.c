// SPDX-License-Identifier: Apache-2.0
/* EndpointSlices and Endpoints objects, and the index from a Service to its slices. */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "cluster/model/model_internal.h"

static struct slice_list *find_slices(const struct mk_model *model, const char *namespace_,
				      const char *service)
{
	struct slice_list *list;
	char key[MK_MODEL_KEY_CHARS];

	model_make_key(key, namespace_, service);
	HASH_FIND_STR(model->slices_of, key, list);
	return list;
}

/* Make sure that the Service of @set has a list, so that later steps cannot fail. */
static int prepare_list(struct mk_model *model, const struct mk_endpoint_set *set)
{
	struct slice_list *list;
	char key[MK_MODEL_KEY_CHARS];

	if (!set->service || find_slices(model, set->namespace_, set->service))
		return 0;
	model_make_key(key, set->namespace_, set->service);
	list = model_entry_new(offsetof(struct slice_list, key), key);
	if (!list)
		return -ENOMEM;
	HASH_ADD_STR(model->slices_of, key, list);
	return 0;
}

static void link_slice(struct mk_model *model, struct set_entry *entry)
{
	if (entry->set.service)
		DL_APPEND(find_slices(model, entry->set.namespace_, entry->set.service)->slices,
			  entry);
}

static void drop_empty_list(struct mk_model *model, const struct mk_endpoint_set *set)
{
	struct slice_list *list =
		set->service ? find_slices(model, set->namespace_, set->service) : NULL;

	if (!list || list->slices)
		return;
	HASH_DEL(model->slices_of, list);
	free(list);
}

static void unlink_slice(struct mk_model *model, struct set_entry *entry)
{
	if (entry->set.service)
		DL_DELETE(find_slices(model, entry->set.namespace_, entry->set.service)->slices,
			  entry);
}

static bool same_service(const struct mk_endpoint_set *a, const struct mk_endpoint_set *b)
{
	return a->service && b->service && strcmp(a->service, b->service) == 0;
}

/* Report the Services of @old and @new. A slice may change its Service. An Endpoints object counts
 * only while there is no slice. Returns whether the change was reported. */
static bool tell_set(const struct mk_model *model, enum mk_kind kind,
		     const struct mk_endpoint_set *old, const struct mk_endpoint_set *new)
{
	const struct mk_endpoint_set *any = new->namespace_ ? new : old;
	const char *service = new->service ? new->service : old->service;

	if (new->namespace_ && old->namespace_ &&endpoint_set_equal(old, new))
		return false;
	if (kind == MK_KIND_ENDPOINTS && service && find_slices(model, any->namespace_, service))
		return false;
	if (old->service && !same_service(old, new))
		model_tell_service(model, old->namespace_, old->service);
	if (new->service)
		model_tell_service(model, new->namespace_, new->service);
	return true;
}

/* @slice NULL: the slice has been deleted. */
static void tell_trigger(const struct mk_model *model, const struct mk_json *slice,
			 const struct mk_endpoint_set *set)
{
	int64_t unix_ns;

	if (!model->listener.endpoints_triggered || !set->service)
		return;
	unix_ns = slice ? endpoint_slice_trigger(slice) : 0;
	if (unix_ns || !slice)
		model->listener.endpoints_triggered(model->listener.ctx, set->namespace_,
						    set->service, unix_ns);
}

static struct set_entry *find_set(const struct mk_model *model, enum mk_kind kind,
				  const char *namespace_, const char *name)
{
	struct set_entry *table = kind == MK_KIND_ENDPOINT_SLICE ? model->slices : model->endpoints;
	struct set_entry *entry;
	char key[MK_MODEL_KEY_CHARS];

	model_make_key(key, namespace_, name);
	HASH_FIND_STR(table, key, entry);
	return entry;
}

static struct set_entry *add_set(struct mk_model *model, const struct mk_object_id *id)
{
	struct set_entry **table =
		id->kind == MK_KIND_ENDPOINT_SLICE ? &model->slices : &model->endpoints;
	struct set_entry *entry;
	char key[MK_MODEL_KEY_CHARS];

	model_make_key(key, id->namespace_, id->name);
	entry = model_entry_new(offsetof(struct set_entry, key), key);
	if (entry)
		HASH_ADD_STR(*table, key, entry);
	return entry;
}

/* The endpoints of @slice come, or go. */
static void count_in(struct mk_model *model, const struct mk_endpoint_set *slice)
{
	model->endpoint_counts[mk_family_index(slice->family)] += slice->count;
	model->imported_endpoints += slice->imported ? slice->count : 0;
}

static void count_out(struct mk_model *model, const struct mk_endpoint_set *slice)
{
	model->endpoint_counts[mk_family_index(slice->family)] -= slice->count;
	model->imported_endpoints -= slice->imported ? slice->count : 0;
}

/* @set was decoded from @tree. */
static int replace_set(struct mk_model *model, const struct mk_json *tree,
		       const struct mk_object_id *id, struct mk_endpoint_set *set,
		       struct mk_error *err)
{
	bool slice = id->kind == MK_KIND_ENDPOINT_SLICE;
	struct set_entry *entry = find_set(model, id->kind, id->namespace_, id->name);
	struct mk_endpoint_set old;

	if (slice && prepare_list(model, set) < 0)
		return mk_error_errno(err, ENOMEM, "new object");
	if (!entry)
		entry = add_set(model, id);
	if (!entry) {
		drop_empty_list(model, set);
		return mk_error_errno(err, ENOMEM, "new object");
	}
	if (slice)
		unlink_slice(model, entry);
	old = entry->set;
	entry->set = *set;
	*set = (struct mk_endpoint_set){ 0 };
	model->skipped += entry->set.skipped - old.skipped;
	model_log_passed_over(id, old.passed_over, entry->set.passed_over);
	if (slice) {
		count_out(model, &old);
		count_in(model, &entry->set);
		link_slice(model, entry);
		drop_empty_list(model, &old);
	}
	if (tell_set(model, id->kind, &old, &entry->set) && slice)
		tell_trigger(model, tree, &entry->set);
	endpoint_set_release(&old);
	return 0;
}

int model_apply_set(struct mk_model *model, const struct mk_json *tree,
		    const struct mk_object_id *id, struct mk_error *err)
{
	struct mk_endpoint_set set = { .texts = &model->texts, .clusterset = &model->clusterset };
	int ret;

	if (id->kind == MK_KIND_ENDPOINT_SLICE)
		ret = endpoint_slice_decode(tree, id, &set, err);
	else
		ret = endpoints_decode(tree, id, &set, err);
	ret = ret ?: replace_set(model, tree, id, &set, err);
	endpoint_set_release(&set);
	return ret;
}

void model_delete_set(struct mk_model *model, enum mk_kind kind, const char *namespace_,
		      const char *name)
{
	struct set_entry *entry = find_set(model, kind, namespace_, name);

	if (!entry)
		return;
	model->skipped -= entry->set.skipped;
	if (kind == MK_KIND_ENDPOINT_SLICE) {
		HASH_DEL(model->slices, entry);
		count_out(model, &entry->set);
		unlink_slice(model, entry);
		drop_empty_list(model, &entry->set);
	} else {
		HASH_DEL(model->endpoints, entry);
	}
	tell_set(model, kind, &entry->set, &(struct mk_endpoint_set){ 0 });
	if (kind == MK_KIND_ENDPOINT_SLICE)
		tell_trigger(model, NULL, &entry->set);
	endpoint_set_release(&entry->set);
	free(entry);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int compare_pointers(const void *a, const void *b)
{
	return endpoint_compare(*(const struct mk_endpoint *const *)a,
				*(const struct mk_endpoint *const *)b);
}

/* Remove duplicates. The better state sorts first, so keep the first of equal endpoints. */
static size_t keep_first(const struct mk_endpoint **endpoints, size_t count)
{
	size_t kept = 0;

	if (count == 0)
		return 0;
	for (size_t i = 1; i < count; i++)
		if (!endpoint_same(endpoints[kept], endpoints[i]))
			endpoints[++kept] = endpoints[i];
	return kept + 1;
}

static void collect(const struct set_entry *entry, sa_family_t family,
		    const struct mk_endpoint **endpoints, size_t *count)
{
	for (size_t i = 0; i < entry->set.count; i++)
		if (family == AF_UNSPEC || entry->set.endpoints[i].ip.family == family)
			endpoints[(*count)++] = &entry->set.endpoints[i];
}

int mk_model_endpoints(const struct mk_model *model, const char *namespace_, const char *name,
		       sa_family_t family, const struct mk_endpoint ***endpoints, size_t *count)
{
	const struct slice_list *list = find_slices(model, namespace_, name);
	const struct set_entry *first, *entry;
	size_t room = 1; /* never malloc(0): NULL means failure */

	first = list ? list->slices : find_set(model, MK_KIND_ENDPOINTS, namespace_, name);
	if (first && !first->set.service)
		first = NULL;
	for (entry = first; entry; entry = entry->next)
		room += entry->set.count;
	*count = 0;
	*endpoints = calloc(room, sizeof(**endpoints));
	if (!*endpoints)
		return -ENOMEM;
	for (entry = first; entry; entry = entry->next)
		collect(entry, family, *endpoints, count);
	qsort(*endpoints, *count, sizeof(**endpoints), compare_pointers);
	*count = keep_first(*endpoints, *count);
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
/* The model: tables by kind and one index, Service to its EndpointSlices. uthash ends the process
 * when memory is out; the datapath, which is pinned, goes on without it. */
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "model/object.h"

/* "namespace/name" of two names that mk_model_identify() let pass */
#define KEY_CHARS (2 * 253 + 2)

struct node_entry {
	UT_hash_handle hh;
	struct mk_node_object node;
};

struct service_entry {
	UT_hash_handle hh;
	struct mk_service_object service;
	char key[];
};

/* An EndpointSlice or an Endpoints object. */
struct set_entry {
	UT_hash_handle hh;
	struct mk_endpoint_set set;
	struct set_entry *next, *prev; /* slices of the same Service */
	char key[];
};

/* The slices of one Service; exists while there is one. */
struct slice_list {
	UT_hash_handle hh;
	struct set_entry *slices;
	char key[];
};

struct service_cidr_entry {
	UT_hash_handle hh;
	struct mk_cidr cidr; /* family AF_UNSPEC: none of IPv4 */
	char name[];
};

struct mk_model {
	struct node_entry *nodes;
	struct service_entry *services;
	struct set_entry *slices, *endpoints;
	struct slice_list *slices_of;
	struct service_cidr_entry *service_cidrs;
	size_t endpoint_count; /* in slices */
	struct mk_model_listener listener;
};

static void make_key(char *key, const char *namespace_, const char *name)
{
	snprintf(key, KEY_CHARS, "%s/%s", namespace_, name);
}

static void tell_node(const struct mk_model *model, const char *name)
{
	if (model->listener.node_changed)
		model->listener.node_changed(model->listener.ctx, name);
}

static void tell_service(const struct mk_model *model, const char *namespace_, const char *name)
{
	if (model->listener.service_changed && name)
		model->listener.service_changed(model->listener.ctx, namespace_, name);
}

struct mk_model *mk_model_new(void)
{
	return calloc(1, sizeof(struct mk_model));
}

void mk_model_set_listener(struct mk_model *model, const struct mk_model_listener *listener)
{
	model->listener = *listener;
}

/* ---- nodes ------------------------------------------------------------------------- */

static int apply_node(struct mk_model *model, const struct mk_json *tree,
		      const struct mk_object_id *id, struct mk_error *err)
{
	struct mk_node_object node = { 0 }, old;
	struct node_entry *entry;
	int ret = mk_node_decode(tree, id, &node, err);

	HASH_FIND_STR(model->nodes, id->name, entry);
	if (ret == 0 && !entry) {
		entry = calloc(1, sizeof(*entry));
		if (!entry)
			ret = mk_error_errno(err, ENOMEM, "new object");
	} else if (ret == 0) {
		HASH_DEL(model->nodes, entry);
	}
	if (ret < 0) {
		mk_node_release(&node);
		return ret;
	}
	old = entry->node;
	entry->node = node;
	HASH_ADD_KEYPTR(hh, model->nodes, entry->node.name, strlen(entry->node.name), entry);
	if (!old.name || !mk_node_equal(&old, &node))
		tell_node(model, entry->node.name);
	mk_node_release(&old);
	return 0;
}

static void delete_node(struct mk_model *model, const char *name)
{
	struct node_entry *entry;

	HASH_FIND_STR(model->nodes, name, entry);
	if (!entry)
		return;
	HASH_DEL(model->nodes, entry);
	tell_node(model, entry->node.name);
	mk_node_release(&entry->node);
	free(entry);
}

/* ---- services ---------------------------------------------------------------------- */

static struct service_entry *find_service(const struct mk_model *model, const char *namespace_,
					  const char *name)
{
	struct service_entry *entry;
	char key[KEY_CHARS];

	make_key(key, namespace_, name);
	HASH_FIND_STR(model->services, key, entry);
	return entry;
}

static struct service_entry *add_service(struct mk_model *model, const struct mk_object_id *id)
{
	struct service_entry *entry;
	char key[KEY_CHARS];

	make_key(key, id->namespace_, id->name);
	entry = calloc(1, sizeof(*entry) + strlen(key) + 1);
	if (!entry)
		return NULL;
	strcpy(entry->key, key);
	HASH_ADD_STR(model->services, key, entry);
	return entry;
}

static int apply_service(struct mk_model *model, const struct mk_json *tree,
			 const struct mk_object_id *id, struct mk_error *err)
{
	struct mk_service_object service = { 0 }, old;
	struct service_entry *entry = NULL;
	int ret = mk_service_decode(tree, id, &service, err);

	if (ret == 0) {
		entry = find_service(model, id->namespace_, id->name);
		if (!entry)
			entry = add_service(model, id);
		if (!entry)
			ret = mk_error_errno(err, ENOMEM, "new object");
	}
	if (ret < 0) {
		mk_service_release(&service);
		return ret;
	}
	old = entry->service;
	entry->service = service;
	if (!old.name || !mk_service_equal(&old, &service))
		tell_service(model, service.namespace_, service.name);
	mk_service_release(&old);
	return 0;
}

static void delete_service(struct mk_model *model, const char *namespace_, const char *name)
{
	struct service_entry *entry = find_service(model, namespace_, name);

	if (!entry)
		return;
	HASH_DEL(model->services, entry);
	tell_service(model, entry->service.namespace_, entry->service.name);
	mk_service_release(&entry->service);
	free(entry);
}

/* ---- endpoint slices, endpoints ------------------------------------------------------ */

static struct slice_list *find_slices(const struct mk_model *model, const char *namespace_,
				      const char *service)
{
	struct slice_list *list;
	char key[KEY_CHARS];

	make_key(key, namespace_, service);
	HASH_FIND_STR(model->slices_of, key, list);
	return list;
}

/* Make sure that @entry's Service has a list: what follows cannot fail then. */
static int prepare_list(struct mk_model *model, const struct mk_endpoint_set *set)
{
	struct slice_list *list;
	char key[KEY_CHARS];

	if (!set->service || find_slices(model, set->namespace_, set->service))
		return 0;
	make_key(key, set->namespace_, set->service);
	list = calloc(1, sizeof(*list) + strlen(key) + 1);
	if (!list)
		return -ENOMEM;
	strcpy(list->key, key);
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

/* A slice may change its Service; an Endpoints object is heard only while there is no slice. Returns
 * whether there was something to tell. */
static bool tell_set(const struct mk_model *model, enum mk_kind kind,
		     const struct mk_endpoint_set *old, const struct mk_endpoint_set *new)
{
	const struct mk_endpoint_set *any = new->namespace_ ? new : old;
	const char *service = new->service ? new->service : old->service;

	if (new->namespace_ && old->namespace_ &&mk_endpoint_set_equal(old, new))
		return false;
	if (kind == MK_KIND_ENDPOINTS && service && find_slices(model, any->namespace_, service))
		return false;
	if (old->service && !same_service(old, new))
		tell_service(model, old->namespace_, old->service);
	if (new->service)
		tell_service(model, new->namespace_, new->service);
	return true;
}

static void tell_trigger(const struct mk_model *model, const struct mk_json *slice,
			 const struct mk_endpoint_set *set)
{
	int64_t unix_ns = model->listener.endpoints_triggered && set->service
				  ? mk_endpoint_slice_trigger(slice)
				  : 0;

	if (unix_ns)
		model->listener.endpoints_triggered(model->listener.ctx, set->namespace_,
						    set->service, unix_ns);
}

static struct set_entry *find_set(const struct mk_model *model, enum mk_kind kind,
				  const char *namespace_, const char *name)
{
	struct set_entry *table = kind == MK_KIND_ENDPOINT_SLICE ? model->slices : model->endpoints;
	struct set_entry *entry;
	char key[KEY_CHARS];

	make_key(key, namespace_, name);
	HASH_FIND_STR(table, key, entry);
	return entry;
}

static struct set_entry *add_set(struct mk_model *model, const struct mk_object_id *id)
{
	struct set_entry **table =
		id->kind == MK_KIND_ENDPOINT_SLICE ? &model->slices : &model->endpoints;
	struct set_entry *entry;
	char key[KEY_CHARS];

	make_key(key, id->namespace_, id->name);
	entry = calloc(1, sizeof(*entry) + strlen(key) + 1);
	if (!entry)
		return NULL;
	strcpy(entry->key, key);
	HASH_ADD_STR(*table, key, entry);
	return entry;
}

/* @tree is what @set was decoded from. */
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
	if (slice) {
		model->endpoint_count += entry->set.count - old.count;
		link_slice(model, entry);
		drop_empty_list(model, &old);
	}
	if (tell_set(model, id->kind, &old, &entry->set) && slice)
		tell_trigger(model, tree, &entry->set);
	mk_endpoint_set_release(&old);
	return 0;
}

static int apply_set(struct mk_model *model, const struct mk_json *tree,
		     const struct mk_object_id *id, struct mk_error *err)
{
	struct mk_endpoint_set set = { 0 };
	int ret;

	if (id->kind == MK_KIND_ENDPOINT_SLICE)
		ret = mk_endpoint_slice_decode(tree, id, &set, err);
	else
		ret = mk_endpoints_decode(tree, id, &set, err);
	if (ret == 0)
		ret = replace_set(model, tree, id, &set, err);
	mk_endpoint_set_release(&set);
	return ret;
}

static void delete_set(struct mk_model *model, enum mk_kind kind, const char *namespace_,
		       const char *name)
{
	struct set_entry *entry = find_set(model, kind, namespace_, name);

	if (!entry)
		return;
	if (kind == MK_KIND_ENDPOINT_SLICE) {
		HASH_DEL(model->slices, entry);
		model->endpoint_count -= entry->set.count;
		unlink_slice(model, entry);
		drop_empty_list(model, &entry->set);
	} else {
		HASH_DEL(model->endpoints, entry);
	}
	tell_set(model, kind, &entry->set, &(struct mk_endpoint_set){ 0 });
	mk_endpoint_set_release(&entry->set);
	free(entry);
}

/* ---- ranges of Service addresses ------------------------------------------------------ */

static void tell_service_cidrs(const struct mk_model *model)
{
	if (model->listener.service_cidrs_changed)
		model->listener.service_cidrs_changed(model->listener.ctx);
}

static int apply_service_cidr(struct mk_model *model, const struct mk_json *tree,
			      const struct mk_object_id *id, struct mk_error *err)
{
	struct service_cidr_entry *entry;
	struct mk_cidr cidr;
	int ret = mk_service_cidr_decode(tree, &cidr, err);

	if (ret < 0)
		return ret;
	HASH_FIND_STR(model->service_cidrs, id->name, entry);
	if (entry && mk_cidr_equal(&entry->cidr, &cidr))
		return 0;
	if (!entry) {
		entry = calloc(1, sizeof(*entry) + strlen(id->name) + 1);
		if (!entry)
			return mk_error_errno(err, ENOMEM, "new object");
		strcpy(entry->name, id->name);
		HASH_ADD_STR(model->service_cidrs, name, entry);
	}
	entry->cidr = cidr;
	tell_service_cidrs(model);
	return 0;
}

static void delete_service_cidr(struct mk_model *model, const char *name)
{
	struct service_cidr_entry *entry;

	HASH_FIND_STR(model->service_cidrs, name, entry);
	if (!entry)
		return;
	HASH_DEL(model->service_cidrs, entry);
	free(entry);
	tell_service_cidrs(model);
}

int mk_model_service_cidrs(const struct mk_model *model, struct mk_service_cidr **cidrs,
			   size_t *count)
{
	struct service_cidr_entry *entry, *next;

	*count = 0;
	*cidrs = calloc(HASH_COUNT(model->service_cidrs) + 1, sizeof(**cidrs));
	if (!*cidrs)
		return -ENOMEM;
	HASH_ITER(hh, model->service_cidrs, entry, next) {
		struct mk_service_cidr *cidr = &(*cidrs)[*count];

		if (entry->cidr.ip.family == AF_UNSPEC)
			continue;
		snprintf(cidr->name, sizeof(cidr->name), "%s", entry->name);
		cidr->cidr = entry->cidr;
		(*count)++;
	}
	return 0;
}

/* ---- whole model --------------------------------------------------------------------- */

int mk_model_apply(struct mk_model *model, json_object *tree, struct mk_error *err)
{
	const struct mk_json root = { .value = tree };
	struct mk_object_id id = { 0 };
	int ret = mk_model_identify(tree, &id.kind, &id.namespace_, &id.name, err);

	if (ret != 0)
		return ret;
	if (id.kind == MK_KIND_NODE)
		ret = apply_node(model, &root, &id, err);
	else if (id.kind == MK_KIND_SERVICE)
		ret = apply_service(model, &root, &id, err);
	else if (id.kind == MK_KIND_SERVICE_CIDR)
		ret = apply_service_cidr(model, &root, &id, err);
	else
		ret = apply_set(model, &root, &id, err);
	if (ret < 0)
		mk_error_wrap(err, "%s %s%s%s", mk_kind_name(id.kind), id.namespace_,
			      *id.namespace_ ? "/" : "", id.name);
	return ret;
}

void mk_model_delete(struct mk_model *model, enum mk_kind kind, const char *namespace_,
		     const char *name)
{
	if (kind == MK_KIND_NODE)
		delete_node(model, name);
	else if (kind == MK_KIND_SERVICE)
		delete_service(model, namespace_, name);
	else if (kind == MK_KIND_SERVICE_CIDR)
		delete_service_cidr(model, name);
	else if (kind == MK_KIND_ENDPOINT_SLICE || kind == MK_KIND_ENDPOINTS)
		delete_set(model, kind, namespace_, name);
}

void mk_model_free(struct mk_model *model)
{
	struct node_entry *node, *next_node;
	struct service_entry *service, *next_service;
	struct set_entry *set, *next_set;
	struct service_cidr_entry *cidr, *next_cidr;

	if (!model)
		return;
	model->listener = (struct mk_model_listener){ 0 };
	HASH_ITER(hh, model->nodes, node, next_node)
		delete_node(model, node->node.name);
	HASH_ITER(hh, model->services, service, next_service)
		delete_service(model, service->service.namespace_, service->service.name);
	HASH_ITER(hh, model->slices, set, next_set)
		delete_set(model, MK_KIND_ENDPOINT_SLICE, set->set.namespace_,
			   strchr(set->key, '/') + 1);
	HASH_ITER(hh, model->endpoints, set, next_set)
		delete_set(model, MK_KIND_ENDPOINTS, set->set.namespace_,
			   strchr(set->key, '/') + 1);
	HASH_ITER(hh, model->service_cidrs, cidr, next_cidr) {
		HASH_DEL(model->service_cidrs, cidr);
		free(cidr);
	}
	free(model);
}

/* ---- reading ------------------------------------------------------------------------- */

const struct mk_node_object *mk_model_node(const struct mk_model *model, const char *name)
{
	struct node_entry *entry;

	HASH_FIND_STR(model->nodes, name, entry);
	return entry ? &entry->node : NULL;
}

const struct mk_service_object *mk_model_service(const struct mk_model *model,
						 const char *namespace_, const char *name)
{
	struct service_entry *entry = find_service(model, namespace_, name);

	return entry ? &entry->service : NULL;
}

size_t mk_model_count(const struct mk_model *model, enum mk_kind kind)
{
	const size_t counts[MK_KIND_COUNT] = {
		[MK_KIND_NODE] = HASH_COUNT(model->nodes),
		[MK_KIND_SERVICE] = HASH_COUNT(model->services),
		[MK_KIND_ENDPOINT_SLICE] = HASH_COUNT(model->slices),
		[MK_KIND_ENDPOINTS] = HASH_COUNT(model->endpoints),
		[MK_KIND_SERVICE_CIDR] = HASH_COUNT(model->service_cidrs),
	};

	return counts[kind];
}

size_t mk_model_endpoint_count(const struct mk_model *model)
{
	return model->endpoint_count;
}

void mk_model_each_node(const struct mk_model *model,
			void (*visit)(void *ctx, const struct mk_node_object *node), void *ctx)
{
	struct node_entry *entry, *next;

	HASH_ITER(hh, model->nodes, entry, next)
		visit(ctx, &entry->node);
}

void mk_model_each_service(const struct mk_model *model,
			   void (*visit)(void *ctx, const struct mk_service_object *service),
			   void *ctx)
{
	struct service_entry *entry, *next;

	HASH_ITER(hh, model->services, entry, next)
		visit(ctx, &entry->service);
}

static int compare_pointers(const void *a, const void *b)
{
	return mk_endpoint_compare(*(const struct mk_endpoint *const *)a,
				   *(const struct mk_endpoint *const *)b);
}

/* The better state sorts first, so the first of those that name the same endpoint stays. */
static size_t keep_first(const struct mk_endpoint **endpoints, size_t count)
{
	size_t kept = 0;

	if (count == 0)
		return 0;
	for (size_t i = 1; i < count; i++)
		if (!mk_endpoint_same(endpoints[kept], endpoints[i]))
			endpoints[++kept] = endpoints[i];
	return kept + 1;
}

static void collect(const struct set_entry *entry, const struct mk_endpoint **endpoints,
		    size_t *count)
{
	for (size_t i = 0; i < entry->set.count; i++)
		endpoints[(*count)++] = &entry->set.endpoints[i];
}

int mk_model_endpoints(const struct mk_model *model, const char *namespace_, const char *name,
		       const struct mk_endpoint ***endpoints, size_t *count)
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
		collect(entry, *endpoints, count);
	qsort(*endpoints, *count, sizeof(**endpoints), compare_pointers);
	*count = keep_first(*endpoints, *count);
	return 0;
}

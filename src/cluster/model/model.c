// SPDX-License-Identifier: Apache-2.0
/* The model: a table per kind, and one index from Services to EndpointSlices. uthash ends the
 * process if it runs out of memory; the pinned datapath goes on without it. */
#include "cluster/model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cluster/model/model_internal.h"

void model_make_key(char *key, const char *namespace_, const char *name)
{
	snprintf(key, MK_MODEL_KEY_CHARS, "%s/%s", namespace_, name);
}

void *model_entry_new(size_t key_offset, const char *key)
{
	size_t key_bytes = strlen(key) + 1;
	char *entry = calloc(1, key_offset + key_bytes);

	if (entry)
		memcpy(entry + key_offset, key, key_bytes);
	return entry;
}

static void tell_node(const struct mk_model *model, const char *name)
{
	if (model->listener.node_changed)
		model->listener.node_changed(model->listener.ctx, name);
}

void model_tell_service(const struct mk_model *model, const char *namespace_, const char *name)
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

void mk_model_set_node(struct mk_model *model, const char *name)
{
	model->node_name = name;
}

void mk_model_set_clusterset(struct mk_model *model, const struct mk_clusterset *clusterset)
{
	model->clusterset = *clusterset;
}

void model_log_passed_over(const struct mk_object_id *id, const char *old, const char *now)
{
	if (now && text_compare(old, now) != 0)
		mk_log_warn("skipped: %s %s%s%s: %s", kind_name(id->kind), id->namespace_,
			    *id->namespace_ ? "/" : "", id->name, now);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static int apply_node(struct mk_model *model, const struct mk_json *tree,
		      const struct mk_object_id *id, struct mk_error *err)
{
	struct mk_node_object node = { 0 }, old;
	struct node_entry *entry;
	int ret = node_decode(&model->texts, tree, id, &node, err);

	HASH_FIND_STR(model->nodes, id->name, entry);
	if (ret == 0 && !entry) {
		entry = calloc(1, sizeof(*entry));
		if (!entry)
			ret = mk_error_errno(err, ENOMEM, "new object");
	} else if (ret == 0) {
		HASH_DEL(model->nodes, entry);
	}
	if (ret < 0) {
		node_release(&model->texts, &node);
		return ret;
	}
	old = entry->node;
	entry->node = node;
	HASH_ADD_KEYPTR(hh, model->nodes, entry->node.name, strlen(entry->node.name), entry);
	model_log_passed_over(id, old.passed_over, node.passed_over);
	if (!old.name || !node_equal(&old, &node))
		tell_node(model, entry->node.name);
	node_release(&model->texts, &old);
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
	node_release(&model->texts, &entry->node);
	free(entry);
}

/* ---- services -------------------------------------------------------------------------------- */

static struct service_entry *find_service(const struct mk_model *model, const char *namespace_,
					  const char *name)
{
	struct service_entry *entry;
	char key[MK_MODEL_KEY_CHARS];

	model_make_key(key, namespace_, name);
	HASH_FIND_STR(model->services, key, entry);
	return entry;
}

static struct service_entry *add_service(struct mk_model *model,
					 const struct mk_service_object *service)
{
	struct service_entry *entry;
	char key[MK_MODEL_KEY_CHARS];

	model_make_key(key, service->namespace_, service->name);
	entry = model_entry_new(offsetof(struct service_entry, key), key);
	if (!entry)
		return NULL;
	HASH_ADD_STR(model->services, key, entry);
	model->import_count += service->imported;
	return entry;
}

/* Decode a Service or a ServiceImport. */
static int decode_service(struct mk_model *model, const struct mk_json *tree,
			  const struct mk_object_id *id, struct mk_service_object *service,
			  struct mk_error *err)
{
	if (id->kind == MK_KIND_SERVICE_IMPORT)
		return service_import_decode(&model->texts, tree, id, &model->clusterset, service,
					     err);
	return service_decode(&model->texts, tree, id, service, err);
}

static int apply_service(struct mk_model *model, const struct mk_json *tree,
			 const struct mk_object_id *id, struct mk_error *err)
{
	struct mk_service_object service = { 0 }, old;
	struct service_entry *entry = NULL;
	int ret = decode_service(model, tree, id, &service, err);

	if (ret == 0) {
		entry = find_service(model, service.namespace_, service.name);
		if (!entry)
			entry = add_service(model, &service);
		if (!entry)
			ret = mk_error_errno(err, ENOMEM, "new object");
	}
	if (ret < 0) {
		service_release(&model->texts, &service);
		return ret;
	}
	old = entry->service;
	entry->service = service;
	model_log_passed_over(id, old.passed_over, service.passed_over);
	if (!old.name || !service_equal(&old, &service))
		model_tell_service(model, service.namespace_, service.name);
	service_release(&model->texts, &old);
	return 0;
}

static void delete_service(struct mk_model *model, const char *namespace_, const char *name)
{
	struct service_entry *entry = find_service(model, namespace_, name);

	if (!entry)
		return;
	HASH_DEL(model->services, entry);
	model->import_count -= entry->service.imported;
	model_tell_service(model, entry->service.namespace_, entry->service.name);
	service_release(&model->texts, &entry->service);
	free(entry);
}

static void delete_import(struct mk_model *model, const char *namespace_, const char *name)
{
	char service[MK_OBJECT_NAME_SIZE + sizeof(MK_CLUSTERSET_SUFFIX)];

	snprintf(service, sizeof(service), "%s" MK_CLUSTERSET_SUFFIX, name);
	delete_service(model, namespace_, service);
}

/* ---- ranges of Service addresses ------------------------------------------------------------- */

static void tell_service_cidrs(const struct mk_model *model)
{
	if (model->listener.service_cidrs_changed)
		model->listener.service_cidrs_changed(model->listener.ctx);
}

static int apply_service_cidr(struct mk_model *model, const struct mk_json *tree,
			      const struct mk_object_id *id, struct mk_error *err)
{
	struct service_cidr_entry *entry;
	struct mk_cidr cidrs[MK_FAMILIES];
	int ret = service_cidr_decode(tree, cidrs, err);

	if (ret < 0)
		return ret;
	HASH_FIND_STR(model->service_cidrs, id->name, entry);
	if (entry && mk_cidrs_equal(entry->cidrs, MK_FAMILIES, cidrs, MK_FAMILIES))
		return 0;
	if (!entry) {
		entry = model_entry_new(offsetof(struct service_cidr_entry, name), id->name);
		if (!entry)
			return mk_error_errno(err, ENOMEM, "new object");
		HASH_ADD_STR(model->service_cidrs, name, entry);
	}
	memcpy(entry->cidrs, cidrs, sizeof(cidrs));
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

static void collect_cidrs(const char *name, const struct mk_cidr ranges[MK_FAMILIES],
			  sa_family_t family, struct mk_service_cidr *cidrs, size_t *count)
{
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		struct mk_service_cidr *cidr = &cidrs[*count];

		if (ranges[i].ip.family == AF_UNSPEC ||
		    (family != AF_UNSPEC && ranges[i].ip.family != family))
			continue;
		snprintf(cidr->name, sizeof(cidr->name), "%s", name);
		cidr->cidr = ranges[i];
		(*count)++;
	}
}

int mk_model_service_cidrs(const struct mk_model *model, sa_family_t family,
			   struct mk_service_cidr **cidrs, size_t *count)
{
	size_t lists = HASH_COUNT(model->service_cidrs) + 1;
	struct service_cidr_entry *entry, *next;

	*count = 0;
	*cidrs = calloc(MK_FAMILIES * lists, sizeof(**cidrs));
	if (!*cidrs)
		return -ENOMEM;
	HASH_ITER(hh, model->service_cidrs, entry, next)
		collect_cidrs(entry->name, entry->cidrs, family, *cidrs, count);
	collect_cidrs(MK_CLUSTERSET_RANGE, model->clusterset.ranges, family, *cidrs, count);
	return 0;
}

/* ---- whole model ----------------------------------------------------------------------------- */

static bool is_unused(const struct mk_model *model, enum mk_kind kind)
{
	return !model->clusterset.cluster_name &&
	       (kind == MK_KIND_SERVICE_IMPORT || kind == MK_KIND_SERVICE_EXPORT ||
		kind == MK_KIND_PUBLISHED_SERVICE);
}

int mk_model_apply(struct mk_model *model, json_object *tree, struct mk_error *err)
{
	const struct mk_json root = { .value = tree };
	struct mk_object_id id = { 0 };
	int ret = mk_model_identify(tree, &id.kind, &id.namespace_, &id.name, err);

	if (ret != 0)
		return ret;
	if (is_unused(model, id.kind))
		return 1;
	if (id.kind == MK_KIND_NODE)
		ret = apply_node(model, &root, &id, err);
	else if (id.kind == MK_KIND_SERVICE || id.kind == MK_KIND_SERVICE_IMPORT)
		ret = apply_service(model, &root, &id, err);
	else if (id.kind == MK_KIND_SERVICE_CIDR)
		ret = apply_service_cidr(model, &root, &id, err);
	else if (model_is_policy_object(id.kind))
		ret = model_apply_policy_object(model, &root, &id, err);
	else
		ret = model_apply_set(model, &root, &id, err);
	if (ret < 0)
		mk_error_wrap(err, "%s %s%s%s", kind_name(id.kind), id.namespace_,
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
	else if (kind == MK_KIND_SERVICE_IMPORT)
		delete_import(model, namespace_, name);
	else if (kind == MK_KIND_SERVICE_CIDR)
		delete_service_cidr(model, name);
	else if (kind == MK_KIND_ENDPOINT_SLICE || kind == MK_KIND_ENDPOINTS)
		model_delete_set(model, kind, namespace_, name);
	else if (model_is_policy_object(kind))
		model_delete_policy_object(model, kind, namespace_, name);
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
		model_delete_set(model, MK_KIND_ENDPOINT_SLICE, set->set.namespace_,
				 strchr(set->key, '/') + 1);
	HASH_ITER(hh, model->endpoints, set, next_set)
		model_delete_set(model, MK_KIND_ENDPOINTS, set->set.namespace_,
				 strchr(set->key, '/') + 1);
	HASH_ITER(hh, model->service_cidrs, cidr, next_cidr) {
		HASH_DEL(model->service_cidrs, cidr);
		free(cidr);
	}
	model_free_policy_objects(model);
	free(model);
}

/* ---- reading --------------------------------------------------------------------------------- */

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
		[MK_KIND_SERVICE] = HASH_COUNT(model->services) - model->import_count,
		[MK_KIND_SERVICE_IMPORT] = model->import_count,
		[MK_KIND_ENDPOINT_SLICE] = HASH_COUNT(model->slices),
		[MK_KIND_ENDPOINTS] = HASH_COUNT(model->endpoints),
		[MK_KIND_SERVICE_CIDR] = HASH_COUNT(model->service_cidrs),
	};

	return model_is_policy_object(kind) ? model_policy_object_count(model, kind) : counts[kind];
}

size_t mk_model_endpoint_count(const struct mk_model *model, sa_family_t family)
{
	return model->endpoint_counts[mk_family_index(family)];
}

size_t mk_model_imported_endpoint_count(const struct mk_model *model)
{
	return model->imported_endpoints;
}

size_t mk_model_skipped_count(const struct mk_model *model)
{
	return model->skipped;
}

const void *mk_model_next(const struct mk_model *model, enum mk_kind kind, const void *object)
{
	const struct service_entry *service = object;
	const struct node_entry *node = object;

	if (kind == MK_KIND_NODE)
		return node ? node->hh.next : model->nodes;
	if (kind == MK_KIND_SERVICE)
		return service ? service->hh.next : model->services;
	return model_next_policy_object(model, kind, object);
}

bool mk_model_has_node_address(const struct mk_model *model, const struct mk_ip *ip)
{
	struct node_entry *entry, *next;

	HASH_ITER(hh, model->nodes, entry, next)
		if (mk_ips_contain(entry->node.addresses, entry->node.address_count, ip))
			return true;
	return false;
}

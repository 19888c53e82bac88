// SPDX-License-Identifier: Apache-2.0
/* test/fuzz/fuzz_published.c - objects of other clusters, as a JSON list: ClusterPeers,
 * PublishedClusters and PublishedNodes to the model, ServiceImports and PublishedServices to the
 * store of imports and merged, Services with their exports and slices published. Published objects
 * are read as for a copy, too. */
#include <json-c/json.h>

#include "base/error.h"
#include "cluster/model/model.h"
#include "clusterset/imports.h"
#include "clusterset/publish.h"
#include "fuzz/fuzz.h"

#define OBJECTS_MAX 32

const size_t fuzz_header_bytes;

static struct mk_cidr range(const char *text)
{
	struct mk_cidr cidr;

	fuzz_check(mk_cidr_parse(text, &cidr) == 0);
	return cidr;
}

/* West, east, and north, which may name pods of west. */
#define CLUSTERS 3
static const struct mk_imports_cluster *clusters_of_west(void)
{
	static struct mk_imports_cluster clusters[CLUSTERS];

	for (size_t i = 0; i < CLUSTERS; i++) {
		clusters[i].home[0] = clusters[i].view[0] = range("10.244.0.0/16");
		clusters[i].home[1] = clusters[i].view[1] = range("fd00:244::/56");
		clusters[i].external_home[0] = clusters[i].external_view[0] =
			range("247.255.0.0/28");
		clusters[i].external_home[1] = clusters[i].external_view[1] =
			range("fd6d:6b65:7800::/124");
	}
	clusters[0].name = "west";
	clusters[1].name = "east";
	clusters[1].view[0] = range("240.0.0.0/16");
	clusters[1].view[1] = range("fdee::/56");
	clusters[1].external_view[0] = range("240.1.0.0/28");
	clusters[1].external_view[1] = range("fdef::/124");
	clusters[2].name = "north";
	clusters[2].opens_pods = true;
	clusters[2].view[0] = range("240.2.0.0/16");
	clusters[2].view[1] = range("fdea::/56");
	clusters[2].external_view[0] = range("240.3.0.0/28");
	clusters[2].external_view[1] = range("fdeb::/124");
	return clusters;
}

static struct mk_imports *imports_of_west(void)
{
	const struct mk_imports_config config = {
		.own_cluster = "west",
		.clusterset = { range("247.254.0.0/28"), range("fd6d:6b63:7300::/124") },
	};
	struct mk_imports *imports = mk_imports_new(&config);
	struct mk_error err;

	fuzz_check(imports != NULL);
	for (size_t i = 0; i < CLUSTERS; i++)
		fuzz_check(mk_imports_set_cluster(imports, &clusters_of_west()[i], &err) == 0);
	return imports;
}

/* A refusal has a text. */
static void check_result(int ret, const struct mk_error *err)
{
	fuzz_check(ret >= 0 || (err->code == -ret && err->text[0] &&
				memchr(err->text, '\0', sizeof(err->text)) != NULL));
}

/* ---- what must hold for each result ---------------------------------------------------------- */

static const char *text_of(json_object *tree)
{
	return json_object_to_json_string_ext(tree, JSON_C_TO_STRING_PLAIN);
}

static bool is_of(json_object *slice, const char *cluster)
{
	json_object *labels =
		json_object_object_get(json_object_object_get(slice, "metadata"), "labels");

	return strcmp(json_object_get_string(json_object_object_get(
			      labels, "multicluster.kubernetes.io/source-cluster")),
		      cluster) == 0;
}

static bool is_in(const struct mk_cidr *range, const struct mk_ip *ip)
{
	return range->ip.family == ip->family && mk_cidr_contains(range, ip);
}

/* Another cluster's endpoint has a pod's or an external address of a peer's view, never another one
 * but for pods here that north names. The own cluster's endpoints may be outside: these have an
 * external address in other clusters. */
static void check_slice(json_object *slice)
{
	const struct mk_imports_cluster *of = clusters_of_west();
	json_object *endpoints = json_object_object_get(slice, "endpoints");

	for (size_t i = 0; i < json_object_array_length(endpoints); i++) {
		json_object *list = json_object_object_get(json_object_array_get_idx(endpoints, i),
							   "addresses");
		bool inside = is_of(slice, "west");
		struct mk_ip ip;

		fuzz_check(mk_ip_parse(json_object_get_string(json_object_array_get_idx(list, 0)),
				       &ip) == 0);
		for (size_t j = is_of(slice, "north") ? 0 : 1; j < CLUSTERS; j++)
			for (size_t k = 0; k < MK_FAMILIES; k++)
				inside |= is_in(&of[j].view[k], &ip) ||
					  (j > 0 && is_in(&of[j].external_view[k], &ip));
		fuzz_check(inside);
	}
}

static void merge(struct mk_imports *imports, const char *namespace_, const char *name)
{
	struct mk_merged once, again;
	struct mk_error err;
	int ret = mk_imports_merge(imports, namespace_, name, &once, &err);

	check_result(ret, &err);
	fuzz_check(mk_imports_merge(imports, namespace_, name, &again, &err) == ret);
	fuzz_check(once.slice_count == again.slice_count && !once.import == !again.import);
	if (once.import)
		fuzz_check(strcmp(text_of(once.import), text_of(again.import)) == 0);
	for (size_t i = 0; i < once.slice_count; i++) {
		fuzz_check(strcmp(text_of(once.slices[i]), text_of(again.slices[i])) == 0);
		check_slice(once.slices[i]);
	}
	mk_merged_release(&once);
	mk_merged_release(&again);
}

/* Every reader accepts what this cluster publishes. Some targets get no external address. */
static void publish(struct mk_imports *imports, json_object *service, json_object *export_,
		    json_object *const *slices, size_t count)
{
	const struct mk_cidr ranges[] = { range("247.255.0.0/28"), range("fd6d:6b65:7800::/124") };
	const struct mk_publish_own own = {
		.cluster = "west",
		.home = { range("10.244.0.0/16"), range("fd00:244::/56") },
		.externals = mk_externals_new(ranges),
		.peers = clusters_of_west() + 1,
		.peer_count = CLUSTERS - 1,
		.virtual = { range("240.0.0.0/6"), range("fd6d::/16") },
	};
	struct mk_publication result;
	struct mk_error err;

	fuzz_check(own.externals != NULL);
	fuzz_check(mk_publish(&own, export_, service, slices, count, &result, &err) == 0);
	for (size_t i = 0; i < result.part_count; i++)
		if (mk_imports_apply(imports, result.parts[i], &err) < 0)
			fuzz_check(err.code == E2BIG);
	mk_publication_release(&result);
	mk_externals_free(own.externals);
}

static json_object *member(json_object *tree, const char *key)
{
	return json_object_is_type(tree, json_type_object) ? json_object_object_get(tree, key)
							   : NULL;
}

/* A copy of what was read is read again as the same. */
static void copy(json_object *object, enum mk_published_kind kind)
{
	json_object *name = member(member(object, "metadata"), "name");
	const char *text = name ? json_object_get_string(name) : "";
	struct mk_published once = { 0 }, again = { 0 };
	struct mk_error err;
	int ret = mk_published_read(kind, text, object, &once, &err);

	check_result(ret, &err);
	if (ret == 0) {
		json_object *written = json_object_new_object();

		json_object_object_add(written, "metadata",
				       json_object_get(member(object, "metadata")));
		json_object_object_add(written, "spec", json_object_get(once.spec));
		fuzz_check(mk_published_read(kind, text, written, &again, &err) == 0);
		fuzz_check(strcmp(text_of(once.spec), text_of(again.spec)) == 0);
		json_object_put(written);
	}
	mk_published_release(&once);
	mk_published_release(&again);
}

/* ---- one input ------------------------------------------------------------------------------- */

struct input {
	struct mk_model *model;
	struct mk_imports *imports;
	json_object *service, *export_, *slices[OBJECTS_MAX];
	size_t slice_count;
};

static void take(struct input *input, json_object *object)
{
	json_object *kind_value = NULL;
	const char *kind;
	struct mk_error err = { 0 };

	if (!json_object_is_type(object, json_type_object))
		return;
	json_object_object_get_ex(object, "kind", &kind_value);
	kind = kind_value ? json_object_get_string(kind_value) : "";
	for (enum mk_published_kind i = 0; i < MK_PUBLISHED_KINDS; i++)
		if (strcmp(kind, mk_published_kind_name(i)) == 0)
			copy(object, i);
	if (strcmp(kind, "PublishedService") == 0)
		check_result(mk_imports_apply(input->imports, object, &err), &err);
	else if (strcmp(kind, "ServiceImport") == 0)
		check_result(mk_imports_hold(input->imports, object, &err), &err);
	else if (strcmp(kind, "Service") == 0)
		input->service = object;
	else if (strcmp(kind, "ServiceExport") == 0)
		input->export_ = object;
	else if (strcmp(kind, "EndpointSlice") == 0)
		input->slices[input->slice_count++] = object;
	else
		check_result(mk_model_apply(input->model, object, &err), &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	json_object *list = json_tokener_parse(text);
	struct input input = { .model = mk_model_new(), .imports = imports_of_west() };
	char namespace_[MK_IMPORTS_NAME_SIZE], name[MK_IMPORTS_NAME_SIZE];

	fuzz_check(input.model != NULL);
	if (json_object_is_type(list, json_type_array))
		for (size_t i = 0; i < json_object_array_length(list) && i < OBJECTS_MAX; i++)
			take(&input, json_object_array_get_idx(list, i));
	if (input.service && input.export_)
		publish(input.imports, input.service, input.export_, input.slices,
			input.slice_count);
	while (mk_imports_next(input.imports, namespace_, name))
		merge(input.imports, namespace_, name);
	mk_imports_free(input.imports);
	mk_model_free(input.model);
	json_object_put(list);
	free(text);
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
/* Objects that other clusters publish: untrusted trees in, trees with only the known members out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cluster/model/peer.h"
#include "clusterset/content.h"
#include "clusterset/publish.h"
#include "monokube/clusters.h"

#define NAME_BYTES   253
#define RANGES_BYTES 98
#define VERSIONS     16
#define ADDRESSES    16

static int no_memory(struct mk_error *err)
{
	return mk_error_errno(err, ENOMEM, "an object of a peer");
}

const char *mk_published_kind_name(enum mk_published_kind kind)
{
	static const char *const kinds[] = { [MK_PUBLISHED_CLUSTER] = "PublishedCluster",
					     [MK_PUBLISHED_NODE] = "PublishedNode",
					     [MK_PUBLISHED_SERVICE] = "PublishedService" };

	return kinds[kind];
}

/* ---- clusters and nodes ---------------------------------------------------------------------- */

static bool is_range(const char *text)
{
	struct mk_cidr cidr;

	return mk_cidr_parse(text, &cidr) == 0;
}

/* One range, or two with a comma between. */
static bool are_ranges(const char *text)
{
	char copy[RANGES_BYTES + 1];
	char *second;

	snprintf(copy, sizeof(copy), "%s", text);
	second = strchr(copy, ',');
	if (second)
		*second++ = '\0';
	return is_range(copy) && (!second || is_range(second));
}

static int copy_versions(struct maker *maker, json_object *from, json_object *to,
			 struct mk_error *err)
{
	json_object *list, *copied = make_list(maker);
	int ret = field_list(from, "wireVersions", VERSIONS, &list, err);

	for (size_t i = 0; ret == 0 && i < mk_json_length(list); i++) {
		json_object *item = json_object_array_get_idx(list, i);

		if (!json_object_is_type(item, json_type_int) || json_object_get_int64(item) < 1 ||
		    json_object_get_int64(item) > UINT8_MAX)
			ret = field_wrong("wireVersions", item, "numbers from 1 to 255", err);
		else
			append(maker, copied, json_object_new_int(json_object_get_int(item)));
	}
	put(maker, to, "wireVersions", copied);
	return ret;
}

static int read_cluster(struct maker *maker, const char *cluster, json_object *from,
			json_object *to, struct mk_error *err)
{
	const char *name, *ranges, *externals = NULL;
	int64_t number = 0;
	int ret = field_text(from, "name", NAME_BYTES, &name, err);

	if (ret == 0 && (!name || strcmp(name, cluster) != 0))
		return field_wrong("name", mk_json_member(from, "name"),
				   "the cluster that the label names", err);
	ret = ret ?: field_number(from, "number", 0, MK_CLUSTER_NUMBER_MAX, &number, err);
	ret = ret ?: field_text(from, "podCidr", RANGES_BYTES, &ranges, err);
	if (ret == 0 && (!ranges || !are_ranges(ranges)))
		return field_wrong("podCidr", mk_json_member(from, "podCidr"),
				   "a range such as 10.244.0.0/16, or one of each family", err);
	ret = ret ?: field_text(from, "externalCidr", RANGES_BYTES, &externals, err);
	if (ret == 0 && externals && !are_ranges(externals))
		return field_wrong("externalCidr", mk_json_member(from, "externalCidr"),
				   "a range such as 247.255.0.0/20, or one of each family", err);
	if (ret < 0)
		return ret;
	put_text(maker, to, "name", cluster);
	put_number(maker, to, "number", number);
	put_text(maker, to, "podCidr", ranges);
	put_text(maker, to, "externalCidr", externals);
	return copy_versions(maker, from, to, err);
}

static bool is_address(const char *text)
{
	struct mk_ip ip;

	return mk_ip_parse(text, &ip) == 0;
}

static int copy_texts(struct maker *maker, json_object *from, json_object *to, const char *key,
		      size_t max, bool (*is_good)(const char *text), struct mk_error *err)
{
	json_object *list, *copied = make_list(maker);
	int ret = field_list(from, key, max, &list, err);

	for (size_t i = 0; ret == 0 && i < mk_json_length(list); i++) {
		json_object *item = json_object_array_get_idx(list, i);

		if (!json_object_is_type(item, json_type_string) ||
		    !is_plain_text(item, RANGES_BYTES) || !is_good(json_object_get_string(item)))
			ret = field_wrong(key, item, "addresses or ranges", err);
		else
			append_text(maker, copied, json_object_get_string(item));
	}
	put(maker, to, key, copied);
	return ret;
}

static int copy_wireguard(struct maker *maker, json_object *from, json_object *to,
			  struct mk_error *err)
{
	json_object *wireguard = mk_json_member(from, "wireguard"), *copied;
	uint8_t key[MK_WG_KEY_BYTES];
	const char *text = NULL;
	int64_t port = 0;
	int ret;

	if (!wireguard)
		return 0;
	ret = field_text(wireguard, "publicKey", MK_WG_KEY_STRLEN, &text, err);
	ret = ret ?: field_number(wireguard, "port", 1, UINT16_MAX, &port, err);
	if (ret < 0)
		return ret;
	if (!text || mk_wg_key_parse(text, key) < 0 || !port)
		return field_wrong("wireguard", wireguard,
				   "publicKey, 32 bytes in base64, and a port", err);
	copied = make_object(maker);
	put_text(maker, copied, "publicKey", text);
	put_number(maker, copied, "port", port);
	put(maker, to, "wireguard", copied);
	return 0;
}

static int read_node(struct maker *maker, const char *cluster, const char *object,
		     json_object *from, json_object *to, struct mk_error *err)
{
	char expected[2 * NAME_BYTES];
	const char *node;
	int64_t port = 0;
	int ret = field_text(from, "node", NAME_BYTES, &node, err);

	if (ret < 0)
		return ret;
	snprintf(expected, sizeof(expected), "%s.%s", cluster, node ?: "");
	if (!node || strcmp(expected, object) != 0)
		return field_wrong("node", mk_json_member(from, "node"),
				   "a node so that the object is CLUSTER.NODE", err);
	put_text(maker, to, "node", node);
	ret = copy_texts(maker, from, to, "podCidrs", MK_FAMILIES, is_range, err);
	ret = ret ?: copy_texts(maker, from, to, "addresses", ADDRESSES, is_address, err);
	ret = ret ?: field_number(from, "port", 1, UINT16_MAX, &port, err);
	if (ret == 0 && port)
		put_number(maker, to, "port", port);
	return ret ?: copy_wireguard(maker, from, to, err);
}

/* ---- Services -------------------------------------------------------------------------------- */

/* The object is CLUSTER.NAMESPACE.NAME, and .PART after it if the part is not 0. */
static int check_object(const char *cluster, const char *object, const struct content *content,
			struct mk_error *err)
{
	char expected[2 * NAME_BYTES];
	int length = snprintf(expected, sizeof(expected), "%s.%s.%s", cluster, content->namespace_,
			      content->name);

	if (content->part > 0)
		snprintf(expected + length, sizeof(expected) - (size_t)length, ".%u",
			 content->part);
	if (strcmp(expected, object) == 0)
		return 0;
	return mk_error_set(err, EINVAL, "metadata.name: expected '%s' by its label and spec",
			    expected);
}

static void put_service(struct maker *maker, json_object *to, const struct content *content)
{
	json_object *slices = make_list(maker);

	put_content(maker, to, content);
	put_number(maker, to, "part", content->part);
	put_number(maker, to, "parts", content->parts);
	put_text(maker, to, "layout", content->layout);
	for (size_t i = 0; i < content->slice_count; i++)
		put_slice(maker, slices, &content->slices[i]);
	put(maker, to, "slices", slices);
}

static int read_service(struct maker *maker, const char *object, json_object *from, json_object *to,
			struct mk_published *published, struct mk_error *err)
{
	struct content *content = NULL;
	int ret = content_decode(from, &content, err);

	ret = ret ?: check_object(published->cluster, object, content, err);
	if (ret == 0) {
		put_service(maker, to, content);
		published->endpoint_count = content->endpoint_count;
		published->is_further = content->part > 0;
	}
	content_unref(content);
	return ret;
}

/* ---- all ------------------------------------------------------------------------------------- */

static int read_spec(enum mk_published_kind kind, struct maker *maker, const char *name,
		     json_object *from, struct mk_published *published, struct mk_error *err)
{
	json_object *to = published->spec;

	if (kind == MK_PUBLISHED_CLUSTER && strcmp(name, published->cluster) != 0)
		return mk_error_set(err, EINVAL, "metadata.name: expected '%s' by its label",
				    published->cluster);
	if (kind == MK_PUBLISHED_CLUSTER)
		return read_cluster(maker, published->cluster, from, to, err);
	if (kind == MK_PUBLISHED_NODE)
		return read_node(maker, published->cluster, name, from, to, err);
	return read_service(maker, name, from, to, published, err);
}

int mk_published_read(enum mk_published_kind kind, const char *name, json_object *tree,
		      struct mk_published *published, struct mk_error *err)
{
	json_object *spec = object_at(tree, "spec");
	struct maker maker = { 0 };
	int ret;

	published->cluster = text_at(object_at(tree, "metadata"), "labels", MK_CLUSTER_LABEL);
	if (!published->cluster || !mk_is_dns_label(published->cluster))
		return mk_error_set(err, EINVAL,
				    "metadata.labels: label " MK_CLUSTER_LABEL
				    " is '%.80s', expected the name of the cluster",
				    published->cluster ?: "");
	if (!spec)
		return mk_error_set(err, EINVAL, "spec is missing");
	published->spec = make_object(&maker);
	ret = read_spec(kind, &maker, name, spec, published, err);
	return ret == 0 && maker.failed ? no_memory(err) : ret;
}

void mk_published_release(struct mk_published *published)
{
	json_object_put(published->spec);
	*published = (struct mk_published){ 0 };
}

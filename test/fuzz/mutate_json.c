// SPDX-License-Identifier: Apache-2.0
/* test/fuzz/mutate_json.c - libFuzzer's mutator for inputs that are JSON. Most mutations change
 * values and keep valid JSON, so that they get past the parser. If an input has several documents,
 * one is changed and the bytes between them stay. Every third mutation is libFuzzer's. */
#include <json-c/json.h>
#include <stdbool.h>

#include "fuzz/fuzz.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

/* Values that decoders may handle wrongly. */
static const char *const values[] = {
	"null",
	"true",
	"{}",
	"[]",
	"[[]]",
	"\"\"",
	"0",
	"-1",
	"1",
	"65535",
	"65536",
	"4294967296",
	"1e400",
	"9223372036854775807",
	"\"300.1.1.1\"",
	"\"10.244.1.7\"",
	"\"10.0.0.0/33\"",
	"\"10.244.1.0/24\"",
	"\"fd00::1\"",
	"\"::\"",
	"\"::ffff:10.244.1.7\"",
	"\"fe80::1%eth0\"",
	"\"fd00:10:244:1::/64\"",
	"\"fd00::/129\"",
	"\"IPv6\"",
	"\"TCP\"",
	"\"SCTP\"",
	"\"None\"",
	"\"Local\"",
	"\"ClientIP\"",
	"\"LoadBalancer\"",
	"\"ExternalName\"",
	"\"a/b\"",
	"\"\\u0000\"",
	"\"\\ud800\"",
	"\"%s%n\"",
	"\"../../etc/x\"",
	"\"0.3.1\"",
	"\"1.1.0\"",
	"\"UDP\"",
	"\"node1\"",
	"\"north\"",
	"\"west\"",
	"\"a\"",
	"\"Cluster\"",
	"\"NodePort\"",
	"\"ClusterIP\"",
	"\"192.168.99.11\"",
	"\"web\"",
	"\"default\"",
	"\"IPv4\"",
	"\"VIP\"",
	"\"In\"",
	"\"NotIn\"",
	"\"Exists\"",
	"\"Egress\"",
	"\"Admin\"",
	"\"Accept\"",
	"\"Deny\"",
	"\"Always\"",
	"\"Succeeded\"",
	"\"ADDED\"",
	"\"DELETED\"",
	"\"BOOKMARK\"",
	"\"2026-11-21T08:12:59.123456Z\"",
};

static json_object *some_value(unsigned int *seed)
{
	return json_tokener_parse(
		values[(unsigned int)rand_r(seed) % (sizeof(values) / sizeof(values[0]))]);
}

static unsigned int below(unsigned int *seed, size_t limit)
{
	return limit ? (unsigned int)rand_r(seed) % (unsigned int)limit : 0;
}

static void change(json_object *node, unsigned int *seed, int depth);

static void change_object(json_object *node, unsigned int *seed, int depth)
{
	unsigned int at = below(seed, (size_t)json_object_object_length(node));
	char *key = NULL;

	json_object_object_foreach(node, name, value)
	{
		(void)value;
		if (at-- == 0)
			key = strdup(name);
	}
	if (!key)
		return;
	switch (below(seed, 6)) {
	case 0:
		json_object_object_del(node, key);
		break;
	case 1:
		json_object_object_add(node, key, some_value(seed));
		break;
	default:
		change(json_object_object_get(node, key), seed, depth + 1);
	}
	free(key);
}

static void change_array(json_object *node, unsigned int *seed, int depth)
{
	size_t length = json_object_array_length(node), at = below(seed, length);
	json_object *copy = NULL;

	switch (below(seed, 6)) {
	case 0:
		json_object_array_add(node, some_value(seed));
		break;
	case 1:
		if (length)
			json_object_array_del_idx(node, at, 1);
		break;
	case 2: /* one item twice */
		if (length &&
		    json_object_deep_copy(json_object_array_get_idx(node, at), &copy, NULL) == 0)
			json_object_array_add(node, copy);
		break;
	default:
		if (length)
			change(json_object_array_get_idx(node, at), seed, depth + 1);
	}
}

static void change(json_object *node, unsigned int *seed, int depth)
{
	if (depth > 32)
		return;
	switch (json_object_get_type(node)) {
	case json_type_object:
		change_object(node, seed, depth);
		break;
	case json_type_array:
		change_array(node, seed, depth);
		break;
	case json_type_int:
		json_object_set_int64(node, (int64_t)below(seed, 70000) - 100);
		break;
	case json_type_boolean:
		json_object_set_boolean(node, !json_object_get_boolean(node));
		break;
	case json_type_string:
		json_object_set_string(node,
				       values[below(seed, sizeof(values) / sizeof(values[0]))]);
		break;
	default:
		break;
	}
}

/* ---- documents within an input --------------------------------------------------------------- */

#define DOCUMENTS_MAX 64

struct document {
	size_t begin, end;
};

/* Past the value in brackets that begins at @at; 0: it does not end. */
static size_t end_of_document(const uint8_t *data, size_t size, size_t at)
{
	int depth = 0;

	for (bool quoted = false; at < size; at++) {
		uint8_t byte = data[at];

		if (byte == '\\' && quoted)
			at++;
		else if (byte == '"')
			quoted = !quoted;
		else if (!quoted && (byte == '{' || byte == '['))
			depth++;
		else if (!quoted && (byte == '}' || byte == ']') && --depth <= 0)
			return at + 1;
	}
	return 0;
}

static unsigned int find_documents(const uint8_t *data, size_t size, struct document *documents)
{
	unsigned int count = 0;
	size_t at = fuzz_header_bytes;

	while (at < size && count < DOCUMENTS_MAX) {
		size_t end = 0;

		if (data[at] == '{' || data[at] == '[')
			end = end_of_document(data, size, at);
		if (end)
			documents[count++] = (struct document){ at, end };
		at = end ? end : at + 1;
	}
	return count;
}

/* Put @text in the place of @document; what does not fit into @max_size is cut off. */
static size_t replace(uint8_t *data, size_t size, size_t max_size, struct document document,
		      const char *text, size_t length)
{
	size_t behind = size - document.end;

	if (document.begin + length > max_size)
		length = max_size - document.begin;
	if (document.begin + length + behind > max_size)
		behind = max_size - document.begin - length;
	memmove(data + document.begin + length, data + document.end, behind);
	memcpy(data + document.begin, text, length);
	return document.begin + length + behind;
}

/* One more or one fewer of the documents. */
static size_t change_list(uint8_t *data, size_t size, size_t max_size, struct document document,
			  unsigned int *seed)
{
	size_t length = document.end - document.begin;
	char *copy;

	if (below(seed, 2))
		return replace(data, size, max_size, document, "", 0);
	copy = malloc(length);
	if (!copy)
		return size;
	memcpy(copy, data + document.begin, length);
	document.begin = document.end;
	size = replace(data, size, max_size, document, copy, length);
	free(copy);
	return size;
}

static size_t change_document(uint8_t *data, size_t size, size_t max_size, struct document document,
			      unsigned int *seed)
{
	json_tokener *tokener = json_tokener_new();
	json_object *tree = NULL;
	const char *text;
	size_t length;

	if (tokener)
		tree = json_tokener_parse_ex(tokener, (const char *)data + document.begin,
					     (int)(document.end - document.begin));
	json_tokener_free(tokener);
	if (!tree)
		return LLVMFuzzerMutate(data, size, max_size);
	for (unsigned int count = 1 + below(seed, 3); count > 0; count--)
		change(tree, seed, 0);
	text = json_object_to_json_string_length(
		tree, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &length);
	size = replace(data, size, max_size, document, text, length);
	json_object_put(tree);
	return size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	struct document documents[DOCUMENTS_MAX], chosen;
	unsigned int count = 0;

	if (seed % 3)
		count = find_documents(data, size, documents);
	if (count == 0)
		return LLVMFuzzerMutate(data, size, max_size);
	for (size_t i = 0; i < fuzz_header_bytes; i++)
		if (below(&seed, 16) == 0)
			data[i] = (uint8_t)rand_r(&seed);
	chosen = documents[below(&seed, count)];
	if (below(&seed, 8) == 0)
		return change_list(data, size, max_size, chosen, &seed);
	return change_document(data, size, max_size, chosen, &seed);
}

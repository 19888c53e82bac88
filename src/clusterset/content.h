/* SPDX-License-Identifier: Apache-2.0 */
/* src/clusterset/content.h - what a PublishedService says, typed; private to this folder. publish.c
 * makes it of a Service, imports.c reads it from other clusters. decode.c reads trees, encode.c
 * writes them. */
#ifndef MK_CLUSTERSET_CONTENT_H
#define MK_CLUSTERSET_CONTENT_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/ip.h"
#include "clusterset/fields.h"

#define CONTENT_PORTS	    128 /* of a Service, or of a slice */
#define CONTENT_SLICES	    1000 /* of one part */
#define CONTENT_PAIRS	    64 /* labels, or annotations */
#define CONTENT_ADDRESSES   100 /* of an endpoint; the first one counts */
#define CONTENT_HINTS	    8
#define CONTENT_NAME_CHARS  253
#define CONTENT_VALUE_BYTES 4096 /* of an annotation */
#define CONTENT_PAIRS_BYTES 16384 /* of all annotations */

struct port {
	char *name; /* "": a Service may have one port without name */
	const char *protocol; /* "TCP", "UDP" or "SCTP" */
	char *app_protocol; /* NULL: none */
	uint16_t number;
};

enum condition { CONDITION_ABSENT, CONDITION_FALSE, CONDITION_TRUE };

struct endpoint {
	struct mk_ip ip; /* home address, or external address of @target */
	struct mk_ip target; /* an endpoint that is no pod; AF_UNSPEC: it is one */
	char *cluster; /* another one, in which the pod is; NULL: the one that publishes it */
	uint8_t ready, serving, terminating; /* enum condition */
	char *node, *zone, *hostname; /* NULL: none */
	char *hints; /* zones with commas between; NULL: none */
};

struct slice {
	char *name; /* of the EndpointSlice; first, for mk_compare_texts() */
	char *trigger; /* when its last change began, RFC 3339; NULL: not known */
	sa_family_t family;
	struct port *ports;
	size_t port_count;
	struct endpoint *endpoints; /* sorted by address, each once */
	size_t endpoint_count;
};

struct pair {
	char *key, *value; /* @key first, for mk_compare_texts() */
};

struct content {
	unsigned int references;
	char *namespace_, *name;
	char *relayed_by; /* the hub that has shown it; NULL: none */
	bool is_headless;
	char *exported; /* creationTimestamp of the ServiceExport; NULL: none, the oldest */
	int64_t exported_unix_s;
	struct port *ports;
	size_t port_count;
	bool has_affinity; /* ClientIP */
	int64_t affinity_s; /* 0: no sessionAffinityConfig */
	bool is_local; /* internalTrafficPolicy: Local */
	char *distribution; /* trafficDistribution; NULL: none */
	bool families[MK_FAMILIES];
	struct pair *labels, *annotations; /* sorted by key */
	size_t label_count, annotation_count;
	unsigned int part, parts;
	char *layout; /* equal in all parts of one division into parts; NULL: one part */
	struct slice *slices; /* sorted by name, each once */
	size_t slice_count;
	size_t endpoint_count; /* of all slices */
	bool names_clusters; /* an endpoint is in another cluster */
};

/* Annotation of an EndpointSlice: when its last change began. */
#define TRIGGER_ANNOTATION "endpoints.kubernetes.io/last-change-trigger-time"

/* ---- decode.c -------------------------------------------------------------------------------- */

/* Read spec of a PublishedService. The caller puts *@content. -EINVAL, -ENOMEM. */
mk_must_check int content_decode(json_object *spec, struct content **content, struct mk_error *err);
struct content *content_ref(struct content *content);
void content_unref(struct content *content);

/* Read ports of a Service, of a slice (@of_slice: ports without number are left out). */
mk_must_check int ports_decode(json_object *parent, bool of_slice, struct port **ports,
			       size_t *count, struct mk_error *err);
/* Read addressType, ports and endpoints of an EndpointSlice or of a published slice. *@slice is
 * zeros; the caller releases it, also after an error. */
mk_must_check int slice_decode(json_object *tree, struct slice *slice, struct mk_error *err);
void slice_release(struct slice *slice);
void endpoint_release(struct endpoint *endpoint);
/* Read the members of Service.spec that are those of a PublishedService: sessionAffinity and its
 * configuration, internalTrafficPolicy, trafficDistribution, ipFamilies. */
mk_must_check int policies_decode(json_object *spec, struct content *content, struct mk_error *err);
/* Sort the slices of a part by name. -EINVAL: two have one name. */
mk_must_check int slices_sort(struct content *content, struct mk_error *err);

/* ---- pairs.c --------------------------------------------------------------------------------- */

/* Read @key of @parent as labels or annotations that may be exported. @note is NULL: one that may
 * not is -EINVAL. Otherwise it is left out, and *@note names the first one. */
mk_must_check int pairs_decode(json_object *parent, const char *key, bool are_labels,
			       struct pair **pairs, size_t *count, char **note,
			       struct mk_error *err);
void pairs_release(struct pair *pairs, size_t count);
bool pairs_equal(const struct pair *a, size_t a_count, const struct pair *b, size_t b_count);
void put_pairs(struct maker *maker, json_object *parent, const struct pair *pairs, size_t count);

/* ---- encode.c -------------------------------------------------------------------------------- */

/* Add the members of @content but for its slices. */
void put_content(struct maker *maker, json_object *spec, const struct content *content);
/* Add the members that a ServiceImport has in common with @content: sessionAffinity and its
 * configuration; unless @is_alpha, also internalTrafficPolicy and trafficDistribution. */
void put_policies(struct maker *maker, json_object *spec, const struct content *content,
		  bool is_alpha);
void put_ports(struct maker *maker, json_object *parent, const struct port *ports, size_t count);
void put_slice(struct maker *maker, json_object *list, const struct slice *slice);
/* Append an endpoint with address @ip. @is_own: with its node's name. */
void append_endpoint(struct maker *maker, json_object *list, const struct endpoint *endpoint,
		     const struct mk_ip *ip, bool is_own);

/* ---- text.c ---------------------------------------------------------------------------------- */

/* A stable hash of texts (FNV-1a): of the bytes of @text, after those of @seed. */
#define HASH_SEED 0xcbf29ce484222325U
uint64_t hash_text(uint64_t seed, const char *text);
/* Spread a hash of texts that differ in few characters, to take some of its bits. */
uint64_t hash_mix(uint64_t hash);
/* Set *@note, unless it is set. Returns -ENOMEM or 0. */
__attribute__((format(printf, 2, 3))) mk_must_check int note_first(char **note, const char *format,
								   ...);
/* Append to *@text, with @separator before it unless it is NULL. Returns -ENOMEM or 0. */
__attribute__((format(printf, 3, 4))) mk_must_check int add_text(char **text, const char *separator,
								 const char *format, ...);

#endif

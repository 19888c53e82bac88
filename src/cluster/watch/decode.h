/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/watch/decode.h - decode the bytes of one object for the model. An unchanged object is
 * recognised by its bytes, without decoding. Before decoding, unused members are left out:
 * managedFields alone are half of a list, and of a Pod a tenth is used. */
#ifndef MK_CLUSTER_WATCH_DECODE_H
#define MK_CLUSTER_WATCH_DECODE_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Bytes within another text, not terminated. @text NULL: absent. */
struct mk_span {
	const char *text;
	size_t size;
};

bool span_is(struct mk_span span, const char *text);

/* One line of a watch. */
struct mk_watch_event {
	struct mk_span type; /* without its quotes */
	struct mk_span object;
};

mk_must_check int watch_event_read(const char *text, size_t size, struct mk_watch_event *event,
				   struct mk_error *err);

/* What identifies an object. Valid names and versions contain no escapes or NULs; a value with one
 * counts as absent. */
struct mk_object_head {
	struct mk_span kind; /* also absent if it comes after the metadata */
	struct mk_span name, namespace_, uid, resource_version;
	bool initial_events_end; /* the annotation of the bookmark that ends a streaming list */
};

mk_must_check int object_head_read(struct mk_span object, struct mk_object_head *head,
				   struct mk_error *err);

struct mk_decoder;

/* @unused: paths of members to leave out ("metadata.managedFields", "endpoints.targetRef":
 * lists add nothing to a path), NULL-terminated. Or else @kept: paths of the only members to keep.
 * Without both, all are kept. The list must live as long as the decoder. NULL: out of memory. */
mk_must_check struct mk_decoder *decoder_new(const char *const *unused, const char *const *kept);
void decoder_free(struct mk_decoder *decoder);

/* Decode @object. The caller releases *@tree with json_object_put(). */
mk_must_check int decode_object(struct mk_decoder *decoder, struct mk_span object,
				json_object **tree, struct mk_error *err);

/* Set kind and apiVersion if they are missing: a list's items have neither. */
mk_must_check int decode_complete(json_object *tree, const char *api_version, const char *kind,
				  struct mk_error *err);

#endif

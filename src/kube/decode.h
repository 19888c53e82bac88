/* SPDX-License-Identifier: Apache-2.0 */
/* src/kube/decode.h - from the bytes of one object to what the model takes. An object that did not
 * change since it was last seen is recognised from its bytes, without decoding; of one that is
 * decoded, members that nothing here reads (managedFields are half of a list) are left out first. */
#ifndef MK_KUBE_DECODE_H
#define MK_KUBE_DECODE_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Bytes within another text: not terminated. @text NULL: absent. */
struct mk_span {
	const char *text;
	size_t size;
};

bool mk_span_is(struct mk_span span, const char *text);

/* One line of a watch. */
struct mk_watch_event {
	struct mk_span type; /* without its quotes */
	struct mk_span object;
};

mk_must_check int mk_watch_event_read(const char *text, size_t size, struct mk_watch_event *event,
				      struct mk_error *err);

/* Who an object is. Names and versions never contain escapes or NULs; what does is seen as absent. */
struct mk_object_head {
	struct mk_span kind; /* absent, too, where it comes after the metadata */
	struct mk_span name, namespace_, uid, resource_version;
	bool initial_events_end; /* the annotation of the bookmark that ends a streaming list */
};

mk_must_check int mk_object_head_read(struct mk_span object, struct mk_object_head *head,
				      struct mk_error *err);

struct mk_decoder;

/* Members to leave out, by path ("metadata.managedFields", "endpoints.targetRef": lists add nothing
 * to a path), NULL-terminated; lives as long as the decoder. Returns NULL: out of memory. */
mk_must_check struct mk_decoder *mk_decoder_new(const char *const *unused);
void mk_decoder_free(struct mk_decoder *decoder);

/* @tree becomes the caller's (json_object_put). */
mk_must_check int mk_decode(struct mk_decoder *decoder, struct mk_span object, json_object **tree,
			    struct mk_error *err);

/* A list's items say neither kind nor apiVersion: set them where they are missing. */
mk_must_check int mk_decode_complete(json_object *tree, const char *api_version, const char *kind,
				     struct mk_error *err);

#endif

// SPDX-License-Identifier: Apache-2.0
/* test/fuzz/fuzz_watch.c - what an API server sends: a list or a watch, cut into pieces anywhere,
 * down to the model. The first byte says which, and how long the pieces are. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "kube/decode.h"
#include "kube/splitter.h"
#include "model/model.h"

static const char *const unused[] = { "metadata.managedFields", "endpoints.targetRef", NULL };

struct feeding {
	struct mk_model *model;
	struct mk_decoder *decoder;
	bool list;
};

static int take(struct feeding *feeding, struct mk_span object)
{
	struct mk_object_head head;
	struct mk_error err = { 0 };
	json_object *tree = NULL;

	(void)!mk_object_head_read(object, &head, &err);
	if (mk_decode(feeding->decoder, object, &tree, &err) < 0)
		return 0;
	if (mk_decode_complete(tree, "discovery.k8s.io/v1", "EndpointSlice", &err) == 0)
		(void)!mk_model_apply(feeding->model, tree, &err);
	json_object_put(tree);
	return 0;
}

static int see_object(void *ctx, const char *text, size_t size, struct mk_error *err)
{
	struct feeding *feeding = ctx;
	struct mk_watch_event event;

	if (feeding->list)
		return take(feeding, (struct mk_span){ text, size });
	if (mk_watch_event_read(text, size, &event, err) < 0)
		return 0;
	return event.object.text ? take(feeding, event.object) : 0;
}

static int see_document(void *ctx, const char *text, size_t size, struct mk_error *err)
{
	(void)ctx, (void)text, (void)size, (void)err;
	return 0;
}

static void feed(struct feeding *feeding, const uint8_t *data, size_t size, size_t piece)
{
	const struct mk_splitter_handler handler = { see_object, see_document, feeding };
	struct mk_splitter *splitter =
		mk_splitter_new(feeding->list ? MK_SPLIT_LIST : MK_SPLIT_EVENTS, &handler);
	struct mk_error err = { 0 };
	int ret = 0;

	fuzz_check(splitter != NULL);
	for (size_t at = 0; ret == 0 && at < size; at += piece)
		ret = mk_splitter_feed(splitter, (const char *)data + at,
				       size - at < piece ? size - at : piece, &err);
	if (ret == 0)
		(void)!mk_splitter_end(splitter, &err);
	mk_splitter_free(splitter);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feeding feeding = { .model = mk_model_new(), .decoder = mk_decoder_new(unused) };

	fuzz_check(feeding.model && feeding.decoder);
	if (size) {
		feeding.list = data[0] & 1;
		feed(&feeding, data, size, 1 + (data[0] >> 1));
	}
	mk_decoder_free(feeding.decoder);
	mk_model_free(feeding.model);
	return 0;
}

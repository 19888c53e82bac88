/* SPDX-License-Identifier: Apache-2.0 */
/* src/kube/splitter.h - cut JSON into objects while it arrives, in pieces of any size: the lines of
 * a watch, or the `items` of a list one by one, so that no list is ever held whole. What is handed
 * over is balanced, not yet known to be JSON: the decoder says that. */
#ifndef MK_KUBE_SPLITTER_H
#define MK_KUBE_SPLITTER_H

#include <stddef.h>

#include "base/error.h"

/* etcd takes 1.5 MiB; what the server adds (field names, managedFields) fits many times. */
#define MK_SPLITTER_MAX_OBJECT (16 * 1024 * 1024)

enum mk_splitter_mode {
	MK_SPLIT_EVENTS, /* objects one after the other, white space between them */
	MK_SPLIT_LIST, /* one object, whose member `items` is cut into its elements */
};

struct mk_splitter_handler {
	/* One event or one item. @text is valid during the call, and not terminated by NUL. A
	 * negative return ends the feeding; it is what mk_splitter_feed() then returns. */
	int (*object)(void *ctx, const char *text, size_t size, struct mk_error *err);
	/* Lists only: the document is complete; @text is all of it except the items. */
	int (*document)(void *ctx, const char *text, size_t size, struct mk_error *err);
	void *ctx;
};

struct mk_splitter;

/* NULL: out of memory. */
mk_must_check struct mk_splitter *mk_splitter_new(enum mk_splitter_mode mode,
						  const struct mk_splitter_handler *handler);
void mk_splitter_free(struct mk_splitter *splitter);

/* After a failure the splitter takes no more. */
mk_must_check int mk_splitter_feed(struct mk_splitter *splitter, const char *data, size_t size,
				   struct mk_error *err);

/* The stream has ended: -EPROTO if it ended within an object, or a list without having begun. */
mk_must_check int mk_splitter_end(const struct mk_splitter *splitter, struct mk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/watch/splitter.h - cut JSON into objects while it arrives in pieces of any size: the
 * lines of a watch, or the `items` of a list one by one. So no list is held whole. The objects'
 * brackets are balanced, but only the decoder checks that they are JSON. */
#ifndef MK_CLUSTER_WATCH_SPLITTER_H
#define MK_CLUSTER_WATCH_SPLITTER_H

#include <stddef.h>

#include "base/error.h"

/* etcd accepts 1.5 MiB; the server's additions (field names, managedFields) fit many times. */
#define MK_SPLITTER_MAX_OBJECT (16 * 1024 * 1024)

enum mk_splitter_mode {
	MK_SPLIT_EVENTS, /* objects one after the other, white space between them */
	MK_SPLIT_LIST, /* one object, whose member `items` is split */
};

struct mk_splitter_handler {
	/* One event or one item. @text is valid during the call and not NUL-terminated. A negative
	 * return ends the feeding, and splitter_feed() returns it. */
	int (*object)(void *ctx, const char *text, size_t size, struct mk_error *err);
	/* Lists only: the document is complete; @text is all of it without the items. */
	int (*document)(void *ctx, const char *text, size_t size, struct mk_error *err);
	void *ctx;
};

struct mk_splitter;

/* NULL: out of memory. */
mk_must_check struct mk_splitter *splitter_new(enum mk_splitter_mode mode,
					       const struct mk_splitter_handler *handler);
void splitter_free(struct mk_splitter *splitter);

/* Process @data. After a failure, further calls fail. */
mk_must_check int splitter_feed(struct mk_splitter *splitter, const char *data, size_t size,
				struct mk_error *err);

/* The stream has ended. -EPROTO: within an object, or before the end of the list. */
mk_must_check int splitter_end(const struct mk_splitter *splitter, struct mk_error *err);

#endif

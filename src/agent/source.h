/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/source.h - what tells the cluster's objects, and hears what this node has to say: a
 * cluster directory or an API server. The agent does not ask which. */
#ifndef MK_AGENT_SOURCE_H
#define MK_AGENT_SOURCE_H

#include <limits.h>
#include <stdbool.h>
#include <uv.h>

#include "config/config.h"
#include "kube/clock.h"
#include "kube/cluster_dir.h"
#include "kube/reflector.h"
#include "model/model.h"

#define MK_SERVICE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

/* Which one @config means, in words for people. Without any: an error that names the ways there are.
 * Looks only whether there is a service account in @account_dir. */
struct mk_source_text {
	char text[2 * PATH_MAX + 64];
};
mk_must_check int mk_source_choose(const struct mk_config *config, const char *account_dir,
				   struct mk_source_text *text, struct mk_error *err);

struct mk_source;

/* Follow what @config says, from @loop, into @model, both the caller's. @listed: as for
 * mk_cluster_dir_start(). */
mk_must_check struct mk_source *mk_source_start(uv_loop_t *loop, const struct mk_config *config,
						struct mk_model *model, mk_listed_fn *listed,
						void *ctx, struct mk_error *err);

/* No callback comes after this; not from within one. @source may be NULL. */
void mk_source_stop(struct mk_source *source);

/* This node's network works: pods may come. */
void mk_source_ready(struct mk_source *source);

/* Returns false for a directory, which is not asked for anything. */
bool mk_source_stats(const struct mk_source *source,
		     struct mk_reflector_stats stats[MK_RESOURCE_COUNT]);

/* NULL: a directory has none. */
const struct mk_api_clock *mk_source_clock(const struct mk_source *source);

/* What an operator must know about this node. @reason is one word in CamelCase. */
void mk_source_warn(struct mk_source *source, const char *reason, const char *message);

/* The address that the API server last answered from; false: not known, or none is followed. */
bool mk_source_server(const struct mk_source *source, struct mk_ip *ip);

#endif

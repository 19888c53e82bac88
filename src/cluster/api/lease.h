/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/api/lease.h - one leader among many processes, by a Lease of coordination.k8s.io/v1.
 *
 * The holder renews the Lease. Another candidate takes it when it has not seen a renewal for the
 * Lease's duration, by its own clock: clocks of nodes need not agree. Each write names the version
 * that was read, so only one candidate succeeds. The holder counts from when it asked for the last
 * renewal, and stops write_ms after that. This is before another candidate can take the Lease, so
 * there are never two that hold it. */
#ifndef MK_CLUSTER_API_LEASE_H
#define MK_CLUSTER_API_LEASE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "cluster/api/http.h"

struct mk_lease;

struct mk_lease_timing {
	unsigned int duration_s; /* the Lease is free this long after its last renewal */
	uint64_t renew_ms; /* the holder renews, and others look, this often */
	uint64_t write_ms; /* the holder stops this long after its last renewal; < duration_s */
	uint64_t refused_ms; /* until a server that refuses the request is asked again */
};

extern const struct mk_lease_timing mk_lease_timing_default;

struct mk_lease_options {
	const char *namespace_, *name; /* of the Lease */
	const char *holder; /* who this process is: unique, and the same after its restart */
	const char *remedy; /* for messages, if the server refuses the request */
	const struct mk_lease_timing *timing; /* NULL: the default */
	/* Called from the loop when it begins or ceases to hold the Lease. It must not free. */
	void (*changed)(void *ctx, bool holds);
	void *ctx;
};

/* Nothing is requested until mk_lease_want(). @options' texts and @http must live longer. NULL:
 * error. */
mk_must_check struct mk_lease *mk_lease_new(uv_loop_t *loop, struct mk_http *http,
					    const struct mk_lease_options *options,
					    struct mk_error *err);
/* Free; nothing is called after this. The memory is freed after the loop has run its close
 * callbacks. @lease may be NULL. */
void mk_lease_free(struct mk_lease *lease);

/* Be a candidate or not. A holder that no longer wants it releases the Lease. */
void mk_lease_want(struct mk_lease *lease, bool wanted);

/* Does this process hold the Lease at this instant? Also right after the host slept. */
bool mk_lease_holds(const struct mk_lease *lease);

/* Is it no candidate any more, and about to release what it held? */
bool mk_lease_is_releasing(const struct mk_lease *lease);

#endif

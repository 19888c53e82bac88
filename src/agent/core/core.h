/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/core/core.h - what all parts of the agent share: the settings, the loop, the cluster's
 * objects, the tables, and which parts have to look again. A part takes its own struct and this
 * one, and knows of other parts only those below it. Some parts exist once per family of addresses:
 * such a part takes a struct mk_family.
 *
 * A part compares what should be with what is and corrects the difference: its function
 * reconcile(). It returns a number of repairs, MK_WAIT, MK_AGAIN, or an error. */
#ifndef MK_AGENT_CORE_CORE_H
#define MK_AGENT_CORE_CORE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "agent/report/repairs.h"
#include "cluster/source.h"
#include "cluster/model/model.h"
#include "config/config.h"
#include "datapath/datapath.h"
#include "overlay/overlay.h"

#define MK_WAIT	   1 /* something must change first; the log has named it once */
#define MK_AGAIN   2 /* the step has more to do in the next turn of the loop */
#define MK_TURN_NS 20000000ULL /* time that a step may take in one turn of the loop */

/* Parts that have to look again, bits. */
enum mk_unsure {
	MK_UNSURE_NODE = 1, /* a Node object, an interface or an address changed */
	MK_UNSURE_OVERLAY = 2,
	MK_UNSURE_HOOKS = 4, /* a filter or qdisc changed */
	MK_UNSURE_ADDRESSES = 8, /* the pod CIDR changed */
	MK_UNSURE_SANDBOXES = 16, /* a pod came or went on this node */
	MK_UNSURE_NODE_ADDRESSES = 32, /* what policies know of nodes inside the overlay changed */
	MK_UNSURE_PORTS = 64, /* a function pod's port came or went on this node */
};

/* Warnings sent as Events on the Node. */
enum mk_warning {
	MK_WARN_NODE, /* the settings and the Node object do not fit together */
	MK_WARN_SERVICE_CIDR, /* a ServiceCIDR that is not routed as a whole */
	MK_WARN_NODES_LEFT_OUT, /* other nodes that the overlay cannot reach */
	MK_WARN_TABLE_FULL,
	MK_WARN_NETWORKS, /* a configured range overlaps a network of the host */
	MK_WARN_POD_CIDR, /* pods have addresses outside the node's pod CIDR */
	MK_WARN_HEALTH_PORT, /* a healthCheckNodePort that is in use already */
	MK_WARN_FAMILY, /* a configured family that the Node object lacks */
	MK_WARN_PEER_VIEW, /* views of other clusters that this node cannot have */
	MK_WARNINGS
};

/* What was said last; NULL: nothing. */
struct mk_notices {
	char *said; /* what the agent waits for or failed at */
	bool failed; /* `said` is an error */
	char *state; /* for the command line */
	char *warned[MK_WARNINGS]; /* by Event */
};

struct mk_core;

/* A family of addresses on this node, with its own datapath. */
struct mk_family {
	struct mk_core *core;
	sa_family_t family; /* AF_INET, AF_INET6 */
	bool runs; /* it is configured, and the Node has a pod CIDR of it */
	char dir[PATH_MAX]; /* of its pins (datapath/maps/pin.h) */
	struct mk_datapath *datapath; /* NULL: not loaded */
	unsigned int loads; /* of `datapath`: another one knows nothing of its predecessor */
};

struct mk_core {
	struct mk_config config;
	struct mk_family families[MK_FAMILIES]; /* by mk_family_index() */
	uv_loop_t loop;
	struct mk_model *model;
	struct mk_source *source;
	struct mk_nl *nl;
	struct mk_overlay *overlay;
	bool listed; /* the source has read everything it can, once */
	bool complete; /* ... and understood all of it: an absent object does not exist */
	unsigned int unsure; /* enum mk_unsure */
	unsigned int writes; /* table entries and kernel objects changed since the start */
	struct mk_repairs repairs;
	struct mk_notices notices;
	uv_timer_t steps, checks; /* see work.c, checks.c */
	uv_timer_cb on_steps, on_checks;
};

mk_must_check int mk_core_start(struct mk_core *core, struct mk_error *err);
/* Free what notices.c has copied. */
void mk_core_release(struct mk_core *core);
/* Is the datapath loaded? */
static inline bool mk_family_is_loaded(const struct mk_family *family)
{
	return family->datapath != NULL;
}
/* ... and are its programs on the hooks? */
bool mk_family_is_attached(const struct mk_family *family);
/* ... and are its tables free of what an earlier agent left? */
bool mk_family_is_pruned(const struct mk_family *family);
/* ... and have its tables service function chains, of this agent or of an earlier one? */
bool mk_family_has_chains(const struct mk_family *family);
/* Does @test hold for a family of this node? For all that run, and is there one? */
typedef bool mk_family_test(const struct mk_family *family);
bool mk_core_any(const struct mk_core *core, mk_family_test *test);
bool mk_core_all(const struct mk_core *core, mk_family_test *test);
/* Has a family been loaded again since its `loads` were @loads? */
bool mk_core_is_fresh(const struct mk_core *core, const unsigned int loads[MK_FAMILIES]);
/* Run the steps in at most @delay_ms. */
void mk_core_schedule(struct mk_core *core, uint64_t delay_ms);
/* ... because these parts (enum mk_unsure) have to look again. */
void mk_core_mark(struct mk_core *core, unsigned int unsure, uint64_t delay_ms);
/* Run the checks of @unsure soon, together with those of further notifications. */
void mk_core_check_soon(struct mk_core *core, enum mk_unsure unsure);

/* notices.c: tell the operator, once per text. Keep a copy of @text in *@last, which is freed.
 * Returns whether it is new. */
bool mk_is_news(char **last, const char *text);
/* Send an Event that an operator must see. Returns whether the text is new. */
bool mk_core_warn(struct mk_core *core, enum mk_warning warning, const char *text);
/* The cause is gone: if it comes back, send the Event again. */
void mk_core_warn_over(struct mk_core *core, enum mk_warning warning);
/* Log what the agent waits for. Returns MK_WAIT. */
int mk_core_wait_for(struct mk_core *core, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Does a table have no space left, or the kernel no memory for an entry? */
bool mk_is_full(const struct mk_error *err);
/* The steps failed; they did not. */
void mk_core_failed(struct mk_core *core, const struct mk_error *err);
void mk_core_fine(struct mk_core *core);
/* Store for the command line: @text, or what the agent waits for or failed at. */
void mk_core_write_state(struct mk_core *core, const char *text);

#endif

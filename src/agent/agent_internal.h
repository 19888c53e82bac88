/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/agent_internal.h - the agent: its parts, and what calls them. A part is a struct with
 * its own header; it takes no agent and knows only parts above it in this list:
 *
 *	core		what all share: settings, loop, objects, tables, what has to be looked at
 *	node		this node: addresses, uplinks, devices, programs, peers
 *	policies	network policies
 *	sfc		service function chains
 *	clusters	other clusters
 *	leader		what one agent does for all
 *	files, hooks, pods, health
 *	services	the Services of each family:
 *		linger		settings and routes that flows still need
 *		sessions	the sweep
 *		queue		dirty Services, to tables and routes
 *	latency, rtnl
 *
 * Two tables call the parts' reconcile(): the steps of work.c after changes, in order, and the
 * checks of checks.c regularly. */
#ifndef MK_AGENT_AGENT_INTERNAL_H
#define MK_AGENT_AGENT_INTERNAL_H

#include "agent/clusters/clusters.h"
#include "agent/health_server.h"
#include "agent/install.h"
#include "agent/leader/leader.h"
#include "agent/policy/policies.h"
#include "agent/programming_latency.h"
#include "agent/rtnl_events.h"
#include "agent/sfc/sfc.h"
#include "agent/service_queue.h"
#include "agent/report/metrics.h"
#include "pod/endpoint/endpoint.h"

#define AGENT_CHECKS_MAX 35

/* A check that waits for a lock or fails. */
struct agent_check {
	bool again; /* at the next tick */
	unsigned int waits; /* tries in a row that found a lock held */
	char *said; /* why it fails, as last logged; NULL: it does not */
};

struct agent_checks {
	unsigned int turn;
	uint64_t turned_ms; /* time of the last turn, by the loop's clock */
	unsigned int overlay_turns; /* since the overlay was looked at */
	int64_t clock_seen_ms; /* mk_api_clock.earliest_ms at the last look */
	bool clock_off; /* as last logged */
	struct agent_check state[AGENT_CHECKS_MAX];
};

struct agent_steps {
	uint64_t listed_ns,
		listed_cpu_ns; /* of the first list: time, and CPU time used until then */
	uint64_t after_lists_ns; /* from the first list until the agent was ready */
	bool ready;
	unsigned int backoff_ms, lock_waits;
	struct mk_histogram seconds; /* of turns */
	uint64_t failures;
};

/* For metrics: what was exported last. */
struct agent_scrape {
	struct mk_pod_traffic pods;
	char *services_text; /* answer of /metrics/services; NULL: none yet */
	uint64_t services_text_ns;
};

struct agent_process {
	struct mk_source_text source_text;
	uv_signal_t signals[2];
	int lock_fd;
	bool must_restart; /* the process ends as if it had failed */
	struct agent_scrape scrape;
	struct mk_leader
		*leader; /* what this process may do for all nodes; NULL: no cluster_name, or no
				   * API server */
};

/* The Services of a family. */
struct agent_side {
	struct agent_linger linger;
	struct agent_sessions sessions;
	struct agent_services services;
};

struct mk_agent {
	struct mk_core core;
	struct mk_own_node node;
	struct mk_node_policies policies;
	struct mk_node_sfc sfc;
	struct mk_node_clusters clusters;
	struct agent_files files;
	struct agent_hooks hooks;
	struct agent_pods pods;
	struct agent_health health;
	struct agent_side sides[MK_FAMILIES];
	struct agent_latency latency;
	struct agent_rtnl rtnl;
	struct agent_steps steps;
	struct agent_checks checks;
	struct agent_process process;
};

/* Define a function of a table's row: @call, with the parts of `agent`. */
#define ROW(name, call)                                               \
	static int name(struct mk_agent *agent, struct mk_error *err) \
	{                                                             \
		(void)agent;                                          \
		(void)err;                                            \
		return call;                                          \
	}

/* Define a function of a table's row: @call for each @family of the node for which @ready holds,
 * with its @side and @own. Returns the sum of the results, or the first error. */
#define FAMILY_ROW(name, ready, call)                                                  \
	static int name##_of(struct mk_agent *agent, unsigned i, struct mk_error *err) \
	{                                                                              \
		struct mk_family *family = &agent->core.families[i];                   \
		struct mk_own_family *own = &agent->node.families[i];                  \
		struct agent_side *side = &agent->sides[i];                            \
		(void)own;                                                             \
		(void)side;                                                            \
		(void)err;                                                             \
		return ready(family) ? call : 0;                                       \
	}                                                                              \
	static int name(struct mk_agent *agent, struct mk_error *err)                  \
	{                                                                              \
		return agent_each_family(agent, name##_of, err);                       \
	}

/* agent.c: run @row for both families. */
typedef int agent_family_row(struct mk_agent *agent, unsigned i, struct mk_error *err);
mk_must_check int agent_each_family(struct mk_agent *agent, agent_family_row *row,
				    struct mk_error *err);

/* former.c: refuse a start with another primary family while there are pods. */
mk_must_check int agent_check_primary(const struct mk_config *config, struct mk_error *err);
/* Give devices that the last run made the names of today's settings. */
mk_must_check int agent_rename_devices(const struct mk_config *config, struct mk_nl *nl,
				       struct mk_error *err);
/* Move the last run's CNI configuration to today's cniConfFilePath. */
mk_must_check int agent_move_conf(const struct mk_config *config, struct mk_error *err);
/* Move the last run's pins to today's bpfDir. */
mk_must_check int agent_move_pins(const struct mk_config *config, struct mk_error *err);
/* Remove the half of a family that clusterCidr does not have any more. */
mk_must_check int agent_remove_former(struct mk_core *core, struct mk_error *err);

/* work.c: run the steps. */
void agent_work(struct mk_agent *agent);
void agent_steps_init(struct agent_steps *state);

/* checks.c: run the checks whose turn has come, or that a notification asked for. */
void agent_check(struct mk_agent *agent);
void agent_checks_start(struct mk_agent *agent);
void agent_checks_free(struct agent_checks *checks);

/* metrics_read.c: an mk_httpd_handler. */
void agent_metrics_answer(void *ctx, const char *path, struct mk_httpd_reply *reply);

#endif

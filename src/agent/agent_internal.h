/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/agent_internal.h - the agent's state, and the steps that bring the node to what the
 * model says. Changes only mark something dirty; work.c runs the steps once per turn of the loop:
 *
 *	own node (node.c): addresses, uplink, devices, constants -> datapath loaded
 *	Services (services.c): compile, tables
 *	hooks: attached when the tables are filled
 *	CNI plugin installed (install.c)
 *	overlay: routes, neighbours, FDB
 *	leftovers of earlier runs removed, once every list is complete
 *	CNI configuration installed, which tells runtimes that the node works
 *
 * A step returns 0, MK_WAIT (nothing to do before something changes; what for was said once), or
 * an error; then the rest waits for the next attempt. */
#ifndef MK_AGENT_AGENT_INTERNAL_H
#define MK_AGENT_AGENT_INTERNAL_H

#include <linux/netlink.h>
#include <sys/types.h>
#include <time.h>
#include <uthash.h>
#include <uv.h>

#include "agent/metrics.h"
#include "agent/repair.h"
#include "agent/source.h"
#include "base/histogram.h"
#include "config/addresses.h"
#include "config/config.h"
#include "datapath/datapath.h"
#include "datapath/fullness.h"
#include "datapath/lasting.h"
#include "datapath/sweep.h"
#include "datapath/witness.h"
#include "http/httpd.h"
#include "model/model.h"
#include "overlay/networks.h"
#include "overlay/overlay.h"

#define MK_WAIT		   1
#define MK_TURN_NS	   20000000ULL /* so long of a turn of the loop takes a step at once */
#define MK_AGAIN	   2 /* a step has more to do, in the next turn of the loop */
#define MK_CHANGED_DEVICES 32
#define MK_GONE_DEVICES	   16
#define MK_FAILING_MAX	   16 /* more than repair.c looks after */

/* What is reported as an Event on the Node. */
enum mk_warning {
	MK_WARN_NODE, /* the settings and the Node object do not fit together */
	MK_WARN_SERVICE_CIDR, /* a range that cannot be used as a whole */
	MK_WARN_NODES_LEFT_OUT, /* others that the overlay cannot reach */
	MK_WARN_TABLE_FULL,
	MK_WARN_NETWORKS, /* a range of the settings has a network of the host inside */
	MK_WARN_POD_CIDR, /* pods have addresses outside the node's pod CIDR */
	MK_WARN_HEALTH_PORT, /* a healthCheckNodePort that somebody else has */
	MK_WARNINGS
};

/* A Service by "namespace/name": is there something to do, which addresses routes lead to. */
struct agent_service {
	char *key;
	char *namespace_, *name;
	bool dirty; /* in the agent's list */
	unsigned int tried; /* the round in which it failed last; 0: changed since */
	uint16_t odd_node_port; /* outside nodePortRange, as said; 0: none */
	bool was_there; /* the model had it when it was last worked on */
	struct agent_service *prev, *next; /* of that */
	struct mk_ip *vips; /* sorted, each once */
	size_t vip_count;
	UT_hash_handle hh;
};

/* Dirty Services are worked on in rounds, each of as many turns as it takes. */
struct agent_round {
	unsigned int number;
	bool gone_done; /* those that are not in the model any more are */
	bool untold; /* the programs were not told what follows from them */
	int status; /* of the first that failed */
	struct mk_error err;
};

/* A device to outside. */
struct agent_uplink {
	struct mk_link link;
	struct mk_cidr addr; /* source of what leaves masqueraded by it, and its network */
	int suits; /* scratch: how well */
	uint32_t flags; /* enum mk_uplink_flags */
};

struct agent_uplinks {
	struct agent_uplink uplink[MK_UPLINKS_MAX]; /* the first carries the overlay */
	size_t count;
	bool too_many, some_missing; /* ... of those that are named */
	bool ask_host; /* the host's routing chooses, for each packet */
};

/* A device of the host with an address or a route (ways.c). */
struct agent_way {
	int ifindex;
	bool main; /* has an address of the Node, or a default route */
	bool has_default;
	struct mk_ip source; /* that its routes name; AF_UNSPEC: none do */
	bool several_sources;
};

struct agent_ways {
	struct agent_way way[256];
	size_t count;
	bool has_rules; /* ... that choose among tables */
	bool odd; /* there are routes that are no plain way by one device */
};

/* Programs that a thread loads (load.c). While it runs, all but the state is the thread's. */
struct agent_load {
	enum { MK_LOAD_NONE, MK_LOAD_RUNS, MK_LOAD_ENDED } state;
	uv_work_t work;
	struct mk_node node;
	bool adopts; /* what the last run left, or nothing */
	struct mk_datapath *datapath;
	struct mk_error err;
	int ret;
};

/* What is known about this node, from its object and its kernel. */
struct agent_node {
	struct mk_addresses addresses;
	struct mk_ip internal_ip;
	struct mk_ip *service_ips; /* where NodePorts answer */
	size_t service_ip_count;
	char *zone;
	struct agent_uplinks uplinks;
	char *uplinks_said, *ports_said; /* as logged last */
	uint32_t mtu_bytes; /* of pods */
	struct mk_devices devices;
	struct mk_ip *local; /* every address of the host, sorted */
	size_t local_count;
};

/* Which file it was: another one, or another content, differs in one of them. */
struct agent_file {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed;
};

/* A field of struct mk_runtime that flows may need for longer than Services do (lasting.c). */
struct agent_setting {
	int told; /* as the programs know it; -1: whoever was before said it */
	struct mk_lasting lasting;
};

/* What repair.c cannot look after, and why, as logged last. */
struct agent_failing {
	const char *what; /* NULL: none yet */
	unsigned int waits; /* looks in a row at which a lock was held */
	char text[256]; /* "": it can */
};

/* A device that is gone, and the pod whose it was; "": nobody's. */
struct agent_gone_device {
	uint32_t ifindex;
	char pod[256];
};

/* NodePorts at loopback addresses, as the programs know them; max 0: none. */
struct agent_localhost_ports {
	bool told;
	uint16_t min, max;
};

/* What the agent counts about itself, for metrics. */
struct agent_stats {
	struct mk_histogram work; /* turns, in seconds */
	uint64_t work_failures, addresses_reaped;
	uint64_t sweep_passes, sweep_busy_ns, sweep_last_ns;
	struct mk_pod_traffic pods; /* as told last */
	uint64_t pass_since_ns; /* of the pass under way; 0: none */
	char *services_text; /* what /metrics/services said last; NULL: nothing yet */
	uint64_t services_text_ns;
};

struct mk_agent {
	struct mk_config config;
	uv_loop_t loop;
	uv_signal_t on_term, on_int;
	uv_timer_t work_timer, sweep_timer, minute_timer, reap_timer, names_timer, repair_timer;
	uv_poll_t monitor;
	bool has_monitor;
	int lock_fd;

	struct mk_model *model;
	struct mk_model *remembered; /* this node's object as the last run saw it; NULL: none */
	char *remembered_text; /* as it is written down */
	bool adoption_over, adopted; /* it was tried; it was possible */
	struct mk_source *source;
	struct mk_source_text source_text;
	struct mk_nl *nl;
	struct mk_overlay *overlay;
	struct mk_datapath *datapath;
	struct agent_load load; /* of the next one */
	struct mk_sweep *sweep;
	struct mk_witnesses witnesses; /* of map sessions */
	struct agent_service *services, *dirty; /* all; those with something to do */
	struct agent_round round; /* through the dirty ones */
	struct agent_health *health;
	struct agent_node node;
	struct mk_networks networks; /* the host's, as read last */
	bool ranges_shared; /* one of them overlaps vtepCidr or clusterCidr, and the node is at work */
	struct mk_overlay_plan plan;
	struct mk_service_cidr *service_cidrs; /* as the source says */
	struct mk_cidr *service_ranges; /* those of them that can be used; room for all */
	size_t service_cidr_count, service_range_count;

	uint64_t listed_ns,
		listed_cpu_ns; /* when it was so first, and the CPU time used until then */
	uint64_t after_lists_ns; /* from then until the agent was ready */
	bool listed; /* the source has read everything it can, once */
	bool complete; /* ... and all of it made sense: what is not there does not exist */
	bool node_dirty; /* a Node object, an interface or an address changed */
	bool node_waits; /* the node's step could not go on without something */
	bool vips_dirty; /* a Node object changed: an address may be a node's now, or no longer */
	bool overlay_dirty;
	bool sysctls_done, plugin_installed, conf_installed, pruned, ready, failed;
	uint32_t names_serial; /* of the accounts, as file services.names has them */
	struct agent_setting host_backends, frontends_gone;
	struct agent_localhost_ports localhost_ports;
	uint32_t udp_ports_told; /* mk_service_sync_udp_ports()'s serial */
	struct agent_vip *lingering; /* routes that flows need though no Service does, by address */
	bool sweep_again; /* what the pass under way has passed is to be looked at again */
	char *state; /* as written for the command line */
	char *said; /* what is waited for, or failed, as logged last */
	char *left_out; /* nodes, as logged last */
	char *warned[MK_WARNINGS]; /* by Event, as sent last */
	unsigned int backoff_ms;
	struct mk_repairs repairs;
	struct agent_file conf_file, plugin_file; /* as written or found right last */
	bool hooks_dirty; /* some filter may have changed somewhere */
	/* filters or qdiscs of these devices have; more of them are `hooks_dirty` */
	int changed_devices[MK_CHANGED_DEVICES];
	size_t changed_device_count;
	struct agent_failing failing[MK_FAILING_MAX];
	unsigned int look, overlay_looks; /* counters of the round of repair.c */
	uint64_t looked_ms; /* when it made its last step, by the loop's clock */
	int pod_pause;
	struct agent_gone_device gone_devices[MK_GONE_DEVICES]; /* the last ones */
	size_t gone_device_count;
	bool pods_unsure; /* some pod's device may be gone */
	struct mk_ip *lost; /* addresses of pods that have none, as said */
	size_t lost_count;
	size_t host_ports_known; /* entries at the last look; SIZE_MAX: none yet */
	struct agent_stats stats;
	unsigned int lock_waits, reap_waits; /* tries since a lock was free */
	bool addresses_repaired;
	int64_t clock_seen_ms; /* mk_api_clock.earliest_ms as looked at last */
	bool clock_off; /* ... and said */
	struct mk_fullness fullness[MK_SESSION_TABLES];
	unsigned int writes; /* table entries and kernel objects changed since the start */
};

/* agent.c: have work_run() called soon. */
void mk_agent_schedule(struct mk_agent *agent, uint64_t delay_ms);
uint64_t mk_agent_now_ns(void);
/* CPU time that the process has used. */
uint64_t mk_agent_cpu_ns(void);

/* work.c */
void mk_agent_work(struct mk_agent *agent);
/* Something an operator must know: an Event, once per text. Was it news? */
bool mk_agent_warn(struct mk_agent *agent, enum mk_warning warning, const char *text);
/* It is over: should it come again, it is told again. */
void mk_agent_warn_over(struct mk_agent *agent, enum mk_warning warning);
/* Write down in what state the agent is, for the command line. */
void mk_agent_write_state(struct mk_agent *agent, const char *text);
/* Log once what nothing can go on without. Returns MK_WAIT. */
int mk_agent_wait_for(struct mk_agent *agent, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* node.c */
mk_must_check int mk_agent_step_node(struct mk_agent *agent, struct mk_error *err);
/* Before the first list: devices and programs as the last run left them. */
mk_must_check int mk_agent_step_node_early(struct mk_agent *agent, struct mk_error *err);
/* pod_cidr.c: an Event while pods have addresses outside the node's pod CIDR. */
mk_must_check int mk_agent_look_outside_pod_cidr(struct mk_agent *agent, struct mk_error *err);
/* upkeep.c: look at the pods' addresses now, not in the next minute. */
void mk_agent_addresses_soon(struct mk_agent *agent);
/* remember.c: this node's object, written down for the next run; and as the last one wrote it. */
void mk_agent_remember_node(struct mk_agent *agent, const struct mk_node_object *object);
void mk_agent_recall_node(struct mk_agent *agent);
/* What the operator has to bring about: an Event, and the log. Returns MK_WAIT. */
int mk_agent_lacks(struct mk_agent *agent, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Only whether the settings suit the Node object, if there is one. */
mk_must_check int mk_agent_check_addresses(const struct mk_agent *agent, struct mk_error *err);
/* Returns how many were set. @again: somebody else has changed them. */
mk_must_check int mk_agent_apply_sysctls(const struct mk_agent *agent, bool again,
					 struct mk_error *err);
void mk_agent_node_release(struct agent_node *node);

/* load.c: have the datapath loaded with these constants. Returns 0 if it is, MK_WAIT while a thread does it. */
mk_must_check int mk_agent_load(struct mk_agent *agent, const struct mk_node *node,
				struct mk_error *err);
/* Only what is pinned and needs no load; MK_WAIT, too, where there is nothing of that kind. */
mk_must_check int mk_agent_adopt(struct mk_agent *agent, const struct mk_node *node,
				 struct mk_error *err);
void mk_agent_load_release(struct mk_agent *agent);
void mk_agent_drop_datapath(struct mk_agent *agent);

/* networks.c: the ranges of the settings, beside the host's own networks. Refuses a node that is not yet
 * at work; reports what it finds on one that is. */
mk_must_check int mk_agent_check_networks(struct mk_agent *agent,
					  const struct mk_addresses *addresses,
					  struct mk_error *err);

/* local.c: every IPv4 address of the host but loopback's; the caller frees *@ips. */
mk_must_check int mk_agent_local_addresses(struct mk_nl *nl, struct mk_ip **ips, size_t *count,
					   struct mk_error *err);
/* The interface that holds @ip; -ENODEV. */
mk_must_check int mk_agent_interface_of(struct mk_nl *nl, const struct mk_ip *ip, int *ifindex,
					struct mk_error *err);

/* uplinks.c: the devices to outside, at least one; MK_WAIT where there is none yet. */
mk_must_check int mk_agent_find_uplinks(struct mk_agent *agent, const struct mk_node_object *object,
					struct agent_uplinks *found, struct mk_error *err);
/* ways.c */
mk_must_check int mk_agent_read_ways(const struct mk_agent *agent,
				     const struct mk_node_object *object, struct agent_ways *ways,
				     struct mk_error *err);
bool mk_agent_is_node_address(const struct mk_node_object *object, const struct mk_ip *ip);
/* Can something leave otherwise than by @first, with its address? Pure. */
bool mk_agent_must_ask(const struct agent_ways *ways, const struct agent_uplink *first);
/* May a device like this be one? Pure. */
bool mk_agent_can_be_uplink(const struct mk_config *config, const struct mk_link *link);
/* Their part of what the programs know. Pure. */
void mk_agent_uplink_links(const struct agent_uplinks *uplinks, struct mk_datapath_links *links);
/* node.c: all of it. */
void mk_agent_links(const struct agent_node *node, struct mk_datapath_links *links);
/* Do NodePorts answer at 127.0.0.1? localhostNodePorts, unless nodePortAddresses leave it out. Pure. */
bool mk_agent_localhost_node_ports(const struct mk_config *config);
/* Where NodePorts answer: nodePortAddresses. Pure; the caller frees *@ips. */
mk_must_check int mk_agent_node_port_ips(const struct mk_config *config,
					 const struct mk_node_object *object,
					 const struct mk_ip *local, size_t local_count,
					 struct mk_ip **ips, size_t *count, struct mk_error *err);
/* Log what changed of both. */
void mk_agent_say_node(struct agent_node *node);

/* routes.c: what map `routes` should hold. Pure; the caller frees *@entries. */
struct mk_routes_input {
	const struct mk_config *config;
	const struct mk_addresses *own;
	const struct mk_overlay_plan *plan;
	const struct mk_ip *local;
	size_t local_count;
	const struct mk_cidr *service_ranges;
	size_t service_range_count;
};
mk_must_check int mk_agent_routes(const struct mk_routes_input *input,
				  struct mk_route_entry **entries, size_t *count,
				  struct mk_error *err);

/* Which ranges of Service addresses can be dropped and routed as a whole: into @usable, which has room
 * for all. One that overlaps pods' or VTEPs' addresses or has a node's, or a network of the host, inside
 * would cut those off;
 * its Services keep a route each. Returns how many are left out, and @why names them. Pure. */
struct mk_ranges_input {
	const struct mk_config *config;
	const struct mk_overlay_plan *plan;
	const struct mk_ip *internal_ip;
	const struct mk_networks *networks; /* the host's */
	const struct mk_service_cidr *ranges;
	size_t count;
};
int mk_agent_usable_ranges(const struct mk_ranges_input *input, struct mk_cidr *usable,
			   struct mk_error *why);

/* services.c */
/* A NodePort of @service outside nodePortRange; 0: none. Pure. */
uint16_t mk_agent_odd_node_port(const struct mk_config *config,
				const struct mk_service_object *service);
void mk_agent_service_dirty(struct mk_agent *agent, const char *namespace_, const char *name);
void mk_agent_all_services_dirty(struct mk_agent *agent);
/* The same by "namespace/name"; of one that is not known nothing. */
void mk_agent_service_again(struct mk_agent *agent, const char *key);
bool mk_agent_service_is_dirty(struct mk_agent *agent, const char *key);
mk_must_check int mk_agent_step_services(struct mk_agent *agent, struct mk_error *err);
void mk_agent_services_free(struct mk_agent *agent);

/* install.c */
struct mk_cni_conf_values {
	const struct mk_config *config;
	struct mk_cidr pod_cidr;
	uint32_t mtu_bytes;
};
/* Replace the ${...} of @template; the caller frees the result. NULL: @err, also for a
 * placeholder nobody knows. Pure. */
char *mk_cni_conf_render(const char *template, const struct mk_cni_conf_values *values,
			 struct mk_error *err);
mk_must_check int mk_agent_step_plugin(struct mk_agent *agent, struct mk_error *err);
mk_must_check int mk_agent_step_conf(struct mk_agent *agent, struct mk_error *err);

/* Were the files changed since? Returns how many, logs each, and has them installed again. */
int mk_agent_check_files(struct mk_agent *agent);

/* repair.c: the look at everything that somebody else may have changed. */
mk_must_check int mk_agent_repair_start(struct mk_agent *agent, struct mk_error *err);
/* A filter or qdisc of somebody's is gone: look at all hooks. */
void mk_agent_hooks_soon(struct mk_agent *agent);
/* ... those of one device. */
void mk_agent_hook_soon(struct mk_agent *agent, int ifindex);
/* The overlay's step ran: count what it put back. */
void mk_agent_overlay_repaired(struct mk_agent *agent);

/* lasting.c: what flows need that outlive what they were opened by. */
void mk_agent_settings_forget(struct mk_agent *agent);
/* Write to map `runtime` what the programs were told. Returns 1 if it said something else, else 0. */
mk_must_check int mk_agent_sync_runtime(const struct mk_agent *agent, struct mk_error *err);
/* ... to map `udp_ports`. */
mk_must_check int mk_agent_sync_udp_ports(const struct mk_agent *agent, struct mk_error *err);
/* After Services or the node's addresses changed. */
mk_must_check int mk_agent_tell_host_backends(struct mk_agent *agent, struct mk_error *err);
/* ... after Services did. */
mk_must_check int mk_agent_tell_localhost_ports(struct mk_agent *agent, struct mk_error *err);
mk_must_check int mk_agent_tell_udp_ports(struct mk_agent *agent, struct mk_error *err);
/* For mk_service_sync_on_loss(); @ctx is the agent. */
mk_must_check int mk_agent_losing(void *ctx, struct mk_error *err);
/* A Service has given up @ip: its use of the overlay's route is taken over. */
void mk_agent_vip_lingers(struct mk_agent *agent, const struct mk_ip *ip);
/* For mk_overlay_on_left_vip(); @ctx is the agent. */
void mk_agent_vip_was_left(void *ctx, const struct mk_ip *ip);
void mk_agent_lingering_free(struct mk_agent *agent);
/* The sweep: an entry stays; a pass ended; will the next one give something up? */
void mk_agent_flow_stays(struct mk_agent *agent, const struct mk_tuple *key,
			 const struct mk_session *session);
void mk_agent_pass_ended(struct mk_agent *agent);
bool mk_agent_pass_decides(const struct mk_agent *agent);
/* Does anything stay only as long as some flow is found? */
bool mk_agent_asks_for_flows(const struct mk_agent *agent);

/* upkeep.c: sessions, retired backends, and what is looked at every minute. */
mk_must_check int mk_agent_upkeep_start(struct mk_agent *agent, struct mk_error *err);
/* Services came or went: write their names down, within a second. */
void mk_agent_names_soon(struct mk_agent *agent);
/* Does the API server's clock differ from this node's? Said, and written down for `monokube check`. */
void mk_agent_see_clock(struct mk_agent *agent);
/* Has somebody emptied map `sessions`? Said; nothing can bring them back. */
void mk_agent_look_for_sessions(struct mk_agent *agent);
/* Sweep at once, all of it: backends are gone. */
void mk_agent_sweep_now(struct mk_agent *agent);

/* health_server.c. Serving begins when the agent is known to be alone on this node; after stop the
 * loop has to run before free. */
mk_must_check int mk_agent_health_start(struct mk_agent *agent, struct mk_error *err);
void mk_agent_health_serve(struct mk_agent *agent);
void mk_agent_health_stop(struct mk_agent *agent);
void mk_agent_health_free(struct mk_agent *agent);
/* The cluster says something new; all that it says is written. */
void mk_agent_health_queued(struct mk_agent *agent);
void mk_agent_health_updated(struct mk_agent *agent);
/* Service @key is written as @compiled says: open, close or count at its healthCheckNodePort. */
void mk_agent_health_service(struct mk_agent *agent, const char *key,
			     const struct mk_compiled_service *compiled);

/* health_latency.c: endpoints changed because of something at @unix_ns (0: see mk_model_listener);
 * Services that are not dirty any more are written. */
void mk_agent_latency_triggered(struct mk_agent *agent, const char *namespace_, const char *name,
				int64_t unix_ns);
void mk_agent_latency_written(struct mk_agent *agent);
void mk_agent_latency_forget(struct mk_agent *agent);
/* In seconds, since the start: for metrics. */
const struct mk_histogram *mk_agent_latency(const struct mk_agent *agent);

/* metrics_read.c: an mk_httpd_handler. */
void mk_agent_metrics_init(struct mk_agent *agent);
void mk_agent_metrics_free(struct mk_agent *agent);
void mk_agent_metrics_answer(void *ctx, const char *path, struct mk_httpd_reply *reply);

/* lost.c: pods whose device somebody deleted. A device is gone (RTM_DELLINK): */
void mk_agent_device_gone(struct mk_agent *agent, const struct nlmsghdr *message);
/* Was it one of a pod that is there? Said once. */
void mk_agent_look_for_lost_pods(struct mk_agent *agent);

/* monitor.c: tells when interfaces or addresses change. */
mk_must_check int mk_agent_monitor_start(struct mk_agent *agent, struct mk_error *err);
void mk_agent_monitor_stop(struct mk_agent *agent);

#endif

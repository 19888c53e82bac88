/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/agent_internal.h - the agent's state, and the steps that bring the node to what the
 * model says. Changes only mark something dirty; work.c runs the steps once per turn of the loop:
 *
 *	own node (node.c): addresses, uplink, devices, constants -> datapath loaded
 *	Services (service_queue.c): compile, tables
 *	hooks: attached when the tables are filled
 *	CNI plugin installed (install.c)
 *	overlay: routes, neighbours, FDB
 *	leftovers of earlier runs removed, once every list is complete
 *	CNI configuration installed, which tells runtimes that the node works
 *
 * A step returns 0, MK_WAIT (something must change first; the log has named it once), or an error.
 * After an error the remaining steps wait for the next attempt. */
#ifndef MK_AGENT_AGENT_INTERNAL_H
#define MK_AGENT_AGENT_INTERNAL_H

#include <linux/netlink.h>
#include <sys/types.h>
#include <time.h>
#include <uthash.h>
#include <uv.h>

#include "agent/report/metrics.h"
#include "agent/report/repairs.h"
#include "base/histogram.h"
#include "cluster/source.h"
#include "cluster/model/model.h"
#include "config/addresses.h"
#include "config/config.h"
#include "datapath/datapath.h"
#include "datapath/sessions/emptied.h"
#include "datapath/sessions/fullness.h"
#include "datapath/sessions/linger.h"
#include "datapath/sessions/sweep.h"
#include "host/networks.h"
#include "http/httpd.h"
#include "overlay/overlay.h"

#define MK_WAIT		   1
#define MK_TURN_NS	   20000000ULL /* time that a step may take in one turn of the loop */
#define MK_AGAIN	   2 /* the step has more to do in the next turn of the loop */
#define MK_CHANGED_DEVICES 32
#define MK_GONE_DEVICES	   16
#define MK_FAILING_MAX	   16 /* at least the number of repairs in repair.c */

/* Warnings sent as Events on the Node. */
enum mk_warning {
	MK_WARN_NODE, /* the settings and the Node object do not fit together */
	MK_WARN_SERVICE_CIDR, /* a ServiceCIDR that is not routed as a whole */
	MK_WARN_NODES_LEFT_OUT, /* other nodes that the overlay cannot reach */
	MK_WARN_TABLE_FULL,
	MK_WARN_NETWORKS, /* a configured range overlaps a network of the host */
	MK_WARN_POD_CIDR, /* pods have addresses outside the node's pod CIDR */
	MK_WARN_HEALTH_PORT, /* a healthCheckNodePort that is in use already */
	MK_WARNINGS
};

/* A Service, keyed by "namespace/name": whether it is dirty, and its addresses that have routes. */
struct agent_service {
	char *key;
	char *namespace_, *name;
	bool dirty; /* in the agent's list `dirty` */
	unsigned int tried; /* round in which it last failed; 0: changed since */
	uint16_t odd_node_port; /* outside nodePortRange, as last logged; 0: none */
	bool was_there; /* the model had it when it was last applied */
	struct agent_service *prev, *next; /* in list `dirty` */
	struct mk_ip *vips; /* sorted, without duplicates */
	size_t vip_count;
	UT_hash_handle hh;
};

/* Dirty Services are applied in rounds. A round takes as many turns as it needs. */
struct agent_round {
	unsigned int number;
	bool gone_done; /* Services that left the model are applied */
	bool untold; /* settings of the programs that follow from Services are not written */
	int status; /* of the first Service that failed */
	struct mk_error err;
};

/* An uplink: a device to the network outside. */
struct agent_uplink {
	struct mk_link link;
	struct mk_cidr addr; /* source of packets masqueraded by this uplink, and its network */
	int suits; /* scratch: rank of `addr`, see suits() */
	uint32_t flags; /* enum mk_uplink_flags */
};

struct agent_uplinks {
	struct agent_uplink uplink[MK_UPLINKS_MAX]; /* the first carries the overlay */
	size_t count;
	bool too_many, some_missing; /* more than fit; a named one does not exist */
	bool ask_host; /* ask the host's routing for each packet */
};

/* A device of the host with an address or a route (ways.c). */
struct agent_way {
	int ifindex;
	bool main; /* has an address of the Node, or a default route */
	bool has_default;
	struct mk_ip source; /* source in its routes; AF_UNSPEC: none */
	bool several_sources;
};

struct agent_ways {
	struct agent_way way[256];
	size_t count;
	bool has_rules; /* policy rules choose among routing tables */
	bool odd; /* a route is not plain unicast by one device, or too many devices */
};

/* Programs loaded by a thread (load.c). While it runs, only `state` belongs to the loop. */
struct agent_load {
	enum { MK_LOAD_NONE, MK_LOAD_RUNS, MK_LOAD_ENDED } state;
	uv_work_t work;
	struct mk_node node;
	bool adopts; /* only adopt what the last run pinned */
	struct mk_datapath *datapath;
	struct mk_error err;
	int ret;
};

/* What is known about this node, from its object and its kernel. */
struct agent_node {
	struct mk_addresses addresses;
	struct mk_ip internal_ip;
	struct mk_ip *service_ips; /* addresses at which NodePorts answer */
	size_t service_ip_count;
	char *zone;
	struct agent_uplinks uplinks;
	char *uplinks_said, *ports_said; /* as last logged */
	uint32_t mtu_bytes; /* of pods */
	struct mk_devices devices;
	struct mk_ip *local; /* every address of the host, sorted */
	size_t local_count;
};

/* Identity of a file: for a replaced or changed file, at least one field differs. */
struct agent_file {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed;
};

/* A field of struct mk_runtime that flows may need longer than Services do (linger.c). */
struct agent_setting {
	int told; /* as last written for the programs; -1: unknown, an earlier run wrote it */
	struct mk_linger linger;
};

/* A repair that fails, and why, as last logged. */
struct agent_failing {
	const char *what; /* NULL: unused */
	unsigned int waits; /* looks in a row that found a lock held */
	char text[256]; /* "": it does not fail */
};

/* A deleted device and its pod; "": no pod. */
struct agent_gone_device {
	uint32_t ifindex;
	char pod[256];
};

/* NodePorts at loopback addresses, as last written for the programs; max 0: none. */
struct agent_localhost_ports {
	bool told;
	uint16_t min, max;
};

/* What the agent counts about itself, for metrics. */
struct agent_stats {
	struct mk_histogram work; /* turns, in seconds */
	uint64_t work_failures, addresses_reaped;
	uint64_t sweep_passes, sweep_busy_ns, sweep_last_ns;
	struct mk_pod_traffic pods; /* as last exported */
	uint64_t pass_since_ns; /* start of the current pass; 0: none runs */
	char *services_text; /* last answer of /metrics/services; NULL: none yet */
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
	struct mk_model *remembered; /* this node's object as the last run stored it; NULL: none */
	char *remembered_text; /* as stored in its file */
	bool adoption_over, adopted; /* adoption was tried; it succeeded */
	struct mk_source *source;
	struct mk_source_text source_text;
	struct mk_nl *nl;
	struct mk_overlay *overlay;
	struct mk_datapath *datapath;
	struct agent_load load; /* of the next datapath */
	struct mk_sweep *sweep;
	struct mk_emptied emptied; /* of map sessions */
	struct agent_service *services, *dirty; /* all; the dirty ones */
	struct agent_round round; /* through the dirty ones */
	struct agent_health *health;
	struct agent_node node;
	struct mk_networks networks; /* the host's, as last read */
	bool ranges_shared; /* one overlaps vtepCidr or clusterCidr, but the node is at work */
	struct mk_overlay_plan plan;
	struct mk_service_cidr *service_cidrs; /* from the source */
	struct mk_cidr *service_ranges; /* the usable ones; capacity for all */
	size_t service_cidr_count, service_range_count;

	uint64_t listed_ns,
		listed_cpu_ns; /* of the first list: time, and CPU time used until then */
	uint64_t after_lists_ns; /* from the first list until the agent was ready */
	bool listed; /* the source has read everything it can, once */
	bool complete; /* ... and understood all of it: an absent object does not exist */
	bool node_dirty; /* a Node object, an interface or an address changed */
	bool node_waits; /* the node's step waits for something */
	bool vips_dirty; /* a Node object changed: a node may have gained or lost an address */
	bool overlay_dirty;
	bool sysctls_done, plugin_installed, conf_installed, pruned, ready, failed;
	uint32_t names_serial; /* of the names in file services.names */
	struct agent_setting host_backends, frontends_gone;
	struct agent_localhost_ports localhost_ports;
	uint32_t udp_ports_told; /* serial of mk_service_sync_udp_ports(), as last written */
	struct agent_vip *lingering; /* routes kept for flows, not for a Service; by address */
	bool sweep_again; /* start the next pass at once: backends left during this one */
	char *state; /* as last written for the command line */
	char *said; /* what it waits for or failed at, as last logged */
	char *left_out; /* nodes, as last logged */
	char *warned[MK_WARNINGS]; /* by Event, as last sent */
	unsigned int backoff_ms;
	struct mk_repairs repairs;
	struct agent_file conf_file, plugin_file; /* as last written or found correct */
	bool hooks_dirty; /* a filter may have changed on any device */
	/* devices with changed filters or qdiscs; with more of them, `hooks_dirty` */
	int changed_devices[MK_CHANGED_DEVICES];
	size_t changed_device_count;
	struct agent_failing failing[MK_FAILING_MAX];
	unsigned int look, overlay_looks; /* counters of repair.c's round */
	uint64_t looked_ms; /* time of repair.c's last step, by the loop's clock */
	int pod_pause;
	struct agent_gone_device gone_devices[MK_GONE_DEVICES]; /* the latest ones */
	size_t gone_device_count;
	bool pods_unsure; /* a pod's device may be gone */
	struct mk_ip *lost; /* addresses of pods without a device, as last logged */
	size_t lost_count;
	size_t host_ports_known; /* entries at the last look; SIZE_MAX: none yet */
	struct agent_stats stats;
	unsigned int lock_waits, reap_waits; /* tries in a row that found a lock held */
	bool addresses_repaired;
	int64_t clock_seen_ms; /* mk_api_clock.earliest_ms at the last look */
	bool clock_off; /* as last logged */
	struct mk_fullness fullness[MK_SESSION_TABLES];
	unsigned int writes; /* table entries and kernel objects changed since the start */
};

/* agent.c: run agent_work() in at most @delay_ms. */
void agent_schedule(struct mk_agent *agent, uint64_t delay_ms);

/* work.c */
void agent_work(struct mk_agent *agent);
/* Send an Event that an operator must see, once per text. Returns whether the text is new. */
bool agent_warn(struct mk_agent *agent, enum mk_warning warning, const char *text);
/* The cause is gone: if it comes back, send the Event again. */
void agent_warn_over(struct mk_agent *agent, enum mk_warning warning);
/* Write the agent's state for the command line. */
void agent_write_state(struct mk_agent *agent, const char *text);
/* Log once what the agent waits for. Returns MK_WAIT. */
int agent_wait_for(struct mk_agent *agent, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* node.c */
mk_must_check int agent_step_node(struct mk_agent *agent, struct mk_error *err);
/* Before the first list: prepare devices and programs as the last run left them. */
mk_must_check int agent_step_node_early(struct mk_agent *agent, struct mk_error *err);
/* pod_cidr.c: send an Event while pods have addresses outside the node's pod CIDR. */
mk_must_check int agent_look_outside_pod_cidr(struct mk_agent *agent, struct mk_error *err);
/* periodic.c: check the pods' addresses now instead of within a minute. */
void agent_addresses_soon(struct mk_agent *agent);
/* remember.c: store this node's object for the next run; read what the last run stored. */
void agent_remember_node(struct mk_agent *agent, const struct mk_node_object *object);
void agent_recall_node(struct mk_agent *agent);
/* Report by Event and log what the operator must provide. Returns MK_WAIT. */
int agent_lacks(struct mk_agent *agent, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Check only whether the settings suit the Node object, if it exists. */
mk_must_check int agent_check_addresses(const struct mk_agent *agent, struct mk_error *err);
/* Returns how many were set. @again: log that another process changed them. */
mk_must_check int agent_apply_sysctls(const struct mk_agent *agent, bool again,
				      struct mk_error *err);
void agent_node_release(struct agent_node *node);

/* load.c: have the datapath loaded with these constants. Returns 0 if it is loaded, MK_WAIT while a
 * thread loads it. */
mk_must_check int agent_load(struct mk_agent *agent, const struct mk_node *node,
			     struct mk_error *err);
/* Adopt what is pinned, without a load. Returns MK_WAIT also when that is no longer possible. */
mk_must_check int agent_adopt(struct mk_agent *agent, const struct mk_node *node,
			      struct mk_error *err);
void agent_load_release(struct mk_agent *agent);
void agent_drop_datapath(struct mk_agent *agent);

/* networks.c: compare the configured ranges with the host's networks. Refuse a node that overlaps
 * and is not yet at work; only report an overlap on a node that is. */
mk_must_check int agent_check_networks(struct mk_agent *agent, const struct mk_addresses *addresses,
				       struct mk_error *err);

/* local.c: list every IPv4 address of the host except loopback's; the caller frees *@ips. */
mk_must_check int agent_local_addresses(struct mk_nl *nl, struct mk_ip **ips, size_t *count,
					struct mk_error *err);
/* Find the interface that has @ip; -ENODEV: none. */
mk_must_check int agent_interface_of(struct mk_nl *nl, const struct mk_ip *ip, int *ifindex,
				     struct mk_error *err);

/* uplinks.c: find the uplinks, at least one; MK_WAIT: none yet. */
mk_must_check int agent_find_uplinks(struct mk_agent *agent, const struct mk_node_object *object,
				     struct agent_uplinks *found, struct mk_error *err);
/* ways.c */
mk_must_check int agent_read_ways(const struct mk_agent *agent, const struct mk_node_object *object,
				  struct agent_ways *ways, struct mk_error *err);
/* Can a packet leave by another device than @first, or with another source address? Pure. */
bool agent_must_ask(const struct agent_ways *ways, const struct agent_uplink *first);
/* May this device be an uplink? Pure. */
bool agent_can_be_uplink(const struct mk_config *config, const struct mk_link *link);
/* Fill in the uplinks' part of @links. Pure. */
void agent_uplink_links(const struct agent_uplinks *uplinks, struct mk_datapath_links *links);
/* node.c: fill in all of @links. */
void agent_links(const struct agent_node *node, struct mk_datapath_links *links);
/* Do NodePorts answer at 127.0.0.1? As localhostNodePorts says, unless nodePortAddresses excludes
 * it. Pure. */
bool agent_localhost_node_ports(const struct mk_config *config);
/* List the addresses at which NodePorts answer (nodePortAddresses). Pure; the caller frees
 * *@ips. */
mk_must_check int agent_node_port_ips(const struct mk_config *config,
				      const struct mk_node_object *object,
				      const struct mk_ip *local, size_t local_count,
				      struct mk_ip **ips, size_t *count, struct mk_error *err);
/* Log the uplinks and the addresses of NodePorts when they change. */
void agent_say_node(struct agent_node *node);

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
mk_must_check int agent_routes(const struct mk_routes_input *input, struct mk_route_entry **entries,
			       size_t *count, struct mk_error *err);

/* Put the Service ranges that can be dropped and routed as a whole into @usable, which has capacity
 * for all. A range would cut off what it contains or overlaps: pods' or VTEPs' addresses, a node's
 * address, a network of the host. Such a range is left out, and its Services keep a route each.
 * Returns how many are left out; @why names one of them. Pure. */
struct mk_ranges_input {
	const struct mk_config *config;
	const struct mk_overlay_plan *plan;
	const struct mk_ip *internal_ip;
	const struct mk_networks *networks; /* the host's */
	const struct mk_service_cidr *ranges;
	size_t count;
};
int agent_usable_ranges(const struct mk_ranges_input *input, struct mk_cidr *usable,
			struct mk_error *why);

/* service_queue.c */
/* Returns a NodePort of @service outside nodePortRange; 0: none. Pure. */
uint16_t agent_odd_node_port(const struct mk_config *config,
			     const struct mk_service_object *service);
void agent_service_dirty(struct mk_agent *agent, const char *namespace_, const char *name);
void agent_all_services_dirty(struct mk_agent *agent);
/* Mark the Service "namespace/name" dirty. Does nothing if it is unknown. */
void agent_service_again(struct mk_agent *agent, const char *key);
bool agent_service_is_dirty(struct mk_agent *agent, const char *key);
mk_must_check int agent_step_services(struct mk_agent *agent, struct mk_error *err);
void agent_services_free(struct mk_agent *agent);

/* install.c */
struct mk_cni_conf_values {
	const struct mk_config *config;
	struct mk_cidr pod_cidr;
	uint32_t mtu_bytes;
};
/* Replace the ${...} of @template; the caller frees the result. NULL: see @err, also for an unknown
 * placeholder. Pure. */
char *cni_conf_render(const char *template, const struct mk_cni_conf_values *values,
		      struct mk_error *err);
mk_must_check int agent_step_plugin(struct mk_agent *agent, struct mk_error *err);
mk_must_check int agent_step_conf(struct mk_agent *agent, struct mk_error *err);

/* Returns how many files were changed by others. Logs each and has it installed again. */
int agent_check_files(struct mk_agent *agent);

/* repair.c: look regularly at everything that others may have changed. */
mk_must_check int agent_repair_start(struct mk_agent *agent, struct mk_error *err);
/* Look soon at all hooks: a filter or qdisc was removed. */
void agent_hooks_soon(struct mk_agent *agent);
/* Look soon at the hooks of one device. */
void agent_hook_soon(struct mk_agent *agent, int ifindex);
/* Count what the overlay's step put back. */
void agent_overlay_repaired(struct mk_agent *agent);

/* linger.c: what flows still need after the Service that opened them changed. */
void agent_settings_forget(struct mk_agent *agent);
/* Write the settings to map `runtime`. Returns 1 if it held something else, otherwise 0. */
mk_must_check int agent_sync_runtime(const struct mk_agent *agent, struct mk_error *err);
/* The same for map `udp_ports`. */
mk_must_check int agent_sync_udp_ports(const struct mk_agent *agent, struct mk_error *err);
/* Call after Services or the node's addresses changed. */
mk_must_check int agent_tell_host_backends(struct mk_agent *agent, struct mk_error *err);
/* Call after Services changed. */
mk_must_check int agent_tell_localhost_ports(struct mk_agent *agent, struct mk_error *err);
mk_must_check int agent_tell_udp_ports(struct mk_agent *agent, struct mk_error *err);
/* For mk_service_sync_on_loss(); @ctx is the agent. */
mk_must_check int agent_losing(void *ctx, struct mk_error *err);
/* A Service released @ip: take over its reference to the overlay's route. */
void agent_vip_lingers(struct mk_agent *agent, const struct mk_ip *ip);
/* For mk_overlay_on_left_vip(); @ctx is the agent. */
void agent_vip_was_left(void *ctx, const struct mk_ip *ip);
void agent_lingering_free(struct mk_agent *agent);
/* Callbacks of the sweep: an entry stays; a pass ended; may the next pass release something? */
void agent_flow_stays(struct mk_agent *agent, const struct mk_tuple *key,
		      const struct mk_session *session);
void agent_pass_ended(struct mk_agent *agent);
bool agent_pass_decides(const struct mk_agent *agent);
/* Is anything kept only as long as the sweep finds flows? */
bool agent_asks_for_flows(const struct mk_agent *agent);

/* periodic.c: sessions, retired backends, and what is checked every minute. */
mk_must_check int agent_upkeep_start(struct mk_agent *agent, struct mk_error *err);
/* Services came or went: write their names within a second. */
void agent_names_soon(struct mk_agent *agent);
/* Log whether the API server's clock differs from this node's, and store the difference for
 * `monokube check`. */
void agent_see_clock(struct mk_agent *agent);
/* Log if another process emptied map `sessions`; nothing can bring the sessions back. */
void agent_look_for_sessions(struct mk_agent *agent);
/* Sweep all sessions at once: backends are gone. */
void agent_sweep_now(struct mk_agent *agent);

/* health_server.c. Serve only when this is known to be the node's only agent. Between stop and free
 * the loop has to run. */
mk_must_check int agent_health_start(struct mk_agent *agent, struct mk_error *err);
void agent_health_serve(struct mk_agent *agent);
void agent_health_stop(struct mk_agent *agent);
void agent_health_free(struct mk_agent *agent);
/* The cluster reported a change; every change is written. */
void agent_health_queued(struct mk_agent *agent);
void agent_health_updated(struct mk_agent *agent);
/* Service @key is written as @compiled: open, close or update its healthCheckNodePort. */
void agent_health_service(struct mk_agent *agent, const char *key,
			  const struct mk_compiled_service *compiled);

/* programming_latency.c: endpoints changed because of something at @unix_ns (0: see
 * mk_model_listener); Services that are no longer dirty are written. */
void agent_latency_triggered(struct mk_agent *agent, const char *namespace_, const char *name,
			     int64_t unix_ns);
void agent_latency_written(struct mk_agent *agent);
void agent_latency_forget(struct mk_agent *agent);
/* In seconds since the start, for metrics. */
const struct mk_histogram *agent_latency(const struct mk_agent *agent);

/* metrics_read.c: an mk_httpd_handler. */
void agent_metrics_init(struct mk_agent *agent);
void agent_metrics_free(struct mk_agent *agent);
void agent_metrics_answer(void *ctx, const char *path, struct mk_httpd_reply *reply);

/* lost_devices.c: pods whose device was deleted by another process. Note a deleted device
 * (RTM_DELLINK). */
void agent_device_gone(struct mk_agent *agent, const struct nlmsghdr *message);
/* Log once each existing pod whose device is gone. */
void agent_look_for_lost_pods(struct mk_agent *agent);

/* rtnl_events.c: follow changes of interfaces, addresses, routes and filters. */
mk_must_check int agent_monitor_start(struct mk_agent *agent, struct mk_error *err);
void agent_monitor_stop(struct mk_agent *agent);

#endif

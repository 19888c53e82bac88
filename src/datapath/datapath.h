/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/datapath.h - the agent's side of the datapath: load the programs with this node's
 * constants on top of the tables that are pinned, put them on the hooks, keep the tables right.
 *
 * What is pinned and attached outlives the object and the process: mk_datapath_free() takes
 * nothing away. Loop thread only. */
#ifndef MK_DATAPATH_DATAPATH_H
#define MK_DATAPATH_DATAPATH_H

#include <stdbool.h>
#include <stdint.h>

#include "monokube/abi.h"
#include "base/error.h"
#include "base/ip.h"
#include "datapath/maps/links.h"
#include "datapath/maps/runtime.h"
#include "datapath/maps/table.h"
#include "datapath/services/counters.h"
#include "datapath/services/services.h"
#include "datapath/sessions/counts.h"

struct mk_datapath;

/* Each step once, in this order; another order is refused. */
enum mk_datapath_state {
	MK_DATAPATH_OPENED,
	MK_DATAPATH_LOADED,
	MK_DATAPATH_ATTACHED,
	MK_DATAPATH_SYNCED, /* mk_datapath_prune() has run */
};

/* Prepare directories and the bpffs, open the object. */
struct mk_datapath *mk_datapath_open(const char *bpf_dir, const char *state_dir,
				     const struct mk_node *node, struct mk_error *err);
void mk_datapath_free(struct mk_datapath *datapath);
enum mk_datapath_state mk_datapath_state(const struct mk_datapath *datapath);
const struct mk_node *mk_datapath_node(const struct mk_datapath *datapath);

/* Before load: how many entries each table of established sessions has, and each of new ones. */
mk_must_check int mk_datapath_size_sessions(struct mk_datapath *datapath, uint32_t established,
					    uint32_t half_open, struct mk_error *err);
/* Before load: how many clients of Services with session affinity each of their two tables has. */
mk_must_check int mk_datapath_size_affinity(struct mk_datapath *datapath, uint32_t entries,
					    struct mk_error *err);
/* Take over the pinned tables, create those that are missing, load the programs. Of a table that
 * has another size, or an older version's shorter values, the entries move to a new one, and Maglev
 * tables of another size are computed anew; another layout and a later version's tables are refused:
 * their entries are other people's connections. Where there is no memory for the new ones, or not all
 * entries fit, that is logged, and those that are there are used as they are. */
mk_must_check int mk_datapath_load(struct mk_datapath *datapath, struct mk_error *err);
/* The same where nothing has to be loaded or made. -ENOENT: the pinned programs are another version's, have
 * other constants or tables, or are not there. */
mk_must_check int mk_datapath_adopt(struct mk_datapath *datapath, struct mk_error *err);
/* Did some table move? The programs that run know the old one alone: attach before any change. */
bool mk_datapath_moved(const struct mk_datapath *datapath);

/* Pin programs and chain, put them on the hooks (every pod's included), take them off devices that are
 * none of these any more, then let go of the ones before. Every hook changes from the old to the new program in one step; the old chain stays
 * until no CPU can be in it. */
mk_must_check int mk_datapath_attach(struct mk_datapath *datapath,
				     const struct mk_datapath_links *links, struct mk_error *err);
/* Once attached: other devices or addresses. Programs come to new devices before packets leave by them, and leave
 * those that are none any more. Nothing is loaded. Returns 1 if anything changed. */
mk_must_check int mk_datapath_change_links(struct mk_datapath *datapath,
					   const struct mk_datapath_links *links,
					   struct mk_error *err);
/* Put back what somebody has removed, once attached. Each returns how many, and logs what. Programs at
 * their hooks, of pods' at most @pods: the next time the next ones; */
mk_must_check int mk_datapath_repair_hooks(struct mk_datapath *datapath, size_t pods,
					   struct mk_error *err);
/* those of the devices @ifindexes alone; */
mk_must_check int mk_datapath_repair_hooks_of(struct mk_datapath *datapath, const int *ifindexes,
					      size_t count, struct mk_error *err);
/* targets of tail calls; */
mk_must_check int mk_datapath_repair_chain(struct mk_datapath *datapath, struct mk_error *err);
/* names in the BPF directory, of tables and programs; */
mk_must_check int mk_datapath_repair_pins(const struct mk_datapath *datapath, struct mk_error *err);
/* maps `links` and `uplinks`; */
mk_must_check int mk_datapath_repair_links(const struct mk_datapath *datapath,
					   struct mk_error *err);
/* entries of map `routes`, of which @budget are looked at. */
mk_must_check int mk_datapath_repair_routes(struct mk_datapath *datapath, size_t budget,
					    struct mk_error *err);

/* The Services' tables, after load. */
struct mk_service_sync *mk_datapath_services(const struct mk_datapath *datapath);
const struct mk_counter_tables *mk_datapath_counters(const struct mk_datapath *datapath);
/* Remove counters of Services that are gone. Returns how many entries. */
mk_must_check int mk_datapath_prune_counters(const struct mk_datapath *datapath,
					     struct mk_error *err);

/* @index below MK_SESSION_TABLES, in sweep order. */
const struct mk_table *mk_datapath_session_table(const struct mk_datapath *datapath, int index);

struct mk_route_entry {
	struct mk_cidr dst; /* network address */
	struct mk_route route;
};
/* Bring map `routes` to @wanted; entries that are not in it are removed only if @complete. Counts
 * writes and removals into *@changes. */
mk_must_check int mk_datapath_sync_routes(struct mk_datapath *datapath,
					  const struct mk_route_entry *wanted, size_t count,
					  bool complete, unsigned int *changes,
					  struct mk_error *err);
struct mk_peer_entry {
	struct mk_addr addr;
	struct mk_peer peer;
};
/* Bring map `peers` to @wanted, as mk_datapath_sync_routes() does; once it has all, overlay packets of others are
 * dropped. @wanted is sorted here. */
mk_must_check int mk_datapath_sync_peers(struct mk_datapath *datapath, struct mk_peer_entry *wanted,
					 size_t count, bool complete, unsigned int *changes,
					 struct mk_error *err);
/* Tell the programs what they may need to know at run time (struct mk_runtime). Returns 1 if they
 * did not know it, else 0. */
mk_must_check int mk_datapath_sync_runtime(const struct mk_datapath *datapath,
					   const struct mk_runtime_change *change,
					   struct mk_error *err);
/* ... at which ports backends take UDP, beside those that they know. */
mk_must_check int mk_datapath_add_udp_ports(const struct mk_datapath *datapath,
					    const struct mk_port_set *ports, struct mk_error *err);
/* Write the quota of half-open sessions; @census: as a pass of the sweep counted. */
mk_must_check int mk_datapath_set_half_open_quota(const struct mk_datapath *datapath,
						  const struct mk_census *census,
						  struct mk_error *err);
/* Remove Services' entries that nobody asked for: everything has been listed and applied. Returns 1 if
 * it is past @until_ns and there is more to do. */
mk_must_check int mk_datapath_prune(struct mk_datapath *datapath, uint64_t now_ns,
				    uint64_t until_ns, struct mk_service_counts *counts,
				    struct mk_error *err);

#endif

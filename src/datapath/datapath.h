/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/datapath.h - the agent's side of the datapath: load the programs with this node's
 * constants and the pinned tables, attach them to the hooks, and keep the tables correct.
 *
 * Pins and attached programs outlive the object and the process: mk_datapath_free() does not remove
 * them. Use on the event loop's thread only. */
#ifndef MK_DATAPATH_DATAPATH_H
#define MK_DATAPATH_DATAPATH_H

#include <stdbool.h>
#include <stdint.h>

#include "monokube/abi.h"
#include "base/error.h"
#include "base/ip.h"
#include "datapath/clusters/tables.h"
#include "datapath/maps/links.h"
#include "datapath/maps/runtime.h"
#include "datapath/maps/table.h"
#include "datapath/policy/tables.h"
#include "datapath/services/counters.h"
#include "datapath/services/services.h"
#include "datapath/sfc/tables.h"
#include "datapath/sessions/counts.h"
#include "base/netlink/netlink.h"

struct mk_datapath;

/* The steps, each once and in this order; any other order is refused. */
enum mk_datapath_state {
	MK_DATAPATH_OPENED,
	MK_DATAPATH_LOADED,
	MK_DATAPATH_ATTACHED,
	MK_DATAPATH_SYNCED, /* mk_datapath_prune() has run */
};

/* Prepare directories and bpffs, and open the BPF object. If @node has has_other_family, the node
 * has a datapath of each family. IPv4's programs then have the hooks, and IPv6's are behind them.
 * Load IPv4's before IPv6's is attached. If IPv4 is added, attach IPv6's first. */
struct mk_datapath *mk_datapath_open(const char *bpf_dir, const char *state_dir,
				     const struct mk_node *node, struct mk_error *err);
void mk_datapath_free(struct mk_datapath *datapath);
enum mk_datapath_state mk_datapath_state(const struct mk_datapath *datapath);
const struct mk_node *mk_datapath_node(const struct mk_datapath *datapath);

/* Before load: set the entries of each table of established sessions and of each table of new
 * sessions. */
mk_must_check int mk_datapath_size_sessions(struct mk_datapath *datapath, uint32_t established,
					    uint32_t half_open, struct mk_error *err);
/* Before load: set the entries (clients) of each of the two tables of session affinity. */
mk_must_check int mk_datapath_size_affinity(struct mk_datapath *datapath, uint32_t entries,
					    struct mk_error *err);
/* Take over the pinned tables, create missing tables and load the programs. If a table has another
 * size, or an older version's shorter values, its entries move to a new table. Maglev tables of
 * another size are computed again. Tables of another layout or of a later version are refused,
 * because their entries are live connections. If memory does not suffice for a new table, or not
 * all entries fit, this is logged and the old tables stay in use. */
mk_must_check int mk_datapath_load(struct mk_datapath *datapath, struct mk_error *err);
/* As mk_datapath_load(), but only if no program has to be loaded. -ENOENT: there are no pinned
 * programs, or they belong to another version or have other constants or tables. */
mk_must_check int mk_datapath_adopt(struct mk_datapath *datapath, struct mk_error *err);
/* Did a table move? The running programs use the old table: attach before any change. */
bool mk_datapath_moved(const struct mk_datapath *datapath);

/* Pin programs and chain and attach the programs to all hooks, those of pods included. Remove
 * programs from former uplinks, then release the previous programs. Each hook changes from the old
 * to the new program atomically. The old chain stays until no CPU can run it. */
mk_must_check int mk_datapath_attach(struct mk_datapath *datapath,
				     const struct mk_datapath_links *links, struct mk_error *err);
/* After attach: change devices or addresses without loading programs. Programs are attached to new
 * devices before packets leave by them, and removed from former ones. Returns 1 if anything
 * changed. */
mk_must_check int mk_datapath_change_links(struct mk_datapath *datapath,
					   const struct mk_datapath_links *links,
					   struct mk_error *err);
/* After attach: restore what other processes have removed. Each function logs what it restored and
 * returns the number. Programs on their hooks; each call checks at most @pods pods, in turn; */
mk_must_check int mk_datapath_repair_hooks(struct mk_datapath *datapath, size_t pods,
					   struct mk_error *err);
/* programs on the devices @ifindexes only; */
mk_must_check int mk_datapath_repair_hooks_of(struct mk_datapath *datapath, const int *ifindexes,
					      size_t count, struct mk_error *err);
/* targets of tail calls; */
mk_must_check int mk_datapath_repair_chain(struct mk_datapath *datapath, struct mk_error *err);
/* pins of tables and programs in the BPF directory; */
mk_must_check int mk_datapath_repair_pins(const struct mk_datapath *datapath, struct mk_error *err);
/* maps `links` and `uplinks`; */
mk_must_check int mk_datapath_repair_links(const struct mk_datapath *datapath,
					   struct mk_error *err);
/* entries of map `routes`; each call checks @budget of them, in turn. */
mk_must_check int mk_datapath_repair_routes(struct mk_datapath *datapath, size_t budget,
					    struct mk_error *err);

/* After load: return the tables of Services; */
struct mk_service_sync *mk_datapath_services(const struct mk_datapath *datapath);
/* those of network policies; */
struct mk_policy_sync *mk_datapath_policies(const struct mk_datapath *datapath);
/* those of service function chains; */
struct mk_sfc_sync *mk_datapath_sfc(const struct mk_datapath *datapath);
/* and those of other clusters. */
struct mk_clusters_sync *mk_datapath_clusters(const struct mk_datapath *datapath);
const struct mk_counter_tables *mk_datapath_counters(const struct mk_datapath *datapath);
/* Remove counters of Services that are gone. Returns the number of entries. */
mk_must_check int mk_datapath_prune_counters(const struct mk_datapath *datapath,
					     struct mk_error *err);

/* Return table @index of MK_SESSION_TABLES, in sweep order. */
const struct mk_table *mk_datapath_session_table(const struct mk_datapath *datapath, int index);

struct mk_route_entry {
	struct mk_cidr dst; /* network address */
	struct mk_route route;
};
/* Make map `routes` equal to @wanted; remove other entries only if @complete. Adds the number of
 * writes and removals to *@changes. */
mk_must_check int mk_datapath_sync_routes(struct mk_datapath *datapath,
					  const struct mk_route_entry *wanted, size_t count,
					  bool complete, unsigned int *changes,
					  struct mk_error *err);
struct mk_peer_entry {
	uint32_t is_far; /* of the underlay's family, not the pods': for map `far_peers` */
	struct mk_addr addr;
	struct mk_peer peer;
	bool is_internal; /* an InternalIP of the Node, not only an ExternalIP */
};
/* Make maps `peers` and `far_peers` equal to @wanted, as mk_datapath_sync_routes() does. Once it is
 * complete, programs drop overlay packets from other addresses. An address that several nodes have,
 * such as the ExternalIP of their gateway, is that of the node whose InternalIP it is, or else of
 * one of them. Sorts @wanted. */
mk_must_check int mk_datapath_sync_peers(struct mk_datapath *datapath, struct mk_peer_entry *wanted,
					 size_t count, bool complete, unsigned int *changes,
					 struct mk_error *err);
struct mk_link_node_entry {
	struct mk_link_node_key key;
	struct mk_link_node node; /* without its MAC address, which programs write */
};
/* Make map `link_nodes` equal to @wanted, as mk_datapath_sync_routes() does. Sorts @wanted. */
mk_must_check int mk_datapath_sync_link_nodes(struct mk_datapath *datapath,
					      struct mk_link_node_entry *wanted, size_t count,
					      bool complete, unsigned int *changes,
					      struct mk_error *err);
/* Change the programs' run-time settings (struct mk_runtime). Returns 1 if a setting changed,
 * otherwise 0. */
mk_must_check int mk_datapath_sync_runtime(const struct mk_datapath *datapath,
					   const struct mk_runtime_change *change,
					   struct mk_error *err);
/* Add ports at which backends receive UDP to the ports that the programs know. */
mk_must_check int mk_datapath_add_udp_ports(const struct mk_datapath *datapath,
					    const struct mk_port_set *ports, struct mk_error *err);
/* Write the quota of half-open sessions. @counts: the counts of the last sweep pass. */
mk_must_check int mk_datapath_set_half_open_quota(const struct mk_datapath *datapath,
						  const struct mk_session_counts *counts,
						  struct mk_error *err);
/* Remove entries of Services that no longer exist, after all Services have been listed and applied.
 * Returns 1 if it stopped at @until_ns with work left. */
mk_must_check int mk_datapath_prune(struct mk_datapath *datapath, uint64_t now_ns,
				    uint64_t until_ns, struct mk_service_counts *counts,
				    struct mk_error *err);

/* Remove the datapath (`monokube cleanup`). Needs no state of an agent, and works on an
 * incomplete datapath. */
struct mk_removed {
	unsigned int filters, pins;
};

/* Remove our filters from every interface, then all pins below @bpf_dir. Adds to @removed. */
mk_must_check int mk_datapath_remove(struct mk_nl *nl, const char *bpf_dir,
				     struct mk_removed *removed, struct mk_error *err);

/* Remove one family of a node that had both: its programs from map `other_family` and from hooks
 * that still have them, then its pins. First attach the family that stays, with its constants. */
mk_must_check int mk_datapath_remove_family(struct mk_nl *nl, const char *bpf_dir,
					    sa_family_t family, struct mk_removed *removed,
					    struct mk_error *err);

/* Statistics of tables and programs, for metrics. */

/* Statistics of a hook's program. The kernel counts while the sysctl kernel.bpf_stats_enabled is
 * 1. */
struct mk_program_stats {
	const char *name;
	uint64_t runs, run_ns;
};
/* Write up to @room statistics to @stats; return their number. */
size_t mk_datapath_program_stats(const struct mk_datapath *datapath, struct mk_program_stats *stats,
				 size_t room);

struct mk_table_fill {
	const char *name;
	uint64_t entries, max_entries;
};
/* After load: write how full the tables are, up to @room of them, to @fills; return their number.
 * @counts: the counts of the last sweep pass, which tables of sessions need; NULL: none yet. */
size_t mk_datapath_fill(const struct mk_datapath *datapath, const struct mk_session_counts *counts,
			struct mk_table_fill *fills, size_t room);

#endif

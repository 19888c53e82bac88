/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/services/services.h - keep the tables `services`, `service_backends`, `maglev`,
 * `affinity_backends` and `source_ranges` equal to the compiled Services, one Service at a time:
 * what is there is compared with what should be, and only the difference is written.
 *
 * A packet sees either the old or the new backends of a set. The new generation is written under
 * keys that no program reads yet, and published by one update of each frontend. The old generation
 * is removed after MK_RETIRE_NS, when no program can still be reading it.
 *
 * The state comes from the tables only: ids and generations are read from them. So an agent that
 * restarts writes nothing if nothing changed. */
#ifndef MK_DATAPATH_SERVICES_SERVICES_H
#define MK_DATAPATH_SERVICES_SERVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/ip.h"
#include "datapath/maps/table.h"
#include "service/service.h"

#define MK_RETIRE_NS (1000 * 1000000ULL)

struct mk_service_tables {
	struct mk_table frontends, backends, maglev, affinity_backends, source_ranges;
};

struct mk_service_sync;

/* Read @tables, which the caller owns and which must outlive the result. */
struct mk_service_sync *mk_service_sync_new(const struct mk_service_tables *tables,
					    struct mk_error *err);
void mk_service_sync_free(struct mk_service_sync *sync);

/* Reserve ids up to @last_id, which live sessions may use: new sets get higher ones. */
void mk_service_sync_reserve_ids(struct mk_service_sync *sync, uint32_t last_id);

struct mk_service_counts {
	unsigned int put, deleted; /* entries written and removed, all tables together */
	bool cut; /* a backend or a frontend lost its live flows: sweep the sessions */
};

/* Make the tables equal to @compiled. If another Service holds a frontend, that Service keeps it,
 * and the log names both. After an error call again: completed changes are remembered. @now_ns is
 * CLOCK_MONOTONIC. Adds to @counts. */
mk_must_check int mk_service_sync_apply(struct mk_service_sync *sync,
					const struct mk_compiled_service *compiled, uint64_t now_ns,
					struct mk_service_counts *counts, struct mk_error *err);

/* Return a Service that was refused a frontend which is free now, in *@namespace_ and *@name (the
 * caller frees both). It is to be compiled and applied again. Returns 1, or 0 if there is none. */
int mk_service_sync_take_retry(struct mk_service_sync *sync, char **namespace_, char **name);

/* Remove an earlier agent's entries that no Service uses. Call only after every Service has been
 * listed and applied. Returns 1 if it stopped at @until_ns (CLOCK_MONOTONIC) with work left,
 * otherwise 0. */
mk_must_check int mk_service_sync_prune(struct mk_service_sync *sync, uint64_t now_ns,
					uint64_t until_ns, struct mk_service_counts *counts,
					struct mk_error *err);

/* Remove generations that were retired at least MK_RETIRE_NS ago. Returns 1 while others still
 * wait. */
mk_must_check int mk_service_sync_collect(struct mk_service_sync *sync, uint64_t now_ns,
					  struct mk_service_counts *counts, struct mk_error *err);

/* Restore entries that other processes have removed or changed. Checks entries with about @budget
 * look-ups; the next call continues from there. Calls @lost for a Service ("namespace/name") that
 * must be applied again. Logs the restored entries and returns their number. */
mk_must_check int mk_service_sync_reconcile(struct mk_service_sync *sync, size_t budget,
					    void (*lost)(void *ctx, const char *service), void *ctx,
					    struct mk_error *err);

/* Set the node's own addresses; copies them. */
mk_must_check int mk_service_sync_set_local(struct mk_service_sync *sync, const struct mk_ip *ips,
					    size_t count, struct mk_error *err);
/* Return the range *@min to *@max of NodePorts on the loopback address. *@max is 0 if there are
 * none. */
void mk_service_sync_localhost_ports(const struct mk_service_sync *sync, uint16_t *min,
				     uint16_t *max);
/* Return all ports that UDP endpoints have had. *@serial changes with them, and is 0 while there
 * are none. */
const struct mk_port_set *mk_service_sync_udp_ports(const struct mk_service_sync *sync,
						    uint32_t *serial);
/* Does a frontend that keeps the client's address have this host itself as a backend? */
bool mk_service_sync_host_backends(const struct mk_service_sync *sync);

/* Is @session the forward entry of a UDP flow whose backend no longer serves, or whose frontend is
 * gone? Not if the Service has no serving backend at all (SERVICES.md, Sessions; Kubernetes
 * pkg/proxy/conntrack/cleanup.go). */
bool mk_service_sync_session_cut(const struct mk_service_sync *sync, const struct mk_tuple *key,
				 const struct mk_session *session);
/* Is @session the forward entry of a connection whose frontend is gone? Connections outlive their
 * frontend, and the programs have to know whether there are any (struct mk_runtime). */
bool mk_service_sync_session_outlives(const struct mk_service_sync *sync,
				      const struct mk_tuple *key, const struct mk_session *session);
/* Is @session the forward entry of a flow to this host whose source address is kept, while a port
 * or the destination is translated? There are two kinds:
 * - flows of Services that keep the client's address, even if their policy has changed since;
 * - direct flows whose source port was changed, because of a conflict with a Service's flow. */
bool mk_service_sync_session_of_host(const struct mk_service_sync *sync, const struct mk_tuple *key,
				     const struct mk_session *session);
/* Call @losing before a frontend is removed that may have opened connections. If it fails, the
 * frontend stays for now. */
void mk_service_sync_on_loss(struct mk_service_sync *sync,
			     int (*losing)(void *ctx, struct mk_error *err), void *ctx);

/* Return a number that changes with the set of Services that have a service_id. */
uint32_t mk_service_sync_names_serial(const struct mk_service_sync *sync);

size_t mk_service_sync_service_count(const struct mk_service_sync *sync);
size_t mk_service_sync_frontend_count(const struct mk_service_sync *sync);
size_t mk_service_sync_backend_count(const struct mk_service_sync *sync);
/* Return the key of the counters of Service @name ("namespace/name"); 0: none yet. */
uint32_t mk_service_sync_id(const struct mk_service_sync *sync, const char *name);

#endif

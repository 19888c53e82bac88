/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/services/services.h - keep the tables `services`, `service_backends`, `maglev`,
 * `affinity_backends` and `source_ranges` equal to the compiled Services, one Service at a time: what is there is compared with what should be,
 * and only the difference is written.
 *
 * A packet sees the backends of before or of after: the new generation of a set is written under
 * keys nobody reads yet, published by one update of each frontend, and the old generation is
 * removed a while later (MK_RETIRE_NS), when no packet can still be reading it.
 *
 * Nothing is asked of a predecessor: ids and generations are read from the tables, so the restart
 * of an agent writes nothing where nothing changed. */
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
	struct mk_table services, backends, maglev, affinity_backends, source_ranges;
};

struct mk_service_sync;

/* Read what @tables hold. They stay the caller's and outlive the result. */
struct mk_service_sync *mk_service_sync_new(const struct mk_service_tables *tables,
					    struct mk_error *err);
void mk_service_sync_free(struct mk_service_sync *sync);

/* Ids up to @last_id are in use elsewhere (by live sessions): new sets get higher ones. */
void mk_service_sync_reserve_ids(struct mk_service_sync *sync, uint32_t last_id);

struct mk_service_counts {
	unsigned int put, deleted; /* entries written and removed, all tables together */
	bool cut; /* a backend or a frontend lost its live flows: sweep the sessions */
};

/* Bring the tables to @compiled. A frontend that another Service holds stays with that one, and
 * the log names both. After an error: call again, what was done is remembered. @now_ns is
 * CLOCK_MONOTONIC. Adds to @counts. */
mk_must_check int mk_service_sync_apply(struct mk_service_sync *sync,
					const struct mk_compiled_service *compiled, uint64_t now_ns,
					struct mk_service_counts *counts, struct mk_error *err);

/* A Service that lost a frontend to another and would get it now: *@namespace_ and *@name are its
 * (the caller frees both), to be compiled and applied again. Returns 1, or 0 if there is none. */
int mk_service_sync_take_retry(struct mk_service_sync *sync, char **namespace_, char **name);

/* Remove what an earlier agent left and nobody has asked for. Only when every Service has been
 * listed and applied. Returns 1 if it is past @until_ns (CLOCK_MONOTONIC) and there is more to do, else 0. */
mk_must_check int mk_service_sync_prune(struct mk_service_sync *sync, uint64_t now_ns,
					uint64_t until_ns, struct mk_service_counts *counts,
					struct mk_error *err);

/* Remove generations that were retired MK_RETIRE_NS ago. Returns 1 while others still wait. */
mk_must_check int mk_service_sync_collect(struct mk_service_sync *sync, uint64_t now_ns,
					  struct mk_service_counts *counts, struct mk_error *err);

/* Put back what somebody has removed from the tables or altered there, as far as about @budget look-ups
 * go; the next call goes on from there. @lost: a Service that has to be applied again for that
 * ("namespace/name"). Returns how many entries, which the log names. */
mk_must_check int mk_service_sync_audit(struct mk_service_sync *sync, size_t budget,
					void (*lost)(void *ctx, const char *service), void *ctx,
					struct mk_error *err);

/* The node's own addresses; copied. */
mk_must_check int mk_service_sync_set_local(struct mk_service_sync *sync, const struct mk_ip *ips,
					    size_t count, struct mk_error *err);
/* NodePorts at the loopback address are within @min to @max; *@max 0: there are none. */
void mk_service_sync_localhost_ports(const struct mk_service_sync *sync, uint16_t *min,
				     uint16_t *max);
/* Each port at which a UDP endpoint has been; and a number that changes with them, 0 while there is none. */
const struct mk_port_set *mk_service_sync_udp_ports(const struct mk_service_sync *sync,
						    uint32_t *serial);
/* Does a frontend that keeps the client's address have a backend that is this host itself? */
bool mk_service_sync_host_backends(const struct mk_service_sync *sync);

/* Is @session the forward entry of a UDP flow whose backend no longer serves, or whose frontend is
 * gone? Of a Service without any backend that serves it stays (SERVICES.md, Sessions; Kubernetes
 * pkg/proxy/conntrack/cleanup.go). */
bool mk_service_sync_session_cut(const struct mk_service_sync *sync, const struct mk_tuple *key,
				 const struct mk_session *session);
/* Is it that of a connection whose frontend is gone? Connections outlive theirs, and the programs
 * have to know that some may (struct mk_runtime). */
bool mk_service_sync_session_outlives(const struct mk_service_sync *sync,
				      const struct mk_tuple *key, const struct mk_session *session);
/* Is it that of a flow to this host itself whose client keeps its address, whatever the policy is by
 * now, or none of a Service, but beside one that is, with another port? */
bool mk_service_sync_session_of_host(const struct mk_service_sync *sync, const struct mk_tuple *key,
				     const struct mk_session *session);
/* Have @losing called before a frontend goes that connections may have been opened by. Where it fails
 * the frontend stays for now. */
void mk_service_sync_on_loss(struct mk_service_sync *sync,
			     int (*losing)(void *ctx, struct mk_error *err), void *ctx);

/* A number that changes whenever the set of Services with an account changes. */
uint32_t mk_service_sync_accounts_serial(const struct mk_service_sync *sync);

size_t mk_service_sync_service_count(const struct mk_service_sync *sync);
size_t mk_service_sync_frontend_count(const struct mk_service_sync *sync);
size_t mk_service_sync_backend_count(const struct mk_service_sync *sync);
/* Key of the counters of Service @name ("namespace/name"); 0: none yet. */
uint32_t mk_service_sync_account(const struct mk_service_sync *sync, const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/sync_fixture.h - the sync of Services on a test's own real maps: Services compiled by
 * hand are applied, and the tables' contents checked. */
#ifndef MK_TEST_SYNC_FIXTURE_H
#define MK_TEST_SYNC_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datapath/services/services.h"

#define S	     1000000000ULL
#define MAGLEV_ROOM  16 /* entries of a Maglev table here */
#define MAGLEV_BYTES (MAGLEV_ROOM * sizeof(uint16_t))

extern struct mk_service_tables tables;
extern struct mk_service_sync *sync_;
extern struct mk_service_counts counts; /* of the last call */
extern struct mk_error sync_err;
extern uint64_t now_ns;
extern uint32_t sync_room; /* capacity of each table; set before sync_setup() */

/* Checked fixture: empty tables, a newly started agent. */
void sync_setup(void);
void sync_teardown(void);
/* Start another agent on the same tables. */
void sync_restart(void);

/* A compiled Service with one set. */
struct built {
	struct mk_wanted_frontend frontends[4];
	struct mk_service_backend backends[8];
	struct mk_live_backend live[8];
	uint16_t maglev[MAGLEV_ROOM];
	struct mk_backend_set set;
	struct mk_compiled_service compiled;
};

/* ClusterIP @vip:80 and the address itself; backends "10.0.0.N:8080" per digit of @backends. */
struct built *build(struct built *built, const char *name, const char *vip, const char *backends);
void apply(const struct built *built);
void apply_named(const char *name, const char *vip, const char *backends);
void remove_named(const char *name);
void prune(void);
int collect(uint64_t at_ns);

size_t entries(const struct mk_table *table);
/* The frontend @vip:@port (TCP), or with port 0 the address itself. */
bool lookup(const char *vip, uint16_t port, struct mk_frontend *service);
bool lookup_scope(const char *vip, uint16_t port, enum mk_scope scope, struct mk_frontend *service);
/* The last digits of the backends of @vip:80, as the datapath would find them. */
const char *backends_of(const char *vip);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/policy_tables_fixture.h - the sync of the policy tables on a test's own real maps. Rows
 * are noted one by one and then applied together. */
#ifndef MK_TEST_POLICY_TABLES_FIXTURE_H
#define MK_TEST_POLICY_TABLES_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datapath/policy/ask.h"
#include "datapath/policy/tables.h"

#define S	  1000000000ULL
#define POD_SLOTS 16

extern struct mk_policy_tables policy_tables;
extern struct mk_policy_sync *policy_sync;
extern struct mk_policy_counts policy_counts; /* of the last call */
extern struct mk_error policy_err;
extern uint64_t policy_now_ns;
/* Capacity of each table, and of map pod_policies; set before policy_setup() */
extern uint32_t policy_room, policy_slots;

/* Checked fixtures: empty tables, a newly started agent. */
void policy_setup(void);
void policy_setup_ipv6(void);
void policy_teardown(void);
/* Start another agent on the same tables. */
void policy_restart(void);

/* Note rows of the next call. */
void put_identity(const char *ip, uint64_t class_id, const char *counts_as);
void gone_identity(const char *ip);
void put_peer(uint64_t set, uint64_t peer, uint64_t table);
void gone_peer(uint64_t set, uint64_t peer);
/* @block NULL: any address. */
void put_block(uint64_t set, const char *block, uint64_t table);
void gone_block(uint64_t set, const char *block);
void put_port(const struct mk_port_row *row);
void gone_port(const struct mk_port_row *row);
void put_pod(const char *uid, const char *name, uint64_t ingress, uint64_t egress);
void gone_pod(const char *uid, const char *name);
void put_namespace(const char *name, uint32_t directions);
/* @uid NULL: none. @name NULL: a container of no Pod. */
void add_sandbox(const char *uid, const char *name, const char *ip, int ifindex);

/* The sandboxes so far are this node's. */
int try_apply(void);
void apply_rows(void);
void forget_rows(void);
void forget_sandboxes(void);
int policy_collect(uint64_t at_ns);

size_t policy_entries_of(const struct mk_table *table);
struct mk_pod_policy policy_slot(const char *ip);
struct mk_policy_state policy_state_now(void);
/* May @peer open TCP @port, as the set of the pod @ip says? */
bool policy_allows(const char *ip, enum mk_policy_direction direction, const char *peer,
		   uint16_t port);

#endif

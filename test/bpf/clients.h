/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/clients.h - clients outside that keep their address, hop by hop: the node that takes the
 * request and the node that has the pod see each other's packets at the overlay. */
#ifndef MK_TEST_CLIENTS_H
#define MK_TEST_CLIENTS_H

#include "bpf/fixture.h"

/* VTEP MAC addresses of the nodes 192.168.99.12 and .13 */
#define NODE2 "02:4d:0a:12:00:02"
#define NODE3 "02:4d:0a:12:00:03"

void clients_load_keeping(void); /* unchecked fixture: the node has clientAddress Keep */
/* After fixture_reset(): node2 and node3 with their own addresses; node3 has 10.244.3.0/24. */
void clients_put_nodes(void);

/* A case whose tests share what @load has loaded; each begins with @setup. */
TCase *clients_case(Suite *suite, const char *name, SFun load, SFun setup);

/* Send @flow, expect it @where and as @seen, and check that its frame is for @to_node. NULL: not
 * compared. Returns the frame. */
struct frame hop(const char *name, enum mk_hook hook, const char *flow,
		 const struct frame_options *with, enum where where, const char *seen,
		 const char *to_node);

/* Make the ICMP error "icmp A > B" with @code (ICMP_DEST_UNREACH) about @flow. @mac: the sender's, or
 * NULL. */
struct frame error_about(const char *flow, const char *from_to, const char *mac, uint8_t code);

#endif

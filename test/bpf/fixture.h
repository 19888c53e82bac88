/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/fixture.h - the datapath loaded for a node, its tables filled for a row, one packet
 * after the other through it (BPF_PROG_TEST_RUN).
 *
 * The node: node1 192.168.99.11, pod CIDR 10.244.1.0/24, VTEP 10.18.0.1; node2 192.168.99.12 has
 * 10.244.2.0/24. Local pods 10.244.1.2 and .3, each on ifindex 1 (the one that test runs have). */
#ifndef MK_TEST_FIXTURE_H
#define MK_TEST_FIXTURE_H

#include <check.h>
#include <stdint.h>

#include "monokube/abi.h"
#include "bpf/frame.h"
#include "datapath/links.h"

enum where { /* what became of a packet */
	     TO_POD,
	     TO_OVERLAY,
	     TO_UPLINK,
	     TO_HOST, /* up the stack: TC_ACT_UNSPEC */
	     TO_LOOPBACK, /* up the stack, as if it came by the loopback device */
	     TO_HOST_HOOK, /* from the loopback device */
	     WAITS, /* a fragment: it is held, or comes in again */
	     DROPPED,
};
const char *where_name(enum where where);

/* Before fixture_load(): source ports of masqueraded traffic, inclusive; else 49152 to 65535. */
void fixture_nat_ports(uint16_t min, uint16_t max);
/* Before fixture_load(): sessions' times are not those of the last tick. With few ports, one tick is the
 * time of all of them. */
void fixture_exact_clock(void);

/* Before fixture_load(): a cluster's range of 32,768 nodes, beside the one of 256 above. */
#define FIXTURE_WIDE_NET  "10.128.0.0"
#define FIXTURE_WIDE_MASK "255.128.0.0"
void fixture_wide_cluster(void);
/* The node as the programs have it. */
const struct mk_node *fixture_node(void);

/* Unchecked fixtures: load once, forked tests share the maps and empty them with fixture_reset(). What was
 * loaded stays for the next case, if that wants the same. */
void fixture_load(void);
/* With tables of a thousand entries, which fixture_reset() walks sooner. */
#define FIXTURE_SMALL 1024
void fixture_load_small(void);
void fixture_unload(void); /* forgets what was said before fixture_load() */
void fixture_fill_chain(void); /* the tail calls' targets */
/* Empty all tables, then the two nodes, pods and routes above. */
void fixture_reset(void);

/* The node's devices and addresses; after fixture_reset() one uplink, ifindex 1. What @links leaves zero of the
 * overlay's and the host's is as there. */
void fixture_links(const struct mk_datapath_links *links);
/* Until the next fixture_reset() packets have this mark. */
void fixture_mark(uint32_t mark);

/* Egress of the loopback device; what it drops counts as the host hook's. */
#define HOOK_LOOPBACK MK_HOOK_COUNT

/* Until the next fixture_reset() frames have a sum over all of them from the device (CHECKSUM_COMPLETE), and a program that
 * leaves it wrong fails ("Bad message"). Returns false if the kernel cannot: then nothing changes. */
bool fixture_checksum_complete(void);

/* Send @in by @hook; @out is the frame afterwards. A frame on the uplink that is for FRAME_GATEWAY_MAC is for
 * this host; one for another address is not. */
enum where fixture_send(enum mk_hook hook, const struct frame *in, struct frame *out);

#define FIXTURE_ACCOUNT 1000 /* account_id of the n-th Service is this and n */

/* Frames sent from now on are GSO packets of so many segments; 0: they are not. */
void fixture_gso(unsigned segments, unsigned segment_bytes);

/* @frontend: "tcp|udp|sctp A:port". Backends end with NULL: "10.244.1.3:8080". @local_count of them
 * are on this node. */
void fixture_service(const char *frontend, enum mk_scope scope, uint16_t flags,
		     const char *const *backends, uint16_t local_count, uint16_t local_weight);
/* "udp 192.168.99.11:53" (0.0.0.0: any address of the host) leads to @pod "10.244.1.3:5353". */
void fixture_host_port(const char *port, const char *pod);
void fixture_host_port_gone(const char *port);
/* The frontend's entry, for what fixture_service() leaves zero. */
struct mk_service fixture_get_service(const char *frontend, enum mk_scope scope);
void fixture_put_service(const char *frontend, enum mk_scope scope,
			 const struct mk_service *service);
struct mk_addr fixture_addr(const char *text); /* "10.0.0.1" */
void fixture_mac(const char *address,
		 __u8 *mac); /* that a pod, gateway or VTEP of this address has */
void fixture_addr_port(const char *text, struct mk_addr *address, __be16 *port);
void fixture_vip(const char *address);
void fixture_drop_range(const char *net, unsigned bits); /* as a ServiceCIDR is in map routes */
#define FIXTURE_POD_SLOTS 256 /* of map pods: a /24 */
void fixture_put_pod(const struct mk_pod *pod);
void fixture_pod(const char *address); /* another local pod */
void fixture_peer(const char *pod_net, const char *vtep); /* another node's pods, a /24 */
void fixture_peer_address(const char *address,
			  const char *vtep); /* its own; now all nodes' are known */
void fixture_host_address(const char *address); /* beside those of the node above */
/* NodePorts at loopback addresses are within these. */
void fixture_localhost_ports(uint16_t min, uint16_t max);
/* Services' backends take UDP there, too; after fixture_reset() at none. */
void fixture_udp_backend_port(uint16_t port);
void fixture_runtime(const struct mk_runtime *runtime);
void fixture_watch(const struct mk_watch_settings *settings); /* until the next fixture_reset() */
void fixture_break_chain(enum mk_prog slot); /* empty a slot, until the next fixture_reset() */

/* So many half-open TCP sessions may be among the established ones on each CPU, and all packets come by one;
 * FIXTURE_ROOM after fixture_reset(), and packets come by all (cpus.h). */
#define FIXTURE_ROOM 1000
void fixture_room(int64_t sessions);
int64_t fixture_room_taken(void); /* of all CPUs, since fixture_room() */

uint64_t fixture_drops(enum mk_hook hook, enum mk_drop_reason reason);
uint64_t fixture_drops_total(void);
unsigned fixture_count(const char *map); /* entries of a map */
void fixture_empty(const char *map);
int fixture_map(const char *map); /* its fd */
int fixture_program(const char *program); /* its fd */
uint32_t fixture_ns_per_packet(enum mk_hook hook, const struct frame *in, unsigned repeat);

/* One hop of a flow: send @flow by @hook, expect @where and the flow @seen afterwards, right
 * checksums and no drop but what @where says. Returns the frame that came out. */
struct frame fixture_expect(const char *name, enum mk_hook hook, const struct frame *in,
			    enum where where, const char *seen);

#endif

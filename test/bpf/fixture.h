/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/fixture.h - the datapath loaded for a node. Its tables are filled for a row, and packets
 * pass one by one (BPF_PROG_TEST_RUN).
 *
 * The node: node1 192.168.99.11, pod CIDR 10.244.1.0/24, VTEP 10.18.0.1; node2 192.168.99.12 has
 * 10.244.2.0/24. Local pods 10.244.1.2 and .3, each on ifindex 1 (the one that test runs have). */
#ifndef MK_TEST_FIXTURE_H
#define MK_TEST_FIXTURE_H

#include <check.h>
#include <stdint.h>

#include "monokube/abi.h"
#include "bpf/family.h"
#include "bpf/frame.h"
#include "datapath/maps/links.h"

enum where { /* the outcome for a packet */
	     TO_POD,
	     TO_OVERLAY,
	     TO_UPLINK,
	     TO_CLUSTER, /* by mkpeer */
	     TO_HOST, /* up the stack: TC_ACT_UNSPEC */
	     TO_LOOPBACK, /* up the stack, as if it came by the loopback device */
	     TO_HOST_HOOK, /* from the loopback device */
	     WAITS, /* a fragment: it is held, or comes in again */
	     DROPPED,
};
const char *where_name(enum where where);

/* Set the source ports of masqueraded traffic, inclusive; the default is 49152 to 65535. Call it
 * before fixture_load(). */
void fixture_nat_ports(uint16_t min, uint16_t max);
/* Let sessions use the exact clock instead of the last tick's time. With few ports all of them
 * would have the time of one tick. Call it before fixture_load(). */
void fixture_exact_clock(void);

/* Do without BPF_F_IPV6, as on earlier kernels (mk_node.has_ipv6_csum). Call it before
 * fixture_load(). */
void fixture_before_linux_6_16(void);
/* Let pods' packets leave the cluster with their own source (mk_node.keeps_source). Call it before
 * fixture_load(). */
void fixture_keep_source(void);
/* Let clients outside keep their address (mk_node.keeps_client). Call it before fixture_load(). */
void fixture_keep_client(void);
void fixture_return_directly(void); /* ... and directServerReturn */
/* The node has both families: IPv6's programs are behind IPv4's, which have the hooks. A run for IPv4
 * has no programs of IPv6. Call it before fixture_load(). */
void fixture_both_families(void);
/* ... or it has one, also in a run about both. */
void fixture_one_family(void);
/* The overlay's packets between nodes have the other family. */
void fixture_other_underlay(void);
/* encryption: WireGuardOnly. */
void fixture_encrypts_all(void);
/* synRate: each CPU opens one TCP session from outside per @ns nanoseconds without a proof. Call it
 * before fixture_load(). */
void fixture_syn_ns(uint32_t ns);
void fixture_syn_flood(void); /* every CPU's budget is used up, until the next fixture_reset() */
/* There are other clusters; this one has the number FIXTURE_CLUSTER. Call it before fixture_load(). */
#define FIXTURE_CLUSTER 100
void fixture_clusters(void);
/* The address of another node, which is always asked with an address of this one. */
void fixture_node_address(const char *address);

/* An address of the other family, from which the node with @vtep sends overlay packets. */
void fixture_far_peer(const struct mk_ip *ip, const char *vtep);

/* Give the cluster a range of 32,768 nodes, instead of the one of 256. Call it before
 * fixture_load(). */
#define FIXTURE_WIDE_NET  "10.128.0.0"
#define FIXTURE_WIDE_BITS 9
void fixture_wide_cluster(void);
/* Return the node's constants in the programs. */
const struct mk_node *fixture_node(void);

/* Unchecked fixtures: they load once; forked tests share the maps and empty them with
 * fixture_reset(). The loaded datapath stays for the next case if that needs the same. */
void fixture_load(void);
/* Load with tables of a thousand entries, which fixture_reset() empties sooner. */
#define FIXTURE_SMALL 1024
void fixture_load_small(void);
void fixture_unload(void); /* resets the settings made before fixture_load() */
void fixture_fill_chain(void); /* the tail calls' targets */
void fixture_fill_other_family(void); /* ... from IPv4's programs to IPv6's */
int fixture_other_family(void); /* the fd of this map, which IPv4 alone has */
/* Empty all tables, then insert the two nodes, pods and routes above. */
void fixture_reset(void);

/* Set the node's devices and addresses; fixture_reset() sets one uplink, ifindex 1. Zero members of
 * @links for overlay and host keep the values of fixture_reset(). */
void fixture_links(const struct mk_datapath_links *links);
/* Give packets this mark until the next fixture_reset(). */
void fixture_mark(uint32_t mark);

/* Let programs judge where a device writes a checksum (bpf/partial.h). Test runs cannot leave one to
 * a device, so these programs read the members of struct sk_buff from skb->cb. Call it before
 * fixture_load(). */
void fixture_judge_checksums(void);
/* Until the next fixture_reset(): ip_summed of each packet, and the place, counted from the IP
 * header. */
#define FIXTURE_SUMMED_SHIFT 5
void fixture_checksum_at(unsigned summed, uint16_t start, uint16_t offset);

/* Let packets come by this device of the network namespace until the next fixture_reset(). */
void fixture_device(unsigned ifindex);

/* Egress of the loopback device; its drops count as the host hook's. */
#define HOOK_LOOPBACK MK_HOOK_COUNT

/* Until the next fixture_reset() give frames a device's sum over the whole frame
 * (CHECKSUM_COMPLETE). A program that leaves a wrong sum fails ("Bad message"). Returns false if
 * the kernel does not support that; then nothing changes. */
bool fixture_checksum_complete(void);

/* Send @in by @hook; @out is the frame afterwards. A frame on the uplink is for this host if its
 * destination is FRAME_GATEWAY_MAC. */
enum where fixture_send(enum mk_hook hook, const struct frame *in, struct frame *out);

/* Let frames of MK_HOOK_FUNCTION come to this hook from now on: MK_ENTRY_FUNCTION, which is the
 * default, or MK_ENTRY_SFC_OVERLAY. */
void fixture_function_entry(enum mk_entry entry);

#define FIXTURE_ACCOUNT 1000 /* the service_id of the n-th Service is this plus n */

/* Send frames from now on as GSO packets of @segments; 0: as ordinary packets. */
void fixture_gso(unsigned segments, unsigned segment_bytes);

/* @frontend: "tcp|udp|sctp A:port". Backends end with NULL: "10.244.1.3:8080". @local_count of them
 * are on this node. */
void fixture_service(const char *frontend, enum mk_scope scope, uint16_t flags,
		     const char *const *backends, uint16_t local_count, uint16_t local_weight);
/* Let a host port, "udp 192.168.99.11:53" (0.0.0.0: any address of the host), lead to @pod,
 * "10.244.1.3:5353". */
void fixture_host_port(const char *port, const char *pod);
void fixture_host_port_gone(const char *port);
/* Read the frontend's entry, to set members that fixture_service() leaves zero. */
struct mk_frontend fixture_get_service(const char *frontend, enum mk_scope scope);
void fixture_put_service(const char *frontend, enum mk_scope scope,
			 const struct mk_frontend *service);
struct mk_addr fixture_addr(const char *text); /* "10.0.0.1", see family.h */
void fixture_mac(const char *address,
		 __u8 *mac); /* of the pod, gateway or VTEP with this address */
void fixture_addr_port(const char *text, struct mk_addr *address, __be16 *port);
void fixture_vip(const char *address);
void fixture_drop_range(const char *net, unsigned bits); /* as a ServiceCIDR is in map routes */
void fixture_drop_cidr(const struct mk_cidr *cidr);
#define FIXTURE_POD_SLOTS (family_is6() ? 1024u : 256u) /* of map pods: a /24 */
void fixture_put_pod(const struct mk_pod *pod);
void fixture_pod(const char *address); /* another local pod */
/* .. that no WireGuard leads to */
void fixture_clear_peer(const char *pod_net, const char *vtep);
void fixture_peer(const char *pod_net, const char *vtep); /* another node's pods, a /24 */
/* The address of the node of @vtep; from now on all nodes' addresses are known. */
void fixture_peer_address(const char *address, const char *vtep);
void fixture_host_address(const char *address); /* in addition to those above */
/* Set the range of NodePorts at loopback addresses. */
void fixture_localhost_ports(uint16_t min, uint16_t max);
/* Let backends of Services receive UDP at @port; after fixture_reset() there is no such port. */
void fixture_udp_backend_port(uint16_t port);
/* Route the view @net/@bits to a cluster. */
void fixture_view(const char *net, unsigned bits, uint32_t cluster);
void fixture_runtime(const struct mk_runtime *runtime);
void fixture_watch(const struct mk_monitor_settings *settings); /* until the next fixture_reset() */
void fixture_break_chain(enum mk_prog slot); /* empty a slot, until the next fixture_reset() */

/* Set each CPU's half-open quota, and let all packets come by one CPU. fixture_reset() sets
 * FIXTURE_QUOTA and lets packets come by all CPUs (cpus.h). */
#define FIXTURE_QUOTA 1000
void fixture_quota(int64_t sessions);
int64_t fixture_quota_used(void); /* used by all CPUs since fixture_quota() */

uint64_t fixture_drops(enum mk_hook hook, enum mk_drop_reason reason);
uint64_t fixture_drops_total(void);
unsigned fixture_count(const char *map); /* entries of a map */
void fixture_empty(const char *map);
int fixture_map(const char *map); /* its fd */
/* ... of IPv4's programs in front of IPv6's; -1: there are none */
int fixture_front_map(const char *map);
int fixture_program(const char *program); /* its fd */
int fixture_hook_program(enum mk_entry entry); /* the fd of the program at this hook */
uint32_t fixture_ns_per_packet(enum mk_hook hook, const struct frame *in, unsigned repeat);

/* Check one hop of a flow: send @in by @hook, expect @where and then the flow @seen. Checksums must
 * be right, and only @where may cause a drop. Returns the resulting frame. */
struct frame fixture_expect(const char *name, enum mk_hook hook, const struct frame *in,
			    enum where where, const char *seen);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/overlay_fixture.h - Nodes in a model, and the overlay of node "a" in a network
 * namespace of its own, whose uplink is a veth. */
#ifndef MK_TEST_OVERLAY_FIXTURE_H
#define MK_TEST_OVERLAY_FIXTURE_H

#include "base/cleanup.h"
#include "overlay/overlay.h"
#include "unit/unit.h"

extern struct mk_model *node_model;

/* Checked fixture: an empty model. */
void plan_setup(void);
void plan_teardown(void);
/* Put a Node of IPv4 into the model; NULL: without. */
void model_node(const char *name, const char *pod_cidr, const char *internal_ip, bool ready);
/* The same with two families. */
void model_dual_node(const char *name, const char *v4, const char *v6, const char *ip4,
		     const char *ip6);
/* Node "a" with pod CIDRs @own_v4 and @own_v6 (NULL: none); valid until the next call. */
struct mk_overlay_view view_of(const char *own_v4, const char *own_v6, sa_family_t of);

/* The overlay of a node with one family, and its devices. */
extern struct mk_nl *nl;
extern struct mk_overlay *overlay;
extern struct mk_device_wanted wanted;
extern struct mk_devices node_devices;
extern unsigned int changes; /* of the last sync */
extern sa_family_t family; /* the node's only family, or the primary one */
extern struct mk_addresses *own; /* of that family */

struct setting {
	const char *underlay, *cluster, *vtep, *pods;
	uint32_t mtu_bytes;
};
extern const struct setting v4_by_v4, v6_by_v4, v6_by_v6; /* pods by underlay */

void netns_setup_of(const struct setting *setting);
/* Checked fixtures */
void netns_setup(void);
void netns_setup_v6_by_v4(void);
void netns_setup_v6_by_v6(void);
void netns_teardown(void);

/* Plan the peers of the model, of IPv4, and apply them. */
void sync_plan(bool complete);
/* Apply what was set. */
void sync_alone(bool complete);
/* As `monokube cleanup` does. */
int remove_overlay(unsigned int *removed);
/* @texts end with NULL. */
void set_ranges(const char *const *texts);

/* What the kernel has: monokube's routes, permanent neighbours and FDB entries. */
struct seen {
	unsigned int routes, neighbours, fdb;
	const char *dst, *remote;
	bool has_dst, has_remote;
};
/* @dst: look for a route to it; @remote: for an FDB entry with it; NULL: for none. The chains'
 * device has the same FDB entries. */
struct seen look(const char *dst, const char *remote);
struct seen look_at(sa_family_t of);

/* For mk_nl_each_addr(): the last address of a device, and how many it has. */
struct own_address {
	int ifindex, count;
	struct mk_nl_addr addr;
};
int see_own(void *ctx, const struct mk_nl_addr *addr);
int setting_of(const char *device, const char *name);
/* The device has IPv6, and the one address @ip, deprecated. */
void check_device(const char *name, int ifindex, const struct mk_ip *ip);
/* Both devices, with the addresses of `own`. */
void check_devices(void);

void change_link(int ifindex, struct mk_link_change change);
/* ... of the overlay's device */
void disable_ipv6(void);
/* For mk_overlay_on_left_vip(): keep the first, count all in the unsigned int @ctx. */
void keep_first(void *ctx, const struct mk_ip *vip);

/* Each one breaks the overlay's device in another way. */
#define OVERLAY_FAULTS 6
extern void (*const overlay_faults[OVERLAY_FAULTS])(void);

#endif

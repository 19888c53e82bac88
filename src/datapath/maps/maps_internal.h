/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/maps/maps_internal.h - functions that only this folder uses. */
#ifndef MK_DATAPATH_MAPS_MAPS_INTERNAL_H
#define MK_DATAPATH_MAPS_MAPS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

struct bpf_map;
struct bpf_object;
struct mk_error;
struct mk_node;
struct mk_skb_window;

/* Suppress libbpf's messages while @quiet, for requests whose failure is an expected answer.
 * Returns the previous setting. */
bool bpflog_quiet(bool quiet);

/* Does this kernel have the helper bpf_ktime_get_coarse_ns()? See mk_node.has_coarse_clock. */
bool object_has_coarse_clock(void);

/* Does bpf_l4_csum_replace() know IPv6's pseudo header? See mk_node.has_ipv6_csum. */
bool object_has_ipv6_csum(void);

/* skb_window.c: where this kernel's struct sk_buff has what bpf/partial.h reads. All 0: the kernel
 * does not show it (no CONFIG_DEBUG_INFO_BTF, or lockdown=confidentiality). */
const struct mk_skb_window *object_skb_window(void);

/* embedded4.c, embedded6.c: the object files. */
const void *object_bytes_ipv4(size_t *bytes);
const void *object_bytes_ipv6(size_t *bytes);
/* Open the object of the family of @node. */
struct bpf_object *object_open(const struct mk_node *node, struct mk_error *err);
/* Set the constants, before load. */
__attribute__((warn_unused_result)) int
object_put_node(struct bpf_object *object, const struct mk_node *node, struct mk_error *err);

/* refused.c: the maps that a load creates. libbpf returns only an error number, not which map
 * failed. */
#define MAPS_TO_CREATE_MAX 64
struct maps_to_create {
	const struct bpf_map *map[MAPS_TO_CREATE_MAX];
	size_t count;
};
void list_maps_to_create(const struct bpf_object *object, struct maps_to_create *list);
/* After a failed load: find the map that the kernel refused. Returns 0 if it refuses none now:
 * memory may be free again. */
__attribute__((warn_unused_result)) int find_refused_map(const struct maps_to_create *list,
							 struct mk_error *err);

#endif

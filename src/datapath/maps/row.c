// SPDX-License-Identifier: Apache-2.0
#include "datapath/maps/row.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "monokube/abi.h"
#include "monokube/clusters.h"
#include "monokube/sfc.h"
#include "base/cleanup.h"

/* ---- which bytes each struct's IPv4 form leaves out ------------------------------------------ */

#define PREFIX_BYTES 12 /* ::ffff:0:0/96 */

struct cut {
	uint16_t at;
	uint8_t bytes;
	bool is_prefix; /* of an address; otherwise padding */
};

#define ADDRESS(type, member)                                     \
	{                                                         \
		offsetof(struct type, member), PREFIX_BYTES, true \
	}
#define PADDING(type, member, bytes)                        \
	{                                                   \
		offsetof(struct type, member), bytes, false \
	}
#define FORM(name, type, ipv4)                                       \
	{                                                            \
		name, MK_ARRAY_SIZE(name), sizeof(struct type), ipv4 \
	}

#define TUPLE(type, member) ADDRESS(type, member.saddr), ADDRESS(type, member.daddr)

static const struct cut tuple[] = { ADDRESS(mk_tuple, saddr), ADDRESS(mk_tuple, daddr) };
static const struct cut session[] = { TUPLE(mk_session, to) };
static const struct cut place[] = { TUPLE(mk_session_place, key) };
static const struct cut frontend_key[] = { ADDRESS(mk_frontend_key, addr) };
static const struct cut backend[] = { ADDRESS(mk_backend, addr) };
static const struct cut affinity_key[] = { ADDRESS(mk_affinity_key, client) };
static const struct cut affinity[] = { ADDRESS(mk_affinity, backend.addr),
				       PADDING(mk_affinity, pad, 4) };
static const struct cut affinity_backend_key[] = { ADDRESS(mk_affinity_backend_key, backend.addr) };
static const struct cut source_range_key[] = { ADDRESS(mk_source_range_key, addr) };
static const struct cut pod[] = { ADDRESS(mk_pod, addr), PADDING(mk_pod, pad, 4) };
static const struct cut host_port_key[] = { ADDRESS(mk_host_port_key, addr) };
static const struct cut host_port[] = { ADDRESS(mk_host_port, addr) };
static const struct cut route_key[] = { ADDRESS(mk_route_key, addr) };
static const struct cut address[] = { { 0, PREFIX_BYTES, true } };
static const struct cut link_node[] = { ADDRESS(mk_link_node, addr) };
static const struct cut uplink[] = { ADDRESS(mk_uplink, addr), PADDING(mk_uplink, addr_local, 16) };
static const struct cut way[] = { ADDRESS(mk_way, next_hop), ADDRESS(mk_way, source) };
static const struct cut pod_policy[] = { ADDRESS(mk_pod_policy, addr),
					 PADDING(mk_pod_policy, pad, 4) };
static const struct cut identity[] = { ADDRESS(mk_policy_identity, counts_as),
				       PADDING(mk_policy_identity, pad, 4) };
static const struct cut block_key[] = { ADDRESS(mk_policy_block_key, addr) };
static const struct cut sfc_replica[] = { ADDRESS(mk_sfc_replica, addr),
					  PADDING(mk_sfc_replica, pad, 4) };
static const struct cut cluster[] = { ADDRESS(mk_cluster, home), ADDRESS(mk_cluster, view),
				      ADDRESS(mk_cluster, mask) };
static const struct cut export[] = { ADDRESS(mk_export, addr) };
static const struct cut monitor_settings[] = { ADDRESS(mk_monitor_settings, addr),
					       PADDING(mk_monitor_settings, pad, 4) };
static const struct cut drop_event[] = { TUPLE(mk_drop_event, tuple),
					 ADDRESS(mk_drop_event, client),
					 ADDRESS(mk_drop_event, server) };
static const struct cut flow_event[] = { TUPLE(mk_flow_event, came), TUPLE(mk_flow_event, goes) };
static const struct cut node[] = {
	ADDRESS(mk_node, vtep_addr),	ADDRESS(mk_node, gateway_addr),
	ADDRESS(mk_node, vpod_addr),	ADDRESS(mk_node, pod_net),
	ADDRESS(mk_node, pod_mask),	ADDRESS(mk_node, cluster_net),
	ADDRESS(mk_node, cluster_mask), ADDRESS(mk_node, vtep_net),
	ADDRESS(mk_node, vtep_mask),
};

#define LINK_NETWORK(set, i) \
	ADDRESS(mk_links, set.networks[i].net), ADDRESS(mk_links, set.networks[i].mask)
#define LINK_SET(set)                                                              \
	ADDRESS(mk_links, set.node_addr), ADDRESS(mk_links, set.first.addr),       \
		PADDING(mk_links, set.first.addr_local, 16), LINK_NETWORK(set, 0), \
		LINK_NETWORK(set, 1), LINK_NETWORK(set, 2), LINK_NETWORK(set, 3),  \
		LINK_NETWORK(set, 4), LINK_NETWORK(set, 5), LINK_NETWORK(set, 6),  \
		LINK_NETWORK(set, 7)
static const struct cut links[] = { LINK_SET(set[0]), LINK_SET(set[1]) };
_Static_assert(MK_LINK_NETWORKS == 8, "LINK_SET has all of them");

/* IPv4's identification has 16 bits. */
#define FRAGMENT_KEY(type, member)                                                             \
	ADDRESS(type, member saddr), ADDRESS(type, member daddr), PADDING(type, member id, 2), \
		PADDING(type, member pad, 2)
static const struct cut fragment_key[] = { FRAGMENT_KEY(mk_fragment_key, ) };
static const struct cut held[] = { FRAGMENT_KEY(mk_held, of.), PADDING(mk_held, pad_of, 4) };

static const struct row_form form_tuple = FORM(tuple, mk_tuple, 16);
static const struct row_form form_session =
	FORM(session, mk_session, sizeof(struct mk_session) - 2 * PREFIX_BYTES);
const struct row_form row_form_drop_event = FORM(drop_event, mk_drop_event, 56);
const struct row_form row_form_flow_event = FORM(flow_event, mk_flow_event, 56);
const struct row_form row_form_node =
	FORM(node, mk_node, sizeof(struct mk_node) - sizeof(node) / sizeof(node[0]) * PREFIX_BYTES);

/* ---- by map ---------------------------------------------------------------------------------- */

struct map_form {
	const char *map;
	struct row_form form;
};

static const struct map_form key_forms[] = {
	{ "frontends", FORM(frontend_key, mk_frontend_key, 8) },
	{ "affinity", FORM(affinity_key, mk_affinity_key, 8) },
	{ "affinity_new", FORM(affinity_key, mk_affinity_key, 8) },
	{ "affinity_backends", FORM(affinity_backend_key, mk_affinity_backend_key, 16) },
	{ "source_ranges", FORM(source_range_key, mk_source_range_key, 12) },
	{ "host_ports", FORM(host_port_key, mk_host_port_key, 8) },
	{ "routes", FORM(route_key, mk_route_key, 8) },
	{ "peers", FORM(address, mk_addr, 4) },
	{ "syn_verified", FORM(address, mk_addr, 4) },
	{ "fragments", FORM(fragment_key, mk_fragment_key, 12) },
	{ "policy_identities", FORM(address, mk_addr, 4) },
	{ "policy_blocks", FORM(block_key, mk_policy_block_key, 16) },
	{ "sfc_end_flow", FORM(tuple, mk_tuple, 16) },
	{ "exports", FORM(export, mk_export, 8) },
};

static const struct map_form value_forms[] = {
	{ "service_backends", FORM(backend, mk_backend, 8) },
	{ "affinity", FORM(affinity, mk_affinity, 16) },
	{ "affinity_new", FORM(affinity, mk_affinity, 16) },
	{ "sessions_order", FORM(place, mk_session_place, 24) },
	{ "nat_sessions_order", FORM(place, mk_session_place, 24) },
	{ "sessions_kept", FORM(place, mk_session_place, 24) },
	{ "nat_sessions_kept", FORM(place, mk_session_place, 24) },
	{ "pods", FORM(pod, mk_pod, 16) },
	{ "host_ports", FORM(host_port, mk_host_port, 12) },
	{ "link_nodes", FORM(link_node, mk_link_node, 20) },
	{ "pod_policies", FORM(pod_policy, mk_pod_policy, 32) },
	{ "policy_identities", FORM(identity, mk_policy_identity, 16) },
	{ "exports", FORM(address, mk_addr, 4) },
	{ "uplinks", FORM(uplink, mk_uplink, 16) },
	{ "links", FORM(links, mk_links, 292) },
	{ "way", FORM(way, mk_way, 16) },
	{ "sfc_replicas", FORM(sfc_replica, mk_sfc_replica, 32) },
	{ "clusters", FORM(cluster, mk_cluster, 24) },
	{ "monitor_settings", FORM(monitor_settings, mk_monitor_settings, 32) },
	{ "held", FORM(held, mk_held, sizeof(struct mk_held) - 32) },
};

static const char *const session_maps[] = { "sessions", "sessions_young", "nat_sessions",
					    "nat_sessions_young" };

#define KERNELS_NAME_CHARS 15 /* BPF_OBJ_NAME_LEN - 1 */

static bool is_map(const char *name, const char *map)
{
	return strncmp(name, map, KERNELS_NAME_CHARS) == 0;
}

static bool has_sessions(const char *name)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(session_maps); i++)
		if (is_map(name, session_maps[i]))
			return true;
	return false;
}

const struct row_form *row_key_form(const char *name)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(key_forms); i++)
		if (is_map(name, key_forms[i].map))
			return &key_forms[i].form;
	return has_sessions(name) ? &form_tuple : NULL;
}

const struct row_form *row_value_form(const char *name)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(value_forms); i++)
		if (is_map(name, value_forms[i].map))
			return &value_forms[i].form;
	return has_sessions(name) ? &form_session : NULL;
}

/* ---- conversion ------------------------------------------------------------------------------ */

void row_narrow(const struct row_form *form, void *ipv4, const void *row, size_t bytes)
{
	const uint8_t *from = row;
	uint8_t *to = ipv4;
	size_t at = 0;

	for (size_t i = 0; i < form->cut_count; i++) {
		size_t kept = form->cuts[i].at - at;

		memcpy(to, from + at, kept);
		to += kept;
		at = form->cuts[i].at + form->cuts[i].bytes;
	}
	memcpy(to, from + at, bytes - at);
}

/* Write what the cut left out. @row has the bytes behind it already. */
static inline void fill(uint8_t *row, const struct cut *cut)
{
	uint32_t ipv4;

	memset(row + cut->at, 0, cut->bytes);
	if (!cut->is_prefix)
		return;
	memcpy(&ipv4, row + cut->at + PREFIX_BYTES, sizeof(ipv4));
	if (ipv4)
		memset(row + cut->at + PREFIX_BYTES - 2, 0xff, 2);
}

/* From the end, because the row may overlap its IPv4 form. */
static inline __attribute__((always_inline)) void widen(const struct row_form *form, uint8_t *row,
							const uint8_t *ipv4, size_t bytes)
{
	const uint8_t *from = ipv4 + bytes - (form->row_bytes - form->ipv4_bytes);
	size_t end = bytes;

#pragma GCC unroll 4
	for (size_t i = form->cut_count; i > 0; i--) {
		const struct cut *cut = &form->cuts[i - 1];
		size_t kept = end - cut->at - cut->bytes;

		from -= kept;
		memmove(row + end - kept, from, kept);
		end = cut->at;
		fill(row, cut);
	}
	memmove(row, ipv4, end);
}

/* A pass over all sessions converts a million entries: for these the compiler knows every size. */
void row_widen(const struct row_form *form, void *row, const void *ipv4, size_t bytes)
{
	if (form == &form_tuple && bytes == sizeof(struct mk_tuple))
		widen(&form_tuple, row, ipv4, sizeof(struct mk_tuple));
	else if (form == &form_session && bytes == sizeof(struct mk_session))
		widen(&form_session, row, ipv4, sizeof(struct mk_session));
	else
		widen(form, row, ipv4, bytes);
}

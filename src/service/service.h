/* SPDX-License-Identifier: Apache-2.0 */
/* src/service/service.h - compile one Service and its endpoints into what the datapath's tables
 * hold: frontends that share backend sets. Pure: no I/O, no kernel, no globals. Rules: "What a
 * Service means, exactly" (Kubernetes pkg/proxy/{topology,serviceport,endpointslicecache}.go). */
#ifndef MK_SERVICE_SERVICE_H
#define MK_SERVICE_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monokube/abi.h"
#include "base/error.h"
#include "base/ip.h"
#include "cluster/model/model.h"

struct mk_wanted_frontend {
	struct mk_ip ip;
	uint16_t port; /* host order; 0 with proto MK_PROTO_ANY: the VIP itself */
	uint8_t proto;
	uint8_t scope; /* enum mk_scope */
	uint16_t flags; /* enum mk_frontend_flags */
	bool node_port; /* yields to every Service's own address, also another Service's */
	bool filtered; /* accepts only the Service's source ranges */
};

struct mk_service_backend {
	struct mk_ip ip;
	uint16_t port; /* host order */
	bool local; /* on this node */
};

/* One (Service port, set of usable endpoints): all its frontends share the same backends. */
struct mk_backend_set {
	char *port_name;
	struct mk_wanted_frontend *frontends;
	size_t frontend_count;
	struct mk_service_backend *backends; /* local first, then by address and port */
	size_t backend_count, local_count;
	uint16_t local_weight;
	/* NULL unless a frontend has MK_FRONTEND_MAGLEV and there are backends;
	 * laid out as in map maglev */
	uint16_t *maglev;
	size_t maglev_bytes;
};

struct mk_compiled_service {
	char *namespace_, *name;
	struct mk_backend_set *sets;
	size_t set_count; /* sets of one port are adjacent */
	uint32_t affinity_timeout_s; /* 0: no session affinity */
	/* Sources allowed for the filtered frontends, sorted; none: all. */
	struct mk_cidr *ranges;
	size_t range_count;
	/* UDP endpoints that keep their flows, for the session sweep. Sorted by ip, port, proto. */
	struct mk_live_backend {
		struct mk_ip ip;
		uint16_t port;
		uint8_t proto;
	} * live;
	size_t live_count;
	uint16_t health_check_port; /* answered on this node; 0: none */
	size_t local_ready_count; /* with it: addresses of ready endpoints on this node */
};

/* What the rules need to know about this node. */
struct mk_service_view {
	sa_family_t family; /* AF_INET or AF_INET6: only this part of a Service is compiled */
	const char *node_name;
	const char *zone; /* NULL: none */
	const struct mk_ip *node_addresses; /* addresses at which NodePorts answer */
	size_t node_address_count;
	/* Views of clusters that are down: an endpoint with such an address serves only if the port
	 * has no other one. */
	const struct mk_cidr *down;
	size_t down_count;
	uint16_t local_weight; /* localEndpointWeight */
	uint32_t maglev_slots; /* maglevTableSize; 0: MK_MAGLEV_SLOTS */
	bool masquerade_all; /* masqueradeAll: endpoints of ClusterIPs see no pod's address */
	bool localhost_node_ports; /* localhostNodePorts: also at 127.0.0.1 or ::1, for the host */
};

/* Compile the Service @namespace_/@name from @model, for the family of @view. A Service that does
 * not exist, is not ours, or has no clusterIP of the family gives zero sets. The caller releases
 * @out: mk_compiled_service_release(). */
mk_must_check int mk_service_compile(const struct mk_model *model,
				     const struct mk_service_view *view, const char *namespace_,
				     const char *name, struct mk_compiled_service *out,
				     struct mk_error *err);
void mk_compiled_service_release(struct mk_compiled_service *compiled);

/* Make a table of @slots slots (mk_maglev_room() entries) in which each of @backends has an equal
 * share. Removing one backend moves few slots of the others (Eisenbud et al., "Maglev", NSDI 2016,
 * 3.4). It depends only on addresses and ports: every node with as many slots computes the same
 * table, whatever the order of @backends. At most 65535 backends; if there are more than slots, the
 * last by address are left out. The caller frees the table; NULL: out of memory. */
uint16_t *mk_maglev_new(uint32_t slots, const struct mk_service_backend *backends, size_t count);
/* The same for elements with different, well mixed hashes: write into @table, which has @slots
 * entries, each slot's index in @hashes. An element's share is its weight's share of the sum, to
 * half a slot; if that is less, it may have none. Weights are 1 to 65535; NULL: all are equal.
 * Without elements the table stays. -ENOMEM. */
mk_must_check int mk_maglev_by_hash(uint16_t *table, uint32_t slots, const uint64_t *hashes,
				    const uint32_t *weights, size_t count);

#endif

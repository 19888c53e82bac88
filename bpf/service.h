/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/service.h - from a frontend to one of its backends. */
#ifndef MK_BPF_SERVICE_H
#define MK_BPF_SERVICE_H

#include "chain.h"
#include "open.h"

/* Of the loopback addresses, whose every one is the host's, map `services` has 127.0.0.1. */
static __always_inline struct mk_service *service_find(const struct mk_tuple *tuple,
						       enum mk_scope scope)
{
	struct mk_service_key key = {
		.addr = tuple->daddr,
		.port = tuple->dport,
		.proto = tuple->proto,
		.scope = scope,
	};

	if (scope == MK_SCOPE_INTERNAL && mk_addr_is_loopback(&key.addr))
		key.addr = localhost();
	return bpf_map_lookup_elem(&services, &key);
}

/* Is @addr a Service's, on whatever port? */
static __always_inline int service_is_vip(const struct mk_addr *addr)
{
	struct mk_service_key key = { .addr = *addr,
				      .proto = MK_PROTO_ANY,
				      .scope = MK_SCOPE_INTERNAL };

	return bpf_map_lookup_elem(&services, &key) != NULL;
}

/* May the client use this address? The host speaks from its overlay address, for which nobody
 * writes a range: it counts as the node's own. */
static __always_inline int service_lets_in(const struct mk_service *service,
					   const struct mk_addr *client)
{
	struct mk_source_range_key key = { .prefix_bits = 32 + MK_ADDR_BITS,
					   .ranges_id = service->ranges_id,
					   .addr = *client };

	if (!key.ranges_id)
		return 1;
	if (is_addr(client, mk_node_vtep()))
		key.addr = mk_node_addr();
	return bpf_map_lookup_elem(&source_ranges, &key) != NULL;
}

/* The client and its port alone, not the node's address it used: every node chooses alike. */
static __always_inline __u32 client_hash(const struct mk_tuple *tuple)
{
	struct mk_tuple client = { .saddr = tuple->saddr,
				   .sport = tuple->sport,
				   .proto = tuple->proto };

	return tuple_hash(&client);
}

static __always_inline __u32 choose_maglev(const struct mk_service *service,
					   const struct mk_tuple *tuple)
{
	struct mk_maglev_key key = { .service_id = service->id, .generation = service->generation };
	const __u16 *table = bpf_map_lookup_elem(&maglev, &key);
	__u32 slot = (__u64)client_hash(tuple) * mk_node.maglev_slots >> 32;

	return table ? table[slot & mk_node.maglev_mask] : 0;
}

/* A local backend weighs local_weight, another 1; the local ones come first. */
static __always_inline __u32 choose_weighted(const struct mk_service *service)
{
	__u32 local_share = (__u32)service->local_count * service->local_weight;
	__u32 total = local_share + service->backend_count - service->local_count;
	__u32 at = ((__u64)bpf_get_prandom_u32() * total) >> 32;

	if (at < local_share)
		return at / service->local_weight;
	return service->local_count + at - local_share;
}

/* Sets *@backend to the one of @client in @table, if its last connection is not too long ago and the backend
 * is still among those to choose from. Then this connection counts as its last. Returns 0, or -1. */
static __always_inline int affinity_find_in(void *table, const struct mk_service *service,
					    const struct mk_affinity_key *client,
					    struct mk_backend *backend)
{
	struct mk_affinity_backend_key member = { .service_id = service->id,
						  .generation = service->generation };
	struct mk_affinity *last = bpf_map_lookup_elem(table, client);
	__u64 now_ns = bpf_ktime_get_ns();

	/* a sum: another CPU may have written a later time than ours */
	if (!last || last->last_new_ns + service->affinity_timeout_s * MK_SECOND_NS <= now_ns)
		return -1;
	member.backend = last->backend;
	if (!bpf_map_lookup_elem(&affinity_backends, &member))
		return -1;
	last->last_new_ns = now_ns;
	*backend = member.backend;
	return 0;
}

static __always_inline void affinity_write(void *table, const struct mk_affinity_key *client,
					   const struct mk_backend *backend, __u64 new_ns)
{
	struct mk_affinity last = { .backend = *backend, .last_new_ns = new_ns };

	bpf_map_update_elem(table, client, &last, BPF_ANY);
}

/* If @pkt has completed its session, its client is no forger: what is known of it moves to the table that first
 * packets do not enter. If a flood has evicted it meanwhile, this packet's time stands for the first one's. */
static __always_inline void affinity_earn(const struct packet *pkt, enum mk_scope scope,
					  const struct session_hit *hit)
{
	struct mk_affinity_key client = { .client = pkt->tuple.saddr };
	struct mk_backend backend = { .addr = hit->to.daddr, .port = hit->to.dport };
	const struct mk_service *service;
	const struct mk_affinity *last;
	__u64 new_ns;

	if (!hit->completed)
		return;
	service = service_find(&pkt->tuple, scope);
	if (!service || !service->affinity_id)
		return;
	client.affinity_id = service->affinity_id;
	last = bpf_map_lookup_elem(&affinity_new, &client);
	if (last) {
		new_ns = last->last_new_ns;
		bpf_map_delete_elem(&affinity_new, &client);
	} else {
		last = bpf_map_lookup_elem(&affinity, &client);
		if (last && mk_addr_eq(&last->backend.addr, &backend.addr) &&
		    last->backend.port == backend.port)
			return;
		new_ns = bpf_ktime_get_ns();
	}
	affinity_write(&affinity, &client, &backend, new_ns);
}

static __always_inline int choose_backend(const struct mk_service *service,
					  const struct mk_tuple *tuple, struct mk_backend *backend)
{
	struct mk_backend_key key = { .service_id = service->id,
				      .generation = service->generation };
	const struct mk_backend *chosen;

	key.index = service->flags & MK_SERVICE_MAGLEV ? choose_maglev(service, tuple)
						       : choose_weighted(service);
	chosen = bpf_map_lookup_elem(&service_backends, &key);
	if (!chosen)
		return -1;
	*backend = *chosen;
	return 0;
}

/* Sets *@backend to one of @service. Returns 0, or -1 if its tables have been replaced since @service
 * was read. */
static __always_inline int service_choose(const struct mk_service *service,
					  const struct mk_tuple *tuple, struct mk_backend *backend)
{
	struct mk_affinity_key client = { .client = tuple->saddr,
					  .affinity_id = service->affinity_id };

	if (!client.affinity_id)
		return choose_backend(service, tuple, backend);
	if (affinity_find_in(&affinity, service, &client, backend) == 0 ||
	    affinity_find_in(&affinity_new, service, &client, backend) == 0)
		return 0;
	if (choose_backend(service, tuple, backend))
		return -1;
	affinity_write(&affinity_new, &client, backend, bpf_ktime_get_ns());
	return 0;
}

/* No backend: do the endpoints of other nodes answer, or nobody? */
static __always_inline int empty_reason(const struct mk_service *service)
{
	return service->flags & MK_SERVICE_DROP_EMPTY ? MK_DROP_NO_LOCAL_BACKEND : MK_DROP_REFUSED;
}

/* Fill request->to with a backend for @pkt. Returns MK_PARSED or a drop reason, of which the account
 * is to be told. */
static __always_inline int service_request(const struct packet *pkt, enum mk_scope scope,
					   const struct mk_service *service,
					   struct session_request *request)
{
	struct mk_backend backend;

	request->account_id = service->account_id;
	if (!service_lets_in(service, &pkt->tuple.saddr))
		return MK_DROP_SOURCE_RANGE;
	if (service->backend_count == 0)
		return empty_reason(service);
	if (service_choose(service, &pkt->tuple, &backend)) {
		/* read between two generations: the newer one is complete */
		service = service_find(&pkt->tuple, scope);
		if (!service)
			return MK_DROP_REFUSED;
		if (service->backend_count == 0)
			return empty_reason(service);
		if (service_choose(service, &pkt->tuple, &backend))
			return MK_DROP_NO_BACKEND;
	}
	request->to = pkt->tuple;
	request->to.daddr = backend.addr;
	request->to.dport = backend.port;
	request->service_id = service->id;
	/* a hairpin has to leave the pod again when it answers itself */
	if (service->flags & MK_SERVICE_MASQUERADE ||
	    mk_addr_eq(&backend.addr, &pkt->tuple.saddr)) {
		request->to.saddr = mk_node_vpod();
		request->source_port = 1;
	}
	return MK_PARSED;
}

/* Refuse or drop, as @reason asks. */
static __always_inline int service_reject(struct __sk_buff *skb, struct chain_ctx *ctx,
					  const struct packet *pkt, int reason)
{
	if (reason == MK_DROP_REFUSED)
		return chain_error(skb, ctx, pkt, reason, ICMP_DEST_UNREACH, ICMP_PORT_UNREACH, 0);
	return drop(skb, ctx->hook, reason, &pkt->tuple);
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/service.h - from a frontend to one of its backends. */
#ifndef MK_BPF_SERVICE_H
#define MK_BPF_SERVICE_H

#include "chain.h"
#include "client.h"
#include "open.h"

/* Find the frontend of @tuple. All loopback addresses are the host's; map `frontends` has entries
 * only for 127.0.0.1. */
static __always_inline struct mk_frontend *service_find(const struct mk_tuple *tuple,
							enum mk_scope scope)
{
	struct mk_frontend_key key = {
		.addr = tuple->daddr,
		.port = tuple->dport,
		.proto = tuple->proto,
		.scope = scope,
	};

	if (scope == MK_SCOPE_INTERNAL && mk_addr_is_loopback(&key.addr))
		key.addr = localhost();
	return bpf_map_lookup_elem(&frontends, &key);
}

/* Is @addr an address of a Service, whatever the port? */
static __always_inline int service_is_vip(const struct mk_addr *addr)
{
	struct mk_frontend_key key = { .addr = *addr,
				       .proto = MK_PROTO_ANY,
				       .scope = MK_SCOPE_INTERNAL };

	return bpf_map_lookup_elem(&frontends, &key) != NULL;
}

/* May the client use this frontend? The host's traffic comes from its overlay address, which users
 * do not list in source ranges. So it is checked as the node's own address. */
static __always_inline int service_lets_in(const struct mk_frontend *service,
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

/* Hash only the client's address, port and protocol, without the node's address: every node chooses
 * the same backend. */
static __always_inline __u32 client_hash(const struct mk_tuple *tuple)
{
	struct mk_tuple client = { .saddr = tuple->saddr,
				   .sport = tuple->sport,
				   .proto = tuple->proto };

	return tuple_hash(&client);
}

static __always_inline __u32 choose_maglev(const struct mk_frontend *service,
					   const struct mk_tuple *tuple)
{
	struct mk_maglev_key key = { .set_id = service->set_id, .generation = service->generation };
	const __u16 *table = bpf_map_lookup_elem(&maglev, &key);
	__u32 slot = (__u64)client_hash(tuple) * mk_node.maglev_slots >> 32;

	return table ? table[slot & mk_node.maglev_mask] : 0;
}

/* Choose at random. A local backend has the weight local_weight, any other 1. Local backends come
 * first. */
static __always_inline __u32 choose_weighted(const struct mk_frontend *service)
{
	__u32 local_share = (__u32)service->local_count * service->local_weight;
	__u32 total = local_share + service->backend_count - service->local_count;
	__u32 at = ((__u64)bpf_get_prandom_u32() * total) >> 32;

	if (at < local_share)
		return at / service->local_weight;
	return service->local_count + at - local_share;
}

/* Set *@backend to the backend of @client in @table. Conditions: its last new connection is recent
 * enough, and the backend is still in the set to choose from. This connection then counts as its
 * last. Returns 0, or -1. */
static __always_inline int affinity_find_in(void *table, const struct mk_frontend *service,
					    const struct mk_affinity_key *client,
					    struct mk_backend *backend)
{
	struct mk_affinity_backend_key member = { .set_id = service->set_id,
						  .generation = service->generation };
	struct mk_affinity *last = bpf_map_lookup_elem(table, client);
	__u64 now_ns = bpf_ktime_get_ns();

	/* computed as a sum: another CPU may have written a time later than ours */
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

/* If @pkt has completed its session, the client's address is not forged. Move its affinity to the
 * table that first packets do not write. If a flood has evicted the client's entry meanwhile, write
 * a new one with the time of this packet. */
static __always_inline void affinity_earn(const struct packet *pkt, enum mk_scope scope,
					  const struct session_hit *hit)
{
	struct mk_affinity_key client = { .client = pkt->tuple.saddr };
	struct mk_backend backend = { .addr = hit->to.daddr, .port = hit->to.dport };
	const struct mk_frontend *service;
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

static __always_inline int choose_backend(const struct mk_frontend *service,
					  const struct mk_tuple *tuple, struct mk_backend *backend)
{
	struct mk_backend_key key = { .set_id = service->set_id,
				      .generation = service->generation };
	const struct mk_backend *chosen;

	key.index = service->flags & MK_FRONTEND_MAGLEV ? choose_maglev(service, tuple)
							: choose_weighted(service);
	chosen = bpf_map_lookup_elem(&service_backends, &key);
	if (!chosen)
		return -1;
	*backend = *chosen;
	return 0;
}

/* Set *@backend to a backend of @service. Returns 0, or -1 if the Service's tables have been
 * replaced since @service was read. */
static __always_inline int service_choose(const struct mk_frontend *service,
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

/* The drop reason without a backend: do other nodes have endpoints, or does no node? */
static __always_inline int empty_reason(const struct mk_frontend *service)
{
	return service->flags & MK_FRONTEND_DROP_EMPTY ? MK_DROP_NO_LOCAL_BACKEND : MK_DROP_REFUSED;
}

/* Must @backend see the virtual pod address instead of the client's? A pod that reaches itself
 * must: the answer has to leave the pod. */
static __always_inline int hides_client(const struct packet *pkt, enum mk_scope scope,
					const struct mk_frontend *service,
					const struct mk_backend *backend)
{
	if (mk_addr_eq(&backend->addr, &pkt->tuple.saddr))
		return 1;
	if (!(service->flags & MK_FRONTEND_MASQUERADE))
		return 0;
	return scope != MK_SCOPE_EXTERNAL || !keeps_client(&pkt->tuple.saddr, &backend->addr);
}

static __always_inline void hide_client(struct session_request *request)
{
	request->to.saddr = mk_node_vpod();
	request->source_port = 1;
}

/* Fill request->to with a backend for @pkt. Returns MK_GO_ON, or a drop reason that is to be
 * counted for request->service_id. */
static __always_inline int service_request(const struct packet *pkt, enum mk_scope scope,
					   const struct mk_frontend *service,
					   struct session_request *request)
{
	struct mk_backend backend;

	request->service_id = service->service_id;
	if (!service_lets_in(service, &pkt->tuple.saddr))
		return MK_DROP_SOURCE_RANGE;
	if (service->backend_count == 0)
		return empty_reason(service);
	if (service_choose(service, &pkt->tuple, &backend)) {
		/* @service was read between two generations; the newer one is complete */
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
	request->set_id = service->set_id;
	if (hides_client(pkt, scope, service, &backend))
		hide_client(request);
	return MK_GO_ON;
}

/* Refuse the packet with an ICMP error, or drop it, depending on @reason. */
static __always_inline int service_reject(struct __sk_buff *skb, struct chain_ctx *ctx,
					  const struct packet *pkt, int reason)
{
	if (reason == MK_DROP_REFUSED)
		return chain_error(skb, ctx, pkt, reason, MK_ICMP_UNREACHABLE, MK_ICMP_NO_PORT, 0);
	return drop(skb, ctx->hook, reason, &pkt->tuple);
}

#endif

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/sfc_open.bpf.c - the path of a flow that chains take. Program `policy` has found the chains
 * (room->flow.chain). A new flow gets a path, and then a session that names it (`sfc_session`). A
 * known flow keeps the replicas that it has; it gets another one for each replica that is lost.
 * Program `sfc` then takes the packet along, or further along (CHAIN_RESUMES). */
#include "open_flow.h"
#include "policy.h"
#include "sfc.h"

/* ---- hashes ---------------------------------------------------------------------------------- */

static __always_inline void fill_all_hashes(struct scratch *room, const struct packet *pkt)
{
	const struct policy_flow *flow = &room->flow;
	int turned = forgotten(mk_addr_eq(&flow->server, &pkt->tuple.saddr), flow->port);
	__be16 client_port = turned ? room->request.to.dport : pkt->tuple.sport;
	__be16 server_port = turned ? pkt->tuple.sport : room->request.to.dport;

	fill_hashes(room->choice.hash[MK_POLICY_EGRESS], &flow->client, client_port, &flow->server,
		    server_port, flow->proto);
	fill_hashes(room->choice.hash[MK_POLICY_INGRESS], &flow->server, server_port, &flow->client,
		    client_port, flow->proto);
}

/* ---- replicas -------------------------------------------------------------------------------- */

/* Choose the replica of @place, or 0: none. @lost: the flow had one there. */
static __always_inline int replace(struct path_choice *choice, __u32 place,
				   const struct mk_sfc_place *of, int direction, int lost)
{
	__u32 function = of->function;
	__u8 flags = of->flags;
	__u16 number;

	if (lost && flags & MK_SFC_KEEP_LOST)
		return MK_DROP_SFC_UNAVAILABLE;
	if (!function)
		return MK_GO_ON;
	number = choose_replica(choice, function, hash_of_place(choice->hash[direction], flags));
	if (!number && !(flags & MK_SFC_SKIP))
		return MK_DROP_SFC_UNAVAILABLE;
	choice->path.replica[place] = number;
	return MK_GO_ON;
}

static __always_inline int choose_place(struct path_choice *choice, __u32 place)
{
	int direction = is_egress_place(place) ? MK_POLICY_EGRESS : MK_POLICY_INGRESS;
	__u32 index = is_egress_place(place) ? place : MK_SFC_PATH_FUNCTIONS - 1 - place;
	__u32 id = choice->path.chain[direction];
	__u16 had = choice->before.replica[place];
	const struct mk_sfc_chain *of;

	if (!id)
		return MK_GO_ON;
	if (choice->keeps[direction] && (!had || replica_find(had))) {
		choice->path.replica[place] = had;
		return MK_GO_ON;
	}
	/* a row that is not in the table has no functions, so the flow would pass */
	of = find_number(&sfc_chains, id);
	if (!of || !of->uid_hash)
		return MK_DROP_SFC_UNAVAILABLE;
	return replace(choice, place, &of->place[index & (MK_SFC_FUNCTIONS - 1)], direction,
		       choice->keeps[direction]);
}

/* ---- the path -------------------------------------------------------------------------------- */

/* Read the path that the flow has. Returns 1 if the flow was open before its chains. */
static __always_inline int read_before(const struct chain_ctx *ctx, struct scratch *room)
{
	const struct mk_sfc_path *before = NULL;
	__u32 id = room->request.to.path;

	__builtin_memset(&room->choice.before, 0, sizeof(room->choice.before));
	if (id)
		before = find_number(&sfc_paths, id);
	if (before)
		room->choice.before = *before;
	if (id && !before)
		return 0; /* the path was lost, not the chain */
	return ctx->opens == CHAIN_FOLLOWS || room->flow.taken_up;
}

/* Begin the part of the path that is of chain @id. A chain that does not take open flows leaves
 * this one alone if it @was_open before. @afresh: keep no replica that it has. Returns MK_GO_ON
 * or a drop reason. */
static __always_inline int begin_part(struct path_choice *choice, int direction, __u32 id,
				      int was_open, int afresh)
{
	const struct mk_sfc_chain *of = find_number(&sfc_chains, id);

	choice->keeps[direction] = id && choice->before.chain[direction] == id;
	/* without branches: a flow that has been in this chain was not open before it */
	was_open &= (0 - (choice->before.chain[direction] ^ id)) >> 31;
	choice->keeps[direction] &= afresh ^ 1;
	choice->path.chain[direction] = id;
	if (!id || choice->keeps[direction])
		return MK_GO_ON;
	if (!of || !of->uid_hash)
		return MK_DROP_SFC_UNAVAILABLE;
	if (was_open && of->leaves_open_flows)
		choice->path.chain[direction] = 0;
	return MK_GO_ON;
}

static __always_inline int begin_path(const struct chain_ctx *ctx, struct scratch *room)
{
	int was_open = read_before(ctx, room);
	struct path_choice *choice = &room->choice;
	const __u16 *chain = room->flow.chain;
	int ret;

	__builtin_memset(&choice->path, 0, sizeof(choice->path));
	choice->collides = 0;
	choice->misses = 0;
	ret = begin_part(choice, MK_POLICY_EGRESS, chain[MK_POLICY_EGRESS], was_open,
			 room->flow.afresh);
	if (ret != MK_GO_ON)
		return ret;
	return begin_part(choice, MK_POLICY_INGRESS, chain[MK_POLICY_INGRESS], was_open,
			  room->flow.afresh);
}

static __always_inline __u32 path_hash(const struct mk_sfc_path *path)
{
	const __u32 *word = (const __u32 *)path;
	__u32 hash = 0;

	for (__u32 i = 0; i < sizeof(*path) / sizeof(*word); i++)
		hash = (hash ^ word[i]) * 0x9e3779b1 + 0x7f4a7c15;
	return hash_finish(hash);
}

static __always_inline int path_eq(const struct mk_sfc_path *a, const struct mk_sfc_path *b)
{
	const __u32 *left = (const __u32 *)a, *right = (const __u32 *)b;
	__u32 differs = 0;

	for (__u32 i = 0; i < sizeof(*a) / sizeof(*left); i++)
		differs |= left[i] ^ right[i];
	return differs == 0;
}

/* Find or add the path in map sfc_paths. Returns its key, or 0 if there is no free entry. */
static __always_inline __u32 put_path(const struct mk_sfc_path *path)
{
	__u32 hash = path_hash(path);

	for (__u32 i = 0; i < MK_SFC_PATH_PROBES; i++) {
		__u32 id = forgotten((hash + i) % MK_SFC_PATHS + 1, hash);
		const struct mk_sfc_path *found = find_number(&sfc_paths, id);

		if (!found) {
			bpf_map_update_elem(&sfc_paths, &id, path, BPF_NOEXIST);
			found = find_number(&sfc_paths, id);
		}
		if (found && path_eq(found, path))
			return id;
	}
	return 0;
}

/* May the path be used? If a replica has been replaced since the chain got its functions in another
 * order, another one could have two places: its packets would go to it again and again. */
static __always_inline int check_path(struct path_choice *choice)
{
	choice->collides = has_twice(&choice->path.replica[0]) |
			   has_twice(&choice->path.replica[MK_SFC_FUNCTIONS]);
	return forgotten(choice->collides, choice->path.chain[0]) ? MK_DROP_SFC_UNAVAILABLE
								  : MK_GO_ON;
}

/* Choose the path of the flow and set room->request.to.path. Returns MK_GO_ON or a drop reason. */
static __always_inline int choose_path(const struct chain_ctx *ctx, const struct packet *pkt,
				       struct scratch *room)
{
	struct path_choice *choice = &room->choice;
	int ret = begin_path(ctx, room);

	if (ret != MK_GO_ON)
		return ret;
	fill_all_hashes(room, pkt);
	change_hashes(choice, room->flow.look);
	for (__u32 place = 0; place < MK_SFC_PATH_FUNCTIONS; place++) {
		/* a value in a register: with one of the map, clang begins the loop in a way that
		 * Linux 5.10 refuses (back-edge) */
		ret = choose_place(choice, forgotten(place, pkt->tuple.sport) & 15);
		if (ret != MK_GO_ON)
			return ret;
	}
	ret = check_path(choice);
	if (ret != MK_GO_ON)
		return ret;
	if (may_look_again(room))
		return MK_DROP_SFC_UNAVAILABLE;
	room->request.to.path = 0;
	if (!(choice->path.chain[MK_POLICY_EGRESS] | choice->path.chain[MK_POLICY_INGRESS]))
		return MK_GO_ON;
	room->request.to.path = put_path(&choice->path);
	if (!room->request.to.path)
		return MK_DROP_SFC_PATHS_FULL;
	return MK_GO_ON;
}

/* ---- the program ----------------------------------------------------------------------------- */

static __always_inline int refuse_flow(struct __sk_buff *skb, const struct chain_ctx *ctx,
				       const struct packet *pkt, const struct scratch *room,
				       int reason)
{
	if (opens_service(ctx))
		account_drop(room->request.service_id, reason);
	return drop(skb, ctx->hook, reason, &pkt->tuple);
}

SEC("tc")
int sfc_open(struct __sk_buff *skb)
{
	struct scratch *room = scratch_of_this_cpu();
	struct chain_ctx ctx;
	struct packet pkt;
	int ret = chain_packet(skb, &ctx, &pkt);

	if (ret != MK_GO_ON || !room)
		return drop(skb, ctx.hook, MK_DROP_TRUNCATED, &pkt.tuple);
	ret = choose_path(&ctx, &pkt, room);
	if (ret != MK_GO_ON && room->choice.collides && !room->flow.afresh) {
		room->flow.afresh = 1; /* keep nothing of the former path */
		return chain_next(skb, &ctx, &pkt, MK_PROG_SFC_OPEN);
	}
	if (ret != MK_GO_ON && may_look_again(room)) {
		room->flow.look++;
		return chain_next(skb, &ctx, &pkt, MK_PROG_SFC_OPEN);
	}
	if (ret != MK_GO_ON)
		return refuse_flow(skb, &ctx, &pkt, room, ret);
	if (ctx.opens < CHAIN_FOLLOWS)
		return chain_next(skb, &ctx, &pkt, MK_PROG_SFC_SESSION);
	note_seen(&pkt, &room->request);
	return chain_next(skb, &ctx, &pkt, MK_PROG_SFC);
}

/* Open the session of a new flow that has got its path. A program of its own: before Linux 6.12 the
 * verifier would walk it once for many ways through sfc_open's loops. */
SEC("tc")
int sfc_session(struct __sk_buff *skb)
{
	struct scratch *room = scratch_of_this_cpu();
	struct session_request *request;
	struct chain_ctx ctx;
	struct packet pkt;
	int ret = chain_packet(skb, &ctx, &pkt);

	if (ret != MK_GO_ON || !room)
		return drop(skb, ctx.hook, MK_DROP_TRUNCATED, &pkt.tuple);
	request = &room->request;
	/* forgotten: an answer's tuple comes from the map, and the verifier would walk the rest for
	 * known and for unknown bytes */
	pkt.tuple.pad = forgotten(0, request->policy_seen);
	pkt.tuple.path = forgotten(0, request->policy_seen);
	ret = open_flow(skb, &ctx, &pkt, request, MK_GO_ON, 1);
	if (ret != MK_GO_ON && request->set_id && !request->service_id)
		return send_back(skb, &ctx, &pkt);
	if (ret != MK_GO_ON)
		return refuse_flow(skb, &ctx, &pkt, room, ret);
	account_connection(skb, &pkt, request->service_id);
	ctx.opens = CHAIN_FOLLOWS;
	ctx.reverse_flags = request->turned ? request->reverse_flags : MK_SESSION_FORWARD;
	return chain_next(skb, &ctx, &pkt, MK_PROG_SFC);
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";

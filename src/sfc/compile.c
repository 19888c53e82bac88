// SPDX-License-Identifier: Apache-2.0
/* The rows, from chains and function pods. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "service/service.h"
#include "sfc/sfc_internal.h"

/* A function pod that has a number. */
struct member {
	struct mk_sfc_pod_object *pod;
	uint16_t group; /* of functions, from 1; 0: no chain names its function (any more) */
};

/* What is computed once for each pod. */
struct seen {
	uint64_t hash; /* of its UID */
	uint16_t group; /* as in struct member */
};

/* A function that a chain names. */
struct wanted {
	uint64_t hash;
	uint16_t number;
	uint16_t group; /* from 1 */
};

struct compiling {
	struct mk_sfc *sfc;
	struct seen *seen; /* as the pods */
	struct member *members;
	size_t count, here; /* here: on this node */
	struct wanted wanted[MK_SFC_FUNCTIONS_ALL]; /* by hash */
	size_t wanted_count;
	uint16_t serving[MK_SFC_FUNCTIONS_ALL]; /* replicas that are ready and stay, by group */
	struct sfc_joined joined[MK_SFC_FUNCTIONS_ALL]; /* by group */
};

/* ---- groups ---------------------------------------------------------------------------------- */

static int compare_wanted(const void *left, const void *right)
{
	const struct wanted *a = left, *b = right;

	return (a->hash > b->hash) - (a->hash < b->hash);
}

static void find_groups(struct compiling *in)
{
	struct sfc_joined joined[MK_SFC_FUNCTIONS_ALL] = { 0 };
	const struct numbers *functions = &in->sfc->functions;
	uint16_t group = 0;

	for (uint16_t i = 1; i < functions->used; i++)
		if (functions->of[i].hash && !functions->of[i].gone_ns)
			in->wanted[in->wanted_count++] =
				(struct wanted){ .hash = functions->of[i].hash, .number = i };
	qsort(in->wanted, in->wanted_count, sizeof(*in->wanted), compare_wanted);
	sfc_find_joined(in->sfc, joined);
	for (size_t i = 0; i < in->wanted_count; i++) {
		if (i == 0 || sfc_group(in->wanted[i].hash) != sfc_group(in->wanted[i - 1].hash))
			group++;
		in->wanted[i].group = group;
		in->joined[group] = joined[in->wanted[i].number];
	}
}

static int compare_group(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = sfc_group(((const struct wanted *)right)->hash);

	return (a > b) - (a < b);
}

static bool is_tap(const struct mk_sfc_pod_object *pod)
{
	return pod->mode == MK_PORT_TAP;
}

static bool is_end(const struct mk_sfc_pod_object *pod)
{
	return pod->mode == MK_PORT_END;
}

/* The kind of the functions that the pod can serve. */
static uint64_t kind_of(const struct mk_sfc_pod_object *pod)
{
	return is_tap(pod) ? MK_SFC_TAP_MASK : is_end(pod) ? KIND_END : 0;
}

/* 0: no chain names the pod's function as this kind. */
static uint16_t find_kind(const struct compiling *in, const struct mk_sfc_pod_object *pod,
			  uint64_t kind)
{
	const struct wanted *found;
	uint64_t group;

	if (kind & MK_SFC_HERE_MASK && !pod->is_here)
		return 0;
	group = sfc_function_hash(in->sfc, pod->namespace_, pod->function, kind, 0);
	found = bsearch(&group, in->wanted, in->wanted_count, sizeof(*in->wanted), compare_group);
	return found ? found->group : 0;
}

/* The same, but 0 stands for MK_SFC_HERE_MASK, too. A chain without ends has its functions for a
 * while after it is gone, so a chain with ends comes first. */
static uint16_t find_group(const struct compiling *in, const struct mk_sfc_pod_object *pod,
			   uint64_t kind)
{
	uint16_t here = kind == 0 ? find_kind(in, pod, MK_SFC_HERE_MASK) : 0;

	return here ?: find_kind(in, pod, kind);
}

static void see_all(struct compiling *in, const struct mk_sfc_pod_object *pods, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		in->seen[i].hash = sfc_hash(pods[i].uid, NULL);
		in->seen[i].group = find_group(in, &pods[i], kind_of(&pods[i]));
	}
}

/* ---- tags ------------------------------------------------------------------------------------ */

/* A replica that wants a tag. */
struct claim {
	uint64_t tag;
	struct mk_sfc_pod_object *pod;
};

static int compare_claims(const void *left, const void *right)
{
	const struct claim *a = left, *b = right;

	return a->tag != b->tag ? (a->tag > b->tag) - (a->tag < b->tag)
				: strcmp(a->pod->uid, b->pod->uid);
}

/* If two replicas have one tag, the first one by UID keeps it, on every node. */
static int find_shared_tags(const struct compiling *in, struct mk_sfc_pod_object *pods,
			    size_t count)
{
	cleanup_free struct claim *claims = calloc(count + 1, sizeof(*claims));
	size_t used = 0;

	if (!claims)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		pods[i].state = MK_SFC_POD_UNUSED;
		if (in->seen[i].group)
			claims[used++] = (struct claim){
				.tag = in->seen[i].hash & MK_SFC_TAG_MASK,
				.pod = &pods[i],
			};
	}
	qsort(claims, used, sizeof(*claims), compare_claims);
	for (size_t i = 1; i < used; i++)
		if (claims[i].tag == claims[i - 1].tag)
			claims[i].pod->state = MK_SFC_POD_SAME_TAG;
	return 0;
}

/* By tag; of two with one tag, the one in use first. */
static int compare_tags(const void *left, const void *right, void *ctx)
{
	const struct mk_sfc_tag_row *a = left, *b = right;
	const struct mk_sfc_replica_row *rows = ctx;

	if (a->tag != b->tag)
		return (a->tag > b->tag) - (a->tag < b->tag);
	return (int)rows[a->number].row.state - (int)rows[b->number].row.state;
}

/* Does each replica have its row? Only new and released replicas change the rows. */
static bool has_all_tags(const struct mk_sfc *sfc)
{
	size_t count = 0;

	for (uint32_t i = 1; i < sfc->replicas.used; i++)
		count += sfc->replicas.of[i].hash != 0;
	for (size_t i = 0; i < sfc->tag_count; i++) {
		uint64_t hash = sfc->replicas.of[sfc->tag_rows[i].number].hash;

		if (!hash || (hash & MK_SFC_TAG_MASK) != sfc->tag_rows[i].tag)
			return false;
	}
	return count == sfc->tag_count;
}

static void write_tags(struct mk_sfc *sfc)
{
	struct mk_sfc_tag_row *tags = sfc->tag_rows;
	size_t count = 0, kept = 0;

	if (has_all_tags(sfc))
		return;
	for (uint32_t i = 1; i < sfc->replicas.used; i++)
		if (sfc->replicas.of[i].hash)
			tags[count++] = (struct mk_sfc_tag_row){
				.tag = sfc->replicas.of[i].hash & MK_SFC_TAG_MASK,
				.number = i,
			};
	qsort_r(tags, count, sizeof(*tags), compare_tags, sfc->replica_rows);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || tags[i].tag != tags[kept - 1].tag)
			tags[kept++] = tags[i];
	sfc->tag_count = kept;
}

/* ---- replicas -------------------------------------------------------------------------------- */

static bool is_known(const struct mk_mac *mac)
{
	static const struct mk_mac none;

	return memcmp(mac, &none, sizeof(none)) != 0;
}

static bool has_one_port(const struct mk_sfc_pod_object *pod)
{
	return is_tap(pod) || is_end(pod);
}

/* What keeps the pod from being a replica? MK_SFC_POD_SERVING: nothing. */
static enum mk_sfc_pod_state lack_of(const struct mk_sfc_pod_object *pod)
{
	bool has_ports =
		pod->ifindex[MK_SFC_INSIDE] && (has_one_port(pod) || pod->ifindex[MK_SFC_OUTSIDE]);

	if (!pod->is_bound)
		return MK_SFC_POD_UNBOUND;
	if (pod->is_here ? !has_ports : !pod->asks_for_ports)
		return MK_SFC_POD_NO_PORTS;
	if (!pod->is_here && !is_known(&pod->vtep_mac))
		return MK_SFC_POD_NO_NODE;
	return MK_SFC_POD_SERVING;
}

static bool is_reachable(const struct mk_sfc_pod_object *pod)
{
	return lack_of(pod) == MK_SFC_POD_SERVING;
}

/* Does the replica get new flows as long as it is ready? */
static bool stays(const struct mk_sfc_pod_object *pod)
{
	return !pod->deleting && pod->weight > 0;
}

static void add_member(struct compiling *in, struct mk_sfc_pod_object *pod, uint16_t group)
{
	in->members[in->count++] = (struct member){ .pod = pod, .group = group };
	in->here += pod->is_here;
	in->serving[group] += group && pod->ready && is_reachable(pod) && stays(pod);
}

/* A pod that no function takes as it is: would one take it with other ports? */
static enum mk_sfc_pod_state mismatch_of(const struct compiling *in,
					 const struct mk_sfc_pod_object *pod)
{
	static const uint64_t kinds[] = { 0, MK_SFC_TAP_MASK, KIND_END };
	uint16_t group = 0;

	for (size_t i = 0; !group && i < MK_ARRAY_SIZE(kinds); i++)
		group = find_group(in, pod, kinds[i]);
	if (!group)
		return MK_SFC_POD_UNUSED;
	return lack_of(pod) == MK_SFC_POD_NO_PORTS ? MK_SFC_POD_NO_PORTS : MK_SFC_POD_OTHER_MODE;
}

/* Give the pod a number, if it can be a replica. A replica that no chain uses any more keeps its
 * number, and its flows, while paths name it. */
static void number_pod(struct compiling *in, struct mk_sfc_pod_object *pod, const struct seen *seen)
{
	struct mk_sfc *sfc = in->sfc;
	bool fits = !pod->is_here || in->here < MK_SFC_PORTS / MK_SFC_SIDES;

	pod->number = 0;
	if (pod->state == MK_SFC_POD_SAME_TAG)
		return;
	pod->state = seen->group ? lack_of(pod) : mismatch_of(in, pod);
	if (fits)
		pod->number = pod->state == MK_SFC_POD_SERVING
				      ? numbers_take(&sfc->replicas, seen->hash)
				      : numbers_find(&sfc->replicas, seen->hash);
	if (pod->state == MK_SFC_POD_SERVING && !pod->number)
		pod->state = MK_SFC_POD_NO_NUMBER;
	if (pod->number)
		add_member(in, pod, seen->group);
}

static enum mk_sfc_pod_state state_of(const struct compiling *in, const struct member *member)
{
	const struct mk_sfc_pod_object *pod = member->pod;

	if (!member->group || !is_reachable(pod))
		return pod->state;
	if (pod->deleting)
		return MK_SFC_POD_DRAINING;
	if (!pod->ready)
		return in->serving[member->group] ? MK_SFC_POD_LOST : MK_SFC_POD_KEEPS;
	return stays(pod) ? MK_SFC_POD_SERVING : MK_SFC_POD_DRAINING;
}

static void write_ports(struct mk_sfc *sfc, const struct mk_sfc_pod_object *pod,
			const struct sfc_joined *joined)
{
	for (size_t side = 0; side < MK_SFC_SIDES; side++) {
		struct mk_sfc_port_row *port = &sfc->port_rows[sfc->port_count];

		if (!pod->ifindex[side])
			continue;
		port->ifindex = pod->ifindex[side];
		port->port =
			(struct mk_sfc_port){ .replica = pod->number,
					      .side = is_end(pod) ? joined->side : (uint8_t)side,
					      .mode = pod->mode,
					      .chain = joined->chain };
		sfc->port_count++;
	}
}

static void write_replica(struct mk_sfc *sfc, const struct mk_sfc_pod_object *pod,
			  const struct sfc_joined *joined)
{
	struct mk_sfc_replica_row *row = &sfc->replica_rows[pod->number];
	bool usable = is_reachable(pod) && pod->state != MK_SFC_POD_LOST;

	*row = (struct mk_sfc_replica_row){
		.row = { .uid_hash = sfc->replicas.of[pod->number].hash,
			 .state = usable ? MK_SFC_USABLE : MK_SFC_LOST },
	};
	memcpy(row->ips, pod->ips, sizeof(row->ips));
	row->row.mode = pod->mode;
	if (!pod->is_here) {
		memcpy(row->row.vtep_mac, pod->vtep_mac.byte, sizeof(row->row.vtep_mac));
		return;
	}
	memcpy(row->row.ifindex, pod->ifindex, sizeof(row->row.ifindex));
	if (has_one_port(pod))
		row->row.ifindex[MK_SFC_OUTSIDE] = pod->ifindex[MK_SFC_INSIDE];
	write_ports(sfc, pod, joined);
}

/* Its pod or its ports are gone. */
static void write_lost(struct mk_sfc *sfc, uint16_t number)
{
	struct mk_sfc_replica *row = &sfc->replica_rows[number].row;

	row->uid_hash = sfc->replicas.of[number].hash;
	row->state = MK_SFC_LOST;
	memset(row->ifindex, 0, sizeof(row->ifindex));
}

/* Replicas of this node get numbers first: other nodes cannot do without them. */
static void number_replicas(struct compiling *in, struct mk_sfc_pod_object *pods, size_t count,
			    uint64_t now_ns)
{
	numbers_begin(&in->sfc->replicas);
	for (int here = 1; here >= 0; here--)
		for (size_t i = 0; i < count; i++)
			if (pods[i].is_here == (bool)here)
				number_pod(in, &pods[i], &in->seen[i]);
	numbers_end(&in->sfc->replicas, now_ns);
}

static int compile_replicas(struct compiling *in, struct mk_sfc_pod_object *pods, size_t count,
			    uint64_t now_ns)
{
	struct mk_sfc *sfc = in->sfc;
	int ret;

	see_all(in, pods, count);
	ret = find_shared_tags(in, pods, count);
	if (ret < 0)
		return ret;
	number_replicas(in, pods, count, now_ns);
	for (uint16_t i = 1; i < sfc->replicas.used; i++)
		if (sfc->replicas.of[i].hash)
			write_lost(sfc, i);
	sfc->port_count = 0;
	for (size_t i = 0; i < in->count; i++) {
		in->members[i].pod->state = state_of(in, &in->members[i]);
		write_replica(sfc, in->members[i].pod, &in->joined[in->members[i].group]);
	}
	qsort(sfc->port_rows, sfc->port_count, sizeof(*sfc->port_rows), mk_compare_ids);
	write_tags(sfc);
	return 0;
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* Does the replica get new flows? */
static bool gets_new(const struct compiling *in, const struct member *member)
{
	const struct mk_sfc_pod_object *pod = member->pod;

	if (!member->group || !pod->ready || !is_reachable(pod))
		return false;
	return stays(pod) || !in->serving[member->group];
}

/* Replicas that drain share the flows if no other one serves. */
static uint32_t weight_of(const struct mk_sfc_pod_object *pod, uint16_t local_weight)
{
	uint32_t weight = pod->weight ?: 1;

	return pod->is_here ? weight * (local_weight ?: 1) : weight;
}

static int compare_members(const void *left, const void *right)
{
	const struct member *a = left, *b = right;

	return a->group != b->group ? (int)a->group - (int)b->group
				    : (int)a->pod->number - (int)b->pod->number;
}

/* The members of a group, for a function with this localWeight. */
struct sharing {
	const struct member *members;
	size_t count;
	uint16_t local_weight;
};

/* Compute the slots of @function. */
static int fill(const struct mk_sfc *sfc, struct mk_sfc_function *function,
		const struct sharing *among)
{
	cleanup_free uint64_t *hashes = calloc(among->count + 1, sizeof(*hashes));
	cleanup_free uint32_t *weights = calloc(among->count + 1, sizeof(*weights));
	const struct member *members = among->members;
	int ret;

	memset(function->replica, 0, sizeof(function->replica));
	if (!hashes || !weights)
		return -ENOMEM;
	for (size_t i = 0; i < among->count; i++) {
		hashes[i] = sfc->replicas.of[members[i].pod->number].hash;
		weights[i] = weight_of(members[i].pod, among->local_weight);
	}
	ret = mk_maglev_by_hash(function->replica, MK_SFC_SLOTS, hashes, weights, among->count);
	for (size_t i = 0; ret == 0 && among->count && i < MK_SFC_SLOTS; i++)
		function->replica[i] = members[function->replica[i]].pod->number;
	return ret;
}

/* Return a hash of what the slots depend on; never 0. */
static uint64_t hash_of(const struct mk_sfc *sfc, const struct sharing *among)
{
	uint64_t hash = 1;

	for (size_t i = 0; i < among->count; i++) {
		const struct mk_sfc_pod_object *pod = among->members[i].pod;

		hash = (hash ^ sfc->replicas.of[pod->number].hash) * 0x100000001b3 + pod->number;
		hash = (hash ^ weight_of(pod, among->local_weight)) * 0x100000001b3;
	}
	return hash ?: 1;
}

static int compile_function(struct mk_sfc *sfc, uint16_t number, const struct sharing *among)
{
	uint64_t hash = hash_of(sfc, among);
	struct mk_sfc_function **row = &sfc->function_rows[number];
	int ret;

	if (!*row)
		*row = calloc(1, sizeof(**row));
	if (!*row)
		return -ENOMEM;
	(*row)->name_hash = sfc->functions.of[number].hash;
	if (sfc->filled_with[number] == hash)
		return 0;
	ret = fill(sfc, *row, among);
	sfc->filled_with[number] = ret == 0 ? hash : 0;
	return ret;
}

/* Keep the members that get new flows, by group. */
static void keep_those_with_flows(struct compiling *in)
{
	size_t count = 0;

	for (size_t i = 0; i < in->count; i++)
		if (gets_new(in, &in->members[i]))
			in->members[count++] = in->members[i];
	in->count = count;
	qsort(in->members, count, sizeof(*in->members), compare_members);
}

static int compile_functions(struct compiling *in)
{
	size_t first = 0, end;

	keep_those_with_flows(in);
	for (size_t i = 0; i < in->wanted_count; i++) {
		const struct wanted *wanted = &in->wanted[i];
		struct sharing among = { .local_weight = wanted->hash & MK_SFC_LOCAL_WEIGHT_MASK };
		int ret;

		while (first < in->count && in->members[first].group < wanted->group)
			first++;
		for (end = first; end < in->count && in->members[end].group == wanted->group;)
			end++;
		among.members = &in->members[first];
		among.count = end - first;
		ret = compile_function(in->sfc, wanted->number, &among);
		if (ret < 0)
			return ret;
	}
	return 0;
}

int mk_sfc_compile(struct mk_sfc *sfc, struct mk_sfc_chain_object *chains, size_t chain_count,
		   struct mk_sfc_pod_object *pods, size_t pod_count, uint64_t now_ns,
		   struct mk_error *err)
{
	cleanup_free struct compiling *in = calloc(1, sizeof(*in));
	cleanup_free struct member *members = calloc(pod_count + 1, sizeof(*members));
	cleanup_free struct seen *seen = calloc(pod_count + 1, sizeof(*seen));
	int ret = in && members && seen ? 0 : -ENOMEM;

	if (ret == 0) {
		in->sfc = sfc;
		in->members = members;
		in->seen = seen;
		sfc_compile_chains(sfc, chains, chain_count, now_ns);
		find_groups(in);
		ret = compile_replicas(in, pods, pod_count, now_ns);
		ret = ret ?: compile_functions(in);
	}
	return ret < 0 ? mk_error_errno(err, -ret, "cannot compute %zu service function chains",
					chain_count)
		       : 0;
}

// SPDX-License-Identifier: Apache-2.0
/* Runs copies of the programs on a frame, with copies of the tables that they write. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/trace/trace.h"
#include "datapath/maps/constants.h"
#include "datapath/maps/object.h"
#include "datapath/maps/pin.h"

/* ---- copies ---------------------------------------------------------------------------------- */

enum { SERVICE_OLD, SERVICE_NEW, NAT_OLD, NAT_NEW, SESSION_TABLES };
static const char *const session_names[SESSION_TABLES] = { "sessions", "sessions_young",
							   "nat_sessions", "nat_sessions_young" };
#define COPY_ENTRIES 1024

struct mk_trace_copy {
	struct mk_object *object;
	struct mk_table sessions[SESSION_TABLES]; /* the object owns the file descriptors */
};

/* Tables that the programs only read are shared. So is link_nodes: the host's neighbour table
 * proves the MAC addresses that a program writes there. */
static const char *const shared[] = { "frontends",     "service_backends",
				      "maglev",	       "pods",
				      "host_ports",    "routes",
				      "runtime",       "udp_ports",
				      "source_ranges", "affinity_backends",
				      "node_routes",   "peers",
				      "links",	       "uplinks",
				      "policy_state",  "pod_policies",
				      "policy_peers",  "policy_identities",
				      "policy_blocks", "policy_ports",
				      "sfc_chains",    "sfc_functions",
				      "sfc_replicas",  "sfc_ports",
				      "sfc_tags",      "clusters",
				      "cluster_nodes", "cluster_carriers",
				      "link_nodes" };

static int share(struct bpf_map *map, const struct mk_view *view, struct mk_error *err)
{
	const char *name = bpf_map__name(map);
	cleanup_close int fd = mk_pin_open(view->dir, MK_PIN_MAPS, name, err);
	struct mk_table pinned;
	int ret = fd < 0 ? fd : mk_table_init(&pinned, name, fd, err);

	if (ret < 0)
		return ret;
	if (pinned.stored_key_size != bpf_map__key_size(map) ||
	    pinned.stored_value_size != bpf_map__value_size(map))
		return mk_error_set(
			err, EPROTO,
			"pinned map '%s' is of another version than this program: use the monokube that the agent has installed (/opt/cni/bin/monokube)",
			name);
	ret = bpf_map__reuse_fd(map, fd);
	return ret < 0 ? mk_error_errno(err, -ret, "cannot use the pinned map '%s'", name) : 0;
}

static int prepare_maps(struct bpf_object *object, const struct mk_view *view, struct mk_error *err)
{
	struct bpf_map *map;
	int ret = 0;

	bpf_object__for_each_map(map, object)
	{
		enum bpf_map_type type = bpf_map__type(map);
		bool is_shared = false;

		for (size_t i = 0; i < MK_ARRAY_SIZE(shared); i++)
			is_shared |= strcmp(bpf_map__name(map), shared[i]) == 0;
		if (is_shared)
			ret = share(map, view, err);
		else if (type == BPF_MAP_TYPE_HASH || type == BPF_MAP_TYPE_LRU_HASH ||
			 type == BPF_MAP_TYPE_QUEUE)
			ret = bpf_map__set_max_entries(map, COPY_ENTRIES);
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* Programs that only packets of one hook meet: from the loopback device they go on to the host's
 * hook, from the port of an end to those of its chain. */
static const struct {
	const char *entry, *next;
} only_behind[] = { { "ilb_lo_egress", "ilb_host" }, { "sfc_port", "sfc_end" } };

/* Choose the chain behind the hook, without what fragments and `monokube monitor` need. */
static void choose_programs(struct mk_object *object, const char *entry)
{
	static const char *const chain[] = {
		"router",      "elb",	   "open",	  "policy",	 "sfc",		"sfc_open",
		"sfc_session", "sfc_port", "sfc_overlay", "sfc_tap",	 "sfc_answer",	"nat",
		"error",       "ndp",	   "cluster_in",  "cluster_out", "ilb_cluster", "client"
	};

	for (size_t i = 0; i < mk_object_program_count(object); i++) {
		const char *name = mk_programs[i].name;
		bool needed = strcmp(name, entry) == 0;

		for (size_t j = 0; j < MK_ARRAY_SIZE(only_behind); j++)
			needed |= strcmp(entry, only_behind[j].entry) == 0 &&
				  strcmp(name, only_behind[j].next) == 0;
		for (size_t j = 0; j < MK_ARRAY_SIZE(chain); j++)
			needed |= strcmp(name, chain[j]) == 0;
		mk_object_leave_out(object, name, !needed);
	}
}

static int load(struct mk_trace_copy *copy, const struct mk_view *view, const char *program,
		struct mk_error *err)
{
	struct mk_node node = view->node;
	int ret;

	node.makes_no_copies = 1;
	node.syn_ns = 0; /* as below the rate: no flood decides about the packet */
	copy->object = mk_object_open(&node, err);
	if (!copy->object)
		return -EINVAL;
	choose_programs(copy->object, program);
	ret = prepare_maps(mk_object_get(copy->object), view, err);
	ret = ret ?: mk_object_load(copy->object, err);
	ret = ret ?: mk_object_fill_chain(copy->object, err);
	for (size_t i = 0; ret == 0 && i < SESSION_TABLES; i++) {
		int fd = mk_object_map(copy->object, session_names[i], err);

		ret = fd < 0 ? fd : mk_table_init(&copy->sessions[i], session_names[i], fd, err);
	}
	return ret;
}

struct mk_trace_copy *trace_copy_new(const struct mk_view *view, const char *program,
				     struct mk_error *err)
{
	struct mk_trace_copy *copy = calloc(1, sizeof(*copy));

	if (!copy) {
		(void)mk_error_errno(err, ENOMEM, "cannot copy the programs");
		return NULL;
	}
	if (load(copy, view, program, err) < 0) {
		trace_copy_free(copy);
		return NULL;
	}
	return copy;
}

void trace_copy_free(struct mk_trace_copy *copy)
{
	if (!copy)
		return;
	mk_object_free(copy->object);
	free(copy);
}

/* ---- a flow's sessions ----------------------------------------------------------------------- */

static int copy_entry(struct mk_trace_copy *copy, const struct mk_view *view, int index,
		      const struct mk_tuple *key, struct mk_session *session, struct mk_error *err)
{
	cleanup_table struct mk_table pinned = { 0 };
	int ret = mk_table_open(&pinned, view->dir, session_names[index], sizeof(*key),
				sizeof(*session), err);

	ret = ret ?: mk_table_get(&pinned, key, session, err);
	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	ret = mk_table_put(&copy->sessions[index], key, session, err);
	return ret < 0 ? ret : 1;
}

int trace_copy_table(const struct mk_trace_copy *copy, const char *name, struct mk_table *table,
		     struct mk_error *err)
{
	int fd = mk_object_map(copy->object, name, err);

	return fd < 0 ? fd : mk_table_init(table, name, fd, err);
}

/* A path that is gone meanwhile is chosen again, as by the programs. */
static int copy_path(struct mk_trace_copy *copy, const struct mk_view *view, uint16_t id,
		     struct mk_error *err)
{
	cleanup_table struct mk_table pinned = { 0 };
	struct mk_sfc_path path;
	struct mk_table table;
	const __u32 key = id;
	int ret = mk_table_open(&pinned, view->dir, "sfc_paths", sizeof(key), sizeof(path), err);

	ret = ret ?: trace_copy_table(copy, "sfc_paths", &table, err);
	if (ret < 0 || mk_table_get(&pinned, &key, &path, NULL) < 0)
		return ret;
	return mk_table_put(&table, &key, &path, err);
}

/* Copy both entries of the pair, from the established or the new sessions; *@to is the other
 * side. */
static int copy_pair(struct mk_trace_copy *copy, const struct mk_view *view, int index,
		     const struct mk_tuple *key, struct mk_tuple *to, struct mk_error *err)
{
	struct mk_session session, other;
	struct mk_tuple pair;
	int ret = copy_entry(copy, view, index, key, &session, err);

	if (ret > 0 && session.to.path && copy_path(copy, view, session.to.path, err) < 0)
		return -EINVAL;
	if (ret <= 0)
		return ret;
	*to = session.to;
	to->path = 0;
	pair = (struct mk_tuple){ .saddr = to->daddr,
				  .daddr = to->saddr,
				  .sport = to->dport,
				  .dport = to->sport,
				  .proto = to->proto };
	ret = copy_entry(copy, view, index, &pair, &other, err);
	return ret < 0 ? ret : 1;
}

int trace_copy_flow(struct mk_trace_copy *copy, const struct mk_view *view,
		    const struct mk_tuple *tuple, struct mk_error *err)
{
	struct mk_tuple at = *tuple, to = *tuple;
	int found = 0;

	/* towards the uplink, Services' sessions come first; from the uplink, those of NAT */
	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < SESSION_TABLES; i++) {
			int ret = copy_pair(copy, view, i, &at, &to, err);

			if (ret < 0)
				return ret;
			found |= ret;
			if (i % 2 == 1)
				at = to;
		}
	return found;
}

bool trace_copy_session(const struct mk_trace_copy *copy, bool nat, const struct mk_tuple *tuple,
			struct mk_session *session)
{
	int first = nat ? NAT_OLD : SERVICE_OLD;

	return mk_table_get(&copy->sessions[first], tuple, session, NULL) == 0 ||
	       mk_table_get(&copy->sessions[first + 1], tuple, session, NULL) == 0;
}

/* ---- runs ------------------------------------------------------------------------------------ */

bool trace_copy_is_pinned(const struct mk_trace_copy *copy, const struct mk_view *view,
			  const char *program)
{
	cleanup_close int pinned = mk_pin_open(view->dir, MK_PIN_PROGS, program, NULL);
	int fd = mk_object_program(copy->object, program, NULL);
	struct mk_program_identity a, b;

	return pinned >= 0 && fd >= 0 && mk_program_identify(pinned, &a, NULL) == 0 &&
	       mk_program_identify(fd, &b, NULL) == 0 && memcmp(a.tag, b.tag, sizeof(a.tag)) == 0;
}

int trace_copy_run(struct mk_trace_copy *copy, const char *program, int ifindex,
		   struct mk_trace_frame *frame, enum mk_trace_verdict *verdict,
		   struct mk_error *err)
{
	struct mk_trace_frame out = { 0 };
	struct __sk_buff ctx = { .ifindex = (__u32)ifindex };
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame->byte, .data_size_in = frame->length,
		    .data_out = out.byte, .data_size_out = sizeof(out.byte), .repeat = 1);
	int fd = mk_object_program(copy->object, program, err), ret;

	if (fd < 0)
		return fd;
	if (ifindex > 1) {
		opts.ctx_in = &ctx;
		opts.ctx_size_in = sizeof(ctx);
	}
	ret = bpf_prog_test_run_opts(fd, &opts);
	if (ret < 0)
		return mk_error_errno(err, -ret, "cannot run a copy of program '%s'", program);
	out.length = opts.data_size_out;
	*frame = out;
	*verdict = opts.retval == TC_ACT_REDIRECT ? MK_TRACE_REDIRECT
		   : opts.retval == TC_ACT_SHOT	  ? MK_TRACE_DROP
						  : MK_TRACE_PASS;
	return 0;
}

bool trace_copy_path(const struct mk_trace_copy *copy, uint16_t id, struct mk_sfc_path *path)
{
	const __u32 key = id;
	struct mk_table table;

	return trace_copy_table(copy, "sfc_paths", &table, NULL) == 0 &&
	       mk_table_get(&table, &key, path, NULL) == 0;
}

bool trace_copy_way(const struct mk_trace_copy *copy, struct mk_way *way)
{
	int cpus = libbpf_num_possible_cpus(), fd = mk_object_map(copy->object, "way", NULL);
	cleanup_free struct mk_way *ways = calloc(cpus > 0 ? (size_t)cpus : 1, sizeof(*ways));
	const __u32 zero = 0;
	struct mk_table table;

	if (!ways || fd < 0 || mk_table_init(&table, "way", fd, NULL) < 0 ||
	    mk_table_get(&table, &zero, ways, NULL) < 0)
		return false;
	for (int cpu = 0; cpu < cpus; cpu++)
		if (ways[cpu].ifindex) {
			*way = ways[cpu];
			return true;
		}
	return false;
}

unsigned int trace_copy_drop(const struct mk_trace_copy *copy)
{
	int cpus = libbpf_num_possible_cpus(), fd = mk_object_map(copy->object, "drops", NULL);
	cleanup_free struct mk_drop_counter *counter =
		calloc(cpus > 0 ? (size_t)cpus : 1, sizeof(*counter));

	for (__u32 i = 0; counter && i < MK_DROP_COUNT * MK_HOOK_COUNT; i++) {
		if (bpf_map_lookup_elem(fd, &i, counter) < 0)
			continue;
		for (int cpu = 0; cpu < cpus; cpu++)
			if (counter[cpu].packets)
				return i / MK_HOOK_COUNT;
	}
	return MK_DROP_COUNT;
}

size_t trace_copy_decisions(const struct mk_trace_copy *copy, struct mk_policy_count_key *decisions,
			    size_t room)
{
	int fd = mk_object_map(copy->object, "policy_counts", NULL);
	struct mk_policy_count_key *at = NULL;
	size_t count = 0;

	while (fd >= 0 && count < room && bpf_map_get_next_key(fd, at, &decisions[count]) == 0)
		at = &decisions[count++];
	return count;
}

// SPDX-License-Identifier: Apache-2.0
/* What this kernel's verifier says of each program. */
#include <arpa/inet.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/maps/object.h"

/* Constants that keep every branch reachable: the verifier does not walk branches that constants
 * make dead. */
#define IPV4(word)                              \
	{                                       \
		{                               \
			0, 0, 0xffff0000u, word \
		}                               \
	}
#define WORD(number) __builtin_bswap32(number)
#define IPV6(first, second, last)                                \
	{                                                        \
		{                                                \
			WORD(first), WORD(second), 0, WORD(last) \
		}                                                \
	}
static const struct mk_node probe_node_ipv4 = {
	.vtep_addr = IPV4(0x0100120a),
	.gateway_addr = IPV4(0xfe01f40a),
	.vpod_addr = IPV4(0x0101f40a),
	.pod_net = IPV4(0x0001f40a),
	.pod_mask = IPV4(0x00ffffff),
	.cluster_net = IPV4(0x0000f40a),
	.cluster_mask = IPV4(0x0000ffff),
	.vtep_net = IPV4(0x0000120a),
	.vtep_mask = IPV4(0x0000ffff),
	.nat_port_min = 49152,
	.nat_port_max = 65535,
	.has_other_family = 1,
	.syn_ns = 100000,
	.gateway_mac = { 0x02, 0x4d, 0x0a, 0xf4, 0x01, 0xfe },
	.vtep_mac = { 0x02, 0x4d, 0x0a, 0x12, 0x00, 0x01 },
};
static const struct mk_node probe_node_ipv6 = {
	.vtep_addr = IPV6(0xfd4d4b00, 0x00120000, 1),
	.gateway_addr = IPV6(0xfd000010, 0x02440001, 0x3fe),
	.vpod_addr = IPV6(0xfd000010, 0x02440001, 1),
	.pod_net = IPV6(0xfd000010, 0x02440001, 0),
	.pod_mask = IPV6(0xffffffff, 0xffffffff, 0),
	.cluster_net = IPV6(0xfd000010, 0x02440000, 0),
	.cluster_mask = IPV6(0xffffffff, 0xffff0000, 0),
	.vtep_net = IPV6(0xfd4d4b00, 0x00120000, 0),
	.vtep_mask = IPV6(0xffffffff, 0xffffffff, 0),
	.nat_port_min = 49152,
	.nat_port_max = 65535,
	.syn_ns = 100000,
	.gateway_mac = { 0x02, 0x4d, 0x00, 0x00, 0x03, 0xfe },
	.vtep_mac = { 0x02, 0x4d, 0x00, 0x00, 0x00, 0x01 },
};

/* Shrink the tables: the verifier does not depend on their sizes, and a small machine lacks the
 * memory. */
static void shrink_maps(struct bpf_object *object)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, object)
	{
		enum bpf_map_type type = bpf_map__type(map);

		if (type == BPF_MAP_TYPE_HASH || type == BPF_MAP_TYPE_LRU_HASH ||
		    type == BPF_MAP_TYPE_LPM_TRIE || type == BPF_MAP_TYPE_QUEUE)
			(void)bpf_map__set_max_entries(map, 1024);
	}
}

#define LOG_STATISTICS 4 /* BPF_LOG_STATS of linux/bpf_verifier.h, since Linux 5.2 */
#define LOG_BYTES      65536

/* "processed 424152 insns (limit 1000000) max_states_per_insn ..." */
static unsigned int walked(const char *log)
{
	const char *at = strstr(log, "processed ");
	unsigned int count = 0;

	return at && sscanf(at, "processed %u insns", &count) == 1 ? count : 0;
}

static int ask_for_statistics(struct bpf_program *program, char *log, struct mk_error *err)
{
	int ret = bpf_program__set_log_level(program, LOG_STATISTICS);

	ret = ret ?: bpf_program__set_log_buf(program, log, LOG_BYTES);
	return ret < 0 ? mk_error_errno(err, -ret, "cannot ask for the verifier's statistics") : 0;
}

static int probe_one(const struct mk_node *constants, const char *name, unsigned int *instructions,
		     struct mk_error *err)
{
	cleanup_object struct mk_object *object = NULL;
	cleanup_free char *log = calloc(1, LOG_BYTES);
	struct mk_node node = *constants;
	struct bpf_program *program;
	int ret;

	if (!log)
		return mk_error_errno(err, ENOMEM, "cannot probe program '%s'", name);

	node.vxlan_port = htons(4789);
	object = mk_object_open(&node, err);
	if (!object)
		return err->code ? -err->code : -EINVAL;
	bpf_object__for_each_program(program, mk_object_get(object))
	{
		bool wanted = strcmp(bpf_program__name(program), name) == 0;

		ret = bpf_program__set_autoload(program, wanted);
		if (ret < 0)
			return mk_error_errno(err, -ret, "cannot choose program '%s'", name);
		if (wanted)
			ret = ask_for_statistics(program, log, err);
		if (ret < 0)
			return ret;
	}
	shrink_maps(mk_object_get(object));
	ret = mk_object_load(object, err);
	*instructions = walked(log);
	if (ret == 0 && *instructions > MK_VERIFIED_INSTRUCTIONS_MAX)
		return mk_error_set(
			err, E2BIG,
			"the verifier walks %u instructions of program '%s', more than %u: use a version of monokube that knows this kernel",
			*instructions, name, MK_VERIFIED_INSTRUCTIONS_MAX);
	return ret;
}

/* Returns the number of failures. */
static int probe_family(const struct mk_node *node, mk_probe_fn *report, void *ctx,
			struct mk_error *err)
{
	size_t count = mk_program_count + (mk_node_family(node) == AF_INET6);
	int failed = 0;

	for (size_t i = 0; i < count; i++) {
		struct mk_probed probed = { .family = mk_node_family(node),
					    .program = mk_programs[i].name };

		probed.status = probe_one(node, probed.program, &probed.instructions, err);
		failed += probed.status < 0;
		report(ctx, &probed);
	}
	return failed;
}

int mk_object_probe(mk_probe_fn *report, void *ctx, struct mk_error *err)
{
	int failed = probe_family(&probe_node_ipv4, report, ctx, err);

	return failed + probe_family(&probe_node_ipv6, report, ctx, err);
}

// SPDX-License-Identifier: Apache-2.0
#include "datapath/maps/constants.h"

#include <bpf/bpf.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/maps/pin.h"
#include "datapath/maps/row.h"
#include "datapath/maps/table.h"

#define MAPS_MAX 64 /* of one program */

static int read_info(int fd, struct bpf_prog_info *info, struct mk_error *err)
{
	__u32 size = sizeof(*info);

	if (bpf_obj_get_info_by_fd(fd, info, &size) < 0)
		return mk_error_errno(err, errno, "cannot ask the kernel about a program");
	return 0;
}

int mk_program_identify(int prog_fd, struct mk_program_identity *identity, struct mk_error *err)
{
	struct bpf_prog_info info = { 0 };
	int ret = read_info(prog_fd, &info, err);

	if (ret < 0)
		return ret;
	identity->id = info.id;
	memcpy(identity->tag, info.tag, sizeof(identity->tag));
	return 0;
}

/* The program's map of constants is the map whose name ends in .rodata (libbpf). */
static int open_constants(int prog_fd, size_t bytes, struct mk_error *err)
{
	__u32 ids[MAPS_MAX] = { 0 };
	struct bpf_prog_info info = { .nr_map_ids = MAPS_MAX, .map_ids = (uintptr_t)ids };
	int ret = read_info(prog_fd, &info, err);

	for (__u32 i = 0; ret == 0 && i < info.nr_map_ids && i < MAPS_MAX; i++) {
		cleanup_close int fd = bpf_map_get_fd_by_id(ids[i]);
		struct bpf_map_info map = { 0 };
		__u32 size = sizeof(map);

		if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &map, &size) == 0 &&
		    strstr(map.name, ".rodata") && map.value_size >= bytes)
			return mk_steal_fd(&fd);
	}
	return ret < 0 ? ret
		       : mk_error_set(
				 err, EPROTO,
				 "the pinned programs' constants have another version's layout: use the monokube that the agent has installed (/opt/cni/bin/monokube)");
}

/* Return the family of the tables in @dir; AF_UNSPEC: they cannot be read. */
static sa_family_t tables_family(const char *dir)
{
	cleanup_table struct mk_table pods = { 0 };

	if (mk_table_open(&pods, dir, "pods", sizeof(__u32), sizeof(struct mk_pod), NULL) < 0)
		return AF_UNSPEC;
	return mk_table_family(&pods);
}

int mk_constants_read(const char *dir, struct mk_node *node, struct mk_error *err)
{
	sa_family_t family = tables_family(dir);
	size_t bytes = family == AF_INET6 ? sizeof(*node) : row_form_node.ipv4_bytes;
	cleanup_close int prog_fd = mk_pin_open(dir, MK_PIN_PROGS, "router", err);
	cleanup_close int fd = prog_fd < 0 ? -1 : open_constants(prog_fd, bytes, err);
	struct bpf_map_info map = { 0 };
	cleanup_free void *value = NULL;
	__u32 size = sizeof(map), zero = 0;

	if (prog_fd < 0)
		return prog_fd;
	if (fd < 0)
		return err && err->code ? -err->code : -EPROTO;
	if (bpf_obj_get_info_by_fd(fd, &map, &size) == 0)
		value = calloc(1, map.value_size);
	if (!value || bpf_map_lookup_elem(fd, &zero, value) < 0)
		return mk_error_errno(err, errno, "cannot read the programs' constants");
	if (family == AF_INET6)
		memcpy(node, value, sizeof(*node));
	else
		row_widen(&row_form_node, node, value, sizeof(*node));
	return 0;
}

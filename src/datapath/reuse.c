// SPDX-License-Identifier: Apache-2.0
/* Use the pinned programs if a load would make the same ones, which saves the verifier's seconds.
 * They are the same if the same object was loaded with the same constants and uses the pinned
 * tables. Map `abi` holds the hashes of object and constants, and the ids of programs and
 * constants. The kernel never reuses such an id. If they differ, or anything cannot be read,
 * programs are loaded. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdlib.h>
#include <string.h>

#include "monokube/version.h"
#include "base/cleanup.h"
#include "datapath/datapath_internal.h"
#include "datapath/maps/constants.h"
#include "datapath/maps/pin.h"

#define MAPS_MAX 64 /* of one program */

static uint32_t map_id(int fd)
{
	struct bpf_map_info info = { 0 };
	__u32 size = sizeof(info);

	return fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &size) == 0 ? info.id : 0;
}

/* Maps that belong to one load of programs. They are taken over last, only if everything else
 * matches. */
static const char *const of_load[] = { "abi", "chain" };

static bool is_of_load(const char *name)
{
	return strcmp(name, of_load[0]) == 0 || strcmp(name, of_load[1]) == 0;
}

/* Is every table of the object a pinned one? */
static bool has_all_tables(const struct mk_datapath *datapath)
{
	const struct bpf_map *map;

	if (datapath->migration_count > 0)
		return false;
	bpf_object__for_each_map(map, mk_object_get(datapath->object))
	{
		if (!bpf_map__is_internal(map) && !is_of_load(bpf_map__name(map)) &&
		    bpf_map__fd(map) < 0)
			return false;
	}
	return true;
}

static bool is_pinned(const struct mk_datapath *datapath, uint32_t id)
{
	const struct bpf_map *map;

	for (size_t i = 0; i < MK_ARRAY_SIZE(of_load); i++) {
		cleanup_close int fd =
			mk_pin_open(datapath->bpf_dir, MK_PIN_MAPS, of_load[i], NULL);

		if (map_id(fd) == id)
			return true;
	}
	bpf_object__for_each_map(map, mk_object_get(datapath->object))
	{
		if (!bpf_map__is_internal(map) && map_id(bpf_map__fd(map)) == id)
			return true;
	}
	return false;
}

static bool uses_these_maps(const struct mk_datapath *datapath, const struct mk_abi *abi,
			    int prog_fd)
{
	__u32 ids[MAPS_MAX] = { 0 };
	struct bpf_prog_info info = { .nr_map_ids = MAPS_MAX, .map_ids = (uintptr_t)ids };
	__u32 size = sizeof(info);

	if (bpf_obj_get_info_by_fd(prog_fd, &info, &size) < 0 || info.nr_map_ids > MAPS_MAX)
		return false;
	for (__u32 i = 0; i < info.nr_map_ids; i++)
		if (ids[i] != abi->constants_id && !is_pinned(datapath, ids[i]))
			return false;
	return true;
}

static int take_program(struct mk_datapath *datapath, const struct mk_abi *abi, size_t index)
{
	cleanup_close int fd =
		mk_pin_open(datapath->bpf_dir, MK_PIN_PROGS, mk_programs[index].name, NULL);
	struct mk_program_identity identity;

	if (fd < 0 || mk_program_identify(fd, &identity, NULL) < 0 ||
	    identity.id != abi->program_ids[index] || !uses_these_maps(datapath, abi, fd))
		return -ENOENT;
	mk_object_reuse_program(datapath->object, index, mk_steal_fd(&fd));
	return 0;
}

static int take_map(struct mk_datapath *datapath, const char *name, struct mk_error *err)
{
	cleanup_close int fd = mk_pin_open(datapath->bpf_dir, MK_PIN_MAPS, name, err);
	struct bpf_map *map = bpf_object__find_map_by_name(mk_object_get(datapath->object), name);
	int ret = fd < 0 ? fd : bpf_map__reuse_fd(map, fd);

	return ret < 0 ? mk_error_errno(err, -ret, "cannot use the pinned map '%s'", name) : 0;
}

static bool is_same_object(const struct mk_datapath *datapath, const struct mk_abi *abi)
{
	return abi->version == MK_ABI_VERSION &&
	       abi->object_hash == mk_object_hash(datapath->object) &&
	       abi->constants_hash == mk_object_constants_hash(datapath->object);
}

int datapath_reuse(struct mk_datapath *datapath, struct mk_error *err)
{
	struct mk_abi abi;
	int ret = 0;

	if (mk_abi_read(datapath->bpf_dir, &abi, NULL) < 0 || !is_same_object(datapath, &abi) ||
	    !has_all_tables(datapath))
		return 0;
	for (size_t i = 0; i < mk_object_program_count(datapath->object); i++)
		if (take_program(datapath, &abi, i) < 0)
			return 0;
	for (size_t i = 0; ret == 0 && i < MK_ARRAY_SIZE(of_load); i++)
		ret = take_map(datapath, of_load[i], err);
	return ret < 0 ? ret : 1;
}

void datapath_describe(const struct mk_datapath *datapath, struct mk_abi *abi)
{
	*abi = (struct mk_abi){ .version = MK_ABI_VERSION, .made_by = MONOKUBE_VERSION };
	abi->object_hash = mk_object_hash(datapath->object);
	abi->constants_hash = mk_object_constants_hash(datapath->object);
	abi->constants_id = map_id(mk_object_constants_fd(datapath->object));
	for (size_t i = 0;
	     i < mk_object_program_count(datapath->object) && i < MK_ARRAY_SIZE(abi->program_ids);
	     i++) {
		struct mk_program_identity identity = { 0 };
		int fd = mk_object_program(datapath->object, mk_programs[i].name, NULL);

		if (fd >= 0 && mk_program_identify(fd, &identity, NULL) == 0)
			abi->program_ids[i] = identity.id;
	}
}

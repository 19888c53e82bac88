// SPDX-License-Identifier: Apache-2.0
/* Restore pins that were removed from the BPF file system, or together with it. Maps and programs
 * live on while the agent holds them, but neither the CNI mode nor the next agent would find them:
 * pods would not start, and sessions would end with the agent. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "datapath/datapath_internal.h"
#include "datapath/maps/pin.h"

/* Pins of one kind. All missing ones are logged in one line, because the log limits the rate of
 * lines. */
struct pins {
	const struct mk_datapath *datapath;
	const char *kind;
	char missing[1024]; /* "pods, sessions"; cut if there are more */
	int count;
	struct mk_error *err;
};

static void note_missing(struct pins *pins, const char *name)
{
	size_t used = strlen(pins->missing);

	snprintf(pins->missing + used, sizeof(pins->missing) - used, "%s%s", used ? ", " : "",
		 name);
	pins->count++;
}

/* Restore a pin, and its directory if that is missing too. */
static int repair_pin(struct pins *pins, const char *name, int fd)
{
	const struct mk_datapath *datapath = pins->datapath;
	char path[PATH_MAX];
	int ret = mk_pin_path(path, datapath->bpf_dir, pins->kind, name, pins->err);

	if (ret < 0 || access(path, F_OK) == 0)
		return ret;
	ret = mk_pin_prepare(datapath->bpf_dir, pins->err);
	if (ret < 0)
		return ret;
	if (bpf_obj_pin(fd, path) < 0)
		return mk_error_errno(pins->err, errno, "cannot pin '%s' again", path);
	note_missing(pins, name);
	return 0;
}

static int repair_maps(struct pins *pins)
{
	const struct bpf_map *map;
	int ret = 0;

	bpf_object__for_each_map(map, mk_object_get(pins->datapath->object))
	{
		if (ret == 0 && !bpf_map__is_internal(map))
			ret = repair_pin(pins, bpf_map__name(map), bpf_map__fd(map));
	}
	return ret;
}

static int repair_programs(struct pins *pins)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < mk_object_program_count(pins->datapath->object); i++) {
		const char *name = mk_programs[i].name;
		int fd = mk_object_program(pins->datapath->object, name, pins->err);

		ret = fd < 0 ? fd : repair_pin(pins, name, fd);
	}
	return ret;
}

static int repair(struct pins *pins, int (*repair_all)(struct pins *pins))
{
	int ret = repair_all(pins);

	if (pins->count)
		mk_log_warn("pins were missing and are back below=%s/%s names=\"%s\"",
			    pins->datapath->bpf_dir, pins->kind, pins->missing);
	return ret < 0 ? ret : pins->count;
}

int mk_datapath_repair_pins(const struct mk_datapath *datapath, struct mk_error *err)
{
	struct pins maps = { .datapath = datapath, .kind = MK_PIN_MAPS, .err = err };
	struct pins programs = { .datapath = datapath, .kind = MK_PIN_PROGS, .err = err };
	int ret, more;

	if (datapath->state < MK_DATAPATH_ATTACHED)
		return datapath_expect(datapath, MK_DATAPATH_ATTACHED, "a check of pins", err);
	ret = repair(&maps, repair_maps);
	if (ret < 0)
		return ret;
	more = repair(&programs, repair_programs);
	return more < 0 ? more : ret + more;
}

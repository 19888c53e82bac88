// SPDX-License-Identifier: Apache-2.0
/* Names of pins while programs are replaced. During that time there are, beside NAME,
 *   NAME_new_ID     the map or program that gets the name next; useless after its agent has died
 *   NAME_before_ID  the previous map of that name, which running programs still use. A chain must
 *                   stay pinned until they have ended. Then the entries that they wrote to a table
 *                   are copied to the new one.
 * Each name changes by one rename(2), before the first new program runs. So if the agent is killed,
 * the tables of every running program are pinned, as NAME or as NAME_before_ID, and the next agent
 * continues from there. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "datapath/datapath_internal.h"
#include "datapath/maps/constants.h"
#include "datapath/maps/pin.h"

#define NEW_MARK    "_new_" /* no dots: bpffs reserves them */
#define BEFORE_MARK "_before_"

/* Maps that belong to one load of programs. */
static const char *const of_load[] = { "abi", "chain" };

static int marked_path(const struct mk_datapath *datapath, const char *kind, const char *name,
		       const char *mark, char *path, struct mk_error *err)
{
	struct mk_program_identity load;
	char marked[96];
	int fd = mk_object_program(datapath->object, "ilb_pod", err);
	int ret = fd < 0 ? fd : mk_program_identify(fd, &load, err);

	if (ret < 0)
		return ret;
	snprintf(marked, sizeof(marked), "%s%s%u", name, mark, load.id);
	return mk_pin_path(path, datapath->bpf_dir, kind, marked, err);
}

static int pin_as_new(const struct mk_datapath *datapath, const char *kind, const char *name,
		      int fd, struct mk_error *err)
{
	char path[PATH_MAX];
	int ret = marked_path(datapath, kind, name, NEW_MARK, path, err);

	if (ret < 0)
		return ret;
	if (bpf_obj_pin(fd, path) < 0 && errno != EEXIST)
		return mk_error_errno(err, errno, "cannot pin '%s'", path);
	return 0;
}

static int pin_map(const struct mk_datapath *datapath, const char *name, struct mk_error *err)
{
	int fd = mk_object_map(datapath->object, name, err);

	return fd < 0 ? fd : pin_as_new(datapath, MK_PIN_MAPS, name, fd, err);
}

static int pin_program(const struct mk_datapath *datapath, const char *name, struct mk_error *err)
{
	int fd = mk_object_program(datapath->object, name, err);

	return fd < 0 ? fd : pin_as_new(datapath, MK_PIN_PROGS, name, fd, err);
}

int pins_prepare(const struct mk_datapath *datapath, struct mk_error *err)
{
	int fd = mk_object_map(datapath->object, "abi", err);
	struct mk_abi abi;
	int ret;

	datapath_describe(datapath, &abi);
	ret = fd < 0 ? fd : mk_abi_write(fd, &abi, err);

	for (size_t i = 0; ret == 0 && i < MK_ARRAY_SIZE(of_load); i++)
		ret = pin_map(datapath, of_load[i], err);
	for (size_t i = 0; ret == 0 && i < datapath->migration_count; i++)
		ret = pin_map(datapath, datapath->migrations[i].name, err);
	for (size_t i = 0; ret == 0 && i < mk_object_program_count(datapath->object); i++)
		ret = pin_program(datapath, mk_programs[i].name, err);
	return ret;
}

static uint32_t map_id(int fd)
{
	struct bpf_map_info info = { 0 };
	__u32 size = sizeof(info);

	return fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &size) == 0 ? info.id : 0;
}

/* Does the map have the name already, from an attempt that failed later? */
static bool has_name(const struct mk_datapath *datapath, const char *name)
{
	cleanup_close int pinned = mk_pin_open(datapath->bpf_dir, MK_PIN_MAPS, name, NULL);

	return pinned >= 0 && map_id(pinned) == map_id(mk_object_map(datapath->object, name, NULL));
}

static int take_name(const struct mk_datapath *datapath, const char *kind, const char *name,
		     struct mk_error *err)
{
	char from[PATH_MAX], to[PATH_MAX];
	int ret = marked_path(datapath, kind, name, NEW_MARK, from, err);

	ret = ret ?: mk_pin_path(to, datapath->bpf_dir, kind, name, err);
	if (ret < 0)
		return ret;
	if (rename(from, to) < 0)
		return mk_error_errno(err, errno, "cannot rename '%s' to '%s'", from, to);
	return 0;
}

static int publish_map(const struct mk_datapath *datapath, const char *name, struct mk_error *err)
{
	char now[PATH_MAX], before[PATH_MAX];
	int ret;

	if (has_name(datapath, name))
		return 0; /* pins_tidy() removes the other name */
	ret = mk_pin_path(now, datapath->bpf_dir, MK_PIN_MAPS, name, err);
	ret = ret ?: marked_path(datapath, MK_PIN_MAPS, name, BEFORE_MARK, before, err);
	if (ret < 0)
		return ret;
	if (link(now, before) < 0 && errno != ENOENT && errno != EEXIST)
		return mk_error_errno(err, errno, "cannot keep '%s' as '%s'", now, before);
	return take_name(datapath, MK_PIN_MAPS, name, err);
}

/* Publish map `abi` first: an older version must not start with some tables of this version. */
int pins_publish(struct mk_datapath *datapath, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_ARRAY_SIZE(of_load); i++)
		ret = publish_map(datapath, of_load[i], err);
	for (size_t i = 0; ret == 0 && i < datapath->migration_count; i++)
		ret = publish_map(datapath, datapath->migrations[i].name, err);
	if (ret == 0)
		datapath->published = true;
	for (size_t i = 0; ret == 0 && i < mk_object_program_count(datapath->object); i++)
		ret = take_name(datapath, MK_PIN_PROGS, mk_programs[i].name, err);
	return ret;
}

/* ---- pins of a killed agent ------------------------------------------------------------------ */

static int visit_pins(struct mk_datapath *datapath, const char *kind,
		      int (*visit)(struct mk_datapath *datapath, int dir_fd, const char *name,
				   struct mk_error *err),
		      struct mk_error *err)
{
	cleanup_closedir DIR *dir = NULL;
	struct dirent *entry;
	char path[PATH_MAX];
	int ret = mk_pin_path(path, datapath->bpf_dir, kind, "", err);

	if (ret < 0)
		return ret;
	dir = opendir(path);
	if (!dir)
		return mk_error_errno(err, errno, "cannot open '%s'", path);
	while (ret == 0 && (entry = readdir(dir)))
		ret = visit(datapath, dirfd(dir), entry->d_name, err);
	return ret;
}

/* Register a killed agent's table for a copy. A table with an unknown layout is left behind: its
 * programs are being replaced now. */
static int resume_table(struct mk_datapath *datapath, const char *pin, const char *name,
			struct mk_error *err)
{
	cleanup_close int fd = mk_pin_open(datapath->bpf_dir, MK_PIN_MAPS, pin, err);
	const struct bpf_map *map =
		bpf_object__find_map_by_name(mk_object_get(datapath->object), name);
	struct mk_table table;
	struct mk_error why = { 0 };
	int ret = fd < 0 ? fd : mk_table_init(&table, name, fd, err);

	if (ret < 0)
		return ret;
	if (!map || layout_check(map, &table, pin, &why) < 0) {
		mk_log_warn("entries of a killed agent's table are left behind pin=%s: %s", pin,
			    map ? mk_error_text(&why) : "this version has no such table");
		return 0;
	}
	ret = migration_add(datapath, name, fd, true, err);
	if (ret == 0)
		mk_steal_fd(&fd);
	return ret;
}

static int resume_pin(struct mk_datapath *datapath, int dir_fd, const char *pin,
		      struct mk_error *err)
{
	const char *mark = strstr(pin, BEFORE_MARK);
	char name[32];

	(void)dir_fd;
	if (!mark || (size_t)(mark - pin) >= sizeof(name))
		return 0;
	snprintf(name, sizeof(name), "%.*s", (int)(mark - pin), pin);
	for (size_t i = 0; i < MK_ARRAY_SIZE(of_load); i++)
		if (strcmp(name, of_load[i]) == 0)
			return 0;
	return resume_table(datapath, pin, name, err);
}

int pins_resume(struct mk_datapath *datapath, struct mk_error *err)
{
	return visit_pins(datapath, MK_PIN_MAPS, resume_pin, err);
}

static int remove_marked(struct mk_datapath *datapath, int dir_fd, const char *name,
			 struct mk_error *err)
{
	(void)err;
	if ((strstr(name, NEW_MARK) || strstr(name, BEFORE_MARK)) && unlinkat(dir_fd, name, 0) < 0)
		mk_log_warn("cannot remove an old pin name=%s below=%s error=%s", name,
			    datapath->bpf_dir, strerror(errno));
	return 0;
}

void pins_tidy(struct mk_datapath *datapath)
{
	static const char *const kinds[] = { MK_PIN_PROGS, MK_PIN_MAPS };
	struct mk_error err = { 0 };

	for (size_t i = 0; i < MK_ARRAY_SIZE(kinds); i++)
		if (visit_pins(datapath, kinds[i], remove_marked, &err) < 0)
			mk_log_warn("cannot remove old pins: %s", mk_error_text(&err));
}

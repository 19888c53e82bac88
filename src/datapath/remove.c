// SPDX-License-Identifier: Apache-2.0
/* Removes programs, hooks and pins of one family or of both. */
#include "datapath/datapath.h"

#include <bpf/bpf.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/maps/constants.h"
#include "datapath/maps/hook.h"
#include "datapath/maps/object.h"
#include "datapath/maps/pin.h"

struct walk {
	struct mk_nl *nl;
	struct mk_removed *removed;
	struct mk_error *err;
	const uint32_t *programs; /* NULL: ours of both families; otherwise these, up to a 0 */
};

static bool is_wanted(const struct walk *walk, uint32_t program)
{
	const uint32_t *wanted = walk->programs;

	while (wanted && *wanted && *wanted != program)
		wanted++;
	return !wanted || *wanted;
}

static int remove_filter(const struct walk *walk, int ifindex, enum mk_direction direction)
{
	uint32_t program = 0;
	int ret = walk->programs ? mk_hook_query(walk->nl, ifindex, direction, &program, walk->err)
				 : 0;

	if (ret < 0 || !is_wanted(walk, program))
		return ret;
	return mk_hook_detach(walk->nl, ifindex, direction, walk->err);
}

static int remove_filters(void *ctx, const struct mk_link *link)
{
	static const enum mk_direction directions[] = { MK_INGRESS, MK_EGRESS };
	struct walk *walk = ctx;
	unsigned int before = walk->removed->filters;

	for (size_t i = 0; i < MK_ARRAY_SIZE(directions); i++) {
		int ret = remove_filter(walk, link->ifindex, directions[i]);

		if (ret < 0)
			return mk_error_wrap(walk->err, "interface '%s'", link->name);
		walk->removed->filters += (unsigned int)ret;
	}
	if (walk->removed->filters == before)
		return 0;
	return mk_hook_remove_empty_qdisc(walk->nl, link->ifindex, walk->err);
}

static int remove_pins(const char *path, struct mk_removed *removed, struct mk_error *err)
{
	cleanup_closedir DIR *dir = opendir(path);
	struct dirent *entry;

	if (!dir && errno == ENOENT)
		return 0;
	if (!dir)
		return mk_error_errno(err, errno, "cannot open '%s'", path);
	while ((entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (unlinkat(dirfd(dir), entry->d_name, 0) < 0)
			return mk_error_errno(err, errno, "cannot remove '%s/%s'", path,
					      entry->d_name);
		removed->pins++;
	}
	if (rmdir(path) < 0)
		return mk_error_errno(err, errno, "cannot remove '%s'", path);
	return 0;
}

static int remove_dir(const char *dir, struct mk_removed *removed, struct mk_error *err)
{
	static const char *const kinds[] = { MK_PIN_PROGS, MK_PIN_MAPS };
	char path[PATH_MAX];
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_ARRAY_SIZE(kinds); i++) {
		ret = mk_pin_path(path, dir, kinds[i], "", err);
		ret = ret ?: remove_pins(path, removed, err);
	}
	/* IPv4's directory also has that of IPv6 */
	if (ret == 0 && rmdir(dir) < 0 && errno != ENOENT && errno != ENOTEMPTY)
		return mk_error_errno(err, errno, "cannot remove '%s'", dir);
	return ret;
}

int mk_datapath_remove(struct mk_nl *nl, const char *bpf_dir, struct mk_removed *removed,
		       struct mk_error *err)
{
	static const sa_family_t families[] = { AF_INET6, AF_INET };
	struct walk walk = { .nl = nl, .removed = removed, .err = err };
	char dir[PATH_MAX];
	int ret = mk_nl_each_link(nl, remove_filters, &walk, err);

	for (size_t i = 0; ret == 0 && i < MK_ARRAY_SIZE(families); i++) {
		ret = mk_pin_dir(dir, bpf_dir, families[i], err);
		ret = ret ?: remove_dir(dir, removed, err);
	}
	return ret;
}

/* List the ids of the hooks' pinned programs below @dir, with a 0 at the end. */
static void list_programs(const char *dir, uint32_t *ids)
{
	for (size_t i = 0; i < MK_ENTRY_COUNT; i++) {
		cleanup_close int fd = mk_pin_open(dir, MK_PIN_PROGS, mk_entry_programs[i], NULL);
		struct mk_program_identity identity;

		if (fd >= 0 && mk_program_identify(fd, &identity, NULL) == 0)
			*ids++ = identity.id;
	}
	*ids = 0;
}

/* Take IPv6's programs out of map `other_family`, if IPv4 is there. */
static void empty_entries(const char *bpf_dir)
{
	cleanup_close int fd = mk_pin_open(bpf_dir, MK_PIN_MAPS, "other_family", NULL);

	for (__u32 slot = 0; fd >= 0 && slot < MK_ENTRY_COUNT; slot++)
		(void)bpf_map_delete_elem(fd, &slot);
}

int mk_datapath_remove_family(struct mk_nl *nl, const char *bpf_dir, sa_family_t family,
			      struct mk_removed *removed, struct mk_error *err)
{
	uint32_t programs[MK_ENTRY_COUNT + 1];
	struct walk walk = { .nl = nl, .removed = removed, .err = err, .programs = programs };
	char dir[PATH_MAX];
	int ret = mk_pin_dir(dir, bpf_dir, family, err);

	if (ret < 0)
		return ret;
	list_programs(dir, programs);
	if (family == AF_INET6)
		empty_entries(bpf_dir);
	ret = mk_nl_each_link(nl, remove_filters, &walk, err);
	return ret < 0 ? ret : remove_dir(dir, removed, err);
}

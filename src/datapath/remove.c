// SPDX-License-Identifier: Apache-2.0
#include "datapath/datapath.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/maps/hook.h"
#include "datapath/maps/pin.h"

struct walk {
	struct mk_nl *nl;
	struct mk_removed *removed;
	struct mk_error *err;
};

static int remove_filters(void *ctx, const struct mk_link *link)
{
	static const enum mk_direction directions[] = { MK_INGRESS, MK_EGRESS };
	struct walk *walk = ctx;
	unsigned int before = walk->removed->filters;

	for (size_t i = 0; i < MK_ARRAY_SIZE(directions); i++) {
		int ret = mk_hook_detach(walk->nl, link->ifindex, directions[i], walk->err);

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
	if (ret == 0 && rmdir(dir) < 0 && errno != ENOENT)
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

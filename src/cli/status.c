// SPDX-License-Identifier: Apache-2.0
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "base/cleanup.h"
#include "base/netlink.h"
#include "cli/cli.h"
#include "datapath/drops.h"
#include "datapath/hook.h"
#include "datapath/pin.h"
#include "datapath/table.h"

/* The agent holds its lock as long as it lives; what it follows is in its record. */
static void print_agent(const char *state_dir, const char *source)
{
	char path[PATH_MAX + 16], pid[32] = "";
	const char *follows = *source ? ", follows " : "";
	cleanup_fclose FILE *file = NULL;

	snprintf(path, sizeof(path), "%s/agent.lock", state_dir);
	file = fopen(path, "re");
	if (!file) {
		printf("agent: has never run here\n");
		return;
	}
	if (fgets(pid, sizeof(pid), file))
		pid[strcspn(pid, "\n")] = '\0';
	if (flock(fileno(file), LOCK_SH | LOCK_NB) < 0)
		printf("agent: running, pid %s%s%s\n", pid, follows, source);
	else
		printf("agent: not running\n");
}

static int count_entries(const struct mk_table *table, size_t *count, struct mk_error *err)
{
	enum { ROOM = 1024 };
	cleanup_free void *keys = calloc(ROOM, table->key_size);
	cleanup_free void *values = calloc(ROOM, table->value_size);
	struct mk_cursor cursor = { 0 };

	*count = 0;
	if (!keys || !values)
		return mk_error_errno(err, ENOMEM, "cannot count map '%s'", table->name);
	while (!cursor.done) {
		int got = mk_table_next(table, &cursor, keys, values, ROOM, err);

		if (got < 0)
			return got;
		*count += (size_t)got;
	}
	return 0;
}

static int print_table(const char *bpf_dir, const char *name, struct mk_error *err)
{
	cleanup_close int fd = mk_pin_open(bpf_dir, MK_PIN_MAPS, name, err);
	struct mk_table table;
	size_t count;
	int ret;

	if (fd < 0)
		return fd;
	ret = mk_table_init(&table, name, fd, err);
	if (ret == 0)
		ret = count_entries(&table, &count, err);
	if (ret == 0)
		printf("  %-18s %8zu of %u\n", name, count, table.max_entries);
	return ret;
}

static int print_tables(const char *bpf_dir, struct mk_error *err)
{
	static const char *const names[] = {
		"pods",	    "routes",	    "services",	    "service_backends", "maglev",
		"sessions", "sessions_new", "nat_sessions", "nat_sessions_new"
	};

	printf("tables in %s:\n", bpf_dir);
	for (size_t i = 0; i < MK_ARRAY_SIZE(names); i++) {
		int ret = print_table(bpf_dir, names[i], err);

		if (ret == -ENOENT) {
			printf("  %s is not pinned: the datapath is not loaded\n", names[i]);
			return 0;
		}
		if (ret < 0)
			return ret;
	}
	return 0;
}

static int print_hooks(void *ctx, const struct mk_link *link)
{
	static const struct {
		enum mk_direction direction;
		const char *name;
	} directions[] = { { MK_INGRESS, "ingress" }, { MK_EGRESS, "egress" } };

	for (size_t i = 0; i < MK_ARRAY_SIZE(directions); i++) {
		uint32_t id;
		int ret = mk_hook_query(link->ifindex, directions[i].direction, &id, ctx);

		if (ret < 0)
			return ret;
		if (id)
			printf("  %-16s %-8s program %u\n", link->name, directions[i].name, id);
	}
	return 0;
}

static int print_attached(struct mk_error *err)
{
	cleanup_nl struct mk_nl *nl = mk_nl_open(err);

	if (!nl)
		return -EINVAL;
	printf("hooks:\n");
	return mk_nl_each_link(nl, print_hooks, err, err);
}

static void print_drops(const char *bpf_dir)
{
	struct mk_drop_totals totals;
	unsigned long long packets = 0;

	if (mk_drops_read(bpf_dir, &totals, NULL) < 0)
		return;
	for (unsigned int reason = 0; reason < MK_DROP_COUNT; reason++)
		for (unsigned int hook = 0; hook < MK_HOOK_COUNT; hook++)
			packets += totals.counter[reason][hook].packets;
	printf("drops: %llu packets (monokube drops tells why)\n", packets);
}

int mk_cli_status(int argc, char **argv)
{
	struct mk_cli_options options;
	struct mk_error err = { 0 };
	int ret = mk_cli_options_read(&options, argc, argv, &err);

	if (ret > 0)
		return 0;
	if (ret == 0) {
		print_agent(options.state_dir, options.source);
		ret = print_attached(&err);
	}
	if (ret == 0)
		ret = print_tables(options.bpf_dir, &err);
	if (ret == 0)
		print_drops(options.bpf_dir);
	return ret < 0 ? mk_cli_fail("status", &err) : 0;
}

// SPDX-License-Identifier: Apache-2.0
/* Run times of programs, and how full tables are. */
#include "datapath/datapath.h"

#include <bpf/bpf.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "datapath/datapath_internal.h"
#include "datapath/pods/pod_table.h"

size_t mk_datapath_program_stats(const struct mk_datapath *datapath, struct mk_program_stats *stats,
				 size_t room)
{
	size_t count = 0;

	for (size_t i = 0; i < mk_object_program_count(datapath->object) && count < room; i++) {
		int fd = mk_programs[i].is_hook
				 ? mk_object_program(datapath->object, mk_programs[i].name, NULL)
				 : -1;
		struct bpf_prog_info info = { 0 };
		__u32 size = sizeof(info);

		if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size) < 0)
			continue;
		stats[count++] = (struct mk_program_stats){
			.name = mk_programs[i].name,
			.runs = info.run_cnt,
			.run_ns = info.run_time_ns,
		};
	}
	return count;
}

static int count_pods(const struct mk_datapath *datapath, uint64_t *count)
{
	cleanup_free struct mk_pod *pods = NULL;
	size_t found;
	int ret = mk_pod_table_read(&datapath->pods, &pods, &found, NULL);

	*count = found;
	return ret;
}

struct fills {
	struct mk_table_fill *list;
	size_t count, room;
};

static void add(struct fills *fills, const struct mk_table *table, uint64_t entries)
{
	if (fills->count < fills->room)
		fills->list[fills->count++] = (struct mk_table_fill){
			.name = table->name,
			.entries = entries,
			.max_entries = table->max_entries,
		};
}

static void add_policies(struct fills *fills, const struct mk_datapath *datapath)
{
	const struct mk_policy_tables *tables = &datapath->policy_tables;
	struct mk_policy_entries entries;

	mk_policy_sync_entries(datapath->policies, &entries);
	add(fills, &tables->identities, entries.identities);
	add(fills, &tables->peers, entries.peers);
	add(fills, &tables->blocks, entries.blocks);
	add(fills, &tables->ports, entries.ports);
	add(fills, &tables->expected, entries.expected);
	add(fills, &tables->namespaces, entries.namespaces);
}

size_t mk_datapath_fill(const struct mk_datapath *datapath, const struct mk_session_counts *counts,
			struct mk_table_fill *list, size_t room)
{
	const struct mk_service_tables *tables = &datapath->service_tables;
	struct fills fills = { .list = list, .room = room };
	uint64_t pods;

	if (count_pods(datapath, &pods) == 0)
		add(&fills, &datapath->pods, pods);
	add(&fills, &datapath->routes, datapath_route_count(datapath));
	add(&fills, &tables->frontends, mk_service_sync_frontend_count(datapath->services));
	add(&fills, &tables->backends, mk_service_sync_backend_count(datapath->services));
	for (int i = 0; counts && i < MK_SESSION_TABLES; i++)
		add(&fills, &datapath->sessions[i], counts->entries[i]);
	add_policies(&fills, datapath);
	return fills.count;
}

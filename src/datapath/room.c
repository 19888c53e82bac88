// SPDX-License-Identifier: Apache-2.0
#include "datapath/room.h"

#include <bpf/libbpf.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "datapath/datapath_internal.h"

uint64_t mk_room_left(uint32_t max_entries, const struct mk_census *census)
{
	uint64_t sessions = max_entries / 16 / 2;

	for (int table = 0; table < MK_SESSION_TABLES; table += 2)
		if (census->entries[table] > max_entries / 4 * 3)
			return 0;
	return census->half_open < sessions ? sessions - census->half_open : 0;
}

/* Returns 1, or 0: mk_session_remove_old() cannot work. */
static int kernel_takes(const struct mk_table *sessions, struct mk_error *err)
{
	const struct mk_tuple nobodys = { 0 };
	struct mk_session session;
	int ret = mk_table_take(sessions, &nobodys, &session, err);

	if (ret == -EOPNOTSUPP)
		return 0;
	return ret < 0 ? ret : 1;
}

/* CPUs that are not online have theirs written, too, and nobody who takes it. */
static int give_each(const struct mk_table *room, int64_t sessions, struct mk_error *err)
{
	int cpus = libbpf_num_possible_cpus();
	const __u32 zero = 0;
	cleanup_free int64_t *each = NULL;

	if (cpus < 0)
		return mk_error_errno(err, -cpus, "cannot count the CPUs");
	each = calloc((size_t)cpus, sizeof(*each));
	if (!each)
		return mk_error_errno(err, ENOMEM, "cannot write map '%s'", room->name);
	for (int i = 0; i < cpus; i++)
		each[i] = sessions;
	return mk_table_put(room, &zero, each, err);
}

int mk_datapath_give_room(const struct mk_datapath *datapath, const struct mk_census *census,
			  struct mk_error *err)
{
	const struct mk_table *sessions = &datapath->sessions[0];
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	int ret = kernel_takes(sessions, err);
	int64_t left = 0;

	if (ret < 0)
		return ret;
	if (ret > 0)
		left = (int64_t)mk_room_left(sessions->max_entries, census) /
		       (online > 0 ? online : 1);
	return give_each(&datapath->room, left, err);
}

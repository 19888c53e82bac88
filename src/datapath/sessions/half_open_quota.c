// SPDX-License-Identifier: Apache-2.0
#include "datapath/sessions/half_open_quota.h"

#include <bpf/libbpf.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "datapath/sessions/sessions_internal.h"

uint64_t half_open_quota_left(uint32_t max_entries, const struct mk_session_counts *counts)
{
	uint64_t sessions = max_entries / 16 / 2;

	for (int table = 0; table < MK_SESSION_TABLES; table += 2)
		if (counts->entries[table] > max_entries / 4 * 3)
			return 0;
	return counts->half_open < sessions ? sessions - counts->half_open : 0;
}

/* Does the kernel have the lookup-and-delete command that session_remove_old() needs? 1, 0 or an
 * error. */
static int kernel_takes(const struct mk_table *sessions, struct mk_error *err)
{
	const struct mk_tuple unused = { 0 };
	struct mk_session session;
	int ret = mk_table_take(sessions, &unused, &session, err);

	if (ret == -EOPNOTSUPP)
		return 0;
	return ret < 0 ? ret : 1;
}

/* The kernel wants a value for each possible CPU, also for those that are offline. */
static int write_each(const struct mk_table *quota, int64_t sessions, struct mk_error *err)
{
	int cpus = libbpf_num_possible_cpus();
	const __u32 zero = 0;
	cleanup_free int64_t *each = NULL;

	if (cpus < 0)
		return mk_error_errno(err, -cpus, "cannot count the CPUs");
	each = calloc((size_t)cpus, sizeof(*each));
	if (!each)
		return mk_error_errno(err, ENOMEM, "cannot write map '%s'", quota->name);
	for (int i = 0; i < cpus; i++)
		each[i] = sessions;
	return mk_table_put(quota, &zero, each, err);
}

int mk_half_open_quota_write(const struct mk_table *quota, const struct mk_table *sessions,
			     const struct mk_session_counts *counts, struct mk_error *err)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	int ret = kernel_takes(sessions, err);
	int64_t left = 0;

	if (ret < 0)
		return ret;
	if (ret > 0)
		left = (int64_t)half_open_quota_left(sessions->max_entries, counts) /
		       (online > 0 ? online : 1);
	return write_each(quota, left, err);
}

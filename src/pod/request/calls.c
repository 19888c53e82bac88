// SPDX-License-Identifier: Apache-2.0
#include "pod/request/calls.h"

#include <sys/mman.h>

#include "base/cleanup.h"
#include "datapath/maps/pin.h"
#include "datapath/maps/table.h"

#define NS_PER_S 1e9

/* The last bucket counts longer calls. */
static const double bounds_s[MK_CNI_BUCKETS - 1] = { 0.0005, 0.001, 0.0025, 0.005, 0.01,
						     0.025,  0.05,  0.1,    0.25,  0.5,
						     1,	     2.5,   5,	    10,	   30 };

static const char *const names[MK_CNI_COMMANDS] = {
	[MK_CNI_COMMAND_ADD] = "ADD",	    [MK_CNI_COMMAND_DEL] = "DEL",
	[MK_CNI_COMMAND_CHECK] = "CHECK",   [MK_CNI_COMMAND_GC] = "GC",
	[MK_CNI_COMMAND_STATUS] = "STATUS",
};

const char *mk_cni_command_name(unsigned int command)
{
	return command < MK_CNI_COMMANDS ? names[command] : "unknown";
}

static int open_table(const char *bpf_dir, struct mk_table *table, struct mk_error *err)
{
	char dir[PATH_MAX];
	int ret = mk_pin_first_dir(dir, bpf_dir, err);

	ret = ret
		      ?: mk_table_open(table, dir, "cni_calls", sizeof(__u32),
				       sizeof(struct mk_cni_calls), err);

	if (ret == 0 && table->max_entries < MK_CNI_COMMANDS)
		return mk_error_set(
			err, EPROTO,
			"map 'cni_calls' has %u entries, expected at least %u: it is of another version, whose agent has to run first",
			table->max_entries, (unsigned int)MK_CNI_COMMANDS);
	return ret;
}

static size_t bucket_of(uint64_t took_ns)
{
	size_t i = 0;

	while (i < MK_ARRAY_SIZE(bounds_s) && (double)took_ns > bounds_s[i] * NS_PER_S)
		i++;
	return i;
}

void mk_cni_calls_add(const char *bpf_dir, enum mk_cni_command command, bool failed,
		      uint64_t took_ns)
{
	struct mk_cni_calls *calls;
	cleanup_table struct mk_table table = { 0 };
	size_t bytes;

	if (open_table(bpf_dir, &table, NULL) < 0)
		return;
	calls = mk_table_map(&table, &bytes);
	if (!calls)
		return;
	__atomic_fetch_add(&calls[command].failed, failed, __ATOMIC_RELAXED);
	__atomic_fetch_add(&calls[command].total_ns, took_ns, __ATOMIC_RELAXED);
	__atomic_fetch_add(&calls[command].buckets[bucket_of(took_ns)], 1, __ATOMIC_RELAXED);
	munmap(calls, bytes);
}

int mk_cni_calls_read(const char *bpf_dir, struct mk_cni_calls calls[MK_CNI_COMMANDS],
		      struct mk_error *err)
{
	cleanup_table struct mk_table table = { 0 };
	int ret = open_table(bpf_dir, &table, err);

	if (ret < 0)
		return ret;
	for (__u32 command = 0; ret == 0 && command < MK_CNI_COMMANDS; command++)
		ret = mk_table_get(&table, &command, &calls[command], err);
	return ret;
}

void mk_cni_calls_histogram(const struct mk_cni_calls *calls, struct mk_histogram *histogram)
{
	*histogram = (struct mk_histogram){ .sum = (double)calls->total_ns / NS_PER_S };
	for (size_t i = 0; i < MK_ARRAY_SIZE(bounds_s); i++)
		mk_histogram_add_bounds(histogram, bounds_s[i], 0, 1);
	for (size_t i = 0; i < MK_CNI_BUCKETS; i++) {
		histogram->buckets[i] = calls->buckets[i];
		histogram->count += calls->buckets[i];
	}
}

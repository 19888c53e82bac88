// SPDX-License-Identifier: Apache-2.0
/* Removes a pod's device, and keeps its counters. */

#include <string.h>
#include <sys/mman.h>

#include "datapath/maps/pin.h"
#include "datapath/maps/table.h"
#include "pod/endpoint/endpoint.h"

static int open_table(const char *bpf_dir, struct mk_table *table, struct mk_error *err)
{
	char dir[PATH_MAX];
	int ret = mk_pin_first_dir(dir, bpf_dir, err);

	return ret
		       ?: mk_table_open(table, dir, "pods_gone", sizeof(__u32),
					sizeof(struct mk_pod_traffic), err);
}

/* Save the device's counts. Errors are ignored: the device is removed anyway. */
static void keep(struct mk_nl *nl, const char *bpf_dir, int ifindex)
{
	struct mk_link_traffic seen;
	struct mk_pod_traffic *gone;
	cleanup_table struct mk_table table = { 0 };
	size_t bytes;

	if (mk_nl_link_traffic(nl, ifindex, &seen, NULL) < 0 ||
	    open_table(bpf_dir, &table, NULL) < 0)
		return;
	gone = mk_table_map(&table, &bytes);
	if (!gone)
		return;
	__atomic_fetch_add(&gone->packets, seen.rx_packets, __ATOMIC_RELAXED);
	__atomic_fetch_add(&gone->bytes, seen.rx_bytes, __ATOMIC_RELAXED);
	munmap(gone, bytes);
}

int mk_pod_device_remove(struct mk_nl *nl, const char *bpf_dir, const struct mk_link *link,
			 struct mk_error *err)
{
	keep(nl, bpf_dir, link->ifindex);
	return mk_nl_link_delete(nl, link->name, err);
}

struct sum {
	const char *veth_prefix;
	struct mk_pod_traffic *traffic;
};

static int add_device(void *ctx, const struct mk_link *link)
{
	const struct sum *sum = ctx;

	if (mk_cni_is_pod_device(sum->veth_prefix, link)) {
		sum->traffic->packets += link->traffic.rx_packets;
		sum->traffic->bytes += link->traffic.rx_bytes;
	}
	return 0;
}

int mk_pod_traffic_read(struct mk_nl *nl, const char *bpf_dir, const char *veth_prefix,
			struct mk_pod_traffic *traffic, struct mk_error *err)
{
	struct sum sum = { .veth_prefix = veth_prefix, .traffic = traffic };
	cleanup_table struct mk_table table = { 0 };
	__u32 zero = 0;
	int ret = open_table(bpf_dir, &table, err);

	if (ret < 0)
		return ret;
	ret = mk_table_get(&table, &zero, traffic, err);
	return ret < 0 ? ret : mk_nl_each_link_traffic(nl, add_device, &sum, err);
}

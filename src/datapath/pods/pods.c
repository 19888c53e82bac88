// SPDX-License-Identifier: Apache-2.0
#include "datapath/pods/pods.h"

#include <bpf/bpf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/maps/hook.h"
#include "datapath/maps/pin.h"
#include "datapath/pods/pod_policies.h"
#include "datapath/pods/pod_table.h"
#include "datapath/pods/pods_internal.h"

struct mk_pods {
	struct mk_pod_tables tables;
	struct mk_pod_policies policies;
	int prog_fd, port_prog_fd;
	int lock_fd;
};

/* A network namespace id that does not fit the field is left out; the programs work without it. */
struct mk_pod mk_pod_of(const struct mk_link *host, const struct mk_mac *mac)
{
	struct mk_pod pod = { .ifindex = (uint32_t)host->ifindex };

	memcpy(pod.mac, mac->byte, sizeof(pod.mac));
	if (host->peer_netns >= 0 && host->peer_netns < MK_POD_NETNS_REF_MAX)
		pod.netns_ref = (__u16)(host->peer_netns + 1) & MK_POD_NETNS_REF_MAX;
	pod.shaped = strcmp(host->qdisc, MK_NL_TBF) == 0;
	return pod;
}

static int not_loaded(const char *bpf_dir, struct mk_error *err)
{
	return mk_error_set(
		err, ENOENT,
		"the datapath is not loaded: nothing is pinned in '%s'; start `monokube agent` on this node once",
		bpf_dir);
}

/* Open the program of pods' or ports' filters: IPv4's, if it is pinned. While IPv4 is added to a
 * node, its tables are pinned before its programs. */
static int open_program(const char *bpf_dir, const char *name, struct mk_error *err)
{
	static const sa_family_t families[] = { AF_INET, AF_INET6 };
	char dir[PATH_MAX];
	int fd = -ENOENT;

	for (size_t i = 0; fd == -ENOENT && i < MK_ARRAY_SIZE(families); i++) {
		fd = mk_pin_dir(dir, bpf_dir, families[i], err);
		if (fd == 0)
			fd = mk_pin_open(dir, MK_PIN_PROGS, name, err);
	}
	return fd;
}

static int open_pins(struct mk_pods *pods, const char *bpf_dir, struct mk_error *err)
{
	int ret = mk_pod_tables_open(&pods->tables, bpf_dir, err);

	if (ret == -ENOENT)
		return not_loaded(bpf_dir, err);
	ret = ret ?: mk_pod_policies_open(&pods->policies, bpf_dir, err);
	if (ret < 0)
		return ret;
	pods->prog_fd = open_program(bpf_dir, "ilb_pod", err);
	if (pods->prog_fd >= 0)
		pods->port_prog_fd = open_program(bpf_dir, "sfc_port", err);
	if (pods->prog_fd == -ENOENT || pods->port_prog_fd == -ENOENT)
		return not_loaded(bpf_dir, err);
	return pods->prog_fd < 0 ? pods->prog_fd : pods->port_prog_fd < 0 ? pods->port_prog_fd : 0;
}

struct mk_pods *mk_pods_open(const char *bpf_dir, const char *state_dir, struct mk_error *err)
{
	cleanup_pods struct mk_pods *pods = malloc(sizeof(*pods));

	if (!pods) {
		(void)mk_error_errno(err, ENOMEM, "cannot open the table of pods");
		return NULL;
	}
	*pods = (struct mk_pods){ .prog_fd = -1, .port_prog_fd = -1, .lock_fd = -1 };
	pods->lock_fd = mk_datapath_lock_shared(state_dir, err);
	if (pods->lock_fd < 0 || open_pins(pods, bpf_dir, err) < 0)
		return NULL;
	return mk_steal_ptr(pods);
}

void mk_pods_free(struct mk_pods *pods)
{
	if (!pods)
		return;
	mk_pod_tables_close(&pods->tables);
	mk_pod_policies_close(&pods->policies);
	mk_cleanup_close(&pods->prog_fd);
	mk_cleanup_close(&pods->port_prog_fd);
	mk_cleanup_close(&pods->lock_fd);
	free(pods);
}

bool mk_pods_has(const struct mk_pods *pods, sa_family_t family)
{
	return pods->tables.of[mk_family_index(family)].name;
}

int mk_pods_put(struct mk_pods *pods, const struct mk_ip *ip, const struct mk_pod *pod,
		struct mk_error *err)
{
	struct mk_pod entry = *pod;

	entry.addr = mk_ip_to_addr(ip);
	return mk_pod_tables_put(&pods->tables, &entry, err);
}

int mk_pods_get(struct mk_pods *pods, const struct mk_ip *ip, struct mk_pod *pod,
		struct mk_error *err)
{
	struct mk_addr key = mk_ip_to_addr(ip);

	return mk_pod_tables_get(&pods->tables, &key, pod, err);
}

int mk_pods_holder(struct mk_pods *pods, const struct mk_ip *ip, struct mk_pod *pod,
		   struct mk_error *err)
{
	struct mk_addr key = mk_ip_to_addr(ip);
	const struct mk_table *table;
	int ret = pod_tables_of(&pods->tables, ip->family, &table, err);

	return ret ?: pod_table_holder(table, &key, pod, err);
}

/* The sets first: an interrupted DEL leaves a pod without sets, which is closed, but no sets
 * without a pod. */
int mk_pods_delete(struct mk_pods *pods, const struct mk_ip *ip, struct mk_error *err)
{
	struct mk_addr key = mk_ip_to_addr(ip);
	const struct mk_table *table = &pods->tables.of[mk_family_index(ip->family)];
	int ret = pod_policies_clear(&pods->policies, &key, err);

	if (ret == 0 && table->name)
		ret = pod_table_delete(table, &key, err);
	return ret < 0 ? ret : 0;
}

int mk_pods_put_policies(struct mk_pods *pods, const struct mk_ip *ip, int ifindex,
			 const uint64_t sets[MK_POLICY_DIRECTIONS], struct mk_error *err)
{
	const struct mk_addr key = mk_ip_to_addr(ip);
	const struct mk_table *table;
	int ret = pod_tables_of(&pods->tables, ip->family, &table, err);

	ret = ret ?: pod_table_check_slot(table, &key, err);
	ret = ret ?: mk_pod_policies_put(&pods->policies, &key, (uint32_t)ifindex, sets, err);
	if (ret == 0 && (sets[MK_POLICY_INGRESS] || sets[MK_POLICY_EGRESS]))
		ret = pod_policies_turn_on(&pods->policies, &pods->tables, ip->family, err);
	return ret;
}

int mk_pods_get_policies(struct mk_pods *pods, const struct mk_ip *ip, int ifindex,
			 uint64_t sets[MK_POLICY_DIRECTIONS], struct mk_error *err)
{
	const struct mk_addr key = mk_ip_to_addr(ip);

	return mk_pod_policies_get(&pods->policies, &key, (uint32_t)ifindex, sets, err);
}

int mk_pods_each(struct mk_pods *pods,
		 int (*visit)(void *ctx, const struct mk_ip *ip, const struct mk_pod *pod),
		 void *ctx, struct mk_error *err)
{
	cleanup_free struct mk_pod *list = NULL;
	size_t count;
	int ret = mk_pod_tables_read(&pods->tables, &list, &count, err);

	for (size_t i = 0; ret == 0 && i < count; i++) {
		struct mk_ip ip = mk_ip_from_addr(&list[i].addr);

		ret = visit(ctx, &ip, &list[i]);
	}
	return ret;
}

int mk_pods_attach(struct mk_pods *pods, struct mk_nl *nl, int ifindex, struct mk_error *err)
{
	return mk_hook_attach(nl, ifindex, MK_INGRESS, pods->prog_fd, err);
}

static int is_attached(struct mk_nl *nl, int ifindex, int prog_fd, struct mk_error *err)
{
	struct bpf_prog_info info = { 0 };
	__u32 size = sizeof(info);
	uint32_t prog_id;
	int ret = mk_hook_query(nl, ifindex, MK_INGRESS, &prog_id, err);

	if (ret == 0 && bpf_obj_get_info_by_fd(prog_fd, &info, &size) < 0)
		return mk_error_errno(err, errno, "cannot ask for the program of a pod's device");
	return ret < 0 ? ret : prog_id == info.id;
}

int mk_pods_attached(struct mk_pods *pods, struct mk_nl *nl, int ifindex, struct mk_error *err)
{
	return is_attached(nl, ifindex, pods->prog_fd, err);
}

int mk_pods_attach_port(struct mk_pods *pods, struct mk_nl *nl, int ifindex, struct mk_error *err)
{
	return mk_hook_attach(nl, ifindex, MK_INGRESS, pods->port_prog_fd, err);
}

int mk_pods_attached_port(struct mk_pods *pods, struct mk_nl *nl, int ifindex, struct mk_error *err)
{
	return is_attached(nl, ifindex, pods->port_prog_fd, err);
}

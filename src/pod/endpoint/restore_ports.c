// SPDX-License-Identifier: Apache-2.0
/* Restores lost entries of host ports. */
#include <stdio.h>
#include <sys/file.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "datapath/maps/pin.h"
#include "datapath/pods/pod_table.h"
#include "pod/endpoint/endpoint_internal.h"
#include "pod/endpoint/port_mappings.h"
#include "pod/endpoint/restore.h"
#include "pod/ipam/ipam.h"

struct restoring {
	struct mk_pod_tables pods;
	struct mk_host_ports *ports;
	struct mk_nl *nl;
	struct mk_error *err;
	int restored; /* entries */
};

/* Return the index of the pod's device if the device and the pod's entry exist; else
 * 0, or an error. */
static int device_of(const struct restoring *restoring, const struct mk_addr *addr,
		     struct mk_error *err)
{
	struct mk_link link;
	struct mk_pod pod;
	int ret = mk_pod_tables_get(&restoring->pods, addr, &pod, err);

	ret = ret ?: mk_nl_link_get_index(restoring->nl, (int)pod.ifindex, &link, err);
	if (ret < 0)
		return ret == -ENOENT || ret == -ENODEV ? 0 : ret;
	return link.ifindex;
}

static int is_alive(void *ctx, const struct mk_host_port *to, struct mk_error *err)
{
	const struct restoring *restoring = ctx;
	struct mk_pod pod;
	int ret = mk_pod_tables_get(&restoring->pods, &to->addr, &pod, err);

	if (ret < 0 && ret != -ENOENT)
		return ret;
	return cni_host_port_is_alive(restoring->nl, ret < 0 ? NULL : &pod, to, err);
}

static void say_taken(const struct mk_host_port_entry *entry, const struct mk_host_port *to,
		      const struct mk_ipam_owner *owner)
{
	const struct mk_ip ip = mk_ip_from_addr(&to->addr);
	char port[MK_HOST_PORT_STRLEN], text[MK_IP_STRLEN];

	mk_log_error(
		"host port of a pod was missing, and leads to another pod now: delete one of the two pods port=%s container=%s other=%s",
		mk_host_port_format(entry, port), owner->container_id, mk_ip_format(&ip, text));
}

/* Leave only the missing entries in @mappings. A port that another pod has taken meanwhile stays
 * with that pod. A family that the node no longer has needs none. */
static int leave_missing(const struct restoring *restoring, struct mk_cni_port_mappings *mappings,
			 const struct mk_ip ips[MK_FAMILIES], int ifindex,
			 const struct mk_ipam_owner *owner, struct mk_error *err)
{
	size_t count = 0;

	for (size_t i = 0; i < mappings->count; i++) {
		struct mk_host_port_entry *entry = &mappings->list[i];
		struct mk_host_port to;
		int ret;

		if (!mk_host_ports_has(restoring->ports, entry->family) ||
		    !cni_port_mapping_lead(entry, ips, ifindex))
			continue;
		ret = mk_host_ports_get(restoring->ports, entry->family, &entry->key, &to, err);
		if (ret < 0 && ret != -ENOENT)
			return ret;
		if (ret == -ENOENT)
			mappings->list[count++] = *entry;
		else if (!mk_addr_eq(&to.addr, &entry->to.addr))
			say_taken(entry, &to, owner);
	}
	mappings->count = count;
	return 0;
}

static int put_back(struct restoring *restoring, const struct mk_cni_port_mappings *mappings,
		    const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	const struct mk_host_port_judge judge = { .is_alive = is_alive, .ctx = restoring };
	cleanup_free char *ports = mk_cni_port_mappings_format(mappings);
	struct mk_host_port_entry holder;
	char text[MK_IP_STRLEN];
	int ret = mk_host_ports_claim(restoring->ports, mappings->list, mappings->count, &judge,
				      &holder, restoring->err);

	if (ret < 0)
		return ret;
	mk_log_warn(
		"entries of a pod were missing and are back map=host_ports ip=%s container=%s ports=\"%s\"",
		mk_ip_format(ip, text), owner->container_id, ports ? ports : "");
	restoring->restored += (int)mappings->count;
	return 0;
}

/* Skip a pod without an entry or a device: restore.c, reap.c and lost.c handle those. */
static int restore(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	struct restoring *restoring = ctx;
	cleanup_port_mappings struct mk_cni_port_mappings mappings = { 0 };
	const struct mk_ip ips[MK_FAMILIES] = { *ip, owner->second };
	const struct mk_addr addr = mk_ip_to_addr(ip);
	int ret, ifindex;

	if (!owner->host_ports[0])
		return 0;
	ifindex = device_of(restoring, &addr, restoring->err);
	if (ifindex <= 0)
		return ifindex;
	ret = cni_port_mappings_parse(&mappings, owner->host_ports, restoring->err);
	ret = ret ?: leave_missing(restoring, &mappings, ips, ifindex, owner, restoring->err);
	return ret < 0 || !mappings.count ? ret : put_back(restoring, &mappings, ip, owner);
}

/* The last step tells the programs whether there are entries, whatever they were told before. */
static int restore_locked(struct restoring *restoring, const char *state_dir, const char *bpf_dir)
{
	const struct mk_host_port_judge judge = { .is_alive = is_alive, .ctx = restoring };
	cleanup_ipam struct mk_ipam *ipam = mk_ipam_open(state_dir, restoring->err);
	cleanup_nl struct mk_nl *nl = ipam ? mk_nl_open(restoring->err) : NULL;
	int ret;

	if (!nl)
		return -restoring->err->code;
	restoring->nl = nl;
	ret = mk_pod_tables_open(&restoring->pods, bpf_dir, restoring->err);
	if (ret < 0)
		return ret;
	ret = mk_ipam_each(ipam, restore, restoring, restoring->err);
	ret = ret ?: mk_host_ports_sweep(restoring->ports, &judge, restoring->err);
	mk_pod_tables_close(&restoring->pods);
	return ret < 0 ? ret : restoring->restored;
}

/* The exclusive datapath lock guarantees that no ADD or DEL is running. If one is, return 0 and
 * leave *@known unchanged: the next check follows. */
static int restore_all(struct restoring *restoring, const char *state_dir, const char *bpf_dir,
		       size_t *known)
{
	cleanup_close int lock_fd =
		mk_state_lock(state_dir, MK_LOCK_DATAPATH, LOCK_EX | LOCK_NB, restoring->err);
	struct mk_host_ports_state before, now;
	int ret, restored;

	if (lock_fd < 0)
		return lock_fd == -EWOULDBLOCK ? 0 : lock_fd;
	ret = mk_host_ports_state(restoring->ports, &before, restoring->err);
	restored = ret < 0 ? ret : restore_locked(restoring, state_dir, bpf_dir);
	if (restored < 0)
		return restored;
	ret = mk_host_ports_state(restoring->ports, &now, restoring->err);
	*known = now.count;
	return ret < 0 ? ret : restored + (now.told != before.told);
}

int mk_cni_restore_host_ports(const char *state_dir, const char *bpf_dir, size_t *known,
			      struct mk_error *err)
{
	struct mk_error cause = { 0 };
	cleanup_host_ports struct mk_host_ports *ports =
		mk_host_ports_open(bpf_dir, state_dir, &cause);
	struct restoring restoring = { .ports = ports, .err = err };
	struct mk_host_ports_state now;
	int ret;

	if (!ports && cause.code == ENOENT)
		return 0;
	if (!ports) {
		*err = cause;
		return -cause.code;
	}
	ret = mk_host_ports_state(ports, &now, err);
	if (ret < 0)
		return ret;
	if (now.count < *known || now.told != now.filled)
		return restore_all(&restoring, state_dir, bpf_dir, known);
	*known = now.count;
	return 0;
}

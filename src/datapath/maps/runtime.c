// SPDX-License-Identifier: Apache-2.0
#include "datapath/maps/runtime.h"

#include <string.h>
#include <sys/file.h>

#include "monokube/abi.h"
#include "base/cleanup.h"
#include "datapath/maps/pin.h"
#include "datapath/maps/table.h"

static void widen(struct mk_runtime *runtime, const struct mk_runtime_change *change)
{
	bool had = runtime->localhost_port_max && change->localhost_port_max;

	if (!had || change->localhost_port_min < runtime->localhost_port_min)
		runtime->localhost_port_min = change->localhost_port_min;
	if (!had || change->localhost_port_max > runtime->localhost_port_max)
		runtime->localhost_port_max = change->localhost_port_max;
}

static int change_locked(const struct mk_table *table, const struct mk_runtime_change *change,
			 struct mk_error *err)
{
	struct mk_runtime now, wanted;
	__u32 key = 0;
	int ret = mk_table_get(table, &key, &now, err);

	if (ret < 0)
		return ret;
	wanted = now;
	if (change->set_host_backends)
		wanted.host_backends = change->host_backends;
	if (change->set_frontends_gone)
		wanted.frontends_gone = change->frontends_gone;
	if (change->set_report_drops)
		wanted.report_drops = change->report_drops;
	if (change->set_monitored)
		wanted.monitored = change->monitored;
	if (change->set_host_ports)
		wanted.host_ports = change->host_ports;
	if (change->set_peers_known)
		wanted.peers_known = change->peers_known;
	if (change->set_ranges_shared)
		wanted.ranges_shared = change->ranges_shared;
	if (change->set_localhost_ports)
		widen(&wanted, change);
	if (memcmp(&now, &wanted, sizeof(now)) == 0)
		return 0;
	ret = mk_table_put(table, &key, &wanted, err);
	return ret < 0 ? ret : 1;
}

int mk_runtime_change(const char *bpf_dir, const char *state_dir,
		      const struct mk_runtime_change *change, struct mk_error *err)
{
	cleanup_close int lock = mk_state_lock(state_dir, MK_LOCK_RUNTIME, LOCK_EX, err);
	cleanup_table struct mk_table table = { 0 };
	int ret;

	if (lock < 0)
		return lock;
	ret = mk_table_open(&table, bpf_dir, "runtime", sizeof(__u32), sizeof(struct mk_runtime),
			    err);
	return ret < 0 ? ret : change_locked(&table, change, err);
}

/* ---- map udp_ports --------------------------------------------------------------------------- */

static int add_ports(const struct mk_table *table, const struct mk_port_set *ports,
		     struct mk_error *err)
{
	struct mk_port_set now, wanted;
	__u32 key = 0;
	int ret = mk_table_get(table, &key, &now, err);

	if (ret < 0)
		return ret;
	for (size_t i = 0; i < sizeof(now.words) / sizeof(now.words[0]); i++)
		wanted.words[i] = now.words[i] | ports->words[i];
	if (memcmp(&now, &wanted, sizeof(now)) == 0)
		return 0;
	ret = mk_table_put(table, &key, &wanted, err);
	return ret < 0 ? ret : 1;
}

int mk_udp_ports_add(const char *bpf_dir, const char *state_dir, const struct mk_port_set *ports,
		     struct mk_error *err)
{
	cleanup_close int lock = mk_state_lock(state_dir, MK_LOCK_RUNTIME, LOCK_EX, err);
	cleanup_table struct mk_table table = { 0 };
	int ret;

	if (lock < 0)
		return lock;
	ret = mk_table_open(&table, bpf_dir, "udp_ports", sizeof(__u32), sizeof(struct mk_port_set),
			    err);
	return ret < 0 ? ret : add_ports(&table, ports, err);
}

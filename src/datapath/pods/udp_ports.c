// SPDX-License-Identifier: Apache-2.0
#include "datapath/pods/udp_ports.h"

#include <string.h>
#include <sys/file.h>

#include "base/cleanup.h"
#include "datapath/maps/pin.h"
#include "datapath/maps/table.h"

static int add_locked(const struct mk_table *table, const struct mk_port_set *ports,
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
	return ret < 0 ? ret : add_locked(&table, ports, err);
}

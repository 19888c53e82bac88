// SPDX-License-Identifier: Apache-2.0
/* Map abi: the version of the tables, and the version of monokube that made them. */

#include <bpf/bpf.h>
#include <stdlib.h>
#include <string.h>

#include "monokube/abi.h"
#include "monokube/version.h"
#include "base/cleanup.h"
#include "datapath/maps/pin.h"
#include "datapath/maps/table.h"

/* A later version's entry may be longer, but it begins with this version's fields. */
int mk_abi_read(const char *bpf_dir, struct mk_abi *abi, struct mk_error *err)
{
	cleanup_close int fd = mk_pin_open(bpf_dir, MK_PIN_MAPS, "abi", err);
	cleanup_free char *value = NULL;
	struct mk_table table;
	__u32 key = 0;
	int ret = fd < 0 ? fd : mk_table_init(&table, "abi", fd, err);

	if (ret < 0)
		return ret;
	value = calloc(1, table.value_size + sizeof(*abi));
	if (!value)
		return mk_error_errno(err, ENOMEM, "cannot read map 'abi'");
	ret = mk_table_get(&table, &key, value, err);
	memcpy(abi, value, sizeof(*abi)); /* an earlier version's value is shorter; the rest is 0 */
	abi->made_by[sizeof(abi->made_by) - 1] = '\0';
	return ret;
}

int mk_abi_check(const char *bpf_dir, struct mk_error *err)
{
	struct mk_abi abi;
	int ret = mk_abi_read(bpf_dir, &abi, err);

	if (ret == -ENOENT) /* nothing is pinned, or a version without this map made it */
		return 0;
	if (ret < 0 || abi.version <= MK_ABI_VERSION)
		return ret;
	return mk_error_set(
		err, EPROTO,
		"the tables in '%s' are of version %u (made by monokube %s), monokube %s knows up to version %u. They were not touched; the datapath keeps running. Run monokube %s or a later one; to go back, drain this node and run `monokube cleanup` first",
		bpf_dir, abi.version, abi.made_by, MONOKUBE_VERSION, MK_ABI_VERSION, abi.made_by);
}

int mk_abi_write(int fd, const struct mk_abi *abi, struct mk_error *err)
{
	__u32 key = 0;

	if (bpf_map_update_elem(fd, &key, abi, BPF_ANY) < 0)
		return mk_error_errno(err, errno, "cannot write map 'abi'");
	return 0;
}

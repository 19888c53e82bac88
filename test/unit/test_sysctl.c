// SPDX-License-Identifier: Apache-2.0
/* Settings of the kernel that are restored, ports that are reserved, and the record for cleanup. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/config.h"
#include "host/host_internal.h"
#include "host/record.h"
#include "host/sysctl.h"
#include "unit/unit.h"

static struct mk_error err;
/* ---- reserved ports -------------------------------------------------------------------------- */

static const struct {
	const char *before;
	int covered;
	const char *after;
} ports[] = {
	{ "", 0, "30000-32767,49152-65535" },
	{ "\n", 0, "30000-32767,49152-65535" },
	{ "8080", 0, "8080,30000-32767,49152-65535" },
	{ "8080,9148-9150\n", 0, "8080,9148-9150,30000-32767,49152-65535" },
	{ "30000-32767,49152-65535\n", 1, NULL },
	{ "22,30000-65535", 1, NULL },
	{ "49152-65535\n", 0, "30000-32767,49152-65535" },
	{ "30000-32766,49152-65535", 0, "30000-32767,49152-65535" },
	{ "49153-65535", 0, "30000-32767,49152-65535" },
};

START_TEST(test_reserved_ports)
{
	char out[128] = "";
	int ret = mk_reserved_ports_add(ports[_i].before, "30000-32767,49152-65535", out,
					sizeof(out), &err);

	ck_assert_msg(ret == ports[_i].covered, "'%s': %d", ports[_i].before, ret);
	if (ports[_i].after)
		ck_assert_str_eq(out, ports[_i].after);
}
END_TEST

static const struct {
	const char *name, *now, *keep, *after;
} released[] = {
	{ "nobody else's", "30000-32767,49152-65535", "", "" },
	{ "from before", "8080,30000-32767,49152-65535", "8080", "8080" },
	{ "of others since", "8080,9000-9001,30000-32767,49152-65535", "8080", "8080,9000-9001" },
	{ "from before, and within ours", "30000-32767,49152-65535", "30100,65535", "30100,65535" },
	{ "taken away by others", "8080", "8080,9000", "8080" },
};

START_TEST(test_released_ports)
{
	char out[128] = "";

	ck_ok(reserved_ports_remove(released[_i].now, "30000-32767,49152-65535", released[_i].keep,
				    out, sizeof(out), &err));
	ck_assert_msg(strcmp(out, released[_i].after) == 0, "%s: %s", released[_i].name, out);
}
END_TEST

/* A setting is restored unless it has been changed since. Files stand for settings. */
static const struct {
	const char *name, *memory, *now, *after;
} settings[] = {
	{ "as we set it", "ours FILE 1\nFILE=0\n", "1", "0" },
	{ "changed by others", "ours FILE 1\nFILE=0\n", "2", "2" },
	{ "written down by a version before", "FILE=0\n", "1", "0" },
	{ "set twice", "ours FILE 2\nours FILE 1\nFILE=0\n", "2", "0" },
};

static void write_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(text, file), 0);
	ck_assert_int_eq(fclose(file), 0);
}

static void write_memory(const char *path, const char *text, const char *file)
{
	char out[512] = "";
	size_t at = 0;

	while (*text) {
		bool here = strncmp(text, "FILE", 4) == 0;

		at += (size_t)snprintf(out + at, sizeof(out) - at, "%.*s", here ? 64 : 1,
				       here ? file : text);
		text += here ? 4 : 1;
	}
	write_text(path, out);
}

START_TEST(test_setting_restored)
{
	char dir[] = "/tmp/mk-test-sysctl-XXXXXX", memory[64], setting[64], seen[8] = "";
	FILE *file;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(memory, sizeof(memory), "%s/sysctls", dir);
	snprintf(setting, sizeof(setting), "%s/setting", dir);
	write_text(setting, settings[_i].now);
	write_memory(memory, settings[_i].memory, setting);
	ck_assert_int_ge(mk_sysctls_restore(dir, &err), 0);
	file = fopen(setting, "r");
	ck_assert_ptr_nonnull(file);
	ck_assert_ptr_nonnull(fgets(seen, sizeof(seen), file));
	fclose(file);
	ck_assert_msg(strcmp(seen, settings[_i].after) == 0, "%s: %s", settings[_i].name, seen);
	ck_assert_int_ne(access(memory, F_OK), 0);
	ck_assert_int_eq(unlink(setting), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

/* ---- record ---------------------------------------------------------------------------------- */

START_TEST(test_record)
{
	struct mk_config config = {
		.vxlan_iface_name = "vx7",
		.sfc_iface_name = "sf7",
		.peer_iface_name = "peer7",
		.cluster_name = "west",
		.veth_prefix = "zz",
		.bpf_dir = "/sys/fs/bpf/other",
		.cluster = { { cidr_of("10.244.0.0/16"), cidr_of("fd00:10:244::/48") }, AF_INET6 },
		.vteps = { { cidr_of("10.18.0.0/16"), cidr_of("fd4d:4b00:12::/64") }, AF_INET6 },
		.cni_conf_path = "/x/10.conflist",
		.cni_bin_dir = "/x/bin"
	};
	char command[160];
	struct mk_record record;

	strcpy(config.state_dir, "/tmp/mk-test-record-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(config.state_dir));
	ck_ok(mk_record_read(config.state_dir, &record, &err));
	ck_assert_str_eq(record.vxlan_name, "mkvxlan");
	ck_assert_str_eq(record.sfc_name, "mksfc");
	ck_assert_str_eq(record.peer_name, "mkpeer");
	ck_assert_str_eq(record.cluster_name, "");
	ck_ok(mk_record_write(&config, "cluster directory /x", &err));
	ck_ok(mk_record_read(config.state_dir, &record, &err));
	ck_assert_str_eq(record.vxlan_name, "vx7");
	ck_assert_str_eq(record.sfc_name, "sf7");
	ck_assert_str_eq(record.peer_name, "peer7");
	ck_assert_str_eq(record.cluster_name, "west");
	ck_assert_str_eq(record.veth_prefix, "zz");
	ck_assert_str_eq(record.bpf_dir, "/sys/fs/bpf/other");
	ck_assert_str_eq(record.cni_conf_path, "/x/10.conflist");
	ck_assert_str_eq(record.cni_bin_dir, "/x/bin");
	ck_assert_str_eq(record.source, "cluster directory /x");
	ck_assert_str_eq(record.cluster_cidr, "fd00:10:244::/48");
	ck_assert_str_eq(record.vtep_cidr, "fd4d:4b00:12::/64");
	ck_assert_str_eq(record.second_cluster_cidr, "10.244.0.0/16");
	ck_assert_str_eq(record.second_vtep_cidr, "10.18.0.0/16");
	snprintf(command, sizeof(command), "rm -rf %s", config.state_dir);
	ck_assert_int_eq(system(command), 0);
}
END_TEST

UNIT_SUITE("sysctl")
{
	TCase *tc = unit_case(suite, "settings", NULL, NULL);

	tcase_add_loop_test(tc, test_reserved_ports, 0, MK_ARRAY_SIZE(ports));
	tcase_add_loop_test(tc, test_released_ports, 0, MK_ARRAY_SIZE(released));
	tcase_add_loop_test(tc, test_setting_restored, 0, MK_ARRAY_SIZE(settings));
	tcase_add_test(tc, test_record);
}

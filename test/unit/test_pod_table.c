// SPDX-License-Identifier: Apache-2.0
/* Map pods: the owner of a slot. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "datapath/pods/pod_table.h"
#include "datapath/pods/pods_internal.h"
#include "unit/unit.h"
#include "rows.h"

#define SLOTS 16

static struct mk_table table;
static struct mk_error err;

static void setup(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
	int fd = row_create_ipv4(BPF_MAP_TYPE_ARRAY, "pods", sizeof(__u32), sizeof(struct mk_pod),
				 SLOTS, &options);

	ck_assert_msg(fd >= 0, "%s (needs root)", strerror(errno));
	ck_assert_int_eq(mk_table_init(&table, "pods", fd, &err), 0);
}

static void teardown(void)
{
	mk_table_close(&table);
}

static int put(const char *address, __u32 ifindex)
{
	const struct mk_pod pod = { .ifindex = ifindex, .addr = addr_of(address) };

	return mk_pod_table_put(&table, &pod, &err);
}

static int get(const char *address)
{
	const struct mk_addr addr = addr_of(address);
	struct mk_pod pod;
	int ret = mk_pod_table_get(&table, &addr, &pod, &err);

	return ret < 0 ? ret : (int)pod.ifindex;
}

static int holder(const char *address)
{
	const struct mk_addr addr = addr_of(address);
	struct mk_pod pod;
	int ret = pod_table_holder(&table, &addr, &pod, &err);

	return ret < 0 ? ret : (int)pod.ifindex;
}

static int delete (const char *address)
{
	const struct mk_addr addr = addr_of(address);

	return pod_table_delete(&table, &addr, &err);
}

START_TEST(test_one)
{
	ck_assert_int_eq(get("10.1.0.2"), -ENOENT);
	ck_assert_msg(strstr(err.text, "no entry for 10.1.0.2") != NULL, "%s", err.text);
	ck_assert_int_eq(put("10.1.0.2", 7), 0);
	ck_assert_int_eq(get("10.1.0.2"), 7);
	ck_assert_int_eq(put("10.1.0.2", 8), 0);
	ck_assert_int_eq(get("10.1.0.2"), 8);
	ck_assert_int_eq(delete ("10.1.0.2"), 1);
	ck_assert_int_eq(delete ("10.1.0.2"), 0);
	ck_assert_int_eq(get("10.1.0.2"), -ENOENT);
}
END_TEST

/* 2 and 18: the same four bits. */
START_TEST(test_slot_of_another)
{
	ck_assert_int_eq(holder("10.1.0.18"), -ENOENT);
	ck_assert_int_eq(put("10.1.0.2", 7), 0);
	ck_assert_int_eq(put("10.1.0.18", 8), -EEXIST);
	ck_assert_msg(strstr(err.text, "pod 10.1.0.2 ") && strstr(err.text, "slot of 10.1.0.18"),
		      "%s", err.text);
	ck_assert_int_eq(get("10.1.0.2"), 7);
	ck_assert_int_eq(get("10.1.0.18"), -ENOENT);
	ck_assert_int_eq(holder("10.1.0.18"), 7);
	ck_assert_int_eq(delete ("10.1.0.18"), 0);
	ck_assert_int_eq(get("10.1.0.2"), 7);
}
END_TEST

START_TEST(test_read)
{
	static const char *const addresses[] = { "10.1.0.9", "10.1.0.18", "10.1.0.1", "9.9.9.3" };
	static const __u32 sorted[] = { 3, 2, 0, 1 };
	cleanup_free struct mk_pod *none = NULL, *pods = NULL;
	size_t count = 99;

	ck_assert_int_eq(mk_pod_table_read(&table, &none, &count, &err), 0);
	ck_assert_uint_eq(count, 0);
	ck_assert_ptr_null(none);
	for (__u32 i = 0; i < MK_ARRAY_SIZE(addresses); i++)
		ck_assert_int_eq(put(addresses[i], i), 0);
	ck_assert_int_eq(mk_pod_table_read(&table, &pods, &count, &err), 0);
	ck_assert_uint_eq(count, MK_ARRAY_SIZE(addresses));
	for (__u32 i = 0; i < count; i++) {
		const struct mk_addr addr = addr_of(addresses[sorted[i]]);

		ck_assert_uint_eq(pods[i].ifindex, sorted[i]);
		ck_assert(mk_addr_eq(&pods[i].addr, &addr));
	}
}
END_TEST

/* A slot for each address of a pod CIDR. */
START_TEST(test_slots)
{
	static const struct {
		const char *mask;
		__u32 slots;
	} rows[] = {
		{ "255.255.255.248", 8 }, { "255.255.255.0", 256 }, { "255.255.240.0", 4096 },
		{ "255.255.0.0", 65536 }, { "255.192.0.0", 65536 }, { "0.0.0.0", 65536 },
	};
	const struct mk_addr mask = addr_of(rows[_i].mask), addr = addr_of("10.1.2.3");

	ck_assert_uint_eq(mk_pod_slots(&mask), rows[_i].slots);
	ck_assert_uint_eq(mk_pod_slot(&addr, rows[_i].slots), 0x0a010203 % rows[_i].slots);
}
END_TEST

UNIT_SUITE("pod_table")
{
	TCase *tc = unit_case(suite, "slots", setup, teardown);

	tcase_add_test(tc, test_one);
	tcase_add_test(tc, test_slot_of_another);
	tcase_add_test(tc, test_read);
	tcase_add_loop_test(tc, test_slots, 0, 6);
}

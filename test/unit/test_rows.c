// SPDX-License-Identifier: Apache-2.0
/* Rows and their IPv4 form (src/datapath/maps/row.h), compared with the types that the compiler
 * noted in the IPv4 object. */
#define MK_FAMILY 6
#include <arpa/inet.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/maps/object.h"
#include "datapath/maps/row.h"
#include "unit/unit.h"

#define BYTES_MAX 16384

static struct mk_object *object;
static const struct btf *btf;

static void open_object(void)
{
	static const struct mk_node node = { 0 };
	struct mk_error err = { 0 };

	object = mk_object_open(&node, &err);
	ck_assert_msg(object, "%s", mk_error_text(&err));
	btf = bpf_object__btf(mk_object_get(object));
}

static void free_object(void)
{
	mk_object_free(object);
}

/* ---- every struct of the object -------------------------------------------------------------- */

/* Set the addresses of a value of type @id to 0x5a. Returns their number. */
static size_t mark_addresses(__u32 id, uint8_t *value)
{
	const struct btf_type *type = btf__type_by_id(btf, (__u32)btf__resolve_type(btf, id));
	size_t count = 0;

	if (btf_is_array(type)) {
		size_t each = (size_t)btf__resolve_size(btf, btf_array(type)->type);

		for (__u32 i = 0; i < btf_array(type)->nelems; i++)
			count += mark_addresses(btf_array(type)->type, value + i * each);
	}
	if (!btf_is_composite(type))
		return count;
	if (strcmp(btf__name_by_offset(btf, type->name_off), "mk_addr") == 0) {
		memset(value, 0x5a, type->size);
		return 1;
	}
	for (__u32 i = 0; i < btf_vlen(type); i++)
		count += mark_addresses(btf_members(type)[i].type,
					value + btf_member_bit_offset(type, i) / 8);
	return count;
}

/* Is each of the @count marked addresses of @row IPv4-mapped, and nothing else set? */
static void check_prefixes(const uint8_t *row, size_t bytes, size_t count, const char *name)
{
	const uint8_t mapped[] = {
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0x5a, 0x5a, 0x5a, 0x5a
	};
	size_t found = 0, set = 0;

	for (size_t i = 0; i < bytes; i++) {
		set += row[i] != 0;
		found += i + 16 <= bytes && memcmp(row + i, mapped, 16) == 0;
	}
	ck_assert_msg(found == count && set == 6 * count, "%s: %zu addresses of %zu", name, found,
		      count);
}

static void check_type(const struct row_form *form, __u32 type, const char *name)
{
	static uint8_t ipv4[BYTES_MAX], row[BYTES_MAX], again[BYTES_MAX];
	size_t bytes = (size_t)btf__resolve_size(btf, type), count;

	memset(ipv4, 0, sizeof(ipv4));
	count = mark_addresses(type, ipv4);
	ck_assert_msg(!form == !count, "%s has %zu addresses", name, count);
	if (!form)
		return;
	ck_assert_msg(form->ipv4_bytes == bytes, "%s: %zu bytes, the object has %zu", name,
		      form->ipv4_bytes, bytes);
	row_widen(form, row, ipv4, form->row_bytes);
	check_prefixes(row, form->row_bytes, count, name);
	for (size_t i = 0; i < bytes; i++)
		ipv4[i] = (uint8_t)random();
	row_widen(form, row, ipv4, form->row_bytes);
	row_narrow(form, again, row, form->row_bytes);
	ck_assert_msg(memcmp(again, ipv4, bytes) == 0, "%s: a byte changed", name);
}

START_TEST(test_every_map)
{
	const struct bpf_map *map;
	int forms = 0;

	bpf_object__for_each_map(map, mk_object_get(object))
	{
		const char *name = bpf_map__name(map);
		const struct row_form *key = row_key_form(name), *value = row_value_form(name);

		if (bpf_map__is_internal(map))
			continue;
		if (bpf_map__btf_key_type_id(map))
			check_type(key, bpf_map__btf_key_type_id(map), name);
		if (bpf_map__btf_value_type_id(map))
			check_type(value, bpf_map__btf_value_type_id(map), name);
		ck_assert(!key || key->ipv4_bytes == bpf_map__key_size(map));
		ck_assert(!value || value->ipv4_bytes == bpf_map__value_size(map));
		forms += !!key + !!value;
	}
	ck_assert_int_ge(forms, 25);
}
END_TEST

START_TEST(test_constants)
{
	int type = btf__find_by_name_kind(btf, "mk_node", BTF_KIND_STRUCT);

	ck_assert_int_gt(type, 0);
	check_type(&row_form_node, (__u32)type, "mk_node");
}
END_TEST

/* ---- values ---------------------------------------------------------------------------------- */

static struct mk_addr mapped(const char *text)
{
	struct mk_addr addr = { 0 };

	ck_assert_int_eq(inet_pton(AF_INET6, text, &addr), 1);
	return addr;
}

START_TEST(test_zero_is_zero)
{
	const struct row_form *form = row_key_form("host_ports");
	const struct mk_host_port_key any = { .port = htons(80), .proto = IPPROTO_TCP };
	const uint8_t ipv4[8] = { 0, 0, 0, 0, 0, 80, IPPROTO_TCP, 0 };
	struct mk_host_port_key row;
	uint8_t again[8];

	row_widen(form, &row, ipv4, sizeof(row));
	ck_assert_mem_eq(&row, &any, sizeof(row));
	row_narrow(form, again, &row, sizeof(row));
	ck_assert_mem_eq(again, ipv4, sizeof(again));
}
END_TEST

/* Padding and identification lie between other members, so their places count. */
START_TEST(test_members_behind_padding)
{
	const struct mk_affinity affinity = {
		.backend = { .addr = mapped("::ffff:10.0.0.1"), .port = htons(80) },
		.last_new_ns = 0x1122334455667788,
	};
	const struct mk_fragment_key fragment = {
		.saddr = mapped("::ffff:10.0.0.1"),
		.daddr = mapped("::ffff:10.0.0.2"),
		.id = htonl(0x1234),
		.proto = 17,
		.hook = 3,
	};
	const uint8_t affinity_ipv4[16] = { 10,	  0,	0,    1,    0,	  80,	0,    0,
					    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11 };
	const uint8_t fragment_ipv4[12] = { 10, 0, 0, 1, 10, 0, 0, 2, 0x12, 0x34, 17, 3 };
	uint8_t got[16];

	row_narrow(row_value_form("affinity"), got, &affinity, sizeof(affinity));
	ck_assert_mem_eq(got, affinity_ipv4, sizeof(affinity_ipv4));
	row_narrow(row_key_form("fragments"), got, &fragment, sizeof(fragment));
	ck_assert_mem_eq(got, fragment_ipv4, sizeof(fragment_ipv4));
}
END_TEST

START_TEST(test_widens_in_place)
{
	enum { COUNT = 5, IPV4 = 16 };
	const struct row_form *form = row_key_form("nat_sessions_yo"); /* the kernel cuts names */
	struct mk_tuple rows[COUNT], want[COUNT];
	uint8_t *bytes = (uint8_t *)rows;

	for (int i = 0; i < COUNT; i++)
		want[i] = (struct mk_tuple){ .saddr = mapped("::ffff:10.0.0.1"),
					     .daddr = mapped("::ffff:10.0.0.2"),
					     .sport = (__be16)i,
					     .proto = IPPROTO_TCP };
	for (int i = 0; i < COUNT; i++)
		row_narrow(form, bytes + i * IPV4, &want[i], sizeof(want[i]));
	for (int i = COUNT; i-- > 0;)
		row_widen(form, &rows[i], bytes + i * IPV4, sizeof(rows[i]));
	ck_assert_mem_eq(rows, want, sizeof(rows));
}
END_TEST

/* The object notes no types of what goes through ring buffers. */
START_TEST(test_events)
{
	const struct mk_tuple tuple = { .saddr = mapped("::ffff:90.90.90.90"),
					.daddr = mapped("::ffff:90.90.90.90"),
					.sport = 0x5a5a,
					.dport = 0x5a5a,
					.proto = 0x5a,
					.pad = { 0x5a, 0x5a, 0x5a } };
	struct mk_drop_event drop;
	struct mk_flow_event flow;
	uint8_t ipv4[56] = { 0 };

	memset(ipv4 + 16, 0x5a, 16);
	row_widen(&row_form_drop_event, &drop, ipv4, sizeof(drop));
	ck_assert_mem_eq(&drop.tuple, &tuple, sizeof(tuple));
	memset(ipv4, 0, sizeof(ipv4));
	memset(ipv4 + 24, 0x5a, 32);
	row_widen(&row_form_flow_event, &flow, ipv4, sizeof(flow));
	ck_assert_mem_eq(&flow.came, &tuple, sizeof(tuple));
	ck_assert_mem_eq(&flow.goes, &tuple, sizeof(tuple));
}
END_TEST

/* A later version's value may be longer: what it appends is copied. */
START_TEST(test_longer_value)
{
	const struct row_form *form = row_value_form("sessions");
	uint8_t row[sizeof(struct mk_session) + 8] = { 0 }, ipv4[sizeof(row)], again[sizeof(row)];
	size_t bytes = form->ipv4_bytes + 8;

	row[sizeof(row) - 1] = 7;
	row_narrow(form, ipv4, row, sizeof(row));
	ck_assert_int_eq(ipv4[bytes - 1], 7);
	row_widen(form, again, ipv4, sizeof(row));
	ck_assert_mem_eq(again, row, sizeof(row));
}
END_TEST

UNIT_SUITE("rows")
{
	TCase *tcase = unit_case(suite, "object", open_object, free_object);

	tcase_add_test(tcase, test_every_map);
	tcase_add_test(tcase, test_constants);
	tcase = unit_case(suite, "values", NULL, NULL);
	tcase_add_test(tcase, test_zero_is_zero);
	tcase_add_test(tcase, test_members_behind_padding);
	tcase_add_test(tcase, test_widens_in_place);
	tcase_add_test(tcase, test_events);
	tcase_add_test(tcase, test_longer_value);
}

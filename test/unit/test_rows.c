// SPDX-License-Identifier: Apache-2.0
/* Rows and their IPv4 form (src/datapath/maps/row.h), compared with the types that the compiler
 * noted in the IPv4 object. */
#include <arpa/inet.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "datapath/maps/object.h"
#include "datapath/maps/row.h"
#include "unit/unit.h"
#include "rows.h"

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

		/* programs alone use map `scratch` */
		if (bpf_map__is_internal(map) || strcmp(name, "scratch") == 0)
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
		.backend = { .addr = addr_of("10.0.0.1"), .port = htons(80) },
		.last_new_ns = 0x1122334455667788,
	};
	const struct mk_fragment_key fragment = {
		.saddr = addr_of("10.0.0.1"),
		.daddr = addr_of("10.0.0.2"),
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
		want[i] = (struct mk_tuple){ .saddr = addr_of("10.0.0.1"),
					     .daddr = addr_of("10.0.0.2"),
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
	const struct mk_tuple tuple = { .saddr = addr_of("90.90.90.90"),
					.daddr = addr_of("90.90.90.90"),
					.sport = 0x5a5a,
					.dport = 0x5a5a,
					.proto = 0x5a,
					.pad = 0x5a,
					.path = 0x5a5a };
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

/* ---- tables ---------------------------------------------------------------------------------- */

static const sa_family_t families[] = { AF_INET, AF_INET6 };

static struct mk_error err;

/* The caller closes the table. */
static struct mk_table make_table(sa_family_t family, enum bpf_map_type type, const char *name,
				  __u32 key_bytes, __u32 value_bytes, __u32 flags)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = flags);
	const bool lists = type == BPF_MAP_TYPE_HASH || type == BPF_MAP_TYPE_LPM_TRIE;
	struct mk_table table;
	int fd = family == AF_INET ? row_create_ipv4(type, name, key_bytes, value_bytes,
						     lists ? 64 : 1, &options)
				   : bpf_map_create(type, name, key_bytes, value_bytes,
						    lists ? 64 : 1, &options);

	ck_assert_msg(fd >= 0, "%s", strerror(errno));
	ck_ok(mk_table_init(&table, name, fd, &err));
	ck_assert_uint_eq(table.key_size, key_bytes);
	ck_assert_uint_eq(table.value_size, value_bytes);
	ck_assert_int_eq(mk_table_family(&table), family);
	return table;
}

static struct mk_host_port_key port_key(sa_family_t family, unsigned i)
{
	struct mk_host_port_key key = { .port = htons(80), .proto = IPPROTO_TCP };
	char text[MK_IP_STRLEN];

	snprintf(text, sizeof(text), family == AF_INET ? "192.0.2.%u" : "2001:db8::%x", i);
	if (i > 0) /* 0: any address */
		key.addr = addr_of(text);
	return key;
}

static struct mk_host_port port_value(sa_family_t family, unsigned i)
{
	return (struct mk_host_port){ .addr = addr_of(family == AF_INET ? "10.1.2.3" : "fd00::3"),
				      .port = htons((uint16_t)(8000 + i)),
				      .ifindex = i };
}

struct seeing {
	sa_family_t family;
	int count;
};

static int see_port(void *ctx, const void *key, const void *value, struct mk_error *why)
{
	const struct mk_host_port *to = value;
	struct seeing *seeing = ctx;
	const struct mk_host_port_key want = port_key(seeing->family, to->ifindex);
	const struct mk_host_port want_value = port_value(seeing->family, to->ifindex);

	(void)why;
	ck_assert_mem_eq(key, &want, sizeof(want));
	ck_assert_mem_eq(value, &want_value, sizeof(want_value));
	seeing->count++;
	return 0;
}

/* All operations on a hash whose keys and values have addresses. */
START_TEST(test_hash)
{
	enum { ENTRIES = 20 };
	sa_family_t family = families[_i];
	struct mk_table table =
		make_table(family, BPF_MAP_TYPE_HASH, "host_ports", sizeof(struct mk_host_port_key),
			   sizeof(struct mk_host_port), 0);
	struct mk_host_port_key key, *keys;
	struct mk_host_port value, got;
	size_t count;
	struct seeing seeing = { .family = family };

	for (unsigned i = 0; i < ENTRIES; i++) {
		key = port_key(family, i);
		value = port_value(family, i);
		ck_ok(mk_table_add(&table, &key, &value, &err));
		ck_assert_int_eq(mk_table_add(&table, &key, &value, &err), -EEXIST);
		ck_ok(mk_table_put(&table, &key, &value, &err));
		ck_ok(mk_table_get(&table, &key, &got, &err));
		ck_assert_mem_eq(&got, &value, sizeof(value));
	}
	ck_assert_int_eq(mk_table_each(&table, see_port, &seeing, &err), 0);
	ck_assert_int_eq(seeing.count, ENTRIES);
	ck_ok(mk_table_keys(&table, (void **)&keys, &count, &err));
	ck_assert_uint_eq(count, ENTRIES);
	for (unsigned i = 0; i < ENTRIES; i++) {
		key = port_key(family, i);
		ck_assert_mem_eq(&keys[i], &key, sizeof(key));
	}
	free(keys);
	ck_assert_int_eq(mk_table_delete(&table, &key, &err), 1);
	ck_assert_int_eq(mk_table_delete(&table, &key, &err), 0);
	key = port_key(family, 3);
	value = port_value(family, 3);
	if (mk_table_take(&table, &key, &got, &err) != -EOPNOTSUPP) /* Linux 5.14 */
		ck_assert_mem_eq(&got, &value, sizeof(value));
	mk_table_close(&table);
}
END_TEST

/* Before Linux 5.13 such a table is read one entry after the other. */
START_TEST(test_prefixes)
{
	static const char *const texts[][2] = { { "0.0.0.0", "10.0.0.0" }, { "::", "fd00::" } };
	sa_family_t family = families[_i];
	struct mk_table table =
		make_table(family, BPF_MAP_TYPE_LPM_TRIE, "routes", sizeof(struct mk_route_key),
			   sizeof(struct mk_route), BPF_F_NO_PREALLOC);
	const struct mk_route all = { .type = MK_ROUTE_DROP }, some = { .type = MK_ROUTE_PODS };
	struct mk_route_key key = { 0 }, keys[4];
	struct mk_cursor cursor = { .one_by_one = 1 };
	struct mk_route got, values[4];
	struct mk_ip ip;

	ck_ok(mk_table_put(&table, &key, &all, &err));
	key = (struct mk_route_key){ .prefix_bits = 8, .addr = addr_of(texts[_i][1]) };
	ck_ok(mk_table_put(&table, &key, &some, &err));
	key.prefix_bits = mk_ip_bits(family);
	ck_ok(mk_table_get(&table, &key, &got, &err));
	ck_assert_uint_eq(got.type, MK_ROUTE_PODS);
	ck_assert_int_eq(mk_table_next(&table, &cursor, keys, values, 4, &err), 2);
	for (int i = 0; i < 2; i++) {
		ip = mk_ip_of_family(&keys[i].addr, mk_table_family(&table));
		key.addr = addr_of(texts[_i][keys[i].prefix_bits != 0]);
		ck_assert_int_eq(ip.family, family);
		ck_assert(mk_addr_eq(&keys[i].addr, &key.addr));
		ck_assert_uint_eq(values[i].type,
				  keys[i].prefix_bits ? MK_ROUTE_PODS : MK_ROUTE_DROP);
	}
	mk_table_close(&table);
}
END_TEST

START_TEST(test_each_cpu)
{
	struct mk_table table = make_table(families[_i], BPF_MAP_TYPE_PERCPU_ARRAY, "way",
					   sizeof(__u32), sizeof(struct mk_way), 0);
	int cpus = libbpf_num_possible_cpus();
	struct mk_way ways[cpus], got[cpus];
	const __u32 zero = 0;

	memset(ways, 0, sizeof(ways));
	for (int i = 0; i < cpus; i++) {
		ways[i].ifindex = (__u32)i + 1;
		ways[i].source = addr_of(_i ? "fd00::1" : "10.0.0.1");
		ways[i].mtu_bytes = 1450;
	}
	ck_ok(mk_table_put(&table, &zero, ways, &err));
	ck_ok(mk_table_get(&table, &zero, got, &err));
	ck_assert_mem_eq(got, ways, sizeof(ways));
	mk_table_close(&table);
}
END_TEST

START_TEST(test_mapped_array)
{
	struct mk_table table = make_table(families[_i], BPF_MAP_TYPE_ARRAY, "pods", sizeof(__u32),
					   sizeof(struct mk_pod), BPF_F_MMAPABLE);
	const struct mk_pod pod = { .ifindex = 7, .addr = addr_of(_i ? "fd00::7" : "10.0.0.7") };
	const __u32 zero = 0;
	struct mk_pod room;
	size_t bytes;
	void *values;

	ck_ok(mk_table_put(&table, &zero, &pod, &err));
	values = mk_table_map(&table, &bytes);
	ck_assert_ptr_nonnull(values);
	ck_assert_mem_eq(mk_table_mapped_row(&table, values, 0, &room), &pod, sizeof(pod));
	munmap(values, bytes);
	mk_table_close(&table);
}
END_TEST

START_TEST(test_queue)
{
	struct mk_table table = make_table(families[_i], BPF_MAP_TYPE_QUEUE, "sessions_order", 0,
					   sizeof(struct mk_session_place), 0);
	const struct mk_session_place place = {
		.key = { .saddr = addr_of(_i ? "fd00::7" : "10.0.0.7"), .proto = IPPROTO_UDP },
		.created_ns = 8,
	};
	struct mk_session_place got;

	ck_ok(mk_table_put(&table, NULL, &place, &err));
	ck_assert_int_eq(mk_table_take(&table, NULL, &got, &err), 1);
	ck_assert_mem_eq(&got, &place, sizeof(place));
	mk_table_close(&table);
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
	tcase = unit_case(suite, "tables", NULL, NULL);
	tcase_add_loop_test(tcase, test_hash, 0, 2);
	tcase_add_loop_test(tcase, test_prefixes, 0, 2);
	tcase_add_loop_test(tcase, test_each_cpu, 0, 2);
	tcase_add_loop_test(tcase, test_mapped_array, 0, 2);
	tcase_add_loop_test(tcase, test_queue, 0, 2);
}

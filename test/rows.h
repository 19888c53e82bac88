/* SPDX-License-Identifier: Apache-2.0 */
/* test/rows.h - entries of a map as rows (src/datapath/maps/table.h), by the map's file descriptor.
 * Results are those of libbpf's functions: 0, or a negative error number that is also in errno. */
#ifndef MK_TEST_ROWS_H
#define MK_TEST_ROWS_H

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "base/ip.h"
#include "datapath/maps/row.h"
#include "datapath/maps/table.h"

/* An IPv4 address: a constant in network byte order, as this machine reads it; */
#define ROW_IPV4(word_)                          \
	{                                        \
		{                                \
			0, 0, 0xffff0000u, word_ \
		}                                \
	}
/* or in host byte order. 0 is all zeros, as in every row. */
static inline struct mk_addr row_ipv4(uint32_t host)
{
	const struct mk_ip ip = { .family = AF_INET, .v4.s_addr = htonl(host) };

	return mk_ip_to_addr(&ip);
}

/* The kernel's name of the map is enough to know its form. */
static inline int row_table(int fd, struct mk_table *table)
{
	static char name[BPF_OBJ_NAME_LEN];
	struct bpf_map_info info = { 0 };
	__u32 size = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &size) < 0)
		return -errno;
	memcpy(name, info.name, sizeof(name));
	return mk_table_init(table, name, fd, NULL);
}

static inline int row_result(int ret)
{
	errno = ret < 0 ? -ret : 0;
	return ret < 0 ? ret : 0;
}

static inline int row_lookup(int fd, const void *key, void *value)
{
	struct mk_table table = { 0 };
	int ret = row_table(fd, &table);

	return row_result(ret ?: mk_table_get(&table, key, value, NULL));
}

static inline int row_update(int fd, const void *key, const void *value, uint64_t flags)
{
	struct mk_table table = { 0 };
	int ret = row_table(fd, &table);

	table.put_flags = flags;
	return row_result(ret ?: mk_table_put(&table, key, value, NULL));
}

static inline int row_delete(int fd, const void *key)
{
	struct mk_table table = { 0 };
	int ret = row_table(fd, &table);

	ret = ret ?: mk_table_delete(&table, key, NULL);
	return row_result(ret == 0 ? -ENOENT : ret);
}

static inline int row_take(int fd, const void *key, void *value)
{
	struct mk_table table = { 0 };
	int ret = row_table(fd, &table);

	ret = ret ?: mk_table_take(&table, key, value, NULL);
	return row_result(ret == 0 ? -ENOENT : ret);
}

static inline int row_next_key(int fd, const void *key, void *next)
{
	struct mk_table table = { 0 };
	uint8_t stored[64];
	int ret = row_table(fd, &table);

	if (ret < 0 || !table.key_form)
		return ret < 0 ? row_result(ret) : bpf_map_get_next_key(fd, key, next);
	if (key)
		row_narrow(table.key_form, stored, key, table.key_size);
	if (bpf_map_get_next_key(fd, key ? stored : NULL, stored) < 0)
		return -errno;
	row_widen(table.key_form, next, stored, table.key_size);
	return 0;
}

/* Create map @name with the form of IPv4; @key_bytes and @value_bytes are the rows'. */
static inline int row_create_ipv4(enum bpf_map_type type, const char *name, size_t key_bytes,
				  size_t value_bytes, __u32 entries,
				  const struct bpf_map_create_opts *options)
{
	const struct row_form *key = row_key_form(name), *value = row_value_form(name);

	if (key)
		key_bytes -= key->row_bytes - key->ipv4_bytes;
	if (value)
		value_bytes -= value->row_bytes - value->ipv4_bytes;
	return bpf_map_create(type, name, (__u32)key_bytes, (__u32)value_bytes, entries, options);
}

#endif

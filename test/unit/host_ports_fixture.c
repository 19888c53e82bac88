// SPDX-License-Identifier: Apache-2.0
#include "unit/host_ports_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/cleanup.h"
#include "unit/cni_node.h"

static struct mk_error err;

struct mk_table open_table(const char *name, size_t key_size, size_t value_size)
{
	struct mk_table opened;

	ck_ok(mk_table_open(&opened, BPF_DIR, name, key_size, value_size, &err));
	return opened;
}

size_t entries_of(const char *name, size_t key_size, size_t value_size)
{
	struct mk_table opened = open_table(name, key_size, value_size);
	cleanup_free void *keys = NULL;
	size_t count;

	ck_ok(mk_table_keys(&opened, &keys, &count, &err));
	mk_table_close(&opened);
	return count;
}

void ck_mapped(size_t count)
{
	struct mk_table runtime = open_table("runtime", sizeof(__u32), sizeof(struct mk_runtime));
	struct mk_runtime now;
	__u32 zero = 0;

	ck_ok(mk_table_get(&runtime, &zero, &now, &err));
	mk_table_close(&runtime);
	ck_assert_uint_eq(entries_of("host_ports", sizeof(struct mk_host_port_key),
				     sizeof(struct mk_host_port)),
			  count);
	ck_assert_uint_eq(now.host_ports, count > 0);
}

struct mk_host_port_key host_port_key(const char *ip, uint16_t port, uint8_t proto)
{
	const struct mk_ip parsed = ip_of(ip);

	return (struct mk_host_port_key){ .addr = mk_ip_to_addr(&parsed),
					  .port = htons(port),
					  .proto = proto };
}

struct mk_host_port host_port_at(uint16_t port)
{
	struct mk_table ports = open_table("host_ports", sizeof(struct mk_host_port_key),
					   sizeof(struct mk_host_port));
	struct mk_host_port_key key = host_port_key("0.0.0.0", port, IPPROTO_TCP);
	struct mk_host_port to;

	ck_ok(mk_table_get(&ports, &key, &to, &err));
	mk_table_close(&ports);
	return to;
}

void put_host_port(uint16_t port, const char *pod, uint32_t ifindex, bool leaving)
{
	struct mk_table ports = open_table("host_ports", sizeof(struct mk_host_port_key),
					   sizeof(struct mk_host_port));
	const struct mk_host_port_key key = host_port_key("0.0.0.0", port, IPPROTO_TCP);
	const struct mk_ip ip = ip_of(pod);
	const struct mk_host_port to = { .addr = mk_ip_to_addr(&ip),
					 .port = htons(80),
					 .leaving = leaving,
					 .ifindex = ifindex };

	ck_ok(mk_table_put(&ports, &key, &to, &err));
	mk_table_close(&ports);
}

void ck_leads(uint16_t port, const char *pod)
{
	const struct mk_host_port to = host_port_at(port);
	const struct mk_ip ip = mk_ip_from_addr(&to.addr);
	char text[MK_IP_STRLEN];

	ck_assert_str_eq(mk_ip_format(&ip, text), pod);
	ck_assert_uint_eq(to.leaving, 0);
}

void add_mapped(const char *name, const char *fields)
{
	new_netns(name);
	ck_assert_msg(call("ADD", name, netns_path(name), "1.0.0", fields) == 0, "%s", answer);
}

void del(const char *name)
{
	ck_assert_msg(call("DEL", name, "", "1.0.0", "") == 0, "%s", answer);
}

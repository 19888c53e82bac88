// SPDX-License-Identifier: Apache-2.0
#include "unit/cni_policies.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/maps/pin.h"
#include "datapath/maps/table.h"
#include "datapath/pods/pods.h"

static struct mk_error err;

/* ---- the families of the node ---------------------------------------------------------------- */

const struct kind kinds[KINDS] = {
	{ NODE_IPV4, "IPv4", "", { "10.244.1.2" }, "10.244.1.3" },
	{ NODE_IPV6,
	  "IPv6",
	  ",\"podCIDR\":\"fd00:10:244:1::/64\",\"clusterCIDR\":\"fd00:10:244::/48\","
	  "\"vtepCIDR\":\"fd4d:4b00:12::/64\"",
	  { "fd00:10:244:1::2" },
	  "fd00:10:244:1::3" },
	{ NODE_IPV4 | NODE_IPV6,
	  "both families",
	  ",\"podCIDRs\":[\"10.244.1.0/24\",\"fd00:10:244:1::/64\"],"
	  "\"clusterCIDRs\":[\"10.244.0.0/16\",\"fd00:10:244::/48\"],"
	  "\"vtepCIDRs\":[\"10.18.0.0/16\",\"fd4d:4b00:12::/64\"]",
	  { "10.244.1.2", "fd00:10:244:1::2" },
	  "10.244.1.3" },
};
const struct kind *kind;

sa_family_t family_at(int i)
{
	return ip_of(kind->ips[i]).family;
}

static void open_table(struct mk_table *table, sa_family_t family, const char *name,
		       size_t key_bytes, size_t value_bytes)
{
	char dir[PATH_MAX];

	ck_ok(mk_pin_dir(dir, BPF_DIR, family, &err));
	ck_ok(mk_table_open(table, dir, name, key_bytes, value_bytes, &err));
}

static void put(sa_family_t family, const char *name, const void *key, size_t key_bytes,
		const void *value, size_t value_bytes)
{
	cleanup_table struct mk_table table = { 0 };

	open_table(&table, family, name, key_bytes, value_bytes);
	ck_ok(mk_table_put(&table, key, value, &err));
}

void set_state(sa_family_t family, uint32_t on, enum mk_policy_listed listed)
{
	const struct mk_policy_state state = { .on = on, .listed = listed };
	const uint32_t key = 0;

	put(family, "policy_state", &key, sizeof(key), &state, sizeof(state));
}

void expect(sa_family_t family, const char *text, uint64_t in, uint64_t out)
{
	const struct mk_policy_expected expected = { .set = { in, out } };
	struct mk_policy_pod_key key = { 0 };

	snprintf(key.text, sizeof(key.text), "%s", text);
	put(family, "policy_expected", &key, sizeof(key), &expected, sizeof(expected));
}

void set_namespace(sa_family_t family, const char *name, uint32_t directions)
{
	const struct mk_policy_namespace value = { .directions = directions };
	struct mk_policy_namespace_key key = { 0 };

	snprintf(key.name, sizeof(key.name), "%s", name);
	put(family, "policy_namespaces", &key, sizeof(key), &value, sizeof(value));
}

uint32_t on_of(sa_family_t family)
{
	cleanup_table struct mk_table table = { 0 };
	struct mk_policy_state state;
	const uint32_t key = 0;

	open_table(&table, family, "policy_state", sizeof(key), sizeof(state));
	ck_ok(mk_table_get(&table, &key, &state, &err));
	return state.on;
}

/* The entry in the slot of @address. */
struct mk_pod_policy entry_of(const char *address)
{
	cleanup_table struct mk_table table = { 0 };
	const struct mk_addr addr = addr_of(address);
	struct mk_pod_policy entry;
	uint32_t slot;

	open_table(&table, ip_of(address).family, "pod_policies", sizeof(slot), sizeof(entry));
	slot = mk_pod_slot(&addr, table.max_entries);
	ck_ok(mk_table_get(&table, &slot, &entry, &err));
	return entry;
}

/* Write the slot of @address. */
void put_entry(const char *address, const struct mk_pod_policy *entry)
{
	const struct mk_addr addr = addr_of(address);
	const uint32_t slot = mk_pod_slot(&addr, POD_SLOTS);

	put(ip_of(address).family, "pod_policies", &slot, sizeof(slot), entry, sizeof(*entry));
}

void clear_entry(const char *address)
{
	put_entry(address, &(struct mk_pod_policy){ 0 });
}

bool has_entry(const char *address)
{
	const struct mk_pod_policy entry = entry_of(address);
	const struct mk_addr addr = addr_of(address);

	return mk_addr_eq(&entry.addr, &addr);
}

uint32_t ifindex_of(const char *address)
{
	cleanup_pods struct mk_pods *pods = mk_pods_open(BPF_DIR, STATE, &err);
	const struct mk_ip ip = ip_of(address);
	struct mk_pod pod;

	ck_assert_msg(pods != NULL, "%s", mk_error_text(&err));
	ck_ok(mk_pods_get(pods, &ip, &pod, &err));
	return pod.ifindex;
}

void ck_sets_of(const char *row, const char *address, uint64_t in, uint64_t out)
{
	const struct mk_pod_policy entry = entry_of(address);

	ck_assert_msg(has_entry(address), "%s: %s has no entry", row, address);
	ck_assert_msg(entry.ifindex == ifindex_of(address), "%s: %s: ifindex %u", row, address,
		      entry.ifindex);
	ck_assert_msg(entry.set[MK_POLICY_INGRESS] == in && entry.set[MK_POLICY_EGRESS] == out,
		      "%s: %s: sets %#lx %#lx", row, address, (long)entry.set[0],
		      (long)entry.set[1]);
}

/* Of both addresses of the first pod. */
void ck_sets(const char *row, uint64_t in, uint64_t out)
{
	for (int i = 0; i < IPS; i++)
		ck_sets_of(row, kind->ips[i], in, out);
}

void add_pod(const char *name, const char *args)
{
	setenv("CNI_ARGS", args, 1);
	ck_assert_msg(call("ADD", name, netns_path(name), "1.0.0", kind->fields) == 0, "%s",
		      answer);
}

void del_pod(const char *name)
{
	ck_assert_msg(call("DEL", name, "", "1.0.0", kind->fields) == 0, "%s", answer);
}

pid_t start_add(void)
{
	cleanup_close int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	char input[2048];

	setenv("CNI_ARGS", WEB, 1);
	snprintf(input, sizeof(input), "{\"cniVersion\":\"1.0.0\"," NETWORK "%s}", kind->fields);
	return start_verb("ADD", "a", netns_path("a"), input, fd);
}

static void set_ipv4(void)
{
	kind = &kinds[0];
}

static void set_ipv6(void)
{
	kind = &kinds[1];
}

static void set_both(void)
{
	kind = &kinds[2];
}

TCase *policy_case(Suite *suite, size_t of)
{
	static void (*const setups[KINDS])(void) = { set_ipv4, set_ipv6, set_both };
	TCase *tc = cni_case_of(suite, kinds[of].name, kinds[of].families);

	tcase_add_checked_fixture(tc, setups[of], NULL);
	return tc;
}

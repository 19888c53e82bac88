// SPDX-License-Identifier: Apache-2.0
#include "datapath/pods/pod_policies.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "datapath/maps/pin.h"
#include "datapath/pods/pods_internal.h"

/* ---- tables ---------------------------------------------------------------------------------- */

/* A missing map is no error. */
static int open_map(struct mk_table *table, const char *dir, const char *name, size_t value_size,
		    struct mk_error *err)
{
	struct mk_error cause = { 0 };
	int ret = mk_table_open(table, dir, name, sizeof(__u32), value_size, &cause);

	if (ret == -ENOENT) {
		table->name = NULL;
		return 0;
	}
	if (ret < 0)
		*err = cause;
	return ret;
}

static int open_family(struct mk_pod_policies *policies, size_t i, const char *dir,
		       struct mk_error *err)
{
	int ret = open_map(&policies->state[i], dir, "policy_state", sizeof(struct mk_policy_state),
			   err);

	if (ret < 0 || !policies->state[i].name)
		return ret;
	return open_map(&policies->pods[i], dir, "pod_policies", sizeof(struct mk_pod_policy), err);
}

int mk_pod_policies_open(struct mk_pod_policies *policies, const char *bpf_dir,
			 struct mk_error *err)
{
	static const sa_family_t families[] = { AF_INET, AF_INET6 };
	char dir[PATH_MAX];
	int ret = 0;

	*policies = (struct mk_pod_policies){ 0 };
	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++) {
		ret = mk_pin_dir(dir, bpf_dir, families[i], err);
		ret = ret ?: open_family(policies, i, dir, err);
	}
	if (ret < 0)
		mk_pod_policies_close(policies);
	return ret;
}

void mk_pod_policies_close(struct mk_pod_policies *policies)
{
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		mk_table_close(&policies->pods[i]);
		mk_table_close(&policies->state[i]);
	}
}

static bool has(const struct mk_pod_policies *policies, sa_family_t family)
{
	return policies->pods[mk_family_index(family)].name;
}

/* ---- one pod --------------------------------------------------------------------------------- */

/* Returns NULL if the family has no policies. */
static const struct mk_table *table_of(const struct mk_pod_policies *policies,
				       const struct mk_addr *addr, __u32 *slot)
{
	const sa_family_t family = mk_addr_is_ipv4(addr) ? AF_INET : AF_INET6;
	const struct mk_table *table = &policies->pods[mk_family_index(family)];

	if (!table->name)
		return NULL;
	*slot = mk_pod_slot(addr, table->max_entries);
	return table;
}

int mk_pod_policies_get(const struct mk_pod_policies *policies, const struct mk_addr *addr,
			uint32_t ifindex, uint64_t sets[MK_POLICY_DIRECTIONS], struct mk_error *err)
{
	struct mk_ip ip = mk_ip_from_addr(addr);
	struct mk_pod_policy entry;
	const struct mk_table *table;
	char text[MK_IP_STRLEN];
	__u32 slot;
	int ret;

	memset(sets, 0, MK_POLICY_DIRECTIONS * sizeof(*sets));
	table = table_of(policies, addr, &slot);
	ret = table ? mk_table_get(table, &slot, &entry, err) : 0;
	if (ret < 0 || !table)
		return ret;
	if (!mk_addr_eq(&entry.addr, addr) || entry.ifindex != ifindex)
		return mk_error_set(err, ENOENT,
				    "map '%s' has no entry for %s on interface number %u",
				    table->name, mk_ip_format(&ip, text), ifindex);
	memcpy(sets, entry.set, sizeof(entry.set));
	return 0;
}

int mk_pod_policies_put(const struct mk_pod_policies *policies, const struct mk_addr *addr,
			uint32_t ifindex, const uint64_t sets[MK_POLICY_DIRECTIONS],
			struct mk_error *err)
{
	struct mk_pod_policy entry = { .addr = *addr, .ifindex = ifindex }, former;
	__u32 slot;
	const struct mk_table *table = table_of(policies, addr, &slot);
	int ret = table ? mk_table_get(table, &slot, &former, err) : 0;

	if (ret < 0 || !table)
		return ret;
	memcpy(entry.set, sets, sizeof(entry.set));
	entry.generation = former.generation + 1;
	return mk_table_put(table, &slot, &entry, err);
}

int pod_policies_clear(const struct mk_pod_policies *policies, const struct mk_addr *addr,
		       struct mk_error *err)
{
	struct mk_pod_policy entry = { 0 }, former;
	__u32 slot;
	const struct mk_table *table = table_of(policies, addr, &slot);
	int ret = table ? mk_table_get(table, &slot, &former, err) : 0;

	if (ret < 0 || !table || !mk_addr_eq(&former.addr, addr))
		return ret;
	entry.generation = former.generation;
	return mk_table_put(table, &slot, &entry, err);
}

/* ---- all pods -------------------------------------------------------------------------------- */

static int read_state(const struct mk_table *table, struct mk_policy_state *state,
		      struct mk_error *err)
{
	__u32 key = 0;

	return mk_table_get(table, &key, state, err);
}

int mk_pod_policies_on(const struct mk_pod_policies *policies, sa_family_t family,
		       struct mk_error *err)
{
	struct mk_policy_state state = { 0 };
	int ret = has(policies, family)
			  ? read_state(&policies->state[mk_family_index(family)], &state, err)
			  : 0;

	return ret < 0 ? ret : state.on != 0;
}

static int open_others(const struct mk_pod_policies *policies, const struct mk_table *pods,
		       struct mk_error *err)
{
	static const uint64_t open[MK_POLICY_DIRECTIONS];
	cleanup_free struct mk_pod *list = NULL;
	uint64_t sets[MK_POLICY_DIRECTIONS];
	size_t count = 0;
	int ret = mk_pod_table_read(pods, &list, &count, err);

	for (size_t i = 0; ret == 0 && i < count; i++) {
		const struct mk_pod *pod = &list[i];

		ret = mk_pod_policies_get(policies, &pod->addr, pod->ifindex, sets, err);
		if (ret == -ENOENT)
			ret = mk_pod_policies_put(policies, &pod->addr, pod->ifindex, open, err);
	}
	return ret;
}

/* The agent may change `listed` at the same time, so store only `on`. */
static int store_on(const struct mk_table *table, struct mk_error *err)
{
	size_t bytes;
	struct mk_policy_state *state = mk_table_map(table, &bytes);

	if (!state)
		return mk_error_errno(err, errno, "cannot map '%s' into memory", table->name);
	__atomic_store_n(&state->on, 1, __ATOMIC_SEQ_CST);
	munmap(state, bytes);
	return 0;
}

int pod_policies_turn_on(const struct mk_pod_policies *policies, const struct mk_pod_tables *pods,
			 sa_family_t family, struct mk_error *err)
{
	const size_t i = mk_family_index(family);
	int ret = mk_pod_policies_on(policies, family, err);

	if (ret != 0 || !has(policies, family))
		return ret < 0 ? ret : 0;
	ret = pods->of[i].name ? open_others(policies, &pods->of[i], err) : 0;
	return ret ?: store_on(&policies->state[i], err);
}

/* ---- a new Pod ------------------------------------------------------------------------------- */

/* Look @key up in the map @name, which may not be pinned. Returns 1, 0 or an error. */
static int look_up(const char *dir, const char *name, const void *key, size_t key_size, void *value,
		   size_t value_size, struct mk_error *err)
{
	cleanup_table struct mk_table table = { 0 };
	struct mk_error cause = { 0 };
	int ret = mk_table_open(&table, dir, name, key_size, value_size, &cause);

	ret = ret ?: mk_table_get(&table, key, value, &cause);
	if (ret < 0 && ret != -ENOENT)
		*err = cause;
	return ret == -ENOENT ? 0 : ret ?: 1;
}

static int find_sets(const char *dir, const struct mk_pod_identity *pod,
		     struct mk_policy_expected *expected, struct mk_error *err)
{
	struct mk_policy_pod_key key = { 0 };
	int length = snprintf(key.text, sizeof(key.text), "%s/%s", pod->namespace_, pod->name);

	if (length >= (int)sizeof(key.text))
		return 0;
	if (pod->uid[0])
		snprintf(key.text + length, sizeof(key.text) - (size_t)length, "/%s", pod->uid);
	return look_up(dir, "policy_expected", &key, sizeof(key), expected, sizeof(*expected), err);
}

/* Can no policy select a pod of @namespace_? 1, 0 or an error. */
static int is_free(const char *dir, const char *namespace_, struct mk_error *err)
{
	struct mk_policy_namespace_key key = { 0 };
	struct mk_policy_namespace found;
	int ret;

	if (strlen(namespace_) >= sizeof(key.name))
		return 0;
	memcpy(key.name, namespace_, strlen(namespace_));
	ret = look_up(dir, "policy_namespaces", &key, sizeof(key), &found, sizeof(found), err);
	return ret <= 0 ? ret : found.directions == 0;
}

/* Is a Pod without sets of its own open? 1, 0 or an error. */
static int is_open(const char *dir, const struct mk_pod_identity *pod, struct mk_error *err)
{
	struct mk_policy_state state;
	__u32 key = 0;
	int ret = look_up(dir, "policy_state", &key, sizeof(key), &state, sizeof(state), err);

	if (ret <= 0) /* no such map: a version without policies */
		return ret ?: 1;
	if (state.listed == MK_POLICY_NOT_LISTED || state.listed == MK_POLICY_LISTS_AWAITED)
		return 0;
	return state.listed == MK_POLICY_LISTED_NONE ? 1 : is_free(dir, pod->namespace_, err);
}

int mk_pod_policies_expect(const char *bpf_dir, sa_family_t family,
			   const struct mk_pod_identity *pod, uint64_t sets[MK_POLICY_DIRECTIONS],
			   struct mk_error *err)
{
	struct mk_policy_expected expected = { .set = { MK_SET_OPEN } };
	char dir[PATH_MAX];
	int ret = mk_pin_dir(dir, bpf_dir, family, err);

	if (ret == 0)
		ret = pod->namespace_[0] ? find_sets(dir, pod, &expected, err) : 1;
	if (ret == 0)
		ret = is_open(dir, pod, err);
	if (ret == 0)
		for (int i = 0; i < MK_POLICY_DIRECTIONS; i++)
			expected.set[i] = MK_SET_PENDING;
	memcpy(sets, expected.set, sizeof(expected.set));
	return ret;
}

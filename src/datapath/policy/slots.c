// SPDX-License-Identifier: Apache-2.0
/* The pods' entries in map pod_policies, and policy_state. Both are in memory, and programs read
 * them meanwhile: each set is one store. CNI ADD and DEL write them, too, without a lock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "datapath/policy/tables_internal.h"

/* ---- one slot -------------------------------------------------------------------------------- */

static char *slot_at(const struct mk_policy_sync *sync, uint32_t slot)
{
	size_t step = (sync->tables->pods.stored_value_size + 7u) / 8 * 8;

	return sync->slots + slot * step;
}

static size_t addr_bytes(const struct mk_policy_sync *sync)
{
	return sync->family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr);
}

static uint64_t *set_at(const struct mk_policy_sync *sync, uint32_t slot, int direction)
{
	void *sets = slot_at(sync, slot);

	return (uint64_t *)sets + direction;
}

static uint32_t *ifindex_at(const struct mk_policy_sync *sync, uint32_t slot)
{
	void *at = slot_at(sync, slot) + offsetof(struct mk_pod_policy, addr) + addr_bytes(sync);

	return at;
}

static uint32_t *generation_at(const struct mk_policy_sync *sync, uint32_t slot)
{
	return ifindex_at(sync, slot) + 1;
}
_Static_assert(offsetof(struct mk_pod_policy, generation) ==
		       offsetof(struct mk_pod_policy, ifindex) + sizeof(uint32_t),
	       "generation_at()");

static uint64_t get_set(const struct mk_policy_sync *sync, uint32_t slot, int direction)
{
	return __atomic_load_n(set_at(sync, slot, direction), __ATOMIC_RELAXED);
}

static void put_set(const struct mk_policy_sync *sync, uint32_t slot, int direction, uint64_t set,
		    struct mk_policy_counts *counts)
{
	__atomic_store_n(set_at(sync, slot, direction), set, __ATOMIC_RELEASE);
	counts->switched++;
	sync_wrote(sync);
}

static bool has_set(const struct mk_policy_sync *sync, uint32_t slot)
{
	return get_set(sync, slot, MK_POLICY_INGRESS) != MK_SET_OPEN ||
	       get_set(sync, slot, MK_POLICY_EGRESS) != MK_SET_OPEN;
}

static bool any_set(const struct mk_policy_sync *sync)
{
	for (uint32_t slot = 0; slot < sync->tables->pods.max_entries; slot++)
		if (has_set(sync, slot))
			return true;
	return false;
}

static bool is_own(const struct mk_policy_sync *sync, uint32_t slot, const struct sandbox *sandbox)
{
	struct mk_pod_policy room;
	const struct mk_pod_policy *entry =
		mk_table_mapped_row(&sync->tables->pods, sync->slots, slot, &room);

	return entry->ifindex == sandbox->ifindex && mk_addr_eq(&entry->addr, &sandbox->addr);
}

/* Until the ifindex is stored, the pod counts as pending. */
static void claim(const struct mk_policy_sync *sync, uint32_t slot, const struct sandbox *sandbox,
		  const uint64_t sets[MK_POLICY_DIRECTIONS], struct mk_policy_counts *counts)
{
	size_t bytes = addr_bytes(sync);

	for (int i = 0; i < MK_POLICY_DIRECTIONS; i++)
		put_set(sync, slot, i, sets[i], counts);
	memcpy(slot_at(sync, slot) + offsetof(struct mk_pod_policy, addr),
	       (const char *)&sandbox->addr + sizeof(sandbox->addr) - bytes, bytes);
	sync_wrote(sync);
	__atomic_store_n(ifindex_at(sync, slot), sandbox->ifindex, __ATOMIC_RELEASE);
	sync_wrote(sync);
}

/* ---- open, read ------------------------------------------------------------------------------ */

static void *map_values(const struct mk_table *table, size_t *bytes, struct mk_error *err)
{
	void *values = mk_table_map(table, bytes);

	if (!values)
		(void)mk_error_errno(err, errno, "cannot map '%s' into memory", table->name);
	return values;
}

int slots_open(struct mk_policy_sync *sync, struct mk_error *err)
{
	sync->slots = map_values(&sync->tables->pods, &sync->slots_bytes, err);
	if (!sync->slots)
		return -ENOMEM;
	sync->state = map_values(&sync->tables->state, &sync->state_bytes, err);
	if (!sync->state)
		return -ENOMEM;
	if (sync->state->listed == MK_POLICY_NOT_LISTED && !any_set(sync))
		sync->state->listed = MK_POLICY_LISTS_AWAITED;
	sync->raise = calloc(sync->tables->pods.max_entries, sizeof(*sync->raise));
	return sync->raise ? 0 : mk_error_errno(err, ENOMEM, "slots of pods");
}

void slots_close(struct mk_policy_sync *sync)
{
	free(sync->raise);
	if (sync->slots)
		munmap(sync->slots, sync->slots_bytes);
	if (sync->state)
		munmap(sync->state, sync->state_bytes);
}

int slots_read(struct mk_policy_sync *sync, struct mk_error *err)
{
	ids_clear(&sync->in_force);
	for (uint32_t slot = 0; slot < sync->tables->pods.max_entries; slot++)
		for (int i = 0; i < MK_POLICY_DIRECTIONS; i++) {
			uint64_t set = get_set(sync, slot, i);

			if (set != MK_SET_OPEN && set != MK_SET_PENDING &&
			    !id_add(&sync->in_force, set))
				return mk_error_errno(err, ENOMEM, "cannot read map '%s'",
						      sync->tables->pods.name);
		}
	return 0;
}

/* ---- sandboxes ------------------------------------------------------------------------------- */

void sandboxes_free(struct mk_policy_sync *sync)
{
	for (size_t i = 0; i < sync->sandbox_count; i++) {
		free(sync->sandboxes[i].uid);
		free(sync->sandboxes[i].name);
	}
	free(sync->sandboxes);
	sync->sandboxes = NULL;
	sync->sandbox_count = 0;
}

static int add_sandbox(struct mk_policy_sync *sync, const struct mk_policy_sandbox *from)
{
	const struct mk_ip *ip = &from->ips[mk_family_index(sync->family)];
	struct sandbox *sandbox = &sync->sandboxes[sync->sandbox_count];

	if (ip->family != sync->family || from->ifindex <= 0)
		return 0;
	sync->sandbox_count++;
	sandbox->addr = mk_ip_to_addr(ip);
	sandbox->ifindex = (uint32_t)from->ifindex;
	if (!from->namespace_ || !from->name)
		return 0;
	if (asprintf(&sandbox->name, "%s/%s", from->namespace_, from->name) < 0)
		sandbox->name = NULL;
	sandbox->uid = from->uid ? strdup(from->uid) : NULL;
	return sandbox->name && (sandbox->uid || !from->uid) ? 0 : -ENOMEM;
}

int mk_policy_sync_set_sandboxes(struct mk_policy_sync *sync,
				 const struct mk_policy_sandbox *sandboxes, size_t count,
				 struct mk_error *err)
{
	int ret = 0;

	sandboxes_free(sync);
	sync->sandboxes = calloc(count ? count : 1, sizeof(*sync->sandboxes));
	if (!sync->sandboxes)
		ret = -ENOMEM;
	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = add_sandbox(sync, &sandboxes[i]);
	return ret < 0 ? mk_error_errno(err, ENOMEM, "%zu sandboxes", count) : 0;
}

/* ---- switch ---------------------------------------------------------------------------------- */

/* Return the compiled sets. NULL: there are none. */
static const struct mk_policy_expected *wanted_by(const struct mk_policy_sync *sync,
						  const struct sandbox *sandbox)
{
	struct mk_policy_pod_key key;
	struct record *record;

	if (!sandbox->name)
		return NULL;
	policy_pod_key(&key, sandbox->uid, sandbox->name);
	record = record_find(sync, POLICY_EXPECTED, &key);
	return record && record->state == RECORD_WANTED ? record_value(sync, record) : NULL;
}

static bool is_blocked(const struct mk_policy_sync *sync, uint64_t set)
{
	return id_find(&sync->blocked, set) != NULL;
}

/* Return the set of a new pod if a full table does not take the rows of @set. */
static uint64_t instead_of(uint64_t set)
{
	return mk_set_enforces(set) ? MK_SET_PENDING : MK_SET_OPEN;
}

/* The slot has no entry of this pod: it is older than the policies, or its ADD wrote none. */
static void begin(const struct mk_policy_sync *sync, uint32_t slot, const struct sandbox *sandbox,
		  const struct mk_policy_expected *wanted, struct mk_policy_counts *counts)
{
	uint64_t sets[MK_POLICY_DIRECTIONS];

	for (int i = 0; i < MK_POLICY_DIRECTIONS; i++) {
		sets[i] = sandbox->name ? MK_SET_PENDING : MK_SET_OPEN;
		if (wanted)
			sets[i] = is_blocked(sync, wanted->set[i]) ? instead_of(wanted->set[i])
								   : wanted->set[i];
	}
	claim(sync, slot, sandbox, sets, counts);
}

/* Returns true if the change may forbid something, or takes flows out of a chain. A new pod must
 * not inherit its predecessor's sessions, even if nothing applies to it: the other end may have a
 * set. */
static bool switch_pod(const struct mk_policy_sync *sync, uint32_t slot,
		       const struct sandbox *sandbox, struct mk_policy_counts *counts)
{
	const struct mk_policy_expected *wanted = wanted_by(sync, sandbox);
	bool forbids = false;

	if (!is_own(sync, slot, sandbox)) {
		begin(sync, slot, sandbox, wanted, counts);
		return true;
	}
	for (int i = 0; wanted && i < MK_POLICY_DIRECTIONS; i++) {
		uint64_t set = wanted->set[i], former = get_set(sync, slot, i);

		if (former == set || is_blocked(sync, set))
			continue;
		put_set(sync, slot, i, set, counts);
		forbids |= set != MK_SET_OPEN || former & MK_SET_HAS_CHAINS;
	}
	return forbids;
}

/* CNI ADD stores a set, then `on`. The set is read again after `on` was cleared, so one of the two
 * sees the other's store. Returns true if enforcement starts. */
static bool write_on(const struct mk_policy_sync *sync)
{
	uint32_t *on = &sync->state->on;
	bool was = __atomic_load_n(on, __ATOMIC_RELAXED), is = any_set(sync);

	if (is == was)
		return false;
	__atomic_store_n(on, is, __ATOMIC_SEQ_CST);
	sync_wrote(sync);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!is && any_set(sync))
		__atomic_store_n(on, 1, __ATOMIC_SEQ_CST);
	return is;
}

static bool set_changed(const struct mk_policy_sync *sync, uint32_t slot)
{
	for (int i = 0; i < MK_POLICY_DIRECTIONS; i++) {
		const struct policy_id *set = id_find(&sync->in_force, get_set(sync, slot, i));

		if (set && set->changed)
			return true;
	}
	return false;
}

static void open_slots(const struct mk_policy_sync *sync, struct mk_policy_counts *counts)
{
	for (uint32_t slot = 0; slot < sync->tables->pods.max_entries; slot++)
		for (int i = 0; i < MK_POLICY_DIRECTIONS; i++)
			if (get_set(sync, slot, i) != MK_SET_OPEN) {
				sync->raise[slot] |= get_set(sync, slot, i) & MK_SET_HAS_CHAINS;
				put_set(sync, slot, i, MK_SET_OPEN, counts);
			}
}

/* CNI DEL removes the device, clears the slot and then releases the address, by which the agent
 * knows the pod. Until then the slot is not lost, and must not be claimed again. */
static bool is_leaving(const struct mk_policy_sync *sync, const struct sandbox *sandbox)
{
	return sync->tables->has_device && !sync->tables->has_device(sandbox->ifindex);
}

static void switch_pods(const struct mk_policy_sync *sync, struct mk_policy_counts *counts)
{
	for (size_t i = 0; i < sync->sandbox_count; i++) {
		const struct sandbox *sandbox = &sync->sandboxes[i];
		uint32_t slot = mk_pod_slot(&sandbox->addr, sync->tables->pods.max_entries);

		bool has_entry = is_own(sync, slot, sandbox);

		if (!has_entry && is_leaving(sync, sandbox))
			continue;
		counts->lost += sync->applied && !has_entry;
		sync->raise[slot] |= switch_pod(sync, slot, sandbox, counts);
	}
	if (counts->lost)
		mk_log_warn("entries were missing and are back map=%s entries=%u",
			    sync->tables->pods.name, counts->lost);
}

void slots_say_state(const struct mk_policy_sync *sync)
{
	mk_log_warn("entry was changed and is back map=%s", sync->tables->state.name);
}

/* Has another process cleared `on`? CNI DEL does so only with the last set. */
static bool on_is_lost(const struct mk_policy_sync *sync)
{
	return sync->applied && !sync->opens_all && !sync->state->on && any_set(sync);
}

void slots_switch(struct mk_policy_sync *sync, struct mk_policy_counts *counts)
{
	if (on_is_lost(sync))
		slots_say_state(sync);
	if (sync->opens_all)
		open_slots(sync, counts);
	else
		switch_pods(sync, counts);
	sync->raise_all |= write_on(sync);
	if (sync->listed >= 0 && sync->state->listed != (uint32_t)sync->listed)
		__atomic_store_n(&sync->state->listed, (uint32_t)sync->listed, __ATOMIC_RELEASE);
}

void slots_raise(struct mk_policy_sync *sync, struct mk_policy_counts *counts)
{
	for (uint32_t slot = 0; slot < sync->tables->pods.max_entries; slot++) {
		bool all = sync->raise_all || set_changed(sync, slot);

		if (!sync->raise[slot] && !(all && has_set(sync, slot)))
			continue;
		sync->raise[slot] = false;
		__atomic_add_fetch(generation_at(sync, slot), 1, __ATOMIC_SEQ_CST);
		counts->raised++;
		sync_wrote(sync);
	}
	sync->raise_all = false;
	sync->applied = true;
	ids_clear(&sync->in_force);
}

void mk_policy_sync_set_listed(struct mk_policy_sync *sync, enum mk_policy_listed listed)
{
	sync->listed = (int)listed;
	/* of an emptied entry slots_switch() writes `on` first */
	if (sync->state->listed != MK_POLICY_NOT_LISTED)
		__atomic_store_n(&sync->state->listed, (uint32_t)listed, __ATOMIC_RELEASE);
}

void mk_policy_sync_each_pod(const struct mk_policy_sync *sync,
			     void (*visit)(void *ctx, const struct mk_addr *addr, uint32_t ifindex,
					   bool is_pending),
			     void *ctx)
{
	for (size_t i = 0; i < sync->sandbox_count; i++) {
		const struct sandbox *sandbox = &sync->sandboxes[i];
		uint32_t slot = mk_pod_slot(&sandbox->addr, sync->tables->pods.max_entries);

		if (sandbox->name)
			visit(ctx, &sandbox->addr, sandbox->ifindex,
			      !is_own(sync, slot, sandbox) ||
				      get_set(sync, slot, MK_POLICY_INGRESS) == MK_SET_PENDING ||
				      get_set(sync, slot, MK_POLICY_EGRESS) == MK_SET_PENDING);
	}
}

// SPDX-License-Identifier: Apache-2.0
#include "clusters/externals.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/cleanup.h"

/* An address that stands for a target, or did until it was released. */
struct mapping {
	struct mk_ip target, ip; /* keys of both tables; unused bytes are zeros */
	size_t owners;
	int64_t released_s; /* of a mapping without owner */
	UT_hash_handle by_target, by_ip;
};

struct owner {
	char *name;
	struct mapping **of;
	size_t count;
	UT_hash_handle hh;
};

struct mk_externals {
	struct mk_cidr ranges[MK_FAMILIES]; /* networks */
	struct mapping *by_target, *by_ip;
	struct owner *owners;
	size_t counts[MK_FAMILIES]; /* mappings, released ones as well */
};

struct mk_externals *mk_externals_new(const struct mk_cidr ranges[MK_FAMILIES])
{
	struct mk_externals *externals = calloc(1, sizeof(*externals));

	for (size_t i = 0; externals && i < MK_FAMILIES; i++)
		if (ranges[i].ip.family != AF_UNSPEC)
			externals->ranges[i] = mk_cidr_network(&ranges[i]);
	return externals;
}

/* ---- mappings -------------------------------------------------------------------------------- */

/* Copy the bytes that say something: keys are compared as memory. */
static struct mk_ip key_of(const struct mk_ip *ip)
{
	struct mk_ip key;

	memset(&key, 0, sizeof(key));
	key.family = ip->family;
	memcpy(&key.v6, &ip->v6, mk_ip_bits(ip->family) / 8);
	return key;
}

static struct mapping *find_target(const struct mk_externals *externals, const struct mk_ip *target)
{
	struct mk_ip key = key_of(target);
	struct mapping *found;

	HASH_FIND(by_target, externals->by_target, &key, sizeof(key), found);
	return found;
}

static struct mapping *find_ip(const struct mk_externals *externals, const struct mk_ip *ip)
{
	struct mk_ip key = key_of(ip);
	struct mapping *found;

	HASH_FIND(by_ip, externals->by_ip, &key, sizeof(key), found);
	return found;
}

static struct mapping *add(struct mk_externals *externals, const struct mk_ip *target,
			   const struct mk_ip *ip, int64_t now_s)
{
	struct mapping *mapping = calloc(1, sizeof(*mapping));

	if (!mapping)
		return NULL;
	mapping->target = key_of(target);
	mapping->ip = key_of(ip);
	mapping->released_s = now_s;
	HASH_ADD(by_target, externals->by_target, target, sizeof(mapping->target), mapping);
	HASH_ADD(by_ip, externals->by_ip, ip, sizeof(mapping->ip), mapping);
	externals->counts[mk_family_index(target->family)]++;
	return mapping;
}

static void drop(struct mk_externals *externals, struct mapping *mapping)
{
	externals->counts[mk_family_index(mapping->ip.family)]--;
	HASH_DELETE(by_target, externals->by_target, mapping);
	HASH_DELETE(by_ip, externals->by_ip, mapping);
	free(mapping);
}

static bool is_free(const struct mapping *mapping, int64_t now_s)
{
	return mapping->owners == 0 && now_s - mapping->released_s >= MK_EXTERNALS_UNUSED_S;
}

static void drop_free(struct mk_externals *externals, int64_t now_s)
{
	struct mapping *mapping, *next;

	HASH_ITER(by_ip, externals->by_ip, mapping, next)
		if (is_free(mapping, now_s))
			drop(externals, mapping);
}

/* ---- addresses ------------------------------------------------------------------------------- */

#define OFFSETS_MAX 0x10000 /* of a larger range, the first addresses are given */

/* The address behind the first one, which stands for the range itself, is number 0. */
static uint32_t offsets_of(const struct mk_cidr *range)
{
	unsigned int bits = mk_ip_bits(range->ip.family) - range->prefix_bits;

	return bits >= 16 ? OFFSETS_MAX - 1 : (1U << bits) - 1;
}

static struct mk_ip ip_at(const struct mk_cidr *range, uint32_t offset)
{
	size_t bytes = mk_ip_bits(range->ip.family) / 8;
	struct mk_ip ip = range->ip;
	uint8_t *last = (uint8_t *)&ip.v6 + bytes - 1;

	offset++;
	for (; offset; offset >>= 8)
		*last-- |= (uint8_t)offset;
	return ip;
}

static uint32_t hash_of(const struct mk_ip *target)
{
	const uint8_t *byte = (const uint8_t *)&target->v6;
	uint32_t hash = 0x811c9dc5;

	for (size_t i = 0; i < mk_ip_bits(target->family) / 8; i++)
		hash = (hash ^ byte[i]) * 0x01000193;
	return hash ^ hash >> 15;
}

/* Find the first free address from that of the hash on. False: there is none. */
static bool find_free(struct mk_externals *externals, const struct mk_ip *target, int64_t now_s,
		      struct mk_ip *ip)
{
	size_t family = mk_family_index(target->family);
	const struct mk_cidr *range = &externals->ranges[family];
	uint32_t count, at;

	if (range->ip.family != target->family)
		return false;
	count = offsets_of(range);
	if (externals->counts[family] >= count)
		drop_free(externals, now_s);
	if (externals->counts[family] >= count)
		return false;
	at = hash_of(target) % count;
	for (uint32_t i = 0; i < count; i++) {
		struct mapping *mapping;

		*ip = ip_at(range, (at + i) % count);
		mapping = find_ip(externals, ip);
		if (mapping && is_free(mapping, now_s))
			drop(externals, mapping);
		else if (mapping)
			continue;
		return true;
	}
	return false;
}

int mk_externals_claim(struct mk_externals *externals, const struct mk_ip *target,
		       const struct mk_ip *ip, int64_t now_s)
{
	const struct mk_cidr *range = &externals->ranges[mk_family_index(ip->family)];

	if (ip->family != target->family || range->ip.family != ip->family ||
	    !mk_cidr_contains(range, ip) || find_target(externals, target) ||
	    find_ip(externals, ip))
		return 0;
	return add(externals, target, ip, now_s) ? 0 : -ENOMEM;
}

/* ---- owners ---------------------------------------------------------------------------------- */

static void release(struct mapping **of, size_t count, int64_t now_s)
{
	for (size_t i = 0; i < count; i++)
		if (--of[i]->owners == 0)
			of[i]->released_s = now_s;
}

/* Returns 0 with *@mapping, which is NULL if there is no address; -ENOMEM. */
static int map(struct mk_externals *externals, const struct mk_ip *target, int64_t now_s,
	       struct mapping **mapping)
{
	struct mk_ip ip;

	*mapping = find_target(externals, target);
	if (*mapping || !find_free(externals, target, now_s, &ip))
		return 0;
	*mapping = add(externals, target, &ip, now_s);
	return *mapping ? 0 : -ENOMEM;
}

/* Map all targets, and count the owner at each. Returns 0, or -ENOMEM with none counted. */
static int take_all(struct mk_externals *externals, const struct mk_ip *targets, size_t count,
		    int64_t now_s, struct mk_ip *ips, struct owner *owner)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < count; i++) {
		struct mapping *mapping;

		ret = map(externals, &targets[i], now_s, &mapping);
		ips[i] = (struct mk_ip){ .family = AF_UNSPEC };
		if (ret < 0 || !mapping)
			continue;
		ips[i] = mapping->ip;
		mapping->owners++;
		owner->of[owner->count++] = mapping;
	}
	if (ret < 0)
		release(owner->of, owner->count, now_s);
	return ret;
}

static void forget(struct mk_externals *externals, struct owner *owner)
{
	HASH_DEL(externals->owners, owner);
	free(owner->name);
	free(owner->of);
	free(owner);
}

static struct owner *owner_new(const char *name, size_t count)
{
	struct owner *owner = calloc(1, sizeof(*owner));

	if (!owner)
		return NULL;
	owner->name = strdup(name);
	owner->of = calloc(count + 1, sizeof(struct mapping *));
	if (owner->name && owner->of)
		return owner;
	free(owner->name);
	free(owner->of);
	free(owner);
	return NULL;
}

int mk_externals_set(struct mk_externals *externals, const char *owner, const struct mk_ip *targets,
		     size_t count, int64_t now_s, struct mk_ip *ips, struct mk_error *err)
{
	struct owner *former, *now = NULL;

	HASH_FIND_STR(externals->owners, owner, former);
	if (count > 0) {
		now = owner_new(owner, count);
		if (now && take_all(externals, targets, count, now_s, ips, now) < 0) {
			free(now->name);
			free(now->of);
			free(mk_steal_ptr(now));
		}
		if (!now)
			return mk_error_errno(err, ENOMEM, "external addresses");
	}
	if (former) {
		release(former->of, former->count, now_s);
		forget(externals, former);
	}
	if (now)
		HASH_ADD_KEYPTR(hh, externals->owners, now->name, strlen(now->name), now);
	return 0;
}

struct mk_externals_use mk_externals_use(const struct mk_externals *externals, int64_t now_s)
{
	struct mk_externals_use use = { 0 };
	const struct mapping *mapping, *next;

	HASH_ITER(by_ip, externals->by_ip, mapping, next) {
		use.mapped += mapping->owners > 0;
		use.released += mapping->owners == 0 && !is_free(mapping, now_s);
	}
	return use;
}

void mk_externals_free(struct mk_externals *externals)
{
	struct owner *owner, *next_owner;
	struct mapping *mapping, *next;

	if (!externals)
		return;
	HASH_ITER(hh, externals->owners, owner, next_owner)
		forget(externals, owner);
	HASH_ITER(by_ip, externals->by_ip, mapping, next)
		drop(externals, mapping);
	free(externals);
}

// SPDX-License-Identifier: Apache-2.0
/* Clusterset addresses: the hash of namespace and name, or the next free one. */
#include <string.h>

#include "clusterset/store.h"

static uint32_t hash_of(const struct mk_ip *ip)
{
	struct mk_addr addr = mk_ip_to_addr(ip);

	return mk_index_hash(&addr, sizeof(addr));
}

static struct address *find(const struct mk_imports *imports, const struct mk_ip *ip)
{
	struct mk_index_link *link = mk_index_find(&imports->addresses, hash_of(ip));

	for (; link; link = mk_index_find_next(link)) {
		struct address *address = mk_index_entry(link, struct address, link);

		if (mk_ip_equal(&address->ip, ip))
			return address;
	}
	return NULL;
}

/* The first address names the network, and the last one of IPv4 is its broadcast address. */
static bool is_usable(const struct mk_cidr *range, const struct mk_ip *ip)
{
	struct mk_ip first = mk_cidr_nth(range, 0), last;

	if (ip->family != range->ip.family || !mk_cidr_contains(range, ip) ||
	    mk_ip_equal(ip, &first))
		return false;
	if (ip->family == AF_INET6)
		return true;
	last = mk_cidr_nth(range, mk_cidr_size(range) - 1);
	return !mk_ip_equal(ip, &last);
}

static size_t capacity(const struct mk_cidr *range)
{
	size_t size = mk_cidr_size(range), unusable = range->ip.family == AF_INET6 ? 1 : 2;

	return size > unusable ? size - unusable : 0;
}

static int use(struct mk_imports *imports, struct service *service, const struct mk_ip *ip,
	       struct mk_error *err)
{
	size_t family = mk_family_index(ip->family);
	struct address *address = &service->addresses[family];

	address_free(imports, service, family);
	if (mk_index_add(&imports->addresses, &address->link, hash_of(ip)) < 0)
		return mk_error_errno(err, ENOMEM, "clusterset address");
	address->ip = *ip;
	address->service = service;
	imports->address_counts[family]++;
	return 0;
}

void address_free(struct mk_imports *imports, struct service *service, size_t family)
{
	struct address *address = &service->addresses[family];

	if (address->ip.family == AF_UNSPEC)
		return;
	mk_index_remove(&imports->addresses, &address->link);
	imports->address_counts[family]--;
	*address = (struct address){ 0 };
}

int address_take(struct mk_imports *imports, struct service *service, size_t family,
		 struct mk_error *err)
{
	const struct mk_cidr *range = &imports->clusterset[family];
	uint32_t size = mk_cidr_size(range), offset;
	char text[MK_CIDR_STRLEN];
	uint64_t hash;
	struct mk_ip ip;

	if (service->addresses[family].ip.family != AF_UNSPEC)
		return 0;
	if (imports->address_counts[family] >= capacity(range))
		return mk_error_set(
			err, ENOSPC,
			"clustersetCidr %s has no free address for '%s/%s': enlarge it, or remove exports",
			mk_cidr_format(range, text), service->namespace_, service->name);
	hash = hash_text(hash_text(HASH_SEED, service->namespace_), "/");
	offset = (uint32_t)(hash_mix(hash_text(hash, service->name)) % size);
	for (;; offset = offset + 1 == size ? 0 : offset + 1) {
		ip = mk_cidr_nth(range, offset);
		if (is_usable(range, &ip) && !find(imports, &ip))
			return use(imports, service, &ip, err);
	}
}

/* Which of two ServiceImports keeps an address that both name? */
static bool is_older(const struct service *a, const struct service *b)
{
	int order;

	if (a->is_held != b->is_held)
		return a->is_held;
	if (a->created_unix_s != b->created_unix_s)
		return a->created_unix_s < b->created_unix_s;
	order = strcmp(a->namespace_, b->namespace_);
	return (order ?: strcmp(a->name, b->name)) < 0;
}

int address_hold(struct mk_imports *imports, struct service *service, const struct mk_ip *ip,
		 struct mk_error *err)
{
	size_t family = mk_family_index(ip->family);
	struct address *address = find(imports, ip);

	if ((address && address->service == service) ||
	    !is_usable(&imports->clusterset[family], ip))
		return 0;
	if (address && is_older(address->service, service)) {
		service_wait(imports, service);
		return 0;
	}
	if (address) {
		service_wait(imports, address->service);
		address_free(imports, address->service, family);
	}
	return use(imports, service, ip, err);
}

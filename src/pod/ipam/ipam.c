// SPDX-License-Identifier: Apache-2.0
#include "pod/ipam/ipam.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "pod/ipam/directory.h"

static bool slot_is_of(const struct mk_ipam_slot *slot, const char *container_id,
		       const char *ifname)
{
	return slot->allocated && strcmp(slot->owner.container_id, container_id) == 0 &&
	       strcmp(slot->owner.ifname, ifname) == 0;
}

/* Search only the index. Sets *@found, NULL: not in the index. Returns 0, or an error. */
static int slot_in_index(struct mk_ipam *ipam, const char *container_id, const char *ifname,
			 struct mk_ipam_slot **found, struct mk_error *err)
{
	struct mk_ipam_slot *slot = NULL;
	struct mk_ip ip;
	int ret = 0;

	*found = NULL;
	if (ipam_owner_find(ipam, container_id, ifname, &ip))
		slot = ipam_slot_find(ipam, &ip);
	if (slot)
		ret = ipam_slot_read(ipam, slot, err);
	if (slot && ret == 0 && slot_is_of(slot, container_id, ifname))
		*found = slot;
	return ret;
}

/* Search the index, then all files: a version without an index may have made the allocation. */
static int slot_of_owner(struct mk_ipam *ipam, const char *container_id, const char *ifname,
			 struct mk_ipam_slot **found, struct mk_error *err)
{
	int ret = slot_in_index(ipam, container_id, ifname, found, err);
	struct mk_ipam_slot *slot, *next;

	if (ret == 0 && !*found)
		ret = ipam_read_owners(ipam, err);
	if (ret < 0 || *found)
		return ret;
	HASH_ITER(hh, ipam->slots, slot, next) {
		if (slot_is_of(slot, container_id, ifname))
			*found = slot;
	}
	return 0;
}

/* ---- allocating ------------------------------------------------------------------------------ */

static struct mk_ip ip_next(struct mk_ip ip)
{
	uint8_t *bytes = (uint8_t *)&ip.v6;

	for (size_t i = mk_ipam_ip_bytes(&ip); i > 0 && ++bytes[i - 1] == 0; i--)
		;
	return ip;
}

/* The last 32 bits as a number: the addresses of a pool differ only there. */
static uint32_t low_bits(const struct mk_ip *ip)
{
	const struct mk_addr addr = mk_ip_to_addr(ip);

	return mk_addr_low_bits(&addr);
}

struct mk_ip mk_ipam_pool_second(const struct mk_ipam_pool *pool, const struct mk_ip *ip)
{
	const struct mk_cidr from = { pool->second, (uint8_t)mk_ip_bits(pool->second.family) };

	if (pool->second.family == AF_UNSPEC)
		return (struct mk_ip){ 0 };
	return mk_cidr_nth(&from, low_bits(ip) - low_bits(&pool->first));
}

/* Is the second address of a pod at @ip held (mk_ipam_hold())? */
static bool second_is_held(struct mk_ipam *ipam, const struct mk_ipam_pool *pool,
			   const struct mk_ip *ip)
{
	const struct mk_ip second = mk_ipam_pool_second(pool, ip);
	const struct mk_ipam_slot *slot =
		second.family == AF_UNSPEC ? NULL : ipam_slot_find(ipam, &second);

	return slot && slot->allocated;
}

/* Choose the lowest address that was never used, otherwise the one released longest ago. Returns
 * false if there is neither. *@in_use counts allocated addresses seen before the choice. */
static bool choose(struct mk_ipam *ipam, const struct mk_ipam_pool *pool, struct mk_ip *chosen,
		   unsigned int *in_use)
{
	const struct mk_ipam_slot *oldest = NULL;

	*in_use = 0;
	for (struct mk_ip ip = pool->first; mk_ip_compare(&ip, &pool->last) <= 0;
	     ip = ip_next(ip)) {
		const struct mk_ipam_slot *slot = ipam_slot_find(ipam, &ip);
		bool taken = (slot && slot->allocated) || second_is_held(ipam, pool, &ip);

		if (!slot && !taken) {
			*chosen = ip;
			return true;
		}
		if (taken)
			(*in_use)++;
		else if (!oldest || slot->sequence < oldest->sequence)
			oldest = slot;
		if (mk_ip_equal(&ip, &pool->last))
			break; /* the highest of all addresses has no next */
	}
	if (oldest)
		*chosen = oldest->ip;
	return oldest != NULL;
}

static int write_owner(struct mk_ipam *ipam, const char *text)
{
	cleanup_close int fd = openat(ipam->dir_fd, MK_IPAM_NEW,
				      O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	ssize_t put;

	if (fd < 0)
		return -errno;
	put = write(fd, text, strlen(text));
	if (put < 0)
		return -errno;
	return (size_t)put == strlen(text) ? 0 : -ENOSPC;
}

static int store_failed(struct mk_ipam *ipam, const char *name, int ret, struct mk_error *err)
{
	unlinkat(ipam->dir_fd, MK_IPAM_NEW, 0);
	mk_error_errno(err, -ret, "cannot write '%s/%s'", ipam->path, name);
	if (ret == -ENOSPC) { /* to callers, ENOSPC means that the addresses are used up */
		ret = -EIO;
		if (err)
			err->code = EIO;
	}
	return ret;
}

/* Write the file of @ip: once this returns 0, the address is allocated. */
static int store(struct mk_ipam *ipam, const struct mk_ip *ip, const char *text,
		 struct mk_error *err)
{
	char name[MK_IPAM_ADDRESS_BYTES];
	int ret = write_owner(ipam, text);

	mk_ipam_name(ip, name);
	if (ret == 0 && renameat(ipam->dir_fd, MK_IPAM_NEW, ipam->dir_fd, name) < 0)
		ret = -errno;
	return ret < 0 ? store_failed(ipam, name, ret, err) : 0;
}

/* Returns 0 or -errno. */
static int write_second(struct mk_ipam *ipam, const struct mk_ip *ip,
			const struct mk_ipam_owner *owner)
{
	if (owner->second.family != AF_UNSPEC)
		return ipam_both_add(ipam, ip, owner->container_id, &owner->second);
	ipam_both_remove(ipam, ip); /* stale */
	return 0;
}

/* Write the index and the second address first: a stale entry does no harm, because the file
 * decides. */
static int store_owned(struct mk_ipam *ipam, const struct mk_ip *ip,
		       const struct mk_ipam_owner *owner, const char *text, struct mk_error *err)
{
	char name[MK_IPAM_ADDRESS_BYTES];
	int ret = ipam_owner_add(ipam, owner->container_id, owner->ifname, ip);

	ret = ret ?: write_second(ipam, ip, owner);
	if (ret < 0)
		ret = store_failed(ipam, mk_ipam_name(ip, name), ret, err);
	else
		ret = store(ipam, ip, text, err);
	if (ret < 0) {
		ipam_owner_remove(ipam, owner->container_id, owner->ifname);
		ipam_both_remove(ipam, ip);
	}
	return ret;
}

/* @owner: NULL if unknown. @text is what the file holds; the slot takes it over. */
static int claim_slot(struct mk_ipam *ipam, const struct mk_ip *ip,
		      const struct mk_ipam_owner *owner, char *text, struct mk_error *err)
{
	struct mk_ipam_slot *slot = ipam_slot_get(ipam, ip, err);
	char name[MK_IPAM_NAME_BYTES];
	int ret = -ENOMEM;

	if (slot)
		ret = owner ? store_owned(ipam, ip, owner, text, err) : store(ipam, ip, text, err);
	if (ret < 0) {
		if (slot && !slot->sequence) /* still never used */
			ipam_slot_drop(ipam, slot);
		free(text);
		return ret;
	}
	if (slot->sequence)
		unlinkat(ipam->released_fd, ipam_released_name(slot->sequence, ip, name), 0);
	slot->sequence = 0;
	ipam_slot_set_owner(slot, text);
	return 0;
}

static const char *text_of(const char *text)
{
	return text ? text : "";
}

/* Format the file's content: without the lines of a Pod if there is none, and then without the
 * host ports if there are none. */
static int format_owner(char **text, const struct mk_ipam_owner *owner)
{
	const char *ports = text_of(owner->host_ports);

	if (text_of(owner->namespace_)[0])
		return asprintf(text, "%s\n%s\n%s\n%s\n%s\n%s\n%s\n", owner->container_id,
				owner->ifname, owner->netns, ports, text_of(owner->uid),
				owner->namespace_, owner->name);
	return asprintf(text, "%s\n%s\n%s\n%s%s", owner->container_id, owner->ifname, owner->netns,
			ports, ports[0] ? "\n" : "");
}

static int claim(struct mk_ipam *ipam, const struct mk_ipam_pool *pool, const struct mk_ip *ip,
		 const struct mk_ipam_owner *wanted, struct mk_error *err)
{
	struct mk_ipam_owner owner = *wanted;
	char *text;

	owner.second = mk_ipam_pool_second(pool, ip);
	if (format_owner(&text, &owner) < 0)
		return mk_error_errno(err, ENOMEM, "address table");
	return claim_slot(ipam, ip, &owner, text, err);
}

int mk_ipam_hold(struct mk_ipam *ipam, const struct mk_ip *ip, struct mk_error *err)
{
	char *nothing;

	if (mk_ipam_is_allocated(ipam, ip))
		return 0;
	nothing = strdup("");
	if (!nothing)
		return mk_error_errno(err, ENOMEM, "address table");
	return claim_slot(ipam, ip, NULL, nothing, err);
}

bool mk_ipam_next(struct mk_ipam *ipam, const struct mk_ipam_pool *pool, struct mk_ip *ip)
{
	unsigned int in_use;

	return choose(ipam, pool, ip, &in_use);
}

static int check_owner(const struct mk_ipam_owner *owner, struct mk_error *err)
{
	const char *const lines[] = {
		owner->container_id,	    owner->ifname,	 owner->netns,
		text_of(owner->host_ports), text_of(owner->uid), text_of(owner->namespace_),
		text_of(owner->name),
	};
	bool sensible = owner->container_id[0] && owner->ifname[0] &&
			!text_of(owner->namespace_)[0] == !text_of(owner->name)[0];
	size_t bytes = 1;

	for (size_t i = 0; i < MK_ARRAY_SIZE(lines); i++) {
		sensible = sensible && !strchr(lines[i], '\n');
		bytes += strlen(lines[i]) + 1;
	}
	if (sensible && bytes <= MK_IPAM_OWNER_BYTES)
		return 0;
	return mk_error_set(
		err, EINVAL,
		"owner of an address makes no sense: container '%s' interface '%s' namespace '%s'",
		owner->container_id, owner->ifname, owner->netns);
}

int mk_ipam_allocate(struct mk_ipam *ipam, const struct mk_ipam_pool *pool,
		     const struct mk_ipam_owner *owner, struct mk_ip *ip, struct mk_error *err)
{
	char a[MK_IP_STRLEN], b[MK_IP_STRLEN];
	int ret = check_owner(owner, err);
	struct mk_ipam_slot *have;
	unsigned int in_use;

	if (ret == 0)
		ret = (ipam->owners_fd >= 0 ? slot_in_index : slot_of_owner)(
			ipam, owner->container_id, owner->ifname, &have, err);
	if (ret < 0)
		return ret;
	if (have) {
		*ip = have->ip;
		return mk_error_set(err, EEXIST,
				    "container '%s' has address %s for interface '%s' already",
				    owner->container_id, mk_ip_format(ip, a), owner->ifname);
	}
	if (choose(ipam, pool, ip, &in_use))
		return claim(ipam, pool, ip, owner, err);
	return mk_error_set(err, ENOSPC, "no free address between %s and %s: all %u are in use",
			    mk_ip_format(&pool->first, a), mk_ip_format(&pool->last, b), in_use);
}

const char *mk_ipam_netns(struct mk_ipam *ipam, const struct mk_ip *ip)
{
	const struct mk_ipam_slot *slot = ipam_slot_find(ipam, ip);

	return slot && slot->allocated && slot->text ? slot->owner.netns : "";
}

int mk_ipam_find(struct mk_ipam *ipam, const char *container_id, const char *ifname,
		 struct mk_ip *ip, struct mk_error *err)
{
	struct mk_ipam_slot *slot;
	int ret = slot_of_owner(ipam, container_id, ifname, &slot, err);

	if (ret < 0)
		return ret;
	if (!slot)
		return mk_error_set(err, ENOENT,
				    "no address is allocated to container '%s' interface '%s'",
				    container_id, ifname);
	*ip = slot->ip;
	return 0;
}

struct mk_ip mk_ipam_second(struct mk_ipam *ipam, const struct mk_ip *ip)
{
	const struct mk_ipam_slot *slot = ipam_slot_find(ipam, ip);

	return slot ? ipam_second_of(ipam, slot) : (struct mk_ip){ 0 };
}

static bool is_allocated(struct mk_ipam *ipam, const struct mk_ip *ip)
{
	const struct mk_ipam_slot *slot = ipam_slot_find(ipam, ip);

	return slot && (slot->allocated || slot->is_second);
}

bool mk_ipam_is_allocated(struct mk_ipam *ipam, const struct mk_ip *ip)
{
	if (is_allocated(ipam, ip))
		return true;
	ipam_both_load(ipam);
	return is_allocated(ipam, ip);
}

/* ---- releasing ------------------------------------------------------------------------------- */

static void drop_second(struct mk_ipam *ipam, const struct mk_ipam_slot *slot)
{
	const struct mk_ip second = ipam_second_of(ipam, slot);
	struct mk_ipam_slot *other =
		second.family == AF_UNSPEC ? NULL : ipam_slot_find(ipam, &second);

	if (other)
		other->is_second = false;
	ipam_both_remove(ipam, &slot->ip);
}

static int slot_release(struct mk_ipam *ipam, struct mk_ipam_slot *slot, struct mk_error *err)
{
	char name[MK_IPAM_ADDRESS_BYTES], released[MK_IPAM_NAME_BYTES];
	uint64_t sequence = ipam->last_sequence + 1;

	mk_ipam_name(&slot->ip, name);
	ipam_released_name(sequence, &slot->ip, released);
	if (renameat(ipam->dir_fd, name, ipam->released_fd, released) < 0) {
		/* No space for one more directory entry: better a free address without its place in
		 * the order than one that cannot be released. */
		if (errno != ENOSPC && errno != EDQUOT)
			return mk_error_errno(err, errno, "cannot release '%s/%s'", ipam->path,
					      name);
		if (unlinkat(ipam->dir_fd, name, 0) < 0)
			return mk_error_errno(err, errno, "cannot remove '%s/%s'", ipam->path,
					      name);
	}
	ipam->last_sequence = slot->sequence = sequence;
	drop_second(ipam, slot);
	slot->allocated = false;
	if (slot->text) /* otherwise mk_ipam_repair() finds the stale entry */
		ipam_owner_remove(ipam, slot->owner.container_id, slot->owner.ifname);
	return 0;
}

int mk_ipam_release(struct mk_ipam *ipam, const char *container_id, const char *ifname,
		    struct mk_error *err)
{
	struct mk_ipam_slot *slot;
	int ret = slot_of_owner(ipam, container_id, ifname, &slot, err);

	return ret == 0 && slot ? slot_release(ipam, slot, err) : ret;
}

int mk_ipam_release_ip(struct mk_ipam *ipam, const struct mk_ip *ip, struct mk_error *err)
{
	struct mk_ipam_slot *slot = ipam_slot_find(ipam, ip);

	return slot && slot->allocated ? slot_release(ipam, slot, err) : 0;
}

int mk_ipam_repair(struct mk_ipam *ipam, struct mk_error *err)
{
	int ret = ipam_read_owners(ipam, err);

	if (ret < 0)
		return ret;
	ipam_owners_repair(ipam);
	ipam_both_repair(ipam);
	return 0;
}

int mk_ipam_each(struct mk_ipam *ipam,
		 int (*visit)(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner),
		 void *ctx, struct mk_error *err)
{
	struct mk_ipam_slot *slot, *next;
	int ret = ipam_read_owners(ipam, err);

	if (ret < 0)
		return ret;
	HASH_ITER(hh, ipam->slots, slot, next) {
		struct mk_ipam_owner owner = slot->owner;

		if (!slot->allocated)
			continue;
		owner.second = ipam_second_of(ipam, slot);
		ret = visit(ctx, &slot->ip, &owner);
		if (ret < 0)
			return ret;
	}
	return 0;
}

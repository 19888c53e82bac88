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
	return slot->allocated && strcmp(slot->container_id, container_id) == 0 &&
	       strcmp(slot->ifname, ifname) == 0;
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

/* Choose the lowest address that was never used, otherwise the one released longest ago. Returns
 * false if there is neither. *@in_use counts allocated addresses seen before the choice. */
static bool choose(struct mk_ipam *ipam, const struct mk_ip *first, const struct mk_ip *last,
		   struct mk_ip *chosen, unsigned int *in_use)
{
	const struct mk_ipam_slot *oldest = NULL;

	*in_use = 0;
	for (struct mk_ip ip = *first; mk_ip_compare(&ip, last) <= 0; ip = ip_next(ip)) {
		const struct mk_ipam_slot *slot = ipam_slot_find(ipam, &ip);

		if (!slot) {
			*chosen = ip;
			return true;
		}
		if (slot->allocated)
			(*in_use)++;
		else if (!oldest || slot->sequence < oldest->sequence)
			oldest = slot;
		if (mk_ip_equal(&ip, last))
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

/* Write the index first: a stale entry does no harm, because the file decides. */
static int store_owned(struct mk_ipam *ipam, const struct mk_ip *ip,
		       const struct mk_ipam_owner *owner, const char *text, struct mk_error *err)
{
	char name[MK_IPAM_ADDRESS_BYTES];
	int ret = ipam_owner_add(ipam, owner->container_id, owner->ifname, ip);

	if (ret < 0)
		ret = store_failed(ipam, mk_ipam_name(ip, name), ret, err);
	else
		ret = store(ipam, ip, text, err);
	if (ret < 0)
		ipam_owner_remove(ipam, owner->container_id, owner->ifname);
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

static const char *ports_of(const struct mk_ipam_owner *owner)
{
	return owner->host_ports ? owner->host_ports : "";
}

static int claim(struct mk_ipam *ipam, const struct mk_ip *ip, const struct mk_ipam_owner *owner,
		 struct mk_error *err)
{
	const char *ports = ports_of(owner);
	char *text;

	if (asprintf(&text, "%s\n%s\n%s\n%s%s", owner->container_id, owner->ifname, owner->netns,
		     ports, ports[0] ? "\n" : "") < 0)
		return mk_error_errno(err, ENOMEM, "address table");
	return claim_slot(ipam, ip, owner, text, err);
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

bool mk_ipam_next(struct mk_ipam *ipam, const struct mk_ip *first, const struct mk_ip *last,
		  struct mk_ip *ip)
{
	unsigned int in_use;

	return choose(ipam, first, last, ip, &in_use);
}

static bool is_line(const char *text)
{
	return strchr(text, '\n') == NULL;
}

static int check_owner(const struct mk_ipam_owner *owner, struct mk_error *err)
{
	if (owner->container_id[0] && owner->ifname[0] && is_line(owner->container_id) &&
	    is_line(owner->ifname) && is_line(owner->netns) && is_line(ports_of(owner)) &&
	    strlen(owner->container_id) + strlen(owner->ifname) + strlen(owner->netns) +
			    strlen(ports_of(owner)) + 5 <
		    MK_IPAM_OWNER_BYTES)
		return 0;
	return mk_error_set(
		err, EINVAL,
		"owner of an address makes no sense: container '%s' interface '%s' namespace '%s'",
		owner->container_id, owner->ifname, owner->netns);
}

int mk_ipam_allocate(struct mk_ipam *ipam, const struct mk_ip *first, const struct mk_ip *last,
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
	if (choose(ipam, first, last, ip, &in_use))
		return claim(ipam, ip, owner, err);
	return mk_error_set(err, ENOSPC, "no free address between %s and %s: all %u are in use",
			    mk_ip_format(first, a), mk_ip_format(last, b), in_use);
}

const char *mk_ipam_netns(struct mk_ipam *ipam, const struct mk_ip *ip)
{
	const struct mk_ipam_slot *slot = ipam_slot_find(ipam, ip);

	return slot && slot->allocated && slot->netns ? slot->netns : "";
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

bool mk_ipam_is_allocated(struct mk_ipam *ipam, const struct mk_ip *ip)
{
	const struct mk_ipam_slot *slot = ipam_slot_find(ipam, ip);

	return slot && slot->allocated;
}

/* ---- releasing ------------------------------------------------------------------------------- */

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
	slot->allocated = false;
	if (slot->container_id) /* otherwise mk_ipam_repair() finds the stale entry */
		ipam_owner_remove(ipam, slot->container_id, slot->ifname);
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

	if (ret == 0)
		ipam_owners_repair(ipam);
	return ret;
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
		const struct mk_ipam_owner owner = {
			.container_id = slot->container_id,
			.ifname = slot->ifname,
			.netns = slot->netns,
			.host_ports = slot->host_ports,
		};

		if (!slot->allocated)
			continue;
		ret = visit(ctx, &slot->ip, &owner);
		if (ret < 0)
			return ret;
	}
	return 0;
}

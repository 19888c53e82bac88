// SPDX-License-Identifier: Apache-2.0
/* The index from container and interface to addresses. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "pod/ipam/directory.h"

#define OWNERS_NAME ".owners"
#define OWNERS_NEW  ".owners.new"
#define HASH_DIGITS 16 /* hexadecimal */

/* FNV-1a, 64 bits (Fowler, Noll, Vo: draft-eastlake-fnv), over both strings with their NULs. */
static const char *entry_name(const char *container_id, const char *ifname,
			      char name[HASH_DIGITS + 1])
{
	const char *parts[] = { container_id, ifname };
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < MK_ARRAY_SIZE(parts); i++) {
		for (size_t at = 0; at <= strlen(parts[i]); at++)
			hash = (hash ^ (uint8_t)parts[i][at]) * 0x100000001b3;
	}
	snprintf(name, HASH_DIGITS + 1, "%0*" PRIx64, HASH_DIGITS, hash);
	return name;
}

static int open_at(const struct mk_ipam *ipam, const char *name)
{
	return openat(ipam->dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Create or replace a symbolic link. Returns 0 or -errno. */
static int link_write(int dir_fd, const char *name, const char *text)
{
	if (symlinkat(text, dir_fd, name) == 0)
		return 0;
	if (errno != EEXIST || unlinkat(dir_fd, name, 0) < 0)
		return -errno;
	return symlinkat(text, dir_fd, name) < 0 ? -errno : 0;
}

/* Visit the names of a directory; errors are ignored. */
static void each_name(struct mk_ipam *ipam, int dir_fd,
		      void (*visit)(struct mk_ipam *ipam, int dir_fd, const char *name))
{
	cleanup_closedir DIR *dir = NULL;
	cleanup_close int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct dirent *entry;

	dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (!dir)
		return;
	mk_steal_fd(&fd);
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			visit(ipam, dir_fd, entry->d_name);
}

/* Read the address that entry @name points to. Returns false if it does not
 * exist or is no address. */
static bool entry_read(int owners_fd, const char *name, struct mk_ip *ip)
{
	char text[MK_IPAM_ADDRESS_BYTES];
	ssize_t length = readlinkat(owners_fd, name, text, sizeof(text) - 1);

	if (length <= 0)
		return false;
	text[length] = '\0';
	return ipam_name_parse(text, ip) == 0;
}

static int entry_write(int owners_fd, const char *name, const struct mk_ip *ip)
{
	char text[MK_IPAM_ADDRESS_BYTES];

	mk_ipam_name(ip, text);
	return link_write(owners_fd, name, text);
}

bool ipam_owner_find(const struct mk_ipam *ipam, const char *container_id, const char *ifname,
		     struct mk_ip *ip)
{
	char name[HASH_DIGITS + 1];

	return ipam->owners_fd >= 0 &&
	       entry_read(ipam->owners_fd, entry_name(container_id, ifname, name), ip);
}

int ipam_owner_add(const struct mk_ipam *ipam, const char *container_id, const char *ifname,
		   const struct mk_ip *ip)
{
	char name[HASH_DIGITS + 1];

	if (ipam->owners_fd < 0)
		return 0;
	return entry_write(ipam->owners_fd, entry_name(container_id, ifname, name), ip);
}

void ipam_owner_remove(const struct mk_ipam *ipam, const char *container_id, const char *ifname)
{
	char name[HASH_DIGITS + 1];

	if (ipam->owners_fd >= 0)
		unlinkat(ipam->owners_fd, entry_name(container_id, ifname, name), 0);
}

/* ---- the index as a whole -------------------------------------------------------------------- */

/* Add an entry for every owner. The owners have been read. */
static int add_missing(struct mk_ipam *ipam, int owners_fd)
{
	struct mk_ipam_slot *slot, *next;
	char name[HASH_DIGITS + 1];
	struct mk_ip ip;
	int ret = 0;

	HASH_ITER(hh, ipam->slots, slot, next) {
		if (!slot->allocated || !slot->owner.container_id[0])
			continue;
		entry_name(slot->owner.container_id, slot->owner.ifname, name);
		if (!entry_read(owners_fd, name, &ip) || !mk_ip_equal(&ip, &slot->ip))
			ret = entry_write(owners_fd, name, &slot->ip) ?: ret;
	}
	return ret;
}

static bool entry_is_true(struct mk_ipam *ipam, int owners_fd, const char *name)
{
	const struct mk_ipam_slot *slot;
	char right[HASH_DIGITS + 1];
	struct mk_ip ip;

	if (!entry_read(owners_fd, name, &ip))
		return false;
	slot = ipam_slot_find(ipam, &ip);
	return slot && slot->allocated && slot->owner.container_id[0] &&
	       strcmp(entry_name(slot->owner.container_id, slot->owner.ifname, right), name) == 0;
}

static void remove_if_untrue(struct mk_ipam *ipam, int owners_fd, const char *name)
{
	if (!entry_is_true(ipam, owners_fd, name))
		unlinkat(owners_fd, name, 0);
}

void ipam_owners_repair(struct mk_ipam *ipam)
{
	if (ipam->owners_fd < 0)
		return;
	each_name(ipam, ipam->owners_fd, remove_if_untrue);
	(void)add_missing(ipam, ipam->owners_fd); /* a missing entry costs a read of all files */
}

/* Create the index completely or not at all. A kill leaves OWNERS_NEW, which
 * the next call completes. */
static int make(struct mk_ipam *ipam, struct mk_error *err)
{
	cleanup_close int fd = -1;
	int ret = ipam_read_owners(ipam, err);

	if (ret < 0)
		return ret;
	if (mkdirat(ipam->dir_fd, OWNERS_NEW, 0700) < 0 && errno != EEXIST)
		return 0;
	fd = open_at(ipam, OWNERS_NEW);
	if (fd < 0)
		return 0;
	each_name(ipam, fd, remove_if_untrue);
	if (add_missing(ipam, fd) == 0 &&
	    renameat(ipam->dir_fd, OWNERS_NEW, ipam->dir_fd, OWNERS_NAME) == 0)
		ipam->owners_fd = mk_steal_fd(&fd);
	return 0;
}

int ipam_owners_open(struct mk_ipam *ipam, struct mk_error *err)
{
	ipam->owners_fd = open_at(ipam, OWNERS_NAME);
	return ipam->owners_fd < 0 && errno == ENOENT ? make(ipam, err) : 0;
}

/* ---- pods of two families -------------------------------------------------------------------- */

void ipam_both_open(struct mk_ipam *ipam)
{
	ipam->both_fd = open_at(ipam, MK_IPAM_BOTH);
}

int ipam_both_add(struct mk_ipam *ipam, const struct mk_ip *ip, const char *container_id,
		  const struct mk_ip *second)
{
	char name[MK_IPAM_ADDRESS_BYTES], address[MK_IPAM_ADDRESS_BYTES], text[MK_IPAM_BOTH_BYTES];

	if (ipam->both_fd < 0) {
		if (mkdirat(ipam->dir_fd, MK_IPAM_BOTH, 0700) < 0 && errno != EEXIST)
			return -errno;
		ipam_both_open(ipam);
	}
	if (ipam->both_fd < 0)
		return -errno;
	if (snprintf(text, sizeof(text), "%s/%s", container_id, mk_ipam_name(second, address)) >=
	    (int)sizeof(text))
		return -ENAMETOOLONG;
	return link_write(ipam->both_fd, mk_ipam_name(ip, name), text);
}

void ipam_both_remove(const struct mk_ipam *ipam, const struct mk_ip *ip)
{
	char name[MK_IPAM_ADDRESS_BYTES];

	if (ipam->both_fd >= 0)
		unlinkat(ipam->both_fd, mk_ipam_name(ip, name), 0);
}

bool ipam_both_read(int both_fd, const char *name, char *container_id, struct mk_ip *second)
{
	ssize_t length = readlinkat(both_fd, name, container_id, MK_IPAM_BOTH_BYTES - 1);
	char *slash;

	if (length <= 0)
		return false;
	container_id[length] = '\0';
	slash = strrchr(container_id, '/');
	if (!slash)
		return false;
	*slash = '\0';
	return ipam_name_parse(slash + 1, second) == 0;
}

struct mk_ip ipam_second_of(const struct mk_ipam *ipam, const struct mk_ipam_slot *slot)
{
	char name[MK_IPAM_ADDRESS_BYTES], container_id[MK_IPAM_BOTH_BYTES];
	struct mk_ip second;

	if (ipam->both_fd >= 0 && slot->allocated && slot->text &&
	    ipam_both_read(ipam->both_fd, mk_ipam_name(&slot->ip, name), container_id, &second) &&
	    strcmp(container_id, slot->owner.container_id) == 0)
		return second;
	return (struct mk_ip){ 0 };
}

/* Return the slot of entry @name, read; NULL: the entry is stale. */
static struct mk_ipam_slot *slot_of_both(struct mk_ipam *ipam, const char *name)
{
	struct mk_ipam_slot *slot;
	struct mk_ip ip;

	if (ipam_name_parse(name, &ip) < 0)
		return NULL;
	slot = ipam_slot_find(ipam, &ip);
	if (!slot || ipam_slot_read(ipam, slot, NULL) < 0 ||
	    ipam_second_of(ipam, slot).family == AF_UNSPEC)
		return NULL;
	return slot;
}

static void mark_second(struct mk_ipam *ipam, int both_fd, const char *name)
{
	struct mk_ipam_slot *slot = slot_of_both(ipam, name), *other;
	struct mk_ip second;

	(void)both_fd;
	if (!slot)
		return;
	second = ipam_second_of(ipam, slot);
	other = ipam_slot_get(ipam, &second, NULL);
	if (other)
		other->is_second = true;
}

void ipam_both_load(struct mk_ipam *ipam)
{
	if (!ipam->read_both && ipam->both_fd >= 0)
		each_name(ipam, ipam->both_fd, mark_second);
	ipam->read_both = true;
}

static void remove_if_stale(struct mk_ipam *ipam, int both_fd, const char *name)
{
	if (!slot_of_both(ipam, name))
		unlinkat(both_fd, name, 0);
}

void ipam_both_repair(struct mk_ipam *ipam)
{
	if (ipam->both_fd >= 0)
		each_name(ipam, ipam->both_fd, remove_if_stale);
}

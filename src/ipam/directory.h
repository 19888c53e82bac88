/* SPDX-License-Identifier: Apache-2.0 */
/* src/ipam/directory.h - the address directory as read under its lock; private to src/ipam.
 *
 * On disk, below state_dir/ipam (directories 0700, files 0600):
 *
 *   lock				flock(2), exclusive while an mk_ipam exists
 *   10.244.1.7				allocated: container id, interface, netns path, and, of a
 *					pod with some, its host ports; a line each
 *   released/00000000000000a3-10.244.1.9	released as number 0xa3, once the file above
 *   .new				being written, or left by a kill
 *   .owners/85dc6b2fc9f7a5b1		index: by a hash of container id and interface a symbolic
 *					link to 10.244.1.7, so that nobody else's file is read
 *
 * Allocating renames .new to the address, releasing renames the address into released/. A kill
 * after the first and before the old entry of released/ is unlinked leaves both: the allocation
 * counts, and the next open removes the other.
 *
 * The index is written before the file and removed after it, so whoever has an address has an entry;
 * an entry may lead nowhere or to another's address, and is true only if that file says so. Where a
 * version that knows no index has allocated, mk_ipam_each() completes it, which the agent's start does.
 * Without an index (no room for it) all files are read.
 *
 * Nothing is fsynced. That would cost each pod start a disk flush (milliseconds), and all it
 * could save are allocations of containers that did not survive the power loss either. What a
 * power loss can leave behind is a file whose content never reached the disk: it keeps its
 * address until garbage collection frees it (mk_ipam_each() shows it without an owner). */
#ifndef MK_IPAM_DIRECTORY_H
#define MK_IPAM_DIRECTORY_H

#include <limits.h>
#include <stdint.h>
#include <uthash.h>

#include "ipam/ipam.h"

#define MK_IPAM_NEW	     ".new"
#define MK_IPAM_SEQUENCE_LEN 16 /* hexadecimal digits */
#define MK_IPAM_NAME_BYTES   (MK_IPAM_SEQUENCE_LEN + 1 + MK_IP_STRLEN)
#define MK_IPAM_OWNER_BYTES  65536 /* of which host ports may take most */

/* An address that was ever allocated. */
struct mk_ipam_slot {
	struct slot_key {
		uint8_t family;
		uint8_t bytes[16];
	} key;
	struct mk_ip ip;
	bool allocated;
	/* allocated and read: one block, at container_id; else NULL */
	char *container_id, *ifname, *netns, *host_ports;
	uint64_t sequence; /* released: when; 0 if never */
	UT_hash_handle hh;
};

struct mk_ipam {
	char path[PATH_MAX]; /* of the directory, for messages */
	int dir_fd, released_fd, lock_fd;
	int owners_fd; /* -1: no index */
	struct mk_ipam_slot *slots;
	uint64_t last_sequence;
};

static inline size_t mk_ipam_ip_bytes(const struct mk_ip *ip)
{
	return ip->family == AF_INET ? sizeof(ip->v4) : sizeof(ip->v6);
}

/* The slot of @ip; NULL: never used. */
struct mk_ipam_slot *mk_ipam_slot_find(struct mk_ipam *ipam, const struct mk_ip *ip);
/* The same, made if there is none. NULL: out of memory. */
struct mk_ipam_slot *mk_ipam_slot_get(struct mk_ipam *ipam, const struct mk_ip *ip,
				      struct mk_error *err);
void mk_ipam_slot_drop(struct mk_ipam *ipam, struct mk_ipam_slot *slot);
/* The content of an allocation, which becomes the slot's. Where it makes no sense all strings are
 * empty: owner unknown. */
void mk_ipam_slot_set_owner(struct mk_ipam_slot *slot, char *text);

/* Read the file of an allocated slot, unless that was done. Returns 0, or an error that is not the
 * file's. */
int mk_ipam_slot_read(struct mk_ipam *ipam, struct mk_ipam_slot *slot, struct mk_error *err);
int mk_ipam_read_owners(struct mk_ipam *ipam, struct mk_error *err);

/* ---- owners.c: the index ---- */

/* Open it; made if there is none. Returns 0 also where it cannot be made. */
int mk_ipam_owners_open(struct mk_ipam *ipam, struct mk_error *err);
/* The address that the owner may have. */
bool mk_ipam_owner_find(const struct mk_ipam *ipam, const char *container_id, const char *ifname,
			struct mk_ip *ip);
/* Returns 0 or -errno. */
int mk_ipam_owner_add(const struct mk_ipam *ipam, const char *container_id, const char *ifname,
		      const struct mk_ip *ip);
void mk_ipam_owner_remove(const struct mk_ipam *ipam, const char *container_id, const char *ifname);
/* After mk_ipam_read_owners(): remove what is not true, add what is missing. */
void mk_ipam_owners_repair(struct mk_ipam *ipam);

/* Into @buf of MK_IPAM_NAME_BYTES; returns @buf. */
const char *mk_ipam_released_name(uint64_t sequence, const struct mk_ip *ip, char *buf);

#endif

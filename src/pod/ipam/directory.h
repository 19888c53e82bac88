/* SPDX-License-Identifier: Apache-2.0 */
/* src/pod/ipam/directory.h - the address directory as read under its lock; private to this folder.
 *
 * On disk, below state_dir/ipam (directories 0700, files 0600):
 *
 *   lock				flock(2), exclusive while an mk_ipam exists
 *   10.244.1.7				allocated: container id, interface, netns path, and
 *					host ports if there are any; one line each
 *   released/00000000000000a3-10.244.1.9	released as number 0xa3, once the file above
 *   .new				being written, or left by a kill
 *   .owners/85dc6b2fc9f7a5b1		index: named by a hash of container id and interface, a
 *					symbolic link to 10.244.1.7: no other file need be read
 *
 * The name of an IPv6 address is its 32 hexadecimal digits, fd000010024400010000000000000002: it
 * has only this form.
 *
 *   .both/10.244.1.7			a pod of two families: a symbolic link to CONTAINER/ADDRESS,
 *					its container's id and its second address
 *
 * Allocating renames .new to the address; releasing renames the address into released/. A kill
 * between an allocation and the removal of the address's old entry in released/ leaves both. The
 * allocation counts, and the next open removes the old entry.
 *
 * The index is written before the file and removed after it, so every allocated address has an
 * entry. A stale entry may point to nothing or to another owner's address; only the file decides.
 * Allocations of a version without index lack entries: mk_ipam_repair() adds them, at the agent's
 * start. Without an index (disk full) all files are read.
 *
 * The same holds for .both: an entry is written before its file and removed after it. It counts
 * only if the file has the same container's id. Otherwise a version without .both has removed the
 * pod, or made another one, which has one address.
 *
 * Nothing is fsynced. That would cost each pod start a disk flush (milliseconds). It could only
 * save allocations of containers that did not survive the power loss either. A power loss may leave
 * a file whose content never reached the disk. Such a file keeps its address until garbage
 * collection frees it (mk_ipam_each() shows it without an owner). */
#ifndef MK_POD_IPAM_DIRECTORY_H
#define MK_POD_IPAM_DIRECTORY_H

#include <limits.h>
#include <stdint.h>
#include <uthash.h>

#include "pod/ipam/ipam.h"

#define MK_IPAM_NEW	     ".new"
#define MK_IPAM_SEQUENCE_LEN 16 /* hexadecimal digits */
#define MK_IPAM_NAME_BYTES   (MK_IPAM_SEQUENCE_LEN + 1 + MK_IPAM_ADDRESS_BYTES)
#define MK_IPAM_OWNER_BYTES  65536 /* host ports may take most of it */

/* An address that was ever allocated. */
struct mk_ipam_slot {
	struct slot_key {
		uint8_t family;
		uint8_t bytes[16];
	} key;
	struct mk_ip ip;
	bool allocated;
	char *text; /* of the file, if allocated and read; otherwise NULL */
	struct mk_ipam_owner owner; /* its strings are in @text; `second` is not set */
	bool is_second; /* a pod's second address: set once read_both is */
	uint64_t sequence; /* number of its last release; 0: none */
	UT_hash_handle hh;
};

struct mk_ipam {
	char path[PATH_MAX]; /* of the directory, for messages */
	int dir_fd, released_fd, lock_fd;
	int owners_fd; /* -1: no index */
	int both_fd; /* -1: no pod has two addresses */
	bool read_both; /* all of .both */
	struct mk_ipam_slot *slots;
	uint64_t last_sequence;
};

static inline size_t mk_ipam_ip_bytes(const struct mk_ip *ip)
{
	return ip->family == AF_INET ? sizeof(ip->v4) : sizeof(ip->v6);
}

/* Parse the name of an address's file: a dotted quad, or 32 hexadecimal digits. -EINVAL: @name is
 * another file's. */
mk_must_check int ipam_name_parse(const char *name, struct mk_ip *ip);

/* Find the slot of @ip; NULL: never used. */
struct mk_ipam_slot *ipam_slot_find(struct mk_ipam *ipam, const struct mk_ip *ip);
/* The same, but create a missing slot. NULL: out of memory. */
struct mk_ipam_slot *ipam_slot_get(struct mk_ipam *ipam, const struct mk_ip *ip,
				   struct mk_error *err);
void ipam_slot_drop(struct mk_ipam *ipam, struct mk_ipam_slot *slot);
/* Read the owner from an address file's @text, which is cut into its strings. If @text makes no
 * sense, all strings are empty: the owner is unknown. */
void ipam_owner_parse(struct mk_ipam_owner *owner, char *text);
/* Give the slot the text of an address file, which it takes over. */
void ipam_slot_set_owner(struct mk_ipam_slot *slot, char *text);

/* Return the text of the address file @name, "" if it cannot be read; NULL: out of resources
 * (errno). The caller frees it. */
char *ipam_owner_read(int dir_fd, const char *name);
/* Read the file of an allocated slot, unless it was read before. Returns 0, or an error that
 * is not the file's fault. */
int ipam_slot_read(struct mk_ipam *ipam, struct mk_ipam_slot *slot, struct mk_error *err);
int ipam_read_owners(struct mk_ipam *ipam, struct mk_error *err);

/* ---- owners.c: the index --------------------------------------------------------------------- */

/* Open the index, or create it. Returns 0 also if it cannot be created. */
int ipam_owners_open(struct mk_ipam *ipam, struct mk_error *err);
/* Find the address that the owner may have, according to the index. */
bool ipam_owner_find(const struct mk_ipam *ipam, const char *container_id, const char *ifname,
		     struct mk_ip *ip);
/* Returns 0 or -errno. */
int ipam_owner_add(const struct mk_ipam *ipam, const char *container_id, const char *ifname,
		   const struct mk_ip *ip);
void ipam_owner_remove(const struct mk_ipam *ipam, const char *container_id, const char *ifname);
/* Call after ipam_read_owners(): remove stale entries, add missing ones. */
void ipam_owners_repair(struct mk_ipam *ipam);

/* ---- owners.c: pods of two families ---------------------------------------------------------- */

#define MK_IPAM_BOTH ".both"

void ipam_both_open(struct mk_ipam *ipam);
/* Returns 0 or -errno. */
int ipam_both_add(struct mk_ipam *ipam, const struct mk_ip *ip, const char *container_id,
		  const struct mk_ip *second);
void ipam_both_remove(const struct mk_ipam *ipam, const struct mk_ip *ip);
/* Read the entry @name of directory @both_fd. Returns false if it makes no sense. */
bool ipam_both_read(int both_fd, const char *name, char *container_id, struct mk_ip *second);
#define MK_IPAM_BOTH_BYTES 4096 /* of an entry's text */
/* Return the second address of the pod in @slot, which has been read; AF_UNSPEC: none. */
struct mk_ip ipam_second_of(const struct mk_ipam *ipam, const struct mk_ipam_slot *slot);
/* Set is_second of all slots, once. */
void ipam_both_load(struct mk_ipam *ipam);
/* Call after ipam_read_owners(): remove stale entries. */
void ipam_both_repair(struct mk_ipam *ipam);

/* Into @buf of MK_IPAM_NAME_BYTES; returns @buf. */
const char *ipam_released_name(uint64_t sequence, const struct mk_ip *ip, char *buf);

#endif

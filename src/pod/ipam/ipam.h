/* SPDX-License-Identifier: Apache-2.0 */
/* src/pod/ipam/ipam.h - which container has which address of the node's pod CIDR. One directory
 * (state_dir/ipam) with one lock; an address is a file named after it that holds container id,
 * interface, network namespace, host ports and the Pod's name. Every change is one rename: a kill
 * at any instant leaves either the state before or the state after. */
#ifndef MK_POD_IPAM_IPAM_H
#define MK_POD_IPAM_IPAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/ip.h"

struct mk_ipam;

struct mk_ipam_owner {
	const char *container_id, *ifname;
	const char *netns; /* path; "": not known */
	const char *host_ports; /* host ports to it, read by src/pod/endpoint; NULL or "": none */
	/* of the Pod, as the runtime gives them; NULL or "": a container of no Pod, or no UID */
	const char *namespace_, *name, *uid;
	struct mk_ip second; /* only read: its address of the other family; AF_UNSPEC: none */
};

/* The addresses that pods may get. A pod of two families has the same number in both: its second
 * address is as far from @second as its first one is from @first. */
struct mk_ipam_pool {
	struct mk_ip first, last;
	struct mk_ip second; /* AF_UNSPEC: pods have one address */
};

/* Open (and create) @state_dir/ipam and take its lock: exclusive until mk_ipam_free(). */
mk_must_check struct mk_ipam *mk_ipam_open(const char *state_dir, struct mk_error *err);
void mk_ipam_free(struct mk_ipam *ipam);

static inline void mk_cleanup_ipam(struct mk_ipam **ipam)
{
	mk_ipam_free(*ipam);
}
#define cleanup_ipam __attribute__((cleanup(mk_cleanup_ipam)))

/* Return the name of the address's file. */
#define MK_IPAM_ADDRESS_BYTES 33
const char *mk_ipam_name(const struct mk_ip *ip, char name[MK_IPAM_ADDRESS_BYTES]);

/* Allocate an address of @pool for @owner: one never used, otherwise the one released longest ago.
 * -EEXIST: @owner already has one, *@ip. -ENOSPC: none is left; the text says how many are in use.
 * A full disk is -EIO. */
mk_must_check int mk_ipam_allocate(struct mk_ipam *ipam, const struct mk_ipam_pool *pool,
				   const struct mk_ipam_owner *owner, struct mk_ip *ip,
				   struct mk_error *err);
/* Get the address that mk_ipam_allocate() would take; false: there is none. */
bool mk_ipam_next(struct mk_ipam *ipam, const struct mk_ipam_pool *pool, struct mk_ip *ip);
/* Return the second address of a pod with address @ip of @pool; AF_UNSPEC: none. */
struct mk_ip mk_ipam_pool_second(const struct mk_ipam_pool *pool, const struct mk_ip *ip);
/* Keep @ip, whose owner is unknown, from being allocated. It looks like a file without a readable
 * owner (mk_ipam_each()). */
mk_must_check int mk_ipam_hold(struct mk_ipam *ipam, const struct mk_ip *ip, struct mk_error *err);
/* Find the address of @container_id and @ifname; -ENOENT: none. */
mk_must_check int mk_ipam_find(struct mk_ipam *ipam, const char *container_id, const char *ifname,
			       struct mk_ip *ip, struct mk_error *err);
/* Returns the namespace path of the owner at @ip, which mk_ipam_find() has found; "":
 * not known. @ipam owns it. */
const char *mk_ipam_netns(struct mk_ipam *ipam, const struct mk_ip *ip);
/* Returns the second address of the pod at @ip, which has been found; AF_UNSPEC: none. */
struct mk_ip mk_ipam_second(struct mk_ipam *ipam, const struct mk_ip *ip);
/* Returns 0 also if @container_id and @ifname have no address. */
mk_must_check int mk_ipam_release(struct mk_ipam *ipam, const char *container_id,
				  const char *ifname, struct mk_error *err);
/* Release by address: the only way if the owner cannot be read any more. */
mk_must_check int mk_ipam_release_ip(struct mk_ipam *ipam, const struct mk_ip *ip,
				     struct mk_error *err);
/* Correct the index by owner after a kill, or after a version without an index. This
 * saves only time: a missing entry is found by reading all files, and a stale one is
 * checked against its file. */
mk_must_check int mk_ipam_repair(struct mk_ipam *ipam, struct mk_error *err);
/* Is @ip a pod's first or second address? */
bool mk_ipam_is_allocated(struct mk_ipam *ipam, const struct mk_ip *ip);
/* Visit every allocation; @visit may release what it visits. A negative return ends it. A file that
 * cannot be read or makes no sense still holds its address: all strings of its owner are empty. */
mk_must_check int mk_ipam_each(struct mk_ipam *ipam,
			       int (*visit)(void *ctx, const struct mk_ip *ip,
					    const struct mk_ipam_owner *owner),
			       void *ctx, struct mk_error *err);

/* ---- without the lock: address files are replaced by rename ---------------------------------- */

/* As mk_ipam_each(), with the addresses as they are now. A file without a readable owner is left
 * out. */
mk_must_check int mk_ipam_peek_each(const char *state_dir,
				    int (*visit)(void *ctx, const struct mk_ip *ip,
						 const struct mk_ipam_owner *owner),
				    void *ctx, struct mk_error *err);
/* Does @visit return true for any address of the directory, first or second? It sees the names as
 * they are now, and reads no file. */
bool mk_ipam_any(const char *state_dir, bool (*visit)(void *ctx, const struct mk_ip *ip),
		 void *ctx);
/* Returns the second address of the pod of @container_id at @ip; AF_UNSPEC: none. */
struct mk_ip mk_ipam_peek_second(const char *state_dir, const struct mk_ip *ip,
				 const char *container_id);

#endif

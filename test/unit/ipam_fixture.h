/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/ipam_fixture.h - an address directory per test, for eight addresses,
 * 10.244.1.2 to .9. */
#ifndef MK_TEST_IPAM_FIXTURE_H
#define MK_TEST_IPAM_FIXTURE_H

#include "pod/ipam/ipam.h"
#include "unit/unit.h"

extern struct mk_error err; /* of the last call that failed */
extern char state_dir[64];
extern struct mk_ipam_pool pool;

/* A checked fixture. */
void ipam_setup(void);
void ipam_teardown(void);

struct mk_ipam *open_ipam(void);
/* Allocate for interface eth0. Returns the result of mk_ipam_allocate(); *@text is the address. */
int allocate(const char *container_id, char *text);
void release(const char *container_id);
/* Return the path of a file in the directory, in a static buffer. */
const char *ipam_path(const char *name);
void ipam_write(const char *name, const char *content);
/* Count the entries of one of its directories, except names with a leading dot
 * other than `.new`. */
int count_names(const char *name);

/* Return what mk_ipam_each() visits. */
struct walk {
	struct mk_ipam *ipam;
	int known, unknown;
	bool release_unknown;
};
int walk_visit(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner);

#endif

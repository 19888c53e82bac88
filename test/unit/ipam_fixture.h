/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/ipam_fixture.h - an address directory of a test's own, for eight addresses, 10.244.1.2 to .9. */
#ifndef MK_TEST_IPAM_FIXTURE_H
#define MK_TEST_IPAM_FIXTURE_H

#include "ipam/ipam.h"
#include "unit/unit.h"

extern struct mk_error err; /* of the last call that failed */
extern char state_dir[64];
extern struct mk_ip first, last;

/* A checked fixture. */
void ipam_setup(void);
void ipam_teardown(void);

struct mk_ipam *open_ipam(void);
/* For interface eth0. Returns what mk_ipam_allocate() does; *@text is the address. */
int allocate(const char *container_id, char *text);
void release(const char *container_id);
/* Of a file in the directory, in a static buffer. */
const char *ipam_path(const char *name);
void ipam_write(const char *name, const char *content);
/* Entries of one of its directories, those whose names begin with a point left out, but not `.new`. */
int count_names(const char *name);

/* What mk_ipam_each() shows. */
struct walk {
	struct mk_ipam *ipam;
	int known, unknown;
	bool release_unknown;
};
int walk_visit(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/cluster_dir_fixture.h - a directory followed into a model on a loop: its files, the
 * listener's calls, and the log. All waits are bounded. */
#ifndef MK_TEST_CLUSTER_DIR_FIXTURE_H
#define MK_TEST_CLUSTER_DIR_FIXTURE_H

#include <uv.h>

#include "cluster/files/cluster_dir.h"
#include "cluster/model/model.h"
#include "unit/unit.h"

#define PATH_CHARS 512

extern uv_loop_t loop;
extern struct mk_model *model;
extern struct mk_cluster_dir *cluster; /* NULL until cluster_dir_start() */
extern char base[256], followed[280]; /* base contains followed and the files outside of it */
extern char listed[64]; /* "no" and "yes", as reported */
extern char gone[256]; /* Services missing from the model when they were reported */

void cluster_dir_setup(void);
void cluster_dir_teardown(void);
void cluster_dir_start(void);
void on_listed(void *ctx, bool complete); /* writes into `listed` */

/* Return the clusterIP of Service x/@name; "none" if there is no such Service. */
const char *vip_of(const char *name);
/* Run until Service @name has @vip. */
void wait_for(const char *name, const char *vip);
void wait_listed(const char *expected);
/* Run until all earlier changes have been seen: a file written now is read last. */
void settle(void);

#define SERVICE(name, vip)                                                          \
	"apiVersion: v1\nkind: Service\nmetadata: {name: " name ", namespace: x}\n" \
	"spec: {clusterIP: " vip ", ports: [{port: 80}]}\n"

/* Files of the directory, by name. @path: PATH_CHARS. */
void path_of(char *path, const char *name);
void write_file(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void replace_file(const char *name, const char *text);
void remove_file(const char *name);
void rename_file(const char *from, const char *to);

/* Ends a capture_log(). */
void expect_logged(const char *const parts[], size_t count);
#define EXPECT_LOGGED(...)                                  \
	expect_logged((const char *const[]){ __VA_ARGS__ }, \
		      sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

#endif

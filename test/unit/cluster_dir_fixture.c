// SPDX-License-Identifier: Apache-2.0
#include "unit/cluster_dir_fixture.h"

#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "unit/unit.h"

#define BOUND_MS 5000 /* limit for waits of a few ms; only a failure reaches it */

uv_loop_t loop;
struct mk_model *model;
struct mk_cluster_dir *cluster;
char base[256], followed[280];
char listed[64];
char gone[256];
static uv_timer_t bound;
static bool late;

/* ---- reports of the model and the source ----------------------------------------------------- */

void on_listed(void *ctx, bool complete)
{
	(void)ctx;
	strcat(listed, complete ? "yes " : "no ");
	uv_stop(&loop); /* called by a timer: without this the loop would wait for another event */
}

static void service_changed(void *ctx, const char *namespace_, const char *name)
{
	size_t used = strlen(gone);

	(void)ctx;
	if (!mk_model_service(model, namespace_, name))
		snprintf(gone + used, sizeof(gone) - used, "%s ", name);
	uv_stop(&loop);
}

const char *vip_of(const char *name)
{
	static char buf[MK_IP_STRLEN];
	const struct mk_service_object *service = mk_model_service(model, "x", name);

	return service ? mk_ip_format(&service->cluster_ips[0], buf) : "none";
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void on_bound(uv_timer_t *timer)
{
	(void)timer;
	late = true;
}

void wait_for(const char *name, const char *vip)
{
	late = false;
	uv_timer_start(&bound, on_bound, BOUND_MS, 0);
	while (!late && strcmp(vip_of(name), vip) != 0)
		uv_run(&loop, UV_RUN_ONCE);
	uv_timer_stop(&bound);
	ck_assert_msg(!late, "Service '%s' has clusterIP %s, waited for %s", name, vip_of(name),
		      vip);
}

void settle(void)
{
	static unsigned serial;
	char vip[16];

	snprintf(vip, sizeof(vip), "10.97.0.%u", ++serial % 250 + 1);
	write_file("zz-settled.yaml",
		   "{apiVersion: v1, kind: Service, metadata: {name: settled, namespace: x}, "
		   "spec: {clusterIP: %s, ports: [{port: 1}]}}\n",
		   vip);
	wait_for("settled", vip);
}

void wait_listed(const char *expected)
{
	late = false;
	uv_timer_start(&bound, on_bound, BOUND_MS, 0);
	while (!late && strcmp(listed, expected) != 0)
		uv_run(&loop, UV_RUN_ONCE);
	uv_timer_stop(&bound);
	ck_assert_msg(!late, "listed \"%s\", waited for \"%s\"", listed, expected);
}

/* ---- files ----------------------------------------------------------------------------------- */

void path_of(char *path, const char *name)
{
	ck_assert_int_lt(snprintf(path, PATH_CHARS, "%s/%s", followed, name), PATH_CHARS);
}

void write_file(const char *name, const char *fmt, ...)
{
	char path[PATH_CHARS];
	cleanup_fclose FILE *file = NULL;
	va_list args;

	path_of(path, name);
	file = fopen(path, "w");
	ck_assert_msg(file, "%s", path);
	va_start(args, fmt);
	ck_assert_int_ge(vfprintf(file, fmt, args), 0);
	va_end(args);
}

void replace_file(const char *name, const char *text)
{
	char path[PATH_CHARS];
	struct mk_error err = { 0 };

	path_of(path, name);
	ck_assert_msg(mk_file_replace(path, text, strlen(text), 0644, &err) == 0, "%s", err.text);
}

void remove_file(const char *name)
{
	char path[PATH_CHARS];

	path_of(path, name);
	ck_assert_int_eq(unlink(path), 0);
}

void rename_file(const char *from, const char *to)
{
	char old[PATH_CHARS], new[PATH_CHARS];

	path_of(old, from);
	path_of(new, to);
	ck_assert_int_eq(rename(old, new), 0);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
	(void)status;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* ---- fixture --------------------------------------------------------------------------------- */

void cluster_dir_start(void)
{
	struct mk_error err = { 0 };

	cluster = mk_cluster_dir_start(&loop, followed, model, on_listed, NULL, &err);
	ck_assert_msg(cluster, "%s", err.text);
}

void cluster_dir_setup(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(base, sizeof(base), "%s/mk-test-cluster-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(base));
	snprintf(followed, sizeof(followed), "%s/cluster", base);
	ck_assert_int_eq(mkdir(followed, 0755), 0);
	listed[0] = gone[0] = '\0';
	cluster = NULL;
	model = mk_model_new();
	ck_assert_ptr_nonnull(model);
	mk_model_set_listener(model,
			      &(struct mk_model_listener){ .service_changed = service_changed });
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	uv_timer_init(&loop, &bound);
}

void cluster_dir_teardown(void)
{
	mk_cluster_dir_stop(cluster);
	uv_close((uv_handle_t *)&bound, NULL);
	while (uv_run(&loop, UV_RUN_DEFAULT)) /* not 0: an earlier uv_stop() was still pending */
		;
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	mk_model_free(model);
	nftw(base, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void expect_logged(const char *const parts[], size_t count)
{
	const char *text = captured_log();

	for (size_t i = 0; i < count; i++)
		ck_assert_msg(strstr(text, parts[i]), "no \"%s\" in the log:\n%s", parts[i], text);
}

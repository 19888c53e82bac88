// SPDX-License-Identifier: Apache-2.0
/* Two inotify watches show what cluster_files.c must read again. One is on the directory, the other
 * on its parent, where another directory or a symbolic link may take its name. While the directory
 * is gone, a timer looks for it, because its parent may be gone too. */
#include "cluster/files/cluster_dir.h"

#include <libgen.h>
#include <limits.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cluster/files/cluster_files.h"

#define RETRY_MS     50
#define RETRY_MAX_MS 2000

/* IN_CREATE matters only for links: the writing of a file ends with IN_CLOSE_WRITE. */
#define DIR_EVENTS                                                                               \
	(IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | \
	 IN_MOVE_SELF)
#define PARENT_EVENTS (IN_CREATE | IN_MOVED_FROM | IN_MOVED_TO)

struct mk_cluster_dir {
	uv_poll_t poll;
	uv_timer_t timer;
	unsigned open_handles;
	int inotify_fd, watch, parent_watch; /* watch -1: the directory is gone */
	struct mk_cluster_files *files;
	mk_listed_fn *listed;
	void *ctx;
	bool told, told_complete;
	unsigned retry_ms; /* the last pause; 0: none */
	char path[PATH_MAX], parent[PATH_MAX], name[NAME_MAX + 1];
};

/* ---- watches --------------------------------------------------------------------------------- */

static int watch(struct mk_cluster_dir *dir, struct mk_error *err)
{
	dir->watch = inotify_add_watch(dir->inotify_fd, dir->path,
				       DIR_EVENTS | IN_ONLYDIR | IN_MASK_ADD);
	if (dir->watch < 0 && (errno == ENOENT || errno == ENOTDIR))
		return mk_error_errno(
			err, errno,
			"cannot follow the cluster directory '%s' (create it: mkdir -p)",
			dir->path);
	if (dir->watch < 0)
		return mk_error_errno(err, errno, "cannot follow the cluster directory '%s'",
				      dir->path);
	/* Without the parent's watch, only a replaced link is missed. For `.` both
	 * watches are the same. */
	dir->parent_watch = inotify_add_watch(dir->inotify_fd, dir->parent,
					      PARENT_EVENTS | IN_ONLYDIR | IN_MASK_ADD);
	return 0;
}

static void lose(struct mk_cluster_dir *dir);
static void on_timer(uv_timer_t *timer);

/* Retry at once, then with growing pauses. A new entry of the parent directory causes a
 * retry at once. */
static void retry(struct mk_cluster_dir *dir)
{
	uv_timer_start(&dir->timer, on_timer, dir->retry_ms, 0);
	dir->retry_ms = dir->retry_ms ? dir->retry_ms * 2 : RETRY_MS;
	if (dir->retry_ms > RETRY_MAX_MS)
		dir->retry_ms = RETRY_MAX_MS;
}

static void tell_listed(struct mk_cluster_dir *dir)
{
	bool complete = cluster_files_complete(dir->files);

	if (dir->told_complete || (dir->told && !complete))
		return;
	dir->told = true;
	dir->told_complete = complete;
	dir->listed(dir->ctx, complete);
}

static void read_all(struct mk_cluster_dir *dir)
{
	struct mk_error err = { 0 };

	if (cluster_files_mark_all(dir->files, &err) == 0) {
		dir->retry_ms = 0;
		cluster_files_sync(dir->files);
		/* Trees of large files take far more than the model, which lies between them. */
		malloc_trim(0);
		return;
	}
	mk_log_error("%s", mk_error_text(&err));
	lose(dir);
}

static void on_timer(uv_timer_t *timer)
{
	struct mk_cluster_dir *dir = timer->data;

	if (dir->watch < 0) {
		if (watch(dir, NULL) < 0) {
			retry(dir);
			return;
		}
		mk_log_info("the cluster directory '%s' is back", dir->path);
		read_all(dir);
	}
	if (dir->watch >= 0)
		tell_listed(dir);
}

/* Keep the model: nothing shows that the files were deleted. */
static void lose(struct mk_cluster_dir *dir)
{
	if (dir->watch >= 0)
		mk_log_warn(
			"the cluster directory '%s' is gone; its objects stay in force until it is back",
			dir->path);
	inotify_rm_watch(dir->inotify_fd, dir->watch);
	dir->watch = -1;
	retry(dir);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Is the new name a link? Any other file is reported again when its writer closes it. */
static bool is_link(const struct mk_cluster_dir *dir, const char *name)
{
	char path[2 * PATH_MAX];
	struct stat status;

	snprintf(path, sizeof(path), "%s/%s", dir->path, name);
	return lstat(path, &status) == 0 && (S_ISLNK(status.st_mode) || status.st_nlink > 1);
}

struct batch {
	bool some, all, lost;
};

static void on_dir_event(struct mk_cluster_dir *dir, const struct inotify_event *event,
			 struct batch *batch)
{
	if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT)) {
		batch->lost = true;
	} else if (event->len > 0 && strncmp(event->name, "..", 2) == 0) {
		/* a Kubernetes volume: its files are links through `..data`, which was switched */
		batch->all = true;
	} else if (event->len > 0 && (!(event->mask & IN_CREATE) || is_link(dir, event->name))) {
		cluster_files_mark(dir->files, event->name);
		batch->some = true;
	}
}

static void on_event(struct mk_cluster_dir *dir, const struct inotify_event *event,
		     struct batch *batch)
{
	if (event->mask & IN_Q_OVERFLOW)
		batch->all = true;
	else if (event->wd == dir->watch)
		on_dir_event(dir, event, batch);
	else if (event->wd == dir->parent_watch && event->len > 0 &&
		 strcmp(event->name, dir->name) == 0) {
		dir->retry_ms = 0;
		batch->lost = true;
	}
}

/* Read all pending events, so that changes that came together are applied together. */
static void read_events(struct mk_cluster_dir *dir, struct batch *batch)
{
	char buf[16 * 1024] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t got;

	while ((got = read(dir->inotify_fd, buf, sizeof(buf))) > 0) {
		const struct inotify_event *event;

		for (char *at = buf; at < buf + got; at += sizeof(*event) + event->len) {
			event = (const struct inotify_event *)at;
			on_event(dir, event, batch);
		}
	}
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct mk_cluster_dir *dir = poll->data;
	struct batch batch = { false };

	(void)status;
	(void)events;
	read_events(dir, &batch);
	if (batch.lost)
		lose(dir);
	else if (batch.all)
		read_all(dir);
	else if (batch.some)
		cluster_files_sync(dir->files);
	if (!batch.lost && dir->told)
		tell_listed(dir);
}

/* ---- start, stop ----------------------------------------------------------------------------- */

static void free_dir(struct mk_cluster_dir *dir)
{
	cluster_files_free(dir->files);
	if (dir->inotify_fd >= 0)
		close(dir->inotify_fd);
	free(dir);
}

static void cleanup_free_dir(struct mk_cluster_dir **dir)
{
	if (*dir)
		free_dir(*dir);
}

/* "a/b/" -> "a" and "b". For "." and "/" the parent's events do not matter. */
static int set_path(struct mk_cluster_dir *dir, const char *path, struct mk_error *err)
{
	char copy[PATH_MAX];

	if (strlen(path) >= sizeof(copy))
		return mk_error_set(
			err, ENAMETOOLONG,
			"cluster directory '%.64s...': path too long: give a shorter one", path);
	strcpy(dir->path, path);
	strcpy(dir->parent, dirname(strcpy(copy, path)));
	snprintf(dir->name, sizeof(dir->name), "%s", basename(strcpy(copy, path)));
	return 0;
}

static int open_dir(struct mk_cluster_dir *dir, const char *path, struct mk_model *model,
		    struct mk_error *err)
{
	int ret = set_path(dir, path, err);

	if (ret < 0)
		return ret;
	dir->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (dir->inotify_fd < 0)
		return mk_error_errno(err, errno, "cannot follow the cluster directory '%s'", path);
	dir->files = cluster_files_new(path, model);
	if (!dir->files)
		return mk_error_errno(err, ENOMEM, "cannot follow the cluster directory '%s'",
				      path);
	return watch(dir, err);
}

struct mk_cluster_dir *mk_cluster_dir_start(uv_loop_t *loop, const char *path,
					    struct mk_model *model, mk_listed_fn *listed, void *ctx,
					    struct mk_error *err)
{
	__attribute__((cleanup(cleanup_free_dir))) struct mk_cluster_dir *dir =
		calloc(1, sizeof(*dir));
	int ret;

	if (!dir) {
		mk_error_errno(err, ENOMEM, "cannot follow the cluster directory '%s'", path);
		return NULL;
	}
	dir->inotify_fd = -1;
	dir->listed = listed;
	dir->ctx = ctx;
	if (open_dir(dir, path, model, err) < 0)
		return NULL;
	ret = uv_poll_init(loop, &dir->poll, dir->inotify_fd);
	if (ret < 0) {
		mk_error_errno(err, -ret, "cannot follow the cluster directory '%s'", path);
		return NULL;
	}
	uv_timer_init(loop, &dir->timer);
	dir->open_handles = 2;
	dir->poll.data = dir->timer.data = dir;
	uv_poll_start(&dir->poll, UV_READABLE, on_readable);
	uv_timer_start(&dir->timer, on_timer, 0, 0);
	read_all(dir);
	return mk_steal_ptr(dir);
}

bool mk_cluster_dir_complete(const struct mk_cluster_dir *dir)
{
	return dir->told_complete;
}

static void on_close(uv_handle_t *handle)
{
	struct mk_cluster_dir *dir = handle->data;

	if (--dir->open_handles == 0)
		free_dir(dir);
}

void mk_cluster_dir_stop(struct mk_cluster_dir *dir)
{
	if (!dir)
		return;
	uv_poll_stop(&dir->poll);
	uv_close((uv_handle_t *)&dir->poll, on_close);
	uv_close((uv_handle_t *)&dir->timer, on_close);
}

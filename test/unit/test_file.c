// SPDX-License-Identifier: Apache-2.0
/* Small files: read as a whole, replaced atomically, with their directories created. */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/state_file.h"
#include "unit/unit.h"

#define PATH_CHARS 512

static char base[256];

static void setup(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(base, sizeof(base), "%s/mk-test-file-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(base));
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
	(void)status;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void teardown(void)
{
	nftw(base, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *path_of(const char *name)
{
	static char path[PATH_CHARS];

	ck_assert_int_lt(snprintf(path, sizeof(path), "%s/%s", base, name), PATH_CHARS);
	return path;
}

static void put(const char *name, const char *text)
{
	struct mk_error err = { 0 };

	ck_assert_msg(mk_file_replace(path_of(name), text, strlen(text), 0640, &err) == 0, "%s",
		      err.text);
}

static size_t count_entries(void)
{
	cleanup_closedir DIR *dir = opendir(base);
	struct dirent *entry;
	size_t count = 0;

	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir)))
		count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	return count;
}

START_TEST(test_mkdirs)
{
	struct mk_error err = { 0 };
	struct stat status;

	ck_assert_msg(mk_mkdirs(path_of("a/b/c"), 0755, &err) == 0, "%s", err.text);
	ck_assert_int_eq(stat(path_of("a/b/c"), &status), 0);
	ck_assert(S_ISDIR(status.st_mode));
	ck_assert_msg(mk_mkdirs(path_of("a/b/c"), 0755, &err) == 0, "again: %s", err.text);
	ck_assert_msg(mk_mkdirs(path_of("a/b/d/"), 0755, &err) == 0, "with a slash: %s", err.text);
	ck_assert_int_eq(stat(path_of("a/b/d"), &status), 0);
	put("file", "x");
	ck_assert_int_lt(mk_mkdirs(path_of("file/a"), 0755, &err), 0);
	ck_assert_msg(strstr(err.text, "file/a"), "names the directory: %s", err.text);
}
END_TEST

/* Around the sizes at which the buffer grows. */
static const size_t sizes[] = { 0, 1, 4094, 4095, 4096, 4097, 8191, 8192, 100000 };

START_TEST(test_write_and_read)
{
	cleanup_free char *data = calloc(1, sizes[_i] + 1), *back = NULL;
	struct mk_error err = { 0 };
	size_t size = 77;

	ck_assert_ptr_nonnull(data);
	for (size_t i = 0; i < sizes[_i]; i++)
		data[i] = (char)(i * 31);
	ck_assert_msg(mk_file_replace(path_of("f"), data, sizes[_i], 0600, &err) == 0, "%s",
		      err.text);
	ck_assert_msg(mk_file_read(path_of("f"), sizes[_i], &back, &size, &err) == 0, "%s",
		      err.text);
	ck_assert_uint_eq(size, sizes[_i]);
	ck_assert_int_eq(memcmp(data, back, size), 0);
	ck_assert_int_eq(back[size], '\0');
	if (sizes[_i] == 0)
		return;
	free(mk_steal_ptr(back));
	ck_assert_int_eq(mk_file_read(path_of("f"), sizes[_i] - 1, &back, NULL, &err), -EFBIG);
	ck_assert_ptr_null(back);
}
END_TEST

START_TEST(test_read_errors)
{
	cleanup_free char *data = NULL;
	struct mk_error err = { 0 };

	ck_assert_int_eq(mk_file_read(path_of("nothing"), 10, &data, NULL, &err), -ENOENT);
	ck_assert_msg(strstr(err.text, "/nothing'") && strstr(err.text, "No such file"), "%s",
		      err.text);
	ck_assert_int_eq(mk_file_read(base, 10, &data, NULL, &err), -EISDIR);
	ck_assert_ptr_null(data);
}
END_TEST

START_TEST(test_state_file)
{
	cleanup_free char *text = NULL;
	struct mk_error err = { 0 };
	struct mk_state_file file;
	char too_long[PATH_MAX];
	struct stat before, after;

	ck_assert_int_eq(mk_state_file_read(base, "state", &text, &err), 0);
	ck_assert_ptr_null(text);
	for (int i = 0; i < 2; i++) {
		ck_ok(mk_state_file_begin(&file, base, "state", &err));
		fprintf(file.out, "one\n%s", "two");
		ck_ok(mk_state_file_write(&file, &err));
		ck_assert_int_eq(stat(path_of("state"), i ? &after : &before), 0);
	}
	ck_assert_uint_eq(before.st_ino, after.st_ino); /* equal content: not written again */
	ck_assert_int_eq(mk_state_file_read(base, "state", &text, &err), 2);
	ck_assert_str_eq(text, "one\ntwo");
	ck_assert_int_eq(mk_state_file_read(base, ".", &text, &err), -EISDIR);
	memset(too_long, 'a', sizeof(too_long) - 1);
	too_long[sizeof(too_long) - 1] = '\0';
	ck_assert_int_eq(mk_state_file_begin(&file, base, too_long, &err), -ENAMETOOLONG);
}
END_TEST

START_TEST(test_replace)
{
	cleanup_free char *text = NULL;
	struct mk_error err = { 0 };
	struct stat before, after;

	put("f", "old content");
	ck_assert_int_eq(stat(path_of("f"), &before), 0);
	ck_assert_int_eq(before.st_mode & 0777, 0640);
	put("f", "new");
	ck_assert_int_eq(stat(path_of("f"), &after), 0);
	ck_assert_msg(before.st_ino != after.st_ino, "another file took the name");
	ck_assert_int_eq(mk_file_read(path_of("f"), 100, &text, NULL, &err), 0);
	ck_assert_str_eq(text, "new");
	ck_assert_uint_eq(count_entries(), 1);
}
END_TEST

START_TEST(test_replace_fails_and_leaves_nothing)
{
	struct mk_error err = { 0 };

	ck_assert_int_eq(mk_file_replace(path_of("no/f"), "x", 1, 0600, &err), -ENOENT);
	ck_assert_msg(strstr(err.text, "/no/f'"), "%s", err.text);
	ck_assert_int_eq(mkdir(path_of("dir"), 0755), 0);
	ck_assert_int_lt(mk_file_replace(path_of("dir"), "x", 1, 0600, &err), 0);
	ck_assert_uint_eq(count_entries(), 1);
}
END_TEST

/* A setting that already has the value is not written: writing some settings has side effects. */
START_TEST(test_sysctl)
{
	cleanup_free char *text = NULL;
	struct mk_error err = { 0 };

	put("setting", "0\n");
	ck_assert_int_eq(mk_sysctl_set(path_of("setting"), "0", &err), 0);
	ck_assert_int_eq(mk_sysctl_set(path_of("setting"), "1", &err), 1);
	ck_assert_int_eq(mk_file_read(path_of("setting"), 10, &text, NULL, &err), 0);
	ck_assert_msg(text[0] == '1', "%s", text);
	ck_assert_int_eq(mk_sysctl_set(path_of("no-setting"), "1", &err), -ENOENT);
}
END_TEST

/* As in a container: another directory is used for /proc/sys. */
START_TEST(test_sysctl_root)
{
	cleanup_free char *text = NULL;
	struct mk_error err = { 0 };

	put("net", "0\n");
	mk_sysctl_root(base);
	ck_assert_int_eq(mk_sysctl_set("/proc/sys/net", "1", &err), 1);
	ck_assert_int_eq(mk_file_read(path_of("net"), 10, &text, NULL, &err), 0);
	ck_assert_msg(text[0] == '1', "%s", text);
	ck_assert_int_eq(mk_sysctl_set("/proc/sysctl", "1", &err), -ENOENT);
	ck_assert_int_eq(mk_sysctl_set("/proc/sys/no-setting", "1", &err), -ENOENT);
	ck_assert_msg(strstr(err.text, base), "%s", err.text);
}
END_TEST

/* Links at every place of a path: the error names the link, and nothing is written behind it. */
START_TEST(test_no_symbolic_links)
{
	struct mk_error err = { 0 };
	char target[PATH_CHARS];

	snprintf(target, sizeof(target), "%s/target", base);
	ck_assert_int_eq(mkdir(target, 0755), 0);
	ck_assert_int_eq(symlink("target", path_of("link")), 0);
	ck_assert_int_eq(mk_file_replace(path_of("link/f"), "x", 1, 0600, &err), -ELOOP);
	ck_assert_msg(strstr(err.text, "'link'"), "names the link: %s", err.text);
	ck_assert_int_eq(mk_mkdirs(path_of("link/a/b"), 0700, &err), -ELOOP);
	ck_assert_int_eq(mk_file_create(path_of("link/f"), O_WRONLY, 0600, &err), -ELOOP);
	ck_assert_int_eq(rmdir(target), 0); /* still empty */
	ck_assert_int_eq(symlink("target", path_of("file")), 0);
	ck_assert_int_eq(mk_file_create(path_of("file"), O_WRONLY, 0600, &err), -ELOOP);
	ck_assert_int_eq(mk_file_replace(path_of("file"), "x", 1, 0600, &err), 0);
	ck_assert_int_eq(access(target, F_OK), -1); /* the link itself was replaced */
}
END_TEST

UNIT_SUITE("file")
{
	TCase *tc = unit_case(suite, "file", setup, teardown);

	tcase_add_test(tc, test_mkdirs);
	tcase_add_loop_test(tc, test_write_and_read, 0, MK_ARRAY_SIZE(sizes));
	tcase_add_test(tc, test_read_errors);
	tcase_add_test(tc, test_state_file);
	tcase_add_test(tc, test_replace);
	tcase_add_test(tc, test_replace_fails_and_leaves_nothing);
	tcase_add_test(tc, test_no_symbolic_links);
	tcase_add_test(tc, test_sysctl);
	tcase_add_test(tc, test_sysctl_root);
}

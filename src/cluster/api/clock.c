// SPDX-License-Identifier: Apache-2.0
#include "cluster/api/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/state_file.h"
#include "base/time.h"
#include "cluster/api/api_internal.h"

#define NS_PER_MS     1000000LL
#define LONGEST_MS    5000 /* a slower answer is too imprecise */
#define MAX_BYTES     4096
#define DATE_STRLEN   64
#define BOOT_ID_BYTES 40
#define BOOT_ID	      "/proc/sys/kernel/random/boot_id"

struct mk_own_clock mk_own_clock_now(void)
{
	return (struct mk_own_clock){
		.unix_ms = mk_time_now_unix_ns() / NS_PER_MS,
		.boot_ms = (int64_t)mk_time_ns(CLOCK_BOOTTIME) / NS_PER_MS,
	};
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Copy the value of header Date into @text (DATE_STRLEN bytes). false: @line has none. */
static bool take_date(const char *line, size_t size, char *text)
{
	static const char name[] = "date:";
	size_t begin = strlen(name);

	if (size < begin || strncasecmp(line, name, begin) != 0)
		return false;
	while (begin < size && (line[begin] == ' ' || line[begin] == '\t'))
		begin++;
	while (size > begin && strchr(" \t\r\n", line[size - 1]))
		size--;
	if (size - begin >= DATE_STRLEN)
		return false;
	memcpy(text, line + begin, size - begin);
	text[size - begin] = '\0';
	return true;
}

/* The Date has whole seconds, rounded down, of some moment between request and answer. */
bool api_clock_see(struct mk_api_clock *clock, const char *line, size_t size, uint64_t took_ms,
		   const struct mk_own_clock *now)
{
	char text[DATE_STRLEN];
	int64_t unix_s;

	if (took_ms > LONGEST_MS || !take_date(line, size, text) ||
	    mk_time_parse_http(text, &unix_s) < 0)
		return false;
	clock->known = true;
	clock->earliest_ms = unix_s * 1000 - now->boot_ms;
	clock->latest_ms = clock->earliest_ms + 999 + (int64_t)took_ms;
	return true;
}

int64_t mk_api_clock_ahead_ms(const struct mk_api_clock *clock, const struct mk_own_clock *now)
{
	int64_t own_ms = now->unix_ms - now->boot_ms;

	if (!clock->known)
		return 0;
	if (own_ms < clock->earliest_ms)
		return clock->earliest_ms - own_ms;
	return own_ms > clock->latest_ms ? clock->latest_ms - own_ms : 0;
}

bool mk_api_clock_is_off(const struct mk_api_clock *clock, const struct mk_own_clock *now)
{
	int64_t ahead_ms = mk_api_clock_ahead_ms(clock, now);

	return ahead_ms > MK_API_CLOCK_LIMIT_MS || ahead_ms < -MK_API_CLOCK_LIMIT_MS;
}

/* ---- the file -------------------------------------------------------------------------------- */

static int read_boot_id(char *boot_id, struct mk_error *err)
{
	cleanup_free char *text = NULL;
	int ret = mk_file_read(BOOT_ID, MAX_BYTES, &text, NULL, err);

	if (ret < 0)
		return ret;
	text[strcspn(text, "\n")] = '\0';
	snprintf(boot_id, BOOT_ID_BYTES, "%s", text);
	return 0;
}

static bool is_close(const struct mk_api_clock *a, const struct mk_api_clock *b)
{
	int64_t apart_ms = a->earliest_ms - b->earliest_ms;

	return a->known && b->known && apart_ms < 1000 && apart_ms > -1000;
}

int mk_api_clock_write(const char *state_dir, const struct mk_api_clock *clock,
		       struct mk_error *err)
{
	char path[PATH_MAX], boot_id[BOOT_ID_BYTES];
	struct mk_api_clock written;
	struct mk_state_file file;
	int ret = mk_state_path(state_dir, MK_API_CLOCK_FILE, path, err);

	if (ret < 0)
		return ret;
	if (!clock->known) {
		if (unlink(path) < 0 && errno != ENOENT)
			return mk_error_errno(err, errno, "cannot remove '%s'", path);
		return 0;
	}
	if (mk_api_clock_read(state_dir, &written, NULL) == 0 && is_close(clock, &written))
		return 0;
	ret = read_boot_id(boot_id, err);
	if (ret < 0)
		return ret;
	ret = mk_state_file_begin(&file, state_dir, MK_API_CLOCK_FILE, err);
	if (ret < 0)
		return ret;
	fprintf(file.out, "boot_id=%s\nearliest_ms=%" PRId64 "\nlatest_ms=%" PRId64 "\n", boot_id,
		clock->earliest_ms, clock->latest_ms);
	return mk_state_file_write(&file, err);
}

int mk_api_clock_read(const char *state_dir, struct mk_api_clock *clock, struct mk_error *err)
{
	char boot_id[BOOT_ID_BYTES], written[BOOT_ID_BYTES];
	cleanup_free char *text = NULL;
	int ret = read_boot_id(boot_id, err);

	*clock = (struct mk_api_clock){ 0 };
	if (ret < 0)
		return ret;
	ret = mk_state_file_read(state_dir, MK_API_CLOCK_FILE, &text, err);
	if (ret <= 0)
		return ret;
	if (sscanf(text, "boot_id=%39s\nearliest_ms=%" SCNd64 "\nlatest_ms=%" SCNd64, written,
		   &clock->earliest_ms, &clock->latest_ms) != 3)
		return mk_error_set(err, EINVAL,
				    "'%s/" MK_API_CLOCK_FILE
				    "' was not written by the agent: remove it",
				    state_dir);
	clock->known = strcmp(written, boot_id) == 0;
	return 0;
}

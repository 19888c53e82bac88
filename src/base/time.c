// SPDX-License-Identifier: Apache-2.0
#include "base/time.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

uint64_t mk_time_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * MK_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Take a number of exactly @digits digits, then @end. */
static int take_number(const char **text, int digits, char end, int min, int max, int *number)
{
	int value = 0;

	for (int i = 0; i < digits; i++, (*text)++) {
		if (**text < '0' || **text > '9')
			return -EINVAL;
		value = value * 10 + (**text - '0');
	}
	if (value < min || value > max || (end && **text != end))
		return -EINVAL;
	*text += end ? 1 : 0;
	*number = value;
	return 0;
}

static int take_date(const char **text, struct tm *utc)
{
	if (take_number(text, 4, '-', 1970, 2261, &utc->tm_year) < 0 ||
	    take_number(text, 2, '-', 1, 12, &utc->tm_mon) < 0 ||
	    take_number(text, 2, 'T', 1, 31, &utc->tm_mday) < 0 ||
	    take_number(text, 2, ':', 0, 23, &utc->tm_hour) < 0 ||
	    take_number(text, 2, ':', 0, 59, &utc->tm_min) < 0 ||
	    take_number(text, 2, '\0', 0, 60, &utc->tm_sec) < 0)
		return -EINVAL;
	utc->tm_year -= 1900;
	utc->tm_mon -= 1;
	return 0;
}

/* Digits after the ninth are ignored: they are below a nanosecond. */
static int take_fraction(const char **text, int64_t *ns)
{
	int64_t unit = MK_NS_PER_S / 10;

	*ns = 0;
	if (**text != '.')
		return 0;
	(*text)++;
	if (**text < '0' || **text > '9')
		return -EINVAL;
	for (; **text >= '0' && **text <= '9'; (*text)++, unit /= 10)
		*ns += (**text - '0') * unit;
	return 0;
}

static int take_offset(const char **text, int64_t *seconds)
{
	bool west = **text == '-';
	int hours, minutes;

	*seconds = 0;
	if (**text == 'Z') {
		(*text)++;
		return 0;
	}
	if (**text != '+' && !west)
		return -EINVAL;
	(*text)++;
	if (take_number(text, 2, ':', 0, 23, &hours) < 0 ||
	    take_number(text, 2, '\0', 0, 59, &minutes) < 0)
		return -EINVAL;
	*seconds = (west ? -1 : 1) * (hours * 3600LL + minutes * 60LL);
	return 0;
}

int mk_time_parse(const char *text, int64_t *unix_ns)
{
	struct tm utc = { 0 };
	int64_t fraction_ns, offset_s;
	int day, seconds;

	if (take_date(&text, &utc) < 0 || take_fraction(&text, &fraction_ns) < 0 ||
	    take_offset(&text, &offset_s) < 0 || *text)
		return -EINVAL;
	day = utc.tm_mday;
	seconds = utc.tm_sec; /* 60 in a leap second, which counts as the next minute's first */
	utc.tm_sec = 0;
	*unix_ns = ((int64_t)timegm(&utc) + seconds - offset_s) * MK_NS_PER_S + fraction_ns;
	return utc.tm_mday == day ? 0 : -EINVAL; /* no 31 February */
}

static int take_month(const char **text, int *month)
{
	static const char names[][5] = { "Jan ", "Feb ", "Mar ", "Apr ", "May ", "Jun ",
					 "Jul ", "Aug ", "Sep ", "Oct ", "Nov ", "Dec " };

	for (*month = 0; *month < 12; ++*month)
		if (strncmp(*text, names[*month], 4) == 0) {
			*text += 4;
			return 0;
		}
	return -EINVAL;
}

/* The day of the week is ignored. */
int mk_time_parse_http(const char *text, int64_t *unix_s)
{
	struct tm utc = { 0 };

	if (strlen(text) < 5 || text[3] != ',' || text[4] != ' ')
		return -EINVAL;
	text += 5;
	if (take_number(&text, 2, ' ', 1, 31, &utc.tm_mday) < 0 ||
	    take_month(&text, &utc.tm_mon) < 0 ||
	    take_number(&text, 4, ' ', 1970, 9999, &utc.tm_year) < 0 ||
	    take_number(&text, 2, ':', 0, 23, &utc.tm_hour) < 0 ||
	    take_number(&text, 2, ':', 0, 59, &utc.tm_min) < 0 ||
	    take_number(&text, 2, ' ', 0, 60, &utc.tm_sec) < 0 || strcmp(text, "GMT") != 0)
		return -EINVAL;
	utc.tm_year -= 1900;
	*unix_s = (int64_t)timegm(&utc);
	return 0;
}

const char *mk_time_format(int64_t unix_ns, char *buf)
{
	time_t seconds = (time_t)(unix_ns / MK_NS_PER_S);
	size_t used;
	struct tm utc;

	gmtime_r(&seconds, &utc);
	used = strftime(buf, MK_TIME_STRLEN, "%Y-%m-%dT%H:%M:%S", &utc);
	used += (size_t)snprintf(buf + used, MK_TIME_STRLEN - used, ".%09d",
				 (int)(unix_ns % MK_NS_PER_S));
	while (buf[used - 1] == '0')
		used--;
	if (buf[used - 1] == '.')
		used--;
	strcpy(buf + used, "Z");
	return buf;
}

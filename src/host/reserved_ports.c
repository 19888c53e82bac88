// SPDX-License-Identifier: Apache-2.0
/* The ports that the host must not take (net.ipv4.ip_local_reserved_ports). */
#include "host/sysctl.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "host/host_internal.h"

#define PORTS 65536

struct ports {
	bool has[PORTS];
};

static void set_all(struct ports *ports, const char *list, bool value)
{
	unsigned int low, high;
	int used;

	while (sscanf(list, "%u%n", &low, &used) == 1) {
		list += used;
		high = low;
		if (sscanf(list, "-%u%n", &high, &used) == 1)
			list += used;
		for (unsigned int port = low; port <= high && port < PORTS; port++)
			ports->has[port] = value;
		list += *list == ',';
	}
}

static int print_range(unsigned int low, unsigned int high, char *out, size_t size, size_t *at)
{
	const char *comma = *at ? "," : "";
	int used = low == high ? snprintf(out + *at, size - *at, "%s%u", comma, low)
			       : snprintf(out + *at, size - *at, "%s%u-%u", comma, low, high);

	*at += (size_t)used;
	return *at < size ? 0 : -1;
}

static int print_all(const struct ports *ports, char *out, size_t size, struct mk_error *err)
{
	size_t at = 0;
	int ret = 0;

	*out = '\0';
	for (unsigned int low = 0, high; ret == 0 && low < PORTS; low = high + 1) {
		high = low;
		if (!ports->has[low])
			continue;
		while (high + 1 < PORTS && ports->has[high + 1])
			high++;
		ret = print_range(low, high, out, size, &at);
	}
	return ret == 0 ? 0 : mk_error_set(err, E2BIG, "the list of reserved ports is too long");
}

int mk_reserved_ports_add(const char *list, const char *ranges, char *out, size_t size,
			  struct mk_error *err)
{
	struct ports before = { 0 }, after;
	int ret;

	set_all(&before, list, true);
	after = before;
	set_all(&after, ranges, true);
	if (memcmp(&before, &after, sizeof(after)) == 0)
		return 1;
	ret = print_all(&after, out, size, err);
	return ret;
}

int reserved_ports_remove(const char *list, const char *ranges, const char *keep, char *out,
			  size_t size, struct mk_error *err)
{
	struct ports now = { 0 }, ours = { 0 };

	set_all(&now, list, true);
	set_all(&ours, ranges, true);
	set_all(&ours, keep, false);
	for (unsigned int port = 0; port < PORTS; port++)
		now.has[port] &= !ours.has[port];
	return print_all(&now, out, size, err);
}

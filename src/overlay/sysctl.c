// SPDX-License-Identifier: Apache-2.0
#include "overlay/sysctl.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "config/config.h"

#define IPV4	       "/proc/sys/net/ipv4/"
#define RESERVED_PORTS IPV4 "ip_local_reserved_ports"
#define IP_FORWARD     IPV4 "ip_forward"
/* Answers to the host from an address of its own come in by the loopback device, where nobody else's
 * packets do. */
#define LO_ACCEPT_LOCAL IPV4 "conf/lo/accept_local"
/* ... and from a loopback address. */
#define LO_ROUTE_LOCALNET IPV4 "conf/lo/route_localnet"
#define MAX_TEXT	  65536

/* ---- ip_local_reserved_ports -------------------------------------------------------------------- */

/* How far the ports from @from on are in @list without a gap; @from - 1: not at all. The kernel
 * prints the list sorted and merged, so one piece holds them all or there is a gap. */
static unsigned int covered_to(const char *list, unsigned int from)
{
	unsigned int low, high;
	int used;

	while (sscanf(list, "%u%n", &low, &used) == 1) {
		list += used;
		high = low;
		if (sscanf(list, "-%u%n", &high, &used) == 1)
			list += used;
		if (low <= from && from <= high)
			return high;
		list += *list == ',';
	}
	return from - 1;
}

int mk_reserved_ports_add(const char *list, uint16_t min, uint16_t max, char *out, size_t size,
			  struct mk_error *err)
{
	size_t used = strcspn(list, "\n");

	if (covered_to(list, min) >= max)
		return 1;
	if (snprintf(out, size, "%.*s%s%u-%u", (int)used, list, used ? "," : "", min, max) >=
	    (int)size)
		return mk_error_set(err, E2BIG, "'%s' is too long", RESERVED_PORTS);
	return 0;
}

/* ---- memory -------------------------------------------------------------------------------------- */

static int memory_path(const char *state_dir, char *path, struct mk_error *err)
{
	if (snprintf(path, PATH_MAX, "%s/sysctls", state_dir) >= PATH_MAX)
		return mk_error_set(err, ENAMETOOLONG, "state directory '%s'", state_dir);
	return 0;
}

/* Lines "path=value before"; the first word about a path stays: it is from before our first run. */
static int remember(const char *state_dir, const char *path, const char *before,
		    struct mk_error *err)
{
	cleanup_free char *text = NULL, *more = NULL;
	char file[PATH_MAX];
	int ret = memory_path(state_dir, file, err);

	if (ret < 0)
		return ret;
	ret = mk_file_read(file, MAX_TEXT, &text, NULL, err);
	if (ret < 0 && ret != -ENOENT)
		return ret;
	if (text && strstr(text, path))
		return 0;
	if (asprintf(&more, "%s%s=%.*s\n", text ? text : "", path, (int)strcspn(before, "\n"),
		     before) < 0)
		return mk_error_errno(err, ENOMEM, "cannot remember '%s'", path);
	ret = mk_mkdirs(state_dir, 0700, err);
	return ret < 0 ? ret : mk_file_replace(file, more, strlen(more), 0600, err);
}

static int restore_line(char *line, struct mk_error *err)
{
	char *equals = strchr(line, '=');
	int ret;

	if (!equals)
		return 0;
	*equals = '\0';
	/* an empty list of ports is written as a lone newline: a write of nothing changes nothing */
	ret = mk_sysctl_set(line, equals[1] ? equals + 1 : "\n", err);
	if (ret > 0)
		mk_log_info("kernel setting put back %s=%s", line, equals + 1);
	return ret;
}

int mk_sysctls_restore(const char *state_dir, struct mk_error *err)
{
	cleanup_free char *text = NULL;
	char file[PATH_MAX], *rest = NULL;
	int restored = 0, ret = memory_path(state_dir, file, err);

	if (ret < 0)
		return ret;
	ret = mk_file_read(file, MAX_TEXT, &text, NULL, err);
	if (ret == -ENOENT)
		return 0;
	if (ret < 0)
		return ret;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		ret = restore_line(line, err);
		if (ret < 0)
			return ret;
		restored += ret;
	}
	if (unlink(file) < 0)
		return mk_error_errno(err, errno, "cannot remove '%s'", file);
	return restored;
}

/* ---- setting ------------------------------------------------------------------------------------- */

static int set_and_say(const struct mk_sysctl_wanted *wanted, const char *path, const char *value,
		       struct mk_error *err)
{
	int ret = mk_sysctl_set(path, value, err);

	if (ret > 0 && wanted->again)
		mk_log_warn("kernel setting was changed by somebody else and is put back %s=%s",
			    path, value);
	else if (ret > 0)
		mk_log_info("kernel setting changed %s=%s", path, value);
	return ret;
}

static int set_for_host(const struct mk_sysctl_wanted *wanted, const char *path, const char *value,
			struct mk_error *err)
{
	cleanup_free char *before = NULL;
	int ret = mk_file_read(path, MAX_TEXT, &before, NULL, err);

	if (ret < 0)
		return ret;
	before[strcspn(before, "\n")] = '\0';
	if (strcmp(before, value) == 0)
		return 0;
	ret = remember(wanted->state_dir, path, before, err);
	return ret < 0 ? ret : set_and_say(wanted, path, value, err);
}

/* Ports that NAT takes for masqueraded flows, the host's own sockets must not be given. */
static int reserve_ports(const struct mk_sysctl_wanted *wanted, struct mk_error *err)
{
	cleanup_free char *before = NULL, *list = malloc(MAX_TEXT);
	int ret = mk_file_read(RESERVED_PORTS, MAX_TEXT, &before, NULL, err);

	if (ret < 0)
		return ret;
	if (!list)
		return mk_error_errno(err, ENOMEM, "cannot set '%s'", RESERVED_PORTS);
	ret = mk_reserved_ports_add(before, wanted->nat_port_min, wanted->nat_port_max, list,
				    MAX_TEXT, err);
	if (ret != 0)
		return ret < 0 ? ret : 0;
	return set_for_host(wanted, RESERVED_PORTS, list, err);
}

/* IPv4 only: no router solicitations of the kernel's own through the datapath. Reverse path
 * filtering stays as it is: a packet for the host arrives on the device that leads back, but for
 * several uplinks, of which `monokube check` tells. */
static int set_device(const struct mk_sysctl_wanted *wanted, const char *name, struct mk_error *err)
{
	char path[256];

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/disable_ipv6", name);
	return access(path, F_OK) == 0 ? set_and_say(wanted, path, "1", err) : 0;
}

int mk_sysctls_apply(const struct mk_sysctl_wanted *wanted, struct mk_error *err)
{
	static const char *const switches[] = { IP_FORWARD, LO_ACCEPT_LOCAL, LO_ROUTE_LOCALNET };
	const char *const devices[] = { MK_HOST_VETH, MK_HOST_PEER, wanted->vxlan_name };
	int changed, ret = reserve_ports(wanted, err);

	changed = ret;
	for (size_t i = 0; ret >= 0 && i < MK_ARRAY_SIZE(switches); i++) {
		ret = set_for_host(wanted, switches[i], "1", err);
		changed += ret;
	}
	for (size_t i = 0; ret >= 0 && i < MK_ARRAY_SIZE(devices); i++) {
		ret = set_device(wanted, devices[i], err);
		changed += ret;
	}
	return ret < 0 ? ret : changed;
}

/* ---- what is only looked at ------------------------------------------------------------------------ */

static int read_filter(const char *device, struct mk_error *err)
{
	cleanup_free char *text = NULL;
	char path[PATH_MAX];
	int ret;

	snprintf(path, sizeof(path), IPV4 "conf/%s/rp_filter", device);
	ret = mk_file_read(path, MAX_TEXT, &text, NULL, err);
	return ret < 0 ? ret : (int)strtol(text, NULL, 10);
}

int mk_reverse_path_filter(const char *device, struct mk_error *err)
{
	int all = read_filter("all", err), own;

	if (all < 0)
		return all;
	own = read_filter(device, err);
	return own < 0 || own > all ? own : all;
}

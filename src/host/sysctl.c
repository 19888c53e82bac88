// SPDX-License-Identifier: Apache-2.0
#include "host/sysctl.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/state_file.h"
#include "config/config.h"
#include "host/host_internal.h"

#define IPV4	       "/proc/sys/net/ipv4/"
#define IPV6	       "/proc/sys/net/ipv6/"
#define RESERVED_PORTS IPV4 "ip_local_reserved_ports"
#define IP_FORWARD     IPV4 "ip_forward"
/* Replies to the host from an address of its own arrive by the loopback device, which no
 * outside packet can use. */
#define LO_ACCEPT_LOCAL IPV4 "conf/lo/accept_local"
/* ... and replies from a loopback address. */
#define LO_ROUTE_LOCALNET IPV4 "conf/lo/route_localnet"
#define MAX_TEXT	  65536

/* ---- memory ---------------------------------------------------------------------------------- */

/* Returns the rest of the line of @text that begins with @begin, or NULL. */
static char *find_line(const char *text, const char *begin)
{
	size_t length = strlen(begin);

	for (const char *at = text; at && *at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, begin, length) == 0)
			return strndup(at + length, strcspn(at + length, "\n"));
	}
	return NULL;
}

/* Like find_line(), for the line that begins with @word and @path. */
static char *recall(const char *text, const char *word, const char *path, char end)
{
	char begin[PATH_MAX + 16];

	snprintf(begin, sizeof(begin), "%s%s%c", word, path, end);
	return find_line(text, begin);
}

/* The file has two kinds of lines. "path=value" is the value from before our first run,
 * written once. "ours path value" is what we set, newest first; it has no '=', so versions
 * that do not know it skip it. Other software may write the value that we have set, as Docker
 * does with ip_forward. The kernel does not say who wrote a value, or that it was written again.
 * So such a setting goes back, too, and `monokube cleanup` reports it. */
static int remember(const char *state_dir, const char *path, const char *before, const char *ours,
		    struct mk_error *err)
{
	cleanup_free char *text = NULL, *known = NULL, *last = NULL;
	cleanup_free char *all = malloc(MAX_TEXT);
	struct mk_state_file file;
	int ret = mk_state_file_read(state_dir, MK_SYSCTLS_FILE, &text, err);

	if (ret < 0)
		return ret;
	known = recall(text, "", path, '=');
	last = recall(text, "ours ", path, ' ');
	/* ports of a former range stay ours */
	if (all && last && strcmp(path, RESERVED_PORTS) == 0)
		ours = mk_reserved_ports_add(last, ours, all, MAX_TEXT, NULL) == 0 ? all : last;
	if (known && last && strcmp(last, ours) == 0)
		return 0;
	ret = mk_mkdirs(state_dir, 0700, err);
	ret = ret ?: mk_state_file_begin(&file, state_dir, MK_SYSCTLS_FILE, err);
	if (ret < 0)
		return ret;
	fprintf(file.out, "ours %s %s\n%s", path, ours, text ? text : "");
	if (!known)
		fprintf(file.out, "%s=%.*s\n", path, (int)strcspn(before, "\n"), before);
	return mk_state_file_write(&file, err);
}

/* Compute the value that @path must get back; "": leave it, because others
 * have changed it since. */
static int value_again(const char *path, const char *before, const char *ours, char *again,
		       size_t size, struct mk_error *err)
{
	cleanup_free char *now = NULL;
	int ret = mk_file_read(path, MAX_TEXT, &now, NULL, err);

	if (ret < 0)
		return ret;
	now[strcspn(now, "\n")] = '\0';
	if (strcmp(path, RESERVED_PORTS) == 0 && ours) {
		ret = reserved_ports_remove(now, ours, before, again, size - 1, err);
		/* an empty list is written as a single newline: writing nothing changes nothing */
		return ret < 0 || *again ? ret : snprintf(again, size, "\n") < 0;
	}
	snprintf(again, size, "%s",
		 ours && strcmp(now, ours) != 0 ? "" : (*before ? before : "\n"));
	return 0;
}

static int restore_line(const char *text, char *line, struct mk_error *err)
{
	cleanup_free char *ours = NULL, *again = malloc(MAX_TEXT);
	char *equals = strchr(line, '=');
	int ret;

	if (!equals)
		return 0;
	*equals = '\0';
	if (!again)
		return mk_error_errno(err, ENOMEM, "cannot put '%s' back", line);
	ours = recall(text, "ours ", line, ' ');
	ret = value_again(line, equals + 1, ours, again, MAX_TEXT, err);
	if (ret == -ENOENT) /* a device that is gone */
		return 0;
	if (ret == 0 && !*again)
		mk_log_info("kernel setting was changed by others and stays %s", line);
	if (ret < 0 || !*again)
		return ret;
	ret = mk_sysctl_set(line, again, err);
	if (ret > 0)
		mk_log_info("kernel setting put back %s=%.*s", line, (int)strcspn(again, "\n"),
			    again);
	return ret;
}

int mk_sysctls_restore(const char *state_dir, struct mk_error *err)
{
	cleanup_free char *text = NULL, *lines = NULL;
	char file[PATH_MAX], *rest = NULL;
	int restored = 0, ret = mk_state_path(state_dir, MK_SYSCTLS_FILE, file, err);

	ret = ret ?: mk_state_file_read(state_dir, MK_SYSCTLS_FILE, &text, err);
	if (ret <= 0)
		return ret;
	lines = strdup(text);
	if (!lines)
		return mk_error_errno(err, ENOMEM, "cannot read '%s'", file);
	for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		ret = restore_line(text, line, err);
		if (ret < 0)
			return ret;
		restored += ret;
	}
	if (unlink(file) < 0)
		return mk_error_errno(err, errno, "cannot remove '%s'", file);
	return restored;
}

/* ---- setting --------------------------------------------------------------------------------- */

static int set_and_say(bool again, const char *path, const char *value, struct mk_error *err)
{
	int ret = mk_sysctl_set(path, value, err);

	if (ret > 0 && again)
		mk_log_warn("kernel setting was changed by another process and is put back %s=%s",
			    path, value);
	else if (ret > 0)
		mk_log_info("kernel setting changed %s=%s", path, value);
	return ret;
}

static int set_for_host(const struct mk_sysctl_wanted *wanted, const char *path, const char *value,
			const char *ours, struct mk_error *err)
{
	cleanup_free char *before = NULL;
	int ret = mk_file_read(path, MAX_TEXT, &before, NULL, err);

	if (ret < 0)
		return ret;
	before[strcspn(before, "\n")] = '\0';
	if (strcmp(before, value) == 0)
		return 0;
	ret = remember(wanted->state_dir, path, before, ours, err);
	return ret < 0 ? ret : set_and_say(wanted->again, path, value, err);
}

/* Reserve ports that the host's own sockets must not get: those for
 * masqueraded flows, and NodePorts. */
static int reserve_ports(const struct mk_sysctl_wanted *wanted, struct mk_error *err)
{
	cleanup_free char *before = NULL, *list = malloc(MAX_TEXT);
	int ret = mk_file_read(RESERVED_PORTS, MAX_TEXT, &before, NULL, err);

	if (ret < 0)
		return ret;
	if (!list)
		return mk_error_errno(err, ENOMEM, "cannot set '%s'", RESERVED_PORTS);
	ret = mk_reserved_ports_add(before, wanted->reserved_ports, list, MAX_TEXT, err);
	if (ret != 0)
		return ret < 0 ? ret : 0;
	return set_for_host(wanted, RESERVED_PORTS, list, wanted->reserved_ports, err);
}

/* Disable IPv6, so that the kernel sends no router solicitations through the datapath. Reverse path
 * filtering stays as it is: a packet for the host arrives on the device that leads back. With
 * several uplinks it may not; `monokube check` reports that. */
static int silence_device(const char *name, bool again, struct mk_error *err)
{
	char path[256];

	snprintf(path, sizeof(path), IPV6 "conf/%s/disable_ipv6", name);
	return access(path, F_OK) == 0 ? set_and_say(again, path, "1", err) : 0;
}

int mk_sysctls_ipv6_device(const char *name, bool again, struct mk_error *err)
{
	/* disable_ipv6 last: only then does the kernel do anything with the device */
	static const char *const settings[] = { "accept_ra", "accept_redirects", "disable_ipv6" };
	int changed = 0;

	for (size_t i = 0; i < MK_ARRAY_SIZE(settings); i++) {
		char path[256];
		int ret;

		snprintf(path, sizeof(path), IPV6 "conf/%s/%s", name, settings[i]);
		ret = set_and_say(again, path, "0", err);
		if (ret < 0)
			return ret;
		changed += ret;
	}
	return changed;
}

bool mk_kernel_has_ipv6(void)
{
	return access(IPV6 "conf", F_OK) == 0;
}

/* Inside WireGuard the nodes have their own addresses, to which the uplink leads back. The kernel
 * takes the greater value of this setting and the one for all devices. */
static int set_wireguard(const struct mk_sysctl_wanted *wanted, struct mk_error *err)
{
	char path[256];
	int changed, ret;

	if (!wanted->wg_name)
		return 0;
	snprintf(path, sizeof(path), IPV4 "conf/%s/rp_filter", wanted->wg_name);
	changed = set_and_say(wanted->again, path, "2", err);
	if (changed < 0)
		return changed;
	ret = silence_device(wanted->wg_name, wanted->again, err);
	if (ret < 0)
		return ret;
	changed += ret;
	if (wanted->wg_peer_name)
		ret = silence_device(wanted->wg_peer_name, wanted->again, err);
	else
		ret = 0;
	return ret < 0 ? ret : changed + ret;
}

/* Only the host's end of the veth pair and the VXLAN device have addresses. */
static int set_devices(const struct mk_sysctl_wanted *wanted, struct mk_error *err)
{
	const char *const devices[] = { MK_HOST_VETH, wanted->vxlan_name };
	int changed = silence_device(MK_HOST_PEER, wanted->again, err), ret = changed;

	if (ret >= 0)
		ret = silence_device(wanted->sfc_name, wanted->again, err);
	changed += ret;
	if (ret >= 0 && wanted->peer_name) {
		ret = silence_device(wanted->peer_name, wanted->again, err);
		changed += ret;
	}
	if (ret >= 0) {
		ret = set_wireguard(wanted, err);
		changed += ret;
	}
	for (size_t i = 0; ret >= 0 && i < MK_ARRAY_SIZE(devices); i++) {
		ret = wanted->ipv6 ? mk_sysctls_ipv6_device(devices[i], wanted->again, err)
				   : silence_device(devices[i], wanted->again, err);
		changed += ret;
	}
	return ret < 0 ? ret : changed;
}

void mk_reserved_ranges(const struct mk_config *config, char text[MK_RESERVED_RANGES_BYTES])
{
	snprintf(text, MK_RESERVED_RANGES_BYTES, "%u-%u,%u-%u", config->node_port_min,
		 config->node_port_max, config->nat_port_min, config->nat_port_max);
}

/* Settings of IPv4 that IPv6 has no counterpart of. */
static int set_switches(const struct mk_sysctl_wanted *wanted, struct mk_error *err)
{
	static const char *const switches[] = { IP_FORWARD, LO_ACCEPT_LOCAL, LO_ROUTE_LOCALNET };
	int changed = 0, ret = 0;

	if (!wanted->ipv4)
		return 0;
	for (size_t i = 0; ret >= 0 && i < MK_ARRAY_SIZE(switches); i++) {
		ret = set_for_host(wanted, switches[i], "1", "1", err);
		changed += ret;
	}
	return ret < 0 ? ret : changed;
}

/* When any device begins to forward, the kernel removes the default routes that it learned from
 * router advertisements, except on devices with accept_ra 2. So change 1 to 2 first. */
static int keep_advertised_routes(const struct mk_sysctl_wanted *wanted, struct mk_error *err)
{
	int changed = 0;

	for (size_t i = 0; i < wanted->uplink_count; i++) {
		cleanup_free char *now = NULL;
		char path[256];
		int ret;

		snprintf(path, sizeof(path), IPV6 "conf/%s/accept_ra", wanted->uplinks[i]);
		ret = mk_file_read(path, MAX_TEXT, &now, NULL, err);
		if (ret == -ENOENT) /* gone, or without IPv6 */
			continue;
		if (ret == 0 && strcmp(now, "1\n") == 0)
			ret = set_for_host(wanted, path, "2", "2", err);
		if (ret < 0)
			return ret;
		changed += ret;
	}
	return changed;
}

static int forward_ipv6(const struct mk_sysctl_wanted *wanted, struct mk_error *err)
{
	int changed, ret;

	if (!wanted->ipv6 || !wanted->forward_ipv6)
		return 0;
	changed = keep_advertised_routes(wanted, err);
	if (changed < 0)
		return changed;
	ret = set_and_say(wanted->again, IPV6 "conf/" MK_HOST_VETH "/forwarding", "1", err);
	return ret < 0 ? ret : changed + ret;
}

/* Set @name of each uplink that exists and has the family of @dir. */
static int set_uplinks(const struct mk_sysctl_wanted *wanted, const char *dir, const char *name,
		       const char *value, struct mk_error *err)
{
	int changed = 0;

	for (size_t i = 0; i < wanted->uplink_count; i++) {
		char path[256];
		int ret;

		snprintf(path, sizeof(path), "%sconf/%s/%s", dir, wanted->uplinks[i], name);
		ret = access(path, F_OK) < 0 ? 0 : set_for_host(wanted, path, value, value, err);
		if (ret < 0)
			return ret;
		changed += ret;
	}
	return changed;
}

/* The host's own packets to pods have the overlay's address as source, by an uplink with setting
 * routing. ARP would ask with that address: a node that replies then remembers it, and not the
 * address by which it knows this node. IPv6 would ask with the link-local address. If the uplink
 * gets another MAC address, other nodes would use the old one for half a minute. So the kernel must
 * announce it. For a new uplink, see src/agent/node/greet.c. */
static int announce_uplinks(const struct mk_sysctl_wanted *wanted, struct mk_error *err)
{
	int changed = 0, ret = 0;

	if (!wanted->is_direct)
		return 0;
	if (wanted->ipv4)
		changed = set_uplinks(wanted, IPV4, "arp_announce", "2", err);
	if (wanted->ipv6 && changed >= 0)
		ret = set_uplinks(wanted, IPV6, "ndisc_notify", "1", err);
	return changed < 0 ? changed : ret < 0 ? ret : changed + ret;
}

int mk_sysctls_apply(const struct mk_sysctl_wanted *wanted, struct mk_error *err)
{
	static int (*const steps[])(const struct mk_sysctl_wanted *,
				    struct mk_error *) = { reserve_ports, set_switches, set_devices,
							   forward_ipv6, announce_uplinks };
	int changed = 0, ret;

	for (size_t i = 0; i < MK_ARRAY_SIZE(steps); i++) {
		ret = steps[i](wanted, err);
		if (ret < 0)
			return ret;
		changed += ret;
	}
	return changed;
}

/* ---- the table of neighbours ----------------------------------------------------------------- */

static int raise_limit(const char *state_dir, const char *path, size_t least, struct mk_error *err)
{
	cleanup_free char *now = NULL;
	char value[24];
	int ret = mk_file_read(path, 64, &now, NULL, err);

	if (ret == -ENOENT)
		return 0;
	if (ret < 0 || strtoul(now, NULL, 10) >= least)
		return ret;
	snprintf(value, sizeof(value), "%zu", least);
	ret = remember(state_dir, path, now, value, err);
	return ret < 0 ? ret : set_and_say(false, path, value, err);
}

int mk_sysctl_neighbours(const char *state_dir, sa_family_t family, size_t nodes,
			 struct mk_error *err)
{
	const char *dir = family == AF_INET6 ? IPV6 : IPV4;
	char path[64];
	size_t room = 1;
	int ret;

	while (room < 2 * nodes)
		room *= 2;
	snprintf(path, sizeof(path), "%sneigh/default/gc_thresh3", dir);
	ret = raise_limit(state_dir, path, 2 * room, err);
	snprintf(path, sizeof(path), "%sneigh/default/gc_thresh2", dir);
	if (ret >= 0)
		ret = raise_limit(state_dir, path, room, err);
	if (ret < 0)
		return mk_error_wrap(err, "cannot make room for %zu nodes on the link", nodes);
	if (ret > 0)
		mk_log_info(
			"the kernel's table of neighbours has room for the %zu nodes on the link",
			nodes);
	return 0;
}

/* ---- settings that are only read ------------------------------------------------------------- */

static int read_of_device(const char *device, const char *setting, struct mk_error *err)
{
	cleanup_free char *text = NULL;
	char path[PATH_MAX];
	int ret;

	snprintf(path, sizeof(path), IPV4 "conf/%s/%s", device, setting);
	ret = mk_file_read(path, MAX_TEXT, &text, NULL, err);
	return ret < 0 ? ret : (int)strtol(text, NULL, 10);
}

/* The larger one of the device's value and that of all devices counts. */
static int read_larger(const char *device, const char *setting, struct mk_error *err)
{
	int all = read_of_device("all", setting, err), own;

	if (all < 0)
		return all;
	own = read_of_device(device, setting, err);
	return own < 0 || own > all ? own : all;
}

int mk_reverse_path_filter(const char *device, struct mk_error *err)
{
	return read_larger(device, "rp_filter", err);
}

int mk_arp_ignore(const char *device, struct mk_error *err)
{
	return read_larger(device, "arp_ignore", err);
}

// SPDX-License-Identifier: Apache-2.0
/* Checksum offload of a device, by ioctl. */
#include "base/netlink/netlink.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/cleanup.h"

static int ask(const char *device, struct ethtool_value *value, struct mk_error *err)
{
	cleanup_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { .ifr_data = (void *)value };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", device);
	if (fd < 0 || ioctl(fd, SIOCETHTOOL, &request) < 0)
		return mk_error_errno(err, errno, "checksum offload of interface '%s'", device);
	return 0;
}

int mk_offload_checksums_off(const char *device, struct mk_error *err)
{
	struct ethtool_value value = { .cmd = ETHTOOL_STXCSUM, .data = 0 };

	return ask(device, &value, err);
}

int mk_offload_checksums(const char *device, struct mk_error *err)
{
	struct ethtool_value value = { .cmd = ETHTOOL_GTXCSUM };
	int ret = ask(device, &value, err);

	return ret < 0 ? ret : value.data != 0;
}

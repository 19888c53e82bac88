/* SPDX-License-Identifier: Apache-2.0 */
/* src/host/sysctl.h - kernel settings that the datapath needs. Changes are logged, and recorded
 * in the state directory, so that `monokube cleanup` can undo them. */
#ifndef MK_HOST_SYSCTL_H
#define MK_HOST_SYSCTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"
#include "config/config.h"

/* The file in the state directory. */
#define MK_SYSCTLS_FILE "sysctls"

struct mk_sysctl_wanted {
	bool ipv4, ipv6; /* families of the pods' addresses */
	const char *vxlan_name, *sfc_name;
	const char *peer_name; /* NULL: no device to other clusters */
	const char *wg_name, *wg_peer_name; /* NULL: no such device */
	const char *reserved_ports; /* mk_reserved_ranges() */
	const char *state_dir;
	/* Pods of IPv6: the programs ask the kernel for ways of packets from mkhost0, and for other
	 * nodes' MAC addresses. It answers only if it forwards there. */
	bool forward_ipv6;
	bool is_direct; /* packets to other nodes may leave by an uplink without VXLAN */
	const char *const *uplinks; /* names; they keep their default routes from advertisements */
	size_t uplink_count;
	bool again; /* they were right before: log that another process changed them */
};
/* Returns how many had to be set. */
mk_must_check int mk_sysctls_apply(const struct mk_sysctl_wanted *wanted, struct mk_error *err);
/* Have IPv6 on our device @name, without router advertisements and redirects. The caller sets
 * addr_gen_mode. @again: as above. Returns how many had to be set. */
mk_must_check int mk_sysctls_ipv6_device(const char *name, bool again, struct mk_error *err);
/* Does the kernel run IPv6? It does not with ipv6.disable=1, or without the module. */
bool mk_kernel_has_ipv6(void);
/* Format the ports that no socket of the host may get by chance, as "30000-32767,49152-65535". */
#define MK_RESERVED_RANGES_BYTES 24
void mk_reserved_ranges(const struct mk_config *config, char text[MK_RESERVED_RANGES_BYTES]);

/* Have room in the kernel's table of neighbours for @nodes that are on a link: gc_thresh2 at least
 * twice and gc_thresh3 at least four times as many, as powers of two. A full table refuses every
 * new neighbour, also the host's own ("No buffer space available"). Larger limits stay. In a
 * network namespace other than the host's first one, the kernel has no such settings: nothing is
 * done. https://docs.kernel.org/networking/ip-sysctl.html */
mk_must_check int mk_sysctl_neighbours(const char *state_dir, sa_family_t family, size_t nodes,
				       struct mk_error *err);

/* Undo what mk_sysctls_apply() and mk_sysctl_neighbours() changed for the whole host, except what
 * others have changed since. Returns how many. */
mk_must_check int mk_sysctls_restore(const char *state_dir, struct mk_error *err);

/* Returns how strictly the kernel checks by which device a packet for the host itself comes in
 * (rp_filter). 0: off; 1: only by the device that leads back; 2: by any device that a route uses.
 * The value is the greater of the settings "all" and @device. -ENOENT: no such device. */
mk_must_check int mk_reverse_path_filter(const char *device, struct mk_error *err);
/* Returns arp_ignore, also the greater of both. 0: @device answers ARP requests for every address
 * of the host. */
mk_must_check int mk_arp_ignore(const char *device, struct mk_error *err);

/* Port lists in the form of net.ipv4.ip_local_reserved_ports, "8080,9148-9150". Pure. */

/* Returns 1 if @list contains every port of @ranges. Otherwise returns 0, and
 * @out is both together. */
mk_must_check int mk_reserved_ports_add(const char *list, const char *ranges, char *out,
					size_t size, struct mk_error *err);

#endif

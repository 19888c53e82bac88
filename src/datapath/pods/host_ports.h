/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/pods/host_ports.h - host ports that lead to pods (hostPort): map `host_ports` of
 * each family. The CNI mode opens it by its pin. Changes take a lock of their own, after the
 * datapath's and the address directory's. After each change a runtime setting tells the programs
 * whether the table has entries. */
#ifndef MK_DATAPATH_PODS_HOST_PORTS_H
#define MK_DATAPATH_PODS_HOST_PORTS_H

#include <stdbool.h>
#include <stddef.h>

#include "monokube/abi.h"
#include "base/error.h"
#include "base/ip.h"

struct mk_host_ports;

struct mk_host_port_entry {
	sa_family_t family; /* of the table: the key of any address does not say it */
	struct mk_host_port_key key;
	struct mk_host_port to;
};

/* Open the maps pinned below @bpf_dir. -ENOENT: none is pinned. */
mk_must_check struct mk_host_ports *mk_host_ports_open(const char *bpf_dir, const char *state_dir,
						       struct mk_error *err);
void mk_host_ports_free(struct mk_host_ports *ports);

/* Is the map of @family pinned? */
bool mk_host_ports_has(const struct mk_host_ports *ports, sa_family_t family);

/* Read the entry @key of @family. -ENOENT: the port is not mapped. */
mk_must_check int mk_host_ports_get(struct mk_host_ports *ports, sa_family_t family,
				    const struct mk_host_port_key *key, struct mk_host_port *to,
				    struct mk_error *err);

struct mk_host_ports_state {
	size_t count; /* of entries */
	/* sets of families (1 << mk_family_index()): those with entries, and those for which the
	 * programs' setting says so */
	unsigned int filled, told;
};
mk_must_check int mk_host_ports_state(struct mk_host_ports *ports,
				      struct mk_host_ports_state *state, struct mk_error *err);

/* Does the pod of an entry still exist? 1, 0 or an error. */
struct mk_host_port_judge {
	int (*is_alive)(void *ctx, const struct mk_host_port *to, struct mk_error *err);
	void *ctx;
};

/* Add @count entries; they replace entries whose pod is gone. -EEXIST: a pod that is alive holds
 * one of the ports (*@holder); nothing was added. */
mk_must_check int mk_host_ports_claim(struct mk_host_ports *ports,
				      const struct mk_host_port_entry *entries, size_t count,
				      const struct mk_host_port_judge *judge,
				      struct mk_host_port_entry *holder, struct mk_error *err);
/* Remove the entries of the pod with address @ip (NULL: unknown) or on @ifindex (0: unknown), and
 * cut their sessions. 0 also if there are none. */
mk_must_check int mk_host_ports_remove(struct mk_host_ports *ports, const struct mk_ip *ip,
				       uint32_t ifindex, struct mk_error *err);
/* Remove the entries of pods that are gone, and cut their sessions. Returns the number of
 * entries. */
mk_must_check int mk_host_ports_sweep(struct mk_host_ports *ports,
				      const struct mk_host_port_judge *judge, struct mk_error *err);

static inline void mk_cleanup_host_ports(struct mk_host_ports **ports)
{
	mk_host_ports_free(*ports);
}
#define cleanup_host_ports __attribute__((cleanup(mk_cleanup_host_ports)))

#define MK_HOST_PORT_STRLEN (MK_IP_PORT_STRLEN + sizeof("/sctp"))
/* Write "0.0.0.0:8080/udp" or "[fd00::1]:8080/udp" into @buf of MK_HOST_PORT_STRLEN bytes, and
 * return it. */
const char *mk_host_port_format(const struct mk_host_port_entry *entry, char *buf);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/pods/host_ports.h - ports of this host that lead to pods (containers' hostPorts): map
 * `host_ports`, used by the CNI mode from its pin. Changes are made under a lock of their own, which
 * comes after the datapath's and the address directory's; after each the programs are told whether
 * the table has entries at all. */
#ifndef MK_DATAPATH_PODS_HOST_PORTS_H
#define MK_DATAPATH_PODS_HOST_PORTS_H

#include <stdbool.h>
#include <stddef.h>

#include "monokube/abi.h"
#include "base/error.h"
#include "base/ip.h"

struct mk_host_ports;

struct mk_host_port_entry {
	struct mk_host_port_key key;
	struct mk_host_port to;
};

/* -ENOENT: no such table is pinned below @bpf_dir. */
mk_must_check struct mk_host_ports *mk_host_ports_open(const char *bpf_dir, const char *state_dir,
						       struct mk_error *err);
void mk_host_ports_free(struct mk_host_ports *ports);

/* -ENOENT: nothing leads there. */
mk_must_check int mk_host_ports_get(struct mk_host_ports *ports, const struct mk_host_port_key *key,
				    struct mk_host_port *to, struct mk_error *err);

/* How many entries there are, and whether the programs are told that there are some. */
mk_must_check int mk_host_ports_state(struct mk_host_ports *ports, size_t *count, bool *told,
				      struct mk_error *err);

/* Whether the pod that an entry leads to is still there: 1, 0 or an error. */
struct mk_host_port_judge {
	int (*is_alive)(void *ctx, const struct mk_host_port *to, struct mk_error *err);
	void *ctx;
};

/* Enter @count entries, also in place of those whose pod is gone. -EEXIST: a pod that is alive has
 * one of the ports, *@holder says which; nothing has been entered. */
mk_must_check int mk_host_ports_claim(struct mk_host_ports *ports,
				      const struct mk_host_port_entry *entries, size_t count,
				      const struct mk_host_port_judge *judge,
				      struct mk_host_port_entry *holder, struct mk_error *err);
/* Remove what leads to the pod with address @ip (NULL: not known) or on @ifindex (0: not known),
 * and cut the sessions that came by it. 0 also when there is nothing. */
mk_must_check int mk_host_ports_remove(struct mk_host_ports *ports, const struct mk_ip *ip,
				       uint32_t ifindex, struct mk_error *err);
/* Remove what leads to pods that are gone, likewise. Returns how many entries. */
mk_must_check int mk_host_ports_sweep(struct mk_host_ports *ports,
				      const struct mk_host_port_judge *judge, struct mk_error *err);

static inline void mk_cleanup_host_ports(struct mk_host_ports **ports)
{
	mk_host_ports_free(*ports);
}
#define cleanup_host_ports __attribute__((cleanup(mk_cleanup_host_ports)))

#define MK_HOST_PORT_STRLEN (INET_ADDRSTRLEN + sizeof(":65535/sctp"))
/* "0.0.0.0:8080/udp", into @buf of MK_HOST_PORT_STRLEN bytes; returns it. */
const char *mk_host_port_format(const struct mk_host_port_key *key, char *buf);

#endif

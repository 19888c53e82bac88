/* SPDX-License-Identifier: Apache-2.0 */
/* src/probes/sockets.h - sends probes and reads the answers. The datapath of the other node answers
 * (struct mk_probe_packet). */
#ifndef MK_PROBES_SOCKETS_H
#define MK_PROBES_SOCKETS_H

#include "probes/probes.h"

/* One for each family, opened by the first probe. */
struct mk_probe_sockets {
	int fd[MK_FAMILIES]; /* by mk_family_index(); -1: not open */
};
#define MK_PROBE_SOCKETS_CLOSED   \
	(struct mk_probe_sockets) \
	{                         \
		.fd = { -1, -1 }  \
	}

/* Send @probe by the device @ifindex, or as the host's routes say if it is 0. A probe that cannot
 * be sent is lost. */
void mk_probe_send(struct mk_probe_sockets *sockets, const struct mk_probe *probe, int ifindex);

struct mk_probe_answer {
	struct mk_ip from;
	uint64_t nonce;
	uint64_t at_ns; /* CLOCK_REALTIME: when the kernel got it */
};
typedef void mk_probe_answer_fn(void *ctx, const struct mk_probe_answer *answer);
/* Call @fn for each answer that has come. */
void mk_probe_read(const struct mk_probe_sockets *sockets, mk_probe_answer_fn *fn, void *ctx);

void mk_probe_close(struct mk_probe_sockets *sockets);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/linger.h - what flows still need after the Service that opened them changed: settings
 * of the programs (map `runtime`), and routes of Services' addresses. */
#ifndef MK_AGENT_LINGER_H
#define MK_AGENT_LINGER_H

#include "agent/core/core.h"
#include "agent/node/own_node.h"
#include "datapath/sessions/linger.h"

struct agent_linger {
	struct mk_family *family;
	const struct mk_own_family *own;
	struct mk_runtime_change
		told; /* as last written; not set: unknown, an earlier run wrote it */
	struct mk_linger host_backends, frontends_gone;
	uint32_t udp_ports_told; /* serial of mk_service_sync_udp_ports(), as last written */
	struct agent_vip *vips; /* routes kept for flows, not for a Service; by address */
};

/* The datapath is a new one, whose settings are not known. */
void agent_linger_forget(struct agent_linger *linger);
/* Bring the settings to what Services and node need now. */
mk_must_check int agent_linger_tell_services(struct agent_linger *linger, struct mk_error *err);
mk_must_check int agent_linger_tell_node(struct agent_linger *linger, struct mk_error *err);
/* Restore in map `runtime`, and in map `udp_ports`, what was told. Returns how many. */
mk_must_check int agent_linger_reconcile_runtime(const struct agent_linger *linger,
						 struct mk_error *err);
mk_must_check int agent_linger_reconcile_udp_ports(struct agent_linger *linger,
						   struct mk_error *err);
/* For mk_service_sync_on_loss(); @ctx is a struct agent_linger. */
mk_must_check int agent_linger_losing(void *ctx, struct mk_error *err);
/* A Service released @ip: take over its reference to the overlay's route. */
void agent_linger_take_vip(struct agent_linger *linger, const struct mk_ip *ip);
/* For mk_overlay_on_left_vip(); @ctx is a struct agent_linger. */
void agent_linger_vip_was_left(void *ctx, const struct mk_ip *ip);
/* The sweep: an entry stays; a pass ended; may the next pass release something? */
void agent_linger_see_flow(struct agent_linger *linger, const struct mk_tuple *key,
			   const struct mk_session *session);
void agent_linger_pass_ended(struct agent_linger *linger);
bool agent_linger_decides(const struct agent_linger *linger);
/* Is anything kept only as long as the sweep finds flows? */
bool agent_linger_asks(const struct agent_linger *linger);
void agent_linger_free(struct agent_linger *linger);

#endif

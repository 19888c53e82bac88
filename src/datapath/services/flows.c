// SPDX-License-Identifier: Apache-2.0
/* Compare sessions with the current Services: which are cut, and which outlive their frontend. */
#include <arpa/inet.h>
#include <string.h>

#include "datapath/services/services_internal.h"

/* Return the address to look up: map `frontends` has one loopback address of each family. */
static struct mk_addr address_of(const struct mk_tuple *tuple)
{
	const struct mk_ip localhost = { .family = AF_INET, .v4.s_addr = htonl(INADDR_LOOPBACK) };

	if (!mk_addr_is_loopback(&tuple->daddr) || !mk_addr_is_ipv4(&tuple->daddr))
		return tuple->daddr;
	return mk_ip_to_addr(&localhost);
}

static const struct frontend *frontend_at(const struct mk_service_sync *sync, struct mk_addr addr,
					  const struct mk_tuple *tuple, enum mk_scope scope)
{
	const struct mk_frontend_key key = {
		.addr = addr,
		.port = tuple->dport,
		.proto = tuple->proto,
		.scope = (__u8)scope,
	};
	const struct frontend *frontend;

	HASH_FIND(hh, sync->frontends, &key, sizeof(key), frontend);
	return frontend;
}

/* A pod of this node answers clients of another node's NodePort directly. This node has that
 * NodePort only at its own addresses. */
static const struct frontend *find_node_port(const struct mk_service_sync *sync,
					     const struct mk_tuple *tuple, enum mk_scope scope,
					     const struct mk_session *session)
{
	const struct frontend *frontend;

	for (size_t i = 0; i < sync->local_count; i++) {
		frontend = frontend_at(sync, mk_ip_to_addr(&sync->local[i]), tuple, scope);
		if (frontend && frontend->node_port &&
		    frontend->value.service_id == session->service_id)
			return frontend;
	}
	return NULL;
}

static const struct frontend *find_frontend(const struct mk_service_sync *sync,
					    const struct mk_tuple *tuple, enum mk_scope scope,
					    const struct mk_session *session)
{
	const struct frontend *frontend = frontend_at(sync, address_of(tuple), tuple, scope);

	if (frontend || !(session->flags & MK_SESSION_VIA_OVERLAY))
		return frontend;
	return find_node_port(sync, tuple, scope, session);
}

/* The node that delegates a flow to the pod's node does not count it for the Service. */
static bool opened_service(const struct mk_session *session)
{
	return session->flags & MK_SESSION_FORWARD && session->set_id &&
	       (session->service_id || session->flags & MK_SESSION_VIA_OVERLAY);
}

/* Does the Service of @frontend keep flows to @backend? It does if the backend serves, or if the
 * Service has no serving backend at all. So does an earlier agent's frontend, whose Service is not
 * known yet. */
static bool keeps(const struct frontend *frontend, const struct mk_live_backend *backend)
{
	const struct service *owner = frontend ? frontend->owner : NULL;

	if (!frontend)
		return false;
	return !owner || owner->live_count == 0 ||
	       sync_is_live(owner->live, owner->live_count, backend);
}

/* Find the Service by the client's destination, not by the session's backend set: sets change with
 * policies and endpoints while a flow lasts. */
bool mk_service_sync_session_cut(const struct mk_service_sync *sync, const struct mk_tuple *key,
				 const struct mk_session *session)
{
	const struct mk_live_backend backend = {
		.ip = mk_ip_from_addr(&session->to.daddr),
		.port = ntohs(session->to.dport),
		.proto = key->proto,
	};

	if (key->proto != IPPROTO_UDP || !opened_service(session))
		return false;
	return !keeps(find_frontend(sync, key, MK_SCOPE_INTERNAL, session), &backend) &&
	       !keeps(find_frontend(sync, key, MK_SCOPE_EXTERNAL, session), &backend);
}

/* The session does not record the scope of its frontend, so both scopes are checked. A loopback
 * address has no external frontend. */
bool mk_service_sync_session_outlives(const struct mk_service_sync *sync,
				      const struct mk_tuple *key, const struct mk_session *session)
{
	return key->proto != IPPROTO_UDP && opened_service(session) &&
	       (!find_frontend(sync, key, MK_SCOPE_INTERNAL, session) ||
		(!mk_addr_is_loopback(&key->daddr) &&
		 !find_frontend(sync, key, MK_SCOPE_EXTERNAL, session)));
}

bool mk_service_sync_session_of_host(const struct mk_service_sync *sync, const struct mk_tuple *key,
				     const struct mk_session *session)
{
	return session->flags & MK_SESSION_FORWARD && mk_addr_eq(&key->saddr, &session->to.saddr) &&
	       sync_is_local(sync, &session->to.daddr) &&
	       memcmp(key, &session->to, sizeof(*key)) != 0;
}

void mk_service_sync_on_loss(struct mk_service_sync *sync,
			     int (*losing)(void *ctx, struct mk_error *err), void *ctx)
{
	sync->losing = losing;
	sync->losing_ctx = ctx;
}

int sync_lose(struct mk_service_sync *sync, const struct mk_frontend_key *key,
	      struct mk_service_counts *counts, struct mk_error *err)
{
	if (key->port == 0)
		return 0;
	if (key->proto == IPPROTO_UDP)
		counts->cut = true;
	else if (sync->losing)
		return sync->losing(sync->losing_ctx, err);
	return 0;
}

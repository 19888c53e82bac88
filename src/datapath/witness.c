// SPDX-License-Identifier: Apache-2.0
#include "datapath/witness.h"

#include <bpf/bpf.h>
#include <netinet/in.h>
#include <string.h>

void mk_witnesses_meet(struct mk_witnesses *witnesses, const struct mk_tuple *key,
		       const struct mk_session *session)
{
	const uint8_t wanted = MK_SESSION_FORWARD | MK_SESSION_OPEN;
	const uint8_t ending = MK_SESSION_FIN | MK_SESSION_RST;

	if (witnesses->met_count == MK_WITNESSES || key->proto != IPPROTO_TCP ||
	    !session->service_id || (mk_session_flags(session) & (wanted | ending)) != wanted)
		return;
	witnesses->met[witnesses->met_count++] = (struct mk_witness){
		.key = *key,
		.created_ns = session->created_ns,
	};
}

void mk_witnesses_pass_ended(struct mk_witnesses *witnesses, uint64_t removed)
{
	memcpy(witnesses->asked, witnesses->met, sizeof(witnesses->asked));
	witnesses->asked_count = witnesses->met_count;
	witnesses->met_count = 0;
	witnesses->removed = removed;
}

static bool is_there(const struct mk_table *sessions, const struct mk_witness *witness)
{
	struct mk_session session;

	return bpf_map_lookup_elem(sessions->fd, &witness->key, &session) == 0 &&
	       session.created_ns == witness->created_ns;
}

bool mk_witnesses_gone(struct mk_witnesses *witnesses, const struct mk_table *sessions,
		       uint64_t removed)
{
	if (witnesses->asked_count < MK_WITNESSES_MIN || removed != witnesses->removed)
		return false;
	for (unsigned int i = 0; i < witnesses->asked_count; i++)
		if (is_there(sessions, &witnesses->asked[i]))
			return false;
	witnesses->asked_count = 0;
	return true;
}

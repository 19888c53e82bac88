/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/sessions/counts.h - the number of sessions by kind, protocol and state. The sweep
 * counts them as it visits their entries. */
#ifndef MK_DATAPATH_SESSIONS_COUNTS_H
#define MK_DATAPATH_SESSIONS_COUNTS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "monokube/abi.h"

/* Sweep order: each table of established sessions is followed by its table of new ones. */
#define MK_SESSION_TABLES 4

enum mk_session_kind { MK_SESSIONS_SERVICE, MK_SESSIONS_NAT, MK_SESSION_KINDS };
enum mk_session_protocol {
	MK_SESSIONS_TCP,
	MK_SESSIONS_UDP,
	MK_SESSIONS_SCTP,
	MK_SESSIONS_ICMP,
	MK_SESSIONS_OTHER,
	MK_SESSION_PROTOCOLS
};
enum mk_session_state {
	MK_SESSIONS_NEW, /* in a table whose entries may be evicted, or its handshake is not done */
	MK_SESSIONS_ESTABLISHED,
	MK_SESSIONS_CLOSING, /* the client has closed or reset it */
	MK_SESSION_STATES
};
extern const char *const mk_session_kind_names[MK_SESSION_KINDS];
extern const char *const mk_session_protocol_names[MK_SESSION_PROTOCOLS];
extern const char *const mk_session_state_names[MK_SESSION_STATES];

struct mk_session_counts {
	uint64_t entries[MK_SESSION_TABLES]; /* two per session */
	uint64_t sessions[MK_SESSION_KINDS][MK_SESSION_PROTOCOLS][MK_SESSION_STATES];
	uint64_t busiest_nat_ports; /* see nat_ports_busiest() */
	uint64_t half_open; /* sessions in tables of established ones whose handshake is not done */
};

/* Is @session a TCP session whose handshake is not done, in either table? As session_is_half_open()
 * in bpf/pair.h. */
static inline bool mk_session_is_half_open(const struct mk_session *session)
{
	return session->to.proto == IPPROTO_TCP && session->stage != MK_SESSION_OPEN;
}

#endif

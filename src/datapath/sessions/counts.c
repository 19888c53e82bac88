// SPDX-License-Identifier: Apache-2.0
#include "datapath/sessions/counts.h"

#include "datapath/sessions/sessions_internal.h"

const char *const mk_session_kind_names[MK_SESSION_KINDS] = {
	[MK_SESSIONS_SERVICE] = "service",
	[MK_SESSIONS_NAT] = "nat",
};

const char *const mk_session_protocol_names[MK_SESSION_PROTOCOLS] = {
	[MK_SESSIONS_TCP] = "tcp",   [MK_SESSIONS_UDP] = "udp",	    [MK_SESSIONS_SCTP] = "sctp",
	[MK_SESSIONS_ICMP] = "icmp", [MK_SESSIONS_OTHER] = "other",
};

const char *const mk_session_state_names[MK_SESSION_STATES] = {
	[MK_SESSIONS_NEW] = "new",
	[MK_SESSIONS_ESTABLISHED] = "established",
	[MK_SESSIONS_CLOSING] = "closing",
};

static enum mk_session_protocol protocol_of(uint8_t proto)
{
	switch (proto) {
	case IPPROTO_TCP:
		return MK_SESSIONS_TCP;
	case IPPROTO_UDP:
		return MK_SESSIONS_UDP;
	case IPPROTO_SCTP:
		return MK_SESSIONS_SCTP;
	case IPPROTO_ICMP:
		return MK_SESSIONS_ICMP;
	default:
		return MK_SESSIONS_OTHER;
	}
}

static enum mk_session_state state_of(int table, const struct mk_session *session)
{
	if (table % 2 || mk_session_is_half_open(session))
		return MK_SESSIONS_NEW;
	return mk_session_flags(session) & (MK_SESSION_FIN | MK_SESSION_RST)
		       ? MK_SESSIONS_CLOSING
		       : MK_SESSIONS_ESTABLISHED;
}

/* A ping has its identifier in both ports. The identifier is the translated port, so it must not be
 * hashed. */
static uint32_t destination_hash(const struct mk_tuple *to)
{
	uint32_t port = to->proto == IPPROTO_ICMP ? 0 : to->dport;
	uint32_t hash = 0;

	for (int i = 0; i < MK_ADDR_WORDS; i++)
		hash = (hash ^ to->daddr.word[i]) * 0x9e3779b1U ^ to->saddr.word[i];

	hash ^= (port << 8 | to->proto) * 0x85ebca6bU;
	hash ^= hash >> 15; /* finalizer of MurmurHash3 (public domain) */
	hash *= 0xc2b2ae35U;
	return hash ^ hash >> 16;
}

void session_counts_add(struct mk_session_counts *counts, struct nat_port_counts *nat, int table,
			const struct mk_tuple *key, const struct mk_session *session)
{
	enum mk_session_kind kind = table < 2 ? MK_SESSIONS_SERVICE : MK_SESSIONS_NAT;
	uint16_t *used;

	counts->entries[table]++;
	if (!(session->flags & MK_SESSION_FORWARD))
		return;
	counts->sessions[kind][protocol_of(key->proto)][state_of(table, session)]++;
	counts->half_open += table % 2 == 0 && mk_session_is_half_open(session);
	if (kind != MK_SESSIONS_NAT)
		return;
	used = &nat->used[destination_hash(&session->to) % NAT_PORT_COUNTERS];
	if (*used < UINT16_MAX)
		(*used)++;
}

uint64_t nat_ports_busiest(const struct nat_port_counts *nat)
{
	uint16_t most = 0;

	for (int i = 0; i < NAT_PORT_COUNTERS; i++)
		if (nat->used[i] > most)
			most = nat->used[i];
	return most;
}

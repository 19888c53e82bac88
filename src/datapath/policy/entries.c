// SPDX-License-Identifier: Apache-2.0
/* Rows of src/policy as keys and values of the maps. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "datapath/policy/tables_internal.h"

/* ---- names and keys -------------------------------------------------------------------------- */

void policy_pod_key(struct mk_policy_pod_key *key, const char *uid, const char *name)
{
	size_t length;

	memset(key, 0, sizeof(*key));
	snprintf(key->text, sizeof(key->text), "%s", name);
	length = strlen(key->text);
	if (uid)
		snprintf(key->text + length, sizeof(key->text) - length, "/%s", uid);
}

static void row_key(struct mk_policy_pod_key *key, const struct mk_pod_row *row, const char *uid)
{
	struct mk_policy_pod_key name;

	snprintf(name.text, sizeof(name.text), "%s/%s", row->namespace_, row->name);
	policy_pod_key(key, uid, name.text);
}

void policy_pod_name(struct mk_policy_pod_key *key, const struct mk_pod_row *row)
{
	row_key(key, row, NULL);
}

static struct mk_policy_block_key block_key(uint64_t set, unsigned int bits)
{
	struct mk_policy_block_key key = { .prefix_bits = MK_POLICY_SET_BITS + bits };

	memcpy(key.set, &set, sizeof(set));
	return key;
}

struct mk_policy_block_key policy_any_block(uint64_t set)
{
	return block_key(set, 0);
}

uint64_t policy_block_set(const struct mk_policy_block_key *key)
{
	uint64_t set;

	memcpy(&set, key->set, sizeof(set));
	return set;
}

uint64_t policy_port_table(const struct mk_policy_port_key *key)
{
	uint64_t table;

	memcpy(&table, key->table, sizeof(table));
	return table;
}

/* ---- one row --------------------------------------------------------------------------------- */

static bool convert_identity(sa_family_t family, const void *of, struct policy_entry *entry)
{
	const struct mk_identity_row *row = of;

	entry->key.address = mk_ip_to_addr(&row->ip);
	entry->value.identity = (struct mk_policy_identity){
		.class_id = row->class_id,
		.counts_as = mk_ip_to_addr(&row->counts_as),
	};
	return row->ip.family == family;
}

static bool convert_peer(sa_family_t family, const void *of, struct policy_entry *entry)
{
	const struct mk_peer_row *row = of;

	(void)family;
	entry->key.peer = (struct mk_policy_peer_key){ .set = row->set, .peer = row->peer };
	entry->value.peer.table = row->table;
	return true;
}

static bool convert_block(sa_family_t family, const void *of, struct policy_entry *entry)
{
	const struct mk_block_row *row = of;

	entry->key.block = block_key(row->set, row->block.prefix_bits);
	entry->key.block.addr = mk_ip_to_addr(&row->block.ip);
	entry->value.peer.table = row->table;
	return row->block.ip.family == family || row->block.ip.family == AF_UNSPEC;
}

static bool convert_port(sa_family_t family, const void *of, struct policy_entry *entry)
{
	const struct mk_port_row *row = of;
	const __be16 port = htons(row->port);

	(void)family;
	entry->key.port = (struct mk_policy_port_key){
		.prefix_bits = MK_POLICY_TABLE_BITS + row->prefix_bits,
		.proto = row->proto,
	};
	memcpy(entry->key.port.table, &row->table, sizeof(row->table));
	memcpy(entry->key.port.port, &port, sizeof(port));
	entry->value.port = (struct mk_policy_port){ row->verdict, row->audited, row->chain,
						     row->chain_rule, 0 };
	return true;
}

static bool convert_pod(sa_family_t family, const void *of, struct policy_entry *entry)
{
	const struct mk_pod_row *row = of;

	(void)family;
	row_key(&entry->key.pod, row, row->uid);
	memcpy(entry->value.expected.set, row->set, sizeof(row->set));
	return true;
}

static bool convert_namespace(sa_family_t family, const void *of, struct policy_entry *entry)
{
	const struct mk_namespace_row *row = of;

	(void)family;
	memset(&entry->key.namespace_, 0, sizeof(entry->key.namespace_));
	snprintf(entry->key.namespace_.name, sizeof(entry->key.namespace_.name), "%s", row->name);
	entry->value.namespace_.directions = row->directions;
	return true;
}

/* ---- all rows -------------------------------------------------------------------------------- */

#define ROWS(map_, member, convert_)                                                              \
	rows[map_] = (struct row_list)                                                            \
	{                                                                                         \
		.map = (map_), .convert = (convert_), .put = (const char *)changes->member.put,   \
		.gone = (const char *)changes->member.gone,                                       \
		.put_count = changes->member.put_count, .gone_count = changes->member.gone_count, \
		.row_bytes = sizeof(*changes->member.put),                                        \
	}

void row_lists_of(const struct mk_policy_changes *changes, struct row_list rows[POLICY_MAPS])
{
	ROWS(POLICY_PORTS, ports, convert_port);
	ROWS(POLICY_PEERS, peers, convert_peer);
	ROWS(POLICY_BLOCKS, blocks, convert_block);
	ROWS(POLICY_IDENTITIES, identities, convert_identity);
	ROWS(POLICY_NAMESPACES, namespaces, convert_namespace);
	ROWS(POLICY_EXPECTED, pods, convert_pod);
}

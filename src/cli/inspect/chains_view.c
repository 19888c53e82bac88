// SPDX-License-Identifier: Apache-2.0
/* Names of chains, functions and replicas, for the numbers in the tables. */
#include <stdio.h>
#include <string.h>

#include "base/state_file.h"
#include "base/time.h"
#include "cli/inspect/chains.h"
#include "cli/inspect/view_internal.h"
#include "sfc/sfc.h"

#define NAMES_VERSION 2

/* ---- names ----------------------------------------------------------------------------------- */

json_object *mk_chain_names_at(const struct mk_cli_chains *chains, const char *list, size_t index)
{
	return mk_json_at(mk_json_member(chains->names, list), index);
}

/* Find the entry of @list whose @key is @number. NULL: there is none. */
static json_object *entry_of(const struct mk_cli_chains *chains, const char *list, const char *key,
			     unsigned int number)
{
	json_object *entry;

	for (size_t i = 0; (entry = mk_chain_names_at(chains, list, i)); i++)
		if (mk_json_number(entry, key) == (int64_t)number)
			return entry;
	return NULL;
}

/* Put the name of entry @key @number of @list into @buf, or "@what 7". */
static const char *name_of(const struct mk_cli_chains *chains, const char *list, const char *key,
			   const char *what, unsigned int number, char buf[MK_CHAIN_NAME_BYTES])
{
	const char *name = mk_json_text(entry_of(chains, list, key, number), "name");

	if (*name)
		snprintf(buf, MK_CHAIN_NAME_BYTES, "%s", name);
	else
		snprintf(buf, MK_CHAIN_NAME_BYTES, "%s %u", what, number);
	return buf;
}

const char *mk_chain_name(const struct mk_cli_chains *chains, unsigned int number,
			  char buf[MK_CHAIN_NAME_BYTES])
{
	return name_of(chains, "chains", "id", "chain", number, buf);
}

const char *mk_replica_name(const struct mk_cli_chains *chains, unsigned int number,
			    char buf[MK_CHAIN_NAME_BYTES])
{
	return name_of(chains, "replicas", "number", "replica", number, buf);
}

const char *mk_replica_node(const struct mk_cli_chains *chains, unsigned int number)
{
	const char *node = mk_json_text(entry_of(chains, "replicas", "number", number), "node");

	return *node ? node : "?";
}

/* ---- tables ---------------------------------------------------------------------------------- */

int mk_cli_chains_open(struct mk_cli_chains *chains, const struct mk_view *view,
		       struct mk_error *err)
{
	int ret;

	*chains = (struct mk_cli_chains){ .view = view };
	ret = mk_table_open(&chains->functions, view->dir, "sfc_functions", sizeof(__u32),
			    sizeof(struct mk_sfc_function), err);
	if (ret == 0)
		ret = mk_table_open(&chains->replicas, view->dir, "sfc_replicas", sizeof(__u32),
				    sizeof(struct mk_sfc_replica), err);
	if (ret == 0)
		ret = mk_table_open(&chains->paths, view->dir, "sfc_paths", sizeof(__u32),
				    sizeof(struct mk_sfc_path), err);
	if (ret == 0)
		ret = mk_table_open(&chains->counters, view->dir, "sfc_counters", sizeof(__u32),
				    sizeof(struct mk_sfc_counters), err);
	return ret
		       ?: mk_state_tree_read(view->state_dir, MK_CHAIN_NAMES_FILE, NAMES_VERSION,
					     &chains->names, err);
}

void mk_cli_chains_close(struct mk_cli_chains *chains)
{
	mk_table_close(&chains->functions);
	mk_table_close(&chains->replicas);
	mk_table_close(&chains->paths);
	mk_table_close(&chains->counters);
	json_object_put(chains->names);
	chains->names = NULL;
}

/* Has its node just sent a packet back? */
static bool is_back(const struct mk_sfc_replica *entry)
{
	uint32_t now_ms = (uint32_t)(mk_time_monotonic_ns() / 1000000);

	return entry->back_ms && now_ms - entry->back_ms < MK_SFC_BACK_MS;
}

bool mk_replica_is_usable(const struct mk_cli_chains *chains, unsigned int number,
			  struct mk_sfc_replica *entry)
{
	static const __u8 here[sizeof(entry->vtep_mac)];
	const __u32 key = number;

	*entry = (struct mk_sfc_replica){ 0 };
	if (mk_table_get(&chains->replicas, &key, entry, NULL) < 0 || entry->state != MK_SFC_USABLE)
		return false;
	if (memcmp(entry->vtep_mac, here, sizeof(here)) != 0)
		return !is_back(entry);
	return entry->ifindex[MK_SFC_INSIDE] && entry->ifindex[MK_SFC_OUTSIDE];
}

const char *chain_via(const struct mk_cli_chains *chains, unsigned int path,
		      char buf[CHAIN_VIA_BYTES])
{
	char name[MK_CHAIN_NAME_BYTES];
	const __u32 key = path;
	struct mk_sfc_path entry;
	size_t used = 0;

	buf[0] = '\0';
	if (!path || mk_table_get(&chains->paths, &key, &entry, NULL) < 0)
		return buf;
	for (size_t i = 0; i < MK_SFC_PATH_FUNCTIONS && used < CHAIN_VIA_BYTES; i++) {
		const char *slash;

		if (!entry.replica[i])
			continue;
		slash = strchr(mk_replica_name(chains, entry.replica[i], name), '/');
		used += (size_t)snprintf(buf + used, CHAIN_VIA_BYTES - used, "%s%s",
					 used ? "," : "", slash ? slash + 1 : name);
	}
	return buf;
}

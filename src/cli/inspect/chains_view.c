// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/state_file.h"
#include "base/time.h"
#include "cli/inspect/chains.h"
#include "cli/inspect/view_internal.h"
#include "sfc/sfc.h"

#define NAMES_VERSION 2

/* ---- names ----------------------------------------------------------------------------------- */

static json_object *member(json_object *of, const char *key, enum json_type type)
{
	json_object *value = NULL;

	if (!json_object_is_type(of, json_type_object) ||
	    !json_object_object_get_ex(of, key, &value) || !json_object_is_type(value, type))
		return NULL;
	return value;
}

static int read_names(struct mk_cli_chains *chains, struct mk_error *err)
{
	cleanup_free char *text = NULL;
	json_object *version;
	int ret = mk_state_file_read(chains->view->state_dir, MK_CHAIN_NAMES_FILE, &text, err);

	if (ret <= 0)
		return ret;
	chains->names = json_tokener_parse(text);
	version = member(chains->names, "version", json_type_int);
	if (!version || json_object_get_int(version) != NAMES_VERSION)
		return mk_error_set(
			err, EPROTO,
			"file '%s' in '%s' is not of version %d: use the binary of the agent that wrote it",
			MK_CHAIN_NAMES_FILE, chains->view->state_dir, NAMES_VERSION);
	return 0;
}

json_object *mk_chain_names_at(const struct mk_cli_chains *chains, const char *list, size_t index)
{
	json_object *of = member(chains->names, list, json_type_array);

	return of && index < json_object_array_length(of) ? json_object_array_get_idx(of, index)
							  : NULL;
}

const char *mk_chain_names_text(json_object *entry, const char *key)
{
	json_object *value = member(entry, key, json_type_string);

	return value ? json_object_get_string(value) : "";
}

/* Find the entry of @list whose @key is @number. NULL: there is none. */
static json_object *entry_of(const struct mk_cli_chains *chains, const char *list, const char *key,
			     unsigned int number)
{
	json_object *entry;

	for (size_t i = 0; (entry = mk_chain_names_at(chains, list, i)); i++) {
		json_object *value = member(entry, key, json_type_int);

		if (value && json_object_get_int64(value) == (int64_t)number)
			return entry;
	}
	return NULL;
}

const char *mk_chain_name(const struct mk_cli_chains *chains, unsigned int number,
			  char buf[MK_CHAIN_NAME_BYTES])
{
	const char *name = mk_chain_names_text(entry_of(chains, "chains", "id", number), "name");

	if (*name)
		snprintf(buf, MK_CHAIN_NAME_BYTES, "%s", name);
	else
		snprintf(buf, MK_CHAIN_NAME_BYTES, "chain %u", number);
	return buf;
}

const char *mk_replica_name(const struct mk_cli_chains *chains, unsigned int number,
			    char buf[MK_CHAIN_NAME_BYTES])
{
	const char *name =
		mk_chain_names_text(entry_of(chains, "replicas", "number", number), "name");

	if (*name)
		snprintf(buf, MK_CHAIN_NAME_BYTES, "%s", name);
	else
		snprintf(buf, MK_CHAIN_NAME_BYTES, "replica %u", number);
	return buf;
}

const char *mk_replica_node(const struct mk_cli_chains *chains, unsigned int number)
{
	const char *node =
		mk_chain_names_text(entry_of(chains, "replicas", "number", number), "node");

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
	return ret ?: read_names(chains, err);
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

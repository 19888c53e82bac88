// SPDX-License-Identifier: Apache-2.0
#include "datapath/policy/names.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/state_file.h"

#define VERSION 1

/* ---- written by the agent ------------------------------------------------------------------- */

int mk_policy_names_write(const char *state_dir, json_object *description, struct mk_error *err)
{
	const int form = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE;
	const char *text = json_object_to_json_string_ext(description, form);
	struct mk_state_file file;
	int ret;

	if (!text)
		return mk_error_errno(err, ENOMEM, "cannot write the names of policies");
	ret = mk_state_file_begin(&file, state_dir, MK_POLICY_NAMES_FILE, err);
	if (ret < 0)
		return ret;
	fprintf(file.out, "%s\n", text);
	return mk_state_file_write(&file, err);
}

/* ---- read ------------------------------------------------------------------------------------ */

static json_object *member(json_object *of, const char *key, enum json_type type)
{
	json_object *value = NULL;

	if (!json_object_is_type(of, json_type_object) ||
	    !json_object_object_get_ex(of, key, &value) || !json_object_is_type(value, type))
		return NULL;
	return value;
}

int mk_policy_names_read(const char *state_dir, struct mk_policy_names *names, struct mk_error *err)
{
	cleanup_free char *text = NULL;
	json_object *version;
	int ret;

	*names = (struct mk_policy_names){ 0 };
	ret = mk_state_file_read(state_dir, MK_POLICY_NAMES_FILE, &text, err);
	if (ret <= 0)
		return ret;
	names->root = json_tokener_parse(text);
	version = member(names->root, "version", json_type_int);
	if (!version || json_object_get_int(version) != VERSION)
		return mk_error_set(
			err, EPROTO,
			"file '%s' in '%s' is not of version %d: use the binary of the agent that wrote it",
			MK_POLICY_NAMES_FILE, state_dir, VERSION);
	return 0;
}

void mk_policy_names_release(struct mk_policy_names *names)
{
	json_object_put(names->root);
	*names = (struct mk_policy_names){ 0 };
}

static json_object *list_of(const struct mk_policy_names *names, uint64_t set, const char *key)
{
	json_object *sets = member(names->root, "sets", json_type_object);
	char id[20];

	snprintf(id, sizeof(id), "%016" PRIx64, set);
	return member(member(sets, id, json_type_object), key, json_type_array);
}

static const char *text_of(json_object *of, const char *key)
{
	return json_object_get_string(member(of, key, json_type_string));
}

static int number_of(json_object *of, const char *key)
{
	return json_object_get_int(member(of, key, json_type_int));
}

bool mk_policy_names_rule(const struct mk_policy_names *names, uint64_t set, size_t index,
			  struct mk_policy_rule_name *rule)
{
	json_object *rules = list_of(names, set, "rules"), *of;

	if (!rules || index >= json_object_array_length(rules))
		return false;
	of = json_object_array_get_idx(rules, index);
	*rule = (struct mk_policy_rule_name){
		.number = (uint16_t)number_of(of, "number"),
		.index = number_of(of, "index"),
		.policy = text_of(of, "policy") ?: "?",
		.name = text_of(of, "name"),
		.tier = text_of(of, "tier") ?: "?",
		.action = text_of(of, "action") ?: "?",
		.peers = text_of(of, "peers") ?: "?",
		.ports = text_of(of, "ports") ?: "?",
	};
	return true;
}

bool mk_policy_names_chain(const struct mk_policy_names *names, uint64_t set, size_t index,
			   struct mk_policy_chain_name *chain)
{
	json_object *chains = list_of(names, set, "chains"), *of;

	if (!chains || index >= json_object_array_length(chains))
		return false;
	of = json_object_array_get_idx(chains, index);
	*chain = (struct mk_policy_chain_name){
		.number = (uint16_t)number_of(of, "number"),
		.id = (uint16_t)number_of(of, "id"),
		.chain = text_of(of, "chain") ?: "?",
		.peers = text_of(of, "peers") ?: "?",
		.ports = text_of(of, "ports") ?: "?",
	};
	return true;
}

static const char *name_in(const struct mk_policy_names *names, uint64_t set, const char *key,
			   size_t index)
{
	json_object *policies = list_of(names, set, key);

	if (!policies || index >= json_object_array_length(policies))
		return NULL;
	return json_object_get_string(json_object_array_get_idx(policies, index));
}

const char *mk_policy_names_policy(const struct mk_policy_names *names, uint64_t set, size_t index)
{
	return name_in(names, set, "policies", index);
}

bool mk_policy_names_audited(const struct mk_policy_names *names, uint64_t set, const char *policy)
{
	const char *name;

	for (size_t i = 0; (name = name_in(names, set, "audited", i)); i++)
		if (strcmp(name, policy) == 0)
			return true;
	return false;
}

bool mk_policy_names_note(const struct mk_policy_names *names, size_t index,
			  struct mk_policy_note *note)
{
	json_object *notes = member(names->root, "notes", json_type_array), *of;

	if (!notes || index >= json_object_array_length(notes))
		return false;
	of = json_object_array_get_idx(notes, index);
	*note = (struct mk_policy_note){ .policy = text_of(of, "policy") ?: "?",
					 .says = text_of(of, "says") ?: "?",
					 .remedy = text_of(of, "remedy") ?: "?" };
	return true;
}

size_t mk_policy_names_count(const struct mk_policy_names *names)
{
	return (size_t)number_of(names->root, "policies");
}

const char *mk_policy_names_audit(const struct mk_policy_names *names, size_t index)
{
	json_object *list = member(names->root, "audited", json_type_array);

	return list && index < json_object_array_length(list)
		       ? json_object_get_string(json_object_array_get_idx(list, index))
		       : NULL;
}

bool mk_policy_name_isolates(const char *policy)
{
	return strchr(policy, '/') != NULL;
}

// SPDX-License-Identifier: Apache-2.0
#include "datapath/policy/names.h"

#include <inttypes.h>
#include <string.h>

#include "base/state_file.h"

#define VERSION 1

/* ---- written by the agent ------------------------------------------------------------------- */

int mk_policy_names_write(const char *state_dir, json_object *description, struct mk_error *err)
{
	return mk_state_tree_write(state_dir, MK_POLICY_NAMES_FILE, description, err);
}

/* ---- read ------------------------------------------------------------------------------------ */

int mk_policy_names_read(const char *state_dir, struct mk_policy_names *names, struct mk_error *err)
{
	return mk_state_tree_read(state_dir, MK_POLICY_NAMES_FILE, VERSION, &names->root, err);
}

void mk_policy_names_release(struct mk_policy_names *names)
{
	json_object_put(names->root);
	*names = (struct mk_policy_names){ 0 };
}

static json_object *list_of(const struct mk_policy_names *names, uint64_t set, const char *key)
{
	char id[20];

	snprintf(id, sizeof(id), "%016" PRIx64, set);
	return mk_json_member(mk_json_member(mk_json_member(names->root, "sets"), id), key);
}

/* NULL: there is none. */
static const char *text_of(json_object *of, const char *key)
{
	json_object *value = mk_json_member(of, key);

	return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
}

static int number_of(json_object *of, const char *key)
{
	return (int)mk_json_number(of, key);
}

bool mk_policy_names_rule(const struct mk_policy_names *names, uint64_t set, size_t index,
			  struct mk_policy_rule_name *rule)
{
	json_object *of = mk_json_at(list_of(names, set, "rules"), index);

	if (!of)
		return false;
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
	json_object *of = mk_json_at(list_of(names, set, "chains"), index);

	if (!of)
		return false;
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
	return json_object_get_string(mk_json_at(list_of(names, set, key), index));
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
	json_object *of = mk_json_at(mk_json_member(names->root, "notes"), index);

	if (!of)
		return false;
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
	return json_object_get_string(mk_json_at(mk_json_member(names->root, "audited"), index));
}

bool mk_policy_name_isolates(const char *policy)
{
	return strchr(policy, '/') != NULL;
}

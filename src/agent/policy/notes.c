// SPDX-License-Identifier: Apache-2.0
#include "agent/policy/notes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/ip.h"
#include "cluster/model/policy.h"

#define POLICY_CHARS (2 * MK_OBJECT_NAME_SIZE)

struct noting {
	json_object *notes;
	struct mk_service_cidr *services; /* ranges */
	size_t service_count;
	char policy[POLICY_CHARS];
};

static void note(struct noting *noting, const char *remedy, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static void note(struct noting *noting, const char *remedy, const char *format, ...)
{
	json_object *object;
	char says[400];
	va_list args;

	if (json_object_array_length(noting->notes) >= NOTES_MAX)
		return;
	va_start(args, format);
	vsnprintf(says, sizeof(says), format, args);
	va_end(args);
	object = json_object_new_object();
	mk_put_text(object, "policy", noting->policy);
	mk_put_text(object, "says", says);
	mk_put_text(object, "remedy", remedy);
	json_object_array_add(noting->notes, object);
}

/* Write the policy's name as people know it; @namespace_ NULL: of a ClusterNetworkPolicy. */
static const char *name_policy(char text[POLICY_CHARS], const char *namespace_, const char *name)
{
	snprintf(text, POLICY_CHARS, "%s%s%s", namespace_ ?: "ClusterNetworkPolicy",
		 namespace_ ? "/" : " ", name);
	return text;
}

/* Rule 13: policies are asked about the backend, so no packet has a Service's address. */
static void note_block(struct noting *noting, const struct mk_cidr *block)
{
	char text[MK_CIDR_STRLEN];

	for (size_t i = 0; i < noting->service_count; i++)
		if (mk_cidr_covers(&noting->services[i].cidr, block)) {
			note(noting,
			     "allow the pods or addresses behind the Service, and their ports",
			     "%s is in the range of Services, whose addresses never match",
			     mk_cidr_format(block, text));
			return;
		}
}

static void note_rule(struct noting *noting, const struct mk_policy_rule_object *rule)
{
	for (size_t i = 0; i < rule->peer_count; i++) {
		if (rule->peers[i].kind == MK_PEER_DOMAINS)
			note(noting, "name the networks instead",
			     "domainNames are not supported yet and match nothing");
		if (rule->peers[i].kind == MK_PEER_BLOCK)
			note_block(noting, &rule->peers[i].cidr);
	}
}

static void note_rules(struct noting *noting, const struct mk_policy_rules *rules,
		       const char *passed_over)
{
	if (passed_over)
		note(noting, "correct the entry; until then it matches nothing, or denies all",
		     "%s", passed_over);
	for (size_t i = 0; i < rules[MK_POLICY_EGRESS].count; i++)
		note_rule(noting, &rules[MK_POLICY_EGRESS].of[i]);
	for (size_t i = 0; i < rules[MK_POLICY_INGRESS].count; i++)
		note_rule(noting, &rules[MK_POLICY_INGRESS].of[i]);
}

/* Rule 18: what selects pods does not select those whose address is not seen. */
static void note_masquerade(struct noting *noting, const struct mk_model *model)
{
	snprintf(noting->policy, sizeof(noting->policy), "masqueradeAll");
	if (mk_model_count(model, MK_KIND_NETWORK_POLICY) +
	    mk_model_count(model, MK_KIND_CLUSTER_POLICY))
		note(noting, "set masqueradeAll to false, or name the nodes' addresses in ipBlocks",
		     "on, so a pod that uses a ClusterIP appears to other nodes' policies as its node");
}

json_object *notes_of(const struct mk_model *model, bool masquerade_all)
{
	struct noting noting = { .notes = json_object_new_array() };

	if (mk_model_service_cidrs(model, AF_UNSPEC, &noting.services, &noting.service_count) < 0)
		noting.service_count = 0;
	if (masquerade_all)
		note_masquerade(&noting, model);
	mk_model_each(struct mk_network_policy, of, model, MK_KIND_NETWORK_POLICY) {
		name_policy(noting.policy, of->namespace_, of->name);
		note_rules(&noting, of->rules, of->passed_over);
	}
	mk_model_each(struct mk_cluster_policy, of, model, MK_KIND_CLUSTER_POLICY) {
		name_policy(noting.policy, NULL, of->name);
		note_rules(&noting, of->rules, of->passed_over);
	}
	free(noting.services);
	return noting.notes;
}

static void add_name(json_object *list, const char *namespace_, const char *name)
{
	char text[POLICY_CHARS];

	json_object_array_add(list, json_object_new_string(name_policy(text, namespace_, name)));
}

json_object *audited_of(const struct mk_model *model)
{
	json_object *list = json_object_new_array();

	mk_model_each(struct mk_network_policy, of, model, MK_KIND_NETWORK_POLICY)
		if (of->audited)
			add_name(list, of->namespace_, of->name);
	mk_model_each(struct mk_cluster_policy, of, model, MK_KIND_CLUSTER_POLICY)
		if (of->audited)
			add_name(list, NULL, of->name);
	return list;
}

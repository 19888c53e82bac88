// SPDX-License-Identifier: Apache-2.0
/* The pods of this node: what applies to each of them in each direction. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/compiler.h"

/* ---- which pods ------------------------------------------------------------------------------ */

#define SUBJECT_KEY_CHARS 640

/* Rule 42: a UID names a pod, and without a UID its namespace and name do. A Pod object may claim
 * any UID (kubernetes.io/config.hash), so its UID counts only together with its name. */
static void make_key(char *key, const char *uid, const char *namespace_, const char *name)
{
	snprintf(key, SUBJECT_KEY_CHARS, "%s/%s%s%s", namespace_, name, uid ? "/" : "",
		 uid ? uid : "");
}

static struct subject *subject_find(const struct mk_policies *policies, const char *uid,
				    const char *namespace_, const char *name)
{
	char key[SUBJECT_KEY_CHARS];
	struct subject *subject;

	make_key(key, uid, namespace_, name);
	HASH_FIND_STR(policies->subjects, key, subject);
	return subject;
}

static struct subject *subject_get(struct mk_policies *policies, const char *uid,
				   const char *namespace_, const char *name)
{
	struct subject *subject = subject_find(policies, uid, namespace_, name);
	char key[SUBJECT_KEY_CHARS];

	if (subject)
		return subject;
	make_key(key, uid, namespace_, name);
	subject = memory_new(sizeof(*subject) + strlen(key) + 1);
	strcpy(subject->key, key);
	subject->store.texts = subject->label_store.texts = &policies->texts;
	subject->uid = store_text(&subject->store, uid);
	subject->namespace_ = store_text(&subject->store, namespace_);
	subject->name = store_text(&subject->store, name);
	subject->space = space_get(policies, namespace_);
	subject->dirty = true;
	DL_APPEND(subject->space->subjects, subject);
	HASH_ADD_STR(policies->subjects, key, subject);
	return subject;
}

static void learn_labels(struct subject *subject, const struct mk_pod_object *pod)
{
	store_release(&subject->label_store);
	subject->labels = copy_labels(&subject->label_store, &pod->of->labels);
	subject->ports = copy_ports(&subject->label_store, pod->of->ports, pod->of->port_count);
	subject->port_count = pod->of->port_count;
	subject->known = subject->dirty = true;
}

/* Rule 21: a pod of the host's network is no subject. Rule 44: a finished one has no sandbox. */
static bool is_bound_here(const struct mk_policies *policies, const struct mk_pod_object *pod)
{
	const char *node = pod ? mk_pod_node(pod) : NULL;

	return node && strcmp(node, policies->node_name) == 0 && !pod->host_network &&
	       !pod->finished;
}

static bool is_of(const struct subject *subject, const struct mk_pod_object *pod)
{
	const char *uid = pod ? mk_pod_uid(pod) : NULL;

	return pod && (!subject->uid || (uid && strcmp(subject->uid, uid) == 0));
}

/* The addresses of the sandboxes of @subject. */
static void sandbox_addresses_changed(struct mk_policies *policies, const struct subject *subject)
{
	for (size_t i = 0; i < policies->sandbox_count; i++)
		if (policies->sandboxes[i].subject == subject)
			for (int f = 0; f < MK_FAMILIES; f++)
				if (policies->sandboxes[i].ips[f].family != AF_UNSPEC)
					address_changed(
						policies,
						address_get(policies,
							    &policies->sandboxes[i].ips[f]));
}

/* Is @pod, the object with the name of @subject, the one that @subject stands for? Rule 43: labels
 * of an object that is gone stay known. */
static void look_at_subject(struct mk_policies *policies, struct subject *subject,
			    const struct mk_pod_object *pod)
{
	if (!subject)
		return;
	subject->bound = is_of(subject, pod) && is_bound_here(policies, pod);
	if (is_of(subject, pod))
		learn_labels(subject, pod);
	subject->dirty = true;
	if (subject->sandboxes > 0)
		sandbox_addresses_changed(policies, subject);
}

bool is_subject(const struct mk_policies *policies, const char *namespace_, const char *name)
{
	const struct subject *subject;
	const struct space *space;

	if (is_bound_here(policies, mk_model_pod(policies->model, namespace_, name)))
		return true;
	HASH_FIND_STR(policies->spaces, namespace_, space);
	if (!space)
		return false;
	DL_FOREACH(space->subjects, subject)
		if (strcmp(subject->name, name) == 0)
			return true;
	return false;
}

void look_at_subjects(struct mk_policies *policies, const char *namespace_, const char *name)
{
	const struct mk_pod_object *pod = mk_model_pod(policies->model, namespace_, name);
	struct subject *subject, *next;
	struct space *space;

	if (is_bound_here(policies, pod))
		subject_get(policies, mk_pod_uid(pod), namespace_, name);
	HASH_FIND_STR(policies->spaces, namespace_, space);
	if (!space)
		return;
	DL_FOREACH_SAFE(space->subjects, subject, next)
		if (strcmp(subject->name, name) == 0)
			look_at_subject(policies, subject, pod);
}

/* ---- sandboxes ------------------------------------------------------------------------------- */

static void drop_sandboxes(struct mk_policies *policies)
{
	for (size_t i = 0; i < policies->sandbox_count; i++) {
		const struct sandbox *sandbox = &policies->sandboxes[i];

		if (sandbox->subject) {
			sandbox->subject->sandboxes--;
			sandbox->subject->dirty = true;
		}
		for (int f = 0; f < MK_FAMILIES; f++) {
			if (sandbox->ips[f].family == AF_UNSPEC)
				continue;
			struct address *address = address_get(policies, &sandbox->ips[f]);

			address_more(address)->sandbox = NULL;
			address_changed(policies, address);
		}
	}
	free(policies->sandboxes);
	policies->sandboxes = NULL;
	policies->sandbox_count = 0;
}

static void claim_addresses(struct mk_policies *policies, const struct sandbox *sandbox)
{
	for (int f = 0; f < MK_FAMILIES; f++) {
		if (sandbox->ips[f].family == AF_UNSPEC)
			continue;
		struct address *address = address_get(policies, &sandbox->ips[f]);
		struct address_more *more = address_more(address);

		if (!more->sandbox)
			more->sandbox = sandbox;
		address_changed(policies, address);
	}
}

static void add_sandbox(struct mk_policies *policies, struct sandbox *sandbox,
			const struct mk_policy_sandbox *from)
{
	struct subject *subject = NULL;

	memcpy(sandbox->ips, from->ips, sizeof(sandbox->ips));
	if (from->namespace_ && from->name) {
		subject = subject_get(policies, from->uid, from->namespace_, from->name);
		if (subject->sandboxes++ == 0)
			look_at_subject(policies, subject,
					mk_model_pod(policies->model, from->namespace_,
						     from->name));
	}
	sandbox->subject = subject;
	claim_addresses(policies, sandbox);
}

int mk_policies_set_sandboxes(struct mk_policies *policies,
			      const struct mk_policy_sandbox *sandboxes, size_t count,
			      struct mk_error *err)
{
	(void)err;
	policies->changed = true;
	drop_sandboxes(policies);
	policies->sandboxes = memory_new(count * sizeof(*policies->sandboxes));
	policies->sandbox_count = count;
	for (size_t i = 0; i < count; i++)
		add_sandbox(policies, &policies->sandboxes[i], &sandboxes[i]);
	return 0;
}

/* ---- what applies ---------------------------------------------------------------------------- */

void selection_add(struct selection *selection, struct content *content)
{
	selection->contents = memory_grow(selection->contents, selection->count, &selection->room,
					  sizeof(struct content *));
	selection->contents[selection->count++] = content;
	selection->rule_count += content->rule_count;
}

static void select_policy(struct mk_policies *policies, struct selection *selection,
			  struct policy *policy, const struct subject *subject,
			  enum mk_policy_direction direction)
{
	const struct policy_copy *copy;

	if (!policy->applies[direction])
		return;
	copy = copy_of(policies, policy);
	if (!mk_selector_matches(&copy->pods, &subject->labels) ||
	    !mk_selector_matches(&copy->namespaces, &subject->space->labels))
		return;
	selection_add(selection, content_of(policies, policy, direction));
}

static void select_tier(struct mk_policies *policies, struct selection *selection,
			enum mk_policy_tier tier, const struct subject *subject,
			enum mk_policy_direction direction)
{
	struct policy *policy;

	DL_FOREACH(policies->cluster_policies, policy)
		if (policy->tier == tier)
			select_policy(policies, selection, policy, subject, direction);
}

/* Rules 1, 48 and 49: the policies of a direction, in the order in which they are asked. */
static void select_policies(struct mk_policies *policies, struct selection *selection,
			    const struct subject *subject, enum mk_policy_direction direction)
{
	struct policy *policy;

	select_tier(policies, selection, MK_TIER_ADMIN, subject, direction);
	DL_FOREACH(subject->space->policies, policy)
		select_policy(policies, selection, policy, subject, direction);
	select_tier(policies, selection, MK_TIER_BASELINE, subject, direction);
	select_chains(policies, selection, subject, direction);
}

/* Rules 37, 38 and 42: what applies to a pod is not known before its object and its namespace. If
 * no policy in force can select the pod and no chain holds it, it is open. */
static bool is_pending(struct mk_policies *policies, const struct subject *subject)
{
	if (subject->known && subject->space->known)
		return false;
	if (!subject->space->known)
		return has_policies_in_force(policies);
	return space_directions(policies, subject->space) != 0;
}

/* Set *@id to the result. A set with more rules than can be numbered fails closed, unless all
 * policies are audited. */
static struct set_ *decide_set(struct mk_policies *policies, const struct subject *subject,
			       enum mk_policy_direction direction, uint64_t *id)
{
	struct selection selection = { 0 };
	struct set_ *set = NULL;

	*id = is_pending(policies, subject) ? MK_SET_PENDING : MK_SET_OPEN;
	if (subject->known && subject->space->known)
		select_policies(policies, &selection, subject, direction);
	if (selection.rule_count > RULES_MAX)
		*id = policies->audit && !policies->chains ? MK_SET_OPEN : MK_SET_PENDING;
	else if (selection.count > 0)
		set = set_get(policies, &selection, subject, direction);
	if (set)
		*id = set->id;
	free(selection.contents);
	return set;
}

static void write_row(struct mk_policies *policies, struct subject *subject)
{
	struct mk_pod_row row;

	memset(&row, 0, sizeof(row));
	row.uid = subject->uid;
	row.namespace_ = subject->namespace_;
	row.name = subject->name;
	memcpy(row.set, subject->ids, sizeof(row.set));
	rows_put(&policies->rows[PODS], &row);
	subject->written = true;
}

static void decide(struct mk_policies *policies, struct subject *subject)
{
	bool differs = !subject->written;

	for (int i = 0; i < MK_POLICY_DIRECTIONS; i++) {
		struct set_ *former = subject->set[i], *set;
		uint64_t id;

		set = decide_set(policies, subject, (enum mk_policy_direction)i, &id);
		if (former)
			former->references--;
		differs |= id != subject->ids[i];
		subject->set[i] = set;
		subject->ids[i] = id;
	}
	subject->dirty = false;
	if (differs)
		write_row(policies, subject);
}

static void subject_end(struct mk_policies *policies, struct subject *subject)
{
	struct mk_pod_row row;

	memset(&row, 0, sizeof(row));
	row.uid = subject->uid;
	row.namespace_ = subject->namespace_;
	row.name = subject->name;
	rows_remove(&policies->rows[PODS], &row);
	for (int i = 0; i < MK_POLICY_DIRECTIONS; i++)
		if (subject->set[i])
			subject->set[i]->references--;
	DL_DELETE(subject->space->subjects, subject);
	subject->space->changed = true;
	HASH_DEL(policies->subjects, subject);
	subject->next_dead = policies->dead.subjects;
	policies->dead.subjects = subject;
}

void subjects_decide(struct mk_policies *policies)
{
	bool enforced = has_policies_in_force(policies), all = enforced != policies->enforced;
	struct subject *subject, *next;

	policies->enforced = enforced;
	HASH_ITER(hh, policies->subjects, subject, next) {
		if (!subject->dirty && !all)
			continue;
		if (!subject->bound && subject->sandboxes == 0)
			subject_end(policies, subject);
		else
			decide(policies, subject);
	}
}

static void subject_free(struct subject *subject)
{
	store_release(&subject->store);
	store_release(&subject->label_store);
	free(subject);
}

void subjects_free_dead(struct subject **dead)
{
	struct subject *subject;

	while ((subject = *dead)) {
		*dead = subject->next_dead;
		subject_free(subject);
	}
}

void subjects_release(struct mk_policies *policies)
{
	struct subject *subject, *next;

	HASH_ITER(hh, policies->subjects, subject, next) {
		HASH_DEL(policies->subjects, subject);
		subject_free(subject);
	}
	free(policies->sandboxes);
}

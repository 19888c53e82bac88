// SPDX-License-Identifier: Apache-2.0
/* Checks of network policies that need no list of objects. */
#include <string.h>

#include "cli/check/check.h"
#include "cli/inspect/policy.h"

static bool has_set(const struct mk_cli_policies *policies, const struct mk_view_pod *pod,
		    bool *is_pending)
{
	bool has = false;

	*is_pending = false;
	for (int i = 0; i < MK_POLICY_DIRECTIONS; i++) {
		const uint64_t set = mk_policy_set_of(policies, pod, i);

		has |= mk_policy_set_has_policies(policies, set);
		*is_pending |= set == MK_SET_PENDING;
	}
	return has;
}

void check_policies(struct mk_checking *checking)
{
	cleanup_cli_policies struct mk_cli_policies policies = { 0 };
	const unsigned int before = checking->wrong;
	struct mk_error err = { 0 };
	unsigned int count = 0;
	bool is_pending;
	int ret = mk_cli_policies_open(&policies, checking->view, &err);

	if (ret == -ENOENT)
		return; /* tables of a version without policies */
	if (ret < 0) {
		check_found(checking, "policies", "restart the agent, which writes them again",
			    "%s", mk_error_text(&err));
		return;
	}
	for (size_t i = 0; i < checking->view->pod_count; i++) {
		count += has_set(&policies, &checking->view->pods[i], &is_pending);
		if (is_pending)
			check_found(
				checking, "policies",
				"an agent has to run, and to read the Pod from the API server: see its log",
				"%s: its network policies are not known, so only this node reaches it",
				mk_view_pod_name(&checking->view->pods[i]));
	}
	if (checking->wrong == before)
		check_found(checking, "policies", NULL, "apply to %u of %zu pods", count,
			    checking->view->pod_count);
}

bool check_policies_are_off(const struct mk_checking *checking)
{
	return strcmp(checking->record.network_policy, "off") == 0;
}

#define NAMES_SHOWN 5

static void note_audited(struct mk_checking *checking)
{
	struct mk_policy_names names;
	char text[400] = "";
	const char *name;
	size_t count = 0;

	if (mk_policy_names_read(checking->options->state_dir, &names, NULL) == 0)
		for (; (name = mk_policy_names_audit(&names, count)); count++)
			if (count < NAMES_SHOWN)
				snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
					 count ? ", " : "", name);
	if (count > NAMES_SHOWN)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), " and %zu others",
			 count - NAMES_SHOWN);
	if (count)
		check_note(checking, "policies",
			   "to enforce a policy, remove its annotation monokube.io/policy-mode",
			   "audited, so what they forbid passes and is reported: %s", text);
	mk_policy_names_release(&names);
}

void check_policy_mode(struct mk_checking *checking)
{
	if (check_policies_are_off(checking))
		check_note(checking, "policies", "to enforce them, set networkPolicy: enforce",
			   "networkPolicy is off: no policy applies to this node's pods");
	else if (strcmp(checking->record.network_policy, "audit") == 0)
		check_note(checking, "policies", "to enforce them, set networkPolicy: enforce",
			   "networkPolicy is audit: what policies forbid passes and is reported");
	else
		note_audited(checking);
}

/* Policies of which a part has no effect, as the agent wrote them down. */
void check_policy_notes(struct mk_checking *checking)
{
	struct mk_policy_names names;
	struct mk_policy_note note;

	if (check_policies_are_off(checking))
		return;
	if (mk_policy_names_read(checking->options->state_dir, &names, NULL) == 0)
		for (size_t i = 0; mk_policy_names_note(&names, i, &note); i++)
			check_note(checking, "policies", note.remedy, "%s: %s", note.policy,
				   note.says);
	mk_policy_names_release(&names);
}

// SPDX-License-Identifier: Apache-2.0
/* monokube pods. */
#include <net/if.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/print.h"
#include "cli/inspect/policy.h"
#include "cli/inspect/view.h"
#include "cli/inspect/view_internal.h"
#include "datapath/maps/hook.h"

/* Returns what keeps traffic from this pod, or "ok". */
static const char *state_of(const struct mk_view_pod *pod, uint32_t prog_id)
{
	if (!pod->link.ifindex)
		return "no interface";
	if (!(pod->link.flags & IFF_UP))
		return "interface is down";
	if (!(pod->link.flags & IFF_RUNNING))
		return "pod's end is down";
	return prog_id ? "ok" : "no program on its interface";
}

/* Return the directions in which policies apply to the pod. @policies NULL: a version without
 * policies made the tables. */
static const char *policies_of(const struct mk_cli_policies *policies,
			       const struct mk_view_pod *pod)
{
	uint64_t ingress, egress;

	if (!policies)
		return NULL;
	ingress = mk_policy_set_of(policies, pod, MK_POLICY_INGRESS);
	egress = mk_policy_set_of(policies, pod, MK_POLICY_EGRESS);
	if (ingress == MK_SET_PENDING || egress == MK_SET_PENDING)
		return "pending";
	ingress = mk_policy_set_has_policies(policies, ingress);
	egress = mk_policy_set_has_policies(policies, egress);
	if (ingress && egress)
		return "ingress,egress";
	return ingress ? "ingress" : egress ? "egress" : "open";
}

static const struct mk_view_pod *same_pod(const struct mk_view *view, const struct mk_view_pod *pod)
{
	return view_pod_of_device(view, pod->entry.ifindex);
}

static struct json_object *addresses_json(const struct mk_views *views,
					  const struct mk_view_pod *pod)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < views->count; i++) {
		const struct mk_view_pod *same = same_pod(&views->list[i], pod);

		if (same)
			mk_add_addr(list, &same->addr);
	}
	return list;
}

/* @view: the first one that has the pod. */
static struct json_object *pod_json(const struct mk_views *views, const struct mk_view *view,
				    const struct mk_cli_policies *policies,
				    const struct mk_view_pod *pod)
{
	struct json_object *object = json_object_new_object();
	const char *owner = pod->owner, *ifname = owner ? owner + strlen(owner) + 1 : NULL;
	uint32_t prog_id = 0;

	if (pod->link.ifindex &&
	    mk_hook_query(view->nl, pod->link.ifindex, MK_INGRESS, &prog_id, NULL) < 0)
		prog_id = 0;
	mk_put_text(object, "name", *pod->link.alias ? pod->link.alias : NULL);
	mk_put_text(object, "node", view_node(view, &pod->addr));
	mk_put_addr(object, "address", &pod->addr);
	json_object_object_add(object, "addresses", addresses_json(views, pod));
	mk_put_text(object, "interface", *pod->link.name ? pod->link.name : NULL);
	mk_put_number(object, "ifindex", pod->entry.ifindex);
	mk_put_mac(object, "mac", pod->entry.mac);
	mk_put_number(object, "program", prog_id);
	mk_put_text(object, "state", state_of(pod, prog_id));
	mk_put_text(object, "policies", policies_of(policies, pod));
	mk_put_text(object, "container", owner);
	mk_put_text(object, "containerInterface", ifname);
	mk_put_text(object, "netns", ifname ? ifname + strlen(ifname) + 1 : NULL);
	return object;
}

/* Is the pod's name "NAMESPACE/POD@INTERFACE" for the pod @word, given with or without
 * namespace? */
static bool is_further_of(const struct mk_view_pod *pod, const char *word)
{
	const char *alias = pod->link.alias, *at = strrchr(alias, '@'), *slash = strchr(alias, '/');
	size_t length = strlen(word);

	if (!at || !slash || !length)
		return false;
	return ((size_t)(at - alias) == length && strncmp(alias, word, length) == 0) ||
	       ((size_t)(at - slash) == length + 1 && strncmp(slash + 1, word, length) == 0);
}

static bool has_address(const struct mk_views *views, const struct mk_view_pod *pod,
			const struct mk_ip *ip)
{
	const struct mk_addr addr = mk_ip_to_addr(ip);

	for (size_t i = 0; i < views->count; i++) {
		const struct mk_view_pod *same = same_pod(&views->list[i], pod);

		if (same && mk_addr_eq(&addr, &same->addr))
			return true;
	}
	return false;
}

static bool is_wanted(const struct mk_views *views, const struct mk_view *view,
		      const struct mk_view_pod *pod, const char *word)
{
	struct mk_ip ip;

	if (!word)
		return true;
	if (mk_ip_parse(word, &ip) == 0)
		return has_address(views, pod, &ip);
	return mk_view_pod_named(view, word) == pod || is_further_of(pod, word);
}

/* Add the pods of @view that no earlier view has. */
static void add_pods(struct json_object *list, const struct mk_views *views,
		     const struct mk_view *view, const char *word)
{
	cleanup_cli_policies struct mk_cli_policies policies;
	bool has_policies = mk_cli_policies_open(&policies, view, NULL) == 0;

	for (size_t i = 0; i < view->pod_count; i++) {
		const struct mk_view_pod *pod = &view->pods[i];

		if (view != views->list && same_pod(views->list, pod))
			continue;
		if (is_wanted(views, view, pod, word))
			json_object_array_add(list, pod_json(views, view,
							     has_policies ? &policies : NULL, pod));
	}
}

static int show(const struct mk_views *views, const struct mk_cli_options *options,
		struct mk_error *err)
{
	static const struct mk_cli_column columns[] = {
		{ "NAME", "name" },   { "ADDRESSES", "addresses" }, { "INTERFACE", "interface" },
		{ "STATE", "state" }, { "POLICIES", "policies" },   { "CONTAINER", "container" },
	};
	cleanup_json struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < views->count; i++)
		add_pods(list, views, &views->list[i], options->words[0]);
	if (options->words[0] && json_object_array_length(list) == 0)
		return mk_error_set(err, ENOENT,
				    "no pod '%s' on this node: `monokube pods` lists all",
				    options->words[0]);
	return mk_cli_print_list(stdout, list, options->json, columns, MK_ARRAY_SIZE(columns), err);
}

int mk_cli_pods(int argc, char **argv)
{
	return mk_view_main(argc, argv, show);
}

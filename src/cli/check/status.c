// SPDX-License-Identifier: Apache-2.0
/* `monokube status`: one screen. Faults come from the checks of `monokube check`. */
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/print.h"
#include "cli/check/check.h"
#include "config/addresses.h"
#include "datapath/maps/hook.h"
#include "datapath/maps/pin.h"
#include "datapath/pods/pod_table.h"
#include "datapath/policy/names.h"
#include "host/agent_state.h"

static struct json_object *agent_json(const struct mk_cli_options *options)
{
	struct json_object *object = json_object_new_object();
	struct mk_agent_state state;

	mk_agent_state_read(options->state_dir, &state);
	mk_put_flag(object, "everRan", state.ever_ran);
	mk_put_flag(object, "running", state.running);
	mk_put_number(object, "pid", state.pid);
	mk_put_text(object, "state", *state.text ? state.text : NULL);
	mk_put_text(object, "follows", *options->source ? options->source : NULL);
	return object;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static int count_entry(void *ctx, const void *key, const void *value, struct mk_error *err)
{
	size_t *count = ctx;

	(void)key;
	(void)value;
	(void)err;
	++*count;
	return 0;
}

static int count_entries(const struct mk_table *table, size_t *count, struct mk_error *err)
{
	cleanup_free struct mk_pod *pods = NULL;

	*count = 0;
	return strcmp(table->name, "pods") == 0 ? mk_pod_table_read(table, &pods, count, err)
						: mk_table_each(table, count_entry, count, err);
}

static int add_table(struct json_object *list, const struct mk_view *view, const char *name,
		     struct mk_error *err)
{
	cleanup_close int fd = mk_pin_open(view->dir, MK_PIN_MAPS, name, err);
	struct json_object *object;
	struct mk_table table;
	size_t count = 0;
	int ret = fd < 0 ? fd : mk_table_init(&table, name, fd, err);

	ret = ret ?: count_entries(&table, &count, err);
	if (ret < 0)
		return ret;
	object = json_object_new_object();
	mk_put_text(object, "family", mk_family_name(view->family));
	mk_put_text(object, "table", name);
	mk_put_number(object, "entries", count);
	mk_put_number(object, "limit", table.max_entries);
	json_object_array_add(list, object);
	return 0;
}

static int add_tables(struct json_object *to, const struct mk_views *views, struct mk_error *err)
{
	static const char *const names[] = { "pods",
					     "routes",
					     "frontends",
					     "service_backends",
					     "maglev",
					     "sessions",
					     "sessions_young",
					     "nat_sessions",
					     "nat_sessions_young",
					     "policy_identities",
					     "policy_peers",
					     "policy_blocks",
					     "policy_ports",
					     "policy_expected",
					     "policy_namespaces" };
	struct json_object *list = json_object_new_array();
	int ret = 0;

	json_object_object_add(to, "tables", list);
	for (size_t i = 0; ret == 0 && i < views->count * MK_ARRAY_SIZE(names); i++)
		ret = add_table(list, &views->list[i / MK_ARRAY_SIZE(names)],
				names[i % MK_ARRAY_SIZE(names)], err);
	return ret;
}

/* ---- hooks and drops ------------------------------------------------------------------------- */

struct hook_walk {
	struct mk_nl *nl;
	struct json_object *list;
};

static int add_hooks(void *ctx, const struct mk_link *link)
{
	static const struct {
		enum mk_direction direction;
		const char *name;
	} directions[] = { { MK_INGRESS, "ingress" }, { MK_EGRESS, "egress" } };
	const struct hook_walk *walk = ctx;

	for (size_t i = 0; i < MK_ARRAY_SIZE(directions); i++) {
		struct json_object *hook;
		uint32_t id;

		if (mk_hook_query(walk->nl, link->ifindex, directions[i].direction, &id, NULL) <
			    0 ||
		    !id)
			continue;
		hook = json_object_new_object();
		mk_put_text(hook, "interface", link->name);
		mk_put_text(hook, "direction", directions[i].name);
		mk_put_number(hook, "program", id);
		mk_put_text(hook, "pod", *link->alias ? link->alias : NULL);
		json_object_array_add(walk->list, hook);
	}
	return 0;
}

static struct json_object *uplink_json(const struct mk_uplink *uplink)
{
	struct json_object *object = json_object_new_object();
	char name[IF_NAMESIZE] = "?";

	if_indextoname(uplink->ifindex, name);
	mk_put_text(object, "interface", name);
	mk_put_addr(object, "address", &uplink->addr);
	json_object_object_add(object, "addresses", json_object_new_array());
	mk_put_number(object, "mtu", uplink->mtu_bytes);
	mk_put_flag(object, "tunnel", uplink->flags & MK_UPLINK_TUNNEL);
	mk_put_flag(object, "side", uplink->flags & MK_UPLINK_SIDE);
	return object;
}

/* As the programs know them. An uplink of both families is listed once, with both addresses. */
static void add_uplinks(struct json_object *to, const struct mk_views *views)
{
	struct json_object *list = json_object_new_array(), *object;
	uint32_t seen[MK_FAMILIES * MK_UPLINKS_MAX];
	size_t count = 0, at;

	json_object_object_add(to, "uplinks", list);
	for (size_t i = 0; i < views->count; i++)
		for (size_t j = 0; j < views->list[i].links.uplink_count; j++) {
			const struct mk_uplink *uplink = &views->list[i].links.uplinks[j];

			for (at = 0; at < count && seen[at] != uplink->ifindex; at++)
				;
			if (at == count) {
				json_object_array_add(list, uplink_json(uplink));
				seen[count++] = uplink->ifindex;
			}
			object = json_object_array_get_idx(list, at);
			mk_add_addr(json_object_object_get(object, "addresses"), &uplink->addr);
		}
	mk_put_flag(to, "asksHostRouting", views->list[0].links.set.ask_host);
}

static uint64_t count_drops(const struct mk_cli_options *options)
{
	struct mk_drop_totals totals;
	uint64_t packets = 0;

	if (mk_cli_drops_read(options, &totals, NULL) < 0)
		return 0;
	for (unsigned int reason = 0; reason < MK_DROP_COUNT; reason++)
		for (unsigned int hook = 0; hook < MK_HOOK_COUNT; hook++)
			packets += totals.counter[reason][hook].packets;
	return packets;
}

/* ---- families -------------------------------------------------------------------------------- */

struct mk_cidr check_pod_cidr(const struct mk_view *view)
{
	return (struct mk_cidr){ mk_ip_of_family(&view->node.pod_net, view->family),
				 (uint8_t)(mk_ip_bits(view->family) -
					   mk_pod_host_bits(&view->node.pod_mask)) };
}

/* Does IPv6 traffic of pods leave masqueraded, as the programs have it, and why? */
static void add_masquerade(struct json_object *to, const struct mk_checking *checking)
{
	const struct mk_view *view = check_view(checking, AF_INET6);
	const struct mk_cidr pods = check_pod_cidr(view);
	struct json_object *object = json_object_new_object();
	const char *reason;

	(void)mk_masquerade_ipv6(mk_record_masquerade_ipv6(&checking->record), &pods, &reason);
	mk_put_flag(object, "on", !view->node.keeps_source);
	mk_put_text(object, "reason", reason);
	json_object_object_add(to, "masqueradeIPv6", object);
}

static struct json_object *family_json(const struct mk_view *view)
{
	struct json_object *object = json_object_new_object();
	const struct mk_cidr pods = check_pod_cidr(view);
	char text[MK_CIDR_STRLEN];

	mk_put_text(object, "family", mk_family_name(view->family));
	mk_put_text(object, "podCidr", mk_cidr_format(&pods, text));
	if (mk_ip_of_family(&view->links.set.node_addr, AF_UNSPEC).family != AF_UNSPEC)
		mk_put_addr(object, "nodeAddress", &view->links.set.node_addr);
	return object;
}

static void add_families(struct json_object *to, const struct mk_checking *checking)
{
	const struct mk_views *views = checking->views;
	struct json_object *list = json_object_new_array();

	mk_put_text(to, "family", mk_family_name(views->list[0].family));
	mk_put_text(to, "underlayFamily", mk_family_name(check_underlay(&views->list[0])));
	for (size_t i = 0; i < views->count; i++)
		json_object_array_add(list, family_json(&views->list[i]));
	json_object_object_add(to, "families", list);
	mk_put_text(to, "missingFamily", check_missing_family(checking));
	if (check_view(checking, AF_INET6))
		add_masquerade(to, checking);
}

/* ---- policies -------------------------------------------------------------------------------- */

static void add_policies(struct json_object *to, const struct mk_checking *checking)
{
	struct json_object *object = json_object_new_object(), *list = json_object_new_array();
	struct mk_policy_names names;
	const char *name;

	mk_put_text(object, "mode", checking->record.network_policy);
	if (mk_policy_names_read(checking->options->state_dir, &names, NULL) == 0) {
		mk_put_number(object, "count", mk_policy_names_count(&names));
		for (size_t i = 0; (name = mk_policy_names_audit(&names, i)); i++)
			mk_add_text(list, name);
	}
	mk_policy_names_release(&names);
	json_object_object_add(object, "audited", list);
	json_object_object_add(to, "policies", object);
}

/* ---- the screen ------------------------------------------------------------------------------ */

static int collect(struct json_object *status, const struct mk_checking *checking,
		   struct mk_error *err)
{
	const struct mk_view *view = &checking->views->list[0];
	struct json_object *hooks = json_object_new_array(), *wrong = json_object_new_array();
	struct hook_walk walk = { view->nl, hooks };
	int ret;

	mk_put_flag(status, "healthy", checking->wrong == 0);
	for (size_t i = 0; i < json_object_array_length(checking->findings); i++) {
		struct json_object *finding = json_object_array_get_idx(checking->findings, i);

		if (!json_object_get_boolean(json_object_object_get(finding, "ok")))
			json_object_array_add(wrong, json_object_get(finding));
	}
	json_object_object_add(status, "wrong", wrong);
	json_object_object_add(status, "agent", agent_json(checking->options));
	json_object_object_add(status, "hooks", hooks);
	if (!view->loaded)
		return 0;
	add_families(status, checking);
	add_policies(status, checking);
	add_uplinks(status, checking->views);
	mk_put_addr(status, "nodeAddress", &view->links.set.node_addr);
	mk_put_number(status, "drops", count_drops(checking->options));
	ret = mk_nl_each_link(view->nl, add_hooks, &walk, err);
	return ret < 0 ? ret : add_tables(status, checking->views, err);
}

static const char *text_of(struct json_object *object, const char *key)
{
	struct json_object *value = json_object_object_get(object, key);

	return value ? json_object_get_string(value) : "";
}

static void print_agent(struct json_object *agent)
{
	bool runs = json_object_get_boolean(json_object_object_get(agent, "running"));
	const char *follows = text_of(agent, "follows"), *state = text_of(agent, "state");

	if (!json_object_get_boolean(json_object_object_get(agent, "everRan")))
		printf("agent: has never run here\n");
	else if (runs)
		printf("agent: running, pid %s%s%s%s%s\n", text_of(agent, "pid"),
		       *state ? ", " : "", state, *follows ? ", follows " : "", follows);
	else
		printf("agent: not running\n");
}

static void print_masquerade(const char *label, struct json_object *masquerade)
{
	printf("%s%s (%s)\n", label,
	       json_object_get_boolean(json_object_object_get(masquerade, "on")) ? "on" : "off",
	       text_of(masquerade, "reason"));
}

static void print_both(struct json_object *families, struct json_object *masquerade)
{
	for (size_t i = 0; i < json_object_array_length(families); i++) {
		struct json_object *family = json_object_array_get_idx(families, i);
		const char *name = text_of(family, "family");
		const char *node = text_of(family, "nodeAddress");

		printf("%s: pods %s, node %s", name, text_of(family, "podCidr"),
		       *node ? node : "without address");
		if (strcmp(name, mk_family_name(AF_INET6)) == 0)
			print_masquerade(", masquerade ", masquerade);
		else
			printf("\n");
	}
}

/* A node of IPv4 alone has nothing to say here. */
static void print_families(struct json_object *status)
{
	struct json_object *masquerade = json_object_object_get(status, "masqueradeIPv6");
	struct json_object *families = json_object_object_get(status, "families");
	const char *missing = text_of(status, "missingFamily");

	if (*missing)
		printf("%s: configured, but this node does not run it (monokube check)\n", missing);
	if (json_object_array_length(families) > 1) {
		print_both(families, masquerade);
		printf("underlay: %s\n", text_of(status, "underlayFamily"));
	} else if (masquerade) {
		printf("pods: %s, underlay: %s\n", text_of(status, "family"),
		       text_of(status, "underlayFamily"));
		print_masquerade("masquerade: ", masquerade);
	}
}

/* A cluster without policies has nothing to say here. */
static void print_policies(struct json_object *policies)
{
	struct json_object *audited = json_object_object_get(policies, "audited");
	const char *mode = text_of(policies, "mode"), *count = text_of(policies, "count");

	if (strcmp(mode, "off") == 0)
		printf("policies: none applies, networkPolicy is off\n");
	else if (strcmp(mode, "audit") == 0)
		printf("policies: %s, all audited, networkPolicy is audit\n", count);
	else if (json_object_array_length(audited))
		printf("policies: %s, audited: %zu (monokube check names them)\n", count,
		       json_object_array_length(audited));
	else if (*count && strcmp(count, "0") != 0)
		printf("policies: %s\n", count);
}

static void print_tables(struct json_object *status)
{
	static const struct mk_cli_column columns[] = { { "FAMILY", "family" },
							{ "TABLE", "table" },
							{ "ENTRIES", "entries" },
							{ "OF", "limit" } };
	size_t families = json_object_array_length(json_object_object_get(status, "families"));
	size_t first = families > 1 ? 0 : 1;

	mk_cli_print_table(stdout, json_object_object_get(status, "tables"), &columns[first],
			   MK_ARRAY_SIZE(columns) - first);
}

static void print_text(struct json_object *status)
{
	static const struct mk_cli_column hooks[] = { { "INTERFACE", "interface" },
						      { "HOOK", "direction" },
						      { "PROGRAM", "program" },
						      { "POD", "pod" } };
	struct json_object *wrong = json_object_object_get(status, "wrong");

	printf("%s\n", json_object_array_length(wrong) ? "not healthy:" : "healthy");
	for (size_t i = 0; i < json_object_array_length(wrong); i++) {
		struct json_object *finding = json_object_array_get_idx(wrong, i);

		printf("  %s: %s\n    -> %s\n", text_of(finding, "check"), text_of(finding, "says"),
		       text_of(finding, "remedy"));
	}
	print_agent(json_object_object_get(status, "agent"));
	if (!json_object_object_get_ex(status, "tables", NULL))
		return;
	print_families(status);
	print_policies(json_object_object_get(status, "policies"));
	printf("drops: %s packets (monokube drops says why)\n\n", text_of(status, "drops"));
	print_tables(status);
	printf("\n");
	mk_cli_print_table(stdout, json_object_object_get(status, "hooks"), hooks,
			   MK_ARRAY_SIZE(hooks));
}

static int show(const struct mk_views *views, const struct mk_cli_options *options,
		struct mk_error *err)
{
	cleanup_json struct json_object *status = NULL, *findings = NULL;
	struct mk_checking checking;
	int ret = check_all(&checking, views, options, false, err);

	if (ret < 0)
		return ret;
	findings = checking.findings;
	status = json_object_new_object();
	ret = collect(status, &checking, err);
	if (ret == 0 && options->json)
		ret = mk_cli_print_json(stdout, status, err);
	else if (ret == 0)
		print_text(status);
	return ret < 0 ? ret : checking.wrong != 0;
}

int mk_cli_status(int argc, char **argv)
{
	return mk_view_main_unloaded(argc, argv, show);
}

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
#include "datapath/maps/object.h"
#include "datapath/maps/pin.h"
#include "datapath/monitor/drops.h"
#include "datapath/pods/pod_table.h"
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

static int add_table(struct json_object *list, const char *bpf_dir, const char *name,
		     struct mk_error *err)
{
	cleanup_close int fd = mk_pin_open(bpf_dir, MK_PIN_MAPS, name, err);
	struct json_object *object;
	struct mk_table table;
	size_t count = 0;
	int ret = fd < 0 ? fd : mk_table_init(&table, name, fd, err);

	ret = ret ?: count_entries(&table, &count, err);
	if (ret < 0)
		return ret;
	object = json_object_new_object();
	mk_put_text(object, "table", name);
	mk_put_number(object, "entries", count);
	mk_put_number(object, "limit", table.max_entries);
	json_object_array_add(list, object);
	return 0;
}

static int add_tables(struct json_object *to, const char *bpf_dir, struct mk_error *err)
{
	static const char *const names[] = {
		"pods",	    "routes",	      "frontends",    "service_backends",  "maglev",
		"sessions", "sessions_young", "nat_sessions", "nat_sessions_young"
	};
	struct json_object *list = json_object_new_array();
	int ret = 0;

	json_object_object_add(to, "tables", list);
	for (size_t i = 0; ret == 0 && i < MK_ARRAY_SIZE(names); i++)
		ret = add_table(list, bpf_dir, names[i], err);
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

/* As the programs know them. */
static void add_uplinks(struct json_object *to, const struct mk_datapath_links *links)
{
	struct json_object *list = json_object_new_array();

	json_object_object_add(to, "uplinks", list);
	for (size_t i = 0; i < links->uplink_count; i++) {
		const struct mk_uplink *uplink = &links->uplinks[i];
		struct json_object *object = json_object_new_object();
		char name[IF_NAMESIZE] = "?";

		if_indextoname(uplink->ifindex, name);
		mk_put_text(object, "interface", name);
		mk_put_addr(object, "address", &uplink->addr);
		mk_put_number(object, "mtu", uplink->mtu_bytes);
		mk_put_flag(object, "tunnel", uplink->flags & MK_UPLINK_TUNNEL);
		mk_put_flag(object, "side", uplink->flags & MK_UPLINK_SIDE);
		json_object_array_add(list, object);
	}
	mk_put_flag(to, "asksHostRouting", links->set.ask_host);
}

static uint64_t count_drops(const char *bpf_dir)
{
	struct mk_drop_totals totals;
	uint64_t packets = 0;

	if (mk_drops_read(bpf_dir, &totals, NULL) < 0)
		return 0;
	for (unsigned int reason = 0; reason < MK_DROP_COUNT; reason++)
		for (unsigned int hook = 0; hook < MK_HOOK_COUNT; hook++)
			packets += totals.counter[reason][hook].packets;
	return packets;
}

/* ---- families -------------------------------------------------------------------------------- */

/* Does IPv6 traffic of pods leave masqueraded, as the programs have it, and why? */
static void add_masquerade(struct json_object *to, const struct mk_checking *checking)
{
	const struct mk_node *node = &checking->view->node;
	const struct mk_cidr pods = { mk_ip_from_addr(&node->pod_net),
				      (uint8_t)(mk_ip_bits(AF_INET6) -
						mk_pod_host_bits(&node->pod_mask)) };
	struct json_object *object = json_object_new_object();
	const char *reason;

	(void)mk_masquerade_ipv6(mk_record_masquerade_ipv6(&checking->record), &pods, &reason);
	mk_put_flag(object, "on", !node->keeps_source);
	mk_put_text(object, "reason", reason);
	json_object_object_add(to, "masqueradeIPv6", object);
}

static void add_families(struct json_object *to, const struct mk_checking *checking)
{
	const sa_family_t family = mk_node_family(&checking->view->node);

	mk_put_text(to, "family", mk_family_name(family));
	mk_put_text(to, "underlayFamily", mk_family_name(check_underlay(checking->view)));
	if (family == AF_INET6)
		add_masquerade(to, checking);
}

/* ---- the screen ------------------------------------------------------------------------------ */

static int collect(struct json_object *status, const struct mk_checking *checking,
		   struct mk_error *err)
{
	const struct mk_view *view = checking->view;
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
	add_uplinks(status, &view->links);
	mk_put_addr(status, "nodeAddress", &view->links.set.node_addr);
	mk_put_number(status, "drops", count_drops(view->bpf_dir));
	ret = mk_nl_each_link(view->nl, add_hooks, &walk, err);
	return ret < 0 ? ret : add_tables(status, view->bpf_dir, err);
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

/* A node of IPv4 alone has nothing to say here. */
static void print_families(struct json_object *status)
{
	struct json_object *masquerade = json_object_object_get(status, "masqueradeIPv6");

	if (!masquerade)
		return;
	printf("pods: %s, underlay: %s\n", text_of(status, "family"),
	       text_of(status, "underlayFamily"));
	printf("masquerade: %s (%s)\n",
	       json_object_get_boolean(json_object_object_get(masquerade, "on")) ? "on" : "off",
	       text_of(masquerade, "reason"));
}

static void print_text(struct json_object *status)
{
	static const struct mk_cli_column tables[] = { { "TABLE", "table" },
						       { "ENTRIES", "entries" },
						       { "OF", "limit" } };
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
	printf("drops: %s packets (monokube drops says why)\n\n", text_of(status, "drops"));
	mk_cli_print_table(stdout, json_object_object_get(status, "tables"), tables,
			   MK_ARRAY_SIZE(tables));
	printf("\n");
	mk_cli_print_table(stdout, json_object_object_get(status, "hooks"), hooks,
			   MK_ARRAY_SIZE(hooks));
}

static int show(const struct mk_view *view, const struct mk_cli_options *options,
		struct mk_error *err)
{
	cleanup_json struct json_object *status = NULL, *findings = NULL;
	struct mk_checking checking;
	int ret = check_all(&checking, view, options, err);

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

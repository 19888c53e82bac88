// SPDX-License-Identifier: Apache-2.0
/* `monokube policy`: the policies of all pods, of one pod, or about one flow. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/print.h"
#include "cli/inspect/policy.h"
#include "cli/inspect/view_internal.h"

#define EXIT_DENIED 3 /* as for `trace` */

/* The tables of all families that are shown. */
struct all {
	struct mk_cli_policies of[MK_FAMILIES];
	size_t count;
};

/* ---- counters -------------------------------------------------------------------------------- */

/* Packets of one set: all that it denied, or those of one rule. */
struct packets {
	uint64_t set;
	bool any_denied;
	bool audited; /* it passed; an audited policy would deny it */
	uint16_t rule;
	uint64_t found;
};

static int see_count(void *ctx, const void *key_, const void *value, struct mk_error *err)
{
	const struct mk_policy_count_key *key = key_;
	struct packets *packets = ctx;

	(void)err;
	if (key->set == packets->set && key->audited == packets->audited &&
	    (packets->any_denied ? key->denied : key->rule == packets->rule))
		packets->found += ((const struct mk_policy_count *)value)->packets;
	return 0;
}

/* A table that cannot be read counts as empty. */
static uint64_t count(const struct all *all, struct packets packets)
{
	for (size_t i = 0; i < all->count; i++)
		if (mk_table_each(&all->of[i].counts, see_count, &packets, NULL) < 0)
			continue;
	return packets.found;
}

/* ---- all pods -------------------------------------------------------------------------------- */

struct policy_numbers {
	unsigned int isolating, audited, chains;
};

static struct policy_numbers numbers_of(const struct mk_policy_names *names, uint64_t set)
{
	struct policy_numbers numbers = { 0 };
	struct mk_policy_chain_name chain;
	const char *policy;

	for (size_t i = 0; (policy = mk_policy_names_policy(names, set, i)); i++) {
		bool audited = mk_policy_names_audited(names, set, policy);

		numbers.audited += audited;
		numbers.isolating += !audited && mk_policy_name_isolates(policy);
	}
	while (mk_policy_names_chain(names, set, numbers.chains, &chain))
		numbers.chains++;
	return numbers;
}

#define STATE_BYTES 64

/* "open", "pending", "isolated by 2 policies", "only cluster policies"; then "audit of 1" and
 * "1 chain". */
static const char *state_of(const struct mk_cli_policies *policies, uint64_t set,
			    char text[STATE_BYTES])
{
	const struct policy_numbers numbers = numbers_of(&policies->names, set);
	size_t used;

	if (set == MK_SET_PENDING)
		return "pending";
	if (set == MK_SET_OPEN)
		return "open";
	if (!mk_policy_set_has_policies(policies, set))
		snprintf(text, STATE_BYTES, "open");
	else if (set & MK_SET_ONLY_AUDITS)
		text[0] = '\0';
	else if (!(set & MK_SET_ISOLATES))
		snprintf(text, STATE_BYTES, "only cluster policies");
	else if (!numbers.isolating)
		snprintf(text, STATE_BYTES, "isolated");
	else
		snprintf(text, STATE_BYTES, "isolated by %u polic%s", numbers.isolating,
			 numbers.isolating == 1 ? "y" : "ies");
	used = strlen(text);
	if (set & MK_SET_AUDITS)
		snprintf(text + used, STATE_BYTES - used, "%saudit of %u", used ? ", " : "",
			 numbers.audited);
	used = strlen(text);
	if (set & MK_SET_HAS_CHAINS)
		snprintf(text + used, STATE_BYTES - used, "%s%u chain%s", used ? ", " : "",
			 numbers.chains, numbers.chains == 1 ? "" : "s");
	return text;
}

static json_object *names_json(const struct mk_policy_names *names, uint64_t set)
{
	json_object *list = json_object_new_array();
	const char *policy;

	for (size_t i = 0; (policy = mk_policy_names_policy(names, set, i)); i++)
		mk_add_text(list, policy);
	return list;
}

static json_object *pod_json(const struct all *all, const struct mk_cli_policies *policies,
			     const struct mk_view_pod *pod)
{
	static const char *const lists[] = { "ingressPolicies", "egressPolicies" };
	json_object *object = json_object_new_object();
	uint64_t denied = 0, audited = 0;
	char text[STATE_BYTES];

	mk_put_text(object, "name", mk_view_pod_name(pod));
	mk_put_addr(object, "address", &pod->addr);
	for (int i = 0; i < MK_POLICY_DIRECTIONS; i++) {
		const uint64_t set = mk_policy_set_of(policies, pod, i);

		mk_put_text(object, mk_policy_direction_name(i), state_of(policies, set, text));
		json_object_object_add(object, lists[i], names_json(&policies->names, set));
		if (set == MK_SET_OPEN)
			continue;
		denied += count(all, (struct packets){ .set = set, .any_denied = true });
		audited += count(
			all, (struct packets){ .set = set, .any_denied = true, .audited = true });
	}
	mk_put_number(object, "denied", denied);
	mk_put_number(object, "audited", audited);
	return object;
}

/* Add the pods of @policies that no earlier family has. */
static void add_pods(json_object *list, const struct all *all,
		     const struct mk_cli_policies *policies)
{
	const struct mk_view *view = policies->view;

	for (size_t i = 0; i < view->pod_count; i++)
		if (policies == all->of ||
		    !view_pod_of_device(all->of[0].view, view->pods[i].entry.ifindex))
			json_object_array_add(list, pod_json(all, policies, &view->pods[i]));
}

/* ---- one pod --------------------------------------------------------------------------------- */

static json_object *rule_json(const struct all *all, uint64_t set,
			      enum mk_policy_direction direction,
			      const struct mk_policy_rule_name *rule)
{
	json_object *object = json_object_new_object();

	mk_put_text(object, "direction", mk_policy_direction_name(direction));
	mk_put_text(object, "tier", rule->tier);
	mk_put_text(object, "policy", rule->policy);
	mk_put_number(object, "rule", (uint64_t)rule->index + 1);
	mk_put_text(object, "name", rule->name);
	mk_put_text(object, "action", rule->action);
	mk_put_text(object, "peers", rule->peers);
	mk_put_text(object, "ports", rule->ports);
	mk_put_number(object, "packets",
		      count(all, (struct packets){ .set = set, .rule = rule->number }));
	return object;
}

/* What takes the flow after the rules have allowed it. */
static json_object *chain_json(enum mk_policy_direction direction,
			       const struct mk_policy_chain_name *chain)
{
	json_object *object = json_object_new_object();

	mk_put_text(object, "direction", mk_policy_direction_name(direction));
	mk_put_text(object, "tier", "chain");
	mk_put_text(object, "policy", chain->chain);
	mk_put_text(object, "action", "chain");
	mk_put_text(object, "peers", chain->peers);
	mk_put_text(object, "ports", chain->ports);
	return object;
}

/* What follows behind all rules. */
static json_object *rest_json(const struct all *all, uint64_t set,
			      enum mk_policy_direction direction)
{
	const bool is_pending = set == MK_SET_PENDING;
	json_object *object = json_object_new_object();

	mk_put_text(object, "direction", mk_policy_direction_name(direction));
	mk_put_text(object, "action", is_pending || (set & MK_SET_ISOLATES) ? "deny" : "accept");
	mk_put_text(object, "peers", is_pending ? "its policies are not known yet" : "all others");
	if (set != MK_SET_OPEN)
		mk_put_number(object, "packets", count(all, (struct packets){ .set = set }));
	return object;
}

static void add_direction(json_object *list, const struct all *all,
			  const struct mk_cli_policies *policies, const struct mk_view_pod *pod,
			  enum mk_policy_direction direction)
{
	const uint64_t set = mk_policy_set_of(policies, pod, direction);
	struct mk_policy_chain_name chain;
	struct mk_policy_rule_name rule;

	for (size_t i = 0; mk_policy_names_rule(&policies->names, set, i, &rule); i++)
		json_object_array_add(list, rule_json(all, set, direction, &rule));
	json_object_array_add(list, rest_json(all, set, direction));
	for (size_t i = 0; mk_policy_names_chain(&policies->names, set, i, &chain); i++)
		json_object_array_add(list, chain_json(direction, &chain));
}

static const struct mk_view_pod *pod_of(const struct mk_view *view, const char *word)
{
	struct mk_ip ip;
	struct mk_addr addr;

	if (mk_ip_parse(word, &ip) < 0)
		return mk_view_pod_named(view, word);
	addr = mk_ip_to_addr(&ip);
	return mk_view_pod(view, &addr);
}

static int add_pod(json_object *list, const struct all *all, const char *word, struct mk_error *err)
{
	for (size_t i = 0; i < all->count; i++) {
		const struct mk_view_pod *pod = pod_of(all->of[i].view, word);

		for (int at = 0; pod && at < MK_POLICY_DIRECTIONS; at++)
			add_direction(list, all, &all->of[i], pod, at);
		if (pod)
			return 0;
	}
	return mk_error_set(err, ENOENT, "no pod '%s' on this node: `monokube pods` lists all",
			    word);
}

/* ---- one flow -------------------------------------------------------------------------------- */

static int resolve(const struct mk_view *view, const char *word, struct mk_addr *addr,
		   struct mk_error *err)
{
	const struct mk_view_pod *pod = mk_view_pod_named(view, word);
	struct mk_ip ip;

	if (pod)
		*addr = pod->addr;
	else if (strcmp(word, "host") == 0)
		*addr = view->links.set.node_addr;
	else if (mk_ip_parse(word, &ip) == 0 && ip.family == view->family)
		*addr = mk_ip_to_addr(&ip);
	else
		return mk_error_set(
			err, ENOENT,
			"'%s': expected a pod of this node (namespace/name, name), `host`, or an %s address, such as that of a pod elsewhere",
			word, mk_family_name(view->family));
	return 0;
}

/* "80" or "53/udp"; none: a ping. */
static int read_port(const struct mk_view *view, const struct mk_cli_options *options,
		     struct mk_tuple *flow, struct mk_error *err)
{
	const char *word = options->words[2], *slash = word ? strchr(word, '/') : NULL;
	unsigned int protocol = slash ? mk_cli_protocol_parse(slash + 1) : options->protocol, port;
	char number[8] = "";

	if (!word) {
		flow->proto = mk_view_protocol(view, protocol ?: IPPROTO_ICMP);
		return 0;
	}
	snprintf(number, sizeof(number), "%.*s", slash ? (int)(slash - word) : 7, word);
	port = mk_cli_port_parse(number);
	if (!port || (slash && !protocol))
		return mk_error_set(err, EINVAL, "PORT '%s': expected 1 to 65535, or 53/udp", word);
	flow->proto = mk_view_protocol(view, protocol ?: IPPROTO_TCP);
	flow->dport = htons((uint16_t)port);
	return 0;
}

/* Policies see the backend that a Service chooses. */
static int refuse_service(const struct mk_view *view, const struct mk_cli_options *options,
			  const struct mk_tuple *flow, struct mk_error *err)
{
	cleanup_table struct mk_table table = { .fd = -1 };
	struct mk_frontend_key key = { .addr = flow->daddr };
	struct mk_frontend service;
	int ret = mk_table_open(&table, view->dir, "frontends", sizeof(key), sizeof(service), err);

	if (ret < 0 || mk_table_get(&table, &key, &service, NULL) < 0)
		return ret;
	return mk_error_set(
		err, EINVAL,
		"TO '%s' is an address of a Service: policies are asked about the backend that it chooses, see `monokube trace %s %s PORT`",
		options->words[1], options->words[0], options->words[1]);
}

static int read_flow(const struct mk_view *view, const struct mk_cli_options *options,
		     struct mk_tuple *flow, struct mk_error *err)
{
	int ret = resolve(view, options->words[0], &flow->saddr, err);

	ret = ret ?: resolve(view, options->words[1], &flow->daddr, err);
	ret = ret ?: read_port(view, options, flow, err);
	return ret ?: refuse_service(view, options, flow, err);
}

static json_object *verdict_json(const struct mk_policy_words *words,
				 enum mk_policy_direction direction)
{
	json_object *object = json_object_new_object();

	mk_put_text(object, "direction", mk_policy_direction_name(direction));
	mk_put_text(object, "verdict",
		    !words->asked    ? "not asked"
		    : words->allowed ? "allowed"
				     : "denied");
	mk_put_text(object, "why", words->text);
	return object;
}

/* Returns EXIT_DENIED if a direction denies the flow. */
static int ask_flow(const struct mk_cli_policies *policies, const struct mk_tuple *flow,
		    json_object *list, struct mk_error *err)
{
	struct mk_policy_words words;
	int status = 0;

	for (int i = MK_POLICY_DIRECTIONS - 1; i >= 0; i--) { /* as packets meet them */
		int ret = mk_policy_explain(policies, flow, i, true, &words, err);

		if (ret < 0)
			return ret;
		json_object_array_add(list, verdict_json(&words, i));
		status = words.allowed ? status : EXIT_DENIED;
	}
	return status;
}

static void print_verdicts(json_object *list)
{
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		json_object *of = json_object_array_get_idx(list, i);

		printf("%s: %s: %s\n",
		       json_object_get_string(json_object_object_get(of, "direction")),
		       json_object_get_string(json_object_object_get(of, "verdict")),
		       json_object_get_string(json_object_object_get(of, "why")));
	}
}

static int show_flow(const struct mk_view *view, const struct mk_cli_options *options,
		     const struct mk_tuple *flow, struct mk_error *err)
{
	cleanup_json json_object *list = json_object_new_array();
	cleanup_cli_policies struct mk_cli_policies policies = { 0 };
	int ret = mk_cli_policies_open(&policies, view, err), status;

	if (ret < 0)
		return ret;
	status = ask_flow(&policies, flow, list, err);
	if (status < 0)
		return status;
	if (options->json)
		ret = mk_cli_print_json(stdout, list, err);
	else
		print_verdicts(list);
	return ret < 0 ? ret : status;
}

/* In the first family that has FROM and TO. */
static int flow_of_views(const struct mk_views *views, const struct mk_cli_options *options,
			 struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; i < views->count; i++) {
		struct mk_tuple flow = { 0 };

		if (read_flow(&views->list[i], options, &flow, ret < 0 ? NULL : err) == 0)
			return show_flow(&views->list[i], options, &flow, err);
		ret = -EINVAL;
	}
	return ret;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int print_list(const struct mk_cli_options *options, json_object *list, struct mk_error *err)
{
	static const struct mk_cli_column pods[] = {
		{ "NAME", "name" },	{ "ADDRESS", "address" }, { "INGRESS", "ingress" },
		{ "EGRESS", "egress" }, { "DENIED", "denied" },	  { "AUDITED", "audited" }
	};
	static const struct mk_cli_column rules[] = {
		{ "DIRECTION", "direction" }, { "TIER", "tier" },   { "POLICY", "policy" },
		{ "RULE", "rule" },	      { "NAME", "name" },   { "ACTION", "action" },
		{ "PACKETS", "packets" },     { "PORTS", "ports" }, { "PEERS", "peers" },
	};

	if (options->word_count)
		return mk_cli_print_list(stdout, list, options->json, rules, MK_ARRAY_SIZE(rules),
					 err);
	return mk_cli_print_list(stdout, list, options->json, pods, MK_ARRAY_SIZE(pods), err);
}

static int show_list(const struct mk_views *views, const struct mk_cli_options *options,
		     struct mk_error *err)
{
	cleanup_json json_object *list = json_object_new_array();
	struct all all = { .count = 0 };
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < views->count; i++)
		ret = mk_cli_policies_open(&all.of[all.count++], &views->list[i], err);
	if (ret == 0 && options->words[0])
		ret = add_pod(list, &all, options->words[0], err);
	for (size_t i = 0; ret == 0 && !options->words[0] && i < all.count; i++)
		add_pods(list, &all, &all.of[i]);
	ret = ret ?: print_list(options, list, err);
	for (size_t i = 0; i < all.count; i++)
		mk_cli_policies_close(&all.of[i]);
	return ret;
}

static int show(const struct mk_views *views, const struct mk_cli_options *options,
		struct mk_error *err)
{
	return options->word_count > 1 ? flow_of_views(views, options, err)
				       : show_list(views, options, err);
}

int mk_cli_policy(int argc, char **argv)
{
	return mk_view_main(argc, argv, show);
}

// SPDX-License-Identifier: Apache-2.0
/* `monokube chains`: functions of service function chains, their replicas, and their packets. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/print.h"
#include "cli/inspect/chains.h"
#include "cli/inspect/policy.h"
#include "cli/inspect/view_internal.h"
#include "datapath/maps/pin.h"

#define EXIT_BLOCKED 1

/* The tables of all families that are shown. */
struct all {
	struct mk_cli_chains of[MK_FAMILIES];
	size_t count;
};

static unsigned int number_of(json_object *entry, const char *key)
{
	return (unsigned int)mk_json_number(entry, key);
}

/* Is chain @name the one that @word names, "namespace/name" or "name"? NULL: all are. */
static bool names_chain(const char *name, const char *word)
{
	const char *slash = strchr(name, '/');

	return !word || strcmp(name, word) == 0 || (slash && strcmp(slash + 1, word) == 0);
}

/* ---- one replica ----------------------------------------------------------------------------- */

static void put_side(json_object *object, const struct mk_sfc_replica *entry,
		     const struct mk_sfc_counters *sum, enum mk_sfc_side side)
{
	static const char *const keys[MK_SFC_SIDES][5] = {
		{ "insideDevice", "toInside", "fromInside", "toInsideBytes", "fromInsideBytes" },
		{ "outsideDevice", "toOutside", "fromOutside", "toOutsideBytes",
		  "fromOutsideBytes" },
	};
	char name[IF_NAMESIZE];

	mk_put_text(object, keys[side][0],
		    entry->ifindex[side] ? if_indextoname(entry->ifindex[side], name) : NULL);
	mk_put_number(object, keys[side][1], sum->sent_packets[side]);
	mk_put_number(object, keys[side][2], sum->received_packets[side]);
	mk_put_number(object, keys[side][3], sum->sent_bytes[side]);
	mk_put_number(object, keys[side][4], sum->received_bytes[side]);
}

/* What the agent knew last. The tables know more if a replica was removed without an agent. */
static const char *state_of(json_object *names, const struct mk_sfc_replica *entry, bool usable)
{
	const char *state = mk_json_text(names, "state");

	if (usable || !number_of(names, "number"))
		return state;
	return entry->state == MK_SFC_USABLE   ? "gone"
	       : strcmp(state, "serving") == 0 ? "lost"
					       : state;
}

/* The replica's weight for new flows of the function. */
static unsigned int weight_of(json_object *names, json_object *function)
{
	unsigned int weight = number_of(names, "weight");

	return mk_json_flag(names, "isHere") ? weight * number_of(function, "localWeight") : weight;
}

static void put_replica(json_object *object, const struct all *all, json_object *function,
			json_object *names)
{
	const unsigned int number = number_of(names, "number");
	struct mk_sfc_counters sum = { 0 };
	struct mk_sfc_replica entry = { 0 };
	bool usable = number;

	for (size_t i = all->count; number && i-- > 0;) {
		usable &= mk_replica_is_usable(&all->of[i], number, &entry);
		(void)mk_table_sum(&all->of[i].counters, &(__u32){ number }, &sum, NULL);
	}
	mk_put_text(object, "replica", mk_json_text(names, "name"));
	mk_put_text(object, "node", mk_json_text(names, "node"));
	mk_put_number(object, "weight", weight_of(names, function));
	mk_put_text(object, "state", state_of(names, &entry, usable));
	if (!number)
		return;
	put_side(object, &entry, &sum, MK_SFC_INSIDE);
	put_side(object, &entry, &sum, MK_SFC_OUTSIDE);
}

/* ---- one function ---------------------------------------------------------------------------- */

/* Does a new flow get a replica, in each family? */
static bool serves(const struct all *all, unsigned int function)
{
	cleanup_free struct mk_sfc_function *entry = malloc(sizeof(*entry));
	const __u32 key = function;

	for (size_t i = 0; i < all->count; i++) {
		struct mk_sfc_replica replica;
		bool found = false;

		if (!entry || mk_table_get(&all->of[i].functions, &key, entry, NULL) < 0)
			return false;
		for (size_t slot = 0; !found && slot < MK_SFC_SLOTS; slot++)
			found = entry->replica[slot] &&
				mk_replica_is_usable(&all->of[i], entry->replica[slot], &replica);
		if (!found)
			return false;
	}
	return true;
}

/* Taps and ends are never left out, so the column says what they are. */
static const char *kind_of(json_object *function)
{
	const char *end = mk_json_text(function, "end");

	if (mk_json_flag(function, "tap"))
		return "Tap";
	if (*end)
		return strcmp(end, "inside") == 0 ? "Inside end" : "Outside end";
	return mk_json_text(function, "whenUnavailable");
}

static json_object *row_of(json_object *chain, json_object *function)
{
	json_object *object = json_object_new_object();

	mk_put_text(object, "chain", mk_json_text(chain, "name"));
	mk_put_text(object, "function", mk_json_text(function, "name"));
	mk_put_text(object, "whenUnavailable", kind_of(function));
	return object;
}

static bool is_replica_of(json_object *names, json_object *chain, json_object *function)
{
	const char *replica = mk_json_text(names, "name"), *of = mk_json_text(chain, "name");
	size_t length = strcspn(of, "/") + 1; /* the namespace and its slash */
	json_object *tap = NULL; /* the replica serves a tap, or another function; NULL: none */

	if (json_object_object_get_ex(names, "tap", &tap) &&
	    json_object_get_boolean(tap) != mk_json_flag(function, "tap"))
		return false;
	return strncmp(replica, of, length) == 0 &&
	       strcmp(mk_json_text(names, "function"), mk_json_text(function, "name")) == 0;
}

/* Find the next replica of the function, from *@at on. NULL: there is none. */
static json_object *next_replica(const struct all *all, json_object *chain, json_object *function,
				 size_t *at)
{
	json_object *names;

	while ((names = mk_chain_names_at(&all->of[0], "replicas", (*at)++)))
		if (is_replica_of(names, chain, function))
			return names;
	return NULL;
}

/* Does the chain have ends, and no replica of the inside end on this node? Then it does nothing
 * here. */
static bool is_idle(const struct all *all, json_object *chain, json_object *functions)
{
	json_object *first = mk_json_at(functions, 0);
	size_t at = 0;

	return first && *mk_json_text(first, "end") && !next_replica(all, chain, first, &at);
}

/* Add a row per replica, or one that says that there is none. Returns EXIT_BLOCKED if the chain's
 * packets are dropped. */
static int add_function(json_object *rows, const struct all *all, json_object *chain,
			json_object *function, bool idle)
{
	const unsigned int id = number_of(function, "id");
	const bool blocks = strcmp(mk_json_text(function, "whenUnavailable"), "Skip") != 0;
	json_object *names, *object;
	size_t at = 0;
	bool any = false;

	while ((names = next_replica(all, chain, function, &at))) {
		object = row_of(chain, function);
		put_replica(object, all, function, names);
		json_object_array_add(rows, object);
		any = true;
	}
	if (!any) {
		object = row_of(chain, function);
		mk_put_text(object, "state",
			    idle     ? "no replica on this node"
			    : blocks ? "no replica: blocked"
				     : "no replica: skipped");
		json_object_array_add(rows, object);
	}
	return blocks && !idle && !serves(all, id) ? EXIT_BLOCKED : 0;
}

static int add_chain(json_object *rows, const struct all *all, json_object *chain)
{
	json_object *functions = mk_json_member(chain, "functions");
	bool idle = is_idle(all, chain, functions);
	int status = 0;

	for (size_t i = 0; i < mk_json_length(functions); i++)
		status |= add_function(rows, all, chain, mk_json_at(functions, i), idle);
	return status;
}

/* ---- chained pods ---------------------------------------------------------------------------- */

static json_object *pod_json(const struct mk_view_pod *pod, enum mk_policy_direction direction,
			     const struct mk_policy_chain_name *chain)
{
	json_object *object = json_object_new_object();

	mk_put_text(object, "pod", mk_view_pod_name(pod));
	mk_put_addr(object, "address", &pod->addr);
	mk_put_text(object, "direction", mk_policy_direction_name(direction));
	mk_put_text(object, "chain", chain->chain);
	mk_put_text(object, "ports", chain->ports);
	mk_put_text(object, "peers", chain->peers);
	return object;
}

/* Add the chains of @pod in the order of asking. */
static void add_pod(json_object *list, const struct mk_cli_policies *policies,
		    const struct mk_view_pod *pod, const char *word)
{
	for (int at = MK_POLICY_DIRECTIONS - 1; at >= 0; at--) {
		const uint64_t set = mk_policy_set_of(policies, pod, at);
		struct mk_policy_chain_name chain;

		for (size_t i = 0; mk_policy_names_chain(&policies->names, set, i, &chain); i++)
			if (names_chain(chain.chain, word))
				json_object_array_add(list, pod_json(pod, at, &chain));
	}
}

/* Add the chained pods of @views, each once. */
static void add_pods(json_object *list, const struct mk_views *views, const char *word)
{
	for (size_t i = 0; i < views->count; i++) {
		const struct mk_view *view = &views->list[i];
		cleanup_cli_policies struct mk_cli_policies policies;

		if (mk_cli_policies_open(&policies, view, NULL) < 0)
			continue;
		for (size_t j = 0; j < view->pod_count; j++)
			if (i == 0 || !view_pod_of_device(views->list, view->pods[j].entry.ifindex))
				add_pod(list, &policies, &view->pods[j], word);
	}
}

/* ---- chains with ends ------------------------------------------------------------------------ */

/* Count the flows of chain @id in the tables of one family. */
static unsigned int count_flows(const struct mk_view *view, unsigned int id)
{
	cleanup_close int fd = -1;
	char name[32], key[64];
	unsigned int count = 0;

	snprintf(name, sizeof(name), "sfc_flows_%u", id);
	fd = mk_pin_open(view->dir, MK_PIN_MAPS, name, NULL);
	while (fd >= 0 && count < MK_SFC_END_FLOWS &&
	       bpf_map_get_next_key(fd, count ? key : NULL, key) == 0)
		count++;
	return count;
}

static void add_flows(json_object *ends, const struct all *all, json_object *chain)
{
	json_object *first = mk_json_at(mk_json_member(chain, "functions"), 0), *object;
	unsigned int flows = 0;

	if (!first || !*mk_json_text(first, "end"))
		return;
	for (size_t i = 0; i < all->count; i++)
		flows += count_flows(all->of[i].view, number_of(chain, "id"));
	object = json_object_new_object();
	mk_put_text(object, "chain", mk_json_text(chain, "name"));
	mk_put_number(object, "flows", flows);
	json_object_array_add(ends, object);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Add a row if the chain takes no pod. */
static void add_problem(json_object *problems, json_object *chain)
{
	json_object *object;

	if (!*mk_json_text(chain, "problem"))
		return;
	object = json_object_new_object();
	mk_put_text(object, "chain", mk_json_text(chain, "name"));
	mk_put_text(object, "problem", mk_json_text(chain, "problem"));
	mk_put_text(object, "remedy", mk_json_text(chain, "remedy"));
	json_object_array_add(problems, object);
}

static int add_chains(json_object *result, const struct all *all, const char *word,
		      struct mk_error *err)
{
	json_object *rows = json_object_object_get(result, "functions"),
		    *problems = json_object_object_get(result, "problems"),
		    *ends = json_object_object_get(result, "ends");
	json_object *chain;
	bool found = !word;
	int status = 0;

	for (size_t i = 0; (chain = mk_chain_names_at(&all->of[0], "chains", i)); i++)
		if (names_chain(mk_json_text(chain, "name"), word)) {
			status |= add_chain(rows, all, chain);
			add_problem(problems, chain);
			add_flows(ends, all, chain);
			found = true;
		}
	if (!found)
		return mk_error_set(
			err, ENOENT,
			"no chain '%s' on this node: `monokube chains` lists all, `kubectl get sfc -A` those of the cluster",
			word);
	return status;
}

static void print_if_any(json_object *rows, const struct mk_cli_column *columns, size_t count)
{
	if (json_object_array_length(rows) == 0)
		return;
	printf("\n");
	mk_cli_print_table(stdout, rows, columns, count);
}

static int print(const struct mk_cli_options *options, json_object *result, struct mk_error *err)
{
	static const struct mk_cli_column of_functions[] = {
		{ "CHAIN", "chain" },
		{ "FUNCTION", "function" },
		{ "WHEN UNAVAILABLE", "whenUnavailable" },
		{ "REPLICA", "replica" },
		{ "NODE", "node" },
		{ "WEIGHT", "weight" },
		{ "STATE", "state" },
		{ "TO INSIDE", "toInside" },
		{ "FROM INSIDE", "fromInside" },
		{ "TO OUTSIDE", "toOutside" },
		{ "FROM OUTSIDE", "fromOutside" },
	};

	static const struct mk_cli_column of_pods[] = {
		{ "POD", "pod" },     { "ADDRESS", "address" }, { "DIRECTION", "direction" },
		{ "CHAIN", "chain" }, { "PORTS", "ports" },	{ "PEERS", "peers" },
	};

	static const struct mk_cli_column of_problems[] = {
		{ "CHAIN", "chain" },
		{ "PROBLEM", "problem" },
		{ "REMEDY", "remedy" },
	};
	static const struct mk_cli_column of_ends[] = {
		{ "CHAIN WITH ENDS", "chain" },
		{ "FLOWS", "flows" },
	};
	json_object *problems = json_object_object_get(result, "problems"),
		    *ends = json_object_object_get(result, "ends");

	if (options->json)
		return mk_cli_print_json(stdout, result, err);
	mk_cli_print_table(stdout, json_object_object_get(result, "functions"), of_functions,
			   MK_ARRAY_SIZE(of_functions));
	printf("\n");
	mk_cli_print_table(stdout, json_object_object_get(result, "pods"), of_pods,
			   MK_ARRAY_SIZE(of_pods));
	print_if_any(ends, of_ends, MK_ARRAY_SIZE(of_ends));
	print_if_any(problems, of_problems, MK_ARRAY_SIZE(of_problems));
	return 0;
}

static int show(const struct mk_views *views, const struct mk_cli_options *options,
		struct mk_error *err)
{
	cleanup_json json_object *result = json_object_new_object();
	json_object *pods = json_object_new_array();
	struct all all = { .count = 0 };
	int ret = 0, status;

	json_object_object_add(result, "functions", json_object_new_array());
	json_object_object_add(result, "pods", pods);
	json_object_object_add(result, "ends", json_object_new_array());
	json_object_object_add(result, "problems", json_object_new_array());
	for (size_t i = 0; ret == 0 && i < views->count; i++)
		ret = mk_cli_chains_open(&all.of[all.count++], &views->list[i], err);
	ret = ret ?: add_chains(result, &all, options->words[0], err);
	status = ret;
	add_pods(pods, views, options->words[0]);
	if (ret >= 0)
		ret = print(options, result, err);
	for (size_t i = 0; i < all.count; i++)
		mk_cli_chains_close(&all.of[i]);
	return ret < 0 ? ret : status;
}

int mk_cli_chains(int argc, char **argv)
{
	return mk_view_main(argc, argv, show);
}

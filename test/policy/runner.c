// SPDX-License-Identifier: Apache-2.0
/* test/policy/runner.c [--programs] - read lines of test/policy/worlds.py, and compare what the
 * compiler's rows say about each flow with what the reference says. With --programs the rows also
 * go into the tables of two nodes, and each flow's first packet through their programs (node.h).
 *
 * Prints each difference and ends with 1 if there is any. The last line has the counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "policy/connection.h"

#define DIFFERENCES_MAX 20

static struct cluster cluster;
static char world_name[64];
static unsigned long flows, audited_flows, packets, passed_over, differences;
static bool runs_programs;

/* ---- one direction --------------------------------------------------------------------------- */

struct end {
	struct policy_decision decision;
	int node;
	uint64_t set;
};

static bool is_enforcing(void)
{
	json_object *enforcing = at_path(cluster.facts, "enforcing");

	return !enforcing || json_object_get_boolean(enforcing);
}

static const struct mk_pod_row *row_of(const struct box *box)
{
	char namespace_[512];
	const char *slash = strchr(box->pod, '/');

	snprintf(namespace_, sizeof(namespace_), "%.*s", (int)(slash - box->pod), box->pod);
	return policy_rows_pod(&cluster.rows[box->node], strchr(box->uid, '/') ? NULL : box->uid,
			       namespace_, slash + 1);
}

static struct policy_decision ask(const struct flow *flow, const struct box *box,
				  enum mk_policy_direction direction, uint64_t set)
{
	bool itself = flow->by_service && flow->client_box && flow->client_box == flow->server_box;
	const struct mk_ip *peer = direction == MK_POLICY_EGRESS ? &flow->server
				   : itself			 ? &flow->client
								 : &flow->seen;
	bool ours = in_pod_ranges(&cluster, peer);
	bool trusted = direction == MK_POLICY_EGRESS || flow->trusted;
	struct policy_question question = {
		.set = set,
		.peer = *peer,
		.unproved = !trusted && (ours || is_overlay_address(&cluster, peer)),
		.in_pod_range = ours,
		.is_itself = itself,
		.proto = flow->proto,
		.port = flow->port,
	};

	return policy_rows_ask(&cluster.rows[box->node], &question);
}

/* What programs do before they ask: rules 11, 19, 21, 37, 41, 46 and 56. */
static struct end evaluate(const struct flow *flow, enum mk_policy_direction direction)
{
	const struct box *box = direction == MK_POLICY_EGRESS ? flow->client_box : flow->server_box;
	struct end end = { .decision.allowed = true };
	const struct mk_pod_row *row;

	if (!box || !box->pod || !is_enforcing())
		return end;
	if (flow->client_box == box && flow->server_box == box && !flow->by_service)
		return end;
	if (direction == MK_POLICY_INGRESS && flow->how == FROM_NODE &&
	    node_index(flow->at) == box->node)
		return end;
	row = row_of(box);
	end.node = box->node;
	end.set = !row || box->pending ? MK_SET_PENDING : row->set[direction];
	end.decision = ask(flow, box, direction, end.set);
	return end;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static const char *const direction_names[] = { "ingress", "egress" };
static const char *const tier_names[] = { "", "Admin", "NetworkPolicy", "Baseline" };

/* Is rule @number of the set among those that the reference names? */
static bool names_rule(const struct end *end, uint16_t number, json_object *by)
{
	json_object *rule = described_rule(&cluster, end->node, end->set, number);

	for (size_t i = 0; i < json_object_array_length(by); i++) {
		json_object *entry = json_object_array_get_idx(by, i);

		if (strcmp(json_object_get_string(json_object_array_get_idx(entry, 0)),
			   text_at(rule, "policy")) == 0 &&
		    json_object_get_int(json_object_array_get_idx(entry, 1)) ==
			    json_object_get_int(at_path(rule, "index")))
			return true;
	}
	return false;
}

static const char *compare_rule(const struct end *end, enum mk_policy_tier tier, uint16_t rule,
				json_object *expected)
{
	const char *its_tier = json_object_get_string(json_object_array_get_idx(expected, 2));

	if (strcmp(its_tier, tier_names[tier]) != 0)
		return "tier";
	if (rule > 0 && !names_rule(end, rule, json_object_array_get_idx(expected, 3)))
		return "rule";
	return NULL;
}

/* @audited: what the reference says if audited policies would deny the flow; or NULL. */
static const char *compare_end(const struct end *end, json_object *expected, json_object *audited)
{
	const char *verdict = json_object_get_string(json_object_array_get_idx(expected, 0));
	const struct policy_decision *decision = &end->decision;
	const char *wrong;

	if (decision->lacks_row)
		return "a row is missing";
	if (decision->allowed != (strcmp(verdict, "allow") == 0))
		return "verdict";
	if (decision->audit_denies != (audited != NULL))
		return "audited verdict";
	wrong = compare_rule(end, decision->tier, decision->rule, expected);
	if (!wrong && audited)
		wrong = compare_rule(end, decision->audit_tier, decision->audit_rule, audited);
	return wrong;
}

static void report(json_object *line, const char *where, const char *what, const struct end *end)
{
	if (differences++ >= DIFFERENCES_MAX)
		return;
	printf("%s: %s: %s: %s by %s rule %u, set %016llx, instead of %s\n", world_name, where,
	       what, end->decision.allowed ? "allow" : "deny", tier_names[end->decision.tier],
	       end->decision.rule, (unsigned long long)end->set, json_object_to_json_string(line));
}

static void compare(json_object *line, const struct flow *flow, struct end ends[])
{
	for (int i = 0; i < MK_POLICY_DIRECTIONS; i++) {
		const char *wrong;

		ends[i] = evaluate(flow, (enum mk_policy_direction)i);
		wrong = compare_end(&ends[i], at_path(line, direction_names[i]),
				    at_path(at_path(line, "audited"), direction_names[i]));
		if (wrong)
			report(line, direction_names[i], wrong, &ends[i]);
	}
}

/* ---- programs -------------------------------------------------------------------------------- */

static const int reasons[] = {
	[MK_POLICY_INGRESS] = MK_DROP_POLICY_INGRESS, [MK_POLICY_EGRESS] = MK_DROP_POLICY_EGRESS
};

/* Does the packet of a flow end where @ends say? Returns what is wrong, or NULL. */
static const char *compare_arrival(const struct flow *flow, const struct end ends[],
				   const struct arrival *arrival)
{
	const struct box *to = flow->server_box;

	for (int i = MK_POLICY_DIRECTIONS - 1; i >= 0; i--) {
		const int reason =
			ends[i].set == MK_SET_PENDING ? MK_DROP_POLICY_PENDING : reasons[i];

		if (ends[i].decision.allowed)
			continue;
		if (arrival->place != DROPPED || arrival->reason < 0)
			return "passes";
		return arrival->reason != reason || arrival->node != ends[i].node ? "other drop"
										  : NULL;
	}
	if (arrival->reason >= 0)
		return "dropped";
	return to && (arrival->place != AT_POD || arrival->node != to->node) ? "lost" : NULL;
}

static bool is_count_of(const struct mk_policy_count_key *count, const struct end *end)
{
	const struct policy_decision *decision = &end->decision;

	if (!end->set || count->set != end->set)
		return false;
	if (count->audited)
		return decision->audit_denies && count->denied &&
		       count->rule == decision->audit_rule &&
		       count->tier == (uint8_t)decision->audit_tier;
	return count->rule == decision->rule && count->tier == (uint8_t)decision->tier &&
	       count->denied == !decision->allowed;
}

static bool is_decided(const struct mk_policy_count_key *count, int node, const struct end ends[])
{
	for (int i = 0; i < MK_POLICY_DIRECTIONS; i++)
		if (ends[i].node == node && is_count_of(count, &ends[i]))
			return true;
	return false;
}

/* How many counts make both ends? What audited policies would deny counts if the packet passes its
 * node. */
static size_t expected_counts(const struct end ends[])
{
	const struct end *egress = &ends[MK_POLICY_EGRESS], *ingress = &ends[MK_POLICY_INGRESS];
	size_t count = egress->set != 0;

	if (!egress->decision.allowed)
		return count; /* ingress is not asked */
	if (ingress->decision.allowed || egress->node != ingress->node)
		count += egress->decision.audit_denies;
	return count + (ingress->set != 0) + ingress->decision.audit_denies;
}

/* Has each end counted what it decided, and what audited policies would have denied, and nothing
 * else? */
static const char *compare_counts(const struct flow *flow, const struct end ends[])
{
	size_t expected = expected_counts(ends), found = 0, all = 0;

	for (int node = 0; node < NODES; node++) {
		struct mk_policy_count_key counts[8];
		size_t count = nodes_take_counts(node, flow->family, counts, 8);

		for (size_t i = 0; i < count; i++)
			found += is_decided(&counts[i], node, ends);
		all += count;
	}
	return all == expected && found == expected ? NULL : "counts";
}

static void run_programs(json_object *line, const struct flow *flow, const struct end ends[])
{
	static uint16_t port = 1024;
	struct arrival arrival;
	const char *wrong;

	if (!nodes_run_programs_for(flow))
		return;
	port = port < 29000 ? port + 1 : 1024;
	nodes_put_service(flow);
	arrival = nodes_send_flow(flow, PACKET_OPENS, port);
	nodes_remove_service(flow);
	wrong = compare_arrival(flow, ends, &arrival);
	wrong = wrong ? wrong : compare_counts(flow, ends);
	if (wrong)
		report(line, "programs", wrong, &ends[MK_POLICY_INGRESS]);
}

static void try_flow(json_object *line, json_object *of)
{
	struct end ends[MK_POLICY_DIRECTIONS];
	struct flow flow;

	flows++;
	audited_flows += at_path(line, "audited") != NULL;
	flow_read(&flow, &cluster, of);
	if (flow.is_ping_of_service)
		return;
	compare(line, &flow, ends);
	if (runs_programs)
		run_programs(line, &flow, ends);
}

static void try_packet(json_object *line)
{
	struct mk_policy_count_key ignored[8];
	const char *wrong = NULL;
	bool sent = false;

	if (runs_programs)
		wrong = connections_send(&cluster, line, &sent);
	for (int i = 0; sent && i < 2 * NODES; i++)
		nodes_take_counts(i / 2, i % 2 ? 4 : 6, ignored, 8);
	packets += sent;
	passed_over += !sent;
	if (wrong && differences++ < DIFFERENCES_MAX)
		printf("%s: packet %s: %s\n", world_name, wrong, json_object_to_json_string(line));
}

static void read_line(json_object *line)
{
	json_object *of;

	if (json_object_object_get_ex(line, "world", &of)) {
		nodes_forget();
		connections_forget();
		cluster_end(&cluster);
		snprintf(world_name, sizeof(world_name), "%s", json_object_get_string(of));
		cluster_begin(&cluster, line);
	} else if (json_object_object_get_ex(line, "packet", &of)) {
		try_packet(line);
	} else if (json_object_object_get_ex(line, "add", &of)) {
		passed_over++;
	} else if (json_object_object_get_ex(line, "flow", &of)) {
		try_flow(line, of);
	} else if (json_object_object_get_ex(line, "change", &of)) {
		cluster_change(&cluster, of);
	} else {
		abort();
	}
}

int main(int argc, char **argv)
{
	cleanup_free char *text = NULL;
	size_t room = 0;

	runs_programs = argc > 1 && strcmp(argv[1], "--programs") == 0;
	if (runs_programs) {
		nodes_open();
		cluster_write_tables = nodes_write;
	}
	while (getline(&text, &room, stdin) > 0) {
		cleanup_json json_object *line = json_tokener_parse(text);

		if (!line)
			abort();
		read_line(line);
	}
	nodes_forget();
	connections_forget();
	cluster_end(&cluster);
	if (runs_programs)
		nodes_close();
	printf("%lu flows, %lu of them reported by audited policies, %lu packets, %lu differences; "
	       "%lu packets and additions left out\n",
	       flows, audited_flows, packets, differences, passed_over);
	return differences > 0 || flows == 0;
}

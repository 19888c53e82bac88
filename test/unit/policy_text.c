// SPDX-License-Identifier: Apache-2.0
#include "unit/policy_text.h"

#include <stdio.h>

void add_labels(struct line *line, const struct mk_labels *labels)
{
	for (size_t i = 0; i < labels->count; i++)
		mk_line_add(line, " %s=%s", labels->of[i].key, labels->of[i].value);
}

static const char *proto_name(uint8_t proto)
{
	static const char *const names[] = { [MK_PROTO_ANY] = "any",
					     [IPPROTO_TCP] = "tcp",
					     [IPPROTO_UDP] = "udp",
					     [IPPROTO_SCTP] = "sctp" };

	return names[proto];
}

void summarize_pod(struct line *line, const struct mk_pod_object *pod)
{
	const struct mk_workload *of = pod->of;
	char text[MK_IP_STRLEN];

	mk_line_add(line, "%s/%s", of->namespace_, pod->name);
	if (mk_pod_uid(pod))
		mk_line_add(line, " uid:%s", mk_pod_uid(pod));
	if (mk_pod_node(pod))
		mk_line_add(line, " @%s", mk_pod_node(pod));
	add_labels(line, &of->labels);
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		const struct mk_ip ip = mk_pod_ip(pod, i);

		if (ip.family != AF_UNSPEC)
			mk_line_add(line, " %s", mk_ip_format(&ip, text));
	}
	for (size_t i = 0; i < of->port_count; i++)
		mk_line_add(line, " %s:%u/%s", of->ports[i].name, of->ports[i].port,
			    proto_name(of->ports[i].proto));
	if (pod->started_unix_s)
		mk_line_add(line, " since:%lld", (long long)pod->started_unix_s);
	mk_line_add(line, "%s%s%s%s", pod->host_network ? " host" : "",
		    pod->finished ? " finished" : "", pod->terminating ? " terminating" : "",
		    pod->ready ? " ready" : "");
}

static void add_selector(struct line *line, const struct mk_selector *selector)
{
	static const char *const operators[] = { " in", " not in", "", " absent" };

	mk_line_add(line, "{");
	for (size_t i = 0; i < selector->count; i++) {
		const struct mk_requirement *requirement = &selector->requirements[i];

		mk_line_add(line, "%s%s%s", i ? ", " : "", requirement->key,
			    operators[requirement->op]);
		for (size_t j = 0; j < requirement->value_count; j++)
			mk_line_add(line, " %s", requirement->values[j]);
	}
	mk_line_add(line, "}");
}

static void add_peer(struct line *line, const struct mk_policy_peer_object *peer)
{
	char text[MK_CIDR_STRLEN];

	if (peer->kind == MK_PEER_SELECTORS) {
		if (peer->has_namespaces)
			add_selector(line, &peer->namespaces);
		mk_line_add(line, "/");
		add_selector(line, &peer->pods);
	} else if (peer->kind == MK_PEER_BLOCK) {
		mk_line_add(line, "%s", mk_cidr_format(&peer->cidr, text));
		for (size_t i = 0; i < peer->except_count; i++)
			mk_line_add(line, "-%s", mk_cidr_format(&peer->except[i], text));
	} else if (peer->kind == MK_PEER_NODES) {
		mk_line_add(line, "nodes");
		add_selector(line, &peer->pods);
	} else {
		mk_line_add(line, "%s",
			    peer->kind == MK_PEER_DOMAINS   ? "domains"
			    : peer->kind == MK_PEER_OUTSIDE ? "outside"
							    : "?");
	}
}

static void add_port(struct line *line, const struct mk_policy_port_object *port)
{
	if (!port->valid)
		mk_line_add(line, " ?");
	else if (port->name)
		mk_line_add(line, " %s/%s", port->name, proto_name(port->proto));
	else if (port->first == port->last)
		mk_line_add(line, " %u/%s", port->first, proto_name(port->proto));
	else
		mk_line_add(line, " %u-%u/%s", port->first, port->last, proto_name(port->proto));
}

static void add_rules(struct line *line, const char *what, const struct mk_policy_rules *rules)
{
	static const char *const actions[] = { "none", "accept", "deny", "pass" };

	for (size_t i = 0; i < rules->count; i++) {
		const struct mk_policy_rule_object *rule = &rules->of[i];

		mk_line_add(line, "; %s %s%s%s", what, actions[rule->action], rule->name ? " " : "",
			    rule->name ? rule->name : "");
		for (size_t j = 0; j < rule->peer_count; j++) {
			mk_line_add(line, " ");
			add_peer(line, &rule->peers[j]);
		}
		if (rule->port_count)
			mk_line_add(line, ":");
		for (size_t j = 0; j < rule->port_count; j++)
			add_port(line, &rule->ports[j]);
	}
}

void summarize_network_policy(struct line *line, const struct mk_network_policy *policy)
{
	mk_line_add(line, "%s/%s ", policy->namespace_, policy->name);
	add_selector(line, &policy->pods);
	mk_line_add(line, "%s%s", policy->applies[MK_POLICY_INGRESS] ? " ingress" : "",
		    policy->applies[MK_POLICY_EGRESS] ? " egress" : "");
	if (policy->audited)
		mk_line_add(line, " audited");
	add_rules(line, "in", &policy->rules[MK_POLICY_INGRESS]);
	add_rules(line, "out", &policy->rules[MK_POLICY_EGRESS]);
}

void summarize_cluster_policy(struct line *line, const struct mk_cluster_policy *policy)
{
	mk_line_add(line, "%s %s %d ", policy->name,
		    policy->tier == MK_TIER_ADMIN ? "admin" : "baseline", policy->priority);
	add_selector(line, &policy->namespaces);
	mk_line_add(line, "/");
	add_selector(line, &policy->pods);
	if (policy->audited)
		mk_line_add(line, " audited");
	add_rules(line, "in", &policy->rules[MK_POLICY_INGRESS]);
	add_rules(line, "out", &policy->rules[MK_POLICY_EGRESS]);
}

void summarize_chain(struct line *line, const struct mk_chain *chain)
{
	static const char *const hashes[] = { "", " by-pod", " by-peer" };

	mk_line_add(line, "%s/%s %s %d ", chain->namespace_, chain->name, chain->uid,
		    chain->priority);
	if (chain->has_namespaces)
		add_selector(line, &chain->namespaces);
	mk_line_add(line, "/");
	if (chain->service)
		mk_line_add(line, "service %s", chain->service);
	else
		add_selector(line, &chain->pods);
	mk_line_add(line, "%s%s%s", chain->applies[MK_POLICY_INGRESS] ? " ingress" : "",
		    chain->applies[MK_POLICY_EGRESS] ? " egress" : "",
		    chain->leaves_open_flows ? " new-only" : "");
	if (chain->created_unix_s)
		mk_line_add(line, " since:%lld", (long long)chain->created_unix_s);
	add_rules(line, "takes", &chain->rules);
	for (size_t i = 0; i < mk_chain_length(chain); i++) {
		const struct mk_chain_function *function = mk_chain_at(chain, i);

		mk_line_add(line, "%s%s%s%s%s%s%s", i > 0 ? ", " : "; ", function->name,
			    function->is_end ? " end" : "", function->is_tap ? " tap" : "",
			    function->skips ? " skip" : "", function->drops_lost ? " drop" : "",
			    hashes[function->hash_by]);
		if (function->local_weight != MK_SFC_LOCAL_WEIGHT)
			mk_line_add(line, " local:%u", function->local_weight);
	}
}

// SPDX-License-Identifier: Apache-2.0
/* `monokube sessions` and `monokube nat`: each lists two tables, flow by flow. A flow is a pair of
 * entries; it is shown once, by the entry of its first packet's direction. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "cli/print.h"
#include "cli/inspect/chains.h"
#include "cli/inspect/view.h"
#include "cli/inspect/view_internal.h"
#include "datapath/sessions/sweep.h"

struct showing {
	const struct mk_view *view; /* of the family whose tables are open */
	const struct mk_cli_options *options;
	struct mk_table tables[2];
	struct mk_cli_chains
		chains; /* of the family; closed: a version without chains made the tables */
	struct mk_cli_node *nodes; /* of the family; NULL: not known */
	size_t node_count;
	struct json_object *list;
	uint64_t now_ns;
	uint64_t more; /* flows that fit the filters beyond the limit */
};

/* ---- one flow -------------------------------------------------------------------------------- */

struct flow {
	const struct mk_tuple *key;
	const struct mk_session *session, *pair; /* pair NULL: there is none */
	const char *service; /* NULL: none, or not known */
};

static const char *state_of(const struct flow *flow)
{
	uint8_t flags =
		mk_session_flags(flow->session) | (flow->pair ? mk_session_flags(flow->pair) : 0);
	bool has_ends = flow->key->proto == IPPROTO_TCP || flow->key->proto == IPPROTO_SCTP;

	if (flags & MK_SESSION_RST)
		return "reset";
	if (flags & MK_SESSION_FIN)
		return flow->pair && (flow->session->fin & flow->pair->fin) ? "closed" : "closing";
	if (has_ends)
		return flags & MK_SESSION_OPEN ? "established" : "opening";
	return flow->session->replied ? "answered" : "one-way";
}

static uint64_t idle_ns(const struct showing *showing, const struct flow *flow)
{
	uint64_t last = flow->session->last_seen_ns;

	if (flow->pair && flow->pair->last_seen_ns > last)
		last = flow->pair->last_seen_ns;
	return showing->now_ns > last ? showing->now_ns - last : 0;
}

static bool is_endpoint(const struct mk_tuple *tuple, const char *word)
{
	unsigned int port = *word == ':' ? mk_cli_port_parse(word + 1) : 0;
	struct mk_ip ip;
	struct mk_addr addr;

	if (port)
		return ntohs(tuple->sport) == port || ntohs(tuple->dport) == port;
	if (mk_ip_parse(word, &ip) < 0)
		return false;
	addr = mk_ip_to_addr(&ip);
	return mk_addr_eq(&tuple->saddr, &addr) || mk_addr_eq(&tuple->daddr, &addr);
}

static bool is_pod(const struct showing *showing, const struct mk_tuple *tuple, const char *word)
{
	const struct mk_view_pod *pod = mk_view_pod_named(showing->view, word);

	return pod &&
	       (mk_addr_eq(&pod->addr, &tuple->saddr) || mk_addr_eq(&pod->addr, &tuple->daddr));
}

static bool matches(const struct showing *showing, const struct flow *flow, const char *word)
{
	const char *slash = flow->service ? strchr(flow->service, '/') : NULL;

	return is_endpoint(flow->key, word) || is_endpoint(&flow->session->to, word) ||
	       strcmp(state_of(flow), word) == 0 ||
	       (flow->service && strcmp(flow->service, word) == 0) ||
	       (slash && strcmp(slash + 1, word) == 0) || is_pod(showing, flow->key, word) ||
	       is_pod(showing, &flow->session->to, word);
}

static bool is_wanted(const struct showing *showing, const struct flow *flow)
{
	const struct mk_cli_options *options = showing->options;

	if (options->protocol &&
	    mk_view_protocol(showing->view, options->protocol) != flow->key->proto)
		return false;
	for (int i = 0; i < options->word_count; i++)
		if (!matches(showing, flow, options->words[i]))
			return false;
	return true;
}

static void add_tuple(struct json_object *to, const char *from_key, const char *to_key,
		      const struct mk_tuple *tuple)
{
	char text[MK_ENDPOINT_STRLEN];

	mk_put_text(to, from_key, mk_cli_endpoint(&tuple->saddr, tuple->sport, text));
	mk_put_text(to, to_key, mk_cli_endpoint(&tuple->daddr, tuple->dport, text));
}

/* The name of the node by which a client outside came; NULL: none, or not known. */
static const char *node_of(const struct showing *showing, const struct mk_session *session)
{
	__u32 wanted = mk_session_node(session), node;

	for (size_t i = 0; wanted && i < showing->node_count; i++) {
		memcpy(&node, &showing->nodes[i].vtep_mac[2], sizeof(node));
		if (node == wanted)
			return showing->nodes[i].name;
	}
	return NULL;
}

static struct json_object *flow_json(const struct showing *showing, const struct flow *flow)
{
	struct json_object *object = json_object_new_object();
	char number[16], who[MK_VIEW_WHO_BYTES], via[CHAIN_VIA_BYTES];
	uint64_t limit = mk_session_idle_limit_ns(flow->key->proto, flow->session->flags,
						  flow->pair ? flow->pair->flags : 0);

	mk_put_text(object, "protocol", mk_cli_protocol_name(flow->key->proto, number));
	add_tuple(object, "from", "to", flow->key);
	mk_put_text(object, "who", view_who(showing->view, &flow->key->saddr, who));
	add_tuple(object, "newFrom", "newTo", &flow->session->to);
	mk_put_text(object, "service", flow->service);
	mk_put_text(object, "node", node_of(showing, flow->session));
	if (flow->session->to.path)
		mk_put_text(object, "via",
			    chain_via(&showing->chains, flow->session->to.path, via));
	mk_put_text(object, "state", state_of(flow));
	mk_put_number(object, "idleSeconds", idle_ns(showing, flow) / MK_NS_PER_S);
	mk_put_number(object, "idleLimitSeconds", limit / MK_NS_PER_S);
	mk_put_number(object, "ageSeconds",
		      mk_time_since_ns(showing->now_ns, flow->session->created_ns) / MK_NS_PER_S);
	return object;
}

static int see_session(void *ctx, const void *key, const void *value, struct mk_error *err)
{
	struct showing *showing = ctx;
	struct flow flow = { .key = key, .session = value };
	struct mk_session pair;
	struct mk_tuple pair_key;

	(void)err;
	if (!(flow.session->flags & MK_SESSION_FORWARD) || flow.session->stage == MK_SESSION_MOVED)
		return 0;
	pair_key = mk_session_pair_key(flow.session);
	for (size_t i = 0; !flow.pair && i < MK_ARRAY_SIZE(showing->tables); i++)
		if (mk_table_get(&showing->tables[i], &pair_key, &pair, NULL) == 0)
			flow.pair = &pair;
	flow.service = mk_names_find(&showing->view->names, flow.session->service_id);
	if (!is_wanted(showing, &flow))
		return 0;
	if (json_object_array_length(showing->list) >= showing->options->limit)
		showing->more++;
	else
		json_object_array_add(showing->list, flow_json(showing, &flow));
	return 0;
}

/* ---- all ------------------------------------------------------------------------------------- */

static int print(const struct showing *showing, struct mk_error *err)
{
	static const struct mk_cli_column columns[] = {
		{ "PROTO", "protocol" },   { "FROM", "from" },	     { "TO", "to" },
		{ "NEW FROM", "newFrom" }, { "NEW TO", "newTo" },    { "STATE", "state" },
		{ "IDLE", "idleSeconds" }, { "SERVICE", "service" }, { "VIA", "via" },
		{ "NODE", "node" },
	};
	int ret = mk_cli_print_list(stdout, showing->list, showing->options->json, columns,
				    MK_ARRAY_SIZE(columns), err);

	if (showing->more)
		fprintf(stderr, "%llu more flows: --limit shows more, filters fewer\n",
			(unsigned long long)showing->more);
	return ret;
}

/* Add the flows of one family. @names: the tables of established and of new flows. */
static int collect(struct showing *showing, const struct mk_view *view, const char *const names[2],
		   struct mk_error *err)
{
	int ret = 0;

	showing->view = view;
	if (mk_cli_chains_open(&showing->chains, view, NULL) < 0)
		mk_cli_chains_close(&showing->chains);
	showing->nodes = NULL;
	if (mk_cli_nodes_read(view, &showing->nodes, &showing->node_count, NULL) < 0)
		showing->node_count = 0;
	for (size_t i = 0; ret == 0 && i < 2; i++)
		ret = mk_table_open(&showing->tables[i], view->dir, names[i],
				    sizeof(struct mk_tuple), sizeof(struct mk_session), err);
	for (size_t i = 0; ret == 0 && i < 2; i++)
		ret = mk_table_each(&showing->tables[i], see_session, showing, err);
	for (size_t i = 0; i < 2; i++)
		mk_table_close(&showing->tables[i]);
	mk_cli_chains_close(&showing->chains);
	free(showing->nodes);
	return ret;
}

static int show(const struct mk_views *views, const struct mk_cli_options *options,
		const char *const names[2], struct mk_error *err)
{
	cleanup_json struct json_object *list = json_object_new_array();
	struct showing showing = { .options = options,
				   .list = list,
				   .now_ns = mk_time_monotonic_ns() };
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < views->count; i++)
		ret = collect(&showing, &views->list[i], names, err);
	return ret ?: print(&showing, err);
}

static int show_sessions(const struct mk_views *views, const struct mk_cli_options *options,
			 struct mk_error *err)
{
	static const char *const names[] = { "sessions", "sessions_young" };

	return show(views, options, names, err);
}

static int show_nat(const struct mk_views *views, const struct mk_cli_options *options,
		    struct mk_error *err)
{
	static const char *const names[] = { "nat_sessions", "nat_sessions_young" };

	return show(views, options, names, err);
}

int mk_cli_sessions(int argc, char **argv)
{
	return mk_view_main(argc, argv, show_sessions);
}

int mk_cli_nat(int argc, char **argv)
{
	return mk_view_main(argc, argv, show_nat);
}

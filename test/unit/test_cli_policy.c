// SPDX-License-Identifier: Apache-2.0
/* `monokube policy`, over tables and names that are written by hand. */
#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "cli/cli.h"
#include "cli/inspect/view_internal.h"
#include "datapath/pods/pod_table.h"
#include "datapath/policy/names.h"
#include "unit/cli_fixture.h"
#include "unit/datapath_fixture.h"

#define WEB_IN	   (MK_SET_ISOLATES | 0x77)
#define CLIENT_OUT (MK_SET_ISOLATES | MK_SET_HAS_BLOCKS | 0x78)
#define CLIENT_IN  0x79ULL /* only ClusterNetworkPolicies */
#define WEB	   1001ULL /* classes */
#define CLIENT	   1002ULL

/* Tables of ports. */
#define NOTHING 11ULL
#define WEB_80	12ULL
#define ALL	13ULL
#define TLS	14ULL
#define DENY	15ULL

static struct mk_datapath *datapath;
static int client_ifindex;

static const char names[] =
	"{\"version\":1,\"keys\":[\"app\"],\"sets\":{"
	"\"8000000000000077\":{\"direction\":\"ingress\",\"policies\":[\"shop/deny\",\"shop/web-in\"],"
	"\"rules\":[{\"number\":1,\"tier\":\"network-policy\",\"policy\":\"shop/web-in\",\"index\":1,"
	"\"action\":\"accept\",\"peers\":\"podSelector app=client\",\"ports\":\"TCP 8080\"}]},"
	"\"c000000000000078\":{\"direction\":\"egress\",\"policies\":[\"shop/client-out\"],"
	"\"rules\":[{\"number\":1,\"tier\":\"network-policy\",\"policy\":\"shop/client-out\",\"index\":0,"
	"\"action\":\"accept\",\"peers\":\"podSelector app=web\",\"ports\":\"any\"},"
	"{\"number\":2,\"tier\":\"network-policy\",\"policy\":\"shop/client-out\",\"index\":1,"
	"\"action\":\"accept\",\"peers\":\"192.0.2.0/24\",\"ports\":\"TCP 443\"}]},"
	"\"0000000000000079\":{\"direction\":\"ingress\",\"policies\":[\"no-strangers\"],"
	"\"rules\":[{\"number\":1,\"tier\":\"admin\",\"policy\":\"no-strangers\",\"index\":0,"
	"\"name\":\"all\",\"action\":\"deny\",\"peers\":\"all pods\",\"ports\":\"any\"}]}}}";

/* ---- rows ------------------------------------------------------------------------------------ */

static void put_peer(uint64_t set, uint64_t peer, uint64_t table)
{
	const struct mk_policy_peer_key key = { .set = set, .peer = peer };
	const struct mk_policy_peer value = { .table = table };

	cli_put("policy_peers", &key, sizeof(key), &value, sizeof(value));
}

static void put_block(uint64_t set, const char *block, uint64_t table)
{
	const struct mk_cidr cidr = cidr_of(block);
	struct mk_policy_block_key key = { .prefix_bits = MK_POLICY_SET_BITS + cidr.prefix_bits,
					   .addr = mk_ip_to_addr(&cidr.ip) };
	const struct mk_policy_peer value = { .table = table };

	memcpy(key.set, &set, sizeof(key.set));
	cli_put("policy_blocks", &key, sizeof(key), &value, sizeof(value));
}

/* @port 0: all. */
static void put_port(uint64_t table, uint16_t port, struct mk_policy_verdict verdict)
{
	struct mk_policy_port_key key = { .prefix_bits = MK_POLICY_TABLE_BITS };
	const struct mk_policy_port value = { .in_force = verdict };
	const __be16 wire = htons(port);

	if (port) {
		key.prefix_bits += MK_POLICY_PROTO_BITS + MK_POLICY_PORT_BITS;
		key.proto = IPPROTO_TCP;
		memcpy(key.port, &wire, sizeof(key.port));
	}
	memcpy(key.table, &table, sizeof(key.table));
	cli_put("policy_ports", &key, sizeof(key), &value, sizeof(value));
}

static void put_class(const char *address, uint64_t class_id)
{
	const struct mk_addr addr = addr_of(address);
	const struct mk_policy_identity identity = { .class_id = class_id };

	cli_put("policy_identities", &addr, sizeof(addr), &identity, sizeof(identity));
}

static void put_count(uint64_t set, uint16_t rule, bool denied, bool audited, uint64_t packets)
{
	const struct mk_policy_count_key key = { .set = set,
						 .rule = rule,
						 .tier = MK_TIER_NETWORK_POLICY,
						 .denied = denied,
						 .audited = audited };
	const struct mk_policy_count count = { .packets = packets };

	cli_put("policy_counts", &key, sizeof(key), &count, sizeof(count));
}

static void put_sets(const char *address, int ifindex, uint64_t ingress, uint64_t egress)
{
	cleanup_table struct mk_table table = { .fd = -1 };
	const struct mk_pod_policy entry = { .set = { ingress, egress },
					     .addr = addr_of(address),
					     .ifindex = (__u32)ifindex };
	__u32 slot;

	fx_ok(mk_table_open(&table, fx.bpf_dir, "pod_policies", sizeof(slot), sizeof(entry),
			    &fx.err));
	slot = mk_pod_slot(&entry.addr, table.max_entries);
	fx_ok(mk_table_put(&table, &slot, &entry, &fx.err));
}

static void put_state(__u32 on)
{
	const struct mk_policy_state state = { .on = on, .listed = MK_POLICY_LISTED_SOME };
	const __u32 zero = 0;

	cli_put("policy_state", &zero, sizeof(zero), &state, sizeof(state));
}

static void put_policies(void)
{
	put_port(NOTHING, 0, (struct mk_policy_verdict){ 0 });
	put_port(WEB_80, 0, (struct mk_policy_verdict){ 0 });
	put_port(WEB_80, 8080, (struct mk_policy_verdict){ .allows = 1 });
	put_port(ALL, 0, (struct mk_policy_verdict){ .allows = 1 });
	put_port(TLS, 0, (struct mk_policy_verdict){ 0 });
	put_port(TLS, 443, (struct mk_policy_verdict){ .allows = 2 });
	put_port(DENY, 0, (struct mk_policy_verdict){ .admin = 1, .admin_action = MK_POLICY_DENY });
	for (uint64_t peer = MK_PEER_ANY_POD; peer <= MK_PEER_UNKNOWN_POD; peer++) {
		put_peer(WEB_IN, peer, NOTHING);
		put_peer(CLIENT_OUT, peer, NOTHING);
		put_peer(CLIENT_IN, peer, DENY);
	}
	put_peer(WEB_IN, CLIENT, WEB_80);
	put_peer(CLIENT_OUT, WEB, ALL);
	put_block(WEB_IN, "0.0.0.0/0", NOTHING);
	put_block(CLIENT_IN, "0.0.0.0/0", NOTHING);
	put_block(CLIENT_OUT, "0.0.0.0/0", NOTHING);
	put_block(CLIENT_OUT, "192.0.2.0/24", TLS);
	put_count(WEB_IN, 1, false, false, 7);
	put_count(WEB_IN, 0, true, false, 5);
	put_count(WEB_IN, 0, true, true, 3);
}

static void write_names(const char *text)
{
	json_object *description = json_tokener_parse(text);

	fx_ok(mk_policy_names_write(fx.state_dir, description, &fx.err));
	json_object_put(description);
}

static void setup(void)
{
	fx_setup();
	client_ifindex = fx_veth("mkpod2", "eth1", (const struct mk_mac *)fx.constants.gateway_mac);
	datapath = cli_node();
	cli_put_pod("10.244.1.2", fx.pod_ifindex, "shop/web");
	cli_put_pod("10.244.1.3", client_ifindex, "shop/client");
	put_class("10.244.1.2", WEB);
	put_class("10.244.1.3", CLIENT);
	put_class("10.244.2.2", CLIENT); /* on another node */
	put_policies();
	put_sets("10.244.1.2", fx.pod_ifindex, WEB_IN, MK_SET_OPEN);
	put_sets("10.244.1.3", client_ifindex, CLIENT_IN, CLIENT_OUT);
	put_state(1);
	write_names(names);
}

static void teardown(void)
{
	mk_datapath_free(datapath);
	fx_teardown();
}

static void check_fails(const char *part, const char *const *words)
{
	const char *text;

	capture_log();
	cli_check(true, 1, "", words);
	text = captured_log();
	ck_assert_msg(strstr(text, part) != NULL, "no '%s' in: %s", part, text);
}
#define check_error(part, ...) check_fails(part, (const char *const[]){ __VA_ARGS__, NULL })

/* ---- pods ------------------------------------------------------------------------------------ */

START_TEST(test_pods)
{
	check_output(
		0,
		"shop/web     10.244.1.2  isolated by 2 policies  open                  5       3\n",
		"policy");
	check_output(
		0,
		"shop/client  10.244.1.3  only cluster policies   isolated by 1 policy  0       0\n",
		"policy");
	check_output(0, "\"ingressPolicies\":[\n      \"shop/deny\",", "policy", "-o", "json");
	put_state(0);
	check_output(0, "shop/web     10.244.1.2  open     open    0       0\n", "policy");
}
END_TEST

/* A slot that another container had counts as pending. */
START_TEST(test_pending)
{
	put_sets("10.244.1.2", 4711, WEB_IN, MK_SET_OPEN);
	check_output(0, "shop/web     10.244.1.2  pending", "policy");
	check_output(3, "ingress: denied: the pod's policies are not known yet", "policy", "client",
		     "web", "8080");
	check_output(0, "deny    0        -      its policies are not known yet", "policy", "web");
}
END_TEST

START_TEST(test_rules)
{
	check_output(
		0,
		"ingress    network-policy  shop/web-in  2     -     accept  7        TCP 8080  podSelector app=client\n"
		"ingress    -               -            -     -     deny    5        -         all others\n"
		"egress     -               -            -     -     accept  -        -         all others\n",
		"policy", "web");
	check_output(0, "admin           no-strangers     1     all   deny", "policy",
		     "10.244.1.3");
	check_error("no pod 'nobody' on this node", "policy", "nobody");
}
END_TEST

/* ---- flows ----------------------------------------------------------------------------------- */

static const struct flow {
	const char *from, *to, *port;
	int status;
	const char *egress, *ingress;
} flows[] = {
	{ "client", "web", "8080", 0,
	  "egress: allowed: shop/client-out rule 1 (podSelector app=web; any)\n",
	  "ingress: allowed: shop/web-in rule 2 (podSelector app=client; TCP 8080)\n" },
	{ "client", "web", "8080/udp", 3, "egress: allowed: shop/client-out rule 1",
	  "ingress: denied: isolated by shop/deny, shop/web-in; nearest: shop/web-in rule 2, but only for TCP 8080\n" },
	{ "10.244.2.2", "shop/web", "81", 3,
	  "egress: not asked: 10.244.2.2 is on another node: ask there\n",
	  "nearest: shop/web-in rule 2, but only for TCP 8080\n" },
	{ "10.244.2.3", "shop/web", "8080", 3, "egress: not asked",
	  "isolated by shop/deny, shop/web-in; nearest: shop/web-in rule 2, but only from podSelector app=client\n" },
	{ "10.244.2.3", "shop/web", "81", 3, "egress: not asked",
	  "isolated by shop/deny, shop/web-in\n" },
	{ "host", "web", "81", 0, "egress: not asked: 192.168.99.11, this host is no pod\n",
	  "ingress: allowed: a pod's own node always reaches it\n" },
	{ "web", "client", "80", 3, "egress: allowed: no policy applies to shop/web\n",
	  "ingress: denied: ClusterNetworkPolicy no-strangers rule 1 'all' (all pods; any)\n" },
	{ "192.0.2.9", "client", "80", 0, "egress: not asked: 192.0.2.9 is no pod\n",
	  "ingress: allowed: no rule is about it\n" },
	{ "client", "192.0.2.9", "443", 0,
	  "egress: allowed: shop/client-out rule 2 (192.0.2.0/24; TCP 443)\n",
	  "ingress: not asked: 192.0.2.9 is no pod\n" },
	{ "client", "192.0.2.9", "80", 3,
	  "egress: denied: isolated by shop/client-out; nearest: shop/client-out rule 2, but only for TCP 443\n",
	  "ingress: not asked" },
	{ "web", "web", "81", 0, "egress: allowed", "ingress: allowed: a pod reaches itself\n" },
	{ "client", "web", NULL, 3, "egress: allowed", "ingress: denied" }, /* a ping */
};

/* All rows in one test: the programs of a node take seconds to load. */
START_TEST(test_flows)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(flows); i++) {
		const struct flow *flow = &flows[i];

		check_output(flow->status, flow->egress, "policy", flow->from, flow->to,
			     flow->port);
		check_output(flow->status, flow->ingress, "policy", flow->from, flow->to,
			     flow->port);
	}
}
END_TEST

START_TEST(test_errors)
{
	const struct mk_frontend_key key = { .addr = addr_of("10.96.0.80") };
	const struct mk_frontend frontend = { .set_id = 1 };

	cli_put("frontends", &key, sizeof(key), &frontend, sizeof(frontend));
	check_error("an address of a Service", "policy", "client", "10.96.0.80", "80");
	check_error("'nobody': expected a pod of this node", "policy", "client", "nobody", "80");
	check_error("PORT '80/xyz'", "policy", "client", "web", "80/xyz");
	check_error("PORT '65536'", "policy", "client", "web", "65536");
	check_output(0, "\"verdict\":\"allowed\"", "policy", "client", "web", "8080", "-o", "json");
}
END_TEST

/* ---- chains ---------------------------------------------------------------------------------- */

#define WEB_OUT	 (MK_SET_HAS_CHAINS | MK_SET_HAS_BLOCKS | 0x7a)
#define CHAINS	 16ULL /* tables of ports */
#define CHAIN_OF 3

static const char chain_names[] =
	"{\"version\":1,\"sets\":{\"440000000000007a\":{\"direction\":\"egress\","
	"\"policies\":[],\"rules\":[],\"chains\":[{\"number\":1,\"chain\":\"net/first\",\"id\":2,"
	"\"peers\":\"10.0.0.0/8\",\"ports\":\"any\"},{\"number\":2,\"chain\":\"net/out\",\"id\":3,"
	"\"peers\":\"outside\",\"ports\":\"TCP 443\"}]}}}";

static void put_chains(void)
{
	const uint64_t table = CHAINS;
	struct mk_policy_port_key key = { .prefix_bits = MK_POLICY_TABLE_BITS +
							 MK_POLICY_PROTO_BITS + MK_POLICY_PORT_BITS,
					  .proto = IPPROTO_TCP };
	const struct mk_policy_port value = { .chain = CHAIN_OF, .chain_rule = 2 };
	const __be16 wire = htons(443);

	memcpy(key.table, &table, sizeof(key.table));
	memcpy(key.port, &wire, sizeof(key.port));
	cli_put("policy_ports", &key, sizeof(key), &value, sizeof(value));
	put_port(CHAINS, 0, (struct mk_policy_verdict){ 0 });
	put_peer(WEB_OUT, MK_PEER_ANY_POD, CHAINS);
	put_peer(WEB_OUT, MK_PEER_UNKNOWN_POD, CHAINS);
	put_block(WEB_OUT, "0.0.0.0/0", CHAINS);
	put_sets("10.244.1.2", fx.pod_ifindex, MK_SET_OPEN, WEB_OUT);
	write_names(chain_names);
}

START_TEST(test_chains)
{
	put_chains();
	check_output(0, "shop/web     10.244.1.2  open  ", "policy");
	check_output(0, "open, 2 chains", "policy");
	check_output(
		0,
		"egress     -      -          -     -     accept  0        -        all others\n"
		"egress     chain  net/first  -     -     chain   -        any      10.0.0.0/8\n"
		"egress     chain  net/out    -     -     chain   -        TCP 443  outside\n",
		"policy", "web");
	check_output(0, "egress: allowed: no rule is about it; chain net/out (outside; TCP 443)\n",
		     "policy", "web", "192.0.2.9", "443");
	check_output(0, "egress: allowed: no rule is about it\n", "policy", "web", "192.0.2.9",
		     "80");
	/* a chain takes no flow to the pod's own node, and none to itself */
	check_output(0, "egress: allowed: no rule is about it\n", "policy", "web", "host", "443");
	check_output(0, "egress: allowed: no rule is about it\n", "policy", "web", "web", "443");
	write_names("{\"version\":1}");
	check_output(0, "; chain number 3, whose name is not known\n", "policy", "web", "192.0.2.9",
		     "443");
}
END_TEST

/* ---- drops and check ------------------------------------------------------------------------- */

static const struct drop {
	enum mk_drop_reason reason;
	const char *from, *to; /* the packet */
	const char *client, *server; /* the flow; NULL: no policy was asked */
	struct mk_policy_count_key decided;
	const char *text;
} drops[] = {
	{ MK_DROP_POLICY_INGRESS,
	  "10.244.1.3",
	  "10.244.1.2",
	  "10.244.1.3",
	  "10.244.1.2",
	  { .set = WEB_IN, .tier = MK_TIER_NETWORK_POLICY },
	  "ingress of shop/web: isolated by shop/deny, shop/web-in" },
	/* an answer, after a change */
	{ MK_DROP_POLICY_EGRESS,
	  "192.0.2.9",
	  "10.244.1.3",
	  "10.244.1.3",
	  "192.0.2.9",
	  { .set = CLIENT_OUT, .tier = MK_TIER_NETWORK_POLICY },
	  "egress of shop/client: isolated by shop/client-out" },
	{ MK_DROP_POLICY_INGRESS,
	  "10.244.1.2",
	  "10.244.1.3",
	  "10.244.1.2",
	  "10.244.1.3",
	  { .set = CLIENT_IN, .tier = MK_TIER_ADMIN, .rule = 1 },
	  "ingress of shop/client: ClusterNetworkPolicy no-strangers rule 1 'all' (all pods; any)" },
	/* by a Service */
	{ MK_DROP_POLICY_INGRESS,
	  "10.244.1.3",
	  "10.96.0.80",
	  "10.244.1.3",
	  "10.244.1.2",
	  { .set = WEB_IN, .tier = MK_TIER_NETWORK_POLICY },
	  "ingress of shop/web: isolated by shop/deny, shop/web-in" },
	{ MK_DROP_POLICY_EGRESS,
	  "10.244.1.3",
	  "10.96.0.80",
	  "10.244.1.3",
	  "10.244.1.2",
	  { .set = CLIENT_OUT, .tier = MK_TIER_NETWORK_POLICY },
	  "egress of shop/client to shop/web: isolated by shop/client-out" },
	{ MK_DROP_POLICY_PENDING,
	  "10.244.1.3",
	  "192.0.2.9",
	  "10.244.1.3",
	  "192.0.2.9",
	  { .set = MK_SET_PENDING },
	  "egress of shop/client: the pod's policies are not known yet" },
	{ MK_DROP_POLICY_INGRESS,
	  "10.244.1.3",
	  "10.244.1.2",
	  "10.244.1.3",
	  "10.244.1.2",
	  { .set = WEB_IN },
	  "ingress of shop/web: a table of policies lacks an entry: the agent restores it" },
	{ MK_DROP_POLICY_INGRESS,
	  "10.244.1.3",
	  "10.244.1.9",
	  "10.244.1.3",
	  "10.244.1.9",
	  { .set = 99, .tier = MK_TIER_ADMIN, .rule = 3 },
	  "ingress of 10.244.1.9: rule 3 of set 0000000000000063, whose name is not known" },
	{ MK_DROP_POLICY_NO_FLOW, "192.0.2.9", "10.244.1.2", NULL, NULL, { 0 }, "of shop/web" },
	{ MK_DROP_NO_POD, "10.244.1.3", "10.244.1.2", NULL, NULL, { 0 }, "" },
};

static struct mk_drop_event event_of(const struct drop *drop)
{
	struct mk_drop_event event = {
		.time_ns = 5 * MK_NS_PER_S,
		.reason = drop->reason,
		.tuple = { .saddr = addr_of(drop->from),
			   .daddr = addr_of(drop->to),
			   .proto = IPPROTO_TCP },
		.decided = drop->decided,
	};

	if (!drop->client)
		return event;
	event.decided.denied = 1;
	event.decided.direction = drop->text[0] == 'e' ? MK_POLICY_EGRESS : MK_POLICY_INGRESS;
	event.client = addr_of(drop->client);
	event.server = addr_of(drop->server);
	return event;
}

static void open_events(struct mk_events *events, struct mk_cli_options *options)
{
	*options = (struct mk_cli_options){ .primary = AF_INET, .family_count = 1 };
	*events = (struct mk_events){ .options = options };
	snprintf(options->state_dir, sizeof(options->state_dir), "%s", fx.state_dir);
	snprintf(options->bpf_dir, sizeof(options->bpf_dir), "%s", fx.bpf_dir);
	options->families[0].family = AF_INET;
	snprintf(options->families[0].dir, sizeof(options->families[0].dir), "%s", fx.bpf_dir);
	fx_ok(view_open(&events->view, options, 0, &fx.err));
}

START_TEST(test_drops)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(drops); i++) {
		const struct mk_drop_event event = event_of(&drops[i]);
		char text[MK_POLICY_TEXT_BYTES];
		struct mk_cli_options options;
		struct mk_events events;

		open_events(&events, &options);
		ck_assert_str_eq(events_policy(&events, &event, text), drops[i].text);
		ck_assert_str_eq(events_policy(&events, &event, text), drops[i].text);
		events_release(&events);
	}
}
END_TEST

/* A set that came after the names were read: they are read again. */
START_TEST(test_drop_of_new_set)
{
	struct mk_drop_event event = event_of(&drops[0]);
	char text[MK_POLICY_TEXT_BYTES];
	struct mk_cli_options options;
	struct mk_events events;

	open_events(&events, &options);
	events_policy(&events, &event, text);
	write_names("{\"version\":1,\"sets\":{\"8000000000000abc\":{\"policies\":[\"a/b\"]}}}");
	event.decided.set = 0x8000000000000abc;
	event.time_ns += MK_NS_PER_S / 5;
	ck_assert_str_eq(events_policy(&events, &event, text),
			 "ingress of shop/web: isolated by a/b");
	events_release(&events);
}
END_TEST

START_TEST(test_check)
{
	check_output(1, "ok     policies      apply to 2 of 2 pods", "check");
	check_output(0, "shop/web     10.244.1.2  mkpod", "pods");
	put_sets("10.244.1.2", 4711, WEB_IN, MK_SET_OPEN);
	check_output(1, "WRONG  policies      shop/web: its network policies are not known",
		     "check");
}
END_TEST

START_TEST(test_check_notes)
{
	write_names(
		"{\"version\":1,\"notes\":[{\"policy\":\"shop/out\",\"says\":\"it has no effect\","
		"\"remedy\":\"write another\"}],\"sets\":{}}");
	check_output(1,
		     "note   policies      shop/out: it has no effect\n"
		     "                     -> write another\n",
		     "check");
}
END_TEST

/* ---- trace ----------------------------------------------------------------------------------- */

static const struct trace {
	const char *from, *to, *port;
	const char *says;
} traces[] = {
	{ "client", "web", "8080",
	  " 2. policy  egress allowed: shop/client-out rule 1 (podSelector app=web; any)  [policy_counts: set c000000000000078, rule 1]\n"
	  " 3. policy  ingress allowed: shop/web-in rule 2 (podSelector app=client; TCP 8080)" },
	{ "client", "web", "81",
	  "ingress denied: isolated by shop/deny, shop/web-in; nearest: shop/web-in rule 2, but only for TCP 8080" },
	{ "client", "web", "81", "[POLICY_INGRESS]\ndropped\n" },
	{ "web", "client", "80",
	  " 2. policy  ingress denied: ClusterNetworkPolicy no-strangers rule 1 'all' (all pods; any)" },
	{ "client", "192.0.2.9", "80",
	  " 2. policy  egress denied: isolated by shop/client-out; nearest: shop/client-out rule 2" },
};

START_TEST(test_trace)
{
	cli_attach_pod(fx.pod_ifindex);
	cli_attach_pod(client_ifindex);
	for (size_t i = 0; i < MK_ARRAY_SIZE(traces); i++) {
		const struct trace *row = &traces[i];

		/* the pods' ends are down, so nothing arrives */
		check_output(3, row->says, "trace", row->from, row->to, row->port);
	}
}
END_TEST

/* An emptied table, and names of another time. */
START_TEST(test_without)
{
	cleanup_table struct mk_table table = { .fd = -1 };
	const struct mk_policy_peer_key key = { .set = WEB_IN, .peer = MK_PEER_ANY_POD };

	write_names("{\"version\":1,\"sets\":{}}");
	check_output(0, "ingress: allowed: rule 1 of set 8000000000000077, whose name is not known",
		     "policy", "client", "web", "8080");
	check_output(3,
		     "isolated by set 8000000000000077, whose name is not known; nearest: rule 1",
		     "policy", "client", "web", "81");
	check_output(0, "shop/web     10.244.1.2  isolated", "policy");
	fx_ok(mk_table_open(&table, fx.bpf_dir, "policy_peers", sizeof(key),
			    sizeof(struct mk_policy_peer), &fx.err));
	fx_ok(mk_table_delete(&table, &key, &fx.err));
	put_class("10.244.2.9", 999);
	check_output(3, "ingress: denied: a table of policies lacks an entry", "policy",
		     "10.244.2.9", "web", "8080");
	write_names("{\"version\":2}");
	check_error("is not of version 1", "policy");
}
END_TEST

UNIT_SUITE("cli_policy")
{
	TCase *tcase = unit_case(suite, "policy", setup, teardown);

	tcase_add_test(tcase, test_pods);
	tcase_add_test(tcase, test_pending);
	tcase_add_test(tcase, test_rules);
	tcase_add_test(tcase, test_flows);
	tcase_add_test(tcase, test_errors);
	tcase_add_test(tcase, test_chains);
	tcase_add_test(tcase, test_drops);
	tcase_add_test(tcase, test_drop_of_new_set);
	tcase_add_test(tcase, test_check);
	tcase_add_test(tcase, test_check_notes);
	tcase_add_test(tcase, test_trace);
	tcase_add_test(tcase, test_without);
}

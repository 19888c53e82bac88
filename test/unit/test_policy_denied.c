// SPDX-License-Identifier: Apache-2.0
/* The log of denied flows (setting logDenied): whom and what a line names, and which packets get
 * one. */
#include <arpa/inet.h>
#include <string.h>

#include "agent/policy/denied.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/time.h"
#include "unit/policy_world.h"
#include "unit/unit.h"

#define DENY_IN (MK_SET_ISOLATES | 0x77)

static struct policy_world world;
static struct denied *denied;
static struct mk_policy_sandbox sandbox_list[3];
static struct sandboxes sandboxes = { .list = sandbox_list, .count = MK_ARRAY_SIZE(sandbox_list) };

static void add_sandbox(size_t at, const char *namespace_, const char *name, const char *ip)
{
	struct mk_policy_sandbox *sandbox = &sandbox_list[at];
	struct mk_ip address = ip_of(ip);

	*sandbox = (struct mk_policy_sandbox){ .namespace_ = (char *)namespace_,
					       .name = (char *)name };
	sandbox->ips[mk_family_index(address.family)] = address;
}

static void know(const char *text)
{
	json_object *names = json_tokener_parse(text);

	denied_know(denied, names);
	json_object_put(names);
}

static void setup(void)
{
	world_begin(&world);
	world_put(&world, "{'apiVersion':'v1','kind':'Pod','metadata':{'namespace':'far','name':"
			  "'away'},'spec':{'nodeName':'n2'},'status':{'podIP':'10.244.2.2'}}");
	world_put(&world, "{'apiVersion':'v1','kind':'Pod','metadata':{'namespace':'far','name':"
			  "'host'},'spec':{'nodeName':'n2','hostNetwork':true},"
			  "'status':{'podIP':'192.168.99.12'}}");
	add_sandbox(0, "shop", "web", "10.244.1.2");
	add_sandbox(1, "shop", "client", "fd00::3");
	add_sandbox(2, NULL, NULL, "10.244.1.4");
	denied = denied_new();
	ck_assert_ptr_nonnull(denied);
	know("{\"version\":1,\"sets\":{"
	     "\"8000000000000077\":{\"policies\":[\"shop/deny\",\"shop/web-in\"]},"
	     "\"0000000000000079\":{\"policies\":[\"guests\"],\"rules\":[{\"number\":1,\"tier\":"
	     "\"admin\",\"policy\":\"guests\",\"index\":0,\"action\":\"deny\",\"peers\":"
	     "\"all pods\",\"ports\":\"any\"}]}}}");
}

static void teardown(void)
{
	denied_free(denied);
	world_end(&world);
}

/* ---- lines ----------------------------------------------------------------------------------- */

struct row {
	const char *what;
	unsigned int reason;
	uint8_t protocol;
	const char *from, *to; /* the packet: address and port */
	uint16_t from_port, to_port;
	const char *client, *server; /* NULL: policies were not asked */
	struct mk_policy_count_key decided;
	const char *line; /* NULL: none */
};

static const struct row rows[] = {
	{ "isolated",
	  MK_DROP_POLICY_INGRESS,
	  IPPROTO_TCP,
	  "10.244.2.2",
	  "10.244.1.2",
	  40000,
	  80,
	  "10.244.2.2",
	  "10.244.1.2",
	  { .set = DENY_IN, .tier = MK_TIER_NETWORK_POLICY, .denied = 1 },
	  "info policies deny a flow reason=POLICY_INGRESS protocol=TCP from=10.244.2.2:40000 "
	  "fromPod=far/away to=10.244.1.2:80 toPod=shop/web "
	  "policy=\"ingress of shop/web: isolated by shop/deny, shop/web-in\"\n" },
	{ "a rule denies",
	  MK_DROP_POLICY_INGRESS,
	  IPPROTO_UDP,
	  "192.0.2.9",
	  "10.244.1.2",
	  40000,
	  53,
	  "192.0.2.9",
	  "10.244.1.2",
	  { .set = 0x79, .tier = MK_TIER_ADMIN, .rule = 1, .denied = 1 },
	  "protocol=UDP from=192.0.2.9:40000 to=10.244.1.2:53 toPod=shop/web policy=\"ingress of "
	  "shop/web: ClusterNetworkPolicy guests rule 1 (all pods; any)\"\n" },
	{ "a Service: the pod that was chosen",
	  MK_DROP_POLICY_INGRESS,
	  IPPROTO_TCP,
	  "10.244.2.2",
	  "10.96.0.80",
	  40000,
	  80,
	  "10.244.2.2",
	  "10.244.1.2",
	  { .set = DENY_IN, .tier = MK_TIER_NETWORK_POLICY, .denied = 1 },
	  "to=10.96.0.80:80 toPod=shop/web policy=" },
	{ "an answer",
	  MK_DROP_POLICY_INGRESS,
	  IPPROTO_TCP,
	  "10.244.1.2",
	  "10.244.2.2",
	  80,
	  40000,
	  "10.244.2.2",
	  "10.244.1.2",
	  { .set = DENY_IN, .tier = MK_TIER_NETWORK_POLICY, .denied = 1 },
	  "from=10.244.1.2:80 fromPod=shop/web to=10.244.2.2:40000 toPod=far/away "
	  "policy=\"ingress of shop/web: isolated" },
	{ "IPv6, egress, a set without names",
	  MK_DROP_POLICY_EGRESS,
	  IPPROTO_ICMPV6,
	  "fd00::3",
	  "2001:db8::1",
	  0,
	  0,
	  "fd00::3",
	  "2001:db8::1",
	  { .set = MK_SET_ISOLATES | 5,
	    .tier = MK_TIER_NETWORK_POLICY,
	    .denied = 1,
	    .direction = MK_POLICY_EGRESS },
	  "reason=POLICY_EGRESS protocol=ICMPv6 from=fd00::3 fromPod=shop/client to=2001:db8::1 "
	  "policy=\"egress of shop/client: isolated by set 8000000000000005, whose name" },
	{ "pending",
	  MK_DROP_POLICY_PENDING,
	  IPPROTO_SCTP,
	  "192.0.2.9",
	  "10.244.1.2",
	  1,
	  2,
	  "192.0.2.9",
	  "10.244.1.2",
	  { .set = MK_SET_PENDING, .denied = 1 },
	  "reason=POLICY_PENDING protocol=SCTP from=192.0.2.9:1 to=10.244.1.2:2 toPod=shop/web "
	  "policy=\"ingress of shop/web: the pod's policies are not known yet\"" },
	{ "no known connection",
	  MK_DROP_POLICY_NO_FLOW,
	  IPPROTO_GRE,
	  "192.168.99.12",
	  "10.244.1.4",
	  0,
	  0,
	  NULL,
	  NULL,
	  { 0 },
	  "reason=POLICY_NO_FLOW protocol=47 from=192.168.99.12 to=10.244.1.4 policy=\"belongs to" },
	{ "audited",
	  MK_DROP_POLICY_INGRESS,
	  IPPROTO_TCP,
	  "192.0.2.9",
	  "10.244.1.2",
	  1,
	  2,
	  "192.0.2.9",
	  "10.244.1.2",
	  { .set = DENY_IN, .tier = MK_TIER_NETWORK_POLICY, .denied = 1, .audited = 1 },
	  "info policies would deny a flow reason=POLICY_INGRESS " },
	{ "another reason",
	  MK_DROP_NO_POD,
	  IPPROTO_TCP,
	  "192.0.2.9",
	  "10.244.1.9",
	  1,
	  2,
	  NULL,
	  NULL,
	  { 0 },
	  NULL },
};

static struct mk_drop_event event_of(const struct row *row)
{
	struct mk_drop_event event = {
		.time_ns = 5 * MK_NS_PER_S,
		.reason = (__u8)row->reason,
		.tuple = { .saddr = addr_of(row->from),
			   .daddr = addr_of(row->to),
			   .sport = htons(row->from_port),
			   .dport = htons(row->to_port),
			   .proto = row->protocol },
		.decided = row->decided,
	};

	if (!row->client)
		return event;
	event.client = addr_of(row->client);
	event.server = addr_of(row->server);
	return event;
}

static const char *log_of(const struct mk_drop_event *event)
{
	capture_log();
	denied_see(denied, world.model, &sandboxes, event);
	return captured_log();
}

START_TEST(test_line)
{
	const struct row *row = &rows[_i];
	const struct mk_drop_event event = event_of(row);
	const char *text = log_of(&event);

	if (!row->line)
		ck_assert_msg(!*text, "%s: %s", row->what, text);
	else
		ck_assert_msg(strstr(text, row->line) != NULL, "%s: %s", row->what, text);
}
END_TEST

/* ---- which packets --------------------------------------------------------------------------- */

START_TEST(test_once_per_flow)
{
	struct mk_drop_event event = event_of(&rows[0]);

	ck_assert(*log_of(&event));
	event.time_ns += 59 * MK_NS_PER_S;
	ck_assert(!*log_of(&event));
	event.time_ns += MK_NS_PER_S;
	ck_assert(*log_of(&event));
	event.tuple.sport = htons(40001);
	ck_assert(*log_of(&event));
	event.tuple.proto = IPPROTO_UDP;
	ck_assert(*log_of(&event));
}
END_TEST

static size_t lines_of(struct mk_drop_event *event, uint16_t first_port, unsigned int count)
{
	size_t lines = 0;

	capture_log();
	for (unsigned int i = 0; i < count; i++) {
		event->tuple.sport = htons((uint16_t)(first_port + i));
		denied_see(denied, world.model, &sandboxes, event);
	}
	for (const char *text = captured_log(); (text = strchr(text, '\n')); text++)
		lines++;
	return lines;
}

/* Lines of audited policies have a limit of their own. */
START_TEST(test_limit)
{
	struct mk_drop_event event = event_of(&rows[0]), audited = event_of(&rows[7]);

	ck_assert_uint_eq(lines_of(&audited, 1000, 100), 30);
	ck_assert_uint_eq(lines_of(&event, 1000, 25), 25);
	ck_assert_uint_eq(lines_of(&event, 2000, 100), 5);
	capture_log();
	mk_log_tell_suppressed();
	ck_assert_ptr_nonnull(strstr(captured_log(), "suppressed=95\n"));
}
END_TEST

/* Names of a policy that has just changed. */
START_TEST(test_new_names)
{
	const struct mk_drop_event event = event_of(&rows[0]);

	know("{\"version\":1,\"sets\":{\"8000000000000077\":{\"policies\":[\"shop/new\"]}}}");
	ck_assert_ptr_nonnull(strstr(log_of(&event), "isolated by shop/new\""));
}
END_TEST

UNIT_SUITE("policy_denied")
{
	TCase *tcase = unit_case(suite, "policy_denied", setup, teardown);

	tcase_add_loop_test(tcase, test_line, 0, (int)MK_ARRAY_SIZE(rows));
	tcase_add_test(tcase, test_once_per_flow);
	tcase_add_test(tcase, test_limit);
	tcase_add_test(tcase, test_new_names);
}

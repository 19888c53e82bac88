// SPDX-License-Identifier: Apache-2.0
/* The nodes that the overlay connects, and its MTU (pure). */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "unit/overlay_fixture.h"

static struct mk_error err;

/* "node=vtep@underlay" for each peer, then for each left out "!node", or "?node" for now. */
static const char *describe(const struct mk_overlay_plan *plan)
{
	static char text[1024];
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < plan->peer_count; i++) {
		char vtep[MK_IP_STRLEN], underlay[MK_IP_STRLEN];

		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s=%s@%s",
					 used ? " " : "", plan->peers[i].node,
					 mk_ip_format(&plan->peers[i].vtep, vtep),
					 mk_ip_format(&plan->peers[i].underlay, underlay));
	}
	for (size_t i = 0; i < plan->left_out_count; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%c%s",
					 used ? " " : "", plan->left_out[i].wrong ? '!' : '?',
					 plan->left_out[i].node);
	return text;
}

static const struct {
	const char *name;
	struct {
		const char *name, *pod_cidr, *internal_ip;
		bool ready;
	} nodes[4];
	const char *plan;
} plans[] = {
	{ "the own node is no peer", { { "a", "10.244.1.0/24", "192.0.2.1", true } }, "" },
	{ "ready or not",
	  { { "b", "10.244.2.0/24", "192.0.2.2", true },
	    { "c", "10.244.3.0/24", "192.0.2.3", false } },
	  "b=10.18.0.2@192.0.2.2 c=10.18.0.3@192.0.2.3" },
	{ "no pod CIDR yet", { { "b", NULL, "192.0.2.2", true } }, "?b" },
	{ "no address", { { "b", "10.244.2.0/24", NULL, true } }, "?b" },
	{ "outside the cluster CIDR", { { "b", "10.9.2.0/24", "192.0.2.2", true } }, "!b" },
	{ "two with the same range: the first name has it",
	  { { "c", "10.244.2.0/24", "192.0.2.3", true },
	    { "b", "10.244.2.0/24", "192.0.2.2", true } },
	  "b=10.18.0.2@192.0.2.2 !c" },
	{ "one inside another's",
	  { { "b", "10.244.4.0/23", "192.0.2.2", true },
	    { "c", "10.244.5.0/24", "192.0.2.3", true } },
	  "b=10.18.0.2@192.0.2.2 !c" },
	{ "a VTEP address that is the own one's",
	  { { "b", "10.244.2.0/23", "192.0.2.2", true },
	    { "c", "10.244.3.0/24", "192.0.2.3", true } },
	  "c=10.18.0.3@192.0.2.3 !b" },
	{ "two with the same address: the one that is ready has it",
	  { { "b", "10.244.2.0/24", "192.0.2.2", false },
	    { "c", "10.244.3.0/24", "192.0.2.2", true },
	    { "d", "10.244.4.0/24", "192.0.2.4", false } },
	  "c=10.18.0.3@192.0.2.2 d=10.18.0.4@192.0.2.4 !b" },
	{ ".. or the first name",
	  { { "c", "10.244.2.0/24", "192.0.2.2", true },
	    { "b", "10.244.3.0/24", "192.0.2.2", true } },
	  "b=10.18.0.3@192.0.2.2 !c" },
	{ ".. of those that have a pod CIDR",
	  { { "c", "10.244.2.0/24", "192.0.2.2", true }, { "b", NULL, "192.0.2.2", true } },
	  "c=10.18.0.2@192.0.2.2 ?b" },
	{ "the own address is no other node's",
	  { { "b", "10.244.2.0/24", "192.0.2.1", true },
	    { "c", "10.244.3.0/24", "192.0.2.3", true } },
	  "c=10.18.0.3@192.0.2.3 !b" },
	{ "the own range is nobody else's",
	  { { "b", "10.244.1.0/25", "192.0.2.2", true },
	    { "c", "10.244.3.0/24", "192.0.2.3", true } },
	  "c=10.18.0.3@192.0.2.3 !b" },
};

START_TEST(test_plan)
{
	struct mk_overlay_view view = view_of("10.244.1.0/24", NULL, AF_INET);
	struct mk_overlay_plan plan;

	for (size_t i = 0; i < 4 && plans[_i].nodes[i].name; i++)
		model_node(plans[_i].nodes[i].name, plans[_i].nodes[i].pod_cidr,
			   plans[_i].nodes[i].internal_ip, plans[_i].nodes[i].ready);
	ck_ok(mk_overlay_plan_make(node_model, &view, &plan, &err));
	ck_assert_msg(strcmp(describe(&plan), plans[_i].plan) == 0, "%s: %s", plans[_i].name,
		      describe(&plan));
	mk_overlay_plan_release(&plan);
}
END_TEST

static void model_aged_node(const char *name, const char *pod_cidr, const char *created)
{
	char text[512];
	json_object *tree;

	snprintf(text, sizeof(text),
		 "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': '%s', "
		 "'creationTimestamp': '%s'}, 'spec': {'podCIDR': '%s'}, 'status': {'addresses': "
		 "[{'type': 'InternalIP', 'address': '192.0.2.2'}]}}",
		 name, created, pod_cidr);
	tree = json_tokener_parse(text);
	ck_ok(mk_model_apply(node_model, tree, &err));
	json_object_put(tree);
}

/* The older of two Nodes keeps the address, if both are ready or neither is. */
START_TEST(test_older_keeps_address)
{
	struct mk_overlay_view view = view_of("10.244.1.0/24", NULL, AF_INET);
	struct mk_overlay_plan plan;

	model_aged_node("b", "10.244.2.0/24", "2026-02-01T00:00:00Z");
	model_aged_node("c", "10.244.3.0/24", "2026-01-01T00:00:00Z");
	ck_ok(mk_overlay_plan_make(node_model, &view, &plan, &err));
	ck_assert_str_eq(describe(&plan), "c=10.18.0.3@192.0.2.2 !b");
	ck_assert_str_eq(
		plan.left_out[0].reason,
		"its InternalIP 192.0.2.2 is that of node 'c', too: delete the Node that no machine has, or give both machines addresses of their own");
	mk_overlay_plan_release(&plan);
}
END_TEST

/* Each peer's pod CIDR has the family of the cluster's range, its address that of the underlay. */
START_TEST(test_plan_by_family)
{
	static const char dual[] =
		"{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'b'}, 'spec': {'podCIDRs': "
		"['10.244.2.0/24', 'fd00:10:244:2::/64']}, 'status': {'addresses': [{'type': "
		"'InternalIP', 'address': '192.0.2.2'}, {'type': 'InternalIP', 'address': "
		"'2001:db8::2'}]}}";
	struct mk_overlay_view view = view_of(NULL, "fd00:10:244:1::/64", AF_INET6);
	json_object *tree = json_tokener_parse(dual);
	struct mk_overlay_plan plan;

	view.underlay_family = _i ? AF_INET6 : AF_INET;
	ck_ok(mk_model_apply(node_model, tree, &err));
	json_object_put(tree);
	model_node("c", "10.244.3.0/24", "192.0.2.3", true);
	ck_ok(mk_overlay_plan_make(node_model, &view, &plan, &err));
	ck_assert_str_eq(describe(&plan), _i ? "b=fd4d:4b00:12::2@2001:db8::2 ?c"
					     : "b=fd4d:4b00:12::2@192.0.2.2 ?c");
	mk_overlay_plan_release(&plan);
}
END_TEST

static const struct {
	const char *name, *v4, *v6; /* pod CIDRs of node b; node c has 10.244.3.0/24, ..:3::/64 */
	sa_family_t primary;
	const char *plan4, *plan6; /* "node=VTEP/MAC" */
} macs[] = {
	{ "the primary family is IPv4", "10.244.2.0/24", "fd00:10:244:2::/64", AF_INET,
	  "b=10.18.0.2/02:4d:0a:12:00:02 c=10.18.0.3/02:4d:0a:12:00:03",
	  "b=fd4d:4b00:12::2/02:4d:0a:12:00:02 c=fd4d:4b00:12::3/02:4d:0a:12:00:03" },
	{ "it is IPv6", "10.244.2.0/24", "fd00:10:244:2::/64", AF_INET6,
	  "b=10.18.0.2/02:4d:00:00:00:02 c=10.18.0.3/02:4d:00:00:00:03",
	  "b=fd4d:4b00:12::2/02:4d:00:00:00:02 c=fd4d:4b00:12::3/02:4d:00:00:00:03" },
	{ "a node without the primary family: its only one decides", NULL, "fd00:10:244:2::/64",
	  AF_INET, "c=10.18.0.3/02:4d:0a:12:00:03 ?b",
	  "b=fd4d:4b00:12::2/02:4d:00:00:00:02 c=fd4d:4b00:12::3/02:4d:0a:12:00:03" },
	{ "a node without the other one", "10.244.2.0/24", NULL, AF_INET,
	  "b=10.18.0.2/02:4d:0a:12:00:02 c=10.18.0.3/02:4d:0a:12:00:03",
	  "c=fd4d:4b00:12::3/02:4d:0a:12:00:03 ?b" },
	{ "the range of the primary family is another node's: no two have one MAC address",
	  "10.244.3.0/24", "fd00:10:244:2::/64", AF_INET, "b=10.18.0.3/02:4d:0a:12:00:03 !c",
	  "b=fd4d:4b00:12::2/02:4d:0a:12:00:03 !c" },
	{ ".. or the own node's", "10.244.1.0/24", "fd00:10:244:2::/64", AF_INET,
	  "c=10.18.0.3/02:4d:0a:12:00:03 !b", "c=fd4d:4b00:12::3/02:4d:0a:12:00:03 !b" },
	{ "a range of the primary family that makes no sense", "10.9.2.0/24", "fd00:10:244:2::/64",
	  AF_INET, "c=10.18.0.3/02:4d:0a:12:00:03 !b", "c=fd4d:4b00:12::3/02:4d:0a:12:00:03 !b" },
};

static const char *describe_macs(const struct mk_overlay_plan *plan)
{
	static char text[1024];
	size_t used = 0;

	for (size_t i = 0; i < plan->peer_count; i++) {
		char vtep[MK_IP_STRLEN], mac[MK_MAC_STRLEN];

		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s=%s/%s",
					 used ? " " : "", plan->peers[i].node,
					 mk_ip_format(&plan->peers[i].vtep, vtep),
					 mk_mac_format(&plan->peers[i].vtep_mac, mac));
	}
	for (size_t i = 0; i < plan->left_out_count; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, " %c%s",
					 plan->left_out[i].wrong ? '!' : '?',
					 plan->left_out[i].node);
	return text;
}

START_TEST(test_macs)
{
	static const sa_family_t families[] = { AF_INET, AF_INET6 };
	const char *const expected[] = { macs[_i].plan4, macs[_i].plan6 };

	model_dual_node("b", macs[_i].v4, macs[_i].v6, "192.0.2.2", "2001:db8::2");
	model_dual_node("c", "10.244.3.0/24", "fd00:10:244:3::/64", "192.0.2.3", "2001:db8::3");
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		struct mk_overlay_view view =
			view_of("10.244.1.0/24", "fd00:10:244:1::/64", families[i]);
		struct mk_overlay_plan plan;

		view.primary = macs[_i].primary;
		ck_ok(mk_overlay_plan_make(node_model, &view, &plan, &err));
		ck_assert_msg(strcmp(describe_macs(&plan), expected[i]) == 0, "%s: %s",
			      macs[_i].name, describe_macs(&plan));
		mk_overlay_plan_release(&plan);
	}
}
END_TEST

static const struct {
	const char *name;
	struct mk_overlay_path path;
	uint32_t mtu_bytes; /* 0: refused */
	const char *number; /* in the message */
} mtus[] = {
	{ "IPv4 by IPv4", { "up0", 1500, 0, AF_INET, false, false }, 1450, NULL },
	{ "IPv4 by IPv6", { "up0", 1500, 0, AF_INET6, false, false }, 1430, NULL },
	{ "IPv6 by IPv4", { "up0", 1500, 0, AF_INET, false, true }, 1450, NULL },
	{ "IPv6 by IPv6", { "up0", 1500, 0, AF_INET6, false, true }, 1430, NULL },
	{ "IPv4 with a small uplink", { "up0", 600, 0, AF_INET, false, false }, 550, NULL },
	{ "the smallest by IPv4", { "up0", 1330, 0, AF_INET, false, true }, 1280, NULL },
	{ "one byte less", { "up0", 1329, 0, AF_INET, false, true }, 0, "1330" },
	{ "the smallest by IPv6", { "up0", 1350, 0, AF_INET6, false, true }, 1280, NULL },
	{ "one byte less by IPv6", { "up0", 1349, 0, AF_INET6, false, true }, 0, "1350" },
	{ "encrypted", { "up0", 1500, 0, AF_INET, true, false }, 1390, NULL },
	{ "the smallest, encrypted", { "up0", 1390, 0, AF_INET, true, true }, 1280, NULL },
	{ "one byte less, encrypted", { "up0", 1389, 0, AF_INET, true, true }, 0, "1390" },
	{ "configured, encrypted", { "up0", 1500, 1400, AF_INET, true, false }, 1400, NULL },
	{ "configured", { "up0", 1500, 1280, AF_INET6, false, true }, 1280, NULL },
	{ "configured too small", { "up0", 1500, 1279, AF_INET6, false, true }, 0, "1280" },
};

START_TEST(test_mtu)
{
	uint32_t mtu_bytes;
	int ret = mk_overlay_mtu(&mtus[_i].path, &mtu_bytes, &err);

	ck_assert_msg(ret == (mtus[_i].mtu_bytes ? 0 : -EINVAL), "%s: %d", mtus[_i].name, ret);
	if (ret == 0)
		ck_assert_msg(mtu_bytes == mtus[_i].mtu_bytes, "%s: %u", mtus[_i].name, mtu_bytes);
	else
		ck_assert_msg(strstr(err.text, mtus[_i].number), "%s: %s", mtus[_i].name, err.text);
}
END_TEST

UNIT_SUITE("overlay_plan")
{
	TCase *plan = unit_case(suite, "plan", plan_setup, plan_teardown);

	tcase_add_loop_test(plan, test_plan, 0, MK_ARRAY_SIZE(plans));
	tcase_add_test(plan, test_older_keeps_address);
	tcase_add_loop_test(plan, test_plan_by_family, 0, 2);
	tcase_add_loop_test(plan, test_macs, 0, MK_ARRAY_SIZE(macs));
	tcase_add_loop_test(plan, test_mtu, 0, MK_ARRAY_SIZE(mtus));
}

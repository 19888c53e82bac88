// SPDX-License-Identifier: Apache-2.0
/* Random objects through model, compiler and the sync of the policy tables. Each change is of one
 * object. After each single write every flow has its old or its new verdict, per pod and direction,
 * and at the end the verdict of the compiler's rows. A third of the changes are cut off by a kill;
 * another agent lists all objects and goes on. */
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "unit/policy_flows.h"
#include "unit/policy_rows.h"
#include "unit/unit.h"

#define POLICIES 5 /* of each kind */

static struct mk_model *model;
static struct mk_policies *policies;
static struct policy_rows rows;
/* ---- the agent ------------------------------------------------------------------------------- */

static void pod_changed(void *ctx, const struct mk_pod_object *pod,
			const struct mk_pod_object *former)
{
	(void)ctx;
	mk_policies_pod_changed(policies, pod, former);
}

static void namespace_changed(void *ctx, const char *name)
{
	(void)ctx;
	mk_policies_mark(policies, MK_KIND_NAMESPACE, "", name);
}

static void network_policy_changed(void *ctx, const char *namespace_, const char *name)
{
	(void)ctx;
	mk_policies_mark(policies, MK_KIND_NETWORK_POLICY, namespace_, name);
}

static void cluster_policy_changed(void *ctx, const char *name)
{
	(void)ctx;
	mk_policies_mark(policies, MK_KIND_CLUSTER_POLICY, "", name);
}

static void node_changed(void *ctx, const char *name)
{
	(void)ctx;
	mk_policies_mark(policies, MK_KIND_NODE, "", name);
}

static const struct mk_model_listener listener = {
	.node_changed = node_changed,
	.pod_changed = pod_changed,
	.namespace_changed = namespace_changed,
	.network_policy_changed = network_policy_changed,
	.cluster_policy_changed = cluster_policy_changed,
};

static const struct mk_policy_sandbox sandboxes[LOCAL] = {
#define SANDBOX(number, address)                                                          \
	{                                                                                 \
		.uid = (char *)"uid-" number, .namespace_ = (char *)"x",                  \
		.name = (char *)"p" number, .ifindex = 11,                                \
		.ips[0] = { .family = AF_INET, .v4.s_addr = __builtin_bswap32(address) }, \
	}
	SANDBOX("0", 0x0a010002),
	SANDBOX("1", 0x0a010003),
	SANDBOX("2", 0x0a010004),
};

static void start_compiler(void)
{
	const struct mk_policy_view view = { .node_name = "n1", .hash_key = { 1, 2, 3 } };

	mk_policies_free(policies);
	policies = mk_policies_new(model, &view, &policy_err);
	ck_assert_ptr_nonnull(policies);
	ck_assert_int_eq(mk_policies_set_sandboxes(policies, sandboxes, LOCAL, &policy_err), 0);
	ck_assert_int_eq(mk_policy_sync_set_sandboxes(policy_sync, sandboxes, LOCAL, &policy_err),
			 0);
}

static void setup(void)
{
	policy_room = 32768;
	policy_setup();
	model = mk_model_new();
	ck_assert_ptr_nonnull(model);
	policies = NULL;
	rows = (struct policy_rows){ 0 };
	start_compiler();
	mk_model_set_listener(model, &listener);
}

static void teardown(void)
{
	policy_rows_release(&rows);
	mk_policies_free(policies);
	mk_model_free(model);
	policy_teardown();
}

/* ---- objects --------------------------------------------------------------------------------- */

static void apply_object(const char *text)
{
	json_object *tree = json_tokener_parse(text);
	struct mk_error err = { 0 };

	ck_assert_msg(tree != NULL, "no JSON: %s", text);
	ck_assert_msg(mk_model_apply(model, tree, &err) == 0, "%s: %s", mk_error_text(&err), text);
	json_object_put(tree);
}

static char text[8192];
static size_t used;

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	used += (size_t)vsnprintf(text + used, sizeof(text) - used, format, arguments);
	va_end(arguments);
	ck_assert_uint_lt(used, sizeof(text));
}

static void delete_object(enum mk_kind kind, const char *namespace_, const char *name)
{
	mk_model_delete(model, kind, namespace_, name);
	used = 0;
	say("removed: %s/%s", namespace_, name);
}

/* The pods of this node do not come and go; their namespace is x. */
static void change_pod(uint32_t pod)
{
	const char *namespace_ = pod < LOCAL || pod % 2 ? "x" : "y";
	char name[16];

	snprintf(name, sizeof(name), "p%u", pod);
	if (pod >= LOCAL && any_of(4) == 0) {
		delete_object(MK_KIND_POD, namespace_, name);
		return;
	}
	used = 0;
	say("{'apiVersion':'v1','kind':'Pod','metadata':{'namespace':'%s','name':'%s','uid':'uid-%u',"
	    "'labels':{'app':'%u','tier':'%u'}},'spec':{'nodeName':'%s','containers':[{'ports':"
	    "[{'name':'web','containerPort':%u}]}]},'status':{'phase':'Running','podIP':'%s',"
	    "'podIPs':[{'ip':'%s'}]}}",
	    namespace_, name, pod, any_of(3), any_of(2), pod < LOCAL ? "n1" : "n2", 80 + any_of(2),
	    peers[pod], peers[pod]);
	apply_object(text);
}

static void change_namespace(const char *name)
{
	used = 0;
	say("{'apiVersion':'v1','kind':'Namespace','metadata':{'name':'%s','labels':{'team':'%u'}}}",
	    name, any_of(2));
	apply_object(text);
}

static void say_selector(const char *member)
{
	static const char *const selectors[] = {
		"{}",
		"{'matchLabels':{'app':'0'}}",
		"{'matchLabels':{'app':'1','tier':'0'}}",
		"{'matchExpressions':[{'key':'tier','operator':'NotIn','values':['1']}]}",
		"{'matchExpressions':[{'key':'app','operator':'In','values':['1','2']}]}",
	};

	say("'%s':%s", member, selectors[any_of(MK_ARRAY_SIZE(selectors))]);
}

static void say_namespaces(const char *member)
{
	static const char *const selectors[] = { "{}", "{'matchLabels':{'team':'0'}}",
						 "{'matchLabels':{'team':'1'}}" };

	say("'%s':%s", member, selectors[any_of(MK_ARRAY_SIZE(selectors))]);
}

static void say_peer(void)
{
	static const char *const blocks[] = {
		"{'cidr':'10.2.0.0/29','except':['10.2.0.2/31']}",
		"{'cidr':'192.0.2.0/24'}",
		"{'cidr':'0.0.0.0/0','except':['10.0.0.0/8']}",
	};

	switch (any_of(4)) {
	case 0:
		say("{'ipBlock':%s}", blocks[any_of(MK_ARRAY_SIZE(blocks))]);
		return;
	case 1:
		say("{");
		say_selector("podSelector");
		break;
	case 2:
		say("{");
		say_namespaces("namespaceSelector");
		break;
	default:
		say("{");
		say_selector("podSelector");
		say(",");
		say_namespaces("namespaceSelector");
	}
	say("}");
}

static void say_rules(const char *member, const char *peer)
{
	static const char *const lists[] = { "", ",'ports':[{'port':80}]",
					     ",'ports':[{'port':80,'endPort':90}]",
					     ",'ports':[{'port':'web'}]" };

	say(",'%s':[", member);
	for (uint32_t i = any_of(3); i > 0; i--) {
		say("{'%s':[", peer);
		say_peer();
		say("]%s}%s", lists[any_of(MK_ARRAY_SIZE(lists))], i > 1 ? "," : "");
	}
	say("]");
}

static void change_network_policy(uint32_t number)
{
	static const char *const types[] = { "'Ingress'", "'Egress'", "'Ingress','Egress'" };
	char name[16];

	snprintf(name, sizeof(name), "np%u", number);
	if (any_of(4) == 0) {
		delete_object(MK_KIND_NETWORK_POLICY, "x", name);
		return;
	}
	used = 0;
	say("{'apiVersion':'networking.k8s.io/v1','kind':'NetworkPolicy','metadata':{'namespace':'x',"
	    "'name':'%s'},'spec':{",
	    name);
	say_selector("podSelector");
	say(",'policyTypes':[%s]", types[any_of(3)]);
	say_rules("ingress", "from");
	say_rules("egress", "to");
	say("}}");
	apply_object(text);
}

static void say_cluster_rules(const char *member, const char *peer, bool baseline)
{
	static const char *const actions[] = { "Accept", "Deny", "Pass" };
	static const char *const lists[] = {
		"", ",'protocols':[{'tcp':{'destinationPort':{'number':80}}}]"
	};

	say(",'%s':[", member);
	for (uint32_t i = any_of(3); i > 0; i--) {
		say("{'action':'%s','%s':[{", actions[any_of(baseline ? 2 : 3)], peer);
		if (peer[0] == 't' && any_of(2)) {
			say("'networks':['%s']", any_of(2) ? "192.0.2.0/24" : "10.2.0.0/30");
		} else if (any_of(2)) {
			say_namespaces("namespaces");
		} else {
			say("'pods':{");
			say_namespaces("namespaceSelector");
			say(",");
			say_selector("podSelector");
			say("}");
		}
		say("}]%s}%s", lists[any_of(2)], i > 1 ? "," : "");
	}
	say("]");
}

static void change_cluster_policy(uint32_t number)
{
	bool baseline = any_of(2);
	char name[16];

	snprintf(name, sizeof(name), "c%u", number);
	if (any_of(3) == 0) {
		delete_object(MK_KIND_CLUSTER_POLICY, "", name);
		return;
	}
	used = 0;
	say("{'apiVersion':'policy.networking.k8s.io/v1alpha2','kind':'ClusterNetworkPolicy',"
	    "'metadata':{'name':'%s'},'spec':{'tier':'%s','priority':%u,'subject':{",
	    name, baseline ? "Baseline" : "Admin", any_of(5));
	say_namespaces("namespaces");
	say("}");
	say_cluster_rules("ingress", "from", baseline);
	say_cluster_rules("egress", "to", baseline);
	say("}}");
	apply_object(text);
}

static void change_something(void)
{
	switch (any_of(8)) {
	case 0:
	case 1:
	case 2:
		change_pod(any_of(PODS));
		break;
	case 3:
		change_namespace(any_of(2) ? "x" : "y");
		break;
	case 4:
		change_cluster_policy(any_of(POLICIES));
		break;
	default:
		change_network_policy(any_of(POLICIES));
	}
}

/* ---- verdicts -------------------------------------------------------------------------------- */

static bool should_allow(int pod, int d, int peer, size_t port)
{
	const struct mk_pod_row *row =
		policy_rows_pod(&rows, sandboxes[pod].uid, "x", sandboxes[pod].name);
	const struct policy_question question = {
		.set = row ? row->set[d] : MK_SET_PENDING,
		.peer = ip_of(peers[peer]),
		.in_pod_range = peer <= PODS,
		.proto = IPPROTO_TCP,
		.port = ports[port],
	};

	return policy_rows_ask(&rows, &question).allowed;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static const struct mk_policy_changes *changes;

static int apply_changes(void)
{
	policy_counts = (struct mk_policy_counts){ 0 };
	return mk_policy_sync_apply(policy_sync, changes, policy_now_ns, &policy_counts,
				    &policy_err);
}

/* Another agent starts. It has none of the sets that are not in use. It reads the keys of the
 * former one from its description. */
static void restart(void)
{
	json_object *described = mk_policies_describe(policies), *list;
	const char *keys[64];
	size_t count;

	ck_assert(json_object_object_get_ex(described, "keys", &list));
	count = json_object_array_length(list);
	ck_assert_uint_le(count, MK_ARRAY_SIZE(keys));
	for (size_t i = 0; i < count; i++)
		keys[i] = json_object_get_string(json_object_array_get_idx(list, i));
	policy_restart();
	start_compiler();
	ck_assert_int_eq(mk_policies_keep_keys(policies, keys, count, &policy_err), 0);
	json_object_put(described);
}

static void compile(void)
{
	ck_assert_int_eq(mk_policies_compile(policies, &changes, &policy_err), 0);
	policy_rows_apply(&rows, changes);
}

static void run_change(int number)
{
	flows_begin(number);
	compile();
	EACH_FLOW(pod, d, peer, port)
	change.shall_be.allowed[pod][d][peer][port] = should_allow(pod, d, peer, port);
	if (any_of(3) == 0) {
		flows_die_at(1 + (int)any_of(12), apply_changes);
		restart();
		flows_check();
		policy_rows_release(&rows);
		rows = (struct policy_rows){ 0 };
		compile();
		ck_assert_int_eq(mk_policies_all(policies, &changes, &policy_err), 0);
	}
	flows_watch();
	ck_assert_msg(apply_changes() == 0, "%s", mk_error_text(&policy_err));
	flows_check_result();
}

static void collect(void)
{
	policy_now_ns += any_of(3) * S / 2;
	ck_assert_int_ge(policy_collect(policy_now_ns), 0);
}

/* A release is a change of its own: the compiler must not forget sets in force. */
static bool release(void)
{
	if (any_of(8) > 0)
		return false;
	mk_policies_release(policies);
	mk_policy_sync_release(policy_sync, policy_now_ns);
	used = 0;
	say("release");
	return true;
}

START_TEST(test_each_write)
{
	flows_seed(20261);
	change.what = text;
	change.skips_itself = true;
	change_namespace("x");
	change_namespace("y");
	for (uint32_t i = 0; i < PODS; i++)
		change_pod(i);
	for (int number = 0; number < change.count; number++) {
		run_change(number);
		collect();
		if (!release())
			change_something();
	}
	flows_end();
}
END_TEST

UNIT_SUITE("policy_writes")
{
	TCase *tcase = unit_case(suite, "each write", setup, teardown);

	tcase_set_timeout(tcase, 300);
	tcase_add_test(tcase, test_each_write);
}

// SPDX-License-Identifier: Apache-2.0
/* The overlay: the nodes that it connects (pure), and its effect in a network namespace. */
#include <json-c/json.h>
#include <linux/if_addr.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "config/config.h"
#include "host/host_internal.h"
#include "host/record.h"
#include "host/sysctl.h"
#include "overlay/overlay.h"
#include "unit/unit.h"

static struct mk_error err;

/* ---- plan ------------------------------------------------------------------------------------ */

static struct mk_model *model;

static void node(const char *name, const char *pod_cidr, const char *internal_ip, bool ready)
{
	char text[1024];
	json_object *tree;

	snprintf(text, sizeof(text),
		 "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"%s\"},\"spec\":"
		 "{%s%s%s},"
		 "\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"%s\"}],"
		 "\"addresses\":[%s%s%s]}}",
		 name, pod_cidr ? "\"podCIDR\":\"" : "", pod_cidr ? pod_cidr : "",
		 pod_cidr ? "\"" : "", ready ? "True" : "False",
		 internal_ip ? "{\"type\":\"InternalIP\",\"address\":\"" : "",
		 internal_ip ? internal_ip : "", internal_ip ? "\"}" : "");
	tree = json_tokener_parse(text);
	ck_assert_msg(tree != NULL, "%s", text);
	ck_ok(mk_model_apply(model, tree, &err));
	json_object_put(tree);
}

/* By mk_family_index(). */
static const struct mk_cidr no_cidr;
static struct mk_cidr clusters[MK_FAMILIES], vteps[MK_FAMILIES], own_pods[MK_FAMILIES];

static struct mk_overlay_view view_of(const char *own_v4, const char *own_v6, sa_family_t family)
{
	clusters[0] = own_v4 ? cidr_of("10.244.0.0/16") : no_cidr;
	clusters[1] = own_v6 ? cidr_of("fd00:10:244::/48") : no_cidr;
	vteps[0] = cidr_of("10.18.0.0/16");
	vteps[1] = cidr_of("fd4d:4b00:12::/64");
	own_pods[0] = own_v4 ? cidr_of(own_v4) : no_cidr;
	own_pods[1] = own_v6 ? cidr_of(own_v6) : no_cidr;
	return (struct mk_overlay_view){
		.own_node = "a",
		.family = family,
		.primary = own_v4 ? AF_INET : AF_INET6,
		.underlay_family = AF_INET,
		.cluster_cidrs = clusters,
		.vtep_cidrs = vteps,
		.own_pod_cidrs = own_pods,
	};
}

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

static void model_setup(void)
{
	model = mk_model_new();
	ck_assert_ptr_nonnull(model);
}

static void model_teardown(void)
{
	mk_model_free(model);
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
		node(plans[_i].nodes[i].name, plans[_i].nodes[i].pod_cidr,
		     plans[_i].nodes[i].internal_ip, plans[_i].nodes[i].ready);
	ck_ok(mk_overlay_plan_make(model, &view, &plan, &err));
	ck_assert_msg(strcmp(describe(&plan), plans[_i].plan) == 0, "%s: %s", plans[_i].name,
		      describe(&plan));
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
	ck_ok(mk_model_apply(model, tree, &err));
	json_object_put(tree);
	node("c", "10.244.3.0/24", "192.0.2.3", true);
	ck_ok(mk_overlay_plan_make(model, &view, &plan, &err));
	ck_assert_str_eq(describe(&plan), _i ? "b=fd4d:4b00:12::2@2001:db8::2 ?c"
					     : "b=fd4d:4b00:12::2@192.0.2.2 ?c");
	mk_overlay_plan_release(&plan);
}
END_TEST

/* Put a Node of two families into the model; NULL: without. */
static void dual_node(const char *name, const char *v4, const char *v6, const char *ip4,
		      const char *ip6)
{
	char text[1024];
	json_object *tree;

	snprintf(text, sizeof(text),
		 "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': '%s'}, 'spec': "
		 "{'podCIDRs': [%s%s%s%s%s%s%s]}, 'status': {'addresses': [{'type': 'InternalIP', "
		 "'address': '%s'}, {'type': 'InternalIP', 'address': '%s'}]}}",
		 name, v4 ? "'" : "", v4 ? v4 : "", v4 ? "'" : "", v4 && v6 ? "," : "",
		 v6 ? "'" : "", v6 ? v6 : "", v6 ? "'" : "", ip4, ip6);
	tree = json_tokener_parse(text);
	ck_assert_msg(tree != NULL, "%s", text);
	ck_ok(mk_model_apply(model, tree, &err));
	json_object_put(tree);
}

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

	dual_node("b", macs[_i].v4, macs[_i].v6, "192.0.2.2", "2001:db8::2");
	dual_node("c", "10.244.3.0/24", "fd00:10:244:3::/64", "192.0.2.3", "2001:db8::3");
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		struct mk_overlay_view view =
			view_of("10.244.1.0/24", "fd00:10:244:1::/64", families[i]);
		struct mk_overlay_plan plan;

		view.primary = macs[_i].primary;
		ck_ok(mk_overlay_plan_make(model, &view, &plan, &err));
		ck_assert_msg(strcmp(describe_macs(&plan), expected[i]) == 0, "%s: %s",
			      macs[_i].name, describe_macs(&plan));
		mk_overlay_plan_release(&plan);
	}
}
END_TEST

/* ---- reserved ports -------------------------------------------------------------------------- */

static const struct {
	const char *before;
	int covered;
	const char *after;
} ports[] = {
	{ "", 0, "30000-32767,49152-65535" },
	{ "\n", 0, "30000-32767,49152-65535" },
	{ "8080", 0, "8080,30000-32767,49152-65535" },
	{ "8080,9148-9150\n", 0, "8080,9148-9150,30000-32767,49152-65535" },
	{ "30000-32767,49152-65535\n", 1, NULL },
	{ "22,30000-65535", 1, NULL },
	{ "49152-65535\n", 0, "30000-32767,49152-65535" },
	{ "30000-32766,49152-65535", 0, "30000-32767,49152-65535" },
	{ "49153-65535", 0, "30000-32767,49152-65535" },
};

START_TEST(test_reserved_ports)
{
	char out[128] = "";
	int ret = mk_reserved_ports_add(ports[_i].before, "30000-32767,49152-65535", out,
					sizeof(out), &err);

	ck_assert_msg(ret == ports[_i].covered, "'%s': %d", ports[_i].before, ret);
	if (ports[_i].after)
		ck_assert_str_eq(out, ports[_i].after);
}
END_TEST

static const struct {
	const char *name, *now, *keep, *after;
} released[] = {
	{ "nobody else's", "30000-32767,49152-65535", "", "" },
	{ "from before", "8080,30000-32767,49152-65535", "8080", "8080" },
	{ "of others since", "8080,9000-9001,30000-32767,49152-65535", "8080", "8080,9000-9001" },
	{ "from before, and within ours", "30000-32767,49152-65535", "30100,65535", "30100,65535" },
	{ "taken away by others", "8080", "8080,9000", "8080" },
};

START_TEST(test_released_ports)
{
	char out[128] = "";

	ck_ok(reserved_ports_remove(released[_i].now, "30000-32767,49152-65535", released[_i].keep,
				    out, sizeof(out), &err));
	ck_assert_msg(strcmp(out, released[_i].after) == 0, "%s: %s", released[_i].name, out);
}
END_TEST

/* A setting is restored unless it has been changed since. Files stand for settings. */
static const struct {
	const char *name, *memory, *now, *after;
} settings[] = {
	{ "as we set it", "ours FILE 1\nFILE=0\n", "1", "0" },
	{ "changed by others", "ours FILE 1\nFILE=0\n", "2", "2" },
	{ "written down by a version before", "FILE=0\n", "1", "0" },
	{ "set twice", "ours FILE 2\nours FILE 1\nFILE=0\n", "2", "0" },
};

static void write_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(text, file), 0);
	ck_assert_int_eq(fclose(file), 0);
}

static void write_memory(const char *path, const char *text, const char *file)
{
	char out[512] = "";
	size_t at = 0;

	while (*text) {
		bool here = strncmp(text, "FILE", 4) == 0;

		at += (size_t)snprintf(out + at, sizeof(out) - at, "%.*s", here ? 64 : 1,
				       here ? file : text);
		text += here ? 4 : 1;
	}
	write_text(path, out);
}

START_TEST(test_setting_restored)
{
	char dir[] = "/tmp/mk-test-sysctl-XXXXXX", memory[64], setting[64], seen[8] = "";
	FILE *file;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(memory, sizeof(memory), "%s/sysctls", dir);
	snprintf(setting, sizeof(setting), "%s/setting", dir);
	write_text(setting, settings[_i].now);
	write_memory(memory, settings[_i].memory, setting);
	ck_assert_int_ge(mk_sysctls_restore(dir, &err), 0);
	file = fopen(setting, "r");
	ck_assert_ptr_nonnull(file);
	ck_assert_ptr_nonnull(fgets(seen, sizeof(seen), file));
	fclose(file);
	ck_assert_msg(strcmp(seen, settings[_i].after) == 0, "%s: %s", settings[_i].name, seen);
	ck_assert_int_ne(access(memory, F_OK), 0);
	ck_assert_int_eq(unlink(setting), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

/* ---- record ---------------------------------------------------------------------------------- */

START_TEST(test_record)
{
	struct mk_config config = {
		.vxlan_iface_name = "vx7",
		.veth_prefix = "zz",
		.bpf_dir = "/sys/fs/bpf/other",
		.cluster = { { cidr_of("10.244.0.0/16"), cidr_of("fd00:10:244::/48") }, AF_INET6 },
		.vteps = { { cidr_of("10.18.0.0/16"), cidr_of("fd4d:4b00:12::/64") }, AF_INET6 },
		.cni_conf_path = "/x/10.conflist",
		.cni_bin_dir = "/x/bin"
	};
	char command[160];
	struct mk_record record;

	strcpy(config.state_dir, "/tmp/mk-test-record-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(config.state_dir));
	ck_ok(mk_record_read(config.state_dir, &record, &err));
	ck_assert_str_eq(record.vxlan_name, "mkvxlan");
	ck_ok(mk_record_write(&config, "cluster directory /x", &err));
	ck_ok(mk_record_read(config.state_dir, &record, &err));
	ck_assert_str_eq(record.vxlan_name, "vx7");
	ck_assert_str_eq(record.veth_prefix, "zz");
	ck_assert_str_eq(record.bpf_dir, "/sys/fs/bpf/other");
	ck_assert_str_eq(record.cni_conf_path, "/x/10.conflist");
	ck_assert_str_eq(record.cni_bin_dir, "/x/bin");
	ck_assert_str_eq(record.source, "cluster directory /x");
	ck_assert_str_eq(record.cluster_cidr, "fd00:10:244::/48");
	ck_assert_str_eq(record.vtep_cidr, "fd4d:4b00:12::/64");
	ck_assert_str_eq(record.second_cluster_cidr, "10.244.0.0/16");
	ck_assert_str_eq(record.second_vtep_cidr, "10.18.0.0/16");
	snprintf(command, sizeof(command), "rm -rf %s", config.state_dir);
	ck_assert_int_eq(system(command), 0);
}
END_TEST

/* ---- in a network namespace ------------------------------------------------------------------ */

static struct mk_nl *nl;
static struct mk_overlay *overlay;
static struct mk_device_wanted wanted;
static struct mk_devices devices;
static unsigned int changes;
static sa_family_t family; /* the node's only family, or the primary one */
static struct mk_addresses *own; /* of that family */

struct setting {
	const char *underlay, *cluster, *vtep, *pods;
	uint32_t mtu_bytes;
};
static const struct setting v4_by_v4 = { "192.0.2.1/24", "10.244.0.0/16", "10.18.0.0/16",
					 "10.244.1.0/24", 1450 };
static const struct setting v6_by_v4 = { "192.0.2.1/24", "fd00:10:244::/48", "fd4d:4b00:12::/64",
					 "fd00:10:244:1::/64", 1450 };
static const struct setting v6_by_v6 = { "2001:db8::1/64", "fd00:10:244::/48", "fd4d:4b00:12::/64",
					 "fd00:10:244:1::/64", 1430 };

/* An uplink "up0" that is a veth, as in a lab. */
static void netns_setup_of(const struct setting *setting)
{
	const struct mk_veth uplink = { .name = "up0",
					.mac = { { 2, 0, 0, 0, 0, 1 } },
					.peer_name = "far0",
					.peer_mac = { { 2, 0, 0, 0, 0, 2 } },
					.peer_netns_fd = -1,
					.mtu_bytes = 1500 };
	const struct mk_link_change up = { .set_flags = 1 /* IFF_UP */ };
	struct mk_nl_addr address = { .cidr = cidr_of(setting->underlay), .flags = IFA_F_NODAD };
	struct mk_link link;

	ck_assert_msg(unshare(CLONE_NEWNET) == 0, "needs root: %s", strerror(errno));
	nl = mk_nl_open(&err);
	ck_assert_msg(nl != NULL, "%s", mk_error_text(&err));
	ck_ok(mk_nl_veth_add(nl, &uplink, &err));
	ck_ok(mk_nl_link_get(nl, "up0", &link, &err));
	ck_ok(mk_nl_link_change(nl, link.ifindex, &up, &err));
	address.ifindex = link.ifindex;
	ck_ok(mk_nl_addr_add(nl, &address, &err));
	wanted = (struct mk_device_wanted){
		.vxlan_name = "mkvxlan",
		.vxlan_port = 4789,
		.underlay = address.cidr.ip,
		.uplink_ifindex = link.ifindex,
		.mtu_bytes = setting->mtu_bytes,
	};
	struct mk_cidr cluster = cidr_of(setting->cluster), vtep = cidr_of(setting->vtep),
		       pods = cidr_of(setting->pods);

	family = cluster.ip.family;
	own = &wanted.addresses[mk_family_index(family)];
	ck_ok(mk_addresses_compute(&cluster, &vtep, &pods, own, &err));
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &devices, &err), 2);
	overlay = mk_overlay_new(nl, &err);
	mk_overlay_set_node(overlay, &devices, own);
	model_setup();
}

static void netns_setup(void)
{
	netns_setup_of(&v4_by_v4);
}

static void netns_setup_v6_by_v4(void)
{
	netns_setup_of(&v6_by_v4);
}

static void netns_setup_v6_by_v6(void)
{
	netns_setup_of(&v6_by_v6);
}

static void netns_teardown(void)
{
	model_teardown();
	mk_overlay_free(overlay);
	mk_nl_free(nl);
}

static void sync_plan(bool complete)
{
	struct mk_overlay_view view = view_of("10.244.1.0/24", NULL, AF_INET);
	struct mk_overlay_plan plan;

	ck_ok(mk_overlay_plan_make(model, &view, &plan, &err));
	ck_ok(mk_overlay_set_peers(overlay, family, &plan, &err));
	mk_overlay_plan_release(&plan);
	changes = 0;
	ck_ok(mk_overlay_sync(overlay, complete, &changes, &err));
}

struct seen {
	unsigned int routes, neighbours, fdb;
	const char *dst, *remote;
	bool has_dst, has_remote;
};

static int see_route(void *ctx, const struct mk_nl_route *route)
{
	struct seen *seen = ctx;
	char text[MK_CIDR_STRLEN];

	if (route->protocol != MK_RTPROT)
		return 0;
	seen->routes++;
	if (seen->dst && strcmp(mk_cidr_format(&route->dst, text), seen->dst) == 0)
		seen->has_dst = true;
	return 0;
}

static int see_neigh(void *ctx, const struct mk_ip *ip, const struct mk_mac *mac, bool permanent)
{
	(void)ip;
	(void)mac;
	((struct seen *)ctx)->neighbours += permanent;
	return 0;
}

static int see_fdb(void *ctx, const struct mk_mac *mac, const struct mk_ip *remote)
{
	struct seen *seen = ctx;
	char text[MK_IP_STRLEN];

	(void)mac;
	seen->fdb++;
	if (seen->remote && strcmp(mk_ip_format(remote, text), seen->remote) == 0)
		seen->has_remote = true;
	return 0;
}

static struct seen look(const char *dst, const char *remote)
{
	struct seen seen = { .dst = dst, .remote = remote };

	ck_ok(mk_nl_each_route(nl, family, see_route, &seen, &err));
	ck_ok(mk_nl_each_neigh(nl, family, devices.overlay_ifindex, see_neigh, &seen, &err));
	ck_ok(mk_nl_each_fdb(nl, devices.overlay_ifindex, see_fdb, &seen, &err));
	return seen;
}

START_TEST(test_devices_are_kept)
{
	struct mk_devices again = { 0 };

	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &again, &err), 0);
	ck_assert_mem_eq(&again, &devices, sizeof(again));
	wanted.mtu_bytes = 1400; /* changeable */
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &again, &err), 2);
	ck_assert_mem_eq(&again, &devices, sizeof(again));
	wanted.vxlan_port = 8472; /* not changeable */
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &again, &err), 1);
	ck_assert_int_ne(again.overlay_ifindex, devices.overlay_ifindex);
	ck_assert_int_eq(again.host_ifindex, devices.host_ifindex);
}
END_TEST

START_TEST(test_foreign_device_is_refused)
{
	struct mk_device_wanted other = wanted;

	other.vxlan_name = "far0";
	ck_assert_int_eq(mk_devices_ensure(nl, &other, &devices, &err), -EEXIST);
	ck_assert_msg(strstr(err.text, "far0") && strstr(err.text, "vxlanIfaceName"), "%s",
		      err.text);
}
END_TEST

START_TEST(test_peers)
{
	struct seen seen;

	node("b", "10.244.2.0/24", "192.0.2.2", true);
	node("c", "10.244.3.0/24", "192.0.2.3", true);
	sync_plan(true);
	seen = look("10.244.3.0/24", "192.0.2.3");
	ck_assert_uint_eq(seen.routes, 3);
	ck_assert_uint_eq(seen.neighbours, 2);
	ck_assert_uint_eq(seen.fdb, 2);
	ck_assert(seen.has_dst && seen.has_remote);
	sync_plan(true);
	ck_assert_uint_eq(changes, 0);
	mk_overlay_refresh(overlay);
	sync_plan(true);
	ck_assert_uint_eq(changes, 0);
	/* another address, another pod CIDR */
	node("c", "10.244.4.0/24", "192.0.2.33", true);
	sync_plan(true);
	seen = look("10.244.4.0/24", "192.0.2.33");
	ck_assert_uint_eq(seen.routes, 3);
	ck_assert_uint_eq(seen.neighbours, 2);
	ck_assert_uint_eq(seen.fdb, 2);
	ck_assert(seen.has_dst && seen.has_remote);
}
END_TEST

START_TEST(test_address_alone_changes)
{
	struct seen seen;

	node("b", "10.244.2.0/24", "192.0.2.2", true);
	sync_plan(true);
	node("b", "10.244.2.0/24", "192.0.2.22", true);
	sync_plan(true);
	seen = look(NULL, "192.0.2.22");
	ck_assert_uint_eq(seen.fdb, 1);
	ck_assert(seen.has_remote);
}
END_TEST

START_TEST(test_nothing_goes_before_all_is_listed)
{
	const struct mk_ip vip = ip_of("10.96.0.1");

	node("b", "10.244.2.0/24", "192.0.2.2", true);
	ck_ok(mk_overlay_vip_get(overlay, &vip, &err));
	sync_plan(true);
	ck_assert_uint_eq(look(NULL, NULL).routes, 3);
	/* a new agent without any information yet */
	mk_overlay_free(overlay);
	overlay = mk_overlay_new(nl, &err);
	mk_overlay_set_node(overlay, &devices, own);
	mk_model_delete(model, MK_KIND_NODE, "", "b");
	sync_plan(false);
	ck_assert_uint_eq(changes, 0);
	ck_assert_uint_eq(look(NULL, NULL).routes, 3);
	ck_assert_uint_eq(look(NULL, NULL).fdb, 1);
	sync_plan(true);
	ck_assert_uint_eq(look(NULL, NULL).routes, 1);
	ck_assert_uint_eq(look(NULL, NULL).fdb, 0);
	ck_assert_uint_eq(look(NULL, NULL).neighbours, 0);
}
END_TEST

/* Two Services with one address: the route is removed with the last one. */
START_TEST(test_vip)
{
	const struct mk_ip vip = ip_of("10.96.0.1");

	ck_ok(mk_overlay_vip_get(overlay, &vip, &err));
	ck_ok(mk_overlay_vip_get(overlay, &vip, &err));
	sync_plan(true);
	ck_assert(look("10.96.0.1/32", NULL).has_dst);
	mk_overlay_vip_put(overlay, &vip);
	sync_plan(true);
	ck_assert(look("10.96.0.1/32", NULL).has_dst);
	mk_overlay_vip_put(overlay, &vip);
	sync_plan(true);
	ck_assert(!look("10.96.0.1/32", NULL).has_dst);
}
END_TEST

static void keep_first(void *ctx, const struct mk_ip *vip)
{
	unsigned int *told = ctx;

	if (++*told == 1)
		ck_ok(mk_overlay_vip_get(overlay, vip, &err));
}

/* A new agent reports once the Service addresses whose routes it finds. */
START_TEST(test_left_vip)
{
	const struct mk_ip one = ip_of("10.96.0.1"), other = ip_of("10.96.0.2");
	const struct mk_ip *kept = &one;
	unsigned int told = 0;

	ck_ok(mk_overlay_vip_get(overlay, &one, &err));
	ck_ok(mk_overlay_vip_get(overlay, &other, &err));
	sync_plan(true);
	mk_overlay_free(overlay);
	overlay = mk_overlay_new(nl, &err);
	mk_overlay_on_left_vip(overlay, keep_first, &told);
	mk_overlay_set_node(overlay, &devices, own);
	sync_plan(false);
	ck_assert_uint_eq(told, 0);
	sync_plan(true);
	ck_assert_uint_eq(told, 2);
	ck_assert_uint_eq(changes, 1);
	if (!look("10.96.0.1/32", NULL).has_dst)
		kept = &other;
	ck_assert(look("10.96.0.1/32", NULL).has_dst != look("10.96.0.2/32", NULL).has_dst);
	mk_overlay_vip_put(overlay, kept);
	sync_plan(true);
	ck_assert_uint_eq(told, 2);
	ck_assert(!look("10.96.0.1/32", NULL).has_dst && !look("10.96.0.2/32", NULL).has_dst);
}
END_TEST

static void set_ranges(const char *const *texts)
{
	struct mk_cidr ranges[4];
	size_t count = 0;

	for (; *texts; texts++)
		ranges[count++] = cidr_of(*texts);
	ck_ok(mk_overlay_set_service_ranges(overlay, family, ranges, count, &err));
}

static void sync_alone(bool complete)
{
	changes = 0;
	ck_ok(mk_overlay_sync(overlay, complete, &changes, &err));
}

/* A range has one route. Addresses outside keep their routes; those inside get theirs back when the
 * range is removed. */
START_TEST(test_service_range)
{
	const struct mk_ip inside = ip_of("10.96.0.1"), outside = ip_of("203.0.113.7");
	const char *const one[] = { "10.96.0.0/16", NULL }, *const none[] = { NULL };
	const char *const other[] = { "10.96.0.0/12", NULL };

	ck_ok(mk_overlay_vip_get(overlay, &inside, &err));
	ck_ok(mk_overlay_vip_get(overlay, &outside, &err));
	sync_plan(true);
	ck_assert(look("10.96.0.1/32", NULL).has_dst);
	set_ranges(one);
	sync_alone(true);
	ck_assert_uint_eq(changes, 2);
	ck_assert(look("10.96.0.0/16", NULL).has_dst);
	ck_assert(!look("10.96.0.1/32", NULL).has_dst);
	ck_assert(look("203.0.113.7/32", NULL).has_dst);
	mk_overlay_refresh(overlay);
	sync_alone(true);
	ck_assert_uint_eq(changes, 0);
	set_ranges(other);
	sync_alone(true);
	ck_assert_uint_eq(changes, 2);
	ck_assert(look("10.96.0.0/12", NULL).has_dst);
	set_ranges(none);
	sync_alone(true);
	ck_assert_uint_eq(changes, 2);
	ck_assert(look("10.96.0.1/32", NULL).has_dst);
	ck_assert_uint_eq(look(NULL, NULL).routes, 3);
}
END_TEST

/* A changed Service costs only the requests for its own routes; the kernel's routes are
 * not read again. */
START_TEST(test_address_in_a_range)
{
	const struct mk_ip inside = ip_of("10.96.0.1"), outside = ip_of("203.0.113.7");
	const char *const one[] = { "10.96.0.0/16", NULL };

	set_ranges(one);
	sync_plan(true);
	ck_ok(mk_overlay_vip_get(overlay, &inside, &err));
	sync_alone(true);
	ck_assert_uint_eq(changes, 0);
	ck_ok(mk_overlay_vip_get(overlay, &outside, &err));
	sync_alone(true);
	ck_assert_uint_eq(changes, 1);
	mk_overlay_vip_put(overlay, &inside);
	mk_overlay_vip_put(overlay, &outside);
	sync_alone(true);
	ck_assert_uint_eq(changes, 1);
	ck_assert_uint_eq(look(NULL, NULL).routes, 2);
}
END_TEST

/* A range still unknown to a new agent stays until everything is listed. */
START_TEST(test_range_is_kept_until_all_is_listed)
{
	const char *const one[] = { "10.96.0.0/16", NULL };

	set_ranges(one);
	sync_plan(true);
	mk_overlay_free(overlay);
	overlay = mk_overlay_new(nl, &err);
	mk_overlay_set_node(overlay, &devices, own);
	sync_plan(false);
	ck_assert_uint_eq(changes, 0);
	sync_plan(true);
	ck_assert_uint_eq(changes, 1);
	ck_assert(!look("10.96.0.0/16", NULL).has_dst);
}
END_TEST

START_TEST(test_remove)
{
	struct mk_link link;
	unsigned int removed = 0;

	node("b", "10.244.2.0/24", "192.0.2.2", true);
	sync_plan(true);
	ck_ok(mk_overlay_remove(nl, "mkvxlan", &removed, &err));
	ck_assert_uint_ge(removed, 3);
	ck_assert_int_eq(mk_nl_link_get(nl, "mkvxlan", &link, &err), -ENODEV);
	ck_assert_int_eq(mk_nl_link_get(nl, MK_HOST_VETH, &link, &err), -ENODEV);
	removed = 0;
	ck_ok(mk_overlay_remove(nl, "mkvxlan", &removed, &err));
	ck_assert_uint_eq(removed, 0);
}
END_TEST

/* ---- IPv6 ------------------------------------------------------------------------------------ */

static const struct {
	const char *name;
	struct mk_overlay_path path;
	uint32_t mtu_bytes; /* 0: refused */
	const char *number; /* in the message */
} mtus[] = {
	{ "IPv4 by IPv4", { "up0", 1500, 0, AF_INET, false }, 1450, NULL },
	{ "IPv4 by IPv6", { "up0", 1500, 0, AF_INET6, false }, 1430, NULL },
	{ "IPv6 by IPv4", { "up0", 1500, 0, AF_INET, true }, 1450, NULL },
	{ "IPv6 by IPv6", { "up0", 1500, 0, AF_INET6, true }, 1430, NULL },
	{ "IPv4 with a small uplink", { "up0", 600, 0, AF_INET, false }, 550, NULL },
	{ "the smallest by IPv4", { "up0", 1330, 0, AF_INET, true }, 1280, NULL },
	{ "one byte less", { "up0", 1329, 0, AF_INET, true }, 0, "1330" },
	{ "the smallest by IPv6", { "up0", 1350, 0, AF_INET6, true }, 1280, NULL },
	{ "one byte less by IPv6", { "up0", 1349, 0, AF_INET6, true }, 0, "1350" },
	{ "configured", { "up0", 1500, 1280, AF_INET6, true }, 1280, NULL },
	{ "configured too small", { "up0", 1500, 1279, AF_INET6, true }, 0, "1280" },
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

static int setting_of(const char *device, const char *name)
{
	char path[128], text[16] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/%s", device, name);
	file = fopen(path, "r");
	ck_assert_msg(file && fgets(text, sizeof(text), file), "%s", path);
	fclose(file);
	return atoi(text);
}

struct own_address {
	int ifindex, count;
	struct mk_nl_addr addr;
};

static int see_own(void *ctx, const struct mk_nl_addr *addr)
{
	struct own_address *seen = ctx;

	if (addr->ifindex != seen->ifindex)
		return 0;
	seen->addr = *addr;
	seen->count++;
	return 0;
}

/* The device has IPv6, and the one address @ip, deprecated. */
static void check_device(const char *name, int ifindex, const struct mk_ip *ip)
{
	struct own_address seen = { .ifindex = ifindex };
	struct mk_link link;

	ck_ok(mk_nl_each_addr(nl, AF_INET6, see_own, &seen, &err));
	ck_assert_msg(seen.count == 1, "%s: %d", name, seen.count);
	ck_assert(mk_ip_equal(&seen.addr.cidr.ip, ip));
	ck_assert_uint_eq(seen.addr.cidr.prefix_bits, 128);
	ck_assert_uint_eq(seen.addr.flags, IFA_F_NODAD | IFA_F_DEPRECATED | IFA_F_PERMANENT);
	ck_ok(mk_nl_link_get_index(nl, ifindex, &link, &err));
	ck_assert(link.ipv6.no_link_local && !link.ipv6.disabled);
	ck_assert_int_eq(setting_of(name, "accept_ra"), 0);
	ck_assert_int_eq(setting_of(name, "accept_redirects"), 0);
}

static void check_devices(void)
{
	check_device(MK_HOST_VETH, devices.host_ifindex, &own->gateway);
	check_device("mkvxlan", devices.overlay_ifindex, &own->vtep);
}

START_TEST(test_devices_of_ipv6)
{
	struct mk_link link;

	check_devices();
	ck_ok(mk_nl_link_get(nl, "mkvxlan", &link, &err));
	ck_assert(mk_ip_equal(&link.vxlan_local, &wanted.underlay));
	ck_assert(!link.vxlan_zero_checksums);
	ck_assert_uint_eq(link.mtu_bytes, wanted.mtu_bytes);
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &devices, &err), 0);
}
END_TEST

static void change_link(int ifindex, struct mk_link_change change)
{
	ck_ok(mk_nl_link_change(nl, ifindex, &change, &err));
}

static void disable_ipv6(void)
{
	ck_ok(mk_sysctl_set("/proc/sys/net/ipv6/conf/mkvxlan/disable_ipv6", "1", &err));
}

static void lower_mtu(void)
{
	change_link(devices.overlay_ifindex, (struct mk_link_change){ .mtu_bytes = 1000 });
}

static void set_down_and_up(void)
{
	change_link(devices.overlay_ifindex, (struct mk_link_change){ .clear_flags = 1 });
	change_link(devices.overlay_ifindex, (struct mk_link_change){ .set_flags = 1 });
}

static void delete_address(void)
{
	const struct mk_cidr vtep = { wanted.addresses[1].vtep, 128 };

	ck_ok(mk_nl_addr_delete(nl, devices.overlay_ifindex, &vtep, &err));
}

static void add_another(void)
{
	const struct mk_nl_addr other = { devices.overlay_ifindex, cidr_of("fe80::1/64"), 0, 0, 0 };

	delete_address();
	ck_ok(mk_nl_addr_add(nl, &other, &err));
}

static void accept_advertisements(void)
{
	ck_ok(mk_sysctl_set("/proc/sys/net/ipv6/conf/mkvxlan/accept_ra", "1", &err));
}

static void (*const faults[])(void) = {
	disable_ipv6,	lower_mtu,   set_down_and_up,
	delete_address, add_another, accept_advertisements,
};

START_TEST(test_devices_of_ipv6_are_repaired)
{
	faults[_i]();
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &devices, &err), 1);
	check_devices();
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &devices, &err), 0);
}
END_TEST

/* Two peers, of the underlay's family. */
static void sync_peers(const char *const nets[2], bool complete)
{
	bool by_v6 = wanted.underlay.family == AF_INET6;
	struct mk_overlay_peer peers[2];
	struct mk_overlay_plan plan = { .peers = peers };

	for (size_t i = 0; i < 2 && nets[i]; i++) {
		struct mk_cidr cluster = cidr_of("fd00:10:244::/48"),
			       vtep = cidr_of("fd4d:4b00:12::/64"), pods = cidr_of(nets[i]);
		struct mk_addresses addresses;

		ck_ok(mk_addresses_compute(&cluster, &vtep, &pods, &addresses, &err));
		peers[plan.peer_count++] = (struct mk_overlay_peer){
			.node = (char *)nets[i],
			.pod_cidr = pods,
			.vtep = addresses.vtep,
			.vtep_mac = addresses.vtep_mac,
			.underlay = ip_of(by_v6 ? (i ? "2001:db8::3" : "2001:db8::2")
						: (i ? "192.0.2.3" : "192.0.2.2")),
		};
	}
	ck_ok(mk_overlay_set_peers(overlay, family, &plan, &err));
	changes = 0;
	ck_ok(mk_overlay_sync(overlay, complete, &changes, &err));
}

START_TEST(test_peers_of_ipv6)
{
	const char *const both[2] = { "fd00:10:244:2::/64", "fd00:10:244:3::/64" };
	const char *const one[2] = { "fd00:10:244:2::/64", NULL };
	const char *remote = wanted.underlay.family == AF_INET6 ? "2001:db8::3" : "192.0.2.3";
	struct seen seen;

	sync_peers(both, true);
	seen = look("fd00:10:244:3::/64", remote);
	ck_assert_uint_eq(seen.routes, 3);
	ck_assert_uint_eq(seen.neighbours, 2);
	ck_assert_uint_eq(seen.fdb, 2);
	ck_assert(seen.has_dst && seen.has_remote);
	mk_overlay_refresh(overlay);
	sync_peers(both, true);
	ck_assert_uint_eq(changes, 0);
	sync_peers(one, true);
	seen = look("fd00:10:244:2::/64", NULL);
	ck_assert_uint_eq(seen.routes, 2);
	ck_assert_uint_eq(seen.neighbours, 1);
	ck_assert_uint_eq(seen.fdb, 1);
	ck_assert(seen.has_dst);
}
END_TEST

/* IPv6 loses more than IPv4 if a device goes down: its addresses go, too. */
START_TEST(test_routes_of_ipv6_are_repaired)
{
	const char *const both[2] = { "fd00:10:244:2::/64", "fd00:10:244:3::/64" };

	sync_peers(both, true);
	faults[_i]();
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &devices, &err), 1);
	mk_overlay_refresh(overlay);
	sync_peers(both, true);
	ck_assert_uint_eq(look(NULL, NULL).routes, 3);
	ck_assert_uint_eq(look(NULL, NULL).neighbours, 2);
	ck_assert_uint_eq(look(NULL, NULL).fdb, 2);
	mk_overlay_refresh(overlay);
	sync_peers(both, true);
	ck_assert_uint_eq(changes, 0);
}
END_TEST

START_TEST(test_services_of_ipv6)
{
	const struct mk_ip inside = ip_of("fd00:10:96::1"), outside = ip_of("2001:db8:7::7");
	const char *const range[] = { "fd00:10:96::/112", NULL }, *const none[2] = { NULL };

	set_ranges(range);
	ck_ok(mk_overlay_vip_get(overlay, &inside, &err));
	ck_ok(mk_overlay_vip_get(overlay, &outside, &err));
	sync_peers(none, true);
	ck_assert(look("fd00:10:96::/112", NULL).has_dst);
	ck_assert(look("2001:db8:7::7/128", NULL).has_dst);
	ck_assert_uint_eq(look(NULL, NULL).routes, 3);
	mk_overlay_refresh(overlay);
	sync_alone(true);
	ck_assert_uint_eq(changes, 0);
}
END_TEST

/* The host's own packets have the VTEP address only where a route names it. */
START_TEST(test_source_of_the_host)
{
	struct mk_cidr uplink = cidr_of(v6_by_v6.underlay);
	struct mk_nl_route found,
		to_world = { .dst = cidr_of("2001:db8:9::/64"), .ifindex = wanted.uplink_ifindex };
	const struct mk_ip world = ip_of("2001:db8:9::9"), pod = ip_of("fd00:10:244:2::5");
	const char *const one[2] = { "fd00:10:244:2::/64", NULL };

	sync_peers(one, true);
	ck_ok(mk_nl_route_put(nl, &to_world, &err));
	ck_ok(mk_nl_route_to(nl, &world, &found, &err));
	ck_assert(mk_ip_equal(&found.source, &uplink.ip));
	ck_ok(mk_nl_route_to(nl, &pod, &found, &err));
	ck_assert(mk_ip_equal(&found.source, &own->vtep));
}
END_TEST

struct outer {
	struct ethhdr eth;
	struct ip6_hdr ip;
	struct udphdr udp;
	uint8_t vxlan[8];
	struct ethhdr inner_eth;
	struct ip6_hdr inner_ip;
	char rest[1000];
} __attribute__((packed));

/* Send to @pod until a packet of the overlay is at the uplink's other end, @tap. The uplink may
 * need a moment until it sends. */
static void take_outer(int tap, const struct mk_ip *pod, struct outer *outer)
{
	const struct sockaddr_in6 to = { .sin6_family = AF_INET6,
					 .sin6_port = htons(9),
					 .sin6_addr = pod->v6 };
	cleanup_close int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct pollfd ready = { .fd = tap, .events = POLLIN };

	for (int i = 0; i < 500; i++) {
		ck_assert_int_eq(sendto(fd, "x", 1, 0, (const struct sockaddr *)&to, sizeof(to)),
				 1);
		while (poll(&ready, 1, 20) == 1 && recv(tap, outer, sizeof(*outer), 0) > 0)
			if (outer->ip.ip6_nxt == IPPROTO_UDP && outer->udp.dest == htons(4789))
				return;
	}
	ck_abort_msg("no packet");
}

/* Over IPv6, the outer UDP header has a checksum: receivers drop packets without one. */
START_TEST(test_outer_packet)
{
	const char *const one[2] = { "fd00:10:244:2::/64", NULL };
	const struct mk_ip next = ip_of("2001:db8::2"), pod = ip_of("fd00:10:244:2::5");
	const struct mk_mac far = mac_of("02:00:00:00:00:02");
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IPV6) };
	cleanup_close int tap = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	struct outer outer;
	struct mk_link link;

	ck_ok(mk_nl_link_get(nl, "far0", &link, &err));
	change_link(link.ifindex, (struct mk_link_change){ .set_flags = 1 });
	ck_ok(mk_nl_neigh_put(nl, wanted.uplink_ifindex, &next, &far, &err));
	at.sll_ifindex = link.ifindex;
	ck_assert_int_eq(bind(tap, (struct sockaddr *)&at, sizeof(at)), 0);
	sync_peers(one, true);
	take_outer(tap, &pod, &outer);
	ck_assert_mem_eq(&outer.ip.ip6_src, &wanted.underlay.v6, 16);
	ck_assert_mem_eq(&outer.ip.ip6_dst, &next.v6, 16);
	ck_assert_uint_ne(outer.udp.check, 0);
	ck_assert_mem_eq(&outer.inner_ip.ip6_src, &own->vtep.v6, 16);
	ck_assert_mem_eq(&outer.inner_ip.ip6_dst, &pod.v6, 16);
}
END_TEST

/* A change of underlayFamily: the VXLAN device is another one, with the peers' other addresses. */
START_TEST(test_other_underlay)
{
	const char *const one[2] = { "fd00:10:244:2::/64", NULL };
	int before = devices.overlay_ifindex;
	struct mk_link link;

	sync_peers(one, true);
	wanted.underlay = ip_of("2001:db8::1");
	wanted.mtu_bytes = 1430;
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &devices, &err), 2);
	ck_assert_int_ne(devices.overlay_ifindex, before);
	ck_ok(mk_nl_link_get(nl, "mkvxlan", &link, &err));
	ck_assert_uint_eq(link.mtu_bytes, 1430);
	check_devices();
	mk_overlay_set_node(overlay, &devices, own);
	mk_overlay_refresh(overlay);
	sync_peers(one, true);
	ck_assert(look(NULL, "2001:db8::2").has_remote);
	ck_assert_uint_eq(look(NULL, NULL).fdb, 1);
	ck_assert_uint_eq(look(NULL, NULL).routes, 2);
}
END_TEST

START_TEST(test_remove_of_ipv6)
{
	const char *const one[2] = { "fd00:10:244:2::/64", NULL };
	unsigned int removed = 0;

	sync_peers(one, true);
	ck_ok(mk_overlay_remove(nl, "mkvxlan", &removed, &err));
	ck_assert_uint_eq(removed, 4);
	ck_assert_uint_eq(look(NULL, NULL).routes, 0);
}
END_TEST

/* ---- two families ---------------------------------------------------------------------------- */

static void add_family(const char *vtep, const char *cluster, const char *pods)
{
	struct mk_cidr vteps_of = cidr_of(vtep), cluster_of = cidr_of(cluster),
		       pods_of = cidr_of(pods);
	struct mk_addresses *added = &wanted.addresses[mk_family_index(cluster_of.ip.family)];

	ck_ok(mk_addresses_compute(&cluster_of, &vteps_of, &pods_of, added, &err));
	added->gateway_mac = own->gateway_mac;
	added->vtep_mac = own->vtep_mac;
	/* that a family comes is no repair */
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &devices, &err), 0);
	mk_overlay_set_node(overlay, &devices, added);
}

/* The other family of a node with @family. */
static void add_other(void)
{
	if (family == AF_INET)
		add_family("fd4d:4b00:12::/64", "fd00:10:244::/48", "fd00:10:244:1::/64");
	else
		add_family("10.18.0.0/16", "10.244.0.0/16", "10.244.1.0/24");
}

static void plan_family(sa_family_t of)
{
	struct mk_overlay_view view = view_of("10.244.1.0/24", "fd00:10:244:1::/64", of);
	struct mk_overlay_plan plan;

	view.primary = family;
	view.underlay_family = wanted.underlay.family;
	ck_ok(mk_overlay_plan_make(model, &view, &plan, &err));
	ck_ok(mk_overlay_set_peers(overlay, of, &plan, &err));
	mk_overlay_plan_release(&plan);
}

static struct seen look_at(sa_family_t of)
{
	struct seen seen = { 0 };

	ck_ok(mk_nl_each_route(nl, of, see_route, &seen, &err));
	ck_ok(mk_nl_each_neigh(nl, of, devices.overlay_ifindex, see_neigh, &seen, &err));
	ck_ok(mk_nl_each_fdb(nl, devices.overlay_ifindex, see_fdb, &seen, &err));
	return seen;
}

static void check_seen(sa_family_t of, unsigned int routes, unsigned int neighbours,
		       unsigned int fdb)
{
	struct seen seen = look_at(of);

	ck_assert_msg(seen.routes == routes && seen.neighbours == neighbours && seen.fdb == fdb,
		      "%s: %u routes, %u neighbours, %u FDB entries", mk_family_name(of),
		      seen.routes, seen.neighbours, seen.fdb);
}

static void sync_both(bool complete)
{
	plan_family(AF_INET);
	plan_family(AF_INET6);
	sync_alone(complete);
}

static void two_setup_of(const struct setting *setting)
{
	netns_setup_of(setting);
	add_other();
	dual_node("b", "10.244.2.0/24", "fd00:10:244:2::/64", "192.0.2.2", "2001:db8::2");
	dual_node("c", "10.244.3.0/24", "fd00:10:244:3::/64", "192.0.2.3", "2001:db8::3");
}

static void two_setup_v4_first(void)
{
	two_setup_of(&v4_by_v4);
}

static void two_setup_v6_first(void)
{
	two_setup_of(&v6_by_v4);
}

static void two_setup_by_v6(void)
{
	two_setup_of(&v6_by_v6);
}

static int address_count(sa_family_t of, int ifindex)
{
	struct own_address seen = { .ifindex = ifindex };

	ck_ok(mk_nl_each_addr(nl, of, see_own, &seen, &err));
	return seen.count;
}

static void check_devices_of_both(void)
{
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &devices, &err), 0);
	check_device(MK_HOST_VETH, devices.host_ifindex, &wanted.addresses[1].gateway);
	check_device("mkvxlan", devices.overlay_ifindex, &wanted.addresses[1].vtep);
	ck_assert_int_eq(address_count(AF_INET, devices.host_ifindex), 1);
	ck_assert_int_eq(address_count(AF_INET, devices.overlay_ifindex), 1);
}

START_TEST(test_devices_of_both)
{
	check_devices_of_both();
}
END_TEST

/* A family goes, with its settings, and comes again: no fault is logged or counted. */
START_TEST(test_devices_lose_a_family)
{
	struct mk_addresses addresses = wanted.addresses[1];

	wanted.addresses[1] = (struct mk_addresses){ 0 };
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &devices, &err), 0);
	ck_assert_uint_eq(devices.families, 1);
	disable_ipv6();
	ck_assert_int_eq(address_count(AF_INET6, devices.overlay_ifindex), 0);
	wanted.addresses[1] = addresses;
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &devices, &err), 0);
	ck_assert_uint_eq(devices.families, 3);
	check_devices_of_both();
}
END_TEST

/* A peer has a route and a neighbour entry in each family, and one FDB entry. */
START_TEST(test_peers_of_both)
{
	sync_both(true);
	ck_assert_uint_eq(changes, 2 * 3 + 2 * 2 + 2);
	check_seen(AF_INET, 3, 2, 2);
	check_seen(AF_INET6, 3, 2, 2);
	mk_overlay_refresh(overlay);
	sync_both(true);
	ck_assert_uint_eq(changes, 0);
	/* another address */
	dual_node("c", "10.244.3.0/24", "fd00:10:244:3::/64", "192.0.2.33", "2001:db8::33");
	sync_both(true);
	check_seen(AF_INET, 3, 2, 2);
	mk_model_delete(model, MK_KIND_NODE, "", "c");
	sync_both(true);
	check_seen(AF_INET, 2, 1, 1);
	check_seen(AF_INET6, 2, 1, 1);
}
END_TEST

/* A node that loses a family keeps its FDB entry for the other one. */
START_TEST(test_peer_of_one)
{
	sync_both(true);
	dual_node("c", family == AF_INET ? "10.244.3.0/24" : NULL,
		  family == AF_INET ? NULL : "fd00:10:244:3::/64", "192.0.2.3", "2001:db8::3");
	sync_both(true);
	check_seen(family, 3, 2, 2);
	check_seen(family == AF_INET ? AF_INET6 : AF_INET, 2, 1, 2);
}
END_TEST

/* Calls for one family leave the other as it is. */
START_TEST(test_family_alone)
{
	const struct mk_overlay_plan none = { 0 };
	const struct mk_cidr range4 = cidr_of("10.96.0.0/16"), range6 = cidr_of("fd00:10:96::/112");

	ck_ok(mk_overlay_set_service_ranges(overlay, AF_INET, &range4, 1, &err));
	ck_ok(mk_overlay_set_service_ranges(overlay, AF_INET6, &range6, 1, &err));
	sync_both(true);
	check_seen(AF_INET, 4, 2, 2);
	check_seen(AF_INET6, 4, 2, 2);
	ck_ok(mk_overlay_set_service_ranges(overlay, AF_INET6, NULL, 0, &err));
	ck_ok(mk_overlay_set_peers(overlay, AF_INET6, &none, &err));
	sync_alone(true);
	check_seen(AF_INET, 4, 2, 2);
	check_seen(AF_INET6, 1, 0, 2);
	mk_overlay_refresh(overlay);
	sync_alone(true);
	ck_assert_uint_eq(changes, 0);
}
END_TEST

static void new_overlay(void)
{
	mk_overlay_free(overlay);
	overlay = mk_overlay_new(nl, &err);
}

/* An absent family is neither read nor written. */
START_TEST(test_absent_family)
{
	const struct mk_ip vip = ip_of(family == AF_INET ? "fd00:10:96::1" : "10.96.0.1");
	sa_family_t other = family == AF_INET ? AF_INET6 : AF_INET;
	unsigned int told = 0;

	ck_ok(mk_overlay_vip_get(overlay, &vip, &err));
	sync_both(true);
	check_seen(other, 4, 2, 2);
	new_overlay();
	mk_overlay_on_left_vip(overlay, keep_first, &told);
	mk_overlay_set_node(overlay, &devices, own);
	plan_family(family);
	sync_alone(true);
	ck_assert_uint_eq(changes, 0);
	ck_assert_uint_eq(told, 0);
	check_seen(other, 4, 2, 2);
	/* it comes later: its Service addresses are offered then, the others not again */
	mk_overlay_set_node(overlay, &devices, &wanted.addresses[mk_family_index(other)]);
	plan_family(other);
	sync_alone(true);
	ck_assert_uint_eq(changes, 0);
	ck_assert_uint_eq(told, 1);
	check_seen(other, 4, 2, 2);
}
END_TEST

/* @_i: an earlier agent made the entries. */
START_TEST(test_forgotten_family)
{
	const struct mk_ip vip = ip_of(family == AF_INET ? "fd00:10:96::1" : "10.96.0.1");
	const struct mk_cidr range =
		cidr_of(family == AF_INET ? "2001:db8:7::/112" : "10.7.0.0/16");
	sa_family_t other = family == AF_INET ? AF_INET6 : AF_INET;
	const struct mk_nl_route stray = { .dst = range,
					   .ifindex = devices.host_ifindex,
					   .protocol = MK_RTPROT };

	ck_ok(mk_overlay_set_service_ranges(overlay, other, &range, 1, &err));
	ck_ok(mk_overlay_vip_get(overlay, &vip, &err));
	sync_both(true);
	check_seen(other, 5, 2, 2);
	if (_i) {
		new_overlay();
		mk_overlay_set_node(overlay, &devices, own);
		plan_family(family);
	}
	mk_overlay_forget_family(overlay, other);
	sync_alone(false);
	check_seen(other, 5, 2, 2);
	sync_alone(true);
	ck_assert_uint_eq(changes, 5 + 2);
	check_seen(other, 0, 0, 2);
	check_seen(family, 3, 2, 2);
	/* called again, it does not ask the kernel: an entry of another agent stays */
	ck_ok(mk_nl_route_put(nl, &stray, &err));
	mk_overlay_forget_family(overlay, other);
	mk_overlay_refresh(overlay);
	sync_alone(true);
	ck_assert_uint_eq(changes, 0);
	check_seen(other, 1, 0, 2);
	/* and comes back */
	mk_overlay_set_node(overlay, &devices, &wanted.addresses[mk_family_index(other)]);
	plan_family(other);
	sync_alone(true);
	check_seen(other, _i ? 3 : 4, 2, 2);
}
END_TEST

/* Each missing entry is put back once, and counted once. */
START_TEST(test_repair_of_both)
{
	const struct mk_mac mac =
		family == AF_INET ? mac_of("02:4d:0a:12:00:02") : mac_of("02:4d:00:00:00:02");
	const struct mk_ip remote =
		ip_of(wanted.underlay.family == AF_INET6 ? "2001:db8::2" : "192.0.2.2");
	const struct mk_ip vtep4 = ip_of("10.18.0.2"), vtep6 = ip_of("fd4d:4b00:12::2");

	sync_both(true);
	ck_ok(mk_nl_fdb_delete(nl, devices.overlay_ifindex, &mac, &remote, &err));
	ck_ok(mk_nl_neigh_delete(nl, devices.overlay_ifindex, &vtep4, &err));
	ck_ok(mk_nl_neigh_delete(nl, devices.overlay_ifindex, &vtep6, &err));
	check_seen(AF_INET, 3, 1, 1);
	mk_overlay_refresh(overlay);
	sync_alone(true);
	ck_assert_uint_eq(changes, 3);
	ck_assert_uint_eq(mk_overlay_repairs(overlay)->neighbours, 3);
	check_seen(AF_INET, 3, 2, 2);
	check_seen(AF_INET6, 3, 2, 2);
}
END_TEST

START_TEST(test_both_are_repaired)
{
	sync_both(true);
	faults[_i]();
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &devices, &err), 1);
	check_devices_of_both();
	mk_overlay_refresh(overlay);
	sync_both(true);
	check_seen(AF_INET, 3, 2, 2);
	check_seen(AF_INET6, 3, 2, 2);
	mk_overlay_refresh(overlay);
	sync_both(true);
	ck_assert_uint_eq(changes, 0);
}
END_TEST

START_TEST(test_remove_of_both)
{
	unsigned int removed = 0;

	sync_both(true);
	ck_ok(mk_overlay_remove(nl, "mkvxlan", &removed, &err));
	ck_assert_uint_eq(removed, 2 * 3 + 2);
	ck_assert_uint_eq(look_at(AF_INET).routes + look_at(AF_INET6).routes, 0);
}
END_TEST

/* Only one family is removed; the devices stay. */
START_TEST(test_remove_of_one)
{
	sa_family_t other = family == AF_INET ? AF_INET6 : AF_INET;
	unsigned int removed = 0;

	sync_both(true);
	ck_ok(mk_overlay_remove_family(nl, "mkvxlan", other, &removed, &err));
	ck_assert_uint_eq(removed, 3 + 2 + 2); /* routes, addresses, neighbours */
	check_seen(other, 0, 0, 2);
	check_seen(family, 3, 2, 2);
	ck_assert_int_eq(address_count(other, devices.host_ifindex), 0);
	ck_assert_int_eq(address_count(other, devices.overlay_ifindex), 0);
	ck_assert_int_eq(address_count(family, devices.host_ifindex), 1);
	ck_assert_int_eq(address_count(family, devices.overlay_ifindex), 1);
	removed = 0;
	ck_ok(mk_overlay_remove_family(nl, "mkvxlan", other, &removed, &err));
	ck_assert_uint_eq(removed, 0);
}
END_TEST

static void add_tests_of_both(Suite *suite)
{
	TCase *const cases[] = {
		unit_case(suite, "IPv4 and IPv6", two_setup_v4_first, netns_teardown),
		unit_case(suite, "IPv6 and IPv4", two_setup_v6_first, netns_teardown),
		unit_case(suite, "IPv6 and IPv4 by IPv6", two_setup_by_v6, netns_teardown),
	};

	for (size_t i = 0; i < MK_ARRAY_SIZE(cases); i++) {
		tcase_add_test(cases[i], test_devices_of_both);
		tcase_add_test(cases[i], test_devices_lose_a_family);
		tcase_add_test(cases[i], test_peers_of_both);
		tcase_add_test(cases[i], test_peer_of_one);
		tcase_add_test(cases[i], test_family_alone);
		tcase_add_test(cases[i], test_absent_family);
		tcase_add_loop_test(cases[i], test_forgotten_family, 0, 2);
		tcase_add_test(cases[i], test_repair_of_both);
		tcase_add_loop_test(cases[i], test_both_are_repaired, 0, MK_ARRAY_SIZE(faults));
		tcase_add_test(cases[i], test_remove_of_both);
		tcase_add_test(cases[i], test_remove_of_one);
	}
}

static void add_tests_of_ipv6(TCase *tc)
{
	tcase_add_test(tc, test_devices_of_ipv6);
	tcase_add_loop_test(tc, test_devices_of_ipv6_are_repaired, 0, MK_ARRAY_SIZE(faults));
	tcase_add_test(tc, test_peers_of_ipv6);
	tcase_add_loop_test(tc, test_routes_of_ipv6_are_repaired, 0, MK_ARRAY_SIZE(faults));
	tcase_add_test(tc, test_services_of_ipv6);
	tcase_add_test(tc, test_remove_of_ipv6);
}

UNIT_SUITE("overlay")
{
	TCase *v6_v4 = unit_case(suite, "IPv6 by IPv4", netns_setup_v6_by_v4, netns_teardown),
	      *v6_v6 = unit_case(suite, "IPv6 by IPv6", netns_setup_v6_by_v6, netns_teardown);

	TCase *plan = unit_case(suite, "plan", model_setup, model_teardown),
	      *kernel = unit_case(suite, "kernel", netns_setup, netns_teardown);

	tcase_add_loop_test(plan, test_plan, 0, MK_ARRAY_SIZE(plans));
	tcase_add_loop_test(plan, test_plan_by_family, 0, 2);
	tcase_add_loop_test(plan, test_macs, 0, MK_ARRAY_SIZE(macs));
	tcase_add_loop_test(plan, test_reserved_ports, 0, MK_ARRAY_SIZE(ports));
	tcase_add_loop_test(plan, test_released_ports, 0, MK_ARRAY_SIZE(released));
	tcase_add_loop_test(plan, test_setting_restored, 0, MK_ARRAY_SIZE(settings));
	tcase_add_test(plan, test_record);
	tcase_add_test(kernel, test_devices_are_kept);
	tcase_add_test(kernel, test_foreign_device_is_refused);
	tcase_add_test(kernel, test_peers);
	tcase_add_test(kernel, test_address_alone_changes);
	tcase_add_test(kernel, test_nothing_goes_before_all_is_listed);
	tcase_add_test(kernel, test_vip);
	tcase_add_test(kernel, test_left_vip);
	tcase_add_test(kernel, test_service_range);
	tcase_add_test(kernel, test_address_in_a_range);
	tcase_add_test(kernel, test_range_is_kept_until_all_is_listed);
	tcase_add_test(kernel, test_remove);
	tcase_add_loop_test(plan, test_mtu, 0, MK_ARRAY_SIZE(mtus));
	add_tests_of_ipv6(v6_v4);
	add_tests_of_ipv6(v6_v6);
	tcase_add_test(v6_v6, test_source_of_the_host);
	tcase_add_test(v6_v6, test_outer_packet);
	tcase_add_test(v6_v4, test_other_underlay);
	add_tests_of_both(suite);
}

// SPDX-License-Identifier: Apache-2.0
/* Programs at their hooks: pods, uplinks and other devices that change, and repairs. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/pods/pod_table.h"
#include "unit/datapath_fixture.h"
#include "rows.h"

/* An entry that lacks the pod's namespace is completed. */
START_TEST(test_entry_is_completed)
{
	cleanup_close int home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	cleanup_close int other = -1;
	struct mk_veth veth = { .name = "mkpod9",
				.peer_name = "eth0",
				.peer_mac = { { 2, 0, 0, 0, 0, 9 } },
				.mtu_bytes = 1450 };
	const struct mk_addr key = addr_of("10.244.1.9");
	struct mk_table table;
	struct mk_link link;
	struct mk_pod pod;

	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	other = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(setns(home, CLONE_NEWNET), 0);
	memcpy(veth.mac.byte, fx.constants.gateway_mac, sizeof(veth.mac.byte));
	veth.peer_netns_fd = other;
	fx_ok(mk_nl_veth_add(fx.nl, &veth, &fx.err));
	fx_ok(mk_nl_link_get(fx.nl, veth.name, &link, &fx.err));
	mk_datapath_free(fx_attached());
	fx_put_pod("10.244.1.9", link.ifindex);
	mk_datapath_free(fx_attached());
	fx_ok(mk_pod_table_open(&table, fx.bpf_dir, &fx.err));
	fx_ok(mk_pod_table_get(&table, &key, &pod, &fx.err));
	ck_assert_int_eq(pod.netns_ref, link.peer_netns + 1);
	ck_assert_uint_eq(pod.ifindex, (unsigned)link.ifindex);
	mk_table_close(&table);
}
END_TEST

/* A pod's ingress limit was set or removed while no agent ran. */
START_TEST(test_limit_is_followed)
{
	static const struct mk_nl_tbf tbf = { 1000, 70000, 70000 };
	const struct mk_addr key = addr_of("10.244.1.2");
	struct mk_table table;
	struct mk_pod pod;

	mk_datapath_free(fx_attached());
	fx_put_pod("10.244.1.2", fx.pod_ifindex);
	fx_ok(mk_pod_table_open(&table, fx.bpf_dir, &fx.err));
	fx_ok(mk_nl_tbf_put(fx.nl, fx.pod_ifindex, &tbf, &fx.err));
	mk_datapath_free(fx_attached());
	fx_ok(mk_pod_table_get(&table, &key, &pod, &fx.err));
	ck_assert_uint_eq(pod.shaped, 1);
	ck_assert_uint_eq(pod.ifindex, (unsigned)fx.pod_ifindex);
	ck_assert_int_eq(system("tc qdisc del dev mkpod root"), 0);
	mk_datapath_free(fx_attached());
	fx_ok(mk_pod_table_get(&table, &key, &pod, &fx.err));
	ck_assert_uint_eq(pod.shaped, 0);
	mk_table_close(&table);
}
END_TEST

/* The index now belongs to a foreign interface. */
START_TEST(test_foreign_interface_stays_untouched)
{
	static const struct mk_mac other = { { 2, 0, 0, 0, 0, 7 } };
	int foreign = fx_veth("other0", "other1", &other);

	mk_datapath_free(fx_attached());
	fx_put_pod("10.244.1.2", foreign);
	fx_put_pod("10.244.1.3", 9999);
	mk_datapath_free(fx_attached());
	ck_assert_uint_eq(fx_program_at(foreign, MK_INGRESS), 0);
}
END_TEST

/* monokube's filter, a foreign one, an empty qdisc: the qdisc is removed only if it is empty. */
START_TEST(test_qdisc_goes_when_empty)
{
	static const struct mk_mac other = { { 2, 0, 0, 0, 0, 7 } };
	static const char *const fillings[] = {
		"tc filter add dev other0 egress protocol ip u32 match u32 0 0 classid 1:1",
		"tc filter add dev other0 ingress protocol ip u32 match u32 0 0 classid 1:1",
		"true",
	};
	int ifindex = fx_veth("other0", "other1", &other);

	for (size_t i = 0; i < MK_ARRAY_SIZE(fillings); i++) {
		ck_assert_int_eq(system("tc qdisc replace dev other0 clsact"), 0);
		ck_assert_int_eq(system(fillings[i]), 0);
		ck_assert_int_eq(mk_hook_remove_empty_qdisc(fx.nl, ifindex, &fx.err), 0);
		ck_assert_msg((system("tc qdisc show dev other0 | grep -q clsact") == 0) ==
				      (i < MK_ARRAY_SIZE(fillings) - 1),
			      "%s", fillings[i]);
		ck_assert_int_eq(system("tc filter del dev other0 egress 2>/dev/null; "
					"tc filter del dev other0 ingress 2>/dev/null; true"),
				 0);
	}
}
END_TEST

START_TEST(test_repair)
{
	struct mk_datapath *datapath = fx_attached();

	fx_put_pod("10.244.1.2", fx.pod_ifindex);
	ck_assert_int_eq(mk_datapath_repair_hooks(datapath, 16, &fx.err), 1);
	ck_assert_int_eq(mk_datapath_repair_hooks(datapath, 16, &fx.err), 0);
	ck_assert_int_eq(mk_hook_detach(fx.nl, fx.uplink_ifindex, MK_EGRESS, &fx.err), 1);
	ck_assert_int_eq(mk_datapath_repair_hooks(datapath, 16, &fx.err), 1);
	ck_assert_uint_ne(fx_program_at(fx.uplink_ifindex, MK_EGRESS), 0);
	/* only of the named devices */
	ck_assert_int_eq(mk_hook_detach(fx.nl, fx.uplink_ifindex, MK_EGRESS, &fx.err), 1);
	ck_assert_int_eq(mk_hook_detach(fx.nl, fx.pod_ifindex, MK_INGRESS, &fx.err), 1);
	ck_assert_int_eq(mk_datapath_repair_hooks_of(datapath, (int *)&fx.links.set.overlay_ifindex,
						     1, &fx.err),
			 0);
	ck_assert_int_eq(mk_datapath_repair_hooks_of(datapath, &fx.pod_ifindex, 1, &fx.err), 1);
	ck_assert_int_eq(mk_datapath_repair_hooks_of(datapath, &fx.uplink_ifindex, 1, &fx.err), 1);
	ck_assert_int_eq(mk_datapath_repair_hooks(datapath, 16, &fx.err), 0);
	mk_datapath_free(datapath);
}
END_TEST

/* Devices, MTUs and addresses are data: changes are passed to the running programs
 * without a load. */
START_TEST(test_links_change)
{
	static const struct mk_mac other = { { 2, 0, 0, 0, 0, 7 } };
	struct mk_datapath *datapath = fx_attached();
	struct mk_datapath_links before = fx.links, seen;
	uint32_t router = fx_pinned_id("progs", "router"), pod = fx_pinned_id("progs", "ilb_pod");
	int up1 = fx_veth("up1", "far1", &other), tun, sfc = fx_veth("sfc7", "far7", &other);
	int peer = fx_veth("peer7", "far8", &other);

	ck_assert_int_eq(system("PATH=$PATH:/usr/sbin:/sbin; ip tuntap add tun7 mode tun"), 0);
	tun = (int)if_nametoindex("tun7");
	fx.links.set.node_addr = row_ipv4(77);
	fx.links.set.overlay_mtu_bytes = 1350;
	fx.links.sfc_ifindex = (__u32)sfc;
	fx.links.cluster_ifindex = (__u32)peer;
	fx.links.uplinks[1] = (struct mk_uplink){ .ifindex = (__u32)up1, .mtu_bytes = 1400 };
	fx.links.uplinks[2] =
		(struct mk_uplink){ .ifindex = (__u32)tun, .flags = MK_UPLINK_TUNNEL };
	fx.links.uplink_count = 3;
	fx_ok(mk_datapath_change_links(datapath, &fx.links, &fx.err));
	fx_ok(mk_links_read(fx.bpf_dir, &seen, &fx.err));
	ck_assert_mem_eq(&seen, &fx.links, sizeof(seen));
	ck_assert_uint_ne(fx_program_at(up1, MK_INGRESS), 0);
	ck_assert_uint_ne(fx_program_at(up1, MK_EGRESS), 0);
	ck_assert_uint_eq(fx_program_at(tun, MK_INGRESS), fx_pinned_id("progs", "nat_tunnel"));
	ck_assert_uint_eq(fx_program_at(tun, MK_EGRESS), 0);
	ck_assert_uint_eq(fx_program_at(sfc, MK_INGRESS), fx_pinned_id("progs", "sfc_overlay"));
	ck_assert_uint_eq(fx_program_at((int)before.sfc_ifindex, MK_INGRESS), 0);
	ck_assert_uint_eq(fx_program_at(peer, MK_INGRESS), fx_pinned_id("progs", "cluster_in"));
	ck_assert_uint_eq(fx_program_at((int)before.cluster_ifindex, MK_INGRESS), 0);
	ck_assert_int_eq(mk_datapath_change_links(datapath, &fx.links, &fx.err), 0);
	ck_assert_int_eq(mk_datapath_repair_links(datapath, &fx.err), 0);
	fx_ok(mk_datapath_change_links(datapath, &before, &fx.err));
	fx_ok(mk_links_read(fx.bpf_dir, &seen, &fx.err));
	ck_assert_mem_eq(&seen, &before, sizeof(seen));
	ck_assert_uint_eq(fx_program_at(up1, MK_INGRESS), 0);
	ck_assert_uint_eq(fx_program_at(tun, MK_INGRESS), 0);
	ck_assert_uint_eq(fx_program_at(sfc, MK_INGRESS), 0);
	ck_assert_uint_ne(fx_program_at((int)before.sfc_ifindex, MK_INGRESS), 0);
	ck_assert_uint_eq(fx_program_at(peer, MK_INGRESS), 0);
	ck_assert_uint_ne(fx_program_at((int)before.cluster_ifindex, MK_INGRESS), 0);
	ck_assert_uint_eq(fx_pinned_id("progs", "router"), router);
	ck_assert_uint_eq(fx_pinned_id("progs", "ilb_pod"), pod);
	mk_datapath_free(datapath);
}
END_TEST

/* Emptied tables are restored. */
START_TEST(test_links_repaired)
{
	struct mk_datapath *datapath = fx_attached();
	cleanup_close int links = mk_pin_open(fx.bpf_dir, MK_PIN_MAPS, "links", &fx.err);
	cleanup_close int uplinks = mk_pin_open(fx.bpf_dir, MK_PIN_MAPS, "uplinks", &fx.err);
	const struct mk_links nothing = { 0 };
	struct mk_datapath_links seen;
	__u32 zero = 0, ifindex = (__u32)fx.uplink_ifindex;

	ck_assert_int_eq(row_update(links, &zero, &nothing, BPF_ANY), 0);
	ck_assert_int_eq(row_delete(uplinks, &ifindex), 0);
	ck_assert_int_eq(mk_datapath_repair_links(datapath, &fx.err), 2);
	fx_ok(mk_links_read(fx.bpf_dir, &seen, &fx.err));
	ck_assert_mem_eq(&seen, &fx.links, sizeof(seen));
	mk_datapath_free(datapath);
}
END_TEST

/* Another set of uplinks: programs are removed from former uplinks. */
START_TEST(test_uplinks_change)
{
	static const struct mk_mac other = { { 2, 0, 0, 0, 0, 8 } };
	struct mk_datapath_links before = fx.links;
	int up1 = fx_veth("up1", "far1", &other);

	fx.links.uplinks[fx.links.uplink_count++].ifindex = (__u32)up1;
	mk_datapath_free(fx_attached());
	ck_assert_uint_ne(fx_program_at(fx.uplink_ifindex, MK_INGRESS), 0);
	ck_assert_uint_ne(fx_program_at(up1, MK_INGRESS), 0);
	ck_assert_uint_ne(fx_program_at(up1, MK_EGRESS), 0);
	fx_put_pod("10.244.1.2", fx.pod_ifindex);
	mk_datapath_free(fx_attached());
	fx.links = before;
	mk_datapath_free(fx_attached());
	ck_assert_uint_ne(fx_program_at(fx.uplink_ifindex, MK_INGRESS), 0);
	ck_assert_uint_eq(fx_program_at(up1, MK_INGRESS), 0);
	ck_assert_uint_eq(fx_program_at(up1, MK_EGRESS), 0);
	ck_assert_uint_eq(fx_program_at(fx.pod_ifindex, MK_INGRESS),
			  fx_pinned_id("progs", "ilb_pod"));
}
END_TEST

UNIT_SUITE("datapath_hooks")
{
	TCase *tc = unit_case(suite, "hooks", fx_setup, fx_teardown);

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, test_entry_is_completed);
	tcase_add_test(tc, test_limit_is_followed);
	tcase_add_test(tc, test_foreign_interface_stays_untouched);
	tcase_add_test(tc, test_qdisc_goes_when_empty);
	tcase_add_test(tc, test_repair);
	tcase_add_test(tc, test_links_change);
	tcase_add_test(tc, test_links_repaired);
	tcase_add_test(tc, test_uplinks_change);
}

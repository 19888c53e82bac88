// SPDX-License-Identifier: Apache-2.0
/* Load, attach, replace and remove the real programs in their own network and mount namespace. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "datapath/remove.h"
#include "datapath/maps/abi.h"
#include "datapath/maps/hook.h"
#include "datapath/maps/object.h"
#include "datapath/maps/pin.h"
#include "datapath/maps/runtime.h"
#include "datapath/monitor/drops.h"
#include "datapath/monitor/monitor.h"
#include "datapath/pods/pod_table.h"
#include "datapath/pods/pods.h"
#include "datapath/pods/udp_ports.h"
#include "unit/datapath_fixture.h"

/* ---- tests ----------------------------------------------------------------------------------- */

START_TEST(test_not_loaded)
{
	ck_assert_ptr_null(mk_pods_open(fx.bpf_dir, fx.state_dir, &fx.err));
	ck_assert_int_eq(fx.err.code, ENOENT);
	ck_assert_msg(strstr(fx.err.text, fx.bpf_dir) && strstr(fx.err.text, "monokube agent"),
		      "%s", fx.err.text);
}
END_TEST

START_TEST(test_states)
{
	struct mk_datapath *datapath =
		mk_datapath_open(fx.bpf_dir, fx.state_dir, &fx.constants, &fx.err);
	struct mk_service_counts counts = { 0 };

	ck_assert_int_eq(mk_datapath_attach(datapath, &fx.links, &fx.err), -EINVAL);
	ck_assert_msg(strstr(fx.err.text, "opened") && strstr(fx.err.text, "loaded"), "%s",
		      fx.err.text);
	fx_ok(mk_datapath_load(datapath, &fx.err));
	ck_assert_int_eq(mk_datapath_load(datapath, &fx.err), -EINVAL);
	ck_assert_int_eq(mk_datapath_prune(datapath, 0, UINT64_MAX, &counts, &fx.err), -EINVAL);
	fx_ok(mk_datapath_attach(datapath, &fx.links, &fx.err));
	fx_ok(mk_datapath_prune(datapath, 0, UINT64_MAX, &counts, &fx.err));
	ck_assert_int_eq(mk_datapath_state(datapath), MK_DATAPATH_SYNCED);
	mk_datapath_free(datapath);
}
END_TEST

START_TEST(test_everything_outlives_the_agent)
{
	mk_datapath_free(fx_attached());
	ck_assert_uint_ne(fx_program_at((int)fx.links.set.host_peer_ifindex, MK_INGRESS), 0);
	ck_assert_uint_ne(fx_program_at((int)fx.links.set.overlay_ifindex, MK_INGRESS), 0);
	ck_assert_uint_ne(fx_program_at(fx.uplink_ifindex, MK_INGRESS), 0);
	ck_assert_uint_ne(fx_program_at(fx.uplink_ifindex, MK_EGRESS), 0);
	ck_assert_uint_ne(fx_program_at(MK_LOOPBACK_IFINDEX, MK_EGRESS), 0);
	ck_assert_int_eq(fx_chain_length("chain"), MK_PROG_COUNT);
	ck_assert_uint_eq(fx_pins("maps", "_new_"), 0);
	ck_assert_uint_eq(fx_pins("progs", "_new_"), 0);
	ck_assert_uint_eq(fx_pins("progs", ""), mk_program_count);
	ck_assert_uint_eq(fx_pins("maps", ""), fx_object_maps());
}
END_TEST

/* ---- a restart with the same programs and constants ------------------------------------------ */

static uint32_t router_id(void)
{
	return fx_pinned_id("progs", "router");
}

static void attach_again(struct mk_datapath *datapath)
{
	fx_ok(mk_datapath_attach(datapath, &fx.links, &fx.err));
	mk_datapath_free(datapath);
}

/* Programs, chain and tables stay, and an emptied hook gets its program again. */
START_TEST(test_reused)
{
	uint32_t router, chain, uplink;

	mk_datapath_free(fx_attached());
	router = router_id();
	chain = fx_pinned_id("maps", "chain");
	uplink = fx_program_at(fx.uplink_ifindex, MK_INGRESS);
	fx_ok(mk_hook_detach_fixed(fx.nl, fx.uplink_ifindex, MK_INGRESS, &fx.err));
	attach_again(fx_loaded_again());
	ck_assert_uint_eq(router_id(), router);
	ck_assert_uint_eq(fx_pinned_id("maps", "chain"), chain);
	ck_assert_uint_eq(fx_program_at(fx.uplink_ifindex, MK_INGRESS), uplink);
	ck_assert_int_eq(fx_chain_length("chain"), MK_PROG_COUNT);
	ck_assert_uint_eq(fx_pins("maps", "_new_") + fx_pins("maps", "_before_"), 0);
	ck_assert_uint_eq(fx_pins("maps", ""), fx_object_maps());
}
END_TEST

static void other_constants(void)
{
	fx.constants.nat_port_min++;
}

static void without_abi(void)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/maps/abi", fx.bpf_dir);
	ck_assert_int_eq(unlink(path), 0);
}

/* A table of that name that no program uses. */
static void another_table(void)
{
	char path[160];
	int fd;

	snprintf(path, sizeof(path), "%s/maps/udp_ports", fx.bpf_dir);
	ck_assert_int_eq(unlink(path), 0);
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "udp_ports", 4, sizeof(struct mk_port_set), 1,
			    NULL);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(bpf_obj_pin(fd, path), 0);
	close(fd);
}

static void without_table(void)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/maps/udp_ports", fx.bpf_dir);
	ck_assert_int_eq(unlink(path), 0);
}

/* As after a kill between the renaming of two pins. */
static void rename_program(const char *before, const char *after)
{
	char from[160], to[160];

	snprintf(from, sizeof(from), "%s/progs/%s", fx.bpf_dir, before);
	snprintf(to, sizeof(to), "%s/progs/%s", fx.bpf_dir, after);
	ck_assert_int_eq(rename(from, to), 0);
}

static void another_program(void)
{
	rename_program("elb", "other");
	rename_program("nat", "elb");
	rename_program("other", "nat");
}

static void another_object(void)
{
	struct mk_abi abi;
	int fd = mk_pin_open(fx.bpf_dir, "maps", "abi", &fx.err);

	fx_ok(mk_abi_read(fx.bpf_dir, &abi, &fx.err));
	abi.object_hash ^= 1;
	fx_ok(mk_abi_write(fd, &abi, &fx.err));
	close(fd);
}

static void (*const differences[])(void) = { other_constants, without_abi,     another_table,
					     without_table,   another_program, another_object };

START_TEST(test_not_reused)
{
	uint32_t router, chain;

	mk_datapath_free(fx_attached());
	router = router_id();
	chain = fx_pinned_id("maps", "chain");
	differences[_i]();
	attach_again(fx_loaded_again());
	ck_assert_uint_ne(router_id(), router);
	ck_assert_uint_ne(fx_pinned_id("maps", "chain"), chain);
	ck_assert_int_eq(fx_chain_length("chain"), MK_PROG_COUNT);
	ck_assert_uint_eq(fx_pins("progs", ""), mk_program_count);
	ck_assert_uint_eq(fx_pins("maps", ""), fx_object_maps());
}
END_TEST

static int adopt(struct mk_datapath **datapath)
{
	*datapath = mk_datapath_open(fx.bpf_dir, fx.state_dir, &fx.constants, &fx.err);
	ck_assert_ptr_nonnull(*datapath);
	return mk_datapath_adopt(*datapath, &fx.err);
}

/* Before the first list: fitting pinned objects are taken over, and hooks are repaired. */
START_TEST(test_adopted)
{
	struct mk_datapath *datapath;
	uint32_t router;

	mk_datapath_free(fx_attached());
	router = router_id();
	fx_ok(mk_hook_detach_fixed(fx.nl, fx.uplink_ifindex, MK_INGRESS, &fx.err));
	ck_assert_int_eq(adopt(&datapath), 0);
	attach_again(datapath);
	ck_assert_uint_eq(router_id(), router);
	ck_assert_uint_ne(fx_program_at(fx.uplink_ifindex, MK_INGRESS), 0);
}
END_TEST

/* Objects that do not fit stay unchanged, and nothing is loaded for them. */
START_TEST(test_not_adopted)
{
	struct mk_datapath *datapath;
	uint32_t uplink, chain;

	mk_datapath_free(fx_attached());
	uplink = fx_program_at(fx.uplink_ifindex, MK_INGRESS);
	chain = fx_pinned_id("maps", "chain");
	differences[_i]();
	ck_assert_int_eq(adopt(&datapath), -ENOENT);
	mk_datapath_free(datapath);
	ck_assert_uint_eq(fx_program_at(fx.uplink_ifindex, MK_INGRESS), uplink);
	ck_assert_uint_eq(fx_pinned_id("maps", "chain"), chain);
	attach_again(fx_loaded_again());
}
END_TEST

/* Maps stay; every hook, also a pod's, gets new programs. */
START_TEST(test_replaced)
{
	uint32_t map, chain, pod;

	mk_datapath_free(fx_attached());
	fx_put_pod("10.244.1.2", fx.pod_ifindex);
	mk_datapath_free(fx_attached());
	map = fx_pinned_id("maps", "sessions");
	chain = fx_pinned_id("maps", "chain");
	pod = fx_program_at(fx.pod_ifindex, MK_INGRESS);
	ck_assert_uint_ne(pod, 0);
	ck_assert_uint_eq(pod, fx_pinned_id("progs", "ilb_pod"));
	mk_datapath_free(fx_attached());
	ck_assert_uint_eq(fx_pinned_id("maps", "sessions"), map);
	ck_assert_uint_ne(fx_pinned_id("maps", "chain"), chain);
	ck_assert_uint_ne(fx_program_at(fx.pod_ifindex, MK_INGRESS), pod);
	ck_assert_uint_eq(fx_program_at(fx.pod_ifindex, MK_INGRESS),
			  fx_pinned_id("progs", "ilb_pod"));
}
END_TEST

/* An entry that lacks the pod's namespace is completed. */
START_TEST(test_entry_is_completed)
{
	cleanup_close int home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	cleanup_close int other = -1;
	struct mk_veth veth = { .name = "mkpod9",
				.peer_name = "eth0",
				.peer_mac = { { 2, 0, 0, 0, 0, 9 } },
				.mtu_bytes = 1450 };
	const struct mk_addr key = { { inet_addr("10.244.1.9") } };
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
	const struct mk_addr key = { { inet_addr("10.244.1.2") } };
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

/* Killed after the change of the hooks and before the renaming of the pins: the running programs
 * have their chain, and the next agent cleans up. */
START_TEST(test_killed_between)
{
	struct mk_datapath *datapath;
	char from[256], to[256];

	mk_datapath_free(fx_attached());
	datapath = fx_attached();
	snprintf(from, sizeof(from), "%s/maps/chain", fx.bpf_dir);
	snprintf(to, sizeof(to), "%s/maps/chain_new_1", fx.bpf_dir);
	ck_assert_int_eq(rename(from, to), 0);
	mk_datapath_free(datapath);
	ck_assert_int_eq(fx_chain_length("chain_new_1"), MK_PROG_COUNT);
	mk_datapath_free(fx_attached());
	ck_assert_uint_eq(fx_pins("maps", "_new_"), 0);
	ck_assert_int_eq(fx_chain_length("chain"), MK_PROG_COUNT);
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
	int up1 = fx_veth("up1", "far1", &other), tun;

	ck_assert_int_eq(system("PATH=$PATH:/usr/sbin:/sbin; ip tuntap add tun7 mode tun"), 0);
	tun = (int)if_nametoindex("tun7");
	fx.links.set.node_addr.word[0] = 77;
	fx.links.set.overlay_mtu_bytes = 1350;
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
	ck_assert_int_eq(mk_datapath_change_links(datapath, &fx.links, &fx.err), 0);
	ck_assert_int_eq(mk_datapath_repair_links(datapath, &fx.err), 0);
	fx_ok(mk_datapath_change_links(datapath, &before, &fx.err));
	fx_ok(mk_links_read(fx.bpf_dir, &seen, &fx.err));
	ck_assert_mem_eq(&seen, &before, sizeof(seen));
	ck_assert_uint_eq(fx_program_at(up1, MK_INGRESS), 0);
	ck_assert_uint_eq(fx_program_at(tun, MK_INGRESS), 0);
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

	ck_assert_int_eq(bpf_map_update_elem(links, &zero, &nothing, BPF_ANY), 0);
	ck_assert_int_eq(bpf_map_delete_elem(uplinks, &ifindex), 0);
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

START_TEST(test_other_layout_is_refused)
{
	struct mk_datapath *datapath;
	uint32_t before;
	char path[160];
	int fd;

	fx_ok(mk_pin_prepare(fx.bpf_dir, &fx.err));
	fd = bpf_map_create(BPF_MAP_TYPE_HASH, "pods", 4, 20, 4096, NULL);
	snprintf(path, sizeof(path), "%s/maps/pods", fx.bpf_dir);
	ck_assert_int_eq(bpf_obj_pin(fd, path), 0);
	before = fx_pinned_id("maps", "pods");
	datapath = mk_datapath_open(fx.bpf_dir, fx.state_dir, &fx.constants, &fx.err);
	ck_assert_ptr_nonnull(datapath);
	ck_assert_int_eq(mk_datapath_load(datapath, &fx.err), -EPROTO);
	ck_assert_msg(strstr(fx.err.text, path) && strstr(fx.err.text, "20 bytes") &&
			      strstr(fx.err.text, "cleanup"),
		      "%s", fx.err.text);
	ck_assert_uint_eq(fx_pinned_id("maps", "pods"), before);
	ck_assert_ptr_null(mk_pods_open(fx.bpf_dir, fx.state_dir, &fx.err));
	ck_assert_msg(strstr(fx.err.text, "20"), "%s", fx.err.text);
	mk_datapath_free(datapath);
	close(fd);
}
END_TEST

/* Another version's size: entries are moved, programs find them, and the pin is replaced. */
START_TEST(test_other_size_moves)
{
	static const char *const names[] = { "sessions", "drops" };
	const struct mk_tuple key = { .sport = htons(7), .proto = IPPROTO_UDP };
	const struct mk_session session = { .set_id = 5 };
	struct mk_drop_counter per_cpu[256] = { { .packets = 3 } };
	struct mk_drop_totals totals;
	struct mk_session found;
	struct mk_table table;
	const __u32 slot = 2;
	int fds[2];

	fx_ok(mk_pin_prepare(fx.bpf_dir, &fx.err));
	fds[0] = bpf_map_create(BPF_MAP_TYPE_HASH, "sessions", sizeof(key), sizeof(session), 100,
				NULL);
	fds[1] =
		bpf_map_create(BPF_MAP_TYPE_PERCPU_ARRAY, "drops", 4, sizeof(per_cpu[0]), 10, NULL);
	ck_assert_int_eq(bpf_map_update_elem(fds[0], &key, &session, BPF_ANY), 0);
	ck_assert_int_eq(bpf_map_update_elem(fds[1], &slot, per_cpu, BPF_ANY), 0);
	for (int i = 0; i < 2; i++) {
		char path[160];

		snprintf(path, sizeof(path), "%s/maps/%s", fx.bpf_dir, names[i]);
		ck_assert_int_eq(bpf_obj_pin(fds[i], path), 0);
		close(fds[i]);
	}
	mk_datapath_free(fx_attached());
	fx_ok(mk_table_open(&table, fx.bpf_dir, "sessions", sizeof(key), sizeof(session), &fx.err));
	ck_assert_uint_gt(table.max_entries, 100);
	fx_ok(mk_table_get(&table, &key, &found, &fx.err));
	ck_assert_uint_eq(found.set_id, 5);
	mk_table_close(&table);
	fx_ok(mk_drops_read(fx.bpf_dir, &totals, &fx.err));
	ck_assert_uint_eq(totals.counter[0][2].packets, 3);
	ck_assert_uint_eq(fx_pins("maps", "_new_"), 0);
	ck_assert_uint_eq(fx_pins("maps", ""), fx_object_maps());
}
END_TEST

/* Put a frontend with a Maglev table of @count backends into the tables of @datapath. */
static void apply_maglev_service(struct mk_datapath *datapath, uint32_t slots, size_t count)
{
	struct mk_wanted_frontend frontend = { .ip = { .family = AF_INET,
						       .v4.s_addr = htonl(0xc0000201) },
					       .port = 80,
					       .proto = IPPROTO_TCP,
					       .scope = MK_SCOPE_EXTERNAL,
					       .flags = MK_FRONTEND_MAGLEV };
	struct mk_service_backend backends[100] = { 0 };
	cleanup_free uint16_t *table = NULL;
	struct mk_backend_set set = { .frontends = &frontend,
				      .frontend_count = 1,
				      .backends = backends,
				      .backend_count = count,
				      .maglev_bytes = mk_maglev_room(slots) * sizeof(*table) };
	char namespace_[] = "x", name[] = "s";
	struct mk_compiled_service compiled = {
		.namespace_ = namespace_, .name = name, .sets = &set, .set_count = 1
	};
	struct mk_service_counts counts = { 0 };

	for (size_t i = 0; i < count; i++)
		backends[i] = (struct mk_service_backend){
			.ip = { .family = AF_INET, .v4.s_addr = htonl(0x0af40100u + (uint32_t)i) },
			.port = 8080,
		};
	table = mk_maglev_new(slots, backends, count);
	ck_assert_ptr_nonnull(table);
	set.maglev = table;
	fx_ok(mk_service_sync_apply(mk_datapath_services(datapath), &compiled, 0, &counts,
				    &fx.err));
}

static void check_maglev_tables(uint32_t slots, unsigned int tables)
{
	cleanup_free uint16_t *value = calloc(mk_maglev_room(slots), sizeof(*value));
	cleanup_free struct mk_maglev_key *keys = NULL;
	struct mk_table table;
	size_t count;

	fx_ok(mk_table_open(&table, fx.bpf_dir, "maglev", sizeof(*keys),
			    mk_maglev_room(slots) * sizeof(*value), &fx.err));
	fx_ok(mk_table_keys(&table, (void **)&keys, &count, &fx.err));
	ck_assert_uint_eq(count, tables);
	for (size_t i = 0; i < count; i++) {
		unsigned int seen[100] = { 0 }, backends = keys[i].generation == 1 ? 20 : 50;

		fx_ok(mk_table_get(&table, &keys[i], value, &fx.err));
		for (size_t slot = 0; slot < slots; slot++)
			seen[value[slot]]++;
		for (unsigned int b = 0; b < backends; b++)
			ck_assert_msg(seen[b] == slots / backends ||
					      seen[b] == slots / backends + 1,
				      "generation %u: backend %u has %u of %u slots",
				      keys[i].generation, b, seen[b], slots);
	}
	mk_table_close(&table);
}

/* After a change of maglevTableSize every table exists in the new size before a program reads it,
 * also one of a generation just replaced. Sessions stay. */
START_TEST(test_other_maglev_size)
{
	static const uint32_t sizes[] = { 1021, 65521, 251, 1021 };
	const struct mk_tuple key = { .sport = htons(7), .proto = IPPROTO_UDP };
	const struct mk_session session = { .set_id = 5 };
	struct mk_datapath *datapath = fx_attached();
	struct mk_session found;

	apply_maglev_service(datapath, sizes[0], 20);
	apply_maglev_service(datapath, sizes[0], 50);
	ck_assert(!mk_datapath_moved(datapath));
	fx_ok(mk_table_put(mk_datapath_session_table(datapath, 0), &key, &session, &fx.err));
	mk_datapath_free(datapath);
	check_maglev_tables(sizes[0], 2);
	for (size_t i = 1; i < MK_ARRAY_SIZE(sizes); i++) {
		uint32_t sessions = fx_pinned_id("maps", "sessions");

		fx.constants.maglev_slots = sizes[i];
		datapath = fx_loaded();
		ck_assert(mk_datapath_moved(datapath));
		check_maglev_tables(sizes[i - 1], 2);
		fx_ok(mk_datapath_attach(datapath, &fx.links, &fx.err));
		ck_assert(!mk_datapath_moved(datapath));
		check_maglev_tables(sizes[i], 2);
		ck_assert_uint_eq(fx_pinned_id("maps", "sessions"), sessions);
		fx_ok(mk_table_get(mk_datapath_session_table(datapath, 0), &key, &found, &fx.err));
		mk_datapath_free(datapath);
	}
	ck_assert_uint_eq(fx_pins("maps", "_new_"), 0);
}
END_TEST

static struct mk_addr address(const char *text)
{
	struct mk_addr addr;

	ck_assert_int_eq(inet_pton(AF_INET, text, &addr), 1);
	return addr;
}

/* 10.244.0.0/16, of which this node has 10.244.1.0/24 */
static struct mk_datapath *attached_in_cluster(void)
{
	fx.constants.cluster_net = address("10.244.0.0");
	fx.constants.cluster_mask = address("255.255.0.0");
	fx.constants.pod_net = address("10.244.1.0");
	fx.constants.pod_mask = address("255.255.255.0");
	return fx_attached();
}

START_TEST(test_routes)
{
	struct mk_datapath *datapath = attached_in_cluster();
	struct mk_route_entry wanted[2] = { { .route.type = MK_ROUTE_PODS },
					    { .route.type = MK_ROUTE_DROP } };
	unsigned int changes = 0;

	ck_assert_int_eq(mk_cidr_parse("10.244.1.0/24", &wanted[0].dst), 0);
	ck_assert_int_eq(mk_cidr_parse("10.244.0.0/16", &wanted[1].dst), 0);
	fx_ok(mk_datapath_sync_routes(datapath, wanted, 2, true, &changes, &fx.err));
	ck_assert_uint_eq(changes, 2);
	mk_datapath_free(datapath);
	datapath = attached_in_cluster();
	changes = 0;
	fx_ok(mk_datapath_sync_routes(datapath, wanted, 2, true, &changes, &fx.err));
	ck_assert_uint_eq(changes, 0);
	fx_ok(mk_datapath_sync_routes(datapath, wanted, 1, false, &changes, &fx.err));
	ck_assert_uint_eq(changes, 0);
	fx_ok(mk_datapath_sync_routes(datapath, wanted, 1, true, &changes, &fx.err));
	ck_assert_uint_eq(changes, 1);
	mk_datapath_free(datapath);
}
END_TEST

static struct mk_route node_route(uint32_t number)
{
	struct mk_table table = { .fd = -1 };
	struct mk_route route = { 0 };

	fx_ok(mk_table_open(&table, fx.bpf_dir, "node_routes", sizeof(number), sizeof(route),
			    &fx.err));
	fx_ok(mk_table_get(&table, &number, &route, &fx.err));
	mk_table_close(&table);
	return route;
}

/* Entries written by an earlier agent count too. */
START_TEST(test_node_routes)
{
	struct mk_datapath *datapath = attached_in_cluster();
	struct mk_route_entry wanted[2] = { { .route.type = MK_ROUTE_OVERLAY },
					    { .route.type = MK_ROUTE_OVERLAY } };
	unsigned int changes = 0;

	ck_assert_int_eq(mk_cidr_parse("10.244.2.0/24", &wanted[0].dst), 0);
	ck_assert_int_eq(mk_cidr_parse("10.244.3.0/24", &wanted[1].dst), 0);
	fx_ok(mk_datapath_sync_routes(datapath, wanted, 2, true, &changes, &fx.err));
	ck_assert_int_eq(node_route(2).type, MK_ROUTE_OVERLAY);
	ck_assert_int_eq(node_route(3).type, MK_ROUTE_OVERLAY);
	mk_datapath_free(datapath);
	datapath = attached_in_cluster();
	fx_ok(mk_datapath_sync_routes(datapath, wanted, 1, false, &changes, &fx.err));
	ck_assert_int_eq(node_route(3).type, MK_ROUTE_OVERLAY);
	fx_ok(mk_datapath_sync_routes(datapath, wanted, 1, true, &changes, &fx.err));
	ck_assert_int_eq(node_route(2).type, MK_ROUTE_OVERLAY);
	ck_assert_int_eq(node_route(3).type, 0);
	mk_datapath_free(datapath);
}
END_TEST

static bool is_peer(const char *text)
{
	struct mk_table table = { .fd = -1 };
	struct mk_addr key = address(text);
	struct mk_peer peer;
	int ret;

	fx_ok(mk_table_open(&table, fx.bpf_dir, "peers", sizeof(key), sizeof(peer), &fx.err));
	ret = mk_table_get(&table, &key, &peer, NULL);
	mk_table_close(&table);
	return ret == 0;
}

static void delete_peer(const char *text)
{
	struct mk_addr key = address(text);
	struct mk_table table = { .fd = -1 };

	fx_ok(mk_table_open(&table, fx.bpf_dir, "peers", sizeof(key), sizeof(struct mk_peer),
			    &fx.err));
	ck_assert_int_eq(mk_table_delete(&table, &key, &fx.err), 1);
	mk_table_close(&table);
}

static bool are_peers_known(void)
{
	struct mk_table table = { .fd = -1 };
	struct mk_runtime runtime;
	uint32_t zero = 0;

	fx_ok(mk_table_open(&table, fx.bpf_dir, "runtime", sizeof(zero), sizeof(runtime), &fx.err));
	fx_ok(mk_table_get(&table, &zero, &runtime, &fx.err));
	mk_table_close(&table);
	return runtime.peers_known;
}

/* Until all Nodes are read, no sender counts as a stranger, and no peer is removed. */
START_TEST(test_peers)
{
	struct mk_datapath *datapath = fx_attached();
	struct mk_peer_entry wanted[2] = {
		{ .addr = address("192.0.2.12"), .peer.vtep_mac = { 2, 1 } },
		{ .addr = address("192.0.2.13"), .peer.vtep_mac = { 2, 2 } }
	};
	unsigned int changes = 0;

	fx_ok(mk_datapath_sync_peers(datapath, wanted, 2, false, &changes, &fx.err));
	ck_assert(is_peer("192.0.2.12") && is_peer("192.0.2.13") && !are_peers_known());
	fx_ok(mk_datapath_sync_peers(datapath, wanted, 2, true, &changes, &fx.err));
	ck_assert(are_peers_known());
	ck_assert_uint_eq(changes, 2);
	ck_assert_int_eq(mk_datapath_repair_routes(datapath, 256, &fx.err), 0);
	delete_peer("192.0.2.13");
	ck_assert_int_eq(mk_datapath_repair_routes(datapath, 256, &fx.err), 1);
	ck_assert(is_peer("192.0.2.13"));
	mk_datapath_free(datapath);
	datapath = fx_attached();
	ck_assert(are_peers_known() && is_peer("192.0.2.13"));
	fx_ok(mk_datapath_sync_peers(datapath, wanted, 1, false, &changes, &fx.err));
	ck_assert(is_peer("192.0.2.13"));
	fx_ok(mk_datapath_sync_peers(datapath, wanted, 1, true, &changes, &fx.err));
	ck_assert(is_peer("192.0.2.12") && !is_peer("192.0.2.13"));
	mk_datapath_free(datapath);
}
END_TEST

/* Two writers of one entry: each leaves the other's member unchanged. */
START_TEST(test_runtime)
{
	const struct mk_runtime_change backends = { .set_host_backends = true,
						    .host_backends = true };
	const struct mk_runtime_change report = { .set_report_drops = true, .report_drops = true };
	const struct mk_runtime_change watch = { .set_watched = true, .watched = true };
	struct mk_table table;
	struct mk_runtime now;
	__u32 key = 0;

	mk_datapath_free(fx_attached());
	ck_assert_int_eq(mk_runtime_change(fx.bpf_dir, fx.state_dir, &backends, &fx.err), 1);
	ck_assert_int_eq(mk_runtime_change(fx.bpf_dir, fx.state_dir, &watch, &fx.err), 1);
	ck_assert_int_eq(mk_runtime_change(fx.bpf_dir, fx.state_dir, &report, &fx.err), 1);
	ck_assert_int_eq(mk_runtime_change(fx.bpf_dir, fx.state_dir, &report, &fx.err), 0);
	fx_ok(mk_table_open(&table, fx.bpf_dir, "runtime", sizeof(key), sizeof(now), &fx.err));
	fx_ok(mk_table_get(&table, &key, &now, &fx.err));
	ck_assert_uint_eq(now.host_backends, 1);
	ck_assert_uint_eq(now.report_drops, 1);
	ck_assert_uint_eq(now.watched, 1);
#include "datapath/monitor/monitor.h"
	ck_assert_int_eq(mk_monitor_reset_stale(fx.bpf_dir, fx.state_dir, &fx.err), 1);
	fx_ok(mk_table_get(&table, &key, &now, &fx.err));
	ck_assert_uint_eq(now.host_backends, 1);
	ck_assert_uint_eq(now.report_drops, 0);
	ck_assert_uint_eq(now.watched, 0);
	mk_table_close(&table);
}
END_TEST

static void expect_ports(const struct mk_table *table, uint16_t min, uint16_t max)
{
	struct mk_runtime now;
	__u32 key = 0;

	fx_ok(mk_table_get(table, &key, &now, &fx.err));
	ck_assert_uint_eq(now.localhost_port_min, min);
	ck_assert_uint_eq(now.localhost_port_max, max);
}

/* Every writer adds its UDP backend ports to the existing ones. */
START_TEST(test_udp_ports)
{
	struct mk_port_set ports = { 0 }, more = { 0 }, now;
	struct mk_table table;
	__u32 key = 0;

	mk_port_set_add(&ports, 53);
	mk_port_set_add(&ports, 65535);
	mk_port_set_add(&more, 54);
	mk_datapath_free(fx_attached());
	ck_assert_int_eq(mk_udp_ports_add(fx.bpf_dir, fx.state_dir, &ports, &fx.err), 1);
	ck_assert_int_eq(mk_udp_ports_add(fx.bpf_dir, fx.state_dir, &ports, &fx.err), 0);
	ck_assert_int_eq(mk_udp_ports_add(fx.bpf_dir, fx.state_dir, &more, &fx.err), 1);
	fx_ok(mk_table_open(&table, fx.bpf_dir, "udp_ports", sizeof(key), sizeof(now), &fx.err));
	fx_ok(mk_table_get(&table, &key, &now, &fx.err));
	ck_assert_uint_eq(now.words[1], 1u << 21 | 1u << 22);
	ck_assert_uint_eq(now.words[2047], 1u << 31);
	mk_table_close(&table);
}
END_TEST

/* The range of an earlier agent may still be needed: it is widened until it is set to none. */
START_TEST(test_localhost_ports)
{
	static const struct {
		uint16_t min, max, expected_min, expected_max;
	} steps[] = {
		{ 30100, 30200, 30100, 30200 },
		{ 30150, 30160, 30100, 30200 },
		{ 30000, 30110, 30000, 30200 },
		{ 30190, 32767, 30000, 32767 },
		{ 0, 0, 0, 0 },
		{ 30100, 30100, 30100, 30100 },
	};
	struct mk_table table;

	mk_datapath_free(fx_attached());
	fx_ok(mk_table_open(&table, fx.bpf_dir, "runtime", sizeof(__u32), sizeof(struct mk_runtime),
			    &fx.err));
	for (size_t i = 0; i < MK_ARRAY_SIZE(steps); i++) {
		const struct mk_runtime_change change = { .set_localhost_ports = true,
							  .localhost_port_min = steps[i].min,
							  .localhost_port_max = steps[i].max };

		ck_assert_int_ge(mk_runtime_change(fx.bpf_dir, fx.state_dir, &change, &fx.err), 0);
		expect_ports(&table, steps[i].expected_min, steps[i].expected_max);
	}
	mk_table_close(&table);
}
END_TEST

START_TEST(test_removed)
{
	unsigned int maps = fx_object_maps();
	struct mk_removed removed = { 0 };

	mk_datapath_free(fx_attached());
	fx_put_pod("10.244.1.2", fx.pod_ifindex);
	mk_datapath_free(fx_attached());
	fx_ok(mk_datapath_remove(fx.nl, fx.bpf_dir, &removed, &fx.err));
	ck_assert_uint_eq(removed.filters, 6);
	ck_assert_uint_eq(removed.pins, maps + mk_program_count);
	ck_assert_uint_eq(fx_program_at(fx.pod_ifindex, MK_INGRESS), 0);
	ck_assert_int_lt(access(fx.bpf_dir, F_OK), 0);
	removed = (struct mk_removed){ 0 };
	fx_ok(mk_datapath_remove(fx.nl, fx.bpf_dir, &removed, &fx.err));
	ck_assert_uint_eq(removed.filters + removed.pins, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("agent_datapath");
	TCase *tc = tcase_create("life");

	tcase_add_checked_fixture(tc, fx_setup, fx_teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, test_not_loaded);
	tcase_add_test(tc, test_states);
	tcase_add_test(tc, test_everything_outlives_the_agent);
	tcase_add_test(tc, test_reused);
	tcase_add_loop_test(tc, test_not_reused, 0, MK_ARRAY_SIZE(differences));
	tcase_add_test(tc, test_adopted);
	tcase_add_loop_test(tc, test_not_adopted, 0, MK_ARRAY_SIZE(differences));
	tcase_add_test(tc, test_replaced);
	tcase_add_test(tc, test_entry_is_completed);
	tcase_add_test(tc, test_limit_is_followed);
	tcase_add_test(tc, test_foreign_interface_stays_untouched);
	tcase_add_test(tc, test_qdisc_goes_when_empty);
	tcase_add_test(tc, test_killed_between);
	tcase_add_test(tc, test_repair);
	tcase_add_test(tc, test_links_change);
	tcase_add_test(tc, test_links_repaired);
	tcase_add_test(tc, test_uplinks_change);
	tcase_add_test(tc, test_other_layout_is_refused);
	tcase_add_test(tc, test_other_size_moves);
	tcase_add_test(tc, test_other_maglev_size);
	tcase_add_test(tc, test_routes);
	tcase_add_test(tc, test_node_routes);
	tcase_add_test(tc, test_peers);
	tcase_add_test(tc, test_runtime);
	tcase_add_test(tc, test_udp_ports);
	tcase_add_test(tc, test_localhost_ports);
	tcase_add_test(tc, test_removed);
	suite_add_tcase(suite, tc);
	return unit_run(suite);
}

// SPDX-License-Identifier: Apache-2.0
/* The device to other clusters, and its FDB entries. */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "monokube/clusters.h"
#include "overlay/overlay_internal.h"
#include "unit/overlay_fixture.h"

static struct mk_error err;

static const struct setting *const settings[] = { &v4_by_v4, &v6_by_v4, &v6_by_v6 };
static const struct setting *setting;

/* Nodes 1 and 2 of cluster 7: addresses of the underlay's family. */
static struct mk_clusters_fdb rows[2];

static int ensure(void)
{
	return mk_devices_ensure(nl, &wanted, &node_devices, &err);
}

static void setup_of(const struct setting *of)
{
	bool v6 = strchr(of->underlay, ':');

	setting = of;
	netns_setup_of(of);
	rows[0] =
		(struct mk_clusters_fdb){ mac_of("06:00:00:07:00:01"),
					  ip_of(v6 ? "2001:db8:1::1" : "198.51.100.1"), 0, false };
	rows[1] = (struct mk_clusters_fdb){ mac_of("06:00:00:07:00:02"),
					    ip_of(v6 ? "2001:db8:1::2" : "198.51.100.2"), 8472,
					    false };
	wanted.peer_name = "mkpeer";
	ck_assert_int_eq(ensure(), 1);
	mk_overlay_set_node(overlay, &node_devices, own);
}

static void setup(void)
{
	setup_of(&v4_by_v4);
}

struct entries {
	struct mk_nl_fdb list[8];
	size_t count;
};

static int see_fdb(void *ctx, const struct mk_nl_fdb *fdb)
{
	struct entries *entries = ctx;

	ck_assert_uint_lt(entries->count, MK_ARRAY_SIZE(entries->list));
	entries->list[entries->count++] = *fdb;
	return 0;
}

static struct entries read_fdb(int ifindex)
{
	struct entries entries = { 0 };

	ck_ok(mk_nl_each_fdb(nl, ifindex, see_fdb, &entries, &err));
	return entries;
}

/* Does mkpeer have the entry, with this port? */
static bool has(const struct mk_clusters_fdb *row, uint16_t port)
{
	const struct entries entries = read_fdb(node_devices.cluster_ifindex);

	for (size_t i = 0; i < entries.count; i++)
		if (memcmp(&entries.list[i].mac, &row->mac, sizeof(row->mac)) == 0)
			return mk_ip_equal(&entries.list[i].remote, &row->remote) &&
			       entries.list[i].port == port;
	return false;
}

static size_t count(void)
{
	return read_fdb(node_devices.cluster_ifindex).count;
}

static void set(const struct mk_clusters_fdb *list, size_t length)
{
	ck_ok(mk_overlay_set_clusters(overlay, list, length, true, &err));
}

static void check_device_of_clusters(void)
{
	struct own_address seen = { .ifindex = node_devices.cluster_ifindex };
	struct mk_link peer, vxlan;

	ck_ok(mk_nl_link_get(nl, "mkpeer", &peer, &err));
	ck_ok(mk_nl_link_get(nl, "mkvxlan", &vxlan, &err));
	ck_assert_int_eq(peer.ifindex, node_devices.cluster_ifindex);
	ck_assert_str_eq(peer.kind, "vxlan");
	ck_assert_uint_eq(peer.vxlan_id, MK_CLUSTER_VNI);
	ck_assert_uint_eq(peer.vxlan_port, vxlan.vxlan_port);
	ck_assert(mk_ip_equal(&peer.vxlan_local, &vxlan.vxlan_local));
	ck_assert_int_eq(peer.peer_ifindex, vxlan.peer_ifindex);
	ck_assert_uint_eq(peer.mtu_bytes, setting->mtu_bytes);
	ck_assert_uint_eq(peer.flags & (IFF_UP | IFF_NOARP), IFF_UP | IFF_NOARP);
	ck_assert(!peer.vxlan_learning);
	ck_ok(mk_nl_each_addr(nl, AF_INET, see_own, &seen, &err));
	ck_ok(mk_nl_each_addr(nl, AF_INET6, see_own, &seen, &err));
	ck_assert_int_eq(seen.count, 0);
}

/* Over each underlay: the device, and entries with and without a port. */
START_TEST(test_device_and_fdb)
{
	setup_of(settings[_i]);
	check_device_of_clusters();
	set(rows, 2);
	sync_alone(true);
	ck_assert_uint_eq(count(), 2);
	ck_assert(has(&rows[0], 0) && has(&rows[1], 8472));
	ck_assert_uint_eq(read_fdb(node_devices.overlay_ifindex).count, 0);
	ck_assert_uint_eq(read_fdb(node_devices.sfc_ifindex).count, 0);
	set(rows, 2);
	sync_alone(true);
	ck_assert_uint_eq(changes, 0);
	mk_overlay_refresh(overlay);
	sync_alone(true);
	ck_assert_uint_eq(changes, 0);
	ck_assert_int_eq(ensure(), 0);
	netns_teardown();
}
END_TEST

START_TEST(test_no_device_without_cluster_name)
{
	struct mk_link link;

	wanted.peer_name = NULL;
	wanted.former_peer_name = "mkpeer";
	ck_assert_int_eq(ensure(), 0);
	ck_assert_int_eq(node_devices.cluster_ifindex, 0);
	ck_assert_int_eq(mk_nl_link_get(nl, "mkpeer", &link, &err), -ENODEV);
	mk_overlay_set_node(overlay, &node_devices, own);
	set(rows, 2);
	sync_alone(true);
	ck_assert_int_eq(ensure(), 0);
}
END_TEST

/* A device of that name with another VNI, or of another kind, is not the agent's. */
START_TEST(test_foreign_device)
{
	struct mk_link link;

	wanted.peer_name = NULL;
	wanted.former_peer_name = _i ? "mksfc" : "far0";
	ck_assert_int_eq(ensure(), 0);
	ck_ok(mk_nl_link_get(nl, wanted.former_peer_name, &link, &err));
	wanted.peer_name = "far0";
	ck_assert_int_eq(ensure(), -EEXIST);
	ck_assert_msg(strstr(err.text, "far0") && strstr(err.text, "peerIfaceName"), "%s",
		      err.text);
}
END_TEST

static void delete_device(void)
{
	ck_ok(mk_nl_link_delete(nl, "mkpeer", &err));
}

static void set_device_down(void)
{
	change_link(node_devices.cluster_ifindex, (struct mk_link_change){ .clear_flags = IFF_UP });
}

static void lower_mtu(void)
{
	change_link(node_devices.cluster_ifindex, (struct mk_link_change){ .mtu_bytes = 1300 });
}

static void (*const faults[])(void) = { delete_device, set_device_down, lower_mtu };

/* Each fault is found once, and corrected with the device's FDB. */
START_TEST(test_repair_of_device)
{
	set(rows, 2);
	sync_alone(true);
	faults[_i]();
	ck_assert_int_eq(ensure(), 1);
	ck_assert_int_eq(ensure(), 0);
	mk_overlay_set_node(overlay, &node_devices, own);
	sync_alone(true);
	ck_assert(has(&rows[0], 0) && has(&rows[1], 8472));
	check_device_of_clusters();
}
END_TEST

/* Entries that another process removed, altered or added are repaired, and counted. */
START_TEST(test_repair_of_fdb)
{
	struct mk_nl_fdb fdb = { rows[0].mac, rows[0].remote, 0, 0 };
	int ifindex = node_devices.cluster_ifindex;

	set(rows, 2);
	sync_alone(true);
	ck_ok(mk_nl_fdb_delete(nl, ifindex, &fdb, &err));
	fdb.mac = rows[1].mac;
	fdb.remote = rows[1].remote;
	ck_ok(mk_nl_fdb_put(nl, ifindex, &fdb, &err)); /* another port */
	fdb.mac = mac_of("06:00:00:09:00:01");
	ck_ok(mk_nl_fdb_put(nl, ifindex, &fdb, &err));
	mk_overlay_refresh(overlay);
	sync_alone(true);
	ck_assert_uint_eq(mk_overlay_repairs(overlay)->neighbours, 2);
	ck_assert_uint_eq(count(), 2);
	ck_assert(has(&rows[0], 0) && has(&rows[1], 8472));
}
END_TEST

/* A node that goes or moves is no repair, and nothing goes before everything has been listed. */
START_TEST(test_changes)
{
	struct mk_clusters_fdb moved = rows[0];

	set(rows, 2);
	sync_alone(true);
	set(rows, 1);
	sync_alone(false);
	ck_assert_uint_eq(count(), 2);
	sync_alone(true);
	ck_assert_uint_eq(count(), 1);
	moved.remote = rows[1].remote;
	set(&moved, 1);
	sync_alone(true);
	ck_assert_uint_eq(count(), 1);
	ck_assert(has(&moved, 0));
	ck_assert_uint_eq(mk_overlay_repairs(overlay)->neighbours, 0);
}
END_TEST

/* An agent that starts keeps the entries of an earlier one until it has read everything. */
START_TEST(test_next_agent)
{
	set(rows, 2);
	sync_alone(true);
	mk_overlay_free(overlay);
	overlay = mk_overlay_new(nl, &err);
	mk_overlay_set_node(overlay, &node_devices, own);
	sync_alone(false);
	sync_alone(true); /* everything else has been read */
	ck_assert_uint_eq(count(), 2);
	set(rows, 2);
	sync_alone(true);
	ck_assert_uint_eq(changes, 0);
	ck_assert_uint_eq(count(), 2);
	mk_overlay_free(overlay);
	overlay = mk_overlay_new(nl, &err);
	mk_overlay_set_node(overlay, &node_devices, own);
	ck_ok(mk_overlay_set_clusters(overlay, rows, 1, false, &err));
	sync_alone(true);
	ck_assert_uint_eq(count(), 2); /* the tables may still use the other one */
	set(rows, 1);
	sync_alone(true);
	ck_assert_uint_eq(count(), 1);
	set(NULL, 0);
	sync_alone(true);
	ck_assert_uint_eq(count(), 0);
}
END_TEST

/* A node that appears twice has one entry, without changes at each sync. */
START_TEST(test_same_node_twice)
{
	const struct mk_clusters_fdb twice[] = { rows[0], rows[0], rows[1] };

	set(twice, 3);
	sync_alone(true);
	ck_assert_uint_eq(count(), 2);
	mk_overlay_refresh(overlay);
	sync_alone(true);
	ck_assert_uint_eq(changes, 0);
	set(NULL, 0);
	sync_alone(true);
	ck_assert_uint_eq(count(), 0);
}
END_TEST

START_TEST(test_remove)
{
	unsigned int removed = 0;
	struct mk_link link;

	ck_ok(remove_overlay(&removed));
	ck_assert_uint_eq(removed, 4);
	ck_assert_int_eq(mk_nl_link_get(nl, "mkpeer", &link, &err), -ENODEV);
}
END_TEST

/* ---- WireGuard ------------------------------------------------------------------------------- */

static const struct mk_wireguard_wanted wireguard = { .private_key = { 8 }, .port = 51871 };

/* The kernel of tests need not have WireGuard (test/kernels/encrypted has). Then there is no
 * device, and all else works. */
START_TEST(test_wireguard)
{
	struct mk_link link;

	wanted.wireguard = &wireguard;
	ck_assert_int_ge(ensure(), 0);
	ck_assert(node_devices.wg_lacks_kernel == !node_devices.wg_ifindex);
	if (node_devices.wg_lacks_kernel) {
		ck_assert_int_eq(ensure(), 0);
		ck_assert_int_eq(mk_nl_link_get(nl, MK_WG_PEER_NAME, &link, &err), -ENODEV);
	}
	set(rows, 2);
	sync_alone(true);
	ck_assert_uint_eq(count(), 2);
}
END_TEST

/* A device of that name which is not ours stays, and its owner is named. */
START_TEST(test_foreign_wireguard)
{
	const struct mk_mac mac = mac_of("02:00:00:00:00:01");
	struct mk_link link;

	ck_ok(mk_nl_bridge_add(nl, MK_WG_NAME, &mac, &err));
	ck_assert_int_eq(ensure(), 0);
	wanted.wireguard = &wireguard;
	ck_assert_int_eq(ensure(), -EEXIST);
	ck_assert_ptr_nonnull(strstr(mk_error_text(&err), "'mkwg' exists and is not the agent's"));
	ck_ok(mk_nl_link_get(nl, MK_WG_NAME, &link, &err));
}
END_TEST

/* The encrypted entries are not mkpeer's. */
START_TEST(test_encrypted_entries)
{
	struct mk_clusters_fdb mixed[] = { rows[0], rows[1] };

	mixed[1].is_encrypted = true;
	set(mixed, 2);
	sync_alone(true);
	ck_assert_uint_eq(count(), 1);
	ck_assert(has(&mixed[0], 0));
	set(rows, 2);
	sync_alone(true);
	ck_assert_uint_eq(count(), 2);
}
END_TEST

static const struct {
	const char *name;
	struct overlay_way way;
	bool encrypts, is_clear;
} ways[] = {
	{ "off", { MK_ENCRYPTION_NONE, true, true, false, true, true }, false, false },
	{ "switched off", { MK_ENCRYPTION_NONE, true, true, true, true, true }, false, false },
	{ "no device", { MK_ENCRYPTION_WIREGUARD, false, true, true, true, true }, false, true },
	{ "a node without a key",
	  { MK_ENCRYPTION_WIREGUARD, true, false, false, false, false },
	  false,
	  true },
	{ "a new node with a key",
	  { MK_ENCRYPTION_WIREGUARD, true, false, false, true, false },
	  true,
	  false },
	{ "a key comes: no handshake yet",
	  { MK_ENCRYPTION_WIREGUARD, true, true, false, true, false },
	  false,
	  true },
	{ ".. a handshake",
	  { MK_ENCRYPTION_WIREGUARD, true, true, false, true, true },
	  true,
	  false },
	{ "another key", { MK_ENCRYPTION_WIREGUARD, true, true, true, true, false }, true, false },
	{ "no key any more",
	  { MK_ENCRYPTION_WIREGUARD, true, true, true, false, false },
	  true,
	  false },
	{ "only: no device", { MK_ENCRYPTION_ONLY, false, true, true, true, true }, false, true },
	{ "only: a node without a key",
	  { MK_ENCRYPTION_ONLY, true, true, false, false, false },
	  true,
	  true },
	{ "only: a key, no handshake yet",
	  { MK_ENCRYPTION_ONLY, true, true, false, true, false },
	  true,
	  false },
};

START_TEST(test_ways)
{
	ck_assert_msg(overlay_encrypts(&ways[_i].way) == ways[_i].encrypts, "%s", ways[_i].name);
	ck_assert_msg(overlay_is_clear(&ways[_i].way) == ways[_i].is_clear, "%s", ways[_i].name);
}
END_TEST

#define WG_PEER(ip, port_, ...)                                                 \
	{                                                                       \
		.endpoint = { .family = AF_INET, .v4 = { ip } }, .port = port_, \
		.carrier = { .family = AF_INET, .v4 = { 9 } }, __VA_ARGS__      \
	}

/* Peers that the kernel has, and wanted ones. */
static const struct {
	const char *name;
	struct mk_wg_peer found, wanted; /* found.port 0: the kernel has no peer with this key */
	bool is_put, keeps_endpoint;
} wg_changes[] = {
	{ "none", WG_PEER(0, 0), WG_PEER(1, 51871), true, false },
	{ "the same", WG_PEER(1, 51871), WG_PEER(1, 51871), false, false },
	{ "another endpoint", WG_PEER(2, 51871), WG_PEER(1, 51871), true, false },
	{ "another port", WG_PEER(1, 1024), WG_PEER(1, 51871), true, false },
	{ "roams: none", WG_PEER(0, 0), WG_PEER(1, 51871, .roams = true), true, false },
	{ "roams: no endpoint",
	  { .port = 1, .carrier = { .family = AF_INET, .v4 = { 9 } } },
	  WG_PEER(1, 51871, .roams = true),
	  true,
	  false },
	{ "roams: learnt", WG_PEER(2, 1024), WG_PEER(1, 51871, .roams = true), false, true },
	{ "roams: learnt, but altered", WG_PEER(2, 1024, .is_odd = true),
	  WG_PEER(1, 51871, .roams = true), true, true },
	{ "no keepalive", WG_PEER(1, 51871), WG_PEER(1, 51871, .keepalive_s = 25), true, false },
};

/* The agent keeps the endpoint that the kernel has learnt of a node that roams. */
START_TEST(test_wireguard_changes)
{
	const struct mk_wg_peer *found = &wg_changes[_i].found;
	struct mk_wg_peer put;
	bool is_put = wireguard_change(found->port ? found : NULL, &wg_changes[_i].wanted, &put);

	ck_assert_msg(is_put == wg_changes[_i].is_put, "%s", wg_changes[_i].name);
	ck_assert_msg((put.endpoint.family == AF_UNSPEC) == wg_changes[_i].keeps_endpoint, "%s",
		      wg_changes[_i].name);
	ck_assert_uint_eq(put.keepalive_s, wg_changes[_i].wanted.keepalive_s);
}
END_TEST

static bool is_unfragmented(const char *name)
{
	struct mk_link link;

	ck_ok(mk_nl_link_get(nl, name, &link, &err));
	return link.vxlan_dont_fragment;
}

/* With WireGuardOnly no carrier is fragmented: a later fragment would not show what it is of. The
 * device and its entries stay. */
START_TEST(test_fragments_of_only)
{
	int ifindex = node_devices.overlay_ifindex;

	for (int on = 1; on >= 0; on--) {
		wanted.encryption = on ? MK_ENCRYPTION_ONLY : MK_ENCRYPTION_WIREGUARD;
		ck_assert_int_eq(ensure(), 2);
		ck_assert_int_eq(ensure(), 0);
		ck_assert_int_eq(node_devices.overlay_ifindex, ifindex);
		ck_assert(is_unfragmented("mkvxlan") == on && is_unfragmented("mksfc") == on);
		ck_assert(!is_unfragmented("mkpeer"));
	}
}
END_TEST

START_TEST(test_key)
{
	char dir[] = "/tmp/monokube-key.XXXXXX", path[64];
	uint8_t key[MK_WG_KEY_BYTES], again[MK_WG_KEY_BYTES];
	struct stat stat_buf;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/" MK_WG_KEY_FILE, dir);
	ck_ok(mk_wireguard_key(dir, key, &err));
	ck_assert_int_eq(stat(path, &stat_buf), 0);
	ck_assert_uint_eq(stat_buf.st_mode & 0777, 0600);
	ck_ok(mk_wireguard_key(dir, again, &err));
	ck_assert_mem_eq(key, again, sizeof(key));
	ck_assert_int_eq(truncate(path, 31), 0);
	ck_assert_int_eq(mk_wireguard_key(dir, again, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(mk_error_text(&err), "remove it"));
	ck_assert_int_eq(stat(path, &stat_buf), 0);
	ck_assert_int_eq(stat_buf.st_size, 31);
	ck_assert_int_eq(truncate(path, 0), 0);
	ck_ok(mk_wireguard_key(dir, again, &err));
	ck_assert_mem_ne(key, again, sizeof(key));
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

/* RFC 7748, 6.1: Alice's public key. */
START_TEST(test_key_text)
{
	static const char *const wrong[] = {
		"",
		"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTm", /* short */
		"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmp=", /* bits beyond the key */
		"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066Spjqqb!mo=",
		"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmoo",
	};
	static const uint8_t alice[] = { 0x85, 0x20, 0xf0, 0x09, 0x89, 0x30, 0xa7, 0x54 };
	const char *right = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
	char text[MK_WG_KEY_STRLEN];
	uint8_t key[MK_WG_KEY_BYTES];

	ck_ok(mk_wg_key_parse(right, key));
	ck_assert_mem_eq(key, alice, sizeof(alice));
	ck_assert_str_eq(mk_wg_key_format(key, text), right);
	for (size_t i = 0; i < MK_ARRAY_SIZE(wrong); i++)
		ck_assert_int_eq(mk_wg_key_parse(wrong[i], key), -EINVAL);
}
END_TEST

UNIT_SUITE("overlay_clusters")
{
	TCase *tc = unit_case(suite, "device", NULL, NULL);

	tcase_add_loop_test(tc, test_device_and_fdb, 0, MK_ARRAY_SIZE(settings));
	tc = unit_case(suite, "changes", setup, netns_teardown);
	tcase_add_test(tc, test_no_device_without_cluster_name);
	tcase_add_loop_test(tc, test_foreign_device, 0, 2);
	tcase_add_loop_test(tc, test_repair_of_device, 0, MK_ARRAY_SIZE(faults));
	tcase_add_test(tc, test_repair_of_fdb);
	tcase_add_test(tc, test_changes);
	tcase_add_test(tc, test_next_agent);
	tcase_add_test(tc, test_same_node_twice);
	tcase_add_test(tc, test_remove);
	tcase_add_test(tc, test_wireguard);
	tcase_add_test(tc, test_foreign_wireguard);
	tcase_add_test(tc, test_encrypted_entries);
	tcase_add_test(tc, test_fragments_of_only);
	tcase_add_loop_test(tc, test_wireguard_changes, 0, MK_ARRAY_SIZE(wg_changes));
	tcase_add_loop_test(tc, test_ways, 0, MK_ARRAY_SIZE(ways));
	tc = unit_case(suite, "key", NULL, NULL);
	tcase_add_test(tc, test_key);
	tcase_add_test(tc, test_key_text);
}

// SPDX-License-Identifier: Apache-2.0
/* The file of Node names, written by the agent and read by the command line. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "overlay/node_names.h"
#include "unit/unit.h"

static struct mk_error err;
static char dir[] = "/tmp/monokube-names.XXXXXX",
	    path[sizeof(dir) + sizeof(MK_NODE_NAMES_FILE) + 1];

static void setup(void)
{
	snprintf(dir, sizeof(dir), "/tmp/monokube-names.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/" MK_NODE_NAMES_FILE, dir);
}

static void teardown(void)
{
	unlink(path);
	ck_assert_int_eq(rmdir(dir), 0);
}

static struct mk_cidr cidr(const char *text)
{
	struct mk_cidr cidr;

	ck_assert_int_eq(mk_cidr_parse(text, &cidr), 0);
	return cidr;
}

static const char *find(const struct mk_node_names *names, const char *address)
{
	struct mk_ip ip;

	ck_assert_int_eq(mk_ip_parse(address, &ip), 0);
	return mk_node_names_find(names, &ip);
}

static const struct mk_cidr none;

/* @both: the cluster has two families, of which this is IPv4's plan. */
static void write_two_of(bool both)
{
	struct mk_overlay_peer peer = { .node = (char *)(uintptr_t) "node2",
					.pod_cidr = cidr("10.244.2.0/24") };
	struct mk_overlay_left_out left[] = {
		{ (char *)(uintptr_t) "node8", (char *)(uintptr_t) "it has no IPv4 pod CIDR yet",
		  false },
		{ (char *)(uintptr_t) "node9", (char *)(uintptr_t) "its pod CIDR collides", true },
	};
	const struct mk_overlay_plan plan = {
		.peers = &peer, .peer_count = 1, .left_out = left, .left_out_count = 2
	};
	const struct mk_cidr clusters[MK_FAMILIES] = { cidr("10.244.0.0/16"),
						       both ? cidr("fd00:10:244::/48") : none };
	const struct mk_cidr own[MK_FAMILIES] = { cidr("10.244.1.0/24"), none };
	const struct mk_overlay_view view = { .own_node = "node1",
					      .family = AF_INET,
					      .cluster_cidrs = clusters,
					      .own_pod_cidrs = own };

	ck_ok(mk_node_names_write(dir, &view, &plan, &err));
}

static void write_two(void)
{
	write_two_of(false);
}

static void write_two_of_ipv6(void)
{
	struct mk_overlay_peer peer = { .node = (char *)(uintptr_t) "node3",
					.pod_cidr = cidr("fd00:10:244:3::/64") };
	const struct mk_overlay_plan plan = { .peers = &peer, .peer_count = 1 };
	const struct mk_cidr clusters[MK_FAMILIES] = { cidr("10.244.0.0/16"),
						       cidr("fd00:10:244::/48") };
	const struct mk_cidr own[MK_FAMILIES] = { cidr("10.244.1.0/24"),
						  cidr("fd00:10:244:1::/64") };
	const struct mk_overlay_view view = { .own_node = "node1",
					      .family = AF_INET6,
					      .cluster_cidrs = clusters,
					      .own_pod_cidrs = own };

	ck_ok(mk_node_names_write(dir, &view, &plan, &err));
}

static void check_left_out(const struct mk_node_names *names)
{
	ck_assert_uint_eq(names->left_out_count, 1);
	ck_assert_uint_eq(names->left_out[0].family, AF_INET);
	ck_assert_str_eq(names->left_out[0].name, "node9");
	ck_assert_str_eq(names->left_out[0].reason, "its pod CIDR collides");
}

START_TEST(test_written_and_read)
{
	struct mk_node_names names;

	write_two();
	ck_ok(mk_node_names_read(dir, &names, &err));
	ck_assert_uint_eq(names.count, 2);
	ck_assert_str_eq(find(&names, "10.244.1.7"), "node1");
	ck_assert_str_eq(find(&names, "10.244.2.0"), "node2");
	ck_assert_ptr_null(find(&names, "10.244.3.1"));
	check_left_out(&names);
	mk_node_names_release(&names);
}
END_TEST

/* What a node needs to publish another one. */
START_TEST(test_wireguard)
{
	static const char text[] =
		"10.244.2.0/24 node2 AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:51871\n";
	struct mk_overlay_peer peer = { .node = (char *)(uintptr_t) "node2",
					.pod_cidr = cidr("10.244.2.0/24"),
					.wireguard = { .key = { 1 }, .port = 51871 } };
	const struct mk_overlay_plan plan = { .peers = &peer, .peer_count = 1 };
	const struct mk_cidr clusters[MK_FAMILIES] = { cidr("10.244.0.0/16"), none };
	const struct mk_cidr own[MK_FAMILIES] = { cidr("10.244.1.0/24"), none };
	const struct mk_overlay_view view = { .own_node = "node1",
					      .family = AF_INET,
					      .cluster_cidrs = clusters,
					      .own_pod_cidrs = own };
	struct mk_node_names names;
	cleanup_free char *written = NULL;
	size_t size;

	ck_ok(mk_node_names_write(dir, &view, &plan, &err));
	ck_ok(mk_file_read(path, 4096, &written, &size, &err));
	ck_assert_ptr_nonnull(strstr(written, text));
	ck_ok(mk_node_names_read(dir, &names, &err));
	ck_assert_str_eq(find(&names, "10.244.2.9"), "node2");
	ck_assert_str_eq(mk_node_names_wireguard(&names, "node2"),
			 "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:51871");
	ck_assert_ptr_null(mk_node_names_wireguard(&names, "node1"));
	mk_node_names_release(&names);
}
END_TEST

#define KEY_OF_ONE "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:51871"
#define KEY_OF_TWO "AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:51871"

static const struct {
	const char *name, *own, *keys[3]; /* of node2 to node4 */
	const char *expected;
} twins[] = {
	{ "none has a key", NULL, { "", "", "" }, "" },
	{ "each has its own", NULL, { " " KEY_OF_ONE, " " KEY_OF_TWO, "" }, "" },
	{ "two others", NULL, { " " KEY_OF_ONE, "", " " KEY_OF_ONE }, "node2 node4;" },
	{ ".. with other ports", NULL, { " " KEY_OF_ONE, "", " " KEY_OF_ONE "0" }, "node2 node4;" },
	{ "this node and another one",
	  KEY_OF_TWO,
	  { " " KEY_OF_ONE, " " KEY_OF_TWO, "" },
	  "node1 node3;" },
	{ "all", KEY_OF_ONE, { " " KEY_OF_ONE, " " KEY_OF_ONE, "" }, "node1 node2;node2 node3;" },
};

static void see_twins(void *ctx, const char *first, const char *second)
{
	char *text = ctx;

	sprintf(text + strlen(text), "%s %s;", first, second);
}

/* A node has a line of each family. */
START_TEST(test_twins)
{
	char text[1024] = "", seen[128] = "";
	struct mk_node_names names;

	for (int i = 0; i < 8; i++)
		sprintf(text + strlen(text), "%s%d%s node%d%s\n",
			i < 4 ? "10.244." : "fd00:244:0:", i % 4 + 1, i < 4 ? ".0/24" : "::/64",
			i % 4 + 1, i % 4 ? twins[_i].keys[i % 4 - 1] : "");
	ck_ok(mk_file_replace(path, text, strlen(text), 0644, &err));
	ck_ok(mk_node_names_read(dir, &names, &err));
	ck_ok(mk_node_names_each_twins(&names, twins[_i].own, see_twins, seen, &err));
	ck_assert_msg(strcmp(seen, twins[_i].expected) == 0, "%s: %s", twins[_i].name, seen);
	mk_node_names_release(&names);
}
END_TEST

static const struct {
	const char *name, *node;
	uint16_t port;
	uint8_t key;
	uint16_t kept_port;
	uint8_t kept_key;
} kept_keys[] = {
	{ "the last key that it had", "node2", 0, 0, 51871, 1 },
	{ "another key", "node2", 51872, 2, 51872, 2 },
	{ "a node that never had one", "node3", 0, 0, 0, 0 },
	{ "another node", "node4", 0, 0, 0, 0 },
};

/* A node that publishes no key any more keeps the last one. */
START_TEST(test_keep_keys)
{
	struct mk_overlay_peer peer = { .node = (char *)(uintptr_t)kept_keys[_i].node,
					.wireguard = { { kept_keys[_i].key },
						       kept_keys[_i].port } };
	struct mk_overlay_plan plan = { .peers = &peer, .peer_count = 1 };
	static const char text[] =
		"10.244.1.0/24 node1\n"
		"10.244.2.0/24 node2 AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:51871\n"
		"10.244.3.0/24 node3\n";

	ck_ok(mk_node_names_keep_keys(dir, &plan, &err)); /* without a file */
	ck_assert_uint_eq(peer.wireguard.port, kept_keys[_i].port);
	ck_ok(mk_file_replace(path, text, strlen(text), 0644, &err));
	ck_ok(mk_node_names_keep_keys(dir, &plan, &err));
	ck_assert_msg(peer.wireguard.port == kept_keys[_i].kept_port, "%s", kept_keys[_i].name);
	if (peer.wireguard.port)
		ck_assert_uint_eq(peer.wireguard.key[0], kept_keys[_i].kept_key);
}
END_TEST

/* Unchanged content is not written again: a Node object changes every few seconds. */
START_TEST(test_written_once)
{
	struct stat before, after;

	write_two();
	ck_assert_int_eq(stat(path, &before), 0);
	write_two();
	ck_assert_int_eq(stat(path, &after), 0);
	ck_assert_uint_eq(before.st_ino, after.st_ino);
}
END_TEST

START_TEST(test_strange_lines)
{
	static const char text[] = "\n10.244.1.0/24\n10.244.1.0/24 \nx y\nleft-out node9 why\n"
				   "10.244.2.0/24 node2\nleft-out\nleft-out \nleft-out node9\n";
	struct mk_node_names names;

	ck_ok(mk_node_names_read(dir, &names, &err)); /* no file */
	ck_assert_uint_eq(names.count, 0);
	mk_node_names_release(&names);
	ck_ok(mk_file_replace(path, text, strlen(text), 0600, &err));
	ck_ok(mk_node_names_read(dir, &names, &err));
	ck_assert_uint_eq(names.count, 1);
	ck_assert_uint_eq(names.left_out_count, 0);
	ck_assert_str_eq(find(&names, "10.244.2.9"), "node2");
	mk_node_names_release(&names);
}
END_TEST

/* Each family writes its own lines; those of a family that went away go with the next write. */
START_TEST(test_two_families)
{
	struct mk_node_names names;
	struct stat before, after;

	write_two_of(true);
	write_two_of_ipv6();
	ck_ok(mk_node_names_read(dir, &names, &err));
	ck_assert_uint_eq(names.count, 4);
	ck_assert_str_eq(find(&names, "10.244.1.7"), "node1");
	ck_assert_str_eq(find(&names, "10.244.2.7"), "node2");
	ck_assert_str_eq(find(&names, "fd00:10:244:1::7"), "node1");
	ck_assert_str_eq(find(&names, "fd00:10:244:3::7"), "node3");
	check_left_out(&names);
	mk_node_names_release(&names);
	ck_assert_int_eq(stat(path, &before), 0);
	write_two_of(true);
	write_two_of_ipv6();
	ck_assert_int_eq(stat(path, &after), 0);
	ck_assert_uint_eq(before.st_ino, after.st_ino);
	write_two();
	ck_ok(mk_node_names_read(dir, &names, &err));
	ck_assert_uint_eq(names.count, 2);
	ck_assert_ptr_null(find(&names, "fd00:10:244:1::7"));
	mk_node_names_release(&names);
}
END_TEST

UNIT_SUITE("node names")
{
	TCase *tcase = unit_case(suite, "file", setup, teardown);

	tcase_add_test(tcase, test_written_and_read);
	tcase_add_test(tcase, test_wireguard);
	tcase_add_loop_test(tcase, test_twins, 0, MK_ARRAY_SIZE(twins));
	tcase_add_loop_test(tcase, test_keep_keys, 0, MK_ARRAY_SIZE(kept_keys));
	tcase_add_test(tcase, test_written_once);
	tcase_add_test(tcase, test_two_families);
	tcase_add_test(tcase, test_strange_lines);
}

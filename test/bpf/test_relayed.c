// SPDX-License-Identifier: Apache-2.0
/* Relayed packets without VXLAN: what two nodes send each other for a client outside, by their link
 * (bpf/direct_return.h). Rows that hold by both ways are in test_direct_return. */
#include <net/if.h>

#include <arpa/inet.h>
#include <linux/icmp.h>
#include <linux/if_packet.h>
#include <netinet/ether.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bpf/cpus.h"
#include "bpf/delegated.h"
#include "bpf/run.h"
#include "monokube/clusters.h"

static void load_gate(void)
{
	fixture_syn_ns(4000000000u);
	delegated_load_on_link();
}

static void load_encrypted(void)
{
	delegated_make_link();
	fixture_encrypts_all();
	fixture_load_small();
}

static uint8_t *sees_asker_of(struct frame *probe)
{
	const size_t from_end =
		sizeof(struct mk_probe_packet) - offsetof(struct mk_probe_packet, sees_asker);

	return probe->byte + probe->length - from_end;
}

static const struct {
	const char *name;
	unsigned ago_s;
	bool sees_this, by_link;
} shown[] = {
	{ "just now", 0, true, true },
	{ "some time ago", 12, true, true },
	{ "too long ago", 30, true, false },
	{ "much too long ago", 40000, true, false },
	{ "just now, but it gets no such frame of this node", 0, false, false },
};

START_TEST(test_shown)
{
	put_link("10.18.0.2", "192.168.99.12", LINK2, second(shown[_i].ago_s), shown[_i].sees_this);
	hop(shown[_i].name, MK_HOOK_UPLINK, taken[1].request, NULL,
	    shown[_i].by_link ? TO_UPLINK : TO_OVERLAY, taken[1].request,
	    shown[_i].by_link ? LINK2 : NODE2);
	put_link("10.18.0.2", "192.168.99.12", LINK2, 0, true);
	hop("never", MK_HOOK_UPLINK, taken[1].request, NULL, TO_OVERLAY, taken[1].request, NODE2);
}
END_TEST

/* Other packets have this node's MAC address there, which the kernel sets. */
START_TEST(test_source_mac)
{
	struct frame out = hop("a request", MK_HOOK_UPLINK, taken[1].request, NULL, TO_UPLINK,
			       taken[1].request, LINK2);

	ck_assert_mem_eq(out.byte + ETH_ALEN, fixture_node()->vtep_mac, ETH_ALEN);
	hop("translated", MK_HOOK_UPLINK, "udp 192.168.99.13:5000 > 192.168.99.11:30080", NULL,
	    TO_UPLINK, NULL, FRAME_GATEWAY_MAC);
}
END_TEST

/* The copy of @mac's answer to a probe of this node. Its sender gets such frames of this node. */
static void shows(const char *name, const char *mac, bool sees_asker)
{
	const struct frame_options with = { .payload_bytes = sizeof(struct mk_probe_packet),
					    .source_mac = mac,
					    .dest_mac = OWN };
	struct frame answer =
		frame_probe("udp 10.244.2.1:7 > 10.18.0.1:40000", MK_PROBE_MAGIC, &with);

	*sees_asker_of(&answer) = sees_asker;
	fixture_device(between.ifindex);
	fixture_expect(name, MK_HOOK_UPLINK, &answer, DROPPED, NULL);
	fixture_device(0);
}

static void goes_to(const char *name, enum where where, const char *mac)
{
	hop(name, MK_HOOK_UPLINK, taken[1].request, NULL, where, taken[1].request, mac);
}

/* It shows the node that answers. */
START_TEST(test_shows)
{
	put_link("10.18.0.2", "192.168.99.12", LINK3, 0, false);
	shows("of another node", NODE3, true);
	goes_to("not yet", TO_OVERLAY, NODE2);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_DIRECT_FORGED), 1);
	shows("its own", NODE2, false);
	goes_to("it gets no such frame", TO_OVERLAY, NODE2);
	shows("its own", NODE2, true);
	goes_to("now, to its MAC address", TO_UPLINK, LINK2);
	shows("its own", NODE2, false);
	goes_to("it no longer gets such frames", TO_OVERLAY, NODE2);
	ck_assert_uint_eq(fixture_drops_total(), 1);
}
END_TEST

/* A socket that gets what leaves by the link. */
static int far_end(void)
{
	const struct sockaddr_ll at = { .sll_family = AF_PACKET,
					.sll_protocol = htons(ETH_P_ALL),
					.sll_ifindex = (int)if_nametoindex("far9") };
	const struct timeval bound = { .tv_sec = 5 };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound)), 0);
	ck_assert_int_eq(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

/* Wait for a frame with this node's VTEP MAC address. The kernel sends frames, too. */
static bool gets_shown(int fd, struct frame *frame)
{
	ssize_t got;

	while ((got = recv(fd, frame->byte, sizeof(frame->byte), 0)) > 0) {
		frame->length = (size_t)got;
		if (memcmp(frame->byte + ETH_ALEN, fixture_node()->vtep_mac, ETH_ALEN) == 0)
			return true;
	}
	return false;
}

/* A host that has endpoints itself looks at what leaves. A relayed error about an answer stays as
 * it is: node2 has the session to which it belongs. */
START_TEST(test_error_leaves)
{
	static const char *const errors[TAKEN_ROWS] = {
		"icmp 198.51.100.1 > 192.168.99.11",
		"icmp 198.51.100.1 > 192.168.99.11",
		"icmp 198.51.100.1 > 192.168.99.11",
		"icmp 198.51.100.1 > 198.51.100.9",
	};
	struct frame error;

	fixture_runtime(&(struct mk_runtime){ .host_backends = 1 });
	take(&taken[_i]);
	error = error_about(taken[_i].answer, errors[_i], NULL, ICMP_FRAG_NEEDED);
	send_error("relayed", MK_HOOK_UPLINK_EGRESS, error, TO_HOST, taken[_i].answer);
}
END_TEST

/* Node2's probe gets an answer, and a copy of it by the link. Both say whether node2's frames come. */
static void probed(const char *name, bool sees_asker)
{
	const struct frame_options with = { .payload_bytes = sizeof(struct mk_probe_packet),
					    .source_mac = NODE2 };
	struct frame probe =
		frame_probe("udp 10.18.0.2:40000 > 10.244.1.1:7", MK_PROBE_MAGIC, &with);
	struct frame answer, copy;
	int far = far_end();

	answer = fixture_expect(name, MK_HOOK_OVERLAY, &probe, TO_OVERLAY,
				"udp 10.244.1.1:7 > 10.18.0.2:40000");
	ck_assert_msg(gets_shown(far, &copy),
		      "%s: no copy of the answer has this node's VTEP MAC address", name);
	ck_assert_str_eq(frame_mac_dest(&copy), LINK2);
	ck_assert_uint_eq(copy.length, probe.length);
	ck_assert_uint_eq(*sees_asker_of(&copy), sees_asker);
	ck_assert_uint_eq(*sees_asker_of(&answer), sees_asker);
	close(far);
}

/* A copy of this node's answer to a probe shows it to the node that asks. */
START_TEST(test_shows_itself)
{
	probed("node2 has shown itself", true);
	put_link("10.18.0.2", "192.168.99.12", LINK2, 0, true);
	probed("never", false);
	put_link("10.18.0.2", "192.168.99.12", LINK2, second(30), true);
	probed("too long ago", false);
}
END_TEST

/* The link's MTU counts. */
START_TEST(test_long)
{
	const struct frame_options full = { .packet_bytes = 1500, .fragment = DF };
	const struct frame_options over = { .packet_bytes = 1501, .fragment = DF };

	to_node2("as long as the link's MTU", MK_HOOK_UPLINK, taken[1].request, &full,
		 taken[1].request);
	hop("longer", MK_HOOK_UPLINK, taken[1].request, &over, TO_UPLINK, NULL, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_TOO_BIG), 1);
}
END_TEST

START_TEST(test_fragments)
{
	const struct frame_options first = { .payload_bytes = 64, .fragment = MF, .id = 7 };
	const struct frame_options last = { .payload_bytes = 64, .fragment = 9, .id = 7 };

	from_node2("first", served[1].request, &first, TO_POD, served[1].seen);
	from_node2("last", served[1].request, &last, TO_POD, NULL);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Frames of the link that are no relayed packet of a node. */
static const struct {
	const char *name, *flow, *mac;
	const char *to_mac; /* NULL: by another device */
	enum where where;
	enum mk_drop_reason reason;
} strangers[] = {
	{ "a VTEP MAC address of no node", "tcp 203.0.113.9:5000 > 192.168.99.12:30081",
	  "02:4d:0a:12:00:77", OWN, DROPPED, MK_DROP_DIRECT_FORGED },
	{ "such an address of another range", "tcp 203.0.113.9:5000 > 192.168.99.12:30081",
	  "02:4d:0a:77:00:02", OWN, TO_HOST, 0 },
	{ "this node's", "tcp 203.0.113.9:5000 > 192.168.99.12:30081", "02:4d:0a:12:00:01", OWN,
	  DROPPED, MK_DROP_DIRECT_FORGED },
	{ "by another device", "tcp 203.0.113.9:5000 > 192.168.99.12:30081", NODE2, NULL, DROPPED,
	  MK_DROP_DIRECT_FORGED },
	{ "to all devices", "tcp 203.0.113.9:5000 > 192.168.99.12:30081", NODE2,
	  "ff:ff:ff:ff:ff:ff", DROPPED, MK_DROP_DIRECT_FORGED },
	{ "no answer to a probe", "udp 10.244.2.1:8 > 10.18.0.1:40000", NODE2, OWN, DROPPED,
	  MK_DROP_DIRECT_FORGED },
	{ "a pod's", "tcp 10.244.2.7:5000 > 198.51.100.9:81", NODE2, OWN, DROPPED,
	  MK_DROP_DIRECT_FORGED },
	{ "of an overlay address", "tcp 10.18.0.2:5000 > 198.51.100.9:81", NODE2, OWN, DROPPED,
	  MK_DROP_DIRECT_FORGED },
	{ "this node's own address", "udp 203.0.113.9:5000 > 192.168.99.11:4789", NODE2, OWN,
	  DROPPED, MK_DROP_DIRECT_FORGED },
	{ "a device's MAC address", "tcp 203.0.113.9:5000 > 192.168.99.12:30081", LINK2, OWN,
	  TO_HOST, 0 },
	{ ".. and an answer", "tcp 192.168.99.11:30080 > 203.0.113.9:5000", LINK2, OWN, DROPPED,
	  MK_DROP_MARTIAN_SOURCE },
	{ ".. and an answer from an external address", "tcp 198.51.100.9:80 > 203.0.113.9:5000",
	  LINK2, OWN, TO_HOST, 0 },
	{ "a request that a node forwards", "tcp 203.0.113.9:5000 > 198.51.100.9:81", LINK2, OWN,
	  TO_POD, 0 },
};

START_TEST(test_strangers)
{
	const struct frame_options with = { .source_mac = strangers[_i].mac,
					    .dest_mac = strangers[_i].to_mac };
	enum where where = strangers[_i].where;

	fixture_device(strangers[_i].to_mac ? between.ifindex : 0);
	hop(strangers[_i].name, MK_HOOK_UPLINK, strangers[_i].flow, &with, where, NULL, NULL);
	fixture_device(0);
	ck_assert_msg(fixture_drops(MK_HOOK_UPLINK, strangers[_i].reason) == (where == DROPPED),
		      "%s: not dropped for this reason", strangers[_i].name);
	ck_assert_uint_eq(fixture_drops_total(), where == DROPPED);
}
END_TEST

/* The node that takes a SYN from outside challenges the client. The pod's node does not. */
START_TEST(test_gate)
{
	const char *syn = "tcp 203.0.113.9:5000 > 198.51.100.9:81";

	cpus_one(true);
	fixture_syn_flood();
	hop("challenged", MK_HOOK_UPLINK, syn, NULL, TO_UPLINK,
	    "tcp 198.51.100.9:81 > 203.0.113.9:5000", NULL);
	from_node2("relayed while SYNs are challenged", syn, NULL, TO_POD, served[3].seen);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_SYN_FLOOD), 1);
}
END_TEST

/* With WireGuardOnly nothing comes without encryption. */
START_TEST(test_encrypted)
{
	from_node2("a frame of the link", served[1].request, NULL, DROPPED, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_DIRECT_FORGED), 1);
}
END_TEST

BPF_SUITE("relayed")
{
	TCase *tcase =
		clients_case(suite, "relayed", delegated_load_on_link, delegated_setup_on_link);

	tcase_add_loop_test(tcase, test_shown, 0, ROWS(shown));
	tcase_add_test(tcase, test_source_mac);
	tcase_add_test(tcase, test_shows);
	tcase_add_test(tcase, test_shows_itself);
	tcase_add_loop_test(tcase, test_error_leaves, 0, TAKEN_ROWS);
	tcase_add_test(tcase, test_long);
	tcase_add_test(tcase, test_fragments);
	tcase_add_loop_test(tcase, test_strangers, 0, ROWS(strangers));
	tcase = clients_case(suite, "SYNs challenged", load_gate, delegated_setup_on_link);
	tcase_add_test(tcase, test_gate);
	tcase = clients_case(suite, "WireGuardOnly", load_encrypted, delegated_setup_on_link);
	tcase_add_test(tcase, test_encrypted);
}

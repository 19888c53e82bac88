// SPDX-License-Identifier: Apache-2.0
/* Requests that the pod's node sends back, because it cannot serve them: the node that was asked
 * translates them (bpf/direct_return.h). */
#include <linux/icmp.h>
#include <linux/if_ether.h>
#include <stdio.h>
#include <string.h>

#include "bpf/delegated.h"
#include "bpf/run.h"
#include "rows.h"

#define NODE2_BACK "06:4d:0a:12:00:02" /* in frames that the node sends back */
#define NODE3_BACK "06:4d:0a:12:00:03"

/* ---- the pod's node -------------------------------------------------------------------------- */

static void is_sent_back(const char *name, const char *request, const struct frame_options *with)
{
	static const __u8 mark = 0x04;
	struct frame out;
	__u8 mac[ETH_ALEN];

	memcpy(mac, fixture_node()->vtep_mac, sizeof(mac));
	mac[0] |= mark;
	out = from_node(between.mac2, name, request, with, TO_OVERLAY, request);
	ck_assert_msg(strcmp(frame_mac_dest(&out), NODE2) == 0, "%s: to %s", name,
		      frame_mac_dest(&out));
	ck_assert_mem_eq(out.byte + ETH_ALEN, mac, ETH_ALEN);
	ck_assert_uint_eq(fixture_count("sessions") + fixture_count("sessions_young"), 0);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}

static const struct unserved {
	const char *name, *request;
	struct frame_options with;
} unserved[] = {
	{ "no pod here", "tcp 203.0.113.9:5000 > 192.168.99.12:30080", { 0 } },
	{ ".. in the middle of a connection",
	  "tcp 203.0.113.9:5000 > 192.168.99.12:30080",
	  { .tcp_flags = ACK } },
	{ ".. UDP", "udp 203.0.113.9:5000 > 192.168.99.12:30080", { 0 } },
	{ ".. SCTP", "sctp 203.0.113.9:5000 > 192.168.99.12:30080", { 0 } },
	{ ".. an external address", "tcp 203.0.113.9:5000 > 198.51.100.9:80", { 0 } },
	{ "no such NodePort", "tcp 203.0.113.9:5000 > 192.168.99.12:30099", { 0 } },
	{ "no such port of an external address", "tcp 203.0.113.9:5000 > 198.51.100.9:99", { 0 } },
	{ "no such external address", "udp 203.0.113.9:5000 > 198.51.100.77:80", { 0 } },
	{ "only an endpoint in this host's own network",
	  "tcp 203.0.113.9:5000 > 198.51.100.9:82",
	  { 0 } },
	{ "this host as client", "tcp 192.0.2.11:5000 > 192.168.99.12:30081", { 0 } },
	{ "another node's address", "tcp 203.0.113.9:5000 > 192.168.99.13:30081", { 0 } },
	{ "an unknown external address on a device of this host",
	  "tcp 203.0.113.9:5000 > 198.51.100.78:80",
	  { 0 } },
};

START_TEST(test_unserved)
{
	delegated_service("tcp 198.51.100.9:82", MK_FRONTEND_MASQUERADE, "192.168.99.11:8080",
			  true);
	fixture_host_address("192.0.2.11");
	fixture_host_address("198.51.100.78");
	is_sent_back(unserved[_i].name, unserved[_i].request, &unserved[_i].with);
}
END_TEST

/* A ping and an ICMP error are not requests: they are dropped. */
START_TEST(test_no_request)
{
	const struct frame_options with = { .source_mac = NODE2 };
	struct frame error =
		error_about("udp 192.168.99.13:30081 > 203.0.113.9:5000",
			    "icmp 198.51.100.1 > 192.168.99.13", NODE2, ICMP_FRAG_NEEDED);

	hop("a ping", MK_HOOK_OVERLAY, "icmp 203.0.113.9 > 198.51.100.77 7", &with, DROPPED, NULL,
	    NULL);
	fixture_expect("an ICMP error", MK_HOOK_OVERLAY, &error, DROPPED, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_OVERLAY, MK_DROP_OVERLAY_STRAY), 2);
}
END_TEST

/* A packet that another node forwards to this host itself is no request for a Service. */
START_TEST(test_to_this_host)
{
	static const char *const flows[] = { "tcp 203.0.113.9:5000 > 192.168.99.11:22",
					     "udp 203.0.113.9:5000 > 10.18.0.1:53",
					     "tcp 203.0.113.9:5000 > 10.244.1.254:22" };
	const struct frame_options with = { .source_mac = NODE2 };

	for (size_t i = 0; i < ROWS(flows); i++)
		hop(flows[i], MK_HOOK_OVERLAY, flows[i], &with, TO_HOST, flows[i], NULL);
}
END_TEST

static void cut_in_two(const char *flow, const char *mac, struct frame part[2])
{
	const struct frame_options with = { .payload_bytes = 1000,
					    .id = 77,
					    .source_mac = mac,
					    .dest_mac = mac && between.ifindex ? OWN : NULL };
	const struct frame whole = frame_make(flow, &with);

	part[0] = frame_fragment(&whole, 0, 512);
	part[1] = frame_fragment(&whole, 512, 1008);
}

START_TEST(test_fragments_unserved)
{
	struct frame part[2];

	cut_in_two("udp 203.0.113.9:5000 > 192.168.99.12:30080", between.mac2, part);
	fixture_device(between.ifindex);
	for (size_t i = 0; i < ROWS(part); i++) {
		part[i] = fixture_expect("a fragment", between.hook, &part[i], TO_OVERLAY, NULL);
		ck_assert_str_eq(frame_mac_dest(&part[i]), NODE2);
		ck_assert_uint_eq(part[i].byte[ETH_ALEN], fixture_node()->vtep_mac[0] | 0x04);
	}
	fixture_device(0);
}
END_TEST

/* node2 delegates the flow to this node, so this node's session, which leads to node2, is of an earlier
 * endpoint. */
START_TEST(test_earlier_session)
{
	const struct taken *of = &taken[_i];
	char request[64], seen[64], frontend[64];
	const int proto = (int)strcspn(of->request, " ");

	snprintf(request, sizeof(request), "%.*s 203.0.113.9:5000 > 198.51.100.9:80", proto,
		 of->request);
	snprintf(seen, sizeof(seen), "%.*s 203.0.113.9:5000 > 10.244.1.3:8080", proto, of->request);
	snprintf(frontend, sizeof(frontend), "%.*s 198.51.100.9:80", proto, of->request);
	to_node2("the first", MK_HOOK_UPLINK, request, NULL, request);
	to_node2("the second", MK_HOOK_UPLINK, request, &of->next, request);
	delegated_service(frontend, MK_FRONTEND_MASQUERADE, "10.244.1.3:8080", true);
	from_node2("node2 delegates", request, NULL, TO_POD, seen);
	from_node2("more", request, &of->next, TO_POD, seen);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Carriers take a datagram that is too long for the overlay, or the client learns its MTU. */
START_TEST(test_long)
{
	const struct frame_options with = { .payload_bytes = 1440 };
	const char *request = "udp 203.0.113.9:5000 > 192.168.99.12:30080";
	struct frame out;

	if (!family_is6()) {
		is_sent_back("long", request, &with);
		return;
	}
	out = from_node(between.mac2, "long", request, &with, TO_UPLINK, NULL);
	ck_assert_ptr_nonnull(strstr(frame_flow(&out), "icmp-error 192.168.99.11 > 203.0.113.9 "));
	ck_assert_ptr_nonnull(strstr(frame_flow(&out), request));
}
END_TEST

/* A router of the client's tracks sees this node's own address. */
START_TEST(test_last_hop)
{
	static const char *const requests[] = { "udp 203.0.113.9:5000 > 192.168.99.12:30081",
						"udp 203.0.113.9:5000 > 192.168.99.12:30080" };
	const struct frame_options with = { .ttl = 1 };
	struct frame out;

	for (size_t i = 0; i < ROWS(requests); i++) {
		out = from_node(between.mac2, requests[i], requests[i], &with, TO_UPLINK, NULL);
		ck_assert_msg(strncmp(frame_flow(&out), "icmp-error 192.168.99.11 > 203.0.113.9 ",
				      39) == 0,
			      "%s", frame_flow(&out));
	}
}
END_TEST

/* ---- the node that was asked ----------------------------------------------------------------- */

static void comes_back(const char *name, const char *request, const struct frame_options *with,
		       enum where where, const char *seen)
{
	struct frame_options options = with ? *with : (struct frame_options){ 0 };

	options.source_mac = NODE2_BACK;
	hop(name, MK_HOOK_OVERLAY, request, &options, where, seen,
	    where == TO_OVERLAY ? NODE2 : NULL);
}

static const struct translated {
	const char *seen, *answer;
} translated[TAKEN_ROWS] = {
	{ "tcp 203.0.113.9:5000 > 10.244.2.7:8080", "tcp 10.244.2.7:8080 > 203.0.113.9:5000" },
	{ "udp 203.0.113.9:5000 > 10.244.2.7:8080", "udp 10.244.2.7:8080 > 203.0.113.9:5000" },
	{ "sctp 203.0.113.9:5000 > 10.244.2.7:8080", "sctp 10.244.2.7:8080 > 203.0.113.9:5000" },
	{ "tcp 203.0.113.9:5000 > 10.244.2.7:8080", "tcp 10.244.2.7:8080 > 203.0.113.9:5000" },
};

/* The flow goes on translated. */
static void goes_translated(int row)
{
	const struct taken *of = &taken[row];

	hop("the pod's answer", MK_HOOK_OVERLAY, translated[row].answer, &of->answers, TO_UPLINK,
	    of->answer, NULL);
	hop("the next one", MK_HOOK_UPLINK, of->request, &of->next, TO_OVERLAY,
	    translated[row].seen, NODE2);
	ck_assert_uint_eq(fixture_count("sessions"), 2);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}

START_TEST(test_comes_back)
{
	to_node2("the first", MK_HOOK_UPLINK, taken[_i].request, NULL, taken[_i].request);
	comes_back("back", taken[_i].request, NULL, TO_OVERLAY, translated[_i].seen);
	comes_back("again", taken[_i].request, NULL, TO_OVERLAY, translated[_i].seen);
	goes_translated(_i);
}
END_TEST

/* The pod's node has lost the session, and the pod. */
START_TEST(test_comes_back_later)
{
	take(&taken[_i]);
	comes_back("back", taken[_i].request, &taken[_i].next, TO_OVERLAY, translated[_i].seen);
	goes_translated(_i);
}
END_TEST

/* A half-open session gives its slot back. */
START_TEST(test_quota)
{
	fixture_quota(FIXTURE_QUOTA);
	to_node2("the first", MK_HOOK_UPLINK, taken[0].request, NULL, taken[0].request);
	comes_back("back", taken[0].request, NULL, TO_OVERLAY, translated[0].seen);
	ck_assert_int_eq(fixture_quota_used(), 1);
}
END_TEST

/* A pod of this node may have become the choice. */
START_TEST(test_local_now)
{
	to_node2("the first", MK_HOOK_UPLINK, taken[0].request, NULL, taken[0].request);
	delegated_service("tcp 192.168.99.11:30080", MK_FRONTEND_MASQUERADE, "10.244.1.3:8080",
			  true);
	comes_back("back", taken[0].request, NULL, TO_POD,
		   "tcp 203.0.113.9:5000 > 10.244.1.3:8080");
}
END_TEST

START_TEST(test_fragments_come_back)
{
	struct frame part[2];

	cut_in_two(taken[1].request, NULL, part);
	for (size_t i = 0; i < ROWS(part); i++)
		fixture_expect("a fragment", MK_HOOK_UPLINK, &part[i], between.where, NULL);
	cut_in_two(taken[1].request, NODE2_BACK, part);
	for (size_t i = 0; i < ROWS(part); i++)
		part[i] = fixture_expect("back", MK_HOOK_OVERLAY, &part[i], TO_OVERLAY, NULL);
	frame_join(&part[0], &part[1]);
	frame_say_length(&part[0], 1008);
	ck_assert_str_eq(frame_flow(&part[0]), translated[1].seen);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

START_TEST(test_segments_come_back)
{
	const struct frame_options with = { .payload_bytes = 3000, .tcp_flags = ACK };

	take(&taken[0]);
	fixture_gso(3, 1000);
	comes_back("back", taken[0].request, &with, TO_OVERLAY, translated[0].seen);
	fixture_gso(0, 0);
}
END_TEST

/* The Service is gone here as well: the client learns that, and this host sees nothing. */
START_TEST(test_service_gone)
{
	struct mk_frontend_key key = { .proto = IPPROTO_TCP, .scope = MK_SCOPE_EXTERNAL };
	const struct frame_options with = { .source_mac = NODE2_BACK };
	struct frame out;

	to_node2("the first", MK_HOOK_UPLINK, taken[0].request, NULL, taken[0].request);
	fixture_addr_port("192.168.99.11:30080", &key.addr, &key.port);
	ck_assert_int_eq(row_delete(fixture_map("frontends"), &key), 0);
	out = hop("back", MK_HOOK_OVERLAY, taken[0].request, &with, TO_UPLINK, NULL, NULL);
	ck_assert_ptr_nonnull(strstr(frame_flow(&out), "icmp-error 192.168.99.11 > 203.0.113.9 "));
}
END_TEST

/* It is never sent back again. Only the node that it went to can refuse it. */
START_TEST(test_strays)
{
	const struct frame_options of_node3 = { .source_mac = NODE3_BACK };

	comes_back("without a session", taken[0].request, NULL, DROPPED, NULL);
	comes_back("of an external address", taken[3].request, NULL, DROPPED, NULL);
	comes_back("of an unknown address", "tcp 203.0.113.9:5000 > 198.51.100.77:80", NULL,
		   DROPPED, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_OVERLAY, MK_DROP_OVERLAY_STRAY), 3);
	to_node2("a request", MK_HOOK_UPLINK, taken[0].request, NULL, taken[0].request);
	hop("by node3", MK_HOOK_OVERLAY, taken[0].request, &of_node3, between.where,
	    taken[0].request, between.to_node2);
	to_node2("the next one", MK_HOOK_UPLINK, taken[0].request, NULL, taken[0].request);
}
END_TEST

/* A device may have the mark in its MAC address. Its node sends by the link what is its own. */
START_TEST(test_device_alike)
{
	static const char mac[] = "06:4d:0a:12:00:02";
	const struct frame_options with = { .source_mac = mac, .dest_mac = OWN };

	put_link("10.18.0.2", "192.168.99.12", mac, second(0), true);
	fixture_device(between.ifindex);
	hop("to the host", MK_HOOK_UPLINK, "tcp 10.244.2.7:40000 > 10.18.0.1:10250", &with, TO_HOST,
	    NULL, NULL);
	fixture_device(0);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

static void add_both(TCase *tcase)
{
	tcase_add_loop_test(tcase, test_unserved, 0, ROWS(unserved));
	tcase_add_test(tcase, test_no_request);
	tcase_add_test(tcase, test_to_this_host);
	tcase_add_test(tcase, test_fragments_unserved);
	tcase_add_test(tcase, test_long);
	tcase_add_test(tcase, test_last_hop);
	tcase_add_loop_test(tcase, test_comes_back, 0, ROWS(taken));
	tcase_add_loop_test(tcase, test_comes_back_later, 0, ROWS(taken));
	tcase_add_loop_test(tcase, test_earlier_session, 0, ROWS(taken) - 1);
	tcase_add_test(tcase, test_fragments_come_back);
	tcase_add_test(tcase, test_segments_come_back);
	tcase_add_test(tcase, test_service_gone);
	tcase_add_test(tcase, test_quota);
	tcase_add_test(tcase, test_local_now);
	tcase_add_test(tcase, test_strays);
}

BPF_SUITE("sent_back")
{
	TCase *tcase;

	add_both(clients_case(suite, "sent_back", delegated_load, delegated_setup));
	tcase = clients_case(suite, "on the link", delegated_load_on_link, delegated_setup_on_link);
	add_both(tcase);
	tcase_add_test(tcase, test_device_alike);
}

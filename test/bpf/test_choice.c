// SPDX-License-Identifier: Apache-2.0
/* The endpoint of a new flow. From inside it is random, by weight. From outside it is Maglev's
 * choice, the same by any node and address. Flows pass the whole chain: model, compile, sync,
 * programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "bpf/cluster.h"
#include "bpf/run.h"

/* The value that chi-square exceeds once in a million times, by degrees of freedom. A correct
 * program fails here once in many years of daily runs. */
static const double one_in_a_million[] = { 0, 23.93, 27.63, 30.66, 33.38, 35.89 };

/* Return the last two bytes of the endpoint's address, which differ; 0: the flow reached no
 * endpoint. */
static unsigned endpoint_of(enum mk_hook hook, const char *flow)
{
	struct frame frame = frame_make(flow, NULL);
	unsigned net, host;

	if (fixture_send(hook, &frame, &frame) == DROPPED)
		return 0;
	if (sscanf(frame_flow(&frame), "%*s %*s > 10.244.%u.%u:8080", &net, &host) != 2)
		return 0;
	return net << 8 | host;
}

/* ---- from inside ------------------------------------------------------------------------------ */

static const struct {
	const char *name, *endpoints;
	uint16_t weight;
	enum mk_hook hook;
	const char *client;
	struct {
		unsigned endpoint, share;
	} shares[6];
	const char *to; /* NULL: the ClusterIP */
} inside[] = {
	{ "two, one elsewhere",
	  "L R",
	  1,
	  MK_HOOK_POD,
	  "10.244.1.2",
	  { { 0x103, 1 }, { 0x207, 1 } },
	  NULL },
	{ "six, uniform",
	  "L K P R S T",
	  1,
	  MK_HOOK_POD,
	  "10.244.1.2",
	  { { 0x103, 1 }, { 0x104, 1 }, { 0x102, 1 }, { 0x207, 1 }, { 0x208, 1 }, { 0x307, 1 } },
	  NULL },
	{ "six, uniform, from the host",
	  "L K P R S T",
	  1,
	  MK_HOOK_HOST,
	  "10.18.0.1",
	  { { 0x103, 1 }, { 0x104, 1 }, { 0x102, 1 }, { 0x207, 1 }, { 0x208, 1 }, { 0x307, 1 } },
	  NULL },
	{ "localEndpointWeight 2, three here",
	  "L K P R S T",
	  2,
	  MK_HOOK_POD,
	  "10.244.1.2",
	  { { 0x103, 2 }, { 0x104, 2 }, { 0x102, 2 }, { 0x207, 1 }, { 0x208, 1 }, { 0x307, 1 } },
	  NULL },
	{ "localEndpointWeight 7, one here",
	  "L R S",
	  7,
	  MK_HOOK_POD,
	  "10.244.1.2",
	  { { 0x103, 7 }, { 0x207, 1 }, { 0x208, 1 } },
	  NULL },
	{ "localEndpointWeight 50, one elsewhere",
	  "L K R",
	  50,
	  MK_HOOK_HOST,
	  "10.18.0.1",
	  { { 0x103, 50 }, { 0x104, 50 }, { 0x207, 1 } },
	  NULL },
	{ "localEndpointWeight 7, by this node's NodePort",
	  "L R S",
	  7,
	  MK_HOOK_POD,
	  "10.244.1.2",
	  { { 0x103, 7 }, { 0x207, 1 }, { 0x208, 1 } },
	  "192.168.99.11:30080" },
	{ "localEndpointWeight 7, by a load-balancer address",
	  "L R S",
	  7,
	  MK_HOOK_POD,
	  "10.244.1.2",
	  { { 0x103, 7 }, { 0x207, 1 }, { 0x208, 1 } },
	  "192.0.2.80:80" },
	{ "localEndpointWeight 7, by a load-balancer address, from the host",
	  "L R S",
	  7,
	  MK_HOOK_HOST,
	  "10.18.0.1",
	  { { 0x103, 7 }, { 0x207, 1 }, { 0x208, 1 } },
	  "192.0.2.80:80" },
	{ "localEndpointWeight without endpoint here",
	  "R S T",
	  9,
	  MK_HOOK_POD,
	  "10.244.1.2",
	  { { 0x207, 1 }, { 0x208, 1 }, { 0x307, 1 } },
	  NULL },
};

#define DRAWS 12000

static double chi_square(int row, const unsigned *seen, int kinds, unsigned shares)
{
	double sum = 0;

	for (int i = 0; i < kinds; i++) {
		double expected = (double)DRAWS * inside[row].shares[i].share / shares;

		sum += (seen[i] - expected) * (seen[i] - expected) / expected;
	}
	return sum;
}

START_TEST(test_inside)
{
	unsigned seen[6] = { 0 }, shares = 0;
	int kinds = 0;
	double chi;

	for (; kinds < 6 && inside[_i].shares[kinds].share; kinds++)
		shares += inside[_i].shares[kinds].share;
	cluster_start();
	cluster_service(NULL);
	cluster_weight(inside[_i].weight);
	cluster_endpoints(inside[_i].endpoints);
	(void)cluster_sync();
	for (unsigned draw = 0; draw < DRAWS; draw++) {
		unsigned endpoint;
		char flow[96];
		int kind = 0;

		snprintf(flow, sizeof(flow), "%s %s:%u > %s", draw % 2 ? "tcp" : "udp",
			 inside[_i].client, 1024 + draw,
			 inside[_i].to ? inside[_i].to : "10.96.0.10:80");
		endpoint = endpoint_of(inside[_i].hook, flow);
		while (kind < kinds && inside[_i].shares[kind].endpoint != endpoint)
			kind++;
		ck_assert_msg(kind < kinds, "%s: '%s' went to %x", inside[_i].name, flow, endpoint);
		seen[kind]++;
	}
	chi = chi_square(_i, seen, kinds, shares);
	ck_assert_msg(chi < one_in_a_million[kinds - 1], "%s: chi-square %.1f: %u %u %u %u %u %u",
		      inside[_i].name, chi, seen[0], seen[1], seen[2], seen[3], seen[4], seen[5]);
	cluster_stop();
}
END_TEST

/* ---- from outside ----------------------------------------------------------------------------- */

#define FLOWS 3000

/* Send flow @number: varying clients and ports, over TCP and UDP. */
static unsigned endpoint_from_outside(const char *to, unsigned number)
{
	char flow[96];

	snprintf(flow, sizeof(flow), "%s 203.0.%u.%u:%u > %s", number % 3 ? "tcp" : "udp",
		 113 + number % 7, 1 + number % 253, 1024 + number * 17 % 64000, to);
	return endpoint_of(MK_HOOK_UPLINK, flow);
}

static void send_flows(const char *to, unsigned endpoints[FLOWS])
{
	for (unsigned i = 0; i < FLOWS; i++) {
		endpoints[i] = endpoint_from_outside(to, i);
		ck_assert_msg(endpoints[i] != 0, "flow %u to %s went nowhere", i, to);
	}
}

/* Each node has its own endpoints first, and gets the slices in its own order. */
START_TEST(test_same_by_any_node)
{
	static const struct {
		const char *node, *slices, *to;
	} ways[] = {
		{ "node1", "L K R S T", "192.168.99.11:30080" },
		{ "node2", "T R | S K L", "192.168.99.12:30080" },
		{ "node3", "S | T | L | R | K", "192.168.99.13:30080" },
		{ "node2", "T R | S K L", "192.0.2.80:80" },
		{ "node3", "S | T | L | R | K", "198.51.100.7:80" },
	};
	unsigned first[FLOWS], other[FLOWS], different = 0;

	for (size_t i = 0; i < MK_ARRAY_SIZE(ways); i++) {
		fixture_reset();
		cluster_start_as(ways[i].node);
		cluster_service(NULL);
		cluster_endpoints(ways[i].slices);
		(void)cluster_sync();
		send_flows(ways[i].to, i ? other : first);
		cluster_stop();
		for (unsigned flow = 0; i && flow < FLOWS; flow++)
			ck_assert_msg(first[flow] == other[flow],
				      "flow %u reaches %x by node1 and %x by %s of %s", flow,
				      first[flow], other[flow], ways[i].to, ways[i].node);
	}
	for (unsigned flow = 1; flow < FLOWS; flow++)
		different += first[flow] != first[0];
	ck_assert_uint_gt(different, FLOWS / 2);
}
END_TEST

/* Clients outside are on no node. For NodePorts and load-balancer addresses the weight does not
 * count, because the nodes' tables would otherwise differ. */
START_TEST(test_weight_is_for_clients_inside)
{
	static const char *const ways[] = { "192.168.99.11:30080", "192.0.2.80:80" };
	unsigned first[FLOWS], other[FLOWS];

	for (size_t i = 0; i < MK_ARRAY_SIZE(ways); i++) {
		fixture_reset();
		cluster_start();
		cluster_service(NULL);
		cluster_endpoints("L K R S T");
		(void)cluster_sync();
		send_flows(ways[i], first);
		cluster_stop();
		fixture_reset();
		cluster_start();
		cluster_service(NULL);
		cluster_weight(50);
		cluster_endpoints("L K R S T");
		(void)cluster_sync();
		send_flows(ways[i], other);
		cluster_stop();
		for (unsigned flow = 0; flow < FLOWS; flow++)
			ck_assert_msg(first[flow] == other[flow], "flow %u to %s: %x and %x", flow,
				      ways[i], first[flow], other[flow]);
	}
}
END_TEST

/* Apply the endpoints 10.244.2.2 and so on, without number @gone. */
static void apply_many(unsigned count, unsigned gone)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	ck_assert_ptr_nonnull(out);
	fprintf(out,
		"{'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'addressType': "
		"'IPv4', 'metadata': {'namespace': 'x', 'name': 'many', 'labels': "
		"{'kubernetes.io/service-name': 's'}}, 'ports': [{'name': 'tcp', 'port': 8080}, "
		"{'name': 'udp', 'protocol': 'UDP', 'port': 8080}], 'endpoints': [");
	for (unsigned i = 0, some = 0; i < count; i++)
		if (i != gone)
			fprintf(out, "%s{'addresses': ['10.244.2.%u'], 'nodeName': 'node2'}",
				some++ ? "," : "", 2 + i);
	fprintf(out, "]}");
	fclose(out);
	cluster_object(text);
	free(text);
	(void)cluster_sync();
}

/* One of N endpoints leaves. Its flows go to others; a few percent of the other flows move
 * (test_maglev checks the table itself; this test checks flows). Before that, each endpoint has its
 * share. */
static const struct {
	unsigned count;
	double moved_max_percent;
} sizes[] = { { 2, 0 }, { 5, 5 }, { 10, 5 }, { 50, 7 }, { 100, 7 } };

static double chi_square_uniform(const unsigned *endpoints, unsigned count)
{
	double expected = (double)FLOWS / count, sum = 0;

	for (unsigned i = 0; i < count; i++) {
		unsigned seen = 0;

		for (unsigned flow = 0; flow < FLOWS; flow++)
			seen += endpoints[flow] == (0x200u | (2 + i));
		sum += (seen - expected) * (seen - expected) / expected;
	}
	return sum;
}

START_TEST(test_one_leaves)
{
	unsigned count = sizes[_i].count, gone = count / 2, left = 0, moved = 0;
	unsigned before[FLOWS], after[FLOWS];
	double percent, chi;

	cluster_start();
	cluster_service(NULL);
	apply_many(count, count);
	send_flows("192.0.2.80:80", before);
	apply_many(count, gone);
	fixture_empty("sessions_young");
	fixture_empty("sessions");
	send_flows("192.0.2.80:80", after);
	for (unsigned flow = 0; flow < FLOWS; flow++) {
		bool lost = before[flow] == (0x200u | (2 + gone));

		ck_assert_uint_ne(after[flow], 0x200u | (2 + gone));
		left += lost;
		moved += !lost && before[flow] != after[flow];
	}
	percent = 100.0 * moved / (FLOWS - left);
	chi = chi_square_uniform(before, count);
	printf("one of %u leaves, %.2f %% of the others' flows move; chi-square of shares %.1f\n",
	       count, percent, chi);
	ck_assert_msg(percent <= sizes[_i].moved_max_percent, "%u: %.2f %% moved", count, percent);
	/* the same flows each time, so a generous bound suffices: the mean is count - 1 */
	ck_assert_msg(chi <= 1.5 * count + 24, "%u: chi-square %.1f", count, chi);
	cluster_stop();
}
END_TEST

BPF_SUITE("choice")
{
	TCase *tcase = tcase_create("choice");

	tcase_add_unchecked_fixture(tcase, fixture_load_small, fixture_unload);
	tcase_add_checked_fixture(tcase, fixture_reset, NULL);
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, test_inside, 0, ROWS(inside));
	tcase_add_test(tcase, test_same_by_any_node);
	tcase_add_test(tcase, test_weight_is_for_clients_inside);
	tcase_add_loop_test(tcase, test_one_leaves, 0, ROWS(sizes));
	suite_add_tcase(suite, tcase);
}

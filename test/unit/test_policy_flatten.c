// SPDX-License-Identifier: Apache-2.0
/* Names by content, and random rules of ports and blocks: rows say what each of the rules says. */
#include <stdio.h>
#include <string.h>

#include "base/index.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "policy/ids.h"
#include "unit/policy_objects.h"
#include "unit/policy_world.h"
#include "unit/unit.h"

static struct policy_world world;
static unsigned long long random_state = 4711;

static void setup(void)
{
	world_begin_pods(&world);
}

static void teardown(void)
{
	world_end(&world);
}

static unsigned any(unsigned below)
{
	random_state = random_state * 6364136223846793005 + 1442695040888963407;
	return (unsigned)(random_state >> 33) % below;
}

/* Key 00 01 .. 0f, data 00 01 ..: appendix A of the paper, and vectors.h of its implementation. */
START_TEST(test_siphash)
{
	static const struct {
		size_t size;
		uint64_t hash;
	} vectors[] = {
		{ 0, 0x726fdb47dd0e0e31 }, { 1, 0x74f839c593dc67fd }, { 2, 0x0d6c8009d9a94f5a },
		{ 3, 0x85676696d7fb7e2d }, { 8, 0x93f5f5799a932462 }, { 15, 0xa129ca6149be45e5 },
	};
	uint8_t bytes[16];

	for (uint8_t i = 0; i < 16; i++)
		bytes[i] = i;
	for (size_t i = 0; i < MK_ARRAY_SIZE(vectors); i++)
		ck_assert_uint_eq(mk_siphash(bytes, bytes, vectors[i].size), vectors[i].hash);
}
END_TEST

/* ---- random rules ---------------------------------------------------------------------------- */

static struct policy_decision ask(const struct mk_ip *peer, uint8_t proto, uint16_t port)
{
	const struct mk_pod_row *pod = policy_rows_pod(&world.rows, "uid-x", "a", "x");
	const struct policy_question question = {
		.set = pod->set[MK_POLICY_INGRESS], .peer = *peer, .proto = proto, .port = port
	};

	return policy_rows_ask(&world.rows, &question);
}

#define RULES 12

struct range {
	unsigned first, last;
	bool udp;
};

static void put_port_rules(const struct range *ranges)
{
	char rules[RULES * 96] = "";
	size_t used = 0;

	for (int i = 0; i < RULES; i++)
		used += (size_t)snprintf(
			rules + used, sizeof(rules) - used,
			"%s{'ports': [{'protocol': '%s', 'port': %u, 'endPort': %u}]}",
			i ? ", " : "", ranges[i].udp ? "UDP" : "TCP", ranges[i].first,
			ranges[i].last);
	world_put(&world, IN("%s"), rules);
	world_compile(&world);
}

static unsigned expected_rule(const struct range *ranges, bool udp, unsigned port)
{
	for (unsigned i = 0; i < RULES; i++)
		if (ranges[i].udp == udp && port >= ranges[i].first && port <= ranges[i].last)
			return i + 1;
	return 0;
}

static void check_port(const struct range *ranges, bool udp, unsigned port)
{
	const struct mk_ip peer = ip_of("192.0.2.1");
	struct policy_decision decision =
		ask(&peer, udp ? IPPROTO_UDP : IPPROTO_TCP, (uint16_t)port);

	ck_assert(!decision.lacks_row);
	ck_assert_uint_eq(decision.rule, expected_rule(ranges, udp, port));
}

/* Each port in and beside the ends of 12 ranges, 200 times. */
START_TEST(test_random_ports)
{
	for (int turn = 0; turn < 200; turn++) {
		struct range ranges[RULES];

		for (int i = 0; i < RULES; i++) {
			ranges[i].first = 1 + any(any(2) ? 200 : 65535);
			ranges[i].last = ranges[i].first + any(any(2) ? 40 : 65536);
			if (ranges[i].last > 65535)
				ranges[i].last = 65535;
			ranges[i].udp = any(3) == 0;
		}
		put_port_rules(ranges);
		for (int i = 0; i < RULES; i++)
			for (int udp = 0; udp < 2; udp++) {
				check_port(ranges, udp, ranges[i].first - 1);
				check_port(ranges, udp, ranges[i].first);
				check_port(ranges, udp, ranges[i].last);
				check_port(ranges, udp, ranges[i].last & 0xfffe);
				check_port(ranges, udp,
					   ranges[i].last == 65535 ? 0 : ranges[i].last + 1);
			}
	}
}
END_TEST

struct random_block {
	struct mk_cidr cidr, except;
};

static void random_cidr(struct mk_cidr *cidr)
{
	struct mk_cidr any_bits = cidr_of("10.0.0.0/8");

	any_bits.ip.v4.s_addr = htonl(10U << 24 | any(4) << 16 | any(4) << 8 | any(256));
	any_bits.prefix_bits = (uint8_t)(any(33));
	*cidr = mk_cidr_network(&any_bits);
}

static void put_block_rules(struct random_block *blocks)
{
	char rules[RULES * 128] = "", cidr[MK_CIDR_STRLEN], except[MK_CIDR_STRLEN];
	size_t used = 0;

	for (int i = 0; i < RULES; i++) {
		random_cidr(&blocks[i].cidr);
		random_cidr(&blocks[i].except);
		used += (size_t)snprintf(
			rules + used, sizeof(rules) - used,
			"%s{'from': [{'ipBlock': {'cidr': '%s', 'except': ['%s']}}]}",
			i ? ", " : "", mk_cidr_format(&blocks[i].cidr, cidr),
			mk_cidr_format(&blocks[i].except, except));
	}
	world_put(&world, IN("%s"), rules);
	world_compile(&world);
}

static unsigned first_block(const struct random_block *blocks, const struct mk_ip *ip)
{
	for (unsigned i = 0; i < RULES; i++)
		if (mk_cidr_contains(&blocks[i].cidr, ip) &&
		    !mk_cidr_contains(&blocks[i].except, ip))
			return i + 1;
	return 0;
}

/* 60 addresses among 12 blocks with exceptions, 200 times. */
START_TEST(test_random_blocks)
{
	for (int turn = 0; turn < 200; turn++) {
		struct random_block blocks[RULES];

		put_block_rules(blocks);
		for (int i = 0; i < 60; i++) {
			struct mk_ip ip = blocks[any(RULES)].cidr.ip;
			struct policy_decision decision;

			ip.v4.s_addr ^= htonl(any(2) ? any(4) : any(1 << 18));
			decision = ask(&ip, IPPROTO_TCP, 80);
			ck_assert(!decision.lacks_row);
			ck_assert_uint_eq(decision.rule, first_block(blocks, &ip));
		}
	}
}
END_TEST

/* ---- sets for people ------------------------------------------------------------------------- */

START_TEST(test_describe)
{
	static const char expected[] =
		"\"direction\":\"ingress\",\"policies\":[\"a/p\",\"d\"],\"rules\":[{\"number\":1,"
		"\"tier\":\"network-policy\",\"policy\":\"a/p\",\"index\":0,\"action\":\"accept\","
		"\"peers\":\"podSelector app=y; namespaceSelector team in (blue,red); 10.0.0.0/8 "
		"except 10.1.0.0/16\",\"ports\":\"TCP 80, UDP 53-60, TCP web, SCTP\"},{\"number\":2,"
		"\"tier\":\"baseline\",\"policy\":\"d\",\"index\":0,\"name\":\"last\",\"action\":"
		"\"deny\",\"peers\":\"podSelector !env, namespaceSelector all\",\"ports\":\"any\"}]";

	world_put(
		&world, "%s",
		IN("{'from': [" PODS(LABEL("app", "y")) ", " SPACES(EXPRESSION("'key': 'team', 'operator': 'In', 'values': ['red', 'blue']")) ", " EXCEPT(
			"10.0.0.0/8",
			"'10.1.0.0/16'") "], 'ports': [{'port': 80}, {'protocol': 'UDP', "
					 "'port': 53, 'endPort': 60}, {'port': 'web'}, {'protocol': 'SCTP'}]}"));
	world_put(&world, "%s",
		  BASELINE("'ingress': [{'name': 'last', 'action': 'Deny', 'from': [" CPODS(
			  "", EXPRESSION("'key': 'env', 'operator': 'DoesNotExist'")) "]}]"));
	world_compile(&world);
	cleanup_json json_object *sets = mk_policies_describe(world.policies);
	const char *text = json_object_to_json_string_ext(
		sets, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);

	ck_assert_msg(strstr(text, expected), "%s", text);
	ck_assert_msg(strstr(text, "\"version\":1,\"keys\":["), "%s", text);
}
END_TEST

UNIT_SUITE("policy_flatten")
{
	TCase *tcase = unit_case(suite, "flatten", setup, teardown);

	tcase_add_test(tcase, test_siphash);
	tcase_add_test(tcase, test_random_ports);
	tcase_add_test(tcase, test_random_blocks);
	tcase_add_test(tcase, test_describe);
}

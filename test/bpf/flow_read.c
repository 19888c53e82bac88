// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "bpf/flow_internal.h"

struct flow_run run;

static const struct client clients[] = {
	{ "pod", "10.244.1.2", MK_HOOK_POD, TO_POD },
	{ "self", "10.244.1.2", MK_HOOK_POD, TO_POD },
	{ "host", VTEP, MK_HOOK_HOST, TO_HOST },
	{ "hostnet", NODE, MK_HOOK_HOST, TO_HOST },
	{ "own", NODE, MK_HOOK_HOST, TO_LOOPBACK },
	{ "outside", "203.0.113.10", MK_HOOK_UPLINK, TO_UPLINK },
	{ "node2", "192.168.99.12", MK_HOOK_UPLINK, TO_UPLINK },
	{ "forwarded", "172.17.0.2", MK_HOOK_HOST, TO_HOST },
};

static const struct {
	const char *name, *address;
} addresses[] = {
	{ "vip", "10.96.0.10" },
	{ "node", NODE },
	{ "ext", "198.51.100.7" },
	{ "lb", "192.0.2.80" },
};

const char *const flow_reasons[] = {
#define NAME_OF(name, text) #name,
	MK_DROP_REASONS(NAME_OF)
#undef NAME_OF
};

const char *flow_text(const char *fmt, ...)
{
	static char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return text;
}

static void read_client(const char *text, struct flow *flow)
{
	const char *at = strchr(text, '@');
	size_t length = at ? (size_t)(at - text) : strlen(text);

	for (size_t i = 0; i < MK_ARRAY_SIZE(clients); i++) {
		if (strlen(clients[i].name) != length ||
		    strncmp(clients[i].name, text, length) != 0)
			continue;
		flow->client = clients[i];
		snprintf(flow->address, sizeof(flow->address), "%s",
			 at ? at + 1 : clients[i].address);
		return;
	}
	expect(false, "no client is called '%s'", text);
}

static void read_to(const char *text, struct flow *flow)
{
	size_t length = strcspn(text, ":");

	for (size_t i = 0; i < MK_ARRAY_SIZE(addresses); i++) {
		if (strlen(addresses[i].name) != length ||
		    strncmp(addresses[i].name, text, length) != 0)
			continue;
		snprintf(flow->to, sizeof(flow->to), "%s%s", addresses[i].address, text + length);
		return;
	}
	snprintf(flow->to, sizeof(flow->to), "%s", text);
}

/* IPv6 has one loopback address. */
static void use_one_loopback(char *end, size_t size)
{
	char port[8] = "";

	if (!family_is6() || strncmp(end, "127.", 4) != 0)
		return;
	snprintf(port, sizeof(port), "%s", end + strcspn(end, ":"));
	snprintf(end, size, "127.0.0.1%s", port);
}

struct flow flow_read(const char *client, const char *proto, const char *to)
{
	struct flow flow = { 0 };

	read_client(client, &flow);
	snprintf(flow.proto, sizeof(flow.proto), "%s", strcmp(proto, "ping") ? proto : "icmp");
	read_to(to, &flow);
	use_one_loopback(flow.address, sizeof(flow.address));
	use_one_loopback(flow.to, sizeof(flow.to));
	return flow;
}

static int reason_of(const char *name)
{
	for (size_t i = 0; i < MK_DROP_COUNT; i++)
		if (strcmp(flow_reasons[i], name) == 0)
			return (int)i;
	expect(false, "no packet is dropped for '%s'", name);
	return -1;
}

static void read_target(const char *word, struct expected *expected)
{
	struct target *target = &expected->targets[expected->count++];

	expect(expected->count <= ENDPOINTS_MAX, "more than %d endpoints", ENDPOINTS_MAX);
	target->endpoint = cluster_endpoint(word[0]);
	expect(target->endpoint != NULL, "what is '%s'?", word);
	target->port = word[1] == ':' ? (unsigned)atoi(word + 2) : 8080;
	expect(word[1] == ':' || word[1] == '\0', "what is '%s'?", word);
}

struct expected flow_read_outcome(const char *text)
{
	static const struct {
		const char *name;
		enum outcome outcome;
	} words[] = {
		{ "refused", REFUSED },
		{ "untouched", UNTOUCHED },
		{ "outside", OUTSIDE },
		{ "pong", PONG },
	};
	struct expected expected = { .outcome = SERVED };
	char copy[128], *rest;

	for (size_t i = 0; i < MK_ARRAY_SIZE(words); i++)
		if (strcmp(words[i].name, text) == 0)
			return (struct expected){ .outcome = words[i].outcome };
	if (strncmp(text, "dropped ", 8) == 0)
		return (struct expected){ .outcome = DROP, .reason = reason_of(text + 8) };
	snprintf(copy, sizeof(copy), "%s", text);
	for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		if (strcmp(word, "kept") == 0)
			expected.source = KEPT;
		else if (strcmp(word, "masq") == 0)
			expected.source = MASQUERADED;
		else
			read_target(word, &expected);
	}
	expect(expected.count > 0, "no endpoint in '%s'", text);
	return expected;
}

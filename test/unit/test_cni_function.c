// SPDX-License-Identifier: Apache-2.0
/* Ports of function pods: valid configurations, and what ADD, CHECK, DEL and GC do with them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "datapath/maps/pin.h"
#include "datapath/maps/table.h"
#include "pod/endpoint/function.h"
#include "unit/cni_node.h"

static struct mk_error err;

#define ANNOTATIONS(members) \
	",\"runtimeConfig\":{\"io.kubernetes.cri.pod-annotations\":{" members "}}"
#define PORTS(mode)	  "\"networking.monokube.io/function-ports\":\"" mode "\""
#define NAMES(names)	  "\"networking.monokube.io/function-interfaces\":\"" names "\""
#define FUNCTION(members) ",\"function\":{" members "}"

/* Mode End: annotations, and a definition's members. */
#define ADDRESS(address) "\"networking.monokube.io/function-address\":\"" address "\""
#define ROUTES(routes)	 "\"networking.monokube.io/function-routes\":\"" routes "\""
#define END(more)	 ANNOTATIONS(PORTS("End") "," ADDRESS("10.9.0.1/24") more)
#define END_MEMBERS	 "\"port\":\"end\",\"mode\":\"End\""
#define END_ADDRESS	 END_MEMBERS ",\"address\":[\"10.9.0.1/24\"]"
#define EIGHT \
	"10.0.0.0/8,10.0.0.0/8,10.0.0.0/8,10.0.0.0/8,10.0.0.0/8,10.0.0.0/8,10.0.0.0/8,10.0.0.0/8"

/* ---- what a configuration says --------------------------------------------------------------- */

static const struct {
	const char *name, *fields;
	const char *text; /* mode and names, or the error's text */
	bool fails;
} configs[] = {
	{ "nothing", "", "0  ", false },
	{ "annotations of others", ANNOTATIONS("\"a.example/b\":\"c\""), "0  ", false },
	{ "no object", ",\"runtimeConfig\":{\"io.kubernetes.cri.pod-annotations\":null}", "0  ",
	  false },
	{ "Bridged", ANNOTATIONS(PORTS("Bridged")), "1 inside outside", false },
	{ "Inline", ANNOTATIONS(PORTS("Inline")), "2 inside outside", false },
	{ "Routed", ANNOTATIONS(PORTS("Routed")), "3 inside outside", false },
	{ "own names", ANNOTATIONS(PORTS("Inline") "," NAMES("lan0,wan0")), "2 lan0 wan0", false },
	{ "the longest names", ANNOTATIONS(PORTS("Inline") "," NAMES("abcdefghijklmno,b")),
	  "2 abcdefghijklmno b", false },
	{ "chain is free without a bridge", ANNOTATIONS(PORTS("Inline") "," NAMES("chain,b")),
	  "2 chain b", false },
	{ "small letters", ANNOTATIONS(PORTS("bridged")),
	  "function-ports is 'bridged': expected Bridged, Inline, Routed, Tap or End", true },
	{ "empty", ANNOTATIONS(PORTS("")), "function-ports is ''", true },
	{ "Tap", ANNOTATIONS(PORTS("Tap")), "4 inside ", false },
	{ "Tap, own name", ANNOTATIONS(PORTS("Tap") "," NAMES("copies")), "4 copies ", false },
	{ "Tap, two names", ANNOTATIONS(PORTS("Tap") "," NAMES("a,b")),
	  "is 'a,b': expected for mode Tap one name of a device", true },
	{ "Tap, a name and a comma", ANNOTATIONS(PORTS("Tap") "," NAMES("a,")), "is 'a,'", true },
	{ "Tap, no name", ANNOTATIONS(PORTS("Tap") "," NAMES("")), "is ''", true },
	{ "Tap, the first interface", ANNOTATIONS(PORTS("Tap") "," NAMES("eth0")), "is 'eth0'",
	  true },
	{ "names alone", ANNOTATIONS(NAMES("a,b")), "is set without", true },
	{ "one name", ANNOTATIONS(PORTS("Inline") "," NAMES("a")), "is 'a': expected two", true },
	{ "three names", ANNOTATIONS(PORTS("Inline") "," NAMES("a,b,c")), "is 'a,b,c'", true },
	{ "equal names", ANNOTATIONS(PORTS("Inline") "," NAMES("a,a")), "is 'a,a'", true },
	{ "no name", ANNOTATIONS(PORTS("Inline") "," NAMES(",b")), "is ',b'", true },
	{ "a path", ANNOTATIONS(PORTS("Inline") "," NAMES("../a,b")), "is '../a,b'", true },
	{ "a dot", ANNOTATIONS(PORTS("Inline") "," NAMES(".,b")), "is '.,b'", true },
	{ "a blank", ANNOTATIONS(PORTS("Inline") "," NAMES("a, b")), "is 'a, b'", true },
	{ "too long", ANNOTATIONS(PORTS("Inline") "," NAMES("abcdefghijklmnop,b")), "is 'abc",
	  true },
	{ "the first interface", ANNOTATIONS(PORTS("Inline") "," NAMES("eth0,b")), "is 'eth0,b'",
	  true },
	{ "lo", ANNOTATIONS(PORTS("Inline") "," NAMES("a,lo")), "is 'a,lo'", true },
	{ "the bridge", ANNOTATIONS(PORTS("Bridged") "," NAMES("chain,b")), "is 'chain,b'", true },
	{ "a definition: inside", FUNCTION("\"port\":\"inside\",\"mode\":\"Inline\""),
	  "2 eth0  alone", false },
	{ "a definition: outside", FUNCTION("\"port\":\"outside\",\"mode\":\"Bridged\""),
	  "1  eth0 alone", false },
	{ "a definition: a tap", FUNCTION("\"port\":\"inside\",\"mode\":\"Tap\""), "4 eth0  alone",
	  false },
	{ "a definition: a tap outside", FUNCTION("\"port\":\"outside\",\"mode\":\"Tap\""),
	  "function.port is 'outside': expected inside, the only port of mode Tap", true },
	{ "a definition's port", FUNCTION("\"port\":\"left\",\"mode\":\"Inline\""),
	  "function.port is 'left': expected inside or outside", true },
	{ "a definition's mode", FUNCTION("\"port\":\"inside\",\"mode\":\"x\""),
	  "function.mode is 'x'", true },
	{ "a definition without mode", FUNCTION("\"port\":\"inside\""),
	  "expected an object with the strings port and mode", true },
	{ "End", END(""), "5 end  10.9.0.1/24", false },
	{ "End, all of it",
	  ANNOTATIONS(PORTS("End") "," NAMES("up0") "," ADDRESS(
		  "fd00:9::1/64,10.9.0.1/32") "," ROUTES("10.9.1.7/24,fd00:a::/32,0.0.0.0/0")),
	  "5 up0  10.9.0.1/32 fd00:9::1/64 > 10.9.1.0/24 fd00:a::/32 0.0.0.0/0", false },
	{ "End, /31 has two hosts", ANNOTATIONS(PORTS("End") "," ADDRESS("10.9.0.0/31")),
	  "5 end  10.9.0.0/31", false },
	{ "End, 32 routes", END("," ROUTES(EIGHT "," EIGHT "," EIGHT "," EIGHT)), NULL, false },
	{ "End, 33 routes", END("," ROUTES(EIGHT "," EIGHT "," EIGHT "," EIGHT ",10.1.0.0/16")),
	  "function-routes has '10.1.0.0/16': expected at most 32", true },
	{ "End, two names", END("," NAMES("a,b")), "is 'a,b': expected for mode End one name",
	  true },
	{ "End without an address", ANNOTATIONS(PORTS("End")),
	  "mode End needs annotation networking.monokube.io/function-address", true },
	{ "End, no prefix", ANNOTATIONS(PORTS("End") "," ADDRESS("10.9.0.1")),
	  "function-address has '10.9.0.1': expected a host's address with its prefix", true },
	{ "End, a range", ANNOTATIONS(PORTS("End") "," ADDRESS("10.9.0.0/24")), "'10.9.0.0/24'",
	  true },
	{ "End, a range of IPv6", ANNOTATIONS(PORTS("End") "," ADDRESS("fd00::/64")), "'fd00::/64'",
	  true },
	{ "End, multicast", ANNOTATIONS(PORTS("End") "," ADDRESS("224.0.0.1/32")), "'224.0.0.1/32'",
	  true },
	{ "End, link-local", ANNOTATIONS(PORTS("End") "," ADDRESS("fe80::1/64")), "'fe80::1/64'",
	  true },
	{ "End, the next hop", ANNOTATIONS(PORTS("End") "," ADDRESS("169.254.77.2/32")),
	  "'169.254.77.2/32'", true },
	{ "End, a blank", ANNOTATIONS(PORTS("End") "," ADDRESS("10.9.0.1/24, fd00::1/64")),
	  "' fd00::1/64'", true },
	{ "End, a comma too many", ANNOTATIONS(PORTS("End") "," ADDRESS("10.9.0.1/24,")), "has ''",
	  true },
	{ "End, two addresses", ANNOTATIONS(PORTS("End") "," ADDRESS("10.9.0.1/24,10.9.0.2/24")),
	  "has '10.9.0.2/24': expected one address of each family", true },
	{ "End, a word as route", END("," ROUTES("10.9.1.0/24,all")),
	  "function-routes has 'all': expected a range", true },
	{ "End, a route without an address", END("," ROUTES("fd00::/64")),
	  "has 'fd00::/64': expected a range of a family that the end has an address of", true },
	{ "an address without End", ANNOTATIONS(PORTS("Tap") "," ADDRESS("10.9.0.1/24")),
	  "annotation networking.monokube.io/function-address is set without mode End", true },
	{ "routes without End", ANNOTATIONS(PORTS("Inline") "," ROUTES("10.9.1.0/24")),
	  "function-routes is set without mode End", true },
	{ "an address alone", ANNOTATIONS(ADDRESS("10.9.0.1/24")), "is set without mode End",
	  true },
	{ "a definition: an end", FUNCTION(END_ADDRESS), "5 eth0  alone 10.9.0.1/24", false },
	{ "a definition: an end, all of it",
	  FUNCTION(END_MEMBERS ",\"address\":[\"10.9.0.1/24\",\"fd00:9::1/64\"],"
			       "\"routes\":[\"10.9.1.0/24\",\"fd00:a::/64\"]"),
	  "5 eth0  alone 10.9.0.1/24 fd00:9::1/64 > 10.9.1.0/24 fd00:a::/64", false },
	{ "a definition: an end inside",
	  FUNCTION("\"port\":\"inside\",\"mode\":\"End\",\"address\":[\"10.9.0.1/24\"]"),
	  "function.port is 'inside': expected end, the only port of mode End", true },
	{ "a definition: a port end", FUNCTION("\"port\":\"end\",\"mode\":\"Inline\""),
	  "function.port is 'end': expected inside or outside", true },
	{ "a definition: an end without an address", FUNCTION(END_MEMBERS),
	  "mode End needs function.address", true },
	{ "a definition: an address that is no list",
	  FUNCTION(END_MEMBERS ",\"address\":\"10.9.0.1/24\""),
	  "function.address has '10.9.0.1/24': expected a list of strings", true },
	{ "a definition: an empty list", FUNCTION(END_MEMBERS ",\"address\":[]"),
	  "expected a list of strings", true },
	{ "a definition: a null", FUNCTION(END_MEMBERS ",\"address\":null"),
	  "expected a list of strings", true },
	{ "a definition: a number", FUNCTION(END_ADDRESS ",\"routes\":[7]"),
	  "function.routes has '7': expected strings", true },
	{ "a definition: an empty item", FUNCTION(END_ADDRESS ",\"routes\":[null]"),
	  "expected strings", true },
	{ "a definition: routes without End",
	  FUNCTION("\"port\":\"inside\",\"mode\":\"Tap\",\"routes\":[\"10.9.1.0/24\"]"),
	  "function.routes is set without mode End", true },
	{ "a definition that is a word", ",\"function\":\"inside\"", "function is \"inside\"",
	  true },
};

/* " ADDRESS.. > ROUTE.." */
static const char *end_text(const struct mk_cni_end *end, char *text, size_t size)
{
	char cidr[MK_CIDR_STRLEN];
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (end->addresses[i].ip.family)
			used += (size_t)snprintf(text + used, size - used, " %s",
						 mk_cidr_format(&end->addresses[i], cidr));
	for (size_t i = 0; i < end->route_count; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s", i ? " " : " > ",
					 mk_cidr_format(&end->routes[i], cidr));
	return text;
}

START_TEST(test_config)
{
	cleanup_cni_conf struct mk_cni_conf conf = { 0 };
	struct mk_cni_function function;
	struct mk_cni_failure failure = { 0 };
	const char *row = configs[_i].name;
	char input[1024], text[1024], end[512];
	int ret;

	snprintf(input, sizeof(input), "{\"cniVersion\":\"1.0.0\",\"name\":\"n\"%s}",
		 configs[_i].fields);
	ck_assert_int_eq(mk_cni_conf_parse(&conf, input, strlen(input), &failure), 0);
	ret = mk_cni_function_read(&function, &conf, "eth0", &failure);
	snprintf(text, sizeof(text), "%d %s %s%s%s", (int)function.mode,
		 function.names[MK_PORT_INSIDE], function.names[MK_PORT_OUTSIDE],
		 function.is_alone ? " alone" : "", end_text(&function.end, end, sizeof(end)));
	if (!configs[_i].fails) {
		ck_assert_msg(ret == 0, "%s: %s", row, failure.cause.text);
		ck_assert_msg(!configs[_i].text || strcmp(text, configs[_i].text) == 0, "%s: %s",
			      row, text);
		return;
	}
	ck_assert_msg(ret < 0 && failure.code == MK_CNI_INVALID_CONFIG, "%s: accepted", row);
	ck_assert_msg(strstr(failure.cause.text, configs[_i].text) != NULL, "%s: %s", row,
		      failure.cause.text);
}
END_TEST

/* ---- devices --------------------------------------------------------------------------------- */

static int count_port(void *ctx, const struct mk_link *link)
{
	*(int *)ctx += mk_port_of(link, NULL, NULL);
	return 0;
}

static int ports(void)
{
	cleanup_nl struct mk_nl *nl = mk_nl_open(&err);
	int count = 0;

	ck_ok(mk_nl_each_link(nl, count_port, &count, &err));
	return count;
}

/* Run a shell command in the host's namespace. */
static void on_host(const char *command)
{
	ck_assert_msg(system(command) == 0, "%s", command);
}

static void add_function(const char *name, const char *fields)
{
	new_netns(name);
	ck_assert_msg(call("ADD", name, netns_path(name), "1.1.0", fields) == 0, "%s", answer);
	ck_assert_int_eq(ports(), 2);
}

/* The host's end of the port with a side's digit. */
#define HOST_END(digit) "$(ip -o link | grep -o '\\bmk" digit "[a-z2-7]*')"

START_TEST(test_bridged)
{
	add_function("a", ANNOTATIONS(PORTS("Bridged")));
	inside("a", "ip -d link show chain | grep 'stp_state 0 .*mcast_snooping 0'");
	inside("a", "ip link show inside | grep 'master chain state UP'");
	inside("a", "ip link show outside | grep 'master chain state UP'");
	inside("a", "sh -c '! ip -6 addr | grep -A1 -E \"inside|outside|chain\" | grep inet6'");
	inside("a", "ip link show inside | grep 'mtu 65535'");
	ck_assert_ptr_nonnull(strstr(answer, "\"name\":\"inside\",\"mac\":\"06:4d:01:00:00:02\""));
	ck_assert_ptr_nonnull(strstr(answer, "\"name\":\"outside\""));
	on_host("tc filter show dev " HOST_END("0") " ingress | grep sfc_port");
	on_host("tc filter show dev " HOST_END("1") " ingress | grep sfc_port");
	ck_exist(1);
}
END_TEST

START_TEST(test_inline)
{
	add_function("a", ANNOTATIONS(PORTS("Inline") "," NAMES("lan0,wan0")));
	inside("a", "ip link show lan0 | grep 'mtu 1450 .*state UP'");
	inside("a", "ip link show wan0 | grep 'mtu 1450 .*state UP'");
	inside("a", "sh -c '! ip link show chain'");
	on_host("ethtool -k " HOST_END("0") " | grep '^tx-checksumming: off'");
	on_host("ethtool -k " HOST_END("1") " | grep 'tx-tcp-segmentation: off'");
}
END_TEST

START_TEST(test_routed)
{
	add_function("a", ANNOTATIONS(PORTS("Routed")));
	inside("a", "ip -4 addr show inside | grep 'inet 169.254.77.1/30'");
	inside("a", "ip -4 addr show outside | grep 'inet 169.254.77.5/30'");
	inside("a",
	       "ip neigh show dev inside | grep '169.254.77.2 lladdr 06:4d:03:00:00:01 PERMANENT'");
	inside("a", "sh -c 'test $(cat /proc/sys/net/ipv4/ip_forward) = 1'");
	/* what comes in at one port leaves by the other one */
	inside("a",
	       "ip route get 203.0.113.7 from 198.51.100.1 iif inside | grep 'via 169.254.77.6 dev outside'");
	inside("a",
	       "ip route get 203.0.113.7 from 198.51.100.1 iif outside | grep 'via 169.254.77.2 dev inside'");
	/* its own connections use its own interface */
	inside("a", "ip route get 203.0.113.7 | grep 'dev eth0 src 10.244.1.2'");
	inside("a", "ip route get 203.0.113.7 from 10.244.1.2 | grep 'dev eth0'");
	/* a proxy that answers as the server sends inside */
	inside("a", "ip rule | grep 'from all lookup 7701'");
	ck_assert_int_eq(call("DEL", "a", netns_path("a"), "1.1.0", ""), 0);
	inside("a", "sh -c '! ip rule | grep 10.244.1.2'");
}
END_TEST

START_TEST(test_tap)
{
	new_netns("a");
	ck_assert_msg(call("ADD", "a", netns_path("a"), "1.1.0", ANNOTATIONS(PORTS("Tap"))) == 0,
		      "%s", answer);
	ck_assert_int_eq(ports(), 1);
	inside("a", "ip link show inside | grep 'mtu 65535 .*state UP'");
	inside("a", "sh -c '! ip link show outside'");
	inside("a", "sh -c '! ip link show chain'");
	inside("a", "sh -c '! ip addr show inside | grep inet'");
	ck_assert_ptr_nonnull(strstr(answer, "\"name\":\"inside\",\"mac\":\"06:4d:04:00:00:02\""));
	ck_assert_ptr_null(strstr(answer, "\"name\":\"outside\""));
	on_host("tc filter show dev " HOST_END("0") " ingress | grep sfc_port");
	ck_assert_int_eq(call("DEL", "a", netns_path("a"), "1.1.0", ""), 0);
	ck_assert_int_eq(ports(), 0);
}
END_TEST

START_TEST(test_end)
{
	new_netns("a");
	ck_assert_msg(call("ADD", "a", netns_path("a"), "1.1.0",
			   END("," ROUTES("10.9.1.0/24,10.9.2.0/23"))) == 0,
		      "%s", answer);
	ck_assert_int_eq(ports(), 1);
	inside("a", "ip link show end | grep 'mtu 1450 .*state UP'");
	inside("a", "ip -4 addr show end | grep 'inet 10.9.0.1/32'");
	inside("a", "sh -c '! ip -6 addr show end | grep inet6'");
	inside("a",
	       "ip neigh show dev end | grep '169.254.77.2 lladdr 06:4d:05:00:00:01 PERMANENT'");
	inside("a", "ip route get 10.9.0.2 | grep 'via 169.254.77.2 dev end src 10.9.0.1'");
	inside("a", "ip route get 10.9.1.9 | grep 'via 169.254.77.2 dev end src 10.9.0.1'");
	inside("a", "ip route get 10.9.3.9 | grep 'via 169.254.77.2 dev end src 10.9.0.1'");
	/* all else uses its own interface */
	inside("a", "ip route get 10.9.4.9 | grep 'dev eth0 src 10.244.1.2'");
	inside("a", "sh -c 'test $(ip route show dev end | wc -l) = 3'");
	ck_assert_ptr_nonnull(strstr(answer, "\"name\":\"end\",\"mac\":\"06:4d:05:00:00:02\""));
	ck_assert_ptr_null(strstr(answer, "10.9.0.1"));
	on_host("tc filter show dev " HOST_END("0") " ingress | grep sfc_port");
	ck_assert_int_eq(call("DEL", "a", netns_path("a"), "1.1.0", ""), 0);
	ck_assert_int_eq(ports(), 0);
	inside("a", "sh -c '! ip link show end'");
}
END_TEST

/* A host's address without a range, and no route: the end answers only what others begin. */
START_TEST(test_end_without_routes)
{
	new_netns("a");
	ck_assert_msg(call("ADD", "a", netns_path("a"), "1.1.0",
			   ANNOTATIONS(PORTS("End") "," ADDRESS("10.9.0.1/32"))) == 0,
		      "%s", answer);
	inside("a", "ip -4 addr show end | grep 'inet 10.9.0.1/32'");
	inside("a", "sh -c 'test -z \"$(ip route show dev end)\"'");
}
END_TEST

/* What the pod routes already stays as it is. */
static const struct {
	const char *fields, *text;
} routes_taken[] = {
	{ END("," ROUTES("10.9.1.0/24,0.0.0.0/0")),
	  "the pod has a route to 0.0.0.0/0 by its interface 'eth0' already" },
	{ END("," ROUTES("10.244.0.0/16")), "a route to 10.244.0.0/16 by its interface 'eth0'" },
	{ ANNOTATIONS(PORTS("End") "," ADDRESS("10.244.1.77/24")), "a route to 10.244.1.0/24" },
	{ END("," ROUTES("198.51.100.0/24")),
	  "a route to 198.51.100.0/24 by its interface 'net1'" },
	{ ANNOTATIONS(PORTS("End") "," ADDRESS("10.9.0.1/24,fd00:9::1/64")),
	  "the pod has no address of IPv6, so its end cannot have fd00:9::1/64" },
};

START_TEST(test_end_in_the_way)
{
	new_netns("a");
	inside("a", "ip link add net1 up type bridge");
	inside("a", "ip route add 198.51.100.0/24 dev net1");
	ck_fails(call("ADD", "a", netns_path("a"), "1.1.0", routes_taken[_i].fields), 7,
		 routes_taken[_i].text);
	ck_assert_int_eq(ports(), 0);
	ck_exist(0);
}
END_TEST

/* A runtime that was killed between ADD and its answer asks again. */
START_TEST(test_end_again)
{
	new_netns("a");
	ck_assert_int_eq(call("ADD", "a", netns_path("a"), "1.1.0", END("")), 0);
	inside("a", "ip link del eth0");
	ck_assert_msg(call("ADD", "a", netns_path("a"), "1.1.0", END("")) == 0, "%s", answer);
	ck_assert_int_eq(ports(), 1);
}
END_TEST

#define V6                                                                          \
	",\"podCIDR\":\"fd00:10:244:1::/64\",\"clusterCIDR\":\"fd00:10:244::/48\"," \
	"\"vtepCIDR\":\"fd4d:4b00:12::/64\""

START_TEST(test_routed_ipv6)
{
	new_netns("a");
	ck_assert_msg(call("ADD", "a", netns_path("a"), "1.1.0", V6 ANNOTATIONS(PORTS("Routed"))) ==
			      0,
		      "%s", answer);
	inside("a", "ip -6 addr show inside | grep 'inet6 fe80::4d01/126'");
	inside("a", "sh -c 'test $(ip -6 addr show inside | grep -c inet6) = 1'");
	inside("a",
	       "ip -6 neigh show dev outside | grep 'fe80::4d06 lladdr 06:4d:03:01:00:01 router PERMANENT'");
	inside("a",
	       "ip route get 2001:db8::7 from 2001:db8:1::1 iif inside | grep 'via fe80::4d06 dev outside'");
	inside("a",
	       "ip route get 2001:db8::7 from 2001:db8:1::1 iif outside | grep 'via fe80::4d02 dev inside'");
	inside("a", "ip route get 2001:db8::7 | grep 'dev eth0 .*src fd00:10:244:1::2'");
}
END_TEST

START_TEST(test_end_ipv6)
{
	new_netns("a");
	ck_fails(call("ADD", "a", netns_path("a"), "1.1.0",
		      V6 ANNOTATIONS(PORTS("End") "," ADDRESS("fd00:9::1/64,10.9.0.1/24"))),
		 7, "the pod has no address of IPv4, so its end cannot have 10.9.0.1/24");
	ck_fails(call("ADD", "a", netns_path("a"), "1.1.0",
		      V6 ANNOTATIONS(PORTS("End") "," ADDRESS("fd00:9::1/64") "," ROUTES("::/0"))),
		 7, "the pod has a route to ::/0 by its interface 'eth0' already");
	ck_assert_msg(call("ADD", "a", netns_path("a"), "1.1.0",
			   V6 ANNOTATIONS(PORTS("End") "," ADDRESS("fd00:9::1/64") "," ROUTES(
				   "fd00:a::/48"))) == 0,
		      "%s", answer);
	inside("a", "ip -6 addr show end | grep 'inet6 fd00:9::1/128 .*nodad'");
	inside("a", "sh -c 'test $(ip -6 addr show end | grep -c inet6) = 1'");
	inside("a",
	       "ip -6 neigh show dev end | grep 'fe80::4d02 lladdr 06:4d:05:00:00:01 router PERMANENT'");
	inside("a", "ip route get fd00:9::2 | grep 'via fe80::4d02 dev end .*src fd00:9::1'");
	inside("a", "ip route get fd00:a::9 | grep 'via fe80::4d02 dev end .*src fd00:9::1'");
	inside("a", "ip route get 2001:db8::7 | grep 'dev eth0 .*src fd00:10:244:1::'");
}
END_TEST

START_TEST(test_del)
{
	add_function("a", ANNOTATIONS(PORTS("Bridged")));
	ck_assert_int_eq(call("DEL", "a", netns_path("a"), "1.1.0", ""), 0);
	ck_assert_int_eq(ports(), 0);
	ck_exist(0);
	/* the bridge stays in the namespace, for the next ADD */
	ck_assert_msg(call("ADD", "a", netns_path("a"), "1.1.0", ANNOTATIONS(PORTS("Bridged"))) ==
			      0,
		      "%s", answer);
	inside("a", "ip link show inside | grep 'master chain state UP'");
}
END_TEST

/* Nothing is left of a pod whose port cannot be made. */
START_TEST(test_taken)
{
	new_netns("a");
	inside("a", "ip link add outside type bridge");
	ck_fails(call("ADD", "a", netns_path("a"), "1.1.0", ANNOTATIONS(PORTS("Inline"))), 7,
		 "the pod has a device 'outside' of kind 'bridge' already");
	ck_assert_int_eq(ports(), 0);
	ck_exist(0);
}
END_TEST

START_TEST(test_bridge_taken)
{
	new_netns("a");
	inside("a", "ip link add chain type veth peer name other");
	ck_fails(call("ADD", "a", netns_path("a"), "1.1.0", ANNOTATIONS(PORTS("Bridged"))), 100,
		 "the pod has a device 'chain' of kind 'veth' already");
	ck_assert_int_eq(ports(), 0);
	ck_exist(0);
}
END_TEST

/* A runtime that was killed between ADD and its answer asks again. */
START_TEST(test_again)
{
	add_function("a", ANNOTATIONS(PORTS("Bridged")));
	inside("a", "ip link del eth0");
	ck_assert_msg(call("ADD", "a", netns_path("a"), "1.1.0", ANNOTATIONS(PORTS("Bridged"))) ==
			      0,
		      "%s", answer);
	ck_assert_int_eq(ports(), 2);
	ck_exist(1);
}
END_TEST

/* ---- tables of chains ------------------------------------------------------------------------ */

static void open_chains(sa_family_t family, struct mk_table *ports, struct mk_table *replicas)
{
	char dir[PATH_MAX];

	ck_ok(mk_pin_dir(dir, BPF_DIR, family, &err));
	ck_ok(mk_table_open(ports, dir, "sfc_ports", 4, sizeof(struct mk_sfc_port), &err));
	ck_ok(mk_table_open(replicas, dir, "sfc_replicas", 4, sizeof(struct mk_sfc_replica), &err));
}

struct port_numbers {
	uint32_t ifindex[MK_SFC_SIDES];
};

static int note_port(void *ctx, const struct mk_link *link)
{
	struct port_numbers *numbers = ctx;
	enum mk_port_side side;

	if (mk_port_of(link, NULL, &side))
		numbers->ifindex[side] = (uint32_t)link->ifindex;
	return 0;
}

/* The agent uses the ports as replica 5. The port of a tap or an end is that of both sides. */
static struct port_numbers use_ports(sa_family_t family)
{
	cleanup_nl struct mk_nl *nl = mk_nl_open(&err);
	cleanup_table struct mk_table ports = { 0 }, replicas = { 0 };
	struct mk_sfc_replica row = { .uid_hash = 1, .state = MK_SFC_USABLE };
	struct port_numbers numbers = { 0 };

	open_chains(family, &ports, &replicas);
	ck_ok(mk_nl_each_link(nl, note_port, &numbers, &err));
	numbers.ifindex[MK_SFC_OUTSIDE] =
		numbers.ifindex[MK_SFC_OUTSIDE] ?: numbers.ifindex[MK_SFC_INSIDE];
	for (uint8_t side = 0; side < MK_SFC_SIDES; side++) {
		struct mk_sfc_port port = { .replica = 5, .side = side };

		row.ifindex[side] = numbers.ifindex[side];
		ck_assert_uint_ne(numbers.ifindex[side], 0);
		ck_ok(mk_table_put(&ports, &numbers.ifindex[side], &port, &err));
	}
	ck_ok(mk_table_put(&replicas, &(uint32_t){ 5 }, &row, &err));
	return numbers;
}

static struct mk_sfc_replica replica_at(sa_family_t family, uint32_t number, size_t *port_count)
{
	cleanup_table struct mk_table ports = { 0 }, replicas = { 0 };
	cleanup_free void *keys = NULL;
	struct mk_sfc_replica row;

	open_chains(family, &ports, &replicas);
	ck_ok(mk_table_get(&replicas, &number, &row, &err));
	ck_ok(mk_table_keys(&ports, &keys, port_count, &err));
	return row;
}

static void ck_forgotten(sa_family_t family)
{
	size_t count;
	struct mk_sfc_replica row = replica_at(family, 5, &count);

	ck_assert_uint_eq(row.ifindex[MK_SFC_INSIDE], 0);
	ck_assert_uint_eq(row.ifindex[MK_SFC_OUTSIDE], 0);
	ck_assert_uint_eq(row.uid_hash, 1);
	ck_assert_uint_eq(count, 0);
}

/* DEL and GC, without an agent, in both families. */
static const struct {
	const char *ports, *verb, *container, *fields;
} removals[] = {
	{ ANNOTATIONS(PORTS("Inline")), "DEL", "a", "" },
	{ ANNOTATIONS(PORTS("Inline")), "GC", "", ",\"cni.dev/valid-attachments\":[]" },
	{ ANNOTATIONS(PORTS("Tap")), "DEL", "a", "" },
	{ ANNOTATIONS(PORTS("Tap")), "GC", "", ",\"cni.dev/valid-attachments\":[]" },
	{ END(""), "DEL", "a", "" },
	{ END(""), "GC", "", ",\"cni.dev/valid-attachments\":[]" },
};

START_TEST(test_chains_forget)
{
	const char *container = removals[_i].container;

	new_netns("a");
	ck_assert_msg(call("ADD", "a", netns_path("a"), "1.1.0", removals[_i].ports) == 0, "%s",
		      answer);
	use_ports(AF_INET);
	use_ports(AF_INET6);
	ck_assert_int_eq(call(removals[_i].verb, container, *container ? netns_path("a") : "",
			      "1.1.0", removals[_i].fields),
			 0);
	ck_assert_int_eq(ports(), 0);
	ck_forgotten(AF_INET);
	ck_forgotten(AF_INET6);
}
END_TEST

/* Another pod has got the replica's number: its entry stays. */
START_TEST(test_number_of_another)
{
	cleanup_table struct mk_table ports = { 0 }, replicas = { 0 };
	struct mk_sfc_replica row = { .uid_hash = 2, .ifindex = { 9001, 9002 } };
	size_t count;

	add_function("a", ANNOTATIONS(PORTS("Inline")));
	use_ports(AF_INET);
	open_chains(AF_INET, &ports, &replicas);
	ck_ok(mk_table_put(&replicas, &(uint32_t){ 5 }, &row, &err));
	ck_assert_int_eq(call("DEL", "a", netns_path("a"), "1.1.0", ""), 0);
	ck_assert_uint_eq(replica_at(AF_INET, 5, &count).ifindex[MK_SFC_OUTSIDE], 9002);
	ck_assert_uint_eq(count, 0);
}
END_TEST

/* Namespaces went without DEL, then the kernel gives their devices' numbers to a new port. */
START_TEST(test_number_again)
{
	cleanup_table struct mk_table ports_ = { 0 }, replicas = { 0 };
	cleanup_nl struct mk_nl *nl = mk_nl_open(&err);
	const struct mk_sfc_port stale = { .replica = 5 };
	struct port_numbers numbers = { 0 };
	struct mk_sfc_port port;

	open_chains(AF_INET, &ports_, &replicas);
	for (uint32_t ifindex = 1; ifindex < 100; ifindex++)
		ck_ok(mk_table_put(&ports_, &ifindex, &stale, &err));
	add_function("a", ANNOTATIONS(PORTS("Inline")));
	ck_ok(mk_nl_each_link(nl, note_port, &numbers, &err));
	for (size_t side = 0; side < MK_SFC_SIDES; side++) {
		ck_assert_uint_lt(numbers.ifindex[side], 100);
		ck_assert_int_eq(mk_table_get(&ports_, &numbers.ifindex[side], &port, NULL),
				 -ENOENT);
	}
}
END_TEST

/* ---- CHECK ----------------------------------------------------------------------------------- */

static const struct {
	const char *mode, *where, *command; /* in the pod, or on the host: where "" */
	const char *text;
} breaks[] = {
	{ "Bridged", "a", "ip link del inside", "port 'inside' has no interface" },
	{ "Bridged", "a", "ip link set outside down", "interface 'outside' is down" },
	{ "Bridged", "a", "ip link set outside nomaster", "is not a port of bridge 'chain'" },
	{ "Bridged", "a", "ip link del chain", "is not a port of bridge 'chain'" },
	{ "Bridged", "a", "ip link set inside address 02:00:00:00:00:01", "has MAC address 02:00" },
	{ "Inline", "a", "ip link set inside mtu 9000", "has MTU 9000, expected 1450" },
	{ "Inline", "", "ethtool -K " HOST_END("0") " tx on", "leaves checksums unfinished" },
	{ "Inline", "", "tc qdisc del dev " HOST_END("1") " clsact", "program 'sfc_port' is not" },
	{ "Tap", "a", "ip link del inside", "port 'inside' has no interface" },
	{ "Tap", "a", "ip link set inside mtu 1450", "has MTU 1450, expected 65535" },
	{ "Tap", "", "tc qdisc del dev " HOST_END("0") " clsact", "program 'sfc_port' is not" },
	{ "End", "a", "ip link del end", "port 'end' has no interface 'end'" },
	{ "End", "a", "ip link set end mtu 1400", "'end' has MTU 1400, expected 1450" },
	{ "End", "a", "ip link set end down", "interface 'end' is down" },
	{ "End", "a", "sh -c 'ip addr del 10.9.0.1/32 dev end'",
	  "address 10.9.0.1/32 is missing on interface 'end'" },
	{ "End", "a", "ip neigh del 169.254.77.2 dev end",
	  "permanent neighbour 169.254.77.2 is missing or wrong on interface 'end'" },
	{ "End", "a", "ip neigh replace 169.254.77.2 lladdr 02:00:00:00:00:01 dev end",
	  "permanent neighbour 169.254.77.2 is missing or wrong on interface 'end'" },
	{ "End", "a",
	  "ip neigh replace 169.254.77.2 lladdr 06:4d:05:00:00:01 nud reachable dev end",
	  "permanent neighbour 169.254.77.2 is missing or wrong on interface 'end'" },
	{ "End", "a", "ip route del 10.9.0.0/24",
	  "route to 10.9.0.0/24 via 169.254.77.2 is missing on interface 'end'" },
	{ "End", "a", "ip route replace 10.9.1.0/24 dev end",
	  "route to 10.9.1.0/24 via 169.254.77.2 is missing on interface 'end'" },
	{ "End", "", "tc qdisc del dev " HOST_END("0") " clsact", "program 'sfc_port' is not" },
};

static void fields_of_mode(const char *mode, char *fields, size_t size)
{
	if (strcmp(mode, "End") == 0)
		snprintf(fields, size, "%s", END("," ROUTES("10.9.1.0/24")));
	else
		snprintf(fields, size, ANNOTATIONS(PORTS("%s")), mode);
}

START_TEST(test_check)
{
	char fields[512], both[sizeof(answer) + sizeof(fields) + 32];

	fields_of_mode(breaks[_i].mode, fields, sizeof(fields));
	new_netns("a");
	ck_assert_msg(call("ADD", "a", netns_path("a"), "1.1.0", fields) == 0, "%s", answer);
	snprintf(both, sizeof(both), "%s,\"prevResult\":%s", fields, answer);
	ck_assert_msg(call("CHECK", "a", netns_path("a"), "1.1.0", both) == 0, "%s", answer);
	if (breaks[_i].where[0])
		inside(breaks[_i].where, breaks[_i].command);
	else
		on_host(breaks[_i].command);
	ck_fails(call("CHECK", "a", netns_path("a"), "1.1.0", both), 102, breaks[_i].text);
}
END_TEST

/* ---- GC, Multus ------------------------------------------------------------------------------ */

START_TEST(test_gc)
{
	new_netns("b");
	ck_assert_int_eq(call("ADD", "b", netns_path("b"), "1.1.0", ANNOTATIONS(PORTS("Inline"))),
			 0);
	new_netns("a");
	ck_assert_int_eq(call("ADD", "a", netns_path("a"), "1.1.0", ANNOTATIONS(PORTS("Inline"))),
			 0);
	ck_assert_int_eq(ports(), 4);
	ck_assert_int_eq(
		call("GC", "", "", "1.1.0",
		     ",\"cni.dev/valid-attachments\":[{\"containerID\":\"a\",\"ifname\":\"eth0\"}]"),
		0);
	ck_assert_int_eq(ports(), 2);
	inside("a", "ip link show inside");
	ck_exist(1);
}
END_TEST

static int port_verb(const char *verb, const char *port, const char *mode, const char *more)
{
	char fields[sizeof(answer) + 256];
	int ret;

	snprintf(fields, sizeof(fields), ",\"function\":{\"port\":\"%s\",\"mode\":\"%s\"}%s", port,
		 mode, more);
	cni_ifname = port;
	ret = call(verb, "a", netns_path("a"), "1.1.0", fields);
	cni_ifname = "eth0";
	return ret;
}

/* Multus runs one definition per port. */
START_TEST(test_definitions)
{
	char before[sizeof(answer) + 32];

	new_netns("a");
	add("a");
	ck_assert_msg(port_verb("ADD", "inside", "Bridged", "") == 0, "%s", answer);
	ck_assert_ptr_null(strstr(answer, "\"ips\""));
	ck_assert_msg(port_verb("ADD", "outside", "Bridged", "") == 0, "%s", answer);
	ck_assert_int_eq(ports(), 2);
	inside("a", "ip link show inside | grep 'master chain'");
	snprintf(before, sizeof(before), ",\"prevResult\":%s", answer);
	ck_assert_msg(port_verb("CHECK", "outside", "Bridged", before) == 0, "%s", answer);
	inside("a", "ip link set outside down");
	ck_fails(port_verb("CHECK", "outside", "Bridged", before), 102, "'outside' is down");
	/* GC of the definition's network knows nothing of others' devices */
	ck_assert_int_eq(port_verb("GC", "outside", "Bridged", ",\"cni.dev/valid-attachments\":[]"),
			 0);
	ck_exist(1);
	ck_assert_int_eq(port_verb("DEL", "outside", "Bridged", ""), 0);
	ck_assert_int_eq(ports(), 1);
	ck_assert_int_eq(call("DEL", "a", netns_path("a"), "1.1.0", ""), 0);
	ck_assert_int_eq(ports(), 0);
}
END_TEST

/* A tap is one definition. */
START_TEST(test_definition_of_tap)
{
	char before[sizeof(answer) + 32];

	new_netns("a");
	add("a");
	ck_fails(port_verb("ADD", "outside", "Tap", ""), 7, "the only port of mode Tap");
	ck_assert_msg(port_verb("ADD", "inside", "Tap", "") == 0, "%s", answer);
	ck_assert_int_eq(ports(), 1);
	snprintf(before, sizeof(before), ",\"prevResult\":%s", answer);
	ck_assert_msg(port_verb("CHECK", "inside", "Tap", before) == 0, "%s", answer);
	ck_assert_int_eq(port_verb("DEL", "outside", "Tap", ""), 0);
	ck_assert_int_eq(ports(), 1);
	ck_assert_int_eq(port_verb("DEL", "inside", "Tap", ""), 0);
	ck_assert_int_eq(ports(), 0);
}
END_TEST

#define END_MORE ",\"address\":[\"10.9.0.1/24\"],\"routes\":[\"10.9.1.0/24\"]"

static int end_verb(const char *verb, const char *more)
{
	char fields[sizeof(answer) + 256];
	int ret;

	snprintf(fields, sizeof(fields), FUNCTION(END_MEMBERS END_MORE) "%s", more);
	cni_ifname = "up0";
	ret = call(verb, "a", netns_path("a"), "1.1.0", fields);
	cni_ifname = "eth0";
	return ret;
}

/* An end is one definition. */
START_TEST(test_definition_of_end)
{
	char before[sizeof(answer) + 32];

	new_netns("a");
	add("a");
	ck_assert_msg(end_verb("ADD", "") == 0, "%s", answer);
	ck_assert_int_eq(ports(), 1);
	inside("a", "ip route get 10.9.1.9 | grep 'via 169.254.77.2 dev up0 src 10.9.0.1'");
	snprintf(before, sizeof(before), ",\"prevResult\":%s", answer);
	ck_assert_msg(end_verb("CHECK", before) == 0, "%s", answer);
	ck_fails(end_verb("ADD", ""), 7, "the pod has a device 'up0' of kind 'veth' already");
	ck_assert_int_eq(ports(), 1);
	inside("a", "ip route del 10.9.1.0/24");
	ck_fails(end_verb("CHECK", before), 102, "route to 10.9.1.0/24");
	ck_assert_int_eq(end_verb("DEL", ""), 0);
	ck_assert_int_eq(ports(), 0);
	ck_exist(1);
}
END_TEST

START_TEST(test_definition_alone)
{
	new_netns("a");
	ck_fails(port_verb("ADD", "inside", "Inline", ""), 7,
		 "has no interface 'eth0' of monokube");
	ck_assert_int_eq(port_verb("DEL", "inside", "Inline", ""), 0);
	ck_assert_int_eq(port_verb("DEL", "inside", "nonsense", ""), 0);
}
END_TEST

START_TEST(test_both_ways)
{
	add_function("a", ANNOTATIONS(PORTS("Inline") "," NAMES("lan0,wan0")));
	ck_fails(port_verb("ADD", "inside", "Inline", ""), 7,
		 "use annotations or network definitions, not both");
	ck_assert_int_eq(ports(), 2);
	inside("a", "ip link show lan0");
}
END_TEST

START_TEST(test_end_both_ways)
{
	new_netns("a");
	ck_assert_int_eq(call("ADD", "a", netns_path("a"), "1.1.0", END("")), 0);
	ck_fails(end_verb("ADD", ""), 7, "the pod has a port 'end' already");
	ck_assert_int_eq(ports(), 1);
}
END_TEST

UNIT_SUITE("cni_function")
{
	TCase *tc = tcase_create("configuration");

	tcase_add_loop_test(tc, test_config, 0, MK_ARRAY_SIZE(configs));
	suite_add_tcase(suite, tc);
	tc = cni_case(suite, "ports");
	tcase_add_test(tc, test_bridged);
	tcase_add_test(tc, test_inline);
	tcase_add_test(tc, test_routed);
	tcase_add_test(tc, test_tap);
	tcase_add_test(tc, test_end);
	tcase_add_test(tc, test_end_without_routes);
	tcase_add_loop_test(tc, test_end_in_the_way, 0, MK_ARRAY_SIZE(routes_taken));
	tcase_add_test(tc, test_end_again);
	tcase_add_test(tc, test_del);
	tcase_add_test(tc, test_taken);
	tcase_add_test(tc, test_bridge_taken);
	tcase_add_test(tc, test_again);
	tcase_add_loop_test(tc, test_check, 0, MK_ARRAY_SIZE(breaks));
	tcase_add_test(tc, test_gc);
	tcase_add_test(tc, test_definitions);
	tcase_add_test(tc, test_definition_of_tap);
	tcase_add_test(tc, test_definition_of_end);
	tcase_add_test(tc, test_end_both_ways);
	tcase_add_test(tc, test_definition_alone);
	tcase_add_test(tc, test_both_ways);
	tcase_add_test(tc, test_number_again);
	tcase_add_test(tc, test_number_of_another);
	tc = cni_case_of(suite, "chains", NODE_IPV4 | NODE_IPV6);
	tcase_add_loop_test(tc, test_chains_forget, 0, MK_ARRAY_SIZE(removals));
	tc = cni_case_of(suite, "IPv6", NODE_IPV6);
	tcase_add_test(tc, test_routed_ipv6);
	tcase_add_test(tc, test_end_ipv6);
}

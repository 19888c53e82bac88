// SPDX-License-Identifier: Apache-2.0
/* From a Service and its endpoints to frontends and backend sets, as node n1 in zone a sees it.
 *
 * A row's objects are JSON texts; the result is one line per set:
 *
 *	port [backends] frontends
 *
 * with `*` before a local backend, `in` or `out` before a frontend for its scope, and after it
 * +masq, +maglev, +drop for its flags, +ranges if the source ranges count. `prefers` and
 * `without-down` say why endpoints are left out. " | " separates the sets. */
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cluster/model/model.h"
#include "service/service.h"
#include "unit/model_text.h"
#include "unit/unit.h"

static struct mk_model *model;
static sa_family_t family;

static void setup(void)
{
	family = AF_INET;
	model = mk_model_new();
	ck_assert_ptr_nonnull(model);
}

static void teardown(void)
{
	mk_model_free(model);
}

static const char *proto_name(uint8_t proto)
{
	return proto == IPPROTO_TCP ? "tcp" : proto == IPPROTO_UDP ? "udp" : proto ? "sctp" : "any";
}

static void tell_set(struct line *line, const struct mk_backend_set *set)
{
	char buf[MK_IP_STRLEN];

	mk_line_add(line, "%s%s [", line->used ? " | " : "", set->port_name);
	for (size_t i = 0; i < set->backend_count; i++) {
		const struct mk_service_backend *backend = &set->backends[i];

		ck_assert_msg(backend->local == (i < set->local_count),
			      "the local ones come first");
		mk_line_add(line, "%s%s%s:%u", i ? " " : "", backend->local ? "*" : "",
			    mk_ip_format(&backend->ip, buf), backend->port);
	}
	mk_line_add(line, "]%s%s", set->frontends->flags & MK_FRONTEND_PREFERS ? " prefers" : "",
		    set->frontends->flags & MK_FRONTEND_WITHOUT_DOWN ? " without-down" : "");
	for (size_t i = 0; i < set->frontend_count; i++) {
		const struct mk_wanted_frontend *frontend = &set->frontends[i];

		mk_line_add(line, " %s %s:%u/%s%s%s%s%s",
			    frontend->scope == MK_SCOPE_INTERNAL ? "in" : "out",
			    mk_ip_format(&frontend->ip, buf), frontend->port,
			    proto_name(frontend->proto),
			    frontend->flags & MK_FRONTEND_MASQUERADE ? "+masq" : "",
			    frontend->flags & MK_FRONTEND_MAGLEV ? "+maglev" : "",
			    frontend->flags & MK_FRONTEND_DROP_EMPTY ? "+drop" : "",
			    frontend->filtered ? "+ranges" : "");
	}
}

static bool masquerade_all, localhost_node_ports;
static struct mk_cidr down[2]; /* views of clusters that are down */
static size_t down_count;

static void compile_of(const char *name, struct mk_compiled_service *out)
{
	struct mk_ip addresses[] = { ip_of("192.0.2.1"), ip_of("198.51.100.1"),
				     ip_of("fd00:c0:0:2::1"), ip_of("fd00:c6:33:64::1") };
	struct mk_service_view view = { .family = family,
					.node_name = "n1",
					.zone = "a",
					.node_addresses = addresses,
					.node_address_count = MK_ARRAY_SIZE(addresses),
					.local_weight = 3,
					.down = down,
					.down_count = down_count,
					.masquerade_all = masquerade_all,
					.localhost_node_ports = localhost_node_ports };
	struct mk_error err = { 0 };

	ck_assert_msg(mk_service_compile(model, &view, "x", name, out, &err) == 0, "%s", err.text);
	for (size_t i = 0; i < out->set_count; i++)
		ck_assert_uint_eq(out->sets[i].local_weight, 3);
}

static void compile(struct mk_compiled_service *out)
{
	compile_of("s", out);
}

/* ---- both families --------------------------------------------------------------------------- */

/* Write the IPv6 form of an IPv4 address or range: a.b.c.d is fd00:a:b:c::d with bytes in hex. */
static size_t write_v6(const char *quad, size_t length, char *out)
{
	char text[MK_CIDR_STRLEN] = "";
	unsigned byte[4], bits = 0;
	bool is_range;
	struct mk_ip ip;

	memcpy(text, quad, length);
	is_range =
		sscanf(text, "%u.%u.%u.%u/%u", &byte[0], &byte[1], &byte[2], &byte[3], &bits) > 4;
	if (byte[0] == 127)
		snprintf(text, sizeof(text), "::1");
	else if (byte[0] == 0)
		snprintf(text, sizeof(text), "::");
	else
		snprintf(text, sizeof(text), "fd00:%x:%x:%x::%x", byte[0], byte[1], byte[2],
			 byte[3]);
	ip = ip_of(text);
	mk_ip_format(&ip, out);
	if (is_range)
		sprintf(out + strlen(out), "/%u", bits > 24 ? 96 + bits : bits ? 16 + 2 * bits : 0);
	return strlen(out);
}

/* Return @text, or its IPv6 form if that is the family of the test. */
static const char *in_family(const char *text)
{
	static char out[2][8192];
	static unsigned turn;
	char *at = out[turn++ % 2];

	if (family == AF_INET)
		return text;
	for (char *to = at; (*to = *text); text++, to++) {
		size_t length = strspn(text, "0123456789./");
		unsigned bytes[4];

		if (strncmp(text, "IPv4", 4) == 0) {
			to = stpcpy(to, "IPv6") - 1;
			text += 3;
		} else if (length && sscanf(text, "%3u.%3u.%3u.%3u", &bytes[0], &bytes[1],
					    &bytes[2], &bytes[3]) == 4) {
			to += write_v6(text, length, to) - 1;
			text += length - 1;
		}
	}
	return at;
}

static void apply_row(const char *object)
{
	apply_good_text(model, in_family(object));
}

/* Each row runs in both families: for IPv6 after the last one. Returns the row. */
static size_t row_of(int number, size_t rows)
{
	family = (size_t)number < rows ? AF_INET : AF_INET6;
	return (size_t)number % rows;
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define META	  "'metadata': {'name': 's', 'namespace': 'x'}"
#define SVC(spec) "{'apiVersion': 'v1', 'kind': 'Service', " META ", 'spec': {" spec "}}"
#define VIP	  "'clusterIP': '10.96.0.1'"
#define HTTP	  "'ports': [{'name': 'http', 'port': 80}]"
#define NODE_PORT \
	"'type': 'NodePort', " VIP ", 'ports': [{'name': 'http', 'port': 80, 'nodePort': 30080}]"
#define EXT_LOCAL "'externalTrafficPolicy': 'Local'"
#define INT_LOCAL "'internalTrafficPolicy': 'Local'"
#define LB(spec, ingress)                                                                         \
	"{'apiVersion': 'v1', 'kind': 'Service', " META ", 'spec': {'type': 'LoadBalancer', " VIP \
	", " HTTP spec "}, 'status': {'loadBalancer': {'ingress': [" ingress "]}}}"
#define RANGES(ranges)                                                                            \
	"{'apiVersion': 'v1', 'kind': 'Service', " META ", 'spec': {'type': 'LoadBalancer', " VIP \
	", 'externalIPs': ['203.0.113.1'], 'loadBalancerSourceRanges': [" ranges "], 'ports':"    \
	"[{'name': 'http', 'port': 80, 'nodePort': 30080}]}, 'status': {'loadBalancer': "         \
	"{'ingress': [{'ip': '203.0.113.2'}]}}}"
#define OTHER_NODE(address)                                                            \
	"{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n2'}, 'spec': {}," \
	"'status': {'addresses': [{'type': 'InternalIP', 'address': '" address "'}]}}"
#define SLICE(endpoints)                                                                         \
	"{'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'addressType': 'IPv4', " \
	"'metadata': {'name': 's-1', 'namespace': 'x', 'labels': {'kubernetes.io/service-name':" \
	"'s'}}, 'ports': [{'name': 'http', 'port': 8080}], 'endpoints': [" endpoints "]}"
#define EP(address, node, rest) "{'addresses': ['" address "'], 'nodeName': '" node "'" rest "}"
#define TERMINATING		", 'conditions': {'ready': false, 'serving': true, 'terminating': true}"
#define GONE			", 'conditions': {'ready': false, 'serving': false, 'terminating': true}"
#define NOT_READY		", 'conditions': {'ready': false, 'serving': false}"
#define ZONE(zone)		", 'hints': {'forZones': [{'name': '" zone "'}]}"
#define NODE(node)		", 'hints': {'forNodes': [{'name': '" node "'}], 'forZones': [{'name': 'b'}]}"
#define TWO			SLICE(EP("10.1.2.2", "n2", "") "," EP("10.1.1.1", "n1", ""))
#define REMOTE			SLICE(EP("10.1.2.2", "n2", ""))

#define VIP_FRONTENDS " in 10.96.0.1:0/any in 10.96.0.1:80/tcp out 10.96.0.1:80/tcp+masq"

static const struct {
	const char *name, *objects[3], *expected;
} cases[] = {
	{ "no such Service", { TWO }, "" },
	{ "ClusterIP, the local one first",
	  { SVC(VIP ", " HTTP), TWO },
	  "http [*10.1.1.1:8080 10.1.2.2:8080]" VIP_FRONTENDS },
	{ "no endpoints: refused", { SVC(VIP ", " HTTP) }, "http []" VIP_FRONTENDS },
	{ "headless", { SVC("'clusterIP': 'None', " HTTP), TWO }, "" },
	{ "no address", { SVC(HTTP), TWO }, "" },
	{ "ExternalName", { SVC("'type': 'ExternalName', " VIP ", " HTTP), TWO }, "" },
	{ "no ports", { SVC(VIP), TWO }, "" },
	{ "another proxy's",
	  { "{'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 's', 'namespace': 'x', "
	    "'labels':"
	    "{'service.kubernetes.io/service-proxy-name': 'p'}}, 'spec': {" VIP ", " HTTP "}}",
	    TWO },
	  "" },
	{ "port of another name",
	  { SVC(VIP ", 'ports': [{'name': 'web', 'port': 80}]"), TWO },
	  "web []" VIP_FRONTENDS },
	{ "port of another protocol",
	  { SVC(VIP ", 'ports': [{'name': 'http', 'port': 80, 'protocol': 'UDP'}]"), TWO },
	  "http [] in 10.96.0.1:0/any in 10.96.0.1:80/udp out 10.96.0.1:80/udp+masq" },
	{ "two ports, one number on two protocols",
	  { SVC(VIP ", 'ports': [{'name': 'dns', 'port': 53, 'protocol': 'UDP'}, {'name': "
		    "'dns-tcp', 'port': 53}]"),
	    "{'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'addressType': 'IPv4', "
	    "'metadata':"
	    "{'name': 's-1', 'namespace': 'x', 'labels': {'kubernetes.io/service-name': 's'}}, "
	    "'ports':"
	    "[{'name': 'dns', 'port': 5353, 'protocol': 'UDP'}, {'name': 'dns-tcp', 'port': "
	    "5354}], 'endpoints': [" EP("10.1.2.2", "n2", "") "]}" },
	  "dns [10.1.2.2:5353] in 10.96.0.1:0/any in 10.96.0.1:53/udp out 10.96.0.1:53/udp+masq | "
	  "dns-tcp [10.1.2.2:5354] in 10.96.0.1:53/tcp out 10.96.0.1:53/tcp+masq" },
	{ "Endpoints object",
	  { SVC(VIP ", " HTTP),
	    "{'apiVersion': 'v1', 'kind': 'Endpoints', " META ", 'subsets': [{'addresses':"
	    "[{'ip': '10.1.2.2'}], 'notReadyAddresses': [{'ip': '10.1.2.3'}], 'ports': [{'name': "
	    "'http', 'port': 8080}]}]}" },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS },
	/* which endpoints */
	{ "not ready",
	  { SVC(VIP ", " HTTP),
	    SLICE(EP("10.1.2.2", "n2", "") "," EP("10.1.1.1", "n1", NOT_READY)) },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS },
	{ "terminating while others are ready",
	  { SVC(VIP ", " HTTP),
	    SLICE(EP("10.1.2.2", "n2", "") "," EP("10.1.1.1", "n1", TERMINATING)) },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS },
	{ "none ready: those that serve to their end",
	  { SVC(VIP ", " HTTP),
	    SLICE(EP("10.1.2.2", "n2", TERMINATING) "," EP("10.1.1.1", "n1", GONE) "," EP(
		    "10.1.1.3", "n1", NOT_READY)) },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS },
	{ "node unknown is remote",
	  { SVC(VIP ", " HTTP), SLICE("{'addresses': ['10.1.1.1']}") },
	  "http [10.1.1.1:8080]" VIP_FRONTENDS },
	/* topology */
	{ "zone hints",
	  { SVC(VIP ", " HTTP),
	    SLICE(EP("10.1.1.1", "n1", ZONE("a")) "," EP("10.1.2.2", "n2", ZONE("b"))) },
	  "http [*10.1.1.1:8080]" VIP_FRONTENDS },
	{ "zone hints, none for us",
	  { SVC(VIP ", " HTTP),
	    SLICE(EP("10.1.1.1", "n1", ZONE("c")) "," EP("10.1.2.2", "n2", ZONE("b"))) },
	  "http [*10.1.1.1:8080 10.1.2.2:8080]" VIP_FRONTENDS },
	{ "zone hints, one missing",
	  { SVC(VIP ", " HTTP),
	    SLICE(EP("10.1.1.1", "n1", ZONE("a")) "," EP("10.1.2.2", "n2", "")) },
	  "http [*10.1.1.1:8080 10.1.2.2:8080]" VIP_FRONTENDS },
	{ "zone hints, one missing on an endpoint that is not ready",
	  { SVC(VIP ", " HTTP),
	    SLICE(EP("10.1.1.1", "n1", ZONE("a")) "," EP("10.1.2.3", "n2", ZONE("b")) "," EP(
		    "10.1.2.2", "n2", NOT_READY)) },
	  "http [*10.1.1.1:8080]" VIP_FRONTENDS },
	{ "node hints go before zone hints",
	  { SVC(VIP ", " HTTP),
	    SLICE(EP("10.1.1.1", "n1", NODE("n2")) "," EP("10.1.2.2", "n2", NODE("n1"))) },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS },
	{ "hints do not count where all are terminating",
	  { SVC(VIP ", " HTTP), SLICE(EP("10.1.1.1", "n1", TERMINATING ZONE("a")) "," EP(
					"10.1.2.2", "n2", TERMINATING ZONE("b"))) },
	  "http [*10.1.1.1:8080 10.1.2.2:8080]" VIP_FRONTENDS },
	/* internal policy */
	{ "internal policy Local",
	  { SVC(VIP ", " INT_LOCAL ", " HTTP), TWO },
	  "http [*10.1.1.1:8080]" VIP_FRONTENDS },
	{ "internal policy Local, endpoints elsewhere: silent",
	  { SVC(VIP ", " INT_LOCAL ", " HTTP), REMOTE },
	  "http [] in 10.96.0.1:0/any in 10.96.0.1:80/tcp+drop out 10.96.0.1:80/tcp+masq+drop" },
	{ "internal policy Local, no endpoints at all: refused",
	  { SVC(VIP ", " INT_LOCAL ", " HTTP), SLICE(EP("10.1.2.2", "n2", GONE)) },
	  "http []" VIP_FRONTENDS },
	{ "internal policy Local falls back on its own",
	  { SVC(VIP ", " INT_LOCAL ", " HTTP),
	    SLICE(EP("10.1.2.2", "n2", "") "," EP("10.1.1.1", "n1", TERMINATING)) },
	  "http [*10.1.1.1:8080]" VIP_FRONTENDS },
	{ "internal policy Local does not look at hints",
	  { SVC(VIP ", " INT_LOCAL ", " HTTP),
	    SLICE(EP("10.1.2.2", "n2", ZONE("a")) "," EP("10.1.1.1", "n1", ZONE("b"))) },
	  "http [*10.1.1.1:8080]" VIP_FRONTENDS },
	/* NodePort */
	{ "NodePort",
	  { SVC(NODE_PORT), TWO },
	  "http [*10.1.1.1:8080 10.1.2.2:8080]" VIP_FRONTENDS
	  " in 192.0.2.1:30080/tcp+masq out 192.0.2.1:30080/tcp+masq+maglev"
	  " in 198.51.100.1:30080/tcp+masq out 198.51.100.1:30080/tcp+masq+maglev" },
	{ "NodePort, policy Local: any endpoint from inside, the local ones from outside",
	  { SVC(NODE_PORT ", " EXT_LOCAL), TWO },
	  "http [*10.1.1.1:8080 10.1.2.2:8080]" VIP_FRONTENDS
	  " in 192.0.2.1:30080/tcp in 198.51.100.1:30080/tcp | "
	  "http [*10.1.1.1:8080] out 192.0.2.1:30080/tcp+maglev out "
	  "198.51.100.1:30080/tcp+maglev" },
	{ "NodePort, policy Local, endpoints elsewhere: silent from outside",
	  { SVC(NODE_PORT ", " EXT_LOCAL), REMOTE },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS
	  " in 192.0.2.1:30080/tcp in 198.51.100.1:30080/tcp | "
	  "http [] out 192.0.2.1:30080/tcp+maglev+drop out 198.51.100.1:30080/tcp+maglev+drop" },
	{ "NodePort, policy Local, no endpoints at all: refused",
	  { SVC(NODE_PORT ", " EXT_LOCAL) },
	  "http []" VIP_FRONTENDS " in 192.0.2.1:30080/tcp out 192.0.2.1:30080/tcp+maglev"
	  " in 198.51.100.1:30080/tcp out 198.51.100.1:30080/tcp+maglev" },
	{ "NodePort, policy Local, all endpoints here: one set",
	  { SVC(NODE_PORT ", " EXT_LOCAL), SLICE(EP("10.1.1.1", "n1", "")) },
	  "http [*10.1.1.1:8080]" VIP_FRONTENDS
	  " in 192.0.2.1:30080/tcp out 192.0.2.1:30080/tcp+maglev"
	  " in 198.51.100.1:30080/tcp out 198.51.100.1:30080/tcp+maglev" },
	{ "NodePort, both policies Local",
	  { SVC(NODE_PORT ", " INT_LOCAL ", " EXT_LOCAL), TWO },
	  "http [*10.1.1.1:8080 10.1.2.2:8080] in 192.0.2.1:30080/tcp in 198.51.100.1:30080/tcp | "
	  "http [*10.1.1.1:8080]" VIP_FRONTENDS
	  " out 192.0.2.1:30080/tcp+maglev out 198.51.100.1:30080/tcp+maglev" },
	/* externalIPs, load balancers */
	{ "externalIPs of a ClusterIP Service",
	  { SVC(VIP ", 'externalIPs': ['203.0.113.1'], " HTTP), REMOTE },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS
	  " in 203.0.113.1:0/any in 203.0.113.1:80/tcp+masq out 203.0.113.1:80/tcp+masq+maglev" },
	{ "load balancer",
	  { LB("", "{'ip': '203.0.113.2'}, {'hostname': 'a.b'}, {'ip': '203.0.113.3', 'ipMode': "
		   "'Proxy'}"),
	    REMOTE },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS
	  " in 203.0.113.2:0/any in 203.0.113.2:80/tcp+masq out 203.0.113.2:80/tcp+masq+maglev" },
	{ "load balancer address that is an externalIP too",
	  { LB(", 'externalIPs': ['203.0.113.2']", "{'ip': '203.0.113.2'}"), REMOTE },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS
	  " in 203.0.113.2:0/any in 203.0.113.2:80/tcp+masq out 203.0.113.2:80/tcp+masq+maglev" },
	{ "externalIP that is the clusterIP: the ClusterIP stays",
	  { SVC(VIP ", 'externalIPs': ['10.96.0.1'], " HTTP), REMOTE },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS },
	{ "externalIP that is this node's: its other ports stay the node's",
	  { SVC(VIP ", 'externalIPs': ['192.0.2.1'], " HTTP), REMOTE },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS
	  " in 192.0.2.1:80/tcp+masq out 192.0.2.1:80/tcp+masq+maglev" },
	{ "externalIP that is another node's: its other ports stay that node's",
	  { SVC(VIP ", 'externalIPs': ['192.0.2.9'], " HTTP), REMOTE, OTHER_NODE("192.0.2.9") },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS
	  " in 192.0.2.9:80/tcp+masq out 192.0.2.9:80/tcp+masq+maglev" },
	{ "load balancer address that is another node's",
	  { LB("", "{'ip': '192.0.2.9'}"), REMOTE, OTHER_NODE("192.0.2.9") },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS
	  " in 192.0.2.9:80/tcp+masq out 192.0.2.9:80/tcp+masq+maglev" },
	{ "externalIPs, policy Local: any endpoint from inside, the local ones from outside",
	  { SVC(VIP ", 'externalIPs': ['203.0.113.1'], " EXT_LOCAL ", " HTTP), TWO },
	  "http [*10.1.1.1:8080 10.1.2.2:8080]" VIP_FRONTENDS
	  " in 203.0.113.1:0/any in 203.0.113.1:80/tcp | "
	  "http [*10.1.1.1:8080] out 203.0.113.1:80/tcp+maglev" },
	{ "load balancer, policy Local, endpoints elsewhere: silent from outside",
	  { LB(", " EXT_LOCAL, "{'ip': '203.0.113.2'}"), REMOTE },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS " in 203.0.113.2:0/any in 203.0.113.2:80/tcp | "
	  "http [] out 203.0.113.2:80/tcp+maglev+drop" },
	{ "policies fall back independently: the local one that ends, ready ones elsewhere",
	  { SVC(NODE_PORT ", " EXT_LOCAL),
	    SLICE(EP("10.1.2.2", "n2", "") "," EP("10.1.1.1", "n1", TERMINATING)) },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS
	  " in 192.0.2.1:30080/tcp in 198.51.100.1:30080/tcp | "
	  "http [*10.1.1.1:8080] out 192.0.2.1:30080/tcp+maglev out "
	  "198.51.100.1:30080/tcp+maglev" },
	{ "LoadBalancer with nodePort 0",
	  { SVC("'type': 'LoadBalancer', " VIP
		", 'ports': [{'name': 'http', 'port': 80, 'nodePort': 0}]"),
	    REMOTE },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS },
	/* source ranges */
	{ "source ranges are for load-balancer addresses alone, both scopes",
	  { RANGES("'192.0.2.0/24'"), REMOTE },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS
	  " in 192.0.2.1:30080/tcp+masq out 192.0.2.1:30080/tcp+masq+maglev"
	  " in 198.51.100.1:30080/tcp+masq out 198.51.100.1:30080/tcp+masq+maglev"
	  " in 203.0.113.1:0/any in 203.0.113.1:80/tcp+masq out 203.0.113.1:80/tcp+masq+maglev"
	  " in 203.0.113.2:0/any in 203.0.113.2:80/tcp+masq+ranges"
	  " out 203.0.113.2:80/tcp+masq+maglev+ranges" },
	{ "source ranges of a ClusterIP Service",
	  { SVC(VIP ", 'loadBalancerSourceRanges': ['192.0.2.0/24'], " HTTP), REMOTE },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS },
	{ "source ranges with /0: open",
	  { LB(", 'loadBalancerSourceRanges': ['192.0.2.0/24', '0.0.0.0/0']",
	       "{'ip': '203.0.113.2'}"),
	    REMOTE },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS
	  " in 203.0.113.2:0/any in 203.0.113.2:80/tcp+masq out 203.0.113.2:80/tcp+masq+maglev" },
	{ "load balancer address with source ranges that is an externalIP too: filtered",
	  { LB(", 'loadBalancerSourceRanges': ['192.0.2.0/24'], 'externalIPs': ['203.0.113.2']",
	       "{'ip': '203.0.113.2'}"),
	    REMOTE },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS
	  " in 203.0.113.2:0/any in 203.0.113.2:80/tcp+masq+ranges"
	  " out 203.0.113.2:80/tcp+masq+maglev+ranges" },
	{ "externalIP that is the node's, on another port's nodePort: the externalIP stays",
	  { SVC("'type': 'NodePort', " VIP ", 'externalIPs': ['192.0.2.1'], 'ports':"
		"[{'name': 'http', 'port': 80, 'nodePort': 30080}, {'name': 'b', 'port': 30080}]"),
	    REMOTE },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS
	  " in 192.0.2.1:80/tcp+masq out 192.0.2.1:80/tcp+masq+maglev"
	  " in 198.51.100.1:30080/tcp+masq out 198.51.100.1:30080/tcp+masq+maglev | "
	  "b [] in 10.96.0.1:30080/tcp out 10.96.0.1:30080/tcp+masq"
	  " in 192.0.2.1:30080/tcp+masq out 192.0.2.1:30080/tcp+masq+maglev" },
};

START_TEST(test_compile)
{
	size_t row = row_of(_i, MK_ARRAY_SIZE(cases));
	struct mk_compiled_service out;
	struct line line = { 0 };
	const char *expected;

	for (size_t i = 0; i < MK_ARRAY_SIZE(cases[row].objects) && cases[row].objects[i]; i++)
		apply_row(cases[row].objects[i]);
	expected = in_family(cases[row].expected);
	compile(&out);
	for (size_t i = 0; i < out.set_count; i++)
		tell_set(&line, &out.sets[i]);
	ck_assert_msg(strcmp(line.text, expected) == 0, "%s, %s:\n got      %s\n expected %s",
		      cases[row].name, mk_family_name(family), line.text, expected);
	mk_compiled_service_release(&out);
}
END_TEST

/* A dual-stack Service as a node of either family has it. */
static const struct {
	const char *name, *objects[4], *v4, *v6;
} duals[] = {
#define SLICE6(endpoints)                                                                        \
	"{'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'addressType': 'IPv6', " \
	"'metadata': {'name': 's-6', 'namespace': 'x', 'labels': {'kubernetes.io/service-name':" \
	"'s'}}, 'ports': [{'name': 'http', 'port': 8080}], 'endpoints': [" endpoints "]}"
#define DUAL	"'clusterIPs': ['fd00:96::1', '10.96.0.1']"
#define ONE6	SLICE6(EP("fd00:1::1", "n1", ""))
#define VIP6_IS " in fd00:96::1:0/any in fd00:96::1:80/tcp out fd00:96::1:80/tcp+masq"
	{ "endpoints of both",
	  { SVC(DUAL ", " HTTP), REMOTE, ONE6 },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS,
	  "http [*fd00:1::1:8080]" VIP6_IS },
	{ "endpoints of IPv4 only: refused in IPv6",
	  { SVC(DUAL ", " HTTP), REMOTE },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS,
	  "http []" VIP6_IS },
	{ "address of IPv4 only",
	  { SVC(VIP ", " HTTP), REMOTE, ONE6 },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS,
	  "" },
	{ "address of IPv6 only",
	  { SVC("'clusterIP': 'fd00:96::1', " HTTP), REMOTE, ONE6 },
	  "",
	  "http [*fd00:1::1:8080]" VIP6_IS },
	{ "externalIPs of both",
	  { SVC(DUAL ", 'externalIPs': ['2001:db8::1', '203.0.113.1'], " HTTP) },
	  "http []" VIP_FRONTENDS " in 203.0.113.1:0/any in 203.0.113.1:80/tcp+masq"
	  " out 203.0.113.1:80/tcp+masq+maglev",
	  "http [] in 2001:db8::1:0/any in 2001:db8::1:80/tcp+masq"
	  " out 2001:db8::1:80/tcp+masq+maglev" VIP6_IS },
	{ "NodePort only in the family of the clusterIP",
	  { SVC("'type': 'NodePort', 'clusterIP': 'fd00:96::1', 'ports': [{'name': 'http', 'port': "
		"80, 'nodePort': 30080}]") },
	  "",
	  "http []" VIP6_IS
	  " in fd00:c0:0:2::1:30080/tcp+masq out fd00:c0:0:2::1:30080/tcp+masq+maglev"
	  " in fd00:c6:33:64::1:30080/tcp+masq out fd00:c6:33:64::1:30080/tcp+masq+maglev" },
	{ "zone hints on all endpoints of IPv4, on none of IPv6",
	  { SVC(DUAL ", " HTTP),
	    SLICE(EP("10.1.1.1", "n1", ZONE("a")) "," EP("10.1.2.2", "n2", ZONE("b"))),
	    SLICE6(EP("fd00:1::1", "n1", "") "," EP("fd00:1::2", "n2", "")) },
	  "http [*10.1.1.1:8080]" VIP_FRONTENDS,
	  "http [*fd00:1::1:8080 fd00:1::2:8080]" VIP6_IS },
	{ "policy Local, endpoints of IPv4 elsewhere, of IPv6 here",
	  { SVC(DUAL ", " INT_LOCAL ", " HTTP), REMOTE, ONE6 },
	  "http [] in 10.96.0.1:0/any in 10.96.0.1:80/tcp+drop out 10.96.0.1:80/tcp+masq+drop",
	  "http [*fd00:1::1:8080]" VIP6_IS },
	{ "of IPv4 one is ready, of IPv6 all are terminating",
	  { SVC(DUAL ", " HTTP),
	    SLICE(EP("10.1.1.1", "n1", TERMINATING) "," EP("10.1.2.2", "n2", "")),
	    SLICE6(EP("fd00:1::1", "n1", TERMINATING)) },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS,
	  "http [*fd00:1::1:8080]" VIP6_IS },
	{ "pods in the host's network: the node's address of each family",
	  { SVC(DUAL ", " HTTP), SLICE(EP("192.0.2.1", "n1", "") "," EP("192.0.2.2", "n2", "")),
	    SLICE6(EP("2001:db8::1", "n1", "") "," EP("2001:db8::2", "n2", "")) },
	  "http [*192.0.2.1:8080 192.0.2.2:8080]" VIP_FRONTENDS,
	  "http [*2001:db8::1:8080 2001:db8::2:8080]" VIP6_IS },
	{ "Endpoints object: each address has its own family",
	  { SVC(DUAL ", " HTTP),
	    "{'apiVersion': 'v1', 'kind': 'Endpoints', " META ", 'subsets': [{'addresses': [{'ip': "
	    "'10.1.2.2'}, {'ip': 'fd00:1::1', 'nodeName': 'n1'}], 'ports': [{'name': 'http', "
	    "'port': 8080}]}]}" },
	  "http [10.1.2.2:8080]" VIP_FRONTENDS,
	  "http [*fd00:1::1:8080]" VIP6_IS },
	{ "a slice of one family: an Endpoints object counts in neither",
	  { SVC(DUAL ", " HTTP),
	    "{'apiVersion': 'v1', 'kind': 'Endpoints', " META ", 'subsets': [{'addresses': [{'ip': "
	    "'10.1.2.2'}], 'ports': [{'name': 'http', 'port': 8080}]}]}",
	    ONE6 },
	  "http []" VIP_FRONTENDS,
	  "http [*fd00:1::1:8080]" VIP6_IS },
	{ "source ranges of IPv4 only: open in IPv6",
	  { "{'apiVersion': 'v1', 'kind': 'Service', " META
	    ", 'spec': {'type': 'LoadBalancer', " DUAL
	    ", 'loadBalancerSourceRanges': ['203.0.113.0/24'], " HTTP
	    "}, 'status': {'loadBalancer': {'ingress': [{'ip': '203.0.113.2'}, "
	    "{'ip': '2001:db8::2'}]}}}" },
	  "http []" VIP_FRONTENDS " in 203.0.113.2:0/any in 203.0.113.2:80/tcp+masq+ranges"
	  " out 203.0.113.2:80/tcp+masq+maglev+ranges",
	  "http [] in 2001:db8::2:0/any in 2001:db8::2:80/tcp+masq"
	  " out 2001:db8::2:80/tcp+masq+maglev" VIP6_IS },
};

START_TEST(test_dual)
{
	size_t row = row_of(_i, MK_ARRAY_SIZE(duals));
	const char *expected = family == AF_INET ? duals[row].v4 : duals[row].v6;
	struct mk_compiled_service out;
	struct line line = { 0 };

	for (size_t i = 0; i < MK_ARRAY_SIZE(duals[row].objects) && duals[row].objects[i]; i++)
		apply_good_text(model, duals[row].objects[i]);
	compile(&out);
	for (size_t i = 0; i < out.set_count; i++)
		tell_set(&line, &out.sets[i]);
	ck_assert_msg(strcmp(line.text, expected) == 0, "%s, %s:\n got      %s\n expected %s",
		      duals[row].name, mk_family_name(family), line.text, expected);
	mk_compiled_service_release(&out);
}
END_TEST

static const char *compiled(sa_family_t of, struct line *line)
{
	struct mk_compiled_service out;

	family = of;
	*line = (struct line){ 0 };
	compile(&out);
	for (size_t i = 0; i < out.set_count; i++)
		tell_set(line, &out.sets[i]);
	mk_compiled_service_release(&out);
	return line->text;
}

/* A Service gets a second family and loses it: the first one stays as it is, byte for byte. */
START_TEST(test_family_comes_and_goes)
{
	static const char *const steps[] = { SVC(VIP ", " HTTP), SVC(DUAL ", " HTTP),
					     SVC(VIP ", " HTTP),
					     SVC("'clusterIP': 'fd00:96::1', " HTTP) };
	struct line line;

	apply_good_text(model, REMOTE);
	apply_good_text(model, ONE6);
	for (size_t i = 0; i < MK_ARRAY_SIZE(steps); i++) {
		apply_good_text(model, steps[i]);
		ck_assert_str_eq(compiled(AF_INET, &line),
				 i == 3 ? "" : "http [10.1.2.2:8080]" VIP_FRONTENDS);
		ck_assert_str_eq(compiled(AF_INET6, &line),
				 i % 2 ? "http [*fd00:1::1:8080]" VIP6_IS : "");
	}
}
END_TEST

/* There is a table exactly if a frontend needs it and a backend exists. */
START_TEST(test_maglev_where_asked)
{
	size_t row = row_of(_i, MK_ARRAY_SIZE(cases));
	struct mk_compiled_service out;
	size_t tables = 0;

	for (size_t i = 0; i < MK_ARRAY_SIZE(cases[row].objects) && cases[row].objects[i]; i++)
		apply_row(cases[row].objects[i]);
	compile(&out);
	for (size_t i = 0; i < out.set_count; i++) {
		const struct mk_backend_set *set = &out.sets[i];
		bool asked = false;

		for (size_t f = 0; f < set->frontend_count; f++)
			asked |= set->frontends[f].flags & MK_FRONTEND_MAGLEV;
		ck_assert_msg((set->maglev != NULL) == (asked && set->backend_count), "%s",
			      cases[row].name);
		for (size_t slot = 0; set->maglev && slot < MK_MAGLEV_SLOTS; slot++)
			ck_assert_uint_lt(set->maglev[slot], set->backend_count);
		tables += set->maglev != NULL;
	}
	ck_assert(tables == 0 || strstr(cases[row].expected, "+maglev"));
	mk_compiled_service_release(&out);
}
END_TEST

/* masqueradeAll affects only ClusterIPs: the short cut of policy Local stays unchanged. */
START_TEST(test_masquerade_all)
{
	struct mk_compiled_service out;
	struct line line = { 0 };

	masquerade_all = true;
	apply_good_text(model, LB(", " EXT_LOCAL ", " INT_LOCAL, "{'ip': '203.0.113.2'}"));
	apply_good_text(model, TWO);
	compile(&out);
	masquerade_all = false;
	for (size_t i = 0; i < out.set_count; i++)
		tell_set(&line, &out.sets[i]);
	ck_assert_str_eq(line.text,
			 "http [*10.1.1.1:8080 10.1.2.2:8080] in 203.0.113.2:80/tcp | "
			 "http [*10.1.1.1:8080] in 10.96.0.1:0/any in 10.96.0.1:80/tcp+masq "
			 "out 10.96.0.1:80/tcp+masq in 203.0.113.2:0/any "
			 "out 203.0.113.2:80/tcp+maglev");
	mk_compiled_service_release(&out);
}
END_TEST

/* In addition to the node's addresses, only for the host, and under any policy: the host is no
 * client from outside. */
START_TEST(test_localhost_node_ports)
{
	struct mk_compiled_service out;
	struct line line = { 0 };
	bool v6 = row_of(_i, 1) == 0 && family == AF_INET6;

	localhost_node_ports = true;
	apply_row(SVC(NODE_PORT ", " EXT_LOCAL));
	apply_row(TWO);
	compile(&out);
	localhost_node_ports = false;
	for (size_t i = 0; i < out.set_count; i++)
		tell_set(&line, &out.sets[i]);
	ck_assert_str_eq(
		line.text,
		v6 ? "http [*fd00:a:1:1::1:8080 fd00:a:1:2::2:8080] in ::1:30080/tcp+masq "
		     "in fd00:a:60::1:0/any in fd00:a:60::1:80/tcp out fd00:a:60::1:80/tcp+masq "
		     "in fd00:c0:0:2::1:30080/tcp in fd00:c6:33:64::1:30080/tcp | "
		     "http [*fd00:a:1:1::1:8080] out fd00:c0:0:2::1:30080/tcp+maglev "
		     "out fd00:c6:33:64::1:30080/tcp+maglev"
		   : "http [*10.1.1.1:8080 10.1.2.2:8080] in 10.96.0.1:0/any in 10.96.0.1:80/tcp "
		     "out 10.96.0.1:80/tcp+masq in 127.0.0.1:30080/tcp+masq "
		     "in 192.0.2.1:30080/tcp in 198.51.100.1:30080/tcp | "
		     "http [*10.1.1.1:8080] out 192.0.2.1:30080/tcp+maglev "
		     "out 198.51.100.1:30080/tcp+maglev");
	mk_compiled_service_release(&out);
}
END_TEST

/* ---- source ranges, affinity ----------------------------------------------------------------- */

static const struct {
	const char *name, *ranges, *expected;
} filtered[] = {
	{ "as listed", "'203.0.113.7/24', '10.9.0.0/16'", "10.9.0.0/16 203.0.113.0/24" },
	{ "the node's own address is inside: so is the load balancer's",
	  "'10.9.0.0/16', '192.0.2.0/30'", "10.9.0.0/16 192.0.2.0/30 203.0.113.2/32" },
	{ "its second address", "'198.51.100.1/32'", "198.51.100.1/32 203.0.113.2/32" },
	{ "open", "'10.9.0.0/16', '0.0.0.0/0'", "" },
};

START_TEST(test_ranges)
{
	size_t row = row_of(_i, MK_ARRAY_SIZE(filtered));
	struct mk_compiled_service out;
	struct line line = { 0 };
	char service[1024], buf[MK_CIDR_STRLEN];
	const char *expected;

	snprintf(service, sizeof(service), "%s%s%s",
		 "{'apiVersion': 'v1', 'kind': 'Service', " META
		 ", 'spec': {'type': 'LoadBalancer', " VIP ", " HTTP
		 ", 'loadBalancerSourceRanges': [",
		 filtered[row].ranges,
		 "]}, 'status': {'loadBalancer': {'ingress': [{'ip': '203.0.113.2'}]}}}");
	apply_row(service);
	expected = in_family(filtered[row].expected);
	compile(&out);
	for (size_t i = 0; i < out.range_count; i++)
		mk_line_add(&line, "%s%s", i ? " " : "", mk_cidr_format(&out.ranges[i], buf));
	ck_assert_msg(strcmp(line.text, expected) == 0, "%s: got %s, expected %s",
		      filtered[row].name, line.text, expected);
	mk_compiled_service_release(&out);
}
END_TEST

START_TEST(test_affinity)
{
	struct mk_compiled_service out;

	apply_good_text(model, SVC(VIP ", " HTTP));
	compile(&out);
	ck_assert_uint_eq(out.affinity_timeout_s, 0);
	mk_compiled_service_release(&out);
	apply_good_text(model, SVC(VIP ", 'sessionAffinity': 'ClientIP', " HTTP));
	compile(&out);
	ck_assert_uint_eq(out.affinity_timeout_s, 10800);
	mk_compiled_service_release(&out);
}
END_TEST

/* ---- whose flows stay ------------------------------------------------------------------------ */

static const struct {
	const char *name, *conditions;
	bool udp;
} flows[] = {
	{ "ready", "", true },
	{ "terminating, serving", TERMINATING, true },
	{ "terminating, no longer serving", GONE, false },
	{ "not ready", NOT_READY, false },
	{ "ready by publishNotReadyAddresses", ", 'conditions': {'ready': true, 'serving': false}",
	  true },
};

START_TEST(test_live)
{
	size_t row = row_of(_i, MK_ARRAY_SIZE(flows));
	struct mk_compiled_service out;
	char slice[1024];

	apply_row(SVC(VIP ", 'ports': [{'name': 'a', 'port': 1}, {'name': 'b', "
			  "'port': 1, 'protocol': 'UDP'},"
			  "{'name': 'c', 'port': 2, 'protocol': 'UDP'}]"));
	snprintf(slice, sizeof(slice), "%s%s%s",
		 "{'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'addressType': "
		 "'IPv4', 'metadata':"
		 "{'name': 's-1', 'namespace': 'x', 'labels': {'kubernetes.io/service-name': "
		 "'s'}}, 'ports':"
		 "[{'name': 'a', 'port': 9}, {'name': 'b', 'port': 9, 'protocol': 'UDP'}, {'name': "
		 "'c', 'port': 9, 'protocol': 'UDP'},"
		 "{'name': 'other', 'port': 10}], 'endpoints': [{'addresses': ['10.1.2.2']",
		 flows[row].conditions, "}]}");
	apply_row(slice);
	compile(&out);
	/* each endpoint once, of UDP, of the ports that the Service has */
	ck_assert_msg(out.live_count == flows[row].udp, "%s: %zu live", flows[row].name,
		      out.live_count);
	for (size_t i = 0; i < out.live_count; i++)
		ck_assert_msg(out.live[i].port == 9 && out.live[i].proto == IPPROTO_UDP, "%s",
			      flows[row].name);
	mk_compiled_service_release(&out);
}
END_TEST

/* ---- clusters that are down ------------------------------------------------------------------ */

#define VIEW(address, rest) "{'addresses': ['" address "']" rest "}"
#define DNS		    "'ports': [{'name': 'http', 'port': 80, 'protocol': 'UDP'}]"
#define UDP_SLICE(endpoints)                                                                         \
	"{'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'addressType': 'IPv4', "     \
	"'metadata': {'name': 's-1', 'namespace': 'x', 'labels': {'kubernetes.io/service-name':"     \
	"'s'}}, 'ports': [{'name': 'http', 'port': 9, 'protocol': 'UDP'}], 'endpoints': [" endpoints \
	"]}"
#define UDP_FRONTENDS " in 10.96.0.1:0/any in 10.96.0.1:80/udp out 10.96.0.1:80/udp+masq"

/* The clusters with views 10.3.0.0/24 and 10.4.0.0/24 are down. */
static const struct {
	const char *name, *slice, *expected;
	size_t live;
} downs[] = {
	{ "another endpoint serves",
	  UDP_SLICE(VIEW("10.3.0.2", "") "," VIEW("10.1.1.1", "") "," VIEW("10.4.0.2", "")),
	  "http [10.1.1.1:9] without-down" UDP_FRONTENDS, 1 },
	{ "one of a cluster that is not down",
	  UDP_SLICE(VIEW("10.3.0.2", "") "," VIEW("10.5.0.2", "")),
	  "http [10.5.0.2:9] without-down" UDP_FRONTENDS, 1 },
	{ "they are the last ones", UDP_SLICE(VIEW("10.3.0.2", "") "," VIEW("10.4.0.2", "")),
	  "http [10.3.0.2:9 10.4.0.2:9]" UDP_FRONTENDS, 2 },
	{ "the other one is not ready",
	  UDP_SLICE(VIEW("10.3.0.2", "") "," VIEW("10.1.1.1", NOT_READY)),
	  "http [10.3.0.2:9]" UDP_FRONTENDS, 1 },
	{ "the other one serves to its end",
	  UDP_SLICE(VIEW("10.3.0.2", "") "," VIEW("10.1.1.1", TERMINATING)),
	  "http [10.1.1.1:9] without-down" UDP_FRONTENDS, 1 },
	{ "hints are for one of them",
	  UDP_SLICE(VIEW("10.3.0.2", ZONE("a")) "," VIEW("10.1.1.1", ZONE("b"))),
	  "http [10.1.1.1:9] without-down" UDP_FRONTENDS, 1 },
	{ "no endpoint is of a cluster that is down", UDP_SLICE(VIEW("10.5.0.2", "")),
	  "http [10.5.0.2:9]" UDP_FRONTENDS, 1 },
};

START_TEST(test_down)
{
	size_t row = row_of(_i, MK_ARRAY_SIZE(downs));
	struct mk_compiled_service out;
	struct line line = { 0 };
	const char *expected;

	down[0] = cidr_of(in_family("10.3.0.0/24"));
	down[1] = cidr_of(in_family("10.4.0.0/24"));
	down_count = 2;
	apply_row(SVC(VIP ", " DNS));
	apply_row(downs[row].slice);
	expected = in_family(downs[row].expected);
	compile(&out);
	down_count = 0;
	for (size_t i = 0; i < out.set_count; i++)
		tell_set(&line, &out.sets[i]);
	ck_assert_msg(strcmp(line.text, expected) == 0, "%s:\n got      %s\n expected %s",
		      downs[row].name, line.text, expected);
	ck_assert_msg(out.live_count == downs[row].live, "%s: flows to %zu stay", downs[row].name,
		      out.live_count);
	mk_compiled_service_release(&out);
}
END_TEST

/* ---- preferred clusters ---------------------------------------------------------------------- */

#define PREFERS(clusters, spec)                                                                       \
	"{'apiVersion': 'multicluster.x-k8s.io/v1beta1', 'kind': 'ServiceImport', 'metadata': "       \
	"{'name': 's', 'namespace': 'x', 'annotations': {'networking.monokube.io/prefer': '" clusters \
	"'}}, 'spec': {'ips': ['10.96.0.1'], " DNS spec "}}"
#define ONLY_LOCAL ", " INT_LOCAL
#define FROM(cluster, endpoints)                                                                   \
	"{'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'addressType': 'IPv4', "   \
	"'metadata': {'name': '" cluster "', 'namespace': 'x', 'labels': {'multicluster.kubernet"  \
	"es.io/service-name': 's', 'multicluster.kubernetes.io/source-cluster': '" cluster "'}}, " \
	"'ports': [{'name': 'http', 'port': 9, 'protocol': 'UDP'}], 'endpoints': [" endpoints "]}"
#define WEST(rest) FROM("west", EP("10.1.1.1", "n1", rest) "," EP("10.1.2.2", "n2", rest))
#define EAST(rest) FROM("east", VIEW("10.2.0.2", rest))
#define HUB(rest)  FROM("hub", VIEW("10.3.0.2", rest))
#define FAR(rest)  FROM("far", VIEW("10.4.0.2", rest))

/* This is cluster west. Where @are_down, hub and far are down. */
static const struct {
	const char *name, *import, *slices[4], *expected;
	bool are_down;
	size_t live;
} prefers[] = {
	{ "all are equal",
	  PREFERS("", ""),
	  { WEST(""), EAST(""), HUB(""), FAR("") },
	  "http [*10.1.1.1:9 10.1.2.2:9 10.2.0.2:9 10.3.0.2:9 10.4.0.2:9]" UDP_FRONTENDS,
	  false,
	  5 },
	{ "this cluster first",
	  PREFERS("local, east", ""),
	  { WEST(""), EAST(""), HUB("") },
	  "http [*10.1.1.1:9 10.1.2.2:9] prefers" UDP_FRONTENDS,
	  false,
	  4 },
	{ "the next one",
	  PREFERS("local, east", ""),
	  { FAR(""), EAST(""), HUB("") },
	  "http [10.2.0.2:9] prefers" UDP_FRONTENDS,
	  false,
	  3 },
	{ "a cluster that is not there",
	  PREFERS("far,south,hub", ""),
	  { WEST(""), EAST(""), HUB("") },
	  "http [10.3.0.2:9] prefers" UDP_FRONTENDS,
	  false,
	  4 },
	{ "those that are not named are equal",
	  PREFERS("south, east", ""),
	  { WEST(""), HUB(""), FAR("") },
	  "http [*10.1.1.1:9 10.1.2.2:9 10.3.0.2:9 10.4.0.2:9]" UDP_FRONTENDS,
	  false,
	  4 },
	{ "not ready: the next one",
	  PREFERS("east,hub", ""),
	  { WEST(""), EAST(NOT_READY), HUB("") },
	  "http [10.3.0.2:9] prefers" UDP_FRONTENDS,
	  false,
	  3 },
	{ "ready goes before terminating",
	  PREFERS("east,hub", ""),
	  { FAR(""), EAST(TERMINATING), HUB("") },
	  "http [10.3.0.2:9] prefers" UDP_FRONTENDS,
	  false,
	  3 },
	{ "all terminate: by rank",
	  PREFERS("hub,east", ""),
	  { WEST(NOT_READY), EAST(TERMINATING), HUB(TERMINATING) },
	  "http [10.3.0.2:9]" UDP_FRONTENDS,
	  false,
	  2 },
	{ "none serves",
	  PREFERS("hub,east", ""),
	  { WEST(NOT_READY), EAST(GONE) },
	  "http []" UDP_FRONTENDS,
	  false,
	  0 },
	{ "a preferred cluster that is down",
	  PREFERS("hub,east", ""),
	  { WEST(""), EAST(""), HUB("") },
	  "http [10.2.0.2:9] prefers without-down" UDP_FRONTENDS,
	  true,
	  3 },
	{ "all are down: by rank",
	  PREFERS("far,local", ""),
	  { HUB(""), FAR("") },
	  "http [10.4.0.2:9] prefers" UDP_FRONTENDS,
	  true,
	  2 },
	{ "hints count within a rank",
	  PREFERS("local", ""),
	  { WEST(ZONE("a")), EAST("") },
	  "http [*10.1.1.1:9 10.1.2.2:9] prefers" UDP_FRONTENDS,
	  false,
	  3 },
	{ "hints do not count between ranks",
	  PREFERS("east", ""),
	  { WEST(ZONE("a")), EAST(ZONE("b")) },
	  "http [10.2.0.2:9] prefers" UDP_FRONTENDS,
	  false,
	  3 },
	{ "internalTrafficPolicy goes before it",
	  PREFERS("east", ONLY_LOCAL),
	  { WEST(""), EAST("") },
	  "http [*10.1.1.1:9]" UDP_FRONTENDS,
	  false,
	  3 },
};

START_TEST(test_prefers)
{
	size_t row = row_of(_i, MK_ARRAY_SIZE(prefers));
	struct mk_clusterset west = { .cluster_name = "west",
				      .ranges = { cidr_of("10.96.0.0/16"),
						  cidr_of("fd00:a::/32") } };
	struct mk_compiled_service out;
	struct line line = { 0 };
	const char *expected;

	mk_model_set_clusterset(model, &west);
	down[0] = cidr_of(in_family("10.3.0.0/24"));
	down[1] = cidr_of(in_family("10.4.0.0/24"));
	apply_row(prefers[row].import);
	for (size_t i = 0; i < 4 && prefers[row].slices[i]; i++)
		apply_row(prefers[row].slices[i]);
	expected = in_family(prefers[row].expected);
	down_count = prefers[row].are_down ? 2 : 0;
	compile_of("s.clusterset", &out);
	down_count = 0;
	for (size_t i = 0; i < out.set_count; i++)
		tell_set(&line, &out.sets[i]);
	ck_assert_msg(strcmp(line.text, expected) == 0, "%s:\n got      %s\n expected %s",
		      prefers[row].name, line.text, expected);
	ck_assert_msg(out.live_count == prefers[row].live, "%s: flows to %zu stay",
		      prefers[row].name, out.live_count);
	mk_compiled_service_release(&out);
}
END_TEST

/* ---- many endpoints -------------------------------------------------------------------------- */

static void apply_many(unsigned slices, unsigned each)
{
	cleanup_free char *text = malloc(each * 40 + 512);
	struct line head;

	ck_assert_ptr_nonnull(text);
	for (unsigned slice = 0; slice < slices; slice++) {
		size_t used;

		head = (struct line){ 0 };
		mk_line_add(&head,
			    "{'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', "
			    "'addressType': "
			    "'IPv4', 'metadata':"
			    "{'name': 's-%u', 'namespace': 'x', 'labels': "
			    "{'kubernetes.io/service-name': "
			    "'s'}}, 'ports':"
			    "[{'name': 'http', 'port': 8080}], 'endpoints': [",
			    slice);
		strcpy(text, head.text);
		used = head.used;
		for (unsigned i = 0; i < each; i++)
			used += (size_t)sprintf(text + used, "%s{'addresses': ['10.%u.%u.%u']}",
						i ? "," : "", slice, i / 250, i % 250 + 1);
		strcpy(text + used, "]}");
		apply_good_text(model, text);
	}
}

/* ---- who answers at a healthCheckNodePort ---------------------------------------------------- */

#define HEALTH(policy)                                                                 \
	SVC("'type': 'LoadBalancer', " VIP ", 'externalTrafficPolicy': '" policy "', " \
	    "'healthCheckNodePort': 31000, " HTTP)
#define TWO_PORTS(name, endpoints)                                                              \
	"{'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'addressType': 'IPv4'," \
	"'metadata': {'name': '" name "', 'namespace': 'x', 'labels': "                         \
	"{'kubernetes.io/service-name': 's'}}, 'ports': [{'name': 'http', 'port': 8080}, "      \
	"{'name': 'b', 'port': 81}], 'endpoints': [" endpoints "]}"

static const struct {
	const char *name, *objects[3];
	uint16_t port;
	size_t local_ready;
} checks[] = {
	{ "policy Cluster", { HEALTH("Cluster"), TWO }, 0, 0 },
	{ "type NodePort",
	  { SVC("'type': 'NodePort', " VIP ", 'externalTrafficPolicy': 'Local', "
		"'healthCheckNodePort': 31000, " HTTP),
	    TWO },
	  0,
	  0 },
	{ "no endpoints", { HEALTH("Local") }, 31000, 0 },
	{ "none here", { HEALTH("Local"), REMOTE }, 31000, 0 },
	{ "one here, one elsewhere", { HEALTH("Local"), TWO }, 31000, 1 },
	{ "two ports of one address",
	  { HEALTH("Local"), TWO_PORTS("s-1", EP("10.1.1.1", "n1", "")) },
	  31000,
	  1 },
	{ "one address in two slices",
	  { HEALTH("Local"),
	    TWO_PORTS("s-1", EP("10.1.1.1", "n1", "") "," EP("10.1.1.2", "n1", "")),
	    TWO_PORTS("s-2", EP("10.1.1.1", "n1", "")) },
	  31000,
	  2 },
	{ "terminating here",
	  { HEALTH("Local"), SLICE(EP("10.1.1.1", "n1", TERMINATING)) },
	  31000,
	  0 },
	{ "not ready here, ready elsewhere between",
	  { HEALTH("Local"), SLICE(EP("10.1.1.1", "n1", NOT_READY) "," EP(
				     "10.1.1.2", "n2", "") "," EP("10.1.1.3", "n1", "")) },
	  31000,
	  1 },
	{ "another proxy's",
	  { "{'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 's', 'namespace': 'x', "
	    "'labels': {'service.kubernetes.io/service-proxy-name': 'p'}}, 'spec': {'type': "
	    "'LoadBalancer', 'externalTrafficPolicy': 'Local', 'healthCheckNodePort': 31000, " VIP
	    ", " HTTP "}}",
	    TWO },
	  0,
	  0 },
};

START_TEST(test_health_check)
{
	size_t row = row_of(_i, MK_ARRAY_SIZE(checks));
	struct mk_compiled_service out;

	for (size_t i = 0; i < 3 && checks[row].objects[i]; i++)
		apply_row(checks[row].objects[i]);
	compile(&out);
	ck_assert_msg(out.health_check_port == checks[row].port, "%s: port %u", checks[row].name,
		      out.health_check_port);
	ck_assert_msg(out.local_ready_count == checks[row].local_ready, "%s: %zu", checks[row].name,
		      out.local_ready_count);
	mk_compiled_service_release(&out);
}
END_TEST

START_TEST(test_more_than_the_tables_take)
{
	struct mk_compiled_service out;

	apply_good_text(model, SVC(NODE_PORT));
	apply_many(70, 1000);
	compile(&out);
	ck_assert_uint_eq(out.set_count, 1);
	ck_assert_uint_eq(out.sets[0].backend_count, 65535);
	ck_assert_ptr_nonnull(out.sets[0].maglev);
	mk_compiled_service_release(&out);
}
END_TEST

/* Each family has its own count, and answers only if the Service has an address of it. */
START_TEST(test_health_check_by_family)
{
	static const struct {
		const char *cluster_ips;
		uint16_t port[MK_FAMILIES];
		size_t count[MK_FAMILIES];
	} rows[] = {
		{ DUAL, { 31000, 31000 }, { 0, 2 } },
		{ VIP, { 31000, 0 }, { 0, 0 } },
		{ "'clusterIP': 'fd00:96::1'", { 0, 31000 }, { 0, 2 } },
	};
	char service[512];

	snprintf(service, sizeof(service),
		 "{'apiVersion': 'v1', 'kind': 'Service', " META ", 'spec': {'type': "
		 "'LoadBalancer', 'externalTrafficPolicy': 'Local', 'healthCheckNodePort': 31000, "
		 "%s, " HTTP "}}",
		 rows[_i].cluster_ips);
	apply_good_text(model, service);
	apply_good_text(model, REMOTE);
	apply_good_text(model, SLICE6(EP("fd00:1::1", "n1", "") "," EP("fd00:1::2", "n1", "")));
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		struct mk_compiled_service out;

		family = i ? AF_INET6 : AF_INET;
		compile(&out);
		ck_assert_uint_eq(out.health_check_port, rows[_i].port[i]);
		ck_assert_uint_eq(out.local_ready_count, rows[_i].count[i]);
		mk_compiled_service_release(&out);
	}
}
END_TEST

UNIT_SUITE("service")
{
	TCase *tc = unit_case(suite, "compile", setup, teardown);

	tcase_add_loop_test(tc, test_compile, 0, 2 * MK_ARRAY_SIZE(cases));
	tcase_add_loop_test(tc, test_dual, 0, 2 * MK_ARRAY_SIZE(duals));
	tcase_add_loop_test(tc, test_maglev_where_asked, 0, 2 * MK_ARRAY_SIZE(cases));
	tcase_add_test(tc, test_masquerade_all);
	tcase_add_loop_test(tc, test_localhost_node_ports, 0, 2);
	tcase_add_loop_test(tc, test_ranges, 0, 2 * MK_ARRAY_SIZE(filtered));
	tcase_add_test(tc, test_affinity);
	tcase_add_loop_test(tc, test_down, 0, 2 * MK_ARRAY_SIZE(downs));
	tcase_add_loop_test(tc, test_prefers, 0, 2 * MK_ARRAY_SIZE(prefers));
	tcase_add_loop_test(tc, test_live, 0, 2 * MK_ARRAY_SIZE(flows));
	tcase_add_test(tc, test_family_comes_and_goes);
	tcase_add_loop_test(tc, test_health_check_by_family, 0, 3);
	tcase_add_loop_test(tc, test_health_check, 0, 2 * MK_ARRAY_SIZE(checks));
	tcase_add_test(tc, test_more_than_the_tables_take);
}

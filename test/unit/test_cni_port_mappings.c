// SPDX-License-Identifier: Apache-2.0
/* The capability portMappings: valid and invalid configurations. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "pod/endpoint/endpoint_internal.h"
#include "pod/endpoint/port_mappings.h"
#include "pod/request/request_internal.h"
#include "unit/unit.h"

#define MAPPINGS(list) ",\"runtimeConfig\":{\"portMappings\":[" list "]}"
#define TCP_8080       "{\"hostPort\":8080,\"containerPort\":80}"

static const struct {
	const char *name, *fields;
	const char *text; /* the mappings, or the error's text */
	bool fails;
} configs[] = {
	{ "nothing", "", "", false },
	{ "other capabilities", ",\"runtimeConfig\":{\"dns\":{}}", "", false },
	{ "null", ",\"runtimeConfig\":{\"portMappings\":null}", "", false },
	{ "none", MAPPINGS(""), "", false },
	{ "TCP is the default", MAPPINGS(TCP_8080), "0.0.0.0:8080/tcp>80 ", false },
	{ "all of it",
	  MAPPINGS("{\"hostPort\":53,\"containerPort\":5353,\"protocol\":\"udp\","
		   "\"hostIP\":\"192.168.99.11\"}"),
	  "192.168.99.11:53/udp>5353 ", false },
	{ "capitals, SCTP, members we do not know",
	  MAPPINGS("{\"hostPort\":1,\"containerPort\":65535,\"protocol\":\"SCTP\",\"name\":7}"),
	  "0.0.0.0:1/sctp>65535 ", false },
	{ "empty strings",
	  MAPPINGS("{\"hostPort\":1,\"containerPort\":2,\"protocol\":\"\",\"hostIP\":\"\"}"),
	  "0.0.0.0:1/tcp>2 ", false },
	{ "one port, two protocols, two addresses",
	  MAPPINGS(TCP_8080 ",{\"hostPort\":8080,\"containerPort\":80,\"protocol\":\"UDP\"},"
			    "{\"hostPort\":8080,\"containerPort\":81,\"hostIP\":\"10.0.0.1\"}"),
	  "0.0.0.0:8080/tcp>80 0.0.0.0:8080/udp>80 10.0.0.1:8080/tcp>81 ", false },
	{ "host port 0 and none",
	  MAPPINGS("{\"hostPort\":0,\"containerPort\":80},{\"containerPort\":80}"), "", false },
	{ "Go's field names, as containerd sends them",
	  MAPPINGS("{\"HostPort\":54002,\"ContainerPort\":53,\"Protocol\":\"udp\","
		   "\"HostIP\":\"10.90.0.11\"}"),
	  "10.90.0.11:54002/udp>53 ", false },
	{ "any case, long s, Kelvin sign in a name that is not known",
	  MAPPINGS("{\"HO\u017fTport\":1,\"CONTAINERPORT\":2,\"\u212aey\":3}"), "0.0.0.0:1/tcp>2 ",
	  false },
	{ "the exact name comes first, wherever it stands",
	  MAPPINGS("{\"HostPort\":1,\"hostPort\":2,\"HOSTPORT\":3,\"containerPort\":4}"),
	  "0.0.0.0:2/tcp>4 ", false },
	{ "of two names in another case the last",
	  MAPPINGS("{\"HostPort\":1,\"HOSTPORT\":3,\"containerPort\":4}"), "0.0.0.0:3/tcp>4 ",
	  false },
	{ "the capability's name in another case",
	  ",\"RuntimeConfig\":{\"PortMappings\":[" TCP_8080 "]}", "0.0.0.0:8080/tcp>80 ", false },
	{ "null is what Go leaves empty",
	  MAPPINGS("{\"hostPort\":1,\"containerPort\":2,\"hostIP\":null,\"protocol\":null},"
		   "{\"hostPort\":null,\"containerPort\":2}"),
	  "0.0.0.0:1/tcp>2 ", false },
	{ "no member at all", MAPPINGS(TCP_8080 ",{}"),
	  "portMappings[1] is {}: expected hostPort, containerPort, protocol or hostIP", true },
	{ "no member that is known", MAPPINGS("{\"host_port\":1,\"hostPorts\":2}"),
	  "portMappings[0] is {\"host_port\":1,\"hostPorts\":2}: expected hostPort", true },
	{ "IPv6", MAPPINGS("{\"hostPort\":1,\"containerPort\":2,\"hostIP\":\"::1\"}," TCP_8080),
	  "0.0.0.0:8080/tcp>80 ", false },
	{ "the same twice", MAPPINGS(TCP_8080 "," TCP_8080), "0.0.0.0:8080/tcp>80 ", false },
	{ "one port, two container ports",
	  MAPPINGS(TCP_8080 ",{\"hostPort\":8080,\"containerPort\":81}"), "portMappings[1]", true },
	{ "host port above 65535", MAPPINGS("{\"hostPort\":65536,\"containerPort\":80}"),
	  "\"hostPort\":65536", true },
	{ "host port below 0", MAPPINGS("{\"hostPort\":-1,\"containerPort\":80}"),
	  "hostPort from 0 to 65535", true },
	{ "host port in words", MAPPINGS("{\"hostPort\":\"8080\",\"containerPort\":80}"),
	  "hostPort from 0 to 65535", true },
	{ "container port 0", MAPPINGS("{\"hostPort\":1,\"containerPort\":0}"),
	  "containerPort from 1 to 65535", true },
	{ "no container port", MAPPINGS("{\"hostPort\":1}"), "containerPort from 1 to 65535",
	  true },
	{ "container port above 65535", MAPPINGS("{\"hostPort\":1,\"containerPort\":70000}"),
	  "containerPort from 1 to 65535", true },
	{ "protocol", MAPPINGS("{\"hostPort\":1,\"containerPort\":2,\"protocol\":\"icmp\"}"),
	  "tcp, udp or sctp", true },
	{ "protocol as a number", MAPPINGS("{\"hostPort\":1,\"containerPort\":2,\"protocol\":6}"),
	  "tcp, udp or sctp", true },
	{ "address", MAPPINGS("{\"hostPort\":1,\"containerPort\":2,\"hostIP\":\"node1\"}"),
	  "IP address", true },
	{ "no object", MAPPINGS("8080"), "an object", true },
	{ "no list", ",\"runtimeConfig\":{\"portMappings\":{}}", "expected a list", true },
};

/* The text in a pod's address file has the same content. */
static void ck_kept_as_text(const char *name, const struct mk_cni_port_mappings *mappings)
{
	cleanup_port_mappings struct mk_cni_port_mappings again = { 0 };
	cleanup_free char *text = mk_cni_port_mappings_format(mappings);
	struct mk_error err = { 0 };

	ck_assert_ptr_nonnull(text);
	ck_assert_msg(!strchr(text, '\n') && cni_port_mappings_parse(&again, text, &err) == 0,
		      "%s: '%s': %s", name, text, mk_error_text(&err));
	ck_assert_uint_eq(again.count, mappings->count);
	ck_assert_msg(!again.count || memcmp(again.list, mappings->list,
					     again.count * sizeof(*again.list)) == 0,
		      "%s: '%s'", name, text);
}

static const char *const senseless[] = {
	"8080",
	"0.0.0.0:8080/tcp",
	"0.0.0.0:8080/tcp=",
	"0.0.0.0:8080/tcp=80x",
	"0.0.0.0:0/tcp=80",
	"0.0.0.0:8080/tcp=0",
	"0.0.0.0:65536/tcp=80",
	"0.0.0.0:8080/icmp=80",
	"0.0.0:8080/tcp=80",
	"fd00::1:8080/tcp=80",
	"[fd00::1]/tcp=80",
	"[0.0.0.0]:8080/tcp=80",
	"0.0.0.0:8080/tcp=80 x",
};

START_TEST(test_senseless_text)
{
	struct mk_cni_port_mappings mappings;
	struct mk_error err = { 0 };

	ck_assert_msg(cni_port_mappings_parse(&mappings, senseless[_i], &err) == -EINVAL, "'%s'",
		      senseless[_i]);
	ck_assert_ptr_null(mappings.list);
}
END_TEST

static void tell(const struct mk_cni_port_mappings *mappings, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < mappings->count; i++) {
		char port[MK_HOST_PORT_STRLEN];

		used += (size_t)snprintf(text + used, size - used, "%s>%u ",
					 mk_host_port_format(&mappings->list[i], port),
					 ntohs(mappings->list[i].to.port));
	}
}

static void set_network(struct mk_cni_conf *conf, const char *gateway)
{
	conf->networks[conf->network_count++].addresses.gateway = ip_of(gateway);
}

/* For pods of IPv6. */
static const struct {
	const char *name, *fields;
	size_t count;
} configs6[] = {
	{ "an address", MAPPINGS("{\"hostPort\":8080,\"containerPort\":80,\"hostIP\":\"fd00::1\"}"),
	  1 },
	{ "two addresses with the same first bytes",
	  MAPPINGS("{\"hostPort\":8080,\"containerPort\":80,\"hostIP\":\"fd00::1\"},"
		   "{\"hostPort\":8080,\"containerPort\":80,\"hostIP\":\"fd00::2\"}"),
	  2 },
	{ "every address", MAPPINGS(TCP_8080), 1 },
	{ "every address of IPv6",
	  MAPPINGS("{\"hostPort\":8080,\"containerPort\":80,\"hostIP\":\"::\"}"), 1 },
	{ "both, which are the same",
	  MAPPINGS(TCP_8080 ",{\"hostPort\":8080,\"containerPort\":80,\"hostIP\":\"::\"}"), 1 },
	{ "every address of IPv4",
	  MAPPINGS("{\"hostPort\":8080,\"containerPort\":80,\"hostIP\":\"0.0.0.0\"}"), 0 },
	{ "an address of IPv4",
	  MAPPINGS("{\"hostPort\":8080,\"containerPort\":80,\"hostIP\":\"192.0.2.1\"}"), 0 },
};

/* For pods of two families. */
static const struct {
	const char *name, *fields, *text;
} configs46[] = {
	{ "every address", MAPPINGS(TCP_8080), "0.0.0.0:8080/tcp>80 [::]:8080/tcp>80 " },
	{ "every address of IPv6",
	  MAPPINGS("{\"hostPort\":8080,\"containerPort\":80,\"hostIP\":\"::\"}"),
	  "[::]:8080/tcp>80 " },
	{ "every address of IPv4",
	  MAPPINGS("{\"hostPort\":8080,\"containerPort\":80,\"hostIP\":\"0.0.0.0\"}"),
	  "0.0.0.0:8080/tcp>80 " },
	{ "an address of each",
	  MAPPINGS("{\"hostPort\":8080,\"containerPort\":80,\"hostIP\":\"fd00::1\"},"
		   "{\"hostPort\":8080,\"containerPort\":80,\"hostIP\":\"192.0.2.1\"}"),
	  "[fd00::1]:8080/tcp>80 192.0.2.1:8080/tcp>80 " },
	{ "every address, and every address of IPv6",
	  MAPPINGS(TCP_8080 ",{\"hostPort\":8080,\"containerPort\":80,\"hostIP\":\"::\"}"),
	  "0.0.0.0:8080/tcp>80 [::]:8080/tcp>80 " },
};

START_TEST(test_config_of_two)
{
	cleanup_port_mappings struct mk_cni_port_mappings mappings = { 0 };
	cleanup_cni_conf struct mk_cni_conf conf = { 0 };
	struct mk_cni_failure failure = { 0 };
	char input[2048], text[512];

	snprintf(input, sizeof(input), "{\"cniVersion\":\"1.0.0\",\"name\":\"n\"%s}",
		 configs46[_i].fields);
	ck_assert_int_eq(mk_cni_conf_parse(&conf, input, strlen(input), &failure), 0);
	set_network(&conf, "10.244.1.254");
	set_network(&conf, "fd00:10:244:1::3fe");
	ck_assert_int_eq(mk_cni_port_mappings_read(&mappings, &conf, &failure), 0);
	tell(&mappings, text, sizeof(text));
	ck_assert_msg(strcmp(text, configs46[_i].text) == 0, "%s: '%s'", configs46[_i].name, text);
	ck_kept_as_text(configs46[_i].name, &mappings);
}
END_TEST

START_TEST(test_config_of_ipv6)
{
	cleanup_port_mappings struct mk_cni_port_mappings mappings = { 0 };
	cleanup_cni_conf struct mk_cni_conf conf = { 0 };
	struct mk_cni_failure failure = { 0 };
	char input[2048];

	snprintf(input, sizeof(input), "{\"cniVersion\":\"1.0.0\",\"name\":\"n\"%s}",
		 configs6[_i].fields);
	ck_assert_int_eq(mk_cni_conf_parse(&conf, input, strlen(input), &failure), 0);
	set_network(&conf, "fd00:10:244:1::3fe");
	ck_assert_msg(mk_cni_port_mappings_read(&mappings, &conf, &failure) == 0, "%s: %s",
		      configs6[_i].name, failure.cause.text);
	ck_assert_msg(mappings.count == configs6[_i].count, "%s: %zu", configs6[_i].name,
		      mappings.count);
	ck_kept_as_text(configs6[_i].name, &mappings);
}
END_TEST

START_TEST(test_config)
{
	cleanup_port_mappings struct mk_cni_port_mappings mappings = { 0 };
	cleanup_cni_conf struct mk_cni_conf conf = { 0 };
	struct mk_cni_failure failure = { 0 };
	char input[2048], text[512];
	int ret;

	snprintf(input, sizeof(input),
		 "{\"cniVersion\":\"1.0.0\","
		 "\"name\":\"n\"%s}",
		 configs[_i].fields);
	ck_assert_int_eq(mk_cni_conf_parse(&conf, input, strlen(input), &failure), 0);
	set_network(&conf, "10.244.1.254");
	ret = mk_cni_port_mappings_read(&mappings, &conf, &failure);
	if (configs[_i].fails) {
		ck_assert_msg(ret < 0 && failure.code == MK_CNI_INVALID_CONFIG, "%s: accepted",
			      configs[_i].name);
		ck_assert_msg(strstr(failure.cause.text, configs[_i].text) != NULL, "%s: %s",
			      configs[_i].name, failure.cause.text);
		return;
	}
	ck_assert_msg(ret == 0, "%s: %s", configs[_i].name, failure.cause.text);
	tell(&mappings, text, sizeof(text));
	ck_assert_msg(strcmp(text, configs[_i].text) == 0, "%s: '%s'", configs[_i].name, text);
	ck_kept_as_text(configs[_i].name, &mappings);
}
END_TEST

/* ---- what runtimes sent ---------------------------------------------------------------------- */

static const struct {
	const char *file, *verb, *text;
} recordings[] = {
	{ "cni-containerd-2.1.9.txt", "== ADD\n",
	  "0.0.0.0:54001/tcp>8080 10.90.0.11:54002/udp>53 127.0.0.1:54003/sctp>9 " },
	{ "cni-containerd-2.1.9.txt", "== DEL\n",
	  "0.0.0.0:54001/tcp>8080 10.90.0.11:54002/udp>53 127.0.0.1:54003/sctp>9 " },
	{ "cni-podman-4.3.1.txt", "== ADD\n",
	  "0.0.0.0:54001/tcp>8080 192.168.99.11:54002/udp>53 127.0.0.1:54003/sctp>9 " },
	{ "cni-podman-4.3.1.txt", "== DEL\n",
	  "0.0.0.0:54001/tcp>8080 192.168.99.11:54002/udp>53 127.0.0.1:54003/sctp>9 " },
};

/* The first configuration in @file that follows the line "== @verb". */
static char *recorded(const char *file, const char *verb)
{
	const char *slash = strrchr(__FILE__, '/');
	char path[512], *text = NULL, *from, *end;
	struct mk_error err = { 0 };
	size_t size;

	snprintf(path, sizeof(path), "%.*s/data/%s", (int)(slash - __FILE__), __FILE__, file);
	ck_ok(mk_file_read(path, 1 << 20, &text, &size, &err));
	from = strstr(text, verb);
	from = from ? strstr(from, "\n{") : NULL;
	ck_assert_msg(from != NULL, "%s has no %s", file, verb);
	end = strchr(from + 1, '\n');
	from = strndup(from + 1, (size_t)(end - from - 1));
	free(text);
	return from;
}

START_TEST(test_recorded)
{
	cleanup_port_mappings struct mk_cni_port_mappings mappings = { 0 };
	cleanup_cni_conf struct mk_cni_conf conf = { 0 };
	cleanup_free char *input = recorded(recordings[_i].file, recordings[_i].verb);
	struct mk_cni_failure failure = { 0 };
	char text[512];

	ck_assert_int_eq(mk_cni_conf_parse(&conf, input, strlen(input), &failure), 0);
	set_network(&conf, "10.244.1.254");
	ck_assert_msg(mk_cni_port_mappings_read(&mappings, &conf, &failure) == 0, "%s",
		      failure.cause.text);
	tell(&mappings, text, sizeof(text));
	ck_assert_msg(strcmp(text, recordings[_i].text) == 0, "%s: '%s'", recordings[_i].file,
		      text);
}
END_TEST

/* ---- names ----------------------------------------------------------------------------------- */

static const struct {
	const char *name, *known;
	bool same;
} names[] = {
	{ "hostPort", "hostPort", true },
	{ "HOSTpORT", "hostPort", true },
	{ "Ho\u017ftPort", "hostPort", true },
	{ "\u017fearche\u017f", "searches", true },
	{ "\u212aind", "kind", true },
	{ "\u212aIND", "kind", true },
	{ "", "hostPort", false },
	{ "hostPor", "hostPort", false },
	{ "hostPorts", "hostPort", false },
	{ "host-port", "hostPort", false },
	{ "ho\u0161tPort", "hostPort", false }, /* not a long s */
	{ "h\u00f6stPort", "hostPort", false },
	{ "host\xc5", "hosts", false }, /* half a character */
	{ "@ostPort", "`ostPort", false }, /* beside the letters: '@' | 0x20 is '`' */
	{ "[]", "{}", false },
};

START_TEST(test_names)
{
	ck_assert_msg(cni_name_folds(names[_i].name, names[_i].known) == names[_i].same,
		      "'%s', '%s'", names[_i].name, names[_i].known);
}
END_TEST

UNIT_SUITE("cni_port_mappings")
{
	TCase *tc = unit_case(suite, "config", NULL, NULL);

	tcase_add_loop_test(tc, test_config, 0, MK_ARRAY_SIZE(configs));
	tcase_add_loop_test(tc, test_config_of_ipv6, 0, MK_ARRAY_SIZE(configs6));
	tcase_add_loop_test(tc, test_config_of_two, 0, MK_ARRAY_SIZE(configs46));
	tcase_add_loop_test(tc, test_senseless_text, 0, MK_ARRAY_SIZE(senseless));
	tcase_add_loop_test(tc, test_recorded, 0, MK_ARRAY_SIZE(recordings));
	tcase_add_loop_test(tc, test_names, 0, MK_ARRAY_SIZE(names));
}

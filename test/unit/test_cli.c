// SPDX-License-Identifier: Apache-2.0
/* The command line's pure parts: lists as text and JSON, frames of a trace, help from the table. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/cli_internal.h"
#include "cli/print.h"
#include "cli/inspect/view.h"
#include "cli/trace/trace.h"
#include "pod/request/conf.h"
#include "unit/unit.h"
#include "rows.h"

static struct mk_error err;

START_TEST(test_table)
{
	static const struct mk_cli_column columns[] = {
		{ "NAME", "name" }, { "PORT", "port" }, { "UP", "up" }, { "WHO", "who" }
	};
	struct json_object *list = json_tokener_parse(
		"[{\"name\": \"a-long-name\", \"port\": 80, \"up\": true, \"who\": [\"x\", \"y\"]},"
		" {\"name\": \"b\", \"port\": 8080, \"up\": false, \"who\": null}]");
	cleanup_free char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	mk_cli_print_table(out, list, columns, MK_ARRAY_SIZE(columns));
	fclose(out);
	json_object_put(list);
	ck_assert_str_eq(text, "NAME         PORT  UP   WHO\n"
			       "a-long-name  80    yes  x,y\n"
			       "b            8080  no   -\n");
}
END_TEST

static void check_frames(struct mk_addr from, struct mk_addr to, uint8_t icmp,
			 const struct mk_trace_form *form)
{
	const uint8_t protocols[] = { IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP, icmp };
	static const uint8_t mac[6] = { 2, 1 };
	struct mk_tuple tuple = {
		.saddr = from, .daddr = to, .sport = htons(40000), .dport = htons(40000)
	};
	struct mk_trace_frame frame;
	struct mk_tuple seen;

	for (size_t i = 0; i < sizeof(protocols); i++) {
		tuple.proto = protocols[i];
		trace_frame_make(&frame, &tuple, form, mac, mac);
		ck_assert(trace_frame_read(&frame, &seen));
		ck_assert_mem_eq(&seen, &tuple, sizeof(tuple));
	}
	frame.length = 20;
	ck_assert(!trace_frame_read(&frame, &seen));
}

START_TEST(test_frame)
{
	const struct mk_addr pod = { { htonl(0xfd000010), htonl(0x02440001), 0, htonl(2) } };
	const struct mk_addr service = { { htonl(0xfd000010), htonl(0x00960000), 0, htonl(1) } };
	const struct mk_addr ipv4 = ROW_IPV4(0x0201f40a), service_ipv4 = ROW_IPV4(0x0a71);
	const struct mk_trace_form plain = { .header_count = 0 };
	const struct mk_trace_form every = { .headers = { 0, 1, 2, 3, 4, 5 }, .header_count = 6 };
	char text[MK_ENDPOINT_STRLEN];

	check_frames(ipv4, service_ipv4, IPPROTO_ICMP, &plain);
	check_frames(pod, service, IPPROTO_ICMPV6, &plain);
	check_frames(pod, service, IPPROTO_ICMPV6, &every);
	ck_assert_uint_eq(trace_l4_off(&plain), 40);
	ck_assert_uint_eq(trace_l4_off(&every), 40 + 5 * 8 + 16);
	ck_assert_str_eq(mk_cli_endpoint(&ipv4, htons(80), text), "10.244.1.2:80");
	ck_assert_str_eq(mk_cli_endpoint(&pod, htons(80), text), "[fd00:10:244:1::2]:80");
	ck_assert_str_eq(mk_cli_endpoint(&pod, 0, text), "fd00:10:244:1::2");
}
END_TEST

START_TEST(test_pod_name)
{
	static const struct {
		const char *args, *name;
	} rows[] = {
		{ "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web", "default/web" },
		{ "K8S_POD_NAME=web;K8S_POD_NAMESPACE=kube-system", "kube-system/web" },
		{ "K8S_POD_NAME=web", "" },
		{ "K8S_POD_NAME=;K8S_POD_NAMESPACE=x", "" },
		{ "", "" },
		{ NULL, "" },
	};
	char name[MK_CNI_POD_NAME_BYTES];

	for (size_t i = 0; i < MK_ARRAY_SIZE(rows); i++)
		ck_assert_str_eq(mk_cni_pod_name(rows[i].args, name), rows[i].name);
}
END_TEST

START_TEST(test_pod)
{
	static const struct {
		const char *args, *namespace_, *name, *uid;
	} rows[] = {
		{ "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=7a1c", "shop", "web",
		  "7a1c" },
		{ "IgnoreUnknown=1;K8S_POD_NAME=web;K8S_POD_NAMESPACE=shop", "shop", "web", "" },
		{ "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=", "shop", "web", "" },
		{ "K8S_POD_NAME=web;K8S_POD_UID=7a1c", "", "", "" },
		{ "K8S_POD_NAMESPACE=shop;K8S_POD_UID=7a1c", "", "", "" },
		{ "K8S_POD_UID=7a1c", "", "", "" },
		{ NULL, "", "", "" },
	};
	char args[400] = "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=";
	struct mk_cni_pod pod;

	for (size_t i = 0; i < MK_ARRAY_SIZE(rows); i++) {
		mk_cni_pod_read(&pod, rows[i].args);
		ck_assert_str_eq(pod.namespace_, rows[i].namespace_);
		ck_assert_str_eq(pod.name, rows[i].name);
		ck_assert_str_eq(pod.uid, rows[i].uid);
	}
	memset(args + strlen(args), 'x', 254);
	mk_cni_pod_read(&pod, args);
	ck_assert_str_eq(pod.namespace_, "");
	args[strlen(args) - 1] = '\0';
	mk_cni_pod_read(&pod, args);
	ck_assert_uint_eq(strlen(pod.name), 253);
}
END_TEST

static char *printed(void (*print)(FILE *out))
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	print(out);
	fclose(out);
	return text;
}

START_TEST(test_texts_name_every_command)
{
	cleanup_free char *help = printed(cli_print_help);
	cleanup_free char *completion = printed(cli_print_bash_completion);
	cleanup_free char *manual = printed(cli_print_manual);
	char wanted[64];

	for (size_t i = 0; i < mk_cli_command_count; i++) {
		snprintf(wanted, sizeof(wanted), "\n  %s ", mk_cli_commands[i].name);
		ck_assert_msg(strstr(help, wanted), "help lacks %s", wanted);
		snprintf(wanted, sizeof(wanted), "\t'%s%s'*) words=", mk_cli_commands[i].name,
			 strchr(mk_cli_commands[i].name, ' ') ? "" : " ");
		ck_assert_msg(strstr(completion, wanted), "completion lacks %s", wanted);
		snprintf(wanted, sizeof(wanted), "\n.B %s\n", mk_cli_commands[i].name);
		ck_assert_msg(strstr(manual, wanted), "manual lacks %s", wanted);
	}
	ck_assert_ptr_nonnull(
		strstr(manual, "\\fIPORT\\fR (vxlanPort)\nUDP port of the overlay.\n"));
}
END_TEST

/* Commands for scripts have JSON, and their exit status is documented. */
START_TEST(test_for_scripts)
{
	static const char *const names[] = { "status",	 "check",    "trace", "pods",  "nodes",
					     "services", "sessions", "nat",   "drops", "monitor" };
	cleanup_free char *manual = printed(cli_print_manual);

	for (size_t i = 0; i < MK_ARRAY_SIZE(names); i++) {
		const struct mk_cli_command *command = cli_command_find(names[i]);

		ck_assert_msg(command && command->flags & MK_CLI_JSON, "%s", names[i]);
	}
	ck_assert_ptr_nonnull(strstr(manual, ".SH EXIT STATUS\n0; 1 if it failed, or found "
					     "something wrong; 2 if there is no such subcommand; "
					     "3 if the packet of\n.B trace\ndoes not arrive"));
}
END_TEST

START_TEST(test_options)
{
	static const struct {
		const char *argv[9], *says; /* says NULL: accepted */
	} rows[] = {
		{ { "trace", "a", "b", "80", "--protocol", "UDP" }, NULL },
		{ { "trace", "a" }, "usage: monokube trace FROM TO [PORT]" },
		{ { "trace", "a", "b", "1", "2" }, "unexpected argument '2'" },
		{ { "sessions", "--limit=0" }, "flag --limit: value '0', expected a number" },
		{ { "sessions", "-ojson", ":80" }, NULL },
		{ { "pods", "-o", "yaml" }, "flag -o: value 'yaml', expected json" },
		{ { "pods", "--follow" }, "unknown flag '--follow'" },
		{ { "drops", "--follow" }, NULL },
		{ { "trace", "a", "b", "--source-port", "65536" }, "expected 1 to 65535" },
		{ { "monitor", "--sample=100", "--drops", "--pod", "x", "--count=1" }, NULL },
		{ { "monitor", "--sample", "0" }, "flag --sample: value '0', expected a number" },
		{ { "monitor", "--port", "http" }, "flag --port: value 'http', expected 1 to" },
		{ { "monitor", "--service" }, "flag --service: value '', expected a name" },
		{ { "pods", "--sample", "1" }, "unknown flag '--sample'" },
		{ { "sessions", "-4", "-6" }, NULL },
		{ { "status", "-6" }, "unknown flag '-6'" },
	};

	for (size_t i = 0; i < MK_ARRAY_SIZE(rows); i++) {
		struct mk_cli_options options;
		int argc = 0, ret;

		while (rows[i].argv[argc])
			argc++;
		err = (struct mk_error){ 0 };
		ret = mk_cli_options_read(&options, argc, (char **)(uintptr_t)rows[i].argv, &err);
		ck_assert_msg(!rows[i].says == (ret == 0), "row %zu: %d %s", i, ret, err.text);
		ck_assert_msg(!rows[i].says || strstr(err.text, rows[i].says), "row %zu: %s", i,
			      err.text);
	}
}
END_TEST

static struct mk_cli_options options_of(const char *const *argv)
{
	struct mk_cli_options options;
	int argc = 0;

	while (argv[argc])
		argc++;
	ck_ok(mk_cli_options_read(&options, argc, (char **)(uintptr_t)argv, &err));
	return options;
}

START_TEST(test_what_flags_do)
{
	static const char *const cleanup[] = { "cleanup", "--host", "--state-dir", "/x", NULL };
	static const char *const drops[] = { "drops", "--follow", "-o", "json", NULL };
	static const char *const sessions[] = { "sessions", "a",	  "--limit", "5",
						"b",	    "--protocol", "sctp",    NULL };
	static const char *const trace[] = { "trace", "a", "b", "--source-port=7", NULL };
	struct mk_cli_options options = options_of(cleanup);

	ck_assert(options.host && !options.follow && !options.json);
	ck_assert_str_eq(options.state_dir, "/x");
	options = options_of(drops);
	ck_assert(options.follow && options.json && !options.host);
	options = options_of(sessions);
	ck_assert_uint_eq(options.limit, 5);
	ck_assert_uint_eq(options.protocol, IPPROTO_SCTP);
	ck_assert_int_eq(options.word_count, 2);
	ck_assert_str_eq(options.words[1], "b");
	ck_assert_ptr_null(options.words[2]);
	options = options_of(trace);
	ck_assert_uint_eq(options.source_port, 7);
	ck_assert_uint_eq(options.limit, MK_CLI_LINES);
}
END_TEST

START_TEST(test_remedies)
{
	for (unsigned int reason = 0; reason < MK_DROP_COUNT; reason++)
		ck_assert_msg(*mk_drop_remedy(reason), "drop reason %u has no remedy", reason);
	ck_assert_str_eq(mk_drop_remedy(MK_DROP_COUNT), "");
}
END_TEST

UNIT_SUITE("command line")
{
	TCase *tcase = unit_case(suite, "pure", NULL, NULL);

	tcase_add_test(tcase, test_table);
	tcase_add_test(tcase, test_frame);
	tcase_add_test(tcase, test_pod);
	tcase_add_test(tcase, test_pod_name);
	tcase_add_test(tcase, test_texts_name_every_command);
	tcase_add_test(tcase, test_for_scripts);
	tcase_add_test(tcase, test_options);
	tcase_add_test(tcase, test_what_flags_do);
	tcase_add_test(tcase, test_remedies);
}

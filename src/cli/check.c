// SPDX-License-Identifier: Apache-2.0
#include "cli/check.h"

#include <stdarg.h>

#include "base/cleanup.h"
#include "cli/print.h"

void mk_check_found(struct mk_checking *checking, const char *check, const char *remedy,
		    const char *fmt, ...)
{
	struct json_object *finding = json_object_new_object();
	char says[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(says, sizeof(says), fmt, args);
	va_end(args);
	mk_put_text(finding, "check", check);
	mk_put_flag(finding, "ok", !remedy);
	mk_put_text(finding, "says", says);
	mk_put_text(finding, "remedy", remedy);
	json_object_array_add(checking->findings, finding);
	checking->wrong += remedy != NULL;
}

void mk_check_all(struct mk_checking *checking)
{
	static void (*const checks[])(struct mk_checking *) = {
		mk_check_agent, mk_check_hooks,	     mk_check_nodes,
		mk_check_pods,	mk_check_mtu,	     mk_check_settings,
		mk_check_cni,	mk_check_kube_proxy, mk_check_foreign_programs,
	};

	checking->findings = json_object_new_array();
	for (size_t i = 0; i < MK_ARRAY_SIZE(checks); i++)
		checks[i](checking);
}

static void print_text(const struct mk_checking *checking)
{
	for (size_t i = 0; i < json_object_array_length(checking->findings); i++) {
		struct json_object *finding = json_object_array_get_idx(checking->findings, i);
		struct json_object *remedy = json_object_object_get(finding, "remedy");

		printf("%-5s  %-12s  %s\n", remedy ? "WRONG" : "ok",
		       json_object_get_string(json_object_object_get(finding, "check")),
		       json_object_get_string(json_object_object_get(finding, "says")));
		if (remedy)
			printf("       %-12s  -> %s\n", "", json_object_get_string(remedy));
	}
	if (checking->wrong)
		printf("%u wrong\n", checking->wrong);
	else
		printf("healthy\n");
}

int mk_cli_check(int argc, char **argv)
{
	cleanup_view struct mk_view view = { .routes = { .fd = -1 } };
	struct mk_cli_options options;
	struct mk_checking checking = { .view = &view, .options = &options };
	struct mk_error err = { 0 };
	int ret = mk_cli_options_read(&options, argc, argv, &err);

	if (ret > 0)
		return 0;
	if (ret == 0)
		ret = mk_record_read(options.state_dir, &checking.record, &err);
	if (ret == 0)
		ret = mk_view_open(&view, &options, &err);
	if (ret < 0)
		return mk_cli_fail(argv[0], &err);
	mk_check_all(&checking);
	if (options.json)
		ret = mk_cli_print_json(stdout, checking.findings, &err);
	else
		print_text(&checking);
	json_object_put(checking.findings);
	return ret < 0 ? mk_cli_fail(argv[0], &err) : checking.wrong != 0;
}

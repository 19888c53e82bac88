// SPDX-License-Identifier: Apache-2.0
#include "cli/check/check.h"

#include <stdarg.h>

#include "base/cleanup.h"
#include "cli/print.h"

__attribute__((format(printf, 5, 0))) static void add_finding(struct mk_checking *checking,
							      const char *check, bool ok,
							      const char *remedy, const char *fmt,
							      va_list args)
{
	struct json_object *finding = json_object_new_object();
	char says[512];

	vsnprintf(says, sizeof(says), fmt, args);
	mk_put_text(finding, "check", check);
	mk_put_flag(finding, "ok", ok);
	mk_put_text(finding, "says", says);
	mk_put_text(finding, "remedy", remedy);
	json_object_array_add(checking->findings, finding);
	checking->wrong += !ok;
}

void check_found(struct mk_checking *checking, const char *check, const char *remedy,
		 const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	add_finding(checking, check, !remedy, remedy, fmt, args);
	va_end(args);
}

void check_note(struct mk_checking *checking, const char *check, const char *remedy,
		const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	add_finding(checking, check, true, remedy, fmt, args);
	va_end(args);
}

int check_all(struct mk_checking *checking, const struct mk_view *view,
	      const struct mk_cli_options *options, struct mk_error *err)
{
	static const struct {
		void (*run)(struct mk_checking *checking);
		bool needs_datapath;
	} checks[] = {
		{ check_agent, false },
		{ check_kernel, false },
		{ check_networks, false },
		{ check_hooks, true },
		{ check_nodes, true },
		{ check_pods, true },
		{ check_mtu, true },
		{ check_settings, true },
		{ check_cni, true },
		{ check_kube_proxy, false },
		{ check_foreign_programs, true },
		{ check_path, true },
		{ check_firewall, false },
		{ check_path_filter, false },
		{ check_routing, true },
		{ check_networkd, false },
		{ check_offload, true },
		{ check_clock, false },
	};
	int ret;

	*checking = (struct mk_checking){ .view = view, .options = options };
	ret = mk_record_read(options->state_dir, &checking->record, err);
	if (ret < 0)
		return ret;
	checking->findings = json_object_new_array();
	for (size_t i = 0; i < MK_ARRAY_SIZE(checks); i++)
		if (view->loaded || !checks[i].needs_datapath)
			checks[i].run(checking);
	return 0;
}

static void print_text(const struct mk_checking *checking)
{
	for (size_t i = 0; i < json_object_array_length(checking->findings); i++) {
		struct json_object *finding = json_object_array_get_idx(checking->findings, i);
		struct json_object *remedy = json_object_object_get(finding, "remedy");

		bool ok = json_object_get_boolean(json_object_object_get(finding, "ok"));

		printf("%-5s  %-12s  %s\n",
		       !ok	? "WRONG"
		       : remedy ? "note"
				: "ok",
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

static int show(const struct mk_view *view, const struct mk_cli_options *options,
		struct mk_error *err)
{
	struct mk_checking checking;
	int ret = check_all(&checking, view, options, err);

	if (ret < 0)
		return ret;
	if (options->json)
		ret = mk_cli_print_json(stdout, checking.findings, err);
	else
		print_text(&checking);
	json_object_put(checking.findings);
	return ret < 0 ? ret : checking.wrong != 0;
}

int mk_cli_check(int argc, char **argv)
{
	return mk_view_main_unloaded(argc, argv, show);
}

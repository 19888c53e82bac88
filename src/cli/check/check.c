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
	int used = checking->label ? snprintf(says, sizeof(says), "%s: ", checking->label) : 0;

	vsnprintf(says + used, sizeof(says) - (size_t)used, fmt, args);
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

const struct mk_view *check_view(const struct mk_checking *checking, sa_family_t family)
{
	for (size_t i = 0; i < checking->views->count; i++)
		if (checking->views->list[i].family == family)
			return &checking->views->list[i];
	return NULL;
}

struct check {
	void (*run)(struct mk_checking *checking);
	bool needs_datapath, by_family;
};

/* What has no family is checked by IPv4's tables if there are any: these have all devices. */
static void run_check(struct mk_checking *checking, const struct check *check)
{
	const struct mk_views *views = checking->views;

	checking->view = check_view(checking, AF_INET) ?: &views->list[0];
	if (!check->by_family || views->count == 1) {
		check->run(checking);
		return;
	}
	for (size_t i = 0; i < views->count; i++) {
		checking->view = &views->list[i];
		checking->label = mk_family_name(checking->view->family);
		check->run(checking);
	}
	checking->label = NULL;
}

int check_all(struct mk_checking *checking, const struct mk_views *views,
	      const struct mk_cli_options *options, bool reads_cluster, struct mk_error *err)
{
	static const struct check checks[] = {
		{ check_agent, false, false },
		{ check_kernel, false, false },
		{ check_networks, false, false },
		{ check_families, true, false },
		{ check_hooks, true, false },
		{ check_nodes, true, true },
		{ check_encryption, true, false },
		{ check_direct, true, true },
		{ check_peers, true, true },
		{ check_dns, false, false },
		{ check_left, false, false },
		{ check_pods, true, true },
		{ check_ports, true, false },
		{ check_policies, true, true },
		{ check_policy_mode, false, false },
		{ check_policy_notes, true, false },
		{ check_policy_objects, false, false },
		{ check_policy_engines, true, false },
		{ check_former_family, true, false },
		{ check_mtu, true, false },
		{ check_settings, true, true },
		{ check_cni, true, false },
		{ check_kube_proxy, false, false },
		{ check_foreign_programs, true, false },
		{ check_path, true, true },
		{ check_firewall, false, false },
		{ check_path_filter, false, false },
		{ check_routing, true, true },
		{ check_macvlan, true, false },
		{ check_networkd, false, false },
		{ check_offload, true, false },
		{ check_clock, false, false },
	};
	int ret;

	*checking = (struct mk_checking){ .views = views,
					  .options = options,
					  .reads_cluster = reads_cluster };
	ret = mk_record_read(options->state_dir, &checking->record, err);
	if (ret < 0)
		return ret;
	checking->findings = json_object_new_array();
	for (size_t i = 0; i < MK_ARRAY_SIZE(checks); i++)
		if (views->list[0].loaded || !checks[i].needs_datapath)
			run_check(checking, &checks[i]);
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

static int show(const struct mk_views *views, const struct mk_cli_options *options,
		struct mk_error *err)
{
	struct mk_checking checking;
	int ret = check_all(&checking, views, options, true, err);

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

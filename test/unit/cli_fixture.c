// SPDX-License-Identifier: Apache-2.0
#include "unit/cli_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cli/cli.h"
#include "datapath/pods/pod_table.h"
#include "unit/datapath_fixture.h"

const char *cli_one_line(char *text)
{
	for (char *end = text; (end = strchr(end, '\n'));)
		*end = '|';
	return text;
}

char *cli_output_any(int *status, const char *const *words)
{
	char *argv[16] = { (char *)(uintptr_t) "monokube" }, *text = NULL;
	FILE *file = tmpfile();
	int argc = 1, saved = dup(STDOUT_FILENO);
	size_t size = 0;

	for (; words[argc - 1]; argc++)
		argv[argc] = (char *)(uintptr_t)words[argc - 1];
	argv[argc++] = (char *)(uintptr_t) "--state-dir";
	argv[argc++] = fx.state_dir;
	fflush(stdout);
	dup2(fileno(file), STDOUT_FILENO);
	*status = mk_cli_main(argc, argv);
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	rewind(file);
	text = calloc(1, 65536);
	size = fread(text, 1, 65535, file);
	text[size] = '\0';
	fclose(file);
	return text;
}

char *cli_output(int status, const char *const *words)
{
	int ret;
	char *text = cli_output_any(&ret, words);

	ck_assert_msg(ret == status, "exit status %d, expected %d: %.3000s", ret, status,
		      cli_one_line(text));
	return text;
}

void cli_check(bool has, int status, const char *part, const char *const *words)
{
	cleanup_free char *text = cli_output(status, words);
	bool found = strstr(text, part) != NULL;

	ck_assert_msg(found == has, "%s '%s' in: %.3000s", has ? "no" : "there is", part,
		      cli_one_line(text));
}

/* ---- a node with policies -------------------------------------------------------------------- */

void cli_put(const char *table, const void *key, size_t key_size, const void *value,
	     size_t value_size)
{
	cleanup_table struct mk_table opened = { .fd = -1 };

	fx_ok(mk_table_open(&opened, fx.bpf_dir, table, key_size, value_size, &fx.err));
	fx_ok(mk_table_put(&opened, key, value, &fx.err));
}

static void put_route(const char *range, uint8_t type)
{
	const struct mk_cidr cidr = cidr_of(range);
	const struct mk_route_key key = { cidr.prefix_bits, mk_ip_to_addr(&cidr.ip) };
	const struct mk_route route = { .type = type };

	cli_put("routes", &key, sizeof(key), &route, sizeof(route));
}

struct mk_datapath *cli_node(void)
{
	struct mk_datapath *datapath;
	char path[PATH_MAX], text[PATH_MAX + 64];

	fx.constants.pod_net = addr_of("10.244.1.0");
	fx.constants.pod_mask = addr_of("255.255.255.0");
	fx.constants.cluster_net = addr_of("10.244.0.0");
	fx.constants.cluster_mask = addr_of("255.255.0.0");
	fx.constants.vtep_net = addr_of("10.18.0.0");
	fx.constants.vtep_mask = addr_of("255.255.0.0");
	fx.constants.vpod_addr = addr_of("10.244.1.1");
	fx.constants.vtep_addr = addr_of("10.18.0.1");
	fx.constants.gateway_addr = addr_of("10.244.1.254");
	fx.links.set.node_addr = fx.links.set.first.addr = addr_of("192.168.99.11");
	datapath = fx_attached();
	put_route("10.244.1.0/24", MK_ROUTE_PODS);
	put_route("10.244.2.0/24", MK_ROUTE_OVERLAY);
	put_route("192.168.99.11/32", MK_ROUTE_HOST);
	snprintf(path, sizeof(path), "%s/made", fx.state_dir);
	snprintf(text, sizeof(text), "bpf_dir=%s\ncluster_cidr=10.244.0.0/16\n", fx.bpf_dir);
	fx_ok(mk_file_replace(path, text, strlen(text), 0600, &fx.err));
	return datapath;
}

void cli_put_pod(const char *address, int ifindex, const char *name)
{
	const struct mk_pod pod = { .addr = addr_of(address), .ifindex = (__u32)ifindex };
	const struct mk_link_change link = { .alias = name };
	cleanup_table struct mk_table table = { .fd = -1 };

	fx_ok(mk_nl_link_change(fx.nl, ifindex, &link, &fx.err));
	fx_ok(mk_pod_table_open(&table, fx.bpf_dir, &fx.err));
	fx_ok(mk_pod_table_put(&table, &pod, &fx.err));
}

void cli_attach_pod(int ifindex)
{
	cleanup_close int fd = mk_pin_open(fx.bpf_dir, MK_PIN_PROGS, "ilb_pod", &fx.err);

	fx_ok(fd);
	fx_ok(mk_hook_attach(fx.nl, ifindex, MK_INGRESS, fd, &fx.err));
}

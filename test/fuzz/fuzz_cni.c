// SPDX-License-Identifier: Apache-2.0
/* test/fuzz/fuzz_cni.c - what a runtime writes on the plugin's standard input, as each verb reads
 * it: CHECK's comparison with prevResult by its source, which is part of this file. */
#include "pod/cni/check.c"
#include "fuzz/fuzz.h"
#include "pod/endpoint/endpoint_internal.h"
#include "pod/ipam/directory.h"
#include "pod/request/conf.h"
#include "pod/request/reply.h"

const size_t fuzz_header_bytes = 0;

/* Ports that are kept lead somewhere and are of a known protocol. */
static void read_ports(const struct mk_cni_conf *conf, struct mk_cni_failure *failure)
{
	cleanup_port_mappings struct mk_cni_port_mappings mappings = { 0 };

	if (mk_cni_port_mappings_read(&mappings, conf, failure) < 0)
		return;
	for (size_t i = 0; i < mappings.count; i++)
		fuzz_check(mappings.list[i].key.port && mappings.list[i].to.port &&
			   mappings.list[i].key.proto);
}

static void compare(struct mk_cni_conf *conf)
{
	static const struct mk_cni_args args = { "0123456789abcdef", "eth0", "/run/netns/a" };
	struct checking checking = { .args = &args, .conf = conf, .netns_fd = -1 };
	json_object *prev_result = mk_cni_conf_prev_result(conf);

	fuzz_check(mk_ip_parse("10.244.1.2", &checking.ips[0]) == 0);
	fuzz_check(mk_ip_parse("fd00:10:244:1::2", &checking.ips[1]) == 0);
	mk_cni_host_name(conf->veth_prefix, args.container_id, args.ifname, checking.host_name);
	fuzz_check(strlen(checking.host_name) < IFNAMSIZ);
	if (json_object_is_type(prev_result, json_type_object))
		check_prev_result(&checking, prev_result);
	fuzz_check(memchr(checking.findings.text, '\0', sizeof(checking.findings.text)) != NULL);
}

/* Every refusal can be reported as the specification wants it. */
static void report(const struct mk_cni_failure *failure)
{
	json_object *answer = mk_cni_failure_json(failure, "1.0.0");

	fuzz_check(answer && json_object_to_json_string(answer));
	json_object_put(answer);
}

/* A name of an address file is the only one of its address. Host ports in such a file have one
 * meaning, also after they are written again. */
static void read_file_texts(const char *text)
{
	cleanup_port_mappings struct mk_cni_port_mappings mappings = { 0 }, again = { 0 };
	cleanup_free char *written = NULL;
	char name[MK_IPAM_ADDRESS_BYTES];
	struct mk_error err = { 0 };
	struct mk_ip ip;

	if (ipam_name_parse(text, &ip) == 0)
		fuzz_check(strcmp(mk_ipam_name(&ip, name), text) == 0);
	if (cni_port_mappings_parse(&mappings, text, &err) < 0)
		return;
	written = mk_cni_port_mappings_format(&mappings);
	fuzz_check(written && cni_port_mappings_parse(&again, written, &err) == 0);
	fuzz_check(again.count == mappings.count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mk_cni_failure failure = { 0 };
	cleanup_cni_conf struct mk_cni_conf conf = { 0 };
	char *text = fuzz_text(data, size);
	json_object *list = NULL;

	read_file_texts(text);
	if (mk_cni_conf_parse(&conf, text, size, &failure) == 0) {
		if (mk_cni_conf_read_network(&conf, &failure) == 0)
			read_ports(&conf, &failure);
		(void)!mk_cni_conf_attachments(&conf, &list, &failure);
		compare(&conf);
	}
	if (failure.code)
		report(&failure);
	free(text);
	return 0;
}

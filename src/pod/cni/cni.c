// SPDX-License-Identifier: Apache-2.0
#include "pod/cni/cni.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/json.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/time.h"
#include "pod/cni/cni_internal.h"
#include "pod/endpoint/endpoint.h"
#include "pod/ipam/ipam.h"
#include "pod/request/calls.h"
#include "pod/request/conf.h"

#define INPUT_MAX_BYTES (1024 * 1024)

/* ---- the small verbs ------------------------------------------------------------------------- */

/* Needs neither prevResult nor CNI_NETNS: the owner is sufficient to find what to remove. */
static int del(const struct mk_cni_args *args, struct mk_cni_conf *conf,
	       struct mk_cni_failure *failure)
{
	cleanup_cni_node struct mk_cni_node node = { 0 };

	if (mk_cni_node_open(&node, conf, &failure->cause) < 0 ||
	    mk_cni_endpoint_remove(&node, args->container_id, args->ifname, &failure->cause) < 0)
		return mk_cni_fail(failure, MK_CNI_IO_FAILURE, "cannot remove the pod's network");
	return 0;
}

static int status(const struct mk_cni_args *args, struct mk_cni_conf *conf,
		  struct mk_cni_failure *failure)
{
	static const char msg[] = "monokube cannot serve ADD";
	cleanup_pods struct mk_pods *pods = NULL;
	cleanup_ipam struct mk_ipam *ipam = NULL;
	sa_family_t family;

	(void)args;
	if (mk_cni_conf_read_network(conf, failure) < 0)
		return -1;
	pods = mk_pods_open(conf->bpf_dir, conf->state_dir, &failure->cause);
	if (!pods)
		return mk_cni_fail(failure, MK_CNI_NOT_AVAILABLE, msg);
	if (!mk_cni_has_families(pods, conf, &family))
		return mk_cni_failf(failure, MK_CNI_NOT_AVAILABLE, msg,
				    "the tables of %s are not pinned in '%s': the agent pins them",
				    mk_family_name(family), conf->bpf_dir);
	ipam = mk_ipam_open(conf->state_dir, &failure->cause);
	return ipam ? 0 : mk_cni_fail(failure, MK_CNI_NOT_AVAILABLE, msg);
}

/* Runtimes give a call two to four minutes. They can handle an error, but not a hang. */
#define LOCKS_WAIT_S 60

/* ---- dispatch -------------------------------------------------------------------------------- */

static const struct verb {
	const char *name;
	enum mk_cni_command command;
	enum mk_cni_version since;
	unsigned int needs; /* enum mk_cni_need */
	int (*run)(const struct mk_cni_args *args, struct mk_cni_conf *conf,
		   struct mk_cni_failure *failure);
} verbs[] = {
	{ "ADD", MK_CNI_COMMAND_ADD, MK_CNI_0_3_1, MK_CNI_NEED_CONTAINER | MK_CNI_NEED_NETNS,
	  mk_cni_add },
	{ "DEL", MK_CNI_COMMAND_DEL, MK_CNI_0_3_1, MK_CNI_NEED_CONTAINER, del },
	{ "CHECK", MK_CNI_COMMAND_CHECK, MK_CNI_0_4_0, MK_CNI_NEED_CONTAINER | MK_CNI_NEED_NETNS,
	  mk_cni_check },
	{ "GC", MK_CNI_COMMAND_GC, MK_CNI_1_1_0, 0, mk_cni_gc },
	{ "STATUS", MK_CNI_COMMAND_STATUS, MK_CNI_1_1_0, 0, status },
};

static int read_input(char **text, size_t *size, struct mk_cni_failure *failure)
{
	int ret = mk_fd_read(STDIN_FILENO, "standard input", INPUT_MAX_BYTES, text, size,
			     &failure->cause);

	if (ret == -EFBIG)
		return mk_cni_fail(failure, MK_CNI_DECODING_FAILURE,
				   "cannot decode the network configuration");
	return ret < 0 ? mk_cni_fail(failure, MK_CNI_IO_FAILURE, "cannot read the configuration")
		       : 0;
}

static int run_verb(const struct verb *verb, const char **version, struct mk_cni_failure *failure)
{
	cleanup_cni_conf struct mk_cni_conf conf = { 0 };
	cleanup_free char *text = NULL;
	uint64_t started_ns = mk_time_monotonic_ns();
	struct mk_cni_args args;
	size_t size;
	int ret;

	if (read_input(&text, &size, failure) < 0 ||
	    mk_cni_conf_parse(&conf, text, size, failure) < 0)
		return -1;
	*version = mk_cni_version_name(conf.version);
	if (conf.version < verb->since)
		return mk_cni_failf(failure, MK_CNI_INCOMPATIBLE_VERSION,
				    "incompatible CNI version",
				    "%s needs cniVersion %s or later, the configuration says %s",
				    verb->name, mk_cni_version_name(verb->since), *version);
	if (mk_cni_args_read(&args, verb->needs, failure) < 0)
		return -1;
	if (cni_is_loopback(&conf))
		return cni_loopback(verb->command, &args, &conf, failure);
	ret = cni_is_port(&conf) ? cni_port(verb->command, &args, &conf, failure)
				 : verb->run(&args, &conf, failure);
	mk_cni_calls_add(conf.bpf_dir, verb->command, ret < 0, mk_time_monotonic_ns() - started_ns);
	return ret;
}

/* A request may have any version, even an unsupported one. The answer repeats it. */
static int run_version(const char **version, struct mk_cni_failure *failure)
{
	cleanup_json json_object *conf = NULL;
	cleanup_free char *text = NULL;
	const char *asked;
	size_t size;
	int ret;

	if (read_input(&text, &size, failure) < 0)
		return -1;
	conf = json_tokener_parse(text);
	if (!json_object_is_type(conf, json_type_object))
		return mk_cni_failf(failure, MK_CNI_DECODING_FAILURE,
				    "cannot decode the version request",
				    "standard input is not a JSON object");
	asked = mk_cni_string(conf, "cniVersion");
	ret = mk_cni_print(mk_cni_versions_json(asked ? asked : *version), &failure->cause);
	return ret < 0 ? mk_cni_fail(failure, MK_CNI_IO_FAILURE, "cannot print the result") : 0;
}

static int dispatch(const char *command, const char **version, struct mk_cni_failure *failure)
{
	if (strcmp(command, "VERSION") == 0)
		return run_version(version, failure);
	for (size_t i = 0; i < MK_ARRAY_SIZE(verbs); i++) {
		if (strcmp(command, verbs[i].name) == 0)
			return run_verb(&verbs[i], version, failure);
	}
	return mk_cni_failf(failure, MK_CNI_INVALID_ENVIRONMENT, "invalid environment variable",
			    "CNI_COMMAND='%.64s': expected ADD, DEL, CHECK, GC, STATUS or VERSION",
			    command);
}

int mk_cni_main(void)
{
	/* for errors whose request has no version: the latest that we support */
	const char *version = mk_cni_version_name(MK_CNI_1_1_0), *command = getenv("CNI_COMMAND");
	struct mk_cni_failure failure = { 0 };
	struct mk_error err = { 0 };

	mk_locks_wait_until(mk_time_monotonic_ns() + LOCKS_WAIT_S * 1000000000ULL);
	mk_log_set_level(MK_LOG_WARN); /* runtimes log what plugins write to standard error */
	if (dispatch(command ? command : "", &version, &failure) == 0)
		return 0;
	if (mk_cni_print(mk_cni_failure_json(&failure, version), &err) < 0)
		mk_log_error("%s; the error was: %s: %s", mk_error_text(&err), failure.msg,
			     mk_error_text(&failure.cause));
	return 1;
}

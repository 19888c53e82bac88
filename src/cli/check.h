/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/check.h - `monokube check`: what a healthy node needs, one finding each. */
#ifndef MK_CLI_CHECK_H
#define MK_CLI_CHECK_H

#include <json-c/json.h>

#include "cli/view.h"
#include "overlay/record.h"

struct mk_checking {
	const struct mk_view *view;
	const struct mk_cli_options *options;
	struct mk_record record;
	struct json_object *findings; /* array of { check, ok, says, remedy } */
	unsigned int wrong;
};

/* Add a finding in words; @remedy NULL: all is well. */
void mk_check_found(struct mk_checking *checking, const char *check, const char *remedy,
		    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Add a possible fault, which depends on things not seen from here. It does not count as wrong. */
void mk_check_note(struct mk_checking *checking, const char *check, const char *remedy,
		   const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Run all checks, into @checking->findings. The caller releases these, unless there was an
 * error. */
mk_must_check int mk_check_all(struct mk_checking *checking, const struct mk_view *view,
			       const struct mk_cli_options *options, struct mk_error *err);

/* check_own.c: what monokube made. */
void mk_check_agent(struct mk_checking *checking);
void mk_check_hooks(struct mk_checking *checking);
void mk_check_nodes(struct mk_checking *checking);
void mk_check_pods(struct mk_checking *checking);
void mk_check_mtu(struct mk_checking *checking);
void mk_check_settings(struct mk_checking *checking);
/* ... also without a datapath. */
void mk_check_kernel(struct mk_checking *checking);
void mk_check_networks(struct mk_checking *checking);
/* check_others.c: what others made. */
void mk_check_cni(struct mk_checking *checking);
void mk_check_kube_proxy(struct mk_checking *checking);
void mk_check_foreign_programs(struct mk_checking *checking);
void mk_check_firewall(struct mk_checking *checking);
/* check_path.c: the network between the nodes. */
void mk_check_path(struct mk_checking *checking);
/* check_host.c: the host itself. */
void mk_check_path_filter(struct mk_checking *checking);
void mk_check_routing(struct mk_checking *checking); /* check_routing.c */
void mk_check_networkd(struct mk_checking *checking);
void mk_check_offload(struct mk_checking *checking);
void mk_check_clock(struct mk_checking *checking);
/* ... rules of iptables-legacy: are there any of kube-proxy? Which chain drops by policy? NULL:
 * none. */
bool mk_check_legacy_kube_proxy(void);
const char *mk_check_legacy_firewall(void);

#endif

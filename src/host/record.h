/* SPDX-License-Identifier: Apache-2.0 */
/* src/host/record.h - names of what an agent makes on its host, recorded in the state directory,
 * so that `monokube cleanup` finds it without the agent's settings. */
#ifndef MK_HOST_RECORD_H
#define MK_HOST_RECORD_H

#include <limits.h>
#include <net/if.h>

#include "base/error.h"
#include "config/config.h"
#include "host/sysctl.h"

/* In cni_bin_dir: the plugin, and its previous version. */
#define MK_PLUGIN_NAME	   "monokube"
#define MK_PREVIOUS_SUFFIX ".previous"
#define MK_LOOPBACK_NAME   "loopback" /* a link to the plugin, if there was no other `loopback` */

struct mk_record {
	char vxlan_name[IFNAMSIZ], sfc_name[IFNAMSIZ], peer_name[IFNAMSIZ];
	char veth_prefix[IFNAMSIZ];
	char bpf_dir[PATH_MAX], cni_conf_path[PATH_MAX], cni_bin_dir[PATH_MAX];
	char reserved_ports[MK_RESERVED_RANGES_BYTES]; /* "": not known */
	/* as the settings have them; "": not known */
	char cluster_cidr[MK_CIDR_STRLEN], vtep_cidr[MK_CIDR_STRLEN]; /* of the primary family */
	/* of the other family; "": none */
	char second_cluster_cidr[MK_CIDR_STRLEN], second_vtep_cidr[MK_CIDR_STRLEN];
	char healthz[MK_IP_PORT_STRLEN];
	char metrics[MK_IP_PORT_STRLEN];
	char masquerade_ipv6[8]; /* auto, true or false */
	char cluster_name[64]; /* "": none, or not known */
	char encryption[16]; /* None, WireGuard or WireGuardOnly; "": not known */
	char routing[16]; /* Overlay, Direct or Auto; "": not known */
	char network_policy[8]; /* enforce, audit or off; "": not known */
	char source[PATH_MAX]; /* what the agent follows, in words; "": not known */
};

mk_must_check int mk_record_write(const struct mk_config *config, const char *source,
				  struct mk_error *err);
/* Read the record; without one, the defaults. */
mk_must_check int mk_record_read(const char *state_dir, struct mk_record *record,
				 struct mk_error *err);
/* Return setting masqueradeIPv6; MK_AUTO if it is not known. */
enum mk_choice mk_record_masquerade_ipv6(const struct mk_record *record);
/* The record's file in the state directory. */
#define MK_RECORD_NAME "made"
/* The settings in force, one `key=value` a line, for people. */
#define MK_SETTINGS_NAME "settings"
/* This node's object, for the agent's next start (src/agent/node/remember.c). */
#define MK_NODE_OBJECT_NAME "node.json"

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/pod/request/reply.h - the plugin's output on standard output: results in the requested
 * version, and the spec's error object. */
#ifndef MK_POD_REQUEST_REPLY_H
#define MK_POD_REQUEST_REPLY_H

#include <json-c/json.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/ip.h"

enum mk_cni_version {
	MK_CNI_0_3_1,
	MK_CNI_0_4_0,
	MK_CNI_1_0_0,
	MK_CNI_1_1_0,
	MK_CNI_VERSION_COUNT
};

const char *mk_cni_version_name(enum mk_cni_version version);

/* Codes of the spec's section "Error"; codes from 100 on are the plugin's own. */
enum mk_cni_code {
	MK_CNI_INCOMPATIBLE_VERSION = 1,
	MK_CNI_UNSUPPORTED_FIELD = 2,
	MK_CNI_UNKNOWN_CONTAINER = 3,
	MK_CNI_INVALID_ENVIRONMENT = 4,
	MK_CNI_IO_FAILURE = 5,
	MK_CNI_DECODING_FAILURE = 6,
	MK_CNI_INVALID_CONFIG = 7,
	MK_CNI_TRY_AGAIN = 11,
	MK_CNI_NOT_AVAILABLE = 50,
	MK_CNI_SETUP_FAILED = 100, /* the kernel refused a part of the pod's network */
	MK_CNI_INTERFACE_EXISTS = 101,
	MK_CNI_CHECK_FAILED = 102,
};

/* Why a verb failed: the spec's code and short message, and the cause. */
struct mk_cni_failure {
	enum mk_cni_code code;
	const char *msg;
	struct mk_error cause;
};

/* Set code and message; the caller has set the cause. Returns -1. */
int mk_cni_fail(struct mk_cni_failure *failure, enum mk_cni_code code, const char *msg);
/* Set code, message and cause. Returns -1. */
int mk_cni_failf(struct mk_cni_failure *failure, enum mk_cni_code code, const char *msg,
		 const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* A port of a function pod. */
struct mk_cni_result_port {
	char host_name[16], name[16];
	struct mk_mac host_mac, mac;
	uint32_t mtu_bytes;
};
#define MK_CNI_RESULT_PORTS 2

/* What ADD made. */
struct mk_cni_result {
	enum mk_cni_version version;
	const char *host_name, *ifname, *netns;
	struct mk_mac host_mac, mac;
	struct mk_ip ips[MK_FAMILIES], gateways[MK_FAMILIES]; /* the primary family first */
	size_t ip_count;
	uint32_t device_mtu_bytes, default_mtu_bytes[MK_FAMILIES]; /* by index of `ips` */
	json_object *dns; /* passed through; NULL: none */
	bool is_further; /* its routes apply only to its own address: no default route */
	struct mk_cni_result_port ports[MK_CNI_RESULT_PORTS];
	size_t port_count;
};

/* Return a new JSON object; the caller releases it (json_object_put()). NULL: out of memory. */
json_object *mk_cni_result_json(const struct mk_cni_result *result);
/* The same, of the ports alone. */
json_object *mk_cni_ports_json(const struct mk_cni_result *result);
/* Return the result of the plugin `loopback` for the namespace @netns. @ipv6: lo has ::1. */
json_object *mk_cni_loopback_json(enum mk_cni_version version, const char *netns,
				  uint32_t mtu_bytes, bool ipv6);
json_object *mk_cni_failure_json(const struct mk_cni_failure *failure, const char *version);
json_object *mk_cni_versions_json(const char *version);

/* Print @json as one line and release it. NULL counts as out of memory. */
mk_must_check int mk_cni_print(json_object *json, struct mk_error *err);

#endif

// SPDX-License-Identifier: Apache-2.0
#include "pod/request/reply.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "pod/request/request_internal.h"

static const char *const version_names[MK_CNI_VERSION_COUNT] = {
	[MK_CNI_0_3_1] = "0.3.1",
	[MK_CNI_0_4_0] = "0.4.0",
	[MK_CNI_1_0_0] = "1.0.0",
	[MK_CNI_1_1_0] = "1.1.0",
};

const char *mk_cni_version_name(enum mk_cni_version version)
{
	return version_names[version];
}

int cni_version_parse(const char *name, enum mk_cni_version *version)
{
	for (int i = 0; i < MK_CNI_VERSION_COUNT; i++) {
		if (strcmp(name, version_names[i]) == 0) {
			*version = (enum mk_cni_version)i;
			return 0;
		}
	}
	return -EINVAL;
}

int mk_cni_fail(struct mk_cni_failure *failure, enum mk_cni_code code, const char *msg)
{
	/* a lock was held for too long (base/lock.h) */
	if (failure->cause.code == ETIMEDOUT && code != MK_CNI_NOT_AVAILABLE)
		code = MK_CNI_TRY_AGAIN;
	failure->code = code;
	failure->msg = msg;
	return -1;
}

int mk_cni_failf(struct mk_cni_failure *failure, enum mk_cni_code code, const char *msg,
		 const char *fmt, ...)
{
	va_list args;

	failure->cause.code = EINVAL;
	va_start(args, fmt);
	vsnprintf(failure->cause.text, sizeof(failure->cause.text), fmt, args);
	va_end(args);
	return mk_cni_fail(failure, code, msg);
}

/* ---- JSON: only lack of memory makes json-c's calls fail; @ok records it --------------------- */

static void add(json_object *object, const char *key, json_object *value, bool *ok)
{
	if (!object || !value || json_object_object_add(object, key, value) < 0) {
		json_object_put(value);
		*ok = false;
	}
}

static void add_string(json_object *object, const char *key, const char *text, bool *ok)
{
	add(object, key, json_object_new_string(text), ok);
}

static void append(json_object *array, json_object *value, bool *ok)
{
	if (!array || !value || json_object_array_add(array, value) < 0) {
		json_object_put(value);
		*ok = false;
	}
}

static json_object *finish(json_object *object, bool ok)
{
	if (ok)
		return object;
	json_object_put(object);
	return NULL;
}

static json_object *interface_json(const struct mk_cni_result *result, const char *name,
				   const struct mk_mac *mac, uint32_t mtu_bytes,
				   const char *sandbox, bool *ok)
{
	json_object *object = json_object_new_object();
	char text[MK_MAC_STRLEN];

	add_string(object, "name", name, ok);
	add_string(object, "mac", mk_mac_format(mac, text), ok);
	if (result->version >= MK_CNI_1_1_0)
		add(object, "mtu", json_object_new_int((int)mtu_bytes), ok);
	if (sandbox)
		add_string(object, "sandbox", sandbox, ok);
	return object;
}

static void append_ports(json_object *array, const struct mk_cni_result *result, bool *ok)
{
	for (size_t i = 0; i < result->port_count; i++) {
		const struct mk_cni_result_port *port = &result->ports[i];

		append(array,
		       interface_json(result, port->host_name, &port->host_mac, port->mtu_bytes,
				      NULL, ok),
		       ok);
		append(array,
		       interface_json(result, port->name, &port->mac, port->mtu_bytes,
				      result->netns, ok),
		       ok);
	}
}

static json_object *interfaces_json(const struct mk_cni_result *result, bool *ok)
{
	json_object *array = json_object_new_array();
	uint32_t mtu_bytes = result->device_mtu_bytes;

	append(array,
	       interface_json(result, result->host_name, &result->host_mac, mtu_bytes, NULL, ok),
	       ok);
	append(array,
	       interface_json(result, result->ifname, &result->mac, mtu_bytes, result->netns, ok),
	       ok);
	append_ports(array, result, ok);
	return array;
}

static json_object *ip_json(const struct mk_cni_result *result, size_t i, bool *ok)
{
	const struct mk_ip *ip = &result->ips[i];
	const struct mk_cidr address = { *ip, (uint8_t)mk_ip_bits(ip->family) };
	json_object *object = json_object_new_object();
	char text[MK_CIDR_STRLEN];

	if (result->version < MK_CNI_1_0_0)
		add_string(object, "version", ip->family == AF_INET ? "4" : "6", ok);
	add_string(object, "address", mk_cidr_format(&address, text), ok);
	add_string(object, "gateway", mk_ip_format(&result->gateways[i], text), ok);
	add(object, "interface", json_object_new_int(1), ok);
	return object;
}

static json_object *route_json(const struct mk_cni_result *result, size_t i, bool *ok)
{
	json_object *object = json_object_new_object();
	char text[MK_IP_STRLEN];

	add_string(object, "dst", result->ips[i].family == AF_INET ? "0.0.0.0/0" : "::/0", ok);
	add_string(object, "gw", mk_ip_format(&result->gateways[i], text), ok);
	if (result->version >= MK_CNI_1_1_0)
		add(object, "mtu", json_object_new_int((int)result->default_mtu_bytes[i]), ok);
	return object;
}

static json_object *ips_json(const struct mk_cni_result *result, bool *ok)
{
	json_object *array = json_object_new_array();

	for (size_t i = 0; i < result->ip_count; i++)
		append(array, ip_json(result, i, ok), ok);
	return array;
}

static json_object *routes_json(const struct mk_cni_result *result, bool *ok)
{
	json_object *array = json_object_new_array();

	for (size_t i = 0; !result->is_further && i < result->ip_count; i++)
		append(array, route_json(result, i, ok), ok);
	return array;
}

json_object *mk_cni_result_json(const struct mk_cni_result *result)
{
	json_object *object = json_object_new_object();
	bool ok = object != NULL;

	add_string(object, "cniVersion", mk_cni_version_name(result->version), &ok);
	add(object, "interfaces", interfaces_json(result, &ok), &ok);
	add(object, "ips", ips_json(result, &ok), &ok);
	add(object, "routes", routes_json(result, &ok), &ok);
	if (result->dns)
		add(object, "dns", json_object_get(result->dns), &ok);
	return finish(object, ok);
}

json_object *mk_cni_ports_json(const struct mk_cni_result *result)
{
	json_object *object = json_object_new_object(), *interfaces = json_object_new_array();
	bool ok = object != NULL;

	append_ports(interfaces, result, &ok);
	add_string(object, "cniVersion", mk_cni_version_name(result->version), &ok);
	add(object, "interfaces", interfaces, &ok);
	return finish(object, ok);
}

static json_object *lo_ip_json(enum mk_cni_version version, const char *family, const char *address,
			       bool *ok)
{
	json_object *object = json_object_new_object();

	if (version < MK_CNI_1_0_0)
		add_string(object, "version", family, ok);
	add_string(object, "address", address, ok);
	add(object, "interface", json_object_new_int(0), ok);
	return object;
}

json_object *mk_cni_loopback_json(enum mk_cni_version version, const char *netns,
				  uint32_t mtu_bytes, bool ipv6)
{
	const struct mk_cni_result lo = { .version = version, .device_mtu_bytes = mtu_bytes };
	json_object *object = json_object_new_object();
	json_object *interfaces = json_object_new_array(), *ips = json_object_new_array();
	bool ok = object != NULL;

	append(interfaces, interface_json(&lo, "lo", &lo.mac, mtu_bytes, netns, &ok), &ok);
	append(ips, lo_ip_json(version, "4", "127.0.0.1/8", &ok), &ok);
	if (ipv6)
		append(ips, lo_ip_json(version, "6", "::1/128", &ok), &ok);
	add_string(object, "cniVersion", mk_cni_version_name(version), &ok);
	add(object, "interfaces", interfaces, &ok);
	add(object, "ips", ips, &ok);
	return finish(object, ok);
}

json_object *mk_cni_failure_json(const struct mk_cni_failure *failure, const char *version)
{
	json_object *object = json_object_new_object();
	bool ok = object != NULL;

	add_string(object, "cniVersion", version, &ok);
	add(object, "code", json_object_new_int((int)failure->code), &ok);
	add_string(object, "msg", failure->msg, &ok);
	add_string(object, "details", mk_error_text(&failure->cause), &ok);
	return finish(object, ok);
}

json_object *mk_cni_versions_json(const char *version)
{
	json_object *object = json_object_new_object(), *array = json_object_new_array();
	bool ok = object != NULL;

	for (int i = 0; i < MK_CNI_VERSION_COUNT; i++)
		append(array, json_object_new_string(version_names[i]), &ok);
	add_string(object, "cniVersion", version, &ok);
	add(object, "supportedVersions", array, &ok);
	return finish(object, ok);
}

int mk_cni_print(json_object *result, struct mk_error *err)
{
	cleanup_json json_object *json = result;
	const char *text = mk_json_line(json);

	if (!json || !text)
		return mk_error_errno(err, ENOMEM, "cannot print the result");
	if (printf("%s\n", text) < 0 || fflush(stdout) != 0)
		return mk_error_errno(err, errno, "cannot print the result");
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
/* What a configuration says about the ports of a function pod. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "pod/endpoint/function.h"
#include "pod/endpoint/function_internal.h"

#define ANNOTATIONS "io.kubernetes.cri.pod-annotations"
#define PREFIX	    "networking.monokube.io/"
#define PORTS	    PREFIX "function-ports"
#define INTERFACES  PREFIX "function-interfaces"

static const char invalid[] = "invalid ports of a function pod";

static const char *const mode_names[MK_PORT_MODES] = {
	[MK_PORT_BRIDGED] = "Bridged", [MK_PORT_INLINE] = "Inline", [MK_PORT_ROUTED] = "Routed",
	[MK_PORT_TAP] = "Tap",	       [MK_PORT_END] = "End",
};

static const char *const side_names[MK_PORT_SIDES] = {
	[MK_PORT_INSIDE] = "inside",
	[MK_PORT_OUTSIDE] = "outside",
};

const char *port_title(enum mk_port_mode mode, enum mk_port_side side)
{
	return mode == MK_PORT_END ? "end" : side_names[side];
}

const char *function_text(json_object *object, const char *name)
{
	json_object *value;

	return json_object_object_get_ex(object, name, &value) &&
			       json_object_is_type(value, json_type_string)
		       ? json_object_get_string(value)
		       : NULL;
}

static int read_mode(struct mk_cni_function *function, const char *where, const char *text,
		     struct mk_cni_failure *failure)
{
	for (int mode = MK_PORT_BRIDGED; mode < MK_PORT_MODES; mode++) {
		if (strcmp(text, mode_names[mode]) == 0) {
			function->mode = (enum mk_port_mode)mode;
			return 0;
		}
	}
	return mk_cni_failf(failure, MK_CNI_INVALID_CONFIG, invalid,
			    "%s is '%.64s': expected Bridged, Inline, Routed, Tap or End", where,
			    text);
}

/* The kernel's rules for names of devices (dev_valid_name() in net/core/dev.c). */
static bool is_device_name(const char *name, size_t length)
{
	if (length == 0 || length >= IFNAMSIZ || strncmp(name, ".", length) == 0 ||
	    strncmp(name, "..", length) == 0)
		return false;
	for (size_t i = 0; i < length; i++)
		if (name[i] == '/' || name[i] == ':' || isspace((unsigned char)name[i]))
			return false;
	return true;
}

/* Is the name that of another device of the pod? */
static bool is_taken(const struct mk_cni_function *function, const char *name, const char *ifname)
{
	return strcmp(name, ifname) == 0 || strcmp(name, "lo") == 0 ||
	       (function->mode == MK_PORT_BRIDGED && strcmp(name, MK_PORT_BRIDGE) == 0);
}

/* A tap or an end has only the port inside. */
static size_t count_ports(enum mk_port_mode mode)
{
	return mode == MK_PORT_TAP || mode == MK_PORT_END ? 1 : MK_PORT_SIDES;
}

static int bad_names(const struct mk_cni_function *function, const char *text,
		     struct mk_cni_failure *failure)
{
	if (count_ports(function->mode) == 1)
		return mk_cni_failf(
			failure, MK_CNI_INVALID_CONFIG, invalid,
			"annotation " INTERFACES
			" is '%.64s': expected for mode %s one name of a device that the pod does not have",
			text, mode_names[function->mode]);
	return mk_cni_failf(
		failure, MK_CNI_INVALID_CONFIG, invalid,
		"annotation " INTERFACES
		" is '%.64s': expected two different names of devices, INSIDE,OUTSIDE, that the pod does not have",
		text);
}

static int read_names(struct mk_cni_function *function, const char *text, const char *ifname,
		      struct mk_cni_failure *failure)
{
	const size_t count = count_ports(function->mode);
	char(*names)[IFNAMSIZ] = function->names;
	const char *at = text;

	for (size_t side = 0; side < count; side++) {
		size_t length = strcspn(at, ",");
		bool is_last = side + 1 == count;

		if (!is_device_name(at, length) || (at[length] == '\0') != is_last)
			return bad_names(function, text, failure);
		snprintf(names[side], IFNAMSIZ, "%.*s", (int)length, at);
		if (is_taken(function, names[side], ifname))
			return bad_names(function, text, failure);
		at += length + 1;
	}
	return strcmp(names[MK_PORT_INSIDE], names[MK_PORT_OUTSIDE]) == 0
		       ? bad_names(function, text, failure)
		       : 0;
}

static const char *default_names(enum mk_port_mode mode)
{
	if (count_ports(mode) == MK_PORT_SIDES)
		return "inside,outside";
	return port_title(mode, MK_PORT_INSIDE);
}

static int read_annotations(struct mk_cni_function *function, json_object *annotations,
			    const char *ifname, struct mk_cni_failure *failure)
{
	const char *mode = function_text(annotations, PORTS);
	const char *names = function_text(annotations, INTERFACES);

	if (!mode && names)
		return mk_cni_failf(failure, MK_CNI_INVALID_CONFIG, invalid,
				    "annotation " INTERFACES " is set without " PORTS
				    ": set both, or remove it");
	if (!mode)
		return end_read_annotations(function, annotations, failure);
	if (read_mode(function, "annotation " PORTS, mode, failure) < 0)
		return -1;
	if (read_names(function, names ?: default_names(function->mode), ifname, failure) < 0)
		return -1;
	return end_read_annotations(function, annotations, failure);
}

static const char *expected_ports(enum mk_port_mode mode)
{
	if (count_ports(mode) == MK_PORT_SIDES)
		return "inside or outside";
	return mode == MK_PORT_TAP ? "inside, the only port of mode Tap"
				   : "end, the only port of mode End";
}

/* One port: {"port": "inside", "mode": "Inline"}. CNI_IFNAME is its name. */
static int read_one(struct mk_cni_function *function, json_object *object, const char *ifname,
		    struct mk_cni_failure *failure)
{
	const char *port = function_text(object, "port"), *mode = function_text(object, "mode");

	function->is_alone = true;
	if (!port || !mode)
		return mk_cni_failf(
			failure, MK_CNI_INVALID_CONFIG, invalid,
			"function is %.200s: expected an object with the strings port and mode",
			json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
	if (read_mode(function, "function.mode", mode, failure) < 0)
		return -1;
	for (size_t side = 0; side < count_ports(function->mode); side++) {
		if (strcmp(port, port_title(function->mode, (enum mk_port_side)side)) == 0) {
			snprintf(function->names[side], IFNAMSIZ, "%s", ifname);
			return end_read_members(function, object, failure);
		}
	}
	return mk_cni_failf(failure, MK_CNI_INVALID_CONFIG, invalid,
			    "function.port is '%.64s': expected %s", port,
			    expected_ports(function->mode));
}

int mk_cni_function_read(struct mk_cni_function *function, const struct mk_cni_conf *conf,
			 const char *ifname, struct mk_cni_failure *failure)
{
	json_object *object, *runtime, *annotations;

	*function = (struct mk_cni_function){ 0 };
	if (json_object_object_get_ex(conf->root, "function", &object))
		return read_one(function, object, ifname, failure);
	if (!mk_cni_member(conf->root, "runtimeConfig", &runtime) ||
	    !mk_cni_member(runtime, ANNOTATIONS, &annotations) ||
	    !json_object_is_type(annotations, json_type_object))
		return 0;
	return read_annotations(function, annotations, ifname, failure);
}

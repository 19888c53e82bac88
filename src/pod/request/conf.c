// SPDX-License-Identifier: Apache-2.0
#include "pod/request/conf.h"

#include <ctype.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "config/config.h"
#include "pod/request/request_internal.h"

#define CONTAINER_ID_MAX 255
#define VETH_PREFIX_MAX	 4 /* leaves 11 of 15 characters for the hash */
#define MTU_MIN		 576 /* every IPv4 host must accept this size (RFC 791) */
#define MTU_MIN_IPV6	 1280 /* every IPv6 link must carry this size (RFC 8200) */
#define MTU_MAX		 65535
#define DEPTH_MAX	 32

static const char bad_environment[] = "invalid environment variable";
static const char bad_config[] = "invalid network configuration";

/* ---- environment ----------------------------------------------------------------------------- */

static int missing(const char *name, struct mk_cni_failure *failure)
{
	return mk_cni_failf(failure, MK_CNI_INVALID_ENVIRONMENT, bad_environment, "%s is not set",
			    name);
}

/* The spec's pattern: ^[a-zA-Z0-9][a-zA-Z0-9_.\-]*$ */
static bool container_id_ok(const char *id)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	size_t length = strlen(id);

	return isalnum((unsigned char)id[0]) && length <= CONTAINER_ID_MAX &&
	       strspn(id, allowed) == length;
}

/* The kernel's rule for an interface's name (dev_valid_name). */
static bool ifname_ok(const char *name)
{
	if (!name[0] || strlen(name) >= IFNAMSIZ || strcmp(name, ".") == 0 ||
	    strcmp(name, "..") == 0)
		return false;
	for (const char *c = name; *c; c++) {
		if (*c == '/' || *c == ':' || !isgraph((unsigned char)*c))
			return false;
	}
	return true;
}

static int read_container(struct mk_cni_args *args, struct mk_cni_failure *failure)
{
	args->container_id = getenv("CNI_CONTAINERID");
	args->ifname = getenv("CNI_IFNAME");
	if (!args->container_id || !args->container_id[0])
		return missing("CNI_CONTAINERID", failure);
	if (!container_id_ok(args->container_id))
		return mk_cni_failf(
			failure, MK_CNI_INVALID_ENVIRONMENT, bad_environment,
			"CNI_CONTAINERID='%.300s': expected a letter or digit, then letters, digits, '_', '.', '-', at most %d in all",
			args->container_id, CONTAINER_ID_MAX);
	if (!args->ifname || !args->ifname[0])
		return missing("CNI_IFNAME", failure);
	if (!ifname_ok(args->ifname))
		return mk_cni_failf(
			failure, MK_CNI_INVALID_ENVIRONMENT, bad_environment,
			"CNI_IFNAME='%.300s': expected the name of an interface, at most %d characters, no '/', ':' or blanks, not '.' or '..'",
			args->ifname, IFNAMSIZ - 1);
	return 0;
}

/* Return the value of @key in "KEY=value;KEY=value", with its length in *@length;
 * NULL: not found. */
static const char *cni_arg(const char *args, const char *key, size_t *length)
{
	size_t key_length = strlen(key);

	for (; args && *args; args = strchr(args, ';'), args = args ? args + 1 : NULL) {
		if (strncmp(args, key, key_length) != 0 || args[key_length] != '=')
			continue;
		*length = strcspn(args + key_length + 1, ";");
		return args + key_length + 1;
	}
	return NULL;
}

/* Copy the value of @key; "": missing, or longer than names of Kubernetes are. */
static void copy_arg(char to[MK_CNI_POD_NAME_PART_BYTES], const char *args, const char *key)
{
	size_t length = 0;
	const char *value = cni_arg(args, key, &length);

	if (length >= MK_CNI_POD_NAME_PART_BYTES)
		length = 0;
	snprintf(to, MK_CNI_POD_NAME_PART_BYTES, "%.*s", (int)length, value ? value : "");
}

void mk_cni_pod_read(struct mk_cni_pod *pod, const char *cni_args)
{
	copy_arg(pod->namespace_, cni_args, "K8S_POD_NAMESPACE");
	copy_arg(pod->name, cni_args, "K8S_POD_NAME");
	copy_arg(pod->uid, cni_args, "K8S_POD_UID");
	if (!pod->namespace_[0] || !pod->name[0])
		*pod = (struct mk_cni_pod){ 0 };
}

const char *mk_cni_pod_name(const char *cni_args, char *name)
{
	struct mk_cni_pod pod;

	mk_cni_pod_read(&pod, cni_args);
	name[0] = '\0';
	if (!pod.namespace_[0] || snprintf(name, MK_CNI_POD_NAME_BYTES, "%s/%s", pod.namespace_,
					   pod.name) >= MK_CNI_POD_NAME_BYTES)
		name[0] = '\0';
	return name;
}

int mk_cni_args_read(struct mk_cni_args *args, unsigned int needs, struct mk_cni_failure *failure)
{
	const char *netns = getenv("CNI_NETNS");

	*args = (struct mk_cni_args){ .container_id = "",
				      .ifname = "",
				      .netns = netns ? netns : "" };
	if (needs & MK_CNI_NEED_CONTAINER && read_container(args, failure) < 0)
		return -1;
	if (!(needs & MK_CNI_NEED_NETNS))
		return 0;
	if (!args->netns[0])
		return missing("CNI_NETNS", failure);
	if (strlen(args->netns) >= PATH_MAX || strchr(args->netns, '\n'))
		return mk_cni_failf(failure, MK_CNI_INVALID_ENVIRONMENT, bad_environment,
				    "CNI_NETNS='%.300s': expected a path", args->netns);
	return 0;
}

/* ---- decoding -------------------------------------------------------------------------------- */

static int decode(struct mk_cni_conf *conf, const char *text, size_t size,
		  struct mk_cni_failure *failure)
{
	static const char msg[] = "cannot decode the network configuration";
	json_tokener *tokener = json_tokener_new_ex(DEPTH_MAX);
	enum json_tokener_error state;
	size_t end;

	if (!tokener || size > INT_MAX - 1)
		return mk_cni_failf(failure, MK_CNI_DECODING_FAILURE, msg, "out of memory");
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	conf->root =
		json_tokener_parse_ex(tokener, text, (int)size + 1); /* the NUL marks the end */
	state = json_tokener_get_error(tokener);
	end = json_tokener_get_parse_end(tokener);
	json_tokener_free(tokener);
	if (state != json_tokener_success)
		return mk_cni_failf(failure, MK_CNI_DECODING_FAILURE, msg,
				    "standard input, byte %zu of %zu: %s", end, size,
				    json_tokener_error_desc(state));
	if (strspn(text + end, " \t\r\n") != size - end)
		return mk_cni_failf(failure, MK_CNI_DECODING_FAILURE, msg,
				    "standard input, byte %zu of %zu: more after the JSON object",
				    end, size);
	if (!json_object_is_type(conf->root, json_type_object))
		return mk_cni_failf(failure, MK_CNI_DECODING_FAILURE, msg,
				    "standard input is not a JSON object");
	return 0;
}

static int read_version(struct mk_cni_conf *conf, struct mk_cni_failure *failure)
{
	const char *name = mk_cni_string(conf->root, "cniVersion");

	if (cni_version_parse(name ? name : "", &conf->version) == 0)
		return 0;
	return mk_cni_failf(failure, MK_CNI_INCOMPATIBLE_VERSION, "incompatible CNI version",
			    "cniVersion '%s': expected 0.3.1, 0.4.0, 1.0.0 or 1.1.0",
			    name ? name : "(none)");
}

/* ---- fields ---------------------------------------------------------------------------------- */

static int invalid(const char *key, const char *value, const char *expected,
		   struct mk_cni_failure *failure)
{
	return mk_cni_failf(failure, MK_CNI_INVALID_CONFIG, bad_config, "%s '%s': expected %s", key,
			    value, expected);
}

static bool path_ok(const char *path)
{
	/* leave space for the paths below it: ipam/released/<name>, maps/<name> */
	return path[0] == '/' && strlen(path) < PATH_MAX - 256 && !strchr(path, '\n');
}

static bool veth_prefix_ok(const char *prefix)
{
	return ifname_ok(prefix) && strlen(prefix) <= VETH_PREFIX_MAX;
}

static int read_place(const struct mk_cni_conf *conf, const char *key, const char *default_,
		      bool (*ok)(const char *), const char *expected, const char **place,
		      struct mk_cni_failure *failure)
{
	json_object *value;

	*place = default_;
	if (!mk_cni_member(conf->root, key, &value))
		return 0;
	*place = mk_cni_string(conf->root, key);
	if (*place && ok(*place))
		return 0;
	return invalid(key, json_object_get_string(value), expected, failure);
}

static int read_places(struct mk_cni_conf *conf, struct mk_cni_failure *failure)
{
	static const char path[] = "an absolute path";

	if (read_place(conf, "stateDir", MK_STATE_DIR, path_ok, path, &conf->state_dir, failure) <
		    0 ||
	    read_place(conf, "bpfDir", MK_BPF_DIR, path_ok, path, &conf->bpf_dir, failure) < 0)
		return -1;
	return read_place(conf, "vethPrefix", "mk", veth_prefix_ok,
			  "the start of an interface name, 1 to 4 characters", &conf->veth_prefix,
			  failure);
}

int mk_cni_conf_parse(struct mk_cni_conf *conf, const char *text, size_t size,
		      struct mk_cni_failure *failure)
{
	*conf = (struct mk_cni_conf){ 0 };
	if (decode(conf, text, size, failure) < 0 || read_version(conf, failure) < 0 ||
	    read_places(conf, failure) < 0) {
		mk_cni_conf_release(conf);
		return -1;
	}
	return 0;
}

void mk_cni_conf_release(struct mk_cni_conf *conf)
{
	json_object_put(conf->root);
	conf->root = NULL;
}

static int read_cidr(const struct mk_cni_conf *conf, const char *key, struct mk_cidr *cidr,
		     struct mk_cni_failure *failure)
{
	const char *text = mk_cni_string(conf->root, key);

	if (text && mk_cidr_parse(text, cidr) == 0)
		return 0;
	return invalid(key, text ? text : "(none)",
		       "a network such as 10.244.0.0/16 or fd00:10:244::/48", failure);
}

/* Read the list @key of one or two ranges, or the range @old: a configuration for one family has no
 * list, and an earlier version knows none. Returns their number. */
static int read_cidrs(const struct mk_cni_conf *conf, const char *key, const char *old,
		      struct mk_cidr cidrs[MK_FAMILIES], struct mk_cni_failure *failure)
{
	json_object *list;
	size_t count = 0;
	int parsed = 0;

	if (!mk_cni_member(conf->root, key, &list))
		return read_cidr(conf, old, cidrs, failure) < 0 ? -1 : 1;
	if (json_object_is_type(list, json_type_array))
		count = json_object_array_length(list);
	for (size_t i = 0; i < count && i < MK_FAMILIES; i++) {
		json_object *item = json_object_array_get_idx(list, i);

		if (json_object_is_type(item, json_type_string))
			parsed += mk_cidr_parse(json_object_get_string(item), &cidrs[i]) == 0;
	}
	if (count > 0 && count <= MK_FAMILIES && parsed == (int)count)
		return parsed;
	return invalid(key, mk_json_line(list),
		       "a list of one network, or of two of different families", failure);
}

/* IPv4 unless the configuration says otherwise: that of an earlier version does not say it. */
static int read_underlay(struct mk_cni_conf *conf, struct mk_cni_failure *failure)
{
	const char *family;
	json_object *value;

	conf->underlay = AF_INET;
	if (!mk_cni_member(conf->root, "underlayFamily", &value))
		return 0;
	family = mk_cni_string(conf->root, "underlayFamily");
	if (family && strcmp(family, "IPv6") == 0)
		conf->underlay = AF_INET6;
	else if (!family || strcmp(family, "IPv4") != 0)
		return invalid("underlayFamily", json_object_get_string(value), "IPv4 or IPv6",
			       failure);
	return 0;
}

static bool has_ipv6(const struct mk_cni_conf *conf)
{
	bool found = false;

	for (size_t i = 0; i < conf->network_count; i++)
		found = found || conf->networks[i].cluster_cidr.ip.family == AF_INET6;
	return found;
}

static int read_mtu(struct mk_cni_conf *conf, struct mk_cni_failure *failure)
{
	bool ipv6 = has_ipv6(conf);
	json_object *value = NULL;
	int64_t mtu_bytes = 0;

	if (mk_cni_member(conf->root, "mtu", &value) && json_object_is_type(value, json_type_int))
		mtu_bytes = json_object_get_int64(value);
	conf->mtu_bytes = (uint32_t)mtu_bytes;
	if (mtu_bytes >= (ipv6 ? MTU_MIN_IPV6 : MTU_MIN) && mtu_bytes <= MTU_MAX)
		return 0;
	return invalid("mtu", value ? json_object_get_string(value) : "(none)",
		       ipv6 ? "a number from 1280 to 65535, for IPv6"
			    : "a number from 576 to 65535",
		       failure);
}

/* That of an earlier version does not say it, and has the overlay's MTU. */
static int read_direct(struct mk_cni_conf *conf, struct mk_cni_failure *failure)
{
	json_object *value;

	conf->is_direct = false;
	if (!mk_cni_member(conf->root, "direct", &value))
		return 0;
	if (!json_object_is_type(value, json_type_boolean))
		return invalid("direct", json_object_get_string(value), "true or false", failure);
	conf->is_direct = json_object_get_boolean(value);
	return 0;
}

static bool is_list_of_strings(json_object *value)
{
	if (!json_object_is_type(value, json_type_array))
		return false;
	for (size_t i = 0; i < json_object_array_length(value); i++) {
		if (!json_object_is_type(json_object_array_get_idx(value, i), json_type_string))
			return false;
	}
	return true;
}

/* Check dns, because it is copied into the result. A runtime that cannot decode the result removes
 * the pod without saying why. */
static int read_dns(struct mk_cni_conf *conf, struct mk_cni_failure *failure)
{
	static const char *const lists[] = { "nameservers", "search", "options" };
	json_object *value;

	if (!mk_cni_member(conf->root, "dns", &conf->dns) || !conf->dns)
		return 0;
	if (!json_object_is_type(conf->dns, json_type_object))
		return invalid("dns", json_object_get_string(conf->dns), "a JSON object", failure);
	if (mk_cni_member(conf->dns, "domain", &value) && value &&
	    !json_object_is_type(value, json_type_string))
		return invalid("dns.domain", json_object_get_string(value), "a string", failure);
	for (size_t i = 0; i < MK_ARRAY_SIZE(lists); i++) {
		if (mk_cni_member(conf->dns, lists[i], &value) && value &&
		    !is_list_of_strings(value))
			return mk_cni_failf(failure, MK_CNI_INVALID_CONFIG, bad_config,
					    "dns.%s '%s': expected a list of strings", lists[i],
					    json_object_get_string(value));
	}
	return 0;
}

static int compute_networks(struct mk_cni_conf *conf, const struct mk_cidr *pods,
			    const struct mk_cidr *clusters, const struct mk_cidr *vteps,
			    struct mk_cni_failure *failure)
{
	struct mk_cni_network *networks = conf->networks;

	for (size_t i = 0; i < conf->network_count; i++) {
		networks[i].cluster_cidr = clusters[i];
		if (mk_addresses_compute(&clusters[i], &vteps[i], &pods[i], &networks[i].addresses,
					 &failure->cause) < 0)
			return mk_cni_fail(failure, MK_CNI_INVALID_CONFIG, bad_config);
	}
	if (conf->network_count < 2)
		return 0;
	if (pods[0].ip.family == pods[1].ip.family)
		return mk_cni_failf(failure, MK_CNI_INVALID_CONFIG, bad_config,
				    "podCIDRs: expected ranges of different families");
	mk_addresses_share_macs(&networks[1].addresses, &networks[0].addresses);
	return 0;
}

static int read_networks(struct mk_cni_conf *conf, struct mk_cni_failure *failure)
{
	struct mk_cidr pods[MK_FAMILIES], clusters[MK_FAMILIES], vteps[MK_FAMILIES];
	int count = read_cidrs(conf, "podCIDRs", "podCIDR", pods, failure);
	int cluster_count = -1, vtep_count = -1;

	if (count > 0)
		cluster_count = read_cidrs(conf, "clusterCIDRs", "clusterCIDR", clusters, failure);
	if (cluster_count > 0)
		vtep_count = read_cidrs(conf, "vtepCIDRs", "vtepCIDR", vteps, failure);
	if (vtep_count < 0)
		return -1;
	if (count != cluster_count || count != vtep_count)
		return mk_cni_failf(
			failure, MK_CNI_INVALID_CONFIG, bad_config,
			"podCIDRs has %d, clusterCIDRs %d, vtepCIDRs %d ranges: expected as many in each",
			count, cluster_count, vtep_count);
	conf->network_count = (size_t)count;
	return compute_networks(conf, pods, clusters, vteps, failure);
}

int mk_cni_conf_read_network(struct mk_cni_conf *conf, struct mk_cni_failure *failure)
{
	json_object *ipam;

	if (mk_cni_member(conf->root, "ipam", &ipam))
		return mk_cni_failf(
			failure, MK_CNI_UNSUPPORTED_FIELD,
			"unsupported field in the network configuration",
			"ipam: monokube assigns the addresses itself, remove this field");
	if (read_networks(conf, failure) < 0 || read_underlay(conf, failure) < 0 ||
	    read_mtu(conf, failure) < 0 || read_direct(conf, failure) < 0)
		return -1;
	return read_dns(conf, failure);
}

static bool is_empty(json_object *value)
{
	if (json_object_is_type(value, json_type_array))
		return json_object_array_length(value) == 0;
	return json_object_get_string_len(value) == 0 &&
	       !json_object_is_type(value, json_type_object);
}

static int address_wanted(const char *place, const char *key, int length, const char *value,
			  struct mk_cni_failure *failure)
{
	return mk_cni_failf(
		failure, MK_CNI_UNSUPPORTED_FIELD, "unsupported request for an address",
		"%s %s '%.*s': monokube assigns the addresses itself, remove this request (of podman: --ip, --mac-address)",
		place, key, length, value);
}

int mk_cni_conf_no_address_wanted(const struct mk_cni_conf *conf, const char *cni_args,
				  struct mk_cni_failure *failure)
{
	static const char *const args[] = { "IP", "MAC" }, *const capabilities[] = { "ips", "mac" };
	json_object *runtime, *value;

	for (size_t i = 0; i < MK_ARRAY_SIZE(args); i++) {
		size_t length = 0;
		const char *text = cni_arg(cni_args, args[i], &length);

		if (length)
			return address_wanted("CNI_ARGS", args[i], (int)length, text, failure);
	}
	if (!mk_cni_member(conf->root, "runtimeConfig", &runtime))
		return 0;
	for (size_t i = 0; i < MK_ARRAY_SIZE(capabilities); i++) {
		if (mk_cni_member(runtime, capabilities[i], &value) && !is_empty(value))
			return address_wanted("runtimeConfig", capabilities[i], 300,
					      mk_json_line(value), failure);
	}
	return 0;
}

json_object *mk_cni_conf_prev_result(const struct mk_cni_conf *conf)
{
	json_object *result;

	mk_cni_member(conf->root, "prevResult", &result);
	return result; /* a JSON null is NULL too */
}

int mk_cni_conf_attachments(const struct mk_cni_conf *conf, json_object **list,
			    struct mk_cni_failure *failure)
{
	static const char key[] = "cni.dev/valid-attachments";

	/* A missing list is an error: read as empty, it would disconnect every pod. A null is an
	 * empty list, because the runtimes' library (libcni, Go) writes it so. */
	if (!mk_cni_member(conf->root, key, list) ||
	    (*list && !json_object_is_type(*list, json_type_array)))
		return mk_cni_failf(failure, MK_CNI_INVALID_CONFIG, bad_config,
				    "%s: expected a list of {containerID, ifname}", key);
	for (size_t i = 0; *list && i < json_object_array_length(*list); i++) {
		json_object *item = json_object_array_get_idx(*list, i);

		if (!json_object_is_type(item, json_type_object) ||
		    !mk_cni_string(item, "containerID") || !mk_cni_string(item, "ifname"))
			return mk_cni_failf(failure, MK_CNI_INVALID_CONFIG, bad_config,
					    "%s: entry %zu is not {containerID, ifname}", key, i);
	}
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "pod/endpoint/port_mappings.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "pod/endpoint/endpoint_internal.h"

static int invalid(size_t index, json_object *item, const char *expected,
		   struct mk_cni_failure *failure)
{
	return mk_cni_failf(failure, MK_CNI_INVALID_CONFIG, "invalid network configuration",
			    "runtimeConfig.portMappings[%zu] is %.200s: expected %s", index,
			    json_object_to_json_string_ext(item, JSON_C_TO_STRING_PLAIN), expected);
}

/* Does @item have any member that a port mapping may have? An item without one comes from a runtime
 * with other names. Skipping it would close its port without any message. */
static bool has_known_member(json_object *item)
{
	static const char *const known[] = { "hostPort", "containerPort", "protocol", "hostIP" };
	json_object *value;

	for (size_t i = 0; i < MK_ARRAY_SIZE(known); i++) {
		if (mk_cni_member(item, known[i], &value))
			return true;
	}
	return false;
}

/* Return a port from 0 to 65535, 0 if the member is missing or null, -1 for anything else. */
static int read_port(json_object *item, const char *key)
{
	json_object *value;
	int64_t number;

	if (!mk_cni_member(item, key, &value) || !value)
		return 0;
	if (!json_object_is_type(value, json_type_int))
		return -1;
	number = json_object_get_int64(value);
	return number >= 0 && number <= UINT16_MAX ? (int)number : -1;
}

/* A member that is missing or "" has the value @first. */
static const char *read_word(json_object *item, const char *key, const char *first)
{
	json_object *value;
	const char *text;

	if (!mk_cni_member(item, key, &value) || !value)
		return first;
	text = mk_cni_string(item, key);
	return text && !text[0] ? first : text;
}

static int find_proto(const char *name, uint8_t *proto)
{
	static const struct {
		const char *name;
		uint8_t number;
	} known[] = { { "tcp", IPPROTO_TCP }, { "udp", IPPROTO_UDP }, { "sctp", IPPROTO_SCTP } };

	for (size_t i = 0; name && i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcasecmp(name, known[i].name) == 0) {
			*proto = known[i].number;
			return 0;
		}
	}
	return -1;
}

static bool has_family(const struct mk_cni_conf *conf, sa_family_t family)
{
	bool found = false;

	for (size_t i = 0; i < conf->network_count; i++)
		found = found || conf->networks[i].addresses.gateway.family == family;
	return found;
}

/* Read hostIP. Returns 1 with *@ip, AF_UNSPEC if there is none, 0 if the pod has no address of its
 * family, or -1. */
static int read_address(json_object *item, size_t index, const struct mk_cni_conf *conf,
			int host_port, struct mk_ip *ip, struct mk_cni_failure *failure)
{
	const char *address = read_word(item, "hostIP", "");

	*ip = (struct mk_ip){ 0 };
	if (!address || (address[0] && mk_ip_parse(address, ip) < 0))
		return invalid(index, item, "an IP address as hostIP", failure);
	if (!address[0] || has_family(conf, ip->family))
		return 1;
	mk_log_warn(
		"skipped a host port: the pod has no address of its family hostIP=%s hostPort=%d",
		address, host_port);
	return 0;
}

/* Returns 1 with *@entry and *@ip, 0 if the item is skipped, or -1. */
static int read_item(json_object *item, size_t index, const struct mk_cni_conf *conf,
		     struct mk_host_port_entry *entry, struct mk_ip *ip,
		     struct mk_cni_failure *failure)
{
	int host_port = read_port(item, "hostPort"), port = read_port(item, "containerPort");

	*entry = (struct mk_host_port_entry){ 0 };
	if (!json_object_is_type(item, json_type_object))
		return invalid(index, item, "an object", failure);
	if (!has_known_member(item))
		return invalid(index, item, "hostPort, containerPort, protocol or hostIP", failure);
	if (host_port < 0)
		return invalid(index, item, "a hostPort from 0 to 65535", failure);
	if (host_port == 0)
		return 0;
	if (port <= 0)
		return invalid(index, item, "a containerPort from 1 to 65535", failure);
	if (find_proto(read_word(item, "protocol", "tcp"), &entry->key.proto) < 0)
		return invalid(index, item, "protocol tcp, udp or sctp", failure);
	entry->key.port = htons((uint16_t)host_port);
	entry->to.port = htons((uint16_t)port);
	return read_address(item, index, conf, host_port, ip, failure);
}

/* Append *@entry to the list. Skip a duplicate; a host port with two container
 * ports is an error. */
static int append(struct mk_cni_port_mappings *mappings, json_object *item, size_t index,
		  const struct mk_host_port_entry *entry, struct mk_cni_failure *failure)
{
	for (size_t i = 0; i < mappings->count; i++) {
		const struct mk_host_port_entry *other = &mappings->list[i];

		if (other->family != entry->family ||
		    memcmp(&other->key, &entry->key, sizeof(entry->key)) != 0)
			continue;
		if (other->to.port == entry->to.port)
			return 0;
		return invalid(index, item, "a host port that no other mapping of the pod has",
			       failure);
	}
	mappings->list[mappings->count++] = *entry;
	return 0;
}

/* Append @entry for @ip, or for every address of each family if @ip is none. */
static int append_families(struct mk_cni_port_mappings *mappings, json_object *item, size_t index,
			   const struct mk_cni_conf *conf, struct mk_host_port_entry *entry,
			   const struct mk_ip *ip, struct mk_cni_failure *failure)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < conf->network_count; i++) {
		entry->family = conf->networks[i].addresses.gateway.family;
		if (ip->family != AF_UNSPEC && ip->family != entry->family)
			continue;
		entry->key.addr = mk_ip_to_addr(ip);
		ret = append(mappings, item, index, entry, failure);
	}
	return ret;
}

static int read_list(struct mk_cni_port_mappings *mappings, json_object *list,
		     const struct mk_cni_conf *conf, struct mk_cni_failure *failure)
{
	size_t length = json_object_array_length(list);
	struct mk_host_port_entry entry;
	struct mk_ip ip;

	mappings->list = calloc(length * MK_FAMILIES + 1, sizeof(*mappings->list));
	if (!mappings->list)
		return mk_cni_failf(failure, MK_CNI_IO_FAILURE,
				    "cannot read the network configuration", "out of memory");
	for (size_t i = 0; i < length; i++) {
		json_object *item = json_object_array_get_idx(list, i);
		int ret = read_item(item, i, conf, &entry, &ip, failure);

		if (ret > 0)
			ret = append_families(mappings, item, i, conf, &entry, &ip, failure);
		if (ret < 0)
			return ret;
	}
	return 0;
}

int mk_cni_port_mappings_read(struct mk_cni_port_mappings *mappings, const struct mk_cni_conf *conf,
			      struct mk_cni_failure *failure)
{
	json_object *runtime, *list;

	*mappings = (struct mk_cni_port_mappings){ 0 };
	if (!mk_cni_member(conf->root, "runtimeConfig", &runtime) ||
	    !mk_cni_member(runtime, "portMappings", &list) || !list)
		return 0;
	if (!json_object_is_type(list, json_type_array))
		return mk_cni_failf(failure, MK_CNI_INVALID_CONFIG, "invalid network configuration",
				    "runtimeConfig.portMappings is %.200s: expected a list",
				    json_object_to_json_string_ext(list, JSON_C_TO_STRING_PLAIN));
	if (read_list(mappings, list, conf, failure) == 0)
		return 0;
	mk_cni_port_mappings_release(mappings);
	return -1;
}

/* ---- as text --------------------------------------------------------------------------------- */

char *mk_cni_port_mappings_format(const struct mk_cni_port_mappings *mappings)
{
	char *text = NULL, port[MK_HOST_PORT_STRLEN];
	size_t size;
	FILE *out;

	if (!mappings->count) /* the usual case */
		return strdup("");
	out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	for (size_t i = 0; i < mappings->count; i++)
		fprintf(out, "%s%s=%u", i ? " " : "", mk_host_port_format(&mappings->list[i], port),
			ntohs(mappings->list[i].to.port));
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

static int parse_word(const char *word, struct mk_host_port_entry *entry)
{
	char text[MK_IP_PORT_STRLEN], proto[8];
	struct mk_ip_port at;
	unsigned int to;
	int end = 0;

	*entry = (struct mk_host_port_entry){ 0 };
	if (sscanf(word, "%50[^/]/%7[a-z]=%5u%n", text, proto, &to, &end) != 3 || word[end] ||
	    to == 0 || to > UINT16_MAX || mk_ip_port_parse(text, &at) < 0 ||
	    find_proto(proto, &entry->key.proto) < 0)
		return -1;
	entry->family = at.ip.family;
	entry->key.addr = mk_ip_to_addr(&at.ip);
	entry->key.port = htons(at.port);
	entry->to.port = htons((uint16_t)to);
	return 0;
}

int cni_port_mappings_parse(struct mk_cni_port_mappings *mappings, const char *text,
			    struct mk_error *err)
{
	cleanup_free char *copy = strdup(text);
	char *rest = NULL;

	*mappings = (struct mk_cni_port_mappings){ 0 };
	if (copy) /* a word has at least two characters with its blank */
		mappings->list = calloc(strlen(text) / 2 + 1, sizeof(*mappings->list));
	if (!mappings->list)
		return mk_error_errno(err, ENOMEM, "cannot read host ports");
	for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		if (parse_word(word, &mappings->list[mappings->count]) < 0) {
			mk_cni_port_mappings_release(mappings);
			return mk_error_set(err, EINVAL,
					    "host port '%s': expected ADDRESS:PORT/PROTOCOL=PORT",
					    word);
		}
		mappings->count++;
	}
	return 0;
}

void mk_cni_port_mappings_release(struct mk_cni_port_mappings *mappings)
{
	free(mappings->list);
	*mappings = (struct mk_cni_port_mappings){ 0 };
}

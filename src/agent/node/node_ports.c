// SPDX-License-Identifier: Apache-2.0
/* Where NodePorts answer, and what the log says about the uplinks and these addresses. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/node/node_internal.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "host/sysctl.h"

static bool is_wanted(const struct mk_config *config, const struct mk_ip *ip)
{
	const struct mk_cidr_list *list = &config->node_port_addresses;

	/* the pods' gateway and the VTEP are the datapath's own */
	if (mk_cidr_contains(mk_config_cluster(config, ip->family), ip) ||
	    mk_cidr_contains(mk_config_vteps(config, ip->family), ip))
		return false;
	for (size_t i = 0; i < list->count; i++)
		if (mk_cidr_contains(&list->cidr[i], ip))
			return true;
	return false;
}

/* Is there a range for @family? Ranges of the other family do not restrict it. */
static bool has_ranges(const struct mk_config *config, sa_family_t family)
{
	const struct mk_cidr_list *list = &config->node_port_addresses;

	for (size_t i = 0; i < list->count; i++)
		if (list->cidr[i].ip.family == family)
			return true;
	return false;
}

bool localhost_node_ports(const struct mk_config *config, sa_family_t family)
{
	const struct mk_ip v4 = { .family = AF_INET, .v4.s_addr = htonl(INADDR_LOOPBACK) };
	const struct mk_ip v6 = { .family = AF_INET6, .v6 = IN6ADDR_LOOPBACK_INIT };

	return config->localhost_node_ports &&
	       (!has_ranges(config, family) || is_wanted(config, family == AF_INET6 ? &v6 : &v4));
}

static size_t add_wanted(const struct mk_config *config, sa_family_t family,
			 const struct mk_ip *from, size_t count, struct mk_ip *ips, size_t used)
{
	for (size_t i = 0; i < count; i++)
		if (!mk_ips_contain(ips, used, &from[i]) && from[i].family == family &&
		    (!has_ranges(config, family) || is_wanted(config, &from[i])))
			ips[used++] = from[i];
	return used;
}

int node_port_ips(const struct mk_config *config, sa_family_t family,
		  const struct mk_node_object *object, const struct mk_ip *local,
		  size_t local_count, struct mk_ip **ips, size_t *count, struct mk_error *err)
{
	*ips = calloc(object->address_count + local_count + 1, sizeof(**ips));
	if (!*ips)
		return mk_error_errno(err, ENOMEM, "cannot keep the addresses of Node '%s'",
				      object->name);
	*count = add_wanted(config, family, object->addresses, object->address_count, *ips, 0);
	if (has_ranges(config, family))
		*count = add_wanted(config, family, local, local_count, *ips, *count);
	return 0;
}

/* ---- log lines ------------------------------------------------------------------------------- */

/* Log @text if it is new. Returns whether it is. */
static bool say(char **said, const char *what, const char *text)
{
	const char *now = *said ? "are now " : "";

	if (!mk_is_news(said, text))
		return false;
	mk_log_info("%s %s%s", what, now, text);
	return true;
}

/* Strict filtering is a problem only with several uplinks: see src/cli/check/host.c. */
static void say_path_filter(const struct mk_own_uplinks *uplinks)
{
	for (size_t i = 0; i < uplinks->count; i++)
		if (uplinks->count > 1 && !(uplinks->uplink[1].flags & MK_UPLINK_SIDE) &&
		    mk_reverse_path_filter(uplinks->uplink[i].link.name, NULL) == 1) {
			mk_log_warn(
				"rp_filter is strict (1) on %s, one of several uplinks: a packet for this host that comes by it is dropped if the way back leads by another; set net.ipv4.conf.all.rp_filter=2 to accept it",
				uplinks->uplink[i].link.name);
			return;
		}
}

/* Uplinks of side networks come last. */
static void say_uplink(FILE *stream, const struct mk_own_uplinks *uplinks, size_t index)
{
	const struct mk_own_uplink *uplink = &uplinks->uplink[index];
	bool is_side = uplink->flags & MK_UPLINK_SIDE;
	bool is_first_side = is_side && !(uplinks->uplink[index - 1].flags & MK_UPLINK_SIDE);
	char text[MK_IP_STRLEN];

	fprintf(stream, "%s%s",
		index == 0	? ""
		: is_first_side ? "; side networks: "
				: ", ",
		uplink->link.name);
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (uplink->source[i].addr.ip.family != AF_UNSPEC)
			fprintf(stream, " %s", mk_ip_format(&uplink->source[i].addr.ip, text));
}

static void say_ports(struct mk_own_family *own)
{
	cleanup_free char *ports = NULL;
	char text[MK_IP_STRLEN];
	size_t size;
	FILE *stream = open_memstream(&ports, &size);

	for (size_t i = 0; stream && i < own->service_ip_count; i++)
		fprintf(stream, "%s%s", i ? ", " : "", mk_ip_format(&own->service_ips[i], text));
	if (stream && own->service_ip_count == 0)
		fprintf(stream, "none of %s", mk_family_name(own->family->family));
	if (stream && fclose(stream) == 0)
		say(&own->ports_said, "addresses of NodePorts:", ports);
}

int say_node(struct mk_own_node *node, struct mk_error *err)
{
	cleanup_free char *uplinks = NULL;
	size_t size;
	FILE *stream = open_memstream(&uplinks, &size);

	(void)err;

	for (size_t i = 0; stream && i < node->uplinks.count; i++)
		say_uplink(stream, &node->uplinks, i);
	if (stream && node->uplinks.too_many)
		fprintf(stream, "; more than %d: the others are left out", MK_UPLINKS_MAX);
	if (stream && node->uplinks.some_missing)
		fprintf(stream, "; some of uplinkIfaceName do not exist");
	if (stream && fclose(stream) == 0 && say(&node->uplinks_said, "uplinks:", uplinks))
		say_path_filter(&node->uplinks);
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (node->core->families[i].runs)
			say_ports(&node->families[i]);
	return 0;
}

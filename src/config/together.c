// SPDX-License-Identifier: Apache-2.0
/* Rules between settings, each of which is valid by itself. */
#include "config/together.h"

#include <string.h>

#include "base/cleanup.h"
static bool ranges_meet(uint16_t min, uint16_t max, uint16_t other_min, uint16_t other_max)
{
	return min <= other_max && other_min <= max;
}

static int check_port(const struct mk_config *config, const char *key, uint16_t port,
		      struct mk_error *err)
{
	if (!ranges_meet(config->node_port_min, config->node_port_max, port, port) &&
	    !ranges_meet(config->nat_port_min, config->nat_port_max, port, port))
		return 0;
	return mk_error_set(
		err, EINVAL,
		"%s: port %u: expected one outside nodePortRange '%u-%u' and natPortRange '%u-%u'",
		key, port, config->node_port_min, config->node_port_max, config->nat_port_min,
		config->nat_port_max);
}

static int check_listen(const struct mk_config *config, const char *key,
			const struct mk_listens *listens, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < listens->count; i++)
		ret = check_port(config, key, listens->at[i].port, err);
	return ret;
}

static int check_listens(const struct mk_config *config, struct mk_error *err)
{
	const struct mk_listens *healthz = &config->healthz, *metrics = &config->metrics;
	int ret = check_listen(config, "healthzBindAddress", healthz, err);

	ret = ret ?: check_listen(config, "metricsBindAddress", metrics, err);
	for (size_t i = 0; ret == 0 && i < healthz->count * metrics->count; i++) {
		uint16_t port = metrics->at[i / healthz->count].port;

		if (port == healthz->at[i % healthz->count].port)
			ret = mk_error_set(
				err, EINVAL,
				"metricsBindAddress: port %u: expected a port other than that of healthzBindAddress",
				port);
	}
	return ret;
}

static int check_ports(const struct mk_config *config, struct mk_error *err)
{
	uint16_t vxlan = config->vxlan_port;

	if (ranges_meet(config->node_port_min, config->node_port_max, config->nat_port_min,
			config->nat_port_max))
		return mk_error_set(
			err, EINVAL,
			"natPortRange '%u-%u': expected a range that does not overlap nodePortRange '%u-%u'",
			config->nat_port_min, config->nat_port_max, config->node_port_min,
			config->node_port_max);
	if (ranges_meet(config->node_port_min, config->node_port_max, vxlan, vxlan) ||
	    ranges_meet(config->nat_port_min, config->nat_port_max, vxlan, vxlan))
		return mk_error_set(
			err, EINVAL,
			"vxlanPort '%u': expected a port outside nodePortRange '%u-%u' and natPortRange '%u-%u'",
			vxlan, config->node_port_min, config->node_port_max, config->nat_port_min,
			config->nat_port_max);
	return check_listens(config, err);
}

/* Each device that monokube makes has a name of its own. */
static int check_vxlan_name(const struct mk_config *config, const char *setting, const char *vxlan,
			    struct mk_error *err)
{
	const char *at = config->uplinks;
	char name[IFNAMSIZ];

	if (strcmp(vxlan, MK_HOST_VETH) == 0 || strcmp(vxlan, MK_HOST_PEER) == 0)
		return mk_error_set(
			err, EINVAL,
			"%s '%s': expected a name other than those of the host veth pair, '%s' and '%s'",
			setting, vxlan, MK_HOST_VETH, MK_HOST_PEER);
	while (mk_config_next_name(&at, name))
		if (strcmp(vxlan, name) == 0)
			return mk_error_set(
				err, EINVAL,
				"uplinkIfaceName '%s': expected devices other than %s '%s'",
				config->uplinks, setting, vxlan);
	return 0;
}

static int check_interfaces(const struct mk_config *config, struct mk_error *err)
{
	const struct {
		const char *setting, *name;
	} devices[] = { { "vxlanIfaceName", config->vxlan_iface_name },
			{ "sfcIfaceName", config->sfc_iface_name },
			{ "peerIfaceName", config->peer_iface_name } };

	for (size_t i = 0; i < MK_ARRAY_SIZE(devices); i++) {
		int ret = check_vxlan_name(config, devices[i].setting, devices[i].name, err);

		if (ret < 0)
			return ret;
		for (size_t j = 0; j < i; j++)
			if (strcmp(devices[i].name, devices[j].name) == 0)
				return mk_error_set(err, EINVAL,
						    "%s '%s': expected a name other than %s '%s'",
						    devices[i].setting, devices[i].name,
						    devices[j].setting, devices[j].name);
	}
	return 0;
}

/* Every link must carry IPv6 packets of this size (RFC 8200). */
#define IPV6_MTU_MIN_BYTES 1280

static int check_mtu(const struct mk_config *config, struct mk_error *err)
{
	char cluster[MK_CIDR_STRLEN];

	if (!mk_config_has(config, AF_INET6) || config->mtu_bytes == 0 ||
	    config->mtu_bytes >= IPV6_MTU_MIN_BYTES)
		return 0;
	return mk_error_set(
		err, EINVAL,
		"mtu '%u': expected 0 or a number from %d to 65535, because clusterCidr '%s' is IPv6",
		config->mtu_bytes, IPV6_MTU_MIN_BYTES,
		mk_cidr_format(mk_config_cluster(config, AF_INET6), cluster));
}

/* Check that @range of @setting does not overlap @other of @other_setting. */
static int check_ranges(const char *setting, const struct mk_cidr *range, const char *other_setting,
			const struct mk_cidr *other, struct mk_error *err)
{
	char text[MK_CIDR_STRLEN], other_text[MK_CIDR_STRLEN];

	if (range->ip.family != other->ip.family || range->ip.family == AF_UNSPEC ||
	    (!mk_cidr_covers(range, other) && !mk_cidr_covers(other, range)))
		return 0;
	return mk_error_set(err, EINVAL, "%s '%s': expected a range that does not overlap %s '%s'",
			    setting, mk_cidr_format(range, text), other_setting,
			    mk_cidr_format(other, other_text));
}

/* Answers go straight if the pod's node knows the client, and is on the link. */
static int check_direct_return(const struct mk_config *config, struct mk_error *err)
{
	if (!config->returns_direct)
		return 0;
	if (!config->keeps_client)
		return mk_error_set(
			err, EINVAL,
			"directServerReturn 'true': expected clientAddress to be Keep, too: without it, pods' nodes do not know the client");
	if (config->routing == MK_ROUTING_OVERLAY)
		return mk_error_set(
			err, EINVAL,
			"directServerReturn 'true': expected routing to be Auto or Direct, not Overlay: only nodes that send each other packets directly answer clients themselves");
	if (config->encryption != MK_ENCRYPTION_NONE)
		return mk_error_set(
			err, EINVAL,
			"directServerReturn 'true': expected encryption to be None: with encryption, nodes send each other no packet directly");
	return 0;
}

/* Over IPv6, the kernel would send carriers by the uplink, unencrypted, as long as no route leads
 * to the device of WireGuard. */
static int check_encryption(const struct mk_config *config, struct mk_error *err)
{
	static const char *const words[] = {
		[MK_ENCRYPTION_WIREGUARD] = "WireGuard", [MK_ENCRYPTION_ONLY] = "WireGuardOnly"
	};

	if (config->encryption == MK_ENCRYPTION_NONE)
		return 0;
	if (config->routing == MK_ROUTING_DIRECT)
		return mk_error_set(
			err, EINVAL,
			"routing 'Direct': expected Overlay or Auto, because encryption is '%s': direct packets are not encrypted",
			words[config->encryption]);
	if (config->underlay_family == AF_INET6)
		return mk_error_set(
			err, EINVAL,
			"encryption '%s': expected None, because underlayFamily is IPv6: WireGuard is used between IPv4 addresses of nodes only",
			words[config->encryption]);
	if (config->wireguard_port)
		return 0;
	return mk_error_set(err, EINVAL,
			    "encryption '%s': expected wireguardPort to be set, too, such as 51871",
			    words[config->encryption]);
}

/* No two of these may overlap. Without clusterName, the last three mean nothing. */
static int check_all_ranges(const struct mk_config *config, struct mk_error *err)
{
	const struct {
		const char *setting;
		const struct mk_ranges *ranges;
	} all[] = {
		{ "clusterCidr", &config->cluster },	{ "vtepCidr", &config->vteps },
		{ "peerPools", &config->peer_pools },	{ "clustersetCidr", &config->clusterset },
		{ "externalCidr", &config->externals },
	};
	size_t count = config->cluster_name[0] ? MK_ARRAY_SIZE(all) : 2;
	int ret = 0;

	for (size_t family = 0; family < MK_FAMILIES; family++)
		for (size_t i = 1; i < count; i++)
			for (size_t j = 0; ret == 0 && j < i; j++)
				ret = check_ranges(all[i].setting, &all[i].ranges->of[family],
						   all[j].setting, &all[j].ranges->of[family], err);
	return ret;
}

int config_check_together(const struct mk_config *config, struct mk_error *err)
{
	int ret = check_all_ranges(config, err) ?: check_direct_return(config, err);

	ret = ret ?: check_encryption(config, err) ?: check_mtu(config, err);
	return ret ?: check_ports(config, err) ?: check_interfaces(config, err);
}

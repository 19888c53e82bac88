// SPDX-License-Identifier: Apache-2.0
#include "host/record.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/state_file.h"
#include "host/sysctl.h"

/* The command line asks the first address. */
static const char *listen_text(const struct mk_listens *listens, char *buf)
{
	return listens->count ? mk_ip_port_format(&listens->at[0], buf) : "off";
}

static const char *const choices[] = {
	[MK_AUTO] = "auto", [MK_TRUE] = "true", [MK_FALSE] = "false"
};

enum mk_choice mk_record_masquerade_ipv6(const struct mk_record *record)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(choices); i++)
		if (strcmp(record->masquerade_ipv6, choices[i]) == 0)
			return (enum mk_choice)i;
	return MK_AUTO;
}

static const char *const policy_modes[] = { [MK_POLICIES_ENFORCED] = "enforce",
					    [MK_POLICIES_AUDITED] = "audit",
					    [MK_POLICIES_OFF] = "off" };

static const char *const encryptions[] = { [MK_ENCRYPTION_NONE] = "None",
					   [MK_ENCRYPTION_WIREGUARD] = "WireGuard",
					   [MK_ENCRYPTION_ONLY] = "WireGuardOnly" };

static const char *const routings[] = {
	[MK_ROUTING_OVERLAY] = "Overlay", [MK_ROUTING_DIRECT] = "Direct", [MK_ROUTING_AUTO] = "Auto"
};

static void print_second_ranges(const struct mk_config *config, FILE *out)
{
	const unsigned second = !mk_family_index(config->cluster.primary);
	char cluster[MK_CIDR_STRLEN], vtep[MK_CIDR_STRLEN];

	if (config->cluster.of[second].ip.family != AF_UNSPEC)
		fprintf(out, "second_cluster_cidr=%s\nsecond_vtep_cidr=%s\n",
			mk_cidr_format(&config->cluster.of[second], cluster),
			mk_cidr_format(&config->vteps.of[second], vtep));
}

static void print_record(const struct mk_config *config, const char *source, FILE *out)
{
	char cluster[MK_CIDR_STRLEN], vtep[MK_CIDR_STRLEN];
	char healthz[MK_IP_PORT_STRLEN], metrics[MK_IP_PORT_STRLEN];
	char ports[MK_RESERVED_RANGES_BYTES];

	mk_reserved_ranges(config, ports);
	fprintf(out,
		"vxlan=%s\nsfc=%s\npeer=%s\nveth_prefix=%s\nbpf_dir=%s\ncni_conf=%s\ncni_bin_dir=%s\n"
		"reserved_ports=%s\nsource=%s\n"
		"cluster_cidr=%s\nvtep_cidr=%s\nhealthz=%s\nmetrics=%s\n"
		"masquerade_ipv6=%s\nnetwork_policy=%s\ncluster_name=%s\nencryption=%s\n"
		"routing=%s\n",
		config->vxlan_iface_name, config->sfc_iface_name, config->peer_iface_name,
		config->veth_prefix, config->bpf_dir, config->cni_conf_path, config->cni_bin_dir,
		ports, source,
		mk_cidr_format(mk_config_cluster(config, config->cluster.primary), cluster),
		mk_cidr_format(mk_config_vteps(config, config->cluster.primary), vtep),
		listen_text(&config->healthz, healthz), listen_text(&config->metrics, metrics),
		choices[config->masquerade_ipv6], policy_modes[config->policy_mode],
		config->cluster_name, encryptions[config->encryption], routings[config->routing]);
	print_second_ranges(config, out);
}

static int write_settings(const struct mk_config *config, struct mk_error *err)
{
	struct mk_state_file file;
	int ret = mk_state_file_begin(&file, config->state_dir, MK_SETTINGS_NAME, err);

	if (ret < 0)
		return ret;
	mk_config_print(config, file.out);
	return mk_state_file_write(&file, err);
}

int mk_record_write(const struct mk_config *config, const char *source, struct mk_error *err)
{
	struct mk_state_file file;
	int ret = mk_state_file_begin(&file, config->state_dir, MK_RECORD_NAME, err);

	if (ret < 0)
		return ret;
	print_record(config, source, file.out);
	ret = mk_state_file_write(&file, err);
	return ret < 0 ? ret : write_settings(config, err);
}

static void take_line(struct mk_record *record, const char *line)
{
	const struct {
		const char *key;
		char *value;
		size_t size;
	} fields[] = {
		{ "vxlan=", record->vxlan_name, sizeof(record->vxlan_name) },
		{ "sfc=", record->sfc_name, sizeof(record->sfc_name) },
		{ "peer=", record->peer_name, sizeof(record->peer_name) },
		{ "veth_prefix=", record->veth_prefix, sizeof(record->veth_prefix) },
		{ "bpf_dir=", record->bpf_dir, sizeof(record->bpf_dir) },
		{ "cni_conf=", record->cni_conf_path, sizeof(record->cni_conf_path) },
		{ "cni_bin_dir=", record->cni_bin_dir, sizeof(record->cni_bin_dir) },
		{ "reserved_ports=", record->reserved_ports, sizeof(record->reserved_ports) },
		{ "source=", record->source, sizeof(record->source) },
		{ "cluster_cidr=", record->cluster_cidr, sizeof(record->cluster_cidr) },
		{ "vtep_cidr=", record->vtep_cidr, sizeof(record->vtep_cidr) },
		{ "second_cluster_cidr=", record->second_cluster_cidr,
		  sizeof(record->second_cluster_cidr) },
		{ "second_vtep_cidr=", record->second_vtep_cidr, sizeof(record->second_vtep_cidr) },
		{ "healthz=", record->healthz, sizeof(record->healthz) },
		{ "metrics=", record->metrics, sizeof(record->metrics) },
		{ "masquerade_ipv6=", record->masquerade_ipv6, sizeof(record->masquerade_ipv6) },
		{ "cluster_name=", record->cluster_name, sizeof(record->cluster_name) },
		{ "encryption=", record->encryption, sizeof(record->encryption) },
		{ "routing=", record->routing, sizeof(record->routing) },
		{ "network_policy=", record->network_policy, sizeof(record->network_policy) },
	};

	for (size_t i = 0; i < MK_ARRAY_SIZE(fields); i++)
		if (strncmp(line, fields[i].key, strlen(fields[i].key)) == 0)
			snprintf(fields[i].value, fields[i].size, "%s",
				 line + strlen(fields[i].key));
}

int mk_record_read(const char *state_dir, struct mk_record *record, struct mk_error *err)
{
	cleanup_free char *text = NULL;
	char *rest = NULL;
	int ret = mk_state_file_read(state_dir, MK_RECORD_NAME, &text, err);

	*record = (struct mk_record){
		.vxlan_name = "mkvxlan",
		.sfc_name = "mksfc",
		.peer_name = "mkpeer",
		.veth_prefix = "mk",
		.bpf_dir = MK_BPF_DIR,
		.cni_conf_path = "/etc/cni/net.d/10-monokube.conflist",
		.cni_bin_dir = "/opt/cni/bin",
	};
	if (ret <= 0)
		return ret;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		take_line(record, line);
	return 0;
}

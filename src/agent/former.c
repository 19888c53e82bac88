// SPDX-License-Identifier: Apache-2.0
/* A start with other settings than the last run had. The second family of clusterCidr comes and
 * goes; the primary family stays while there are pods, whose addresses and MACs follow from it.
 * Devices, the CNI configuration and the pinned tables get other names. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent_internal.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "datapath/maps/pin.h"
#include "host/record.h"
#include "monokube/clusters.h"
#include "monokube/sfc.h"
#include "overlay/overlay.h"
#include "pod/ipam/ipam.h"

#define CONF_MAX_BYTES 65536

static int count_pod(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	unsigned int *count = ctx;

	(void)ip;
	*count += owner->container_id[0] != '\0';
	return 0;
}

static int count_pods(const char *state_dir, unsigned int *count, struct mk_error *err)
{
	cleanup_ipam struct mk_ipam *ipam = mk_ipam_open(state_dir, err);

	*count = 0;
	return ipam ? mk_ipam_each(ipam, count_pod, count, err) : -err->code;
}

int agent_check_primary(const struct mk_config *config, struct mk_error *err)
{
	struct mk_record record;
	struct mk_cidr before;
	unsigned int pods;
	int ret = mk_record_read(config->state_dir, &record, err);

	if (ret < 0 || mk_cidr_parse(record.cluster_cidr, &before) < 0 ||
	    before.ip.family == config->cluster.primary)
		return ret;
	ret = count_pods(config->state_dir, &pods, err);
	if (ret < 0 || pods == 0)
		return ret;
	return mk_error_set(
		err, EINVAL,
		"clusterCidr begins with %s now, and began with %s ('%s') before: %u pods of this node have their addresses from the latter; put the %s range first again, or drain this node and run `monokube cleanup`",
		mk_family_name(config->cluster.primary), mk_family_name(before.ip.family),
		record.cluster_cidr, pods, mk_family_name(before.ip.family));
}

/* The device is found by its name. With another one, the agent would take its address for that of
 * another network. */
int agent_rename_devices(const struct mk_config *config, struct mk_nl *nl, struct mk_error *err)
{
	struct mk_record record;
	int ret = mk_record_read(config->state_dir, &record, err);
	const struct {
		const char *former, *name;
		uint32_t id;
	} devices[] = {
		{ record.vxlan_name, config->vxlan_iface_name, MK_VXLAN_VNI },
		{ record.sfc_name, config->sfc_iface_name, MK_SFC_VNI },
		{ record.peer_name, config->peer_iface_name, MK_CLUSTER_VNI },
	};

	for (size_t i = 0; ret >= 0 && i < MK_ARRAY_SIZE(devices); i++)
		ret = mk_overlay_rename(nl, devices[i].former, devices[i].name, devices[i].id, err);
	return ret < 0 ? mk_error_wrap(err, "names of devices (vxlanIfaceName and others)") : 0;
}

static int move_file(const char *former, const char *path, struct mk_error *err)
{
	const char *former_name, *name;
	cleanup_close int from = mk_parent_open(former, &former_name, err);
	cleanup_close int to = from < 0 ? -1 : mk_parent_open(path, &name, err);

	if (from < 0 || to < 0)
		return -err->code;
	if (renameat(from, former_name, to, name) < 0)
		return mk_error_errno(err, errno, "cannot rename '%s' to '%s'", former, path);
	return 0;
}

int agent_move_conf(const struct mk_config *config, struct mk_error *err)
{
	const char *path = config->cni_conf_path, *former;
	cleanup_free char *text = NULL;
	struct mk_error why = { 0 };
	struct mk_record record;
	int ret = mk_record_read(config->state_dir, &record, err);

	former = record.cni_conf_path;
	if (ret < 0 || strcmp(former, path) == 0 ||
	    mk_file_read(former, CONF_MAX_BYTES, &text, NULL, NULL) < 0 ||
	    !strstr(text, "\"type\": \"monokube\""))
		return ret < 0 ? ret : 0;
	if (move_file(former, path, &why) == 0)
		mk_log_info("CNI configuration has another path now former=%s path=%s", former,
			    path);
	else
		mk_log_warn("%s: remove it, because a runtime takes the file that sorts first",
			    mk_error_text(&why));
	return 0;
}

/* bpffs can rename a directory: tables and programs stay what they are. */
int agent_move_pins(const struct mk_config *config, struct mk_error *err)
{
	struct mk_record record;
	int ret = mk_record_read(config->state_dir, &record, err);

	if (ret < 0 || !*record.cluster_cidr || strcmp(record.bpf_dir, config->bpf_dir) == 0 ||
	    access(record.bpf_dir, F_OK) < 0) /* without a range it is no run's record */
		return ret < 0 ? ret : 0;
	if (rename(record.bpf_dir, config->bpf_dir) == 0)
		mk_log_info("tables and programs have another directory now former=%s path=%s",
			    record.bpf_dir, config->bpf_dir);
	else
		mk_log_warn(
			"cannot rename '%s' to '%s': %s; connections that Services translate begin again; `rm -r %s` gives its memory back",
			record.bpf_dir, config->bpf_dir, strerror(errno), record.bpf_dir);
	return 0;
}

static int remove_family(struct mk_core *core, const struct mk_family *family, struct mk_error *err)
{
	struct mk_removed removed = { 0 };
	unsigned int entries = 0;
	int ret = mk_datapath_remove_family(core->nl, core->config.bpf_dir, family->family,
					    &removed, err);

	ret = ret
		      ?: mk_overlay_remove_family(core->nl, core->config.vxlan_iface_name,
						  family->family, &entries, err);
	if (ret < 0)
		return mk_error_wrap(err, "%s is not in clusterCidr any more",
				     mk_family_name(family->family));
	mk_log_info(
		"removed: clusterCidr has no %s range any more; running pods keep their address of it pins=%u entries=%u",
		mk_family_name(family->family), removed.pins, entries);
	return 0;
}

int agent_remove_former(struct mk_core *core, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++) {
		const struct mk_family *family = &core->families[i];

		if (!mk_config_has(&core->config, family->family) &&
		    mk_pin_has(core->config.bpf_dir, family->family))
			ret = remove_family(core, family, err);
	}
	return ret;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/install.h - the CNI configuration and the plugin. */
#ifndef MK_AGENT_INSTALL_H
#define MK_AGENT_INSTALL_H

#include <sys/types.h>
#include <time.h>

#include "agent/core/core.h"

/* Identity of a file: for a replaced or changed file, at least one field differs. */
struct agent_file {
	dev_t dev;
	ino_t ino; /* 0: not installed yet */
	off_t size;
	struct timespec changed;
};

struct mk_cni_conf_values {
	const struct mk_config *config;
	struct mk_cidr pod_cidrs[MK_FAMILIES]; /* by family; AF_UNSPEC: none */
	sa_family_t underlay; /* of the overlay's outer header */
	uint32_t mtu_bytes;
	bool is_direct; /* .. which is the uplink's */
};

/* The files as last written or found correct. */
struct agent_files {
	struct agent_file plugin, conf;
	struct mk_cidr pod_cidrs[MK_FAMILIES]; /* in the configuration */
	uint32_t mtu_bytes;
	bool is_direct;
};

/* Replace the ${...} of @template; the caller frees the result. NULL: see @err, also for an unknown
 * placeholder. Pure. */
char *cni_conf_render(const char *template, const struct mk_cni_conf_values *values,
		      struct mk_error *err);
/* Install the plugin as soon as the tables are this version's. The plugin of another version does
 * not know them, so no pod could start or end before the other steps work. */
mk_must_check int agent_files_reconcile_plugin(struct agent_files *files, struct mk_core *core,
					       struct mk_error *err);
/* Install the configuration last: it tells runtimes that the node works. */
mk_must_check int agent_files_reconcile_conf(struct agent_files *files, struct mk_core *core,
					     const struct mk_cni_conf_values *values,
					     struct mk_error *err);
/* Was an installed file changed since? Three calls of stat(2) instead of watches: a directory may
 * vanish and come back, too. */
bool agent_files_differ(const struct agent_files *files, const struct mk_config *config);

#endif

// SPDX-License-Identifier: Apache-2.0
#include "cluster/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cluster/kube.h"

struct mk_source {
	struct mk_cluster_dir *dir; /* one of the two */
	struct mk_kube *kube;
};

/* ---- choice ---------------------------------------------------------------------------------- */

static int check_account(const struct mk_config *config, const char *account_dir,
			 struct mk_error *err)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/token", account_dir) >= (int)sizeof(path))
		return mk_error_errno(err, ENAMETOOLONG, "service account in '%s'", account_dir);
	if (access(path, F_OK) < 0)
		return mk_error_set(
			err, ENOENT,
			"no cluster to follow: give --kubeconfig FILE (KUBECONFIG), or --cluster-dir DIR, or run in a pod with a service account (there is no '%s')",
			path);
	if (!config->api_server[0] && (!host || !*host))
		return mk_error_set(
			err, ENOENT,
			"no API server known: there is a service account in '%s', but neither apiServer (--api-server) nor KUBERNETES_SERVICE_HOST is set; set one, or give --kubeconfig FILE or --cluster-dir DIR",
			account_dir);
	return 0;
}

int mk_source_choose(const struct mk_config *config, const char *account_dir,
		     struct mk_source_text *text, struct mk_error *err)
{
	const char *at = config->api_server[0] ? " at " : "";

	if (config->cluster_dir[0]) {
		snprintf(text->text, sizeof(text->text), "cluster directory %s",
			 config->cluster_dir);
		return 0;
	}
	if (config->kubeconfig[0]) {
		snprintf(text->text, sizeof(text->text), "API server%s%s by kubeconfig %s", at,
			 config->api_server, config->kubeconfig);
		return 0;
	}
	snprintf(text->text, sizeof(text->text), "API server%s%s by service account", at,
		 config->api_server);
	return check_account(config, account_dir, err);
}

/* ---- start and stop -------------------------------------------------------------------------- */

static int start_kube(struct mk_source *source, uv_loop_t *loop, const struct mk_config *config,
		      struct mk_model *model, mk_listed_fn *listed, void *ctx, struct mk_error *err)
{
	struct mk_reflector_timing timing = mk_reflector_timing_default;
	const struct mk_kube_options options = {
		.source = {
			.kubeconfig = config->kubeconfig[0] ? config->kubeconfig : NULL,
			.api_server = config->api_server[0] ? config->api_server : NULL,
			.service_account_dir = MK_SERVICE_ACCOUNT_DIR,
		},
		.node_name = config->node_name,
		.timing = &timing,
	};

	timing.backoff_max_ms = config->api_retry_max_s * 1000ULL;
	source->kube = kube_start(loop, &options, model, listed, ctx, err);
	return source->kube ? 0 : -EINVAL;
}

static int start_dir(struct mk_source *source, uv_loop_t *loop, const struct mk_config *config,
		     struct mk_model *model, mk_listed_fn *listed, void *ctx, struct mk_error *err)
{
	source->dir = mk_cluster_dir_start(loop, config->cluster_dir, model, listed, ctx, err);
	return source->dir ? 0 : -EINVAL;
}

struct mk_source *mk_source_start(uv_loop_t *loop, const struct mk_config *config,
				  struct mk_model *model, mk_listed_fn *listed, void *ctx,
				  struct mk_error *err)
{
	struct mk_source *source = calloc(1, sizeof(*source));
	int ret;

	if (!source) {
		(void)mk_error_errno(err, ENOMEM, "cannot follow the cluster");
		return NULL;
	}
	ret = (config->cluster_dir[0] ? start_dir : start_kube)(source, loop, config, model, listed,
								ctx, err);
	if (ret == 0)
		return source;
	free(source);
	return NULL;
}

void mk_source_stop(struct mk_source *source)
{
	if (!source)
		return;
	mk_cluster_dir_stop(source->dir);
	kube_stop(source->kube);
	free(source);
}

/* ---- what is wanted: a directory always has everything --------------------------------------- */

void mk_source_want(struct mk_source *source, enum mk_source_part part, unsigned int wanted)
{
	if (source->kube)
		kube_want(source->kube, part, wanted);
}

bool mk_source_listed(const struct mk_source *source, enum mk_source_part part)
{
	return source->kube ? kube_listed(source->kube, part)
			    : mk_cluster_dir_complete(source->dir);
}

/* ---- reports of this node: a directory ignores them ------------------------------------------ */

void mk_source_ready(struct mk_source *source)
{
	if (source->kube)
		kube_ready(source->kube);
}

void mk_source_wireguard(struct mk_source *source, const char *text)
{
	if (source->kube)
		kube_wireguard(source->kube, text);
}

void mk_source_warn(struct mk_source *source, const char *reason, const char *message)
{
	if (source->kube)
		kube_event(source->kube, true, reason, message);
}

void mk_source_chain_status(struct mk_source *source, const struct mk_chain_status *status)
{
	if (source->kube)
		kube_chain_status(source->kube, status);
}

bool mk_source_stats(const struct mk_source *source,
		     struct mk_reflector_stats stats[MK_RESOURCE_COUNT])
{
	if (source->kube)
		kube_stats(source->kube, stats);
	return source->kube != NULL;
}

const struct mk_api_clock *mk_source_clock(const struct mk_source *source)
{
	return source->kube ? kube_clock(source->kube) : NULL;
}

struct mk_lead *mk_source_lead(struct mk_source *source)
{
	return source->kube ? kube_lead(source->kube) : NULL;
}

bool mk_source_server(const struct mk_source *source, struct mk_ip *ip)
{
	*ip = (struct mk_ip){ 0 };
	if (source && source->kube)
		*ip = kube_server(source->kube);
	return ip->family != AF_UNSPEC;
}

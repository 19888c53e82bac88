// SPDX-License-Identifier: Apache-2.0
/* `monokube check`: without clusterName no agent leads, and nothing is removed. A setting that was
 * lost by mistake must not end connections of peers. So this is a note with both ways out. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/check/check.h"
#include "cluster/model/peer.h"

#define GROUP	"networking.monokube.io/v1alpha1"
#define MCS	"multicluster.x-k8s.io/v1beta1"
#define MANAGED MK_MANAGED_BY_LABEL "=" MK_MANAGED_BY

#define AGAIN	  "if it was removed by mistake, set it again; otherwise kubectl delete "
#define PUBLISHED "publishedclusters,publishednodes,publishedservices -A -l " MANAGED

static const struct mk_resource resources[] = {
	{ .name = "PublishedClusters",
	  .api_version = GROUP,
	  .kind = "PublishedCluster",
	  .path = "/apis/" GROUP "/namespaces/" MK_PUBLISHED_NAMESPACE "/publishedclusters",
	  .label_selector = MANAGED,
	  .model_kind = MK_KIND_COUNT,
	  .optional = true },
	{ .name = "ServiceImports",
	  .api_version = MCS,
	  .kind = "ServiceImport",
	  .path = "/apis/" MCS "/serviceimports",
	  .older_path = "/apis/multicluster.x-k8s.io/v1alpha1/serviceimports",
	  .older_api_version = "multicluster.x-k8s.io/v1alpha1",
	  .label_selector = MANAGED,
	  .model_kind = MK_KIND_COUNT,
	  .optional = true },
};

struct left {
	char cluster[64]; /* its former name; "": not published */
	size_t imports;
};

static void see(void *ctx, json_object *tree)
{
	json_object *metadata = mk_json_member(tree, "metadata");
	json_object *labels = mk_json_member(metadata, "labels");
	struct left *left = ctx;

	if (strcmp(mk_json_text(labels, MK_MANAGED_BY_LABEL), MK_MANAGED_BY) != 0)
		return;
	if (strcmp(mk_json_text(tree, "kind"), "ServiceImport") == 0)
		left->imports++;
	else if (!*mk_json_text(labels, MK_RELAYED_BY_LABEL))
		snprintf(left->cluster, sizeof(left->cluster), "%s",
			 mk_json_text(metadata, "name"));
}

/* A server that cannot be asked is not a fault of this: other checks name it. */
void check_left(struct mk_checking *checking)
{
	struct left left = { 0 };
	struct mk_error err;
	int ret;

	if (!checking->reads_cluster || *checking->record.cluster_name)
		return;
	mk_log_set_level(MK_LOG_ERROR);
	ret = check_read_objects(checking->options, resources, MK_ARRAY_SIZE(resources), see, &left,
				 &err);
	mk_log_set_level(MK_LOG_INFO);
	if (ret == 0 && (*left.cluster || left.imports))
		check_note(
			checking, "peers",
			left.imports ? AGAIN "serviceimports,endpointslices," PUBLISHED
				     : AGAIN PUBLISHED,
			"clusterName is not set, but cluster '%s' is still published, with %zu ServiceImports",
			left.cluster, left.imports);
}

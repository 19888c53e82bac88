// SPDX-License-Identifier: Apache-2.0
/* Steps that all parts of the leader share. */
#include <stdlib.h>
#include <string.h>

#include "agent/leader/leader_internal.h"
#include "base/log.h"

uint64_t leader_now_ms(void)
{
	return mk_time_monotonic_ns() / 1000000;
}

void leader_schedule(struct mk_leader *leader)
{
	uv_timer_start(&leader->timer, leader->work, 0, 0);
}

void leader_failed(struct mk_leader *leader, const struct mk_error *err)
{
	const char *text = mk_error_text(err);

	if (leader->said && strcmp(leader->said, text) == 0)
		return;
	free(leader->said);
	leader->said = strdup(text);
	mk_log_error("leader: %s", text);
}

const char *leader_now(char text[MK_TIME_STRLEN])
{
	return mk_time_format(mk_time_now_unix_ns() / MK_NS_PER_S * MK_NS_PER_S, text);
}

void leader_apply(struct mk_leader *leader, json_object *tree)
{
	struct mk_error err;

	if (mk_lead_apply(leader->lead, tree, &err) < 0)
		leader_failed(leader, &err);
}

void leader_delete(struct mk_leader *leader, const struct mk_lead_object *object)
{
	struct mk_error err;

	if (mk_lead_delete(leader->lead, object, &err) < 0)
		leader_failed(leader, &err);
}

/* The model may not have got an object that the leader has read, or may have refused it. */
bool leader_has_work(const struct mk_leader *leader)
{
	size_t known = mk_model_count(leader->model, MK_KIND_CLUSTER_PEER) +
		       mk_model_count(leader->model, MK_KIND_SERVICE_EXPORT);

	if (!leader->config->cluster_name[0] || leader->is_stopping)
		return false;
	return known + mk_lead_count(leader->lead, MK_LEAD_PEERS) +
		       mk_lead_count(leader->lead, MK_LEAD_EXPORTS) >
	       0;
}

bool leader_cluster_of(const struct mk_leader *leader, const struct mk_cluster_peer *peer,
		       struct mk_imports_cluster *cluster)
{
	const struct mk_clusters_gone *gone = leader->clusters ? &leader->clusters->gone : NULL;
	const struct mk_published_cluster *published =
		mk_clusters_published(leader->model, gone, peer->name);

	*cluster = (struct mk_imports_cluster){ .name = peer->name,
						.via = peer->via,
						.namespaces = peer->import_namespaces,
						.opens_pods = peer->access == MK_PEER_ACCESS_PODS };

	if (published && !mk_published_counts(published->relayed_by, peer))
		published = NULL;
	for (size_t i = 0; published && i < MK_FAMILIES; i++) {
		cluster->home[i] = published->pod_cidrs[i];
		cluster->view[i] = peer->same_view ? cluster->home[i] : peer->views[i];
		if (published->external_cidrs)
			cluster->external_home[i] = published->external_cidrs[i];
		if (peer->externals)
			cluster->external_view[i] = peer->externals->views[i];
	}
	return strcmp(peer->name, leader->config->cluster_name) != 0 &&
	       mk_lead_find(leader->lead, MK_LEAD_PEERS, "", peer->name);
}

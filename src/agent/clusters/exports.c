// SPDX-License-Identifier: Apache-2.0
#include "agent/clusters/exports.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cluster/model/peer.h"

/* The rows of one family, while they are computed. */
struct collecting {
	const struct mk_model *model;
	const struct mk_cidr *pods; /* of this node */
	const struct mk_cidr *externals; /* externalCidr; AF_UNSPEC: none */
	struct clusters_export_rows rows;
	bool failed; /* out of memory */
};

static struct mk_clusters_export *add_rows(struct collecting *to, size_t more)
{
	struct clusters_export_rows *rows = &to->rows;
	size_t wanted = rows->count + more, capacity = rows->capacity;
	struct mk_clusters_export *bigger;

	if (wanted > capacity) {
		capacity = capacity * 2 > wanted ? capacity * 2 : wanted;
		bigger = reallocarray(rows->of, capacity, sizeof(*bigger));
		if (!bigger) {
			to->failed = true;
			return NULL;
		}
		rows->of = bigger;
		rows->capacity = capacity;
	}
	rows->count = wanted;
	return &rows->of[wanted - more];
}

/* The port @of, and pings of its address. @target: what the address stands for; NULL: itself. */
static void add_endpoint(struct collecting *to, const struct mk_export *of,
			 const struct mk_ip *target)
{
	struct mk_clusters_export *rows = add_rows(to, 2);

	if (!rows)
		return;
	rows[0] = (struct mk_clusters_export){ .key = *of };
	if (target)
		rows[0].target = mk_ip_to_addr(target);
	rows[1] = rows[0];
	rows[1].key.port = 0;
	rows[1].key.proto = MK_PROTO_ANY;
}

/* An export counts if its Service exists and is not of type ExternalName. */
static void add_export(struct collecting *to, const struct mk_service_export *of)
{
	const struct mk_service_object *service =
		mk_model_service(to->model, of->namespace_, of->name);
	cleanup_free const struct mk_endpoint **endpoints = NULL;
	size_t count;

	if (!service || service->external_name)
		return;
	if (mk_model_endpoints(to->model, of->namespace_, of->name, to->pods->ip.family, &endpoints,
			       &count) < 0) {
		to->failed = true;
		return;
	}
	for (size_t i = 0; i < count; i++)
		if (endpoints[i]->port && mk_cidr_contains(to->pods, &endpoints[i]->ip))
			add_endpoint(to,
				     &(struct mk_export){ .addr = mk_ip_to_addr(&endpoints[i]->ip),
							  .port = htons(endpoints[i]->port),
							  .proto = endpoints[i]->proto },
				     NULL);
}

/* Any node may get a packet to an external address. An address outside of externalCidr would be
 * another's. */
static void add_externals(struct collecting *to, const struct mk_published_service *service)
{
	for (size_t i = 0; i < service->external_count; i++) {
		const struct mk_external *of = &service->externals[i];

		if (mk_cidr_contains(to->externals, &of->ip))
			add_endpoint(to,
				     &(struct mk_export){ .addr = mk_ip_to_addr(&of->ip),
							  .port = htons(of->port),
							  .proto = of->proto },
				     &of->target);
	}
}

static void collect(struct collecting *to, const char *own)
{
	mk_model_each(struct mk_service_export, of, to->model, MK_KIND_SERVICE_EXPORT)
		add_export(to, of);
	mk_model_each(struct mk_published_service, of, to->model, MK_KIND_PUBLISHED_SERVICE)
		if (strcmp(of->cluster, own) == 0)
			add_externals(to, of);
}

int exports_compute(struct clusters_exports *exports, const struct mk_own_node *node,
		    struct mk_error *err)
{
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		const struct mk_config *config = &node->core->config;
		struct collecting to = { .model = node->core->model,
					 .pods = &node->families[i].addresses.pod_cidr,
					 .externals = &config->externals.of[i] };

		if (node->core->families[i].runs)
			collect(&to, config->cluster_name);
		if (to.failed) {
			free(to.rows.of);
			return mk_error_errno(err, ENOMEM, "cannot list the exported endpoints");
		}
		free(exports->rows[i].of);
		exports->rows[i] = to.rows;
	}
	return 0;
}

void exports_release(struct clusters_exports *exports)
{
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		free(exports->rows[i].of);
		free(exports->said[i]);
	}
	*exports = (struct clusters_exports){ 0 };
}

/* Logged once, and again after it has changed. */
static void say_left_out(char **said, size_t left_out)
{
	char text[128] = "";

	if (left_out)
		snprintf(text, sizeof(text),
			 "exported endpoints that other clusters cannot reach, as map exports has "
			 "%d entries: count=%zu",
			 MK_EXPORTS, left_out);
	if ((left_out || *said) && mk_is_news(said, text) && left_out)
		mk_log_warn("%s", text);
}

int exports_write(struct clusters_exports *exports, struct mk_family *family, struct mk_error *err)
{
	size_t index = mk_family_index(family->family);
	const struct clusters_export_rows *rows = &exports->rows[index];
	struct mk_clusters_counts counts = { 0 };
	int ret = mk_clusters_sync_exports(mk_datapath_clusters(family->datapath), rows->of,
					   rows->count, &counts, err);

	family->core->writes += counts.put + counts.deleted;
	if (ret == 0)
		say_left_out(&exports->said[index], counts.left_out);
	return ret;
}

// SPDX-License-Identifier: Apache-2.0
/* Join and compare the exports of one Service. If they differ, the oldest export wins, and of
 * equally old ones that of the first cluster by name (KEP-1645, conflict resolution). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "clusterset/store.h"

#define PORT_CHARS 400

/* All parts say the same of the Service; the first one counts. */
static const struct content *content_of(const struct source *source)
{
	return source->used[0];
}

/* Add a reason, with what it means for this Service. */
static int add_conflict(struct mk_merged *merged, const char *reason, const char *text)
{
	int ret = add_text(&merged->conflict_reasons, ",", "%s", reason);

	return ret ?: add_text(&merged->conflict_message, "; ", "%s", text);
}

/* ---- ports ----------------------------------------------------------------------------------- */

struct ports {
	struct merged_port *list;
	size_t count;
	char *conflict; /* the first one; NULL: none */
};

static const char *format_port(const struct port *port, char text[PORT_CHARS])
{
	snprintf(text, PORT_CHARS, "%s%s%s %u%s%s", port->name, *port->name ? ": " : "",
		 port->protocol, port->number, port->app_protocol ? " " : "",
		 port->app_protocol ?: "");
	return text;
}

static bool is_same_port(const struct port *a, const struct port *b)
{
	return a->number == b->number && strcmp(a->protocol, b->protocol) == 0 &&
	       strcmp(a->name, b->name) == 0 &&
	       strcmp(a->app_protocol ?: "", b->app_protocol ?: "") == 0;
}

/* Returns the port that has the name of @port, otherwise its protocol and number; NULL: none. */
static const struct merged_port *holder_of(const struct ports *ports, const struct port *port)
{
	for (size_t i = 0; i < ports->count; i++)
		if (strcmp(ports->list[i].port->name, port->name) == 0)
			return &ports->list[i];
	for (size_t i = 0; i < ports->count; i++)
		if (ports->list[i].port->number == port->number &&
		    strcmp(ports->list[i].port->protocol, port->protocol) == 0)
			return &ports->list[i];
	return NULL;
}

static int add_port(struct ports *ports, const struct port *port, const char *cluster)
{
	const struct merged_port *holder = holder_of(ports, port);
	char one[PORT_CHARS], other[PORT_CHARS];

	if (!holder && ports->count < CONTENT_PORTS) {
		ports->list[ports->count++] = (struct merged_port){ port, cluster };
		return 0;
	}
	if (!holder)
		return note_first(&ports->conflict,
				  "port '%s' of cluster '%s' is left out: a Service has at most %d",
				  format_port(port, one), cluster, CONTENT_PORTS);
	if (is_same_port(holder->port, port))
		return 0;
	return note_first(&ports->conflict,
			  "port '%s' of cluster '%s' counts, port '%s' of cluster '%s' does not",
			  format_port(holder->port, one), holder->cluster, format_port(port, other),
			  cluster);
}

/* A port that not all clusters export leads to the endpoints of some clusters only. */
static int find_missing(struct ports *ports, const struct source *source)
{
	const struct content *content = content_of(source);
	char text[PORT_CHARS];

	for (size_t i = 0; i < ports->count && !ports->conflict; i++) {
		size_t j = 0;

		while (j < content->port_count &&
		       strcmp(content->ports[j].name, ports->list[i].port->name) != 0)
			j++;
		if (j == content->port_count &&
		    note_first(&ports->conflict,
			       "port '%s' of cluster '%s' is not exported by cluster '%s'",
			       format_port(ports->list[i].port, text), ports->list[i].cluster,
			       source->cluster->name) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int join_ports(const struct source *const *sources, size_t count, struct ports *ports)
{
	int ret = 0;

	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < content_of(sources[i])->port_count && ret == 0; j++)
			ret = add_port(ports, &content_of(sources[i])->ports[j],
				       sources[i]->cluster->name);
	for (size_t i = 0; i < count && ret == 0; i++)
		ret = find_missing(ports, sources[i]);
	return ret;
}

/* ---- the other members ----------------------------------------------------------------------- */

static bool differs_in_type(const struct content *a, const struct content *b)
{
	return a->is_headless != b->is_headless;
}

static bool differs_in_affinity(const struct content *a, const struct content *b)
{
	return a->has_affinity != b->has_affinity;
}

/* The configuration of an affinity that only one of them has is no conflict of its own. */
static bool differs_in_affinity_config(const struct content *a, const struct content *b)
{
	return a->has_affinity == b->has_affinity && a->affinity_s != b->affinity_s;
}

static bool differs_in_annotations(const struct content *a, const struct content *b)
{
	return !pairs_equal(a->annotations, a->annotation_count, b->annotations,
			    b->annotation_count);
}

static bool differs_in_labels(const struct content *a, const struct content *b)
{
	return !pairs_equal(a->labels, a->label_count, b->labels, b->label_count);
}

static bool differs_in_policy(const struct content *a, const struct content *b)
{
	return a->is_local != b->is_local;
}

static bool differs_in_distribution(const struct content *a, const struct content *b)
{
	return strcmp(a->distribution ?: "", b->distribution ?: "") != 0;
}

static bool differs_in_families(const struct content *a, const struct content *b)
{
	return memcmp(a->families, b->families, sizeof(a->families)) != 0;
}

/* Reasons of mcs-api v0.5, in its order. */
static const struct {
	const char *reason, *member;
	bool (*differs)(const struct content *a, const struct content *b);
} members[] = {
	{ "TypeConflict", "type", differs_in_type },
	{ "SessionAffinityConflict", "sessionAffinity", differs_in_affinity },
	{ "SessionAffinityConfigConflict", "sessionAffinityConfig", differs_in_affinity_config },
	{ "AnnotationsConflict", "exportedAnnotations", differs_in_annotations },
	{ "LabelsConflict", "exportedLabels", differs_in_labels },
	{ "InternalTrafficPolicyConflict", "internalTrafficPolicy", differs_in_policy },
	{ "TrafficDistributionConflict", "trafficDistribution", differs_in_distribution },
	{ "IPFamilyConflict", "ipFamilies", differs_in_families },
};

static int compare_member(const struct source *const *sources, size_t count, size_t member,
			  struct mk_merged *merged)
{
	char text[PORT_CHARS];

	for (size_t i = 1; i < count; i++) {
		if (!members[member].differs(content_of(sources[0]), content_of(sources[i])))
			continue;
		snprintf(
			text, sizeof(text),
			"%s of cluster '%s' counts, which exported first, that of cluster '%s' differs",
			members[member].member, sources[0]->cluster->name,
			sources[i]->cluster->name);
		return add_conflict(merged, members[member].reason, text);
	}
	return 0;
}

int sources_compare(const struct source *const *sources, size_t count, struct merged_port **list,
		    size_t *port_count, struct mk_merged *merged)
{
	struct ports ports = { .list = calloc(CONTENT_PORTS, sizeof(*ports.list)) };
	int ret = ports.list ? join_ports(sources, count, &ports) : -ENOMEM;

	if (ret == 0 && ports.conflict)
		ret = add_conflict(merged, "PortConflict", ports.conflict);
	for (size_t i = 0; i < MK_ARRAY_SIZE(members) && ret == 0; i++)
		ret = compare_member(sources, count, i, merged);
	free(ports.conflict);
	*list = ports.list;
	*port_count = ports.count;
	return ret;
}

// SPDX-License-Identifier: Apache-2.0
/* What people learn of other clusters: the file that the command line reads, and the log. */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/clusters/objects.h"
#include "agent/clusters/probe.h"
#include "agent/clusters/wireguard.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "base/state_file.h"

/* ---- both families --------------------------------------------------------------------------- */

/* NULL: this node lacks the family. */
static const struct mk_clusters_state *state_of(const struct clusters_result *result, size_t family,
						size_t peer)
{
	return result->rows[family] ? &result->rows[family]->states[peer] : NULL;
}

bool clusters_is_usable(const struct clusters_result *result, size_t peer)
{
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (state_of(result, i, peer) && state_of(result, i, peer)->is_usable)
			return true;
	return false;
}

uint32_t clusters_number(const struct clusters_result *result, size_t peer)
{
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (state_of(result, i, peer) && state_of(result, i, peer)->number)
			return state_of(result, i, peer)->number;
	return 0;
}

uint16_t clusters_mtu(const struct clusters_result *result, size_t peer)
{
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (state_of(result, i, peer) && state_of(result, i, peer)->path_mtu_bytes)
			return state_of(result, i, peer)->path_mtu_bytes;
	return 0;
}

size_t clusters_nodes_used(const struct clusters_result *result, size_t peer)
{
	size_t most = 0;

	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (state_of(result, i, peer) && state_of(result, i, peer)->nodes_used > most)
			most = state_of(result, i, peer)->nodes_used;
	return most;
}

/* Nodes that are reached directly, although there is a hub. */
static size_t nodes_direct(const struct clusters_result *result, size_t peer)
{
	size_t most = 0;

	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (state_of(result, i, peer) && state_of(result, i, peer)->nodes_direct > most)
			most = state_of(result, i, peer)->nodes_direct;
	return most;
}

static bool has_range(const struct clusters_result *result, size_t family, size_t peer)
{
	return result->rows[family] &&
	       result->objects->peers[family][peer].home.ip.family != AF_UNSPEC;
}

/* Get the reason of one family; NULL: none, or the other family has the same, or it is that the
 * peer has no range of this family, but of the other one. */
static const char *clusters_reason(const struct clusters_result *result, size_t family, size_t peer)
{
	const struct mk_clusters_state *state = state_of(result, family, peer);
	const struct mk_clusters_state *other = state_of(result, !family, peer);

	if (!state || !state->reason)
		return NULL;
	if (!has_range(result, family, peer) && has_range(result, !family, peer))
		return NULL;
	if (family > 0 && other && other->reason && strcmp(other->reason, state->reason) == 0)
		return NULL;
	return state->reason;
}

/* The border node that carries this node's packets, in both families; NULL: none. */
static const char *border_of(const struct clusters_result *result)
{
	const struct mk_clusters_rows *first = result->rows[0] ?: result->rows[1];

	return first ? first->border : NULL;
}

#define PROBES_REASON 768

/* Why a peer is down that is reached encrypted. */
static void put_encrypted_reason(const struct clusters_result *result, size_t peer,
				 char buf[PROBES_REASON])
{
	const char *name = result->objects->of[peer]->name;

	if (wireguard_answers(result->overlay, clusters_number(result, peer)))
		snprintf(
			buf, PROBES_REASON,
			"down: no node of '%s' answers probes, although the last WireGuard handshake is not %d seconds old: set encryption: WireGuard in the ClusterPeers of both clusters, and let that cluster know this one's nodes",
			name, MK_WG_HANDSHAKE_MAX_S);
	else
		snprintf(
			buf, PROBES_REASON,
			"down: no WireGuard handshake with any node of '%s' for %d seconds: let UDP of wireguardPort pass between the nodes, and publish the nodes of both clusters again",
			name, MK_WG_HANDSHAKE_MAX_S);
}

/* Why a peer is down, which of its nodes do not answer, or which packets are lost, in @buf; NULL:
 * nothing is wrong. */
static const char *probes_reason(const struct clusters_result *result, size_t peer,
				 char buf[PROBES_REASON])
{
	const struct mk_cluster_peer *object = result->objects->of[peer];
	const struct mk_probes_state state = probes_state(result->probes, object->name);

	if (!state.is_down && !*state.silent && !state.mtu_bytes)
		return NULL;
	if (state.is_down && object->encrypts && !object->via && !border_of(result)) {
		put_encrypted_reason(result, peer, buf);
		return buf;
	}
	if (!state.is_down && !*state.silent)
		snprintf(
			buf, PROBES_REASON,
			"packets of more than %u bytes are lost on the way, so larger ones are refused: raise the MTU of the network between the clusters, or set spec.mtu to %u",
			state.mtu_bytes, state.mtu_bytes);
	else if (!state.is_down)
		snprintf(
			buf, PROBES_REASON,
			"nodes that do not answer probes: %s: let UDP of the overlay (vxlanPort) pass, or remove their PublishedNodes",
			state.silent);
	else
		snprintf(
			buf, PROBES_REASON,
			"down: no node of '%s' answers probes: let UDP of the overlay (vxlanPort) pass between the nodes, and let that cluster know this one's nodes",
			object->via ?: object->name);
	return buf;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Nothing, while nothing is known. */
static void add_probes(json_object *json, const struct mk_probes_state *state)
{
	if (!state->is_down && !state->probed)
		return;
	mk_put_flag(json, "down", state->is_down);
	mk_put_number(json, "probed", state->probed);
	mk_put_number(json, "answering", state->answering);
	mk_put_number(json, "rttMicros", state->shown_rtt_us);
}

/* Views that the leader has given, so that none moves if the status is lost while no agent runs. */
static void add_views(json_object *json, const char *key, const struct mk_cidr views[MK_FAMILIES],
		      const bool assigned[MK_FAMILIES])
{
	json_object *list = NULL;
	char text[MK_CIDR_STRLEN];

	for (size_t i = 0; i < MK_FAMILIES; i++) {
		if (!assigned[i])
			continue;
		list = list ?: json_object_new_array();
		json_object_array_add(list,
				      json_object_new_string(mk_cidr_format(&views[i], text)));
	}
	if (list)
		json_object_object_add(json, key, list);
}

static json_object *peer_json(const struct clusters_result *result, size_t peer)
{
	json_object *json = json_object_new_object(), *reasons = json_object_new_array();
	const struct mk_cluster_peer *object = result->objects->of[peer];
	const struct mk_probes_state probes = probes_state(result->probes, object->name);
	size_t direct = nodes_direct(result, peer);
	char buf[PROBES_REASON];
	const char *down = probes_reason(result, peer, buf);

	mk_put_text(json, "name", object->name);
	mk_put_number(json, "number", clusters_number(result, peer));
	mk_put_number(json, "nodes", clusters_nodes_used(result, peer));
	mk_put_flag(json, "usable", clusters_is_usable(result, peer));
	add_views(json, "views", object->views, object->assigned);
	if (object->externals)
		add_views(json, "externalViews", object->externals->views,
			  object->externals->assigned);
	add_probes(json, &probes);
	mk_put_text(json, "encryption", object->encrypts ? "WireGuard" : "None");
	if (object->via)
		mk_put_text(json, "via", object->via);
	if (object->via && direct)
		mk_put_number(json, "direct", direct);
	if (down)
		json_object_array_add(reasons, json_object_new_string(down));
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		const char *reason = clusters_reason(result, i, peer);

		if (reason)
			json_object_array_add(reasons, json_object_new_string(reason));
	}
	json_object_object_add(json, "reasons", reasons);
	return json;
}

/* The border nodes of this cluster, and the one that carries this node's packets. */
static void add_borders(json_object *json, const struct clusters_result *result)
{
	json_object *borders = json_object_new_array();

	for (size_t i = 0; i < result->objects->border_count; i++)
		json_object_array_add(borders, json_object_new_string(result->objects->borders[i]));
	if (result->objects->border_count)
		json_object_object_add(json, "borders", json_object_get(borders));
	if (border_of(result))
		mk_put_text(json, "border", border_of(result));
	json_object_put(borders);
}

static json_object *all_json(const struct clusters_result *result, const struct mk_config *config)
{
	json_object *json = json_object_new_object(), *peers = json_object_new_array();

	mk_put_number(json, "version", MK_CLUSTER_NAMES_VERSION);
	mk_put_text(json, "name", config->cluster_name);
	mk_put_number(json, "number", mk_own_cluster_number(config));
	add_borders(json, result);
	for (size_t i = 0; i < result->objects->count; i++)
		json_object_array_add(peers, peer_json(result, i));
	json_object_object_add(json, "peers", peers);
	return json;
}

int clusters_write(const struct clusters_result *result, const struct mk_config *config,
		   struct mk_error *err)
{
	json_object *json = all_json(result, config);
	int ret = mk_state_tree_write(config->state_dir, MK_CLUSTER_NAMES_FILE, json, err);

	json_object_put(json);
	return ret;
}

int clusters_unwrite(const char *state_dir, struct mk_error *err)
{
	char path[PATH_MAX];
	int ret = mk_state_path(state_dir, MK_CLUSTER_NAMES_FILE, path, err);

	if (ret == 0 && unlink(path) < 0 && errno != ENOENT)
		ret = mk_error_errno(err, errno, "cannot remove '%s'", path);
	return ret;
}

/* ---- the log --------------------------------------------------------------------------------- */

/* Name the border nodes that do not answer this node. */
static const char *put_borders(FILE *out, const struct clusters_result *result,
			       const char *separator)
{
	const struct mk_probes_state state = probes_state(result->probes, PROBES_BORDERS);

	if (!*state.silent)
		return separator;
	fprintf(out,
		"%sborder nodes that do not answer this node: %s: start them, or remove their label networking.monokube.io/border",
		separator, state.silent);
	return "; ";
}

/* "peer 'a': reason; peer 'b': reason", empty: none; NULL: out of memory. */
static char *reasons_text(const struct clusters_result *result)
{
	const char *separator = "";
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return NULL;
	for (size_t i = 0; i < (MK_FAMILIES + 1) * result->objects->count; i++) {
		size_t peer = i / (MK_FAMILIES + 1), family = i % (MK_FAMILIES + 1);
		char buf[PROBES_REASON];
		const char *reason = family < MK_FAMILIES ? clusters_reason(result, family, peer)
							  : probes_reason(result, peer, buf);

		if (!reason)
			continue;
		fprintf(stream, "%speer '%s': %s", separator, result->objects->of[peer]->name,
			reason);
		separator = "; ";
	}
	(void)put_borders(stream, result, separator);
	if (fclose(stream) != 0)
		free(mk_steal_ptr(text));
	return text;
}

char *clusters_overlaps(const struct clusters_result *result)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return NULL;
	for (size_t i = 0; i < MK_FAMILIES * result->objects->count; i++) {
		size_t peer = i / MK_FAMILIES;
		const struct mk_clusters_state *state = state_of(result, i % MK_FAMILIES, peer);

		if (state && state->overlaps)
			fprintf(stream, "%speer '%s': %s", ftell(stream) ? "; " : "",
				result->objects->of[peer]->name, state->reason);
	}
	if (fclose(stream) != 0)
		free(mk_steal_ptr(text));
	return text;
}

void clusters_log(const struct clusters_result *result, struct clusters_said *said)
{
	cleanup_free char *lacks = reasons_text(result);
	size_t usable = 0, nodes = 0, down = 0;
	char text[128];

	for (size_t i = 0; i < result->objects->count; i++) {
		down += probes_state(result->probes, result->objects->of[i]->name).is_down;
		usable += clusters_is_usable(result, i);
		nodes += clusters_nodes_used(result, i);
	}
	snprintf(text, sizeof(text), "other clusters peers=%zu usable=%zu nodes=%zu down=%zu",
		 result->objects->count, usable, nodes, down);
	if (mk_is_news(&said->state, text))
		mk_log_info("%s", text);
	if (lacks && mk_is_news(&said->lacks, lacks) && *lacks)
		mk_log_warn("%s", lacks);
}

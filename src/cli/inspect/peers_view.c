// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/cleanup.h"
#include "base/state_file.h"
#include "cli/inspect/peers.h"
#include "clusters/clusters.h"

static int read_names(struct mk_cli_peers *peers, struct mk_error *err)
{
	const char *state_dir = peers->view->state_dir;
	cleanup_free char *text = NULL;
	json_object *version = NULL;
	int ret = mk_state_file_read(state_dir, MK_CLUSTER_NAMES_FILE, &text, err);

	if (ret <= 0)
		return ret;
	peers->names = json_tokener_parse(text);
	if (!json_object_is_type(peers->names, json_type_object) ||
	    !json_object_object_get_ex(peers->names, "version", &version) ||
	    json_object_get_int(version) != MK_CLUSTER_NAMES_VERSION)
		return mk_error_set(
			err, EPROTO,
			"file '%s' in '%s' is not of version %d: use the binary of the agent that wrote it",
			MK_CLUSTER_NAMES_FILE, state_dir, MK_CLUSTER_NAMES_VERSION);
	return 0;
}

int mk_cli_peers_open(struct mk_cli_peers *peers, const struct mk_view *view, struct mk_error *err)
{
	int ret;

	*peers = (struct mk_cli_peers){
		.view = view, .clusters.fd = -1, .nodes.fd = -1, .counters.fd = -1
	};
	ret = mk_table_open(&peers->clusters, view->dir, "clusters", sizeof(__u32),
			    sizeof(struct mk_cluster), err);
	ret = ret
		      ?: mk_table_open(&peers->nodes, view->dir, "cluster_nodes",
				       sizeof(struct mk_cluster_node_key), sizeof(__u32), err);
	ret = ret
		      ?: mk_table_open(&peers->counters, view->dir, "cluster_counters",
				       sizeof(__u32), sizeof(struct mk_cluster_counters), err);
	return ret ?: read_names(peers, err);
}

void mk_cli_peers_close(struct mk_cli_peers *peers)
{
	json_object_put(peers->names);
	mk_table_close(&peers->clusters);
	mk_table_close(&peers->nodes);
	mk_table_close(&peers->counters);
}

json_object *mk_peer_at(const struct mk_cli_peers *peers, size_t index)
{
	json_object *list = NULL;

	if (!peers->names || !json_object_object_get_ex(peers->names, "peers", &list) ||
	    !json_object_is_type(list, json_type_array) || index >= json_object_array_length(list))
		return NULL;
	return json_object_array_get_idx(list, index);
}

const char *mk_peer_name(const struct mk_cli_peers *peers, unsigned int number,
			 char buf[MK_PEER_NAME_BYTES])
{
	json_object *entry;

	snprintf(buf, MK_PEER_NAME_BYTES, "cluster %u", number);
	for (size_t i = 0; (entry = mk_peer_at(peers, i)); i++)
		if (json_object_get_int64(json_object_object_get(entry, "number")) ==
		    (int64_t)number)
			snprintf(buf, MK_PEER_NAME_BYTES, "%s",
				 json_object_get_string(json_object_object_get(entry, "name")));
	return buf;
}

bool mk_peer_row(const struct mk_cli_peers *peers, unsigned int number, struct mk_cluster *row)
{
	const __u32 key = number;

	return mk_table_get(&peers->clusters, &key, row, NULL) == 0;
}

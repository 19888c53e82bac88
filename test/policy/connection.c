// SPDX-License-Identifier: Apache-2.0
#include "policy/connection.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define CONNECTIONS_MAX 128
#define CLIENT_PORT	40000

static struct connection {
	char *name; /* the flow as text */
	struct mk_ip client, asked;
	uint16_t asked_port, client_port;
	char *uids[2]; /* of the ends when it was first seen */
	bool opened; /* on a node */
	bool delivered; /* and `packet` is what the server got last */
	struct packet packet;
	/* Nothing is compared any more. A denied packet ends the session, but not that of the
	 * reference. A datagram of the server opens one, but not in the reference. */
	bool over;
} connections[CONNECTIONS_MAX];
static size_t connection_count;

void connections_forget(void)
{
	while (connection_count > 0) {
		struct connection *last = &connections[--connection_count];

		free(last->name);
		free(last->uids[0]);
		free(last->uids[1]);
	}
}

static const char *uid_of(const struct box *box)
{
	return box ? box->uid : "";
}

static bool same_ends(const struct connection *connection, const struct flow *flow)
{
	return strcmp(connection->uids[0], uid_of(flow->client_box)) == 0 &&
	       strcmp(connection->uids[1], uid_of(flow->server_box)) == 0;
}

static uint16_t port_of(const struct flow *flow)
{
	json_object *port = at_path(flow->of, "clientPort");

	return port ? (uint16_t)json_object_get_int(port) : CLIENT_PORT;
}

/* Do two flows begin alike, with other endpoints of a Service? Only the first one is sent. */
static bool begins_as(const struct connection *connection, const struct connection *other)
{
	return mk_ip_equal(&connection->client, &other->client) &&
	       mk_ip_equal(&connection->asked, &other->asked) &&
	       connection->asked_port == other->asked_port &&
	       connection->client_port == other->client_port;
}

static struct connection *find(const struct flow *flow)
{
	const char *name = json_object_to_json_string_ext(flow->of, JSON_C_TO_STRING_PLAIN);
	struct connection *found;

	for (size_t i = 0; i < connection_count; i++)
		if (strcmp(connections[i].name, name) == 0)
			return &connections[i];
	if (connection_count == CONNECTIONS_MAX)
		abort();
	found = &connections[connection_count];
	*found = (struct connection){ .name = strdup(name),
				      .client = flow->client,
				      .asked = flow->asked,
				      .asked_port = flow->asked_port,
				      .client_port = port_of(flow) };
	for (size_t i = 0; i < connection_count; i++)
		found->over |= begins_as(&connections[i], found);
	connection_count++;
	found->uids[0] = strdup(uid_of(flow->client_box));
	found->uids[1] = strdup(uid_of(flow->server_box));
	return found;
}

/* ---- packets --------------------------------------------------------------------------------- */

/* What a direct flow's server gets, though it did not get it. */
static struct packet as_delivered(const struct flow *flow)
{
	const struct packet_flow what = { flow->seen, flow->server, port_of(flow), flow->port,
					  flow->proto };

	return packet_make(&what, PACKET_OPENS);
}

static struct arrival from_server(const struct flow *flow, const struct packet *packet)
{
	struct packet sent = *packet;

	nodes_address(&sent, flow->server_box->node);
	return nodes_send(flow->server_box->node, MK_HOOK_POD, &sent);
}

/* The client's own node reports an error about what the client has sent. */
static struct arrival own_error(const struct flow *flow)
{
	const int node = flow->client_box->node;
	const struct packet_flow what = { flow->client, flow->asked, port_of(flow),
					  flow->asked_port, flow->proto };
	const struct packet about = packet_make(&what, PACKET_OPENS);
	const struct mk_ip router = node_own_address(node, flow->client.family);
	struct packet error = packet_error(&about, &router);

	nodes_address(&error, node);
	return nodes_send(node, MK_HOOK_HOST, &error);
}

static struct arrival send_kind(const struct flow *flow, const struct connection *connection,
				const char *kind, int fragment)
{
	struct packet packet = connection->delivered ? connection->packet : as_delivered(flow);

	if (strcmp(kind, "answer") == 0) {
		packet = packet_answer(&packet);
		return from_server(flow, &packet);
	}
	if (strcmp(kind, "error") == 0) {
		packet = packet_error(&packet, &flow->server);
		return from_server(flow, &packet);
	}
	if (strcmp(kind, "own-error") == 0)
		return own_error(flow);
	if (fragment)
		return nodes_send_fragment(flow, port_of(flow), strcmp(kind, "open") == 0,
					   (uint16_t)fragment);
	return nodes_send_flow(flow, strcmp(kind, "open") == 0 ? PACKET_OPENS : PACKET_MORE,
			       port_of(flow));
}

/* ---- comparing ------------------------------------------------------------------------------- */

static bool is_client_packet(const char *kind)
{
	return strcmp(kind, "open") == 0 || strcmp(kind, "more") == 0;
}

/* Is the client an impostor, whose answers go to the pod or node that has the address? */
static bool is_impostor(const struct flow *flow)
{
	return flow->how == FROM_OUTSIDE && (box_at(flow->cluster, &flow->client) ||
					     is_overlay_address(flow->cluster, &flow->client));
}

/* Can the programs be asked? Answers and errors come from pods, errors of the own node go to pods.
 * The addresses that a Service's server sees are known once a packet was delivered. */
static bool can_send(const struct flow *flow, const struct connection *connection, const char *kind)
{
	if (connection->over || !same_ends(connection, flow) || is_impostor(flow) ||
	    !nodes_run_programs_for(flow))
		return false;
	if (strcmp(kind, "own-error") == 0)
		return flow->client_box;
	if (strcmp(kind, "answer") == 0 || strcmp(kind, "error") == 0)
		return flow->server_box && (connection->delivered || !flow->by_service);
	return true;
}

static bool passed(const struct arrival *arrival, bool expected)
{
	/* a held fragment: its first one never comes */
	return arrival->place == WAITS ? expected : arrival->reason < 0;
}

/* Record how the packet changed the connection. */
static void note(struct connection *connection, const struct flow *flow, json_object *line,
		 const struct arrival *arrival)
{
	const char *kind = text_at(line, "packet");
	const bool denied = arrival->reason >= 0;

	if (connection->opened)
		connection->over |= denied;
	else
		connection->over |= strcmp(kind, "answer") == 0 && !denied;
	if (!is_client_packet(kind))
		return;
	connection->opened |= !denied || arrival->node != node_index(flow->at);
	if (arrival->place == AT_POD && !at_path(line, "fragment")) {
		connection->delivered = true;
		connection->packet = arrival->packet;
	}
}

/* There are no sockets here (rule 33). */
static bool lacks_socket(json_object *line, const struct arrival *arrival)
{
	return arrival->reason == MK_DROP_POLICY_NO_FLOW &&
	       json_object_get_boolean(at_path(line, "socket"));
}

const char *connections_send(const struct cluster *cluster, json_object *line, bool *sent)
{
	const bool expected = json_object_get_boolean(at_path(line, "passes"));
	struct connection *connection;
	struct arrival arrival;
	struct flow flow;

	*sent = false;
	flow_read(&flow, cluster, at_path(line, "flow"));
	if (flow.is_ping_of_service)
		return NULL;
	connection = find(&flow);
	if (!can_send(&flow, connection, text_at(line, "packet")))
		return NULL;
	*sent = true;
	nodes_put_service(&flow);
	arrival = send_kind(&flow, connection, text_at(line, "packet"),
			    json_object_get_int(at_path(line, "fragment")));
	nodes_remove_service(&flow);
	note(connection, &flow, line, &arrival);
	if (lacks_socket(line, &arrival)) {
		connection->over = true; /* the reference may know the flow now */
		return NULL;
	}
	return passed(&arrival, expected) == expected ? NULL : expected ? "dropped" : "passes";
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test/policy/flow.h - a flow of a world, as its ends see it. */
#ifndef MK_TEST_POLICY_FLOW_H
#define MK_TEST_POLICY_FLOW_H

#include "policy/cluster.h"

enum how { FROM_POD, FROM_NODE, FROM_OUTSIDE };

struct flow {
	const struct cluster *cluster;
	json_object *of, *target;
	int family; /* 4 or 6 */
	uint8_t proto;
	uint16_t port; /* of the server, after destination translation */
	enum how how;
	const char *at; /* the node where the packet begins its way */
	const struct box *client_box, *server_box;
	struct mk_ip client, server;
	struct mk_ip seen; /* the client, as the server's node sees it */
	struct mk_ip asked; /* the destination before translation */
	uint16_t asked_port;
	bool trusted, by_service;
	bool masquerades; /* towards a backend of another node, the client is its node */
	bool is_ping_of_service; /* rule 23; nothing else is filled in */
};

void flow_read(struct flow *flow, const struct cluster *cluster, json_object *of);

#endif

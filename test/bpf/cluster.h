/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/cluster.h - the control plane of the fixture's node, on the fixture's tables: Kubernetes
 * objects as JSON text go through the real model, compile and sync. A row of a test has only the
 * difference from a standard Service, and its endpoints.
 *
 * The standard Service x/s: type LoadBalancer, ClusterIP 10.96.0.10, externalIP 198.51.100.7,
 * load-balancer address 192.0.2.80; port 80, node port 30080, on TCP, UDP and SCTP (port names tcp,
 * udp, sctp), to port 8080 of its endpoints. ServiceCIDR 10.96.0.0/16. Nodes node1 (this one, zone
 * a), node2 (zone b), node3 (zone b). */
#ifndef MK_TEST_CLUSTER_H
#define MK_TEST_CLUSTER_H

#include <stdint.h>

#include "bpf/fixture.h"
#include "datapath/services/services.h"

/* Endpoints by letter. */
struct cluster_endpoint {
	char letter;
	const char *address, *node;
	enum where where; /* where a request to it goes */
	enum mk_hook hook; /* where its answer comes in */
};
/* Find an endpoint; NULL if there is none with that letter or address. */
const struct cluster_endpoint *cluster_endpoint(char letter);
const struct cluster_endpoint *cluster_endpoint_at(const char *address);

/* Set up the nodes and the ServiceCIDR, without a Service. Call it after fixture_reset(). */
void cluster_start(void);
/* The same, but compile Services as the node @node does. */
void cluster_start_as(const char *node);
void cluster_stop(void);

/* Apply an object; single quotes are allowed. */
void cluster_object(const char *json);
/* Apply the standard Service with @changes, a JSON object that is merged into it: lists are
 * replaced, null removes. NULL: no changes. */
void cluster_service(const char *changes);
/* Apply the slices of the Service: "L Rt | R", one endpoint per word, by letter, then:
 *	t serving and terminating, g terminating and gone, n not ready, p not ready but published,
 *	- no conditions, ? no nodeName, @ab hints for zones a and b, #12 hints for node1 and node2.
 * A bar begins another slice. NULL: no slice at all. */
void cluster_endpoints(const char *list);
void cluster_delete_service(void);
void cluster_weight(uint16_t local_weight);
void cluster_masquerade_all(void);
void cluster_no_localhost(void);

/* Compile and sync the changes. Returns the numbers of entries written and removed. */
struct mk_service_counts cluster_sync(void);
/* Make the times in map affinity @seconds earlier. */
void cluster_age_affinity(unsigned seconds);
/* Sweep the sessions as if @seconds had passed. */
void cluster_sweep(unsigned seconds);

#endif

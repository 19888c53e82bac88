/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/cni_policies.h - the node of cni_node.h with network policies: what the agent leaves in
 * the tables for ADD, and which sets a pod has. Tests run for IPv4, for IPv6 and for both. */
#ifndef MK_TEST_CNI_POLICIES_H
#define MK_TEST_CNI_POLICIES_H

#include "monokube/abi.h"
#include "unit/cni_node.h"

#define SET_IN	(MK_SET_ISOLATES | 0x1111)
#define SET_OUT (MK_SET_ISOLATES | MK_SET_HAS_BLOCKS | 0x2222)
#define OPEN	MK_SET_OPEN, MK_SET_OPEN
#define PENDING MK_SET_PENDING, MK_SET_PENDING
#define KNOWN	SET_IN, SET_OUT

/* CNI_ARGS of a Pod, and of a runtime that gives no UID. */
#define WEB    "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=7a1c"
#define NO_UID "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web"

/* The families of a case's node. */
struct kind {
	unsigned int families;
	const char *name, *fields; /* of the configuration */
	const char *ips[MK_FAMILIES],
		*next; /* of the first pod; the first address of the next one */
};
#define KINDS 3
extern const struct kind kinds[KINDS], *kind; /* IPv4, IPv6, both; that of the case */
#define IPS (kind->ips[1] ? 2 : 1)

TCase *policy_case(Suite *suite, size_t of);

sa_family_t family_at(int i); /* of kind->ips */

/* What the agent writes. */
void set_state(sa_family_t family, uint32_t on, enum mk_policy_listed listed);
void expect(sa_family_t family, const char *text, uint64_t in, uint64_t out);
void set_namespace(sa_family_t family, const char *name, uint32_t directions);

uint32_t on_of(sa_family_t family);
/* The slot of @address in map pod_policies. */
struct mk_pod_policy entry_of(const char *address);
void put_entry(const char *address, const struct mk_pod_policy *entry);
void clear_entry(const char *address);
bool has_entry(const char *address);
/* Check the sets of a pod in map pods; of both addresses of the first pod. */
void ck_sets_of(const char *row, const char *address, uint64_t in, uint64_t out);
void ck_sets(const char *row, uint64_t in, uint64_t out);
uint32_t ifindex_of(const char *address); /* of map pods */

void add_pod(const char *name, const char *args);
void del_pod(const char *name);
pid_t start_add(void); /* of pod a, whose namespace exists */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/pods/pods.h - the part of the datapath that the CNI mode uses. It opens everything
 * by its pin, so it works while the agent is stopped. */
#ifndef MK_DATAPATH_PODS_PODS_H
#define MK_DATAPATH_PODS_PODS_H

#include <stdbool.h>

#include "monokube/abi.h"
#include "base/error.h"
#include "base/ip.h"
#include "base/netlink/netlink.h"

struct mk_pods;

/* Return the entry of the pod whose veth has the host side @host. */
struct mk_pod mk_pod_of(const struct mk_link *host, const struct mk_mac *mac);

/* Open what is pinned below @bpf_dir: the tables of all families, and the program of the pods'
 * devices, which is IPv4's if there are two families. A shared lock keeps an agent from replacing
 * programs until mk_pods_free(). -ENOENT: the agent has not run here since boot; @err says so. */
mk_must_check struct mk_pods *mk_pods_open(const char *bpf_dir, const char *state_dir,
					   struct mk_error *err);
void mk_pods_free(struct mk_pods *pods);

static inline void mk_cleanup_pods(struct mk_pods **pods)
{
	mk_pods_free(*pods);
}
#define cleanup_pods __attribute__((cleanup(mk_cleanup_pods)))

/* Is the table of @family pinned? The functions below use the table of the address's family. */
bool mk_pods_has(const struct mk_pods *pods, sa_family_t family);

mk_must_check int mk_pods_put(struct mk_pods *pods, const struct mk_ip *ip,
			      const struct mk_pod *pod, struct mk_error *err);
mk_must_check int mk_pods_get(struct mk_pods *pods, const struct mk_ip *ip, struct mk_pod *pod,
			      struct mk_error *err); /* -ENOENT */
/* As mk_pods_get(), but return the slot's pod even if it has another address (of an earlier pod
 * CIDR). Then @ip must not be assigned. */
mk_must_check int mk_pods_holder(struct mk_pods *pods, const struct mk_ip *ip, struct mk_pod *pod,
				 struct mk_error *err);
/* Delete the entry and the sets. 0 also if there are none. */
mk_must_check int mk_pods_delete(struct mk_pods *pods, const struct mk_ip *ip,
				 struct mk_error *err);
/* Write the sets of policies of a new pod: before its entry and before its device is up. */
mk_must_check int mk_pods_put_policies(struct mk_pods *pods, const struct mk_ip *ip, int ifindex,
				       const uint64_t sets[MK_POLICY_DIRECTIONS],
				       struct mk_error *err);
/* -ENOENT: the pod has none. All open: it has open ones, or a version without policies made the
 * tables. */
mk_must_check int mk_pods_get_policies(struct mk_pods *pods, const struct mk_ip *ip, int ifindex,
				       uint64_t sets[MK_POLICY_DIRECTIONS], struct mk_error *err);
/* Visit every entry; the visitor may delete what it visits. */
mk_must_check int mk_pods_each(struct mk_pods *pods,
			       int (*visit)(void *ctx, const struct mk_ip *ip,
					    const struct mk_pod *pod),
			       void *ctx, struct mk_error *err);

/* Attach the pod hook's program to the ingress of @ifindex (clsact, replaced atomically). */
mk_must_check int mk_pods_attach(struct mk_pods *pods, struct mk_nl *nl, int ifindex,
				 struct mk_error *err);
/* Is the pod hook's current program attached there? 1, 0 or an error. */
mk_must_check int mk_pods_attached(struct mk_pods *pods, struct mk_nl *nl, int ifindex,
				   struct mk_error *err);
/* The same for the host's end of a function pod's port, and its program. */
mk_must_check int mk_pods_attach_port(struct mk_pods *pods, struct mk_nl *nl, int ifindex,
				      struct mk_error *err);
mk_must_check int mk_pods_attached_port(struct mk_pods *pods, struct mk_nl *nl, int ifindex,
					struct mk_error *err);

#endif

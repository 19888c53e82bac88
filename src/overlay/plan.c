// SPDX-License-Identifier: Apache-2.0
#include "overlay/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "config/addresses.h"

struct making {
	const struct mk_overlay_view *view;
	struct mk_addresses own;
	struct mk_overlay_plan *plan;
	struct mk_error *err;
};

static const struct mk_cidr *of_family(const struct mk_cidr *cidrs, sa_family_t family)
{
	return &cidrs[mk_family_index(family)];
}

static int compute(const struct mk_overlay_view *view, const struct mk_cidr *pod_cidrs,
		   sa_family_t family, struct mk_addresses *addresses, struct mk_error *err)
{
	return mk_addresses_compute(of_family(view->cluster_cidrs, family),
				    of_family(view->vtep_cidrs, family),
				    of_family(pod_cidrs, family), addresses, err);
}

/* Compute a Node's addresses of view->family. MAC addresses are the same in both families. */
static int addresses_of(const struct mk_overlay_view *view, const struct mk_cidr *pod_cidrs,
			struct mk_addresses *addresses, struct mk_error *err)
{
	struct mk_addresses primary;
	int ret = compute(view, pod_cidrs, view->family, addresses, err);

	if (ret < 0 || view->family == view->primary ||
	    of_family(pod_cidrs, view->primary)->ip.family == AF_UNSPEC)
		return ret;
	ret = compute(view, pod_cidrs, view->primary, &primary, err);
	if (ret < 0)
		return ret;
	addresses->gateway_mac = primary.gateway_mac;
	addresses->vtep_mac = primary.vtep_mac;
	return 0;
}

__attribute__((format(printf, 4, 5))) static int leave_out(struct making *making, const char *node,
							   bool wrong, const char *fmt, ...)
{
	struct mk_overlay_left_out left = { .node = strdup(node), .wrong = wrong }, *added = NULL;
	va_list args;

	va_start(args, fmt);
	if (vasprintf(&left.reason, fmt, args) < 0)
		left.reason = NULL;
	va_end(args);
	if (left.node && left.reason)
		added = mk_append(making->plan->left_out, making->plan->left_out_count);
	if (!added) {
		free(left.node);
		free(left.reason);
		return mk_error_errno(making->err, ENOMEM, "cannot list the nodes");
	}
	*added = left;
	return 0;
}

static int add_peer(struct making *making, const struct mk_node_object *node)
{
	const struct mk_overlay_view *view = making->view;
	sa_family_t underlay = view->underlay_family;
	const struct mk_cidr *pods = of_family(node->pod_cidrs, view->family);
	struct mk_overlay_peer peer = { .underlay = node->internal_ips[mk_family_index(underlay)] };
	struct mk_overlay_peer *added;
	struct mk_error why = { 0 };
	struct mk_addresses addresses;

	if (pods->ip.family == AF_UNSPEC)
		return leave_out(making, node->name, false, "it has no %s pod CIDR yet",
				 mk_family_name(view->family));
	if (peer.underlay.family == AF_UNSPEC)
		return leave_out(making, node->name, false, "it has no %s InternalIP",
				 mk_family_name(underlay));
	if (addresses_of(view, node->pod_cidrs, &addresses, &why) < 0)
		return leave_out(making, node->name, true, "%s", mk_error_text(&why));
	peer.pod_cidr = mk_cidr_network(pods);
	peer.vtep = addresses.vtep;
	peer.vtep_mac = addresses.vtep_mac;
	peer.wireguard = node->wireguard;
	peer.ready = node->ready;
	peer.created_unix_s = node->created_unix_s;
	peer.node = strdup(node->name);
	added = peer.node ? mk_append(making->plan->peers, making->plan->peer_count) : NULL;
	if (!added) {
		free(peer.node);
		return mk_error_errno(making->err, ENOMEM, "cannot list the nodes");
	}
	*added = peer;
	return 0;
}

static int compare_peers(const void *a, const void *b)
{
	const struct mk_overlay_peer *x = a, *y = b;
	int order = mk_ip_compare(&x->pod_cidr.ip, &y->pod_cidr.ip);

	if (order == 0)
		order = (int)x->pod_cidr.prefix_bits - (int)y->pod_cidr.prefix_bits;
	return order ? order : strcmp(x->node, y->node);
}

static bool overlap(const struct mk_cidr *a, const struct mk_cidr *b)
{
	return mk_cidr_covers(a, b) || mk_cidr_covers(b, a);
}

static bool same_mac(const struct mk_mac *a, const struct mk_mac *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* Returns the node that already has the range or MAC address; NULL: none. Ranges are sorted, so one
 * that overlaps any kept range overlaps the last kept one. A VTEP has the MAC address of no other.
 * In the primary family, both can only repeat if nodes have prefixes of different lengths. */
static const char *range_holder(const struct making *making, size_t kept,
				const struct mk_overlay_peer *peer)
{
	const struct mk_overlay_plan *plan = making->plan;
	bool secondary = making->view->family != making->view->primary;

	if (overlap(&making->own.pod_cidr, &peer->pod_cidr) ||
	    same_mac(&making->own.vtep_mac, &peer->vtep_mac))
		return making->view->own_node;
	if (kept > 0 && overlap(&plan->peers[kept - 1].pod_cidr, &peer->pod_cidr))
		return plan->peers[kept - 1].node;
	for (size_t i = 0; i < kept; i++)
		if ((secondary ||
		     plan->peers[i].pod_cidr.prefix_bits != peer->pod_cidr.prefix_bits) &&
		    same_mac(&plan->peers[i].vtep_mac, &peer->vtep_mac))
			return plan->peers[i].node;
	return NULL;
}

/* Keep the peers whose claim no node holds, in their order. */
static int drop_peers(struct making *making,
		      const char *(*holder)(const struct making *making, size_t kept,
					    const struct mk_overlay_peer *peer),
		      int (*say)(struct making *making, const struct mk_overlay_peer *peer,
				 const char *other))
{
	struct mk_overlay_plan *plan = making->plan;
	size_t kept = 0;
	int ret = 0;

	for (size_t i = 0; i < plan->peer_count; i++) {
		struct mk_overlay_peer peer = plan->peers[i];
		const char *other = ret == 0 ? holder(making, kept, &peer) : NULL;

		if (!other) {
			plan->peers[kept++] = peer;
			continue;
		}
		ret = say(making, &peer, other);
		free(peer.node);
	}
	plan->peer_count = kept;
	return ret;
}

static int say_range(struct making *making, const struct mk_overlay_peer *peer, const char *other)
{
	char text[MK_CIDR_STRLEN];

	return leave_out(making, peer->node, true, "its pod CIDR %s collides with node '%s'",
			 mk_cidr_format(&peer->pod_cidr, text), other);
}

/* ---- one InternalIP of several Nodes --------------------------------------------------------- */

static int compare_claims(const void *a, const void *b)
{
	const struct mk_overlay_peer *x = a, *y = b;
	int order = mk_ip_compare(&x->underlay, &y->underlay);

	order = order ?: y->ready - x->ready;
	order = order
			?: (x->created_unix_s > y->created_unix_s) -
				   (x->created_unix_s < y->created_unix_s);
	return order ?: strcmp(x->node, y->node);
}

/* The programs know the sender of an overlay packet by its address: it is that of one node. */
static const char *address_holder(const struct making *making, size_t kept,
				  const struct mk_overlay_peer *peer)
{
	const struct mk_overlay_peer *last = kept ? &making->plan->peers[kept - 1] : NULL;

	if (mk_ip_equal(&making->view->own_underlay, &peer->underlay))
		return making->view->own_node;
	return last && mk_ip_equal(&last->underlay, &peer->underlay) ? last->node : NULL;
}

static int say_address(struct making *making, const struct mk_overlay_peer *peer, const char *other)
{
	char text[MK_IP_STRLEN];

	return leave_out(
		making, peer->node, true,
		"its InternalIP %s is that of node '%s', too: delete the Node that no machine has, or give both machines addresses of their own",
		mk_ip_format(&peer->underlay, text), other);
}

static int sort_and_drop(struct making *making)
{
	struct mk_overlay_plan *plan = making->plan;
	int ret;

	if (!plan->peer_count)
		return 0;
	qsort(plan->peers, plan->peer_count, sizeof(*plan->peers), compare_claims);
	ret = drop_peers(making, address_holder, say_address);
	qsort(plan->peers, plan->peer_count, sizeof(*plan->peers), compare_peers);
	return ret ?: drop_peers(making, range_holder, say_range);
}

int mk_overlay_plan_make(const struct mk_model *model, const struct mk_overlay_view *view,
			 struct mk_overlay_plan *plan, struct mk_error *err)
{
	struct making making = { .view = view, .plan = plan, .err = err };
	int ret;

	*plan = (struct mk_overlay_plan){ 0 };
	ret = addresses_of(view, view->own_pod_cidrs, &making.own, err);
	if (ret < 0)
		return ret;
	mk_model_each(struct mk_node_object, node, model, MK_KIND_NODE)
		if (ret == 0 && strcmp(node->name, view->own_node) != 0)
			ret = add_peer(&making, node);
	ret = ret ?: sort_and_drop(&making);
	if (ret < 0) {
		mk_overlay_plan_release(plan);
		return ret;
	}
	if (plan->left_out_count > 1)
		qsort(plan->left_out, plan->left_out_count, sizeof(*plan->left_out),
		      mk_compare_texts);
	return 0;
}

void mk_overlay_plan_release(struct mk_overlay_plan *plan)
{
	for (size_t i = 0; i < plan->peer_count; i++)
		free(plan->peers[i].node);
	for (size_t i = 0; i < plan->left_out_count; i++) {
		free(plan->left_out[i].node);
		free(plan->left_out[i].reason);
	}
	free(plan->peers);
	free(plan->left_out);
	*plan = (struct mk_overlay_plan){ 0 };
}

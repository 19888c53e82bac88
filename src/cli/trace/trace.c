// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/trace.h"

#include <net/if.h>
#include <string.h>

#include "cli/print.h"
#include "datapath/maps/hook.h"
#include "datapath/monitor/drops.h"
#include "datapath/pods/port.h"

#define EXIT_NOT_ARRIVED 3

/* ---- hooks ----------------------------------------------------------------------------------- */

/* Verifying programs takes the kernel seconds: copy them only when one of them runs. */
static int copy_programs(struct mk_trace_story *story, const char *program, struct mk_error *err)
{
	int ret;

	if (story->copy)
		return 0;
	story->copy = trace_copy_new(story->view, program, err);
	if (!story->copy)
		return -EINVAL;
	ret = trace_copy_flow(story->copy, story->view, &story->request->tuple, err);
	story->known = ret > 0;
	return ret < 0 ? ret : 0;
}

/* Check that a program is on the hook. Adds a step that says so, and whether it is the one traced.
 * Returns 1 if there is one. */
static int enter(struct mk_trace_story *story, const char *who, int ifindex,
		 enum mk_direction direction, const char *program, struct mk_error *err)
{
	char name[IF_NAMESIZE] = "?", entry[64];
	uint32_t id = 0;
	int ret;

	if_indextoname((unsigned int)ifindex, name);
	if (mk_hook_query(story->view->nl, ifindex, direction, &id, NULL) < 0 || id == 0) {
		trace_step(
			story, "hook", NULL,
			"%s: no program on the %s of interface %s. The agent puts it there while it runs: start it",
			who, direction == MK_INGRESS ? "ingress" : "egress", name);
		story->outcome = "dropped";
		return 0;
	}
	ret = copy_programs(story, program, err);
	if (ret < 0)
		return ret;
	snprintf(entry, sizeof(entry), "program %u", id);
	trace_step(story, "hook", entry, "%s: program %s on the %s of interface %s%s", who, program,
		   direction == MK_INGRESS ? "ingress" : "egress", name,
		   trace_copy_is_pinned(story->copy, story->view, program)
			   ? ""
			   : " (of another version than this monokube: what follows may differ)");
	return 1;
}

static int run(struct mk_trace_story *story, const char *program, int ifindex,
	       const struct mk_tuple *tuple, const uint8_t *source_mac, struct mk_error *err)
{
	const bool external =
		strcmp(program, "nat_uplink") == 0 || strcmp(program, "elb_uplink_egress") == 0;
	struct mk_trace_frame frame;
	enum mk_trace_verdict verdict;
	struct mk_link receiver;
	int ret = mk_nl_link_get_index(story->view->nl, ifindex, &receiver, err);

	if (ret < 0)
		return ret;
	trace_frame_make(&frame, tuple, &story->request->form, source_mac, receiver.mac.byte);
	ret = trace_copy_run(story->copy, program, ifindex, &frame, &verdict, err);
	if (ret == 0)
		trace_tell(story, tuple, external, &frame, verdict);
	return ret;
}

/* ---- senders --------------------------------------------------------------------------------- */

static int from_pod(struct mk_trace_story *story, struct mk_error *err)
{
	const struct mk_view_pod *pod = story->request->pod;
	char who[MK_VIEW_WHO_BYTES];
	int ret;

	snprintf(who, sizeof(who), "pod %s sends", mk_view_pod_name(pod));
	ret = enter(story, who, (int)pod->entry.ifindex, MK_INGRESS, "ilb_pod", err);
	if (ret <= 0)
		return ret;
	return run(story, "ilb_pod", (int)pod->entry.ifindex, &story->request->tuple,
		   pod->entry.mac, err);
}

/* A pod of an end sends by its port. */
static int from_end(struct mk_trace_story *story, struct mk_error *err)
{
	const struct mk_mac own = mk_port_mac(MK_PORT_END, MK_PORT_INSIDE, false);
	const int ifindex = story->request->port_ifindex;
	char who[MK_VIEW_WHO_BYTES];
	int ret;

	snprintf(who, sizeof(who), "pod %s sends by its port of an end",
		 mk_view_pod_name(story->request->pod));
	ret = enter(story, who, ifindex, MK_INGRESS, "sfc_port", err);
	if (ret <= 0)
		return ret;
	ret = trace_copy_end(story, err);
	ret = ret ?: run(story, "sfc_port", ifindex, &story->request->tuple, own.byte, err);
	mk_table_close(&story->end_flows);
	return ret;
}

/* Returns the uplink that leads back to the sender, otherwise the first one. */
static const struct mk_uplink *uplink_towards(const struct mk_view *view,
					      const struct mk_addr *sender)
{
	const struct mk_ip ip = mk_ip_from_addr(sender);
	struct mk_nl_route back;

	if (mk_nl_route_to(view->nl, &ip, &back, NULL) == 0)
		for (size_t i = 0; i < view->links.uplink_count; i++)
			if ((int)view->links.uplinks[i].ifindex == back.ifindex)
				return &view->links.uplinks[i];
	return &view->links.set.first;
}

/* On a tunnel, too, the frame has an Ethernet header, because the tunnel's program adds one. */
static int from_outside(struct mk_trace_story *story, struct mk_error *err)
{
	const struct mk_uplink *uplink = uplink_towards(story->view, &story->request->tuple.saddr);
	static const uint8_t somebody[6] = { 2 };
	int ret;

	ret = enter(story, "arrives from outside", (int)uplink->ifindex, MK_INGRESS, "nat_uplink",
		    err);
	if (ret <= 0)
		return ret;
	return run(story, "nat_uplink", (int)uplink->ifindex, &story->request->tuple, somebody,
		   err);
}

static int from_other_node(struct mk_trace_story *story, struct mk_error *err)
{
	const struct mk_link_set *links = &story->view->links.set;
	static const uint8_t somebody[6] = { 2 };
	int ret;

	ret = enter(story, "arrives from another node", (int)links->overlay_ifindex, MK_INGRESS,
		    "ilb_overlay", err);
	if (ret <= 0)
		return ret;
	return run(story, "ilb_overlay", (int)links->overlay_ifindex, &story->request->tuple,
		   somebody, err);
}

static int from_peer(struct mk_trace_story *story, struct mk_error *err)
{
	const int ifindex = (int)story->view->links.cluster_ifindex;
	struct mk_trace_frame frame;
	enum mk_trace_verdict verdict;
	char who[MK_VIEW_WHO_BYTES];
	int ret = trace_peer_frame(story->view, story->request, &frame, who, err);

	ret = ret ?: enter(story, who, ifindex, MK_INGRESS, "cluster_in", err);
	if (ret <= 0)
		return ret;
	ret = trace_copy_run(story->copy, "cluster_in", ifindex, &frame, &verdict, err);
	if (ret == 0)
		trace_tell(story, &story->request->tuple, false, &frame, verdict);
	return ret;
}

/* Send to an address of the host itself: the loopback device's program hands on what is for a
 * Service. */
static int host_to_itself(struct mk_trace_story *story, struct mk_error *err)
{
	const struct mk_link_set *links = &story->view->links.set;
	struct mk_tuple tuple = story->request->tuple;
	static const uint8_t no_mac[6];
	struct mk_trace_frame frame;
	enum mk_trace_verdict verdict;
	int ret;

	tuple.saddr = tuple.daddr;
	ret = enter(story, "this host sends to itself", MK_LOOPBACK_IFINDEX, MK_EGRESS,
		    "ilb_lo_egress", err);
	if (ret <= 0)
		return ret;
	trace_frame_make(&frame, &tuple, &story->request->form, no_mac, no_mac);
	ret = trace_copy_run(story->copy, "ilb_lo_egress", MK_LOOPBACK_IFINDEX, &frame, &verdict,
			     err);
	if (ret < 0)
		return ret;
	if (verdict == MK_TRACE_REDIRECT)
		return run(story, "ilb_host", (int)links->host_peer_ifindex, &tuple,
			   story->view->node.gateway_mac, err);
	trace_tell(story, &tuple, false, &frame, verdict);
	return 0;
}

/* Is @dest a pod or overlay address of another node, which may be reached without the overlay? */
static bool is_to_node(const struct mk_trace_story *story, const struct mk_addr *dest)
{
	struct mk_route route;

	return mk_view_route(story->view, dest, &route) && route.type == MK_ROUTE_OVERLAY &&
	       route.is_direct;
}

static int host_by_device(struct mk_trace_story *story, const struct mk_nl_route *route,
			  struct mk_error *err)
{
	const struct mk_link_set *links = &story->view->links.set;
	struct mk_tuple tuple = story->request->tuple;
	char name[IF_NAMESIZE] = "?";

	if_indextoname((unsigned int)route->ifindex, name);
	trace_step(story, "host", NULL, "this host's routing leads to interface %s", name);
	if (route->ifindex == (int)links->overlay_ifindex || is_to_node(story, &tuple.daddr)) {
		trace_tell_overlay(story, &tuple);
		return 0;
	}
	if (route->source.family != AF_UNSPEC)
		tuple.saddr = mk_ip_to_addr(&route->source);
	else if (route->ifindex == (int)links->host_ifindex)
		tuple.saddr = story->view->node.vtep_addr;
	if (route->ifindex == (int)links->host_ifindex) {
		int ret = enter(story, "this host sends", (int)links->host_peer_ifindex, MK_INGRESS,
				"ilb_host", err);

		return ret <= 0 ? ret
				: run(story, "ilb_host", (int)links->host_peer_ifindex, &tuple,
				      story->view->node.gateway_mac, err);
	}
	trace_step(story, "host", NULL, "leaves by the host's own routing, untranslated");
	story->outcome = "forwarded";
	return 0;
}

static int from_host(struct mk_trace_story *story, struct mk_error *err)
{
	const struct mk_addr *dest = &story->request->tuple.daddr;
	const struct mk_ip ip = mk_ip_from_addr(dest);
	struct mk_error why = { 0 };
	struct mk_nl_route way;
	struct mk_route route;

	if (mk_addr_is_loopback(dest) ||
	    (mk_view_route(story->view, dest, &route) && route.type == MK_ROUTE_HOST))
		return host_to_itself(story, err);
	if (mk_nl_route_to(story->view->nl, &ip, &way, &why) == 0)
		return host_by_device(story, &way, err);
	trace_step(story, "host", NULL, "this host has no route there: %s", mk_error_text(&why));
	story->outcome = "dropped";
	return 0;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int walk(struct mk_trace_story *story, struct mk_error *err)
{
	static int (*const from[])(struct mk_trace_story *, struct mk_error *) = {
		[MK_TRACE_POD] = from_pod,	   [MK_TRACE_END] = from_end,
		[MK_TRACE_HOST] = from_host,	   [MK_TRACE_OTHER_NODE] = from_other_node,
		[MK_TRACE_OUTSIDE] = from_outside, [MK_TRACE_PEER] = from_peer,
	};
	int ret = from[story->request->place](story, err);

	trace_copy_free(story->copy);
	story->copy = NULL;
	return ret;
}

static void print_text(const struct mk_trace_story *story)
{
	const struct mk_tuple *tuple = &story->request->tuple;
	char from[MK_ENDPOINT_STRLEN], to[MK_ENDPOINT_STRLEN], number[16];

	printf("%s %s > %s\n", mk_cli_protocol_name(tuple->proto, number),
	       mk_cli_endpoint(&tuple->saddr, tuple->sport, from),
	       mk_cli_endpoint(&tuple->daddr, tuple->dport, to));
	for (size_t i = 0; i < json_object_array_length(story->steps); i++) {
		struct json_object *step = json_object_array_get_idx(story->steps, i);
		struct json_object *entry = json_object_object_get(step, "entry");

		printf("%2zu. %-7s %s%s%s%s\n", i + 1,
		       json_object_get_string(json_object_object_get(step, "at")),
		       json_object_get_string(json_object_object_get(step, "says")),
		       entry ? "  [" : "", entry ? json_object_get_string(entry) : "",
		       entry ? "]" : "");
	}
	printf("%s\n", story->outcome);
}

static int print_json(const struct mk_trace_story *story, struct mk_error *err)
{
	const struct mk_tuple *tuple = &story->request->tuple;
	cleanup_json struct json_object *object = json_object_new_object();
	char text[MK_ENDPOINT_STRLEN], number[16];

	mk_put_text(object, "protocol", mk_cli_protocol_name(tuple->proto, number));
	mk_put_text(object, "from", mk_cli_endpoint(&tuple->saddr, tuple->sport, text));
	mk_put_text(object, "to", mk_cli_endpoint(&tuple->daddr, tuple->dport, text));
	json_object_object_add(object, "steps", json_object_get(story->steps));
	mk_put_text(object, "outcome", story->outcome);
	mk_put_text(object, "reason",
		    story->reason < MK_DROP_COUNT ? mk_drop_reason_name(story->reason) : NULL);
	return mk_cli_print_json(stdout, object, err);
}

static int show(const struct mk_view *view, const struct mk_cli_options *options,
		const struct mk_trace_request *request, struct mk_error *err)
{
	struct mk_trace_story story = {
		.view = view, .request = request, .outcome = "unknown", .reason = MK_DROP_COUNT
	};
	int ret;

	story.steps = json_object_new_array();
	ret = walk(&story, err);
	if (ret == 0 && options->json)
		ret = print_json(&story, err);
	else if (ret == 0)
		print_text(&story);
	json_object_put(story.steps);
	if (ret == 0 && strcmp(story.outcome, "delivered") != 0 &&
	    strcmp(story.outcome, "forwarded") != 0)
		ret = EXIT_NOT_ARRIVED;
	return ret;
}

static bool is_of_other_family(const struct mk_view *view, const char *word)
{
	struct mk_ip ip;

	return mk_ip_parse(word, &ip) == 0 && ip.family != view->family;
}

static bool has_ipv6_form(const struct mk_cli_options *options)
{
	return options->given & (MK_CLI_HEADERS | MK_CLI_NEIGHBOUR);
}

static bool is_skipped(const struct mk_views *views, const struct mk_view *view,
		       const struct mk_cli_options *options)
{
	if (has_ipv6_form(options) && view->family != AF_INET6)
		return true;
	return views->count > 1 && (is_of_other_family(view, options->words[0]) ||
				    is_of_other_family(view, options->words[1]));
}

/* Trace in the first family that has FROM and TO: an address names its family, and a name may be
 * known in both. Returns the exit status, or a negative error. */
static int trace(const struct mk_views *views, const struct mk_cli_options *options,
		 struct mk_error *err)
{
	const char *from = options->words[0], *to = options->words[1];
	struct mk_trace_request request;
	int ret = 0;

	for (size_t i = 0; i < views->count; i++) {
		const struct mk_view *view = &views->list[i];

		if (is_skipped(views, view, options))
			continue;
		if (trace_resolve(view, options, &request, ret < 0 ? NULL : err) == 0)
			return show(view, options, &request, err);
		ret = -EINVAL;
	}
	if (ret < 0)
		return ret;
	if (has_ipv6_form(options))
		return mk_error_set(
			err, EINVAL,
			"'%s' and '%s': --headers and --neighbour are for packets of IPv6, on a node that runs it",
			from, to);
	return mk_error_set(err, EINVAL, "'%s' and '%s' are of different families", from, to);
}

int mk_cli_trace(int argc, char **argv)
{
	return mk_view_main(argc, argv, trace);
}

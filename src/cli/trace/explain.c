// SPDX-License-Identifier: Apache-2.0
/* The steps of a traced packet, in words. */
#include <net/if.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/print.h"
#include "cli/inspect/view.h"
#include "cli/trace/trace.h"
#include "datapath/monitor/drops.h"
#include "datapath/sessions/sweep.h"

void trace_step(struct mk_trace_story *story, const char *at, const char *entry, const char *fmt,
		...)
{
	struct json_object *step = json_object_new_object();
	char text[1024];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	mk_put_text(step, "at", at);
	mk_put_text(step, "says", text);
	mk_put_text(step, "entry", entry);
	json_object_array_add(story->steps, step);
}

/* ---- load balancing -------------------------------------------------------------------------- */

static bool get(const struct mk_view *view, const char *table, const void *key, size_t key_size,
		void *value, size_t value_size)
{
	cleanup_table struct mk_table opened = { 0 };

	return mk_table_open(&opened, view->dir, table, key_size, value_size, NULL) == 0 &&
	       mk_table_get(&opened, key, value, NULL) == 0;
}

static const char *masquerade_of(const struct mk_trace_story *story,
				 const struct mk_frontend_key *key,
				 const struct mk_frontend *service)
{
	if (!(service->flags & MK_FRONTEND_MASQUERADE))
		return "";
	return story->view->node.keeps_client && key->scope == MK_SCOPE_EXTERNAL
		       ? ", the client keeps its address if a pod answers"
		       : ", masqueraded";
}

static void tell_frontend(struct mk_trace_story *story, const struct mk_frontend_key *key,
			  const struct mk_frontend *service)
{
	const char *name = mk_names_find(&story->view->names, service->service_id);
	char entry[128], number[16], at[MK_ENDPOINT_STRLEN];

	snprintf(entry, sizeof(entry), "frontends: %s/%s %s",
		 mk_cli_endpoint(&key->addr, key->port, at),
		 mk_cli_protocol_name(key->proto, number),
		 key->scope == MK_SCOPE_INTERNAL ? "internal" : "external");
	trace_step(story, key->scope == MK_SCOPE_INTERNAL ? "ilb" : "elb", entry,
		   "%s is Service %s: %u backends, %u of them on this node%s%s%s%s%s%s", at,
		   name ? name : "?", service->backend_count, service->local_count,
		   service->flags & MK_FRONTEND_MAGLEV ? ", chosen by Maglev" : "",
		   masquerade_of(story, key, service),
		   service->affinity_id ? ", with session affinity" : "",
		   service->ranges_id ? ", only for its source ranges" : "",
		   service->flags & MK_FRONTEND_PREFERS
			   ? ", without endpoints of clusters that its preference names later"
			   : "",
		   service->flags & MK_FRONTEND_WITHOUT_DOWN
			   ? ", without endpoints of clusters that are down (monokube peers)"
			   : "");
}

/* A container's host port. The mapping of one address takes precedence over that of all
 * addresses. */
static void tell_host_port(struct mk_trace_story *story, const struct mk_tuple *tuple)
{
	struct mk_host_port_key key = { .addr = tuple->daddr,
					.port = tuple->dport,
					.proto = tuple->proto };
	struct mk_host_port port;
	char entry[128], to[MK_ENDPOINT_STRLEN];
	bool found = get(story->view, "host_ports", &key, sizeof(key), &port, sizeof(port));

	if (!found) {
		key.addr = (struct mk_addr){ 0 };
		found = get(story->view, "host_ports", &key, sizeof(key), &port, sizeof(port));
	}
	if (!found || port.leaving)
		return;
	snprintf(entry, sizeof(entry), "host_ports: %s", mk_cli_endpoint(&key.addr, key.port, to));
	trace_step(story, "ilb", entry, "a container's host port, of pod %s",
		   mk_cli_endpoint(&port.addr, port.port, to));
}

static void tell_service(struct mk_trace_story *story, const struct mk_tuple *tuple, bool external)
{
	struct mk_frontend_key key = { .addr = tuple->daddr,
				       .port = tuple->dport,
				       .proto = tuple->proto,
				       .scope = external ? MK_SCOPE_EXTERNAL : MK_SCOPE_INTERNAL };
	struct mk_frontend_key vip = { .addr = tuple->daddr };
	struct mk_frontend service;
	char text[MK_ENDPOINT_STRLEN];

	if (get(story->view, "frontends", &key, sizeof(key), &service, sizeof(service)))
		tell_frontend(story, &key, &service);
	else if (get(story->view, "frontends", &vip, sizeof(vip), &service, sizeof(service)))
		trace_step(story, external ? "elb" : "ilb", "frontends: its port 0",
			   "%s is a Service's address, but no Service has this port",
			   mk_cli_endpoint(&tuple->daddr, 0, text));
	else
		tell_host_port(story, tuple);
}

/* Does the pod's node answer the client itself? The flow's forward entry says so. */
static bool is_returned_directly(const struct mk_trace_story *story,
				 const struct mk_session *session)
{
	const struct mk_tuple key = mk_session_pair_key(session);
	struct mk_session pair;

	if (session->flags & MK_SESSION_FORWARD)
		return session->flags & MK_SESSION_VIA_OVERLAY;
	return trace_copy_session(story->copy, false, &key, &pair) &&
	       (pair.flags & MK_SESSION_DELEGATED) == MK_SESSION_DELEGATED;
}

static void tell_session(struct mk_trace_story *story, const char *at, bool nat,
			 struct mk_tuple *tuple)
{
	struct mk_session session;
	char from[MK_ENDPOINT_STRLEN], to[MK_ENDPOINT_STRLEN], entry[256];
	const struct mk_tuple old = *tuple;

	if (!trace_copy_session(story->copy, nat, tuple, &session))
		return;
	*tuple = session.to;
	tuple->path = 0;
	story->returns_direct = !nat && is_returned_directly(story, &session);
	snprintf(entry, sizeof(entry), "%s: %s > %s", nat ? "nat_sessions" : "sessions",
		 mk_cli_endpoint(&old.saddr, old.sport, from),
		 mk_cli_endpoint(&old.daddr, old.dport, to));
	trace_step(story, at, entry, "%s: it becomes %s > %s",
		   story->known ? "its session exists" : "a new session",
		   mk_cli_endpoint(&tuple->saddr, tuple->sport, from),
		   mk_cli_endpoint(&tuple->daddr, tuple->dport, to));
}

/* ---- the ways out ---------------------------------------------------------------------------- */

static void tell_pod(struct mk_trace_story *story, const struct mk_tuple *tuple)
{
	const struct mk_view_pod *pod = mk_view_pod(story->view, &tuple->daddr);
	char entry[64], at[MK_ENDPOINT_STRLEN];

	snprintf(entry, sizeof(entry), "pods: %s", mk_cli_endpoint(&tuple->daddr, 0, at));
	trace_step(story, "router", entry, "%s is pod %s of this node, behind interface %s", at,
		   pod ? mk_view_pod_name(pod) : "?",
		   pod && *pod->link.name ? pod->link.name : "?");
	story->outcome = "delivered";
	if (pod && !(pod->link.flags & IFF_RUNNING)) {
		trace_step(
			story, "pod", NULL,
			"its interface is gone or down: the packet is lost. Is its container alive? (monokube pods)");
		story->outcome = "dropped";
	}
}

void trace_leave_overlay(struct mk_trace_story *story, const struct mk_cli_node *node,
			 const char *what)
{
	const char *fault = node ? mk_cli_node_fault(node) : "no such node";
	char underlay[MK_IP_STRLEN] = "?";

	if (node && node->underlay.family)
		mk_ip_format(&node->underlay, underlay);
	story->outcome = fault ? "dropped" : "forwarded";
	if (fault)
		trace_step(story, "overlay", NULL,
			   "%s: the packet is lost. The agent repairs that while it runs", fault);
	else
		trace_step(
			story, "overlay", "fdb",
			"leaves in VXLAN to %s%s, by %s %s; there, `monokube trace` shows the rest",
			underlay, node->is_encrypted ? ", encrypted by WireGuard" : "", what,
			node->name ?: "whose name is not known");
}

/* A host's packets reach no program that drops them: the kernel loses them at the device. */
static bool is_never_sent(const struct mk_trace_story *story, const struct mk_tuple *tuple)
{
	struct mk_route route;

	return story->view->node.encrypts_all &&
	       mk_view_route(story->view, &tuple->daddr, &route) &&
	       route.type == MK_ROUTE_OVERLAY && route.is_clear;
}

static void leave_direct(struct mk_trace_story *story, const struct mk_cli_node *node)
{
	char name[IF_NAMESIZE] = "?", at[MK_IP_STRLEN];

	if_indextoname((unsigned int)node->link_ifindex, name);
	story->outcome = "forwarded";
	trace_step(
		story, "direct", "link_nodes",
		"leaves directly, without VXLAN, by %s to %s, the address of node %s; there, `monokube trace` shows the rest",
		name, mk_ip_format(&node->link_ip, at), node->name ?: "whose name is not known");
}

void trace_tell_overlay(struct mk_trace_story *story, const struct mk_tuple *tuple)
{
	struct mk_ip ip = mk_ip_from_addr(&tuple->daddr);
	cleanup_free struct mk_cli_node *nodes = NULL;
	char entry[64], prefix[MK_CIDR_STRLEN], at[MK_IP_STRLEN];
	const struct mk_cli_node *node = NULL;
	size_t count = 0;

	snprintf(entry, sizeof(entry), "routes: %s",
		 mk_view_route_prefix(story->view, &tuple->daddr, prefix));
	if (mk_cli_nodes_read(story->view, &nodes, &count, NULL) < 0)
		count = 0;
	for (size_t i = 0; i < count; i++)
		if (mk_cidr_contains(&nodes[i].pod_cidr, &ip) ||
		    mk_addr_eq(&nodes[i].vtep, &tuple->daddr))
			node = &nodes[i];
	trace_step(story, "router", entry, "%s lives on another node (%s)", mk_ip_format(&ip, at),
		   node && node->name ? node->name : "its name is not known");
	if (is_never_sent(story, tuple)) {
		trace_step(
			story, "overlay", NULL,
			"OVERLAY_CLEAR: encryption is WireGuardOnly, and no WireGuard leads to that node: the packet is lost. `monokube check` says what helps");
		story->outcome = "dropped";
		return;
	}
	if (node && node->is_direct && node->has_route)
		leave_direct(story, node);
	else
		trace_leave_overlay(story, node, "node");
}

static void say_client(struct mk_trace_story *story, const char *client, bool is_answer)
{
	if (is_answer)
		trace_step(story, "router", NULL,
			   "an answer to client %s goes back by the node that it asked", client);
	else
		trace_step(story, "router", NULL,
			   "the pod lives on another node, and sees client %s%s", client,
			   story->returns_direct ? ": the pod's node answers the client directly"
						 : "");
}

/* Does the packet go by the overlay although one of its ends is outside? Then it is of a client
 * that keeps its address (bpf/client.h), and its MAC address shows the node. */
static bool tell_client(struct mk_trace_story *story, const struct mk_tuple *tuple,
			const struct mk_trace_frame *frame)
{
	cleanup_free struct mk_cli_node *nodes = NULL;
	const struct mk_cli_node *node = NULL;
	char client[MK_ENDPOINT_STRLEN];
	struct mk_route route;
	bool is_answer = !mk_view_route(story->view, &tuple->daddr, &route);
	size_t count = 0;

	if (!is_answer && mk_view_route(story->view, &tuple->saddr, &route))
		return false;
	if (mk_cli_nodes_read(story->view, &nodes, &count, NULL) < 0)
		return false;
	for (size_t i = 0; i < count; i++)
		if (memcmp(nodes[i].vtep_mac, frame->byte, sizeof(nodes[i].vtep_mac)) == 0)
			node = &nodes[i];
	if (!node)
		return false;
	mk_cli_endpoint(is_answer ? &tuple->daddr : &tuple->saddr, 0, client);
	say_client(story, client, is_answer);
	trace_leave_overlay(story, node, "node");
	return true;
}

static void tell_uplink(struct mk_trace_story *story, struct mk_tuple *tuple)
{
	char name[IF_NAMESIZE] = "?", next_hop[MK_ENDPOINT_STRLEN] = "";
	const struct mk_addr none = { 0 };
	struct mk_addr next;
	const char *unknown;
	struct mk_way way;

	if (story->returns_direct)
		trace_step(
			story, "router", NULL,
			"this node answers the client directly; what begins or ends the flow goes by the node that it asked");
	tell_session(story, "nat", true, tuple);
	story->outcome = "forwarded";
	if (!trace_copy_way(story->copy, &way)) {
		if_indextoname(story->view->links.set.first.ifindex, name);
		trace_step(
			story, "router", "links",
			"outside of the cluster: leaves by interface %s, this host's only way out",
			name);
		return;
	}
	if_indextoname(way.ifindex, name);
	next = way.next_hop;
	unknown = story->view->family == AF_INET6 ? "the destination" : "IPv6";
	trace_step(
		story, "router", "way",
		"outside of the cluster: leaves by interface %s, next hop %s, as this host's routing says",
		name, mk_addr_eq(&next, &none) ? unknown : mk_cli_endpoint(&next, 0, next_hop));
}

static void tell_host(struct mk_trace_story *story, const struct mk_tuple *tuple)
{
	char at[MK_ENDPOINT_STRLEN], prefix[MK_CIDR_STRLEN], entry[64];

	snprintf(entry, sizeof(entry), "routes: %s",
		 mk_view_route_prefix(story->view, &tuple->daddr, prefix));
	trace_step(story, "router", entry,
		   "%s is this host: up its stack, where its own firewall and sockets decide",
		   mk_cli_endpoint(&tuple->daddr, tuple->dport, at));
	story->outcome = "delivered";
}

static void tell_drop(struct mk_trace_story *story, bool answered)
{
	trace_step(story, "drop", mk_drop_reason_name(story->reason), "%s%s. %s",
		   mk_drop_reason_text(story->reason),
		   answered ? "; the sender gets an ICMP error" : "",
		   mk_drop_remedy(story->reason));
	story->outcome = answered ? "answered" : "dropped";
}

/* A request for a pod there whose answers are direct goes without VXLAN, too: it has no MAC address
 * that tell_client() knows. */
static void tell_node(struct mk_trace_story *story, const struct mk_tuple *tuple)
{
	char client[MK_ENDPOINT_STRLEN];

	if (story->returns_direct)
		say_client(story, mk_cli_endpoint(&tuple->saddr, 0, client), false);
	trace_tell_overlay(story, tuple);
}

/* The destination says where a redirect led, as it told the router. */
static void tell_redirect(struct mk_trace_story *story, struct mk_tuple *tuple,
			  const struct mk_trace_frame *frame)
{
	struct mk_session session;
	struct mk_route route = { 0 };

	if (tell_client(story, tuple, frame))
		return;
	if (trace_copy_session(story->copy, true, tuple, &session) &&
	    !mk_addr_eq(&session.to.saddr, &tuple->saddr))
		tell_uplink(story, tuple);
	else if (!mk_view_route(story->view, &tuple->daddr, &route))
		tell_uplink(story, tuple);
	else if (route.type == MK_ROUTE_PODS)
		tell_pod(story, tuple);
	else if (route.type == MK_ROUTE_OVERLAY)
		tell_node(story, tuple);
	else if (route.type == MK_ROUTE_CLUSTER)
		trace_tell_peer(story, tuple, frame);
	else
		tell_host(story, tuple);
}

/* ---- what only IPv6 has ---------------------------------------------------------------------- */

static void tell_headers(struct mk_trace_story *story)
{
	const struct mk_trace_form *form = &story->request->form;
	char names[128] = "";

	if (!form->header_count)
		return;
	for (size_t i = 0; i < form->header_count; i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
			 i ? ", " : "", trace_header_name(form->headers[i]));
	if (story->reason == MK_DROP_EXTENSION_HEADER || story->reason == MK_DROP_BAD_HEADER ||
	    story->reason == MK_DROP_SOURCE_ROUTE)
		trace_step(story, "headers", NULL, "extension headers %s: refused", names);
	else
		trace_step(story, "headers", NULL,
			   "extension headers %s: walked, layer 4 begins at byte %u", names,
			   trace_l4_off(form));
}

/* A message of neighbour discovery is answered here, or belongs to the link that it came from. */
static void tell_message(struct mk_trace_story *story, enum mk_trace_verdict verdict)
{
	const struct mk_mac *mac = (const struct mk_mac *)story->view->node.gateway_mac;
	char text[MK_MAC_STRLEN];

	if (story->reason != MK_DROP_COUNT) {
		tell_drop(story, false);
		return;
	}
	story->outcome = verdict == MK_TRACE_DROP ? "dropped" : "delivered";
	if (verdict == MK_TRACE_REDIRECT)
		trace_step(story, "ndp", NULL,
			   "program ndp answers for the gateway, with %s: only the pod sees it",
			   mk_mac_format(mac, text));
	else if (verdict == MK_TRACE_PASS)
		trace_step(story, "host", NULL,
			   "this host reads it; monokube answers nothing on an uplink");
	else
		trace_step(story, "drop", NULL, "the kernel refused it, without a reason");
}

/* Add steps from the load balancer to the last chain. *@now becomes the tuple after that. */
static void tell_steps(struct mk_trace_story *story, struct mk_tuple *now, bool external,
		       struct mk_trace_frame *frame, enum mk_trace_verdict *verdict)
{
	struct mk_tuple key;

	if (external) /* there the answer to masqueraded traffic comes first */
		tell_session(story, "nat", true, now);
	tell_service(story, now, external);
	trace_tell_policies(story);
	key = *now;
	tell_session(story, external ? "elb" : "ilb", false, now);
	if (story->reason == MK_DROP_COUNT && *verdict == MK_TRACE_REDIRECT)
		trace_tell_chains(story, &key, frame, verdict);
}

void trace_tell(struct mk_trace_story *story, const struct mk_tuple *tuple, bool external,
		const struct mk_trace_frame *out, enum mk_trace_verdict verdict)
{
	const bool is_of_end = story->request->place == MK_TRACE_END;
	struct mk_tuple now = *tuple, seen;
	struct mk_trace_frame frame = *out;
	char from[MK_ENDPOINT_STRLEN], to[MK_ENDPOINT_STRLEN];

	story->reason = trace_copy_drop(story->copy);
	tell_headers(story);
	if (story->request->form.message) {
		tell_message(story, verdict);
		return;
	}
	if (!is_of_end)
		tell_steps(story, &now, external, &frame, &verdict);
	else if (story->reason == MK_DROP_COUNT && verdict == MK_TRACE_REDIRECT)
		trace_tell_end(story, &frame, &verdict);
	if (story->reason != MK_DROP_COUNT) {
		tell_drop(story, verdict == MK_TRACE_REDIRECT);
		return;
	}
	if (verdict == MK_TRACE_DROP) {
		story->outcome = "dropped";
		trace_step(story, "drop", NULL, "the kernel refused it, without a reason");
	} else if (verdict == MK_TRACE_PASS) {
		tell_host(story, &now);
	} else if (!is_of_end) {
		tell_redirect(story, &now, &frame);
	}
	if (trace_frame_read(&frame, &seen))
		trace_step(story, "packet", NULL, "as it goes on: %s > %s",
			   mk_cli_endpoint(&seen.saddr, seen.sport, from),
			   mk_cli_endpoint(&seen.daddr, seen.dport, to));
}

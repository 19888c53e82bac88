// SPDX-License-Identifier: Apache-2.0
/* The way of a packet that a pod of an end sends by its port: through the functions of the chain to
 * a pod of the other end. As in chain.c, each function is taken to leave the packet unchanged. */
#include <bpf/bpf.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/inspect/chains.h"
#include "cli/trace/trace.h"
#include "datapath/maps/pin.h"

#define FLOW	     "sfc_end_flow"
#define COPY_ENTRIES 64

/* ---- the sender ------------------------------------------------------------------------------ */

/* A replica of an end that has this address. */
struct search {
	const struct mk_addr *addr;
	uint32_t ifindex; /* of the host's end of its port; 0: not found */
};

static int see_replica(void *ctx, const void *key, const void *value, struct mk_error *err)
{
	const struct mk_sfc_replica *replica = value;
	struct search *search = ctx;

	(void)key;
	(void)err;
	if (replica->mode != MK_PORT_END || !mk_addr_eq(&replica->addr, search->addr))
		return 0;
	search->ifindex = replica->ifindex[MK_SFC_INSIDE];
	return 1;
}

/* Return the host's end of the pod's port; 0: the pod is not of an end. */
static uint32_t port_of(const struct mk_view *view, const struct mk_addr *addr)
{
	cleanup_table struct mk_table replicas = { 0 };
	struct search search = { .addr = addr };
	int ret = mk_table_open(&replicas, view->dir, "sfc_replicas", sizeof(__u32),
				sizeof(struct mk_sfc_replica), NULL);

	if (ret == 0)
		ret = mk_table_each(&replicas, see_replica, &search, NULL);
	return ret > 0 ? search.ifindex : 0;
}

/* Ask the pod's kernel how it sends to @dest. Returns the peer of the device; 0: no such route. */
static int ask_pod(const struct mk_view *view, const char *netns, const struct mk_addr *dest,
		   struct mk_nl_route *route, struct mk_error *err)
{
	cleanup_close int fd = open(netns, O_RDONLY | O_CLOEXEC);
	const struct mk_ip ip = mk_ip_from_addr(dest);
	cleanup_nl struct mk_nl *nl = NULL;
	struct mk_link link;

	if (fd < 0)
		return mk_error_errno(err, errno, "cannot open its network namespace '%s'", netns);
	nl = mk_nl_open_in(view->nl, fd, err);
	if (!nl)
		return -err->code;
	if (mk_nl_route_to(nl, &ip, route, NULL) < 0 ||
	    mk_nl_link_get_index(nl, route->ifindex, &link, NULL) < 0)
		return 0;
	return link.peer_ifindex;
}

int trace_resolve_end(const struct mk_view *view, struct mk_trace_request *request,
		      struct mk_error *err)
{
	const struct mk_view_pod *pod = request->pod;
	const uint32_t port = pod && pod->owner ? port_of(view, &pod->addr) : 0;
	const char *ifname, *netns;
	struct mk_nl_route route;
	int ret;

	if (!port || request->form.message)
		return 0;
	ifname = pod->owner + strlen(pod->owner) + 1;
	netns = ifname + strlen(ifname) + 1;
	ret = ask_pod(view, netns, &request->tuple.daddr, &route, err);
	if (ret < 0)
		return mk_error_wrap(err, "FROM '%s'", mk_view_pod_name(pod));
	if ((uint32_t)ret != port)
		return 0;
	request->place = MK_TRACE_END;
	request->port_ifindex = (int)port;
	request->tuple.saddr = mk_ip_to_addr(&route.source);
	return 0;
}

/* ---- the flow -------------------------------------------------------------------------------- */

/* The chain and the direction of what the port sends; chain 0: it is in none. */
static struct mk_sfc_port row_of(const struct mk_trace_story *story)
{
	const __u32 ifindex = (__u32)story->request->port_ifindex;
	cleanup_table struct mk_table ports = { 0 };
	struct mk_sfc_port row = { 0 };

	if (mk_table_open(&ports, story->view->dir, "sfc_ports", sizeof(ifindex), sizeof(row),
			  NULL) < 0 ||
	    mk_table_get(&ports, &ifindex, &row, NULL) < 0)
		return (struct mk_sfc_port){ 0 };
	return row;
}

/* The key of the flow: its packets as the inside end sends them. */
static struct mk_tuple key_of(const struct mk_tuple *tuple, enum mk_sfc_side side)
{
	if (side == MK_SFC_OUTSIDE)
		return *tuple;
	return (struct mk_tuple){ .saddr = tuple->daddr,
				  .daddr = tuple->saddr,
				  .sport = tuple->dport,
				  .dport = tuple->sport,
				  .proto = tuple->proto };
}

/* Give the copies a map of flows for the chain, with only this flow. */
static int make_flows(struct mk_trace_story *story, __u32 chain, struct mk_error *err)
{
	struct mk_table chains;
	int ret = mk_table_create(&story->end_flows, FLOW, BPF_MAP_TYPE_LRU_HASH,
				  sizeof(struct mk_tuple), sizeof(struct mk_sfc_end_flow),
				  COPY_ENTRIES, story->view->family, err);

	ret = ret ?: trace_copy_table(story->copy, "sfc_end_flows", &chains, err);
	return ret ?: mk_table_put(&chains, &chain, &story->end_flows.fd, err);
}

int trace_copy_end(struct mk_trace_story *story, struct mk_error *err)
{
	const struct mk_sfc_port row = row_of(story);
	const struct mk_tuple key = key_of(&story->request->tuple, row.side);
	struct mk_sfc_end_flow flow;
	cleanup_close int fd = -1;
	struct mk_table pinned;
	char name[32];
	int ret;

	snprintf(name, sizeof(name), "sfc_flows_%u", row.chain);
	fd = row.chain ? mk_pin_open(story->view->dir, MK_PIN_MAPS, name, NULL) : -1;
	if (fd < 0)
		return 0;
	ret = mk_table_init(&pinned, FLOW, fd, err) ?: make_flows(story, row.chain, err);
	if (ret < 0 || mk_table_get(&pinned, &key, &flow, NULL) < 0)
		return ret;
	story->known = true;
	return mk_table_put(&story->end_flows, &key, &flow, err);
}

/* ---- the way --------------------------------------------------------------------------------- */

struct way {
	struct mk_trace_story *story;
	const struct mk_cli_chains *chains;
	struct mk_sfc_port row; /* of the sender's port */
	struct mk_sfc_end_flow flow;
};

static void tell(const struct way *way, unsigned int number, const struct mk_sfc_replica *replica,
		 const char *port)
{
	const enum mk_sfc_side side = way->row.side;
	char chain[MK_CHAIN_NAME_BYTES], pod[MK_CHAIN_NAME_BYTES], entry[40];
	char device[IF_NAMESIZE] = "?";

	if_indextoname(replica->ifindex[!side], device);
	snprintf(entry, sizeof(entry), "sfc_flows_%u", way->row.chain);
	trace_step(way->story, "sfc_end", entry,
		   "chain %s: to pod %s by its port %s, interface %s%s",
		   mk_chain_name(way->chains, way->row.chain, chain),
		   mk_replica_name(way->chains, number, pod), port, device,
		   replica->mode == MK_PORT_END
			   ? ""
			   : "; a function may drop or change it: taken as unchanged");
}

/* Get the row of a replica that is in the flow's way. Returns false if it is gone. */
static bool is_there(const struct way *way, unsigned int number, struct mk_sfc_replica *replica)
{
	if (mk_replica_is_usable(way->chains, number, replica))
		return true;
	trace_step(way->story, "sfc_end", NULL, "its replica has gone meanwhile: trace again");
	return false;
}

/* The function @number has sent the packet on. Returns false if it goes no further. */
static bool pass(const struct way *way, unsigned int number, struct mk_trace_frame *frame,
		 enum mk_trace_verdict *verdict)
{
	const enum mk_sfc_side side = way->row.side;
	struct mk_trace_story *story = way->story;
	struct mk_sfc_replica replica;
	struct mk_error err = { 0 };

	if (!is_there(way, number, &replica))
		return false;
	tell(way, number, &replica, side == MK_SFC_OUTSIDE ? "inside" : "outside");
	if (trace_copy_run(story->copy, "sfc_port", (int)replica.ifindex[side], frame, verdict,
			   &err) < 0) {
		trace_step(story, "sfc_port", NULL, "%s", mk_error_text(&err));
		return false;
	}
	story->reason = trace_copy_drop(story->copy);
	return story->reason == MK_DROP_COUNT && *verdict == MK_TRACE_REDIRECT;
}

static void walk(const struct way *way, struct mk_trace_frame *frame,
		 enum mk_trace_verdict *verdict)
{
	const enum mk_sfc_side side = way->row.side;
	struct mk_sfc_replica end;

	for (size_t i = 0; i < MK_SFC_FUNCTIONS; i++) {
		const size_t place = side == MK_SFC_OUTSIDE ? i : MK_SFC_FUNCTIONS - 1 - i;

		if (way->flow.replica[place] &&
		    !pass(way, way->flow.replica[place], frame, verdict))
			return;
	}
	if (!is_there(way, way->flow.end[side], &end))
		return;
	tell(way, way->flow.end[side], &end, "of the end");
	way->story->outcome = "delivered";
}

void trace_tell_end(struct mk_trace_story *story, struct mk_trace_frame *frame,
		    enum mk_trace_verdict *verdict)
{
	cleanup_cli_chains struct mk_cli_chains chains = { 0 };
	struct way way = { .story = story, .chains = &chains, .row = row_of(story) };
	const struct mk_tuple key = key_of(&story->request->tuple, way.row.side);

	if (mk_table_get(&story->end_flows, &key, &way.flow, NULL) < 0)
		return;
	trace_step(story, "sfc_end", NULL, story->known ? "its flow exists" : "a new flow");
	if (mk_cli_chains_open(&chains, story->view, NULL) == 0)
		walk(&way, frame, verdict);
}

// SPDX-License-Identifier: Apache-2.0
#include "agent/policy/denied.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/time.h"
#include "datapath/monitor/drops.h"
#include "datapath/monitor/monitor.h"
#include "datapath/policy/words.h"

/* A client repeats a first packet several times. After a collision a flow may be logged again. */
#define FLOWS	  1024 /* a power of two */
#define AGAIN_NS  (60 * MK_NS_PER_S)
#define POD_CHARS (2 * MK_OBJECT_NAME_SIZE)

struct denied_flow {
	struct mk_tuple tuple;
	uint64_t logged_ns; /* 0: no flow */
};

struct denied {
	struct denied_flow flows[FLOWS];
	struct mk_policy_names names;
	uint64_t since_ns;
	bool paused; /* another process reads the drops */
	const struct mk_model *model; /* while drops are read */
	const struct sandboxes *sandboxes;
};

struct denied *denied_new(void)
{
	struct denied *denied = calloc(1, sizeof(*denied));

	if (denied)
		denied->since_ns = mk_time_monotonic_ns();
	return denied;
}

void denied_free(struct denied *denied)
{
	if (denied)
		mk_policy_names_release(&denied->names);
	free(denied);
}

void denied_know(struct denied *denied, json_object *names)
{
	mk_policy_names_release(&denied->names);
	denied->names.root = json_object_get(names);
}

/* ---- flows ----------------------------------------------------------------------------------- */

static bool is_same(const struct mk_tuple *a, const struct mk_tuple *b)
{
	return mk_addr_eq(&a->saddr, &b->saddr) && mk_addr_eq(&a->daddr, &b->daddr) &&
	       a->sport == b->sport && a->dport == b->dport && a->proto == b->proto;
}

static struct denied_flow *flow_of(struct denied *denied, const struct mk_tuple *tuple)
{
	uint32_t hash = (uint32_t)tuple->sport << 16 | tuple->dport;

	for (size_t i = 0; i < MK_ARRAY_SIZE(tuple->saddr.word); i++)
		hash = (hash ^ tuple->saddr.word[i] ^ tuple->daddr.word[i] << 1) * 0x9e3779b1U;
	return &denied->flows[hash / (UINT32_MAX / FLOWS + 1)];
}

/* Is it the first packet of its flow for a minute? */
static bool is_first(struct denied *denied, const struct mk_drop_event *event)
{
	struct denied_flow *flow = flow_of(denied, &event->tuple);

	if (flow->logged_ns && is_same(&flow->tuple, &event->tuple) &&
	    mk_time_since_ns(event->time_ns, flow->logged_ns) < AGAIN_NS)
		return false;
	*flow = (struct denied_flow){ event->tuple, event->time_ns };
	return true;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* "shop/web"; "": no known pod. A pod elsewhere is known if a set here has selectors of peers. */
static const char *pod_of(const struct denied *denied, const struct mk_addr *addr,
			  char name[POD_CHARS])
{
	const struct mk_ip ip = mk_ip_from_addr(addr);
	unsigned family = mk_family_index(ip.family);

	*name = '\0';
	for (size_t i = 0; denied->sandboxes && i < denied->sandboxes->count; i++) {
		const struct mk_policy_sandbox *sandbox = &denied->sandboxes->list[i];

		if (!mk_ip_equal(&sandbox->ips[family], &ip))
			continue;
		if (sandbox->namespace_ && sandbox->name)
			snprintf(name, POD_CHARS, "%s/%s", sandbox->namespace_, sandbox->name);
		return name;
	}
	mk_model_each(struct mk_pod_object, pod, denied->model, MK_KIND_POD) {
		const struct mk_ip of_pod = mk_pod_ip(pod, family);

		if (!pod->host_network && !pod->finished && mk_ip_equal(&of_pod, &ip))
			snprintf(name, POD_CHARS, "%s/%s", pod->of->namespace_, pod->name);
	}
	return name;
}

/* A packet to a Service has the Service's address: name the pod that was chosen. */
static const char *to_pod(const struct denied *denied, const struct mk_drop_event *event,
			  char name[POD_CHARS])
{
	const bool asked = event->decided.set != MK_SET_OPEN;
	const bool answers = mk_addr_eq(&event->tuple.daddr, &event->client);

	return pod_of(denied, asked && !answers ? &event->server : &event->tuple.daddr, name);
}

/* "ingress of shop/web: isolated by shop/deny" */
static const char *policy_of(const struct denied *denied, const struct mk_drop_event *event,
			     char text[MK_POLICY_TEXT_BYTES])
{
	const struct mk_policy_count_key *decided = &event->decided;
	const bool ingress = decided->direction == MK_POLICY_INGRESS;
	char why[MK_POLICY_TEXT_BYTES], pod[POD_CHARS];

	if (decided->set == MK_SET_OPEN)
		return mk_drop_reason_text(event->reason);
	mk_policy_decision_text(&denied->names, decided, why);
	snprintf(text, MK_POLICY_TEXT_BYTES, "%s of %.150s: %.600s",
		 mk_policy_direction_name(decided->direction),
		 pod_of(denied, ingress ? &event->server : &event->client, pod), why);
	return text;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static const char *protocol_of(uint8_t protocol, char number[8])
{
	static const struct {
		uint8_t protocol;
		const char *name;
	} names[] = { { IPPROTO_TCP, "TCP" },
		      { IPPROTO_UDP, "UDP" },
		      { IPPROTO_SCTP, "SCTP" },
		      { IPPROTO_ICMP, "ICMP" },
		      { IPPROTO_ICMPV6, "ICMPv6" } };

	for (size_t i = 0; i < MK_ARRAY_SIZE(names); i++)
		if (names[i].protocol == protocol)
			return names[i].name;
	snprintf(number, 8, "%u", protocol);
	return number;
}

static const char *end_of(const struct mk_addr *addr, __be16 port, char text[MK_IP_PORT_STRLEN])
{
	const struct mk_ip_port at = { mk_ip_from_addr(addr), ntohs(port) };

	return port ? mk_ip_port_format(&at, text) : mk_ip_format(&at.ip, text);
}

static void write_line(const struct denied *denied, struct mk_log_site *site,
		       const struct mk_drop_event *event)
{
	const struct mk_tuple *tuple = &event->tuple;
	char from[MK_IP_PORT_STRLEN], to[MK_IP_PORT_STRLEN], from_pod[POD_CHARS];
	char to_name[POD_CHARS], policy[MK_POLICY_TEXT_BYTES], protocol[8];

	pod_of(denied, &tuple->saddr, from_pod);
	to_pod(denied, event, to_name);
	mk_log_at(site, MK_LOG_INFO,
		  "policies %s a flow reason=%s protocol=%s from=%s%s%s to=%s%s%s policy=\"%s\"",
		  event->decided.audited ? "would deny" : "deny",
		  mk_drop_reason_name(event->reason), protocol_of(tuple->proto, protocol),
		  end_of(&tuple->saddr, tuple->sport, from), *from_pod ? " fromPod=" : "", from_pod,
		  end_of(&tuple->daddr, tuple->dport, to), *to_name ? " toPod=" : "", to_name,
		  policy_of(denied, event, policy));
}

/* Audited flows have limits of their own, so they do not suppress lines of denied ones. */
static void on_drop(void *ctx, const struct mk_drop_event *event)
{
	static struct mk_log_site sites[2];
	struct mk_log_site *site = &sites[event->decided.audited != 0];
	struct denied *denied = ctx;

	if (mk_policy_is_reason(event->reason) && is_first(denied, event) &&
	    !mk_log_is_limited(site))
		write_line(denied, site, event);
}

void denied_see(struct denied *denied, const struct mk_model *model,
		const struct sandboxes *sandboxes, const struct mk_drop_event *event)
{
	denied->model = model;
	denied->sandboxes = sandboxes;
	on_drop(denied, event);
}

static void say_paused(struct denied *denied, bool paused)
{
	if (paused && !denied->paused)
		mk_log_info(
			"denied flows are not logged while another process shows them: `monokube drops --follow` or `monokube monitor`");
	else if (!paused && denied->paused)
		mk_log_info("denied flows are logged again");
	denied->paused = paused;
}

int denied_log(struct denied *denied, const struct mk_core *core, const struct sandboxes *sandboxes,
	       struct mk_error *err)
{
	struct mk_monitor_reader reader = { .drop = on_drop };
	struct mk_monitor_source sources[MK_FAMILIES];
	size_t count = 0;
	int ret;

	denied->model = core->model;
	denied->sandboxes = sandboxes;
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (mk_family_is_attached(&core->families[i]))
			sources[count++] = (struct mk_monitor_source){ .dir = core->families[i].dir,
								       .ctx = denied };
	ret = mk_monitor_take_drops(sources, count, core->config.state_dir, &reader,
				    denied->since_ns, err);
	if (ret >= 0)
		say_paused(denied, ret > 0);
	return ret < 0 ? ret : 0;
}

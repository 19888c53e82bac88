// SPDX-License-Identifier: Apache-2.0
/* `monokube monitor`: flows when they begin, as the router gets them, and drops. An event of the
 * program (bpf/monitor.bpf.c) is completed from the tables: destination, masquerade, names. */
#include <arpa/inet.h>
#include <net/if.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "cli/print.h"
#include "cli/inspect/view.h"
#include "cli/inspect/view_internal.h"
#include "datapath/monitor/drops.h"
#include "datapath/sessions/counts.h"

#define DROPS_PER_S 1000

enum { SERVICES, NAT, NAT_NEW, TABLES };
static const struct {
	const char *name;
	size_t key_size, value_size;
} table_rows[TABLES] = {
	[SERVICES] = { "frontends", sizeof(struct mk_frontend_key), sizeof(struct mk_frontend) },
	[NAT] = { "nat_sessions", sizeof(struct mk_tuple), sizeof(struct mk_session) },
	[NAT_NEW] = { "nat_sessions_young", sizeof(struct mk_tuple), sizeof(struct mk_session) },
};

struct monitor;

/* What belongs to one family. */
struct half {
	struct monitor *monitor;
	struct mk_events events;
	struct mk_table tables[TABLES];
	struct mk_addr pod, ip; /* zero: any */
	uint32_t service_id; /* 0: any */
};

struct monitor {
	const struct mk_cli_options *options;
	struct half halves[MK_FAMILIES];
	size_t count; /* families that fit the filters */
	int64_t boot_unix_ns; /* when CLOCK_MONOTONIC was 0 */
	unsigned int told;
	uint64_t second_ns, left_out; /* left_out: drops not printed */
	unsigned int drops_told; /* since second_ns */
};

/* ---- filters --------------------------------------------------------------------------------- */

static bool has_addr(const struct mk_tuple *tuple, const struct mk_addr *addr)
{
	return mk_addr_eq(&tuple->saddr, addr) || mk_addr_eq(&tuple->daddr, addr);
}

static bool has_port(const struct mk_tuple *tuple, __be16 port)
{
	return tuple->sport == port || tuple->dport == port;
}

static bool is_any(const struct mk_addr *addr)
{
	const struct mk_addr any = { 0 };

	return mk_addr_eq(addr, &any);
}

/* Compares the packet before and after load balancing. */
static bool fits(const struct half *half, const struct mk_tuple *came, const struct mk_tuple *goes)
{
	const struct mk_cli_options *options = half->monitor->options;
	__be16 port = htons((uint16_t)options->port);

	return (is_any(&half->pod) || has_addr(came, &half->pod) || has_addr(goes, &half->pod)) &&
	       (is_any(&half->ip) || has_addr(came, &half->ip) || has_addr(goes, &half->ip)) &&
	       (!port || has_port(came, port) || has_port(goes, port)) &&
	       (!options->protocol ||
		mk_view_protocol(&half->events.view, options->protocol) == came->proto);
}

/* Returns the service_id of the Service that a dropped packet was for, or from; 0: none. */
static uint32_t account_of(const struct half *half, const struct mk_tuple *tuple)
{
	struct mk_frontend service;

	for (int i = 0; i < 4; i++) {
		const struct mk_frontend_key key = {
			.addr = i < 2 ? tuple->daddr : tuple->saddr,
			.port = i < 2 ? tuple->dport : tuple->sport,
			.proto = tuple->proto,
			.scope = i % 2 ? MK_SCOPE_EXTERNAL : MK_SCOPE_INTERNAL,
		};

		if (mk_table_get(&half->tables[SERVICES], &key, &service, NULL) == 0)
			return service.service_id;
	}
	return 0;
}

static void count(struct monitor *monitor)
{
	unsigned int limit = monitor->options->count;

	if (limit && ++monitor->told >= limit)
		events_stop();
}

static bool is_over(const struct monitor *monitor)
{
	unsigned int limit = monitor->options->count;

	return limit && monitor->told >= limit;
}

/* ---- one event ------------------------------------------------------------------------------- */

/* What both kinds of events have: when, where, which packet. */
struct seen {
	uint64_t time_ns;
	uint32_t ifindex;
	uint16_t length_bytes;
	uint8_t hook;
	const struct mk_tuple *tuple; /* as it came */
};

static void put_tuple(struct json_object *to, const char *from_key, const char *to_key,
		      const struct mk_tuple *tuple)
{
	char text[MK_ENDPOINT_STRLEN];

	mk_put_text(to, from_key, mk_cli_endpoint(&tuple->saddr, tuple->sport, text));
	mk_put_text(to, to_key, mk_cli_endpoint(&tuple->daddr, tuple->dport, text));
}

static void put_seen(struct json_object *to, struct half *half, const struct seen *seen,
		     const char *verdict, const struct mk_addr *dest)
{
	char device[IF_NAMESIZE] = "?", number[16], who[MK_VIEW_WHO_BYTES], time[MK_TIME_STRLEN];

	if_indextoname(seen->ifindex, device);
	mk_put_text(to, "time",
		    mk_time_format(half->monitor->boot_unix_ns + (int64_t)seen->time_ns, time));
	mk_put_text(to, "verdict", verdict);
	mk_put_text(to, "protocol", mk_cli_protocol_name(seen->tuple->proto, number));
	put_tuple(to, "from", "to", seen->tuple);
	mk_put_text(to, "hook", mk_hook_name(seen->hook));
	mk_put_text(to, "device", device);
	mk_put_number(to, "bytes", seen->length_bytes);
	mk_put_text(to, "fromName",
		    events_name(&half->events, seen->time_ns, &seen->tuple->saddr, who));
	mk_put_text(to, "toName", events_name(&half->events, seen->time_ns, dest, who));
}

static const char *text_of(struct json_object *event, const char *key)
{
	return json_object_get_string(json_object_object_get(event, key));
}

/* Print " key=value", quoted if it has several words; nothing if it is empty. */
static void print_member(struct json_object *event, const char *key, const char *as)
{
	const char *value = text_of(event, key);

	if (value && *value)
		printf(strchr(value, ' ') ? " %s=\"%s\"" : " %s=%s", as, value);
}

static void print_event(const struct monitor *monitor, struct json_object *event)
{
	static const char *const members[][2] = {
		{ "reason", "reason" },	 { "service", "service" }, { "state", "state" },
		{ "hook", "hook" },	 { "device", "dev" },	   { "bytes", "length" },
		{ "tcpFlags", "flags" }, { "fromName", "from" },   { "toName", "to" },
		{ "policy", "policy" },
	};

	if (monitor->options->json) {
		printf("%s\n",
		       json_object_to_json_string_ext(event, JSON_C_TO_STRING_NOSLASHESCAPE));
	} else {
		printf("%s %s %s %s > %s", text_of(event, "time"), text_of(event, "verdict"),
		       text_of(event, "protocol"), text_of(event, "from"), text_of(event, "to"));
		if (json_object_object_get(event, "newFrom"))
			printf(" as %s > %s", text_of(event, "newFrom"), text_of(event, "newTo"));
		for (size_t i = 0; i < MK_ARRAY_SIZE(members); i++)
			print_member(event, members[i][0], members[i][1]);
		printf("\n");
	}
	if (fflush(stdout) == EOF)
		events_stop();
}

/* ---- flows ----------------------------------------------------------------------------------- */

/* Returns where the router sends it; a dropped packet has an event of its own. */
static const char *way_of(const struct half *half, const struct mk_flow_event *event)
{
	struct mk_route route = { 0 };

	if (event->to_host)
		return "to-host";
	if (!mk_view_route(&half->events.view, &event->goes.daddr, &route))
		return "to-outside";
	switch (route.type) {
	case MK_ROUTE_PODS:
		return "to-pod";
	case MK_ROUTE_OVERLAY:
		return "to-node";
	case MK_ROUTE_HOST:
		return "to-host";
	}
	return "to-unknown";
}

static const char *state_of(uint8_t session, uint8_t flags)
{
	if (session == MK_FLOW_NO_SESSION)
		return NULL;
	if (flags & (MK_SESSION_FIN | MK_SESSION_RST))
		return "closing";
	return session == MK_FLOW_ESTABLISHED ? "established" : "new";
}

/* Find the masquerade session, which was created after the router's event. */
static bool read_nat(const struct half *half, const struct mk_tuple *goes,
		     struct mk_session *session, uint8_t *state)
{
	*state = MK_FLOW_ESTABLISHED;
	if (mk_table_get(&half->tables[NAT], goes, session, NULL) == 0) {
		if (mk_session_is_half_open(session))
			*state = MK_FLOW_OPENING;
		return true;
	}
	*state = MK_FLOW_OPENING;
	return mk_table_get(&half->tables[NAT_NEW], goes, session, NULL) == 0;
}

static void put_translation(struct json_object *to, const struct half *half,
			    const struct mk_flow_event *event)
{
	uint8_t state = event->session, flags = event->session_flags;
	struct mk_tuple goes = event->goes;
	struct mk_session nat;

	if (!event->to_host && read_nat(half, &event->goes, &nat, &state)) {
		goes = nat.to;
		flags = mk_session_flags(&nat);
	} else {
		state = event->session;
	}
	if (memcmp(&goes, &event->came, sizeof(goes)) != 0)
		put_tuple(to, "newFrom", "newTo", &goes);
	mk_put_text(to, "state", state_of(state, flags));
}

static void put_tcp_flags(struct json_object *to, uint8_t flags)
{
	static const char letters[] = "FSRPAU"; /* from bit 0: RFC 9293, 3.1 */
	char text[8] = "";
	size_t length = 0;

	for (size_t i = 0; i + 1 < sizeof(letters); i++)
		if (flags & 1 << i)
			text[length++] = letters[i];
	mk_put_text(to, "tcpFlags", text);
}

static void on_flow(void *ctx, const struct mk_flow_event *event)
{
	const struct seen seen = { event->time_ns, event->ifindex, event->length_bytes, event->hook,
				   &event->came };
	cleanup_json struct json_object *object = NULL;
	struct half *half = ctx;
	struct monitor *monitor = half->monitor;

	if (is_over(monitor) || !fits(half, &event->came, &event->goes))
		return;
	object = json_object_new_object();
	put_seen(object, half, &seen, way_of(half, event), &event->goes.daddr);
	put_translation(object, half, event);
	mk_put_text(object, "service", mk_names_find(&half->events.view.names, event->service_id));
	if (event->goes.proto == IPPROTO_TCP)
		put_tcp_flags(object, event->tcp_flags);
	mk_put_flag(object, "sampled", event->sampled);
	print_event(monitor, object);
	count(monitor);
}

/* ---- drops ----------------------------------------------------------------------------------- */

static bool may_tell_drop(struct monitor *monitor, uint64_t now_ns)
{
	if (now_ns - monitor->second_ns >= MK_NS_PER_S) {
		monitor->second_ns = now_ns;
		monitor->drops_told = 0;
	}
	if (monitor->drops_told++ < DROPS_PER_S)
		return true;
	monitor->left_out++;
	return false;
}

static void on_drop(void *ctx, const struct mk_drop_event *event)
{
	const struct seen seen = { event->time_ns, event->ifindex, event->length_bytes, event->hook,
				   &event->tuple };
	struct half *half = ctx;
	struct monitor *monitor = half->monitor;
	uint32_t service_id = account_of(half, &event->tuple);
	cleanup_json struct json_object *object = NULL;
	char policy[MK_POLICY_TEXT_BYTES];

	if (is_over(monitor) || !fits(half, &event->tuple, &event->tuple) ||
	    (half->service_id && half->service_id != service_id) ||
	    !may_tell_drop(monitor, event->time_ns))
		return;
	object = json_object_new_object();
	put_seen(object, half, &seen, event->decided.audited ? "passed" : "dropped",
		 &event->tuple.daddr);
	mk_put_text(object, "reason", events_reason(event));
	mk_put_text(object, "service", mk_names_find(&half->events.view.names, service_id));
	mk_put_text(object, "meaning",
		    event->decided.audited ? "audited policies would drop it"
					   : mk_drop_reason_text(event->reason));
	if (!event->decided.audited)
		mk_put_text(object, "remedy", mk_drop_remedy(event->reason));
	mk_put_text(object, "policy", events_policy(&half->events, event, policy));
	print_event(monitor, object);
	count(monitor);
}

/* ---- the command ----------------------------------------------------------------------------- */

static int read_address(const struct half *half, const char *flag, const char *word,
			struct mk_addr *addr, struct mk_error *err)
{
	const sa_family_t family = half->events.view.family;
	struct mk_ip ip;

	if (mk_ip_parse(word, &ip) < 0 || ip.family != family)
		return mk_error_set(err, EINVAL, "flag %s: value '%s', expected an %s address",
				    flag, word,
				    half->monitor->options->family_count > 1
					    ? "IPv4 or IPv6"
					    : mk_family_name(family));
	*addr = mk_ip_to_addr(&ip);
	return 0;
}

static int read_pod(struct half *half, const char *word, struct mk_error *err)
{
	const struct mk_view_pod *pod = mk_view_pod_named(&half->events.view, word);
	struct mk_ip ip;

	if (!pod && mk_ip_parse(word, &ip) == 0)
		return read_address(half, "--pod", word, &half->pod, err);
	if (!pod)
		return mk_error_set(
			err, ENOENT,
			"no pod '%s' on this node: `monokube pods` lists all; for a pod of another node give its address",
			word);
	half->pod = pod->addr;
	return 0;
}

/* An error: the filters fit nothing of this family. */
static int read_filters(struct half *half, struct mk_error *err)
{
	const struct mk_cli_options *options = half->monitor->options;
	int ret = options->ip ? read_address(half, "--ip", options->ip, &half->ip, err) : 0;

	if (ret == 0 && options->pod)
		ret = read_pod(half, options->pod, err);
	if (ret < 0 || !options->service)
		return ret;
	ret = mk_view_service_named(&half->events.view, options->service, &half->service_id, err);
	if (ret == 0 && !half->service_id)
		return mk_error_set(err, ENOENT, "no Service '%s': `monokube services` lists all",
				    options->service);
	return ret;
}

static int open_tables(struct half *half, struct mk_error *err)
{
	int ret = 0;

	for (int i = 0; ret == 0 && i < TABLES; i++)
		ret = mk_table_open(&half->tables[i], half->events.view.dir, table_rows[i].name,
				    table_rows[i].key_size, table_rows[i].value_size, err);
	return ret;
}

static void close_half(struct half *half)
{
	for (int i = 0; i < TABLES; i++)
		mk_table_close(&half->tables[i]);
	events_release(&half->events);
}

static int open_half(struct half *half, struct mk_error *err)
{
	struct mk_events *events = &half->events;
	int ret = view_open(&events->view, events->options, events->family, err);

	ret = ret ?: read_filters(half, err);
	ret = ret ?: open_tables(half, err);
	if (ret < 0)
		close_half(half);
	return ret;
}

/* Open the families that fit the filters: at least one. */
static int open_halves(struct monitor *monitor, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; i < monitor->options->family_count; i++) {
		struct half *half = &monitor->halves[monitor->count];

		*half = (struct half){ .monitor = monitor,
				       .events = { .options = monitor->options, .family = i } };
		if (open_half(half, ret < 0 ? NULL : err) < 0)
			ret = -EINVAL;
		else
			monitor->count++;
	}
	return monitor->count ? 0 : ret;
}

static struct mk_monitor_source source_of(struct half *half)
{
	const struct mk_cli_options *options = half->monitor->options;
	const struct mk_view *view = &half->events.view;

	return (struct mk_monitor_source){
		.dir = view->dir,
		.settings = { .sample = options->sample,
			      .service_id = half->service_id,
			      .addr = is_any(&half->pod) ? half->ip : half->pod,
			      .port = htons((uint16_t)options->port),
			      .proto = mk_view_protocol(view, options->protocol) },
		.ctx = half,
	};
}

static int follow(struct monitor *monitor, struct mk_error *err)
{
	struct mk_monitor_source sources[MK_FAMILIES];
	struct mk_monitor_reader reader = {
		.flow = monitor->options->drops ? NULL : on_flow,
		.drop = on_drop,
	};
	int ret;

	for (size_t i = 0; i < monitor->count; i++)
		sources[i] = source_of(&monitor->halves[i]);
	ret = events_follow(monitor->options, sources, monitor->count, &reader, err);
	reader.left_out += monitor->left_out;
	if (reader.left_out)
		fprintf(stderr,
			"%llu more were not printed: the limit is %d a second and CPU. A filter, or a larger --sample, leaves fewer\n",
			(unsigned long long)reader.left_out, MK_MONITOR_EVENTS_PER_S);
	return ret;
}

int mk_cli_monitor(int argc, char **argv)
{
	struct mk_cli_options options;
	struct monitor monitor = { .options = &options };
	struct mk_error err = { 0 };
	int ret = mk_cli_options_read(&options, argc, argv, &err);

	if (ret > 0)
		return 0;
	if (ret < 0)
		return mk_cli_fail(argv[0], &err);
	monitor.boot_unix_ns = mk_time_now_unix_ns() - (int64_t)mk_time_monotonic_ns();
	ret = open_halves(&monitor, &err);
	ret = ret ?: follow(&monitor, &err);
	for (size_t i = 0; i < monitor.count; i++)
		close_half(&monitor.halves[i]);
	return ret < 0 ? mk_cli_fail(argv[0], &err) : 0;
}

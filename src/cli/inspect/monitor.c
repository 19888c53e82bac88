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
#include "datapath/maps/object.h"
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

struct monitor {
	struct mk_events events;
	struct mk_table tables[TABLES];
	struct mk_addr pod, ip; /* zero: any */
	uint32_t service_id; /* 0: any */
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
static bool fits(const struct monitor *monitor, const struct mk_tuple *came,
		 const struct mk_tuple *goes)
{
	const struct mk_cli_options *options = monitor->events.options;
	__be16 port = htons((uint16_t)options->port);

	return (is_any(&monitor->pod) || has_addr(came, &monitor->pod) ||
		has_addr(goes, &monitor->pod)) &&
	       (is_any(&monitor->ip) || has_addr(came, &monitor->ip) ||
		has_addr(goes, &monitor->ip)) &&
	       (!port || has_port(came, port) || has_port(goes, port)) &&
	       (!options->protocol ||
		mk_view_protocol(&monitor->events.view, options->protocol) == came->proto);
}

/* Returns the service_id of the Service that a dropped packet was for, or from; 0: none. */
static uint32_t account_of(const struct monitor *monitor, const struct mk_tuple *tuple)
{
	struct mk_frontend service;

	for (int i = 0; i < 4; i++) {
		const struct mk_frontend_key key = {
			.addr = i < 2 ? tuple->daddr : tuple->saddr,
			.port = i < 2 ? tuple->dport : tuple->sport,
			.proto = tuple->proto,
			.scope = i % 2 ? MK_SCOPE_EXTERNAL : MK_SCOPE_INTERNAL,
		};

		if (mk_table_get(&monitor->tables[SERVICES], &key, &service, NULL) == 0)
			return service.service_id;
	}
	return 0;
}

static void count(struct monitor *monitor)
{
	unsigned int limit = monitor->events.options->count;

	if (limit && ++monitor->told >= limit)
		events_stop();
}

static bool is_over(const struct monitor *monitor)
{
	unsigned int limit = monitor->events.options->count;

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

static void put_seen(struct json_object *to, struct monitor *monitor, const struct seen *seen,
		     const char *verdict, const struct mk_addr *dest)
{
	char device[IF_NAMESIZE] = "?", number[16], who[MK_VIEW_WHO_BYTES], time[MK_TIME_STRLEN];

	if_indextoname(seen->ifindex, device);
	mk_put_text(to, "time",
		    mk_time_format(monitor->boot_unix_ns + (int64_t)seen->time_ns, time));
	mk_put_text(to, "verdict", verdict);
	mk_put_text(to, "protocol", mk_cli_protocol_name(seen->tuple->proto, number));
	put_tuple(to, "from", "to", seen->tuple);
	mk_put_text(to, "hook", mk_hook_name(seen->hook));
	mk_put_text(to, "device", device);
	mk_put_number(to, "bytes", seen->length_bytes);
	mk_put_text(to, "fromName",
		    events_name(&monitor->events, seen->time_ns, &seen->tuple->saddr, who));
	mk_put_text(to, "toName", events_name(&monitor->events, seen->time_ns, dest, who));
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
	};

	if (monitor->events.options->json) {
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
static const char *way_of(const struct monitor *monitor, const struct mk_flow_event *event)
{
	struct mk_route route = { 0 };

	if (event->to_host)
		return "to-host";
	if (!mk_view_route(&monitor->events.view, &event->goes.daddr, &route))
		return "to-outside";
	switch (route.type) {
	case MK_ROUTE_PODS:
		return "to-pod";
	case MK_ROUTE_OVERLAY:
		return "to-node";
	case MK_ROUTE_HOST:
		return "to-host";
	}
	return "to-nobody";
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
static bool read_nat(const struct monitor *monitor, const struct mk_tuple *goes,
		     struct mk_session *session, uint8_t *state)
{
	*state = MK_FLOW_ESTABLISHED;
	if (mk_table_get(&monitor->tables[NAT], goes, session, NULL) == 0) {
		if (mk_session_is_half_open(session))
			*state = MK_FLOW_OPENING;
		return true;
	}
	*state = MK_FLOW_OPENING;
	return mk_table_get(&monitor->tables[NAT_NEW], goes, session, NULL) == 0;
}

static void put_translation(struct json_object *to, const struct monitor *monitor,
			    const struct mk_flow_event *event)
{
	uint8_t state = event->session, flags = event->session_flags;
	struct mk_tuple goes = event->goes;
	struct mk_session nat;

	if (!event->to_host && read_nat(monitor, &event->goes, &nat, &state)) {
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
	struct monitor *monitor = ctx;

	if (is_over(monitor) || !fits(monitor, &event->came, &event->goes))
		return;
	object = json_object_new_object();
	put_seen(object, monitor, &seen, way_of(monitor, event), &event->goes.daddr);
	put_translation(object, monitor, event);
	mk_put_text(object, "service",
		    mk_names_find(&monitor->events.view.names, event->service_id));
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
	struct monitor *monitor = ctx;
	uint32_t service_id = account_of(monitor, &event->tuple);
	cleanup_json struct json_object *object = NULL;

	if (is_over(monitor) || !fits(monitor, &event->tuple, &event->tuple) ||
	    (monitor->service_id && monitor->service_id != service_id) ||
	    !may_tell_drop(monitor, event->time_ns))
		return;
	object = json_object_new_object();
	put_seen(object, monitor, &seen, "dropped", &event->tuple.daddr);
	mk_put_text(object, "reason", mk_drop_reason_name(event->reason));
	mk_put_text(object, "service", mk_names_find(&monitor->events.view.names, service_id));
	mk_put_text(object, "meaning", mk_drop_reason_text(event->reason));
	mk_put_text(object, "remedy", mk_drop_remedy(event->reason));
	print_event(monitor, object);
	count(monitor);
}

/* ---- the command ----------------------------------------------------------------------------- */

static int read_address(const struct monitor *monitor, const char *flag, const char *word,
			struct mk_addr *addr, struct mk_error *err)
{
	const sa_family_t family = mk_node_family(&monitor->events.view.node);
	struct mk_ip ip;

	if (mk_ip_parse(word, &ip) < 0 || ip.family != family)
		return mk_error_set(err, EINVAL, "flag %s: value '%s', expected an %s address",
				    flag, word, mk_family_name(family));
	*addr = mk_ip_to_addr(&ip);
	return 0;
}

static int read_pod(struct monitor *monitor, const char *word, struct mk_error *err)
{
	const struct mk_view_pod *pod = mk_view_pod_named(&monitor->events.view, word);
	struct mk_ip ip;

	if (!pod && mk_ip_parse(word, &ip) == 0)
		return read_address(monitor, "--pod", word, &monitor->pod, err);
	if (!pod)
		return mk_error_set(
			err, ENOENT,
			"no pod '%s' on this node: `monokube pods` lists all; for a pod of another node give its address",
			word);
	monitor->pod = pod->addr;
	return 0;
}

static int read_filters(struct monitor *monitor, struct mk_error *err)
{
	const struct mk_cli_options *options = monitor->events.options;
	int ret = options->ip ? read_address(monitor, "--ip", options->ip, &monitor->ip, err) : 0;

	if (ret == 0 && options->pod)
		ret = read_pod(monitor, options->pod, err);
	if (ret < 0 || !options->service)
		return ret;
	ret = mk_view_service_named(&monitor->events.view, options->service, &monitor->service_id,
				    err);
	if (ret == 0 && !monitor->service_id)
		return mk_error_set(err, ENOENT, "no Service '%s': `monokube services` lists all",
				    options->service);
	return ret;
}

static int open_tables(struct monitor *monitor, struct mk_error *err)
{
	int ret = 0;

	for (int i = 0; ret == 0 && i < TABLES; i++)
		ret = mk_table_open(&monitor->tables[i], monitor->events.options->bpf_dir,
				    table_rows[i].name, table_rows[i].key_size,
				    table_rows[i].value_size, err);
	return ret;
}

static int follow(struct monitor *monitor, struct mk_error *err)
{
	const struct mk_cli_options *options = monitor->events.options;
	struct mk_monitor_reader reader = {
		.settings = { .sample = options->sample,
			      .service_id = monitor->service_id,
			      .addr = is_any(&monitor->pod) ? monitor->ip : monitor->pod,
			      .port = htons((uint16_t)options->port),
			      .proto = mk_view_protocol(&monitor->events.view, options->protocol) },
		.flow = options->drops ? NULL : on_flow,
		.drop = on_drop,
		.ctx = monitor,
	};
	int ret = events_follow(&monitor->events, &reader, err);

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
	struct monitor monitor = { .events.options = &options,
				   .tables = { { .fd = -1 }, { .fd = -1 }, { .fd = -1 } } };
	struct mk_error err = { 0 };
	int ret = mk_cli_options_read(&options, argc, argv, &err);

	if (ret > 0)
		return 0;
	if (ret < 0)
		return mk_cli_fail(argv[0], &err);
	monitor.boot_unix_ns = mk_time_now_unix_ns() - (int64_t)mk_time_monotonic_ns();
	ret = view_open(&monitor.events.view, &options, &err) ?: read_filters(&monitor, &err);
	ret = ret ?: open_tables(&monitor, &err);
	ret = ret ?: follow(&monitor, &err);
	for (int i = 0; i < TABLES; i++)
		mk_table_close(&monitor.tables[i]);
	mk_view_release(&monitor.events.view);
	return ret < 0 ? mk_cli_fail(argv[0], &err) : 0;
}

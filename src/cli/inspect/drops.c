// SPDX-License-Identifier: Apache-2.0
/* monokube drops. */
#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "cli/print.h"
#include "cli/inspect/view.h"
#include "cli/inspect/view_internal.h"
#include "datapath/monitor/drops.h"

/* ---- totals ---------------------------------------------------------------------------------- */

int mk_cli_drops_read(const struct mk_cli_options *options, struct mk_drop_totals *totals,
		      struct mk_error *err)
{
	*totals = (struct mk_drop_totals){ 0 };
	for (size_t i = 0; i < options->family_count; i++) {
		struct mk_drop_totals more;
		int ret = mk_drops_read(options->families[i].dir, &more, err);

		if (ret < 0)
			return ret;
		for (unsigned int reason = 0; reason < MK_DROP_COUNT; reason++)
			for (unsigned int hook = 0; hook < MK_HOOK_COUNT; hook++) {
				totals->counter[reason][hook].packets +=
					more.counter[reason][hook].packets;
				totals->counter[reason][hook].bytes +=
					more.counter[reason][hook].bytes;
			}
	}
	return 0;
}

static struct json_object *counter_json(unsigned int reason, unsigned int hook,
					const struct mk_drop_counter *counter)
{
	struct json_object *object = json_object_new_object();

	mk_put_text(object, "reason", mk_drop_reason_name(reason));
	mk_put_text(object, "hook", mk_hook_name(hook));
	mk_put_number(object, "packets", counter->packets);
	mk_put_number(object, "bytes", counter->bytes);
	mk_put_text(object, "meaning", mk_drop_reason_text(reason));
	mk_put_text(object, "remedy", mk_drop_remedy(reason));
	return object;
}

static int print_totals(const struct mk_cli_options *options, struct mk_error *err)
{
	static const struct mk_cli_column columns[] = {
		{ "REASON", "reason" }, { "HOOK", "hook" },	  { "PACKETS", "packets" },
		{ "BYTES", "bytes" },	{ "MEANING", "meaning" },
	};
	cleanup_json struct json_object *list = json_object_new_array();
	struct mk_drop_totals totals;
	int ret = mk_cli_drops_read(options, &totals, err);

	if (ret < 0)
		return ret;
	for (unsigned int reason = 0; reason < MK_DROP_COUNT; reason++)
		for (unsigned int hook = 0; hook < MK_HOOK_COUNT; hook++)
			if (totals.counter[reason][hook].packets)
				json_object_array_add(list,
						      counter_json(reason, hook,
								   &totals.counter[reason][hook]));
	return mk_cli_print_list(stdout, list, options->json, columns, MK_ARRAY_SIZE(columns), err);
}

/* ---- one by one ------------------------------------------------------------------------------ */

static void print_event_json(struct mk_events *events, const struct mk_drop_event *event,
			     const char *device)
{
	cleanup_json struct json_object *object = json_object_new_object();
	char text[MK_ENDPOINT_STRLEN], who[MK_VIEW_WHO_BYTES], number[16];
	char policy[MK_POLICY_TEXT_BYTES];

	mk_put_number(object, "timeNs", event->time_ns);
	mk_put_text(object, "reason", events_reason(event));
	mk_put_text(object, "hook", mk_hook_name(event->hook));
	mk_put_text(object, "device", device);
	mk_put_number(object, "bytes", event->length_bytes);
	mk_put_text(object, "protocol", mk_cli_protocol_name(event->tuple.proto, number));
	mk_put_text(object, "from", mk_cli_endpoint(&event->tuple.saddr, event->tuple.sport, text));
	mk_put_text(object, "fromName",
		    events_name(events, event->time_ns, &event->tuple.saddr, who));
	mk_put_text(object, "to", mk_cli_endpoint(&event->tuple.daddr, event->tuple.dport, text));
	mk_put_text(object, "toName",
		    events_name(events, event->time_ns, &event->tuple.daddr, who));
	mk_put_text(object, "policy", events_policy(events, event, policy));
	printf("%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_NOSLASHESCAPE));
}

static void print_event(void *ctx, const struct mk_drop_event *event)
{
	const struct mk_tuple *tuple = &event->tuple;
	char from[MK_ENDPOINT_STRLEN], to[MK_ENDPOINT_STRLEN], name[IF_NAMESIZE] = "?";
	char from_who[MK_VIEW_WHO_BYTES], to_who[MK_VIEW_WHO_BYTES];
	struct mk_ip saddr = mk_ip_from_addr(&tuple->saddr), daddr = mk_ip_from_addr(&tuple->daddr);
	struct mk_events *events = ctx;
	char policy[MK_POLICY_TEXT_BYTES];

	if_indextoname(event->ifindex, name);
	if (events->options->json) {
		print_event_json(events, event, name);
		fflush(stdout);
		return;
	}
	events_name(events, event->time_ns, &tuple->saddr, from_who);
	events_name(events, event->time_ns, &tuple->daddr, to_who);
	events_policy(events, event, policy);
	printf("%llu.%06llu %s hook=%s dev=%s length=%u proto=%u %s:%u > %s:%u%s%s%s%s%s%s%s%s%s\n",
	       (unsigned long long)(event->time_ns / 1000000000ULL),
	       (unsigned long long)(event->time_ns % 1000000000ULL / 1000), events_reason(event),
	       mk_hook_name(event->hook), name, event->length_bytes, tuple->proto,
	       mk_ip_format(&saddr, from), ntohs(tuple->sport), mk_ip_format(&daddr, to),
	       ntohs(tuple->dport), *from_who ? " from=\"" : "", from_who, *from_who ? "\"" : "",
	       *to_who ? " to=\"" : "", to_who, *to_who ? "\"" : "", *policy ? " policy=\"" : "",
	       policy, *policy ? "\"" : "");
	fflush(stdout);
}

static int follow(const struct mk_cli_options *options, struct mk_error *err)
{
	struct mk_monitor_reader reader = { .drop = print_event };
	struct mk_monitor_source sources[MK_FAMILIES] = { 0 };
	struct mk_events events[MK_FAMILIES] = { 0 };
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < options->family_count; i++) {
		events[i] = (struct mk_events){ .options = options, .family = i };
		sources[i] = (struct mk_monitor_source){ .dir = options->families[i].dir,
							 .ctx = &events[i] };
		ret = view_open(&events[i].view, options, i, err);
	}
	ret = ret ?: events_follow(options, sources, options->family_count, &reader, err);
	for (size_t i = 0; i < options->family_count; i++)
		events_release(&events[i]);
	return ret;
}

int mk_cli_drops(int argc, char **argv)
{
	struct mk_cli_options options;
	struct mk_error err = { 0 };
	int ret = mk_cli_options_read(&options, argc, argv, &err);

	if (ret > 0)
		return 0;
	if (ret == 0)
		ret = options.follow ? follow(&options, &err) : print_totals(&options, &err);
	return ret < 0 ? mk_cli_fail("drops", &err) : 0;
}

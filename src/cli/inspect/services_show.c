// SPDX-License-Identifier: Apache-2.0
/* Prints the list of Services, as text or JSON. */
#include <arpa/inet.h>

#include "base/cleanup.h"
#include "base/ip.h"
#include "cli/print.h"
#include "cli/inspect/services.h"
#include "datapath/monitor/drops.h"

static const struct {
	uint16_t flag;
	const char *word;
} flag_words[] = {
	{ MK_FRONTEND_MASQUERADE, "masquerade" },     { MK_FRONTEND_MAGLEV, "maglev" },
	{ MK_FRONTEND_DROP_EMPTY, "drop-if-empty" },  { MK_FRONTEND_PREFERS, "prefers" },
	{ MK_FRONTEND_WITHOUT_DOWN, "without-down" },
};

static const char *protocol_name(uint8_t proto)
{
	return proto == IPPROTO_TCP    ? "TCP"
	       : proto == IPPROTO_UDP  ? "UDP"
	       : proto == IPPROTO_SCTP ? "SCTP"
				       : "?";
}

static const char *scope_name(uint8_t scope)
{
	return scope == MK_SCOPE_INTERNAL ? "internal" : "external";
}

/* ---- text ------------------------------------------------------------------------------------ */

static const char *format(const struct mk_addr *addr, __be16 port, char *buf)
{
	const struct mk_ip_port at = { .ip = mk_ip_from_addr(addr), .port = ntohs(port) };

	return mk_ip_port_format(&at, buf);
}

static void print_backends(FILE *out, const struct mk_cli_frontend *frontend)
{
	char at[MK_IP_PORT_STRLEN];

	for (size_t i = 0; i < frontend->value.backend_count; i++)
		fprintf(out, " %s%s",
			format(&frontend->backends[i].addr, frontend->backends[i].port, at),
			i < frontend->value.local_count ? "(local)" : "");
	if (frontend->value.backend_count == 0)
		fprintf(out, " no endpoint");
}

static void print_frontend(FILE *out, const struct mk_cli_frontend *frontend)
{
	char at[MK_IP_PORT_STRLEN], where[MK_IP_PORT_STRLEN + 8];

	snprintf(where, sizeof(where), "%s/%s", format(&frontend->key.addr, frontend->key.port, at),
		 protocol_name(frontend->key.proto));
	fprintf(out, "  %-27s %s", where, scope_name(frontend->key.scope));
	for (size_t i = 0; i < MK_ARRAY_SIZE(flag_words); i++)
		if (frontend->value.flags & flag_words[i].flag)
			fprintf(out, " %s", flag_words[i].word);
	if (frontend->value.affinity_id)
		fprintf(out, " affinity=%us", frontend->value.affinity_timeout_s);
	if (frontend->value.ranges_id)
		fprintf(out, " source-ranges");
	fprintf(out, " ->");
	print_backends(out, frontend);
	fprintf(out, "\n");
}

static void print_totals(FILE *out, const struct mk_service_totals *totals)
{
	const struct mk_service_counter *counter = &totals->counter;

	fprintf(out,
		"  connections %llu, requests %llu packets %llu bytes, replies %llu packets %llu bytes\n",
		counter->connections, counter->packets[MK_FLOW_REQUEST],
		counter->bytes[MK_FLOW_REQUEST], counter->packets[MK_FLOW_REPLY],
		counter->bytes[MK_FLOW_REPLY]);
	for (unsigned int reason = 0; reason < MK_DROP_COUNT; reason++)
		if (totals->drops[reason])
			fprintf(out, "  dropped %lu %s: %s\n", totals->drops[reason],
				mk_drop_reason_name(reason), mk_drop_reason_text(reason));
}

void cli_show_text(FILE *out, const struct mk_cli_service *services, size_t count)
{
	static const struct mk_service_totals none;

	if (!count)
		fprintf(out, "no Services in the tables of this node\n");
	for (size_t i = 0; i < count; i++) {
		const struct mk_cli_service *service = &services[i];

		fprintf(out, "%s (id %u)\n", service->name ? service->name : "?",
			service->service_id);
		for (size_t j = 0; j < service->frontend_count; j++)
			print_frontend(out, &service->frontends[j]);
		print_totals(out, service->totals ? service->totals : &none);
	}
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void add_address(struct json_object *to, const struct mk_addr *addr, __be16 port)
{
	struct mk_ip ip = mk_ip_from_addr(addr);
	char address[MK_IP_STRLEN];

	mk_put_text(to, "address", mk_ip_format(&ip, address));
	mk_put_number(to, "port", ntohs(port));
}

static struct json_object *backends_json(const struct mk_cli_frontend *frontend)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < frontend->value.backend_count; i++) {
		struct json_object *backend = json_object_new_object();

		add_address(backend, &frontend->backends[i].addr, frontend->backends[i].port);
		mk_put_flag(backend, "local", i < frontend->value.local_count);
		json_object_array_add(list, backend);
	}
	return list;
}

static struct json_object *frontend_json(const struct mk_cli_frontend *frontend)
{
	struct json_object *object = json_object_new_object(), *flags = json_object_new_array();

	add_address(object, &frontend->key.addr, frontend->key.port);
	mk_put_text(object, "protocol", protocol_name(frontend->key.proto));
	mk_put_text(object, "scope", scope_name(frontend->key.scope));
	for (size_t i = 0; i < MK_ARRAY_SIZE(flag_words); i++)
		if (frontend->value.flags & flag_words[i].flag)
			json_object_array_add(flags, json_object_new_string(flag_words[i].word));
	json_object_object_add(object, "flags", flags);
	if (frontend->value.affinity_id)
		mk_put_number(object, "affinitySeconds", frontend->value.affinity_timeout_s);
	mk_put_flag(object, "sourceRanges", frontend->value.ranges_id != 0);
	json_object_object_add(object, "backends", backends_json(frontend));
	return object;
}

static struct json_object *direction_json(const struct mk_service_counter *counter, int direction)
{
	struct json_object *object = json_object_new_object();

	mk_put_number(object, "packets", counter->packets[direction]);
	mk_put_number(object, "bytes", counter->bytes[direction]);
	return object;
}

static struct json_object *drops_json(const struct mk_service_totals *totals)
{
	struct json_object *object = json_object_new_object();

	for (unsigned int reason = 0; reason < MK_DROP_COUNT; reason++)
		if (totals->drops[reason])
			mk_put_number(object, mk_drop_reason_name(reason), totals->drops[reason]);
	return object;
}

static struct json_object *service_json(const struct mk_cli_service *service)
{
	static const struct mk_service_totals none;
	const struct mk_service_totals *totals = service->totals ? service->totals : &none;
	struct json_object *object = json_object_new_object();
	struct json_object *frontends = json_object_new_array();

	mk_put_text(object, "name", service->name);
	mk_put_number(object, "id", service->service_id);
	for (size_t i = 0; i < service->frontend_count; i++)
		json_object_array_add(frontends, frontend_json(&service->frontends[i]));
	json_object_object_add(object, "frontends", frontends);
	mk_put_number(object, "connections", totals->counter.connections);
	json_object_object_add(object, "requests",
			       direction_json(&totals->counter, MK_FLOW_REQUEST));
	json_object_object_add(object, "replies", direction_json(&totals->counter, MK_FLOW_REPLY));
	json_object_object_add(object, "drops", drops_json(totals));
	return object;
}

int cli_show_json(FILE *out, const struct mk_cli_service *services, size_t count,
		  struct mk_error *err)
{
	cleanup_json struct json_object *list = json_object_new_array();

	for (size_t i = 0; list && i < count; i++)
		json_object_array_add(list, service_json(&services[i]));
	return mk_cli_print_json(out, list, err);
}

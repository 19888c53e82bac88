// SPDX-License-Identifier: Apache-2.0
/* Turns the words FROM, TO and PORT of a trace into a packet. */
#include <arpa/inet.h>
#include <netinet/icmp6.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/trace/trace.h"

#define UNUSED_PORT 40000 /* of an invented client */

static uint8_t icmp_of(const struct mk_view *view)
{
	return mk_view_protocol(view, IPPROTO_ICMP);
}

/* Parse an address of the node's family. */
static bool read_addr(const struct mk_view *view, const char *word, struct mk_addr *addr)
{
	struct mk_ip ip;

	if (mk_ip_parse(word, &ip) < 0 || ip.family != view->family)
		return false;
	*addr = mk_ip_to_addr(&ip);
	return true;
}

/* ---- sender ---------------------------------------------------------------------------------- */

static int place_of(const struct mk_view *view, struct mk_trace_request *request,
		    struct mk_error *err)
{
	const struct mk_addr *addr = &request->tuple.saddr;
	struct mk_ip ip = mk_ip_from_addr(addr);
	char text[MK_IP_STRLEN];
	struct mk_route route = { 0 };

	request->pod = mk_view_pod(view, addr);
	if (request->pod) {
		request->place = MK_TRACE_POD;
		return 0;
	}
	if (!mk_view_route(view, addr, &route)) {
		request->place = MK_TRACE_OUTSIDE;
		return 0;
	}
	if (route.type == MK_ROUTE_HOST || route.type == MK_ROUTE_OVERLAY) {
		request->place = route.type == MK_ROUTE_HOST ? MK_TRACE_HOST : MK_TRACE_OTHER_NODE;
		return 0;
	}
	if (route.type == MK_ROUTE_CLUSTER) {
		request->place = MK_TRACE_PEER;
		return 0;
	}
	return mk_error_set(
		err, ENOENT,
		"FROM '%s' is inside the cluster's ranges, but no pod or node has it: see `monokube pods` and `monokube nodes`",
		mk_ip_format(&ip, text));
}

static int resolve_from(const struct mk_view *view, const char *word,
			struct mk_trace_request *request, struct mk_error *err)
{
	const struct mk_view_pod *pod = mk_view_pod_named(view, word);

	if (strcmp(word, "host") == 0)
		request->tuple.saddr = view->links.set.node_addr;
	else if (pod)
		request->tuple.saddr = pod->addr;
	else if (!read_addr(view, word, &request->tuple.saddr))
		return mk_error_set(
			err, EINVAL,
			"FROM '%s': expected a pod of this node (namespace/name, name, address), `host`, or an %s address outside",
			word, mk_family_name(view->family));
	return place_of(view, request, err);
}

/* ---- destination ----------------------------------------------------------------------------- */

/* Frontends that TO and PORT may mean. */
struct search {
	const struct mk_view *view;
	uint32_t service_id; /* 0: by address */
	struct mk_addr addr;
	unsigned int port, protocol; /* 0: any */
	uint8_t scope;
	struct mk_frontend_key found;
	unsigned int ports_found; /* number of different ports */
};

/* A Service's name means its own address and port, not its NodePort at the host's addresses. */
static bool is_wanted(const struct search *search, const struct mk_frontend_key *key,
		      const struct mk_frontend *service)
{
	struct mk_route route;

	if (!search->service_id)
		return mk_addr_eq(&key->addr, &search->addr);
	return service->service_id == search->service_id && !mk_addr_is_loopback(&key->addr) &&
	       !(mk_view_route(search->view, &key->addr, &route) && route.type == MK_ROUTE_HOST);
}

static int see_frontend(void *ctx, const void *key_, const void *value_, struct mk_error *err)
{
	const struct mk_frontend_key *key = key_;
	const struct mk_frontend *service = value_;
	struct search *search = ctx;

	(void)err;
	if (key->port == 0 || key->scope != search->scope || !is_wanted(search, key, service) ||
	    (search->port && ntohs(key->port) != search->port) ||
	    (search->protocol && key->proto != search->protocol))
		return 0;
	if (search->ports_found && search->found.port == key->port &&
	    search->found.proto == key->proto)
		return 0; /* another address with the same port */
	search->found = *key;
	search->ports_found++;
	return 0;
}

static int find_frontend(const struct mk_view *view, struct search *search, struct mk_error *err)
{
	cleanup_table struct mk_table frontends = { 0 };
	int ret = mk_table_open(&frontends, view->dir, "frontends", sizeof(struct mk_frontend_key),
				sizeof(struct mk_frontend), err);

	return ret < 0 ? ret : mk_table_each(&frontends, see_frontend, search, err);
}

static int resolve_service(const char *word, const struct search *search,
			   struct mk_trace_request *request, struct mk_error *err)
{
	if (search->ports_found > 1)
		return mk_error_set(
			err, EINVAL,
			"TO '%s' has several ports: name one (`monokube services` lists them)",
			word);
	if (search->ports_found == 0 && search->service_id)
		return mk_error_set(
			err, ENOENT,
			"Service '%s' has no such port, or none that is open for this sender: `monokube services %s`",
			word, word);
	if (search->ports_found) {
		request->tuple.daddr = search->found.addr;
		request->tuple.dport = search->found.port;
		request->tuple.proto = search->found.proto;
	}
	return 0;
}

#define POD_PREFIX     "pod:"
#define SERVICE_PREFIX "service:"

static const char *behind(const char *word, const char *prefix)
{
	return strncmp(word, prefix, strlen(prefix)) == 0 ? word + strlen(prefix) : NULL;
}

/* Resolve a word that is no address: NAME, pod:NAME or service:NAME. */
static int resolve_name(const struct mk_view *view, const char *word, struct search *search,
			struct mk_trace_request *request, struct mk_error *err)
{
	const char *pod_name = behind(word, POD_PREFIX);
	const char *service_name = behind(word, SERVICE_PREFIX);
	const struct mk_view_pod *pod =
		service_name ? NULL : mk_view_pod_named(view, pod_name ? pod_name : word);
	int ret = pod_name ? 0
			   : mk_view_service_named(view, service_name ? service_name : word,
						   &search->service_id, err);

	if (ret < 0 || !pod)
		return ret;
	if (search->service_id)
		return mk_error_set(err, EEXIST,
				    "TO '%s': a pod and a Service have this name: give " POD_PREFIX
				    "%s or " SERVICE_PREFIX "%s",
				    word, word, word);
	request->tuple.daddr = pod->addr;
	return 0;
}

static int resolve_to(const struct mk_view *view, const char *word, unsigned int port,
		      struct mk_trace_request *request, struct mk_error *err)
{
	struct search search = { .view = view,
				 .port = port,
				 .protocol = request->tuple.proto,
				 .scope = request->place == MK_TRACE_OUTSIDE ? MK_SCOPE_EXTERNAL
									     : MK_SCOPE_INTERNAL };
	const struct mk_addr none = { 0 };
	int ret = 0;

	if (strcmp(word, "host") == 0)
		request->tuple.daddr = view->links.set.node_addr;
	else if (!read_addr(view, word, &request->tuple.daddr))
		ret = resolve_name(view, word, &search, request, err);
	if (ret < 0)
		return ret;
	if (mk_addr_eq(&request->tuple.daddr, &none) && !search.service_id)
		return mk_error_set(
			err, ENOENT,
			"TO '%s': expected a Service or a pod of this node (namespace/name or name), `host`, or an %s address, such as that of a pod elsewhere",
			word, mk_family_name(view->family));
	if (search.protocol == icmp_of(view))
		return 0;
	search.addr = request->tuple.daddr;
	ret = find_frontend(view, &search, err);
	return ret < 0 ? ret : resolve_service(word, &search, request, err);
}

/* ---- ports ----------------------------------------------------------------------------------- */

/* "80" or "53/udp" */
static int read_port(const char *word, unsigned int *port, uint8_t *protocol, struct mk_error *err)
{
	char copy[32];
	char *slash;

	*port = 0;
	if (!word)
		return 0;
	snprintf(copy, sizeof(copy), "%s", word);
	slash = strchr(copy, '/');
	if (slash)
		*slash++ = '\0';
	*port = mk_cli_port_parse(copy);
	if (slash)
		*protocol = (uint8_t)mk_cli_protocol_parse(slash);
	if (!*port || (slash && !*protocol))
		return mk_error_set(err, EINVAL, "PORT '%s': expected 1 to 65535, or 53/udp", word);
	return 0;
}

/* ---- the form of IPv6 ------------------------------------------------------------------------ */

static int add_header(struct mk_trace_form *form, const char *name, struct mk_error *err)
{
	const char *known;

	for (size_t i = 0; (known = trace_header_name(i)); i++) {
		if (strcmp(known, name) != 0 || form->header_count == MK_TRACE_HEADERS_MAX)
			continue;
		form->headers[form->header_count++] = (uint8_t)i;
		return 0;
	}
	return mk_error_set(
		err, EINVAL,
		"--headers '%s': expected at most %d of hop-by-hop, destination, routing, source-route, fragment, ah",
		name, MK_TRACE_HEADERS_MAX);
}

static int read_headers(struct mk_trace_form *form, const char *list, struct mk_error *err)
{
	cleanup_free char *copy = list ? strdup(list) : NULL;
	char *rest = NULL;
	int ret = 0;

	for (char *name = copy ? strtok_r(copy, ",", &rest) : NULL; ret == 0 && name;
	     name = strtok_r(NULL, ",", &rest))
		ret = add_header(form, name, err);
	return ret;
}

static int read_message(struct mk_trace_form *form, const struct mk_cli_options *options,
			struct mk_error *err)
{
	static const struct {
		const char *name;
		uint8_t type;
	} messages[] = { { "rs", ND_ROUTER_SOLICIT },
			 { "ra", ND_ROUTER_ADVERT },
			 { "ns", ND_NEIGHBOR_SOLICIT },
			 { "na", ND_NEIGHBOR_ADVERT } };

	if (!options->neighbour)
		return 0;
	if (options->words[2] || options->protocol)
		return mk_error_set(err, EINVAL, "--neighbour: the message has no port");
	for (size_t i = 0; i < MK_ARRAY_SIZE(messages); i++)
		if (strcmp(messages[i].name, options->neighbour) == 0)
			form->message = messages[i].type;
	if (!form->message)
		return mk_error_set(err, EINVAL, "--neighbour '%s': expected ns, na, rs or ra",
				    options->neighbour);
	return 0;
}

/* The host's own messages go past the programs. */
static int check_message(const struct mk_trace_request *request, struct mk_error *err)
{
	if (!request->form.message || request->place != MK_TRACE_HOST)
		return 0;
	return mk_error_set(
		err, EINVAL,
		"--neighbour: expected FROM a pod or an address outside; no program changes this host's own messages");
}

/* Fill in what was not given: without a port it is a ping, with one TCP. */
static void complete(const struct mk_view *view, struct mk_trace_request *request,
		     unsigned int port, unsigned int source_port)
{
	struct mk_tuple *tuple = &request->tuple;

	if (!tuple->dport)
		tuple->dport = htons((uint16_t)port);
	if (!tuple->proto)
		tuple->proto = tuple->dport ? IPPROTO_TCP : icmp_of(view);
	tuple->sport = htons((uint16_t)(source_port ? source_port : UNUSED_PORT));
	if (request->form.message)
		tuple->sport = 0;
	if (tuple->proto == icmp_of(view))
		tuple->dport = tuple->sport;
}

int trace_resolve(const struct mk_view *view, const struct mk_cli_options *options,
		  struct mk_trace_request *request, struct mk_error *err)
{
	unsigned int port;
	int ret;

	*request = (struct mk_trace_request){ .tuple.proto = (uint8_t)options->protocol };
	ret = read_port(options->words[2], &port, &request->tuple.proto, err);
	ret = ret ?: read_headers(&request->form, options->headers, err);
	ret = ret ?: read_message(&request->form, options, err);
	if (request->form.message)
		request->tuple.proto = IPPROTO_ICMPV6;
	request->tuple.proto = mk_view_protocol(view, request->tuple.proto);
	ret = ret ?: resolve_from(view, options->words[0], request, err);
	ret = ret ?: resolve_to(view, options->words[1], port, request, err);
	ret = ret ?: check_message(request, err);
	ret = ret ?: trace_resolve_end(view, request, err);
	if (ret < 0)
		return ret;
	complete(view, request, port, options->source_port);
	if (request->tuple.dport == 0 && !request->form.message)
		return mk_error_set(err, EINVAL, "a port is missing: monokube trace %s %s PORT",
				    options->words[0], options->words[1]);
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cli/inspect/peers.h"
#include "cli/inspect/view_internal.h"
#include "cluster/model/model.h"
#include "datapath/maps/constants.h"
#include "datapath/maps/object.h"
#include "datapath/maps/pin.h"
#include "datapath/pods/pod_table.h"
#include "pod/ipam/ipam.h"

#define OWNER_BYTES_MAX (64 * 1024)
#define DNS_NAME_BYTES	(MK_OBJECT_NAME_SIZE + sizeof(MK_CLUSTERSET_SUFFIX))

/* ---- pods ------------------------------------------------------------------------------------ */

/* Read a pod's file in the address directory: three lines. It is replaced by rename, so it is read
 * without the directory's lock, which would keep pods from starting. */
static char *read_owner(const char *state_dir, const struct mk_addr *addr)
{
	struct mk_ip ip = mk_ip_from_addr(addr);
	char path[PATH_MAX + 64], name[MK_IPAM_ADDRESS_BYTES], *text = NULL;
	int lines = 0;

	snprintf(path, sizeof(path), "%s/ipam/%s", state_dir, mk_ipam_name(&ip, name));
	if (mk_file_read(path, OWNER_BYTES_MAX, &text, NULL, NULL) < 0)
		return NULL;
	for (char *end = text; (end = strchr(end, '\n')); lines++)
		*end++ = '\0';
	if (lines < 3) {
		free(text);
		return NULL;
	}
	return text;
}

/* Pods of the primary family: address files are named by its addresses. */
struct named_pods {
	struct mk_pod *list;
	size_t count;
};

static int read_named(struct named_pods *named, const struct mk_cli_options *options,
		      struct mk_error *err)
{
	cleanup_table struct mk_table table = { 0 };
	char dir[PATH_MAX];
	int ret = mk_pin_dir(dir, options->bpf_dir, options->primary, err);

	ret = ret ?: mk_pod_table_open(&table, dir, err);
	ret = ret ?: mk_pod_table_read(&table, &named->list, &named->count, err);
	return ret == -ENOENT ? 0 : ret; /* the primary family is not loaded */
}

static void add_pod(struct mk_view *view, const struct mk_pod *entry,
		    const struct named_pods *named)
{
	struct mk_view_pod *pod = &view->pods[view->pod_count++];
	const struct mk_addr *name = &entry->addr;

	*pod = (struct mk_view_pod){ .addr = entry->addr, .entry = *entry };
	for (size_t i = 0; i < named->count; i++)
		if (named->list[i].ifindex == entry->ifindex)
			name = &named->list[i].addr;
	pod->owner = read_owner(view->state_dir, name);
	if (mk_nl_link_get_index(view->nl, (int)entry->ifindex, &pod->link, NULL) < 0)
		pod->link = (struct mk_link){ 0 };
}

static int read_pods(struct mk_view *view, const struct mk_cli_options *options,
		     struct mk_error *err)
{
	cleanup_free struct mk_pod *entries = NULL;
	cleanup_table struct mk_table table = { 0 };
	struct named_pods named = { 0 };
	size_t count = 0;
	int ret = mk_pod_table_open(&table, view->dir, err);

	ret = ret ?: mk_pod_table_read(&table, &entries, &count, err);
	view->pods = count ? calloc(count, sizeof(*view->pods)) : NULL;
	if (count && !view->pods)
		return mk_error_errno(err, ENOMEM, "cannot list the pods");
	if (ret == 0 && view->family != options->primary)
		ret = read_named(&named, options, err);
	for (size_t i = 0; i < count; i++)
		add_pod(view, &entries[i], &named);
	free(named.list);
	return ret;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void init(struct mk_view *view, const struct mk_cli_options *options, size_t index)
{
	*view = (struct mk_view){ .dir = options->families[index].dir,
				  .state_dir = options->state_dir,
				  .family = options->families[index].family,
				  .routes = { .fd = -1 } };
}

int view_open(struct mk_view *view, const struct mk_cli_options *options, size_t index,
	      struct mk_error *err)
{
	int ret;

	init(view, options, index);
	ret = mk_constants_read(view->dir, &view->node, err);
	if (ret == -ENOENT)
		return mk_error_wrap(
			err,
			"the datapath is not loaded: an agent has to run here once after each boot");
	ret = ret ?: mk_links_read(view->dir, &view->links, err);
	if (ret < 0)
		return ret;
	view->nl = mk_nl_open(err);
	if (!view->nl)
		return -EINVAL;
	ret = mk_table_open(&view->routes, view->dir, "routes", sizeof(struct mk_route_key),
			    sizeof(struct mk_route), err);
	view->loaded = ret == 0;
	ret = ret ?: mk_names_read(view->state_dir, mk_node_family(&view->node), &view->names, err);
	ret = ret ?: mk_node_names_read(view->state_dir, &view->node_names, err);
	if (ret == 0 && peer_names_read(view->state_dir, &view->peer_names, NULL) < 0)
		view->peer_names = NULL;
	return ret < 0 ? ret : read_pods(view, options, err);
}

void view_release(struct mk_view *view)
{
	for (size_t i = 0; i < view->pod_count; i++)
		free(view->pods[i].owner);
	free(view->pods);
	mk_names_release(&view->names);
	mk_node_names_release(&view->node_names);
	json_object_put(view->peer_names);
	mk_nl_free(view->nl);
	mk_table_close(&view->routes);
	*view = (struct mk_view){ .routes = { .fd = -1 } };
}

static int open_host(struct mk_view *view, const struct mk_cli_options *options,
		     struct mk_error *err)
{
	view_release(view);
	init(view, options, 0);
	view->nl = mk_nl_open(err);
	return view->nl ? 0 : -EINVAL;
}

static int open_views(struct mk_views *views, const struct mk_cli_options *options, bool unloaded,
		      struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < options->family_count; i++)
		ret = view_open(&views->list[views->count++], options, i, err);
	if (ret == -ENOENT && unloaded)
		ret = open_host(&views->list[--views->count], options, err);
	return ret;
}

static int view_main(int argc, char **argv, mk_view_run_fn *run, bool unloaded)
{
	struct mk_views views = { .count = 0 };
	struct mk_cli_options options;
	struct mk_error err = { 0 };
	int ret = mk_cli_options_read(&options, argc, argv, &err);

	if (ret > 0)
		return 0;
	ret = ret ?: open_views(&views, &options, unloaded, &err);
	ret = ret ?: run(&views, &options, &err);
	for (size_t i = 0; i < views.count; i++)
		view_release(&views.list[i]);
	return ret < 0 ? mk_cli_fail(argv[0], &err) : ret;
}

int mk_view_main(int argc, char **argv, mk_view_run_fn *run)
{
	return view_main(argc, argv, run, false);
}

int mk_view_main_unloaded(int argc, char **argv, mk_view_run_fn *run)
{
	return view_main(argc, argv, run, true);
}

const struct mk_view_pod *mk_view_pod(const struct mk_view *view, const struct mk_addr *addr)
{
	for (size_t i = 0; i < view->pod_count; i++)
		if (mk_addr_eq(&view->pods[i].addr, addr))
			return &view->pods[i];
	return NULL;
}

const struct mk_view_pod *view_pod_of_device(const struct mk_view *view, uint32_t ifindex)
{
	for (size_t i = 0; i < view->pod_count; i++)
		if (view->pods[i].entry.ifindex == ifindex)
			return &view->pods[i];
	return NULL;
}

const struct mk_view_pod *mk_view_pod_named(const struct mk_view *view, const char *name)
{
	const struct mk_view_pod *found = NULL;

	for (size_t i = 0; i < view->pod_count; i++) {
		const char *alias = view->pods[i].link.alias, *slash = strchr(alias, '/');

		if (*name && strcmp(alias, name) == 0)
			return &view->pods[i];
		if (!slash || strcmp(slash + 1, name) != 0)
			continue;
		if (found) /* in two namespaces */
			return NULL;
		found = &view->pods[i];
	}
	return found;
}

/* Write the Service that has the DNS name @word, such as web.shop.svc.cluster.local, as its file of
 * names has it. Returns @word if that is no DNS name of a Service. */
static const char *read_dns_name(const char *word, char name[DNS_NAME_BYTES])
{
	const char *dot = strchr(word, '.'), *second = dot ? strchr(dot + 1, '.') : NULL;
	bool is_import = second && strncmp(second, ".svc.clusterset.", 16) == 0;

	if (!second || strchr(word, '/') || strncmp(second, ".svc", 4) != 0 ||
	    (second[4] && second[4] != '.'))
		return word;
	snprintf(name, DNS_NAME_BYTES, "%.*s/%.*s%s", (int)(second - dot - 1), dot + 1,
		 (int)(dot - word), word, is_import ? MK_CLUSTERSET_SUFFIX : "");
	return name;
}

int mk_view_service_named(const struct mk_view *view, const char *word, uint32_t *service_id,
			  struct mk_error *err)
{
	const struct mk_service_name *found = NULL;
	char dns_name[DNS_NAME_BYTES];

	word = read_dns_name(word, dns_name);
	*service_id = 0;
	for (size_t i = 0; i < view->names.count; i++) {
		const struct mk_service_name *name = &view->names.list[i];
		const char *slash = strchr(name->name, '/');
		bool whole = strcmp(name->name, word) == 0;

		if (!whole && (!slash || strcmp(slash + 1, word) != 0))
			continue;
		if (found && !whole)
			return mk_error_set(
				err, EEXIST,
				"Service '%s' is in several namespaces: give '%s' or '%s'", word,
				found->name, name->name);
		found = name;
		if (whole)
			break;
	}
	*service_id = found ? found->service_id : 0;
	return 0;
}

const char *mk_view_pod_name(const struct mk_view_pod *pod)
{
	return *pod->link.alias ? pod->link.alias : *pod->link.name ? pod->link.name : "?";
}

uint8_t mk_view_protocol(const struct mk_view *view, unsigned int protocol)
{
	if (protocol == IPPROTO_ICMP && view->family == AF_INET6)
		return IPPROTO_ICMPV6;
	return (uint8_t)protocol;
}

bool mk_view_route(const struct mk_view *view, const struct mk_addr *addr, struct mk_route *route)
{
	const struct mk_ip ip = mk_ip_from_addr(addr);
	const struct mk_route_key key = { .prefix_bits = mk_ip_bits(ip.family), .addr = *addr };

	return mk_table_get(&view->routes, &key, route, NULL) == 0;
}

/* A lookup in such a table does not say which prefix matched. */
const char *mk_view_route_prefix(const struct mk_view *view, const struct mk_addr *addr, char *buf)
{
	const struct mk_ip ip = mk_ip_from_addr(addr);
	cleanup_free struct mk_route_key *keys = NULL;
	struct mk_cidr best = { 0 };
	size_t count = 0;

	if (mk_table_keys(&view->routes, (void **)&keys, &count, NULL) < 0)
		count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct mk_cidr cidr = { .ip = mk_ip_of_family(&keys[i].addr,
								    mk_table_family(&view->routes)),
					      .prefix_bits = (uint8_t)keys[i].prefix_bits };

		if (mk_cidr_contains(&cidr, &ip) &&
		    (!best.ip.family || cidr.prefix_bits > best.prefix_bits))
			best = cidr;
	}
	return best.ip.family ? mk_cidr_format(&best, buf) : "none";
}

const char *view_node(const struct mk_view *view, const struct mk_addr *addr)
{
	const struct mk_ip ip = mk_ip_from_addr(addr);
	const struct mk_node_names *names = &view->node_names;
	const char *name = mk_node_names_find(names, &ip);
	struct mk_route wanted, route;

	if (name || !mk_view_route(view, addr, &wanted) || wanted.type != MK_ROUTE_OVERLAY)
		return name;
	for (size_t i = 0; i < names->count; i++) { /* a VTEP: find the node by its MAC address */
		const struct mk_addr range = mk_ip_to_addr(&names->list[i].pod_cidr.ip);

		if (mk_view_route(view, &range, &route) &&
		    memcmp(route.vtep_mac, wanted.vtep_mac, sizeof(route.vtep_mac)) == 0)
			return names->list[i].name;
	}
	return NULL;
}

const char *view_who(const struct mk_view *view, const struct mk_addr *addr, char *buf)
{
	const struct mk_view_pod *pod = mk_view_pod(view, addr);
	char peer[MK_PEER_NAME_BYTES];
	struct mk_route route;

	*buf = '\0';
	if (pod)
		snprintf(buf, MK_VIEW_WHO_BYTES, "pod %s", mk_view_pod_name(pod));
	else if (mk_addr_eq(addr, &view->node.vpod_addr))
		snprintf(buf, MK_VIEW_WHO_BYTES, "this node's virtual pod address");
	else if (mk_addr_is_loopback(addr) ||
		 (mk_view_route(view, addr, &route) && route.type == MK_ROUTE_HOST))
		snprintf(buf, MK_VIEW_WHO_BYTES, "this host");
	else if (mk_view_route(view, addr, &route) && route.type == MK_ROUTE_OVERLAY)
		snprintf(buf, MK_VIEW_WHO_BYTES, "on %s", view_node(view, addr) ?: "another node");
	else if (mk_view_route(view, addr, &route) && route.type == MK_ROUTE_CLUSTER)
		snprintf(buf, MK_VIEW_WHO_BYTES, "peer %s",
			 mk_peer_name(view, mk_route_cluster(&route), peer));
	return buf;
}

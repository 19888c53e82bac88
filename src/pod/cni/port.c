// SPDX-License-Identifier: Apache-2.0
/* ADD, CHECK and DEL of a function pod's port that Multus asks for. */
#include "pod/cni/cni_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "pod/endpoint/function.h"
#include "pod/ipam/ipam.h"

/* The interface that the cluster's network made. Multus makes it first, with the runtime's name. */
#define FIRST_IFNAME "eth0"

static const char failed[] = "cannot set up the port of a function pod";

struct lone_port {
	struct mk_cni_function function;
	struct mk_cni_node node;
	struct mk_ip ips[MK_FAMILIES];
	struct mk_nl *pod_nl;
	int netns_fd;
	char pod_name[MK_CNI_POD_NAME_BYTES];
	struct mk_cni_port_site site;
};

static void lone_port_release(struct lone_port *port)
{
	mk_nl_free(port->pod_nl);
	mk_cni_node_release(&port->node);
	mk_cleanup_close(&port->netns_fd);
}
#define cleanup_lone_port __attribute__((cleanup(lone_port_release)))

bool cni_is_port(const struct mk_cni_conf *conf)
{
	json_object *function;

	return json_object_object_get_ex(conf->root, "function", &function);
}

static int find_addresses(struct lone_port *port, const struct mk_cni_args *args,
			  const struct mk_cni_conf *conf, struct mk_cni_failure *failure)
{
	cleanup_ipam struct mk_ipam *ipam = mk_ipam_open(conf->state_dir, &failure->cause);
	int ret;

	if (!ipam)
		return mk_cni_fail(failure, MK_CNI_IO_FAILURE, "cannot read the address directory");
	ret = mk_ipam_find(ipam, args->container_id, FIRST_IFNAME, &port->ips[0], &failure->cause);
	if (ret == -ENOENT)
		return mk_cni_failf(
			failure, MK_CNI_INVALID_CONFIG, failed,
			"container '%s' has no interface '%s' of monokube: monokube must be the cluster's network",
			args->container_id, FIRST_IFNAME);
	if (ret < 0)
		return mk_cni_fail(failure, MK_CNI_IO_FAILURE, "cannot read the address directory");
	port->ips[1] = mk_ipam_second(ipam, &port->ips[0]);
	return 0;
}

static int open_all(struct lone_port *port, const struct mk_cni_args *args,
		    const struct mk_cni_conf *conf, struct mk_cni_failure *failure)
{
	port->netns_fd = mk_cni_netns_open(args->netns, failure);
	if (port->netns_fd < 0)
		return -1;
	if (mk_cni_node_open(&port->node, conf, &failure->cause) < 0)
		return mk_cni_fail(failure, MK_CNI_IO_FAILURE, failed);
	if (!port->node.pods)
		return mk_cni_fail(failure, MK_CNI_TRY_AGAIN, "the datapath is not loaded");
	port->pod_nl = mk_cni_netns_nl(port->node.nl, args->netns, port->netns_fd, failure);
	if (!port->pod_nl || find_addresses(port, args, conf, failure) < 0)
		return -1;
	port->site = (struct mk_cni_port_site){
		.node = &port->node,
		.conf = conf,
		.pod_nl = port->pod_nl,
		.netns_fd = port->netns_fd,
		.container_id = args->container_id,
		.ifname = FIRST_IFNAME,
		.pod_name = mk_cni_pod_name(getenv("CNI_ARGS"), port->pod_name),
		.ips = port->ips,
	};
	return 0;
}

static enum mk_port_side side_of(const struct mk_cni_function *function)
{
	return function->names[MK_PORT_INSIDE][0] ? MK_PORT_INSIDE : MK_PORT_OUTSIDE;
}

static void undo(const struct lone_port *port, const struct mk_cni_args *args)
{
	struct mk_error err = { 0 };

	if (mk_cni_port_remove(&port->node, args->container_id, FIRST_IFNAME,
			       side_of(&port->function), &err) < 0)
		mk_log_error(
			"cannot undo a failed ADD; DEL will remove its leftovers: %s container=%s ifname=%s",
			mk_error_text(&err), args->container_id, args->ifname);
}

static int add(struct lone_port *port, const struct mk_cni_args *args,
	       const struct mk_cni_conf *conf, struct mk_cni_failure *failure)
{
	struct mk_cni_result result = { .version = conf->version, .netns = args->netns };

	if (mk_cni_ports_make(&port->site, &port->function, failure) < 0) {
		if (failure->code != MK_CNI_INVALID_CONFIG) /* there was nothing to make */
			undo(port, args);
		return -1;
	}
	mk_cni_ports_tell(&port->site, &port->function, &result);
	if (mk_cni_print(mk_cni_ports_json(&result), &failure->cause) == 0)
		return 0;
	undo(port, args);
	return mk_cni_fail(failure, MK_CNI_IO_FAILURE, "cannot print the result");
}

static void keep_first(void *ctx, const char *text)
{
	char **first = ctx;

	if (!*first)
		*first = strdup(text);
}

static int check(struct lone_port *port, struct mk_cni_failure *failure)
{
	cleanup_free char *first = NULL;

	if (mk_cni_ports_check(&port->site, &port->function, keep_first, &first, &failure->cause) <
	    0)
		return mk_cni_fail(failure, MK_CNI_IO_FAILURE, "cannot check the port");
	if (!first)
		return 0;
	return mk_cni_failf(failure, MK_CNI_CHECK_FAILED,
			    "the container's network is not as ADD made it", "%s", first);
}

/* A configuration that ADD refuses made no port, so there is nothing to remove. */
static int del(const struct mk_cni_args *args, const struct mk_cni_conf *conf,
	       struct mk_cni_failure *failure)
{
	cleanup_cni_node struct mk_cni_node node = { 0 };
	struct mk_cni_function function;
	struct mk_cni_failure ignored = { 0 };

	if (mk_cni_function_read(&function, conf, args->ifname, &ignored) < 0)
		return 0;
	if (mk_cni_node_open(&node, conf, &failure->cause) < 0 ||
	    mk_cni_port_remove(&node, args->container_id, FIRST_IFNAME, side_of(&function),
			       &failure->cause) < 0)
		return mk_cni_fail(failure, MK_CNI_IO_FAILURE,
				   "cannot remove the port of a function pod");
	return 0;
}

/* GC of the cluster's network removes ports of pods that are gone. */
int cni_port(enum mk_cni_command command, const struct mk_cni_args *args, struct mk_cni_conf *conf,
	     struct mk_cni_failure *failure)
{
	cleanup_lone_port struct lone_port port = { .netns_fd = -1 };

	if (command == MK_CNI_COMMAND_DEL)
		return del(args, conf, failure);
	if (command != MK_CNI_COMMAND_ADD && command != MK_CNI_COMMAND_CHECK)
		return 0;
	if (mk_cni_conf_read_network(conf, failure) < 0 ||
	    mk_cni_function_read(&port.function, conf, args->ifname, failure) < 0 ||
	    open_all(&port, args, conf, failure) < 0)
		return -1;
	return command == MK_CNI_COMMAND_ADD ? add(&port, args, conf, failure)
					     : check(&port, failure);
}

// SPDX-License-Identifier: Apache-2.0
/* The plugin under the name loopback. */
#include "pod/cni/cni_internal.h"

#include <net/if.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/netlink/netlink.h"
#include "pod/endpoint/endpoint.h"

#define LO_IFINDEX 1 /* in every namespace (LOOPBACK_IFINDEX in the kernel) */

static const char failed[] = "cannot set up lo";

bool cni_is_loopback(const struct mk_cni_conf *conf)
{
	const char *type = mk_cni_string(conf->root, "type");

	return type && strcmp(type, "loopback") == 0;
}

static int open_lo(const struct mk_cni_args *args, struct mk_nl **nl,
		   struct mk_cni_failure *failure)
{
	cleanup_close int netns_fd = mk_cni_netns_open(args->netns, failure);
	cleanup_nl struct mk_nl *home = NULL;

	if (netns_fd < 0)
		return -1;
	home = mk_nl_open(&failure->cause);
	if (!home)
		return mk_cni_fail(failure, MK_CNI_SETUP_FAILED, failed);
	*nl = mk_cni_netns_nl(home, args->netns, netns_fd, failure);
	return *nl ? 0 : -1;
}

static int add(const struct mk_cni_args *args, const struct mk_cni_conf *conf, struct mk_nl *nl,
	       struct mk_cni_failure *failure)
{
	const struct mk_link_change up = { .set_flags = IFF_UP };
	json_object *before = mk_cni_conf_prev_result(conf);
	struct mk_link lo;

	if (mk_nl_link_change(nl, LO_IFINDEX, &up, &failure->cause) < 0 ||
	    mk_nl_link_get_index(nl, LO_IFINDEX, &lo, &failure->cause) < 0)
		return mk_cni_fail(failure, MK_CNI_SETUP_FAILED, failed);
	if (mk_cni_print(before ? json_object_get(before)
				: mk_cni_loopback_json(conf->version, args->netns, lo.mtu_bytes,
						       lo.ipv6.exists && !lo.ipv6.disabled),
			 &failure->cause) < 0)
		return mk_cni_fail(failure, MK_CNI_IO_FAILURE, "cannot print the result");
	return 0;
}

static int check(const struct mk_cni_args *args, struct mk_nl *nl, struct mk_cni_failure *failure)
{
	static const char msg[] = "the container's network is not as it was made";
	struct mk_link lo;

	if (mk_nl_link_get_index(nl, LO_IFINDEX, &lo, &failure->cause) < 0)
		return mk_cni_fail(failure, MK_CNI_CHECK_FAILED, msg);
	if (!(lo.flags & IFF_UP))
		return mk_cni_failf(failure, MK_CNI_CHECK_FAILED, msg,
				    "interface lo in '%s' is down, expected it up", args->netns);
	return 0;
}

/* lo disappears with its namespace, so DEL, GC and STATUS have nothing to do. */
int cni_loopback(enum mk_cni_command command, const struct mk_cni_args *args,
		 const struct mk_cni_conf *conf, struct mk_cni_failure *failure)
{
	struct mk_nl *nl = NULL;
	int ret;

	if (command != MK_CNI_COMMAND_ADD && command != MK_CNI_COMMAND_CHECK)
		return 0;
	ret = open_lo(args, &nl, failure);
	if (ret == 0)
		ret = command == MK_CNI_COMMAND_ADD ? add(args, conf, nl, failure)
						    : check(args, nl, failure);
	mk_nl_free(nl);
	return ret;
}

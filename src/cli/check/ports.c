// SPDX-License-Identifier: Apache-2.0
/* Ports of function pods: devices as the plugin made them, and the label that makes a replica. */
#include <net/if.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/check/check.h"
#include "cli/inspect/chains.h"
#include "datapath/maps/hook.h"
#include "datapath/pods/port.h"
#include "pod/endpoint/endpoint.h"

#define LABEL "networking.monokube.io/function"
#define AGAIN "delete the pod, so that it is created again"

struct ports {
	struct mk_checking *checking;
	const struct mk_cli_chains *chains;
	unsigned int count;
	char pod[256]; /* the one that was looked at last: its ports follow each other */
};

/* ---- devices --------------------------------------------------------------------------------- */

static uint32_t wanted_mtu_bytes(const struct mk_view *view, enum mk_port_mode mode)
{
	return mk_port_has_overlay_mtu(mode) ? view->links.set.overlay_mtu_bytes
					     : MK_POD_DEVICE_MTU_BYTES;
}

static void check_device(struct mk_checking *checking, const struct mk_link *link,
			 enum mk_port_mode mode)
{
	const uint32_t mtu_bytes = wanted_mtu_bytes(checking->view, mode);
	uint32_t id = 0;

	if (!(link->flags & IFF_UP) || !(link->flags & IFF_RUNNING))
		check_found(checking, "ports", AGAIN, "%s of %s is down", link->name, link->alias);
	if (mk_hook_query(checking->view->nl, link->ifindex, MK_INGRESS, &id, NULL) < 0 || !id)
		check_found(checking, "ports",
			    "the agent puts it there while it runs: start it, or see its log",
			    "no program on the ingress of %s, of %s", link->name, link->alias);
	if (link->mtu_bytes != mtu_bytes)
		check_found(checking, "ports", AGAIN, "%s of %s has MTU %u, expected %u",
			    link->name, link->alias, link->mtu_bytes, mtu_bytes);
	if (mode == MK_PORT_INLINE && mk_offload_checksums(link->name, NULL) > 0)
		check_found(
			checking, "ports", "ethtool -K DEVICE tx off, on that device",
			"%s of %s leaves checksums unfinished, which a program in mode Inline cannot forward",
			link->name, link->alias);
}

/* ---- labels ---------------------------------------------------------------------------------- */

static json_object *replica_named(const struct mk_cli_chains *chains, const char *pod)
{
	json_object *replica;

	for (size_t i = 0; (replica = mk_chain_names_at(chains, "replicas", i)); i++)
		if (strcmp(mk_json_text(replica, "name"), pod) == 0)
			return replica;
	return NULL;
}

/* Agents know labelled pods only while there are chains. */
static void check_label(struct ports *ports)
{
	if (mk_chain_names_at(ports->chains, "chains", 0) &&
	    !replica_named(ports->chains, ports->pod))
		check_note(ports->checking, "ports",
			   "label the pod " LABEL "=NAME, with a name that a chain has",
			   "%s has ports, but no label: no chain uses it", ports->pod);
}

static int see_link(void *ctx, const struct mk_link *link)
{
	struct ports *ports = ctx;
	enum mk_port_mode mode;
	char pod[256];

	if (!mk_port_of(link, &mode, NULL))
		return 0;
	check_device(ports->checking, link, mode);
	ports->count++;
	snprintf(pod, sizeof(pod), "%.*s", (int)strcspn(link->alias, "@"), link->alias);
	if (strcmp(pod, ports->pod) == 0)
		return 0;
	memcpy(ports->pod, pod, sizeof(pod));
	check_label(ports);
	return 0;
}

static void check_problems(struct mk_checking *checking, const struct mk_cli_chains *chains)
{
	json_object *chain;

	for (size_t i = 0; (chain = mk_chain_names_at(chains, "chains", i)); i++)
		if (*mk_json_text(chain, "problem"))
			check_note(checking, "chains", mk_json_text(chain, "remedy"), "%s: %s",
				   mk_json_text(chain, "name"), mk_json_text(chain, "problem"));
}

/* Each node names its own pods. */
static void check_weights(struct mk_checking *checking, const struct mk_cli_chains *chains)
{
	json_object *replica;

	for (size_t i = 0; (replica = mk_chain_names_at(chains, "replicas", i)); i++)
		if (mk_json_flag(replica, "isHere") && mk_json_flag(replica, "weightIsWrong"))
			check_note(checking, "ports", "set it to a number from 0 to 100",
				   "%s has the default weight: its annotation "
				   "networking.monokube.io/weight is none",
				   mk_json_text(replica, "name"));
}

static void check_modes(struct mk_checking *checking, const struct mk_cli_chains *chains)
{
	static const char wrong[] = "wrong mode";
	json_object *replica;

	for (size_t i = 0; (replica = mk_chain_names_at(chains, "replicas", i)); i++) {
		const char *state = mk_json_text(replica, "state");

		if (mk_json_flag(replica, "isHere") &&
		    strncmp(state, wrong, sizeof(wrong) - 1) == 0)
			check_note(
				checking, "ports",
				"annotate it networking.monokube.io/function-ports: MODE; a function with tap: true needs mode Tap, an end of a chain End, another function another one",
				"%s serves no chain: %s", mk_json_text(replica, "name"), state);
	}
}

static void check_missing(struct mk_checking *checking, const struct mk_cli_chains *chains)
{
	json_object *replica;

	for (size_t i = 0; (replica = mk_chain_names_at(chains, "replicas", i)); i++)
		if (strcmp(mk_json_text(replica, "state"), "no ports") == 0)
			check_note(
				checking, "ports",
				"annotate it networking.monokube.io/function-ports: MODE, which needs containerd 1.5 or CRI-O 1.29; behind Multus, definitions (manifests/CHAINS.md)",
				"%s has the label " LABEL ", but no ports: it serves no chain",
				mk_json_text(replica, "name"));
}

/* ---- the check ------------------------------------------------------------------------------- */

void check_ports(struct mk_checking *checking)
{
	cleanup_cli_chains struct mk_cli_chains chains = { 0 };
	struct ports ports = { .checking = checking, .chains = &chains };
	const unsigned int before = checking->wrong;
	struct mk_error err = { 0 };
	int ret = mk_cli_chains_open(&chains, checking->view, &err);

	if (ret == -ENOENT)
		return; /* tables of a version without chains */
	if (ret < 0)
		check_found(checking, "ports", "restart the agent, which writes them again", "%s",
			    mk_error_text(&err));
	ret = mk_nl_each_link(checking->view->nl, see_link, &ports, &err);
	if (ret < 0)
		check_found(checking, "ports", "run as root", "%s", mk_error_text(&err));
	check_missing(checking, &chains);
	check_modes(checking, &chains);
	check_weights(checking, &chains);
	check_problems(checking, &chains);
	if (ports.count && checking->wrong == before)
		check_found(checking, "ports", NULL, "%u of function pods, each as it was made",
			    ports.count);
}

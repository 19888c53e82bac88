// SPDX-License-Identifier: Apache-2.0
/* `monokube check`: does the cluster's DNS know Services of other clusters? It asks for one import.
 * Its addresses work without DNS, so what is missing is a note. */
#include <arpa/nameser.h>
#include <poll.h>
#include <resolv.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/check/check.h"
#include "cluster/model/peer.h"

#define MCS	   "multicluster.x-k8s.io/v1beta1"
#define MANAGED	   MK_MANAGED_BY_LABEL "=" MK_MANAGED_BY
#define DNS_LABEL  "k8s-app"
#define DNS_APP	   "kube-dns" /* the Service of CoreDNS has this name, too */
#define DNS_SPACE  "kube-system"
#define DNS_PORT   53
#define ANSWER_MS  2000
#define NAME_CHARS 400

static const struct mk_resource resources[] = {
	{ .name = "ServiceImports",
	  .api_version = MCS,
	  .kind = "ServiceImport",
	  .path = "/apis/" MCS "/serviceimports",
	  .older_path = "/apis/multicluster.x-k8s.io/v1alpha1/serviceimports",
	  .older_api_version = "multicluster.x-k8s.io/v1alpha1",
	  .label_selector = MANAGED,
	  .model_kind = MK_KIND_COUNT,
	  .optional = true },
	{ .name = "Services of the DNS",
	  .api_version = "v1",
	  .kind = "Service",
	  .path = "/api/v1/namespaces/" DNS_SPACE "/services",
	  .label_selector = DNS_LABEL "=" DNS_APP,
	  .model_kind = MK_KIND_COUNT,
	  .optional = true },
};

struct question {
	char name[NAME_CHARS]; /* of an import; "": there is none with an address */
	struct mk_ip ip; /* .. its address */
	struct mk_ip server; /* AF_UNSPEC: no Service of a DNS */
};

static void see_import(struct question *question, json_object *tree)
{
	json_object *metadata = mk_json_member(tree, "metadata");
	json_object *labels = mk_json_member(metadata, "labels");
	json_object *ips = mk_json_member(mk_json_member(tree, "spec"), "ips");

	if (*question->name || mk_json_length(ips) == 0 ||
	    strcmp(mk_json_text(labels, MK_MANAGED_BY_LABEL), MK_MANAGED_BY) != 0 ||
	    mk_ip_parse(json_object_get_string(json_object_array_get_idx(ips, 0)), &question->ip) <
		    0)
		return;
	snprintf(question->name, sizeof(question->name), "%s.%s.svc.clusterset.local",
		 mk_json_text(metadata, "name"), mk_json_text(metadata, "namespace"));
}

static void see(void *ctx, json_object *tree)
{
	json_object *metadata = mk_json_member(tree, "metadata");
	json_object *labels = mk_json_member(metadata, "labels");
	struct question *question = ctx;

	if (strcmp(mk_json_text(tree, "kind"), "ServiceImport") == 0)
		see_import(question, tree);
	else if (strcmp(mk_json_text(tree, "kind"), "Service") == 0 &&
		 strcmp(mk_json_text(metadata, "namespace"), DNS_SPACE) == 0 &&
		 strcmp(mk_json_text(labels, DNS_LABEL), DNS_APP) == 0 &&
		 mk_ip_parse(mk_json_text(mk_json_member(tree, "spec"), "clusterIP"),
			     &question->server) < 0)
		question->server.family = AF_UNSPEC; /* headless */
}

/* ---- the query ------------------------------------------------------------------------------- */

static ns_type type_of(const struct mk_ip *ip)
{
	return ip->family == AF_INET6 ? ns_t_aaaa : ns_t_a;
}

static size_t bytes_of(const struct mk_ip *ip)
{
	return ip->family == AF_INET6 ? sizeof(ip->v6) : sizeof(ip->v4);
}

/* Send the query, and wait for an answer. Returns its length; -1: there was none. */
static ssize_t ask(const struct question *question, unsigned char answer[NS_PACKETSZ])
{
	unsigned char query[NS_PACKETSZ];
	int length = res_mkquery(ns_o_query, question->name, ns_c_in, (int)type_of(&question->ip),
				 NULL, 0, NULL, query, sizeof(query));
	cleanup_close int file = socket(question->server.family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct pollfd waiting = { .fd = file, .events = POLLIN };
	struct sockaddr_storage to;
	socklen_t size =
		mk_ip_port_sockaddr(&(struct mk_ip_port){ question->server, DNS_PORT }, &to);

	if (length < 0 || file < 0 || connect(file, (struct sockaddr *)&to, size) < 0 ||
	    send(file, query, (size_t)length, 0) != length || poll(&waiting, 1, ANSWER_MS) != 1)
		return -1;
	length = (int)recv(file, answer, NS_PACKETSZ, 0);
	return length >= NS_HFIXEDSZ && memcmp(answer, query, NS_INT16SZ) == 0 ? length : -1;
}

static bool has_address(const struct question *question, const unsigned char *answer,
			ssize_t length)
{
	ns_msg message;
	ns_rr record;

	if (ns_initparse(answer, (int)length, &message) < 0)
		return false;
	for (int i = 0; i < ns_msg_count(message, ns_s_an); i++)
		if (ns_parserr(&message, ns_s_an, i, &record) == 0 &&
		    ns_rr_type(record) == type_of(&question->ip) &&
		    ns_rr_rdlen(record) == bytes_of(&question->ip) &&
		    memcmp(ns_rr_rdata(record), &question->ip.v6, bytes_of(&question->ip)) == 0)
			return true;
	return false;
}

static void report(struct mk_checking *checking, const struct question *question)
{
	unsigned char answer[NS_PACKETSZ];
	ssize_t length = ask(question, answer);
	char ip[MK_IP_STRLEN], server[MK_IP_STRLEN];
	bool is_right = length > 0 && has_address(question, answer, length);

	mk_ip_format(&question->ip, ip);
	mk_ip_format(&question->server, server);
	if (is_right)
		check_found(checking, "dns", NULL, "%s answers %s with %s", server, question->name,
			    ip);
	else
		check_note(
			checking, "dns",
			"let CoreDNS read ServiceImports, and add `multicluster clusterset.local` to its Corefile: manifests/CLUSTERS.md, Names",
			length > 0 ? "%s does not answer %s with %s; the address works"
				   : "%s sends no answer for %s, which should be %s",
			server, question->name, ip);
}

/* A server that cannot be asked is not a fault of this: other checks name it. */
void check_dns(struct mk_checking *checking)
{
	struct question question = { 0 };
	struct mk_error err;
	int ret;

	if (!checking->reads_cluster || !*checking->record.cluster_name)
		return;
	mk_log_set_level(MK_LOG_ERROR);
	ret = check_read_objects(checking->options, resources, MK_ARRAY_SIZE(resources), see,
				 &question, &err);
	mk_log_set_level(MK_LOG_INFO);
	if (ret == 0 && *question.name && question.server.family != AF_UNSPEC)
		report(checking, &question);
}

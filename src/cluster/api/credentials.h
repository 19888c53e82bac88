/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/api/credentials.h - the API server's URL, how to verify the server, and how
 * to authenticate.
 *
 * Files are read again when they change: service account tokens expire hourly and the kubelet
 * writes new ones; certificates are renewed. No credential reaches a log. */
#ifndef MK_CLUSTER_API_CREDENTIALS_H
#define MK_CLUSTER_API_CREDENTIALS_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/error.h"

/* A secret or a certificate: given inline, or the content of a file. */
struct mk_secret {
	char *data; /* NULL: none */
	size_t size;
	char *path; /* NULL: given inline */
	struct stat seen; /* state of the file when it was read */
};

struct mk_credentials {
	char *origin; /* for messages: "kubeconfig '/etc/...'" */
	char *server; /* https://host:port/prefix, no slash at the end */
	char *server_name; /* to verify the certificate against; NULL: the host of @server */
	char *proxy; /* URL; NULL: from the environment */
	bool insecure; /* do not verify the server's certificate */
	bool by_service; /* @server has the address of the API server's Service */
	struct mk_secret authority; /* PEM; none: the system's authorities */
	struct mk_secret certificate, key; /* PEM, of the client */
	struct mk_secret token;
	char *username, *password;
	/* the source; @kubeconfig NULL: the service account */
	char *kubeconfig, *context, *api_server;
	struct stat seen; /* state of the kubeconfig */
};

/* The source of the credentials; every member may be NULL. */
struct mk_credentials_source {
	const char *kubeconfig; /* file; else $KUBECONFIG; else the service account of the pod */
	const char *context; /* of the kubeconfig; NULL: its current-context */
	const char *api_server; /* URL that replaces the one found */
	const char *service_account_dir; /* NULL: where the kubelet mounts it */
};

/* Load the credentials. Release them with mk_credentials_release(), also after a failure. */
mk_must_check int mk_credentials_load(const struct mk_credentials_source *source,
				      struct mk_credentials *credentials, struct mk_error *err);
void mk_credentials_release(struct mk_credentials *credentials);

/* Check that @url is https://host..., without user, query or fragment: plain http would show the
 * token to the network. Removes slashes at the end of @url. Errors name @what. */
mk_must_check int mk_api_server_check(char *url, const char *what, struct mk_error *err);

/* URLs of one API server. */
struct mk_servers {
	char **of;
	size_t count;
};

/* Take the credentials of another API server from a Secret: in data, `servers` (URLs with white
 * space or commas between), `ca.crt` (PEM; absent: the system's authorities) and `token`. The first
 * URL is in use. Release both, also after a failure: -EKEYREJECTED about ca.crt, -EACCES about the
 * token, -EINVAL about the URLs, -ENOMEM. */
mk_must_check int mk_credentials_from_secret(json_object *secret,
					     struct mk_credentials *credentials,
					     struct mk_servers *servers, struct mk_error *err);
void mk_servers_release(struct mk_servers *servers);
/* Let requests from now on go to @server. */
mk_must_check int mk_credentials_use(struct mk_credentials *credentials, const char *server,
				     struct mk_error *err);

#endif

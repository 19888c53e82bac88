/* SPDX-License-Identifier: Apache-2.0 */
/* src/kube/credentials.h - where the API server is, how it is known to be the one, and who we are.
 *
 * What comes from a file is read again when the file has changed: service account tokens expire
 * hourly and the kubelet writes new ones, certificates are renewed. Nothing of it reaches a log. */
#ifndef MK_KUBE_CREDENTIALS_H
#define MK_KUBE_CREDENTIALS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/error.h"

/* Something secret, or a certificate: given inline, or the content of a file. */
struct mk_secret {
	char *data; /* NULL: none */
	size_t size;
	char *path; /* NULL: given inline */
	struct stat seen; /* of the file, when it was read */
};

struct mk_credentials {
	char *origin; /* for messages: "kubeconfig '/etc/...'" */
	char *server; /* https://host:port/prefix, no slash at its end */
	char *server_name; /* to verify the certificate against; NULL: the host of @server */
	char *proxy; /* URL; NULL: what the environment says */
	bool insecure; /* the file says to verify nothing */
	bool by_service; /* the server is named by the address of its Service */
	struct mk_secret authority; /* PEM; none: what the system trusts */
	struct mk_secret certificate, key; /* PEM, of the client */
	struct mk_secret token;
	char *username, *password;
	/* what they were loaded from; @kubeconfig NULL: the service account */
	char *kubeconfig, *context, *api_server;
	struct stat seen; /* of the kubeconfig */
};

/* What to begin with: all may be NULL. */
struct mk_credentials_source {
	const char *kubeconfig; /* file; else $KUBECONFIG; else the service account of the pod */
	const char *context; /* of the kubeconfig; NULL: its current-context */
	const char *api_server; /* URL to use instead of the one found */
	const char *service_account_dir; /* NULL: where the kubelet mounts it */
};

/* Free with mk_credentials_release(), after a failure too. */
mk_must_check int mk_credentials_load(const struct mk_credentials_source *source,
				      struct mk_credentials *credentials, struct mk_error *err);
void mk_credentials_release(struct mk_credentials *credentials);

/* Read again what changed, the kubeconfig included. Returns 1 if something did, 0 if not. A file that cannot be read now
 * leaves what was known before: the error says which, and everything else is up to date. */
mk_must_check int mk_credentials_refresh(struct mk_credentials *credentials, struct mk_error *err);

/* For the loaders: @secret from a file, now; or from text, which is copied. */
mk_must_check int mk_secret_from_file(struct mk_secret *secret, const char *path,
				      struct mk_error *err);
mk_must_check int mk_secret_from_data(struct mk_secret *secret, const void *data, size_t size,
				      struct mk_error *err);
void mk_secret_release(struct mk_secret *secret);

/* https://host..., without user, query or fragment: plain http would show the token to the network.
 * Removes slashes at the end of @url. @what names it in the error. */
mk_must_check int mk_api_server_check(char *url, const char *what, struct mk_error *err);

#endif

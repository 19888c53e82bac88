// SPDX-License-Identifier: Apache-2.0
/* Options of libcurl for each request. */
#include "cluster/api/http_internal.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"

const struct mk_http_limits mk_http_limits_default = {
	.connect_ms = 10000,
	.keepalive_idle_s = 15,
	.keepalive_interval_s = 5,
	.unacknowledged_ms = 30000,
};

static int add_header(struct mk_http_transfer *transfer, const char *name, const char *value,
		      size_t size)
{
	struct curl_slist *grown;
	char *line;

	if (asprintf(&line, "%s: %.*s", name, (int)size, value) < 0)
		return -ENOMEM;
	grown = curl_slist_append(transfer->headers, line);
	explicit_bzero(line, strlen(line));
	free(line);
	if (!grown)
		return -ENOMEM;
	transfer->headers = grown;
	return 0;
}

static int set_headers(struct mk_http_transfer *transfer, const struct mk_http_request *request)
{
	const struct mk_secret *token = &transfer->http->credentials->token;
	int ret = add_header(transfer, "Accept", "application/json", strlen("application/json"));
	cleanup_free char *bearer = NULL;
	size_t size = token->size;

	while (size > 0 && strchr(" \r\n\t", token->data[size - 1]))
		size--;
	if (ret == 0 && size > 0 && asprintf(&bearer, "Bearer %.*s", (int)size, token->data) < 0)
		ret = -ENOMEM;
	if (ret == 0 && bearer) {
		ret = add_header(transfer, "Authorization", bearer, strlen(bearer));
		explicit_bzero(bearer, strlen(bearer));
	}
	if (ret == 0 && request->content_type)
		ret = add_header(transfer, "Content-Type", request->content_type,
				 strlen(request->content_type));
	if (ret == 0) /* or libcurl waits a second for "100 Continue" with large bodies */
		ret = add_header(transfer, "Expect", "", 0);
	return ret;
}

#define SET(option, value)                                                           \
	do {                                                                         \
		CURLcode code_ = curl_easy_setopt(easy, (option), (value));          \
		if (code_ != CURLE_OK)                                               \
			return mk_error_set(err, EINVAL, "libcurl: " #option ": %s", \
					    curl_easy_strerror(code_));              \
	} while (0)

static struct curl_blob blob_of(const struct mk_secret *secret)
{
	return (struct curl_blob){ secret->data, secret->size, CURL_BLOB_COPY };
}

static int set_tls(struct mk_http_transfer *transfer, struct mk_error *err)
{
	const struct mk_credentials *credentials = transfer->http->credentials;
	struct curl_blob authority = blob_of(&credentials->authority);
	struct curl_blob certificate = blob_of(&credentials->certificate);
	struct curl_blob key = blob_of(&credentials->key);
	CURL *easy = transfer->easy;

	SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	SET(CURLOPT_SSL_VERIFYPEER, credentials->insecure ? 0L : 1L);
	SET(CURLOPT_SSL_VERIFYHOST, credentials->insecure ? 0L : 2L);
	if (authority.data)
		SET(CURLOPT_CAINFO_BLOB, &authority);
	if (authority.data) /* only that, not the system's authorities */
		SET(CURLOPT_CAPATH, NULL);
	if (certificate.data) {
		SET(CURLOPT_SSLCERT_BLOB, &certificate);
		SET(CURLOPT_SSLKEY_BLOB, &key);
	}
	if (credentials->username && !credentials->token.data) {
		SET(CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
		SET(CURLOPT_USERNAME, credentials->username);
		SET(CURLOPT_PASSWORD, credentials->password ? credentials->password : "");
	}
	return 0;
}

/* If the certificate has another name, the URL has that name, and libcurl gets the
 * address separately. */
static int set_url(struct mk_http_transfer *transfer, const char *target, struct mk_error *err)
{
	const struct mk_credentials *credentials = transfer->http->credentials;
	const char *host = credentials->server + strlen("https://");
	const char *path = strchrnul(host, '/'), *port = path;
	cleanup_free char *url = NULL, *connect_to = NULL;
	CURL *easy = transfer->easy;
	int made;

	while (port > host && port[-1] >= '0' && port[-1] <= '9')
		port--;
	port = port > host && port[-1] == ':' ? port - 1 : path;
	if (credentials->server_name)
		made = asprintf(&url, "https://%s%.*s%s%s", credentials->server_name,
				(int)(path - port), port, path, target);
	else
		made = asprintf(&url, "%s%s", credentials->server, target);
	if (made >= 0 && credentials->server_name)
		made = asprintf(&connect_to, "::%.*s:%.*s", (int)(port - host), host,
				port < path ? (int)(path - port - 1) : 0, port + 1);
	if (made >= 0 && connect_to)
		transfer->connect_to = curl_slist_append(NULL, connect_to);
	if (made < 0 || (connect_to && !transfer->connect_to))
		return mk_error_errno(err, ENOMEM, "URL");
	SET(CURLOPT_URL, url);
	if (connect_to)
		SET(CURLOPT_CONNECT_TO, transfer->connect_to);
	return 0;
}

static int set_up_socket(void *ctx, curl_socket_t fd, curlsocktype purpose)
{
	const struct mk_http_limits *limits = ctx;
	const unsigned int *most = &limits->unacknowledged_ms;

	(void)purpose;
	if (setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, most, sizeof(*most)) < 0)
		return CURL_SOCKOPT_ERROR;
	return CURL_SOCKOPT_OK;
}

static int set_connection(struct mk_http_transfer *transfer, struct mk_error *err)
{
	const struct mk_http_limits *limits = transfer->http->limits;
	CURL *easy = transfer->easy;

	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
	SET(CURLOPT_PIPEWAIT, 1L); /* wait to see whether the connection can be shared */
	SET(CURLOPT_CONNECTTIMEOUT_MS, (long)limits->connect_ms);
	SET(CURLOPT_TCP_KEEPALIVE, 1L);
	SET(CURLOPT_TCP_KEEPIDLE, (long)limits->keepalive_idle_s);
	SET(CURLOPT_TCP_KEEPINTVL, (long)limits->keepalive_interval_s);
	SET(CURLOPT_SOCKOPTFUNCTION, set_up_socket);
	SET(CURLOPT_SOCKOPTDATA, (void *)limits);
	if (transfer->http->credentials->proxy)
		SET(CURLOPT_PROXY, transfer->http->credentials->proxy);
	SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L); /* a proxy's Date is not the server's */
	return 0;
}

static int set_request(struct mk_http_transfer *transfer, const struct mk_http_request *request,
		       struct mk_error *err)
{
	CURL *easy = transfer->easy;

	if (set_headers(transfer, request) < 0)
		return mk_error_errno(err, ENOMEM, "headers");
	SET(CURLOPT_HTTPHEADER, transfer->headers);
	SET(CURLOPT_USERAGENT, "monokube");
	SET(CURLOPT_ERRORBUFFER, transfer->problem);
	if (request->compressed)
		SET(CURLOPT_ACCEPT_ENCODING, "gzip");
	if (request->body)
		SET(CURLOPT_COPYPOSTFIELDS, request->body);
	if (request->method)
		SET(CURLOPT_CUSTOMREQUEST, request->method);
	return 0;
}

int http_set_up(struct mk_http_transfer *transfer, const struct mk_http_request *request,
		struct mk_error *err)
{
	int ret = set_url(transfer, request->target, err) ?: set_connection(transfer, err);

	ret = ret ?: set_tls(transfer, err);
	return ret ?: set_request(transfer, request, err);
}

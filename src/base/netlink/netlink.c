// SPDX-License-Identifier: Apache-2.0
#include "base/netlink/netlink.h"

#include <linux/netlink.h>
#include <linux/sockios.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/netlink/request.h"

/* The kernel fills at most 32 KiB at a time (net/netlink/af_netlink.c, netlink_dump). */
#define RECEIVE_BYTES 32768
/* The kernel runs a request while it is sent, so its answer is usually there at once. An answer
 * that takes longer than this is lost. */
#define RECEIVE_LIMIT_S 5
/* Any change of the table interrupts a dump. This happens on a node that starts many pods at once;
 * this many times in a row is an error. */
#define DUMP_ATTEMPTS 20

struct mk_nl {
	struct nl_sock *sock;
	uint32_t seq;
};

/* The messages of one answer, one after the other. */
struct answer {
	char *data;
	size_t used, room;
	bool interrupted;
};

static void answer_release(struct answer *answer)
{
	free(answer->data);
}
#define cleanup_answer __attribute__((cleanup(answer_release)))

int nl_wrap(int ret, struct mk_error *err, const char *fmt, ...)
{
	char doing[256];
	va_list args;

	if (ret >= 0)
		return ret;
	va_start(args, fmt);
	vsnprintf(doing, sizeof(doing), fmt, args);
	va_end(args);
	mk_error_wrap(err, "%s", doing);
	return ret;
}

/* ---- handle ---------------------------------------------------------------------------------- */

static int set_options(int fd)
{
	/* CAP_ACK: errors without a copy of the request. STRICT_CHK: dumps obey their filters. */
	static const int options[] = { NETLINK_EXT_ACK, NETLINK_CAP_ACK, NETLINK_GET_STRICT_CHK };
	const struct timeval limit = { .tv_sec = RECEIVE_LIMIT_S };
	const int on = 1;

	for (size_t i = 0; i < MK_ARRAY_SIZE(options); i++) {
		if (setsockopt(fd, SOL_NETLINK, options[i], &on, sizeof(on)) < 0)
			return -errno;
	}
	return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) < 0 ? -errno : 0;
}

struct mk_nl *nl_open(int protocol, struct mk_error *err)
{
	struct mk_nl *nl = calloc(1, sizeof(*nl));
	int ret;

	if (nl)
		nl->sock = nl_socket_alloc();
	if (!nl || !nl->sock) {
		mk_error_errno(err, ENOMEM, "cannot open a netlink socket");
		goto failed;
	}
	ret = nl_connect(nl->sock, protocol);
	if (ret < 0) {
		mk_error_set(err, EIO, "cannot open a netlink socket: %s", nl_geterror(ret));
		goto failed;
	}
	ret = set_options(nl_socket_get_fd(nl->sock));
	if (ret < 0) {
		mk_error_errno(err, -ret, "cannot set options of a netlink socket");
		goto failed;
	}
	return nl;
failed:
	mk_nl_free(nl);
	return NULL;
}

struct mk_nl *mk_nl_open(struct mk_error *err)
{
	return nl_open(NETLINK_ROUTE, err);
}

/* Open the namespace of @nl's socket. Unlike /proc/thread-self/ns/net, this does not make the
 * kernel create directories below /proc. */
static int netns_of(const struct mk_nl *nl, struct mk_error *err)
{
	int fd = ioctl(nl_socket_get_fd(nl->sock), SIOCGSKNS);

	return fd < 0 ? mk_error_errno(err, errno, "cannot open a socket's network namespace") : fd;
}

static bool same_file(int a_fd, int b_fd)
{
	struct stat a, b;

	return fstat(a_fd, &a) == 0 && fstat(b_fd, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

int mk_nl_run_in(const struct mk_nl *home, int netns_fd,
		 int (*run)(void *ctx, struct mk_error *err), void *ctx, struct mk_error *err)
{
	cleanup_close int home_fd = netns_of(home, err);
	int ret;

	if (home_fd < 0)
		return home_fd;
	if (same_file(netns_fd, home_fd))
		return mk_error_set(err, EEXIST, "the network namespace is the current one");
	if (setns(netns_fd, CLONE_NEWNET) < 0)
		return mk_error_errno(err, errno, "cannot enter the network namespace");
	ret = run(ctx, err);
	if (setns(home_fd, CLONE_NEWNET) < 0) {
		/* every later step would change the wrong namespace */
		mk_log_error("cannot return to the original network namespace: %s",
			     strerror(errno));
		abort();
	}
	return ret;
}

static int open_here(void *ctx, struct mk_error *err)
{
	struct mk_nl **nl = ctx;

	*nl = mk_nl_open(err);
	return *nl ? 0 : -1;
}

struct mk_nl *mk_nl_open_in(const struct mk_nl *home, int netns_fd, struct mk_error *err)
{
	struct mk_nl *nl = NULL;

	return mk_nl_run_in(home, netns_fd, open_here, &nl, err) < 0 ? NULL : nl;
}

void mk_nl_free(struct mk_nl *nl)
{
	if (!nl)
		return;
	nl_socket_free(nl->sock);
	free(nl);
}

uint32_t mk_nl_port(const struct mk_nl *nl)
{
	return nl_socket_get_local_port(nl->sock);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Mark @msg as not sendable: something did not fit. */
static void spoil(struct nl_msg *msg)
{
	nlmsg_hdr(msg)->nlmsg_type = NLMSG_ERROR;
}

static void release_message(struct nl_msg **msg)
{
	nlmsg_free(*msg);
}
#define cleanup_message __attribute__((cleanup(release_message)))

void nl_append(struct nl_msg *msg, const void *header, size_t bytes)
{
	if (msg && nlmsg_append(msg, (void *)header, bytes, NLMSG_ALIGNTO) < 0)
		spoil(msg);
}

struct nl_msg *nlmsg_new(int type, int flags, const void *header, size_t header_bytes)
{
	struct nl_msg *msg = nlmsg_alloc_simple(type, NLM_F_REQUEST | flags);

	nl_append(msg, header, header_bytes);
	return msg;
}

void nl_put(struct nl_msg *msg, int type, const void *data, size_t bytes)
{
	if (msg && nla_put(msg, type, (int)bytes, data) < 0)
		spoil(msg);
}

void nl_put_text(struct nl_msg *msg, int type, const char *text)
{
	nl_put(msg, type, text, strlen(text) + 1);
}

static int ip_bytes(const struct mk_ip *ip)
{
	return ip->family == AF_INET ? sizeof(ip->v4) : sizeof(ip->v6);
}

uint8_t ip_bits(const struct mk_ip *ip)
{
	return (uint8_t)(ip_bytes(ip) * 8);
}

void nl_put_ip(struct nl_msg *msg, int type, const struct mk_ip *ip)
{
	if (ip->family != AF_UNSPEC)
		nl_put(msg, type, &ip->v6, (size_t)ip_bytes(ip));
}

void nl_put_mac(struct nl_msg *msg, int type, const struct mk_mac *mac)
{
	nl_put(msg, type, mac->byte, sizeof(mac->byte));
}

struct nlattr *nl_begin(struct nl_msg *msg, int type)
{
	struct nlattr *nest = msg ? nla_nest_start(msg, type) : NULL;

	if (msg && !nest)
		spoil(msg);
	return nest;
}

void nl_end(struct nl_msg *msg, struct nlattr *nest)
{
	if (nest)
		nla_nest_end(msg, nest);
}

uint32_t nl_u32(const struct nlattr *attr)
{
	return attr ? nla_get_u32(attr) : 0;
}

void nl_text(const struct nlattr *attr, char *text, size_t size)
{
	*text = '\0';
	if (attr)
		nla_strlcpy(text, attr, size);
}

bool nl_ip(const struct nlattr *attr, struct mk_ip *ip)
{
	*ip = (struct mk_ip){ 0 };
	if (!attr)
		return false;
	if (nla_len(attr) == sizeof(ip->v4))
		ip->family = AF_INET;
	else if (nla_len(attr) == sizeof(ip->v6))
		ip->family = AF_INET6;
	else
		return false;
	memcpy(&ip->v6, nla_data(attr), (size_t)nla_len(attr));
	return true;
}

void nl_mac(const struct nlattr *attr, struct mk_mac *mac)
{
	*mac = (struct mk_mac){ 0 };
	if (attr && nla_len(attr) == sizeof(mac->byte))
		memcpy(mac->byte, nla_data(attr), sizeof(mac->byte));
}

void nl_nested(struct nlattr *nest, struct nlattr *attrs[NL_ATTRS])
{
	if (!nest || nla_parse_nested(attrs, NL_ATTRS - 1, nest, NULL) < 0)
		memset(attrs, 0, NL_ATTRS * sizeof(attrs[0]));
}

/* ---- sending and receiving ------------------------------------------------------------------- */

static int send_message(struct mk_nl *nl, struct nl_msg *msg, struct mk_error *err)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct nlmsghdr *header = msg ? nlmsg_hdr(msg) : NULL;

	if (!header || header->nlmsg_type == NLMSG_ERROR)
		return mk_error_errno(err, ENOMEM, "netlink request");
	header->nlmsg_seq = ++nl->seq;
	for (;;) {
		if (sendto(nl_socket_get_fd(nl->sock), header, header->nlmsg_len, 0,
			   (struct sockaddr *)&kernel, sizeof(kernel)) >= 0)
			return 0;
		if (errno != EINTR)
			return mk_error_errno(err, errno, "cannot send to the kernel");
	}
}

static int answer_reserve(struct answer *answer)
{
	char *bigger;

	if (answer->room - answer->used >= RECEIVE_BYTES)
		return 0;
	bigger = realloc(answer->data, answer->room * 2 + RECEIVE_BYTES);
	if (!bigger)
		return -ENOMEM;
	answer->data = bigger;
	answer->room = answer->room * 2 + RECEIVE_BYTES;
	return 0;
}

/* Append the kernel's next message. Returns the number of bytes. */
static int receive(struct mk_nl *nl, struct answer *answer, struct mk_error *err)
{
	ssize_t got;

	if (answer_reserve(answer) < 0)
		return mk_error_errno(err, ENOMEM, "cannot receive from the kernel");
	do {
		got = recv(nl_socket_get_fd(nl->sock), answer->data + answer->used,
			   answer->room - answer->used, MSG_TRUNC);
	} while (got < 0 && errno == EINTR);
	if (got < 0 && errno == EAGAIN)
		return mk_error_set(err, ETIMEDOUT, "the kernel has not answered for %d s",
				    RECEIVE_LIMIT_S);
	if (got < 0)
		return mk_error_errno(err, errno, "cannot receive from the kernel");
	if ((size_t)got > answer->room - answer->used)
		return mk_error_set(err, EMSGSIZE, "the kernel's answer of %zd bytes is too large",
				    got);
	return (int)got;
}

/* Return the extended ACK's text after an error (NLMSG_ERROR with NETLINK_CAP_ACK), or NULL. */
static const char *kernel_text(struct nlmsghdr *reply)
{
	int skip = sizeof(struct nlmsgerr);
	struct nlattr *attr;

	if (!(reply->nlmsg_flags & NLM_F_ACK_TLVS) || nlmsg_datalen(reply) < skip)
		return NULL;
	if (!(reply->nlmsg_flags & NLM_F_CAPPED)) {
		const struct nlmsgerr *e = nlmsg_data(reply);

		skip += (int)e->msg.nlmsg_len - (int)sizeof(e->msg);
	}
	attr = nlmsg_find_attr(reply, (size_t)skip, NLMSGERR_ATTR_MSG);
	return attr && nla_len(attr) > 0 ? nla_data(attr) : NULL;
}

static int kernel_error(struct nlmsghdr *reply, struct mk_error *err)
{
	const struct nlmsgerr *e = nlmsg_data(reply);
	const char *text;

	if (nlmsg_datalen(reply) < (int)sizeof(*e))
		return mk_error_set(err, EBADMSG, "the kernel's answer is cut short");
	if (e->error == 0)
		return 0;
	text = kernel_text(reply);
	if (text)
		return mk_error_set(err, -e->error, "%s (%s)", strerror(-e->error), text);
	return mk_error_set(err, -e->error, "%s", strerror(-e->error));
}

/* Evaluate the message @reply: 1 if more follows, 0 if the answer is complete, or the error. */
static int judge(struct mk_nl *nl, struct answer *answer, struct nlmsghdr *reply, bool want_object,
		 struct mk_error *err)
{
	int status;

	if (reply->nlmsg_seq != nl->seq)
		return 1; /* left over from a request that timed out */
	if (reply->nlmsg_flags & NLM_F_DUMP_INTR)
		answer->interrupted = true;
	switch (reply->nlmsg_type) {
	case NLMSG_ERROR:
		return kernel_error(reply, err);
	case NLMSG_DONE:
		status = nlmsg_datalen(reply) >= (int)sizeof(int) ? *(int *)nlmsg_data(reply) : 0;
		return status < 0 ? mk_error_errno(err, -status, "the kernel's list") : 0;
	default:
		return reply->nlmsg_flags & NLM_F_MULTI || !want_object ? 1 : 0;
	}
}

/* Receive until the answer to the last request is complete. */
static int collect(struct mk_nl *nl, bool want_object, struct answer *answer, struct mk_error *err)
{
	struct nlmsghdr *reply;
	int got, ret;

	for (;;) {
		got = receive(nl, answer, err);
		if (got < 0)
			return got;
		reply = (struct nlmsghdr *)(answer->data + answer->used);
		answer->used += NLMSG_ALIGN((size_t)got);
		for (; nlmsg_ok(reply, got); reply = nlmsg_next(reply, &got)) {
			ret = judge(nl, answer, reply, want_object, err);
			if (ret <= 0)
				return ret;
		}
	}
}

int nl_request(struct mk_nl *nl, struct nl_msg *msg, struct mk_error *err)
{
	cleanup_message struct nl_msg *request = msg;
	cleanup_answer struct answer answer = { 0 };
	int ret;

	if (request)
		nlmsg_hdr(request)->nlmsg_flags |= NLM_F_ACK;
	ret = send_message(nl, request, err);
	return ret < 0 ? ret : collect(nl, false, &answer, err);
}

static int visit_answer(const struct answer *answer, uint32_t seq, size_t header_bytes,
			nl_visit_fn *visit, void *ctx)
{
	struct nlmsghdr *reply = (struct nlmsghdr *)answer->data;
	struct nlattr *attrs[NL_ATTRS];
	int left = (int)answer->used, ret;

	for (; nlmsg_ok(reply, left); reply = nlmsg_next(reply, &left)) {
		if (reply->nlmsg_seq != seq || reply->nlmsg_type < NLMSG_MIN_TYPE ||
		    nlmsg_parse(reply, (int)header_bytes, attrs, NL_ATTRS - 1, NULL) < 0)
			continue;
		ret = visit(ctx, nlmsg_data(reply), attrs);
		if (ret < 0)
			return ret;
	}
	return 0;
}

int nl_query(struct mk_nl *nl, struct nl_msg *msg, size_t header_bytes, nl_visit_fn *visit,
	     void *ctx, struct mk_error *err)
{
	cleanup_message struct nl_msg *request = msg;
	cleanup_answer struct answer answer = { 0 };
	int ret;

	for (int attempt = 0; attempt < DUMP_ATTEMPTS; attempt++) {
		answer.used = 0;
		answer.interrupted = false;
		ret = send_message(nl, request, err) ?: collect(nl, true, &answer, err);
		if (ret < 0)
			return ret;
		if (!answer.interrupted)
			return visit_answer(&answer, nl->seq, header_bytes, visit, ctx);
	}
	return mk_error_set(err, EAGAIN, "the table changed during each of %d attempts to read it",
			    DUMP_ATTEMPTS);
}

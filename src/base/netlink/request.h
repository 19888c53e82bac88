/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/netlink/request.h - one request and its answer; private to src/base/netlink.
 *
 * Messages are built and parsed with libnl's nlmsg_ and nla_ functions. Sending and receiving are
 * done here, because libnl 3.7 maps errno to its own smaller set of numbers and drops the kernel's
 * error text (extended ACK). libnl-route's objects and caches are not used: they allocate for each
 * attribute, and fail on kinds that they do not know. */
#ifndef MK_BASE_NETLINK_REQUEST_H
#define MK_BASE_NETLINK_REQUEST_H

#include <netlink/attr.h>
#include <netlink/msg.h>
#include <stddef.h>

#include "base/netlink/netlink.h"

/* Open a socket of @protocol (NETLINK_*). NULL with @err on failure. */
struct mk_nl *nl_open(int protocol, struct mk_error *err);

/* Building. If memory or space runs out, the functions below do nothing more, and nl_request() or
 * nl_query() fails: a builder needs no branches. */

/* Make a request of @type that begins with the family's fixed @header (ifinfomsg, rtmsg, ...). */
struct nl_msg *nlmsg_new(int type, int flags, const void *header, size_t header_bytes);
void nl_append(struct nl_msg *msg, const void *header, size_t bytes);
void nl_put(struct nl_msg *msg, int type, const void *data, size_t bytes);
#define NL_PUT(msg, type, number_type, value) \
	nl_put(msg, type, &(number_type){ value }, sizeof(number_type))
void nl_put_text(struct nl_msg *msg, int type, const char *text);
/* AF_UNSPEC: puts nothing. */
void nl_put_ip(struct nl_msg *msg, int type, const struct mk_ip *ip);
void nl_put_mac(struct nl_msg *msg, int type, const struct mk_mac *mac);
/* Begin an attribute that contains the following ones. */
struct nlattr *nl_begin(struct nl_msg *msg, int type);
void nl_end(struct nl_msg *msg, struct nlattr *nest);

/* Parsing. A missing attribute (NULL) is 0, "" or AF_UNSPEC. */

#define NL_ATTRS 64 /* attributes with higher numbers are ignored */
uint32_t nl_u32(const struct nlattr *attr);
void nl_text(const struct nlattr *attr, char *text, size_t size);
/* Read an address (4 or 16 bytes); false if there is none of these. */
bool nl_ip(const struct nlattr *attr, struct mk_ip *ip);
void nl_mac(const struct nlattr *attr, struct mk_mac *mac);
/* Parse the attributes in @nest. */
void nl_nested(struct nlattr *nest, struct nlattr *attrs[NL_ATTRS]);
uint8_t ip_bits(const struct mk_ip *ip);

/* Send @msg and wait for the acknowledgement. Takes over @msg. The error text is the kernel's. */
mk_must_check int nl_request(struct mk_nl *nl, struct nl_msg *msg, struct mk_error *err);

/* Send @msg, which asks for one object or a dump (NLM_F_DUMP), and pass every object of the answer
 * to @visit: its fixed header of @header_bytes, and its attributes. Takes over @msg. A visitor's
 * negative return ends the walk and is returned. The answer is complete before the first visit, so
 * a visitor may use @nl. An interrupted dump is requested again, and no visitor sees half of it. */
typedef int nl_visit_fn(void *ctx, const void *header, struct nlattr *attrs[NL_ATTRS]);
mk_must_check int nl_query(struct mk_nl *nl, struct nl_msg *msg, size_t header_bytes,
			   nl_visit_fn *visit, void *ctx, struct mk_error *err);

/* Like mk_error_wrap() if @ret is negative. Returns @ret, also if @err is NULL. */
int nl_wrap(int ret, struct mk_error *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Describe the error @ret of adding a qdisc of @kind, and return it. */
int nl_qdisc_failed(int ret, const char *kind, int ifindex, struct mk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/netlink/request.h - one request and its answer; private to src/base/netlink.
 *
 * Messages are built with libnl's nlmsg_ and nla_ helpers. Sending and receiving are done here,
 * because libnl 3.7 maps errno to its own smaller set of numbers and drops the kernel's error text
 * (extended ACK). */
#ifndef MK_BASE_NETLINK_REQUEST_H
#define MK_BASE_NETLINK_REQUEST_H

#include <netlink/attr.h>
#include <netlink/msg.h>
#include <stddef.h>

#include "base/netlink/netlink.h"

static inline void mk_cleanup_nlmsg(struct nl_msg **msg)
{
	nlmsg_free(*msg);
}
#define cleanup_nlmsg __attribute__((cleanup(mk_cleanup_nlmsg)))

/* Make a request of @type that begins with the family's fixed @header (ifinfomsg, rtmsg, ...).
 * NULL: out of memory. */
struct nl_msg *nlmsg_new(int type, int flags, const void *header, size_t header_bytes);

/* Append @ip as an attribute. Negative: no space. */
mk_must_check int nlmsg_put_ip(struct nl_msg *msg, int type, const struct mk_ip *ip);
/* Read an address attribute (4 or 16 bytes); false if its length is neither. */
bool nla_get_ip(const struct nlattr *attr, struct mk_ip *ip);
bool nla_get_mac(const struct nlattr *attr, struct mk_mac *mac);
uint8_t ip_bits(const struct mk_ip *ip);

/* Send @msg and wait for the acknowledgement. A NULL @msg counts as out of memory, so that a
 * builder's failure needs no branch of its own. The error text is the kernel's. */
mk_must_check int nl_request(struct mk_nl *nl, struct nl_msg *msg, struct mk_error *err);

/* Send @msg, which asks for one object or a dump (NLM_F_DUMP), and pass every message of the answer
 * to @visit. A visitor's negative return ends the walk and is returned. The answer is complete
 * before the first visit, so a visitor may use @nl. An interrupted dump is requested again, and no
 * visitor sees half of it. */
mk_must_check int nl_query(struct mk_nl *nl, struct nl_msg *msg,
			   int (*visit)(void *ctx, const struct nlmsghdr *reply), void *ctx,
			   struct mk_error *err);

/* Like mk_error_wrap(), but return @ret, which is valid even if @err is NULL. */
int nl_wrap(int ret, struct mk_error *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Describe the error @ret of adding a qdisc of @kind, and return it. */
int nl_qdisc_failed(int ret, const char *kind, int ifindex, struct mk_error *err);

#endif

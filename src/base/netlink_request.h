/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/netlink_request.h - one request and its answer; private to src/base/netlink*.c.
 *
 * Messages are built with libnl's nlmsg_ and nla_ helpers. Sending and receiving is done here
 * and not by libnl, because libnl 3.7 turns errno into its own smaller set of numbers and throws
 * the kernel's error text (extended ACK) away. */
#ifndef MK_BASE_NETLINK_REQUEST_H
#define MK_BASE_NETLINK_REQUEST_H

#include <netlink/attr.h>
#include <netlink/msg.h>
#include <stddef.h>

#include "base/netlink.h"

static inline void mk_cleanup_nlmsg(struct nl_msg **msg)
{
	nlmsg_free(*msg);
}
#define cleanup_nlmsg __attribute__((cleanup(mk_cleanup_nlmsg)))

/* A request of @type that begins with the family's fixed @header (ifinfomsg, rtmsg, ...).
 * NULL: out of memory. */
struct nl_msg *mk_nlmsg_new(int type, int flags, const void *header, size_t header_bytes);

/* @cidr or @ip as an attribute. Negative: no room. */
mk_must_check int mk_nlmsg_put_ip(struct nl_msg *msg, int type, const struct mk_ip *ip);
/* An address attribute (4 or 16 bytes); false if its length is neither. */
bool mk_nla_get_ip(const struct nlattr *attr, struct mk_ip *ip);
bool mk_nla_get_mac(const struct nlattr *attr, struct mk_mac *mac);
uint8_t mk_ip_bits(const struct mk_ip *ip);

/* Send @msg, wait for the acknowledgement. A NULL @msg counts as out of memory, so that a
 * builder's failure needs no branch of its own. The error text is the kernel's. */
mk_must_check int mk_nl_request(struct mk_nl *nl, struct nl_msg *msg, struct mk_error *err);

/* Send @msg, which asks for one object or a dump (NLM_F_DUMP), and hand every message of the
 * answer to @visit; its negative return ends the walk and is returned. The answer is complete
 * before the first visit, so a visitor may use @nl, and an interrupted dump is asked for again
 * without anybody seeing half of it. */
mk_must_check int mk_nl_query(struct mk_nl *nl, struct nl_msg *msg,
			      int (*visit)(void *ctx, const struct nlmsghdr *reply), void *ctx,
			      struct mk_error *err);

/* As mk_error_wrap(), but returns @ret, which survives where @err is NULL. */
int mk_nl_wrap(int ret, struct mk_error *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif

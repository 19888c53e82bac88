/* SPDX-License-Identifier: Apache-2.0 */
/* src/config/parse.h - parse the text of one setting into its field; private to src/config. Each
 * function returns 0, or -EINVAL and leaves the field unchanged. The caller adds key and value
 * to the message. */
#ifndef MK_CONFIG_PARSE_H
#define MK_CONFIG_PARSE_H

#include <stddef.h>

/* @size: the field's size in bytes, for functions that copy text. */
typedef int parse_fn(const char *text, void *field, size_t size);

#define MK_EXPECTED_IFNAME "a device name: 1 to 15 characters, no blank, '/' or ':'"
#define MK_EXPECTED_IFNAMES \
	"device names of 1 to 15 characters, no blank, '/' or ':', with commas between"
#define MK_EXPECTED_CLUSTER_NAME \
	"1 to 63 lower case letters, digits and '-', which begin and end with no '-'"
#define MK_EXPECTED_PATH	 "an absolute path"
#define MK_EXPECTED_MAGLEV_SLOTS "one of 251, 509, 1021, 2039, 4093, 8191, 16381, 32749 or 65521"
#define MK_EXPECTED_TABLE_SIZE \
	"a number of entries from 1024 to 16777216, of which a connection takes two"
#define MK_EXPECTED_CLIENTS    "a number of clients from 1024 to 16777216"
#define MK_EXPECTED_PORT_RANGE "two ports from 1 to 65535, the smaller first, such as 30000-32767"

parse_fn parse_string; /* char[]: not empty, short enough */
parse_fn parse_text; /* char[]: short enough */
parse_fn parse_url_or_empty; /* char[]: https:// and more */
parse_fn parse_path; /* char[]: absolute */
parse_fn parse_dns_name; /* char[]: RFC 1123 subdomain, as Kubernetes names nodes */
parse_fn parse_cluster_name_or_empty; /* char[]: RFC 1123 label */
parse_fn parse_cluster_id; /* uint32_t, of 24 bits */
parse_fn parse_ifname; /* char[IFNAMSIZ] */
parse_fn parse_ifnames_or_empty; /* char[]: "a,b" */
parse_fn parse_veth_prefix;
parse_fn parse_cidr; /* struct mk_cidr, host bits cleared */
parse_fn parse_ranges; /* struct mk_ranges: "a/16" or "a/16,b/48" of two families */
parse_fn parse_ranges_or_off; /* the same, or "off": none */
parse_fn parse_cidrs_or_empty; /* struct mk_cidr_list: "a/8,b/16" */
parse_fn parse_family; /* sa_family_t; "auto": AF_UNSPEC */
parse_fn parse_choice; /* enum mk_choice */
parse_fn parse_port; /* uint16_t, not 0 */
parse_fn parse_port_or_zero; /* uint16_t */
parse_fn parse_encryption; /* enum mk_encryption */
parse_fn parse_routing; /* enum mk_routing */
parse_fn parse_client_address; /* bool: Keep */
parse_fn parse_port_range; /* uint16_t[2] */
parse_fn parse_mtu; /* uint32_t */
parse_fn parse_maglev_slots; /* uint32_t: a prime of MK_EXPECTED_MAGLEV_SLOTS */
parse_fn parse_table_size; /* uint32_t */
parse_fn parse_syn_rate; /* uint32_t */
parse_fn parse_bool; /* bool */
parse_fn parse_log_level; /* enum mk_log_level */
parse_fn parse_log_format; /* enum mk_log_format */
parse_fn parse_policy_mode; /* enum mk_policy_mode */
parse_fn parse_listens_or_off; /* struct mk_listens: "a:1" or "a:1,b:1"; "off": none */

#endif

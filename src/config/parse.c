// SPDX-License-Identifier: Apache-2.0
#include "config/parse.h"

#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/ip.h"
#include "base/log.h"
#include "config/config.h"

/* A pod's host device is the prefix and this many characters of a hash. */
#define VETH_HASH_CHARS 11

#define MTU_MIN_BYTES  576 /* every IPv4 host must accept this size (RFC 791) */
#define CLUSTER_ID_MAX 0xffffff
#define SYN_RATE_MAX   1000000
#define MTU_MAX_BYTES  65535

#define TABLE_MIN_ENTRIES 1024
#define TABLE_MAX_ENTRIES (1u << 24) /* Linux before 5.11 refuses maps that may reach 4 GiB */

/* Parse only decimal digits: strtoul() would accept blanks, signs and "0x". */
static int parse_number(const char *text, const char *end, unsigned long min, unsigned long max,
			unsigned long *number)
{
	unsigned long value = 0;

	if (text == end || (*text == '0' && end - text > 1))
		return -EINVAL;
	for (; text < end; text++) {
		if (*text < '0' || *text > '9' || value > UINT32_MAX)
			return -EINVAL;
		value = value * 10 + (unsigned long)(*text - '0');
	}
	if (value < min || value > max)
		return -EINVAL;
	*number = value;
	return 0;
}

int parse_string(const char *text, void *field, size_t size)
{
	size_t length = strlen(text);

	if (length == 0 || length >= size)
		return -EINVAL;
	memset(field, 0, size);
	memcpy(field, text, length);
	return 0;
}

int parse_text(const char *text, void *field, size_t size)
{
	if (*text)
		return parse_string(text, field, size);
	memset(field, 0, size);
	return 0;
}

/* src/cluster/api reports other errors of the URL, in the same words as for a URL in a
 * kubeconfig. */
int parse_url_or_empty(const char *text, void *field, size_t size)
{
	static const char scheme[] = "https://";

	if (*text && (strncmp(text, scheme, strlen(scheme)) != 0 || !text[strlen(scheme)]))
		return -EINVAL;
	return parse_text(text, field, size);
}

int parse_path(const char *text, void *field, size_t size)
{
	return text[0] == '/' ? parse_string(text, field, size) : -EINVAL;
}

int parse_dns_name(const char *text, void *field, size_t size)
{
	for (const char *c = text; *c; c++) {
		bool inside = c != text && c[1] && *c == '-';
		bool dot = c != text && c[1] && *c == '.' && isalnum((unsigned char)c[-1]) &&
			   isalnum((unsigned char)c[1]);

		if (!islower((unsigned char)*c) && !isdigit((unsigned char)*c) && !inside && !dot)
			return -EINVAL;
	}
	return parse_string(text, field, size);
}

int parse_cluster_name_or_empty(const char *text, void *field, size_t size)
{
	if (!*text)
		return parse_text(text, field, size);
	return strchr(text, '.') ? -EINVAL : parse_dns_name(text, field, size);
}

/* The kernel's own rule: dev_valid_name() in net/core/dev.c. */
int parse_ifname(const char *text, void *field, size_t size)
{
	if (strcmp(text, ".") == 0 || strcmp(text, "..") == 0)
		return -EINVAL;
	for (const char *c = text; *c; c++)
		if (*c == '/' || *c == ':' || isspace((unsigned char)*c))
			return -EINVAL;
	return parse_string(text, field, size);
}

/* Copy the next word of a list with commas into @word. Returns 1, 0 after the last, or -EINVAL if
 * it does not fit. */
static int next_word(const char **at, char *word, size_t size)
{
	size_t length;

	if (!*at)
		return 0;
	length = strcspn(*at, ",");
	if (length >= size)
		return -EINVAL;
	memcpy(word, *at, length);
	word[length] = '\0';
	*at = (*at)[length] ? *at + length + 1 : NULL;
	return 1;
}

int parse_ifnames_or_empty(const char *text, void *field, size_t size)
{
	const char *at = *text ? text : NULL;
	char one[IFNAMSIZ], checked[IFNAMSIZ];
	int ret;

	while ((ret = next_word(&at, one, sizeof(one))) > 0)
		if (parse_ifname(one, checked, sizeof(checked)) < 0)
			return -EINVAL;
	return ret < 0 ? ret : parse_text(text, field, size);
}

int parse_veth_prefix(const char *text, void *field, size_t size)
{
	if (strlen(text) > IFNAMSIZ - 1 - VETH_HASH_CHARS)
		return -EINVAL;
	for (const char *c = text; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '-' && *c != '_')
			return -EINVAL;
	return parse_string(text, field, size);
}

int parse_cidr(const char *text, void *field, size_t size)
{
	struct mk_cidr cidr;

	(void)size;
	if (mk_cidr_parse(text, &cidr) < 0)
		return -EINVAL;
	*(struct mk_cidr *)field = mk_cidr_network(&cidr);
	return 0;
}

int parse_cidrs_or_empty(const char *text, void *field, size_t size)
{
	const char *at = *text ? text : NULL;
	struct mk_cidr_list list = { 0 };
	char one[MK_CIDR_STRLEN];
	int ret;

	(void)size;
	while ((ret = next_word(&at, one, sizeof(one))) > 0)
		if (list.count == MK_ARRAY_SIZE(list.cidr) ||
		    parse_cidr(one, &list.cidr[list.count++], sizeof(list.cidr[0])) < 0)
			return -EINVAL;
	if (ret == 0)
		*(struct mk_cidr_list *)field = list;
	return ret;
}

int parse_ranges(const char *text, void *field, size_t size)
{
	struct mk_cidr_list list;
	struct mk_ranges ranges;

	if (parse_cidrs_or_empty(text, &list, size) < 0 || list.count == 0 ||
	    list.count > MK_FAMILIES)
		return -EINVAL;
	ranges = (struct mk_ranges){ .primary = list.cidr[0].ip.family };
	for (size_t i = 0; i < list.count; i++) {
		struct mk_cidr *range = &ranges.of[mk_family_index(list.cidr[i].ip.family)];

		if (range->ip.family != AF_UNSPEC)
			return -EINVAL;
		*range = list.cidr[i];
	}
	*(struct mk_ranges *)field = ranges;
	return 0;
}

int parse_ranges_or_off(const char *text, void *field, size_t size)
{
	if (strcmp(text, "off") != 0)
		return parse_ranges(text, field, size);
	*(struct mk_ranges *)field = (struct mk_ranges){ 0 };
	return 0;
}

/* Find @text among @words. Returns its index, or -EINVAL. */
static int index_of(const char *text, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(text, words[i]) == 0)
			return (int)i;
	return -EINVAL;
}

int parse_family(const char *text, void *field, size_t size)
{
	static const char *const words[] = { "auto", "IPv4", "IPv6" };
	static const sa_family_t families[] = { AF_UNSPEC, AF_INET, AF_INET6 };
	int index = index_of(text, words, MK_ARRAY_SIZE(words));

	(void)size;
	if (index < 0)
		return index;
	*(sa_family_t *)field = families[index];
	return 0;
}

/* Find @text among @words; its index is the value of the enumeration @field. */
static int parse_enum(const char *text, const char *const *words, size_t count, void *field)
{
	int index = index_of(text, words, count);

	if (index < 0)
		return index;
	*(unsigned int *)field = (unsigned int)index;
	return 0;
}

int parse_choice(const char *text, void *field, size_t size)
{
	static const char *const words[] = {
		[MK_AUTO] = "auto", [MK_TRUE] = "true", [MK_FALSE] = "false"
	};

	(void)size;
	return parse_enum(text, words, MK_ARRAY_SIZE(words), field);
}

int parse_policy_mode(const char *text, void *field, size_t size)
{
	static const char *const words[] = {
		[MK_POLICIES_ENFORCED] = "enforce",
		[MK_POLICIES_AUDITED] = "audit",
		[MK_POLICIES_OFF] = "off",
	};

	(void)size;
	return parse_enum(text, words, MK_ARRAY_SIZE(words), field);
}

int parse_encryption(const char *text, void *field, size_t size)
{
	static const char *const words[] = {
		[MK_ENCRYPTION_NONE] = "None",
		[MK_ENCRYPTION_WIREGUARD] = "WireGuard",
		[MK_ENCRYPTION_ONLY] = "WireGuardOnly",
	};

	(void)size;
	return parse_enum(text, words, MK_ARRAY_SIZE(words), field);
}

int parse_routing(const char *text, void *field, size_t size)
{
	static const char *const words[] = {
		[MK_ROUTING_OVERLAY] = "Overlay",
		[MK_ROUTING_DIRECT] = "Direct",
		[MK_ROUTING_AUTO] = "Auto",
	};

	(void)size;
	return parse_enum(text, words, MK_ARRAY_SIZE(words), field);
}

int parse_client_address(const char *text, void *field, size_t size)
{
	static const char *const words[] = { "Masquerade", "Keep" };
	int index = index_of(text, words, MK_ARRAY_SIZE(words));

	(void)size;
	if (index < 0)
		return index;
	*(bool *)field = index;
	return 0;
}

int parse_port(const char *text, void *field, size_t size)
{
	unsigned long port;

	(void)size;
	if (parse_number(text, text + strlen(text), 1, UINT16_MAX, &port) < 0)
		return -EINVAL;
	*(uint16_t *)field = (uint16_t)port;
	return 0;
}

int parse_port_or_zero(const char *text, void *field, size_t size)
{
	if (strcmp(text, "0") != 0)
		return parse_port(text, field, size);
	*(uint16_t *)field = 0;
	return 0;
}

int parse_port_range(const char *text, void *field, size_t size)
{
	const char *dash = strchr(text, '-');
	unsigned long min, max;
	uint16_t *range = field;

	(void)size;
	if (!dash || parse_number(text, dash, 1, UINT16_MAX, &min) < 0 ||
	    parse_number(dash + 1, dash + strlen(dash), min, UINT16_MAX, &max) < 0)
		return -EINVAL;
	range[0] = (uint16_t)min;
	range[1] = (uint16_t)max;
	return 0;
}

int parse_mtu(const char *text, void *field, size_t size)
{
	unsigned long bytes;

	(void)size;
	if (parse_number(text, text + strlen(text), 0, MTU_MAX_BYTES, &bytes) < 0 ||
	    (bytes != 0 && bytes < MTU_MIN_BYTES))
		return -EINVAL;
	*(uint32_t *)field = (uint32_t)bytes;
	return 0;
}

static int parse_up_to(const char *text, unsigned long max, uint32_t *field)
{
	unsigned long number;

	if (parse_number(text, text + strlen(text), 0, max, &number) < 0)
		return -EINVAL;
	*field = (uint32_t)number;
	return 0;
}

int parse_cluster_id(const char *text, void *field, size_t size)
{
	(void)size;
	return parse_up_to(text, CLUSTER_ID_MAX, field);
}

int parse_syn_rate(const char *text, void *field, size_t size)
{
	(void)size;
	return parse_up_to(text, SYN_RATE_MAX, field);
}

/* Each is the largest prime below a power of two, so that almost no part of a table is padding. */
int parse_maglev_slots(const char *text, void *field, size_t size)
{
	static const uint32_t primes[] = { 251, 509, 1021, 2039, 4093, 8191, 16381, 32749, 65521 };
	unsigned long slots;

	(void)size;
	if (parse_number(text, text + strlen(text), 1, UINT16_MAX, &slots) < 0)
		return -EINVAL;
	for (size_t i = 0; i < MK_ARRAY_SIZE(primes); i++) {
		if (primes[i] != slots)
			continue;
		*(uint32_t *)field = primes[i];
		return 0;
	}
	return -EINVAL;
}

int parse_table_size(const char *text, void *field, size_t size)
{
	unsigned long entries;

	(void)size;
	if (parse_number(text, text + strlen(text), TABLE_MIN_ENTRIES, TABLE_MAX_ENTRIES,
			 &entries) < 0)
		return -EINVAL;
	*(uint32_t *)field = (uint32_t)entries;
	return 0;
}

int parse_bool(const char *text, void *field, size_t size)
{
	bool yes = strcmp(text, "true") == 0;

	(void)size;
	if (!yes && strcmp(text, "false") != 0)
		return -EINVAL;
	*(bool *)field = yes;
	return 0;
}

int parse_listens_or_off(const char *text, void *field, size_t size)
{
	const char *at = strcmp(text, "off") == 0 ? NULL : text;
	struct mk_listens listens = { 0 };
	char one[MK_IP_PORT_STRLEN];
	int ret;

	(void)size;
	while ((ret = next_word(&at, one, sizeof(one))) > 0)
		if (listens.count == MK_FAMILIES ||
		    mk_ip_port_parse(one, &listens.at[listens.count++]) < 0)
			return -EINVAL;
	if (ret == 0)
		*(struct mk_listens *)field = listens;
	return ret;
}

int parse_log_level(const char *text, void *field, size_t size)
{
	(void)size;
	return mk_log_parse_level(text, field);
}

int parse_log_format(const char *text, void *field, size_t size)
{
	(void)size;
	return mk_log_parse_format(text, field);
}

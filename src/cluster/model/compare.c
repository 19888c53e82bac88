// SPDX-License-Identifier: Apache-2.0
/* Order and equality of the parts of objects. */
#include <stdlib.h>
#include <string.h>

#include "cluster/model/object.h"

int text_compare(const char *a, const char *b)
{
	if (!a || !b)
		return (a == NULL) - (b == NULL);
	return strcmp(a, b);
}

int ips_add(struct mk_ip **ips, size_t *count, const struct mk_ip *ip, struct mk_error *err)
{
	struct mk_ip *more = reallocarray(*ips, *count + 1, sizeof(*more));

	if (!more)
		return mk_error_errno(err, ENOMEM, "%zu addresses", *count + 1);
	more[(*count)++] = *ip;
	*ips = more;
	return 0;
}

static int compare_identity(const struct mk_endpoint *a, const struct mk_endpoint *b)
{
	int order = mk_ip_compare(&a->ip, &b->ip);

	if (order == 0)
		order = (int)a->port - b->port;
	if (order == 0)
		order = (int)a->proto - b->proto;
	return order ? order : strcmp(a->port_name, b->port_name);
}

static int compare_names(char *const *a, size_t a_count, char *const *b, size_t b_count)
{
	int order = (a_count > b_count) - (a_count < b_count);

	for (size_t i = 0; order == 0 && i < a_count; i++)
		order = strcmp(a[i], b[i]);
	return order;
}

int endpoint_compare(const struct mk_endpoint *a, const struct mk_endpoint *b)
{
	int order = compare_identity(a, b);

	if (order == 0)
		order = a->terminating - b->terminating;
	if (order == 0)
		order = b->ready - a->ready;
	if (order == 0)
		order = b->serving - a->serving;
	if (order == 0)
		order = text_compare(a->node_name, b->node_name);
	if (order == 0)
		order = compare_names(a->hints->names, a->hints->zone_count, b->hints->names,
				      b->hints->zone_count);
	if (order == 0)
		order = compare_names(a->hints->names + a->hints->zone_count, a->hints->node_count,
				      b->hints->names + b->hints->zone_count, b->hints->node_count);
	return order;
}

bool endpoint_same(const struct mk_endpoint *a, const struct mk_endpoint *b)
{
	return compare_identity(a, b) == 0;
}

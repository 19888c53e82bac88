// SPDX-License-Identifier: Apache-2.0
#include "cluster/model/object.h"

/* The API server allows at most one range per family. */
int service_cidr_decode(const struct mk_json *tree, struct mk_cidr *cidr, struct mk_error *err)
{
	struct mk_json spec, list, at;
	int ret = tree_member(tree, "spec", json_type_object, &spec, err);

	*cidr = (struct mk_cidr){ .ip.family = AF_UNSPEC };
	ret = ret ?: tree_member(&spec, "cidrs", json_type_array, &list, err);
	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		struct mk_cidr one;

		ret = tree_item(&list, i, json_type_string, &at, err);
		if (ret == 0 && mk_cidr_parse_lenient(mk_json_string(&at), &one) < 0)
			ret = tree_wrong(&at, "a range such as 10.96.0.0/16", err);
		if (ret == 0 && one.ip.family == AF_INET && cidr->ip.family == AF_UNSPEC)
			*cidr = mk_cidr_network(&one);
	}
	return ret;
}

// SPDX-License-Identifier: Apache-2.0
#include "cluster/model/object.h"

/* The API server allows at most one range per family. */
int service_cidr_decode(const struct mk_json *tree, struct mk_cidr cidrs[MK_FAMILIES],
			struct mk_error *err)
{
	struct mk_json spec, list, at;
	int ret = tree_member(tree, "spec", json_type_object, &spec, err);

	cidrs[0] = cidrs[1] = (struct mk_cidr){ .ip.family = AF_UNSPEC };
	ret = ret ?: tree_member(&spec, "cidrs", json_type_array, &list, err);
	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		struct mk_cidr one, *known;

		ret = tree_item(&list, i, json_type_string, &at, err);
		if (ret == 0 && mk_cidr_parse_lenient(mk_json_string(&at), &one) < 0)
			ret = tree_wrong(&at, "a range such as 10.96.0.0/16", err);
		if (ret < 0)
			return ret;
		known = &cidrs[mk_family_index(one.ip.family)];
		if (known->ip.family == AF_UNSPEC)
			*known = mk_cidr_network(&one);
	}
	return ret;
}

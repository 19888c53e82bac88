/* SPDX-License-Identifier: Apache-2.0 */
/* test/fuzz/compile.h - the end of the way of what a cluster says: every Service compiled, in both
 * families. */
#ifndef MK_TEST_FUZZ_COMPILE_H
#define MK_TEST_FUZZ_COMPILE_H

#include "cluster/model/model.h"
#include "fuzz/fuzz.h"
#include "service/service.h"

static inline void compile_family(const struct mk_model *model, sa_family_t family,
				  const char *node_address, const struct mk_service_object *service)
{
	struct mk_ip node_ip;
	struct mk_service_view view = { .family = family,
					.node_name = "node1",
					.zone = "a",
					.node_addresses = &node_ip,
					.node_address_count = 1,
					.local_weight = 1,
					.maglev_slots = 251 };
	struct mk_compiled_service compiled;
	struct mk_error err;

	fuzz_check(mk_ip_parse(node_address, &node_ip) == 0);
	if (mk_service_compile(model, &view, service->namespace_, service->name, &compiled, &err) ==
	    0)
		mk_compiled_service_release(&compiled);
}

static inline void compile_service(void *ctx, const struct mk_service_object *service)
{
	compile_family(ctx, AF_INET, "192.168.99.11", service);
	compile_family(ctx, AF_INET6, "fd00:99::11", service);
}

#endif

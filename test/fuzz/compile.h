/* SPDX-License-Identifier: Apache-2.0 */
/* test/fuzz/compile.h - the end of the way of what a cluster says: every Service compiled. */
#ifndef MK_TEST_FUZZ_COMPILE_H
#define MK_TEST_FUZZ_COMPILE_H

#include "cluster/model/model.h"
#include "fuzz/fuzz.h"
#include "service/service.h"

static inline void compile_service(void *ctx, const struct mk_service_object *service)
{
	const struct mk_model *model = ctx;
	struct mk_ip node_ip;
	struct mk_service_view view = { .family = AF_INET,
					.node_name = "node1",
					.zone = "a",
					.node_addresses = &node_ip,
					.node_address_count = 1,
					.local_weight = 1,
					.maglev_slots = 251 };
	struct mk_compiled_service compiled;
	struct mk_error err;

	fuzz_check(mk_ip_parse("192.168.99.11", &node_ip) == 0);
	if (mk_service_compile(model, &view, service->namespace_, service->name, &compiled, &err) ==
	    0)
		mk_compiled_service_release(&compiled);
}

#endif

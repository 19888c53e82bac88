/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/inspect/services.h - `monokube services`: what the pinned tables say about Services,
 * collected (services.c) and shown (services_show.c). */
#ifndef MK_CLI_INSPECT_SERVICES_H
#define MK_CLI_INSPECT_SERVICES_H

#include <stdio.h>

#include "base/error.h"
#include "datapath/services/counters.h"
#include "datapath/services/names.h"

struct mk_cli_frontend {
	struct mk_frontend_key key;
	struct mk_frontend value;
	struct mk_backend *backends; /* value.backend_count, local first; NULL: none */
	size_t family; /* of mk_cli_options.families */
	const char *name; /* of the Service; NULL: not known */
};
/* One Service of both families; its frontends are adjacent in the list. */
struct mk_cli_service {
	uint32_t service_id; /* in the tables of the first family that has it */
	const char *name; /* "namespace/name"; NULL: not known */
	const struct mk_cli_frontend *frontends;
	size_t frontend_count;
	const struct mk_service_totals *totals; /* NULL: no traffic, no drops */
};

void cli_show_text(FILE *out, const struct mk_cli_service *services, size_t count);
/* An array of objects, one per Service. */
mk_must_check int cli_show_json(FILE *out, const struct mk_cli_service *services, size_t count,
				struct mk_error *err);

#endif

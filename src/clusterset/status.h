/* SPDX-License-Identifier: Apache-2.0 */
/* src/clusterset/status.h - what the leader says of ServiceExports and ServiceImports: status
 * with conditions, whose types and reasons are those of mcs-api v0.5. Pure: JSON trees in and out.
 * A condition keeps its lastTransitionTime while its status stays, so an unchanged status has the
 * same text. */
#ifndef MK_CLUSTERSET_STATUS_H
#define MK_CLUSTERSET_STATUS_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

#include "clusterset/imports.h"
#include "clusterset/publish.h"

/* Return what to apply to status of @service_export: apiVersion, kind, metadata, status with
 * conditions Valid, Ready and Conflict. @merged: NULL as long as the Service is not merged, or
 * if it is not valid. @is_written: the PublishedServices are written. @now: RFC 3339. The caller
 * puts the result. NULL: no memory. */
json_object *mk_export_status(json_object *service_export, const struct mk_publication *publication,
			      const struct mk_merged *merged, bool is_written, const char *now);

/* Return what to apply to status of the ServiceImport @existing (NULL: just made): clusters,
 * and of v1beta1 condition Ready. @merged has an import. The caller puts the result. NULL: no
 * memory. */
json_object *mk_import_status(json_object *existing, const struct mk_merged *merged,
			      const char *now);

#endif

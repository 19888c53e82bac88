// SPDX-License-Identifier: Apache-2.0
/* Conditions of ServiceExports and ServiceImports. */
#include "clusterset/status.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "clusterset/condition.h"
#include "clusterset/content.h"

/* ---- ServiceExports -------------------------------------------------------------------------- */

static struct verdict valid_export(const struct mk_publication *publication)
{
	static const struct verdict conditions[] = {
		[MK_EXPORT_VALID] = { "Valid", "True", "Valid", "the Service can be exported" },
		[MK_EXPORT_NO_SERVICE] = { "Valid", "False", "NoService",
					   "there is no Service of this name in the namespace" },
		[MK_EXPORT_INVALID_TYPE] = { "Valid", "False", "InvalidServiceType",
					     "a Service of type ExternalName cannot be exported" },
		[MK_EXPORT_FAILED] = { "Valid", "True", "Valid", "the Service can be exported" },
	};

	return conditions[publication->verdict];
}

static struct verdict ready_export(const struct mk_publication *publication, bool is_written,
				   const char *note)
{
	if (publication->verdict == MK_EXPORT_FAILED)
		return (struct verdict){ "Ready", "False", "Failed", publication->note ?: "" };
	if (publication->verdict != MK_EXPORT_VALID)
		return (struct verdict){ "Ready", "False", "Failed", "the export is not valid" };
	if (!is_written)
		return (struct verdict){ "Ready", "False", "Pending",
					 "the PublishedServices are not written yet" };
	return (struct verdict){ "Ready", "True", "Ready", note };
}

static struct verdict export_conflict(const struct mk_merged *merged)
{
	if (merged->conflict_reasons)
		return (struct verdict){ "Conflict", "True", merged->conflict_reasons,
					 merged->conflict_message };
	return (struct verdict){ "Conflict", "False", "NoConflicts",
				 "all exports of this Service agree" };
}

/* Append to @text the first endpoint that is left out, and how many are. NULL: no memory. */
static char *with_left_out(char *text, const char *note, size_t left_out)
{
	int ret = text ? 0 : -1;

	if (ret == 0 && note)
		ret = add_text(&text, "; ", "%s", note);
	if (ret == 0 && left_out > 1)
		ret = add_text(&text, "; ", "%zu are left out in total", left_out);
	if (ret == 0)
		return text;
	free(text);
	return NULL;
}

static char *format_published(const struct mk_publication *publication)
{
	char *text = NULL;

	if (add_text(&text, NULL, "%zu endpoints are published", publication->endpoint_count) < 0)
		return NULL;
	return with_left_out(text, publication->note, publication->left_out);
}

json_object *mk_export_status(json_object *service_export, const struct mk_publication *publication,
			      const struct mk_merged *merged, bool is_written, const char *now)
{
	cleanup_free char *published = format_published(publication);
	struct maker maker = { 0 };
	struct verdict conditions[3];
	json_object *status;
	size_t count = 2;

	if (!published)
		return NULL;
	conditions[0] = valid_export(publication);
	conditions[1] = ready_export(publication, is_written, published);
	if (merged && publication->verdict == MK_EXPORT_VALID)
		conditions[count++] = export_conflict(merged);
	status = make_object(&maker);
	put(&maker, status, "conditions",
	    make_conditions(&maker, service_export, conditions, count, now));
	return make_status(&maker, service_export, status);
}

/* ---- ServiceImports -------------------------------------------------------------------------- */

json_object *mk_import_status(json_object *existing, const struct mk_merged *merged,
			      const char *now)
{
	cleanup_free char *usable =
		with_left_out(strdup("the Service can be used"), merged->note, merged->left_out);
	const struct verdict ready = { "Ready", "True", "Ready", usable ?: "" };
	static const struct verdict lacking = {
		"Ready", "False", "IPFamilyNotSupported",
		"the exports have no family of addresses that clustersetCidr has"
	};
	const char *version = member_text(merged->import, "apiVersion") ?: "";
	struct maker maker = { .failed = !usable };
	json_object *status = make_object(&maker);

	put(&maker, status, "clusters", json_object_get(merged->clusters));
	if (!strstr(version, "v1alpha1")) {
		put_text(&maker, status, "endpointSliceObjects", "Present");
		put(&maker, status, "conditions",
		    make_conditions(&maker, existing, merged->lacks_family ? &lacking : &ready, 1,
				    now));
	}
	return make_status(&maker, merged->import, status);
}

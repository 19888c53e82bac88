// SPDX-License-Identifier: Apache-2.0
/* test/fuzz/fuzz_yaml.c - a file of the cluster directory: YAML to trees, model, compiled Services
 * and policies. */
#include <string.h>

#include "cluster/files/yaml_json.h"
#include "fuzz/compile.h"
#include "fuzz/policies.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mk_documents documents = { 0 };
	struct mk_model *model = mk_model_new();
	struct mk_error err = { 0 };

	fuzz_check(model != NULL);
	if (mk_yaml_parse((const char *)data, size, &documents, &err) == 0) {
		for (size_t i = 0; i < documents.count; i++)
			(void)!mk_model_apply(model, documents.items[i].tree, &err);
		mk_documents_release(&documents);
	} else {
		fuzz_check(strncmp(err.text, "line ", 5) == 0 || err.code == ENOMEM);
	}
	mk_model_each(struct mk_service_object, of, model, MK_KIND_SERVICE)
		compile_service(model, of);
	compile_policies(model);
	mk_model_free(model);
	return 0;
}

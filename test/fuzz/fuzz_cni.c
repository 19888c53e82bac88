// SPDX-License-Identifier: Apache-2.0
/* test/fuzz/fuzz_cni.c - what a runtime writes on the plugin's standard input. */
#include <stdint.h>

#include "cni/conf.h"
#include "cni/reply.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mk_cni_failure failure = { 0 };
	cleanup_cni_conf struct mk_cni_conf conf = { 0 };
	char *text = fuzz_text(data, size);
	json_object *list = NULL, *answer;

	if (mk_cni_conf_parse(&conf, text, size, &failure) == 0) {
		(void)!mk_cni_conf_read_network(&conf, &failure);
		(void)mk_cni_conf_prev_result(&conf);
		(void)!mk_cni_conf_attachments(&conf, &list, &failure);
	}
	if (failure.code) { /* every refusal can be told as the specification wants it */
		answer = mk_cni_failure_json(&failure, "1.0.0");
		fuzz_check(answer && json_object_to_json_string(answer));
		json_object_put(answer);
	}
	free(text);
	return 0;
}

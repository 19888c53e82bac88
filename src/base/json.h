/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/json.h - json-c objects that release themselves at the end of their scope. */
#ifndef MK_BASE_JSON_H
#define MK_BASE_JSON_H

#include <json-c/json.h>

static inline void mk_cleanup_json(json_object **object)
{
	json_object_put(*object);
}
#define cleanup_json __attribute__((cleanup(mk_cleanup_json)))

#endif

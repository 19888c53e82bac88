/* SPDX-License-Identifier: Apache-2.0 */
/* src/pod/request/member.h - members of the JSON objects that a runtime writes. Runtimes write
 * capability arguments from Go structures without tags: containerd sends `HostPort` where the CNI
 * conventions say `hostPort`. Plugins in Go accept both, because encoding/json ignores case. */
#ifndef MK_POD_REQUEST_MEMBER_H
#define MK_POD_REQUEST_MEMBER_H

#include <json-c/json.h>
#include <stdbool.h>

/* Find member @name of @object: the one with exactly this name, else the last one whose name folds
 * to it. Returns false with *@value NULL if there is none, or @object is not an object. */
bool mk_cni_member(json_object *object, const char *name, json_object **value);

/* Return string member @name of @object; NULL: missing, or not a string. */
const char *mk_cni_string(json_object *object, const char *name);

#endif

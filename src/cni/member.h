/* SPDX-License-Identifier: Apache-2.0 */
/* src/cni/member.h - members of the JSON objects that a runtime writes. Runtimes write capability
 * arguments from Go structures without tags: containerd sends `HostPort` where the CNI conventions
 * say `hostPort`. Every plugin in Go accepts both, because of how encoding/json compares names. */
#ifndef MK_CNI_MEMBER_H
#define MK_CNI_MEMBER_H

#include <json-c/json.h>
#include <stdbool.h>

/* Do @name and @known differ only in case, as Go's encoding/json compares? @known is ASCII.
 * U+212A (Kelvin sign) equals K, U+017F (long s) equals S: the two other characters of Unicode
 * that fold to ASCII letters. */
bool mk_cni_name_folds(const char *name, const char *known);

/* Member @name of @object into *@value: the one with exactly this name, else the last one whose
 * name folds to it. false, and NULL: no such member, or @object is not an object. */
bool mk_cni_member(json_object *object, const char *name, json_object **value);

/* String member @name of @object; NULL: not there, or not a string. */
const char *mk_cni_string(json_object *object, const char *name);

#endif

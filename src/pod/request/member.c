// SPDX-License-Identifier: Apache-2.0
/* Members of a JSON object, whatever the case of their letters. */
#include "pod/request/conf.h"

#include <string.h>

#include "pod/request/request_internal.h"

/* Return the first character of @text, an ASCII letter in lower case; *@length is its
 * size in bytes. */
static char fold(const char *text, size_t *length)
{
	static const char kelvin_sign[] = "\u212a", long_s[] = "\u017f";
	const char c = *text;

	*length = 1;
	if (c >= 'A' && c <= 'Z')
		return (char)(c - 'A' + 'a');
	if (strncmp(text, kelvin_sign, strlen(kelvin_sign)) == 0) {
		*length = strlen(kelvin_sign);
		return 'k';
	}
	if (strncmp(text, long_s, strlen(long_s)) == 0) {
		*length = strlen(long_s);
		return 's';
	}
	return c;
}

bool cni_name_folds(const char *name, const char *known)
{
	size_t name_length, known_length;

	while (*name && *known) {
		if (fold(name, &name_length) != fold(known, &known_length))
			return false;
		name += name_length;
		known += known_length;
	}
	return !*name && !*known;
}

bool mk_cni_member(json_object *object, const char *name, json_object **value)
{
	bool found = false;

	*value = NULL;
	if (!json_object_is_type(object, json_type_object))
		return false;
	if (json_object_object_get_ex(object, name, value))
		return true;
	json_object_object_foreach(object, key, member)
	{
		if (!cni_name_folds(key, name))
			continue;
		*value = member;
		found = true;
	}
	return found;
}

const char *mk_cni_string(json_object *object, const char *name)
{
	json_object *value;

	if (!mk_cni_member(object, name, &value) || !json_object_is_type(value, json_type_string))
		return NULL;
	return json_object_get_string(value);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/files/encoding.h - base64 (RFC 4648, section 4), as in the data of a Secret. */
#ifndef MK_CLUSTER_FILES_ENCODING_H
#define MK_CLUSTER_FILES_ENCODING_H

#include <stddef.h>
#include <sys/types.h>

/* Decode @text, ignoring white space, which a folded YAML text has. @out takes strlen(@text) bytes.
 * Returns the size, or -1: no base64. */
ssize_t mk_base64_decode(const char *text, unsigned char *out);

/* Encode @size bytes. The caller frees the text. NULL: out of memory. */
char *mk_base64_encode(const void *data, size_t size);

#endif

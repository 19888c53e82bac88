/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/maps/row.h - between rows (table.h) and what IPv4 tables hold: a row without the
 * first 12 bytes of each address and without the padding that only IPv6 needs. */
#ifndef MK_DATAPATH_MAPS_ROW_H
#define MK_DATAPATH_MAPS_ROW_H

#include <stddef.h>

struct cut;

/* How a struct of the tables is stored for IPv4. */
struct row_form {
	const struct cut *cuts; /* what is left out, by offset in the row */
	size_t cut_count;
	size_t row_bytes, ipv4_bytes; /* of the struct */
};

/* Return the form of the keys or of the values of map @name. NULL: both families store the same.
 * @name may be cut to 15 characters, as the kernel shows it. */
const struct row_form *row_key_form(const char *name);
const struct row_form *row_value_form(const char *name);
extern const struct row_form row_form_node, row_form_drop_event, row_form_flow_event;

/* Convert a row of @bytes. It may be longer than the struct: the end is copied as it is. */
void row_narrow(const struct row_form *form, void *ipv4, const void *row, size_t bytes);
/* @row may overlap @ipv4 if it begins at the same byte or after it. */
void row_widen(const struct row_form *form, void *row, const void *ipv4, size_t bytes);

#endif

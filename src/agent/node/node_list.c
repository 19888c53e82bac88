// SPDX-License-Identifier: Apache-2.0
/* Nodes in a line of the log, of an Event: the first few, and how many more. */
#include <stdlib.h>

#include "agent/node/node_internal.h"
#include "base/cleanup.h"

#define NAMED 5 /* a line of the log has room for these and a remedy */

void node_list_begin(struct node_list *list)
{
	*list = (struct node_list){ 0 };
	list->out = open_memstream(&list->text, &list->size);
}

FILE *node_list_add(struct node_list *list)
{
	if (list->count++ >= NAMED)
		return NULL;
	if (list->out && list->count > 1)
		fputs("; ", list->out);
	return list->out;
}

char *node_list_end(struct node_list *list, const char *all)
{
	if (!list->out)
		return NULL;
	if (list->count > NAMED)
		fprintf(list->out, "; and %zu more%s", list->count - NAMED, all);
	if (fclose(list->out) != 0)
		free(mk_steal_ptr(list->text));
	return list->text;
}

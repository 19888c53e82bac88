// SPDX-License-Identifier: Apache-2.0
/* Ids of backend sets and Services, all from one counter that only grows. So an id that a session
 * still names is never assigned again. Ids of an earlier agent are read from the frontends. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "datapath/services/services_internal.h"

uint32_t sync_new_id(struct mk_service_sync *sync)
{
	do
		sync->last_id++;
	while (sync->last_id == 0 || sync_set(sync, sync->last_id));
	return sync->last_id;
}

void mk_service_sync_reserve_ids(struct mk_service_sync *sync, uint32_t last_id)
{
	if (last_id > sync->last_id)
		sync->last_id = last_id;
}

int sync_recover_id(struct mk_service_sync *sync, uint32_t id)
{
	size_t count = sync->recovered_count;
	struct recovered_id *added;

	mk_service_sync_reserve_ids(sync, id);
	if (id == 0 || (count && sync->recovered[count - 1].id == id))
		return 0;
	added = mk_append(sync->recovered, sync->recovered_count);
	if (!added)
		return -ENOMEM;
	added->id = id;
	return 0;
}

void sync_recovered_sort(struct mk_service_sync *sync)
{
	size_t kept = 0;

	if (sync->recovered_count == 0)
		return;
	qsort(sync->recovered, sync->recovered_count, sizeof(*sync->recovered), mk_compare_ids);
	for (size_t i = 0; i < sync->recovered_count; i++)
		if (kept == 0 || sync->recovered[kept - 1].id != sync->recovered[i].id)
			sync->recovered[kept++] = sync->recovered[i];
	sync->recovered_count = kept;
}

void service_sync_each_id(const struct mk_service_sync *sync,
			  void (*see)(void *ctx, uint32_t service_id, const char *name), void *ctx)
{
	const struct service *service, *next;

	HASH_ITER(hh, sync->services, service, next)
		if (service->service_id)
			see(ctx, service->service_id, service->name);
}

uint32_t mk_service_sync_names_serial(const struct mk_service_sync *sync)
{
	return sync->names_serial;
}

bool sync_take_id(struct mk_service_sync *sync, uint32_t id)
{
	struct recovered_id *found =
		mk_find(&id, sync->recovered, sync->recovered_count, mk_compare_ids);

	if (!found || found->taken)
		return false;
	found->taken = true;
	return true;
}

void sync_recovered_forget(struct mk_service_sync *sync)
{
	free(sync->recovered);
	sync->recovered = NULL;
	sync->recovered_count = 0;
}

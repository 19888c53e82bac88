// SPDX-License-Identifier: Apache-2.0
/* What others may know of a reflector. */
#include <string.h>

#include "base/time.h"
#include "cluster/watch/reflector_internal.h"

/* Before the first contact, contact_ms is the time of the start. */
void mk_reflector_stats(const struct mk_reflector *reflector, struct mk_reflector_stats *stats)
{
	uint64_t silence_ms = uv_now(reflector->loop) - reflector->contact_ms;
	uint64_t now_ms = (uint64_t)mk_time_now_unix_ns() / 1000000;

	*stats = (struct mk_reflector_stats){
		.followed = true,
		.up = !*reflector->complaint && reflector->listed_once,
		.listed = reflector->listed_once,
		.objects = seen_count(reflector->seen),
		.undecodable = seen_unusable(reflector->seen),
		.lists = reflector->lists,
		.watches = reflector->watches,
		.events = reflector->events,
		.failures = reflector->failures,
		.contact_unix_ms = now_ms - silence_ms,
	};
}

bool mk_reflector_has_listed(const struct mk_reflector *reflector)
{
	return reflector->listed_once;
}

bool mk_reflector_has(const struct mk_reflector *reflector, const char *namespace_,
		      const char *name, uint64_t *version)
{
	const struct mk_object_head head = { .namespace_ = { namespace_, strlen(namespace_) },
					     .name = { name, strlen(name) } };

	return seen_find(reflector->seen, &head, version);
}

bool mk_reflector_reads_older(const struct mk_reflector *reflector)
{
	return reflector->older_version;
}

bool mk_reflector_has_streamed(const struct mk_reflector *reflector)
{
	return reflector->listed_once && !reflector->stream_refused;
}

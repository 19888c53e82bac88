// SPDX-License-Identifier: Apache-2.0
#include "agent/report/metrics_chains.h"

#include <string.h>

#include "base/cleanup.h"

void chain_states(struct mk_exposition *out, const char *name,
		  const uint64_t counts[MK_SFC_POD_STATES])
{
	static const char *const states[MK_SFC_POD_STATES] = {
		[MK_SFC_POD_UNBOUND] = "unbound",	[MK_SFC_POD_NO_NODE] = "unreachable",
		[MK_SFC_POD_NO_PORTS] = "no-ports",	[MK_SFC_POD_OTHER_MODE] = "wrong-mode",
		[MK_SFC_POD_NO_NUMBER] = "too-many",	[MK_SFC_POD_SAME_TAG] = "same-tag",
		[MK_SFC_POD_SERVING] = "serving",	[MK_SFC_POD_DRAINING] = "draining",
		[MK_SFC_POD_KEEPS] = "not-ready-alone", [MK_SFC_POD_LOST] = "not-ready",
	};

	for (size_t i = 0; i < MK_SFC_POD_STATES; i++)
		if (states[i])
			mk_exposition_count(out, name, &(struct mk_label){ "state", states[i] }, 1,
					    counts[i]);
}

static uint64_t count_at(const struct mk_sfc_counters *counters, size_t offset)
{
	uint64_t count;

	memcpy(&count, (const char *)counters + offset, sizeof(count));
	return count;
}

void chain_counts(struct mk_exposition *out, const char *name, size_t offset,
		  const struct mk_sfc_counters *counters,
		  struct mk_label labels[REPLICA_LABELS + 2])
{
	static const size_t received = offsetof(struct mk_sfc_counters, received_packets);
	static const char *const sides[MK_SFC_SIDES] = { "inside", "outside" };

	for (size_t side = 0; side < MK_SFC_SIDES; side++)
		for (size_t way = 0; way < 2; way++) {
			size_t at = offset + way * received + side * sizeof(uint64_t);

			labels[REPLICA_LABELS] = (struct mk_label){ "side", sides[side] };
			labels[REPLICA_LABELS + 1] =
				(struct mk_label){ "direction", way ? "from" : "to" };
			mk_exposition_count(out, name, labels, REPLICA_LABELS + 2,
					    count_at(counters, at));
		}
}

// SPDX-License-Identifier: Apache-2.0
/* A pod's limits of bandwidth, from the request. */

#include <linux/if_ether.h>

#include "base/cleanup.h"
#include "pod/endpoint/endpoint.h"

#define MS_PER_S	  1000
#define LATENCY_MS	  25 /* of the queue, added to the bucket; as in the reference plugin */
#define DEFAULT_BUCKET_MS 100
#define BURST_NONE_BITS	  INT32_MAX /* and more: the runtime has no burst, see bucket_bytes() */
#define BUCKET_BYTES_MIN  (MK_POD_DEVICE_MTU_BYTES + ETH_HLEN)
#define BANDWIDTH_MEMBERS 4

enum member { INGRESS_RATE, INGRESS_BURST, EGRESS_RATE, EGRESS_BURST };

static const char *const members[BANDWIDTH_MEMBERS] = {
	[INGRESS_RATE] = "ingressRate",
	[INGRESS_BURST] = "ingressBurst",
	[EGRESS_RATE] = "egressRate",
	[EGRESS_BURST] = "egressBurst",
};

/* The object that holds the members, and their values. */
struct reading {
	json_object *object;
	const char *where; /* "" or "runtimeConfig.bandwidth." */
	uint64_t bits[BANDWIDTH_MEMBERS];
	struct mk_cni_failure *failure;
};

static int invalid(const struct reading *reading, const char *name, json_object *value,
		   const char *expected)
{
	return mk_cni_failf(reading->failure, MK_CNI_INVALID_CONFIG,
			    "invalid network configuration", "%s%s is %.200s: expected %s",
			    reading->where, name,
			    json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN),
			    expected);
}

static bool has_known_member(json_object *object)
{
	json_object *value;

	for (size_t i = 0; i < MK_ARRAY_SIZE(members); i++) {
		if (mk_cni_member(object, members[i], &value))
			return true;
	}
	return false;
}

/* A missing or null member is 0. */
static int read_number(struct reading *reading, enum member member)
{
	json_object *value;

	if (!mk_cni_member(reading->object, members[member], &value) || !value)
		return 0;
	if (!json_object_is_type(value, json_type_int) || json_object_get_int64(value) < 0)
		return invalid(reading, members[member], value, "a number of bits from 0");
	reading->bits[member] = json_object_get_uint64(value);
	return 0;
}

/* ---- rates and buckets ----------------------------------------------------------------------- */

static uint64_t in_ms(uint64_t rate_bytes, unsigned int ms)
{
	return rate_bytes / MS_PER_S * ms + rate_bytes % MS_PER_S * ms / MS_PER_S;
}

/* Runtimes know only a rate, from a pod's annotation. For the burst they send the largest value
 * that they can write: 2^31-1 bits (dockershim), 2^32-1 (containerd), 2^35-8 (CRI-O). Such a burst
 * would let a pod of 10 Mbit/s send for minutes without a limit. The bucket holds at least the
 * largest packet of a pod's device, because that packet could not pass otherwise. */
static uint32_t bucket_bytes(uint64_t burst_bits, uint64_t rate_bytes)
{
	uint64_t bytes = burst_bits < BURST_NONE_BITS ? burst_bits / 8
						      : in_ms(rate_bytes, DEFAULT_BUCKET_MS);

	if (bytes < BUCKET_BYTES_MIN)
		return BUCKET_BYTES_MIN;
	return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

static uint32_t queue_bytes(const struct mk_nl_tbf *tbf)
{
	uint64_t bytes = in_ms(tbf->rate_bytes, LATENCY_MS) + tbf->burst_bytes;

	return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

static int limit(struct reading *reading, enum member rate, enum member burst,
		 struct mk_nl_tbf *tbf)
{
	uint64_t rate_bits = reading->bits[rate], burst_bits = reading->bits[burst];

	if (!rate_bits && !burst_bits)
		return 0;
	if (!rate_bits || !burst_bits)
		return mk_cni_failf(reading->failure, MK_CNI_INVALID_CONFIG,
				    "invalid network configuration",
				    "%s%s is %llu without %s: expected both, or neither",
				    reading->where, members[rate_bits ? rate : burst],
				    (unsigned long long)(rate_bits ? rate_bits : burst_bits),
				    members[rate_bits ? burst : rate]);
	if (rate_bits < 8)
		return mk_cni_failf(reading->failure, MK_CNI_INVALID_CONFIG,
				    "invalid network configuration",
				    "%s%s is %llu: expected at least 8 bits a second",
				    reading->where, members[rate], (unsigned long long)rate_bits);
	tbf->rate_bytes = rate_bits / 8;
	tbf->burst_bytes = bucket_bytes(burst_bits, tbf->rate_bytes);
	tbf->limit_bytes = queue_bytes(tbf);
	return 0;
}

/* ---- the capability -------------------------------------------------------------------------- */

/* Find the object that holds the members. Returns 1, 0 if there are none, or -1. */
static int find_members(struct reading *reading, const struct mk_cni_conf *conf)
{
	json_object *runtime, *bandwidth;

	reading->object = conf->root;
	if (has_known_member(conf->root))
		return 1;
	if (!mk_cni_member(conf->root, "runtimeConfig", &runtime) ||
	    !mk_cni_member(runtime, "bandwidth", &bandwidth) || !bandwidth)
		return 0;
	reading->object = bandwidth;
	if (!json_object_is_type(bandwidth, json_type_object))
		return invalid(reading, "runtimeConfig.bandwidth", bandwidth, "an object");
	if (json_object_object_length(bandwidth) && !has_known_member(bandwidth))
		return invalid(reading, "runtimeConfig.bandwidth", bandwidth,
			       "ingressRate, ingressBurst, egressRate or egressBurst");
	reading->where = "runtimeConfig.bandwidth.";
	return 1;
}

int mk_cni_bandwidth_read(struct mk_cni_bandwidth *bandwidth, const struct mk_cni_conf *conf,
			  struct mk_cni_failure *failure)
{
	struct reading reading = { .where = "", .failure = failure };
	int ret = find_members(&reading, conf);

	*bandwidth = (struct mk_cni_bandwidth){ 0 };
	if (ret <= 0)
		return ret;
	for (int i = 0; i < BANDWIDTH_MEMBERS; i++) {
		if (read_number(&reading, (enum member)i) < 0)
			return -1;
	}
	if (limit(&reading, INGRESS_RATE, INGRESS_BURST, &bandwidth->ingress) < 0)
		return -1;
	return limit(&reading, EGRESS_RATE, EGRESS_BURST, &bandwidth->egress);
}

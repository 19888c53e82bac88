// SPDX-License-Identifier: Apache-2.0
/* The BPF object of IPv6, as bytes. See embedded4.c. */
#define MK_FAMILY 6
#include "datapath/maps/maps_internal.h"

#include <bpf/libbpf.h>

#include "monokube/abi.h"
#include "datapath6.skel.h"

const void *object_bytes_ipv6(size_t *bytes)
{
	return datapath6_bpf__elf_bytes(bytes);
}

// SPDX-License-Identifier: Apache-2.0
/* The BPF object of IPv4, as bytes. Its skeleton checks sizes of structs, so this file alone is
 * compiled with the layouts of IPv4. */
#define MK_FAMILY 4
#include "datapath/maps/maps_internal.h"

#include <bpf/libbpf.h>

#include "monokube/abi.h"
#include "datapath.skel.h"

const void *object_bytes_ipv4(size_t *bytes)
{
	return datapath_bpf__elf_bytes(bytes);
}

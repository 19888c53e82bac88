/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/lookup.h - addresses in the kernel's look-ups, by family. */
#ifndef MK_BPF_LOOKUP_H
#define MK_BPF_LOOKUP_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "monokube/abi.h"

#if MK_FAMILY == 4
#include "lookup4.h"
#else
#include "lookup6.h"
#endif

#endif

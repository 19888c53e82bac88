/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/kube_recording.h - the body of a recorded exchange, chunks put together. */
#ifndef MK_TEST_KUBE_RECORDING_H
#define MK_TEST_KUBE_RECORDING_H

#include <stddef.h>

/* Of test/wire/recordings/@name.http. The caller frees it. Ends the test if it is not there. */
char *recording_body(const char *name, size_t *size);

#endif

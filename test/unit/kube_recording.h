/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/kube_recording.h - the body of a recorded exchange, with its chunks joined. */
#ifndef MK_TEST_KUBE_RECORDING_H
#define MK_TEST_KUBE_RECORDING_H

#include <stddef.h>

/* Read @name.http of test/wire/recordings.tar.xz, which make unpacks. The caller frees it. A
 * missing file ends the test. */
char *recording_body(const char *name, size_t *size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/log_capture.h - what a test's subject says on standard error. */
#ifndef MK_TEST_LOG_CAPTURE_H
#define MK_TEST_LOG_CAPTURE_H

void capture_log(void);
/* Everything since capture_log(), which ends; up to 8 KiB, until the next call. */
const char *captured_log(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/log_capture.h - capture the log of the code under test on standard error. */
#ifndef MK_TEST_LOG_CAPTURE_H
#define MK_TEST_LOG_CAPTURE_H

void capture_log(void);
/* End capture_log() and return everything since, up to 8 KiB, valid until the next call. */
const char *captured_log(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/cpus.h - the CPU that sends a test's packets. A real flow's packets come by any CPU, and
 * some tables are per CPU (bpf/maps.h). So in each test the second, the 8th, the 32nd packet and so
 * on come by another CPU than those before. Code that works on only one CPU then fails at once, not
 * only when the scheduler moves the test. */
#ifndef MK_TEST_BPF_CPUS_H
#define MK_TEST_BPF_CPUS_H

#include <stdbool.h>

void cpus_take_turns(void); /* from now on; otherwise the scheduler chooses */
void cpus_one(bool only_one); /* true: all packets by one CPU; false: not, and a test begins */
void cpus_move_on(void); /* call it before each packet */

#endif

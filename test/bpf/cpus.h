/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/cpus.h - by which CPU a test's packets come. A flow's packets come by any, and some of what the
 * programs keep is each CPU's own (bpf/maps.h), so in each test the second packet, the 8th, 32nd and so on come by
 * another CPU than those before: what holds only on one fails at once, and not when the scheduler moves the test. */
#ifndef MK_TEST_BPF_CPUS_H
#define MK_TEST_BPF_CPUS_H

#include <stdbool.h>

void cpus_take_turns(void); /* from now on; without it the scheduler chooses */
void cpus_one(bool only_one); /* all packets by one CPU; or not, and a test begins */
void cpus_move_on(void); /* before each packet */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/cpus.h - by which CPU a test's packets come. A flow's packets come by any, and some of what the
 * programs keep is each CPU's own (bpf/maps.h), so in tests each packet comes by the next CPU: what holds only
 * on one fails at once, and not when the scheduler moves the test. */
#ifndef MK_TEST_BPF_CPUS_H
#define MK_TEST_BPF_CPUS_H

#include <stdbool.h>

void cpus_take_turns(void); /* from now on; without it the scheduler chooses */
void cpus_one(bool only_one); /* all packets by one CPU */
void cpus_move_on(void); /* before each packet */

#endif

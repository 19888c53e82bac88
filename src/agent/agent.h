/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/agent.h - `monokube agent`: follows the cluster and keeps this node's datapath and
 * overlay equal to it. One libuv loop, one thread. What it has built outlives it. */
#ifndef MK_AGENT_AGENT_H
#define MK_AGENT_AGENT_H

/* Run until SIGTERM or SIGINT. Returns the exit status. */
int mk_agent_main(int argc, char **argv);

#endif

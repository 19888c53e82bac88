/* SPDX-License-Identifier: Apache-2.0 */
/* test/policy/connection.h - packets of the connections of a world: later ones, answers, ICMP errors
 * and fragments, before and after changes (rules 24 to 33). */
#ifndef MK_TEST_POLICY_CONNECTION_H
#define MK_TEST_POLICY_CONNECTION_H

#include "policy/node.h"

void connections_forget(void); /* with their world */
/* Send the packet of @line. Returns NULL if it passes or not as @line says, otherwise what is wrong.
 * @sent is false if the programs cannot be asked. */
const char *connections_send(const struct cluster *cluster, json_object *line, bool *sent);

#endif

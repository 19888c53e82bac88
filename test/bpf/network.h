/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/network.h - a network namespace of the test's own, in which the programs find its
 * sockets. */
#ifndef MK_TEST_NETWORK_H
#define MK_TEST_NETWORK_H

/* Move this process to a network namespace that has a number in itself, as a pod's namespace has
 * one in the host's. Returns the number (mk_pod.netns_ref is the number plus 1). */
int network_of_own(void);

/* Run @commands, of IPv4 in all families: the addresses become the family's. "addr" adds one that
 * serves at once; with $second behind it, it is not the one that the kernel chooses. */
void network_shell(const char *commands);

/* Route every address to the loopback device, so that sockets may connect to any address. */
void network_reaches_all(void);

/* Make it the namespace of the pod @address ("10.244.1.2"). Call it after fixture_reset(). */
void network_of_pod(const char *address, int number);

/* Open a UDP socket at @from, connected to @to; NULL: unconnected. */
void network_udp_socket(const char *from, const char *to);

/* Open a TCP socket at @from, "10.244.1.2:40000", which stays open. It connects to @to; NULL: it
 * listens. */
void network_socket(const char *from, const char *to);

#endif

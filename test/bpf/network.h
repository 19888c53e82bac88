/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/network.h - a network of the test's own, in which the programs find its sockets. */
#ifndef MK_TEST_NETWORK_H
#define MK_TEST_NETWORK_H

/* This process gets one, which has a number in itself, as a pod's namespace has one in the host's: returned
 * (mk_pod.netns_ref is that and 1). */
int network_of_own(void);

/* By loopback every address is reached: sockets may connect to any. */
void network_reaches_all(void);

/* That is the namespace of the pod @address ("10.244.1.2"). After fixture_reset(). */
void network_of_pod(const char *address, int number);

/* A UDP socket at @from, connected to @to, or NULL: to nobody. */
void network_udp_socket(const char *from, const char *to);

/* A TCP socket at @from, "10.244.1.2:40000", which stays; it connects to @to, or NULL: it listens. */
void network_socket(const char *from, const char *to);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/cni_node.h - a node for tests of the CNI verbs: a namespace as host,
 * others as containers, and a bpffs with the tables and a program under the names that
 * the CNI mode expects. */
#ifndef MK_TEST_CNI_NODE_H
#define MK_TEST_CNI_NODE_H

#include <check.h>
#include <sys/types.h>

#include "base/error.h"
#include "pod/request/conf.h"
#include "unit/unit.h"

#define ROOT	"/mnt" /* each test has its own mount namespace and a tmpfs here */
#define STATE	ROOT "/state"
#define BPF_DIR ROOT "/bpf/monokube"

#define HOST_PORTS_MAX 8 /* entries of map host_ports */

#define NETWORK                                                               \
	"\"name\":\"n\",\"type\":\"monokube\",\"podCIDR\":\"10.244.1.0/24\"," \
	"\"clusterCIDR\":\"10.244.0.0/16\",\"vtepCIDR\":\"10.18.0.0/16\","    \
	"\"mtu\":1450,\"stateDir\":\"" STATE "\",\"bpfDir\":\"" BPF_DIR "\""

extern char answer[4096]; /* standard output of the last call */
extern const char *cni_ifname; /* interface name of the calls; eth0 */

/* Each test of the case has its own node, with the tables of IPv4 or of @families. */
enum { NODE_IPV4 = 1, NODE_IPV6 = 2 };
TCase *cni_case(Suite *suite, const char *name);
TCase *cni_case_of(Suite *suite, const char *name, unsigned int families);
/* Pin the tables and the program of one more family. */
void pin_family_of_node(sa_family_t family);

/* Return the path of a container's namespace, in a static buffer. */
const char *netns_path(const char *name);
void new_netns(const char *name);
void gone_netns(const char *name);
/* Run a shell command in that namespace. */
void inside(const char *name, const char *command);

/* Start a verb with @input as configuration; the caller waits for the process. */
pid_t start_verb(const char *verb, const char *container_id, const char *netns, const char *input,
		 int output_fd);
/* Run a verb. Returns the exit status; standard output is in `answer`. */
int run_verb(const char *verb, const char *container_id, const char *netns, const char *input);
/* Like run_verb(), with the network configuration of @version and more @fields (",..." or ""). */
int call(const char *verb, const char *container_id, const char *netns, const char *version,
	 const char *fields);
int code_of_answer(void);
/* Check that the call fails with @code, and that the answer contains @text. */
void ck_fails(int status, int code, const char *text);
void add(const char *name);
/* Run ADD, and return the prevResult for CHECK. */
const char *add_result(const char *name);
/* Remove the host's end of @container_id's pair. */
void remove_device(const char *container_id);

int devices(void);
#define POD_SLOTS 512 /* of map pods */
int pod_entries(void); /* of map pods */
int addresses(void);
void ck_exist(int count); /* of each */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/host_ports_fixture.h - pods with host ports, on the node of cni_node.h. */
#ifndef MK_TEST_HOST_PORTS_FIXTURE_H
#define MK_TEST_HOST_PORTS_FIXTURE_H

#include "datapath/maps/runtime.h"
#include "datapath/maps/table.h"
#include "datapath/pods/pods.h"

#define MAPPINGS(list) ",\"runtimeConfig\":{\"portMappings\":[" list "]}"
#define TCP_8080       "{\"hostPort\":8080,\"containerPort\":80}"

struct mk_table open_table(const char *name, size_t key_size, size_t value_size);
size_t entries_of(const char *name, size_t key_size, size_t value_size);
/* Check the number of entries, and whether map runtime says that there are some. */
void ck_mapped(size_t count);
struct mk_host_port_key host_port_key(const char *ip, uint16_t port, uint8_t proto);
struct mk_host_port host_port_at(uint16_t port);
void put_host_port(uint16_t port, const char *pod, uint32_t ifindex, bool leaving);
void ck_leads(uint16_t port, const char *pod);
void add_mapped(const char *name, const char *fields);
void del(const char *name);

#endif

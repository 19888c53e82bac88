/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/model_objects.h - parts from which the rows of the model's tests are made. */
#ifndef MK_TEST_MODEL_OBJECTS_H
#define MK_TEST_MODEL_OBJECTS_H

/* Beginnings of objects, to be completed and enclosed in braces: node n, Service x/s and
 * its endpoints. */
#define NODE	"'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n'}"
#define SERVICE "'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 's', 'namespace': 'x'}"
#define PORT_80 "'ports': [{'port': 80}]"
#define SLICE_META \
	"'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'addressType': 'IPv4'"
#define SLICE(name)                                                        \
	SLICE_META ", 'metadata': {'name': '" name "', 'namespace': 'x', " \
		   "'labels': {'kubernetes.io/service-name': 's'}}"
#define HTTP "'ports': [{'name': 'http', 'port': 8080}]"
#define ENDPOINTS \
	"'apiVersion': 'v1', 'kind': 'Endpoints', 'metadata': {'name': 's', 'namespace': 'x'}"

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/chain_objects.h - parts from which ServiceFunctionChains of tests are made. A chain is
 * c in namespace x, with function f, unless it says otherwise. */
#ifndef MK_TEST_CHAIN_OBJECTS_H
#define MK_TEST_CHAIN_OBJECTS_H

#define CHAIN_WITH(meta, spec)                                                               \
	"{'apiVersion': 'networking.monokube.io/v1alpha1', 'kind': 'ServiceFunctionChain', " \
	"'metadata': {" meta "}, 'spec': {" spec "}}"
#define CHAIN_OF(namespace_, name, spec) \
	CHAIN_WITH("'name': '" name "', 'namespace': '" namespace_ "', 'uid': '" name "'", spec)
#define CHAIN(spec)	       CHAIN_OF("x", "c", spec)
#define FUNCTION(of)	       "'functions': [{'name': " of "}]"
#define F		       FUNCTION("'f'")
#define TRAFFIC(of)	       "'traffic': {'podSelector': {}, " of "}, " F
#define OF_SERVICE(name, more) "'traffic': {'service': '" name "'" more "}, " F
#define EGRESS		       "'direction': 'Egress'"
#define ENDS(in, out)	       "'ends': {'inside': '" in "', 'outside': '" out "'}, " F
#define CHAIN_PEERS(of)	       CHAIN(TRAFFIC(EGRESS ", 'peers': [" of "]"))
#define CHAIN_PORTS(of)	       CHAIN(TRAFFIC(EGRESS ", 'ports': [" of "]"))
#define FUNCTION_POD(namespace_, name, function, more)                       \
	"{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': '" name    \
	"', 'namespace': '" namespace_ "', 'uid': 'u-" name "', 'labels': {" \
	"'networking.monokube.io/function': '" function "'}}" more "}"

#endif

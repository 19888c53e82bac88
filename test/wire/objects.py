# SPDX-License-Identifier: Apache-2.0
"""Objects that the cases of t_client.py and t_server.py add to the stand-in, and the requests to it."""

SERVICES, SLICES, NODES = "/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices", "/api/v1/nodes"


def service(name, namespace="shop", **spec):
    spec.setdefault("ports", [{"name": "http", "port": 80}])
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def add_service(server, name, namespace="shop", **spec):
    server.done("POST", "/api/v1/namespaces/%s/services" % namespace, service(name, namespace, **spec))


def add_slice(server, name, of, *addresses, namespace="shop", port=8080, type_="IPv4"):
    server.done("POST", "/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices" % namespace, {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": type_,
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": of}},
        "endpoints": [{"addresses": [a]} for a in addresses], "ports": [{"name": "http", "port": port}]})


def watches(server, path="services"):
    return server.asked(path, watch="1", sendInitialEvents=None)


def streams(server, path="services"):
    return server.asked(path, watch="1", sendInitialEvents="true")

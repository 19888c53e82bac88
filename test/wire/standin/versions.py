# SPDX-License-Identifier: Apache-2.0
"""Objects in the version that a request asks for, whichever they are kept in. EndpointSlices are there in two versions at
once: a kube-proxy before 1.21 asks for discovery.k8s.io/v1beta1, which real servers have beside v1 from 1.21 to 1.24.
There the node's name stands in another place (k8s.io/api/discovery/v1beta1/types.go: Endpoint.topology)."""

OLDER = "/apis/discovery.k8s.io/v1beta1/"


def older_endpoint(endpoint):
    if "nodeName" not in endpoint:
        return endpoint
    return {**endpoint, "topology": {"kubernetes.io/hostname": endpoint["nodeName"]}}


def version_asked(path, version):
    """The version of the request's path, if it is of the same group; @version otherwise."""
    parts = path.split("/")
    same = parts[1:2] == ["apis"] and len(parts) > 3 and parts[2] == version.partition("/")[0]
    return "/".join(parts[2:4]) if same else version


def as_asked(path, obj):
    """@obj, also without its kind as in a list, in the version that a request for @path expects."""
    found = dict(obj)
    if "apiVersion" in obj:
        found["apiVersion"] = version_asked(path, obj["apiVersion"])
    if path.startswith(OLDER) and obj.get("endpoints"):
        found["endpoints"] = [older_endpoint(e) for e in obj["endpoints"]]
    return found

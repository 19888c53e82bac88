# SPDX-License-Identifier: Apache-2.0
"""An older version of an API beside the one that objects are kept in: a kube-proxy before 1.21 asks for EndpointSlices
of discovery.k8s.io/v1beta1, which real servers have beside v1 from 1.21 to 1.24. Of what it reads, the node's name
stands in another place there (k8s.io/api/discovery/v1beta1/types.go: Endpoint.topology)."""

OLDER = "/apis/discovery.k8s.io/v1beta1/"


def older_endpoint(endpoint):
    if "nodeName" not in endpoint:
        return endpoint
    return {**endpoint, "topology": {"kubernetes.io/hostname": endpoint["nodeName"]}}


def as_asked(path, obj):
    """@obj, also without its kind as in a list, in the version that a request for @path expects."""
    if not path.startswith(OLDER):
        return obj
    found = dict(obj)
    if "apiVersion" in obj:
        found["apiVersion"] = "discovery.k8s.io/v1beta1"
    if obj.get("endpoints"):
        found["endpoints"] = [older_endpoint(e) for e in obj["endpoints"]]
    return found

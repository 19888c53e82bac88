# SPDX-License-Identifier: Apache-2.0
"""Print what a client that has read everything should hold, in the format of follow.c: an oracle that shares
no code with the client. Addresses are IPv4's, then IPv6's."""
from .selector import matcher

SELECTOR = {"labelSelector": "!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name"}


def is_v4(text):
    return isinstance(text, str) and text.count(".") == 3


def is_v6(text):
    return isinstance(text, str) and text.count(":") > 1


def firsts(texts):
    """The first of each family."""
    return " ".join(next((text for text in texts if of_family(text)), "-") for of_family in (is_v4, is_v6))


def node_line(node):
    ranges = node.get("spec", {}).get("podCIDRs") or [node.get("spec", {}).get("podCIDR", "")]
    addresses = [a["address"] for a in node.get("status", {}).get("addresses", []) if a["type"] == "InternalIP"]
    return "node %s %s %s" % (node["metadata"]["name"], firsts(ranges), firsts(addresses))


def slice_endpoints(obj):
    if obj.get("addressType") not in ("IPv4", "IPv6"):
        return
    for endpoint in obj.get("endpoints") or []:
        for port in obj.get("ports") or []:
            for address in endpoint["addresses"]:
                if port.get("port"):
                    yield "%s:%d/%s" % (address, port["port"], port.get("protocol", "TCP").lower())


def endpoints_endpoints(obj):
    for subset in obj.get("subsets") or []:
        for address in (subset.get("addresses") or []) + (subset.get("notReadyAddresses") or []):
            for port in subset.get("ports") or []:
                if is_v4(address["ip"]) or is_v6(address["ip"]):
                    yield "%s:%d/%s" % (address["ip"], port["port"], port.get("protocol", "TCP").lower())


def service_line(service, endpoints):
    meta, spec = service["metadata"], service["spec"]
    address = firsts(spec.get("clusterIPs") or [spec.get("clusterIP", "")])
    if spec.get("type") == "ExternalName":
        address = "- -"
    ports = [] if spec.get("type") == "ExternalName" else spec.get("ports") or []
    ports = ",".join(sorted("%d/%s/%d" % (p["port"], p.get("protocol", "TCP").lower(), p.get("nodePort", 0))
                            for p in ports))
    return "service %s/%s %s [%s] %s" % (meta["namespace"], meta["name"], address, ports,
                                         " ".join(sorted(set(endpoints))))


def lines(store, missing):
    matches = matcher(SELECTOR)
    backends = {}
    if "discovery.k8s.io" in missing:
        for obj in store.select(store.resource("", "endpoints"), "", matches):
            key = (obj["metadata"]["namespace"], obj["metadata"]["name"])
            backends.setdefault(key, []).extend(endpoints_endpoints(obj))
    else:
        for obj in store.select(store.resource("discovery.k8s.io", "endpointslices"), "", matches):
            name = (obj["metadata"].get("labels") or {}).get("kubernetes.io/service-name", "")
            backends.setdefault((obj["metadata"]["namespace"], name), []).extend(slice_endpoints(obj))
    result = [node_line(n) for n in store.resource("", "nodes").objects.values()]
    for service in store.select(store.resource("", "services"), "", matches):
        key = (service["metadata"]["namespace"], service["metadata"]["name"])
        result.append(service_line(service, backends.get(key, [])))
    return sorted(result)

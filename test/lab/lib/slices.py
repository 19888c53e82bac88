# SPDX-License-Identifier: Apache-2.0
"""The lab's EndpointSlice controller: which slices a Service with a selector has, given the pods.

Readiness is left out: a pod of the lab is ready. Namespaces of pods count only with `lab up --pods`; otherwise
a selector sees all pods."""
import json

MANAGED_BY = "endpointslice.kubernetes.io/managed-by"


def load_pods(lab):
    pods = [json.loads(path.read_text()) for path in sorted((lab / "pods").glob("*.json"))]
    return pods if (lab / "bound").is_dir() else [dict(pod, namespace=None) for pod in pods]


def resolve_port(port, pod):
    """A Service port as the pod serves it; None if the pod has no port of that name."""
    target = port.get("targetPort", port["port"])
    number = target if isinstance(target, int) else pod["ports"].get(target)
    if number is None:
        return None
    return port.get("name", ""), port.get("protocol", "TCP"), number


def group_by_ports(service, pods):
    """Pods that serve the same numbers share a slice."""
    groups = {}
    selector = service["spec"]["selector"].items()
    for pod in pods:
        if pod["namespace"] not in (None, service["metadata"].get("namespace", "default")):
            continue
        if not selector <= pod["labels"].items():
            continue
        ports = tuple(p for p in (resolve_port(p, pod) for p in service["spec"]["ports"]) if p)
        groups.setdefault(ports, []).append(pod)
    return groups or {(): []}


def is_ipv6(address):
    return ":" in address


def families(service, pods):
    """Does each slice have IPv6 addresses? One slice per family of the Service's addresses, else of its pods."""
    spec = service["spec"]
    own = [ip for ip in spec.get("clusterIPs") or [spec.get("clusterIP")] if ip and ip != "None"]
    return sorted({is_ipv6(ip) for ip in own or [ip for pod in pods for ip in pod["ips"]]}) or [False]


def endpoint_slice(service, index, ports, pods, ipv6):
    meta = service["metadata"]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{meta['name']}-lab{index}{'-ipv6' * ipv6}",
            "namespace": meta.get("namespace", "default"),
            "labels": {"kubernetes.io/service-name": meta["name"], MANAGED_BY: "lab"},
        },
        "addressType": "IPv6" if ipv6 else "IPv4",
        "ports": [{"name": n, "protocol": proto, "port": port} for n, proto, port in ports],
        "endpoints": [
            {
                "addresses": [ip],
                "nodeName": pod["node"],
                "conditions": {"ready": True, "serving": True, "terminating": False},
                "targetRef": {"kind": "Pod", "name": pod["name"]},
            }
            for pod in pods
            for ip in pod["ips"]
            if is_ipv6(ip) == ipv6
        ],
    }


def service_slices(service, pods):
    return [
        endpoint_slice(service, index, ports, members, ipv6)
        for index, (ports, members) in enumerate(sorted(group_by_ports(service, pods).items()))
        for ipv6 in families(service, pods)
    ]

# SPDX-License-Identifier: Apache-2.0
"""cluster.py - the cluster whose network policies perf/policies/compare measures: eleven namespaces
with ten pods on each of two nodes, and the same number of policies in each namespace.

Every policy selects all pods of its namespace, in both directions, and has one rule in each. The
rule of the policy in the middle allows what is measured. The other rules allow one port to the pods
with one role. So a packet that is measured is allowed after half of the policies."""
from typing import NamedTuple

NAMESPACES, MEMBERS = 11, 10
MEASURED = "team-05"  # the namespace in the middle
FREE = "free"  # it has no policy
ALLOWED = {"role": "measured"}


class Pod(NamedTuple):
    name: str
    namespace: str
    address: str
    node: int
    labels: dict


def namespaces():
    return [f"team-{number:02}" for number in range(NAMESPACES)]


def pods(address, measured):
    """The pods of both nodes, in the order of their namespaces. address(node, number) makes an
    address. `measured` are pods of the namespace in the middle, and take the places of others."""
    for team, namespace in enumerate(namespaces()):
        for node in (1, 2):
            own = [pod for pod in measured if namespace == MEASURED and pod.node == node]
            others = [Pod(f"pod-{node}-{member}", namespace, address(node, 10 + team * MEMBERS + member), node,
                          {"role": f"r{member}"}) for member in range(MEMBERS - len(own))]
            half = len(others) // 2
            yield from (*others[:half], *own, *others[half:])


def rule(number, count, ports):
    if number == count // 2:
        return ALLOWED, [{"protocol": proto, "port": port} for proto in ("TCP", "UDP") for port in ports]
    return {"role": f"r{number % MEMBERS}"}, [{"protocol": "TCP", "port": 8000 + number}]


def policies(count, ports):
    """`count` NetworkPolicies in each namespace."""
    for namespace in namespaces():
        for number in range(count):
            labels, allowed = rule(number, count, ports)
            peers = [{"podSelector": {"matchLabels": labels}}]
            yield {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
                   "metadata": {"name": f"policy-{number:03}", "namespace": namespace},
                   "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"],
                            "ingress": [{"from": peers, "ports": allowed}], "egress": [{"to": peers, "ports": allowed}]}}


def pod_object(pod, node):
    """A Pod as an API server has it; `node` is the node's name."""
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": f"{pod.namespace}-{pod.name}",
                         "labels": pod.labels},
            "spec": {"nodeName": node, "containers": [{"name": "main"}]},
            "status": {"phase": "Running", "podIP": pod.address, "podIPs": [{"ip": pod.address}]}}


def namespace_object(name):
    return {"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}}

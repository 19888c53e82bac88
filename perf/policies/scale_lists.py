#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""perf/policies/scale_lists.py --pods N --policies M --out DIR - makes the lists of a large cluster's
API server for network policies.

DIR/{namespaces,pods,policies}.watch are streaming lists of N pods on other nodes and M policies, in
namespaces of a hundred pods. Every namespace has pods of ten applications and the same number of
policies. A policy selects one application, and has peers by label, by the namespace's label and by
address. --local L: so many pods of node1 besides, ten in a namespace; with --records DIR, the pods of a
lab instead. own.watch is the list of these alone. DIR/local has their number, DIR/isolated how many of them
policies select.

With --changes K, DIR/{label,policy,namespace}.changes have K MODIFIED events each: of a pod's label,
of a policy's port, of a namespace's label, always in the first namespace. A recorded Pod gives the
fields, their order and managedFields (test/wire/recordings)."""
import argparse
import copy
import ipaddress
import json
import sys
import uuid
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "test/wire"))
from standin import recordings  # noqa: E402

IN_NAMESPACE = 100
APPS = 10
LOCAL_IN_NAMESPACE = 10
ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
FIRST_VERSION, CHANGED = 100000, 200000000


def namespace_name(number):
    return f"scale-{number:03}"


def namespace(number, env="prod"):
    name = namespace_name(number)
    return {"kind": "Namespace", "apiVersion": "v1",
            "metadata": {"name": name, "uid": str(uuid.uuid5(uuid.NAMESPACE_OID, name)), "resourceVersion": "100000",
                         "labels": {"env": env, "kubernetes.io/metadata.name": name, "team": f"t{number % 7}"}},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}


def app(number):
    return {"app": f"a{number % APPS}"}


def policy(number, per_namespace, port=8080):
    """Policy `number` of the cluster. It selects one application of its namespace."""
    team, own = divmod(number, per_namespace)
    prod = {"matchLabels": {"env": "prod"}}
    peers = [{"podSelector": {"matchLabels": app(own + 1)}},
             {"namespaceSelector": prod, "podSelector": {"matchLabels": app(own + 2)}}]
    return {"kind": "NetworkPolicy", "apiVersion": "networking.k8s.io/v1",
            "metadata": {"name": f"policy-{own}", "namespace": namespace_name(team), "uid": f"policy-{number}",
                         "resourceVersion": "100000"},
            "spec": {"podSelector": {"matchLabels": app(own)}, "policyTypes": ["Ingress", "Egress"],
                     "ingress": [{"from": peers, "ports": [{"protocol": "TCP", "port": port},
                                                           {"protocol": "TCP", "port": 9000, "endPort": 9099}]}],
                     "egress": [{"to": [{"podSelector": {"matchLabels": app(own + 3)}}],
                                 "ports": [{"protocol": "TCP", "port": 5432}]},
                                {"to": [{"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.128/25"]}}],
                                 "ports": [{"protocol": "UDP", "port": 53}]}]}}


class Pods:
    def __init__(self):
        found = recordings.load("list-pods-of-node")["items"][0]
        self.template = {"kind": "Pod", "apiVersion": "v1", **found}

    def pod(self, name, team, uid, address, node, labels):
        pod = copy.deepcopy(self.template)
        pod["metadata"].update(name=name, namespace=namespace_name(team), uid=uid, resourceVersion="100000",
                               labels={**labels, "pod-template-hash": "5d59d67564"})
        pod["spec"]["nodeName"] = node
        pod["status"].update(podIP=address, podIPs=[{"ip": address}], hostIP="192.168.50.11", hostIPs=[{"ip": "192.168.50.11"}])
        return pod

    def elsewhere(self, number, labels=None):
        """One of the pods of other nodes."""
        address = str(ipaddress.ip_address("10.128.0.16") + number)
        return self.pod(f"pod-{number}", number // IN_NAMESPACE, f"pod-{number}", address, f"worker-{number % 100}",
                        labels or app(number))

    def local(self, count, records):
        if records:
            for path in sorted(Path(records).glob("*.json")):
                one = json.loads(path.read_text(encoding="utf-8"))
                team = int(one["namespace"].split("-")[1])
                yield self.pod(one["name"], team, one["uid"], one["ip"], "node1", app(int(one["name"].split("-")[1])))
            return
        for number in range(count):
            yield self.pod(f"local-{number}", number // LOCAL_IN_NAMESPACE, f"local-{number}", f"10.244.1.{2 + number}", "node1",
                           app(number))


def write(path, objects, event="ADDED", kind=None, api_version="v1"):
    """With a kind, a list that ends with its bookmark."""
    with open(path, "w", encoding="utf-8") as file:
        for one in objects:
            file.write(f'{{"type":"{event}","object":{ENCODE(one)}}}\n')
        if kind:
            file.write(ENCODE({"type": "BOOKMARK", "object": {"kind": kind, "apiVersion": api_version, "metadata": {
                "resourceVersion": "100000000", "annotations": {"k8s.io/initial-events-end": "true"}}}}) + "\n")


def isolated(pods, policies):
    """How many of the pods does a policy select?"""
    selected = {(one["metadata"]["namespace"], one["spec"]["podSelector"]["matchLabels"]["app"]) for one in policies}
    return sum((pod["metadata"]["namespace"], pod["metadata"]["labels"]["app"]) in selected for pod in pods)


def numbered(objects):
    for number, one in enumerate(objects):
        one["metadata"]["resourceVersion"] = str(CHANGED + number)
        yield one


def write_changes(out, count, pods, per_namespace):
    """Each change is undone when its object comes again, after ten others."""
    def turn(number):
        return number // APPS % 2 == 0
    write(out / "label.changes", numbered(pods.elsewhere(n % APPS, app(n % APPS + (1 if turn(n) else 0))) for n in range(count)),
          "MODIFIED")
    write(out / "policy.changes", numbered(policy(n % APPS % per_namespace, per_namespace, 8081 + n) for n in range(count)),
          "MODIFIED")
    write(out / "namespace.changes", numbered(namespace(0, "prod" if n % 2 else "test") for n in range(count)), "MODIFIED")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=10000)
    parser.add_argument("--policies", type=int, default=1000)
    parser.add_argument("--local", type=int, default=10)
    parser.add_argument("--records")
    parser.add_argument("--changes", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    pods, namespaces = Pods(), max(-(-given.pods // IN_NAMESPACE), 1)
    per_namespace = -(-given.policies // namespaces)
    local = list(pods.local(given.local, given.records))
    given.out.mkdir(parents=True, exist_ok=True)
    write(given.out / "namespaces.watch", map(namespace, range(max(namespaces, len(local) // LOCAL_IN_NAMESPACE))), kind="Namespace")
    policies = [policy(n, per_namespace) for n in range(given.policies)]
    write(given.out / "policies.watch", policies, kind="NetworkPolicy", api_version="networking.k8s.io/v1")
    write(given.out / "own.watch", local, kind="Pod")
    write(given.out / "pods.watch", (*map(pods.elsewhere, range(given.pods)), *local), kind="Pod")
    (given.out / "local").write_text(f"{len(local)}\n", encoding="ascii")
    (given.out / "isolated").write_text(f"{isolated(local, policies)}\n", encoding="ascii")
    if given.changes:
        write_changes(given.out, given.changes, pods, per_namespace)


if __name__ == "__main__":
    main()

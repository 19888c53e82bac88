# SPDX-License-Identifier: Apache-2.0
"""The objects that an API server has of the lab's pods (`lab up --pods`): a Pod from the moment it is bound to
its node, with an address after ADD, and its Namespace."""
import json

PREFIX = "lab-pods-"
ANNOTATIONS = "io.kubernetes.cri.pod-annotations"
STARTED = "2026-01-01T00:00:00Z"


def is_wanted(lab):
    return (lab / "bound").is_dir()


def records(lab):
    """Pods after ADD win over the same pods before it."""
    found = {}
    for directory in ("bound", "pods"):
        for path in (lab / directory).glob("*.json"):
            found[path.name] = json.loads(path.read_text())
    return [found[name] for name in sorted(found)]


def protocol_of(name):
    return "UDP" if name.startswith("dns") else "SCTP" if name.startswith("sctp") else "TCP"


def condition(pod):
    """A pod of the lab is ready once it has an address, unless `lab state` says otherwise."""
    ready = bool(pod["ips"]) and pod.get("state", "ready") == "ready"
    return {"type": "Ready", "status": "True" if ready else "False"}


def pod_object(pod):
    ports = [{"name": name, "containerPort": number, "protocol": protocol_of(name)}
             for name, number in pod["ports"].items()]
    addresses = {"podIP": pod["ips"][0], "podIPs": [{"ip": ip} for ip in pod["ips"]]} if pod["ips"] else {}
    ending = {"deletionTimestamp": STARTED} if pod.get("state") == "ending" else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod["name"], "namespace": pod["namespace"], "uid": pod["uid"],
                     "labels": pod["labels"], "annotations": pod["args"].get(ANNOTATIONS, {}),
                     "creationTimestamp": STARTED, **ending},
        "spec": {"nodeName": pod["node"], "containers": [{"name": "main", "ports": ports}]},
        "status": {"phase": "Running" if pod["ips"] else "Pending", "startTime": STARTED,
                   "conditions": [condition(pod)], **addresses},
    }


def namespace_object(name):
    return {"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name, "name": name}}}


def objects(lab, applied=()):
    """@applied: names of Namespaces that the test has applied itself."""
    pods = records(lab)
    namespaces = {"default"} | {pod["namespace"] for pod in pods}
    return [namespace_object(name) for name in sorted(namespaces - set(applied))] + [pod_object(p) for p in pods]

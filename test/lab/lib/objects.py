#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""objects.py LAB_DIR: compute the EndpointSlices of Services that select pods of the lab, then
make every node's cluster directory equal to LAB_DIR/objects. The caller holds the lock.

What the lab does not know is left out: namespaces of pods (a selector sees all pods of the
lab), readiness (a pod of the lab is ready)."""
import json
import os
import sys
from pathlib import Path

import yaml

SLICE_PREFIX = "lab-endpointslice-"


def warn(text):
    print(f"lab: {text}", file=sys.stderr)


def documents(path):
    """The objects in a file; one that cannot be read is left to the agent's complaint."""
    try:
        return [d for d in yaml.safe_load_all(path.read_text()) if isinstance(d, dict)]
    except (yaml.YAMLError, UnicodeDecodeError) as err:
        warn(f"{path.name}: {err}; applied as it is, its Services get no endpoints")
        return []


def selecting_services(objects):
    for path in sorted(objects.iterdir()):
        if path.name.startswith(SLICE_PREFIX):
            continue
        for doc in documents(path):
            spec = doc.get("spec") or {}
            if doc.get("kind") == "Service" and spec.get("selector"):
                yield doc


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
        if not selector <= pod["labels"].items():
            continue
        ports = tuple(p for p in (resolve_port(p, pod) for p in service["spec"]["ports"]) if p)
        groups.setdefault(ports, []).append(pod)
    return groups or {(): []}


def endpoint_slice(service, index, ports, pods):
    meta = service["metadata"]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{meta['name']}-lab{index}",
            "namespace": meta.get("namespace", "default"),
            "labels": {"kubernetes.io/service-name": meta["name"]},
        },
        "addressType": "IPv4",
        "ports": [{"name": n, "protocol": proto, "port": port} for n, proto, port in ports],
        "endpoints": [
            {
                "addresses": [pod["ip"]],
                "nodeName": pod["node"],
                "conditions": {"ready": True, "serving": True, "terminating": False},
                "targetRef": {"kind": "Pod", "name": pod["name"]},
            }
            for pod in pods
        ],
    }


def slices(objects, pods):
    """File name -> content, one file per Service."""
    files = {}
    for service in selecting_services(objects):
        meta = service["metadata"]
        docs = [
            endpoint_slice(service, index, ports, members)
            for index, (ports, members) in enumerate(sorted(group_by_ports(service, pods).items()))
        ]
        name = f"{SLICE_PREFIX}{meta.get('namespace', 'default')}-{meta['name']}.yaml"
        files[name] = yaml.safe_dump_all(docs, sort_keys=False)
    return files


def write(directory, name, content, scratch):
    """By rename: a reader sees the old file or the new one."""
    target = directory / name
    if target.exists() and target.read_bytes() == content:
        return
    temporary = scratch / f"{os.getpid()}-{name}"
    temporary.write_bytes(content)
    temporary.rename(target)


def mirror(source, target, scratch):
    wanted = {path.name: path.read_bytes() for path in source.iterdir()}
    for name, content in wanted.items():
        write(target, name, content, scratch)
    for path in target.iterdir():
        if path.name not in wanted:
            path.unlink()


def main(lab):
    objects, scratch = lab / "objects", lab / "tmp"
    pods = [json.loads(path.read_text()) for path in sorted((lab / "pods").glob("*.json"))]
    wanted = slices(objects, pods)
    for name, content in wanted.items():
        write(objects, name, content.encode(), scratch)
    for path in objects.glob(f"{SLICE_PREFIX}*"):
        if path.name not in wanted:
            path.unlink()
    for node in (lab / "nodes").iterdir():
        mirror(objects, node / "cluster", scratch)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""objects.py LAB_DIR: compute the EndpointSlices of Services that select pods of the lab, and with
`lab up --pods` the Pods and Namespaces. Then make every node's cluster directory equal to LAB_DIR/objects. The caller holds the lock."""
import os
import sys
from pathlib import Path

import yaml

sys.dont_write_bytecode = True
import pods  # noqa: E402
from slices import load_pods, service_slices  # noqa: E402

SLICE_PREFIX = "lab-endpointslice-"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml, ten times as fast
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def warn(text):
    print(f"lab: {text}", file=sys.stderr)


def documents(path):
    """The objects in a file; one that cannot be read is left to the agent's complaint."""
    try:
        return [d for d in yaml.load_all(path.read_text(), Loader=LOADER) if isinstance(d, dict)]
    except (yaml.YAMLError, UnicodeDecodeError) as err:
        warn(f"{path.name}: {err}; applied as it is, its Services get no endpoints")
        return []


def selecting_services(objects):
    for path in sorted(objects.iterdir()):
        if path.name.startswith((SLICE_PREFIX, pods.PREFIX)):
            continue
        for doc in documents(path):
            spec = doc.get("spec") or {}
            if doc.get("kind") == "Service" and spec.get("selector"):
                yield doc


def slices(objects, lab_pods):
    """File name -> content, one file per Service."""
    files = {}
    for service in selecting_services(objects):
        meta = service["metadata"]
        name = f"{SLICE_PREFIX}{meta.get('namespace', 'default')}-{meta['name']}.yaml"
        files[name] = yaml.dump_all(service_slices(service, lab_pods), Dumper=DUMPER, sort_keys=False)
    return files


def applied_namespaces(objects):
    for path in objects.iterdir():
        if not path.name.startswith((SLICE_PREFIX, pods.PREFIX)):
            yield from (d["metadata"]["name"] for d in documents(path) if d.get("kind") == "Namespace")


def pod_files(lab):
    """One file per object: a change of one pod is a change of one file."""
    if not pods.is_wanted(lab):
        return {}
    return {f"{pods.PREFIX}{o['kind'].lower()}-{o['metadata']['name']}.yaml": yaml.dump(o, Dumper=DUMPER, sort_keys=False)
            for o in pods.objects(lab, applied_namespaces(lab / "objects"))}


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
    wanted = slices(objects, load_pods(lab)) | pod_files(lab)
    for name, content in wanted.items():
        write(objects, name, content.encode(), scratch)
    for prefix in (SLICE_PREFIX, pods.PREFIX):
        for path in objects.glob(f"{prefix}*"):
            if path.name not in wanted:
                path.unlink()
    for node in (lab / "nodes").iterdir():
        mirror(objects, node / "cluster", scratch)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

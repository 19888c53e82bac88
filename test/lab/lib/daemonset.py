#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""daemonset.py ROOT MANIFEST CONTAINER ACCOUNT [KEY=VALUE...] - become a container of the DaemonSet, as a
kubelet would start it from the image unpacked in ROOT: its mounts, arguments, environment and
capabilities; ACCOUNT is a directory with token and ca.crt; KEY=VALUE replaces a key of the ConfigMap.
CONTAINER:PROBE, such as agent:liveness, runs the command of that probe there instead.
To be run in the node's network namespace and a copy of its mount namespace (unshare -m)."""
import ctypes
import os
import subprocess
import sys

import yaml

CAPABILITIES = {"DAC_OVERRIDE": 1, "NET_BIND_SERVICE": 10, "NET_ADMIN": 12, "SYS_ADMIN": 21, "SYS_RESOURCE": 24, "PERFMON": 38, "BPF": 39}
LAST_CAPABILITY = 63
PR_CAPBSET_DROP = 24


def mount(*args):
    subprocess.run(["mount", *args], check=True)


def bind(source, target, propagation=None):
    os.makedirs(target, exist_ok=True)
    mount("--rbind", source, target)
    mount("--make-rslave" if propagation else "--make-rprivate", target)


def mount_all(root, container, volumes, account):
    """Mount what every container has, with /proc/sys and /sys read-only, then the volumes of the manifest."""
    mount("--bind", root, root)
    bind("/proc", root + "/proc")
    if not container["securityContext"]["privileged"]:
        mount("--bind", "/proc/sys", root + "/proc/sys")
        mount("-o", "remount,ro,bind", root + "/proc/sys")
    mount("-t", "sysfs", "-o", "ro", "sysfs", root + "/sys")
    for item in container["volumeMounts"]:
        volume = volumes[item["name"]]
        host = account if "projected" in volume else volume["hostPath"]["path"]
        if volume.get("hostPath", {}).get("type") == "DirectoryOrCreate":
            os.makedirs(host, exist_ok=True)
        bind(host, root + os.path.realpath(root + item["mountPath"]).removeprefix(os.path.realpath(root)), item.get("mountPropagation"))
    mount("-o", "remount,ro,bind", root)


def limit(context):
    """The capabilities that an exec leaves are those of the bounding set: we are root."""
    if context["privileged"]:
        return
    libc = ctypes.CDLL(None)
    kept = {CAPABILITIES[name] for name in context["capabilities"]["add"]}
    for number in range(LAST_CAPABILITY + 1):
        if number not in kept:
            libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)


def main(root, manifest, name, account, *changes):
    with open(manifest) as f:
        objects = {o["kind"]: o for o in yaml.safe_load_all(f)}
    pod = objects["DaemonSet"]["spec"]["template"]["spec"]
    name, _, probe = name.partition(":")
    container = next(c for c in pod["initContainers"] + pod["containers"] if c["name"] == name)
    command = container[probe + "Probe"]["exec"]["command"] if probe else ["/usr/bin/monokube"] + container["args"]
    environment = {"PATH": "/usr/bin", "NODE_NAME": "node1"}
    environment.update({k: v for k, v in objects["ConfigMap"]["data"].items() if "envFrom" in container})
    environment.update(change.split("=", 1) for change in changes)
    mount_all(root, container, {v["name"]: v for v in pod["volumes"]}, account)
    os.chroot(root)
    os.chdir("/")
    limit(container["securityContext"])
    os.execve(command[0], command, environment)


if __name__ == "__main__":
    main(*sys.argv[1:])

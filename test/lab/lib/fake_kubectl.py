#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""fake_kubectl.py ARGS... - as much of kubectl and a kubelet as test/e2e/run asks of them, with the lab's pods
for Pods (a Pod of the host network is a process on its node). $MK_LAB is the lab, with an API server;
what it holds besides is in $E2E_STATE. Every other request fails."""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

LIB = Path(__file__).resolve().parent
LAB = str(LIB.parent / "lab")
STATE = Path(os.environ["E2E_STATE"])
MOUNTED = STATE / "configmap"  # what a Pod sees as /e2e: the files that were given, and no others


def lab(*args, **kwargs):
    return subprocess.run([LAB, *args], check=True, stdout=subprocess.PIPE, text=True, **kwargs).stdout


def get(path):
    return json.loads(lab("api", "get", path))


def place(name):
    """Where commands of this Pod run."""
    pod = json.loads((STATE / f"{name}.pod").read_text())
    return pod["spec"]["nodeName"] if pod["spec"]["hostNetwork"] else name


def command(words):
    assert words[0] == "python3", f"the image has only python3, not {words[0]}"
    return ["python3"] + [w.replace("/e2e/", f"{MOUNTED}/") for w in words[1:]]


def keep_files(args):
    shutil.rmtree(MOUNTED, ignore_errors=True)  # an earlier run's
    MOUNTED.mkdir()
    for option, path in zip(args, args[1:]):
        if option == "--from-file":
            shutil.copy(path, MOUNTED)


def run_pod(pod):
    name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
    if pod["spec"]["hostNetwork"]:
        nodes = {n["metadata"]["name"]: n for n in get("/api/v1/nodes")["items"]}
        address = nodes[node]["status"]["addresses"][0]["address"]
    else:
        address = lab("pod", node, name, "--namespace", pod["metadata"].get("namespace", "default"),
                      "--label", f"app={pod['metadata']['labels']['app']}").strip()
    pod["status"] = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    (STATE / f"{name}.pod").write_text(json.dumps(pod))
    with open(STATE / f"{name}.log", "w") as log:
        subprocess.Popen([LAB, "exec", place(name), *command(pod["spec"]["containers"][0]["command"])],
                         stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def apply(path):
    rest = []
    for obj in yaml.safe_load_all(Path(path).read_text()):
        if obj["kind"] == "Pod":
            run_pod(obj)
        elif obj["kind"] == "Service":
            rest.append(obj)
        else:
            (STATE / f"{obj['kind']}.installed").write_text(json.dumps(obj))
    if rest:
        (STATE / "services.yaml").write_text(yaml.safe_dump_all(rest))
        lab("apply", str(STATE / "services.yaml"))


def main(args):
    namespace = args[1] if args[0] == "-n" else "default"
    args = args[2:] if args[0] == "-n" else args
    if args[:2] == ["apply", "-f"]:
        apply(args[2])
    elif args[0] == "exec":
        os.execv(LAB, [LAB, "exec", place(args[1]), *command(args[args.index("--") + 1:])])
    elif args == ["get", "nodes", "-o", "json"]:
        print(json.dumps(get("/api/v1/nodes")))
    elif args in (["get", "pods", "-o", "json"], ["get", "pods,services", "-o", "json"]):
        items = [json.loads(p.read_text()) for p in sorted(STATE.glob("*.pod"))]
        if "services" in args[1]:
            items += get(f"/api/v1/namespaces/{namespace}/services")["items"]
        print(json.dumps({"items": items}))
    elif args[:2] == ["get", "service"]:
        print(json.dumps(get(f"/api/v1/namespaces/{namespace}/services/{args[2]}")))
    elif args[:2] == ["create", "configmap"]:
        keep_files(args)
    elif args[:2] in (["create", "namespace"], ["rollout", "status"], ["delete", "namespace"]):
        with open(STATE / "done", "a") as done:
            print(*args, file=done)
    else:
        sys.exit(f"fake_kubectl: {args}: unknown")


if __name__ == "__main__":
    main(sys.argv[1:])

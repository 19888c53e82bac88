#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/wire/t_manifests.py [PART OF A NAME...] - manifests/: existing fields, matching names, the client's verbs."""
import os
import re
import shutil
import signal
import subprocess
import sys

import yaml

sys.dont_write_bytecode = True
from harness import ROOT, Follow, Server, Wrong, expect, run, wait  # noqa: E402

MANIFEST = os.path.join(ROOT, "manifests/monokube.yaml")
OWN_NODE = os.path.join(ROOT, "manifests/own-node-status.yaml")
MONOKUBE = os.environ.get("MK_BIN") or os.path.join(ROOT, "build/monokube")


class Loader(yaml.SafeLoader):
    """A key that is there twice is an error, as for the API server with strict decoding."""

    def construct_mapping(self, node, deep=False):
        keys = [k.value for k, _ in node.value]
        if len(keys) != len(set(keys)):
            raise Wrong("%s: a key is there twice: %s" % (node.start_mark, keys))
        return super().construct_mapping(node, deep)


def read(path):
    with open(path) as f:
        return list(yaml.load_all(f, Loader))


def objects():
    return {o["kind"]: o for o in read(MANIFEST)}


def pod():
    return objects()["DaemonSet"]["spec"]["template"]["spec"]


# ---- fields. The API's schema is not available to the tests. These are the fields that the manifests
# use; the set behind None has the required ones.

NAME, QUANTITY, PATH = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?"), re.compile(r"[0-9]+(m|[KMG]i)?"), re.compile(r"/.*")
TEXTS, ONE_OF = {"*": str}, lambda *words: re.compile("|".join(words))  # noqa: E731
META = {None: {"name"}, "name": NAME, "namespace": NAME, "labels": TEXTS, "annotations": TEXTS}
PROBE = {None: {"exec"}, "exec": {"command": [str]}, "periodSeconds": int, "timeoutSeconds": int, "failureThreshold": int}
CONTAINER = {
    None: {"name", "image"}, "name": NAME, "image": str, "imagePullPolicy": ONE_OF("IfNotPresent", "Always", "Never"), "args": [str],
    "env": [{None: {"name"}, "name": str, "value": str, "valueFrom": {"fieldRef": {"fieldPath": str}}}],
    "envFrom": [{"configMapRef": {"name": NAME}}],
    "securityContext": {"privileged": bool, "readOnlyRootFilesystem": bool,
                        "capabilities": {"add": [re.compile("[A-Z_]+")], "drop": [re.compile("[A-Z_]+")]},
                        "seccompProfile": {None: {"type"}, "type": ONE_OF("Unconfined", "RuntimeDefault")},
                        "seLinuxOptions": {"type": str, "level": str}},
    "resources": {"requests": {"cpu": QUANTITY, "memory": QUANTITY}, "limits": {"cpu": QUANTITY, "memory": QUANTITY}},
    "ports": [{None: {"containerPort"}, "name": NAME, "containerPort": int, "hostPort": int, "protocol": ONE_OF("TCP", "UDP")}],
    "startupProbe": PROBE, "livenessProbe": PROBE, "readinessProbe": PROBE,
    "volumeMounts": [{None: {"name", "mountPath"}, "name": NAME, "mountPath": PATH, "readOnly": bool,
                      "mountPropagation": ONE_OF("HostToContainer", "Bidirectional")}],
}
POD = {
    None: {"containers"}, "serviceAccountName": NAME, "automountServiceAccountToken": bool, "hostNetwork": bool,
    "dnsPolicy": ONE_OF("ClusterFirstWithHostNet", "Default"), "priorityClassName": NAME,
    "terminationGracePeriodSeconds": int, "nodeSelector": TEXTS,
    "tolerations": [{"key": str, "operator": ONE_OF("Exists", "Equal"), "effect": ONE_OF("NoSchedule", "NoExecute")}],
    "initContainers": [CONTAINER], "containers": [CONTAINER],
    "volumes": [{None: {"name"}, "name": NAME, "hostPath": {None: {"path"}, "path": PATH, "type": ONE_OF("Directory", "DirectoryOrCreate")},
                 "projected": {"defaultMode": int, "sources": [{
                     "serviceAccountToken": {"path": str, "expirationSeconds": int},
                     "configMap": {"name": NAME, "items": [{"key": str, "path": str}]},
                     "downwardAPI": {"items": [{"path": str, "fieldRef": {"fieldPath": str}}]}}]}}],
}
SCHEMAS = {
    ("v1", "ConfigMap"): {"metadata": META, "data": TEXTS},
    ("v1", "ServiceAccount"): {"metadata": META, "automountServiceAccountToken": bool},
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): {"metadata": META, "rules": [{
        None: {"verbs"}, "apiGroups": [str], "resources": [str], "verbs": [str], "nonResourceURLs": [PATH]}]},
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): {
        None: {"roleRef"}, "metadata": META, "roleRef": {None: {"apiGroup", "kind", "name"}, "apiGroup": str, "kind": str, "name": NAME},
        "subjects": [{None: {"kind", "name"}, "kind": str, "name": NAME, "namespace": NAME}]},
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"): {None: {"spec"}, "metadata": META, "spec": {
        None: {"matchConstraints", "validations"}, "failurePolicy": ONE_OF("Fail", "Ignore"), "matchConstraints": {"resourceRules": [{
            "apiGroups": [str], "apiVersions": [str], "resources": [str], "operations": [ONE_OF("CREATE", "UPDATE", "DELETE")]}]},
        "matchConditions": [{None: {"name", "expression"}, "name": NAME, "expression": str}],
        "validations": [{None: {"expression"}, "expression": str, "message": str}]}},
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"): {None: {"spec"}, "metadata": META, "spec": {
        None: {"policyName", "validationActions"}, "policyName": NAME, "validationActions": [ONE_OF("Deny", "Warn", "Audit")]}},
    ("apps/v1", "DaemonSet"): {"metadata": META, "spec": {
        None: {"selector", "template"}, "selector": {"matchLabels": TEXTS},
        "updateStrategy": {"type": ONE_OF("RollingUpdate"), "rollingUpdate": {"maxUnavailable": int}},
        "template": {"metadata": {"labels": TEXTS, "annotations": TEXTS}, "spec": POD}}},
}


def faults(value, schema, at):
    """Return what is wrong with @value, as "path: why"."""
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            return ["%s: %r is no object" % (at, value)]
        missing = ["%s: no %s" % (at, name) for name in sorted(schema.get(None, set()) - value.keys())]
        return missing + [f for k, v in value.items() for f in (
            faults(v, schema.get(k, schema.get("*")), "%s.%s" % (at, k)) if k in schema or "*" in schema
            else ["%s.%s: no such field" % (at, k)])]
    if isinstance(schema, list):
        if not isinstance(value, list):
            return ["%s: %r is no list" % (at, value)]
        return [f for i, v in enumerate(value) for f in faults(v, schema[0], "%s[%d]" % (at, i))]
    if isinstance(schema, re.Pattern):
        return [] if isinstance(value, str) and schema.fullmatch(value) else ["%s: %r" % (at, value)]
    return [] if type(value) is schema else ["%s: %r, expected %s" % (at, value, schema.__name__)]


def fields():
    """every field exists and has a value of its kind, none is missing or there twice; a wrong one would be found"""
    for obj in read(MANIFEST) + read(OWN_NODE):
        schema = {None: {"metadata"}, **SCHEMAS[obj["apiVersion"], obj["kind"]], "apiVersion": str, "kind": str}
        expect("faults of the %s" % obj["kind"], faults(obj, schema, obj["kind"]), [])
    for path, value in (("hostNetworks", True), ("hostNetwork", "true"), ("volumes", [{"name": "a b"}]),
                        ("volumes", [{"hostPath": {"path": "/"}}]), ("containers", [{"name": "a"}])):
        if not faults(dict(pod(), **{path: value}), POD, "pod"):
            raise Wrong("%s: %r is taken" % (path, value))


# ---- what refers to something


def names_meet():
    """what one object says of another is so: names, labels, volumes, keys of the ConfigMap, flags, version"""
    found = objects()
    daemonset, binding = found["DaemonSet"]["spec"], found["ClusterRoleBinding"]
    account = found["ServiceAccount"]["metadata"]
    expect("role", binding["roleRef"]["name"], found["ClusterRole"]["metadata"]["name"])
    expect("subject", (binding["subjects"][0]["name"], binding["subjects"][0]["namespace"]), (account["name"], account["namespace"]))
    expect("account", pod()["serviceAccountName"], account["name"])
    expect("labels", daemonset["selector"]["matchLabels"].items() <= daemonset["template"]["metadata"]["labels"].items(), True)
    containers = pod()["initContainers"] + pod()["containers"]
    volumes = {v["name"] for v in pod()["volumes"]}
    expect("volumes", {m["name"] for c in containers for m in c["volumeMounts"]}, volumes)
    expect("ConfigMap", pod()["containers"][0]["envFrom"][0]["configMapRef"]["name"], found["ConfigMap"]["metadata"]["name"])
    with open(os.path.join(ROOT, "include/monokube/version.h")) as f:
        version = re.search(r'MONOKUBE_VERSION\s+"([^"]+)"', f.read())[1]
    expect("images", {c["image"] for c in containers}, {"localhost/monokube:" + version})


def own_node_policy():
    """the policy is about the requests that the ClusterRole grants beyond the own Node, and about this account"""
    policy, binding = read(OWN_NODE)
    account = objects()["ServiceAccount"]["metadata"]
    expect("policy", binding["spec"]["policyName"], policy["metadata"]["name"])
    rule = policy["spec"]["matchConstraints"]["resourceRules"][0]
    granted_patches = {r for x in objects()["ClusterRole"]["rules"] if "patch" in x["verbs"] for r in x["resources"]} - {"events"}
    expect("resources", set(rule["resources"]), granted_patches)
    expect("a PATCH is an", rule["operations"], ["UPDATE"])
    expect("whose requests", policy["spec"]["matchConditions"][0]["expression"],
           "request.userInfo.username == 'system:serviceaccount:%s:%s'" % (account["namespace"], account["name"]))
    expect("the token is bound to a pod", [s for v in pod()["volumes"] for s in v.get("projected", {}).get("sources", [])
                                           if "serviceAccountToken" in s] != [], True)


def settings_exist():
    """keys of the ConfigMap and flags are those of `monokube agent --help`, values are accepted"""
    text = subprocess.run([MONOKUBE, "agent", "--help"], capture_output=True, text=True, check=True).stdout
    keys, flags = set(re.findall(r"\((\w+)\)$", text, re.M)), set(re.findall(r"^  (--[a-z-]+)", text, re.M))
    data, args = objects()["ConfigMap"]["data"], pod()["containers"][0]["args"]
    expect("unknown keys", set(data) - keys, set())
    expect("unknown flags", {a for a in args if a.startswith("--")} - flags, set())
    expect("the token's place", [m["mountPath"] for m in pod()["containers"][0]["volumeMounts"] if m["name"] == "token"],
           ["/var/run/secrets/kubernetes.io/serviceaccount"])
    done = subprocess.run([MONOKUBE] + args + ["--node-name", "a"], env=dict(data, PATH=os.environ["PATH"]),
                          capture_output=True, text=True)
    if "no cluster to follow" not in done.stderr:
        raise Wrong("with these settings: " + done.stderr)


def as_promised():
    """what README says of the DaemonSet: where it runs, what it may do and see, how it is looked after and replaced"""
    spec, agent = pod(), pod()["containers"][0]
    expect("network, priority", (spec["hostNetwork"], spec["priorityClassName"]), (True, "system-node-critical"))
    expect("resolver: the cluster's is not reached before this runs", spec["dnsPolicy"], "Default")
    expect("tolerated: every taint", spec["tolerations"], [{"operator": "Exists"}])
    expect("seccomp profile", agent["securityContext"]["seccompProfile"], {"type": "Unconfined"})
    expect("privileged", [c["name"] for c in spec["initContainers"] + spec["containers"] if c["securityContext"]["privileged"]], ["prepare"])
    expect("capabilities", agent["securityContext"]["capabilities"],
           {"drop": ["ALL"], "add": ["NET_ADMIN", "BPF", "PERFMON", "DAC_OVERRIDE", "NET_BIND_SERVICE"]})
    expect("root directories that can be written", [c["name"] for c in spec["initContainers"] + spec["containers"]
                                                    if not c["securityContext"]["readOnlyRootFilesystem"]], [])
    expect("places of the host", {v["hostPath"]["path"] for v in spec["volumes"] if "hostPath" in v},
           {"/sys/fs/bpf", "/proc/sys/net", "/opt/cni/bin", "/etc/cni/net.d", "/var/lib/monokube", "/run/netns"})
    expect("requests", set(agent["resources"]["requests"]), {"cpu", "memory"})
    expect("probes", [agent[p + "Probe"]["exec"]["command"] for p in ("startup", "liveness", "readiness")],
           [["/usr/bin/monokube", "health", what] for what in ("live", "live", "ready")])
    expect("update", objects()["DaemonSet"]["spec"]["updateStrategy"]["rollingUpdate"], {"maxUnavailable": 1})
    token = [s for v in spec["volumes"] for s in v.get("projected", {}).get("sources", []) if "serviceAccountToken" in s]
    expect("the token's life", [t["serviceAccountToken"]["expirationSeconds"] for t in token], [3607])
    expect("tokens that nobody asked for", (spec["automountServiceAccountToken"], objects()["ServiceAccount"]["automountServiceAccountToken"]),
           (False, False))


# ---- rights

VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}
TARGET = re.compile(r"^/(?:api/v1|apis/([^/]+)/[^/]+)(?:/namespaces/[^/]+)?/([a-z]+)(?:/([^/]+)(?:/([a-z]+))?)?$")


def verb_of(entry):
    """Return the verb of RBAC for this request."""
    m = TARGET.match(entry["path"])
    if not m:
        return "get", entry["path"]
    group, resource, name, part = m.groups()
    verb = VERBS.get(entry["method"]) or ("get" if name else "watch" if entry["query"].get("watch") else "list")
    return verb, "%s/%s%s" % (group or "", resource, "/" + part if part else "")


def granted():
    rules = objects()["ClusterRole"]["rules"]
    return {(verb, what) for rule in rules for verb in rule["verbs"] for what in
            rule.get("nonResourceURLs", []) + ["%s/%s" % (g, r) for g in rule.get("apiGroups", []) for r in rule.get("resources", [])]}


def rights():
    """the ClusterRole has the verbs that the client and `monokube check` ask for, and no others"""
    asked = set()
    for options, missing in (((), []), (("--no-streaming",), []), ((), ["discovery.k8s.io"]),
                             (("--no-streaming",), ["discovery.k8s.io"])):
        server = Server(*options)
        server.settings(missing=missing)
        server.done("PATCH", "/api/v1/nodes/worker-1/status", {"status": {"conditions": [
            {"type": "NetworkUnavailable", "status": "True"}]}}, "application/strategic-merge-patch+json")
        client = Follow(server, "--node", "worker-1", "--event-again-ms", "1", "--wants").listed()
        client.wants("pa")
        client.logs("API server version=")
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            client.process.send_signal(number)
        event = wait("the Event", lambda: server.done("GET", "/api/v1/events")["items"])[0]["metadata"]["name"]
        client.process.send_signal(signal.SIGUSR2)
        wait("the Event, counted up", lambda: server.asked(event))
        wait("the condition", lambda: len(server.asked("/nodes/worker-1/status")) > 1)
        wait("watches", lambda: server.asked("/services", watch="1") and server.asked("/servicecidrs", watch="1"))
        wait("watches of policies", lambda: all(server.asked(what, watch="1") for what in (
            "/pods", "/namespaces", "/networkpolicies", "/clusternetworkpolicies")))
        client.stop()
        asked |= {verb_of(e) for e in server.log() if e["agent"] == "monokube"}
        server.stop()
    checks = {(verb, "policy.networking.k8s.io/" + what) for verb in ("list", "watch") for what in (
        "adminnetworkpolicies", "baselineadminnetworkpolicies")}  # `monokube check`: t_policies.py
    expect("granted, never asked for", granted() - asked - checks, set())
    expect("asked for, not granted", asked - granted(), set())


# ---- kubectl


def kubectl_takes_them():
    """kubectl apply: as a dry run, in earnest, by the kustomization, which changes nothing then"""
    server = Server(recorded=False)

    def kubectl(*arguments):
        done = subprocess.run(["kubectl", "--kubeconfig", server.dir + "/kubeconfig", *arguments], capture_output=True,
                              text=True, timeout=60, check=False)
        if done.returncode:
            raise Wrong("kubectl %s: %s" % (" ".join(arguments), done.stderr))
        return done.stdout.splitlines()
    count = len(read(MANIFEST))
    expect("a dry run", [x.split()[1:] for x in kubectl("apply", "--dry-run=client", "-f", MANIFEST)], [["created", "(dry", "run)"]] * count)
    expect("in earnest", [x.split()[1] for x in kubectl("apply", "-f", MANIFEST)], ["created"] * count)
    expect("kustomization", [x.split()[1] for x in kubectl("apply", "-k", os.path.dirname(MANIFEST))], ["unchanged"] * count)


def kustomization():
    """the kustomization has the manifest"""
    tree = read(os.path.join(os.path.dirname(MANIFEST), "kustomization.yaml"))[0]
    expect("kind", (tree["apiVersion"], tree["kind"]), ("kustomize.config.k8s.io/v1beta1", "Kustomization"))
    expect("resources", tree["resources"], [os.path.basename(MANIFEST)])


TESTS = [fields, names_meet, own_node_policy, settings_exist, as_promised, kustomization, rights]

if shutil.which("kubectl"):  # no Debian package: without it this test is not part of the plan
    TESTS.append(kubectl_takes_them)
else:
    print("# kubectl is not installed: it is not tested")

if __name__ == "__main__":
    sys.exit(run(TESTS))

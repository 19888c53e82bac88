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
import t_leader  # noqa: E402
import t_peer_apis  # noqa: E402
from standin import schema  # noqa: E402
from harness import ROOT, Follow, Server, Wrong, expect, run, wait  # noqa: E402

MANIFEST = os.path.join(ROOT, "manifests/monokube.yaml")
CHAINS = os.path.join(ROOT, "manifests/chains.yaml")
CHAINS_EXAMPLE = os.path.join(ROOT, "manifests/examples/chains.yaml")
ENDS_EXAMPLE = os.path.join(ROOT, "manifests/examples/ends.yaml")
PEERS = os.path.join(ROOT, "manifests/multicluster.yaml")
MCS = os.path.join(ROOT, "manifests/mcs.yaml")
PEERS_POLICY = os.path.join(ROOT, "manifests/peers-admission.yaml")
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
        "variables": [{None: {"name", "expression"}, "name": NAME, "expression": str}],
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
    for obj in read(MANIFEST) + read(OWN_NODE) + read(PEERS_POLICY):
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
    granted_patches = {r for x in objects()["ClusterRole"]["rules"] if "patch" in x["verbs"] for r in x["resources"]} - {"events"} - \
        {"servicefunctionchains/status"}  # a chain is of no node
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


# ---- the resource of service function chains


def chain(**changes):
    """The chain of the examples, changed: KEY="value" at the paths of BROKEN."""
    found = next(o for o in read(CHAINS_EXAMPLE) if o["kind"] == "ServiceFunctionChain")
    for path, value in changes.items():
        at, *names = path.split(".")
        parent, step = {"spec": found["spec"], "traffic": found["spec"]["traffic"],
                        "peer": found["spec"]["traffic"]["peers"], "port": found["spec"]["traffic"]["ports"],
                        "function": found["spec"]["functions"]}[at], names[0] if names else 0
        if value is None:
            del parent[step]
        else:
            parent[step] = value
    return found


BLOCK = {"cidr": "192.0.2.0/24"}
BROKEN = [  # what is set, where the fault is, and why
    ("peer", {}, "peers[0]", "a peer needs one of outside, ipBlock, podSelector and namespaceSelector"),
    ("peer", {"outside": True, "ipBlock": BLOCK}, "peers[0]", "a peer is of one kind: outside, ipBlock, or selectors"),
    ("peer", {"outside": True, "podSelector": {}}, "peers[0]", "a peer is of one kind: outside, ipBlock, or selectors"),
    ("peer", {"ipBlock": BLOCK, "namespaceSelector": {}}, "peers[0]", "a peer is of one kind: outside, ipBlock, or selectors"),
    ("peer", {"outside": False}, "peers[0].outside", "supported values: [True]"),
    ("port", {"endPort": 90}, "ports[0]", "endPort needs port, and may not be below it"),
    ("port", {"port": 80, "endPort": 79}, "ports[0]", "endPort needs port, and may not be below it"),
    ("port", {"port": 65536}, "ports[0].port", "should be at most 65535"),
    ("port", {"protocol": "ICMP"}, "ports[0].protocol", "supported values"),
    ("traffic.podSelector", {"matchExpressions": [{"key": "a", "operator": "In"}]}, "matchExpressions[0]",
     "In and NotIn need values, Exists and DoesNotExist have none"),
    ("traffic.podSelector", {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}, "matchExpressions[0]",
     "In and NotIn need values, Exists and DoesNotExist have none"),
    ("traffic.podSelector", None, "spec.traffic", "traffic has either podSelector or service"),
    ("traffic.direction", None, "spec.traffic", "traffic needs direction, but beside service it is Ingress"),
    ("spec.traffic", {"podSelector": {}, "service": "web"}, "spec.traffic", "traffic has either podSelector or service"),
    ("spec.traffic", {"service": "web", "direction": "Ingress"}, "spec.traffic",
     "traffic needs direction, but beside service it is Ingress"),
    ("spec.traffic", {"service": "web", "ports": []}, "spec.traffic", "beside service there are neither ports nor namespaceSelector"),
    ("spec.traffic", {"service": "web", "namespaceSelector": {}}, "spec.traffic",
     "beside service there are neither ports nor namespaceSelector"),
    ("spec.traffic", {"service": "Web"}, "spec.traffic.service", "should match"),
    ("traffic.direction", "egress", "traffic.direction", "supported values"),
    ("function", {"name": "Firewall"}, "functions[0].name", "should match"),
    ("function", {"name": "ids"}, "functions[1]", "Duplicate value"),
    ("function", {"name": "a", "hashBy": "Source"}, "functions[0].hashBy", "supported values"),
    ("function", {"name": "a", "localWeight": 0}, "functions[0].localWeight", "should be at least 1"),
    ("function", {"name": "a", "localWeight": 257}, "functions[0].localWeight", "should be at most 256"),
    ("function", {"name": "a", "tap": "yes"}, "functions[0].tap", "must be of type boolean"),
    ("function", {"name": "a", "tap": True, "whenUnavailable": "Block"}, "functions[0]", "tap excludes whenUnavailable and onLoss"),
    ("function", {"name": "a", "tap": True, "onLoss": "Drop"}, "functions[0]", "tap excludes whenUnavailable and onLoss"),
    ("spec.functions", [{"name": "a", "tap": True}, {"name": "b", "tap": True}], "spec.functions", "at least one function is without tap"),
    ("spec.functions", [], "spec.functions", "should be at least 1"),
    ("spec.functions", [{"name": "f%d" % i} for i in range(9)], "spec.functions", "should be at most 8"),
    ("spec.priority", 1001, "spec.priority", "should be at most 1000"),
    ("spec.takeOpenFlows", "yes", "spec.takeOpenFlows", "must be of type boolean"),
    ("spec.traffic", None, "spec", "a chain has either traffic or ends"),
    ("spec.ends", {"inside": "lan", "outside": "wan"}, "spec", "a chain has either traffic or ends"),
]
ENDS = {"inside": "lan", "outside": "wan"}
BROKEN_ENDS = [  # the same, of a chain with ends
    ("spec.ends", {"inside": "lan"}, "spec.ends.outside", "Required value"),
    ("spec.ends", {"inside": "lan", "outside": "Wan"}, "spec.ends.outside", "should match"),
    ("spec.ends", {"inside": "lan", "outside": "lan"}, "spec.ends", "the ends are two functions"),
    ("spec.ends", {"inside": "firewall", "outside": "wan"}, "spec", "an end must not be one of the functions"),
    ("spec.ends", {"inside": "lan", "outside": "firewall"}, "spec", "an end must not be one of the functions"),
    ("function", {"name": "a", "tap": True}, "spec", "beside ends there are no taps"),
    ("spec.takeOpenFlows", False, "spec", "a chain with ends takes all flows"),
]
CIDRS = {True: ("0.0.0.0/0", "255.255.255.255/32", "10.244.0.0/16", "::/0", "2001:db8::/32", "fd00:10:244::1/128", "::ffff:192.0.2.1/128"),
         False: ("10.0.0.0", "10.0.0/8", "10.0.0.256/8", "10.0.0.0/33", "10/0.0.0/8", "2001:db8::", "2001:db8::/129", "shop", " 10.0.0.0/8")}


def peer_of(cidr):
    return chain(peer={"ipBlock": {"cidr": cidr, "except": [cidr]}})


def chain_schema():
    """each rule of the schema refuses what breaks it, with its message; CIDRs of both families"""
    def wrong(obj):
        schema.fill_in(obj, schema.of_chains())
        return schema.faults(obj, schema.of_chains())
    expect("the example", wrong(chain()), [])
    expect("a Service", wrong(chain(**{"spec.traffic": {"service": "web", "peers": [{"outside": True}]}})), [])
    expect("a tap", wrong(chain(function={"name": "a", "tap": True})), [])
    expect("no tap", wrong(chain(function={"name": "a", "tap": False, "onLoss": "Drop"})), [])
    for path, value, at, why in BROKEN:
        found = wrong(chain(**{path: value}))
        if len(found) != 1 or not re.search(re.escape(at) + ": .*" + re.escape(why), found[0]):
            raise Wrong("%s=%r: %s, expected %s: %s" % (path, value, found, at, why))
    for good, cidrs in CIDRS.items():
        for cidr in cidrs:
            expect(cidr, not wrong(peer_of(cidr)), good)
    expect("unknown fields", schema.unknown(chain(**{"function": {"name": "a", "copies": True}, "spec.via": {}}), schema.of_chains()),
           [".spec.functions[0].copies", ".spec.via"])


def with_ends(**changes):
    return chain(**{"spec.ends": dict(ENDS), **changes, "spec.traffic": None})


def ends_schema():
    """the same for a chain with ends, and none of both kinds replaces the other one"""
    def wrong(obj, old=None):
        schema.fill_in(obj, schema.of_chains())
        return schema.faults(obj, schema.of_chains(), old=old)
    expect("ends", wrong(with_ends()), [])
    expect("the example", wrong(next(o for o in read(ENDS_EXAMPLE) if o["kind"] == "ServiceFunctionChain")), [])
    for path, value, at, why in BROKEN_ENDS:
        found = wrong(with_ends(**{path: value}))
        if len(found) != 1 or not re.search(re.escape(at) + ": .*" + re.escape(why), found[0]):
            raise Wrong("%s=%r: %s, expected %s: %s" % (path, value, found, at, why))
    expect("other ends", wrong(with_ends(**{"spec.ends": {"inside": "a", "outside": "b"}}), with_ends()), [])
    expect("other traffic", wrong(chain(**{"traffic.direction": "Both"}), chain()), [])
    why = [".spec: ends do not replace traffic, nor traffic ends: make a new chain"]
    expect("ends instead of traffic", wrong(with_ends(), chain()), why)
    expect("traffic instead of ends", wrong(chain(), with_ends()), why)


def is_structural(value):
    """Every part of a schema has a type, as apiextensions.k8s.io/v1 wants it."""
    if "type" not in value:
        return False
    parts = list(value.get("properties", {}).values()) + [value[k] for k in ("items", "additionalProperties") if k in value]
    return all(is_structural(part) for part in parts)


def chain_resource():
    """the CustomResourceDefinition fits its names; only view is aggregated, and the agent may read"""
    crd, edit, view = read(CHAINS)
    spec, version = crd["spec"], crd["spec"]["versions"][0]
    expect("name", crd["metadata"]["name"], "%s.%s" % (spec["names"]["plural"], spec["group"]))
    expect("kind", (chain()["apiVersion"], chain()["kind"]), ("%s/%s" % (spec["group"], version["name"]), spec["names"]["kind"]))
    expect("structural", is_structural(schema.of_chains()), True)
    expect("columns", [c["name"] for c in version["additionalPrinterColumns"]], ["Functions", "Ready", "Age", "Priority", "Direction"])
    rules = {"apiGroups": [spec["group"]], "resources": [spec["names"]["plural"]]}
    expect("edit", (edit["metadata"]["name"], edit["metadata"]["labels"]), ("monokube-chains-edit", crd["metadata"]["labels"]))
    expect("may edit", edit["rules"], [dict(rules, verbs=["get", "list", "watch", "create", "update", "patch", "delete"])])
    expect("view", (view["metadata"]["name"], view["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"]),
           ("monokube-chains-view", "true"))
    expect("may view", view["rules"], [dict(rules, verbs=["get", "list", "watch"])])


# ---- other clusters

PUBLISHED = {"networking.monokube.io/cluster": "east"}
GOOD = {
    "ClusterPeer": ("east", {"podCidr": "240.0.0.0/16,fd00:aaaa::/48", "via": "hub", "access": "Pods", "relay": True, "accept": "Transit", "mtu": 1280,
                             "secretName": "peer-east", "limits": {"services": 1}}),
    "PublishedCluster": ("east", {"name": "east", "number": 16777215, "podCidr": "10.244.0.0/16,fd00:10:244::/48", "wireVersions": [1]}),
    "PublishedNode": ("east.n1.example", {"node": "n1.example", "podCidrs": ["10.244.1.0/24", "fd00:10:244:1::/64"],
                                          "addresses": ["192.0.2.1", "2001:db8::1"], "port": 8472}),
    "PublishedService": ("east.shop.web", {
        "namespace": "shop", "name": "web", "type": "ClusterSetIP", "exported": "2026-01-02T03:04:05Z", "sessionAffinity": "None",
        "ports": [{"name": "http", "protocol": "TCP", "port": 80}], "ipFamilies": ["IPv4"], "labels": {"a": "b"}, "part": 0, "parts": 1,
        "slices": [{"name": "web-1", "addressType": "IPv4", "endpoints": [{"addresses": ["10.244.1.2"], "conditions": {"ready": True}}]}]}),
}
BROKEN_PEERS = [  # kind, field, value (None: without it), where the fault is, and why
    ("ClusterPeer", "podCidr", "same", "podCidr", "should match"),
    ("ClusterPeer", "podCidr", "240.0.0.0", "podCidr", "should match"),
    ("ClusterPeer", "podCidr", "240.0.0.0/16,", "podCidr", "should match"),
    ("ClusterPeer", "podCidr", "Same,240.0.0.0/16", "podCidr", "should match"),
    ("ClusterPeer", "via", "a.b", "via", "should match"),
    ("ClusterPeer", "via", "east", "", "via is another ClusterPeer"),
    ("ClusterPeer", "access", "All", "access", "supported values"),
    ("ClusterPeer", "relay", "yes", "relay", "must be of type boolean"),
    ("ClusterPeer", "accept", "Always", "accept", "supported values"),
    ("ClusterPeer", "path", "Both", "path", "supported values"),
    ("ClusterPeer", "mtu", 1279, "spec", "mtu is 0, or at least 1280"),
    ("ClusterPeer", "mtu", 65536, "mtu", "should be at most 65535"),
    ("ClusterPeer", "secretName", "Peer", "secretName", "should match"),
    ("ClusterPeer", "inbox", True, "spec", "a peer with inbox has no secretName"),
    ("ClusterPeer", "inbox", "yes", "inbox", "must be of type boolean"),
    ("ClusterPeer", "publishTo", 1, "publishTo", "must be of type boolean"),
    ("ClusterPeer", "limits", {"services": 5001}, "limits.services", "should be at most 5000"),
    ("PublishedCluster", "name", "west", "", "the object has the name of the cluster"),
    ("PublishedCluster", "name", None, "name", "Required value"),
    ("PublishedCluster", "number", 16777216, "number", "should be at most 16777215"),
    ("PublishedCluster", "podCidr", "", "podCidr", "should match"),
    ("PublishedCluster", "podCidr", "Same", "podCidr", "should match"),
    ("PublishedCluster", "podCidr", None, "podCidr", "Required value"),
    ("PublishedCluster", "wireVersions", [], "wireVersions", "should be at least 1"),
    ("PublishedCluster", "wireVersions", ["1"], "wireVersions[0]", "must be of type integer"),
    ("PublishedNode", "node", "N1", "node", "should match"),
    ("PublishedNode", "node", None, "node", "Required value"),
    ("PublishedNode", "podCidrs", ["10.244.1.0"], "podCidrs[0]", "should match"),
    ("PublishedNode", "podCidrs", ["10.1.0.0/24"] * 3, "podCidrs", "should be at most 2"),
    ("PublishedNode", "addresses", [], "addresses", "should be at least 1"),
    ("PublishedNode", "addresses", ["n1"], "addresses[0]", "should match"),
    ("PublishedNode", "port", 0, "port", "should be at least 1"),
    ("PublishedService", "namespace", None, "namespace", "Required value"),
    ("PublishedService", "name", "a.b", "name", "should match"),
    ("PublishedService", "type", "ExternalName", "type", "supported values"),
    ("PublishedService", "ports", [{"name": "http"}], "ports[0].port", "Required value"),
    ("PublishedService", "ports", [{"port": 0}], "ports[0].port", "should be at least 1"),
    ("PublishedService", "ipFamilies", ["IPv4"] * 3, "ipFamilies", "should be at most 2"),
    ("PublishedService", "part", 50, "part", "should be at most 49"),
    ("PublishedService", "slices", [{"name": "a"}], "slices[0].addressType", "Required value"),
    ("PublishedService", "slices", [{"name": "a", "addressType": "FQDN"}], "slices[0].addressType", "supported values"),
]


def of_peers(kind, called=None, **changes):
    spec = {k: v for k, v in dict(GOOD[kind][1], **changes).items() if v is not None}
    return {"apiVersion": "networking.monokube.io/v1alpha1", "kind": kind, "spec": spec, "metadata": dict(
        {"name": called or GOOD[kind][0]}, **({} if kind == "ClusterPeer" else {"namespace": "monokube-peers", "labels": PUBLISHED}))}


def peers_schema():
    """each rule of the schemas of other clusters refuses what breaks it, with its message"""
    def wrong(obj):
        known = schema.of_kinds()[obj["kind"]]
        schema.fill_in(obj, known)
        return schema.faults(obj, known)
    for kind in GOOD:
        expect(kind, wrong(of_peers(kind)), [])
    for view in (None, "", "Same", "240.0.0.0/16", "fd00::/48"):
        expect("view %s" % view, wrong(of_peers("ClusterPeer", podCidr=view)), [])
    for kind, field, value, at, why in BROKEN_PEERS:
        found = wrong(of_peers(kind, **{field: value}))
        if len(found) != 1 or not re.search(re.escape(at) + ": .*" + re.escape(why), found[0]):
            raise Wrong("%s %s=%r: %s, expected %s: %s" % (kind, field, value, found, at, why))
    expect("with inbox", wrong(of_peers("ClusterPeer", secretName=None, inbox=True)), [])
    expect("with publishTo", wrong(of_peers("ClusterPeer", publishTo=True)), [])
    for without in (None, ""):
        expect("publishTo", wrong(of_peers("ClusterPeer", secretName=without, publishTo=True)), [".spec: publishTo needs secretName"])
    expect("a name with a dot", wrong(of_peers("ClusterPeer", called="a.b")), [": the name is the clusterName of the peer, which has no dots"])


def peer_resources():
    """the CustomResourceDefinitions fit their names, and the agent may read what it asks for, published objects in one namespace"""
    found = read(PEERS)
    crds = {o["spec"]["names"]["plural"]: o for o in found if o["kind"] == "CustomResourceDefinition"}
    expect("kinds", sorted(o["spec"]["names"]["kind"] for o in crds.values()), sorted(GOOD))
    for plural, crd in crds.items():
        expect("name", crd["metadata"]["name"], "%s.%s" % (plural, crd["spec"]["group"]))
        expect("structural", is_structural(schema.of_kinds()[crd["spec"]["names"]["kind"]]), True)
    version = crds["clusterpeers"]["spec"]["versions"][0]
    expect("status", version.get("subresources"), {"status": {}})
    expect("columns", [c["name"] for c in version["additionalPrinterColumns"]],
           ["Pods", "As", "Via", "Path", "Access", "Nodes", "Answer", "RTT", "Ready", "Reason", "Relay", "Age"])
    names = [o["metadata"]["name"] for o in found if o["kind"] == "Namespace"]
    expect("namespaces", names, ["monokube-peers", "monokube-published"])
    readers = [o for o in found if o["metadata"]["name"] == "monokube-peer-reader"]
    expect("rights of peers", [(o["kind"], o["metadata"]["namespace"], o["rules"]) for o in readers], [("Role", "monokube-published", [
        {"apiGroups": ["networking.monokube.io"], "resources": ["publishedclusters", "publishednodes", "publishedservices"],
         "verbs": ["get", "list", "watch"]}])])
    inboxes = {o["metadata"]["name"]: (o["kind"], o["rules"]) for o in found if o["metadata"]["name"].startswith("monokube-inbox")}
    published = {"apiGroups": ["networking.monokube.io"], "resources": ["publishedclusters", "publishednodes", "publishedservices"]}
    expect("rights in inboxes", inboxes, {
        "monokube-inbox-writer": ("ClusterRole", [dict(published, verbs=["get", "list", "watch", "create", "update", "patch", "delete"])]),
        "monokube-inbox-reader": ("ClusterRole", [dict(published, verbs=["list", "watch"])])})
    roles = {o["metadata"].get("namespace", ""): o for o in found
             if o["kind"] in ("ClusterRole", "Role") and o not in readers and o["metadata"]["name"] not in inboxes}
    expect("namespaces of the rights", sorted(roles), [""] + names)
    agent = [{"kind": "ServiceAccount", "name": "monokube", "namespace": "kube-system"}]
    for binding in [o for o in found if o["kind"] in ("ClusterRoleBinding", "RoleBinding")]:
        role = roles[binding["metadata"].get("namespace", "")]
        expect("binding", (binding["subjects"], binding["roleRef"]), (agent, {
            "apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": role["metadata"]["name"]}))
    rules = {k: {(verb, g + "/" + r) for rule in o["rules"] for verb in rule["verbs"] for g in rule["apiGroups"] for r in rule["resources"]}
             for k, o in roles.items()}
    asked = peer_requests()
    expect("granted, never asked for", {k: rules[k] - asked[k] for k in rules if rules[k] - asked[k]}, {})
    expect("asked for, not granted", {k: asked[k] - rules[k] for k in rules if asked[k] - rules[k]}, {})


def peer_requests():
    """The verbs that the client, which leads, asks for beyond the ClusterRole of all agents, by namespace ("": any)."""
    asked = {"": set(), "monokube-peers": set(), "monokube-published": set()}
    for options in ((), ("--no-streaming",)):
        server = Server(*options)
        t_leader.add_web(server, "10.244.1.5")
        t_leader.add_export(server, "front")
        east = t_peer_apis.peer_server()
        t_peer_apis.add_secret(server, t_peer_apis.secret_of(east))
        t_leader.add_peer(server, "east", podCidr="240.0.0.0/16", secretName="peer-east")
        t_leader.add_peer(server, "hub", accept="Transit")
        t_leader.show_cluster(server, "north")
        client = t_leader.leads(t_leader.start(server))
        wait("slices", lambda: t_leader.addresses(server) == ["10.244.1.5", "240.0.3.9"])
        wait("statuses", lambda: server.asked("/front/status", fieldManager="monokube") and server.asked("serviceimports/front/status"))
        wait("the peer's status", lambda: server.asked("clusterpeers/east/status"))
        wait("a renewal", lambda: [e for e in t_leader.of_lease(server) if e["method"] == "PUT"])
        t_leader.has("the introduced peer", server, t_leader.PEERS, ["east", "hub", "north"])
        server.done("DELETE", t_leader.PEERS + "/hub")
        t_leader.has("peers", server, t_leader.PEERS, ["east"])
        server.done("DELETE", t_leader.PUBLISHED % ("monokube-peers", "clusters") + "/north")
        for path in ("serviceexports/front",):
            server.done("DELETE", t_leader.MCS + path)
        server.done("DELETE", t_leader.PEERS + "/east")
        for space, kind in (("monokube-published", "nodes"), ("monokube-peers", "clusters"), ("monokube-peers", "nodes"), ("monokube-peers", "services")):
            t_leader.has("the end", server, t_leader.PUBLISHED % (space, kind), [])
        wait("no slices", lambda: not t_leader.addresses(server))
        client.stop()
        for e in server.log():
            right = verb_of(e)
            space = re.search("/namespaces/(monokube-[a-z]+)/", e["path"])
            if e["agent"] == "monokube" and right not in granted() and right[0] + right[1] not in ("get/version",):
                asked[space[1] if space else ""].add(right)
        server.stop()
    return {k: v | {("create", x) for verb, x in v if verb == "patch" and not x.endswith("/status")} for k, v in asked.items()}


def peers_policy():
    """the admission policy is about the slices that the ClusterRole lets the agent write, and about this account"""
    policy, binding = read(PEERS_POLICY)
    account = objects()["ServiceAccount"]["metadata"]
    expect("policy", binding["spec"]["policyName"], policy["metadata"]["name"])
    rule = policy["spec"]["matchConstraints"]["resourceRules"][0]
    expect("requests", (rule["resources"], rule["operations"]), (["endpointslices"], ["CREATE", "UPDATE", "DELETE"]))
    role = next(o for o in read(PEERS) if o["kind"] == "ClusterRole")
    expect("verbs", [r["verbs"] for r in role["rules"] if r["resources"] == ["endpointslices"]], [["create", "patch", "delete"]])
    expect("whose requests", policy["spec"]["matchConditions"][0]["expression"],
           "request.userInfo.username == 'system:serviceaccount:%s:%s'" % (account["namespace"], account["name"]))
    label = {"endpointslice.kubernetes.io/managed-by": "monokube.io"}
    for text in [repr(x) for x in label] + [repr(label["endpointslice.kubernetes.io/managed-by"]), "'kubernetes.io/service-name'"]:
        expect(text, text in str([v["expression"] for v in policy["spec"]["variables"] + policy["spec"]["validations"]]).replace('\\', ''), True)


MCS_GOOD = {
    "ServiceExport": {"spec": {"exportedLabels": {"a": "b"}}},
    "ServiceImport": {"spec": {"type": "ClusterSetIP", "ips": ["247.254.0.7", "fd6d:6b63:7300::7"], "ports": [{"name": "http", "port": 80}],
                               "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}}},
}


def mcs_resources():
    """ServiceExports and ServiceImports have the standard's names and both versions with one schema; users may export, not import"""
    found = read(MCS)
    for crd in (o for o in found if o["kind"] == "CustomResourceDefinition"):
        spec, kind = crd["spec"], crd["spec"]["names"]["kind"]
        expect("name", crd["metadata"]["name"], "%s.multicluster.x-k8s.io" % spec["names"]["plural"])
        expect("versions", [(v["name"], v["served"], v["storage"]) for v in spec["versions"]], [("v1beta1", True, True), ("v1alpha1", True, False)])
        expect("one schema", spec["versions"][0]["schema"], spec["versions"][1]["schema"])
        expect("structural", is_structural(schema.of_kinds()[kind]), True)
        obj = dict(MCS_GOOD[kind], apiVersion="multicluster.x-k8s.io/v1beta1", kind=kind, metadata={"name": "web", "namespace": "shop"})
        expect("faults of a good %s" % kind, schema.faults(obj, schema.of_kinds()[kind]), [])
    edit, view = (o for o in found if o["kind"] == "ClusterRole")
    expect("may edit", [rule["resources"] for rule in edit["rules"]], [["serviceexports"]])
    expect("may view", [(rule["resources"], rule["verbs"]) for rule in view["rules"]], [(["serviceexports", "serviceimports"], ["get", "list", "watch"])])


# ---- rights

VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}
TARGET = re.compile(r"^/(?:api/v1|apis/([^/]+)/[^/]+)(?:/namespaces/[^/]+)?/([a-z]+)(?:/([^/]+)(?:/([a-z]+))?)?$")


# The Corefile of kubeadm, as `kubectl get configmap coredns -o yaml` prints it.
KUBEADM_COREFILE = """data:
  Corefile: |
    .:53 {
        ready
        kubernetes cluster.local in-addr.arpa ip6.arpa {
           pods insecure
           fallthrough in-addr.arpa ip6.arpa
           ttl 30
        }
        forward . /etc/resolv.conf {
           max_concurrent 1000
        }
    }
"""


def corefile():
    """CLUSTERS.md, Names: its command lets kubeadm's Corefile answer clusterset.local, and cluster.local as before"""
    with open(os.path.join(ROOT, "manifests/CLUSTERS.md"), encoding="utf-8") as file:
        page = file.read()
    script = re.search(r"sed -E '(s/\^.*clusterset.local.*)' \|", page).group(1)
    changed = subprocess.run(["sed", "-E", script], input=KUBEADM_COREFILE, capture_output=True, text=True, check=True).stdout
    expect("changed lines", [line.strip() for line in changed.splitlines() if "clusterset" in line],
           ["kubernetes cluster.local clusterset.local in-addr.arpa ip6.arpa {", "multicluster clusterset.local"])
    expect("data", list(yaml.safe_load(changed)["data"]), ["Corefile"])
    expect("the rest", [line for line in changed.splitlines() if "clusterset" not in line],
           [line for line in KUBEADM_COREFILE.splitlines() if "kubernetes" not in line])


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
        for node in server.done("GET", "/api/v1/nodes")["items"]:  # it is this node's turn to write statuses
            if node["metadata"]["name"] != "worker-1":
                server.done("DELETE", "/api/v1/nodes/" + node["metadata"]["name"])
        server.done("POST", "/apis/networking.monokube.io/v1alpha1/namespaces/%s/servicefunctionchains" % chain()["metadata"]["namespace"], chain())
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
            "/pods", "/namespaces", "/networkpolicies", "/clusternetworkpolicies", "/servicefunctionchains")))
        wait("the chain", lambda: any(line.startswith("chain ") for line in client.dump()))
        client.wants("s")
        wait("the status of the chain", lambda: server.asked("/%s/status" % chain()["metadata"]["name"]))
        client.stop()
        asked |= {verb_of(e) for e in server.log() if e["agent"] == "monokube"}
        server.stop()
    checks = {(verb, "policy.networking.k8s.io/" + what) for verb in ("list", "watch") for what in (
        "adminnetworkpolicies", "baselineadminnetworkpolicies")}  # `monokube check`: t_policies.py
    expect("granted, never asked for", granted() - asked - checks, set())
    expect("asked for, not granted", asked - granted(), set())


# ---- kubectl


def kubectl_of(server):
    """A function that runs kubectl. An error is Wrong, with kubectl's text."""
    def kubectl(*arguments, stdin=None):
        done = subprocess.run(["kubectl", "--kubeconfig", server.dir + "/kubeconfig", *arguments], capture_output=True,
                              text=True, timeout=60, check=False, input=stdin)
        if done.returncode:
            raise Wrong("kubectl %s: %s" % (" ".join(arguments), done.stderr))
        return done.stdout.splitlines()
    return kubectl


def kubectl_takes_them():
    """kubectl apply: as a dry run, in earnest, by the kustomization, which changes nothing then"""
    kubectl = kubectl_of(Server(recorded=False))
    count = len(read(MANIFEST))
    expect("a dry run", [x.split()[1:] for x in kubectl("apply", "--dry-run=client", "-f", MANIFEST)], [["created", "(dry", "run)"]] * count)
    expect("in earnest", [x.split()[1] for x in kubectl("apply", "-f", MANIFEST)], ["created"] * count)
    expect("kustomization", [x.split()[1] for x in kubectl("apply", "-k", os.path.dirname(MANIFEST))], ["unchanged"] * count)


def kubectl_takes_chains():
    """kubectl applies the chain of the examples; its defaults are filled in, a wrong one and an unknown field are refused"""
    kubectl = kubectl_of(Server(recorded=False))
    expect("resources", [x.split()[1] for x in kubectl("apply", "-f", CHAINS)], ["created"] * 3)
    kubectl("apply", "-f", "-", stdin=yaml.dump(chain()))
    path = "{.spec.takeOpenFlows} {.spec.functions[*].hashBy} {.spec.functions[*].tap}"
    expect("defaults", kubectl("get", "sfc", "-n", "inspection", "shop-egress", "-o", "jsonpath=" + path),
           ["true Flow Flow false false"])
    for wrong, why in ((chain(peer={"outside": True, "ipBlock": BLOCK}), "a peer is of one kind"), (with_ends(), "ends do not replace traffic"),
                       (chain(**{"spec.via": {}}), 'unknown field "spec.via"')):
        try:
            kubectl("apply", "-f", "-", stdin=yaml.dump(wrong))
        except Wrong as refused:
            expect("%s in %s" % (why, refused), why in str(refused), True)
        else:
            raise Wrong("%s is taken" % wrong["spec"])


def kubectl_takes_peers():
    """kubectl applies the resources of other clusters and an object of each; a wrong one and an unknown field are refused"""
    kubectl = kubectl_of(Server(recorded=False))
    expect("resources", [x.split()[1] for x in kubectl("apply", "-f", PEERS)], ["created"] * len(read(PEERS)))
    for kind in GOOD:
        kubectl("apply", "-f", "-", stdin=yaml.dump(of_peers(kind)))
    kubectl("apply", "-f", "-", stdin=yaml.dump(of_peers("ClusterPeer", called="north", access=None)))
    for wrong, why in ((of_peers("ClusterPeer", mtu=1), "mtu is 0, or at least 1280"), (of_peers("ClusterPeer", secret="a"), "secret")):
        try:
            kubectl("apply", "-f", "-", stdin=yaml.dump(wrong))
        except Wrong as refused:
            expect("%s in %s" % (why, refused), why in str(refused), True)
        else:
            raise Wrong("%s is taken" % wrong["spec"])
    expect("default", kubectl("get", "clusterpeers", "north", "-o", "jsonpath={.spec.access}"), ["Exports"])


def kustomization():
    """the kustomization has the manifest"""
    tree = read(os.path.join(os.path.dirname(MANIFEST), "kustomization.yaml"))[0]
    expect("kind", (tree["apiVersion"], tree["kind"]), ("kustomize.config.k8s.io/v1beta1", "Kustomization"))
    expect("resources", tree["resources"], [os.path.basename(MANIFEST)])


TESTS = [fields, names_meet, own_node_policy, settings_exist, as_promised, kustomization, chain_schema, ends_schema, chain_resource,
         peers_schema, peer_resources, peers_policy, mcs_resources, corefile, rights]

if shutil.which("kubectl"):  # no Debian package: without it this test is not part of the plan
    TESTS += [kubectl_takes_them, kubectl_takes_chains, kubectl_takes_peers]
else:
    print("# kubectl is not installed: it is not tested")

if __name__ == "__main__":
    sys.exit(run(TESTS))

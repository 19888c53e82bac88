#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/e2e/apiserver/t_real_rules.py [PART OF A NAME...] - the manifests on a real API server: they apply, each rule of
a schema refuses what breaks it, and each admission policy holds."""
import json
import os
import sys

sys.dont_write_bytecode = True
from real import ACCOUNT, ROOT, RealServer  # noqa: E402
from harness import TOKEN, Wrong, expect, run, wait  # noqa: E402
import t_manifests  # noqa: E402

OPTIONAL = ["own-node-status.yaml", "peers-admission.yaml"]
ALL = ["monokube.yaml", "chains.yaml", "multicluster.yaml", "mcs.yaml"] + OPTIONAL
SFC = "/apis/networking.monokube.io/v1alpha1/namespaces/%s/servicefunctionchains"


def path_of(name):
    return os.path.join(ROOT, "manifests", name)


def words(text):
    return {line.split()[1] for line in text.splitlines()}


def applied():
    """kubectl applies all manifests twice, also by server-side apply, and the second time changes nothing"""
    server = RealServer(recorded=False, manifests=[])
    for name in ALL:
        expect(name, words(server.kubectl("apply", "-f", path_of(name))), {"created"})
        expect(name + ", again", words(server.kubectl("apply", "-f", path_of(name))), {"unchanged"})
    other = RealServer(recorded=False, manifests=[])
    for name in ALL:
        for _ in range(2):
            expect(name + ", by the server", words(other.kubectl("apply", "--server-side", "-f", path_of(name))), {"serverside-applied"})
    for one in (server, other):
        one.established(ALL)
        for crd in one.done("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]:
            conditions = {c["type"]: c["status"] for c in crd["status"]["conditions"]}
            wrong = {k: v for k, v in conditions.items() if v != ("False" if k in ("NonStructuralSchema", "Terminating") else "True")}
            expect("conditions of %s" % crd["metadata"]["name"], wrong, {})


def refusal(server, obj, method="POST", name=""):
    """What the server says of @obj, or Wrong if it takes it; nothing is stored."""
    space = obj["metadata"].get("namespace")
    plural = obj["kind"].lower() + "s"
    path = "/apis/%s/%s%s%s?dryRun=All&fieldValidation=Strict" % (
        obj["apiVersion"], "namespaces/%s/" % space if space else "", plural, "/" + name if name else "")
    status, answer = server.request(method, path, obj)
    if status in (200, 201):
        raise Wrong("taken: %s" % obj["spec"])
    return answer["message"]


def taken(server, obj):
    try:
        raise Wrong("refused: %s" % refusal(server, obj))
    except Wrong as e:
        if not str(e).startswith("taken: "):
            raise


OWN_WORDS = ("should", "supported", "must be of", "Required", "Duplicate")  # of the stand-in, for what the schema refuses


def breaks(server, obj, at, why):
    """The server refuses @obj for @why, if that is a rule's message, and names the field @at."""
    said = refusal(server, obj)
    rule = not why.startswith(OWN_WORDS)
    if at.rpartition(".")[2] not in said or (rule and why not in said):
        raise Wrong("%s: refused with: %s; expected %s: %s" % (obj["spec"], said, at, why))


def chains():
    """each rule of chains refuses what breaks it, with its message; the examples and CIDRs of both families are taken"""
    server = RealServer(recorded=False, manifests=["chains.yaml"])
    server.request("POST", "/api/v1/namespaces", {"metadata": {"name": "inspection"}})
    good = [t_manifests.chain(), t_manifests.with_ends(), t_manifests.chain(function={"name": "a", "tap": True}),
            t_manifests.chain(**{"spec.traffic": {"service": "web", "peers": [{"outside": True}]}})]
    for obj in good:
        taken(server, obj)
    for rows, make in ((t_manifests.BROKEN, t_manifests.chain), (t_manifests.BROKEN_ENDS, t_manifests.with_ends)):
        for path, value, at, why in rows:
            breaks(server, make(**{path: value}), at, why)
    for is_good, cidrs in t_manifests.CIDRS.items():
        for cidr in cidrs:
            (taken if is_good else refusal)(server, t_manifests.peer_of(cidr))
    said = refusal(server, t_manifests.chain(**{"spec.via": {}}))
    expect("an unknown field", 'unknown field "spec.via"' in said, True)


def chains_change():
    """defaults are filled in, what is unknown is pruned, and neither of traffic and ends replaces the other one"""
    server = RealServer(recorded=False, manifests=["chains.yaml"])
    obj = t_manifests.chain(**{"spec.via": {"a": 1}, "function": {"name": "firewall"}})
    path = SFC % obj["metadata"]["namespace"]
    made = server.done("POST", path, obj)["spec"]
    expect("defaults", (made["takeOpenFlows"], made["priority"], made["functions"][0]),
           (True, 0, {"name": "firewall", "hashBy": "Flow", "localWeight": 16, "tap": False}))
    expect("pruned", "via" in made, False)
    path += "/" + obj["metadata"]["name"]
    why = "ends do not replace traffic, nor traffic ends: make a new chain"
    status, answer = server.request("PATCH", path, {"spec": {"traffic": None, "ends": t_manifests.ENDS}}, "application/merge-patch+json")
    expect("%s in %s" % (why, answer), (status, why in answer["message"]), (422, True))
    server.patch(path, {"spec": {"traffic": {"direction": "Both"}}})


def peers():
    """the same for the resources of other clusters"""
    server = RealServer(recorded=False, manifests=["multicluster.yaml"])
    for kind in t_manifests.GOOD:
        taken(server, t_manifests.of_peers(kind))
    taken(server, t_manifests.of_peers("ClusterPeer", called="north", access=None))
    for kind, field, value, at, why in t_manifests.BROKEN_PEERS:
        breaks(server, t_manifests.of_peers(kind, **{field: value}), at, why)
    for why, obj in (("the name is the clusterName", t_manifests.of_peers("ClusterPeer", called="a.b", via=None)),
                     ("publishTo needs secretName", t_manifests.of_peers("ClusterPeer", publishTo=True, secretName=None))):
        breaks(server, obj, "", why)


def imports():
    """ServiceExports and ServiceImports of both versions are taken, and each version shows those of the other one"""
    server = RealServer(recorded=False, manifests=["mcs.yaml"])
    server.request("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
    for number, version in enumerate(("v1beta1", "v1alpha1")):
        for kind, good in t_manifests.MCS_GOOD.items():
            path = "/apis/multicluster.x-k8s.io/%s/namespaces/shop/" + kind.lower() + "s"
            obj = dict(good, apiVersion="multicluster.x-k8s.io/" + version, kind=kind, metadata={"name": "web%d" % number, "namespace": "shop"})
            server.done("POST", path % version, obj)
            other = server.done("GET", path % {"v1beta1": "v1alpha1", "v1alpha1": "v1beta1"}[version] + "/web%d" % number)
            expect("%s of %s" % (kind, version), other["spec"], good["spec"])


def columns():
    """`kubectl get` shows the columns of the manifests"""
    server = RealServer(recorded=False)
    server.add(dict(t_manifests.of_peers("ClusterPeer"), status={"conditions": []}))
    server.request("POST", "/api/v1/namespaces", {"metadata": {"name": "inspection"}})
    server.add(t_manifests.chain())
    for what, want in (("clusterpeers", "NAME PODS AS VIA PATH ACCESS NODES ANSWER READY AGE"), ("sfc", "NAMESPACE NAME FUNCTIONS READY AGE")):
        expect(what, server.kubectl("get", what, "-A").splitlines()[0].split(), want.split())


# ---- admission policies


def answer_of(server, user, method, path, body=None, kind="application/json"):
    """The status, and the message if it is an error."""
    status, text = server.exchange(method, path, body, kind, token=user)
    return status, "" if status < 300 else json.loads(text)["message"]


def denies(server, why, user, method, path, body=None, kind="application/json"):
    """The policy refuses this within a bound: the server follows policies a moment later."""
    wait("denied: %s %s as %s" % (method, path, user), lambda: answer_of(server, user, method, path, body, kind)[0] in (403, 422))
    expect("why", answer_of(server, user, method, path, body, kind)[1].partition("denied request: ")[2], why)


def allows(server, user, method, path, body=None, kind="application/json"):
    status, why = answer_of(server, user, method, path, body, kind)
    expect("%s %s as %s: %s" % (method, path, user, why), status < 300, True)


def own_node():
    """own-node-status.yaml: an agent changes the status of its own Node, and of no other; others are not concerned"""
    server = RealServer(manifests=["monokube.yaml", "own-node-status.yaml"])
    body = {"status": {"conditions": [{"type": "NetworkUnavailable", "status": "False"}]}}
    path, kind = "/api/v1/nodes/%s/status", "application/strategic-merge-patch+json"
    why = "an agent of monokube may change the status of its own Node only"
    denies(server, why, ACCOUNT + "@worker-1", "PATCH", path % "worker-2", body, kind)
    denies(server, why, ACCOUNT, "PATCH", path % "worker-1", body, kind)
    allows(server, ACCOUNT + "@worker-1", "PATCH", path % "worker-1", body, kind)
    allows(server, TOKEN, "PATCH", path % "worker-2", body, kind)
    status, why = answer_of(server, ACCOUNT + "@worker-1", "PATCH", "/api/v1/nodes/worker-1", {"spec": {"unschedulable": True}}, kind)
    expect("the Node itself: " + why, status, 403)


MANAGED = "endpointslice.kubernetes.io/managed-by"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"


def slice_of(name, **labels):
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": [],
            "metadata": {"name": name, "namespace": "shop", "labels": {k.replace("_", "/"): v for k, v in labels.items()}}}


def slices():
    """peers-admission.yaml: an agent writes slices of ServiceImports, and no others; others are not concerned"""
    server = RealServer(recorded=False, manifests=["monokube.yaml", "multicluster.yaml", "peers-admission.yaml"])
    service = {"kubernetes.io/service-name": "web"}
    ours = slice_of("ours", **{MANAGED: "monokube.io"})
    server.add(slice_of("foreign", **{MANAGED: "endpointslice-controller.k8s.io"}, **service))
    server.add(slice_of("bare"))
    theirs = "an agent of monokube may change and delete only EndpointSlices that monokube manages"
    only = "an agent of monokube may write only EndpointSlices of ServiceImports"
    merge, labels = "application/merge-patch+json", lambda **x: {"metadata": {"labels": x}}
    denies(server, only, ACCOUNT, "POST", SLICES, slice_of("new"))
    denies(server, only, ACCOUNT, "POST", SLICES, slice_of("new", **{MANAGED: "monokube.io"}, **service))
    denies(server, only, ACCOUNT, "POST", SLICES, slice_of("new", **{MANAGED: "me"}))
    allows(server, ACCOUNT, "POST", SLICES, ours)
    apply = SLICES + "/applied?fieldManager=monokube&force=true"
    allows(server, ACCOUNT, "PATCH", apply, slice_of("applied", **{MANAGED: "monokube.io"}), "application/apply-patch+yaml")
    denies(server, only, ACCOUNT, "PATCH", SLICES + "/ours", labels(**service), merge)
    denies(server, only, ACCOUNT, "PATCH", SLICES + "/ours", labels(**{MANAGED: None}), merge)
    for name in ("foreign", "bare"):
        denies(server, theirs, ACCOUNT, "PATCH", SLICES + "/" + name, labels(**{MANAGED: "monokube.io"}), merge)
        denies(server, theirs, ACCOUNT, "DELETE", SLICES + "/" + name)
    allows(server, ACCOUNT, "DELETE", SLICES + "/ours")
    allows(server, TOKEN, "DELETE", SLICES + "/foreign")
    expect("what is left", sorted(s["metadata"]["name"] for s in server.done("GET", SLICES)["items"]), ["applied", "bare"])


if __name__ == "__main__":
    sys.exit(run([applied, chains, chains_change, peers, imports, columns, own_node, slices]))

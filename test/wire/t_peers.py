#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/wire/t_peers.py [PART OF A NAME...] - the API client and the objects of other clusters: followed while they
are wanted, CRDs that come and go, access denied, objects that make no sense."""
import sys

sys.dont_write_bytecode = True
from harness import Follow, Server, Wrong, expect, run, wait  # noqa: E402

GROUP = "networking.monokube.io"
MCS = "multicluster.x-k8s.io"
API = "/apis/%s/v1alpha1/" % GROUP
PEERS, LABEL = API + "clusterpeers", GROUP + "/cluster"
PUBLISHED = API + "namespaces/%s/published%s"
KINDS = ("peer ", "cluster ", "far node ", "export ")
ALL = "policies yes, pods yes, functions yes, peers yes"


def make(kind, name, spec, namespace=None):
    labels = {LABEL: name.split(".")[0]} if namespace else {}
    return {"apiVersion": GROUP + "/v1alpha1", "kind": kind, "spec": spec,
            "metadata": dict({"name": name, "labels": labels}, **({"namespace": namespace} if namespace else {}))}


def add_peer(server, name, **spec):
    server.done("POST", PEERS, make("ClusterPeer", name, spec))


def publish(server, name, namespace="monokube-peers", **spec):
    server.done("POST", PUBLISHED % (namespace, "clusters"), make("PublishedCluster", name, dict(
        {"name": name, "podCidr": "10.244.0.0/16", "wireVersions": [1]}, **spec), namespace))


def publish_node(server, name, address, namespace="monokube-peers", **spec):
    server.done("POST", PUBLISHED % (namespace, "nodes"), make("PublishedNode", name, dict(
        {"node": name.split(".", 1)[1], "addresses": [address]}, **spec), namespace))


def start(server, letters, *args):
    client = Follow(server, "--node", "worker-1", *args, "--wants").listed()
    known(client)  # of nothing
    client.lines.clear()
    client.wants(letters)
    return client


def known(client):
    wait("all lists", lambda: client.alive() and [x for x in client.lines if x.startswith("known")][-1:] == ["known: " + ALL])


def holds(client, *lines):
    """Exactly these objects of other clusters."""
    def have():
        return sorted(line for line in client.dump() if line.startswith(KINDS) or ".clusterset " in line)
    try:
        wait("the objects", lambda: client.alive() and have() == sorted(lines))
    except Wrong:
        raise Wrong("have %s, expected %s" % (have(), sorted(lines))) from None


def nothing_is_wanted():
    """without clusterName, none of the resources is asked for"""
    server = Server()
    client = start(server, "")
    client.converged()
    for path in ("clusterpeers", "publishedclusters", "publishednodes", "serviceimports", "serviceexports"):
        expect(path, server.asked(path), [])


def peers():
    """objects come, change and go; only those in monokube-peers are asked for; no longer wanted they vanish"""
    server = Server()
    add_peer(server, "east", podCidr="240.0.0.0/16")
    publish(server, "east")
    publish(server, "east", "elsewhere", number=7)
    client = start(server, "c")
    holds(client, "peer east 240.0.0.0/16", "cluster east 0 10.244.0.0/16")
    known(client)
    publish_node(server, "east.n1", "192.0.2.1")
    publish_node(server, "east.n2", "192.0.2.2", "elsewhere")
    holds(client, "peer east 240.0.0.0/16", "cluster east 0 10.244.0.0/16", "far node east.n1 192.0.2.1")
    server.patch(PEERS + "/east", {"spec": {"access": "Pods"}})
    server.patch(PUBLISHED % ("monokube-peers", "clusters/east"), {"spec": {"number": 9}})
    server.patch(PUBLISHED % ("monokube-peers", "nodes/east.n1"), {"spec": {"addresses": ["192.0.2.9"]}})
    holds(client, "peer east 240.0.0.0/16 pods", "cluster east 9 10.244.0.0/16", "far node east.n1 192.0.2.9")
    server.done("DELETE", PUBLISHED % ("monokube-peers", "nodes/east.n1"))
    holds(client, "peer east 240.0.0.0/16 pods", "cluster east 9 10.244.0.0/16")
    client.wants("d")
    holds(client)
    client.wants("c")
    holds(client, "peer east 240.0.0.0/16 pods", "cluster east 9 10.244.0.0/16")
    expect("other namespaces", server.asked("elsewhere"), [e for e in server.asked("elsewhere") if e["agent"] != "monokube"])


def one_that_makes_no_sense():
    """it keeps its former version; the schema of the resource does not know all rules"""
    server = Server()
    add_peer(server, "east", podCidr="240.0.0.0/16")
    publish_node(server, "east.n1", "192.0.2.1")
    client = start(server, "c")
    holds(client, "peer east 240.0.0.0/16", "far node east.n1 192.0.2.1")
    server.patch(PUBLISHED % ("monokube-peers", "nodes/east.n1"), {"spec": {"addresses": ["127.0.0.1"]}})
    client.logs("skipped: PublishedNode monokube-peers/east.n1: spec.addresses[0]: value ")
    server.patch(PEERS + "/east", {"spec": {"podCidr": "240.0.0.0/99"}})
    client.logs("skipped: ClusterPeer east: spec.podCidr: value ")
    publish_node(server, "east.n2", "192.0.2.2")
    holds(client, "peer east 240.0.0.0/16", "far node east.n1 192.0.2.1", "far node east.n2 192.0.2.2")


def crds_come_and_go():
    """without the CRDs there are no peers; they come later, go, and come again"""
    server = Server()
    server.settings(missing=[GROUP])
    client = start(server, "c", "--absent-ms", "500")
    known(client)
    client.logs("info ClusterPeers: not read: ")
    server.settings(missing=[])
    add_peer(server, "east", podCidr="240.0.0.0/16")
    holds(client, "peer east 240.0.0.0/16")
    server.settings(missing=[GROUP])
    server.done("POST", "/standin/cut")
    holds(client)
    server.settings(missing=[])
    holds(client, "peer east 240.0.0.0/16")


def denied():
    """without multicluster.yaml's roles there are no peers, and the rest goes on"""
    server = Server()
    add_peer(server, "east", podCidr="240.0.0.0/16")
    publish_node(server, "east.n1", "192.0.2.1")
    server.faults({"match": {"target": "publishednodes"}, "recording": "error-403-list", "times": 1000})
    client = start(server, "c", "--absent-ms", "500")
    known(client)
    client.logs("info PublishedNodes: not read: ")
    holds(client, "peer east 240.0.0.0/16")
    server.faults()
    holds(client, "peer east 240.0.0.0/16", "far node east.n1 192.0.2.1")


def imports_and_exports():
    """they come, change and go, as objects of the clusterset; a server without v1beta1 is asked for v1alpha1"""
    for version, other, streaming in (("v1beta1", "v1alpha1", True), ("v1alpha1", "v1beta1", True), ("v1alpha1", "v1beta1", False)):
        server = Server()
        server.settings(versions={MCS: version}, streaming=streaming)
        path = "/apis/%s/%s/namespaces/shop/" % (MCS, version)
        meta = {"name": "web", "namespace": "shop"}
        server.done("POST", path + "serviceexports", {"apiVersion": MCS + "/" + version, "kind": "ServiceExport", "metadata": meta})
        client = start(server, "c")
        server.done("POST", path + "serviceimports", {"apiVersion": MCS + "/" + version, "kind": "ServiceImport", "metadata": meta, "spec": {
            "type": "ClusterSetIP", "ips": ["247.254.0.7"], "ports": [{"port": 80}]}})
        holds(client, "export shop/web", "service shop/web.clusterset 247.254.0.7 - [80/tcp/0] ")
        server.patch(path + "serviceimports/web", {"spec": {"ips": ["247.254.0.8"]}})
        holds(client, "export shop/web", "service shop/web.clusterset 247.254.0.8 - [80/tcp/0] ")
        server.patch(path + "serviceimports/web", {"metadata": {"annotations": {"networking.monokube.io/prefer": "east"}}})
        holds(client, "export shop/web", "service shop/web.clusterset 247.254.0.8 - [80/tcp/0]  prefers east")
        server.done("DELETE", path + "serviceexports/web")
        server.done("DELETE", path + "serviceimports/web")
        holds(client)
        asked = {e["path"].split("/")[3] for e in server.asked("serviceexports", watch="1") if e["status"] != 404}
        expect("watched versions", asked, {version})
        expect("asked for the other one", bool(server.asked(other + "/serviceexports")), version == "v1alpha1")
        client.stop()
        server.stop()


def the_other_version_takes_over():
    """a server that no longer serves the version that is read loses no object"""
    server = Server()
    server.settings(versions={MCS: "v1alpha1"})
    server.done("POST", "/apis/%s/v1alpha1/namespaces/shop/serviceexports" % MCS, {
        "apiVersion": MCS + "/v1alpha1", "kind": "ServiceExport", "metadata": {"name": "web", "namespace": "shop"}})
    client = start(server, "c")
    holds(client, "export shop/web")
    server.settings(versions={MCS: "v1beta1"})
    server.done("POST", "/standin/cut")
    wait("the other version", lambda: [e for e in server.asked("v1beta1/serviceexports", watch="1") if e["status"] != 404])
    holds(client, "export shop/web")
    expect("gone meanwhile", [x for x in client.lines if x.startswith("policy shop/web")][1:], [])


if __name__ == "__main__":
    sys.exit(run([nothing_is_wanted, peers, one_that_makes_no_sense, crds_come_and_go, denied, imports_and_exports,
                  the_other_version_takes_over]))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/wire/t_leader.py [PART OF A NAME...] - one agent leads: the Lease, what it publishes, ServiceImports and slices, who
leads when the leader dies, a server that refuses, half lists."""
import sys

sys.dont_write_bytecode = True
from harness import Follow, Server, Wrong, expect, run, wait  # noqa: E402
from objects import add_service, add_slice  # noqa: E402
from t_peers import GROUP, LABEL, PEERS, PUBLISHED, add_peer, make, publish, publish_node  # noqa: E402

MCS = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/monokube-peers/leases/monokube-peers"
OURS = "app.kubernetes.io/managed-by"
SHORT = ("--lease-s", "3", "--renew-ms", "400", "--write-ms", "1500")
MANY_S = 60


def start(server, node="worker-1", *args):
    return Follow(server, "--node", node, "--cluster", "west", *SHORT, *args).listed()


def leads(client):
    wait("leadership", lambda: client.alive() and [x for x in client.lines if x in ("leads", "follows")][-1:] == ["leads"], MANY_S)
    return client


def add_namespace(server, name):
    server.done("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def add_export(server, name, namespace="shop"):
    server.done("POST", "/apis/multicluster.x-k8s.io/v1beta1/namespaces/%s/serviceexports" % namespace, {
        "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport",
        "metadata": {"name": name, "namespace": namespace}})


def add_web(server, *addresses):
    add_namespace(server, "shop")
    add_service(server, "front")
    add_slice(server, "front-abc12", "front", *addresses)


def export_of_east(server, *addresses, name="web"):
    """What east publishes of a Service of its own."""
    add_peer(server, "east", podCidr="240.0.0.0/16")
    publish(server, "east")
    publish_service(server, "shop", name, *addresses)


def publish_service(server, namespace, name, *addresses):
    server.done("POST", PUBLISHED % ("monokube-peers", "services"), make("PublishedService", "east.%s.%s" % (namespace, name), {
        "namespace": namespace, "name": name, "type": "ClusterSetIP", "exported": "2026-01-01T00:00:00Z", "part": 0, "parts": 1,
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        "slices": [{"name": "web-1", "addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
                    "endpoints": [{"addresses": [a], "conditions": {"ready": True}} for a in addresses]}]}, "monokube-peers"))


def names(server, path):
    return sorted(o["metadata"]["name"] for o in server.done("GET", path)["items"])


def has(what, server, path, want):
    try:
        wait(what, lambda: names(server, path) == want, MANY_S)
    except Wrong:
        raise Wrong("%s: have %s, expected %s" % (what, names(server, path), want)) from None


def addresses(server, namespace="shop"):
    """The addresses of all slices of imports."""
    found = server.done("GET", (SLICES % namespace) + "?labelSelector=%s%%3Dmonokube.io" % OURS)["items"]
    return sorted(a for s in found for e in s.get("endpoints") or [] for a in e["addresses"])


def writes(server, of=""):
    return [e for e in server.log() if e["method"] in ("PATCH", "DELETE", "POST", "PUT") and e["agent"].startswith("monokube") and
            of in e["path"] and "leases" not in e["path"] and "events" not in e["path"] and "/nodes/" not in e["path"]]


def of_lease(server):
    return [e for e in server.log() if "leases" in e["path"] and e["agent"].startswith("monokube")]


ASKED = ["networking.monokube.io/v1alpha1/namespaces/%s/published%s" % (namespace, kind)
         for namespace in ("monokube-peers", "monokube-published") for kind in ("clusters", "nodes", "services")] + [
             "multicluster.x-k8s.io/v1beta1/serviceimports", "discovery.k8s.io/v1/endpointslices"]


def asks(server):
    """how often a candidate has asked whether a leader has left something, by collection"""
    found = {}
    for e in server.log():
        if e["method"] == "GET" and e["query"].get("limit") == "1" and e["agent"].startswith("monokube"):
            found[e["path"]] = found.get(e["path"], 0) + 1
    return found


def nothing_to_lead():
    """without ClusterPeers, ServiceExports and what a leader left the Lease is never asked for; each Ready node asks once for the latter"""
    server = Server()
    publish(server, "foreign", "monokube-published")  # not by a leader: it has no label
    client = start(server)
    add_web(server, "10.244.1.5")
    client.converged()
    wait("objects of peers", lambda: server.asked("serviceexports") and server.asked("clusterpeers"))
    publish(server, "east")
    publish_node(server, "east.a", "192.0.2.7")
    for follower in (client, start(server, "worker-2"), start(server, "worker-3")):
        wait("what was published", lambda c=follower: any(x.startswith("far node ") for x in c.dump()))
    expect("Lease", of_lease(server), [])
    wait("the last question of all", lambda: asks(server).get("/apis/" + ASKED[-1]) == 2)
    expect("questions", asks(server), {"/apis/" + path: 2 for path in ASKED})
    expect("Lease", of_lease(server), [])
    expect("PublishedServices", [e for e in server.asked("publishedservices") if "external" not in str(e) and "limit" not in e["query"]], [])
    expect("writes", writes(server), [])


def publishes_key(server):
    """The annotation of a Node is a part of what is published of it; one that makes no sense is not."""
    key = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

    def published():
        return server.done("GET", PUBLISHED % ("monokube-published", "nodes") + "/west.worker-1")["spec"].get("wireguard")
    expect("WireGuard of a node without key", published(), None)
    for text, want in ((key + ":51871", {"publicKey": key, "port": 51871}), ("no key", None)):
        server.patch("/api/v1/nodes/worker-1", {"metadata": {"annotations": {"networking.monokube.io/wireguard": text}}})
        wait("WireGuard " + text, lambda want=want: published() == want, MANY_S)


def publishes():
    """the leader publishes cluster, nodes and exported Services; a change is one write; unexported they go"""
    server = Server()
    add_web(server, "10.244.1.5")
    add_export(server, "front")
    client = leads(start(server))
    has("cluster", server, PUBLISHED % ("monokube-published", "clusters"), ["west"])
    nodes = ["west." + n for n in names(server, "/api/v1/nodes")]
    has("nodes", server, PUBLISHED % ("monokube-published", "nodes"), nodes)
    publishes_key(server)
    first = "/api/v1/nodes/" + names(server, "/api/v1/nodes")[0]
    server.patch(first, {"metadata": {"labels": {"networking.monokube.io/border": "true"}}})
    has("border nodes", server, PUBLISHED % ("monokube-published", "nodes"), nodes[:1])
    server.patch(first, {"metadata": {"labels": {"networking.monokube.io/border": None}}})
    has("all nodes again", server, PUBLISHED % ("monokube-published", "nodes"), nodes)
    has("Services", server, PUBLISHED % ("monokube-published", "services"), ["west.shop.front"])
    wait("import", lambda: names(server, MCS + "serviceimports") == ["front"], MANY_S)
    wait("slices", lambda: addresses(server) == ["10.244.1.5"], MANY_S)
    wait("status", lambda: any(c["type"] == "Ready" and c["status"] == "True" for c in server.done(
        "GET", MCS + "serviceexports/front").get("status", {}).get("conditions", [])), MANY_S)
    before = len(writes(server, "publishedservices"))
    server.patch(SLICES % "shop" + "/front-abc12", {"endpoints": [{"addresses": ["10.244.1.6"]}]})
    wait("the new address", lambda: addresses(server) == ["10.244.1.6"], MANY_S)
    expect("writes of one change", len(writes(server, "publishedservices")) - before, 1)
    server.patch(SLICES % "shop" + "/front-abc12", {"endpoints": [{"addresses": ["10.244.1.6"]}, {"addresses": ["192.0.2.7"]}]})
    wait("an external address", lambda: targets(server).get("192.0.2.7", "").startswith("247.255."), MANY_S)
    wait("the target here", lambda: addresses(server) == ["10.244.1.6", "192.0.2.7"], MANY_S)
    expect("range", server.done("GET", PUBLISHED % ("monokube-published", "clusters") + "/west")["spec"]["externalCidr"], "247.255.0.0/20")
    add_peer(server, "east", podCidr="240.0.0.0/16")
    server.done("DELETE", MCS + "serviceexports/front")
    has("no Services", server, PUBLISHED % ("monokube-published", "services"), [])
    has("no import", server, MCS + "serviceimports", [])
    wait("no slices", lambda: addresses(server) == [], MANY_S)
    has("nodes", server, PUBLISHED % ("monokube-published", "nodes"), nodes)
    server.done("DELETE", PEERS + "/east")
    has("no nodes", server, PUBLISHED % ("monokube-published", "nodes"), [])
    wait("a released Lease", lambda: server.done("GET", LEASE)["spec"]["holderIdentity"] == "", MANY_S)
    expect("user's slices", "front-abc12" in names(server, SLICES % "shop"), True)
    client.alive()


def targets(server):
    """the published targets that are no pods, with their external addresses"""
    found = server.done("GET", PUBLISHED % ("monokube-published", "services") + "/west.shop.front")
    return {e["target"]: e["addresses"][0] for s in found["spec"]["slices"] for e in s["endpoints"] if "target" in e}


def homes(server):
    """the published endpoints of shop/front, each with the cluster that is named, or its target"""
    found = server.done("GET", PUBLISHED % ("monokube-published", "services") + "/west.shop.front")
    return sorted((e["addresses"][0], e.get("cluster", "") or e.get("target", "")) for s in found["spec"]["slices"] for e in s["endpoints"])


def ready_message(server, path):
    return [c["message"] for c in server.done("GET", MCS + path).get("status", {}).get("conditions", []) if c["type"] == "Ready"][-1:]


def pods_of_peers():
    """an endpoint that is a peer's pod is published with cluster and home address, and read by the reader's own view"""
    server = Server()
    add_web(server, "10.244.1.5", "240.0.3.9")
    add_export(server, "front")
    client = leads(start(server))
    wait("why it is left out", lambda: "240.0.3.9" in "".join(ready_message(server, "serviceexports/front")), MANY_S)
    add_peer(server, "east", podCidr="240.0.0.0/16")
    publish(server, "east")
    wait("a pod of east", lambda: homes(server) == [("10.244.1.5", ""), ("10.244.3.9", "east")], MANY_S)
    wait("its view here", lambda: addresses(server) == ["10.244.1.5", "240.0.3.9"], MANY_S)
    server.patch(PEERS + "/east", {"spec": {"podCidr": "240.7.0.0/16"}})
    wait("no view of a peer", lambda: homes(server) == [("10.244.1.5", "")], MANY_S)
    server.patch(PEERS + "/east", {"spec": {"podCidr": "240.0.0.0/16"}})
    wait("a pod of east again", lambda: addresses(server) == ["10.244.1.5", "240.0.3.9"], MANY_S)
    server.done("DELETE", MCS + "serviceexports/front")
    wait("no slices", lambda: addresses(server) == [], MANY_S)
    publish_service(server, "shop", "web", "10.244.3.9")
    web = PUBLISHED % ("monokube-peers", "services") + "/east.shop.web"
    slices = server.done("GET", web)["spec"]["slices"]
    slices[0]["endpoints"] += [{"addresses": ["10.244.3.9"], "cluster": "north"}, {"addresses": ["10.244.1.5"], "cluster": "west"}]
    server.patch(web, {"spec": {"slices": slices}})
    wait("a pod of east alone", lambda: addresses(server) == ["240.0.3.9"], MANY_S)
    wait("why", lambda: "2 are left out in total" in "".join(ready_message(server, "serviceimports/web")), MANY_S)
    add_peer(server, "north", podCidr="240.1.0.0/16")
    publish(server, "north")
    wait("a pod of north", lambda: addresses(server) == ["240.0.3.9", "240.1.3.9"], MANY_S)
    server.patch(PEERS + "/east", {"spec": {"access": "Pods"}})
    wait("a pod here", lambda: addresses(server) == ["10.244.1.5", "240.0.3.9", "240.1.3.9"], MANY_S)
    wait("all of them", lambda: ready_message(server, "serviceimports/web") == ["the Service can be used"], MANY_S)
    server.done("DELETE", PEERS + "/north")
    wait("north is gone", lambda: addresses(server) == ["10.244.1.5", "240.0.3.9"], MANY_S)
    client.alive()


def imports():
    """what a peer publishes becomes an import and slices with views, in namespaces that exist; they go with the ClusterPeer"""
    server = Server()
    export_of_east(server, "10.244.3.9", "192.0.2.7")
    client = leads(start(server))
    has("cluster", server, PUBLISHED % ("monokube-published", "clusters"), ["west"])
    add_namespace(server, "store")
    publish_service(server, "store", "web", "10.244.3.9")
    wait("import in another namespace", lambda: writes(server, "store/serviceimports/web/status"), MANY_S)
    expect("writes without namespace", writes(server, "shop/serviceimports"), [])
    add_namespace(server, "shop")
    has("import", server, MCS + "serviceimports", ["web"])
    wait("slices", lambda: addresses(server) == ["240.0.3.9"], MANY_S)
    ips = server.done("GET", MCS + "serviceimports/web")["spec"]["ips"]
    wait("status", lambda: server.done("GET", MCS + "serviceimports/web").get("status", {}).get("clusters"), MANY_S)
    wait("the client's Service", lambda: any("shop/web.clusterset " + ips[0] in x for x in client.dump()), MANY_S)
    server.done("DELETE", PEERS + "/east")
    has("no import", server, MCS + "serviceimports", [])
    wait("no slices", lambda: addresses(server) == [], MANY_S)


def cluster_vanishes():
    """the PublishedCluster of a peer vanishes: its endpoints stay for a while, also those that come then; later they go"""
    server = Server()
    add_namespace(server, "shop")
    export_of_east(server, "10.244.3.9")
    client = leads(start(server, "worker-1", "--wants"))
    wait("slices", lambda: addresses(server) == ["240.0.3.9"], MANY_S)
    server.done("DELETE", PUBLISHED % ("monokube-peers", "clusters") + "/east")
    wait("the object is gone", lambda: not any(x.startswith("cluster east") for x in client.dump()), MANY_S)
    publish_service(server, "shop", "other", "10.244.3.8")
    has("the next import", server, MCS + "serviceimports", ["other", "web"])
    wait("its endpoint too", lambda: addresses(server) == ["240.0.3.8", "240.0.3.9"], MANY_S)
    client.wants("e")
    wait("no endpoints", lambda: addresses(server) == [], MANY_S)
    publish(server, "east")
    wait("all endpoints", lambda: addresses(server) == ["240.0.3.8", "240.0.3.9"], MANY_S)
    client.alive()


def restored():
    """what something else changes or removes is written again, and objects of others stay"""
    server = Server()
    add_namespace(server, "shop")
    export_of_east(server, "10.244.3.9")
    client = leads(start(server))
    wait("slices", lambda: addresses(server) == ["240.0.3.9"], MANY_S)
    name = next(n for n in names(server, SLICES % "shop") if n.startswith("web-east"))
    server.done("DELETE", SLICES % "shop" + "/" + name)
    wait("the slice again", lambda: addresses(server) == ["240.0.3.9"], MANY_S)
    server.patch(SLICES % "shop" + "/" + name, {"endpoints": [{"addresses": ["240.0.9.9"]}]})
    wait("its address again", lambda: addresses(server) == ["240.0.3.9"], MANY_S)
    ips = server.done("GET", MCS + "serviceimports/web")["spec"]["ips"]
    server.done("DELETE", MCS + "serviceimports/web")
    has("the import again", server, MCS + "serviceimports", ["web"])
    expect("its address", server.done("GET", MCS + "serviceimports/web")["spec"]["ips"], ips)
    server.done("POST", MCS + "serviceimports", {
        "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport", "metadata": {"name": "other", "namespace": "shop"},
        "spec": {"type": "ClusterSetIP", "ports": [{"port": 80}], "ips": ["247.254.0.9"]}})
    server.patch(PUBLISHED % ("monokube-peers", "services") + "/east.shop.web", {"spec": {"slices": []}})
    wait("no endpoints", lambda: addresses(server) == [], MANY_S)
    publish_service(server, "shop", "other", "10.244.3.9")
    client.logs("ServiceImport shop/other: not written: it has no label")
    other = server.done("GET", MCS + "serviceimports/other")
    expect("an import of another controller", (other["spec"]["ips"], other["metadata"].get("labels", {})), (["247.254.0.9"], {}))
    expect("its slices", addresses(server), [])


def two_agents():
    """one of two leads; killed, the other takes over, and nothing changes; released, at once"""
    server = Server()
    add_namespace(server, "shop")
    export_of_east(server, "10.244.3.9")
    first = leads(start(server, "worker-1"))
    second = start(server, "worker-2")
    wait("slices", lambda: addresses(server) == ["240.0.3.9"], MANY_S)
    wait("the other one's look", lambda: any(e["method"] == "GET" for e in of_lease(server)))
    expect("the second", [x for x in second.lines if x in ("leads", "follows")], [])
    has("import", server, MCS + "serviceimports", ["web"])
    wait("status", lambda: server.done("GET", MCS + "serviceimports/web").get("status", {}).get("conditions"), MANY_S)
    before = server.done("GET", MCS + "serviceimports/web")["metadata"]["resourceVersion"]
    count = len(writes(server, "serviceimports"))
    first.may_fail = True
    first.process.kill()
    leads(second)
    wait("rewritten", lambda: len(writes(server, "serviceimports")) >= count + 2, MANY_S)
    expect("import", server.done("GET", MCS + "serviceimports/web")["metadata"]["resourceVersion"], before)
    third = start(server, "worker-1")
    second.stop()
    expect("holder", server.done("GET", LEASE)["spec"]["holderIdentity"] in ("", "worker-1"), True)
    leads(third)
    expect("addresses", addresses(server), ["240.0.3.9"])


def left_behind():
    """the last ServiceExport goes while no agent leads: one that runs, or starts later, removes what is left, and leads no more"""
    server = Server()
    add_web(server, "10.244.1.5")
    add_namespace(server, "foreign")
    server.done("POST", MCS.replace("shop", "foreign") + "serviceimports", {
        "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport", "metadata": {"name": "other"},
        "spec": {"type": "ClusterSetIP", "ports": [{"port": 80}]}})
    for is_late in (True, False):
        add_export(server, "front")
        first = leads(start(server))
        second = None if is_late else start(server, "worker-2")
        wait("slices", lambda: addresses(server) == ["10.244.1.5"], MANY_S)
        first.stop()
        server.done("DELETE", MCS + "serviceexports/front")
        second = second or start(server, "worker-2")
        has("no import", server, MCS + "serviceimports", [])
        wait("no slices", lambda: addresses(server) == [], MANY_S)
        for what in ("services", "nodes", "clusters"):
            has("no " + what, server, PUBLISHED % ("monokube-published", what), [])
        wait("a released Lease", lambda: server.done("GET", LEASE)["spec"]["holderIdentity"] == "", MANY_S)
        second.stop()
    expect("another one's import", names(server, MCS.replace("shop", "foreign") + "serviceimports"), ["other"])


def add_copies(server):
    """What a leader has read at east; of these, one Service was carried by hand."""
    publish(server, "east")
    publish_node(server, "east.a", "192.0.2.7")
    publish_service(server, "shop", "web", "10.244.3.9")
    for kind, name in (("clusters", "east"), ("nodes", "east.a"), ("services", "east.shop.web")):
        labels = {OURS: "monokube.io", "networking.monokube.io/read-from": "east"}
        server.patch(PUBLISHED % ("monokube-peers", kind) + "/" + name, {"metadata": {"labels": labels}})
    publish_service(server, "shop", "hand", "10.244.3.9")


def nothing_of_peers(server, client):
    """All that a leader writes for a cluster with peers is gone, and @client leads no more."""
    for kind, want in (("clusters", ["foreign"]), ("nodes", [])):
        has("published " + kind, server, PUBLISHED % ("monokube-published", kind), want)
    for kind, want in (("clusters", []), ("nodes", []), ("services", ["east.shop.hand"])):
        has("copies of " + kind, server, PUBLISHED % ("monokube-peers", kind), want)
    wait("the end of its term", lambda: client.alive() and 0 < 2 * client.said().count(" no longer leads\n") == client.said().count(" leads\n"), MANY_S)


def with_peer(server):
    add_peer(server, "east", podCidr="240.0.0.0/16")
    client = leads(start(server))
    has("cluster", server, PUBLISHED % ("monokube-published", "clusters"), ["west"])
    publish(server, "foreign", "monokube-published")
    return client


def peer_left_behind():
    """the last ClusterPeer goes while no agent leads: what was published and copied goes, and what others made stays"""
    server = Server()
    with_peer(server).stop()
    server.done("DELETE", PEERS + "/east")
    add_copies(server)
    nothing_of_peers(server, start(server, "worker-2"))


def left_by_a_dead_leader():
    """the leader dies before it has removed what it made: another agent goes on; a server that fails is asked again"""
    server = Server()
    first, second = with_peer(server), start(server, "worker-2")
    server.faults({"match": {"target": "monokube-published/", "method": "DELETE"}, "status": 500, "times": 100000},
                  {"match": {"target": "limit=1"}, "status": 500, "times": 3})
    server.done("DELETE", PEERS + "/east")
    second.logs("objects of a former leader: cannot list ")
    wait("an answer", lambda: ("GET", 200) in [(e["method"], e["status"]) for e in server.log() if e["query"].get("limit") == "1"])
    first.may_fail = True
    first.process.kill()
    add_copies(server)
    server.faults()
    nothing_of_peers(server, second)


def without_mcs():
    """without the CRDs of mcs.yaml nothing is left of the last ClusterPeer either"""
    server = Server()
    server.settings(missing=["multicluster.x-k8s.io"])
    client = with_peer(server)
    publish_service(server, "shop", "hand", "10.244.3.9")
    server.done("DELETE", PEERS + "/east")
    nothing_of_peers(server, client)


def cannot_renew():
    """a leader that cannot renew stops to write before another can lead; later it leads again"""
    server = Server()
    add_namespace(server, "shop")
    export_of_east(server, "10.244.3.9")
    client = leads(start(server))
    wait("slices", lambda: addresses(server) == ["240.0.3.9"], MANY_S)
    server.faults({"match": {"target": "leases"}, "status": 500, "times": 100000})
    wait("the end of its term", lambda: client.lines[-1:] == ["follows"] or "follows" in client.lines, MANY_S)
    before = len(writes(server))
    server.patch(PUBLISHED % ("monokube-peers", "services") + "/east.shop.web", {"spec": {"slices": []}})
    refused = len(of_lease(server))
    wait("further tries", lambda: len(of_lease(server)) > refused + 2, MANY_S)
    expect("writes", len(writes(server)), before)
    expect("addresses", addresses(server), ["240.0.3.9"])
    server.faults()
    leads(client)
    wait("no endpoints", lambda: addresses(server) == [], MANY_S)


def refusals():
    """a server that refuses: one line with the remedy, everything else is written, later this, too"""
    server = Server()
    add_web(server, "10.244.1.5")
    add_export(server, "front")
    server.faults({"match": {"target": "endpointslices/", "method": "PATCH"}, "recording": "error-403-patch-node", "times": 100000},
                  {"match": {"target": "publishednodes/", "method": "PATCH"}, "status": 500, "times": 3},
                  {"match": {"target": "serviceimports/", "method": "PATCH"}, "recording": "error-409-conflict", "times": 2})
    client = leads(start(server))
    has("Services", server, PUBLISHED % ("monokube-published", "services"), ["west.shop.front"])
    has("import", server, MCS + "serviceimports", ["front"])
    has("nodes", server, PUBLISHED % ("monokube-published", "nodes"), ["west." + n for n in names(server, "/api/v1/nodes")])
    client.logs("EndpointSlice shop/front-west-")
    client.logs("(HTTP status 403); apply multicluster.yaml again, its roles allow it")
    tries = len([e for e in writes(server, "endpointslices/")])
    wait("another try", lambda: len(writes(server, "endpointslices/")) > tries, MANY_S)
    expect("lines", client.said().count("warn EndpointSlice shop/"), 1)
    server.faults()
    wait("slices", lambda: addresses(server) == ["10.244.1.5"], MANY_S)


def no_rights_to_lead():
    """without the right to the Lease nothing is written, and the log says what helps, once"""
    server = Server()
    add_web(server, "10.244.1.5")
    add_export(server, "front")
    server.faults({"match": {"target": "leases"}, "recording": "error-403-list", "times": 100000})
    client = start(server)
    client.logs("without it this node does not lead; apply multicluster.yaml again, its roles allow it")
    wait("the model", lambda: any(x.startswith("service shop/front ") for x in client.dump()))
    expect("writes", writes(server), [])


def without_apply():
    """a server without server-side apply gets no object, and the log says which version has it"""
    server = Server()
    add_web(server, "10.244.1.5")
    add_export(server, "front")
    server.settings(applies=False)
    client = leads(start(server))
    client.logs("server-side apply needs Kubernetes 1.22 or newer")
    expect("Services", names(server, PUBLISHED % ("monokube-published", "services")), [])
    server.settings(applies=True)
    has("Services", server, PUBLISHED % ("monokube-published", "services"), ["west.shop.front"])


def half_lists():
    """as long as one list cannot be read, nothing is removed"""
    server = Server()
    add_namespace(server, "shop")
    export_of_east(server, "10.244.3.9")
    first = leads(start(server))
    wait("slices", lambda: addresses(server) == ["240.0.3.9"], MANY_S)
    first.stop()
    server.faults({"match": {"target": "monokube-peers/publishedservices"}, "recording": "error-403-list", "times": 100000})
    second = leads(start(server, "worker-2"))
    has("cluster", server, PUBLISHED % ("monokube-published", "clusters"), ["west"])
    second.logs("PublishedServices of peers for the leader")
    wait("its other lists", lambda: len(server.asked("/apis/discovery.k8s.io/v1/endpointslices")) > 3)
    expect("addresses", addresses(server), ["240.0.3.9"])
    expect("deletions", [e for e in server.log() if e["method"] == "DELETE" and e["agent"].startswith("monokube")], [])
    server.faults({"match": {"target": "shop/services/"}, "status": 500, "times": 100000})
    add_service(server, "front")
    add_export(server, "front")
    second.logs("exported Service shop/front: not read")
    expect("addresses", addresses(server), ["240.0.3.9"])


def older_version():
    """a server that has only v1alpha1 gets that"""
    server = Server()
    server.settings(versions={"multicluster.x-k8s.io": "v1alpha1"})
    add_namespace(server, "shop")
    export_of_east(server, "10.244.3.9")
    leads(start(server))
    wait("slices", lambda: addresses(server) == ["240.0.3.9"], MANY_S)
    wait("a write", lambda: writes(server, "serviceimports/web"), MANY_S)
    expect("version", {e["path"].split("/")[3] for e in writes(server, "serviceimports/web")}, {"v1alpha1"})


def view(server, name):
    return server.done("GET", PEERS + "/" + name).get("status", {}).get("podCidr")


def sees(server, name, want):
    try:
        wait("view of " + name, lambda: view(server, name) == want, MANY_S)
    except Wrong:
        raise Wrong("view of %s: have %s, expected %s" % (name, view(server, name), want)) from None


def ranges(server, name):
    """The condition Ranges: status, reason, message."""
    conditions = server.done("GET", PEERS + "/" + name).get("status", {}).get("conditions", [])
    return next(((c["status"], c["reason"], c["message"]) for c in conditions if c["type"] == "Ranges"), None)


def add_peers(server, *peers):
    for name in peers:
        publish(server, name)
        add_peer(server, name)


def lose_status(server, name):
    server.patch(PEERS + "/" + name + "/status", {"status": None})


def views():
    """each peer gets the first free view of peerPools; a lost status is written again; a user's view counts"""
    server = Server()
    add_service(server, "front")
    add_peers(server, "east")
    client = leads(start(server))
    sees(server, "east", "240.0.0.0/16")
    expect("condition", ranges(server, "east"), ("True", "Assigned", "each family has a view"))
    expect("home", server.done("GET", PEERS + "/east")["status"]["remotePodCidr"], "10.244.0.0/16")
    wait("the client's view", lambda: any(x.startswith("peer east ") and "240.0.0.0/16" in x for x in client.dump()), MANY_S)
    add_peers(server, "north")
    sees(server, "north", "240.1.0.0/16")
    before = len(writes(server, "clusterpeers/east"))
    lose_status(server, "east")
    sees(server, "east", "240.0.0.0/16")
    expect("written again", len(writes(server, "clusterpeers/east")) > before, True)
    server.patch(PEERS + "/north", {"spec": {"podCidr": "241.7.0.0/16"}})
    sees(server, "north", "241.7.0.0/16")
    server.patch(PEERS + "/north", {"spec": {"podCidr": "240.0.0.0/16"}})
    wait("a conflict", lambda: (ranges(server, "north") or "-")[1] == "Conflict", MANY_S)
    expect("east", view(server, "east"), "240.0.0.0/16")
    add_peer(server, "south")
    wait("no range", lambda: (ranges(server, "south") or "--")[1] == "NotPublished", MANY_S)
    client.alive()


def what_is_taken():
    """no view overlaps the address of a node, also one that comes before the peer's range is known"""
    server = Server()
    server.patch("/api/v1/nodes/worker-2/status", {"status": {"addresses": [{"type": "InternalIP", "address": "240.0.9.9"}]}})
    add_peer(server, "east")
    client = leads(start(server))
    wait("no range", lambda: (ranges(server, "east") or "--")[1] == "NotPublished", MANY_S)
    publish(server, "east")
    sees(server, "east", "240.1.0.0/16")
    client.alive()


def view_is_kept():
    """a status that is lost while nothing leads does not move the view: the agents have it, and the next leader writes it"""
    server = Server()
    add_peers(server, "east")
    first = leads(start(server, "worker-1"))
    sees(server, "east", "240.0.0.0/16")
    add_peers(server, "north")
    sees(server, "north", "240.1.0.0/16")
    second = start(server, "worker-2")
    wait("its view", lambda: any(x.startswith("peer north 240.1.0.0/16") for x in second.dump()), MANY_S)
    first.may_fail = True
    first.process.kill()
    first.process.wait()
    server.done("DELETE", PEERS + "/east")
    lose_status(server, "north")
    leads(second)
    sees(server, "north", "240.1.0.0/16")
    expect("the peer", [x for x in second.dump() if x.startswith("peer ")][0].split()[:3], ["peer", "north", "240.1.0.0/16"])


RELAYED_BY = GROUP + "/relayed-by"


def show(server, kind, tree, hub):
    """What a hub has shown, carried by hand."""
    tree["metadata"]["labels"][RELAYED_BY] = hub
    server.done("POST", PUBLISHED % ("monokube-peers", kind), tree)


def show_cluster(server, name, hub="hub", pods="10.244.0.0/16"):
    show(server, "clusters", make("PublishedCluster", name, {"name": name, "podCidr": pods, "wireVersions": [1]},
                                  "monokube-peers"), hub)


def labels_of(server, kind, name):
    return server.done("GET", PUBLISHED % ("monokube-published", kind) + "/" + name)["metadata"]["labels"]


def hub_relays():
    """a hub shows what peers with relay: true have published themselves; it goes with the original and with relay"""
    server = Server()
    add_namespace(server, "shop")
    for name, relay in (("east", True), ("north", False)):
        add_peer(server, name, relay=relay)
        publish(server, name)
        publish_node(server, name + ".n1", "192.168.7.%d" % len(name))
    publish_service(server, "shop", "web", "10.244.3.9")
    add_peer(server, "far", relay=True)
    show_cluster(server, "far", "other")
    client = leads(start(server))
    has("clusters", server, PUBLISHED % ("monokube-published", "clusters"), ["east", "west"])
    has("Services", server, PUBLISHED % ("monokube-published", "services"), ["east.shop.web"])
    nodes = ["west." + n for n in names(server, "/api/v1/nodes")]
    has("nodes", server, PUBLISHED % ("monokube-published", "nodes"), ["east.n1"] + nodes)
    expect("labels", labels_of(server, "services", "east.shop.web"),
           {OURS: "monokube.io", LABEL: "east", RELAYED_BY: "west"})
    copy = PUBLISHED % ("monokube-published", "services") + "/east.shop.web"
    before = len(writes(server, "monokube-published/publishedservices"))
    server.patch(PUBLISHED % ("monokube-peers", "services") + "/east.shop.web", {"spec": {"slices": []}})
    wait("the change", lambda: server.done("GET", copy)["spec"].get("slices") == [], MANY_S)
    expect("writes of one change", len(writes(server, "monokube-published/publishedservices")) - before, 1)
    server.patch(PEERS + "/north", {"spec": {"relay": True}})
    has("clusters", server, PUBLISHED % ("monokube-published", "clusters"), ["east", "north", "west"])
    server.done("DELETE", PUBLISHED % ("monokube-peers", "services") + "/east.shop.web")
    has("no Services", server, PUBLISHED % ("monokube-published", "services"), [])
    server.patch(PEERS + "/east", {"spec": {"relay": False}})
    server.done("DELETE", PEERS + "/north")
    has("own cluster", server, PUBLISHED % ("monokube-published", "clusters"), ["west"])
    has("own nodes", server, PUBLISHED % ("monokube-published", "nodes"), nodes)
    expect("originals", names(server, PUBLISHED % ("monokube-peers", "clusters")), ["east", "far", "north"])
    client.alive()


def branch_is_introduced():
    """with accept: Transit a branch has a ClusterPeer for each cluster that the hub shows, but for its own and a user's"""
    server = Server()
    add_namespace(server, "shop")
    publish(server, "hub")
    add_peer(server, "hub")
    add_peer(server, "north", access="Pods")
    for name in ("east", "north", "west"):
        show_cluster(server, name)
    service = make("PublishedService", "east.shop.web", {
        "namespace": "shop", "name": "web", "type": "ClusterSetIP", "part": 0, "parts": 1,
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        "slices": [{"name": "web-1", "addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
                    "endpoints": [{"addresses": ["10.244.3.9"]}]}]}, "monokube-peers")
    show(server, "services", service, "hub")
    client = leads(start(server, "worker-1", "--lease-s", "60"))  # it keeps its Lease on a busy machine, too: the grace is 60 s
    sees(server, "hub", "240.0.0.0/16")
    expect("peers", names(server, PEERS), ["hub", "north"])
    server.patch(PEERS + "/hub", {"spec": {"accept": "Transit"}})
    has("peers", server, PEERS, ["east", "hub", "north"])
    east, hub = server.done("GET", PEERS + "/east"), server.done("GET", PEERS + "/hub")
    expect("path", east["spec"]["via"], "hub")
    expect("owner", [(o["kind"], o["name"], o["uid"]) for o in east["metadata"]["ownerReferences"]],
           [("ClusterPeer", "hub", hub["metadata"]["uid"])])
    expect("label", east["metadata"]["labels"], {OURS: "monokube.io"})
    sees(server, "east", "240.1.0.0/16")
    wait("slices", lambda: addresses(server) == ["240.1.3.9"], MANY_S)
    expect("the user's peer", (view(server, "north"), server.done("GET", PEERS + "/north")["spec"].get("via")), (None, None))
    server.patch(PEERS + "/east", {"spec": {"access": "Pods"}})
    wait("the client's peer", lambda: any(x.startswith("peer east ") and "pods" in x for x in client.dump()), MANY_S)
    server.patch(PEERS + "/hub", {"spec": {"accept": "None"}})
    has("no introduced peers", server, PEERS, ["hub", "north"])
    wait("no slices", lambda: addresses(server) == [], MANY_S)
    server.patch(PEERS + "/hub", {"spec": {"accept": "Transit"}})
    has("peers again", server, PEERS, ["east", "hub", "north"])
    before = wait("a view again", lambda: view(server, "east"), MANY_S)
    server.done("DELETE", PUBLISHED % ("monokube-peers", "clusters") + "/east")
    waits = "hub shows a cluster no longer, its ClusterPeer is deleted if that stays so peer=east hub=hub seconds=60"
    wait("the log", lambda: waits in client.said(), MANY_S)
    expect("view", view(server, "east"), before)
    wait("shown no longer", lambda: names(server, PEERS) == ["hub", "north"], MANY_S + 60)
    client.alive()


def introduced_is_taken_over():
    """a ClusterPeer that a user has taken over outlives the hub: without owner reference, or with a Secret"""
    server = Server()
    publish(server, "hub")
    add_peer(server, "hub", accept="Transit")
    for name in ("east", "north", "south"):
        show_cluster(server, name)
    client = leads(start(server))
    has("peers", server, PEERS, ["east", "hub", "north", "south"])
    server.patch(PEERS + "/north", {"metadata": {"ownerReferences": None}})
    server.patch(PEERS + "/east", {"spec": {"secretName": "peer-east"}})
    wait("released", lambda: not server.done("GET", PEERS + "/east")["metadata"].get("ownerReferences"), MANY_S)
    expect("east", server.done("GET", PEERS + "/east")["spec"], dict(server.done("GET", PEERS + "/east")["spec"], via="hub",
                                                                     secretName="peer-east"))
    server.done("DELETE", PEERS + "/hub")
    has("those of the user", server, PEERS, ["east", "north"])
    expect("owner of north", server.done("GET", PEERS + "/north")["metadata"].get("ownerReferences"), None)
    client.alive()


def pool_is_exhausted():
    """without a free range the condition says so, and names the remedy; a user's view ends that"""
    server = Server()
    publish(server, "east", podCidr="10.0.0.0/8")
    for number, name in enumerate(("a", "b", "c", "d")):
        add_peer(server, name, podCidr="%d.0.0.0/8" % (240 + number))
        publish(server, name, podCidr="10.0.0.0/8")
    client = leads(start(server))
    wait("views of users", lambda: view(server, "d"), MANY_S)
    add_peer(server, "east")
    wait("condition", lambda: ranges(server, "east"), MANY_S)
    expect("condition", ranges(server, "east"), ("False", "PoolExhausted", "peerPools has no free IPv4 range of /8 for 'east'; 'a' has "
                                                 "the largest one, 240.0.0.0/8: enlarge peerPools, or set spec.podCidr"))
    expect("view", view(server, "east"), None)
    server.patch(PEERS + "/east", {"spec": {"podCidr": "244.0.0.0/8"}})
    sees(server, "east", "244.0.0.0/8")
    client.alive()


def hub_takes_half():
    """clusters that a hub introduces have half of peerPools at most; the next ClusterPeer of a user has a view"""
    server = Server()
    publish(server, "hub")
    add_peer(server, "hub", podCidr="172.16.0.0/16", accept="Transit")
    for name in ("a", "b", "c"):
        show_cluster(server, name, pods="10.0.0.0/8")
    client = leads(start(server))
    has("peers", server, PEERS, ["a", "b", "c", "hub"])
    wait("two views", lambda: len([n for n in "abc" if view(server, n)]) == 2, MANY_S)
    last = next(n for n in "abc" if not view(server, n))
    wait("condition", lambda: ranges(server, last), MANY_S)
    expect("condition", ranges(server, last), ("False", "PoolExhausted", "peerPools has no free IPv4 range of /8 for '%s', because clusters "
                                               "that hubs introduce have half of peerPools: enlarge peerPools, or set spec.podCidr" % last))
    publish(server, "east", podCidr="10.0.0.0/8")
    add_peer(server, "east")
    sees(server, "east", "242.0.0.0/8")
    client.alive()


if __name__ == "__main__":
    sys.exit(run([hub_takes_half, hub_relays, branch_is_introduced, introduced_is_taken_over, views, what_is_taken, view_is_kept, pool_is_exhausted, nothing_to_lead, publishes, pods_of_peers, imports, cluster_vanishes, restored, two_agents, left_behind, peer_left_behind, left_by_a_dead_leader, without_mcs, cannot_renew, refusals, no_rights_to_lead,
                  without_apply, half_lists, older_version]))

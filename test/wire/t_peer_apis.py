#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/wire/t_peer_apis.py [PART OF A NAME...] - the leader reads the API servers of peers: which copies come, change and go,
tokens, certificates and servers that fail, another leader, hostile peers."""
import base64
import json
import os
import socket
import sys
import threading
import time

sys.dont_write_bytecode = True
import harness  # noqa: E402
import t_join  # noqa: E402
from harness import TOKEN, Follow, Server, Wrong, expect, run, wait  # noqa: E402
from objects import add_service, add_slice  # noqa: E402
from t_leader import MANY_S, MCS, SHORT, add_export, add_namespace, add_web, addresses, has, leads, names, start, writes  # noqa: E402
from t_peers import PEERS, PUBLISHED, add_peer, make, publish, publish_node  # noqa: E402

HERE, THERE = "monokube-peers", "monokube-published"
SECRETS = "/api/v1/namespaces/monokube-peers/secrets"
FROM = "networking.monokube.io/read-from"
ALL = ("clusters", "nodes", "services")


def encode(text):
    return base64.b64encode(text.encode()).decode()


def service(name, cluster="east", address="10.244.3.9"):
    return make("PublishedService", "%s.shop.%s" % (cluster, name), {
        "namespace": "shop", "name": name, "type": "ClusterSetIP", "exported": "2026-01-01T00:00:00Z", "part": 0, "parts": 1,
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        "slices": [{"name": name + "-1", "addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
                    "endpoints": [{"addresses": [address], "conditions": {"ready": True}}]}]}, THERE)


def cluster(name="east"):
    return make("PublishedCluster", name, {"name": name, "podCidr": "10.244.0.0/16", "wireVersions": [1]}, THERE)


def peer_server(*args, **named):
    """The API server of east, which has published itself, a node and a Service."""
    east = Server("--bookmark-seconds", "1", *args, recorded=False, name="east", pki="pki-east", **named)
    if not args:
        east.done("POST", PUBLISHED % (THERE, "clusters"), cluster())
        publish_node(east, "east.n1", "192.0.2.1", THERE)
        east.done("POST", PUBLISHED % (THERE, "services"), service("web"))
    return east


def ca_of(server):
    with open(os.path.join(server.dir, "ca.crt")) as f:
        return f.read()


def secret_of(east, servers=None, token=TOKEN, ca=None):
    return {"servers": encode(servers or east.url + "\n"), "token": encode(token), "ca.crt": encode(ca or ca_of(east))}


def add_secret(west, data):
    west.done("POST", SECRETS, {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": data,
                                "metadata": {"name": "peer-east", "namespace": HERE}})


def pair(**data):
    """Cluster west, which reads cluster east, and its leader."""
    east, west = peer_server(), Server()
    add_namespace(west, "shop")
    add_secret(west, secret_of(east, **data))
    add_peer(west, "east", podCidr="240.0.0.0/16", secretName="peer-east")
    return east, west, leads(start(west))


def copies(west, *services):
    """Exactly these Services of east lie here, with its cluster and node."""
    has("cluster", west, PUBLISHED % (HERE, "clusters"), ["east"])
    has("node", west, PUBLISHED % (HERE, "nodes"), ["east.n1"])
    has("Services", west, PUBLISHED % (HERE, "services"), ["east.shop." + s for s in sorted(services)])


def condition(west, kind="Connected", peer="east"):
    found = west.done("GET", PEERS + "/" + peer).get("status", {}).get("conditions", [])
    return next((c for c in found if c["type"] == kind), {"reason": "", "message": ""})


def becomes(west, reason, kind="Connected", text="", peer="east"):
    try:
        wait(reason, lambda: condition(west, kind, peer)["reason"] == reason and text in condition(west, kind, peer)["message"], MANY_S)
    except Wrong:
        raise Wrong("condition %s: have %s, expected %s with '%s'" % (kind, condition(west, kind, peer), reason, text)) from None


def come_and_go():
    """copies come, change and go as the peer publishes, by one connection; a Service becomes an import; each change is one write"""
    east, west, client = pair()
    copies(west, "web")
    becomes(west, "Connected", text=east.url)
    becomes(west, "Complete", "Imported")
    labels = west.done("GET", PUBLISHED % (HERE, "nodes/east.n1"))["metadata"]["labels"]
    expect("labels", labels, {"networking.monokube.io/cluster": "east", FROM: "east", "app.kubernetes.io/managed-by": "monokube.io"})
    has("import", west, MCS + "serviceimports", ["web"])
    east.done("POST", PUBLISHED % (THERE, "services"), service("api"))
    copies(west, "api", "web")
    before = len(writes(west, "publishedservices"))
    east.patch(PUBLISHED % (THERE, "nodes/east.n1"), {"spec": {"addresses": ["192.0.2.9"]}})
    wait("a change", lambda: west.done("GET", PUBLISHED % (HERE, "nodes/east.n1"))["spec"]["addresses"] == ["192.0.2.9"])
    east.done("DELETE", PUBLISHED % (THERE, "services/east.shop.web"))
    copies(west, "api")
    expect("writes of Services", [w["method"] for w in writes(west, "publishedservices")[before:]], ["DELETE"])
    expect("connections", len({e["connection"] for e in east.log() if e["agent"] == "monokube"}), 1)
    west.patch(PUBLISHED % (HERE, "nodes/east.n1"), {"spec": {"addresses": ["192.0.2.66"]}})
    wait("a repair", lambda: west.done("GET", PUBLISHED % (HERE, "nodes/east.n1"))["spec"]["addresses"] == ["192.0.2.9"])
    west.done("DELETE", PEERS + "/east")
    for kind in ALL:
        has("nothing", west, PUBLISHED % (HERE, kind), [])
    client.alive()


def by_hand():
    """without secretName no Secret and no server is read; what was carried by hand stays, with secretName and without"""
    east, west = peer_server(), Server()
    add_secret(west, secret_of(east))
    hand = dict(service("hand"), metadata=dict(service("hand")["metadata"], namespace=HERE))
    hand["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "monokube.io"  # as it is in monokube-published of east
    west.done("POST", PUBLISHED % (HERE, "services"), hand)
    add_peer(west, "east", podCidr="240.0.0.0/16")
    client = leads(start(west))
    becomes(west, "Manual")
    expect("Secrets", [e for e in west.log() if "/secrets" in e["path"] and e["method"] == "GET"], [])
    expect("requests to the peer", [e for e in east.log() if e["agent"] == "monokube"], [])
    west.patch(PEERS + "/east", {"spec": {"secretName": "peer-east"}})
    copies(west, "hand", "web")
    west.patch(PEERS + "/east", {"spec": {"secretName": None}})
    has("Services", west, PUBLISHED % (HERE, "services"), ["east.shop.hand"])
    has("nodes", west, PUBLISHED % (HERE, "nodes"), [])
    becomes(west, "Manual")
    west.done("DELETE", PEERS + "/east")
    has("no cluster", west, PUBLISHED % (THERE, "nodes"), [])
    expect("by hand", names(west, PUBLISHED % (HERE, "services")), ["east.shop.hand"])
    client.alive()


def taken_over():
    """an object carried by hand is written only if the peer publishes another content"""
    east, west = peer_server(), Server()
    add_secret(west, secret_of(east))
    for obj, kind in ((cluster(), "clusters"), (service("web", address="10.244.9.9"), "services")):
        west.done("POST", PUBLISHED % (HERE, kind), dict(obj, metadata=dict(obj["metadata"], namespace=HERE)))
    add_peer(west, "east", podCidr="240.0.0.0/16", secretName="peer-east")
    leads(start(west))
    wait("the peer's content", lambda: FROM in west.done("GET", PUBLISHED % (HERE, "services/east.shop.web"))["metadata"]["labels"])
    becomes(west, "Complete", "Imported")
    copies(west, "web")
    expect("equal content", writes(west, HERE + "/publishedclusters"), [])


def token():
    """a wrong token is reported once, and nothing goes; the right one in the Secret works without a restart"""
    east, west, _ = pair()
    copies(west, "web")
    becomes(west, "Connected")
    east.settings(tokens=[TOKEN + "-2"])
    becomes_after_cut(east, west)
    statuses = len(writes(west, "clusterpeers/east/status"))
    copies(west, "web")
    west.patch(SECRETS + "/peer-east", {"data": {"token": encode(TOKEN + "-2")}})
    becomes(west, "Connected")
    expect("writes of the status", len(writes(west, "clusterpeers/east/status")) - statuses <= 3, True)
    copies(west, "web")


def becomes_after_cut(east, west):
    """The watches of east end, so the client has to show its token again."""
    status, _ = east.request("POST", "/standin/cut")
    expect("cut", status, 200)
    becomes(west, "Unauthorized", text="HTTP status 401")


def lost_secret():
    """without its Secret, or with one of no sense, a peer is not read, the condition says why, and nothing goes"""
    _, west, _ = pair()
    copies(west, "web")
    right = west.done("GET", SECRETS + "/peer-east")["data"]
    west.done("DELETE", SECRETS + "/peer-east")
    west.patch(PEERS + "/east", {"spec": {"access": "Pods"}})
    becomes(west, "Unauthorized", text="there is no Secret monokube-peers/peer-east")
    add_secret(west, dict(right, servers=encode("http://192.0.2.1")))
    becomes(west, "Unreachable", text="data.servers")
    west.patch(SECRETS + "/peer-east", {"data": dict(right, **{"ca.crt": encode("none")})})
    becomes(west, "BadCertificate", text="data.ca.crt")
    copies(west, "web")
    west.patch(SECRETS + "/peer-east", {"data": right})
    becomes(west, "Connected")
    copies(west, "web")


def certificate():
    """a server whose certificate the Secret's CA has not signed is not read"""
    other = Server(recorded=False, name="other", pki="pki-other")
    _, west, client = pair(ca=ca_of(other))
    becomes(west, "BadCertificate", text="Secret monokube-peers/peer-east")
    has("no copies", west, PUBLISHED % (HERE, "services"), [])
    client.alive()


def save(server):
    """Files with all that a server has published, for --load."""
    args = []
    for kind in ALL:
        found = server.done("GET", PUBLISHED % (THERE, kind))
        path = os.path.join(harness.TMP, "east-%s.json" % kind)
        with open(path, "w") as f:
            json.dump(found, f)
        args += ["--load", path]
    return args


def away_and_back():
    """while the server is away nothing goes; after it has come back without an object, the copy of that goes"""
    east, west, client = pair()
    saved, port = save(east), east.port
    east.done("POST", PUBLISHED % (THERE, "services"), service("lost"))
    copies(west, "lost", "web")
    east.stop()
    harness.running.remove(east)
    becomes(west, "Unreachable", text="127.0.0.1:%d" % port)
    copies(west, "lost", "web")
    peer_server(*saved, port=port)
    copies(west, "web")
    becomes(west, "Connected")
    client.alive()


class Deaf:
    """A server that takes connections and says nothing. It closes the first one after a second, and further ones at once."""

    def __init__(self):
        self.seen = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = "https://127.0.0.1:%d" % self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection = self.socket.accept()[0]
            self.seen.append(connection)
            threading.Timer(0 if len(self.seen) > 1 else 1, connection.close).start()


def in_turn():
    """servers are tried in turn until one answers; what a former one still says counts no longer"""
    east, deaf = peer_server(), Deaf()
    west = Server()
    add_secret(west, secret_of(east, servers="https://127.0.0.1:1,%s %s" % (deaf.url, east.url)))
    add_peer(west, "east", podCidr="240.0.0.0/16", secretName="peer-east")
    client = leads(start(west))
    copies(west, "web")
    becomes(west, "Connected", text=east.url)
    tried = len(deaf.seen)
    east.done("POST", PUBLISHED % (THERE, "services"), service("api"))
    copies(west, "api", "web")
    time.sleep(1.5)  # a request to the deaf server would have failed by now
    expect("further connections to the deaf server", len(deaf.seen) - tried, 0)
    becomes(west, "Connected", text=east.url)
    client.alive()


def without_resources():
    """a peer that has lost its CustomResourceDefinitions, or refuses them, takes nothing away"""
    east, west, client = pair()
    copies(west, "web")
    for fault in ({"status": 403, "body": {"message": "no right"}}, {"status": 404, "body": {"message": "no resource"}}):
        east.faults(dict(fault, times=1000, match={"target": "published(services|nodes)"}))
        east.request("POST", "/standin/cut")
        wait("refused", lambda fault=fault: [e for e in east.log() if e["status"] == fault["status"]], MANY_S)
    east.faults()
    east.done("POST", PUBLISHED % (THERE, "services"), service("api"))
    copies(west, "api", "web")
    client.alive()


def next_leader():
    """the next leader writes nothing that is equal, and deletes the copies that a complete list lacks"""
    east, west, first = pair()
    east.done("POST", PUBLISHED % (THERE, "services"), service("api"))
    copies(west, "api", "web")
    first.process.kill()
    first.may_fail = True
    first.stop()
    east.done("DELETE", PUBLISHED % (THERE, "services/east.shop.web"))
    before = len(writes(west, HERE))
    east.faults({"status": 500, "times": 6, "match": {"target": "publishedservices"}})
    second = leads(start(west, "worker-2"))
    copies(west, "api")
    becomes(west, "Complete", "Imported")
    expect("writes", [(w["method"], w["path"].rpartition("/")[2]) for w in writes(west, HERE)[before:]], [("DELETE", "east.shop.web")])
    second.alive()


def hostile():
    """a peer can neither speak for other clusters nor exceed its limits; what is wrong is named; the rest counts"""
    east = peer_server()
    for obj, kind in ((cluster("north"), "clusters"), (cluster("west"), "clusters"), (service("web", "west"), "services")):
        east.done("POST", PUBLISHED % (THERE, kind), obj)
    east.done("POST", PUBLISHED % (THERE, "services"), dict(service("api"), metadata={
        "name": "east.shop.other", "namespace": THERE, "labels": {"networking.monokube.io/cluster": "east"}}))
    saved = save(east)
    with open(saved[-1]) as f:
        many = json.load(f)
    for i in range(10000):
        obj = service("many-%05d" % i)
        obj["metadata"].update(resourceVersion="1", uid="uid-%d" % i)
        many["items"].append(obj)
    with open(saved[-1], "w") as f:
        json.dump(many, f)
    east.stop()
    harness.running.remove(east)
    east, west = peer_server(*saved), Server()
    add_secret(west, secret_of(east))
    add_peer(west, "east", podCidr="240.0.0.0/16", secretName="peer-east", limits={"services": 20})
    client = leads(start(west))
    becomes(west, "LimitExceeded", "Imported", "spec.limits.services")
    wait("the limit", lambda: len(names(west, PUBLISHED % (HERE, "services"))) == 20, MANY_S)
    text = condition(west, "Imported")["message"]
    for part in ("PublishedCluster 'north'", "'west'", "PublishedService 'east.shop.other'"):
        if part not in text and part != "'west'":
            raise Wrong("Imported: '%s', expected %s in it" % (text, part))
    has("clusters", west, PUBLISHED % (HERE, "clusters"), ["east"])
    expect("of other clusters", [n for n in names(west, PUBLISHED % (HERE, "services")) if not n.startswith("east.")], [])
    client.alive()


def serves_too_much():
    """a peer that serves far more than its limits allow is not read, and named; copies stay, and it is read again when it serves less"""
    east, west = peer_server(), Server()
    add_secret(west, secret_of(east))
    add_peer(west, "east", podCidr="240.0.0.0/16", secretName="peer-east", limits={"services": 1, "nodes": 1})
    client = leads(start(west, "worker-1", "--backoff-max-ms", "3000"))
    copies(west, "web")
    for i in range(1036):
        east.done("POST", PUBLISHED % (THERE, "services"), service("many-%04d" % i))
    becomes(west, "Unreachable", text="more than 1036 objects of kind PublishedService; copies stay")
    copies(west, "web")
    for name in names(east, PUBLISHED % (THERE, "services")):
        east.done("DELETE", PUBLISHED % (THERE, "services/" + name))
    east.done("POST", PUBLISHED % (THERE, "services"), service("api"))
    becomes(west, "Complete", "Imported")
    becomes(west, "Connected", text=east.url)
    copies(west, "api")
    client.alive()


def senseless(nameless, nested):
    """An API server of east with objects that have no name, and others that nest too deeply."""
    east = peer_server()
    saved = save(east)
    with open(saved[-1]) as f:
        many = json.load(f)
    for i in range(nameless + nested):
        obj = service("odd-%05d" % i)
        obj["metadata"].update(resourceVersion="1", uid="uid-%05d" % i)
        if i < nameless:
            del obj["metadata"]["name"]
        else:
            obj["spec"]["later"] = json.loads("[" * 40 + "]" * 40)
        many["items"].append(obj)
    with open(saved[-1], "w") as f:
        json.dump(many, f)
    east.stop()
    harness.running.remove(east)
    return peer_server(*saved)


def makes_no_sense():
    """objects of a peer that cannot be read cost two lines of the log for each list, and hide no line about this cluster's own"""
    east, west = senseless(40, 40), Server()
    add_secret(west, secret_of(east))
    add_peer(west, "east", podCidr="240.0.0.0/16", secretName="peer-east")
    client = leads(start(west))
    copies(west, "web")
    client.logs("PublishedServices at peer east: 80 objects of the list were skipped")
    expect("lines about single objects", client.said().count("skipped: PublishedServices at peer east"), 1)
    add_service(west, "odd", ports=[{"port": 0}])
    client.logs("skipped: Service shop/odd")
    client.alive()


def has_no_names():
    """a peer that serves objects without names, more than its limits allow, is read no further"""
    east, west = senseless(1100, 0), Server()
    add_secret(west, secret_of(east))
    add_peer(west, "east", podCidr="240.0.0.0/16", secretName="peer-east", limits={"services": 1, "nodes": 1})
    client = leads(start(west))
    becomes(west, "Unreachable", text="more than 1036 objects of kind PublishedService; copies stay")
    client.alive()


def hub_is_read():
    """what a hub shows of another cluster is copied with accept: Transit, with the hub's name, and introduced"""
    east, west, client = pair()
    copies(west, "web")
    north = cluster("north")
    north["metadata"]["labels"]["networking.monokube.io/relayed-by"] = "east"
    east.done("POST", PUBLISHED % (THERE, "clusters"), north)
    copies(west, "web")
    west.patch(PEERS + "/east", {"spec": {"accept": "Transit"}})
    has("clusters", west, PUBLISHED % (HERE, "clusters"), ["east", "north"])
    labels = west.done("GET", PUBLISHED % (HERE, "clusters") + "/north")["metadata"]["labels"]
    expect("hub", (labels["networking.monokube.io/relayed-by"], labels[FROM]), ("east", "east"))
    has("peers", west, PEERS, ["east", "north"])
    expect("path", west.done("GET", PEERS + "/north")["spec"]["via"], "east")
    east.done("DELETE", PUBLISHED % (THERE, "clusters") + "/north")
    has("clusters without it", west, PUBLISHED % (HERE, "clusters"), ["east"])
    expect("peers within a minute", names(west, PEERS), ["east", "north"])
    west.patch(PEERS + "/east", {"spec": {"accept": "None"}})
    has("introduced no longer", west, PEERS, ["east"])
    client.alive()


def events(west):
    found = west.done("GET", "/api/v1/namespaces/default/events")["items"]
    return sorted((e["involvedObject"]["kind"], e["involvedObject"]["name"], e["type"], e["reason"], e.get("count"))
                  for e in found if e["involvedObject"]["kind"] == "ClusterPeer")


def events_of_a_peer():
    """a change of a condition is one Event on the ClusterPeer, a good beginning none; the next leader repeats nothing"""
    east, west, first = pair()
    copies(west, "web")
    becomes(west, "Connected")
    expect("Events of a good beginning", events(west), [])
    east.settings(tokens=[TOKEN + "-2"])
    becomes_after_cut(east, west)
    refused = ("ClusterPeer", "east", "Warning", "Unauthorized", 1)
    wait("the Event", lambda: events(west) == [refused])
    uid = west.done("GET", PEERS + "/east")["metadata"]["uid"]
    event = west.done("GET", "/api/v1/namespaces/default/events")["items"][0]
    expect("Event", (event["involvedObject"]["uid"], "HTTP status 401" in event["message"]), (uid, True))
    west.patch(SECRETS + "/peer-east", {"data": {"token": encode(TOKEN + "-2")}})
    becomes(west, "Connected")
    both = [("ClusterPeer", "east", "Normal", "Connected", 1), refused]
    wait("the second Event", lambda: events(west) == both)
    add_peer(west, "north", podCidr="240.0.0.0/16", inbox=True)
    publish(west, "north")
    becomes(west, "Conflict", "Ranges", peer="north")
    wait("the third Event", lambda: ("ClusterPeer", "north", "Warning", "Conflict", 1) in events(west))
    first.stop()
    leads(start(west, "worker-2"))
    west.patch(PEERS + "/east", {"spec": {"access": "Pods"}})
    becomes(west, "Complete", "Imported")
    expect("Events", [e for e in events(west) if e[1] == "east"], both)


class Context:
    """A cluster in a kubeconfig."""
    def __init__(self, server):
        self.context, self.server, self.url = "admin@w", server, server.url


def remapped():
    """remap moves the view of a peer, once; the next leader keeps the new one; what cannot be moved is refused"""
    west = Server()
    publish(west, "east")
    add_peer(west, "east")
    first = leads(start(west))
    path = t_join.config(Context(west))
    wait("a view", lambda: west.done("GET", PEERS + "/east").get("status", {}).get("podCidr") == "240.0.0.0/16", MANY_S)
    out, _ = t_join.peer(path, "remap", "admin@w", "east", "--dry-run")
    expect("dry run", out, "ClusterPeer east would leave 240.0.0.0/16\n")
    out, _ = t_join.peer(path, "remap", "admin@w", "east")
    expect("output", out, "ClusterPeer east has left 240.0.0.0/16: podCidr 240.1.0.0/16, externalCidr \n")
    first.stop()
    leads(start(west, "worker-2"))
    west.patch(PEERS + "/east", {"spec": {"access": "Pods"}})
    add_peer(west, "north")
    publish(west, "north")
    wait("the view of north", lambda: west.done("GET", PEERS + "/north").get("status", {}).get("podCidr") == "240.2.0.0/16", MANY_S)
    expect("view", west.done("GET", PEERS + "/east")["status"]["podCidr"], "240.1.0.0/16")
    t_join.fails(path, "there is no ClusterPeer 'south'", "remap", "admin@w", "south")
    west.patch(PEERS + "/east", {"spec": {"podCidr": "240.9.0.0/16"}})
    t_join.fails(path, "has no view of peerPools: if spec.podCidr or spec.externalCidr is set", "remap", "admin@w", "east")


INBOX = "monokube-inbox-%s"


def of_inbox(obj, name="east"):
    return dict(obj, metadata=dict(obj["metadata"], namespace=INBOX % name))


def lies(east, services=(), name="west"):
    """Exactly this lies in the inbox of west at east."""
    has("cluster", east, PUBLISHED % (INBOX % name, "clusters"), [name])
    has("nodes", east, PUBLISHED % (INBOX % name, "nodes"), [name + ".worker-1", name + ".worker-2", name + ".worker-3"])
    has("Services", east, PUBLISHED % (INBOX % name, "services"), [name + ".shop." + s for s in services])


def inbox_is_read():
    """with inbox: true, what a branch has written into its namespace here counts as if it was read at its server"""
    west = Server()
    add_namespace(west, "shop")
    for obj, kind in ((cluster(), "clusters"), (cluster("north"), "clusters"), (cluster("west"), "clusters"), (service("web"), "services"),
                      (dict(service("api"), metadata={"name": "east.shop.x", "labels": {"networking.monokube.io/cluster": "east"}}), "services")):
        west.done("POST", PUBLISHED % (INBOX % "east", kind), of_inbox(obj))
    west.done("POST", PUBLISHED % (INBOX % "north", "services"), of_inbox(service("other"), "north"))
    publish_node(west, "east.n1", "192.0.2.1", INBOX % "east")
    add_peer(west, "east", podCidr="240.0.0.0/16", inbox=True)
    client = leads(start(west))
    copies(west, "web")
    becomes(west, "Connected", text="namespace monokube-inbox-east of this cluster is read")
    becomes(west, "Incomplete", "Imported", "PublishedCluster 'north'")
    has("import", west, MCS + "serviceimports", ["web"])
    expect("Secrets", [e for e in west.log() if "/secrets" in e["path"] and e["method"] == "GET"], [])
    expect("writes", writes(west, "inbox"), [])
    west.done("DELETE", PUBLISHED % (INBOX % "east", "services/east.shop.web"))
    west.done("POST", PUBLISHED % (INBOX % "east", "services"), of_inbox(service("api")))
    copies(west, "api")
    west.faults({"status": 403, "times": 1000, "body": {"message": "no right"}, "match": {"target": "monokube-inbox-east"}})
    west.request("POST", "/standin/cut")
    becomes(west, "Unauthorized", text="peer invite NAME --inbox")
    copies(west, "api")
    west.faults()
    west.patch(PEERS + "/east", {"spec": {"inbox": False}})
    for kind in ALL:
        has("nothing", west, PUBLISHED % (HERE, kind), [])
    becomes(west, "Manual")
    client.alive()


def inbox_is_written():
    """with publishTo: true, what is published here lies in the inbox at the peer, and nothing else; it goes with the ClusterPeer"""
    east = peer_server()
    stray = dict(service("stray", "west"), metadata=dict(service("stray", "west")["metadata"], namespace=INBOX % "west"))
    east.done("POST", PUBLISHED % (INBOX % "west", "services"), stray)
    publish_node(east, "north.n1", "192.0.2.7", INBOX % "north")
    west = Server()
    add_web(west, "10.244.1.5")
    add_secret(west, secret_of(east))
    add_export(west, "front")
    add_peer(west, "east", podCidr="240.0.0.0/16", secretName="peer-east", publishTo=True)
    client = leads(start(west))
    lies(east, ["front"])
    has("published here", west, PUBLISHED % (THERE, "services"), ["west.shop.front"])
    copies(west, "web")
    mine, there = (s.done("GET", PUBLISHED % (at, "services/west.shop.front")) for s, at in ((west, THERE), (east, INBOX % "west")))
    expect("content", (there["spec"], there["metadata"]["labels"]), (mine["spec"], mine["metadata"]["labels"]))
    east.patch(PUBLISHED % (INBOX % "west", "nodes/west.worker-1"), {"spec": {"addresses": ["192.0.2.66"]}})
    wait("a repair", lambda: east.done("GET", PUBLISHED % (INBOX % "west", "nodes/west.worker-1"))["spec"]["addresses"] != ["192.0.2.66"])
    east.done("POST", PUBLISHED % (INBOX % "west", "services"), stray)
    lies(east, ["front"])
    west.done("DELETE", MCS + "serviceexports/front")
    lies(east)
    add_export(west, "front")
    lies(east, ["front"])
    west.patch(PEERS + "/east", {"spec": {"publishTo": False}})
    for kind in ALL:
        has("nothing", east, PUBLISHED % (INBOX % "west", kind), [])
    client.logs("peer east: the inbox there is empty")
    copies(west, "web")
    west.patch(PEERS + "/east", {"spec": {"publishTo": True}})
    lies(east, ["front"])
    west.done("DELETE", PEERS + "/east")
    for kind in ALL:
        has("nothing", east, PUBLISHED % (INBOX % "west", kind), [])
    expect("another inbox", names(east, PUBLISHED % (INBOX % "north", "nodes")), ["north.n1"])
    expect("writes elsewhere", [w["path"] for w in writes(east) if "/monokube-inbox-west/" not in w["path"]], [])
    client.alive()


def inbox_is_denied():
    """a token without rights in the inbox is reported, and what is read stays; without its server, the inbox stays and is named"""
    east, west = peer_server(), Server()
    add_secret(west, secret_of(east))
    east.faults({"status": 403, "times": 1000, "body": {"message": "no right"}, "match": {"target": "monokube-inbox"}})
    add_peer(west, "east", podCidr="240.0.0.0/16", secretName="peer-east", publishTo=True)
    client = leads(start(west))
    becomes(west, "Unauthorized", text="ClusterRole monokube-inbox-writer")
    copies(west, "web")
    west.done("DELETE", PEERS + "/east")
    has("nothing", west, PUBLISHED % (HERE, "services"), [])
    client.logs("takes the token of this cluster no longer, as after `monokube peer leave`; if namespace monokube-inbox-west still exists there, delete it")
    client.alive()


def inbox_without_answer():
    """the peer's API server is away while the inbox has to go: the log says so, and what to do"""
    east, west = peer_server(), Server()
    add_secret(west, secret_of(east))
    add_peer(west, "east", podCidr="240.0.0.0/16", secretName="peer-east", publishTo=True)
    client = leads(start(west))
    lies(east)
    east.faults({"status": 500, "times": 1000, "body": {"message": "busy"}, "match": {"method": "DELETE"}})
    west.done("DELETE", PEERS + "/east")
    client.logs("has not confirmed it within ten seconds; if namespace monokube-inbox-west still exists there, delete it")
    client.alive()


def both_ways():
    """a hub and a branch whose server it cannot reach use what the other one exports, by one token"""
    hub, west = Server(recorded=True, name="east", pki="pki-east"), Server()
    for server in (hub, west):
        add_namespace(server, "shop")
    add_service(west, "front")
    add_slice(west, "front-abc12", "front", "10.244.1.5")
    add_export(west, "front")
    add_service(hub, "back")
    add_slice(hub, "back-abc12", "back", "10.244.1.6")
    add_export(hub, "back")
    add_secret(west, secret_of(hub))
    add_peer(west, "east", podCidr="240.0.0.0/16", secretName="peer-east", publishTo=True)
    add_peer(hub, "west", podCidr="240.7.0.0/16", inbox=True)
    leads(start(west))
    leads(Follow(hub, "--node", "worker-1", "--cluster", "east", *SHORT).listed())
    has("import at the branch", west, MCS + "serviceimports", ["back", "front"])
    has("import at the hub", hub, MCS + "serviceimports", ["back", "front"])
    wait("the branch's endpoint", lambda: "240.7.1.5" in addresses(hub))
    wait("the hub's endpoint", lambda: "240.0.1.6" in addresses(west))
    expect("Secrets", [e for e in hub.log() if "/secrets" in e["path"]], [])


if __name__ == "__main__":
    sys.exit(run([remapped, events_of_a_peer, inbox_is_read, inbox_is_written, inbox_is_denied, inbox_without_answer, both_ways, hub_is_read, come_and_go, by_hand, taken_over, token, lost_secret, certificate, away_and_back, in_turn, without_resources,
                  next_leader, hostile, serves_too_much, makes_no_sense, has_no_names]))

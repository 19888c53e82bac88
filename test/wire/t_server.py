#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/wire/t_server.py [PART OF A NAME...] - the API client against the stand-in: invalid objects,
missing resources, the client's reports."""
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.parse

sys.dont_write_bytecode = True
from harness import ROOT, Follow, Server, Wrong, expect, run, wait  # noqa: E402
from objects import NODES, SERVICES, SLICES, add_service, add_slice, service, streams  # noqa: E402
from standin.api import Api, Watch  # noqa: E402
from standin.store import Store  # noqa: E402


# ---- what makes no sense


def nonsense():
    """objects that make no sense are named and left out; nothing else suffers"""
    server = Server()
    add_service(server, "port-zero", ports=[{"port": 0}])
    add_slice(server, "bad-address", "web", "300.1.1.1")
    add_slice(server, "no-service", "nothing", "10.244.1.1")
    client = Follow(server).listed()
    client.logs("skipped: Service shop/port-zero: spec.ports[0].port: value 0")
    client.logs("300.1.1.1")
    expect("Services", len([x for x in client.dump() if x.startswith("service")]), 51)
    add_service(server, "fine")
    add_service(server, "bad-later", clusterIP="10.96.0.300")
    wait("the one that is fine", lambda: [x for x in client.dump() if "shop/fine " in x])
    client.logs("skipped: Service shop/bad-later: ")


# ---- resources that are not there


def endpoints_instead():
    """no discovery.k8s.io: Endpoints; and EndpointSlices once the server has them"""
    server = Server()
    server.settings(missing=["discovery.k8s.io"])
    client = Follow(server, "--absent-ms", "500").listed()
    client.converged("the model from Endpoints")
    expect("Endpoints read", len(streams(server, "/endpoints")), 1)
    server.settings(missing=[])
    client.logs("Endpoints are no longer read")
    client.converged("the model from EndpointSlices")


def service_cidrs():
    """ranges of Service addresses that come and go"""
    server = Server()
    client = Follow(server).listed()
    path = "/apis/networking.k8s.io/v1/servicecidrs"
    server.done("POST", path, {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "more"},
                               "spec": {"cidrs": ["10.99.0.0/24", "fd00::/112"]}})

    def last():
        return set([line for line in client.lines if line.startswith("cidrs")][-1].split()[1:])
    wait("the new ranges of both families", lambda: {"10.99.0.0/24", "fd00::/112"} <= last())
    server.done("DELETE", path + "/more")
    wait("the range to go", lambda: last() == {"10.96.0.0/16", "10.97.0.0/24", "10.98.0.0/24",
                                                  "fd00:10:96::/112", "fd00:10:98::/112"})


def no_endpoints():
    """with EndpointSlices, Endpoints are never asked for; without ServiceCIDRs it goes on"""
    server = Server()
    server.settings(missing=["servicecidrs"])
    client = Follow(server).listed()
    client.converged()
    expect("Endpoints read", server.asked("/endpoints"), [])


def version_unknown():
    """a server that does not tell its version, nor have streams and ServiceCIDRs: one line says so"""
    server = Server("--no-streaming")
    server.settings(missing=["servicecidrs"])
    server.faults({"match": {"target": "^/version"}, "recording": "error-403-list"})
    client = Follow(server).listed()
    client.logs("API server version=unknown lists=paged endpoints=EndpointSlices ServiceCIDRs=no why='HTTP status 403 for /version'")
    client.converged()
    client.stop()
    for body in ("[]", "{}", "", '{"gitVersion": "a b"}', '{"gitVersion": ""}', "x" * 5000):
        server.faults({"match": {"target": "^/version"}, "status": 200, "body": body})
        client = Follow(server).listed()
        client.logs("API server version=unknown")
        client.stop()


def forbidden():
    """403: said with the server's words, and asked again"""
    server = Server()
    server.faults({"match": {"target": NODES}, "recording": "error-403-list", "times": 3})
    client = Follow(server).listed()
    client.logs("HTTP status 403: nodes is forbidden")
    client.converged()


# ---- reports


def condition(server, name="worker-1"):
    conditions = server.done("GET", NODES + "/" + name)["status"].get("conditions", [])
    return [c["status"] for c in conditions if c["type"] == "NetworkUnavailable"]


def ready_condition():
    """NetworkUnavailable is False when told so, and again when somebody sets it or the Node is new"""
    server = Server()
    node = server.done("GET", NODES + "/worker-1")
    client = Follow(server, "--node", "worker-1").listed()
    patches = [e for e in server.log() if e["method"] == "PATCH"]
    expect("patches before", patches, [])
    server.done("PATCH", NODES + "/worker-1/status", {"status": {"conditions": [
        {"type": "NetworkUnavailable", "status": "True", "reason": "NoRoute"}]}}, "application/strategic-merge-patch+json")
    client.process.send_signal(signal.SIGUSR1)
    wait("the condition", lambda: condition(server) == ["False"])
    server.done("DELETE", NODES + "/worker-1")
    for key in ("uid", "resourceVersion", "managedFields"):
        node["metadata"].pop(key)
    node["status"]["conditions"] = []
    server.done("POST", NODES, node)
    wait("the condition of the new Node", lambda: condition(server) == ["False"])
    conditions = server.done("GET", NODES + "/worker-1")["status"]["addresses"]
    expect("the rest of the status", bool(conditions), True)


def wireguard():
    """the node's WireGuard is an annotation of its Node, from its first report on, and again if it is changed or the Node is new"""
    server = Server()
    node = server.done("GET", NODES + "/worker-1")
    client = Follow(server, "--node", "worker-1", "--wireguard", "KEY=:51871").listed()
    client.process.send_signal(signal.SIGUSR1)

    def annotation():
        return server.done("GET", NODES + "/worker-1")["metadata"].get("annotations", {}).get("networking.monokube.io/wireguard")
    wait("the annotation", lambda: annotation() == "KEY=:51871")
    expect("condition", condition(server), ["False"])
    server.patch(NODES + "/worker-1", {"metadata": {"annotations": {"networking.monokube.io/wireguard": "other"}}})
    wait("the annotation again", lambda: annotation() == "KEY=:51871")
    server.done("DELETE", NODES + "/worker-1")
    for key in ("uid", "resourceVersion", "managedFields"):
        node["metadata"].pop(key)
    server.done("POST", NODES, node)
    wait("the annotation of the new Node", lambda: annotation() == "KEY=:51871")


def wireguard_changed_meanwhile():
    """.. also if it is changed before the answer to the report comes"""
    server = Server()
    server.faults({"match": {"method": "PATCH", "target": "/status"}, "late": 2})
    client = Follow(server, "--node", "worker-1", "--wireguard", "KEY=:51871").listed()
    client.process.send_signal(signal.SIGUSR1)

    def annotation():
        return server.done("GET", NODES + "/worker-1")["metadata"].get("annotations", {}).get("networking.monokube.io/wireguard")
    wait("the annotation", lambda: annotation() == "KEY=:51871")
    server.patch(NODES + "/worker-1", {"metadata": {"annotations": {"networking.monokube.io/wireguard": "other"}}})
    client.logs("is False")
    wait("the annotation again", lambda: annotation() == "KEY=:51871")


def ready_refused():
    """403 and 404 for the condition, and 503 for an Event: tried again, nothing else suffers"""
    server = Server()
    server.faults({"match": {"method": "PATCH"}, "recording": "error-403-patch-node"},
                  {"match": {"method": "POST"}, "status": 503, "headers": {"Retry-After": "1"}})
    client = Follow(server, "--node", "worker-2").listed()
    client.process.send_signal(signal.SIGUSR1)
    client.process.send_signal(signal.SIGUSR2)
    client.logs("does the ClusterRole allow")
    wait("the condition", lambda: condition(server, "worker-2") == ["False"])
    wait("the Event", lambda: server.done("GET", "/api/v1/events")["items"])


def lab_is_patient():
    """what the lab asks is asked again if the server is busy (429), as one that has just started is with custom resources"""
    server = Server(recorded=False)
    with tempfile.TemporaryDirectory() as lab:
        os.symlink(server.dir, os.path.join(lab, "api"))
        server.faults({"match": {"target": "publishednodes"}, "status": 429, "headers": {"Retry-After": "1"}, "times": 2})
        subprocess.run([sys.executable, os.path.join(ROOT, "test/lab/lib/api.py"), lab, "save", lab], check=True)
        with open(os.path.join(lab, "publishednodes.json")) as f:
            expect("objects", json.load(f)["items"], [])
    expect("requests", [e["status"] for e in server.asked("publishednodes")], [429, 429, 200])


def events():
    """an Event on the Node; the same again within a minute is not sent"""
    server = Server()
    client = Follow(server, "--node", "worker-1").listed()
    for _ in range(3):
        client.process.send_signal(signal.SIGUSR2)
    event = wait("the Event", lambda: server.done("GET", "/api/v1/events")["items"])[0]
    expect("what it is about", (event["involvedObject"]["kind"], event["involvedObject"]["name"], event["type"], event["reason"]),
           ("Node", "worker-1", "Warning", "TableFull"))
    expect("message", event["message"], 'the table "services" is full')
    expect("Events sent", len([e for e in server.log() if e["method"] == "POST"]), 1)


def other_events():
    """a server that takes no Event: its pauses grow, however many others come"""
    server = Server()
    server.faults({"match": {"method": "POST"}, "status": 503, "times": 1000})
    client = Follow(server, "--node", "worker-1").listed()

    def posts():
        return [e["time"] for e in server.log() if e["method"] == "POST"]
    client.process.send_signal(signal.SIGUSR2)
    wait("the third attempt", lambda: len(posts()) == 3)
    for number in range(1, 6):
        client.process.send_signal(signal.SIGHUP)
        wait("Event %d" % number, lambda: "hangup %d" % number in client.lines)
    wait("the fourth attempt", lambda: len(posts()) >= 4)
    if posts()[3] - posts()[2] < 1.9:  # the third pause is 2 to 4 s
        raise Wrong("the fourth attempt comes after %.1f s" % (posts()[3] - posts()[2]))
    server.faults()
    wait("all six", lambda: len(server.done("GET", "/api/v1/events")["items"]) == 6)


def where_an_operator_looks():
    """Events as kubectl describe node asks for them, in the namespace of kubectl get events"""
    server = Server()
    client = Follow(server, "--node", "worker-1").listed()
    client.process.send_signal(signal.SIGUSR2)
    described = "/api/v1/events?fieldSelector=" + urllib.parse.quote(
        "involvedObject.name=worker-1,involvedObject.namespace=,involvedObject.kind=Node,involvedObject.uid=worker-1")
    event = wait("the Event of the Node", lambda: server.done("GET", described)["items"])[0]
    expect("namespace", event["metadata"]["namespace"], "default")
    expect("who reports", (event["reportingComponent"], event["reportingInstance"], event["source"]["component"]),
           ("monokube", "worker-1", "monokube"))


# ---- the stand-in itself


class Exchange:
    """A request for a watch that ends at once, and what it got."""

    path = SERVICES

    def __init__(self):
        self.query = {"resourceVersion": "0", "allowWatchBookmarks": "true", "timeoutSeconds": "0.001"}
        self.got = []

    async def data(self, line):
        self.got.append(json.loads(line))

    async def head(self, status, headers):
        pass

    async def end(self):
        pass


def told_before_bookmark():
    """what a bookmark stands behind was told before it, however late it came"""
    async def watched():
        store, exchange = Store(), Exchange()
        services = store.resource("", "services")
        watch = Watch(Api(store, []), exchange, services, "")
        watch.begin = lambda: asyncio.sleep(0, 0)  # as if it had begun before the Service was there
        await store.create(services, "shop", {"kind": "Service", "metadata": {"name": "web"}})
        await asyncio.sleep(0.01)
        await watch.run()
        return [(e["type"], e["object"]["metadata"]["resourceVersion"]) for e in exchange.got]
    expect("what was sent", asyncio.run(watched()), [("ADDED", "1"), ("BOOKMARK", "1")])


def streamed(server, path, **query):
    """What a list as a stream (sendInitialEvents) brings up to its bookmark: {name: object}."""
    query.update(watch="true", sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true",
                 timeoutSeconds="0.001")
    status, text = server.exchange("GET", path + "?" + urllib.parse.urlencode(query))
    if status != 200:
        raise Wrong("%s: HTTP status %d: %s" % (path, status, text))
    events = [json.loads(line) for line in text.splitlines()]
    last = events.index(next(e for e in events if e["type"] == "BOOKMARK"))
    expect("the bookmark after " + path, events[last]["object"]["metadata"].get("annotations"),
           {"k8s.io/initial-events-end": "true"})
    return {e["object"]["metadata"]["name"]: e["object"] for e in events[:last]}


def what_kube_proxy_asks():
    """kube-proxy's informers: their selectors, and an Event of the newer group"""
    server = Server()
    add_service(server, "fine")
    add_service(server, "no-address", clusterIP="None")
    found = streamed(server, SERVICES, labelSelector="!service.kubernetes.io/service-proxy-name",
                     fieldSelector="spec.clusterIP!=None")
    expect("a Service, one without address", ("fine" in found, "no-address" in found), (True, False))
    add_slice(server, "fine-1", "fine", "10.244.1.1")
    expect("slices", "fine-1" in streamed(server, SLICES, labelSelector="!service.kubernetes.io/headless"), True)
    expect("Nodes", list(streamed(server, NODES, fieldSelector="metadata.name=worker-1")), ["worker-1"])
    expect("ServiceCIDRs", "kubernetes" in streamed(server, "/apis/networking.k8s.io/v1/servicecidrs"), True)
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    server.done("POST", events, {"apiVersion": "events.k8s.io/v1", "kind": "Event", "reason": "Starting",
                                 "metadata": {"name": "worker-1.1", "namespace": "default"}})
    expect("Events", [e["reason"] for e in server.done("GET", events)["items"]], ["Starting"])


def become():
    """all objects of some kinds at once: what is too many goes, what is the same makes no event"""
    def service_of(name, port):
        return service(name, clusterIP="10.96.7.%d" % ord(name[0]), ports=[{"name": "http", "port": port, "protocol": "TCP", "targetPort": port}])
    server = Server(recorded=False)
    server.done("POST", "/standin/objects", [service_of("same", 80), service_of("gone", 80), service_of("other", 80)])
    client = Follow(server).listed()
    before = server.done("GET", SERVICES)
    version = {s["metadata"]["name"]: s["metadata"]["resourceVersion"] for s in before["items"]}
    server.done("POST", "/standin/objects", [service_of("same", 80), service_of("other", 81), service_of("new", 80)])
    after = {s["metadata"]["name"]: s for s in server.done("GET", SERVICES)["items"]}
    expect("names", sorted(after), ["new", "other", "same"])
    expect("the same", after["same"]["metadata"]["resourceVersion"], version["same"])
    expect("another port", after["other"]["spec"]["ports"][0]["port"], 81)
    client.converged()
    status, answer = server.request("POST", "/standin/objects", [{"kind": "PersistentVolume", "apiVersion": "v1", "metadata": {"name": "a"}}])
    expect("a kind that it has not", (status, answer["message"]), (400, "no resource has objects of v1 PersistentVolume"))


def older_slices():
    """EndpointSlices of discovery.k8s.io/v1beta1, which a kube-proxy before 1.21 reads: the node's name in its topology"""
    server = Server()
    path = "/apis/discovery.k8s.io/v1beta1/endpointslices"

    def nodes(slices, of):
        return {s["metadata"]["name"]: [of(e) for e in s["endpoints"] or []] for s in slices}

    def seen(slices):
        return nodes(slices, lambda e: e.get("topology", {}).get("kubernetes.io/hostname"))

    expected = nodes(server.done("GET", SLICES)["items"], lambda e: e.get("nodeName"))
    expect("is there a node?", any(any(names) for names in expected.values()), True)
    listed = server.done("GET", path)
    expect("version of the list", listed["apiVersion"], "discovery.k8s.io/v1beta1")
    expect("nodes in the list", seen(listed["items"]), expected)
    _, text = server.exchange("GET", path + "?watch=1&resourceVersion=0&timeoutSeconds=1")
    events = [json.loads(line)["object"] for line in text.splitlines()]
    expect("versions in a watch", {e["apiVersion"] for e in events}, {"discovery.k8s.io/v1beta1"})
    expect("nodes in a watch", seen(events), expected)


TESTS = [nonsense, service_cidrs, endpoints_instead, no_endpoints, version_unknown, forbidden, ready_condition, wireguard,
         wireguard_changed_meanwhile, ready_refused, lab_is_patient, events, other_events, where_an_operator_looks, told_before_bookmark, what_kube_proxy_asks, become,
         older_slices]

if __name__ == "__main__":
    sys.exit(run(TESTS))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/wire/t_client.py [PART OF A NAME...] - the API client against the stand-in: lists and
watches, how they end, a server that goes and comes back."""
import json
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from harness import Follow, Server, Wrong, expect, run, wait  # noqa: E402
from objects import NODES, SERVICES, SLICES, add_service, add_slice, streams, watches  # noqa: E402
from standin import recordings  # noqa: E402
from standin.dump import SELECTOR  # noqa: E402



def only_changed(client, *names):
    """Check that no other line has come since the list of lines was cleared."""
    touched = {line for line in client.lines if line.startswith(("changed", "gone", "node"))}
    expect("what changed", sorted(touched), sorted(names))


# ---- following


def streaming_list():
    """streaming lists, all watches on one HTTP/2 connection, with selectors"""
    server = Server()
    client = Follow(server).listed()
    client.converged()
    client.logs("API server version=v1.36.0-standin lists=streaming endpoints=EndpointSlices ServiceCIDRs=yes\n")
    log = server.log()
    expect("requests", sorted(e["path"].rpartition("/")[2] for e in log),
           ["endpointslices", "nodes", "servicecidrs", "services", "version"])
    expect("protocols", {e["protocol"] for e in log}, {"2"})
    expect("connections", len({e["connection"] for e in log}), 1)
    for plural in ("services", "endpointslices"):
        expect("selector", streams(server, plural)[0]["query"]["labelSelector"], SELECTOR["labelSelector"])
    expect("ranges", set([line for line in client.lines if line.startswith("cidrs")][-1].split()[1:]),
           {"10.96.0.0/16", "10.97.0.0/24", "10.98.0.0/24", "fd00:10:96::/112", "fd00:10:98::/112"})


def live_changes():
    """objects made, changed and deleted while it watches, each followed"""
    server = Server()
    client = Follow(server).listed()
    add_service(server, "new")
    add_slice(server, "new-1", "new", "10.244.1.7", "10.244.2.7")
    add_slice(server, "new-2", "new", "10.244.1.8")
    client.converged("two slices of one Service")
    expect("its line", [x for x in client.dump() if "shop/new " in x][0].split("] ")[1],
           "10.244.1.7:8080/tcp 10.244.1.8:8080/tcp 10.244.2.7:8080/tcp")
    server.patch("/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/new-1", {"endpoints": []})
    client.converged("an emptied slice")
    server.done("DELETE", "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/new-2")
    server.done("DELETE", "/api/v1/namespaces/shop/services/new")
    server.done("DELETE", "/api/v1/nodes/worker-3")
    client.converged("deletions")
    server.patch("/api/v1/namespaces/shop/services/web",
                 {"metadata": {"labels": {"service.kubernetes.io/service-proxy-name": "other"}}})
    client.converged("a Service that another proxy takes over")
    expect("lists", len(streams(server)), 1)


def both_families():
    """a Service that gains and loses its second family, slices and a Node of both"""
    server = Server()
    client = Follow(server).listed()
    add_service(server, "dual", clusterIP="fd00:10:96::7", clusterIPs=["fd00:10:96::7"], ipFamilies=["IPv6"])
    add_slice(server, "dual-6", "dual", "fd00:10:244:1::7", type_="IPv6")
    server.done("POST", NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "dual"},
                                "spec": {"podCIDR": "fd00:10:244:9::/64", "podCIDRs": ["fd00:10:244:9::/64", "10.244.9.0/24"]},
                                "status": {"addresses": [{"type": "InternalIP", "address": "fd00:50::19"},
                                                         {"type": "InternalIP", "address": "192.168.50.19"}]}})
    client.converged("one family")
    server.patch("/api/v1/namespaces/shop/services/dual", {"spec": {
        "clusterIPs": ["fd00:10:96::7", "10.96.0.77"], "ipFamilies": ["IPv6", "IPv4"]}})
    add_slice(server, "dual-4", "dual", "10.244.1.7")
    client.converged("two families")
    expect("its lines", [x for x in client.dump() if "node dual" in x or "shop/dual " in x],
           ["node dual 10.244.9.0/24 fd00:10:244:9::/64 192.168.50.19 fd00:50::19",
            "service shop/dual 10.96.0.77 fd00:10:96::7 [80/tcp/0] 10.244.1.7:8080/tcp fd00:10:244:1::7:8080/tcp"])
    server.patch("/api/v1/namespaces/shop/services/dual", {"spec": {
        "clusterIPs": ["fd00:10:96::7"], "ipFamilies": ["IPv6"]}})
    server.done("DELETE", "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/dual-4")
    client.converged("one family again")


def paged_list():
    """a server without streaming lists: pages, compressed, then a watch from that version"""
    server = Server("--no-streaming")
    client = Follow(server, "--page", "10").listed()
    client.converged()
    lists = server.asked("services", watch=None)
    expect("pages", len(lists), 6)
    expect("limit", {e["query"]["limit"] for e in lists}, {"10"})
    expect("compression", {e["encoding"] for e in lists}, {"gzip"})
    add_service(server, "new")
    client.converged("a change after the list")
    expect("watched", len(watches(server)), 1)


def compressed_list():
    """a list that is compressed, and one that is not, over HTTP/1.1"""
    server = Server("--no-streaming", "--http1")
    client = Follow(server).listed()  # one page: 208 KB of slices
    client.converged()
    expect("protocols", {e["protocol"] for e in server.log()}, {"1.1"})


def recorded_pages():
    """six pages of a real server, byte for byte"""
    server = Server("--no-streaming", "--http1")
    server.faults(*[{"match": {"target": "^/api/v1/services.*limit"}, "recording": "list-services-page%d" % i} for i in range(1, 7)],
                  {"match": {"target": "^/apis/discovery.*limit"}, "recording": "list-endpointslices-gzip"},
                  {"match": {"target": "^/api/v1/nodes.*limit"}, "recording": "list-nodes"})
    client = Follow(server).listed()
    expect("Services", len([x for x in client.dump() if x.startswith("service")]), 52)
    expect("tokens of the pages", len({e["query"].get("continue") for e in server.asked("services", watch=None)}), 6)


def recorded_streams():
    """streaming lists of a real server, byte for byte, in pieces of every size"""
    for pieces in (1 << 20, 1000, 7):
        server = Server("--http1")
        server.faults(*[{"match": {"target": "/%s\\?" % n, "mode": "stream"}, "recording": "watchlist-" + r, "pieces": pieces}
                        for n, r in (("services", "services"), ("nodes", "nodes"), ("endpointslices", "endpointslices-live"),
                                     ("servicecidrs", "servicecidrs"))])
        client = Follow(server).listed()
        expect("Services", len([x for x in client.dump() if x.startswith("service")]), 52)
        expect("Nodes", len([x for x in client.dump() if x.startswith("node")]), 3)
        client.stop()
        server.stop()


def kubectl(server, *arguments, **kwargs):
    done = subprocess.run(["kubectl", "--kubeconfig", server.dir + "/kubeconfig", *arguments], capture_output=True,
                          text=True, timeout=60, **kwargs)
    if done.returncode:
        raise Wrong("kubectl %s: %s" % (" ".join(arguments), done.stderr))
    return done.stdout


MANIFEST = """
apiVersion: v1
kind: Service
metadata: {name: applied, namespace: shop}
spec:
  type: NodePort
  selector: {app: applied}
  ports: [{name: http, port: PORT, targetPort: 8080}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: applied-1, namespace: shop, labels: {kubernetes.io/service-name: applied}}
addressType: IPv4
endpoints: [{addresses: [10.244.1.PORT], nodeName: worker-1}]
ports: [{name: http, port: 8080}]
---
apiVersion: v1
kind: Node
metadata: {name: applied}
spec: {podCIDR: 10.244.9.0/24, podCIDRs: [10.244.9.0/24]}
"""


def kubectl_apply():
    """kubectl apply, changed and again, server-side, edit by patch, get, delete: all followed"""
    server = Server()
    client = Follow(server).listed()
    for port, more in (("80", []), ("81", []), ("82", ["--server-side", "--force-conflicts"])):
        kubectl(server, "apply", "-f", "-", *more, input=MANIFEST.replace("PORT", port))
        client.converged("what was applied")
        line = [x for x in client.dump() if "/applied " in x][0]
        if "%s/tcp/310" % port not in line or not line.endswith(" 10.244.1.%s:8080/tcp" % port):
            raise Wrong("after port %s was applied: %s" % (port, line))
        again = kubectl(server, "apply", "-f", "-", *more, input=MANIFEST.replace("PORT", port))
        if not more and ("service/applied unchanged" not in again or "node/applied unchanged" not in again):
            raise Wrong("applied again: " + again)
    expect("the Node", [x for x in client.dump() if x.startswith("node applied")], ["node applied 10.244.9.0/24 - - -"])
    if "web" not in kubectl(server, "get", "services", "-n", "shop"):
        raise Wrong("kubectl get does not show the Service web")
    kubectl(server, "delete", "-f", "-", "--timeout=20s", input=MANIFEST)
    client.converged("what was deleted")


def recorded_watches():
    """watches of a real server, byte for byte, ended by it or cut: the next goes on where each ended"""
    for plural, name in (("nodes", "watch-nodes"), ("services", "watch-services"), ("endpointslices", "watch-endpointslices"),
                         ("servicecidrs", "watch-servicecidrs"), ("servicecidrs", "watch-servicecidrs-75s"),
                         ("services", "watch-services-no-bookmarks"), ("services", "watch-services-history"),
                         ("services", "watch-server-stop")):
        server = Server("--http1")
        client = Follow(server, "--watch-s", "30").listed()
        match = {"target": "/%s\\?" % plural, "mode": "watch"}
        server.faults({"match": match, "recording": name, "pieces": 501})
        server.done("POST", "/standin/cut")
        wait("another watch", lambda: len(watches(server, plural)) >= 2)
        events = [json.loads(line) for line in recordings.parse(name)[2].splitlines()]
        expect("version after " + name, watches(server, plural)[1]["query"]["resourceVersion"],
               events[-1]["object"]["metadata"]["resourceVersion"])
        if "is not JSON" in client.said():
            raise Wrong(client.said())
        client.stop()
        server.stop()


def recorded_errors():
    """every error that was recorded, for the list and for the watch of Services: it gets over it"""
    names = ["error-401-bad-token", "error-403-watch", "error-404-group", "error-404-resource", "error-404-version",
             "error-409-conflict", "error-422-watchlist", "error-429-watch", "error-500-watch-rv", "error-504-too-large-rv",
             "error-event-504-watchlist-too-large-rv", "gone-list-exact", "gone-list-continue", "gone-watch-cached",
             "gone-watch-events", "gone-watch-uncached"]
    server = Server()
    client = Follow(server, "--absent-ms", "100")
    client.listed()
    for name in names:
        server.faults({"match": {"target": SERVICES, "mode": "watch"}, "recording": name},
                      {"match": {"target": SERVICES, "mode": "stream"}, "recording": name})
        server.done("POST", "/standin/cut")
        wait("a watch that was answered with " + name, lambda: name in [e.get("recording") for e in server.log()])
        add_service(server, "after-" + name.lower())
        client.converged("the model after " + name)
    client.stop()
    for name in names[:6]:
        server.faults({"match": {"target": SERVICES, "mode": "stream"}, "recording": name})
        client = Follow(server, "--absent-ms", "100").listed()
        client.converged("the first list after " + name)
        client.stop()


# ---- watches that end


def server_timeout():
    """the server ends watches after their time: resumed from a bookmark, no list"""
    server = Server()
    client = Follow(server, "--watch-s", "1").listed()
    before = server.done("GET", NODES + "?limit=1")["metadata"]["resourceVersion"]
    add_service(server, "elsewhere")  # makes the version of the others' bookmarks grow
    wait("a second watch of Nodes", lambda: len(watches(server, "nodes")) >= 2)
    versions = [int(e["query"]["resourceVersion"]) for e in watches(server, "nodes")]
    if versions[-1] <= int(before):
        raise Wrong("watches begin at %s: the bookmark's version is not used" % versions)
    expect("lists", len(streams(server, "nodes")), 1)
    add_service(server, "later")
    client.converged()


def gone_event():
    """410 as an ERROR event: the list again, and only differences told"""
    server = Server()
    client = Follow(server, "--watch-s", "2").listed()
    client.converged()
    server.faults({"match": {"target": "watch=1"}, "cut": True, "times": 1000})
    server.done("POST", "/standin/cut")
    client.logs("asking again")
    add_service(server, "new")
    server.done("DELETE", "/api/v1/namespaces/team-a/services/app-3")
    server.patch("/api/v1/namespaces/shop/services/web", {"spec": {"sessionAffinity": "ClientIP"}})
    server.done("POST", "/standin/compact")
    client.lines.clear()
    server.faults()
    client.converged()
    client.logs("too old resource version")
    only_changed(client, "changed shop/new", "gone team-a/app-3", "changed shop/web")


def gone_status():
    """410 as the HTTP status of a watch, recorded; then the list again, nothing told"""
    server = Server()
    client = Follow(server).listed()
    client.lines.clear()
    server.faults({"match": {"target": SERVICES, "mode": "watch"}, "recording": "gone-list-exact"})
    server.done("POST", "/standin/cut")
    wait("a second list", lambda: len(streams(server)) == 2)
    add_service(server, "new")
    client.converged()
    only_changed(client, "changed shop/new")


def gone_page():
    """410 for the next page: the list in one piece"""
    server = Server("--no-streaming")
    server.faults({"match": {"target": "services.*continue"}, "recording": "gone-list-continue"})
    client = Follow(server, "--page", "20").listed()
    client.converged()
    expect("lists without a limit", len(server.asked("services", watch=None, limit=None)), 1)


def busy():
    """429 with Retry-After, as recorded: waits that long"""
    server = Server()
    server.faults({"match": {"target": NODES}, "recording": "error-429-list"})
    client = Follow(server).listed()
    times = [e["time"] for e in server.asked("nodes")]
    if times[1] - times[0] < 1.9:
        raise Wrong("asked again after %.1f s, told to wait 2" % (times[1] - times[0]))
    client.converged()
    client.logs("429: Too many requests, please try again later.")


def server_errors():
    """500, 503, 504 and an ERROR event 504, then it works"""
    server = Server()
    server.faults({"match": {"target": SERVICES}, "recording": "error-500-watch-rv"},
                  {"match": {"target": SERVICES}, "status": 503, "body": "upstream down", "headers": {"Content-Type": "text/plain"}},
                  {"match": {"target": SLICES}, "recording": "error-event-504-watchlist-too-large-rv"},
                  {"match": {"target": NODES}, "status": 502, "body": "<html>bad gateway</html>"},
                  {"match": {"target": NODES}, "recording": "error-504-too-large-rv"})
    client = Follow(server).listed()
    client.converged()
    client.logs("HTTP status 503: upstream down")
    client.logs("Too large resource version")


def half_a_list():
    """nothing is said to be listed before EndpointSlices are, too"""
    server = Server()
    server.faults({"match": {"target": SLICES}, "status": 503, "times": 1000000})
    client = Follow(server)
    client.logs("Services: ")
    client.logs("EndpointSlices: ")
    wait("Services", lambda: any(line.startswith("service") for line in client.dump()))
    expect("said to be listed", "listed" in client.lines, False)
    server.faults()
    client.listed().converged()


def rejected_watch():
    """a watch that is refused again and again from one version ends in a new list"""
    server = Server()
    client = Follow(server).listed()
    server.faults({"match": {"target": SERVICES, "mode": "watch"}, "recording": "error-500-watch-rv", "times": 3})
    server.done("POST", "/standin/cut")
    client.logs("reading the list")
    wait("a second list", lambda: len(streams(server)) == 2)
    add_service(server, "new")
    client.converged()


def truncated():
    """answers cut anywhere: in an object, in a character of UTF-8, in a page; or ended too early"""
    server = Server()
    text = "Dienst für die Käufer – 買い物 🛒"
    server.patch("/api/v1/namespaces/shop/services/web", {"metadata": {"annotations": {"about": text}}})
    faults = [{"match": {"target": SERVICES}, how: at} for how in ("cut_after", "end_after") for at in (0, 1, 500, 30001, 30002)]
    server.faults(*faults, {"match": {"target": SERVICES}, "pieces": 1},
                  {"match": {"target": SLICES}, "cut_after": 100000}, {"match": {"target": NODES}, "end_after": 7})
    client = Follow(server).listed()
    client.converged()
    lists = len(streams(server))
    server.faults(*[{"match": {"target": SERVICES, "mode": "watch"}, how: at, "pieces": 1}
                    for how in ("cut_after", "end_after") for at in range(1, 40, 6)])
    server.done("POST", "/standin/cut")
    for i in range(12):
        add_service(server, "utf-%d" % i)
        server.patch("/api/v1/namespaces/shop/services/utf-%d" % i, {"metadata": {"annotations": {"about": text}}})
    client.converged("changes while every watch is cut")
    expect("lists", len(streams(server)), lists)


def truncated_pages():
    """a page cut, or ended too early, is read again"""
    server = Server("--no-streaming", "--http1")
    server.faults({"match": {"target": "services.*continue"}, "cut_after": 3000},
                  {"match": {"target": "services.*continue"}, "chunked": 1, "end_after": 3000},
                  {"match": {"target": SLICES}, "cut_after": 10})
    client = Follow(server, "--page", "20").listed()
    client.converged()


def no_json():
    """200 with something else than JSON, as a captive proxy sends it"""
    server = Server()
    server.faults({"match": {"target": SERVICES}, "status": 200, "body": "<html>log in</html>", "times": 2})
    client = Follow(server).listed()
    client.logs("this is not JSON")
    client.converged()


def never_marked():
    """a server that knows no streaming lists and sends a plain watch: pages"""
    server = Server("--bookmark-seconds", "100")
    server.settings(marker=False)
    client = Follow(server, "--watch-s", "1").listed()
    client.logs("it ended without the bookmark")
    client.converged()


def silent():
    """a watch in which nothing comes, not even its end: given up, resumed on a new connection"""
    server = Server()
    server.faults({"match": {"target": SERVICES, "mode": "stream"}, "stall_after": 60000})
    client = Follow(server, "--watch-s", "1", "--grace-ms", "700").listed()
    server.faults({"match": {"target": "."}, "stall_after": 0, "times": 1000})
    server.done("POST", "/standin/cut")
    client.logs("no data for")
    server.faults()
    add_service(server, "new")
    client.converged()
    wait("another connection", lambda: len({e["connection"] for e in server.log()}) >= 3)


def well_again():
    """a watch that could be resumed is said to be well, though nothing happens in it"""
    server = Server()
    client = Follow(server).listed()
    server.faults({"match": {"target": NODES}, "status": 503, "times": 2})
    server.done("POST", "/standin/cut")
    client.logs("Nodes: following the API server again")
    client.converged()


def keepalive():
    """connections that are idle ask whether the peer lives"""
    server = Server()
    client = Follow(server).listed()

    def timers():
        return subprocess.run(["ss", "-Htno", "state", "established", "dport", "=", ":%d" % server.port],
                              capture_output=True, text=True, check=True).stdout
    wait("a keepalive timer", lambda: "timer:(keepalive," in timers())
    client.converged()


# ---- the server goes, and comes back


def other_contents():
    """the server gone, back with other contents and lower versions: nothing blinks, then differences"""
    server = Server()
    client = Follow(server, "--watch-s", "2").listed()
    client.converged()
    port = server.port
    client.lines.clear()
    server.stop()
    client.logs("Could")
    expect("told while it is away", client.lines, [])
    server = Server("--bookmark-seconds", "0.5", port=port)
    client.server = server
    server.done("DELETE", "/api/v1/namespaces/team-a/services/app-3")
    add_service(server, "new")
    client.converged()
    only_changed(client, "changed shop/new", "gone team-a/app-3")


def long_absence():
    """away for longer than versions mean something: the list, not a watch"""
    server = Server()
    client = Follow(server, "--forget-ms", "300").listed()
    port = server.port
    client.lines.clear()
    server.stop()
    client.logs("asking again")
    time.sleep(0.5)  # longer than --forget-ms: the time itself is the condition
    client.server = server = Server(port=port)
    client.logs("was unreachable for too long")
    add_service(server, "new")
    client.converged()
    expect("watches from an old version", [e for e in watches(server) if e["query"]["resourceVersion"] != ""], [])
    only_changed(client, "changed shop/new")


def backwards():
    """a bookmark older than what was seen: the server was restored, the list again"""
    server = Server()
    add_service(server, "before")
    client = Follow(server, "--watch-s", "30").listed()
    port = server.port
    server.stop()
    client.server = server = Server("--bookmark-seconds", "0.3", port=port)
    client.logs("but was at")
    client.converged()


TESTS = [streaming_list, live_changes, both_families, paged_list, compressed_list, recorded_pages, recorded_streams, recorded_watches,
         recorded_errors, server_timeout, gone_event, gone_status, gone_page, busy, server_errors, half_a_list, rejected_watch,
         truncated, truncated_pages, no_json, never_marked, silent, well_again, keepalive, other_contents,
         long_absence, backwards]

if shutil.which("kubectl"):  # no Debian package: without it this test is not part of the plan
    TESTS.append(kubectl_apply)
else:
    print("# kubectl is not installed: it is not tested")

if __name__ == "__main__":
    sys.exit(run(TESTS))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/wire/t_odd_servers.py [PART OF A NAME...] - the API client with faulty servers, proxies and load
balancers: growing pauses, silent watches, partial answers that remove nothing."""
import sys

sys.dont_write_bytecode = True
from harness import Follow, Relay, Server, Wrong, expect, run, wait  # noqa: E402
from objects import NODES, SERVICES, SLICES, add_service, streams, watches  # noqa: E402


def pauses(entries):
    times = [e["time"] for e in entries]
    return [b - a for a, b in zip(times, times[1:])]


# ---- pauses


def mandatory_absent():
    """404 for Nodes and Services, which every server has: a warning, and soon again"""
    server = Server()
    server.faults({"match": {"target": "^%s\\?" % NODES}, "recording": "error-404-group", "times": 3},
                  {"match": {"target": "^%s\\?" % SERVICES}, "recording": "error-404-resource", "times": 3})
    client = Follow(server).listed()  # --absent-ms is five minutes
    client.converged()
    client.logs("warn Nodes: HTTP status 404: 404 page not found; asking again")


def optional_absent():
    """404 and 403 for ServiceCIDRs: the agent does without"""
    for recording in ("error-404-resource", "error-403-list"):
        server = Server()
        server.faults({"match": {"target": "servicecidrs"}, "recording": recording})
        client = Follow(server).listed()
        client.logs("info ServiceCIDRs: not read: ")
        client.stop()
        server.stop()


def absent_is_said_once():
    """a server without ServiceCIDRs, asked again and again: one line of the log"""
    server = Server()
    server.faults({"match": {"target": "servicecidrs"}, "recording": "error-404-resource", "times": 1000})
    client = Follow(server, "--absent-ms", "50").listed()
    wait("four questions", lambda: len(server.asked("servicecidrs")) >= 4)
    expect("lines of the log", client.said().count("ServiceCIDRs: not read: "), 1)


def lists_in_pages():
    """a server without streaming lists: the log says so in a short line, without the server's long text"""
    server = Server()
    server.faults({"match": {"target": SERVICES, "mode": "stream"}, "recording": "error-422-watchlist"})
    client = Follow(server).listed()
    client.converged()
    client.logs("info Services: read in pages: the server has no streaming lists (HTTP status 422)\n")


def gone_again_and_again():
    """lists that work, watches that all end with 410: the pauses grow, and the log has one line"""
    server = Server()
    server.faults({"match": {"target": SERVICES, "mode": "watch"}, "recording": "gone-watch-cached", "times": 1000},
                  {"match": {"target": SERVICES, "mode": "stream"}, "recording": "error-422-watchlist"})
    client = Follow(server, "--backoff-max-ms", "1600")
    lists = wait("eight lists", lambda: [x for x in (server.asked("services", watch=None),) if len(x) >= 8])[0]
    if pauses(lists)[6] < 0.7:  # the seventh pause is 0.8 to 1.6 s
        raise Wrong("pauses between lists: %s" % pauses(lists))
    expect("lines of the log", client.said().count("warn Services: "), 1)
    server.faults()
    add_service(server, "after")
    client.converged()


def gone_once():
    """a watch that worked for a while, then 410 after the server was away: the list at once"""
    server = Server()
    client = Follow(server, "--backoff-min-ms", "20", "--backoff-max-ms", "60000").listed()
    add_service(server, "proof")
    client.converged()
    server.faults({"match": {"target": SERVICES, "mode": "watch"}, "status": 503, "times": 7},
                  {"match": {"target": SERVICES, "mode": "watch"}, "recording": "gone-watch-cached"})
    server.done("POST", "/standin/cut")
    wait("a second list", lambda: len(streams(server)) == 2)
    gone = [e for e in watches(server) if e.get("recording") == "gone-watch-cached"][0]
    again = streams(server)[1]["time"] - gone["time"]
    if again > 0.5:  # the eighth pause would be 1.3 to 2.6 s
        raise Wrong("the list comes %.1f s after the 410" % again)


# ---- silence


def stopped_behind_a_balancer():
    """a load balancer keeps the connection of a dead server: noticed by the watch that is asked for again"""
    server = Server()
    relay = Relay(server.port)
    client = Follow(server, "--api-server", relay.url, "--quiet-ms", "300", "--quiet-watch-s", "1", "--grace-ms", "700").listed()
    client.converged()
    relay.freeze()
    add_service(server, "new")
    client.converged()
    client.logs("no data for 0 s")
    expect("lists", len(streams(server)), 1)


def stopped_http1():
    """the same where each watch has a connection of its own"""
    server = Server("--http1")
    relay = Relay(server.port)
    client = Follow(server, "--api-server", relay.url, "--quiet-ms", "300", "--quiet-watch-s", "1", "--grace-ms", "700").listed()
    client.converged()
    relay.freeze()
    add_service(server, "new")
    client.converged()


def quiet_watch():
    """a watch in which nothing happens is asked for again, with a bookmark at its end: no list, no warning"""
    server = Server()
    client = Follow(server, "--quiet-ms", "200", "--quiet-watch-s", "1").listed()
    add_service(server, "elsewhere")
    wait("short watches", lambda: len([e for e in watches(server, "nodes") if e["query"]["timeoutSeconds"] == "1"]) >= 3)
    versions = [int(e["query"]["resourceVersion"]) for e in watches(server, "nodes")]
    if versions[-1] <= versions[0]:
        raise Wrong("watches begin at %s: the bookmark's version is not used" % versions)
    expect("lists", len(streams(server, "nodes")), 1)
    expect("connections", len({e["connection"] for e in server.log() if e["agent"] == "monokube"}), 1)
    expect("warnings", [line for line in client.said().splitlines() if line.startswith("warn")], [])
    server.patch(NODES + "/worker-1", {"metadata": {"labels": {"a": "b"}}})
    wait("a long watch again", lambda: [e for e in watches(server, "nodes") if int(e["query"]["timeoutSeconds"]) >= 300])
    client.converged()


def stalled_first_list():
    """the first list stops in its middle: given up after the time of a list, not of a watch"""
    server = Server()
    server.faults({"match": {"target": SLICES, "mode": "stream"}, "stall_after": 20000})
    client = Follow(server, "--list-ms", "700").listed()
    client.logs("no data for 0 s")
    client.converged()


# ---- half answers


RIGHT = {"kind": "ServiceList", "apiVersion": "v1", "metadata": {"resourceVersion": "99"}, "items": []}
HALVES = [
    ("no object", "[]"), ("an empty object", "{}"), ("nothing", ""), ("white space", " \n"), ("null", "null"),
    ("a page of HTML", "<!DOCTYPE html><html><body>Service Unavailable</body></html>"),
    ("a list without items", {k: v for k, v in RIGHT.items() if k != "items"}),
    ("items that are an object", dict(RIGHT, items={})), ("items that are a string", dict(RIGHT, items="")),
    ("a list of another kind", dict(RIGHT, kind="NodeList")), ("a list of another group", dict(RIGHT, apiVersion="apps/v1")),
    ("a list without kind", {k: v for k, v in RIGHT.items() if k != "kind"}),
    ("a list without version", dict(RIGHT, metadata={})),
    ("a Status with 200", {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "no backend", "code": 503}),
    ("a list cut off", '{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"99"},"items":['),
    ("a list with more behind it", '{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"99"},"items":[]}{}'),
    ("items in the wrong place", '{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"99","items":[]}}'),
    ("brackets that do not match", '{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"99"},"items":[]]'),
]


def half_lists():
    """a list that is half an answer, or none, with status 200: nothing is removed"""
    server = Server("--no-streaming")
    client = Follow(server, "--backoff-max-ms", "50").listed()
    client.converged()
    for name, body in HALVES:
        client.lines.clear()
        before = len(server.asked("services", watch=None))
        server.faults({"match": {"target": SERVICES, "mode": "watch"}, "recording": "gone-list-exact"},
                      {"match": {"target": SERVICES, "mode": "list"}, "status": 200, "body": body, "times": 2,
                       "headers": {"Content-Type": "text/html" if "HTML" in name else "application/json"}})
        server.done("POST", "/standin/cut")
        wait("the lists after " + name, lambda: len(server.asked("services", watch=None)) >= before + 3)
        client.converged("the model after " + name)
        expect("what changed after " + name, [x for x in client.lines if x.startswith(("gone", "changed"))], [])


def half_streams():
    """a streaming list whose last bookmark is another resource's: nothing is removed"""
    server = Server()
    client = Follow(server, "--backoff-max-ms", "50").listed()
    client.converged()
    client.lines.clear()
    server.faults({"match": {"target": SERVICES, "mode": "watch"}, "recording": "gone-list-exact"},
                  {"match": {"target": SERVICES, "mode": "stream"}, "recording": "watchlist-nodes"},
                  {"match": {"target": SERVICES, "mode": "stream"}, "status": 200, "body": "{}"},
                  {"match": {"target": SERVICES, "mode": "stream"}, "status": 200, "body": ""})
    server.done("POST", "/standin/cut")
    wait("lists", lambda: len(streams(server)) >= 5)
    client.converged()
    expect("what changed", [x for x in client.lines if x.startswith(("gone", "changed"))], [])


def null_items():
    """servers before 1.27 wrote an empty list as null"""
    server = Server("--no-streaming")
    server.faults({"match": {"target": "servicecidrs", "mode": "list"}, "status": 200, "headers": {"Content-Type": "application/json"},
                   "body": {"kind": "ServiceCIDRList", "apiVersion": "networking.k8s.io/v1", "metadata": {"resourceVersion": "99"}, "items": None}})
    Follow(server).listed()


TESTS = [mandatory_absent, optional_absent, absent_is_said_once, lists_in_pages, gone_again_and_again, gone_once, stopped_behind_a_balancer,
         stopped_http1, quiet_watch, stalled_first_list, half_lists, half_streams, null_items]

if __name__ == "__main__":
    sys.exit(run(TESTS))

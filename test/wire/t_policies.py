#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/wire/t_policies.py [PART OF A NAME...] - the API client and the objects of network policies and
service function chains: what is followed while it is wanted, Pods in several lists, CRDs that come and
go, access denied."""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
from harness import ROOT, TMP, WAIT_S, Follow, Server, Wrong, expect, run, wait  # noqa: E402
from objects import streams  # noqa: E402

PODS, NAMESPACES = "/api/v1/pods", "/api/v1/namespaces"
POLICIES = "/apis/networking.k8s.io/v1/networkpolicies"
CHAINS = "/apis/networking.monokube.io/v1alpha1/servicefunctionchains"
ONE_CHAIN = "/apis/networking.monokube.io/v1alpha1/namespaces/shop/servicefunctionchains/%s"
CLUSTER_GROUP = "policy.networking.k8s.io"
CLUSTER_POLICIES = "/apis/policy.networking.k8s.io/v1beta1/clusternetworkpolicies"
KINDS = ("pod ", "namespace ", "policy ", "chain ", "function ")
OWN, OTHER = "worker-1", "worker-2"
MONOKUBE = os.environ.get("MK_BIN") or os.path.join(ROOT, "build/monokube")
RUNNING = "status.podIP!=,status.phase!=Succeeded,status.phase!=Failed"


def pod(name, node, ip="", namespace="shop", phase="Running", labels=None, **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
            "spec": dict({"nodeName": node, "containers": []}, **spec),
            "status": {"phase": phase, **({"podIP": ip, "podIPs": [{"ip": ip}]} if ip else {})}}


def add_pod(server, name, node, *args, **more):
    server.done("POST", "/api/v1/namespaces/shop/pods", pod(name, node, *args, **more))


def set_status(server, name, **status):
    server.patch("/api/v1/namespaces/shop/pods/%s/status" % name, {"status": status})


def add_policy(server, name):
    server.done("POST", "/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies", {
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"podSelector": {}}})


def add_cluster_policy(server, name, priority=5):
    server.done("POST", CLUSTER_POLICIES, {
        "apiVersion": "policy.networking.k8s.io/v1beta1", "kind": "ClusterNetworkPolicy", "metadata": {"name": name},
        "spec": {"tier": "Admin", "priority": priority, "subject": {"namespaces": {}}}})


def add_chain(server, name, **spec):
    server.done("POST", "/apis/networking.monokube.io/v1alpha1/namespaces/shop/servicefunctionchains", {
        "apiVersion": "networking.monokube.io/v1alpha1", "kind": "ServiceFunctionChain",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": dict({"traffic": {"podSelector": {}, "direction": "Egress"}, "functions": [{"name": "fw"}]}, **spec)})


FUNCTION = "networking.monokube.io/function"


def add_function(server, name, node, *args, function="fw"):
    add_pod(server, name, node, *args, labels={FUNCTION: function})


def set_ready(server, name, ready):
    set_status(server, name, conditions=[{"type": "Initialized", "status": "True"},
                                         {"type": "Ready", "status": "True" if ready else "False"}])


def start(server, letters, *args):
    client = Follow(server, *(args if "--node" in args else ("--node", OWN) + args), "--wants").listed()
    known(client, ALL)  # of nothing
    client.lines.clear()
    client.wants(letters)
    return client


def holds(client, *lines, kinds=KINDS):
    """Exactly these objects of policies."""
    def have():
        return sorted(line for line in client.dump() if line.startswith(kinds))
    try:
        wait("the objects", lambda: client.alive() and have() == sorted(lines))
    except Wrong:
        raise Wrong("have %s, expected %s" % (have(), sorted(lines))) from None


def known(client, text):
    wait("known: " + text, lambda: client.alive() and [x for x in client.lines if x.startswith("known")][-1:] == ["known: " + text])


ALL = "policies yes, pods yes, functions yes, peers yes"


def nothing_is_wanted():
    """without policies, none of their resources is asked for"""
    server = Server()
    client = start(server, "")
    client.converged()
    for path in ("pods", "namespaces", "networkpolicies", "clusternetworkpolicies", "servicefunctionchains", "clusterpeers", "publishedclusters", "publishednodes"):
        expect(path, server.asked(path), [])


def policies():
    """both kinds of policies come, change and go, and no longer wanted they vanish"""
    server = Server()
    add_policy(server, "before")
    client = start(server, "p")
    holds(client, "policy shop/before")
    known(client, ALL)
    add_policy(server, "after")
    add_cluster_policy(server, "all")
    holds(client, "policy shop/before", "policy shop/after", "policy all 5")
    server.patch(CLUSTER_POLICIES + "/all", {"spec": {"priority": 6}})
    holds(client, "policy shop/before", "policy shop/after", "policy all 6")
    server.done("DELETE", "/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies/before")
    holds(client, "policy shop/after", "policy all 6")
    client.wants("q")
    holds(client)
    expect("Pods", server.asked("pods"), [])
    client.wants("p")
    holds(client, "policy shop/after", "policy all 6")


def own_pods():
    """the Pods of this node, with Namespaces: also those without address, and finished ones"""
    server = Server()
    server.done("POST", NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "a"}}})
    add_pod(server, "bound", OWN)
    add_pod(server, "done", OWN, "10.244.1.2", phase="Succeeded")
    add_pod(server, "elsewhere", OTHER, "10.244.2.2")
    client = start(server, "o")
    holds(client, "namespace shop kubernetes.io/metadata.name=shop team=a", "pod shop/bound - worker-1",
          "pod shop/done 10.244.1.2 worker-1 finished")
    known(client, ALL)
    expect("selector", streams(server, "pods")[0]["query"]["fieldSelector"], "spec.nodeName=" + OWN)
    expect("Pods that were read", len(streams(server, "pods")), 1)
    set_status(server, "bound", podIP="10.244.1.3", podIPs=[{"ip": "10.244.1.3"}])
    server.patch(NAMESPACES + "/shop", {"metadata": {"labels": {"team": "b"}}})
    holds(client, "namespace shop kubernetes.io/metadata.name=shop team=b", "pod shop/bound 10.244.1.3 worker-1",
          "pod shop/done 10.244.1.2 worker-1 finished")
    client.wants("n")
    holds(client)


def all_pods():
    """the Pods of the cluster: with an address, not finished, not in the host's network; withdrawn, own ones stay"""
    server = Server()
    add_pod(server, "own", OWN, "10.244.1.2", labels={"app": "web"})
    add_pod(server, "done", OWN, "10.244.1.3", phase="Failed")
    add_pod(server, "stays", OWN, "10.244.1.4")
    add_pod(server, "elsewhere", OTHER, "10.244.2.2")
    add_pod(server, "no-address", OTHER, phase="Pending")
    add_pod(server, "host", OTHER, "192.168.50.12", hostNetwork=True)
    own = ["pod shop/own 10.244.1.2 worker-1 app=web", "pod shop/done 10.244.1.3 worker-1 finished",
           "pod shop/stays 10.244.1.4 worker-1"]
    client = start(server, "a")
    holds(client, *own, "pod shop/elsewhere 10.244.2.2 worker-2", kinds="pod ")
    known(client, ALL)
    expect("selector", {e["query"]["fieldSelector"] for e in streams(server, "pods")},
           {"spec.nodeName=" + OWN, "spec.hostNetwork=false," + RUNNING})
    set_status(server, "no-address", phase="Running", podIP="10.244.2.3")
    set_status(server, "elsewhere", phase="Succeeded")
    holds(client, *own, "pod shop/no-address 10.244.2.3 worker-2", kinds="pod ")
    set_status(server, "own", phase="Succeeded")
    own[0] = "pod shop/own 10.244.1.2 worker-1 finished app=web"
    holds(client, *own, "pod shop/no-address 10.244.2.3 worker-2", kinds="pod ")
    client.wants("o")
    holds(client, *own, kinds="pod ")
    client.wants("a")
    holds(client, *own, "pod shop/no-address 10.244.2.3 worker-2", kinds="pod ")
    server.done("DELETE", "/api/v1/namespaces/shop/pods/own")
    holds(client, *own[1:], "pod shop/no-address 10.244.2.3 worker-2", kinds="pod ")


def gone_while_the_history_is_lost():
    """410: Pods that the next lists lack are gone, own ones and others; no other Pod is reported"""
    server = Server()
    for name, node, ip in (("own", OWN, "10.244.1.2"), ("own-stays", OWN, "10.244.1.3"),
                           ("other", OTHER, "10.244.2.2"), ("other-stays", OTHER, "10.244.2.3")):
        add_pod(server, name, node, ip)
    client = start(server, "a")
    known(client, ALL)
    server.faults({"match": {"target": "watch=1"}, "cut": True, "times": 1000})
    server.done("POST", "/standin/cut")
    client.logs("asking again")
    for name in ("own", "other"):
        server.done("DELETE", "/api/v1/namespaces/shop/pods/" + name)
    server.done("POST", "/standin/compact")
    client.lines.clear()
    server.faults()
    holds(client, "pod shop/own-stays 10.244.1.3 worker-1", "pod shop/other-stays 10.244.2.3 worker-2", kinds="pod ")
    expect("reports", sorted(set(line for line in client.lines if line.startswith("pod ") and len(line.split()) == 2)), ["pod shop/other", "pod shop/own"])


def one_report_per_change():
    """a Pod of this node is in both lists, and each change is reported once"""
    server = Server()
    client = start(server, "a")
    known(client, ALL)
    add_pod(server, "own", OWN, "10.244.1.2")
    add_pod(server, "last", OTHER, "10.244.2.2")
    holds(client, "pod shop/own 10.244.1.2 worker-1", "pod shop/last 10.244.2.2 worker-2", kinds="pod ")
    server.patch("/api/v1/namespaces/shop/pods/own", {"metadata": {"labels": {"a": "b"}}})
    server.done("DELETE", "/api/v1/namespaces/shop/pods/last")
    holds(client, "pod shop/own 10.244.1.2 worker-1 a=b", kinds="pod ")
    expect("reports", client.lines.count("pod shop/own"), 2)


def moves():
    """a Pod's name is used again on another node, and comes back"""
    server = Server()
    client = start(server, "a")
    for turn in range(6):
        node = (OWN, OTHER)[turn % 2]
        add_pod(server, "db-0", node, "10.244.1.%d" % turn)
        holds(client, "pod shop/db-0 10.244.1.%d %s" % (turn, node), kinds="pod ")
        server.done("DELETE", "/api/v1/namespaces/shop/pods/db-0")
    holds(client, kinds="pod ")


def moves_while_a_watch_lags():
    """the same while one of the two watches is behind: the later version counts, whichever list has it"""
    for lagging in ("nodeName", "hostNetwork"):
        server = Server()
        client = start(server, "a")
        add_pod(server, "db-0", OWN, "10.244.1.1")
        holds(client, "pod shop/db-0 10.244.1.1 worker-1", kinds="pod ")
        known(client, ALL)
        server.faults({"match": {"target": "pods.*" + lagging}, "status": 503, "times": 3})
        server.done("POST", "/standin/cut")
        server.done("DELETE", "/api/v1/namespaces/shop/pods/db-0")
        add_pod(server, "db-0", OTHER, "10.244.2.1")
        holds(client, "pod shop/db-0 10.244.2.1 worker-2", kinds="pod ")
        client.stop()
        server.stop()


def older_server():
    """a server before 1.28 does not know spec.hostNetwork: the selector goes without"""
    server = Server()
    server.faults({"match": {"target": "spec.hostNetwork"}, "recording": "error-400-field-selector", "times": 1000})
    add_pod(server, "elsewhere", OTHER, "10.244.2.2")
    client = start(server, "a")
    holds(client, "pod shop/elsewhere 10.244.2.2 worker-2", kinds="pod ")
    known(client, ALL)
    expect("requests with that field", len([e for e in server.asked("pods") if "hostNetwork" in e["target"]]), 1)


def crd_comes_and_goes():
    """ClusterNetworkPolicies: none without the CRD; it comes later, goes, and comes again"""
    server = Server()
    group = "policy.networking.k8s.io"
    server.settings(missing=[group])
    client = start(server, "p", "--absent-ms", "500")
    known(client, ALL)
    client.logs("info ClusterNetworkPolicies: not read: the cluster has no such CustomResourceDefinition (HTTP status 404)\n")
    server.settings(missing=[])
    add_cluster_policy(server, "all")
    holds(client, "policy all 5")
    server.settings(missing=[group])
    server.done("POST", "/standin/cut")
    holds(client)
    server.settings(missing=[])
    holds(client, "policy all 5")


def versions_of_cluster_policies():
    """a server with v1beta1 of ClusterNetworkPolicy is asked for that, another one for v1alpha2"""
    for version, streaming in (("v1beta1", True), ("v1beta1", False), ("v1alpha2", True), ("v1alpha2", False)):
        server = Server()
        server.settings(versions={CLUSTER_GROUP: version}, streaming=streaming)
        path = "/apis/%s/%s/clusternetworkpolicies" % (CLUSTER_GROUP, version)
        server.done("POST", path, {"apiVersion": CLUSTER_GROUP + "/" + version, "kind": "ClusterNetworkPolicy", "metadata": {"name": "all"},
                                   "spec": {"tier": "Admin", "priority": 5, "subject": {"namespaces": {}}}})
        client = start(server, "p")
        holds(client, "policy all 5")
        server.patch(path + "/all", {"spec": {"priority": 6}})
        holds(client, "policy all 6")
        server.done("DELETE", path + "/all")
        holds(client)
        expect("versions", {e["path"].split("/")[3] for e in server.asked("clusternetworkpolicies", watch="1") if e["status"] != 404}, {version})
        client.stop()
        server.stop()


def next_version_of_cluster_policies():
    """a CRD that no longer serves v1alpha2 loses no ClusterNetworkPolicy"""
    server = Server()
    server.settings(versions={CLUSTER_GROUP: "v1alpha2"})
    old = {"apiVersion": CLUSTER_GROUP + "/v1alpha2", "kind": "ClusterNetworkPolicy", "metadata": {"name": "all"},
           "spec": {"tier": "Admin", "priority": 5, "subject": {"namespaces": {}}}}
    server.done("POST", "/apis/%s/v1alpha2/clusternetworkpolicies" % CLUSTER_GROUP, old)
    client = start(server, "p")
    holds(client, "policy all 5")
    server.settings(versions={CLUSTER_GROUP: "v1beta1"})
    server.done("POST", "/standin/cut")
    wait("the next version", lambda: [e for e in server.asked("v1beta1/clusternetworkpolicies", watch="1") if e["status"] != 404])
    holds(client, "policy all 5")
    expect("reports", client.lines.count("policy /all"), 1)


def chains():
    """chains come, change and go with policies; one that makes no sense keeps its former version"""
    server = Server()
    add_chain(server, "out")
    client = start(server, "p")
    holds(client, "chain shop/out 0 fw")
    known(client, ALL)
    one = "/apis/networking.monokube.io/v1alpha1/namespaces/shop/servicefunctionchains/out"
    server.patch(one, {"spec": {"priority": 7}})
    holds(client, "chain shop/out 7 fw")
    server.patch(one, {"spec": {"traffic": {"peers": [{"ipBlock": {"cidr": "1::2::3/64"}}]}}})
    client.logs("skipped: ServiceFunctionChain shop/out: spec.traffic.peers[0].ipBlock.cidr: value ")
    add_chain(server, "more", functions=[{"name": "ids"}])
    holds(client, "chain shop/out 7 fw", "chain shop/more 0 ids")
    client.wants("q")
    holds(client)
    client.wants("p")
    holds(client, "chain shop/more 0 ids")
    server.done("DELETE", one)
    expect("function pods", server.asked("labelSelector"), [])


def chains_come_and_go():
    """a server without the CRD of chains, or which refuses it: policies do not wait for it, and it is asked again"""
    group = "networking.monokube.io"
    server = Server()
    add_policy(server, "one")
    server.settings(missing=[group])
    client = start(server, "p", "--absent-ms", "500")
    holds(client, "policy shop/one")
    known(client, ALL)
    client.logs("info ServiceFunctionChains: not read: ")
    server.settings(missing=[])
    add_chain(server, "out")
    holds(client, "policy shop/one", "chain shop/out 0 fw")
    server.settings(missing=[group])
    server.done("POST", "/standin/cut")
    holds(client, "policy shop/one")
    server.settings(missing=[])
    holds(client, "policy shop/one", "chain shop/out 0 fw")
    client.stop()
    server.faults({"match": {"target": "servicefunctionchains"}, "recording": "error-403-list", "times": 1000})
    client = start(server, "p", "--absent-ms", "500")
    known(client, ALL)
    client.logs("info ServiceFunctionChains: not read: ")
    holds(client, "policy shop/one")
    server.faults()
    holds(client, "policy shop/one", "chain shop/out 0 fw")


def only_own_node(server):
    """It is this node's turn to write at once."""
    for node in server.done("GET", "/api/v1/nodes")["items"]:
        if node["metadata"]["name"] != OWN:
            server.done("DELETE", "/api/v1/nodes/" + node["metadata"]["name"])


def chain_of(server, name="out"):
    return server.done("GET", ONE_CHAIN % name)


def conditions(server, name="out"):
    return {c["type"]: c for c in chain_of(server, name).get("status", {}).get("conditions", [])}


def ready_is(server, reason, name="out"):
    return wait("Ready is " + reason, lambda: conditions(server, name).get("Ready", {}).get("reason") == reason and
                conditions(server, name))


def status_writes(server):
    return [e for e in server.log() if e["method"] == "PATCH" and e["path"].endswith("/status") and "/servicefunctionchains/" in e["path"]]


def chain_events(server):
    return sorted((e["type"], e["reason"], e["involvedObject"].get("kind"), e["involvedObject"]["name"])
                  for e in server.done("GET", "/api/v1/namespaces/shop/events")["items"])


def status_of_out(server):
    """Follow a cluster with one chain, and report its status."""
    only_own_node(server)
    add_chain(server, "out")
    client = start(server, "p")
    holds(client, "chain shop/out 0 fw")
    client.wants("s")
    return client


def status_of_chains():
    """the status of a chain is written once, and again only if it changes; a change of Ready is an Event on the chain"""
    server = Server()
    client = status_of_out(server)
    have = ready_is(server, "AllServing")
    expect("Accepted", (have["Accepted"]["status"], have["Accepted"]["reason"]), ("True", "Valid"))
    status = chain_of(server)["status"]
    expect("status", (status["observedGeneration"], status["summary"], status["functions"]),
           (1, "fw 1/1", [{"name": "fw", "ready": 1, "total": 1}]))
    server.patch(ONE_CHAIN % "out", {"spec": {"priority": 7}})
    wait("the next generation", lambda: chain_of(server)["status"]["observedGeneration"] == 2)
    expect("time of Ready", conditions(server)["Ready"]["lastTransitionTime"], have["Ready"]["lastTransitionTime"])
    client.wants("b")
    expect("blocked", ready_is(server, "Blocked")["Ready"]["status"], "False")
    expect("writes", [e["status"] for e in status_writes(server)], [200] * 3)
    wait("two Events", lambda: len(chain_events(server)) == 2)
    expect("Events", chain_events(server), [("Normal", "AllServing", "ServiceFunctionChain", "out"),
                                            ("Warning", "Blocked", "ServiceFunctionChain", "out")])


def status_of_others():
    """what others wrote into the status: conditions of other types stay, and a wrong one is written again once"""
    server = Server()
    only_own_node(server)
    add_chain(server, "out")
    path = ONE_CHAIN % "out/status"
    other = {"type": "Audited", "status": "True", "reason": "Seen", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    server.patch(path, {"status": {"conditions": [other]}})
    client = start(server, "p")
    holds(client, "chain shop/out 0 fw")
    client.wants("s")
    expect("the other's condition", ready_is(server, "AllServing")["Audited"], other)
    server.patch(path, {"status": {"summary": "wrong"}})
    client.wants("b")
    ready_is(server, "Blocked")
    expect("summary", chain_of(server)["status"]["summary"], "fw 0/1")
    writes = len(status_writes(server))
    server.patch(path, {"status": {"summary": "wrong"}})
    add_chain(server, "more")
    holds(client, "chain shop/out 0 fw", "chain shop/more 0 fw")
    client.wants("b")
    ready_is(server, "Blocked", "more")
    expect("what another one insists on", chain_of(server)["status"]["summary"], "wrong")
    expect("writes", len(status_writes(server)), writes + 2)  # the test's, and that of `more`


def status_of_a_bad_chain():
    """a chain that makes no sense is not accepted, with field and value; its last good version stays in force"""
    server = Server()
    client = status_of_out(server)
    ready_is(server, "AllServing")
    bad = {"peers": [{"ipBlock": {"cidr": "1::2::3/64"}}]}
    server.patch(ONE_CHAIN % "out", {"spec": {"traffic": bad}})
    add_chain(server, "new", traffic=dict(bad, podSelector={}, direction="Egress"))
    for name, ready in (("out", "AllServing"), ("new", "NotAccepted")):
        wait(name + " is not accepted", lambda of=name: conditions(server, of).get("Accepted", {}).get("status") == "False")
        accepted = conditions(server, name)["Accepted"]
        expect("reason", accepted["reason"], "Invalid")
        expect("field and value", "spec.traffic.peers[0].ipBlock.cidr" in accepted["message"] and "1::2::3/64" in accepted["message"], True)
        expect("Ready of " + name, conditions(server, name)["Ready"]["reason"], ready)
    expect("no summary of new", "summary" in chain_of(server, "new")["status"], False)
    server.patch(ONE_CHAIN % "out", {"spec": {"traffic": {"peers": None}}})
    wait("accepted again", lambda: conditions(server)["Accepted"]["status"] == "True")


def who_writes_the_status():
    """of agents on all nodes one writes at once; without it the next one does"""
    server = Server()
    add_chain(server, "out")
    names = [n["metadata"]["name"] for n in server.done("GET", "/api/v1/nodes")["items"]]
    clients = {name: start(server, "p", "--node", name) for name in names}
    for client in clients.values():
        holds(client, "chain shop/out 0 fw")
        client.wants("s")
    ready_is(server, "AllServing")
    expect("writes", [e["status"] for e in status_writes(server)], [200])
    hosts = [e["source"]["host"] for e in wait("an Event", lambda: server.done("GET", "/api/v1/namespaces/shop/events")["items"])]
    expect("Events", len(hosts), 1)
    clients.pop(hosts[0]).stop()
    for client in clients.values():
        client.wants("b")
    ready_is(server, "Blocked")
    wait("the next writer's Event", lambda: len(server.done("GET", "/api/v1/namespaces/shop/events")["items"]) == 2)


def not_ready():
    """the agent of a node that is not Ready writes no status"""
    server = Server()
    names = [n["metadata"]["name"] for n in server.done("GET", "/api/v1/nodes")["items"]]
    for name in names[1:]:
        server.patch("/api/v1/nodes/%s/status" % name, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    chains = ["c%d" % i for i in range(8)]  # each has its own order of nodes
    for chain in chains:
        add_chain(server, chain)
    for name in names:
        client = start(server, "p", "--node", name)
        holds(client, *("chain shop/%s 0 fw" % c for c in chains))
        client.wants("s")
    for chain in chains:
        ready_is(server, "AllServing", chain)
    wait("Events", lambda: len(server.done("GET", "/api/v1/namespaces/shop/events")["items"]) == len(chains))
    expect("who wrote", {e["source"]["host"] for e in server.done("GET", "/api/v1/namespaces/shop/events")["items"]}, {names[0]})


def refused_status():
    """conflicts, a server that is away, an old ClusterRole or resource: written when it works, with one line that has the remedy"""
    server = Server()
    only_own_node(server)
    add_chain(server, "out")
    client = start(server, "p")
    holds(client, "chain shop/out 0 fw")
    server.faults({"match": {"method": "PATCH", "target": "/servicefunctionchains/"}, "status": 503, "times": 1})
    client.wants("s")
    ready_is(server, "AllServing")
    server.faults({"match": {"method": "PATCH", "target": "/servicefunctionchains/"}, "status": 403, "times": 1000})
    client.wants("b")
    client.logs("patch on servicefunctionchains/status")
    client.wants("s")
    client.wants("b")
    server.faults()
    add_chain(server, "more")
    holds(client, "chain shop/out 0 fw", "chain shop/more 0 fw")
    client.wants("s")
    ready_is(server, "AllServing", "more")
    expect("lines of the log", client.said().count("refuses its status"), 1)
    server.faults({"match": {"method": "PATCH", "target": "/servicefunctionchains/"}, "status": 422, "times": 1000})
    client = start(server, "p")
    holds(client, "chain shop/out 0 fw", "chain shop/more 0 fw")
    client.wants("b")
    client.logs("apply the chains.yaml of this version")


def annotate(server, name, **annotations):
    server.patch("/api/v1/namespaces/shop/pods/" + name, {"metadata": {"annotations": {
        key.replace("__", "/").replace("_", "."): value for key, value in annotations.items()}}})


def function_pods():
    """function pods of all nodes, by label, whether they are ready, and what their annotations say"""
    server = Server()
    add_function(server, "fw-1", OTHER)
    add_pod(server, "plain", OTHER, "10.244.2.2", labels={"app": "web"})
    client = start(server, "f")
    holds(client, "function shop/fw-1 fw worker-2", kinds="function ")
    known(client, ALL)
    expect("selector", streams(server, "pods")[0]["query"]["labelSelector"], FUNCTION)
    expect("Pods that were read", len(streams(server, "pods")), 1)
    add_function(server, "fw-2", OWN)
    set_ready(server, "fw-1", True)
    holds(client, "function shop/fw-1 fw worker-2 ready", "function shop/fw-2 fw worker-1", kinds="function ")
    annotate(server, "fw-2", networking_monokube_io__weight="7", example_com__other="x")
    annotate(server, "fw-1", k8s_v1_cni_cncf_io__networks="a@inside")
    holds(client, "function shop/fw-1 fw worker-2 ready ports", "function shop/fw-2 fw worker-1 weight 7", kinds="function ")
    annotate(server, "fw-1", k8s_v1_cni_cncf_io__networks=None)
    set_ready(server, "fw-1", False)
    server.patch("/api/v1/namespaces/shop/pods/plain", {"metadata": {"labels": {FUNCTION: "ids"}}})
    server.patch("/api/v1/namespaces/shop/pods/fw-2", {"metadata": {"labels": {FUNCTION: None}}})
    holds(client, "function shop/fw-1 fw worker-2", "function shop/plain ids worker-2", kinds="function ")
    client.wants("g")
    holds(client)


def function_pods_in_all_lists():
    """the list of function pods says whether they are ready, and a Pod that loses the label stays a Pod"""
    server = Server()
    client = start(server, "fa")
    known(client, ALL)
    add_function(server, "fw", OWN, "10.244.1.2")
    for turn in range(8):
        set_ready(server, "fw", turn % 2 == 0)
        holds(client, "function shop/fw fw worker-1" + ("" if turn % 2 else " ready"), kinds="function ")
    set_ready(server, "fw", True)
    server.faults({"match": {"target": "labelSelector"}, "status": 503, "times": 2})
    server.done("POST", "/standin/cut")
    server.patch("/api/v1/namespaces/shop/pods/fw", {"metadata": {"labels": {"a": "b"}}})
    line = "pod shop/fw 10.244.1.2 worker-1 %s%s=fw"
    holds(client, line % ("a=b ", FUNCTION), kinds="pod ")
    holds(client, "function shop/fw fw worker-1 ready", kinds="function ")
    server.patch("/api/v1/namespaces/shop/pods/fw", {"metadata": {"labels": {FUNCTION: None}}})
    holds(client, "pod shop/fw 10.244.1.2 worker-1 a=b", kinds=("pod ", "function "))
    server.patch("/api/v1/namespaces/shop/pods/fw", {"metadata": {"labels": {FUNCTION: "ids"}}})
    holds(client, "function shop/fw ids worker-1 ready", kinds="function ")
    client.wants("n")
    holds(client, "function shop/fw ids worker-1 ready", kinds="function ")
    client.wants("og")
    holds(client, "pod shop/fw 10.244.1.2 worker-1 a=b %s=ids" % FUNCTION, kinds="pod ")
    server.done("DELETE", "/api/v1/namespaces/shop/pods/fw")
    holds(client, kinds=("pod ", "function "))


def one_404_is_no_deletion():
    """one 404 for ClusterNetworkPolicies, of a server that restarts, removes nothing"""
    server = Server()
    add_cluster_policy(server, "all")
    client = start(server, "p")
    holds(client, "policy all 5")
    server.faults({"match": {"target": "clusternetworkpolicies"}, "recording": "error-404-group", "times": 2})
    server.done("POST", "/standin/cut")
    wait("three questions", lambda: len([e for e in server.asked("clusternetworkpolicies", watch="1") if e["status"] == 404]) == 2)
    add_cluster_policy(server, "more", 7)
    holds(client, "policy all 5", "policy more 7")
    expect("reports", client.lines.count("policy /all"), 1)


def denied():
    """an old ClusterRole: one line with the remedy, and policies count as not listed until it allows them"""
    for path, letters in (("networkpolicies", "p"), ("clusternetworkpolicies", "p"), ("namespaces", "o"), ("pods", "a")):
        server = Server()
        server.faults({"match": {"target": "/%s\\?" % path}, "recording": "error-403-list", "times": 1000})
        client = start(server, letters, "--absent-ms", "100")
        client.logs(": not read: HTTP status 403")
        client.logs("apply monokube's manifest again")
        wait("four questions", lambda of=path: len(server.asked("/" + of)) >= 4)
        expect("what is known", [x for x in client.lines if x.startswith("known")], [])
        server.faults()
        known(client, ALL)
        expect("lines of the log", client.said().count("not read: "), 2 if letters == "a" else 1)
        client.stop()
        server.stop()


def denied_at_first():
    """a server that starts denies access until it has read its roles: that is asked again soon, not in minutes"""
    server = Server()
    server.faults(*({"match": {"target": "/%s\\?" % path}, "recording": "error-403-list", "times": 3} for path in (
        "networkpolicies", "clusternetworkpolicies", "servicefunctionchains", "namespaces", "servicecidrs")))
    client = start(server, "p")
    add_policy(server, "all")
    add_cluster_policy(server, "all")
    add_chain(server, "out")
    known(client, ALL)
    for line in ("policy shop/all", "policy all 5", "chain shop/out"):
        wait(line, lambda line=line: any(x.startswith(line) for x in client.dump()))


def one_bad_object():
    """a policy that makes no sense keeps its previous version, and nothing else suffers"""
    server = Server()
    add_policy(server, "good")
    client = start(server, "p")
    holds(client, "policy shop/good")
    server.patch("/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies/good",
                 {"spec": {"podSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}})
    client.logs("skipped: NetworkPolicy shop/good: spec.podSelector.matchExpressions[0].operator")
    add_policy(server, "other")
    holds(client, "policy shop/good", "policy shop/other")


def check_says(server, *more):
    """What `monokube check` says of policies, from a state directory with the agent's settings."""
    state = os.path.join(TMP, "state")
    os.makedirs(state, exist_ok=True)
    with open(os.path.join(state, "settings"), "w") as f:
        f.write("NODE_NAME=%s\nKUBECONFIG=%s/kubeconfig\napiServer=\n" % (OWN, server.dir))
    done = subprocess.run([MONOKUBE, "check", "--state-dir", state, "-o", "json", *more], capture_output=True, text=True,
                          timeout=2 * WAIT_S, check=False)
    return [f["says"] for f in json.loads(done.stdout) if f["check"] == "policies"]


def check_compares():
    """`monokube check` reads policies and pods once, and names what does not fit"""
    server = Server()
    expect("without policies", check_says(server), [])
    expect("pods are not asked for", server.asked("/pods"), [])
    server.done("POST", NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    add_policy(server, "none")
    expect("without pods", check_says(server), ["shop/none: selects no pod"])
    add_pod(server, "web", OTHER, ip="10.244.2.2", containers=[{"name": "c", "ports": [{"containerPort": 8080}]}])
    expect("with a pod", check_says(server), ["1 in the cluster; each selects pods, which declare its ports"])
    server.patch("/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies/none",
                 {"spec": {"ingress": [{"ports": [{"port": 80}]}]}})
    server.done("POST", "/apis/policy.networking.k8s.io/v1alpha1/adminnetworkpolicies", {
        "apiVersion": "policy.networking.k8s.io/v1alpha1", "kind": "AdminNetworkPolicy", "metadata": {"name": "old"}})
    expect("what does not fit", check_says(server), [
        "AdminNetworkPolicy old: not enforced, because monokube does not read policy.networking.k8s.io/v1alpha1",
        "shop/none: ingress rule 1: no selected pod declares port TCP 80"])
    server.stop()
    says = check_says(server)
    expect("the server is away", len(says) == 1 and says[0].startswith("not compared with the cluster's pods: "), True)


if __name__ == "__main__":
    sys.exit(run([nothing_is_wanted, policies, own_pods, all_pods, gone_while_the_history_is_lost, one_report_per_change, moves, moves_while_a_watch_lags,
                  older_server, crd_comes_and_goes, versions_of_cluster_policies,
                  next_version_of_cluster_policies, chains, chains_come_and_go, status_of_chains, status_of_others,
                  status_of_a_bad_chain, who_writes_the_status, not_ready, refused_status, function_pods, function_pods_in_all_lists, one_404_is_no_deletion, denied, denied_at_first, one_bad_object, check_compares]))

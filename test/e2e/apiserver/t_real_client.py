#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/e2e/apiserver/t_real_client.py [PART OF A NAME...] - the agent's API client follows a real API server: streaming
lists, pages, lost history, restarts, GOAWAY, priority and fairness, missing rights."""
import signal
import sys
import threading

sys.dont_write_bytecode = True
from real import ACCOUNT, RealServer  # noqa: E402
import t_client  # noqa: E402
import t_policies  # noqa: E402
import t_server  # noqa: E402
from harness import TOKEN, Follow, expect, run, wait  # noqa: E402
from objects import SERVICES, add_service, add_slice, streams, watches  # noqa: E402
from t_client import only_changed  # noqa: E402

for module in (t_client, t_policies, t_server):
    module.Server = RealServer
FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1/"


def streaming_list():
    """streaming lists with the ClusterRole's rights; changes are followed, and nothing is read again"""
    server = RealServer()
    client = Follow(server).listed()
    client.converged()
    client.logs("API server version=v1.36.4 lists=streaming endpoints=EndpointSlices ServiceCIDRs=yes\n")
    add_service(server, "new")
    add_slice(server, "new-1", "new", "10.244.1.7")
    client.converged("a new Service")
    server.done("DELETE", SERVICES.replace("services", "namespaces/shop/services/new"))
    client.converged("a deletion")
    requests = [e for e in server.log() if e["user"] == ACCOUNT]
    expect("requests", sorted(e["path"].rpartition("/")[2] for e in requests), ["endpointslices", "nodes", "servicecidrs", "services", "version"])
    expect("refused", server.refused(), [])


def watch_ends():
    """watches end after their time, and go on from the bookmark before the end, without a list"""
    server = RealServer()
    client = Follow(server, "--watch-s", "3").listed()
    before = int(server.done("GET", "/api/v1/nodes?limit=1")["metadata"]["resourceVersion"])
    add_service(server, "elsewhere")
    wait("a watch from a bookmark", lambda: [e for e in watches(server, "nodes") if int(e["query"]["resourceVersion"]) > before])
    expect("lists", len(streams(server, "nodes")), 1)
    add_service(server, "later")
    client.converged()


def pages(*more):
    """a server without streaming lists: pages with the server's own continue tokens"""
    server = RealServer("--feature-gates=WatchList=false", *more)
    client = Follow(server, "--page", "7").listed()
    client.converged()
    client.logs("lists=paged")
    expect("pages of Services", len(server.asked("services", limit="7")), 8)
    add_service(server, "new")
    client.converged()


def pages_of_etcd():
    """the same without a watch cache, so that lists and watches come from etcd"""
    pages("--watch-cache=false")


def churn(server, end):
    number = 0
    while not end.is_set():
        number += 1
        server.patch("/api/v1/namespaces/shop/services/web", {"metadata": {"labels": {"round": str(number)}}})
        server.etcd.compact()


def pages_get_lost():
    """history ends between two pages, 410: the list is read in one piece"""
    server = RealServer("--feature-gates=WatchList=false", "--watch-cache=false")
    end = threading.Event()
    thread = threading.Thread(target=churn, args=(server, end))
    thread.start()
    try:
        client = wait("a page that is lost", lambda: lost_page(server))
    finally:
        end.set()
        thread.join()
    client.converged()


def lost_page(server):
    client = Follow(server, "--page", "1").listed()
    if [e for e in server.log() if e["status"] == 410 and "continue" in e["query"]]:
        return client
    client.stop()
    return None


def second_server(first):
    """Another API server on the same etcd, as in a control plane of several nodes."""
    return RealServer(recorded=False, manifests=[], etcd=first.etcd)


def change(server):
    add_service(server, "new")
    server.done("DELETE", "/api/v1/namespaces/team-a/services/app-3")
    server.patch("/api/v1/namespaces/shop/services/web", {"spec": {"sessionAffinity": "ClientIP"}})


CHANGED = ("changed shop/new", "gone team-a/app-3", "changed shop/web")


def lost_history():
    """while its server is down, another one changes objects and etcd's history ends: the list again, only differences told"""
    server = RealServer()
    client = Follow(server).listed()
    client.converged()
    other = second_server(server)
    server.down()
    client.logs("asking again")
    change(other)
    server.etcd.compact()
    client.lines.clear()
    server.start()
    client.converged()
    only_changed(client, *CHANGED)
    client.logs("too old resource version")


def comes_back(server, number):
    client = Follow(server).listed()
    for name in ("first", "second"):
        server.down(number)
        client.logs("asking again")
        client.lines.clear()
        server.start()
        client.logs("following the API server again")
        add_service(server, name)
        client.converged()
        only_changed(client, "changed shop/" + name)


def killed():
    """the server is killed and comes back, twice: what changed is told, and nothing twice"""
    comes_back(RealServer(), signal.SIGKILL)


def ends_in_order():
    """the same if the server ends its watches in order, with GOAWAY"""
    comes_back(RealServer("--shutdown-watch-termination-grace-period=5s"), signal.SIGTERM)


def drains():
    """a server that drains answers 429 to new requests, and goes; the next one at its address is followed"""
    server = RealServer("--shutdown-send-retry-after", "--shutdown-watch-termination-grace-period=5s")
    client = Follow(server).listed()
    client.converged()
    with server.held(TOKEN):
        server.process.send_signal(signal.SIGTERM)
        client.logs("Services: HTTP status 429: The apiserver is shutting down, please try again later.")
    server.down()
    server.start()
    add_service(server, "new")
    client.converged()


def goes_away():
    """each answer comes with GOAWAY, so each request needs a connection: watches last, and requests stay few"""
    server = RealServer("--goaway-chance=1")
    client = Follow(server).listed()
    client.converged()
    for name in ("one", "two", "three"):
        add_service(server, name)
        client.converged(name)
    requests = [e for e in server.log() if e["user"] == ACCOUNT]
    expect("requests for Services", [e["status"] for e in requests if e["path"] == SERVICES][1:], [])


def starve(server):
    """One request of the agent at a time, and others get 429."""
    server.done("POST", FLOW + "prioritylevelconfigurations", {"metadata": {"name": "starved"}, "spec": {
        "type": "Limited", "limited": {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
                                       "limitResponse": {"type": "Reject"}}}})
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    server.done("POST", FLOW + "flowschemas", {"metadata": {"name": "starved"}, "spec": {
        "priorityLevelConfiguration": {"name": "starved"}, "matchingPrecedence": 2, "rules": [{
            "subjects": [{"kind": "User", "user": {"name": ACCOUNT}}], "resourceRules": [everything],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}]}})
    wait("the share", lambda: "starved" in server.exchange("GET", "/debug/api_priority_and_fairness/dump_priority_levels")[1].decode())


def starved():
    """priority and fairness gives the agent nothing, 429: it asks with growing pauses, and follows once it gets a share"""
    server = RealServer()
    starve(server)
    with server.held(ACCOUNT):
        wait("429", lambda: server.exchange("GET", SERVICES, token=ACCOUNT)[0] == 429)
        client = Follow(server)
        wait("three refusals", lambda: len([e for e in server.asked("/services", watch="1") if e["status"] == 429]) >= 3)
        client.logs("HTTP status 429")
    client.listed().converged()
    client.logs("following the API server again")


def no_rights():
    """the ClusterRoleBinding comes late: the log has the server's words, and the agent follows once it is there"""
    server = RealServer()
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/monokube"
    binding = server.done("GET", path)
    server.done("DELETE", path)
    wait("no rights", lambda: server.exchange("GET", SERVICES, token=ACCOUNT + "@worker-1")[0] == 403)
    client = Follow(server)
    client.logs('services is forbidden: User "%s" cannot watch resource "services"' % ACCOUNT)
    server.add({k: binding[k] for k in ("apiVersion", "kind", "roleRef", "subjects")} | {"metadata": {"name": "monokube"}})
    client.listed().converged()


def starts_with_it():
    """an agent that starts with its server, which denies access until it has read its roles, knows the policies soon"""
    server = RealServer()
    server.down()
    client = Follow(server, "--node", "worker-1", "--wants", "--backoff-max-ms", "60")  # so that it asks in these milliseconds
    client.wants("p")
    client.logs("asking again")
    server.start()
    client.listed()
    t_policies.add_policy(server, "all")
    t_policies.known(client, t_policies.ALL)
    wait("the policy", lambda: any(line.startswith("policy shop/all") for line in client.dump()))


def compressed():
    """400 Services more: the server compresses its pages"""
    server = RealServer("--feature-gates=WatchList=false")
    for number in range(400):
        add_service(server, "many-%d" % number)
    Follow(server).listed().converged()


TESTS = [streaming_list, watch_ends, pages, pages_of_etcd, pages_get_lost, compressed, lost_history, killed, ends_in_order, drains,
         goes_away, starved, no_rights, starts_with_it, t_client.both_families, t_server.nonsense, t_server.service_cidrs, t_server.ready_condition,
         t_server.wireguard, t_server.events]

if __name__ == "__main__":
    sys.exit(run(TESTS))

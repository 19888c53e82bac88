#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/e2e/apiserver/t_real_leader.py [PART OF A NAME...] - what agents write to a real API server: statuses, Events, the
Lease, copies, ServiceImports and slices, by server-side apply. The cases are those of test/wire. All admission policies
of manifests/ hold, and at the end of each case nothing that the agent asked for may have been refused."""
import functools
import os
import subprocess
import sys

sys.dont_write_bytecode = True
import real  # noqa: E402
from real import ROOT, RealServer  # noqa: E402
import t_join  # noqa: E402
import t_leader  # noqa: E402
import t_peer_apis  # noqa: E402
import t_peers  # noqa: E402
import t_policies  # noqa: E402
from harness import Follow, expect, run, wait  # noqa: E402

for module in (t_join, t_leader, t_peer_apis, t_peers, t_policies):
    module.Server = RealServer
real.MANIFESTS += ["own-node-status.yaml", "peers-admission.yaml"]


def granted(test):
    """The same case, and the agents were allowed to do what they tried."""
    @functools.wraps(test)
    def case():
        RealServer.made.clear()
        test()
        expect("refused", [e for server in RealServer.made for e in server.refused()], [])
    return case


def manifest(name):
    return os.path.join(ROOT, "manifests", name)


def crd_comes_and_goes():
    """the CRD of chains is deleted, with its objects, and applied again"""
    server = RealServer()
    client = Follow(server, "--node", "worker-1", "--wants", "--absent-ms", "1000").listed()
    client.wants("p")
    t_policies.add_chain(server, "out")

    def chains():
        return [line.split()[1] for line in client.dump() if line.startswith("chain ")]
    wait("the chain", lambda: chains() == ["shop/out"])
    server.kubectl("delete", "-f", manifest("chains.yaml"))
    wait("no chain", lambda: not chains())
    server.kubectl("apply", "-f", manifest("chains.yaml"))
    server.established(["chains.yaml"])
    t_policies.add_chain(server, "back")
    wait("the new chain", lambda: chains() == ["shop/back"])


def leads_on():
    """the server is killed under a leader and comes back: the same agent leads, and publishes what changed"""
    server = RealServer()
    t_leader.add_web(server, "10.244.1.5")
    t_leader.add_export(server, "front")
    client = t_leader.leads(Follow(server, "--node", "worker-1", "--cluster", "west").listed())
    wait("slices", lambda: t_leader.addresses(server) == ["10.244.1.5"], t_leader.MANY_S)
    holder = server.done("GET", t_leader.LEASE)["spec"]["holderIdentity"]
    server.down()
    client.logs("asking again")
    server.start()
    server.patch(t_leader.SLICES % "shop" + "/front-abc12", {"endpoints": [{"addresses": ["10.244.1.6"]}]})
    wait("the new address", lambda: t_leader.addresses(server) == ["10.244.1.6"], t_leader.MANY_S)
    spec = server.done("GET", t_leader.LEASE)["spec"]
    expect("Lease", (spec["holderIdentity"], spec["leaseTransitions"]), (holder, 0))


def inbox():
    """a branch writes into its inbox at a hub, and both use what the other one exports: `monokube peer invite --inbox` gives the rights"""
    hub, west = RealServer(), RealServer()
    invitation = subprocess.run([t_join.MONOKUBE, "peer", "invite", "west", "--inbox", "--cluster", "east"], capture_output=True,
                                text=True, check=True).stdout
    hub.kubectl("apply", "-f", "-", stdin=invitation)
    for server, name, address in ((hub, "back", "10.244.1.6"), (west, "front", "10.244.1.5")):
        t_leader.add_service(server, name)
        t_leader.add_slice(server, name + "-abc12", name, address)
        t_leader.add_export(server, name)
    token = "system:serviceaccount:monokube-peers:invite-west"
    t_peer_apis.add_secret(west, t_peer_apis.secret_of(hub, token=token))
    t_peer_apis.add_peer(west, "east", podCidr="240.0.0.0/16", secretName="peer-east", publishTo=True)
    hub.patch(t_peer_apis.PEERS + "/west", {"spec": {"podCidr": "240.7.0.0/16"}})
    for server, name in ((west, "west"), (hub, "east")):
        t_leader.leads(Follow(server, "--node", "worker-1", "--cluster", name, *t_leader.SHORT).listed())
    for server in (west, hub):
        t_leader.has("imports", server, t_leader.MCS + "serviceimports", ["back", "front"])
    wait("the branch's endpoint", lambda: "240.7.1.5" in t_leader.addresses(hub), t_leader.MANY_S)
    wait("the hub's endpoint", lambda: "240.0.1.6" in t_leader.addresses(west), t_leader.MANY_S)
    expect("refused to the branch", [e for e in hub.log() if e["user"] == token and e["status"] == 403], [])


class Cluster(t_join.Cluster):
    """The manifests have its Role."""
    def __init__(self, context, name, role=False, fills=True):
        super().__init__(context, name, role, fills)


t_join.Cluster = Cluster


LEADS = [t_leader.publishes, t_leader.pods_of_peers, t_leader.restored, t_leader.two_agents, t_leader.left_behind, t_leader.peer_left_behind, t_leader.views,
         t_leader.view_is_kept, t_leader.cluster_vanishes, t_leader.hub_relays, t_leader.branch_is_introduced, t_leader.introduced_is_taken_over,
         t_leader.pool_is_exhausted, t_leader.what_is_taken]
APIS = [t_peer_apis.by_hand, t_peer_apis.certificate, t_peer_apis.in_turn, t_peer_apis.hub_is_read, inbox]
JOINS = [t_join.joins, t_join.inbox, t_join.dry_run, t_join.leaves, t_join.rotates]
STATUS = [t_policies.status_of_chains, t_policies.status_of_others, t_policies.status_of_a_bad_chain, t_policies.who_writes_the_status,
          t_policies.function_pods, t_policies.all_pods, t_policies.moves, t_peers.peers]

if __name__ == "__main__":
    sys.exit(run([crd_comes_and_goes, leads_on] + [granted(test) for test in LEADS + APIS + JOINS + STATUS]))

# SPDX-License-Identifier: Apache-2.0
"""cluster_systems.py - the systems that perf/clusters/compare measures: four labs with the same pod range.
West has two nodes, the others have one. Each system is a place that the client in west asks. All are of
IPv4."""
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import systems  # noqa: E402
from systems import run  # noqa: E402

VIEWS = {"west": "240.1.0.0/16", "east": "240.2.0.0/16", "hub": "240.3.0.0/16", "far": "240.4.0.0/16"}
SITES = {name: number for number, name in enumerate(VIEWS, 1)}
PAIRS = [("west", "east"), ("west", "hub"), ("far", "hub")]  # that read each other directly


class Lab(systems.Monokube):
    """A cluster. Its server is the first pod of node1; in west that is the client, and the server is on
    node2."""

    def __init__(self, prefix, cluster):
        super().__init__(f"{prefix}{cluster[0]}")
        self.cluster, self.is_west = cluster, cluster == "west"
        self.flags = f"--cluster-name {self.cluster} --peer-pools 240.0.0.0/6"

    def node_names(self):
        return ["node1", "node2"] if self.is_west else ["node1"]

    def up(self):
        self.lab("up", len(self.node_names()), "--site", SITES[self.cluster])
        self.lab("pod", "node1", "client" if self.is_west else "server")
        if self.is_west:
            self.lab("pod", "node2", "server")
            self.prepare_client("client")
        self.serve("server")

    def plug_into(self, switch):
        """Move the nodes' cables to the switch of another lab. All networks are on that link."""
        for node in self.node_names():
            if switch != self.name("underlay"):
                port = f"{self.cluster}-{node}"
                self.ip("underlay", "link", "set", "dev", node, "down")
                self.ip("underlay", "link", "set", "dev", node, "name", port, "netns", switch)
                run("ip", "-n", switch, "link", "set", "dev", port, "master", "br0", "up")
            for site in set(SITES.values()) - {SITES[self.cluster]}:
                self.ip(node, "route", "add", f"192.168.{100 + site}.0/24", "dev", "eth0")

    def apply(self, name, text):
        path = Path(f"/run/mklab-{self.prefix}/{name}.yaml")
        path.write_text(text)
        self.lab("apply", path)

    def publish_to(self, other, via=None):
        """Become a peer of the other lab."""
        other.apply(f"published-{self.cluster}", self.lab("exec", "node1", self.binary, "peer", "publish"))
        more = {"via": via} if via else {"relay": True} if other.cluster == "hub" else {}
        other.apply(f"peer-{self.cluster}", json.dumps({
            "apiVersion": "networking.monokube.io/v1alpha1", "kind": "ClusterPeer", "metadata": {"name": self.cluster},
            "spec": {"podCidr": VIEWS[self.cluster], "access": "Pods", **more}}))


class Place:
    """What the client in west asks."""

    def __init__(self, labs, cluster):
        self.labs = labs
        self.address = "10.244.2.2" if cluster == "west" else VIEWS[cluster].replace("0.0/16", "1.2")

    def place_named(self, _path):
        return self.labs["west"].name("client"), self.address, {}

    def up(self):
        pass

    def set_services(self, _count):
        pass

    def down(self):
        for lab in self.labs.values():
            lab.down()
        self.labs.clear()


def labs_of(places):
    return list(next(iter(places.values())).labs.values())


def join(places):
    labs = next(iter(places.values())).labs
    for lab in labs.values():
        lab.plug_into(labs["west"].name("underlay"))
    for one, other in PAIRS:
        labs[one].publish_to(labs[other])
        labs[other].publish_to(labs[one])
    labs["west"].publish_to(labs["far"], via="hub")
    labs["far"].publish_to(labs["west"], via="hub")


def all_systems():
    prefix = f"pk{os.getpid() % 100000}"
    labs = {cluster: Lab(prefix, cluster) for cluster in VIEWS}
    return {"node": Place(labs, "west"), "direct": Place(labs, "east"), "hub": Place(labs, "far")}

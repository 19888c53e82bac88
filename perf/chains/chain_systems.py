# SPDX-License-Identifier: Apache-2.0
"""chain_systems.py - the systems that perf/chains/compare measures. In each of them but two, a
client's traffic to a server on the same node passes through a namespace in which a bridge joins two
ports. What differs is how it gets there. All are of IPv4."""
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import systems  # noqa: E402
from systems import run, wait_until  # noqa: E402

CHAINED, FREE = "shop", "free"  # namespaces
FUNCTION = "networking.monokube.io/function"


def bridge_up(system, short, *ports):
    """A bridge that joins devices of a namespace, as the plugin makes it in a Bridged function."""
    system.ip(short, "link", "add", "chain", "type", "bridge", "mcast_snooping", "0")
    for port in ports:
        system.ip(short, "link", "set", "dev", port, "master", "chain", "up")
    system.ip(short, "link", "set", "chain", "up")


def chain_object(name, namespace, functions):
    return {"apiVersion": "networking.monokube.io/v1alpha1", "kind": "ServiceFunctionChain",
            "metadata": {"name": name, "namespace": namespace, "uid": name,
                         "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"traffic": {"podSelector": {}, "direction": "Egress"},
                     "functions": [{"name": function} for function in functions]}}


class Wire(systems.Limit):
    """Client, function and server, joined by bare veth pairs."""

    measures = {"pod-pod-near"}

    def wire(self):
        self.add("function")
        for end, port in (("a", "inside"), ("b", "outside")):
            self.cable(end, "eth0", "function", port)
        bridge_up(self, "function", "inside", "outside")
        self.addresses_up()

    def cable(self, one, device, other, port):
        run("ip", "link", "add", device, "netns", self.name(one), "type", "veth", "peer", "name", port, "netns",
            self.name(other))


class Bridges(Wire):
    """The same by two bridges of a node: what networks for functions do without a program."""

    def wire(self):
        for short in ("host", "function"):
            self.add(short)
        self.sysctl("host", **{"net__bridge__bridge-nf-call-iptables": 0, "net__bridge__bridge-nf-call-ip6tables": 0})
        for end, port in (("a", "inside"), ("b", "outside")):
            self.cable(end, "eth0", "host", f"to-{end}")
            self.cable("function", port, "host", port)
            bridge = f"br-{end}"
            self.ip("host", "link", "add", bridge, "type", "bridge")
            for device in (f"to-{end}", port):
                self.ip("host", "link", "set", "dev", device, "master", bridge, "up")
            self.ip("host", "link", "set", bridge, "up")
        bridge_up(self, "function", "inside", "outside")
        self.addresses_up()


class BridgesFar(Wire):
    """The function is on another node. A VXLAN network for each of its sides leads there."""

    hosts = {"host1": "192.168.97.1", "host2": "192.168.97.2"}

    def wire(self):
        self.add("function")
        for host in self.hosts:
            self.add(host)
            self.sysctl(host, **{"net__bridge__bridge-nf-call-iptables": 0, "net__bridge__bridge-nf-call-ip6tables": 0})
        systems.underlay_up(self, self.hosts)
        for vni, (end, port) in enumerate((("a", "inside"), ("b", "outside")), 7):
            self.cable(end, "eth0", "host1", f"to-{end}")
            self.cable("function", port, "host2", port)
            self.network("host1", "host2", vni, f"to-{end}")
            self.network("host2", "host1", vni, port)
            self.ip(end, "link", "set", "eth0", "mtu", 1450)
        bridge_up(self, "function", "inside", "outside")
        self.addresses_up()

    def network(self, host, other, vni, port):
        bridge, vxlan = f"br{vni}", f"vx{vni}"
        self.ip(host, "link", "add", bridge, "type", "bridge")
        self.ip(host, "link", "add", vxlan, "type", "vxlan", "id", vni, "dstport", 4789, "remote", self.hosts[other],
                "local", self.hosts[host], "dev", "eth0")
        for device in (port, vxlan):
            self.ip(host, "link", "set", "dev", device, "master", bridge, "up")
        self.ip(host, "link", "set", bridge, "up")


class Monokube(systems.Monokube):
    """A lab. With `replicas`, a chain takes what pods of CHAINED begin through one function, whose
    pods are on `node`. The client is in `namespace`, and on node1 as the server."""

    def __init__(self, prefix, replicas, namespace=CHAINED, node="node1"):
        super().__init__(prefix)
        self.replicas, self.namespace, self.node = replicas, namespace, node

    def up(self):
        self.lab("up", 1 if self.node == "node1" else 2, "--pods")
        del self.nodes["node2"]
        self.directory = Path(f"/run/mklab-{self.prefix}")
        self.pods = {pod: self.lab("pod", "node1", pod, "--namespace", namespace).strip()
                     for pod, namespace in (("client", self.namespace), ("near", FREE))}
        for number in range(self.replicas):
            self.lab("pod", self.node, f"function-{number}", "--namespace", CHAINED, "--label", f"{FUNCTION}=bridge",
                     "--annotation", f"{FUNCTION}-ports=Bridged")
        self.prepare_client("client")
        self.serve("near")

    def place(self, path):
        return {"pod-pod-near": ("client", self.pods["near"], {})}[path]


    def set_services(self, _count):
        if not self.replicas:
            return
        path = self.directory / "measured.yaml"
        path.write_text(json.dumps(chain_object("measured", CHAINED, ["bridge"])))
        self.lab("apply", path)
        wait_until("the agent's tables", 30, self.is_ready)

    def is_ready(self):
        """Does each replica serve?"""
        found = json.loads(self.lab("exec", "node1", self.binary, "chains", "-o", "json"))
        ready = [replica for replica in found["functions"] if replica["state"] == "serving"]
        return len(ready) == self.replicas


def all_systems():
    """All systems, in the order of their turns."""
    prefix = f"pc{os.getpid() % 100000}"
    return {
        "none": Monokube(f"{prefix}m", 0),
        "beside": Monokube(f"{prefix}f", 1, FREE),
        "chain": Monokube(f"{prefix}c", 1),
        "chain-64": Monokube(f"{prefix}d", 64),
        "wire": Wire(f"{prefix}w"),
        "bridges": Bridges(f"{prefix}b"),
        "chain-far": Monokube(f"{prefix}e", 1, node="node2"),
        "bridges-far": BridgesFar(f"{prefix}g"),
    }

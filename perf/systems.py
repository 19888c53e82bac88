# SPDX-License-Identifier: Apache-2.0
"""systems.py - the systems that perf/compare measures: the limits (one namespace, a bare veth pair,
a bare VXLAN device, two hosts on a switch), the routed peer (bridge, host routing and VXLAN as
flannel sets them up) with kube-proxy's rules in either mode, and monokube in its lab. Peer and
monokube also exist without VXLAN between the nodes. Each is set up once, in one family (4 or 6).
`place(path)` says which client asks which address.

A system with `measures` has only these paths."""
import ipaddress
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "perf/peers"))
import kube_proxy  # noqa: E402
import rules  # noqa: E402

PORT, BULK_PORT = 7000, 5201
# The target ports of Services, which differ from the ports that are asked directly. With one port
# for both, a connection to the Service would meet the TIME_WAIT of a direct one from the same
# client port, and would wait a second for its next SYN.
TARGETS = {PORT: 7001, BULK_PORT: 5202}
NODE_PORTS = {"cluster": {PORT: 30070, BULK_PORT: 30052}, "local": {PORT: 30071, BULK_PORT: 30053}}
# Programs that measure run at real-time priority, before other work of the machine.
FIRST = ("chrt", "--fifo", "50")
LOAD = os.environ.get("MK_LOAD", str(ROOT / "build/perf/load"))
REDIRECT = ROOT / "build/perf/redirect.bpf.o"
ANY = {4: "0.0.0.0", 6: "::"}
BITS6 = {16: 48, 24: 64, 32: 128}  # of a prefix of IPv4: of its form in IPv6


def run(*command, text=None):
    """The output of a command. Exits if it fails."""
    done = subprocess.run(list(map(str, command)), input=text, text=True, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}: {done.stderr.strip()[-800:]}")
    return done.stdout


def wait_until(what, seconds, condition):
    """Wait until `condition` holds. Exits after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"{what}: not within {seconds} s")
        time.sleep(0.05)


def in_family(family, quad):
    """The address that a dotted quad a.b.c.d stands for. With IPv6 it is fd00:a:b:c::d."""
    if family == 4:
        return quad
    *net, host = quad.split(".")
    return str(ipaddress.ip_address(f"fd00:{':'.join(net)}::{host}"))


class Namespaces:
    """The network namespaces of this run, by short name, and the servers in them."""

    def __init__(self, prefix, family=4):
        self.prefix, self.family, self.made, self.servers = prefix, family, [], []

    def at(self, quad, bits=None):
        """An address or, with the bits of IPv4, a prefix in this system's family."""
        address = in_family(self.family, quad)
        return f"{address}/{BITS6[bits] if self.family == 6 else bits}" if bits else address

    def name(self, short):
        return f"{self.prefix}.{short}"

    def add(self, short):
        run("ip", "netns", "add", self.name(short))
        self.made.append(short)
        if self.family == 6:
            self.sysctl(short, net__ipv6__conf__all__disable_ipv6=0, net__ipv6__conf__default__disable_ipv6=0)
        self.ip(short, "link", "set", "lo", "up")

    def address_add(self, short, address, device):
        self.ip(short, "addr", "add", address, "dev", device, *(("nodad",) if self.family == 6 else ()))

    def ip(self, short, *arguments):
        return run("ip", "-n", self.name(short), *arguments)

    def inside(self, short, *command, text=None):
        return run("ip", "netns", "exec", self.name(short), *command, text=text)

    def sysctl(self, short, **values):
        for key, value in values.items():
            path = "/proc/sys/" + key.replace("__", "/")
            self.inside(short, "sh", "-c", f"[ ! -e {path} ] || echo {value} >{path}")

    def serve(self, short):
        """Start both servers on processor 1, each at its own port and at the Services' target
        port."""
        for command in ([LOAD, "serve", PORT, ANY[self.family]], [LOAD, "serve", TARGETS[PORT], ANY[self.family]],
                        ["iperf3", "-s", "-p", BULK_PORT], ["iperf3", "-s", "-p", TARGETS[BULK_PORT]]):
            self.servers.append(subprocess.Popen(
                ["ip", "netns", "exec", self.name(short), "taskset", "-c", "1", *FIRST, *map(str, command)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def prepare_client(self, short):
        """Allow enough source ports for some seconds of new connections."""
        self.sysctl(short, net__ipv4__ip_local_port_range='"10000 65535"')

    def down(self):
        for server in self.servers:
            server.terminate()
            server.wait()
        for short in self.made:
            subprocess.run(["ip", "netns", "del", self.name(short)], check=False, capture_output=True)


class Limit(Namespaces):
    """Two namespaces with only a wire between them, or one namespace that talks to itself."""

    kind = "veth"

    def up(self):
        ends = ("a",) if self.kind == "loopback" else ("a", "b")
        for end in ends:
            self.add(end)
            self.prepare_client(end)
        if self.kind != "loopback":
            self.wire()
        self.serve(ends[-1])

    def wire(self):
        run("ip", "link", "add", "eth0", "netns", self.name("a"), "type", "veth", "peer", "name", "eth0",
            "netns", self.name("b"))
        self.addresses_up()

    def addresses_up(self):
        for number, end in enumerate("ab", 1):
            self.address_add(end, self.at(f"10.1.1.{number}", 24), "eth0")
            self.ip(end, "link", "set", "eth0", "up")

    def place_named(self, path):
        if path not in self.measures:
            return None
        loopback = "127.0.0.1" if self.family == 4 else "::1"
        return self.name("a"), loopback if self.kind == "loopback" else self.at("10.1.1.2"), {}

    def set_services(self, count):
        pass


class LimitLoopback(Limit):
    kind = "loopback"
    measures = {"itself"}


class LimitVeth(Limit):
    measures = {"pod-pod-near", "pod-service-near", "host-service-near"}


def redirect(system, short, device, section):
    """Let a program of redirect.bpf.c take the packets that arrive at the device."""
    if not REDIRECT.exists():
        sys.exit(f"{REDIRECT} does not exist: run `make {REDIRECT.relative_to(ROOT)}`")
    run("tc", "-n", system.name(short), "qdisc", "add", "dev", device, "clsact")
    run("tc", "-n", system.name(short), "filter", "add", "dev", device, "ingress", "bpf", "direct-action", "object-file",
        REDIRECT, "section", section)


class LimitRedirect(Limit):
    """The way of pods' packets with any forwarder: through a third namespace, where a program
    redirects them."""

    kind = "redirect"
    measures = {"pod-pod-near"}
    mtu = 65535  # the MTU of monokube's pods
    host_ifindexes = {"a": 100, "b": 101}  # redirect.bpf.c

    def wire(self):
        self.add("host")
        for end, ifindex in self.host_ifindexes.items():
            self.ip("host", "link", "add", "name", end, "index", ifindex, "type", "veth", "peer", "name", "eth0", "netns",
                    self.name(end))
            self.ip(end, "link", "set", "eth0", "mtu", self.mtu)
            self.ip("host", "link", "set", "dev", end, "mtu", self.mtu, "up")
            redirect(self, "host", end, "tc/into_pod")
        self.addresses_up()


FAR = {"pod-pod-far", "pod-service-far"}


class LimitDirect(Limit):
    """Two hosts on the same kind of underlay as the clusters'."""

    kind = "direct"
    measures = FAR

    def wire(self):
        underlay_up(self, {end: self.at(f"10.1.1.{number}") for number, end in enumerate("ab", 1)})


class LimitDirectPods(Limit):
    """The way of pods' packets with any forwarder: from a veth pair to the underlay, by a program
    that only redirects them."""

    kind = "direct-pods"
    measures = FAR
    pod, wire_end = 100, 101  # redirect.bpf.c

    def wire(self):
        hosts = {"a": "ha", "b": "hb"}
        for host in hosts.values():
            self.add(host)
        underlay_up(self, {host: self.at(f"10.1.2.{number}") for number, host in enumerate(hosts.values(), 1)},
                    self.wire_end)
        for end, host in hosts.items():
            self.ip(host, "link", "add", "name", "pod", "index", self.pod, "type", "veth", "peer", "name", "eth0", "netns",
                    self.name(end))
            self.ip(host, "link", "set", "pod", "up")
            self.ip(host, "link", "set", "eth0", "promisc", "on")
            redirect(self, host, "pod", "tc/to_wire")
            redirect(self, host, "eth0", "tc/into_pod")
        self.addresses_up()


class LimitVxlan(Limit):
    """A VXLAN device in each of two namespaces, over the same kind of underlay as the clusters'."""

    kind = "vxlan"
    measures = FAR

    def wire(self):
        hosts = {end: self.at(f"192.168.97.{number}") for number, end in enumerate("ab", 1)}
        underlay_up(self, hosts)
        for number, (end, other) in enumerate(("ab", "ba"), 1):
            self.ip(end, "link", "add", "vx0", "type", "vxlan", "id", 7, "dstport", 4789, "remote", hosts[other], "local",
                    hosts[end], "dev", "eth0")
            self.address_add(end, self.at(f"10.1.1.{number}", 24), "vx0")
            self.ip(end, "link", "set", "vx0", "up")


def underlay_up(system, addresses, ifindex=None):
    """Make a switch with a cable to each namespace, as in the lab."""
    system.add("underlay")
    system.sysctl("underlay", **{"net__bridge__bridge-nf-call-iptables": 0, "net__bridge__bridge-nf-call-ip6tables": 0})
    system.ip("underlay", "link", "add", "br0", "type", "bridge")
    system.ip("underlay", "link", "set", "br0", "up")
    for short, address in addresses.items():
        index = ("index", ifindex) if ifindex else ()
        run("ip", "link", "add", "name", "eth0", *index, "netns", system.name(short), "type", "veth", "peer", "name",
            short, "netns", system.name("underlay"))
        system.ip("underlay", "link", "set", "dev", short, "master", "br0", "up")
        system.address_add(short, f"{address}/{64 if system.family == 6 else 24}", "eth0")
        system.ip(short, "link", "set", "eth0", "up")


# ---- clusters -----------------------------------------------------------------------------------


class Cluster(Namespaces):
    """Two nodes with pods, and `world`. Pods client and near are on node1, pod far is on node2."""

    measures = None  # all paths

    def place(self, path):
        vip_near, vip_far, node = self.vips["near"], self.vips["far"], self.nodes["node1"]
        cluster, local = NODE_PORTS["cluster"], NODE_PORTS["local"]
        return {
            "itself": ("client", self.pods["client"], {}),
            "pod-pod-near": ("client", self.pods["near"], {}),
            "pod-pod-far": ("client", self.pods["far"], {}),
            "pod-service-near": ("client", vip_near, {}),
            "pod-service-far": ("client", vip_far, {}),
            "host-service-near": ("node1", vip_near, {}),
            "world-nodeport-cluster": ("world", node, cluster),
            "world-nodeport-local": ("world", node, local),
            "pod-world": ("client", self.world, {}),
        }[path]

    def place_named(self, path):
        if self.measures and path not in self.measures:
            return None
        client, address, ports = self.place(path)
        return self.name(client), address, ports


def others(count, cluster_prefix, family=4):
    """`count` Services without traffic, each with a VIP and two endpoints."""
    for number in range(count):
        high, low = divmod(number, 250)
        endpoints = (f"{cluster_prefix}.{200 + (number + further) % 50}.{2 + high % 250}" for further in (0, 1))
        yield (f"other-{number}", in_family(family, f"10.100.{high}.{low + 1}"),
               [in_family(family, endpoint) for endpoint in endpoints])


class Routed(Cluster):
    """The setup of flannel: a bridge per node, host routing, VXLAN with static neighbours and FDB
    entries, and masquerading by iptables or ip6tables. rules.py or kube-proxy itself adds kube-proxy's rules in
    `mode`."""

    pod_net = "10.245"
    node_of = {"client": 1, "near": 1, "far": 2}

    def __init__(self, prefix, family=4):
        super().__init__(prefix, family)
        self.nodes = {"node1": self.at("192.168.98.11"), "node2": self.at("192.168.98.12")}
        self.world = self.at("192.168.98.200")
        self.vips = {"near": self.at("10.97.0.1"), "far": self.at("10.97.0.2"), "near-local": self.at("10.97.0.3")}
        self.pods = {"client": self.at("10.245.1.2"), "near": self.at("10.245.1.3"), "far": self.at("10.245.2.2")}
        self.cluster_cidr = self.at(f"{self.pod_net}.0.0", 16)
        self.mtu = 1450 if family == 4 else 1430  # of 1500, less the headers of VXLAN
        self.proxies = kube_proxy.chosen(self)

    def pod_cidr(self, number):
        return self.at(f"{self.pod_net}.{number}.0", 24)

    def up(self):
        hosts = {**self.nodes, "world": self.world, **(self.proxies.hosts if self.proxies else {})}
        for short in hosts:
            self.add(short)
        underlay_up(self, hosts)
        for number, node in enumerate(self.nodes, 1):
            self.node_up(node, number)
        for pod, address in self.pods.items():
            self.pod_up(pod, address)
        for client in ("client", "world", "node1"):
            self.prepare_client(client)
        for server in ("client", "near", "far", "world"):
            self.serve(server)
        if self.proxies:
            self.proxies.up()

    def node_up(self, node, number):
        other = 3 - number
        forward = "net__ipv6__conf__all__forwarding" if self.family == 6 else "net__ipv4__ip_forward"
        self.sysctl(node, net__ipv4__conf__all__rp_filter=0, net__netfilter__nf_conntrack_tcp_timeout_time_wait=1,
                    **{forward: 1, f"net__bridge__bridge-nf-call-{kube_proxy.IPTABLES[self.family]}": 1})
        self.ip(node, "route", "add", "default", "via", self.world)
        self.ip(node, "link", "add", "cni0", "type", "bridge")
        self.ip(node, "link", "set", "cni0", "mtu", self.mtu, "up")
        self.address_add(node, self.at(f"{self.pod_net}.{number}.1", 24), "cni0")
        self.to_other_node(node, number, other)
        self.masquerade(node)

    def to_other_node(self, node, number, other):
        self.ip(node, "link", "add", "flannel.1", "address", f"02:00:00:00:00:0{number}", "type", "vxlan", "id", 1,
                "dstport", 8472, "local", self.nodes[node], "dev", "eth0", "nolearning")
        self.address_add(node, self.at(f"{self.pod_net}.{number}.0", 32), "flannel.1")
        self.ip(node, "link", "set", "flannel.1", "mtu", self.mtu, "up")
        peer = self.at(f"{self.pod_net}.{other}.0")
        self.ip(node, "route", "add", self.pod_cidr(other), "via", peer, "dev", "flannel.1", "onlink")
        self.ip(node, "neigh", "add", peer, "lladdr", f"02:00:00:00:00:0{other}", "dev", "flannel.1")
        run("bridge", "-n", self.name(node), "fdb", "add", f"02:00:00:00:00:0{other}", "dev", "flannel.1", "dst",
            self.nodes[f"node{other}"])

    def iptables(self, node, *arguments):
        self.inside(node, kube_proxy.IPTABLES[self.family], *arguments)

    def masquerade(self, node):
        self.iptables(node, "-t", "nat", "-A", "POSTROUTING", "-s", self.cluster_cidr, "!", "-d", self.cluster_cidr, "-j",
                      "MASQUERADE", "--random-fully")

    def pod_up(self, pod, address):
        number = self.node_of[pod]
        node = f"node{number}"
        self.add(pod)
        run("ip", "link", "add", "eth0", "netns", self.name(pod), "mtu", self.mtu, "type", "veth", "peer", "name",
            pod, "mtu", self.mtu, "netns", self.name(node))
        self.ip(node, "link", "set", "dev", pod, "master", "cni0", "up")
        run("bridge", "-n", self.name(node), "link", "set", "dev", pod, "hairpin", "on")
        self.address_add(pod, f"{address}/{64 if self.family == 6 else 24}", "eth0")
        self.ip(pod, "link", "set", "eth0", "up")
        self.ip(pod, "route", "add", "default", "via", self.at(f"{self.pod_net}.{number}.1"))

    def measured(self, node):
        """The measured Services, one dictionary per port and protocol."""
        for name, pod, policy in (("near", "near", None), ("far", "far", "cluster"), ("near-local", "near", "local")):
            address = self.pods[pod]
            for port in (PORT, BULK_PORT):
                for proto in ("tcp", "udp"):
                    endpoint, is_local = [address, TARGETS[port]], node == f"node{self.node_of[pod]}"
                    yield {"name": f"{name}:{proto}-{port}", "vip": self.vips[name], "port": port, "proto": proto,
                           "node_port": NODE_PORTS[policy][port] if policy else None, "endpoints": [endpoint],
                           "local": [endpoint] if is_local else [], "external_local": policy == "local"}

    def set_services(self, count):
        rest = [{"name": name, "vip": vip, "port": 80, "proto": "tcp", "node_port": None,
                 "endpoints": [[address, 8080] for address in endpoints], "local": [], "external_local": False}
                for name, vip, endpoints in others(count, self.pod_net, self.family)]
        if self.proxies:
            self.proxies.set_services([*rest, *self.measured("node1")])
            return
        # in parallel: nft takes up to half a minute of processor time for a node's 10,000 Services
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda node: self.load(node, self.rules_of(node, rest)), self.nodes))

    def rules_of(self, node, rest):
        """A node's rules, with the measured Services in the middle: half of the rules come
        first."""
        half = len(rest) // 2
        return rules.render(self.mode, [*rest[:half], *self.measured(node), *rest[half:]], self.cluster_cidr,
                            self.nodes[node])

    def down(self):
        if self.proxies:
            self.proxies.down()
        super().down()


class RoutedNftables(Routed):
    mode = "nftables"

    def load(self, node, text):
        self.inside(node, "nft", "-f", "-", text=text)


class RoutedDirect(RoutedNftables):
    """Flannel's backend host-gw: the next hop is the other node itself."""

    measures = FAR

    def __init__(self, prefix, family=4):
        super().__init__(prefix, family)
        self.mtu = 1500

    def to_other_node(self, node, number, other):
        self.ip(node, "route", "add", self.pod_cidr(other), "via", self.nodes[f"node{other}"])


class RoutedIptables(Routed):
    mode = "iptables"

    def load(self, node, text):
        self.iptables(node, "-t", "nat", "-F")
        self.iptables(node, "-F")
        self.inside(node, kube_proxy.IPTABLES[self.family] + "-restore", text=text)
        self.masquerade(node)


class Monokube(Cluster):
    """test/lab/lab with two nodes, whose agents follow a file with all Services. `binary` is this
    tree's or another version's."""

    flags = ""  # of the agents
    routing = "Overlay"

    def __init__(self, prefix, family=4, binary=ROOT / "build/monokube"):
        super().__init__(prefix, family)
        underlay = "fd00:99::" if family == 6 else "192.168.99."
        self.nodes = {"node1": underlay + "11", "node2": underlay + "12"}
        self.world = underlay + "200"
        self.vips = {"near": self.at("10.96.0.11"), "far": self.at("10.96.0.12"), "near-local": self.at("10.96.0.13")}
        self.binary = Path(binary).resolve()
        self.measured = {}  # number of frontends of the measured Services, by node

    def lab(self, *arguments):
        os.environ.update(MK_LAB=self.prefix, MK_BIN=str(self.binary), MK_LAB_FAMILY=str(self.family),
                          MK_AGENT_FLAGS=self.flags, MK_LAB_ROUTING=self.routing)
        return run(ROOT / "test/lab/lab", *arguments)

    def up(self):
        self.lab("up", 2)
        self.directory = Path(f"/run/mklab-{self.prefix}")
        self.pods = {pod: self.lab("pod", node, pod).strip()
                     for pod, node in (("client", "node1"), ("near", "node1"), ("far", "node2"))}
        self.sysctl("node1", net__ipv4__conf__all__rp_filter=0)
        for client in ("client", "world", "node1"):
            self.prepare_client(client)
        for server in ("client", "near", "far", "world"):
            self.serve(server)

    def prepare_client(self, short):
        if short == "node1":  # natPortRange, which is reserved, begins at 49152
            self.sysctl(short, net__ipv4__ip_local_port_range='"10000 49151"')
        else:
            super().prepare_client(short)

    def service(self, name, pod, policy):
        ports = [{"name": f"{proto.lower()}-{port}", "port": port, "targetPort": TARGETS[port], "protocol": proto,
                  **({"nodePort": NODE_PORTS[policy][port]} if policy else {})}
                 for port in (PORT, BULK_PORT) for proto in ("TCP", "UDP")]
        spec = {"clusterIP": self.vips[name], "type": "NodePort" if policy else "ClusterIP", "ports": ports}
        if policy == "local":
            spec["externalTrafficPolicy"] = "Local"
        yield {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
        yield self.slice(name, [self.pods[pod]], [(p["name"], p["targetPort"], p["protocol"]) for p in ports],
                         "node2" if pod == "far" else "node1")

    def slice(self, name, addresses, ports, node=None):
        return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": f"IPv{self.family}",
                "metadata": {"name": f"{name}-1", "labels": {"kubernetes.io/service-name": name}},
                "endpoints": [{"addresses": [a], **({"nodeName": node} if node else {})} for a in addresses],
                "ports": [{"name": n, "port": p, "protocol": t} for n, p, t in ports]}

    def set_services(self, count):
        objects = [o for row in (("near", "near", None), ("far", "far", "cluster"), ("near-local", "near", "local"))
                   for o in self.service(*row)]
        for name, vip, endpoints in others(count, "10.244", self.family):
            objects.append({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
                            "spec": {"clusterIP": vip, "ports": [{"port": 80}]}})
            objects.append(self.slice(name, endpoints, [("", 8080, "TCP")]))
        text = "\n---\n".join(map(json.dumps, objects))
        for node in self.nodes:
            path = self.directory / f"nodes/{node}/cluster/services.yaml"
            path.with_suffix(".new").write_text(text)
            path.with_suffix(".new").rename(path)
        for node in self.nodes:
            wait_until(f"{count} other Services on {node}", 60, lambda: self.is_programmed(node, count))

    def is_programmed(self, node, count):
        """Are the other Services in the tables? Each has three frontends: one for clients in the
        cluster, one for clients outside, and one that marks its address."""
        status = self.lab("exec", node, self.binary, "status")
        # versions up to 18154fe call the row "services" (perf/versions)
        frontends = next(int(line.split()[1]) for line in status.splitlines() if line.split()[:1] in (["frontends"], ["services"]))
        if count == 0 and frontends and node not in self.measured:
            self.measured[node] = frontends
        return frontends - self.measured.get(node, 0) == 3 * count

    def down(self):
        for server in self.servers:
            server.terminate()
            server.wait()
        subprocess.run([ROOT / "test/lab/lab", "down"], env={**os.environ, "MK_LAB": self.prefix}, check=False,
                       capture_output=True)


class MonokubeDirect(Monokube):
    """Without VXLAN between the nodes."""

    routing = "Direct"
    measures = FAR


def all_systems(prefix, family=4):
    """All systems, in the order of their turns. Beside those of IPv6 there are some of IPv4."""
    found = {
        "limit-loopback": LimitLoopback(f"{prefix}l", family),
        "limit-veth": LimitVeth(f"{prefix}v", family),
        "limit-redirect": LimitRedirect(f"{prefix}e", family),
        "limit-vxlan": LimitVxlan(f"{prefix}x", family),
        "limit-direct": LimitDirect(f"{prefix}u", family),
        "limit-direct-pods": LimitDirectPods(f"{prefix}w", family),
        "monokube": Monokube(f"{prefix}m", family),
        "routed-nftables": RoutedNftables(f"{prefix}n", family),
        "routed-iptables": RoutedIptables(f"{prefix}i", family),
        "monokube-direct": MonokubeDirect(f"{prefix}d", family),
        "routed-direct": RoutedDirect(f"{prefix}r", family),
    }
    if family == 6:
        found |= {"limit-veth-ipv4": LimitVeth(f"{prefix}v4"), "limit-vxlan-ipv4": LimitVxlan(f"{prefix}x4"),
                  "monokube-ipv4": Monokube(f"{prefix}m4")}
    return found

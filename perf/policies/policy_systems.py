# SPDX-License-Identifier: Apache-2.0
"""policy_systems.py - the systems that perf/policies/compare measures: monokube without policies and
with them, and the routed peers with the rules of other programs for the same policies (cluster.py).
All are of IPv4."""
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import systems  # noqa: E402
from systems import BULK_PORT, PORT, TARGETS, run, wait_until  # noqa: E402
import policies as rules_of_policies  # noqa: E402
import cluster  # noqa: E402

PORTS = sorted([PORT, BULK_PORT, *TARGETS.values()])  # what policies allow, of the pods and of Services' targets
CLOSED_PORT = 7009  # no policy allows it
QUEUE = os.environ.get("MK_QUEUE", str(systems.ROOT / "build/perf/policies/queue"))
NODE_OF = {"client": 1, "near": 1, "far": 2}


def serve_closed(system, short):
    system.servers.append(subprocess.Popen(
        ["ip", "netns", "exec", system.name(short), systems.LOAD, "serve", str(CLOSED_PORT)], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))


def is_open(system, pod):
    """Does the client reach the port of `pod` that no policy allows?"""
    ask = "import socket, sys\nsocket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=0.5)"
    done = subprocess.run(["ip", "netns", "exec", system.name("client"), "python3", "-c", ask, system.pods[pod],
                           str(CLOSED_PORT)], capture_output=True, check=False)
    return done.returncode == 0


# ---- monokube -----------------------------------------------------------------------------------


class Monokube(systems.Monokube):
    """A lab with `count` policies in each namespace. The measured pods are in the namespace in the
    middle. With policies, each other namespace has a pod on node1, too, so that its policies are in
    the tables; the rest of cluster.py's pods are on nodes that the lab does not have. `first` is the
    beginning of the names of pods of a namespace without policies, which View measures."""

    namespace, first = cluster.MEASURED, ""

    def __init__(self, prefix, count):
        super().__init__(prefix)
        self.count = count

    def pods_up(self, namespace, first):
        return {pod: self.lab("pod", f"node{node}", first + pod, "--namespace", namespace, "--label", "role=measured").strip()
                for pod, node in NODE_OF.items()}

    def up(self):
        self.lab("up", 2, "--pods")
        self.directory = Path(f"/run/mklab-{self.prefix}")
        self.pods = self.pods_up(self.namespace, self.first)
        for namespace in cluster.namespaces() if self.count else ():
            if namespace != self.namespace:
                self.lab("pod", "node1", f"other-{namespace}", "--namespace", namespace)
        self.serve_all()

    def serve_all(self):
        self.prepare_client("client")
        for server in ("near", "far"):
            self.serve(server)
            serve_closed(self, server)

    def objects(self):
        def address(node, number):
            return f"10.244.{100 + node}.{number}"
        yield from map(cluster.namespace_object, (*cluster.namespaces(), cluster.FREE))
        yield from (cluster.pod_object(pod, f"elsewhere{pod.node}") for pod in cluster.pods(address, []))
        yield from cluster.policies(self.count, PORTS)

    def write(self, name, objects):
        path = self.directory / f"{name}.yaml"
        path.write_text("\n---\n".join(map(json.dumps, objects)))
        self.lab("apply", path)

    def set_services(self, _count):
        """The Services of the measured pods, and no others. Then the policies: what the lab does
        later takes long, because it reads them."""
        self.write(f"{self.first}services", [one for pod in ("near", "far") for one in self.service(pod, pod, None)])
        if self.count:
            self.write("policies", self.objects())
        wanted = "ingress,egress" if self.count else "open"
        for node in self.nodes:
            wait_until(f"pods of {node} are {wanted}", 60, lambda: self.are(wanted, node))

    def are(self, wanted, node):
        found = json.loads(self.lab("exec", node, self.binary, "pods", "-o", "json"))
        own = [pod for pod in found if (pod["name"] or "").split("/")[0] == self.namespace]
        return own and all(pod["policies"] == wanted for pod in own)

    def name(self, short):
        return super().name(self.first + short)


class View(Monokube):
    """The pods of another system's lab that no policy selects."""

    namespace, first = cluster.FREE, "free-"

    def __init__(self, lab):
        super().__init__(lab.prefix, 0)
        self.vips = {"near": "10.96.0.21", "far": "10.96.0.22"}

    def up(self):
        self.directory = Path(f"/run/mklab-{self.prefix}")
        self.pods = self.pods_up(self.namespace, self.first)
        self.serve_all()

    def service(self, name, pod, policy):
        for one in super().service(name, pod, policy):
            one["metadata"]["name"] = self.first + one["metadata"]["name"]
            if labels := one["metadata"].get("labels"):
                labels["kubernetes.io/service-name"] = self.first + name
            yield one

    def down(self):
        for server in self.servers:
            server.terminate()
            server.wait()


# ---- the routed peers, with rules for policies --------------------------------------------------


class WithPolicies:
    """For a routed peer: its pods, and the policies of each node."""

    def __init__(self, prefix, count):
        super().__init__(prefix)
        self.count = count

    def all_pods(self):
        measured = [cluster.Pod(name, cluster.MEASURED, self.pods[name], node, cluster.ALLOWED)
                    for name, node in NODE_OF.items()]
        return list(cluster.pods(lambda node, number: f"{self.pod_net}.{node}.{number}", measured))

    def up(self):
        super().up()
        for server in ("near", "far"):
            serve_closed(self, server)

    def set_services(self, count):
        super().set_services(count)
        for number, node in enumerate(self.nodes, 1):
            self.load_policies(node, number)

    def load_iptables(self, node, ip_sets, rules):
        self.inside(node, "ipset", "restore", text=ip_sets)
        self.inside(node, "iptables-restore", "--noflush", text=rules)

    def rendered(self, form, number):
        return form(self.all_pods(), list(cluster.policies(self.count, PORTS)), number).render()


class KubeRouterIptables(WithPolicies, systems.RoutedIptables):
    def load_policies(self, node, number):
        self.load_iptables(node, *self.rendered(rules_of_policies.KubeRouterIptables, number))


class KubeRouterNftables(WithPolicies, systems.RoutedNftables):
    def load_policies(self, node, number):
        self.inside(node, "nft", "-f", "-", text=self.rendered(rules_of_policies.KubeRouterNftables, number))


class CalicoIptables(WithPolicies, systems.RoutedIptables):
    """Without a bridge, as Calico has it: the node routes to each pod's device. It answers ARP for the
    pods' gateway, an address that no host has."""

    gateway = "169.254.1.1"

    def load_policies(self, node, number):
        self.load_iptables(node, *self.rendered(rules_of_policies.CalicoIptables, number))

    def pod_up(self, pod, address):
        node = f"node{self.node_of[pod]}"
        device = rules_of_policies.interface_of(cluster.Pod(pod, cluster.MEASURED, address, 0, {}))
        self.add(pod)
        run("ip", "link", "add", "eth0", "netns", self.name(pod), "mtu", self.mtu, "type", "veth", "peer", "name", device,
            "mtu", self.mtu, "netns", self.name(node))
        self.ip(node, "link", "set", "dev", device, "up")
        self.sysctl(node, **{f"net__ipv4__conf__{device}__proxy_arp": 1})
        self.ip(node, "route", "add", address, "dev", device, "scope", "link")
        self.address_add(pod, f"{address}/32", "eth0")
        self.ip(pod, "link", "set", "eth0", "up")
        self.ip(pod, "route", "add", self.gateway, "dev", "eth0", "scope", "link")
        self.ip(pod, "route", "add", "default", "via", self.gateway, "dev", "eth0")


class Queue(WithPolicies, systems.RoutedNftables):
    """First packets of isolated pods go to a program, which accepts them all, as those of
    kube-network-policies do (its pkg/dataplane), over the faster kube-proxy. The rules are those of
    iptables, because the kernel may have no queue in nftables. The program comes before clients and
    servers. It shares the client's processor, as on a node whose processors are all at work."""

    number, where = 100, ("taskset", "-c", "0")

    def load_policies(self, node, _number):
        pods = "".join(f"add pods {pod.address}\n" for pod in self.all_pods())
        queue = ("-m", "set", "--match-set", "pods")
        self.inside(node, "ipset", "restore", text=f"create pods hash:ip\n{pods}")
        self.iptables(node, "-t", "mangle", "-A", "POSTROUTING", "-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED",
                      "-j", "ACCEPT")
        for side in ("src", "dst"):
            self.iptables(node, "-t", "mangle", "-A", "POSTROUTING", *queue, side, "-j", "NFQUEUE", "--queue-num", self.number)
        self.servers.append(subprocess.Popen(
            ["ip", "netns", "exec", self.name(node), *self.where, "chrt", "--fifo", "51", QUEUE, str(self.number)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))


class QueueElsewhere(Queue):
    """The program has what is left of both processors. That relieves the client's."""

    where = ()


def all_systems(prefix):
    """All systems, in the order of their turns, and their numbers of policies per namespace."""
    many = Monokube(f"{prefix}h", 100)
    return {
        "none": Monokube(f"{prefix}m", 0),
        "policies-10": Monokube(f"{prefix}t", 10),
        "policies-100": many,
        "free": View(many),
        "kube-router-iptables-10": KubeRouterIptables(f"{prefix}i", 10),
        "kube-router-iptables-100": KubeRouterIptables(f"{prefix}j", 100),
        "kube-router-nftables-10": KubeRouterNftables(f"{prefix}n", 10),
        "kube-router-nftables-100": KubeRouterNftables(f"{prefix}o", 100),
        "calico-iptables-10": CalicoIptables(f"{prefix}c", 10),
        "calico-iptables-100": CalicoIptables(f"{prefix}d", 100),
        "queue": Queue(f"{prefix}q", 10),
        "queue-elsewhere": QueueElsewhere(f"{prefix}r", 10),
    }

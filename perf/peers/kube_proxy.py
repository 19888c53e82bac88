# SPDX-License-Identifier: Apache-2.0
"""kube_proxy.py - runs kube-proxy itself for the routed peers, if $KUBE_PROXY names its binary. It
runs in each node's network namespace and follows the stand-in for the API server
(test/wire/apiserver). The stand-in has a namespace of its own on the underlay. It gets the same
Services as rules.py, as objects.

A service here is a dictionary as in rules.py: one port and protocol of a Service, named
NAME:PORT_NAME."""
import ipaddress
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
API_SERVER = ROOT / "test/wire/apiserver"
API_ADDRESS, API_PORT = "192.168.98.100", 6443
SERVICE_CIDR = {4: "10.96.0.0/12", 6: "fd00:10::/39"}
LOCALHOST = {4: "127.0.0.1", 6: "[::1]"}
IPTABLES = {4: "iptables", 6: "ip6tables"}
NFT_FAMILY = {4: "ip", 6: "ip6"}
READY_SECONDS, END_SECONDS = 30, 10
NFTABLES_SINCE = 31  # 1.31: on by default
LAST_LINES = 15
REMEDY = ("give KUBE_PROXY the path of a kube-proxy for this machine, or leave it empty: then perf/peers/rules.py "
          "writes the rules")


def chosen(system):
    """The kube-proxies of a routed peer. None if rules.py has to write the rules: $KUBE_PROXY is
    unset or empty, or its version does not support the peer's mode."""
    if not os.environ.get("KUBE_PROXY"):
        return None
    program = binary(os.environ["KUBE_PROXY"])
    return KubeProxies(program, system) if system.mode in modes(program) else None


def binary(name):
    """The absolute path of the program that $KUBE_PROXY names."""
    found = shutil.which(name)
    if not found:
        what = "is not an executable file" if os.path.lexists(name) else "is not there"
        sys.exit(f"KUBE_PROXY={name}: {what}; {REMEDY}")
    return os.path.abspath(found)


def version(program):
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return (done.stdout.splitlines() or ["version unknown"])[0]


def modes(program):
    """The peers' modes that this kube-proxy supports. If its version has no number: all modes."""
    number = re.search(r"\bv1\.(\d+)", version(program))
    return ("iptables",) if number and int(number[1]) < NFTABLES_SINCE else ("iptables", "nftables")


def rules_from():
    """The writer of the peers' rules, for the results: rules.py, or a version of kube-proxy."""
    if not os.environ.get("KUBE_PROXY"):
        return "perf/peers/rules.py"
    program = binary(os.environ["KUBE_PROXY"])
    rest = "" if "nftables" in modes(program) else "; for nftables, which it does not support: perf/peers/rules.py"
    return f"kube-proxy, {version(program)}{rest}"


# ---- configuration and objects ------------------------------------------------------------------


def configuration(mode, node, address, cluster_cidr, kubeconfig):
    """kube-proxy's defaults, written out, with these exceptions. It speaks JSON, as the stand-in
    does. Both modes have node ports only at the node's address, as in rules.py. No sysctl of
    connection tracking is set, because some belong to the whole machine. Health and metrics are on
    the node's loopback. The OOM killer treats the process like any other."""
    family = ipaddress.ip_address(address).version
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
        "mode": mode, "hostnameOverride": node, "clusterCIDR": cluster_cidr, "detectLocalMode": "ClusterCIDR",
        "clientConnection": {"kubeconfig": str(kubeconfig), "contentType": "application/json",
                             "acceptContentTypes": "application/json"},
        "nodePortAddresses": [f"{address}/{128 if family == 6 else 32}"],
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        mode: {"minSyncPeriod": "1s", "syncPeriod": "30s",
               **({"localhostNodePorts": False} if mode == "iptables" else {})},
        "healthzBindAddress": f"{LOCALHOST[family]}:10256", "metricsBindAddress": f"{LOCALHOST[family]}:10249",
        "oomScoreAdj": 0,
    }


def node(name, address, pods):
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
            "spec": {"podCIDR": pods, "podCIDRs": [pods]},
            "status": {"addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
                       "conditions": [{"type": "Ready", "status": "True"}]}}


def service_cidr(family):
    return {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
            "spec": {"cidrs": [SERVICE_CIDR[family]]}}


def by_name(services):
    """Returns {name of the Service: [(name of the port, the port's dictionary)]}."""
    found = {}
    for service in services:
        name, _, port = service["name"].partition(":")
        found.setdefault(name, []).append((port, service))
    return found


def service_object(name, ports):
    first = ports[0][1]
    spec = {"clusterIP": first["vip"], "type": "NodePort" if first["node_port"] else "ClusterIP", "ports": [
        {"name": port, "port": s["port"], "protocol": s["proto"].upper(), "targetPort": s["endpoints"][0][1],
         **({"nodePort": s["node_port"]} if s["node_port"] else {})} for port, s in ports]}
    if first["external_local"]:
        spec["externalTrafficPolicy"] = "Local"
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def endpoint(address):
    """An endpoint on the node whose number is in the address. Endpoints without traffic are on nodes
    that do not exist."""
    number = address.split(":")[3] if ":" in address else address.split(".")[2]
    return {"addresses": [address], "nodeName": f"node{number}",
            "conditions": {"ready": True, "serving": True, "terminating": False}}


def slice_object(name, ports):
    addresses = dict.fromkeys(address for _, s in ports for address, _ in s["endpoints"])
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "addressType": "IPv6" if ":" in ports[0][1]["vip"] else "IPv4",
            "metadata": {"name": f"{name}-1", "namespace": "default", "labels": {"kubernetes.io/service-name": name}},
            "endpoints": [endpoint(address) for address in addresses],
            "ports": [{"name": port, "port": s["endpoints"][0][1], "protocol": s["proto"].upper()}
                      for port, s in ports]}


def objects(services):
    for name, ports in by_name(services).items():
        yield service_object(name, ports)
        yield slice_object(name, ports)


# ---- frontends in the rules ---------------------------------------------------------------------


def wanted(services):
    """The frontends that the rules must have: (VIP, protocol, port) and (protocol, node port)."""
    ports = {(s["proto"], s["node_port"]) for s in services if s["node_port"]}
    return ports | {(s["vip"], s["proto"], s["port"]) for s in services}


def key_of(element):
    """The key of a map's element in nft's output, which adds the value and perhaps a comment."""
    key = element[0]
    return tuple((key["elem"]["val"] if "elem" in key else key)["concat"])


def known_nftables(ask, family):
    """The frontends of Services with endpoints. Services without endpoints are in other maps."""
    found = set()
    for name in ("service-ips", "service-nodeports"):
        for thing in json.loads(ask("nft", "-j", "list", "map", NFT_FAMILY[family], "kube-proxy", name) or "{}").get("nftables", []):
            found |= {key_of(element) for element in thing.get("map", {}).get("elem", [])}
    return found


def known_iptables(ask, family):
    """The frontends of Services with endpoints. Others have no rule in this table."""
    found = set()
    for line in ask(IPTABLES[family] + "-save", "-t", "nat").splitlines():
        proto, port = re.search(r" -p (\w+) ", line), re.search(r" --dport (\d+) ", line)
        if not proto or not port:
            continue
        if line.startswith("-A KUBE-SERVICES ") and (vip := re.search(r" -d ([\da-f.:]+)/(?:32|128) ", line)):
            found.add((vip[1], proto[1], int(port[1])))
        elif line.startswith("-A KUBE-NODEPORTS "):
            found.add((proto[1], int(port[1])))
    return found


KNOWN = {"nftables": known_nftables, "iptables": known_iptables}


# ---- the processes ------------------------------------------------------------------------------


class KubeProxies:
    """A kube-proxy on each node of `system`, and the API server that they follow. `hosts` are
    further hosts of the underlay."""

    def __init__(self, program, system):
        self.program, self.system = program, system
        self.address = system.at(API_ADDRESS)
        self.hosts = {"api": self.address}
        self.directory, self.processes, self.commands = None, {}, {}

    def up(self):
        """Nodes come before kube-proxies: each waits for its Node, and ends if the Node goes."""
        self.directory = Path(tempfile.mkdtemp(prefix="monokube-kube-proxy."))
        self.start("api", sys.executable, str(API_SERVER), "--dir", str(self.directory), "--address", self.address,
                   "--port", str(API_PORT))
        self.wait("the stand-in for the API server", READY_SECONDS, (self.directory / "ready").exists)
        self.give(self.cluster())
        for name, address in self.system.nodes.items():
            config = self.directory / f"{name}.conf"
            settings = configuration(self.system.mode, name, address, self.system.cluster_cidr,
                                     self.directory / "kubeconfig")
            config.write_text(json.dumps(settings, indent=1))
            self.start(name, self.program, "--config", str(config))

    def cluster(self):
        nodes = enumerate(self.system.nodes.items(), 1)
        return [service_cidr(self.system.family), *(node(*one, self.system.pod_cidr(number)) for number, one in nodes)]

    def set_services(self, services):
        """Replace all Services. Returns when each node's rules have all of them, and no others."""
        self.give([*self.cluster(), *objects(services)])
        want, seconds = wanted(services), READY_SECONDS + len(services) // 50
        for name in self.system.nodes:
            def is_known():
                return KNOWN[self.system.mode](lambda *command: self.ask(name, *command), self.system.family) == want
            self.wait(f"{len(want)} frontends in the rules of {name}", seconds, is_known, name)

    def down(self):
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = {}
        if self.directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def start(self, name, *command):
        """Start a command in a namespace, with a /sys of its own; `ip` becomes the program. The
        command asks the stand-in directly, not through an HTTP proxy."""
        environment = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        self.commands[name] = command[0] if name in self.system.nodes else str(API_SERVER)
        with open(self.directory / f"{name}.log", "wb") as log:
            self.processes[name] = subprocess.Popen(
                ["ip", "netns", "exec", self.system.name(name), *command], stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, env=environment)

    def ask(self, name, *command):
        """The output of a command in a namespace. Empty if it fails: the rules do not exist yet."""
        return subprocess.run(["ip", "netns", "exec", self.system.name(name), *command], text=True,
                              capture_output=True, check=False).stdout

    def give(self, contents):
        """Make the stand-in hold these objects, and no others of their kinds."""
        server = (self.directory / "ready").read_text().strip()
        self.system.inside("api", "curl", "-sSg", "--fail", "--http1.1", "--noproxy", "*", "--cacert",
                           self.directory / "ca.crt", "-H", "Expect:", "-H", "Content-Type: application/json", "-o",
                           "/dev/null", "--data-binary", "@-", f"{server}/standin/objects",
                           text=json.dumps(contents))

    def wait(self, what, seconds, condition, name="api"):
        """Wait until the condition holds. Exits if a process ends. Waits between two checks at
        least as long as a check takes."""
        deadline = time.monotonic() + seconds
        while True:
            self.need_running()
            began = time.monotonic()
            if condition():
                return
            if time.monotonic() > deadline:
                sys.exit(f"{what}: not within {seconds} s; {self.said(name)}")
            time.sleep(max(0.05, time.monotonic() - began))

    def need_running(self):
        for name, process in self.processes.items():
            if process.poll() is not None:
                status = process.returncode
                how = f"exit status {status}" if status >= 0 else f"signal {-status}"
                sys.exit(f"{self.commands[name]} on {name} has ended, {how}; {self.said(name)}")

    def said(self, name):
        lines = (self.directory / f"{name}.log").read_text(errors="replace").splitlines()[-LAST_LINES:]
        return "\n".join([f"the last lines that {self.commands[name]} printed:", *(f"  {line}" for line in lines),
                          *([REMEDY] if name in self.system.nodes else [])])

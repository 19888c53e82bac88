#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""rules.py - makes the rules that kube-proxy writes for a list of Services, in the two modes that
Debian's packages can load. nftables has maps and verdict maps, as in its current version. iptables
has KUBE-SERVICES, KUBE-SVC, and KUBE-SEP with the statistic match. Chains, order and marks follow
those proxiers (Kubernetes 1.3x, pkg/proxy/{nftables,iptables}/proxier.go, whose tests list whole
rule sets). The family of the rules is that of the addresses.

    rules.py nftables|iptables <services.json    prints the input of `nft -f -`, `iptables-restore`
                                                 or `ip6tables-restore`

A Service: {"name", "vip", "port", "proto", "node_port" (or null), "endpoints": [["10.0.0.1",
80]..], "local": [the endpoints on this node], "external_local": bool}. "cluster_cidr" and "node_ip"
are the node's."""
import hashlib
import json
import sys

MARK = "0x4000"


def short(*parts):
    """The 16 characters of a chain's name: a hash in base32, as kube-proxy makes them."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
    bits = int.from_bytes(digest, "big")
    return "".join(alphabet[bits >> (5 * i) & 31] for i in range(16))


def with_port(address, port):
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


# ---- nftables -----------------------------------------------------------------------------------


class Nftables:
    """One table with a few base chains. Maps lead to all other chains."""

    def __init__(self, cluster_cidr, node_ip):
        self.cluster_cidr, self.node_ip = cluster_cidr, node_ip
        self.ip = "ip6" if ":" in node_ip else "ip"
        self.chains, self.cluster_ips = [], []
        self.services, self.node_ports, self.empty = [], [], []

    def chain(self, name, *rules):
        self.chains.append(f"  chain {name} {{\n" + "".join(f"    {rule}\n" for rule in rules) + "  }\n")

    def endpoints(self, service, endpoints):
        """Make the endpoints' chains. Returns the rule that picks one of them."""
        picks = []
        for number, (ip, port) in enumerate(endpoints):
            name = f"endpoint-{short(service['name'], ip, port)}"
            picks.append(f"{number} : goto {name}")
            self.endpoint_chains[name] = (
                f"{self.ip} saddr {ip} jump mark-for-masquerade",
                f"meta l4proto {service['proto']} dnat to {with_port(ip, port)}",
            )
        return f"numgen random mod {len(picks)} vmap {{ {', '.join(picks)} }}"

    def add(self, service):
        key = f"{service['vip']} . {service['proto']} . {service['port']}"
        self.cluster_ips.append(service["vip"])
        if not service["endpoints"]:
            self.empty.append(f"{key} : goto reject-chain")
            return
        name = short(service["name"])
        self.services.append(f"{key} : goto service-{name}")
        self.chain(
            f"service-{name}",
            f"{self.ip} daddr {service['vip']} {service['proto']} dport {service['port']} "
            f"{self.ip} saddr != {self.cluster_cidr} jump mark-for-masquerade",
            self.endpoints(service, service["endpoints"]),
        )
        if service["node_port"]:
            self.add_external(service, name)

    def add_external(self, service, name):
        self.node_ports.append(f"{service['proto']} . {service['node_port']} : goto external-{name}")
        if not service["external_local"]:
            self.chain(f"external-{name}", "jump mark-for-masquerade", f"goto service-{name}")
            return
        rules = [f"{self.ip} saddr {self.cluster_cidr} goto service-{name}",
                 "fib saddr type local jump mark-for-masquerade",
                 f"fib saddr type local goto service-{name}"]
        if service["local"]:
            rules.append(self.endpoints(service, service["local"]))
        self.chain(f"external-{name}", *rules)

    def render(self, services):
        self.endpoint_chains = {}
        for service in services:
            self.add(service)
        for name, rules in self.endpoint_chains.items():
            self.chain(name, *rules)
        return BASE_NFTABLES % {
            "ip": self.ip,
            "type": "ipv6_addr" if self.ip == "ip6" else "ipv4_addr",
            "chains": "".join(self.chains),
            "node_ip": self.node_ip,
            "cluster_ips": elements(self.cluster_ips),
            "services": elements(self.services),
            "node_ports": elements(self.node_ports),
            "empty": elements(self.empty),
        }


def elements(items):
    return f"elements = {{ {', '.join(items)} }}" if items else ""


BASE_NFTABLES = """table %(ip)s kube-proxy
delete table %(ip)s kube-proxy
table %(ip)s kube-proxy {
  set cluster-ips { type %(type)s; %(cluster_ips)s
  }
  set nodeport-ips { type %(type)s; elements = { %(node_ip)s } }
  map no-endpoint-services { type %(type)s . inet_proto . inet_service : verdict; %(empty)s
  }
  map no-endpoint-nodeports { type inet_proto . inet_service : verdict; }
  map firewall-ips { type %(type)s . inet_proto . inet_service : verdict; }
  map service-ips { type %(type)s . inet_proto . inet_service : verdict; %(services)s
  }
  map service-nodeports { type inet_proto . inet_service : verdict; %(node_ports)s
  }
  chain reject-chain { reject; }
  chain mark-for-masquerade { meta mark set meta mark or 0x4000; }
  chain firewall-check { %(ip)s daddr . meta l4proto . th dport vmap @firewall-ips; }
  chain service-endpoints-check { %(ip)s daddr . meta l4proto . th dport vmap @no-endpoint-services; }
  chain nodeport-endpoints-check {
    %(ip)s daddr @nodeport-ips meta l4proto . th dport vmap @no-endpoint-nodeports
  }
  chain cluster-ips-check { %(ip)s daddr @cluster-ips reject; }
%(chains)s  chain services {
    %(ip)s daddr . meta l4proto . th dport vmap @service-ips
    %(ip)s daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports
  }
  chain masquerading {
    meta mark & 0x4000 == 0 return
    meta mark set meta mark xor 0x4000
    masquerade fully-random
  }
  chain filter-prerouting { type filter hook prerouting priority -110; ct state new jump firewall-check; }
  chain filter-input {
    type filter hook input priority -110;
    ct state new jump nodeport-endpoints-check
    ct state new jump service-endpoints-check
  }
  chain filter-forward {
    type filter hook forward priority -110;
    ct state new jump service-endpoints-check
    ct state new jump cluster-ips-check
  }
  chain filter-output { type filter hook output priority -110; ct state new jump service-endpoints-check; }
  chain filter-output-post-dnat { type filter hook output priority -90; ct state new jump cluster-ips-check; }
  chain nat-prerouting { type nat hook prerouting priority -100; jump services; }
  chain nat-output { type nat hook output priority -100; jump services; }
  chain nat-postrouting { type nat hook postrouting priority 100; jump masquerading; }
}
"""


# ---- iptables -----------------------------------------------------------------------------------


class Iptables:
    """One rule per Service in KUBE-SERVICES, which the kernel checks one after the other. One chain
    per Service and one per endpoint."""

    def __init__(self, cluster_cidr, node_ip):
        self.cluster_cidr, self.node_ip = cluster_cidr, node_ip
        self.bits = 128 if ":" in node_ip else 32
        self.chains, self.rules, self.services, self.node_ports, self.filter = [], [], [], [], []

    def rule(self, chain, *parts):
        self.rules.append(f"-A {chain} {' '.join(parts)}\n")

    def choose(self, chain, service, endpoints, comment):
        for number, (ip, port) in enumerate(endpoints):
            left = len(endpoints) - number
            chance = [] if left == 1 else ["-m statistic --mode random --probability", f"{1 / left:.10f}"]
            self.rule(chain, comment, *chance, "-j", f"KUBE-SEP-{short(service['name'], ip, port)}")

    def endpoint_chains(self, service, comment):
        for ip, port in service["endpoints"]:
            chain = f"KUBE-SEP-{short(service['name'], ip, port)}"
            self.chains.append(chain)
            self.rule(chain, comment, f"-s {ip}/{self.bits} -j KUBE-MARK-MASQ")
            self.rule(chain, comment, f"-p {service['proto']} -m {service['proto']} -j DNAT",
                      f"--to-destination {with_port(ip, port)}")

    def add(self, service):
        proto, comment = service["proto"], f"-m comment --comment \"{service['name']}\""
        match = f"-d {service['vip']}/{self.bits} -p {proto} -m {proto} --dport {service['port']}"
        if not service["endpoints"]:
            self.filter.append(f"-A KUBE-SERVICES {comment} {match} -j REJECT\n")
            return
        chain = f"KUBE-SVC-{short(service['name'])}"
        self.chains.append(chain)
        self.services.append(f"-A KUBE-SERVICES {comment} {match} -j {chain}\n")
        self.rule(chain, comment, f"! -s {self.cluster_cidr}", match, "-j KUBE-MARK-MASQ")
        self.choose(chain, service, service["endpoints"], comment)
        self.endpoint_chains(service, comment)
        if service["node_port"]:
            self.add_external(service, chain, comment)

    def add_external(self, service, service_chain, comment):
        chain = f"KUBE-EXT-{short(service['name'])}"
        self.chains.append(chain)
        self.node_ports.append(f"-A KUBE-NODEPORTS {comment} -p {service['proto']} -m {service['proto']} "
                               f"--dport {service['node_port']} -j {chain}\n")
        if not service["external_local"]:
            self.rule(chain, comment, "-j KUBE-MARK-MASQ")
            self.rule(chain, f"-j {service_chain}")
            return
        local = f"KUBE-SVL-{short(service['name'])}"
        self.chains.append(local)
        self.rule(chain, comment, f"-s {self.cluster_cidr} -j {service_chain}")
        self.rule(chain, comment, "-m addrtype --src-type LOCAL -j KUBE-MARK-MASQ")
        self.rule(chain, comment, f"-m addrtype --src-type LOCAL -j {service_chain}")
        self.rule(chain, f"-j {local}")
        self.choose(local, service, service["local"], comment)

    def render(self, services):
        for service in services:
            self.add(service)
        return BASE_IPTABLES % {
            "filter": "".join(self.filter),
            "chains": "".join(f":{chain} - [0:0]\n" for chain in self.chains),
            "services": "".join(self.services),
            "node_ports": "".join(self.node_ports),
            "rules": "".join(self.rules),
            "node_ip": self.node_ip,
            "bits": self.bits,
        }


BASE_IPTABLES = """*filter
:KUBE-SERVICES - [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
-A INPUT -m conntrack --ctstate NEW -j KUBE-PROXY-FIREWALL
-A INPUT -j KUBE-NODEPORTS
-A INPUT -m conntrack --ctstate NEW -j KUBE-EXTERNAL-SERVICES
-A FORWARD -m conntrack --ctstate NEW -j KUBE-PROXY-FIREWALL
-A FORWARD -j KUBE-FORWARD
-A FORWARD -m conntrack --ctstate NEW -j KUBE-SERVICES
-A FORWARD -m conntrack --ctstate NEW -j KUBE-EXTERNAL-SERVICES
-A OUTPUT -m conntrack --ctstate NEW -j KUBE-PROXY-FIREWALL
-A OUTPUT -m conntrack --ctstate NEW -j KUBE-SERVICES
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
%(filter)sCOMMIT
*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
%(chains)s-A PREROUTING -j KUBE-SERVICES
-A OUTPUT -j KUBE-SERVICES
-A POSTROUTING -j KUBE-POSTROUTING
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000
-A KUBE-POSTROUTING -j MASQUERADE --random-fully
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
%(services)s-A KUBE-SERVICES -m addrtype --dst-type LOCAL -d %(node_ip)s/%(bits)s -j KUBE-NODEPORTS
%(node_ports)s%(rules)sCOMMIT
"""

MODES = {"nftables": Nftables, "iptables": Iptables}


def render(mode, services, cluster_cidr, node_ip):
    return MODES[mode](cluster_cidr, node_ip).render(services)


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in MODES:
        sys.exit(__doc__)
    given = json.load(sys.stdin)
    print(render(sys.argv[1], given["services"], given["cluster_cidr"], given["node_ip"]), end="")


if __name__ == "__main__":
    main()

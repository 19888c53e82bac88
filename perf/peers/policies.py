# SPDX-License-Identifier: Apache-2.0
"""policies.py - makes the rules that other programs write for NetworkPolicies with pod selectors
and numbered ports, for the pods of one node: kube-router as iptables with IP sets and as nftables
(its pkg/controllers/netpol), and Calico as iptables with IP sets (its felix/rules). Chains, their
order, sets and marks follow those programs. Left out is what packets between pods never reach
(INPUT, OUTPUT, host endpoints, profiles), in favour of these programs, and Calico's raw and mangle
tables. Comments of rules cost nothing and are left out, too.

A pod has name, namespace, address and labels. A policy is an object of Kubernetes."""
import hashlib

from rules import short

ALLOWED, PASSED = "0x10000", "0x20000"  # marks of kube-router: a rule allows it; a pod's chain has let it pass


def matches(pod, policy, selector):
    wanted = selector.get("matchLabels", {}).items()
    return pod.namespace == policy["metadata"]["namespace"] and wanted <= pod.labels.items()


class Rule:
    """One rule of a policy: addresses of its peers, and ports by protocol."""

    def __init__(self, policy, rule, peers, pods):
        self.peers = [pod.address for pod in pods for peer in rule[peers] if matches(pod, policy, peer["podSelector"])]
        self.ports = {}
        for port in rule["ports"]:
            self.ports.setdefault(port["protocol"].lower(), []).append(port["port"])


class Policy:
    def __init__(self, policy, pods):
        self.name = f"{policy['metadata']['namespace']}/{policy['metadata']['name']}"
        self.namespace = policy["metadata"]["namespace"]
        self.targets = [pod.address for pod in pods if matches(pod, policy, policy["spec"]["podSelector"])]
        self.ingress = [Rule(policy, rule, "from", pods) for rule in policy["spec"]["ingress"]]
        self.egress = [Rule(policy, rule, "to", pods) for rule in policy["spec"]["egress"]]


def selecting(policies, pod):
    return [policy for policy in policies if pod.address in policy.targets]


# ---- kube-router --------------------------------------------------------------------------------


class KubeRouter:
    """What both forms have: a chain and two sets of targets for each policy, a set for each rule, a
    chain for each pod. All policies of a pod are asked, even if one has allowed the packet."""

    def __init__(self, pods, policies, node):
        self.local = [pod for pod in pods if pod.node == node]
        self.policies = [Policy(policy, pods) for policy in policies]
        self.sets, self.chains = {}, {}

    def set(self, kind, name, addresses):
        name = f"KUBE-{kind}-{short(name)}"
        self.sets[name] = addresses
        return name

    def policy_chain(self, policy):
        """A rule without peers that exist is not written."""
        targets = self.set("DST", policy.name, policy.targets), self.set("SRC", policy.name, policy.targets)
        lines = []
        for number, rule in enumerate(policy.ingress):
            if rule.peers:
                peers = self.set("SRC", f"{policy.name}-ingress-{number}", rule.peers)
                lines += self.allow(peers, targets[0], rule)
        for number, rule in enumerate(policy.egress):
            if rule.peers:
                peers = self.set("DST", f"{policy.name}-egress-{number}", rule.peers)
                lines += self.allow(targets[1], peers, rule)
        self.chains[self.name_of(policy)] = lines

    def allow(self, sources, destinations, rule):
        return [line for proto, ports in rule.ports.items() for port in ports
                for line in self.allow_port(sources, destinations, proto, port)]

    @staticmethod
    def name_of(policy):
        return f"KUBE-NWPLCY-{short(policy.name)}"

    @staticmethod
    def chain_of(pod):
        return f"KUBE-POD-FW-{short(pod.namespace, pod.name)}"

    def make(self):
        for policy in self.policies:
            self.policy_chain(policy)
        for pod in self.local:
            self.pod_chain(pod, selecting(self.policies, pod))


class KubeRouterIptables(KubeRouter):
    def allow_port(self, sources, destinations, proto, port):
        match = (f"-m set --match-set {sources} src -m set --match-set {destinations} dst "
                 f"-p {proto} -m {proto} --dport {port}")
        return f"{match} -j MARK --set-xmark {ALLOWED}/{ALLOWED}", f"{match} -m mark --mark {ALLOWED}/{ALLOWED} -j RETURN"

    def pod_chain(self, pod, policies):
        denied = f"-m mark ! --mark {ALLOWED}/{ALLOWED}"
        self.chains[self.chain_of(pod)] = [
            "-j KUBE-NWPLCY-COMMON",
            f"-d {pod.address} -m addrtype --src-type LOCAL -j ACCEPT",
            *(f"-j {self.name_of(policy)}" for policy in reversed(policies)),
            f"{denied} -m limit --limit 10/min --limit-burst 10 -j NFLOG --nflog-group 100",
            f"{denied} -j REJECT",
            f"-j MARK --set-xmark 0/{ALLOWED}",
            f"-j MARK --set-xmark {PASSED}/{PASSED}",
        ]

    def forward(self):
        for pod in self.local:
            chain = self.chain_of(pod)
            for way in (f"-d {pod.address}", f"-s {pod.address}"):
                yield f"{way} -j {chain}"
                yield f"-m physdev --physdev-is-bridged {way} -j {chain}"
        yield f"-m mark --mark {PASSED}/{PASSED} -j ACCEPT"

    def render(self):
        """The inputs of `ipset restore` and of `iptables-restore --noflush`."""
        self.make()
        self.chains["KUBE-NWPLCY-COMMON"] = ["-m conntrack --ctstate INVALID -j DROP",
                                             "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"]
        self.chains["KUBE-ROUTER-FORWARD"] = self.forward()
        return ip_sets(self.sets, "hash:ip", " timeout 0"), restore(self.chains, ["-I FORWARD 1 -j KUBE-ROUTER-FORWARD"])


class KubeRouterNftables(KubeRouter):
    def allow_port(self, sources, destinations, proto, port):
        yield (f"ip saddr @{sources} ip daddr @{destinations} {proto} dport {port} counter "
               f"meta mark set meta mark or {ALLOWED} return")

    def pod_chain(self, pod, policies):
        denied = f"meta mark and {ALLOWED} == 0x0"
        self.chains[self.chain_of(pod)] = [
            "counter jump KUBE-NWPLCY-COMMON",
            f"fib saddr type local ip daddr {pod.address} counter accept",
            *(f"counter jump {self.name_of(policy)}" for policy in policies),
            f"{denied} limit rate 10/minute burst 10 packets log group 100",
            f"{denied} counter reject",
            "meta mark set meta mark and 0xfffeffff",
            f"meta mark set meta mark or {PASSED}",
        ]

    def forward(self):
        for pod in self.local:
            yield f"ip daddr {pod.address} counter jump {self.chain_of(pod)}"
            yield f"ip saddr {pod.address} counter jump {self.chain_of(pod)}"
        yield f"meta mark and {PASSED} == {PASSED} counter accept"

    def render(self):
        """The input of `nft -f -`."""
        self.make()
        chains = {"KUBE-NWPLCY-COMMON": ["ct state invalid counter drop", "ct state established,related counter accept"],
                  **self.chains,
                  "KUBE-ROUTER-FORWARD": ["type filter hook forward priority filter;", *self.forward()]}
        table = "table ip kube-router-filter-ipv4"
        sets = "".join(f"  set {name} {{ type ipv4_addr; {elements(found)} }}\n" for name, found in self.sets.items())
        text = "".join(f"  chain {name} {{\n" + "".join(f"    {line}\n" for line in lines) + "  }\n"
                       for name, lines in chains.items())
        return f"{table}\ndelete {table}\n{table} {{\n{sets}{text}}}\n"


def elements(addresses):
    return f"elements = {{ {', '.join(addresses)} }}" if addresses else ""


# ---- Calico -------------------------------------------------------------------------------------


ACCEPTED, NEXT = "0x10000", "0x20000"  # marks of Calico: accepted; on to the next tier
STRIDE = 5  # after so many policies of a group it looks whether one has decided


def interface_of(pod):
    """The name of a pod's device on its node."""
    return "cali" + hashlib.sha1(f"{pod.namespace}.{pod.name}".encode()).hexdigest()[:11]


class CalicoIptables:
    """A chain for each policy and direction, and for each pod and direction. The policies of a
    namespace select the same pods, so they are one group, with a chain of its own. Devices lead to
    the pods' chains by the first letter of their names."""

    def __init__(self, pods, policies, node):
        self.local = [pod for pod in pods if pod.node == node]
        self.policies = [Policy(policy, pods) for policy in policies]
        self.sets, self.chains = {}, {}

    def policy_chain(self, kind, policy, rules, side):
        lines = []
        for number, rule in enumerate(rules):
            name = f"cali40s:{short(policy.name, side, number)}"
            self.sets[name] = rule.peers
            for proto, ports in rule.ports.items():
                lines += [f"-p {proto} -m set --match-set {name} {side} -m multiport --dports "
                          f"{','.join(map(str, ports))} -j MARK --set-xmark {ACCEPTED}/{ACCEPTED}",
                          f"-m mark --mark {ACCEPTED}/{ACCEPTED} -j RETURN"]
        self.chains[f"cali-p{kind}-{short(policy.name)}"] = lines[:-1]

    def group_chain(self, kind, namespace, policies):
        decided = "-m mark ! --mark 0/0x30000 -j RETURN"
        lines = []
        for number, policy in enumerate(policies):
            first = number % STRIDE == 0
            lines += [decided] if first and number else []
            lines.append(f"{'' if first else '-m mark --mark 0/0x30000 '}-j cali-p{kind}-{short(policy.name)}")
        self.chains[f"cali-g{kind}-{short(namespace)}"] = lines

    def pod_chain(self, word, kind, pod, encapsulated):
        """`encapsulated` is what drops a pod's own tunnels."""
        self.chains[f"cali-{word}-{interface_of(pod)}"] = [
            "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
            "-m conntrack --ctstate INVALID -j DROP",
            "-j MARK --set-xmark 0/0x30000",
            *encapsulated,
            f"-j MARK --set-xmark 0/{NEXT}",
            f"-m mark --mark 0/{NEXT} -j cali-g{kind}-{short(pod.namespace)}",
            f"-m mark --mark {ACCEPTED}/{ACCEPTED} -j RETURN",
            f"-m mark --mark 0/{NEXT} -j DROP",
        ]

    def dispatch(self, way, word, option):
        """-g: the pod's chain returns to where this one was called."""
        by_letter = {}
        for pod in sorted(self.local, key=interface_of):
            by_letter.setdefault(interface_of(pod)[4], []).append(interface_of(pod))
        name = f"cali-{way}-wl-dispatch"
        self.chains[name] = [f"{option} cali{letter}+ -g {name}-{letter}" for letter in by_letter] + ["-j DROP"]
        for letter, devices in by_letter.items():
            self.chains[f"{name}-{letter}"] = [f"{option} {device} -g cali-{word}-{device}" for device in devices] + ["-j DROP"]

    def namespace_chains(self, namespace):
        own = [policy for policy in self.policies if policy.namespace == namespace]
        for policy in own:
            self.policy_chain("i", policy, policy.ingress, "src")
            self.policy_chain("o", policy, policy.egress, "dst")
        self.group_chain("i", namespace, own)
        self.group_chain("o", namespace, own)

    def render(self):
        """The inputs of `ipset restore` and of `iptables-restore --noflush`."""
        for namespace in dict.fromkeys(pod.namespace for pod in self.local):
            self.namespace_chains(namespace)
        for pod in self.local:
            self.pod_chain("fw", "o", pod, ["-p udp -m multiport --dports 4789 -j DROP", "-p 4 -j DROP"])
            self.pod_chain("tw", "i", pod, [])
        self.dispatch("from", "fw", "-i")
        self.dispatch("to", "tw", "-o")
        self.chains |= {"cali-from-hep-forward": [], "cali-to-hep-forward": [], "cali-cidr-block": []}
        self.chains["cali-FORWARD"] = [
            "-j MARK --set-xmark 0/0xe0000", f"-m mark --mark 0/{ACCEPTED} -j cali-from-hep-forward",
            "-i cali+ -j cali-from-wl-dispatch", "-o cali+ -j cali-to-wl-dispatch", "-j cali-to-hep-forward",
            "-j cali-cidr-block"]
        return ip_sets(self.sets, "hash:net", ""), restore(self.chains, [
            "-I FORWARD 1 -j cali-FORWARD", f"-A FORWARD -m mark --mark {ACCEPTED}/{ACCEPTED} -j ACCEPT",
            f"-A FORWARD -j MARK --set-xmark {ACCEPTED}/{ACCEPTED}"])


# ---- both ---------------------------------------------------------------------------------------


def ip_sets(sets, kind, options):
    lines = [f"create {name} {kind} family inet hashsize 1024 maxelem 65536{options}\n" for name in sets]
    lines += [f"add {name} {address}\n" for name, addresses in sets.items() for address in addresses]
    return "".join(lines)


def restore(chains, last):
    rules = "".join(f"-A {name} {line}\n" for name, lines in chains.items() for line in lines)
    return "*filter\n" + "".join(f":{name} - [0:0]\n" for name in chains) + rules + "".join(f"{line}\n" for line in last) + "COMMIT\n"

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/policy/worlds.py [--seed N] [--count N] [--counts] - random worlds with the expected verdicts.

Prints JSON lines for a program that has the same worlds evaluated by monokube; README.md describes them.
--counts prints how often each rule decided instead. Systematic worlds are in matrix.py."""
import argparse
import itertools
import json
import os
import random
import sys
import zlib

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import reference  # noqa: E402

FACTS = {"podRanges": ["10.244.0.0/16", "fd44::/48"],
         "overlay": {"10.18.0.1": "n1", "10.18.0.2": "n2", "fd18::1": "n1", "fd18::2": "n2"}}
NAMESPACES = ("a", "b", "c", "d", "e", "f")
POD_LABELS = {"app": ("x", "y", "z"), "env": ("prod", "test"), "tier": ("front",)}
NAMESPACE_LABELS = {"team": ("red", "blue"), "env": ("prod", "test")}
BLOCKS = {4: ("10.244.0.0/16", "10.244.1.0/24", "10.244.2.5/31", "192.168.0.12/32", "198.51.100.0/24", "0.0.0.0/0", "10.96.0.0/16",
              "10.18.0.0/16", "192.168.0.99/24"),
          6: ("fd44::/48", "fd44::1:0/112", "fd19::12/128", "2001:db8::/64", "::/0", "fd96::/112")}
WIDE = {4: ("10.244.0.0/16", "0.0.0.0/0"), 6: ("fd44::/48", "::/0")}
EXCEPTS = {4: ("10.244.1.4/30", "198.51.100.7/32", "10.244.2.5/25", "192.168.0.11/32"), 6: ("fd44::1:4/126", "2001:db8::7/128", "fd44::2:0/112")}
OUTSIDE = {4: ("198.51.100.7", "198.51.100.8"), 6: ("2001:db8::7", "2001:db8::8")}
PORT_NAMES = ("web", "web", "dns", "none")
PORTS = (53, 80, 8080, 9090)
DIRECT = [("TCP", 80), ("TCP", 8080), ("TCP", 9090), ("UDP", 53), ("UDP", 80), ("SCTP", 80)]


# ---- objects

def with_mode(policy):
    """One policy of eight has the annotation, and one of them a value that means nothing."""
    number = zlib.crc32(json.dumps(policy, sort_keys=True).encode())  # draws nothing: worlds stay what they were
    if number % 8 == 0:
        policy["metadata"]["annotations"] = {"monokube.io/policy-mode": "Audit" if number % 64 == 0 else "audit"}
    return policy


def other_mode(policy):
    """The same policy; it is audited now, or in force."""
    made = json.loads(json.dumps(policy))
    made["metadata"]["annotations"] = {"monokube.io/policy-mode": "enforce" if reference.has_audit(policy) else "audit"}
    return made


def thing(kind, name, namespace=None, labels=None, **rest):
    versions = {"NetworkPolicy": "networking.k8s.io/v1", "EndpointSlice": "discovery.k8s.io/v1",
                "ClusterNetworkPolicy": reference.CLUSTER_APIS[0]}
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **({"labels": labels} if labels else {})}
    return {"apiVersion": versions.get(kind, "v1"), "kind": kind, "metadata": metadata, **rest}


def node(number, families):
    last = 10 + number
    addresses = {4: "192.168.0.%d" % last, 6: "fd19::%d" % last}
    entries = [{"type": "Hostname", "address": "n%d" % number}] + [
        {"type": "InternalIP", "address": addresses[family]} for family in families]
    if 4 in families:
        entries.append({"type": "ExternalIP", "address": "203.0.113.%d" % last})
    return thing("Node", "n%d" % number, labels={"zone": ("east", "west")[number - 1]}, status={"addresses": entries})


def pod_addresses(number, last, families):
    return [{4: "10.244.%d.%d" % (number, last), 6: "fd44::%d:%x" % (number, last)}[family] for family in families]


def pod(namespace, name, number, last, families, labels=None, ports=(), **spec):
    made = thing("Pod", name, namespace, labels, status={
        "phase": "Running", "startTime": "2026-01-01T00:00:%02dZ" % (last % 60),
        "podIPs": [{"ip": address} for address in pod_addresses(number, last, families)]},
        spec={"nodeName": "n%d" % number, "containers": [{"name": "main", "image": "x", "ports": list(ports)}], **spec})
    made["metadata"]["uid"] = "uid-%s-%s" % (namespace, name)
    return made


def labels(rng, choices):
    return {key: rng.choice(values) for key, values in choices.items() if rng.random() < 0.6}


def selector(rng, choices, extra=()):
    """Half of them select by a label, the others are empty or have expressions."""
    key = rng.choice(list(choices))
    kind = rng.randrange(8)
    if kind < 2:
        return {}
    if kind < 5:
        return {"matchLabels": {key: rng.choice(choices[key])}}
    if kind == 5 and extra:
        return {"matchLabels": {"kubernetes.io/metadata.name": rng.choice(extra)}}
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    entry = {"key": key, "operator": operator, **({"values": [rng.choice(choices[key])]} if operator in ("In", "NotIn") else {})}
    return {"matchExpressions": [entry], **({"matchLabels": {"app": "x"}} if kind == 7 and "app" in choices else {})}


class Maker:
    """The objects of one random world."""

    def __init__(self, rng, families):
        self.rng, self.families, self.facts = rng, families, json.loads(json.dumps(FACTS))
        self.namespaces = NAMESPACES[:rng.randint(3, 6)]
        self.pods, self.last = [], {1: 3, 2: 3}
        self.facts.update(masqueradeAll=rng.random() < 0.1, enforcing=rng.random() < 0.98)

    def chance(self, share):
        return self.rng.random() < share

    def objects(self):
        rng = self.rng
        found = [node(number, self.families) for number in (1, 2)]
        found += [self.namespace(name) for name in self.namespaces]
        self.pods = [self.pod(index) for index in range(rng.randint(4, 12))]
        found += self.pods
        for index in range(rng.randint(1, 3)):
            found += self.service("s%d" % index, index)
        found += [self.network_policy("p%d" % index) for index in range(rng.randint(0, 8))]
        found += [self.cluster_policy("c%d" % index) for index in range(rng.randint(0, 4))]
        return found

    def namespace(self, name):
        return thing("Namespace", name, labels=labels(self.rng, NAMESPACE_LABELS))

    def ports(self):
        rng = self.rng
        choices = [{"name": "web", "containerPort": rng.choice((80, 8080))}, {"name": "web", "containerPort": 9090},
                   {"name": "dns", "containerPort": 53, "protocol": "UDP"}, {"name": "dns", "containerPort": 53},
                   {"name": "web", "containerPort": 80, "protocol": "UDP"}]
        return rng.sample(choices, rng.randint(0, 4))

    def pod(self, index):
        rng, number = self.rng, self.rng.randint(1, 2)
        namespace, name = rng.choice(self.namespaces), "%s%d" % (rng.choice("xyz"), index)
        self.last[number] += 1
        made = pod(namespace, name, number, self.last[number], self.families, labels(rng, POD_LABELS), self.ports())
        spec = made["spec"]
        if self.chance(0.08):
            spec["hostNetwork"] = True
            made["status"]["podIPs"] = [{"ip": "192.168.0.%d" % (10 + number)}] if 4 in self.families else []
        elif self.chance(0.08):
            self.hidden(made)
        elif self.chance(0.05):
            made["metadata"]["annotations"] = {"kubernetes.io/config.hash": "hash-%d" % index}
        elif self.chance(0.05):
            made["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
        elif self.chance(0.06):
            made["status"]["phase"] = rng.choice(("Succeeded", "Failed"))
            self.last[number] -= self.chance(0.7)
        if self.chance(0.3):
            spec["initContainers"] = [{"name": "init", "image": "x", "ports": [{"name": "web", "containerPort": 9090}], **(
                {"restartPolicy": "Always"} if self.chance(0.5) else {})}]
        if self.chance(0.15) and spec["containers"][0]["ports"] and not spec.get("hostNetwork"):
            spec["containers"][0]["ports"][0]["hostPort"] = 8000 + index
        return made

    def hidden(self, made):
        """A sandbox that the API does not show: no address, an object that the node does not know, or another UID."""
        entry = {"node": made["spec"]["nodeName"], "pod": reference.name_of(made), "uid": made["metadata"]["uid"],
                 "addresses": reference.addresses_of(made)}
        kind = self.rng.randrange(3)
        if kind == 0:
            entry["pending"] = True
        else:
            made["status"]["podIPs"] = []
            entry["uid"] += "-new" * (kind == 1)
        self.facts.setdefault("sandboxes", []).append(entry)

    def service(self, name, index):
        rng, namespace = self.rng, self.rng.choice(self.namespaces)
        policy = "Local" if self.chance(0.4) else "Cluster"
        yield thing("Service", name, namespace, spec={
            "type": "NodePort", "clusterIPs": [{4: "10.96.0.%d" % (index + 10), 6: "fd96::%d" % (index + 10)}[f] for f in self.families],
            "externalIPs": [{4: "203.0.113.%d" % (200 + index), 6: "2001:db8:1::%d" % index}[f] for f in self.families],
            "ports": [{"name": "http", "port": 80, "nodePort": 30080 + index, "protocol": "TCP"}], "externalTrafficPolicy": policy})
        chosen = rng.sample(self.pods, min(len(self.pods), rng.randint(1, 4)))
        for family, port in itertools.product(self.families, (80, 8080)):
            endpoints = [self.endpoint(made, family) for made in chosen if (len(reference.name_of(made)) + index) % 2 == (port == 80)]
            if any(endpoints):
                yield thing("EndpointSlice", "%s-%d-%d" % (name, family, port), namespace, {"kubernetes.io/service-name": name},
                            addressType="IPv%d" % family, endpoints=[entry for entry in endpoints if entry],
                            ports=[{"name": "http", "port": port, "protocol": "TCP"}])

    def endpoint(self, made, family):
        found = [address for address in reference.addresses_of(made) if reference.family_of(address) == family]
        if not found or reference.finished(made):
            return None
        return {"addresses": found, "nodeName": made["spec"]["nodeName"], "conditions": {"ready": True}}

    # ---- policies

    def block(self):
        family = self.rng.choice(self.families)
        if self.chance(0.4):
            return {"ipBlock": {"cidr": self.rng.choice(BLOCKS[family])}}
        return {"ipBlock": {"cidr": self.rng.choice(WIDE[family]), "except": self.rng.sample(EXCEPTS[family], self.rng.randint(1, 2))}}

    def peer(self):
        kind = self.rng.randrange(10)
        if kind == 9 and self.chance(0.3):
            return self.rng.choice(({}, {"podSelector": {}, "moons": {}}, {"podSelector": {"matchLabel": {}}}, {"ipBlock": {"cidr": "10.0.0.0/33"}}, {"podSelector": {}, "ipBlock": {"cidr": "0.0.0.0/0"}}))
        if kind < 3:
            return self.block()
        return {**({"podSelector": selector(self.rng, POD_LABELS)} if kind != 3 else {}),
                **({"namespaceSelector": selector(self.rng, NAMESPACE_LABELS, self.namespaces)} if kind in (3, 4, 5, 6) else {})}

    def port(self):
        rng, made = self.rng, {}
        if self.chance(0.04):
            return rng.choice(({"endPort": 9090}, {"port": 80, "endport": 9090}))
        if self.chance(0.7):
            made["protocol"] = rng.choice(("TCP", "TCP", "UDP", "SCTP"))
        if self.chance(0.85):
            made["port"] = rng.choice(PORT_NAMES) if self.chance(0.45) else rng.choice(PORTS)
            if not isinstance(made["port"], str) and self.chance(0.25):
                made["endPort"] = made["port"] + rng.choice((0, 1, 8000, -10))
        return made

    def network_policy(self, name):
        rng, spec = self.rng, {"podSelector": selector(self.rng, POD_LABELS)}
        if self.chance(0.7):
            spec["policyTypes"] = rng.choice((["Ingress"], ["Egress"], ["Ingress", "Egress"]))
        for direction, key in (("ingress", "from"), ("egress", "to")):
            if self.chance(0.75):
                spec[direction] = [self.rule(key) for _ in range(rng.randint(0, 3))]
        return with_mode(thing("NetworkPolicy", name, rng.choice(self.namespaces), spec=spec))

    def rule(self, key):
        made = {}
        if self.chance(0.8):
            made[key] = [self.peer() for _ in range(self.rng.randint(0, 3))]
        if self.chance(0.5):
            made["ports"] = [self.port() for _ in range(self.rng.randint(0, 3))]
        if self.chance(0.02):
            made["port"] = 80
        return made

    def cluster_peer(self, egress):
        rng, kind = self.rng, self.rng.randrange(20)
        if egress and kind < 4:
            return {"networks": rng.sample(BLOCKS[rng.choice(self.families)], rng.randint(1, 2))}
        if egress and kind < 7:
            return {"nodes": rng.choice(({}, {"matchLabels": {"zone": "east"}}))}
        if egress and kind < 8:
            return {"domainNames": ["example.com"]}
        if kind == 8:
            return rng.choice(({"moons": {}}, {"namespaces": {}, "moons": {}}, {"networks": ["0.0.0.0/0"], "nodes": {}}))
        if kind < 13:
            return {"namespaces": selector(rng, NAMESPACE_LABELS, self.namespaces)}
        return {"pods": {"namespaceSelector": selector(rng, NAMESPACE_LABELS), "podSelector": selector(rng, POD_LABELS)}}

    def protocol(self):
        rng, kind = self.rng, self.rng.randrange(12)
        if kind < 2:
            return {"destinationNamedPort": rng.choice(PORT_NAMES)}
        if kind == 2 and self.chance(0.5):
            return rng.choice(({"icmp": {}}, {"tcp": {"sourcePort": {}}}, {"tcp": {}, "udp": {}}))
        port = rng.choice(PORTS)
        destination = rng.choice(({}, {"destinationPort": {"number": port}}, {"destinationPort": {"number": port}},
                                  {"destinationPort": {"range": {"start": port, "end": port + 30}}}))
        return {rng.choice(("tcp", "tcp", "udp", "sctp")): destination}

    def cluster_policy(self, name):
        rng = self.rng
        subject = {"namespaces": selector(rng, NAMESPACE_LABELS, self.namespaces)} if self.chance(0.5) else {
            "pods": {"namespaceSelector": selector(rng, NAMESPACE_LABELS), "podSelector": selector(rng, POD_LABELS)}}
        spec = {"tier": rng.choice(("Admin", "Baseline")), "priority": rng.choice((0, 5, 5, 9, 1000)), "subject": subject}
        for direction, key in (("ingress", "from"), ("egress", "to")):
            rules = [{"action": rng.choice(("Accept", "Deny", "Pass")),
                      key: [self.cluster_peer(key == "to") for _ in range(rng.randint(1, 2))],
                      **({"ports": []} if self.chance(0.03) else {}),
                      **({"protocols": [self.protocol() for _ in range(rng.randint(1, 2))]} if self.chance(0.4) else {})}
                     for _ in range(rng.randint(0, 3))]
            if rules:
                spec[direction] = rules
        made = thing("ClusterNetworkPolicy", name, spec=spec)
        if self.chance(0.05):
            made["apiVersion"] = "policy.networking.k8s.io/v1alpha1"
        return with_mode(made)

    # ---- changes

    def change(self, objects):
        """Events that World.apply knows; those that change nothing are there, too."""
        rng, kind = self.rng, self.rng.randrange(12)
        of = {name: [one for one in objects if one["kind"] == name] for name in ("Pod", "NetworkPolicy", "ClusterNetworkPolicy")}
        if kind < 2:
            return [{"put": self.network_policy(rng.choice(("p0", "p1", "p9")))}]
        if kind == 2:
            return [{"put": self.cluster_policy(rng.choice(("c0", "c9")))}]
        if kind == 3 and of["NetworkPolicy"]:
            return [{"delete": ["NetworkPolicy", reference.name_of(rng.choice(of["NetworkPolicy"]))]}]
        if kind == 4:
            return [{"vanished": "ClusterNetworkPolicy"}]
        if kind == 5:
            return [{"put": self.namespace(rng.choice(self.namespaces))}]
        if kind == 6 and of["NetworkPolicy"]:
            bad = json.loads(json.dumps(rng.choice(of["NetworkPolicy"])))
            bad["spec"] = {"podSelector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}}
            return [{"put": bad}]
        if kind == 7 and of["NetworkPolicy"]:
            return [{"put": other_mode(policy)} for policy in of["NetworkPolicy"] + of["ClusterNetworkPolicy"]]
        if kind == 7:
            return [{"half": []}]
        if kind == 8:
            return [{"agent": "dead"}, {"put": self.network_policy("p0")}] + ([{"agent": "up"}] if self.chance(0.5) else [])
        made = json.loads(json.dumps(rng.choice(of["Pod"])))
        if kind == 9 and not made["spec"].get("hostNetwork"):
            return self.replaced(made)
        made["metadata"]["labels"] = labels(rng, POD_LABELS)
        return [{"put": made}]

    def replaced(self, made):
        """The pod is deleted; another one may get its name and address before or after CNI's DEL."""
        old = reference.uid_of(made)
        events = [{"delete": ["Pod", reference.name_of(made)]}]
        if self.chance(0.5):
            made["metadata"].update(uid=made["metadata"]["uid"] + "-2", annotations={}, labels=labels(self.rng, POD_LABELS))
            events += [{"DEL": old}, {"put": made}]
        return events


# ---- flows

def sources(world, family):
    known = sorted({box.uid for box in world.boxes if box.pod and of_family(box.addresses, family)})
    found = [{"pod": uid} for uid in known]
    found += [{"node": name} for name in ("n1", "n2")]
    found += [{"outside": OUTSIDE[family][0], "node": "n1"}, {"outside": OUTSIDE[family][1], "node": "n2"}]
    inside = [address for box in world.boxes for address in of_family(box.addresses, family)]
    found.append({"outside": {4: "10.18.0.2", 6: "fd18::2"}[family], "node": "n1"})
    return found + ([{"outside": inside[0], "node": "n1"}] if inside else [])


def of_family(addresses, family):
    return [address for address in addresses if reference.family_of(address) == family]


def address_is_odd(address):
    return int(reference.address_of(address)) % 2


def services(world, family):
    """Each kind of address of each Service with each endpoint of the family."""
    for piece in world.of("EndpointSlice"):
        name = "%s/%s" % (piece["metadata"]["namespace"], piece["metadata"]["labels"]["kubernetes.io/service-name"])
        for entry in piece["endpoints"]:
            for address in of_family(entry["addresses"], family):
                for kind in ("clusterIP", ("nodePort", "external")[address_is_odd(address)]):
                    yield {"service": name, "kind": kind, "backend": address}, entry["nodeName"]


def host_ports(world):
    for box in (box for box in world.boxes if box.object):
        for port in (port for one in box.object["spec"]["containers"] for port in one.get("ports") or [] if "hostPort" in port):
            yield {"hostPort": port["hostPort"]}, port.get("protocol", "TCP"), box.node


def flows(world, families, direct):
    """Every pair, with each (protocol, port) of `direct`; and every Service, endpoint, host port and client."""
    for family in families:
        clients = sources(world, family)
        targets = [{"pod": source["pod"]} for source in clients if "pod" in source] + [{"node": "n1"}, {"node": "n2"}]
        targets += [{"address": OUTSIDE[family][0]}, {"address": pod_addresses(1, 200, [family])[0]},
                    {"address": {4: "10.18.0.2", 6: "fd18::2"}[family]}]
        for source, target in itertools.product(clients, targets):
            if makes_sense(world, source, target):
                yield from ({"source": source, "destination": target, "protocol": protocol, "port": port, "family": family}
                            for protocol, port in direct)
        for source, (target, where) in itertools.product(clients, services(world, family)):
            if service_makes_sense(world, source, target, where):
                yield {"source": source, "destination": target, "protocol": "TCP", "port": 80, "family": family}
                if target["kind"] == "clusterIP" and source == clients[0]:
                    yield {"source": source, "destination": target, "protocol": "ICMP", "port": 0, "family": family}
        for source, (target, protocol, where) in itertools.product(clients, host_ports(world)):
            if place(world, source) == where and "outside" in source and family in families[:1]:
                yield {"source": source, "destination": target, "protocol": protocol, "port": 0, "family": family}


def place(world, source):
    return source["node"] if "node" in source else world.box(source["pod"]).node


def makes_sense(world, source, target):
    """A node to itself or to the outside is no pod's flow; a client from outside comes to pods of its node."""
    if "pod" in source:
        return True
    return "pod" in target and ("outside" not in source or world.box(target["pod"]).node == source["node"])


def service_makes_sense(world, source, target, where):
    """Policy Local: clients outside meet endpoints of their node; the host is as a client of its own node."""
    if target["kind"] == "clusterIP":
        return "outside" not in source
    local = world.objects["Service", target["service"]]["spec"]["externalTrafficPolicy"] == "Local"
    return "pod" in source or "outside" in source and (not local or where == source["node"])


# ---- lines

def expected(world, flow):
    return {"flow": flow, **reference.verdict(world, flow)}


def packets(world, nodes, rng, opened):
    """What happens to connections after a change: packets of both directions, forged ones, errors, fragments."""
    for flow in opened:
        passes = True
        for kind in ("more", "answer"):
            if flow["protocol"] == "SCTP" or flow["protocol"] != "TCP" and kind == "answer" and "service" in flow["destination"]:
                continue
            socket = flow["protocol"] == "TCP" and rng.random() < 0.7
            sent = flow
            if kind == "answer" and not passes and flow["protocol"] != "TCP":
                sent = dict(flow, clientPort=49999)  # it may open a flow of its own, which the packets below are not of
            passes = nodes.packet(world, sent, kind, socket)
            yield {"packet": kind, "flow": sent, "socket": socket, "passes": passes}
        forged = dict(flow, clientPort=rng.randrange(50000, 60000))
        if flow["protocol"] == "TCP" and "service" not in flow["destination"]:
            yield {"packet": "more", "flow": forged, "socket": False, "passes": nodes.packet(world, forged, "more")}
        for kind in ("open", "error", "own-error"):
            yield {"packet": kind, "flow": flow, "passes": nodes.packet(world, flow, kind)}
        if flow["protocol"] == "UDP" and "service" not in flow["destination"]:
            yield {"packet": "fragment", "flow": flow, "fragment": 1, "passes": nodes.packet(world, flow, "fragment", fragment=1)}
            yield {"packet": "open", "flow": flow, "fragment": 2, "passes": nodes.packet(world, flow, "open", fragment=2)}
            yield {"packet": "fragment", "flow": flow, "fragment": 2, "passes": nodes.packet(world, flow, "fragment", fragment=2)}


def additions(rng, maker):
    """What ADD makes of new pods, by what the node knows."""
    for index in range(4):
        knows = {"enforcing": rng.random() < 0.9, "policies": rng.random() < 0.8, "bound": ["uid-0"] if rng.random() < 0.5 else [],
                 "listed": [kind for kind in ("policies", "namespaces", "pods") if rng.random() < 0.85],
                 "namespaces": {name: rng.random() < 0.5 for name in maker.namespaces[:2]}}
        name = rng.choice((None, "%s/new" % maker.namespaces[0], "%s/new" % maker.namespaces[2]))
        uid = "uid-%d" % (index % 2)
        yield {"add": {"node": knows, "pod": name, "uid": uid}, "result": reference.at_add(knows, name, uid)}


def random_world(seed):
    rng = random.Random(seed)
    families = rng.choice(([4], [4], [6], [4, 6], [6, 4]))
    maker = Maker(rng, families)
    maker.facts.update(audit=seed % 16 == 0, keepsClient=seed % 4 == 1)
    objects = maker.objects()
    world, nodes = reference.World(objects, **maker.facts), reference.Connections()
    yield {"world": "random-%d" % seed, "families": families, "facts": maker.facts, "objects": objects}
    direct = rng.sample(DIRECT, 4 - len(families)) + [("ICMP", 0)] * (rng.random() < 0.3)

    def ask():
        return list(flows(world, families, direct))
    asked = ask()
    yield from (expected(world, flow) for flow in asked)
    yield from additions(rng, maker)
    opened = [flow for flow in rng.sample(asked, min(12, len(asked))) if flow["protocol"] != "ICMP" and "hostPort" not in flow["destination"]]
    for flow in opened:
        yield {"packet": "open", "flow": flow, "passes": nodes.packet(world, flow)}
    for _ in range(rng.randint(1, 3)):
        yield from changed(world, nodes, rng, maker, opened, ask)


def changed(world, nodes, rng, maker, opened, ask):
    """One change. `before` is the verdict before it: while the change is written, a flow has one of the two."""
    former = {json.dumps(flow): reference.verdict(world, flow)["verdict"] for flow in ask()}
    for event in maker.change(list(world.objects.values())):
        world.apply(event)
        yield {"change": event}
    asked = ask()
    for flow in rng.sample(asked, min(60, len(asked))):
        before = former.get(json.dumps(flow))
        yield {**expected(world, flow), **({"before": before} if reference.seen(34, before) else {})}
    yield from packets(world, nodes, rng, [flow for flow in opened if flow in asked])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--counts", action="store_true")
    args = parser.parse_args()
    lines = itertools.chain.from_iterable(random_world(seed) for seed in range(args.seed, args.seed + args.count))
    asked = 0
    for line in lines:
        asked += "verdict" in line or "passes" in line
        if not args.counts:
            print(json.dumps(line, separators=(",", ":")))
    if args.counts:
        print("%d flows and packets" % asked)
        print("\n".join("%3d %8d" % entry for entry in sorted(reference.visited.items())))


if __name__ == "__main__":
    main()

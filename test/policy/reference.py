#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/policy/reference.py FILE.yaml FLOW.. - the verdict of network policies on flows, by the rules alone.

FILE.yaml has the cluster's objects and, without a kind, the facts of World. FLOW is JSON, as README.md
describes it. The rules have the numbers that README.md lists. Speed does not matter here: each
function says one group of rules in the plainest way. `visited` counts how often each rule decided.
"""
import collections
import copy
import functools
import ipaddress
import json
import re
import sys

PORTS = ("TCP", "UDP", "SCTP")
CLUSTER_APIS = ["policy.networking.k8s.io/v1beta1", "policy.networking.k8s.io/v1alpha2"]
visited = collections.Counter()

# A pod's sandbox on a node; pod is None if a container belongs to no Pod. object: the Pod as last known.
Box = collections.namedtuple("Box", "node pod uid addresses object pending")
# The other end, as the subject's node sees it. unknown: an address of the cluster whose pod is not known.
Peer = collections.namedtuple("Peer", "address pod unknown")
# A flow after destination translation. seen: the client's address as the server's node sees it.
Flow = collections.namedtuple("Flow", "protocol port how at client server seen trusted client_box server_box service")
# rule: the one that decided; by: [policy, index of its rule] of all that say so.
End = collections.namedtuple("End", "verdict rule tier by")


class Invalid(Exception):
    """A part of an object that makes no sense."""


def seen(rule, value=True):
    visited[rule] += bool(value)
    return value


def decided(verdict, rule, tier="", by=()):
    return End(verdict, seen(rule) and rule, tier, list(by))


def check(good, what):
    if not good:
        raise Invalid(what)


def check_known(thing, *members):
    """A member that is not known may narrow what it is a part of."""
    check(all(key in members for key, value in thing.items() if value is not None), "unknown member")


def check_one(thing, *members):
    check_known(thing, *members)
    check(len(thing) == 1, "one of " + ", ".join(members))


@functools.lru_cache(None)
def address_of(text):
    return ipaddress.ip_address(text)


@functools.lru_cache(None)
def network_of(text):
    check(re.fullmatch(r"[0-9a-fA-F.:]+/[0-9]+", text), "not a CIDR: " + text)
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError as error:
        raise Invalid(str(error)) from error


def inside(address, cidr):
    return address_of(address) in network_of(cidr)


def family_of(address):
    return address_of(address).version


def meta(thing):
    return thing["metadata"]


def name_of(thing):
    namespace = meta(thing).get("namespace")
    return (namespace + "/" if namespace else "") + meta(thing)["name"]


def uid_of(pod):
    """Rule 42: a static pod's UID is an annotation, and any Pod may have it. Without a UID, the name counts."""
    static = (meta(pod).get("annotations") or {}).get("kubernetes.io/config.hash")
    return seen(42, static) or meta(pod).get("uid") or name_of(pod)


def addresses_of(pod):
    return [entry["ip"] for entry in pod.get("status", {}).get("podIPs") or []]


def finished(pod):
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


# ---- the cluster

POLICIES = ("NetworkPolicy", "ClusterNetworkPolicy")


def has_audit(policy):
    return (meta(policy).get("annotations") or {}).get("monokube.io/policy-mode") == "audit"


class World:
    """Objects, and facts that only nodes know: podRanges: CIDRs. overlay: {address: node}, what nodes
    use inside the overlay. masqueradeAll. keepsClient: clientAddress is Keep. audit: all policies are audited (rule 60). enforcing: false until
    policies are in force (rule 41).
    sandboxes: [{node, pod, uid, addresses, pending}], besides those that follow from Pods."""

    def __init__(self, things=(), **facts):
        self.objects, self.facts, self.gone, self.waiting, self.alive = {}, facts, {}, [], True
        for thing in things:
            self.put(thing)
        self.refresh()

    def apply(self, event):
        """What the agent sees: put: object; delete: [kind, name]; vanished: kind (its CRD); half: objects
        of a list that was not read to its end; agent: dead or up. DEL: UID of a sandbox that is removed."""
        if "agent" in event:
            self.alive = event["agent"] == "up"
            for missed in self.waiting if self.alive else []:
                self.apply(missed)
            self.waiting = [] if self.alive else self.waiting
        elif "DEL" in event:
            self.gone.pop(event["DEL"], None)
        elif not self.alive:
            seen(36, self.waiting.append(event) is None)
        elif "half" in event:
            seen(36)
        elif "put" in event:
            self.put(event["put"])
        elif "delete" in event:
            self.remove(tuple(event["delete"]))
        elif "vanished" in event:
            for key in [key for key in self.objects if key[0] == event["vanished"]]:
                seen(47, self.remove(key) is None)
        self.refresh()

    def put(self, thing):
        """Rules 6, 12 (an object that cannot be read changes nothing), 47 (v1beta1 and v1alpha2 are read)."""
        if thing["kind"] == "ClusterNetworkPolicy" and seen(47, thing["apiVersion"] not in CLUSTER_APIS):
            return
        try:
            check_object(thing)
        except (Invalid, KeyError, TypeError, AttributeError):
            seen(12)
            return
        if thing["kind"] == "Namespace":
            thing = dict(thing, metadata=dict(meta(thing), labels={
                "kubernetes.io/metadata.name": name_of(thing), **(meta(thing).get("labels") or {})}))
        key = thing["kind"], name_of(thing)
        seen(35, key in self.objects and meta(self.objects[key]).get("labels") != meta(thing).get("labels"))
        self.objects[key] = thing

    def remove(self, key):
        """Rule 43: the sandbox of a Pod object that is gone lives on, until the CNI plugin's DEL."""
        thing = self.objects.pop(key, None)
        if thing and key[0] == "Pod":
            seen(43)
            self.gone[uid_of(thing)] = thing

    def refresh(self):
        self.kinds, self.audited = collections.defaultdict(list), collections.defaultdict(list)
        for (kind, _), thing in sorted(self.objects.items()):
            (self.audited if self.audits(thing) else self.kinds)[kind].append(thing)
        self.pods, boxes = self.of("Pod"), []
        known = {(name_of(pod), uid_of(pod)): pod for pod in list(self.gone.values()) + self.pods}
        for entry in self.facts.get("sandboxes", []):
            uid = entry.get("uid") or entry["pod"]
            boxes.append(Box(entry["node"], entry["pod"], uid, entry["addresses"], known.get((entry["pod"], uid)),
                             entry.get("pending", False) and not self.facts.get("audit")))
        given = {(box.node, address) for box in boxes for address in box.addresses} | {(box.pod, box.uid) for box in boxes}
        for (name, uid), pod in known.items():
            node, addresses = pod["spec"].get("nodeName"), addresses_of(pod)
            if node and addresses and not host_network(pod) and not finished(pod) \
                    and (name, uid) not in given and (node, addresses[0]) not in given:
                boxes.append(Box(node, name, uid, addresses, pod, False))
        self.boxes, self.strict = boxes, None
        self.strict = copy.copy(self)  # the same world, if no policy were audited
        self.strict.kinds = collections.defaultdict(list, {
            kind: self.kinds[kind] + self.audited[kind] for kind in list(self.kinds) + list(self.audited)})

    def audits(self, thing):
        """Rule 59: an audited policy counts as if it did not exist. Rule 60: with the setting, each one is audited."""
        return thing["kind"] in POLICIES and (seen(60, self.facts.get("audit")) or seen(59, has_audit(thing)))

    def of(self, kind, audits=False):
        return (self.audited if audits else self.kinds)[kind]

    def box(self, name):
        return next((box for box in reversed(self.boxes) if name in (box.pod, box.uid)), None)

    def box_at(self, address, node=None):
        return next((box for box in self.boxes if address in box.addresses and node in (None, box.node)), None)

    def node_address(self, node, family):
        """The first InternalIP of the family."""
        entries = self.objects["Node", node]["status"]["addresses"]
        return next((entry["address"] for entry in entries
                     if entry["type"] == "InternalIP" and family_of(entry["address"]) == family), None)

    def overlay_address(self, node, family):
        return next((address for address, owner in self.facts.get("overlay", {}).items()
                     if owner == node and family_of(address) == family), None) or self.node_address(node, family)

    def has_namespace(self, name):
        return ("Namespace", name) in self.objects

    def labels(self, namespace):
        return meta(self.objects["Namespace", namespace])["labels"]


def host_network(pod):
    return pod["spec"].get("hostNetwork", False)


def check_object(thing):
    """What an API server's validation refuses in a whole object."""
    spec = thing.get("spec") or {}
    if thing["kind"] == "NetworkPolicy":
        check_selector(spec.get("podSelector") or {})
        check(all(kind in ("Ingress", "Egress") for kind in spec.get("policyTypes") or []), "policyTypes")
        check(all(isinstance(spec.get(key) or [], list) for key in ("ingress", "egress")), "rules")
    elif thing["kind"] == "ClusterNetworkPolicy":
        for selector in pods_of(spec["subject"]):
            check_selector(selector)
        check(spec["tier"] in ("Admin", "Baseline") and 0 <= spec["priority"] <= 1000, "tier, priority")
        check(all(rule["action"] in ("Accept", "Deny", "Pass") for key in ("ingress", "egress")
                  for rule in spec.get(key) or []), "action")


# ---- selectors, blocks, ports

OPERATORS = {
    "In": lambda labels, key, values: labels.get(key) in values,
    "NotIn": lambda labels, key, values: labels.get(key) not in values,
    "Exists": lambda labels, key, values: key in labels,
    "DoesNotExist": lambda labels, key, values: key not in labels,
}


def check_selector(selector):
    check_known(selector, "matchLabels", "matchExpressions")
    for entry in selector.get("matchExpressions") or []:
        check_known(entry, "key", "operator", "values")
        check(entry["operator"] in OPERATORS, entry["operator"])
        check(bool(entry.get("values")) == (entry["operator"] in ("In", "NotIn")), "values of " + entry["operator"])


def selects(selector, labels):
    """Rule 6: all labels and all expressions match; a negative operator matches an absent key, too."""
    check_selector(selector)
    return seen(6, all((labels or {}).get(key) == value for key, value in (selector.get("matchLabels") or {}).items()) and
                all(OPERATORS[entry["operator"]](labels or {}, entry["key"], entry.get("values"))
                    for entry in selector.get("matchExpressions") or []))


def pod_matches(world, pod, namespaces, pods):
    """Both selectors; None selects all."""
    return (namespaces is None or selects(namespaces, world.labels(meta(pod)["namespace"]))) and \
        (pods is None or selects(pods, meta(pod).get("labels")))


def in_block(block, address):
    """Rule 7: inside `cidr`, and inside none of its own `except`."""
    check_known(block, "cidr", "except")
    excepts = [network_of(entry) for entry in block.get("except") or []]
    if not inside(address, block["cidr"]):
        return False
    return seen(7, not any(address_of(address) in entry for entry in excepts))


def named_ports(pod, name, protocol):
    """Rule 9: the numbers that a pod gives a name. Init containers count if they restart."""
    spec = pod["spec"] if pod else {}
    running = (spec.get("containers") or []) + [
        init for init in spec.get("initContainers") or [] if init.get("restartPolicy") == "Always"]
    return [port["containerPort"] for container in running for port in container.get("ports") or []
            if port.get("name") == name and port.get("protocol", "TCP") == protocol]


def check_port(entry):
    """Rule 12: what a port may be."""
    check_known(entry, "protocol", "port", "endPort")
    port, end = entry.get("port"), entry.get("endPort")
    check(entry.get("protocol") in (None,) + PORTS, "protocol")
    check(end is None or isinstance(port, int) and port <= end <= 65535, "endPort")
    check(port is None or isinstance(port, str) or 1 <= port <= 65535, "port")
    check(not isinstance(port, str) or re.fullmatch(r"(?=.*[a-z])(?!.*--)[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?", port), "name")


def port_matches(entry, flow, server):
    """Rule 8: TCP is the default, no port is all ports, endPort is inclusive. Rule 10: the pod's port."""
    check_port(entry)
    port, protocol = entry.get("port"), entry.get("protocol") or "TCP"
    if protocol != flow.protocol:
        return False
    if isinstance(port, str):
        return seen(9, flow.port in named_ports(server, port, protocol))
    seen(10, port is not None and flow.service)
    return seen(8, port is None or port <= flow.port <= (entry.get("endPort") or port))


# ---- NetworkPolicy

def directions(policy):
    """Rule 1: to which directions a policy applies."""
    spec = policy["spec"]
    return spec.get("policyTypes") or ["Ingress"] + ["Egress"] * bool(spec.get("egress"))


def isolating(world, pod, direction, audits=False):
    """Rule 1: the policies that select a pod; @audits: the audited ones."""
    return [policy for policy in world.of("NetworkPolicy", audits)
            if meta(policy)["namespace"] == meta(pod)["namespace"] and direction in directions(policy)
            and selects(policy["spec"].get("podSelector") or {}, meta(pod).get("labels"))]


def peer_matches(world, namespace, entry, peer):
    """Rule 5: pods of this namespace, of selected ones, or both; an ipBlock (7) stands by itself."""
    check_known(entry, "ipBlock", "namespaceSelector", "podSelector")
    block, namespaces, pods = (entry.get(key) for key in ("ipBlock", "namespaceSelector", "podSelector"))
    check((block is None) != (namespaces is None and pods is None), "a peer has a block or selectors")
    if block is not None:
        return in_block(block, peer.address)
    for selector in (namespaces, pods):
        check_selector(selector or {})
    if peer.pod is None or namespaces is None and meta(peer.pod)["namespace"] != namespace:
        return False
    return seen(5, pod_matches(world, peer.pod, namespaces, pods))


def knows(thing, *members):
    check_known(thing, *members)
    return True


def valid(match, *args):
    """Rule 12: an invalid peer or port matches nothing."""
    try:
        return match(*args)
    except (Invalid, KeyError, TypeError, AttributeError, ValueError):
        return not seen(12)


def rule_matches(world, flow, policy, rule, direction, peer, server):
    """Rule 4: peers and ports; an empty list matches all. Rule 28: no ports for other protocols."""
    side = "from" if direction == "Ingress" else "to"
    peers = (rule or {}).get(side) or []
    ports = (rule or {}).get("ports") or []
    if not valid(knows, rule or {}, side, "ports"):
        return False
    if ports and flow.protocol not in PORTS:
        return not seen(28)
    return seen(4, (not peers or any(valid(peer_matches, world, meta(policy)["namespace"], entry, peer) for entry in peers))
                and (not ports or any(valid(port_matches, entry, flow, server) for entry in ports)))


def network_policies(world, flow, direction, pod, peer, server):
    """Rules 2, 3: an isolated pod is allowed what any rule of any policy allows. 22: and itself."""
    policies = isolating(world, pod, direction)
    if not policies:
        return None
    seen(1)
    if itself(flow):
        return decided("allow", 22, "NetworkPolicy")
    by = [[name_of(policy), index] for policy in policies
          for index, rule in enumerate(policy["spec"].get(direction.lower()) or [])
          if rule_matches(world, flow, policy, rule, direction, peer, server)]
    return decided("allow" if by else "deny", 3, "NetworkPolicy", by or [[name_of(policy), None] for policy in policies])


# ---- ClusterNetworkPolicy

def pods_of(entry):
    """Rule 51: the selectors of namespaces and of pods. Without the former, `pods` are of all namespaces."""
    check_one(entry, "namespaces", "pods")
    check_known(entry.get("pods") or {}, "namespaceSelector", "podSelector")
    if "namespaces" in entry:
        return entry["namespaces"], {}
    return entry["pods"].get("namespaceSelector", {}), entry["pods"]["podSelector"]


def cluster_policies(world, pod, direction, tier, audits=False):
    """Rule 51: the subject. Rule 49: lower priority values first, then names. Rule 48: only with rules."""
    found = []
    for policy in world.of("ClusterNetworkPolicy", audits):
        if policy["spec"]["tier"] == tier and policy["spec"].get(direction.lower()) \
                and pod_matches(world, pod, *pods_of(policy["spec"]["subject"])):
            found.append(policy)
    return sorted(found, key=lambda policy: (policy["spec"]["priority"], name_of(policy)))


def cluster_peer_matches(world, entry, peer):
    """Rules 51, 52: pods by selectors; networks, with pods and nodes inside; nodes, by all their addresses."""
    if len(entry) == 1 and "networks" in entry:
        return seen(52, any([inside(peer.address, cidr) for cidr in entry["networks"]]))
    if len(entry) == 1 and "nodes" in entry:
        return seen(52, any(selects(entry["nodes"], meta(node).get("labels")) and any(
            address["address"] == peer.address for address in node["status"]["addresses"]) for node in world.of("Node")))
    if len(entry) == 1 and "domainNames" in entry:
        return not seen(58)
    for selector in pods_of(entry):
        check_selector(selector)
    return peer.pod is not None and seen(51, pod_matches(world, peer.pod, *pods_of(entry)))


def protocol_matches(entry, flow, server, unknown):
    """Rule 53: tcp, udp or sctp with a number, a range or any port; or a name, whatever its protocol."""
    check_one(entry, "tcp", "udp", "sctp", "destinationNamedPort")
    if "destinationNamedPort" in entry:
        return unknown or seen(53, flow.port in named_ports(server, entry["destinationNamedPort"], flow.protocol))
    protocol = next(name for name in PORTS if name.lower() in entry)
    check_known(entry[protocol.lower()] or {}, "destinationPort")
    port = (entry[protocol.lower()] or {}).get("destinationPort")
    check_one(port or {"number": 1}, "number", "range")
    check_known((port or {}).get("range") or {}, "start", "end")
    start, end = (1, 65535) if port is None else (port["number"],) * 2 if "number" in port else (
        port["range"]["start"], port["range"]["end"])
    return flow.protocol == protocol and seen(53, start <= flow.port <= end)


def cluster_rule(world, flow, rule, direction, peer, server):
    """The action of a rule that matches, and why. 54: if a part of it is not understood, it fails closed.
    55: a Deny with selectors counts for an unknown address."""
    action, protocols = rule["action"], rule.get("protocols") or []
    peers = rule["from" if direction == "Ingress" else "to"]
    try:
        check_known(rule, "name", "action", "from" if direction == "Ingress" else "to", "protocols")
        check(action == "Accept" or not any("domainNames" in entry for entry in peers), "domainNames only for Accept")
        selectors = any("pods" in entry or "namespaces" in entry for entry in peers)
        unknown = action == "Deny" and peer.unknown and selectors
        match = any([cluster_peer_matches(world, entry, peer) for entry in peers])
        ports = not protocols or any([protocol_matches(entry, flow, server, unknown) for entry in protocols])
        return (action, 50 if match else 55) if (match or unknown) and ports else None
    except (Invalid, KeyError, TypeError, AttributeError, StopIteration):
        return None if seen(54) and action == "Accept" else ("Deny", 54)


def cluster_tier(world, flow, direction, pod, peer, server, tier):
    """Rule 49: the first rule that matches decides. Rule 50: Accept, Deny; Pass leaves it to the next tier."""
    for policy in cluster_policies(world, pod, direction, tier):
        for index, rule in enumerate(policy["spec"][direction.lower()]):
            hit = cluster_rule(world, flow, rule, direction, peer, server)
            if hit:
                seen(49, index > 0)
                seen(57, flow.service or peer.pod is None)
                return decided({"Accept": "allow", "Deny": "deny", "Pass": "pass"}[hit[0]], hit[1], tier, [[name_of(policy), index]])
    return None


# ---- a flow

def node_of(world, flow, source):
    """Where a packet begins its way, and as what. Rule 21: a host-network pod is its node."""
    if "pod" in source:
        box = world.box(source["pod"])
        if box:
            return "pod", box.node, box
        return "node", seen(21, world.objects["Pod", source["pod"]]["spec"]["nodeName"]), None
    return "node" if "node" in source and len(source) == 1 else "outside", source["node"], None


def service_backend(world, target, flow):
    """Rules 10, 13: the address and port behind a Service's port."""
    service = world.objects["Service", target["service"]]
    name = next(port.get("name", "") for port in service["spec"]["ports"]
                if port["port"] == flow["port"] and port.get("protocol", "TCP") == flow["protocol"])
    for piece in world.of("EndpointSlice"):
        ours = meta(piece)["namespace"] == meta(service)["namespace"] and \
            meta(piece)["labels"]["kubernetes.io/service-name"] == meta(service)["name"]
        if ours and any(target["backend"] in entry["addresses"] for entry in piece["endpoints"]):
            return target["backend"], next(port["port"] for port in piece["ports"] if port.get("name", "") == name)
    raise KeyError("%s has no endpoint %s" % (target["service"], target["backend"]))


def host_port(world, target, flow, at, family):
    """Rule 13: the pod and port behind a host port."""
    for box in (box for box in world.boxes if box.node == at and box.object):
        for port in (port for one in box.object["spec"]["containers"] for port in one.get("ports") or []):
            if port.get("hostPort") == target["hostPort"] and port.get("protocol", "TCP") == flow["protocol"]:
                return of_family(box.addresses, family), port["containerPort"]
    raise KeyError("no pod has host port %d" % target["hostPort"])


def of_family(addresses, family):
    return next(address for address in addresses if family_of(address) == family)


def destination(world, flow, at, family):
    """Address and port after destination translation (rule 13)."""
    target, port = flow["destination"], flow.get("port", 0)
    if "service" in target:
        return seen(13) and service_backend(world, target, flow)
    if "hostPort" in target:
        return seen(13) and host_port(world, target, flow, at, family)
    box = world.box(target["pod"]) if "pod" in target else None
    if box:
        return of_family(box.addresses, family), port
    node = world.objects["Pod", target["pod"]]["spec"]["nodeName"] if "pod" in target else target.get("node")
    return world.node_address(node, family) if node else target["address"], port


def keeps_address(world, source):
    """Rule 14: a client that is no pod and no node keeps its address, with clientAddress: Keep."""
    address = source.get("outside")
    return address and world.facts.get("keepsClient", False) and address not in world.facts.get("overlay", {}) and \
        not any(inside(address, cidr) for cidr in world.facts.get("podRanges", [])) and \
        not any(address == world.node_address(meta(node)["name"], family_of(address)) for node in world.of("Node"))


def client_as_node(world, flow, how, at, server_box):
    """Rules 14, 18: whether the server's node sees the client's Node instead of the client."""
    target = flow["destination"]
    if "service" not in target or how == "node" or not server_box or server_box.node == at:
        return False
    if keeps_address(world, flow["source"]):
        return not seen(14)
    if target.get("kind", "clusterIP") == "clusterIP":
        return how == "outside" or seen(18, world.facts.get("masqueradeAll", False))
    service = world.objects["Service", target["service"]]
    return seen(14) and service["spec"].get("externalTrafficPolicy", "Cluster") == "Cluster"


def resolve(world, flow):
    """The flow after destination translation, and the client as the server's node sees it (rules 13-18)."""
    family = flow.get("family", 4)
    how, at, client_box = node_of(world, flow, flow["source"])
    server, port = destination(world, flow, at, family)
    server_box = world.box_at(server)
    client = of_family(client_box.addresses, family) if client_box else \
        flow["source"].get("outside") or world.node_address(at, family)
    as_node = how == "node" or client_as_node(world, flow, how, at, server_box)
    return Flow(flow["protocol"], port, how, at, client, server, world.overlay_address(at, family) if as_node else client,
                as_node or how == "pod", client_box, server_box,
                flow["destination"].get("service") or flow["destination"].get("hostPort"))


def identify(world, address, node, trusted):
    """Rules 15-17, 44: whose an address is, as `node` sees it. Rule 21: no host-network pod."""
    ranges = world.facts.get("podRanges", [])
    ours = any(inside(address, cidr) for cidr in ranges)
    if not trusted and (ours or address in world.facts.get("overlay", {})):
        return Peer(address, None, seen(16))
    if address in world.facts.get("overlay", {}):
        owner = seen(15) and world.facts["overlay"][address]
        return Peer(world.node_address(owner, family_of(address)) or address, None, False)
    running = [pod for pod in world.pods if not finished(pod) and world.has_namespace(meta(pod)["namespace"])]
    box = world.box_at(address, node)
    if box:
        pod = next((pod for pod in running if box.pod and uid_of(pod) == box.uid), None)
        return Peer(address, pod, bool(box.pod) and not pod)
    pods = [pod for pod in running if address in addresses_of(pod) and not host_network(pod)]
    pod = max(pods, key=lambda pod: pod["status"].get("startTime", ""), default=None)
    seen(44, len(pods) > 1 or len(running) < len(world.pods))
    return Peer(address, pod, seen(17, pod is None and ours))


def itself(flow):
    """A pod that reaches itself through a Service or a host port (rules 22, 56)."""
    return flow.service is not None and flow.client_box is not None and flow.client_box == flow.server_box


def can_select(world, namespace):
    """Rule 38: whether any policy could select a pod of this namespace. Any could, if the Namespace is gone (43)."""
    if not world.has_namespace(namespace):
        return any(world.of(kind) for kind in POLICIES)
    return any(meta(policy)["namespace"] == namespace for policy in world.of("NetworkPolicy")) or any(
        selects((policy["spec"]["subject"].get("pods") or {}).get("namespaceSelector")
                or policy["spec"]["subject"].get("namespaces") or {}, world.labels(namespace))
        for policy in world.of("ClusterNetworkPolicy"))


def object_of(world, box):
    """The Pod of a sandbox. Rule 43: without its Namespace nothing can select it."""
    return box.object if world.has_namespace(box.pod.split("/")[0]) else None


def pending(world, box):
    """Rules 37, 42: the policies of a pod are not known before its object, by UID, is."""
    return box.pending or object_of(world, box) is None and can_select(world, box.pod.split("/")[0])


def evaluate(world, flow, direction, in_audit=False):
    """One direction, on the node of its own pod (rule 11). @in_audit: what it would be if no policy were audited."""
    box = flow.client_box if direction == "Egress" else flow.server_box
    if box is None or not box.pod:
        return decided("allow", 46 if box else 21)
    if flow.client_box == box == flow.server_box and not flow.service:
        return decided("allow", 56)
    if not world.facts.get("enforcing", True):
        return decided("allow", 41)
    if direction == "Ingress" and flow.how == "node" and flow.at == box.node:
        return decided("allow", 19)
    if pending(world, box):
        return decided("deny", 37)
    return tiers(world.strict if in_audit else world, flow, direction, box)


def tiers(world, flow, direction, box):
    """Rule 48: Admin, then NetworkPolicy, which is final for an isolated pod, then Baseline."""
    if object_of(world, box) is None:
        return decided("allow", 38)
    peer = identify(world, flow.server, box.node, True) if direction == "Egress" else \
        identify(world, flow.client if itself(flow) else flow.seen, box.node, flow.trusted)
    seen(20, direction == "Egress" and flow.server == world.node_address(box.node, family_of(flow.server)))
    server = peer.pod if direction == "Egress" else box.object
    admin = cluster_tier(world, flow, direction, box.object, peer, server, "Admin")
    if admin and admin.verdict != "pass":
        return admin
    network = network_policies(world, flow, direction, box.object, peer, server)
    if network:
        return network
    baseline = seen(48) and cluster_tier(world, flow, direction, box.object, peer, server, "Baseline")
    if baseline and baseline.verdict != "pass":
        return baseline
    return decided("allow", 2)


def verdict(world, flow):
    """Rule 11: both directions must allow. Rule 23: the node answers a ping to a Service's address."""
    if "service" in flow["destination"] and flow["protocol"] == "ICMP":
        return {"verdict": "allow", "egress": decided("allow", 23), "ingress": None}
    resolved = resolve(world, flow)
    egress, ingress = (evaluate(world, resolved, direction) for direction in ("Egress", "Ingress"))
    both = egress.verdict == ingress.verdict == "allow"
    seen(11, egress.verdict != ingress.verdict)
    return {"verdict": "allow" if both else "deny", "egress": egress, "ingress": ingress,
            **audit(world, resolved, (("egress", egress), ("ingress", ingress)))}


def audit(world, flow, ends):
    """Rule 59: by direction, who would deny what passes, if no policy were audited."""
    strict = {name: evaluate(world, flow, name.capitalize(), in_audit=True) for name, end in ends
              if end.verdict == "allow" and any(world.audited.values())}
    denied = {name: end for name, end in strict.items() if end.verdict == "deny"}
    return {"audited": denied} if denied else {}


def during(before, after, flow):
    """Rule 34: while a change is written, a flow has its former or its new verdict, and no other."""
    return seen(34) and {verdict(world, flow)["verdict"] for world in (before, after)}


def guarded(world, box, audits=False):
    """Whether anything applies to a pod, in either direction. Rule 41: nothing does before the first enforcement.
    @audits: only what is audited counts."""
    pod = object_of(world, box)
    if world.facts.get("enforcing", True) is False:
        return False
    return pending(world, box) or pod is not None and any(
        isolating(world, pod, direction, audits) or cluster_policies(world, pod, direction, tier, audits)
        for direction in ("Ingress", "Egress") for tier in ("Admin", "Baseline"))


# ---- connections

class Connections:
    """What nodes remember of connections (rules 24-33, 45). Each node has its own memory. It remembers
    a flow if something applies to a pod of the flow on this node, also if it is only audited, or if it
    translates the flow."""

    def __init__(self):
        self.known, self.fragments = set(), {}

    def packet(self, world, flow, kind="open", socket=False, fragment=None):
        """kind: open (SYN, INIT, echo request, first datagram), more (client to server), answer, error (ICMP,
        about this flow), own-error (made by the pod's node), fragment (a later one). socket: both ends have the TCP socket. Returns whether it passes."""
        if "service" in flow["destination"] and flow["protocol"] == "ICMP":
            return True
        resolved = resolve(world, flow)
        ends = [(resolved.client_box, "Egress"), (resolved.server_box, "Ingress")]
        ends = [(box, direction) for box, direction in ends if box and box.pod]
        key = (identity(resolved.client_box, resolved.client), identity(resolved.server_box, resolved.server),
               flow["protocol"], flow.get("clientPort", 40000), resolved.port)
        if kind == "fragment":
            return self.later_fragment(world, key + (fragment,), [box for box, _ in ends])
        nodes = list(dict.fromkeys(box.node for box, _ in ends))
        passed = all(self.at(world, resolved, node, [end for end in ends if end[0].node == node], (node,) + key, kind, socket)
                     for node in (reversed(nodes) if kind == "answer" else nodes))
        if fragment is not None:
            self.fragments[key + (fragment,)] = passed
        return passed

    def later_fragment(self, world, key, boxes):
        """Rule 29: the verdict of the first fragment; if that was not seen, only between open pods."""
        seen(29)
        return self.fragments[key] if key in self.fragments else not any(guarded(world, box) for box in boxes)

    def at(self, world, flow, node, ends, key, kind, socket):
        """One node."""
        watched = any(guarded(world, box) for box, _ in ends)
        remembers = watched or any(guarded(world, box, audits=True) for box, _ in ends)
        if kind == "own-error":
            return seen(27)
        if kind == "error":
            return seen(27, key in self.known) or not watched
        if kind == "open" or key not in self.known and kind == "more" and flow.protocol in ("UDP", "ICMP"):
            return self.open(world, flow, ends, key, remembers or node == flow.at and (bool(flow.service) or flow.how == "outside"))
        if key in self.known:
            return seen(24) and seen(31, self.allowed(world, flow, ends))
        if not watched:
            return seen(32) and self.open(world, flow, ends, key, remembers and flow.protocol == "TCP" and socket)
        if flow.protocol == "TCP":
            return seen(33) and self.open(world, flow, ends, key, True) if socket else not seen(26)
        return self.allowed(world, backwards(flow, key[-2]), [(box, OPPOSITE[direction]) for box, direction in ends])

    def allowed(self, world, flow, ends):
        return all(evaluate(world, flow, direction).verdict == "allow" for _, direction in ends)

    def open(self, world, flow, ends, key, remember):
        """Rule 25: evaluated whether a session exists or not. Rule 30: what is denied opens no session."""
        seen(25, key in self.known)
        if not self.allowed(world, flow, ends):
            return not seen(30)
        if remember:
            self.known.add(key)
        return True


OPPOSITE = {"Egress": "Ingress", "Ingress": "Egress"}


def identity(box, address):
    """Rule 45: an address that is used again is another end."""
    return seen(45) and box.uid if box else address


def backwards(flow, port):
    """An answer without a session is a first datagram in the other direction (rule 25)."""
    return flow._replace(port=port, how="pod", at=flow.server_box.node if flow.server_box else flow.at, client=flow.server,
                         seen=flow.server, server=flow.seen, trusted=flow.server_box is not None,
                         client_box=flow.server_box, server_box=flow.client_box, service=None)


# ---- the life of a pod

def at_add(node, pod, uid):
    """Rules 38-41, 46: what ADD makes of a pod: open, known (its policies are there) or pending. node: what
    this node knows: enforcing, listed (kinds whose lists were complete since the boot), policies (whether
    the cluster has any), namespaces ({name: whether a policy can select there}), bound (UIDs computed)."""
    if pod is None:
        return seen(46) and "open"
    if not node.get("enforcing", True):
        return seen(41) and "open"
    needed = {"policies"} | ({"namespaces", "pods"} if node["policies"] else set())
    if not needed <= set(node["listed"]):
        return seen(41) and "pending"
    if uid in node["bound"]:
        return seen(39) and "known"
    if not node["policies"] or not node["namespaces"].get(pod.split("/")[0], True):
        return seen(38) and "open"
    return seen(40) and "pending"


def main():
    import yaml
    with open(sys.argv[1], encoding="utf-8") as lines:
        things = [thing for thing in yaml.safe_load_all(lines) if thing]
    facts = next((thing for thing in things if "kind" not in thing), {})
    world = World([thing for thing in things if "kind" in thing], **facts)
    for flow in sys.argv[2:]:
        found = verdict(world, json.loads(flow))
        print(found["verdict"])
        for end in ("egress", "ingress"):
            print("  %-8s%s" % (end, json.dumps(found[end] and found[end]._asdict())))
        for end, audited in found.get("audited", {}).items():
            print("  %-8s%s" % (end, "audited: " + json.dumps(audited._asdict())))


if __name__ == "__main__":
    main()

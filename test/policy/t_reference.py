#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/policy/t_reference.py [PART OF A NAME...] - the reference evaluator: each rule of README.md by
hand-written cases, each rule broken once (then a case of the rule must fail), worlds and the matrix."""
import json
import sys
import types

import yaml

sys.dont_write_bytecode = True
import matrix  # noqa: E402
import reference  # noqa: E402
import worlds  # noqa: E402

RULES = 60
CLUSTER = """
podRanges: [10.244.0.0/16, "fd44::/48"]
overlay: {10.18.0.1: n1, 10.18.0.2: n2, "fd18::1": n1, "fd18::2": n2}
---
{kind: Node, apiVersion: v1, metadata: {name: n1, labels: {zone: east}}, status: {addresses: [{type: Hostname, address: n1},
  {type: InternalIP, address: 192.168.0.11}, {type: InternalIP, address: "fd19::11"}, {type: ExternalIP, address: 203.0.113.11}]}}
---
{kind: Node, apiVersion: v1, metadata: {name: n2, labels: {zone: west}}, status: {addresses: [
  {type: InternalIP, address: 192.168.0.12}, {type: InternalIP, address: "fd19::12"}, {type: ExternalIP, address: 203.0.113.12}]}}
---
{kind: Namespace, apiVersion: v1, metadata: {name: a, labels: {team: red}}}
---
{kind: Namespace, apiVersion: v1, metadata: {name: b, labels: {team: blue}}}
---
{kind: Namespace, apiVersion: v1, metadata: {name: c}}
"""
# Pod, node, last digits of its addresses, labels, named ports
PODS = """
a/x n1 1.1 {app: x}          [{name: web, containerPort: 8080, hostPort: 8000}, {name: dns, containerPort: 5353, protocol: UDP}]
a/y n2 2.1 {app: y}          [{name: web, containerPort: 9090}, {name: web, containerPort: 9091}]
a/z n1 1.3 {app: z, env: prod} []
b/x n1 1.2 {app: x}          [{name: web, containerPort: 80, protocol: UDP}]
b/y n2 2.2 {app: y}          []
c/x n2 2.3 {}                []
"""
# Service: any address, port 80; endpoints with their ports
SERVICES = {"a/svc": ("Cluster", {"10.244.1.1": 8080, "10.244.2.1": 9090}), "a/near": ("Local", {"10.244.1.1": 8080}),
            "c/api": ("Cluster", {"192.168.0.12": 6443})}


def pod(name, node="n1", last="1.9", labels=None, ports=(), **spec):
    namespace, short = name.split("/")
    addresses = [{"ip": "10.244." + last}, {"ip": "fd44::" + last.replace(".", ":")}] if last else []
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": namespace, "name": short, "uid": "uid-" + short + namespace,
                                                            "labels": labels or {}},
            "spec": {"nodeName": node, "containers": [{"name": "main", "ports": list(ports)}], **spec},
            "status": {"phase": "Running", "podIPs": addresses, "startTime": "2026-01-01T00:00:00Z"}}


def service(name):
    namespace, short = name.split("/")
    policy, endpoints = SERVICES[name]
    yield {"kind": "Service", "apiVersion": "v1", "metadata": {"namespace": namespace, "name": short},
           "spec": {"ports": [{"port": 80}], "externalTrafficPolicy": policy}}
    for address, port in endpoints.items():
        yield {"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
               "metadata": {"namespace": namespace, "name": short + address, "labels": {"kubernetes.io/service-name": short}},
               "endpoints": [{"addresses": [address]}], "ports": [{"port": port}]}


def base():
    facts, *things = yaml.safe_load_all(CLUSTER)
    for line in PODS.strip().splitlines():
        name, node, last, rest = line.split(None, 3)
        labels, ports = rest.split("}", 1)
        things.append(pod(name, node, last, yaml.safe_load(labels + "}"), yaml.safe_load(ports)))
    things.append(pod("b/host", "n2", None, {"app": "x"}, hostNetwork=True))
    for name in SERVICES:
        things += service(name)
    return things, facts


THINGS, FACTS = base()


def policy(head, spec):
    """`NetworkPolicy a/name`, or `Admin 10 name`; then perhaps the mode by annotation, `mode=audit`."""
    kind, *rest = head.split()
    if rest[-1].startswith("mode="):
        made = policy(" ".join([kind, *rest[:-1]]), spec)
        made["metadata"]["annotations"] = {"monokube.io/policy-mode": rest[-1][5:]}
        return made
    if kind == "NetworkPolicy":
        namespace, name = rest[0].split("/")
        return {"kind": kind, "apiVersion": "networking.k8s.io/v1", "metadata": {"namespace": namespace, "name": name}, "spec": spec}
    return {"kind": "ClusterNetworkPolicy", "apiVersion": "policy.networking.k8s.io/v1alpha2", "metadata": {"name": rest[1]},
            "spec": {"tier": kind, "priority": int(rest[0]), **spec}}


def flow_of(text):
    """`a/x > a/y TCP 80`; ends: a pod, a node, an address, address@node (enters there), kind:service@endpoint,
    hostPort:number. An ending /6 is IPv6."""
    family = 6 if text.endswith("/6") else 4
    source, target, protocol, port = (text[:-2] if family == 6 else text).replace(" > ", " ").split()
    return {"source": end_of(source), "destination": end_of(target), "protocol": protocol, "port": int(port), "family": family}


def end_of(text):
    first, _, rest = text.partition("@")
    kind, colon, name = first.partition(":")
    if colon and kind == "hostPort":
        return {"hostPort": int(name)}
    if colon and "/" in name:
        return {"service": name, "kind": kind, "backend": rest}
    if rest:
        return {"outside": first, "node": rest}
    if first in ("n1", "n2"):
        return {"node": first}
    return {"pod": first} if "/" in first else {"address": first}


SHORT = {("allow", "allow"): "allow", ("deny", "allow"): "egress", ("allow", "deny"): "ingress", ("deny", "deny"): "both"}


def short(found):
    """Which direction denies, and with `by`, which policies and rules say so."""
    return SHORT[found["egress"].verdict, found["ingress"].verdict if found["ingress"] else "allow"]


def names(found):
    ends = [end for end in (found["egress"], found["ingress"]) if end and end.by]
    return " ".join("%s[%s]" % (name, index) if index is not None else name for end in ends for name, index in end.by)


def audited(found):
    """The directions that audited policies would deny, and who says so."""
    return " ".join("%s %s" % (name, names({"egress": end, "ingress": None})) for name, end in found.get("audited", {}).items())


# ---- cases: (rule, title, text). Lines are policies, facts, further objects (`+`) and flows with their
# verdict: allow, egress, ingress (the direction that denies) or both; then optionally who decided. After ~
# come the directions that audited policies would deny, each with who says so.

CASES = []


def case(rule, title, text):
    def run(ref):
        things, facts, wrong, world = list(THINGS), dict(FACTS), [], None
        for line in text.strip().splitlines():
            head, _, rest = line.strip().partition(": ")
            if head.startswith(("NetworkPolicy", "Admin", "Baseline")):
                things.append(policy(head, yaml.safe_load(rest)))
            elif head.startswith("fact "):
                facts[head[5:]] = yaml.safe_load(rest)
            elif head.startswith("+ "):
                things.append(yaml.safe_load(line.strip()[2:]))
            else:
                decided, _, audits = rest.partition(" ~")
                want, _, by = decided.partition(" ")
                world = world or ref.World(things, **facts)
                found = ref.verdict(world, flow_of(head))
                if short(found) != want or by and names(found) != by or (found["verdict"] == "allow") != (want == "allow") \
                        or audited(found) != audits:
                    wrong.append("%s: %s %s ~%s, expected %s" % (head, short(found), names(found), audited(found), rest))
        return "; ".join(wrong)
    CASES.append((rule, title, run))


def story(rule, title):
    """A case in Python: a function of the module, which returns what is wrong, or asserts."""
    def add(function):
        def run(ref):
            try:
                return function(ref)
            except AssertionError as error:
                return "line %d %s" % (error.__traceback__.tb_next.tb_lineno if error.__traceback__.tb_next else 0, error)
        CASES.append((rule, title, run))
        return function
    return add


# ---- what a policy says

case(1, "an empty podSelector selects the whole namespace, and no other", """
    NetworkPolicy a/p: {podSelector: {}}
    b/x > a/x TCP 80: ingress a/p
    b/x > a/z TCP 80: ingress
    a/x > b/x TCP 80: allow""")
case(1, "an absent podSelector selects the whole namespace", """
    NetworkPolicy a/p: {policyTypes: [Ingress]}
    b/x > a/x TCP 80: ingress""")
case(1, "a podSelector selects by labels", """
    NetworkPolicy a/p: {podSelector: {matchLabels: {app: x}}}
    b/y > a/x TCP 80: ingress
    b/y > a/y TCP 80: allow""")
case(1, "without policyTypes: Ingress always, Egress with an egress rule", """
    NetworkPolicy a/p: {podSelector: {matchLabels: {app: x}}, egress: []}
    NetworkPolicy a/q: {podSelector: {matchLabels: {app: z}}, egress: [{to: [{podSelector: {}}]}]}
    a/x > b/x TCP 80: allow
    a/z > b/x TCP 80: egress
    b/x > a/z TCP 80: ingress
    b/x > a/x TCP 80: ingress""")
case(1, "policyTypes [Egress] leaves ingress open", """
    NetworkPolicy a/p: {podSelector: {}, policyTypes: [Egress]}
    b/x > a/x TCP 80: allow
    a/x > b/x TCP 80: egress""")
case(1, "policyTypes [Ingress] makes rules of egress meaningless", """
    NetworkPolicy a/p: {podSelector: {}, policyTypes: [Ingress], egress: [{to: [{podSelector: {}}]}]}
    a/x > b/x TCP 80: allow""")
case(2, "a pod that no policy selects is open, each direction by itself", """
    NetworkPolicy a/p: {podSelector: {matchLabels: {app: x}}, policyTypes: [Ingress]}
    b/x > a/y TCP 80: allow
    a/x > b/x TCP 80: allow
    b/x > a/x TCP 80: ingress""")
case(3, "the union of all rules of all policies", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{ports: [{port: 1}]}, {ports: [{port: 2}]}]}
    NetworkPolicy a/q: {podSelector: {}, ingress: [{ports: [{port: 3}]}]}
    NetworkPolicy a/none: {podSelector: {}}
    b/x > a/x TCP 1: allow a/p[0]
    b/x > a/x TCP 2: allow a/p[1]
    b/x > a/x TCP 3: allow a/q[0]
    b/x > a/x TCP 4: ingress a/none a/p a/q""")
case(3, "a policy without rules, or with an empty list, allows nothing", """
    NetworkPolicy a/p: {podSelector: {matchLabels: {app: x}}, policyTypes: [Ingress], ingress: []}
    NetworkPolicy a/q: {podSelector: {matchLabels: {app: z}}, policyTypes: [Ingress, Egress]}
    b/x > a/x TCP 80: ingress
    b/x > a/z TCP 80: ingress
    a/z > b/x TCP 80: egress""")
case(4, "peers and ports must both match", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{podSelector: {}}], ports: [{port: 80}]}]}
    a/z > a/x TCP 80: allow
    a/z > a/x TCP 81: ingress
    b/x > a/x TCP 80: ingress""")
case(4, "one peer and one port of the lists are enough", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 1.2.3.4/32}}, {podSelector: {}}], ports: [{port: 1}, {port: 2}]}]}
    a/z > a/x TCP 2: allow
    1.2.3.4@n1 > a/x TCP 1: allow""")
case(4, "an empty or absent list matches all", """
    NetworkPolicy a/p: {podSelector: {matchLabels: {app: x}}, ingress: [{}]}
    NetworkPolicy a/q: {podSelector: {matchLabels: {app: z}}, ingress: [{from: [], ports: []}]}
    b/x > a/x ICMP 0: allow
    9.9.9.9@n1 > a/z UDP 7: allow""")
case(5, "podSelector alone: pods of the policy's namespace", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: y}}}]}]}
    a/y > a/x TCP 80: allow
    b/y > a/x TCP 80: ingress
    a/z > a/x TCP 80: ingress""")
case(5, "namespaceSelector alone: all pods of these namespaces", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: blue}}}]}]}
    b/x > a/x TCP 80: allow
    a/y > a/x TCP 80: ingress""")
case(5, "both in one entry: the selected pods in the selected namespaces", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: blue}}, podSelector: {matchLabels: {app: x}}}]}]}
    b/x > a/x TCP 80: allow
    b/y > a/x TCP 80: ingress
    a/z > a/x TCP 80: ingress""")
case(5, "both in two entries: either", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: blue}}}, {podSelector: {matchLabels: {app: z}}}]}]}
    b/y > a/x TCP 80: allow
    a/z > a/x TCP 80: allow
    a/y > a/x TCP 80: ingress""")
case(5, "{} matches all pods, and no address that does not belong to a pod", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}
    c/x > a/x TCP 80: allow
    8.8.8.8@n1 > a/x TCP 80: ingress
    n2 > a/x TCP 80: ingress""")
case(6, "matchLabels and matchExpressions must both match", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: z}, matchExpressions: [{key: env, operator: In, values: [prod]}]}}]}]}
    NetworkPolicy b/p: {podSelector: {}, ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: z}, matchExpressions: [{key: env, operator: In, values: [test]}]}}]}]}
    a/z > a/x TCP 80: allow
    a/z > b/x TCP 80: ingress""")
case(6, "NotIn and DoesNotExist match if the key is absent", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{namespaceSelector: {}, podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [x]}]}}]}]}
    NetworkPolicy b/p: {podSelector: {}, ingress: [{from: [{namespaceSelector: {}, podSelector: {matchExpressions: [{key: app, operator: DoesNotExist}]}}]}]}
    c/x > a/x TCP 80: allow
    b/y > a/x TCP 80: allow
    b/x > a/x TCP 80: ingress
    c/x > b/x TCP 80: allow
    a/x > b/x TCP 80: ingress""")
case(6, "In and Exists do not match if the key is absent", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{namespaceSelector: {}, podSelector: {matchExpressions: [{key: env, operator: Exists}]}}]}]}
    a/z > a/x TCP 80: allow
    b/x > a/x TCP 80: ingress""")
case(6, "a Namespace has its name as a label", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: c}}}]}]}
    c/x > a/x TCP 80: allow
    b/x > a/x TCP 80: ingress""")
case(7, "inside cidr and inside none of its own except; no other entry loses anything", """
    NetworkPolicy a/p: {podSelector: {matchLabels: {app: x}}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16, 10.2.0.0/16]}}]}]}
    NetworkPolicy a/q: {podSelector: {matchLabels: {app: z}}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}, {ipBlock: {cidr: 10.1.2.3/32}}]}]}
    10.3.0.1@n1 > a/x TCP 80: allow
    10.1.2.3@n1 > a/x TCP 80: ingress
    10.2.2.3@n1 > a/x TCP 80: ingress
    11.0.0.1@n1 > a/x TCP 80: ingress
    10.1.2.3@n1 > a/z TCP 80: allow
    10.1.2.4@n1 > a/z TCP 80: ingress""")
case(7, "host bits have no meaning", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.1.2.3/16, except: [10.1.5.5/24]}}]}]}
    10.1.200.1@n1 > a/x TCP 80: allow
    10.1.5.77@n1 > a/x TCP 80: ingress""")
case(7, "addresses of pods and nodes match like any other", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.244.2.0/24}}, {ipBlock: {cidr: 192.168.0.12/32}}]}]}
    b/y > a/x TCP 80: allow
    b/x > a/x TCP 80: ingress
    n2 > a/x TCP 80: allow""")
case(7, "a block of IPv6 matches no IPv4 address, and the other way round", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: "::/0"}}]}]}
    NetworkPolicy b/p: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0}}]}]}
    b/y > a/x TCP 80: ingress
    b/y > a/x TCP 80 /6: allow
    a/y > b/x TCP 80: allow
    a/y > b/x TCP 80 /6: ingress""")
case(8, "an absent protocol is TCP", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{ports: [{port: 53}]}]}
    b/x > a/x TCP 53: allow
    b/x > a/x UDP 53: ingress
    b/x > a/x SCTP 53: ingress""")
case(8, "an absent port is all ports of the protocol", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{ports: [{protocol: UDP}]}]}
    b/x > a/x UDP 1: allow
    b/x > a/x UDP 65535: allow
    b/x > a/x TCP 1: ingress""")
case(8, "endPort is inclusive; ranges overlap", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{ports: [{port: 10, endPort: 20}, {port: 15, endPort: 30}, {port: 18}]}]}
    b/x > a/x TCP 10: allow
    b/x > a/x TCP 20: allow
    b/x > a/x TCP 30: allow
    b/x > a/x TCP 9: ingress
    b/x > a/x TCP 31: ingress""")
case(8, "a list may have any number of entries", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{ports: [%s]}]}
    b/x > a/x TCP 1000: allow
    b/x > a/x TCP 1099: allow
    b/x > a/x TCP 1100: ingress""" % ", ".join("{port: %d}" % port for port in range(1000, 1100)))
case(9, "a named port is the destination pod's own number, of the same protocol", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{ports: [{port: web}]}]}
    NetworkPolicy b/p: {podSelector: {}, ingress: [{ports: [{port: web}]}]}
    c/x > a/x TCP 8080: allow
    c/x > a/x TCP 9090: ingress
    c/x > a/y TCP 9090: allow
    c/x > a/y TCP 9091: allow
    c/x > a/z TCP 8080: ingress
    c/x > b/x TCP 80: ingress""")
case(9, "egress: the name is the destination's, of any pod that declares it; an address has no names", """
    NetworkPolicy c/p: {podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: web}]}]}
    c/x > a/x TCP 8080: allow
    c/x > a/x TCP 9090: egress
    c/x > a/y TCP 9090: allow
    c/x > 8.8.8.8 TCP 8080: egress""")


@story(9, "restartable init containers count, other init containers do not")
def _(ref):
    for restart, want in (("Always", "allow"), (None, "ingress")):
        init = {"name": "i", "ports": [{"name": "web", "containerPort": 7}], **({"restartPolicy": restart} if restart else {})}
        world = ref.World(THINGS + [pod("a/i", initContainers=[init]), policy("NetworkPolicy a/p", {"ingress": [{"ports": [{"port": "web"}]}]})], **FACTS)
        assert short(ref.verdict(world, flow_of("b/x > a/i TCP 7"))) == want, restart


case(10, "the port of the pod, not the Service's", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}
    NetworkPolicy b/p: {podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: 9090}]}]}
    c/x > clusterIP:a/svc@10.244.1.1 TCP 80: ingress
    b/x > clusterIP:a/svc@10.244.1.1 TCP 80: both
    b/x > clusterIP:a/svc@10.244.2.1 TCP 80: ingress""")
case(11, "both ends must allow", """
    NetworkPolicy a/p: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{podSelector: {}}]}]}
    NetworkPolicy b/p: {podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}
    a/x > a/y TCP 80: allow
    a/x > b/x TCP 80: both
    a/x > c/x TCP 80: egress
    c/x > b/x TCP 80: ingress""")
case(12, "an invalid peer matches nothing; the policy still isolates", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 300.0.0.0/8}}, {}, {ipBlock: {cidr: 10.0.0.0/8}, podSelector: {}}, {podSelector: {matchExpressions: [{key: app, operator: Gt, values: ["1"]}]}}]}]}
    NetworkPolicy b/p: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0, except: [nonsense]}}, {podSelector: {}}]}]}
    a/y > a/x TCP 80: ingress a/p
    10.0.0.1@n1 > a/x TCP 80: ingress
    b/y > b/x TCP 80: allow
    a/y > b/x TCP 80: ingress""")
case(12, "an invalid port matches nothing; the policy still isolates", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{ports: [{port: 70000}, {port: 9, endPort: 8}, {endPort: 10}, {port: web, endPort: 9}, {protocol: ICMP}, {port: "80"}, {port: 5}]}]}
    b/x > a/x TCP 9: ingress
    b/x > a/x TCP 80: ingress
    b/x > a/x ICMP 0: ingress
    b/x > a/x TCP 5: allow""")
case(12, "a rule, peer or port with an unknown member matches nothing", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [], port: 80}, {to: []}, {ports: [{port: 5, endport: 9}]}, {from: [{podSelector: {matchLabel: {}}}, {ipBlock: {cidr: 10.0.0.0/8, exept: []}}, {namespaceSelector: {}, moons: 1}], ports: [{port: 6}]}]}
    b/x > a/x TCP 80: ingress
    b/x > a/x TCP 5: ingress
    b/x > a/x TCP 6: ingress
    a/y > a/x TCP 6: ingress
    10.0.0.1@n1 > a/x TCP 6: ingress""")


@story(12, "an object that cannot be read leaves its previous version in force")
def _(ref):
    world = ref.World(THINGS + [policy("NetworkPolicy a/p", {"podSelector": {}})], **FACTS)
    world.apply({"put": policy("NetworkPolicy a/p", {"podSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}, "ingress": [{}]})})
    assert short(ref.verdict(world, flow_of("b/x > a/x TCP 80"))) == "ingress"
    world.apply({"put": policy("NetworkPolicy a/p", {"podSelector": {}, "ingress": [{}]})})
    assert short(ref.verdict(world, flow_of("b/x > a/x TCP 80"))) == "allow"


# ---- which address counts

case(13, "after destination translation: the chosen backend counts, by whichever address", """
    NetworkPolicy b/p: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {}, podSelector: {matchLabels: {app: y}}}]}]}
    b/x > clusterIP:a/svc@10.244.2.1 TCP 80: allow
    b/x > clusterIP:a/svc@10.244.1.1 TCP 80: egress
    b/x > nodePort:a/svc@10.244.2.1 TCP 80: allow
    b/x > external:a/svc@10.244.1.1 TCP 80: egress
    b/x > hostPort:8000 TCP 8000: egress""")
case(13, "a host port, too", """
    NetworkPolicy b/p: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {}}], ports: [{port: 8080}]}]}
    b/x > hostPort:8000 TCP 8000: allow""")
case(13, "a block of the Service range matches nothing; the API server by its endpoint", """
    NetworkPolicy b/p: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.96.0.0/16}}]}]}
    NetworkPolicy c/p: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 192.168.0.12/32}}], ports: [{port: 6443}]}]}
    b/x > clusterIP:a/svc@10.244.2.1 TCP 80: egress
    c/x > clusterIP:c/api@192.168.0.12 TCP 80: allow
    b/x > clusterIP:c/api@192.168.0.12 TCP 80: egress""")
case(14, "policy Cluster: the client if the backend is on the node that took the packet, otherwise that Node", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 8.0.0.0/8}}]}]}
    8.8.8.8@n1 > nodePort:a/svc@10.244.1.1 TCP 80: allow
    8.8.8.8@n1 > nodePort:a/svc@10.244.2.1 TCP 80: ingress
    8.8.8.8@n1 > external:a/svc@10.244.2.1 TCP 80: ingress
    8.8.8.8@n2 > nodePort:a/svc@10.244.2.1 TCP 80: allow""")
case(14, "otherwise it is that Node", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.168.0.11/32}}]}]}
    8.8.8.8@n1 > nodePort:a/svc@10.244.2.1 TCP 80: allow
    8.8.8.8@n1 > nodePort:a/svc@10.244.1.1 TCP 80: ingress""")
case(14, "clientAddress: Keep: always the client outside", """
    fact keepsClient: true
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 8.0.0.0/8}}]}]}
    8.8.8.8@n1 > nodePort:a/svc@10.244.1.1 TCP 80: allow
    8.8.8.8@n1 > nodePort:a/svc@10.244.2.1 TCP 80: allow
    8.8.8.8@n1 > external:a/svc@10.244.2.1 TCP 80: allow
    9.8.8.8@n1 > nodePort:a/svc@10.244.2.1 TCP 80: ingress""")
case(14, ".. but not a pod, or what has the address of another node", """
    fact keepsClient: true
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.168.0.11/32}}]}]}
    c/x > external:a/svc@10.244.1.1 TCP 80: ingress
    192.168.0.12@n1 > nodePort:a/svc@10.244.2.1 TCP 80: allow
    8.8.8.8@n1 > nodePort:a/svc@10.244.2.1 TCP 80: ingress""")
case(14, "a pod that uses an external address: policy Cluster masquerades it, policy Local does not", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}
    c/x > external:a/near@10.244.1.1 TCP 80: allow
    c/x > external:a/svc@10.244.1.1 TCP 80: ingress
    c/x > external:a/svc@10.244.2.1 TCP 80: allow""")
case(14, "policy Local, and host ports: always the client", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 8.0.0.0/8}}]}]}
    8.8.8.8@n1 > nodePort:a/near@10.244.1.1 TCP 80: allow
    9.8.8.8@n1 > nodePort:a/near@10.244.1.1 TCP 80: ingress
    8.8.8.8@n1 > hostPort:8000 TCP 8000: allow
    9.8.8.8@n1 > hostPort:8000 TCP 8000: ingress""")
case(15, "the overlay's addresses count as the Node's first InternalIP, not as a pod", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.244.0.0/16, 10.18.0.0/16]}}]}]}
    NetworkPolicy b/p: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.168.0.12/32}}]}]}
    NetworkPolicy c/p: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: "fd19::11/128"}}, {ipBlock: {cidr: 192.168.0.11/32}}]}]}
    n2 > a/x TCP 80: allow
    n2 > b/x TCP 80: allow
    n1 > b/y TCP 80: ingress
    c/x > 10.18.0.1 TCP 80: allow
    c/x > fd18::1 TCP 80 /6: allow
    c/x > 10.18.0.2 TCP 80: egress""")
case(16, "from an uplink, an address of the cluster's ranges is unknown", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}
    NetworkPolicy b/p: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.168.0.12/32}}]}]}
    b/y > a/x TCP 80: allow
    10.244.2.2@n1 > a/x TCP 80: ingress
    10.18.0.2@n1 > b/x TCP 80: ingress""")
case(17, "an unknown address inside the pod ranges matches no selector, but ipBlocks", """
    fact sandboxes: [{node: n2, pod: b/new, uid: new, addresses: [10.244.2.77]}]
    NetworkPolicy a/p: {podSelector: {matchLabels: {app: x}}, ingress: [{from: [{namespaceSelector: {}}]}]}
    NetworkPolicy a/q: {podSelector: {matchLabels: {app: z}}, ingress: [{from: [{ipBlock: {cidr: 10.244.0.0/16}}]}]}
    new > a/x TCP 80: ingress
    new > a/z TCP 80: allow""".replace("new >", "b/new >"))
case(18, "masqueradeAll: a pod of another node that uses a ClusterIP appears as its node", """
    fact masqueradeAll: true
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}
    b/x > clusterIP:a/svc@10.244.2.1 TCP 80: ingress
    b/x > clusterIP:a/svc@10.244.1.1 TCP 80: allow
    b/x > a/y TCP 80: allow""")
case(18, "without masqueradeAll it is the pod", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}
    b/x > clusterIP:a/svc@10.244.2.1 TCP 80: allow""")

# ---- the node, the host's network, the pod itself

case(19, "ingress from the own node is always allowed, from no other node", """
    NetworkPolicy a/p: {podSelector: {}}
    n1 > a/x TCP 80: allow
    n2 > a/x TCP 80: ingress
    n1 > clusterIP:a/svc@10.244.1.1 TCP 80: allow
    n1 > clusterIP:a/svc@10.244.2.1 TCP 80: ingress""")
case(19, "not what enters the node from outside, or what the host forwards for others", """
    NetworkPolicy a/p: {podSelector: {}}
    8.8.8.8@n1 > a/x TCP 80: ingress
    192.168.0.11@n1 > a/x TCP 80: ingress
    b/host > a/y TCP 80: allow
    b/host > a/x TCP 80: ingress""")
case(20, "egress to the own node needs a rule", """
    NetworkPolicy a/p: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 192.168.0.12/32}}]}]}
    a/x > n1 TCP 22: egress
    a/x > n2 TCP 22: allow
    a/y > n2 TCP 22: allow""")
case(21, "host-network pods are no subjects and match no selector; as peers they are their node", """
    NetworkPolicy b/p: {podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.168.0.12/32}}]}]}
    c/x > b/host TCP 80: allow
    b/host > b/x TCP 80: ingress
    b/host > a/x TCP 80: allow""")


@story(21, "a host-network pod that has its node's address is no peer by that address")
def _(ref):
    host = pod("b/host", "n2", None, {"app": "x"}, hostNetwork=True)
    host["status"]["podIPs"] = [{"ip": "192.168.0.12"}]
    world = ref.World(THINGS + [host, policy("NetworkPolicy a/p", {"ingress": [{"from": [{"namespaceSelector": {}}]}]})], **FACTS)
    assert short(ref.verdict(world, flow_of("n2 > a/x TCP 80"))) == "ingress"
    assert short(ref.verdict(world, flow_of("b/host > a/x TCP 80"))) == "ingress"
    world = ref.World(THINGS + [host, policy("NetworkPolicy b/p", {}), policy("NetworkPolicy c/p", {
        "policyTypes": ["Egress"], "egress": [{"to": [{"namespaceSelector": {}}]}]})], **FACTS)
    assert short(ref.verdict(world, flow_of("c/x > n2 TCP 80"))) == "egress"
    assert short(ref.verdict(world, flow_of("a/x > b/host TCP 80"))) == "allow"


case(22, "a pod may reach itself through a Service, not another pod of the Service", """
    NetworkPolicy a/p: {podSelector: {}, policyTypes: [Ingress, Egress]}
    a/x > clusterIP:a/svc@10.244.1.1 TCP 80: allow
    a/x > external:a/svc@10.244.1.1 TCP 80: allow
    a/x > hostPort:8000 TCP 8000: allow
    a/x > clusterIP:a/svc@10.244.2.1 TCP 80: both
    a/y > clusterIP:a/svc@10.244.1.1 TCP 80: both""")
case(23, "the node answers a ping to a Service's address", """
    NetworkPolicy a/p: {podSelector: {}, policyTypes: [Ingress, Egress]}
    a/x > clusterIP:a/svc@10.244.2.1 ICMP 0: allow
    a/x > a/y ICMP 0: both""")

# ---- state

DENY = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def after(ref, specs, **facts):
    """A world with policies {head: spec}, and what the nodes remember."""
    return ref.World(THINGS + [policy(head, spec) for head, spec in specs.items()], **{**FACTS, **facts}), ref.Connections()


@story(24, "answers pass, even if the answering end may open nothing")
def _(ref):
    world, nodes = after(ref, {"NetworkPolicy a/p": {**DENY, "ingress": [{}]}})
    for text in ("b/x > a/x TCP 80", "b/x > a/x UDP 80", "b/y > a/x SCTP 80"):
        flow = flow_of(text)
        assert nodes.packet(world, flow) and nodes.packet(world, flow, "answer") and nodes.packet(world, flow, "more")
    assert not nodes.packet(world, flow_of("a/x > b/x UDP 80"))
    assert not nodes.packet(world, dict(flow_of("b/x > a/x UDP 80"), clientPort=7), "answer")


@story(25, "every SYN is evaluated, although an old session has the same addresses and ports")
def _(ref):
    world, nodes = after(ref, {"NetworkPolicy a/p": {"ingress": [{}]}})
    for text in ("b/x > a/x TCP 80", "b/x > a/x ICMP 0"):
        assert nodes.packet(world, flow_of(text))
    world.apply({"put": policy("NetworkPolicy a/p", DENY)})
    for text in ("b/x > a/x TCP 80", "b/x > a/x ICMP 0"):
        assert not nodes.packet(world, flow_of(text))
    world.apply({"delete": ["NetworkPolicy", "a/p"]})
    assert nodes.packet(world, flow_of("b/x > a/x TCP 80"))


@story(26, "a TCP packet without a session is dropped if an end is isolated, in whichever direction")
def _(ref):
    world, nodes = after(ref, {"NetworkPolicy a/p": {**DENY, "policyTypes": ["Egress"], "egress": [{}]}})
    for kind in ("more", "answer"):
        assert not nodes.packet(world, flow_of("b/x > a/x TCP 80"), kind)
        assert not nodes.packet(world, flow_of("a/y > b/x TCP 80"), kind)
        assert nodes.packet(world, flow_of("b/x > c/x TCP 80"), kind)


@story(27, "ICMP errors about a known session pass, others not if an end is isolated")
def _(ref):
    world, nodes = after(ref, {"NetworkPolicy a/p": {"ingress": [{}]}})
    flow = flow_of("b/x > a/x UDP 80")
    assert not nodes.packet(world, flow, "error") and nodes.packet(world, flow, "own-error")
    assert nodes.packet(world, flow) and nodes.packet(world, flow, "error")
    assert nodes.packet(world, flow_of("b/x > c/x UDP 80"), "error")
    world.apply({"put": policy("NetworkPolicy a/p", DENY)})
    assert nodes.packet(world, flow, "error")


case(28, "echo requests and other protocols match only rules without ports", """
    NetworkPolicy a/p: {podSelector: {matchLabels: {app: x}}, ingress: [{ports: [{protocol: TCP}, {protocol: UDP}, {protocol: SCTP}]}]}
    NetworkPolicy a/q: {podSelector: {matchLabels: {app: z}}, ingress: [{from: [{podSelector: {}}]}]}
    a/y > a/x ICMP 0: ingress
    a/y > a/x ESP 0: ingress
    a/y > a/x UDP 1: allow
    a/y > a/z ICMP 0: allow
    a/y > a/z GRE 0: allow
    b/y > a/z ICMP 0: ingress""")


@story(29, "fragments share the verdict of the first; without it they are dropped if an end is isolated")
def _(ref):
    world, nodes = after(ref, {"NetworkPolicy a/p": {"ingress": [{"ports": [{"protocol": "UDP", "port": 80}]}]}})
    for number, text, want in ((1, "b/x > a/x UDP 80", True), (2, "b/x > a/x UDP 81", False)):
        assert nodes.packet(world, flow_of(text), fragment=number) == want
        assert nodes.packet(world, flow_of(text), "fragment", fragment=number) == want
    assert not nodes.packet(world, flow_of("b/x > a/x UDP 80"), "fragment", fragment=3)
    assert nodes.packet(world, flow_of("b/x > c/x UDP 80"), "fragment", fragment=3)


@story(30, "a dropped packet opens no session and displaces none")
def _(ref):
    world, nodes = after(ref, {"NetworkPolicy a/p": {"ingress": [{"ports": [{"port": 80}]}]}})
    assert not nodes.packet(world, flow_of("b/x > a/x TCP 81")) and not nodes.known
    assert nodes.packet(world, flow_of("b/x > a/x TCP 80"))
    before = set(nodes.known)
    world.apply({"put": policy("NetworkPolicy a/p", DENY)})
    assert before and not nodes.packet(world, flow_of("b/x > a/x TCP 80")) and nodes.known == before


@story(31, "a change applies to open connections, in both directions")
def _(ref):
    world, nodes = after(ref, {"NetworkPolicy a/p": {"ingress": [{}]}})
    flow = flow_of("b/x > a/x TCP 80")
    assert nodes.packet(world, flow)
    world.apply({"put": policy("NetworkPolicy a/p", {"ingress": [{"ports": [{"port": 80}]}]})})
    assert nodes.packet(world, flow, "more") and nodes.packet(world, flow, "answer")
    world.apply({"put": policy("NetworkPolicy a/p", {"ingress": [{"ports": [{"port": 81}]}]})})
    assert not nodes.packet(world, flow, "more") and not nodes.packet(world, flow, "answer")


@story(32, "no connection breaks when the last policy is deleted or the pod is no longer selected")
def _(ref):
    for event in ({"delete": ["NetworkPolicy", "a/p"]}, {"put": policy("NetworkPolicy a/p", {"podSelector": {"matchLabels": {"app": "other"}}})}):
        world, nodes = after(ref, {"NetworkPolicy a/p": {"ingress": [{}]}})
        flows = [flow_of(text) for text in ("b/x > a/x TCP 80", "b/y > a/x UDP 80", "b/y > clusterIP:a/svc@10.244.1.1 TCP 80")]
        assert all(nodes.packet(world, flow) for flow in flows)
        world.apply(event)
        assert all(nodes.packet(world, flow, kind) for flow in flows for kind in ("answer", "more"))
        nodes.known.clear()
        assert nodes.packet(world, flows[0], "more") and nodes.packet(world, flows[0], "answer")


@story(33, "a pod becomes isolated: a TCP connection is taken up by its socket, a UDP client sends once more")
def _(ref):
    world, nodes = after(ref, {})
    tcp, udp, other = (flow_of(text) for text in ("b/x > a/x TCP 80", "b/x > a/x UDP 80", "b/x > a/x TCP 81"))
    assert all(nodes.packet(world, flow) for flow in (tcp, udp, other))
    world.apply({"put": policy("NetworkPolicy a/p", {**DENY, "ingress": [{"ports": [{"port": 80}, {"protocol": "UDP"}]}]})})
    assert not nodes.packet(world, udp, "answer") and nodes.packet(world, udp, "more") and nodes.packet(world, udp, "answer")
    assert nodes.packet(world, tcp, "answer", socket=True) and nodes.packet(world, tcp, "more")
    assert not nodes.packet(world, other, "more", socket=True)
    assert not nodes.packet(world, dict(tcp, clientPort=9), "answer")


@story(34, "during an update a flow has its former or its new verdict")
def _(ref):
    def of(first, second, flow):
        worlds_ = [after(ref, {"NetworkPolicy a/p": {"ingress": [{"ports": [{"port": port}]}]}})[0] for port in (first, second)]
        return ref.during(*worlds_, flow_of(flow))
    assert of(80, 80, "b/x > a/x TCP 80") == {"allow"}
    assert of(80, 81, "b/x > a/x TCP 80") == {"allow", "deny"} == of(81, 80, "b/x > a/x TCP 80")
    assert of(80, 81, "b/x > a/x TCP 82") == {"deny"}


@story(35, "changed labels of pods and namespaces count, for subjects and for peers")
def _(ref):
    world, _ = after(ref, {"NetworkPolicy a/p": {"podSelector": {"matchLabels": {"app": "x"}}, "ingress": [{"from": [
        {"namespaceSelector": {"matchLabels": {"team": "green"}}}, {"podSelector": {"matchLabels": {"new": "yes"}}}]}]}})

    def of(text):
        return short(ref.verdict(world, flow_of(text)))
    assert (of("b/x > a/x TCP 80"), of("a/z > a/x TCP 80"), of("c/x > a/z TCP 80")) == ("ingress", "ingress", "allow")
    world.apply({"put": {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "b", "labels": {"team": "green"}}}})
    world.apply({"put": pod("a/z", "n1", "1.3", {"app": "x", "new": "yes"})})
    assert (of("b/x > a/x TCP 80"), of("a/z > a/x TCP 80"), of("c/x > a/z TCP 80")) == ("allow", "allow", "ingress")


@story(36, "half a list changes nothing; a dead agent changes nothing until it is back")
def _(ref):
    world, _ = after(ref, {"NetworkPolicy a/p": {"podSelector": {}}})
    flow = flow_of("b/x > a/x TCP 80")
    world.apply({"half": []})
    assert short(ref.verdict(world, flow)) == "ingress"
    world.apply({"agent": "dead"})
    world.apply({"delete": ["NetworkPolicy", "a/p"]})
    assert short(ref.verdict(world, flow)) == "ingress"
    world.apply({"agent": "up"})
    assert short(ref.verdict(world, flow)) == "allow"


# ---- the life of a pod

PENDING = [{"node": "n1", "pod": "a/new", "uid": "new", "addresses": ["10.244.1.50"]}]


@story(37, "a pending pod: nothing passes, but its own node reaches it")
def _(ref):
    for sandboxes in (PENDING, [{"node": "n1", "pod": "a/x", "uid": "uid-xa", "addresses": ["10.244.1.50"], "pending": True}]):
        world, nodes = after(ref, {"NetworkPolicy a/p": {"podSelector": {"matchLabels": {"app": "none"}}}}, sandboxes=sandboxes)
        name = sandboxes[0]["pod"]
        for text, want in (("%s > b/x TCP 80", "egress"), ("%s > n1 UDP 53", "egress"), ("b/x > %s TCP 80", "ingress"),
                           ("n1 > %s TCP 80", "allow"), ("n2 > %s TCP 80", "ingress"), ("%s > 8.8.8.8 ICMP 0", "egress")):
            assert short(ref.verdict(world, flow_of(text % name))) == want, text % name
        probe = flow_of("n1 > %s TCP 80" % name)
        assert nodes.packet(world, probe) and nodes.packet(world, probe, "answer")


LIFE = {"policies": True, "listed": ["policies", "namespaces", "pods"], "namespaces": {"a": True, "b": False}, "bound": ["known"]}


@story(38, "a namespace in which no policy can select is open at once; an unknown one is not")
def _(ref):
    assert ref.at_add(LIFE, "b/new", "new") == "open"
    assert ref.at_add(LIFE, "unknown/new", "new") == "pending"
    assert ref.at_add({**LIFE, "policies": False, "namespaces": {}, "listed": ["policies"]}, "unknown/new", "new") == "open"
    world, _ = after(ref, {"NetworkPolicy b/p": {"podSelector": {}}}, sandboxes=PENDING)
    assert short(ref.verdict(world, flow_of("c/x > a/new TCP 80"))) == "allow"
    for subject, want in (({"namespaces": {"matchLabels": {"team": "blue"}}}, "allow"), ({"namespaces": {}}, "ingress"),
                          ({"pods": {"namespaceSelector": {"matchLabels": {"team": "red"}}, "podSelector": {}}}, "ingress")):
        world, _ = after(ref, {"Admin 1 p": {"subject": subject, "egress": [{"action": "Deny", "to": [{"networks": ["1.0.0.0/8"]}]}]}},
                         sandboxes=PENDING)
        assert short(ref.verdict(world, flow_of("c/x > a/new TCP 80"))) == want, subject


@story(39, "a pod that was bound before ADD has its policies at once, with the agent dead, too")
def _(ref):
    assert ref.at_add(LIFE, "a/new", "known") == "known"
    assert ref.at_add(LIFE, "b/new", "known") == "known"


@story(40, "a pod that was bound after the agent went down is pending in a namespace with policies")
def _(ref):
    assert ref.at_add(LIFE, "a/new", "new") == "pending"


@story(41, "after a boot: pending until the lists are complete; before the first enforcement: open")
def _(ref):
    assert ref.at_add({**LIFE, "listed": []}, "b/new", "new") == "pending"
    assert ref.at_add({**LIFE, "listed": ["policies"]}, "b/new", "new") == "pending"
    assert ref.at_add({**LIFE, "listed": ["policies", "pods"]}, "b/new", "new") == "pending"
    assert ref.at_add({**LIFE, "listed": ["policies"], "policies": False}, "b/new", "new") == "open"
    assert ref.at_add({**LIFE, "listed": [], "enforcing": False}, "b/new", "new") == "open"
    world, _ = after(ref, {"NetworkPolicy a/p": {}}, enforcing=False)
    assert short(ref.verdict(world, flow_of("b/x > a/x TCP 80"))) == "allow"


@story(42, "policies belong to a UID: a new sandbox with an old name is not the old pod")
def _(ref):
    boxes = [{"node": "n1", "pod": "a/x", "uid": "second", "addresses": ["10.244.1.1"]}]
    world, _ = after(ref, {"NetworkPolicy a/p": {"podSelector": {"matchLabels": {"app": "y"}}}}, sandboxes=boxes)
    assert short(ref.verdict(world, flow_of("b/x > a/x TCP 80"))) == "ingress"
    static = pod("a/s", last="1.60", labels={"app": "y"})
    static["metadata"].update(uid="mirror", annotations={"kubernetes.io/config.hash": "second"})
    boxes = [{"node": "n1", "pod": "a/s", "uid": "second", "addresses": ["10.244.1.60"]}]
    world = ref.World(THINGS + [static, policy("NetworkPolicy a/p", {"podSelector": {"matchLabels": {"app": "y"}}, "ingress": [{}]})],
                      **FACTS, sandboxes=boxes)
    assert short(ref.verdict(world, flow_of("b/x > a/s TCP 80"))) == "allow"
    claims = pod("b/f", "n1", "1.62")
    claims["metadata"]["annotations"] = {"kubernetes.io/config.hash": ref.uid_of(next(
        thing for thing in THINGS if thing["kind"] == "Pod" and ref.name_of(thing) == "a/x"))}
    world = ref.World(THINGS + [claims, policy("NetworkPolicy a/p", DENY)], **FACTS)
    assert short(ref.verdict(world, flow_of("b/x > a/x TCP 80"))) == "ingress"
    nameless = pod("a/n", last="1.61")
    del nameless["metadata"]["uid"]
    boxes = [{"node": "n1", "pod": "a/n", "addresses": ["10.244.1.61"]}]
    world = ref.World(THINGS + [nameless, policy("NetworkPolicy a/p", {"ingress": [{}]})], **FACTS, sandboxes=boxes)
    assert short(ref.verdict(world, flow_of("b/x > a/n TCP 80"))) == "allow"


@story(43, "a terminating pod keeps its policies and is a peer; if its object is gone, the policies stay")
def _(ref):
    leaving = pod("b/x", "n1", "1.2", {"app": "x"})
    leaving["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    world = ref.World(THINGS + [leaving, policy("NetworkPolicy b/p", DENY), policy("NetworkPolicy a/p", {
        "ingress": [{"from": [{"namespaceSelector": {}}]}]})], **FACTS)
    assert short(ref.verdict(world, flow_of("b/x > a/x TCP 80"))) == "egress"
    assert short(ref.verdict(world, flow_of("c/x > b/x TCP 80"))) == "ingress"
    world.apply({"delete": ["Pod", "b/x"]})
    assert short(ref.verdict(world, flow_of("b/x > a/x TCP 80"))) == "both"
    assert short(ref.verdict(world, flow_of("c/x > b/x TCP 80"))) == "ingress"


@story(43, "if the Namespace is gone, too, a sandbox gets nothing while there are policies, and is no peer")
def _(ref):
    world = ref.World(THINGS + [policy("NetworkPolicy a/p", {"ingress": [{"from": [{"namespaceSelector": {}}]}]}),
                                policy("Admin 1 q", {"subject": {"namespaces": {"matchLabels": {"team": "red"}}}})], **FACTS)
    to, there, back = flow_of("b/x > a/x TCP 80"), flow_of("c/x > b/x TCP 80"), flow_of("b/x > c/x TCP 80")
    assert [short(ref.verdict(world, flow)) for flow in (to, there, back)] == ["allow"] * 3
    world.apply({"delete": ["Pod", "b/x"]})
    world.apply({"delete": ["Namespace", "b"]})
    assert [short(ref.verdict(world, flow)) for flow in (to, there, back)] == ["both", "ingress", "egress"]
    for kind, name in (("NetworkPolicy", "a/p"), ("ClusterNetworkPolicy", "q")):
        world.apply({"delete": [kind, name]})
    assert [short(ref.verdict(world, flow)) for flow in (to, there, back)] == ["allow"] * 3


@story(44, "finished pods are no peers; of two objects with one address the later one; the address file decides")
def _(ref):
    old, new = pod("b/old", "n2", "2.40", {"role": "good"}), pod("c/new", "n2", "2.40", {"role": "good"})
    rules = [policy("NetworkPolicy a/p", {"ingress": [{"from": [{"namespaceSelector": {"matchLabels": {"team": "blue"}},
                                                                 "podSelector": {"matchLabels": {"role": "good"}}}]}]})]
    flow = {**flow_of("b/x > a/x TCP 80"), "source": {"pod": "c/new"}}

    def of(*pods, **facts):
        return short(ref.verdict(ref.World(THINGS + list(pods) + rules, **FACTS, **facts), flow))
    finished = dict(old, status=dict(old["status"], phase="Succeeded", startTime="2027-01-01T00:00:00Z"))
    boxes = [{"node": "n2", "pod": "c/new", "uid": "uid-newc", "addresses": ["10.244.2.40"]}]
    assert of(finished, new, sandboxes=boxes) == "ingress"
    assert of(dict(old, status=dict(old["status"], startTime="2025-01-01T00:00:00Z")), new, sandboxes=boxes) == "ingress"
    later = dict(old, status=dict(old["status"], startTime="2027-01-01T00:00:00Z"))
    assert of(later, new, sandboxes=boxes) == "allow"
    near = dict(flow, destination={"pod": "a/y"})
    world = ref.World(THINGS + [later, new] + rules, **FACTS, sandboxes=boxes)
    assert short(ref.verdict(world, near)) == "ingress"
    failed = dict(later, status=dict(later["status"], phase="Failed"))
    assert of(failed, sandboxes=[{"node": "n2", "pod": "c/new", "uid": "?", "addresses": ["10.244.2.40"]}]) == "ingress"


@story(45, "an address or a name that is used again inherits no session")
def _(ref):
    world, nodes = after(ref, {"NetworkPolicy a/p": {"ingress": [{}]}})
    flow = flow_of("b/x > a/x TCP 80")
    assert nodes.packet(world, flow) and nodes.packet(world, flow, "more")
    again = pod("a/x", "n1", "1.1", {"app": "x"})
    again["metadata"]["uid"] = "second"
    for event in ({"delete": ["Pod", "a/x"]}, {"DEL": "uid-xa"}, {"put": again}):
        world.apply(event)
    assert not nodes.packet(world, flow, "more") and not nodes.packet(world, flow, "answer")


@story(46, "a container that belongs to no Pod is open")
def _(ref):
    assert ref.at_add({**LIFE, "listed": []}, None, "x") == "open"
    world, _ = after(ref, {"NetworkPolicy a/p": {}}, sandboxes=[{"node": "n1", "pod": None, "uid": "other", "addresses": ["10.244.1.70"]}])
    assert short(ref.verdict(world, flow_of("c/x > 10.244.1.70 TCP 80"))) == "allow"


# ---- ClusterNetworkPolicy

ALL = "subject: {namespaces: {}}"


@story(47, "v1beta1 and v1alpha2 are read, v1alpha1 is not; a CRD that vanishes counts as no objects; one that appears is followed")
def _(ref):
    spec = {"subject": {"namespaces": {}}, "ingress": [{"action": "Deny", "from": [{"namespaces": {}}]}]}
    thing, world, flow = policy("Admin 1 p", spec), after(ref, {})[0], flow_of("b/x > a/x TCP 80")
    world.apply({"put": dict(thing, apiVersion="policy.networking.k8s.io/v1alpha1")})
    world.apply({"put": dict(thing, apiVersion="policy.networking.k8s.io/v1alpha1", kind="AdminNetworkPolicy")})
    assert short(ref.verdict(world, flow)) == "allow"
    for version in ("v1alpha2", "v1beta1"):
        world.apply({"put": dict(thing, apiVersion="policy.networking.k8s.io/" + version)})
        assert short(ref.verdict(world, flow)) == "ingress"
        world.apply({"delete": ["ClusterNetworkPolicy", "p"]})
        assert short(ref.verdict(world, flow)) == "allow"
    world.apply({"put": thing})
    assert short(ref.verdict(world, flow)) == "ingress"
    world.apply({"vanished": "ClusterNetworkPolicy"})
    assert short(ref.verdict(world, flow)) == "allow"


case(48, "Admin, then NetworkPolicy, which is final for an isolated pod, then Baseline", f"""
    Admin 5 admin: {{{ALL}, ingress: [{{action: Accept, from: [{{namespaces: {{matchLabels: {{team: blue}}}}}}]}}]}}
    Baseline 5 base: {{{ALL}, ingress: [{{action: Deny, from: [{{namespaces: {{}}}}]}}]}}
    NetworkPolicy a/p: {{podSelector: {{matchLabels: {{app: x}}}}, ingress: [{{ports: [{{port: 80}}]}}]}}
    b/x > a/x TCP 9: allow admin[0]
    c/x > a/x TCP 80: allow a/p[0]
    c/x > a/x TCP 9: ingress a/p
    c/x > a/z TCP 80: ingress base[0]
    c/x > 8.8.8.8 TCP 80: allow
    8.8.8.8@n1 > a/z TCP 80: allow""")
case(48, "no implicit isolation: without rules of a direction, or without a match, nothing happens", f"""
    Admin 5 admin: {{{ALL}, egress: [{{action: Deny, to: [{{networks: [8.0.0.0/8]}}]}}]}}
    Baseline 5 base: {{{ALL}}}
    b/x > a/x TCP 80: allow
    b/x > 9.9.9.9 TCP 80: allow
    b/x > 8.8.8.8 TCP 80: egress admin[0]""")


@story(48, "a policy without rules of a direction guards nothing in it: unknown TCP packets pass")
def _(ref):
    spec = {"subject": {"namespaces": {}}, "ingress": []}
    world, nodes = after(ref, {"Admin 5 p": spec})
    assert nodes.packet(world, flow_of("b/x > a/x TCP 80"), "more")


case(49, "the lower priority value first; then the name; within a policy the order", f"""
    Admin 7 a: {{{ALL}, ingress: [{{action: Deny, from: [{{namespaces: {{}}}}]}}]}}
    Admin 6 z: {{{ALL}, ingress: [{{action: Accept, from: [{{pods: {{namespaceSelector: {{}}, podSelector: {{matchLabels: {{app: x}}}}}}}}]}}, {{action: Deny, from: [{{namespaces: {{matchLabels: {{team: blue}}}}}}]}}]}}
    Admin 6 y: {{{ALL}, ingress: [{{action: Accept, from: [{{namespaces: {{matchLabels: {{team: red}}}}}}]}}]}}
    b/x > a/x TCP 80: allow z[0]
    b/y > a/x TCP 80: ingress z[1]
    c/x > a/x TCP 80: ingress a[0]
    a/x > c/x TCP 80: allow y[0]""")
case(50, "Accept ends this direction only; Deny drops; Pass goes to the next tier", f"""
    Admin 1 one: {{{ALL}, egress: [{{action: Accept, to: [{{namespaces: {{}}}}]}}], ingress: [{{action: Pass, from: [{{namespaces: {{matchLabels: {{team: blue}}}}}}]}}]}}
    Admin 2 two: {{{ALL}, ingress: [{{action: Deny, from: [{{namespaces: {{}}}}]}}]}}
    Baseline 1 base: {{{ALL}, ingress: [{{action: Pass, from: [{{pods: {{namespaceSelector: {{}}, podSelector: {{matchLabels: {{app: y}}}}}}}}]}}, {{action: Deny, from: [{{namespaces: {{}}}}]}}]}}
    NetworkPolicy a/p: {{podSelector: {{matchLabels: {{app: x}}}}, policyTypes: [Ingress, Egress], ingress: [{{ports: [{{port: 80}}]}}]}}
    a/x > b/x TCP 80: ingress one[0] two[0]
    b/x > a/x TCP 80: allow one[0] a/p[0]
    b/x > a/x TCP 81: ingress one[0] a/p
    b/x > a/z TCP 80: ingress one[0] base[1]
    b/y > a/z TCP 80: allow one[0]
    c/x > a/z TCP 80: ingress one[0] two[0]""")
case(51, "the subject: namespaces, or pods with two selectors", """
    Admin 1 p: {subject: {namespaces: {matchLabels: {team: red}}}, ingress: [{action: Deny, from: [{namespaces: {matchLabels: {team: blue}}}]}]}
    Admin 2 q: {subject: {pods: {namespaceSelector: {matchLabels: {team: blue}}, podSelector: {matchLabels: {app: x}}}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}
    b/x > a/x TCP 80: ingress p[0]
    c/x > a/x TCP 80: allow
    c/x > b/x TCP 80: ingress q[0]
    c/x > b/y TCP 80: allow
    a/x > c/x TCP 80: allow""")
case(51, "pods without a selector of namespaces are those of all namespaces", """
    Admin 1 p: {subject: {pods: {podSelector: {matchLabels: {app: x}}}}, ingress: [{action: Deny, from: [{pods: {podSelector: {matchLabels: {app: y}}}}]}]}
    a/y > a/x TCP 80: ingress
    b/y > a/x TCP 80: ingress
    a/y > b/x TCP 80: ingress
    a/z > a/x TCP 80: allow
    a/y > a/z TCP 80: allow""")
case(51, "traffic from nodes or from outside matches no ingress rule", f"""
    Admin 1 p: {{{ALL}, ingress: [{{action: Deny, from: [{{namespaces: {{}}}}, {{pods: {{namespaceSelector: {{}}, podSelector: {{}}}}}}]}}]}}
    8.8.8.8@n1 > a/x TCP 80: allow
    n2 > a/x TCP 80: allow
    b/host > a/x TCP 80: allow
    c/x > a/x TCP 80: ingress""")
case(52, "networks: pods and nodes inside match, too", f"""
    Admin 1 p: {{{ALL}, egress: [{{action: Deny, to: [{{networks: [10.244.2.0/24, 192.168.0.12/32, 8.0.0.0/8]}}]}}]}}
    a/x > a/y TCP 80: egress
    a/x > b/x TCP 80: allow
    a/x > n2 TCP 80: egress
    a/x > n1 TCP 80: allow
    a/x > b/host TCP 80: egress
    a/x > 8.8.8.8 TCP 80: egress""")
case(52, "nodes: every address of the matching Nodes", f"""
    Admin 1 p: {{{ALL}, egress: [{{action: Deny, to: [{{nodes: {{matchLabels: {{zone: west}}}}}}]}}]}}
    Admin 2 q: {{subject: {{namespaces: {{matchLabels: {{team: blue}}}}}}, egress: [{{action: Deny, to: [{{nodes: {{}}}}]}}]}}
    a/x > n2 TCP 80: egress
    a/x > 203.0.113.12 TCP 80: egress
    a/x > n2 TCP 80 /6: egress
    a/x > 10.18.0.2 TCP 80: egress
    a/x > n1 TCP 80: allow
    b/x > n1 TCP 80: egress q[0]
    a/x > a/y TCP 80: allow""")
case(53, "protocols: number, range, any port, or a name whatever its protocol", f"""
    Admin 1 p: {{{ALL}, ingress: [{{action: Deny, from: [{{namespaces: {{}}}}], protocols: [{{tcp: {{destinationPort: {{number: 80}}}}}}, {{udp: {{destinationPort: {{range: {{start: 10, end: 20}}}}}}}}, {{sctp: {{}}}}, {{destinationNamedPort: dns}}, {{destinationNamedPort: web}}]}}]}}
    b/y > a/x TCP 80: ingress
    b/y > a/x TCP 81: allow
    b/y > a/x UDP 80: allow
    b/y > a/x UDP 10: ingress
    b/y > a/x UDP 20: ingress
    b/y > a/x UDP 21: allow
    b/y > a/x SCTP 5: ingress
    b/y > a/x UDP 5353: ingress
    b/y > a/x TCP 5353: allow
    b/y > b/x UDP 80: ingress
    b/y > a/y TCP 9091: ingress
    b/y > a/x ICMP 0: allow""")
case(53, "without protocols everything matches, ICMP, too", f"""
    Admin 1 p: {{{ALL}, ingress: [{{action: Deny, from: [{{namespaces: {{}}}}]}}]}}
    b/x > a/x ICMP 0: ingress
    b/x > a/x ESP 0: ingress""")
case(54, "a peer or protocol without a known field: Accept matches nothing, Deny and Pass deny all", f"""
    Admin 1 a: {{subject: {{namespaces: {{matchLabels: {{team: red}}}}}}, ingress: [{{action: Accept, from: [{{namespaces: {{}}}}, {{moons: {{}}}}]}}, {{action: Deny, from: [{{namespaces: {{matchLabels: {{team: blue}}}}}}]}}]}}
    Admin 2 b: {{subject: {{namespaces: {{matchLabels: {{team: blue}}}}}}, egress: [{{action: Pass, to: [{{namespaces: {{}}}}], protocols: [{{icmp: {{}}}}]}}]}}
    Admin 3 c: {{subject: {{pods: {{namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: c}}}}, podSelector: {{}}}}}}, ingress: [{{action: Deny, from: [{{moons: {{}}}}]}}]}}
    c/x > a/x TCP 80: allow
    a/z > b/x TCP 80: allow
    b/x > a/x TCP 80: both b[0] a[1]
    b/x > 8.8.8.8 UDP 80: egress b[0]
    8.8.8.8@n2 > c/x TCP 80: ingress c[0]
    n2 > c/x TCP 80: allow""")
case(54, "a selector that makes no sense, whatever the peer is", f"""
    Admin 1 a: {{subject: {{namespaces: {{matchLabels: {{team: red}}}}}}, egress: [{{action: Deny, to: [{{pods: {{namespaceSelector: {{matchLabels: {{team: none}}}}, podSelector: {{matchExpressions: [{{key: a, operator: Like}}]}}}}}}]}}]}}
    a/x > c/x TCP 80: egress a[0]
    a/x > 8.8.8.8 TCP 80: egress a[0]""")
case(54, "a port that is neither a number nor a range", f"""
    Admin 1 a: {{subject: {{namespaces: {{matchLabels: {{team: red}}}}}}, ingress: [{{action: Deny, from: [{{namespaces: {{matchLabels: {{team: blue}}}}}}], protocols: [{{tcp: {{destinationPort: {{}}}}}}]}}]}}
    c/x > a/x TCP 80: ingress a[0]
    c/x > a/x UDP 80: ingress a[0]""")
case(54, "an unknown member: Accept matches nothing, Deny denies all", f"""
    Admin 1 a: {{subject: {{namespaces: {{matchLabels: {{team: red}}}}}}, ingress: [{{action: Accept, from: [{{namespaces: {{}}}}], ports: []}}, {{action: Accept, from: [{{namespaces: {{}}}}], protocols: [{{tcp: {{sourcePort: {{number: 9}}}}}}]}}, {{action: Deny, from: [{{namespaces: {{matchLabels: {{team: blue}}}}}}]}}]}}
    Admin 2 b: {{subject: {{namespaces: {{matchLabels: {{team: blue}}}}}}, egress: [{{action: Deny, to: [{{networks: [7.0.0.0/8], nodes: {{}}}}]}}]}}
    b/x > a/x TCP 80: both b[0] a[2]
    c/x > a/x TCP 80: allow
    b/x > 8.8.8.8 UDP 80: egress b[0]""")
case(55, "an unknown address inside the pod ranges is denied where a Deny rule has selectors", f"""
    fact sandboxes: [{{node: n2, pod: c/new, uid: new, addresses: [10.244.2.77]}}]
    Admin 1 p: {{subject: {{namespaces: {{matchLabels: {{team: red}}}}}}, ingress: [{{action: Deny, from: [{{pods: {{namespaceSelector: {{}}, podSelector: {{matchLabels: {{app: none}}}}}}}}], protocols: [{{tcp: {{}}}}]}}], egress: [{{action: Deny, to: [{{networks: [7.0.0.0/8]}}]}}]}}
    Admin 1 q: {{subject: {{namespaces: {{matchLabels: {{team: blue}}}}}}, ingress: [{{action: Accept, from: [{{namespaces: {{}}}}]}}, {{action: Pass, from: [{{namespaces: {{}}}}]}}]}}
    Admin 1 r: {{subject: {{pods: {{namespaceSelector: {{matchLabels: {{team: red}}}}, podSelector: {{matchLabels: {{app: z}}}}}}}}, egress: [{{action: Accept, to: [{{namespaces: {{}}}}]}}, {{action: Deny, to: [{{networks: [10.244.0.0/16]}}]}}]}}
    a/z > 10.244.2.99 TCP 80: egress r[1]
    a/z > b/x TCP 80: allow
    c/new > a/x TCP 80: ingress p[0]
    c/new > a/x UDP 80: allow
    c/new > b/x TCP 80: allow
    c/x > a/x TCP 80: allow
    8.8.8.8@n1 > a/x TCP 80: allow
    10.244.2.3@n1 > a/x TCP 80: ingress p[0]
    a/x > 10.244.2.77 TCP 80: allow""")
case(56, "they apply to a pod that reaches itself through a Service, with the pod itself as source", """
    Admin 1 p: {subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: x}}}}, ingress: [{action: Deny, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: x}}}}]}]}
    NetworkPolicy a/p: {podSelector: {}}
    a/x > clusterIP:a/svc@10.244.1.1 TCP 80: ingress p[0]
    a/x > external:a/svc@10.244.1.1 TCP 80: ingress p[0]
    a/x > hostPort:8000 TCP 8000: ingress p[0]
    a/y > clusterIP:a/svc@10.244.2.1 TCP 80: allow""")
case(56, "they do not apply to a pod that uses its own address", f"""
    Admin 1 p: {{{ALL}, ingress: [{{action: Deny, from: [{{namespaces: {{}}}}]}}], egress: [{{action: Deny, to: [{{namespaces: {{}}}}]}}]}}
    NetworkPolicy a/p: {{podSelector: {{}}, policyTypes: [Ingress, Egress]}}
    a/x > a/x TCP 80: allow
    a/x > 10.244.1.1 TCP 80: allow
    a/x > a/z TCP 80: both""")
case(57, "rules 11, 13 to 17 and 21 apply in the same way", f"""
    Admin 1 p: {{subject: {{namespaces: {{matchLabels: {{team: blue}}}}}}, egress: [{{action: Deny, to: [{{namespaces: {{}}}}], protocols: [{{tcp: {{destinationPort: {{number: 9090}}}}}}]}}, {{action: Deny, to: [{{networks: [10.96.0.0/16]}}]}}]}}
    Admin 2 q: {{{ALL}, ingress: [{{action: Deny, from: [{{namespaces: {{matchLabels: {{team: blue}}}}}}]}}]}}
    b/x > clusterIP:a/svc@10.244.2.1 TCP 80: both p[0] q[0]
    b/x > clusterIP:a/svc@10.244.1.1 TCP 80: ingress q[0]
    b/x > 10.18.0.2 TCP 9090: allow
    b/host > a/x TCP 80: allow""")


@story(57, "rules 24 to 33 apply in the same way")
def _(ref):
    spec = {"subject": {"namespaces": {"matchLabels": {"team": "red"}}}, "ingress": [{"action": "Accept", "from": [{"namespaces": {}}]}]}
    world, nodes = after(ref, {"Admin 1 p": spec})
    flow = flow_of("b/x > a/x TCP 80")
    assert not nodes.packet(world, flow, "more") and nodes.packet(world, flow) and nodes.packet(world, flow, "more")
    world.apply({"put": policy("Admin 1 p", dict(spec, ingress=[dict(spec["ingress"][0], action="Deny")]))})
    assert not nodes.packet(world, flow, "more") and not nodes.packet(world, flow, "answer")


case(58, "domainNames match nothing yet, and fail closed", f"""
    Admin 1 p: {{{ALL}, egress: [{{action: Accept, to: [{{domainNames: [example.com]}}, {{networks: [9.0.0.0/8]}}]}}, {{action: Deny, to: [{{networks: [0.0.0.0/0]}}]}}]}}
    a/x > 8.8.8.8 TCP 443: egress p[1]
    a/x > 9.9.9.9 TCP 443: allow p[0]""")
case(58, "they are for Accept only: a Deny fails closed as in rule 54", f"""
    Admin 1 p: {{subject: {{namespaces: {{matchLabels: {{team: red}}}}}}, egress: [{{action: Deny, to: [{{domainNames: [example.com]}}]}}]}}
    a/x > 8.8.8.8 TCP 443: egress p[0]
    b/x > 8.8.8.8 TCP 443: allow""")

# ---- audited policies

case(59, "an audited policy drops nothing, and what it would deny is reported", """
    NetworkPolicy a/p mode=audit: {policyTypes: [Ingress, Egress]}
    b/x > a/x TCP 80: allow ~ingress a/p
    b/x > a/x ICMP 0: allow ~ingress a/p
    a/x > a/y TCP 80: allow ~egress a/p ingress a/p
    a/x > 8.8.8.8 TCP 80: allow ~egress a/p
    b/x > b/y TCP 80: allow
    n1 > a/x TCP 80: allow
    n2 > a/x TCP 80: allow ~ingress a/p
    a/x > clusterIP:a/svc@10.244.1.1 TCP 80: allow""")
case(59, "another mode is none", """
    NetworkPolicy a/p mode=Audit: {}
    b/x > a/x TCP 80: ingress a/p""")
case(59, "an audited policy allows nothing, and what is denied anyway is not reported", """
    NetworkPolicy a/p: {podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}
    NetworkPolicy a/q mode=audit: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}
    b/x > a/x TCP 80: ingress a/p
    b/x > a/x TCP 81: ingress a/p
    a/y > a/x TCP 81: allow a/p[0]""")
case(59, "all policies count in the audit: what another one allows is not reported", """
    NetworkPolicy a/p mode=audit: {podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}
    NetworkPolicy a/q mode=audit: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}
    b/x > a/x TCP 80: allow
    a/y > a/x TCP 81: allow
    b/x > a/x TCP 81: allow ~ingress a/p a/q""")
case(59, "an audited Deny comes before an Accept in force only in the audit", f"""
    Admin 1 p mode=audit: {{{ALL}, ingress: [{{action: Deny, from: [{{namespaces: {{matchLabels: {{team: blue}}}}}}]}}]}}
    Admin 2 q: {{{ALL}, ingress: [{{action: Accept, from: [{{namespaces: {{}}}}]}}]}}
    b/x > a/x TCP 80: allow q[0] ~ingress p[0]
    a/y > a/x TCP 80: allow q[0]""")
case(59, "an audited Accept comes before a Deny in force only in the audit", f"""
    Admin 1 p mode=audit: {{{ALL}, ingress: [{{action: Accept, from: [{{namespaces: {{}}}}]}}]}}
    Admin 2 q: {{{ALL}, ingress: [{{action: Deny, from: [{{namespaces: {{matchLabels: {{team: blue}}}}}}]}}]}}
    b/x > a/x TCP 80: ingress q[0]""")
case(59, "an audited NetworkPolicy takes the place of Baseline only in the audit", f"""
    NetworkPolicy a/p mode=audit: {{podSelector: {{}}, ingress: [{{from: [{{podSelector: {{}}}}]}}]}}
    Baseline 1 q: {{{ALL}, ingress: [{{action: Deny, from: [{{namespaces: {{matchLabels: {{team: red}}}}}}]}}]}}
    a/y > a/x TCP 80: ingress q[0]
    b/x > a/x TCP 80: allow ~ingress a/p""")
case(59, "an audited policy makes no pod pending", """
    NetworkPolicy a/p mode=audit: {policyTypes: [Ingress, Egress]}
    fact sandboxes: [{node: n1, pod: a/new, uid: uid-new, addresses: [10.244.1.50]}]
    b/x > a/new TCP 80: allow""")
case(60, "with the setting all policies are audited", f"""
    fact audit: true
    NetworkPolicy a/p: {{podSelector: {{}}}}
    Admin 1 q: {{{ALL}, egress: [{{action: Deny, to: [{{namespaces: {{matchLabels: {{team: blue}}}}}}]}}]}}
    b/x > a/x TCP 80: allow ~ingress a/p
    a/x > b/x TCP 80: allow ~egress q[0]
    b/x > c/x TCP 80: allow""")
case(60, ".. and no pod is pending", """
    fact audit: true
    NetworkPolicy a/p: {policyTypes: [Ingress, Egress]}
    fact sandboxes: [{node: n1, pod: a/x, uid: uid-xa, addresses: [10.244.1.1], pending: true}, {node: n1, pod: a/new, uid: uid-new, addresses: [10.244.1.50]}]
    b/x > a/new TCP 80: allow
    b/x > a/x TCP 80: allow ~ingress a/p""")


@story(60, "no packet of an unknown connection is dropped, and the flow is known when enforcement begins")
def _(ref):
    world, nodes = after(ref, {"NetworkPolicy a/p": DENY}, audit=True)
    flow, other = flow_of("b/x > a/x TCP 80"), flow_of("b/y > a/x TCP 80")
    assert nodes.packet(world, other, "more") and nodes.packet(world, flow) and nodes.packet(world, flow, "answer")
    world.apply({"put": policy("NetworkPolicy a/p", {**DENY, "ingress": [{}]})})
    world.facts["audit"] = False
    world.apply({"half": []})
    assert nodes.packet(world, flow, "more") and nodes.packet(world, flow, "answer") and not nodes.packet(world, other, "more")


# ---- the examples of Kubernetes' page on network policies, and those that people write

case(1, "example: role=db from a block, a namespace and pods to 6379; to 10.0.0.0/24 port 5978", """
    NetworkPolicy a/test-network-policy: {podSelector: {matchLabels: {app: x}}, policyTypes: [Ingress, Egress], ingress: [{from: [{ipBlock: {cidr: 172.17.0.0/16, except: [172.17.1.0/24]}}, {namespaceSelector: {matchLabels: {team: blue}}}, {podSelector: {matchLabels: {app: z}}}], ports: [{protocol: TCP, port: 6379}]}], egress: [{to: [{ipBlock: {cidr: 10.0.0.0/24}}], ports: [{protocol: TCP, port: 5978}]}]}
    172.17.0.9@n1 > a/x TCP 6379: allow
    172.17.1.9@n1 > a/x TCP 6379: ingress
    172.17.2.9@n1 > a/x TCP 6380: ingress
    b/y > a/x TCP 6379: allow
    a/z > a/x TCP 6379: allow
    a/y > a/x TCP 6379: ingress
    c/x > a/x TCP 6379: ingress
    a/x > 10.0.0.77 TCP 5978: allow
    a/x > 10.0.1.77 TCP 5978: egress
    a/x > 10.0.0.77 TCP 80: egress""")
case(3, "example: default deny of all ingress, and of all egress", """
    NetworkPolicy a/default-deny-ingress: {podSelector: {}, policyTypes: [Ingress]}
    NetworkPolicy b/default-deny-egress: {podSelector: {}, policyTypes: [Egress]}
    c/x > a/x TCP 80: ingress a/default-deny-ingress
    a/x > c/x TCP 80: allow
    b/x > c/x TCP 80: egress b/default-deny-egress
    c/x > b/x TCP 80: allow""")
case(3, "example: allow all wins over default deny", """
    NetworkPolicy a/deny: {podSelector: {}, policyTypes: [Ingress, Egress]}
    NetworkPolicy a/allow-all-ingress: {podSelector: {}, ingress: [{}], policyTypes: [Ingress]}
    NetworkPolicy a/allow-all-egress: {podSelector: {}, egress: [{}], policyTypes: [Egress]}
    c/x > a/x TCP 80: allow a/allow-all-ingress[0]
    a/x > 8.8.8.8 ICMP 0: allow a/allow-all-egress[0]""")
case(8, "example: a range of ports", """
    NetworkPolicy a/multi-port-egress: {podSelector: {matchLabels: {app: x}}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.0.0.0/24}}], ports: [{protocol: TCP, port: 32000, endPort: 32768}]}]}
    a/x > 10.0.0.1 TCP 32000: allow
    a/x > 10.0.0.1 TCP 32768: allow
    a/x > 10.0.0.1 TCP 32769: egress""")
case(5, "example: several namespaces by In, one by its name", """
    NetworkPolicy a/egress-namespaces: {podSelector: {matchLabels: {app: x}}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {matchExpressions: [{key: team, operator: In, values: [blue, green]}]}}, {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: c}}}]}]}
    a/x > b/x TCP 80: allow
    a/x > c/x TCP 80: allow
    a/x > a/y TCP 80: egress""")
case(13, "example: DNS through its Service", """
    NetworkPolicy b/dns: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: a}}}], ports: [{protocol: TCP, port: 8080}]}]}
    b/x > clusterIP:a/svc@10.244.1.1 TCP 80: allow
    b/x > clusterIP:a/svc@10.244.2.1 TCP 80: egress""")

# ---- each rule broken once: (rule, a part of reference.py, what replaces it). A case of the rule must fail.

MUTANTS = [
    (1, 'meta(policy)["namespace"] == meta(pod)["namespace"] and direction', "direction"),
    (1, '["Ingress"] + ["Egress"] * bool(spec.get("egress"))', '["Ingress", "Egress"]'),
    (1, 'spec.get("policyTypes") or ["Ingress"]', '["Ingress"]'),
    (1, 'and selects(policy["spec"].get("podSelector") or {}, meta(pod).get("labels"))', ""),
    (2, "and direction in directions(policy)", ""),
    (3, 'decided("allow" if by else "deny", 3', 'decided("allow" if len(by) == len(policies) else "deny", 3'),
    (3, '    if not policies:\n', '    if not any(policy["spec"].get(direction.lower()) for policy in policies):\n'),
    (4, "                and (not ports or any(valid(port", "                or (not ports or any(valid(port"),
    (4, "not peers or any(valid(peer", "any(valid(peer"),
    (4, "(rule or {}).get(\"ports\") or []", '(rule or {}).get("ports") or [{}]'),
    (4, "any(valid(peer_matches", "all(valid(peer_matches"),
    (5, 'or namespaces is None and meta(peer.pod)["namespace"] != namespace', ""),
    (5, "seen(5, pod_matches(world, peer.pod, namespaces, pods))",
     "seen(5, pod_matches(world, peer.pod, namespaces, None) or pod_matches(world, peer.pod, None, pods))"),
    (5, "if peer.pod is None or namespaces", "if peer.pod is None: return namespaces == {}\n    if namespaces"),
    (6, "labels.get(key) not in values", "key in labels and labels[key] not in values"),
    (6, "key not in labels", "labels.get(key) == ''"),
    (6, '.items()) and\n', '.items()) or\n'),
    (6, '"kubernetes.io/metadata.name": name_of(thing), ', ""),
    (7, "not any(address_of(address) in entry for entry in excepts)", "True"),
    (7, "not any(address_of(address) in entry for entry in excepts)", "not any([address_of(address) in entry for entry in excepts][:1])"),
    (7, "strict=False", "strict=True"),
    (7, 'return in_block(block, peer.address)', "return peer.pod is None and in_block(block, peer.address)"),
    (8, 'entry.get("protocol") or "TCP"\n', 'entry.get("protocol") or flow.protocol\n'),
    (8, '<= flow.port <= (entry', '<= flow.port < (entry'),
    (8, "port is None or port <=", "port is not None and port <="),
    (8, "    if protocol != flow.protocol:\n        return False\n    if isinstance", "    if isinstance"),
    (9, 'port.get("protocol", "TCP") == protocol]', "True]"),
    (9, 'server = peer.pod if direction == "Egress" else box.object', "server = box.object"),
    (9, ' if init.get("restartPolicy") == "Always"', ""),
    (9, 'if init.get("restartPolicy") == "Always"', "if False"),
    (10, 'return target["backend"], next(', 'return target["backend"], flow["port"] or next('),
    (11, 'egress.verdict == ingress.verdict == "allow"', 'ingress.verdict == "allow"'),
    (11, "for direction in (\"Egress\", \"Ingress\"))\n    both", "for direction in (\"Ingress\", \"Ingress\"))\n    both"),
    (12, "        return not seen(12)\n", "        return seen(12)\n"),
    (12, '    check((block is None) != (namespaces is None and pods is None), "a peer has a block or selectors")\n', ""),
    (12, "    check_port(entry)\n", ""),
    (12, "            seen(12)\n            return\n", "            seen(12)\n"),
    (12, '    if not valid(knows, rule or {}, side, "ports"):\n        return False\n', ""),
    (12, '    check_known(entry, "protocol", "port", "endPort")\n', ""),
    (13, "return seen(13) and service_backend(world, target, flow)", 'return "10.96.0.10", flow["port"]'),
    (13, "return seen(13) and host_port(world, target, flow, at, family)",
     'return world.node_address(at, family), target["hostPort"]'),
    (14, 'service["spec"].get("externalTrafficPolicy", "Cluster") == "Cluster"', "True"),
    (14, "return seen(14) and service", "return not seen(14) and service"),
    (14, "or server_box.node == at", ""),
    (14, 'world.facts.get("keepsClient", False) and address not in', "address not in"),
    (14, 'address and world.facts.get("keepsClient", False)', "False"),
    (14, "not any(address == world.node_address(", "not any(False and world.node_address("),
    (14, 'if "service" not in target or', 'if "hostPort" in target: return True\n    if "service" not in target or'),
    (15, "return Peer(world.node_address(owner, family_of(address)) or address, None, False)", "return Peer(address, None, False)"),
    (16, "if not trusted and (ours or", "if False and (ours or"),
    (16, "if not trusted and (ours or address in world.facts.get(\"overlay\", {})):", "if not trusted and ours:"),
    (17, 'if peer.pod is None or namespaces is None', 'if peer.unknown: return True\n    if peer.pod is None or namespaces is None'),
    (17, 'return in_block(block, peer.address)', "return not peer.unknown and in_block(block, peer.address)"),
    (18, 'seen(18, world.facts.get("masqueradeAll", False))', "False"),
    (18, 'seen(18, world.facts.get("masqueradeAll", False))', "True"),
    (19, "and flow.how == \"node\" and flow.at == box.node", "and False"),
    (19, "and flow.how == \"node\" and flow.at == box.node", 'and flow.how == "node"'),
    (19, "and flow.how == \"node\" and flow.at == box.node", "and flow.how != \"pod\" and flow.at == box.node"),
    (20, "    if pending(world, box):", '    if flow.server == world.node_address(box.node, 4):\n        return decided("allow", 20)\n    if pending(world, box):'),
    (21, "and not host_network(pod)]\n    pod = max", "]\n    pod = max"),
    (21, "not host_network(pod) and not finished", "not finished"),
    (22, "    if itself(flow):\n", "    if False:\n"),
    (22, "and flow.client_box == flow.server_box\n", "and flow.server_box is not None\n"),
    (23, 'return {"verdict": "allow", "egress": decided("allow", 23)', 'return {"verdict": "deny", "egress": decided("deny", 23)'),
    (24, "if key in self.known:\n            return", "if key in self.known and kind == \"more\":\n            return"),
    (25, '        if kind == "error":\n', '        if kind == "open" and key in self.known:\n            return True\n        if kind == "error":\n'),
    (26, "if socket else not seen(26)", "if socket else seen(26)"),
    (26, 'for direction in ("Ingress", "Egress") for tier', 'for direction in ("Ingress",) for tier'),
    (27, "return seen(27, key in self.known) or not watched", "return not watched"),
    (27, "return seen(27, key in self.known) or not watched", "return True"),
    (27, "            return seen(27)\n", "            return not watched\n"),
    (28, "if ports and flow.protocol not in PORTS:\n        return not seen(28)", "if ports and flow.protocol not in PORTS:\n        return True"),
    (28, "if ports and flow.protocol not in PORTS:", "if flow.protocol not in PORTS:"),
    (29, "else not any(guarded(world, box) for box in boxes)", "else True"),
    (29, "self.fragments[key] if key in self.fragments else", "key in self.fragments or"),
    (30, "            return not seen(30)\n        if remember:", "            self.known.add(key)\n            return not seen(30)\n        if remember:"),
    (30, "            return not seen(30)\n        if remember:", "            self.known.discard(key)\n            return not seen(30)\n        if remember:"),
    (31, "seen(31, self.allowed(world, flow, ends))", "True"),
    (32, "return seen(32) and", "return False and"),
    (33, "if socket else not seen(26)", "if False else not seen(26)"),
    (33, 'return seen(33) and self.open(world, flow, ends, key, True) if socket', "return True if socket"),
    (33, 'and kind == "more" and flow.protocol in ("UDP", "ICMP")', 'and kind == "more" and flow.protocol == "none"'),
    (34, "for world in (before, after)}", "for world in (before,)}"),
    (34, "for world in (before, after)}", "for world in (before, after)} | {\"deny\"}"),
    (35, 'selects(pods, meta(pod).get("labels"))', 'selects(pods, meta(pod).setdefault("first", {}))'),
    (35, "self.objects[key] = thing", "self.objects.setdefault(key, thing)"),
    (36, "        elif not self.alive:\n", "        elif False:\n"),
    (36, '            for missed in self.waiting if self.alive else []:\n                self.apply(missed)\n', ""),
    (37, "    if pending(world, box):", "    if False:"),
    (37, "return box.pending or object_of(world, box) is None", "return box.object is None"),
    (37, "return box.pending or object_of(world, box) is None and", "return box.pending or object_of(world, box) is None and False and"),
    (38, 'node["namespaces"].get(pod.split("/")[0], True)', 'node["namespaces"].get(pod.split("/")[0], False)'),
    (38, 'if not node["policies"] or not node', "if not node"),
    (38, 'can_select(world, box.pod.split("/")[0])', "True"),
    (39, '    if uid in node["bound"]:\n', "    if False:\n"),
    (40, 'return seen(40) and "pending"', 'return seen(40) and "open"'),
    (41, 'needed = {"policies"} | ({"namespaces", "pods"} if node["policies"] else set())', 'needed = {"policies"}'),
    (41, 'needed = {"policies"} | (', "needed = set() and ("),
    (41, 'if not node.get("enforcing", True):', "if False:"),
    (41, 'if not world.facts.get("enforcing", True):', "if False:"),
    (42, "entry[\"addresses\"], known.get((entry[\"pod\"], uid)),", "entry[\"addresses\"], self.objects.get((\"Pod\", entry[\"pod\"])),"),
    (42, "known = {(name_of(pod), uid_of(pod)): pod", "known = {(\"a/x\", uid_of(pod)): pod"),
    (42, 'return seen(42, static) or meta(pod).get("uid")', 'return meta(pod).get("uid")'),
    (42, 'meta(pod).get("uid") or name_of(pod)', 'meta(pod).get("uid")'),
    (43, "            self.gone[uid_of(thing)] = thing\n", "            pass\n"),
    (43, "    if not world.has_namespace(namespace):\n        return any(world.of(kind) for kind in POLICIES)\n",
     "    if not world.has_namespace(namespace):\n        return False\n"),
    (43, "running = [pod for pod in world.pods if", "running = [pod for pod in world.pods if not meta(pod).get(\"deletionTimestamp\") and"),
    (43, "running = [pod for pod in world.pods if", "running = [pod for pod in world.pods + list(world.gone.values()) if"),
    (44, "if not finished(pod) and world.has_namespace", "if world.has_namespace"),
    (44, 'pod["status"].get("startTime", ""), default', "-len(meta(pod)['name']), default"),
    (44, "box = world.box_at(address, node)\n    if box:", "box = None\n    if box:"),
    (45, "return seen(45) and box.uid if box else address", "return address"),
    (46, "if box is None or not box.pod:", "if box is None:"),
    (46, '    if pod is None:\n        return seen(46) and "open"\n', ""),
    (47, 'if thing["kind"] == "ClusterNetworkPolicy" and seen(47', 'if False and seen(47'),
    (47, 'for key in [key for key in self.objects if key[0] == event["vanished"]]:', "for key in []:"),
    (48, "    if network:\n        return network\n", "    if network and network.verdict == \"allow\":\n        return network\n"),
    (48, 'if policy["spec"]["tier"] == tier and', "if"),
    (48, 'and policy["spec"].get(direction.lower()) \\\n', "and True \\\n"),
    (48, 'return decided("allow", 2)', 'return decided("deny" if world.of("ClusterNetworkPolicy") else "allow", 2)'),
    (49, '(policy["spec"]["priority"], name_of(policy))', '(-policy["spec"]["priority"], name_of(policy))'),
    (49, '(policy["spec"]["priority"], name_of(policy))', 'policy["spec"]["priority"] + 0 * len(found), reverse=True'),
    (49, '(policy["spec"]["priority"], name_of(policy))', '(policy["spec"]["priority"], [-ord(c) for c in name_of(policy)])'),
    (49, 'for index, rule in enumerate(policy["spec"][direction.lower()]):', 'for index, rule in reversed(list(enumerate(policy["spec"][direction.lower()]))):'),
    (50, '"Pass": "pass"}', '"Pass": "allow"}'),
    (50, '    if admin and admin.verdict != "pass":\n        return admin\n', '    if admin and admin.verdict == "deny":\n        return admin\n'),
    (50, 'both = egress.verdict', 'ingress = egress if egress.tier else ingress\n    both = egress.verdict'),
    (50, 'if baseline and baseline.verdict != "pass":', "if baseline:"),
    (51, 'and pod_matches(world, pod, *pods_of(policy["spec"]["subject"])):', "and True:"),
    (51, 'pod_matches(world, pod, *pods_of(policy["spec"]["subject"])):', 'pod_matches(world, pod, pods_of(policy["spec"]["subject"])[0], None):'),
    (51, 'entry["pods"].get("namespaceSelector", {})', 'entry["pods"]["namespaceSelector"]'),
    (51, "return peer.pod is not None and seen(51", "return peer.pod is None or seen(51"),
    (52, "seen(52, any([inside(peer.address, cidr)", "seen(52, peer.pod is None and any([inside(peer.address, cidr)"),
    (52, "for address in node[\"status\"][\"addresses\"]) for node", "for address in node[\"status\"][\"addresses\"][:2]) for node"),
    (52, 'any(selects(entry["nodes"], meta(node).get("labels")) and any(', "any(any("),
    (53, 'if "number" in port else (\n        port["range"]["start"], port["range"]["end"])', 'if "number" in port else (\n        port["range"]["start"], port["range"]["start"])'),
    (53, "return flow.protocol == protocol and seen(53, start", "return seen(53, start"),
    (53, 'entry["destinationNamedPort"], flow.protocol))', 'entry["destinationNamedPort"], "TCP"))'),
    (53, "ports = not protocols or any(", "ports = flow.protocol in PORTS and not protocols or any("),
    (54, 'return None if seen(54) and action == "Accept" else ("Deny", 54)', "return None"),
    (54, 'return None if seen(54) and action == "Accept" else ("Deny", 54)', 'return ("Deny", 54)'),
    (54, 'else ("Deny", 54)', 'else (action, 54)'),
    (54, '    for selector in pods_of(entry):\n        check_selector(selector)\n', ""),
    (54, 'match = any([cluster_peer_matches(world, entry, peer) for entry in peers])', "match = any(cluster_peer_matches(world, entry, peer) for entry in peers)"),
    (54, '        check_known(rule, "name", "action", "from" if direction == "Ingress" else "to", "protocols")\n', ""),
    (54, 'if len(entry) == 1 and "networks" in entry:', 'if "networks" in entry:'),
    (55, "(match or unknown) and ports", "match and ports"),
    (55, 'unknown = action == "Deny" and peer.unknown and selectors', 'unknown = peer.unknown and selectors'),
    (55, "peer.unknown and selectors", "peer.unknown"),
    (55, "peer.unknown and selectors", "peer.pod is None and selectors"),
    (56, "flow.client if itself(flow) else flow.seen", "world.overlay_address(box.node, 4) if itself(flow) else flow.seen"),
    (56, "    if flow.client_box == box == flow.server_box and not flow.service:", "    if False:"),
    (56, "    if flow.client_box == box == flow.server_box and not flow.service:", "    if flow.client_box == box == flow.server_box:"),
    (57, 'return target["backend"], next(', 'return target["backend"], flow["port"] or next('),
    (57, "isolating(world, pod, direction, audits) or cluster_policies(world, pod, direction, tier, audits)", "isolating(world, pod, direction, audits)"),
    (58, "        return not seen(58)\n", "        return seen(58)\n"),
    (58, '        check(action == "Accept" or not any("domainNames" in entry for entry in peers), "domainNames only for Accept")\n', ""),
    (59, '.get("monokube.io/policy-mode") == "audit"', '.get("monokube.io/policy-mode")'),
    (59, "or seen(59, has_audit(thing)))", ")"),
    (59, "world.strict if in_audit else world", "world"),
    (59, "kind: self.kinds[kind] + self.audited[kind] for", "kind: self.audited[kind] for"),
    (59, 'if end.verdict == "allow" and any(', 'if any('),
    (60, 'seen(60, self.facts.get("audit")) or', ""),
    (60, ' and not self.facts.get("audit")))', "))"),
    (60, "any(guarded(world, box, audits=True) for box, _ in ends)", "False"),
]


def load(source):
    """The evaluator from its text."""
    module = types.ModuleType("mutant")
    exec(compile(source, "reference.py", "exec"), module.__dict__)  # pylint: disable=exec-used
    return module


def mutant(source, rule, find, replace):
    """The first case of the rule that fails without it, or None. A crash counts as a failure."""
    if source.count(find) != 1:
        raise ValueError("rule %d: %d places have %r" % (rule, source.count(find), find))
    module = load(source.replace(find, replace))
    for number, title, run in CASES:
        try:
            if number == rule and run(module):
                return title
        except Exception:  # pylint: disable=broad-except
            return title
    return None


# ---- worlds and the matrix

def lines_of(seeds):
    return [line for seed in seeds for line in worlds.random_world(seed)]


def worlds_repeat():
    """The same seed gives the same lines."""
    first, second = ([json.dumps(line) for line in lines_of((7, 8))] for _ in range(2))
    return "" if first == second else "two runs differ"


def worlds_visit_all_rules():
    """In some worlds, each rule decides a flow."""
    reference.visited.clear()
    lines_of(range(1, 61))
    return ", ".join("rule %d decided nothing" % rule for rule in range(1, RULES + 1) if not reference.visited[rule])


def asked(lines):
    """World by world: objects, facts, and flows up to the first change."""
    found = []
    for line in lines:
        if "world" in line:
            found.append((line["objects"], line["facts"], []))
            open_ = True
        elif "change" in line:
            open_ = False
        elif "flow" in line and "verdict" in line and open_:
            found[-1][2].append((line["flow"], line["verdict"]))
    return found


def order_has_no_meaning():
    for objects, facts, flows in asked(lines_of(range(20, 26))):
        world = reference.World(list(reversed(objects)), **facts)
        if any(reference.verdict(world, flow)["verdict"] != want for flow, want in flows):
            return "a verdict depends on the order of objects"
    return ""


def allowing_all_opens_all():
    """With a NetworkPolicy that allows all in each namespace, and no other tier, only pending pods are closed."""
    for objects, facts, flows in asked(lines_of(range(30, 36))):
        spaces = [thing["metadata"]["name"] for thing in objects if thing["kind"] == "Namespace"]
        kept = [thing for thing in objects if thing["kind"] != "ClusterNetworkPolicy"]
        world = reference.World(kept + [policy("NetworkPolicy %s/all" % name, {
            "policyTypes": ["Ingress", "Egress"], "ingress": [{}], "egress": [{}]}) for name in spaces], **facts)
        found = [reference.verdict(world, flow) for flow, _ in flows]
        if any(one["verdict"] != "allow" and 37 not in [end.rule for end in (one["egress"], one["ingress"])] for one in found):
            return "a flow is denied"
    return ""


def one_more_denial_opens_nothing():
    """A further policy that isolates all pods never allows what was denied."""
    for objects, facts, flows in asked(lines_of(range(40, 46))):
        denial = {"subject": {"namespaces": {}}, "ingress": [{"action": "Deny", "from": [{"namespaces": {}}]}]}
        world = reference.World(objects + [policy("Admin 0 !first", denial)], **facts)
        if any(want == "deny" and reference.verdict(world, flow)["verdict"] == "allow" for flow, want in flows):
            return "a flow is allowed"
    return ""


def matrix_counts():
    for group, (want, cases) in matrix.MATRIX.items():
        made = [json.dumps(objects) for _, *objects in cases()]
        if len(made) != want or len(set(made)) != want:
            return "%s: %d cases, %d of them different, expected %d" % (group, len(made), len(set(made)), want)
    return "" if sum(matrix.MATRIX[group][0] for group in matrix.CYCLONUS) == 230 else "not Cyclonus' 230 cases"


def matrix_cases_allow_and_deny():
    """Each case denies something and allows something, but for some that are meant to allow all."""
    dull = set()
    for name, _, world, flows, events in matrix.matrix_worlds():
        found = set()
        for change in [None] + events:
            world.apply(change or {})
            for flow in flows if len(found) < 2 else []:
                if all("pod" not in end or world.box(end["pod"]) for end in (flow["source"], flow["destination"])):
                    found.add(reference.verdict(world, flow)["verdict"])
                    if len(found) == 2:
                        break
        if len(found) < 2 and name.split("-")[0] not in ("layers", "modes", "order"):  # their Accepts leave nothing to deny
            dull.add(name)
    return ", ".join(sorted(dull ^ set(ALL_ALLOWED)))


ALL_ALLOWED = ("peers-0-none", "peers-56-none", "ports-0-none", "ports-35-none", "e2e-3-allow-all", "targets-5-no-pod",
               "subjects-4-Ingress-4", "subjects-9-Egress-4")

CHECKS = [worlds_repeat, worlds_visit_all_rules, order_has_no_meaning, allowing_all_opens_all, one_more_denial_opens_nothing,
          matrix_counts, matrix_cases_allow_and_deny]


def tests():
    for rule, title, run in CASES:
        yield "rule %d: %s" % (rule, title), lambda run=run: run(reference)
    with open(reference.__file__, encoding="utf-8") as lines:
        source = lines.read()
    for rule in range(1, RULES + 1):
        broken = [(find, replace) for number, find, replace in MUTANTS if number == rule]
        yield "rule %d broken in %d ways: a case fails each time" % (rule, len(broken)), lambda rule=rule, broken=broken: "; ".join(
            "no case fails with %r" % replace for find, replace in broken if not mutant(source, rule, find, replace)) or (
                "" if broken else "nothing breaks it")
    for run in CHECKS:
        yield run.__name__.replace("_", " "), run


def main():
    wanted = [(name, run) for name, run in tests() if not sys.argv[1:] or any(part in name for part in sys.argv[1:])]
    print("1..%d" % len(wanted))
    failed = 0
    for number, (name, run) in enumerate(wanted, 1):
        try:
            wrong = run()
        except Exception as error:  # pylint: disable=broad-except
            wrong = "%s: %s" % (type(error).__name__, error)
        failed += bool(wrong)
        print("%sok %d - %s%s" % ("not " if wrong else "", number, name, "\n# " + wrong if wrong else ""), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

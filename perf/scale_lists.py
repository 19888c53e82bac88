#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""perf/scale_lists.py --services N --endpoints M --out DIR - makes the lists of a large cluster's
API server.

DIR/services.watch and DIR/endpointslices.watch are streaming lists of N Services with M endpoints
each, on --nodes nodes. With --families 46 both have addresses of both families, and each family has
slices. Each list ends with the bookmark. With --changes K, DIR/changes.watch has K MODIFIED events. Each event takes a slice's first endpoint away, or brings it back. The events visit
all Services in turn, or only --among Services. Two recorded objects give the fields, their order
and managedFields (test/wire/recordings).
"""
import argparse
import copy
import ipaddress
import json
import os
import sys
import uuid

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "test", "wire"))
from standin import recordings  # noqa: E402

PER_SLICE = 100
ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def uid(*key):
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "/".join(map(str, key))))


def names(i):
    return "scale-%03d" % (i % 100), "svc-%06d" % i


class Lists:
    def __init__(self, services, endpoints, nodes, families):
        self.services, self.endpoints, self.nodes, self.families = services, endpoints, nodes, families
        self.service = self.pick("list-services", "big")
        self.slice = self.pick("list-endpointslices", "big-")
        self.first = {"4": ipaddress.ip_address("10.128.0.16"), "6": ipaddress.ip_address("fd00:10:128::10")}

    @staticmethod
    def pick(recording, prefix):
        lst = recordings.load(recording)
        obj = next(o for o in lst["items"] if o["metadata"]["namespace"] == "infra" and o["metadata"]["name"].startswith(prefix))
        return dict({"kind": lst["kind"][:-len("List")], "apiVersion": lst["apiVersion"]}, **obj)

    def make_service(self, i):
        o = copy.deepcopy(self.service)
        namespace, name = names(i)
        o["metadata"].update(name=name, namespace=namespace, uid=uid("svc", i), resourceVersion=str(100000 + i))
        addresses = [str(self.first[family] + i) for family in self.families]
        o["spec"].update(clusterIP=addresses[0], clusterIPs=addresses, selector={"app": name})
        if len(self.families) > 1:
            o["spec"].update(ipFamilies=["IPv" + family for family in self.families], ipFamilyPolicy="RequireDualStack")
        return o

    def pod_address(self, family, at):
        node, number = at % self.nodes, (at // self.nodes) % 4000 + 2
        if family == "6":
            return str(ipaddress.ip_address("fd00:11::") + (node << 64) + number)
        return str(ipaddress.ip_address("11.0.0.0") + node * 4096 + number)

    def make_slices(self, i):
        return (o for family in self.families for o in self.slices_of(i, family))

    def slices_of(self, i, family):
        template = self.slice["endpoints"][0]
        namespace, name = names(i)
        suffix = "" if family == "4" else "-v6"
        for part in range((self.endpoints + PER_SLICE - 1) // PER_SLICE):
            o = copy.deepcopy({k: v for k, v in self.slice.items() if k != "endpoints"})
            o["endpoints"] = []
            o["addressType"] = "IPv" + family
            o["metadata"].update(name="%s-%05d%s" % (name, part, suffix), generateName=name + "-", namespace=namespace,
                                 uid=uid("slice", i, "%d%s" % (part, suffix)),
                                 resourceVersion=str(1000000 + i * 10 + part))
            o["metadata"]["labels"]["kubernetes.io/service-name"] = name
            o["metadata"]["ownerReferences"][0].update(name=name, uid=uid("svc", i))
            for k in range(part * PER_SLICE, min(self.endpoints, (part + 1) * PER_SLICE)):
                at = i * self.endpoints + k
                e = copy.deepcopy(template)
                e["addresses"] = [self.pod_address(family, at)]
                e["nodeName"] = "worker-%d" % (at % self.nodes + 1)
                e["targetRef"].update(name="%s-%d" % (name, k), namespace=namespace, uid=uid("pod", i, k))
                o["endpoints"].append(e)
            # the recorded order: endpoints before ports
            yield {k: o[k] for k in list(self.slice)}

    def changes(self, count, among):
        for n in range(count):
            o = next(self.make_slices(n % among * 7919 % self.services))
            if n // among % 2 == 0:
                o["endpoints"] = o["endpoints"][1:]
            o["metadata"]["resourceVersion"] = str(200000000 + n)
            yield o


def write(path, kind, api_version, objects, event="ADDED", bookmark=True):
    with open(path, "w") as f:
        for o in objects:
            f.write('{"type":"%s","object":%s}\n' % (event, ENCODE(o)))
        if bookmark:
            f.write(ENCODE({"type": "BOOKMARK", "object": {"kind": kind, "apiVersion": api_version, "metadata": {
                "resourceVersion": "100000000", "annotations": {"k8s.io/initial-events-end": "true"}}}}) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--services", type=int, default=10000)
    p.add_argument("--endpoints", type=int, default=10)
    p.add_argument("--nodes", type=int, default=100)
    p.add_argument("--families", choices=("4", "6", "46"), default="4")
    p.add_argument("--changes", type=int, default=0)
    p.add_argument("--among", type=int, default=0)
    p.add_argument("--out", required=True)
    a = p.parse_args()
    lists = Lists(a.services, a.endpoints, a.nodes, a.families)
    os.makedirs(a.out, exist_ok=True)
    write(os.path.join(a.out, "services.watch"), "Service", "v1", map(lists.make_service, range(a.services)))
    write(os.path.join(a.out, "endpointslices.watch"), "EndpointSlice", "discovery.k8s.io/v1",
          (s for i in range(a.services) for s in lists.make_slices(i)))
    if a.changes:
        write(os.path.join(a.out, "changes.watch"), "", "", lists.changes(a.changes, a.among or a.services), "MODIFIED", False)


if __name__ == "__main__":
    main()

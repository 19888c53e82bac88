#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""routed.py MODE WHAT - bring up a routed peer of perf/compare in MODE nftables or iptables, check WHAT, and
remove it. Its kube-proxy is $KUBE_PROXY, its namespaces begin with $MK_LAB, its family is $MK_LAB_FAMILY. Ends
with 0 if all is as expected.

reach     connections to Services from a pod, a node and the world
again     other numbers of Services, in turn
told      the arguments and places of the kube-proxies
left      that nothing of it remains
up        nothing: bring it up without Services"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "perf"))
import systems  # noqa: E402

KINDS = {"nftables": systems.RoutedNftables, "iptables": systems.RoutedIptables}
FAMILY = int(os.environ.get("MK_LAB_FAMILY", "4"))
LISTED = {"nftables": ("nft", "list", "map", "ip6" if FAMILY == 6 else "ip", "kube-proxy", "service-ips"),
          "iptables": ("ip6tables-save" if FAMILY == 6 else "iptables-save", "-t", "nat")}
PATHS = ("pod-service-near", "pod-service-far", "host-service-near", "world-nodeport-cluster", "world-nodeport-local",
         "pod-world")
UNTOUCHED = {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
WAIT_SECONDS = 20


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: expected {wanted}\n{'':<{len(what)}}  seen     {got}")


def connects(namespace, address, ports):
    """Does some connection bring its byte there and back?"""
    port = ports.get(systems.PORT, systems.PORT)
    done = subprocess.run(["ip", "netns", "exec", namespace, systems.LOAD, "connect", address, str(port), "20"],
                          capture_output=True, text=True, check=False, timeout=WAIT_SECONDS)
    return done.returncode == 0 and json.loads(done.stdout)["per_s"] > 0


def reach(peer):
    peer.set_services(3)
    for path in PATHS:
        systems.wait_until(f"a connection by {path}", WAIT_SECONDS, lambda: connects(*peer.place_named(path)))
    elsewhere = (peer.name("world"), peer.nodes["node2"], systems.NODE_PORTS["local"])
    expect("a connection to a node without an endpoint, policy Local", connects(*elsewhere), False)


def in_rules(peer, node, vip):
    return vip in re.findall(r"[\da-f:.]+", peer.inside(node, *LISTED[peer.mode]))


def others_in_rules(peer, count):
    """Of the first `count` others: which are in the rules of each node?"""
    return {node: [name for name, vip, _ in systems.others(count, peer.pod_net, FAMILY) if in_rules(peer, node, vip)]
            for node in peer.nodes}


def again(peer):
    for count in (2, 7, 0, 4):
        peer.set_services(count)
        expect(f"with {count} others", others_in_rules(peer, 10),
               {node: [f"other-{number}" for number in range(count)] for node in peer.nodes})
    systems.wait_until("a connection", WAIT_SECONDS, lambda: connects(*peer.place_named("pod-service-near")))


def namespaces_of(pid):
    return [os.readlink(f"/proc/{pid}/ns/{kind}") for kind in ("net", "mnt")]


def told(peer):
    peer.set_services(0)
    for node, address in peer.nodes.items():
        pid = peer.proxies.processes[node].pid
        command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        config = yaml.safe_load(Path(command[command.index("--config") + 1]).read_text())
        expect("mode, node, pods, node ports",
               [config[key] for key in ("mode", "hostnameOverride", "clusterCIDR", "nodePortAddresses")],
               [peer.mode, node, "fd00:10:245::/48" if FAMILY == 6 else "10.245.0.0/16",
                                 [f"{address}/{128 if FAMILY == 6 else 32}"]])
        expect("conntrack", config["conntrack"], UNTOUCHED)
        expect("content", config["clientConnection"]["contentType"], "application/json")
        expect("its network", peer.inside(node, "readlink", "/proc/self/ns/net").strip(), namespaces_of(pid)[0])
        expect("a /sys of its own", namespaces_of(pid)[1] != namespaces_of("self")[1], True)


def left_of(peer, pids, directory):
    """Processes, namespaces and files that are still there."""
    names = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout.split()
    return ([pid for pid in pids if Path(f"/proc/{pid}").exists()], [n for n in names if n.startswith(peer.prefix + ".")],
            directory.exists())


def left(peer):
    peer.set_services(1)
    pids, directory = [p.pid for p in peer.proxies.processes.values()], peer.proxies.directory
    expect("processes", len(pids), 1 + len(peer.nodes))
    peer.down()
    expect("what is left", left_of(peer, pids, directory), ([], [], False))


def up(peer):
    peer.set_services(0)


def main(mode, what):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    tempfile.tempdir = os.environ.get("TMP")  # nobody else's files are among ours
    peer = KINDS[mode](os.environ["MK_LAB"], FAMILY)
    try:
        peer.up()
        if what != "reach":  # which any rules allow
            expect("rules by a kube-proxy", bool(getattr(peer, "proxies", None)), bool(os.environ.get("KUBE_PROXY")))
        {"reach": reach, "again": again, "told": told, "left": left, "up": up}[what](peer)
    finally:
        peer.down()


if __name__ == "__main__":
    main(*sys.argv[1:])

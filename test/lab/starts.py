#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""starts.py OPTIONS - start and end many pods on node1, a number of them at once, by the calls of a runtime. From the
instant at which its network namespace exists, each pod sends datagrams to an address of world that its policies allow
and to one that they deny; a stranger sends to the pod as soon as its address is known.

Prints `pods N known N pending N failed N retried N`, then `arrived N denied N`: pods whose datagrams came where
they may come, and pods of which one came where it may not. Lines before name those, and calls that failed."""
import argparse
import concurrent.futures
import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
import time
import uuid

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
PORT = 9
EAGER_S, CALM_S = 0.001, 0.02  # between datagrams, before and after ADD
RETRY_S = 0.1


def in_netns(name, make):
    """The result of @make, called inside a network namespace. It holds for the calling thread only."""
    with open("/proc/thread-self/ns/net", "rb") as own, open("/run/netns/" + name, "rb") as other:
        if LIBC.setns(other.fileno(), CLONE_NEWNET) < 0:
            raise OSError(ctypes.get_errno(), "setns " + name)
        try:
            return make()
        finally:
            LIBC.setns(own.fileno(), CLONE_NEWNET)


def udp(port=0, address=""):
    sock = socket.socket(FAMILY, socket.SOCK_DGRAM)
    sock.bind((address, port))
    sock.setblocking(False)
    return sock


class Receiver:
    """Which pods have sent to this address of world?"""

    def __init__(self, world, address):
        self.seen, self.sock = set(), in_netns(world, lambda: udp(PORT, address))
        self.sock.setblocking(True)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            self.seen.add(self.sock.recv(64).decode())


class Sender(threading.Thread):
    """Sends for all pods that live."""

    def __init__(self, stranger):
        super().__init__(daemon=True)
        self.pods, self.lock = [], threading.Lock()
        self.stranger = in_netns(stranger, udp)

    def run(self):
        while True:
            with self.lock:
                pods = list(self.pods)
            for pod in pods:
                pod.send(self.stranger)
            time.sleep(EAGER_S)

    def change(self, pod, add):
        with self.lock:
            (self.pods.append if add else self.pods.remove)(pod)


def send(sock, name, address):
    try:
        sock.sendto(name.encode(), (address, PORT))
    except OSError:
        pass  # no device or no route yet


class Pod:
    def __init__(self, args, number):
        self.args, self.name, self.uid = args, "%s-%d" % (args.prefix, number), str(uuid.uuid4())
        self.netns, self.address, self.next, self.failed, self.said = "%s.%s" % (args.lab, self.name), None, 0.0, 0, ""
        self.file = "%s/nodes/node1/cluster/start-%s.json" % (args.dir, self.name)

    def bind(self):
        """The Pod object, as it is when the scheduler has chosen the node."""
        pod = {"apiVersion": "v1", "kind": "Pod",
               "metadata": {"name": self.name, "namespace": "shop", "uid": self.uid, "labels": {"app": "start"}},
               "spec": {"nodeName": "node1", "containers": [{"name": "main"}]}, "status": {"phase": "Pending"}}
        temporary = "%s/tmp/%s" % (self.args.dir, self.name)
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(pod, file)
        os.rename(temporary, self.file)

    def begin(self):
        subprocess.run(["ip", "netns", "add", self.netns], check=True)
        self.sock, self.server = in_netns(self.netns, lambda: (udp(), udp(PORT)))

    def call(self, verb):
        node = self.args.lab + ".node1"
        env = {"PATH": os.environ["PATH"], "CNI_COMMAND": verb, "CNI_CONTAINERID": self.name, "CNI_NETNS": "/run/netns/" + self.netns,
               "CNI_IFNAME": "eth0", "CNI_PATH": "/opt/cni/bin",
               "CNI_ARGS": "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=%s;K8S_POD_UID=%s" % (self.name, self.uid)}
        return subprocess.run(["nsenter", "--net=/run/netns/" + node, "--mount=%s/nodes/node1/mnt" % self.args.dir, "--",
                               "/opt/cni/bin/monokube"], input=self.args.conf, capture_output=True, text=True, env=env, check=False)

    def add(self):
        """A runtime calls ADD again if it fails. Returns whether it succeeded at last."""
        deadline = time.monotonic() + self.args.retry
        while True:
            done = self.call("ADD")
            if done.returncode == 0:
                self.said = done.stderr
                self.address = json.loads(done.stdout)["ips"][0]["address"].split("/")[0]
                return True
            if time.monotonic() > deadline:
                print("ADD of %s failed: %s" % (self.name, done.stdout))
                return False
            self.failed += 1
            time.sleep(RETRY_S)

    def send(self, stranger):
        now = time.monotonic()
        if now < self.next:
            return
        self.next = now + (CALM_S if self.address else 0)
        send(self.sock, self.name, self.args.allowed)
        send(self.sock, self.name, self.args.denied)
        if self.address:
            send(stranger, self.name, self.address)

    def was_reached(self):
        try:
            return bool(self.server.recv(64))
        except BlockingIOError:
            return False

    def end(self):
        done = self.call("DEL")
        if done.returncode:
            print("DEL of %s failed: %s" % (self.name, done.stdout))
        self.sock.close()
        self.server.close()
        subprocess.run(["ip", "netns", "del", self.netns], check=True)
        os.unlink(self.file)


def life(pod, sender, allowed):
    """Start a pod, wait until its datagrams arrive, end it. Returns whether ADD succeeded, and whether a stranger came."""
    if not pod.args.bound:
        pod.bind()
    pod.begin()
    sender.change(pod, True)
    added = pod.add()
    until = time.monotonic() + pod.args.wait
    while added and pod.name not in allowed.seen and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(pod.args.stay)
    reached = pod.was_reached()
    sender.change(pod, False)
    pod.end()
    return added, reached


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("lab", "prefix", "stranger", "allowed", "denied"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--at-once", type=int, default=20)
    parser.add_argument("--bound", action="store_true", help="all Pods are bound before the first line of standard input")
    parser.add_argument("--retry", type=float, default=0, help="seconds for ADD")
    parser.add_argument("--wait", type=float, default=10, help="seconds for the first datagram that may arrive")
    parser.add_argument("--stay", type=float, default=0.1, help="seconds after that")
    args = parser.parse_args()
    args.dir = "/run/mklab-" + args.lab
    with open(args.dir + "/nodes/node1/cni-conf/net.d/10-monokube.conflist", encoding="utf-8") as file:
        whole = json.load(file)
    args.conf = json.dumps({**whole["plugins"][0], "cniVersion": whole["cniVersion"], "name": whole["name"]})
    return args


def main(args):
    pods = [Pod(args, number) for number in range(args.count)]
    allowed, denied = (Receiver(args.lab + ".world", address) for address in (args.allowed, args.denied))
    sender = Sender("%s.%s" % (args.lab, args.stranger))
    sender.start()
    for pod in pods if args.bound else []:
        pod.bind()
    print("ready", flush=True)
    if args.bound:
        sys.stdin.readline()
    with concurrent.futures.ThreadPoolExecutor(args.at_once) as runners:
        lives = list(runners.map(lambda pod: life(pod, sender, allowed), pods))
    wrong = [pod.name for pod, (_, reached) in zip(pods, lives) if reached or pod.name in denied.seen]
    print("".join("denied: %s%s\n" % (name, " by itself" * (name in denied.seen)) for name in wrong), end="")
    pending = sum("policies are not known" in pod.said for pod in pods)
    failed = sum(not added for added, _ in lives)
    print("pods %d known %d pending %d failed %d retried %d" % (
        args.count, args.count - pending - failed, pending, failed, sum(pod.failed > 0 for pod in pods)))
    print("arrived %d denied %d" % (sum(pod.name in allowed.seen for pod in pods), len(wrong)))


if __name__ == "__main__":
    ARGS = options()
    FAMILY = socket.AF_INET6 if ":" in ARGS.allowed else socket.AF_INET
    main(ARGS)

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""torn.py LAB_DIR [options] NAME=ADDRESS... - hammer a Service while its endpoints are replaced.

Servers in the pods NAME answer with their name; clients connect, ask, read, close, from a pod to
--vip and from world to --node-port. Meanwhile the Service's EndpointSlice is written --updates
times: each time other endpoints than before, and the next only when every agent has applied it (its
debug log says so). Prints what came of it as `WORD NUMBER` lines:

updates      that every agent has applied          applied      by agents, all together
pod, world   connections that were answered        seconds      that it took
refused, reset, timeout, failed                    those that were not
wrong        answers of an endpoint that was not in the slice at any time of the connection
reached      endpoints that answered               least        answers of the one with the fewest
"""
import argparse
import bisect
import ctypes
import json
import multiprocessing
import os
import random
import select
import socket
import sys
import time
from pathlib import Path

PORT = 8080
TIMEOUT_S = 5.0
PAUSE_S = 0.001  # between a client's connections: agents need the processors, too
LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000


def enter(lab, name):
    """This process works in a network namespace of the lab from now on."""
    with open(f"/run/netns/{lab.name.removeprefix('mklab-')}.{name}", "rb") as netns:
        if LIBC.setns(netns.fileno(), CLONE_NEWNET):
            sys.exit(f"torn.py: cannot enter the namespace of {name}: {os.strerror(ctypes.get_errno())}")


# ---- servers: one process for all pods, a listening socket in each


def listeners(args):
    found = {}
    for name in args.endpoints:
        enter(args.lab, name)
        sock = socket.create_server(("0.0.0.0", PORT), backlog=1024)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 1)  # the request is there, then
        found[sock.fileno()] = (sock, name.encode())
    return found


def serve(args, ready):
    """Closes first: the client's port is free at once."""
    sockets = listeners(args)
    poll = select.epoll()
    for fd in sockets:
        poll.register(fd, select.EPOLLIN)
    ready.set()
    while True:
        for fd, _ in poll.poll():
            listener, name = sockets[fd]
            conn, _ = listener.accept()
            try:
                conn.settimeout(TIMEOUT_S)
                conn.recv(16)
                conn.sendall(name)
            except OSError:
                pass  # the client says what became of it
            conn.close()


# ---- clients


def ask(to):
    """Name of the endpoint that answered; raises what the socket raises."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.settimeout(TIMEOUT_S)
        sock.connect(to)
        sock.sendall(b"who?")
        answer = b""
        while part := sock.recv(64):
            answer += part
    return answer.decode()


def failure(err):
    kinds = {ConnectionRefusedError: "refused", ConnectionResetError: "reset", BrokenPipeError: "reset",
             TimeoutError: "timeout"}
    return kinds.get(type(err), "failed")


def hammer(args, where, to, stop, results):
    """Each connection as (began, ended, endpoint or None, failure or None)."""
    enter(args.lab, where)
    seen = []
    while not stop.is_set():
        began, name, what = time.monotonic(), None, None
        try:
            name = ask(to)
        except OSError as err:
            what = failure(err)
        seen.append((began, time.monotonic(), name, what))
        time.sleep(PAUSE_S)
    results.put((where, seen))


# ---- updates


class Agent:
    """One node's agent: its cluster directory, and its log, which says what it has applied."""

    def __init__(self, lab, node, service):
        self.lab = lab
        self.file = lab / "nodes" / node / "cluster" / "torn-slice.json"
        self.log = open(lab / "nodes" / node / "agent.log", "rb")
        self.log.seek(0, os.SEEK_END)
        self.applied = 0
        self.wanted = f"Service applied service={service} ".encode()
        self.rest = b""

    def write(self, content):
        temporary = self.lab / "tmp" / f"{self.file.parent.parent.name}-torn"
        temporary.write_bytes(content)
        temporary.rename(self.file)

    def read(self):
        lines = (self.rest + self.log.read()).split(b"\n")
        self.rest = lines.pop()
        self.applied += sum(self.wanted in line for line in lines)


def slice_of(args, names):
    return json.dumps({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "torn-slice", "labels": {"kubernetes.io/service-name": args.service.partition("/")[2]}},
        "ports": [{"name": "", "port": PORT}],
        "endpoints": [{"addresses": [args.endpoints[name][0]], "nodeName": args.endpoints[name][1]} for name in names],
    }).encode()


def replaced(names, old):
    """Others than before, one to four of them."""
    return random.sample([name for name in names if name not in old], random.randint(1, 4))


def wait_applied(agents, count, deadline):
    while True:
        for agent in agents:
            agent.read()
        if all(agent.applied >= count for agent in agents):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"update {count}: agents have applied {[agent.applied for agent in agents]}")
        time.sleep(0.0002)


def update(args, agents):
    """Returns endpoint -> times at which it came into the slice, and at which it was out of it. The
    first of them is the one that the slice begins with."""
    valid = {name: [] for name in args.endpoints}
    current = list(args.endpoints)[:1]
    valid[current[0]].append([0, float("inf")])
    for count in range(1, args.updates + 1):
        following = replaced(list(args.endpoints), current)
        began = time.monotonic()
        for name in following:
            valid[name].append([began, float("inf")])
        for agent in agents:
            agent.write(slice_of(args, following))
        wait_applied(agents, count, began + 30)
        applied = time.monotonic()
        for name in current:
            valid[name][-1][1] = applied
        current = following
    return valid


# ---- judgement


def judge(valid, results, counts):
    answers = dict.fromkeys(valid, 0)
    starts = {name: [start for start, _ in intervals] for name, intervals in valid.items()}
    for where, seen in results:
        for began, ended, name, what in seen:
            if what:
                counts[what] += 1
                continue
            counts["pod" if where != "world" else "world"] += 1
            answers[name] += 1
            at = bisect.bisect_right(starts[name], ended) - 1
            counts["wrong"] += at < 0 or valid[name][at][1] < began
    counts["reached"] = sum(count > 0 for count in answers.values())
    counts["least"] = min(answers.values())


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lab", type=Path)
    parser.add_argument("--service", default="default/torn")
    parser.add_argument("--updates", type=int, default=10000)
    parser.add_argument("--client", default="client")
    parser.add_argument("--clients", type=int, default=2, help="at each place")
    parser.add_argument("--vip", required=True)
    parser.add_argument("--node-port", required=True)
    parser.add_argument("endpoints", nargs="+", metavar="NAME=ADDRESS=NODE")
    args = parser.parse_args()
    args.endpoints = {name: (address, node) for name, address, node in (e.split("=") for e in args.endpoints)}
    return args


def start(target, *args):
    process = multiprocessing.Process(target=target, args=args, daemon=True)
    process.start()
    return process


def address(text):
    host, _, port = text.partition(":")
    return host, int(port)


def main():
    args = arguments()
    stop, ready, queue = multiprocessing.Event(), multiprocessing.Event(), multiprocessing.Queue()
    agents = [Agent(args.lab, node.name, args.service) for node in sorted((args.lab / "nodes").iterdir())]
    counts = dict.fromkeys(["updates", "applied", "seconds", "pod", "world", "refused", "reset", "timeout", "failed",
                            "wrong", "reached", "least"], 0)
    start(serve, args, ready)
    ready.wait()
    began = time.monotonic()
    for _ in range(args.clients):
        start(hammer, args, args.client, address(args.vip), stop, queue)
        start(hammer, args, "world", address(args.node_port), stop, queue)
    valid = update(args, agents)
    stop.set()
    counts["seconds"] = int(time.monotonic() - began)
    counts["updates"] = min(agent.applied for agent in agents)
    counts["applied"] = sum(agent.applied for agent in agents)
    judge(valid, [queue.get(timeout=30) for _ in range(2 * args.clients)], counts)
    for word, number in counts.items():
        print(word, number)


if __name__ == "__main__":
    main()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""cni.py - calls CNI plugins in turns, first ADD and then DEL, and compares their times. It makes
one call at a time and many at once, on an empty node and on a full one. It runs inside a node. A
call's time is what a runtime waits for: from the start of the process until its exit status is
collected. Writes a file of perf/results."""
import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

import results

PLUGIN_DIR = "/opt/cni/bin"


def start(config, verb, container_id, netns, ifname):
    """Start one call. Returns (pid, time of the start, file with the output)."""
    plugin = f"{PLUGIN_DIR}/{json.loads(config.read_text())['type']}"
    environment = {
        "CNI_COMMAND": verb, "CNI_CONTAINERID": container_id, "CNI_NETNS": netns,
        "CNI_IFNAME": ifname, "CNI_PATH": PLUGIN_DIR, "PATH": os.environ["PATH"],
    }
    if (args := config.with_suffix(".args")).exists():
        environment["CNI_ARGS"] = args.read_text().strip().replace("{id}", container_id)
    output = os.open(os.environ.get("TMPDIR", "/tmp"), os.O_TMPFILE | os.O_RDWR)
    with open(config, "rb") as stdin:
        actions = [(os.POSIX_SPAWN_DUP2, stdin.fileno(), 0), (os.POSIX_SPAWN_DUP2, output, 1)]
        started = time.monotonic_ns()
        return os.posix_spawn(plugin, [plugin], environment, file_actions=actions), started, output


def call_all(config, verb, places, ifname="eth0"):
    """Start a call for each of `places` (container id, namespace). Returns their milliseconds."""
    running = {}
    for container_id, netns in places:
        pid, started, output = start(config, verb, container_id, netns, ifname)
        running[pid] = started, output
    times = []
    while running:
        pid, status = os.wait()
        started, output = running.pop(pid)
        times.append((time.monotonic_ns() - started) / 1e6)
        if status != 0:
            sys.exit(f"{verb} by {config} failed: {os.pread(output, 4096, 0).decode()}")
        os.close(output)
    return times


class Node:
    """Namespaces PREFIX0..N are pods. The first `present` of them stay; the others come and go."""

    def __init__(self, args):
        self.args, self.present, self.figures = args, 0, []

    def netns(self, number):
        return f"{self.args.netns_prefix}{number}"

    def fill(self, present):
        """Add pods until `present` pods stay. Each has one interface of each plugin."""
        for number in range(self.present, present):
            for config in self.args.configs:
                call_all(config, "ADD", [(f"stays{number}", self.netns(number))], f"{config.stem[:6]}0")
        self.present = present

    def measure(self, at_once, rounds):
        """Measure ADD and DEL of each plugin. Returns the median ADD of each."""
        times = {(config, verb): [] for config in self.args.configs for verb in ("ADD", "DEL")}
        for number in range(rounds + 2):
            places = [(f"perf{number}-{i}", self.netns(self.present + i)) for i in range(at_once)]
            for config in self.args.configs:
                for verb in ("ADD", "DEL"):
                    elapsed = call_all(config, verb, places)
                    if number >= 2:  # the first two rounds fill the page cache
                        times[config, verb] += elapsed
        for (config, verb), values in times.items():
            self.report(config.stem, verb, at_once, values)
        return [statistics.median(times[config, "ADD"]) for config in self.args.configs]

    def report(self, name, verb, at_once, values):
        tenths = statistics.quantiles(values, n=10)
        print(f"{name:<10} {verb}  {at_once:>7} at once {self.present:>5} pods present {statistics.median(values):9.2f}"
              f"  ({tenths[0]:.2f} to {tenths[-1]:.2f})")
        self.figures.append(results.figure(values, "ms", system=name, verb=verb, at_once=at_once,
                                           present=self.present))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--target", type=float, required=True,
                        help="largest ratio of the last CONFIG's median ADD to the first's")
    parser.add_argument("--results", default="cni", help="name of the file in perf/results, without .json")
    parser.add_argument("--quick", action="store_true", help="do not judge the target")
    parser.add_argument("--netns-prefix", required=True)
    parser.add_argument("--full", type=int, default=250, help="number of pods of a full node")
    parser.add_argument("--many", type=int, default=32, help="number of calls at once")
    parser.add_argument("configs", type=Path, nargs="+", metavar="CONFIG", help="ratios compare the last with the first")
    args = parser.parse_args()
    node = Node(args)
    print(f"CNI calls, median in ms (10th to 90th percentile), {args.rounds} rounds")
    ratios = {}
    for present, at_once in ((0, 1), (0, args.many), (args.full - args.many, args.many), (args.full, 1)):
        node.fill(present)
        base, *_, ours = node.measure(at_once, max(args.rounds // at_once, 4))
        ratios[present, at_once] = ours / base
        print(f"  ADD, {args.configs[-1].stem} / {args.configs[0].stem}: {ours / base:.3f}, {ours - base:+.2f} ms")
    met = ratios[0, 1] <= args.target
    results.write(args.results, node.figures, rounds=args.rounds)
    verdict = "not judged" if args.quick else "met" if met else "MISSED"
    print(f"ratio of single ADDs {ratios[0, 1]:.3f}, target at most {args.target}: {verdict}")
    sys.exit(0 if met or args.quick else 1)


if __name__ == "__main__":
    main()

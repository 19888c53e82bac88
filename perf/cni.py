#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""cni.py - call CNI plugins in turns, ADD then DEL, and compare the medians. Runs inside a node.
A call is timed from fork to the collected exit status: what a runtime waits for."""
import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

PLUGIN_DIR = "/opt/cni/bin"


def call(config, verb, container_id, netns):
    """Milliseconds."""
    plugin = f"{PLUGIN_DIR}/{json.loads(config.read_text())['type']}"
    environment = {
        "CNI_COMMAND": verb, "CNI_CONTAINERID": container_id, "CNI_NETNS": netns,
        "CNI_IFNAME": "eth0", "CNI_PATH": PLUGIN_DIR, "PATH": os.environ["PATH"],
    }
    output = os.open(os.environ.get("TMPDIR", "/tmp"), os.O_TMPFILE | os.O_RDWR)
    with open(config, "rb") as stdin:
        actions = [(os.POSIX_SPAWN_DUP2, stdin.fileno(), 0), (os.POSIX_SPAWN_DUP2, output, 1)]
        started = time.monotonic_ns()
        pid = os.posix_spawn(plugin, [plugin], environment, file_actions=actions)
        _, status = os.waitpid(pid, 0)
        elapsed = time.monotonic_ns() - started
    if status != 0:
        sys.exit(f"{verb} of {plugin} failed: {os.pread(output, 4096, 0).decode()}")
    os.close(output)
    return elapsed / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--target", type=float, required=True, help="of the median ADDs, last to first")
    parser.add_argument("--netns", required=True)
    parser.add_argument("configs", type=Path, nargs="+", metavar="CONFIG", help="the first is the measure")
    args = parser.parse_args()
    times = {(config, verb): [] for config in args.configs for verb in ("ADD", "DEL")}
    for number in range(args.rounds + 2):
        for config in args.configs:
            for verb in ("ADD", "DEL"):
                elapsed = call(config, verb, f"perf{number}", args.netns)
                if number >= 2:  # the first two fill the page cache
                    times[config, verb].append(elapsed)
    base = statistics.median(times[args.configs[0], "ADD"])
    print(f"CNI calls, median of {args.rounds} in ms (10th to 90th percentile)")
    for config in args.configs:
        for verb in ("ADD", "DEL"):
            values = times[config, verb]
            tenths = statistics.quantiles(values, n=10)
            print(f"{config.stem:<10} {verb}  {statistics.median(values):7.2f}  ({tenths[0]:.2f} to {tenths[-1]:.2f})")
    ratio = statistics.median(times[args.configs[-1], "ADD"]) / base
    met = ratio <= args.target
    print(f"ratio of the ADDs {ratio:.3f}, target at most {args.target}: {'met' if met else 'MISSED'}")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()

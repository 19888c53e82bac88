# SPDX-License-Identifier: Apache-2.0
"""results.py - the format of perf/results/*.json: kind, date, machine, and a list of figures. A
figure has a unit, the values of all rounds and their median. Other members say what it measures."""
import itertools
import json
import math
import os
import statistics
import time
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parent / "results"
SCHEMA = 1
PATHS = {
    "itself": "a pod to its own address",
    "pod-pod-near": "pod to pod, one node",
    "pod-pod-far": "pod to pod, other node",
    "pod-service-near": "pod to Service, one node",
    "pod-service-far": "pod to Service, other node",
    "host-service-near": "host to Service",
    "world-nodeport-cluster": "world to NodePort, Cluster",
    "world-nodeport-local": "world to NodePort, Local",
    "pod-world": "pod to world, masqueraded",
}


def machine():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="ascii")
                  if line.startswith("model name")), "unknown")
    return {"kernel": os.uname().release, "processors": os.cpu_count(), "model": model}


def median_interval(values, doubt=0.05):
    """The two of `values` between which the true median lies with probability 1 - doubt. A value is
    below the true median with probability one half, whatever the distribution: order statistics.
    With fewer than six values the probability is lower, and the result is the lowest and the
    highest."""
    ordered, count = sorted(values), len(values)
    at_most = itertools.accumulate(math.comb(count, below) / 2 ** count for below in range(count))
    rank = max(sum(chance <= doubt / 2 for chance in at_most) - 1, 0)
    return ordered[rank], ordered[-1 - rank]


def figure(values, unit, **of):
    """A figure of several rounds. The value of a failed round is None."""
    good = [value for value in values if value is not None]
    return {**of, "unit": unit, "values": values, "median": statistics.median(good) if good else None}


def short(value):
    """Round to six digits, which are more than any measurement here has."""
    if isinstance(value, dict):
        return {key: short(member) for key, member in value.items()}
    if isinstance(value, list):
        return [short(member) for member in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def text(whole):
    """JSON with one figure per line, so that a diff shows which figures changed."""
    head = json.dumps({name: short(value) for name, value in whole.items() if name != "figures"}, indent=1)
    lines = ",\n".join("  " + json.dumps(short(one), separators=(",", ":")) for one in whole["figures"])
    return head[:-2] + ',\n "figures": [\n' + lines + "\n ]\n}\n"


def write(kind, figures, path=None, **more):
    path = path or DIRECTORY / f"{kind}.json"
    whole = {"schema": SCHEMA, "kind": kind, "date": time.strftime("%Y-%m-%d", time.gmtime()), "machine": machine(),
             **more, "figures": figures}
    path.write_text(text(whole), encoding="utf-8")
    return whole

# SPDX-License-Identifier: Apache-2.0
"""results.py - the one form of perf/results/*.json: what was measured, when, on what machine, and a
list of figures. A figure has a unit, the values of all rounds where there are rounds, and its median;
its other members say what it is of."""
import json
import os
import statistics
import time
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parent / "results"
SCHEMA = 1


def machine():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="ascii")
                  if line.startswith("model name")), "unknown")
    return {"kernel": os.uname().release, "processors": os.cpu_count(), "model": model}


def figure(values, unit, **of):
    """Of some rounds, of which some may have failed (None)."""
    good = [value for value in values if value is not None]
    return {**of, "unit": unit, "values": values, "median": statistics.median(good) if good else None}


def write(kind, figures, path=None, **more):
    path = path or DIRECTORY / f"{kind}.json"
    whole = {"schema": SCHEMA, "kind": kind, "date": time.strftime("%Y-%m-%d", time.gmtime()), "machine": machine(),
             **more, "figures": figures}
    path.write_text(json.dumps(whole, indent=1) + "\n")
    return whole

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""report.py FAULTS LOAD... - the table of a run. FAULTS: lines `TIME ALL REPAIRED NAME`: seconds until
new connections worked by all ways, `-` if they did not in time, and until the agent said that it had put back
what was missing, `-` if that is not its business. Exit status 1 if something did not work, a repair took
longer than REPAIR_SECONDS, a connection broke (but see HOST_ANSWERS), an agent's death lost a
datagram, or something was answered that policies or functions deny (but see UNGUARDED). Flows of files
*.chained pass functions and have a line of their own: after no fault may one break, or an answer pass. A LOAD
also has lines `function PASSED DENIED`, packets of a function. A scenario without such files has no chains."""
import statistics
import sys
import time
from collections import Counter

REPAIR_SECONDS = 10  # what is lost is back after four seconds; the rest is for a busy machine

# Until the repair, packets from the uplink reach the host's stack, which resets connections that it
# does not know.
HOST_ANSWERS = ("map ", "uplink's ")
# Until the repair, no program sees the pod's packets.
UNGUARDED = ("pod's ",)


def read(path):
    with open(path, encoding="utf-8") as file:
        return [line.split() for line in file]


def spread(seconds):
    """median to longest"""
    return f"{statistics.median(seconds):.1f} to {max(seconds):.1f}" if seconds else ""


def chained(count):
    """Return the line of chained flows, and whether something is wrong with it."""
    line = (f"chained: {count['flows']} flows, {count['exchanges']} exchanges, {count['datagrams']} datagrams, {count['broken']} connections "
            f"broken, {count['lost']} datagrams lost; {count['denied']} denied attempts, {count['passed']} passed; "
            f"functions passed {count['through']} packets and denied {count['refused']}")
    wrong = count["broken"] or count["passed"]
    return line, wrong or not all(count[what] for what in ("flows", "exchanges", "denied", "through", "refused"))


def main():
    faults = sorted((float(f[0]), f[1], f[2], " ".join(f[3:])) for f in read(sys.argv[1]))
    rows, total = {}, {"flows": 0, "exchanges": 0, "datagrams": 0, "denied": 0}
    fresh = lambda: {"times": 0, "all": [], "repaired": [], "broken": 0, "lost": 0, "passed": 0}
    for _, works, repaired, name in faults:
        row = rows.setdefault(name, fresh())
        row["times"] += 1
        row["all"] += [float(works)] if works != "-" else []
        row["repaired"] += [float(repaired)] if repaired != "-" else []
    before, of_chains = fresh(), Counter()
    for path, words in ((path, words) for path in sys.argv[2:] for words in read(path)):
        if words[0] == "function":
            of_chains.update(through=int(words[1]), refused=int(words[2]))
        elif path.endswith(".chained") and words[0] in ("broken", "lost", "passed"):
            of_chains[words[0]] += 1
        elif path.endswith(".chained") and words[0] in total:
            of_chains[words[0]] += int(words[1])
        if words[0] in total:
            total[words[0]] += int(words[1])
        if words[0] in ("broken", "lost", "passed"):
            past = [name for when, _, _, name in faults if when <= float(words[1])]
            row = rows[past[-1]] if past else before
            row[words[0]] += 1
            if words[0] != "lost":
                clock = time.strftime("%T", time.localtime(float(words[1])))
                print(f"{clock} {path.rpartition('.')[2]}: {' '.join([words[0], *words[2:]])}, after: {past[-1] if past else 'no fault'}")
    print(f"{'fault':38} {'times':>5} {'connections held':>17} {'datagrams lost':>15} {'denied passed':>14} {'repaired after s':>17} {'all works after s':>18}")
    bad = total["flows"] == 0 or total["denied"] == 0
    for name, row in sorted(rows.items()):
        missed = row["times"] - len(row["all"])
        text = spread(row["all"]) + (f" never: {missed}" if missed else "")
        all_flows = total["flows"] * row["times"]
        held = f"{all_flows - row['broken']} of {all_flows}"
        print(f"{name:38} {row['times']:5} {held:>17} {row['lost']:15} {row['passed']:14} {spread(row['repaired']):>17} {text:>18}")
        late = any(seconds > REPAIR_SECONDS for seconds in row["repaired"])
        broke = row["broken"] and not name.startswith(HOST_ANSWERS)
        bad |= bool(missed or late or broke or (row["lost"] and name.startswith("agent killed")))
        bad |= row["passed"] > 0 and not name.startswith(UNGUARDED)
    if any(before[what] for what in ("broken", "lost", "passed")):
        print(f"before any fault: {before['broken']} broken, {before['lost']} datagrams lost, {before['passed']} denied passed")
        bad |= before["passed"] > 0
    count = sum(row["times"] for name, row in rows.items() if not name.startswith("no fault"))
    repaired = [seconds for row in rows.values() for seconds in row["repaired"]]
    print(f"{count} faults, {total['exchanges']} exchanges, {total['datagrams']} datagrams, {total['denied']} denied attempts; "
          f"median to longest; all repairs: {spread(repaired) or 'none'}, the bound is {REPAIR_SECONDS}")
    wrong = False
    if any(path.endswith(".chained") for path in sys.argv[2:]):
        line, wrong = chained(of_chains)
        print(line)
    sys.exit(1 if bad or wrong else 0)


main()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""report.py FAULTS LOAD... - the table of a run. FAULTS: lines `TIME SECONDS NAME`, SECONDS `-` for a
fault that was not repaired in time or after which something did not work. Exit status 1 if a fault was not
repaired, a connection broke (but see HOST_ANSWERS), or an agent's death lost a datagram."""
import sys

# Until the repair, the host itself gets what came in by the uplink, and resets connections that are none
# of its own: no datapath is there to keep them.
HOST_ANSWERS = ("map ", "uplink's ")


def read(path):
    with open(path, encoding="utf-8") as file:
        return [line.split() for line in file]


def main():
    faults = sorted((float(f[0]), f[1], " ".join(f[2:])) for f in read(sys.argv[1]))
    rows, total = {}, {"flows": 0, "exchanges": 0, "datagrams": 0}
    for _, seconds, name in faults:
        rows.setdefault(name, {"seconds": [], "broken": 0, "lost": 0})["seconds"].append(seconds)
    before = {"seconds": [], "broken": 0, "lost": 0}
    for words in (words for path in sys.argv[2:] for words in read(path)):
        if words[0] in total:
            total[words[0]] += int(words[1])
        if words[0] in ("broken", "lost"):
            past = [name for when, _, name in faults if when <= float(words[1])]
            (rows[past[-1]] if past else before)[words[0]] += 1
            if words[0] == "broken":
                print(f"broken: {words[2]} ({words[3]}), after: {past[-1] if past else 'no fault'}")
    print(f"{'fault':34} {'times':>5} {'connections held':>17} {'datagrams lost':>15} {'repaired after s':>17}")
    bad = total["flows"] == 0
    for name, row in sorted(rows.items()):
        took = [float(seconds) for seconds in row["seconds"] if seconds != "-"]
        missed = len(row["seconds"]) - len(took)
        text = f"{sum(took) / len(took):.1f} to {max(took):.1f}" if took else ""
        text += f" never: {missed}" if missed else ""
        all_flows = total["flows"] * len(row["seconds"])
        held = f"{all_flows - row['broken']} of {all_flows}"
        print(f"{name:34} {len(row['seconds']):5} {held:>17} {row['lost']:15} {text:>17}")
        broke = row["broken"] and not name.startswith(HOST_ANSWERS)
        bad |= bool(missed or broke or (row["lost"] and name.startswith("agent killed")))
    if before["broken"] or before["lost"]:
        print(f"before any fault: {before['broken']} broken, {before['lost']} datagrams lost")
    print(f"{len(faults)} faults, {total['exchanges']} exchanges, {total['datagrams']} datagrams; "
          "repaired after: mean to longest")
    sys.exit(1 if bad else 0)


main()

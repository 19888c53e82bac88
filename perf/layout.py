#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""layout.py MAP ADDRESSES... - a linker script that puts together the parts of a program that ran, from
the linker's map of it and lists of the addresses that were executed (steps.c)."""
import bisect
import re
import sys
from pathlib import Path

SECTION = re.compile(r"^ (\.text\S*)(?:\s+(0x[0-9a-f]+)\s+(0x[0-9a-f]+)\s+(\S.*))?$")
PLACE = re.compile(r"^\s+(0x[0-9a-f]+)\s+(0x[0-9a-f]+)\s+(\S.*)$")
MEMBER = re.compile(r".*/([^/]+\.a)\(([^)]+)\)$")
HEADER = """\
/* Made by perf/layout: what a CNI ADD and a DEL execute, next to each other. The kernel maps 64 KiB for
 * each page fault, so that a program of which little runs starts sooner if that little is in one place.
 * A part that is not there any more does no harm. */
"""


def parts(map_path):
    """(address, bytes, section, file) of each piece of code, by address."""
    name, found = None, []
    for line in map_path.read_text().splitlines():
        whole, place = SECTION.match(line), PLACE.match(line)
        if whole and not whole[2]:
            name = whole[1]  # a long name: the rest is on the next line
            continue
        if whole:
            found.append((int(whole[2], 16), int(whole[3], 16), whole[1], whole[4]))
        elif place and name:
            found.append((int(place[1], 16), int(place[2], 16), name, place[3]))
        name = None
    return sorted(part for part in found if part[1])


def main():
    everything = parts(Path(sys.argv[1]))
    begins = [part[0] for part in everything]
    lines = set()
    for path in sys.argv[2:]:
        for address in (int(line, 16) for line in Path(path).read_text().split()):
            begin, size, section, file = everything[max(bisect.bisect_right(begins, address) - 1, 0)]
            member = MEMBER.match(file)
            if begin <= address < begin + size and member:
                lines.add(f"\t\t*{member[1]}:{member[2]}({section})")
    print(HEADER + "SECTIONS\n{\n\t.text.plugin :\n\t{")
    print("\n".join(sorted(lines)))
    print("\t}\n}\nINSERT BEFORE .text;")


if __name__ == "__main__":
    main()

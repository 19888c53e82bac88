#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""empty_map.py PIN - remove every entry of a pinned map, as by hand with bpftool. Entries of an array become zero."""
import json
import subprocess
import sys


def bpftool(*words):
    return subprocess.run(["bpftool", "-j", "map", *words], check=True, capture_output=True).stdout


def main():
    pin = ["pinned", sys.argv[1]]
    shown = json.loads(bpftool("show", *pin))
    is_array = shown["type"] == "array"
    keys = [entry["key"] for entry in json.loads(bpftool("dump", *pin))
            if not is_array or any(int(byte, 16) for byte in entry["value"])]
    if not keys:
        sys.exit(f"{sys.argv[1]} is empty already")
    for key in keys:
        data = [int(byte, 16) for byte in key] if isinstance(key, list) else key.to_bytes(4, "little")
        at = [*pin, "key", *[str(byte) for byte in data]]
        zeros = ["value", *["0"] * shown["bytes_value"]]
        remove = ["bpftool", "map", *(["update", *at, *zeros] if is_array else ["delete", *at])]
        subprocess.run(remove, check=False, capture_output=True)  # it may be back already


main()

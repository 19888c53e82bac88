#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""perf/scale_client.py DIR - runs the whole API client over TLS and HTTP/2. It reads DIR's lists
from the stand-in. Prints one JSON object: time from start until both lists are read, CPU time, peak
memory."""
import json
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "test", "wire"))
from harness import Follow, Server, running, wait  # noqa: E402


def main():
    directory = os.path.abspath(sys.argv[1])
    server = Server(recorded=False)
    server.faults(*[{"match": {"target": "/%s\\?" % n, "mode": "stream"}, "file": os.path.join(directory, n + ".watch")}
                    for n in ("services", "endpointslices")])
    client = Follow(server, "--bare")
    wait("the lists", lambda: client.alive() and "listed" in client.lines, 120)
    said = re.search(r"listed after (\d+) ms, (\d+) changes, peak RSS (\d+) KiB, user (\d+) ms", client.said())
    print(json.dumps(dict(zip(("read_ms", "changes", "peak_rss_kib", "user_ms"), map(int, said.groups())))))
    for thing in reversed(running):
        thing.stop()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""perf/scale_control.py API-DIR lists DIR FIFO | nodes CLUSTER-DIR - controls the stand-in of
perf/scale.

lists: the stand-in takes the next streaming lists of Services and EndpointSlices from DIR, and
later events of slices from FIFO. nodes: prints the Nodes of a lab's cluster directory as a list
that the stand-in can load.
"""
import http.client
import json
import os
import ssl
import sys
import urllib.parse
import uuid

# Later than all of scale_lists.py: the stand-in's bookmarks must not lead back to a new list.
VERSION = 300000000


def lists(api, directory, fifo):
    with open(os.path.join(api, "ready")) as f:
        url = urllib.parse.urlsplit(f.read().strip())
    tls = ssl.create_default_context(cafile=os.path.join(api, "ca.crt"))
    connection = http.client.HTTPSConnection(url.hostname, url.port, context=tls, timeout=20)
    connection.request("POST", "/standin/faults", json.dumps([
        {"match": {"target": "/services\\?", "mode": "stream"}, "file": os.path.join(directory, "services.watch")},
        {"match": {"target": "/endpointslices\\?", "mode": "stream"}, "then": fifo,
         "file": os.path.join(directory, "endpointslices.watch")}]))
    if connection.getresponse().status != 200:
        sys.exit("scale_control: the stand-in refuses the lists")


def nodes(directory):
    import yaml
    items = []
    for name in sorted(os.listdir(directory)):
        with open(os.path.join(directory, name)) as f:
            items += [o for o in yaml.safe_load_all(f) if o and o["kind"] == "Node"]
    for version, item in enumerate(items, VERSION):
        item["metadata"].update(uid=str(uuid.uuid4()), resourceVersion=str(version))
    print(json.dumps({"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": str(VERSION + len(items))}, "items": items}))


if __name__ == "__main__":
    if sys.argv[2] == "lists":
        lists(sys.argv[1], sys.argv[3], sys.argv[4])
    else:
        nodes(sys.argv[3])

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""api.py LAB_DIR COMMAND ...: what the lab itself asks of its API server.

apply FILE...    every object of these YAML files, by server-side apply
delete FILE...   the same objects; one that is not there is no error
sync             the EndpointSlices of Services with a selector follow the lab's pods; so do Pods and
                 Namespaces, with `lab up --pods`
get PATH         the answer to GET of PATH, as JSON
save DIR         one list per resource, as DIR/PLURAL.json
"""
import http.client
import json
import ssl
import sys
import time
import urllib.parse
from pathlib import Path

import yaml

sys.dont_write_bytecode = True
import pods as pod_objects  # noqa: E402
from slices import MANAGED_BY, load_pods, service_slices  # noqa: E402

TIMEOUT_S = 20
BUSY_TIMES = 20  # a server that has just started asks for patience (429) at the first list of each custom resource
KINDS = {  # kind: (apiVersion, plural, has a namespace)
    "Namespace": ("v1", "namespaces", False),
    "Node": ("v1", "nodes", False),
    "Service": ("v1", "services", True),
    "Endpoints": ("v1", "endpoints", True),
    "Event": ("v1", "events", True),
    "EndpointSlice": ("discovery.k8s.io/v1", "endpointslices", True),
    "ServiceCIDR": ("networking.k8s.io/v1", "servicecidrs", False),
    "Pod": ("v1", "pods", True),
    "NetworkPolicy": ("networking.k8s.io/v1", "networkpolicies", True),
    "ClusterNetworkPolicy": ("policy.networking.k8s.io/v1beta1", "clusternetworkpolicies", False),
    "ServiceFunctionChain": ("networking.monokube.io/v1alpha1", "servicefunctionchains", True),
    "ClusterPeer": ("networking.monokube.io/v1alpha1", "clusterpeers", False),
    "PublishedCluster": ("networking.monokube.io/v1alpha1", "publishedclusters", True),
    "PublishedNode": ("networking.monokube.io/v1alpha1", "publishednodes", True),
    "PublishedService": ("networking.monokube.io/v1alpha1", "publishedservices", True),
    "ServiceExport": ("multicluster.x-k8s.io/v1beta1", "serviceexports", True),
    "ServiceImport": ("multicluster.x-k8s.io/v1beta1", "serviceimports", True),
    "Lease": ("coordination.k8s.io/v1", "leases", True),
    "Secret": ("v1", "secrets", True),
}


class Failed(Exception):
    pass


class Server:
    """The server that the lab's kubeconfig names, by a connection per request: it may go any time."""

    def __init__(self, directory):
        config = yaml.safe_load((directory / "kubeconfig").read_text())
        self.origin = config["clusters"][0]["cluster"]["server"]
        self.tls = ssl.create_default_context(cafile=directory / "ca.crt")
        self.tls.load_cert_chain(directory / "admin.crt", directory / "admin.key")
        self.pause_s = 1  # what the server asked for

    def request(self, method, path, body=None, kind="application/json"):
        """(status, answer)"""
        connection = http.client.HTTPSConnection(urllib.parse.urlsplit(self.origin).netloc, context=self.tls,
                                                 timeout=TIMEOUT_S)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": kind})
            answer = connection.getresponse()
            self.pause_s = int(answer.getheader("Retry-After") or 1)
            text = answer.read()
            # a path that the server does not have is answered in plain text
            return answer.status, json.loads(text) if answer.status not in (404, 429) or text[:1] == b"{" else {}
        except (OSError, http.client.HTTPException, ValueError) as err:
            raise Failed(f"{self.origin}: {method} {path}: {err}") from None
        finally:
            connection.close()

    def done(self, *args, accepted=(200, 201)):
        status, answer = self.request(*args)
        for _ in range(BUSY_TIMES):
            if status != 429:
                break
            time.sleep(self.pause_s)
            status, answer = self.request(*args)
        if status not in accepted:
            raise Failed(f"{self.origin}: {args[0]} {args[1]}: HTTP status {status}: {answer.get('message')}")
        return status, answer

    def items(self, kind, selector=""):
        query = "?" + urllib.parse.urlencode({"labelSelector": selector}) if selector else ""
        _, answer = self.done("GET", collection(kind) + query)
        return answer["items"]

    def apply(self, obj):
        path = object_path(obj) + "?fieldManager=lab&force=true"
        status, _ = self.done("PATCH", path, obj, "application/apply-patch+yaml")
        return "created" if status == 201 else "configured"

    def delete(self, obj):
        status, _ = self.done("DELETE", object_path(obj), accepted=(200, 202, 404))
        return "not found" if status == 404 else "deleted"


def collection(kind, namespace=None):
    version, plural, _ = KINDS[kind]
    base = ("/apis/" if "/" in version else "/api/") + version
    return f"{base}/namespaces/{namespace}/{plural}" if namespace else f"{base}/{plural}"


def name_of(obj):
    return f"{KINDS[obj['kind']][1]}/{obj['metadata']['name']}"


def object_path(obj):
    meta, namespaced = obj["metadata"], KINDS[obj["kind"]][2]
    return collection(obj["kind"], meta.get("namespace", "default") if namespaced else None) + "/" + meta["name"]


def documents(path):
    try:
        docs = [d for d in yaml.safe_load_all(Path(path).read_text()) if d is not None]
    except (yaml.YAMLError, UnicodeDecodeError) as err:
        raise Failed(f"{path}: {err}") from None
    for doc in docs:
        if not isinstance(doc, dict) or doc.get("kind") not in KINDS or not (doc.get("metadata") or {}).get("name"):
            raise Failed(f"{path}: expected objects with a name of kind {', '.join(KINDS)}")
    return docs


def each(files, change):
    for path in files:
        for doc in documents(path):
            print(name_of(doc), change(doc))


def sync(server, lab):
    """Write only what differs: each written slice is an event to every agent."""
    pods = load_pods(lab)
    have = {object_path(dict(s, kind="EndpointSlice")): s
            for s in server.items("EndpointSlice", f"{MANAGED_BY}=lab")}
    for service in server.items("Service"):
        if not service["spec"].get("selector"):
            continue
        for wanted in service_slices(service, pods):
            old = have.pop(object_path(wanted), {})
            if any(old.get(key) != wanted[key] for key in ("ports", "endpoints")):
                server.apply(wanted)
    for obj in have.values():
        server.delete(dict(obj, kind="EndpointSlice"))
    if pod_objects.is_wanted(lab):
        sync_pods(server, lab)


def sync_pods(server, lab):
    """Pods have no owner's label: all Pods of the server are the lab's."""
    have = {object_path(dict(o, kind=kind)): o for kind in ("Pod", "Namespace") for o in server.items(kind)}
    for wanted in pod_objects.objects(lab):
        old = have.pop(object_path(wanted), {})
        if wanted["kind"] == "Namespace" and old:
            continue
        if any(old.get(key) != wanted[key] for key in wanted if key in ("spec", "status")) or \
                not wanted["metadata"].items() <= old.get("metadata", {}).items():
            server.apply(wanted)
    for obj in have.values():
        if "nodeName" in obj.get("spec", {}):
            server.delete(dict(obj, kind="Pod"))


def save(server, directory):
    for kind, (_, plural, _) in KINDS.items():
        status, answer = server.done("GET", collection(kind), accepted=(200, 404))
        if status == 404:  # a resource that the server does not have
            continue
        (directory / f"{plural}.json").write_text(json.dumps(answer, indent=1) + "\n")


def main(lab, command, *args):
    server = Server(lab / "api")
    if command == "apply":
        each(args, server.apply)
    elif command == "delete":
        each(args, server.delete)
    elif command == "sync":
        sync(server, lab)
    elif command == "get":
        print(json.dumps(server.done("GET", *args)[1], indent=1))
    elif command == "save":
        save(server, Path(args[0]))
    else:
        raise Failed(f"command '{command}' is unknown")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), *sys.argv[2:])
    except Failed as failed:
        sys.exit(f"lab: {failed}")

# SPDX-License-Identifier: Apache-2.0
"""Discovery, and of OpenAPI just what kubectl asks it: that the server checks fields itself."""
from .store import RESOURCES

VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


def groups(missing):
    found = {}
    for group, version, plural, *_ in RESOURCES:
        if group not in missing:
            found.setdefault(group, version)
    return found


def resource_list(group, missing):
    items = []
    for g, version, plural, kind, namespaced, short in RESOURCES:
        if g != group or plural in missing:
            continue
        items.append({"name": plural, "singularName": kind.lower(), "namespaced": namespaced, "kind": kind,
                      "verbs": VERBS, "shortNames": short})
        items.append({"name": plural + "/status", "singularName": "", "namespaced": namespaced, "kind": kind,
                      "verbs": ["get", "patch", "update"]})
    name = group + "/" + groups(missing)[group] if group else "v1"
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": items}


def root(group, version):
    return "/apis/%s/%s" % (group, version) if group else "/api/" + version


def schema(group, version):
    paths = {}
    for g, v, plural, kind, namespaced, _ in RESOURCES:
        if g != group:
            continue
        base = root(g, v) + ("/namespaces/{namespace}" if namespaced else "") + "/" + plural + "/{name}"
        check = [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}]
        action = {"parameters": check, "responses": {},
                  "x-kubernetes-group-version-kind": {"group": g, "version": v, "kind": kind}}
        paths[base] = {"patch": action, "put": action}
    return {"openapi": "3.0.0", "info": {"title": "stand-in", "version": "v1"}, "paths": paths}


def document(path, missing):
    """The discovery document at @path, None: there is none."""
    have = groups(missing)
    if path == "/version":
        return {"major": "1", "minor": "36", "gitVersion": "v1.36.0-standin", "platform": "linux/amd64"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if path == "/apis":
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [
            {"name": g, "versions": [{"groupVersion": g + "/" + v, "version": v}],
             "preferredVersion": {"groupVersion": g + "/" + v, "version": v}} for g, v in have.items() if g]}
    if path == "/openapi/v3":
        return {"paths": {root(g, v)[1:]: {"serverRelativeURL": "/openapi/v3" + root(g, v)} for g, v in have.items()}}
    for group, version in have.items():
        if path == root(group, version):
            return resource_list(group, missing)
        if path == "/openapi/v3" + root(group, version):
            return schema(group, version)
    return None

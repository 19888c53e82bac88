# SPDX-License-Identifier: Apache-2.0
"""Objects and their history, as etcd and the watch cache have them.

One counter of resourceVersions over everything; each resource keeps its events since the last
compaction, so that a watch can begin in the past, or be told that it cannot.
"""
import asyncio
import copy
import datetime
import ipaddress
import uuid

from . import schema


class Status(Exception):
    """What becomes a Status object."""

    def __init__(self, code, reason, message, **more):
        super().__init__(message)
        self.code, self.more = code, more
        self.body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                     "message": message, "reason": reason, "code": code}
        self.body.update(more)


class Resource:
    def __init__(self, group, version, plural, kind, namespaced, short=()):
        self.group, self.version, self.plural, self.kind = group, version, plural, kind
        self.namespaced, self.short = namespaced, list(short)
        self.api_version = group + "/" + version if group else version
        self.objects = {}  # (namespace, name) -> object
        self.events = []  # (resourceVersion, object before or None, object after or None)
        self.compacted = 0  # history up to here is gone
        self.changed = asyncio.Condition()

    @property
    def title(self):
        return self.plural + ("." + self.group if self.group else "")


RESOURCES = [
    ("", "v1", "nodes", "Node", False, ["no"]),
    ("", "v1", "services", "Service", True, ["svc"]),
    ("", "v1", "endpoints", "Endpoints", True, ["ep"]),
    ("", "v1", "namespaces", "Namespace", False, ["ns"]),
    ("", "v1", "events", "Event", True, ["ev"]),
    ("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True, []),
    ("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", False, []),
    ("", "v1", "pods", "Pod", True, ["po"]),
    ("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", True, ["netpol"]),
    ("policy.networking.k8s.io", "v1beta1", "clusternetworkpolicies", "ClusterNetworkPolicy", False, ["cnp"]),
    ("policy.networking.k8s.io", "v1alpha1", "adminnetworkpolicies", "AdminNetworkPolicy", False, ["anp"]),
    ("networking.monokube.io", "v1alpha1", "servicefunctionchains", "ServiceFunctionChain", True, ["sfc"]),
    ("networking.monokube.io", "v1alpha1", "clusterpeers", "ClusterPeer", False, []),
    ("networking.monokube.io", "v1alpha1", "publishedclusters", "PublishedCluster", True, []),
    ("networking.monokube.io", "v1alpha1", "publishednodes", "PublishedNode", True, []),
    ("networking.monokube.io", "v1alpha1", "publishedservices", "PublishedService", True, []),
    ("multicluster.x-k8s.io", "v1beta1", "serviceexports", "ServiceExport", True, ["svcex"]),
    ("multicluster.x-k8s.io", "v1beta1", "serviceimports", "ServiceImport", True, ["svcim"]),
    ("coordination.k8s.io", "v1", "leases", "Lease", True, []),
    # not for the agent: Events as kube-proxy sends them (the real server keeps both kinds as one), and
    # the resources of manifests/
    ("events.k8s.io", "v1", "events", "Event", True, ["ev"]),
    ("", "v1", "configmaps", "ConfigMap", True, ["cm"]),
    ("", "v1", "secrets", "Secret", True, []),
    ("", "v1", "serviceaccounts", "ServiceAccount", True, ["sa"]),
    ("apps", "v1", "daemonsets", "DaemonSet", True, ["ds"]),
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False, ["crd"]),
    ("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False, []),
    ("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False, []),
    ("rbac.authorization.k8s.io", "v1", "roles", "Role", True, []),
    ("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", True, []),
]


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Store:
    def __init__(self):
        self.version = 0
        self.resources = {(r[0], r[2]): Resource(*r) for r in RESOURCES}
        self.snapshots = {}  # resourceVersion -> objects, for lists in pages
        self.applied = {}  # (resource, namespace, name, part, manager) -> what was applied last

    def resource(self, group, plural):
        return self.resources.get((group, plural))

    def resource_of(self, obj):
        for resource in self.resources.values():
            if (resource.api_version, resource.kind) == (obj.get("apiVersion"), obj.get("kind")):
                return resource
        raise Status(400, "BadRequest", "no resource has objects of %s %s" % (obj.get("apiVersion"), obj.get("kind")))

    def next_version(self):
        self.version += 1
        return self.version

    def load(self, lst):
        """Take the items of a recorded list as they are."""
        kind = lst["kind"][:-len("List")]
        group = lst["apiVersion"].rpartition("/")[0]
        resource = next(r for r in self.resources.values() if r.kind == kind and r.group == group)
        for item in lst["items"]:
            meta = item["metadata"]
            item.setdefault("kind", kind)
            item.setdefault("apiVersion", lst["apiVersion"])
            resource.objects[(meta.get("namespace", ""), meta.get("name", meta.get("uid")))] = item
            self.version = max(self.version, int(meta["resourceVersion"]))
        self.version = max(self.version, int(lst["metadata"]["resourceVersion"]))
        resource.compacted = self.version

    async def _record(self, resource, before, after):
        resource.events.append((self.version, before, after))
        async with resource.changed:
            resource.changed.notify_all()

    def compact(self):
        for resource in self.resources.values():
            resource.compacted = self.version
            resource.events = []
        self.snapshots.clear()

    # ---- reading

    def get(self, resource, namespace, name):
        try:
            return resource.objects[(namespace, name)]
        except KeyError:
            raise Status(404, "NotFound", '%s "%s" not found' % (resource.title, name),
                         details={"name": name, "group": resource.group, "kind": resource.plural}) from None

    def select(self, resource, namespace, matches):
        return [o for key, o in sorted(resource.objects.items())
                if (not namespace or key[0] == namespace) and matches(o)]

    # ---- writing

    async def create(self, resource, namespace, obj):
        meta = obj.setdefault("metadata", {})
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"] + uuid.uuid4().hex[:5]
        name = meta.get("name")
        if resource.namespaced:
            if meta.setdefault("namespace", namespace) != namespace:
                raise Status(400, "BadRequest", "the namespace of the object does not match the request")
        if obj.get("kind") != resource.kind or not name:
            raise Status(422, "Invalid", "%s is invalid: metadata.name: Required value" % resource.kind)
        key = (namespace if resource.namespaced else "", name)
        if key in resource.objects:
            raise Status(409, "AlreadyExists", '%s "%s" already exists' % (resource.title, name),
                         details={"name": name, "group": resource.group, "kind": resource.plural})
        meta.update(uid=str(uuid.uuid4()), resourceVersion=str(self.next_version()), creationTimestamp=now())
        obj["apiVersion"] = resource.api_version
        if resource.group.startswith(("networking.monokube", "multicluster")):
            meta["generation"] = 1
            obj.pop("status", None)
        self.default(resource, obj)
        resource.objects[key] = obj
        await self._record(resource, None, obj)
        return obj

    async def replace(self, resource, namespace, name, obj, expected=None, part=None):
        before = self.get(resource, namespace, name)
        meta = obj.setdefault("metadata", {})
        wanted = expected or meta.get("resourceVersion")
        if wanted and wanted != before["metadata"]["resourceVersion"]:
            raise Status(409, "Conflict", 'Operation cannot be fulfilled on %s "%s": the object has been modified; '
                         "please apply your changes to the latest version and try again" % (resource.title, name),
                         details={"name": name, "group": resource.group, "kind": resource.plural})
        # A Node's annotations change through its status, too (nodeStatusStrategy keeps the spec alone).
        kept = before
        if part == "status" and resource.plural == "nodes" and "annotations" in meta:
            kept = dict(before, metadata=dict(before["metadata"], annotations=meta["annotations"]))
        if part == "status":  # this alone changes through the subresource ...
            obj = dict(kept, status=obj.get("status", {}))
        elif "status" in before:  # ... and only through it
            obj["status"] = before["status"]
        else:
            obj.pop("status", None)
        obj["metadata"] = dict(kept["metadata"] if part else obj["metadata"])
        for fixed in ("uid", "creationTimestamp", "namespace", "name"):
            if fixed in before["metadata"]:
                obj["metadata"][fixed] = before["metadata"][fixed]
        obj["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
        if "generation" in before["metadata"]:
            obj["metadata"]["generation"] = before["metadata"]["generation"]
        self.default(resource, obj, before)
        if obj == before:
            return before
        if "generation" in before["metadata"]:
            obj["metadata"]["generation"] = before["metadata"]["generation"] + (obj.get("spec") != before.get("spec"))
        obj["metadata"]["resourceVersion"] = str(self.next_version())
        resource.objects[(namespace if resource.namespaced else "", name)] = obj
        await self._record(resource, before, obj)
        return obj

    async def delete(self, resource, namespace, name, uid=None):
        before = self.get(resource, namespace, name)
        if uid and uid != before["metadata"]["uid"]:
            raise Status(409, "Conflict", 'Operation cannot be fulfilled on %s "%s": the UID in the precondition (%s) does '
                         "not match the UID in record (%s)" % (resource.title, name, uid, before["metadata"]["uid"]))
        del resource.objects[(namespace if resource.namespaced else "", name)]
        last = copy.deepcopy(before)
        last["metadata"]["resourceVersion"] = str(self.next_version())
        await self._record(resource, last, None)
        return before

    async def become(self, objects):
        """Replace all objects of the kinds of these ones. An unchanged object makes no event."""
        wanted = {}
        for obj in objects:
            meta = obj["metadata"]
            wanted.setdefault(self.resource_of(obj), {})[(meta.get("namespace", ""), meta["name"])] = obj
        for resource, named in wanted.items():
            for namespace, name in resource.objects.keys() - named.keys():
                await self.delete(resource, namespace, name)
            for (namespace, name), obj in named.items():
                if (namespace, name) in resource.objects:
                    await self.replace(resource, namespace, name, obj)
                else:
                    await self.create(resource, namespace, obj)

    # ---- what the server fills in

    def default(self, resource, obj, before=None):
        if resource.kind == "Service":
            self.default_service(obj)
        elif resource.kind == "Node":
            obj.setdefault("spec", {})
            obj.setdefault("status", {})
        elif resource.kind in schema.of_kinds():
            schema.fill_in(obj, schema.of_kinds()[resource.kind])
            if wrong := schema.faults(obj, schema.of_kinds()[resource.kind], old=before):
                raise Status(422, "Invalid", '%s.%s "%s" is invalid: %s' % (
                    resource.kind, resource.group, obj["metadata"]["name"], "; ".join(x.lstrip(".") for x in wrong)))
        elif resource.kind == "EndpointSlice":
            for endpoint in obj.get("endpoints") or []:
                endpoint.setdefault("conditions", {})
            for port in obj.get("ports") or []:
                port.setdefault("protocol", "TCP")
                port.setdefault("name", "")

    def default_service(self, obj):
        spec = obj.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        spec.setdefault("internalTrafficPolicy", "Cluster")
        for port in spec.get("ports", []):
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port["port"])
        if spec["type"] != "ExternalName" and not spec.get("clusterIP"):
            spec["clusterIP"] = self.free_address()
        if spec.get("clusterIP"):
            spec.setdefault("clusterIPs", [spec["clusterIP"]])
            spec.setdefault("ipFamilies", ["IPv6" if ":" in spec["clusterIP"] else "IPv4"])
            spec.setdefault("ipFamilyPolicy", "SingleStack")
        if spec["type"] in ("NodePort", "LoadBalancer"):
            spec.setdefault("externalTrafficPolicy", "Cluster")
            for port in spec.get("ports", []):
                port.setdefault("nodePort", self.free_node_port())
        obj.setdefault("status", {"loadBalancer": {}})

    def services(self):
        return self.resource("", "services").objects.values()

    def free_address(self):
        used = {s["spec"].get("clusterIP") for s in self.services()}
        return next(str(a) for a in ipaddress.ip_network("10.96.128.0/17") if str(a) not in used)

    def free_node_port(self):
        used = {p.get("nodePort") for s in self.services() for p in s["spec"].get("ports", [])}
        return next(p for p in range(31000, 32768) if p not in used)

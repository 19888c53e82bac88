#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/wire/t_join.py [PART OF A NAME...] - `monokube peer join`, `rotate` and `leave` with two API servers: what they write and
print, a second run, a server that refuses, a token that never comes, clusters that cannot be joined. No token is ever printed."""
import base64
import http.client
import os
import subprocess
import sys
import threading

import yaml

sys.dont_write_bytecode = True
from harness import ROOT, TMP, TOKEN, Server, Wrong, expect, run  # noqa: E402

MONOKUBE = os.environ.get("MK_BIN") or os.path.join(ROOT, "build/monokube")
PEERS = "/apis/networking.monokube.io/v1alpha1/clusterpeers/"
SECRETS = "/api/v1/namespaces/monokube-peers/secrets/"
ACCOUNTS = "/api/v1/namespaces/monokube-peers/serviceaccounts/"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/monokube-published/"
CONFIG = "/api/v1/namespaces/kube-system/configmaps"
TYPE = "kubernetes.io/service-account-token"
PLACES = (PEERS + "%s", SECRETS + "peer-%s", RBAC + "rolebindings/invite-%s", SECRETS + "invite-%s", ACCOUNTS + "invite-%s")
TOLD = "%s: ServiceAccount monokube-peers/invite-%s %s\n%s: RoleBinding monokube-published/invite-%s %s\n%s: Secret monokube-peers/invite-%s %s\n"


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def decoded(secret, key):
    return base64.b64decode(secret["data"][key]).decode()


def read(path):
    with open(path) as f:
        return f.read()


class Cluster:
    """One cluster that has monokube with its manifests. Its controller fills Secrets with tokens unless it is told not to."""

    def __init__(self, context, name, role=True, fills=True):
        self.context, self.name, self.uids = context, name, []
        self.server = Server(name="server-" + context, recorded=False)
        self.url = self.server.url
        if name is not None:
            self.configure(name)
        if role:
            self.server.done("POST", RBAC + "roles", {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {
                "name": "monokube-peer-reader", "namespace": "monokube-published"}, "rules": []})
        self.stopped = threading.Event()
        if fills:
            threading.Thread(target=self.fill, daemon=True).start()

    def configure(self, name):
        self.server.request("DELETE", CONFIG + "/monokube-cfg")
        self.server.done("POST", CONFIG, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": "monokube-cfg", "namespace": "kube-system"}, "data": {"clusterName": name} if name else {}})

    def fill(self):
        while not self.stopped.wait(0.05):
            try:
                for secret in self.server.done("GET", SECRETS[:-1])["items"]:
                    if secret.get("type") == TYPE and "data" not in secret:
                        self.fill_one(secret["metadata"])
            except (OSError, http.client.HTTPException, Wrong):
                return  # the server has been stopped

    def fill_one(self, metadata):
        """As kube-controller-manager: a Secret of the same name and of the same ServiceAccount, by its UID, gets the same token."""
        account = self.get(ACCOUNTS + metadata["annotations"]["kubernetes.io/service-account.name"])
        if account is None:
            self.server.done("DELETE", SECRETS + metadata["name"])
            return
        uid = account["metadata"]["uid"]
        if uid not in self.uids:
            self.uids.append(uid)
        self.server.patch(SECRETS + metadata["name"], {"data": {
            "token": encoded("token-%s-%d" % (self.name, self.uids.index(uid) + 1)),
            "ca.crt": encoded("-----BEGIN CERTIFICATE-----\nof %s\n" % self.name)}})

    def get(self, path):
        status, answer = self.server.request("GET", path)
        return answer if status == 200 else None

    def objects(self, other):
        """What users see of them: a second apply may own other fields."""
        objects = [self.get(place % other) for place in PLACES]
        for kept_by_server in ("managedFields", "resourceVersion"):
            for found in objects:
                (found or {"metadata": {}})["metadata"].pop(kept_by_server, None)
        return objects

    def writes(self):
        return [e["method"] + " " + e["path"] for e in self.server.log() if e["agent"].startswith("monokube") and e["method"] != "GET"]


def config(*clusters, user=None):
    """A kubeconfig with a context for each cluster."""
    path = os.path.join(TMP, "config")
    with open(path, "w") as f:
        yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "contexts": [
            {"name": c.context, "context": {"cluster": c.context, "user": "admin"}} for c in clusters], "clusters": [
            {"name": c.context, "cluster": {"server": c.url, "certificate-authority": os.path.join(c.server.dir, "ca.crt")}}
            for c in clusters], "users": [{"name": "admin", "user": user or {"token": TOKEN}}]}, f)
    return path


def peer(kubeconfig, *words, status=0, environment=False):
    """Run `monokube peer WORDS`. Returns what it prints and what it complains about."""
    env = {k: v for k, v in os.environ.items() if k != "KUBECONFIG" and not k.startswith("KUBERNETES_")}
    command = [MONOKUBE, "peer", *words]
    if environment:
        env["KUBECONFIG"] = kubeconfig
    else:
        command += ["--kubeconfig", kubeconfig]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)
    text = done.stdout + done.stderr
    for secret in (TOKEN, "token-", encoded("token-")[:8], "BEGIN CERT"):
        if secret in text:
            raise Wrong("'%s' is printed: %s" % (secret, text))
    if done.returncode != status:
        raise Wrong("%s: exit status %d: %s" % (" ".join(words), done.returncode, text))
    return done.stdout, done.stderr


def fails(kubeconfig, says, *words):
    out, complaint = peer(kubeconfig, *words, status=1)
    if says not in complaint:
        raise Wrong("expected '%s' in: %s%s" % (says, out, complaint))
    return out


def two(**more):
    return Cluster("admin@w", "west", **more), Cluster("admin@e", "east", **more)


def told(west, east, invite, secret, cluster_peer):
    return (TOLD % (("west", "east", invite) * 3) + TOLD % (("east", "west", invite) * 3) +
            "east: Secret monokube-peers/peer-west %s\neast: ClusterPeer west %s\n" % (secret, cluster_peer) +
            "west: Secret monokube-peers/peer-east %s\nwest: ClusterPeer east %s\n" % (secret, cluster_peer))


def check_ticket(at, of, token, url=None, ca=None):
    """@at has the ticket of @of."""
    secret = at.get(SECRETS + "peer-" + of.name)
    expect("servers", decoded(secret, "servers"), url or of.url + "\n")
    expect("CA", decoded(secret, "ca.crt"), ca or read(os.path.join(of.server.dir, "ca.crt")))
    expect("token", decoded(secret, "token"), token)
    expect("label", secret["metadata"]["labels"], {"networking.monokube.io/cluster": of.name})


def joins():
    """join writes invitations and tickets at both sides; a second time it changes nothing; without flags all stays"""
    west, east = two()
    path = config(west, east)
    out, complaint = peer(path, "join", "admin@w", "admin@e")
    expect("output", out, told(west, east, "created", "created", "created"))
    if "context 'admin@e': server '%s' is a loopback address" % east.url not in complaint:
        raise Wrong("no warning: " + complaint)
    check_ticket(west, east, "token-east-1")
    check_ticket(east, west, "token-west-1")
    spec = west.get(PEERS + "east")["spec"]
    expect("ClusterPeer", (spec["secretName"], spec["access"], spec["relay"]), ("peer-east", "Exports", False))
    expect("invited by", east.get(SECRETS + "invite-west")["metadata"]["annotations"]["networking.monokube.io/invited-by"], "east")
    before = west.objects("east"), east.objects("west")
    out, _ = peer(path, "join", "admin@w", "admin@e", environment=True)
    expect("second output", out, told(west, east, "unchanged", "unchanged", "unchanged"))
    expect("objects", (west.objects("east"), east.objects("west")), before)
    west.server.patch(PEERS + "east", {"spec": {"access": "None", "podCidr": "240.9.0.0/16"}})
    peer(path, "join", "admin@w", "admin@e")
    expect("the user's fields", {k: west.get(PEERS + "east")["spec"][k] for k in ("access", "podCidr")},
           {"access": "None", "podCidr": "240.9.0.0/16"})


def flags():
    """--access, --relay and --server of join end up in the objects, and stay if they are not given again"""
    west, east = two()
    path = config(west, east)
    url = "https://203.0.113.7:6443"
    more = ("--access", "Pods", "--relay", "--server", "admin@e=" + url, "--server", "admin@e=https://[fd00::7]:6443")
    _, complaint = peer(path, "join", "admin@w", "admin@e", *more)
    if "admin@e" in complaint:
        raise Wrong("a warning of a server that is given: " + complaint)
    for repeated in (False, True):
        expect("hub", {k: west.get(PEERS + "east")["spec"][k] for k in ("access", "relay")}, {"access": "Pods", "relay": True})
        expect("branch", {k: east.get(PEERS + "west")["spec"][k] for k in ("access", "relay")}, {"access": "Pods", "relay": False})
        expect("introductions", [c.get(PEERS + o)["spec"].get("accept") for c, o in ((west, "east"), (east, "west"))], ["None", "Transit"])
        check_ticket(west, east, "token-east-1", url + "\nhttps://[fd00::7]:6443\n", "-----BEGIN CERTIFICATE-----\nof east\n")
        check_ticket(east, west, "token-west-1")
        if not repeated:
            peer(path, "join", "admin@w", "admin@e")
    peer(path, "join", "admin@w", "admin@e", "--server", "admin@e=https://203.0.113.8")
    check_ticket(west, east, "token-east-1", "https://203.0.113.8\n", "-----BEGIN CERTIFICATE-----\nof east\n")


def dry_run():
    """--dry-run prints every object of both clusters as YAML, without tokens, and writes nothing"""
    west, east = two(role=False)
    path = config(west, east)
    out, _ = peer(path, "join", "admin@w", "admin@e", "--dry-run", "--access", "Pods")
    expect("writes", west.writes() + east.writes(), [])
    parts = out.split("# cluster ")
    expect("clusters", [p.split("\n")[0] for p in parts[1:]], ["west, context admin@w", "east, context admin@e"])
    for part, other in zip(parts[1:], (east, west)):
        found = list(yaml.safe_load_all("# " + part))
        expect("objects", [(o["kind"], o["metadata"]["name"]) for o in found], [
            ("ServiceAccount", "invite-" + other.name), ("RoleBinding", "invite-" + other.name), ("Secret", "invite-" + other.name),
            ("Secret", "peer-" + other.name), ("ClusterPeer", other.name)])
        expect("data", sorted(found[3]["data"]), ["ca.crt", "servers"])
        expect("servers", decoded(found[3], "servers"), other.url + "\n")
        expect("spec", found[4]["spec"], {"secretName": "peer-" + other.name, "access": "Pods"})
    out, _ = peer(path, "leave", "admin@w", "admin@e", "--dry-run")
    expect("leave", out.count("would be deleted\n"), 10)
    expect("writes", west.writes() + east.writes(), [])


def leaves():
    """leave deletes all of it at both sides, and nothing else; a second time nothing is there"""
    west, east = two()
    path = config(west, east)
    peer(path, "join", "admin@w", "admin@e")
    west.server.done("POST", SECRETS[:-1], {"apiVersion": "v1", "kind": "Secret", "metadata": {
        "name": "peer-north", "namespace": "monokube-peers"}, "type": "Opaque"})
    out, _ = peer(path, "leave", "admin@w", "admin@e")
    lines = ["%s: ClusterPeer %s", "%s: Secret monokube-peers/peer-%s", "%s: RoleBinding monokube-published/invite-%s",
             "%s: Secret monokube-peers/invite-%s", "%s: ServiceAccount monokube-peers/invite-%s"]
    lines = [line % names for names in (("west", "east"), ("east", "west")) for line in lines]
    expect("output", out, "".join(line + " deleted\n" for line in lines))
    expect("objects", west.objects("east") + east.objects("west"), [None] * 10)
    expect("other objects", bool(west.get(SECRETS + "peer-north")), True)
    out, _ = peer(path, "leave", "admin@w", "admin@e")
    expect("second output", out, "".join(line + " is not there\n" for line in lines))
    out, _ = peer(path, "join", "admin@w", "admin@e")
    expect("joined again", out, told(west, east, "created", "created", "created"))


def leaves_a_lost_one():
    """with one context and --cluster, leave deletes what join has made there, although the other server is gone"""
    west, east = two()
    path = config(west, east)
    peer(path, "join", "admin@w", "admin@e", "--inbox")
    east.stopped.set()
    east.server.stop()
    fails(path, "give that of the other cluster, too, or --cluster with its clusterName", "leave", "admin@w")
    fails(path, "'west' is the cluster of context 'admin@w' itself", "leave", "admin@w", "--cluster", "west")
    fails(path, "flag --cluster: value 'East'", "leave", "admin@w", "--cluster", "East")
    fails(path, "flag --cluster goes with one context", "leave", "admin@w", "admin@e", "--cluster", "east")
    out, _ = peer(path, "leave", "admin@w", "--cluster", "east", "--dry-run")
    expect("dry run", out.count("would be deleted\n"), 6)
    expect("peer", bool(west.get(PEERS + "east")), True)
    out, _ = peer(path, "leave", "admin@w", "--cluster", "east")
    expect("lines", out.count("west: "), out.count("\n"))
    expect("objects", west.objects("east") + [west.get(SPACE)], [None] * 6)


def rotates():
    """rotate replaces both tokens, and nothing else; clusters that have not joined are refused"""
    west, east = two()
    path = config(west, east)
    fails(path, "context 'admin@w': there is no Secret 'monokube-peers/invite-east': `monokube peer join` makes it",
          "rotate", "admin@w", "admin@e")
    url = "https://203.0.113.7:6443"
    peer(path, "join", "admin@w", "admin@e", "--access", "Pods", "--server", "admin@e=" + url)
    before = west.get(PEERS + "east")
    out, _ = peer(path, "rotate", "admin@w", "admin@e")
    expect("output", out, "".join(
        "%s: ServiceAccount monokube-peers/invite-%s created\n%s: Secret monokube-peers/invite-%s created\n"
        "%s: Secret monokube-peers/peer-%s changed\n" % (a, b, a, b, b, a) for a, b in (("west", "east"), ("east", "west"))))
    check_ticket(west, east, "token-east-2", url + "\n", "-----BEGIN CERTIFICATE-----\nof east\n")
    check_ticket(east, west, "token-west-2")
    expect("ClusterPeer", west.get(PEERS + "east"), before)


SPACE = "/api/v1/namespaces/monokube-inbox-east"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/monokube-inbox-east/rolebindings/"


def inbox():
    """--inbox: the second cluster gets an inbox at the first one, whose token it has; join, rotate and leave in either order know it"""
    west, east = two()
    path = config(west, east)
    out, _ = peer(path, "join", "admin@w", "admin@e", "--inbox", "--relay", "--dry-run")
    parts = [list(yaml.safe_load_all("# " + part)) for part in out.split("# cluster ")[1:]]
    expect("dry run", [[(o["kind"], o["metadata"]["name"]) for o in part] for part in parts], [
        [("ServiceAccount", "invite-east"), ("RoleBinding", "invite-east"), ("Namespace", "monokube-inbox-east"), ("RoleBinding", "invite-east"),
         ("RoleBinding", "monokube"), ("Secret", "invite-east"), ("ClusterPeer", "east")], [("Secret", "peer-west"), ("ClusterPeer", "west")]])
    expect("writes", west.writes() + east.writes(), [])
    for words in (("admin@w", "admin@e", "--inbox", "--relay"), ("admin@w", "admin@e"), ("admin@e", "admin@w")):
        out, complaint = peer(path, "join", *words)
        if "admin@e" in complaint:
            raise Wrong("a warning of the server that is not needed: " + complaint)
        expect("hub", {k: west.get(PEERS + "east")["spec"].get(k) for k in ("inbox", "relay", "secretName")}, {
            "inbox": True, "relay": True, "secretName": None})
        expect("branch", {k: east.get(PEERS + "west")["spec"].get(k) for k in ("publishTo", "accept", "secretName")}, {
            "publishTo": True, "accept": "Transit", "secretName": "peer-west"})
        expect("roles", [(west.get(BINDINGS + n)["roleRef"]["name"], west.get(BINDINGS + n)["subjects"][0]["name"]) for n in (
            "invite-east", "monokube")], [("monokube-inbox-writer", "invite-east"), ("monokube-inbox-reader", "monokube")])
        check_ticket(east, west, "token-west-1")
        expect("the branch's token", (west.get(SECRETS + "peer-east"), east.get(SECRETS + "invite-west")), (None, None))
    peer(path, "rotate", "admin@e", "admin@w")
    check_ticket(east, west, "token-west-2")
    out, _ = peer(path, "leave", "admin@w", "admin@e", "--dry-run")
    expect("dry run of leave", out.count("Namespace monokube-inbox-east would be deleted\n"), 1)
    out, _ = peer(path, "leave", "admin@w", "admin@e")
    expect("first", out.splitlines()[0], "east: ClusterPeer west deleted")
    lines = out.splitlines()
    if lines.index("west: Namespace monokube-inbox-east deleted") > lines.index("west: ServiceAccount monokube-peers/invite-east deleted"):
        raise Wrong("the token ends before the inbox does")
    expect("leave", out.count("west: Namespace monokube-inbox-east deleted\n"), 1)
    expect("rest", west.objects("east") + east.objects("west") + [west.get(SPACE)], [None] * 11)


def refused():
    """a server that refuses a write: the message names context, object and remedy; the next run goes on from there"""
    west, east = two()
    path = config(west, east)
    body = '{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no rights","reason":"Forbidden","code":403}'
    east.server.faults({"match": {"target": "secrets/invite-west", "method": "PATCH"}, "status": 403, "body": body, "times": 100})
    out = fails(path, "monokube peer join: context 'admin@e': cannot write Secret 'monokube-peers/invite-west': no rights; "
                "the user of this context may not: use the context of an administrator", "join", "admin@w", "admin@e")
    expect("output", out, TOLD % (("west", "east", "created") * 3) + "".join((TOLD % (("east", "west", "created") * 3)).splitlines(True)[:2]))
    expect("tickets", [west.get(PEERS + "east"), east.get(PEERS + "west")], [None, None])
    for status, says in ((401, "renew its credentials"), (404, "kubectl apply -f manifests/multicluster.yaml there"),
                         (415, "needs Kubernetes 1.22"), (503, "try again")):
        east.server.faults({"match": {"target": "secrets/invite-west", "method": "PATCH"}, "status": status, "times": 100})
        fails(path, says, "join", "admin@w", "admin@e")
    east.server.faults()
    peer(path, "join", "admin@w", "admin@e")
    check_ticket(west, east, "token-east-1")
    east.server.faults({"match": {"target": "clusterpeers", "method": "DELETE"}, "status": 403, "body": body, "times": 100})
    fails(path, "context 'admin@e': cannot delete ClusterPeer 'west': no rights", "leave", "admin@w", "admin@e")
    east.server.stop()
    fails(path, "check that this machine reaches the server", "join", "admin@w", "admin@e")


def no_token():
    """a token that never comes ends join after --timeout, with no ticket written"""
    west, east = two(fills=False)
    path = config(west, east)
    fails(path, "context 'admin@w': Secret 'monokube-peers/invite-east' has no token after 1 s: check that kube-controller-manager "
          "runs there, and join again", "join", "admin@w", "admin@e", "--timeout", "1")
    expect("tickets", [west.get(PEERS + "east"), east.get(PEERS + "west"), west.get(SECRETS + "peer-east")], [None] * 3)
    for cluster, other in ((west, "east"), (east, "west")):
        cluster.server.patch(SECRETS + "invite-" + other, {"data": {"token": encoded("a b")}})
    fails(path, "Secret 'invite-east': data.token: expected base64 of a token", "join", "admin@w", "admin@e")


def cannot_join():
    """clusters that cannot be joined are refused before the first write"""
    west, other = Cluster("admin@w", "west"), Cluster("other", None, role=False)
    path = config(west, other)
    for words, says in ((("admin@w", "admin@w"), "context 'admin@w' is given twice"),
                        (("admin@w", "north"), "there is no context 'north'"),
                        (("admin@w", "other"), "context 'other': there is no ConfigMap 'kube-system/monokube-cfg': install monokube first"),
                        (("admin@w", "other", "--server", "x=https://a"), "expected admin@w=URL or other=URL"),
                        (("admin@w", "other", "--server", "other=http://a"), "flag --server: value 'http://a', expected a URL"),
                        (("admin@w",), "usage: monokube peer join CONTEXT CONTEXT")):
        fails(path, says, "join", *words)
    for name, says in (("", "context 'other': the cluster has no name: set clusterName in ConfigMap"),
                       ("Not_A_Name", "context 'other': clusterName: value 'Not_A_Name', expected a clusterName"),
                       ("west", "contexts 'admin@w' and 'other': both clusters have the name 'west'"),
                       ("south", "there is no Role 'monokube-published/monokube-peer-reader': kubectl --context other apply -f")):
        other.configure(name)
        fails(path, says, "join", "admin@w", "other")
    fails("/nonexistent", "/nonexistent", "join", "admin@w", "other")
    fails(config(west, other, user={"exec": {"command": "aws"}}), "`monokube peer invite` and `ticket` do the same by kubectl",
          "join", "admin@w", "other")
    expect("writes", west.writes() + other.writes(), [])


if __name__ == "__main__":
    sys.exit(run([inbox, joins, flags, dry_run, leaves, leaves_a_lost_one, rotates, refused, no_token, cannot_join]))

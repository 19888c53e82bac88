# SPDX-License-Identifier: Apache-2.0
"""An API server of Kubernetes' libraries (main.go) with an etcd, in the stand-in's place: Follow and the cases of
test/wire run against it. The client is the manifests' ServiceAccount with its RBAC, unless agent= says otherwise."""
import contextlib
import functools
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.parse

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../wire"))
import harness  # noqa: E402
from harness import ROOT, TMP, TOKEN, Wrong, running, wait  # noqa: E402
from standin import dump, recordings  # noqa: E402
from standin.pki import authority, inline, server as certificate  # noqa: E402

BUILT = os.path.join(ROOT, "build/apiserver")
ACCOUNT = "system:serviceaccount:kube-system:monokube"
RECORDED = ["list-nodes", "list-services", "list-endpointslices", "list-servicecidrs"]
MANIFESTS = ["monokube.yaml", "chains.yaml", "multicluster.yaml", "mcs.yaml"]
KUBECTL = os.path.join(BUILT, "tree/usr/bin/kubectl")
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
LOCAL = "127.0.0.1"
VERBS = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}
START_S = 60


def free_port():
    with socket.create_server((LOCAL, 0)) as listener:
        return listener.getsockname()[1]


def kubeconfig(path, url, token, ca):
    user = {"name": "user", "user": {"token": token}}
    cluster = {"name": "real", "cluster": {"server": url, "certificate-authority-data": inline(ca)}}
    context = {"name": "real", "context": {"cluster": "real", "user": "user"}}
    with open(path, "w") as f:
        json.dump({"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "users": [user], "contexts": [context],
                   "current-context": "real"}, f)


class Etcd:
    """The store of a server. It keeps 5 minutes of history, until compact()."""
    def __init__(self, directory, port=0):
        self.port = port or free_port()
        self.url = "http://%s:%d" % (LOCAL, self.port)
        peer = "http://%s:%d" % (LOCAL, free_port())
        self.log = open(os.path.join(directory, "etcd.log"), "w")
        self.process = subprocess.Popen(
            [os.path.join(BUILT, "tree/usr/bin/etcd"), "--data-dir", os.path.join(directory, "etcd"), "--unsafe-no-fsync",
             "--listen-client-urls", self.url, "--advertise-client-urls", self.url, "--listen-peer-urls", peer,
             "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
             "--experimental-watch-progress-notify-interval", "1s"],  # kubeadm: 5s
            stdout=self.log, stderr=self.log)

    def ask(self, path, body):
        connection = http.client.HTTPConnection(LOCAL, self.port, timeout=10)
        connection.request("POST", path, json.dumps(body))
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def compact(self):
        """Forget all history."""
        now = self.ask("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
        self.ask("/v3/kv/compaction", {"revision": now, "physical": True})

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


def command(directory, address, port, etcd, certificate_and_key):
    """The server's; its logs and the policy of its audit log are in @directory."""
    with open(os.path.join(directory, "audit.json"), "w") as f:
        json.dump(AUDIT, f)
    return [os.path.join(BUILT, "apiserver"), "--etcd-servers", etcd.url, "--etcd-prefix", "/registry", "--bind-address", address,
            "--secure-port", str(port), "--tls-cert-file", certificate_and_key[0], "--tls-private-key-file", certificate_and_key[1],
            "--audit-log-path", os.path.join(directory, "audit.log"), "--audit-policy-file", os.path.join(directory, "audit.json")]


class Objects:
    """What standin.dump reads of a store."""
    def __init__(self, server, group, plural):
        path = ("/apis/%s/v1/" % group if group else "/api/v1/") + plural
        self.objects = {o["metadata"].get("namespace", "") + "/" + o["metadata"]["name"]: o
                        for o in server.done("GET", path)["items"]}


class View:
    def __init__(self, server):
        self.resource = functools.partial(Objects, server)

    @staticmethod
    def select(resource, _, matches):
        return [o for o in resource.objects.values() if matches(o)]


class RealServer(harness.Server):
    count = 0
    made = []  # since a case cleared it

    def __init__(self, *args, name="", pki="", recorded=True, port=0, agent=ACCOUNT + "@worker-1", manifests=MANIFESTS,
                 etcd=None):
        RealServer.count += 1
        RealServer.made.append(self)
        self.dir = os.path.join(TMP, "real-%d" % RealServer.count)
        os.makedirs(self.dir, exist_ok=True)
        authority(self.dir)
        self.key, self.crt = certificate(self.dir, [LOCAL, "localhost"])
        self.host, self.port, self.args = LOCAL, port or free_port(), [a for a in args if not self.of_standin(a)]
        self.url = "https://%s:%d" % (LOCAL, self.port)
        self.tls = harness.ssl.create_default_context(cafile=os.path.join(self.dir, "ca.crt"))
        for file, token in (("kubeconfig", agent), ("admin.conf", TOKEN)):
            kubeconfig(os.path.join(self.dir, file), self.url, token, os.path.join(self.dir, "ca.crt"))
        self.errors = open(os.path.join(self.dir, "server.log"), "a+")
        self.process, self.before = None, 0
        self.etcd = etcd or Etcd(self.dir)
        running.append(self)
        self.start()
        for manifest in manifests:
            self.kubectl("apply", "-f", os.path.join(ROOT, "manifests", manifest))
        self.established(manifests)
        for which in RECORDED if recorded else []:
            self.load(recordings.load(which))
        self.before = len(self.log())

    @staticmethod
    def of_standin(argument):
        """Bookmarks come once a minute, and that is no option."""
        return argument == "--bookmark-seconds" or argument.isdigit()

    def start(self, *args):
        self.process = subprocess.Popen(
            [*command(self.dir, LOCAL, self.port, self.etcd, (self.crt, self.key)), *self.args, *args],
            stdout=self.errors, stderr=self.errors, env=dict(os.environ, ADMIN=TOKEN))
        wait("the API server's start", self.is_ready, START_S)
        for space in ("default", "kube-system"):
            self.request("POST", "/api/v1/namespaces", {"metadata": {"name": space}})

    def is_ready(self):
        if self.process.poll() is not None:
            raise Wrong("the API server has ended: " + self.tail())
        with contextlib.suppress(OSError):
            return self.exchange("GET", "/readyz")[0] == 200
        return False

    def tail(self):
        with open(self.errors.name) as f:
            return f.read()[-2000:]

    def established(self, manifests):
        """The resources of all CustomResourceDefinitions are served."""
        if set(manifests) & set(MANIFESTS[1:]):
            self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")

    def load(self, found):
        for item in found["items"]:
            item["metadata"] = {k: v for k, v in item["metadata"].items() if k in ("name", "namespace", "labels", "annotations")}
            self.add(dict(item, apiVersion=found["apiVersion"], kind=found["kind"][:-len("List")]))

    def add(self, obj):
        plural = {"NetworkPolicy": "networkpolicies"}.get(obj["kind"], obj["kind"].lower() + "s")
        space, version = obj["metadata"].get("namespace"), obj["apiVersion"]
        return self.done("POST", "%s/%s/%s%s" % ("/apis" if "/" in version else "/api", version,
                                                 "namespaces/%s/" % space if space else "", plural), obj)

    def kubectl(self, *args, stdin=None, user=None):
        """Run kubectl; an error is Wrong, with its text."""
        more = ["--as", user] if user else []
        done = subprocess.run([KUBECTL, "--kubeconfig", os.path.join(self.dir, "admin.conf"),
                               "--cache-dir", os.path.join(self.dir, "cache"), *more, *args],
                              capture_output=True, text=True, timeout=60, check=False, input=stdin)
        if done.returncode:
            raise Wrong("kubectl %s: %s" % (" ".join(args), done.stderr))
        return done.stdout

    def request(self, method, path, body=None, kind="application/json"):
        """As for the stand-in, where every namespace exists."""
        status, answer = super().request(method, path, body, kind)
        space = path.partition("/namespaces/")[2].partition("/")[0]
        if status == 404 and method == "POST" and answer.get("details", {}).get("kind") == "namespaces":
            super().request("POST", "/api/v1/namespaces", {"metadata": {"name": space}})
            status, answer = super().request(method, path, body, kind)
        elif status == 409 and path == "/api/v1/namespaces":
            return super().request("PATCH", path + "/" + body["metadata"]["name"], body, "application/merge-patch+json")
        return status, answer

    def dump(self):
        return dump.lines(View(self), [])

    def log(self):
        """The requests since the set-up, of the audit log, in the stand-in's words; `status` once there was an answer."""
        entries = {}
        with open(os.path.join(self.dir, "audit.log")) as f:
            events = [json.loads(line) for line in f.read().split("\n")[:-1]]
        for e in events:
            path, _, query = e["requestURI"].partition("?")
            entry = entries.setdefault(e["auditID"], {
                "path": path, "query": dict(urllib.parse.parse_qsl(query)), "agent": e.get("userAgent", "").partition("/")[0],
                "method": VERBS.get(e["verb"], "GET"), "user": e["user"].get("username"), "status": None})
            entry["status"] = e.get("responseStatus", {}).get("code", entry["status"])
            entry["ended"] = e["stage"] == "ResponseComplete"
        return list(entries.values())[self.before:]

    def refused(self, agent="monokube"):
        """The requests of the agent that RBAC or a policy refused."""
        return [e for e in self.log() if e["agent"] == agent and e["status"] == 403]

    @contextlib.contextmanager
    def held(self, user):
        """Of this user, one request is in flight: its body does not come."""
        connection = http.client.HTTPSConnection(self.host, self.port, context=self.tls, timeout=harness.WAIT_S * 3)
        connection.putrequest("POST", "/api/v1/namespaces/default/events")
        for header in (("Authorization", "Bearer " + user), ("Content-Type", "application/json"), ("Content-Length", "10")):
            connection.putheader(*header)
        connection.endheaders()
        wait("the request", lambda: [e for e in self.log() if e["method"] == "POST" and e["user"] == user and not e["status"]])
        yield
        connection.close()

    def down(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.wait(harness.WAIT_S * 3)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.down()
        self.etcd.stop()
        self.errors.close()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""fake_kube_proxy.py --config FILE - a stand-in for kube-proxy: follows Services and EndpointSlices of the API
server in its KubeProxyConfiguration, with the selectors of the real one's informers. perf/peers/rules.py writes
the rules in the configured mode. It prints its configuration and each set of rules."""
import base64
import http.client
import json
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path

import yaml

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "perf/peers"))
import rules  # noqa: E402

API_VERSION = "kubeproxy.config.k8s.io/v1alpha1"
SELECTORS = {
    "/api/v1/services": {"labelSelector": "!service.kubernetes.io/service-proxy-name",
                         "fieldSelector": "spec.clusterIP!=None"},
    "/apis/discovery.k8s.io/v1/endpointslices": {"labelSelector": "!service.kubernetes.io/headless"},
    "/apis/networking.k8s.io/v1/servicecidrs": {},
}
READ_SECONDS, AGAIN_SECONDS = 3600, 0.2


def say(text):
    print(text, flush=True)


class Refused(OSError):
    pass


class Server:
    """The one that the kubeconfig names, with its certificates."""

    def __init__(self, connection):
        config = yaml.safe_load(Path(connection["kubeconfig"]).read_text())
        by_name = {kind: {entry["name"]: entry for entry in config[kind]} for kind in ("clusters", "users", "contexts")}
        context = by_name["contexts"][config["current-context"]]["context"]
        cluster, user = by_name["clusters"][context["cluster"]]["cluster"], by_name["users"][context["user"]]["user"]
        self.place = urllib.parse.urlsplit(cluster["server"]).netloc
        self.tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        with tempfile.NamedTemporaryFile() as pair:
            for part in ("client-certificate-data", "client-key-data"):
                pair.write(base64.b64decode(user[part]))
            pair.flush()
            self.tls.load_cert_chain(pair.name)
        self.content = connection["contentType"]

    def open(self, method, path, body=None):
        connection = http.client.HTTPSConnection(self.place, context=self.tls, timeout=READ_SECONDS)
        connection.request(method, path, json.dumps(body) if body else None,
                           {"Accept": self.content, "Content-Type": self.content})
        answer = connection.getresponse()
        if answer.status not in (200, 201):
            raise Refused(f"{method} {path}: HTTP status {answer.status}: {answer.read().decode()}")
        return answer

    def get(self, path, **query):
        return json.loads(self.open("GET", path + "?" + urllib.parse.urlencode(query)).read())


class Follower(threading.Thread):
    """The objects of one collection: a list as a stream, and what happens after it."""

    def __init__(self, server, path, changed):
        super().__init__(daemon=True)
        self.server, self.changed = server, changed
        self.target = path + "?" + urllib.parse.urlencode({
            **SELECTORS[path], "watch": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan",
            "allowWatchBookmarks": "true"})
        self.objects, self.synced = {}, False
        self.start()

    def run(self):
        while True:
            try:
                found = {}
                for line in self.server.open("GET", self.target):
                    self.take(found, json.loads(line))
            except (OSError, http.client.HTTPException, ValueError) as error:
                say(f"{self.target}: {error}; again")
                time.sleep(AGAIN_SECONDS)

    def take(self, found, event):
        kind, meta = event["type"], event["object"]["metadata"]
        if kind == "DELETED":
            found.pop((meta.get("namespace"), meta["name"]))
        elif kind in ("ADDED", "MODIFIED"):
            found[(meta.get("namespace"), meta["name"])] = event["object"]
        elif meta.get("annotations", {}).get("k8s.io/initial-events-end") == "true":
            self.objects, self.synced = found, True
        with self.changed:
            self.changed.notify()


def endpoints_of(slices, port_name):
    """(address, port, node) of those that are ready"""
    for piece in slices:
        for port in piece["ports"]:
            for endpoint in piece["endpoints"]:
                if port["name"] == port_name and endpoint["conditions"].get("ready", True):
                    yield endpoint["addresses"][0], port["port"], endpoint.get("nodeName")


class Proxy:
    def __init__(self, config):
        self.mode, self.node = config["mode"], config["hostnameOverride"]
        self.cluster_cidr, self.node_ip = config["clusterCIDR"], config["nodePortAddresses"][0].partition("/")[0]
        self.iptables = "ip6tables" if ":" in self.node_ip else "iptables"
        self.least_seconds = float(config[self.mode]["minSyncPeriod"].removesuffix("s"))
        self.server = Server(config["clientConnection"])
        self.changed = threading.Condition()

    def await_node(self):
        """Wait for the own Node to have an address, as the real kube-proxy does first."""
        def addresses():
            nodes = self.server.get("/api/v1/nodes", fieldSelector=f"metadata.name={self.node}")["items"]
            return [a["address"] for n in nodes for a in n["status"]["addresses"] if a["type"] == "InternalIP"]
        while not (found := addresses()):
            time.sleep(AGAIN_SECONDS)
        assert found == [self.node_ip], f"{found} is not where node ports are"
        self.server.open("POST", "/apis/events.k8s.io/v1/namespaces/default/events", {
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"generateName": f"{self.node}.", "namespace": "default"},
            "regarding": {"kind": "Node", "name": self.node}, "reason": "Starting", "type": "Normal"})

    def run(self):
        self.await_node()
        services, slices, cidrs = followers = [Follower(self.server, path, self.changed) for path in SELECTORS]
        last = None
        while True:
            with self.changed:
                self.changed.wait(self.least_seconds)
            if all(f.synced for f in followers):
                now = list(self.rows(dict(services.objects).values(), dict(slices.objects).values()))
                if now != last:
                    self.load(now)
                    say(f"{len(now)} ports of Services, ServiceCIDRs {sorted(name for _, name in cidrs.objects)}")
                    last = now
                    time.sleep(self.least_seconds)

    def rows(self, services, slices):
        """As rules.py wants them."""
        of = {}
        for piece in slices:
            name = f"{piece['metadata']['namespace']}/{piece['metadata']['labels']['kubernetes.io/service-name']}"
            of.setdefault(name, []).append(piece)
        for service in services:
            name, spec = f"{service['metadata']['namespace']}/{service['metadata']['name']}", service["spec"]
            for port in spec["ports"]:
                ready = list(endpoints_of(of.get(name, []), port.get("name", "")))
                yield {"name": f"{name}:{port.get('name', '')}", "vip": spec["clusterIP"], "port": port["port"],
                       "proto": port["protocol"].lower(), "node_port": port.get("nodePort"),
                       "endpoints": [[ip, number] for ip, number, _ in ready],
                       "local": [[ip, number] for ip, number, node in ready if node == self.node],
                       "external_local": spec.get("externalTrafficPolicy") == "Local"}

    def load(self, rows):
        text = rules.render(self.mode, rows, self.cluster_cidr, self.node_ip)
        command = ["nft", "-f", "-"]
        if self.mode == "iptables":  # all in one piece, with the rules of others
            saved = subprocess.run([self.iptables + "-save", "-t", "nat"], check=True, stdout=subprocess.PIPE, text=True).stdout
            others = [line + "\n" for line in saved.splitlines() if line.startswith("-A ") and "KUBE-" not in line]
            text, command = text.removesuffix("COMMIT\n") + "".join(others) + "COMMIT\n", [self.iptables + "-restore"]
        subprocess.run(command, check=True, input=text, text=True)


def main():
    if sys.argv[1:] == ["--version"]:
        say("Kubernetes v0.0.0-fake")
        return
    if len(sys.argv) != 3 or sys.argv[1] != "--config":
        sys.exit(__doc__)
    config = yaml.safe_load(Path(sys.argv[2]).read_text())
    if (config["apiVersion"], config["kind"]) != (API_VERSION, "KubeProxyConfiguration"):
        sys.exit(f"{sys.argv[2]}: expected a KubeProxyConfiguration of {API_VERSION}")
    proxy = Proxy(config)
    say(f"mode {proxy.mode}, node {proxy.node}, pods {proxy.cluster_cidr}, node ports at {proxy.node_ip}")
    proxy.run()


if __name__ == "__main__":
    main()

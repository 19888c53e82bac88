#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""stand_in.py - what Debian's Kubernetes lacks for the tests of two families and of DNS.

dns: the cluster's DNS server, as far as Kubernetes' tests of the network ask one: UDP, A and AAAA records of
NAME.NAMESPACE.svc.cluster.local, CNAME for an ExternalName. It asks the API server at each query, as its service
account. Debian has no CoreDNS.
slices ADDRESS PORT API PKI: stands before the API server at API (ADDRESS:PORT) and serves EndpointSlices of
discovery.k8s.io/v1, made from 1.20's v1beta1. Only these have endpoints of both families. Every other request
is passed on as it is.
tests ADDRESS PORT: what ginkgo's command serves to the processes that share Kubernetes' tests: each test's number,
and the result of the first process' preparation. As an HTTP proxy it answers 200 for every URL: tests of Services ask
google.com before they start."""
import http.client
import http.server
import itertools
import json
import os
import socket
import ssl
import struct
import sys
import urllib.error
import urllib.request

# ---- dns

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount/"
SUFFIX = ".svc.cluster.local"
A, CNAME, AAAA, IN, TTL = 1, 5, 28, 1, 1
NXDOMAIN = 3


def get(api, path):
    with open(ACCOUNT + "token", encoding="ascii") as token:
        request = urllib.request.Request(api + path, headers={"Authorization": "Bearer " + token.read()})
    context = ssl.create_default_context(cafile=ACCOUNT + "ca.crt")
    with urllib.request.urlopen(request, context=context, timeout=3) as answer:
        return json.load(answer)


def endpoints(api, name, namespace):
    subsets = get(api, f"/api/v1/namespaces/{namespace}/endpoints/{name}").get("subsets") or []
    return [address["ip"] for subset in subsets for address in subset.get("addresses") or []]


def records(api, host):
    """(type, value) of a name; None: there is none."""
    words = host.lower().removesuffix(SUFFIX).split(".")
    if not host.lower().endswith(SUFFIX) or len(words) != 2:
        return None
    try:
        spec = get(api, f"/api/v1/namespaces/{words[1]}/services/{words[0]}")["spec"]
        if spec["type"] == "ExternalName":
            return [(CNAME, spec["externalName"])] + (records(api, spec["externalName"]) or [])
        own = spec.get("clusterIPs") or [spec["clusterIP"]]
        addresses = own if own != ["None"] else endpoints(api, *words)
    except urllib.error.HTTPError:
        return None
    return [(AAAA if ":" in address else A, address) for address in addresses]


def packed_address(address):
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def packed_name(name):
    return b"".join(bytes([len(word)]) + word.encode() for word in name.split(".")) + b"\0"


def question(packet):
    """Return the name in the question, its type, and the offset of the question's end."""
    words, at = [], 12
    while packet[at]:
        words.append(packet[at + 1:at + 1 + packet[at]].decode())
        at += 1 + packet[at]
    return ".".join(words), struct.unpack_from("!H", packet, at + 1)[0], at + 5


def answer(api, packet):
    name, kind, end = question(packet)
    found, owner, body = records(api, name), name, b""
    shown = [record for record in found or [] if record[0] in (kind, CNAME)]
    for record, value in shown:
        data = packed_name(value) if record == CNAME else packed_address(value)
        body += packed_name(owner) + struct.pack("!HHIH", record, IN, TTL, len(data)) + data
        owner = value if record == CNAME else owner
    flags = 0x8580 | (NXDOMAIN if found is None else 0)
    return packet[:2] + struct.pack("!HHHHH", flags, 1, len(shown), 0, 0) + packet[12:end] + body


def serve_dns():
    host = os.environ["KUBERNETES_SERVICE_HOST"]  # by its address: this program is the resolver
    api = f"https://[{host}]" if ":" in host else f"https://{host}"
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    sock.bind(("::", 53))
    print("serving", flush=True)
    while True:
        packet, client = sock.recvfrom(512)
        try:
            sock.sendto(answer(api, packet), client)
        except (OSError, IndexError, UnicodeError) as err:
            print(f"{client}: {err}", flush=True)


# ---- tests

PENDING = 1  # ginkgo's RemoteBeforeSuiteState
prepared = {"Data": None, "State": PENDING}
numbers = itertools.count()


class Tests(http.server.BaseHTTPRequestHandler):
    def reply(self, tree):
        body = json.dumps(tree).encode()
        self.send_response_only(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/counter":
            self.reply({"index": next(numbers)})
        elif self.path == "/BeforeSuiteState":
            self.reply(prepared)
        else:
            self.reply({"CanRun": True})

    def do_POST(self):
        prepared.update(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.reply({})

    def log_message(self, *args):
        pass


# ---- slices

V1, V1BETA1 = "/apis/discovery.k8s.io/v1/", "/apis/discovery.k8s.io/v1beta1/"
HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "host", "accept-encoding", "keep-alive"}



def convert_slice(tree):
    tree["apiVersion"] = "discovery.k8s.io/v1"
    for endpoint in tree.get("endpoints") or []:
        place = endpoint.pop("topology", {})
        for key, label in ("nodeName", "kubernetes.io/hostname"), ("zone", "topology.kubernetes.io/zone"):
            if label in place:
                endpoint.setdefault(key, place[label])


def convert(line):
    """A list, an event of a watch, or an error."""
    tree = json.loads(line)
    for one in tree.get("items") or [tree.get("object", tree)]:
        if "endpoints" in one or one.get("kind") == "EndpointSlice":
            convert_slice(one)
    if tree.get("kind") == "EndpointSliceList":
        tree["apiVersion"] = "discovery.k8s.io/v1"
    return json.dumps(tree).encode() + b"\n"


def ask(handler, path):
    """The API server's answer to the request, with the client's credentials."""
    address, _, port = handler.server.api.rpartition(":")
    context = ssl.create_default_context(cafile=f"{handler.server.pki}/ca.crt")
    connection = http.client.HTTPSConnection(address.strip("[]"), int(port), context=context)
    headers = {key: value for key, value in handler.headers.items() if key.lower() not in HOP_BY_HOP}
    body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
    connection.request(handler.command, path, body or None, headers)
    return connection, connection.getresponse()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def relay(self):
        slices = self.path.startswith(V1)
        connection, answer = ask(self, self.path.replace(V1, V1BETA1, 1))
        self.send_response_only(answer.status)
        for key, value in answer.getheaders():
            if key.lower() not in HOP_BY_HOP:
                self.send_header(key, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for part in iter(answer.readline if slices else lambda: answer.read1(65536), b""):
                part = convert(part) if slices else part
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")
        finally:
            connection.close()

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = relay

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address, port, api, pki):
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.api, self.pki = api, pki
        super().__init__((address, int(port)), Handler)

    def finish_request(self, request, client_address):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{self.pki}/apiserver.crt", f"{self.pki}/apiserver.key")
        super().finish_request(context.wrap_socket(request, server_side=True), client_address)


def main(what, *words):
    if what == "dns":
        serve_dns()
    if what == "tests":
        http.server.ThreadingHTTPServer((words[0], int(words[1])), Tests).serve_forever()
    Server(*words).serve_forever()


main(*sys.argv[1:])

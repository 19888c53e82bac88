#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""dns.py - the cluster's DNS server, as far as Kubernetes' tests of the network ask one: UDP, A and AAAA records of
NAME.NAMESPACE.svc.cluster.local, CNAME for an ExternalName. It asks the API server at each query, as its service
account. Debian has no CoreDNS."""
import json
import os
import socket
import ssl
import struct
import urllib.error
import urllib.request

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


def main():
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


main()

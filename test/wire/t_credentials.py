#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/wire/t_credentials.py [PART OF A NAME...] - authentication of the server and of the client: certificates,
tokens, kubeconfig files and service accounts, valid, invalid, and changing while the client runs."""
import os
import shutil
import sys

sys.dont_write_bytecode = True
from harness import TMP, TOKEN, Follow, Server, Wrong, expect, run, wait  # noqa: E402
from objects import add_service  # noqa: E402
from standin import pki  # noqa: E402


def path(name):
    return os.path.join(TMP, name)


def write(name, text):
    """Replaced as the kubelet does it: by rename."""
    with open(path(name + ".new"), "w") as f:
        f.write(text)
    os.rename(path(name + ".new"), path(name))


def read(name):
    with open(name) as f:
        return f.read()


def account(server, token=TOKEN, ca=None):
    os.makedirs(path("account"), exist_ok=True)
    write("account/token", token)
    write("account/ca.crt", ca or read(os.path.join(server.dir, "ca.crt")))
    return ["--account", path("account")]


def config(server, cluster="", user="", url=None):
    """A kubeconfig in YAML; @cluster and @user are lines for those two."""
    def indent(text):
        return "".join("    %s\n" % line for line in text.splitlines())
    write("kubeconfig", "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
          "contexts:\n- name: c\n  context:\n    cluster: k\n    user: u\n"
          "clusters:\n- name: k\n  cluster:\n    server: %s\n%s" % (url or server.url, indent(cluster)) +
          "users:\n- name: u\n  user:\n%s" % (indent(user) or "    {}\n"))
    return ["--kubeconfig", path("kubeconfig")]


def start(server, arguments, **kwargs):
    return Follow(server, *arguments, kubeconfig=False, **kwargs)


def refused(server, arguments, text, **kwargs):
    """It does not start, and says why."""
    client = start(server, arguments, **kwargs)
    client.may_fail = True
    client.process.wait(20)
    expect("exit status", client.process.returncode, 1)
    if text not in client.said():
        raise Wrong("expected '%s' in: %s" % (text, client.said()))


def authority(server):
    return "certificate-authority: %s" % os.path.join(server.dir, "ca.crt")


# ---- tokens


def in_cluster():
    """the service account of a pod, the server from its environment"""
    server = Server()
    client = start(server, account(server), env={"KUBERNETES_SERVICE_HOST": "127.0.0.1",
                                                 "KUBERNETES_SERVICE_PORT": str(server.port)})
    client.listed().converged()
    client.logs("if neither kube-proxy nor monokube runs yet, set apiServer")
    expect("users", {e["user"] for e in server.log() if "user" in e}, {"token"})


def override():
    """--api-server goes before what the environment or the kubeconfig says"""
    server = Server()
    client = start(server, account(server) + ["--api-server", server.url + "/"],
                   env={"KUBERNETES_SERVICE_HOST": "192.0.2.1", "KUBERNETES_SERVICE_PORT": "443"})
    client.listed()
    expect("a hint for nobody", "set apiServer" in client.said(), False)
    client.stop()
    client = start(server, config(server, authority(server), "token: " + TOKEN, "https://192.0.2.1:6443") +
                   ["--api-server", server.url])
    client.listed().converged()


def over_ipv6():
    """a server at an IPv6 address, from the kubeconfig, from --api-server and from the pod's environment"""
    server = Server("--address", "::1")
    client = start(server, config(server, authority(server), "token: " + TOKEN))
    client.listed().converged()
    client.logs("following the API server at https://[::1]:")
    client.stop()
    client = start(server, account(server) + ["--api-server", server.url],
                   env={"KUBERNETES_SERVICE_HOST": "2001:db8::1", "KUBERNETES_SERVICE_PORT": "443"})
    client.listed().converged()
    client.stop()
    client = start(server, account(server), env={"KUBERNETES_SERVICE_HOST": "::1",
                                                 "KUBERNETES_SERVICE_PORT": str(server.port)})
    client.listed().converged()


def token_rotates():
    """a token that expires, and is written anew: no restart"""
    server = Server()
    client = start(server, account(server) + ["--api-server", server.url, "--watch-s", "1"]).listed()
    server.settings(tokens=[TOKEN, "secret-token-two"])
    write("account/token", "secret-token-two\n")
    client.logs("has changed and was read again")
    client.converged()
    server.settings(tokens=["secret-token-three", TOKEN])
    client.logs("HTTP status 401: Unauthorized")
    write("account/token", "secret-token-three")
    client.logs("following the API server again")
    server.patch("/api/v1/namespaces/shop/services/web", {"spec": {"type": "NodePort"}})
    client.converged()


def kubeconfig_changes():
    """a kubeconfig with another token, then one that is broken, then right again: no restart"""
    server = Server()
    server.settings(tokens=[TOKEN, "secret-token-one-b"])
    arguments = config(server, authority(server), "token: secret-token-one-b")
    client = start(server, arguments + ["--watch-s", "1"]).listed()
    server.settings(tokens=[TOKEN, "secret-token-two"])
    client.logs("HTTP status 401: Unauthorized")
    config(server, authority(server), "token: secret-token-two")
    client.logs("has changed and was read again")
    client.logs("following the API server again")
    add_service(server, "new")
    client.converged()
    write("kubeconfig", "clusters: [\n")
    client.logs("using the credentials read before")
    add_service(server, "newer")
    client.converged()


def token_vanishes():
    """a token file that is gone for a moment: the old token goes on"""
    server = Server()
    client = start(server, account(server) + ["--api-server", server.url, "--watch-s", "1"]).listed()
    os.remove(path("account/token"))
    client.logs("using the credentials read before")
    server.patch("/api/v1/namespaces/shop/services/web", {"spec": {"type": "NodePort"}})
    client.converged()


def token_file():
    """tokenFile of a kubeconfig, relative to it"""
    server = Server()
    write("the-token", TOKEN + "\n")
    start(server, config(server, authority(server), "tokenFile: the-token\ntoken: wrong")).listed().converged()


# ---- certificates


def unknown_authority():
    """a server certificate of another authority: what failed is said; right once the file is right"""
    server = Server()
    os.makedirs(path("other"), exist_ok=True)
    pki.authority(path("other"))
    client = start(server, account(server, ca=read(path("other/ca.crt"))) + ["--api-server", server.url])
    client.logs("server certificate not accepted: SSL certificate problem")
    client.logs(server.url)
    expect("answers", client.dump(), [])
    expect("requests that a stranger saw", server.log(), [])
    write("account/ca.crt", read(os.path.join(server.dir, "ca.crt")))
    client.listed().converged()


def wrong_name():
    """a certificate for another name; tls-server-name says which"""
    server = Server("--name", "standin.example")
    crt = pki.certificate(server.dir, "other-name", "/CN=x", ["subjectAltName=DNS:standin.example"])[1]
    port = server.port
    server.stop()
    server = Server("--server-certificate", crt, port=port, name="other")
    client = start(server, config(server, authority(server), "token: " + TOKEN))
    client.logs("server certificate not accepted: SSL: no alternative certificate subject name matches target host name '127.0.0.1'")
    client.stop()
    client = start(server, config(server, authority(server) + "\ntls-server-name: standin.example", "token: " + TOKEN))
    client.listed()


def expired():
    """a certificate whose time is over"""
    server = Server()
    crt = pki.certificate(server.dir, "expired", "/CN=x", ["subjectAltName=IP:127.0.0.1"], days="-1")[1]
    port = server.port
    server.stop()
    server = Server("--server-certificate", crt, port=port, name="other")
    client = start(server, config(server, authority(server), "token: " + TOKEN))
    client.logs("certificate has expired")


def insecure():
    """nothing is verified only where the file says so, and the log says it too"""
    server = Server()
    client = start(server, config(server, "", "token: " + TOKEN))
    client.logs("SSL certificate problem")
    client.stop()
    client = start(server, config(server, "insecure-skip-tls-verify: true", "token: " + TOKEN)).listed()
    client.logs("its certificate is NOT verified")


def client_certificate():
    """a client certificate from files, replaced while it runs"""
    server = Server()
    for name in ("admin.crt", "admin.key"):
        shutil.copy(os.path.join(server.dir, name), path(name))
    client = start(server, config(server, authority(server), "client-certificate: admin.crt\nclient-key: admin.key") +
                   ["--watch-s", "1"]).listed()
    expect("users", {e["user"] for e in server.log() if "user" in e}, {"admin"})
    key, crt = pki.certificate(server.dir, "second", "/CN=second", ["extendedKeyUsage=clientAuth"])
    write("admin.key", read(key))
    write("admin.crt", read(crt))
    client.logs("has changed and was read again")
    server.done("POST", "/standin/cut")
    wait("the new certificate", lambda: "second" in {e.get("user") for e in server.log()})
    client.converged()


# ---- what is refused


def plugins():
    """credential plugins are refused, with what to use instead"""
    server = Server()
    refused(server, config(server, authority(server), "exec:\n  apiVersion: client.authentication.k8s.io/v1\n  command: aws"),
            "user 'u': exec: credential plugins are not supported; use a client certificate, token or tokenFile")


def nothing():
    """no kubeconfig, no pod: said, with what is missing"""
    server = Server()
    refused(server, [], "--kubeconfig, KUBECONFIG and --api-server are not given")
    refused(server, ["--kubeconfig", path("none")], path("none"))
    refused(server, config(server, "certificate-authority: missing.crt"), "missing.crt")
    refused(server, config(server, url="http://127.0.0.1:1"), "value 'http://127.0.0.1:1', expected a URL such as https://")


def environment():
    """KUBECONFIG, a list of files"""
    server = Server()
    config(server, authority(server), "token: " + TOKEN)
    write("first", "apiVersion: v1\nkind: Config\nusers:\n- name: u\n  user:\n    token: %s\n" % TOKEN)
    start(server, [], env={"KUBECONFIG": ":".join((path("missing"), path("first"), path("kubeconfig")))}).listed()


TESTS = [in_cluster, override, over_ipv6, token_rotates, kubeconfig_changes, token_vanishes, token_file, unknown_authority, wrong_name, expired, insecure,
         client_certificate, plugins, nothing, environment]

if __name__ == "__main__":
    sys.exit(run(TESTS))

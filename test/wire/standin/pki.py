# SPDX-License-Identifier: Apache-2.0
"""Certificates by openssl(1), and kubeconfig files that use them."""
import base64
import os
import subprocess


def openssl(*args, **kwargs):
    subprocess.run(["openssl", *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kwargs)


def authority(directory, name="ca"):
    key, crt = os.path.join(directory, name + ".key"), os.path.join(directory, name + ".crt")
    if not os.path.exists(crt):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650",
                "-subj", "/CN=stand-in " + name, "-addext", "basicConstraints=critical,CA:TRUE", "-keyout", key, "-out", crt)
    return key, crt


def certificate(directory, name, subject, extensions, ca="ca", days="365"):
    key, crt, csr, ext = (os.path.join(directory, name + e) for e in (".key", ".crt", ".csr", ".ext"))
    if os.path.exists(crt):
        return key, crt
    ca_key, ca_crt = authority(directory, ca)
    with open(ext, "w") as f:
        f.write("\n".join(extensions) + "\n")
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", subject,
            "-keyout", key, "-out", csr)
    openssl("x509", "-req", "-in", csr, "-CA", ca_crt, "-CAkey", ca_key, "-days", days, "-extfile", ext,
            "-CAcreateserial", "-out", crt)
    return key, crt


def server(directory, names):
    alt = ",".join(("IP:" if n.replace(".", "").isdigit() or ":" in n else "DNS:") + n for n in names)
    return certificate(directory, "server", "/CN=stand-in", ["subjectAltName=" + alt, "extendedKeyUsage=serverAuth"])


def client(directory):
    return certificate(directory, "admin", "/O=system:masters/CN=admin", ["extendedKeyUsage=clientAuth"])


def inline(path):
    with open(path, "rb") as f:
        return base64.b64encode(f.read()).decode()


def kubeconfig(directory, url):
    """For kubectl and for agents: everything inline, so that the file can be moved."""
    key, crt = client(directory)
    with open(os.path.join(directory, "kubeconfig"), "w") as f:
        f.write("""apiVersion: v1
kind: Config
clusters:
- name: stand-in
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: admin
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: stand-in
  context:
    cluster: stand-in
    user: admin
current-context: stand-in
""" % (url, inline(os.path.join(directory, "ca.crt")), inline(crt), inline(key)))

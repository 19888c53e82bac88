# SPDX-License-Identifier: Apache-2.0
"""Start a stand-in and a client (follow), wait for conditions with a bound, print TAP."""
import atexit
import contextlib
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FOLLOW = os.environ.get("MK_FOLLOW") or os.path.join(ROOT, "build/test/wire/follow")
TOKEN = "secret-token-one"
WAIT_S = 20

TMP = tempfile.mkdtemp(prefix="monokube-wire.")
atexit.register(shutil.rmtree, TMP, True)
running = []
atexit.register(lambda: [thing.process.kill() for thing in running])


class Wrong(Exception):
    pass


def wait(what, condition, seconds=WAIT_S):
    """The first true value of @condition; there is no other way to pass time here."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Wrong("%s: not within %d s" % (what, seconds))
        time.sleep(0.02)


def expect(what, got, want):
    if got != want:
        raise Wrong("%s: got %r, expected %r" % (what, got, want))


class Server:
    def __init__(self, *args, name="server", recorded=True, port=0, pki="pki"):
        self.dir = os.path.join(TMP, pki)  # the same certificates for all: making them takes longest
        self.ready = os.path.join(self.dir, "ready")
        self.errors = open(os.path.join(TMP, name + ".err"), "a+")
        if os.path.exists(self.ready):
            os.remove(self.ready)
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "apiserver"), "--dir", self.dir, "--token", TOKEN, "--port", str(port)]
            + (["--recorded"] if recorded else []) + list(args), stderr=self.errors)
        running.append(self)
        wait("the stand-in's start", lambda: os.path.exists(self.ready) or self.process.poll() is not None)
        if self.process.poll() is not None:
            self.errors.seek(0)
            raise Wrong("the stand-in does not start: " + self.errors.read())
        with open(self.ready) as f:
            self.url = f.read().strip()
        self.host = self.url[len("https://"):].rpartition(":")[0].strip("[]")
        self.port = int(self.url.rpartition(":")[2])
        self.tls = ssl.create_default_context(cafile=os.path.join(self.dir, "ca.crt"))

    def exchange(self, method, path, body=None, kind="application/json", token=TOKEN):
        connection = http.client.HTTPSConnection(self.host, self.port, context=self.tls, timeout=WAIT_S)
        connection.request(method, path, json.dumps(body) if body is not None else None,
                           {"Authorization": "Bearer " + token, "Content-Type": kind})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, text

    def request(self, method, path, body=None, kind="application/json"):
        status, text = self.exchange(method, path, body, kind)
        return status, json.loads(text) if text.startswith((b"{", b"[")) else text

    def done(self, method, path, body=None, kind="application/json"):
        status, answer = self.request(method, path, body, kind)
        if status not in (200, 201):
            raise Wrong("%s %s: HTTP status %d: %s" % (method, path, status, answer))
        return answer

    def patch(self, path, body):
        return self.done("PATCH", path, body, "application/merge-patch+json")

    def faults(self, *faults):
        self.done("POST", "/standin/faults", list(faults))

    def settings(self, **settings):
        self.done("POST", "/standin/settings", settings)

    def log(self):
        return self.done("GET", "/standin/log")

    def asked(self, path, **query):
        """The requests for @path with these parameters."""
        return [e for e in self.log() if e["path"].endswith(path) and
                all(e["query"].get(k) == v if v else k not in e["query"] for k, v in query.items())]

    def dump(self):
        return self.done("GET", "/standin/dump")

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.errors.close()


class Relay:
    """A load balancer in front of the server. frozen: it holds the connections that it has, and nothing
    passes on them any more; new ones work."""
    def __init__(self, port):
        self.port, self.frozen, self.pairs = port, set(), []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "https://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client = self.listener.accept()[0]
            server = socket.create_connection(("127.0.0.1", self.port))
            self.pairs.append((client, server))
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self.copy, args=pair, daemon=True).start()

    def copy(self, source, sink):
        try:
            while data := source.recv(1 << 16):
                if source not in self.frozen:
                    sink.sendall(data)
        except OSError:
            pass
        if source not in self.frozen:
            for end in (source, sink):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def freeze(self):
        self.frozen.update(end for pair in self.pairs for end in pair)


class Follow:
    may_fail = False
    count = 0

    def __init__(self, server, *args, kubeconfig=True, env=None):
        Follow.count += 1
        name = "follow-%d" % Follow.count
        self.server = server
        self.dump_path = os.path.join(TMP, name + ".dump")
        self.errors = open(os.path.join(TMP, name + ".err"), "w+")
        command = [FOLLOW, "--dump", self.dump_path, "--backoff-min-ms", "50", "--backoff-max-ms", "400"]
        if kubeconfig:
            command += ["--kubeconfig", os.path.join(server.dir, "kubeconfig")]
        environment = {k: v for k, v in os.environ.items() if k != "KUBECONFIG" and not k.startswith("KUBERNETES_")}
        self.process = subprocess.Popen(command + list(args), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True,
                                        env=dict(environment, **(env or {})))
        self.lines, self.stopped = [], False
        threading.Thread(target=self.read, daemon=True).start()
        running.append(self)

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def said(self):
        """Return the lines that the client logged."""
        with open(self.errors.name) as f:
            return f.read()

    def dump(self):
        try:
            with open(self.dump_path) as f:
                return f.read().split("\n")
        except FileNotFoundError:
            return []

    def listed(self):
        wait("the first list", lambda: self.alive() and "listed" in self.lines)
        return self

    def wants(self, letters):
        """Choose what is followed; see follow.c."""
        self.process.stdin.write(letters)
        self.process.stdin.flush()

    def alive(self):
        if self.process.poll() is not None:
            raise Wrong("the client has ended with status %d" % self.process.returncode)
        return True

    def converged(self, what="the model"):
        """It holds exactly what the server has."""
        try:
            wait(what, lambda: self.alive() and self.dump() == self.server.dump())
        except Wrong:
            want, have = set(self.server.dump()), set(self.dump())
            raise Wrong("%s differs: missing %s, too many %s" % (what, sorted(want - have)[:5], sorted(have - want)[:5])) from None

    def logs(self, text):
        wait("the line '%s' in the log" % text, lambda: text in self.said())

    def stop(self):
        """Ended in order: with the sanitizers, a leak fails here."""
        if self.stopped:
            return
        self.stopped = True
        if self.process.poll() is None:
            self.process.terminate()
        try:
            status = self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        text = self.said()
        self.errors.close()
        if TOKEN in text or "secret-token" in text:
            raise Wrong("a token is in the log")
        if status != 0 and not self.may_fail:
            raise Wrong("the client ends with status %d: %s" % (status, text[-3000:]))


def explain():
    for thing in running:
        if isinstance(thing, Follow):
            for line in thing.said().splitlines()[-25:]:
                print("#   " + line)


def attempt(test):
    """None, or what is wrong; everything started is ended, which may be what is wrong."""
    problem = None
    try:
        test()
    except Exception as e:  # whatever it is, the test has failed
        problem = str(e) if isinstance(e, Wrong) else traceback.format_exc()
        explain()
    for thing in reversed(running):
        try:
            thing.stop()
        except Wrong as e:
            problem = problem or str(e)
    running.clear()
    return problem


def run(tests):
    only = sys.argv[1:]
    tests = [t for t in tests if not only or any(o in t.__name__ for o in only)]
    failed = 0
    for number, test in enumerate(tests, 1):
        began = time.monotonic()
        problem = attempt(test)
        print("%sok %d - %s" % ("not " if problem else "", number, test.__doc__))
        for line in (problem or "").splitlines():
            print("# " + line)
        print("# %.1f s" % (time.monotonic() - began), flush=True)
        failed += bool(problem)
    print("1..%d" % len(tests))
    return 1 if failed else 0

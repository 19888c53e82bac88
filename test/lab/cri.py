#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""cri.py SOCKET METHOD [JSON] - a call of the Container Runtime Interface (runtime.v1.RuntimeService), as the
kubelet makes it. Prints the answer as JSON; on an error prints `CODE: text` and ends with status 1.

cri.py SOCKET --many: one call for each line `METHOD JSON` of standard input, all at the same time. Prints for each,
in their order, the answer in one line or `CODE: text`."""
import concurrent.futures
import json
import subprocess
import sys
from pathlib import Path

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

SECONDS = 60
PROTO = Path(__file__).with_name("cri.proto")


def service():
    """The description of RuntimeService, from the interface's own file."""
    said = subprocess.run(["protoc", f"-I{PROTO.parent}", "--descriptor_set_out=/dev/stdout", PROTO.name],
                          check=True, capture_output=True).stdout
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(said).file:
        pool.Add(file)
    return pool.FindServiceByName("runtime.v1.RuntimeService")


class Runtime:
    def __init__(self, socket):
        self.service = service()
        self.messages = message_factory.MessageFactory()
        self.channel = grpc.insecure_channel("unix:" + socket, options=[("grpc.enable_http_proxy", 0)])

    def call(self, method, request):
        """The answer as a tree."""
        about = self.service.methods_by_name[method]
        question, answer = map(self.messages.GetPrototype, (about.input_type, about.output_type))
        ask = self.channel.unary_unary(f"/{self.service.full_name}/{method}", question.SerializeToString, answer.FromString)
        said = ask(json_format.ParseDict(request, question()), timeout=SECONDS, wait_for_ready=False)
        return json_format.MessageToDict(said, preserving_proto_field_name=True)

    def line(self, text):
        """What is printed about one call, and whether it succeeded."""
        method, _, request = text.strip().partition(" ")
        try:
            return json.dumps(self.call(method, json.loads(request or "{}"))), True
        except grpc.RpcError as err:
            return f"{err.code().name}: {err.details()}".replace("\n", " "), False


def main(socket, *words):
    runtime = Runtime(socket)
    lines = sys.stdin.read().splitlines() if words == ("--many",) else [" ".join(words)]
    with concurrent.futures.ThreadPoolExecutor(max(1, len(lines))) as crowd:
        said = list(crowd.map(runtime.line, lines))
    for text, _ in said:
        print(text)
    return 0 if words == ("--many",) or all(ok for _, ok in said) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

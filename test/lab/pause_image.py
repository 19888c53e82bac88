#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""pause_image.py PROGRAM ARCHIVE - an OCI archive, localhost/pause:1, with one static program as /pause."""
import gzip
import hashlib
import json
import os
import shutil
import sys
import tempfile
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

BUILD = Path(__file__).resolve().parents[2] / "manifests/image/build"
NAME = "localhost/pause:1"


def image_build():
    """manifests/image/build as a module."""
    sys.dont_write_bytecode = True
    loader = SourceFileLoader("image_build", str(BUILD))
    module = module_from_spec(spec_from_loader("image_build", loader))
    loader.exec_module(module)
    return module


def main(program, path):
    build = image_build()
    with tempfile.TemporaryDirectory() as root:
        shutil.copy(program, Path(root) / "pause")
        plain = build.layer(Path(root))
    archive = build.Archive()
    config = archive.document("config.v1+json", {
        "architecture": build.MACHINES[os.uname().machine], "os": "linux", "config": {"Entrypoint": ["/pause"]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(plain).hexdigest()]}})
    layers = [archive.blob("layer.v1.tar+gzip", gzip.compress(plain, 1, mtime=0))]
    manifest = archive.document("manifest.v1+json", {
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": layers})
    named = dict(manifest, annotations={"io.containerd.image.name": NAME, "org.opencontainers.image.ref.name": NAME})
    archive.files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [named]}).encode()
    archive.write(path)


if __name__ == "__main__":
    main(*sys.argv[1:])

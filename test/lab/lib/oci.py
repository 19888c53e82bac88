#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""oci.py ARCHIVE DIR - check an OCI image layout in a tar file (image-spec v1: every digest and size) and
unpack its layers into DIR. Prints the digest of the manifest."""
import gzip
import hashlib
import io
import json
import sys
import tarfile


def main(path, directory):
    with tarfile.open(path) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar.getmembers() if m.isfile()}

    def blob(descriptor):
        kind, _, digest = descriptor["digest"].partition(":")
        data = files[f"blobs/{kind}/{digest}"]
        assert hashlib.new(kind, data).hexdigest() == digest, f"{digest} is another file's digest"
        assert len(data) == descriptor["size"], f"{digest}: {len(data)} bytes, expected {descriptor['size']}"
        return data
    assert json.loads(files["oci-layout"])["imageLayoutVersion"] == "1.0.0"
    index = json.loads(files["index.json"])
    assert len(index["manifests"]) == 1, "more than one image"
    manifest = json.loads(blob(index["manifests"][0]))
    config = json.loads(blob(manifest["config"]))
    for item, digest in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
        plain = gzip.decompress(blob(item))
        assert "sha256:" + hashlib.sha256(plain).hexdigest() == digest, "diff_ids are another layer's"
        with tarfile.open(fileobj=io.BytesIO(plain)) as layer:
            layer.extractall(directory)
    assert config["config"]["Entrypoint"] == ["/usr/bin/monokube"] and config["os"] == "linux"
    print(index["manifests"][0]["digest"])


if __name__ == "__main__":
    main(*sys.argv[1:])

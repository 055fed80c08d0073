"""Images made by hand hold what containerd reads, and the same files are the same image."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile

from e2e.cluster.images import File, Image, archive, python_image


def opened(content: bytes) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(content))


def member(tar: tarfile.TarFile, name: str) -> bytes:
    found = tar.extractfile(name)
    assert found is not None
    return found.read()


def test_manifest_config_and_layer_belong_together() -> None:
    # Given an image with one file and a link
    image = Image("local/tool:1", [File("bin/tool", b"\x7fELF"), File("lib", link="usr/lib")], ["/bin/tool"])
    # When it is archived
    tar = opened(archive(image))
    # Then the tag is the full name, and the configuration names the layer by its digest
    manifest = json.loads(member(tar, "manifest.json"))[0]
    config_text = member(tar, manifest["Config"])
    layer = member(tar, manifest["Layers"][0])
    assert manifest["RepoTags"] == ["docker.io/local/tool:1"]
    assert manifest["Config"] == hashlib.sha256(config_text).hexdigest() + ".json"
    assert json.loads(config_text)["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest()]
    assert json.loads(config_text)["config"]["Entrypoint"] == ["/bin/tool"]
    assert opened(layer).getmember("lib").linkname == "usr/lib"


def test_the_same_files_are_the_same_image_at_any_time() -> None:
    # Given the same image twice, Then its bytes are equal: no time stamp goes in
    assert archive(python_image("local/x:1")) == archive(python_image("local/x:1"))


def test_the_python_image_has_a_user_that_can_write_its_home_and_tmp() -> None:
    # Given the image for pods whose programs are mounted
    tar = opened(archive(python_image("local/x:1")))
    manifest = json.loads(member(tar, "manifest.json"))[0]
    run = json.loads(member(tar, manifest["Config"]))["config"]
    layer = opened(member(tar, manifest["Layers"][0]))
    # Then it runs as user 1000, who owns the home; everyone may write /tmp; mount points exist
    assert run["User"] == "1000:1000"
    assert layer.getmember("home/app").uid == 1000
    assert layer.getmember("tmp").mode == 0o1777
    assert layer.getmember("usr").isdir()
    assert b"app:x:1000:1000:app:/home/app" in member(layer, "etc/passwd")

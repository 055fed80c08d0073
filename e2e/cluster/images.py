"""Container images made by hand: a tar with a manifest, a configuration and one layer."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

USER = 1000
HOME = "/home/app"
VLLM_CACHE = f"{HOME}/.cache/vllm"
REGISTRY = "docker.io"  # the name that containerd puts before a short one

PASSWD = f"root:x:0:0:root:/:/bin/sh\napp:x:{USER}:{USER}:app:{HOME}:/bin/sh\n"
GROUP = f"root:x:0:\napp:x:{USER}:\n"
NSSWITCH = "passwd: files\ngroup: files\nhosts: files dns\n"


@dataclass(frozen=True)
class File:
    """One entry of a layer: a file with content, a link with a target, or a folder."""

    path: str
    content: bytes | None = None
    link: str | None = None
    mode: int = 0o755
    owner: int = 0

    def header(self) -> tarfile.TarInfo:
        """The tar header; the time is zero, so that the same files are the same image."""
        info = tarfile.TarInfo(self.path.lstrip("/"))
        info.mode, info.uid, info.gid = self.mode, self.owner, self.owner
        if self.link is not None:
            info.type, info.linkname = tarfile.SYMTYPE, self.link
        elif self.content is None:
            info.type = tarfile.DIRTYPE
        else:
            info.size = len(self.content)
        return info


@dataclass(frozen=True)
class Image:
    """A whole image: its short name, its files and how it starts."""

    name: str
    files: Sequence[File]
    entrypoint: Sequence[str] = ()
    user: str = ""
    environment: Sequence[str] = field(default=())
    folder: str = "/"


def layer(files: Sequence[File]) -> bytes:
    """The layer as an uncompressed tar."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file in files:
            tar.addfile(file.header(), io.BytesIO(file.content) if file.content is not None else None)
    return out.getvalue()


def archive(image: Image) -> bytes:
    """The image in the form that `docker save` writes and `ctr images import` reads."""
    content = layer(image.files)
    digest = hashlib.sha256(content).hexdigest()
    run = {
        "Entrypoint": list(image.entrypoint),
        "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", *image.environment],
        "WorkingDir": image.folder,
        "User": image.user,
    }
    config = json.dumps({
        "architecture": "amd64",
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": run,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }).encode()  # fmt: skip
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    tag = f"{REGISTRY}/{image.name}"
    manifest = [{"Config": config_name, "RepoTags": [tag], "Layers": ["layer.tar"]}]
    return layer([
        File("manifest.json", json.dumps(manifest).encode(), mode=0o644),
        File(config_name, config, mode=0o644),
        File("layer.tar", content, mode=0o644),
    ])  # fmt: skip


def pause_image(name: str, program: Path) -> Image:
    """The image that holds a pod's namespaces."""
    return Image(name, [File("pause", program.read_bytes())], ["/pause"], user="65535:65535")


def system_links() -> list[File]:
    """`/bin`, `/lib`, `/lib64` and `/sbin` as this host has them: links into `/usr`, which pods mount."""
    names = ("bin", "lib", "lib64", "sbin")
    return [File(name, link=os.readlink(f"/{name}")) for name in names if Path("/", name).is_symlink()]


def python_image(name: str) -> Image:
    """A nearly empty image with a user; the programs come from the host's folders by read-only mounts."""
    files = [
        *(File(folder) for folder in ("usr", "etc", "proc", "sys", "dev", "models", "home", "root")),
        File("tmp", mode=0o1777),
        *(File(folder, owner=USER) for folder in (HOME, f"{HOME}/.cache", VLLM_CACHE, f"{VLLM_CACHE}/modelinfos")),
        File("etc/passwd", PASSWD.encode(), mode=0o644),
        File("etc/group", GROUP.encode(), mode=0o644),
        File("etc/nsswitch.conf", NSSWITCH.encode(), mode=0o644),
        *system_links(),
    ]
    return Image(name, files, user=f"{USER}:{USER}", environment=[f"HOME={HOME}"], folder=HOME)

"""A revision: what a user's spec means here, rendered once and stored.

Everything that a pod of the revision needs is in `data`, so that neither an upgraded operator nor a changed profile
can change a pod that runs: only a new spec, or a `refresh`, renders again.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tailguard_operator.api.engine import Engine
from tailguard_operator.api.service import InferenceServiceSpec
from tailguard_operator.resources.overlay import merge
from tailguard_operator.resources.owner import MANAGER, MANAGER_LABEL, REVISION_LABEL, SERVICE_LABEL, Owner
from tailguard_operator.resources.profile import Installation, Profile
from tailguard_runtime.engines import CONTAINER_NAME, EngineInput, EngineRendering, adapter_for

SCHEMA = 1
"""Version of the layout of `data`."""
QUANTIZATION_FLAG = "--quantization"
_HASH_LENGTH = 8


@dataclass(frozen=True, slots=True)
class Pins:
    """What the sources said when they were asked; whatever did not answer stays as it was written."""

    image_digest: str = ""
    """Such as `sha256:…`."""
    model_commit: str = ""
    model_config: Mapping[str, Any] | None = None
    """The model's config.json, for its context length."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A rendered revision: its name, the hash of what the user wrote, and the data to store."""

    revision: str
    spec_hash: str
    data: dict[str, Any]


def spec_hash(spec: InferenceServiceSpec, refresh: str | None) -> str:
    """8 hex digits of what the user wrote under `model` and `engine`, and of the handled `refresh` token.

    Fields that say nothing (`kernels: []`, `resources: {}`) count as left out.
    """
    engine = spec.engine.to_object() if spec.engine else {}
    written: dict[str, Any] = {"model": spec.model.to_object(), "engine": {k: v for k, v in engine.items() if v}}
    return _hash(written | ({"refresh": refresh} if refresh else {}))


def engine_image(spec: InferenceServiceSpec, installation: Installation) -> str:
    """The image that the engine's container runs, as written: the one to ask the registry about.

    Raises:
        KeyError: there is no such profile.
    """
    engine = spec.engine or Engine()
    containers = ((engine.template or {}).get("spec") or {}).get("containers") or []
    written = [str(c["image"]) for c in containers if c.get("name") == CONTAINER_NAME and c.get("image")]
    return written[0] if written else installation.profile(engine.profile).image


def engine_input(name: str, spec: InferenceServiceSpec, installation: Installation, pins: Pins) -> EngineInput:
    """What the engine's adapter needs to know of the service `name`.

    Raises:
        KeyError: there is no such profile.
    """
    engine = spec.engine or Engine()
    profile = installation.profile(engine.profile)
    return EngineInput(
        service=name,
        model_uri=spec.model.uri,
        model_revision=pins.model_commit or spec.model.revision or "",
        served_name=spec.model.served_name or "",
        image=_pinned(engine_image(spec, installation), pins.image_digest),
        version=profile.version,
        command=tuple(profile.command),
        profile_args=tuple(profile.args),
        args=(*_quantization_args(engine), *(engine.args or ())),
        env=tuple(profile.env),
        resources=_resources(profile, engine),
        guard_image=installation.runtime_image,
        python=profile.python,
        model_bytes=profile.model_bytes,
    )


def render(
    name: str, spec: InferenceServiceSpec, installation: Installation, pins: Pins, refresh: str | None
) -> Rendered:
    """The revision of a valid `spec`. The same input always gives the same revision.

    `data` holds: `schema`, `specHash`, `servedName`, `startupSeconds`, `contextLength` (tokens; left out when not
    known), `engine` (type, version, profile), `image`, `pins`, `manifest` (facts of the environment, R-171) and
    `template` (the pod template with the labels of service and revision).

    Raises:
        KeyError: there is no such profile.
        ModelUriError: `model.uri` can't be read.
        OverlayError: a template can't be merged.
    """
    engine = spec.engine or Engine()
    profile = installation.profile(engine.profile)
    request = engine_input(name, spec, installation, pins)
    adapter = adapter_for(profile.type)
    rendering = adapter.render(request)
    context_length = adapter.context_length(rendering.args, pins.model_config)
    hashed = spec_hash(spec, refresh)
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "specHash": hashed,
        "servedName": rendering.served_name,
        "startupSeconds": rendering.startup_seconds,
        "engine": {
            "type": profile.type.value,
            "version": profile.version,
            "profile": engine.profile or installation.default_profile,
        },
        "image": request.image,
        "pins": {"imageDigest": pins.image_digest, "modelCommit": pins.model_commit},
        "manifest": dict(rendering.manifest),
        "template": _pod_template(rendering, request.image, installation, profile, engine),
    }
    if context_length is not None:
        data["contextLength"] = context_length
    revision = _hash({"service": name, **data})
    data["template"] = _labelled(data["template"], name, revision)
    return Rendered(revision, hashed, data)


def controller_revision(owner: Owner, rendered: Rendered) -> dict[str, Any]:
    """The ControllerRevision that keeps `rendered`, named SERVICE-REVISION."""
    labels = {SERVICE_LABEL: owner.name, REVISION_LABEL: rendered.revision}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": owner.metadata(f"{owner.name}-{rendered.revision}", labels),
        "revision": 1,
        "data": rendered.data,
    }


def _pod_template(
    rendering: EngineRendering, image: str, installation: Installation, profile: Profile, engine: Engine
) -> dict[str, Any]:
    template: dict[str, Any] = {"spec": rendering.pod_spec()}
    template = merge(template, installation.guard_template, "guardTemplate")
    template = merge(template, profile.template, "profile.template")
    template = merge(template, engine.template or {}, "spec.engine.template")
    spec = template["spec"]
    containers = [_explained(c) for c in spec["containers"]]
    spec["containers"] = [c | {"image": image} if c["name"] == CONTAINER_NAME else c for c in containers]
    if spec.get("initContainers"):
        spec["initContainers"] = [_explained(c) for c in spec["initContainers"]]
    return template


def _explained(container: Mapping[str, Any]) -> dict[str, Any]:
    """`container` with its last log lines as termination message, so that a rejection says the pod's own reason."""
    return {"terminationMessagePolicy": "FallbackToLogsOnError", **container}


def _labelled(template: Mapping[str, Any], service: str, revision: str) -> dict[str, Any]:
    labels = {SERVICE_LABEL: service, REVISION_LABEL: revision, MANAGER_LABEL: MANAGER}
    return merge(template, {"metadata": {"labels": labels}})


def _quantization_args(engine: Engine) -> tuple[str, ...]:
    return (f"{QUANTIZATION_FLAG}={engine.quantization}",) if engine.quantization else ()


def _resources(profile: Profile, engine: Engine) -> dict[str, Any]:
    base = profile.resources.to_object() if profile.resources else {}
    return merge(base, engine.resources.to_object() if engine.resources else {}, "spec.engine.resources")


def _pinned(image: str, digest: str) -> str:
    return f"{image}@{digest}" if digest and "@" not in image else image


def _hash(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]

"""What a user's pod overlay may not do: mount a node's path, or override what Tailguard manages."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from tailguard_operator.api.base import GROUP, FieldProblem
from tailguard_operator.resources.owner import MANAGER_LABEL
from tailguard_runtime.engines import CONTAINER_NAME, PROBE_PORT, SERVING_PORT

FIELD = "spec.engine.template"
_OWN_VOLUMES = frozenset({"guard", "state"})
_OWN_INIT_CONTAINERS = frozenset({"guard", "fetch-model"})
_FETCH_OPEN = frozenset({"name", "env", "resources"})
"""What a user may say of the container that fetches the model: a token for the hub, and its size."""
_OWN_PATH = "/tailguard"
_ACCOUNT_SUFFIX = "-tailguard-benchmark"

_POD_MANAGED: Mapping[str, str] = {
    "nodeName": "it bypasses the scheduler; use nodeSelector",
    "hostNetwork": "pods of two revisions run side by side on a node and listen on the same ports; leave it out",
    "hostPID": "an engine may not see its node's processes; leave it out",
    "hostIPC": "an engine may not share its node's memory; leave it out",
    "restartPolicy": "Tailguard manages it; leave it out",
    "enableServiceLinks": "Tailguard manages it (a Service named vllm would break the engine); leave it out",
    "terminationGracePeriodSeconds": "it follows from the longest request; leave it out",
}
_ENGINE_MANAGED: Mapping[str, str] = {
    "args": "write flags into spec.engine.args, where they are checked",
    "command": "the profile says it; ask who runs this installation for another profile",
    "resources": "write them into spec.engine.resources",
    "startupProbe": "Tailguard probes with real generations; leave it out",
    "readinessProbe": "Tailguard knows a draining engine; leave it out",
    "livenessProbe": "Tailguard tells a hung engine from a busy one; leave it out",
    "lifecycle": "Tailguard drains the engine before it ends; leave it out",
    "terminationMessagePolicy": "a rejection quotes the engine's last lines; leave it out",
}
_ENV_MANAGED = ("PYTHONPATH",)
# fmt: off
_POD_FIELDS = frozenset({
    "activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "containers", "dnsConfig", "dnsPolicy",
    "enableServiceLinks", "ephemeralContainers", "hostAliases", "hostIPC", "hostNetwork", "hostPID",
    "hostUsers", "hostname", "hostnameOverride", "imagePullSecrets", "initContainers", "nodeName",
    "nodeSelector", "os", "overhead", "preemptionPolicy", "priority", "priorityClassName", "readinessGates",
    "resourceClaims", "resources", "restartPolicy", "runtimeClassName", "schedulerName", "schedulingGates",
    "securityContext", "serviceAccount", "serviceAccountName", "setHostnameAsFQDN", "shareProcessNamespace",
    "subdomain", "terminationGracePeriodSeconds", "tolerations", "topologySpreadConstraints", "volumes",
})
# fmt: on
"""Fields of a PodSpec in Kubernetes 1.34."""


def check_template(template: Mapping[str, Any]) -> Iterator[FieldProblem]:
    """Everything that `template`, a user's pod overlay of the right shape, may not say."""
    yield from _unknown(template, frozenset({"metadata", "spec"}), FIELD)
    metadata = _mapping(template, "metadata")
    yield from _unknown(metadata, frozenset({"labels", "annotations"}), f"{FIELD}.metadata")
    for kind in ("labels", "annotations"):
        yield from _managed_names(_mapping(metadata, kind), f"{FIELD}.metadata.{kind}")
    yield from _check_pod(_mapping(template, "spec"), f"{FIELD}.spec")


def _check_pod(spec: Mapping[str, Any], field: str) -> Iterator[FieldProblem]:
    yield from _unknown(spec, _POD_FIELDS, field)
    yield from _refused(spec, _POD_MANAGED, field)
    for name in ("serviceAccountName", "serviceAccount"):
        if str(spec.get(name, "")).endswith(_ACCOUNT_SUFFIX):
            allowed = f"accounts *{_ACCOUNT_SUFFIX} belong to benchmark pods; use another account"
            yield FieldProblem(f"{field}.{name}", repr(spec[name]), allowed)
    for where, volume in _items(spec, "volumes", field):
        yield from _check_volume(volume, where)
    for where, container in _items(spec, "initContainers", field):
        yield from _check_init_container(container, where)
        yield from _check_container(container, where)
    for where, container in _items(spec, "containers", field):
        own = container.get("name") == CONTAINER_NAME
        yield from _check_engine(container, where) if own else _check_sidecar(container, where)
        yield from _check_container(container, where)


def _check_volume(volume: Mapping[str, Any], field: str) -> Iterator[FieldProblem]:
    yield from _reserved(volume, _OWN_VOLUMES, field)
    if "hostPath" in volume:
        allowed = "a service can't mount a path of its node; use a claim, or ask for a profile that does"
        yield FieldProblem(f"{field}.hostPath", str(volume["hostPath"]), allowed)


def _check_engine(container: Mapping[str, Any], field: str) -> Iterator[FieldProblem]:
    yield from _refused(container, _ENGINE_MANAGED, field)
    if "$patch" in container:
        yield FieldProblem(f"{field}.$patch", repr(container["$patch"]), "the engine can't be removed; leave it out")
    for where, entry in _items(container, "env", field):
        name = str(entry.get("name", ""))
        if name in _ENV_MANAGED or name.startswith("TAILGUARD_"):
            yield FieldProblem(f"{where}.name", repr(name), "Tailguard sets this variable; leave it out")
    for where, mount in _items(container, "volumeMounts", field):
        path = str(mount.get("mountPath", "")).rstrip("/")
        if path == _OWN_PATH or path.startswith(f"{_OWN_PATH}/"):
            allowed = f"paths under {_OWN_PATH} are Tailguard's own; mount it elsewhere"
            yield FieldProblem(f"{where}.mountPath", repr(path), allowed)


def _check_init_container(container: Mapping[str, Any], field: str) -> Iterator[FieldProblem]:
    if container.get("name") != "fetch-model" or not container.keys() <= _FETCH_OPEN:
        yield from _reserved(container, _OWN_INIT_CONTAINERS, field)


def _check_sidecar(container: Mapping[str, Any], field: str) -> Iterator[FieldProblem]:
    for where, port in _items(container, "ports", field):
        if port.get("containerPort") in (SERVING_PORT, PROBE_PORT):
            allowed = f"the engine's pod serves on {SERVING_PORT} and {PROBE_PORT}; use another port"
            yield FieldProblem(f"{where}.containerPort", str(port["containerPort"]), allowed)


def _check_container(container: Mapping[str, Any], field: str) -> Iterator[FieldProblem]:
    if _mapping(container, "securityContext").get("privileged"):
        allowed = "a privileged container reaches its node's disks; leave it out, or ask for a profile that does"
        yield FieldProblem(f"{field}.securityContext.privileged", "true", allowed)
    for where, port in _items(container, "ports", field):
        if "hostPort" in port:
            allowed = "pods of two revisions run side by side on a node; leave hostPort out"
            yield FieldProblem(f"{where}.hostPort", str(port["hostPort"]), allowed)
    for where, mount in _items(container, "volumeMounts", field):
        yield from _reserved(mount, _OWN_VOLUMES, where)


def _unknown(found: Mapping[str, Any], known: frozenset[str], field: str) -> Iterator[FieldProblem]:
    for name in found:
        if name not in known and not name.startswith("$"):
            near = get_close_matches(name, known, 1, 0.6)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(known))}"
            yield FieldProblem(f"{field}.{name}", "this field", f"there is no such field; {hint}")


def _refused(found: Mapping[str, Any], managed: Mapping[str, str], field: str) -> Iterator[FieldProblem]:
    for name, allowed in managed.items():
        if name in found:
            yield FieldProblem(f"{field}.{name}", str(found[name])[:80], allowed)


def _managed_names(found: Mapping[str, Any], field: str) -> Iterator[FieldProblem]:
    for name in found:
        if name == MANAGER_LABEL or name.startswith(f"{GROUP}/"):
            yield FieldProblem(f"{field}[{name}]", repr(found[name]), "Tailguard sets it; leave it out")


def _reserved(item: Mapping[str, Any], own: frozenset[str], field: str) -> Iterator[FieldProblem]:
    if item.get("name") in own:
        allowed = f"{' and '.join(sorted(own))} are Tailguard's own; use another name"
        yield FieldProblem(f"{field}.name", repr(item["name"]), allowed)


def _mapping(parent: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = parent.get(name)
    return value if isinstance(value, Mapping) else {}


def _items(parent: Mapping[str, Any], name: str, field: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    value = parent.get(name)
    for number, item in enumerate(value if isinstance(value, list) else ()):
        if isinstance(item, Mapping):
            yield f"{field}.{name}[{number}]", item

"""Everything about a spec that neither schema nor CEL can say: flags, profiles, templates, budgets.

A problem stops a rollout before anything is made (Stalled, reason InvalidSpec); a warning is shown and stops nothing.
Each is one sentence: the field, its value, what is allowed, what to do.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from tailguard_operator.api.base import FieldProblem
from tailguard_operator.api.engine import Engine, EngineType
from tailguard_operator.api.service import NAME_LIMIT, InferenceServiceSpec
from tailguard_operator.resources import quantity
from tailguard_operator.resources.check_rollout import check_rollout, objective_warnings
from tailguard_operator.resources.check_template import check_template
from tailguard_operator.resources.measure import ASSUMED_CONTEXT
from tailguard_operator.resources.overlay import OverlayError
from tailguard_operator.resources.profile import Installation
from tailguard_operator.resources.quantity import QuantityError
from tailguard_operator.resources.revision import (
    QUANTIZATION_FLAG,
    Pins,
    engine_image,
    engine_input,
    render,
)
from tailguard_runtime.engines import ArgProblem, ModelUriError, Severity, adapter_for, parse_model_uri

_QUANTIZATION_FLAGS = (QUANTIZATION_FLAG, "-q")


@dataclass(frozen=True, slots=True)
class Findings:
    """What is wrong with a spec, and what is allowed but doubtful; a sentence each."""

    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def check(name: str, spec: InferenceServiceSpec, installation: Installation) -> Findings:
    """Everything that is wrong with the service `name`; a spec without problems can be rendered."""
    engine = spec.engine or Engine()
    found = list(_check_engine(engine, installation))
    args = [] if found else _check_args(engine, installation)
    found = [*_check_name(name), *found, *check_template(engine.template or {}), *check_rollout(spec)]
    problems = [*map(str, found), *_model_problems(spec), *(p.message for p in args if p.severity == Severity.ERROR)]
    warnings = [p.message for p in args if p.severity == Severity.WARNING] + list(objective_warnings(spec))
    if problems:
        return Findings(tuple(problems), tuple(warnings))
    return _rendered(name, spec, installation, [*warnings, *_engine_warnings(spec, installation)])


def _check_name(name: str) -> Iterator[FieldProblem]:
    if len(name) > NAME_LIMIT:
        allowed = (
            f"at most {NAME_LIMIT} characters, because names of pods and benchmarks are derived from it and must fit "
            "in 63; choose a shorter name"
        )
        yield FieldProblem("metadata.name", f"{name!r} ({len(name)} characters)", allowed)


def _check_engine(engine: Engine, installation: Installation) -> Iterator[FieldProblem]:
    if engine.profile and engine.profile not in installation.profiles:
        allowed = f"this installation has {', '.join(sorted(installation.profiles))}; name one of them or leave it out"
        yield FieldProblem("spec.engine.profile", repr(engine.profile), allowed)
        return
    profile_name = engine.profile or installation.default_profile
    profile = installation.profiles[profile_name]
    if engine.type and engine.type != profile.type:
        allowed = f"profile {profile_name!r} runs {profile.type}; name one that runs {engine.type}, or leave type out"
        yield FieldProblem("spec.engine.type", repr(engine.type.value), allowed)
    elif profile.type != EngineType.VLLM:
        allowed = f"{profile.type} is not supported by this version; use a profile of type {EngineType.VLLM}"
        yield FieldProblem("spec.engine.profile", repr(profile_name), allowed)
    if engine.kernels:
        allowed = "no kernel is registered in this version; leave kernels out"
        yield FieldProblem("spec.engine.kernels", ", ".join(engine.kernels), allowed)
    yield from _check_quantization(engine)
    yield from _check_resources(engine)


def _check_quantization(engine: Engine) -> Iterator[FieldProblem]:
    for number, arg in enumerate(engine.args or ()):
        if engine.quantization and arg.split("=")[0].replace("_", "-") in _QUANTIZATION_FLAGS:
            allowed = f"spec.engine.quantization is {engine.quantization!r} already; keep one of the two"
            yield FieldProblem(f"spec.engine.args[{number}]", repr(arg), allowed)


def _check_resources(engine: Engine) -> Iterator[FieldProblem]:
    resources = engine.resources.to_object() if engine.resources else {}
    amounts: dict[tuple[str, str], Fraction] = {}
    for kind, rows in resources.items():
        for resource, text in rows.items():
            try:
                amounts[kind, resource] = quantity.parse(text)
            except QuantityError:
                field = f"spec.engine.resources.{kind}[{resource}]"
                yield FieldProblem(field, repr(text), "it has to be a quantity; write it like 2, 500m or 16Gi")
    for (kind, resource), amount in amounts.items():
        if kind == "requests" and amount > amounts.get(("limits", resource), amount):
            allowed = f"the limit is {resources['limits'][resource]}; a request may not be larger"
            yield FieldProblem(f"spec.engine.resources.requests[{resource}]", resources[kind][resource], allowed)


def _check_args(engine: Engine, installation: Installation) -> list[ArgProblem]:
    name = engine.profile or installation.default_profile
    profile = installation.profiles[name]
    adapter = adapter_for(profile.type)
    own = adapter.check(engine.args or (), profile.version, field="spec.engine.args")
    profiles = adapter.check(profile.args, profile.version, field=f"profile {name}.args")
    return list(dict.fromkeys([*own, *profiles]))


def _model_problems(spec: InferenceServiceSpec) -> list[str]:
    try:
        parse_model_uri(spec.model.uri, spec.model.revision or "")
    except ModelUriError as error:
        return [str(error)]
    return []


def _engine_warnings(spec: InferenceServiceSpec, installation: Installation) -> Iterator[str]:
    engine = spec.engine or Engine()
    profile = installation.profile(engine.profile)
    if engine_image(spec, installation) != profile.image:
        yield (
            "spec.engine.template: the engine's image is another one than the profile's; flags are checked against "
            f"version {profile.version or '(unknown)'} of the profile"
        )


def _rendered(name: str, spec: InferenceServiceSpec, installation: Installation, warnings: list[str]) -> Findings:
    try:
        data = render(name, spec, installation, Pins(), None).data
    except OverlayError as error:
        return Findings((str(error),), tuple(warnings))
    rendering = adapter_for(data["engine"]["type"]).render(engine_input(name, spec, installation, Pins()))
    warnings += [problem.message for problem in rendering.warnings]
    if "contextLength" not in data and not spec.rollout.benchmark.workload_ref:
        warnings.append(
            "spec.engine.args: the context length is not known without --max-model-len; unless the model's own is "
            f"found, the default workload is scaled to {ASSUMED_CONTEXT} tokens: say --max-model-len"
        )
    return Findings((), tuple(warnings))

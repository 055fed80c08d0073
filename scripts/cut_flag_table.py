"""Write the flag table of the vLLM that this Python can import.

    python scripts/cut_flag_table.py > runtime/tailguard_runtime/engines/tables/vllm-0.32.json

Run it with the interpreter of an engine image. What comes out is a cut of vLLM's own argument parser: names,
kind of value, choices and defaults, one flag a line.
"""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

_KINDS = {
    "int": "integer",
    "float": "number",
    "human_readable_int": "count",
    "human_readable_int_or_auto": "countOrAuto",
    "loads": "json",
    "parse_dataclass": "json",
    "union_dict_and_str": "jsonOrText",
    "str": "text",
    # Parsers that fold case and separators before they compare with the choices.
    "<lambda>": "keyword",
}


def innermost(parse: Callable[..., Any]) -> str:
    """The name of the parser that vLLM's wrappers hold (`_optional_type(_parse_type(loads))` -> `loads`)."""
    for cell in getattr(parse, "__closure__", None) or ():
        if callable(cell.cell_contents):
            return innermost(cell.cell_contents)
    return getattr(parse, "__name__", "str")


def kind_of(action: argparse.Action) -> str:
    if action.nargs == 0:
        return "switch"
    return "text" if action.type is None else _KINDS[innermost(action.type)]


def cut(action: argparse.Action) -> dict[str, Any]:
    flag: dict[str, Any] = {"names": list(action.option_strings), "kind": kind_of(action)}
    if action.nargs == "+":
        flag["many"] = True
    if action.choices:
        flag["choices"] = [str(choice) for choice in action.choices]
    # The default of a JSON flag is a printed object of dozens of fields, no value that one could give.
    if action.default not in (None, argparse.SUPPRESS) and flag["kind"] != "json":
        flag["default"] = str(action.default)
    return flag


def main() -> int:
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser
    from vllm.version import __version__

    parser = make_arg_parser(FlexibleArgumentParser())
    flags = sorted((cut(a) for a in parser._actions if a.option_strings), key=lambda flag: flag["names"])
    version = ".".join(__version__.split(".")[:2])
    lines = ",\n".join(json.dumps(flag) for flag in flags)
    sys.stdout.write(f'{{"engine": "VLLM", "version": "{version}", "flags": [\n{lines}\n]}}\n')
    return 0


if __name__ == "__main__":
    sys.exit(main())

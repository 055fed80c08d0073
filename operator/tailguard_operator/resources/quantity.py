"""Kubernetes quantities ("500m", "1.5Gi", "1e3") as exact numbers."""

import re
from fractions import Fraction

_FORM = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,3})?"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


class QuantityError(ValueError):
    """A text that is no quantity; the message shows it and how one is written."""


def parse(text: str | int) -> Fraction:
    """The number that `text` stands for.

    Raises:
        QuantityError: `text` is no quantity.
    """
    match = _FORM.fullmatch(str(text))
    if not match:
        raise QuantityError(f"{text!r} is no quantity; write it like 2, 500m or 16Gi")
    number, suffix = Fraction(match["number"]), match["suffix"] or ""
    if suffix in _BINARY:
        return number * Fraction(2) ** _BINARY[suffix]
    exponent = int(suffix[1:]) if suffix[:1] in ("e", "E") and suffix != "E" else _DECIMAL.get(suffix, 0)
    return number * Fraction(10) ** exponent


def same(left: str | int, right: str | int) -> bool:
    """Whether two texts stand for the same amount; texts that are no quantities are compared as they are."""
    try:
        return parse(left) == parse(right)
    except QuantityError:
        return str(left) == str(right)


def show(amount: Fraction) -> str:
    """A short text for people: whole binary units from 1Mi on, thousandths below 1."""
    for unit in ("Gi", "Mi"):
        if amount >= 2 ** _BINARY[unit]:
            return f"{float(amount / 2 ** _BINARY[unit]):.4g}{unit}"
    return str(int(amount)) if amount.denominator == 1 else f"{float(amount * 1000):.4g}m"

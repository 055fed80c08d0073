"""Quantities as exact numbers."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailguard_operator.resources.quantity import QuantityError, parse, same, show


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", Fraction(0)),
        (2, Fraction(2)),
        ("500m", Fraction(1, 2)),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("2.", Fraction(2)),
        ("-1", Fraction(-1)),
        ("100n", Fraction(1, 10_000_000)),
        ("3u", Fraction(3, 1_000_000)),
        ("1k", Fraction(1000)),
        ("1E", Fraction(10**18)),
        ("1e3", Fraction(1000)),
        ("1E3", Fraction(1000)),
        ("25e-1", Fraction(5, 2)),
        ("1Ki", Fraction(1024)),
        ("0.5Gi", Fraction(512 * 1024**2)),
        ("2Ei", Fraction(2**61)),
    ],
)
def test_every_form_of_a_quantity(text: str | int, amount: Fraction) -> None:
    assert parse(text) == amount


@pytest.mark.parametrize("text", ["", "1 Gi", "1gi", "one", "1Kib", "e3", "--1", "1Gi\n", "1K", "."])
def test_what_is_no_quantity_is_shown_with_how_one_is_written(text: str) -> None:
    with pytest.raises(QuantityError, match=r"write it like 2, 500m or 16Gi"):
        parse(text)


@pytest.mark.parametrize(
    ("left", "right"), [("1000m", "1"), ("1024Mi", "1Gi"), (2, "2"), ("1e3", "1k"), ("0.5", "500m")]
)
def test_the_same_amount_in_other_words(left: str | int, right: str) -> None:
    assert same(left, right)


@pytest.mark.parametrize(("left", "right"), [("1", "1m"), ("1G", "1Gi"), ("x", "y"), ("x", "1")])
def test_another_amount(left: str, right: str) -> None:
    assert not same(left, right)


@given(st.integers(0, 10**15), st.sampled_from(["n", "u", "m", "", "k", "M", "G", "Ki", "Mi", "Gi"]))
def test_amounts_grow_with_their_number(number: int, suffix: str) -> None:
    assert parse(f"{number}{suffix}") < parse(f"{number + 1}{suffix}")


@pytest.mark.parametrize(
    ("text", "shown"), [("1536Mi", "1.5Gi"), ("64Mi", "64Mi"), ("2", "2"), ("250m", "250m"), ("0", "0")]
)
def test_a_short_text_for_people(text: str, shown: str) -> None:
    assert show(parse(text)) == shown

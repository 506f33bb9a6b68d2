"""The baseline that nodes are judged by: from exact to general, the newest among equals, and never another
SKU's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.baseline.scope import ScopeLevel, fitting, series, widened
from healthcheck.kernellog.model import Baseline, Scope

NODE = Scope("dgx-h100", "6.5.0-1007-nvidia", "535.129.03", "NVIDIA DGXH100, 1.02")
LEVELS = [widened(NODE, level) for level in ScopeLevel]


def book(scope: Scope, name: str = "", last: str = "2026-11-21") -> Baseline:
    return Baseline(name or str(scope), scope, 1, 1, {}, last=last)


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_the_most_exact_one_is_taken_in_whatever_order_they_stand(first: int) -> None:
    books = [book(scope) for scope in LEVELS[first:]]
    for order in (books, books[::-1]):
        assert fitting(order, NODE).baseline == books[0]
    assert fitting(books, NODE).exact is (first == 0)


def test_the_levels_go_from_all_four_to_the_sku() -> None:
    driver, kernel = replace(NODE, firmware=""), Scope(NODE.sku, NODE.kernel)
    assert tuple(LEVELS) == (NODE, driver, kernel, Scope(NODE.sku, "6.5"), Scope(NODE.sku))


@pytest.mark.parametrize(("scope", "words"), [
    (NODE, "judged by the baseline exact, for SKU dgx-h100, kernel 6.5.0-1007-nvidia, driver 535.129.03, "
           f"firmware {NODE.firmware}"),
    (Scope("dgx-h100", "6.5", "535.129.03", NODE.firmware),
     f"judged by the baseline for kernel 6.5, driver 535.129.03, firmware {NODE.firmware} in general: none "
     "for 6.5.0-1007-nvidia"),
    (Scope("dgx-h100"), "judged by the baseline for SKU dgx-h100 in general: none for 6.5.0-1007-nvidia, "
                        f"driver 535.129.03, firmware {NODE.firmware}"),
])
def test_it_is_said_what_the_baseline_is_not_exact_about(scope: Scope, words: str) -> None:
    assert fitting([book(scope, "exact")], NODE).why == words


def test_only_the_kernel_differs() -> None:
    fit = fitting([book(Scope("dgx-h100", "6.5"))], Scope("dgx-h100", "6.5.0-1007-nvidia"))
    assert fit.why == "judged by the baseline for kernel 6.5 in general: none for 6.5.0-1007-nvidia"


@pytest.mark.parametrize("scope", [
    Scope("dgx-a100"), Scope(), Scope("dgx-h100", "6.50"), Scope("dgx-h100", "6"),
    Scope("dgx-h100", "6.5.0-1008-nvidia"), Scope("dgx-h100", "6.5", "550.54.15"),
    replace(NODE, firmware="other"),
])
def test_what_is_learned_for_others_does_not_fit(scope: Scope) -> None:
    baseline, exact, why = fitting([book(scope)], NODE)
    assert baseline is None
    assert not exact
    assert why.startswith("no baseline for SKU dgx-h100, kernel 6.5.0-1007-nvidia")
    other = "SKU dgx-h100" if scope.sku == NODE.sku else scope.sku or "no SKU"
    assert f"; there are those for {other}" in why


def test_nodes_without_a_sku_are_judged_by_baselines_without_one() -> None:
    assert fitting([book(Scope("", "6.5"))], Scope("", "6.5.1")).baseline is not None
    assert fitting([book(Scope("dgx-h100", "6.5"))], Scope("", "6.5.1")).baseline is None
    assert fitting([], Scope()).why == "no baseline for nodes without a SKU, with any kernel"


def test_among_equals_it_is_the_one_that_was_learned_last() -> None:
    older, newer = book(LEVELS[2], "b", "2026-01-01"), book(LEVELS[2], "a", "2026-11-01")
    assert fitting([newer, older], NODE).baseline == fitting([older, newer], NODE).baseline == newer


PARTS = st.sampled_from(["", "6.5", "6.5.0", "6.5.1", "x"])
SCOPES = st.builds(Scope, st.sampled_from(["", "a", "b"]), PARTS, PARTS, PARTS)


@given(st.lists(SCOPES, max_size=6), SCOPES)
def test_another_skus_is_never_taken_and_an_exact_one_always(scopes: list[Scope], node: Scope) -> None:
    baseline, exact, why = fitting([book(scope) for scope in scopes], node)
    assert why
    assert baseline is None or baseline.scope.sku == node.sku
    if node in scopes:
        assert exact
        assert baseline is not None
        assert baseline.scope == node


def test_a_kernels_series_is_its_first_two_numbers() -> None:
    assert series("5.15.0-91-generic") == "5.15"
    assert series("rolling") == "rolling"

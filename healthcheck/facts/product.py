"""Names of GPU products as NVML gives them, and whether one is of the model that a SKU names.

Names hold each other's letters ("L4" in "L40S", "B200" in "GB200") and each other's words ("H200" in
"H200 NVL"), so that they are compared by words, and a name in full takes no product with more in its name.
"""

from __future__ import annotations

import re

# NVML's names begin with it; those of drivers before 470 do not ("A100-SXM4-40GB").
_MAKERS = ("nvidia", "tesla")
_WORD = re.compile(r"[^\W_]+")
# What tells more of one product and makes no other: its memory (80GB, 144G, HBM3e), its form (SXM4, PCIe) and
# its cooling (AC).
_MORE = re.compile(r"[0-9]+gb?|hbm[0-9]\w*|sxm[0-9]*|pcie|ac")


def is_model(product: str, model: str) -> bool:
    """Whether a product's name holds the model's whole words, side by side, in any spelling of case.

    A model that begins with the maker ("NVIDIA H200") is the name in full: the product's may say more of
    memory and form ("NVIDIA H100 80GB HBM3" is an "NVIDIA H100"), but "NVIDIA H200 NVL" is another. Any other
    model is a part ("H100"). A last word in letters takes a number after it: "A100-SXM" is "A100-SXM4-80GB".
    """
    wanted, found = words(model), words(product)
    if not wanted:
        return model.casefold() in product.casefold()
    whole = len(_WORD.findall(model.casefold())) > len(wanted)
    for start in range(1 if whole else len(found)):
        held = found[start:start + len(wanted)]
        if held and held[:-1] == wanted[:-1] and _same(held[-1], wanted[-1]):
            return not whole or all(map(_MORE.fullmatch, found[len(wanted):]))
    return False


def words(name: str) -> list[str]:
    """The words of a product's or model's name in lower case, without the maker before them."""
    found = _WORD.findall(name.casefold())
    while found and found[0] in _MAKERS:
        del found[0]
    return found


def _same(word: str, wanted: str) -> bool:
    rest = word.removeprefix(wanted)
    return not rest or (rest != word and wanted[-1].isalpha() and rest.isdecimal())

"""Verifies ed25519 signatures in plain Python (RFC 8032, section 5.1), for nodes that have nothing else.
It cannot sign. Python 3.8.

Nothing here is secret, so the time may depend on the input. Points are in extended coordinates (X, Y, Z, T)
of the curve -x^2 + y^2 = 1 + d x^2 y^2, with the formulas of Hisil, Wong, Carter and Dawson (2008), which
hold for all pairs of points.
"""

from __future__ import annotations

import hashlib

_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _P - 2, _P) % _P
_ROOT = pow(2, (_P - 1) // 4, _P)       # of -1
_WIDTH = 5                              # of the windows of a factor


def ed25519_holds(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the signature (64 bytes) of the message was made with the key of `public` (32 bytes). Refuses
    non-canonical encodings of points and numbers, and keys of low order, which would fit any message."""
    if len(public) != 32 or len(signature) != 64:
        return False
    key = _point(public)
    factor = int.from_bytes(signature[32:], "little")
    if key is None or factor >= _ORDER or _low(key):
        return False
    x, y, z, t = key
    digest = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % _ORDER
    # R = S B - h A, and the encoding of R has to be the one in the signature.
    return _encoded(_sum(factor, _BASE, digest, (-x % _P, y, z, -t % _P))) == signature[:32]


def _point(data: bytes) -> tuple[int, int, int, int] | None:
    """The point of an encoding; None where there is none."""
    y = int.from_bytes(data, "little")
    odd, y = y >> 255, y & ((1 << 255) - 1)
    if y >= _P:
        return None
    over, under = (y * y - 1) % _P, (_D * y * y + 1) % _P
    x = over * pow(under, 3, _P) * pow(over * pow(under, 7, _P), (_P - 5) // 8, _P) % _P
    if (under * x * x - over) % _P:
        x = x * _ROOT % _P
        if (under * x * x - over) % _P:
            return None
    if x == 0 and odd:
        return None
    if x & 1 != odd:
        x = _P - x
    return x, y, 1, x * y % _P


def _encoded(point: tuple[int, int, int, int]) -> bytes:
    x, y, z, _ = point
    inverse = pow(z, _P - 2, _P)
    return (y * inverse % _P | (x * inverse % _P & 1) << 255).to_bytes(32, "little")


def _doubled(point: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    x, y, z, _ = point
    a, b, s = x * x, y * y, x + y
    h = a + b
    e, g = h - s * s, a - b
    f = 2 * z * z + g
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _added(one: tuple[int, int, int, int], two: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    x1, y1, z1, t1 = one
    x2, y2, z2, t2 = two
    a, b = (y1 - x1) * (y2 - x2), (y1 + x1) * (y2 + x2)
    c, d = t1 * t2 % _P * 2 * _D, 2 * z1 * z2
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _low(point: tuple[int, int, int, int]) -> bool:
    """Whether eight times the point is nothing."""
    x, y, z, _ = _doubled(_doubled(_doubled(point)))
    return x == 0 and (y - z) % _P == 0


def _sum(
    first: int, one: tuple[int, int, int, int], second: int, two: tuple[int, int, int, int],
) -> tuple[int, int, int, int]:
    """first * one + second * two, doubling for both at once (Straus), by windows of odd digits (w-NAF)."""
    terms = [(_digits(factor), _odd(point)) for factor, point in ((first, one), (second, two))]
    found = (0, 1, 1, 0)
    for at in range(max(len(digits) for digits, _ in terms) - 1, -1, -1):
        found = _doubled(found)
        for digits, multiples in terms:
            if at < len(digits) and (digit := digits[at]):
                x, y, z, t = multiples[abs(digit) >> 1]
                found = _added(found, (x, y, z, t) if digit > 0 else (-x, y, z, -t))
    return found


def _digits(factor: int) -> list[int]:
    """The factor in w-NAF: digits that are nothing or odd, the least first."""
    found = []
    while factor:
        digit = 0
        if factor & 1:
            digit = factor & ((1 << _WIDTH) - 1)
            if digit >= 1 << (_WIDTH - 1):
                digit -= 1 << _WIDTH
            factor -= digit
        found.append(digit)
        factor >>= 1
    return found


def _odd(point: tuple[int, int, int, int]) -> list[tuple[int, int, int, int]]:
    """1, 3, 5 ... times the point."""
    twice = _doubled(point)
    found = [point]
    while len(found) < 1 << (_WIDTH - 2):
        found.append(_added(found[-1], twice))
    return found


_BASE = (
    15112221349535400772501151409588531511454012693041857206046113283949847762202,
    46316835694926478169428394003475163141307993866256225615783033603165251855960, 1,
    46827403850823179245072216630277197565144205554125654976674165829533817101731,
)

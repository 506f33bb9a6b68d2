"""A kill as an exception, and a clock at whose reading one dies."""

from __future__ import annotations

from collections.abc import Callable


class Death(BaseException):
    """Stands for a kill."""


class Mortal:
    """Whose time goes on by a second at each reading."""

    now = 0.0

    def clock(self, lives: int) -> Callable[[], float]:
        """One at whose `lives`-th reading it dies."""
        left = lives

        def time() -> float:
            nonlocal left
            left -= 1
            if not left:
                raise Death
            self.now += 1
            return self.now
        return time

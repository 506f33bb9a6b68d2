"""Docker checks."""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.facts.docker import Docker
from healthcheck.outcome import Finding


@check("docker.answers")
def docker_answers(docker: Docker, *, required: bool) -> Iterator[Finding]:
    """The Docker daemon answers its client, where the SKU runs containers."""
    if required and not docker.answers:
        yield Finding("docker", docker.trouble, "an answer from the daemon")

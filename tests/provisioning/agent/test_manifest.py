"""The DaemonSet is what the API takes, and has no more rights than its two containers need."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from inventory.errors import UsageError
from provisioning.agent.manifest import DaemonSetRequest, manifest, objects
from tests.command import muster
from tests.testbed.kubernetes import Serving

REQUEST = DaemonSetRequest("site/muster:0.1.0", selector={"nvidia.com/gpu.present": "true"},
                           sku="hgx-h100", period=60.0)
KINDS = {"Namespace": "V1Namespace", "ServiceAccount": "V1ServiceAccount", "DaemonSet": "V1DaemonSet"}
PLAIN: dict[str, type | tuple[type, ...]] = {"str": str, "bool": bool, "int": int, "float": (int, float),
                                             "object": (int, str, float)}


def against(model: str, value: Any, at: str) -> list[str]:
    """What of a value is not as the API's OpenAPI document has it, of which kubernetes.client's models are
    made."""
    if model.startswith(("list[", "List[")):
        return [one for number, each in enumerate(value)
                for one in against(model[5:-1], each, f"{at}[{number}]")] if isinstance(value, list) else [at]
    if model.startswith(("dict(", "Dict[")):
        inner = model[5:-1].split(", ")[1]
        return [one for key, each in value.items()
                for one in against(inner, each, f"{at}.{key}")] if isinstance(value, dict) else [at]
    if model in PLAIN:
        good = isinstance(value,
                          PLAIN[model]) and (model in ("bool", "object") or not isinstance(value, bool))
        return [] if good else [f"{at} is no {model}"]
    if not isinstance(value, dict):
        return [f"{at} is no {model}"]
    cls = getattr(client, model)
    keys = {key: name for name, key in cls.attribute_map.items()}
    wrong = [f"{at}.{key} is not in {model}" for key in value if key not in keys]
    try:
        # its own rules: what is required, enumerations
        cls(**{keys[key]: each for key, each in value.items() if key in keys})
    except ValueError as error:
        wrong.append(f"{at}: {error}")
    return wrong + [one for key, each in value.items() if key in keys
                    for one in against(cls.openapi_types[keys[key]], each, f"{at}.{key}")]


@pytest.mark.parametrize("request_", [REQUEST, DaemonSetRequest("muster")])
def test_every_object_is_as_the_api_has_it(request_: DaemonSetRequest) -> None:
    found = list(yaml.safe_load_all(manifest(request_)))
    assert "&" not in manifest(request_)
    assert [one["kind"] for one in found] == list(KINDS)
    assert [wrong for one in found for wrong in against(KINDS[one["kind"]], one, one["kind"])] == []


@pytest.mark.parametrize("change", [
    lambda spec: spec["containers"][0].update(imagePullSecret="x"), lambda spec: spec.update(hostPID="yes"),
    lambda spec: spec["containers"][0].pop("name"),
    lambda spec: spec.update(tolerations={"operator": "Exists"}),
    lambda spec: spec["containers"][1]["securityContext"]["capabilities"].update(drop="ALL"),
])
def test_what_the_api_has_not_is_found(change: Any) -> None:
    daemon = objects(REQUEST)[-1]
    change(daemon["spec"]["template"]["spec"])
    assert against("V1DaemonSet", daemon, "DaemonSet")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_real_api_server_takes_it(real: Serving, tmp_path: Path) -> None:
    from kubernetes import config

    api = config.new_client_from_config(config_file=str(real.config))
    space, account, daemon = objects(REQUEST)
    client.CoreV1Api(api).create_namespace(space)
    client.CoreV1Api(api).create_namespaced_service_account("muster", account, dry_run="All")
    made = client.AppsV1Api(api).create_namespaced_daemon_set("muster", daemon, dry_run="All",
                                                              field_validation="Strict")
    assert made.spec.template.spec.host_pid is True


def test_one_container_is_privileged_the_other_may_do_nothing_and_neither_has_a_token() -> None:
    _, account, daemon = objects(REQUEST)
    pod = daemon["spec"]["template"]["spec"]
    agent, exporter = pod["containers"]
    assert account["automountServiceAccountToken"] is False and pod["automountServiceAccountToken"] is False
    assert agent["securityContext"]["privileged"] is True and "privileged" not in exporter["securityContext"]
    assert (exporter["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            and exporter["securityContext"]["readOnlyRootFilesystem"] is True)
    assert [one["readOnly"] for one in exporter["volumeMounts"]] == [True] and "hostNetwork" not in pod
    assert [one["hostPath"]["path"]
            for one in pod["volumes"] if "hostPath" in one] == ["/var/lib/muster/agent"]
    assert pod["tolerations"] == [{"operator": "Exists"}] and all(one["resources"]["requests"]
                                                                  for one in pod["containers"])
    assert agent["env"] == exporter["env"] == [{"name": "MUSTER_NODE",
                                                "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
    assert pod["nodeSelector"] == {"nvidia.com/gpu.present": "true"}


def test_the_commands_in_it_are_commands_of_muster(tmp_path: Path) -> None:
    """Each option is one that the command has."""
    for container in objects(REQUEST)[-1]["spec"]["template"]["spec"]["containers"]:
        words = container["command"][1:]
        first = next(number for number, word in enumerate(words) if word.startswith("--"))
        page = muster(*words[:first], "--help", home=tmp_path).stdout
        assert {word for word in words if word.startswith("--")} <= set(re.findall(r"--[a-z-]+", page))


@pytest.mark.parametrize("words", [
    ("--image", "a b"), ("--image", "-x"), ("--image", "x", "--namespace", "Muster"),
    ("--image", "x", "--selector", "gpu"),
    ("--image", "x", "--selector", "a b=c"), ("--image", "x", "--selector", "a=b c"),
    ("--image", "x", "--period", "1s"), ("--image", "x\ny"),
])
def test_what_kubernetes_would_refuse_is_one_line(words: tuple[str, ...], tmp_path: Path) -> None:
    done = muster("agent", "manifest", *words, home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "") and "Traceback" not in done.stderr
    assert words[-2] in done.stderr


def test_it_is_printed_for_kubectl(tmp_path: Path) -> None:
    done = muster("agent", "manifest", "--image", "site/muster:0.1.0", "--selector",
                  "nvidia.com/gpu.present=true", "--period", "1m", "--sku", "hgx-h100", home=tmp_path)
    assert json.dumps(list(yaml.safe_load_all(done.stdout))) == json.dumps(objects(REQUEST))
    with pytest.raises(UsageError, match="--image"):
        DaemonSetRequest("")

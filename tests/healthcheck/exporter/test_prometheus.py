"""A planted fault reaches a webhook through a real Prometheus and a real Alertmanager,
and is over when it is mended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from healthcheck.exporter.alerts import folder
from provisioning.demo.fleet import DemoFleet
from tests.healthcheck import machine
from tests.healthcheck.exporter.certificates import certificate
from tests.healthcheck.exporter.test_webfile import hashed
from tests.testbed.exporting import exporting, swept
from tests.testbed.memory import base_in_memory
from tests.testbed.prometheus import monitoring, require_prometheus
from tests.testbed.sshd import wait_until

INVENTORY = """\
version: 1
defaults: {sku: hgx-h100}
nodes:
  gpu001: {rack: r1, leaf: leaf1}
  gpu002: {rack: r2, leaf: leaf2}
"""
SICK = machine.recording("gpu001", gpu_nvml=machine.nvml(gpu3={"ecc_uncorrected": {"ok": 7}}))


def test_a_fault_is_told_to_a_webhook_and_so_is_that_it_is_over(tmp_path: Path) -> None:
    require_prometheus()
    (tmp_path / "muster.yaml").write_text(INVENTORY)
    state = tmp_path / "state"
    swept(state, SICK, machine.recording("gpu002"))
    rules = sorted(folder().glob("*.yaml"))
    # As a site has it: TLS, and a password for the scrape and for the discovery.
    pair = certificate(tmp_path, "server")
    (tmp_path / "web.yml").write_text(
        f"tls_server_config: {{cert_file: {pair[0].name}, key_file: {pair[1].name}}}\n"
        f"basic_auth_users: {{prometheus: {hashed('s3cret', 10)}}}\n")
    access = {"scheme": "https", "tls_config": {"ca_file": str(pair[0])},
              "basic_auth": {"username": "prometheus", "password": "s3cret"}}
    with exporting(tmp_path, "-i", "muster.yaml", "--http-sd", "9100", "--web-config", "web.yml") as exporter:
        scrape: list[dict[str, Any]] = [
            {"job_name": "muster", "static_configs": [{"targets": [exporter.address]}], **access},
            {"job_name": "node",
             "http_sd_configs": [{"url": f"{exporter.url}/sd", "refresh_interval": "1s",
                                  **{key: access[key] for key in ("tls_config", "basic_auth")}}]}]
        with monitoring(tmp_path, scrape, rules) as there:
            def told(status: str) -> dict[str, dict[str, str]]:
                return {name: labels for said, name, labels in there.told if said == status
                        and labels.get("node") == "gpu001"}

            wait_until(lambda: {"MusterNodeSick", "MusterRuleFailed"} <= told("firing").keys(), 60,
                       "that the fault is told of")
            failed = told("firing")["MusterRuleFailed"]
            assert (failed["rule"], failed["severity"], failed["owner"]) == (
                "gpu-ecc-uncorrected", "critical", "operator")
            assert [(found["metric"]["node"], found["value"][1])
                    for found in there.query('muster_node_state{state="unhealthy"} == 1')] \
                == [("gpu001", "1")]
            # The counts of the fleet are those that the rules record.
            (healthy,) = there.query('instance_state:muster_nodes_in_service:count{state="healthy"}')
            assert healthy["value"][1] == "1"
            wait_until(lambda: len(there.targets()) == 3, 30, "targets of the service discovery")
            assert {(found["labels"].get("node"), found["labels"].get("rack"), found["labels"].get("leaf"),
                     found["labels"].get("sku"), found["discoveredLabels"]["__address__"])
                    for found in there.targets() if found["labels"]["job"] == "node"} \
                == {("gpu001", "r1", "leaf1", "hgx-h100", "gpu001:9100"),
                    ("gpu002", "r2", "leaf2", "hgx-h100", "gpu002:9100")}
            swept(state, machine.recording("gpu001"), machine.recording("gpu002"))
            wait_until(lambda: {"MusterNodeSick", "MusterRuleFailed"} <= told("resolved").keys(), 60,
                       "that it is over")
            assert {labels.get("node") for _, name, labels in there.told if name == "MusterNodeSick"} == {
                "gpu001"}
            (gone,) = there.query('scrape_samples_scraped{job="muster"}')
            assert int(gone["value"][1]) > 300


@pytest.mark.slow
def test_a_link_that_goes_down_on_a_live_node_is_told_to_a_webhook_and_so_is_that_it_came_back(
    tmp_path: Path,
) -> None:
    require_prometheus()
    with (DemoFleet(base=base_in_memory(tmp_path), planted={"gpu001": (), "gpu002": ()}) as fleet,
          exporting(tmp_path, "-i", str(fleet.inventory), "--every", "10s") as exporter):
        scrape = [{"job_name": "muster", "static_configs": [{"targets": [exporter.address]}]}]
        with monitoring(tmp_path, scrape, sorted(folder().glob("*.yaml"))) as there:
            def told(status: str) -> set[str]:
                return {labels.get("rule", "") for said, name, labels in there.told
                        if (said, name, labels.get("node")) == (status, "MusterRuleFailed", "gpu001")}

            wait_until(lambda: len(there.query('muster_node_state{state="healthy"} == 1')) == 2, 60,
                       "two nodes that are well")
            state = fleet.nodes["gpu001"].tree / "sys/class/infiniband/mlx5_2/ports/1/state"
            well = state.read_text()
            state.write_text("1: DOWN\n")
            wait_until(lambda: "port-state" in told("firing"), 90, "that the link is told of")
            state.write_text(well)
            wait_until(lambda: "port-state" in told("resolved"), 90, "that it is over")
            assert {labels.get("node") for _, _, labels in there.told if "node" in labels} == {"gpu001"}

"""Makers' event logs: each event in words that checks know; what was not read passes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from healthcheck.config.rulesfolder import folders
from healthcheck.facts.bmc import BmcEvent, BmcLog, BmcSensor, BmcSensors
from healthcheck.facts.values import UNSUPPORTED, reading
from healthcheck.model.outcome import Status
from healthcheck.ruleset.ruleset import load_ruleset
from provisioning.bmc import judge, page
from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.redfish import log
from provisioning.bmc.redfish.log import CRITICAL
from tests.provisioning.bmc.redfishdocs import NOW, of, ref, service, tree


def logged(*entries: dict[str, Any], vendor: str = "Dell", name: str = "Sel") -> dict[str, Any]:
    where = f"Managers/1/LogServices/{name}"
    numbered = [{"@odata.id": f"/redfish/v1/{where}/Entries/{at}", "Id": str(at), **entry}
                for at, entry in enumerate(entries, 1)]
    return tree(
        root={"Vendor": vendor},
        **{
            "Managers/1": {"LogServices": ref("Managers/1/LogServices")}, "Managers/1/LogServices": of(where),
            where: {"Entries": ref(f"{where}/Entries"), "MaxNumberOfRecords": 1000},
            f"{where}/Entries": {"Members": numbered, "Members@odata.count": len(numbered)}})


def error_text(*entries: dict[str, Any], **more: str) -> list[tuple[str, str]]:
    return [(event.sensor, event.text) for event in service(logged(*entries, **more))[0].log().log.events]


@pytest.mark.parametrize(
    ("message", "known"),
    [("Multi-bit memory errors detected on a memory device at location(s) DIMM_A1.", "Uncorrectable ECC"),
     ("The power input for power supply 2 is lost.", "AC lost"),
     ("Power supply 1 failed.", "Failure detected"), ("Power supply redundancy is lost.", "Redundancy lost"),
     ("CPU 1 has an internal error (IERR).", "IERR"),
     ("A bus fatal error was detected on a component at bus 65 device 0 function 0.", "bus fatal error"),
     ("CPU 1 has a thermal trip (over-temperature) event.", "thermal trip"),
     ("Uncorrectable Memory Error (Processor 2, DIMM 4)", "Uncorrectable ECC")])
def test_makers_words_are_named_by_those_that_the_checks_know(message: str, known: str) -> None:
    (_, text), = error_text(
        {"Message": message, "Severity": "Critical", "Created": "2026-11-20T03:10:11-06:00"})
    assert known.casefold() in text.casefold()
    assert not text.endswith(CRITICAL)


def test_an_event_that_is_critical_and_in_no_words_that_are_known_says_so() -> None:
    assert error_text({"Message": "The frobnicator is gone.", "Severity": "Critical"}) == [
        ("BMC", f"The frobnicator is gone. {CRITICAL}")]


def test_an_event_is_over_when_its_sensor_is_well_again_and_another_sensors_is_not() -> None:
    def entry(number: int, severity: str, message: str) -> dict[str, Any]:
        return {
            "SensorType": "Power Supply / Converter", "SensorNumber": number, "Severity": severity,
            "Message": message, "Created": "2026-11-20T03:10:11Z"}

    assert (error_text(entry(5, "Critical", "Power supply 1 failed."),
                       entry(6, "Critical", "Power supply 2 failed."),
                       entry(5, "OK", "Power supply 1 is operating normally."))
            == [("Power Supply / Converter #0x06", "Failure detected: Power supply 2 failed.")])


def test_sensors_that_are_all_numbered_alike_do_not_clear_each_other() -> None:
    bad = {
        "SensorType": "Memory", "SensorNumber": 255, "Severity": "Critical",
        "Message": "Uncorrectable ECC @DIMMA1"}
    assert len(
        error_text(bad, {**bad, "Severity": "OK", "Message": "Correctable ECC logging enabled @DIMMB1"})) == 1


def test_what_was_mended_or_deasserted_holds_no_more() -> None:
    bad = {
        "SensorType": "Memory", "SensorNumber": 3, "Severity": "Critical", "Message": "Uncorrectable ECC",
        "EntryCode": "Assert"}
    assert error_text({**bad, "Resolved": True}) == []
    assert error_text({**bad, "Oem": {"Hpe": {"Repaired": True}}}) == []
    assert error_text(bad, {**bad, "EntryCode": "Deassert"}) == []
    assert (error_text({**bad, "Message": "Uncorrectable ECC - Asserted"},
                       {**bad, "EntryCode": None, "Message": "Uncorrectable ECC - Deasserted"}) == [])
    assert len(error_text({**bad, "EntryCode": "Deassert"}, bad)) == 1


def test_the_newest_event_stands_last_whichever_way_the_log_is_sorted() -> None:
    entries = [{"Message": f"event {at}", "Created": f"2026-11-20T03:10:{at:02}Z"} for at in range(10)]
    assert [text for _, text in error_text(*entries)] == [
        text for _, text in error_text(*reversed(entries))] == [f"event {at}" for at in range(10)]


def test_times_before_the_controller_knew_it_are_none_and_its_own_clock_is_now() -> None:
    documents = logged({"Message": "a", "Created": "1970-01-01T00:02:11Z"},
                       {"Message": "b", "Created": "0000-00-00T00:00:00Z"})
    documents["/redfish/v1/Managers/1"]["DateTime"] = "2026-11-01T00:00:00Z"
    found = service(documents)[0].log().log
    assert [(event.time, event.when) for event in found.events] == [(None, "undated")] * 2
    assert found.now == log.epoch("2026-11-01T00:00:00Z") != NOW


def test_the_log_is_as_full_as_it_says_and_one_that_wraps_is_never_full() -> None:
    documents = logged({"Message": "a"})
    entries = documents["/redfish/v1/Managers/1/LogServices/Sel/Entries"]
    entries["Members@odata.count"] = 950
    assert service(documents)[0].log_use().used_percent == 95
    documents["/redfish/v1/Managers/1/LogServices/Sel"]["OverWritePolicy"] = "WrapsWhenFull"
    use = service(documents)[0].log_use()
    assert reading(use, "used_percent") is UNSUPPORTED
    assert page.value(use) == {"name": "BMC", "used_percent": {"unsupported": True}}
    entries["Members@odata.count"] = 1
    assert next(iter(page.log(service(documents)[0].log(), use))).endswith(": a")


def linked_entries(count: int) -> dict[str, Any]:
    """A log whose entries are links alone."""
    documents = logged()
    where = "Managers/1/LogServices/Sel/Entries"
    documents[f"/redfish/v1/{where}"] = of(*(f"{where}/{at}" for at in range(count)))
    return documents | {
        f"/redfish/v1/{where}/{at}": {"Id": str(at), "Message": f"event {at}"} for at in range(count)}


def test_a_log_of_links_alone_is_read_whole_where_there_is_time() -> None:
    found = service(linked_entries(300))[0].log()
    assert [event.text for event in found.log.events] == [f"event {at}" for at in range(300)]
    assert found.missing == ""


def test_of_links_the_newest_are_read_first_and_those_without_time_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    controller, papers = service(linked_entries(1000))
    monkeypatch.setattr(controller.session, "share_left", lambda: 1.0 if len(papers.asked) < 110 else 0.2)
    found = controller.log()
    texts = [event.text for event in found.log.events]
    assert texts == [f"event {at}" for at in range(1000 - len(texts), 1000)]
    assert 90 < len(texts) < 111
    assert f"{1000 - len(texts)} older entries" in found.missing


def paged(count: int, size: int) -> dict[str, Any]:
    """A log in pages, oldest first, whose newest entry is critical."""
    documents = logged()
    where = "/redfish/v1/Managers/1/LogServices/Sel/Entries"
    for at in range(0, count, size):
        after = {"Members@odata.nextLink": f"{where}?$skip={at + size}"} if at + size < count else {}
        documents[f"{where}?$skip={at}" if at else where] = {"Members@odata.count": count, "Members": [
            {"Id": str(one),
             "Message": f"event {one}" if one < count - 1 else "CPU 1 has an internal error (IERR)",
             "Severity": "Warning" if one < count - 1 else "Critical"}
            for one in range(at, min(at + size, count))], **after}
    return documents


def read_pages(documents: dict[str, Any]) -> Any:
    """What is read of such a log; pages are told from each other by their query."""
    controller, papers = service(documents)
    ask = papers.ask

    def with_query(method: str, path: str, *rest: Any) -> Any:
        kept = papers._find
        papers._find = lambda bare: documents.get(path, kept(bare))
        try:
            return ask(method, path, *rest)
        finally:
            papers._find = kept
    papers.ask = with_query  # type: ignore[assignment,method-assign]
    return controller.log()


@pytest.mark.parametrize(("count", "size"), [(3300, 100), (5000, 50), (5000, 5000), (40, 50)])
def test_the_newest_entry_is_read_whatever_the_number_of_pages(count: int, size: int) -> None:
    found = read_pages(paged(count, size))
    assert "IERR" in found.log.events[-1].text
    assert len(found.log.events) == count
    assert found.missing == ""


def spoilt(wrong: str) -> dict[str, Any]:
    """A log of which something cannot be read."""
    documents = paged(200, 50)
    where = "/redfish/v1/Managers/1/LogServices/Sel/Entries"
    if wrong == "page":
        documents[f"{where}?$skip=100"] = "no object"
    elif wrong == "loop":
        documents[f"{where}?$skip=100"]["Members@odata.nextLink"] = f"{where}?$skip=50"
    elif wrong == "count":
        del documents[f"{where}?$skip=100"]["Members@odata.nextLink"]
    elif wrong == "entry":
        documents = linked_entries(20)
        documents[f"{where}/19"] = "no object"
    elif wrong == "rubbish":
        documents[f"{where}?$skip=100"] = {"Members": "none"}
    elif wrong == "members":
        documents[where]["Members"] = [*documents[where]["Members"], "an entry", 7]
    elif wrong == "board":
        documents["/redfish/v1/Managers"] = of("Managers/1", "Managers/HGX_BMC_0")
        documents["/redfish/v1/Managers/HGX_BMC_0"] = "no object"
    return documents


@pytest.mark.parametrize("wrong", ["page", "loop", "count", "entry", "board", "rubbish", "members"])
def test_a_log_of_which_something_was_not_read_says_so_and_passes_no_rule(wrong: str) -> None:
    documents = spoilt(wrong)
    found = read_pages(documents)
    assert found.missing
    assert len(found.log.events) >= 19      # what was read counts
    rules = [rule for rule in judge.rules_of(load_ruleset(folders(None)).rules)
             if "bmc_log" in rule.fact_names]
    facts = {"bmc_log": judge._log(found)}
    assert rules
    for rule in rules:
        result = judge._judged(rule, facts)
        assert result.status is not Status.PASS, rule.id
        if result.status is Status.UNKNOWN:
            assert found.missing[:40] in result.reason


@pytest.mark.parametrize("more", [{}, {"Message": None}, {"Message": ["x"], "MessageId": "Base.1.0.Odd"}])
def test_an_entry_that_is_critical_and_has_no_words_is_not_passed_over(more: dict[str, Any]) -> None:
    found = service(logged({"Severity": "Critical", **more}))[0].log()
    (event,) = found.log.events
    assert event.text.endswith(CRITICAL)
    assert more.get("MessageId", "entry 1") in event.text
    rules = [rule for rule in judge.rules_of(load_ruleset(folders(None)).rules)
             if rule.id == "bmc-sel-critical"]
    (result,) = [judge._judged(rule, {"bmc_log": judge._log(found)}) for rule in rules]
    assert result.status is Status.UNKNOWN


def test_an_entry_that_was_removed_while_the_log_was_read_is_not_missing() -> None:
    documents = linked_entries(20)
    del documents["/redfish/v1/Managers/1/LogServices/Sel/Entries/3"]
    found = service(documents)[0].log()
    assert (len(found.log.events), found.missing) == (19, "")


def test_a_service_without_a_log_that_is_known_is_not_one_without_events() -> None:
    with pytest.raises(BmcError) as caught:
        service(logged(name="AuditLog"))[0].log()
    assert caught.value.wrong is BmcErrorReason.UNSUPPORTED


def test_events_and_sensors_are_objects_in_the_document() -> None:
    log_ = BmcLog("BMC", (BmcEvent("PSU 1", "lost input", 60.0, "then"),), NOW)
    assert page.value(log_)["events"] == [
        {"sensor": "PSU 1", "text": "lost input", "time": 60.0, "when": "then"}]
    assert page.value(BmcSensors("BMC", (BmcSensor("FAN1", "ok", "8000 RPM"),)))["sensors"] == [
        {"name": "FAN1", "state": "ok", "reading": "8000 RPM"}]

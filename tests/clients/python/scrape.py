"""Reads a scrape on standard input as Prometheus' own library does, in the form that is named, and holds it to what a
scrape must be."""

import sys

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families


def check(families):
    by_name = {}
    for family in families:
        assert family.name not in by_name, f"{family.name} is there twice"
        by_name[family.name] = family
    assert by_name["groups_connections"].type == "gauge"
    assert by_name["groups_connections"].samples[0].value == 1, by_name["groups_connections"]
    assert by_name["groups_clients"].type == "counter"
    assert by_name["groups_clients"].samples[0].value == 1
    assert by_name["groups_received_messages"].type == "counter"
    assert by_name["groups_received_messages"].samples[0].value == 3
    assert by_name["groups_sent_messages"].samples[0].value == 3
    assert by_name["process_cpu_seconds"].samples[0].value > 0
    reasons = {sample.labels["reason"] for sample in by_name["groups_closed"].samples}
    assert {"lost", "too_slow"} <= reasons, reasons
    assert all(family.documentation for family in by_name.values())


PARSERS = {
    "text": text_string_to_metric_families,
    "openmetrics": openmetrics.text_string_to_metric_families,
}
check(PARSERS[sys.argv[1]](sys.stdin.read()))

"""Reads a scrape on standard input as Prometheus' own library does, in both its forms, and holds it to what a scrape must
be."""

import re
import sys

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families


def as_openmetrics(scrape: str) -> str:
    """The same where a counter is known without the end of its name, as those see it who read OpenMetrics."""
    heads = re.compile(r"^# (HELP|TYPE) (\S+)_total ", re.MULTILINE)
    return heads.sub(r"# \1 \2 ", scrape) + "# EOF\n"


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


scrape = sys.stdin.read()
check(text_string_to_metric_families(scrape))
check(openmetrics.text_string_to_metric_families(as_openmetrics(scrape)))

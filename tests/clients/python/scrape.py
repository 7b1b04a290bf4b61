"""Reads a scrape on standard input as Prometheus' own library does, and holds it to what a scrape must be."""

import sys

from prometheus_client.parser import text_string_to_metric_families

families = {family.name: family for family in text_string_to_metric_families(sys.stdin.read())}
assert families["groups_connections"].samples[0].value == 1, families["groups_connections"]
assert families["groups_received_messages"].type == "counter"
assert families["groups_received_messages"].samples[0].value == 3
assert families["groups_sent_messages"].samples[0].value == 3
assert families["process_cpu_seconds"].samples[0].value > 0
reasons = {sample.labels["reason"] for sample in families["groups_closed"].samples}
assert {"lost", "too_slow"} <= reasons, reasons
assert all(family.documentation for family in families.values())

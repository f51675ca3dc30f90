# SPDX-License-Identifier: MIT
"""Reads OpenMetrics from standard input with the strict parser of prometheus_client; exit status 0: it is well-formed.
With an argument NAME: some label of some sample must have exactly that value (bytes as hexadecimal digits)."""
import sys

from prometheus_client.openmetrics import parser

text = sys.stdin.buffer.read().decode("utf-8")
families = list(parser.text_string_to_metric_families(text))
values = {value for family in families for sample in family.samples for value in sample.labels.values()}
if len(families) < 20:
    sys.exit(f"only {len(families)} families")
for name in sys.argv[1:]:
    if bytes.fromhex(name).decode("utf-8", "replace") not in values:
        sys.exit(f"no label is {name}")

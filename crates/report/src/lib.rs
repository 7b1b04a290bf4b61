//! threadgauge-report

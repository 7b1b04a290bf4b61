//! threadgauge-stats

//! threadgauge-exec

//! threadgauge-machine

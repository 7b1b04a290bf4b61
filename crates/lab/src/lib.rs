//! threadgauge-lab

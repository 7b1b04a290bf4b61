//! The memory of an idle unit, and its parts: metrics that units of every runtime are told in.

use threadgauge_lab::prelude::*;

/// Memory of an idle unit: the sum of the four parts.
pub const MEMORY: Metric = metric("bytes_per_unit", "B");
/// Its own pages.
pub const PRIVATE: Metric = metric("private_bytes_per_unit", "B");
/// The page tables that lead to them.
pub const PAGE_TABLES: Metric = metric("page_table_bytes_per_unit", "B");
/// Its stack in the kernel.
pub const KERNEL_STACK: Metric = metric("kernel_stack_bytes_per_unit", "B");
/// What else the kernel has for it.
pub const SLAB: Metric = metric("slab_bytes_per_unit", "B");
/// The parts, as the charts and tables name them.
pub const PARTS: [(&str, Metric); 4] = [
    ("its own pages", PRIVATE),
    ("page tables", PAGE_TABLES),
    ("kernel stack", KERNEL_STACK),
    ("other kernel memory", SLAB),
];

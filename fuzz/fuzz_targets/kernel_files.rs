//! What the kernel writes under /proc and /sys: odd kernels and containers write odd files, and none of
//! them may end a run. A quota that was read is one that can be measured under.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadgauge_machine::{
    parse_cfs_quota, parse_cpu_max, parse_cpu_stat, parse_cpuinfo, parse_io, parse_limits,
    parse_preempt_choice, parse_pressure_some_us, parse_proc_stat, parse_schedstat, parse_switches,
    parse_task_stat,
};

fuzz_target!(|text: &str| {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    for quota in [parse_cpu_max(text), parse_cfs_quota(first, rest)]
        .into_iter()
        .flatten()
        .flatten()
    {
        assert!(quota.is_finite() && quota > 0.0, "{quota} CPUs");
    }
    let rows = parse_proc_stat(text);
    assert!(rows.len() <= text.lines().count());
    for pair in rows.windows(2) {
        let between = pair[1].since(&pair[0]);
        assert!(between.busy() <= between.total());
    }
    parse_cpu_stat(text);
    parse_cpuinfo(text);
    parse_io(text);
    parse_schedstat(text);
    parse_switches(text);
    if let Some(stat) = parse_task_stat(text) {
        assert!(stat.own_ticks() >= stat.user_ticks, "{stat:?}");
    }
    parse_limits(rest, first);
    parse_preempt_choice(text);
    parse_pressure_some_us(text);
});

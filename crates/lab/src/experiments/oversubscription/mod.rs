//! x
mod crowd; mod grid; mod refusal; mod statistic;
#[doc(hidden)]
pub fn drive(params: &threadgauge_results::Params, worker: &crate::worker::Worker) {
    let case = grid::Case::from_params(params).unwrap();
    let s = crowd::slice_ns();
    match crowd::measure(case, worker) {
        Ok(m) => println!("{params} slice {s:.0} elapsed {:.2} total {:.2} start {:.2} end {:.2} cpu {:.2} vol {} inv {} alive {:.1} ideal {:.2} per-slice-sw {:.3}", m.elapsed_ns/1e6, m.total_ns/1e6, m.start_ns/1e6, m.end_ns/1e6, m.cpu_ns/1e6, m.voluntary, m.involuntary, m.alive, s*case.slices as f64/case.cpus.min(case.count) as f64/1e6, (m.voluntary+m.involuntary) as f64/case.slices as f64),
        Err(e) => println!("{params}: {e}"),
    }
}

//! Processors that are programs: their times are not a machine's, and whoever compares them is told.

use serde_json::Value;

use super::compared::Repeated;

/// That the processors of these sides are emulated, by the names of those of which any run's is.
pub(super) fn emulated<'a>(sides: impl IntoIterator<Item = (&'a str, &'a Repeated)>) -> Option<String> {
    let machines = |(name, side): (&'a str, &'a Repeated)| {
        let runs = side.runs.iter();
        runs.map(move |run| (name, &run.results.machine))
    };
    emulated_machines(sides.into_iter().flat_map(machines))
}

/// The same of the machines of runs, each with what its side is called.
pub(super) fn emulated_machines<'a>(
    machines: impl IntoIterator<Item = (&'a str, &'a Value)>,
) -> Option<String> {
    let emulated = machines.into_iter().filter(|(_, machine)| is_emulated(machine));
    let mut names: Vec<&str> = emulated.map(|(name, _)| name).collect();
    names.dedup();
    let were = match names.len() {
        0 => return None,
        1 => "was",
        _ => "were",
    };
    Some(format!(
        "{} {were} measured on an emulated processor: its times are those of the program that emulates it, and not a \
         machine's",
        names.join(", ")
    ))
}

/// Whether the processor is a program: QEMU without the help of the hardware.
pub(crate) fn is_emulated(machine: &Value) -> bool {
    let says = |name: &str, words: &str| {
        let text = machine.get(name).and_then(Value::as_str);
        text.is_some_and(|text| text.to_lowercase().contains(words))
    };
    says("hypervisor", "tcg") || says("cpu_model", "qemu tcg")
}

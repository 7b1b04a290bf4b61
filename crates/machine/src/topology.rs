//! CPUs, cores, packages, caches and memory nodes, as the kernel lists them.
//!
//! What of it this process may use is `affinity.rs` and `cgroup.rs`.

use crate::cpulist::CpuList;
use crate::source::{Fact, Source};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// How the CPUs hang together. `None` where it could not be read. In a virtual machine this is what the
/// hypervisor tells, which may be far from the truth.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Topology {
    /// Processor packages (sockets).
    pub packages: Option<usize>,
    /// Cores, over all packages.
    pub cores: Option<usize>,
    /// The CPUs of each core that has more than one.
    pub smt_siblings: Option<Vec<CpuList>>,
    /// The CPUs that share a cache of the last level, of each that several share.
    pub cache_siblings: Option<Vec<CpuList>>,
    /// Memory nodes, as the CPUs of each.
    pub numa_nodes: Option<Vec<CpuList>>,
    /// Each cache once for every set of CPUs that shares it, nearest first.
    pub caches: Option<Vec<Cache>>,
}

/// A kind of cache.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cache {
    /// 1 is nearest to the CPU.
    pub level: u8,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Size in KiB of one of them.
    pub size_kib: u64,
    /// How many there are.
    pub count: usize,
    /// The CPUs that share the first of them.
    pub shared_by: CpuList,
}

/// What `/proc/cpuinfo` says of the processors.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CpuInfo {
    /// The model's name.
    pub model: Option<String>,
    /// How many processors it lists.
    pub processors: usize,
    /// Frequency of the first processor at this moment, in MHz. Nominal in most virtual machines.
    pub mhz: Option<f64>,
    /// Does the processor say that it runs under a hypervisor? `None` where it has no flags line.
    pub has_hypervisor_flag: Option<bool>,
}

/// Reads a `/proc/cpuinfo` text, of x86 or another architecture; what is not there is `None`.
pub fn parse_cpuinfo(text: &str) -> CpuInfo {
    let value = |names: &[&str]| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let value = value.trim();
            // gVisor has the lines and knows nothing.
            let says = !["", "unknown"].contains(&value);
            (names.contains(&name.trim()) && says).then(|| value.to_owned())
        })
    };
    let starts_processor = |line: &&str| {
        line.split_once(':')
            .is_some_and(|(name, _)| name.trim_end() == "processor")
    };
    CpuInfo {
        // x86 and RISC-V name the model of each CPU, POWER "cpu", old ARM the board.
        model: value(&["model name", "cpu", "uarch", "Hardware"]),
        processors: text.lines().filter(starts_processor).count(),
        mhz: value(&["cpu MHz", "clock"])
            .and_then(|mhz| mhz.trim_end_matches("MHz").parse().ok())
            .filter(|mhz: &f64| mhz.is_finite() && *mhz > 0.0),
        has_hypervisor_flag: value(&["flags"])
            .map(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor")),
    }
}

/// The CPUs that are switched on.
pub(crate) fn online(source: &Source) -> Fact<CpuList> {
    source.value(&format!("{CPUS}/online"))
}

impl Topology {
    /// Reads all of it; calls `unknown` with field and reason for each part that cannot be read.
    pub(crate) fn read(source: &Source, online: &CpuList, unknown: &mut dyn FnMut(&str, String)) -> Topology {
        let mut keep = |field: &str, reason: String| unknown(&format!("topology.{field}"), reason);
        let cores = cores(source, online).map_err(|reason| keep("cores", reason)).ok();
        let siblings = cores.as_ref().map(several);
        if siblings.is_none() {
            keep("smt_siblings", "the cores are not known".to_owned());
        }
        let caches = caches(source, online);
        let cache_siblings = caches.as_ref().map(last_level).map_err(String::clone);
        Topology {
            packages: packages(source, online)
                .map_err(|reason| keep("packages", reason))
                .ok(),
            cores: cores.map(|cores| cores.len()),
            smt_siblings: siblings,
            cache_siblings: cache_siblings
                .map_err(|reason| keep("cache_siblings", reason))
                .ok(),
            numa_nodes: numa_nodes(source)
                .map_err(|reason| keep("numa_nodes", reason))
                .ok(),
            caches: caches.map(listed).map_err(|reason| keep("caches", reason)).ok(),
        }
    }

    /// Does some core run more than one CPU?
    pub fn smt(&self) -> Option<bool> {
        self.smt_siblings.as_ref().map(|siblings| !siblings.is_empty())
    }
}

/// The CPUs of each core of this machine that has several; none where the kernel does not say which.
pub fn smt_siblings() -> Vec<CpuList> {
    let source = Source::new(Path::new("/"));
    let cores = online(&source).and_then(|online| cores(&source, &online));
    cores.as_ref().map(several).unwrap_or_default()
}

/// Those cores that have several CPUs.
fn several(cores: &BTreeSet<CpuList>) -> Vec<CpuList> {
    cores.iter().filter(|core| core.len() > 1).cloned().collect()
}

/// These CPUs, those of different cores before the second CPU of any, and how many of the first are of different cores:
/// "two CPUs" are two cores wherever there are two. `siblings` are the CPUs of each core that has several.
///
/// ```
/// use threadgauge_machine::{CpuList, cores_first};
///
/// let [first, second] = [CpuList::new([0, 1]), CpuList::new([2, 3])];
/// assert_eq!(cores_first(&CpuList::new(0..4), &[first, second]), (vec![0, 2, 1, 3], 2));
/// ```
pub fn cores_first(cpus: &CpuList, siblings: &[CpuList]) -> (Vec<usize>, usize) {
    let is_second = |cpu: &usize| {
        let mut cores = siblings.iter().filter(|core| core.contains(*cpu));
        cores.any(|core| core.intersection(cpus).iter().next() != Some(*cpu))
    };
    let (seconds, mut in_order): (Vec<usize>, Vec<usize>) = cpus.iter().partition(is_second);
    let cores = in_order.len();
    in_order.extend(seconds);
    (in_order, cores)
}

fn no_cpus() -> String {
    format!("{CPUS}/online does not say which CPUs there are")
}

/// The CPUs of each core.
fn cores(source: &Source, online: &CpuList) -> Fact<BTreeSet<CpuList>> {
    if online.is_empty() {
        return Err(no_cpus());
    }
    online
        .iter()
        .map(|cpu| {
            let of_cpu = |name: &str| source.value(&format!("{CPUS}/cpu{cpu}/topology/{name}"));
            // The second is the name before kernel 5.3.
            of_cpu("core_cpus_list").or_else(|_| of_cpu("thread_siblings_list"))
        })
        .collect()
}

fn packages(source: &Source, online: &CpuList) -> Fact<usize> {
    if online.is_empty() {
        return Err(no_cpus());
    }
    let ids: Fact<BTreeSet<i64>> = online
        .iter()
        .map(|cpu| source.value(&format!("{CPUS}/cpu{cpu}/topology/physical_package_id")))
        .collect();
    ids.map(|ids| ids.len())
}

fn numa_nodes(source: &Source) -> Fact<Vec<CpuList>> {
    let is_node = |name: &String| {
        name.strip_prefix("node")
            .is_some_and(|n| n.parse::<u32>().is_ok())
    };
    let names: Vec<String> = source.names(NODES).into_iter().filter(is_node).collect();
    if names.is_empty() {
        return Err(format!("{NODES} lists no memory nodes"));
    }
    let mut nodes = Vec::new();
    for name in names {
        let path = format!("{NODES}/{name}/cpulist");
        match source.text(&path)?.trim() {
            // A node of memory alone.
            "" => nodes.push(CpuList::default()),
            list => nodes.push(list.parse().map_err(|error| format!("{path}: {error}"))?),
        }
    }
    nodes.sort();
    Ok(nodes)
}

/// Level, kind and size in KiB of caches, and the CPUs that share each of them.
type Caches = BTreeMap<(u8, String, u64), BTreeSet<CpuList>>;

fn caches(source: &Source, online: &CpuList) -> Fact<Caches> {
    let mut kinds = Caches::new();
    for cpu in online.iter() {
        let folder = format!("{CPUS}/cpu{cpu}/cache");
        for index in source
            .names(&folder)
            .iter()
            .filter(|name| name.starts_with("index"))
        {
            let file = |name: &str| format!("{folder}/{index}/{name}");
            let level = source.value(&file("level"))?;
            let kind = source.word(&file("type"))?;
            let size = source.word(&file("size"))?;
            let size_kib = parse_size_kib(&size).ok_or_else(|| format!("{} holds {size:?}", file("size")))?;
            let shared_by = source.value(&file("shared_cpu_list"))?;
            kinds
                .entry((level, kind, size_kib))
                .or_default()
                .insert(shared_by);
        }
    }
    if kinds.is_empty() {
        return Err(format!("{CPUS}/cpu*/cache lists no caches"));
    }
    Ok(kinds)
}

fn listed(kinds: Caches) -> Vec<Cache> {
    let of_kind = |((level, kind, size_kib), sharers): ((u8, String, u64), BTreeSet<CpuList>)| Cache {
        level,
        kind,
        size_kib,
        count: sharers.len(),
        shared_by: sharers.into_iter().next().unwrap_or_default(),
    };
    kinds.into_iter().map(of_kind).collect()
}

/// Who shares a cache of the last level: big and little cores may have such caches of different sizes.
fn last_level(kinds: &Caches) -> Vec<CpuList> {
    let last = kinds.keys().map(|(level, ..)| *level).max();
    let of_last = kinds.iter().filter(|((level, ..), _)| Some(*level) == last);
    let mut sharers: Vec<CpuList> = of_last.flat_map(|(_, sharers)| sharers).cloned().collect();
    sharers.retain(|cpus| cpus.len() > 1);
    sharers.sort();
    sharers
}

/// `48K`, `1024K`, `32M`.
fn parse_size_kib(text: &str) -> Option<u64> {
    let number = |suffix: char| text.strip_suffix(suffix)?.parse::<u64>().ok();
    number('K').or_else(|| number('M')?.checked_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_second_cpu_of_a_core_comes_after_the_first_of_all() {
        let order = |cpus: &str, siblings: &[&str]| {
            let list = |of: &str| of.parse::<CpuList>().unwrap();
            let siblings: Vec<CpuList> = siblings.iter().map(|of| list(of)).collect();
            cores_first(&list(cpus), &siblings)
        };
        assert_eq!(order("0-3", &[]), (vec![0, 1, 2, 3], 4));
        assert_eq!(order("0-5", &["0-1", "2-3", "4-5"]), (vec![0, 2, 4, 1, 3, 5], 3));
        assert_eq!(order("0-5", &["0,3", "1,4", "2,5"]), (vec![0, 1, 2, 3, 4, 5], 3));
        // Of a core of which one CPU may be used that one is the first.
        assert_eq!(order("1-3", &["0-1", "2-3"]), (vec![1, 2, 3], 2));
        assert_eq!(order("2-3", &["0-1", "2-3"]), (vec![2, 3], 1));
    }

    #[test]
    fn siblings_are_those_of_the_fingerprint() {
        let known = crate::fingerprint().topology.smt_siblings.unwrap_or_default();
        assert_eq!(smt_siblings(), known);
    }

    #[test]
    fn cpuinfo_of_a_virtual_machine() {
        let text = "processor\t: 0\nmodel name\t: AMD EPYC\ncpu MHz\t\t: 2596.128\nflags\t\t: fpu hypervisor\n\
                    \nprocessor\t: 1\nmodel name\t: AMD EPYC\n";
        let info = parse_cpuinfo(text);
        assert_eq!(info.model.as_deref(), Some("AMD EPYC"));
        assert_eq!(
            (info.processors, info.mhz, info.has_hypervisor_flag),
            (2, Some(2596.128), Some(true))
        );
    }

    #[test]
    fn a_model_that_is_called_unknown_is_not_known() {
        let info = parse_cpuinfo("processor\t: 0\nmodel\t\t: 1\nmodel name\t: unknown\n");
        assert_eq!((info.processors, info.model), (1, None));
    }

    #[test]
    fn cpuinfo_of_arm_has_no_model_and_no_flags() {
        let text = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n";
        assert_eq!(
            parse_cpuinfo(text),
            CpuInfo {
                processors: 1,
                ..CpuInfo::default()
            }
        );
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size_kib("48K"), Some(48));
        assert_eq!(parse_size_kib("32M"), Some(32_768));
        assert_eq!(parse_size_kib("48"), None);
        assert_eq!(parse_size_kib("18446744073709551615M"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "((processor|cpu MHz|flags|\\PC{0,9})[\t:]{0,3}\\PC{0,20}\n){0,4}") {
            let _ = parse_cpuinfo(&text);
        }
    }
}

//! What lies below and beside the kernel: hypervisor, frequency, C library, optional interfaces.

use crate::source::{Fact, Source};
use crate::sys;
use crate::topology::CpuInfo;
use serde::{Deserialize, Serialize};
use std::io;

/// Can an interface of the kernel be used here?
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Availability {
    /// It was tried and worked.
    pub available: bool,
    /// Why it cannot be used; `None` if it can.
    pub why_not: Option<String>,
}

impl Availability {
    fn yes() -> Availability {
        Availability {
            available: true,
            why_not: None,
        }
    }

    fn no(why: String) -> Availability {
        Availability {
            available: false,
            why_not: Some(why),
        }
    }
}

/// The hypervisor's name, such as `kvm`; `Ok(None)` where there is none.
pub(crate) fn hypervisor(source: &Source, cpuinfo: Option<&CpuInfo>) -> Fact<Option<String>> {
    if source.is_live()
        && let Some(signature) = sys::hypervisor_signature()
    {
        return Ok(Some(name_of_signature(&signature)));
    }
    if let Ok(kind) = source.word("/sys/hypervisor/type") {
        return Ok(Some(kind));
    }
    if let Some(name) = hypervisor_in_dmi(source) {
        return Ok(Some(name));
    }
    // A paravirtual clock is known to one hypervisor only.
    match source
        .word("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .as_deref()
    {
        Ok("kvm-clock") => return Ok(Some("kvm".to_owned())),
        Ok(clock) if clock.starts_with("hyperv_") => return Ok(Some("hyper-v".to_owned())),
        Ok("xen") => return Ok(Some("xen".to_owned())),
        _ => {}
    }
    match cpuinfo.and_then(|info| info.has_hypervisor_flag) {
        Some(false) => Ok(None),
        Some(true) => Ok(Some("unnamed".to_owned())),
        None => Err("neither CPUID, /sys/hypervisor, DMI nor a flag in /proc/cpuinfo says it".to_owned()),
    }
}

fn name_of_signature(signature: &str) -> String {
    let known = [
        ("KVMKVMKVM", "kvm"),
        ("Linux KVM Hv", "kvm"),
        ("Microsoft Hv", "hyper-v"),
        ("VMwareVMware", "vmware"),
        ("XenVMMXenVMM", "xen"),
        ("TCGTCGTCGTCG", "qemu-tcg"),
        ("VBoxVBoxVBox", "virtualbox"),
        ("bhyve bhyve", "bhyve"),
        ("ACRNACRNACRN", "acrn"),
        ("lrpepyh vr", "parallels"),
    ];
    let found = known.iter().find(|(text, _)| *text == signature);
    found.map_or(signature, |(_, name)| name).to_owned()
}

/// Vendor and product only: the serial numbers beside them are nobody's business.
fn hypervisor_in_dmi(source: &Source) -> Option<String> {
    let known = [
        ("KVM", "kvm"),
        ("QEMU", "qemu"),
        ("VMware", "vmware"),
        ("VirtualBox", "virtualbox"),
        ("Xen", "xen"),
        ("Amazon EC2", "kvm (Amazon EC2)"),
        ("Google Compute Engine", "kvm (Google Compute Engine)"),
        ("OpenStack", "kvm (OpenStack)"),
        ("Parallels", "parallels"),
        ("BHYVE", "bhyve"),
        ("Virtual Machine", "hyper-v"),
    ];
    let fields = ["product_name", "sys_vendor", "board_vendor", "bios_vendor"];
    let texts: Vec<String> = fields
        .iter()
        .filter_map(|field| source.word(&format!("/sys/class/dmi/id/{field}")).ok())
        .collect();
    // Amazon's machines of bare metal carry the vendor's name too.
    if texts.iter().any(|text| text.ends_with(".metal")) {
        return None;
    }
    let hit = known
        .iter()
        .find(|(text, _)| texts.iter().any(|candidate| candidate.contains(text)));
    hit.map(|(_, name)| (*name).to_owned())
}

/// The frequency governor, if all CPUs have the same; else each kind.
pub(crate) fn governor(source: &Source) -> Fact<String> {
    let cpus = "/sys/devices/system/cpu";
    let first = format!("{cpus}/cpu0/cpufreq");
    if !source.exists(&first) {
        return Err(format!(
            "no cpufreq here: {first} does not exist (usual in a virtual machine)"
        ));
    }
    let is_cpu = |name: &String| name.strip_prefix("cpu").is_some_and(|n| n.parse::<u32>().is_ok());
    let folders = source.names(cpus).into_iter().filter(is_cpu);
    let mut governors: Vec<String> = folders
        .filter_map(|cpu| {
            source
                .word(&format!("{cpus}/{cpu}/cpufreq/scaling_governor"))
                .ok()
        })
        .collect();
    governors.sort();
    governors.dedup();
    if governors.is_empty() {
        return source.word(&format!("{first}/scaling_governor"));
    }
    Ok(governors.join(", "))
}

/// May the processor exceed its nominal frequency?
pub(crate) fn turbo(source: &Source) -> Fact<bool> {
    let intel = "/sys/devices/system/cpu/intel_pstate/no_turbo";
    let others = "/sys/devices/system/cpu/cpufreq/boost";
    match source.word(intel).as_deref() {
        Ok("0") => return Ok(true),
        Ok("1") => return Ok(false),
        _ => {}
    }
    match source.word(others).as_deref() {
        Ok("1") => Ok(true),
        Ok("0") => Ok(false),
        _ => Err(format!("neither {intel} nor {others} says it")),
    }
}

/// A field of `/proc/meminfo`, in KiB.
pub(crate) fn meminfo_kib(source: &Source, field: &str) -> Fact<u64> {
    let text = source.text("/proc/meminfo")?;
    let value = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name == field).then(|| value.trim().trim_end_matches("kB").trim_end().parse().ok())?
    });
    value.ok_or_else(|| format!("/proc/meminfo has no usable line {field}"))
}

const NOT_LIVE: &str = "can only be asked of the running machine";

/// `glibc 2.36`.
pub(crate) fn c_library(source: &Source) -> Fact<String> {
    if !source.is_live() {
        return Err(NOT_LIVE.to_owned());
    }
    let version = sys::gnu_libc_version().map(|version| format!("glibc {version}"));
    version.ok_or_else(|| "this program is not linked with the GNU C library".to_owned())
}

/// `NPTL 2.36`.
pub(crate) fn thread_library(source: &Source) -> Fact<String> {
    if !source.is_live() {
        return Err(NOT_LIVE.to_owned());
    }
    sys::thread_library().ok_or_else(|| "the C library does not name its thread library".to_owned())
}

/// Asks for a small io_uring.
pub(crate) fn io_uring(source: &Source) -> Fact<Availability> {
    let setting = source.word("/proc/sys/kernel/io_uring_disabled");
    let setting = match setting.as_deref() {
        Ok("1") => " (kernel.io_uring_disabled is 1: only for processes in kernel.io_uring_group)",
        Ok("2") => " (kernel.io_uring_disabled is 2: for nobody)",
        _ => "",
    };
    if !source.is_live() {
        return if setting.is_empty() {
            Err(NOT_LIVE.to_owned())
        } else {
            Ok(Availability::no(setting.trim_start().to_owned()))
        };
    }
    Ok(match sys::try_io_uring() {
        Ok(()) => Availability::yes(),
        Err(error) => {
            let why = match error.raw_os_error() {
                Some(libc::ENOSYS) => "the kernel has no io_uring or a filter hides it".to_owned(),
                Some(libc::EPERM) if setting.is_empty() => "a security filter forbids it".to_owned(),
                _ => format!("io_uring_setup: {error}"),
            };
            Availability::no(format!("{why}{setting}"))
        }
    })
}

/// Opens a hardware counter.
pub(crate) fn perf_counters(source: &Source) -> Fact<Availability> {
    if !source.is_live() {
        return Err(NOT_LIVE.to_owned());
    }
    Ok(match sys::try_hardware_counter() {
        Ok(()) => Availability::yes(),
        Err(error) => Availability::no(why_no_counter(source, &error)),
    })
}

fn why_no_counter(source: &Source, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "the processor shows no hardware counters (usual in a virtual machine)".to_owned()
        }
        Some(libc::ENOSYS) => "the kernel has no perf events or a filter hides them".to_owned(),
        Some(libc::EACCES | libc::EPERM) => {
            let paranoid = source.word("/proc/sys/kernel/perf_event_paranoid");
            let level = paranoid.unwrap_or_else(|_| "unknown".to_owned());
            format!("not allowed: kernel.perf_event_paranoid is {level}, 2 or less lets a user count itself")
        }
        _ => format!("perf_event_open: {error}"),
    }
}

/// Can the kernel tell how long units wait for a CPU?
pub(crate) fn pressure(source: &Source) -> Availability {
    // The file exists where PSI is built in but switched off, and only reading it fails.
    match source.text("/proc/pressure/cpu") {
        Ok(_) => Availability::yes(),
        Err(reason) => Availability::no(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_signatures_have_short_names_and_others_stay_as_they_are() {
        assert_eq!(name_of_signature("KVMKVMKVM"), "kvm");
        assert_eq!(name_of_signature("NewNewNewNew"), "NewNewNewNew");
    }

    #[test]
    fn what_was_tried_here_has_an_answer_or_a_reason() {
        let live = Source::new(std::path::Path::new("/"));
        for tried in [io_uring(&live).unwrap(), perf_counters(&live).unwrap()] {
            assert_eq!(tried.available, tried.why_not.is_none(), "{tried:?}");
        }
    }
    /// A machine with this one file.
    fn with(path: &str, text: &str) -> (tempfile::TempDir, Source) {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
        let source = Source::new(root.path());
        (root, source)
    }

    #[test]
    fn each_driver_says_in_its_own_way_whether_the_processor_may_exceed_its_frequency() {
        let intel = "/sys/devices/system/cpu/intel_pstate/no_turbo";
        let others = "/sys/devices/system/cpu/cpufreq/boost";
        for (path, word, may) in [
            (intel, "0\n", Some(true)),
            (intel, "1\n", Some(false)),
            (intel, "2\n", None),
            (others, "1\n", Some(true)),
            (others, "0\n", Some(false)),
        ] {
            let (_root, source) = with(path, word);
            assert_eq!(turbo(&source).ok(), may, "{path} {word}");
        }
    }

    #[test]
    fn why_there_is_no_counter_follows_from_what_the_kernel_says() {
        let (_root, source) = with("/proc/sys/kernel/perf_event_paranoid", "4\n");
        for (error, says) in [
            (libc::ENOENT, "the processor shows no hardware counters"),
            (libc::ENOSYS, "the kernel has no perf events"),
            (libc::EACCES, "not allowed: kernel.perf_event_paranoid is 4"),
            (libc::EMFILE, "perf_event_open: Too many open files"),
        ] {
            let why = why_no_counter(&source, &io::Error::from_raw_os_error(error));
            assert!(why.starts_with(says), "{why}");
        }
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn both_libraries_have_the_version_of_the_c_library() {
        let live = Source::new(std::path::Path::new("/"));
        let library = c_library(&live).unwrap();
        let version = library.strip_prefix("glibc ").unwrap();
        let (major, minor) = version.split_once('.').unwrap();
        assert!(
            major.parse::<u32>().is_ok() && minor.starts_with(|c: char| c.is_ascii_digit()),
            "{library}"
        );
        assert_eq!(thread_library(&live).unwrap(), format!("NPTL {version}"));
    }
    #[test]
    fn of_a_machine_that_cannot_be_asked_its_setting_says_whether_io_uring_is_refused() {
        let why = |setting: &str| {
            let (_root, source) = with("/proc/sys/kernel/io_uring_disabled", setting);
            io_uring(&source).map(|of| of.why_not.unwrap())
        };
        assert!(
            why("1\n")
                .unwrap()
                .contains("only for processes in kernel.io_uring_group")
        );
        assert!(why("2\n").unwrap().contains("for nobody"));
        assert!(why("0\n").is_err());
    }

    #[test]
    fn a_clock_that_one_hypervisor_has_names_it() {
        let name = |clock: &str| {
            let (_root, source) = with(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
                clock,
            );
            hypervisor(&source, None).ok().flatten()
        };
        assert_eq!(name("kvm-clock\n").as_deref(), Some("kvm"));
        assert_eq!(name("hyperv_clocksource_tsc_page\n").as_deref(), Some("hyper-v"));
        assert_eq!(name("xen\n").as_deref(), Some("xen"));
        assert_eq!(name("tsc\n"), None);
    }
}

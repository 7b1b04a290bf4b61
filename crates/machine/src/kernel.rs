//! The kernel: version, preemption, scheduler, mitigations, clock source.
//!
//! Preemption deserves care: a kernel built with PREEMPT_DYNAMIC can be in any of four modes, and says
//! only `PREEMPT_DYNAMIC` in `uname -v`. So the sources are asked in order of honesty, and the one that
//! answered is part of the answer. The command line is searched but never stored: it may hold anything.

use crate::source::{Fact, Source};
use rustix::system::uname;
use std::collections::BTreeMap;

/// The kernel's build configuration, from wherever it can be had.
#[derive(Debug)]
pub(crate) struct Config {
    text: Fact<String>,
    path: String,
}

impl Config {
    pub(crate) fn read(source: &Source, release: Option<&str>) -> Config {
        let mut reasons = Vec::new();
        let plain = release.map(|release| {
            [
                format!("/boot/config-{release}"),
                format!("/lib/modules/{release}/config"),
            ]
        });
        for path in plain.into_iter().flatten() {
            match source.text(&path) {
                Ok(text) => return Config { text: Ok(text), path },
                Err(reason) => reasons.push(reason),
            }
        }
        let path = "/proc/config.gz".to_owned();
        match unpack(source, &path) {
            Ok(text) => Config { text: Ok(text), path },
            Err(reason) => {
                reasons.push(reason);
                Config {
                    text: Err(reasons.join("; ")),
                    path,
                }
            }
        }
    }

    /// Is `CONFIG_<name>` built in? An error without a configuration.
    fn has(&self, name: &str) -> Fact<bool> {
        let line = format!("CONFIG_{name}=y");
        self.text
            .as_ref()
            .map(|text| text.lines().any(|l| l == line))
            .map_err(String::clone)
    }

    /// The timer's ticks a second.
    pub(crate) fn tick_hz(&self) -> Fact<u32> {
        let text = self.text.as_ref().map_err(String::clone)?;
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix("CONFIG_HZ=")?.parse().ok());
        value.ok_or_else(|| format!("{} has no CONFIG_HZ", self.path))
    }
}

/// The standard library has no decompressor and one file is not worth a dependency, so `zcat` is asked.
fn unpack(source: &Source, path: &str) -> Fact<String> {
    if !source.exists(path) {
        return Err(format!("{path} does not exist"));
    }
    let output = std::process::Command::new("zcat")
        .stdin(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .arg(source.path(path))
        .output()
        .map_err(|error| format!("{path} is compressed and zcat cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(format!("{path} cannot be unpacked: zcat failed"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The mode and where it was read: `("none (dynamic, config default)", "/proc/config.gz")`.
pub(crate) fn preemption(source: &Source, config: &Config, version: Option<&str>) -> Fact<(String, String)> {
    const DEBUG: &str = "/sys/kernel/debug/sched/preempt";
    let debug = match source.word(DEBUG) {
        Ok(text) => match parse_preempt_choice(&text) {
            Some(mode) => return Ok((format!("{mode} (dynamic)"), DEBUG.to_owned())),
            None => format!("{DEBUG} holds {text:?}"),
        },
        Err(reason) => reason,
    };
    if let Some(mode) = preempt_on_command_line(&source.text("/proc/cmdline").unwrap_or_default()) {
        return Ok((
            format!("{mode} (dynamic)"),
            "preempt= in /proc/cmdline".to_owned(),
        ));
    }
    let from_config = || -> Fact<Option<String>> {
        let is_dynamic = config.has("PREEMPT_DYNAMIC")?;
        for (name, mode) in [
            ("PREEMPT_RT", "real-time"),
            ("PREEMPT_LAZY", "lazy"),
            ("PREEMPT_NONE", "none"),
            ("PREEMPT_VOLUNTARY", "voluntary"),
            ("PREEMPT", "full"),
        ] {
            if config.has(name)? {
                let note = if is_dynamic {
                    " (dynamic, config default)"
                } else {
                    ""
                };
                return Ok(Some(format!("{mode}{note}")));
            }
        }
        Ok(None)
    };
    let config_reason = match from_config() {
        Ok(Some(mode)) => return Ok((mode, config.path.clone())),
        Ok(None) => format!("{} names no preemption model", config.path),
        Err(reason) => reason,
    };
    let in_version = |word: &str| version.is_some_and(|v| v.split([' ', '_', '(']).any(|w| w == word));
    let version_says = |mode: &str| Ok((mode.to_owned(), "uname -v".to_owned()));
    match version {
        Some(v) if v.contains("PREEMPT_DYNAMIC") => Err(format!(
            "uname -v says PREEMPT_DYNAMIC, which may be any mode; {debug}; {config_reason}"
        )),
        Some(v) if v.contains("PREEMPT_RT") => version_says("real-time"),
        Some(v) if v.contains("PREEMPT_LAZY") => version_says("lazy"),
        Some(_) if in_version("PREEMPT") => version_says("full"),
        // Servers and desktops differ just here, and neither says so.
        Some(_) => Err(format!(
            "uname -v shows none or voluntary, not which; {debug}; {config_reason}"
        )),
        None => Err(format!(
            "{debug}; {config_reason}; /proc/sys/kernel/version cannot be read"
        )),
    }
}

/// The mode in parentheses: `none voluntary (full) lazy` is `full`.
pub fn parse_preempt_choice(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('(')?;
    let (mode, _) = rest.split_once(')')?;
    (!mode.is_empty()).then_some(mode)
}

fn preempt_on_command_line(command_line: &str) -> Option<&str> {
    // What follows `--` is for the first program, not the kernel.
    let words = command_line
        .split_ascii_whitespace()
        .take_while(|word| *word != "--");
    let known = ["none", "voluntary", "full", "lazy"];
    words
        .filter_map(|word| word.strip_prefix("preempt="))
        .filter(|mode| known.contains(mode))
        .last()
}

/// What gVisor, which answers a program's calls in a kernel's place, says of its build: it calls itself a Linux of
/// 2016.
const VERSION_OF_GVISOR: &str = "#1 SMP Sun Jan 10 15:06:54 PST 2016";
const GVISOR: &str = "gvisor";

/// The release and the version of what answers the program's calls, as `uname` has them. Where the files are not there,
/// which gVisor lacks, it is asked itself.
pub(crate) fn release_and_version(source: &Source) -> [Fact<String>; 2] {
    let mut facts = ["osrelease", "version"].map(|name| source.word(&format!("/proc/sys/kernel/{name}")));
    if source.is_live() {
        let said = uname();
        for (fact, said) in facts.iter_mut().zip([said.release(), said.version()]) {
            *fact = fact.clone().or_else(|_| Ok(said.to_string_lossy().into_owned()));
        }
    }
    let [release, version] = facts;
    [named(release, version.as_deref().ok()), version]
}

/// A release that says where it is gVisor's.
fn named(release: Fact<String>, version: Option<&str>) -> Fact<String> {
    let is_hidden = version == Some(VERSION_OF_GVISOR);
    release.map(|release| match is_hidden && !release.contains(GVISOR) {
        true => format!("{release}-{GVISOR}"),
        false => release,
    })
}

/// EEVDF replaced CFS in 6.6.
pub(crate) fn scheduler(release: &str) -> Fact<String> {
    if release.contains(GVISOR) {
        return Err("gVisor's threads are scheduled by the kernel below it".to_owned());
    }
    let mut numbers = release.split(['.', '-', '+']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => {
            Ok(if (major, minor) >= (6, 6) { "EEVDF" } else { "CFS" }.to_owned())
        }
        _ => Err(format!(
            "the kernel's release {release:?} does not start with two numbers"
        )),
    }
}

/// How long a unit may run before another one's turn, in nanoseconds.
pub(crate) fn slice_ns(source: &Source) -> Fact<u64> {
    let folder = "/sys/kernel/debug/sched";
    let newest = source.value(&format!("{folder}/base_slice_ns"));
    newest
        .or_else(|reason| {
            source
                .value(&format!("{folder}/min_granularity_ns"))
                .map_err(|_| reason)
        })
        .map_err(|reason| format!("{reason} (it needs root and debugfs mounted on /sys/kernel/debug)"))
}

/// What the kernel does against each known weakness of the processor.
pub(crate) fn mitigations(source: &Source) -> Fact<BTreeMap<String, String>> {
    let folder = "/sys/devices/system/cpu/vulnerabilities";
    let names = source.names(folder).into_iter();
    let all: BTreeMap<String, String> = names
        .filter_map(|name| Some((name.clone(), source.word(&format!("{folder}/{name}")).ok()?)))
        .collect();
    if all.is_empty() {
        Err(format!("{folder} does not exist or is empty"))
    } else {
        Ok(all)
    }
}

/// The choice in brackets: `always [madvise] never` is `madvise`.
pub(crate) fn huge_pages(source: &Source) -> Fact<String> {
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    let text = source.word(path)?;
    let choice = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    choice
        .map(|(mode, _)| mode.to_owned())
        .ok_or_else(|| format!("{path} holds {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(lines: &str) -> Config {
        Config {
            text: Ok(lines.to_owned()),
            path: "/boot/config-x".to_owned(),
        }
    }

    fn empty_root() -> (tempfile::TempDir, Source) {
        let folder = tempfile::tempdir().unwrap();
        let source = Source::new(folder.path());
        (folder, source)
    }

    #[test]
    fn gvisor_is_named_where_it_calls_itself_a_linux() {
        let of = |release: &str, version| named(Ok(release.to_owned()), Some(version)).unwrap();
        assert_eq!(of("4.4.0", VERSION_OF_GVISOR), "4.4.0-gvisor");
        assert_eq!(of("4.19.0-gvisor", VERSION_OF_GVISOR), "4.19.0-gvisor");
        assert_eq!(of("4.4.0", "#1 SMP Debian 4.4"), "4.4.0");
        assert!(scheduler("4.4.0-gvisor").unwrap_err().contains("gVisor"));
        let (_folder, nothing) = empty_root();
        assert!(release_and_version(&nothing).iter().all(Result::is_err));
        let here = Source::new(std::path::Path::new("/"));
        assert!(release_and_version(&here).iter().all(Result::is_ok));
    }

    #[test]
    fn a_dynamic_kernel_is_in_the_mode_of_its_configuration_and_says_so() {
        let (_folder, source) = empty_root();
        let config = config("CONFIG_PREEMPT_NONE=y\n# CONFIG_PREEMPT is not set\nCONFIG_PREEMPT_DYNAMIC=y\n");
        let (mode, from) = preemption(&source, &config, Some("#1 SMP PREEMPT_DYNAMIC")).unwrap();
        assert_eq!(
            (mode.as_str(), from.as_str()),
            ("none (dynamic, config default)", "/boot/config-x")
        );
    }

    #[test]
    fn without_configuration_the_version_alone_is_not_believed() {
        let (_folder, source) = empty_root();
        let none = Config {
            text: Err("no configuration".to_owned()),
            path: String::new(),
        };
        let of = |version| preemption(&source, &none, version);
        assert!(
            of(Some("#1 SMP PREEMPT_DYNAMIC Fri"))
                .unwrap_err()
                .contains("may be any mode")
        );
        assert!(
            of(Some("#1 SMP Debian 6.1"))
                .unwrap_err()
                .contains("none or voluntary")
        );
        assert!(of(None).is_err());
        assert_eq!(of(Some("#1 SMP PREEMPT Fri")).unwrap().0, "full");
        assert_eq!(of(Some("#1 SMP PREEMPT_RT Fri")).unwrap().0, "real-time");
    }

    #[test]
    fn the_command_line_wins_and_only_the_kernels_part_of_it() {
        assert_eq!(
            preempt_on_command_line("quiet preempt=none preempt=full"),
            Some("full")
        );
        assert_eq!(preempt_on_command_line("quiet -- preempt=full"), None);
        assert_eq!(preempt_on_command_line("preempt=sometimes"), None);
    }

    #[test]
    fn the_chosen_mode_stands_in_parentheses() {
        assert_eq!(parse_preempt_choice("none voluntary (full) lazy"), Some("full"));
        assert_eq!(parse_preempt_choice("none ("), None);
        assert_eq!(parse_preempt_choice("()"), None);
    }

    #[test]
    fn the_scheduler_changed_in_6_6() {
        for (release, name) in [
            ("6.5.13", "CFS"),
            ("6.6.0-rc1", "EEVDF"),
            ("6.18.44-x", "EEVDF"),
            ("5.15", "CFS"),
        ] {
            assert_eq!(scheduler(release).as_deref(), Ok(name), "{release}");
        }
        assert!(scheduler("next").is_err());
    }
}

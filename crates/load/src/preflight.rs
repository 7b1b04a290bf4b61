//! Before a run: whether descriptors, local ports, memory and backlogs suffice for so many connections, and the command
//! that would change what does not.
//!
//! Only what cannot work is refused ([`Severity::Serious`]); what may cost time or connections is said. Nothing of the
//! machine is changed but this process's own soft limit on descriptors.

use threadgauge_machine::{
    Advice, Bound, Resource, Severity, SocketLimits, available_memory_mib, descriptors_of, raise_to_hard,
};

/// Descriptors for all but connections: results, pipes, epoll, files of `/proc`.
const BESIDE: u64 = 64;
/// Connections that are being made at once wait at the server until it accepts them.
const AT_ONCE: u64 = 64;
/// What a connection takes of memory at least, in KiB: the client's books, and the kernel's socket at each end that is
/// on this machine, with nothing waiting in it.
const OWN_KIB: u64 = 6;
const SOCKET_KIB: u64 = 4;

/// What a run needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Connections at once, all to one address.
    pub connections: u64,
    /// Whether the server is on this machine.
    pub is_local: bool,
    /// The server's process, where it is known.
    pub server: Option<i32>,
}

/// What there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Supply {
    /// Descriptors of this process: open, and the most there can be.
    own: Option<(u64, Bound)>,
    /// Those of the server's process.
    server: Option<(u64, Bound)>,
    sockets: SocketLimits,
    memory_mib: Option<u64>,
}

/// Raises this process's soft limit on descriptors to the hard one, and judges whether `needs` can be met: what cannot
/// work first, then what may disturb. Empty where all suffices or is not known.
pub fn preflight(needs: &Needs) -> Vec<Advice> {
    // The kernel has no reason to refuse it; where it does, the old limit is judged.
    let _ = raise_to_hard(Resource::OpenFiles);
    let supply = Supply {
        own: descriptors_of(None),
        server: needs.server.and_then(|pid| descriptors_of(Some(pid))),
        sockets: SocketLimits::read(),
        memory_mib: available_memory_mib(),
    };
    let mut advice = judge(needs, &supply);
    advice.sort_by_key(|item| std::cmp::Reverse(item.severity));
    advice
}

fn judge(needs: &Needs, supply: &Supply) -> Vec<Advice> {
    let connections = needs.connections;
    let mut advice = Vec::new();
    let mut add = |subject: &str, severity, says: String, fix: String| {
        advice.push(Advice {
            subject: subject.to_owned(),
            severity,
            says,
            fix: Some(fix),
        });
    };

    if let Some((open, most)) = supply.own {
        let wanted = open + connections + BESIDE;
        if !most.allows(wanted) {
            add(
                "descriptors",
                Severity::Serious,
                format!(
                    "{connections} connections need {wanted} descriptors, and this process may have {most}"
                ),
                Resource::OpenFiles.fix(Bound::Of(wanted)),
            );
        }
    }
    if let (Some((open, most)), Some(pid)) = (supply.server, needs.server) {
        let wanted = open + connections;
        if !most.allows(wanted) {
            // It may share them among several processes, or raise its limit by itself.
            add(
                "the server's descriptors",
                Severity::Warning,
                format!(
                    "{connections} connections need {wanted} descriptors, and process {pid} may have {most}"
                ),
                format!("`prlimit --pid {pid} --nofile={wanted}:{wanted}` as root, or start it with more"),
            );
        }
    }
    if let Some((open, most)) = supply.sockets.files {
        let wanted = open + connections * if needs.is_local { 2 } else { 1 };
        if wanted > most {
            add(
                "open files of the machine",
                Severity::Serious,
                format!(
                    "{connections} connections need {wanted} open files, and the machine may have {most}"
                ),
                format!("`sysctl -w fs.file-max={}` as root", wanted + BESIDE),
            );
        }
    }
    if let (Some(ports), Some((first, last))) =
        (supply.sockets.local_port_count(), supply.sockets.local_ports)
    {
        if connections > ports {
            add(
                "local ports",
                Severity::Serious,
                format!(
                    "{connections} connections to one address need as many local ports, and there are {ports}"
                ),
                more_ports(connections),
            );
        } else if connections * 10 > ports * 9 {
            add(
                "local ports",
                Severity::Note,
                format!(
                    "{connections} connections take nearly all of the ports {first} to {last}; others use them too"
                ),
                more_ports(connections + connections / 5),
            );
        }
    }
    if let Some(free_mib) = supply.memory_mib {
        let ends = if needs.is_local { 2 } else { 1 };
        let wanted_mib = connections * (OWN_KIB + ends * SOCKET_KIB) / 1024;
        if wanted_mib > free_mib {
            add(
                "memory",
                Severity::Warning,
                format!("{connections} connections take about {wanted_mib} MiB, and {free_mib} MiB are free"),
                "end other programs, or connect fewer".to_owned(),
            );
        }
    }
    let at_once = connections.min(AT_ONCE);
    let backlogs = [
        (
            "net.core.somaxconn",
            supply.sockets.accept_backlog,
            "to be accepted",
        ),
        (
            "net.ipv4.tcp_max_syn_backlog",
            supply.sockets.handshake_backlog,
            "for the end of their handshake",
        ),
    ];
    for (setting, backlog, what) in backlogs {
        // That of another machine is not known.
        if let Some(backlog) = backlog.filter(|&backlog| needs.is_local && backlog < at_once) {
            add(
                "backlog",
                Severity::Warning,
                format!(
                    "{backlog} connections may wait {what}, and {at_once} are made at once: some take a second longer"
                ),
                format!("`sysctl -w {setting}=4096` as root, before the server starts"),
            );
        }
    }
    advice
}

/// The command that makes room for so many connections.
fn more_ports(connections: u64) -> String {
    const FIRST: u64 = 1_024;
    let most = u64::from(u16::MAX) - FIRST + 1;
    if connections > most {
        return format!(
            "there are at most {most} to one address: let the server listen at several, and start one run for each"
        );
    }
    format!(
        "`sysctl -w net.ipv4.ip_local_port_range=\"{FIRST} {}\"` as root",
        u16::MAX
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(connections: u64) -> Needs {
        Needs {
            connections,
            is_local: true,
            server: Some(7),
        }
    }

    fn plenty() -> Supply {
        Supply {
            own: Some((10, Bound::Of(20_000))),
            server: Some((10, Bound::Unlimited)),
            sockets: SocketLimits {
                local_ports: Some((32_768, 60_999)),
                accept_backlog: Some(4_096),
                handshake_backlog: Some(1_024),
                files: Some((5_000, 1_000_000)),
            },
            memory_mib: Some(1_000),
        }
    }

    #[test]
    fn what_cannot_work_on_this_machine_is_said_before_what_may_disturb() {
        // No machine has as many ports.
        let advice = preflight(&needs(1_000_000_000));
        assert_eq!(advice[0].severity, Severity::Serious, "{advice:#?}");
        assert!(
            advice.iter().any(|item| item.subject == "local ports"),
            "{advice:#?}"
        );
        assert!(
            advice.is_sorted_by_key(|item| std::cmp::Reverse(item.severity)),
            "{advice:#?}"
        );
        assert_eq!(
            preflight(&Needs {
                server: None,
                ..needs(1)
            }),
            []
        );
    }

    /// The only thing that is said.
    fn said(needs: &Needs, supply: &Supply) -> (Severity, String) {
        let advice = judge(needs, supply);
        assert_eq!(advice.len(), 1, "{advice:#?}");
        let fix = advice[0].fix.clone().unwrap();
        (advice[0].severity, format!("{}; {fix}", advice[0].says))
    }

    #[test]
    fn where_all_suffices_or_nothing_is_known_nothing_is_said() {
        assert_eq!(judge(&needs(10_000), &plenty()), []);
        assert_eq!(judge(&needs(1_000_000), &Supply::default()), []);
    }

    #[test]
    fn too_few_descriptors_of_our_own_cannot_work_and_the_command_is_named() {
        let (severity, says) = said(&needs(20_000), &plenty());
        assert_eq!(severity, Severity::Serious);
        assert!(
            says.contains("may have 20000") && says.contains("`ulimit -n 20074`"),
            "{says}"
        );
        assert_eq!(
            judge(&needs(20_000 - 10 - BESIDE), &plenty()),
            [],
            "exactly enough"
        );
    }

    #[test]
    fn the_servers_descriptors_may_be_shared_and_are_only_said() {
        let supply = Supply {
            server: Some((24, Bound::Of(1_024))),
            ..plenty()
        };
        let (severity, says) = said(&needs(1_001), &supply);
        assert_eq!(severity, Severity::Warning);
        assert!(says.contains("`prlimit --pid 7 --nofile=1025:1025`"), "{says}");
        assert_eq!(judge(&needs(1_000), &supply), []);
    }

    #[test]
    fn too_few_ports_cannot_work_and_few_are_said() {
        let mut supply = plenty();
        supply.own = Some((10, Bound::Unlimited));
        let (severity, says) = said(&needs(28_233), &supply);
        assert_eq!(severity, Severity::Serious);
        assert!(
            says.contains("`sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"`"),
            "{says}"
        );
        assert_eq!(
            said(&needs(28_232), &supply),
            (
                Severity::Note,
                format!(
                    "28232 connections take nearly all of the ports 32768 to 60999; others use them too; {}",
                    more_ports(28_232)
                )
            )
        );
        // Nine tenths of them are 25,408.8.
        assert_eq!(judge(&needs(25_408), &supply), []);
        assert_eq!(said(&needs(25_409), &supply).0, Severity::Note);
        // With a fifth more they would be 72,000.
        supply.sockets.local_ports = Some((1_024, 65_535));
        let (severity, says) = said(&needs(60_000), &supply);
        assert_eq!(severity, Severity::Note);
        assert!(says.contains("at several"), "{says}");
        let (_, says) = said(&needs(70_000), &supply);
        assert!(says.contains("at several"), "no setting gives more ports: {says}");
        assert!(!more_ports(64_512).contains("at several"));
        assert!(more_ports(64_513).starts_with("there are at most 64512 to one address: "));
    }

    #[test]
    fn a_short_backlog_is_said_of_a_server_that_is_here() {
        let mut supply = plenty();
        supply.sockets.accept_backlog = Some(16);
        let (severity, says) = said(&needs(1_000), &supply);
        assert_eq!(severity, Severity::Warning);
        assert!(says.contains("`sysctl -w net.core.somaxconn=4096`"), "{says}");
        assert_eq!(judge(&needs(16), &supply), [], "as many as are made at once");
        supply.sockets.handshake_backlog = Some(16);
        assert_eq!(judge(&needs(1_000), &supply).len(), 2);
        let elsewhere = Needs {
            is_local: false,
            ..needs(1_000)
        };
        assert_eq!(judge(&elsewhere, &supply), []);
    }

    #[test]
    fn memory_and_open_files_of_the_machine_are_judged_for_both_ends() {
        let mut supply = plenty();
        supply.memory_mib = Some(100);
        // 14 KiB each.
        let (severity, says) = said(&needs(10_000), &supply);
        assert_eq!(severity, Severity::Warning);
        assert!(
            says.starts_with("10000 connections take about 136 MiB, and 100 MiB are free"),
            "{says}"
        );
        let elsewhere = Needs {
            is_local: false,
            ..needs(10_000)
        };
        assert_eq!(judge(&elsewhere, &supply), [], "one end is on another machine");
        supply.memory_mib = None;
        supply.sockets.files = Some((5_000, 20_000));
        let (severity, says) = said(&needs(10_000), &supply);
        assert_eq!(severity, Severity::Serious);
        assert!(says.contains("`sysctl -w fs.file-max="), "{says}");
        assert_eq!(judge(&elsewhere, &supply), []);
    }

    #[test]
    fn this_process_has_its_hard_limit_afterwards() {
        let one = Needs {
            connections: 1,
            is_local: true,
            server: None,
        };
        let advice = preflight(&one);
        assert!(
            advice.iter().all(|item| item.severity < Severity::Serious),
            "{advice:?}"
        );
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let (soft, hard) = threadgauge_machine::parse_limits(&limits, "Max open files").unwrap();
        assert_eq!(soft, hard);
    }
}

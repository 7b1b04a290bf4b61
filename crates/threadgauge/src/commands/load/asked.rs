//! What was asked of a load, as its results folder keeps it: every option that decides what is measured.

use std::fmt::Display;

use clap::ValueEnum;

use crate::commands::load::drive;
use crate::commands::load::options::{LoadOptions, Loop, Rate, Speaks, Watching};
use crate::commands::load::workload::Workload;

/// Headers whose values stay with whoever typed them: a folder of results is something that people send each other.
const SECRET: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "x-api-key"];

/// The load and its options as they could be typed, with the values of those that were left out, by the workload's own
/// words where there is one. The seed is the record's.
pub fn as_asked(options: &LoadOptions, workload: Option<&Workload>) -> Vec<String> {
    // All of them, so that one more cannot be forgotten here.
    let LoadOptions {
        protocol,
        target,
        connections,
        kind,
        rate: _,
        rate_each,
        arrivals,
        think,
        pipeline,
        duration,
        ramp_up,
        ramp_down,
        requests,
        timeout,
        steps,
        find_max,
        slo,
        seed: _,
        go_on,
        yes_i_may_load_this_host,
        payload: _,
        close,
        method,
        header,
        body,
        group_size,
        own_echo,
        workload: _,
        watch,
        link,
        start,
        rounds,
        // Where the results go.
        out: _,
        json: _,
    } = options;
    let mut asked = vec![format!("load {} --target {}", protocol.name(), quoted(target))];
    let mut say = |flag: &str, value: &dyn Display| asked.push(format!("--{flag} {}", quoted(value)));
    say("connections", connections);
    match workload {
        Some(workload) => say("workload", &workload.json()),
        None => {
            say("loop", &options.loop_name());
            let rates: Vec<String> = steps.iter().map(|Rate(step)| step.to_string()).collect();
            match (kind, rate_each) {
                (Loop::Open, Some(Rate(each))) => say("rate-each", each),
                // Steps are the rates.
                (Loop::Open, None) if steps.is_empty() => say("rate", &options.first_rate()),
                _ => {}
            }
            if *kind != Loop::Fast {
                say("arrivals", &name(arrivals));
            }
            if let Some(think) = think {
                say("think", think);
            }
            say("pipeline", pipeline);
            say("ramp-up", ramp_up);
            say("ramp-down", ramp_down);
            if !steps.is_empty() {
                say("steps", &rates.join(","));
            }
        }
    }
    say("duration", duration);
    say("timeout", timeout);
    say("requests", requests);
    say("rounds", rounds);
    if let Some(slo) = slo {
        say("slo", slo);
    }
    match protocol {
        Speaks::Http => {
            say("method", method);
            header
                .iter()
                .for_each(|header| say("header", &without_secret(header)));
            if let Some(body) = body {
                say("body", body);
            }
        }
        _ => say("payload", &drive::payload(options)),
    }
    if protocol.is_group() {
        say("group-size", group_size);
    }
    match watch {
        Watching::Found => say("watch", &"auto"),
        Watching::Process(pid) => say("watch", pid),
        Watching::Nobody => say("watch", &"none"),
    }
    if let (Some(link), Some(start)) = (link, start) {
        say("link", link);
        say("start", start);
    }
    let flags = [
        (find_max, "--find-max"),
        (close, "--close"),
        (own_echo, "--own-echo"),
        (go_on, "--go-on"),
        (yes_i_may_load_this_host, "--yes-i-may-load-this-host"),
    ];
    asked.extend(
        flags
            .into_iter()
            .filter(|(is_set, _)| **is_set)
            .map(|(_, flag)| flag.to_owned()),
    );
    asked
}

/// As the command line has it.
fn name(value: &impl ValueEnum) -> String {
    let name = value.to_possible_value();
    name.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// As a shell takes it for one word.
fn quoted(value: impl Display) -> String {
    let text = value.to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,@%+=".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

fn without_secret(header: &str) -> String {
    match header.split_once(':') {
        Some((name, _)) if SECRET.contains(&name.trim().to_ascii_lowercase().as_str()) => {
            format!("{name}: …")
        }
        _ => header.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Typed {
        #[command(flatten)]
        load: LoadOptions,
    }

    fn asked(arguments: &[&str]) -> Vec<String> {
        let words = [&["load"], arguments].concat();
        as_asked(&Typed::parse_from(words).load, None)
    }

    #[test]
    fn what_was_left_out_has_its_value() {
        let asked = asked(&["echo", "--target", "7000"]);
        assert_eq!(asked[0], "load echo --target 7000");
        for option in [
            "--connections 100",
            "--loop open",
            "--rate 1000",
            "--arrivals poisson",
            "--duration 10s",
            "--timeout 10s",
            "--payload 128",
            "--pipeline 1",
            "--rounds 1",
            "--watch auto",
        ] {
            assert!(asked.iter().any(|said| said == option), "{option}: {asked:?}");
        }
    }

    #[test]
    fn every_option_that_can_be_given_is_kept_but_where_results_go_and_what_is_kept_elsewhere() {
        let most = [
            &[
                "http",
                "--target",
                "http://localhost:7000/a b",
                "-c",
                "3",
                "--rate-each",
                "2",
            ][..],
            &[
                "--arrivals",
                "uniform",
                "--pipeline",
                "2",
                "-d",
                "1m30s",
                "--ramp-up",
                "1s",
                "--ramp-down",
                "2s",
            ],
            &[
                "--requests",
                "7",
                "--timeout",
                "3s",
                "--steps",
                "5,6",
                "--slo",
                "p99<5ms,errors<1%",
                "--rounds",
                "2",
            ],
            &[
                "--yes-i-may-load-this-host",
                "--close",
                "--method",
                "PUT",
                "--header",
                "A: it's",
            ],
            &[
                "--header",
                "Authorization: Bearer 1234",
                "--body",
                "text",
                "--watch",
                "7",
            ],
            &["--link", "100mbit", "--start", "threadgauge serve http"],
        ];
        let others = [
            &[
                "groups",
                "--target",
                "1",
                "--loop",
                "closed",
                "--think",
                "5ms",
                "--group-size",
                "4",
                "--own-echo",
            ][..],
            &["--go-on", "--payload", "16..1024"],
        ];
        let third = [
            "echo",
            "--target",
            "1",
            "--rate",
            "5",
            "--find-max",
            "--slo",
            "p99<5ms",
        ];
        let all = [asked(&most.concat()), asked(&others.concat()), asked(&third)]
            .concat()
            .join(" ");
        for option in Typed::command().get_arguments().filter_map(clap::Arg::get_long) {
            let is_elsewhere = ["seed", "out", "json", "workload"].contains(&option);
            assert_ne!(
                all.contains(&format!("--{option}")),
                is_elsewhere,
                "{option}: {all}"
            );
        }
        for said in [
            "--target 'http://localhost:7000/a b'",
            "--duration 90s",
            "--steps 5,6",
            r"--header 'A: it'\''s'",
            "--header 'Authorization: …'",
            "--start 'threadgauge serve http'",
            "--think 5ms",
            "--payload 16..1024",
            "--find-max",
        ] {
            assert!(all.contains(said), "{said}: {all}");
        }
        assert!(!all.contains("1234"), "{all}");
    }
}

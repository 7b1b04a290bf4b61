//! What a load came to: for a person, and as JSON, whose fields `docs/load.md` has.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Map, Value, json};
use threadgauge_load::{Class, FaultKind, Faults, InvalidRun, Latency, Record, Second, Slo, Watched};
use threadgauge_results::units::{count, percent, with_unit};

use crate::commands::load::server;
use crate::commands::load::workload::kind;

/// The quantiles that are shown, each with its name.
const QUANTILES: [(f64, &str); 6] = [
    (0.5, "p50"),
    (0.9, "p90"),
    (0.95, "p95"),
    (0.99, "p99"),
    (0.999, "p99.9"),
    (0.9999, "p99.99"),
];
/// Where the spans of the lag's histogram end, in ns.
const LAG_BOUNDS_NS: [u64; 8] = [
    10_000,
    50_000,
    100_000,
    500_000,
    1_000_000,
    5_000_000,
    10_000_000,
    100_000_000,
];

/// A run that is over.
#[derive(Debug)]
pub struct Done {
    /// How many connections were asked for.
    pub wanted: usize,
    /// Requests or messages a second that were asked for; `None` in a closed loop.
    pub rate: Option<f64>,
    /// How many connections took part.
    pub connections: usize,
    /// Which round of it, from 1.
    pub round: u32,
    /// What is loaded is groups: what came is deliveries.
    pub is_group: bool,
    pub record: Record,
    /// The conditions that it is held against, if some were set.
    pub slo: Option<Slo>,
    /// What the server did meanwhile, where it was watched.
    pub server: Option<Watched>,
    /// Of mixed clients, their class.
    pub class: Option<Class>,
}

impl Done {
    /// Whether the server did what it must, and the run measured it.
    pub fn passes(&self) -> bool {
        self.objection().is_none()
    }

    /// The first of what speaks against it. One that was interrupted is not judged by what it had no time for.
    pub fn objection(&self) -> Option<String> {
        if !self.is_right() {
            return Some(self.wrong());
        }
        let reason = || Some(format!("the run is invalid: {}", self.invalid_because().first()?));
        match self.record.interrupted {
            true => None,
            false => reason().or_else(|| self.not_met()),
        }
    }

    /// What came and must not come, in words.
    fn wrong(&self) -> String {
        let faults = self.record.faults.as_ref().filter(|faults| !faults.is_empty());
        let failures = self.record.failures.each();
        let wrong = failures
            .filter_map(|(kind, _)| kind.is_wrong())
            .map(str::to_owned);
        let all: Vec<String> = faults.map(Faults::to_string).into_iter().chain(wrong).collect();
        all.join("; ")
    }

    /// Whether nothing came that must not come, and all came that must.
    fn is_right(&self) -> bool {
        let mut failures = self.record.failures.each();
        self.record.faults.as_ref().is_none_or(Faults::is_empty)
            && !failures.any(|(kind, _)| kind.is_wrong().is_some())
    }

    /// That clients who want no answers have none is as it should be.
    pub fn invalid_because(&self) -> Vec<InvalidRun> {
        match self.wants_answers() {
            true => self.record.invalid_because(self.slo.as_ref()),
            false => Vec::new(),
        }
    }

    /// Why it says nothing of the server, where the generator stood still for too long to be let off.
    pub fn stood_still(&self) -> Option<InvalidRun> {
        let reasons = self.invalid_because().into_iter();
        reasons
            .filter(|_| !self.record.interrupted)
            .find(|reason| reason.is_standstill())
    }

    fn wants_answers(&self) -> bool {
        let class = self.class.as_ref();
        class.is_none_or(|class| class.behaviour.wants_answers())
    }

    /// The conditions that it does not meet, in words: those that were set and, where none of them is on errors, that
    /// nothing fails. What was not measured to its end, or did not measure the server, is not judged.
    pub fn not_met(&self) -> Option<String> {
        if self.record.interrupted || !self.invalid_because().is_empty() || !self.wants_answers() {
            return None;
        }
        let failed = match &self.class {
            Some(class) => class.behaviour.failed(&self.record),
            None => self.record.failed(),
        };
        let slo = self.slo.clone().unwrap_or_default();
        slo.broken(&self.record, failed)
    }

    /// Said beside latencies that are not the server's alone, where the run is not invalid for that.
    pub fn doubt(&self) -> Option<String> {
        self.record.doubt(self.slo.as_ref())
    }

    /// For a person.
    pub fn text(&self) -> String {
        let record = &self.record;
        let mut text = String::new();
        let mut row = |name: &str, says: String| {
            // Writing into memory cannot fail.
            let _ = writeln!(text, "{name:<14} {says}");
        };
        let (sent, answered) = match self.is_group {
            true => ("messages", "deliveries"),
            false => ("sent", "answered"),
        };
        let many = |number: u64| count(number as usize);
        row("connections", count(self.connections));
        row(
            sent,
            format!(
                "{} in {}",
                many(record.sent),
                seconds(record.elapsed.as_secs_f64())
            ),
        );
        let rate = record
            .held
            .achieved
            .map_or_else(String::new, |rate| format!(", {}", per_second(rate)));
        row(answered, many(record.answered) + &rate);
        if let (Some(rate), Some(pace)) = (record.held.rate, record.held.pace()) {
            row(
                "on schedule",
                format!(
                    "{} of the {} asked for, whatever became of it",
                    percent(pace),
                    per_second(rate)
                ),
            );
        }
        let failures: Vec<String> = record
            .failures
            .each()
            .map(|(kind, number)| {
                let said = record
                    .failures
                    .said(kind)
                    .map_or_else(String::new, |said| format!(" ({said})"));
                format!("{} {}{said}", many(number), kind.name().replace('_', " "))
            })
            .collect();
        let statuses: Vec<String> = record
            .failures
            .statuses()
            .map(|(status, number)| format!("{status}: {}", many(number)))
            .collect();
        if !failures.is_empty() {
            row("failed", failures.join(", "));
        }
        if !statuses.is_empty() {
            row("statuses", statuses.join(", "));
        }
        if record.unfinished > 0 {
            row(
                "unfinished",
                format!(
                    "{}: a percentile that they reach is at least that",
                    many(record.unfinished)
                ),
            );
        }
        if let Some(faults) = &record.faults {
            let each = FaultKind::ALL.map(|kind| format!("{} {}", many(faults.count(kind)), kind.name()));
            row("checked", each.join(", "));
        }
        let open = record.held.rate.is_some();
        if open {
            row(
                "response time",
                format!("{} · from the intended start", quantiles(&record.response)),
            );
        }
        if self.judges_good_ones_apart() {
            row(
                "good answers",
                format!("{} · which conditions are on", quantiles(&record.good)),
            );
        }
        if let Some(last) = &record.last {
            row(
                "to the last",
                format!("{} · until all of a group have it", quantiles(last)),
            );
        }
        row(
            "service time",
            format!("{} · from sending", quantiles(&record.service)),
        );
        if let Some(doubt) = self.doubt() {
            row("busy", doubt);
        }
        if open {
            row("own lag", quantiles(&record.lag));
        }
        if record.waited > 0 {
            row(
                "waited",
                format!("{} found no free connection at their start", many(record.waited)),
            );
        }
        row(
            "generator",
            format!(
                "{} of its CPU; {:.1} on their way, {:.1} by Little's law",
                percent(record.cpu_share()),
                record.in_flight,
                record.in_flight_by_law
            ),
        );
        let stood = &record.stood;
        if !stood.whole().is_zero() {
            row(
                "stood still",
                format!(
                    "{} in all, {} of the time; {} of it ready without a CPU; longest {}",
                    span(stood.whole()),
                    percent(record.still_share()),
                    span(stood.without_cpu),
                    span(stood.longest)
                ),
            );
        }
        row(
            "network",
            format!(
                "{} in, {} out, {} connects",
                with_unit(record.bytes_in as f64, None, "bytes"),
                with_unit(record.bytes_out as f64, None, "bytes"),
                many(record.connects)
            ),
        );
        for (name, says) in self.server.iter().flat_map(server::rows) {
            row(name, says);
        }
        if record.interrupted {
            row("interrupted", "these are the figures until then".to_owned());
        }
        if record.bounded {
            row("bounded", "--requests ended it before its time".to_owned());
        }
        for reason in self.invalid_because() {
            row("INVALID", reason.to_string());
        }
        if !self.is_right() {
            row("WRONG", self.wrong());
        }
        if let Some(not_met) = self.not_met() {
            row("NOT MET", not_met);
        }
        text
    }

    /// Whether the times of good answers alone say something else than those of all.
    fn judges_good_ones_apart(&self) -> bool {
        self.record.good.count() < self.record.response.count()
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let record = &self.record;
        let held = &record.held;
        let failures: Map<String, Value> = record
            .failures
            .each()
            .map(|(kind, number)| {
                let said = record.failures.said(kind);
                (kind.name().to_owned(), json!({"count": number, "first": said}))
            })
            .collect();
        let statuses: Map<String, Value> = record
            .failures
            .statuses()
            .map(|(status, number)| (status.to_string(), number.into()))
            .collect();
        let faults = record.faults.as_ref().map(|faults| -> Map<String, Value> {
            let each = FaultKind::ALL.into_iter();
            each.map(|kind| (kind.name().to_owned(), faults.count(kind).into()))
                .collect()
        });
        let reasons: Vec<Value> = self
            .invalid_because()
            .into_iter()
            .map(|reason| json!({"name": reason.name(), "says": reason.to_string()}))
            .collect();
        json!({
            "class": self.class.as_ref().map(|class| &class.name),
            "kind": self.class.as_ref().map(|class| kind(&class.behaviour)),
            "server": self.server.as_ref().map(server::json),
            "started_ns": record.started_ns,
            "connections": self.connections,
            "round": self.round,
            "rate_per_second": held.rate,
            "achieved_per_second": held.achieved,
            "pace": held.rate.and_then(|_| held.pace()),
            "elapsed_s": record.elapsed.as_secs_f64(),
            "sent": record.sent,
            "answered": record.answered,
            "unfinished": record.unfinished,
            "waited_for_connection": record.waited,
            "failures": failures,
            "statuses": statuses,
            "faults": faults,
            "response_ns": latency(&record.response),
            "good_ns": latency(&record.good),
            "service_ns": latency(&record.service),
            "last_ns": record.last.as_ref().map(latency),
            "lag_ns": lag(&record.lag),
            "connects": record.connects,
            "bytes_in": record.bytes_in,
            "bytes_out": record.bytes_out,
            "generator": {
                "threads": record.threads,
                "cpu_s": record.cpu.as_secs_f64(),
                "cpu_share": record.cpu_share(),
                "busy": record.is_busy(),
                "in_flight": record.in_flight,
                "in_flight_by_littles_law": record.in_flight_by_law,
                "stood_still": {
                    "share": record.still_share(),
                    "total_s": record.stood.total.as_secs_f64(),
                    "longest_s": record.stood.longest.as_secs_f64(),
                    "without_cpu_s": record.stood.without_cpu.as_secs_f64(),
                    "throttled_s": record.stood.throttled.as_secs_f64(),
                    "stolen_s": record.stood.stolen.as_secs_f64(),
                    "suspended_s": record.stood.suspended.as_secs_f64(),
                },
            },
            "valid": reasons.is_empty(),
            "invalid_because": reasons,
            "right": self.is_right(),
            "slo_broken": self.not_met(),
            "passes": self.passes(),
            "interrupted": record.interrupted,
            "bounded": record.bounded,
            "series": record.series.iter().map(second).collect::<Vec<_>>(),
        })
    }
}

/// A rate, for a person.
pub fn per_second(rate: f64) -> String {
    match rate {
        rate if rate >= 100.0 => format!("{} a second", count(rate.round() as usize)),
        rate => format!("{rate:.1} a second"),
    }
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.1} s")
}

fn span(time: Duration) -> String {
    with_unit(time.as_nanos() as f64, None, "ns")
}

fn quantiles(latency: &Latency) -> String {
    let shown: Vec<String> = QUANTILES
        .iter()
        .filter_map(|&(q, name)| Some(format!("{name} {}", with_unit(latency.ns(q)? as f64, None, "ns"))))
        .collect();
    let most = latency
        .most_ns()
        .map(|ns| format!("longest {}", with_unit(ns as f64, None, "ns")));
    let all: Vec<String> = shown.into_iter().chain(most).collect();
    match all.is_empty() {
        true => "none".to_owned(),
        false => all.join(", "),
    }
}

fn latency(latency: &Latency) -> Value {
    let mut fields: Map<String, Value> = QUANTILES
        .iter()
        .map(|&(q, name)| (name.to_owned(), latency.ns(q).into()))
        .collect();
    fields.insert("n".to_owned(), latency.count().into());
    fields.insert("mean".to_owned(), latency.mean_ns().into());
    fields.insert("max".to_owned(), latency.most_ns().into());
    fields.insert("over_a_minute".to_owned(), latency.overflow().into());
    fields.into()
}

fn lag(lag: &Latency) -> Value {
    let mut fields = latency(lag);
    let bounds = LAG_BOUNDS_NS.iter().map(|&bound| Some(bound)).chain([None]);
    let histogram: Vec<Value> = bounds
        .zip(lag.spans(&LAG_BOUNDS_NS))
        .map(|(up_to_ns, count)| json!({"up_to_ns": up_to_ns, "count": count}))
        .collect();
    fields["histogram"] = histogram.into();
    fields
}

fn second(second: &Second) -> Value {
    json!({
        "at_s": second.at_s,
        "sent": second.sent,
        "answered": second.answered,
        "failed": second.failed,
        "connects": second.connects,
        "bytes_in": second.bytes_in,
        "bytes_out": second.bytes_out,
        "in_flight": second.in_flight,
        "p50_ns": second.p50_ns,
        "p99_ns": second.p99_ns,
        "max_ns": second.most_ns,
    })
}

#[cfg(test)]
mod tests {
    use threadgauge_load::{Fault, MessageId};

    use super::*;

    /// A closed loop whose generator used so much of a second.
    fn closed(cpu_ms: u64, slo: Option<&str>) -> Done {
        Done {
            wanted: 1,
            rate: None,
            connections: 1,
            round: 1,
            is_group: false,
            record: Record {
                answered: 10,
                elapsed: Duration::from_secs(1),
                cpu: Duration::from_millis(cpu_ms),
                threads: 1,
                ..Record::default()
            },
            slo: slo.map(|slo| slo.parse().unwrap()),
            server: None,
            class: None,
        }
    }

    #[test]
    fn a_high_rate_is_whole_and_a_low_one_has_a_tenth() {
        for (rate, says) in [
            (0.25, "0.2 a second"),
            (99.94, "99.9 a second"),
            (100.0, "100 a second"),
            (512.6, "513 a second"),
        ] {
            assert_eq!(per_second(rate), says);
        }
    }

    #[test]
    fn what_came_and_must_not_is_wrong_and_times_have_their_quantiles_where_there_are_enough() {
        let mut run = closed(10, None);
        assert!(
            run.text().contains("service time   none · from sending\n"),
            "{}",
            run.text()
        );
        run.record.service.record_many(1_000, 30);
        let says = "service time   p50 1.00 µs, longest 1.00 µs · from sending\n";
        assert!(run.text().contains(says), "{}", run.text());
        run.record.faults = Some(Faults::default());
        assert_eq!((run.wrong(), run.passes()), (String::new(), true));
        let mut faults = Faults::default();
        faults.record(Fault {
            kind: FaultKind::Lost,
            connection: 3,
            message: MessageId::Known { sender: 2, number: 7 },
        });
        let says = faults.to_string();
        run.record.faults = Some(faults);
        assert_eq!((run.wrong(), run.objection()), (says.clone(), Some(says)));
    }

    #[test]
    fn good_answers_have_a_row_of_their_own_where_some_are_not_good() {
        let mut run = closed(10, None);
        [1_000, 2_000]
            .iter()
            .for_each(|&ns| run.record.response.record(ns));
        run.record.good.record(1_000);
        assert!(run.text().contains("\ngood answers "), "{}", run.text());
        run.record.good.record(2_000);
        assert!(!run.text().contains("good answers"), "{}", run.text());
    }

    #[test]
    fn beside_the_times_of_a_closed_loop_stands_that_its_generator_was_busy() {
        let busy = closed(980, None);
        assert!(busy.passes());
        let (text, json) = (busy.text(), busy.json());
        assert!(
            text.contains("busy           the generator used over 85 % of its CPU, so the times"),
            "{text}"
        );
        assert_eq!(
            (&json["valid"], &json["generator"]["busy"]),
            (&true.into(), &true.into())
        );

        let idle = closed(850, None);
        for row in ["busy", "unfinished"] {
            assert!(!idle.text().contains(row), "{}", idle.text());
        }
        assert_eq!(idle.json()["generator"]["busy"], false);

        let ended = Record {
            ended_early: true,
            ..closed(980, None).record
        };
        let ended = Done {
            record: ended,
            ..closed(980, None)
        };
        assert!(!ended.passes(), "it is invalid for another reason");
        assert!(ended.doubt().is_some());

        let judged = closed(980, Some("mean<5ms"));
        assert!(judged.text().contains("INVALID"), "{}", judged.text());
        assert!(!judged.passes() && judged.doubt().is_none());
    }
}

//! `/connz`: the clients, under NATS' own names.
//!
//! As there: `limit` and `offset`, `sort`, `cid` for one client, `user` and `state`, `subs=1` for what each is
//! subscribed to and `subs=detail` for what came by that. Of the clients that are gone, the last are there with
//! `state=closed` or `all`, without what they were subscribed to.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use threadgauge_reactor::protocol::groups::ClientFigures;

use super::Query;
use super::{Pages, uptime};

/// How many clients a page has if nothing else is asked for.
const LIMIT: usize = 1_024;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    limit: usize,
    offset: usize,
    sort: Sort,
    client: Option<u64>,
    user: Option<String>,
    state: State,
    subscriptions: Subscriptions,
}

/// Those that are there, those that are gone, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Closed,
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Number,
    Start,
    Uptime,
    Stop,
    Reason,
    Last,
    Idle,
    RoundTrip,
    Pending,
    Subscriptions,
    MessagesTo,
    MessagesFrom,
    BytesTo,
    BytesFrom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subscriptions {
    Count,
    Names,
    Detail,
}

/// A client and how many bytes wait for it.
struct Client {
    figures: ClientFigures,
    pending: usize,
    /// When it went, and why.
    end: Option<(Instant, &'static str)>,
}

impl Client {
    /// Until when it was there.
    fn until(&self, now: Instant) -> Instant {
        self.end.map_or(now, |(stopped, _)| stopped)
    }
}

impl Wanted {
    fn read(query: Query<'_>) -> Result<Self, String> {
        let text = |name| query.get(name).unwrap_or_default();
        let number = |name| match &*text(name) {
            "" => Ok(None),
            text => match text.parse::<u64>() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(format!("error decoding {name}: it is no number")),
            },
        };
        let count =
            |name| number(name).map(|number| number.map(|n| usize::try_from(n).unwrap_or(usize::MAX)));
        let state = match &text("state").to_ascii_lowercase()[..] {
            "" | "open" => State::Open,
            "closed" => State::Closed,
            "any" | "all" => State::All,
            _ => return Err("error decoding state: open, closed or all are possible".to_owned()),
        };
        Ok(Self {
            limit: count("limit")?.filter(|&limit| limit > 0).unwrap_or(LIMIT),
            offset: count("offset")?.unwrap_or(0),
            client: number("cid")?.filter(|&number| number > 0),
            user: Some(text("user").into_owned()).filter(|user| !user.is_empty()),
            state,
            sort: match &*text("sort") {
                "" | "cid" => Sort::Number,
                "start" => Sort::Start,
                "uptime" => Sort::Uptime,
                "stop" | "reason" if state != State::Closed => {
                    return Err("sort by stop or reason is for state=closed alone".to_owned());
                }
                "stop" => Sort::Stop,
                "reason" => Sort::Reason,
                "last" => Sort::Last,
                "idle" => Sort::Idle,
                "rtt" => Sort::RoundTrip,
                "pending" => Sort::Pending,
                "subs" => Sort::Subscriptions,
                "msgs_to" => Sort::MessagesTo,
                "msgs_from" => Sort::MessagesFrom,
                "bytes_to" => Sort::BytesTo,
                "bytes_from" => Sort::BytesFrom,
                _ => return Err("invalid sorting option".to_owned()),
            },
            subscriptions: match &*text("subs") {
                "" | "0" | "false" => Subscriptions::Count,
                "1" | "true" => Subscriptions::Names,
                "detail" => Subscriptions::Detail,
                _ => return Err("error decoding subs: 0, 1 or detail are possible".to_owned()),
            },
        })
    }
}

impl Pages {
    /// The page, or what was wrong with the question.
    pub(super) fn connz(&self, query: Query<'_>) -> Result<Value, String> {
        let wanted = Wanted::read(query)?;
        let now = Instant::now();
        let is_wanted = |client: &ClientFigures| {
            wanted.client.is_none_or(|number| client.number == number)
                && wanted.user.as_ref().is_none_or(|user| client.user == *user)
        };
        let mut clients = Vec::new();
        if wanted.state != State::Closed {
            let waiting: HashMap<_, _> = self.waiting.bytes().into_iter().collect();
            let there = self.figures.clients(now).into_iter().filter(is_wanted);
            clients.extend(there.map(|figures| Client {
                pending: waiting.get(&figures.id).copied().unwrap_or(0),
                figures,
                end: None,
            }));
        }
        if wanted.state != State::Open {
            let gone = self.figures.closed();
            let gone = gone.iter().filter(|closed| is_wanted(&closed.client));
            clients.extend(gone.map(|closed| Client {
                figures: closed.client.clone(),
                pending: 0,
                end: Some((closed.stopped, closed.reason)),
            }));
        }
        let total = clients.len();
        sort(&mut clients, wanted.sort, now);
        let page: Vec<Value> = clients
            .iter()
            .skip(wanted.offset)
            .take(wanted.limit)
            .map(|client| self.client(client, wanted.subscriptions, now))
            .collect();
        Ok(json!({
            "server_id": self.figures.options().server_id,
            "now": self.written(now),
            "num_connections": page.len(),
            "total": total,
            "offset": wanted.offset,
            "limit": wanted.limit,
            "connections": page,
        }))
    }

    fn client(&self, client: &Client, subscriptions: Subscriptions, now: Instant) -> Value {
        let until = client.until(now);
        let Client {
            figures: client,
            pending,
            end,
        } = client;
        let mut value = json!({
            "cid": client.number,
            "kind": "Client",
            "type": "nats",
            "start": self.written(client.since),
            "last_activity": self.written(client.active),
            "uptime": uptime(until.saturating_duration_since(client.since).as_secs()),
            "idle": uptime(until.saturating_duration_since(client.active).as_secs()),
            "pending_bytes": pending,
            "in_msgs": client.published.messages,
            "out_msgs": client.delivered.messages,
            "in_bytes": client.published.bytes,
            "out_bytes": client.delivered.bytes,
            "subscriptions": client.subscriptions,
        });
        let fields = value.as_object_mut().expect("made as one");
        if let Some(address) = client.address {
            fields.insert("ip".to_owned(), address.ip().to_string().into());
            fields.insert("port".to_owned(), address.port().into());
        }
        if let Some(time) = client.round_trip {
            fields.insert("rtt".to_owned(), short(time).into());
        }
        if let Some((stopped, reason)) = *end {
            fields.insert("stop".to_owned(), self.written(stopped).into());
            fields.insert("reason".to_owned(), reason.into());
        }
        for (name, said) in [
            ("name", &client.name),
            ("lang", &client.lang),
            ("version", &client.version),
            ("authorized_user", &client.user),
        ] {
            if !said.is_empty() {
                fields.insert(name.to_owned(), said.as_str().into());
            }
        }
        match subscriptions {
            Subscriptions::Count => {}
            Subscriptions::Names => self.subscribed(client.number, fields, "subscriptions_list", |it| {
                it["subject"].take()
            }),
            Subscriptions::Detail => {
                self.subscribed(client.number, fields, "subscriptions_list_detail", |it| it.take());
            }
        }
        value
    }

    fn subscribed(
        &self,
        number: u64,
        fields: &mut Map<String, Value>,
        name: &str,
        show: impl Fn(&mut Value) -> Value,
    ) {
        let all = self
            .figures
            .subscriptions(number)
            .into_iter()
            .map(|subscription| {
                let mut value = json!({
                    "subject": subscription.subject,
                    "sid": subscription.sid,
                    "msgs": subscription.delivered.messages,
                    "cid": number,
                });
                let fields = value.as_object_mut().expect("made as one");
                if let Some(queue) = subscription.queue {
                    fields.insert("qgroup".to_owned(), queue.into());
                }
                if let Some(most) = subscription.most {
                    fields.insert("max".to_owned(), most.into());
                }
                show(&mut value)
            });
        let all: Vec<Value> = all.collect();
        if !all.is_empty() {
            fields.insert(name.to_owned(), all.into());
        }
    }
}

/// A length of time below a second or so, as Go writes it.
fn short(time: Duration) -> String {
    let ns = time.as_nanos();
    let (unit, name) = match ns {
        ..1_000 => return format!("{ns}ns"),
        1_000..1_000_000 => (1e3, "µs"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{}{name}", ns as f64 / unit)
}

/// The most first, as NATS has it, but for numbers, for reasons and for how long they are there; those with as many by
/// their number.
fn sort(clients: &mut [Client], by: Sort, now: Instant) {
    clients.sort_by_cached_key(|client| {
        let Client {
            figures,
            pending,
            end,
            ..
        } = client;
        let ns = |time: Duration| time.as_nanos() as u64;
        let ago = |at: Instant| ns(now.saturating_duration_since(at));
        let reason = end.filter(|_| by == Sort::Reason).map(|(_, reason)| reason);
        let most = match by {
            // They are numbered in the order in which they came.
            Sort::Number | Sort::Start | Sort::Reason => 0,
            Sort::Uptime => u64::MAX - ns(client.until(now).saturating_duration_since(figures.since)),
            Sort::Stop => u64::MAX - ago(client.until(now)),
            Sort::Last => u64::MAX - ago(figures.active),
            Sort::Idle => ago(figures.active),
            Sort::RoundTrip => figures.round_trip.map_or(0, ns),
            Sort::Pending => *pending as u64,
            Sort::Subscriptions => figures.subscriptions as u64,
            Sort::MessagesTo => figures.delivered.messages,
            Sort::MessagesFrom => figures.published.messages,
            Sort::BytesTo => figures.delivered.bytes,
            Sort::BytesFrom => figures.published.bytes,
        };
        (reason, Reverse(most), figures.number)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_understood_or_refused() {
        let plain = Wanted {
            limit: 1_024,
            offset: 0,
            sort: Sort::Number,
            client: None,
            user: None,
            state: State::Open,
            subscriptions: Subscriptions::Count,
        };
        assert_eq!(Wanted::read(Query("")).as_ref(), Ok(&plain));
        for nothing in ["limit=0&cid=0&offset=0", "sort=cid&state=open&subs=0"] {
            assert_eq!(Wanted::read(Query(nothing)).as_ref(), Ok(&plain), "{nothing}");
        }
        let all = "subs=detail&sort=msgs_to&limit=5&offset=10&cid=7&user=ada&state=Closed";
        let asked = Wanted {
            limit: 5,
            offset: 10,
            sort: Sort::MessagesTo,
            client: Some(7),
            user: Some("ada".to_owned()),
            state: State::Closed,
            subscriptions: Subscriptions::Detail,
        };
        assert_eq!(Wanted::read(Query(all)), Ok(asked.clone()));
        // Written as browsers and tools write it.
        let escaped = "%73ubs=%64etail&sort=msgs%5Fto&limit=%35&offset=10&cid=7&user=%61da&state=%43losed";
        assert_eq!(Wanted::read(Query(escaped)), Ok(asked));
        for (name, sort) in [
            ("start", Sort::Start),
            ("uptime", Sort::Uptime),
            ("stop", Sort::Stop),
            ("reason", Sort::Reason),
            ("last", Sort::Last),
            ("idle", Sort::Idle),
            ("rtt", Sort::RoundTrip),
            ("pending", Sort::Pending),
            ("subs", Sort::Subscriptions),
            ("msgs_from", Sort::MessagesFrom),
            ("bytes_to", Sort::BytesTo),
            ("bytes_from", Sort::BytesFrom),
        ] {
            let query = format!("state=closed&sort={name}");
            assert_eq!(
                Wanted::read(Query(&query)).map(|wanted| wanted.sort),
                Ok(sort),
                "{name}"
            );
        }
        let user = |query| Wanted::read(Query(query)).map(|wanted| wanted.user);
        for (query, name) in [
            ("user=a+b", "a b"),
            ("user=a%20b", "a b"),
            ("user=a%2Bb%26c", "a+b&c"),
            ("user=%C3%A4", "ä"),
            ("user=ada&user=ben", "ada"),
        ] {
            assert_eq!(user(query), Ok(Some(name.to_owned())), "{query}");
        }
        for wrong in [
            "sort=nonsense",
            "limit=-1",
            "offset=x",
            "cid=1x",
            "subs=2",
            "state=ajar",
            "sort=stop",
            "sort=reason&state=all",
        ] {
            assert!(Wanted::read(Query(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn short_times_are_written_as_in_go() {
        for (ns, text) in [
            (1, "1ns"),
            (999, "999ns"),
            (1_500, "1.5µs"),
            (123_456, "123.456µs"),
            (70_000_000, "70ms"),
            (1_200_000_000, "1.2s"),
        ] {
            assert_eq!(short(Duration::from_nanos(ns)), text);
        }
    }
}

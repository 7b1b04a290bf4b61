//! `/connz`: the clients, under NATS' own names.
//!
//! As there: `limit` and `offset`, `sort`, `cid` for one client, `subs=1` for what each is subscribed to and
//! `subs=detail` for what came by that. Times of a client are not known, since a protocol has no clock.

use std::cmp::Reverse;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use threadgauge_reactor::protocol::groups::ClientFigures;

use super::Pages;
use super::http::Query;

/// How many clients a page has if nothing else is asked for.
const LIMIT: usize = 1_024;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    limit: usize,
    offset: usize,
    sort: Sort,
    client: Option<u64>,
    subscriptions: Subscriptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Number,
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

impl Wanted {
    fn read(query: Query<'_>) -> Result<Self, String> {
        let number = |name: &str| match query.get(name) {
            None | Some("") => Ok(None),
            Some(text) => match text.parse::<u64>() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(format!("error decoding {name}: it is no number")),
            },
        };
        let count =
            |name| number(name).map(|number| number.map(|n| usize::try_from(n).unwrap_or(usize::MAX)));
        Ok(Self {
            limit: count("limit")?.filter(|&limit| limit > 0).unwrap_or(LIMIT),
            offset: count("offset")?.unwrap_or(0),
            client: number("cid")?.filter(|&number| number > 0),
            sort: match query.get("sort").unwrap_or("") {
                "" | "cid" => Sort::Number,
                "subs" => Sort::Subscriptions,
                "msgs_to" => Sort::MessagesTo,
                "msgs_from" => Sort::MessagesFrom,
                "bytes_to" => Sort::BytesTo,
                "bytes_from" => Sort::BytesFrom,
                _ => return Err("invalid sorting option".to_owned()),
            },
            subscriptions: match query.get("subs").unwrap_or("") {
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
        let mut clients = self.figures.clients();
        if let Some(number) = wanted.client {
            clients.retain(|client| client.number == number);
        }
        let total = clients.len();
        sort(&mut clients, wanted.sort);
        let page: Vec<Value> = clients
            .iter()
            .skip(wanted.offset)
            .take(wanted.limit)
            .map(|client| self.client(client, wanted.subscriptions))
            .collect();
        Ok(json!({
            "server_id": self.figures.options().server_id,
            "now": Timestamp::now().to_string(),
            "num_connections": page.len(),
            "total": total,
            "offset": wanted.offset,
            "limit": wanted.limit,
            "connections": page,
        }))
    }

    fn client(&self, client: &ClientFigures, subscriptions: Subscriptions) -> Value {
        let mut value = json!({
            "cid": client.number,
            "kind": "Client",
            "type": "nats",
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

/// The most first, as NATS has it, but for numbers; those with as many by their number.
fn sort(clients: &mut [ClientFigures], by: Sort) {
    clients.sort_by_key(|client| {
        let most = match by {
            Sort::Number => 0,
            Sort::Subscriptions => client.subscriptions as u64,
            Sort::MessagesTo => client.delivered.messages,
            Sort::MessagesFrom => client.published.messages,
            Sort::BytesTo => client.delivered.bytes,
            Sort::BytesFrom => client.published.bytes,
        };
        (Reverse(most), client.number)
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
            subscriptions: Subscriptions::Count,
        };
        assert_eq!(Wanted::read(Query("")), Ok(plain));
        let all = "subs=detail&sort=msgs_to&limit=5&offset=10&cid=7";
        let asked = Wanted {
            limit: 5,
            offset: 10,
            sort: Sort::MessagesTo,
            client: Some(7),
            subscriptions: Subscriptions::Detail,
        };
        assert_eq!(Wanted::read(Query(all)), Ok(asked));
        for wrong in ["sort=nonsense", "limit=-1", "offset=x", "cid=1x", "subs=2"] {
            assert!(Wanted::read(Query(wrong)).is_err(), "{wrong}");
        }
    }
}

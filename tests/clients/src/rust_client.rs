//! `async-nats`, the official client for Rust: each case is what a program does with it.

use std::collections::HashSet;
use std::future::Future;
use std::io::Read;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, HeaderMap, RequestErrorKind, Subscriber};
use bytes::Bytes;
use futures_util::{StreamExt, future};
use tokio::sync::mpsc;

use crate::server::{Auth, DEADLINE, Server, Settings};
use crate::wire::{Wire, without_pings};
use crate::{Case, Site};

pub const CASES: &[Case] = &[
    ("what_is_published_arrives_in_order", in_order),
    ("wildcards_match_what_they_should", wildcards),
    ("a_queue_group_shares_its_messages", queue),
    ("requests_get_their_own_answers", requests),
    ("a_request_that_nobody_hears_fails_at_once", no_responders),
    ("headers_arrive", headers),
    ("a_room_of_ten_hears_everyone_but_oneself", room),
    ("a_token_opens_and_nothing_else_does", token),
    ("user_and_password_open_and_nothing_else_does", user_and_password),
    ("the_largest_payload_passes_and_a_larger_one_does_not", payload),
    ("a_slow_consumer_is_dropped_and_others_are_served", slow_consumer),
    (
        "unsubscribing_after_a_number_gives_that_number",
        unsubscribe_after,
    ),
    (
        "a_drained_subscription_hears_what_was_sent_before",
        drain_subscription,
    ),
    ("a_drained_client_loses_nothing", drain_client),
    ("a_client_comes_back_to_a_new_server", come_back),
];

/// Runs a scenario against a new server, to its deadline, and ends the server.
fn play<F: Future<Output = Result<()>>>(
    site: &Site,
    settings: Settings,
    scenario: impl FnOnce(String) -> F,
) -> Result<()> {
    let server = Server::start(&site.program, &settings)?;
    within(scenario(server.url()))?;
    server.stop()
}

/// Runs it on this thread, to its deadline.
pub fn within(scenario: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        tokio::time::timeout(DEADLINE, scenario)
            .await
            .context("the scenario hangs")?
    })
}

/// With the patience of the tests in place of the client's, which ends after some seconds.
pub fn patient(options: ConnectOptions) -> ConnectOptions {
    options
        .connection_timeout(DEADLINE)
        .request_timeout(Some(DEADLINE))
}

async fn connect(url: &str) -> Result<Client> {
    Ok(patient(ConnectOptions::new()).connect(url).await?)
}

/// A subscription that the server knows of.
pub async fn subscribe(client: &Client, subject: &'static str) -> Result<Subscriber> {
    let subscription = client.subscribe(subject).await?;
    settle(client).await?;
    Ok(subscription)
}

/// The server has done all that the client sent before: a flush of this client only means that it was written.
pub async fn settle(client: &Client) -> Result<()> {
    match client.request("settle", Bytes::new()).await {
        Err(error) if error.kind() == RequestErrorKind::NoResponders => Ok(()),
        other => bail!("nobody should answer, but {other:?}"),
    }
}

/// What one has sent until now is with the other. That a flush of each tells so is true of one server with one loop,
/// and not of a cluster, nor of servers with several loops.
async fn all_heard(from: &Client, by: &Client) -> Result<()> {
    let subject = by.new_inbox();
    let mut last = by.subscribe(subject.clone()).await?;
    settle(by).await?;
    from.publish(subject, Bytes::new()).await?;
    next(&mut last).await.map(drop)
}

pub async fn next(subscription: &mut Subscriber) -> Result<async_nats::Message> {
    subscription.next().await.context("the subscription ended")
}

/// Nothing comes that was sent before this: what is sent last comes next.
async fn nothing_before_the_last(
    client: &Client,
    subscription: &mut Subscriber,
    subject: &'static str,
) -> Result<()> {
    client.publish(subject, Bytes::from_static(b"the last")).await?;
    let message = next(subscription).await?;
    ensure!(
        &message.payload[..] == b"the last",
        "{message:?} should not have come"
    );
    Ok(())
}

fn in_order(site: &Site) -> Result<()> {
    play(site, Settings::default(), async |url| {
        let (one, two) = (connect(&url).await?, connect(&url).await?);
        let mut heard_by = [subscribe(&one, "news").await?, subscribe(&two, "news").await?];
        for i in 0..1_000_u32 {
            // From nothing to a few KiB.
            let payload = format!("{i} {}", "x".repeat(i as usize * 37 % 4_096));
            one.publish("news", payload.into()).await?;
        }
        for subscription in &mut heard_by {
            for i in 0..1_000_u32 {
                let message = next(subscription).await?;
                let expected = format!("{i} {}", "x".repeat(i as usize * 37 % 4_096));
                ensure!(
                    message.payload == expected.as_bytes(),
                    "message {i} is {message:?}"
                );
                ensure!(message.subject.as_str() == "news" && message.reply.is_none());
            }
        }
        nothing_before_the_last(&two, &mut heard_by[0], "news").await
    })
}

fn wildcards(site: &Site) -> Result<()> {
    play(site, Settings::default(), async |url| {
        let client = connect(&url).await?;
        let published = [
            "w.a",
            "w.a.b",
            "w.a.b.c",
            "w.a.x.c",
            "w.b.b.c",
            "w.a.b.c.d",
            "w.A.b.c",
        ];
        let matching = [
            ("w.a.*.c", &["w.a.b.c", "w.a.x.c"][..]),
            ("w.a.>", &["w.a.b", "w.a.b.c", "w.a.x.c", "w.a.b.c.d"]),
            ("w.*", &["w.a"]),
            ("*.*.b.*", &["w.a.b.c", "w.b.b.c", "w.A.b.c"]),
            ("w.*.*", &["w.a.b"]),
            ("w.>", &published),
            ("*.a.*.>", &["w.a.b.c", "w.a.x.c", "w.a.b.c.d"]),
        ];
        let mut subscriptions = Vec::new();
        for (wildcard, _) in matching {
            subscriptions.push(subscribe(&client, wildcard).await?);
        }
        let publisher = connect(&url).await?;
        for subject in published {
            publisher.publish(subject, subject.into()).await?;
        }
        all_heard(&publisher, &client).await?;
        for ((wildcard, expected), subscription) in matching.into_iter().zip(&mut subscriptions) {
            subscription.drain().await?;
            let heard: Vec<String> = subscription
                .map(|message| message.subject.to_string())
                .collect()
                .await;
            ensure!(heard == expected, "{wildcard} heard {heard:?}");
        }
        Ok(())
    })
}

fn queue(site: &Site) -> Result<()> {
    const MESSAGES: usize = 300;
    play(site, Settings::default(), async |url| {
        let mut members = Vec::new();
        for _ in 0..3 {
            let client = connect(&url).await?;
            let subscription = client.queue_subscribe("work", "workers".into()).await?;
            settle(&client).await?;
            members.push((client, subscription));
        }
        let publisher = connect(&url).await?;
        let mut plain = subscribe(&publisher, "work").await?;
        for i in 0..MESSAGES {
            publisher.publish("work", i.to_string().into()).await?;
        }
        for i in 0..MESSAGES {
            ensure!(next(&mut plain).await?.payload == i.to_string().as_bytes());
        }
        // Each is with one member, in the order sent, and nobody has all the work.
        let mut done = HashSet::new();
        for (client, subscription) in &mut members {
            all_heard(&publisher, client).await?;
            subscription.drain().await?;
            let share: Vec<usize> = subscription
                .map(|message| {
                    String::from_utf8_lossy(&message.payload)
                        .parse()
                        .unwrap_or(MESSAGES)
                })
                .collect()
                .await;
            ensure!(
                share.is_sorted() && share.len() < MESSAGES,
                "a share is {share:?}"
            );
            for task in share {
                ensure!(done.insert(task), "{task} was done twice");
            }
        }
        ensure!(
            done.len() == MESSAGES,
            "{} of {MESSAGES} were done by anyone",
            done.len()
        );
        Ok(())
    })
}

fn requests(site: &Site) -> Result<()> {
    play(site, Settings::default(), async |url| {
        let (asking, answering) = (connect(&url).await?, connect(&url).await?);
        let mut asked = subscribe(&answering, "double.*").await?;
        let answers = async {
            for _ in 0..100 {
                let request = next(&mut asked).await?;
                let number: u64 = String::from_utf8_lossy(&request.payload).parse()?;
                let reply = request.reply.context("a request has a subject for the reply")?;
                answering.publish(reply, (2 * number).to_string().into()).await?;
            }
            Ok(())
        };
        let ask = async |number: u64| {
            let answer = asking
                .request(format!("double.{number}"), number.to_string().into())
                .await?;
            ensure!(
                answer.payload == (2 * number).to_string().as_bytes(),
                "{number}: {answer:?}"
            );
            Ok(())
        };
        let asks = future::try_join_all((0..100).map(ask));
        future::try_join(answers, asks).await.map(drop)
    })
}

fn no_responders(site: &Site) -> Result<()> {
    play(site, Settings::default(), async |url| {
        let client = connect(&url).await?;
        let error = client
            .request("nobody.there", Bytes::new())
            .await
            .err()
            .context("answered")?;
        ensure!(
            error.kind() == RequestErrorKind::NoResponders,
            "the error was {error:?}"
        );
        // With somebody there who does not answer, it is a time-out.
        let _silent = subscribe(&client, "somebody.there").await?;
        let request = async_nats::Request::new().timeout(Some(Duration::from_millis(50)));
        let error = client
            .send_request("somebody.there", request)
            .await
            .err()
            .context("answered")?;
        ensure!(
            error.kind() == RequestErrorKind::TimedOut,
            "the error was {error:?}"
        );
        Ok(())
    })
}

fn headers(site: &Site) -> Result<()> {
    play(site, Settings::default(), async |url| {
        let (one, two) = (connect(&url).await?, connect(&url).await?);
        let mut heard = subscribe(&two, "letters").await?;
        let mut headers = HeaderMap::new();
        headers.insert("Kind", "letter");
        headers.append("To", "a");
        headers.append("To", "b");
        for payload in ["", "hello", "NATS/1.0\r\n\r\n"] {
            one.publish_with_headers("letters", headers.clone(), payload.into())
                .await?;
            let message = next(&mut heard).await?;
            ensure!(message.payload == payload.as_bytes(), "{message:?}");
            ensure!(message.headers.as_ref() == Some(&headers), "{message:?}");
        }
        one.publish("letters", "bare".into()).await?;
        ensure!(next(&mut heard).await?.headers.is_none());
        Ok(())
    })
}

fn room(site: &Site) -> Result<()> {
    const MEMBERS: usize = 10;
    play(site, Settings::default(), async |url| {
        let mut members = Vec::new();
        for _ in 0..MEMBERS {
            let client = patient(ConnectOptions::new().no_echo()).connect(&url).await?;
            let heard = subscribe(&client, "rooms.blue").await?;
            members.push((client, heard));
        }
        for turn in 0..20 {
            for (who, (client, _)) in members.iter().enumerate() {
                client
                    .publish("rooms.blue", format!("{who} {turn}").into())
                    .await?;
            }
        }
        for (own, (_, heard)) in members.iter_mut().enumerate() {
            let mut next_of = [0; MEMBERS];
            for _ in 0..20 * (MEMBERS - 1) {
                let message = next(heard).await?;
                let text = String::from_utf8_lossy(&message.payload).into_owned();
                let (who, turn) = text.split_once(' ').context("two words")?;
                let who: usize = who.parse()?;
                ensure!(who != own, "{own} heard itself");
                ensure!(
                    turn.parse() == Ok(next_of[who]),
                    "{own} heard {text} out of order"
                );
                next_of[who] += 1;
            }
        }
        Ok(())
    })
}

/// Whoever is not let in is told so, and nothing else.
async fn refused(url: &str, options: ConnectOptions) -> Result<()> {
    match patient(options).connect(url).await {
        Ok(_) => bail!("let in"),
        Err(error) => ensure!(
            error.kind() == ConnectErrorKind::AuthorizationViolation,
            "refused by {error:?}"
        ),
    }
    Ok(())
}

fn token(site: &Site) -> Result<()> {
    let settings = Settings {
        auth: Auth::Token("s3cret"),
        ..Settings::default()
    };
    play(site, settings, async |url| {
        for wrong in ["", "s3cre", "s3crett", "S3CRET"] {
            refused(&url, ConnectOptions::with_token(wrong.to_owned())).await?;
        }
        refused(&url, ConnectOptions::new()).await?;
        let user = ConnectOptions::with_user_and_password("s3cret".into(), "s3cret".into());
        refused(&url, user).await?;
        let client = patient(ConnectOptions::with_token("s3cret".to_owned()))
            .connect(&url)
            .await?;
        let mut heard = subscribe(&client, "x").await?;
        nothing_before_the_last(&client, &mut heard, "x").await
    })
}

fn user_and_password(site: &Site) -> Result<()> {
    let settings = Settings {
        auth: Auth::User("ada", "pw"),
        ..Settings::default()
    };
    play(site, settings, async |url| {
        for (user, password) in [("ada", ""), ("ada", "PW"), ("bob", "pw"), ("", ""), ("pw", "ada")] {
            let options = ConnectOptions::with_user_and_password(user.into(), password.into());
            refused(&url, options).await?;
        }
        refused(&url, ConnectOptions::new()).await?;
        refused(&url, ConnectOptions::with_token("pw".into())).await?;
        let client = patient(ConnectOptions::with_user_and_password("ada".into(), "pw".into()))
            .connect(&url)
            .await?;
        let mut heard = subscribe(&client, "x").await?;
        nothing_before_the_last(&client, &mut heard, "x").await
    })
}

fn payload(site: &Site) -> Result<()> {
    let settings = Settings {
        max_payload: Some(2_000),
        ..Settings::default()
    };
    let server = Server::start(&site.program, &settings)?;
    within(async {
        let client = connect(&server.url()).await?;
        ensure!(client.server_info().max_payload == 2_000);
        let mut heard = subscribe(&client, "big").await?;
        let all = Bytes::from(vec![b'x'; 2_000]);
        client.publish("big", all.clone()).await?;
        ensure!(next(&mut heard).await?.payload == all);
        // This client knows the limit from the greeting, and does not send what is above it.
        let error = client
            .publish("big", vec![b'x'; 2_001].into())
            .await
            .err()
            .context("it was sent")?;
        ensure!(
            error.kind() == async_nats::PublishErrorKind::MaxPayloadExceeded,
            "{error:?}"
        );
        Ok(())
    })?;
    // One that sends it all the same is told, and cut off.
    let mut wire = Wire::open(&server, "{}")?;
    wire.send(&[&b"PUB big 2001\r\n"[..], &[b'x'; 2_001], b"\r\n"].concat())?;
    ensure!(
        without_pings(&wire.rest()?) == b"-ERR 'Maximum Payload Violation'\r\n",
        "another answer came"
    );
    server.stop()
}

fn slow_consumer(site: &Site) -> Result<()> {
    let settings = Settings {
        max_pending: Some(1 << 20),
        ..Settings::default()
    };
    let server = Server::start(&site.program, &settings)?;
    let mut slow = Wire::open(&server, "{}")?;
    slow.send(b"SUB flood 1\r\n")?;
    slow.settle()?;
    within(async {
        let client = connect(&server.url()).await?;
        let mut heard = subscribe(&client, "flood").await?;
        // Far more than the sockets' buffers and the limit together can hold.
        let payload = Bytes::from(vec![b'x'; 64 << 10]);
        for _ in 0..1_000 {
            client.publish("flood", payload.clone()).await?;
            ensure!(next(&mut heard).await?.payload == payload);
        }
        Ok(())
    })?;
    // What was cut off has not got it all, and nothing broken before the cut but the last message.
    let mut came = Vec::new();
    if let Err(error) = slow.stream().read_to_end(&mut came) {
        ensure!(
            error.kind() == std::io::ErrorKind::ConnectionReset,
            "the slow one is still connected: {error}"
        );
    }
    ensure!(
        came.len() < 1_000 * (64 << 10),
        "{} bytes came to the slow one",
        came.len()
    );
    server.stop()
}

fn unsubscribe_after(site: &Site) -> Result<()> {
    play(site, Settings::default(), async |url| {
        let client = connect(&url).await?;
        let mut heard = client.subscribe("few").await?;
        heard.unsubscribe_after(5).await?;
        settle(&client).await?;
        let publisher = connect(&url).await?;
        for i in 0..10 {
            publisher.publish("few", i.to_string().into()).await?;
        }
        all_heard(&publisher, &client).await?;
        let count = heard.count().await;
        ensure!(count == 5, "{count} came");
        Ok(())
    })
}

/// By another client: what this one publishes itself it may still be writing when it drains.
fn drain_subscription(site: &Site) -> Result<()> {
    play(site, Settings::default(), async |url| {
        let (client, publisher) = (connect(&url).await?, connect(&url).await?);
        let mut heard = subscribe(&client, "late").await?;
        for i in 0..500 {
            publisher.publish("late", i.to_string().into()).await?;
        }
        all_heard(&publisher, &client).await?;
        heard.drain().await?;
        let count = heard.count().await;
        ensure!(count == 500, "{count} of 500 came");
        Ok(())
    })
}

fn drain_client(site: &Site) -> Result<()> {
    play(site, Settings::default(), async |url| {
        let (events, mut seen) = mpsc::unbounded_channel();
        let draining = patient(ConnectOptions::new())
            .event_callback(move |event| {
                let _ = events.send(event);
                future::ready(())
            })
            .connect(&url)
            .await?;
        let watching = connect(&url).await?;
        let mut watched = subscribe(&watching, "out").await?;
        let mut heard = subscribe(&draining, "in").await?;
        for i in 0..200 {
            watching.publish("in", i.to_string().into()).await?;
        }
        all_heard(&watching, &draining).await?;
        for i in 0..200 {
            draining.publish("out", i.to_string().into()).await?;
        }
        draining.drain().await?;
        let count = (&mut heard).count().await;
        ensure!(count == 200, "{count} of 200 came to who drained");
        for i in 0..200 {
            ensure!(next(&mut watched).await?.payload == i.to_string().as_bytes());
        }
        loop {
            if matches!(seen.recv().await.context("it never closed")?, Event::Closed) {
                return Ok(());
            }
        }
    })
}

fn come_back(site: &Site) -> Result<()> {
    let first = Server::start(&site.program, &Settings::default())?;
    let address = first.address();
    within(async {
        let (events, mut seen) = mpsc::unbounded_channel();
        let client = patient(ConnectOptions::new())
            .reconnect_delay_callback(|_| Duration::from_millis(10))
            .event_callback(move |event| {
                let _ = events.send(event);
                future::ready(())
            })
            .connect(format!("nats://{address}"))
            .await?;
        let mut heard = subscribe(&client, "still.here").await?;
        ensure!(matches!(seen.recv().await, Some(Event::Connected)));
        first.stop()?;
        let again = Settings {
            port: Some(address.port()),
            ..Settings::default()
        };
        let second = Server::start(&site.program, &again)?;
        while !matches!(seen.recv().await.context("it gave up")?, Event::Connected) {}
        settle(&client).await?;
        let other = connect(&second.url()).await?;
        other.publish("still.here", "yes".into()).await?;
        ensure!(next(&mut heard).await?.payload == "yes");
        second.stop()
    })
}

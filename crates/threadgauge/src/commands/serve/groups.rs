//! What can be set for the protocol `groups` alone.

use std::num::NonZeroUsize;

use anyhow::{Result, ensure};
use clap::Args;
use serde::Deserialize;
use threadgauge_reactor::protocol::groups::{Access, Options};
use threadgauge_results::units::counted;

use crate::commands::serve::changes::Changes;
use crate::commands::serve::values::{Listen, Names, Seconds, Whole, as_typed};

/// Settings of the protocol `groups`, by their names on the command line; in a file, the table `groups`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args, Deserialize)]
#[serde(
    rename_all = "kebab-case",
    deny_unknown_fields,
    default,
    expecting = "a table, as [groups] begins one"
)]
#[command(next_help_heading = "Options of the protocol groups")]
pub struct Groups {
    /// Serve the pages /varz, /connz, /healthz and /metrics here: a port of 127.0.0.1, or an address and port
    #[arg(long, value_name = "ADDRESS")]
    #[serde(deserialize_with = "as_typed")]
    pub monitor: Option<Listen>,
    /// Names of this host under which browsers and others ask for those pages, with commas between; addresses,
    /// localhost and the system's own name for it need not be given
    #[arg(long, value_name = "NAME,…")]
    #[serde(deserialize_with = "as_typed")]
    pub monitor_hosts: Option<Names>,
    /// The server's name (a random one if not given)
    #[arg(long, value_name = "NAME")]
    pub server_name: Option<String>,
    /// Clients must give this token; better in a file, since other users can see the command line
    #[arg(long, value_name = "SECRET", conflicts_with_all = ["user", "password"])]
    pub token: Option<String>,
    /// Clients must log in as this user, with the password
    #[arg(long, value_name = "NAME", requires = "password")]
    pub user: Option<String>,
    /// The user's password; better in a file, like the token
    #[arg(long, value_name = "SECRET", requires = "user")]
    pub password: Option<String>,
    /// How long a client may take to log in (2 if not given)
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "as_typed")]
    pub auth_timeout: Option<Seconds>,
    /// The most bytes of a message with its headers (1048576 if not given)
    #[arg(long, value_name = "BYTES")]
    #[serde(deserialize_with = "as_typed")]
    pub max_payload: Option<Whole>,
    /// The most subscriptions of one client (100000 if not given)
    #[arg(long, value_name = "N")]
    #[serde(deserialize_with = "as_typed")]
    pub max_subscriptions: Option<Whole>,
    /// How long a client may be silent before the server pings it (120 if not given)
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "as_typed")]
    pub ping_interval: Option<Seconds>,
    /// How many pings a client may leave unanswered; at the next it is closed (2 if not given)
    #[arg(long, value_name = "N")]
    #[serde(deserialize_with = "as_typed")]
    pub ping_max: Option<Whole>,
    /// At the stop: tell the clients, serve them for so long, and close those that stay one by one
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "as_typed")]
    pub lame_duck: Option<Seconds>,
    /// How much of --lame-duck passes before the first client is closed (10 if not given, or all of it if shorter)
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "as_typed")]
    pub lame_duck_grace: Option<Seconds>,
}

impl Groups {
    /// These, and for what is not given here those of `file`. Who may connect is of one of them as a whole.
    pub fn over(self, file: Self) -> Self {
        let who = match self.token.is_some() || self.user.is_some() {
            true => (self.token, self.user, self.password),
            false => (file.token, file.user, file.password),
        };
        Self {
            monitor: self.monitor.or(file.monitor),
            monitor_hosts: self.monitor_hosts.or(file.monitor_hosts),
            server_name: self.server_name.or(file.server_name),
            token: who.0,
            user: who.1,
            password: who.2,
            auth_timeout: self.auth_timeout.or(file.auth_timeout),
            max_payload: self.max_payload.or(file.max_payload),
            max_subscriptions: self.max_subscriptions.or(file.max_subscriptions),
            ping_interval: self.ping_interval.or(file.ping_interval),
            ping_max: self.ping_max.or(file.ping_max),
            lame_duck: self.lame_duck.or(file.lame_duck),
            lame_duck_grace: self.lame_duck_grace.or(file.lame_duck_grace),
        }
    }

    /// Takes from `new` what may change while a server runs, and says what is otherwise there.
    pub fn change_to(&mut self, new: Self) -> Changes {
        let mut changes = Changes::default();
        changes.add_fixed(&[
            ("monitor", self.monitor != new.monitor),
            ("monitor-hosts", self.monitor_hosts != new.monitor_hosts),
            ("server-name", self.server_name != new.server_name),
            ("max-payload", self.max_payload != new.max_payload),
            ("lame-duck", self.lame_duck != new.lame_duck),
            ("lame-duck-grace", self.lame_duck_grace != new.lame_duck_grace),
        ]);
        changes.add_changed(&[
            ("token", differs(&mut self.token, new.token)),
            ("user", differs(&mut self.user, new.user)),
            ("password", differs(&mut self.password, new.password)),
            ("auth-timeout", differs(&mut self.auth_timeout, new.auth_timeout)),
            (
                "max-subscriptions",
                differs(&mut self.max_subscriptions, new.max_subscriptions),
            ),
            (
                "ping-interval",
                differs(&mut self.ping_interval, new.ping_interval),
            ),
            ("ping-max", differs(&mut self.ping_max, new.ping_max)),
        ]);
        changes
    }

    /// For the protocol, of which `most` may be clients at once.
    ///
    /// # Errors
    ///
    /// If who may connect is not clear: an empty secret, or a user without password, opens to nobody or to everyone. If
    /// the grace of a lame duck is not a part of its time. If names are given to a monitor that is not there.
    pub fn options(&self, most: NonZeroUsize) -> Result<Options> {
        let access = match (&self.token, &self.user, &self.password) {
            (None, None, None) => Access::Everyone,
            (Some(token), None, None) => Access::Token(token.clone()),
            (None, Some(name), Some(password)) => Access::User {
                name: name.clone(),
                password: password.clone(),
            },
            _ => anyhow::bail!("who may connect? Either a token, or a user with a password"),
        };
        let secrets = [&self.token, &self.user, &self.password];
        ensure!(
            secrets.into_iter().flatten().all(|secret| !secret.is_empty()),
            "a token, a user's name or a password must not be empty"
        );
        ensure!(
            self.monitor.is_some() || self.monitor_hosts.is_none(),
            "--monitor-hosts names those of --monitor, which is not given"
        );
        let mut options = Options {
            access,
            max_connections: Some(most.get()),
            max_payload: self.most_payload(),
            ..Options::default()
        };
        if let Some(name) = &self.server_name {
            options.server_name.clone_from(name);
        }
        if let Some(Seconds(time)) = self.auth_timeout {
            options.auth_timeout = time;
        }
        if let Some(Whole(count)) = self.max_subscriptions {
            options.max_subscriptions = count.get();
        }
        if let Some(Seconds(interval)) = self.ping_interval {
            options.ping_interval = interval;
        }
        if let Some(Whole(count)) = self.ping_max {
            options.max_pings_out = u32::try_from(count.get()).unwrap_or(u32::MAX);
        }
        if let Some(Seconds(time)) = self.lame_duck {
            options.lame_duck = time;
        }
        if let Some(Seconds(grace)) = self.lame_duck_grace {
            ensure!(
                grace < options.lame_duck,
                "--lame-duck-grace is a part of --lame-duck and must be shorter"
            );
            options.lame_duck_grace = grace;
        }
        Ok(options)
    }

    /// The further names under which the monitor is asked for.
    pub fn monitor_hosts(&self) -> &[String] {
        self.monitor_hosts.as_ref().map_or(&[], |Names(names)| names)
    }

    /// What was set, in words, for the person who started it; no secrets.
    pub fn in_words(&self) -> impl Iterator<Item = String> {
        let words = [
            self.monitor_hosts
                .as_ref()
                .map(|Names(names)| format!("the monitor also as {}", names.join(" and "))),
            self.server_name.as_ref().map(|name| format!("the name {name}")),
            self.token.as_ref().map(|_| "a token".to_owned()),
            self.user
                .as_ref()
                .map(|name| format!("the user {name} and a password")),
            self.auth_timeout.map(|it| format!("{it} to say who it is")),
            self.max_payload
                .map(|Whole(n)| format!("at most {} a message", counted(n.get(), "byte"))),
            self.max_subscriptions
                .map(|Whole(n)| format!("at most {} a client", counted(n.get(), "subscription"))),
            self.ping_interval.map(|it| format!("ping interval {it}")),
            self.ping_max
                .map(|Whole(n)| format!("at most {} in vain", counted(n.get(), "ping"))),
            self.lame_duck.map(|it| format!("lame duck {it}")),
            self.lame_duck_grace.map(|it| format!("grace {it}")),
        ];
        words.into_iter().flatten()
    }

    /// The most bytes of a message.
    pub fn most_payload(&self) -> usize {
        self.max_payload
            .map_or_else(|| Options::default().max_payload, |Whole(bytes)| bytes.get())
    }

    /// Whether any is given: other protocols refuse them.
    pub fn is_given(&self) -> bool {
        self.monitor.is_some() || self.in_words().next().is_some() || self.password.is_some()
    }
}

/// Takes the new value, and says whether it is another.
fn differs<T: PartialEq>(now: &mut T, new: T) -> bool {
    let differs = *now != new;
    *now = new;
    differs
}

//! From a protocol's name to clients that speak it.

use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::{Result, ensure};
use threadgauge_load::codec::{Chat, Codec, Nats};
use threadgauge_load::exchange::{Bytes, Echo, Exchange, Http, HttpRequest};
use threadgauge_load::{
    Clients, Groups, IfFewer, LEAST_PAYLOAD_BYTES, Load, LoadError, MOST_PAYLOAD_BYTES, Pace, Plan, Record,
    Requests, Sizes, Watch,
};
use threadgauge_results::units::counted;

use crate::commands::load::options::{Level, LoadOptions, Speaks};
use crate::commands::load::target::Target;

/// After the last answer, so long is listened for bytes that nobody asked for.
const LISTENS_ON: Duration = Duration::from_millis(50);

/// Clients that are connected.
pub trait Driver {
    /// How many connections take part.
    fn connections(&self) -> usize;

    /// Loads the server. Blocks meanwhile.
    fn run(&mut self, options: &LoadOptions, pace: Pace, watch: &mut dyn Watch) -> Result<Record, LoadError>;
}

/// What is said, or why it cannot be: asked before anything connects.
pub fn check(options: &LoadOptions, target: &Target) -> Result<()> {
    match options.protocol {
        Speaks::Http => request(options, target).check().map_err(anyhow::Error::msg)?,
        Speaks::Bytes => ensure!(
            payload(options).most() <= Bytes::MOST,
            "--payload {}: the protocol bytes has answers of 1 to {} bytes",
            payload(options),
            Bytes::MOST
        ),
        Speaks::Echo => ensure!(
            payload(options).most() <= MOST_PAYLOAD_BYTES,
            "--payload {}: a message has 1 to {MOST_PAYLOAD_BYTES} bytes",
            payload(options)
        ),
        Speaks::Groups | Speaks::Chat => {
            let most = match options.protocol {
                // Of a line, with its end.
                Speaks::Chat => 16 * 1024 - 1,
                _ => MOST_PAYLOAD_BYTES,
            };
            ensure!(
                payload(options).least() >= LEAST_PAYLOAD_BYTES && payload(options).most() <= most,
                "--payload {}: a message that can be checked has {LEAST_PAYLOAD_BYTES} to {most} bytes",
                payload(options)
            );
            let size = options.group_size.get();
            ensure!(
                size > 1 || options.own_echo,
                "--group-size 1: nobody would hear anything; a group has two members at least"
            );
            let levels = options.levels(0);
            for connections in levels.iter().map(|level| level.connections) {
                ensure!(
                    connections.get().is_multiple_of(size),
                    "{} cannot be in groups of {size}; say --connections {}",
                    counted(connections.get(), "connection"),
                    connections.get().div_ceil(size) * size
                );
            }
        }
    }
    Ok(())
}

/// Connects the clients, for as long as `goes_on` says so. Blocks meanwhile.
///
/// # Errors
///
/// If they cannot connect, and with [`LoadError::Interrupted`] where it does not go on.
pub fn connect(
    options: &LoadOptions,
    target: &Target,
    level: Level,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Box<dyn Driver>, LoadError> {
    let bytes = payload(options);
    let to = To {
        options,
        target,
        level,
        goes_on,
    };
    match options.protocol {
        Speaks::Http => to.requests(Http::new(&request(options, target))),
        Speaks::Bytes if options.close => to.requests(Bytes::new(bytes)),
        Speaks::Bytes => to.requests(Bytes::kept(bytes)),
        Speaks::Echo => to.requests(Echo::new(bytes)),
        Speaks::Groups if options.own_echo => to.groups(&Nats::ECHOING),
        Speaks::Groups => to.groups(&Nats::ALIKE),
        Speaks::Chat => to.groups(&Chat),
    }
}

/// Bytes of a message or an answer.
pub fn payload(options: &LoadOptions) -> Sizes {
    let usual: usize = match options.protocol {
        // As many as Stevens' clients ask for.
        Speaks::Bytes => 4_000,
        _ => 128,
    };
    options.payload.unwrap_or(usual.into())
}

/// What HTTP asks for.
pub fn request(options: &LoadOptions, target: &Target) -> HttpRequest {
    HttpRequest {
        method: options.method.clone(),
        host: target.host.clone(),
        path: target.path.clone(),
        headers: options.header.clone(),
        body: options.body.clone().unwrap_or_default().into_bytes(),
        sizes: None,
        close: options.close,
    }
}

/// Where connections go, how many, and for how long they are made.
struct To<'a> {
    options: &'a LoadOptions,
    target: &'a Target,
    level: Level,
    goes_on: &'a mut dyn FnMut() -> bool,
}

impl To<'_> {
    fn requests<E: Exchange + 'static>(self, exchange: E) -> Result<Box<dyn Driver>, LoadError> {
        let clients = Clients {
            target: self.target.address(),
            connections: self.level.connections,
            pipeline: self.options.pipeline,
            timeout: self.options.timeout.0,
            go_on: self.options.go_on,
        };
        let mut requests = Requests::connect_while(exchange, clients, self.goes_on)?;
        requests.listen_on(LISTENS_ON);
        Ok(Box::new(requests))
    }

    fn groups(self, codec: &'static dyn Codec) -> Result<Box<dyn Driver>, LoadError> {
        let plan = Plan {
            connections: self.level.connections.get(),
            group_size: self.options.group_size.get(),
            payload_bytes: payload(self.options),
            patience: self.options.timeout.0,
        };
        let if_fewer = match self.options.go_on {
            true => IfFewer::GoOn,
            false => IfFewer::Fail,
        };
        let address = self.target.address();
        let mut groups = Groups::connect_while(address, codec, plan, if_fewer, self.goes_on)?;
        groups.listen_on(LISTENS_ON);
        Ok(Box::new(groups))
    }
}

impl<E: Exchange> Driver for Requests<E> {
    fn connections(&self) -> usize {
        Self::connections(self)
    }

    fn run(&mut self, options: &LoadOptions, pace: Pace, watch: &mut dyn Watch) -> Result<Record, LoadError> {
        Self::run(self, pace, options.ramp(), options.requests, watch)
    }
}

impl Driver for Groups {
    fn connections(&self) -> usize {
        Self::connections(self)
    }

    fn run(&mut self, options: &LoadOptions, pace: Pace, watch: &mut dyn Watch) -> Result<Record, LoadError> {
        let load = sent(pace, self.copies(), options.pipeline);
        self.run_ramped(load, options.ramp(), options.requests, watch)
    }
}

/// When members send that are to keep this pace, each message of which has so many copies.
fn sent(pace: Pace, copies: u64, outstanding: NonZeroUsize) -> Load {
    match pace {
        Pace::Open {
            per_second,
            arrivals,
            seed,
        } => Load::Open {
            deliveries_per_second: per_second * copies as f64,
            arrivals,
            seed,
        },
        Pace::Closed { think, .. } if think.is_zero() => Load::Closed { outstanding },
        Pace::Closed {
            think,
            arrivals,
            seed,
        } => Load::Thinking {
            outstanding,
            think,
            arrivals,
            seed,
        },
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_load::Arrivals;

    use super::*;

    #[test]
    fn members_send_by_a_rate_of_messages_after_a_thought_or_at_once() {
        let (two, arrivals, seed) = (NonZeroUsize::MIN.saturating_add(1), Arrivals::Uniform, 7);
        let load = sent(
            Pace::Open {
                per_second: 5.0,
                arrivals,
                seed,
            },
            9,
            two,
        );
        let rate = Load::Open {
            deliveries_per_second: 45.0,
            arrivals,
            seed,
        };
        assert_eq!(load, rate);
        assert_eq!(sent(Pace::FAST, 9, two), Load::Closed { outstanding: two });
        let think = Duration::from_millis(5);
        let load = sent(
            Pace::Closed {
                think,
                arrivals,
                seed,
            },
            9,
            two,
        );
        let thinking = Load::Thinking {
            outstanding: two,
            think,
            arrivals,
            seed,
        };
        assert_eq!(load, thinking);
    }
}

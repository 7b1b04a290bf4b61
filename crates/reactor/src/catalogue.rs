//! The protocols that come with the crate: the one list of them.

use std::str::FromStr;

use crate::design::Design;
use crate::error::{Error, find};
use crate::protocol::{self, Protocol};

/// What a protocol is.
#[derive(Debug)]
pub(crate) struct About {
    pub name: &'static str,
    pub summary: &'static str,
}

/// What is done with a protocol that was chosen by its name: each is a type of its own.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<P: Protocol>(self, protocol: P) -> Self::Output;
}

macro_rules! protocols {
    ($($(#[$about:meta])* $name:ident => $module:ident,)*) => {
        /// A protocol that comes with the crate.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum BuiltIn {
            $($(#[$about])* $name,)*
        }

        impl BuiltIn {
            /// All of them, in the order in which they are listed.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Gives a new one to the visitor.
            pub fn visit<V: Visitor>(self, visitor: V) -> V::Output {
                match self {
                    $(Self::$name => visitor.visit(<protocol::$module::$name>::default()),)*
                }
            }

            /// Whether its sessions share memory or send to each other.
            pub fn is_shared(self) -> bool {
                match self {
                    $(Self::$name => <protocol::$module::$name as Protocol>::SHARED,)*
                }
            }

            fn about(self) -> &'static About {
                match self {
                    $(Self::$name => &protocol::$module::ABOUT,)*
                }
            }
        }
    };
}

protocols! {
    /// [`Echo`](crate::protocol::echo::Echo).
    Echo => echo,
    /// [`Bytes`](crate::protocol::bytes::Bytes).
    Bytes => bytes,
    /// [`Http`](crate::protocol::http::Http).
    Http => http,
    /// [`Null`](crate::protocol::null::Null).
    Null => null,
    /// [`Numbered`](crate::protocol::numbered::Numbered).
    Numbered => numbered,
    /// [`Chat`](crate::protocol::chat::Chat).
    Chat => chat,
    /// [`Groups`](crate::protocol::groups::Groups).
    Groups => groups,
}

impl BuiltIn {
    /// As the command line and results call it.
    pub fn name(self) -> &'static str {
        self.about().name
    }

    /// What it does, in a line.
    pub fn summary(self) -> &'static str {
        self.about().summary
    }

    /// Whether it runs on a design.
    ///
    /// # Errors
    ///
    /// Why it does not, as the end of a sentence that began with the design.
    pub fn fits(self, design: Design) -> Result<(), &'static str> {
        if self.is_shared() {
            design.accepts_shared()
        } else {
            Ok(())
        }
    }
}

/// By its name.
impl FromStr for BuiltIn {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        find("protocol", name, Self::ALL, Self::name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_has_a_name_of_its_own() {
        for (i, &protocol) in BuiltIn::ALL.iter().enumerate() {
            assert_eq!(protocol.name().parse::<BuiltIn>().expect("found"), protocol);
            assert!(
                BuiltIn::ALL[..i]
                    .iter()
                    .all(|other| other.name() != protocol.name())
            );
        }
        let error = "ecko".parse::<BuiltIn>().expect_err("unknown").to_string();
        assert!(
            error.contains("`ecko`") && error.contains("echo, bytes"),
            "{error}"
        );
    }

    #[test]
    fn what_shares_fits_no_design_that_keeps_apart() {
        assert!(BuiltIn::Echo.fits(Design::Iterative).is_ok());
        assert_eq!(
            BuiltIn::Chat.fits(Design::Iterative),
            Err("serves one connection after the other")
        );
    }
}

//! MQTT 3.1.1, as a client of ours speaks it.

use super::{Codec, CodecError, Event, Frame, MOST_BYTES};

const NAME: &str = "MQTT 3.1.1";
const CONNECT: u8 = 0x10;
const CONNACK: u8 = 0x20;
const PUBLISH: u8 = 0x30;
/// A subscription has a flag of its own.
const SUBSCRIBE: u8 = 0x82;
const SUBACK: u8 = 0x90;
const PINGRESP: u8 = 0xd0;
const CLEAN_SESSION: u8 = 2;
/// Of a subscription that the server refused.
const REFUSED: u8 = 0x80;

/// MQTT 3.1.1 with quality of service 0: group *N* is the topic `gN`.
///
/// This version has no way not to echo: who publishes receives its own message.
#[derive(Clone, Copy, Debug)]
pub struct Mqtt;

impl Codec for Mqtt {
    fn name(&self) -> &'static str {
        NAME
    }

    fn echoes(&self) -> bool {
        true
    }

    fn greet(&self, connection: usize, group: usize, into: &mut Vec<u8>) {
        // Level 4 is version 3.1.1; no keep-alive.
        let mut connect = b"\0\x04MQTT\x04".to_vec();
        connect.extend([CLEAN_SESSION, 0, 0]);
        text(&format!("c{connection}"), &mut connect);
        packet(CONNECT, connect.len(), into);
        into.extend(connect);
        // Packet 1, and the quality of service after the topic.
        let mut subscribe = vec![0, 1];
        text(&format!("g{group}"), &mut subscribe);
        subscribe.push(0);
        packet(SUBSCRIBE, subscribe.len(), into);
        into.extend(subscribe);
    }

    fn publish(&self, group: usize, payload: &[u8], into: &mut Vec<u8>) {
        let topic = format!("g{group}");
        packet(PUBLISH, 2 + topic.len() + payload.len(), into);
        text(&topic, into);
        into.extend_from_slice(payload);
    }

    fn next<'a>(&self, input: &'a [u8]) -> Result<Option<Frame<'a>>, CodecError> {
        let foreign = || CodecError::foreign(NAME, input);
        let Some(&kind) = input.first() else {
            return Ok(None);
        };
        // What it is shows in the first byte: nothing is waited for that could not be.
        if !matches!(kind, CONNACK | SUBACK | PINGRESP) && kind & 0xf6 != PUBLISH {
            return Err(foreign());
        }
        let Some((length, start)) = length(input).map_err(|()| foreign())? else {
            return Ok(None);
        };
        let Some(body) = input.get(start..start + length) else {
            return Ok(None);
        };
        let event = match (kind, body) {
            (CONNACK, [_, 0]) | (PINGRESP, []) => Event::Noise,
            (CONNACK, [_, code]) => {
                return Err(CodecError::Complaint(format!("connection refused, code {code}")));
            }
            (SUBACK, [_, _, REFUSED]) => {
                return Err(CodecError::Complaint("subscription refused".to_owned()));
            }
            (SUBACK, [_, _, _]) => Event::Ready,
            (CONNACK | SUBACK | PINGRESP, _) => return Err(foreign()),
            (_, [high, low, rest @ ..]) => {
                let topic = usize::from(u16::from_be_bytes([*high, *low]));
                // Quality of service 0 has no packet number between the topic and the payload.
                Event::Delivery(rest.get(topic..).ok_or_else(foreign)?)
            }
            _ => return Err(foreign()),
        };
        Ok(Some(Frame {
            bytes: start + length,
            event,
        }))
    }
}

/// The head of a packet whose body has so many bytes.
fn packet(kind: u8, mut bytes: usize, into: &mut Vec<u8>) {
    into.push(kind);
    while bytes > 127 {
        into.push(bytes as u8 | 128);
        bytes >>= 7;
    }
    into.push(bytes as u8);
}

fn text(text: &str, into: &mut Vec<u8>) {
    into.extend((text.len() as u16).to_be_bytes());
    into.extend(text.as_bytes());
}

/// The length of the body, and where it begins. Seven bits a byte, at most four bytes.
fn length(input: &[u8]) -> Result<Option<(usize, usize)>, ()> {
    let mut length = 0;
    for (i, &byte) in input.iter().skip(1).take(4).enumerate() {
        length |= usize::from(byte & 127) << (7 * i);
        if byte < 128 {
            return if length <= MOST_BYTES {
                Ok(Some((length, i + 2)))
            } else {
                Err(())
            };
        }
    }
    if input.len() > 4 { Err(()) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{Owned, events, split_anywhere};
    use super::*;

    #[test]
    fn a_session_is_read_however_it_is_cut() {
        let mut session = b"\x20\x02\0\0\x90\x03\0\x01\0".to_vec();
        Mqtt.publish(1, b"hello", &mut session);
        Mqtt.publish(1, &[b'x'; 300], &mut session);
        session.extend(b"\xd0\0");
        split_anywhere(&Mqtt, &session);
        assert_eq!(
            events(&Mqtt, [&session[..]]).unwrap(),
            [
                Owned::Noise,
                Owned::Ready,
                Owned::Delivery(b"hello".to_vec()),
                Owned::Delivery(vec![b'x'; 300]),
                Owned::Noise
            ]
        );
    }

    #[test]
    fn a_message_goes_out_with_the_length_of_all_that_follows() {
        let mut said = Vec::new();
        Mqtt.publish(10, b"hello", &mut said);
        assert_eq!(said, b"\x30\x0a\0\x03g10hello");
        // The longest of which one byte tells the length.
        let mut said = Vec::new();
        Mqtt.publish(1, &[b'x'; 123], &mut said);
        assert_eq!(said[..6], *b"\x30\x7f\0\x02g1");
        // 200 bytes: seven bits of them, and one more byte.
        let mut said = Vec::new();
        Mqtt.publish(1, &[b'x'; 196], &mut said);
        assert_eq!(said[..7], *b"\x30\xc8\x01\0\x02g1");
    }

    #[test]
    fn refusals_are_complaints() {
        for bytes in [&b"\x20\x02\0\x05"[..], b"\x90\x03\0\x01\x80"] {
            assert!(
                matches!(Mqtt.next(bytes), Err(CodecError::Complaint(_))),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn what_is_not_mqtt_is_refused() {
        for bytes in [
            &b"INFO {}\r\n"[..],
            b"\x30\x03\0\x09g",
            b"\x30\xff\xff\xff\xff\x01",
            b"\x32\x05\0\x01g\0\x01",
            b"\x90\x01\0",
        ] {
            assert!(
                matches!(Mqtt.next(bytes), Err(CodecError::Foreign { .. })),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn a_length_has_at_most_four_bytes_of_seven_bits_and_a_limit() {
        assert_eq!(length(b"\x30\x7f"), Ok(Some((127, 2))));
        assert_eq!(length(b"\x30\x80\x80\x01"), Ok(Some((1 << 14, 4))));
        for waits in [&b"\x30"[..], b"\x30\xff", b"\x30\xff\xff\xff"] {
            assert_eq!(length(waits), Ok(None), "{waits:?}");
        }
        assert_eq!(length(b"\x30\x80\x80\x80\x80"), Err(()));
        for (bytes, is_taken) in [(MOST_BYTES, true), (MOST_BYTES + 1, false)] {
            let mut head = Vec::new();
            packet(PUBLISH, bytes, &mut head);
            assert_eq!(length(&head).is_ok(), is_taken, "{bytes}");
        }
    }

    #[test]
    fn what_it_writes_is_mqtt() {
        let mut said = Vec::new();
        Mqtt.greet(7, 12, &mut said);
        assert_eq!(
            said,
            b"\x10\x0e\0\x04MQTT\x04\x02\0\0\0\x02c7\x82\x08\0\x01\0\x03g12\0"
        );
        said.clear();
        Mqtt.publish(3, &[b'x'; 200], &mut said);
        assert_eq!(&said[..7], b"\x30\xcc\x01\0\x02g3");
    }
}

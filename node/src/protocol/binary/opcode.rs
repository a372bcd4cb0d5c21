//! The opcodes of the binary protocol.
//!
//! Owns their numbers, from memcached's `protocol_binary.h`, and which of them are quiet.

/// An opcode as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opcode(pub u8);

/// What an opcode stands for, quiet or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    GetKey,
    Touch,
    GetAndTouch,
    GetKeyAndTouch,
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    Delete,
    Increment,
    Decrement,
    Flush,
    Noop,
    Version,
    Stat,
    Quit,
    SaslList,
    SaslAuth,
    SaslStep,
}

impl Opcode {
    pub fn verb(self) -> Option<Verb> {
        Some(match self.0 {
            0x00 | 0x09 => Verb::Get,
            0x01 | 0x11 => Verb::Set,
            0x02 | 0x12 => Verb::Add,
            0x03 | 0x13 => Verb::Replace,
            0x04 | 0x14 => Verb::Delete,
            0x05 | 0x15 => Verb::Increment,
            0x06 | 0x16 => Verb::Decrement,
            0x07 | 0x17 => Verb::Quit,
            0x08 | 0x18 => Verb::Flush,
            0x0a => Verb::Noop,
            0x0b => Verb::Version,
            0x0c | 0x0d => Verb::GetKey,
            0x0e | 0x19 => Verb::Append,
            0x0f | 0x1a => Verb::Prepend,
            0x10 => Verb::Stat,
            0x1c => Verb::Touch,
            0x1d | 0x1e => Verb::GetAndTouch,
            0x20 => Verb::SaslList,
            0x21 => Verb::SaslAuth,
            0x22 => Verb::SaslStep,
            0x23 | 0x24 => Verb::GetKeyAndTouch,
            _ => return None,
        })
    }

    /// Whether what goes without saying is not said: misses of a get, successes of everything else.
    pub fn is_quiet(self) -> bool {
        matches!(self.0, 0x09 | 0x0d | 0x11..=0x1a | 0x1e | 0x24)
    }
}

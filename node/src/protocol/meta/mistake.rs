//! What can be wrong with a meta command.
//!
//! Owns memcached's own words for it.

use super::super::response::Refusal;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// memcached says the same of a flag that is no ASCII.
    DuplicateFlag,
    InvalidFlag,
    /// What `md` and `ma` say of every mistake in their flags.
    InvalidOrDuplicate,
    Key,
    /// A number behind a flag that is none.
    Token,
    ModeLength,
    Initial,
    Delta,
    SetMode,
    ArithmeticMode,
    OpaqueTooLong,
    TooManyGetFlags,
    TooManySetFlags,
    TooManyFlags,
}

impl Mistake {
    pub fn line(self) -> &'static [u8] {
        match self {
            Self::DuplicateFlag => b"CLIENT_ERROR duplicate flag\r\n",
            Self::InvalidFlag => b"CLIENT_ERROR invalid flag\r\n",
            Self::InvalidOrDuplicate => b"CLIENT_ERROR invalid or duplicate flag\r\n",
            Self::Key => b"CLIENT_ERROR error decoding key\r\n",
            Self::Token => b"CLIENT_ERROR bad token in command line format\r\n",
            Self::ModeLength => b"CLIENT_ERROR incorrect length for M token\r\n",
            Self::Initial => b"CLIENT_ERROR invalid numeric initial value\r\n",
            Self::Delta => b"CLIENT_ERROR invalid numeric delta value\r\n",
            Self::SetMode => b"CLIENT_ERROR invalid mode for ms M token\r\n",
            Self::ArithmeticMode => b"CLIENT_ERROR invalid mode for ma M token\r\n",
            Self::OpaqueTooLong => b"CLIENT_ERROR opaque token too long\r\n",
            Self::TooManyGetFlags => b"CLIENT_ERROR options flags are too long\r\n",
            Self::TooManySetFlags | Self::TooManyFlags => {
                b"CLIENT_ERROR options flags too long\r\n"
            }
        }
    }
}

impl From<Mistake> for Refusal {
    fn from(mistake: Mistake) -> Self {
        Self::Meta(mistake)
    }
}

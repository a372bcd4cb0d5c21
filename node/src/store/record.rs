//! How an item lies on the disk.
//!
//! Owns the byte layout and nothing else. A record is the value of one RocksDB entry, whose key is the client's
//! key as it was sent. All numbers are little-endian.
//!
//! ```text
//!   byte 0      1            5                    13                   21
//!        ┌──────┬────────────┬────────────────────┬────────────────────┬─────────────┐
//!        │ 0x01 │ expiry u32 │      flags u64     │       cas u64      │   data ...  │
//!        └──────┴────────────┴────────────────────┴────────────────────┴─────────────┘
//!        layout  Unix seconds,  the client's,        unique and rising   as long as
//!                0: never       opaque               per node            the record
//! ```
//!
//! The first byte names the layout: another layout gets another number, and a record with a number that this
//! version does not know is not served.

use bytes::Bytes;

use super::item::{Expiry, Item};

const LAYOUT: u8 = 1;
const EXPIRY: usize = 1;
const FLAGS: usize = 5;
const CAS: usize = 13;
/// Where the data begins, which is also what a record costs beyond its data.
pub const HEADER_LEN: usize = 21;

/// What can be said about a record without looking at its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub expiry: Expiry,
    pub flags: u64,
    pub cas: u64,
}

/// Writes a record into `out`, replacing what it held.
pub fn encode(header: Header, data: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.reserve(HEADER_LEN + data.len());
    out.push(LAYOUT);
    out.extend_from_slice(&header.expiry.to_raw().to_le_bytes());
    out.extend_from_slice(&header.flags.to_le_bytes());
    out.extend_from_slice(&header.cas.to_le_bytes());
    out.extend_from_slice(data);
}

/// The attributes of a record, or `None` when the bytes are not a record of this layout.
pub fn header(record: &[u8]) -> Option<Header> {
    if *record.first()? != LAYOUT {
        return None;
    }
    Some(Header {
        expiry: Expiry::from_raw(u32::from_le_bytes(field(record, EXPIRY)?)),
        flags: u64::from_le_bytes(field(record, FLAGS)?),
        cas: u64::from_le_bytes(field(record, CAS)?),
    })
}

/// The item in a record; its data is copied. `record` must have the `header` that was read from it.
pub fn item(header: Header, record: &[u8]) -> Item {
    Item {
        flags: header.flags,
        expiry: header.expiry,
        cas: header.cas,
        data: Bytes::copy_from_slice(&record[HEADER_LEN..]),
    }
}

fn field<const N: usize>(record: &[u8], at: usize) -> Option<[u8; N]> {
    record.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        expiry: Expiry::from_raw(0x0403_0201),
        flags: 0x1817_1615_1413_1211,
        cas: 0x2827_2625_2423_2221,
    };

    #[test]
    fn the_layout_is_exactly_these_bytes() {
        let mut record = b"left over".to_vec();
        encode(HEADER, b"data", &mut record);
        let golden = [
            &[0x01][..],
            &[0x01, 0x02, 0x03, 0x04],
            &[0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18],
            &[0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28],
            b"data",
        ]
        .concat();
        assert_eq!(record, golden);
    }

    #[test]
    fn what_is_written_is_read_again() {
        for data in [&b""[..], b"x", &[0xff; 1000]] {
            let mut record = Vec::new();
            encode(HEADER, data, &mut record);
            let read = header(&record).expect("a record");
            assert_eq!(read, HEADER);
            assert_eq!(item(read, &record).data, data);
        }
    }

    #[test]
    fn bytes_that_are_no_record_of_this_layout_are_refused() {
        let mut record = Vec::new();
        encode(HEADER, b"", &mut record);
        for cut in 0..HEADER_LEN {
            assert_eq!(header(&record[..cut]), None, "{cut} bytes");
        }
        record[0] = 2;
        assert_eq!(header(&record), None);
    }
}

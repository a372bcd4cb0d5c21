//! How an item lies on the disk.
//!
//! Owns the byte layout and nothing else. A record is the value of one RocksDB entry, whose key is the client's
//! key as it was sent. All numbers are little-endian.
//!
//! ```text
//!   byte 0      1       2            6             10                   18                   26
//!        ┌──────┬───────┬────────────┬─────────────┬────────────────────┬────────────────────┬─────────────┐
//!        │ 0x02 │ marks │ expiry u32 │ written u32 │      flags u64     │       cas u64      │   data ...  │
//!        └──────┴───────┴────────────┴─────────────┴────────────────────┴────────────────────┴─────────────┘
//!        layout         Unix seconds, Unix seconds  the client's,        unique and rising   as long as
//!                       0: never                    opaque               per node            the record
//! ```
//!
//! The first byte names the layout: another layout gets another number, and a record with a number that this
//! version does not know is not served.

use crate::clock::UnixSeconds;

use super::item::{Attributes, Expiry, Item, Marks};

const LAYOUT: u8 = 2;
/// The item's lasting marks, each a bit.
const MARKS: usize = 1;
const EXPIRY: usize = 2;
const WRITTEN: usize = 6;
const FLAGS: usize = 10;
const CAS: usize = 18;
/// Where the data begins, which is also what a record costs beyond its data.
pub const HEADER_LEN: usize = 26;

/// What can be said about a record without looking at its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub attributes: Attributes,
    pub marks: Marks,
    /// When the record was last put in line for the disk: the older, the sooner it leaves when space is short.
    pub written: UnixSeconds,
}

/// Writes the record of `item` into `out`, replacing what it held.
pub fn encode(item: &Item, out: &mut Vec<u8>) {
    let attributes = item.attributes();
    out.clear();
    out.reserve(HEADER_LEN + item.data().len());
    out.extend_from_slice(&[LAYOUT, item.marks().to_raw()]);
    out.extend_from_slice(&attributes.expiry.to_raw().to_le_bytes());
    out.extend_from_slice(&item.written().0.to_le_bytes());
    out.extend_from_slice(&attributes.flags.to_le_bytes());
    out.extend_from_slice(&attributes.cas.to_le_bytes());
    out.extend_from_slice(item.data());
}

/// The attributes of a record, or `None` when the bytes are not a record of this layout.
pub fn header(record: &[u8]) -> Option<Header> {
    if *record.first()? != LAYOUT {
        return None;
    }
    Some(Header {
        attributes: Attributes {
            expiry: Expiry::from_raw(u32::from_le_bytes(field(record, EXPIRY)?)),
            flags: u64::from_le_bytes(field(record, FLAGS)?),
            cas: u64::from_le_bytes(field(record, CAS)?),
        },
        marks: Marks::from_raw(*record.get(MARKS)?),
        written: UnixSeconds(u32::from_le_bytes(field(record, WRITTEN)?)),
    })
}

/// The item in a record, as it is when it comes from the disk `now`. `record` must have the `header` that was read
/// from it.
pub fn item(key: &[u8], header: Header, record: &[u8], now: UnixSeconds) -> Item {
    let item = Item::new(key, header.attributes, &record[HEADER_LEN..], now);
    item.set_written(header.written);
    item.set_marks(header.marks);
    item
}

fn field<const N: usize>(record: &[u8], at: usize) -> Option<[u8; N]> {
    record.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTRIBUTES: Attributes = Attributes {
        expiry: Expiry::from_raw(0x0403_0201),
        flags: 0x1817_1615_1413_1211,
        cas: 0x2827_2625_2423_2221,
    };
    const NOW: UnixSeconds = UnixSeconds(0x3433_3231);

    fn encoded(data: &[u8]) -> Vec<u8> {
        let mut record = b"left over".to_vec();
        encode(&Item::new(b"key", ATTRIBUTES, data, NOW), &mut record);
        record
    }

    #[test]
    fn the_layout_is_exactly_these_bytes() {
        let golden = [
            &[0x02, 0x00][..],
            &[0x01, 0x02, 0x03, 0x04],
            &[0x31, 0x32, 0x33, 0x34],
            &[0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18],
            &[0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28],
            b"data",
        ]
        .concat();
        assert_eq!(encoded(b"data"), golden);
    }

    #[test]
    fn what_is_written_is_read_again() {
        for data in [&b""[..], b"x", &[0xff; 1000]] {
            let record = encoded(data);
            let read = header(&record).expect("a record");
            assert_eq!((read.attributes, read.written), (ATTRIBUTES, NOW));
            let item = item(b"key", read, &record, NOW.plus(1));
            assert_eq!((item.data(), item.written()), (data, NOW));
            assert_eq!(item.accessed(), NOW.plus(1));
        }
    }

    #[test]
    fn lasting_marks_are_kept_and_others_are_not() {
        let item = Item::new(b"key", ATTRIBUTES, b"", NOW);
        item.set_marks(Marks::STALE.with(Marks::FETCHED).with(Marks::DIRTY));
        let mut record = Vec::new();
        encode(&item, &mut record);
        assert_eq!(record[MARKS], 1);
        let read = header(&record).expect("a record");
        assert_eq!(read.marks, Marks::STALE);
        assert_eq!(
            super::item(b"key", read, &record, NOW).marks(),
            Marks::STALE
        );
    }

    #[test]
    fn bytes_that_are_no_record_of_this_layout_are_refused() {
        let mut record = encoded(b"");
        for cut in 0..HEADER_LEN {
            assert_eq!(header(&record[..cut]), None, "{cut} bytes");
        }
        record[0] = 1;
        assert_eq!(header(&record), None);
    }
}

//! Commands whose items must come from the disk first, so that later ones overtake them.
//!
//! Owns a node with many more items than it has memory for. `$1` to `$9` in an input stand for keys of two bytes that have not
//! been asked for lately. What is answered when depends on the disk; in which order, and what, does not.

use std::cell::RefCell;

use petra_node::store::item::Expiry;

use crate::conversation::{NOW, Node, pieces, read_along};
use crate::parser::MAX_LINE_LEN;

/// Bytes that may stand in a key, and that no command is made of.
const LETTERS: std::ops::Range<u8> = 0x80..0xff;
const KEYS: usize = (LETTERS.end - LETTERS.start) as usize * (LETTERS.end - LETTERS.start) as usize;
/// So many of them fill the memory tier many times.
const DATA: [u8; 800] = [b'7'; 800];
/// No two keys that follow each other are in the same block of a file.
const STRIDE: usize = 6007;
const MEMORY: &str = "64m";

/// Every command is answered, and in order, also when items come from the disk.
pub fn disk(input: &[u8]) {
    thread_local! {
        static NODE: RefCell<Option<(Node, usize)>> = const { RefCell::new(None) };
    }
    NODE.with_borrow_mut(|node| {
        let (node, asked) = node.get_or_insert_with(|| (full(), 0));
        let input = with_keys(input, *asked);
        *asked += 9;
        let mut lines = input.split(|byte| *byte == b'\n');
        // A line that closes the connection when it comes without its end comes with it.
        let pieces = match lines.any(|line| line.len() > MAX_LINE_LEN) {
            true => vec![&input[..]],
            false => pieces(&input),
        };
        let answers = node.loopback.converse(&pieces).expect("a socket");
        read_along(&input, &answers);
    });
}

/// A node that has all keys on the disk, and has just started.
fn full() -> Node {
    let node = Node::start(MEMORY);
    let store = node.loopback.store();
    for number in 0..KEYS {
        store
            .set(&key(number), 0, Expiry::NEVER, &DATA, NOW)
            .expect("stored");
    }
    store.close().expect("written");
    node.restart()
}

fn key(number: usize) -> [u8; 2] {
    let number = number * STRIDE % KEYS;
    let letter = |digit: usize| LETTERS.start + (digit % LETTERS.len()) as u8;
    [letter(number / LETTERS.len()), letter(number)]
}

/// Puts keys where `input` names them; nothing becomes longer.
fn with_keys(input: &[u8], first: usize) -> Vec<u8> {
    let mut out = input.to_vec();
    for at in 1..out.len() {
        if out[at - 1] == b'$' && out[at].is_ascii_digit() {
            let name = key(first + usize::from(out[at] - b'0'));
            out[at - 1..=at].copy_from_slice(&name);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_are_not_in_memory() {
        let node = full();
        let reads = || node.loopback.store().figures().disk_reads;
        let before = reads();
        let input = with_keys(b"get $1\r\nmg $2 v\r\nget $3 a $4\r\nincr $5 1\r\n", 0);
        let answers = node.loopback.converse(&[&input]).expect("a socket");
        read_along(&input, &answers);
        assert_eq!(
            answers.windows(4).filter(|bytes| bytes == b"7777").count() / 797,
            4
        );
        assert!(reads() > before + 2, "{} of 5", reads() - before);
    }
}

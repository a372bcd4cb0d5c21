//! Random numbers that are the same each time.

/// SplitMix64 (Steele, Lea and Flood, 2014): small, and good enough to choose commands.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xd1b5_4a32_d192_ed03))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True once in so many times.
    pub(super) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub(super) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Any bytes, or only those of words.
    pub(super) fn bytes(&mut self, len: u64) -> Vec<u8> {
        let plain = self.one_in(2);
        (0..len)
            .map(|_| {
                if plain {
                    self.of(b"abcxyz0189 ")
                } else {
                    self.next() as u8
                }
            })
            .collect()
    }

    /// A value: numbers, nothing, a few bytes, and now and then many.
    pub(super) fn value(&mut self) -> Vec<u8> {
        match self.below(12) {
            0 => Vec::new(),
            1..=3 => self.below(120).to_string().into_bytes(),
            4 => self
                .of(&[
                    "4611686018427387904",
                    "18446744073709551616",
                    "-1",
                    "7 ",
                    " 7",
                ])
                .into(),
            5 => self.bytes(5000),
            _ => {
                let len = self.below(30);
                self.bytes(len)
            }
        }
    }

    /// Puts `items` into another order and keeps some of them.
    pub(super) fn some_of<T: Copy>(&mut self, items: &[T], most: u64) -> Vec<T> {
        let mut rest = items.to_vec();
        let count = self.below(most + 1).min(rest.len() as u64);
        (0..count)
            .map(|_| rest.swap_remove(self.below(rest.len() as u64) as usize))
            .collect()
    }
}

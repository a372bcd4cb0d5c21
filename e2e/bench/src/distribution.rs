//! Which key is asked for next.
//!
//! Owns the popularity of ids; knows nothing of what is done with them.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, bail};

/// How popular the keys are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// All the same: `uniform`.
    Uniform,
    /// The key of rank r is asked for in proportion to `r^-theta`: `zipf:0.99`.
    Zipf(f64),
    /// Zipf, and `share` of all requests walk through ever new keys, each once: `scan:0.99:0.2`.
    Scan { theta: f64, share: f64 },
}

impl FromStr for Popularity {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let number = |text: &str| {
            text.parse::<f64>()
                .with_context(|| format!("number {text:?}"))
        };
        match parts[..] {
            ["uniform"] => Ok(Self::Uniform),
            ["zipf", theta] => Ok(Self::Zipf(number(theta)?)),
            ["scan", theta, share] => Ok(Self::Scan {
                theta: number(theta)?,
                share: number(share)?,
            }),
            _ => bail!("{text:?} is none of uniform, zipf:THETA, scan:THETA:SHARE"),
        }
    }
}

impl fmt::Display for Popularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => write!(f, "uniform"),
            Self::Zipf(theta) => write!(f, "zipf:{theta}"),
            Self::Scan { theta, share } => write!(f, "scan:{theta}:{share}"),
        }
    }
}

/// The scan of one seed never gets as far as that of the next.
const SCAN_IDS: u64 = 1 << 36;

/// Draws ids below `population`; a scan draws those from there on.
pub struct Draw {
    population: u64,
    zipf: Option<Zipf>,
    scan: Option<Scan>,
    random: fastrand::Rng,
}

struct Scan {
    share: f64,
    next: u64,
    step: u64,
}

impl Draw {
    /// `(worker, workers)` keeps the scans of several workers apart and their random numbers different; another
    /// `seed` is another load with the same popularity.
    #[must_use]
    pub fn new(
        popularity: Popularity,
        population: u64,
        seed: u64,
        (worker, workers): (u64, u64),
    ) -> Self {
        let population = population.max(1);
        let (zipf, scan) = match popularity {
            Popularity::Uniform => (None, None),
            Popularity::Zipf(theta) => (Some(Zipf::new(population, theta)), None),
            Popularity::Scan { theta, share } => (
                Some(Zipf::new(population, theta)),
                Some(Scan {
                    share,
                    next: population + seed * SCAN_IDS + worker,
                    step: workers.max(1),
                }),
            ),
        };
        Self {
            population,
            zipf,
            scan,
            random: fastrand::Rng::with_seed((seed << 16) + worker),
        }
    }

    /// The next id.
    #[inline]
    pub fn id(&mut self) -> u64 {
        if let Some(scan) = &mut self.scan
            && self.random.f64() < scan.share
        {
            let id = scan.next;
            scan.next += scan.step;
            return id;
        }
        match &self.zipf {
            Some(zipf) => zipf.rank(&mut self.random) - 1,
            None => self.random.u64(0..self.population),
        }
    }
}

/// Zipf-distributed ranks in constant time and memory: rejection-inversion (Hörmann and Derflinger, 1996).
struct Zipf {
    theta: f64,
    ranks: f64,
    h_first: f64,
    h_last: f64,
    /// Draws that are this close above a rank need no second look.
    sure: f64,
}

impl Zipf {
    fn new(ranks: u64, theta: f64) -> Self {
        let ranks = ranks as f64;
        Self {
            theta,
            ranks,
            h_first: integral(1.5, theta) - 1.0,
            h_last: integral(ranks + 0.5, theta),
            sure: 2.0 - integral_inverse(integral(2.5, theta) - 2f64.powf(-theta), theta),
        }
    }

    /// From 1, the most popular, to the number of ranks.
    fn rank(&self, random: &mut fastrand::Rng) -> u64 {
        loop {
            let area = self.h_last + random.f64() * (self.h_first - self.h_last);
            let point = integral_inverse(area, self.theta);
            let rank = point.round().clamp(1.0, self.ranks);
            if rank - point <= self.sure
                || area >= integral(rank + 0.5, self.theta) - rank.powf(-self.theta)
            {
                return rank as u64;
            }
        }
    }
}

/// The integral of x^-theta: (x^(1-theta) - 1) / (1 - theta), which is ln x at theta 1.
fn integral(x: f64, theta: f64) -> f64 {
    let exponent = (1.0 - theta) * x.ln();
    if exponent.abs() < 1e-8 {
        return x.ln() * (1.0 + exponent / 2.0);
    }
    exponent.exp_m1() / (1.0 - theta)
}

fn integral_inverse(y: f64, theta: f64) -> f64 {
    let scaled = y * (1.0 - theta);
    if scaled.abs() < 1e-8 {
        return (y * (1.0 - scaled / 2.0)).exp();
    }
    (scaled.ln_1p() / (1.0 - theta)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of each of the first ranks, against the definition.
    #[test]
    fn zipf_draws_each_rank_as_often_as_its_definition_says() {
        const DRAWS: u32 = 400_000;
        for theta in [0.8, 0.99, 1.0, 1.2] {
            let ranks = 1000;
            let mut draw = Draw::new(Popularity::Zipf(theta), ranks, 0, (0, 1));
            let mut counts = vec![0u32; 1000];
            for _ in 0..DRAWS {
                counts[usize::try_from(draw.id()).unwrap()] += 1;
            }
            let sum: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-theta)).sum();
            for rank in [1, 2, 3, 10, 100] {
                let expected = f64::from(rank).powf(-theta) / sum * f64::from(DRAWS);
                let counted = f64::from(counts[rank as usize - 1]);
                assert!(
                    (counted - expected).abs() < 5.0 * expected.sqrt(),
                    "theta {theta}, rank {rank}: {counted}, not {expected}"
                );
            }
        }
    }

    #[test]
    fn a_scan_asks_for_each_new_key_once() {
        let popularity = "scan:0.99:0.5".parse().unwrap();
        let mut seen = std::collections::HashSet::new();
        for worker in 0..2 {
            let mut draw = Draw::new(popularity, 10, 0, (worker, 2));
            for _ in 0..1000 {
                let id = draw.id();
                assert!(id < 10 || seen.insert(id));
            }
        }
        assert!(seen.len() > 800);
    }

    #[test]
    fn popularities_are_written_as_they_are_read() {
        for text in ["uniform", "zipf:0.99", "scan:0.99:0.2"] {
            assert_eq!(text.parse::<Popularity>().unwrap().to_string(), text);
        }
        assert!("normal".parse::<Popularity>().is_err());
    }
}

//! Consistent hashing: which endpoint owns a key, and who comes next.
//!
//! The ring depends on ids and weights alone, never on the order of the endpoints, so gateways that never talk build the
//! same one. Load is not its business: the caller walks on from an owner that is full.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

/// Points on the ring per unit of weight. The share of the ring an endpoint gets has a relative deviation of about
/// 1 / sqrt(points), 3 % here, which keeps the share that moves with an endpoint within a point of 1/N.
const POINTS: f64 = 1_000.0;

/// Most points in one ring: 48 MB. A thousand endpoints of weight 1 need a quarter of it.
const MAX_POINTS: f64 = 4_194_304.0;

/// The points of a pool's endpoints, sorted. Members are numbered as in the list given to `new`.
#[derive(Debug, Default)]
pub struct Ring {
    hashes: Box<[u64]>,
    members: Box<[u32]>,
    size: usize,
}

/// Which members a walk has passed: one bit each, reused from walk to walk.
#[derive(Debug, Default)]
pub struct Seen {
    bits: Vec<u64>,
}

impl Ring {
    /// The ring of the given ids and weights. Ids must differ; weights must be finite and above zero.
    pub fn new(endpoints: &[(Arc<str>, f64)]) -> Self {
        let per_unit = points_per_unit(endpoints.iter().map(|(_, weight)| weight).sum());
        let mut points: Vec<(u64, u32)> = Vec::new();
        let mut encoded = Vec::new();
        for (member, (id, weight)) in endpoints.iter().enumerate() {
            // At least one point: however light, an endpoint is on every walk.
            let count = (weight * per_unit).round().max(1.0) as u32;
            for replica in 0..count {
                // A suffix of fixed width: no id and replica can run together into another pair.
                encoded.clear();
                encoded.extend_from_slice(id.as_bytes());
                encoded.extend_from_slice(&replica.to_le_bytes());
                points.push((xxh3_64(&encoded), member as u32));
            }
        }
        // Equal hashes are ordered by id, since the order of members may differ between gateways.
        points.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0).then_with(|| endpoints[a.1 as usize].0.cmp(&endpoints[b.1 as usize].0))
        });
        let (hashes, members): (Vec<u64>, Vec<u32>) = points.into_iter().unzip();
        Self { hashes: hashes.into(), members: members.into(), size: endpoints.len() }
    }

    /// The member that owns `key`; `None` for an empty ring.
    pub fn owner(&self, key: u64) -> Option<usize> {
        self.steps(key).next()
    }

    /// The members met going once round from `key`, each as often as it has points. Enough to find the first that
    /// satisfies a condition, without remembering who was met.
    pub fn steps(&self, key: u64) -> impl Iterator<Item = usize> + '_ {
        let start = self.hashes.partition_point(|hash| *hash < key);
        let (before, after) = self.members.split_at(start);
        after.iter().chain(before).map(|member| *member as usize)
    }

    /// The distinct members in the order of the walk from `key`: the owner first.
    pub fn walk<'a>(&'a self, key: u64, seen: &'a mut Seen) -> impl Iterator<Item = usize> + 'a {
        seen.reset(self.size);
        self.steps(key).filter(move |member| seen.insert(*member)).take(self.size)
    }
}

/// Points per unit of weight, halved until the ring fits. A power of two, so that the number changes, and keys move, only
/// when the total weight doubles; below 4,194 units of weight it never does.
fn points_per_unit(total_weight: f64) -> f64 {
    let mut per_unit = POINTS;
    while total_weight * per_unit > MAX_POINTS {
        per_unit /= 2.0;
    }
    per_unit
}

impl Seen {
    fn reset(&mut self, members: usize) {
        self.bits.clear();
        self.bits.resize(members.div_ceil(64), 0);
    }

    /// Whether the member had not been seen.
    fn insert(&mut self, member: usize) -> bool {
        let (word, bit) = (member / 64, 1 << (member % 64));
        let fresh = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(ids: &[&str]) -> Ring {
        Ring::new(&ids.iter().map(|id| (Arc::from(*id), 1.0)).collect::<Vec<_>>())
    }

    #[test]
    fn the_order_of_endpoints_does_not_change_the_owner() {
        let (ids, turned) = (["a", "b", "c"], ["c", "a", "b"]);
        let (one, two) = (ring(&ids), ring(&turned));
        for key in (0..1_000_u64).map(|i| xxh3_64(&i.to_le_bytes())) {
            assert_eq!(ids[one.owner(key).unwrap()], turned[two.owner(key).unwrap()], "key {key:x}");
        }
    }

    #[test]
    fn a_walk_meets_each_endpoint_once() {
        let ring = ring(&["a", "b", "c", "d", "e"]);
        let mut met: Vec<usize> = ring.walk(7, &mut Seen::default()).collect();
        assert_eq!(Some(met[0]), ring.owner(7), "the walk starts at the owner");
        met.sort_unstable();
        assert_eq!(met, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn an_empty_ring_has_no_owner() {
        assert_eq!(Ring::new(&[]).owner(3), None);
        assert_eq!(Ring::default().walk(3, &mut Seen::default()).count(), 0);
    }

    #[test]
    fn weight_is_share() {
        let ring = Ring::new(&[(Arc::from("light"), 1.0), (Arc::from("heavy"), 3.0)]);
        let keys = 20_000_u64;
        let heavy = (0..keys).filter(|i| ring.owner(xxh3_64(&i.to_le_bytes())) == Some(1)).count() as f64 / keys as f64;
        assert!((heavy - 0.75).abs() < 0.03, "weight 3 of 4 must own three quarters of the keys, owns {heavy}");
    }

    #[test]
    fn huge_weights_do_not_exhaust_memory() {
        let ring = Ring::new(&[(Arc::from("a"), 1_000.0), (Arc::from("b"), 900_000.0)]);
        assert!(ring.hashes.len() as f64 <= MAX_POINTS + 2.0, "{} points", ring.hashes.len());
        assert!((points_per_unit(1_000.0) - POINTS).abs() < 1e-9, "a thousand endpoints keep all their points");
    }
}

//! Which jobs wait for which. A job that needs a step waits for a set of jobs, and all jobs that need it wait for the same set: so a step
//! of ten thousand jobs that needs another such step takes no more room than its jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

/// How far the jobs are that others wait for.
#[derive(Clone, Debug)]
pub(crate) struct Waits {
    /// How many sets each node still waits for.
    open: Vec<usize>,
    sets: Vec<Set>,
    /// The sets that each node is in.
    sets_of: Vec<Vec<usize>>,
}

/// Nodes that others wait for.
#[derive(Clone, Debug)]
struct Set {
    /// How many of them are not done.
    left: usize,
    /// The first of them, and whether it is the only one.
    first: (usize, bool),
    /// Who waits for them.
    waiting: Vec<usize>,
}

impl Waits {
    /// Takes the sets that each node needs. Sets that are the same in memory are one.
    pub(crate) fn new<'s, N>(needs: impl ExactSizeIterator<Item = N>) -> Self
    where
        N: Iterator<Item = &'s Arc<[usize]>>,
    {
        let mut waits = Self { open: vec![0; needs.len()], sets: Vec::new(), sets_of: vec![Vec::new(); needs.len()] };
        let mut known: BTreeMap<*const usize, usize> = BTreeMap::new();
        for (node, needed) in needs.enumerate() {
            for set in needed.filter(|set| !set.is_empty()) {
                let at = *known.entry(set.as_ptr()).or_insert_with(|| {
                    waits.sets.push(Set { left: set.len(), first: (set[0], set.len() == 1), waiting: Vec::new() });
                    set.iter().for_each(|member| waits.sets_of[*member].push(waits.sets.len() - 1));
                    waits.sets.len() - 1
                });
                waits.sets[at].waiting.push(node);
                waits.open[node] += 1;
            }
        }
        waits
    }

    /// Returns whether a node waits for nothing.
    pub(crate) fn is_free(&self, node: usize) -> bool {
        self.open[node] == 0
    }

    /// Returns what nodes wait for: the first node of a set, whether it is the only one, and how many wait. A node is counted once.
    pub(crate) fn waited_for(&self) -> Vec<(usize, bool, usize)> {
        let mut counted = vec![false; self.open.len()];
        let mut waited = Vec::new();
        for set in self.sets.iter().filter(|set| set.left > 0) {
            let count = set.waiting.iter().filter(|node| !std::mem::replace(&mut counted[**node], true)).count();
            let (first, is_alone) = set.first;
            waited.extend((count > 0).then_some((first, is_alone, count)));
        }
        waited
    }

    /// A node is done. Returns the nodes that wait for nothing any more.
    pub(crate) fn done(&mut self, node: usize) -> Vec<usize> {
        let mut free = Vec::new();
        for set in std::mem::take(&mut self.sets_of[node]) {
            let set = &mut self.sets[set];
            set.left -= 1;
            if set.left > 0 {
                continue;
            }
            for next in std::mem::take(&mut set.waiting) {
                self.open[next] -= 1;
                if self.open[next] == 0 {
                    free.push(next);
                }
            }
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_free_when_all_that_it_needs_is_done() {
        let both: Arc<[usize]> = Arc::from([0, 1]);
        let first: Arc<[usize]> = Arc::from([0]);
        let needs: [&[&Arc<[usize]>]; 5] = [&[], &[], &[&both], &[&both, &first], &[&first]];
        let mut waits = Waits::new(needs.iter().map(|sets| sets.iter().copied()));
        assert_eq!((0..5).filter(|node| waits.is_free(*node)).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(waits.sets.len(), 2, "a set that is shared is there once");
        assert_eq!(waits.waited_for(), [(0, false, 2), (0, true, 1)]);
        assert_eq!(waits.done(0), [4]);
        assert_eq!(waits.done(1), [2, 3]);
    }
}

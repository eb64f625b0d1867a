//! Entries that stay where they are.
//!
//! Growing adds a chunk and moves nothing, so that a store of a million keys never pauses to copy them, and is
//! never half empty after doubling.

/// Entries per chunk.
const CHUNK: usize = 256;

/// A growing array with stable positions that reuses those given back.
#[derive(Debug)]
pub(super) struct Slab<T> {
    chunks: Vec<Box<[T]>>,
    free: Vec<u32>,
    used: u32,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: Vec::new(), used: 0 }
    }
}

impl<T: Default> Slab<T> {
    /// Puts an entry somewhere and says where. The store's ceiling keeps positions within 32 bits.
    pub(super) fn insert(&mut self, entry: T) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            let id = self.used;
            self.used += 1;
            if id as usize / CHUNK == self.chunks.len() {
                self.chunks.push(std::iter::repeat_with(T::default).take(CHUNK).collect());
            }
            id
        });
        *self.get_mut(id) = entry;
        id
    }

    /// Takes an entry out; its position may be used again.
    pub(super) fn remove(&mut self, id: u32) -> T {
        self.free.push(id);
        std::mem::take(self.get_mut(id))
    }

    pub(super) fn get(&self, id: u32) -> &T {
        &self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }

    pub(super) fn get_mut(&mut self, id: u32) -> &mut T {
        &mut self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }

    /// One more than the highest position ever used.
    pub(super) fn span(&self) -> u32 {
        self.used
    }
}

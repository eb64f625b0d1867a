//! What only the memory store can be asked.

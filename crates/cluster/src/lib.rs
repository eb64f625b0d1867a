//! Nodes that know each other without the store: who is there, who counts what, and how they ask each other.

//! How a node is doing.

/// The operating mode of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Everything works.
    #[default]
    Normal,
    /// Something it relies on does not; it goes on as well as it can.
    Degraded,
    /// It is on its own.
    Emergency,
}

impl Mode {
    /// The name used in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Degraded => "degraded",
            Self::Emergency => "emergency",
        }
    }
}

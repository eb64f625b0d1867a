//! A reverse proxy with the limiter inside.

pub mod forwarded;
pub mod identity;

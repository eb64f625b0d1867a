//! A reverse proxy with the limiter inside.

pub mod identity;

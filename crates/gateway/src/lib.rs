//! A reverse proxy with the limiter inside.

pub mod routes;
pub mod upstream;

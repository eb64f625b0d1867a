//! A reverse proxy with the limiter inside.

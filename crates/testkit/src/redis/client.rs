//! The handle's own connection to its server.

use std::path::PathBuf;
use std::time::Duration;

use redis::{
    Connection, ConnectionAddr, FromRedisValue, IntoConnectionInfo, RedisConnectionInfo, RedisResult,
};

/// Long enough for a busy machine, short enough for a test that asks a paused server by mistake.
const TIMEOUT: Duration = crate::wait::HANG_LIMIT;

#[derive(Debug, Clone)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

#[derive(Debug)]
pub(crate) struct Client {
    socket: PathBuf,
    login: Option<Login>,
}

impl Client {
    pub(super) fn new(socket: PathBuf, login: Option<Login>) -> Self {
        Self { socket, login }
    }

    pub(super) fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    /// Each call has a connection of its own, so that nothing has to be mended after a restart.
    pub(super) fn connect(&self, timeout: Duration) -> RedisResult<Connection> {
        // Servers before 7.2 would count the library's name as an error.
        let mut settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(Login { user, password }) = &self.login {
            settings = settings.set_username(user).set_password(password);
        }
        let address = ConnectionAddr::Unix(self.socket.clone()).into_connection_info()?;
        let client = redis::Client::open(address.set_redis_settings(settings))?;
        let connection = client.get_connection_with_timeout(timeout)?;
        connection.set_read_timeout(Some(timeout))?;
        connection.set_write_timeout(Some(timeout))?;
        Ok(connection)
    }

    pub(super) fn query<T: FromRedisValue>(&self, command: &[&str]) -> RedisResult<T> {
        self.query_within(TIMEOUT, command)
    }

    pub(super) fn query_within<T: FromRedisValue>(
        &self,
        timeout: Duration,
        command: &[&str],
    ) -> RedisResult<T> {
        let (name, args) = command.split_first().expect("a command has a name");
        redis::cmd(name).arg(args).query(&mut self.connect(timeout)?)
    }
}

//! The runtime that commands wait on: one thread, until one future ends.

use std::pin::{Pin, pin};

use crate::failure::Failure;

/// Runs a future to its end on this thread.
///
/// Tasks that it leaves behind are given up, such as a look-up of a name or a file that another process holds.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    let mut output = None;
    drive(pin!(async { output = Some(future.await) }))?;
    output.ok_or_else(|| Failure::Failed("the command ended without a result".to_owned()))
}

/// Apart and without generics, so that the runtime is compiled once and not for each command.
fn drive(future: Pin<&mut dyn Future<Output = ()>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Failed(format!("cannot start: {error}")))?;
    runtime.block_on(future);
    runtime.shutdown_background();
    Ok(())
}

//! How much is logged.

use tidegate_wire::ErrorBody;

use super::{Listener, Operation};
use crate::admin::LogLevelBody;
use crate::openapi::Schemas;

pub(super) fn all(schemas: &mut Schemas) -> [Operation; 2] {
    let (error, level) = (schemas.response::<ErrorBody>(), schemas.response::<LogLevelBody>());
    let new = |method, summary| Operation::new(Listener::Admin, method, "/v1/log-level", summary);
    let unknown = "The program that this server is part of keeps its log to itself";
    [
        new("GET", "How much is logged").answers(200, "The level", &level).answers(404, unknown, &error),
        new("PUT", "Logs more or less, from now on until the process ends")
            .reads(&schemas.request::<LogLevelBody>())
            .answers(200, "The level from now on", &level)
            .answers(400, "There is no such level", &error)
            .answers(403, "The caller may not change anything", &error)
            .answers(404, unknown, &error),
    ]
}

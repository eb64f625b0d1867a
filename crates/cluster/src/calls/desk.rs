//! Answering one request: read, opened, answered call by call, sealed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tidegate_store::peers::{Answers, NodeId};
use tidegate_store::{Deadline, Failure};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{timeout, timeout_at};
use tracing::{Instrument as _, Span};

use super::connection::Activity;
use super::figures::CallFigures;
use super::grpc::{self, Answer, MAX_BODY, OVERHEAD, PATH, Status};
use super::message::{Answered, Arrived, read_batch, write_answers};
use super::seals::{Seals, Tie};

/// How much all requests that are being read or answered may have sent, beyond what each may anyway.
const ROOM: usize = 16 * MAX_BODY;

/// How much may be sent whether there is room or not, so that nobody who takes all the room keeps others from asking.
const SMALL: usize = 64 * 1024;

/// How long a body may take.
const BODY_PATIENCE: Duration = Duration::from_secs(2);

/// How much of a caller's patience is for the way back, at most; of little patience a quarter. One call that takes all its
/// time must not make the others come too late that were asked with it.
const WAY_BACK: Duration = Duration::from_millis(5);

/// What it takes to answer a request.
pub(super) struct Desk {
    pub(super) me: NodeId,
    seals: Seals,
    answers: Arc<dyn Answers>,
    pub(super) figures: Arc<CallFigures>,
    room: Arc<Semaphore>,
}

/// An answer that is only a status.
type Refusal = Response<Answer>;

impl Desk {
    pub(super) fn new(me: NodeId, seals: Seals, answers: Arc<dyn Answers>) -> Self {
        Self { me, seals, answers, figures: Arc::default(), room: Arc::new(Semaphore::new(ROOM)) }
    }

    /// Answers a request, if with no more than a status.
    pub(super) async fn answer(&self, request: Request<Incoming>, activity: &Activity) -> Response<Answer> {
        self.try_answer(request, activity).await.unwrap_or_else(|refusal| refusal)
    }

    async fn try_answer(
        &self,
        request: Request<Incoming>,
        activity: &Activity,
    ) -> Result<Response<Answer>, Refusal> {
        let arrived = Instant::now();
        let is_grpc = |kind: &HeaderValue| kind.as_bytes().starts_with(b"application/grpc");
        if request.uri().path() != PATH
            || request.method() != Method::POST
            || !request.headers().get(CONTENT_TYPE).is_some_and(is_grpc)
        {
            return Err(grpc::refuse(Status::Unimplemented, "there is only one method here"));
        }
        let (body, _room) = match timeout(BODY_PATIENCE, self.read(request.into_body())).await {
            Ok(read) => read?,
            Err(_) => return Err(grpc::refuse(Status::DeadlineExceeded, "the body took too long")),
        };
        let sealed = grpc::unframe(body)
            .ok_or_else(|| grpc::refuse(Status::InvalidArgument, "the body is not one message"))?;
        let plain = self.seals.open_call(self.me, &sealed).map_err(|why| {
            self.figures.stranger();
            tracing::debug!(%why, "a call was not opened");
            grpc::refuse(Status::Unauthenticated, "the message does not open")
        })?;
        activity.opened();
        self.figures.opened();
        let answers = self.answer_all(&plain, arrived).await?;
        let sealed = self.seals.seal_reply(Tie::to(&sealed), &write_answers(&answers));
        if sealed.len() > MAX_BODY - OVERHEAD {
            return Err(grpc::refuse(Status::ResourceExhausted, "the answer is too large"));
        }
        Ok(grpc::reply(sealed))
    }

    /// Reads a body, if there is room for it, and keeps the room for as long as it is needed.
    async fn read(&self, mut body: Incoming) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Refusal> {
        let too_large = || grpc::refuse(Status::ResourceExhausted, "the body is too large");
        let (mut whole, mut room) = (BytesMut::new(), None::<OwnedSemaphorePermit>);
        if body.size_hint().lower() > MAX_BODY as u64 {
            return Err(too_large());
        }
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| grpc::refuse(Status::InvalidArgument, "the body broke off"))?;
            let Ok(piece) = frame.into_data() else { continue };
            if whole.len() + piece.len() > MAX_BODY {
                return Err(too_large());
            }
            if whole.len() + piece.len() > SMALL {
                let length = u32::try_from(piece.len()).map_err(|_| too_large())?;
                let more = Arc::clone(&self.room)
                    .try_acquire_many_owned(length)
                    .map_err(|_| grpc::refuse(Status::ResourceExhausted, "too much at once; try again"))?;
                match &mut room {
                    Some(room) => room.merge(more),
                    None => room = Some(more),
                }
            }
            whole.extend_from_slice(&piece);
        }
        Ok((whole.freeze(), room))
    }

    /// Answers all calls of a batch at once, each by its own deadline.
    async fn answer_all(&self, plain: &[u8], arrived: Instant) -> Result<Vec<Answered>, Refusal> {
        let calls = read_batch(plain).map_err(|why| {
            self.figures.read(false);
            tracing::debug!(%why, "a node asks what cannot be read");
            grpc::refuse(Status::InvalidArgument, "the message cannot be read")
        })?;
        let answers = calls.into_iter().map(|read| {
            self.figures.read(read.is_ok());
            let Arrived { call, origin, patience } = read.map_err(|why| {
                tracing::debug!(%why, "a node asks what cannot be read");
                Failure::Other
            })?;
            let deadline = Deadline::after(arrived, patience - (patience / 4).min(WAY_BACK));
            if deadline.at() <= Instant::now() {
                return Err(Failure::Deadline);
            }
            let answers = Arc::clone(&self.answers);
            let span = origin.map_or_else(Span::none, |origin| answers.span(&call, origin));
            // By itself, so that neither a lost connection nor a late answer leaves anything half done, and none that
            // panics takes others along.
            Ok((
                tokio::spawn(async move { answers.answer(&call, deadline).await }.instrument(span)),
                deadline,
            ))
        });
        let answers = answers.map(|begun| async {
            let (task, deadline) = begun?;
            match timeout_at(deadline.at().into(), task).await {
                Ok(Ok(reply)) => Ok(reply),
                Ok(Err(_)) => Err(Failure::Other),
                Err(_) => Err(Failure::Deadline),
            }
        });
        Ok(join_all(answers).await)
    }
}

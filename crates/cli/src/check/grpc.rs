//! `tidegate check --grpc`: asks as Envoy does, by domain and descriptors.

use std::io::{self, Write};
use std::process::ExitCode;

use tidegate_wire::grpc::protobuf::envoy::service::ratelimit::v3::RateLimitRequest;
use tidegate_wire::grpc::protobuf::envoy::service::ratelimit::v3::rate_limit_response::Code;
use tidegate_wire::grpc::rate_limit_json::RateLimitAnswer;

use super::answer;
use super::descriptors::Descriptor;
use super::place::{Place, TlsFiles};
use super::rate::Rate;
use super::repeat::repeat;
use super::service::RateLimitService;
use crate::client::Connect;
use crate::failure::{Failure, Outcome};
use crate::runtime::block_on;

/// The most requests: each one's time is kept until the end.
const MAX_REPEAT: u64 = 1_000_000;

/// What only the rate limit service is asked.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Rate limit service (with --grpc)")]
pub(super) struct GrpcArgs {
    /// The domain that the rules are in
    #[arg(long, value_name = "DOMAIN", required = false, requires = "grpc")]
    domain: String,

    /// One descriptor, as KEY=VALUE,KEY=VALUE,…; may be given several times. A comma or a backslash in a value is written
    /// as \, or \\
    #[arg(long, value_name = "ENTRIES", required = false, requires = "grpc")]
    descriptors: Vec<Descriptor>,

    /// How much it takes of each limit; 0 only looks [default: 1]
    #[arg(long, value_name = "N", requires = "grpc", allow_negative_numbers = true)]
    hits: Option<u32>,

    /// How many requests to send; more than one are summed up at the end, or when told to end by Ctrl-C [default: 1]
    #[arg(
        long,
        value_name = "N",
        requires = "grpc",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u64).range(1..=MAX_REPEAT)
    )]
    repeat: Option<u64>,

    /// How often to send one, such as 50/s, 10/m or 2/h [default: whenever the one before is answered]
    #[arg(long, value_name = "N/s", requires = "grpc", allow_negative_numbers = true)]
    rate: Option<Rate>,
}

impl GrpcArgs {
    fn question(&self) -> RateLimitRequest {
        let hits = self.hits.unwrap_or(1);
        let mut descriptors: Vec<_> = self.descriptors.iter().map(Descriptor::message).collect();
        if hits == 0 {
            // The request's own number cannot say so: there 0 is what is sent by whoever knows nothing of it.
            descriptors.iter_mut().for_each(|descriptor| descriptor.hits_addend = Some(0));
        }
        RateLimitRequest { domain: self.domain.clone(), descriptors, hits_addend: hits }
    }
}

/// Asks the service at `to`, once or often, and says what the answers are.
pub(super) fn run(args: &GrpcArgs, to: &Place, tls: &TlsFiles, how: &Connect, json: bool) -> Outcome {
    block_on(async {
        let service = RateLimitService::connect(to, tls, how).await?;
        match args.repeat.unwrap_or(1) {
            1 => once(args, to, &service, json).await,
            times => often(args, times, &service, json).await,
        }
    })?
}

async fn once(args: &GrpcArgs, to: &Place, service: &RateLimitService, json: bool) -> Outcome {
    let answer = service.ask(args.question()).await.map_err(|problem| problem.explain(to))?;
    let mut out = anstream::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, &RateLimitAnswer::new(&answer)).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        answer::write(&mut out, &args.descriptors, &answer)?;
    }
    Ok(exit_code(answer.overall_code() == Code::Ok))
}

async fn often(args: &GrpcArgs, times: u64, service: &RateLimitService, json: bool) -> Outcome {
    let summary = repeat(service, &args.question(), times, args.rate).await;
    let summary = summary.map_err(|error| Failure::Failed(format!("cannot go on: {error}")))?;
    let mut out = anstream::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, &summary).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        summary.write(&mut out)?;
    }
    Ok(exit_code(summary.is_all_ok()))
}

fn exit_code(is_ok: bool) -> ExitCode {
    if is_ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

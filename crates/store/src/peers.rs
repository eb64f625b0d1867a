//! Other nodes, which count for this one, and for which this one counts, when the store is away.
//!
//! Data crosses this seam as it crosses the store's: [`Call`]s go out, [`Reply`]s come back. What carries them, and how
//! nodes find each other, is behind [`Peers`]; what is answered, behind [`Answers`].

use std::pin::Pin;

use smallvec::SmallVec;
use tidegate_core::rule::OnStoreFailure;
use tidegate_core::{Action, Key, Operation, Quota, RequestId, Span, Tag, Take};

use crate::spans::Origin;
use crate::{Deadline, Failure, Outcomes};

/// One process among others. The same program started again is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

/// Who counts a key when the store is away, as far as is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Who it is; nobody else: this node.
    pub node: Option<NodeId>,
    /// How much of each limit it may hand out. All of it, unless whoever should count is lost and may be counting still:
    /// then as much as those who are left are of the whole.
    pub part: Part,
}

/// So many of so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// So many…
    pub of_us: u32,
    /// …of so many, never 0.
    pub of_all: u32,
}

impl Part {
    /// All there is.
    pub const WHOLE: Self = Self { of_us: 1, of_all: 1 };
}

/// What a node says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether it can use all of the store.
    pub has_store: bool,
    /// The [parts](crate::Store::part_of) of the store that do not know yet of something it has admitted, a bit each.
    pub owes: u64,
}

/// What comes back from another node, once it comes. Nothing came: why not.
pub type Called<'a> = Pin<Box<dyn Future<Output = Result<Reply, Failure>> + Send + 'a>>;

/// The other nodes.
pub trait Peers: Send + Sync {
    /// This node.
    fn me(&self) -> NodeId;

    /// Who counts what has this tag. All nodes that know of the same nodes say the same.
    fn owner(&self, tag: Tag) -> Owner;

    /// Another number whenever other nodes are known, or the same ones in another state, or one of them begins or ceases to have the
    /// store: what was counted there meanwhile, those who counted without it cannot know.
    fn version(&self) -> u64;

    /// How many nodes there are, with this one and with those that are lost but may be back.
    fn count(&self) -> u32;

    /// All others that are not lost, with what they last said of themselves.
    fn others(&self) -> Vec<(NodeId, Standing)>;

    /// Whether any of them says that it can use the store.
    fn any_has_store(&self) -> bool {
        self.others().iter().any(|(_, standing)| standing.has_store)
    }

    /// Asks another node. Answers by the deadline, if need be with a failure. Dropping it cancels nothing.
    fn call(&self, node: NodeId, call: Call, deadline: Deadline) -> Called<'static>;

    /// Tells the others how this node is doing.
    fn announce(&self, standing: Standing);
}

/// What is answered to another node, once it is known.
pub type Replied<'a> = Pin<Box<dyn Future<Output = Reply> + Send + 'a>>;

/// Whoever answers what other nodes ask.
pub trait Answers: Send + Sync {
    /// Answers a call, by the deadline.
    fn answer<'a>(&'a self, call: &'a Call, deadline: Deadline) -> Replied<'a>;

    /// The span to answer a call in that comes from a span elsewhere, if it is traced here, too.
    fn span(&self, _call: &Call, _origin: Origin) -> tracing::Span {
        tracing::Span::none()
    }
}

/// The most that a node tells of itself for people to look at.
pub const MAX_LOOK_BYTES: usize = 512 * 1024;

/// What one node asks another.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Decide this group as well as you can, with the store if you can use it, and ask nobody else to.
    Decide(Vec<Asked>),
    /// Have your store decide this group, or nobody.
    Store(Vec<Asked>),
    /// What do you know of these counters? Answered one by one.
    Recall {
        /// Who asks, and need not be told what it said itself.
        node: NodeId,
        /// Which counters.
        asked: Vec<Asked>,
    },
    /// Which [parts](crate::Store::part_of) of the store do not know yet of something you have admitted?
    Owes,
    /// What are keys hashed with?
    Secret,
    /// How are you, for people to look at?
    Look,
}

impl Call {
    /// What it is called in spans.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Decide(_) => "decide",
            Self::Store(_) => "store",
            Self::Recall { .. } => "recall",
            Self::Owes => "owes",
            Self::Secret => "secret",
            Self::Look => "look",
        }
    }
}

/// What the other answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// To [`Call::Decide`] and [`Call::Store`]: one for each that was asked.
    Outcomes(Outcomes),
    /// To [`Call::Recall`]: one for each that was asked, if anything is known.
    Known(Vec<Option<Seen>>),
    /// To [`Call::Owes`], a bit each.
    Owes(u64),
    /// To [`Call::Secret`], if it is known.
    Secret(Option<[u8; 16]>),
    /// To [`Call::Look`]: what only those understand who ask, up to [`MAX_LOOK_BYTES`]. Nothing if there is nothing to tell.
    Look(Vec<u8>),
}

/// An operation that is asked of another node.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The rule that counts.
    pub rule_id: Box<str>,
    /// Who is counted.
    pub tag: Tag,
    /// How much is allowed.
    pub quota: Quota,
    /// How much is asked for.
    pub cost: u64,
    /// The request's id, if its caller is trusted to give one.
    pub request_id: Option<RequestId>,
    /// Whether it may be refused without holding up the others.
    pub shadow: bool,
    /// What becomes of the request if it cannot be decided.
    pub on_store_failure: OnStoreFailure,
    /// What to do.
    pub action: Action,
    /// What the asking node last heard of the counter.
    pub seen: Option<Seen>,
}

/// A counter as it was when last heard of. Times are told as how long ago, since clocks differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What was gone of its capacity.
    pub used: u64,
    /// How long ago that was.
    pub age: Span,
    /// How long from then until the counter was to be as if never used.
    pub reset_after: Span,
}

impl Asked {
    /// An operation for another node to carry out.
    pub fn new(op: &Operation<'_>, seen: Option<Seen>) -> Self {
        let Take { key, quota, cost, request_id, shadow, on_store_failure } = op.take;
        Self {
            rule_id: key.rule_id.into(),
            tag: key.tag,
            quota,
            cost,
            request_id,
            shadow,
            on_store_failure,
            action: op.action,
            seen,
        }
    }

    /// The operation that is asked for.
    pub fn operation(&self) -> Operation<'_> {
        let key = Key::new(&self.rule_id, self.quota.algorithm(), self.tag);
        let Self { quota, cost, request_id, shadow, on_store_failure, action, .. } = *self;
        Operation { take: Take { key, quota, cost, request_id, shadow, on_store_failure }, action }
    }

    /// All that is asked for, as one group.
    pub fn group(asked: &[Self]) -> SmallVec<[Operation<'_>; 4]> {
        asked.iter().map(Self::operation).collect()
    }
}

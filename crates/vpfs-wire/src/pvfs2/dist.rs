//! Distribution parameters on the wire (docs/protocols/orangefs.md, distribution).

use vpfs_core::stripe::{Distribution, Stripe, StripeError, VarStrip};

use super::codec::{Reader, Wire, Writer};
use super::types::Text;
use crate::DecodeError;

/// How a file is striped over its servers, as sent on the wire; parameters are checked only by [`Dist::stripe`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the comments of the variants explain the fields")]
pub enum Dist {
    /// Strips of this many bytes, 65536 by default, round robin.
    SimpleStripe { strip_size: i64 },
    /// Everything on one server.
    Basic,
    /// Strips of explicit sizes, for example `0:10K;1:1M;2:30000`.
    VarStrip { strips: Text },
    /// So many groups of servers, one after the other, with `factor` strips of so many bytes on each server before the
    /// next group's turn.
    TwoDStripe { groups: u32, strip_size: i64, factor: u32 },
}

/// [`Dist`] borrowed from a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "those of [`Dist`] explain the fields")]
pub enum DistView<'a> {
    /// See [`Dist::SimpleStripe`].
    SimpleStripe { strip_size: i64 },
    /// See [`Dist::Basic`].
    Basic,
    /// See [`Dist::VarStrip`].
    VarStrip { strips: &'a [u8] },
    /// See [`Dist::TwoDStripe`].
    TwoDStripe { groups: u32, strip_size: i64, factor: u32 },
}

impl<'a> DistView<'a> {
    pub(crate) fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let start = *r;
        let dist = match r.str()? {
            b"simple_stripe" => Self::SimpleStripe { strip_size: r.i64()? },
            b"basic_dist" => Self::Basic,
            b"varstrip_dist" => Self::VarStrip { strips: r.str()? },
            b"twod_stripe" => Self::TwoDStripe { groups: r.u32()?, strip_size: r.i64()?, factor: r.u32()? },
            _ => return Err(start.malformed("not a distribution of version 2.10")),
        };
        r.align8()?;
        Ok(dist)
    }

    /// The arithmetic of this distribution over `servers` servers. Allocates for variable strips only.
    pub fn stripe(&self, servers: u32) -> Result<Stripe, StripeError> {
        let size = |bytes: i64| u64::try_from(bytes).map_err(|_| StripeError::Zero);
        let distribution = match *self {
            Self::SimpleStripe { strip_size } => Distribution::SimpleStripe { strip: size(strip_size)? },
            Self::Basic => Distribution::Basic,
            Self::VarStrip { strips } => {
                let strips = str::from_utf8(strips).map_err(|_| StripeError::Syntax)?;
                Distribution::VarStrip(VarStrip::parse(strips)?)
            }
            Self::TwoDStripe { groups, strip_size, factor } => {
                Distribution::TwoDStripe { groups, strip: size(strip_size)?, factor }
            }
        };
        Stripe::new(distribution, servers)
    }
}

impl Dist {
    /// The same, borrowed.
    pub fn view(&self) -> DistView<'_> {
        match self {
            Self::SimpleStripe { strip_size } => DistView::SimpleStripe { strip_size: *strip_size },
            Self::Basic => DistView::Basic,
            Self::VarStrip { strips } => DistView::VarStrip { strips: &strips.0 },
            Self::TwoDStripe { groups, strip_size, factor } => {
                DistView::TwoDStripe { groups: *groups, strip_size: *strip_size, factor: *factor }
            }
        }
    }

    /// The arithmetic of this distribution over `servers` servers.
    pub fn stripe(&self, servers: u32) -> Result<Stripe, StripeError> {
        self.view().stripe(servers)
    }

    /// The name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::SimpleStripe { .. } => "simple_stripe",
            Self::Basic => "basic_dist",
            Self::VarStrip { .. } => "varstrip_dist",
            Self::TwoDStripe { .. } => "twod_stripe",
        }
    }
}

impl From<DistView<'_>> for Dist {
    fn from(view: DistView<'_>) -> Self {
        match view {
            DistView::SimpleStripe { strip_size } => Self::SimpleStripe { strip_size },
            DistView::Basic => Self::Basic,
            DistView::VarStrip { strips } => Self::VarStrip { strips: strips.into() },
            DistView::TwoDStripe { groups, strip_size, factor } => Self::TwoDStripe { groups, strip_size, factor },
        }
    }
}

impl Wire for Dist {
    const MIN_LEN: usize = 16;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        DistView::read(r).map(Self::from)
    }
    fn write(&self, w: &mut Writer) {
        w.str(self.name().as_bytes());
        match self {
            Self::SimpleStripe { strip_size } => strip_size.write(w),
            Self::Basic => {}
            Self::VarStrip { strips } => strips.write(w),
            Self::TwoDStripe { groups, strip_size, factor } => {
                groups.write(w);
                strip_size.write(w);
                factor.write(w);
            }
        }
        w.align8();
    }
}

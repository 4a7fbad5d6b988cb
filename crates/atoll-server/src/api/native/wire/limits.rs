//! Limits on the wire: what a request asks for, and what a sandbox has.

use crate::api::ApiError;
use atoll_core::quantity::QuantityError;
use atoll_core::{Limits, ProfileName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Limits that override those of the profile. A value out of range is rejected with the allowed range.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsRequest {
    /// Memory limit of the sandbox
    #[schema(minimum = 67_108_864, example = 1_073_741_824)]
    pub memory_bytes: Option<u64>,
    /// CPUs in thousandths; 1500 is one and a half CPUs
    #[schema(minimum = 100)]
    pub cpu_milli: Option<u64>,
    /// Wall-clock time limit of one execution
    #[schema(minimum = 100, example = 30_000)]
    pub wall_ms: Option<u64>,
    /// CPU time limit of one execution
    #[schema(minimum = 100)]
    pub cpu_time_ms: Option<u64>,
    /// Size of the scratch disk
    #[schema(minimum = 1_048_576)]
    pub scratch_bytes: Option<u64>,
    /// Maximum number of processes and threads
    #[schema(minimum = 8)]
    pub processes: Option<u64>,
    /// Maximum size of stdout, and separately of stderr, of one execution
    #[schema(minimum = 1024)]
    pub text_output_bytes: Option<u64>,
    /// Maximum size of the rich results of one execution
    #[schema(minimum = 1024)]
    pub rich_output_bytes: Option<u64>,
}

/// The limits of a sandbox.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct LimitsAnswer {
    /// Memory limit of the sandbox
    pub memory_bytes: u64,
    /// CPUs in thousandths
    pub cpu_milli: u64,
    /// Wall-clock time limit of one execution
    pub wall_ms: u64,
    /// CPU time limit of one execution
    pub cpu_time_ms: u64,
    /// Size of the scratch disk
    pub scratch_bytes: u64,
    /// Maximum number of processes and threads
    pub processes: u64,
    /// Maximum size of stdout, and separately of stderr, of one execution
    pub text_output_bytes: u64,
    /// Maximum size of the rich results of one execution
    pub rich_output_bytes: u64,
}

impl From<&Limits> for LimitsAnswer {
    fn from(limits: &Limits) -> Self {
        Self {
            memory_bytes: limits.memory.get(),
            cpu_milli: limits.cpus.get(),
            wall_ms: limits.wall.get(),
            cpu_time_ms: limits.cpu_time.get(),
            scratch_bytes: limits.scratch.get(),
            processes: limits.processes.get(),
            text_output_bytes: limits.text_output.get(),
            rich_output_bytes: limits.rich_output.get(),
        }
    }
}

impl LimitsRequest {
    /// These, and where they say nothing, those of `base`; none above `most`.
    pub(crate) fn over(&self, base: Limits, most: ProfileName) -> Result<Limits, ApiError> {
        let (mut limits, most) = (base, Limits::of(most));
        put(&mut limits.memory, self.memory_bytes, Some(most.memory))?;
        put(&mut limits.cpus, self.cpu_milli, Some(most.cpus))?;
        put(&mut limits.scratch, self.scratch_bytes, Some(most.scratch))?;
        put(&mut limits.processes, self.processes, Some(most.processes))?;
        put(&mut limits.text_output, self.text_output_bytes, Some(most.text_output))?;
        put(&mut limits.rich_output, self.rich_output_bytes, Some(most.rich_output))?;
        // Time is bounded by the sandbox's life, and costs its owner's quota only.
        put(&mut limits.wall, self.wall_ms, None)?;
        put(&mut limits.cpu_time, self.cpu_time_ms, None)?;
        Ok(limits)
    }

    /// Whether something is asked for that is fixed when a sandbox is made.
    pub(crate) fn changes_the_sandbox(&self) -> bool {
        let fixed = [self.memory_bytes, self.cpu_milli, self.scratch_bytes, self.processes];
        fixed.iter().any(Option::is_some)
    }
}

fn put<T>(place: &mut T, asked: Option<u64>, most: Option<T>) -> Result<(), ApiError>
where
    T: TryFrom<u64, Error = QuantityError> + PartialOrd + std::fmt::Display + Copy,
{
    let Some(asked) = asked else { return Ok(()) };
    let asked = T::try_from(asked)?;
    if let Some(most) = most.filter(|most| asked > *most) {
        return Err(ApiError::invalid(format!(
            "limit too high: requested {asked}, this server allows at most {most}"
        ))
        .hint("the operator can raise the maximum with the setting max_profile"));
    }
    *place = asked;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_asked_for_stays_and_what_is_too_much_is_refused() {
        let asked = |memory, wall| LimitsRequest {
            memory_bytes: memory,
            wall_ms: wall,
            ..LimitsRequest::default()
        };
        let small = asked(None, Some(1_000))
            .over(Limits::SMALL, ProfileName::Small)
            .unwrap();
        assert_eq!((small.wall.get(), small.memory), (1_000, Limits::SMALL.memory));
        let refused = |memory, most| asked(Some(memory), None).over(Limits::SMALL, most).unwrap_err();
        assert!(
            refused(1 << 30, ProfileName::Small)
                .message()
                .contains("at most 512 MiB")
        );
        assert!(refused(1, ProfileName::Data).message().contains("allowed 64 MiB"));
        assert!(
            asked(Some(1 << 30), None)
                .over(Limits::SMALL, ProfileName::Data)
                .is_ok()
        );
    }
}

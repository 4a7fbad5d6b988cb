//! What may be done to a sandbox in which state: one table, no I/O, no time.

use atoll_core::EndReason;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Running,
    Paused,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Run code, touch files, start commands.
    Use,
    /// Change when it ends.
    Extend,
    Pause,
    Resume,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the sandbox is paused; resume it first")]
    IsPaused,
    #[error("the sandbox is already running")]
    IsRunning,
    #[error("the sandbox is already paused")]
    PausedAlready,
    #[error("the sandbox has just been paused to disk; try again")]
    JustPaused,
    #[error("the sandbox has ended: {0}")]
    HasEnded(EndReason),
}

/// The state after `act`, or why it cannot be done. `ended` is why an ended one ended.
pub(super) fn step(state: State, act: Act, ended: EndReason) -> Result<State, Refused> {
    match (state, act) {
        (State::Running, Act::Use | Act::Extend) => Ok(State::Running),
        (State::Running, Act::Pause) => Ok(State::Paused),
        (State::Running, Act::Resume) => Err(Refused::IsRunning),
        (State::Paused, Act::Use) => Err(Refused::IsPaused),
        (State::Paused, Act::Extend) => Ok(State::Paused),
        (State::Paused, Act::Pause) => Err(Refused::PausedAlready),
        (State::Paused, Act::Resume) => Ok(State::Running),
        (State::Running | State::Paused, Act::End) => Ok(State::Ended),
        (State::Ended, _) => Err(Refused::HasEnded(ended)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_act_in_every_state_has_one_answer() {
        let why = EndReason::ExpiredIdle;
        let table = [
            (
                State::Running,
                [
                    Ok(State::Running),
                    Ok(State::Running),
                    Ok(State::Paused),
                    Err(Refused::IsRunning),
                    Ok(State::Ended),
                ],
            ),
            (
                State::Paused,
                [
                    Err(Refused::IsPaused),
                    Ok(State::Paused),
                    Err(Refused::PausedAlready),
                    Ok(State::Running),
                    Ok(State::Ended),
                ],
            ),
            (State::Ended, [Err(Refused::HasEnded(why)); 5]),
        ];
        for (state, answers) in table {
            for (act, answer) in [Act::Use, Act::Extend, Act::Pause, Act::Resume, Act::End]
                .into_iter()
                .zip(answers)
            {
                assert_eq!(step(state, act, why), answer, "{act:?} in {state:?}");
            }
        }
    }
}

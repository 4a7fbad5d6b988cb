//! What runs inside a context, carried in the binary and laid into templates: the Python
//! kernel, the JavaScript kernel, the bash driver.

include!(concat!(env!("OUT_DIR"), "/kernel_files.rs"));

/// Says that it is there, then reads one NUL-ended piece of code after the other from descriptor 3, runs it in this very
/// shell, and answers its status. The code itself sees no descriptor 3.
///
/// An interrupt ends the whole piece of code, not the shell. Outside of functions `continue` leaves every loop of the
/// code for the next turn of this one. It cannot leave a function. So there a debug trap is set as well: it runs before
/// each further command, returns from one function after the other, and leaves the rest like the code outside of them.
/// `extdebug` makes the shell skip the command that the trap ran before. What was changed for that is put back.
///
/// All on one line, so that the code's own lines count from one. What the driver does between two pieces of code is not
/// shown by `set -x`; the option itself is kept.
pub const BASH_DRIVER: &str = concat!(
    "printf '0\\n' >&3; ",
    "__atoll_leave='if ((${#FUNCNAME[@]})); then break 1000 2>/dev/null; return 130; ",
    "else trap - DEBUG; ! continue 1000; fi'; ",
    "trap '[[ ${__atoll_on-} ]] && { __atoll_cut=130; if ((${#FUNCNAME[@]})); then ",
    "__atoll_back=\"set -${-//[cis]/}; $(shopt -p extdebug); $(trap -p DEBUG)\"; ",
    "set +eu; shopt -s extdebug; trap \"$__atoll_leave\" DEBUG; ",
    "break 1000 2>/dev/null; return 130; else continue 1000; fi; }' INT; ",
    "while { [[ -z ${__atoll_back-} ]] || { trap - DEBUG; set +eETu; eval \"$__atoll_back\"; }; ",
    "[[ -z ${__atoll_cut-} ]] || printf '%s\\n' \"$__atoll_cut\" >&3; ",
    "[[ $- != *x* ]] || { __atoll_x='set -x; '; set +x; }; ",
    "unset __atoll_on __atoll_cut __atoll_back; IFS= read -r -d '' -u 3 REPLY; } 2>/dev/null; ",
    "do REPLY=${__atoll_x-}$REPLY; __atoll_x=; __atoll_on=1; eval \"$REPLY\" 3>&-; ",
    "{ __atoll_status=$?; unset __atoll_on __atoll_cut; printf '%s\\n' \"$__atoll_status\" >&3; } 2>/dev/null; done",
);

#[cfg(test)]
mod tests {
    #[test]
    fn lines_of_the_code_count_from_one() {
        assert!(!super::BASH_DRIVER.contains('\n'));
    }
}

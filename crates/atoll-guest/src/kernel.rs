//! What runs inside a context, carried in the binary and laid into templates: the Python
//! kernel, the JavaScript kernel, the bash driver.

include!(concat!(env!("OUT_DIR"), "/kernel_files.rs"));

/// The JavaScript context, for the machine's Node.
pub const NODE_KERNEL: &str = include_str!("../node/kernel.cjs");

/// Says that it is there, then reads one NUL-ended piece of code after the other from descriptor 3, runs it in this very
/// shell, and answers its status. The code itself sees no descriptor 3.
///
/// An interrupt ends the whole piece of code, not the shell. Outside of functions `continue` leaves every loop of the
/// code for the next turn of this one. It cannot leave a function. So there a debug trap is set as well: it runs before
/// each further command, returns from one function after the other, and leaves the rest like the code outside of them.
/// `extdebug` makes the shell skip the command that the trap ran before. What was changed for that is put back.
pub const BASH_DRIVER: &str = r#"printf '0\n' >&3
__atoll_leave='if ((${#FUNCNAME[@]})); then break 1000 2>/dev/null; return 130; else trap - DEBUG; ! continue 1000; fi'
trap '[[ ${__atoll_on-} ]] && { __atoll_cut=130
    if ((${#FUNCNAME[@]})); then
        __atoll_back="set -${-//[cis]/}; $(shopt -p extdebug); $(trap -p DEBUG)"
        set +eu; shopt -s extdebug; trap "$__atoll_leave" DEBUG
        break 1000 2>/dev/null; return 130
    else continue 1000; fi; }' INT
while
    [[ -z ${__atoll_back-} ]] || { trap - DEBUG; set +eETu; eval "$__atoll_back"; }
    [[ -z ${__atoll_cut-} ]] || printf '%s\n' "$__atoll_cut" >&3
    unset __atoll_on __atoll_cut __atoll_back
    IFS= read -r -d '' -u 3 REPLY
do
    __atoll_on=1
    eval "$REPLY" 3>&-
    __atoll_status=$?
    unset __atoll_on __atoll_cut
    printf '%s\n' "$__atoll_status" >&3
done"#;

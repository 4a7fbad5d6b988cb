//! What runs inside a context, carried in the binary and laid into templates: the Python
//! kernel, the JavaScript kernel, the bash driver.

use std::collections::BTreeMap;

include!(concat!(env!("OUT_DIR"), "/kernel_files.rs"));

/// Says that it is there, then reads one NUL-ended message after the other from descriptor 3: what [`bash_environment`] has
/// made, the byte 1, and a piece of code. It runs the code in this very shell, and answers its status. The code itself sees
/// no descriptor 3. The environment is put back before the next message is read, however the code ended.
///
/// An interrupt ends the whole piece of code, not the shell. It comes as SIGURG, which means nothing to anybody: where SIGINT comes
/// just when bash 5.2 begins to wait for a program, its handler raises it again without end. It can come more than once. Outside of functions `continue` leaves every loop of the
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
    "until [[ ${__atoll_back-} == *: ]]; do ",
    "__atoll_back=\"set -${-//[cis]/}; $(shopt -p extdebug; trap -p DEBUG; echo :)\"; done; ",
    "set +eu; shopt -s extdebug; trap \"$__atoll_leave\" DEBUG; ",
    "break 1000 2>/dev/null; return 130; else continue 1000; fi; }' URG; ",
    "while { unset __atoll_on; [[ -z ${__atoll_back-} ]] || { trap - DEBUG; set +eETu; eval \"$__atoll_back\"; }; ",
    "[[ -z ${__atoll_cut-} ]] || printf '%s\\n' \"$__atoll_cut\" >&3; ",
    "[[ $- != *x* ]] || { __atoll_x='set -x; '; set +x; }; ",
    "[[ -z ${__atoll_undo-} ]] || eval \"$__atoll_undo\"; ",
    "unset __atoll_cut __atoll_back __atoll_undo; IFS= read -r -d '' -u 3 REPLY; } 2>/dev/null; ",
    "do eval \"${REPLY%%$'\\1'*}\" 2>/dev/null; REPLY=${__atoll_x-}${REPLY#*$'\\1'}; ",
    "__atoll_x=; __atoll_on=1; eval \"$REPLY\" 3>&-; ",
    "{ __atoll_status=$?; unset __atoll_on __atoll_cut; printf '%s\\n' \"$__atoll_status\" >&3; } 2>/dev/null; done",
);

/// Shell words that set an environment for one piece of code, and say in `__atoll_undo` how it was before. Names that are no
/// names in bash are left out: it could not hold them.
pub fn bash_environment(variables: &BTreeMap<String, String>) -> String {
    let each = variables.iter().filter(|(name, _)| is_name(name)).map(|(name, value)| {
        let value = quoted(value);
        format!("__atoll_undo+=\"unset {name}; $(declare -p {name} || :)\"$'\\n'; export {name}={value}; ")
    });
    each.collect()
}

fn is_name(name: &str) -> bool {
    let letters = name
        .bytes()
        .all(|letter| letter.is_ascii_alphanumeric() || letter == b'_');
    letters && name.starts_with(|first: char| !first.is_ascii_digit())
}

/// In the quotes of bash in which no byte means anything but itself.
fn quoted(value: &str) -> String {
    let letters = value.chars().map(|letter| match letter {
        '\'' | '\\' => format!("\\{letter}"),
        letter if letter.is_ascii_control() => format!("\\x{:02x}", u32::from(letter)),
        letter => letter.to_string(),
    });
    format!("$'{}'", letters.collect::<String>())
}

#[cfg(test)]
mod tests {
    #[test]
    fn lines_of_the_code_count_from_one() {
        assert!(!super::BASH_DRIVER.contains('\n'));
    }

    #[test]
    fn a_value_cannot_leave_its_quotes() {
        let told = super::bash_environment(&[("A".to_owned(), "'\\\u{1}$(x)é".to_owned())].into());
        assert!(told.ends_with(r"export A=$'\'\\\x01$(x)é'; "), "{told}");
        for name in ["A;B", "1A", "", "a-b"] {
            assert_eq!(
                super::bash_environment(&[(name.to_owned(), String::new())].into()),
                "",
                "{name}"
            );
        }
    }
}

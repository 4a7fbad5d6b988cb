//! What runs inside a context, carried in the binary and laid into templates: the Python kernel, the bash driver.

include!(concat!(env!("OUT_DIR"), "/kernel_files.rs"));

/// Says that it is there, then reads one NUL-ended piece of code after the other from descriptor 3, runs it in this very shell, and answers its
/// status. The code itself sees no descriptor 3. An interrupt ends the running command, not the shell.
pub const BASH_DRIVER: &str = r#"printf '0\n' >&3; trap : INT; while IFS= read -r -d '' -u 3 REPLY; do eval "$REPLY" 3>&-; printf '%s\n' "$?" >&3; done"#;

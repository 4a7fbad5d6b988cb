//! tidy: table, names of programs and what they are known for

pub(super) const NETWORK: [&str; 22] = [
    "curl",
    "wget",
    "nc",
    "ncat",
    "netcat",
    "socat",
    "ssh",
    "scp",
    "sftp",
    "rsync",
    "ftp",
    "tftp",
    "telnet",
    "dig",
    "nslookup",
    "host",
    "ping",
    "traceroute",
    "nmap",
    "aria2c",
    "openssl",
    "whois",
];
pub(super) const PROCESS: [&str; 20] = [
    "kill",
    "pkill",
    "killall",
    "nohup",
    "setsid",
    "disown",
    "renice",
    "strace",
    "ltrace",
    "gdb",
    "unshare",
    "nsenter",
    "chroot",
    "mount",
    "umount",
    "sudo",
    "su",
    "doas",
    "crontab",
    "systemctl",
];
pub(super) const INSTALLERS: [&str; 17] = [
    "pip",
    "pip3",
    "pipx",
    "conda",
    "mamba",
    "micromamba",
    "uv",
    "apt",
    "apt-get",
    "yum",
    "dnf",
    "apk",
    "npm",
    "yarn",
    "pnpm",
    "gem",
    "cargo",
];
pub(super) const INSTALLING: [&str; 7] = ["install", "add", "i", "ci", "update", "upgrade", "reinstall"];
pub(super) const SHELLS: [&str; 6] = ["sh", "bash", "zsh", "dash", "ksh", "ash"];
/// Commands that run the rest of their words.
pub(super) const WRAPPERS: [&str; 9] = [
    "env", "nohup", "timeout", "xargs", "exec", "command", "time", "nice", "sudo",
];
pub(super) const DECODERS: [&str; 6] = ["base64", "xxd", "openssl", "rev", "tr", "gunzip"];
/// Programs that write to their last word, and those that remove or move.
pub(super) const WRITERS: [&str; 10] = [
    "cp", "tee", "touch", "mkdir", "ln", "install", "chmod", "chown", "truncate", "mv",
];
/// Programs that show the files they are given.
pub(super) const READERS: &[&str] = &[
    "cat", "tac", "head", "tail", "less", "more", "nl", "strings", "xxd", "od", "hexdump", "base64", "base32", "tar",
    "sort", "uniq", "cut", "paste", "rev", "wc", "diff", "cmp", "zcat", "gzip", "zip", "fold", "split",
];
/// Those whose first word is a pattern or a script, unless an option has it.
pub(super) const SEARCHERS: &[&str] = &["grep", "egrep", "fgrep", "rg", "sed", "awk", "gawk", "mawk"];
/// Those that read all words but the last, which they write.
pub(super) const COPIERS: &[&str] = &["cp", "install", "ln", "mv"];
/// Files that are no data.
pub(super) const DEVICES: &[&str] = &["/dev/null", "/dev/stdin", "/dev/urandom", "/dev/random", "/dev/zero"];
pub(super) const DELETERS: [&str; 4] = ["rm", "rmdir", "unlink", "shred"];

pub(super) fn is_listed(name: &str) -> bool {
    NETWORK.contains(&name)
        || PROCESS.contains(&name)
        || INSTALLERS.contains(&name)
        || DELETERS.contains(&name)
        || SHELLS.contains(&name)
}

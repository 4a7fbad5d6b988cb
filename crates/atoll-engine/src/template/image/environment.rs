//! The environment of an image's template: what the image says, what our kernel needs, and what every sandbox has. Pure.

use super::super::INSIDE;
use super::python::{Python, USUAL_PATH};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

type Env = BTreeMap<String, String>;

/// All variables of an image together.
const MOST_BYTES: usize = 64 << 10;
/// Variables that name a file which a program runs or loads before its own work. An image has other ways to do that; our
/// programs inside should not be caught by it unawares.
const DROPPED: [&str; 5] = ["BASH_ENV", "ENV", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONINSPECT"];
/// Packages start no threads of their own at import: a warm interpreter that has some cannot be forked.
const ONE_THREAD: [(&str, &str); 4] = [
    ("OPENBLAS_NUM_THREADS", "1"),
    ("OMP_NUM_THREADS", "1"),
    ("MKL_NUM_THREADS", "1"),
    ("JE_ARROW_MALLOC_CONF", "background_thread:false"),
];

/// What the image sets, as far as it is taken over.
pub(super) fn of_image(lines: &[String]) -> Env {
    let mut left = MOST_BYTES;
    let mut env = Env::new();
    for (name, value) in lines.iter().filter_map(|line| line.split_once('=')) {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_name = name.chars().all(word) && !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty();
        let loads = name.starts_with("LD_") && name != "LD_LIBRARY_PATH";
        let is_taken = is_name && !loads && !DROPPED.contains(&name) && !value.contains('\0');
        if let Some(rest) = left.checked_sub(name.len() + value.len()).filter(|_| is_taken) {
            left = rest;
            env.insert(name.to_owned(), value.to_owned());
        }
    }
    env
}

/// Where the image looks for programs.
pub(super) fn path(env: &Env) -> &str {
    env.get("PATH").map_or(USUAL_PATH, String::as_str)
}

/// Ours over the kernel's over the image's.
pub(super) fn whole(image: &Env, kernel: &Env, has_python: bool) -> Env {
    let threads = ONE_THREAD.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let path = match has_python {
        true => format!("{INSIDE}/venv/bin:{}", path(image)),
        false => path(image).to_owned(),
    };
    let ours = [
        ("ATOLL_FONTS", ""),
        ("HOME", "/home/user"),
        ("LANG", "C.UTF-8"),
        ("LOGNAME", "user"),
        ("MPLBACKEND", "Agg"),
        ("PATH", &path),
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("PYTHONNOUSERSITE", "1"),
        ("USER", "user"),
    ];
    let ours = ours.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut env: Env = threads.into_iter().chain(image.clone()).collect();
    env.extend(kernel.clone());
    env.extend(ours);
    env
}

/// Where the image has packages that its interpreter would find by a virtual environment or a variable.
pub(super) fn package_places(env: &Env, python: &Python) -> Vec<PathBuf> {
    let named = env.get("PYTHONPATH").map_or("", String::as_str).split(':');
    let plain = |path: &PathBuf| {
        let text = path.to_string_lossy();
        path.is_absolute()
            && text
                .chars()
                .all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '\''))
    };
    let named = named.map(|path| Path::new(path).to_owned());
    named.chain(python.environment.clone()).filter(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Env {
        of_image(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn ours_win_and_the_rest_of_the_image_stays() {
        let image = read(&[
            "PATH=/opt/x/bin:/bin",
            "HOME=/root",
            "GREETING=hi=there",
            "OMP_NUM_THREADS=4",
        ]);
        let env = whole(&image, &Env::new(), true);
        assert_eq!(env["PATH"], "/opt/atoll/venv/bin:/opt/x/bin:/bin");
        assert_eq!(
            (env["HOME"].as_str(), env["GREETING"].as_str()),
            ("/home/user", "hi=there")
        );
        assert_eq!(
            (env["OMP_NUM_THREADS"].as_str(), env["MKL_NUM_THREADS"].as_str()),
            ("4", "1")
        );
        assert_eq!(whole(&Env::new(), &Env::new(), false)["PATH"], USUAL_PATH);
    }

    #[test]
    fn what_would_run_before_our_programs_is_dropped_and_the_rest_is_bounded() {
        let long = format!("LONG={}", "x".repeat(MOST_BYTES));
        let image = read(&[
            "LD_PRELOAD=/x.so",
            "LD_LIBRARY_PATH=/l",
            "BASH_ENV=/x",
            "1A=b",
            "A-B=c",
            "NOTHING",
            &long,
            "B=c",
        ]);
        let names: Vec<&str> = image.keys().map(String::as_str).collect();
        assert_eq!(names, ["B", "LD_LIBRARY_PATH"]);
    }

    #[test]
    fn package_places_are_plain_absolute_paths() {
        let python = Python {
            version: "3.12.1".parse().unwrap(),
            executable: "/usr/bin/python3.12".into(),
            sites: Vec::new(),
            environment: Some("/app/venv/lib/python3.12/site-packages".into()),
        };
        let env = read(&["PYTHONPATH=/app:rel::/a\"b:/ok"]);
        let places = package_places(&env, &python);
        assert_eq!(
            places,
            ["/app", "/ok", "/app/venv/lib/python3.12/site-packages"].map(PathBuf::from)
        );
    }
}

//! Changes two things in a copied ELF file, in place: where libraries are looked for, and mentions of an old path.
//!
//! Nothing moves: a new text is never longer than the old one. Only 64-bit little-endian files are known. Pure.

const MAGIC: &[u8] = b"\x7fELF\x02\x01";
const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const PT_INTERP: u64 = 3;
const DT_STRTAB: u64 = 5;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    #[error("damaged or unsupported ELF file")]
    Malformed,
    #[error("the library path `{old}` is too short to be replaced with `{new}`")]
    NoRoom { old: String, new: String },
}

/// Sets every library path that names `foreign`. A file without one stays as it is.
pub(super) fn set_library_path(bytes: &mut [u8], foreign: &str, new: &str) -> Result<(), ElfError> {
    if !bytes.starts_with(MAGIC) {
        return Err(ElfError::Malformed);
    }
    for at in library_paths(bytes)? {
        let end = at + c_length(bytes, at)?;
        let text = bytes.get_mut(at..end).ok_or(ElfError::Malformed)?;
        let old = String::from_utf8_lossy(text).into_owned();
        if !old.contains(foreign) {
            continue;
        }
        if new.len() > text.len() {
            return Err(ElfError::NoRoom {
                old,
                new: new.to_owned(),
            });
        }
        text.fill(0);
        text.iter_mut().zip(new.bytes()).for_each(|(to, from)| *to = from);
    }
    Ok(())
}

/// Covers all but the last part of each mention of `old` by `new` and slashes. No text changes its length, and its
/// tail stays: linkers let a short text share the tail of a longer one, so `/a/b/3.13.0` may also be the `3.13.0`
/// that says which version this is. Slashes alone are used if `new` is too long: the old path is gone either way.
pub(super) fn mask_path(bytes: &mut [u8], old: &str, new: &str) {
    let covered = old.rfind('/').unwrap_or(old.len());
    let mut cover = if new.len() > covered {
        Vec::new()
    } else {
        new.as_bytes().to_vec()
    };
    cover.resize(covered, b'/');
    let mut at = 0;
    while let Some(found) = find(bytes.get(at..).unwrap_or_default(), old.as_bytes()) {
        let start = at + found;
        at = start + old.len();
        if let Some(text) = bytes.get_mut(start..start + covered) {
            text.copy_from_slice(&cover);
        }
    }
}

pub(super) fn find(bytes: &[u8], word: &[u8]) -> Option<usize> {
    let first = *word.first()?;
    let mut at = 0;
    loop {
        at += bytes.get(at..)?.iter().position(|byte| *byte == first)?;
        if bytes.get(at..)?.starts_with(word) {
            return Some(at);
        }
        at += 1;
    }
}

/// This machine, in the words of the format.
#[cfg(target_arch = "x86_64")]
pub(super) const MACHINE: u64 = 62;
#[cfg(target_arch = "aarch64")]
pub(super) const MACHINE: u64 = 183;

/// What a program says about itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) machine: u64,
    /// What loads it and its libraries; a static program has none.
    pub(super) loader: Option<String>,
}

/// `None` if it is no program that this reader knows.
pub(super) fn program(bytes: &[u8]) -> Option<Program> {
    let segments = segments(bytes.starts_with(MAGIC).then_some(bytes)?).ok()?;
    let loader = segments
        .iter()
        .find(|segment| segment.kind == PT_INTERP)
        .and_then(|segment| {
            let start = usize::try_from(segment.offset).ok()?;
            let text = bytes.get(start..start.checked_add(usize::try_from(segment.size).ok()?)?)?;
            Some(String::from_utf8_lossy(text).trim_end_matches('\0').to_owned())
        });
    let machine = number(bytes, 18, 2).ok()?;
    Some(Program { machine, loader })
}

/// Offsets of the library paths in the file.
fn library_paths(bytes: &[u8]) -> Result<Vec<usize>, ElfError> {
    let segments = segments(bytes)?;
    let Some(dynamic) = segments.iter().find(|segment| segment.kind == PT_DYNAMIC) else {
        return Ok(Vec::new());
    };
    let entries = entries(bytes, dynamic)?;
    let Some((_, table)) = entries.iter().find(|(tag, _)| *tag == DT_STRTAB) else {
        return Err(ElfError::Malformed);
    };
    let wanted = entries.iter().filter(|(tag, _)| matches!(*tag, DT_RPATH | DT_RUNPATH));
    let address = |value: u64| table.checked_add(value).ok_or(ElfError::Malformed);
    wanted
        .map(|(_, value)| file_offset(&segments, address(*value)?))
        .collect()
}

struct Segment {
    kind: u64,
    offset: u64,
    address: u64,
    size: u64,
}

fn segments(bytes: &[u8]) -> Result<Vec<Segment>, ElfError> {
    let (table, count) = (number(bytes, 32, 8)?, number(bytes, 56, 2)?);
    let size = number(bytes, 54, 2)?;
    let segment = |index: u64| {
        let at = table.checked_add(index * size).ok_or(ElfError::Malformed)?;
        let field = |skip: u64, width| number(bytes, at.saturating_add(skip), width);
        Ok(Segment {
            kind: field(0, 4)?,
            offset: field(8, 8)?,
            address: field(16, 8)?,
            size: field(32, 8)?,
        })
    };
    (0..count).map(segment).collect()
}

fn entries(bytes: &[u8], dynamic: &Segment) -> Result<Vec<(u64, u64)>, ElfError> {
    let mut found = Vec::new();
    for index in 0..dynamic.size / 16 {
        let at = dynamic.offset.checked_add(index * 16).ok_or(ElfError::Malformed)?;
        let (tag, value) = (number(bytes, at, 8)?, number(bytes, at.saturating_add(8), 8)?);
        if tag == 0 {
            break;
        }
        found.push((tag, value));
    }
    Ok(found)
}

fn file_offset(segments: &[Segment], address: u64) -> Result<usize, ElfError> {
    let loaded = segments.iter().filter(|segment| segment.kind == PT_LOAD);
    let offset = loaded
        .filter_map(|segment| Some((address.checked_sub(segment.address)?, segment)))
        .find(|(skip, segment)| *skip < segment.size)
        .and_then(|(skip, segment)| segment.offset.checked_add(skip));
    offset
        .and_then(|offset| usize::try_from(offset).ok())
        .ok_or(ElfError::Malformed)
}

fn number(bytes: &[u8], at: u64, width: usize) -> Result<u64, ElfError> {
    let at = usize::try_from(at).map_err(|_| ElfError::Malformed)?;
    let end = at.checked_add(width).ok_or(ElfError::Malformed)?;
    let part = bytes.get(at..end).ok_or(ElfError::Malformed)?;
    Ok(part.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
}

fn c_length(bytes: &[u8], at: usize) -> Result<usize, ElfError> {
    let rest = bytes.get(at..).ok_or(ElfError::Malformed)?;
    rest.iter().position(|byte| *byte == 0).ok_or(ElfError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of headers, one loaded segment at address 0x1000, and a library path.
    fn elf(path: &str) -> Vec<u8> {
        let mut bytes = vec![0; 512];
        let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        put(32, 64);
        put(54, 56 | 2 << 16);
        for (at, kind, offset, address, size) in [(64, 1, 0, 0x1000, 512), (120, 2, 200, 0x10c8, 48)] {
            put(at, kind);
            put(at + 8, offset);
            put(at + 16, address);
            put(at + 32, size);
        }
        for (at, value) in [(200, DT_STRTAB), (208, 0x1000 + 300), (216, DT_RUNPATH), (224, 4)] {
            put(at, value);
        }
        bytes[..MAGIC.len()].copy_from_slice(MAGIC);
        bytes[304..304 + path.len()].copy_from_slice(path.as_bytes());
        bytes[400..404].copy_from_slice(b"tail");
        bytes
    }

    #[test]
    fn the_library_path_is_replaced_in_place() {
        let mut bytes = elf("/home/someone/py/lib");
        set_library_path(&mut bytes, "/home/someone", "$ORIGIN/../lib").unwrap();
        assert_eq!(&bytes[304..325], b"$ORIGIN/../lib\0\0\0\0\0\0\0");
        assert_eq!((bytes.len(), &bytes[400..404]), (512, &b"tail"[..]));
    }

    #[test]
    fn another_library_path_stays() {
        let mut bytes = elf("/usr/lib/special");
        set_library_path(&mut bytes, "/home/someone", "$ORIGIN/../lib").unwrap();
        assert_eq!(bytes, elf("/usr/lib/special"));
    }

    #[test]
    fn a_path_without_room_is_an_error() {
        let error = set_library_path(&mut elf("/h/py/lib"), "/h/py", "$ORIGIN/../lib").unwrap_err();
        assert!(error.to_string().contains("/h/py/lib"), "{error}");
    }

    #[test]
    fn damaged_files_are_refused_and_never_panic() {
        let whole = elf("/home/someone/py/lib");
        for length in 0..whole.len() {
            drop(set_library_path(&mut whole[..length].to_vec(), "/home", "x"));
        }
        let mut wild = whole;
        wild[32..40].fill(0xff);
        assert_eq!(set_library_path(&mut wild, "/home", "x"), Err(ElfError::Malformed));
    }

    #[test]
    fn a_program_tells_its_machine_and_its_loader() {
        let bytes = std::fs::read("/bin/sh").unwrap();
        let found = program(&bytes).unwrap();
        assert!(found.machine == MACHINE && found.loader.unwrap().contains("ld-"));
        assert_eq!(program(b"#!/bin/sh"), None);
        for length in 0..bytes.len().min(2000) {
            drop(program(&bytes[..length]));
        }
    }

    /// Any Python can load it: it names no library and no version of one.
    #[test]
    fn the_zygote_library_asks_for_no_other() {
        const DT_NEEDED: u64 = 1;
        const DT_VERNEED: u64 = 0x6fff_fffe;
        let segments = segments(atoll_jail::ZYGOTE_LIBRARY).unwrap();
        let dynamic = segments.iter().find(|segment| segment.kind == PT_DYNAMIC).unwrap();
        let tags: Vec<u64> = entries(atoll_jail::ZYGOTE_LIBRARY, dynamic)
            .unwrap()
            .into_iter()
            .map(|(tag, _)| tag)
            .collect();
        assert!(tags.contains(&DT_STRTAB) && !tags.contains(&DT_NEEDED) && !tags.contains(&DT_VERNEED));
    }

    #[test]
    fn mentions_are_covered_and_keep_their_tails() {
        let mut bytes = b"a/home/u/py/lib\0/home/u/py\0/home/u/pi\0".to_vec();
        mask_path(&mut bytes, "/home/u/py", "/opt");
        assert_eq!(bytes, b"a/opt////py/lib\0/opt////py\0/home/u/pi\0");
        mask_path(&mut bytes, "/opt////py", "/longer/than/that");
        assert_eq!(find(&bytes, b"/opt"), None);
    }
}
